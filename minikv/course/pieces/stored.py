"""The texts that are stored for a chapter: the hints, in `hints_NN.txt`, and the wrong answers, in `wrong_NN.txt`."""

from __future__ import annotations

from functools import lru_cache
from itertools import takewhile
from pathlib import Path
from typing import NamedTuple

from minikv.engine import Section, sections


class WrongAnswer(NamedTuple):
    """A wrong answer that people give, with the hint that is about this mistake."""

    section: Section
    hint: str

    @property
    def mistake(self) -> str:
        """The mistake in it, in a few words."""
        return self.section.remark.strip(" :")


@lru_cache
def wrong_answers(chapter: int) -> tuple[WrongAnswer, ...]:
    """The wrong answers of a chapter: in each section, comments that are the hint come first.

    >>> wrong_answers(3)[0].mistake
    'the old node becomes the upper half'
    """
    return tuple(WrongAnswer(section, _hint_in(section.text)) for section in _stored("wrong", chapter))


def _stored(what: str, chapter: int) -> list[Section]:
    return sections(Path(__file__).with_name(f"{what}_{chapter:02d}.txt").read_text("utf-8"))


@lru_cache
def hints_for(id: str) -> tuple[str, ...]:
    """The hints for a piece, an exercise or a hunt, by its id: the paragraphs of its section in `hints_NN.txt`.

    >>> hints_for("2.3")[1]
    'Page 0 is a page too, so compare the result of `guard` with None.'
    """
    texts = [section.text for section in _stored("hints", int(id.split(".")[0])) if section.id == id]
    return tuple(" ".join(paragraph.split()) for text in texts for paragraph in text.split("\n\n"))


def wrong_answers_to(id: str) -> list[WrongAnswer]:
    """The wrong answers to a piece or an exercise, by its id.

    >>> len(wrong_answers_to("3.6"))
    2
    """
    return [answer for answer in wrong_answers(int(id.split(".")[0])) if answer.section.id == id]


def _hint_in(text: str) -> str:
    return " ".join(line[2:] for line in takewhile(lambda line: line.startswith("# "), text.splitlines()))

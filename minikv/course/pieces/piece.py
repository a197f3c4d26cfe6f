"""A piece: a part of the engine that the learner writes, and how an answer is compared with ours.

A case is played: a generator makes a structure, calls the piece, and yields a frame after each step, with what can be
seen then. Yours is compared with ours frame by frame, and a frame that differs is shown as a picture. The pieces of a
chapter are in `chNN.py`; ours are in `minikv.engine`, and the wrong answers that people give in `wrong_NN.txt`.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from hypothesis.strategies import SearchStrategy

from minikv.engine.sections import LAST, Section, World, section_of, sections

CHAPTERS = tuple(sorted(int(file.stem[2:]) for file in Path(__file__).parent.glob("ch[0-9][0-9].py")))


class Shot(NamedTuple):
    """A step of a case that was played: what was done, what can be seen now by name, and a picture or what to draw."""

    caption: str
    seen: Mapping[str, Any]
    thing: Any = None


@dataclass(frozen=True)
class Cost:
    """What a piece is to be sparing with: `count(world)` says how many `unit` a fixed day takes.

    An answer that takes more than `most` times what ours takes does not pass.
    """

    unit: str
    count: Callable[[World], int]
    most: float
    why: str


@dataclass(frozen=True)
class Piece:
    """A part of the engine to be written: `id` and `name` as in the notebook, and how to judge an answer.

    `play(world, case)` yields the frames of a case; `strategy` makes more of them than the hand-picked `cases`. `hints`
    are a ladder: each says a little more than the one before.
    """

    id: str
    name: str
    play: Callable[[World, Any], Iterator[Shot]]
    cases: Sequence[Any]
    hints: Sequence[str]
    strategy: SearchStrategy[Any] | None = None
    cost: Cost | None = None

    @property
    def chapter(self) -> int:
        """The chapter in which it is written."""
        return int(self.id.split(".")[0])

    @property
    def solution(self) -> str:
        """Our code."""
        return section_of(self.id).text

    @property
    def wrong(self) -> list[WrongAnswer]:
        """The wrong answers that people give."""
        return [answer for answer in wrong_answers(self.chapter) if answer.section.id == self.id]


class WrongAnswer(NamedTuple):
    """A wrong answer that people give, with the hint that is about this mistake."""

    section: Section
    hint: str

    @property
    def mistake(self) -> str:
        """What is wrong with it, in a few words."""
        return self.section.remark.strip(" :")


@lru_cache
def wrong_answers(chapter: int) -> tuple[WrongAnswer, ...]:
    """The wrong answers of a chapter: in each section, comments that are the hint come first.

    >>> wrong_answers(3)[0].mistake
    'the old node becomes the upper half'
    """
    file = Path(__file__).with_name(f"wrong_{chapter:02d}.txt")
    found = sections(file.read_text("utf-8")) if file.exists() else []
    return tuple(WrongAnswer(section, _hint_in(section.text)) for section in found)


def _hint_in(text: str) -> str:
    comments = []
    for line in text.splitlines():
        if not line.startswith("# "):
            break
        comments.append(line[2:])
    return " ".join(comments)


def pieces_of(chapter: int) -> Sequence[Piece]:
    """The pieces of a chapter, in order.

    >>> [piece.id for piece in pieces_of(3)]
    ['3.1', '3.2', '3.3', '3.4']
    """
    if chapter not in CHAPTERS:
        return ()
    found: Sequence[Piece] = importlib.import_module(f"minikv.course.pieces.ch{chapter:02d}").PIECES
    return found


def all_pieces() -> list[Piece]:
    """The pieces of all chapters, in order."""
    return [piece for chapter in CHAPTERS for piece in pieces_of(chapter)]


def pieces_for(chapter: int) -> list[Piece]:
    """The pieces that may run in a chapter, in order: those of the engine up to it, and its own.

    >>> [piece.id for piece in pieces_for(2)]
    ['1.1', '1.2', '2.1', '2.2', '2.3']
    """
    return [piece for each in CHAPTERS if each <= min(chapter, LAST) or each == chapter for piece in pieces_of(each)]


def find_piece(label: str) -> Piece | None:
    """The piece whose id is the first word of `label`, or `None`.

    >>> find_piece("3.1 split").name, find_piece("9.9 nothing")
    ('split', None)
    """
    wanted = label.split()[0] if label.split() else label
    return next((piece for piece in all_pieces() if piece.id == wanted), None)

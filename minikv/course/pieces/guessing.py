"""Predictions: `guess` before you look, `fold` over the answer. And `progress`, over the whole course.

A `<details>` element in an output is closed on opening, after Run All and in exported HTML, in notebooks that are not
trusted as well; hiding a cell's output by its metadata is none of that. On a code-hosting site nothing is folded.
"""

from __future__ import annotations

import ast
import contextlib
import re
from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

import numpy as np

from minikv.course.pictures import Picture
from minikv.course.pieces.piece import CHAPTERS
from minikv.course.pieces.pressing import offer_answers
from minikv.course.pieces.record import (
    RIGHT,
    Guess,
    corrected,
    missed,
    predictions,
    remember,
    sign,
    standing,
    tried_tests,
)
from minikv.course.pieces.worlds import session
from minikv.testing.attempt import short_repr

MOST_LETTERS = 200  # of a prediction in which numbers are looked for
_WORDS = {"none": 0, "zero": 0, "one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8}
_NUMBER = re.compile(r"(?<![\w.])\d{1,3}(?:,\d{3})+(?![\w.,])|(?<![\w.])-?\d+(?:\.\d+)?(?!\w*\d)")
MOST_ASKED, MOST_BACK = 200, 3  # letters of a question; misses that come back at once
_FORM = re.compile(r"\[[^\[\]]*\]$")  # at the end of a question: how its answer is written, as in [., .]
_OPTION = re.compile(r"(?<!\w)([\"'])([^\"']{1,30})\1(?!\w)")  # in a question: one of the answers to choose from
_NO_GUESS, _GUESSED = "◇", "◆"


def guess(label: str, question: object = "", *answer: Any) -> None:
    """Record your prediction, a number, a list or a few words, before the next cell shows the answer.

    Several values are one list, and `None` is no prediction. Anything else than numbers and text is refused, and so are
    a word that the question does not offer, and more or fewer values than it asks for.

    Where widgets run, an open guess has a button for each answer that the question offers, or a field. A press
    counts like an answer in the cell; several presses are votes, and the last one is the guess. `None` keeps it.

    >>> guess("3.7", "how many nodes are there?", None)
    ◇ 3.7: no guess yet. Replace None with a number, or words in "quotes", then run the next cell.
    >>> guess("3.7", "how many nodes are there?", 4)
    ◆ 3.7: your guess is 4. Now run the next cell.
    >>> guess("3.7", "which pages? [., .]", None)
    ◇ 3.7: no guess yet. Replace None with your answer in the form [., .], then run the next cell.
    >>> guess("3.7", 'is it "more" or "less"?', None)
    ◇ 3.7: no guess yet. Replace None with "more" or "less" (keep the quotes), then run the next cell.
    >>> guess("3.7", 'is it "more" or "less"?', "equal")
    ◇ 3.7: 'equal' is not one of the answers to choose from: "more" or "less".
    >>> guess("3.7", "which pages? [., .]", 4)
    ◇ 3.7: the answer has 2 values, [., .], but your guess has 1. Try again.
    """
    name, asked = _name(label), str(question)
    value = list(answer) if len(answer) > 1 else answer[0] if answer else None
    act = "Replace None with" if answer else "After the question, add"
    offered = _options(asked)

    def record(said: Any, presses: int = 0) -> str:
        """Put the prediction into the session, with what was said if that counts, and say what happened."""
        refused, votes = _refused(asked, said, act), session.votes[name]
        if not (refused and presses):  # what is pressed and refused leaves the guess as it is
            session.guesses[name] = Guess(asked[:MOST_ASKED])
        if refused:
            return f"{_NO_GUESS} {name}: {refused}"
        session.guesses[name].said, words = said, short_repr(said)
        votes.update([words] * presses)
        counts = ", ".join(f"{each} ×{count}" for each, count in votes.items())
        tally = f" Votes: {counts}." if votes.total() > 1 else ""
        return f"{_GUESSED} {name}: your guess is {words}.{tally} Now run the next cell."

    if not _is_missing(value):
        session.votes[name].clear()
        print(record(value))
        return
    # the cell's None leaves what was pressed
    words = record(session.guesses[name].said if session.votes[name] else value)
    below = words.replace(". Replace", ". Answer below, or replace")
    if not offer_answers(below, offered, lambda text: record(text if offered else _literal(text), 1)):
        print(words)


def _refused(question: str, value: Any, act: str) -> str:
    """Return why a value is no guess; nothing of one that is."""
    offered, form = _options(question), _form_in(question)
    if _is_missing(value):
        return f"no guess yet. {act} {_form_of(question)}, then run the next cell."
    if not _is_plain(value):
        instead = 'Write a number, a list such as [1, 2], or words in "quotes".'
        return f"a {type(value).__name__} can't be a guess. {instead}"
    if isinstance(value, str) and offered and _chosen(value, offered) is None:
        return f"{short_repr(value)} is not one of the answers to choose from: {_listed(offered)}."
    if form and "..." not in form and (has := len(_meaning(value, []))) != (asked := form.count(",") + 1):
        said = f"the answer has {asked} values, {form}, but your guess has {has}"
        return f"{said}. Try again."
    return ""


def _is_missing(value: Any) -> bool:
    return value is None or value is ... or (isinstance(value, str) and not value.strip())


def _form_of(question: str) -> str:
    """Say how to write the answer to a question: in the form at its end, or as one of the words that it offers."""
    if offered := _options(question):
        return f"{_listed(offered)} (keep the quotes)"
    form = _form_in(question)
    return f"your answer in the form {form}" if form else 'a number, or words in "quotes"'


def _form_in(question: str) -> str:
    """Return the form at the end of a question, if there is one."""
    return "".join(_FORM.findall(question))


def _options(question: str) -> list[str]:
    """Return the answers that a question offers in quotes; none where there is only one."""
    found = [word for _, word in _OPTION.findall(question)]
    return found if len(found) > 1 else []


def _listed(words: Sequence[str]) -> str:
    return ", ".join(f'"{word}"' for word in words[:-1]) + f' or "{words[-1]}"'


def _chosen(text: str, offered: Sequence[str]) -> str | None:
    """Return the one offered answer whose words are in `text`, or None where none is, or several are."""
    words = f" {_letters(text)} "
    found = [word for word in offered if f" {_letters(word)} " in words]
    longest = max(found, key=len, default=None)
    return longest if all(_letters(word) in _letters(longest) for word in found if longest) else None


def _letters(text: str) -> str:
    """Return the words of a text without capitals and punctuation."""
    return " ".join(re.findall(r"\w+", text.lower()))


def _name(label: object) -> str:
    """The first word of the label of a prediction."""
    return (str(label).split() or [""])[0]


def _is_plain(value: Any) -> bool:
    """Return whether a value is a number or text, or a list, a tuple or an array of those."""
    if isinstance(value, (list, tuple)):
        return all(map(_is_plain, value))
    return isinstance(value, (str, int, float, np.generic, np.ndarray))


def come_back(chapter: int) -> list[str]:
    """The predictions that were missed in the chapters before one, in words: its reader may try some of them again.

    >>> come_back(0)
    []
    """
    found = [(label, miss) for label, miss in missed().items() if _chapter_of(label) < chapter]
    if not found:
        return []
    lines = [_back(label, **miss) for label, miss in found[:MOST_BACK]]
    more = f" progress() lists {len(found) - MOST_BACK} more." if len(found) > MOST_BACK else ""
    return [f"{_NO_GUESS} You missed these predictions earlier. What would you say now?{more}", *lines]


def _back(label: str, question: str, said: str) -> str:
    asked = _FORM.sub("", question).strip().replace("*", "")
    asked += "." * (not asked.endswith((".", "?", "!")))
    return f"  {label} {asked} You said {said}; chapter {_chapter_of(label):02d} shows the answer."


def _chapter_of(label: str) -> int:
    number = label.split(".")[0]
    return int(number) if number.isdecimal() else max(CHAPTERS) + 1  # a page that comes after all of them


def fold(label: str, answer: Any, *things: Any) -> Folded:
    """The answer to a prediction: closed in a stored notebook, and open once you have guessed.

    `answer` is what `guess` is compared with, and `things` are what shows it: text or pictures.

    >>> fold("3.7", 4, "root > [1 2]")
    3.7, the answer: 4
    root > [1 2]
    """
    return Folded(_name(label), answer, things)


class Folded:
    """The answer to a prediction, with the things that show it, as `fold` returns them."""

    def __init__(self, label: str, answer: Any, things: tuple[Any, ...]):
        self.label, self.answer, self.things = label, answer, things
        prediction = session.guesses.get(label)
        self.verdict = "" if prediction is None or prediction.said is None else self._compared(prediction)

    def _compared(self, prediction: Guess) -> str:
        guessed, offered = _one_number(prediction.said, self.answer), _options(prediction.question)
        means = (isinstance(guessed, str) and _chosen(guessed, offered)) or guessed
        right = _meaning(means, self.answer) == _meaning(self.answer, self.answer)
        prediction.said, prediction.is_right = guessed, right
        remember(self.label, RIGHT if right else prediction.miss)
        if right:
            return f"Your guess, {short_repr(guessed)}, is correct."
        return f'Your guess was {short_repr(guessed)}. Open "Why" below to see what you missed.'

    def __repr__(self) -> str:
        answer = f"{self.label}, the answer: {short_repr(self.answer)}"
        return "\n".join([*[self.verdict] * bool(self.verdict), answer, *map(str, self.things)])

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        summary = f"{self.label}: the answer" + ("" if self.verdict else " (make your guess, then click)")
        body = "".join(map(_html, self.things))
        verdict = f"<p><strong>{escape(self.verdict)}</strong></p>" if self.verdict else ""
        answer = f"<p>{escape(short_repr(self.answer))}</p>"
        head = f"<details{' open' if self.verdict else ''}><summary>{escape(summary)}</summary>"
        return {"text/plain": repr(self), "text/html": f"{head}{verdict}{answer}{body}</details>"}


def _one_number(guessed: Any, answer: Any) -> Any:
    """16384 for 16,384, which Python reads as two numbers, where the answer is one number; else the guess."""
    if not isinstance(answer, (int, float, np.number)) or not isinstance(guessed, (list, tuple)):
        return guessed
    text = ",".join(str(part) if type(part) is int else "?" for part in guessed)
    text = re.sub(r",0\b", ",000", text)  # 16,000 is 16 and 0
    return int(text.replace(",", "")) if re.fullmatch(r"-?\d{1,3}(,\d{3})+", text) else guessed


def _meaning(value: Any, answer: Any) -> Any:
    """The part of a guess, or of an answer, that is compared: letters of a text, or numbers, which a text may hold.

    >>> _meaning("3 and 1", [3, 1]), _meaning("16,000", 9), _meaning("C, a", "C A")
    ([3.0, 1.0], [16000], 'ca')
    """
    if isinstance(answer, str):
        return _letters(value if isinstance(value, str) else short_repr(value)).replace(" ", "")
    if isinstance(value, str):
        word, found = value.strip().lower(), _NUMBER.findall(value[:MOST_LETTERS])
        value = [_WORDS[word]] if word in _WORDS else [float(number.replace(",", "")) for number in found]
        if isinstance(said := _literal(word), (int, float, list, tuple)):
            value = _one_number(said, answer)
    return _as_list(value)


def _literal(text: str) -> Any:
    """Return the value that a text has in Python; the text where it has none: a thousand brackets, say."""
    with contextlib.suppress(Exception):
        return ast.literal_eval(text.strip())
    return text


def _as_list(value: Any) -> list[Any]:
    value = value.tolist() if isinstance(value, np.ndarray) else value
    return list(value) if isinstance(value, (list, tuple)) else [value]


def _html(thing: Any) -> str:
    """A thing as HTML: a picture as an image, since inline SVG is taken out of a notebook that is not trusted."""
    image = thing.html if isinstance(thing, Picture) else None
    return image or f"<pre>{escape(str(thing))}</pre>"


def progress(chapters: int | Iterable[int] | None = None) -> None:
    """Print which pieces and exercises of a chapter, or of several, are solved (✓), tried (✗) and not tried (□).

    Without an argument it lists the chapters up to yours. The best `check` of each counts, so a solved
    one stays solved when another answer fails later. The record is `progress.json` beside your `my_minikv.py`, or the
    file that `MINIKV_PROGRESS` names. Delete it to start over. An unreadable record is reported and left as it is.
    Predictions count too, once you have seen their answers; those that you corrected after a miss are named.

    >>> progress([])
    0 of 0 solved
    """
    found = standing(chapters)
    for chapter, row in found.items():
        print(f"chapter {chapter:02d}   " + "   ".join(f"{sign(mark)} {id}" for id, mark in row.items()))
    marks = [mark for row in found.values() for mark in row.values()]
    print(f"{marks.count(RIGHT)} of {len(marks)} solved")
    if own := tried_tests():
        print("your tests: " + ", ".join(f"{sign(mark)} {id}" for id, mark in sorted(own.items())))
    made, right = predictions()
    if made:
        again = f"; look again at {', '.join(missed())}" if missed() else ""
        later = f" ({', '.join(corrected())} on a later try)" if corrected() else ""
        print(f"predictions correct: {right} of {made}{later}{again}")

"""Predictions: `guess` before you look, `fold` over what gives the answer away.

A `<details>` element in an output is closed on opening, after Run All and in exported HTML, in notebooks that are not
trusted as well; hiding a cell's output by its metadata is none of that. On a code-hosting site nothing is folded.
"""

from __future__ import annotations

import ast
import base64
from html import escape
from typing import Any

from minikv.course.exercises.judge import agree, shown
from minikv.course.pictures import Picture
from minikv.course.pictures.svg import svg_size

_guesses: dict[str, Any] = {}
_missed: dict[str, str] = {}
_met: set[str] = set()  # predictions that were right


def guess(label: str, question: str, value: Any = None) -> None:
    """Note your prediction, a number or a few words, before the next cell shows what is so.

    >>> guess("3.9", "how many nodes are there?", None)
    🔮 3.9 how many nodes are there? Put your answer in place of None, then run the next cell.
    >>> guess("3.9", "how many nodes are there?", 4)
    🔮 3.9 noted: 4. Run the next cell.
    """
    name = str(label).split()[0]
    _missed.pop(name, None)
    _met.discard(name)
    if value is None or value is ...:
        _guesses.pop(name, None)
        print(f"🔮 {name} {question} Put your answer in place of None, then run the next cell.")
    else:
        _guesses[name] = value
        print(f"🔮 {name} noted: {shown(value)}. Run the next cell.")


def forget_guesses() -> None:
    """Begin anew, as a notebook does."""
    _guesses.clear()
    _missed.clear()
    _met.clear()


def missed() -> dict[str, str]:
    """The predictions that were missed in this session, by label: what was so."""
    return dict(_missed)


def predictions() -> tuple[int, int]:
    """How many predictions have met their answers in this session, and how many of them were right.

    >>> forget_guesses(); predictions()
    (0, 0)
    """
    return len(_met) + len(_missed), len(_met)


def fold(label: str, answer: Any, *things: Any) -> Folded:
    """The answer to a prediction: closed in a stored notebook, and open once you have guessed.

    `answer` is what `guess` is compared with, and `things` are what shows it: text or pictures.

    >>> fold("3.9", 4, "root > [1 2]")
    3.9, the answer: 4
    root > [1 2]
    """
    return Folded(str(label).split()[0], answer, things)


class Folded:
    """What `fold` made: the answer to a prediction, and what shows it."""

    def __init__(self, label: str, answer: Any, things: tuple[Any, ...]):
        self.label, self.answer, self.things = label, answer, things
        guessed = _guesses.get(self.label)
        self.verdict = "" if guessed is None else self._compared(guessed)

    def _compared(self, guessed: Any) -> str:
        said, answer = [_whole(guessed), _whole(_as_value(guessed))], _whole(self.answer)
        if any(agree(value, answer) for value in said) or _as_text(guessed) == _as_text(self.answer):
            _missed.pop(self.label, None)
            _met.add(self.label)
            return f"You said {shown(guessed)}, and that is right."
        _met.discard(self.label)
        _missed[self.label] = shown(self.answer)
        return f"You said {shown(guessed)}. Look at what follows: what happened that you did not expect?"

    def __repr__(self) -> str:
        lines = [f"{self.label}, the answer: {shown(self.answer)}", *map(_text, self.things)]
        return "\n".join([self.verdict, *lines] if self.verdict else lines)

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        summary = f"{self.label}: the answer" + ("" if self.verdict else " (make your guess, then click)")
        body = "".join(map(_html, self.things))
        verdict = f"<p><strong>{escape(self.verdict)}</strong></p>" if self.verdict else ""
        answer = f"<p>{escape(shown(self.answer))}</p>"
        head = f"<details{' open' if self.verdict else ''}><summary>{escape(summary)}</summary>"
        return {"text/plain": repr(self), "text/html": f"{head}{verdict}{answer}{body}</details>"}


def _as_value(guessed: Any) -> Any:
    """What a guess stands for that was written as text."""
    try:
        return ast.literal_eval(guessed) if isinstance(guessed, str) else guessed
    except Exception:  # it is no value: braces around a list, or a thousand brackets
        return guessed


def _whole(value: Any) -> Any:
    """4 for 4.0: a prediction may be either."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _as_text(value: Any) -> str:
    """A value as it is compared: "20%" is 20, and a full stop behind an answer is no part of it."""
    try:
        return str(value).strip().rstrip(" .%").lower()
    except Exception:  # a number of too many digits, or a learner's own `__str__`
        return shown(value)


def _text(thing: Any) -> str:
    return thing.text if isinstance(thing, Picture) else str(thing)


def _html(thing: Any) -> str:
    """A thing as HTML: a picture as an image, since inline SVG is taken out of a notebook that is not trusted."""
    png = thing.png if isinstance(thing, Picture) else None
    if png is not None:
        data = base64.b64encode(png).decode()
        width = round(svg_size(thing.svg or "")[0])
        style = "max-width:100%;height:auto"
        return f'<img alt="{escape(_text(thing))}" width="{width}" style="{style}" src="data:image/png;base64,{data}">'
    return f"<pre>{escape(_text(thing))}</pre>"

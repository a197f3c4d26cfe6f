"""The report of a log as lines of text for a terminal."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

from minikv.traffic.why.log_words import HEAD, LogWords, sides

_WIDTH = 100


def log_text(words: LogWords, top: int) -> str:
    """What was found in a log: sentences, the `top` places as a table, and about each what to do.

    >>> from minikv.traffic.why.log import survey
    >>> from minikv.traffic.why.units import PromptUnit
    >>> print(log_text(LogWords(survey([b'{"prompt": "Hi"}']), PromptUnit()), 3).splitlines()[0])
    log: 1 request, 2 bytes of prompts.
    """
    lines = [line for sentence in words.sentences() for line in textwrap.wrap(sentence, _WIDTH)]
    return "\n".join([*lines, *_table(words, top), *_places(words, top)])


def _table(words: LogWords, top: int) -> Iterator[str]:
    rows = words.rows(top)
    if not rows:
        return
    yield ""
    cells = [(f"{HEAD[0]} {words.unit}", *HEAD[1:]), *rows]
    widths = [max(len(row[at]) for row in cells) for at in range(len(HEAD))]
    for row in cells:
        numbers = "  ".join(f"{cell:>{width}}" for cell, width in zip(row[:3], widths))
        yield f"{numbers}  {row[3]:<{widths[3]}}  {row[4]}"
    if left := len(words.report.places) - len(rows):
        yield f"and {left:,} more places (--top)"


def _places(words: LogWords, top: int) -> Iterator[str]:
    for number, place in enumerate(words.telling(top), start=1):
        yield ""
        yield f"{number}. {place.place}: {place.about.says}"
        for name, text in sides(place):
            yield f"   {name:<12} {text}"
        yield from textwrap.wrap(place.about.remedy, _WIDTH, initial_indent="   ", subsequent_indent="   ")

"""Rows of boxes with a word in each: a ring on its way around, slots after each copy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from minikv.course.pictures.looks import style
from minikv.course.pictures.parts import Drawing, Paper, Part
from minikv.course.pictures.picture import Picture
from minikv.course.pictures.svg import markup
from minikv.palette import INK

_HIGH, _LETTER, _JOINT = 30, 8, 24


class BoxRow(NamedTuple):
    """A row: its name, and the word in each of its boxes; a box without a word is empty, another one has a state."""

    name: str
    words: Sequence[str]
    state: str = "cached"


def rows_picture(rows: Sequence[BoxRow], heads: Sequence[str] = (), joint: str = "") -> Picture:
    """Rows below each other, `heads` above their columns, and `joint` between one box and the next.

    >>> rows = [BoxRow("before", ["a", "b", ""]), BoxRow("0 to 1", ["a", "a", ""])]
    >>> print(rows_picture(rows, heads=["0", "1", "spare"]))
            0      1      spare
    before  a      b      -
    0 to 1  a      a      -
    >>> print(rows_picture([BoxRow("newer", ["ring", "[1]", "ring"])], joint="→"))
    newer  ring → [1] → ring
    """
    return Picture(_text(rows, heads, joint), lambda: _svg(rows, heads, joint))


def _text(rows: Sequence[BoxRow], heads: Sequence[str], joint: str) -> str:
    name, word = max(len(row.name) for row in rows), _longest(rows, heads)
    between, wide = (f" {joint} ", 0) if joint else ("  ", word)
    lines = [BoxRow("", heads), *rows] if heads else rows
    cells = [between.join(f"{found or '-':{wide}}" for found in row.words) for row in lines]
    return "\n".join(f"{row.name:{name}}  {words}".rstrip() for row, words in zip(lines, cells))


def _longest(rows: Sequence[BoxRow], heads: Sequence[str]) -> int:
    return max([1, *map(len, heads), *(len(word) for row in rows for word in row.words)])


def _svg(rows: Sequence[BoxRow], heads: Sequence[str], joint: str) -> str:
    wide = _LETTER * _longest(rows, heads) + 14
    left, step = _LETTER * max(len(row.name) for row in rows) + 16, wide + (_JOINT if joint else 4)
    parts, top = [Part(-1 - x, _words(head, wide / 2), left + x * step, 0) for x, head in enumerate(heads)], 0
    for row in rows:
        top += 0 if not parts else _HIGH + 6
        parts.append(Part(len(parts), _words(row.name), 4, top))
        for x, word in enumerate(row.words):
            parts.append(Part(len(parts), _box(word, wide, row.state), left + x * step, top))
            if joint and x:
                parts.append(Part(len(parts), _words(joint, -_JOINT / 2), left + x * step, top))
    broad = max(len(heads), *(len(row.words) for row in rows))
    return Paper(left + broad * step + 4, top + _HIGH + 4).svg(parts)


def _box(word: str, wide: int, state: str) -> Drawing:
    look, ink = style(state if word else "free"), "" if state == "free" else f' fill="{INK}"'
    return Drawing(
        f'<path {look} d="M0 2h{wide}v{_HIGH - 4}h-{wide}z"/>'
        f'<text x="{wide / 2:g}" y="{_HIGH // 2 + 5}"{ink}>{markup(word)}</text>'
    )


def _words(text: str, middle: float | None = None) -> Drawing:
    """Words beside the boxes: at the left, or around a middle."""
    where = 'text-anchor="start"' if middle is None else f'x="{middle:g}"'
    return Drawing(f'<text {where} y="{_HIGH // 2 + 5}">{markup(text)}</text>')

"""Rows of boxes: how everything beside a tree is drawn, and the legend of all pictures.

A box is dashed when it is free, double when a lock protects it, and round when it is in hand. What just happened to
it is a border and a letter in its corner (`palette.py`). The same boxes come back in every frame of a film, so each
shape, number and word is a drawing of its own: few of them differ.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import zip_longest
from typing import NamedTuple

from minikv.course.pictures.palette import INK, LETTERS, STATES, sorted_words, style, text_legend
from minikv.course.pictures.picture import Picture
from minikv.course.pictures.svg import Drawing, Paper, Part, markup, words_drawing

TOP, GAP = 28, 6
_SIDE, _LINE, _LETTER = 16, 22, 7.2  # of a legend
_BOLD = ' font-weight="bold"'


class Box(NamedTuple):
    """One box: its `state`, the `word` in it, what just happened to it, and the `number` in its upper corner.

    A `badge` is in the corner of the event's letter. A box that is not as wide as the others has a `wide` of its own;
    one without a state has another `fill`, or is only its word.
    """

    state: str
    word: str = ""
    event: str = ""
    number: str = ""
    badge: str = ""
    wide: int = 0
    fill: str = ""

    @property
    def ink(self) -> str:
        """Words on a filled box are dark on any page; words on the page itself have the page's ink."""
        fill = self.fill or (STATES[self.state].fill if self.state else "none")
        return "" if fill == "none" and self.event != "evicted" else f' fill="{INK}"'


@dataclass(frozen=True)
class BoxRows:
    """Named rows of boxes below a `heading`; `said` is their text twin, where it is not one word for each box.

    Boxes are `wide` and `high` with a `gap` between them; rows longer than `room` are shrunk. With `says_states` the
    text and the legend say the states too. `foot` is a last line.

    >>> row = [Box("cached", "8"), Box("in hand", "9", "new")]
    >>> print(BoxRows("PageTable", [("row 0", row), ("row 1", [Box("free")])]).text)
    PageTable
    row 0  8c  9n
    row 1  -
    . free  h in hand  c cached  n new
    """

    heading: str
    rows: Sequence[tuple[str, Sequence[Box]]]
    said: str = ""
    wide: int = 30
    high: int = 30
    gap: int = GAP
    room: int = 10_000
    says_states: bool = True
    foot: str = ""

    @property
    def boxes(self) -> list[Box]:
        """All boxes, row after row."""
        return [box for _, boxes in self.rows for box in boxes]

    @property
    def words(self) -> set[str]:
        """The states that the legend explains."""
        boxes = self.boxes * self.says_states
        states = {box.state for box in boxes if not box.event or box.state != "computed"}  # else its look is hidden
        return (states | {box.event for box in self.boxes}) - {""}

    @property
    def text(self) -> str:
        """The text twin."""
        if self.said:
            return self.said
        lines = [[name, *map(self._box_text, boxes)] for name, boxes in self.rows]
        # nothing follows the last word of a line, so it sets no width
        columns = zip_longest(*([*line[:-1], ""] for line in lines), fillvalue="")
        widths = [max(map(len, column)) for column in columns]
        shown = ["  ".join(f"{word:{wide}}" for word, wide in zip(line, widths)).rstrip() for line in lines]
        if not any(name for name, _ in self.rows):
            shown = [line.lstrip() for line in shown]
        below = "  ".join(filter(None, (self.foot, text_legend(self.words))))
        return "\n".join(filter(None, (self.heading, *shown, below)))

    def _box_text(self, box: Box) -> str:
        word = box.word or "-"
        word = f"{box.number}[{word}]" if box.number else word
        state = box.state if self.says_states and box.state not in ("free", "in hand") else ""
        return word + (box.badge or LETTERS.get(box.event or state, ""))

    @property
    def picture(self) -> Picture:
        """The rows with their legend."""
        return Picture(self.text, self._svg)

    def _svg(self) -> str:
        paper = self.paper(self.extent)
        legend, high = legend_svg(self.words, paper.width)
        below = f'<g transform="translate(0 {paper.height:g})">{legend}</g>' if legend else ""
        return paper._replace(height=paper.height + high).svg(self.parts(self.extent), below)

    @property
    def extent(self) -> tuple[int, ...]:
        """The room that a picture needs: rows, the width of the widest, and that of the longest name before them."""
        widths = [sum((box.wide or self.wide) + self.gap for box in boxes) for _, boxes in self.rows]
        names = [8 * len(name) + 16 for name, _ in self.rows if name]
        return len(self.rows), max(widths, default=0), max(names, default=6)

    @property
    def grid(self) -> dict[str, int]:
        """Where the boxes are: the side of one with its gap, how many are in a row, the top, and how many there are."""
        cell = self.wide + self.gap
        return {"cell": cell, "columns": self.extent[1] // cell, "top": TOP - 2, "count": len(self.boxes)}

    def paper(self, extent: tuple[int, ...]) -> Paper:
        """The paper for rows of such an extent."""
        lines, widest, left = extent
        words = max(8.5 * len(self.heading), 8 * len(self.foot)) + 12
        boxes = left + min(widest, self.room) + 4
        high = self._top + lines * (self.high + GAP) + 2
        return Paper(max(boxes, words), high + _LINE * bool(self.foot))

    @property
    def _top(self) -> int:
        return TOP if self.heading else 2

    def parts(self, extent: tuple[int, ...]) -> list[Part]:
        """The heading, and each row with its name and its boxes."""
        lines, widest, left = extent
        parts = []
        if self.heading:
            parts.append(Part(-1, words_drawing(self.heading, f' font-size="14"{_BOLD}'), 4, 17))
        shrunk = min(1, self.room / max(widest, 1))
        for y, (title, boxes) in enumerate(self.rows):
            top, x = self._top + y * (self.high + GAP), left
            if title:
                parts.append(Part(-3 - y, words_drawing(title), 4, top + self.high // 2 + 5))
            for key, box in enumerate(boxes, start=100_000 * y):
                wide = round(((box.wide or self.wide) + self.gap) * shrunk)
                drawings = _drawings(box, max(wide - max(self.gap, 1), 1), self.high)
                parts += [Part(3 * key + number, drawing, x, top) for number, drawing in drawings.items()]
                x += wide
        if self.foot:
            foot = self._top + lines * (self.high + GAP) + 14
            parts.append(Part(-2, words_drawing(self.foot), 4, foot))
        return parts


@cache
def _drawings(box: Box, wide: int, high: int) -> dict[int, Drawing]:
    """The shape (0), the number (1) and the word (2) of a box; a shape without room for letters says what it is."""
    found = dict[int, Drawing]()
    if box.state or box.fill:
        found[0] = Drawing(_shape(box, wide, high))
    low = high // 2 + 5
    if box.number:
        x, y, size = (5, 14, 12) if high > 30 else (3, 9, 7.5)
        look = f'font-size="{size}" text-anchor="start"{box.ink}'
        found[1] = Drawing(f'<text x="{x}" y="{y}" {look}>{markup(box.number)}</text>')
        low = high - (8 if high > 30 else 4)
    most = 13 if high > 26 else 9 if box.number else 12
    size = min(most, 1.6 * (wide - 4) / max(len(box.word), 1))
    if box.word and size >= 6:
        look = f'font-size="{size:.3g}"{_BOLD * bool(box.number)}{box.ink}'
        found[2] = Drawing(f'<text x="{wide // 2}" y="{low}" {look}>{markup(box.word)}</text>')
    return found


def _shape(box: Box, wide: int, high: int) -> str:
    svg = box_svg(box.state, wide, high, box.event, box.fill)
    badge = box.badge
    if high <= _SIDE:
        svg = svg.replace("<rect", f'<rect data-say="{box.event or box.state}"', 1)
    else:
        badge = badge or LETTERS.get(box.event, "")
    size, right = (13, 5 + 4 * len(badge)) if high > 32 else (10, 7)
    x = max(wide - right, wide // 2)
    return svg + f'<text x="{x}" y="{size}" font-size="{size}"{_BOLD}{box.ink}>{badge}</text>' * bool(badge)


def box_svg(state: str, wide: int, high: int, event: str = "", fill: str = "") -> str:
    """A box with the look of a state and an event: round for what is in hand, double for what is locked.

    >>> box_svg("cached", 10, 10)
    '<rect fill="#e9ecef" stroke="#495057" width="10" height="10"/>'
    """
    look, inner = style(state or "cached", event), ""
    if fill:
        look = look.replace(f'"{STATES["cached"].fill}"', f'"{fill}"', 1)
    if state == "in hand":
        look += f' rx="{round(min(wide, high) * 0.36)}"'
    elif state == "locked":
        line, sides = STATES["locked"].line, f'width="{wide - 6}" height="{high - 6}"'
        inner = f'<rect fill="none" stroke="{line}" x="3" y="3" {sides}/>'
    return f'<rect {look} width="{wide}" height="{high}"/>{inner}'


def legend_svg(words: Iterable[str], width: float, labels: Mapping[str, str] | None = None) -> tuple[str, float]:
    """The legend as SVG content for a paper of some `width`, and how high it is; nothing where there are no words.

    With `labels` it has these words alone, each with what is said of it.

    >>> legend_svg(["free"], 200)[1], legend_svg([], 200)
    (26, ('', 0))
    """
    parts, x, y = [], 4.0, 4
    for word, label in (labels or {word: word for word in sorted_words(words)}).items():
        wide = _SIDE + 6 + _LETTER * len(label) + 14
        if x > 4 and x + wide > width:
            x, y = 4.0, y + _LINE
        text = f'<text x="{_SIDE + 6}" y="13" font-size="12" text-anchor="start">{label}</text>'
        parts.append(f'<g transform="translate({x:g} {y})">{_swatch(word)}{text}</g>')
        x += wide
    return ("".join(parts), y + _LINE) if parts else ("", 0)


def legend_html(words: Iterable[str]) -> str:
    """The legend as a list in HTML, which wraps where the page is narrow.

    >>> legend_html(["locked"]).count("<li")
    1
    """
    item = "display:inline-flex;gap:5px;align-items:center;margin:0"
    box = f'<svg width="{_SIDE + 2}" height="{_SIDE + 2}" viewBox="-1 -1 {_SIDE + 2} {_SIDE + 2}" aria-hidden="true"'
    font = 'font-size="11" font-weight="bold" text-anchor="middle">'
    items = [f'<li style="{item}">{box} {font}{_swatch(word)}</svg>{word}</li>' for word in sorted_words(words)]
    place = "display:flex;flex-wrap:wrap;gap:2px 16px;list-style:none;margin:4px 0;padding:0"
    return f'<ul class="minikv-legend" aria-label="legend" style="{place}">{"".join(items)}</ul>' if items else ""


def _swatch(word: str) -> str:
    if word in STATES:
        return box_svg(word, _SIDE, _SIDE)
    state = {"taken": "in hand", "freed": "free"}.get(word, "cached")
    ink = f'text-anchor="middle" fill="{"currentColor" if state == "free" else INK}"'
    size = 12 if len(LETTERS[word]) < 2 else 9
    letter = f'<text x="{_SIDE / 2:g}" y="12.5" font-size="{size}"{_BOLD} {ink}>{LETTERS[word]}</text>'
    return box_svg(state, _SIDE, _SIDE, word) + letter

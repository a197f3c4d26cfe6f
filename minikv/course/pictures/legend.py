"""The legend of a picture: every state and every event that it shows, each with its look, its letter and its word."""

from __future__ import annotations

from collections.abc import Iterable

from minikv.course.pictures.looks import LETTERS, sorted_words, style
from minikv.palette import INK, STATES

_SIDE, _LINE, _LETTER = 16, 22, 7.2


def legend_svg(words: Iterable[str], width: float) -> tuple[str, float]:
    """The legend as SVG content for a paper of some `width`, and how high it is; nothing where there are no words.

    >>> legend_svg(["free"], 200)[1], legend_svg([], 200)
    (26, ('', 0))
    """
    parts, x, y = [], 4.0, 4
    for word in sorted_words(words):
        wide = _SIDE + 6 + _LETTER * len(word) + 14
        if x > 4 and x + wide > width:
            x, y = 4.0, y + _LINE
        parts.append(f'<g transform="translate({x:g} {y})">{_swatch(word)}')
        parts.append(f'<text x="{_SIDE + 6}" y="13" font-size="12" text-anchor="start">{word}</text></g>')
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
        inner = f'<path fill="none" stroke="{STATES[word].line}" d="{square(3, _SIDE - 6)}"/>' * (word == "locked")
        return f'<path {style(word)} d="{outline(word, _SIDE)}"/>{inner}'
    state = {"taken": "in hand", "freed": "free"}.get(word, "cached")
    ink = f'text-anchor="middle" fill="{"currentColor" if word == "freed" else INK}"'
    letter = f'<text x="{_SIDE / 2:g}" y="12.5" font-size="12" font-weight="bold" {ink}>{LETTERS[word]}</text>'
    return f'<path {style(state, word)} d="{outline(state, _SIDE)}"/>{letter}'


def outline(state: str, side: int) -> str:
    """The outline of a cell as a path: a square, or a round one for what is in hand.

    >>> outline("cached", 10)
    'M0 0h10v10h-10z'
    """
    if state != "in hand":
        return square(0, side)
    r = round(side * 0.36)
    straight = side - 2 * r
    arcs = [f"a{r} {r} 0 0 1 {dx} {dy}" for dx, dy in ((r, r), (-r, r), (-r, -r), (r, -r))]
    return f"M{r} 0h{straight}{arcs[0]}v{straight}{arcs[1]}h-{straight}{arcs[2]}v-{straight}{arcs[3]}z"


def square(corner: int, side: int) -> str:
    """A square as a path, its corner at (corner, corner).

    >>> square(3, 8)
    'M3 3h8v8h-8z'
    """
    return f"M{corner} {corner}h{side}v{side}h-{side}z"

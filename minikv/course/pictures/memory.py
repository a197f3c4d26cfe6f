"""The memory of a store, from its first byte on: a cell for the keys, or the values, of one slot in one layer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from minikv.course.pictures.grid import title_part
from minikv.course.pictures.legend import legend_svg
from minikv.course.pictures.looks import LETTERS, text_legend
from minikv.course.pictures.parts import Drawing, Paper, Part
from minikv.palette import EVENTS, INK

COLUMNS, MOST = 8, 400
_WIDE, _HIGH, _TITLE, _FOOT = 46, 40, 26, 24
_LAYERS = ("#f4f4ef", "#cfdef0", "#ecdcc4", "#d3e8cd")  # in turn, from the first layer on
InMemory = tuple[str, int]  # K or V with its layer, as in K0, and the slot


def memory_text(pieces: Sequence[InMemory], marks: Mapping[int, str]) -> str:
    """The text twin: whose keys (K) or values (V) of which layer lie there, cell after cell.

    >>> print(memory_text([("K0", 0), ("V0", 0), ("K0", 1), ("V0", 1)], {1: "matched"}))
    K0:0   V0:0   K0:1m  V0:1m
    K keys  V values, with their layer : slot  m matched
    """
    words = [f"{name}:{slot}{LETTERS[marks[slot]] if slot in marks else ''}" for name, slot in pieces[:MOST]]
    width = max(map(len, words), default=0)
    lines = [words[at : at + COLUMNS] for at in range(0, len(words), COLUMNS)]
    legend = text_legend(marks[slot] for _, slot in pieces[:MOST] if slot in marks)
    explained = "  ".join(filter(None, ("K keys  V values, with their layer : slot", legend)))
    return "\n".join([*("  ".join(f"{word:<{width}}" for word in line).rstrip() for line in lines), explained])


def memory_svg(pieces: Sequence[InMemory], marks: Mapping[int, str], title: str) -> str:
    """The cells in lines of `COLUMNS`, each with the layer's tint, K or V with the layer, and its slot."""
    parts, shown = [title_part(-1, title)], pieces[:MOST]
    for i, (name, slot) in enumerate(shown):
        place = i % COLUMNS * _WIDE + 3, i // COLUMNS * _HIGH + _TITLE
        parts.append(Part(i, _cell(name, slot, marks.get(slot, "")), *place))
    foot = _TITLE + -(-len(shown) // COLUMNS) * _HIGH + 4
    width = max(COLUMNS * _WIDE + 6, 8 * len(title) + 12)
    words = (
        '<text x="4" y="14" font-size="12" text-anchor="start">K keys · V values, with their layer; below: slot</text>'
    )
    legend, high = legend_svg({marks[slot] for _, slot in shown if slot in marks}, width)
    below = f'<g transform="translate(0 {foot})">{words}<g transform="translate(0 {_FOOT - 4})">{legend}</g></g>'
    return Paper(width, foot + _FOOT + high, below).svg(parts)


def _cell(name: str, slot: int, mark: str) -> Drawing:
    look, wide, high = EVENTS.get(mark), _WIDE - 4, _HIGH - 4
    fill = look.fill if look else _LAYERS[int(name[1:]) % len(_LAYERS)]
    line = f'stroke="{look.line}" stroke-width="{look.weight}"' if look else 'stroke="#495057"'
    svg = f'<path fill="{fill}" {line} d="M0 0h{wide}v{high}h-{wide}z"/><g fill="{INK}">'
    svg += f'<text x="4" y="14" font-size="11" font-weight="bold" text-anchor="start">{name}</text>'
    svg += f'<text x="{wide // 2}" y="{high - 6}" font-size="13">{slot}</text>'
    svg += f'<text x="{wide - 7}" y="13" font-size="12" font-weight="bold">{LETTERS[mark]}</text>' if look else ""
    return Drawing(f"{svg}</g>")

"""Curves of hits over size, as a picture in SVG: no library draws it, and it follows the theme of its page."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from minikv.palette import BOTH, LINES
from minikv.traffic.report import escape

_DASHES = ("", "7 4", "2 4", "9 3 2 3", "1 3", "12 4", "5 2")
_STROKES = [
    f'stroke="{color}" stroke-width="2.5"' + (f' stroke-dasharray="{dash}"' if dash else "")
    for color, dash in zip(LINES, _DASHES)
]
_WIDE, _HIGH = 640, 400
_LEFT, _RIGHT, _TOP, _BOTTOM = 58, 14, 40, 52
_LEGEND = 8.2  # the width of a letter
_STEPS = (0.01, 0.02, 0.05, 0.1, 0.2)


@dataclass(frozen=True)
class Curves:
    """What is drawn: over sizes `xs`, on a scale of powers, the shares of each line; and places on it that have a name.

    `axis` is what the sizes are. `marks` are upright lines at a size, `level` is a line across: its name and share.
    """

    title: str
    axis: str
    xs: Sequence[float]
    lines: Mapping[str, Sequence[float]]
    marks: Mapping[str, float] = field(default_factory=dict)
    level: tuple[str, float] | None = None


def curve_svg(curves: Curves) -> str:
    """The picture, as wide as its column; `title` is its alternative text, and each point says its values.

    >>> svg = curve_svg(Curves("Hits by size", "GiB", [1, 10, 100], {"LRU": [0.1, 0.2, 0.4]}, {"knee": 10}))
    >>> svg.startswith("<svg"), svg.count("<circle"), "10 GiB, LRU: 20.0 %" in svg
    (True, 3, True)
    """
    frame = _Frame(curves)
    content = [*frame.grid(), *frame.upright(), *frame.across(), *frame.lines(), *frame.legend()]
    name = escape(curves.title)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDE} {_HIGH}" width="{_WIDE}" height="{_HIGH}" '
        f'role="img" aria-label="{name}" fill="currentColor" font-size="13" '
        f'font-family="system-ui, sans-serif">{"".join(content)}</svg>'
    )


class _Frame:
    """Where a size and a share stand in the picture, and its parts."""

    def __init__(self, curves: Curves):
        self.curves = curves
        self._low, high = math.log10(min(curves.xs)), math.log10(max(curves.xs))
        self._span = max(high - self._low, 0.3)
        shares = [share for line in curves.lines.values() for share in line] + [curves.level[1] if curves.level else 0]
        self._step = next((step for step in _STEPS if max(shares) <= 6 * step), _STEPS[-1])
        self._most = self._step * max(1, math.ceil(max(shares) / self._step - 1e-9))

    def x(self, size: float) -> float:
        inside = _WIDE - _LEFT - _RIGHT
        return round(_LEFT + inside * min(1.0, max(0.0, (math.log10(size) - self._low) / self._span)), 1)

    def y(self, share: float) -> float:
        return round(_HIGH - _BOTTOM - (_HIGH - _BOTTOM - _TOP) * share / self._most, 1)

    def grid(self) -> Iterator[str]:
        """Lines across with their shares, and the sizes below."""
        for number in range(round(self._most / self._step) + 1):
            share = number * self._step
            y = self.y(share)
            yield f'<path d="M{_LEFT} {y}H{_WIDE - _RIGHT}" stroke="{BOTH}" stroke-opacity="{0.3 if number else 1}"/>'
            yield f'<text x="{_LEFT - 8}" y="{y + 4.5}" text-anchor="end">{100 * share:.0f} %</text>'
        for size in self._sizes():
            x, y = self.x(size), _HIGH - _BOTTOM
            yield f'<path d="M{x} {y}v5" stroke="{BOTH}"/>'
            yield f'<text x="{x}" y="{y + 20}" text-anchor="middle">{size:,.10g}</text>'
        middle = (_LEFT + _WIDE - _RIGHT) / 2
        yield f'<text x="{middle}" y="{_HIGH - 10}" text-anchor="middle">{escape(self.curves.axis)}</text>'

    def _sizes(self) -> list[float]:
        """Powers of ten in the picture; with twos and fives, where there are few."""
        powers = range(math.floor(self._low), math.ceil(self._low + self._span) + 1)
        for digits in ((1,), (1, 3), (1, 2, 5), tuple(range(1, 10))):
            found = [digit * 10.0**power for power in powers for digit in digits]
            found = [size for size in found if -1e-9 <= math.log10(size) - self._low <= self._span + 1e-9]
            if len(found) >= 3:
                return found
        return found

    def upright(self) -> Iterator[str]:
        """A line at each size that has a name; the names stand one below the other, and never outside."""
        for number, (name, size) in enumerate(self.curves.marks.items()):
            x = self.x(size)
            anchor, aside = ("end", -5) if x > _WIDE / 2 else ("start", 5)
            yield f'<path d="M{x} {_TOP}V{_HIGH - _BOTTOM}" stroke="{LINES[3]}" stroke-dasharray="4 4"/>'
            y = _HIGH - _BOTTOM - 8 - 17 * number
            yield f'<text x="{x + aside}" y="{y}" text-anchor="{anchor}">{escape(name)}</text>'

    def across(self) -> Iterator[str]:
        """The level that no line exceeds."""
        if self.curves.level is not None:
            name, share = self.curves.level
            y, dotted = self.y(share), 'stroke-width="2" stroke-dasharray="2 4"'
            yield f'<path d="M{_LEFT} {y}H{_WIDE - _RIGHT}" stroke="{LINES[2]}" {dotted}/>'
            yield f'<text x="{_LEFT + 6}" y="{y - 6}">{escape(name)}</text>'

    def lines(self) -> Iterator[str]:
        """Each line in its own color and dash, with a point at each size."""
        for (name, shares), color, stroke in zip(self.curves.lines.items(), LINES, _STROKES):
            places = [(size, share, self.x(size), self.y(share)) for size, share in zip(self.curves.xs, shares)]
            way = " ".join(f"{x},{y}" for _, _, x, y in places)
            yield f'<polyline points="{way}" fill="none" {stroke}/>'
            for size, share, x, y in places:
                said = f"{size:,.6g} {self.curves.axis}, {name}: {100 * share:.1f} %"
                yield f'<circle cx="{x}" cy="{y}" r="3" fill="{color}"><title>{escape(said)}</title></circle>'

    def legend(self) -> Iterator[str]:
        """The name of each line, above."""
        at = float(_LEFT)
        for name, stroke in zip(self.curves.lines, _STROKES):
            yield f'<path d="M{at} 16h28" {stroke}/>'
            yield f'<text x="{at + 34}" y="20.5">{escape(name)}</text>'
            at += 34 + _LEGEND * len(name) + 18

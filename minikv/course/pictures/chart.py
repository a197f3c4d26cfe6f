"""Lines over a common x as a picture in SVG: no library draws it, and it follows the theme of its page."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from minikv.course.pictures.palette import BOTH, LINES
from minikv.course.pictures.svg import FONTS, markup

_DASHES = ("", "7 4", "2 4", "9 3 2 3", "1 3", "12 4", "5 2")
MOST_LINES = len(_DASHES)
_WIDE, _HIGH, _LEFT, _RIGHT, _FOOT = 588, 360, 88, 574, 308
_LETTER, _LINE = 7.9, 20  # the width of a letter, and the height of a line of them


@dataclass(frozen=True)
class Chart:
    """The data of a chart: over `xs`, the values of each line, `None` where there is none.

    `axis` is what the xs are, `unit` comes after each value, and `log` names the axes on a scale of powers ("x", "y",
    "xy"). `marks` are upright lines at an x, `level` is a line across: its name and value.
    """

    title: str
    axis: str
    xs: Sequence[float]
    lines: Mapping[str, Sequence[float | None]]
    unit: str = ""
    log: str = ""
    marks: Mapping[str, float] = field(default_factory=dict)
    level: tuple[str, float] | None = None


class _Axis:
    """The position of a value between `start` and `end`, with some room around all of them."""

    def __init__(self, values: Iterable[float], is_log: bool, start: float, end: float):
        self._power, self._start, self._way = is_log, start, end - start
        if is_log:
            values = [math.log10(value) for value in values if value > 0]
        found = [*values] or [0]
        wide = max(found) - min(found) or 1
        self._low = min(found) - 0.03 * wide
        self._span = 1.06 * wide

    def __call__(self, value: float) -> float:
        part = ((math.log10(value or 1e-300) if self._power else value) - self._low) / self._span
        return round(self._start + self._way * min(1.0, max(0.0, part)), 1)

    def ticks(self, least_step: float = 0) -> list[float]:
        """Powers of ten, with other digits where there are few; or some five steps of a round size."""
        low, high = self._low, self._low + self._span
        if self._power:
            digits = [1, 2, 5]
            if self._span > 2.1:
                digits = [1]
            elif self._span <= 0.9:
                digits = [*range(1, 10)]
            shown = list[float]()
            for power in range(math.floor(low), math.ceil(high)):
                ticks = [digit * 10.0**power for digit in digits]
                shown += [tick for tick in ticks if low <= math.log10(tick) <= high]
            return shown[:: 1 + int(self._span / 8)]
        unit = 10.0 ** math.floor(math.log10(self._span / 5))
        steps = (digit * unit for digit in (1, 2, 5, 10) if 5 * digit * unit >= self._span)
        step = max(least_step, next(steps))
        first, last = math.ceil(low / step), math.floor(high / step)
        return [number * step for number in range(first, last + 1)]


def chart_svg(chart: Chart) -> str:
    """The picture, as wide as its column; the title is above it.

    >>> svg = chart_svg(Chart("Hits", "GiB", [1, 10, 100], {"LRU": [1, 2, None]}, " %", "x", {"knee": 10}))
    >>> svg.startswith("<svg"), svg.count("<circle"), ">2 %<" in svg
    (True, 2, True)
    """
    legend, top = _legend(chart)
    values = [value for line in chart.lines.values() for value in line if value is not None]
    values += [chart.level[1]] if chart.level else []
    x = _Axis(chart.xs, "x" in chart.log, _LEFT, _RIGHT)
    room = 12 if chart.level else 0  # for its name
    y = _Axis(values if "y" in chart.log else [0, *values], "y" in chart.log, _FOOT, top + room)
    content = [_text(4, 17, chart.title, ' font-size="14" font-weight="bold"'), *legend, *_grid(chart, x, y)]
    content.append(_path(f"M{_LEFT} {top}V{_FOOT}H{_RIGHT}", f'stroke="{BOTH}"'))
    content += [*_rules(chart, x, y, top), *_lines(chart, x, y)]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDE} {_HIGH}" width="{_WIDE}" height="{_HIGH}" '
        f'role="img" aria-label="{markup(chart.title)}" fill="currentColor" color="{BOTH}" font-size="13" '
        f'font-family="{FONTS}">{"".join(content)}</svg>'
    )


def _text(x: float, y: float, words: str, more: str = "") -> str:
    return f'<text x="{x:g}" y="{y:g}"{more}>{markup(words)}</text>'


def _path(way: str, stroke: str) -> str:
    return f'<path d="{way}" fill="none" {stroke}/>'


def _stroke(number: int) -> str:
    dash = f' stroke-dasharray="{_DASHES[number]}"' if number else ""
    return f'stroke="{LINES[number]}" stroke-width="2.5"{dash}'


def _legend(chart: Chart) -> tuple[list[str], int]:
    """The names of the lines below the title, in as many rows as they need, and where these end."""
    found, at, y = list[str](), float(_LEFT), 2 * _LINE
    for number, name in enumerate(chart.lines):
        wide = 52 + _LETTER * len(name)
        if at > _LEFT and at + wide > _WIDE:
            at, y = _LEFT, y + _LINE
        found += [_path(f"M{at:g} {y - 4}h28", _stroke(number)), _text(at + 34, y, name)]
        at += wide
    return found, y + 12


def _grid(chart: Chart, x: _Axis, y: _Axis) -> list[str]:
    """Lines across with their values, and the xs below."""
    found = [_text((_LEFT + _RIGHT) / 2, _HIGH - 10, chart.axis, ' text-anchor="middle"')]
    for value in y.ticks():
        found.append(_path(f"M{_LEFT} {y(value)}H{_RIGHT}", f'stroke="{BOTH}" stroke-opacity="0.3"'))
        found.append(_text(_LEFT - 8, y(value) + 4.5, f"{value:,.10g}{chart.unit}", ' text-anchor="end"'))
    is_whole = all(size == int(size) for size in chart.xs)
    for value in x.ticks(least_step=1 if is_whole else 0):
        found.append(_path(f"M{x(value)} {_FOOT}v5", f'stroke="{BOTH}"'))
        label = f"{value:,.10g}"
        middle = min(x(value), _WIDE - 2 - _LETTER * len(label) / 2)  # the last one must not be cut off
        found.append(_text(middle, _FOOT + 20, label, ' text-anchor="middle"'))
    return found


def _rules(chart: Chart, x: _Axis, y: _Axis, top: int) -> list[str]:
    """The parts with a name: lines at some x, their names one below the other, and the level that no line exceeds."""
    found = []
    for number, (name, value) in enumerate(chart.marks.items()):
        anchor, aside = ("end", -5) if x(value) > _WIDE / 2 else ("start", 5)
        found.append(_path(f"M{x(value)} {top}V{_FOOT}", f'stroke="{LINES[3]}" stroke-dasharray="4 4"'))
        found.append(_text(x(value) + aside, _FOOT - 8 - 17 * number, name, f' text-anchor="{anchor}"'))
    if chart.level:
        name, value = chart.level
        found.append(_path(f"M{_LEFT} {y(value)}H{_RIGHT}", f'stroke="{LINES[2]}" stroke-dasharray="2 4"'))
        found.append(_text(_LEFT + 6, y(value) - 6, name))
    return found


def _lines(chart: Chart, x: _Axis, y: _Axis) -> list[str]:
    """Each line in its own color and dash, with a point at each value and a gap where there is none.

    A browser shows the values of a point when the mouse is over it.
    """
    found = []
    for number, (name, values) in enumerate(chart.lines.items()):
        way, pen = "", "M"
        for at, value in zip(chart.xs, values):
            if value is None:
                pen = "M"
                continue
            way, pen = f"{way}{pen}{x(at)} {y(value)}", "L"
            says = markup(f"{at:,.6g} {chart.axis}, {name}: {value:,.6g}{chart.unit}")
            place = f'cx="{x(at)}" cy="{y(value)}" r="3" fill="{LINES[number]}"'
            found.append(f"<circle {place}><title>{says}</title></circle>")
        found.append(_path(way, f'{_stroke(number)} class="line"'))
    return found

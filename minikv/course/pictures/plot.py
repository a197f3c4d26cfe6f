"""Plots with a text twin: lines over a common x, drawn as the reports of `minikv plan` draw them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from minikv.course.pictures.picture import Picture
from minikv.errors import bounded
from minikv.testing.snapshot import legible
from minikv.traffic.chart import MOST_LINES, Chart, chart_svg


def plot(
    title: str,
    x: Mapping[str, Sequence[float]],
    series: Mapping[str, Sequence[float | None]],
    y: str = "",
    log: str = "",
) -> Picture:
    """Lines over a common x; `x` is `{its name: its values}`, `log` has the axes to scale by powers ("x", "y", "xy").

    Each line has its own dash, so that no meaning hangs on color alone; `None` leaves a gap. Raises `ValueError` for a
    series of another length and for more series than can be told apart.

    >>> plot("cost of one eviction", {"leaves": [10, 100]}, {"scan": [1, 10.5], "ring": [1, 1]}, "visits")
    cost of one eviction (visits)
    leaves   scan   ring
        10      1      1
       100   10.5      1
    """
    _require(x, series, log)
    ((name, values),) = x.items()
    title, name, y = legible(str(title)), legible(str(name)), legible(str(y))
    if len(series) > MOST_LINES:
        raise ValueError(f"{len(series)} series: a plot tells at most {MOST_LINES} apart")
    lines = {legible(str(line)): numbers for line, numbers in series.items()}
    for line, numbers in lines.items():
        if len(numbers) != len(values):
            raise ValueError(f"series {line!r} has {len(numbers)} values, {name} has {len(values)}: expected as many")
    columns = [[name, *map(_number, values)]]
    columns += [[line, *map(_number, numbers)] for line, numbers in lines.items()]
    widths = [max(map(len, column)) for column in columns]
    rows = ["   ".join(cell.rjust(width) for cell, width in zip(row, widths)) for row in zip(*columns)]
    heading = f"{title} ({y})" if y else title
    return Picture("\n".join([heading, *rows]), lambda: chart_svg(Chart(heading, name, values, lines, log=log)))


def _require(x: Any, series: Any, log: Any) -> None:
    if log not in ("", "x", "y", "xy"):
        raise ValueError(f"log is {bounded(log)}: expected x, y or xy, or nothing")
    if not isinstance(x, Mapping) or len(x) != 1:
        raise TypeError(f"x is {bounded(x)}: expected one name with its values")
    if not isinstance(series, Mapping):
        raise TypeError(f"series is {bounded(series)}: expected names with their values")


def _number(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{int(value):,}" if hasattr(value, "__index__") else f"{value:,.4g}"

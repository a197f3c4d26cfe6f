"""Plots with a text twin: lines over a common x, as a picture that code-hosting sites show and tests compare."""

from __future__ import annotations

import importlib.util
import io
import re
from collections.abc import Mapping, Sequence
from typing import Any

from minikv.course.pictures.picture import Picture
from minikv.errors import bounded
from minikv.palette import BOTH, LINES
from minikv.testing.snapshot import legible

_STYLES = (("-", "o"), ("--", "s"), ("-.", "^"), (":", "D"), ("-", "x"), ("--", "v"), ("-.", "P"))
Curve = tuple[str, Sequence["float | None"]]


def plot(
    title: str,
    x: Mapping[str, Sequence[float]],
    series: Mapping[str, Sequence[float | None]],
    y: str = "",
    log: str = "",
) -> Picture:
    """Lines over a common x; `x` is `{its name: its values}`, `log` has the axes to scale by powers ("x", "y", "xy").

    Each line has its own dash and marker, so that no meaning hangs on color alone; `None` leaves a gap. Without
    matplotlib the text twin, a table of the numbers, stands alone. Raises `ValueError` for a series of another length
    and for more series than can be told apart.

    >>> plot("cost of one eviction", {"leaves": [10, 100]}, {"scan": [1, 10.5], "ring": [1, 1]}, "visits")
    cost of one eviction (visits)
    leaves   scan   ring
        10      1      1
       100   10.5      1
    """
    _require(x, series, log)
    ((name, values),) = x.items()
    title, name, y = legible(str(title)), legible(str(name)), legible(str(y))
    if len(series) > len(_STYLES):
        raise ValueError(f"{len(series)} series: a plot tells at most {len(_STYLES)} apart")
    lines = [(legible(str(line)), numbers) for line, numbers in series.items()]
    for line, numbers in lines:
        if len(numbers) != len(values):
            raise ValueError(f"series {line!r} has {len(numbers)} values, {name} has {len(values)}: expected as many")
    columns = [[name, *map(_number, values)]]
    columns += [[line, *map(_number, numbers)] for line, numbers in lines]
    widths = [max(map(len, column)) for column in columns]
    rows = ["   ".join(cell.rjust(width) for cell, width in zip(row, widths)) for row in zip(*columns)]
    heading = f"{title} ({y})" if y else title
    return Picture("\n".join([heading, *rows]), lambda: _svg(title, name, values, lines, y, log))


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


def _verbatim(text: str) -> str:
    """Text that matplotlib does not read as a formula."""
    return text.replace("$", r"\$")


def _svg(title: str, name: str, values: Sequence[float], lines: Sequence[Curve], y: str, log: str) -> str | None:
    if importlib.util.find_spec("matplotlib") is None:
        return None
    from matplotlib import rc_context
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    ink: dict[Any, Any] = dict.fromkeys(
        ("text.color", "axes.labelcolor", "xtick.color", "ytick.color", "axes.edgecolor"), BOTH
    )
    with rc_context({**ink, "svg.hashsalt": "minikv", "font.family": "DejaVu Sans", "svg.fonttype": "path"}):
        figure = Figure(figsize=(7, 3.6), layout="constrained")
        figure.patch.set_alpha(0)
        axes = figure.add_subplot(facecolor="none")
        axes.set(title=_verbatim(title), xlabel=_verbatim(name), ylabel=_verbatim(y))
        _draw_lines(axes, values, lines, log)
        painted = io.StringIO()
        FigureCanvasSVG(figure).print_svg(painted, metadata={"Date": None, "Creator": None})  # type: ignore[no-untyped-call]
    svg = painted.getvalue()
    return re.sub(r'(width|height)="([\d.]+)pt"', r'\1="\2"', svg[svg.index("<svg") :], count=2)


def _draw_lines(axes: Any, values: Sequence[float], lines: Sequence[Curve], log: str) -> None:
    for (line, numbers), color, (dash, marker) in zip(lines, LINES, _STYLES):
        shown = [float("nan") if number is None else number for number in numbers]
        axes.plot(values, shown, dash, color=color, marker=marker, markersize=4, label=_verbatim(line))
    if all(value == int(value) for value in values):  # half a step, or half a turn, is nothing
        axes.locator_params(axis="x", integer=True)
    if "x" in log:
        axes.set_xscale("log")
    if "y" in log:
        axes.set_yscale("log")
    axes.grid(alpha=0.3)
    axes.legend(loc="center left", bbox_to_anchor=(1, 0.5), frameon=False)

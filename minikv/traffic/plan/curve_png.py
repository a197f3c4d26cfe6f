"""Curves of hits over size as a PNG, drawn by matplotlib, which comes with the extra `course`."""

from __future__ import annotations

import io
from typing import Any

from minikv.palette import BOTH, LINES
from minikv.traffic.plan.curve_svg import Curves

_STYLES = (("-", "o"), ("--", "s"), ("-.", "^"), (":", "D"), ("-", "x"), ("--", "v"), ("-.", "P"))


def curve_png(curves: Curves) -> bytes:
    """The picture of `curves` as a PNG of 1400 x 760 dots, on a transparent page.

    >>> import pytest; _ = pytest.importorskip("matplotlib")
    >>> curve_png(Curves("Hits by size", "GiB", [1, 10], {"LRU": [0.1, 0.2]}))[1:4]
    b'PNG'
    """
    from matplotlib import rc_context
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.ticker import FuncFormatter, PercentFormatter

    names = ("text.color", "axes.labelcolor", "xtick.color", "ytick.color", "axes.edgecolor")
    settings: dict[Any, Any] = dict.fromkeys(names, BOTH)
    with rc_context(settings | {"font.family": "DejaVu Sans", "text.parse_math": False}):
        figure = Figure(figsize=(7, 3.8), dpi=200, layout="constrained")
        figure.patch.set_alpha(0)
        axes = figure.add_subplot(facecolor="none")
        _draw(axes, curves)
        axes.xaxis.set_major_formatter(FuncFormatter(lambda size, _: f"{size:,.10g}"))
        axes.yaxis.set_major_formatter(PercentFormatter(1, 0, " %"))
        axes.legend(loc="center left", bbox_to_anchor=(1, 0.5), frameon=False)
        painted = io.BytesIO()
        FigureCanvasAgg(figure).print_png(painted)  # type: ignore[no-untyped-call]
    return painted.getvalue()


def _draw(axes: Any, curves: Curves) -> None:
    for (name, shares), color, (dash, marker) in zip(curves.lines.items(), LINES, _STYLES):
        axes.plot(curves.xs, shares, dash, color=color, marker=marker, markersize=4, label=name)
    if curves.level is not None:
        axes.axhline(curves.level[1], color=LINES[2], linestyle=":", label=curves.level[0])
    for name, size in curves.marks.items():
        axes.axvline(size, color=LINES[3], linestyle="--", linewidth=1)
        axes.annotate(name, (size, 0), (3, 3), textcoords="offset points")
    axes.set(title=curves.title, xlabel=curves.axis, xscale="log", ylim=(0, None))
    axes.grid(alpha=0.3)

"""A picture with its text twin, pictures side by side, and plots of numbers.

In a notebook it is an image whose alternative text is the text twin. It is stored twice, because no known form is
enough everywhere: as HTML, because JupyterLab, Notebook and nbconvert's HTML give a plain PNG no alternative text, and
as PNG, because nbconvert's LaTeX, the way to a PDF, takes no HTML. Where no PNG can be made, the HTML has the SVG. It
has no background, and the words beside its boxes can be read on a white page and on a black one.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping, Sequence
from html import escape
from typing import Any

from minikv.course.pictures.chart import MOST_LINES, Chart, chart_svg
from minikv.course.pictures.svg import canvas, place, svg_size, svg_to_png
from minikv.course.pictures.tree import HOW_TO_GET_PICTURES, graphviz_way
from minikv.errors import bounded
from minikv.testing.snapshot import legible

MOST_WIDE = 1200  # units: a wider picture is shown smaller, and pictures side by side continue on a new line
MimeBundle = tuple[dict[str, Any], dict[str, Any]]  # what a notebook shows by its kind, and how
_GAP = 24  # between pictures
MOST_SAID = 3000  # letters of an alternative text


class Picture:
    """A picture and its text twin: `text` says in words and lines all that `svg` shows; `str()` is the text.

    `alt` is what a screen reader says in place of the image: the text, unless it was given.
    """

    def __init__(self, text: str, make_svg: Callable[[], str | None], alt: str | None = None):
        self.text, self._make_svg = text, make_svg
        self.alt = text if alt is None else alt

    @property
    def svg(self) -> str | None:
        """The SVG, or `None` where neither way to run Graphviz is installed."""
        return self._make_svg()

    @property
    def png(self) -> bytes | None:
        """The PNG, or `None` where it cannot be made."""
        svg = self.svg
        return svg_to_png(svg) if svg else None

    @property
    def html(self) -> str | None:
        """An image with its alternative text, or `None` where it cannot be made.

        >>> from minikv import FreeListPool, draw
        >>> '<img alt="FreeListPool: 2 of 2 free' in draw(FreeListPool(2)).html
        True
        """
        return self._repr_mimebundle_()[0].get("text/html")

    def __repr__(self) -> str:
        return self.text

    def _repr_mimebundle_(self, **_: Any) -> MimeBundle:
        svg, png = self.svg, self.png
        if svg is None:
            return {"text/plain": self.text if graphviz_way() else f"{self.text}\n{HOW_TO_GET_PICTURES}"}, {}
        size = svg_size(svg)
        width, height = (round(side * min(1.0, MOST_WIDE / size[0])) for side in size)
        coded = base64.b64encode(png or svg.encode()).decode()
        html = image_html(coded, self.alt, width, "png" if png else "svg+xml")
        data = {"text/html": html, "text/plain": self.text}
        if png is None:
            return data, {}
        return {**data, "image/png": coded}, {"image/png": {"width": width, "height": height}}


def image_html(coded: str, alt: str, width: int, kind: str) -> str:
    """An image in HTML: a PNG in base64 with its alternative text, as wide as it says where there is room.

    An SVG is of the kind "svg+xml"; shown like this it can load nothing and run nothing. In a narrow window it scrolls:
    shrunk, its words could not be read.

    >>> image_html("aGk=", "root < leaf", 60, "png").partition("<img ")[2]
    'alt="root &lt; leaf" width="60" style="max-width:none" src="data:image/png;base64,aGk="/></div>'
    """
    said = alt if len(alt) <= MOST_SAID else f"{alt[:MOST_SAID]} …"
    look = f'width="{width}" style="max-width:none" src="data:image/{kind};base64,{coded}"'
    return f'<div style="overflow-x:auto" tabindex="0"><img alt="{escape(said)}" {look}/></div>'


def beside(*pictures: Picture) -> Picture:
    """Several pictures as one, from left to right and in lines; their texts are one below the other.

    >>> from minikv import FreeListPool, PageTable, draw
    >>> print(beside(draw(FreeListPool(2)), draw(PageTable(1, 2))).text.splitlines()[0])
    FreeListPool: 2 of 2 free
    """
    return Picture(
        "\n".join(picture.text for picture in pictures),
        lambda: _side_by_side([p.svg for p in pictures]),
        "\n".join(picture.alt for picture in pictures),
    )


def _side_by_side(svgs: list[str | None]) -> str | None:
    """As many in a line as fit on `MOST_WIDE`."""
    placed, x, y, line, broad = [], 0.0, 0.0, 0.0, 0.0
    for svg in svgs:
        if svg is None:
            return None
        wide, high = svg_size(svg)
        if x and x + wide > MOST_WIDE:
            x, y, line = 0.0, y + line + _GAP, 0.0
        placed.append(place(svg, x, y))
        x, line, broad = x + wide + _GAP, max(line, high), max(broad, x + wide)
    return canvas("".join(placed), broad, y + line)


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
        raise ValueError(f"{len(series)} series: a plot shows at most {MOST_LINES}")
    lines = {legible(str(line)): numbers for line, numbers in series.items()}
    for line, numbers in lines.items():
        if len(numbers) != len(values):
            raise ValueError(f"series {line!r} and {name} differ in length: {len(numbers)} and {len(values)}")
    named = [(name, values), *lines.items()]
    columns = [[line, *map(_number, numbers)] for line, numbers in named]
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

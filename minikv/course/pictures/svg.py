"""The basis of every picture of the course: text that cannot break an SVG, parts placed on paper, and the PNG.

The same node or cell comes back in frame after frame, at another place. So a film sends each drawing once, and of
each frame only where its parts are; `Paper.svg` makes the picture of them, in Python and in `player.js` alike.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterable
from functools import lru_cache
from html import escape
from typing import NamedTuple

from minikv.course.pictures.palette import BOTH
from minikv.files import asset
from minikv.testing.snapshot import legible

ZOOM = 2  # pixels for each unit, so that a projector shows sharp text
MOST_SHARP = 600_000  # square units: about a page, or a slide
COLORS = 128
MOST_PIXELS = 1_200_000  # of a larger picture, for a PNG takes as long as it has pixels
FONTS = "'DejaVu Sans Mono', Menlo, Consolas, monospace"


def markup(text: str) -> str:
    """`text` on one line as the content of an element or an attribute, in SVG and in HTML, whatever is in it.

    XML has no way to write most control characters and half of a surrogate pair; they are shown as their codes.

    >>> markup("pages[i]]> 0 & \\x1b")
    'pages[i]]&gt; 0 &amp; \\\\x1b'
    """
    return escape(legible(text))


def canvas(content: str, width: float, height: float) -> str:
    """SVG content on a canvas of a fixed size, which shrinks to its column's width.

    It has no background, and what is written on it has the page's ink: a picture follows the reader's theme.
    """
    return f"{_head(width, height)}{content}</svg>"


def _head(width: float, height: float, role: str = "", words: str = "") -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:g}" height="{height:g}" '
        f'viewBox="0 0 {width:g} {height:g}"{role} style="max-width:100%;height:auto" color="{BOTH}" '
        f'fill="currentColor"{words}>'
    )


def place(svg: str, x: float, y: float) -> str:
    """An SVG as part of another one, with its corner at (x, y) and its own size; it is no image of its own any more."""
    wide, high = svg_size(svg)
    head = re.sub(r' (width|height|role)="[^"]*"', "", svg[: svg.index(">")])
    return f'{head} x="{x:g}" y="{y:g}" width="{wide:g}" height="{high:g}"{svg[svg.index(">") :]}'


def captioned(caption: str, svg: str | None) -> str | None:
    """A picture, if there is one, below its caption.

    >>> svg_size(captioned("Before", canvas("", 100, 40)))
    (100.0, 66.0)
    """
    if svg is None:
        return None
    width, height = svg_size(svg)
    words = f'<text x="4" y="16" font-size="13" font-weight="bold" font-family="{FONTS}">{markup(caption)}</text>'
    return canvas(words + place(svg, 0, 26), max(width, 8 * len(caption) + 8), height + 26)


def words_svg(text: str) -> str:
    """A text of several lines as a picture: the text twin of what cannot be drawn.

    >>> svg_size(words_svg("root\\n└─ [1]"))
    (56.0, 44.0)
    """
    lines = text.splitlines()
    width, height = 8 * max(map(len, lines), default=0) + 8, 20 * len(lines) + 4
    words = "".join(
        f'<text x="4" y="{20 * i + 16}" xml:space="preserve">{markup(line)}</text>' for i, line in enumerate(lines)
    )
    return canvas(f'<g font-family="{FONTS}" font-size="13" text-anchor="start">{words}</g>', width, height)


def svg_size(svg: str) -> tuple[float, float]:
    """Width and height of an SVG in user units (Graphviz's points count as units), from its `viewBox`.

    >>> svg_size('<svg width="10pt" viewBox="0.00 0.00 10.00 20.50">')
    (10.0, 20.5)
    """
    found = re.search(r'viewBox="[\d.\-]+ [\d.\-]+ ([\d.]+) ([\d.]+)"', svg)
    if not found:
        raise ValueError("an SVG without a viewBox has no size")
    return float(found[1]), float(found[2])


class Drawing(NamedTuple):
    """SVG around its own origin; lines leave it `reach` units below that, or to the right of it."""

    svg: str
    reach: int = 0


@lru_cache(maxsize=4096)
def words_drawing(words: str, look: str = "") -> Drawing:
    """Words that start at the place of their part, with more attributes than the picture's where some are given.

    >>> words_drawing("row 0").svg
    '<text text-anchor="start">row 0</text>'
    """
    return Drawing(f'<text text-anchor="start"{look}>{markup(words)}</text>')


class Part(NamedTuple):
    """A drawing at (x, y); `key` names it from frame to frame, `above` is the key of the part that it hangs on."""

    key: int
    drawing: Drawing
    x: int
    y: int
    above: int | None = None


class Paper(NamedTuple):
    """The part that all pictures of a panel share: their size, and the direction of the lines."""

    width: float
    height: float
    sideways: bool = False

    @property
    def head(self) -> str:
        """The SVG before the parts of each picture: texts are centered, and have the page's text color."""
        words = f' font-family="{FONTS}" font-size="13" text-anchor="middle"'
        return _head(self.width, self.height, ' role="img"', words)

    def svg(self, parts: Iterable[Part], over: str = "") -> str:
        """The picture of some parts, and of what is painted `over` them.

        >>> dot = Drawing('<circle r="3"/>')
        >>> Paper(9, 9).svg([Part(0, dot, 4, 4)]).partition(">")[2]
        '<g transform="translate(4 4)"><g data-part="0"><circle r="3"/></g></g></svg>'
        """
        return f"{self.head}{painted(parts, self.sideways)}{over}</svg>"


def painted(parts: Iterable[Part], sideways: bool) -> str:
    """The lines, and on them the parts in their order; as `painted` of `player.js` does it."""
    placed = {part.key: part for part in parts}
    ways = [line_to(part, placed[part.above], sideways) for part in placed.values() if part.above is not None]
    lines = f'<path class="lines" fill="none" stroke="{BOTH}" d="{"".join(ways)}"/>' if ways else ""
    return lines + "".join(
        f'<g transform="translate({x} {y})"><g data-part="{key}">{drawing.svg}</g></g>'
        for key, drawing, x, y, _ in placed.values()
    )


def line_to(part: Part, above: Part, sideways: bool) -> str:
    """The line from the part that another one hangs on, as a piece of a path: straight at both ends.

    >>> box = Drawing("", 10)
    >>> line_to(Part(1, box, 30, 20), Part(0, box, 0, 0), sideways=False)
    'M0 10C0 15 30 15 30 20'
    """
    if sideways:
        x, y = above.x + above.drawing.reach, above.y
        middle = (x + part.x) // 2
        return f"M{x} {y}C{middle} {y} {middle} {part.y} {part.x} {part.y}"
    x, y = above.x, above.y + above.drawing.reach
    middle = (y + part.y) // 2
    return f"M{x} {y}C{x} {middle} {part.x} {middle} {part.x} {part.y}"


@lru_cache(maxsize=64)
def svg_to_png(svg: str) -> bytes | None:
    """Paint an SVG at `ZOOM` times its size, or a large one with `MOST_PIXELS`; `None` without resvg.

    It is transparent, as a page in the dark needs it. With Pillow it has few colors, and so few bytes.
    """
    try:
        import resvg_py
    except ModuleNotFoundError:
        return None
    width, height = svg_size(svg)
    zoom = ZOOM if width * height <= MOST_SHARP else min(ZOOM, (MOST_PIXELS / (width * height)) ** 0.5)
    fonts = [str(asset(f"fonts/minikv-mono{weight}.ttf")) for weight in ("", "-bold")]
    png = resvg_py.svg_to_bytes(
        svg_string=svg, zoom=zoom,
        skip_system_fonts=True, font_files=fonts, monospace_family="DejaVu Sans Mono",
    )  # fmt: skip
    return _with_few_colors(bytes(png))


def _with_few_colors(png: bytes) -> bytes:
    try:
        from PIL import Image
    except ModuleNotFoundError:
        return png
    small, out = Image.open(io.BytesIO(png)).convert("RGBA"), io.BytesIO()
    small.quantize(COLORS, method=Image.Quantize.FASTOCTREE, dither=Image.Dither.NONE).save(out, "PNG", optimize=True)
    return min(png, out.getvalue(), key=len)

"""The pieces that every SVG of the course is made with: text that cannot break it, a canvas, a place on it."""

from __future__ import annotations

import re
from html import escape

from minikv.palette import BOTH
from minikv.testing.snapshot import legible

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
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:g}" height="{height:g}" '
        f'viewBox="0 0 {width:g} {height:g}" style="max-width:100%;height:auto" color="{BOTH}" '
        f'fill="currentColor">{content}</svg>'
    )


def place(svg: str, x: float, y: float) -> str:
    """An SVG as part of another one, with its corner at (x, y) and its own size; it is no image of its own any more."""
    wide, high = svg_size(svg)
    head = re.sub(r' (width|height|role)="[^"]*"', "", svg[: svg.index(">")])
    return f'{head} x="{x:g}" y="{y:g}" width="{wide:g}" height="{high:g}"{svg[svg.index(">") :]}'


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

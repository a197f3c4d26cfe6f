"""A picture made of parts: small drawings that stand somewhere and may hang on another one by a line.

The same node or cell comes back in frame after frame, at another place. So a film sends each drawing once, and of
each frame only where its parts stand; `Paper.svg` makes the picture of them, in Python and in `player.js` alike.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from minikv.course.pictures.svg import FONTS
from minikv.palette import BOTH


class Drawing(NamedTuple):
    """SVG around its own origin; lines leave it `reach` units below that, or to the right of it."""

    svg: str
    reach: int = 0


class Part(NamedTuple):
    """A drawing at (x, y); `key` names it from frame to frame, `above` is the key of the part that it hangs on."""

    key: int
    drawing: Drawing
    x: int
    y: int
    above: int | None = None


class Paper(NamedTuple):
    """What all pictures of a panel have in common: the size, what is painted `over` them, the way the lines go."""

    width: float
    height: float
    over: str = ""
    sideways: bool = False

    @property
    def head(self) -> str:
        """What stands before the parts of each picture: texts are centred, and have the page's ink."""
        w, h = f"{self.width:g}", f"{self.height:g}"
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{w}" height="{h}" viewBox="0 0 {w} {h}" role="img" '
            f'style="max-width:100%;height:auto" color="{BOTH}" fill="currentColor" font-family="{FONTS}" '
            'font-size="13" text-anchor="middle">'
        )

    @property
    def tail(self) -> str:
        """What stands behind them."""
        return f"{self.over}</svg>"

    def svg(self, parts: Iterable[Part]) -> str:
        """The picture of some parts.

        >>> dot = Drawing('<circle r="3"/>')
        >>> Paper(9, 9).svg([Part(0, dot, 4, 4)]).partition(">")[2]
        '<g transform="translate(4 4)"><g data-part="0"><circle r="3"/></g></g></svg>'
        """
        return f"{self.head}{painted(parts, self.sideways)}{self.tail}"


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

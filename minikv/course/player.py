"""A player for a row of pictures: play, pause, step, slide, with buttons or keys.

The drawings are made here and travel to the browser once, so that the player keeps running when the kernel
is gone. Where widgets do not run, the stored picture and the text of every step are shown instead, so nothing is in
a player only. The browser's half is `assets/player/`.

A panel of a reel has a `head` and a `tail` that stay, and for each step 0, where nothing changed, or a pair:

    shape   [key, above, key, above, …] of all its parts, in their order; 0 where they are the same as before
    put     [key, drawing, x, y, …] of those that are new, or are elsewhere, or look different

`pictureAt` in `player.js` makes the SVG of a step of it again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import anywidget
import traitlets

from minikv.course.pictures.picture import MimeBundle, Picture
from minikv.course.pictures.svg import Drawing, Paper, Part, captioned, place, svg_size, words_svg
from minikv.errors import bounded
from minikv.files import asset
from minikv.palette import state_css
from minikv.testing.snapshot import legible

RUN_IT = "<p>Run the cell to step through it.</p>"  # below a picture that replaces a widget


def script() -> str:
    """The browser's half of the player, an ECMAScript module.

    >>> "function render(" in script()
    True
    """
    return asset("player/player.js").read_text("utf-8")


def style_sheet() -> str:
    """The player's style sheet, with the looks of the states.

    >>> ".minikv-player" in style_sheet()
    True
    """
    return asset("player/player.css").read_text("utf-8") + state_css()


class Reel:
    """The pictures of a player as differences; `first` is the number of its first step.

    >>> reel, dot = Reel(1, ["one", "two", "three"]), Drawing("<circle/>")
    >>> reel.add("picture", Paper(9, 9), [[Part(0, dot, x, 4)] for x in (1, 1, 5)])
    >>> reel.drawings, reel.panels[0]["steps"]
    (['<circle/>'], [[[0, None], [0, 0, 1, 4]], 0, [0, [0, 0, 5, 4]]])
    """

    def __init__(self, first: int, captions: list[str]):
        self.first, self.captions = first, captions
        self.panels: list[dict[str, Any]] = []
        self.film: dict[str, Any] | None = None
        self._numbers: dict[Drawing, int] = {}

    @property
    def drawings(self) -> list[str]:
        """The SVG of each drawing."""
        return [drawing.svg for drawing in self._numbers]

    def add(self, kind: str, paper: Paper, steps: Iterable[Iterable[Part]], **more: Any) -> None:
        """Add a panel that shows these parts at each step."""
        found: list[Any] = []
        before: dict[int, tuple[int, int, int, int | None]] = {}
        for parts in steps:
            now = {p.key: (self._number(p.drawing), p.x, p.y, p.above) for p in parts}
            put = [number for key, it in now.items() if it[:3] != before.get(key, ())[:3] for number in (key, *it[:3])]
            shape, old = ([number for key, it in part.items() for number in (key, it[3])] for part in (now, before))
            found.append(0 if shape == old and not put else [0 if shape == old else shape, put])
            before = now
        size = {"width": paper.width, "height": paper.height, "sideways": paper.sideways}
        self.panels.append({"kind": kind, **size, "head": paper.head, "tail": paper.tail, **more, "steps": found})

    def _number(self, drawing: Drawing) -> int:
        return self._numbers.setdefault(drawing, len(self._numbers))

    def as_dict(self) -> dict[str, Any]:
        """The reel as plain data, for JSON."""
        reaches = [drawing.reach for drawing in self._numbers]
        return {
            "first": self.first,
            "captions": self.captions,
            "drawings": self.drawings,
            "reaches": reaches if any(reaches) else [],
            "panels": self.panels,
            "film": self.film,
        }


class Player(anywidget.AnyWidget):
    """A widget that steps through pictures; made by `play` and by `Film.player`.

    `index` is the step on show, from 0; `clicked` is the id of the node that was clicked last, or -1. A film shows its
    step `poster` faintly until the first step is taken, by default the first one in which there is something.
    """

    _esm, _css = script(), style_sheet()
    reel: Any = traitlets.Dict().tag(sync=True)
    index = traitlets.Int(0).tag(sync=True)
    clicked = traitlets.Int(-1).tag(sync=True)
    poster = traitlets.Int(None, allow_none=True).tag(sync=True)

    def __init__(self, reel: Reel, still: Picture, **options: Any):
        self.still = still  # the picture that it begins with, for where widgets do not run
        super().__init__(reel=reel.as_dict(), **options)

    @traitlets.validate("index")
    def _a_step(self, proposal: Any) -> int:
        last, index = len(self.reel["captions"]) - 1, int(proposal["value"])
        if not 0 <= index <= last:
            raise traitlets.TraitError(f"index is {index}: this player has steps 0 to {last}")
        return index

    @property
    def text(self) -> str:
        """The caption of every step, and the text twin of the picture that it begins with."""
        return self.still.text

    def __repr__(self) -> str:
        return self.text

    def _repr_mimebundle_(self, **options: Any) -> MimeBundle:
        still, size = self.still._repr_mimebundle_()
        if "text/html" in still:
            still["text/html"] += RUN_IT
        live = super()._repr_mimebundle_(**options)
        data, metadata = live if isinstance(live, tuple) else (live or {}, {})
        return {**data, **still, "text/plain": self.text}, {**metadata, **size}


def play(steps: Iterable[tuple[str, Picture]], at: int = 0) -> Player:
    """A player for steps, each a caption and its picture, that begins at step `at`; without widgets, its picture.

    >>> from minikv import FreeListPool, draw
    >>> pool, steps = FreeListPool(3), []
    >>> for n in (1, 2):
    ...     steps.append((f"alloc({n})", draw(pool, new=pool.alloc(n))))
    >>> play(steps)
    Player with 2 steps
    1. alloc(1)
    2. alloc(2)
    <BLANKLINE>
    FreeListPool: 2 of 3 free
     0  n..    . free  n new
    """
    found = list(steps) if isinstance(steps, Iterable) else [steps]
    for step in found:
        if not (isinstance(step, tuple) and len(step) == 2 and isinstance(step[1], Picture)):
            raise TypeError(f"a step is {bounded(step)}: expected a caption and its picture")
    if not found:
        raise ValueError("there are no steps to play")
    captions = [legible(f"{i}. {caption}") for i, (caption, _) in enumerate(found, start=1)]
    at, shown = range(len(found))[at], found[at][1]
    text = "\n".join([f"Player with {len(found)} steps", *captions, "", shown.text])
    reel = Reel(1, captions)
    _on_one_canvas(reel, [picture for _, picture in found])
    words = f"{captions[at]} ({'the first of' if at == 0 else 'of'} {len(found)} steps)"
    still = Picture(text, lambda: captioned(words, shown.svg), f"{words}\n{shown.alt}")
    return Player(reel, still, index=at)


def _on_one_canvas(reel: Reel, pictures: Sequence[Picture]) -> None:
    """Every picture on a canvas of the same size, top left; or its text where it cannot be drawn."""
    svgs = [picture.svg or words_svg(picture.text) for picture in pictures]
    sizes = [svg_size(svg) for svg in svgs]
    paper = Paper(max(w for w, _ in sizes), max(h for _, h in sizes))
    reel.add("picture", paper, ([Part(0, Drawing(place(svg, 0, 0)), 0, 0)] for svg in svgs))

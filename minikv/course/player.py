"""A player for a row of pictures: play, pause, step, slide, with buttons or keys.

Where widgets do not run, the picture that it begins with is shown instead, with the text of the steps up to it: later
ones may be the answer to a question.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from minikv.course.pictures.picture import MimeBundle, Picture
from minikv.course.pictures.svg import Drawing, Paper, Part, captioned, place, svg_size, words_svg
from minikv.course.reel import Reel, script, style_sheet
from minikv.errors import bounded
from minikv.testing.snapshot import legible

try:
    import anywidget
    import traitlets
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(f"a player needs {error.name}: pip install 'minikv[course]'", name=error.name) from None

RUN_IT = "<p>Run the cell to step through it.</p>"  # below a picture that replaces a widget


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

    def __repr__(self) -> str:
        return self.still.text

    def _repr_mimebundle_(self, **options: Any) -> MimeBundle:
        still, size = self.still._repr_mimebundle_()
        if "text/html" in still:
            still["text/html"] += RUN_IT
        live = super()._repr_mimebundle_(**options)
        data, metadata = live if isinstance(live, tuple) else (live or {}, {})
        return {**data, **still, "text/plain": self.still.text}, {**metadata, **size}


def play(steps: Iterable[tuple[str, Picture]], at: int = 0) -> Player:
    """A player for steps, each a caption and its picture, that begins at step `at`; without widgets, its picture.

    What later steps say is not on the page before they are reached.

    >>> from minikv import FreeListPool, draw
    >>> pool, steps = FreeListPool(3), []
    >>> for n in (1, 2):
    ...     steps.append((f"alloc({n})", draw(pool, new=pool.alloc(n))))
    >>> play(steps)
    Player with 2 steps
    1. alloc(1)
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
    text = "\n".join([f"Player with {len(found)} step{'s' * (len(found) > 1)}", *captions[: at + 1], "", shown.text])
    reel = Reel(1, captions)
    _on_one_canvas(reel, [picture for _, picture in found])
    words = f"{captions[at]} (step {at + 1} of {len(found)})"
    still = Picture(text, lambda: captioned(words, shown.svg), f"{words}\n{shown.alt}")
    return Player(reel, still, index=at)


def _on_one_canvas(reel: Reel, pictures: Sequence[Picture]) -> None:
    """Every picture on a canvas of the same size, top left; or its text where it cannot be drawn."""
    svgs = [picture.svg or words_svg(picture.text) for picture in pictures]
    widths, heights = zip(*map(svg_size, svgs))
    drawings = [Drawing(place(svg, 0, 0)) for svg in svgs]
    steps = [[Part(0, drawing, 0, 0)] for drawing in drawings]
    reel.add("picture", Paper(max(widths), max(heights)), steps)

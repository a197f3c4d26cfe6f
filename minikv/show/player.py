"""A player for a row of pictures: play, pause, step, slide, with buttons or keys.

The frames are painted here and travel to the browser once, on one canvas of one size, so that nothing jumps and the
player goes on when the kernel is gone. Where widgets do not run, the stored picture and the text of every step stand
in: nothing is shown in a player only.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import anywidget
import traitlets

from minikv.show.draw import Picture, canvas, place, svg_size
from minikv.show.render import FONTS

_ESM = r"""
function render({ model, el }) {
  const frames = model.get("frames"), captions = model.get("captions"), last = frames.length - 1;
  el.classList.add("minikv-player");
  el.tabIndex = 0;
  el.setAttribute("role", "group");
  el.setAttribute("aria-label", "step player: arrow keys step, space plays");
  el.innerHTML = `<div class="minikv-bar">
    <button data-testid="first" aria-label="first step">|◀</button>
    <button data-testid="prev" aria-label="step back">◀</button>
    <button data-testid="play" aria-label="play">▶ play</button>
    <button data-testid="next" aria-label="step forward">▶</button>
    <input data-testid="slider" type="range" min="0" max="${last}" aria-label="step">
    <output data-testid="count"></output>
    <label>speed <select data-testid="speed"><option value="2400">½×</option><option value="1200" selected>1×</option>
      <option value="600">2×</option><option value="240">5×</option></select></label></div>
    <div class="minikv-caption" aria-live="polite"></div><div class="minikv-scene"></div>`;
  const part = (name) => el.querySelector(`[data-testid=${name}]`);
  let at = -1, timer = null;
  const draw = (i) => {
    if (i === at) return;
    at = i;
    el.querySelector(".minikv-scene").innerHTML = frames[i];
    el.querySelector(".minikv-caption").textContent = captions[i];
    part("slider").value = i;
    part("count").textContent = `${i + 1} of ${last + 1}`;
    el.dataset.step = i;
  };
  const go = (i) => { draw(Math.max(0, Math.min(last, i))); model.set("index", at); model.save_changes(); };
  const stop = () => { clearInterval(timer); timer = null; part("play").textContent = "▶ play"; };
  const start = () => {
    part("play").textContent = "⏸ pause";
    if (at === last) go(0);
    timer = setInterval(() => (at >= last ? stop() : go(at + 1)), +part("speed").value);
  };
  const acts = {
    first: () => { stop(); go(0); }, prev: () => { stop(); go(at - 1); }, next: () => { stop(); go(at + 1); },
    play: () => (timer ? stop() : start()),
  };
  for (const name in acts) part(name).onclick = acts[name];
  part("slider").oninput = (e) => { stop(); go(+e.target.value); };
  part("speed").onchange = () => { if (timer) { stop(); start(); } };
  const keys = { ArrowLeft: acts.prev, ArrowRight: acts.next, Home: acts.first, " ": acts.play };
  el.onkeydown = (e) => {
    e.stopPropagation();                                   // the notebook would take the arrow keys for itself
    const inControl = ["BUTTON", "SELECT", "INPUT"].includes(e.target.tagName);
    if (!keys[e.key] || (inControl && (e.key === " " || e.target.tagName !== "BUTTON"))) return;
    keys[e.key]();
    e.preventDefault();
  };
  const follow = () => draw(model.get("index"));
  model.on("change:index", follow);
  follow();
  return () => { stop(); model.off("change:index", follow); };
}
export default { render };
"""

_CSS = """
.minikv-player { outline-offset: 2px; }
.minikv-bar { display: flex; gap: 8px; align-items: center; flex-wrap: wrap; margin: 4px 0; }
.minikv-bar button { min-width: 2.6em; padding: 2px 8px; }
.minikv-bar input { flex: 1 1 120px; max-width: 320px; }
.minikv-caption { font-weight: 600; margin: 6px 0; min-height: 1.4em; }
.minikv-scene { background: #fff; color: #000; overflow-x: auto; }
"""


class Player(anywidget.AnyWidget):
    """A widget that steps through pictures; made by `play`. `index` is the step on show, from 0."""

    _esm, _css = _ESM, _CSS
    frames: Any = traitlets.List().tag(sync=True)
    captions: Any = traitlets.List().tag(sync=True)
    index = traitlets.Int(0).tag(sync=True)

    def __init__(self, steps: Sequence[tuple[str, Picture]], **options: Any):
        self._steps = steps
        captions = [f"{i}. {caption}" for i, (caption, _) in enumerate(steps, start=1)]
        super().__init__(frames=_on_one_canvas([picture for _, picture in steps]), captions=captions, **options)

    @property
    def text(self) -> str:
        """What every step says, and the text twin of the last picture."""
        return "\n".join([f"Player with {len(self._steps)} steps", *self.captions, "", self._steps[-1][1].text])

    @property
    def still(self) -> Picture:
        """All captions and the last picture in one, for where widgets do not run."""
        return Picture(self.text, lambda: _with_captions(self.captions, self._steps[-1][1].svg))

    def __repr__(self) -> str:
        return self.text

    def _repr_mimebundle_(self, **options: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        still, size = self.still._repr_mimebundle_()
        live = super()._repr_mimebundle_(**options)
        data, metadata = live if isinstance(live, tuple) else (live or {}, {})
        return {**data, **still, "text/plain": self.text}, {**metadata, **size}


def play(steps: Iterable[tuple[str, Picture]]) -> Player:
    """A player for steps, each a caption and its picture; where widgets do not run, the last picture and all captions.

    >>> from minikv import FreeListPool, draw
    >>> pool, steps = FreeListPool(3), []
    >>> for n in (1, 2):
    ...     steps.append((f"alloc({n})", draw(pool, new=pool.alloc(n))))
    >>> play(steps)
    Player with 2 steps
    1. alloc(1)
    2. alloc(2)
    <BLANKLINE>
    FreeListPool: 0 of 3 free
     0  #nn    # in use  . free  n new
    """
    found = list(steps)
    if not found:
        raise ValueError("there are no steps to play")
    return Player(found)


def _with_captions(captions: list[str], svg: str | None, line: int = 20) -> str | None:
    if svg is None:
        return None
    width, height = svg_size(svg)
    top = line * (len(captions) + 1)
    words = "".join(
        f'<text x="4" y="{line * i + 16}" font-size="13" font-family="{FONTS}">{_escape(caption)}</text>'
        for i, caption in enumerate([*captions, f"after step {len(captions)}:"])
    )
    longest = max(map(len, captions))
    return canvas(words + place(svg, 0, top + 6), max(width, 8 * longest + 8), top + height + 6)


def _on_one_canvas(pictures: list[Picture]) -> list[str]:
    """Every picture on a canvas of the same size, top left; or its text where it cannot be drawn."""
    svgs = [picture.svg for picture in pictures]
    sizes = [svg_size(svg) for svg in svgs if svg]
    width, height = max((w for w, _ in sizes), default=0), max((h for _, h in sizes), default=0)
    return [
        canvas(place(svg, 0, 0), width, height) if svg else f"<pre>{_escape(picture.text)}</pre>"
        for svg, picture in zip(svgs, pictures)
    ]


def _escape(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;")

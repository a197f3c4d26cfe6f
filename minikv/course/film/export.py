"""A film for a player, as one HTML page that opens offline, as a PNG, and as an animated GIF."""

from __future__ import annotations

import io
import json
from html import escape
from typing import TYPE_CHECKING, Any

from minikv.course.film.frame import Frame, Room, paint, panels_of, room_of
from minikv.course.pictures.cells import MOST_CELLS
from minikv.course.pictures.legend import legend_html
from minikv.course.pictures.looks import SIZES
from minikv.course.pictures.render import HOW_TO_GET_PICTURES, svg_to_png
from minikv.course.pictures.svg import markup
from minikv.course.player import script, style
from minikv.course.reel import Reel
from minikv.errors import bounded
from minikv.testing.snapshot import NodeView, ranges, shorten

if TYPE_CHECKING:
    from minikv.course.film.film import Film

_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>{title}</title>
<style>
:root {{ color-scheme: light dark; }}
body {{ margin: 16px auto; max-width: 1400px; padding: 0 16px; font: 15px/1.45 system-ui, sans-serif;
  background: Canvas; color: CanvasText; }}
h1 {{ font-size: 1.15em; margin: 0 0 8px; }}
{style}</style></head>
<body><main><h1>{title}</h1><div id="film"></div></main>
<script type="application/json" id="reel">{reel}</script>
<script type="module">
{script}
const values = {{ reel: JSON.parse(document.getElementById("reel").textContent), index: 0, clicked: -1 }};
const model = {{ get: (name) => values[name], set: (name, value) => {{ values[name] = value; }},
  on() {{}}, off() {{}}, save_changes() {{}} }};
render({{ model, el: document.getElementById("film") }});
addEventListener("message", (e) => {{
  if (e.data === "height") e.source.postMessage(document.documentElement.scrollHeight + 24, "*");
}});
</script></body></html>
"""
# The notebook may not look into the sandboxed frame, so it asks the page in there how tall it is. In an attribute
# a name is looked up in the frame's element first: the window is named.
_FIT = (
    "window.addEventListener('message', (e) => { "
    "if (e.source === this.contentWindow) this.style.height = e.data + 'px'; }); "
    "this.contentWindow.postMessage('height', '*')"
)


def reel_of(film: Film) -> Reel:
    """Everything that the player shows, as differences from step to step."""
    frames, told = film.frames, Words()
    reel, room = Reel(0, [frame.caption for frame in frames]), room_of(film.frames)
    for panel in panels_of(frames, room):
        number = reel.panel(panel.kind, panel.paper, **panel.grid)
        for frame in frames:
            reel.show(number, panel.parts(frame))
    reel.film = {
        "notes": ["; ".join(frame.changes) for frame in frames],
        "inner": [told.listed(frame.inner_words) for frame in frames],
        "legend": legend_html(room.words),
        "sizes": {
            "names": list(frames[0].sizes),
            "states": [SIZES[name] for name in frames[0].sizes],
            "values": [list(frame.sizes.values()) for frame in frames],
        },
        "born": [{str(upper): lower for upper, lower in frame.delta.changes.splits} for frame in frames],
        "focus": [[view.id for view in frame.nodes if view.marks] for frame in frames],
        "nodes": _nodes(frames, told),
        "slots": {str(slot): told.numbered(story) for slot, story in film.slot_stories().items()},
        "words": told.words,
        "pageSize": film.at(0).state.pools[0].page_size if film.at(0).state.pools else 1,
    }
    return reel


class Words:
    """Sentences that are said of many nodes and slots, each kept once.

    >>> told = Words()
    >>> told.numbered([(1, "taken"), (2, "freed"), (3, "taken")]), told.words
    ([[1, 0], [2, 1], [3, 0]], ['taken', 'freed'])
    """

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    @property
    def words(self) -> list[str]:
        """The sentences by their numbers."""
        return list(self._numbers)

    def listed(self, sentences: list[str]) -> list[int]:
        """The numbers of some sentences."""
        return [self._numbers.setdefault(words, len(self._numbers)) for words in sentences]

    def numbered(self, story: list[tuple[int, str]]) -> list[list[int]]:
        """Events as pairs of a step and the number of what is said."""
        return [[step, self._numbers.setdefault(words, len(self._numbers))] for step, words in story]


def _nodes(frames: list[Frame], told: Words) -> dict[str, dict[str, list[Any]]]:
    """For every node, the facts about it that changed, with the step, and the events of its story."""
    nodes: dict[str, dict[str, list[Any]]] = {}
    known: dict[int, dict[str, Any]] = {}
    for frame in frames:
        for key, view in frame.state.nodes.items():
            old = known.get(key, {})
            touched = key in frame.path or "touched" not in old or old["touched"] != view.last_used
            facts = _facts(view, frame.step if touched else old["used"])
            if changed := {name: fact for name, fact in facts.items() if name not in old or old[name] != fact}:
                _about(nodes, key)["was"].append([frame.step, changed])
            known[key] = {**facts, "touched": view.last_used}
        for gone in [key for key in known if key not in frame.state.nodes]:
            _about(nodes, gone)["was"].append([frame.step, None])
            del known[gone]
        for key, words in frame.node_events:
            _about(nodes, key)["events"] += told.numbered([(frame.step, words)])
    return nodes


def _facts(view: NodeView, used: int) -> dict[str, Any]:
    """What the player says about a node."""
    return {
        "label": view.label,
        "count": len(view.tokens),
        "tokens": shorten(view.tokens, 24) or "none",
        "slots": ranges(view.slots, 12) if view.slots else "none",
        "held": view.slots[:MOST_CELLS],
        "locks": view.ref_count,
        "used": used,
    }


def _about(nodes: dict[str, dict[str, list[Any]]], key: int) -> dict[str, list[Any]]:
    return nodes.setdefault(str(key), {"was": [], "events": []})


def page_of(film: Film) -> str:
    """The film as one page with everything in it: no request leaves it.

    >>> from minikv import FreeListPool, record
    >>> with record(FreeListPool(2)) as film:
    ...     film.note("</script> is only text here")
    >>> page_of(film).count("</script>")
    2
    """
    reel = json.dumps(film.reel.as_dict(), separators=(",", ":"), ensure_ascii=False)
    for mark, code in (("</", "<\\/"), ("<!", "\\u003c!"), ("\u2028", "\\u2028"), ("\u2029", "\\u2029")):
        reel = reel.replace(mark, code)
    title = markup(film.text.partition("\n")[0])
    return _PAGE.format(title=title, style=style(), script=script(), reel=reel)


class Page:
    """A saved film inside a cell's output, in a sandboxed frame: its scripts run, and reach nothing of the notebook.

    Where scripts do not run, its text stands in.
    """

    def __init__(self, film: Film):
        self._html, self._text = page_of(film), film.text

    def __repr__(self) -> str:
        return self._text

    def _repr_html_(self) -> str:
        title = markup(self._text.partition("\n")[0])
        return (
            f'<iframe sandbox="allow-scripts" srcdoc="{escape(self._html)}" onload="{_FIT}" title="{title}" '
            'style="width: 100%; height: 760px; border: 0"></iframe>'
        )


def png_of(frame: Frame, room: Room, background: str | None = None) -> bytes:
    """One frame with its film's room; `RuntimeError` says what to install where pictures cannot be made."""
    svg = paint(frame, room)
    png = svg_to_png(svg, background) if svg else None
    if png is None:
        raise RuntimeError(HOW_TO_GET_PICTURES.strip("()"))
    return png


def gif_of(film: Film, seconds_per_step: float) -> bytes:
    """All frames, each shown for so many seconds; the last one twice as long."""
    if isinstance(seconds_per_step, bool) or not isinstance(seconds_per_step, (int, float)):
        raise TypeError(f"seconds_per_step is {bounded(seconds_per_step)}: expected a number")
    if not 0 < seconds_per_step <= 3600:
        raise ValueError(
            f"seconds_per_step is {bounded(seconds_per_step)}: a step lasts more than 0 seconds, at most an hour"
        )
    try:
        from PIL import Image
    except ImportError:
        raise RuntimeError("no GIF without Pillow: pip install pillow") from None
    room = room_of(film.frames)
    pictures = [Image.open(io.BytesIO(png_of(frame, room, "white"))).convert("RGB") for frame in film]
    small = [picture.quantize(128, dither=Image.Dither.NONE) for picture in pictures]
    times = [round(1000 * seconds_per_step)] * len(small)
    times[-1] *= 2
    out = io.BytesIO()
    small[0].save(out, "GIF", save_all=True, append_images=small[1:], duration=times, loop=0, disposal=1)
    return out.getvalue()

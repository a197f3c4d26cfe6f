"""A film as files: one HTML page that opens offline, a PNG, an animated GIF."""

from __future__ import annotations

import io
import json
from html import escape
from typing import TYPE_CHECKING

from minikv.course.film.frame import Frame, Room, paint, room_of
from minikv.course.film.reel import reel_of
from minikv.course.pictures.render import HOW_TO_GET_PICTURES, svg_to_png
from minikv.course.pictures.svg import markup
from minikv.course.player import script, style

if TYPE_CHECKING:
    from minikv.course.film.film import Film

_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>{title}</title>
<style>
:root {{ color-scheme: light dark; }}
body {{ margin: 16px auto; max-width: 1400px; padding: 0 16px; font: 15px/1.45 system-ui, sans-serif; }}
{style}</style></head>
<body><main id="film"></main>
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


def page_of(film: Film) -> str:
    """The film as one page with everything in it: no request leaves it.

    >>> from minikv import FreeListPool, record
    >>> with record(FreeListPool(2)) as film:
    ...     film.note("</script> is only text here")
    >>> page_of(film).count("</script>")
    2
    """
    reel = json.dumps(reel_of(film).as_dict(), separators=(",", ":"), ensure_ascii=False)
    safe = reel.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")
    title = markup(film.text.partition("\n")[0])
    return _PAGE.format(title=title, style=style(), script=script(), reel=safe)


# The notebook may not look into the sandboxed frame, so it asks the page in there how tall it is.
_FIT = (
    "addEventListener('message', (e) => { if (e.source === this.contentWindow) this.style.height = e.data + 'px'; }); "
    "this.contentWindow.postMessage('height', '*')"
)


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


def png_of(frame: Frame, room: Room) -> bytes:
    """One frame with its film's room; `RuntimeError` says what to install where pictures cannot be made."""
    svg = paint(frame, room)
    png = svg_to_png(svg) if svg else None
    if png is None:
        raise RuntimeError(HOW_TO_GET_PICTURES.strip("()"))
    return png


def gif_of(film: Film, seconds_per_step: float) -> bytes:
    """All frames, each shown for so many seconds; the last one twice as long."""
    if not seconds_per_step > 0:
        raise ValueError(f"seconds_per_step is {seconds_per_step}: a step lasts longer than 0 seconds")
    try:
        from PIL import Image
    except ImportError:
        raise RuntimeError("no GIF without Pillow: pip install pillow") from None
    room = room_of(film.frames)
    pictures = [Image.open(io.BytesIO(png_of(frame, room))).convert("RGB") for frame in film]
    small = [picture.quantize(128, dither=Image.Dither.NONE) for picture in pictures]
    times = [round(1000 * seconds_per_step)] * len(small)
    times[-1] *= 2
    out = io.BytesIO()
    small[0].save(out, "GIF", save_all=True, append_images=small[1:], duration=times, loop=0, disposal=1)
    return out.getvalue()

"""The reel of a player: pictures as differences from step to step, the browser's half, and both as one HTML page.

The drawings are made here and travel to the browser once, so that the player keeps running when the kernel is gone.
The browser's half is `assets/player/`. A panel of a reel has a `head` and a `tail` that stay, and for each step 0,
where nothing changed, or a pair:

    shape   [key, above, key, above, …] of all its parts, in their order; 0 where they are the same as before
    put     [key, drawing, x, y, …] of those that are new, or are elsewhere, or look different

`pictureAt` in `player.js` makes the SVG of a step of it again.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from minikv.course.pictures.palette import state_css
from minikv.course.pictures.svg import Drawing, Paper, Part, markup
from minikv.files import asset

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
</script></body></html>
"""


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
        self.film: dict[str, Any] = {}
        self._numbers: dict[Drawing, int] = {}

    @property
    def drawings(self) -> list[str]:
        """The SVG of each drawing."""
        return [drawing.svg for drawing in self._numbers]

    def add(self, kind: str, paper: Paper, steps: Iterable[Iterable[Part]], **more: Any) -> None:
        """Add a panel that shows these parts at each step."""
        found: list[Any] = []
        before: dict[int, list[Any]] = {}
        order: list[int | None] = []
        for parts in steps:
            # of each key: the number of its drawing, x, y, and the part above it
            now = {part.key: [self._number(part.drawing), *part[2:]] for part in parts}
            shape: list[int | None] = []
            put: list[Any] = []
            for key, (*look, above) in now.items():
                shape += key, above
                if look != before.get(key, [])[:3]:
                    put += key, *look
            if shape != order:
                found.append([shape, put])
            else:
                found.append([0, put] if put else 0)
            before, order = now, shape
        self.panels.append({"kind": kind, "width": paper.width, "height": paper.height,
                            "sideways": paper.sideways, "head": paper.head, "tail": "</svg>",
                            **more, "steps": found})  # fmt: skip

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
            "film": self.film or None,
        }


def page_of(title: str, reel: Reel) -> str:
    """A reel as one page with everything in it: no request leaves it.

    >>> "<!--" in page_of("A film", Reel(0, ["<!-- <script>"]))   # a browser would read on to the end
    False
    >>> page_of("</script> is only text here", Reel(0, ["</script>"])).count("</script>")
    2
    """
    data = json.dumps(reel.as_dict(), separators=(",", ":"), ensure_ascii=False)
    data = data.replace("</", "<\\/").replace("<!", "\\u003c!")
    return _PAGE.format(title=markup(title), style=style_sheet(), script=script(), reel=data)

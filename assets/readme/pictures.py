"""Make the pictures of the README and of the site: a film, and the playground of chapter 00.

    python assets/readme/pictures.py

A Chrome or Chromium that Playwright can start must be there; MINIKV_CHROME names another one. The pictures of the
tools' pages are made by `tools/site/report_pictures.py`.
"""

from __future__ import annotations

import argparse
import importlib
import io
import sys
import tempfile
from pathlib import Path
from typing import Any

from PIL import Image
from PIL.PngImagePlugin import PngInfo

from minikv import Film, FreeListPool, RadixCache, files, record
from minikv.course.film.layout import FilmLayout
from minikv.course.pictures.svg import svg_to_png

HERE = Path(__file__).parent
PROMPT = "the car is"  # typed into the playground


def film_of_sharing() -> Film:
    """A prompt is cached; one that begins alike splits its edge; a leaf is evicted for a third."""
    cache, pool = RadixCache(), FreeListPool(24)

    def serve(prompt: str) -> None:
        tokens = list(prompt.encode())
        match = cache.match_prefix(tokens)
        cache.insert(tokens, [*match.pages, *pool.alloc(len(tokens) - match.length)])

    serve("the cat sat")
    with record(cache, pool, label=lambda tokens: repr(bytes(tokens).decode())) as film:
        serve("the cat ran")
        pool.free(cache.evict(3))
        serve("the dog sat")
    return film


def gif_of(film: Film, seconds_per_step: float) -> bytes:
    """All frames on white, each shown for so many seconds; the last one twice as long."""
    layout, pictures = FilmLayout(film.frames), []
    for frame in film:
        svg = (layout.svg(frame) or "").replace(">", '><rect width="100%" height="100%" fill="white"/>', 1)
        picture = Image.open(io.BytesIO(svg_to_png(svg) or b"")).convert("RGB")
        pictures.append(picture.quantize(128, dither=Image.Dither.NONE))
    times, out = [round(1000 * seconds_per_step)] * len(pictures), io.BytesIO()
    times[-1] *= 2
    pictures[0].save(out, "GIF", save_all=True, append_images=pictures[1:], duration=times, loop=0, disposal=1)
    return out.getvalue()


def play_in_lab(page: Any) -> bytes:
    """A PNG of chapter 00, open in JupyterLab with all cells run, after a prompt was inserted in its playground.

    As text it holds what it shows: the source of the cell, and the words on the page below it.
    """
    page.evaluate("window.jupyterapp.commands.execute('application:toggle-left-area')")
    room = page.locator(".minikv-playground")
    room.get_by_label("prompt", exact=True).fill(PROMPT)
    room.get_by_role("button", name="insert", exact=True).click()
    room.get_by_role("status").filter(has_text=f"insert '{PROMPT}'").wait_for()
    cell = page.locator(".jp-CodeCell", has=room)
    cell.evaluate("cell => cell.scrollIntoView({block: 'start'})")
    text = PngInfo()
    text.add_itxt("cell", "\n".join(cell.locator(".jp-InputArea .cm-line").all_inner_texts()))
    text.add_itxt("page", room.inner_text())
    small = Image.open(io.BytesIO(page.screenshot())).convert("P", palette=Image.Palette.ADAPTIVE)
    drawn = io.BytesIO()
    small.save(drawn, "png", pnginfo=text, optimize=True)
    return drawn.getvalue()


def photograph_chapter(picture: Path) -> None:
    """Open chapter 00 as `make lab` does, in a browser, and play."""
    from playwright.sync_api import sync_playwright

    sys.path.insert(0, str(HERE.parent.parent / "tests"))
    browser = importlib.import_module("browser")  # which the tests use, too
    with tempfile.TemporaryDirectory() as folder, browser.course(Path(folder)) as lab, sync_playwright() as playwright:
        tab = browser.Page(browser.launch(playwright), 1000, 800)
        files.replace(picture, play_in_lab(lab.open(tab, "00_start_here.ipynb")))


if __name__ == "__main__":
    about = "Make the pictures of the README and of the site: a film, and the playground of chapter 00."
    argparse.ArgumentParser(description=about).parse_args()
    files.replace(HERE / "share.gif", gif_of(film_of_sharing(), 1.5))
    photograph_chapter(HERE / "chapter_00.png")

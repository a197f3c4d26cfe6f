"""Make the pictures of the README and of the site: the cost of a chat as it grows, and the playground of chapter 00.

    python assets/readme/pictures.py

A Chrome or Chromium that Playwright can start must be there; MINIKV_CHROME names another one. The pictures of the
tools' pages are made by `tools/tests/report_pictures.py`.
"""

from __future__ import annotations

import argparse
import importlib
import io
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from PIL import Image
from PIL.PngImagePlugin import PngInfo

from minikv import Picture, files
from minikv.course.pictures.cells import StripRegion, strips
from minikv.course.pictures.svg import canvas, place, svg_size, svg_to_png

HERE = Path(__file__).parent
LAST, PACE, FRAME = 1036, 14, 60  # tokens of all prompts, those of a frame of the race, and how long it stays
PROMPT = "the car is"  # typed into the playground


def race(computed: int) -> Picture:
    """The chat of chapter 00 without a cache and with one, when each has computed so many tokens, or all of its own.

    >>> race(230).text.splitlines()[1].split()
    ['with', 'a', 'cache', '223#', '298m', '7#', '230', 'tokens', 'computed']
    """
    runs = json.loads(files.asset("live_chat.json").read_text("utf-8"))
    rows = []
    for name in ("without a cache", "with a cache"):
        regions, left = list[StripRegion](), computed
        for turn in runs[name]:
            now, cached = min(left, turn["computed"]), turn["prompt"] - turn["computed"]
            if now:
                regions += [("", cached, "matched", str(cached)), ("", now, "computed", str(now))]
            left -= now
        rows.append((name, regions, f"{computed - left:,} tokens computed"))
    return strips(rows, size=0.5)


def gif_of_race() -> bytes:
    """The race on white, from its start until all tokens are computed; the end stays for a while."""
    svgs = [race(computed).svg or "" for computed in range(0, LAST + 1, PACE)]
    wide, high = svg_size(svgs[-1])
    white = '<rect width="100%" height="100%" fill="white"/>'
    pngs = [svg_to_png(canvas(white + place(svg, 0, 0), wide, high)) or b"" for svg in svgs]
    found = [Image.open(io.BytesIO(png)).convert("RGBA").convert("RGB") for png in pngs]
    colors = found[-1].quantize(32, dither=Image.Dither.NONE)
    first, *rest = (picture.quantize(palette=colors, dither=Image.Dither.NONE) for picture in found)
    times, out = [FRAME] * len(rest) + [4000], io.BytesIO()
    first.save(out, "GIF", save_all=True, append_images=rest, duration=times, loop=0, disposal=1)
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
    page.wait_for_timeout(1000)  # until the nodes have glided to their places
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
    argparse.ArgumentParser(description=__doc__).parse_args()
    files.replace(HERE / "chat.gif", gif_of_race())
    photograph_chapter(HERE / "chapter_00.png")

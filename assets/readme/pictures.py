"""Make the pictures of the README and of the site: a film, the playground, and what the practitioners' commands find.

    python assets/readme/pictures.py                                       the film, and the playground of chapter 00
    python assets/readme/pictures.py mooncake_conversation_trace.jsonl     the other three, in some minutes

The trace is that of Mooncake's hour of chat, from its repository. The log is made up here. A Chrome or Chromium that
Playwright can start must be there; MINIKV_CHROME names another one.
"""

from __future__ import annotations

import argparse
import csv
import importlib
import io
import json
import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

from PIL import Image
from PIL.PngImagePlugin import PngInfo

from minikv import Film, FreeListPool, RadixCache, cli, files, plot, record
from minikv.course.film.layout import FilmLayout
from minikv.course.pictures.svg import svg_to_png

HERE = Path(__file__).parent
PROMPT = "the car is"  # typed into the playground
SWEEP = """
traces = {trace}
capacities = ["1k", "2k", "4k", "8k", "16k", "32k", "64k", "128k"]
policies = "all"
evict_by = "page"
"""


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


def write_log(path: Path) -> None:
    """A day of support chats: the system prompt tells the minute, and the tools change places now and then."""
    lines = []
    for number in range(300):
        names = ["search", "refund", "escalate"]
        about = [{"name": name, "description": f"How to {name}. " * 40} for name in names]
        tools = [{"type": "function", "function": function} for function in about]
        if number % 10 == 0:
            tools.reverse()
        clock = f"Today is 2026-11-22, and it is {9 + number // 60:02}:{number % 60:02}. "
        system = "You answer customers of a bookshop. " * 20 + clock + "Be brief, exact and kind. " * 60
        turns = number % 4 + 1
        asked = [{"role": "user", "content": f"Question {turn} of customer {number // 4}."} for turn in range(turns)]
        lines.append({"messages": [{"role": "system", "content": system}, *asked], "tools": tools})
    files.replace(path, "".join(json.dumps(line) + "\n" for line in lines))


def run_minikv(*command: str) -> None:
    """Run a command of minikv, which must end well."""
    if status := cli.main(list(command)):
        sys.exit(status)


def photograph(page_file: Path, height: int, picture: Path) -> None:
    """The top of an HTML page, as a browser shows it on a screen of 1,000 pixels."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        chrome = os.environ.get("MINIKV_CHROME") or shutil.which("chromium") or shutil.which("google-chrome")
        browser = playwright.chromium.launch(executable_path=chrome, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1000, "height": height})
        page.goto(page_file.as_uri())
        files.replace(picture, page.screenshot())
        browser.close()


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
        tab = browser.Page(browser.launch(playwright), 1000, 720)
        files.replace(picture, play_in_lab(lab.open(tab, "00_start_here.ipynb")))


def draw_sweep(rows: list[dict[str, Any]], picture: Path) -> None:
    """A line for each policy: the share of blocks that hit, over the capacity."""
    capacities = sorted({row["capacity"] for row in rows})
    lines = {policy: [0.0] * len(capacities) for policy in dict.fromkeys(row["policy"] for row in rows)}
    for row in rows:
        lines[row["policy"]][capacities.index(row["capacity"])] = row["hit_rate"]
    title = "Mooncake's hour of chat: seven policies"
    drawn = plot(title, {"capacity, in blocks of 512 tokens": capacities}, lines, "hit rate", "x")
    files.replace(picture, drawn.png or b"")


def photograph_reports(trace: str) -> None:
    """Make the three for practitioners."""
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        write_log(work / "log.jsonl")
        os.chdir(work)
        run_minikv("why", "log.jsonl", "--html", "why.html")
        photograph(work / "why.html", 925, HERE / "why.png")
        files.replace("hour.jsonl", Path(trace).read_bytes())
        run_minikv(
            "plan",
            "hour.jsonl",
            "--model",
            "llama-3.1-8b",
            "--memory",
            "480GiB",
            "--ttl",
            "300,3600",
            "--html",
            "plan.html",
        )
        photograph(work / "plan.html", 800, HERE / "plan.png")
        files.replace(work / "hour.toml", SWEEP.format(trace=json.dumps("hour.jsonl")))
        run_minikv("sweep", "hour.toml", "--csv", "hour.csv")
        draw_sweep(rows_of(work / "hour.csv"), HERE / "sweep.png")


def rows_of(table: Path) -> list[dict[str, Any]]:
    """The lines of a table in CSV, with the numbers that are drawn."""
    with open(table, newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    return [{**row, "capacity": int(row["capacity"]), "hit_rate": float(row["hit_rate"])} for row in rows]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Make the pictures of the README and of the site.")
    parser.add_argument("trace", nargs="?", help="Mooncake's hour: make the pictures of what the commands find in it")
    if trace := parser.parse_args().trace:
        photograph_reports(os.path.abspath(trace))
    else:
        files.replace(HERE / "share.gif", gif_of(film_of_sharing(), 1.5))
        photograph_chapter(HERE / "chapter_00.png")

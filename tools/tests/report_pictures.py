"""Make the pictures of the tools' pages: what `why`, `plan` and `sweep` find.

    python tools/tests/report_pictures.py mooncake_conversation_trace.jsonl     in some minutes

The trace is that of Mooncake's hour of chat, from its repository. The log is made up here. A Chrome or Chromium that
Playwright can start must be there; MINIKV_CHROME names another one.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

from minikv import cli, files, plot

HERE = Path(__file__).resolve().parents[1] / "site"
SWEEP = """
traces = {trace}
capacities = ["1k", "2k", "4k", "8k", "16k", "32k", "64k", "128k"]
policies = "all"
evict_by = "page"
"""


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
        photograph(work / "plan.html", 1180, HERE / "plan.png")
        files.replace(work / "hour.toml", SWEEP.format(trace=json.dumps("hour.jsonl")))
        run_minikv("sweep", "hour.toml", "--csv", "hour.csv")
        draw_sweep(rows_of(work / "hour.csv"), HERE / "sweep.png")


def rows_of(table: Path) -> list[dict[str, Any]]:
    """The lines of a table in CSV, with the numbers that are drawn."""
    with open(table, newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    return [{**row, "capacity": int(row["capacity"]), "hit_rate": float(row["hit_rate"])} for row in rows]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Make the pictures of the tools' pages.")
    parser.add_argument("trace", help="Mooncake's hour of chat")
    photograph_reports(os.path.abspath(parser.parse_args().trace))

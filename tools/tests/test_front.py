"""What the README of the tools shows is so today: the report, the fix and what it brings, the commands, the fixture."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest
from project import ROOT

from minikv.cli import main
from minikv.cli.command import COMMANDS
from minikv_tools import assert_prefix_stable

pytestmark = pytest.mark.core
README = (ROOT / "tools" / "README.md").read_text("utf-8")
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```", README, re.MULTILINE | re.DOTALL)
APP, TEST = [text for language, text in BLOCKS if language == "python"]
BEFORE, AFTER = [text for language, text in BLOCKS if language == "text"]
(FIX,) = [text for language, text in BLOCKS if language == "diff"]


@pytest.fixture
def report(tmp_path, monkeypatch, capsys):
    """A function that runs the bot with this text, and returns what `why` prints for its log."""
    monkeypatch.chdir(tmp_path)

    def of(app):
        (tmp_path / "app.py").write_text(app, "utf-8")
        ran = subprocess.run([sys.executable, "app.py"], capture_output=True, check=True)
        (tmp_path / "log.jsonl").write_bytes(ran.stdout)
        assert main(["why", "log.jsonl"], "minikv-tools") == 0
        return capsys.readouterr().out

    return of


def test_the_report_is_the_one_that_is_shown(report):
    assert report(APP) == BEFORE


def test_the_fix_that_is_shown_brings_what_is_shown(report):
    app = APP
    removed, added = [re.findall(rf"^\{sign}(.*\n)", FIX, re.MULTILINE) for sign in "-+"]
    for old, new in zip(removed, added, strict=True):
        assert app.count(old) == 1
        app = app.replace(old, new)
    assert report(app).startswith(AFTER)
    rates = [float(re.search(r"reuses (.*)% of these bytes", text)[1]) for text in (BEFORE, AFTER)]
    assert rates[1] > rates[0] + 90


def test_each_command_runs_as_it_is_shown(report, tmp_path):
    """In the order of the table, because a sweep reads the trace that the command before it makes."""
    report(APP)
    (tmp_path / "sweep.toml").write_text(
        'traces = "trace.jsonl"\ncapacities = ["1k"]\nbackend = "sequential"\n', "utf-8"
    )
    shown = re.findall(r"^\| `minikv-tools (.*?)` \|", README, re.MULTILINE)
    assert sorted(line.split()[0] for line in shown) == sorted(COMMANDS["tools"])
    assert [main(line.split(), "minikv-tools") for line in shown] == [0] * len(shown)
    (start,) = re.findall(r"^minikv-tools (.*?) +#", README, re.MULTILINE)
    assert start in shown


def test_the_fixture_fails_for_a_clock_and_passes_without_one(tmp_path, monkeypatch):
    (tmp_path / "my_app").mkdir()
    monkeypatch.syspath_prepend(str(tmp_path))
    world = {}
    exec(TEST, world)

    def run(begin):
        (tmp_path / "my_app" / "prompts.py").write_text(
            f"import time\n\n\ndef build(question):\n    return {begin} + question\n", "utf-8"
        )
        world["test_the_prompt_stays_the_same"](assert_prefix_stable)

    run("'Be brief. '")
    with pytest.raises(AssertionError, match="A date or a time changed"):
        run("time.strftime('It is %H:%M. ')")

"""What the README and the page of the tools show is so today: a report, a fix, the commands, the fixture."""

import re
import shlex
import subprocess
import sys

import pytest
import yaml
from project import ROOT, TOOLS
from report_pictures import write_log
from test_extras import COMMANDS, COURSE, SERVING, run
from test_tools_extras import SWEEP

from minikv.cli import main
from minikv.cli.command import COMMANDS as GROUPS
from minikv_tools import assert_prefix_stable, survey

EXTRAS = TOOLS["project"]["optional-dependencies"]
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
    (tmp_path / "sweep.toml").write_text('traces = "trace.jsonl"\ncapacities = ["1k"]\njobs = 1\n', "utf-8")
    shown = re.findall(r"^\| `minikv-tools (.*?)` \|", README, re.MULTILINE)
    assert sorted(line.split()[0] for line in shown) == sorted(GROUPS["tools"])
    assert [main(line.split(), "minikv-tools") for line in shown] == [0] * len(shown)
    (start,) = re.findall(r"^minikv-tools (.*?) +#", README, re.MULTILINE)
    assert start in shown


def test_the_commands_of_the_page_run_as_they_are_shown_without_any_extra(tmp_path, monkeypatch):
    """The page says with which option `sweep` needs none, and names every extra that the tools have."""
    monkeypatch.chdir(tmp_path)
    page = (ROOT / "tools" / "site" / "tools.md").read_text("utf-8")
    (tmp_path / "log.jsonl").write_text("".join(f'{{"prompt": "It is 14:0{n}."}}\n' for n in range(3)), "utf-8")
    line = '{"timestamp": 1, "input_length": 9, "output_length": 1, "hash_ids": [1, 2]}\n'
    (tmp_path / "hour.jsonl").write_text(line * 2, "utf-8")
    (config,) = re.findall(r"^cat > hour.toml <<'END'\n(.*?)^END$", page, re.MULTILINE | re.DOTALL)
    (tmp_path / "hour.toml").write_text(config, "utf-8")
    shown = re.findall(r"^minikv-tools (.*(?:log|hour)\..*)", page, re.MULTILINE)
    assert [line.split()[0] for line in shown] == ["why", "plan", "plan", "sweep"]
    assert ["--tiers" in line for line in shown] == [False, False, True, False]
    (sequential,) = re.findall(r"`(--jobs 1)`", page)
    shown[-1] += f" {sequential}"
    done = [run(COMMANDS, *line.split(), lacked=COURSE | SERVING | SWEEP) for line in shown]
    assert [one.returncode for one in done] == [0] * len(shown), done
    assert {extra for extra in EXTRAS if f'pip install "minikv-tools[{extra}]"' in page} == {*EXTRAS}


def test_the_workflow_of_the_page_fails_where_its_limit_is_broken(tmp_path, monkeypatch, capsys):
    (workflow,) = re.findall(r"```yaml\n(.*?)```", (ROOT / "tools/site/tools.md").read_text("utf-8"), re.DOTALL)
    program, *arguments = shlex.split(yaml.safe_load(workflow)["jobs"]["prompts"]["steps"][-1]["run"])
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tests").mkdir()
    write_log(tmp_path / arguments[1])
    assert (program, main(arguments)) == ("minikv-tools", 1)
    assert "--fail-if lost > 2%: lost is 3" in capsys.readouterr().err


def test_the_alternative_text_of_the_report_says_what_it_shows(tmp_path):
    write_log(tmp_path / "log.jsonl")
    found = survey(tmp_path / "log.jsonl")
    shares = {place.kind: f"{place.lost / found.size:.1%}".replace("%", " %") for place in found.places}
    (shown,) = re.findall(r"!\[(.*)\]\(why.png\)", (ROOT / "tools" / "site" / "tools.md").read_text("utf-8"))
    assert f"a clock in the system prompt loses {shares['clock']} of all bytes" in shown
    assert f"reordered tools {shares['tools reordered']}," in shown


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

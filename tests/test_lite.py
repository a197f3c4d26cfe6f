"""The course in the browser: what the site is built from, and chapters of a built site in a real browser.

The chapters need a folder with Pyodide and numpy, which MINIKV_PYODIDE names: CONTRIBUTING says how to fill it.
"""

import json
import runpy
import shutil
import zipfile
from pathlib import Path

import nbformat
import pytest
from chapters import CHOICE, NOTEBOOKS, PAGE
from nightly import by_day
from project import ROOT, python, text_of
from test_house import chapters_that_need_torch
from test_pyodide import FOLDER, lacking

pytest.importorskip("hatchling")
SITE = ROOT / "notebooks" / "site"
LITE = runpy.run_path(str(SITE / "lite.py"))
CHECKED = ROOT / ".ci" / "lite.py"
LOCKED = json.loads((SITE / "pyodide.json").read_text("utf-8"))["packages"]
RUNS = [path for path in NOTEBOOKS if path.stem[:2] not in chapters_that_need_torch()]
TRIAL = ROOT / "notebooks" / "try_it.ipynb"


# -- what it is built from --------------------------------------------------------------------------------------------


def test_the_lock_file_has_all_that_a_package_needs_with_pyodides_hashes_and_no_other_address(tmp_path):
    wheels = {}
    for name in LITE["OURS"]:
        wheels[name] = tmp_path / f"{name.replace('-', '_')}-1.0-py3-none-any.whl"
        wheels[name].write_bytes(name.encode())
    packages = LITE["lock_with"](wheels)["packages"]
    assert {need.replace("_", "-") for each in packages.values() for need in each["depends"]} <= {*packages}
    for name, package in packages.items():
        if name in LOCKED:
            assert package == {**LOCKED[name], "file_name": f"{LITE['CDN']}{LOCKED[name]['file_name']}"}
        else:
            assert package["file_name"] == wheels[name].name
    assert packages["minikv"]["imports"] == ["minikv"]
    assert "numpy" in LOCKED


def test_the_wheel_keeps_what_a_chapter_reads_and_its_record_names_what_it_has(tmp_path):
    whole = tmp_path / "whole" / "minikv-1.0-py3-none-any.whl"
    whole.parent.mkdir()
    kept, left = ["minikv/files.py", "minikv/assets/model/config.json"], ["minikv/assets/model/model.safetensors",
                                                                          "minikv/notebooks/03_a.ipynb"]  # fmt: skip
    record = "minikv-1.0.dist-info/RECORD"
    with zipfile.ZipFile(whole, "w") as archive:
        for name in [*kept, *left]:
            archive.writestr(name, name)
        archive.writestr(record, "".join(f"{name},,\n" for name in [*kept, *left, record]))
    LITE["slim"](whole, tmp_path)
    with zipfile.ZipFile(tmp_path / whole.name) as archive:
        assert archive.namelist() == [*kept, record]
        assert archive.read(record).decode() == "".join(f"{name},,\n" for name in [*kept, record])


@pytest.mark.parametrize("path", [*NOTEBOOKS, CHOICE, PAGE, TRIAL], ids=lambda path: path.stem)
def test_a_notebook_comes_without_outputs_or_says_that_it_needs_torch(path):
    stored, found = nbformat.read(path, 4), LITE["lesson"](path)
    nbformat.validate(found)
    assert not [cell for cell in found.cells if cell.get("outputs") or cell.get("execution_count")]
    if path.stem[:2] in chapters_that_need_torch():
        assert "PyTorch, which has no build for browsers" in found.cells[0].source
    else:
        assert [cell.source for cell in found.cells] == [cell.source for cell in stored.cells]
    assert (path in RUNS) == (f'<a href="notebooks/?path={path.name}">' in LITE["landing"]())


def test_a_site_without_it_says_so_at_each_address(tmp_path):
    (tmp_path / "lite" / "wheels").mkdir(parents=True)
    LITE["without"](tmp_path / "lite")
    pages = {path.relative_to(tmp_path).as_posix(): path.read_text("utf-8") for path in tmp_path.rglob("*.*")}
    assert {*pages} == {"lite/index.html", "lite/notebooks/index.html"}
    assert 'href="../start.html"' in pages["lite/index.html"]
    assert 'href="../../start.html"' in pages["lite/notebooks/index.html"]


def test_a_folder_with_something_else_in_it_is_not_replaced(tmp_path):
    (tmp_path / "mine.txt").write_text("mine", "utf-8")
    done = python(SITE / "lite.py", tmp_path, "--without")
    assert done.returncode == 1
    assert "is not the folder `lite` of a site: name another" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


def test_versions_are_named_once():
    """Pyodide's address, the folder that tests use, and the page that says what comes from where."""
    version = LITE["CDN"].split("/v")[1].split("/")[0]
    guide = text_of(".github/CONTRIBUTING.md")
    assert f"pyodide@{version}" in guide
    assert f"{LITE['CDN']}{LOCKED['numpy']['file_name']}" in guide
    assert f"Pyodide {version}" in (SITE / "lite" / "index.html").read_text("utf-8")


# -- what a visitor sees ----------------------------------------------------------------------------------------------


def needs():
    """What the tests below wait for, in words; nothing if all of it is there."""
    missing = [name for name in LOCKED if FOLDER and not [*Path(FOLDER).glob(f"{name.replace('-', '_')}-*.whl")]]
    return lacking() or (f"{FOLDER} lacks {', '.join(missing)}" if missing else "")


in_browser = pytest.mark.skipif(bool(needs()), reason=needs() or "all is there")


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """A built site."""
    site = tmp_path_factory.mktemp("site")
    LITE["build"](site / "lite")
    return site


def checked(site, *chapters):
    """What is said of chapters of a site, before it is published."""
    return python(CHECKED, site, *chapters, "--pyodide", FOLDER)


@in_browser
def test_the_excerpt_is_what_pyodide_ships():
    whole = json.loads((Path(FOLDER) / "node_modules" / "pyodide" / "pyodide-lock.json").read_text("utf-8"))
    assert LITE["excerpt"](whole)["packages"] == LOCKED


@in_browser
@pytest.mark.browser
@pytest.mark.parametrize(
    "path", by_day([TRIAL, *RUNS], lambda path: path.stem.startswith("03")), ids=lambda path: path.stem
)
def test_a_chapter_runs_in_a_browser(path, site):
    found = checked(site, path.stem)
    assert found.returncode == 0, found.stdout


@in_browser
@pytest.mark.browser
def test_a_site_in_which_the_course_does_not_run_fails_its_check(site, tmp_path):
    shutil.copytree(site, tmp_path / "site")
    (wheel,) = (tmp_path / "site").rglob("minikv-*.whl")
    wheel.write_bytes(b"no wheel")
    found = checked(tmp_path / "site")
    assert found.returncode == 1
    assert "The course does not run in the browser" in found.stdout

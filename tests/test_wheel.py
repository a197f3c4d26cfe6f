"""The course comes with the package: what the wheel carries, and how `minikv lab` copies it for a learner."""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import re
import subprocess
import sys
import zipfile
from fnmatch import fnmatch
from pathlib import Path
from types import SimpleNamespace

import pytest

from minikv.cli.lab import _load_jupyter_server_extension
from minikv.course import shipped
from minikv.course.shipped import RECORD, sources_hash

ROOT = Path(__file__).resolve().parent.parent
CHAPTERS = {path.name for path in (ROOT / "notebooks").glob("*.ipynb")}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """A wheel of this checkout, unpacked: what pip puts into a fresh environment."""
    pytest.importorskip("hatchling")
    made, unpacked = tmp_path_factory.mktemp("wheel"), tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(made)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True, timeout=60)
    (path,) = made.glob("*.whl")
    with zipfile.ZipFile(path) as archive:
        archive.extractall(unpacked)
    return unpacked / "minikv"


def test_the_wheel_carries_every_notebook_without_outputs(wheel):
    assert {path.name for path in (wheel / "notebooks").iterdir()} == CHAPTERS
    for path in (wheel / "notebooks").iterdir():
        here = (ROOT / "notebooks" / path.name).read_bytes()
        assert sources_hash(path.read_bytes()) == sources_hash(here)
        assert not any(cell.get("outputs") for cell in json.loads(path.read_bytes())["cells"])
    assert sum(path.stat().st_size for path in (wheel / "notebooks").iterdir()) < 700_000


def test_the_wheel_carries_each_asset_that_is_read_and_no_other(wheel):
    there = {path.relative_to(wheel / "assets").as_posix() for path in (wheel / "assets").rglob("*") if path.is_file()}
    names = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "assets"]
    tracked = subprocess.run(names, cwd=ROOT, capture_output=True, text=True, check=False).stdout
    if not tracked:
        pytest.skip("this is no git checkout")
    wanted = {name.removeprefix("assets/") for name in tracked.splitlines() if not name.endswith(".py")}
    assert there == {name for name in wanted if not name.startswith("readme/")}


def test_the_wheel_brings_the_command_and_nothing_of_the_tools(wheel):
    (about,) = wheel.parent.glob("minikv-*.dist-info")
    points = (about / "entry_points.txt").read_text("utf-8").split()
    assert points == ["[console_scripts]", "minikv", "=", "minikv.cli:main"]
    assert {path.name for path in wheel.parent.iterdir()} == {"minikv", about.name}


def test_the_wheel_is_no_larger_than_it_was_with_the_tools(wheel):
    """Before they became a project of their own, its files had this many bytes."""
    assert sum(path.stat().st_size for path in wheel.parent.rglob("*") if path.is_file()) <= 7_984_315


def test_nothing_that_lies_beside_them_by_chance_is_shipped(tmp_path):
    pytest.importorskip("hatchling")
    spec = importlib.util.spec_from_file_location("course_wheel", ROOT / "assets" / "wheel.py")
    hooks = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(hooks)
    for name in ("assets/.DS_Store", "assets/b.txt", "assets/.old/c.txt", "assets/readme/d.gif", "assets/make.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "notebooks" / "src").mkdir(parents=True)
    (tmp_path / "notebooks" / "src" / "01.py").touch()
    for name in ("01", "Untitled"):
        (tmp_path / "notebooks" / f"{name}.ipynb").write_text(notebook("x", "y"), "utf-8")
    hook, built = SimpleNamespace(root=str(tmp_path)), {"force_include": {}}
    hooks.Course.initialize(hook, "standard", built)
    assert list(built["force_include"].values()) == ["minikv/assets/b.txt", "minikv/notebooks/01.ipynb"]
    hooks.Course.finalize(hook, "standard", built, "")


def lab(wheel, folder, *arguments):
    """`minikv lab` of an installed package in `folder`."""
    environment = {**os.environ, "PYTHONPATH": str(wheel.parent), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-m", "minikv", "lab", *arguments]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=60, check=False)


def test_an_installed_package_brings_the_course_into_an_empty_folder(wheel, tmp_path):
    done = lab(wheel, tmp_path, "--where")
    assert (done.stdout, done.stderr, done.returncode) == (f"{tmp_path / 'minikv-course'}\n", "", 0)
    assert {path.name for path in (tmp_path / "minikv-course").iterdir()} == {*CHAPTERS, RECORD}
    again = lab(wheel, tmp_path / "minikv-course", "--where")
    assert again.stdout == done.stdout  # a learner who went into the folder gets no second one in it
    assert {path.name for path in (tmp_path / "minikv-course").iterdir()} == {*CHAPTERS, RECORD}


def test_a_folder_that_was_copied_without_its_record_is_the_course(wheel, tmp_path):
    lab(wheel, tmp_path, "--where")
    course = (tmp_path / "minikv-course").rename(tmp_path / "copy")
    (course / RECORD).unlink()
    (course / "03_radix_splitting.ipynb").write_text(notebook("mine"), "utf-8")
    done = lab(wheel, course, "--where")
    assert done.stdout == f"{course}\n"
    assert "You changed 03_radix_splitting.ipynb, so it stays." in done.stderr
    assert not (course / "minikv-course").exists()


@pytest.mark.parametrize("further", ["--foo", "03"])
def test_where_takes_nothing_else(wheel, tmp_path, further):
    done = lab(wheel, tmp_path, "--where", further)
    assert (done.stdout, done.returncode) == ("", 2)
    assert done.stderr.endswith(f"minikv: error: unknown arguments: {further}\n")
    assert list(tmp_path.iterdir()) == []


def test_a_folder_where_the_course_cannot_go_is_named_in_one_line(wheel, tmp_path):
    (tmp_path / "minikv-course").write_text("mine", "utf-8")
    done = lab(wheel, tmp_path, "--where")
    assert (done.stdout, done.returncode) == ("", 1)
    assert re.fullmatch(r"minikv: lab cannot continue: .*'minikv-course'\n", done.stderr)
    assert (tmp_path / "minikv-course").read_text("utf-8") == "mine"


def test_a_chapter_that_does_not_exist_is_named_beside_those_that_do(wheel, tmp_path):
    done = lab(wheel, tmp_path, "77")
    assert done.returncode == 2
    assert done.stderr.startswith(
        "minikv: there is no chapter '77'; the chapters are 00_start_here.ipynb, 01_page_sizing.ipynb, "
    )


# -- what is the learner's --------------------------------------------------------------------------------------------


def notebook(source, output=None):
    cell = {"cell_type": "code", "source": [source], "outputs": [] if output is None else [output], "metadata": {}}
    return json.dumps({"cells": [cell], "metadata": {}})


def renew(home, package):
    """What the learner is told."""
    return list(shipped.renew(home, package))


@pytest.fixture
def package(tmp_path):
    folder = tmp_path / "package"
    folder.mkdir()
    for name in ("01.ipynb", "02.ipynb"):
        (folder / name).write_text(notebook(f"first of {name}"), "utf-8")
    return folder


@pytest.fixture
def home(tmp_path, package):
    assert renew(tmp_path / "home", package) == []
    return tmp_path / "home"


def contents(folder):
    return {path.name: path.read_text("utf-8") for path in folder.iterdir() if path.is_file() and path.name != RECORD}


def test_a_notebook_that_was_only_run_is_renewed(home, package):
    (home / "01.ipynb").write_text(notebook("first of 01.ipynb", "1,036 tokens"), "utf-8")
    assert renew(home, package) == []
    assert "1,036" in (home / "01.ipynb").read_text("utf-8")  # nothing new: its outputs stay
    (package / "01.ipynb").write_text(notebook("second"), "utf-8")
    assert renew(home, package) == []
    assert contents(home)["01.ipynb"] == notebook("second")


def test_a_notebook_that_the_learner_changed_stays_through_every_upgrade(home, package, monkeypatch):
    mine = notebook("mine", "and what it printed")
    (home / "01.ipynb").write_text(mine, "utf-8")
    assert renew(home, package) == []
    for version in ("0.2.0", "0.3.0"):
        monkeypatch.setattr(shipped, "__version__", version)
        (package / "01.ipynb").write_text(notebook(version), "utf-8")
        beside = f"01-{version}.ipynb"
        said = f"You changed 01.ipynb, so it stays. The new version is {beside}."
        assert renew(home, package) == [said]
        assert renew(home, package) == []
        assert contents(home)[beside] == notebook(version)
        assert contents(home)["01.ipynb"] == mine


def test_a_file_of_the_learner_beside_it_is_not_replaced_either(home, package):
    (home / "01.ipynb").write_text(notebook("mine"), "utf-8")
    (home / "01-0.1.0.ipynb").write_text(notebook("mine as well"), "utf-8")
    (package / "01.ipynb").write_text(notebook("second"), "utf-8")
    assert renew(home, package) == ["You changed 01.ipynb, so it stays. The new version is 01-0.1.0-2.ipynb."]
    assert contents(home)["01-0.1.0.ipynb"] == notebook("mine as well")


@pytest.mark.parametrize("record", [None, "", "{", "[1]", '{"01.ipynb": 7}'])
def test_without_a_record_all_that_differs_is_the_learners(home, package, record):
    (home / "01.ipynb").write_text(notebook("mine"), "utf-8")
    (home / RECORD).unlink()
    if record is not None:
        (home / RECORD).write_text(record, "utf-8")
    assert renew(home, package) == ["You changed 01.ipynb, so it stays. The new version is 01-0.1.0.ipynb."]
    assert contents(home)["01.ipynb"] == notebook("mine")
    assert renew(home, package) == []


@pytest.mark.parametrize("broken", ["", "{", "[]", "{}", '{"cells": [{"cell_type": "code"}]}', "[" * 100_000])
def test_a_notebook_that_cannot_be_read_is_the_learners(home, package, broken):
    (home / "01.ipynb").write_text(broken, "utf-8")
    (package / "01.ipynb").write_text(notebook("second"), "utf-8")
    assert len(renew(home, package)) == 1
    assert contents(home)["01.ipynb"] == broken


def test_one_that_was_deleted_or_renamed_comes_back(home, package):
    (home / "01.ipynb").rename(home / "my 01.ipynb")
    (home / "02.ipynb").unlink()
    assert renew(home, package) == []
    assert set(contents(home)) == {"01.ipynb", "my 01.ipynb", "02.ipynb"}


def test_a_disk_that_fails_at_any_write_loses_nothing(home, package, monkeypatch):
    """Interrupted anywhere, the next call ends as one that was never interrupted."""
    mine = notebook("mine")
    (home / "01.ipynb").write_text(mine, "utf-8")
    for name in ("01.ipynb", "02.ipynb", "03.ipynb"):
        (package / name).write_text(notebook(f"second {name}"), "utf-8")
    write, said = shipped.replace, set()
    for failing in range(7):
        calls = iter(range(100))

        def once(path, data, failing=failing, calls=calls):
            if next(calls) == failing:
                raise OSError(28, "No space left on device", str(path))
            write(path, data)

        monkeypatch.setattr(shipped, "replace", once)
        try:
            for line in shipped.renew(home, package):
                said.add(line)
        except OSError:
            assert contents(home)["01.ipynb"] == mine
    assert contents(home) == {
        "01.ipynb": mine,
        "01-0.1.0.ipynb": notebook("second 01.ipynb"),
        "02.ipynb": notebook("second 02.ipynb"),
        "03.ipynb": notebook("second 03.ipynb"),
    }
    assert said == {"You changed 01.ipynb, so it stays. The new version is 01-0.1.0.ipynb."}


def test_what_was_saved_before_the_disk_failed_is_said(home, package, monkeypatch):
    """It is not said again, so it may not be lost with the error about a later notebook."""
    (home / "01.ipynb").write_text(notebook("mine"), "utf-8")
    (package / "01.ipynb").write_text(notebook("second"), "utf-8")
    (package / "02.ipynb").write_text(notebook("second"), "utf-8")
    lines = shipped.renew(home, package)
    assert "01-0.1.0.ipynb" in next(lines)

    def full(path, data):
        raise OSError(28, "No space left on device", str(path))

    monkeypatch.setattr(shipped, "replace", full)
    with pytest.raises(OSError, match="No space left"):
        next(lines)
    assert contents(home)["01-0.1.0.ipynb"] == notebook("second")


@pytest.mark.parametrize("name", ["01.ipynb", "01-0.1.0.ipynb"])
def test_one_that_cannot_be_read_is_named_and_the_others_are_copied(home, package, name):
    (home / "01.ipynb").write_text(notebook("mine"), "utf-8")
    (home / name).unlink(missing_ok=True)
    (home / name).mkdir()
    for other in ("01.ipynb", "02.ipynb", "03.ipynb"):
        (package / other).write_text(notebook("second"), "utf-8")
    (line,) = renew(home, package)
    assert re.fullmatch(rf"01\.ipynb was not updated: .*{re.escape(name)}'", line)
    assert contents(home)["02.ipynb"] == contents(home)["03.ipynb"] == notebook("second")
    (home / name).rmdir()
    assert len(renew(home, package)) == (name != "01.ipynb")
    assert notebook("second") == contents(home)[name]


@pytest.mark.parametrize("leads_to", ["nowhere/01.ipynb", "01.ipynb"], ids=["dangling", "looping"])
def test_a_link_that_leads_nowhere_is_named_and_the_others_are_copied(tmp_path, package, leads_to):
    home = tmp_path / "home"
    home.mkdir()
    (home / "01.ipynb").symlink_to(leads_to)
    (line,) = renew(home, package)
    assert re.fullmatch(r"01\.ipynb was not updated: .*01\.ipynb'", line)
    assert (home / "02.ipynb").read_text("utf-8") == notebook("first of 02.ipynb")
    (home / "01.ipynb").unlink()
    assert renew(home, package) == []
    assert (home / "01.ipynb").read_text("utf-8") == notebook("first of 01.ipynb")


def test_one_that_cannot_be_read_does_not_keep_the_course_from_opening(wheel, tmp_path):
    (tmp_path / "minikv-course" / "03_radix_splitting.ipynb").mkdir(parents=True)
    done = lab(wheel, tmp_path, "--where")
    assert (done.stdout, done.returncode) == (f"{tmp_path / 'minikv-course'}\n", 0)
    assert re.fullmatch(r"03_radix_splitting\.ipynb was not updated: .*\n", done.stderr)
    assert {path.name for path in (tmp_path / "minikv-course").iterdir()} == {*CHAPTERS, RECORD}


# -- JupyterLab -------------------------------------------------------------------------------------------------------

SETTINGS = json.loads((ROOT / "assets" / "jupyter" / "jupyter_server_config.json").read_text("utf-8"))


def test_the_files_of_the_builder_do_not_stand_between_the_chapters():
    hidden = SETTINGS["ContentsManager"]["hide_globs"]
    tracked = subprocess.run(
        ["git", "ls-files", "notebooks"], cwd=ROOT, capture_output=True, text=True, check=False
    ).stdout
    names = {line.split("/")[1] for line in tracked.splitlines()}
    assert {name for name in names if not any(fnmatch(name, glob) for glob in hidden)} <= CHAPTERS


def test_the_address_is_the_last_line_that_is_printed(capsys, monkeypatch, tmp_path):
    """JupyterLab loads the module that its settings name, and it waits until the server runs."""
    monkeypatch.setenv("JUPYTERLAB_WORKSPACES_DIR", str(tmp_path))
    (module,) = SETTINGS["ServerApp"]["jpserver_extensions"]
    waiting = []
    server = SimpleNamespace(
        io_loop=SimpleNamespace(add_callback=waiting.append), public_url="http://localhost:8888/doc/tree/03.ipynb"
    )
    importlib.import_module(module)._load_jupyter_server_extension(server)
    assert capsys.readouterr().err == ""
    waiting[0]()
    assert capsys.readouterr().err.endswith("The course: http://localhost:8888/doc/tree/03.ipynb\n")


def test_jupyterlab_opens_with_its_side_bar_closed_and_is_left_as_the_learner_has_it(monkeypatch, tmp_path):
    monkeypatch.setenv("JUPYTERLAB_WORKSPACES_DIR", str(tmp_path))
    server = SimpleNamespace(io_loop=SimpleNamespace(add_callback=lambda call: None))
    _load_jupyter_server_extension(server)
    (made,) = tmp_path.iterdir()
    assert json.loads(made.read_text("utf-8"))["data"]["layout-restorer:data"]["left"]["collapsed"]
    made.write_text(theirs := made.read_text("utf-8").replace("true", "false"), "utf-8")
    _load_jupyter_server_extension(server)
    assert made.read_text("utf-8") == theirs
    monkeypatch.setenv("JUPYTERLAB_WORKSPACES_DIR", str(made))  # a file: nothing can be made in it
    _load_jupyter_server_extension(server)

"""`minikv lab`: which chapter opens, from which folder, with which options, and how JupyterLab looks."""

import importlib
import json
import os
import shlex
import subprocess
from fnmatch import fnmatch
from types import SimpleNamespace

import pytest
from golden_text import replay, sections
from project import ROOT, text_of
from test_cli import ended, shell

from minikv.cli import lab
from minikv.files import asset

GOLDEN = "lab.txt"
PAGE = "--LabApp.default_url=/doc/workspaces/minikv/tree/"
SETTINGS = json.loads(text_of("assets/jupyter/jupyter_server_config.json"))


@pytest.fixture
def opened(monkeypatch):
    """What `minikv lab` would become: each command, with what it adds to the environment."""
    calls = []
    monkeypatch.setattr(lab, "_become", lambda *call: calls.append(call) or 0)
    return calls


@pytest.mark.parametrize("title", sections(GOLDEN))
def test_lab_opens_what_the_golden_file_says(title, opened, capsys):
    """The exit status and what is said, or how JupyterLab is started: the address that it opens, and its options."""

    def act(words):
        status, said = ended("lab", *shlex.split(words)), capsys.readouterr().err.splitlines()
        commands = [[word for word in command[1:4] + command[5:] if word != "--allow-root"] for command, _ in opened]
        opened.clear()
        return [*said, *map(shlex.join, commands), f"status {status}"]

    replay(GOLDEN, title, act)


def test_lab_in_a_checkout_opens_the_notebooks_where_they_are(tmp_path, monkeypatch, capsys):
    page = text_of("notebooks/site/start.md").partition("## In a checkout")[2]
    assert "prints the path of that folder, `notebooks`" in page
    monkeypatch.chdir(tmp_path)
    assert ended("lab", "--where") == 0
    assert capsys.readouterr().out == f"{ROOT / 'notebooks'}\n"
    assert list(tmp_path.iterdir()) == []


def test_lab_opens_the_courses_chapter_and_not_what_the_learner_keeps_beside_it(tmp_path, monkeypatch, opened):
    monkeypatch.setattr(lab, "SHIPPED", tmp_path / "package")
    monkeypatch.setattr(lab, "find_notebooks", lambda: tmp_path / "home")
    for name in (
        "package/03_long",
        "home/03_long",
        "home/03_me",
        "home/03_long-0.2.0",
        "home/my notes #1",
    ):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / f"{name}.ipynb").touch()
    assert [ended("lab", "3"), ended("lab", "my")] == [0, 0]
    assert [command[5] for command, _ in opened] == [
        f"{PAGE}03_long.ipynb",
        f"{PAGE}my%20notes%20%231.ipynb",
    ]


def test_lab_leaves_what_the_learner_set_in_jupyter(monkeypatch, opened):
    ours = str(asset("jupyter"))
    for mine, paths in (
        ("", [ours]),
        ("mine", ["mine", ours]),
    ):  # the first folder of the path has the last word
        monkeypatch.setenv("JUPYTER_CONFIG_PATH", mine)
        assert ended("lab") == 0
        assert opened.pop()[1]["JUPYTER_CONFIG_PATH"].split(os.pathsep) == paths


@shell
def test_lab_finds_the_course_from_a_folder_that_is_gone(monkeypatch, tmp_path, opened):
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    assert ended("lab") == 0
    assert opened[0][0][4].startswith("--ServerApp.root_dir=/")


def test_lab_says_what_is_missing(monkeypatch, capsys):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert ended("lab") == 2
    assert "needs jupyterlab, which is not installed" in capsys.readouterr().err


# -- JupyterLab -------------------------------------------------------------------------------------------------------


def test_the_files_of_the_builder_do_not_stand_between_the_chapters():
    names = ["git", "ls-files", "notebooks"]
    tracked = subprocess.run(names, cwd=ROOT, capture_output=True, text=True, check=False).stdout.splitlines()
    hidden = SETTINGS["ContentsManager"]["hide_globs"]
    left = {line.split("/")[1] for line in tracked}
    left = {name for name in left if not any(fnmatch(name, glob) for glob in hidden)}
    assert left <= {path.name for path in ROOT.glob("notebooks/*.ipynb")}


@pytest.fixture
def start(monkeypatch):
    """Starts the module that JupyterLab's settings name, with the workspaces in a folder."""
    (module,) = SETTINGS["ServerApp"]["jpserver_extensions"]

    def start(folder):
        monkeypatch.setenv("JUPYTERLAB_WORKSPACES_DIR", str(folder))
        waiting = []
        loop = SimpleNamespace(add_callback=waiting.append)
        server = SimpleNamespace(io_loop=loop, public_url="http://localhost:8888/doc/tree/03.ipynb")
        importlib.import_module(module)._load_jupyter_server_extension(server)
        return waiting[0]

    return start


def test_the_address_is_the_last_line_that_is_printed(start, capsys, tmp_path):
    """It waits until the server runs."""
    runs = start(tmp_path)
    assert capsys.readouterr().err == ""
    runs()
    assert capsys.readouterr().err.endswith("The course: http://localhost:8888/doc/tree/03.ipynb\n")


def test_jupyterlab_opens_with_its_side_bar_closed_and_is_left_as_the_learner_has_it(start, tmp_path):
    start(tmp_path)
    (made,) = tmp_path.iterdir()
    ours = made.read_text("utf-8")
    assert json.loads(ours)["data"]["layout-restorer:data"]["left"]["collapsed"]
    made.write_text(theirs := ours.replace("true", "false"), "utf-8")
    start(tmp_path)
    assert made.read_text("utf-8") == theirs
    start(made)  # a file: nothing can be made in it

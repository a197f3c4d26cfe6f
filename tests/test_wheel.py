"""The course comes with the package: what the wheel carries, and how `minikv lab` copies it for a learner."""

import itertools
import json
import re
import runpy
import subprocess
import zipfile
from contextlib import suppress
from types import SimpleNamespace
from unittest import mock

import pytest
from golden_text import replay, sections
from project import ROOT, python, write

from minikv.course import shipped
from minikv.course.shipped import RECORD, sources_hash

CHAPTERS = {path.name for path in ROOT.glob("notebooks/*.ipynb")}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """A wheel of this checkout, unpacked: what pip puts into a fresh environment."""
    pytest.importorskip("hatchling")
    made, unpacked = tmp_path_factory.mktemp("wheel"), tmp_path_factory.mktemp("site")
    done = python("-m", "hatchling", "build", "-t", "wheel", "-d", made, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    (path,) = made.glob("*.whl")
    with zipfile.ZipFile(path) as archive:
        archive.extractall(unpacked)
    return unpacked / "minikv"


def files_in(folder):
    """The files below a folder, by their path in it."""
    return {path.relative_to(folder).as_posix(): path for path in folder.rglob("*") if path.is_file()}


def test_the_wheel_carries_every_notebook_without_outputs(wheel):
    found = files_in(wheel / "notebooks")
    assert set(found) == CHAPTERS
    for name, path in found.items():
        assert sources_hash(path.read_bytes()) == sources_hash((ROOT / "notebooks" / name).read_bytes())
        assert not any(cell.get("outputs") for cell in json.loads(path.read_bytes())["cells"])
    assert sum(path.stat().st_size for path in found.values()) < 700_000


def test_the_wheel_carries_each_asset_that_is_read_and_no_other(wheel):
    names = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "assets"]
    tracked = subprocess.run(names, cwd=ROOT, capture_output=True, text=True, check=False).stdout.split("\n")
    if not tracked[0]:
        pytest.skip("this is no git checkout")
    wanted = {name.removeprefix("assets/") for name in tracked if name and not name.endswith(".py")}
    assert set(files_in(wheel / "assets")) == {name for name in wanted if not name.startswith("readme/")}


def test_the_wheel_brings_the_command_and_nothing_of_the_tools(wheel):
    """And is no larger than it was with them: before they became a project of their own, it had this many bytes."""
    (about,) = wheel.parent.glob("minikv-*.dist-info")
    points = (about / "entry_points.txt").read_text("utf-8").split()
    assert points == ["[console_scripts]", "minikv", "=", "minikv.cli:main"]
    assert {path.name for path in wheel.parent.iterdir()} == {"minikv", about.name}
    assert sum(path.stat().st_size for path in files_in(wheel.parent).values()) <= 7_984_315


def test_nothing_that_lies_beside_them_by_chance_is_shipped(tmp_path):
    pytest.importorskip("hatchling")
    hooks = runpy.run_path(str(ROOT / "assets/wheel.py"))["Course"]
    assets = [f"assets/{name}" for name in (".DS_Store", "b.txt", ".old/c.txt", "readme/d.gif", "make.py")]
    names = [*assets, "notebooks/src/01.py", "notebooks/01.ipynb", "notebooks/Untitled.ipynb"]
    write(tmp_path, dict.fromkeys(names, notebook("x", "y")))
    hook, built = SimpleNamespace(root=str(tmp_path)), {"force_include": {}}
    hooks.initialize(hook, "standard", built)
    shipped = list(built["force_include"].values())
    assert shipped == ["minikv/assets/b.txt", "minikv/notebooks/01.ipynb"]
    hooks.finalize(hook, "standard", built, "")


@pytest.fixture
def lab(wheel, tmp_path):
    """`minikv lab` of an installed package, in a folder: its status, and what it says on both streams."""

    def lab(*words, folder=tmp_path):
        settings = {"PYTHONPATH": str(wheel.parent), "PYTHONDONTWRITEBYTECODE": "1"}
        done = python("-m", "minikv", "lab", *words, cwd=folder, **settings)
        return done.returncode, done.stdout, done.stderr

    return lab


def test_an_installed_package_brings_the_course_into_an_empty_folder(lab, tmp_path):
    course = tmp_path / "minikv-course"
    assert lab("--where") == (0, f"{course}\n", "")
    assert set(files_in(tmp_path)) == {f"minikv-course/{name}" for name in (*CHAPTERS, RECORD)}
    assert lab("--where", folder=course)[1] == f"{course}\n"  # who went into the folder gets no second one in it
    assert set(files_in(course)) == {*CHAPTERS, RECORD}
    copy = course.rename(tmp_path / "copy")  # without its record it is the course, too
    (copy / RECORD).unlink()
    (copy / "03_radix_splitting.ipynb").write_text(notebook("mine"), "utf-8")
    _, where, said = lab("--where", folder=copy)
    assert where == f"{copy}\n"
    assert "You changed 03_radix_splitting.ipynb, so it stays." in said


@pytest.mark.parametrize(
    ("words", "there", "status", "said"),
    [
        ("--where --foo", None, 2, r"[^~]*minikv: error: unknown arguments: --foo\n"),
        ("--where", "minikv-course", 1, r"minikv: lab cannot continue: .*'minikv-course'\n"),
        ("77", None, 2, r"minikv: there is no chapter '77'; the chapters are 00_start_here.ipynb, 01_page_.*\n"),
        ("--where", "minikv-course/03_radix_splitting.ipynb/mine", 0,
         r"03_radix_splitting\.ipynb was not updated: .*\n"),
    ],
)  # fmt: skip
def test_what_stops_the_course_or_one_notebook_is_one_line(words, there, status, said, lab, tmp_path):
    write(tmp_path, {there: "mine"} if there else {})
    ended, where, complaint = lab(*words.split())
    assert (ended, where) == (status, "" if status else f"{tmp_path / 'minikv-course'}\n")
    assert re.fullmatch(said, complaint)
    assert not there or (tmp_path / there).read_text("utf-8") == "mine"


# -- what is the learner's --------------------------------------------------------------------------------------------

GOLDEN = "course.txt"
SAYS = "You changed 01.ipynb, so it stays. The new version is 01-0.1.0.ipynb."


def notebook(source, output=None):
    cell = {
        "cell_type": "code",
        "source": [source],
        "outputs": [] if output is None else [output],
        "metadata": {},
    }
    return json.dumps({"cells": [cell], "metadata": {}})


def told(text):
    """What a notebook says and puts out; of another file its beginning."""
    with suppress(ValueError, LookupError, TypeError, RecursionError):
        (cell,) = json.loads(text)["cells"]
        return " ".join(cell["source"] + cell["outputs"])
    return text[:40]


class Course:
    """A package of two notebooks, and the folder of a learner that came from it."""

    def __init__(self, folder):
        self.home, self.package = folder / "home", folder / "package"
        self.ship("first of {}", "01.ipynb", "02.ipynb")

    def ship(self, source, *names):
        """Put a version of notebooks into the package."""
        write(self.package, {name: notebook(source.format(name)) for name in names})

    def renew(self, version="0.1.0"):
        """What the learner of this version is told."""
        with mock.patch.object(shipped, "__version__", version):
            said = shipped.renew(self.home, self.package)
            return [re.sub("(updated:) .*/", r"\1 ", line) for line in said]

    def contents(self):
        """What each file but the record says, and a notebook puts out."""
        there = files_in(self.home)
        there.pop(RECORD, None)
        return {name: told(path.read_text("utf-8")) for name, path in there.items()}


@pytest.fixture
def course(tmp_path):
    made = Course(tmp_path)
    assert made.renew() == []
    return made


TEXTS = {
    "mine": notebook("mine"),
    "run": notebook("first of 01.ipynb", "1,036 tokens"),
    "deep": "[" * 100_000,
    "nothing": "",
}


def put(course, name, text):
    """Write a file of `TEXTS`, or a text as it is; or a folder, or a link."""
    (path := course.home / name).unlink(missing_ok=True)
    kind, _, target = text.partition(" ")
    acts = {"folder": path.mkdir, "link": lambda: path.symlink_to(target)}
    acts.get(kind, lambda: path.write_text(TEXTS.get(text, text), "utf-8"))()


def gone(course, name):
    path = course.home / name
    path.rmdir() if path.is_dir() else path.unlink()


ACTS = {
    "put": put,
    "gone": gone,
    "ship": lambda course, name, text: course.ship(text, name),
    "renew": lambda course, version="0.1.0": course.renew(version),
}


@pytest.mark.parametrize("title", sections(GOLDEN))
def test_only_a_notebook_whose_cells_are_ours_is_replaced_and_others_are_told_of(title, course):
    """What is said, and what each file holds that has changed."""

    def act(words):
        verb, *given = words.split(" ", 2)
        before, said = course.contents(), ACTS[verb](course, *given) or []
        changed = sorted(course.contents().items() - before.items())
        return [*said, *(f"{name}: {text}".rstrip() for name, text in changed)]

    replay(GOLDEN, title, act)


def test_a_disk_that_fails_at_any_write_loses_nothing_and_what_was_saved_before_is_said(course, monkeypatch):
    """Interrupted anywhere, the next call ends as one that was never interrupted."""
    write(course.home, {"01.ipynb": notebook("mine")})
    course.ship("second {}", "01.ipynb", "02.ipynb", "03.ipynb")
    replace, said, failures = shipped.replace, [], 0
    for failing in range(7):
        writes = itertools.count()

        def once(path, data, writes=writes, failing=failing):
            if next(writes) >= failing:
                raise OSError(28, "No space left on device", str(path))
            replace(path, data)

        monkeypatch.setattr(shipped, "replace", once)
        try:
            for line in shipped.renew(course.home, course.package):
                said.append(line)
        except OSError:
            failures += 1
            assert course.contents()["01.ipynb"] == "mine"
        assert bool(said) == ("01-0.1.0.ipynb" in course.contents())
    assert course.contents() == {
        "01.ipynb": "mine",
        "01-0.1.0.ipynb": "second 01.ipynb",
        "02.ipynb": "second 02.ipynb",
        "03.ipynb": "second 03.ipynb",
    }
    assert failures > 1
    assert {*said} == {SAYS}

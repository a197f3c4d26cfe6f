"""The wheels as people get them: each in an environment of its own, and an empty folder where it does what it is for.

python .ci/wheel.py dist/*.whl         the course alone, with chapter 03; then the tools, and their tests
python .ci/wheel.py dist/*.whl 00 13   other chapters
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import venv
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
HIDDEN = ("PYTHONPATH", "MINIKV_", "JUPYTER_", "VIRTUAL_ENV")  # of the shell that runs this: the learner has none of it
MISSING = "pip install minikv-tools"
PROMPTS = """
from datetime import datetime

def build(question):
    return f"It is {datetime.now():%H:%M}. {question}"
"""
TEST = """
import pytest

def test_the_clock_is_found(assert_prefix_stable):
    with pytest.raises(AssertionError, match="A date or a time changed"):
        assert_prefix_stable("prompts:build", args=["Where is my parcel?"])
"""


class Newcomer:
    """Somebody with a new environment, an empty folder, and nothing of this checkout."""

    def __init__(self, folder: Path) -> None:
        venv.create(folder / "venv", with_pip=True)
        self.programs = folder / "venv" / ("Scripts" if os.name == "nt" else "bin")
        self.folder = folder / "empty"
        self.folder.mkdir()

    def run(self, program: str, *words: str, status: int = 0) -> str:
        """What a program prints where it ends with this status: on standard error, if that is not 0."""
        print("+", program, *words, flush=True)
        environment = {key: value for key, value in os.environ.items() if not key.startswith(HIDDEN)}
        done = subprocess.run(
            [str(self.programs / program), *words],
            cwd=self.folder,
            env=environment,
            capture_output=True,
            text=True,
            encoding="utf-8",
            check=False,
        )
        assert done.returncode == status, f"status {done.returncode}\n{done.stdout}{done.stderr}"
        return done.stderr if status else done.stdout

    def install(self, *requirements: str) -> None:
        """Install with the pins of the checkout."""
        self.run("python", "-m", "pip", "install", "--quiet", "-c", str(ROOT / "constraints.txt"), *requirements)

    def write(self, name: str, text: str) -> str:
        """Put a file into the empty folder."""
        (self.folder / name).write_text(text, "utf-8")
        return name

    def installed(self) -> set[str]:
        """The names of the distributions in the environment, without pip's own."""
        found = json.loads(self.run("python", "-m", "pip", "list", "--format", "json"))
        return {entry["name"] for entry in found} - {"pip", "setuptools"}


def requests() -> str:
    """A log of three requests, in whose system prompt the time of day comes after a few rules."""
    lines = []
    for minute in (10, 11, 12):
        system = {"role": "system", "content": f"{'Be polite. ' * 50}It is 9:{minute}. You help with parcels."}
        asked = {"role": "user", "content": "Where is my parcel?"}
        lines.append(json.dumps({"model": "m", "messages": [system, asked]}) + "\n")
    return "".join(lines)


# -- what each has ----------------------------------------------------------------------------------------------------


def recorded(wheel: Path) -> set[str]:
    """The files that a wheel installs, as its RECORD and its archive both say."""
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        (record,) = (name for name in names if name.endswith(".dist-info/RECORD"))
        rows = archive.read(record).decode().splitlines()
    assert {row.rsplit(",", 2)[0] for row in rows} == names, wheel.name
    return names


def check_apart(course: Path, tools: Path) -> None:
    """Neither wheel has a file of the other, or one that is nobody's."""
    for wheel, package in ((course, "minikv"), (tools, "minikv_tools")):
        version = wheel.name.split("-")[1]
        folders = {name.partition("/")[0] for name in recorded(wheel)}
        assert folders == {package, f"{package}-{version}.dist-info"}, folders
    assert not recorded(course) & recorded(tools)
    print(f"{len(recorded(course))} files of the course and {len(recorded(tools))} of the tools: none is in both")


# -- the course alone -------------------------------------------------------------------------------------------------


def try_course(wheel: Path, chapters: list[str], folder: Path) -> None:
    """Install the course, copy the notebooks as `minikv lab` does, and run these chapters."""
    learner = Newcomer(folder)
    learner.install(f"{wheel}[course]")
    check_without_tools(learner)
    home = Path(learner.run("minikv", "lab", "--where").strip())
    assert home == learner.folder / "minikv-course", home
    for chapter in chapters:
        (notebook,) = home.glob(f"{chapter}_*.ipynb")
        learner.run("python", "-m", "jupyter", "execute", "--inplace", str(notebook))
        code = [cell for cell in json.loads(notebook.read_text("utf-8"))["cells"] if cell["cell_type"] == "code"]
        assert [cell["execution_count"] for cell in code] == list(range(1, len(code) + 1)), notebook.name
        print(f"{notebook.name}: {len(code)} cells ran, {sum(bool(cell['outputs']) for cell in code)} with outputs")


def check_without_tools(learner: Newcomer) -> None:
    """Without the tools, `minikv` names their commands, and says in one line how to get them."""
    assert "minikv-tools" not in learner.installed()
    assert "No module named 'minikv_tools'" in learner.run("python", "-c", "import minikv_tools", status=1)
    assert MISSING in learner.run("minikv", "--help")
    log = learner.write("log.jsonl", requests())
    for words in (["why", "x"], ["plan", log], ["sweep", "x"], ["trace", log], ["replay", log]):
        said = learner.run("minikv", *words, status=2)
        assert MISSING in said, said
        assert said.count("\n") == 1, said


# -- the tools --------------------------------------------------------------------------------------------------------


def try_tools(course: Path, tools: Path, folder: Path) -> None:
    """Install the tools with the course but no extra; run each command, the plugin of pytest, and the tools' tests."""
    user = Newcomer(folder)
    user.install(str(course), str(tools))
    assert user.installed() == {"minikv", "minikv-tools", "numpy", "tqdm"}
    check_commands(user)
    user.install("pytest", "hypothesis")
    user.write("prompts.py", PROMPTS)
    assert "1 passed" in user.run("python", "-m", "pytest", "-q", user.write("test_prompts.py", TEST))
    run_tests(user)


def check_commands(user: Newcomer) -> None:
    """Each command on a small log."""
    log = user.write("log.jsonl", requests())
    why = user.run("minikv", "why", log)
    assert "A date or a time changed" in why, why
    assert user.run("minikv-tools", "why", log) == why
    assert "knee" in user.run("minikv", "plan", log)
    assert "3 requests" in user.run("minikv", "trace", log, "-o", "trace.jsonl")
    found = [json.loads(user.run("minikv", "replay", traffic, "--json")) for traffic in (log, "trace.jsonl")]
    assert [(each["requests"], each["hits"]) for each in found] == [(3, 18)] * 2, found
    config = user.write("small.toml", 'traces = "trace.jsonl"\ncapacities = [2, "unlimited"]\n')
    rows = json.loads(user.run("minikv", "sweep", config, "--jobs", "1", "--json"))
    assert len(rows) == 2, rows


def run_tests(user: Newcomer) -> None:
    """The tools' tests, in a folder that has the tests of the checkout and neither of its packages."""
    left_out = shutil.ignore_patterns("minikv_tools", "__pycache__")
    for name in ("tests", "tools"):
        shutil.copytree(ROOT / name, user.folder / name, ignore=left_out)
    for name in ("conftest.py", "pyproject.toml"):
        shutil.copy(ROOT / name, user.folder / name)
    homes = "import minikv, minikv_tools; print(minikv.__file__, minikv_tools.__file__, sep='\\n')"
    for place in user.run("python", "-c", homes).splitlines():
        assert Path(place).is_relative_to(user.programs.parent), place
    print(user.run("python", "-m", "pytest", "-q", "-m", "core", "tools/tests").splitlines()[-1])


if __name__ == "__main__":
    wheels = {Path(word).name.partition("-")[0]: Path(word).resolve() for word in sys.argv[1:] if word.endswith(".whl")}
    check_apart(wheels["minikv"], wheels["minikv_tools"])
    with tempfile.TemporaryDirectory() as name:
        here = Path(name).resolve()
        try_course(wheels["minikv"], [word for word in sys.argv[1:] if not word.endswith(".whl")] or ["03"], here / "a")
        try_tools(wheels["minikv"], wheels["minikv_tools"], here / "b")

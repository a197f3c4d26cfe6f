"""The tables of completeness: what an original has is here, under a name that exists, or a reason says why not.

A table is `tests/seed_NAME.toml`. Each `[[row]]` has `seed`, what it is called there, and either `here`, where it is in
this project, with a `note` where that differs, or `why_not`. A name is `module:attribute.of.it`, or a file of the
project and, behind `::`, a test in it. Two tables are of bugs: each has a test that fails on a re-creation of it.
"""

import importlib
import inspect
from pathlib import Path

import pytest
from project import ROOT, text_of, tomllib

from minikv import FreeListPool, RadixCache

TABLES = {
    path.stem.removeprefix("seed_"): tomllib.loads(path.read_text("utf-8")) for path in ROOT.glob("tests/seed_*.toml")
}


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
    return (ROOT / path).is_file() and (not test or f"def {test}(" in text_of(path))


def test_it_is_here_or_there_is_a_reason_and_nothing_is_named_twice():
    for name, table in TABLES.items():
        assert table["source"], name
        assert len({row["seed"] for row in table["row"]}) == len(table["row"]), name
        for row in table["row"]:
            assert set(row) <= {"seed", "here", "note", "why_not"}, row
            assert ("here" in row) != (len(row.get("why_not", "")) > 10), row
            assert names_something(row.get("here", "tests/test_seeds.py")), row


@pytest.mark.parametrize("name", ["bugs", "field"])
def test_the_test_of_a_bug_is_run_on_ours_and_on_the_original(name):
    for row in TABLES[name]["row"]:
        if "here" in row:
            path, _, law = row["here"].partition("::")
            museum = importlib.import_module(Path(path).stem).MUSEUM
            assert law in [each.__name__ for each in museum], f"{row['seed']}: {law}"


def test_two_requests_with_the_same_prompt_lose_no_slot():
    """N21, which is no bug of the notebook: both compute, one's slots stay, the other's are given back."""
    pool, cache = FreeListPool(16), RadixCache()
    rows = [pool.alloc(4) for _ in range(2)]
    for row in rows:
        pool.free(row[: cache.insert([1, 2, 3, 4], row).prefix_length])
    assert pool.num_free + cache.total_size == pool.size
    assert list(cache.match_prefix([1, 2, 3, 4]).slots) == list(rows[0])

"""The table of indexes: what a name takes, and where it is taken. The machine plays all that a name makes."""

import json

import pytest
from test_cli import told

from minikv.prefix import BY_POLICY, INDEXES, index_named

LINE = {"timestamp": 0, "input_length": 900, "output_length": 20}
OTHERS = [name for name in INDEXES if name not in BY_POLICY]


@pytest.mark.parametrize("name", BY_POLICY)
def test_a_tree_takes_its_options(name):
    index = index_named(name, 2, policy="fifo", evict_by="page")
    assert (index.policy, index.evict_by) == ("fifo", "page")


@pytest.mark.parametrize("name", OTHERS)
@pytest.mark.parametrize("option", [{"policy": "lru"}, {"evict_by": "page"}])
def test_another_index_refuses_what_only_a_tree_can_do(name, option):
    with pytest.raises(ValueError, match=f"^{next(iter(option))} is .*index '{name}' has one order of eviction"):
        index_named(name, **option)


def test_a_name_that_is_none_is_refused_with_those_that_are():
    with pytest.raises(ValueError, match=r"^index is 'x{20,100}.*: expected one of radix"):
        index_named("x" * 10**6)


@pytest.mark.parametrize(("options", "hits"), [
    *(([name], 2) for name in INDEXES),
    (["window", "--policy", "fifo", "--capacity", "2"], 1),
    (["window", "--policy", "lfu", "--capacity", "2"], 2),
])  # fmt: skip
def test_replay_takes_an_index_and_its_policy(options, hits, tmp_path, capsys):
    """Of three prompts two fit; the first is used twice, so it stays under lfu and goes under fifo."""
    trace = tmp_path / "day.jsonl"
    trace.write_text("\n".join(json.dumps(LINE | {"hash_ids": [block]}) for block in (1, 1, 2, 3, 1)))
    out = told(capsys, "replay", trace, "--json", "--index", *options).out
    assert json.loads(out)["hits"] == hits

"""The table of indexes: each name makes an empty index, which replays a trace as the radix tree does while all fits."""

from __future__ import annotations

import json

import pytest

from minikv import RadixCache, cli, pack
from minikv.measure import TraceRequest, replay
from minikv.prefix.indexes import INDEXES, index_named

LINE = {"timestamp": 0, "input_length": 900, "output_length": 20}
OTHERS = [name for name in INDEXES if name != "radix"]


@pytest.mark.parametrize("name", INDEXES)
@pytest.mark.parametrize("page_size", [1, 4])
def test_a_name_makes_an_empty_index_of_that_page_size(name, page_size):
    index = index_named(name, page_size)
    assert (index.page_size, index.total_size) == (page_size, 0)


@pytest.mark.parametrize("name", INDEXES)
@pytest.mark.parametrize("page_size", [1, 2])
def test_while_all_fits_every_index_hits_what_the_radix_tree_hits(name, page_size):
    prompts = [[1, 2, 3], [1, 2, 4, 5], [9], [1, 2, 4, 5, 6], [1, 2, 3], [9, 1]]
    trace = [TraceRequest(0, 0, 0, pack(blocks)) for blocks in prompts]
    assert replay(trace, index_named(name, page_size)) == replay(trace, RadixCache(page_size))


def test_the_radix_tree_takes_its_options():
    index = index_named("radix", 2, policy="fifo", evict_by="page")
    assert (index.policy, index.evict_by) == ("fifo", "page")


@pytest.mark.parametrize("name", OTHERS)
@pytest.mark.parametrize("option", [{"policy": "lru"}, {"evict_by": "page"}])
def test_another_index_refuses_what_only_the_radix_tree_can_do(name, option):
    with pytest.raises(ValueError, match=f"^{next(iter(option))} is .*index '{name}' has one order of eviction"):
        index_named(name, **option)


def test_a_name_that_is_none_is_refused_with_those_that_are():
    with pytest.raises(ValueError, match=r"^index is 'x{20,100}.*: expected one of radix"):
        index_named("x" * 10**6)


@pytest.mark.parametrize("name", INDEXES)
def test_replay_takes_the_name_of_an_index(name, tmp_path, capsys):
    trace = tmp_path / "day.jsonl"
    trace.write_text("\n".join(json.dumps(LINE | {"hash_ids": blocks}) for blocks in ([1, 2], [1, 2, 3])))
    assert cli.main(["replay", str(trace), "--index", name, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["hits"] == 2

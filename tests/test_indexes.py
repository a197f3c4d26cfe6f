"""The table of indexes: each name makes an empty index, which replays a trace as the radix tree does while all fits."""

import json

import pytest

from minikv import RadixCache, cli, pack
from minikv.prefix import BY_POLICY, INDEXES, index_named
from minikv.prefix.eviction import POLICIES
from minikv.traffic import TraceRequest, replay

LINE = {"timestamp": 0, "input_length": 900, "output_length": 20}
OTHERS = [name for name in INDEXES if name not in BY_POLICY]


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


@pytest.mark.parametrize("name", BY_POLICY)
def test_a_tree_takes_its_options(name):
    index = index_named(name, 2, policy="fifo", evict_by="page")
    assert (index.policy, index.evict_by) == ("fifo", "page")


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("evict_by", ["node", "page"])
def test_a_window_index_that_keeps_its_windows_hits_what_the_radix_tree_hits_under_each_policy(policy, evict_by):
    prompts = [[1, 2, 3], [4, 5], [1, 2, 6], [7, 8], [1, 2, 3], [4, 5, 9], [7, 8], [1, 2, 6], [4, 5, 9]]
    trace = [TraceRequest(0, 0, 0, pack(blocks)) for blocks in prompts]
    radix, window = (replay(trace, index_named(name, 1, policy, evict_by), 5) for name in BY_POLICY)
    assert window == radix
    assert radix.evicted > 0


@pytest.mark.parametrize("name", OTHERS)
@pytest.mark.parametrize("option", [{"policy": "lru"}, {"evict_by": "page"}])
def test_another_index_refuses_what_only_a_tree_can_do(name, option):
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


def test_replay_takes_a_policy_for_the_window_index(tmp_path, capsys):
    """Of three prompts two fit; the first is used twice, so it stays under lfu and goes under fifo."""
    trace = tmp_path / "day.jsonl"
    trace.write_text("\n".join(json.dumps(LINE | {"hash_ids": [block]}) for block in (1, 1, 2, 3, 1)))
    hits = {}
    for policy in ("fifo", "lfu"):
        options = ["--index", "window", "--policy", policy, "--capacity", "2", "--json"]
        assert cli.main(["replay", str(trace), *options]) == 0
        hits[policy] = json.loads(capsys.readouterr().out)["hits"]
    assert hits == {"fifo": 1, "lfu": 2}

"""The real traffic of chapter 13: how it was cut, and what it shows."""

import gzip
import json

import pytest
from chapters import NOTEBOOKS, code_cells, load, printed
from cut_traffic import AGENTS, CHAT, CHAT_REQUESTS, EVERY, cut
from test_cli import told
from traffic import replay_sizes

from minikv import RadixCache
from minikv.engine import engine_world
from minikv.files import asset
from minikv.traffic import open_traffic, replay
from minikv.traffic.reuse import ReuseBySize, clairvoyant_found
from minikv.traffic.trace_tree import TraceTree

SESSION = {"block_size": 64, "tool_tokens": 100, "system_tokens": 28, "requests": [[0.5, 1100, 9, 0, [[1, 17]], 2.0]]}


def real_traffic(name):
    with open_traffic(asset(f"traffic/{name}.jsonl.gz"), span_hours=1) as traffic:
        return list(traffic.requests)


def random_leaf():
    """The policy that chapter 13 shows, which knows nothing."""
    notebook = load(next(path for path in NOTEBOOKS if path.stem.startswith("13")))
    (cell,) = (cell for cell in code_cells(notebook) if "class RandomLeaf" in cell.source)
    exec(cell.source, names := {})
    return names["RandomLeaf"]


def test_the_cut_is_the_same_each_time_and_holds_what_it_says(tmp_path):
    lines = [b'{"timestamp": %d}\n' % number for number in range(CHAT_REQUESTS + 5)]
    (tmp_path / CHAT).write_bytes(b"".join(lines))
    sessions = [json.dumps({**SESSION, "id": number}) for number in range(2 * EVERY)]
    (tmp_path / AGENTS).write_bytes(gzip.compress("\n".join(sessions).encode(), mtime=0))
    found = cut(tmp_path)
    assert found == cut(tmp_path)
    assert found["chat.jsonl.gz"] == b"".join(lines[:CHAT_REQUESTS])
    assert [json.loads(line) for line in found["agents.jsonl.gz"].splitlines()] == 2 * [
        {"block_size": 512, "system_prompt_tokens": 128, "requests": [[0.5, 1100, 9, 0, [[1, 2]]]]}
    ]


@pytest.mark.parametrize(("name", "count"), [("chat", CHAT_REQUESTS), ("agents", 1478)])
def test_an_id_stands_for_everything_up_to_the_end_of_its_block(name, count):
    """So a set of ids is enough where a cache would need a tree."""
    before, requests = {}, real_traffic(name)
    assert len(requests) == count
    for request in requests:
        blocks = request.blocks.tolist()
        for pair in zip([None, *blocks], blocks):
            assert before.setdefault(pair[1], pair[0]) == pair[0]


def test_the_assets_are_small_and_say_whose_they_are():
    files = list(asset("traffic").iterdir())
    assert sum(file.stat().st_size for file in files) < 300_000
    assert "Apache License" in asset("traffic/NOTICE.md").read_text("utf-8")
    assert "Version 2.0, January 2004" in asset("traffic/LICENSE").read_text("utf-8")


# -- what the chapter shows, and what the commands and the package say of the same requests ----------------------------


@pytest.fixture(scope="module")
def pieces():
    return engine_world(13)


def bound_of(requests, room):
    return int(clairvoyant_found(ReuseBySize(TraceTree(requests)).at(room), room).sum())


@pytest.mark.parametrize(("name", "rooms"), [("chat", (241, 2_764, 11_057)), ("agents", (1_393,))])
def test_the_pieces_count_what_replay_and_plan_count(name, rooms, pieces):
    requests = real_traffic(name)
    blocks = [request.blocks.tolist() for request in requests]
    distances = pieces["reuse_distances"](blocks)
    replayed = replay_sizes(TraceTree(requests), rooms)
    assert [sum(distance <= room for distance in distances) for room in rooms] == [found.hits for found in replayed]
    for room in rooms:
        assert pieces["optimal_hits"](blocks, room) == bound_of(requests, room)


def test_the_chapter_prints_what_the_commands_print(capsys):
    chat, how = asset("traffic/chat.jsonl.gz"), ("--capacity", "2764,11057", "--evict-by", "page")
    assert told(capsys, "replay", chat, *how).out in printed(13, "words = ")
    for row in json.loads(told(capsys, "replay", chat, *how, "--json").out):
        line = f"room {row['capacity']:6,}: {row['hits']:6,} hits in one pass, {row['hits']:6,} replayed"
        assert line in printed(13, "one_pass")


PARTS = [("chat", slice(1500), 6_000), ("agents", slice(739), 2_000),
         ("chat", slice(1500, None), 6_000), ("agents", slice(739, None), 2_000)]  # fmt: skip


def test_chance_does_not_beat_lru_where_policies_are_scored_and_nothing_beats_the_bound():
    """In tokens over both traces, for practice and in the exam, as exercise 13.5 counts."""
    scored = ("lru", "fifo", "slru", "lfu", random_leaf())
    for parts in (PARTS[:2], PARTS[2:]):
        hits, best = dict.fromkeys(scored, 0), 0
        for name, part, room in parts:
            requests = real_traffic(name)[part]
            most = bound_of(requests, room)
            for policy in scored:
                found = replay(requests, RadixCache(policy=policy, evict_by="page"), room).hits
                assert found <= most, (name, policy)
                hits[policy] += found
            best += most
        assert 1.05 * hits[scored[-1]] < hits["lru"] < best
    assert "RandomLeaf" in printed(13, "PRACTICE = ")

"""The real traffic of chapter 13: how it was cut, and what it shows."""

from __future__ import annotations

import gzip
import json

import pytest
from cut_traffic import AGENTS, CHAT, CHAT_REQUESTS, EVERY, cut

from minikv.files import asset
from minikv.traffic import open_traffic

SESSION = {"block_size": 64, "tool_tokens": 100, "system_tokens": 28, "requests": [[0.5, 1100, 9, 0, [[1, 17]], 2.0]]}


def requests_of(name):
    with open_traffic(asset(f"traffic/{name}.jsonl.gz"), span_hours=1) as traffic:
        return list(traffic.requests)


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
    before, requests = {}, requests_of(name)
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

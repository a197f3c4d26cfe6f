"""The content of `layers.json`, and the program that makes it: which states pay."""

import json

import pytest
from layers import KEEPS, ROOMS, fan_out, prompts_in, served

from minikv import asset

SHIPPED = json.loads(asset("layers.json").read_text("utf-8"))
FULL, EACH, _, ENDS, JUNCTIONS = KEEPS


def test_the_shipped_rows_are_those_that_the_program_writes_today():
    """The traces are not shipped; the fan-outs are made up again."""
    found = [(row["traffic"], row["room"], row["keep"]) for row in SHIPPED]
    rooms = {name: ROOMS.get(name, (None,)) for name in dict.fromkeys(row["traffic"] for row in SHIPPED)}
    assert found == [(name, room, keep) for name in rooms for room in rooms[name] for keep in KEEPS]
    assert len(rooms) == 4
    for row in SHIPPED[-10:]:
        prompts = fan_out(row["block"], int(row["traffic"].split()[-1]))
        today = served(prompts, row["block"], None, row["keep"])
        assert today == {name: row[name] for name in today}


@pytest.mark.parametrize(("name", "same"), [("chat", True), ("agents", False)])
def test_without_a_limit_a_state_at_each_block_is_as_good_as_none_needed(name, same):
    """The chat has times of its own; the sessions of agents are started at random, and all are short enough."""
    prompts, overlapping = prompts_in(asset(f"traffic/{name}.jsonl.gz"), 512, 1024)
    assert (prompts is overlapping) == same
    hits = {keep: served(prompts, 1024, None, keep)["hits"] for keep in KEEPS}
    assert hits[FULL] == hits[EACH] > hits[JUNCTIONS] >= hits[ENDS] > 0
    assert served(overlapping, 1024, 500, EACH)["hits"] < hits[EACH]

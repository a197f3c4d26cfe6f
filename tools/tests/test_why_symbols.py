"""Where two texts differ for a short while, and what hides the text that both have: a table in `why_symbols.json`."""

import json
from pathlib import Path

import pytest

from minikv_tools.bodies import Place, PromptPiece
from minikv_tools.why.histories import PromptItem
from minikv_tools.why.symbols import first_region, tail_change

TABLE = json.loads(Path(__file__).with_name("why_symbols.json").read_text("utf-8"))


def items(*texts):
    return [PromptItem("prompt", "", (PromptPiece(Place("prompt"), text),), text) for text in texts]


@pytest.mark.parametrize(("what", "one", "two", "expected"), [(*row[:3], row[3:]) for row in TABLE["regions"]])
def test_a_place_that_changes_ends_where_enough_is_the_same_again(what, one, two, expected):
    """`expected`: how many parts change, how many of them begin a line, and what is left; or that it is no place."""
    found = first_region(*items(one, two))
    assert ([found.width, found.lines, found.rest[0].text] if found else [None]) == expected


@pytest.mark.parametrize(("what", "one", "two", "expected"), [(*row[:3], row[3:]) for row in TABLE["tails"]])
def test_text_that_was_sent_before_is_hidden_by_one_kind_of_change(what, one, two, expected):
    """`expected`: the kind, or that little was sent before, and what is left of both where it is the same."""
    found = tail_change(*items(one, two))
    assert [found and found.kind, *{item.text for item in (found.rest if found and found.region else ())}] == expected

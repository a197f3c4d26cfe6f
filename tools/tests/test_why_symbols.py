"""Where two texts differ for a short while, and what hides the text that both have: a table in `why_symbols.json`."""

import json
from pathlib import Path

import pytest

from minikv_tools.pieces import Place, PromptItem, PromptPiece
from minikv_tools.why.changing import ChangingPlaces
from minikv_tools.why.symbols import first_region, packed, symbols_of, tail_change

TABLE = json.loads(Path(__file__).with_name("why_symbols.json").read_text("utf-8"))


def items(*texts):
    """Items of these texts, in pieces of twenty characters."""
    cuts = ([text[at : at + 20] for at in range(0, len(text), 20)] for text in texts)
    pieces = [tuple(PromptPiece(Place("prompt"), part) for part in parts) for parts in cuts]
    return [PromptItem("prompt", "", parts, text) for parts, text in zip(pieces, texts)]


def learned(region, *texts):
    """In each text, the parts that a place takes which was learned from them: from, up to, and as a line left out."""
    places = ChangingPlaces()
    places.add(("prompt", "number"), region)
    found = [places.regions(packed(symbols_of(text))) for text in texts]
    return [[list(span[1:4]) for span in spans] for spans in found]


@pytest.mark.parametrize(("what", "one", "two", "expected"), [(*row[:3], row[3:]) for row in TABLE["regions"]])
def test_a_place_that_changes_ends_where_enough_is_the_same_again(what, one, two, expected):
    """`expected`: how many parts change, what is left, and where it is found; or that it is no place."""
    found = first_region(*items(one, two))
    seen = (
        [found.width, *dict.fromkeys(rest.text for rest in found.rest), learned(found, one, two)] if found else [None]
    )
    assert seen == expected
    assert all(
        "".join(piece.text for piece in rest.pieces) in (rest.text, "") for rest in (found.rest if found else ())
    )


@pytest.mark.parametrize(("what", "one", "two", "expected"), [(*row[:3], row[3:]) for row in TABLE["tails"]])
def test_text_that_was_sent_before_is_hidden_by_one_kind_of_change(what, one, two, expected):
    """`expected`: the kind, or that little was sent before; what is left of both, and where the change is found."""
    found = tail_change(*items(one, two))
    place = found and found.region
    more = [*dict.fromkeys(rest.text for rest in found.rest), learned(place, one, two)] if place else []
    assert [found and found.kind, *more] == expected

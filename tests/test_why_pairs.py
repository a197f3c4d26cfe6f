"""`minikv why` on pairs of real shapes: the kind of change and the place, and whether nothing changed."""

from __future__ import annotations

import json

import pytest
from why_pairs import PAIRS, text_of

from minikv.cli import main
from minikv.measure.why.explain import explain
from minikv.measure.why.kinds import KINDS
from minikv.measure.why.sources import read_prompt


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair.name)
def test_the_place_and_the_kind_of_change_are_named(pair, tmp_path, capsys):
    names = []
    for side, body in (("a", pair.a), ("b", pair.b)):
        names.append(tmp_path / side)
        names[-1].write_text(text_of(body), "utf-8", newline="")
    found = explain(*(read_prompt(str(name)) for name in names))
    assert found.change.kind == pair.kind, found.change
    spot = found.spots[0]
    assert pair.place is None or str(spot).startswith(pair.place), str(spot)
    assert main(["why", *map(str, names)]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith(KINDS[pair.kind].says.rstrip("."))
    assert str(spot or "") in printed
    assert main(["why", *map(str, names), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["kind"] == pair.kind


def test_the_pairs_are_many_and_show_every_kind():
    assert len(PAIRS) >= 40
    assert len({pair.name for pair in PAIRS}) == len(PAIRS)
    missing = set(KINDS) - {pair.kind for pair in PAIRS}
    assert missing == set()


@pytest.mark.parametrize(
    "pair", [pair for pair in PAIRS if pair.kind in ("nothing", "settings")], ids=lambda pair: pair.name
)
def test_where_nothing_changed_all_of_the_prompt_is_shared(pair):
    found = explain(read(pair.a), read(pair.b))
    assert found.spots == (None, None)
    assert found.shared == found.lengths[0] == found.lengths[1]
    assert found.kind.says.startswith("Nothing")


def read(body):
    from minikv.measure.bodies import read_body

    return read_body(body)

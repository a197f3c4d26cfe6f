"""`minikv why` on pairs of real shapes: the kind of change and the place, and whether nothing changed."""

import json
import re

import pytest
from why_pairs import PAIRS, REUSES, text_of
from why_provider_pairs import PROVIDER_PAIRS

from minikv.cli import main
from minikv.serving.tokenizer import ByteTokenizer
from minikv_tools.bodies import read_body
from minikv_tools.logs import Units
from minikv_tools.why import explain, explanation_text
from minikv_tools.why.changes import KINDS
from minikv_tools.why.places import read_prompt, text_body

PAIRS = [*PAIRS, *PROVIDER_PAIRS]


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
    assert " ".join(printed.split()).startswith(KINDS[pair.kind].says.rstrip("."))
    assert str(spot or "") in printed
    assert main(["why", *map(str, names), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["kind"] == pair.kind


def test_the_pairs_are_many_and_show_every_kind():
    assert len(PAIRS) >= 40
    assert len({pair.name for pair in PAIRS}) == len(PAIRS)
    of_logs = {"differs by user"}
    missing = set(KINDS) - {pair.kind for pair in PAIRS} - of_logs
    assert missing == set()


@pytest.mark.parametrize(
    "pair", [pair for pair in PAIRS if pair.kind in ("nothing", "settings")], ids=lambda pair: pair.name
)
def test_where_nothing_changed_all_of_the_prompt_is_shared(pair):
    found = explain(read(pair.a), read(pair.b))
    assert found.spots == (None, None)
    assert found.shared == found.lengths[0] == found.lengths[1]
    assert found.kind.says.startswith("Nothing")


@pytest.mark.parametrize("pair", REUSES, ids=lambda pair: pair.name)
def test_what_each_cache_reuses_is_counted_in_tokens(pair):
    found = explain(read(pair.a), read(pair.b), Units(ByteTokenizer()), pair.blocks)
    assert found.change.kind == pair.kind
    assert [row.reused for row in found.caches] == pair.reused
    assert pair.note in " ".join(found.notes)
    assert pair.note in " ".join(explanation_text(found).split())


class Greedy:
    """A tokenizer that writes "ab" as one token."""

    def encode(self, text):
        return [ord(part[0]) + 1000 * (len(part) - 1) for part in re.findall("ab|.", text)]

    def decode(self, ids):
        raise NotImplementedError


def test_a_token_that_grows_over_the_end_is_not_shared():
    found = explain(read("x" * 9 + "a"), read("x" * 9 + "abc"), Units(Greedy()))
    assert (found.change.kind, found.lengths, found.shared) == ("extended", (10, 11), 9)
    assert "The tokenizer cuts the last 1 tokens of A differently" in " ".join(found.notes)


def test_a_prompt_with_an_image_says_how_it_is_counted():
    part = {"type": "image_url", "image_url": {"url": "data:A"}}
    body = read({"messages": [{"role": "user", "content": [part]}]})
    assert "An image counts as a short hash" in " ".join(explain(body, body).notes)


def read(body):
    return text_body(body) if isinstance(body, str) else read_body(body)

"""`minikv why` on pairs of real shapes: the kind of change and the place, and whether nothing changed."""

import json
import re

import pytest
from why_pairs import HISTORY, PAIRS, REUSES, TALK, text_of, told
from why_provider_pairs import CLOCKS, LONG, PROVIDER_PAIRS

from minikv.cli import main
from minikv.serving.tokenizer import ByteTokenizer
from minikv_tools.bodies import read_body
from minikv_tools.logs import Units
from minikv_tools.why import explain, explanation_text
from minikv_tools.why.changes import KINDS
from minikv_tools.why.places import read_prompt, text_body
from minikv_tools.why.providers import RULES

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
    places = [*dict.fromkeys(str(at or "its end") for at in found.spots if any(found.spots))]
    heads = ["where"] if len(places) == 1 else ["where A", "where B"]
    shown = [f"  {name:<9}{at}" for name, at in zip(heads, places)]
    assert re.findall("(?m)^  where.*", printed) == shown
    assert all(len(line) <= 100 for line in printed.split("\n") if not line.startswith("  "))
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


KEY = "Be brief. Who has the key of the cellar?"
EXPLAINED = """\
The second prompt continues the first.

  where A  its end
  where B  prompt, after 80 characters
  shared   …rief. Who has the key of the cellar?
  then A   (its end)
  then B    Ann.

  A                  80 bytes (without --tokenizer, 4 are counted as a token)
  B                  85 bytes
  shared             80 bytes, 94.1% of B

  a cache that has A reuses of B                         bytes
  pages of 1 token (a radix tree)                           80
  pages of 16 tokens                                        64
  pages of 64 tokens                                         0  the prompt is shorter than one block
  full blocks of 16, minus the last token (vLLM)            64
  hybrid model, blocks of 784                                0  the prompt is shorter than one block

A cache with full blocks of 16 computes the end again, 16 bytes: a block boundary, not a change.
A hybrid model with blocks of 784 reuses nothing here, as expected: the prompt is shorter than one
block.
What to do: Nothing: this is how a prefix is reused. If it missed anyway, look at the server:
eviction, another replica."""


def test_the_whole_explanation_of_two_prompts_is_as_by_hand():
    assert repr(explain(KEY * 2, KEY * 2 + " Ann.")) == EXPLAINED


def test_of_two_causes_the_one_that_saves_more_is_told_first():
    """A breakpoint before the clock keeps all that the two share, and then the clock may stay."""
    found = explain(*map(read, CLOCKS))
    assert [remedy.partition(")")[0] for remedy in found.remedies] == ["(breakpoint on what changes", "(clock"]
    (note,) = found.notes
    about = RULES["anthropic"]
    assert note.startswith(
        f"Rules of {about['title']}: {about['source']}, read on {about['read']}. Writing costs 1.25 "
    )


@pytest.mark.parametrize(("one", "two", "then"), [
    ({"tools": ["a"], "prompt": "It is 14:05."}, {"tools": ["b"], "prompt": "It is 14:06."}, ("clock", "prompt")),
    (told("It is 14:05.", *TALK), told("It is 14:06.", TALK[0], {**TALK[1], "content": "Yes, since 10."}, *TALK[2:]),
     ("answer edited", "in an answer from the model, messages[2] (assistant), content")),
    (told("It is 14:05. Id 8f3a-77b1."), told("It is 14:06. Id 02cc-19aa."),
     ("random id", "messages[0] (system), content")),
    (told("It is 14:05.", *TALK), told("It is 14:06.", *TALK[:2], {**TALK[2], "content": "And the cellar?"}), None),
    (told("Be brief.", *TALK), told("Be kind.", *TALK), None),
])  # fmt: skip
def test_what_breaks_the_prefix_next_is_named_with_its_place_and_advice(one, two, then):
    found = explain(one, two)
    assert (found.then and tuple(found.then)) == then
    assert len(found.remedies) == 1 + bool(then)


TOOLS = [{"name": name, "description": f"It is 14:0{n}. {RULES}" if name == "b" else LONG}
         for n in (5, 6) for name in "ab"]  # fmt: skip


@pytest.mark.parametrize(("one", "two", "kind", "advice"), [
    (TOOLS[:2], TOOLS[2:], "clock", "Keep definitions fixed"),
    (TOOLS[:2], TOOLS[:1], "tool removed", "Keep all tools"),
])  # fmt: skip
def test_what_changes_in_tools_gets_one_advice_which_is_about_tools(one, two, kind, advice):
    tools = [[*some[:-1], {**some[-1], "cache_control": {"type": "ephemeral"}}] for some in (one, two)]
    found = explain(*({**CLOCKS[0], "tools": some} for some in tools))
    assert (found.change.kind, found.also.kind) == (kind, "breakpoint on what changes")
    assert [said[: len(advice)] for said in found.remedies] == [advice]


def test_no_note_speaks_of_blocks_where_another_thing_is_at_fault():
    one, two = (f"{HISTORY[:200]} It is 14:0{at}. {KEY}" for at in (5, 6))
    assert explain(one, two).notes == []
    (note,) = explain("Hi", "Hi there").notes
    assert note.startswith("A hybrid model with blocks of 784 reuses nothing here")


def test_where_two_requests_use_different_caches_every_row_says_so():
    found = explain(*({"prompt": HISTORY * 9, "cache_salt": salt} for salt in "ab"))
    assert found.apart == ("cache_salt",)
    assert {row[1:] for row in found.caches} == {(0, "different cache_salt: a different namespace")}


def test_another_model_is_told_before_a_fault_of_the_prompt_and_another_key_after_it():
    for name, kinds in (("model", ("namespace", "clock")), ("prompt_cache_key", ("clock", "cache key changed"))):
        found = explain(*(told(f"It is 14:0{at}.", **{name: str(at)}) for at in (5, 6)))
        assert (found.change.kind, found.also.kind) == kinds
        assert [remedy.partition(")")[0] for remedy in found.remedies] == [f"({kind}" for kind in kinds]


def test_only_tools_that_have_a_name_are_listed():
    tools = [{"type": "file_search", "ids": [1]}, {"type": "code_interpreter"}, *({"name": name} for name in "abcdef")]
    details = [explain(*({"messages": [], "tools": order} for order in (few, few[::-1]))).change
               for few in (tools[:2], tools[:3], tools)]  # fmt: skip
    assert details == [("tools reordered", said) for said in ("", "a", "f, e, d, c and 2 more")]


class Greedy:
    """A tokenizer that writes "ab" as one token."""

    def encode(self, text):
        return [ord(part[0]) + 1000 * (len(part) - 1) for part in re.findall("ab|.", text)]

    def decode(self, ids):
        raise NotImplementedError


def test_a_token_that_grows_over_the_end_is_not_shared():
    found = explain(read("x" * 9 + "a"), read("x" * 9 + "abc"), Units(Greedy()))
    assert (found.change.kind, found.lengths, found.shared) == ("extended", (10, 11), 9)
    assert "The tokenizer cuts the end of A, 1 token, differently" in " ".join(found.notes)


def test_a_prompt_with_an_image_says_how_it_is_counted():
    part = {"type": "image_url", "image_url": {"url": "data:A"}}
    body = read({"messages": [{"role": "user", "content": [part]}]})
    assert "An image counts as a short hash" in " ".join(explain(body, body).notes)


def read(body):
    return text_body(body) if isinstance(body, str) else read_body(body)

"""What a cause costs, and the hit rate without it, against the log really rewritten with that one cause fixed."""

import functools
import json
import random
from array import array
from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st
from nightly import by_day
from planted_causes import CAUSES, hit_rate, planted_causes

from minikv_tools.why.log import survey
from minikv_tools.why.rewrites import FixedTree


@given(st.lists(st.tuples(st.integers(0, 5), st.lists(st.integers(0, 3), max_size=3)), max_size=12))
def test_a_prompt_that_continues_another_shares_as_much_as_one_that_is_put_in_whole(turns):
    items = [(array("Q", symbols).tobytes(), (0, *accumulate(symbols))) for symbols in ([1], [1, 2], [1, 3], [])]
    tree, whole = FixedTree(items.__getitem__), FixedTree(items.__getitem__)
    prompts = [(0,)]
    for number, (back, new) in enumerate(turns):
        before = max(0, len(prompts) - 1 - back)
        prompts.append((*prompts[before], *new))
        assert tree.insert(number, prompts[-1], before - 1) == whole.insert(number, prompts[-1], None)


@functools.lru_cache(3)
def surveyed(requests, seed):
    return survey(json.dumps(entry).encode() for entry in planted_causes(requests, seed))


@functools.cache
def found_in(requests, seed, *without):
    return hit_rate(planted_causes(requests, seed, without))


def place_of(report, cause):
    """The place where a cause is found: the request ids and those of the runs are of one kind."""
    found = [place for place in report.places if place.kind == CAUSES[cause]]
    if cause in ("run", "request"):
        found = [place for place in found if place.place.startswith("prompt") == (cause == "run")]
    return found[0]


def compared(requests, seed, cause, share):
    """Compare what is lost, and the hit rate after the fix, with those of the log without the cause."""
    hits, size = found_in(requests, seed)
    hits_then, size_then = found_in(requests, seed, cause)
    report = surveyed(requests, seed)
    found = place_of(report, cause)
    lost = (size - hits) - (size_then - hits_then)
    assert found.lost == pytest.approx(lost, rel=0.1, abs=share * size)
    assert found.fixed.after == pytest.approx(hits_then / size_then, abs=0.02)


@pytest.mark.parametrize("cause", CAUSES)
def test_a_planted_cause_is_found_and_costs_what_the_log_without_it_saves(cause):
    compared(800, 0, cause, share=0.002)


@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("cause", CAUSES)
def test_a_planted_cause_costs_within_a_tenth_what_the_log_without_it_saves(cause, seed):
    compared(3000, seed, cause, share=0.0005)


def test_all_causes_together_cost_what_the_log_without_them_saves():
    hits, size = found_in(800, 0)
    hits_then, size_then = found_in(800, 0, *CAUSES)
    report = surveyed(800, 0)
    assert report.lost == pytest.approx((size - hits) - (size_then - hits_then), rel=0.03)
    assert report.after == pytest.approx(hits_then / size_then, abs=0.01)


@pytest.mark.parametrize(("every", "more"), [(1, 0), (2, 9), (3, 5)])
def test_a_line_with_an_id_is_left_out(every, more):
    """All lines have one, or every second prompt, or every third has none: to the byte what the fixed log reuses.

    `more`: prompts without one may share an end of a line that is in the same symbol.
    """

    def log(line):
        for n in range(20):
            said = f"{'You are a careful assistant. ' * 5}{line(n)}\n{'Say what you know, and be brief. ' * 10}"
            yield {"system": said, "messages": [{"role": "user", "content": f"{chr(65 + n)}{n * n}?"}]}

    has = {1: lambda n: True, 2: lambda n: n % 2 == 0, 3: lambda n: n % 3 < 2}[every]
    report = survey(log(lambda n: f"\nSession {n * n * 2654435761 % 2**32:08x}e" if has(n) else ""))
    fixed, then = report.places[0].fixed, survey(log(lambda n: ""))
    assert (fixed.size + fixed.extra, fixed.reused + fixed.lost + fixed.extra) == (then.size, then.reused - 19 + more)


@pytest.mark.parametrize("before", ["Id: ", "", "\n", "\n\n", " \n", "Id:\n", "Hi\nId:\n", "So is this:\n", "- "])
def test_an_id_costs_the_same_whatever_is_before_it(before):
    """Short lines, no line, blank lines: to a few bytes of each prompt what the log with one id reuses."""

    def log(number):
        for n in range(12):
            said = f"You are a careful assistant.\n{before}{number(n) * 2654435761 % 2**32:08x}e"
            rules = "Say what you know, and be brief. " * 10
            yield {"prompt": f"{said}\n{rules}\n{chr(65 + n)}{n * n}?"}

    report, then = survey(log(lambda n: n * n)), survey(log(lambda n: 7))
    assert [place.kind for place in report.places if place.lost] == ["random id"]
    assert report.places[0].lost == pytest.approx(then.reused - report.reused, abs=12 * 12)


@pytest.mark.parametrize(("conversations", "in_a_row", "kind"), [
    ((3, 3, 3), False, "differs by user"), ((2, 2, 2), False, "differs by user"), ((3, 3), False, "system edited"),
    ((2, 2, 1, 1, 1, 1), False, "system edited"), ((2, 2, 2, 1, 1, 1, 1, 1), False, "differs by user"),
    ((2, 2, 2, 1, 1, 1, 1, 1, 1), False, "system edited"), ((3, 3, 3), True, "system edited"),
])  # fmt: skip
def test_a_block_differs_by_user_if_three_come_again_and_have_most_conversations(conversations, in_a_row, kind):
    names = ["Ann Lee", "Bob Ray", "Cem Oz", "Dora Fox", "Eve Moss", "Finn Bay", "Gus Orr", "Hal Day", "Ida Kay"]
    asked = [name for at in range(9) for name, many in zip(names, conversations) if at < many]
    asked = sorted(asked) if in_a_row else asked
    rules = "Say what you know, and be brief. " * 10
    report = survey(
        {"system": f"Be kind.\nYou help {name}.\n{rules}", "messages": [{"role": "user", "content": f"{at * at}?"}]}
        for at, name in enumerate(asked)
    )
    assert {place.kind for place in report.places if place.lost} == {kind}


@pytest.mark.parametrize(("role", "values", "kind"), [
    ("system", ["4821", "5977", "6033"], "differs by user"), ("user", ["4821", "5977", "6033"], "number"),
    ("system", ["14:05", "14:06", "14:07"], "clock"),
])  # fmt: skip
def test_no_clock_and_nothing_in_a_message_differs_by_user(role, values, kind):
    rules = "Say what you know, and be brief. " * 10
    report = survey(
        {
            "messages": [
                {"role": role, "content": f"Be kind.\nNow: {value}.\n{rules}"},
                {"role": "user", "content": f"{at}?"},
            ]
        }
        for at, value in enumerate(values * 4)
    )
    assert {place.kind for place in report.places if place.lost} == {kind}


RULES = "Say what you know, and be brief. " * 10


@pytest.mark.parametrize(("value", "kind"), [
    (lambda talk, turn: ("Ann Lee", "Bob Ray", "Cem Oz")[talk % 3], "differs by user"),
    (lambda talk, turn: (90000, 50000, 20000)[talk % 3] - turn * (talk * 37 + 211), "number"),  # what is left of it
    (lambda talk, turn: (talk * 5 + turn * 3) % 6, "number"),
    (lambda talk, turn: ("happy", "sad", "bored")[(talk + turn) % 3], "system edited"),
    (lambda talk, turn: talk // 3 * 7919, "number"),  # as many values as a third of the conversations
])  # fmt: skip
def test_a_block_that_changes_in_a_conversation_or_has_many_values_does_not_differ_by_user(value, kind):
    chance = random.Random(0)
    texts = [[" ".join(chance.choices(PASSAGE, k=12)) for _ in range(5)] for _ in range(36)]
    report = survey(
        {"system": f"{RULES}\nThis is it: {value(talk, turn)}, so be it.\n{RULES}",
         "messages": [{"role": ("user", "assistant")[at % 2], "content": said[at]} for at in range(2 * turn + 1)]}
        for talk, said in enumerate(texts) for turn in range(3)
    )  # fmt: skip
    assert {place.kind for place in report.places if place.lost} == {kind}


@pytest.mark.parametrize("form", [
    lambda said, asked: {"prompt": f"{said}\n{asked}"},
    lambda said, asked: {"system": said, "messages": [{"role": "user", "content": asked}]},
])  # fmt: skip
def test_requests_without_the_cause_keep_what_they_reuse_and_may_gain(form):
    """The second parts in the middle of a symbol, and the last one finds the question of the third.

    To the byte, less the three that the third would share of a symbol.
    """

    def log(*times):
        questions = ["Where is the lock?", "Where is the key?", "What is in the hall?", "What is in the hall?"]
        for time, asked in zip(times, questions):
            yield form(f"Be kind to all. It is {time}.\n{RULES}", asked)

    report = survey(log("14:05", "14:05", "14:06", "14:05"))
    then = survey(log(*["14:05"] * 4))
    assert report.lost == report.places[0].lost == then.reused - report.reused - 3


def test_a_prompt_without_the_line_that_others_have_gains_too():
    def log(line):
        for n in range(20):
            stamp = f"{line}{n * n * 2654435761 % 2**32:08x}e\n" if line and n % 4 in (0, 3) else ""
            yield {"prompt": f"You are a careful assistant.\nBe kind.\n{stamp}{RULES}\n{chr(65 + n // 2)}{n // 2}?"}

    report, then = survey(log("Session ")), survey(log(""))
    fixed = report.places[0].fixed
    assert fixed.size + fixed.extra == then.size
    assert 0 <= then.reused - (fixed.reused + fixed.lost + fixed.extra) <= 10, "an end of a line"


def test_a_history_that_was_cut_once_is_whole_in_all_that_continues_it():
    """To the byte: what is dropped once is sent again with every later request."""
    talk = [f"Word {number} is what was said here, and no more than that." for number in range(7)]

    def log(*cuts):
        for end, begin in zip((3, 5, 7), cuts):
            said = [{"role": ("user", "assistant")[at % 2], "content": talk[at]} for at in range(begin, end)]
            yield {"system": "Be kind.", "messages": said}

    report, then = survey(log(0, 2, 2)), survey(log(0, 0, 0))
    (place,) = (place for place in report.places if place.lost)
    fixed = place.fixed
    assert (place.kind, fixed.size + fixed.extra) == ("history truncated", then.size)
    assert fixed.reused + fixed.lost + fixed.extra == then.reused


def test_what_changes_behind_a_message_that_was_written_anew_is_found_too():
    def asked(rules, minute):
        said = [f"It is 14:{minute}. {'Be brief. ' * 20}", "Why?"]
        return {"system": json.dumps(rules), "messages": [{"role": "user", "content": text} for text in said]}

    report = survey([asked({"tone": "kind", "size": "brief"}, 10), asked({"size": "brief", "tone": "kind"}, 11)])
    assert {(place.place, place.kind) for place in report.places} == {
        ("system", "keys reordered"), ("messages[*] (user), content", "clock")
    }  # fmt: skip


WORDS = ("14:05", "14:06", "a", "b", "call_8f3a", "\n", "x. ", "2026-11-22", "é", "[1]", "a few longer words. ")
texts = st.lists(st.sampled_from(WORDS), max_size=12).map(" ".join)
messages = st.builds(dict, role=st.sampled_from(["user", "assistant", "tool", "system"]), content=texts)
tools = st.builds(dict, name=st.sampled_from("abc"), description=texts)
requests = st.one_of(
    st.builds(dict, prompt=texts, session_id=st.sampled_from(["s", "t", ""])),
    st.builds(dict, messages=st.lists(messages, max_size=5), model=st.sampled_from("mn"), system=texts,
              tools=st.lists(tools, max_size=3), session_id=st.sampled_from(["s", "t", ""])),
)  # fmt: skip


@given(st.lists(requests, min_size=1, max_size=12))
def test_no_fix_saves_more_than_is_computed(entries):
    report = survey(json.dumps(entry).encode() for entry in entries)
    assert all(0 <= place.lost <= report.lost for place in report.places)
    assert report.lost <= report.size - report.reused
    assert 0 <= report.hits <= 1
    assert 0 <= report.after <= 1


@given(st.lists(st.lists(st.integers(0, 3), min_size=1, max_size=6), min_size=2, max_size=8))
def test_a_log_in_which_each_prompt_continues_the_one_before_loses_nothing(talks):
    talk, entries = [], []
    for words in talks:
        talk += [
            {"role": "user", "content": " ".join(WORDS[word] for word in words)},
            {"role": "assistant", "content": "Yes."},
        ]
        entries.append({"messages": talk[:-1]})
    report = survey(json.dumps(entry).encode() for entry in entries)
    assert (report.lost, report.continued) == (0, len(entries) - 1)


PASSAGE = [
    "lock",
    "page",
    "slot",
    "tree",
    "node",
    "prefix",
    "token",
    "cache",
    "radix",
    "evict",
    "match",
    "leaf",
    "split",
]


SENTENCES = [
    "The tea in the pot is hot.",
    "The door on the left is open.",
    "All of the lights are out.",
    "Ann has a key of her own.",
]


@pytest.mark.parametrize(("text", "kind"), [
    (lambda n: "Known:\n" + "\n".join(random.Random(n).sample(SENTENCES, 4)), "order"),
    (lambda n: f"It is 14:{n:02}. " + " ".join(SENTENCES), "clock"),
    (lambda n: ("\r\n" if n % 2 else "\n").join(SENTENCES), "line ends"),
])  # fmt: skip
def test_a_fix_in_short_lines_saves_what_the_fixed_log_reuses(text, kind):
    """Less at most a byte of each prompt: the end of the line before its question."""

    def log(fixed):
        for n in range(16):
            said = f"{text(0 if fixed else n)}\n{chr(65 + n)}?"
            yield {"system": "Be kind. " * 9, "messages": [{"role": "user", "content": said}]}

    report, then = survey(log(fixed=False)), survey(log(fixed=True))
    place = report.places[0]
    assert (place.kind, place.fixed.size + place.fixed.extra) == (kind, then.size)
    assert 0 <= then.reused - (report.reused + place.lost + place.fixed.extra) <= 16


ORDERS = [(line, clock) for line in (" ", "\n") for clock in (False, True)]


@pytest.mark.parametrize(("line", "clock"), by_day(ORDERS, lambda order: order == ("\n", True)))
def test_passages_in_any_order_cost_what_they_would_not_cost_in_one_order(line, clock):
    chance = random.Random(0)
    passages = [line.join(" ".join(chance.choices(PASSAGE, k=8)) + "." for _ in range(12)) for _ in range(9)]

    def log(in_order):
        chance = random.Random(1)
        for n in range(200):
            found = chance.sample(passages, 3)
            rules = (
                f"Answer briefly. It is 14:{0 if in_order else clock * n % 60:02d}:00. " + "Say what you know. " * 20
            )
            asked = "\n\n".join([*(sorted(found) if in_order else found), f"Question {n}?"])
            yield {"messages": [{"role": "system", "content": rules}, {"role": "user", "content": asked}]}

    assert survey(log(in_order=False)).after == pytest.approx(survey(log(in_order=True)).hits, abs=0.02)

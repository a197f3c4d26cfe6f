"""Which earlier request had a text, and what a break is taken for after others at its place."""

import json
from pathlib import Path

import pytest

from minikv_tools.bodies import read_body
from minikv_tools.why.breaks import Breaks, LoggedRequest, Turns
from minikv_tools.why.changes import items_of
from minikv_tools.why.histories import history_change
from minikv_tools.why.texts import common_run

TABLE = json.loads(Path(__file__).with_name("why_breaks.json").read_text("utf-8"))
HISTORIES = json.loads(Path(__file__).with_name("why_histories.json").read_text("utf-8"))
TALK = [
    "Where is the lock of the door in the hall?",
    "It is next to the window, on the left of it.",
    "And where is the key to that one, if I may ask?",
    "It is in the kitchen, under the old clock.",
]


def talk(*texts):
    roles = ["user", "assistant"] * len(texts)
    return read_body({"messages": [{"role": role, "content": text} for role, text in zip(roles, texts)]})


def prompt(text):
    return items_of(read_body({"prompt": text}))[0]


def test_a_text_was_asked_by_the_request_that_sent_it_first_and_never_by_an_answer():
    turns = Turns()
    for number, size in enumerate((1, 3, 1, 5)):
        turns.add(LoggedRequest(number, number + 1, talk(*TALK[:size])))
    found = [turns.earlier(prompt(f"\n{text}")) for text in (*TALK, "Where is the door?")]
    assert found == [(0, 0), None, (1, 2), None, None]
    assert turns.earlier(items_of(talk("Why?", TALK[0]))[1]) is None, "of an answer nobody asks"


def test_a_text_that_two_messages_have_is_that_of_the_later_one():
    turns = Turns()
    for number, last in enumerate(("Why?", "How so?")):
        turns.add(LoggedRequest(number, number + 1, talk(f"{last}\n{TALK[0]}")))
    assert turns.earlier(prompt(f"\n{TALK[0]}")) == (1, 0)


def test_of_two_messages_that_have_a_part_of_a_text_the_one_with_more_of_it_counts():
    turns = Turns()
    for number, text in enumerate((f"{TALK[0]}\n{TALK[2]}", TALK[3])):
        turns.add(LoggedRequest(number, number + 1, talk(f"Why?\n{text}")))
    assert turns.earlier(prompt("\n".join(["", TALK[0], TALK[2], TALK[3]]))) == (0, 0)


def test_a_conversation_is_told_by_two_messages_in_a_row_where_questions_come_again():
    turns, own = Turns(), ["Hello.", "Hi.", "I am in the hall.", "I see.", *TALK[2:], "Thanks."]
    for number, texts in enumerate((own[:5], [*TALK[:3]])):
        turns.add(LoggedRequest(number, number + 1, talk(*texts)))
    before = turns.before(LoggedRequest(2, 3, talk(*own[2:])))
    assert before is turns.get(0), "the latest that asked it is of another conversation"


def test_many_other_last_questions_do_not_make_one_of_an_edit_before_the_last():
    breaks = Breaks()
    for number in range(20):
        asked = [talk(f"{text} {number}") for text in ("Where is the lock", "What is on the left")]
        assert breaks.between(*map(items_of, asked)).kind == "question"
    edited = [talk(f"{text} {TALK[0]}", *TALK[1:3]) for text in ("Where? What?", "What? And how?")]
    assert breaks.between(*map(items_of, edited)).kind == "message edited"


@pytest.mark.parametrize(("what", "one", "two", "expected"), [(*row[:3], row[3:]) for row in TABLE])
def test_a_break_has_a_place_a_kind_and_may_be_another_text(what, one, two, expected):
    """`expected`: the place, the kind, and whether the second has something else there, not another form."""
    left, right = (items_of(read_body(body)) for body in (one, two))
    same = common_run(*([item.text for item in items] for items in (left, right)))
    found = Breaks().between(left[same:], right[same:])
    assert [found.place, found.kind, found.new] == expected


def test_after_many_of_one_kind_those_behind_another_label_or_line_are_still_told_apart():
    breaks, kinds = Breaks(), []
    for label, count in (("It is 14:", 30), ("The row is ", 1), ("It is\n", 1)):
        for number in range(count):
            bodies = ({"prompt": f"{label}{number + more:02d}. {TALK[0]}"} for more in (10, 11))
            kinds.append(breaks.between(*(items_of(read_body(body)) for body in bodies)).kind)
    assert kinds == ["clock"] * 30 + ["number"] * 2


@pytest.mark.parametrize(("what", "one", "two", "expected"), [(*row[:3], row[3:]) for row in HISTORIES])
def test_what_happened_to_a_history_is_told_from_its_messages(what, one, two, expected):
    """`expected`: the kind of change, and how many messages."""
    items = ([*items_of(talk(*texts))] for texts in (one, two))
    assert [*history_change(*items)] == expected

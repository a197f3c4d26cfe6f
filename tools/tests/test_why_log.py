"""`minikv why LOG`: the places that break the prefix, what they lose, and one line about every log that is no log."""

import contextlib
import functools
import gzip
import json
import os
import random
import re
import subprocess
import sys
from datetime import datetime, timezone

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from nightly import NIGHTLY
from planted_causes import planted_causes

from minikv import asset
from minikv.cli import main
from minikv.traffic.trace_file import TraceError
from minikv_tools.bodies import read_body
from minikv_tools.exports import log_lines
from minikv_tools.logs import Units, time_of
from minikv_tools.why import explain
from minikv_tools.why import log as log_module
from minikv_tools.why.breaks import Breaks, LoggedRequest, Turns
from minikv_tools.why.log import survey
from minikv_tools.why.log_report import LogWords, Price, log_text
from minikv_tools.why.places import as_body, shown_text

RULES = "You are a careful assistant. " * 20


def body(*texts, clock=None, **more):
    roles = ("user", "assistant")
    talk = [{"role": roles[at % 2], "content": text} for at, text in enumerate(texts)]
    said = f"It is 14:{clock:02d}. {RULES}" if clock is not None else RULES
    return {"messages": [{"role": "system", "content": said}, *talk], **more}


def lines(*bodies):
    return [json.dumps(one).encode() + b"\n" for one in bodies]


def found(*bodies):
    return [
        (place.place, place.kind, place.breaks) for place in survey(lines(*bodies)).places if not place.about.harmless
    ]


TALK = [
    f"message {number} with words enough to be known again" for number in ("one", "two", "three", "four", "five", "six")
]


def test_a_clock_loses_all_behind_it():
    report = survey(lines(*(body(*TALK[:size], clock=size) for size in (1, 5, 3))))
    (place,) = report.places
    assert (place.place, place.kind, place.breaks) == ("messages[0] (system), content", "clock", 2)
    assert place.lost > 2 * len(RULES)
    assert place.lines == (1, 2)  # the longer prompt lost more


def test_conversations_that_alternate_are_told_apart():
    other = [text.replace("message", "notice") for text in TALK]
    both = [body(*talk[:size], clock=size) for size in (1, 3, 5) for talk in (TALK, other)]
    assert found(*both) == [("messages[0] (system), content", "clock", 4)]


def test_a_conversation_that_the_log_names_is_believed():
    """The last request shares no message with the others, and is compared with the one of its session."""
    named = [body("Hi", session_id="a"), body("Hi", session_id="b"), body("Ho", "Go", session_id="a", clock=1)]
    report = survey(lines(*named))
    assert [place.lines for place in report.places] == [(1, 3)]
    assert report.as_json(1)["sessions"] == {"session_id": 1}
    assert "In 1 of 3 requests, session_id says which conversation continues." in repr(report)


@pytest.mark.parametrize("session", [
    lambda at, entry: entry.get("talk", at), lambda at, entry: "s", lambda at, entry: entry["route"],
    lambda at, entry: at // 40, lambda at, entry: at,
])  # fmt: skip
def test_a_session_of_one_conversation_or_of_many_leaves_the_figures_as_they_are(session):
    log = planted_causes(300)
    named = [{**entry, "session_id": session(at, entry)} for at, entry in enumerate(log)]
    assert survey(named, sessions=False).as_json(99) == survey(log).as_json(99)
    shares = ({(place.place, place.kind): place.lost / report.size for place in report.places if place.lost > 0}
              for report in (survey(named), survey(log)))  # fmt: skip
    assert next(shares) == pytest.approx(next(shares), abs=0.0001)


def test_a_request_in_which_a_place_changes_twice_counts_as_one_break():
    assert found(*({"prompt": f"It is 14:0{n}. {RULES} It is 15:0{n}. {RULES}"} for n in range(3))) == [
        ("prompt", "clock", 2)
    ]


def test_a_history_that_slides_is_found():
    tail = [body(*TALK[:5]), body(*TALK[2:6])]
    assert found(*tail) == [("messages", "history truncated", 1)]


def test_histories_that_slide_by_turns_are_each_found_by_their_last_message():
    other = [f"message {text[::-1]}" for text in TALK]
    both = [body(*talk[begin:end]) for begin, end in ((0, 5), (2, 6)) for talk in (TALK, other)]
    assert found(*both) == [("messages", "history truncated", 2)]


def test_an_old_message_that_is_sent_by_another_role_is_an_edit_though_its_text_was_sent_before():
    said = [{"messages": [{"role": role, "content": text} for role, text in (("user", "Hi"), more, ("user", "Go."))]}
            for more in (("user", " ".join(TALK)), ("system", " ".join(TALK)))]  # fmt: skip
    assert found(*said) == [("messages[*] (user), role", "role changed", 1)]


@pytest.mark.parametrize(("at", "message", "kind"), [
    (1, {"role": "system", "content": "A guest is here."}, "message inserted"), (2, None, "message removed"),
    (4, {"role": "system", "content": "A guest is here."}, "message inserted"), (1, None, "history truncated"),
])  # fmt: skip
def test_what_was_sent_before_a_break_counts_as_in_a_pair(at, message, kind):
    """Messages are removed or inserted after ones that are the same, and dropped from the first on."""
    one, two = body(*TALK[:5]), body(*TALK[:6])
    two["messages"][at : at + (message is None)] = [message] if message else []
    (place,) = survey([one, two]).places
    assert place.kind == explain(*map(read_body, (one, two))).change.kind == kind


@pytest.mark.parametrize(("role", "content", "advice"), [
    ("tool", "Age: {age} s", "Send an old result exactly"), ("user", "Age: {age} s", "Put it at the end of the last"),
    ("user", [{"type": "tool_result", "tool_use_id": "1", "content": "Age: {age} s"}], "Send an old result exactly"),
])  # fmt: skip
def test_a_number_in_an_old_result_gets_the_advice_of_a_pair(role, content, advice):
    log = [body(*TALK[:size]) for size in (3, 5)]
    for age, one in zip((7, 12), log):
        one["messages"].insert(3, json.loads(json.dumps({"role": role, "content": content}).replace("{age}", f"{age}")))
    (place,) = survey(log).places
    assert (place.kind, place.about.remedy[: len(advice)]) == ("number", advice)


def test_a_tool_that_two_models_are_sent_is_lost_though_their_other_tools_differ():
    sent = [body(text, model=model, tools=[{"name": "read", "description": RULES}, {"name": other}])
            for text, model, other in (("Hi", "small", "grep"), ("Ho", "large", "edit"))]  # fmt: skip
    place = survey(sent).places[0]
    shared = os.path.commonprefix([read_body(one).text for one in sent])  # noqa: RUF071
    assert (place.place, place.kind, place.lost) == ("model", "namespace", pytest.approx(len(shared), rel=0.05))


def test_an_id_of_each_conversation_does_not_differ_by_user_however_long_they_are():
    talks = [[f"In talk {n}, {text}" for text in TALK] for n in range(4)]
    sent = [body(*talk[:size], clock=None) for talk in talks for size in (1, 3, 5)]
    for at, one in enumerate(sent):
        one["messages"][0] = {"role": "system", "content": f"{RULES} Session {at // 3 + 1:07d}e. {RULES}"}
    assert {kind for _, kind, _ in found(*sent)} == {"random id"}


def test_places_are_ranked_by_what_they_lose():
    tools = [{"name": name} for name in ("read", "write")]
    small = [body("a short talk about tools", tools=tools), body("a short talk about tools", tools=tools[::-1])]
    large = [body(*TALK[:size], clock=size) for size in (4, 6)]
    kinds = [kind for _, kind, _ in found(*small, *large)]
    assert set(kinds) == {"tools reordered", "clock"}
    losses = [place.lost for place in survey(lines(*small, *large)).places]
    assert losses == sorted(losses, reverse=True)


def test_other_questions_are_no_fault():
    report = survey(lines(body("Is it warm outside today?"), body("Who rang at the door?")))
    assert report.lost == 0
    assert all(place.about.harmless for place in report.places)


def test_what_another_prompt_made_up_for_is_not_lost():
    """The third request parts early from the first of its conversation, but the second has all that it needs."""
    first, second = body(*TALK[:1], clock=1, session_id="a"), body(*TALK[:3], clock=2, session_id="b")
    third = body(*TALK[:3], clock=2, session_id="a")
    assert survey(lines(first, second, third)).lost == survey(lines(first, second)).lost > 0


def test_blank_lines_count_as_lines_and_others_are_left_out():
    log = [b"\n", *lines(body("Hi", clock=1)), b'{"note": "no request"}\n', *lines(body("Hi", clock=2))]
    report = survey(log)
    assert (report.requests, report.log.others) == (2, 1)
    assert report.places[0].lines == (2, 4)


MALFORMED = [
    b'{"prompt": "b',
    b"x\n",
    b"[3]\n",
    b'{"messages": [3]}\n',
    b'{"prompt": [1, "a"]}\n',
    b'{"prompt": [1]}\n',
]


SOUND = lines(*({"prompt": f"{number} is said"} for number in range(99)))
survey_of_the_sound = functools.cache(lambda: survey(SOUND))


@given(st.sampled_from(MALFORMED), st.integers(1, 98))
@settings(max_examples=2000 if NIGHTLY else 10)
def test_one_malformed_line_in_a_hundred_is_left_out_and_named(odd, at):
    whole, report = survey_of_the_sound(), survey([*SOUND[:at], odd, *SOUND[at:]])
    assert (report.requests, report.size, report.reused) == (whole.requests, whole.size, whole.reused)
    assert report.log.malformed == 1
    assert report.log.first.startswith(f"log, line {at + 1}: ")
    assert report.log.first in " ".join(repr(report).split())
    with pytest.raises(TraceError, match=rf"log, line {at + 1}: .* \(malformed lines: 2 of 101; at most 1% may be"):
        survey([*SOUND[:at], odd, *SOUND[at:], b"x"])


def test_a_file_of_something_else_is_not_read_to_its_end():
    def garbage():
        for _ in range(11):
            yield b"x"
        raise AssertionError

    with pytest.raises(TraceError, match=r"line 1: the line is not JSON.*malformed lines: 11 of 11"):
        survey(garbage())


def test_a_line_that_is_too_long_is_never_left_out():
    long = b'{"prompt": "' + b"a" * 2**24 + b'"}'
    with pytest.raises(TraceError, match="line 201: the line has over 16777216 bytes"):
        survey([*lines(*[body("Hi")] * 200), long])


def test_a_log_of_text_and_of_token_ids_is_refused_by_name():
    with pytest.raises(TraceError, match="line 2: the log has both text prompts and token ids"):
        survey([{"prompt": [1, 2]}, {"prompt": "Hi"}] * 50)
    assert survey([{"prompt": ""}, {"prompt": [1]}]).requests == 2


@pytest.mark.parametrize("options", [[], ["--tokenizer", str(asset("model"))]])
def test_a_log_of_token_ids_is_counted_in_them(options, tmp_path, capsys):
    if options:
        pytest.importorskip("tokenizers")
    (tmp_path / "log").write_bytes(b"".join(lines(*[{"prompt": [*range(100, 600)]}] * 2)))
    assert main(["why", str(tmp_path / "log"), *options]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "2 requests, 1,000 tokens of prompts." in said
    assert "measured on the first prompts" not in said


def test_blank_lines_are_passed_over_up_to_a_limit_as_in_a_trace(monkeypatch):
    monkeypatch.setattr("minikv.traffic.trace_file.MOST_BLANK_LINES", 3)
    assert survey([b"\n", *lines(body("Hi")), b" \n", b"\n"]).requests == 1
    with pytest.raises(TraceError, match="log, line 5: over 3 lines are blank"):
        survey([b"\n", *lines(body("Hi")), *[b"\n"] * 9])


def test_after_many_of_one_kind_the_next_are_taken_for_it():
    turns = [LoggedRequest(n, n + 1, read_body({"prompt": f"{RULES} It is 14:{n:02d}. {RULES}"})) for n in range(60)]
    breaks = Breaks()
    assert {breaks.between(turns[0].items, other.items).kind for other in turns[1:]} == {"clock"}


def test_old_requests_are_forgotten_where_there_is_no_room():
    turns = Turns(budget=30_000)
    for number in range(50):
        turns.add(LoggedRequest(number, number + 1, read_body(body(f"question {number} of many that differ"))))
    assert turns.get(0) is None
    assert turns.get(49) is not None
    assert (
        turns.before(LoggedRequest(50, 51, read_body(body("question 0 of many that differ", "Yes.", "Sure?"))))
        is not None
    )


def test_a_prompt_that_is_larger_than_the_room_is_kept_alone():
    turns = Turns(budget=10)
    for number in range(2):
        turns.add(LoggedRequest(number, number + 1, read_body({"prompt": "x" * 250})))
    assert [bool(turns.get(number)) for number in range(2)] == [False, True]


@pytest.mark.parametrize(("one", "two"), [
    ((TALK[0], "Yes.", TALK[2]), (TALK[1], "No.", TALK[2])),  # the same question, later in another conversation
    ((TALK[0], TALK[3], TALK[2]), (TALK[1], TALK[3], TALK[4])),
    (("Hi", "Ho", "Where is the key?"), ("Hi", "Ha", "Who is there?")),
])  # fmt: skip
def test_conversations_that_have_a_message_in_common_are_two(one, two):
    first, second = (LoggedRequest(at, at + 1, read_body(body(*said))) for at, said in enumerate((one, two)))
    turns = Turns()
    turns.add(first)
    assert turns.before(second) is None


def test_after_the_room_was_used_up_once_as_many_are_kept_as_fit():
    turns = Turns(budget=9000)
    for number in range(10):
        turns.add(LoggedRequest(number, number + 1, read_body({"prompt": "x" * 250})))
    assert [number for number in range(10) if turns.get(number)] == [7, 8, 9]


def test_a_log_with_too_much_text_is_read_in_part(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(log_module, "LARGEST_TREE", 1000)
    (tmp_path / "log").write_bytes(b"".join(lines(*(body(text * 50) for text in TALK))))
    assert main(["why", str(tmp_path / "log")]) == 0
    assert "The log holds more text than is compared at once" in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize(("content", "why"), [
    (b"", "holds no request"), (b"\n\n", "holds no request"), (b'{"hash_ids": [1]}', "holds no request"),
    (b'{"prompt": "a"}\n{"prompt": "b', "line 2: the line is not JSON"), (b'[["a"]]', "line 1: the line holds text"),
    (bytes(range(256)), "line 1: the line is not"), (b"[" * 10**5, "nested too deeply"),
    (b'{"prompt": "' + b"a" * 2**24 + b'"}', "the line has over 16777216 bytes"),
    (b'{"prompt": [1, "a"]}', "line 1: prompt is [1, 'a']: expected text"),
    (b'\n{"hash_ids": [1], "a": 2}\n{"b": 1}', "holds no request: its first line has the fields hash_ids, a"),
    (b'{"messages": [3]}', "line 1: messages[0] is 3"),
    (gzip.compress(b'{"prompt": "a"}\n' * 99, mtime=0)[:-9], "cannot be unpacked to its end"),
])  # fmt: skip
def test_what_is_wrong_with_a_log_is_one_line(tmp_path, capsys, content, why):
    (tmp_path / "log").write_bytes(content)
    assert main(["why", str(tmp_path / "log")]) == 2
    said = capsys.readouterr()
    assert (said.out, said.err.count("\n")) == ("", 1)
    assert why in said.err
    assert len(said.err) < 500


def test_the_report_is_printed_as_text_as_json_and_as_a_page(tmp_path, capsys):
    log, page = tmp_path / "log.jsonl.gz", tmp_path / "why.html"
    secret = "<b>secret</b> " * 500
    bodies = [body(*TALK[:size], secret, clock=size) for size in (1, 3, 5)]
    log.write_bytes(gzip.compress(b"".join(lines(*bodies)), mtime=0))
    assert main(["why", str(log), "--html", str(page)]) == 0
    said = capsys.readouterr().out
    assert "A date or a time changed." in said
    assert len(said) < 4000
    text = page.read_text("utf-8")
    assert "<script" not in text
    assert "http" not in text
    assert "<b>secret" not in text
    assert "A date or a time changed." in text
    assert len(text) < 30_000
    assert main(["why", str(log), "--json", "--top", "1"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert [place["kind"] for place in told["places"]] == ["clock"]


USAGE = {"prompt_tokens": 40, "prompt_tokens_details": {"cached_tokens": 10}}
ASKED = [
    {"prompt": f"It is 14:0{at}. Be kind and brief, whoever asks you. {said}", "user": who, "usage": USAGE}
    for at, who, said in ((1, "ann", "Why?"), (2, "bob", "Why?"), (2, "bob", "How so?"))
]
REPORT = """\
log: 3 requests, 165 bytes of prompts.
An unlimited cache reuses 36.4% of these bytes; 0 of the requests continue an earlier one.
26.7% was sent before but not reused, because something changed: with all causes below fixed, the
cache would reuse 63.0%.

model     requests  tokens billed   read  yours  the provider's  too short    new
no model         3            120  25.0%  25.0%           20.8%       0.0%  29.2%
yours: would be read if the causes below were fixed, or if breakpoints, keys and settings fit the
rules.
the provider's: sent before, and should have been read; the entry expired, was evicted, or is on
another machine.
too short: sent before, but below the provider's minimum.
new: all others.

lost bytes  of all  hits then  breaks  place   kind of change
        44   26.7%      63.0%       1  prompt  clock
         0    0.0%      36.4%       1  prompt  question

1. prompt: A date or a time changed.
   both         It is 14:0
   line 1       1. Be kind and brief, whoever asks you. Why?
   line 2       2. Be kind and brief, whoever asks you. Why?
   Put it at the end of the last message, or after the part that many requests share, or round it to
   the day."""


def test_the_whole_report_of_three_requests_is_as_by_hand():
    """They share 0, 10 and 50 of 54, 54 and 57 bytes, and the second lost the 44 behind its clock."""
    assert repr(survey(ASKED)) == REPORT
    empty = "log: 1 request, 0 bytes of prompts.\nAn unlimited cache reuses 0.0%"
    assert repr(survey([{"prompt": ""}])).startswith(empty)
    nothing = repr(survey([{"prompt": "Hi"}]))
    assert nothing.endswith("the\ncache would reuse 0.0%.")


def test_what_the_top_leaves_out_is_counted_and_a_price_and_a_field_have_columns():
    """44 bytes are 11 tokens, each of which costs 4 - 0.4."""
    words = LogWords(survey(ASKED, by="user"), Units(), Price(4e6, 4e5), "user")
    text = log_text(words, 1)
    assert "lost bytes  of all  hits then  costs  breaks  place   kind of change\n" in text
    assert "\n        44   26.7%      63.0%  39.60       1  prompt  clock\nand 1 more place (--top)\n" in text
    assert "\nuser  requests  bytes   hits   lost  hits then  costs\n" in text
    assert "\nbob          2    111  54.1%  39.6%      93.7%  39.60\n" in text


@pytest.mark.parametrize(("count", "more"), [(1, ""), (4, ""), (5, "; and others")])
def test_the_report_gives_up_to_four_reasons_for_lines_without_a_request(count, more):
    said = " ".join(repr(survey([*({f"note{at}": 1} for at in range(count)), {"prompt": "Hi"}])).split())
    reasons = "; ".join(f"1 with the fields note{at}" for at in range(min(4, count)))
    assert f"Left out {count} line{'s' * (count > 1)} without a request: {reasons}{more}." in said


def test_a_page_goes_into_a_folder_that_is_there(tmp_path, capsys):
    for log, page in ((clocked(tmp_path), tmp_path / "none" / "x.html"), (tmp_path / "none", tmp_path / "x.html")):
        assert main(["why", str(log), "--html", str(page)]) == 2
    assert capsys.readouterr().err.count("\n") == 2


@pytest.mark.parametrize("rest", ["And this is said again.", "é" * 1000])
def test_what_a_fix_saves_is_counted_to_the_byte(rest):
    report = survey(lines(*({"prompt": f"It is 14:0{number}. {rest}"} for number in (1, 2))))
    assert [place.lost for place in report.places] == [report.lost] == [len(f"2. {rest}".encode())]


@pytest.mark.parametrize("said", [
    "Am {day}, {time} Uhr.", "Day: {day} or so. Now {time}.", "Now {time}, so be it.\nDay {day}\nend",
])  # fmt: skip
@pytest.mark.parametrize("days", [("Donnerstag", "Freitag", "Samstag"), ("torsdag", "fredag", "lördag")])
def test_a_day_beside_a_clock_is_a_part_of_it_in_any_language(said, days):
    times = [(days[at // 20], f"{at * 7 % 24:02d}:{at:02d}") for at in range(60)]
    report = survey({"system": f"{said.format(day=day, time=time)}\n{RULES}", "messages": body("Hi")["messages"][1:]}
                    for day, time in times)  # fmt: skip
    assert [place.kind for place in report.places if place.lost or place.joint] == ["clock"]


def test_two_kinds_of_change_at_one_place_are_told_apart():
    said = ["It is 14:01. Rest.", "It is 14:02. Rest.", "It is 14:02.  Rest.", "It is 14:03.  Rest."]
    kinds = {place.kind for place in survey(lines(*({"prompt": f"{RULES} {text}"} for text in said))).places}
    assert kinds == {"clock", "white space"}


def test_a_conversation_of_short_messages_is_followed():
    talks = [["Hi", "Ho", "Go"], ["Yo", "Ho", "No"]]
    bodies = [body(*talk[:size], clock=number + 3 * size) for size in (1, 3) for number, talk in enumerate(talks)]
    turns = [LoggedRequest(number, number + 1, read_body(one)) for number, one in enumerate(bodies)]
    kept = Turns()
    kept.add(turns[0])
    kept.add(turns[1])
    assert [kept.before(turn) for turn in turns[2:]] == turns[:2]


def shared_texts(*prompts, top=10):
    words = LogWords(survey([json.dumps({"prompt": prompt}) for prompt in prompts]), Units())
    return list(words.begins(top).rows)


def test_the_texts_that_are_shared_most_come_first():
    found = shared_texts("Be brief. A", "Be brief. B", "Be kind. C", "Be brief. A")
    assert found == [("3", "3", "7", shown_text("brief. ")), ("4", "0", "3", shown_text("Be ")), ("2", "10", "1", "A")]
    assert shared_texts("Be brief. A", "Be brief. B", "Be kind. C", top=1) == [("2", "3", "7", shown_text("brief. "))]
    assert shared_texts("one", "two") == []


def test_of_a_long_text_48_characters_are_shown_at_each_end():
    for text, shown in (("a" * 48 + "b" * 48, "a" * 48 + "b" * 48), ("é" * 50 + "ü" * 50, "é" * 48 + " … " + "ü" * 48)):
        ((*_, said),) = shared_texts(text, text)
        assert said == shown
    ((*_, said),) = shared_texts("é", "è")  # the first of two bytes
    assert said == "\N{REPLACEMENT CHARACTER}"


def test_the_page_has_the_shared_texts_without_markup_of_their_own(tmp_path, capsys):
    (tmp_path / "log").write_bytes(b"".join(lines(*[{"prompt": f"<script>{'x' * 9000}the end"}] * 2)))
    assert main(["why", str(tmp_path / "log"), "--html", str(tmp_path / "page.html")]) == 0
    page = (tmp_path / "page.html").read_text("utf-8")
    assert "<script>" not in page
    assert "&lt;script&gt;xx" in page
    assert "xthe end</td>" in page
    assert len(page) < 9000


@given(st.lists(st.text("ab", max_size=12), max_size=20))
def test_of_the_prompts_that_share_the_most_the_latest_is_compared(texts):
    work = log_module._Survey("log", "")
    for number, text in enumerate(texts):
        turn = LoggedRequest(number, number + 1, read_body({"prompt": text}))
        shared, latest = work._insert(turn)
        by_hand = [len(os.path.commonprefix([text, other])) for other in texts[:number]]  # noqa: RUF071
        assert shared == max(by_hand, default=0)
        assert latest == (max(n for n, size in enumerate(by_hand) if size == shared) if shared else None)


@given(st.lists(st.tuples(st.integers(0, 5), st.sampled_from("mn"), st.text("ab", max_size=3)), max_size=12))
def test_a_prompt_reuses_what_it_shares_with_the_best_earlier_one(turns):
    talks, bodies = [["Hi"]], list[dict]()
    for back, model, text in turns:
        talks.append([*talks[-1 - back % len(talks)], "Yes.", text])
        bodies.append(body(*talks[-1], model=model))
    texts = [read_body(one).text for one in bodies]
    by_hand = [max([len(os.path.commonprefix([text, other]))  # noqa: RUF071
                    for other, earlier in zip(texts, bodies[:number]) if earlier["model"] == bodies[number]["model"]],
                   default=0) for number, text in enumerate(texts)]  # fmt: skip
    if texts:
        report = survey(lines(*bodies))
        assert (report.reused, report.size) == (sum(by_hand), sum(map(len, texts)))


def test_messages_of_numbers_are_told_apart():
    """Without their digits these prompts are all the same: each conversation must still find its own."""
    dice = random.Random(1)
    talks = [[" ".join(f"w{dice.randrange(10**4)}" for _ in range(12)) for _ in range(6)] for _ in range(9)]
    report = survey(lines(*(body(*talk[:size]) for size in (1, 3, 5) for talk in talks)))
    assert (report.continued, report.lost) == (18, 0)


def test_a_block_that_differs_by_user_is_called_that():
    def asked(user, number):
        said = f"{RULES}\nYou help {user}.\n{RULES}"
        return {
            "messages": [{"role": "system", "content": said}, {"role": "user", "content": f"{user} asks {number}?"}]
        }

    users = ["Anna Lee", "Bob Ray", "Cem Oz", "Dora Fox"]
    report = survey(lines(*(asked(user, number) for number in range(9) for user in users)))
    (place,) = (place for place in report.places if place.lost)
    assert (place.place, place.kind) == ("messages[0] (system), content", "differs by user")
    assert place.lost == pytest.approx(3 * len(RULES), rel=0.1)  # each but the first computes the second half again


def test_a_block_that_is_another_each_time_is_not_called_that():
    said = [f"{RULES}\nSession {number:08x}e.\n{RULES}" for number in range(7000, 7020)]
    bodies = [{"system": text, "messages": [{"role": "user", "content": "Hi"}]} for text in said]
    assert {place.kind for place in survey(lines(*bodies)).places} == {"random id"}


def test_a_truncated_history_costs_all_that_moved_up():
    said = [f"{text}, the {number}. time. " * 5 for number, text in enumerate(TALK * 4)]
    talk = [{"messages": body(*said[:size])["messages"]} for size in range(1, 20, 2)]
    cut = [{"messages": [one["messages"][0], *one["messages"][1:][-7:]]} for one in talk]
    report, fixed = survey(lines(*cut)), survey(lines(*talk))
    (place,) = report.places
    assert place.kind == "history truncated"
    assert place.fixed.after == pytest.approx(fixed.hits, abs=0.01)
    assert place.lost == pytest.approx((report.size - report.reused) - (fixed.size - fixed.reused), rel=0.02)
    cut_costs, talk_costs = (4 * one.size - 3.6 * one.reused for one in (report, fixed))
    begun = {"messages": cut[-1]["messages"][:2]}  # another conversation, with a question of the first
    assert survey(lines(*cut, begun)).places[0].fixed.extra == place.fixed.extra
    saved = LogWords(report, Units(), Price(4e6, 4e5)).money(place.fixed)
    assert saved == pytest.approx((cut_costs - talk_costs) / 4)


def test_models_are_apart_in_the_tree_and_in_the_report():
    text = "The same long words for both of them. " * 9
    apart = survey(lines(*({"model": model, "prompt": text} for model in ("small", "large", "small"))))
    assert (sorted(apart.trees), apart.reused) == (["large", "small"], len(text))
    (place,) = apart.places  # the large one computes what the small one has
    assert (place.place, place.kind, place.lost) == ("model", "namespace", len(text))


def test_a_conversation_that_changes_its_model_loses_what_it_had():
    sent = ((1, "small"), (3, "small"), (5, "large"))
    bodies = [body(*TALK[:size], model=model, session_id=1) for size, model in sent]
    (place,) = survey(lines(*bodies)).places
    assert (place.place, place.kind) == ("model", "namespace")
    assert place.lost == pytest.approx(len(read_body(bodies[1]).text), rel=0.02)


def clocked(tmp_path, count=6):
    log = tmp_path / "log.jsonl"
    log.write_bytes(b"".join(lines(*(body(TALK[n % 6], clock=n, user=f"u{n % 2}") for n in range(count)))))
    return str(log)


@pytest.mark.parametrize(("limits", "status"), [
    (["lost > 99%"], 0), (["lost > 2%"], 1), (["hits < 1%"], 0), (["hits<99.5%"], 1), (["clock > 2%"], 1),
    (["number > 0%"], 0), (["lost > 2%", "hits < 99%"], 1),
])  # fmt: skip
def test_a_limit_that_is_broken_sets_the_status_and_is_one_line(tmp_path, capsys, limits, status):
    options = [option for limit in limits for option in ("--fail-if", limit)]
    assert main(["why", clocked(tmp_path), "--json", *options]) == status
    said = capsys.readouterr()
    assert json.loads(said.out)["places"]
    assert said.err.count("\n") == status * len(limits)
    assert not status or f"--fail-if {limits[0]}: " in said.err


def test_a_pair_has_a_limit_too(tmp_path, capsys):
    for number in (1, 2):
        (tmp_path / f"{number}.json").write_text(json.dumps(body("Hi", clock=number)))
    pair = ["why", str(tmp_path / "1.json"), str(tmp_path / "2.json"), "--fail-if"]
    assert (main([*pair, "shared < 90%"]), main([*pair, "shared < 1%"])) == (1, 0)
    assert "--fail-if shared < 90%: shared is " in capsys.readouterr().err


@pytest.mark.parametrize("limit", ["lost", "lost = 2%", "cost > 2%", "shared < 90%", "lost > -1%", "", "lost > 2%; x"])
def test_a_limit_that_is_none_is_refused_before_the_work(capsys, limit):
    with contextlib.suppress(SystemExit):
        assert main(["why", "no such log", "--fail-if", limit]) == 2
    said = capsys.readouterr().err
    assert "no such log" not in said
    assert "--fail-if" in said


def test_a_price_says_what_is_lost_in_money(tmp_path, capsys):
    log = clocked(tmp_path)
    lost = survey(log).lost / 4
    for more, price in (
        ("", 3.6),
        (",5000000", 4.6),
        (",5000000,8000000", 7.6),
    ):  # the last: all is written for an hour
        assert main(["why", log, "--price", f"4000000,400000{more}"]) == 0
        said = joined(capsys)
        assert f"That costs {lost * price:,.2f} at these prices, with 4 bytes per token" in said
        assert ("WRITE_1H for" in said) == (price == 7.6)


def joined(capsys):
    return " ".join(capsys.readouterr().out.split())


def test_json_has_the_money_of_the_whole_of_each_place_and_of_each_group(tmp_path, capsys):
    log = clocked(tmp_path)
    assert main(["why", log, "--json", "--by", "user", "--price", "4000000,400000"]) == 0
    told = json.loads(capsys.readouterr().out)
    for said in (told, *told["places"], *told["groups"].values()):
        assert said["costs"] == pytest.approx(said["lost"] / 4 * 3.6) != 0
    assert main(["why", log, "--json"]) == 0
    assert "costs" not in joined(capsys), "without a price"


@pytest.mark.parametrize("price", ["0.3,3", "3,0.3,0.2", "3,0.3,6,3.75", "3,0.3,3.75,0.2"])
def test_prices_in_another_order_are_refused(capsys, price):
    """To read from the cache never costs the most, and an hour not less than five minutes."""
    with pytest.raises(SystemExit, match="2"):
        main(["why", "log", f"--price={price}"])
    assert f"{price!r}: CACHED must not be above the others, nor WRITE above WRITE_1H" in capsys.readouterr().err


def test_a_field_that_no_request_has_is_refused_with_those_there_are(tmp_path, capsys):
    log = clocked(tmp_path)
    assert main(["why", log, "--by", "person"]) == 2
    said = capsys.readouterr()
    assert (said.out, said.err.count("\n")) == ("", 1)
    assert "no request has the field 'person': the first line has " in said.err
    assert "user" in said.err
    some = [{"prompt": "Hi"}, {"prompt": "Ho", "metadata": {"route": "/a"}}]
    assert {*survey(some, by="metadata.route").groups} == {"(none)", "/a"}
    with pytest.raises(TraceError, match=r"'route': the first line has prompt, metadata, metadata.route$"):
        survey(some[1:], by="route")


def test_the_report_says_that_rows_do_not_add_up_only_where_a_loss_stands_in_several(tmp_path, capsys):
    for bodies, times in ((hidden_causes(8), 1), ([body("Hi", clock=clock) for clock in range(8)], 0)):
        (tmp_path / "log").write_bytes(b"".join(lines(*bodies)))
        assert main(["why", str(tmp_path / "log"), "--html", str(tmp_path / "page.html")]) == 0
        for text in (joined(capsys), (tmp_path / "page.html").read_text("utf-8")):
            assert text.count("so the rows do not add up") == times == ("with others" in text)


@pytest.mark.parametrize("price", ["3", "3,x", "3,-1", "1,2,3,4,5", "nan,1"])
def test_a_price_that_is_none_is_refused(capsys, price):
    with pytest.raises(SystemExit):
        main(["why", "log", "--price", price])
    assert "is not a list of two to four prices" in capsys.readouterr().err


def test_a_table_by_a_field_has_a_row_for_each_value_and_the_largest_first(tmp_path, capsys):
    log, page = clocked(tmp_path, 7), tmp_path / "why.html"
    groups = survey(log, by="user").groups
    assert survey(log).log.name == log
    assert [*survey(log).groups] == [""]
    assert {name: group.requests for name, group in groups.items()} == {"u0": 4, "u1": 3}
    assert sum(group.lost for group in groups.values()) == survey(log).lost
    assert main(["why", log, "--json", "--by", "user", "--top", "1"]) == 0
    ((name, said),) = json.loads(capsys.readouterr().out)["groups"].items()
    assert (name, groups["u0"].lost > groups["u1"].lost) == ("u0", True)
    assert (said["hits"], said["hits_after"]) == (groups["u0"].hits, groups["u0"].after)
    assert main(["why", log, "--by", "user", "--top", "1", "--html", str(page)]) == 0
    assert "By user" in page.read_text("utf-8")
    assert "u1" not in capsys.readouterr().out


def test_what_goes_with_a_log_is_refused_for_a_pair(capsys):
    for option in (["--by", "user"], ["--price", "3,1"], ["--html", "x.html"]):
        assert main(["why", "a", "b", *option]) == 2
        assert f"{option[0]} needs a log, not prompts" in capsys.readouterr().err


def test_the_bill_is_compared_with_what_an_unlimited_cache_reads(tmp_path, capsys):
    usage = {"prompt_tokens": 1000, "prompt_tokens_details": {"cached_tokens": 250}}
    log = tmp_path / "log.jsonl"
    bodies = [body(*TALK[:size], model="small", usage=usage) for size in (1, 3)]
    log.write_bytes(b"".join(lines(*bodies, body("Hi", model="large"))))
    first, second = (len(read_body(one).text) for one in bodies)
    billed = survey(log.read_bytes().splitlines()).billed
    assert list(billed) == ["small"]
    assert (billed["small"].requests, billed["small"].hits) == (2, 0.25)
    assert billed["small"].after == pytest.approx((0.25 + first / second) / 2, abs=0.001)
    assert main(["why", str(log)]) == 0
    assert re.search(r"small +2 +2,000 +25.0% +\d+.\d%", capsys.readouterr().out)


def hidden_causes(count):
    """Prompts with their tools in any order, and then a clock before the text that all share."""
    draw, tools = random.Random(1), [{"name": f"tool_{n}", "description": "Does this. " * 20} for n in range(6)]
    for n in range(count):
        system = f"It is {n % 24:02d}:{n % 60:02d}. " + "Be kind and brief, and say what you know. " * 60
        asked = [{"role": "system", "content": system}, {"role": "user", "content": f"Number {draw.random()}"}]
        yield {"model": "m", "tools": draw.sample(tools, len(tools)), "messages": asked}


def test_causes_that_hide_each_other_are_told_and_the_gate_sees_both():
    """Fixed alone, the clock gives next to nothing, since the tools before it change; with both fixed, half of all."""
    report = survey(hidden_causes(100))
    lost = {place.kind: (place.lost / report.size, place.joint / report.size) for place in report.places}
    assert lost["clock"][0] < 0.1
    assert 0.4 < lost["clock"][1] == lost["tools reordered"][1] < 0.6
    assert report.quantity("clock") == sum(lost["clock"]) > 0.4
    assert sum(lost["tools reordered"]) + lost["clock"][0] == pytest.approx(report.lost / report.size, abs=0.01)
    assert "with others" in repr(report)
    assert [place["lost_with_others"] > 0 for place in report.as_json(2)["places"]] == [True, True]
    assert [place["lost_with"] for place in report.as_json(2)["places"]] == [
        [("messages[0] (system), content", "clock")], [("tools", "tools reordered")]
    ]  # fmt: skip
    assert re.search(r"with others  \+\d\d\.\d% with tools reordered in tools\n", repr(report))


def test_causes_in_prompts_of_their_own_hide_nothing():
    clocks = [{"prompt": f"It is 14:{n:02d}. {'Be brief. ' * 50}{n * n}"} for n in range(20)]
    ids = [{"prompt": f"Session 9f3e{n:08x}: {'Be kind. ' * 50}{n * n}"} for n in range(20)]
    report = survey(clocks + ids)
    assert sum(place.joint for place in report.places) < report.size / 100
    assert "with others" not in repr(report)


DATES = st.datetimes(datetime(1970, 1, 2), datetime(2100, 1, 1), timezones=st.none() | st.just(timezone.utc))


@given(DATES, st.sampled_from(["time", "timestamp", "created_at"]), st.sampled_from(["Hi", [5, 7]]))
def test_a_datetime_is_a_time_like_the_text_that_it_is_printed_as(when, key, prompt):
    """Of a log from Python, also in its metadata, with prompts of text and of token ids."""
    for entry in ({"prompt": prompt, key: when}, {"prompt": prompt, "metadata": {key: when}}):
        text = json.loads(json.dumps(entry, default=str))
        assert as_body(entry).time == as_body(text).time == when.replace(tzinfo=timezone.utc).timestamp() * 1000
        assert [time_of(json.loads(line)) for line in log_lines([entry])] == [time_of(entry)]
        assert survey([entry]).requests == 1
    assert survey([{"prompt": "Hi", "day": when.date()}]).requests == 1


def test_what_json_lacks_is_named():
    with pytest.raises(TypeError, match=r"an entry holds \{1\}: expected a JSON value or a date"):
        survey([{"prompt": "Hi", "tags": {1}}])


def mixed_causes(seed=4):
    """The requests of a log in which several causes are in the same prompts."""
    drawn = random.Random(seed)

    def text(size):
        return " ".join(
            drawn.choice(["alpha", "beta", "gamma", "lock", "door", "tree", "page", "cache", "key"])
            for _ in range(size)
        )

    rules, tools = (
        [f"Rule {text(12)}" for _ in range(12)],
        [{"name": f"t{n}", "description": text(20)} for n in range(6)],
    )
    for talk in range(60):
        said, offered = (drawn.sample(one, len(one)) if talk % 3 == 0 else one for one in (rules, tools))
        lead = f"Hello user_{drawn.choice([11, 22, 33, 44])}. It is 14:{talk % 60:02d}. {' '.join(said)} {text(40)}"
        for _ in range(drawn.randint(1, 3)):
            messages = [{"role": "system", "content": lead}, {"role": "user", "content": f"{text(30)} {rules[0]}"}]
            yield {"model": drawn.choice("aaab"), "tools": offered, "messages": messages}


def test_the_report_is_the_same_in_every_process(tmp_path):
    (tmp_path / "log").write_bytes(b"".join(lines(*mixed_causes())))
    command = [sys.executable, "-m", "minikv", "why", str(tmp_path / "log"), "--by", "model"]
    told = {
        subprocess.run(command, env=os.environ | {"PYTHONHASHSEED": str(seed)}, capture_output=True, check=True).stdout
        for seed in range(4 if NIGHTLY else 2)
    }
    assert len(told) == 1
    assert b"differs by user" in next(iter(told))

"""`minikv why LOG`: the places that break the prefix, what they lose, and one line about every log that is no log."""

from __future__ import annotations

import gzip
import json
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikv.cli import main
from minikv.traffic.bodies import read_body
from minikv.traffic.trace_file import TraceError
from minikv.traffic.trace_tree import PrefixTree
from minikv.traffic.why import log as log_module
from minikv.traffic.why.breaks import Breaks, LoggedRequest, Turns, lost_text
from minikv.traffic.why.log import survey
from minikv.traffic.why.log_report import tree_html

pytestmark = pytest.mark.core

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


def test_a_conversation_that_only_grows_loses_nothing():
    report = survey(lines(*(body(*TALK[:size]) for size in (1, 3, 5))))
    assert (report.requests, report.continued, report.lost, report.places) == (3, 2, 0, [])


def test_a_clock_loses_all_behind_it():
    report = survey(lines(*(body(*TALK[:size], clock=size) for size in (1, 3, 5))))
    (place,) = report.places
    assert (place.place, place.kind, place.breaks) == ("messages[0] (system), content", "clock", 2)
    assert place.lost > 2 * len(RULES)
    assert place.lines == (2, 3)  # the longer prompt lost more


def test_conversations_that_alternate_are_told_apart():
    other = [text.replace("message", "notice") for text in TALK]
    both = [body(*talk[:size], clock=size) for size in (1, 3, 5) for talk in (TALK, other)]
    assert found(*both) == [("messages[0] (system), content", "clock", 4)]


def test_a_conversation_that_the_log_names_is_believed():
    named = [body("Hi", session_id="a"), body("Hi", session_id="b"), body("Ho", session_id="a", clock=1)]
    report = survey(lines(*named))
    assert [place.lines for place in report.places] == [(1, 3)]


def test_a_history_that_slides_is_found():
    tail = [body(*TALK[:5]), body(*TALK[2:6])]
    assert found(*tail) == [("messages", "history truncated", 1)]


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
    assert (report.requests, report.other_lines) == (2, 1)
    assert report.places[0].lines == (2, 4)


def test_blank_lines_are_passed_over_up_to_a_limit_as_in_a_trace(monkeypatch):
    monkeypatch.setattr("minikv.traffic.trace_file.MOST_BLANK_LINES", 3)
    assert survey([b"\n", *lines(body("Hi")), b" \n", b"\n"]).requests == 1
    with pytest.raises(TraceError, match="log, line 5: over 3 lines are blank"):
        survey([b"\n", *lines(body("Hi")), *[b"\n"] * 9])


def test_after_many_of_one_kind_the_next_are_taken_for_it():
    turns = [LoggedRequest(n, n + 1, read_body({"prompt": f"{RULES} It is 14:{n:02d}. {RULES}"})) for n in range(60)]
    breaks = Breaks()
    assert {breaks.between(turns[0], other).kind for other in turns[1:]} == {"clock"}


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


def test_after_the_room_was_used_up_once_as_many_are_kept_as_fit():
    turns = Turns(budget=10_000)
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
    assert main(["why", str(tmp_path / "log")]) == 1
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


def test_sizes_are_tokens_where_there_is_a_tokenizer(tmp_path, capsys):
    pytest.importorskip("tokenizers")
    from minikv.files import asset

    (tmp_path / "log").write_bytes(b"".join(lines(body("Größe"), body("Größe"))))
    assert main(["why", str(tmp_path / "log"), "--tokenizer", str(asset("model"))]) == 0
    assert "tokens of prompts" in " ".join(capsys.readouterr().out.split())


def test_a_page_goes_with_a_log_and_into_a_folder_that_is_there(tmp_path, capsys):
    (tmp_path / "log").write_bytes(b"".join(lines(body("Hi"))))
    assert main(["why", str(tmp_path / "log"), str(tmp_path / "log"), "--html", "x.html"]) == 2
    assert main(["why", str(tmp_path / "log"), "--html", str(tmp_path / "none" / "x.html")]) == 2
    assert main(["why", str(tmp_path / "none")]) == 2
    assert capsys.readouterr().err.count("\n") == 3


def test_the_text_that_is_lost_is_counted_to_the_byte():
    bodies = [{"prompt": f"It is 14:0{number}. And this is said again."} for number in (1, 2)]
    (place,) = survey(lines(*bodies)).places
    assert (place.lost, survey(lines(*bodies)).lost) == (len(". And this is said again."),) * 2


def test_lost_text_that_is_not_ascii_is_counted_in_bytes():
    rest = "é" * 1000
    (place,) = survey(lines(*({"prompt": f"It is 14:0{number}{rest}"} for number in (1, 2)))).places
    assert place.lost == pytest.approx(len(rest.encode()), rel=0.02)


def test_a_message_that_is_said_twice_was_sent_before_only_as_often_as_it_was_said():
    again = {"role": "user", "content": "The same words once more."}
    one, two = ([{"role": "system", "content": f"It is 14:0{n}."}, *[again] * n] for n in (1, 2))
    requests = [LoggedRequest(n, n + 1, read_body({"messages": messages})) for n, messages in enumerate((one, two))]
    item = requests[0].items[-1].text
    at = requests[0].text.index("1.")
    assert lost_text(*requests, at) == len(".<|im_end|>\n" + item)


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


def grown(*texts):
    tree = PrefixTree()
    for text in texts:
        tree.insert(text)
    return tree


def test_the_drawing_shows_what_most_prompts_begin_with():
    page = tree_html(grown(b"Be brief. A", b"Be brief. B", b"Be kind. C"), depth=6)
    assert page.index("3 prompts, 3 bytes") < page.index("2 prompts, 7 bytes") < page.index("+2 branches")
    assert "+1 more branch<" in page


def test_the_drawing_ends_at_its_depth():
    texts = [b"a", b"ab", b"abc", b"abcd", b"abcde"]
    assert tree_html(grown(*texts, *texts), depth=2).count("<code>") == 2


def test_the_drawing_of_a_wide_tree_stays_small():
    texts = [f"{first:03d} and {second}".encode() for first in range(99) for second in range(9)]
    assert tree_html(grown(*texts), depth=6).count("<code>") <= 80


def test_a_long_text_shows_both_ends_and_no_markup_of_its_own():
    long = b"<script>" + b"x" * 9000 + b"the end"
    page = tree_html(grown(long, long), depth=2)
    assert "<script>" not in page
    assert "&lt;script&gt;" in page
    assert "the end" in page
    assert len(page) < 1000


def test_bytes_that_are_no_text_are_drawn():
    assert "\N{REPLACEMENT CHARACTER}" in tree_html(grown("é".encode()[:1] * 2, "é".encode()[:1] * 2), depth=2)


@given(st.lists(st.text("ab", max_size=12), max_size=20))
def test_of_the_prompts_that_share_the_most_the_latest_is_compared(texts):
    work = log_module._Survey("log")
    for number, text in enumerate(texts):
        shared, latest = work._insert(text.encode(), number)
        by_hand = [len(os.path.commonprefix([text, other])) for other in texts[:number]]  # noqa: RUF071
        assert shared == max(by_hand, default=0)
        assert latest == (max(n for n, size in enumerate(by_hand) if size == shared) if shared else None)

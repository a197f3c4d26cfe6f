"""Two texts: what kind of change lies between them, and that hostile ones take no time."""

import re
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikv_tools.why import texts
from minikv_tools.why.texts import LONGEST_LOOK, masked, patterns_in, shared_length, text_change, volatile_at


@given(st.integers(0, 300), st.text("ab", max_size=200), st.text("ab", max_size=200))
def test_the_shared_length_is_that_of_the_longest_common_beginning(same, one, two):
    one, two = (f"{'c' * same}{text}" for text in (one, two))
    size = shared_length(one, two)
    assert one[:size] == two[:size]
    assert one[size : size + 1] != two[size : size + 1] or size == len(one) == len(two)


@pytest.mark.parametrize(("one", "two", "kind"), [
    ("at 9:59 o'clock", "at 10:00 o'clock", "clock"),
    ("at 14:05 now", "at 14:05:07 now", "clock"),
    ("Sun, 22 Nov 2026 14:05:07 GMT", "Mon, 23 Nov 2026 09:00:01 GMT", "clock"),
    ("on Tuesday", "on Wednesday", "clock"),
    ("since 1779514688 s", "since 1779514702 s", "clock"),
    ("in 2026-W47", "in 2026-W48", "clock"), ("20261122T140507Z", "20261122T140511Z", "clock"),
    ("in November 2026", "in December 2026", "clock"), ("le 23 novembre 2026", "le 24 novembre 2026", "clock"),
    ("現在時刻: 2026年3月12日 14時05分\n", "現在時刻: 2026年3月12日 14時09分\n", "clock"),
    ("今は14時です", "今は15時です", "clock"), ("二〇二六年三月十二日", "二〇二六年三月十三日", "clock"),
    ("今天是星期四。", "今天是星期五。", "clock"), ("2026年3月12日（木）", "2026年3月13日（金）", "clock"),
    ("现在是下午2:05", "现在是下午2:06", "clock"), ("時刻 １４：０５", "時刻 １４：０６", "clock"),
    ("지금은 2026년 3월 12일 오후 2시 5분입니다", "지금은 2026년 3월 12일 오후 2시 6분입니다", "clock"),
    ("오늘: 2026. 3. 12.", "오늘: 2026. 3. 13.", "clock"), ("목요일입니다", "금요일입니다", "clock"),
    ("الساعة ١٤:٠٥", "الساعة ١٤:٠٦", "clock"), ("١٢ مارس ٢٠٢٦", "١٣ مارس ٢٠٢٦", "clock"),
    ("آج ۱۲\u200f/۳\u200f/۲۰۲۶", "آج ۱۳\u200f/۳\u200f/۲۰۲۶", "clock"), ("12 मार्च 2026", "13 मार्च 2026", "clock"),
    ("समय १४:०५", "समय १४:०६", "clock"), ("12 มีนาคม 2569", "13 มีนาคม 2569", "clock"),
    ("12 марта 2026 г.", "13 марта 2026 г.", "clock"), ("12 במרץ 2026", "13 במרץ 2026", "clock"),
    ("12 de marzo de 2026", "13 de marzo de 2026", "clock"), ("il est 14 h 05", "il est 14 h 06", "clock"),
    ("ngày 12 tháng 3 năm 2026", "ngày 13 tháng 3 năm 2026", "clock"), ("um 14.05 Uhr", "um 14.06 Uhr", "clock"),
    ("在庫 5個", "在庫 6個", "number"), ("3時間以内", "4時間以内", "number"), ("5 of 2000", "6 of 2000", "number"),
    ("全12巻", "全13巻", "number"), ("5개 남음", "6개 남음", "number"), ("残り4170円", "残り3982円", "number"),
    ("seen 5 minutes ago", "seen 12 minutes ago", "clock"), ("at 127.0.0.1:5341", "at 127.0.0.1:4123", "number"),
    ("Bearer eyJhbGciOiJIUzI1NiJ9.abc", "Bearer eyJhbGciOiJIUzI1NiJ9.xyz", "random id"),
    ("https://x.io/a?X-Amz-Signature=1a", "https://x.io/a?X-Amz-Signature=2b", "signed URL"),
    ("https://x.io/a?sig=1", "https://x.io/a?sig=12", "signed URL"),
    ("https://x.io/ab?sig=1a", "https://x.io/ac?sig=1a", None),
    ("https://x.io/a?sig=1", "https://x.io/a?page=2", None),
    ("https://x.io/a?sig=1a 5 left", "https://x.io/a?sig=1a 6 left", "number"), ("5% off", "5.0% off", "number format"),
    ("1,000 left", "1000 left", "number format"), ("1.2.3 left", "1.2.4 left", "number"),
    ("https://x.io/a?page=1", "https://x.io/a?page=2", "number"),
    ("7 left", "70 left", "number"), ("10.11.12.13", "10.11.12.14", "number"),
    ("Stand: 03.03.26", "Stand: 04.03.26", "clock"),
    ("cost 1.20", "cost 1.2", "number format"),
    ("cch=36ee5;", "cch=abcde;", "random id"),
    ("cch=36ee5;", "cch=31234;", "random id"), ("cch=36ee5;", "cch=abcdefg;", None),
    ("as call_8f3a now", "as call_9b21c7 now", "random id"),
    ("req-77f1ab", "req-9c01de", "random id"), ("sess-k3j9", "sess-p8x2", "random id"),
    ("You run on claude-sonnet-4-5.", "You run on claude-opus-4-6.", None),
    ("Model: claude-3-5-sonnet-20241022", "Model: claude-3-opus-20240229", None),
    ("for llama-3-70b-instruct", "for mistral-8x7b-instruct", None),
    ("Acme-Client-2-14", "Acme-Client-2-15", "number"),
    ("Stand: Montag, der 22. November 2026", "Stand: Dienstag, der 23. November 2026", "clock"),
    ("lunes, 23 de noviembre de 2026", "martes, 24 de noviembre de 2026", "clock"),
    ("il est 14h05", "il est 14h06", "clock"),
    ("at 14:05 now", "at 14:05, now", None),
    ("a cat", "a cow", None),
    ("version two", "version three", None),
])  # fmt: skip
def test_what_stands_where_two_texts_part_is_a_clock_an_id_or_a_number(one, two, kind):
    assert volatile_at(one, two, shared_length(one, two)) == kind


DATES = Path(texts.__file__).with_name("patterns.txt").read_text("utf-8").strip()


@pytest.mark.parametrize(("name", "line"), [
    (name, line) for name, *lines in (section.split("\n") for section in DATES.split("\n\n")[1:]) for line in lines
])  # fmt: skip
def test_each_line_of_the_patterns_has_an_example_and_all_days_and_months_are_clocks(name, line):
    pattern, example = line.split("\t")
    assert re.fullmatch(patterns_in(f"{DATES}\n\nONE\n{pattern}")["ONE"], example)
    kinds = {"DATE": "clock", "MARK": "random id"}
    assert name not in kinds or masked(f"on {example}", kinds[name]) == "on \0"
    before, after = {"DAY": ("", ""), "SHORT": ("", ", 14:05"), "MONTH": ("23 ", ""), "BRIEF": ("Fr, 23 ", "")}.get(
        name, ("", None))  # fmt: skip
    for word in re.findall(r"[^|()\[\]?:]{3,}", pattern) if after is not None and "[" not in pattern else ():
        assert masked(f"on {before}{word}{after}!", "clock") == "on \0!"


@pytest.mark.parametrize(("one", "two"), [
    ("Es ist Donnerstag, 14:55 Uhr.", "Es ist Freitag, 09:12 Uhr."), ("Montag, der 23. Mai", "Dienstag, der 24. Mai"),
    ("Hoy es lunes.", "Hoy es martes."), ("Hoje é terça-feira", "Hoje é quarta-feira"), ("le 1er mars", "le 2 mars"),
    ("понедельник, 23 ноября", "вторник, 24 ноября"), ("в среду", "в пятницу"), ("środa, 4 marca", "czwartek, 5 marca"),
    ("23 Kasım Pazartesi", "24 Kasım Salı"), ("Oggi è lunedì", "Oggi è martedì"), ("Do, 14:55", "Fr, 14:55"),
    ("dinsdag 24 nov.", "woensdag 25 nov."), ("May 5", "May 6"), ("noviembre 2026", "diciembre 2026"),
    ("Idag är det torsdag, kl 14:55", "Idag är det fredag, kl 09:12"), ("tea time, 14:55", "lunch time, 15:05"),
])  # fmt: skip
def test_days_and_months_of_ten_languages_are_clocks_and_so_is_a_word_beside_a_clock(one, two):
    assert text_change(one, two).kind == "clock"


@pytest.mark.parametrize(("one", "two"), [
    ("the sun is out", "the mar is out"), ("a Friend came", "a Monkey came"), ("you may go", "you must go"),
    ("a set of 5", "a bag of 5"), ("So it is", "Do it is"), ("la segunda parte", "la quinta parte"),
    ("Ask Ann, who is there at 14:55", "Ask Bob, who is there at 14:55"),
    ("for Ann, then. It is now just 14:55", "for Bob, then. It is now just 15:05"),
])  # fmt: skip
def test_words_like_names_of_days_and_months_are_none(one, two):
    found = text_change(one, two)
    assert found is None or found.kind != "clock"


@pytest.mark.parametrize(
    "text", ["10 out of 12", "Do 5 more", "sept 7", "So 1.5 times", "6 may fail", "in 5 set", "Mar 5x"]
)
def test_numbers_beside_such_words_are_no_clocks(text):
    assert masked(text, "clock") == text


def test_a_change_that_does_not_explain_all_says_so():
    assert text_change("It is 14:05. Yes.", "It is 14:06. No.").whole is False
    assert text_change("It is 14:05. Yes.", "It is 14:06. Yes.").whole is True


@pytest.mark.parametrize(("one", "two", "kind"), [
    ("a, b, c", "c, a, b", "order"), ("[1, 2]", "[2, 1]", "number"),
    ('{"a": [1, 2]}', '{ "a": [1,2]}', "JSON rewritten"),
    ('{"a": 1}', '{"a": 1.0}', "number format"), ('{"a": "é"}', '{"a": "\\u00e9"}', "JSON rewritten"),
    ('{"a": 1, "b": 2}', '{"b": 2, "a": 1.0}', "number format"),
    ('{"b": "{\\"a\\": 1}"}', '{"b": "{\\"a\\":1}"}', "JSON rewritten"),
    ('["{\\"a\\": 1}"]', '["{\\"a\\":1}"]', "JSON rewritten"),
    ("a \\u00e9", "a é", "JSON rewritten"), ("a é", "a \\u00e9", "JSON rewritten"), ("\\u00e9", "è", None),
    ('{"a": "3"}', '{"a": 3}', None),
    ('{"a": "[x", "b": 1}', '{"b": 1, "a": "[x"}', "keys reordered"), ('{"a": "[x"}', '{"a": "[y"}', None),
    ('{"a": {"b": 1, "c": 2}}', '{"a": {"c": 2, "b": 1}}', "keys reordered"), ("yes", "no", None), ("", "x", None),
    ("yes!", "yes?", None), ("a \u2764\ufe0f", "a \u2764", "unicode form"), ("a b!", "a b?", None),
    ("a, b c d", "a b, c d", None),
    ("clay, cat, dog", "cat, dog, clay", "order"),
    ("Version 2026-10-01 of a", "Version 2026-11-22 of b", None), ("Version 2026-10-01", "Version 2026-11-22", None),
    ("Model: gpt-4o-mini", "Model: gpt-5-nano", "number"),
])  # fmt: skip
def test_small_changes_are_told_apart(one, two, kind):
    found = text_change(one, two)
    assert (found.kind if found else None) == kind


@pytest.mark.parametrize("mark", [*"\xad\u200b\u200f\u202a\u202e\u2060\ufe0f\ufeff"])
def test_a_character_that_nobody_sees_is_a_form_of_the_same_text(mark):
    assert text_change(f"a{mark} b", "a b").kind == "unicode form"
    assert text_change("a\N{HYPHEN} b", "a b") is None


@pytest.mark.parametrize(
    "part",
    [
        "a-",
        "1",
        "20",
        "ab ",
        "eyJa.",
        "http://a?",
        "token=",
        "0x",
        "Mon ",
        "1:",
        "12-",
        "/tmp/",
        "2026-",
        "f",
        "A:\\",
        "{",
        "\\u00",
        " ",
        " \n",
        "1,",
    ],
)
def test_a_hostile_text_is_compared_in_seconds(part):
    half = part * (LONGEST_LOOK // 2 // len(part) - 1)
    start = time.process_time()
    text_change(half + "x" + half, half + "y" + half)
    assert time.process_time() - start < 20  # far from what a regular expression that backtracks would take


def test_a_long_text_is_compared_far_around_the_place_where_it_changes():
    long, end = "a" * LONGEST_LOOK, "b" * 1000
    assert text_change(f"{long} {end}", f"{long}  {end}").kind == "white space"
    assert text_change(f"{long} {end}!", f"{long}  {end}?") is None

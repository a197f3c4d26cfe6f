"""How two texts at the same place of two prompts differ.

First come the changes that explain everything: without white space, or with every date masked, the two are equal. Then
comes the text at the first difference, and finally a comparison of their beginnings and ends.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import takewhile, zip_longest
from operator import eq
from pathlib import Path
from typing import Any, AnyStr, NamedTuple

from minikv.untrusted import parse_json, read_json

LONGEST_LOOK = 2**18  # characters: longer texts are compared around the place where they part
_LOOK = 2**16  # of them on each side
_PARTLY = "and more than that"
_FORMS = str.maketrans(read_json(Path(__file__).with_name("forms.json")))


class PromptChange(NamedTuple):
    """The kind of change between two prompts (a key of `KINDS`), and more about it: a name, a count, another change."""

    kind: str
    detail: str = ""

    @property
    def whole(self) -> bool:
        """Return whether it explains all that differs between two texts, or only where they part."""
        return self.detail != _PARTLY


def shared_length(one: AnyStr, two: AnyStr) -> int:
    """Return how many characters two texts share from the beginning.

    >>> shared_length("abcd", "abxd"), shared_length("ab", "abc")
    (2, 2)
    """
    low, high = 0, min(len(one), len(two))
    if two.startswith(one) or one.startswith(two):
        return high
    while high - low > 64:  # they share `low` characters, and not `high`
        middle = (low + high) // 2
        low, high = (middle, high) if one[low:middle] == two[low:middle] else (low, middle)
    return low + common_run(one[low:high], two[low:high])


def common_run(one: Sequence[Any], two: Sequence[Any]) -> int:
    """The number of things that two lists share from their beginning.

    >>> common_run("see", "sea")
    2
    """
    return sum(takewhile(bool, map(eq, one, two)))


def text_change(one: str, two: str) -> PromptChange | None:
    """Return the kind of change from `one` to `two`; `None` if it is an ordinary edit of the text.

    >>> text_change("Today is 2026-11-22.", "Today is 2026-11-23.")
    PromptChange(kind='clock', detail='')
    >>> text_change("a b", "a  b").kind, text_change('{"a": 1, "b": 2}', '{"b": 2, "a": 1}').kind
    ('white space', 'keys reordered')
    >>> book = "a page " * LONGEST_LOOK
    >>> text_change(f"{book} on 2026-11-22", f"{book} on 2026-11-23").kind
    'clock'
    """
    at = shared_length(one, two)
    if max(len(one), len(two)) > LONGEST_LOOK:
        begin = max(0, at - _LOOK)
        one, two, at = one[begin : at + _LOOK], two[begin : at + _LOOK], at - begin
    found = _json_change(one, two)
    for kind, normal in NORMAL.items():
        if normal(one) == normal(two):
            return found if found and kind == "white space" else PromptChange(kind)
    if (found := found or _volatile(one, two, at)) and found.whole:
        return found
    left, right = (_WORD.findall(text, max(0, at - _AROUND)) for text in (one, two))
    return PromptChange("order") if left != right and sorted(left) == sorted(right) else found


NORMAL: dict[str, Callable[[str], str]] = {
    "line ends": lambda text: text.replace("\r\n", "\n").replace("\r", "\n"),
    "white space": lambda text: "".join(text.split()),
    "unicode form": lambda text: unicodedata.normalize("NFKC", text.translate(_FORMS)),
}


def _volatile(one: str, two: str, at: int) -> PromptChange | None:
    """A clock, an id or a number: of all that differs, or where the two part."""
    here = volatile_at(one, two, at)
    if here is None or (here == "clock" and _RELEASE.search(one[max(0, at - _AROUND) : at])):
        return None
    pairs = zip_longest(one.split("\n"), two.split("\n"), fillvalue="\n")  # none goes over the end of a line
    alike = all(a == b or masked(a, *VOLATILE) == masked(b, *VOLATILE) for a, b in pairs)
    return PromptChange(here, "" if alike else _PARTLY)


def _json_change(one: str, two: str) -> PromptChange | None:
    """How two texts differ that are JSON, or nearly the same lines of it."""
    left, right = unfolded(one), unfolded(two)
    if isinstance(left, str) or isinstance(right, str):
        return PromptChange("JSON rewritten") if _unescaped(one) == _unescaped(two) else None
    for kind, sort in (("JSON rewritten", False), ("keys reordered", True)):
        if json.dumps(left, sort_keys=sort) == json.dumps(right, sort_keys=sort):
            return PromptChange(kind)
    return PromptChange("number format") if left == right else None  # Python compares 1 and 1.0 by value


def keys_moved(one: str, two: str) -> bool:
    """Return whether two texts part in the same JSON object with its keys in another order, whatever is around it.

    >>> keys_moved('Now: {"a": 1, "b": [2]}. Go.', 'Now: {"b": [2], "a": 1}. Why?')
    True
    """
    at, decode = shared_length(one, two), json.JSONDecoder().raw_decode
    for brace in re.compile("{").finditer(one, max(0, at - _LOOK), at):
        try:
            left, right = (decode(text, brace.start())[0] for text in (one, two))
        except (ValueError, RecursionError):
            continue
        return bool(left == right)
    return False


def unfolded(value: Any) -> Any:
    """A value with JSON in place of each text that spells an object or a list, as the arguments of a call do.

    >>> unfolded('{"name": "grep", "arguments": "[7]"}'), unfolded("7")
    ({'name': 'grep', 'arguments': [7]}, '7')
    """
    if isinstance(value, dict):
        return {key: unfolded(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [unfolded(inner) for inner in value]
    if isinstance(value, str) and value.lstrip().startswith(("{", "[")):
        with suppress(ValueError):
            return unfolded(parse_json(value, "it"))
    return value


def _unescaped(text: str) -> str:
    r"""A text in which `\u00e9` is read as é."""
    return re.sub(r"\\u([0-9a-fA-F]{4})", lambda found: chr(int(found[1], 16)), text)


def patterns_in(text: str) -> dict[str, str]:
    r"""Of each section of `patterns.txt`: its lines as one pattern, with those of the sections that it names.

    >>> patterns_in("DAY\nMon|Tue\tMon\nWed\tWed\n\nDATE\n<DAY> 7\tMon 7")["DATE"]
    '(?:(?:Mon|Tue|Wed) 7)'
    """
    found = dict[str, str]()
    for section in text.strip().split("\n\n"):
        name, *lines = section.split("\n")
        pattern = "|".join(line.partition("\t")[0] for line in lines)
        found[name] = f"(?:{re.sub('<([A-Z]+)>', lambda name: found[name[1]], pattern)})"
    return found


PATTERNS = patterns_in(Path(__file__).with_name("patterns.txt").read_text("utf-8"))
_CLOCK, _RELEASE, _ID, _WORD, _NUMBER, _SIGNED = (
    re.compile(PATTERNS[name]) for name in ("CLOCK", "RELEASE", "ID", "WORD", "NUMBER", "SIGNED")
)
_GROUPED = re.compile(r"(?<!(?<!\d)0)[.,](?=(?:\d\d[.,])*\d{3}(?!\d))")  # of 1.234.567 and 12,34,567
_LONGEST_ADDRESS = 4096
BESIDE = 20  # characters between two places that change for one reason
_AROUND = 200  # characters of a text that are looked at on each side of a place
VOLATILE = {"clock": _CLOCK, "random id": _ID, "number": _NUMBER}


def masked(text: str, *kinds: str) -> str:
    """`text` with a mark in place of all that looks like one of `kinds`, in their order.

    >>> masked("It is 14:05 on 2026-11-22, call_8f3a, 7 left", "clock", "random id", "number")
    'It is \\x00 on \\x00, \\x00, \\x00 left'
    """
    for kind in kinds:
        text = VOLATILE[kind].sub("\0", text)
    return text


def volatile_at(text: str, other: str, at: int) -> str | None:
    """The kind of the text in both where they differ, at character `at`, or `None`: a clock, an id, a number.

    Another word that is shortly before another clock belongs to it, such as a day of the week in any language.

    >>> volatile_at("It is 14:05.", "It is 14:06.", 10), volatile_at("a cat", "a cow", 3)
    ('clock', None)
    >>> volatile_at("torsdag kl 14:05", "fredag kl 09:12", 0)
    'clock'
    """
    if kind := _kind_at(text, other, at):
        return kind
    one, two = (re.sub(r"^\w+", "", side[at : at + _AROUND]) for side in (text, other))
    same = shared_length(one, two)
    return "clock" if same <= BESIDE and _kind_at(one, two, same) == "clock" else None


def _kind_at(text: str, other: str, at: int) -> str | None:
    if (signed := _signed(text, at)) and signed == _signed(other, at):
        return "signed URL"
    for kind, pattern in VOLATILE.items():
        one, two = _covering(pattern, text, at), _covering(pattern, other, at)
        if kind == "random id" and bool(one) != bool(two):  # an id without digits, or with nothing else
            one, two = one or _covering(_WORD, text, at), two or _covering(_WORD, other, at)
            if len(one) != len(two):
                continue
        if one and two and one != two:
            return _number_kind(one, two) if kind == "number" else kind
    return None


def _signed(text: str, at: int) -> str:
    """Return the address around character `at`, up to its query, where that is signed and has the character."""
    begin = text.rfind("http", max(0, at - _LONGEST_ADDRESS), at)
    found = _SIGNED.match(text, begin) if begin >= 0 else None
    return found[1] if found and found.end(1) < at <= found.end() else ""


def _covering(pattern: re.Pattern[str], text: str, at: int) -> str:
    """Return the match of `pattern` around character `at`, or directly before it; empty if there is none."""
    gap = "\n" if pattern is _CLOCK else " "  # which is in no match
    before = text[max(0, at - _AROUND) : at].rpartition(gap)[2]
    part = before + text[at : at + _AROUND].partition(gap)[0]
    touching = [one[0] for one in pattern.finditer(part) if one.start() <= len(before) <= one.end()]
    return touching[-1] if touching else ""


def _number_kind(*numbers: str) -> str:
    """Of two numbers in a text: the same one written differently, or another one.

    >>> _number_kind("1.250,00", "1250,00"), _number_kind("1,250", "1250.0"), _number_kind("0.125", "125")
    ('number format', 'number format', 'number')
    """
    try:
        one, two = (float(_GROUPED.sub("", number).replace(",", ".").rstrip("%")) for number in numbers)
    except ValueError:
        return "number"
    return "number format" if one == two else "number"

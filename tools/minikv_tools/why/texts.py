"""How two texts at the same place of two prompts differ.

First come the changes that explain everything: without white space, or with every date masked, the two are equal. Then
comes the text at the first difference, and finally a comparison of their beginnings and ends.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Callable, Sequence
from itertools import takewhile, zip_longest
from operator import eq
from typing import Any, AnyStr, NamedTuple

from minikv.untrusted import parse_json

LONGEST_LOOK = 2**18  # characters: longer texts are compared around the place where they part
_LOOK = 2**16  # of them on each side
_PARTLY = "and more than that"
_INVISIBLE = dict.fromkeys([0xAD, *range(0x200B, 0x2010), *range(0x202A, 0x202F), 0x2060, 0xFE0F, 0xFEFF], "")
_FORMS = _INVISIBLE | str.maketrans({"‘": "'", "’": "'", "“": '"', "”": '"', "–": "-", "—": "-", "…": "..."})


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
    if two.startswith(one) or one.startswith(two):
        return min(len(one), len(two))
    low, high = 0, min(len(one), len(two))  # they share `low` characters, and not `high`
    while high - low > 64:
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
    return PromptChange(here, "" if _alike(one, two) else _PARTLY)


def _alike(one: str, two: str) -> bool:
    """Whether two texts are equal without clocks, ids and numbers, none of which goes over the end of a line."""
    pairs = zip_longest(one.split("\n"), two.split("\n"), fillvalue="\n")
    return all(a == b or masked(a, *_PATTERNS) == masked(b, *_PATTERNS) for a, b in pairs)


def _json_change(one: str, two: str) -> PromptChange | None:
    """How two texts differ that are JSON, or nearly the same lines of it."""
    try:  # a number or a word by itself is text
        left, right = (_unfolded(parse_json(text * (text.lstrip()[:1] in "{["), "it")) for text in (one, two))
    except ValueError:
        return _escapes(one, two)
    for kind, sort in (("JSON rewritten", False), ("keys reordered", True)):
        if json.dumps(left, sort_keys=sort) == json.dumps(right, sort_keys=sort):
            return PromptChange(kind)
    return PromptChange("number format") if left == right else None  # Python compares 1 and 1.0 by value


def _unfolded(value: Any) -> Any:
    """A value with JSON in place of each text in it that spells JSON, as the arguments of a call do."""
    if isinstance(value, dict):
        return {key: _unfolded(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_unfolded(inner) for inner in value]
    if isinstance(value, str) and value.lstrip()[:1] in ("{", "["):
        try:
            return parse_json(value, "it")
        except ValueError:
            return value
    return value


def _escapes(one: str, two: str) -> PromptChange | None:
    r"""Return whether two texts are equal once `\u00e9` is read as é."""
    plain = [re.sub(r"\\u([0-9a-fA-F]{4})", lambda found: chr(int(found[1], 16)), text) for text in (one, two)]
    return PromptChange("JSON rewritten") if plain[0] == plain[1] else None


_MONTH = r"(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[a-z]{0,6}\.?"
_DAY = r"(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]{0,6}"
_TIME = r"(?<![\d.])\d{1,2}[:：]\d{2}(?!\d)(?:[:：]\d{2}(?:[.,]\d{1,9})?)?(?: ?[AaPp]\.?[Mm]\b\.?)?"
_ZONE = r"(?: ?(?:Z\b|UTC|GMT|[+-]\d{2}:?\d{2}))?"
_HALF = "(?:上午|下午|午前|午後|오전|오후)"
_BAR = r"\u200f?[-/.] ?"
_LETTER = r"[^\s\d!-/:-@\[-`{-~]"  # of any script: its vowels may be marks
_CJK = (  # 2026年3月12日 14時05分, of which a part may stand alone
    rf"(?:{_HALF} ?)?(?:[\d〇零一二三四五六七八九十]{{1,4}} ?[年月日号號時时点點分秒년월일시분초] ?){{2,6}}",
    r"\d{4} ?[年년]|\d{1,2} ?[月時时월시](?![間间간])",
    rf"{_HALF} ?\d{{1,2}}(?:[:：]\d{{2}})?",
    r"(?:星期|礼拜|[周週])[一二三四五六日天]|[日月火水木金土]曜|[일월화수목금토]요일",
)
_DATES = (
    rf"\d{{4}}{_BAR}\d{{1,2}}{_BAR}\d{{1,2}}(?:[T ,]{{1,2}}{_TIME}{_ZONE})?",  # 2026-11-22T14:05:07Z
    rf"(?:{_DAY},? )?\d{{1,2}}(?:st|nd|rd|th)? {_MONTH},? \d{{4}}(?:[ ,]{{1,2}}{_TIME}{_ZONE})?",  # 22 Nov 2026 14:05
    rf"(?:{_DAY},? )?{_MONTH} \d{{1,2}}(?:st|nd|rd|th)?,? \d{{4}}(?:,? (?:at )?{_TIME}{_ZONE})?",  # November 22, 2026
    rf"(?:{_DAY} )?{_MONTH} \d{{1,2}} {_TIME}{_ZONE}(?: \d{{4}})?",  # Sun Nov 22 14:05:07 2026
    rf"(?:\d{{1,2}}{_BAR}\d{{1,2}}{_BAR}\d{{4}}|(?<![\d.])(?:\d{{2}}[./]){{2}}\d{{2}}(?!\.?\d))(?:,? {_TIME})?",
    rf"(?=[^\0-/:-~])(?:{'|'.join(_CJK)})",
    _TIME + _ZONE,
    r"\b1[5-9]\d{8}(?:\d{3}|\d{6}|\d{9})?(?:\.\d+)?\b",  # seconds since 1970, or milli-, micro-, nanoseconds
    rf"\b{_DAY}\b",
    r"\b(?:morning|afternoon|evening|night)\b",
    r"\b(?:19|20)\d{2}(?:0[1-9]|1[0-2])(?:0[1-9]|[12]\d|3[01])(?:T?\d{4,6}Z?)?\b",  # 20261122T140507Z
    r"\b\d{4}-?W\d{1,2}\b",
    rf"\b(?:{_MONTH}|Q[1-4]) (?:19|20)\d{{2}}\b",
    rf"(?:\b{_LETTER}{{3,12}},? (?:{_LETTER}{{2,3}} )?)?\b\d{{1,2}}\.?(?: {_LETTER}{{2,3}})? {_LETTER}{{3,12}}\.?"
    rf"(?: \d{{1,2}})?(?: {_LETTER}{{2,3}})?,? (?:(?:19|20|25)\d{{2}}|[^\D0-9]\d{{3}})\b",  # in any language
    r"\b\d{1,2}(?: ?h ?\d{2}\b|(?:[.:]\d{2})? Uhr\b)",
    r"\b\d{1,6} (?:second|minute|hour|day|week)s? ago\b",
)
_CLOCK = re.compile(rf"(?!\B[a-z]|[\s!-/:-@\[-`{{-~])(?:{'|'.join(_DATES)})")
_TIMED = re.compile(r"[^\0-/:-~]|Mon|Tue|Wed|Thu|Fri|Sat|Sun|morning|afternoon|evening|night")  # in each of them
_RELEASE = re.compile(r"(?i:\b(?:version|revised|effective|released?|edition)\b\W{0,3}[\w.: -]{0,16}$)")
_NAME = (  # claude-3-5-sonnet-20241022, gpt-4o-mini: words and short numbers, which are no random id
    r"[a-z]{1,16}\d?(?:[_-](?:[a-z]{1,16}|(?:[a-z]|\d{1,2}x)?\d{1,3}[a-z]?|20\d{6})){1,8}(?![\w-])"
)
_ID = re.compile(
    r"(?=\b|[/A-Z])(?:(?i:\b[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}\b)"  # a uuid
    r"|(?i:\b0x[0-9a-f]{4,16}\b)"  # an address
    r"|\beyJ[\w-]{8,512}(?:\.[\w-]{1,2048}){1,2}"  # a signed token
    r"|(?:/tmp|/var/folders|/private/var|[A-Z]:\\[^ \n]{0,100}\\Temp)[/\\][\w./\\+-]{1,200}"  # a temporary path
    r"|(?i:\b(?=[a-f]{0,64}\d)(?=\d{0,64}[a-f])[0-9a-f]{5,64}\b)"  # a hash
    rf"|(?i:(?<!\w-)\b(?=[a-z_-]{{0,64}}\d)(?!{_NAME})"
    r"(?:(?:[a-z]{2,12}[_-]){1,4}(?=[a-z]{0,64}\d)[0-9a-z]{4,64}\b"  # call_8f3a, toolu_01AbC, req-77f1
    r"|(?=[\d_-]{0,64}[a-z])[0-9a-z][0-9a-z_-]{7,127})))"  # letters and digits
)
_WORD = re.compile(r"\w+")
_NUMBER = re.compile(r"[-+]?\d+(?:[.,]\d+)*(?:[eE][-+]?\d+)?%?")
_GROUPED = re.compile(r"(?<!(?<!\d)0)[.,](?=\d{3}(?!\d))")  # of 1,234 and 1.234.567, and not of 0.125
_SIGNED = re.compile(
    r"(https?://[^\s?\"<>)]{1,2048})\?[^\s\"<>)]*(?i:signature|sig=|token|expires|credential)[^\s\"<>)]*"
)
_LONGEST_ADDRESS = 4096
_AROUND = 200  # characters of a text that are looked at on each side of a place
_PATTERNS = {"clock": _CLOCK, "random id": _ID, "number": _NUMBER}


def masked(text: str, *kinds: str) -> str:
    """`text` with a mark in place of all that looks like one of `kinds`, in their order.

    >>> masked("It is 14:05 on 2026-11-22, call_8f3a, 7 left", "clock", "random id", "number")
    'It is \\x00 on \\x00, \\x00, \\x00 left'
    """
    for kind in kinds:
        text = _PATTERNS[kind].sub("\0", text)
    return text


def volatile_at(text: str, other: str, at: int) -> str | None:
    """The kind of the text in both where they differ, at character `at`, or `None`: a clock, an id, a number.

    >>> volatile_at("It is 14:05.", "It is 14:06.", 10), volatile_at("a cat", "a cow", 3)
    ('clock', None)
    """
    if (signed := _signed(text, at)) and signed == _signed(other, at):
        return "signed URL"
    for kind, pattern in _PATTERNS.items():
        found = _covering(pattern, text, at), _covering(pattern, other, at)
        if kind == "random id" and any(found) and not all(found):
            found = found[0] or _covering(_WORD, text, at), found[1] or _covering(_WORD, other, at)
            found = found if len(found[0]) == len(found[1]) else ("", "")  # an id without digits, or with nothing else
        if all(found) and found[0] != found[1]:
            return _number_kind(*found) if kind == "number" else kind
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
    found = pattern.finditer(part) if pattern is not _CLOCK or _TIMED.search(part) else ()
    touching = [one[0] for one in found if one.start() <= len(before) <= one.end()]
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

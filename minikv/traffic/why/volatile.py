"""What changes from request to request by itself: clocks, random ids, numbers. Found in a text by how it looks."""

from __future__ import annotations

import re

_MONTH = r"(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[a-z]{0,6}\.?"
_DAY = r"(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]{0,6}"
_TIME = r"\d{1,2}:\d{2}(?::\d{2}(?:[.,]\d{1,9})?)?(?: ?[AaPp]\.?[Mm]\b\.?)?"
_ZONE = r"(?: ?(?:Z\b|UTC|GMT|[+-]\d{2}:?\d{2}))?"
_DATES = (
    rf"\d{{4}}[-/.]\d{{1,2}}[-/.]\d{{1,2}}(?:[T ,]{{1,2}}{_TIME}{_ZONE})?",  # 2026-11-22T14:05:07Z
    rf"(?:{_DAY},? )?\d{{1,2}}(?:st|nd|rd|th)? {_MONTH},? \d{{4}}(?:[ ,]{{1,2}}{_TIME}{_ZONE})?",  # 22 Nov 2026 14:05
    rf"(?:{_DAY},? )?{_MONTH} \d{{1,2}}(?:st|nd|rd|th)?,? \d{{4}}(?:,? (?:at )?{_TIME}{_ZONE})?",  # November 22, 2026
    rf"(?:{_DAY} )?{_MONTH} \d{{1,2}} {_TIME}{_ZONE}(?: \d{{4}})?",  # Sun Nov 22 14:05:07 2026
    r"\d{1,2}[./]\d{1,2}[./]\d{4}(?:,? " + _TIME + ")?",
    r"\d{4}年\d{1,2}月\d{1,2}日(?: ?" + _TIME + ")?",
    _TIME + _ZONE,
    r"\b1[5-9]\d{8}(?:\d{3}|\d{6}|\d{9})?(?:\.\d+)?\b",  # seconds since 1970, or milli-, micro-, nanoseconds
    rf"\b{_DAY}\b",
    r"\b(?:morning|afternoon|evening|night)\b",
)
_CLOCK = re.compile("|".join(f"(?:{pattern})" for pattern in _DATES))
_ID = re.compile(
    r"(?i:\b[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}\b)"  # a uuid
    r"|(?i:\b0x[0-9a-f]{4,16}\b)"  # an address
    r"|(?:/tmp|/var/folders|/private/var|[A-Z]:\\[^ ]{0,100}\\Temp)[/\\][\w./\\+-]{1,200}"  # a temporary path
    r"|(?i:\b(?:[a-z]{2,12}[_-]){1,4}(?=[a-z]{0,64}\d)[0-9a-z]{4,64}\b)"  # call_8f3a, toolu_01AbC, req-77f1
    r"|(?i:\b(?=[a-f]{0,64}\d)(?=\d{0,64}[a-f])[0-9a-f]{5,64}\b)"  # a hash
    r"|(?i:\b(?=[a-z_-]{0,64}\d)(?=[\d_-]{0,64}[a-z])[0-9a-z][0-9a-z_-]{7,127})"  # letters and digits
)
_WORD = re.compile(r"\w+")
_NUMBER = re.compile(r"[-+]?\d+(?:[.,]\d+)*(?:[eE][-+]?\d+)?%?")
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
    """The kind of what stands in both texts where they part, at character `at`, or `None`: a clock, an id, a number.

    >>> volatile_at("It is 14:05.", "It is 14:06.", 10), volatile_at("a cat", "a cow", 3)
    ('clock', None)
    """
    begin = max(0, at - _AROUND)
    one, two = (side[begin : at + _AROUND] for side in (text, other))
    for kind, pattern in _PATTERNS.items():
        found = _covering(pattern, one, at - begin), _covering(pattern, two, at - begin)
        if kind == "random id" and any(found) and not all(found):
            found = found[0] or _covering(_WORD, one, at - begin), found[1] or _covering(_WORD, two, at - begin)
            found = found if len(found[0]) == len(found[1]) else ("", "")  # an id without digits, or with nothing else
        if all(found) and found[0] != found[1]:
            return _number_kind(*found) if kind == "number" else kind
    return None


def _covering(pattern: re.Pattern[str], text: str, at: int) -> str:
    """What `pattern` matches around character `at`, or directly before it; empty if nothing."""
    touching = [found for found in pattern.finditer(text) if found.start() <= at <= found.end()]
    return touching[-1][0] if touching else ""


def _number_kind(*numbers: str) -> str:
    """Of two numbers in a text: the same one written differently, or another one."""
    try:
        one, two = (float(number.replace(",", "").rstrip("%")) for number in numbers)
    except ValueError:
        return "number"
    return "number format" if one == two else "number"

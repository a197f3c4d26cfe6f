"""Two texts that stand at the same place of two prompts: in what do they differ?

First the changes that explain everything: without white space, or with every date masked, the two are equal. Then what
stands at the place where they part, and at last what a comparison of their beginnings and ends says.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Callable
from typing import Any, AnyStr, NamedTuple

from minikv.traffic.why.volatile import masked, volatile_at
from minikv.untrusted import parse_json

LONGEST_LOOK = 2**18  # characters: longer texts are compared around the place where they part
_AROUND = 2**16
_INVISIBLE = dict.fromkeys(
    [0xAD, 0x200B, 0x200C, 0x200D, 0x2060, 0xFEFF, *range(0x200E, 0x2010), *range(0x202A, 0x202F)]
)
_QUOTES = str.maketrans({"‘": "'", "’": "'", "“": '"', "”": '"', "–": "-", "—": "-", "…": "...", "\u00a0": " "})


class TextChange(NamedTuple):
    """The kind of change between two texts, and whether it explains all that differs or only where they part."""

    kind: str
    whole: bool = True


def shared_length(one: AnyStr, two: AnyStr) -> int:
    """How many characters two texts share from the beginning.

    >>> shared_length("abcd", "abxd"), shared_length("ab", "abc")
    (2, 2)
    """
    if two.startswith(one) or one.startswith(two):
        return min(len(one), len(two))
    low, high = 0, min(len(one), len(two))  # they share `low` characters, and not `high`
    while high - low > 64:
        middle = (low + high) // 2
        low, high = (middle, high) if one[low:middle] == two[low:middle] else (low, middle)
    return next((at for at in range(low, high) if one[at] != two[at]), high)


def text_change(one: str, two: str) -> TextChange | None:
    """What kind of change made `two` of `one`; `None` where it is an edit of the text like any other.

    >>> text_change("Today is 2026-11-22.", "Today is 2026-11-23.")
    TextChange(kind='clock', whole=True)
    >>> text_change("a b", "a  b").kind, text_change('{"a": 1, "b": 2}', '{"b": 2, "a": 1}').kind
    ('white space', 'keys reordered')
    """
    at = shared_length(one, two)
    if max(len(one), len(two)) > LONGEST_LOOK:
        begin = max(0, at - _AROUND)
        one, two, at = one[begin : at + _AROUND], two[begin : at + _AROUND], at - begin
    found = _json_change(one, two)
    for kind, normal in _NORMAL.items():
        if normal(one) == normal(two):
            return found if found and kind == "white space" else TextChange(kind)
    if (found := found or _volatile(one, two, at)) and found.whole:
        return found
    words = [sorted(re.findall(r"\w+", text)) for text in (one[at:], two[at:])]
    return TextChange("order") if words[0] == words[1] and len(words[0]) > 1 else found


def _trailing(text: str) -> str:
    return "\n".join(line.rstrip(" \t") for line in text.split("\n")).rstrip()


def _no_space(text: str) -> str:
    return "".join(text.split())


def _one_form(text: str) -> str:
    return unicodedata.normalize("NFKC", text.translate(_QUOTES))


_NORMAL: dict[str, Callable[[str], str]] = {
    "byte order mark": lambda text: text.replace("\ufeff", ""),
    "line ends": lambda text: text.replace("\r\n", "\n").replace("\r", "\n"),
    "trailing white space": _trailing,
    "white space": _no_space,
    "invisible characters": lambda text: text.translate(_INVISIBLE),
    "unicode form": _one_form,
    "letter case": str.casefold,
}


def _volatile(one: str, two: str, at: int) -> TextChange | None:
    """A clock, an id or a number: of all that differs, or where the two part."""
    here = volatile_at(one, two, at)
    if here is None:
        return None
    whole = masked(one, "clock", "random id", "number") == masked(two, "clock", "random id", "number")
    return TextChange(here, whole)


def _json_change(one: str, two: str) -> TextChange | None:
    """How two texts differ that are JSON, or nearly the same lines of it."""
    if not (one.lstrip()[:1] in ("{", "[") and two.lstrip()[:1] in ("{", "[")):
        return _escapes(one, two)
    try:
        left, right = _unfolded(parse_json(one, "it")), _unfolded(parse_json(two, "it"))
    except ValueError:
        return _escapes(one, two)
    if _spelled(left, False) == _spelled(right, False):
        return TextChange("JSON rewritten")
    if _spelled(left, True) == _spelled(right, True):
        return TextChange("keys reordered")
    if left == right:  # Python compares 1 and 1.0 by value
        return TextChange("number format")
    return None


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


def _escapes(one: str, two: str) -> TextChange | None:
    r"""Whether two texts are equal once `\u00e9` is read as é."""
    if "\\" in one or "\\" in two:
        plain = [re.sub(r"\\u([0-9a-fA-F]{4})", lambda found: chr(int(found[1], 16)), text) for text in (one, two)]
        return TextChange("JSON rewritten") if plain[0] == plain[1] else None
    return None


def _spelled(value: Any, sort: bool) -> str:
    return json.dumps(value, sort_keys=sort)

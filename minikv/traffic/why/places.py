"""Where two prompts part: the first character that differs, and the place of it in each of the two bodies."""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from itertools import accumulate
from typing import NamedTuple

from minikv.traffic.bodies import Body, Place, bounded_name

_FAR = 2**20  # characters into a JSON text up to which a key is looked for
_BEFORE, _AFTER = 36, 44  # characters that are shown of a text around a place


class Spot(NamedTuple):
    """A place of a prompt to the character: how many characters of the field stand before it, and what is around it."""

    place: Place
    at: int
    before: str
    after: str
    key: str = ""  # of JSON: the path of the value there

    def __str__(self) -> str:
        key = f", {self.key}" if self.key else ""
        return f"{self.place}{key}, after {self.at:,} character{'' if self.at == 1 else 's'}"


def spot_at(body: Body, at: int, text: str | None = None) -> Spot | None:
    """The place of character `at` of a body's prompt, or `None` at its end; `text` is the prompt, where it is known.

    >>> from minikv.traffic.bodies import read_body
    >>> print(spot_at(read_body({"messages": [{"role": "user", "content": "It is 14:05"}]}), 26))
    messages[0] (user), content, after 9 characters
    """
    ends = list(accumulate(len(piece.text) for piece in body.pieces))
    number = bisect_right(ends, at)
    if number == len(ends):
        return None
    piece, begin = body.pieces[number], ends[number] - len(body.pieces[number].text)
    text = body.text if text is None else text
    before, after = text[max(0, at - _BEFORE) : at], text[at : at + _AFTER]
    return Spot(piece.place, at - begin, before, after, json_key(piece.text, at - begin))


_STRING = re.compile(r'"(?:[^"\\]|\\.)*"?')


def json_key(text: str, at: int) -> str:
    """The path of the value at character `at` of a JSON text, such as `a.b[2]`; empty if `text` is not an object.

    >>> json_key('{"name": "f", "parameters": {"type": "object"}}', 38)
    'parameters.type'
    """
    if not text.startswith("{") or at > _FAR:
        return ""
    path: list[str | int] = []
    last, position = "", 0
    while position < min(at, len(text)):
        character = text[position]
        if character == '"':
            found = _STRING.match(text, position)
            end = found.end() if found else position + 1
            last, position = text[position + 1 : end - 1], end
            continue
        _step(path, character, last)
        position += 1
    shown = (f"[{key}]" if isinstance(key, int) else f".{bounded_name(key)}" for key in path if key != "")
    return "".join(shown).lstrip(".")


def _step(path: list[str | int], character: str, last: str) -> None:
    """Follow one character outside of a string: it opens or closes a value, names its key, or leads to the next one."""
    if character in "{[":
        path.append("" if character == "{" else 0)
    elif character in "}]" and path:
        path.pop()
    elif character == ":" and path:
        path[-1] = last
    elif character == "," and path:
        key = path[-1]
        path[-1] = key + 1 if isinstance(key, int) else ""


def shown_text(text: str) -> str:
    r"""`text` in one line: control characters, combining and invisible ones are spelled out.

    >>> print(shown_text("a\tb\u200bc e\u0301 d  "))
    a\tb\u200bc e\u0301 d··
    """
    shown = "".join(
        c if c.isprintable() and not unicodedata.combining(c) else c.encode("unicode_escape", "replace").decode()
        for c in text
    )
    kept = shown.rstrip(" ")
    return kept + "·" * (len(shown) - len(kept))


def shown_before(spot: Spot | None) -> str:
    """What both prompts hold in front of a place, in one line; it begins with … where it is cut."""
    return "" if spot is None else ("…" if len(spot.before) == _BEFORE else "") + shown_text(spot.before)


def shown_after(spot: Spot | None) -> str:
    """What one prompt holds behind a place, in one line; it ends in … where it is cut."""
    return "(its end)" if spot is None else shown_text(spot.after) + ("…" if len(spot.after) == _AFTER else "")

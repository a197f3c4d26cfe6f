"""What a `tokenizer.json` may ask for: no text that grows without bound, no pattern that backtracks for hours.

The `tokenizers` library runs what the file says: replacements, one after the other, and regular expressions in an
engine that backtracks. Real tokenizers need neither a text 100 times as long nor a pattern such as `(a+)+$`, which
tries every way to cut the text. So a file that has one is refused before it runs. A pattern must follow two rules:

    what is repeated has one length and no alternatives            not (a+)+  (a|b)*  (a?){9}
    in an alternative, a part that may fail may follow at most     not a*b*c  a+b+c
    one repetition without bound                                   but a*b+  a+b*  a+b

By the second rule, matching from one place takes at most a few steps for each character of the rest.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator, Mapping
from math import prod
from typing import Any, NamedTuple

from minikv.errors import bounded

_PARTS = ("normalizer", "pre_tokenizer", "post_processor", "decoder")
_MOST_ENTRIES = 64  # in a list of parts
_MOST_GROWTH = 64  # of a text, by all replacements together
_LONGEST_PATTERN = 4096  # characters
_MOST_COPIES = 1000  # of what is repeated so many times
_MOST_WAYS = 256  # in which repetitions with a bound come out
_MOST_RETRIES = 6  # times that the rest of a text is tried from one place: the pattern of GPT-4o needs all of them


def check_tokenizer(settings: Mapping[str, Any]) -> None:
    """Raise `ValueError` if a `tokenizer.json` asks for work that is out of proportion to the text.

    >>> check_tokenizer({"pre_tokenizer": {"type": "Split", "pattern": {"Regex": "(a+)+$"}}})
    Traceback (most recent call last):
    ValueError: the pattern '(a+)+$' repeats what has more than one length
    """
    model = settings.get("model")
    if isinstance(model, dict) and model.get("dropout"):
        raise ValueError(f"dropout is {bounded(model['dropout'])}: expected none, so that equal texts are cut equally")
    if isinstance(model, dict) and model.get("merges") and model.get("continuing_subword_prefix"):
        raise ValueError("the model has merges and a continuing_subword_prefix: expected one of the two")
    retries = 0
    for name in _PARTS:
        parts = list(_objects(settings.get(name)))
        if (growth := prod(_growth(part) for part in parts)) > _MOST_GROWTH:
            raise ValueError(f"the {name} may make a text {bounded(growth)} times as long: expected {_MOST_GROWTH}")
        for part in parts:
            if isinstance(part.get("Regex"), str):
                retries += check_pattern(part["Regex"])
            if part.get("type") == "Precompiled":
                _check_charsmap(part.get("precompiled_charsmap"))
            if part.get("length") == 0:
                raise ValueError(f"a part of the {name} has length 0: expected at least 1")
    if retries > 2 * _MOST_RETRIES:
        raise ValueError(f"the patterns may try the rest of a text {retries} times: at most {2 * _MOST_RETRIES}")


def _objects(value: Any) -> Iterator[dict[str, Any]]:
    """All objects in `value`, at any depth; `ValueError` for a list that is too long for parts."""
    left = [value]
    while left:
        value = left.pop()
        if isinstance(value, dict):
            yield value
            left.extend(value.values())
        elif isinstance(value, list):
            if len(value) > _MOST_ENTRIES and any(isinstance(entry, (dict, list)) for entry in value):
                raise ValueError(f"a part of the tokenizer lists {len(value)} others: expected at most {_MOST_ENTRIES}")
            left.extend(value)


def _growth(part: Mapping[str, Any]) -> int:
    """How many times as long one part can make a text, for the parts that choose that themselves."""
    texts = [part[key] for key in ("content", "prepend") if isinstance(part.get(key), str)]
    pieces = part["single"] if isinstance(part.get("single"), list) else []
    copies = sum("Sequence" in piece for piece in pieces if isinstance(piece, dict))
    return max(1, copies, *map(len, texts))


def _check_charsmap(text: Any) -> None:
    """Refuse a SentencePiece map of characters that is cut off or writes long texts: first a trie, with its size."""
    if not isinstance(text, str):
        raise ValueError(f"precompiled_charsmap is {bounded(text)}: expected text")
    content = base64.b64decode(text, validate=True)
    end = 4 + int.from_bytes(content[:4], "little")
    if end % 4 or not 4 < end <= len(content) or max(map(len, content[end:].split(b"\0"))) > _MOST_GROWTH:
        raise ValueError(f"precompiled_charsmap is {bounded(text)}: expected a trie and texts of a few characters")
    content[end:].decode("utf-8")


class _Part(NamedTuple):
    """What matters of a part of a pattern."""

    copies: int = 0  # characters that it matches at least, if they were written out
    varies: bool = False  # it has more than one length, or alternatives
    fails: bool = False  # it does not match everywhere
    open: int = 0  # repetitions without bound behind which nothing may fail as yet
    rank: int = 0  # those behind which something may fail
    retries: int = 0  # the same, of all alternatives together and in all ways
    ways: int = 1  # in which its repetitions with a bound come out


_CHARACTER = _Part(copies=1, fails=True)


def check_pattern(pattern: str) -> int:
    """How often `pattern` may try the rest of a text from one place; `ValueError` if that is too often.

    A pattern that is written too oddly to tell is refused as well.

    >>> check_pattern(r"\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+")
    2
    >>> check_pattern("a*[ab]*c")
    Traceback (most recent call last):
    ValueError: the pattern 'a*[ab]*c' tries again and again where a part fails
    """
    if len(pattern) > _LONGEST_PATTERN:
        raise ValueError(f"the pattern {bounded(pattern)} has {len(pattern)} characters: at most {_LONGEST_PATTERN}")
    try:
        found = _Reader(pattern).read()
    except (_Odd, RecursionError) as error:
        raise ValueError(f"the pattern {bounded(pattern)} {error}") from None
    if found.rank > 1 or found.retries > _MOST_RETRIES or found.ways > _MOST_WAYS:
        raise ValueError(f"the pattern {bounded(pattern)} tries again and again where a part fails")
    return found.retries


class _Odd(Exception):
    """What is wrong with a pattern."""


class _Reader:
    """Reads a pattern in Oniguruma's syntax, as far as tokenizers use it, and adds up what matters."""

    _GROUP = re.compile(r"\((\?(?:[:=!>]|<[=!]|<\w+>|[im]*(?:-[im]+)?[:)]))?")
    _QUANTIFIER = re.compile(r"([*+?]|\{(\d{1,4})(,?)(\d{0,4})\})")
    _ATOM = re.compile(r"\\[pP]\{\^?\w+\}|\\x\{\w{1,6}\}|\\[^1-9gkKXGQ]|[^\\]", re.DOTALL)
    _BRACKET = re.compile(r"\[\^?|\]|\[:\^?\w+:\]|\\[pP]\{\^?\w+\}|\\.|[^\\]", re.DOTALL)

    def __init__(self, pattern: str):
        self._pattern, self._at = pattern, 0

    def read(self) -> _Part:
        """The whole pattern."""
        found = self._alternatives()
        if self._at < len(self._pattern):
            raise _Odd("has a parenthesis too many")
        return found

    def _next(self, kind: re.Pattern[str]) -> re.Match[str] | None:
        found = kind.match(self._pattern, self._at)
        self._at = found.end() if found else self._at
        return found

    def _peek(self) -> str:
        return self._pattern[self._at : self._at + 1]

    def _alternatives(self) -> _Part:
        parts = [self._sequence()]
        while self._peek() == "|":
            self._at += 1
            parts.append(self._sequence())
        most = [max(values) for values in zip(*parts)]
        found = _Part(*most)._replace(retries=sum(part.retries * part.ways for part in parts))
        return found._replace(varies=True) if len(parts) > 1 else found

    def _sequence(self) -> _Part:
        found = _Part()
        while self._peek() not in ("", "|", ")"):
            part = self._repeated(self._one())
            done = found.open if part.fails else 0
            found = _Part(
                copies=found.copies + part.copies,
                varies=found.varies or part.varies,
                fails=found.fails or part.fails,
                open=found.open - done + part.open,
                rank=found.rank + done + part.rank,
                retries=found.retries + done + part.retries,
                ways=found.ways * part.ways,
            )
        return found

    def _one(self) -> _Part:
        """One character, class, place or group."""
        if self._peek() == "(":
            return self._group()
        if self._peek() == "[":
            return self._class()
        if self._QUANTIFIER.match(self._pattern, self._at) or not (found := self._next(self._ATOM)):
            raise _Odd(f"has {bounded(self._pattern[self._at : self._at + 2])} where tokenizers have none")
        return _Part(fails=True) if found[0] in ("^", "$", "\\b", "\\B", "\\A", "\\z", "\\Z") else _CHARACTER

    def _group(self) -> _Part:
        found = self._next(self._GROUP)
        kind = found[1] if found else None
        if self._peek() in ("?", "*") or not found:
            raise _Odd("has a group that tokenizers have no need of")
        if kind and kind.endswith(")"):  # flags
            return _Part()
        inner = self._alternatives()
        if self._peek() != ")":
            raise _Odd("has a parenthesis that does not close")
        self._at += 1
        if kind in ("?=", "?!", "?<=", "?<!"):
            return inner._replace(copies=0, fails=True, open=0)
        return inner

    def _class(self) -> _Part:
        depth, begin = 0, self._at
        while depth or self._at == begin:
            found = self._next(self._BRACKET)
            if not found or (found[0].startswith("[") and self._peek() == "]"):
                raise _Odd("has a character class that does not close")
            depth += {"[": 1, "[^": 1, "]": -1}.get(found[0], 0)
        return _CHARACTER

    def _repeated(self, part: _Part) -> _Part:
        """`part` with the quantifier behind it, if there is one."""
        found = self._next(self._QUANTIFIER)
        if not found:
            return part
        self._at += not found[2] and self._peek() in ("?", "+") and self._peek() != ""  # lazy, or possessive
        if self._QUANTIFIER.match(self._pattern, self._at):
            raise _Odd("repeats a repetition")
        least = int(found[2] or found[1] == "+")
        most = {"*": None, "+": None, "?": 1}.get(found[1], int(found[4]) if found[4] else least)
        if found[3] and not found[4]:
            most = None
        return _times(part, least, most)


def _times(part: _Part, least: int, most: int | None) -> _Part:
    """`part` repeated `least` to `most` times, without bound where `most` is None."""
    if most != 1 and part.varies:
        raise _Odd("repeats what has more than one length")
    if part.copies * max(least, most or 1) > _MOST_COPIES or (most or least) < least:
        raise _Odd("repeats too much")
    fails = part.fails and least > 0
    if most is None or (most > least and most > 9):
        return part._replace(varies=True, fails=fails, open=part.open + 1)
    varies = part.varies or least < most
    return part._replace(copies=part.copies * most, varies=varies, fails=fails, ways=part.ways * (most - least + 1))

"""What a `tokenizer.json` may ask for: no text that grows without bound, no pattern that backtracks for hours.

The `tokenizers` library runs what the file says: replacements, one after the other, and regular expressions in an
engine that backtracks. Real tokenizers need neither a text 100 times as long nor a pattern such as `(a+)+$`, which
tries every way to cut the text. So a file that has one is refused before it runs. A pattern must follow two rules:

    what is repeated has one length and no alternatives            not (a+)+  (a|b)*  (a?){9}
    in an alternative, a part that may fail may follow at most     not a*b*c  a+b+c
    one repetition without bound                                   but a*b+  a+b*  a+b

By the second rule, matching from one place takes at most a few steps for each character of the rest. From all places
together that is a square of the text's length, so what runs before a pattern may not make the text much longer. The
same holds for the model: Unigram and WordPiece try at each place as many pieces as their longest one has characters.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from minikv.errors import bounded

_MOST_ENTRIES = 64  # in a list of parts
_MOST_GROWTH = 64  # of a text, by all parts together
_GROWTH_OF = {"NFC": 3, "NFD": 4, "NFKC": 18, "NFKD": 18, "BertNormalizer": 3, "ByteLevel": 4,
              "handle_chinese_chars": 3, "trim_offsets": 4}  # by type, or by a field that tells the type  # fmt: skip
_LONGEST_PIECE = 512  # characters
_MOST_PIECES = 2048  # that are tried at a place of the text, for each character that it had at first
_LONGEST_PATTERN = 4096  # characters
_MOST_COPIES = 1000  # of what is repeated so many times
_MOST_WAYS = 256  # in which repetitions with a bound come out
_MOST_RETRIES = 6  # times that the rest of a text is tried from one place: the pattern of GPT-4o needs all of them
_MOST_WORK = 3 * _MOST_RETRIES  # by all patterns, each retry as often as the square of the text's growth


def check_tokenizer(settings: Mapping[str, Any]) -> None:
    """Raise `ValueError` if a `tokenizer.json` asks for work that is out of proportion to the text.

    >>> check_tokenizer({"pre_tokenizer": {"type": "Split", "pattern": {"Regex": "(a+)+$"}}})
    Traceback (most recent call last):
    ValueError: the pattern '(a+)+$' repeats what has more than one length
    """
    growth = _check_parts(settings, "normalizer", "pre_tokenizer")  # the one works on what the other writes
    for name in ("post_processor", "decoder"):
        _check_parts(settings, name)
    if isinstance(model := settings.get("model"), dict):
        _check_model(model, growth)


def _check_model(model: Mapping[str, Any], growth: int) -> None:
    """Refuse a model that cuts equal texts differently, or that looks far ahead in a text that has grown."""
    if model.get("dropout"):
        raise ValueError(f"dropout is {bounded(model['dropout'])}: expected none, so that equal texts are cut equally")
    if model.get("merges") and model.get("continuing_subword_prefix"):
        raise ValueError("the model has merges and a continuing_subword_prefix: expected one of the two")
    looks, pieces = model.get("max_input_chars_per_word"), model.get("vocab")
    longest = {"max_input_chars_per_word": looks if isinstance(looks, int) else 0}
    if isinstance(pieces, list):  # of Unigram
        texts = [entry[0] for entry in pieces if isinstance(entry, list) and entry]
        longest["the longest piece"] = max((len(text) for text in texts if isinstance(text, str)), default=0)
    for name, size in longest.items():
        if size > (most := min(_LONGEST_PIECE, _MOST_PIECES // growth)):
            raise ValueError(f"{name} is {bounded(size)} characters: expected at most {most}")


def _check_parts(settings: Mapping[str, Any], *names: str) -> int:
    """How many times as long the parts `names` may make a text, one after the other, if they do not do too much."""
    growth, work = 1, 0
    for name in names:
        for part in _objects(settings.get(name)):
            if (growth := growth * _growth(part)) > _MOST_GROWTH:
                raise ValueError(f"the {name} may make a text {bounded(growth)} times as long: expected {_MOST_GROWTH}")
            if isinstance(part.get("Regex"), str):
                work += check_pattern(part["Regex"]) * growth**2
            if part.get("length") == 0:
                raise ValueError(f"a part of the {name} has length 0: expected at least 1")
    if work > _MOST_WORK:
        raise ValueError(f"the patterns may try the rest of a text {work} times: at most {_MOST_WORK}")
    return growth


def _objects(value: Any) -> Iterator[dict[str, Any]]:
    """All objects in `value`, at any depth, in order; `ValueError` for a list that is too long for parts."""
    left = [value]
    while left:
        value = left.pop()
        if isinstance(value, dict):
            yield value
            left.extend(reversed(value.values()))
        elif isinstance(value, list):
            if len(value) > _MOST_ENTRIES and any(isinstance(entry, (dict, list)) for entry in value):
                raise ValueError(f"a part of the tokenizer lists {len(value)} others: expected at most {_MOST_ENTRIES}")
            left.extend(reversed(value))


def _growth(part: Mapping[str, Any]) -> int:
    """How many times as long one part can make a text."""
    texts = [part[key] for key in ("content", "prepend") if isinstance(part.get(key), str)]
    pieces = part["single"] if isinstance(part.get("single"), list) else []
    copies = sum("Sequence" in piece for piece in pieces if isinstance(piece, dict))
    known = [_GROWTH_OF.get(name, 1) for name in (str(part.get("type")), *part)]
    mapped = _longest_in_charsmap(part.get("precompiled_charsmap")) if part.get("type") == "Precompiled" else 1
    return max(1, copies, mapped, *known, *map(len, texts))


def _longest_in_charsmap(text: Any) -> int:
    """Characters of the longest text that a SentencePiece map writes for one; `ValueError` if it is cut off or long.

    It is a trie, with its size before it, and the texts.
    """
    if not isinstance(text, str):
        raise ValueError(f"precompiled_charsmap is {bounded(text)}: expected text")
    content = base64.b64decode(text, validate=True)
    end = 4 + int.from_bytes(content[:4], "little")
    if end % 4 or not 4 < end <= len(content) or max(map(len, content[end:].split(b"\0"))) > _MOST_GROWTH:
        raise ValueError(f"precompiled_charsmap is {bounded(text)}: expected a trie and texts of a few characters")
    return max(map(len, content[end:].decode("utf-8").split("\0")))


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

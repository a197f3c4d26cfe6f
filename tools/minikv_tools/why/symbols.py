"""Prompts compared in symbols, and the text that two messages share after their first difference.

A symbol is a few words up to the end of a line or a sentence, or a word with a digit by itself, so that a clock or an
id is a symbol of its own. It is kept as a number, and many of them are packed as bytes:

    | hash, 45 bits | ends of lines before it, at most 7, 3 bits | bytes, 16 bits |
"""

from __future__ import annotations

import functools
import itertools
import re
from array import array
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from minikv_tools.bodies import Body
from minikv_tools.pieces import PromptItem, PromptPiece
from minikv_tools.why.histories import normal_item
from minikv_tools.why.places import Spot, Spots, spot_at
from minikv_tools.why.texts import NORMAL, PATTERNS, common_run, masked, shared_length, volatile_at

Cause = tuple[str, str]  # the place, and the kind of change
Unit = tuple[bytes, int]  # a part of an item, and how often it came before
SPREAD = ("line ends", "unicode form")  # kinds that a client has everywhere
SYMBOL_BYTES = 8
LENGTH = 0xFFFF  # of a symbol: where its bytes are
TELLING = 16  # bytes of a symbol that is found again elsewhere by chance only
LEAST = 64  # bytes that were sent before elsewhere for it to matter

_CUTS = [re.compile(PATTERNS[name]) for name in ("CUT", "ASCII")]
CHANGED = "0"  # in the place of a text that changes
_HEAD = 8  # bytes of a symbol that says by itself where a text is
BEGINS_LINE, _MOST = 7 << 16, 2**64 - 1  # of a symbol: the ends of lines before it, and the largest one
_LINE_END = 1 << 16 | 1  # of a symbol: what one end of a line adds to it
_WINDOW = 2**9  # characters of a text that are cut after a break
_WIDEST = 8  # symbols that change at one place
_BRIEF = 2  # of them, at a place that hides what follows it
_LINE = 100  # characters of a line that has only what changes, such as an id
_VALUE = re.compile(r"\n+\w{0,64}\d")


@functools.lru_cache(256)
def symbols_of(text: str) -> tuple[int, ...]:
    """The symbols of a text.

    >>> [symbol & LENGTH for symbol in symbols_of("It is 14:05. Be brief.")]
    [6, 5, 1, 10]
    """
    return tuple(map(_symbol, _parts(text)))


def _parts(text: str) -> list[str]:
    return _CUTS[text.isascii()].findall(text)


def _symbol(part: str) -> int:
    size = len(part) if part.isascii() else len(part.encode("utf-8", "surrogatepass"))
    if part[0] != "\n":
        return (hash(part) << 19 | size) & _MOST
    bare = part.lstrip("\n")
    return (hash(bare) << 19 | min(7, len(part) - len(bare)) << 16 | size) & _MOST


class Region(NamedTuple):
    """Where two items first differ: the key of the symbols before, and how many symbols and beginnings of lines change.

    `rest` is what is left of the two items after it; a block of whole lines ends before symbol `tail`.
    """

    key: tuple[int, int]
    width: int
    lines: int = 0
    rest: tuple[PromptItem, ...] = ()
    tail: int = 0


def first_region(one: PromptItem, two: PromptItem) -> Region | None:
    """Where two items first differ by a few symbols, after which they are the same again; `None` if they do not.

    >>> from minikv_tools.pieces import Place
    >>> texts = ("Now: it is 14:05. Go.", "Now: it is 14:06. Go.")
    >>> one, two = (PromptItem("prompt", "", (PromptPiece(Place("prompt"), text),), text) for text in texts)
    >>> [item.text for item in first_region(one, two).rest]
    ['0. Go.', '0. Go.']
    """
    at = shared_length(one.text, two.text)
    # the line before, or two where what changes begins one
    before = one.text[:at][:-_WIDEST].rpartition("\n")[0].rstrip("\n")
    begin = len(before.rpartition("\n")[0].rstrip("\n"))
    left, right = (_parts(item.text[begin : at + _WINDOW]) for item in (one, two))
    same = common_run(left, right)
    width = _parts_apart(left[same:], right[same:])
    ends = [same + width] * 2 if width else _lines_apart(left, right, same)
    if not same or not ends:
        return None
    last, head = [0, 0, *map(_symbol, left[:same])][-2:]
    sides = [*zip((left, right), ends)]
    lines = max(sum(part[0] == "\n" for part in side[same:end]) for side, end in sides)
    rest = tuple(_after(item, begin + len("".join(side[:end]))) for item, (side, end) in zip((one, two), sides))
    tail = 0 if width else _symbol(left[ends[0]])
    return Region(head_key(last, head), max(ends) - same, lines, rest, tail)


def _parts_apart(left: list[str], right: list[str]) -> int:
    """How many parts differ before two equal ones, a long one or the ends; 0 if not soon."""
    pairs = [*zip(left, right)]
    if len(left) == len(right):
        pairs.append(("", ""))
    equal = [one == two for one, two in pairs]
    for number, (part, _) in enumerate(pairs[: _WIDEST + 1]):
        if equal[number] and (len(part) >= _WIDEST or all(equal[number:][:2])):
            return number
    return 0


def _lines_apart(left: list[str], right: list[str], begin: int) -> list[int]:
    """Where both have an equal line after as many lines that differ, the first of which is part `begin`."""
    lines = [[at for at in range(begin, len(side)) if side[at][0] == "\n"] for side in (left, right)]
    pairs = zip(*lines) if [each[:1] for each in lines] == [[begin], [begin]] else ()
    return next(([*pair] for pair in pairs if left[pair[0]] == right[pair[1]]), [])


def head_key(last: int, head: int) -> tuple[int, int]:
    """A name for the place after two symbols: the first one does not matter where the second is long enough.

    >>> head_key(1, 5), head_key(1, 50)
    ((1, 5), (0, 50))
    """
    return 0 if head & LENGTH >= _HEAD else last, head


def _after(item: PromptItem, at: int) -> PromptItem:
    """The rest of an item after `at` characters, with a mark for what changed before it."""
    pieces = list[PromptPiece]()
    end = 0
    for piece in item.pieces:
        begin = max(0, at - end)
        end += len(piece.text)
        if end > at:
            pieces.append(piece._replace(text=CHANGED * (not pieces) + piece.text[begin:]))
    return item._replace(pieces=tuple(pieces), text=CHANGED + item.text[at:])


class TailChange(NamedTuple):
    """A change that hides text which another message had: its kind, and what is left of the two messages.

    `region` is the place that changes; `spots` are the characters at which the two part.
    """

    kind: str
    spots: Spots
    region: Region | None = None
    rest: tuple[PromptItem, ...] = ()


def tail_change(one: PromptItem, two: PromptItem) -> TailChange | None:
    """The change after which `two` has text that was sent in `one` too, or `None` if that is little.

    >>> rules = "Be brief and kind. Say what you know, and nothing else. Answer in one sentence."
    >>> tail_change(*(PromptItem("prompt", "", (), f"Where is the {what}? {rules}") for what in ("lock", "key"))).kind
    'shared text last'
    """
    sides, at = [symbols_of(item.text) for item in (one, two)], shared_length(one.text, two.text)
    same = common_run(*sides)
    both = _both(sides[0], sides[1], same)
    if size_of(both) < LEAST:
        return None
    spots = spot_in(one, at), spot_in(two, at)
    if kind := _normal_kind(one, two, at):
        return TailChange(kind, spots, None, (normal_item(one, kind), normal_item(two, kind)))
    if found := _line_apart(one, two, at):
        kind, cuts, line = found
        region = Region(head_key(*line[:2]), len(line) - 2)
        return TailChange(kind, spots, region, tuple(map(_after, (one, two), cuts)))
    narrow = first_region(one, two)
    kind = volatile_at(one.text, two.text, at) if narrow and narrow.width <= _BRIEF else None
    if narrow and kind and (kind != "number" or shared_length(*(item.text for item in narrow.rest)) >= LEAST):
        return TailChange(kind, spots, narrow, narrow.rest)
    orders = [list(dict.fromkeys(symbol for symbol in side[same:] if symbol in both)) for side in sides]
    return TailChange("order" if orders[0] != orders[1] else "shared text last", spots)


def _both(one: Sequence[int], two: Sequence[int], begin: int) -> set[int]:
    return {symbol for symbol in one[begin:] if symbol & LENGTH >= TELLING}.intersection(two[begin:])


def size_of(symbols: Iterable[int]) -> int:
    """The bytes of symbols.

    >>> size_of(symbols_of("It is 14:05."))
    12
    """
    return sum(symbol & LENGTH for symbol in symbols)


def _normal_kind(one: PromptItem, two: PromptItem, at: int) -> str | None:
    """The kind of change that hides what is the same after character `at`, if both are the same without it."""
    for kind in SPREAD:
        if shared_length(*(NORMAL[kind](item.text[at : at + _WINDOW]) for item in (one, two))) > LEAST:
            return kind
        plain = [normal_item(item, kind) for item in (one, two)]
        if (plain[0].text == one.text) != (plain[1].text == two.text):
            sides = ([symbols_of(item.text) for item in pair] for pair in ((one, two), plain))
            before, after = (size_of(_both(left, right, 0)) for left, right in sides)
            if after >= before + LEAST:
                return kind
    return None


def _line_apart(one: PromptItem, two: PromptItem, at: int) -> tuple[str, tuple[int, int], tuple[int, ...]] | None:
    """A short line with a clock or an id that only one of the two has, where they part.

    Returns the kind of change, where the rest begins in both, and the symbols of the line.
    """
    begin = one.text.rfind("\n", 0, at + 1)
    if begin < 0:
        return None
    for left, right in ((one.text, two.text), (two.text, one.text)):
        size = right.find("\n", begin + 1, begin + _LINE) - begin
        line = right[begin : begin + max(0, size)]
        kinds = (kind for kind in ("clock", "random id", "number") if masked(line, kind) != line)
        kind = next(kinds, None)
        after = left[begin : begin + _WINDOW], right[begin + size :][:_WINDOW]
        if kind and any(map(str.isnumeric, line)) and not _VALUE.match(line) and shared_length(*after) >= LEAST:
            cuts = begin, begin + size
            before = right[max(0, right.rfind("\n", 0, begin)) : begin]
            symbols = *symbols_of(before)[-1:], *symbols_of(line)
            return kind, cuts if right is two.text else cuts[::-1], symbols
    return None


def packed(symbols: Iterable[int]) -> bytes:
    """Symbols as bytes.

    >>> len(packed(symbols_of("It is 14:05.")))
    24
    """
    return array("Q", symbols).tobytes()


def _lines_of(symbols: array[int]) -> Iterator[tuple[int, bytes]]:
    """The lines of an item: how many ends of lines are before each, and its symbols without them."""
    begins = [at for at, symbol in enumerate(symbols) if symbol & BEGINS_LINE or not at]
    for begin, end in itertools.pairwise([*begins, len(symbols)]):
        line = symbols[begin:end]
        before = (line[0] & BEGINS_LINE) >> 16
        line[0] -= before * _LINE_END
        yield before, line.tobytes()


@functools.lru_cache(64)
def parts_in(data: bytes, lines: bool) -> list[Unit]:
    """The symbols or the lines of an item, each with how often it came before in it; empty lines are part of none.

    >>> [count for _, count in parts_in(packed(symbols_of("1 1")), lines=False)]
    [0, 0, 1]
    """
    symbols, counts = array("Q", data), defaultdict[bytes, Iterator[int]](itertools.count)
    units = [line for _, line in _lines_of(symbols)] if lines else [data[n : n + 8] for n in range(0, len(data), 8)]
    return [(unit, next(counts[unit])) for unit in units]


def arranged(ranks: Mapping[Unit, int], data: bytes, lines: bool, lead: int | None = None) -> bytes:
    """An item with all that has a rank in that order: in the same places, or after the first `lead` parts.

    With `lines`, whole lines are put in order, not symbols. The item is packed, and so is what comes back.

    >>> one, two = (packed(symbols_of(text)) for text in ("It is 1 or 2.", "It is 2 or 1."))
    >>> ranks = {unit: number for number, unit in enumerate(parts_in(one, lines=False))}
    >>> arranged(ranks, two, lines=False) == one
    True
    """
    units = parts_in(data, lines)
    known = sorted(ranks.keys() & units[lead:], key=ranks.__getitem__)
    if len(known) < 1 + (lead is None):
        return data
    common = iter(known)
    if lead is not None:
        order = [*units[:lead], *common, *(unit for unit in units[lead:] if unit not in ranks)]
    else:
        order = [next(common) if unit in ranks else unit for unit in units]
    if not lines:
        return b"".join(unit for unit, _ in order)
    found = array("Q")
    for (before, _), (line, _) in zip(_lines_of(array("Q", data)), order):
        found.frombytes(line)
        found[len(found) - len(line) // SYMBOL_BYTES] += before * _LINE_END
    return found.tobytes()


def spot_in(item: PromptItem, at: int) -> Spot | None:
    """The place of a character of an item, or `None` at its end."""
    return spot_at(Body((item,), {}, {}), at, item.text)

"""The hit rate of a log with one cause fixed: its prompts are replayed with that cause's text made constant.

The breaks between prompts teach what "fixed" means, by the kind of change:

    clock, id, number, text    the symbols that change there become one constant symbol, in each item that has the place
    order                      what both items have comes in the order of the first, or before what they do not share
    history                    nothing is dropped from it or inserted: the new messages come after all that was sent
    tools, other items         the item is the one that was sent first; all tools are one item
"""

from __future__ import annotations

import functools
from array import array
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from minikv.traffic.trace_tree import PrefixTree
from minikv.traffic.why.breaks import (
    ANSWERS,
    CHANGED,
    HISTORY,
    LENGTH,
    LINE,
    REGION,
    SYMBOL_BYTES,
    TELLING,
    common_run,
    first_region,
    head_key,
    symbols_of,
)
from minikv.traffic.why.histories import PromptItem
from minikv.traffic.why.texts import shared_length

Items = Sequence[PromptItem]
Sizes = np.ndarray[Any, np.dtype[np.uint64]]
Cause = tuple[str, str]  # the place, and the kind of change
ALL: Cause = ("", "")  # all causes together
_BY_USER = ("random id", "number", *REGION)  # kinds of change between the values of a block that differs by user
_VALUES = ("clock", "random id", "tool call id", "number", "number format", *REGION)
_MARK = symbols_of(CHANGED)[0]
_NONE = np.zeros(0, np.uint64)
_TABLE = 2**19  # symbols of which the latest request is known
_CACHED = 2**14  # items
_MOST_KEPT = 2**12  # items of a history in which nothing is dropped
_OFTEN = 3  # conversations that begin with each of the few values that differ by user


def _is_message(item: PromptItem) -> bool:
    return item.part in ("messages", "prompt")


def _asks(item: PromptItem) -> bool:
    return _is_message(item) and item.name not in ANSWERS


def _tools(items: Items) -> str:
    return "".join(item.text for item in items if item.part == "tools")


def _without_tools(items: Items) -> Items:
    return [item for item in items if item.part != "tools"]


def _packed(symbols: Iterable[int]) -> bytes:
    return array("Q", symbols).tobytes()


def _units(data: bytes, lines: bool) -> list[tuple[bytes, int]]:
    """The symbols or the lines of an item, each with how often it came before in it."""
    symbols, counts = array("Q", data), Counter[bytes]()
    begins = [at for at, symbol in enumerate(symbols) if not lines or symbol & LINE or not at]
    units = [data[SYMBOL_BYTES * a : SYMBOL_BYTES * b] for a, b in zip(begins, [*begins[1:], len(symbols)])]
    return [(unit, counts.update([unit]) or counts[unit]) for unit in units]


def arranged(model: bytes, data: bytes, lines: bool, lead: int | None = None) -> bytes:
    """An item with all that `model` has too in the order of the model: in the same places, or after `lead` symbols.

    With `lines`, whole lines are put in order, not symbols. Both items are packed, and so is what comes back.

    >>> one, two = (array("Q", symbols_of(text)).tobytes() for text in ("It is 1 or 2.", "It is 2 or 1."))
    >>> arranged(one, two, lines=False) == one
    True
    """
    rank = {unit: number for number, unit in enumerate(_units(model, lines))}
    units = _units(data, lines)
    common = iter(sorted(rank.keys() & units[lead:], key=rank.__getitem__))
    if lead is not None:
        order = [*units[:lead], *common, *(unit for unit in units[lead:] if unit not in rank)]
    else:
        order = [next(common) if unit in rank else unit for unit in units]
    return b"".join(unit for unit, _ in order)


class ReplayedRequest(NamedTuple):
    """A request as it is replayed: its namespace, its items, of which `lead` are no messages, and its bytes.

    `begins`: it has no answer of the model yet.
    """

    root: bytes
    items: tuple[int, ...]
    lead: int
    reused: int
    size: int
    group: str
    begins: bool


class Fixes:
    """Learns from breaks what each cause is, and replays all prompts with it fixed."""

    def __init__(self) -> None:
        self._items: dict[int, bytes] = {}
        self._requests: list[ReplayedRequest] = []
        self._slots: dict[tuple[int, int], tuple[Cause, int]] = {}  # by the symbols before: the cause, how many change
        self._heads = set[int]()  # the last of the symbols before
        self._dropped: tuple[Cause, int, list[str]] | None = None  # by the next request
        self._whole: defaultdict[Cause, dict[int, bytes]] = defaultdict(dict)
        self._histories: dict[int, tuple[Cause, bytes, tuple[int, ...]]] = {}
        self._sent = set[int]()  # items
        self._latest: dict[int, tuple[int, int]] = {}  # of a symbol: the request that was the last to send it as new,
        self._older: dict[int, tuple[int, int]] = {}  # and in which item

    def add(self, root: str, items: Items, reused: int, size: int, group: str, continues: int | None) -> None:
        """Put in the next request, in bytes; `continues` is the number of the one that it continues."""
        number, tools, begins = len(self._requests), _tools(items), all(item.name != "assistant" for item in items)
        for at, item in enumerate(items):
            if _asks(item) and hash(item.text) not in self._sent:
                self._sent.add(hash(item.text))
                telling = [symbol for symbol in symbols_of(item.text) if symbol & LENGTH >= TELLING]
                self._latest.update(dict.fromkeys(telling, (number, at)))
        if len(self._latest) > _TABLE:
            self._latest, self._older = {}, self._latest
        ids = tuple(self._id(text) for text in (tools, *(item.text for item in _without_tools(items))) if text)
        apart, lead = _packed(symbols_of(root)[:1]), len(ids) - sum(map(_is_message, items))
        self._requests.append(ReplayedRequest(apart, ids, lead, reused, size, group, begins))
        if self._dropped:
            cause, like, new = self._dropped
            self._keep(cause, like, list(map(self._id, new)))
        elif continues in self._histories:
            self._keep(self._histories[continues][0], continues, ids[len(self._requests[continues].items) :])
        self._dropped = None

    def _keep(self, cause: Cause, like: int, new: Sequence[int]) -> None:
        """The latest request has all that `like` has with nothing dropped, and then its `new` items."""
        request, before = self._requests[-1], self._requests[like]
        _, root, kept = self._histories.setdefault(like, (cause, before.root, before.items))
        history = *request.items[: request.lead], *kept[before.lead :][-_MOST_KEPT:], *new
        self._histories[len(self._requests) - 1] = cause, root, history

    def _id(self, text: str) -> int:
        if (key := hash(text)) not in self._items:
            self._items[key] = _packed(symbols_of(text))
        return key

    def earlier(self, item: PromptItem) -> tuple[int, int] | None:
        """The latest request, and which of its items, that was the last to have most of the text of an item."""
        votes = Counter[tuple[int, int]]()
        for symbol in symbols_of(item.text) if _asks(item) else ():
            if (found := self._latest.get(symbol, self._older.get(symbol))) is not None:
                votes[found] += symbol & LENGTH
        return max(votes, key=lambda found: (votes[found], found), default=None)

    def learn(self, cause: Cause, left: Items, right: Items, origins: tuple[Items, Items], like: int
              ) -> tuple[Items, Items] | None:  # fmt: skip
        """Learn from where two prompts part what `cause` is; what is left of the two after it, or `None`.

        `origins` are the two as they are, `like` is the number of the earlier one.
        """
        kind = cause[1]
        if kind in HISTORY:
            sent, again = (Counter(item.text for item in side) for side in (right, left))
            self._dropped = cause, like, list((sent - again).elements())
            return None
        tools = "tools" in (left[0].part, right[0].part)
        sides = [side[len(side) - len(rest)].text for side, rest in zip(origins, (left, right))]
        one, two = map(self._id, map(_tools, origins) if tools else sides)
        if kind == "order":
            self._order(cause, one, two)
        elif kind == "shared text last":
            known, rests = self._whole[cause], [symbols_of(item.text) for item in (left[0], right[0])]
            for a, b, side, rest in zip((one, two), (two, one), sides, rests):
                lead = len(symbols_of(side)) - len(rest) + common_run(*rests)
                known.setdefault(a, arranged(known.get(b, self._items[b]), self._items[a], False, lead))
        elif kind in _VALUES and not tools and (found := first_region(left[0], right[0])):
            first, width = self._slots.get(found[0], (cause, 0))
            self._slots[found[0]] = first, max(width, found[1])
            self._heads.add(found[0][1])
            return [found[2][0], *left[1:]], [found[2][1], *right[1:]]
        else:
            self._whole[cause][two] = self._whole[cause].setdefault(one, self._items[one])
        return (_without_tools(left), _without_tools(right)) if tools else (left[1:], right[1:])

    def _order(self, cause: Cause, one: int, two: int) -> None:
        known = self._whole[cause]
        model = known.setdefault(one, self._items[one])
        found = [arranged(model, self._items[two], lines) for lines in (True, False)]
        known[two] = max(found, key=lambda fixed: shared_length(model, fixed))

    def follow(self, one: PromptItem, two: PromptItem) -> None:
        """Put `two` in the order that `one` has got already."""
        first, second = self._id(one.text), self._id(two.text)
        for cause in [cause for cause, known in self._whole.items() if first in known and second not in known]:
            if cause[1] == "order":
                self._order(cause, first, second)

    def _regions(self, data: bytes) -> list[tuple[Cause, int, int]]:
        """Where in an item text changes, and the cause."""
        symbols, found, last, end = array("Q", data), list[tuple[Cause, int, int]](), 0, 0
        for at, symbol in enumerate(symbols if not self._heads.isdisjoint(symbols) else (), start=1):
            symbol = symbol if at > end else _MARK
            if symbol in self._heads and (slot := self._slots.get(head_key(last, symbol))):
                end = at + slot[1]
                found.append((slot[0], at, end))
            last = symbol
        return found

    def _fixed(self, item: int, cause: Cause) -> tuple[bytes, Sizes]:
        """The symbols of an item with one cause fixed, or with all, and the bytes of text that each stands for."""
        wholes = self._whole.values() if cause == ALL else (self._whole[cause],)
        data = next((known[item] for known in wholes if item in known), self._items[item])
        symbols = np.frombuffer(data, np.uint64).copy()
        sizes = symbols & np.uint64(LENGTH)
        for why, begin, end in self._regions(data):
            if cause in (ALL, why):
                symbols[begin:end] = 0
        return symbols.tobytes(), sizes

    def by_user(self) -> set[Cause]:
        """The causes whose text is one of a few values, each of which comes again and again."""
        seen: defaultdict[Cause, Counter[bytes]] = defaultdict(Counter)
        for item in (item for request in self._requests if request.begins for item in request.items):
            for cause, begin, end in self._regions(self._items[item]):
                if cause[1] in _BY_USER and not cause[0].startswith("messages[*]"):
                    seen[cause][self._items[item][SYMBOL_BYTES * begin : SYMBOL_BYTES * end]] += 1
        often = ((cause, [count >= _OFTEN for count in counts.values()]) for cause, counts in seen.items())
        return {cause for cause, again in often if sum(again) >= max(_OFTEN, len(again) / 2)}

    def _causes(self) -> dict[int, set[Cause]]:
        found = dict[int, set[Cause]]()
        for item, data in self._items.items():
            causes = {cause for cause, known in self._whole.items() if item in known}
            causes.update(cause for cause, _, _ in self._regions(data))
            if causes:
                found[item] = causes
        return found

    def replay(self, renamed: Mapping[Cause, Cause]) -> Iterator[tuple[ReplayedRequest, dict[Cause, tuple[int, int]]]]:
        """Each request, with what the fix of each cause saves in it, and that of `ALL`.

        That is the bytes that are no longer computed, and those that are sent besides.
        """
        self._slots = {head: (renamed.get(cause, cause), width) for head, (cause, width) in self._slots.items()}
        for cause, new in renamed.items():
            self._whole[new].update(self._whole.pop(cause, {}))
        causes_of = self._causes()
        trees, fixed = (
            defaultdict[Cause, PrefixTree](functools.partial(PrefixTree, SYMBOL_BYTES)),
            functools.lru_cache(_CACHED)(self._fixed),
        )
        for number, request in enumerate(self._requests):
            why, root, history = self._histories.get(number, (ALL, request.root, request.items))
            causes = {why}.union(*(causes_of.get(item, ()) for item in request.items))
            saved = {}
            for cause in {*causes, ALL} if causes != {ALL} else ():
                items, apart = (history, root) if cause in (ALL, why) else (request.items, request.root)
                parts = [fixed(item, cause) for item in items]
                found, _ = trees[cause].insert(apart + b"".join([data for data, _ in parts]))
                sizes = np.concatenate([_NONE, *(sizes for _, sizes in parts)])
                extra = int(sizes.sum()) - request.size
                hits = max(request.reused + min(0, extra), int(sizes[: max(0, found // SYMBOL_BYTES - 1)].sum()))
                saved[cause] = hits - request.reused - extra, extra
            yield request, saved

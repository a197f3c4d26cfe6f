"""The changes that causes make to the items of prompts, learned from breaks, and each item with a cause fixed.

clock, id, number, text    the symbols that change there become one constant symbol, in each item that has the place
order                      what both items have comes in the order of the first, or before what they do not share
tools, other items         the item is the one that was sent first; all tools are one item

`FixedTree` has whole prompts of items that are fixed in this way, and says what each shares with those before it.
"""

from __future__ import annotations

import functools
from array import array
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from minikv.traffic.trace_tree import ROOT, PrefixTree
from minikv_tools.pieces import Items, PromptItem, Sides
from minikv_tools.why.breaks import REGION
from minikv_tools.why.changing import ChangingPlaces
from minikv_tools.why.histories import normal_item
from minikv_tools.why.symbols import (
    BEGINS_LINE,
    LENGTH,
    SPREAD,
    SYMBOL_BYTES,
    TELLING,
    Cause,
    TailChange,
    Unit,
    arranged,
    first_region,
    packed,
    parts_in,
    size_of,
    symbols_of,
)
from minikv_tools.why.texts import NORMAL, common_run

Prompt = tuple[int, ...]  # its items
Ends = Sequence[int]
ALL: Cause = ("", "")  # all causes together
_VALUES = ("clock", "random id", "tool call id", "number", "number format", *REGION)
_CACHED = 2**14  # items
_NONE = np.zeros(1, np.uint64)
_SIZES = BEGINS_LINE | LENGTH  # of a symbol: what the ends of lines before it change


def tools_text(items: Items) -> str:
    """All tools of a prompt, as one text."""
    return "".join(item.text for item in items if item.part == "tools")


def without_tools(items: Items) -> Items:
    """The items of a prompt that are no tools."""
    return [item for item in items if item.part != "tools"]


def _model(model: bytes, data: bytes) -> bytes:
    return model


def _in_order(model: bytes, data: bytes, lead: int | None = None) -> bytes:
    ranks = {unit: number for number, unit in enumerate(parts_in(model, False))}
    return arranged(ranks, data, False, lead)


class Rewrites:
    """Learns what each cause changes in items, which are numbered.

    >>> rewrites = Rewrites()
    >>> item = rewrites.id("It is 14:05.")
    >>> data, ends = rewrites.fixed(item, ALL)
    >>> list(ends)
    [0, 6, 11, 12]
    """

    def __init__(self) -> None:
        self.items = list[bytes]()
        self._numbers: dict[int, int] = {}  # by the hash of an item's text
        self.slots = ChangingPlaces()
        self._whole: defaultdict[Cause, dict[int, bytes]] = defaultdict(dict)
        self._ranks: defaultdict[Cause, dict[Unit, int]] = defaultdict(dict)  # of lines
        self._lines = set[int]()  # of each of them the longest symbol, whatever is before it
        self._shared: defaultdict[Cause, Counter[Unit]] = defaultdict(Counter)  # lines that come after what differs
        self.causes_of = dict[int, set[Cause]]()  # of items, once all is learned
        self._cached = functools.lru_cache(_CACHED)(self._fix)

    def id(self, text: str) -> int:
        """The item of a text."""
        if (item := self._numbers.get(hash(text))) is None:
            item = self._numbers[hash(text)] = len(self.items)
            self.items.append(packed(symbols_of(text)))
            for cause in [cause for cause in self._whole if cause[1] in SPREAD]:
                self._normalize(cause, item, text, NORMAL[cause[1]](text))
        return item

    def ids(self, texts: Sequence[str]) -> list[int]:
        """The items of texts, most of which are known."""
        try:
            return [*map(self._numbers.__getitem__, map(hash, texts))]
        except KeyError:
            return [*map(self.id, texts)]

    def learn(self, cause: Cause, left: Items, right: Items, origins: Sides) -> Sides:
        """Learn from where two prompts part what `cause` is; what is left of the two after it.

        `origins` are the two as they are.
        """
        if "tools" in (left[0].part, right[0].part):
            one, two = (self.id(tools_text(items)) for items in origins)
            self._rewrite(cause, one, two, _model)
            return without_tools(left), without_tools(right)
        one, two = (self.id(all[-len(some)].text) for all, some in zip(origins, (left, right)))
        found = first_region(left[0], right[0]) if cause[1] in _VALUES else None
        if found:
            self.slots.add(cause, found, self.items[two])
            return [found.rest[0], *left[1:]], [found.rest[1], *right[1:]]
        self._rewrite(cause, one, two, _model)
        return left[1:], right[1:]

    def learn_hidden(self, cause: Cause, found: TailChange, whole: Items, rest: Items) -> None:
        """Learn from two messages what `cause` is, after which the later one has text of the earlier one.

        `rest` is what is left of the two `whole` messages after other causes.
        """
        one, two = (self.id(item.text) for item in whole)
        if found.region:
            self.slots.add(cause, found.region)
        elif cause[1] == "order" and not self._ranked(cause, one, two):
            self._rewrite(cause, one, two, _in_order)
        elif cause[1] == "shared text last" and not self._counted(cause, one, two):
            rests = [symbols_of(item.text) for item in rest]
            for a, b, item, symbols in zip((two, one), (one, two), whole, rests):
                lead = len(symbols_of(item.text)) - len(symbols) + common_run(*rests)
                self._rewrite(cause, a, b, functools.partial(_in_order, lead=lead))
        elif cause[1] in NORMAL:
            for item in whole:
                self._normalize(cause, self.id(item.text), item.text, normal_item(item, cause[1]).text)

    def follow(self, one: PromptItem, two: PromptItem) -> None:
        """Change `two` as `one` is changed already by the causes that are about whole messages."""
        first, second = self.id(one.text), self.id(two.text)
        for cause in [cause for cause, known in self._whole.items() if first in known and second not in known]:
            if cause[1] == "order":
                self._rewrite(cause, first, second, _in_order)
            elif cause[1] in NORMAL:
                self._normalize(cause, second, two.text, normal_item(two, cause[1]).text)

    def _lines_in(self, *items: int) -> list[list[Unit]]:
        return [parts_in(self._whole[ALL].get(item, self.items[item]), True) for item in items]

    def _ranked(self, cause: Cause, one: int, two: int) -> bool:
        """Rank the lines of two items that come in another order in the second; whether there are such lines."""
        sides = self._lines_in(one, two)
        same = common_run(*sides)
        both = set(sides[0][same:]).intersection(sides[1][same:])
        left, right = ([unit for unit in side[same:] if unit in both] for side in sides)
        for unit in left[: len(left) - common_run(left[::-1], right[::-1])]:
            self._rank(cause, unit)
        return left != right

    def _counted(self, cause: Cause, one: int, two: int) -> bool:
        """Count the lines that two items share, if they are most of what both have after they part."""
        left, right = self._lines_in(one, two)
        known, begin = set(left), set(right[: common_run(left, right)])
        both, last = list[Unit](), 0
        for unit in right:
            size = size_of(array("Q", unit[0]))
            if unit in known and size >= TELLING:
                both.append(unit)
                last += 0 if unit in begin else size
        first, second = (array("Q", self.items[item]) for item in (one, two))
        rest = second[common_run(first, second) :]
        if 2 * last < size_of(set(first).intersection(rest)):
            return False
        self._shared[cause].update(both)
        return True

    def _rank(self, cause: Cause, unit: Unit) -> None:
        self._ranks[cause].setdefault(unit, len(self._ranks[cause]))
        symbols = array("Q", unit[0])
        self._lines.add(max(symbols[1:] or symbols, key=LENGTH.__and__) | _SIZES)

    def _in_rank(self, cause: Cause, data: bytes) -> bytes:
        """An item with the lines that have a rank in their order; those that are shared come before all others."""
        return arranged(self._ranks[cause], data, True, 1 if cause in self._shared else None)

    def _rewrite(self, cause: Cause, one: int, two: int, rewrite: Callable[[bytes, bytes], bytes]) -> None:
        """Change item `two` as `one` tells, with one cause fixed, and with all that are known so far."""
        for key in (cause, ALL) if two not in self._whole[cause] else ():
            known = self._whole[key]
            known[two] = rewrite(known.get(one, self.items[one]), known.get(two, self.items[two]))

    def _normalize(self, cause: Cause, item: int, text: str, normal: str) -> None:
        if normal != text:
            self._whole[cause][item] = self._whole[ALL][item] = packed(symbols_of(normal))

    def relabel(self, renamed: Mapping[Cause, Cause]) -> None:
        """Give causes other names; then all is learned."""
        self.slots.relabel(renamed)
        for cause, new in renamed.items():
            known = self._whole.pop(cause, {})
            self._whole[new].update(known if cause[1] in SPREAD else {})
        for cause, shared in self._shared.items():
            for unit, _ in shared.most_common():
                self._rank(cause, unit)
        self.causes_of = self._causes()

    def fixed(self, item: int, cause: Cause | None) -> tuple[bytes, Ends]:
        """The symbols of an item with one cause, all or none fixed, and the bytes of each beginning."""
        mine = self.causes_of.get(item) if cause else None
        return self._cached(item, cause if mine and (cause in mine or cause == ALL) else None)

    def _fix(self, item: int, cause: Cause | None) -> tuple[bytes, Ends]:
        data = self._whole[cause].get(item, self.items[item]) if cause else self.items[item]
        for why in self._ranks if cause else ():
            data = self._in_rank(why, data) if cause in (ALL, why) else data
        symbols = np.frombuffer(data, np.uint64)
        sizes = np.concatenate([_NONE, symbols & np.uint64(LENGTH)])
        if cause:
            symbols, kept = symbols.copy(), np.ones(len(sizes), bool)
            for why, begin, end, out, key in self.slots.regions(data):
                if cause in (ALL, why):
                    if key in self.slots.tails:  # its bytes count with those of the symbol after it
                        sizes[end + 1] += sizes[begin + 1 : end + 1].sum()
                    symbols[begin:end], kept[begin + 1 : end + 1] = 0, not out
            data, sizes = symbols[kept[1:]].tobytes(), sizes[kept]
        return data, array("q", sizes.cumsum(dtype=np.int64).tobytes())

    def _causes(self) -> dict[int, set[Cause]]:
        """Of each item that has causes: which."""
        found = dict[int, set[Cause]]()
        for item, data in enumerate(self.items):
            causes = {cause for cause, known in self._whole.items() if item in known and cause != ALL}
            if not self._lines.isdisjoint(map(_SIZES.__or__, array("Q", data))):
                causes.update(why for why in self._ranks if self._in_rank(why, data) != data)
            causes.update(cause for cause, *_ in self.slots.regions(data))
            if causes:
                found[item] = causes
        return found


class FixedTree:
    """Prompts with a cause fixed: each tells how much it shares with those before it.

    `fixed` gives the symbols of an item, and the bytes of each of its beginnings.

    >>> items = [(bytes([*b"It is 1", number]), (0, 5)) for number in b"45"]
    >>> tree = FixedTree(items.__getitem__)
    >>> [tree.insert(number, prompt, 0) for number, prompt in enumerate([(0,), (0, 1), (0, 0)])]
    [(5, 0), (10, 5), (10, 5)]
    """

    def __init__(self, fixed: Callable[[int], tuple[bytes, Ends]]):
        self._fixed, self._tree = fixed, PrefixTree(SYMBOL_BYTES)
        self._ends: dict[int | None, tuple[Prompt, int, int]] = {}  # of the latest of each conversation

    def insert(self, number: int, prompt: Prompt, before: int | None) -> tuple[int, int]:
        """Put in a prompt, which may continue the one `before`; returns its bytes, and those that it shares."""
        kept = self._ends.pop(before, None)
        sent, node, size = kept if kept and prompt[: len(kept[0])] == kept[0] else ((), ROOT, 0)
        new = list(map(self._fixed, prompt[len(sent) :]))
        found, _ = self._tree.insert(b"".join([data for data, _ in new]), node)
        shared, symbols = size, found // SYMBOL_BYTES
        for _, ends in new:
            shared += ends[min(symbols, len(ends) - 1)]
            symbols = max(0, symbols - len(ends) + 1)
            size += ends[-1]
        self._ends[number] = prompt, self._tree.ends.pop(), size
        return size, shared

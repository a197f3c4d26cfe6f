"""The places in items at which text changes, known by the symbols before them, and how they are told from chance."""

from __future__ import annotations

from array import array
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping

from minikv_tools.why.breaks import REGION
from minikv_tools.why.symbols import BEGINS_LINE, CHANGED, SYMBOL_BYTES, Cause, Region, head_key, symbols_of

PlaceKey = tuple[int, int]  # of a place
Span = tuple[Cause, int, int, bool, PlaceKey]
_CHANCE = 2  # texts at a place for each break there
_WIDER = 4  # symbols by which a text may be longer than others at its place
_MARK = symbols_of(CHANGED)[0]


class ChangingPlaces:
    """The places in items at which text changes, each known by the symbols before it.

    >>> from minikv_tools.why.symbols import packed
    >>> slots, data = ChangingPlaces(), packed(symbols_of("It is 14:05. Be brief."))
    >>> slots.add(("prompt", "clock"), Region(head_key(0, symbols_of("It is ")[0]), width=1))
    >>> [span[:-1] for span in slots.regions(data)]
    [(('prompt', 'clock'), 1, 2, False)]
    """

    def __init__(self) -> None:
        self._known: dict[PlaceKey, tuple[Cause, int, int]] = {}  # the cause, and the most that changes
        self._breaks = Counter[PlaceKey]()
        self.tails = defaultdict[PlaceKey, set[int]](set)  # before which a block of lines ends
        self._heads = set[int]()  # the last of the symbols before

    def add(self, cause: Cause, region: Region, data: bytes = b"") -> None:
        """Learn a place; the first cause at it stays, unless it is an edit. `data`, which breaks there, may do so in
        the text of a known place of the same cause.
        """
        symbols, known = array("Q", data), self.regions(data)
        around = (key for why, begin, end, _, key in known if why == cause and region.key[1] in symbols[begin:end])
        self._breaks[next(around, region.key)] += 1
        first, width, lines = self._known.get(region.key, (cause, 0, 0))
        first = cause if first[1] in REGION else first
        self._known[region.key] = first, max(width, region.width), max(lines, region.lines)
        self._heads.add(region.key[1])
        if region.tail:
            self.tails[region.key].add(region.tail)

    def forget_chance(self, items: Collection[bytes]) -> None:
        """Forget the places where `items` differ, but seldom by this cause, such as the first words of questions.

        At a real one each new text breaks a prefix; an edit that is made once has two texts.

        >>> from minikv_tools.why.symbols import packed
        >>> slots, texts = ChangingPlaces(), [packed(symbols_of(f"It is {number}. Go.")) for number in range(9)]
        >>> slots.add(("prompt", "number"), Region(head_key(0, symbols_of("It is ")[0]), width=1))
        >>> slots.forget_chance(texts[:2]); print(len(slots.regions(texts[0])))
        1
        >>> slots.forget_chance(texts); print(len(slots.regions(texts[0])))
        0
        """
        texts = defaultdict[PlaceKey, set[bytes]](set)
        for data in items:
            for _, begin, end, _, key in self.regions(data):
                texts[key].add(data[SYMBOL_BYTES * begin : SYMBOL_BYTES * end])
        chance = [key for key, found in texts.items() if len(found) > _CHANCE * (1 + self._breaks[key])]
        for key in chance:
            del self._known[key]
        if chance:  # then others are found that were in the texts of these
            self._heads = {head for _, head in self._known}
            self.forget_chance(items)

    def relabel(self, renamed: Mapping[Cause, Cause]) -> None:
        """Give causes other names."""
        self._known = {
            key: (renamed.get(cause, cause), width, lines) for key, (cause, width, lines) in self._known.items()
        }

    def regions(self, data: bytes) -> list[Span]:
        """Where in an item text changes: the cause, from, to, whether that is left out, as a line is, the place."""
        symbols = array("Q", data)
        found = list[Span]()
        last = end = 0
        for at, symbol in enumerate(() if self._heads.isdisjoint(symbols) else symbols, start=1):
            symbol = symbol if at > end else _MARK
            before, last = last, symbol
            if symbol in self._heads and (key := head_key(before, symbol)) in self._known:
                cause, width, lines = self._known[key]
                places = range(at, min(at + width + _WIDER, len(symbols)))
                if tails := self.tails.get(key):
                    end = next((place for place in places if symbols[place] in tails), at)
                    found += [(cause, at, end, True, key)] * (end > at)
                    continue
                end = at + width
                begins = [place for place in places if symbols[place] & BEGINS_LINE]
                if symbol & BEGINS_LINE and len(begins) > lines:
                    found.append((cause, at - 1, begins[lines], True, key))
                else:
                    found.append((cause, at, end, False, key))
        return found

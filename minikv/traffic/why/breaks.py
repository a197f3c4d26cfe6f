"""Which earlier request of a log a request continues: the one of its conversation, where the log says so or it shows.

A log seldom names conversations. But a request repeats the messages of the one before it, so the last message of that
one is among its messages. They are compared as they are, and where none is found, without digits and the letters of
hexadecimal numbers, so that a clock or an id in them does not hide the conversation.

A prompt is compared in symbols: a few words up to the end of a line or a sentence, or a word with a digit by itself, so
that a clock or an id is a symbol of its own. A symbol is kept as a number:

    | hash, 47 bits | begins a line, 1 bit | bytes, 16 bits |
"""

from __future__ import annotations

import functools
import re
from collections import Counter, OrderedDict, defaultdict
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import Any, NamedTuple

from minikv.traffic.bodies import Body, Place
from minikv.traffic.why.changes import KINDS, items_change, items_of
from minikv.traffic.why.histories import PromptItem, similar
from minikv.traffic.why.places import Spot, spot_at
from minikv.traffic.why.texts import shared_length, volatile_at

TOOLS = ("tools reordered", "tool added", "tool removed", "tools changed")
HISTORY = ("history truncated", "history summarized", "message removed", "message inserted", "messages reordered",
           "namespace")  # fmt: skip
ANSWERS = ("assistant", "tool", "function")
REGION = ("system edited", "text edited")
SYMBOL_BYTES = 8
LENGTH = 0xFFFF  # of a symbol: where its bytes are
TELLING = 16  # bytes of a symbol that is found again elsewhere by chance only

_CUT = re.compile(
    r"\n*\w{0,64}\d(?:[.:,/+-]{0,2}\w{1,64}){0,16}"  # a word with a digit
    r"|\n*(?:[^\W\d]{1,64}(?!\w)|[^\w\n.!?]){1,24}[.!?]*|\w{1,64}|[\s\S]"
)
CHANGED = "0"  # in the place of a text that changes
_HEAD = 8  # bytes of a symbol that says by itself where a text is
LINE, _MOST = 2**16, 2**64 - 1  # of a symbol: that it begins a line, and the largest one
_WINDOW = 2**9  # characters of a text that are cut after a break
_WIDEST = 8  # symbols that change at one place
_BRIEF = 2  # of them, at a place that hides what follows it
_LEAST = 64  # bytes that were sent before in another item for it to matter
_DROPPED = b"0123456789abcdefABCDEF \t\r\n:-"
_LOOK_BACK = 64  # messages of a request, from its end
_TELLING, _TELLING_LOOSE = 40, 24  # characters of a message that is found again in another conversation by chance only
_BUDGET = 2**28  # bytes of prompts that are kept to compare later ones with
_OVERHEAD = 2000  # bytes that a kept prompt takes besides


class LoggedRequest:
    """A request of a log: its number from 0, its line, its body, and the items of its prompt."""

    __slots__ = ("apart", "body", "items", "line", "number", "root", "said", "text")

    def __init__(self, number: int, line: int, body: Body):
        self.number, self.line, self.body, self.text = number, line, body, body.text
        self.items: Sequence[PromptItem] = items_of(body)
        self.apart = ", ".join(body.namespace.values())
        self.root = repr(sorted(body.namespace.items()))
        messages = [item.text for item in self.items if item.part in ("messages", "prompt")]
        self.said = messages[:1] + messages[1:][-_LOOK_BACK:]  # the first message, and the last ones

    def __repr__(self) -> str:
        return f"LoggedRequest({self.number}, line {self.line})"


def _loose(text: str) -> int | None:
    """A message by its text without numbers and the letters of hexadecimal ones; `None` where that is little of it."""
    said = text.encode("utf-8", "surrogatepass").translate(None, _DROPPED)
    return hash(said) if len(said) >= max(_TELLING_LOOSE, len(text) / 2) else None


def _names(turn: LoggedRequest, ends: Sequence[str], others: Sequence[str]) -> Iterator[object]:
    """Names for a conversation: its first message with one of `ends`, one of the `others`, and the first by itself."""
    first = turn.said[0] if turn.said else ""
    for same in (hash, _loose):
        yield from (("turn", turn.root, same(first), name) for text in ends if (name := same(text)))
        yield from (("message", turn.root, name) for text in others if len(text) >= _TELLING and (name := same(text)))
    if len(first) >= _TELLING:
        yield from (("first", turn.root, name) for same in (hash, _loose) if (name := same(first)))


class Turns:
    """The requests that a later one may continue: as many of the latest as there is room for.

    >>> from minikv.traffic.bodies import read_body
    >>> turns, text = Turns(), [{"role": "user", "content": "Where is the lock of the door?"}]
    >>> for number in range(2):
    ...     turn = LoggedRequest(number, number + 1, read_body({"messages": [*text, *text][: number + 1]}))
    ...     print(turns.before(turn)); turns.add(turn)
    None
    LoggedRequest(0, line 1)
    """

    def __init__(self, budget: int = _BUDGET):
        self._budget, self._used = budget, 0
        self._kept: OrderedDict[int, tuple[LoggedRequest, list[object]]] = OrderedDict()
        self._by: dict[object, int] = {}

    def get(self, number: int | None) -> LoggedRequest | None:
        """The request of that number, if it is still kept."""
        found = self._kept.get(number) if number is not None else None
        return found[0] if found else None

    def before(self, turn: LoggedRequest, conversation: str | None = None) -> LoggedRequest | None:
        """The latest request of the same conversation, or `None` if there is none, or it is no longer kept.

        Where the log names no conversation, messages are compared as they are first, and then loosely.
        """
        if conversation is not None:
            return self.get(self._by.get(("conversation", conversation)))
        found = (self._by[key] for key in _names(turn, turn.said[::-1], turn.said[-2::-1]) if key in self._by)
        return self.get(next(found, None))

    def add(self, turn: LoggedRequest, conversation: str | None = None) -> None:
        """Keep a request; the oldest ones go where there is no room."""
        keys: list[object] = [("conversation", conversation)] if conversation is not None else []
        keys += _names(turn, turn.said[-1:], turn.said[-1:])
        self._by.update(dict.fromkeys(keys, turn.number))
        self._kept[turn.number] = (turn, keys)
        self._used += _size(turn)
        while self._used > self._budget and len(self._kept) > 1:
            number, (old, names) = self._kept.popitem(last=False)
            self._used -= _size(old)
            for key in names:
                if self._by.get(key) == number:
                    del self._by[key]


def _size(turn: LoggedRequest) -> int:
    return 4 * len(turn.text) + _OVERHEAD


_SURE, _MOSTLY = 16, 0.8  # changes of one kind at one place, and their share, after which the next are taken for it
_WHOLE = {**dict.fromkeys(TOOLS, "tools"), **dict.fromkeys(HISTORY, "messages")}  # kinds that are about a whole list
_SIGNED = 12  # characters before a break by which a place is recognized


class Break(NamedTuple):
    """Where two lists of items part: the place without the number of the message, the kind, the text in both."""

    place: str
    kind: str
    spots: tuple[Spot | None, Spot | None]
    new: bool = False  # the second has something else there, not another form of what the first has

    @property
    def harmless(self) -> bool:
        """Whether it is no fault of the prompt."""
        return KINDS[self.kind].harmless


class Breaks:
    """Finds breaks; after many of one kind at one place it takes the next ones there for the same.

    >>> from minikv.traffic.bodies import read_body
    >>> one, two = (items_of(read_body({"prompt": f"It is 14:0{n}. Now think."})) for n in range(2))
    >>> found = Breaks().between(one, two)
    >>> found.place, found.kind
    ('prompt', 'clock')
    """

    def __init__(self) -> None:
        self._seen: defaultdict[tuple[object, ...], Counter[str]] = defaultdict(Counter)

    def between(self, left: Sequence[PromptItem], right: Sequence[PromptItem]) -> Break:
        """Where two lists part, whose first items differ."""
        at = shared_length(left[0].text, right[0].text)
        spots = spot_in(left[0], at), spot_in(right[0], at)
        spot = next((one for one in spots if one and one.place.field), spots[0] or spots[1])
        place = general_place(spot.place) if spot else ""
        signed = "".join(c for c in left[0].text[max(0, at - _SIGNED) : at] if c.isalpha() or c == "\n")
        seen = self._seen[(place, signed, len(right) == 1)]
        kind, count = seen.most_common(1)[0] if seen else ("", 0)
        if count < max(_SURE, _MOSTLY * sum(seen.values())):
            kind = items_change(left, right).kind
            if kind in REGION and not similar(left[0].text, right[0].text):
                kind = "conversation"
            seen[kind] += 1
        edited = REGION if right[0].part == "prompt" else ()
        new = KINDS[kind].harmless or kind in ("shared text last", *edited)
        return Break(_WHOLE.get(kind, place), kind, spots, new)


def spot_in(item: PromptItem, at: int) -> Spot | None:
    """The place of a character of an item, or `None` at its end."""
    return spot_at(Body(item.pieces, {}, {}), at, item.text)


def general_place(place: Place) -> str:
    """A place without the number of the message, so that the same place of many requests has one name.

    A system prompt that is the first message keeps its number: a later message of that role is another place.

    >>> general_place(Place("messages", 17, "user", "content")), general_place(Place("tools", 2, "grep"))
    ('messages[*] (user), content', 'tools[*] (grep)')
    """
    leads = place.item == 0 and place.name in ("system", "developer")
    return str(place) if place.item is None or leads else str(place).replace(f"[{place.item}]", "[*]", 1)


@functools.lru_cache(64)
def symbols_of(text: str) -> tuple[int, ...]:
    """The symbols of a text.

    >>> [symbol & LENGTH for symbol in symbols_of("It is 14:05. Be brief.")]
    [6, 5, 1, 10]
    """
    return tuple(map(_symbol, _CUT.findall(text)))


def _symbol(part: str) -> int:
    size = len(part) if part.isascii() else len(part.encode(errors="replace"))
    return (hash(part) << 17 | (part[0] == "\n") << 16 | size) & _MOST


def common_run(one: Sequence[Any], two: Sequence[Any]) -> int:
    """The number of things that two lists share from their beginning.

    >>> common_run("see", "sea")
    2
    """
    return next((n for n, pair in enumerate(zip(one, two)) if pair[0] != pair[1]), min(len(one), len(two)))


def first_region(one: PromptItem, two: PromptItem) -> tuple[tuple[int, int], int, list[PromptItem]] | None:
    """Where two items first differ by a few symbols, after which they are the same again; `None` if they do not.

    Returns the key of the symbols before that place, how many symbols differ, and what is left of the two items.

    >>> from minikv.traffic.bodies import Place, PromptPiece
    >>> texts = ("Now: it is 14:05. Go.", "Now: it is 14:06. Go.")
    >>> one, two = (PromptItem("prompt", "", (PromptPiece(Place("prompt"), text),), text) for text in texts)
    >>> [item.text for item in first_region(one, two)[2]]
    ['0. Go.', '0. Go.']
    """
    at = shared_length(one.text, two.text)
    begin = max(0, one.text.rfind("\n", 0, max(0, one.text.rfind("\n", 0, at))))
    left, right = (_CUT.findall(item.text[begin : at + _WINDOW]) for item in (one, two))
    same = common_run(left, right)
    pairs = [*zip(left[same:], right[same:]), *[("", "")] * (len(left) == len(right))][: _WIDEST + 2]
    equal = [a == b for a, b in pairs]
    ends = (n for n, (a, _) in enumerate(pairs) if equal[n] and (len(a) >= _WIDEST or all(equal[n:][:2])))
    width = next(ends, 0)
    if not same or not width:
        return None
    last, head = ([0, 0, *map(_symbol, left[:same])])[-2:]
    sizes = [begin + len("".join(side[: same + width])) for side in (left, right)]
    return head_key(last, head), width, [_after(item, size) for item, size in zip((one, two), sizes)]


def head_key(last: int, head: int) -> tuple[int, int]:
    """A name for the place after two symbols: the first one does not matter where the second is long enough.

    >>> head_key(1, 5), head_key(1, 50)
    ((1, 5), (0, 50))
    """
    return 0 if head & LENGTH >= _HEAD else last, head


def _after(item: PromptItem, at: int) -> PromptItem:
    """The rest of an item after `at` characters, with a mark for what changed before it."""
    ends = zip(item.pieces, accumulate(len(piece.text) for piece in item.pieces))
    cut = [(piece, max(0, at - end + len(piece.text))) for piece, end in ends if end > at]
    pieces = [
        piece._replace(text=(CHANGED if not n else "") + piece.text[begin:]) for n, (piece, begin) in enumerate(cut)
    ]
    return item._replace(pieces=tuple(pieces), text=CHANGED + item.text[at:])


def tail_kind(one: PromptItem, two: PromptItem) -> str | None:
    """The kind of change after which `two` has text that was sent in `one` too, or `None` if that is little.

    >>> rules = "Be brief and kind. Say what you know, and nothing else. Answer in one sentence."
    >>> tail_kind(*(PromptItem("prompt", "", (), f"Where is the {what}? {rules}") for what in ("lock", "key")))
    'shared text last'
    """
    sides = [symbols_of(item.text) for item in (one, two)]
    same = common_run(*sides)
    both = {symbol for symbol in sides[0][same:] if symbol & LENGTH >= TELLING}.intersection(sides[1][same:])
    if sum(symbol & LENGTH for symbol in both) < _LEAST:
        return None
    region = first_region(one, two)
    brief = region is not None and region[1] <= _BRIEF
    kind = volatile_at(one.text, two.text, shared_length(one.text, two.text)) if brief else None
    orders = [list(dict.fromkeys(symbol for symbol in side[same:] if symbol in both)) for side in sides]
    return kind or ("order" if orders[0] != orders[1] else "shared text last")

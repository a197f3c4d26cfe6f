"""Which earlier request of a log a request continues: the one of its conversation, where the log says so or it shows.

A log seldom names conversations. But a request repeats the messages of the one before it, so the last message of that
one is among its messages. Messages are compared without digits and the letters of hexadecimal numbers, so that a clock
or an id in them does not hide the conversation.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, OrderedDict, defaultdict
from collections.abc import Sequence
from itertools import accumulate
from typing import NamedTuple

from minikv.traffic.bodies import Body, Place
from minikv.traffic.why.changes import change_between, items_change, items_of
from minikv.traffic.why.histories import PromptItem
from minikv.traffic.why.places import Spot, spot_at
from minikv.traffic.why.texts import shared_length

_DROPPED = b"0123456789abcdefABCDEF \t\r\n:-"
_LOOK_BACK = 64  # messages of a request, from its end
_TELLING = 24  # bytes of a message that is found again in another conversation by chance only
_BUDGET = 2**28  # bytes of prompts that are kept to compare later ones with
_OVERHEAD = 2000  # bytes that a kept prompt takes besides


class LoggedRequest:
    """A request of a log: its number from 0, its line, its body, and the items of its prompt."""

    __slots__ = ("body", "first", "items", "line", "number", "said", "text")

    def __init__(self, number: int, line: int, body: Body):
        self.number, self.line, self.body, self.text = number, line, body, body.text
        self.items: Sequence[PromptItem] = items_of(body)
        messages = [item for item in self.items if item.part in ("messages", "prompt")]
        self.said = [_telling(item.text) for item in messages[-_LOOK_BACK:]]  # what each message says, for comparison
        self.first = _telling(messages[0].text) if messages else b""

    def __repr__(self) -> str:
        return f"LoggedRequest({self.number}, line {self.line})"


def _telling(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass").translate(None, _DROPPED)


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
        """The latest request of the same conversation, or `None` if there is none, or it is no longer kept."""
        if conversation is not None:
            return self.get(self._by.get(("conversation", conversation)))
        said = turn.said[::-1]
        keys: list[object] = [("turn", hash(turn.first), hash(message)) for message in said]
        keys += [("message", hash(message)) for message in said[1:] if len(message) >= _TELLING]
        keys += [("first", hash(turn.first))] if len(turn.first) >= _TELLING else []
        return next((self.get(self._by[key]) for key in keys if key in self._by), None)

    def add(self, turn: LoggedRequest, conversation: str | None = None) -> None:
        """Keep a request; the oldest ones go where there is no room."""
        keys: list[object] = [("conversation", conversation)] if conversation is not None else []
        if turn.said:
            last = hash(turn.said[-1])
            keys += [("turn", hash(turn.first), last), ("message", last), ("first", hash(turn.first))]
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


_SURE = 16  # changes of one kind at one place, after which the next ones there are taken for the same kind
_WHOLE = {
    **dict.fromkeys(("tools reordered", "tool added", "tool removed", "tools changed"), "tools"),
    **dict.fromkeys(("history truncated", "history summarized", "message inserted", "message removed"), "messages"),
    "messages reordered": "messages",
}  # kinds that are about a whole list, wherever in it the first difference is
_SIGNED = 12  # characters before a break by which a place is recognized


class Break(NamedTuple):
    """Where a request parts from an earlier one: the place without the number of the message, the kind, what is lost.

    `lost` counts characters that both prompts hold after the place, which a cache would have reused otherwise.
    """

    place: str
    kind: str
    lost: int
    shared: int
    spots: tuple[Spot | None, Spot | None]


class Breaks:
    """Finds breaks; after many of one kind at one place it takes the next ones there for the same.

    >>> from minikv.traffic.bodies import read_body
    >>> one, two = (LoggedRequest(n, n + 1, read_body({"prompt": f"It is 14:0{n}. Now think."})) for n in range(2))
    >>> found = Breaks().between(one, two)
    >>> found.place, found.kind, found.lost
    ('prompt', 'clock', 12)
    """

    def __init__(self) -> None:
        self._seen: defaultdict[tuple[object, ...], Counter[str]] = defaultdict(Counter)

    def between(self, one: LoggedRequest, two: LoggedRequest) -> Break:
        """Return where `two` parts from the earlier request `one`."""
        at = shared_length(one.text, two.text)
        spots = spot_at(one.body, at, one.text), spot_at(two.body, at, two.text)
        spot = spots[0] or spots[1]
        place = general_place(spot.place) if spot else ""
        kind = self._kind(one, two, place, spot.before if spot else "")
        return Break(_WHOLE.get(kind, place), kind, lost_text(one, two, at), at, spots)

    def _kind(self, one: LoggedRequest, two: LoggedRequest, place: str, before: str) -> str:
        if one.text == two.text or two.text.startswith(one.text) or one.text.startswith(two.text):
            return change_between(one.body, two.body).kind
        signature = (place, "".join(c for c in before[-_SIGNED:] if c.isalpha() or c == "\n"), len(two.items) == 1)
        seen = self._seen[signature]
        if len(seen) == 1 and (known := next(iter(seen.items())))[1] >= _SURE:
            return known[0]
        found = items_change(one.items, two.items)
        seen[found.kind] += 1
        return found.kind


def general_place(place: Place) -> str:
    """A place without the number of the message, so that the same place of many requests has one name.

    A system prompt that is the first message keeps its number: a later message of that role is another place.

    >>> general_place(Place("messages", 17, "user", "content")), general_place(Place("tools", 2, "grep"))
    ('messages[*] (user), content', 'tools[*] (grep)')
    """
    leads = place.item == 0 and place.name in ("system", "developer")
    return str(place) if place.item is None or leads else str(place).replace(f"[{place.item}]", "[*]", 1)


def lost_text(one: LoggedRequest, two: LoggedRequest, at: int) -> int:
    """Characters of `two` after character `at`, where it parts from `one`, that are in `one` too, after `at`."""
    ends = list(accumulate(len(item.text) for item in two.items))
    number = bisect_right(ends, at)
    if number == len(ends):
        return 0
    begin = ends[number] - len(two.items[number].text)
    left = Counter(item.text for item in one.items[number:])
    lost = 0
    for item in two.items[number:]:
        if left[item.text] > 0:
            left[item.text] -= 1
            lost += len(item.text)
    broken = two.items[number].text
    if number < len(one.items) and broken != one.items[number].text and left[one.items[number].text] > 0:
        inside = at - begin
        lost += shared_length(one.items[number].text[inside:][::-1], broken[inside:][::-1])
    return lost

"""The earlier request of a log that a request continues: one of its conversation, as messages show or the log says.

A log seldom names conversations. But a request repeats the messages of the one before it, including the last one.
Messages are compared as they are. If none is found, they are compared without digits and the letters of hexadecimal
numbers: then a clock or an id in them does not hide the conversation.

If the log names sessions, messages are looked for in the same session first. Where they show nothing, the request
continues the latest one of its session. But a session may hold many conversations: all those of a user, or of a day.
It is believed until one of its requests begins another conversation, or continues another request than the latest.
"""

from __future__ import annotations

from collections import Counter, OrderedDict, defaultdict
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from minikv_tools.bodies import Body
from minikv_tools.pieces import Items, Place, PromptItem
from minikv_tools.why.changes import KINDS, items_change, items_of
from minikv_tools.why.places import Spots
from minikv_tools.why.symbols import CHANGED, LENGTH, TELLING, size_of, spot_in, symbols_of
from minikv_tools.why.texts import BESIDE, VOLATILE, shared_length

TOOLS = ("tools reordered", "tool added", "tool removed", "tools changed")
HISTORY = ("history truncated", "history summarized", "message removed", "message inserted", "messages reordered")
ANSWERS = ("assistant", "tool", "function")
REGION = ("system edited", "text edited")

SessionName = tuple[str, str]  # the name of a field, and the id in it

_DROPPED = b"0123456789abcdefABCDEF \t\r\n:-"
_LOOK_BACK = 64  # messages of a request, from its end
_TELLING, _TELLING_LOOSE = 40, 24  # characters of a message that is found again in another conversation by chance only
_BUDGET = 2**28  # bytes of prompts that are kept to compare later ones with
_OVERHEAD = 2000  # bytes that a kept prompt takes besides
_TABLE = 2**19  # symbols of which the latest request is known


class LoggedRequest:
    """A request of a log: its number from 0, its line, its body, and the items of its prompt.

    The first `same` items are all those of the request that it continues, in the same namespace. It is `answered` if it
    has an answer of the model. Its text has `size` bytes, and ends at the node `end` of its tree; until it is put in,
    these are those of its beginning that is there.
    """

    __slots__ = ("answered", "apart", "body", "end", "items", "line", "number", "root", "said", "same", "size", "text")

    def __init__(self, number: int, line: int, body: Body):
        self.number, self.line, self.body, self.text = number, line, body, body.text
        self.items: Items = items_of(body)
        self.apart = ", ".join(body.namespace.values())
        self.root = ~(hash(repr(sorted(body.namespace.items()))) % 2**62)  # below 0, unlike a text
        messages = [item.text for item in self.items if item.part in ("messages", "prompt")]
        self.said = *messages[:1], *messages[1:][-_LOOK_BACK:]  # the first message, and the last ones
        self.answered = "assistant" in [item.name for item in self.items]
        self.same = self.size = self.end = 0

    def messages(self, end: int) -> list[str]:
        """The messages before item `end`."""
        return [item.text for item in self.items[:end] if item.part == "messages"]


def _loose(text: str) -> int | None:
    """A message by its text without numbers and the letters of hexadecimal ones; `None` where that is little of it."""
    said = text.encode("utf-8", "surrogatepass").translate(None, _DROPPED)
    return hash(said) if len(said) >= max(_TELLING_LOOSE, len(text) / 2) else None


def _names(turn: LoggedRequest, ends: Sequence[str], others: Sequence[str]) -> Iterator[object]:
    """Names for a conversation: one of `ends` with the one before it, or with the first, one of `others`, the first.

    Two messages in a row are in two conversations by chance only.
    """
    first = turn.said[0] if turn.said else ""
    yield from ((turn.root, hash(pair)) for pair in zip(ends, turn.said[-2::-1]))
    telling = [text for text in others if len(text) >= _TELLING]
    for same in (hash, _loose):
        for begin, texts in ((same(first), ends), ("", telling)):
            yield from ((turn.root, begin, name) for name in filter(None, map(same, texts)))
    if len(first) >= _TELLING:
        yield from ((turn.root, name) for name in filter(None, (hash(first), _loose(first))))


class Turns:
    """The requests that a later one may continue: as many of the latest as there is room for.

    >>> from minikv_tools.bodies import read_body
    >>> turns, text = Turns(), [{"role": "user", "content": "Where is the lock of the door?"}]
    >>> for number in range(2):
    ...     turn = LoggedRequest(number, number + 1, read_body({"messages": [*text, *text][: number + 1]}))
    ...     before = turns.before(turn); print(before and before.number); turns.add(turn)
    None
    0
    """

    def __init__(self, budget: int = _BUDGET):
        self._budget, self._used = budget, 0
        self._kept: OrderedDict[int | None, tuple[LoggedRequest, list[object]]] = OrderedDict()
        self._by: dict[object, int] = {}
        self._mixed = set[SessionName]()  # sessions that hold several conversations
        self.believed = Counter[str]()  # requests that continue the latest one of their session, by the field's name
        self._seen = set[int]()  # items
        self._latest: dict[int, tuple[int, int]] = {}  # of a symbol: the request that was the last to send it as new,
        self._older: dict[int, tuple[int, int]] = {}  # and in which item

    def get(self, number: int | None) -> LoggedRequest | None:
        """The request of that number, if it is still kept."""
        found = self._kept.get(number)
        return found[0] if found else None

    def before(self, turn: LoggedRequest, session: SessionName | None = None) -> LoggedRequest | None:
        """The latest request of the same conversation, or `None` if there is none, or it is no longer kept.

        `session` is the field in which the log names a session, and its id: the latest request of it may have another
        model.
        """
        keys = dict.fromkeys((session, None))
        names = ((key, name) for key in keys for name in _names(turn, turn.said[::-1], turn.said[-2::-1]))
        found = self.get(next((self._by[name] for name in names if name in self._by), None))
        latest = None if session in self._mixed else self.get(self._by.get((session, "latest")))
        if session and latest:
            alike = latest.said[:1] == turn.said[:1]
            goes_on = found in (None, latest) and (alike or turn.answered)
            if goes_on or (alike and latest.root != turn.root):
                self.believed[session[0]] += 1
                return latest
            self._mixed.add(session)
        return found

    def earlier(self, item: PromptItem) -> tuple[int, int] | None:
        """The latest request, and which of its items, that was the last to have most of the text of an item."""
        votes = Counter[tuple[int, int]]()
        for symbol in symbols_of(item.text) if _asks(item) else ():
            if (found := self._latest.get(symbol, self._older.get(symbol))) is not None:
                votes[found] += symbol & LENGTH
        return max(votes, key=lambda found: (votes[found], found), default=None)

    def add(self, turn: LoggedRequest, session: SessionName | None = None) -> None:
        """Keep a request; the oldest ones go where there is no room."""
        for at, item in enumerate(turn.items[turn.same :], turn.same):
            if hash(item.text) not in self._seen:
                self._seen.add(hash(item.text))
                telling = (
                    [symbol for symbol in symbols_of(item.text) if symbol & LENGTH >= TELLING] if _asks(item) else ()
                )
                self._latest.update(dict.fromkeys(telling, (turn.number, at)))
        if len(self._latest) > _TABLE:
            self._latest, self._older = {}, self._latest
        names = [*_names(turn, turn.said[-1:], turn.said[-1:]), "latest"]
        keys: list[object] = [(key, name) for key in {session, None} for name in names]
        self._by.update(dict.fromkeys(keys, turn.number))
        self._kept[turn.number] = (turn, keys)
        self._used += _room(turn)
        while self._used > self._budget and len(self._kept) > 1:
            number, (old, names) = self._kept.popitem(last=False)
            self._used -= _room(old)
            for key in names:
                if self._by.get(key) == number:
                    del self._by[key]


def _asks(item: PromptItem) -> bool:
    return item.part in ("messages", "prompt") and item.name not in ANSWERS


def _room(turn: LoggedRequest) -> int:
    return 4 * len(turn.text) + _OVERHEAD


_SURE, _MOSTLY = 16, 0.8  # changes of one kind at one place, and their share, after which the next are taken for it
_WHOLE = {**dict.fromkeys(TOOLS, "tools"), **dict.fromkeys(HISTORY, "messages")}  # kinds that are about a whole list
_ALIKE = 0.3  # of an item that must be in another one for the two to be versions of one
_SIGNED = 12  # characters before a break by which a place is recognized


class Break(NamedTuple):
    """Where two lists of items part: the place without the number of the message, the kind, the text in both."""

    place: str
    kind: str
    spots: Spots
    new: bool = False  # the second has something else there, not another form of what the first has

    @property
    def harmless(self) -> bool:
        """Whether it is no fault of the prompt."""
        return KINDS[self.kind].harmless


class Breaks:
    """Finds breaks; after many of one kind at one place it takes the next ones there for the same.

    >>> from minikv_tools.bodies import read_body
    >>> one, two = (items_of(read_body({"prompt": f"It is 14:0{n}. Now think."})) for n in range(2))
    >>> found = Breaks().between(one, two)
    >>> found.place, found.kind
    ('prompt', 'clock')
    """

    def __init__(self) -> None:
        self._seen: defaultdict[tuple[object, ...], Counter[str]] = defaultdict(Counter)

    def between(self, left: Items, right: Items, head: Items = (), last: str = "") -> Break:
        """Where two lists part, whose first items differ; `head` has the item before them, if there is one.

        `last` is the kind of change that was fixed before: an edit shortly after a clock, an id or a number is a part
        of that.
        """
        at = shared_length(left[0].text, right[0].text)
        spots = spot_in(left[0], at), spot_in(right[0], at)
        spot = next((one for one in spots if one and one.place.field), spots[0] or spots[1])
        place = general_place(spot.place) if spot else ""
        signed = "".join(c for c in left[0].text[max(0, at - _SIGNED) : at] if c.isalpha() or c == "\n")
        seen = self._seen[(place, signed, len(right) == 1, *(item.part for item in head))]
        kind, count = seen.most_common(1)[0] if seen else ("", 0)
        if count < max(_SURE, _MOSTLY * sum(seen.values())):
            asked = len(left) == len(right) == 1 and left[0].name == right[0].name == "user"
            kind = (
                "question" if asked and not _alike(left, right) else items_change([*head, *left], [*head, *right]).kind
            )
            if kind in REGION and not _alike(left, right):
                kind = "conversation"
            seen[kind] += 1
        if kind in REGION and last in VOLATILE and left[0].text.startswith(CHANGED) and at <= BESIDE:
            kind = last
        edited = REGION if right[0].part == "prompt" else ()
        new = KINDS[kind].harmless or kind in ("shared text last", *edited)
        return Break(_WHOLE.get(kind, place), kind, spots, new)


def _alike(left: Items, right: Items) -> bool:
    """Whether the first items of two lists may be versions of one."""
    sides = {*symbols_of(left[0].text)}, {*symbols_of(right[0].text)}
    return size_of(sides[0] & sides[1]) >= _ALIKE * max(map(size_of, sides))


def general_place(place: Place) -> str:
    """A place without the number of the message, so that the same place of many requests has one name.

    A system prompt that is the first message keeps its number: a later message of that role is another place.

    >>> general_place(Place("messages", 17, "user", "content")), general_place(Place("tools", 2, "grep"))
    ('messages[*] (user), content', 'tools[*] (grep)')
    """
    leads = place.item == 0 and place.name in ("system", "developer")
    return str(place) if place.item is None or leads else str(place).replace(f"[{place.item}]", "[*]", 1)

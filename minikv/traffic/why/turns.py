"""Which earlier request of a log a request continues: the one of its conversation, where the log says so or it shows.

A log seldom names conversations. But a request repeats the messages of the one before it, so the last message of that
one is among its messages. Messages are compared without digits and the letters of hexadecimal numbers, so that a clock
or an id in them does not hide the conversation.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

from minikv.traffic.bodies import Body
from minikv.traffic.why.changes import PromptItem, items_of

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

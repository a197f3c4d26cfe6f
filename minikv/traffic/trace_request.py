"""One request of a trace, the limits of what a trace may say, and how a line that breaks them is named."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple, TypeVar

from minikv.errors import bounded
from minikv.tokens import PackedTokens

LONGEST_LINE = 2**24  # bytes: two million blocks, or a prompt of a billion tokens
MOST_BLOCKS = 2**21  # of a request: what a line has room for
LARGEST = 2**53  # up to which a float holds every integer
MOST_BLANK_LINES = 2**20  # of a trace: more would take time, and say nothing
LONGEST_NAME = 200  # characters of the name of a session
_Parsed = TypeVar("_Parsed")


class TraceError(ValueError):
    """A trace that cannot be read, or a line of it that is not a request; the message says where and why."""


class TraceRequest(NamedTuple):
    """One request of a trace: when it came (ms), its lengths in tokens, and its prompt's blocks, packed.

    Two prompts share their first n blocks where their first n ids are equal. `conversation` numbers the conversations
    of the trace from 0, and is `None` where the trace does not tell them apart.
    """

    timestamp: float
    input_length: int
    output_length: int
    blocks: PackedTokens
    conversation: int | None = None


class Conversations:
    """Numbers for the names of conversations, in the order in which the names first appear.

    >>> number = Conversations()
    >>> number("b"), number("a"), number("b"), number(None)
    (0, 1, 0, None)
    """

    def __init__(self) -> None:
        self._numbers: dict[str | int, int] = {}

    def __call__(self, name: Any) -> int | None:
        """The number of the conversation `name`, a string or an integer; `None` has none."""
        if name is None:
            return None
        known = isinstance(name, (str, int)) and not isinstance(name, bool)
        if not known or (len(name) > LONGEST_NAME if isinstance(name, str) else abs(name) > LARGEST):
            rule = f"a string of at most {LONGEST_NAME} characters or a whole number"
            raise ValueError(f"the name of the conversation is {bounded(name)}: expected {rule}")
        return self._numbers.setdefault(name, len(self._numbers))


def located(
    name: str, lines: Iterable[bytes | str], parse: Callable[[bytes | str], _Parsed], start: int = 1
) -> Iterator[_Parsed]:
    """What `parse` makes of each line but blank ones; its error becomes a `TraceError` with the number of the line.

    `start` is the number of the first line.

    >>> list(located("t.jsonl", ["1", " ", "x"], int))
    Traceback (most recent call last):
    minikv.traffic.trace_request.TraceError: t.jsonl, line 3: invalid literal for int() with base 10: 'x'
    """
    blank = 0
    for number, line in enumerate(lines, start):
        if not line.strip():
            if (blank := blank + 1) > MOST_BLANK_LINES:
                raise TraceError(f"{name}, line {number}: over {MOST_BLANK_LINES:,} lines are blank")
            continue
        try:
            if len(line) > LONGEST_LINE:
                raise ValueError(f"the line has over {LONGEST_LINE} bytes: expected a request of fewer")
            found = parse(line)
        except (TypeError, ValueError) as error:
            raise TraceError(f"{name}, line {number}: {error}") from None
        yield found


def number_field(entry: dict[str, Any], key: str, fraction: bool = False) -> Any:
    """The number `key` of a line, from 0 to 2**53 and whole unless it may be a `fraction`; else a `ValueError`.

    >>> number_field({"input_length": 12.5}, "input_length")
    Traceback (most recent call last):
    ValueError: input_length is 12.5: expected a whole number from 0 to 2**53
    """
    if key not in entry:
        raise ValueError(f"there is no {key}")
    value = entry[key]
    kinds = (int, float) if fraction else (int,)
    if not isinstance(value, kinds) or isinstance(value, bool) or not 0 <= value <= LARGEST:
        raise ValueError(f"{key} is {bounded(value)}: expected a {'' if fraction else 'whole '}number from 0 to 2**53")
    return value

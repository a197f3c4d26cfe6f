"""One line of a scenario on one object: each call of a verb is recorded, with its outcome and what was read of it."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from types import CodeType
from typing import Any

from minikv.errors import bounded
from minikv.testing.attempt import Outcome, attempt
from minikv.testing.scenarios import NAMES

Change = Callable[[str, tuple[Any, ...], dict[str, Any]], tuple[tuple[Any, ...], dict[str, Any]]]


class UnreadableError(TypeError):
    """An answer does not have the form that the contract promises; the message says what is there instead."""


def read_number(value: Any, what: str) -> int:
    """A whole number, of any type that is one.

    >>> read_number(True, "length")
    Traceback (most recent call last):
    minikv.testing.calls.UnreadableError: length is True: expected a whole number
    """
    if hasattr(value, "__index__") and not isinstance(value, bool):
        return operator.index(value)
    raise UnreadableError(f"{what} is {bounded(value)}: expected a whole number")


def read_pages(values: Any, what: str = "the result") -> list[int]:
    """Pages as a list of whole numbers: from a list, a tuple, an array, a tensor.

    >>> import numpy as np
    >>> read_pages(np.array([3, 4])), read_pages(())
    ([3, 4], [])
    """
    listed = values.tolist() if hasattr(values, "tolist") else values
    if not isinstance(listed, Iterable) or isinstance(listed, (str, bytes, dict)):
        raise UnreadableError(f"{what} is {bounded(values)}: expected a sequence of pages")
    return [read_number(value, f"{what}[{i}]") for i, value in enumerate(listed)]


def _reader(**fields: Callable[[Any, str], Any]) -> Callable[[Any], Any]:
    def read(result: Any) -> dict[str, Any]:
        if not all(hasattr(result, name) for name in fields):
            raise UnreadableError(f"the result is {bounded(result)}: expected an object with {' and '.join(fields)}")
        return {name: read_field(getattr(result, name), name) for name, read_field in fields.items()}

    return read


_match = _reader(length=read_number, pages=read_pages)
_READERS = {
    "match_prefix": _match, "acquire": _match, "evict": read_pages,
    "insert": _reader(prefix_length=read_number, length=read_number),
}  # fmt: skip


@dataclass(frozen=True)
class Reply(Outcome):
    """The outcome of a call of `verb`: its `result`, and the `value` that was read from it."""

    verb: str = ""
    args: tuple[Any, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)
    result: Any = None


class Recorder:
    """The names that lines know; `cache` passes each call on to `thing`, for so many `seconds`, and keeps its `reply`.

    >>> from minikv import RadixCache
    >>> world = Recorder(RadixCache())
    >>> world.step("cache.insert([1, 2], [5, 6])").value, world.step("cache.match_prefix([1])").value["pages"]
    ({'prefix_length': 0, 'length': 2}, [5])
    """

    def __init__(self, thing: Any, make: Any = None, change: Change | None = None, seconds: float | None = None):
        self.thing, self.change, self.seconds = thing, change, seconds
        self.reply: Reply | None = None
        self.names = {**NAMES, "cache": _Caller(self, thing), "new": lambda: _Caller(self, make())}

    def call(self, thing: Any, verb: str, *args: Any, **options: Any) -> Any:
        """Call a verb as `change` says, keep the reply, and end as the call does."""
        if self.change is not None:
            args, options = self.change(verb, args, options)
        results: list[Any] = []

        def act() -> Any:
            results.append(getattr(thing, verb)(*args, **options))
            return _READERS[verb](results[0]) if verb in _READERS else None

        done = attempt(act, seconds=self.seconds)
        if thing is self.thing:
            self.reply = Reply(done.value, done.error, done.printed, verb, args, options, *results)
        if done.error is not None:
            raise done.error
        return results[0]

    def step(self, line: str) -> Reply | None:
        """Run one line; what the last call of `thing` in it came to, or `None` if there is none."""
        self.reply = None
        try:
            exec(_compiled(line), self.names)
        except KeyboardInterrupt:
            raise
        except BaseException:  # of a call: it is in the reply; of the line itself: a name that an error left out
            pass
        return self.reply


class _Caller:
    """The thing that a line calls `cache`."""

    def __init__(self, world: Recorder, thing: Any):
        self._world, self._thing = world, thing

    def __getattr__(self, verb: str) -> Any:
        return functools.partial(self._world.call, self._thing, verb)


@functools.lru_cache(4096)
def _compiled(line: str) -> CodeType:
    return compile(line, "<scenario>", "exec")


def is_named(error: BaseException | None, *names: str) -> bool:
    """Return whether an error is of a class with one of these names, of this package or of another.

    >>> from minikv import LockError
    >>> is_named(LockError("stale"), "LockError"), is_named(KeyError(3), "LockError")
    (True, False)
    """
    return any(each.__name__ in names for each in type(error).__mro__)


def differing(got: dict[str, Any], want: dict[str, Any]) -> str:
    """Two answers in words.

    >>> differing({"length": 0, "pages": []}, {"length": 1, "pages": [5]})
    'finds nothing, expected length 1 and pages [5]'
    """
    seen, right = (" and ".join(f"{name} {value}" for name, value in each.items()) for each in (got, want))
    return f"{'finds nothing' if got == {'length': 0, 'pages': []} else f'gives {seen}'}, expected {right}"

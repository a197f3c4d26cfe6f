"""One line of a scenario on one object: each call of a verb is recorded, with its outcome and what was read of it."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import Any

from minikv.errors import bounded
from minikv.testing.attempt import Outcome, attempt
from minikv.testing.scenarios import NAMES

Change = Callable[[str, tuple[Any, ...], dict[str, Any]], tuple[tuple[Any, ...], dict[str, Any]]]
_FIELDS = {"match_prefix": ("length", "pages"), "acquire": ("length", "pages"), "insert": ("prefix_length", "length")}
_compiled = lru_cache(4096)(partial(compile, filename="<scenario>", mode="exec"))


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


def _read(verb: str, result: Any) -> Any:
    """The result of a verb as far as the contract promises it, in whole numbers."""
    if verb == "evict":
        return read_pages(result)
    names = _FIELDS.get(verb, ())
    if not all(hasattr(result, name) for name in names):
        raise UnreadableError(f"the result is {bounded(result)}: expected an object with {' and '.join(names)}")
    reads = {name: read_pages if name == "pages" else read_number for name in names}
    return {name: read(getattr(result, name), name) for name, read in reads.items()} or None


@dataclass(frozen=True)
class Reply(Outcome):
    """The outcome of a call of `verb`: its `result`, and the `value` that was read from it."""

    verb: str = ""
    args: tuple[Any, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)
    result: Any = None


class Recorder:
    """The `cache` of lines: it passes each call of a verb on to `thing`, and keeps the `reply`.

    >>> from minikv import RadixCache
    >>> world = Recorder(RadixCache())
    >>> world.step("cache.insert([1, 2], [5, 6])").value, world.step("cache.match_prefix([1])").value["pages"]
    ({'prefix_length': 0, 'length': 2}, [5])
    """

    def __init__(self, thing: Any, make: Any = None, change: Change | None = None):
        self.thing, self.change, self.reply = thing, change, Reply()
        self.names = {**NAMES, "cache": self, "new": lambda: Recorder(make(), change=change)}

    def __getattr__(self, verb: str) -> Any:
        return partial(self.call, verb)

    def call(self, verb: str, *args: Any, **options: Any) -> Any:
        """Call a verb as `change` says, and keep the reply; where the call raises there is no result."""
        if self.change is not None:
            args, options = self.change(verb, args, options)

        def act() -> Any:
            result = getattr(self.thing, verb)(*args, **options)
            return result, _read(verb, result)

        done = attempt(act)
        result, value = done.value or (None, None)
        self.reply = Reply(value, done.error, verb=verb, args=args, options=options, result=result)
        if done.error is not None:
            raise LookupError("no result")
        return result

    def step(self, line: str) -> Reply:
        """Run one line; what its last call came to, or an empty reply if there is none."""
        self.reply = Reply()
        with suppress(Exception):  # of a call: it is in the reply; of the line itself: a name that an error left out
            exec(_compiled(line), self.names)
        return self.reply


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

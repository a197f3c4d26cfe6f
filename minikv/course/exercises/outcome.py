"""What a call of an answer comes to: run it on copies, show it in a few characters, compare it with another.

An answer may do anything: raise, return nonsense, change its arguments, loop forever. None of that gets out of
here, except for a call into C that never returns.
"""

from __future__ import annotations

import builtins
import copy
import io
import re
import reprlib
import sys
from array import array
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from minikv.testing.time_limit import TimeLimit, TooLong

MOST_SECONDS = 3.0  # for one case; an answer needs thousandths of that
_MOST_PRINTED = 10_000  # letters that are kept of what a case prints
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")
_SHORT = reprlib.Repr()
_SHORT.maxlist = _SHORT.maxtuple = _SHORT.maxarray = _SHORT.maxdict = 12
_SHORT.maxstring = _SHORT.maxother = 60


@dataclass(frozen=True)
class Outcome:
    """What one call came to: a value, or the error that it raised; and what it printed.

    `NotImplementedError` means not attempted.
    """

    value: Any = None
    error: BaseException | None = None
    printed: str = ""

    @property
    def attempted(self) -> bool:
        """Whether the code was there to run."""
        return not isinstance(self.error, NotImplementedError)

    def agrees(self, expected: Outcome) -> bool:
        """Whether this is what was `expected`: an equal value, or an error of that kind."""
        if expected.error is not None:
            return self.error is not None and isinstance(self.error, type(expected.error))
        return self.error is None and agree(self.value, expected.value)

    def __str__(self) -> str:
        if isinstance(self.error, TooLong):
            return "no end"
        if self.error is None:
            return shown(self.value)
        words = _ADDRESS.sub("", _printable(str(self.error))).split("\n")[0][:90]
        return f"{type(self.error).__name__}{f' ({words})' if words else ''}"


def shown(value: Any) -> str:
    """`value` in a few characters, whatever it is.

    >>> shown(list(range(100))), shown("a" * 100)[:9], shown((1, None))
    ('[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, ...]', "'aaaaaaaa", '(1, None)')
    """
    try:
        if isinstance(value, (set, frozenset)):  # in an order that does not depend on hashes
            return f"{{{', '.join(sorted(map(shown, value)))}}}" if value else "set()"
        return " ".join(_ADDRESS.sub("", _SHORT.repr(_without_arrays(value))).split())
    except BaseException:  # a learner's own __repr__ may do anything
        return f"a {type(value).__name__} that cannot be shown"


def arguments(args: Iterable[Any]) -> str:
    """Arguments as they are written in a call.

    >>> arguments((3, [1, 2]))
    '(3, [1, 2])'
    """
    return f"({', '.join(shown(arg) for arg in args)})"


def run(answer: Callable[..., Any], args: tuple[Any, ...]) -> Outcome:
    """Call `answer` on copies of `args`, quietly, and for `MOST_SECONDS` at the most; never raises.

    >>> str(run(max, ([3, 5],))), str(run(max, ([],)))[:10]
    ('5', 'ValueError')
    """
    saved, limit, said = (sys.stdout, sys.stderr, sys.getrecursionlimit()), TimeLimit(MOST_SECONDS), _Output()
    names = dict(vars(builtins))
    try:
        sys.stdout = sys.stderr = said
        builtins.input = _nobody_answers
        limit.start()
        value = answer(*copy.deepcopy(args))
        return Outcome(value, printed=_said(said))
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # also SystemExit, and whatever else a learner raises
        limit.stop()  # before anything that takes time
        return Outcome(error=error, printed=_said(said))
    finally:
        builtins.__dict__.update(names)  # even where the answer has deleted `vars`
        sys.setrecursionlimit(saved[2])
        sys.stdout, sys.stderr, _ = saved
        limit.stop()


class _Output(io.StringIO):
    """What an answer prints: the beginning is kept, and a loop that prints fills no memory."""

    def write(self, text: str) -> int:
        """Keep `text` while there is little of it."""
        if self.tell() < _MOST_PRINTED:
            super().write(text[:_MOST_PRINTED])
        return len(text)


def _said(output: io.StringIO) -> str:
    return "" if output.closed else _printable(output.getvalue())


def _printable(text: str) -> str:
    """`text` with a question mark for each surrogate, which no output can encode."""
    return text.encode("utf-8", "replace").decode("utf-8")


def _nobody_answers(prompt: object = "") -> str:
    raise EOFError("nobody answers input() here")


def _without_arrays(value: Any) -> Any:
    """Arrays and their numbers as plain Python; a tuple stays a tuple."""
    if isinstance(value, (np.ndarray, np.generic, array)) or type(value).__module__.split(".")[0] == "torch":
        return value.tolist() if hasattr(value, "tolist") else value
    if isinstance(value, (list, tuple)):
        items = [_without_arrays(item) for item in value]
        return tuple(items) if isinstance(value, tuple) else items
    return value


def _plain(value: Any) -> Any:
    """Numbers and sequences as plain Python, so that a tuple, a list and an array of the same numbers agree."""
    value = _without_arrays(value)
    return [_plain(item) for item in value] if isinstance(value, (list, tuple)) else value


def agree(got: Any, expected: Any) -> bool:
    """Whether two values are equal, whatever they are: a tuple, a list and an array of the same numbers are.

    >>> agree((1, 2), np.array([1, 2])), agree(1.0, 1)
    (True, False)
    """
    try:
        got, expected = _plain(got), _plain(expected)
        if isinstance(got, list) and isinstance(expected, list):
            return len(got) == len(expected) and all(map(agree, got, expected))
        if callable(got) and callable(expected):
            return True  # two methods, say, in the place of a number: neither is an answer
        if isinstance(got, float) != isinstance(expected, float):
            return False  # whole numbers are whole
        return bool(got == expected)
    except BaseException:  # a learner's own __eq__ may do anything
        return False


def kind_of(value: Any) -> str:
    """What kind of thing an answer has returned, in words.

    >>> kind_of((1, 2)), kind_of(3.5), kind_of({1})
    ('a list', 'a number', 'a set')
    """
    value = _plain(value)
    if isinstance(value, (int, float)):
        return "a number"
    name = "list" if isinstance(value, list) else type(value).__name__
    return f"a{'n' if name[0].lower() in 'aeiou' else ''} {name}"

"""The outcome of calling unknown code: run it on copies, show it in a few characters, compare it with another.

The code may do anything: raise, return nonsense, change its arguments, loop forever, also while its values are compared
and shown. None of that gets out of here, except for Ctrl-C, and for a call into C that never returns.
"""

from __future__ import annotations

import builtins
import copy
import dis
import io
import re
import reprlib
import sys
from array import array
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from minikv.errors import bounded, truncated
from minikv.files import IN_BROWSER
from minikv.testing.time_limit import TimeLimit as TimeLimit
from minikv.testing.time_limit import TooLong as TooLong

PACKAGE = Path(__file__).parent.parent
_JUDGE = {PACKAGE / "testing", PACKAGE / "course" / "pieces"}  # whose code judges
MOST_SECONDS = 3.0  # for one call; it needs thousandths of that
_MOST_NESTED = 400 if IN_BROWSER else 10**9  # calls: a browser's stack is small, and to fill it ends the kernel
_MOST_PRINTED = 10_000  # letters that are kept of what a call prints
_BUILT_IN = (str, int, bool, type(None))  # whose comparisons run nobody's code
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")
_SHORT = reprlib.Repr()
_SHORT.maxlist = _SHORT.maxtuple = _SHORT.maxarray = _SHORT.maxdict = 12
_SHORT.maxstring = _SHORT.maxother = 60


@dataclass(frozen=True)
class Outcome:
    """The outcome of one call: a value, or the error that it raised; and the text that it printed."""

    value: Any = None
    error: BaseException | None = None
    printed: str = ""

    @property
    def in_words(self) -> str:
        """The rest of a sentence about the call: it gives a value, raises an error, or did not finish."""
        if isinstance(self.error, TooLong):
            return f"did not finish within {MOST_SECONDS:g} seconds"
        if self.error is None:
            return f"gives {attempt(lambda: bounded(self.value)).value}"
        said = error_text(self.error, 80)
        return f"raises {type(self.error).__name__}" + (f" ({said})" if said else "")

    def __str__(self) -> str:
        if isinstance(self.error, TooLong):
            return f"no result within {MOST_SECONDS:g} seconds"
        if self.error is None:
            return short_repr(self.value)
        words = error_text(self.error)
        return f"{type(self.error).__name__}{f' ({words})' if words else ''}"


def attempt(act: Callable[..., Any], args: tuple[Any, ...] = (), seconds: float | None = None) -> Outcome:
    """Call `act` on copies of `args`, quietly, for `seconds` (`MOST_SECONDS`) at most; never raises, but for Ctrl-C.

    >>> str(attempt(max, ([3, 5],))), str(attempt(max, ([],)))[:10]
    ('5', 'ValueError')
    """
    saved, limit = (sys.stdout, sys.stderr, sys.getrecursionlimit()), TimeLimit(seconds or MOST_SECONDS)
    names, printed = dict(vars(builtins)), _Printed()
    try:
        try:
            limit.start()
            _shut_off(printed)
            outcome = Outcome(act(*copy.deepcopy(args)), printed=printed.text)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # also SystemExit, and whatever else somebody raises
            outcome = Outcome(error=error, printed=printed.text)
        limit.stop()
    except TooLong as late:  # it landed when the call was over
        outcome = Outcome(error=late, printed=printed.text)
    finally:
        try:  # first of all: until then another one may land anywhere
            limit.stop()
        except TooLong:
            limit.stop()
        builtins.__dict__.update(names)  # even where the code has deleted `vars`
        sys.setrecursionlimit(saved[2])
        sys.stdout, sys.stderr, _ = saved
    return outcome


def _shut_off(printed: io.StringIO) -> None:
    """Let what is printed go to `printed`, nobody answer, and calls be nested no deeper than the stack holds."""
    sys.stdout = sys.stderr = printed
    builtins.input = _nobody_answers
    sys.setrecursionlimit(min(sys.getrecursionlimit(), _MOST_NESTED))


@contextmanager
def held(modules: Iterable[dict[str, Any]]) -> Iterator[None]:
    """While it is open, code may replace names of these modules: afterward they are what they were.

    >>> with held([names := {"agree": 1}]):
    ...     names["agree"] = 2
    >>> names
    {'agree': 1}
    """
    before = [(module, dict(module)) for module in modules]
    try:
        yield
    finally:
        for module, names in before:
            module.update(names)


def is_own(error: BaseException) -> bool:
    """Return whether a `raise` outside the package made an error."""
    trace = _innermost(error)
    if trace is None or PACKAGE in Path(trace.tb_frame.f_code.co_filename).parents:
        return False
    return dis.opname[trace.tb_frame.f_code.co_code[trace.tb_lasti]] == "RAISE_VARARGS"


def is_judges(error: BaseException) -> bool:
    """Return whether an error was raised in the judge's own code, which no answer can help.

    A stand-in that counts passes on what the plain method raises, and time and stack may end anywhere: these are not.
    """
    trace = _innermost(error)
    if trace is None or isinstance(error, TooLong | RecursionError | MemoryError):
        return False
    code = trace.tb_frame.f_code
    return not _JUDGE.isdisjoint(Path(code.co_filename).parents) and code.co_name != "look"


def _innermost(error: BaseException) -> TracebackType | None:
    """The place in the traceback where an error was raised."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return trace


class _Printed(io.StringIO):
    """The printed output of a call: only the beginning is kept, so a loop that prints fills no memory."""

    def write(self, text: str) -> int:
        """Keep `text` while there is little of it."""
        if self.tell() < _MOST_PRINTED:
            super().write(text[:_MOST_PRINTED])
        return len(text)

    @property
    def text(self) -> str:
        """The kept text, in a form that an output can encode."""
        return "" if self.closed else _encodable(self.getvalue())


def _nobody_answers(prompt: object = "") -> str:
    raise EOFError("nobody answers input() here")


def _encodable(text: str) -> str:
    """`text` with a question mark for each surrogate, which no output can encode."""
    return text.encode("utf-8", "replace").decode("utf-8")


def error_text(error: BaseException, most: int = 90) -> str:
    """The text of an error on one line of at most `most` characters, whatever its class does when asked for it.

    >>> error_text(KeyError(3)), error_text(ValueError("far too much"), most=7)
    ('3', 'far to…')
    """
    asked = attempt(lambda: " ".join(_ADDRESS.sub("", _encodable(str(error))).split()))
    return truncated(asked.value if asked.error is None else "an error that cannot be shown", most)


def short_repr(value: Any) -> str:
    """`value` in a few characters, whatever it is.

    >>> short_repr(list(range(100))), short_repr("a" * 100)[:9], short_repr((1, None))
    ('[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, ...]', "'aaaaaaaa", '(1, None)')
    """
    if _is_short(value):
        return repr(value)  # almost always: the rest takes ten times as long
    shown = attempt(lambda: _short_repr(value))
    return shown.value if shown.error is None else f"a {type(value).__name__} that cannot be shown"


def _is_short(value: Any) -> bool:
    """Return whether a value is a number, or a few: there is nothing to shorten, and nothing can go wrong."""
    items = value if type(value) in (list, tuple) else [value]
    return len(items) <= _SHORT.maxlist and all(type(item) is int and abs(item) < 2**64 for item in items)


def _short_repr(value: Any) -> str:
    if isinstance(value, (set, frozenset)):  # in an order that does not depend on hashes
        return f"{{{', '.join(sorted(map(short_repr, value)))}}}" if value else "set()"
    return " ".join(_ADDRESS.sub("", _SHORT.repr(_plain(value, tuple))).split())


def arguments(args: Iterable[Any]) -> str:
    """Arguments as they are written in a call.

    >>> arguments((3, [1, 2]))
    '(3, [1, 2])'
    """
    return f"({', '.join(short_repr(arg) for arg in args)})"


def _plain(value: Any, tuple_as: type = list) -> Any:
    """Arrays and their numbers as plain Python, and tuples as lists: then sequences of the same numbers are equal."""
    if isinstance(value, (np.ndarray, np.generic, array)) or type(value).__module__.split(".")[0] == "torch":
        return value.tolist() if hasattr(value, "tolist") else value
    if isinstance(value, (list, tuple)):
        items = [_plain(item, tuple_as) for item in value]
        return tuple_as(items) if isinstance(value, tuple) else items
    return value


def agree(got: Any, expected: Any) -> bool:
    """Return whether two values are equal, whatever they are: a tuple, a list and an array of the same numbers are.

    >>> agree((1, 2), np.array([1, 2])), agree(1.0, 1)
    (True, False)
    """
    if type(got) is type(expected) and type(got) in _BUILT_IN:
        return bool(got == expected)  # almost always: the rest takes twenty times as long
    return attempt(lambda: _agree(_plain(got), _plain(expected))).value is True


def _agree(got: Any, expected: Any) -> bool:
    if isinstance(got, list) and isinstance(expected, list):
        return len(got) == len(expected) and all(map(_agree, got, expected))
    if callable(got) and callable(expected):
        return True  # two methods, say, in the place of a number: neither is an answer
    if isinstance(got, float) != isinstance(expected, float):
        return False  # whole numbers are whole
    return bool(got is expected or got == expected)  # a nan is itself


def type_in_words(value: Any) -> str:
    """Return the kind of a value, in words.

    >>> type_in_words((1, 2)), type_in_words(3.5), type_in_words({1})
    ('a list', 'a number', 'a set')
    """
    plain = attempt(lambda: _plain(value))
    value = plain.value if plain.error is None else value
    return "a number" if isinstance(value, (int, float)) else "a list" if isinstance(value, list) else type_of(value)


def type_of(value: Any) -> str:
    """Return the type of a value, with its article.

    >>> type_of((1, 2)), type_of(np.array([1])), type_of(7)
    ('a tuple', 'an array', 'an int')
    """
    name = type(value).__name__.removeprefix("nd")  # of numpy's arrays
    return f"a{'n' if name[0].lower() in 'aeiou' else ''} {name}"

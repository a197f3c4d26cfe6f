"""The errors that every layer shares: out of pages, a wrong lock, a broken invariant.

Bad input is an ordinary `TypeError` or `ValueError`. These three are for what goes wrong
with good input; `whole_number` is the one check that every layer makes, and `remedy` installs what is missing.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from typing import Any

# The packages that pyproject.toml asks for with each extra.
EXTRAS = {
    "testing": ("hypothesis",),
    "course": ("resvg-py", "ipywidgets", "anywidget", "pillow", "jupyterlab"),
    "serving": ("torch", "safetensors", "tokenizers"),
}


class OutOfPages(RuntimeError, MemoryError):
    """There is not enough room, and nothing was taken. It is a `MemoryError` too, as in the first chapters.

    `needed`, `free` and `evictable` count pages; a pool has nothing to evict and leaves `evictable` out (`None`).

    >>> raise OutOfPages(needed=3, free=1)
    Traceback (most recent call last):
    minikv.errors.OutOfPages: 3 pages needed, but only 1 free
    """

    def __init__(self, needed: int, free: int, evictable: int | None = None):
        more = "" if evictable is None else f" and {bounded(evictable)} evictable"
        pages = f"{bounded(needed)} page{'' if needed == 1 else 's'}"
        super().__init__(f"{pages} needed, but only {bounded(free)} free{more}")
        self.needed, self.free, self.evictable = needed, free, evictable


class LockError(RuntimeError):
    """A lock that cannot be taken or given back: not held, evicted, of another cache, or from before a reset.

    >>> from minikv import RadixCache
    >>> cache = RadixCache()
    >>> handle = cache.insert([1, 2], [0, 1]).handle
    >>> cache.unlock(handle)
    Traceback (most recent call last):
    minikv.errors.LockError: cannot unlock the handle of length 2 (node 1): it holds no lock
    """


class InvariantError(AssertionError):
    """A structure's `check()` found two facts that disagree; the message names the place and both numbers.

    It says that there is a bug in the structure, never in the caller's input.

    >>> from minikv import FreeListPool
    >>> pool = FreeListPool(4)
    >>> pool._memory[1] = 0
    >>> pool.check()
    Traceback (most recent call last):
    minikv.errors.InvariantError: FreeListPool: page 0 is on the stack 2 times
    """


def require(holds: Any, message: str) -> None:
    """Raise `InvariantError` with `message` unless the condition `holds`.

    >>> require(1 + 1 == 3, "1 + 1 is 2: expected 3")
    Traceback (most recent call last):
    minikv.errors.InvariantError: 1 + 1 is 2: expected 3
    """
    if not holds:
        raise InvariantError(message)


def whole_number(name: str, value: Any, at_least: int, rule: str, limit: int = 2**63) -> int:
    """`value` as an int in [at_least, limit), or the error that names it and the rule; nothing counts beyond 2**63.

    >>> whole_number("page_size", 16, 1, "a page holds at least 1 token")
    16
    >>> whole_number("page_size", 0, 1, "a page holds at least 1 token")
    Traceback (most recent call last):
    ValueError: page_size is 0: a page holds at least 1 token
    >>> whole_number("page_size", True, 1, "a page holds at least 1 token")
    Traceback (most recent call last):
    TypeError: page_size is True (bool), not a whole number: a page holds at least 1 token
    """
    try:
        number = operator.index(value)
    except TypeError:
        number = None
    if number is None or isinstance(value, bool):
        raise TypeError(f"{name} is {bounded(value)} ({type(value).__name__}), not a whole number: {rule}")
    if number >= 2**63:
        rule = "expected less than 2**63"
    if not at_least <= number < limit:
        raise ValueError(f"{name} is {bounded(number)}: {rule}")
    return number


def require_method(name: str, value: Any, method: str, expected: str) -> None:
    """Raise `TypeError` unless `value` is an object with that method, and not a class.

    >>> require_method("order", 5, "arrange", "an Order")
    Traceback (most recent call last):
    TypeError: order is 5: expected an Order
    """
    if isinstance(value, type) or not callable(getattr(value, method, None)):
        raise TypeError(f"{name} is {bounded(value)}: expected {expected}")


def bounded(value: Any, most: int = 60) -> str:
    """`repr(value)`, cut so that no message grows with the input.

    >>> bounded("a" * 1000, most=8)
    "'aaaaaa…"
    >>> bounded(10**5000)     # Python shows no integer of more than 4300 digits
    'an integer of 16610 bits'
    """
    try:
        text = repr(value)
    except Exception:
        if isinstance(value, int):
            return f"an integer of {int(value).bit_length()} bits"
        return f"an object of type {type(value).__name__[:most]} that cannot be shown"
    return truncated(text, most)


def truncated(text: str, most: int) -> str:
    """The beginning of a long text.

    >>> truncated("abcdef", 4), truncated("abcd", 4)
    ('abc…', 'abcd')
    """
    return text if len(text) <= most else text[: most - 1] + "…"


def brief(values: Any, most: int = 8) -> str:
    """The first few of many numbers, for a repr: `[1, 2, 3, ... 900 in all]`.

    >>> brief(range(900), 3)
    '[0, 1, 2, ... 900 in all]'
    """
    shown = ", ".join(str(int(value)) for value in values[:most])
    return f"[{shown}, ... {len(values)} in all]" if len(values) > most else f"[{shown}]"


def shown(name: str) -> str:
    r"""The name of a file as a line of text: spelled out where it holds control characters, cut where it is long.

    >>> print(shown("day.jsonl"), shown("day\0.jsonl"))
    day.jsonl 'day\x00.jsonl'
    """
    return name if name.isprintable() and len(name) <= 300 else bounded(name, 300)


def printable(text: str, kept: str = "") -> str:
    r"""`text` with U+FFFD in place of each control character, but for those in `kept`.

    >>> printable("\x1b[31mred\n", kept="\n")
    '�[31mred\n'
    """
    return "".join(c if c.isprintable() or c in kept else "\N{REPLACEMENT CHARACTER}" for c in text)


def one_line(text: str, most: int = 1000) -> str:
    r"""`text` as a line that a terminal can show: without control characters, and cut where it is long.

    >>> one_line("two\nlines and \x1b[31mred")
    'two lines and �[31mred'
    """
    return truncated(printable("".join(" " if c.isspace() else c for c in text[: most + 1])), most)


def remedy(package: str, extras: Mapping[str, Sequence[str]] = EXTRAS, distribution: str = "minikv") -> str:
    """The command that installs a missing package: with the extra that it belongs to, where there is one.

    >>> remedy("torch"), remedy("tqdm")
    ("pip install 'minikv[serving]'", 'pip install tqdm')
    """
    for extra, names in extras.items():
        if package.replace("_", "-") in names:
            return f"pip install '{distribution}[{extra}]'"
    return f"pip install {package}"

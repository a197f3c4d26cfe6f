"""What one call came to, beside what the naive model says: whether they agree, and if not, which rule that breaks."""

from __future__ import annotations

import operator
from collections.abc import Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from minikv.errors import LockError, bounded
from minikv.testing.attempt import attempt
from minikv.testing.conformance.evictions import wrong_eviction
from minikv.testing.conformance.script import Mismatch, Reply
from minikv.testing.time_limit import TooLong
from minikv.tokens import pack

if TYPE_CHECKING:
    from minikv.testing.conformance.playing import SideBySide


class UnreadableError(TypeError):
    """An answer does not have the form that the contract promises; the message says what is there instead."""


def read_number(value: Any, what: str) -> int:
    """A whole number, of any type that is one.

    >>> read_number(True, "length")
    Traceback (most recent call last):
    minikv.testing.conformance.judging.UnreadableError: length is True: expected a whole number
    """
    try:
        if not isinstance(value, bool):
            return operator.index(value)
    except TypeError:
        pass
    raise UnreadableError(f"{what} is {bounded(value)}: expected a whole number")


def read_pages(values: Any, what: str) -> list[int]:
    """Pages as a list of whole numbers: from a list, a tuple, an array, a tensor.

    >>> import numpy as np
    >>> read_pages(np.array([3, 4]), "pages"), read_pages((), "pages")
    ([3, 4], [])
    """
    listed = values.tolist() if hasattr(values, "tolist") else values
    if not isinstance(listed, Iterable) or isinstance(listed, (str, bytes, dict)):
        raise UnreadableError(f"{what} is {bounded(values)}: expected a sequence of pages")
    return [read_number(value, f"{what}[{i}]") for i, value in enumerate(listed)]


def read_match(result: Any) -> dict[str, Any]:
    """The `length` and the `pages` of a match.

    >>> from minikv import RadixCache
    >>> read_match(RadixCache().match_prefix([1]))
    {'length': 0, 'pages': []}
    """
    _require(result, "length", "pages")
    return {"length": read_number(result.length, "length"), "pages": read_pages(result.pages, "pages")}


def read_insertion(result: Any) -> dict[str, Any]:
    """The `prefix_length` and the `length` of an insertion.

    >>> from minikv import RadixCache
    >>> read_insertion(RadixCache().insert([1], [7]))
    {'prefix_length': 0, 'length': 1}
    """
    _require(result, "prefix_length", "length")
    return {name: read_number(getattr(result, name), name) for name in ("prefix_length", "length")}


def _require(result: Any, *names: str) -> None:
    for name in names:
        if not hasattr(result, name):
            raise UnreadableError(f"the result is {bounded(result)}: expected an object with {' and '.join(names)}")


READERS = {
    "match_prefix": read_match,
    "acquire": read_match,
    "insert": read_insertion,
    "evict": lambda result: read_pages(result, "the result"),
}


def handle_of(result: Any) -> Any:
    """What `lock` takes for a match or an insertion: its `handle`, or the thing itself where it has none.

    >>> handle_of(7)
    7
    """
    return getattr(result, "handle", result)


RULE_OF = {"match_prefix": 3, "acquire": 6, "insert": 4, "lock": 6, "unlock": 6, "evict": 9, "reset": 11, "check": 12}
_BAD_INPUT = {"tokens": 1, "pages": 1, "namespace": 10, "limit": 3, "start": 4, "num_tokens": 9}


def judge_call(run: SideBySide, reply: Reply, expected: Reply) -> Mismatch | None:
    """The rule that a reply breaks, or `None` if it is as `expected`."""
    rule = RULE_OF.get(reply.verb, 3)
    if isinstance(reply.error, TooLong):
        return Mismatch(rule, reply.in_words, endless=True)
    if expected.error is not None:
        return _refusal(run, reply, expected)
    if reply.error is not None:
        return Mismatch(rule, reply.in_words)
    if reply.verb in ("match_prefix", "acquire"):
        return _match(run, reply, expected) if 3 in run.subject.claims else None
    if reply.verb == "insert":
        return _insertion(run, reply, expected)
    if reply.verb == "evict":
        found = wrong_eviction(run, reply)
        return Mismatch(*found) if found else None
    return None


def _refusal(run: SideBySide, reply: Reply, expected: Reply) -> Mismatch | None:
    """A call that must be refused: with a `LockError`, or as bad input."""
    rule = refused_by(run, expected)
    if expected.verb == "reset" and reply.error is None and not run.model.protected_size:
        run.model.held.clear()  # whether a lock on nothing is a lock is left open
        run.model.reset()
        return None
    kinds = ["LockError"] if isinstance(expected.error, LockError) else ["ValueError", "TypeError"]
    if rule == 4:
        kinds = ["LockError", "ValueError", "TypeError"]
    return run.refuses(reply, expected, rule, kinds)


def refused_by(run: SideBySide, expected: Reply) -> int:
    """The rule by which the model refuses a call."""
    if isinstance(expected.error, LockError):
        stale = [arg for arg in expected.args if getattr(arg, "epoch", run.model.epoch) is not run.model.epoch]
        if expected.verb in ("lock", "unlock"):
            return 11 if stale and expected.verb == "lock" and "cache.reset()" in run.lines else 6
        return 11 if expected.verb == "reset" else 4
    return _BAD_INPUT.get(str(expected.error).split()[0].partition("[")[0], 1)


def _match(run: SideBySide, reply: Reply, expected: Reply) -> Mismatch | None:
    got, want = reply.value, expected.value
    if got == want:
        return None
    if set(got["pages"]) & run.evicted:
        rule = 9
    elif set(got["pages"]) & run.offered:
        rule = 4
    elif len(got["pages"]) == got["length"] == want["length"] != len(want["pages"]):
        rule = 15
    else:
        rule = 3
    return Mismatch(rule, f"gives {_in_words(got)}, expected {_in_words(want)}")


def _insertion(run: SideBySide, reply: Reply, expected: Reply) -> Mismatch | None:
    """Compare an insertion; an index that does not claim rule 4 may store less, and the model then stores as much."""
    got, want, size = reply.value, expected.value, run.page_size
    tokens, pages = pack(expected.args[0]).tolist(), [int(page) for page in _listed(expected.args[1])]
    if got != want and (4 in run.subject.claims or got["length"] > want["length"]):
        return Mismatch(4, f"gives {_in_words(got)}, expected {_in_words(want)}")
    there = want["prefix_length"] // size
    cached = run.model.path(expected.options.get("namespace"), tuple(tokens))
    run.offered |= {page for page, key in zip(pages, cached[:there]) if run.model.pages[key].number != page}
    run.model.drop(cached[max(there, got["length"] // size) :])
    if got["length"] < want["length"]:
        last = cached[got["length"] // size - 1] if got["length"] else None
        expected.result.length = got["length"]
        expected.result.node = (last[1], run.model.pages[last].birth) if last else ((), 0)
    return None


def _listed(pages: Any) -> list[Any]:
    """Pages as a list; those in front of a start may be anything."""
    return [page if isinstance(page, int) else -1 for page in (pages.tolist() if hasattr(pages, "tolist") else pages)]


def _in_words(seen: dict[str, Any]) -> str:
    return " and ".join(f"{name} {value}" for name, value in seen.items())


SIZES = ("evictable_size", "protected_size", "total_size")
ALL = 10**6  # more tokens than any scenario caches


def wrong_sizes(run: SideBySide, expected: Reply) -> Mismatch | None:
    """The rule that the sizes of the index break after a call of which the model says what was `expected`."""
    found = attempt(lambda: [read_number(getattr(run.index, name), name) for name in SIZES])
    if found.error is not None:
        return Mismatch(7, f"reading the sizes {found.in_words}")
    right = [getattr(run.model, name) for name in SIZES]
    if found.value == right:
        return None
    words = "; ".join(f"{name} is {a}, expected {b}" for name, a, b in zip(SIZES, found.value, right) if a != b)
    return Mismatch(_rule(run, expected, found.value), f"then {words}")


def _rule(run: SideBySide, expected: Reply, sizes: list[int]) -> int:
    """What is wrong, the counting or the locking: what can really be evicted tells."""
    if expected.error is not None:
        return refused_by(run, expected)
    if expected.verb == "reset":
        return 11
    if not (run.locked or expected.verb in ("lock", "acquire", "unlock")):
        return 7
    with suppress(BaseException):
        run.stage.recorder.evict(ALL)
    freed = run.stage.recorder.reply
    if freed is None or freed.error is not None:
        return 7
    evictable = [page.number for key, page in run.model.pages.items() if not run.model.locked(key)]
    counts_right = sorted(freed.value) != sorted(evictable) and len(freed.value) * run.page_size == sizes[0]
    return 6 if counts_right else 7

"""The three sizes of a cache: whether they are exact after an operation, and which rule breaks where they are not."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from minikv.testing.attempt import attempt
from minikv.testing.conformance import judging
from minikv.testing.conformance.reading import read_number
from minikv.testing.conformance.scenario import Reply

if TYPE_CHECKING:
    from minikv.testing.conformance.playing import SideBySide

SIZES = ("evictable_size", "protected_size", "total_size")
ALL = 10**6  # more tokens than any scenario caches


def wrong_sizes(run: SideBySide, expected: Reply) -> judging.Mismatch | None:
    """The rule that the sizes of the index break after a call of which the model says what was `expected`."""
    found = attempt(lambda: [read_number(getattr(run.index, name), name) for name in SIZES])
    if found.error is not None:
        return judging.Mismatch(7, f"reading the sizes {found.in_words}")
    right = [getattr(run.model, name) for name in SIZES]
    if found.value == right:
        return None
    words = "; ".join(f"{name} is {a}, expected {b}" for name, a, b in zip(SIZES, found.value, right) if a != b)
    return judging.Mismatch(_rule(run, expected, found.value), f"then {words}")


def _rule(run: SideBySide, expected: Reply, sizes: list[int]) -> int:
    """What is wrong, the counting or the locking: what can really be evicted tells."""
    if expected.error is not None:
        return judging.refused_by(run, expected)
    if expected.verb == "reset":
        return 11
    if not (run.locked or expected.verb in ("lock", "acquire", "unlock")):
        return 7
    with suppress(BaseException):
        run.stage.told.evict(ALL)
    freed = run.stage.told.reply
    if freed is None or freed.error is not None:
        return 7
    evictable = [page.number for key, page in run.model.pages.items() if not run.model.locked(key)]
    counts_right = sorted(freed.value) != sorted(evictable) and len(freed.value) * run.page_size == sizes[0]
    return 6 if counts_right else 7

"""What one call came to, beside what the naive model says: whether they agree, and if not, which rule that breaks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from minikv.errors import LockError
from minikv.testing.conformance.evictions import wrong_eviction
from minikv.testing.conformance.scenario import Reply
from minikv.testing.time_limit import TooLong
from minikv.tokens import pack

if TYPE_CHECKING:
    from minikv.testing.conformance.playing import SideBySide

RULE_OF = {"match_prefix": 3, "acquire": 6, "insert": 4, "lock": 6, "unlock": 6, "evict": 9, "reset": 11, "check": 12}
_BAD_INPUT = {"tokens": 1, "pages": 1, "namespace": 10, "limit": 3, "start": 4, "num_tokens": 9}


@dataclass(frozen=True)
class Mismatch:
    """Where an index and the model part: the `rule` that this breaks, and in `words` what happened."""

    rule: int
    words: str
    endless: bool = False


def judge(run: SideBySide, reply: Reply, expected: Reply) -> Mismatch | None:
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


def is_named(error: BaseException | None, name: str) -> bool:
    """Whether an error is of the class `name`, of this package or of another.

    >>> from minikv import LockError
    >>> is_named(LockError("stale"), "LockError"), is_named(KeyError(3), "LockError")
    (True, False)
    """
    return any(each.__name__ == name for each in type(error).__mro__)


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
    if any(is_named(reply.error, kind) for kind in kinds):
        run.refused.append((len(run.lines) - 1, rule))
        return None
    return Mismatch(rule, f"{reply.in_words}, expected a {' or a '.join(kinds)}: {expected.error}")


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
    return Mismatch(rule, f"gives {_told(got)}, expected {_told(want)}")


def _insertion(run: SideBySide, reply: Reply, expected: Reply) -> Mismatch | None:
    """Compare an insertion; an index that does not claim rule 4 may store less, and the model then stores as much."""
    got, want, size = reply.value, expected.value, run.page_size
    tokens, pages = pack(expected.args[0]).tolist(), [int(page) for page in _listed(expected.args[1])]
    if got != want and (4 in run.subject.claims or got["length"] > want["length"]):
        return Mismatch(4, f"gives {_told(got)}, expected {_told(want)}")
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


def _told(seen: dict[str, Any]) -> str:
    return " and ".join(f"{name} {value}" for name, value in seen.items())

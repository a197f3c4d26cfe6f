"""The scenarios for cache managers: picked ones, and those that Hypothesis and the explorer of interleavings make.

A manager has 6 pages. `advance` says that an engine has computed what is left of a request, or so many tokens of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from hypothesis import strategies as st

from minikv.testing.conformance.cases import scenarios_in
from minikv.testing.conformance.generate import Kinds, Writing, optional, prompts, written
from minikv.testing.conformance.script import Scenario, scenario_of
from minikv.testing.conformance.subject import Subject
from minikv.testing.interleave import Program, explore

_RAN = ("a = manager.start([1, 2, 3])", "manager.advance(a)", "manager.finish(a)")

_LIVES = """
a = manager.start([1, 2, 3])
manager.advance(a)
manager.finish(a)
b = manager.start([1, 2, 3])
manager.advance(b)
manager.finish(b)

# pages of 2
a = manager.start([1, 2, 3, 4, 5])
manager.advance(a)
manager.finish(a)
b = manager.start([1, 2, 3, 4, 5])
manager.finish(b)
c = manager.start([1, 2, 3, 4])

a = manager.start([1, 2, 3, 4])
manager.advance(a)
manager.finish(a)
b = manager.start([1, 2, 3, 7, 8, 9, 6])
c = manager.start([1, 2, 3, 4])

a = manager.start([1, 2, 3, 4])
manager.advance(a)
manager.finish(a)
b = manager.start([1, 2, 3, 7, 8, 9])
manager.advance(b)

a = manager.start([1, 2, 3])
manager.advance(a)
manager.finish(a)
b = manager.start([1, 2, 4])
c = manager.start([7, 8, 9])
manager.abort(b)

a = manager.start([1, 2])
manager.advance(a)
manager.extend(a, [3])
manager.finish(a)
b = manager.start([1, 2, 3, 4])

a = manager.start([1, 2, 3, 4])
manager.advance(a, 2)
manager.finish(a)
b = manager.start([1, 2, 3, 4, 5])

a = manager.start([1, 2, 3])
manager.advance(a)
manager.abort(a)
b = manager.start([1, 2, 3, 4])

a = manager.start([1, 2, 3, 4])
manager.advance(a, 2)
manager.checkpoint(a)
b = manager.start([1, 2, 3])
manager.advance(a)
manager.abort(a)
manager.abort(b)

a = manager.start([1, 2, 3])
b = manager.start([1, 2, 4])
manager.advance(a)
manager.advance(b)
manager.checkpoint(a)
manager.checkpoint(b)
manager.finish(a)
manager.finish(b)

a = manager.start([1, 2, 3])
manager.advance(a)
manager.checkpoint(a)
b = manager.start([7, 8, 9])
c = manager.start([4])
manager.finish(a)

# pages of 2
a = manager.start([1, 2, 3])
manager.extend(a, [4])
manager.extend(a, [5])
manager.extend(a, [6, 7])
manager.advance(a)

a = manager.start([1, 2, 3, 4, 5])
manager.extend(a, [6])
manager.extend(a, [7])
manager.advance(a)

a = manager.start([1, 2])
manager.extend(a, [3, 4, 5])
manager.truncate(a, 3)
b = manager.start([7, 8, 9])

# pages of 2
a = manager.start([1, 2, 3])
manager.extend(a, [4, 5, 6, 7, 8])
manager.truncate(a, 5)
b = manager.start([7, 8, 9, 1, 1, 1])
manager.extend(a, [4])
manager.advance(a)

a = manager.start([1, 2, 3])
manager.extend(a, [4, 5])
manager.advance(a)
manager.truncate(a, 4)
manager.extend(a, [6])
manager.finish(a)
b = manager.start([1, 2, 3, 4, 6, 7])

a = manager.start([1, 2, 3])
manager.advance(a, 2)
manager.checkpoint(a)
manager.truncate(a, 1)
manager.truncate(a, 4)
manager.truncate(a, 2)
b = manager.start([1, 2, 3])

a = manager.start([1, 2, 3])
manager.truncate(a, 0)
manager.truncate(a, -1)
manager.truncate(a, 2)
manager.advance(a)
manager.finish(a)
b = manager.start([1, 2, 3])

a = manager.start([1, 2, 3])
manager.advance(a, 4)
manager.advance(a, 3)

a = manager.start([1, 2, 3, 4])
b = manager.start([5, 6, 7])
manager.advance(a)
manager.finish(a)
c = manager.start([5, 6])
"""

_OVER = [
    scenario_of("a = manager.start([1, 2, 3])", f"manager.{end}(a)", "b = manager.start([1, 2, 3])", f"manager.{verb}")
    for end in ("finish", "abort")
    for verb in ("finish(a)", "abort(a)", "checkpoint(a)", "advance(a)", "extend(a, [4])", "truncate(a, 2)")
]

_NAMESPACES = [
    scenario_of("a = manager.start([1, 2, 3], namespace='a')", "manager.advance(a)", "manager.finish(a)",
                f"b = manager.start([1, 2, 3]{namespace})")
    for namespace in ("", ", namespace='a'", ", namespace='b'")
]  # fmt: skip

_BAD_INPUT = [
    scenario_of(*_RAN, f"b = manager.start({bad})", "c = manager.start([1, 2, 3])")
    for bad in ("[]", "[-1]", "'text'", "5", "[1, None]", "[1, 2.5]")
]

_LIMITS = [
    scenario_of("a = manager.start([1, 2, 3, 4])", "manager.advance(a)", "manager.finish(a)",
                f"b = manager.start([1, 2, 3, 4], limit={limit})", page_size=size)
    for limit in (0, 1, 3, 4, 99) for size in (1, 2)
]  # fmt: skip

# Picked for no rule of their own.
MANAGER_CASES = {0: [*scenarios_in(_LIVES), *_OVER, *_NAMESPACES, *_BAD_INPUT, *_LIMITS]}


_FOUR = [
    ([1, 2, 3], ["advance({})", "checkpoint({})", "finish({})"]),
    ([1, 2, 4], ["advance({})", "checkpoint({})", "finish({})"]),
    ([1, 2, 3], ["advance({}, 1)", "finish({})"]),
    ([7, 8], ["extend({}, [9])", "abort({})"]),
]


def manager_scenarios(subject: Subject) -> st.SearchStrategy[Scenario]:
    """Scenarios for what this manager has.

    >>> from minikv import CacheManager
    >>> from minikv.testing.conformance.subject import subject_of
    >>> strategy = manager_scenarios(subject_of(CacheManager, range(1, 13)))
    """
    names = st.sampled_from([None, None, "a"]) if 11 in subject.claims else st.none()
    pick = st.integers(0, 3)
    kinds: Kinds = {
        "start": (prompts([1, 2, 1, 1, 2], least=1), names),
        "advance": (pick, st.sampled_from([None, None, 1, 2])),
        "finish": (pick,),
        "checkpoint": (pick,),
        "extend": (pick, st.lists(st.integers(1, 2), min_size=1, max_size=2)),
        "truncate": (pick, st.integers(0, 9)),
        "abort": (pick,),
    }
    usable = {kind: parts for kind, parts in kinds.items() if kind not in subject.lacks}
    return written(_ManagerWriting, usable, subject.page_sizes[:2], 12)


class _ManagerWriting(Writing):
    """A name means a request."""

    def write(self, kind: str, *parts: Any) -> None:
        """A step on a request that never began is left out."""
        pick, more = parts[0], parts[-1]
        if kind == "start":
            self.name(f"manager.start({pick}{optional('namespace', more)})")
        elif self.named:
            (name,) = self.named[-1 - pick % len(self.named)]
            self.lines.append(f"manager.{kind}({name}{f', {more}' if parts[1:] and more is not None else ''})")


def interleavings(page_size: int, interruptions: int = 1) -> Iterator[Scenario]:
    """The lives of four requests in every order with so many interruptions, as the explorer goes through them.

    >>> sum(1 for _ in interleavings(1, interruptions=1))
    384
    """
    orders: list[list[str]] = []

    def world() -> list[str]:
        orders.append([])
        return orders[-1]

    explore(world, *(_program("abcd"[i], *life) for i, life in enumerate(_FOUR)), interruptions=interruptions)
    yield from (Scenario(tuple(lines), page_size) for lines in orders)


def _program(name: str, prompt: list[int], life: list[str]) -> Program:
    """A request that lives its life line by line."""

    def program(lines: list[str]) -> Iterator[str]:
        for line in [f"{name} = manager.start({prompt})", *(f"manager.{each.format(name)}" for each in life)]:
            yield line
            lines.append(line)

    return program

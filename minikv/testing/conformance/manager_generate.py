"""Scenarios for cache managers that nobody picked: from Hypothesis, and from the explorer.

The explorer takes requests that each live a whole life, and lets them take turns in every order with few interruptions.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from hypothesis import strategies as st

from minikv.testing.conformance.scenario import Scenario
from minikv.testing.conformance.subject import Subject
from minikv.testing.interleave import Program, explore

_TRUNK = [1, 2, 1, 1, 2]
_PROMPTS = st.builds(
    lambda cut, tail: _TRUNK[:cut] + tail, st.integers(0, 5), st.lists(st.integers(1, 2), min_size=1, max_size=3)
)
_PICK = st.integers(0, 3)
_LIVES = [
    ([1, 2, 3], ["advance({})", "checkpoint({})", "finish({})"]),
    ([1, 2, 4], ["advance({})", "checkpoint({})", "finish({})"]),
    ([1, 2, 3], ["advance({}, 1)", "finish({})"]),
    ([7, 8], ["extend({}, [9])", "abort({})"]),
]


def manager_scenarios(subject: Subject, longest: int = 12) -> st.SearchStrategy[Scenario]:
    """Scenarios of at most `longest` steps for what this manager has.

    >>> from minikv import CacheManager
    >>> from minikv.testing.conformance.managers import manager_subject
    >>> strategy = manager_scenarios(manager_subject(CacheManager))
    """
    names = st.sampled_from([None, None, "a"]) if 11 in subject.claims else st.none()
    kinds: dict[str, tuple[Any, ...]] = {
        "start": (_PROMPTS, names),
        "advance": (_PICK, st.sampled_from([None, None, 1, 2])),
        "finish": (_PICK,),
        "checkpoint": (_PICK,),
        "extend": (_PICK, st.lists(st.integers(1, 2), min_size=1, max_size=2)),
        "truncate": (_PICK, st.integers(0, 9)),
        "abort": (_PICK,),
    }
    usable = [st.tuples(st.just(kind), *parts) for kind, parts in kinds.items() if kind not in subject.lacks]
    return st.builds(_written, st.sampled_from(subject.page_sizes[:2]), st.lists(st.one_of(usable), max_size=longest))


def _written(page_size: int, steps: list[tuple[Any, ...]]) -> Scenario:
    """The steps as lines of Python; a step on a request that never began is left out."""
    lines: list[str] = []
    names: list[str] = []
    for kind, pick, *more in steps:
        if kind == "start":
            names.append("abcdefghijkl"[len(names) % 12])
            option = f", namespace={more[0]!r}" if more[0] is not None else ""
            lines.append(f"{names[-1]} = manager.start({pick}{option})")
        elif names:
            option = f", {more[0]}" if more and more[0] is not None else ""
            lines.append(f"manager.{kind}({names[-1 - pick % len(names)]}{option})")
    return Scenario(tuple(lines), page_size)


def interleavings(page_size: int, interruptions: int) -> Iterator[Scenario]:
    """The lives of four requests in every order with so many interruptions, as the explorer goes through them.

    >>> sum(1 for _ in interleavings(1, interruptions=1))
    384
    """
    orders: list[list[str]] = []

    def world() -> list[str]:
        orders.append([])
        return orders[-1]

    explore(world, *(_program("abcd"[i], *life) for i, life in enumerate(_LIVES)), interruptions=interruptions)
    yield from (Scenario(tuple(lines), page_size) for lines in orders)


def _program(name: str, prompt: list[int], life: list[str]) -> Program:
    """A request that lives its life line by line."""

    def program(lines: list[str]) -> Iterator[str]:
        for line in [f"{name} = manager.start({prompt})", *(f"manager.{each.format(name)}" for each in life)]:
            yield line
            lines.append(line)

    return program

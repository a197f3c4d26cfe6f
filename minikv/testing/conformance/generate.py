"""Scenarios that nobody picked: Hypothesis makes them out of the verbs, and shrinks the one that breaks a rule.

Prompts leave one trunk at some point, so that most of them share something and many part inside a node. Every page is
new, so a page that turns up in the wrong place says where it came from.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from hypothesis import strategies as st

from minikv.testing.conformance.scenario import Scenario
from minikv.testing.conformance.subject import Subject

_TRUNK = [1, 2, 1, 1, 2, 2, 1, 2]
_TOKENS = st.builds(lambda cut, tail: _TRUNK[:cut] + tail, st.integers(0, 8), st.lists(st.integers(1, 2), max_size=3))
_NAMESPACES = st.sampled_from([None, None, "a"])
_LIMITS = st.sampled_from([None, None, 0, 3, 5])
_PICK = st.integers(0, 5)
_Step = tuple[Any, ...]


def scenarios(subject: Subject, longest: int = 14) -> st.SearchStrategy[Scenario]:
    """Scenarios of at most `longest` steps for what this subject has and claims.

    >>> from minikv import RadixCache
    >>> from minikv.testing.conformance.subject import subject_of
    >>> strategy = scenarios(subject_of(RadixCache, range(1, 16)))
    """
    names = _NAMESPACES if 10 in subject.claims else st.none()
    limits = _LIMITS if 3 in subject.claims else st.none()
    kinds = {
        "match_prefix": (_TOKENS, names, limits),
        "insert": (_TOKENS, names),
        "evict": (st.integers(0, 12),),
        "acquire": (_TOKENS, names, limits),
        "lock": (_PICK,),
        "unlock": (_PICK,),
        "start": (_PICK, _TOKENS),
        "request": (_TOKENS, _TOKENS, names),
        "reset": (),
    }
    needs = {"start": ["insert", "lock"], "request": ["acquire", "insert", "unlock"]}
    rules = {"lock": 6, "unlock": 6, "acquire": 6, "start": 6, "request": 6, "reset": 11}
    usable = [
        st.tuples(st.just(kind), *parts)
        for kind, parts in kinds.items()
        if not subject.lacks & set(needs.get(kind, [kind])) and rules.get(kind, 1) in subject.claims | {1}
    ]
    steps = st.lists(st.one_of(usable), max_size=longest)
    return st.builds(_written, st.sampled_from(subject.page_sizes[:3]), steps)


def _written(page_size: int, steps: list[_Step]) -> Scenario:
    """The steps as lines of Python."""
    writer = _Writing(page_size)
    for kind, *parts in steps:
        getattr(writer, kind)(*parts)
    return Scenario(tuple(writer.lines), page_size)


@dataclass
class _Writing:
    """The lines so far, the next free page, and what each name stands for: its tokens and its namespace."""

    page_size: int
    lines: list[str] = field(default_factory=list)
    page: int = 0
    names: dict[str, tuple[list[int], Any]] = field(default_factory=dict)

    def match_prefix(self, tokens: list[int], namespace: Any, limit: Any, verb: str = "match_prefix") -> None:
        """Look `tokens` up; the match has a name."""
        more = _option("limit", limit) + _option("namespace", namespace)
        self.lines.append(f"{self._name(tokens, namespace)} = cache.{verb}({tokens}{more})")

    def acquire(self, tokens: list[int], namespace: Any, limit: Any) -> None:
        """Look `tokens` up and lock them."""
        self.match_prefix(tokens, namespace, limit, "acquire")

    def insert(self, tokens: list[int], namespace: Any, start: str = "") -> None:
        """Cache `tokens` in pages that are new."""
        count = -(-len(tokens) // self.page_size)
        pages = list(range(self.page, self.page + count))
        self.page += count
        more = _option("namespace", namespace) + (f", start={start}.handle" if start else "")
        self.lines.append(f"{self._name(tokens, namespace)} = cache.insert({tokens}, {pages}{more})")

    def start(self, pick: int, more: list[int]) -> None:
        """Cache what a name stands for and more, from its handle on."""
        if name := self._picked(pick):
            tokens, namespace = self.names[name]
            self.insert([*tokens, *more], namespace, start=name)

    def request(self, prompt: list[int], answer: list[int], namespace: Any) -> None:
        """The life of a request: look the prompt up, cache prompt and answer, let go."""
        self.acquire(prompt, namespace, None)
        name = list(self.names)[-1]
        self.insert([*prompt, *answer], namespace, start=name)
        self.lines.append(f"cache.unlock({name}.handle)")

    def lock(self, pick: int, verb: str = "lock") -> None:
        """Lock something that has a name."""
        if name := self._picked(pick):
            self.lines.append(f"cache.{verb}({name}.handle)")

    def unlock(self, pick: int) -> None:
        """Unlock something that has a name."""
        self.lock(pick, "unlock")

    def evict(self, num_tokens: int) -> None:
        """Evict some tokens."""
        self.lines.append(f"cache.evict({num_tokens})")

    def reset(self) -> None:
        """Forget everything."""
        self.lines.append("cache.reset()")

    def _picked(self, pick: int) -> str | None:
        names = list(self.names)
        return names[-1 - pick % len(names)] if names else None

    def _name(self, tokens: list[int], namespace: Any) -> str:
        name = "abcdefghijklmnopqrstuvwxyz"[len(self.names)] if len(self.names) < 26 else f"z{len(self.names)}"
        self.names[name] = tokens, namespace
        return name


def _option(name: str, value: Any) -> str:
    return "" if value is None else f", {name}={value!r}"

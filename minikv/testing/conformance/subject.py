"""What is judged: a class of anybody's, how an object of it is made, and which rules it claims."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from minikv.errors import bounded

_MOST_CLAIMS = 1000  # that are looked at


@dataclass(frozen=True)
class Subject:
    """A class under test: `make(**settings)` is one object, and `settings` are the ways in which it can be made.

    `page_sizes` are the sizes of a page that it can have. `fixed` are arguments that are always given. `claims` are
    the numbers of the rules that it says it keeps, and `lacks` the verbs that it does not have.

    >>> from minikv import RadixCache
    >>> subject = subject_of(RadixCache, range(1, 16))
    >>> subject.page_sizes, subject.settings, subject.spelled(2, {"evict_by": "page"})
    ((1, 2, 3, 4), ({'evict_by': 'node'}, {'evict_by': 'page'}), "RadixCache(page_size=2, evict_by='page')")
    """

    make: Callable[..., Any]
    name: str
    claims: frozenset[int]
    page_sizes: tuple[int, ...] = (1,)
    takes_page_size: bool = False
    settings: tuple[Mapping[str, Any], ...] = ({},)
    fixed: Mapping[str, Any] = field(default_factory=dict)
    home: str = ""
    lacks: frozenset[str] = frozenset()
    whole_nodes: dict[tuple[int, str], bool] = field(default_factory=dict, compare=False, repr=False)

    def arguments(self, page_size: int, settings: Mapping[str, Any]) -> dict[str, Any]:
        """What an object with pages of this size, made in this way, is made from."""
        return {**({"page_size": page_size} if self.takes_page_size else {}), **self.fixed, **settings}

    def spelled(self, page_size: int, settings: Mapping[str, Any]) -> str:
        """The expression that makes such an object; what the class does by default is left out."""
        defaults = {"page_size": 1, "evict_by": "node"}
        given = self.arguments(page_size, settings)
        shown = [f"{name}={value!r}" for name, value in given.items() if defaults.get(name) != value]
        return f"{self.name}({', '.join(shown)})"


def subject_of(made: Any, rules: Iterable[int], fixed: Mapping[str, Any] | None = None) -> Subject:
    """The class of a prefix cache as something to be judged, with what its signature takes.

    >>> from minikv import NoCache
    >>> sorted(set(range(1, 16)) - subject_of(NoCache, range(1, 16)).claims)
    [4]
    """
    takes, given = _parameters(made), dict(fixed or {})
    by_page = "evict_by" in takes and "evict_by" not in given
    sized = "page_size" in takes
    return Subject(
        made, getattr(made, "__name__", "Cache"), claimed(made, rules), (1, 2, 3, 4) if sized else (1,), sized,
        ({"evict_by": "node"}, {"evict_by": "page"}) if by_page else ({},), given, getattr(made, "__module__", ""),
    )  # fmt: skip


def claimed(made: Any, rules: Iterable[int]) -> frozenset[int]:
    """The rules that a class claims by its attribute `claims`, an iterable of their numbers; without one, all.

    >>> class Half:
    ...     claims = (1, 2)
    >>> sorted(claimed(Half, range(1, 16)))
    [1, 2]
    """
    known, said = frozenset(rules), getattr(made, "claims", None)
    if said is None:
        return known
    try:
        found = frozenset(islice(said, _MOST_CLAIMS))
    except Exception:
        found = frozenset([None])
    if not found <= known:
        raise ValueError(f"claims is {bounded(said)}: expected numbers of rules, {min(known)} to {max(known)}")
    return found


def _parameters(made: Any) -> frozenset[str]:
    """The names of the arguments that a class takes."""
    try:
        found = inspect.signature(made).parameters.values()
    except (TypeError, ValueError):
        return frozenset()
    return frozenset(each.name for each in found if each.kind not in (each.VAR_KEYWORD, each.VAR_POSITIONAL))

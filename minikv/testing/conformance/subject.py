"""What is judged: a class of anybody's, how an object of it is made, and which rules it claims."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from minikv.errors import bounded
from minikv.testing.time_limit import TimeLimit, TooLong

SECONDS = 3.0  # for one operation, which needs a few microseconds


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
        found = frozenset(said)
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


@dataclass
class Reply:
    """What one call came to: what was read off its result, or the error that it raised."""

    verb: str
    args: tuple[Any, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)
    result: Any = None
    seen: Any = None
    error: BaseException | None = None

    @property
    def in_words(self) -> str:
        """The error, or what was seen, in a few words."""
        if isinstance(self.error, TooLong):
            return f"does not end within {SECONDS:g} seconds"
        if self.error is not None:
            said = " ".join(bounded_text(self.error).split())
            return f"raises {type(self.error).__name__}" + (f" ({said})" if said else "")
        return f"gives {bounded(self.seen)}"


def bounded_text(error: BaseException, most: int = 80) -> str:
    """The text of an error, whatever its class does when it is asked for it.

    >>> bounded_text(KeyError(3))
    '3'
    """
    try:
        text = str(error)
    except Exception:
        return "an error that cannot be shown"
    return text if len(text) <= most else text[: most - 1] + "…"


def attempt(
    verb: str, act: Callable[[], Any], read: Callable[[Any], Any] = lambda result: result, is_ours: bool = False
) -> Reply:
    """Do `act` and `read` its result, for `SECONDS` at the most; what it came to. Only Ctrl-C gets out of it.

    What `is_ours` has no limit: it does not hang, and the machine may be busy.

    >>> attempt("divide", lambda: 1 // 0).in_words
    'raises ZeroDivisionError (integer division or modulo by zero)'
    """
    limit, found = TimeLimit(1e9 if is_ours else SECONDS), Reply(verb)
    try:
        limit.start()
        found.result = act()
        found.seen = read(found.result)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # also SystemExit, and whatever else somebody raises
        found.error = error
    finally:
        limit.stop()
    return found

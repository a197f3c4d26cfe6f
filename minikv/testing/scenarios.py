"""Scenarios: a few lines of Python that do something to `cache`; those that Hypothesis writes, and the smallest.

Hypothesis's prompts leave one trunk at some point, so that most of them share something and many part inside a node.
Every page is new, so a page that turns up in the wrong place says where it came from.
"""

from __future__ import annotations

import re
from array import array
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
from hypothesis import HealthCheck, Phase, find, settings
from hypothesis import strategies as st
from hypothesis.errors import Flaky, NoSuchExample

from minikv.testing.interleave import explore
from minikv.tokens import pack

NAMES: dict[str, Any] = {"array": array, "deque": deque, "np": np, "pack": pack}  # that lines may use
_IMPORTS = {"array": "from array import array", "deque": "from collections import deque", "np": "import numpy as np",
            "pack": "from minikv import pack", "suppress": "from contextlib import suppress"}  # fmt: skip
_GIVEN = re.compile(r"([a-z]\d*) = ")  # a name that a line gives to a result


@dataclass(frozen=True)
class Scenario:
    """Lines of Python, and the size of the pages for which they are written.

    >>> scenario = scenario_of("a = cache.insert([1, 2], [5])", "cache.lock(a)", page_size=2)
    >>> scenario.lines[1], scenario.page_size
    ('cache.lock(a)', 2)
    """

    lines: tuple[str, ...]
    page_size: int = 1

    @property
    def size(self) -> tuple[Any, ...]:
        """The measure of a scenario's size: lines, then characters, then tokens in a page."""
        text = "\n".join(self.lines)
        return len(self.lines), len(text), self.page_size, text


def scenario_of(*lines: str, page_size: int = 1) -> Scenario:
    """These lines as a scenario; a semicolon in one of them makes it two.

    >>> scenario_of("cache.evict(1); cache.reset()").lines
    ('cache.evict(1)', 'cache.reset()')
    """
    return Scenario(tuple("; ".join(lines).split("; ")), page_size)


@dataclass(frozen=True)
class Breach:
    """A rule that is broken: the `body` of a scenario shows it, and `words` say what the last line came to.

    `head` makes the cache, and `raised` has the errors that earlier lines end in.
    """

    rule: int
    body: Scenario
    words: str
    head: tuple[str, ...] = ()
    raised: Mapping[int, str] = field(default_factory=dict)
    endless: bool = False

    @property
    def is_crash(self) -> bool:
        """Return whether it is an error that the contract does not speak of."""
        return self.words.startswith("raises ") and not self.words.startswith("raises LockError")

    @property
    def script(self) -> str:
        """The lines as they can be run, with what is wrong as a comment at the end.

        >>> body = scenario_of("b = cache.acquire([1])", "c = cache.acquire(np.array([2]))", "cache.lock(c)")
        >>> print(Breach(6, body, "gives None", head=("cache = Mine()",), raised={0: "KeyError"}).script)
        from contextlib import suppress
        import numpy as np
        cache = Mine()
        with suppress(KeyError): cache.acquire([1])
        a = cache.acquire(np.array([2]))
        cache.lock(a)
        # gives None
        """
        lines = [line.replace("new()", self.head[-1].partition(" = ")[2]) for line in _renamed(self.body.lines)]
        for number, error in self.raised.items():
            if number < len(lines) - 1:
                lines[number] = f"with suppress({error}): {lines[number]}"
        text = "\n".join(lines)
        needed = sorted(_IMPORTS[name] for name in _IMPORTS if re.search(rf"(?<![\w.]){name}[.(]", text))
        return "\n".join([*needed, *self.head, *lines, f"# {self.words}"])


def _renamed(lines: Sequence[str]) -> list[str]:
    """The lines with the names a, b, c for what is used later, and no name for what is not."""
    found, fresh = list(lines), iter("abcdefghijklmnopqrstuvwxyz")
    for place, line in enumerate(lines):
        if given := _GIVEN.match(line):
            name, later = re.compile(rf"\b{given[1]}\b(?=[.,)]| = )"), found[place + 1 :]
            if any(map(name.search, later)):
                letter = next(fresh)
                found[place:] = [name.sub(letter, each) for each in found[place:]]
            else:
                found[place] = found[place].partition(" = ")[2]
    return found


# -- what Hypothesis writes --------------------------------------------------------------------------------------------


def prompts(trunk: list[int]) -> st.SearchStrategy[list[int]]:
    """Prompts that leave one trunk at some point, for up to 3 tokens of their own.

    >>> smallest_case(lambda prompt: len(prompt) > 2, prompts([1, 2, 1]))
    [1, 1, 1]
    """
    tails = st.lists(st.integers(1, 2), max_size=3)
    return st.builds(lambda cut, tail: trunk[:cut] + tail, st.integers(0, len(trunk)), tails)


_TOKENS = prompts([1, 2, 1, 1, 2, 2, 1, 2])
_NEEDS = {"start": "insert lock", "request": "acquire insert unlock", "cut": "insert match_prefix lock unlock evict"}


def scenarios(
    claims: frozenset[int], lacks: frozenset[str], sizes: Sequence[int], longest: int = 14, shortest: int = 0
) -> st.SearchStrategy[Scenario]:
    """Scenarios of so many steps for what a cache claims and has, in pages of these sizes.

    >>> smallest_case(lambda found: len(found.lines) > 2, scenarios(frozenset([1]), frozenset(), [1])).lines
    ('x1 = cache.match_prefix([])', 'x2 = cache.match_prefix([])', 'x3 = cache.match_prefix([])')
    """
    pick = st.integers(0, 5)
    names = st.sampled_from([None, None, "a"]) if 10 in claims else st.none()
    limits = st.sampled_from([None, None, 0, 3, 5]) if 3 in claims else st.none()
    kinds: dict[str, tuple[Any, ...]] = {"match_prefix": (_TOKENS, names, limits), "insert": (_TOKENS, names)}
    kinds["evict"] = (st.integers(0, 12),)
    if 6 in claims:
        kinds |= {"acquire": kinds["match_prefix"], "lock": (pick,), "unlock": (pick,), "start": (pick, _TOKENS)}
        kinds |= {"request": (_TOKENS, _TOKENS, names), "cut": (_TOKENS, st.integers(0, 8), names)}
    if 11 in claims:
        kinds["reset"] = ()
    usable = [kind for kind in kinds if not lacks & set(_NEEDS.get(kind, kind).split())]
    steps = st.one_of([st.tuples(st.just(kind), *kinds[kind]) for kind in usable])
    return st.builds(_written, st.sampled_from(sizes), st.lists(steps, min_size=shortest, max_size=longest))


def _written(page_size: int, steps: list[tuple[Any, ...]]) -> Scenario:
    """These steps as lines; one on a result, before there is any, is left out."""
    writing = _Writing(page_size)
    for kind, *parts in steps:
        getattr(writing, kind, writing.plain)(*parts, verb=kind)
    return Scenario(tuple(writing.lines), page_size)


class _Writing:
    """The lines so far, and the tokens and the namespace of each name in them; `page` is the next free one."""

    def __init__(self, page_size: int) -> None:
        self.page_size, self.page = page_size, 0
        self.lines: list[str] = []
        self.named: list[tuple[list[int], Any]] = []

    def plain(self, *parts: Any, verb: str) -> None:
        """A verb of numbers alone."""
        self.lines.append(f"cache.{verb}({', '.join(map(str, parts))})")

    def name(self, call: str, tokens: list[int], namespace: Any) -> str:
        """Write a call whose result gets a name."""
        self.named.append((tokens, namespace))
        self.lines.append(f"x{len(self.named)} = cache.{call}")
        return f"x{len(self.named)}"

    def match_prefix(self, tokens: list[int], namespace: Any, limit: Any, verb: str = "match_prefix") -> str:
        """Look up a prompt."""
        return self.name(
            f"{verb}({tokens}{optional('limit', limit)}{optional('namespace', namespace)})", tokens, namespace
        )

    acquire = match_prefix

    def insert(self, tokens: list[int], namespace: Any, start: str = "", verb: str = "") -> str:
        """Cache `tokens` in pages that are new."""
        first, self.page = self.page, self.page - (-len(tokens) // self.page_size)
        options = optional("namespace", namespace) + (f", start={start}" if start else "")
        return self.name(f"insert({tokens}, {[*range(first, self.page)]}{options})", tokens, namespace)

    def request(self, prompt: list[int], answer: list[int], namespace: Any, verb: str) -> None:
        """Look the prompt up, cache prompt and answer, let go."""
        held = self.acquire(prompt, namespace, None, "acquire")
        self.insert([*prompt, *answer], namespace, held)
        self.lines.append(f"cache.unlock({held})")

    def cut(self, tokens: list[int], limit: int, namespace: Any, verb: str) -> None:
        """A match cuts what was inserted; with nothing else cached the next use joins it, and both handles hold."""
        whole, part = self.insert(tokens, namespace), self.match_prefix(tokens, namespace, limit)
        self.lines += [f"cache.lock({whole})", "cache.evict(99)", f"cache.unlock({whole})"]
        self.match_prefix(tokens, namespace, None)
        self.lines += [f"cache.lock({part})", f"cache.unlock({part})"]

    def start(self, pick: int, more: list[int], verb: str) -> None:
        """A longer prompt from a handle on."""
        if self.named:
            number = len(self.named) - pick % len(self.named)
            tokens, namespace = self.named[number - 1]
            self.insert([*tokens, *more], namespace, f"x{number}")

    def lock(self, pick: int, verb: str) -> None:
        """A lock, or its end."""
        if self.named:
            self.lines.append(f"cache.{verb}(x{len(self.named) - pick % len(self.named)})")

    unlock = lock


def optional(name: str, value: Any) -> str:
    """An argument as it is written in a call, if there is one.

    >>> optional("limit", 3), optional("limit", None)
    (', limit=3', '')
    """
    return "" if value is None else f", {name}={value!r}"


def taking_turns() -> Iterator[Scenario]:
    """Requests that take turns: their lives in every order with one interruption, as the explorer finds them.

    >>> sum(1 for _ in taking_turns())
    60
    """
    orders: list[list[str]] = []

    def world() -> list[str]:
        orders.append([])
        return orders[-1]

    def life(name: str, prompt: list[int], page: int, lines: list[str]) -> Iterator[str]:
        longer, pages = [*prompt, page], [*range(page, page + len(prompt) + 1)]
        for line in (f"{name} = cache.acquire({prompt})", f"cache.insert({longer}, {pages}, start={name})",
                     f"cache.unlock({name})", "cache.evict(2)"):  # fmt: skip
            yield line
            lines.append(line)

    lives = partial(life, "a", [1, 2], 10), partial(life, "b", [1, 2, 3], 20), partial(life, "c", [1], 30)
    explore(world, *lives, interruptions=1)
    yield from (Scenario(tuple(lines)) for lines in orders)


# -- the smallest ------------------------------------------------------------------------------------------------------

INCONSTANT = object()  # in place of a case on which something goes wrong at one time and not at another


def smallest_case(is_wrong: Callable[[Any], bool], strategy: st.SearchStrategy[Any], examples: int = 300) -> Any:
    """The smallest case found among so many `examples`, the same in every process; `None` if all of them pass.

    >>> from hypothesis import strategies as st
    >>> smallest_case(lambda number: number > 10, st.integers(0, 100))
    11
    """
    how = settings(
        max_examples=examples, database=None, derandomize=True, deadline=None,
        phases=[Phase.generate, Phase.shrink], suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    try:
        return find(strategy, is_wrong, settings=how)
    except NoSuchExample:
        return None
    except Flaky:
        return INCONSTANT


def fewest_lines(lines: Sequence[str], shown_by: Callable[[list[str]], list[str] | None]) -> list[str]:
    """The lines without those that are not needed: Hypothesis shrinks what it makes, but not to the last line.

    `shown_by` returns the lines up to the one that goes wrong, or `None` if none does.

    >>> fewest_lines(["a = 1", "b = 2", "a / 0"], lambda lines: lines if "a = 1" in lines else None)
    ['a = 1', 'a / 0']
    """
    kept = list(lines)
    for line in kept[-2::-1]:
        kept = shown_by([each for each in kept if each is not line]) or kept
    return kept

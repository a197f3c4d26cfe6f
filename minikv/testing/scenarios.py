"""Scenarios: a few lines of Python that do something to `cache`; those that Hypothesis writes, and the smallest.

Hypothesis's prompts leave one trunk at some point, so that most of them share something and many part inside a node.
Every page is new, so a page that turns up in the wrong place says where it came from.
"""

from __future__ import annotations

import itertools
import re
from array import array
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from hypothesis import HealthCheck, Phase, find, settings
from hypothesis import strategies as st
from hypothesis.errors import Flaky, NoSuchExample

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
        """The measure of a scenario's size: lines, then characters, then tokens in a page.

        >>> Scenario(("cache.evict(1000)",)).size < Scenario(("a = 1", "b = 2")).size   # it has fewer lines
        True
        """
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
        >>> raised = {0: "KeyError", 2: "LockError"}   # the last line is to be seen
        >>> print(Breach(6, body, "gives None", head=("cache = Mine()",), raised=raised).script)
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
_STEPS = [  # {0}, {1} and {2} are new names, {old} is one from before, and {longer} begins with its tokens
    "{0} = cache.match_prefix({tokens}{limit}{name})",
    "{0} = cache.insert({tokens}, {pages}{name})",
    "cache.evict({number})",
    "{0} = cache.acquire({tokens}{limit}{name})",
    "cache.lock({old})",
    "cache.unlock({old})",
    "{0} = cache.insert({longer}, {pages}{name}, start={old})",
    "{0} = cache.acquire({tokens}{name}); {1} = cache.insert({longer}, {pages}{name}, start={0}); cache.unlock({0})",
    # A match cuts what was inserted; with nothing else cached the next use joins it, and both handles hold.
    "{0} = cache.insert({tokens}, {pages}{name}); {1} = cache.match_prefix({tokens}, limit={number}{name}); "
    "cache.lock({0}); cache.evict(99); cache.unlock({0}); {2} = cache.match_prefix({tokens}{name}); "
    "cache.lock({1}); cache.unlock({1})",
    "cache.reset()",
]


def scenarios(
    claims: frozenset[int], lacks: frozenset[str], sizes: Sequence[int], longest: int = 14, shortest: int = 0
) -> st.SearchStrategy[Scenario]:
    """Scenarios of so many steps for what a cache claims and has, in pages of these sizes.

    >>> smallest_case(lambda found: found.lines, scenarios(frozenset([1]), frozenset(), [1])).lines
    ('x1 = cache.match_prefix([])',)
    """
    parts: dict[str, st.SearchStrategy[Any]] = {
        "tokens": _TOKENS, "longer": _TOKENS, "old": st.integers(0, 5), "number": st.integers(0, 8),
        "name": st.sampled_from([None, None, "a"]) if 10 in claims else st.none(),
        "limit": st.sampled_from([None, None, 0, 3, 5]) if 3 in claims else st.none(),
    }  # fmt: skip
    barred = [*(f".{verb}(" for verb in lacks), *["lock", "acquire", "start"] * (6 not in claims)]
    barred += ["reset"] * (11 not in claims)
    steps = [
        st.tuples(st.just(text), st.fixed_dictionaries({part: parts[part] for part in parts if f"{{{part}}}" in text}))
        for text in _STEPS if not any(word in text for word in barred)
    ]  # fmt: skip
    return st.builds(_written, st.sampled_from(sizes), st.lists(st.one_of(steps), min_size=shortest, max_size=longest))


def _written(page_size: int, steps: list[tuple[str, dict[str, Any]]]) -> Scenario:
    """These steps as lines; one on a result, before there is any, is left out. All pages are new."""
    lines, named, page = list[str](), list[tuple[str, list[int], Any]](), 0
    for text, parts in steps:
        old, tokens, name = "", parts.get("tokens", []), parts.get("name")
        if "old" in parts:
            if not named:
                continue
            old, tokens, name = named[-1 - parts["old"] % len(named)]
        longer = [*tokens, *parts.get("longer", ())]
        first, page = page, page - (-len(longer) // page_size) * ("{pages}" in text)
        new = [f"x{len(named) + place + 1}" for place in range(text.count(" = "))]
        named += [(each, longer, name) for each in new]
        words = {"limit": optional("limit", parts.get("limit")), "name": optional("namespace", name), "old": old}
        filled = {**parts, **words, "tokens": tokens, "longer": longer, "pages": [*range(first, page)]}
        lines += text.format(*new, **filled).split("; ")
    return Scenario(tuple(lines), page_size)


def optional(name: str, value: Any) -> str:
    """An argument as it is written in a call, if there is one.

    >>> optional("limit", 3), optional("limit", None)
    (', limit=3', '')
    """
    return "" if value is None else f", {name}={value!r}"


def taking_turns() -> Iterator[Scenario]:
    """Requests that take turns: their lives in every order in which one at most is interrupted.

    >>> sum(1 for _ in taking_turns())
    60
    """
    lives = [
        [f"{name} = cache.acquire({prompt})",
         f"cache.insert({[*prompt, page]}, {[*range(page, page + len(prompt) + 1)]}, start={name})",
         f"cache.unlock({name})", "cache.evict(2)"]
        for name, prompt, page in (("a", [1, 2], 10), ("b", [1, 2, 3], 20), ("c", [1], 30))
    ]  # fmt: skip
    orders = set[tuple[str, ...]]()
    for life, *others in itertools.permutations(lives):
        for cut in range(1, len(life)):
            begun, rest = life[:cut], life[cut:]
            for parts in itertools.permutations([begun, rest, *others]):
                if parts.index(begun) < parts.index(rest):
                    orders.add(tuple(itertools.chain(*parts)))
    yield from map(Scenario, sorted(orders))


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

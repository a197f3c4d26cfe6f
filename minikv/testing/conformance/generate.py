"""Scenarios that are made: those about every form of input, and those that Hypothesis writes and shrinks; the search.

Hypothesis's prompts leave one trunk at some point, so that most of them share something and many part inside a node.
Every page is new, so a page that turns up in the wrong place says where it came from.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from hypothesis import HealthCheck, Phase, find, settings
from hypothesis import strategies as st
from hypothesis.errors import Flaky, NoSuchExample

from minikv.testing.conformance.script import Before, Breach, Scenario, scenario_of
from minikv.testing.conformance.subject import Subject

_CACHED = "cache.insert([1, 2], [0, 1])"
_FORMS = ["(1, 2, 3)", "range(1, 4)", "array('q', [1, 2, 3])", "np.array([1, 2, 3])", "np.array([1, 2, 3], np.uint8)",
          "np.array([1, 0, 2, 0, 3])[::2]", "b'\\1\\2\\3'", "pack([1, 2, 3])",
          "np.array([1, 2, 3], object)"]  # fmt: skip
_BAD_TOKENS = ["[1, -1]", "[2**32]", "[1, 2, 3.5]", "[1, '2']", "[None]", "'hello'", "{1, 2}", "5", "None", "[[1, 2]]",
               "np.zeros((2, 2), int)", "np.array([0.5])", "np.array([4, -7])", "np.array([2**40])"]  # fmt: skip
_PAGES = ["(7, 8, 9)", "deque([7, 8, 9])", "array('i', [7, 8, 9])", "np.array([7, 8, 9])", "pack([7, 8, 9])"]
_BAD_PAGES = ["[1]", "[1, 2, 3, 4]", "[1, 2, -3]", "[1, 2**31, 3]", "[1, 2.0, 3]", "None", "'abc'", "np.ones(3)",
              "np.ones((3, 1), int)", "np.array([1, 2, -3], np.int32)", "{1, 2, 3}", "{5: 5, 6: 6, 7: 7}"]  # fmt: skip
_BUFFERS = ["[1, 2, 3]", "array('I', [1, 2, 3])", "np.array([1, 2, 3], np.uint32)"]

INPUTS: list[Scenario] = [
    *[scenario_of(f"cache.insert({form}, [7, 8, 9])", "cache.match_prefix([1, 2, 3])", f"cache.match_prefix({form})")
      for form in _FORMS],
    *[scenario_of(_CACHED, f"cache.{call}", "cache.match_prefix([1, 2])")
      for bad in _BAD_TOKENS for call in (f"match_prefix({bad})", f"acquire({bad})", f"insert({bad}, [7, 8])")],
    *[scenario_of(f"cache.insert([1, 2, 3], {form})", "cache.match_prefix([1, 2, 3])") for form in _PAGES],
    *[scenario_of(_CACHED, f"cache.insert([1, 5, 6], {bad})", "cache.match_prefix([1, 5])") for bad in _BAD_PAGES],
    *[scenario_of(f"cache.insert({list(range(tokens))}, {list(range(count))})", page_size=4)
      for tokens in (0, 1, 3, 4, 5) for count in range(4)],
    scenario_of("cache.match_prefix([])", "cache.insert([], [])", "cache.evict(10)"),
]  # fmt: skip

# N7: the notebook keeps a view of the caller's tensor, and reusing that buffer makes a false hit.
COPIES: list[Scenario] = [
    *[scenario_of(f"tokens, pages = {buffer}, [7, 8, 9]", "cache.insert(tokens, pages)", "tokens[0], pages[0] = 9, 99",
                  "cache.match_prefix([1, 2, 3])", "cache.match_prefix([9, 2, 3])") for buffer in _BUFFERS],
    *[scenario_of("cache.insert([4], [7])", f"pages = {buffer}", "cache.insert([1, 2, 3], pages)", "pages[0] = 99",
                  "cache.match_prefix([1, 2, 3])") for buffer in _BUFFERS],
    scenario_of("cache.insert([1, 2], [7, 8])", "a = cache.match_prefix([1, 2])", "a.pages[0] = 99",
                "cache.match_prefix([1, 2])"),
]  # fmt: skip

MATCHES: list[Scenario] = [
    scenario_of("cache.insert([1, 2, 3, 4], [10, 11, 12, 13])", "cache.match_prefix([1, 2, 3, 4, 5])",
                "cache.match_prefix([1, 2, 9])", "cache.match_prefix([2])", "cache.match_prefix([1])"),
    # N1: the notebook's walk reads one global request; any other key raises or reads past the end.
    scenario_of("cache.insert([1, 3, 6, 7, 9, 77], [0, 1, 2, 3, 4, 5])", "cache.match_prefix([5, 5])",
                "cache.match_prefix([1, 3, 6, 7, 87, 66, 5, 4])"),
    scenario_of("cache.insert([1], [0])", "a = cache.match_prefix([2])", "cache.lock(a)", "cache.evict(1)",
                "cache.unlock(a)"),
    *[scenario_of("cache.insert([0, 1, 2, 3, 4, 5, 6, 7], [5, 6, 7, 8])",
                  f"a = cache.{verb}([0, 1, 2, 3, 4, 5, 6, 7], limit={limit})", page_size=2)
      for verb in ("match_prefix", "acquire") for limit in (None, 99, 8, 7, 1, 0)],
    *[scenario_of("cache.insert([1, 2, 3], [0, 1, 2])", f"cache.match_prefix([1, 2, 9], limit={limit})",
                  "cache.match_prefix([1, 2, 3])") for limit in ("-1", "'2'")],
]  # fmt: skip


def prompts(trunk: list[int], least: int = 0) -> st.SearchStrategy[list[int]]:
    """Prompts that leave one trunk at some point, for `least` to 3 tokens of their own.

    >>> smallest_case(lambda prompt: len(prompt) > 2, prompts([1, 2, 1]))
    [1, 1, 1]
    """
    tails = st.lists(st.integers(1, 2), min_size=least, max_size=3)
    return st.builds(lambda cut, tail: trunk[:cut] + tail, st.integers(0, len(trunk)), tails)


class Writing:
    """The lines so far, and the meaning of each name in them; each kind of class says how a step is written."""

    def __init__(self, page_size: int) -> None:
        self.page_size = page_size
        self.lines: list[str] = []
        self.named: list[tuple[Any, ...]] = []

    def write(self, kind: str, *parts: Any) -> None:
        """One step; one on a result, before there is any, is left out."""
        raise NotImplementedError

    def name(self, call: str, *stands_for: Any) -> None:
        """Write a call whose result gets a name."""
        count = len(self.named)
        name = "abcdefghijklmnopqrstuvwxyz"[count] if count < 26 else f"z{count}"
        self.lines.append(f"{name} = {call}")
        self.named.append((name, *stands_for))


Kinds = dict[str, tuple[st.SearchStrategy[Any], ...]]  # of steps, with what each of them is made from


def written(how: type[Writing], kinds: Kinds, sizes: Sequence[int], longest: int) -> st.SearchStrategy[Scenario]:
    """Scenarios of at most `longest` steps of these kinds, for pages of these sizes."""

    def scenario(page_size: int, steps: list[tuple[Any, ...]]) -> Scenario:
        writing = how(page_size)
        for step in steps:
            writing.write(*step)
        return Scenario(tuple(writing.lines), page_size)

    steps = st.one_of([st.tuples(st.just(kind), *parts) for kind, parts in kinds.items()])
    return st.builds(scenario, st.sampled_from(sizes), st.lists(steps, max_size=longest))


def scenarios(subject: Subject) -> st.SearchStrategy[Scenario]:
    """Scenarios for what this cache has and claims.

    >>> from minikv import RadixCache
    >>> from minikv.testing.conformance.subject import subject_of
    >>> strategy = scenarios(subject_of(RadixCache, range(1, 16)))
    """
    tokens, pick = prompts([1, 2, 1, 1, 2, 2, 1, 2]), st.integers(0, 5)
    names = st.sampled_from([None, None, "a"]) if 10 in subject.claims else st.none()
    limits = st.sampled_from([None, None, 0, 3, 5]) if 3 in subject.claims else st.none()
    kinds: Kinds = {
        "match_prefix": (tokens, names, limits),
        "insert": (tokens, names),
        "evict": (st.integers(0, 12),),
    }
    if 6 in subject.claims:
        kinds["acquire"] = kinds["match_prefix"]
        kinds["lock"] = kinds["unlock"] = (pick,)
        kinds["start"] = pick, tokens
        kinds["request"] = tokens, tokens, names
    if 11 in subject.claims:
        kinds["reset"] = ()
    needs = {"start": {"insert", "lock"}, "request": {"acquire", "insert", "unlock"}}
    usable = {}
    for kind, parts in kinds.items():
        if not subject.lacks & needs.get(kind, {kind}):
            usable[kind] = parts
    return written(_CacheWriting, usable, subject.page_sizes[:3], 14)


class _CacheWriting(Writing):
    """A name means its tokens and its namespace; `page` is the next free one."""

    page = 0

    def write(self, kind: str, *parts: Any) -> None:
        """Also a longer prompt from a handle on, and the whole life of a request."""
        if kind in ("match_prefix", "acquire"):
            tokens, namespace, limit = parts
            self.name(f"cache.{kind}({tokens}{optional('limit', limit)}{optional('namespace', namespace)})", *parts)
        elif kind == "insert":
            self.insert(*parts)
        elif kind == "request":  # look the prompt up, cache prompt and answer, let go
            prompt, answer, namespace = parts
            self.write("acquire", prompt, namespace, None)
            name = self.named[-1][0]
            self.insert([*prompt, *answer], namespace, name)
            self.lines.append(f"cache.unlock({name})")
        elif kind in ("evict", "reset"):
            self.lines.append(f"cache.{kind}({', '.join(map(str, parts))})")
        elif self.named:
            name, tokens, namespace, *_ = self.named[-1 - parts[0] % len(self.named)]
            if kind == "start":
                self.insert([*tokens, *parts[1]], namespace, name)
            else:
                self.lines.append(f"cache.{kind}({name})")

    def insert(self, tokens: list[int], namespace: Any, start: str = "") -> None:
        """Cache `tokens` in pages that are new."""
        first, self.page = self.page, self.page - (-len(tokens) // self.page_size)
        options = optional("namespace", namespace) + (f", start={start}" if start else "")
        self.name(f"cache.insert({tokens}, {[*range(first, self.page)]}{options})", tokens, namespace)


def optional(name: str, value: Any) -> str:
    """An argument as it is written in a call, if there is one.

    >>> optional("limit", 3), optional("limit", None)
    (', limit=3', '')
    """
    return "" if value is None else f", {name}={value!r}"


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


MOST_PLAYED, MOST_ENDLESS = 6000, 4  # scenarios that are tried at most, and operations that do not end


@dataclass
class Search:
    """Looks for the smallest scenario that breaks each of the rules that `subject` claims; `best` has what it found.

    `judge` says what is wrong in a scenario. `before` is called with each scenario before it is tried.
    """

    judge: Callable[[Scenario], Breach | None]
    subject: Subject
    before: Before = lambda scenario: None
    best: dict[int, Breach] = field(default_factory=dict)
    played: int = 0
    endless: int = 0

    @property
    def is_over(self) -> bool:
        """Return whether enough has been tried, or too much of it did not end."""
        return self.played >= MOST_PLAYED or self.endless >= MOST_ENDLESS

    def play(self, scenario: Scenario) -> Breach | None:
        """Try one scenario; what it breaks of what is claimed."""
        if self.is_over:
            return None
        self.played += 1
        self.before(scenario)
        found = self.judge(scenario)
        if found is not None and found.endless:  # or the machine was busy for so long
            found = self.judge(scenario)
        if found is None or found.rule not in self.subject.claims:
            return None
        self.endless += found.endless
        known = self.best.get(found.rule)
        if known is None or found.scenario.size < known.scenario.size:
            self.best[found.rule] = found
        return found

    def through(self, scenarios: Iterable[Scenario], unknown: Iterable[str]) -> None:
        """Try those without `unknown` words, with pages of a size that the subject can have."""
        words = [*unknown, *(f".{verb}(" for verb in self.subject.lacks)]
        for scenario in scenarios:
            is_known = not any(word in line for word in words for line in scenario.lines)
            if is_known and scenario.page_size in self.subject.page_sizes:
                self.play(scenario)

    def beyond(self, strategy: st.SearchStrategy[Scenario], examples: int) -> None:
        """Try what Hypothesis makes, until it finds no rule that it has not shrunk already."""
        shrunk: set[int] = set()

        def breaks(scenario: Scenario) -> bool:
            found = self.play(scenario)
            return found is not None and found.rule not in shrunk and not found.endless

        while not self.is_over:
            case = smallest_case(breaks, strategy, examples)
            found = self.play(case) if isinstance(case, Scenario) else None
            if found is None:
                break
            self.shorten(found)
            shrunk.add(found.rule)

    def shorten(self, found: Breach) -> None:
        """Try a script again and again without what is not needed in it."""

        def shown_by(lines: list[str]) -> list[str] | None:
            tried = self.play(Scenario(tuple(lines), found.page_size))
            return list(tried.body) if tried is not None and tried.rule == found.rule else None

        fewest_lines(found.body, shown_by)

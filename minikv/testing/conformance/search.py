"""The smallest case on which something goes wrong: Hypothesis makes cases, and shrinks the first that shows it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from hypothesis import HealthCheck, Phase, find, settings
from hypothesis.errors import Flaky, NoSuchExample
from hypothesis.strategies import SearchStrategy

from minikv.testing.conformance.script import Before, Breach, Scenario
from minikv.testing.conformance.subject import Subject

INCONSTANT = object()  # in place of a case on which something goes wrong at one time and not at another


def smallest_case(is_wrong: Callable[[Any], bool], strategy: SearchStrategy[Any], examples: int = 300) -> Any:
    """The smallest case found among so many `examples`, the same in every process; `None` if all of them are right.

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

    `judge` says what is wrong in a scenario. `before` is called with each scenario before it is tried. `reached` are
    the rules that could have been broken: a scenario came to its end that was picked for the rule, or is like the
    pattern that `shows` has for it.
    """

    judge: Callable[[Scenario], Breach | None]
    subject: Subject
    shows: Mapping[int, str]
    before: Before = lambda scenario: None
    best: dict[int, Breach] = field(default_factory=dict)
    reached: set[int] = field(default_factory=set)
    played: int = 0
    endless: int = 0

    @property
    def is_over(self) -> bool:
        """Whether enough has been tried, or too much of it did not end."""
        return self.played >= MOST_PLAYED or self.endless >= MOST_ENDLESS

    def play(self, scenario: Scenario, rule: int = 0) -> Breach | None:
        """Try one scenario, which was picked for a `rule` or made; what it breaks of what is claimed."""
        if self.is_over:
            return None
        self.played += 1
        self.before(scenario)
        found = self.judge(scenario)
        if found is not None and found.endless:  # or the machine was busy for so long
            found = self.judge(scenario)
        if found is None:
            text = "\n".join(scenario.lines)
            self.reached |= {each for each, shows in self.shows.items() if re.search(shows, text, re.DOTALL)}
            self.reached |= {rule} & self.subject.claims
        if found is None or found.rule not in self.subject.claims:
            return None
        self.endless += found.endless
        known = self.best.get(found.rule)
        if known is None or found.scenario.size < known.scenario.size:
            self.best[found.rule] = found
        return found

    def through(self, scenarios: Iterable[Scenario], unknown: Iterable[str], rule: int = 0) -> None:
        """Try those without `unknown` words, with pages of a size that the subject can have; picked for a `rule`."""
        words = [*unknown, *(f".{verb}(" for verb in self.subject.lacks)]
        for scenario in scenarios:
            is_known = not any(word in line for word in words for line in scenario.lines)
            if is_known and scenario.page_size in self.subject.page_sizes:
                self.play(scenario, rule)

    def beyond(self, strategy: SearchStrategy[Scenario], examples: int) -> None:
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

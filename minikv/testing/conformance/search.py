"""The search for broken rules: first the picked scenarios, then those that Hypothesis makes, shrunk to the smallest."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field

from hypothesis import HealthCheck, Phase, find, settings
from hypothesis.errors import Flaky, NoSuchExample
from hypothesis.strategies import SearchStrategy

from minikv.testing.conformance.playing import Breach
from minikv.testing.conformance.scenario import Scenario

MOST_PLAYED, MOST_ENDLESS = 6000, 4  # scenarios that are tried at most, and operations that do not end
Judge = Callable[[Scenario], "Breach | None"]


@dataclass
class Search:
    """Looks for the smallest scenario that breaks each of the rules `claims`; `best` has what it found.

    `judge` says what is wrong in a scenario. `before` is told of each scenario before it is tried. `reached` are the
    rules that could have been broken: a scenario came to its end that was picked for the rule, or is like the pattern
    that `shows` has for it.
    """

    judge: Judge
    claims: frozenset[int]
    shows: Mapping[int, str]
    before: Callable[[Scenario], None] = lambda scenario: None
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
            self.reached |= {rule} & self.claims
        if found is None or found.rule not in self.claims:
            return None
        self.endless += found.endless
        known = self.best.get(found.rule)
        if known is None or found.scenario.size < known.scenario.size:
            self.best[found.rule] = found
        return found

    def through(self, scenarios: Iterable[tuple[int, Scenario]]) -> None:
        """Try all of these, each with the rule that it was picked for."""
        for rule, scenario in scenarios:
            self.play(scenario, rule)

    def beyond(self, strategy: SearchStrategy[Scenario], examples: int) -> None:
        """Try what Hypothesis makes, until it finds no rule that it has not shrunk already."""
        shrunk: set[int] = set()

        def breaks(scenario: Scenario) -> bool:
            found = self.play(scenario)
            return found is not None and found.rule not in shrunk and not found.endless

        how = settings(
            max_examples=examples, database=None, derandomize=True, deadline=None,
            phases=[Phase.generate, Phase.shrink], suppress_health_check=list(HealthCheck),
        )  # fmt: skip
        with suppress(NoSuchExample, Flaky):
            while not self.is_over:
                found = self.play(find(strategy, breaks, settings=how))
                if found is None:
                    break
                self.shorten(found)
                shrunk.add(found.rule)

    def shorten(self, found: Breach) -> None:
        """Leave out what is not needed, line by line: Hypothesis shrinks what it makes, but not to the last line."""
        kept = list(found.body)
        for line in found.body[-2::-1]:
            tried = self.play(Scenario(tuple(each for each in kept if each is not line), found.page_size))
            if tried is not None and tried.rule == found.rule:
                kept = list(tried.body)

"""Everything that a cache manager is put through, and what comes of it: for each broken rule the smallest script."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Iterator
from typing import Any

from minikv.testing.conformance.judging import Mismatch
from minikv.testing.conformance.manager_cases import MANAGER_CASES
from minikv.testing.conformance.manager_generate import interleavings, manager_scenarios
from minikv.testing.conformance.manager_judging import MANAGER_RULE_OF, OPTIONAL_RULE_OF
from minikv.testing.conformance.manager_playing import NUM_PAGES, ManagerRun, play_manager
from minikv.testing.conformance.playing import Breach, Findings
from minikv.testing.conformance.rules import MANAGER_RULES
from minikv.testing.conformance.scenario import Scenario
from minikv.testing.conformance.search import Search
from minikv.testing.conformance.subject import Subject, subject_of

# What a scenario of each rule does; what a request finds and reads is looked at after every line.
_SHOWS = {
    **dict.fromkeys((1, 2, 3, 4, 5), "start"), 6: "finish", 7: "finish|abort", 8: "abort", 9: "checkpoint",
    10: "extend", 11: "namespace", 12: r"start\((\[\]|\[-1\]|'text'|5|\[1, (None|2\.5)\])",
}  # fmt: skip
MANAGER_EXAMPLES = 600  # that Hypothesis makes for a manager in which nothing is wrong


def manager_subject(made: Any, fixed: dict[str, Any] | None = None) -> Subject:
    """The class of a cache manager as something to be judged, with `NUM_PAGES` pages.

    >>> from minikv import CacheManager
    >>> subject = manager_subject(CacheManager)
    >>> subject.spelled(2, {}), sorted(subject.claims) == sorted(MANAGER_RULES)
    ('CacheManager(page_size=2, num_pages=6)', True)
    """
    subject = subject_of(made, MANAGER_RULES, {"num_pages": NUM_PAGES, **(fixed or {})})
    lacks = frozenset(verb for verb in (*MANAGER_RULE_OF, *OPTIONAL_RULE_OF) if not callable(getattr(made, verb, None)))
    return dataclasses.replace(subject, lacks=lacks)


def examine_manager(
    subject: Subject, examples: int = MANAGER_EXAMPLES, before: Callable[[Scenario], None] = lambda scenario: None
) -> Findings:
    """The rules that a cache manager claims and breaks, each with the smallest script, and those reached; never raises.

    >>> from minikv import CacheManager
    >>> found = examine_manager(manager_subject(CacheManager), examples=0)
    >>> found.broken, len(found.reached)
    ({}, 12)
    """
    run = ManagerRun(subject, 1, {})
    if run.made.error is not None:
        return run.unmade()
    missing = {each.rule: each for each in _missing(subject) if each.rule in subject.claims}
    search = Search(lambda scenario: play_manager(subject, scenario), subject.claims, _SHOWS, before)
    search.through(_playable(subject, MANAGER_CASES))
    if examples and "start" not in subject.lacks:
        for size in subject.page_sizes[:2]:
            search.through(_playable(subject, interleavings(size, interruptions=1)))
        search.beyond(manager_scenarios(subject), examples)
    for found in list(search.best.values()):
        search.shorten(found)
    return Findings(dict(sorted({**search.best, **missing}.items())), frozenset(search.reached))


def _missing(subject: Subject) -> Iterator[Breach]:
    """What the class lacks, each under the rule that needs it most."""
    for verb in sorted(subject.lacks - OPTIONAL_RULE_OF.keys()):
        run = ManagerRun(subject, 1, {})
        run.lines = [f"manager.{verb}"]
        yield run.end(Mismatch(MANAGER_RULE_OF[verb], f"it has no method {verb}"))


def _playable(subject: Subject, scenarios: Any) -> Iterator[tuple[int, Scenario]]:
    """The scenarios that speak of nothing but what this manager has and claims."""
    takes = inspect.signature(getattr(subject.make, "start")).parameters if "start" not in subject.lacks else {}  # noqa: B009
    unknown = [f".{verb}(" for verb in subject.lacks] + [f"{name}=" for name in ("limit",) if name not in takes]
    unknown += ["namespace="] if 11 not in subject.claims else []
    for scenario in scenarios:
        text = "\n".join(scenario.lines)
        if scenario.page_size in subject.page_sizes and not any(word in text for word in unknown):
            yield 0, scenario

"""Everything that a prefix cache is put through, and what comes of it: for each broken rule the smallest script."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator

from minikv.testing.conformance import blame
from minikv.testing.conformance.audits import audit, false_alarm, slow_sizes
from minikv.testing.conformance.cases import CASES
from minikv.testing.conformance.generate import scenarios
from minikv.testing.conformance.judging import RULE_OF, Mismatch
from minikv.testing.conformance.playing import Breach, SideBySide
from minikv.testing.conformance.repeats import repeats
from minikv.testing.conformance.scenario import Scenario
from minikv.testing.conformance.search import Search
from minikv.testing.conformance.sizes import SIZES
from minikv.testing.conformance.subject import Subject, attempt

EXAMPLES = 1000  # that Hypothesis makes for a cache in which nothing is wrong
_WORDS = {10: "namespace", 6: "lock(", 11: "reset(", 3: "limit="}  # what a scenario of that rule is known by


def examine_cache(
    subject: Subject, examples: int = EXAMPLES, heard: Callable[[Scenario], None] = lambda scenario: None
) -> dict[int, Breach]:
    """The rules that a prefix cache claims and breaks, each with the smallest script that shows it.

    `examples` is how many scenarios Hypothesis makes; 0 leaves it at the picked ones. Never raises, whatever the class
    does. `heard` is told of each scenario before it is tried.

    >>> from minikv import RadixCache
    >>> from minikv.testing.conformance.subject import subject_of
    >>> examine_cache(subject_of(RadixCache, range(1, 16)), examples=0)
    {}
    """
    run = SideBySide(subject, subject.page_sizes[0], subject.settings[0])
    if run.made.error is not None:
        return {rule: run.end(Mismatch(rule, run.made.in_words)) for rule in sorted(subject.claims)}
    if not subject.takes_page_size and type(size := getattr(run.index, "page_size", 1)) is int and size > 1:
        subject = dataclasses.replace(subject, page_sizes=(size,))
    missing = {found.rule: found for found in _missing(run) if found.rule in subject.claims}
    subject = dataclasses.replace(
        subject, lacks=frozenset(verb for verb in RULE_OF if not callable(getattr(run.index, verb, None)))
    )
    search = Search(lambda scenario: blame.find(subject, scenario), subject.claims, heard)
    search.through(_playable(subject))
    if examples and not {"insert", "match_prefix"} & subject.lacks:
        search.beyond(scenarios(subject), examples)
    for finding in list(search.best.values()):
        search.shorten(finding)
    audited = _audited(subject, sound=not search.best) if not search.endless else {}
    found = {**_causes(search.best), **audited, **missing}
    return dict(sorted(found.items()))


def _causes(found: dict[int, Breach]) -> dict[int, Breach]:
    """What was found, without what falls down later because of it: an error that no rule speaks of, and scars."""
    steps = {rule: len(each.body) for rule, each in found.items() if not each.is_crash and rule != 14}
    least = min(steps.values(), default=0)
    crashes = {rule for rule, each in found.items() if each.is_crash and len(each.body) > least}
    later = (crashes | {14}) & found.keys() if steps else set()
    if any(steps.get(rule, 99) <= steps.get(5, 0) for rule in (6, 7)):  # no split is needed to show it
        later.add(5)
    return {rule: each for rule, each in found.items() if rule not in later}


def _missing(run: SideBySide) -> Iterator[Breach]:
    """What the class lacks of the contract, each under the rule that needs it most."""
    for verb, rule in RULE_OF.items():
        if not callable(getattr(run.index, verb, None)):
            run.lines = [f"cache.{verb}"]
            yield run.end(Mismatch(rule, f"it has no method {verb}"))
    for name in SIZES:
        if attempt(name, lambda name=name: getattr(run.index, name)).error is not None:  # type: ignore[misc]
            run.lines = [f"cache.{name}"]
            yield run.end(Mismatch(7, f"it has no {name}"))


def _playable(subject: Subject) -> Iterator[Scenario]:
    """The picked scenarios that speak of nothing but what this subject has and claims."""
    for rule, cases in CASES.items():
        for scenario in cases if rule in subject.claims else ():
            text = "\n".join(scenario.lines)
            unknown = [verb for verb in subject.lacks if f".{verb}(" in text]
            unknown += [word for number, word in _WORDS.items() if word in text and number not in subject.claims]
            if not unknown and scenario.page_size in subject.page_sizes:
                yield scenario


def _audited(subject: Subject, sound: bool) -> dict[int, Breach]:
    """What the audits find that no scenario shows; where the cache is `sound`, its `check` must agree."""
    if {"insert", "match_prefix", "evict"} & subject.lacks:
        return {}
    found = {}
    if 12 in subject.claims and "check" not in subject.lacks:
        found[12] = (false_alarm(subject) if sound else None) or audit(subject)
    if 13 in subject.claims:
        found[13] = repeats(subject)
    if 7 in subject.claims:
        found[7] = slow_sizes(subject)
    return {rule: finding for rule, finding in found.items() if finding is not None}

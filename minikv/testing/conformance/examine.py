"""Everything that a prefix cache is put through, and what comes of it: for each broken rule the smallest script."""

from __future__ import annotations

import dataclasses
from typing import Any

from minikv.testing.attempt import attempt
from minikv.testing.conformance.audits import false_alarm, missed_by_check, repeats, slow_sizes
from minikv.testing.conformance.cases import CASES
from minikv.testing.conformance.generate import Search, scenarios
from minikv.testing.conformance.judging import RULE_OF, SIZES
from minikv.testing.conformance.managers import MANAGER_EXAMPLES, examine_manager, manager_subject
from minikv.testing.conformance.playing import SideBySide, find_breach
from minikv.testing.conformance.rules import CACHE_RULES, MANAGER_RULES, Conformance, conformance_of
from minikv.testing.conformance.script import Before, Breach, Findings, Mismatch
from minikv.testing.conformance.subject import Subject, subject_of

EXAMPLES = 1000  # that Hypothesis makes for a cache in which nothing is wrong
# What a scenario of a rule has in it; at the end of each, all is evicted.
_SHOWS = {
    3: "match_prefix|acquire", 4: "insert", 5: "insert.*lock", 6: "insert.*lock", 7: "insert", 8: "insert.*insert",
    9: "insert", 10: "insert.*namespace", 11: "insert.*reset", 14: "insert.*insert",
}  # fmt: skip
_WORDS = {10: "namespace", 6: "lock(", 11: "reset(", 3: "limit="}  # what a scenario of that rule is known by


def examine_cache(subject: Subject, examples: int = EXAMPLES, before: Before = lambda scenario: None) -> Findings:
    """The rules that a prefix cache claims and breaks, each with the smallest script that shows it; and those reached.

    `examples` is how many scenarios Hypothesis makes; 0 leaves it at the picked ones. Never raises, whatever the class
    does. `before` is called with each scenario before it is tried.

    >>> from minikv import RadixCache
    >>> from minikv.testing.conformance.subject import subject_of
    >>> found = examine_cache(subject_of(RadixCache, range(1, 16)), examples=0)
    >>> found.broken, len(found.reached)
    ({}, 15)
    """
    run = SideBySide(subject, subject.page_sizes[0], subject.settings[0])
    if run.made.error is not None:
        return run.unmade()
    subject = _as_made(subject, run.index)
    missing = {**run.missing(RULE_OF), **_missing_sizes(run)}
    search = Search(lambda scenario: find_breach(subject, scenario), subject, _SHOWS, before)
    unknown = [word for rule, word in _WORDS.items() if rule not in subject.claims]
    for rule, cases in CASES.items():
        search.through(cases if rule in subject.claims else (), unknown, rule)
    if examples and not {"insert", "match_prefix"} & subject.lacks:
        search.beyond(scenarios(subject), examples)
    for finding in list(search.best.values()):
        search.shorten(finding)
    audited = _audited(subject, before, sound=not search.best) if not search.endless else {}
    every = {**_causes(search.best), **audited, **missing}
    found = {rule: breach for rule, breach in every.items() if breach and rule in subject.claims}
    reached = search.reached | audited.keys() | ({15} if 4 in search.reached and subject.page_sizes != (1,) else set())
    if not (callable(getattr(run.index, "nodes", None)) or any(subject.whole_nodes.values())):
        reached.discard(14)  # what cannot be seen is not judged
    return Findings(dict(sorted(found.items())), frozenset(reached))


def _as_made(subject: Subject, index: Any) -> Subject:
    """The subject with what an object of it shows: the size of its pages, and the verbs that it lacks."""
    size = getattr(index, "page_size", 1)
    if not subject.takes_page_size and type(size) is int and size > 1:
        subject = dataclasses.replace(subject, page_sizes=(size,))
    lacks = frozenset(verb for verb in RULE_OF if not callable(getattr(index, verb, None)))
    return dataclasses.replace(subject, lacks=lacks)


def _causes(found: dict[int, Breach]) -> dict[int, Breach]:
    """What was found, without what falls down later because of it: an error that no rule speaks of, and scars."""
    steps = {rule: len(each.body) for rule, each in found.items() if not each.is_crash and rule != 14}
    least = min(steps.values(), default=0)
    crashes = {rule for rule, each in found.items() if each.is_crash and len(each.body) > least}
    later = (crashes | {14}) & found.keys() if steps else set()
    if any(steps.get(rule, 99) <= steps.get(5, 0) for rule in (6, 7)):  # no split is needed to show it
        later.add(5)
    return {rule: each for rule, each in found.items() if rule not in later}


def _missing_sizes(run: SideBySide) -> dict[int, Breach]:
    for name in reversed(SIZES):
        if attempt(lambda name=name: getattr(run.index, name)).error is not None:
            run.lines = [f"cache.{name}"]
            return {7: run.end(Mismatch(7, f"it has no {name}"))}
    return {}


def _audited(subject: Subject, before: Before, sound: bool) -> dict[int, Breach | None]:
    """What the audits say that no scenario shows; where the cache is `sound`, its `check` must agree."""
    if {"insert", "match_prefix", "evict"} & subject.lacks:
        return {}
    found: dict[int, Breach | None] = {}
    if 12 in subject.claims and "check" not in subject.lacks:
        found[12] = (false_alarm(subject, before) if sound else None) or missed_by_check(subject)
    if 13 in subject.claims:
        found[13] = repeats(subject, before)
    if 7 in subject.claims and (slow := slow_sizes(subject)) is not None:
        found[7] = slow
    return found


RULES = {"cache": CACHE_RULES, "manager": MANAGER_RULES}


def verify(
    made: Any,
    kind: str = "cache",
    home: str | None = None,
    examples: int | None = None,
    before: Before = lambda scenario: None,
    **fixed: Any,
) -> Conformance:
    """Whether a class keeps the rules that it claims; `home` is the module that the scripts import it from.

    `kind` is "cache" or "manager". `examples` is how many scenarios Hypothesis makes, and `fixed` are arguments that
    the class is always given. Never raises, but for `claims` that are not numbers of rules (`ValueError`).

    >>> from minikv import NoCache
    >>> print(str(verify(NoCache, examples=0)).splitlines()[-1])
    14 rules hold, 0 are broken, 1 is not claimed
    """
    rules = RULES[kind]
    subject = subject_of(made, rules, fixed) if kind == "cache" else manager_subject(made, fixed)
    if home is not None:
        subject = dataclasses.replace(subject, home=home)
    examine, most = (examine_cache, EXAMPLES) if kind == "cache" else (examine_manager, MANAGER_EXAMPLES)
    found = examine(subject, most if examples is None else examples, before)
    return conformance_of(subject.name, rules, subject.claims, found)

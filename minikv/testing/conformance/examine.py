"""Everything that a class is put through, and the result: for each broken rule the smallest script."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

from minikv.testing.attempt import error_text
from minikv.testing.conformance.apart import MOST_COMPUTING, Message, Say, messages_apart
from minikv.testing.conformance.audits import false_alarm, missed_by_check, repeats, slow_sizes
from minikv.testing.conformance.caches import CacheRun
from minikv.testing.conformance.generate import Search
from minikv.testing.conformance.managers import ManagerRun
from minikv.testing.conformance.playing import SideBySide, find_breach
from minikv.testing.conformance.rules import (
    NOT_CLAIMED,
    NOT_JUDGED,
    RULES,
    Conformance,
    RuleVerdict,
    conformance_of,
)
from minikv.testing.conformance.script import OTHER_FORMS, Before, Breach, Findings
from minikv.testing.conformance.subject import (
    NothingToJudgeError,
    Subject,
    claimed,
    classes_in,
    load_module,
    subject_of,
)


def examine_class(
    subject: Subject, kind: str = "cache", examples: int | None = None, before: Before = lambda scenario: None
) -> Findings:
    """The rules that a class claims and breaks, each with the smallest script that shows it; and those reached.

    `kind` is "cache" or "manager". `examples` is how many scenarios Hypothesis makes; 0 leaves it at the picked ones.
    Never raises, whatever the class does. `before` is called with each scenario before it is tried.

    >>> from minikv import RadixCache
    >>> found = examine_class(subject_of(RadixCache, RULES["cache"]), examples=0)
    >>> found.broken, len(found.reached)
    ({}, 15)
    """
    how = KINDS[kind]
    run = how(subject, subject.page_sizes[0], subject.settings[0])
    if run.made.error is not None:
        return run.unmade()
    subject = _as_made(subject, run)
    missing, unknown = run.missing(), run.unknown() + OTHER_FORMS * subject.trusting
    reached: set[int] = set()
    search = Search(lambda scenario: find_breach(how, subject, scenario, reached), subject, before)
    for rule, cases in how.cases.items():
        search.through(cases if rule in {0, *subject.claims} else (), unknown)
    most = how.examples if examples is None else examples
    if most and not how.needs & subject.lacks:
        for size in subject.page_sizes[:2]:
            search.through(run.orders(size), unknown)
        search.beyond(run.scenarios(subject), most)
    for breach in list(search.best.values()):
        search.shorten(breach)
    found = _conclude_cache(subject, search, reached) if kind == "cache" else search.best
    broken = {rule: breach for rule, breach in sorted({**found, **missing}.items()) if rule in subject.claims}
    return Findings(broken, frozenset(reached - search.best.keys()))


def _as_made(subject: Subject, run: SideBySide) -> Subject:
    """The subject with what an object of it shows: the size of its pages, and the verbs that it lacks."""
    size = getattr(run.index, "page_size", 1)
    if len(subject.page_sizes) == 1 and type(size) is int and size > 1:
        subject = dataclasses.replace(subject, page_sizes=(size,))
    return dataclasses.replace(subject, lacks=run.lacking())


def _causes(found: dict[int, Breach]) -> dict[int, Breach]:
    """The findings without their consequences: an error that no rule covers, and scars."""
    steps = {}
    for rule, each in found.items():
        if not each.is_crash and rule != 14:
            steps[rule] = len(each.body)
    later = set()
    if steps:
        least = min(steps.values())
        later = {rule for rule, each in found.items() if each.is_crash and len(each.body) > least}
        later.add(14)
    if any(steps.get(rule, 99) <= steps.get(5, 0) for rule in (6, 7)):  # no split is needed to show it
        later.add(5)
    return {rule: each for rule, each in found.items() if rule not in later}


def _conclude_cache(subject: Subject, search: Search, reached: set[int]) -> dict[int, Breach]:
    """The findings of the scenarios and the audits, which show nothing where nothing was ever cached."""
    audited = _audited(subject, search) if not search.endless else {}
    if 7 in reached:
        reached.update(audited)
    return {rule: breach for rule, breach in {**_causes(search.best), **audited}.items() if breach is not None}


def _audited(subject: Subject, search: Search) -> dict[int, Breach | None]:
    """The findings of the audits that no scenario shows; without findings, the cache's `check` must agree."""
    if {"insert", "match_prefix", "evict"} & subject.lacks:
        return {}
    found: dict[int, Breach | None] = {}
    if 12 in subject.claims and "check" not in subject.lacks:
        alarm = false_alarm(subject, search.before) if not search.best else None
        found[12] = alarm or (None if subject.trusting else missed_by_check(subject))
    if 13 in subject.claims:
        found[13] = repeats(subject, search.before)
    if 7 in subject.claims and (slow := slow_sizes(subject)) is not None:
        found[7] = slow
    return found


KINDS: dict[str, type[SideBySide]] = {"cache": CacheRun, "manager": ManagerRun}


def verify(
    made: Any,
    kind: str = "cache",
    home: str | None = None,
    examples: int | None = None,
    before: Before = lambda scenario: None,
    trusting: bool = False,
    **fixed: Any,
) -> Conformance:
    """Return whether a class keeps the rules that it claims; `home` is the module that the scripts import it from.

    `kind` is "cache" or "manager". `examples` is how many scenarios Hypothesis makes, `trusting` leaves out all input
    that is to be refused, and `fixed` are arguments that the class is always given. Never raises, but for `claims` that
    are not numbers of rules (`ValueError`).

    >>> from minikv import NoCache
    >>> print(str(verify(NoCache, examples=0)).splitlines()[-1])
    holds: 1, not reached: 13, not claimed: 1
    """
    subject = subject_of(made, RULES[kind], {**KINDS[kind].always_given, **fixed})
    subject = dataclasses.replace(subject, trusting=trusting, home=subject.home if home is None else home)
    return conformance_of(subject.name, RULES[kind], subject.claims, examine_class(subject, kind, examples, before))


def verify_apart(
    target: str, name: str = "", examples: int | None = None, trusting: bool = False, seconds: int = MOST_COMPUTING
) -> Iterator[Conformance]:
    """The verdicts on the class `name` of a file or a module, or on each class there that can be judged.

    `examples` is how many scenarios Hypothesis makes for each, and `trusting` gives it valid input only. It may compute
    for so many `seconds` at a time. Raises `NothingToJudgeError` where there is no class to
    judge. Whatever the code does, it does in another process, with the rights of this one.

    >>> [each.name for each in verify_apart("minikv.prefix", "NoCache", examples=0)]
    ['NoCache']
    """
    waiting: list[Message] | None = None
    lines: list[str] = []
    arguments = target, name, "" if examples is None else str(examples), "trusting" * trusting
    for message in messages_apart(f"{__name__}:judge_classes", *arguments, seconds=seconds):
        if "error" in message:
            raise NothingToJudgeError(message["error"])
        if "classes" in message:
            waiting = message["classes"]
        elif "doing" in message:
            lines = message["doing"]
        elif "rules" in message and waiting:
            yield _judged(waiting.pop(0), message["rules"], message.get("note", ""))
            lines = []
        elif waiting is None:
            raise NothingToJudgeError(f"its import {message.get('end', _NO_VERDICT)}")
        else:
            for about in waiting:
                yield _unjudged(about, message.get("end", _NO_VERDICT), lines)
                lines = []
            return


_NO_VERDICT = "sends no verdict"


def _judged(about: Message, said: list[Any], note: str) -> Conformance:
    """The report that the other process made, if it has the state of every rule, and its script or none."""
    named = RULES[about["kind"]].items()
    try:
        verdicts = [
            RuleVerdict(*rule, str(state), script and str(script))
            for rule, (state, script) in zip(named, said, strict=True)
        ]
    except (TypeError, ValueError):
        return _unjudged(about, _NO_VERDICT, [])
    return Conformance(about["class"], tuple(verdicts), note)


def _unjudged(about: Message, end: str, lines: list[str]) -> Conformance:
    """The report on a class that the process did not come to, or during which it ended."""
    rules = RULES[about["kind"]].items()
    verdicts = [RuleVerdict(n, name, NOT_JUDGED if n in about["claims"] else NOT_CLAIMED) for n, name in rules]
    where = " in these lines:" if lines else ""
    note = "\n".join([f"the process {end}{where}", *(f"    {line}" for line in lines), ""])
    return Conformance(about["class"], tuple(verdicts), note)


def judge_classes(say: Say, target: str, name: str, examples: str, trusting: str) -> None:
    """Judge the classes of a file or a module, or the one called `name`: in the other process.

    >>> judge_classes(lambda **message: print(message), "no_such_file.py", "", "", "")
    {'error': 'ImportError: there is no such file'}
    """
    try:
        module = load_module(target)
        classes = classes_in(module, name)
        about = [{"class": each, "kind": kind, "claims": sorted(claimed(made, RULES[kind]))}
                 for each, (kind, made) in classes.items()]  # fmt: skip
    except BaseException as error:  # an import may raise anything
        words = error_text(error, 200)
        say(error=words if type(error) is NothingToJudgeError else f"{type(error).__name__}: {words}")
        return
    say(classes=about)
    for kind, made in classes.values():
        how = int(examples) if examples else None
        found = verify(made, kind, module.__name__, how, lambda scenario: say(doing=scenario.lines), bool(trusting))
        say(rules=[(each.state, each.script) for each in found.verdicts], note=found.note)

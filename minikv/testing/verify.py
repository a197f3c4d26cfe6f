"""Everything that a cache is put through, and the result: for each broken rule the smallest script.

`verify_apart` finds the classes of a file or a module, and judges them in another process.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from functools import partial
from types import CodeType, ModuleType
from typing import Any

from minikv.errors import bounded
from minikv.prefix.contract import RULES
from minikv.testing.apart import MOST_COMPUTING, Message, Say, load_module, messages_apart
from minikv.testing.attempt import attempt, error_text
from minikv.testing.audits import false_alarm, missed_by_check, repeats, slow_sizes
from minikv.testing.cases import CASES
from minikv.testing.playing import RULE_OF, SideBySide
from minikv.testing.rules import (
    BROKEN,
    HOLDS,
    NOT_CLAIMED,
    NOT_JUDGED,
    NOT_REACHED,
    SIZES,
    Conformance,
    NothingToJudgeError,
    RuleVerdict,
    Subject,
    subject_of,
)
from minikv.testing.scenarios import Breach, taking_turns
from minikv.testing.search import Search

EXAMPLES = 1000  # scenarios that Hypothesis makes
_NEVER_HITS = "it never hits: nothing that was inserted was found again, so this cache saves no work\n"


def examine_class(subject: Subject, examples: int = EXAMPLES) -> Conformance:
    """The verdicts on a class, each broken rule with the smallest script that shows it.

    `examples` is how many scenarios Hypothesis makes; 0 leaves it at the picked ones. Never raises, whatever the class
    does.

    >>> from minikv import RadixCache
    >>> print(str(examine_class(subject_of(RadixCache), examples=0)).splitlines()[-1])
    holds: ...
    """
    run = SideBySide(subject, subject.page_sizes[0], subject.settings[0])
    if run.made.error is not None:
        script = run.end(0, run.made.in_words).script.replace("\n", "\n    ")
        return _conformance(subject, {}, set(), f"it cannot be made:\n    {script}\n", NOT_JUDGED)
    size = getattr(run.index, "page_size", 1)
    if len(subject.page_sizes) == 1 and type(size) is int and size > 1:
        subject = dataclasses.replace(subject, page_sizes=(size,))
    lacks = frozenset(name for name in RULE_OF if isinstance(
        attempt(partial(getattr, run.index, name)).error, AttributeError))  # fmt: skip
    search = Search(dataclasses.replace(subject, lacks=lacks))
    for rule, cases in CASES.items():
        if rule in subject.claims:
            search.through(cases)
    if examples and not lacks & {"insert", "match_prefix"}:
        search.through(taking_turns())
        search.beyond(examples)
    for breach in list(search.best.values()):
        search.shorten(breach)
    audited, reached = _audited(search), search.reached
    if 7 in reached:  # audits show nothing where nothing was ever cached
        reached |= audited.keys()
    found = {**audited, **_causes(search.best), **_missing(run, lacks)}
    note = _NEVER_HITS if 3 in subject.claims - reached else ""
    return _conformance(subject, found, reached - search.best.keys(), note)


def _audited(search: Search) -> dict[int, Breach | None]:
    """The findings of the audits that no scenario shows; without findings, the cache's `check` must agree."""
    subject, found = search.subject, dict[int, Breach | None]()
    if {"insert", "match_prefix", "evict"} & subject.lacks or search.endless:
        return found
    if 12 in subject.claims and "check" not in subject.lacks:
        alarm = None if search.best else false_alarm(subject)
        found[12] = alarm or (None if subject.trusting else missed_by_check(subject))
    if 13 in subject.claims:
        found[13] = repeats(subject)
    if 7 in subject.claims:
        found[7] = slow_sizes(subject)
    return found


def _causes(found: dict[int, Breach]) -> dict[int, Breach | None]:
    """The findings without their consequences: an error that no rule covers, and scars."""
    steps = {rule: len(each.body.lines) for rule, each in found.items() if not each.is_crash and rule != 14}
    least = min(steps.values(), default=99)
    later = {rule for rule, each in found.items() if each.is_crash and len(each.body.lines) > least}
    if steps:
        later.add(14)
    if any(steps.get(rule, 99) <= steps.get(5, 0) for rule in (6, 7)):  # no split is needed to show it
        later.add(5)
    return {rule: each for rule, each in found.items() if rule not in later}


def _missing(run: SideBySide, lacks: frozenset[str]) -> dict[int, Breach]:
    """The verbs and sizes that the object lacks, each under the rule that needs it most."""
    found = {}
    for name in sorted(lacks):
        run.lines = [f"cache.{name}"]
        found[RULE_OF[name]] = run.end(RULE_OF[name], f"it has no {'method ' * (name not in SIZES)}{name}")
    return found


def _conformance(subject: Subject, found: Any, reached: set[int], note: str, other: str = NOT_REACHED) -> Conformance:
    """The verdicts, from the breaches that were `found` and the rules that were reached."""
    verdicts = []
    for rule, words in RULES.items():
        breach = found.get(rule)
        said = BROKEN if breach else HOLDS if rule in reached else other
        state = said if rule in subject.claims else NOT_CLAIMED
        verdicts.append(RuleVerdict(rule, words, state, breach.script if state == BROKEN else None))
    return Conformance(subject.name, tuple(verdicts), note)


def verify(
    made: Any, examples: int = EXAMPLES, home: str | None = None, trusting: bool = False, **fixed: Any
) -> Conformance:
    """Return whether a class keeps the rules that it claims; `home` is the module that the scripts import it from.

    `examples` is how many scenarios Hypothesis makes, `trusting` leaves out all input that is to be refused, and
    `fixed` are arguments that the class is always given. Never raises, but for `claims` that are not numbers of rules
    (`ValueError`).

    >>> from minikv import NoCache
    >>> print(str(verify(NoCache, examples=0)).splitlines()[-1])
    holds: 1, not reached: ..., not claimed: 1
    """
    return examine_class(subject_of(made, fixed, home, trusting=trusting), examples)


# -- a file or a module, apart -----------------------------------------------------------------------------------------


def verify_apart(
    target: str, name: str = "", examples: int = EXAMPLES, trusting: bool = False, seconds: int = MOST_COMPUTING
) -> Iterator[Conformance]:
    """The verdicts on the class `name` of a file or a module, or on each prefix cache there.

    `examples` is how many scenarios Hypothesis makes for each, and `trusting` gives it valid input only. It may compute
    for so many `seconds` at a time. Raises `NothingToJudgeError` where there is no class to
    judge. Whatever the code does, it does in another process, with the rights of this one.

    >>> [each.name for each in verify_apart("minikv.prefix", "NoCache", examples=0)]
    ['NoCache']
    """
    waiting: list[Message] | None = None
    lines: list[str] = []
    arguments = target, name, str(examples), "trusting" * trusting
    for message in messages_apart(f"{__name__}:judge_classes", *arguments, seconds=seconds):
        end = message.get("end", "sends no verdict")
        if "error" in message:
            raise NothingToJudgeError(message["error"])
        if "classes" in message:
            waiting = message["classes"]
        elif "doing" in message:
            lines = message["doing"]
        elif waiting is None:
            raise NothingToJudgeError(f"its import {end}")
        elif "rules" in message and waiting:
            yield _judged(waiting.pop(0), message["rules"], message.get("note", ""), end)
            lines = []
        else:
            for about in waiting:
                yield _unjudged(about, end, lines)
                lines = []
            return


def _judged(about: Message, said: list[Any], note: str, end: str) -> Conformance:
    """The report that the other process made, if it has the state of every rule, and its script or none."""
    try:
        verdicts = [RuleVerdict(*rule, str(state), script and str(script))
                    for rule, (state, script) in zip(RULES.items(), said, strict=True)]  # fmt: skip
    except (TypeError, ValueError):
        return _unjudged(about, end, [])
    return Conformance(about["class"], tuple(verdicts), note)


def _unjudged(about: Message, end: str, lines: list[str]) -> Conformance:
    """The report on a class that the process did not come to, or during which it ended."""
    where = " in these lines:" if lines else ""
    note = "\n".join([f"the process {end}{where}", *(f"    {line}" for line in lines), ""])
    return _conformance(Subject(object, about["class"], about["claims"]), {}, set(), note, NOT_JUDGED)


def judge_classes(say: Say, target: str, name: str, examples: str, trusting: str) -> None:
    """Judge the classes of a file or a module, or the one called `name`: in the other process.

    >>> judge_classes(lambda **message: print(message), "no_such_file.py", "", "", "")
    {'error': 'ImportError: there is no such file'}
    """
    try:
        module = load_module(target)
        classes = classes_in(module, name)
        about = [{"class": each, "claims": sorted(subject_of(made).claims)} for each, made in classes.items()]
    except BaseException as error:  # an import may raise anything
        words = error_text(error, 200)
        say(error=words if type(error) is NothingToJudgeError else f"{type(error).__name__}: {words}")
        return
    say(classes=about)
    for made in classes.values():
        subject = subject_of(
            made, home=module.__name__, trusting=bool(trusting), before=lambda each: say(doing=each.lines)
        )
        found = examine_class(subject, int(examples))
        say(rules=[(each.state, each.script) for each in found.verdicts], note=found.note)


def classes_in(module: ModuleType, name: str = "") -> dict[str, Any]:
    """The prefix caches to be judged, by name: the class called `name`, or all that the module defines.

    A module that defines none, such as a package, is looked through for those that it imports. `NothingToJudgeError`
    says why there is nothing to judge: the class may have methods that are abstract, or as the template has them.

    >>> import minikv.prefix.radix
    >>> sorted(classes_in(minikv.prefix.radix))
    ['RadixCache']
    """
    if name and not hasattr(module, name):
        raise NothingToJudgeError(f"it has no class {bounded(name)}")
    known = {name: getattr(module, name)} if name else vars(module)
    found = {key: each for key, each in known.items() if (name or key[0] != "_") and _has(each, "match_prefix insert")}
    if not found:
        if managers := [key for key, each in known.items() if _has(each, "start advance finish abort")]:
            raise NothingToJudgeError(f"{managers[0]} is a cache manager, and verify judges only prefix caches")
        who = f"{bounded(name)} is not a class" if name else "it has no class"
        raise NothingToJudgeError(f"{who} with match_prefix and insert")
    found = {key: each for key, each in found.items() if each.__module__ == module.__name__} or found
    for key, made in found.items():
        left = [each for each, method in vars(made).items() if _is_todo(getattr(method, "__code__", None))]
        if left := left + sorted(getattr(made, "__abstractmethods__", ())):
            raise NothingToJudgeError(f"{key} is not filled in yet: write its {', '.join(left)}")
    return found


def _has(found: Any, verbs: str) -> bool:
    """Return whether this is a class with these methods, and not a protocol."""
    is_class = isinstance(found, type) and not getattr(found, "_is_protocol", False)
    return is_class and all(callable(getattr(found, verb, None)) for verb in verbs.split())


def _is_todo(code: CodeType | None) -> bool:
    """The code returns or unpacks `...`, or `self.cache` is that: it uses no other name."""
    return code is not None and ... in code.co_consts and code.co_names in ((), ("cache",))

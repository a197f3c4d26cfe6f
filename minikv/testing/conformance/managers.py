"""Everything that a cache manager is put through, with the canary looking on, and what comes of it."""

from __future__ import annotations

import dataclasses
import inspect
import itertools
from collections.abc import Iterator, Mapping
from typing import Any

from minikv.testing.attempt import attempt
from minikv.testing.canary import Canary
from minikv.testing.conformance.generate import Search
from minikv.testing.conformance.manager_cases import MANAGER_CASES, interleavings, manager_scenarios
from minikv.testing.conformance.manager_judging import (
    MANAGER_RULE_OF,
    OPTIONAL_RULE_OF,
    judge_manager,
    look_around,
    read_sequence,
)
from minikv.testing.conformance.manager_model import NaiveManager, NaiveRequest
from minikv.testing.conformance.rules import MANAGER_RULES
from minikv.testing.conformance.script import (
    Before,
    Breach,
    Findings,
    Mismatch,
    Recorder,
    Scenario,
    Stage,
    Transcript,
)
from minikv.testing.conformance.subject import Subject, subject_of

NUM_PAGES = 6
_READERS = {"start": read_sequence}


class ManagerRun(Transcript):
    """One scenario on a new manager and on a new model; `requests` are all that were started, the model's."""

    def __init__(self, subject: Subject, page_size: int, settings: Mapping[str, Any]):
        super().__init__(subject, page_size, settings, "manager")
        self.model = NaiveManager(NUM_PAGES, page_size)
        self.stage = Stage("manager", Recorder(self.index, _READERS))
        self.expected = Stage("manager", Recorder(self.model, {}, is_ours=True))
        self.requests: list[NaiveRequest] = []
        self.canary = Canary()

    def pairs(self) -> Iterator[tuple[NaiveRequest, Any]]:
        """The running requests, each as the model has it and as the manager has it."""
        for name, request in self.expected.names.items():
            if isinstance(request, NaiveRequest) and request in self.model.running and name in self.stage.names:
                yield request, self.stage.names[name]

    def step(self, line: str) -> Mismatch | None:
        """Run one line on both; where they part, if they do."""
        before = {id(request): request.computed for request in self.requests}
        reply, expected = self.stage.step(line), self.expected.step(line)
        self.note(line, self.stage.line, reply)
        if expected is None or reply is None:
            return None
        found = judge_manager(self, reply, expected)
        if found is None and expected.verb == "advance" and expected.error is None:
            self.compute(expected.args[0], before[id(expected.args[0])])
        return found or look_around(self, expected.verb, expected.error is not None)

    def compute(self, request: NaiveRequest, start: int) -> None:
        """What an engine does before it says `advance`: write the keys and values of these tokens into their slots."""
        for other, sequence in self.pairs():
            if other is request:
                tokens = request.tokens[: request.computed]
                attempt(lambda: self.canary.write(tokens, sequence.slots, start, request.namespace))  # noqa: B023


def play_manager(subject: Subject, scenario: Scenario) -> Breach | None:
    """Run a scenario, end all requests, and see whether every page is there; the first thing that is wrong.

    A breach that is gone when the refused lines are left out is one of the rule that refuses them.

    >>> from minikv import CacheManager
    >>> from minikv.testing.conformance.managers import manager_subject
    >>> from minikv.testing.conformance.script import scenario_of
    >>> play_manager(manager_subject(CacheManager), scenario_of("a = manager.start([1, 2])", "manager.finish(a)"))
    """
    run = ManagerRun(subject, scenario.page_size, subject.settings[0])
    found = _play(run, scenario.lines)
    if found is None or found.endless or not run.refused:
        return found
    refused = dict(run.refused)
    kept = tuple(line for number, line in enumerate(scenario.lines) if number not in refused)
    if _play(ManagerRun(subject, scenario.page_size, subject.settings[0]), kept) is None:
        return dataclasses.replace(found, rule=run.refused[0][1])
    return found


def _play(run: ManagerRun, lines: tuple[str, ...]) -> Breach | None:
    """Run the lines, end what still runs, and begin a request that needs every page."""
    if run.made.error is not None:
        return run.end(Mismatch(12, run.made.in_words))
    if (found := run.play(itertools.chain(lines, _ending(run)))) is not None:
        return found
    if callable(getattr(run.index, "check", None)) and (error := attempt(run.index.check).error) is not None:
        run.lines.append("manager.check()")
        return run.end(Mismatch(1, f"raises {type(error).__name__}, although nothing is wrong that can be seen"))
    return None


def _ending(run: ManagerRun) -> Iterator[str]:
    yield from [f"manager.abort({name})" for name, each in run.expected.names.items() if each in run.model.running]
    yield f"z = manager.start({[9] * (NUM_PAGES * run.page_size)})"


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
    subject: Subject, examples: int = MANAGER_EXAMPLES, before: Before = lambda scenario: None
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
    missing = run.missing({verb: rule for verb, rule in sorted(MANAGER_RULE_OF.items()) if rule in subject.claims})
    search = Search(lambda scenario: play_manager(subject, scenario), subject, _SHOWS, before)
    takes = inspect.signature(run.index.start).parameters if "start" not in subject.lacks else {}
    unknown = ["limit="] * ("limit" not in takes) + ["namespace="] * (11 not in subject.claims)
    search.through(MANAGER_CASES, unknown)
    if examples and "start" not in subject.lacks:
        for size in subject.page_sizes[:2]:
            search.through(interleavings(size, interruptions=1), unknown)
        search.beyond(manager_scenarios(subject), examples)
    for found in list(search.best.values()):
        search.shorten(found)
    return Findings(dict(sorted({**search.best, **missing}.items())), frozenset(search.reached))

"""Playing a scenario on somebody's cache manager and on the naive one, with the canary looking on."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

from minikv.testing.attempt import attempt
from minikv.testing.canary import Canary
from minikv.testing.conformance.judging import Mismatch
from minikv.testing.conformance.manager_judging import judge_manager, look_around, read_sequence
from minikv.testing.conformance.naive_manager import NaiveManager, NaiveRequest
from minikv.testing.conformance.playing import Breach, Transcript
from minikv.testing.conformance.scenario import Scenario, Stage, Told
from minikv.testing.conformance.subject import Subject

NUM_PAGES = 6
_READERS = {"start": read_sequence}


class ManagerRun(Transcript):
    """One scenario on a new manager and on a new model; `requests` are all that were started, the model's."""

    def __init__(self, subject: Subject, page_size: int, settings: Mapping[str, Any]):
        super().__init__(subject, page_size, settings, "manager")
        self.model = NaiveManager(NUM_PAGES, page_size)
        self.stage = Stage("manager", Told(self.index, readers=_READERS))
        self.expected = Stage("manager", Told(self.model, readers={}, is_ours=True))
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
    >>> from minikv.testing.conformance.scenario import scenario_of
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
    if run.made.error is not None:
        return run.end(Mismatch(12, run.made.in_words))
    for line in lines:
        if (found := run.step(line)) is not None:
            return run.end(found)
    return _ended(run)


def _ended(run: ManagerRun) -> Breach | None:
    """End what runs, and begin a request that needs every page."""
    names = [name for name, each in run.expected.names.items() if each in run.model.running]
    for line in [f"manager.abort({name})" for name in names] + [_everything(run)]:
        if (found := run.step(line)) is not None:
            return run.end(found)
    if callable(getattr(run.index, "check", None)) and (error := attempt(run.index.check).error) is not None:
        run.lines.append("manager.check()")
        return run.end(Mismatch(1, f"raises {type(error).__name__}, although nothing is wrong that can be seen"))
    return None


def _everything(run: ManagerRun) -> str:
    """A request that needs every page."""
    return f"z = manager.start({[9] * (NUM_PAGES * run.page_size)})"

"""The conformance kit over cache managers: what keeps the rules passes, and each rule is found broken."""

from __future__ import annotations

import functools

import pytest
from careless_managers import CARELESS_MANAGERS, TakesAPageTooMuch
from test_manager_mutants import (
    CountsTheLimitInPages,
    DoubleReleaseOnAbort,
    DuplicatesFreedRowKept,
    DuplicatesKept,
    ForgetsToUnlockWithoutRoom,
    FreesWhatIsShared,
    IgnoresTheLimit,
    LockIsNotMoved,
    NoLock,
    PublishesWhatIsNotComputed,
    RoomBeforeLock,
    TailKeptOnFinish,
)

from minikv import CacheManager
from minikv.testing.conformance.examine import verify
from minikv.testing.conformance.managers import NUM_PAGES, ManagerRun
from minikv.testing.conformance.playing import find_breach
from minikv.testing.conformance.rules import BROKEN, HOLDS, MANAGER_RULES, NOT_JUDGED
from minikv.testing.conformance.script import scenario_of
from minikv.testing.conformance.subject import subject_of

pytestmark = pytest.mark.core

FEW = 40  # scenarios of Hypothesis
MUTANTS = {
    **CARELESS_MANAGERS, NoLock: 4, RoomBeforeLock: 5, DuplicatesFreedRowKept: 9, TailKeptOnFinish: 7,
    DuplicatesKept: 7, DoubleReleaseOnAbort: 7, PublishesWhatIsNotComputed: 6, ForgetsToUnlockWithoutRoom: 5,
    LockIsNotMoved: 9, FreesWhatIsShared: 7, IgnoresTheLimit: 3, CountsTheLimitInPages: 3,
}  # fmt: skip


@functools.cache
def judged(made):
    """The verdicts on a careless manager."""
    return verify(made, "manager", examples=0, home="careless_managers")


def states(made, examples=0):
    """For each state the numbers of the rules that have it."""
    found = {}
    for each in verify(made, "manager", examples=examples).verdicts:
        found.setdefault(each.state, []).append(each.rule)
    return found


def test_the_cache_manager_keeps_all_rules():
    assert states(CacheManager, examples=FEW) == {HOLDS: [*MANAGER_RULES]}


class Bare:
    """The six verbs over another manager, and nothing to look into: no sizes, no audit, one page size, no limits."""

    def __init__(self, num_pages):
        self._inner = CacheManager(num_pages)

    def start(self, tokens, *, namespace=None):
        return self._inner.start(tokens, namespace=namespace)

    def __getattr__(self, verb):
        raise AttributeError(verb)

    def advance(self, sequence, num_tokens=None):
        self._inner.advance(sequence, num_tokens)

    def extend(self, sequence, tokens):
        self._inner.extend(sequence, tokens)

    def checkpoint(self, sequence):
        self._inner.checkpoint(sequence)

    def finish(self, sequence):
        self._inner.finish(sequence)

    def abort(self, sequence):
        self._inner.abort(sequence)


def test_six_verbs_are_enough():
    assert states(Bare, examples=FEW) == {HOLDS: [*MANAGER_RULES]}


def test_a_leak_is_found_without_looking_inside():
    class Leaks(Bare):
        def abort(self, sequence):
            super().abort(sequence)
            self._inner.pool.alloc(1)

    assert states(Leaks)[BROKEN] == [7]


@pytest.mark.parametrize(("made", "rule"), MUTANTS.items(), ids=lambda value: getattr(value, "__name__", value))
def test_each_mistake_is_found_under_its_rule(made, rule):
    broken = judged(made).broken
    assert rule in [each.rule for each in broken][:2]
    assert len(broken) <= 3


def test_every_rule_has_a_careless_manager():
    assert set(MUTANTS.values()) == set(MANAGER_RULES)


@pytest.mark.parametrize("made", CARELESS_MANAGERS, ids=lambda made: made.__name__)
def test_the_script_of_a_broken_rule_runs_as_it_is(made):
    for each in judged(made).broken:
        assert each.script.startswith("from careless_managers import ")
        exec(each.script, {})


def test_the_explorer_finds_what_only_taking_turns_shows():
    """A request that another one interrupts between its start and its end."""

    class OneAtATime(CacheManager):
        def finish(self, sequence):
            others = [each for each in self.sequences if each is not sequence and each.shared]
            super().finish(sequence)
            if others and sequence.number < others[0].number:
                self.pool.alloc(min(1, self.pool.num_free))

    found = verify(OneAtATime, "manager", examples=1).broken
    assert [each.rule for each in found] == [7]


def test_what_is_missing_is_named():
    made = type("Half", (CacheManager,), {"checkpoint": None})
    (broken,) = verify(made, "manager", examples=0, home="").broken
    assert (broken.rule, broken.script.split("\n")[-1]) == (9, "# it has no method checkpoint")


def test_of_a_manager_that_cannot_be_made_no_rule_is_judged():
    class Needs(CacheManager):
        def __init__(self, num_pages, model):
            super().__init__(num_pages)

    assert states(Needs) == {NOT_JUDGED: [*MANAGER_RULES]}


def test_a_manager_may_claim_less():
    made = type("Modest", (TakesAPageTooMuch,), {"claims": (8, 11)})
    assert states(made)[HOLDS] == [8, 11]


RUN = ["a = manager.start([1, 2, 3])", "manager.advance(a)"]


@pytest.mark.parametrize(
    ("lines", "reached"),
    [
        (["a = manager.start([1, 2, 3])"], {7}),  # at the end all are aborted, and one needs every page
        (["a = manager.start([])"], {12}),
        (["a = manager.start([1, 2])", "b = manager.start([3])"], {1, 7}),
        (["a = manager.start([1, 2, 3, 4, 5, 6, 7])"], {5}),
        ([*RUN, "manager.finish(a)", "b = manager.start([1, 2, 3])"], {2, 3, 6, 7}),
        ([*RUN, "manager.abort(a)", "b = manager.start([1, 2, 3])"], {7, 8}),
        ([*RUN, "manager.checkpoint(a)", "b = manager.start([1, 2, 3])"], {1, 2, 3, 4, 7, 9}),
        (["a = manager.start([1, 2, 3])", "manager.extend(a, [4])"], {7, 10}),
        (["a = manager.start([1], namespace='a')", "manager.advance(a)", "manager.finish(a)",
          "b = manager.start([1, 2])"], {7, 11}),
    ],
)  # fmt: skip
def test_a_rule_is_reached_by_what_happens(lines, reached):
    found = set()
    subject = subject_of(CacheManager, MANAGER_RULES, {"num_pages": NUM_PAGES})
    assert find_breach(ManagerRun, subject, scenario_of(*lines), found) is None
    assert found == reached

"""The sweep of `changes` over all printed solutions: a few changes by day, all of them at night."""

import copy

import pytest
from changes import changes, harmless, passes, tasks, world_of
from nightly import NIGHTLY

from minikv.course.pieces.trial import difference, play_case
from minikv.course.pieces.worlds import reference_world
from minikv.testing import attempt as attempts
from minikv.testing.scenarios import smallest_case

EVERY = 1 if NIGHTLY else 600  # one of each so many changes
TASKS = {task.id: task for task in tasks()}
HARMLESS = harmless()


def test_a_small_change_to_a_solution_is_refused_or_known_to_be_harmless(monkeypatch):
    monkeypatch.setattr(attempts, "MOST_SECONDS", 0.5)  # some changes make a loop endless
    first, unknown = 0, list[str]()
    for task in TASKS.values():
        every = changes(task, EVERY, first % EVERY)
        unknown += [line for line, text in every if line not in HARMLESS and passes(task, text)]
        first += 211  # so that each piece has its turn at another place
    assert not unknown


RUNS = "reversed(runs) for slot in run"
RETURN = f"3.6: return (end, [slot for run in {RUNS}]) -> return (end, [slot for run in {{}}])"
SOME = [
    "3.6: runs.append(node.slots) / node = node.parent", "3.6: runs.append(node.slots) -> pass",
    "3.6: node = node.parent -> node = node.slots", "3.6: node = node.parent -> node = root.parent",
    RETURN.format("reversed(sorted(runs)) for slot in run"),
    RETURN.format("reversed(runs) for slot in _copied(run)"),
]  # fmt: skip


@pytest.mark.nightly
def test_the_changes_are_found():
    """Lines that change places or go, another attribute or name, another order, and a copy."""
    assert {*SOME} <= {line for line, _ in changes(TASKS["3.6"])}


@pytest.mark.nightly
def test_a_change_that_is_wrong_does_not_pass_and_one_that_is_right_does():
    task = TASKS["3.6"]
    assert passes(task, task.solution)
    assert not passes(task, task.solution.replace("reversed(runs)", "runs"))


@pytest.mark.nightly
def test_each_reason_is_that_of_a_change_that_there_is():
    there = {line for task in TASKS.values() for line, _ in changes(task)}
    assert not set(HARMLESS) - there
    assert all(HARMLESS.values())


@pytest.mark.nightly
@pytest.mark.parametrize("id", TASKS)
def test_what_is_harmless_passes_and_does_the_same_in_many_more_cases(id):
    """A random search of 1,000 cases beside the reason."""
    task = TASKS[id]
    for line, text in changes(task):
        if line in HARMLESS:
            assert passes(task, text), line
            if task.strategy is not None:
                assert is_same(task, world_of(task, text)), line


def is_same(task, world):
    reference = reference_world(task)

    def differs(case):
        mine, ours = (play_case(task, each, copy.deepcopy(case)) for each in (world, reference))
        return difference(task, world, case, mine, ours) is not None

    return smallest_case(differs, task.strategy, examples=1000) is None

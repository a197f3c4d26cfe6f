"""Exercises and bug hunts: the printed solutions pass, and the references do what the package does."""

import ast
import itertools
import sys

import pytest
from chapters import NOTEBOOKS, code_cells, code_under, load, run_cells, solutions
from hypothesis import given, settings
from hypothesis import strategies as st
from lesson import few_cases, printed_by
from test_interleave import all_orders

from minikv import (
    CacheManager,
    CanaryModel,
    Engine,
    FreeListPool,
    LongestPrefixFirst,
    NoCache,
    OutOfPages,
    RadixCache,
    Scheduler,
    check,
)
from minikv.course.pieces.ch03 import radix_nodes
from minikv.course.pieces.ch04 import how_many_fit
from minikv.course.pieces.ch07 import orders
from minikv.course.pieces.ch08 import finished, let_in
from minikv.course.pieces.hunt import Hunt
from minikv.course.pieces.piece import CHAPTERS, exercises_of, find_exercise, pieces_of
from minikv.course.pieces.props import numbers, planted, preorder
from minikv.course.pieces.trial import INCONSTANT, smallest
from minikv.engine import engine_world

# chapters whose exercises need nothing of what the cells before them made
ALONE = [path for path in NOTEBOOKS if path.stem[:2] not in ("07", "13")]
EXERCISES = [each for chapter in CHAPTERS for each in exercises_of(chapter)]
TO_FIX = {10}  # chapters in which the bug is to be fixed, in one line


@pytest.fixture(autouse=True)
def record(tmp_path, monkeypatch):
    monkeypatch.setenv("MINIKV_PROGRESS", str(tmp_path / "somewhere/progress.json"))


# -- the chapters ----------------------------------------------------------------------------------


def of_chapter(path):
    return exercises_of(int(path.stem[:2])) if int(path.stem[:2]) in CHAPTERS else []


@pytest.mark.parametrize("path", ALONE, ids=lambda path: path.stem)
def test_the_printed_solutions_of_more_to_try_turn_green(path):
    """With the imports and functions of the chapter's other cells."""
    notebook = load(path)
    printed = solutions(notebook)
    names = {"__name__": "__main__"}
    pieces = [piece.name for piece in pieces_of(int(path.stem[:2]))]
    run_cells([code_cells(notebook)[0]], names)
    for cell in code_cells(notebook)[1:]:
        for node in ast.parse(cell.source).body:
            is_own = isinstance(node, ast.FunctionDef) and node.name not in pieces
            if is_own or isinstance(node, (ast.Import, ast.ImportFrom)):
                exec(ast.unparse(node), names)
    with few_cases():
        said = run_cells(code_under(notebook, "More to try"), names, replace=printed)
    assert list(printed) == [each.id for each in of_chapter(path)]
    assert [line[:1] for line in said.splitlines()] == ["✓"] * len(printed), said


def test_the_last_exercise_is_a_hunt_whose_bug_the_notebook_shows_and_each_has_a_hint():
    for path in NOTEBOOKS:
        *others, last = of_chapter(path) or [None]
        if last is not None and int(path.stem[:2]) in TO_FIX:
            others.append(last)
        elif last is not None:
            cells = [cell for cell in code_cells(load(path)) if "careless(" in cell.source]
            shown = "".join(str(cell.outputs) for cell in cells).replace("\\n", "\n")
            lines = last.bug.section.text.splitlines()[-3:]
            assert last.hint
            assert all(line in shown for line in lines), path.name
        assert not any(isinstance(each, Hunt) for each in others)
        assert all(each.hints for each in others)
    assert all(each.wrong for each in EXERCISES)


# -- the references --------------------------------------------------------------------------------


@given(st.lists(st.text("01", max_size=5), max_size=5))
def test_a_radix_tree_has_as_many_nodes_as_exercise_3_9_says(prompts):
    nodes = preorder(planted(engine_world(), prompts))
    assert radix_nodes(list(map(numbers, prompts))) == len(nodes)


@given(find_exercise("4.9").strategy)
def test_a_real_cache_lets_in_as_many_as_exercise_4_9_says(case):
    free, prefixes, waiting = case
    world = engine_world()
    cache, pool, count = RadixCache(), FreeListPool(max(1, free + sum(prefixes))), 0
    pool.alloc(pool.size - free - sum(prefixes))
    heads = [[1000 * (i + 1) + at for at in range(length)] for i, length in enumerate(prefixes)]
    for head in heads:
        cache.insert(head, pool.alloc(len(head)))
    for prefix, own in waiting:
        new = range(10**6 * (count + 1), 10**6 * (count + 1) + own)
        prompt = [*([] if prefix is None else heads[prefix]), *new]
        try:
            found, pages = world["admit"](cache, pool, prompt)
        except OutOfPages:
            break
        cache.lock(cache.insert(prompt, [*found.pages, *pages]))
        count += 1
    assert how_many_fit(*case) == count


@pytest.mark.parametrize("size", [1, 2, 3])
def test_exercise_6_5_takes_as_few_moves_as_a_search_over_all_orders_finds(size):
    """Breadth first over what may be in the slots and the spare one, for every copy."""
    slots = range(size)
    counts = range(size + 1)
    for targets in itertools.chain.from_iterable(itertools.combinations(slots, n) for n in counts):
        for sources in itertools.product(slots, repeat=len(targets)):
            wanted = {**dict(zip(slots, slots)), **dict(zip(targets, sources))}
            goal, states, moves = tuple(wanted[slot] for slot in slots), {(*slots, None)}, 0
            while not any(state[:size] == goal for state in states):
                states = {
                    (*state[:to], state[at], *state[to + 1 :])
                    for state in states
                    for at, to in itertools.product(counts, counts)
                }
                moves += 1
            found = find_exercise("6.5").reference(sources, targets)
            assert len(found) == moves, (sources, targets)


@settings(max_examples=20)
@given(st.integers(0, 5), st.integers(0, 5))
def test_two_programs_take_turns_as_exercise_7_4_says(a, b):
    assert all_orders((a, b)) == orders(a, b)


REQUESTS = st.lists(st.tuples(st.integers(1, 3), st.integers(1, 4)), min_size=1, max_size=5)


@given(st.integers(3, 12), REQUESTS)
def test_the_engine_in_numbers_of_chapter_08_ends_as_the_engine_does(slots, requests):
    """Without a cache, requests finish in the same order, those that end in one step by age."""
    requests = [(prompt, new) for prompt, new in requests if prompt + new - 1 <= slots]
    manager = CacheManager(slots, prefix_cache=NoCache())
    scheduler = Scheduler(manager, token_budget=99, max_running=9)
    engine = Engine(CanaryModel(99), manager, scheduler)
    asked, over = [engine.submit([1] * prompt, new) for prompt, new in requests], []
    while len(over) < len(requests):
        ended = [event.request for event in engine.step() if event.request.is_over]
        over += sorted(asked.index(request) for request in ended)
    assert finished(slots, requests) == over


@given(st.lists(st.integers(0, 3), max_size=6), st.integers(0, 3))
def test_the_order_of_chapter_08_is_that_of_the_scheduler(cached, max_overtakes):
    manager = CacheManager(sum(cached) + 2 * len(cached) + 1)
    scheduler = Scheduler(manager, 1000, 1, LongestPrefixFirst(), max_overtakes)
    engine = Engine(CanaryModel(1000), manager, scheduler)
    prefixes = [[number] * length for number, length in enumerate(cached)]
    engine.generate([prefix for prefix in prefixes if prefix], 1)  # they are cached now
    prompts = [[*prefix, 500 + number, 999] for number, prefix in enumerate(prefixes)]
    came = [event.request.number for event in engine.stream(prompts, 1)]
    assert let_in(cached, max_overtakes) == [number - min(came) for number in came]


# -- the cases of an answer; what is said of it is in tests/answers --------------------------------


def lists():
    return st.tuples(st.lists(st.integers(0, 100)))


def test_the_cases_on_which_one_answer_was_right_come_again_for_the_next_one_unspoilt():
    strategy, rounds = lists(), ([], [])
    for seen in rounds:

        def spoils(case, seen=seen):
            seen.append(repr(case))
            case[0].clear()

        assert smallest(spoils, (), strategy) is None
    assert len(rounds[0]) >= 300
    assert rounds[0] == rounds[1]


def test_after_a_right_answer_a_wrong_one_gets_the_same_smallest_case():
    strategy = lists()
    assert smallest(lambda case: False, (), strategy) is None
    found = [smallest(lambda case: sum(case[0]) > 150, (), each) for each in (strategy, lists())]
    assert found[0] == found[1]
    assert sum(found[0][0]) == 151
    once = iter([True])
    assert smallest(lambda case: next(once, False), (), strategy) is INCONSTANT


def test_the_judge_leaves_tracing_as_it_was(monkeypatch):
    """Taking back an exception that did not land once left a flag in the interpreter that made
    tracing endless."""
    monkeypatch.setattr("minikv.testing.attempt.MOST_SECONDS", 0.3)

    def forever(prompts):
        while True:
            pass

    printed_by(check, "3.9", forever)
    seen = []
    sys.settrace(lambda frame, event, _: seen.append(event))
    try:
        find_exercise("3.9")
    finally:
        sys.settrace(None)
    assert seen

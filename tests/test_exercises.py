"""Exercises and bug hunts: printed solutions turn ✓, and whatever an answer does is one line with a hint that fits."""

from __future__ import annotations

import ast
import sys
from collections import OrderedDict
from functools import cache
from itertools import count

import numpy as np
import pytest
from chapters import NOTEBOOKS, code_cells, code_under, load, run_cells, solutions
from hypothesis import given, settings
from hypothesis import strategies as st
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
from minikv.course.pieces import piece as piece_module
from minikv.course.pieces.ch03 import radix_nodes
from minikv.course.pieces.ch04 import how_many_fit
from minikv.course.pieces.ch07 import orders
from minikv.course.pieces.ch08 import finished, let_in
from minikv.course.pieces.hunt import Hunt
from minikv.course.pieces.piece import CHAPTERS, exercise, exercises_of, find_exercise, pieces_of
from minikv.course.pieces.props import numbers, planted, preorder
from minikv.course.pieces.trial import INCONSTANT, NO_END, smallest
from minikv.engine import engine_world
from minikv.testing import attempt as attempt_module

ALONE = [path for path in NOTEBOOKS if path.stem[:2] not in ("07", "13")]  # those go on with what other cells made
EXERCISES = [each for chapter in CHAPTERS for each in exercises_of(chapter)]
TO_FIX = {10}  # chapters in which the bug is to be fixed, in one line
SAMPLE = exercise(
    "1.9", "pages_needed", lambda num_tokens, page_size: -(-num_tokens // page_size),
    cases=[(0, 16), (1, 16), (16, 16), (17, 16), (5, 1), (2**60 + 1, 2)],
    strategy=st.tuples(st.integers(0, 300), st.integers(1, 64)),
)  # fmt: skip


@pytest.fixture(autouse=True)
def record(tmp_path, monkeypatch):
    monkeypatch.setenv("MINIKV_PROGRESS", str(tmp_path / "somewhere" / "progress.json"))
    return tmp_path / "somewhere" / "progress.json"


@pytest.fixture(autouse=True)
def with_a_sample(monkeypatch):
    """One more exercise, which no chapter has."""
    own, stored = piece_module.exercises_of, piece_module.hints_for
    monkeypatch.setattr(piece_module, "exercises_of", lambda chapter: [*own(chapter), *[SAMPLE] * (chapter == 1)])
    hint = "the last page may be only partly filled, and still it is a page"
    monkeypatch.setattr(piece_module, "hints_for", lambda id: [hint] if id == SAMPLE.id else stored(id))


# -- the proofs; that wrong answers get their hints is in test_pieces -------------------------------------------------


@pytest.mark.parametrize("path", ALONE, ids=lambda path: path.stem)
def test_the_printed_solutions_of_more_to_try_turn_green(path):
    """With the imports and functions of the chapter's other cells."""
    notebook = load(path)
    printed = solutions(notebook)
    names, pieces = {"__name__": "__main__"}, [piece.name for piece in pieces_of(int(path.stem[:2]))]
    run_cells([code_cells(notebook)[0]], names)
    for cell in code_cells(notebook)[1:]:
        for node in ast.parse(cell.source).body:
            is_own = isinstance(node, ast.FunctionDef) and node.name not in pieces
            if is_own or isinstance(node, (ast.Import, ast.ImportFrom)):
                exec(ast.unparse(node), names)
    said = run_cells(code_under(notebook, "More to try"), names, replace=printed)
    assert list(printed) == [
        exercise.id for exercise in EXERCISES if exercise.id.split(".")[0] == str(int(path.stem[:2]))
    ]
    assert [line[:1] for line in said.splitlines()] == ["✓"] * len(printed), said


def test_the_last_exercise_of_a_chapter_is_a_hunt_and_each_has_a_hint_and_a_known_mistake():
    last = [exercises_of(chapter)[-1] for chapter in CHAPTERS if chapter not in TO_FIX]
    assert [each for each in EXERCISES if isinstance(each, Hunt)] == last
    assert all(each.wrong and (each.hint if isinstance(each, Hunt) else each.hints) for each in EXERCISES)


@given(st.lists(st.text("01", max_size=5), max_size=5))
def test_a_radix_tree_has_as_many_nodes_as_exercise_3_5_says(prompts):
    assert radix_nodes(list(map(numbers, prompts))) == len(preorder(planted(engine_world(), prompts)))


@given(find_exercise("4.9").strategy)
def test_a_real_cache_lets_in_as_many_as_exercise_4_5_says(case):
    free, prefixes, waiting = case
    world = engine_world()
    cache, pool, count = RadixCache(), FreeListPool(max(1, free + sum(prefixes))), 0
    pool.alloc(pool.size - free - sum(prefixes))
    heads = [[1000 * (i + 1) + at for at in range(length)] for i, length in enumerate(prefixes)]
    for head in heads:
        cache.insert(head, pool.alloc(len(head)))
    for prefix, own in waiting:
        prompt = [*([] if prefix is None else heads[prefix]), *range(10**6 * (count + 1), 10**6 * (count + 1) + own)]
        try:
            found, pages = world["admit"](cache, pool, prompt)
        except OutOfPages:
            break
        cache.lock(cache.insert(prompt, [*found.pages, *pages]))
        count += 1
    assert how_many_fit(*case) == count


@settings(max_examples=20)
@given(st.integers(0, 5), st.integers(0, 5))
def test_two_programs_take_turns_as_exercise_7_4_says(a, b):
    assert all_orders((a, b)) == orders(a, b)


@pytest.mark.parametrize(
    ("asked", "case", "said"),
    [
        ("6.7", ("abcd", [0, 1], [1]), "ValueError (src and dst must be equally long, and no place may be written"),
        ("6.7", ("abcd", [0, 9], [1, 2]), "raises ValueError (places go from 0 to 3). Hint: this call is not valid"),
        ("6.7", ("abcd", [0, 1], [2, 2]), "place may be written twice). Hint: this call is not valid"),
        ("6.7", (3, [0], [1]), "raises TypeError (object of type 'int' has no len()). Hint: this call is not valid"),
        ("0.3", ([...],), "raises TypeError (object of type 'ellipsis' has no len()). Hint: the correct version"),
    ],
)
def test_a_call_that_both_refuse_is_to_be_fixed_before_a_bug_is_hunted_with_it(asked, case, said, capsys):
    check(asked, lambda: case)
    assert said in capsys.readouterr().out


@pytest.mark.parametrize(
    ("asked", "case", "form"),
    [
        ("0.3", [[1, 2], [7], [1, 2, 3]], "(prompts,)"),
        ("0.3", ([1], [2], [1]), "(prompts,)"),
        ("1.7", (8,), "(memory, percent, taken, page_bytes)"),
        ("6.7", ("abcd", [0, 1]), "(cells, src, dst)"),
    ],
)
def test_the_form_of_a_call_is_shown(asked, case, form, capsys):
    check(asked, lambda: case)
    assert capsys.readouterr().out.endswith(f"expected a tuple of the form {form}\n")


@pytest.mark.parametrize(
    ("case", "hint"),
    [
        ((4, [(2, 4), (2, 4), (2, 1)]), "each request must fit by itself"),
        ((6, [2, 4]), "fix the call first"),
        (("6", [(2, 4)]), "fix the call first"),
        ((6, [(2, 4), (2, 4)]), "if no other request waits, the front of the line is also its end"),
    ],
)
def test_a_line_that_nobody_jumps_gets_a_hint_that_fits_it(case, hint, capsys):
    check("8.6", lambda: case)
    said = capsys.readouterr().out
    assert said.startswith("✗ 8.6 ")
    assert f"Hint: {hint}" in said


@given(st.integers(3, 12), st.lists(st.tuples(st.integers(1, 3), st.integers(1, 4)), min_size=1, max_size=5))
def test_the_engine_in_numbers_of_chapter_08_ends_as_the_engine_does(slots, requests):
    """Without a cache, requests finish in the same order, those that end in one step by age."""
    requests = [(prompt, new) for prompt, new in requests if prompt + new - 1 <= slots]
    manager = CacheManager(slots, prefix_cache=NoCache())
    engine = Engine(CanaryModel(99), manager, Scheduler(manager, token_budget=99, max_running=9))
    asked, over = [engine.submit([1] * prompt, new) for prompt, new in requests], []
    while len(over) < len(requests):
        ended = [event.request for event in engine.step() if event.request.is_over]
        over += sorted(asked.index(request) for request in ended)
    assert finished(slots, requests) == over


@given(st.lists(st.integers(0, 3), max_size=6), st.integers(0, 3))
def test_the_order_of_chapter_08_is_that_in_which_the_scheduler_lets_requests_in(cached, max_overtakes):
    manager = CacheManager(sum(cached) + 2 * len(cached) + 1)
    engine = Engine(CanaryModel(1000), manager, Scheduler(manager, 1000, 1, LongestPrefixFirst(), max_overtakes))
    prefixes = [[number] * length for number, length in enumerate(cached)]
    engine.generate([prefix for prefix in prefixes if prefix], 1)  # they are cached now
    prompts = [[*prefix, 500 + number, 999] for number, prefix in enumerate(prefixes)]
    came = [event.request.number for event in engine.stream(prompts, 1)]
    assert let_in(cached, max_overtakes) == [number - min(came) for number in came]


# -- check never raises ---------------------------------------------------------------------------------------------


def forever(num_tokens, page_size):
    while True:
        pass


@pytest.fixture
def impatience(monkeypatch):
    """An answer without an end is given up sooner than a learner's is."""
    monkeypatch.setattr(attempt_module, "MOST_SECONDS", 0.3)


# Python 3.10 looks for a thrown exception only inside the `try` of such a loop, so there nothing can end it.
reachable = pytest.mark.skipif(sys.version_info < (3, 11), reason="Python 3.10 cannot end a loop that catches all")


def stubborn(num_tokens, page_size):
    while True:
        try:  # noqa: SIM105
            num_tokens += 1
        except:  # noqa: E722 - what a learner may write
            pass


def chatty(num_tokens, page_size):
    print("hello")
    return input("how many? ")


def leave(num_tokens, page_size):
    raise SystemExit(3)


class Odd:
    def __eq__(self, other):
        raise RuntimeError


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (forever, f". {NO_END}\n"),
        pytest.param(stubborn, f". {NO_END}\n", marks=reachable),
        (chatty, ' raised EOFError (nobody answers input() here), in your line `return input("how many? ")`; e'),
        (lambda num_tokens, page_size: (x for x in ()), " returns a generator; expected: 0. "),
        (lambda num_tokens, page_size: {"b", "a", 3}, " returns a set of ['a', 'b', 3]; expected: 0. "),
        (leave, " raised SystemExit"),
        (lambda num_tokens: 1, " raised TypeError (<lambda>() takes 1 positional argument but 2 were given); e"),
        (None, " raised TypeError ('NoneType' object is not callable)"),
        (7, " raised TypeError ('int' object is not callable)"),
        (lambda num_tokens, page_size: None, " returns nothing (did you forget to return it?); expected: 0\n"),
        (lambda num_tokens, page_size: 1 / 0, " raised ZeroDivisionError (division by zero), in your line `"),
        (lambda num_tokens, page_size: "x" * 10**6, " returns 'xxxxxxxx"),
        (lambda num_tokens, page_size: Odd(), " returns an Odd; expected: 0. Hint: return a number, not an Odd\n"),
        (lambda num_tokens, page_size: num_tokens / page_size, " returns 0.0; expected: 0. Hint: return a whole n"),
        (lambda num_tokens, page_size: "0", " returns '0'; expected: 0. Hint: return a number, not a str\n"),
        (lambda num_tokens, page_size: int, " returns the class int; expected: 0. "),
        (lambda num_tokens, page_size: range(10**9), " returns range(0, 1000000000); expected: 0. "),
    ],
)
def test_whatever_an_answer_does_is_one_line(answer, said, capsys, impatience):
    check("1.9 pages_needed", answer)
    line = capsys.readouterr().out
    assert line.startswith(f"✗ 1.9 pages_needed(0, 16){said}")
    assert line.count("\n") == 1
    assert len(line) < 300


CARELESS = "4.10 careless_unlock", "5.8 careless_unlock"


def said_of(asked, script, capsys):
    """What `check` says of a script, which is written as calls of the thing `it`."""
    lines = "\n".join(f"    {line}" for line in script.split("; "))
    exec(f"def answer(it):\n{lines}", made := {})
    check(asked, made["answer"])
    return capsys.readouterr().out


@pytest.mark.parametrize(
    ("asked", "script", "said"),
    [
        (CARELESS[0], "it.insert([1, 2], [0])", "insert([1, 2], [0]) raises ValueError ("),
        (CARELESS[0], "it.acquire(3)", "acquire(3) raises TypeError ("),
        (CARELESS[1], "it.insert([1], [0]); a = it.acquire([1]); it.unlock(a); it.unlock(a)", "raises LockError (the"),
    ],
)
def test_an_operation_that_both_refuse_is_named(asked, script, said, capsys):
    line = said_of(asked, script, capsys)
    assert line.startswith(f"✗ {asked}: ")
    assert said in line
    assert line.endswith("Hint: the correct version raises this error too, so it shows no difference\n")


def test_a_mistake_of_the_scripts_own_is_named(capsys):
    line = said_of(CARELESS[0], "it.insert([1], [0]); it.nothing()", capsys)
    assert line.startswith(f"✗ {CARELESS[0]}: your function raises AttributeError (")
    assert said_of(CARELESS[0], "raise NotImplementedError", capsys) == f"□ {CARELESS[0]}: not attempted yet\n"


PATH = "it.insert([4], [0]); it.insert([4, 5], [0, 1]); a = it.acquire([4, 5]); it.unlock(a)"
EVICT = "; it.evict(1)"
FORGOTTEN = "it.attach('B', 'a', [1, 2, 3, 4]); it.detach('B', 'a'); it.attach('B', 'b', [5, 6, 7, 8])"


@pytest.mark.parametrize(
    ("asked", "script", "hint"),
    [
        ("2.8 careless_occupy", "it.occupy(1)", "occupying a slot that is free works: what if somebody has it?"),
        ("3.10", "it.insert([1, 2], [0, 1]); it.insert([1, 2, 3], [0, 1, 2])", "no insert splits an edge here"),
        ("3.10", "it.insert([1, 2], [0, 1]); it.insert([1], [0])", "an edge is split, but the new prompt ends"),
        ("3.10", "it.insert([1, 2], [0, 1]); it.insert([1, 9], [0, 2])", "after the split, look up the new prompt"),
        ("3.10", "it.insert([1, 2, 3], [0, 1, 2]); it.insert([1, 9], [0, 3]); it.match_prefix([1, 2, 3])",
         find_exercise("3.10").hint),
        (CARELESS[1], f"it.insert([7], [5]); {PATH}{EVICT}", "after the unlock, nothing of that path was evicted"),
        (CARELESS[1], PATH.rpartition(";")[0], "the careless code runs when a lock is released"),
        (CARELESS[1], f"it.insert([7], [5]); a = it.acquire([7]); it.unlock(a){EVICT}", "a path of one node"),
        (CARELESS[1], f"{PATH}; it.insert([4, 5], [0, 1]){EVICT}", "the use after the unlock restores the order"),
        (CARELESS[0], "it.insert([5], [0]); it.acquire([5])", "both versions lock correctly"),
        (CARELESS[0], "it.insert([5], [0]); a = it.acquire([5]); it.unlock(a)", "nothing is inserted between"),
        (CARELESS[0], "a = it.acquire([5]); it.insert([7], [0]); it.unlock(a)", find_exercise("4.10").hint),
        ("7.5", "a = it.start([1, 2]); it.advance(a); it.finish(a)", "the careless line runs when a request aborts"),
        ("11.6", "it.attach('B', 'a', [1, 2])", "no page is freed while all sequences are attached: detach one"),
        ("11.6", "it.attach('B', 'a', [1, 2]); it.detach('B', 'a')", "dropping one page does no harm"),
        ("11.6", FORGOTTEN.replace("B", "A"), "the versions that you called are correct"),
        ("12.6", "it.serve([1, 2]); a = it.find([1, 2]); it.leave(*a)", "every token is live"),
    ],
)  # fmt: skip
def test_a_script_that_does_no_harm_gets_a_hint_that_fits_it(asked, script, hint, capsys):
    line = said_of(asked, script, capsys)
    assert ": the careless version gives the same answer for " in line
    assert f"Hint: {hint}" in line or hint in line.split("Hint: ")[1]


LOCKED = "a = it.acquire([1]); "


@pytest.mark.parametrize(
    ("asked", "script", "said"),
    [
        ("2.8", "it.alloc(next(COUNTER))", "the same answer for alloc("),
        ("2.8", "next(COUNTER) % 2 and it.occupy(0); it.alloc(1)", "gives the same answer"),
        ("3.10", "len(type(it).__mro__) > 3 and it.insert([1], [0])", "none of the calls that count"),
        (CARELESS[0], "it.unlock(None)", "the correct version raises this error too"),
        (CARELESS[0], f"{LOCKED}it.unlock(a); it.unlock(a)", "the correct version raises this error too"),
        (CARELESS[0], f"it.prompts = {{}}; {LOCKED}it.prompts = {{}}; it.unlock(a)", "gives the same answer"),
        (CARELESS[0], "a = it.insert([1], [0]); it.lock(a); it.unlock(a)", "only calls to insert, acquire, unlock"),
        ("7.5", "it.abort('Anna')", "the correct version raises this error too"),
        ("7.5", "a = it.start([1, 2]); a.cached_length = 2; it.abort(a)", "gives the same answer"),
        ("7.5", "a = it.start([1, 2]); a.shared = 2; it.abort(a)", "only calls to start, advance"),
        ("11.6", "it.attach('B', 'a', [next(COUNTER)])", "gives the same answer"),
        ("12.6", "it.serve([1, 2]); a, b = it.find([1, 2]); it.pins.clear(); it.leave(a, b)", "only calls to serve"),
    ],
)  # fmt: skip
def test_what_is_no_bug_is_not_taken_for_one(asked, script, said, capsys, monkeypatch):
    """Whatever else a function does, reads or changes: what its calls come to counts, on fresh structures."""
    monkeypatch.setattr("builtins.COUNTER", count(), raising=False)
    line = said_of(asked, script, capsys)
    assert line.startswith("✗")
    assert said in line


def test_calls_that_do_not_end_are_not_played_again(capsys, impatience):
    assert "your function did not finish within" in said_of("9.6", "while True: it.finish(it.start([1]))", capsys)

    class Endless(list):
        def __len__(self):
            while True:
                pass

    check("11.6", lambda it: it.attach("A", "a", Endless()))  # it is stopped within a call
    assert "your function did not finish within" in capsys.readouterr().out


def test_many_calls_are_shortened_to_the_last(capsys):
    line = said_of("9.6", "for n in range(99): it.finish(it.start([n]))", capsys)
    assert "the careless version gives the same answer for …, start([93]), finish(row 0), " in line
    check("9.6")
    assert capsys.readouterr().out == "✗ 9.6 careless_take_row: you passed None. Pass the function itself\n"


def test_a_hunt_says_whether_another_was_robbed(capsys):
    alone = "a = it.acquire([1]); it.insert([1], [0]); "
    first = said_of(CARELESS[0], f"{alone}it.unlock(a)", capsys)
    second = said_of(CARELESS[0], f"{alone}b = it.acquire([1]); it.unlock(a)", capsys)
    assert first.endswith("Can you make it release a lock that another request holds?\n")
    assert second.endswith("And a part of [1], which is still locked, may be evicted!\n")
    healed = "it.serve([1, 2, 3]); it.free_windows([2]); a, mine = it.find([1, 2, 3]); it.serve([1, 2, 3]); "
    third = said_of("12.6", f"{healed}b, own = it.find([1, 2, 3]); it.leave(b, own); it.leave(a, mine)", capsys)
    fourth = said_of("12.6", f"{healed}b, own = it.find([1, 2, 3]); it.leave(a, mine)", capsys)
    assert third.endswith("Can you make it take the pin of another request?\n")
    assert fourth.endswith("And it took the pin of another request!\n")


@cache
def texts_of_hunts():
    return {hunt.id: hunt.bug.section.text for hunt in EXERCISES if isinstance(hunt, Hunt)}


def test_the_bug_of_each_hunt_is_a_stored_answer_that_the_notebook_shows():
    for path in NOTEBOOKS:
        exercises = [each for each in EXERCISES if each.id.split(".")[0] == str(int(path.stem[:2]))]
        if exercises and int(path.stem[:2]) not in TO_FIX:
            shown = "".join(str(cell.outputs) for cell in code_cells(load(path)) if "careless(" in cell.source)
            bug = texts_of_hunts()[exercises[-1].id]
            assert all(line in shown.replace("\\n", "\n") for line in bug.splitlines()[-3:]), path.name


@pytest.mark.parametrize(
    ("answer", "end"),
    [
        (lambda prompts, keep: print(keep), "Hint: print only shows a value; return gives it to the caller"),
        (lambda prompts, keep: (1 for _ in prompts), "Hint: return a list, not a generator"),
        (lambda prompts, keep: 1, "returns 1; expected: [2, 1]. Hint: return a list, not a number"),
        (lambda prompts, keep: None, "returns nothing (did you forget to return it?); expected: [2, 1]"),
        (lambda prompts, keep: prompts[9],
         "the index is past the end of the list: check where it starts, and where the list ends"),
    ],
)  # fmt: skip
def test_a_result_of_the_wrong_kind_gets_no_hint_about_values(answer, end, capsys):
    check("0.2 tokens_computed", answer)
    assert capsys.readouterr().out.endswith(f"{end}\n")


@pytest.mark.parametrize("kind", [tuple, np.array])
def test_a_result_may_be_a_tuple_or_an_array_where_ours_is_a_list(kind, capsys):
    right = find_exercise("0.2").reference
    check("0.2 tokens_computed", lambda prompts, keep: kind(right(prompts, keep)))
    assert capsys.readouterr().out == "✓ 0.2 tokens_computed: correct in every case tried\n"


def test_state_that_objects_share_is_named(capsys):
    class InTheClass:
        once: dict = {}  # noqa: RUF012 - what a learner may write

        def use(self, page):
            self.once[page] = None

        def evict(self):
            return self.once.popitem()[0] if self.once else None

    class InADefault(find_exercise("5.7").reference):
        def __init__(self, once=OrderedDict()):  # noqa: B006
            super().__init__()
            self.once = once

    for answer in (InTheClass, InADefault):
        check("5.7 TwoRings", answer)
        assert "create your state in __init__, on self" in capsys.readouterr().out


def test_what_breaks_the_judge_itself_is_one_line_too(capsys):
    loop = []
    loop.append(loop)
    check("1.9", lambda num_tokens, page_size: loop)
    check(3, len)
    calls = []
    check("1.9", lambda num_tokens, page_size: calls.append(1) or -(-num_tokens // page_size) + (len(calls) % 37 == 0))
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 3
    assert all(line.startswith("✗ ") for line in lines)
    assert "gives different answers to the same input" in lines[2]


def test_the_judge_leaves_tracing_as_it_was(capsys, impatience):
    """Taking back an exception that did not land once left a flag in the interpreter that made tracing endless."""
    check("1.9", forever)
    seen = []
    sys.settrace(lambda frame, event, _: seen.append(event))
    try:
        find_exercise("1.9")
    finally:
        sys.settrace(None)
    assert seen


def test_an_unknown_exercise_is_named(capsys):
    for wrong in ("9.9 nothing", "", "hit_tokens"):
        check(wrong, len)
        assert "The exercises are 0.1, 0.2" in capsys.readouterr().out


def test_the_smallest_failing_case_is_found_beyond_the_listed_ones(capsys):
    listed = {case: find_exercise("1.9").reference(*case) for case in find_exercise("1.9").cases}
    check("1.9", lambda n, size: listed[n, size] if (n, size) in listed else -(-n // size) + (n > 100))
    assert capsys.readouterr().out.startswith("✗ 1.9 pages_needed(101, 1) returns 102; expected: 101.")


def test_checking_twice_says_the_same(capsys):
    for _ in range(2):
        check("3.9 radix_nodes", lambda prompts: len(prompts) if len(prompts) < 3 else 7)
    first, second = capsys.readouterr().out.splitlines()
    assert first == second


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


def test_an_answer_that_is_wrong_the_first_time_only_is_inconstant_after_a_right_one_too():
    strategy, once = lists(), iter([True])
    assert smallest(lambda case: False, (), strategy) is None
    assert smallest(lambda case: next(once, False), (), strategy) is INCONSTANT


@pytest.mark.parametrize(
    ("id", "name", "body", "said"),
    [
        ("0.1", "shared_by_all", "prompts.sort()",
         "after shared_by_all([[0], []]), the caller's `prompts` is [[], [0]]; expected: [[0], []]. Hint: "
         "the caller's object must not change\n"),
        ("1.6", "best_page_size", "sizes.clear()",
         "after best_page_size([16], [1, 16], 0.0), the caller's `sizes` is []; expected: [1, 16]. Hint: your code "
         "removes items from the caller's object, as `pop` does\n"),
        ("2.7", "audit", "[free.extend(row) for row in rows]", "the caller's `free` is [0]; expected: []. "
         "Hint: your code adds to the caller's object, as `+=` does\n"),
        ("4.9", "how_many_fit", "prefixes.append(0)", "the caller's `prefixes` is [0]; expected: []. Hint: "),
    ],
)  # fmt: skip
def test_an_answer_that_changes_its_arguments_is_not_right(id, name, body, said, capsys):
    reference = find_exercise(id).reference
    names = reference.__code__.co_varnames[: reference.__code__.co_argcount]
    world = {"right": reference}
    exec(f"def {name}({', '.join(names)}):\n    found = right({', '.join(names)})\n    {body}\n    return found", world)
    check(id, world[name])
    assert said in capsys.readouterr().out

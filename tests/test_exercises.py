"""`check`, its hints and `progress`; and the proofs: references pass, wrong answers are caught, solutions turn ✅."""

from __future__ import annotations

import ast
import sys

import pytest
import samples
from chapters import NOTEBOOKS, code_cells, code_under, load, run_cells, solutions
from hypothesis import given, settings
from hypothesis import strategies as st
from test_interleave import all_orders

from minikv import CacheManager, CanaryModel, Engine, LongestPrefixFirst, NoCache, Scheduler, progress
from minikv.course.exercises import exercise as exercise_module
from minikv.course.exercises import judge
from minikv.course.exercises.ch07 import orders
from minikv.course.exercises.ch08 import finished, let_in
from minikv.course.exercises.exercise import CHAPTERS, Exercise, Hunt, check, exercises_of, find_exercise
from minikv.course.exercises.judge import Script
from minikv.course.pieces.piece import pieces_of
from minikv.testing import attempt as attempt_module

ALONE = [path for path in NOTEBOOKS if path.stem[:2] not in ("07", "13")]  # those go on with what other cells made
EXERCISES = [exercise for chapter in CHAPTERS for exercise in exercises_of(chapter)]
WRONG = [(exercise, wrong) for exercise in EXERCISES for wrong in exercise.wrong]
each_exercise = pytest.mark.parametrize("exercise", EXERCISES, ids=lambda exercise: exercise.id)


@pytest.fixture(autouse=True)
def record(tmp_path, monkeypatch):
    monkeypatch.setenv("MINIKV_PROGRESS", str(tmp_path / "somewhere" / "progress.json"))
    return tmp_path / "somewhere" / "progress.json"


@pytest.fixture(autouse=True)
def with_samples(monkeypatch):
    own = exercise_module.exercises_of
    more = {1: samples.SAMPLES}
    monkeypatch.setattr(exercise_module, "exercises_of", lambda chapter: [*own(chapter), *more.get(chapter, ())])


# -- the four proofs (the fourth, that the unsolved notebook passes strict nbval, is `make notebooks`) ---------------


@each_exercise
def test_the_reference_passes(exercise, capsys):
    check(exercise.id, exercise.reference if isinstance(exercise, Exercise) else lambda: exercise.example)
    assert capsys.readouterr().out.startswith(f"✅ {exercise.id} {exercise.name}:")


@pytest.mark.parametrize(("exercise", "wrong"), WRONG, ids=[f"{e.id} {w.answer.__name__}" for e, w in WRONG])
def test_a_wrong_answer_is_caught_and_gets_its_hint(exercise, wrong, capsys):
    check(exercise.id, wrong.answer)
    said = capsys.readouterr().out
    assert said.startswith(f"❌ {exercise.id} ")
    assert f"Hint: {wrong.hint}" in said.splitlines()[0]


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
    assert list(printed) == [exercise.id for exercise in exercises_of(int(path.stem[:2]))]
    assert [line[:1] for line in said.splitlines()] == ["✅"] * len(printed), said


@each_exercise
def test_an_exercise_has_a_fill_in_a_design_and_a_hunt_and_at_least_one_known_mistake(exercise):
    assert exercise.wrong
    assert exercise.hint
    last = exercises_of(int(exercise.id.split(".")[0]))[-1]
    assert isinstance(exercise, Hunt) == (exercise is last)


@settings(max_examples=20)
@given(st.integers(0, 5), st.integers(0, 5))
def test_two_programs_take_turns_as_exercise_7_4_says(a, b):
    assert all_orders((a, b)) == orders(a, b)


@pytest.mark.parametrize(
    "case", [("abcd", [0, 1], [1]), ("abcd", [0, 9], [1, 2]), ("abcd", [0, 1], [2, 2]), ("abcd", [0, 1]), (3, [0], [1])]
)
def test_a_call_that_means_nothing_is_to_be_fixed_before_a_bug_is_hunted_with_it(case, capsys):
    check("6.5", lambda: case)
    said = capsys.readouterr().out
    assert "is not a valid call" in said
    assert "Hint: fix the call first" in said


@pytest.mark.parametrize(("asked", "case"), [("0.3", ([1], [2], [1])), ("0.3", ([...],)), ("1.4", (8,))])
def test_a_call_that_both_refuse_gets_no_hint_about_the_bug(asked, case, capsys):
    check(asked, lambda: case)
    said = capsys.readouterr().out
    assert "is not a valid call, TypeError" in said
    assert said.endswith("Hint: what both refuse does nothing: fix it first\n")


def test_the_form_of_a_call_with_a_single_argument_is_shown(capsys):
    check("0.3", lambda: [[1, 2], [7], [1, 2, 3]])
    assert capsys.readouterr().out.endswith("expected a tuple of arguments, here of one: (argument,)\n")


@pytest.mark.parametrize(
    ("case", "hint"),
    [
        ((4, [(2, 4), (2, 4), (2, 1)]), "each request must fit by itself"),
        ((6, [2, 4]), "fix the call first"),
        (("6", [(2, 4)]), "fix the call first"),
        ((6, [(2, 4), (2, 4)]), "where no other request waits, the front of the line is its end"),
    ],
)
def test_a_line_that_nobody_jumps_gets_a_hint_that_fits_it(case, hint, capsys):
    check("8.5", lambda: case)
    said = capsys.readouterr().out
    assert said.startswith("❌ 8.5 ")
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


def spoil(lengths, sizes, most_waste):
    sizes.clear()
    return 1


class Odd:
    def __eq__(self, other):
        raise RuntimeError


@pytest.mark.parametrize(
    ("answer", "gave"),
    [
        (forever, "gave no end, expected 0"),
        pytest.param(stubborn, "gave no end, expected 0", marks=reachable),
        (chatty, "EOFError (nobody answers input() here)"),
        (lambda num_tokens, page_size: (x for x in ()), "<generator object"),
        (lambda num_tokens, page_size: {"b", "a", 3}, "{'a', 'b', 3}"),
        (leave, "SystemExit"),
        (lambda num_tokens: 1, "TypeError"),
        (None, "TypeError"),
        (7, "TypeError"),
        (lambda num_tokens, page_size: None, "nothing (did you forget to return it?)"),
        (lambda num_tokens, page_size: 1 / 0, "ZeroDivisionError"),
        (lambda num_tokens, page_size: "x" * 10**6, "'xxxxxxxx"),
        (lambda num_tokens, page_size: Odd(), "Odd object"),
    ],
)
def test_whatever_an_answer_does_is_one_line(answer, gave, capsys, impatience):
    check("9.1 pages_needed", answer)
    said = capsys.readouterr().out
    assert said.startswith("❌ 9.1 pages_needed(0, 16) gave ")
    assert gave in said
    assert said.count("\n") == 1
    assert len(said) < 300


@pytest.mark.parametrize(
    ("script", "names"),
    [
        (Script((2,), (("alloc", ()), ...)), "operation 2 is Ellipsis: expected (name, (arguments,))"),
        (Script((2,), (("occupy", 0),)), "operation 1 is ('occupy', 0): expected (name, (arguments,))"),
        (Script((2,), (("alloc",),)), "operation 1 is ('alloc',)"),
        (Script((2,), ("alloc", ())), "operation 1 is 'alloc'"),
        (Script(2, ()), "the first part is 2"),
        ("alloc", "got 'alloc', expected a Script of operations"),
        (None, "got None, expected a Script of operations: return it"),
    ],
)
def test_a_script_that_is_none_is_said_to_be_none(script, names, capsys):
    check("2.5 CarelessBitmask", lambda: script)
    said = capsys.readouterr().out
    assert said.startswith("❌ 2.5 CarelessBitmask: ")
    assert names in said
    assert said.count("\n") == 1


CARELESS = "4.6 CarelessLockingTree", "5.6 CarelessPathRing"


@pytest.mark.parametrize(
    ("asked", "operations", "said"),
    [
        (CARELESS[0], [("insert", ([1, 2], [0, 1]))], "operation 1, insert([1, 2], [0, 1]): TypeError ("),
        (CARELESS[0], [("insert", ([1],)), ("evict", (1,))], "operation 2, evict(1): AttributeError ("),
        (CARELESS[0], [("unlock", ("Ann",))], "operation 1, unlock('Ann'): KeyError ('Ann'), on both"),
        (CARELESS[0], [("lock", ("A", [1])), ("lock", ("A", [1]))], "ValueError (A holds a lock already), on both"),
        (CARELESS[1], [("match", ([1],))], "operation 1, match([1]): AttributeError ("),
        (CARELESS[1], [("lock", ([1],))], "operation 1, lock([1]): KeyError ((1,)), on both"),
    ],
)
def test_an_operation_that_both_refuse_is_named(asked, operations, said, capsys):
    check(asked, lambda: Script((), tuple(operations)))
    line = capsys.readouterr().out
    assert line.startswith(f"❌ {asked}: operation ")
    assert said in line
    assert line.endswith("on both. Hint: what both refuse does nothing: fix it first\n")


def test_a_script_that_does_no_harm_gets_a_hint_that_fits_it(capsys):
    path = [("use", ([4, 5],)), ("lock", ([4, 5],)), ("unlock", ([4, 5],))]
    for asked, operations, hint in (
        (
            CARELESS[1],
            [("use", ([7],)), *path, ("evict", ())],
            "after the unlock, nothing of that path was evicted: evict once more",
        ),
        (CARELESS[1], path[:2], "the careless line runs when a lock is given back"),
        (CARELESS[1], [("use", ([7],)), ("lock", ([7],)), ("unlock", ([7],)), ("evict", ())], "a path of one node"),
        (CARELESS[1], [*path, ("use", ([4, 5],)), ("evict", ())], "the use after the unlock puts the order right"),
        (CARELESS[1], [*path, ("use", ([4, 5],)), *path[1:], ("use", ([4, 5],)), ("evict", ())], "the use after"),
        (CARELESS[0], [("insert", ([5],)), ("lock", ("A", [5]))], "locking is right in both"),
        (CARELESS[0], [("insert", ([5],)), ("lock", ("A", [5])), ("unlock", ("A",))], "nothing is inserted between"),
        (CARELESS[0], [("lock", ("A", [5])), ("insert", ([7],)), ("unlock", ("A",))], find_exercise("4.6").hint),
    ):
        check(asked, lambda operations=operations: Script((), tuple(operations)))
        assert f"Hint: {hint}" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("operations", "hint"),
    [
        ([("insert", ([1, 2], [0, 1])), ("insert", ([1, 2, 3], [0, 1, 2]))], "no insert splits an edge here"),
        (
            [("insert", ([1, 2], [0, 1])), ("insert", ([1], [0]))],
            "an edge is split, but the new prompt ends at the cut",
        ),
        ([("insert", ([1, 2], [0, 1])), ("insert", ([1, 9], [0, 2]))], "after the split, ask for the new prompt"),
        (
            [("insert", ([1, 2, 3], [0, 1, 2])), ("insert", ([1, 9], [0, 3])), ("match", ([1, 2, 3],))],
            find_exercise("3.6").hint,
        ),
    ],
)
def test_a_script_that_meets_no_bad_split_gets_a_hint_that_fits_it(operations, hint, capsys):
    check("3.6 CarelessTree", lambda: Script((), tuple(operations)))
    assert f"Hint: {hint}" in capsys.readouterr().out


def test_occupying_a_free_slot_gets_a_hint_that_fits_it(capsys):
    check("2.5 CarelessBitmask", lambda: Script((3,), (("occupy", (1,)),)))
    assert "Hint: occupying a slot that is free works: what if somebody has it?" in capsys.readouterr().out


def test_a_hunt_says_whether_another_was_robbed(capsys):
    alone = (("lock", ("Anna", [1])), ("insert", ([1],)), ("unlock", ("Anna",)))
    check(CARELESS[0], lambda: Script((), alone))
    check(CARELESS[0], lambda: Script((), (*alone[:2], ("lock", ("Ben", [1])), alone[2])))
    first, second = capsys.readouterr().out.splitlines()
    assert first.endswith("Can you make it give away what another holds?")
    assert second.endswith("And what Ben holds may be evicted!")


def test_the_form_of_a_script_is_shown_by_an_operation_of_this_exercise(capsys):
    check(CARELESS[0], lambda: Script((), (("lock", "Anna"),)))
    assert "as in ('insert', ([1, 2],))" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("answer", "end"),
    [
        (lambda prompts, keep: print(keep), "expected []. Hint: print shows a value, return hands it back"),
        (lambda prompts, keep: (1 for _ in prompts), "Hint: return a list; this is a generator"),
        (lambda prompts, keep: 1, "gave 1, expected []. Hint: return a list; this is a number"),
        (lambda prompts, keep: None, "gave nothing (did you forget to return it?), expected []"),
    ],
)  # fmt: skip
def test_a_result_of_the_wrong_kind_gets_no_hint_about_values(answer, end, capsys):
    check("0.2 tokens_computed", answer)
    assert capsys.readouterr().out.endswith(f"{end}\n")


def test_a_whole_number_that_came_from_a_division_gets_a_hint_about_it(capsys):
    check("9.1 pages_needed", lambda num_tokens, page_size: num_tokens / page_size)
    assert "gave 0.0, expected 0. Hint: return a whole number" in capsys.readouterr().out


def test_a_tuple_is_shown_as_one():
    leaves = [(2, 5, False), (2, 3, False)]
    exercise = Exercise(id="9.9", name="count", reference=len, cases=[(leaves,)], hint="count them")
    _, said, _ = exercise.judge(lambda leaves: 0)
    assert said.startswith("count([(2, 5, False), (2, 3, False)]) gave 0, expected 2")


@pytest.mark.parametrize(
    "error", [AttributeError("'Pool' object has no attribute 'slot'"), NameError("no name 'slot'")]
)
def test_a_missing_name_gets_no_hint_about_values(error, capsys):
    class Mistyped(samples.Pool):
        def alloc(self, n):
            raise error

    check("9.2 Pool", Mistyped)
    line = capsys.readouterr().out.splitlines()[0]
    assert line.endswith(f"gave {type(error).__name__} ({error}), expected [0]")


def test_an_attribute_that_is_missing_is_named_after_the_call_that_came_before(capsys):
    class NoCount:
        def __init__(self, size):
            self.slots = list(range(size))[::-1]

        def alloc(self, n):
            return [self.slots.pop() for _ in range(n)]

    check("9.2 Pool", NoCount)
    line = capsys.readouterr().out.splitlines()[0]
    assert "Pool(2).alloc(1) and then num_free gave AttributeError ('NoCount' object has no" in line
    assert line.endswith("expected 1")


def test_a_loop_without_an_end_gets_a_hint_about_loops(capsys, impatience):
    check("9.1 pages_needed", forever)
    assert capsys.readouterr().out.endswith("Hint: look at the loop: does every round bring it nearer to its end?\n")


def test_state_that_objects_share_is_named(capsys):
    class InTheClass:
        once: dict = {}  # noqa: RUF012 - what a learner may write

        def use(self, page):
            self.once[page] = None

        def evict(self):
            return self.once.popitem()[0] if self.once else None

    class InADefault(find_exercise("5.5").reference):
        def __init__(self, once=find_exercise("5.5").reference().once):  # noqa: B008
            super().__init__()
            self.once = once

    for answer in (InTheClass, InADefault):
        check("5.5 TwoRings", answer)
        assert "is your state shared between objects?" in capsys.readouterr().out


def test_what_breaks_the_judge_itself_is_one_line_too(capsys):
    loop = []
    loop.append(loop)
    check("9.1", lambda num_tokens, page_size: loop)
    check("9.2", lambda size: (x for x in ()))
    check(3, len)
    calls = []
    check("9.1", lambda num_tokens, page_size: calls.append(1) or -(-num_tokens // page_size) + (len(calls) % 37 == 0))
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 4
    assert all(line.startswith("❌ ") for line in lines)
    assert "gives different answers to the same arguments" in lines[3]


def test_a_method_that_is_not_written_yet_is_named(capsys):
    class Half(samples.Pool):
        def free(self, slots):
            raise NotImplementedError

    check("9.2 Pool", Half)
    assert "9.2 Pool(2).alloc(2).free([0]) is not written yet." in capsys.readouterr().out


def test_the_judge_leaves_tracing_as_it_was(capsys, impatience):
    """Taking back an exception that did not land once left a flag in the interpreter that made tracing endless."""
    check("9.1", forever)
    seen = []
    sys.settrace(lambda frame, event, _: seen.append(event))
    try:
        find_exercise("9.1")
    finally:
        sys.settrace(None)
    assert seen


def test_arguments_that_an_answer_spoils_are_its_own_copies(capsys):
    check("1.3 best_page_size", spoil)
    assert "best_page_size([16], [1, 16], 0.0) gave 1, expected 16" in capsys.readouterr().out


def test_an_unknown_exercise_is_named(capsys):
    for wrong in ("9.9 nothing", "", "pages_needed"):
        check(wrong, len)
        assert "there are 0.1, 0.2" in capsys.readouterr().out


def test_the_smallest_failing_case_is_found_beyond_the_listed_ones(capsys):
    listed = {case: find_exercise("9.1").reference(*case) for case in find_exercise("9.1").cases}
    check("9.1", lambda n, size: listed[n, size] if (n, size) in listed else -(-n // size) + (n > 100))
    assert capsys.readouterr().out.startswith("❌ 9.1 pages_needed(101, 1) gave 102, expected 101.")


def test_a_structure_is_drawn_beside_the_expected_one_where_they_part(capsys):
    class Leaky(samples.Pool):
        def free(self, slots):
            super().free(slots[1:])

    check("9.2 Pool", Leaky)
    line, *picture = capsys.readouterr().out.splitlines()
    assert "Pool(2).alloc(2).free([0]) leaves num_free at 0, expected 1" in line
    assert "yours, and beside it what was expected:" in picture[0]


def test_checking_twice_says_the_same(capsys):
    for _ in range(2):
        check("3.5 radix_nodes", lambda prompts: len(prompts) if len(prompts) < 3 else 7)
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

        assert judge.smallest(spoils, (), strategy) is None
    assert len(rounds[0]) >= 300
    assert rounds[0] == rounds[1]


def test_after_a_right_answer_a_wrong_one_gets_the_same_smallest_case():
    strategy = lists()
    assert judge.smallest(lambda case: False, (), strategy) is None
    found = [judge.smallest(lambda case: sum(case[0]) > 150, (), each) for each in (strategy, lists())]
    assert found[0] == found[1]
    assert sum(found[0][0]) == 151


def test_an_answer_that_is_wrong_the_first_time_only_is_inconstant_after_a_right_one_too():
    strategy, once = lists(), iter([True])
    assert judge.smallest(lambda case: False, (), strategy) is None
    assert judge.smallest(lambda case: next(once, False), (), strategy) is judge.INCONSTANT


# -- progress -------------------------------------------------------------------------------------------------------


def test_progress_shows_what_was_solved_and_tried(capsys, record):
    progress([1])
    check("1.3", find_exercise("1.3").reference)
    check("1.4", lambda: (100, 50, 0, 1))
    capsys.readouterr()
    progress([1])
    assert capsys.readouterr().out == "chapter 01   ⬜ 1.1   ⬜ 1.2   ✅ 1.3   ❌ 1.4\n1 of 4 solved\n"
    assert record.exists()


def test_an_exercise_left_alone_keeps_its_mark(capsys, record):
    def stub(lengths, sizes, most_waste):
        raise NotImplementedError

    check("1.3", stub)
    assert not record.exists(), "nothing was tried, so nothing is written"
    check("1.3", find_exercise("1.3").reference)
    check("1.3", stub)
    progress([1])
    assert "✅ 1.3" in capsys.readouterr().out


def test_what_was_solved_stays_solved(capsys):
    check("1.3", find_exercise("1.3").reference)
    check("1.3", lambda lengths, sizes, most_waste: 0)
    assert "❌ 1.3" in capsys.readouterr().out
    progress([1])
    assert "✅ 1.3" in capsys.readouterr().out


@pytest.mark.parametrize("chapters", [[99], [-1], [True], ["1"], b"abc", [2**70]])
def test_progress_names_a_chapter_that_is_not_there(chapters):
    with pytest.raises(
        (TypeError, ValueError),
        match=r"^chapter is .*: chapters 0, 1, 2, 3, 4, 5, 6, 7, 8.* have exercises|less than 2",
    ):
        progress(chapters)
    with pytest.raises(TypeError, match=r"^chapters are 5: expected their numbers"):
        progress(5)

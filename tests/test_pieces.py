"""The pieces that the learner writes: how they are judged, kept and run, and what a chapter has to show of them."""

from __future__ import annotations

import ast
import asyncio
import functools
import inspect
import itertools
import os
import re
import sys
import types
import zlib
from pathlib import Path

import ipywidgets
import numpy as np
import pytest
from chapters import NOTEBOOKS, ROOT, WRITTEN, code_cells, code_under, load, markdown
from hypothesis import given
from hypothesis import strategies as st
from nightly import NIGHTLY, by_day

from minikv.course.pieces import (
    accepted,
    begin,
    check,
    cost,
    fold,
    guess,
    guessing,
    hint,
    mine,
    pressing,
    progress,
    solution,
    source,
    trial,
)
from minikv.course.pieces.checking import name_pieces
from minikv.course.pieces.cost import work_of
from minikv.course.pieces.mine import _with_failed, assembled, failed_sections, kept_sections
from minikv.course.pieces.mine import load as load_file
from minikv.course.pieces.mistakes import about_difference, mistake_in
from minikv.course.pieces.observer import ALL_RIGHT, RETURNED, Observer, Words
from minikv.course.pieces.origin import lines_of
from minikv.course.pieces.piece import CHAPTERS, Piece, all_pieces, exercises_of, find_exercise, find_piece, pieces_of
from minikv.course.pieces.record import predictions
from minikv.course.pieces.showing import both_films
from minikv.course.pieces.trial import Difference, judge, play_case
from minikv.course.pieces.worlds import reference_world, session
from minikv.engine import (
    LAST,
    engine_files,
    engine_sections,
    ours,
    pieces_up_to,
    run_section,
    section_of,
    sections,
)
from minikv.testing.attempt import TooLong
from minikv.testing.scenarios import smallest_case

PIECES = all_pieces()
EXERCISES = [exercise for chapter in CHAPTERS for exercise in exercises_of(chapter)]
WRONG_EXERCISES = [(exercise, wrong) for exercise in EXERCISES for wrong in exercise.wrong]
RIGHT = [part for path in sorted((ROOT / "tests/right").glob("*.txt")) for part in sections(path.read_text("utf-8"))]
RIGHT_PIECES = [part for part in RIGHT if find_piece(part.id)]
RIGHT_EXERCISES = [part for part in RIGHT if not find_piece(part.id)]
CHECKED = re.compile(r'^(\w+) = check\("([\d.]+) (\w+)", (\w+)\)$', re.MULTILINE)
KEEPING = """
def keeping(function):
    def inner(*given):
        return function(*given)

    inner.__name__ = function.__name__
    return inner
"""
SHARE = 0.4  # of the code under "Build it", in lines
BY_DAY = 10  # one of each so many stored answers is judged on every run, and all of them at night
each_piece = pytest.mark.parametrize("piece", PIECES, ids=lambda piece: piece.id)
each_chapter = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)


@pytest.fixture(autouse=True)
def own_record(tmp_path, monkeypatch):
    monkeypatch.setenv("MINIKV_PROGRESS", str(tmp_path / "progress.json"))


@pytest.fixture(autouse=True)
def few_cases(request, monkeypatch):
    """By day Hypothesis makes a tenth of the cases, but all of them for wrong answers: some are caught in few cases."""
    if not NIGHTLY and "wrong_answer" not in request.node.name:
        monkeypatch.setattr(trial, "smallest_case", functools.partial(smallest_case, examples=30))
        monkeypatch.setattr(trial, "MADE", 30)


@pytest.fixture
def file(tmp_path, monkeypatch):
    monkeypatch.setenv("MINIKV_MINE", str(tmp_path / "my_minikv.py"))
    return tmp_path / "my_minikv.py"


class Notebook:
    """Cells that are run one after the other, each from a file of its own, as IPython runs them."""

    def __init__(self, folder, chapter):
        self.names, self.folder, self.count = {"__name__": "__main__"}, folder, 0
        begin(chapter, self.names)
        self.names.update(check=check)

    def run(self, text):
        self.count += 1
        cell = self.folder / f"cell_{self.count}.py"
        cell.write_text(text, "utf-8")
        exec(compile(text, str(cell), "exec"), self.names)

    def answer(self, piece, text):
        self.run(f'{text}\n\n{piece.name} = check("{piece.id} {piece.name}", {piece.name})')


@pytest.fixture
def notebook(tmp_path):
    return Notebook(tmp_path, chapter=7)


# -- judging --------------------------------------------------------------------------------------------------------


def some_of(wrong_answers):
    """All at night; by day some of each piece, always the same ones, whatever stands before them in the file."""
    if NIGHTLY:
        return wrong_answers
    mixed = sorted(wrong_answers, key=lambda wrong: zlib.crc32(f"{wrong.section.id} {wrong.mistake}".encode()))
    return mixed[: -(-len(mixed) // BY_DAY)]


@each_piece
def test_each_wrong_answer_is_caught_and_gets_its_hint(piece):
    """Also by day each stored answer is compared with those that are judged, so their hints are told apart."""
    others, judged = {}, some_of(piece.wrong)
    assert judged
    for wrong in judged:
        world = reference_world(piece)
        world.update(run_section(wrong.section, world, "<wrong>"))
        found = judge(piece, world)
        mistake = found and mistake_in(piece, world, found.case)
        is_run = found and (not isinstance(found.error, NameError) or "NameError" in wrong.section.text)
        if not (is_run and mistake and mistake.is_all and mistake.wrong.hint == wrong.hint):
            others[wrong.mistake] = found
    assert not others


@pytest.mark.parametrize(
    ("exercise", "wrong"),
    by_day(WRONG_EXERCISES, lambda pair: pair[1] in some_of(pair[0].wrong)),
    ids=[f"{e.id} {w.mistake}" for e, w in WRONG_EXERCISES],
)
def test_a_wrong_answer_to_an_exercise_is_caught_and_gets_its_hint(exercise, wrong, capsys):
    world = reference_world(exercise) if isinstance(exercise, Piece) else exercise.world()
    world.update(run_section(wrong.section, world, "<wrong>"))
    check(exercise.id, world[wrong.section.name])
    said = capsys.readouterr().out
    assert said.startswith(f"✗ {exercise.id} ")
    assert f"Hint: {wrong.hint}" in said.splitlines()[0]
    assert "NameError" not in said or "NameError" in wrong.section.text  # it would be like itself with any hint


def test_an_insert_that_takes_its_row_is_caught_for_finish_has_freed_it():
    """It was accepted, and then `RowTrie.finish` raised in the next cell of the chapter."""
    piece = next(piece for piece in PIECES if piece.id == "9.3")
    world = reference_world(piece)
    right = world["trie_insert"]

    def trie_insert(root, tokens, row, pool):
        if pool.is_free(row):
            pool.occupy(row, renew=True)
        return right(root, tokens, row, pool)

    world["trie_insert"] = trie_insert
    assert judge(piece, world)


TWO_MISTAKES = {
    "1.1": ("return layers * kv_heads // tp * head_dim * number_bytes", "a token has a key *and* a value"),
    "2.1": ("return [pool.stack.pop() for _ in range(count)]", "mark the pages that you hand out in"),
    "2.3": ("for page in pages:\n        pool.stack.append(page)", "are still marked in use"),
    "3.3": ("upper = Node(node.tokens[:at], node.slots, None)\n    return upper", "must be the one in the tree"),
    "3.5": ("return None, 99", None),
}


@pytest.mark.parametrize("number", TWO_MISTAKES)
def test_of_two_mistakes_the_first_one_gets_a_hint_that_may_not_be_all(number, notebook, capsys):
    piece, (body, hint_about) = find_piece(number), TWO_MISTAKES[number]
    notebook.answer(piece, stub(piece).replace("raise NotImplementedError", body))
    said = capsys.readouterr().out
    assert ("  Hint (perhaps): " in said) == (hint_about is not None)
    assert (hint_about or "") in said
    assert f'Stuck? Try hint("{number}").' in said


@each_piece
def test_our_own_function_is_not_taken_for_the_learners(piece, file, tmp_path, capsys):
    notebook = Notebook(tmp_path, piece.chapter)
    notebook.run(f'{piece.name} = check("{piece.id} {piece.name}", {piece.name})')
    said = capsys.readouterr().out
    assert said.startswith(f"□ {piece.id} {piece.name}: not attempted yet. That is the course's own `{piece.name}`.")
    assert not file.exists()


@pytest.mark.parametrize(
    ("earlier", "number", "old", "new"),
    [
        ("def make(a, b):\n    return min(a, b)", "7.2", "min(sequence", "make(sequence"),
        ("def walk(a, b):\n    1 / 0\n\n\ndef go(a, b):\n    return walk(a, b)", "3.5", "walk(root", "go(root"),
        (KEEPING, "7.2", "def truncate", "@keeping\ndef truncate"),
        ("", "3.4", "    node, at = root, 0", "    walk.calls = 1\n    node, at = root, 0 * walk.calls"),
        ("", "3.4", "    node, at = root, 0", "    print('here')\n    node, at = root, 0"),
    ],
)
def test_a_right_answer_may_be_written_in_any_way(earlier, number, old, new, notebook, capsys):
    notebook.run(earlier)
    notebook.answer(find_piece(number), find_piece(number).solution.replace(old, new))
    said, where = capsys.readouterr().out.splitlines()
    assert said.startswith(f"✓ {number}")
    assert where == f"  {find_piece(number).places}"


@pytest.mark.parametrize("section", RIGHT_EXERCISES, ids=lambda section: f"{section.id}{section.remark}")
def test_a_right_answer_of_another_shape_to_an_exercise_passes(section, capsys):
    exec(section.text, made := {"__name__": "__main__"})
    check(section.id, made[section.name])
    assert capsys.readouterr().out == f"✓ {section.id} {section.name}: correct in every case tried\n"


@pytest.mark.parametrize("section", RIGHT_PIECES, ids=lambda section: f"{section.id}{section.remark}")
def test_a_right_answer_of_another_shape_passes(section, tmp_path, capsys):
    piece = find_piece(section.id)
    Notebook(tmp_path, piece.chapter).answer(piece, section.text)
    assert capsys.readouterr().out.startswith(f"✓ {piece.id} {piece.name}: correct in ")


def test_answers_are_judged_with_the_node_of_chapter_03_which_has_no_locks(tmp_path, capsys):
    """Ours is played with it, too; else `node.locks` would be missing in each answer."""
    notebook = Notebook(tmp_path, 3)
    text = "\n\n".join(cell.source for cell in code_cells(load(NOTEBOOKS[3])))
    notebook.run(re.search(r"^class Node:(\n .+|\n)+", text, re.MULTILINE)[0])
    wrong = find_piece("3.4").wrong[0]
    notebook.answer(find_piece("3.4"), wrong.section.text)
    notebook.answer(find_piece("3.4"), find_piece("3.4").solution)
    said = capsys.readouterr().out
    assert f"Hint: {wrong.hint}" in said
    assert "\n✓ 3.4 walk: correct in " in said


METHODS = {name for kind in (list, dict, set, str, int) for name in dir(kind)}


class Naming(ast.NodeTransformer):
    """Names the arguments of each call of what a world defines: `Node(tokens=a, slots=b)` for `Node(a, b)`."""

    def __init__(self, world):
        kinds = [kind for kind in world.values() if inspect.isclass(kind) and "__init__" in vars(kind)]
        kinds = [kind for kind in kinds if inspect.isfunction(kind.__init__)]
        self.known = {kind.__name__: {self.names(kind)} for kind in kinds}
        for name, function in world.items():
            if inspect.isfunction(function):
                self.known[name] = {self.names(function)}
        for kind in kinds:
            for name, method in inspect.getmembers(kind, inspect.isfunction):
                if name not in METHODS | world.keys():
                    self.known.setdefault(f".{name}", set()).add(self.names(method)[1:])

    @staticmethod
    def names(function):
        return tuple(inspect.signature(function).parameters)

    def visit_Call(self, call):
        self.generic_visit(call)
        called = f".{call.func.attr}" if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
        known = self.known.get(called, ())
        if len(known) == 1 and not any(isinstance(arg, ast.Starred) for arg in call.args):
            call.keywords = [*map(ast.keyword, *known, call.args), *call.keywords]
            call.args = []
        return call


@pytest.mark.parametrize("piece", by_day(PIECES, lambda piece: piece.cost), ids=lambda piece: piece.id)
def test_a_right_answer_may_name_all_arguments_among_others_that_do(piece):
    """Whatever stands in for a class or a function while a piece is judged takes what the original takes."""
    plain, world = reference_world(piece), reference_world(piece)
    for each in (*pieces_up_to(piece.chapter), section_of(piece.id)):
        named = ast.unparse(Naming(plain).visit(ast.parse(each.text)))
        exec(compile(named, f"<{each.id}>", "exec"), world)
    assert judge(piece, world, thorough=False) is None
    if piece.cost:
        assert work_of(piece, world) == pytest.approx(work_of(piece, plain), rel=0.05)


def test_the_next_piece_passes_when_the_accepted_one_names_its_arguments(notebook, capsys):
    """`Node(..., parent=node.parent)` is how the class on the page invites to call it."""
    (names,) = [section.text for section in RIGHT if section.remark == ": names what it gives to Node"]
    notebook.answer(find_piece("3.3"), names)
    notebook.answer(find_piece("3.4"), find_piece("3.4").solution)
    assert "✓ 3.4 walk: correct in " in capsys.readouterr().out


def test_an_error_in_the_count_is_the_judges_and_the_answer_passes(notebook, capsys, monkeypatch):
    monkeypatch.setattr(cost, "traced", None)
    notebook.answer(find_piece("3.4"), find_piece("3.4").solution)
    said = capsys.readouterr().out
    assert said.startswith("□ 3.4 walk: can't be judged because of an error in `check`, not in your code, so your ")


@pytest.mark.parametrize(
    ("line", "error"), [("pool.stack[pool.size]", "IndexError (list index"), ("guard(pool, pages)", "RecursionError")]
)
def test_a_cost_that_cannot_be_counted_is_the_answers_error(line, error, notebook, capsys):
    """Nothing but the large case has more than a hundred pages; what a stand-in passes on is no error of the judge."""
    looks = f"    if pool.size > 99:\n        {line}\n    seen = set()"
    notebook.answer(find_piece("2.2"), own("2.2", ("    seen = set()", looks)))
    assert f"✗ 2.2 guard: correct, but a large case fails: {error}" in capsys.readouterr().out


@pytest.mark.parametrize(("id", "used"), [("3.1", True), ("3.9", False)])
def test_an_error_of_the_judge_refuses_no_answer(id, used, notebook, capsys, monkeypatch):
    monkeypatch.setattr(trial, "cases_for", None)
    own = notebook.names["common"] = eval("lambda *args: 7", notebook.names)
    assert check(id, own) is (own if used else None)
    assert "can't be judged because of an error in `check`, not in your code, so" in capsys.readouterr().out


def test_a_case_in_which_nothing_is_asked_refuses_no_answer():
    """Without an edge to cut, ours shows nothing; an answer may end before that, in an `insert` that calls it."""
    piece, case = find_piece("4.4"), (["0", "00"], [], 0, 0)
    world = reference_world(piece)
    assert not play_case(piece, world, case).frames
    world["split"] = world["insert"] = lambda *_: 1 / 0
    got = play_case(piece, world, case)
    assert got.outcome.error
    assert trial.difference(piece, world, case, got, trial.played_by_us(piece, case)) is None


def test_half_a_character_is_printed_as_a_question_mark(notebook, capsys):
    for line in ("raise ValueError('\\ud800')", "print('\\ud800')"):
        notebook.answer(find_piece("3.3"), f"def split(node, at):\n    {line}")
    said = capsys.readouterr().out
    assert "ValueError (?)" in said
    assert "It printed: ?" in said


def test_a_label_may_be_anything(capsys):
    for label in (3, None, type("Named", (), {"__name__": 5})()):
        check(label)
        assert capsys.readouterr().out.startswith("✗ the first argument must be a label")


def test_check_puts_nothing_into_a_module_that_the_answer_comes_from(monkeypatch, capsys):
    module = types.ModuleType("of_somebody")
    exec(f"def hang(child, parent): ...\n{WRONG_SPLIT}", vars(module))
    monkeypatch.setitem(sys.modules, "of_somebody", module)
    monkeypatch.setitem(sys.modules, "__main__", types.ModuleType("__main__"))
    theirs = module.split
    given = check("3.3 split", theirs)
    assert module.split is theirs is not given
    assert not hasattr(sys.modules["__main__"], "split")  # the cell binds what is returned


ENDLESS = "from minikv.testing.attempt import TooLong\ndef walk(root, tokens):\n    if root.children: raise TooLong\n"


@pytest.mark.parametrize(("length", "waits"), [(1, 1), (7, 2)])
def test_an_answer_that_ends_in_few_cases_only_is_judged_soon(length, waits, notebook, capsys, monkeypatch):
    """It is waited for once to compare it with the stored ones, and where it is like none of them once for a fact."""
    ended = []

    def watched(*args, **more):
        played = play_case(*args, **more)
        ended.append(played.outcome.error)
        return played

    for module in ("trial", "mistakes"):
        monkeypatch.setattr(f"minikv.course.pieces.{module}.play_case", watched)
    notebook.answer(find_piece("3.4"), f"{ENDLESS}    return root, {length}")
    assert capsys.readouterr().out.startswith(f"✗ 3.4 walk: walk(root, [1])[1] is {length}; expected: 0\n")
    assert sum(isinstance(error, TooLong) for error in ended) == waits


ABOUT = {
    "'NoneType' object is not iterable": (TypeError, "something is None here"),
    'can only concatenate list (not "int") to list': (TypeError, "a list is expected here, not a single value"),
    'can only concatenate list (not "tuple") to list': (TypeError, None),
    "'tuple' object has no attribute 'slots'": (AttributeError, "a function that returns two values"),
    "'dict' object has no attribute 'children'": (AttributeError, "that is a plain dictionary"),
    "'float' object cannot be interpreted as an integer": (TypeError, "`/` gives a float"),
    "slice indices must be integers or None or have an __index__ method": (TypeError, "`/` gives a float"),
    "'numpy.ndarray' object has no attribute 'count'": (AttributeError, "an array lacks some methods"),
    "The truth value of an array with more than one element is ambiguous.": (ValueError, "neither true nor false"),
    "cannot access local variable 'i' where it is not associated with a value": (UnboundLocalError, "no value yet"),
    "pop from an empty deque": (IndexError, "nothing is left to remove"),
    "list index out of range": (IndexError, "the index is past the end of the list"),
    "deque mutated during iteration": (RuntimeError, "loop over a copy"),
}
SO = [
    (RETURNED + "[1]", True, False, None, None),
    (RETURNED + "[1]", 3, 2, None, "`[1]` of the result is too large by 1"),
    ("free pages", 1, 2, 3, "this value is too small by 1"),
    ("cache.evictable", 4, 2, 4, "the call must change `cache.evictable`"),
    ("pool.stack", [3], [2], [2], "`pool.stack` must not change"),
    (RETURNED, 0, 3, 0, None),  # what is returned is no state
    ("pool.stack", None, 2, None, None),
    (RETURNED, [1, 1, 2], [1, 2, 2], None, None),
    (RETURNED, [1.0], [1], None, None),  # it has the right items in no order
    (RETURNED, [3, 2, 1], [1, 2, 3], None, "the result has the right items, in the opposite order"),
    (RETURNED, [2, 3, 1], [1, 2, 3], None, "the result has the right items, in another order"),
    (RETURNED, [7], [], None, "the result should be empty"),
    (RETURNED, [], [7], None, "the result must not be empty"),
    (RETURNED, [1, 2], [1, 2, 3], None, "the last item of the result is missing"),
    (RETURNED, [1], [1, 2, 3], None, "the last items of the result are missing"),
    (RETURNED, [3], [1, 2, 3], None, "the first items of the result are missing"),
    (RETURNED, [1, 2, 3], [1, 2], None, "the result has extra items at the end"),
    (RETURNED, [3, 1], [1, 2, 3], None, "some items of the result are missing, but the others are correct"),
    (RETURNED, [0, 1], [1], None, "the result has extra items"),
    (RETURNED, "the same list as pool.stack", [1], None, "the result is shared, so a change in one place changes"),
    (RETURNED, "the same list as pool.stack", True, None, None),
    ("ring.newer", "a new Node", "what it was", "a Node", "`ring.newer` must be an object that"),
    ("ring.newer", "the ring", "what it was", "a Node", "`ring.newer` must not change"),
    ("ring.newer", "a new Node", "the new Node at root.children[1]", "a new Node", None),
    ("the caller's tokens", [100, 2], [7, 2], None, "the caller's object must not change"),
    ("the caller's tokens", [], [7], None, "your code removes items from the caller's object"),
    ("the caller's tokens", "1 value", [], None, "your code adds to the caller's object"),
    ("the caller's known[1]", [7], [7, 8], None, "the caller's object must not change"),  # it may be sorted
    ("pages", "page 7 is lost", ALL_RIGHT, ALL_RIGHT, None),
    ("lost pages", [7], [], [], "this value should be empty"),
    ("the caller's pages", "the same list as pool.stack[2]", [1], None, "the caller may change its object"),
]


@pytest.mark.parametrize("said", ABOUT)
def test_the_hint_about_an_error_of_pythons_is_about_that_error(said):
    kind, hint_about = ABOUT[said]
    found = about_difference(find_piece("3.3"), {}, Difference((), 0, "", "", None, None, error=kind(said)))
    assert hint_about in found if hint_about else found is None


@pytest.mark.parametrize(("path", "mine", "right", "before", "fact"), SO)
def test_a_hint_about_a_difference_says_only_what_is_so(path, mine, right, before, fact):
    piece = find_piece("3.3")
    seen = [Words(value) if isinstance(value, str) else value for value in (mine, right, before)]
    found = about_difference(piece, reference_world(piece), Difference((), 0, "", path, *seen))
    assert found.startswith(f": {fact}") if fact else found is None


KEEPS = """
def next_uses(requests, later={}):
    found = []
    for number in reversed(range(len(requests))):
        found.append([later.get(block, len(requests)) for block in requests[number]])
        later.update(dict.fromkeys(requests[number], number))
    later[6] = 7  # so that a case that passed does not pass again by chance
    return found[::-1]
"""


def test_what_an_answer_keeps_from_one_call_to_the_next_is_said(tmp_path, file, capsys):
    Notebook(tmp_path, 13).answer(find_piece("13.2"), KEEPS)
    assert "  Hint: a case that passed before fails now" in capsys.readouterr().out


def test_an_answer_that_calls_itself_for_each_slot_does_not_get_through_a_long_path(tmp_path, capsys):
    body = """if all(slot in window_of for slot in slots[-window:]):
        return len(slots)
    return valid_length(slots[:-1], window_of, window)"""
    piece = find_piece("12.1")
    Notebook(tmp_path, 12).answer(piece, stub(piece).replace("raise NotImplementedError", body))
    said = capsys.readouterr().out
    assert said.startswith("✗ 12.1 valid_length: valid_length([7, 3, 4")
    assert "this case needs 2,000" in said


def test_the_hint_about_an_error_is_not_given_for_another_error_of_its_kind():
    piece = find_piece("10.3")
    (deque,) = (wrong for wrong in piece.wrong if "deque" in wrong.mistake)
    hints = []
    for name in ("append", "push"):
        world = reference_world(piece)
        section = deque.section._replace(text=deque.section.text.replace(".append(", f".{name}("))
        world.update(run_section(section, world, "<wrong>"))
        mistake = mistake_in(piece, world, piece.cases[0])
        hints.append(mistake.wrong.hint if mistake and mistake.is_all else None)
    assert hints == [deque.hint, None]


def own(id, *pairs):
    """Our answer to a piece, with other words in it."""
    text = find_piece(id).solution
    for old, new in pairs:
        assert old in text
        text = text.replace(old, new)
    return text


def test_a_hint_survives_an_error_in_the_learners_own_words(tmp_path, capsys):
    notebook = Notebook(tmp_path, 4)
    notebook.answer(
        find_piece("2.1"), own("2.1", ('f"pages needed: {count}, free: {len(pool.stack)}"', 'f"want {count}"'))
    )
    late = (("found = cache.acquire(", "found = cache.match_prefix("), ("        cache.unlock(found)\n", ""))
    notebook.answer(
        find_piece("4.6"), own("4.6", *late, ("    return found,", "    cache.lock(found)\n    return found,"))
    )
    assert "lock it before you make room" in capsys.readouterr().out


def test_what_an_accepted_piece_prints_is_not_said_of_the_next(tmp_path, capsys):
    notebook = Notebook(tmp_path, 5)
    notebook.answer(
        find_piece("5.1"), own("5.1", ("    last = ring.older", "    print('linking')\n    last = ring.older"))
    )
    for also in ("", "print('touching'); "):
        notebook.answer(find_piece("5.3"), f"def touch(ring, node):\n    {also}link(ring, node)")
        said = capsys.readouterr().out.split("✗ 5.3", 1)[1]
        assert "linking" not in said
        assert ("It printed: touching" in said) == bool(also)


def test_a_cell_that_fails_names_the_pieces_it_may_come_from(tmp_path, capsys):
    notebook = Notebook(tmp_path, 3)
    for id in ("3.4", "3.5"):
        notebook.answer(find_piece(id), find_piece(id).solution)
    capsys.readouterr()
    cells = {
        "insert(None, [1], [2])": "This error came through your own pieces: 3.4 walk, 3.5 insert.",
        "split(None, 1)": "Your own pieces run here: 3.4 walk, 3.5 insert.",
        "assert 1 == 2": "Your own pieces run here: 3.4 walk, 3.5 insert.",
        "1 / 0": "",
        "pass": "",
    }
    for cell, expected in cells.items():
        error = None
        try:
            notebook.run(cell)
        except Exception as raised:
            error = raised
        name_pieces(types.SimpleNamespace(error_in_exec=error))
        said = capsys.readouterr().out
        assert said.startswith(expected) if expected else not said


@pytest.mark.parametrize(
    ("id", "change", "said"),
    [
        ("2.1", ("raise MemoryError", "return MemoryError"),
         " returns a MemoryError that is not raised; expected: a MemoryError\n"),
        ("2.1", ("raise MemoryError", "raise KeyError"),
         "raised KeyError ('pages needed: 3, free: 2'), in your line `raise KeyError(f\"pages needed: {count}, "
         "free: {len(pool.stack)}\")`; expected: a MemoryError\n"),
        ("2.2", ("return page", "return None"), "guard(pool, [-1]) returns None; expected: -1\n"),
    ],
)  # fmt: skip
def test_what_was_expected_is_said_as_it_is(id, change, said, notebook, capsys):
    notebook.answer(find_piece(id), own(id, change))
    assert said in capsys.readouterr().out


def test_an_answer_that_calls_itself_for_each_node_is_told_to_use_a_loop(tmp_path, capsys):
    Notebook(tmp_path, 4).answer(
        find_piece("4.1"),
        "def lock(cache, node):\n    if node.parent is not None:\n        node.locks += 1\n"
        "        if node.locks == 1:\n            cache.protect(node)\n        lock(cache, node.parent)",
    )
    assert "  Hint: use a loop: Python allows about 1,000 nested calls" in capsys.readouterr().out


@each_piece
def test_a_piece_has_a_ladder_of_hints_and_hints_that_differ(piece):
    assert 2 <= len(piece.hints) <= 4
    known = [wrong.hint for wrong in piece.wrong]
    assert len(known) >= 3
    assert all(known)
    assert len(set(known)) == len(known)


@each_piece
def test_a_stub_is_not_attempted_and_ours_runs(piece, notebook, capsys):
    notebook.answer(piece, stub(piece))
    said = capsys.readouterr().out
    goes_on = "The chapter continues with the package's version."
    assert said == f"□ {piece.id} {piece.name}: not attempted yet. {goes_on}\n"
    assert notebook.names[piece.name].__code__ == ours(piece.id, {}).__code__


def stub(piece):
    definition = ast.parse(piece.solution).body[-1]
    head = piece.solution[: piece.solution.index(":\n") + 1].strip().splitlines()[-1]
    return f'{head}\n    """{ast.get_docstring(definition)}"""\n    raise NotImplementedError'


ENDINGS = {
    "    return 1 / 0": "raised ZeroDivisionError (division by zero), in your line `return 1 / 0`",
    "    return nothing_like_it": "run the cells above first",
    "    print('so far so good')\n    return 1 / 0": "It printed: so far so good",
    "    raise NotImplementedError\n    return 1": "delete the line `raise NotImplementedError`; your code",
    "    raise SystemExit": "SystemExit",
}


@each_piece
def test_whatever_an_answer_does_is_said(piece, notebook, capsys):
    for body, said in ENDINGS.items():
        notebook.answer(piece, f"def {piece.name}(*args, **more):\n{body}")
        out = capsys.readouterr().out
        assert out.startswith(f"✗ {piece.id} {piece.name}: ")
        assert said in out
        assert out.count("\n") <= 4


@pytest.mark.parametrize("size", [1, 2, 3])
def test_exercise_6_2_takes_as_few_moves_as_a_search_over_all_orders_finds(size):
    """Breadth first over what may lie in the slots and the spare one, for every copy within so many slots."""
    for targets in itertools.chain.from_iterable(itertools.combinations(range(size), n) for n in range(size + 1)):
        for sources in itertools.product(range(size), repeat=len(targets)):
            wanted = {**{slot: slot for slot in range(size)}, **dict(zip(targets, sources))}
            goal, states, moves = tuple(wanted[slot] for slot in range(size)), {(*range(size), None)}, 0
            while not any(state[:size] == goal for state in states):
                states = {
                    (*state[:to], state[at], *state[to + 1 :])
                    for state in states
                    for at in range(size + 1)
                    for to in range(size + 1)
                }
                moves += 1
            assert len(find_exercise("6.5").reference(sources, targets)) == moves, (sources, targets)


def test_a_loop_without_an_end_ends(notebook, capsys, monkeypatch):
    monkeypatch.setattr("minikv.testing.attempt.MOST_SECONDS", 0.3)
    notebook.answer(find_piece("3.4"), "def walk(root, tokens):\n    while True:\n        pass")
    assert "Stopped after 3 seconds. Does each pass" in capsys.readouterr().out


@pytest.mark.parametrize("answer", [None, 5, "split"])
def test_what_is_not_a_function_is_said_to_be_none(answer, capsys):
    check("3.3 split", answer)
    assert 'Pass the function itself: check("3.3 split", split)' in capsys.readouterr().out


def test_what_is_in_an_array_of_objects_or_in_a_set_is_looked_at():
    """Not compared by its own `__eq__`, which may say yes to all or raise."""
    rows = np.empty(2, dtype=object)
    rows[0] = rows[1] = np.array([1, 2])
    assert Observer().look({"rows": rows})["rows[0]"] == [1, 2]
    assert Observer().look({"set": {np.int64(1)}}) == Observer().look({"set": {1}})


SEARCHING = {
    "12.1": """def valid_length(slots, window_of, window):
    for length in range(len(slots), 0, -1):
        last = slots[max(0, length - window) : length]
        if all(slot in window_of for slot in reversed(last)):
            return length
    return 0
""",
    "2.2": """
def guard(pool, pages):
    seen = set()
    for page in pages:
        if page in seen or not 0 <= page < pool.size or page in pool.stack:
            return page
        seen.add(page)
    return None
""",
    "3.1": """
def common(a, b):
    length = 0
    while length < min(len(a), len(b)) and a[: length + 1] == b[: length + 1]:
        length += 1
    return length
""",
    "3.4": """
def walk(root, tokens):
    node, at = root, 0
    while at < len(tokens):
        for first, child in node.children.items():
            if first == tokens[at]:
                break
        else:
            return node, at
        same = common(child.tokens, tokens[at:])
        at += same
        if same < len(child.tokens):
            return split(child, same), at
        node = child
    return node, at
""",
    "4.3": """
def recount(root):
    sizes, nodes = [0, 0], list(root.children.values())
    while nodes:
        node = nodes.pop(0)
        nodes = nodes + list(node.children.values())
        sizes[node.locks > 0] += len(node.tokens)
    return tuple(sizes)
""",
    "5.1": """
def link(ring, node):
    last = ring
    while last.newer is not ring:
        last = last.newer
    last.newer, node.older = node, last
    node.newer, ring.older = ring, node
""",
    "5.2": """
def unlink(node):
    before = node
    while before.newer is not node:
        before = before.newer
    before.newer, node.newer.older = node.newer, before
    node.older = node.newer = node
""",
    "5.3": """
def touch(ring, node):
    while node.parent is not None:
        if node.locks == 0:
            if node in list(in_order(ring)):
                unlink(node)
            link(ring, node)
        node = node.parent
""",
    "5.4": """
def evict(cache, num_pages):
    freed = []
    while len(freed) < num_pages and cache.evictable:
        leaves = [node for node in cache.nodes() if not node.children and not node.locks]
        leaf = cache.ring.newer
        while leaf not in leaves:
            leaf = leaf.newer
        unlink(leaf)
        del leaf.parent.children[leaf.tokens[0]]
        cache.evictable -= len(leaf.tokens)
        freed += leaf.slots
    return freed
""",
    "5.5": """
def out_of_order(ring):
    passed = []
    for node in in_order(ring):
        if any(child not in passed for child in node.children.values()):
            return node
        passed.append(node)
    return None
""",
    "3.8": """def pages_of(tokens, size):
    found, rest = [], list(tokens)
    while len(rest) >= size:
        found.append(tuple(rest[:size]))
        del rest[:size]
    return found
""",
    "3.6": """def match(root, tokens):
    end, parts = walk(root, tokens)[0], []
    node = end
    while node.parent is not None:
        parts.append(node.slots)
        node = node.parent
    return end, sum(reversed(parts), [])
""",
    "2.3": """def free(pool, pages):
    if guard(pool, pages) is not None:
        raise ValueError("not yours")
    for page in pages:
        pool.in_use[page] = False
    pool.stack[:] = [*pool.stack, *reversed(pages)]
""",
}
# What is slow in a large case for no other reason than that it is written in another way.
OTHERWISE = {
    "2.1": """def alloc(pool, count):
    assert isinstance(pool, Pool)
    if count > len(pool.stack):
        raise MemoryError
    if count == 0:
        return []
    page = pool.stack.pop()
    pool.in_use[page] = True
    return [page, *alloc(pool, count - 1)]
""",
    "10.4": """def seed_of(lora, salt):
    parts = []
    for value in (lora, salt):
        letters = [letter.encode("utf-8", "surrogatepass") for letter in value or ""]
        data = b"".join(letters)
        size = len(data).to_bytes(8, "big")
        parts.append((b"0" if value is None else b"1") + size + data)
    return b"".join(parts)
""",
}


@pytest.mark.parametrize("number", OTHERWISE)
def test_an_answer_that_is_only_written_in_another_way_is_not_too_slow(number, notebook, capsys):
    notebook.answer(find_piece(number), OTHERWISE[number])
    assert capsys.readouterr().out.startswith(f"✓ {number} ")


@pytest.mark.parametrize("number", SEARCHING)
def test_an_answer_that_searches_where_it_must_not_does_not_pass(number, notebook, capsys):
    piece = find_piece(number)
    notebook.answer(piece, SEARCHING[number])
    said = capsys.readouterr().out
    assert said.startswith(f"✗ {number} {piece.name}: correct, but too slow: ")
    assert piece.cost.unit in said


def last_of_film(number, mistake=""):
    """The caption and the text of the last step of the film of a wrong answer: the first whose name has `mistake`."""
    piece = find_piece(number) or find_exercise(number)
    world = reference_world(piece)
    wrong = next(wrong for wrong in piece.wrong if mistake in wrong.mistake)
    world.update(run_section(wrong.section, world, "<wrong>"))
    caption, picture = both_films(piece, world, judge(piece, world))[-1]
    assert picture.svg
    return caption, picture.text.splitlines()


def test_the_film_of_a_manager_shows_the_rows_where_they_part():
    caption, lines = last_of_film("7.1")
    assert caption == "manager.checkpoint(request 2)"
    rows = re.findall(r"row 1 +(.+)", "\n".join(lines))
    assert [row.split() for row in rows] == [["2", "3", "12", "13", "4"], ["8l", "9l", "0l", "1l", "4"]]


@pytest.mark.parametrize(
    ("number", "mistake", "caption", "lines"),
    [
        (
            "5.2", "keeps its neighbors", "unlink([1] in slot 83)",
            ["yours:", "newer      ring → ring", "older      ring → ring",
             "[1] newer  [1] → ring", "[1] older  [1] → ring",
             "expected:", "newer      ring → ring", "older      ring → ring",
             "[1] newer  [1] → [1]", "[1] older  [1] → [1]"],
        ),
        (
            "6.1", "sorted in the end", "runs([4, 5, 6, 1])",
            ["yours:", "slots  4  5  6  1", "run 1  1", "run 2  4  5  6",
             "expected:", "slots  4  5  6  1", "run 1  4  5  6", "run 2  1"],
        ),
        (
            "6.5", "one of two directions", "moves([0, 1], [1, 0])",
            ["yours:", "          0  1", "at first  a  b", "1 to 0    b  b", "0 to 1    b  b",
             "expected:", "            0      1      spare", "at first    a      b      -",
             "1 to spare  a      b      b", "0 to 1      a      a      b", "spare to 0  b      a      b"],
        ),
    ],
)  # fmt: skip
def test_the_film_of_links_runs_and_moves_shows_all_of_both_sides(number, mistake, caption, lines):
    found, shown = last_of_film(number, mistake)
    assert found == caption
    assert [line.split() for line in shown] == [line.split() for line in lines]


@pytest.mark.parametrize(
    ("number", "mistake", "yours", "expected"),
    [
        ("8.1", "hides nothing", "token 0 in head 0  .63  .37", "token 0 in head 0  1    -"),
        ("8.3", "in the order of the list", "[0] reads    nnnnnnnn.", "[0] reads    nnnnnnn.."),
    ],
)
def test_the_film_of_a_step_shows_yours_beside_the_expected(number, mistake, yours, expected):
    _, lines = last_of_film(number, mistake)
    assert lines.index("yours:") < lines.index(yours) < lines.index("expected:") < lines.index(expected)


# -- what runs ------------------------------------------------------------------------------------------------------

MY_SPLIT = '''
def hang(child, parent):
    child.parent = parent
    parent.children[child.tokens[0]] = child


# mine
def split(node, at):
    """My own way."""
    upper = Node(node.tokens[:at], node.slots[:at])
    hang(upper, node.parent)
    node.tokens, node.slots = node.tokens[at:], node.slots[at:]
    hang(node, upper)
    return upper
'''
WRONG_SPLIT = "def split(node, at):\n    return node"


def test_what_is_right_runs_in_objects_that_are_there_already(notebook):
    notebook.run("class Tree:\n    def ask(self):\n        return split")
    notebook.run("tree = Tree()")
    notebook.answer(find_piece("3.3"), MY_SPLIT)
    assert notebook.names["tree"].ask().__doc__ == "My own way."


def test_what_was_right_runs_on_when_a_later_edit_is_wrong_or_empty(notebook, capsys):
    notebook.answer(find_piece("3.3"), MY_SPLIT)
    for text in (WRONG_SPLIT, stub(find_piece("3.3"))):
        notebook.answer(find_piece("3.3"), text)
        assert notebook.names["split"].__doc__ == "My own way."
    said = capsys.readouterr().out
    assert said.count("Your earlier version, which passed, stays in use.") == 2


def test_a_wrong_piece_does_not_make_another_wrong(notebook, capsys):
    notebook.answer(find_piece("3.3"), WRONG_SPLIT)
    notebook.run("def walk(root, tokens):\n    return 1 / 0")
    capsys.readouterr()
    notebook.answer(find_piece("3.5"), find_piece("3.5").solution)
    assert capsys.readouterr().out.startswith("✓ 3.5 insert")


def test_ours_calls_the_learners_other_pieces(notebook):
    notebook.answer(find_piece("3.3"), MY_SPLIT)
    root = notebook.names["Node"]([], [])
    for prompt in ([1, 2], [1, 3]):
        notebook.names["insert"](root, prompt, [0, 1])
    assert notebook.names["insert"].__globals__["split"].__doc__ == "My own way."


def test_a_session_begins_anew(notebook, tmp_path):
    notebook.answer(find_piece("3.3"), MY_SPLIT)
    fresh = Notebook(tmp_path, chapter=3)
    assert fresh.names["split"].__code__ == ours("3.3", {}).__code__


# -- the last failing answer ------------------------------------------------------------------------------------------

WRONG_SPLIT = """# a first try
def half(run, at):
    return run[:at]


def split(node, at):

    node.tokens = half(node.tokens, at)
    return node
"""


def failed_in(file):
    return failed_sections(file.read_text("utf-8"))


def test_the_last_failing_answer_stands_in_the_file_as_a_comment_until_one_passes(file, notebook, capsys):
    first, second = find_piece("3.3"), find_piece("3.4")
    notebook.answer(first, "def split(node, at):\n    return node")
    notebook.answer(second, "def walk(root, tokens):\n    return root, 0")
    notebook.answer(first, WRONG_SPLIT)
    failed = failed_in(file)
    assert list(failed) == ["3.3", "3.4"]
    assert "def half(run, at):" in failed["3.3"]
    assert failed["3.3"].endswith("def split(node, at):\n\n    node.tokens = half(node.tokens, at)\n    return node")
    names = load_file(file.read_text("utf-8"))
    assert "half" not in names
    assert names["split"].__code__ == ours("4.4", {}).__code__
    assert kept_sections(file.read_text("utf-8")) == {}

    notebook.answer(first, MY_SPLIT)
    assert set(kept_sections(file.read_text("utf-8"))) == {"3.3"}
    assert list(failed_in(file)) == ["3.4"]
    before = file.read_text("utf-8")
    notebook.answer(first, WRONG_SPLIT)  # the one that passed stays
    assert file.read_text("utf-8") == before
    notebook.answer(second, second.solution)
    assert failed_in(file) == {}
    assert file.read_text("utf-8") == assembled(kept_sections(file.read_text("utf-8")))
    assert "saved in" not in capsys.readouterr().out  # a failing answer that is replaced is nobody's loss


def test_what_is_no_attempt_is_not_kept(file, notebook):
    for text in ("def split(node, at):\n    raise NotImplementedError", "split = 7", "split = None"):
        notebook.answer(find_piece("3.3"), text)
    assert not file.exists()


def test_a_failing_answer_that_was_made_code_again_is_the_learners(file, notebook, capsys):
    """It is no comment any more: the next version of the file leaves it out, and the old version is kept."""
    notebook.answer(find_piece("3.3"), WRONG_SPLIT)
    text = file.read_text("utf-8").replace("# def", "def").replace("#     ", "    ")
    assert text.count("\ndef ") == 2
    file.write_text(text, "utf-8")
    assert failed_in(file) == {}
    capsys.readouterr()
    notebook.answer(find_piece("3.4"), find_piece("3.4").solution)
    assert "Your previous version is saved in my_minikv_older/my_minikv_1.py" in capsys.readouterr().out
    assert (file.parent / "my_minikv_older" / "my_minikv_1.py").read_text("utf-8") == text


def test_what_the_learner_writes_below_a_failing_answer_stays(file, notebook):
    """A failing answer ends at its last line, and that is found at once, however many signs of a comment it has."""
    banner = f"# {'#' * 200}\n"
    notebook.answer(find_piece("3.3"), banner * 50 + WRONG_SPLIT)
    file.write_text(file.read_text("utf-8") + "# MY NOTES\nprint(1)\n", "utf-8")
    notebook.answer(find_piece("3.3"), banner * 50 + WRONG_SPLIT.replace("[:at]", "[at:]"))
    text = file.read_text("utf-8")
    assert "# MY NOTES\nprint(1)\n" in text
    assert text.count("my last failing answer") == 1
    assert "[at:]" in failed_in(file)["3.3"]
    assert len(failed_sections("#\n" * 10**5 + text)) == 1  # line by line: a slow look would take minutes


def test_a_right_answer_that_cannot_be_kept_takes_the_failing_one_out(file, notebook, capsys):
    notebook.answer(find_piece("3.3"), WRONG_SPLIT)
    notebook.run("seen = []")
    notebook.answer(find_piece("3.3"), MY_SPLIT.replace("    hang(upper", "    len(seen)\n    hang(upper"))
    assert "Not saved yet" in capsys.readouterr().out
    assert failed_in(file) == {}


def test_a_failing_answer_with_much_data_is_left_out(file, notebook):
    notebook.run("book = 'x' * 10**6")
    notebook.answer(find_piece("3.3"), "def split(node, at):\n    return book")
    assert not file.exists()


@given(st.text("# %e\n\r\t\f\u2028\x85'\"\\ ", max_size=30), st.sampled_from(["\n", "\r\n"]))
def test_no_answer_escapes_from_its_comment(text, end):
    """Whatever characters are in it, as in a text of several lines, nothing of it runs or begins a section."""
    own = f"x = {text}"
    file = _with_failed(assembled({}), {"3.3": own, "3.4": "def walk(): ..."}).replace("\n", end)
    assert ast.dump(ast.parse(file)) == ast.dump(ast.parse(assembled({})))
    begins_a_section = any(line.startswith("%%") for line in lines_of(own))
    expected = {"3.4": "def walk(): ..."} if begins_a_section else {"3.3": own, "3.4": "def walk(): ..."}
    assert failed_sections(file) == {id: "\n".join(lines_of(each)) for id, each in expected.items()}
    assert _with_failed(assembled({}), failed_sections(file)) == file.replace("\r\n", "\n")


# -- the learner's file ---------------------------------------------------------------------------------------------


def test_a_session_has_no_class_that_needs_pieces_of_a_later_chapter(tmp_path):
    """Where a cell runs before its imports, `RadixCache` is unknown, and not an engine with parts missing."""
    for chapter, known in ((1, set()), (3, {"Pool", "Node"}), (4, {"Pool", "Node", "RadixCache", "Ring"})):
        assert {"Pool", "Node", "RadixCache", "Ring"} & set(Notebook(tmp_path, chapter).names) == known


def test_what_is_right_is_kept_with_all_that_it_needs(file, notebook):
    notebook.run("import itertools as it\n\nFEW = 3")
    text = MY_SPLIT.replace("    hang(upper", "    assert FEW < 4 and it.count\n    hang(upper")
    notebook.answer(find_piece("3.3"), text)
    kept = kept_sections(file.read_text("utf-8"))
    assert set(kept) == {"3.3"}
    for part in ("import itertools as it", "FEW = 3", "def hang(child, parent)", "# mine\ndef split"):
        assert part in kept["3.3"]
    names = load_file(file.read_text("utf-8"))
    assert names["insert"](names["Node"]([], []), [1, 2], [0, 1])[1] == 0


@pytest.mark.parametrize("number", ["9.3", "11.1"])
def test_a_class_that_the_chapter_gives_is_not_kept_with_a_piece(number, file, tmp_path):
    piece = find_piece(number)
    Notebook(tmp_path, chapter=piece.chapter).answer(piece, piece.solution)
    kept = ast.parse(kept_sections(file.read_text("utf-8"))[number]).body
    assert [statement.name for statement in kept] == [piece.name]


def test_the_next_session_runs_what_is_in_the_file(file, notebook, tmp_path, capsys):
    notebook.answer(find_piece("3.3"), MY_SPLIT)
    fresh = Notebook(tmp_path, chapter=3)
    assert fresh.names["split"].__doc__ == "My own way."
    mine()
    assert "3.3 split           mine\n3.4 walk            the package's" in capsys.readouterr().out


def test_a_piece_of_the_file_that_is_not_right_any_more_is_set_aside(file, notebook, tmp_path, capsys):
    notebook.answer(find_piece("3.3"), MY_SPLIT)
    file.write_text(file.read_text("utf-8").replace("    hang(node, upper)\n", ""), "utf-8")
    before = file.read_text("utf-8")
    capsys.readouterr()
    fresh = Notebook(tmp_path, chapter=3)
    said = capsys.readouterr().out
    assert said.startswith("  Your 3.3 split no longer passes, so the package's version is used for now: ")
    assert said.count("\n") == 1
    assert fresh.names["split"].__code__ == ours("3.3", {}).__code__
    assert file.read_text("utf-8") == before


def test_a_section_that_never_ends_is_set_aside_and_keeps_nothing_else_from_running(
    file, notebook, tmp_path, capsys, monkeypatch
):
    notebook.answer(find_piece("3.3"), MY_SPLIT)
    text = file.read_text("utf-8")
    assert MY_SPLIT.strip() in text
    endless = "never = [number for number in iter(int, 1) if number]"
    file.write_text(text.replace(MY_SPLIT.strip(), f"{MY_SPLIT.strip()}\n\n\n{endless}"), "utf-8")
    capsys.readouterr()
    monkeypatch.setattr("minikv.testing.attempt.MOST_SECONDS", 0.2)
    (tmp_path / "next").mkdir()
    fresh = Notebook(tmp_path / "next", chapter=3)
    said = "Your 3.3 split no longer passes, so the package's version is used for now: TooLong: no result within 0.2"
    assert said in capsys.readouterr().out
    assert fresh.names["split"].__code__ == ours("3.3", {}).__code__
    fresh.answer(find_piece("3.1"), find_piece("3.1").solution)
    said = "Not saved yet: my_minikv.py does not run on its own: TooLong (no result within 0.2 seconds)."
    assert said in capsys.readouterr().out


def test_a_section_that_runs_only_once_is_set_aside(file, notebook, tmp_path, capsys, monkeypatch):
    notebook.answer(find_piece("3.3"), MY_SPLIT)
    monkeypatch.setattr(sys, "runs", 0, raising=False)
    once = "import sys\nsys.runs += 1\n1 / (sys.runs < 2)"
    text = file.read_text("utf-8")
    file.write_text(text.replace(MY_SPLIT.strip(), f"{MY_SPLIT.strip()}\n\n\n{once}"), "utf-8")
    capsys.readouterr()
    fresh = Notebook(tmp_path, chapter=3)
    assert "package's version is used for now: ZeroDivisionError: division by zero" in capsys.readouterr().out
    assert fresh.names["split"].__code__ == ours("3.3", {}).__code__


AGREE = """def pages_of(tokens, size):
    import minikv.course.pieces.observer as observer, minikv.course.pieces.trial as trial
    observer.same = trial.same = lambda *values: True
"""
JUDGE = """def pages_of(tokens, size):
    import minikv.course.pieces.checking as checking
    checking.judge = lambda *args: None
"""


@pytest.mark.parametrize("attack", [AGREE, JUDGE])
def test_an_answer_that_replaces_parts_of_the_judge_is_judged_by_the_old_ones(attack, notebook, capsys):
    for start in (attack, "def pages_of(tokens, size):\n"):
        notebook.answer(find_piece("3.8"), f"{start}    return [7, 7]")
    first, *_, last = [line for line in capsys.readouterr().out.splitlines() if "3.8 pages_of: " in line]
    assert first.startswith("✗ 3.8 pages_of: pages_of([1, 2, 3, 4], 2) returns [7, 7]; expected: ")
    assert last == first


def test_chapters_that_come_later_are_not_listed(file, tmp_path, capsys):
    Notebook(tmp_path, chapter=3)
    for listing, first in ((mine, 1), (progress, 0)):
        listing()
        numbers = {int(number) for number in re.findall(r"\b(\d+)\.\d", capsys.readouterr().out)}
        assert (min(numbers), max(numbers)) == (first, 3)
    progress(5)
    assert capsys.readouterr().out.startswith("chapter 05   □ 5.1 ")
    with pytest.raises(TypeError, match=r"chapters must be a number or several numbers, not 3\.5"):
        progress(3.5)


def test_the_split_of_chapter_03_does_not_replace_the_one_that_keeps_locks(file, notebook, tmp_path):
    notebook.answer(find_piece("3.3"), MY_SPLIT)
    (tmp_path / "next").mkdir()
    fresh = Notebook(tmp_path / "next", chapter=4)
    assert fresh.names["split"].__code__ == ours("4.4", {}).__code__
    assert accepted("3.3", fresh.names).__doc__ == "My own way."
    last = "    hang(node, upper)"
    fresh.answer(find_piece("4.4"), MY_SPLIT.replace(last, f"{last}\n    upper.locks = node.locks"))
    assert set(kept_sections(file.read_text("utf-8"))) == {"3.3", "4.4"}
    for chapter, keeps_locks in ((3, False), (4, True)):
        split = Notebook(tmp_path, chapter).names["split"]
        assert split.__doc__ == "My own way."
        assert ("locks" in split.__code__.co_names) == keeps_locks


def test_a_file_that_is_broken_by_hand_is_named_and_not_overwritten(file, notebook, capsys):
    notebook.answer(find_piece("3.3"), MY_SPLIT)
    broken = file.read_text("utf-8").replace("def hang(child, parent):", "def hang(child, parent:")
    file.write_text(broken, "utf-8")
    notebook.answer(find_piece("3.4"), find_piece("3.4").solution)
    line = broken.splitlines().index("def hang(child, parent:") + 1
    assert f"Not saved yet: line {line} of the file, in section 3.3, has a syntax error: '" in capsys.readouterr().out
    assert file.read_text("utf-8") == broken
    notebook.answer(find_piece("3.3"), MY_SPLIT)
    assert set(kept_sections(file.read_text("utf-8"))) == {"3.3", "3.4"}


def test_what_cannot_be_kept_is_said_in_words(file, notebook, capsys):
    notebook.run("seen = []")
    notebook.answer(find_piece("3.3"), MY_SPLIT.replace("    hang(upper", "    len(seen)\n    hang(upper"))
    said = capsys.readouterr().out.splitlines()
    assert said[0].startswith("✓")
    assert said[1] == "  Not saved yet: it uses `seen`, a list from another cell. Define `seen` in this cell."
    assert not file.exists()


def test_two_pieces_may_not_disagree_about_a_helper(file, notebook, capsys):
    notebook.answer(find_piece("3.3"), MY_SPLIT)
    other = find_piece("3.5").solution.replace("    return", "    hang\n    return")
    again = "def hang(child, parent):\n    child.parent, parent.children[child.tokens[0]] = parent, child"
    notebook.answer(find_piece("3.5"), f"{again}\n\n\n{other}")
    assert "`hang` is also defined in 3.3, differently. Give this one another name" in capsys.readouterr().out


def test_the_marked_line_is_the_same_with_and_without_a_file(file, notebook, capsys, monkeypatch):
    for place in (str(file), "/dev/null"):
        monkeypatch.setenv("MINIKV_MINE", place)
        notebook.answer(find_piece("3.3"), MY_SPLIT)
    first, _, second, _ = capsys.readouterr().out.splitlines()
    assert first == second


def test_a_piece_of_another_name_is_kept_under_its_own(file, notebook):
    notebook.run(MY_SPLIT.replace("def split", "def cut") + '\n\nsplit = check("3.3 split", cut)')
    kept = kept_sections(file.read_text("utf-8"))["3.3"]
    assert "def cut(node, at):" in kept
    assert kept.endswith("split = cut\n")


def test_what_the_learner_wrote_into_the_file_is_never_lost(file, notebook, capsys):
    notebook.answer(find_piece("3.3"), MY_SPLIT)
    ours_line = 'walk = ours("3.4", globals())'
    file.write_text(file.read_text("utf-8").replace(ours_line, "# my notes\n" + ours_line), "utf-8")
    before = file.read_text("utf-8")
    capsys.readouterr()
    notebook.answer(find_piece("3.5"), find_piece("3.5").solution)
    said = "  Your previous version is saved in my_minikv_older/my_minikv_1.py.\n"
    assert said in capsys.readouterr().out
    assert (file.parent / "my_minikv_older" / "my_minikv_1.py").read_text("utf-8") == before
    notebook.answer(find_piece("3.6"), find_piece("3.6").solution)
    assert len(list((file.parent / "my_minikv_older").iterdir())) == 1


def test_on_colab_the_first_right_piece_says_how_to_keep_the_file(file, notebook, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "google.colab", types.ModuleType("google.colab"))
    notebook.answer(find_piece("3.3"), MY_SPLIT)
    mark, _, said = capsys.readouterr().out.splitlines()
    assert mark.startswith("✓")
    assert 'mine("download") saves your my_minikv.py' in said
    notebook.answer(find_piece("3.5"), find_piece("3.5").solution)
    assert len(capsys.readouterr().out.splitlines()) == 2


def test_two_right_answers_by_turns_are_kept_once_each(file, notebook, capsys):
    other = MY_SPLIT.replace("hang(", "put_under(")
    for text in (MY_SPLIT, other, MY_SPLIT, other, MY_SPLIT):
        notebook.answer(find_piece("3.3"), text)
    assert len(list((file.parent / "my_minikv_older").iterdir())) == 2


def test_the_five_newest_versions_of_the_file_are_kept(file, notebook):
    for number in range(8):
        notebook.answer(find_piece("3.3"), MY_SPLIT.replace("My own way.", f"My way {number}."))
    kept = sorted(path.name for path in (file.parent / "my_minikv_older").iterdir())
    assert kept == [f"my_minikv_{number}.py" for number in (3, 4, 5, 6, 7)]


@pytest.mark.parametrize("number", ["2.1", "5.1"])
def test_a_piece_that_classes_call_is_set_aside_as_well(number, file, notebook, tmp_path, capsys):
    piece = find_piece(number)
    notebook.answer(piece, piece.solution)
    text = file.read_text("utf-8")
    first = piece.solution.splitlines(True)[2]
    file.write_text(text.replace(first, f"    return None\n{first}", 1), "utf-8")
    capsys.readouterr()
    Notebook(tmp_path, chapter=7)
    assert capsys.readouterr().out.startswith(f"  Your {number} {piece.name} no longer passes")


def test_a_section_that_exits_is_set_aside(file, notebook, tmp_path, capsys):
    notebook.answer(find_piece("3.3"), MY_SPLIT)
    file.write_text(file.read_text("utf-8").replace("def hang", "raise SystemExit\ndef hang"), "utf-8")
    Notebook(tmp_path, chapter=3)
    assert "the package's version is used for now: SystemExit" in capsys.readouterr().out


def test_a_section_that_no_longer_defines_its_piece_is_set_aside(file, notebook, tmp_path, capsys):
    notebook.answer(find_piece("3.3"), MY_SPLIT)
    file.write_text(file.read_text("utf-8").replace("def split", "def cut"), "utf-8")
    Notebook(tmp_path, chapter=3)
    mine()
    said = capsys.readouterr().out
    assert "used for now: NotKeptError: its section does not define `split`" in said
    assert "3.3 split           mine, but it no longer passes" in said


def test_what_stands_above_the_first_section_is_never_lost(file, notebook, capsys):
    for number, precious in enumerate(("import secret  # no section at all\n", "import mine_too\n"), start=1):
        before = precious + (file.read_text("utf-8") if file.exists() else "")
        file.write_text(before, "utf-8")
        notebook.answer(find_piece("3.3"), MY_SPLIT)
        kept = f"my_minikv_older/my_minikv_{number}.py"
        assert f"is saved in {kept}" in capsys.readouterr().out
        assert (file.parent / kept).read_text("utf-8") == before


def test_line_ends_and_a_byte_order_mark_are_no_change(file, notebook, capsys):
    notebook.answer(find_piece("3.3"), MY_SPLIT)
    text = file.read_text("utf-8")
    file.write_bytes(text.replace("\n", "\r\n").encode("utf-8-sig"))
    notebook.answer(find_piece("3.3"), MY_SPLIT)
    assert file.read_text("utf-8") == text
    assert "is saved in" not in capsys.readouterr().out


def test_a_piece_that_stands_before_those_of_chapter_08_runs_again(file, notebook, tmp_path, capsys):
    pytest.importorskip("torch")
    notebook.answer(find_piece("7.2"), find_piece("7.2").solution)
    notebook.answer(find_piece("8.1"), find_piece("8.1").solution)
    Notebook(tmp_path, chapter=7)
    *said, last = capsys.readouterr().out.splitlines()
    assert [line[0] for line in said] == ["✓", " "] * 2
    assert last == "From your my_minikv.py: truncate. The other pieces are the package's."
    assert "SlotAttention" in load_file(file.read_text("utf-8"))


@pytest.mark.parametrize(
    ("earlier", "cell", "use", "kept"),
    [
        ("", "x = 1\nx = x + 1", "assert x == 2", "x = 1\nx = x + 1\n"),
        ("", "x = 1\nx += 1", "assert x == 2", "x = 1\nx += 1\n"),
        ("", "def sorted(a):\n    return 7", "assert sorted(0) == 7", "def sorted(a):"),
        ("def sorted(a):\n    return 7", "", "assert sorted(0) == 7", "def sorted(a):"),
        ("", "x = (7\n % 4)", "assert x == 3", "x = (7\n % 4)\n"),
        ("import functools as ft\n@ft.cache\ndef f(a):\n    return a", "", "assert f(7) == 7", "@ft.cache\ndef f(a):"),
        ("", "x = '\x0c'\ny = 7", "assert y == 7", "y = 7\n"),
    ],
)  # fmt: skip
def test_what_an_answer_needs_is_kept_in_whatever_way_it_is_made(earlier, cell, use, kept, file, notebook, capsys):
    notebook.run(earlier)
    notebook.answer(find_piece("3.3"), f"{cell}\n" + MY_SPLIT.replace("    hang(upper", f"    {use}\n    hang(upper"))
    assert len(capsys.readouterr().out.splitlines()) == 2
    assert kept in kept_sections(file.read_text("utf-8"))["3.3"]
    notebook.answer(find_piece("3.5"), find_piece("3.5").solution)
    assert kept in kept_sections(file.read_text("utf-8"))["3.3"]


@pytest.mark.parametrize(
    ("earlier", "use", "said"),
    [
        ("from collections import Counter\nup = Counter.update", "up", "the source of `up` was not found"),
        ("big = float('inf')", "big", "it uses `big`, a float from another cell"),
        ("x = 1\ndel x\nif True:\n    x = 1\n", "# %% 3.4 walk\n    x", "a line of 3.3 starts with `# %%`"),
    ],
)
def test_a_right_answer_that_cannot_be_kept_is_right(earlier, use, said, file, notebook, capsys):
    notebook.run(earlier)
    text = MY_SPLIT.replace("    hang(upper", f"    {use}\n    hang(upper").replace("    # %%", "# %%")
    notebook.answer(find_piece("3.3"), text)
    first, second, _ = capsys.readouterr().out.splitlines()
    assert first.startswith("✓")
    assert said in second
    assert not file.exists()


def test_a_file_that_does_not_run_by_itself_is_not_written(file, notebook, capsys):
    notebook.answer(
        find_piece("3.3"),
        "if True:\n    bad = 1\nworse = [bad]\ndel bad\n"
        + MY_SPLIT.replace("    hang(upper", "    worse\n    hang(upper"),
    )
    first, second, _ = capsys.readouterr().out.splitlines()
    assert first.startswith("✓")
    assert second.endswith("my_minikv.py does not run on its own: NameError (name 'bad' is not defined).")
    assert not file.exists()


def test_an_older_answer_that_waited_does_not_replace_a_newer_one(file, notebook, capsys):
    other = "def hang(node):\n    return node\n\n\n" + find_piece("3.5").solution.replace(
        "return node", "return hang(node)"
    )
    notebook.answer(find_piece("3.5"), other)
    notebook.answer(find_piece("3.3"), MY_SPLIT)
    assert "`hang` is also defined in 3.3" in capsys.readouterr().out
    for number in ("3.3", "3.5"):
        notebook.answer(find_piece(number), find_piece(number).solution)
    assert kept_sections(file.read_text("utf-8"))["3.3"] == find_piece("3.3").solution


# -- hints, solutions, predictions ----------------------------------------------------------------------------------


def test_hints_come_one_after_the_other(notebook, capsys):
    for _ in range(5):
        hint("3.3")
    said = capsys.readouterr().out.splitlines()
    assert [line.split(":")[0] for line in said[:3]] == ["Hint 1 of 3", "Hint 2 of 3", "Hint 3 of 3"]
    assert said[3] == said[4] == 'That was the last hint. solution("3.3") shows the package\'s version.'


@pytest.mark.parametrize("ask", [hint, solution])
def test_a_piece_that_is_not_there_is_named(ask, capsys):
    ask("9.9")
    assert capsys.readouterr().out.startswith("✗ there is no piece '9.9'. Give a number")


@pytest.mark.parametrize("ask", [hint, solution])
def test_a_piece_may_be_named_by_its_name_or_its_function(ask, notebook, capsys):
    for label in ("bytes_per_token", " 1.1 ", 1.1, notebook.names["bytes_per_token"]):
        assert "there is no piece" not in f"{ask(label)}{capsys.readouterr().out}"
    ask("split")
    assert capsys.readouterr().out == "✗ split is a piece in several chapters. Use 3.3 or 4.4.\n"
    ask("0.1 shared_by_all")
    assert capsys.readouterr().out.startswith("0.1 is an exercise. Its hint and solution are folded below it")
    ask()
    assert capsys.readouterr().out.startswith("✗ which piece? Give a number")


def test_a_prediction_is_closed_until_there_is_a_guess(notebook, capsys):
    bundle = fold("3.z", 4)._repr_mimebundle_()
    assert bundle["text/html"].startswith("<details><summary>")
    guess("3.z", "how many?", 4)
    assert fold("3.z", 4)._repr_mimebundle_()["text/html"].startswith("<details open>")
    assert "is correct." in repr(fold("3.z", 4))
    guess("3.z", "how many?", 5)
    assert "Your guess was 5." in repr(fold("3.z", 4))
    progress([])
    for right in ("4", " 4 ", "4.", "4%", "4 %"):
        guess("3.z", "how many?", right)
        assert "is correct." in repr(fold("3.z", 4))
    guess("3.z", "how many?", 5)
    assert "Your guess was 5." in repr(fold("3.z", 4))
    progress([])
    assert "predictions correct: 0 of 1; look again at 3.z" in capsys.readouterr().out


def test_a_prediction_may_be_anything(notebook, capsys):
    for said in ("{[]: 1}", 10**5000, "(" * 100_000, [1, 2], np.array([1, 2]), "a\0"):
        guess("3.z", "how many?", said)
        assert 'Open "Why" below' in repr(fold("3.z", 4))


@pytest.mark.parametrize(
    "said", [(3, 1), ([3, 1],), ((3.0, 1),), ("3, 1",), ("page 3 and page 1",), (np.array([3, 1]),)]
)
def test_a_list_may_be_given_in_any_form(said, notebook, capsys):
    guess("3.z", "which pages? [., .]", *said)
    assert "is correct." in repr(fold("3.z", [3, 1]))
    assert "is correct." not in repr(fold("3.z", [1, 3]))


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ((), "no guess yet. After the question, add your answer in the form [., .], then"),
        (("  ",), "no guess yet. Replace None with"),
        (({3, 1},), "a set can't be a guess. Write a number, a list such as [1, 2], or words"),
        (([len],), "a list can't be a guess"),
    ],
)
def test_what_is_no_prediction_is_said_and_not_compared(value, said, notebook, capsys):
    guess("3.z", "which pages?", [3, 1])
    guess("3.z", "which pages? [., .]", *value)
    assert said in capsys.readouterr().out
    assert repr(fold("3.z", [3, 1])).startswith("3.z, the answer")


@pytest.mark.parametrize(
    ("said", "has"),
    [((3,), 1), ((3, 1, 2), 3), (([3],), 1), (("3",), 1), ("pages", 0), (("3, 1 and 2",), 3), ((np.arange(4),), 4)],
)
def test_a_guess_with_more_or_fewer_values_than_asked_for_is_no_try(said, has, notebook, capsys):
    guess("3.z", "which pages? [first, last]", *([said] if isinstance(said, str) else said))
    assert f"◇ 3.z: the answer has 2 values, [first, last], but your guess has {has}. T" in capsys.readouterr().out
    assert repr(fold("3.z", [3, 1])).startswith("3.z, the answer")
    assert predictions() == (0, 0)
    guess("3.z", "which pages? [., ., ...]", *([said] if isinstance(said, str) else said))
    assert "◆ 3.z: your guess is" in capsys.readouterr().out


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_question_says_how_many_values_its_answer_has(path):
    """Where the answer is a list, the form at the end of the question has as many places, or "..."."""
    text = "\n".join(cell.source for cell in code_cells(load(path)))
    for label, form in re.findall(r'^guess\(\s*"([\w.]+)", "[^"]*(\[[^"]*\])"', text, re.MULTILINE):
        (folded,) = (cell for cell in code_cells(load(path)) if f'fold("{label}"' in cell.source)
        answer = re.search(r"the answer: (.*)", folded.outputs[0]["data"]["text/plain"])[1]
        assert "..." in form or len(ast.literal_eval(answer)) == form.count(",") + 1, label


@pytest.mark.parametrize("said", [4, 4.0, "4", " 4.0", np.int64(4), [4], "4 pages", "about 4", "Four"])
def test_a_number_is_right_in_whatever_form(said, notebook, capsys):
    guess("3.z", "how many?", said)
    assert "is correct." in repr(fold("3.z", 4))


@pytest.mark.parametrize(
    ("said", "answer", "is_right"),
    [
        ((16, 384), 16384, True),  # 16,384 without quotes
        ((16, 0), 16000, True),  # 16,000
        ((1, 250, 0), 1_250_000, True),
        ((-1, 500), -1500.0, True),
        ((16, 384), np.int64(16384), True),
        ((16, 38), 1638, False),
        ((16, 1384), 161384, False),
        ((1600, 384), 1600384, False),
        ((16, "384"), 16384, False),
        ((16, 384), [16, 384], True),
        ((16, 384), [16384], False),
    ],
)
def test_a_number_with_commas_between_its_thousands_is_one_number(said, answer, is_right, notebook, capsys):
    guess("3.z", "how many?", *said)
    verdict = repr(fold("3.z", answer)).splitlines()[0]
    assert verdict.endswith("is correct.") == is_right
    assert ("[" in verdict) == (not is_right or isinstance(answer, list))


@pytest.mark.parametrize(
    ("question", "said"),
    [
        ("which pages?", 'a number, or words in "quotes"'),
        ("which? [., .]", "your answer in the form [., .]"),
        ("[1, 2] or [2, 1]?", 'a number, or words in "quotes"'),
        ("'yes' or 'no'?", '"yes" or "no" (keep the quotes)'),
        ('does Ben\'s turn compute "all", "half" or "none"?', '"all", "half" or "none" (keep the quotes)'),
        ('how many nodes read "a"?', 'a number, or words in "quotes"'),
    ],
)
def test_what_to_put_in_place_of_none_follows_from_the_question(question, said, notebook, capsys):
    guess("3.z", question, None)
    assert f"◇ 3.z: no guess yet. Replace None with {said}, then run the next cell." in capsys.readouterr().out


OFFERED = 'does it compute "a few", "half" or "nearly all" of them?'


@pytest.mark.parametrize(
    ("question", "said", "answer"),
    [
        ("in which order?", "CAB", "C A B"),
        ("in which order?", "c, a, b", "C A B"),
        ("in which order?", ["C", "A", "B"], "C A B"),
        ("whose?", " Anna's. ", "anna's"),
        (OFFERED, "Nearly all!", "nearly all"),
        (OFFERED, "'nearly all' of them", "nearly all"),
    ],
)
def test_a_word_is_right_in_whatever_form(question, said, answer, notebook, capsys):
    guess("3.z", question, said)
    assert "is correct." in repr(fold("3.z", answer))


def test_a_word_that_the_question_does_not_offer_is_no_guess(notebook, capsys):
    guess("3.z", OFFERED, "most")
    assert '\'most\' is not one of the answers to choose from: "a few", "half" or' in capsys.readouterr().out
    assert repr(fold("3.z", "nearly all")).startswith("3.z, the answer")
    guess("3.z", OFFERED, "half")
    assert "Your guess was 'half'. Open \"Why\" below" in repr(fold("3.z", "nearly all"))


def test_a_prediction_counts_once_its_answer_is_seen_and_a_new_one_counts_anew(notebook, capsys):
    for value, seen in ((5, (1, 0)), (None, (0, 0)), (4, (1, 1))):
        guess("3.z", "how many?", value)
        assert predictions() == (0, 0)
        fold("3.z", 4)
        assert predictions() == seen


def miss(label, question="how many?"):
    guess(label, question, 5)
    fold(label, 4)


def test_a_missed_prediction_comes_back_in_later_chapters_until_it_is_right(notebook, capsys):
    miss("3.z", "how many nodes?")
    for chapter, comes_back in ((3, False), (2, False), (4, True)):
        capsys.readouterr()
        begin(chapter, {})
        said = capsys.readouterr().out
        assert ("  3.z how many nodes? You said 5; chapter 03 shows the answer.\n" in said) == comes_back
        assert bool(said) == comes_back
    progress([])
    assert "predictions correct: 0 of 1; look again at 3.z" in capsys.readouterr().out
    guess("3.z", "how many nodes?", 4)
    fold("3.z", 4)
    capsys.readouterr()
    begin(4, {})
    progress([])
    assert capsys.readouterr().out == "0 of 0 solved\npredictions correct: 1 of 1 (3.z on a later try)\n"


def test_a_prediction_that_was_right_at_first_is_told_from_one_that_was_corrected(notebook, capsys):
    for label, values in {"3.w": [4], "3.x": [4, 5, 4], "3.y": [5, None, 4], "3.z": [5, 4, 5]}.items():
        for value in values:
            guess(label, "how many?", value)
            fold(label, 4)
    words = "predictions correct: 3 of 4 (3.y on a later try); look again at 3.z\n"
    capsys.readouterr()
    progress([])
    assert capsys.readouterr().out.endswith(words)
    begin(4, {})
    capsys.readouterr()
    progress([])
    assert capsys.readouterr().out.endswith("predictions correct: 4 of 4 (3.y, 3.z on a later try)\n")


def test_only_a_few_predictions_come_back_at_once(notebook, capsys):
    for letter in "abcde":
        miss(f"2.{letter}")
    capsys.readouterr()
    begin(3, {})
    first, *others = capsys.readouterr().out.splitlines()
    assert first.endswith("progress() lists 2 more.")
    assert [line.split()[0] for line in others] == ["2.a", "2.b", "2.c"]


def test_without_a_record_predictions_count_in_their_session(notebook, capsys, monkeypatch):
    monkeypatch.setenv("MINIKV_PROGRESS", os.devnull)
    miss("3.z")
    assert predictions() == (1, 0)
    begin(4, {})
    assert predictions() == (0, 0)


def test_what_was_asked_and_said_is_stored_in_bounds(notebook, capsys):
    guess("3.z", "why? " * 1000, "because " * 1000)
    fold("3.z", 4)
    capsys.readouterr()
    begin(4, {})
    assert len(capsys.readouterr().out) < 500


# -- guesses that are pressed ----------------------------------------------------------------------------------------


@pytest.fixture
def pressed(notebook, monkeypatch):
    """What is shown where widgets run, as often as something is: the words, the answers offered, and their press."""
    shown = []
    monkeypatch.setattr(guessing, "offer_answers", lambda *parts: shown.append(parts) or True)
    return shown


@pytest.mark.parametrize(
    ("question", "said", "as_typed"),
    [
        ("how many?", "40", 40), ("how many?", " 4.0 ", 4.0), ("how many?", "16,384", (16, 384)),
        ("how many?", "about 4", "about 4"), ("how many?", "'4'", "4"), ("how many?", "{1: 2}", {1: 2}),
        ("how many?", " ", " "), ("how many?", "None", None), ("which? [., .]", "3, 1", (3, 1)),
        ("which? [., .]", "[3]", [3]), ("'1' or '2'?", "1", "1"), ("'yes' or 'no'?", "no", "no"),
        ("how many?", "(" * 1000, "(" * 1000),
    ],
)  # fmt: skip
def test_a_pressed_guess_is_what_it_would_be_in_the_cell(question, said, as_typed, pressed, capsys):
    guess("3.z", question, None)
    ((_, offered, press),) = pressed
    assert (said in offered) == bool(offered)
    found = press(said), repr(session.guesses["3.z"]), repr(fold("3.z", 4))
    session.begin(3)
    guess("3.z", question, as_typed)
    typed = capsys.readouterr().out.rstrip("\n") or pressed[-1][0].replace("Answer below, or replace", "Replace")
    assert found == (typed, repr(session.guesses["3.z"]), repr(fold("3.z", 4)))


def test_each_press_is_a_vote_the_last_one_is_the_guess_and_none_in_the_cell_leaves_it(pressed, capsys):
    guess("3.z", "how many?", None)
    press = pressed[-1][2]
    assert "Votes" not in press("4")
    assert [press(said) for said in ("5", "4", "", "5")][-1].startswith("◆ 3.z: your guess is 5. Votes: 4 ×2, 5 ×2. N")
    guess("3.z", "how many?", None)
    assert pressed[-1][0] == "◆ 3.z: your guess is 5. Votes: 4 ×2, 5 ×2. Now run the next cell."
    assert "Your guess was 5." in repr(fold("3.z", 4))
    guess("3.z", "how many?", 4)
    assert capsys.readouterr().out == "◆ 3.z: your guess is 4. Now run the next cell.\n"
    guess("3.z", "how many?", None)
    assert pressed[-1][0].startswith("◇ 3.z: no guess yet.")
    begin(3, {})
    assert not session.votes


def test_a_refused_press_leaves_the_guess_and_a_new_session_counts_anew(pressed):
    guess("3.z", "how many?", None)
    press = pressed[-1][2]
    press("4")
    assert press("").startswith("◇ 3.z: no guess yet.")
    assert session.guesses["3.z"].said == 4
    begin(3, {})
    press("4"), press("4")
    assert session.votes["3.z"] == {"4": 2}


class Shell:
    """An IPython that writes down what it is given to show."""

    def __init__(self):
        self.shown, self.display_pub = [], self

    def publish(self, data, transient=None, update=False):
        self.shown.append((data.get("text/plain"), (transient or {}).get("display_id"), update))


@pytest.mark.parametrize(("question", "typed", "value"), [("how many?", "4", 4), ("'4' or '5'?", None, "4")])
def test_what_is_pressed_replaces_the_words_that_the_page_keeps(question, typed, value, notebook, monkeypatch):
    shell, rows, row = Shell(), [], ipywidgets.HBox
    monkeypatch.setattr(pressing, "ipython", lambda: shell)
    monkeypatch.setattr(ipywidgets, "HBox", lambda found, **more: rows.append(found) or row(found, **more))
    guess("3.z", question, None)
    (words, name, _), view = shell.shown
    assert (words.startswith("◇ 3.z: no guess yet."), view) == (True, (None, None, False))
    ((first, second),) = rows
    if typed:
        first.value = typed

    async def hear(control, event):
        control._handle_custom_msg({"event": event}, [])
        await asyncio.sleep(0.2)

    asyncio.run(hear(first, "submit" if typed else "click"))
    said = f"◆ 3.z: your guess is {value!r}."
    assert shell.shown[2:] == [(f"{said} Now run the next cell.", name, True)]
    asyncio.run(hear(second if typed else first, "click"))
    assert shell.shown[3:] == [(f"{said} Votes: {value!r} ×2. Now run the next cell.", name, True)]
    assert session.guesses["3.z"].said == value


def test_where_there_are_no_widgets_a_guess_prints(notebook, monkeypatch, capsys):
    shell = Shell()
    monkeypatch.setattr(pressing, "ipython", lambda: shell)
    monkeypatch.setitem(sys.modules, "ipywidgets", None)
    guess("3.z", "how many?", None)
    assert capsys.readouterr().out.startswith("◇ 3.z: no guess yet.")
    assert not shell.shown


def test_a_class_of_the_engine_is_shown_as_it_stands_there(notebook):
    text = "".join(Path(file).read_text("utf-8") for file in engine_files())
    for name in ("Pool", "RadixCache", "Sequence", "CacheManager"):
        shown = str(source(notebook.names[name]))
        assert shown.startswith(f"class {name}")
        assert shown in text


def test_code_is_shown_as_code_in_the_readers_own_theme(notebook):
    shown = source(notebook.names["RadixCache"])
    assert shown._repr_mimebundle_()["text/markdown"] == f"~~~python\n{shown}\n~~~"


# -- the chapters ---------------------------------------------------------------------------------------------------


@each_chapter
def test_each_piece_stands_in_its_chapter_with_its_docstring_and_a_true_count(path):
    """Stub and check share a cell; the stub is what the engine says of the piece."""
    pieces = pieces_of(int(path.stem[:2]))
    cells = [(cell.source, CHECKED.search(cell.source)) for cell in code_cells(load(path))]
    stubs = {found[2]: source for source, found in cells if found}
    assert set(stubs) == {piece.id for piece in pieces}
    for piece in pieces:
        theirs, definition = ast.parse(stubs[piece.id]).body[0], ast.parse(piece.solution).body[-1]
        assert ast.get_docstring(theirs) == ast.get_docstring(definition)
        assert ast.unparse(theirs.args) == ast.unparse(definition.args)
        claimed = int(re.search(r"about (\d+) lines", stubs[piece.id])[1])
        assert abs(claimed - len(body_lines(piece))) <= 1, (piece.id, len(body_lines(piece)))


def body_lines(piece):
    """The lines of our solution without its head, docstring, comments and empty lines."""
    definition = ast.parse(piece.solution).body[-1]
    first = definition.body[1] if ast.get_docstring(definition) else definition.body[0]
    lines = piece.solution.splitlines()[first.lineno - 1 : definition.end_lineno]
    return [line for line in lines if line.strip() and not line.strip().startswith("#")]


@each_chapter
def test_the_name_of_a_piece_is_read_when_it_is_called_and_not_before(path):
    """A class attribute, a default or an alias would go on with ours when the learner's is right."""
    names = {piece.name for piece in pieces_of(int(path.stem[:2]))}
    for cell in code_cells(load(path)):
        for node in ast.walk(ast.parse(cell.source)):
            values = []
            if isinstance(node, ast.ClassDef):
                values = [part.value for part in node.body if isinstance(part, ast.Assign)]
            elif isinstance(node, ast.FunctionDef):
                values = [*node.args.defaults, *filter(None, node.args.kw_defaults)]
            elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Name):
                values = [node.value]
            for value in values:
                assert not names & {part.id for part in ast.walk(value) if isinstance(part, ast.Name)}, cell.source


@each_chapter
def test_no_cell_uses_the_name_of_a_piece_for_something_else(path):
    """The classes call the pieces by name: after `match = cache.match_prefix(...)` in a cell, nothing matches."""
    chapter = int(path.stem[:2])
    names = {piece.name for piece in PIECES if int(piece.id.split(".")[0]) <= chapter}
    for cell in code_cells(load(path)):
        body = ast.parse(CHECKED.sub("", cell.source)).body
        kept = [part for part in body if not isinstance(part, (ast.FunctionDef, ast.ClassDef))]
        stored = {part.id for top in kept for part in ast.walk(top) if isinstance(getattr(part, "ctx", None), ast.Store)
                  and isinstance(part, ast.Name)}  # fmt: skip
        assert not names & stored, cell.source


@each_chapter
def test_the_answer_to_a_prediction_is_behind_a_fold(path):
    """Each guess is followed, in the next code cell that shows something, by its fold, and no output says more."""
    cells = code_cells(load(path))
    asked = [re.search(r'guess\(\s*"([\w.]+)"', cell.source) for cell in cells]
    labels = [found[1] for found in asked if found]
    assert len(labels) >= 3
    assert len(set(labels)) == len(labels)
    for at, found in enumerate(asked):
        if found:
            assert f'"{found[1]}"' in "".join(cell.source for cell in cells[at + 1 : at + 3] if "fold(" in cell.source)
            (folded,) = (cell for cell in cells if f'fold("{found[1]}"' in cell.source.replace("\n    ", ""))
            assert [set(output.get("data", {})) for output in folded.outputs] == [{"text/html", "text/plain"}]
            assert folded.outputs[0]["data"]["text/html"].startswith("<details><summary>")


@each_chapter
def test_why_an_answer_is_so_is_behind_a_fold_too(path):
    """The text right behind a fold would tell the answer to somebody who has not guessed."""
    cells = load(path).cells
    for cell, following in itertools.pairwise(cells):
        if cell.cell_type == "code" and "fold(" in cell.source and following.cell_type == "markdown":
            assert re.match(r"<details>|#{2,4} ", following.source), following.source[:200]


def counted(path):
    """Lines of code under "Build it": the learner's pieces, as they are printed, and all the rest."""
    own = sum(len(body_lines(piece)) + 1 for piece in pieces_of(int(path.stem[:2])))
    others = [cell.source for cell in code_under(load(path), "Build it") if not CHECKED.search(cell.source)]
    lines = [line.strip() for text in others for line in text.splitlines()]
    return own, len([line for line in lines if line and not line.startswith("#")])


def test_much_of_the_code_under_build_it_is_the_learners():
    found = {path.stem: counted(path) for path in WRITTEN if path.stem[:2] != "01"}
    engine = [counts for name, counts in found.items() if int(name[:2]) <= LAST]
    own, others = (sum(counts) for counts in zip(*engine))
    assert own / (own + others) >= SHARE, found
    assert all(own / (own + others) >= 0.3 for own, others in found.values()), found


@each_chapter
def test_no_chapter_prints_a_solution(path):
    text = markdown(load(path))
    for piece in pieces_of(int(path.stem[:2])):
        (head,) = (line for line in piece.solution.splitlines() if line.startswith(f"def {piece.name}("))
        assert head not in text


def test_the_engine_is_in_the_order_of_the_course():
    """But for the two splits: the first has a file of its own, and chapter 04's is in the tree of chapter 03."""
    ids = [section.id for section in engine_sections() if section.id != "given"]
    assert {piece.id for piece in PIECES} <= set(ids)
    assert Path(section_of("4.4").file).stem == "ch03_tree"
    ids = [id for id in ids if id not in ("3.3", "4.4")]
    assert ids == sorted(ids, key=lambda id: [int(part) for part in id.split(".")])

"""The judge of the pieces: what it says and shows of a difference, and what it is safe from."""

import ast
import builtins
import gc
import re
import sys
import types
from collections import OrderedDict
from pathlib import Path

import numpy as np
import pytest
from IPython.core.events import EventManager, available_events
from lesson import SPLIT, WRONG_SPLIT, Notebook, golden, learner, printed_by, rows_of

from minikv.course.pieces import begin, check, hint, mine, progress, solution, source, trial
from minikv.course.pieces.cost import work_of
from minikv.course.pieces.mistakes import about_difference
from minikv.course.pieces.observer import Observer, Words, same
from minikv.course.pieces.piece import find_exercise, find_piece
from minikv.course.pieces.showing import both_films
from minikv.course.pieces.trial import Difference, judge, play_case
from minikv.course.pieces.worlds import reference_world
from minikv.engine import engine_files, run_section
from minikv.testing.attempt import TooLong


@pytest.fixture
def notebook(tmp_path):
    with learner(tmp_path) as found:
        yield found


# -- what it is safe from --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("id", "broken"), [("3.4", "cost.traced"), ("3.1", "trial.cases_for"), ("3.9", "trial.cases_for")]
)
def test_an_error_of_the_judge_refuses_no_answer(id, broken, notebook, monkeypatch):
    monkeypatch.setattr(f"minikv.course.pieces.{broken}", None)
    task = find_piece(id) or find_exercise(id)
    text = task.solution if broken == "cost.traced" else f"def {task.name}(*args):\n    return 7"
    said = notebook.answer(id, text)
    start = f"□ {id} {task.name}: can't be judged because of an error in `check`, not in your code, so "
    assert said.startswith(start)
    answer = notebook.names[task.name]
    assert answer is None if task.reference else answer.__code__.co_filename not in engine_files()


def test_a_case_in_which_nothing_is_asked_refuses_no_answer():
    """Without an edge to cut, ours shows nothing; an answer may end before that."""
    piece, case = find_piece("4.4"), (["0", "00"], [], 0, 0)
    world = reference_world(piece)
    assert not play_case(piece, world, case).frames
    world["split"] = world["insert"] = lambda *_: 1 / 0
    got = play_case(piece, world, case)
    assert got.outcome.error
    assert trial.difference(piece, world, case, got, trial.played_by_us(piece, case)) is None


def test_a_label_may_be_anything():
    for label in (3, None, type("Named", (), {"__name__": 5})()):
        assert printed_by(check, label).startswith("✗ the first argument must be a label")
    for label in ("9.9 nothing", "", "hit_tokens"):
        assert "The exercises are 0.1, 0.2" in printed_by(check, label, len)
    assert printed_by(check, 3, len).startswith("✗ ")


def test_check_puts_nothing_into_a_module_that_the_answer_comes_from(monkeypatch):
    module = types.ModuleType("of_somebody")
    exec("def split(node, at):\n    return node", vars(module))
    monkeypatch.setitem(sys.modules, "of_somebody", module)
    monkeypatch.setitem(sys.modules, "__main__", types.ModuleType("__main__"))
    theirs = module.split
    given = check("3.3 split", theirs)
    assert module.split is theirs is not given
    assert not hasattr(sys.modules["__main__"], "split")  # the cell binds what is returned


ENDLESS = """
from minikv.testing.attempt import TooLong


def walk(root, tokens):
    if root.children:
        raise TooLong
    return root, """


@pytest.mark.parametrize(("length", "waits"), [(1, 1), (7, 2)])
def test_an_answer_that_ends_in_few_cases_only_is_judged_soon(length, waits, notebook, monkeypatch):
    """It is waited for once to compare it with the stored ones, and once more for a fact."""
    ended = []

    def watched(*args, **more):
        played = play_case(*args, **more)
        ended.append(played.outcome.error)
        return played

    for module in ("trial", "mistakes", "showing"):
        monkeypatch.setattr(f"minikv.course.pieces.{module}.play_case", watched)
    said = notebook.answer("3.4", f"{ENDLESS}{length}")
    assert said.startswith(f"✗ 3.4 walk: walk(root, [1])[1] is {length}; expected: 0\n")
    assert sum(isinstance(error, TooLong) for error in ended) == waits
    notebook.answer("3.4", ENDLESS.replace("root.children", "True") + "0")
    assert sum(isinstance(error, TooLong) for error in ended) == waits + 1  # where no case ends


def test_what_is_in_an_array_of_objects_or_in_a_set_is_looked_at():
    """Not compared by its own `__eq__`, which may say yes to all or raise."""
    rows = np.empty(2, dtype=object)
    rows[0] = rows[1] = np.array([1, 2])
    assert Observer().look({"rows": rows})["rows[0]"] == [1, 2]
    assert Observer().look({"set": {np.int64(1)}}) == Observer().look({"set": {1}})


@pytest.mark.parametrize(("kind", "is_same"), [(dict, True), (OrderedDict, False)])
def test_the_order_of_a_dictionary_counts_where_it_says_so(kind, is_same):
    one, other = (Observer().look({"it": kind(pairs)})["it"] for pairs in ({1: 2, 3: 4}, {3: 4, 1: 2}))
    assert same(one, other) is is_same


def test_a_cell_that_fails_names_the_pieces_it_may_come_from(tmp_path, monkeypatch):
    """Once, however often the chapter was set up."""
    shell = types.SimpleNamespace(events=EventManager(None, available_events))
    monkeypatch.setattr("minikv.course.pieces.checking.ipython", lambda: shell)
    notebook = [Notebook(tmp_path, 3) for _ in range(2)][1]
    for id in ("3.4", "3.5"):
        notebook.answer(id)
    here = "Your own pieces run here: 3.4 walk, 3.5 insert."
    through = "This error came through your own pieces: 3.4 walk, 3.5 insert."
    cells = {
        "insert(None, [1], [2])": through,
        "class Odd: __len__ = lambda _: 1 / 0\npages_of(Odd(), 1)": here,
        "assert 1 == 2": here,
        "1 / 0": "",
        "pass": "",
    }
    for cell, expected in cells.items():
        error = None
        try:
            notebook.run(cell)
        except Exception as raised:
            error = raised
        result = types.SimpleNamespace(error_in_exec=error)
        said = printed_by(shell.events.trigger, "post_run_cell", result)
        assert said.startswith(expected) if expected else not said
        assert said.count("\n") == bool(expected)


# -- hints about a difference ----------------------------------------------------------------------

FACTS = {part.name: rows_of(part.text) for part in golden("facts")}


@pytest.mark.parametrize(("kind", "said", "hint"), FACTS["errors"])
def test_the_hint_about_an_error_of_pythons_is_about_that_error(kind, said, hint):
    error = Difference((), 0, "", "", None, None, error=getattr(builtins, kind)(said))
    found = about_difference(find_piece("3.3"), {}, error)
    assert hint in found if hint != "-" else found is None


@pytest.mark.parametrize(("path", "mine", "right", "before", "fact"), FACTS["differences"])
def test_a_hint_about_a_difference_says_only_what_is_so(path, mine, right, before, fact):
    piece, values = find_piece("3.3"), map(ast.literal_eval, (mine, right, before))
    seen = [Words(value) if isinstance(value, str) else value for value in values]
    found = about_difference(piece, reference_world(piece), Difference((), 0, "", path, *seen))
    assert found.startswith(f": {fact}") if fact != "-" else found is None


# -- films -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("film", golden("films_of_answers"), ids=lambda film: f"{film.id}{film.remark}")
def test_the_film_of_a_wrong_answer_ends_with_both_sides_beside_each_other(film):
    """The caption and the text of its last step, for the stored answer with this mistake."""
    piece = find_piece(film.id) or find_exercise(film.id)
    (wrong,) = (wrong for wrong in piece.wrong if f": {wrong.mistake}" == film.remark)
    world = reference_world(piece)
    world.update(run_section(wrong.section, world, "<wrong>"))
    caption, picture = both_films(piece, world, judge(piece, world))[-1]
    assert f"{caption}\n{picture.text}\n" == film.text
    assert picture.svg


def test_a_notebook_shows_the_end_of_a_film_whose_sides_differ(notebook, monkeypatch):
    shown = []
    monkeypatch.setattr("minikv.course.pieces.showing.ipython", object)
    monkeypatch.setattr("IPython.display.display", shown.append)
    for text in (WRONG_SPLIT, SPLIT.replace("return upper", "return node")):
        notebook.answer("3.3", text)
    assert ["split([" in str(film) for film in shown] == [True]


# -- hints, solutions, lists -----------------------------------------------------------------------


def test_hints_come_one_after_the_other(notebook):
    said = [printed_by(hint, "3.3").rstrip("\n") for _ in range(5)]
    assert [line.split(":")[0] for line in said[:3]] == [f"Hint {n} of 3" for n in (1, 2, 3)]
    last = 'That was the last hint. solution("3.3") shows the package\'s version.'
    assert said[3:] == [last, last]


@pytest.mark.parametrize("ask", [hint, solution])
def test_a_piece_may_be_named_by_its_name_or_its_function(ask, notebook):
    for label in ("bytes_per_token", " 1.1 ", 1.1, notebook.names["bytes_per_token"]):
        assert "there is no piece" not in printed_by(lambda label=label: print(ask(label)))
    for label, said in {
        "9.9": "✗ there is no piece '9.9'. Give a number",
        "split": "✗ split is a piece in several chapters. Use 3.3 or 4.4.\n",
        "0.1 shared_by_all": "0.1 is an exercise. Its hint and solution are folded below it",
        "": "✗ which piece? Give a number",
    }.items():
        assert printed_by(ask, label).startswith(said)


def test_a_class_of_the_engine_is_shown_as_it_is_in_its_file_and_as_code(notebook):
    text = "".join(Path(file).read_text("utf-8") for file in engine_files())
    for name in ("Pool", "RadixCache", "Sequence", "CacheManager"):
        shown = source(notebook.names[name])
        assert str(shown).startswith(f"class {name}")
        assert str(shown) in text
        assert shown._repr_mimebundle_()["text/markdown"] == f"~~~python\n{shown}\n~~~"


def test_chapters_that_come_later_are_not_listed(notebook):
    begin(3, {})
    for listing, first in ((mine, 1), (progress, 0)):
        numbers = {int(number) for number in re.findall(r"\b(\d+)\.\d", printed_by(listing))}
        assert (min(numbers), max(numbers)) == (first, 3)
    assert printed_by(progress, 5).startswith("chapter 05   □ 5.1 ")


def test_counting_keeps_what_an_answer_says_is_global_and_the_garbage_collector():
    """An answer may build a table once for all its calls."""
    world, seen, is_collected = {}, [], gc.isenabled()
    exec("calls = 0\ndef f(case):\n    global calls\n    calls += 1\n    return 1 / case", world)

    def play(world, case):
        yield world["f"](case)
        seen.append(world["calls"])
        yield world["f"](case - 1)

    piece = types.SimpleNamespace(name="f", cost=types.SimpleNamespace(cases=[2, 1]), play=play)
    with pytest.raises(ZeroDivisionError):
        work_of(piece, world)
    assert (seen, gc.isenabled()) == ([1, 3], is_collected)

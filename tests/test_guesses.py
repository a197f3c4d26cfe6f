"""Predictions: what counts as a guess, when it is right, what is pressed, and which come back."""

import asyncio
import os
import sys
from ast import literal_eval
from concurrent.futures import ThreadPoolExecutor

import ipywidgets
import numpy as np
import pytest
from golden_text import replay, sections
from lesson import golden, printed_by, rows_of

from minikv.course.pieces import begin, fold, guess, guessing, pressing, progress
from minikv.course.pieces.record import predictions
from minikv.course.pieces.worlds import session

SCRIPTS = "guessing.txt"


@pytest.fixture(autouse=True)
def chapter(tmp_path, monkeypatch):
    monkeypatch.setenv("MINIKV_PROGRESS", str(tmp_path / "progress.json"))
    begin(7, {})


def guessed(question, *said):
    """What is printed about a guess."""
    return printed_by(guess, "3.z", question, *said)


# -- what is right ---------------------------------------------------------------------------------

MANY, PAGES = "how many?", "which pages? [., .]"
TABLES = {part.name: rows_of(part.text) for part in golden("guesses")}


def rows(name, *columns):
    """The rows of a table, with the values that these columns have as literals."""
    for row in TABLES[name]:
        yield [literal_eval(cell) if at in columns else cell for at, cell in enumerate(row)]


ODD = [
    (MANY, [np.int64(4)], 4, "right"),
    (MANY, (16, 384), np.int64(16384), "right"),
    (MANY, (1, 0, 0), 1_000_000, "right"),
    (PAGES, [np.array([3, 1])], [3, 1], "right"),
    *((MANY, [said], 4, "wrong") for said in (10**5000, "(" * 100_000, np.array([1, 2]))),
]


@pytest.mark.parametrize(("question", "said", "answer", "verdict"), [*rows("forms", 1, 2), *ODD])
def test_a_guess_is_right_in_whatever_form(question, said, answer, verdict):
    assert guessed(question, *said).startswith("◆ 3.z: your guess is")
    found = repr(fold("3.z", answer)).splitlines()[0]
    why = 'Open "Why" below to see what you missed.'
    assert found.endswith("is correct." if verdict == "right" else why)
    is_number = len(said) > 1 and not isinstance(answer, list)  # 16,384 without quotes
    assert not (is_number and verdict == "right" and "[" in found)


SET = (PAGES, [{3, 1}], "a set can't be a guess. Write a number, a list such as [1, 2], or words")
ITEMS = (PAGES, [[len]], "a list can't be a guess")
FOUR = (PAGES, [np.arange(4)], "the answer has 2 values, [., .], but your guess has 4. T")


@pytest.mark.parametrize(("question", "said", "words"), [*rows("refused", 1), SET, ITEMS, FOUR])
def test_what_is_no_guess_is_said_and_not_compared(question, said, words):
    guessed("which pages?", [3, 1])
    found = guessed(question, *said)
    assert found.startswith("◇ 3.z: ")
    assert words in found
    assert repr(fold("3.z", [3, 1])).startswith("3.z, the answer")
    assert predictions() == (0, 0)


def test_a_prediction_is_closed_until_there_is_a_guess():
    assert fold("3.z", 4)._repr_mimebundle_()["text/html"].startswith("<details><summary>")
    guessed(MANY, 4)
    opened = fold("3.z", "<4", "<")
    assert opened._repr_mimebundle_()["text/html"].startswith("<details open>")
    html = opened._repr_mimebundle_()["text/html"]
    assert html.endswith(f"<strong>{opened.verdict}</strong></p><p>&#x27;&lt;4&#x27;</p><pre>&lt;</pre></details>")


def test_without_a_record_predictions_count_in_their_session(monkeypatch):
    monkeypatch.setenv("MINIKV_PROGRESS", os.devnull)
    printed_by(ACTS["try"], "3.z", "5")
    assert predictions() == (1, 0)
    begin(4, {})
    assert predictions() == (0, 0)


def test_what_was_asked_and_said_is_stored_in_bounds():
    guessed("why? " * 1000, "because " * 1000)
    fold("3.z", 4)
    assert 0 < len(printed_by(begin, 4, {})) < 500


# -- guesses that are pressed ----------------------------------------------------------------------


@pytest.fixture
def pressed(monkeypatch):
    """What is shown where widgets run: the words, the answers offered, and their press; the words are printed."""
    shown = []
    monkeypatch.setattr(guessing, "offer_answers", lambda *parts: shown.append(parts) or print(parts[0]) or True)
    return shown


BRACKETS = (MANY, "(" * 1000, "(" * 1000)


@pytest.mark.parametrize(("question", "said", "as_typed"), [*rows("pressed", 1, 2), BRACKETS])
def test_a_pressed_guess_is_what_it_would_be_in_the_cell(question, said, as_typed, pressed):
    guess("3.z", question, None)
    ((_, offered, press),) = pressed
    assert (said in offered) == bool(offered)
    found = press(said), repr(session.guesses["3.z"]), repr(fold("3.z", 4))
    session.begin(3)
    typed = guessed(question, as_typed).rstrip("\n").replace("Answer below, or replace", "Replace")
    assert found == (typed, repr(session.guesses["3.z"]), repr(fold("3.z", 4)))


# What a learner does, who is asked how many, and the answer is 4.
ACTS = {
    "guess": lambda label, said: guess(label, MANY, literal_eval(said)),
    "fold": lambda label: print(fold(label, 4)),
    "try": lambda label, said: print(printed_by(ACTS["guess"], label, said)[0], repr(fold(label, 4)).splitlines()[0]),
    "begin": lambda chapter: begin(int(chapter), {}),
    "progress": lambda: progress([]),
}


@pytest.mark.parametrize("title", sections(SCRIPTS))
def test_what_is_said_of_guesses_one_after_the_other_is_what_the_golden_file_says(title, pressed):
    def act(words):
        """Do one of the acts, or press an answer in the cell of the last guess that was left open."""
        verb, *given = words.split()
        press = lambda said="": print(pressed[-1][2](said))  # noqa: E731
        return printed_by(ACTS.get(verb, press), *given).splitlines()

    replay(SCRIPTS, title, act)


class Shell:
    """An IPython that writes down what it is given to show."""

    def __init__(self):
        self.shown, self.display_pub = [], self

    def publish(self, data, transient=None, update=False):
        name = (transient or {}).get("display_id")
        self.shown.append((data.get("text/plain"), name, update))


@pytest.fixture
def shell(monkeypatch):
    found = Shell()
    monkeypatch.setattr(pressing, "ipython", lambda: found)
    return found


@pytest.mark.parametrize(("question", "typed", "value"), [(MANY, "4", 4), ("'4' or '5'?", None, "4")])
def test_what_is_pressed_replaces_the_words_that_the_page_keeps(question, typed, value, shell, monkeypatch):
    rows, row = [], ipywidgets.HBox
    show = lambda found, **more: rows.append(found) or row(found, **more)  # noqa: E731
    monkeypatch.setattr(ipywidgets, "HBox", show)
    guess("3.z", question, None)
    (words, name, _), view = shell.shown
    assert (words.startswith("◇ 3.z: no guess yet."), view) == (True, (None, None, False))
    ((first, second),) = rows
    if typed:
        first.value = typed

    async def hear(control, event):
        control._handle_custom_msg({"event": event}, [])
        await asyncio.sleep(0.2)

    loops = ThreadPoolExecutor(1)  # a browser that another test has opened keeps a loop in this thread
    loops.submit(asyncio.run, hear(first, "submit" if typed else "click")).result()
    said = f"◆ 3.z: your guess is {value!r}."
    assert shell.shown[2:] == [(f"{said} Now run the next cell.", name, True)]
    loops.submit(asyncio.run, hear(second if typed else first, "click")).result()
    votes = f"{said} Votes: {value!r} ×2. Now run the next cell."
    assert shell.shown[3:] == [(votes, name, True)]
    assert session.guesses["3.z"].said == value


def test_where_there_are_no_widgets_a_guess_prints(shell, monkeypatch):
    monkeypatch.setitem(sys.modules, "ipywidgets", None)
    assert guessed(MANY, None).startswith("◇ 3.z: no guess yet.")
    assert not shell.shown

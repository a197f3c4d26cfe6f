"""`catch`: a learner's test is tried on the package's version and on the stored wrong answers."""

import random
import re

import numpy as np
import pytest
from lesson import golden, printed_by

from minikv.course.pieces import begin, catch, progress
from minikv.course.pieces.record import tried_tests

HEAD = re.compile(r"^# (says|marks): *(.*)\n", re.MULTILINE)
TESTS = {test.remark: test.text for test in golden("tests")}
CAREFUL = next(text for text in TESTS.values() if "✅" in text)


@pytest.fixture
def world(tmp_path, monkeypatch):
    monkeypatch.setenv("MINIKV_PROGRESS", str(tmp_path / "progress.json"))
    begin(3, names := {"__name__": "__main__", "catch": catch})
    return names


@pytest.fixture
def said_of(world, tmp_path):
    def said(text, then="", **more):
        cell = tmp_path / "cell.py"
        cell.write_text(HEAD.sub("", text) + then, "utf-8")
        exec(compile(cell.read_text("utf-8"), str(cell), "exec"), world)
        return "" if then else printed_by(lambda: catch("3.6 match", world["test_match"], **more))

    return said


@pytest.mark.parametrize("text", TESTS.values(), ids=TESTS)
def test_a_test_is_told_what_its_first_lines_say(text, said_of):
    said = said_of(text, more="# with more" in text)
    for way, words in HEAD.findall(text):
        assert words in said if way == "says" else tried_tests() == ({"3.6": words} if words else {})
    if text is CAREFUL:  # what a solved notebook stores must not change with a new wrong answer
        assert not any(letter.isdigit() for letter in said.removeprefix("✓ 3.6 match"))
        assert "your tests: ✓ 3.6\n" in printed_by(progress, 3)


def test_each_line_is_told_how_many_more_it_caught(said_of, monkeypatch):
    shown = []
    monkeypatch.setattr("minikv.course.pieces.showing.ipython", object)
    monkeypatch.setattr("IPython.display.display", shown.append)
    said = said_of(CAREFUL, more=True).splitlines()
    *_, every, enough = map(int, re.findall(r"\d+", said[0]))
    assert enough - 1 < 0.8 * every <= enough  # four of five
    counts = [line for line in said if line.startswith("  this line caught ")]
    assert len(counts) > 3
    assert all(" more: " in line for line in counts[1:])
    assert "; expected: " in said[-1]  # the case in which the last one is wrong
    assert len(shown) == 1


@pytest.mark.parametrize("given", [("3.6 match", 7), ("3.9 radix_nodes", len), (None, None)])
def test_what_cannot_be_tried_is_one_line(given):
    assert printed_by(catch, *given).startswith("✗ pass the label of a piece and your test: ")


def test_the_same_random_numbers_come_each_time_and_the_readers_own_are_kept(said_of, world):
    world |= {"random": random, "np": np}
    before = random.getstate(), str(np.random.get_state())
    line = "def test_match(match):\n    assert [random.random(), np.random.rand()] == []"
    said = said_of(line)
    assert (random.getstate(), str(np.random.get_state())) == before
    random.random(), np.random.rand()
    assert said_of(line) == said


def test_a_test_that_is_no_function_of_its_own_is_not_run_again(said_of):
    """The source of a lambda is the line that calls `catch`."""
    text = "def helper(match):\n    assert match is None\n\n"
    said = printed_by(said_of, text, 'catch("3.6 match", lambda match: helper(match))\n')
    assert said.startswith("✗ 3.6 match: the package's version does not pass your test.")
    assert said.count("✗") == 1


EXAMPLE = """
def test_common_hit(common_hit):
    full, window, state = Group("full", 4), Group("window", 4, 6), Group("state", 4)
    every = {4, 8, 12, 16, 20, 24}
    saved = [every, {4, 8, 16, 20}, {4, 16, 24}]
    assert common_hit([full, window, state], saved, 25, 4) == 4
"""


def test_the_example_of_chapter_15_is_not_enough_and_one_line_more_is(world, said_of):
    begin(15, world)
    for more, mark in ("", "✗"), ("    assert common_hit([full, state], [every, {16}], 24, 4) == 16", "✓"):
        said_of(EXAMPLE + more, "\n")
        said = printed_by(catch, "15.4 common_hit", world["test_common_hit"])
        assert said.startswith(f"{mark} 15.4 common_hit: your test catches ")

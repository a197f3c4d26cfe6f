"""`catch`: a learner's test is tried on the package's version and on the stored wrong answers."""

from __future__ import annotations

import random

import pytest

from minikv.course.pieces import begin, catch, progress
from minikv.course.pieces.record import RIGHT, WRONG, tried_tests

CAREFUL = """
def tree():
    root = Node([], [])
    insert(root, [1, 2, 3, 4, 5], [7, 3, 4, 9, 0])
    insert(root, [1, 2, 3, 7, 8], [1, 5, 6, 17, 22])
    return root

def test_match(match):
    root, given = tree(), [1, 2, 3, 7, 8]
    node, slots = match(root, given)
    assert slots == [7, 3, 4, 17, 22]
    assert given == [1, 2, 3, 7, 8]
    assert node is root.children[1].children[7]
    assert match(root, [9]) == (root, [])
    node, slots = match(root, [1, 2, 9])
    assert node.parent is root and root.children[1] is node
    assert slots is not node.slots
    assert match(root, [1, 2, 3, 4, 5])[1] == [7, 3, 4, 9, 0]
"""


@pytest.fixture
def world(tmp_path, monkeypatch):
    monkeypatch.setenv("MINIKV_PROGRESS", str(tmp_path / "progress.json"))
    begin(3, names := {"__name__": "__main__"})
    return names


@pytest.fixture
def said_of(world, tmp_path, capsys):
    def said(text, name="test_match", **more):
        cell = tmp_path / "cell.py"
        cell.write_text(text, "utf-8")
        exec(compile(text, str(cell), "exec"), world)
        catch("3.6 match", world[name], **more)
        return capsys.readouterr().out

    return said


def body(line):
    return f"def test_match(match):\n    root = Node([], [])\n    insert(root, [1, 2, 3], [7, 3, 4])\n    {line}\n"


def test_a_stub_is_no_test_yet(said_of):
    assert said_of(body("raise NotImplementedError")) == "□ 3.6 match: no test yet\n"
    assert not tried_tests()


def test_one_assert_catches_some_and_names_one_that_gets_through(said_of):
    said = said_of(body("assert match(root, [1, 2, 9])[1] == [7, 3]")).splitlines()
    assert said[0].startswith("✗ 3.6 match: your test catches ")
    assert said[1].endswith(": assert match(root, [1, 2, 9])[1] == [7, 3]")
    assert said[2].startswith("  One that gets through: ")
    assert tried_tests() == {"3.6": WRONG}


def test_a_careful_test_is_enough_and_its_line_has_no_number(said_of, capsys):
    """What a solved notebook stores must not change when a wrong answer is added."""
    said = said_of(CAREFUL)
    assert said.startswith("✓ 3.6 match: your test catches enough of the wrong answers.")
    assert not any(letter.isdigit() for letter in said.removeprefix("✓ 3.6 match"))
    progress(3)
    assert "your tests: ✓ 3.6\n" in capsys.readouterr().out
    assert tried_tests() == {"3.6": RIGHT}


def test_each_line_is_told_how_many_more_it_caught(said_of):
    said = said_of(CAREFUL, more=True).splitlines()
    counts = [line for line in said if line.startswith("  this line caught ")]
    assert len(counts) > 3
    assert all(" more: " in line for line in counts[1:])
    assert "; expected: " in said[-1]  # the case in which the last one is wrong


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("assert match(root, [1, 2, 9])[1] == [7]", "fails: the left side is [7, 3]. Read the exercise again"),
        ("assert not match(root, [1])[1]", "Your line `assert not match(root, [1])[1]` fails. Read the exercise"),
        ("match(None, [1])", "Your line `match(None, [1])` ends in AttributeError ("),
        ("print('here'); raise SystemExit", "It printed: here"),
        ("while True: pass", "Your test takes more than 0.5 seconds."),
        ("return match(root, [1]) is not None", "your test returns a value."),
        ("yield match(root, [1])", "your test returns a value."),
        ("match(root, [1])", "It never fails. What would be different if the answer were wrong?"),
    ],
)
def test_what_is_no_test_is_told_so(line, said, said_of):
    found = said_of(body(line))
    assert found.startswith("✗ 3.6 match: ")
    assert said in found


def test_a_test_that_keeps_something_is_told_so(said_of, world):
    world["seen"] = []
    said = said_of(body("seen.append(1); assert len(seen) < 5"))
    assert "it keeps state from one run to the next" in said


@pytest.mark.parametrize("given", [("3.6 match", 7), ("3.9 radix_nodes", len), (None, None)])
def test_what_cannot_be_tried_is_one_line(given, capsys):
    catch(*given)
    assert capsys.readouterr().out.startswith("✗ pass the label of a piece and your test: ")


def test_the_same_random_numbers_come_each_time_and_the_readers_own_are_kept(said_of, world):
    world["random"] = random
    random.seed(7)
    before = random.getstate()
    line = "assert match(root, [1, 2, random.randrange(9)]) is not None"
    assert said_of(body(line)) == said_of(body(line))
    assert random.getstate() == before


def test_a_test_that_is_no_function_of_its_own_is_not_run_again(world, tmp_path, capsys):
    """The source of a lambda is the line that calls `catch`."""
    text = 'def helper(match):\n    assert match is None\n\ncatch("3.6 match", lambda match: helper(match))\n'
    (tmp_path / "cell.py").write_text(text, "utf-8")
    exec(compile(text, str(tmp_path / "cell.py"), "exec"), world | {"catch": catch})
    said = capsys.readouterr().out
    assert said.startswith("✗ 3.6 match: the package's version does not pass your test.")
    assert said.count("✗") == 1

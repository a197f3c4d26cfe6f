"""Progress: a bar on a terminal, a line now and then elsewhere, always with the total where it is known."""

from __future__ import annotations

import io

import pytest

from minikv.progress_bar import Progress

pytestmark = pytest.mark.core


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def told(monkeypatch):
    def lines(times, total=None):
        stream, clock = io.StringIO(), iter(times)
        monkeypatch.setattr("time.monotonic", lambda: next(clock))
        with Progress(stream) as tick:
            if total:
                tick.expect(total)
            for number in range(len(times)):
                tick(f"step {number}")
        return stream.getvalue().splitlines()

    return lines


def test_off_a_terminal_a_line_comes_at_once_and_then_now_and_then(told):
    assert told([0, 4, 9, 11, 12, 25], total=6) == [
        "minikv bench: 0 of 6 steps done, now step 0",
        "minikv bench: 3 of 6 steps done, now step 3",
        "minikv bench: 5 of 6 steps done, now step 5",
    ]


def test_without_a_total_the_steps_are_counted(told):
    assert told([0, 11]) == ["minikv bench: 0 steps done, now step 0", "minikv bench: 1 steps done, now step 1"]


def test_on_a_terminal_a_bar_says_the_step_and_the_total_and_is_gone_at_the_end():
    stream = Terminal()
    with Progress(stream) as tick:
        tick.expect(4)
        tick("W1, round 1")
        tick("W1, round 2")
    text = stream.getvalue()
    assert "W1, round 2" in text
    assert "1/4" in text
    assert text.endswith("\r")


def test_steps_that_were_done_before_count_and_the_command_is_named():
    stream = io.StringIO()
    with Progress(stream, command="minikv sweep") as tick:
        tick.expect(9, done=4)
        tick("a trace")
    assert stream.getvalue() == "minikv sweep: 4 of 9 steps done, now a trace\n"


def test_a_bar_begins_with_the_steps_that_were_done_before():
    stream = Terminal()
    with Progress(stream) as tick:
        tick.expect(9, done=4)
        tick("a trace")
        tick("the next")
    assert "5/9" in stream.getvalue()
    assert "6/9" not in stream.getvalue()


def test_progress_goes_to_standard_error(capsys):
    with Progress() as tick:
        tick("a step")
    said = capsys.readouterr()
    assert said.out == ""
    assert "now a step" in said.err

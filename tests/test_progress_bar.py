"""Progress: a bar on a terminal, a line now and then elsewhere, always with the total where it is known."""

import io

import pytest

from minikv.progress_bar import Progress


class Terminal(io.StringIO):
    def isatty(self):
        return True


def shown(stream, steps, total=None, done=0, **options):
    """What a stream has shown after some steps."""
    with Progress(stream, **options) as tick:
        if total:
            tick.expect(total, done=done)
        for step in steps:
            tick(step)
    return stream.getvalue()


# At which seconds steps are done, of how many, and which lines then come off a terminal.
LINES = [
    (
        [0, 4, 9, 11, 12, 25],
        6,
        ["0 of 6 steps done, now at 0", "3 of 6 steps done, now at 11", "5 of 6 steps done, now at 25"],
    ),
    ([0, 11], None, ["0 steps done, now at 0", "1 steps done, now at 11"]),
]


@pytest.mark.parametrize(("times", "total", "lines"), LINES)
def test_off_a_terminal_a_line_comes_at_once_and_then_now_and_then(times, total, lines, monkeypatch):
    clock = iter(times)
    monkeypatch.setattr("time.monotonic", lambda: next(clock))
    text = shown(io.StringIO(), [f"at {time}" for time in times], total)
    assert text.splitlines() == [f"minikv bench: {line}" for line in lines]


def test_steps_that_were_done_before_count_and_the_command_is_named():
    text = shown(io.StringIO(), ["a trace"], 9, done=4, command="minikv sweep")
    assert text == "minikv sweep: 4 of 9 steps done, now a trace\n"


def test_on_a_terminal_a_bar_says_the_step_and_the_total_and_is_gone_at_the_end():
    text = shown(Terminal(), ["round 1", "round 2"], 9, done=4)
    assert "round 2" in text
    assert "5/9" in text
    assert "6/9" not in text
    assert text.endswith("\r")


def test_progress_goes_to_standard_error(capsys):
    with Progress() as tick:
        tick("a step")
    said = capsys.readouterr()
    assert said.out == ""
    assert "now a step" in said.err

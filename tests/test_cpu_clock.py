"""The clock of a test run: sums per file, the slowest first, and the CPU time of children."""

import os
import subprocess
import sys
from types import SimpleNamespace

import pytest
from cpu_clock import Clock, cpu_seconds


def test_the_slowest_ten_files_are_shown_with_the_sums_of_their_reports():
    clock, said = Clock(), []
    for number in range(12):
        for seconds in (1, number):  # of the set-up, and of the test
            clock.pytest_runtest_logreport(SimpleNamespace(nodeid=f"{number}.py::test", duration=seconds))
    clock.pytest_terminal_summary(SimpleNamespace(write_line=said.append))
    assert [line.split() for line in said[2:]] == [[f"{n + 1}.0", f"{n}.py"] for n in range(11, 1, -1)]
    first, *_ = clock.lines(cpu=75.4, elapsed=40.2)
    assert first == "CPU time: 75 s, user and system, children too. Elapsed time: 40 s."


@pytest.mark.skipif(os.name != "posix", reason="counts no children there")
def test_the_cpu_time_of_a_child_counts():
    before = os.times()
    subprocess.run([sys.executable, "-c", "sum(range(3_000_000))"], check=True)
    own = sum(os.times()[:2]) - sum(before[:2])
    assert cpu_seconds() - sum(before[:4]) > own

"""What a run of the tests cost: its CPU time, its elapsed time, and the ten test files that took longest.

Two runs are compared by their CPU time, of which other programs on the machine change little. It is that of pytest, of
its workers, and of every process that they started and that has ended; on Windows it is that of pytest alone.
"""

import os
import time
from collections import Counter

SLOWEST = 10


def cpu_seconds():
    """User and system time of this process, and of the children that it has waited for."""
    return sum(os.times()[:4])


class Clock:
    """A pytest plugin: it adds up the reports, which with xdist come from the workers, and prints the sums."""

    def __init__(self):
        self._begin = time.perf_counter()
        self._files = Counter()

    def pytest_runtest_logreport(self, report):
        self._files[report.nodeid.partition("::")[0]] += report.duration

    def pytest_terminal_summary(self, terminalreporter):
        if len(self._files) >= SLOWEST:
            for line in self.lines(cpu_seconds(), time.perf_counter() - self._begin):
                terminalreporter.write_line(line)

    def lines(self, cpu, elapsed):
        yield f"CPU time: {cpu:.0f} s, user and system, children too. Elapsed time: {elapsed:.0f} s."
        yield "The slowest files, in elapsed seconds, of all workers together:"
        yield from (f"{seconds:8.1f} {name}" for name, seconds in self._files.most_common(SLOWEST))

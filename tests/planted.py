"""One mutant in a process of its own: how it is imported in place of its file, and how its judges are asked."""

import math
import os
import tempfile
from collections import deque
from importlib.machinery import SourceFileLoader
from importlib.util import spec_from_file_location

import pytest


class Planted(SourceFileLoader):
    """Imports one module from a syntax tree in place of its file."""

    def __init__(self, module, path, tree):
        super().__init__(module, str(path))
        self._tree = tree

    def get_code(self, fullname):
        return compile(self._tree, self.path, "exec", dont_inherit=True)

    def find_spec(self, fullname, path=None, target=None):
        return spec_from_file_location(fullname, self.path, loader=self) if fullname == self.name else None


def forked(work, log):
    """Do `work` in a process of its own, whose output goes to the file `log`; returns its number."""
    pid = os.fork()
    if pid:
        return pid
    status = 1
    try:
        for output in (1, 2):
            os.dup2(log, output)
        status = work()
    finally:
        os._exit(status)


def asked(judge):
    """What pytest answers. Its rewriting of `assert`, which would only explain the failure, is off: it takes time."""
    status = pytest.main(["-x", "-q", "-p", "no:cacheprovider", "--assert=plain", judge])
    return 0 if status == pytest.ExitCode.NO_TESTS_COLLECTED else status  # a file may have no doctest


def limit_of(judge):
    """Seconds of CPU time for this judge, from a run without a mutant, which must pass."""
    with tempfile.TemporaryFile() as log:
        _, status, usage = os.wait4(forked(lambda: asked(judge), log.fileno()), 0)
        if status:
            log.seek(0)
            raise SystemExit(f"{log.read().decode()}\n{judge} fails without a mutant")
    return math.ceil(3 * (usage.ru_utime + usage.ru_stime)) + 2


def decide(trials, limits, jobs):
    """Bring every trial to its end: a judge that notices, or no judge left."""
    waiting, running = deque(trials), {}
    while waiting or running:
        while waiting and len(running) < jobs:
            trial = waiting.popleft()
            running[trial.begin(limits)] = trial
        pid, status, _ = os.wait3(0)
        trial = running.pop(pid)
        trial.survived = status == 0
        if trial.survived and trial.judges:
            running[trial.begin(limits)] = trial

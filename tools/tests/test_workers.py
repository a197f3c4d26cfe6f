"""Runs in workers, or one after another: errors of a run and of a worker, and an end before the end."""

import os
import signal
import sys
import time
import warnings

import pytest

from minikv_tools.sweep import workers
from minikv_tools.sweep.workers import WorkerError, spread

joblib = pytest.importorskip("joblib")


@pytest.mark.parametrize("jobs", [1, 2])
def test_each_task_is_done_once_and_an_error_of_one_is_raised_as_it_is(jobs):
    assert sorted(spread(abs, range(-9, 0), jobs)) == list(range(1, 10))
    with pytest.raises(ValueError, match="invalid literal for int"):
        list(spread(int, ["1", "2", "x", "4"], jobs))


@pytest.mark.parametrize("jobs", [1, 2])
def test_an_iterator_that_is_closed_early_ends_the_work_quietly(jobs):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        done = spread(abs, range(100), jobs)
        next(done)
        done.close()
    assert list(done) == []


def test_what_waits_when_an_iterator_is_closed_is_not_done():
    begun = []
    done = spread(lambda number: begun.append(number) or time.sleep(0.001), range(5000), 1)
    next(done)
    done.close()
    assert 1 <= len(begun) < 5000


@pytest.mark.skipif(os.name != "posix", reason="kills as POSIX does")
def test_a_worker_that_is_killed_is_one_line():
    with pytest.raises(WorkerError, match=r"^a worker was lost, perhaps for lack of memory: .*") as caught:
        list(spread(_kill_me, [signal.SIGKILL] * 3, 2))
    assert "\n" not in str(caught.value)


def _kill_me(number):
    os.kill(os.getpid(), number)


@pytest.mark.skipif(os.name != "posix", reason="presses Ctrl-C as POSIX does")
def test_ctrl_c_is_left_to_the_parent():
    assert set(spread(_press, [signal.SIGINT] * 3, 2)) == {"still here"}


def _press(number):
    signal.raise_signal(number)
    return "still here"


def test_a_worker_ends_once_its_parent_is_another(monkeypatch):
    parents, ended = iter([7, 7, 1]), []
    monkeypatch.setattr(os, "getppid", lambda: next(parents))
    monkeypatch.setattr(os, "kill", lambda *how: ended.append(how))
    monkeypatch.setattr(workers, "_LOOK", 0)
    workers._end_as_an_orphan(7)
    assert (list(parents), ended) == ([], [(os.getpid(), signal.SIGTERM)])


def test_one_job_needs_no_joblib(monkeypatch):
    monkeypatch.setitem(sys.modules, "joblib", None)
    assert list(spread(abs, [-1, -2], 1)) == [1, 2]
    with pytest.raises(ImportError):
        list(spread(abs, [-1, -2], 2))

"""Runs in workers: every backend of this machine, errors of a run and of a worker, and an end before the end."""

import os
import signal
import sys
import time
import warnings

import pytest

from minikv_tools.sweep.workers import BACKENDS, WorkerError, spread

LOCAL = [backend for backend in BACKENDS if backend not in ("dask", "ray")]
joblib = pytest.importorskip("joblib")


@pytest.mark.parametrize("backend", LOCAL)
def test_each_task_is_done_once_and_an_error_of_one_is_raised_as_it_is(backend):
    assert sorted(spread(abs, range(-9, 0), backend, 2)) == list(range(1, 10))
    with pytest.raises(ValueError, match="invalid literal for int"):
        list(spread(int, ["1", "2", "x", "4"], backend, 2))


@pytest.mark.parametrize("backend", LOCAL)
def test_an_iterator_that_is_closed_early_ends_the_work_quietly(backend):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        done = spread(abs, range(100), backend, 2)
        next(done)
        done.close()
    assert list(done) == []


@pytest.mark.parametrize("backend", ["threading", "sequential"])
def test_what_waits_when_an_iterator_is_closed_is_not_done(backend):
    begun = []
    done = spread(lambda number: begun.append(number) or time.sleep(0.001), range(5000), backend, 2)
    next(done)
    done.close()
    assert 1 <= len(begun) < 5000


@pytest.mark.skipif(os.name != "posix", reason="kills as POSIX does")
def test_a_worker_that_is_killed_is_one_line():
    with pytest.raises(WorkerError, match=r"^a worker was lost, perhaps for lack of memory: .*") as caught:
        list(spread(_kill_me, [signal.SIGKILL] * 3, "loky", 2))
    assert "\n" not in str(caught.value)


def _kill_me(number):
    os.kill(os.getpid(), number)


@pytest.mark.skipif(os.name != "posix", reason="presses Ctrl-C as POSIX does")
def test_ctrl_c_is_left_to_the_parent():
    assert set(spread(_press, [signal.SIGINT] * 3, "loky", 2)) == {"still here"}


def _press(number):
    signal.raise_signal(number)
    return "still here"


def test_one_job_needs_no_joblib(monkeypatch):
    monkeypatch.setitem(sys.modules, "joblib", None)
    assert list(spread(abs, [-1, -2], "loky", 1)) == list(spread(abs, [-1, -2], "sequential")) == [1, 2]
    with pytest.raises(ImportError):
        list(spread(abs, [-1, -2], "loky", 2))

"""Runs in workers: every backend of this machine, errors of a run and of a worker, and an end before the end."""

import logging
import os
import signal
import sys
import time
import warnings
from types import SimpleNamespace

import pytest

from minikv_tools.sweep import workers
from minikv_tools.sweep.workers import BACKENDS, CLUSTER, WorkerError, spread

LOCAL = [backend for backend in BACKENDS if backend != CLUSTER]
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


def test_a_worker_ends_once_its_parent_is_another(monkeypatch):
    parents, ended = iter([7, 7, 1]), []
    monkeypatch.setattr(os, "getppid", lambda: next(parents))
    monkeypatch.setattr(os, "kill", lambda *how: ended.append(how))
    monkeypatch.setattr(workers, "_LOOK", 0)
    workers._end_as_an_orphan(7)
    assert (list(parents), ended) == ([], [(os.getpid(), signal.SIGTERM)])


class FakeCluster:
    """What dask offers, as far as it is used: every call of it is in `calls`."""

    calls: list

    def __init__(self, *given, **options):
        self.calls.append((given, options, signal.getsignal(signal.SIGINT)))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.calls.append("closed")


@pytest.fixture
def calls(monkeypatch):
    monkeypatch.setattr(FakeCluster, "calls", [], raising=False)
    monkeypatch.setitem(sys.modules, "distributed", SimpleNamespace(Client=FakeCluster))
    return FakeCluster.calls


def test_a_cluster_of_dask_is_started_deaf_to_ctrl_c_and_ends_with_the_work(calls):
    before = signal.getsignal(signal.SIGINT)
    with workers._configured("dask", 3, None) as settings:
        ((given, asked, deaf),) = calls
    assert (deaf, signal.getsignal(signal.SIGINT)) == (signal.SIG_IGN, before)
    quiet = {"dashboard_address": None, "silence_logs": logging.CRITICAL, "set_as_default": False}
    assert (given, asked) == ((), {"n_workers": 3, "threads_per_worker": 1, **quiet})
    assert (settings["backend"], settings["n_jobs"], calls[1:]) == ("dask", 3, ["closed"])


def test_a_cluster_that_is_there_is_used_and_left(calls):
    with workers._configured("dask", None, "tcp://x") as settings:
        assert calls == [(("tcp://x",), {"set_as_default": False}, signal.getsignal(signal.SIGINT))]
    assert (settings["n_jobs"], calls[1:]) == (-1, ["closed"])
    assert isinstance(settings["client"], FakeCluster)


def test_one_job_needs_no_joblib_if_it_is_done_here(monkeypatch):
    monkeypatch.setitem(sys.modules, "joblib", None)
    assert list(spread(abs, [-1, -2], "loky", 1)) == list(spread(abs, [-1, -2], "sequential")) == [1, 2]
    for backend, jobs in (("loky", 2), ("dask", 1)):
        with pytest.raises(ImportError):
            list(spread(abs, [-1, -2], backend, jobs))

"""Many runs at once: on the cores of this machine, or on a cluster of Dask, all through joblib.

A run is a call of a function with one argument. It should take from a second to minutes, because each is sent alone.
The function, its argument and what it returns are sent as pickles, so the function belongs to a module.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
import warnings
from collections.abc import Callable, Generator, Iterable, Iterator
from typing import Any, TypeVar

from minikv.untrusted import refusal

BACKENDS = {  # and the packages that each needs
    "loky": ("joblib",),
    "threading": ("joblib",),
    "sequential": (),
    "dask": ("joblib", "dask", "distributed"),
}
CLUSTER = "dask"  # the backend that has an address
_LOOK = 0.5  # seconds after which a process looks again whether its parent is there
_Task = TypeVar("_Task")
_Found = TypeVar("_Found")


def spread(
    function: Callable[[_Task], _Found],
    tasks: Iterable[_Task],
    backend: str = "loky",
    jobs: int | None = None,
    address: str | None = None,
) -> Generator[_Found, None, None]:
    """Yield the result of `function` for each task, in the order in which they finish.

    `backend` is one of `BACKENDS`: processes of this machine (loky), its threads, this thread alone (sequential), or a
    cluster of Dask. `jobs` run at once (`None`: as many as there are cores). `address` is that of a cluster;
    without it one is started on this machine for as long as this takes. The error of a task ends the others and is
    raised; `WorkerError` says that the workers themselves failed. Close the iterator when it is not used to its end.

    >>> sorted(spread(abs, [-2, 1, -3], backend="sequential"))
    [1, 2, 3]
    """
    if backend == "sequential" or (jobs == 1 and backend != CLUSTER):
        yield from map(function, tasks)
        return
    from joblib import Parallel, delayed, parallel_config

    try:
        with _configured(backend, jobs, address) as settings, parallel_config(**settings):
            parallel = Parallel(batch_size=1, return_as="generator_unordered")
            done: Any = parallel(delayed(function)(task) for task in tasks)
            with contextlib.closing(done):
                yield from done
    except Exception as error:
        if not type(error).__module__.startswith(("joblib", "dask", "distributed")):  # that of a task
            raise
        raise WorkerError(str(refusal("a worker was lost, perhaps for lack of memory", error))) from error


class WorkerError(RuntimeError):
    """The workers failed, not what they worked on: one was killed, or a cluster was lost."""


@contextlib.contextmanager
def _configured(backend: str, jobs: int | None, address: str | None) -> Iterator[dict[str, Any]]:
    """The options for joblib, while the cluster is there, if it is one."""
    settings: dict[str, Any] = {"backend": backend, "n_jobs": jobs or -1}
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", module="joblib")  # of tasks that are ended early, which is what was asked for
        if backend == CLUSTER:
            with _dask_client(jobs, address) as client:
                yield {**settings, "client": client}
        elif backend == "loky":
            yield {**settings, "initializer": _follow_the_parent, "initargs": (os.getpid(),)}
        else:
            yield settings


def _follow_the_parent(parent: int) -> None:
    """In a process of loky: leave Ctrl-C, which reaches all processes of a terminal, to the parent, and end with it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if os.name == "posix":  # elsewhere an orphan looks like a child, and ends when it has nothing to do
        threading.Thread(target=_end_as_an_orphan, args=(parent,), daemon=True).start()


def _end_as_an_orphan(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(_LOOK)
    os.kill(os.getpid(), signal.SIGTERM)


@contextlib.contextmanager
def _children_without_interrupts() -> Iterator[None]:
    """While it is open, a process that is started ignores Ctrl-C for good, and so does this one."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.SIG_DFL if before is None else before)


def _dask_client(jobs: int | None, address: str | None) -> Any:
    """A client of the cluster at `address`, or of one on this machine, which ends with it."""
    import logging

    from distributed import Client

    if address:
        return Client(address, set_as_default=False)
    with _children_without_interrupts():
        return Client(set_as_default=False, n_workers=jobs, threads_per_worker=1, dashboard_address=None,
                      silence_logs=logging.CRITICAL)  # fmt: skip

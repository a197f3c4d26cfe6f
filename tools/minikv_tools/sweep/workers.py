"""Many runs at once, in processes of this machine, through joblib.

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
from collections.abc import Callable, Generator, Iterable
from typing import Any, TypeVar

from minikv.untrusted import refusal

_LOOK = 0.5  # seconds after which a process looks again whether its parent is there
_Task = TypeVar("_Task")
_Found = TypeVar("_Found")


def spread(
    function: Callable[[_Task], _Found], tasks: Iterable[_Task], jobs: int | None = None
) -> Generator[_Found, None, None]:
    """Yield the result of `function` for each task, in the order in which they finish.

    `jobs` run at once (`None`: as many as there are cores), each in a process of its own; one job runs here. The
    error of a task ends the others and is raised; `WorkerError` says that the workers themselves failed. Close the
    iterator when it is not used to its end.

    >>> sorted(spread(abs, [-2, 1, -3], jobs=1))
    [1, 2, 3]
    """
    if jobs == 1:
        yield from map(function, tasks)
        return
    from joblib import Parallel, delayed, parallel_config

    settings: dict[str, Any] = {"initializer": _follow_the_parent, "initargs": (os.getpid(),)}
    try:
        with warnings.catch_warnings(), parallel_config("loky", n_jobs=jobs or -1, **settings):
            warnings.filterwarnings("ignore", module="joblib")  # of tasks that are ended early: that was asked for
            parallel = Parallel(batch_size=1, return_as="generator_unordered")
            done: Any = parallel(delayed(function)(task) for task in tasks)
            with contextlib.closing(done):
                yield from done
    except Exception as error:
        if not type(error).__module__.startswith("joblib"):  # that of a task
            raise
        raise WorkerError(str(refusal("a worker was lost, perhaps for lack of memory", error))) from error


class WorkerError(RuntimeError):
    """The workers failed, not what they worked on: one was killed, for instance."""


def _follow_the_parent(parent: int) -> None:
    """In a worker: leave Ctrl-C, which reaches all processes of a terminal, to the parent, and end with it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if os.name == "posix":  # elsewhere an orphan looks like a child, and ends when it has nothing to do
        threading.Thread(target=_end_as_an_orphan, args=(parent,), daemon=True).start()


def _end_as_an_orphan(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(_LOOK)
    os.kill(os.getpid(), signal.SIGTERM)

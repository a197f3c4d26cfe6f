"""The process in which `assert_prefix_stable` calls a prompt builder: it runs this file as a script.

A job comes in on standard input, and the prompts go out as JSON. Nothing of minikv is imported, so a process starts
quickly, and every import is one of the builder's own project.
"""

from __future__ import annotations

import ctypes
import datetime
import faulthandler
import functools
import gc
import importlib
import json
import os
import pickle
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

BEGIN = (2026, 3, 9, 10, 5, 27, 0, 0, -1)  # the local time at which every process starts


class ShiftedClock:
    """A clock that starts at `BEGIN` and runs; it is ahead of that by `later` seconds.

    >>> time.localtime(ShiftedClock(later=86400).now())[:3]
    (2026, 3, 10)
    """

    def __init__(self, later: float) -> None:
        self.later = later
        self._begin = time.mktime(BEGIN) - time.monotonic()

    def now(self) -> float:
        """The seconds since 1970 that this clock shows."""
        return self._begin + time.monotonic() + self.later

    def install(self) -> None:
        """Make `time` and `datetime` show this clock in this whole process."""
        for name in ("localtime", "gmtime", "ctime"):
            _complete(name, 0, self.now)
        _complete("asctime", 0, time.localtime)
        _complete("strftime", 1, time.localtime)
        _put("time", self.now)
        _put("time_ns", lambda: int(self.now() * 1e9))
        for kind in (datetime.date, datetime.datetime):
            _of_class(kind, "today", lambda cls: cls.fromtimestamp(self.now()))
        _of_class(kind, "now", lambda cls, tz=None: cls.fromtimestamp(self.now(), tz))
        _of_class(kind, "utcnow", lambda cls: cls.fromtimestamp(self.now(), datetime.timezone.utc).replace(tzinfo=None))
        if abs(datetime.datetime.now().timestamp() - self.now()) > 60:
            raise NotImplementedError("the clock of this Python's datetime cannot be set")


def _complete(name: str, at: int, now: Callable[[], Any]) -> None:
    """Replace a function of `time`, which takes the time as its argument `at`, or else `now`."""
    real = getattr(time, name)
    _put(name, lambda *given: real(*given) if given[at:] not in ((), (None,)) else real(*given[:at], now()))


def _put(name: str, function: Callable[..., Any]) -> None:
    """Put a function into `time`; a class may hold it, as `logging.Formatter` does, and it must not bind to it."""
    setattr(time, name, staticmethod(function))


def _of_class(kind: type, name: str, method: Callable[..., Any]) -> None:
    """Replace a class method of a class that is immutable, so only the dictionary inside it can be changed.

    A subclass in its place would not do: C code makes instances of the class itself, and may refuse any other.
    """
    gc.get_referents(vars(kind))[0][name] = classmethod(method)
    ctypes.pythonapi.PyType_Modified(ctypes.py_object(kind))  # it may have been looked up before


def build_prompts(name: str, calls: list[tuple[float, bytes]], clock: ShiftedClock) -> Iterator[str]:
    """The prompts that a builder returns, as JSON; each call has its own copy of the arguments, which are pickled."""
    module, _, name = name.partition(":")
    build: Any = functools.reduce(getattr, name.split("."), importlib.import_module(module))
    for clock.later, arguments in calls:
        args, kwargs = pickle.loads(arguments)
        prompt = build(*args, **kwargs)
        if hasattr(prompt, "__await__"):
            import asyncio

            prompt = asyncio.run(prompt)
        yield json.dumps(list(prompt) if hasattr(prompt, "__next__") else prompt)


def do_job() -> None:
    """Do the job on standard input; nothing that the builder prints gets into the answer."""
    out = os.dup(1)
    os.dup2(2, 1)
    sys.path[:], name, calls, timeout = pickle.load(sys.stdin.buffer)
    faulthandler.dump_traceback_later(timeout, exit=True)  # it says where the builder waits
    clock = ShiftedClock(calls[0][0])
    try:
        clock.install()
        answer: Any = list(build_prompts(name, calls, clock))
    except BaseException as error:
        answer = own_traceback(error)
    with open(out, "w", encoding="ascii") as file:
        json.dump(answer, file)


def own_traceback(error: BaseException) -> str:
    """The traceback of an error without the frames of this file and of Python's library.

    >>> try: json.dumps(time)
    ... except TypeError as error: own_traceback(error).splitlines()[-1], own_traceback(error).count("File")
    ('TypeError: Object of type module is not JSON serializable', 1)
    """
    import traceback

    said = traceback.TracebackException.from_exception(error)
    library = os.path.dirname(os.__file__)
    said.stack[:] = [
        frame for frame in said.stack
        if not frame.filename.startswith((__file__, "<frozen "))
        and ("-packages" in frame.filename or not frame.filename.startswith(library))
    ]  # fmt: skip
    return "".join(said.format())


if __name__ == "__main__":
    do_job()

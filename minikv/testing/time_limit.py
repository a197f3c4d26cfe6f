"""A time limit for code that somebody else wrote: whatever is still running after it is stopped by an exception."""

from __future__ import annotations

import ctypes
import threading
import time
import warnings
from dataclasses import dataclass, field

_TICK, _TICKS_IDLE = 0.02, 50  # how often the watchdog looks, in seconds, and how often at nothing before it goes
_PATIENCE, _PATIENT = 0.25, 3  # how long code may take to end once it is stopped, in seconds; and how often
_throw = ctypes.pythonapi.PyThreadState_SetAsyncExc


class TooLong(BaseException):
    """The code ran for too long; not an `Exception`, so that `except Exception` lets it pass."""


@dataclass(eq=False)
class TimeLimit:
    """Between `start` and `stop`, code of this thread that takes more than `seconds` is stopped by a `TooLong`.

    A call into C that never returns cannot be stopped, nor on Python 3.10 a loop that catches everything. Where threads
    cannot be started nothing is, and a `RuntimeWarning` says so.

    >>> limit = TimeLimit(0.1)
    >>> try:
    ...     limit.start()
    ...     while True:
    ...         pass
    ... except TooLong:
    ...     print("stopped")
    ... finally:
    ...     limit.stop()
    stopped
    """

    seconds: float
    thread: int = field(default_factory=threading.get_ident)
    deadline: float = 0.0
    times_told: int = 0

    def start(self) -> None:
        """The time runs from now on."""
        self.deadline = time.monotonic() + self.seconds
        _WATCHDOG.start(self)

    def stop(self) -> None:
        """The time does not run any more; an exception that has not arrived yet arrives here, and is dropped."""
        _WATCHDOG.stop(self)


class _Watchdog:
    """Throws `TooLong` into the thread of each limit that has passed, again and again until its code ends.

    Again and again, because the code may catch it; at first with a pause in which whatever handles it can get to `stop`
    on a busy machine, so that the next one does not land in there. One thread watches all limits, because most calls
    take less time than a thread takes to start. It ends when there has been nothing to watch for a while.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._limits: set[TimeLimit] = set()
        self._is_awake = False

    def start(self, limit: TimeLimit) -> None:
        """Watch `limit` from now on."""
        with self._lock:
            self._limits.add(limit)
            if not self._is_awake:
                self._wake()

    def _wake(self) -> None:
        try:
            threading.Thread(target=self._watch, daemon=True).start()
            self._is_awake = True
        except RuntimeError:  # as in a browser
            warnings.warn("no thread can be started here, so code that does not end is not stopped", RuntimeWarning, 4)

    def _watch(self) -> None:
        idle = 0
        while True:
            time.sleep(_TICK)
            with self._lock:
                for limit in self._limits:
                    if time.monotonic() > limit.deadline:
                        limit.times_told += 1
                        if limit.times_told <= _PATIENT:
                            limit.deadline = time.monotonic() + _PATIENCE
                        _throw(ctypes.c_ulong(limit.thread), ctypes.py_object(TooLong))
                idle = 0 if self._limits else idle + 1
                if idle == _TICKS_IDLE:
                    self._is_awake = False
                    return

    def stop(self, limit: TimeLimit) -> None:
        """Watch `limit` no longer; an exception that has not landed yet lands here.

        Taking it back with NULL leaves CPython 3.11 with a flag that is set for good, and tracing then never ends.
        """
        while limit in self._limits:
            try:  # not `suppress`: one could land while it is called
                with self._lock:
                    self._limits.discard(limit)
                for _ in range(10_000 * bool(limit.times_told)):
                    pass
            except TooLong:
                pass


_WATCHDOG = _Watchdog()

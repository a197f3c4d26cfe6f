"""A limit of time for code that may never end: a thread that throws `TooLong` into it, and a signal for what waits.

In a browser no thread can start. There Python calls us at each jump instead, so that loops are stopped, and only they.
"""

from __future__ import annotations

import ctypes
import signal
import sys
import threading
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from types import CodeType
from typing import Any

from minikv.files import IN_BROWSER

_TICK, _TICKS_IDLE = 0.02, 50  # how often the watchdog looks, in seconds, and how often at nothing before it goes
_WAKE = getattr(signal, "SIGVTALRM", None)  # which nobody else uses; there is none on Windows
_PATIENCE, _PATIENT = 0.25, 3  # how long code may take to end once it is stopped, in seconds; and how often
_throw = ctypes.pythonapi.PyThreadState_SetAsyncExc
_TOOL = 4  # of `sys.monitoring`: nobody's
_EACH, _SLOW = 64, 0.05  # of how many jumps one looks at the clock, unless they take longer than this, in seconds
_LONGEST = 2.0  # that counts from one look at the clock to the next, in seconds: a page may have been asleep
_IDLE = 2000  # looks with no limit to watch, and Python calls us no longer


class TooLong(BaseException):
    """The code ran for too long; not an `Exception`, so that `except Exception` lets it pass."""


@dataclass(eq=False)
class TimeLimit:
    """Between `start` and `stop`, code of this thread that takes more than `seconds` is stopped by a `TooLong`.

    Time counts while this process computes or waits, but not while a busy machine, or a paused one, lets it do neither.
    In the main thread a signal ends what waits, such as `time.sleep`; not on Windows. A call into C that never returns
    cannot be stopped, nor on Python 3.10 a loop that catches everything: only a restart helps. Where threads cannot be
    started, and it is no browser, nothing is stopped, and a `RuntimeWarning` says so.

    >>> limit = TimeLimit(60)
    >>> limit.start(), limit.stop()
    (None, None)
    """

    seconds: float
    thread: int = field(default_factory=threading.get_ident)
    begun: float = 0.0
    left: float = 0.0
    times_told: int = 0

    def start(self) -> None:
        """The time runs from now on."""
        self.begun, self.left = time.monotonic(), self.seconds
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
        self._is_awake = self._has_signal = False
        self._steps, self._each, self._idle, self._then = 0, _EACH, 0, 0.0

    def start(self, limit: TimeLimit) -> None:
        """Watch `limit` from now on."""
        if not self._has_signal and _WAKE and threading.current_thread() is threading.main_thread():
            self._has_signal = True
            if signal.getsignal(_WAKE) is signal.SIG_DFL:
                signal.signal(_WAKE, self._wake)
        with self._lock:
            self._limits.add(limit)
            if self._is_awake:
                return
            try:
                threading.Thread(target=self._watch, daemon=True).start()
                self._is_awake = True
            except RuntimeError:
                self._is_awake = IN_BROWSER and self._watch_steps()
                if not self._is_awake:
                    said = (
                        "the time limit is off, because no thread can start here: only a restart stops an endless loop"
                    )
                    warnings.warn(said, RuntimeWarning, stacklevel=3)

    def _watch(self) -> None:
        idle, then = 0, (time.monotonic(), time.process_time())
        while True:
            time.sleep(_TICK)
            now = time.monotonic(), time.process_time()
            most = max(2 * _TICK, now[1] - then[1])  # a tick takes longer only where this process computes meanwhile
            with self._lock:
                for limit in self._passed(now[0], then[0], most):
                    _throw(ctypes.c_ulong(limit.thread), ctypes.py_object(TooLong))
                    is_main = limit.thread == threading.main_thread().ident
                    if _WAKE and self._has_signal and is_main and limit.times_told > 1:
                        signal.pthread_kill(limit.thread, _WAKE)
                idle, then = 0 if self._limits else idle + 1, now
                if idle == _TICKS_IDLE:
                    self._is_awake = False
                    return

    def _passed(self, now: float, then: float, most: float) -> Iterator[TimeLimit]:
        """The limits that have passed, once the time since `then` counts, which is no more than `most`."""
        for limit in self._limits:
            limit.left -= min(most, now - max(then, limit.begun))
            if limit.left < 0:
                limit.times_told += 1
                if limit.times_told <= _PATIENT:
                    limit.left = _PATIENCE
                yield limit

    def _watch_steps(self) -> bool:
        """Let Python call `_step` at each jump; return whether it does, which another tool may prevent."""
        if sys.version_info < (3, 12) or sys.monitoring.get_tool(_TOOL) not in (None, __name__):
            return False
        if sys.monitoring.get_tool(_TOOL) is None:
            sys.monitoring.use_tool_id(_TOOL, __name__)
        sys.monitoring.register_callback(_TOOL, sys.monitoring.events.JUMP, self._step)
        sys.monitoring.set_events(_TOOL, sys.monitoring.events.JUMP)  # each round of a loop has one
        self._then, self._idle = time.monotonic(), 0
        return True

    def _step(self, code: CodeType, *_: int) -> None:
        """Raise `TooLong` at a jump of the code that runs, when a limit has passed."""
        self._steps += 1
        if self._steps % self._each:
            return
        then, self._then = self._then, time.monotonic()
        passed = [*self._passed(self._then, then, _LONGEST)]
        self._each = 1 if passed or self._then - then > _SLOW else _EACH  # the next may be the one that nothing catches
        self._idle = 0 if self._limits else self._idle + 1
        if self._idle == _IDLE and sys.version_info >= (3, 12):
            sys.monitoring.set_events(_TOOL, 0)
            self._is_awake = False
        if passed:
            raise TooLong

    def _wake(self, *_: Any) -> None:
        """Return where a signal lands, in the main thread: what was about to wait there ends."""
        if any(limit.times_told and limit.thread == threading.get_ident() for limit in list(self._limits)):
            raise TooLong

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

"""One act at a time: neither another thread nor Ctrl-C comes in the middle of it.

Python lets an interrupt in between any two instructions, so also between taking a page and writing down whose it is.
No `try` closes that gap, for an interrupt comes just as well before the `try` or inside the `except`. So an act that
must be whole holds Ctrl-C back until it is done; it takes microseconds. What takes long, such as a model's forward
step, is not held back: an interrupt does no harm there.

Changing the handler of SIGINT costs more than a whole request, so it is not changed at every act: one handler is put
in place at the first act (and again whenever another has taken its place), and passes Ctrl-C on to the one that was
there before. It stays. While an act is under way it only remembers the call.
"""

from __future__ import annotations

import functools
import inspect
import signal
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any, Concatenate, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")
S = TypeVar("S", bound="Exclusive")

# `signal.getsignal` makes an enum of what it finds, which takes longer than all the rest here; this is what it wraps.
_handler_of: Callable[[int], Any] = inspect.unwrap(signal.getsignal)
_SIGINT = int(signal.SIGINT)


class _Deferral:
    """The handler of SIGINT: passes the call on, or remembers it while an act is under way (`depth` > 0)."""

    def __init__(self) -> None:
        self.depth = 0
        self.before: Callable[[int, FrameType | None], Any] = signal.default_int_handler
        self.call: tuple[int, FrameType | None] | None = None

    def __call__(self, number: int, frame: FrameType | None) -> Any:
        if not self.depth:
            return self.before(number, frame)
        self.call = number, frame
        return None

    def install(self) -> bool:
        """Whether Ctrl-C comes to us from now on; not where Python does not handle it at all."""
        before = _handler_of(_SIGINT)
        if before is not self:
            if not callable(before):  # ignored, left to the system, or another language's
                return False
            self.before = before
            signal.signal(signal.SIGINT, self)
        return True

    def deliver(self) -> None:
        """Do now what Ctrl-C would have done."""
        if self.call is not None:
            (number, frame), self.call = self.call, None
            self.before(number, frame)


_deferral = _Deferral()


def uninterrupted(act: Callable[P, R]) -> Callable[P, R]:
    """Decorate `act` so that Ctrl-C waits until it is done, and is raised then.

    Within another such act it waits for the outer one. Ctrl-C comes to the main thread only, so in any other thread
    there is nothing to hold back.

    >>> done = []
    >>> @uninterrupted
    ... def both():
    ...     done.append(1); signal.raise_signal(signal.SIGINT); done.append(2)
    >>> try:
    ...     both()
    ... except KeyboardInterrupt:
    ...     print(done)
    [1, 2]
    """

    @functools.wraps(act)
    def whole(*args: P.args, **kwargs: P.kwargs) -> R:
        main = threading.get_ident() == threading.main_thread().ident
        if not main or not (_handler_of(_SIGINT) is _deferral or _deferral.install()):
            return act(*args, **kwargs)
        _deferral.depth += 1
        try:
            return act(*args, **kwargs)
        finally:
            _deferral.depth -= 1
            if _deferral.call is not None and not _deferral.depth:
                _deferral.deliver()

    return whole


class Exclusive:
    """An object whose acts exclude each other: its methods that are decorated with `exclusive`.

    Any thread may call them. Copies and pickles have a lock of their own.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_lock"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, _lock=threading.RLock())


def exclusive(method: Callable[Concatenate[S, P], R]) -> Callable[Concatenate[S, P], R]:
    """Decorate a method of an `Exclusive` object: until it is done, other threads wait, and so does Ctrl-C.

    >>> class Pair(Exclusive):
    ...     left = right = 0
    ...     @exclusive
    ...     def add(self):
    ...         self.left += 1; self.right += 1
    >>> pair = Pair()
    >>> threads = [threading.Thread(target=pair.add) for _ in range(3)]
    >>> for thread in threads: thread.start()
    >>> for thread in threads: thread.join()
    >>> pair.left, pair.right
    (3, 3)
    """
    whole = uninterrupted(method)

    @functools.wraps(method)
    def one_at_a_time(self: S, /, *args: P.args, **kwargs: P.kwargs) -> R:
        with self._lock:
            return whole(self, *args, **kwargs)

    return one_at_a_time

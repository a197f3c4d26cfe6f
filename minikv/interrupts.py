"""One act at a time: neither another thread nor Ctrl-C comes in the middle of it.

Python may deliver an interrupt between any two instructions, so also between taking a page and recording its owner.
No `try` closes that gap, for an interrupt comes just as well before the `try` or inside the `except`. So an act that
must be whole holds Ctrl-C back until it is done; it takes microseconds. What takes long, such as a model's forward
step, is not held back: an interrupt does no harm there.

Changing the handler of SIGINT costs more than a whole request, so it is not changed at every act: ours is put in place
at the first act (and again when another has taken its place), and passes Ctrl-C on to the one that was there before.
It stays. While an act is under way it only remembers the call.

`asyncio.run` puts a handler of its own only where Python's is: after the first act, Ctrl-C is a plain
`KeyboardInterrupt` there.
"""

from __future__ import annotations

import functools
import os
import signal
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any, Concatenate, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")
S = TypeVar("S", bound="Exclusive")

try:  # `signal.getsignal` makes an enum of what it finds, which takes longer than all the rest here
    from _signal import getsignal as _handler_of  # type: ignore[import-not-found, unused-ignore]
except ImportError:
    from signal import getsignal as _handler_of
_SIGINT = int(signal.SIGINT)
_this_thread = threading.get_ident


class _Acts:
    """The state of the main thread: whether an act is under way, and the Ctrl-C that waits for its end."""

    def __init__(self) -> None:
        self.under_way = False
        self.waiting: Callable[[], Any] | None = None
        self.find_main_thread()

    def find_main_thread(self) -> None:
        """Only the main thread is told of Ctrl-C; in a child process another may have become it."""
        self.main_thread = threading.main_thread().ident

    def deliver(self) -> None:
        """Do now what Ctrl-C would have done."""
        waiting, self.waiting = self.waiting, None
        if waiting:
            waiting()


_acts = _Acts()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_acts.find_main_thread)


class _Deferral:
    """A handler of SIGINT: passes the call on to the one that was there `before`, but not while an act is under way.

    It never changes: a handler that puts back what it found there, or calls it, finds what it left.
    """

    def __init__(self, before: Callable[[int, FrameType | None], Any]):
        self.before = before

    def __call__(self, number: int, frame: FrameType | None) -> Any:
        _acts.waiting = functools.partial(self.before, number, frame)
        if not _acts.under_way:
            _acts.deliver()


def _installed() -> bool:
    """Put our handler of SIGINT in the place of the one that is there, if that is Python's or somebody's own."""
    handler = _handler_of(_SIGINT)
    if not callable(handler):  # ignored, left to the system, or another language's
        return False
    signal.signal(_SIGINT, _Deferral(handler))
    return True


def begin_act(lock: Any = None) -> bool:
    """Hold Ctrl-C back and wait for `lock`; return whether Ctrl-C waits for this act, which `end_act` needs to know.

    It waits for the outermost act of the main thread, if Python handles Ctrl-C. `begin_act` and `end_act` are for acts
    that a request calls again and again; for all others there are the decorators `exclusive` and `uninterrupted`.

    >>> outermost = begin_act()
    >>> try:
    ...     begin_act()
    ... finally:
    ...     end_act(outermost)
    False
    """
    inner = _acts.under_way or _this_thread() != _acts.main_thread
    outermost = not inner and (type(_handler_of(_SIGINT)) is _Deferral or _installed())
    if outermost:
        _acts.under_way = True
    if lock:
        try:
            lock.acquire()
        except BaseException:  # raised by the handler of another signal
            end_act(outermost)
            raise
    return outermost


def end_act(outermost: bool, lock: Any = None) -> None:
    """End what `begin_act` began: release `lock`, and let Ctrl-C through if it waited for this act."""
    if lock:
        lock.release()
    if outermost:
        _acts.under_way = False
        if _acts.waiting:
            _acts.deliver()


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
        outermost = begin_act()
        try:
            return act(*args, **kwargs)
        finally:
            end_act(outermost)

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

    @functools.wraps(method)
    def one_at_a_time(self: S, /, *args: P.args, **kwargs: P.kwargs) -> R:
        outermost = begin_act(self._lock)
        try:
            return method(self, *args, **kwargs)
        finally:
            end_act(outermost, self._lock)

    return one_at_a_time

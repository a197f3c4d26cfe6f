"""Who holds which lock: the receipts of a cache, and the words with which it refuses a handle."""

from __future__ import annotations

from typing import Any

from minikv.errors import LockError
from minikv.prefix.contract import Handle


class Receipts:
    """The locks that are held in a cache, by the handle that each was taken on.

    A handle belongs to the cache, and to its life since the last reset, whose `epoch` it carries. Which of them are
    stale for another reason the cache knows itself.

    >>> receipts = Receipts()
    >>> handle = Handle(receipts.epoch, node=None, length=3)
    >>> receipts.take(handle); receipts.take(handle); receipts.give_back(handle); receipts.held[handle]
    1
    >>> receipts.forget(3)
    Traceback (most recent call last):
    minikv.errors.LockError: cannot reset: 1 lock is held, protecting 3 tokens
    """

    __slots__ = ("epoch", "held")

    def __init__(self) -> None:
        self.epoch = object()
        self.held: dict[Handle, int] = {}

    def require(self, handle: Any, verb: str) -> None:
        """`handle` must be one of this cache: `TypeError` for another thing, `LockError` for another cache's."""
        if not isinstance(handle, Handle):
            raise TypeError(f"cannot {verb} a {type(handle).__name__}: expected the handle of a match or an insertion")
        if handle.epoch is not self.epoch:
            raise LockError(f"cannot {verb} {told(handle)}: another cache made it, or reset() came after")

    def require_lock(self, handle: Any, verb: str) -> None:
        """`handle` must hold a lock here."""
        self.require(handle, verb)
        if handle not in self.held:
            raise LockError(f"cannot {verb} {told(handle)}: it holds no lock")

    def take(self, handle: Handle) -> None:
        """Note one more lock of `handle`."""
        self.held[handle] = self.held.get(handle, 0) + 1

    def give_back(self, handle: Handle) -> None:
        """Note one lock fewer of `handle`, which holds one."""
        if self.held[handle] == 1:
            del self.held[handle]
        else:
            self.held[handle] -= 1

    def forget(self, protected: int) -> None:
        """Make all handles stale; `LockError` while any is locked, which protects so many tokens."""
        if self.held:
            locks = sum(self.held.values())
            held = "1 lock is held" if locks == 1 else f"{locks} locks are held"
            raise LockError(f"cannot reset: {held}, protecting {protected} tokens")
        self.epoch = object()


def told(handle: Handle) -> str:
    """A handle in words, for an error.

    >>> told(Handle(None, node=None, length=3))
    'the handle of length 3'
    """
    return f"the handle of length {handle.length}"

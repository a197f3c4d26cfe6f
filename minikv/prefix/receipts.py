"""Who holds which lock: the receipts of a cache, and the words with which it refuses a handle."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any, NoReturn

from minikv.errors import LockError, bounded
from minikv.prefix.contract import Handle


class Receipts:
    """The locks that are held in a cache, by the handle that each was taken on.

    A handle belongs to the cache, and to its life since the last reset, whose `epoch` it carries. Which of them are
    stale for another reason the cache knows itself.

    >>> receipts = Receipts()
    >>> handle = Handle(receipts.epoch, node=None, length=3)
    >>> receipts.take(handle); receipts.take(handle); receipts.give_back(handle), receipts.held[handle]
    (False, 1)
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
        if not isinstance(handle, Handle) or handle.epoch is not self.epoch:
            refuse(handle, verb)

    def require_lock(self, handle: Any, verb: str) -> None:
        """`handle` must hold a lock here."""
        self.require(handle, verb)
        if handle not in self.held:
            raise LockError(f"cannot {verb} {described(handle)}: it holds no lock")

    def require_start(self, start: Any, namespace: Hashable) -> None:
        """`start`, from which an insert is to go on, must hold a lock here, and belong to `namespace`."""
        self.require(start, "start from")
        require_start(start, self.held, namespace)

    def take(self, handle: Handle) -> None:
        """Note one more lock of `handle`."""
        self.held[handle] = self.held.get(handle, 0) + 1

    def give_back(self, handle: Handle) -> bool:
        """Note one lock fewer of `handle`, which holds one; whether that was its last."""
        if self.held[handle] == 1:
            del self.held[handle]
            return True
        self.held[handle] -= 1
        return False

    def forget(self, protected: int) -> None:
        """Make all handles stale; `LockError` while any is locked, which protects so many tokens."""
        require_unlocked(self.held, protected)
        self.epoch = object()


def refuse(handle: Any, verb: str) -> NoReturn:
    """Say why `handle` is none of this cache's: it is no handle at all, or another cache or epoch made it."""
    if not isinstance(handle, Handle):
        raise TypeError(f"cannot {verb} a {type(handle).__name__}: expected the handle of a match or an insertion")
    raise LockError(f"cannot {verb} {described(handle)}: another cache made it, or reset() came after")


def require_start(start: Handle, held: Mapping[Handle, int], namespace: Hashable) -> None:
    """`start`, a handle of this cache, must be locked, and belong to `namespace`: else wrong pages would be cached."""
    if start not in held:
        raise LockError(f"cannot start from {described(start)}: it is not locked, so it may be evicted")
    if start.namespace is not namespace and start.namespace != namespace:
        raise ValueError(f"start is in namespace {bounded(start.namespace)}, the tokens in {bounded(namespace)}")


def require_unlocked(held: Mapping[Handle, int], protected: int) -> None:
    """No handle may be locked; `LockError` says how many locks there are, and how many tokens they protect."""
    if held:
        locks = sum(held.values())
        count = "1 lock is held" if locks == 1 else f"{locks} locks are held"
        raise LockError(f"cannot reset: {count}, protecting {protected} tokens")


def described(handle: Handle) -> str:
    """A handle as errors name it: its length, and the number of its node if it has one.

    >>> described(Handle(None, node=None, length=3))
    'the handle of length 3'
    """
    number = getattr(handle.node, "id", None)
    return f"the handle of length {handle.length}" + (f" (node {number})" if number is not None else "")

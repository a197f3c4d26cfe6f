"""The live things of a playground: one cache, one pool, the locks that are held, and what each act does to them.

An act goes the way that a serving engine goes, so nothing leaks: whatever page is in use is in the tree.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from minikv.course.playground.steps import Settings, Step
from minikv.errors import InvariantError, LockError, OutOfPages
from minikv.pools import FreeListPool, page_slots, slot_pages
from minikv.prefix import Handle, Match, RadixCache
from minikv.testing.snapshot import ranges


@dataclass(frozen=True)
class Outcome:
    """What an act did, in `words`, and what to point out: `nodes` of the tree and `pages` of the pool by mark."""

    words: str
    nodes: dict[str, list[Any]] = field(default_factory=dict)
    pages: dict[str, list[int]] = field(default_factory=dict)


class Bench:
    """One cache over one pool of `settings.capacity` pages; `locks` has each held handle by its number.

    >>> bench = Bench(Settings(capacity=4))
    >>> bench.act(Step("insert", tokens=(1, 2, 3))).words
    '0 of 3 cached, 3 new in slots 0-2'
    >>> bench.act(Step("evict", number=1)).words
    '1 asked for, 3 freed: slots 0-2'
    """

    def __init__(self, settings: Settings):
        self.settings = settings
        self.cache = RadixCache(settings.page_size, settings.policy, settings.evict_by)
        self.pool = FreeListPool(settings.capacity)
        self.locks: dict[int, tuple[Handle, str]] = {}
        self._locks_taken = 0

    @property
    def free_size(self) -> int:
        """Tokens for which the pool has room now."""
        return self.pool.num_free * self.settings.page_size

    @property
    def protected_pages(self) -> list[int]:
        """The pages that a lock protects."""
        return self._pages(slot for node in self.cache.nodes() if node.ref_count for slot in node.slots)

    def act(self, step: Step) -> Outcome:
        """Do what `step` says, or raise the package's own error; after an error, throw this bench away."""
        acts = {"match": self._match, "insert": self._insert, "lock": self._lock, "unlock": self._unlock,
                "evict": self._evict, "reset": self._reset}  # fmt: skip
        return acts[step.verb](step)

    def check(self) -> None:
        """Cache and pool are sound, and every page is either free or cached, and that once; `InvariantError` if not.

        >>> bench = Bench(Settings(capacity=4))
        >>> _ = bench.pool.alloc(1)
        >>> bench.check()
        Traceback (most recent call last):
        minikv.errors.InvariantError: the tree holds pages [], but [0] are in use
        """
        self.cache.check()
        self.pool.check()
        cached = sorted(self._pages(slot for node in self.cache.nodes() for slot in node.slots))
        used = [page for page in range(self.pool.size) if not self.pool.is_free(page)]
        if cached != used:
            raise InvariantError(f"the tree holds pages {cached}, but {used} are in use")

    def _match(self, step: Step) -> Outcome:
        match, split = self._look_up(step)
        where = f" in {_slots(match.slots.tolist())}" if match.length else ""
        words = f"{match.length} of {len(step.tokens)} cached{where}{split}"
        return Outcome(words, {"matched": _path(match.handle)}, {"matched": self._pages(match.slots)})

    def _insert(self, step: Step) -> Outcome:
        """The whole way of a request: match, lock, make room, take pages, insert, give the tail back, unlock.

        There is one request at a time, so nobody computes the same tokens meanwhile and there are no duplicates.
        """
        match, split = self._look_up(step)
        self.cache.lock(match.handle)
        size, missing = self.settings.page_size, len(step.tokens) - match.length
        evicted = self._make_room(-(-missing // size))
        taken = self.pool.alloc(-(-missing // size))
        slots = np.concatenate([match.slots, page_slots(taken, size)[:missing]])
        done = self.cache.insert(step.tokens, slots, namespace=step.namespace, start=match.handle)
        kept = taken[: (done.length - match.length) // size]
        self.pool.free(taken[len(kept) :])
        self.cache.unlock(match.handle)

        words = f"{match.length} of {len(step.tokens)} cached"
        if len(kept):
            words += f", {done.length - match.length} new in {_slots(page_slots(kept, size).tolist())}"
        if evicted:
            words += f", evicted {len(evicted)} page{'s' * (len(evicted) > 1)} for it"
        if tail := len(step.tokens) - done.length:
            words += f", tail of {tail} not kept"
        return self._served(words + split, match, done.handle, kept.tolist(), evicted)

    def _served(self, words: str, match: Match, end: Handle, new: list[int], evicted: list[int]) -> Outcome:
        path = _path(end)
        nodes = {
            "matched": [node for node in path if node.end <= match.length],
            "new": [node for node in path if node.end > match.length],
        }
        gone = [page for page in evicted if self.pool.is_free(page)]  # the others were taken again at once
        return Outcome(words, nodes, {"matched": self._pages(match.slots), "new": new, "evicted": gone})

    def _lock(self, step: Step) -> Outcome:
        match, split = self._look_up(step)
        if not match.length:
            raise ValueError(f"there is nothing to lock: no page of {step.said} is cached in this namespace")
        self.cache.lock(match.handle)
        self._locks_taken += 1
        self.locks[self._locks_taken] = match.handle, f"{_tokens(match.length)} of {step.said}{step.where}"
        words = f"lock {self._locks_taken} holds {_tokens(match.length)}{split}"
        return Outcome(words, {"matched": _path(match.handle)}, {"matched": self._pages(match.slots)})

    def _unlock(self, step: Step) -> Outcome:
        if step.number not in self.locks:
            held = f"held are {', '.join(map(str, self.locks))}" if self.locks else "no lock is held"
            raise LockError(f"cannot give back lock {step.number}: {held}")
        handle, what = self.locks.pop(step.number)
        self.cache.unlock(handle)
        return Outcome(f"{what} given back", {"matched": _path(handle)})

    def _evict(self, step: Step) -> Outcome:
        slots = self.cache.evict(step.number)
        pages = self._pages(slots)
        self.pool.free(pages)
        words = f"{step.number} asked for, {len(slots)} freed"
        if len(slots):
            words += f": {_slots(slots.tolist())}"
        if len(slots) < step.number:
            locked = self.cache.protected_size
            words += f", {locked} protected by locks" if locked else ", nothing is left"
        return Outcome(words, {}, {"evicted": pages})

    def _reset(self, step: Step) -> Outcome:
        size, pages = self.cache.total_size, self._pages(slot for node in self.cache.nodes() for slot in node.slots)
        self.cache.reset()  # refused while anything is locked
        self.pool.free(pages)
        return Outcome(f"{_tokens(size)} forgotten")

    def _look_up(self, step: Step) -> tuple[Match, str]:
        """The match of the prompt, and a word on what matching did to the tree."""
        before = sum(1 for _ in self.cache.nodes())
        match = self.cache.match_prefix(step.tokens, namespace=step.namespace)
        return match, "; split a node" if sum(1 for _ in self.cache.nodes()) > before else ""

    def _make_room(self, needed: int) -> list[int]:
        """Evict until `needed` pages are free, and return the evicted ones; `OutOfPages`, in pages, if it cannot."""
        free, size = self.pool.num_free, self.settings.page_size
        if needed > free + self.cache.evictable_size // size:
            raise OutOfPages(needed, free, self.cache.evictable_size // size)
        pages = self._pages(self.cache.evict(max(0, needed - free) * size))
        self.pool.free(pages)
        return pages

    def _pages(self, slots: Iterable[int]) -> list[int]:
        pages: list[int] = slot_pages([int(slot) for slot in slots], self.settings.page_size).tolist()
        return pages


def _path(handle: Handle) -> list[Any]:
    path, node = [], handle.node
    while node.parent is not None:
        path.append(node)
        node = node.parent
    return path


def _tokens(count: int) -> str:
    return f"{count} token{'' if count == 1 else 's'}"


def _slots(slots: list[int]) -> str:
    return f"slot{'' if len(slots) == 1 else 's'} {ranges(slots)}"

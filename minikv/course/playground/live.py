"""The live parts of a playground: a cache, its pool, the locks that are held, and what each act does to them.

A prompt is served by a `CacheManager`, as in an engine, so nothing leaks: every page in use is in the tree.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from minikv.course.playground.steps import Settings, Step
from minikv.errors import InvariantError, LockError
from minikv.manager import CacheManager
from minikv.pools import page_slots, slot_pages
from minikv.prefix import Handle, Match, RadixCache
from minikv.testing.snapshot import ranges


@dataclass(frozen=True)
class StepOutcome:
    """What an act did, in `words`, and what to point out: `nodes` of the tree and `pages` of the pool by mark."""

    words: str
    nodes: dict[str, list[Any]] = field(default_factory=dict)
    pages: dict[str, list[int]] = field(default_factory=dict)


class LiveCache:
    """One cache over one pool of `settings.capacity` pages; `locks` has each held handle by its number.

    >>> live = LiveCache(Settings(capacity=4))
    >>> live.act(Step("insert", tokens=(1, 2, 3))).words
    '0 of 3 cached, 3 new in slots 0-2'
    >>> live.act(Step("evict", number=1)).words
    '1 asked for, 3 freed: slots 0-2'
    """

    def __init__(self, settings: Settings):
        self.settings = settings
        self.cache = RadixCache(settings.page_size, settings.policy, settings.evict_by)
        self.manager = CacheManager(settings.capacity, settings.page_size, self.cache)
        self.pool = self.manager.pool
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

    def act(self, step: Step) -> StepOutcome:
        """Do what `step` says, or raise the package's own error; after an error, throw this live cache away."""
        acts = {"match": self._match, "insert": self._insert, "lock": self._lock, "unlock": self._unlock,
                "evict": self._evict, "reset": self._reset}  # fmt: skip
        return acts[step.verb](step)

    def check(self) -> None:
        """Cache and pool are sound, and every page is either free or cached, and that once; `InvariantError` if not.

        >>> live = LiveCache(Settings(capacity=4))
        >>> _ = live.pool.alloc(1)
        >>> live.check()
        Traceback (most recent call last):
        minikv.errors.InvariantError: the tree holds pages [], but [0] are in use
        """
        self.cache.check()
        self.pool.check()
        cached = sorted(self._cached_pages())
        used = [page for page in range(self.pool.size) if not self.pool.is_free(page)]
        if cached != used:
            raise InvariantError(f"the tree holds pages {cached}, but {used} are in use")

    def _match(self, step: Step) -> StepOutcome:
        match, split = self._look_up(step)
        where = f" in {_slots(match.slots.tolist())}" if match.length else ""
        words = f"{match.length} of {len(step.tokens)} cached{where}{split}"
        return StepOutcome(words, {"matched": _path(match.handle)}, {"matched": self._pages(match.slots)})

    def _insert(self, step: Step) -> StepOutcome:
        """Serve the prompt: the whole life of a request, which may find all of its tokens cached."""
        manager, cache, known = self.manager, self.cache, self._last_slots()
        before, size_before = self._cached_pages(), cache.total_size
        sequence = manager.start(step.tokens, namespace=step.namespace, limit=len(step.tokens))
        reshaped, evicted = self._reshaped(known), (size_before - cache.total_size) // cache.page_size
        slots, cached = sequence.slots.tolist(), sequence.cached_length
        stored = len(slots) // cache.page_size * cache.page_size
        manager.advance(sequence)
        manager.finish(sequence)

        words = f"{cached} of {len(slots)} cached"
        if stored > cached:
            words += f", {stored - cached} new in {_slots(slots[cached:stored])}"
        if evicted:
            words += f", evicted {evicted} page{'s' * (evicted > 1)} for it"
        if len(slots) > stored:
            words += f", tail of {len(slots) - stored} not kept"
        gone = sorted(set(before) - set(self._cached_pages()))  # other evicted pages were taken again at once
        return self._served(words + reshaped, slots[:cached], slots[cached:stored], gone)

    def _served(self, words: str, matched: list[int], new: list[int], gone: list[int]) -> StepOutcome:
        marked = {"matched": matched, "new": new}
        nodes = {
            mark: [node for node in self.cache.nodes() if node.slots[0] in slots] for mark, slots in marked.items()
        }
        pages = {mark: self._pages(slots) for mark, slots in marked.items()}
        return StepOutcome(words, nodes, {**pages, "evicted": gone})

    def _lock(self, step: Step) -> StepOutcome:
        match, split = self._look_up(step)
        if not match.length:
            raise ValueError(f"there is nothing to lock: no page of {step.said} is cached in this namespace")
        self.cache.lock(match.handle)
        self._locks_taken += 1
        self.locks[self._locks_taken] = match.handle, f"{_tokens(match.length)} of {step.said}{step.where}"
        words = f"lock {self._locks_taken} holds {_tokens(match.length)}{split}"
        return StepOutcome(words, {"matched": _path(match.handle)}, {"matched": self._pages(match.slots)})

    def _unlock(self, step: Step) -> StepOutcome:
        if step.number not in self.locks:
            held = f"held are {', '.join(map(str, self.locks))}" if self.locks else "no lock is held"
            raise LockError(f"cannot give back lock {step.number}: {held}")
        handle, what = self.locks.pop(step.number)
        self.cache.unlock(handle)
        return StepOutcome(f"{what} given back", {"matched": _path(handle)})

    def _evict(self, step: Step) -> StepOutcome:
        evicted = self.cache.evict(step.number)
        self.pool.free(evicted)
        pages, slots = evicted.tolist(), page_slots(evicted, self.cache.page_size).tolist()
        words = f"{step.number} asked for, {len(slots)} freed"
        if slots:
            words += f": {_slots(slots)}"
        if len(slots) < step.number:
            locked = self.cache.protected_size
            words += f", {locked} protected by locks" if locked else ", nothing is left"
        return StepOutcome(words, {}, {"evicted": pages})

    def _reset(self, step: Step) -> StepOutcome:
        size, pages = self.cache.total_size, self._cached_pages()
        self.cache.reset()  # refused while anything is locked
        self.pool.free(pages)
        return StepOutcome(f"{_tokens(size)} forgotten")

    def _look_up(self, step: Step) -> tuple[Match, str]:
        """The match of the prompt, and in words what matching did to the nodes."""
        known = self._last_slots()
        match = self.cache.match_prefix(step.tokens, namespace=step.namespace)
        return match, self._reshaped(known)

    def _last_slots(self) -> dict[int, int]:
        """The last slot of each node, by the node's id."""
        return {node.id: node.slots[-1] for node in self.cache.nodes()}

    def _reshaped(self, known: dict[int, int]) -> str:
        """Whether nodes were split or joined since the tree had the `known` ones, in words."""
        now = self._last_slots()
        cached = {slot for node in self.cache.nodes() for slot in node.slots}
        joined = any(last in cached for node, last in known.items() if node not in now)
        return "; split a node" * bool(now.keys() - known.keys()) + "; joined nodes" * joined

    def _cached_pages(self) -> list[int]:
        return self._pages(slot for node in self.cache.nodes() for slot in node.slots)

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

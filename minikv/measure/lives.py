"""The life of a request in a race: how it begins and how it ends, in the manager and in a bare index.

    begin    match and lock all but the last token, make room, take slots for the prompt, which is computed now
             published: cache the prompt before the answer is generated
             read the row of slots, take slots for the answer
    finish   the answer is computed: cache the whole, free what is left over, unlock

A life is what the clock sees. `prepare` turns an exchange into what `begin` takes, and is not timed.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable
from typing import Any

import numpy as np

from minikv.manager import CacheManager, Sequence
from minikv.measure.workloads import Exchange
from minikv.pools import FreeListPool
from minikv.pools.contract import INT32
from minikv.prefix import PrefixCache
from minikv.tokens import PackedTokens, pack

ToTokens = Callable[[PackedTokens], Any]


class ManagerLife:
    """A request as the engine serves it: start, read the row, advance, perhaps checkpoint, extend, advance, finish.

    >>> from minikv import RadixCache
    >>> from minikv.measure.workloads import w1_chat
    >>> life = ManagerLife(RadixCache(), capacity=10_000, publish=False)
    >>> running, cached = life.begin(life.prepare(w1_chat(1).exchanges[0], lambda tokens: tokens))
    >>> life.finish(running); cached, life.manager.cache.total_size
    (0, 1582)
    """

    def __init__(self, cache: PrefixCache, capacity: int, publish: bool):
        self.manager = CacheManager(-(-capacity // cache.page_size), cache.page_size, cache)
        self.publish = publish

    def prepare(self, exchange: Exchange, tokens: ToTokens) -> Any:
        """Prompt and answer."""
        return tokens(exchange.prompt), tokens(exchange.answer)

    def begin(self, prepared: Any) -> tuple[Sequence, int]:
        """Start the prompt, read its row once, publish it if asked to, and extend it by the answer."""
        prompt, answer = prepared
        sequence = self.manager.start(prompt)
        sequence.next_chunk(sequence.length - sequence.computed)  # which an engine needs to compute the prompt
        self.manager.advance(sequence)
        if self.publish:
            self.manager.checkpoint(sequence)
        self.manager.extend(sequence, answer)
        return sequence, sequence.cached_length

    def finish(self, running: Sequence) -> None:
        """The answer is computed: finish the sequence."""
        self.manager.advance(running)
        self.manager.finish(running)


class IndexLife:
    """The bare index and the manager's pool, by the verbs that the manager calls and without its bookkeeping.

    Its rows are those of a page table, as in SGLang: the memory of a request that is over serves the next.

    >>> from minikv import RadixCache
    >>> from minikv.measure.workloads import w1_chat
    >>> life = IndexLife(RadixCache(16), capacity=10_000, publish=True)
    >>> running, cached = life.begin(life.prepare(w1_chat(1).exchanges[0], lambda tokens: tokens))
    >>> life.finish(running); cached, life.cache.total_size, life.pool.num_free
    (0, 1568, 527)
    """

    def __init__(self, cache: Any, capacity: int, publish: bool):
        self.cache = cache
        self.page_size = cache.page_size
        self.publish = publish
        self.passed_by = vars(type(cache)).get("insert_after") and type(cache).insert.__get__(cache)
        self.pool = FreeListPool(-(-capacity // cache.page_size))
        self.rows: list[memoryview] = []  # free ones

    def prepare(self, exchange: Exchange, tokens: ToTokens) -> Any:
        """The prompt and how many tokens of it may be cached, the full sequence and how many pages it fills."""
        full = exchange.full
        return tokens(exchange.prompt), len(exchange.prompt) - 1, tokens(full), -(-len(full) // self.page_size)

    def begin(self, prepared: Any) -> tuple[Any, int]:
        """Acquire, make room, write the row of pages."""
        prompt, limit, full, pages = prepared
        match = self.cache.acquire(prompt, limit=limit)
        cached = match.length // self.page_size
        row = self.rows.pop() if self.rows else memoryview(b"")
        if len(row) < pages:
            row = memoryview(array(INT32, bytes(8 * pages)))
        short = pages - cached - self.pool.num_free
        if short > 0:
            evicted = self.cache.evict(short * self.page_size)
            self.pool.free(evicted, sure=not isinstance(self.cache, FiveVerbs))  # somebody else's may be wrong
        match.copy_to(row)
        self.pool.alloc_to(row[cached:pages])
        held = self._publish(prompt, row, match) if self.publish else match
        return (full, row, pages, held), match.length

    def _publish(self, prompt: Any, row: memoryview, match: Any) -> Any:
        """Cache the prompt and lock it; where the index kept pages of its own, the row takes them."""
        held = self._insert(prompt, row, match)
        if held.prefix_length == match.length:
            self.cache.lock(held)
        else:
            held = self.cache.acquire(prompt, limit=held.length)
            held.copy_to(row)
        self.cache.unlock(match)
        return held

    def _insert(self, tokens: Any, row: memoryview, held: Any) -> Any:
        """Cache the whole pages of `tokens`, by `insert_after` where the manager would, and free duplicates."""
        first = held.length // self.page_size
        whole = len(tokens) // self.page_size
        if self.cache.insert == self.passed_by:
            rest = pack(tokens)[held.length : whole * self.page_size]
            done = self.cache.insert_after(held, rest.data, row[first:whole].tobytes())
        else:
            done = self.cache.insert(tokens, row[:whole], start=held)
        if done.prefix_length > held.length:
            self.pool.free(row[first : done.prefix_length // self.page_size])
        return done

    def finish(self, running: Any) -> None:
        """Insert all, free duplicates and the tail, unlock."""
        full, row, pages, held = running
        done = self._insert(full, row, held)
        kept = done.length // self.page_size
        if kept < pages:
            self.pool.free(row[kept:pages])
        self.cache.unlock(held)
        self.rows.append(row)


class FiveVerbs:
    """Any index with the five verbs and pages of one token, to be called as `IndexLife` calls the package's indexes.

    `match_prefix(tokens)` and `insert(tokens, slots)` return something with `length` and `handle`, and with `slots` or
    `prefix_length`; `lock(handle)` and `unlock(handle)` hold a handle; `evict(num_tokens)` returns slots.

    >>> from minikv import RadixCache
    >>> from minikv.measure.workloads import w1_chat
    >>> life = IndexLife(FiveVerbs(RadixCache()), capacity=10_000, publish=True)
    >>> running, cached = life.begin(life.prepare(w1_chat(1).exchanges[0], PackedTokens.tolist))
    >>> life.finish(running); cached, life.cache.index.evictable_size, life.pool.num_free
    (0, 1582, 8418)
    """

    page_size = 1

    def __init__(self, index: Any):
        self.index = index
        self.evict = index.evict

    def acquire(self, tokens: Any, limit: int) -> Held:
        """Match at most `limit` tokens and lock them."""
        found = self.index.match_prefix(tokens[:limit])
        self.index.lock(found.handle)
        return Held(found)

    def insert(self, tokens: Any, slots: memoryview, start: Any) -> Held:
        """Cache `tokens`; the index gets slots of its own, because the row is written again."""
        return Held(self.index.insert(tokens, memoryview(slots.tobytes()).cast("i")))

    def lock(self, held: Held) -> None:
        """Lock what was inserted."""
        self.index.lock(held.handle)

    def unlock(self, held: Held) -> None:
        """Unlock what was acquired."""
        self.index.unlock(held.handle)


class Held:
    """The tokens that an index with the five verbs has matched or inserted."""

    def __init__(self, found: Any):
        self.length = found.length
        self.handle = found.handle
        self.prefix_length = getattr(found, "prefix_length", 0)
        self._slots = getattr(found, "slots", [])

    def copy_to(self, row: memoryview) -> None:
        """Write the slots of a match into a row."""
        slots = self._slots
        row[: self.length] = array(INT32, slots) if isinstance(slots, list) else np.asarray(slots, np.int32).data


def verbs_life(index: Any, capacity: int, publish: bool) -> IndexLife:
    """The life of a request in an index that has only the five verbs."""
    return IndexLife(FiveVerbs(index), capacity, publish)

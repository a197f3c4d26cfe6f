"""The life of a request of a model with recurrent layers: a state is kept beside the pages, and named by a slot.

    slot    [ 0 ][ 1 ][ 2 ][ 3 ][ 4 ][ 5 ]        a page's slots, as everywhere: keys and values of one token each
    state                   ^         ^           the sum of all tokens up to this slot's, where it was worth keeping

A request continues where both are there: the keys and values of all tokens before, and the state after the last one of
them. A state exists only where a step ended, so a request says where its chunks should end: where the same prompt
could continue, asked again, and where it left another prompt. After vLLM's "align" mode, with its default retention.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Hashable
from typing import Any

from minikv.errors import OutOfPages, bounded, require, whole_number
from minikv.interrupts import exclusive, uninterrupted
from minikv.manager.manager import CacheManager
from minikv.manager.sequence import ABORTED, Sequence
from minikv.pools import FreeListPool, page_slots
from minikv.prefix import Insertion
from minikv.tokens import TokensLike, pack


def places_to_keep(length: int, hit: int, fork: int, step: int) -> list[int]:
    """The places whose state is worth keeping when a prompt of `length` tokens is computed from `hit` on, in order.

    They are whole `step` tokens: where the same prompt can continue, and where this one leaves another, at `fork`.

    Twin: `minikv.engine.ch15_layers.checkpoints`.

    >>> places_to_keep(30, hit=8, fork=18, step=4)
    [16, 28]
    """
    wanted = {(length - 1) // step * step, fork // step * step}
    return sorted(place for place in wanted if place > hit)


class StatePool(FreeListPool):
    """A `FreeListPool` of `size` pages of `page_size` tokens, with `num_states` states, each named by a slot.

    `state_of` has the number of the state that is named by a slot, the sum of all tokens up to its own. Of these the
    `cached` ones, the least recently used first, may go if there is no other room; running requests continue from the
    `held` ones; the `fresh` ones are being computed. A page that is freed takes its states along.

    >>> pool = StatePool(8, num_states=2)
    >>> pool.put(3), pool.put(5), pool.put(3)
    (0, 1, 0)
    >>> pool.keep(3); pool.put(7), pool.state_of
    (0, {5: 1, 7: 0})
    >>> pool.hold(5); pool.has(5), pool.has(7)
    (True, False)
    """

    def __init__(self, size: int, num_states: int, page_size: int = 1):
        super().__init__(size)
        self.states = FreeListPool(whole_number("num_states", num_states, 2, "a running request needs 2 states"))
        self.page_size = whole_number("page_size", page_size, 1, "a page holds at least 1 token")
        self.state_of: dict[int, int] = {}
        self.cached = OrderedDict[int, None]()
        self.held = Counter[int]()
        self.fresh = set[int]()

    @property
    def num_spare(self) -> int:
        """States that are free, or could be: those that are cached and no running request continues from."""
        return self.states.num_free + len(self.cached.keys() - self.held.keys())

    @uninterrupted
    def begin(self) -> None:
        """A step begins: what is left of one that failed is forgotten."""
        for slot in sorted(self.fresh):
            self.drop(slot)

    @uninterrupted
    def put(self, slot: int) -> int:
        """The number of the state of `slot`, which gets one if it has none; `OutOfPages` if there is no room for it."""
        if slot not in self.state_of:
            if not self.states.num_free:
                spare = next((other for other in self.cached if other not in self.held), None)
                if spare is None:
                    raise OutOfPages(1, 0, 0)
                self.drop(spare)
            (self.state_of[slot],) = self.states.alloc(1).tolist()
            self.fresh.add(slot)
        return self.state_of[slot]

    def has(self, slot: int) -> bool:
        """Return whether the state of `slot` is there, computed to its end."""
        return slot in self.cached or slot in self.held

    def keep(self, slot: int) -> None:
        """Let the cache have the state of `slot`, the most recently used from now on."""
        self.cached[slot] = None
        self.cached.move_to_end(slot)

    def drop(self, slot: int) -> None:
        """Forget the state of `slot`, if it has one."""
        self.cached.pop(slot, None)
        self.fresh.discard(slot)
        if slot in self.state_of:
            self.states.free([self.state_of.pop(slot)])

    def hold(self, slot: int) -> None:
        """A running request continues from the state of `slot`, which stays until `leave`."""
        self.held[slot] += 1
        self.fresh.discard(slot)

    def leave(self, slot: int) -> None:
        """One request fewer continues from the state of `slot`; without any, it goes unless it is cached."""
        self.held[slot] -= 1
        if not self.held[slot]:
            del self.held[slot]
            if slot not in self.cached:
                self.drop(slot)

    def move(self, slot: int, to_slot: int) -> None:
        """Let `to_slot` name what `slot` names: another slot of the same token, after the same tokens."""
        if slot == to_slot or slot not in self.state_of:
            return
        if slot in self.cached:
            self.keep(to_slot)
        if to_slot not in self.state_of:
            self.state_of[to_slot] = self.state_of.pop(slot)
        if slot in self.held:
            self.held[to_slot] += self.held.pop(slot)
        self.drop(slot)

    def free(self, pages: Any, sure: bool = False) -> None:
        """Push `pages` back, as `FreeListPool` does, and forget the states of their slots."""
        super().free(pages, sure)
        for slot in page_slots(pages, self.page_size).tolist() if self.state_of else ():
            self.drop(slot)

    def check(self) -> None:
        """Both kinds are sound; each state belongs to a slot of a page in use; each that is cached or held is there."""
        super().check()
        self.states.check()
        used = self.states.size - self.states.num_free
        numbers = {*self.state_of.values()}
        require(used == len(numbers) == len(self.state_of), f"{used} states are in use: {len(numbers)} have a slot")
        for slot in self.state_of:
            require(self.has(slot) != (slot in self.fresh), f"the state of slot {slot} is nobody's")
            require(not self.is_free(slot // self.page_size), f"slot {slot} has a state, but its page is free")
        for slot in (*self.cached, *self.held):
            require(slot in self.state_of, f"slot {slot} should have a state, and has none")
        require(min(self.held.values(), default=1) > 0, f"of the states held, some are by nobody: {self.held}")


class LayeredManager(CacheManager):
    """A `CacheManager` for a model with recurrent layers, over the pages and states of `pool`.

    `pool` is new, or kept for this manager alone. A cached prefix ends at whole `step` tokens (default: a page), where
    its state was kept. `store` is what the model writes to, a `LayeredStore` of the same pool. Each running request
    needs two states, the one that it continues from and the next one: `OutOfPages` where there are too few. What was
    computed cannot be taken back, because its state is gone: an engine cannot use drafts. The model takes states from
    the pool while it computes; no other thread may call the manager then, which an `Engine` takes care of.

    >>> manager = LayeredManager(StatePool(32, num_states=6))
    >>> def serve(tokens):
    ...     sequence = manager.start(tokens)
    ...     while sequence.computed < sequence.length:
    ...         manager.advance(sequence, sequence.next_stop - sequence.computed)
    ...     manager.finish(sequence)
    ...     return sequence.cached_length
    >>> [serve(tokens) for tokens in ([1, 2, 3, 4], [1, 2, 3, 4], [1, 2, 8, 8], [1, 2, 9, 9], [1, 2, 7])]
    [0, 3, 0, 2, 2]
    """

    pool: StatePool
    truncate = None  # type: ignore[assignment]

    def __init__(self, pool: StatePool, step: int | None = None, store: Any = None):
        if not isinstance(pool, StatePool):
            raise TypeError(f"pool is {bounded(pool)}: expected a StatePool")
        super().__init__(pool.size, pool.page_size, pool=pool, store=store)
        if getattr(store, "pool", pool) is not pool:
            raise ValueError(f"store is {bounded(store)}: expected one of the same pool")
        self.step = self.page_size if step is None else whole_number("step", step, 1, "a step is at least 1 token")
        if self.step % self.page_size:
            raise ValueError(f"step is {self.step}: expected a multiple of page_size, {self.page_size}")

    @exclusive
    def start(self, tokens: TokensLike, *, namespace: Hashable = None, spare: int = 0, limit: int | None = None
              ) -> Sequence:  # fmt: skip
        """As `CacheManager.start`; what is taken from the cache ends where a state is, too."""
        prompt, needed = pack(tokens), 2 * len(self._running) + 2
        if needed > self.pool.states.size:
            raise OutOfPages(needed, self.pool.num_spare, 0)
        most = max(0, len(prompt) - 1) if limit is None else limit
        slots = self.cache.match_prefix(prompt, limit=most, namespace=namespace).slots.tolist()
        alone = len(slots) // self.step * self.step
        hit = next((at for at in range(alone, 0, -self.step) if self.pool.has(slots[at - 1])), 0)
        sequence = super().start(prompt, namespace=namespace, spare=spare, limit=hit)
        sequence._stops = places_to_keep(len(prompt), hit, alone if alone > hit else 0, self.step)
        if hit:
            self._continue_from(sequence, slots[hit - 1])
        return sequence

    def _continue_from(self, sequence: Sequence, slot: int | None) -> None:
        """The sequence continues from the state of `slot`, and no longer from the one before."""
        before, sequence._state = sequence._state, slot
        if slot is not None:
            self.pool.hold(slot)
            if sequence.computed in sequence._stops or slot in self.pool.cached:
                self.pool.keep(slot)
        if before is not None:
            self.pool.leave(before)

    @exclusive
    def advance(self, sequence: Sequence, num_tokens: int | None = None) -> None:
        """As `CacheManager.advance`; the state after these tokens is there, and the one before them may go."""
        self._require(sequence, "advance")
        before = sequence.computed
        super().advance(sequence, num_tokens)
        if sequence.computed > before:
            slots = sequence._slots_of(sequence.computed)[before:].tolist()
            try:
                self.pool.put(slots[-1])
            except BaseException:
                sequence.computed = before
                raise
            self._continue_from(sequence, slots[-1])
            for slot in self.pool.fresh.intersection(slots):  # of a step that failed, and was not tried again
                self.pool.drop(slot)

    def _publish(self, sequence: Sequence, move_lock: bool = False) -> Insertion | None:
        """As `CacheManager`; where the cache keeps its own slots, these name the states that ours have named."""
        done = super()._publish(sequence, move_lock)
        if done is not None and done.prefix_length > sequence.shared:
            try:
                self._rename(sequence, done)
            except BaseException:
                self._release(sequence, ABORTED, done)
                raise
        return done

    def _rename(self, sequence: Sequence, done: Insertion) -> None:
        """The states of duplicates are named by the slots that the cache has kept."""
        length, own = done.prefix_length, sequence.slots
        theirs = self.cache.match_prefix(sequence.tokens, limit=length, namespace=sequence.namespace).slots
        for at in sorted({*sequence._stops, sequence.computed}):
            if sequence.shared < at <= length:
                self.pool.move(int(own[at - 1]), int(theirs[at - 1]))
        if sequence.computed <= length:
            sequence._state = int(theirs[sequence.computed - 1])

    def _release(self, sequence: Sequence, state: str, done: Insertion | None = None) -> None:
        """As `CacheManager`; the state that the sequence had goes, too, unless it is cached."""
        try:
            self._continue_from(sequence, None)
        finally:
            super()._release(sequence, state, done)

    @exclusive
    def check(self) -> None:
        """As `CacheManager.check`; and each sequence holds the state after what it has computed."""
        super().check()
        held = Counter[int]()
        for sequence in self.sequences:
            slot = int(sequence._slots_of(sequence.computed)[-1]) if sequence.computed else None
            require(sequence._state == slot, f"sequence {sequence.number} continues from the state of another slot")
            held.update([] if slot is None else [slot])
        require(held == self.pool.held, f"the sequences hold the states of {[*held]}, the pool {[*self.pool.held]}")

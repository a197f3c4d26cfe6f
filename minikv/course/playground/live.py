"""The live parts of a playground: a cache, its pool, what is locked and what runs, and what each act does to them.

A prompt is served by a `CacheManager`, as in an engine, so nothing leaks: every page in use is in the tree, or held by
a request that runs. A film of all of it is recorded, one frame a step.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from minikv.course.film import Film, record
from minikv.course.playground.steps import Settings, Step, label_text
from minikv.errors import InvariantError, LockError
from minikv.manager import CacheManager, Sequence
from minikv.pools import page_slots, slot_pages
from minikv.prefix import Handle, Match
from minikv.testing.snapshot import ranges, shorten


@dataclass(frozen=True)
class StepOutcome:
    """What an act did, in `words`, and of its prompt how many tokens were `cached`."""

    words: str
    cached: int = 0


class LiveCache:
    """One cache over one pool of `settings.capacity` pages; `locks` and `running` are by number.

    >>> live = LiveCache(Settings(capacity=4))
    >>> live.act(Step("insert", tokens=(1, 2, 3))).words
    '0 of 3 cached, 3 new in slots 0-2'
    >>> live.act(Step("evict", number=1)).words
    '1 asked for, 3 freed: slots 0-2'
    """

    def __init__(self, settings: Settings):
        self.settings = settings
        self.cache: Any = settings.make()  # of whatever design, it lists its nodes
        self.manager = CacheManager(settings.capacity, settings.page_size, self.cache)
        self.pool = self.manager.pool
        self.locks: dict[int, tuple[Handle, str]] = {}
        self.running: dict[int, tuple[Sequence, str]] = {}
        self._locks_taken = 0
        self._letters: set[int] = set()  # tokens that were typed as text
        self.film: Film = record(self.manager, label=self._label).start()

    def _label(self, tokens: list[Any]) -> str:
        """Tokens that were typed as text are shown as text, others as numbers."""
        return label_text(tokens) if self._letters.issuperset(tokens) else f"[{shorten(tokens)}]"

    def tell(self, step: Step) -> StepOutcome:
        """Do what `step` says as one step of the film, as `act` does it."""
        with self.film.step(str(step)):
            return self.act(step)

    def act(self, step: Step) -> StepOutcome:
        """Do what `step` says, or raise the package's own error; after an error, throw this live cache away."""
        acts = {"match": self._match, "insert": self._insert, "lock": self._lock, "unlock": self._unlock,
                "evict": self._evict, "reset": self._reset, "start": self._start, "publish": self._publish,
                "finish": self._end, "abort": self._end}  # fmt: skip
        if step.text:
            self._letters.update(step.tokens)
        return acts[step.verb](step)

    def check(self) -> None:
        """Cache and pool are sound, and each page is free, cached or held by a request, and that once.

        >>> live = LiveCache(Settings(capacity=4))
        >>> _ = live.pool.alloc(1)
        >>> live.check()
        Traceback (most recent call last):
        minikv.errors.InvariantError: the tree and the requests hold pages [], but [0] are in use
        """
        self.cache.check()
        self.pool.check()
        held = self._pages(slot for sequence, _ in self.running.values() for slot in sequence.owned.tolist())
        kept = sorted(self._cached_pages() + held)
        used = [page for page in range(self.pool.size) if not self.pool.is_free(page)]
        if kept != used:
            raise InvariantError(f"the tree and the requests hold pages {kept}, but {used} are in use")

    # -- prompts --------------------------------------------------------------------------------------------------

    def _match(self, step: Step) -> StepOutcome:
        match, split = self._look_up(step)
        where = f" in {_slots(match.slots.tolist())}" if match.length else ""
        return StepOutcome(f"{match.length} of {len(step.tokens)} cached{where}{split}", match.length)

    def _insert(self, step: Step) -> StepOutcome:
        """Serve the prompt: the whole life of a request, which may find all of its tokens cached."""
        known, sequence, evicted = self._open(step)
        reshaped = self._reshaped(known)
        slots, cached, size = sequence.slots.tolist(), sequence.cached_length, self.cache.page_size
        stored = len(slots) // size * size
        self.manager.advance(sequence)
        self.manager.finish(sequence)
        words = f"{cached} of {len(slots)} cached"
        if stored > cached:
            words += f", {stored - cached} new in {_slots(slots[cached:stored])}"
        if len(slots) > stored:
            evicted += f", tail of {len(slots) - stored} not kept"
        return StepOutcome(words + evicted + reshaped, cached)

    def _open(self, step: Step) -> tuple[dict[int, int], Sequence, str]:
        """Begin a request: what the nodes were, the sequence, and in words what was evicted for it."""
        known, size = self._last_slots(), self.cache.total_size
        sequence = self.manager.start(step.tokens, namespace=step.namespace, limit=len(step.tokens))
        evicted = (size - self.cache.total_size) // self.cache.page_size
        return known, sequence, f", evicted {evicted} page{'s' * (evicted > 1)} for it" if evicted else ""

    # -- locks and evictions --------------------------------------------------------------------------------------

    def _lock(self, step: Step) -> StepOutcome:
        match, split = self._look_up(step)
        if not match.length:
            raise ValueError(f"there is nothing to lock: no page of {step.said} is cached in this namespace")
        self.cache.lock(match.handle)
        self._locks_taken += 1
        self.locks[self._locks_taken] = match.handle, f"{_tokens(match.length)} of {step.said}{step.where}"
        return StepOutcome(f"lock {self._locks_taken} holds {_tokens(match.length)}{split}", match.length)

    def _unlock(self, step: Step) -> StepOutcome:
        if step.number not in self.locks:
            held = f"held are {', '.join(map(str, self.locks))}" if self.locks else "no lock is held"
            raise LockError(f"cannot give back lock {step.number}: {held}")
        handle, what = self.locks.pop(step.number)
        self.cache.unlock(handle)
        return StepOutcome(f"{what} given back")

    def _evict(self, step: Step) -> StepOutcome:
        evicted = self.cache.evict(step.number)
        self.pool.free(evicted)
        slots = page_slots(evicted, self.cache.page_size).tolist()
        words = f"{step.number} asked for, {len(slots)} freed"
        if slots:
            words += f": {_slots(slots)}"
        if len(slots) < step.number:
            locked = self.cache.protected_size
            words += f", {locked} protected by locks" if locked else ", nothing is left"
        return StepOutcome(words)

    def _reset(self, step: Step) -> StepOutcome:
        if self.running:
            raise LockError(f"cannot reset: {len(self.running)} running: finish or abort first")
        size, pages = self.cache.total_size, self._cached_pages()
        self.cache.reset()  # refused while anything is locked
        self.pool.free(pages)
        return StepOutcome(f"{_tokens(size)} forgotten")

    # -- requests that run on -------------------------------------------------------------------------------------

    def _start(self, step: Step) -> StepOutcome:
        _, sequence, evicted = self._open(step)
        self.running[sequence.number] = sequence, f"{step.said}{step.where}"
        cached, length = sequence.cached_length, sequence.length
        words = f"r{sequence.number} runs: {cached} of {length} cached, {length - cached} to compute{evicted}"
        return StepOutcome(words, cached)

    def _publish(self, step: Step) -> StepOutcome:
        """Compute what is left of the prompt, and publish it."""
        sequence, before = self._running(step), self.cache.total_size
        self.manager.advance(sequence)
        self.manager.checkpoint(sequence)
        return StepOutcome(f"all computed, {_tokens(self.cache.total_size - before)} more can be found by others")

    def _end(self, step: Step) -> StepOutcome:
        sequence, free = self._running(step), self.pool.num_free
        if step.verb == "finish":
            self.manager.advance(sequence)
            self.manager.finish(sequence)
        else:
            self.manager.abort(sequence)
        del self.running[step.number]
        freed = (self.pool.num_free - free) * self.settings.page_size
        kept = "what it computed is cached" if step.verb == "finish" else "what it had published stays"
        return StepOutcome(f"r{step.number} is over, {_tokens(freed)} freed, {kept}")

    def _running(self, step: Step) -> Sequence:
        if step.number not in self.running:
            raise ValueError("no request runs: type a prompt and press start")
        return self.running[step.number][0]

    # -- what happened to the nodes -------------------------------------------------------------------------------

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


def _tokens(count: int) -> str:
    return f"{count} token{'' if count == 1 else 's'}"


def _slots(slots: list[int]) -> str:
    return f"slot{'' if len(slots) == 1 else 's'} {ranges(slots)}"

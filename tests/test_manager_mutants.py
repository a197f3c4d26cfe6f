"""Careless cache managers, each with one mistake, and how the machine finds each out."""

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test
from manager_machine import ManagerAgainstModel

from minikv import CacheManager, LockError, pack
from minikv.manager.manager import FINISHED

pytestmark = pytest.mark.nightly  # it tests the tests


class NoLock(CacheManager):
    """The notebook: the match is not locked, and making room for the rest of the prompt evicts it."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.cache.acquire = self.cache.match_prefix
        self.cache.lock = self.cache.unlock = lambda handle: None
        insert = self.cache.insert
        self.cache.insert = lambda tokens, pages, *, namespace, start: insert(tokens, pages, namespace=namespace)


class RoomBeforeLock(CacheManager):
    """The notebook: what is evictable is asked before the lock, and counted on after it."""

    def start(self, tokens, *, namespace=None, spare=0, limit=None):
        tokens = pack(tokens)
        most = len(tokens) - 1 if limit is None else limit
        match = self.cache.match_prefix(tokens, limit=most, namespace=namespace)
        pages = -(-len(tokens) // self.page_size) - match.length // self.page_size
        if pages * self.page_size > self.available_size:
            return super().start(tokens, namespace=namespace, limit=limit)  # which says that there is no room
        self.cache.lock(match.handle)  # from here on it cannot fail, so nothing undoes this
        sequence = super().start(tokens, namespace=namespace, limit=limit)
        self.cache.unlock(match.handle)
        return sequence


class DuplicatesFreedRowKept(CacheManager):
    """mini-sglang#142: what the cache had already is freed, and the running request goes on reading it."""

    def _follow(self, sequence, done):
        row = sequence._row.copy()
        super()._follow(sequence, done)
        sequence._row[:] = row


class TailKeptOnFinish(CacheManager):
    """What is published is the cache's; the rest, half a page and what was not computed, is forgotten."""

    def _release(self, sequence, state, done=None):
        if state == FINISHED:
            sequence._num_pages = (sequence.shared if done is None else done.length) // self.page_size
        super()._release(sequence, state, done)


class DuplicatesKept(CacheManager):
    """The other half of it: the second request keeps what it computed twice."""

    def _publish(self, sequence, **options):
        done = super()._publish(sequence, **options)
        if done is not None:
            done.prefix_length = sequence.shared
        return done


class DoubleReleaseOnAbort(CacheManager):
    """SGLang#12224: two ways out, each of which frees."""

    def abort(self, sequence):
        self._require(sequence, "abort")
        pages = sequence.pages[sequence.shared // self.page_size :]
        super().abort(sequence)
        self.pool.free(pages)


class PublishesWhatIsNotComputed(CacheManager):
    """The slots are there, so they must be good: the last sampled token, and all that a chunk has not reached."""

    def _publish(self, sequence, **options):
        computed, sequence.computed = sequence.computed, sequence.length
        try:
            return super()._publish(sequence, **options)
        finally:
            sequence.computed = computed


class ForgetsToUnlockWithoutRoom(CacheManager):
    """The way out that nobody tried: no room, and the match stays locked for ever."""

    def start(self, tokens, *, namespace=None, spare=0, limit=None):
        unlock, self.cache.unlock = self.cache.unlock, lambda handle: None
        try:
            return super().start(tokens, namespace=namespace, limit=limit)
        finally:
            self.cache.unlock = unlock


class LockIsNotMoved(CacheManager):
    """What a checkpoint publishes may be evicted at once, while the sequence reads it."""

    def _follow(self, sequence, done):
        cache, before = self.cache, sequence._handle
        lock, acquire, unlock = cache.lock, cache.acquire, cache.unlock
        cache.lock, cache.acquire, cache.unlock = (lambda handle: None), cache.match_prefix, (lambda handle: None)
        try:
            super()._follow(sequence, done)
        finally:
            cache.lock, cache.acquire, cache.unlock = lock, acquire, unlock
        sequence._handle = before


class FreesWhatIsShared(CacheManager):
    """The whole row goes back to the pool, the cache's part of it too."""

    def _release(self, sequence, state, done=None):
        sequence.shared = 0
        super()._release(sequence, state, done)


class GivesAPageTwice(CacheManager):
    """The last page of a row is the first one again."""

    def start(self, tokens, **options):
        sequence = super().start(tokens, **options)
        row = sequence._row.data[: sequence._num_pages]
        row[-1] = row[0]
        return sequence


class ReadsBackwards(CacheManager):
    """What was found in the cache is put into the row in the wrong order."""

    def start(self, tokens, **options):
        sequence = super().start(tokens, **options)
        row = sequence._row.data[: sequence.shared // self.page_size]
        row[:] = row[::-1]
        return sequence


class PublishesOnAbort(CacheManager):
    """A request that failed is published like any other."""

    def abort(self, sequence):
        self.finish(sequence)


class TakesAPageTooMuch(CacheManager):
    """Each token that is generated takes a page."""

    def extend(self, sequence, tokens):
        super().extend(sequence, tokens)
        if self.pool.num_free:
            self.pool.alloc(1)


class PublishesADraft(CacheManager):
    """What was computed for a draft counts as computed for what comes in its place."""

    def truncate(self, sequence, length):
        computed = sequence.computed
        super().truncate(sequence, length)
        self.drafted = {**getattr(self, "drafted", {}), sequence.number: computed}

    def extend(self, sequence, tokens):
        super().extend(sequence, tokens)
        computed = getattr(self, "drafted", {}).pop(sequence.number, 0)
        sequence.computed = max(sequence.computed, min(computed, sequence.length))


class TruncatesWhatIsCached(CacheManager):
    """A length that is in the cache's part is accepted, and nothing happens."""

    def truncate(self, sequence, length):
        super().truncate(sequence, max(length, sequence.shared, 1))


class SharesNamespaces(CacheManager):
    """Two adapters share keys and values."""

    def start(self, tokens, *, namespace=None, **options):
        return super().start(tokens, **options)


class TakesNoTokens(CacheManager):
    """A request of no tokens is one of one token."""

    def start(self, tokens, **options):
        return super().start(tokens if tokens != [] else [0], **options)


class IgnoresTheLimit(CacheManager):
    """Takes from the cache whatever is there, and leaves the last token to compute as if nobody had said anything."""

    def start(self, tokens, *, limit=None, **options):
        return super().start(tokens, **options)


# Each with what must be said of it: by an audit, by the ledger, by the canary, or by whoever refuses; and the rule of
# `manager_machine` that it breaks.
MUTANTS = {
    NoLock: "the sequences read .* the cache protects 0|two owners",  # 4
    RoomBeforeLock: "the sequences read .* the cache protects",  # 5
    DuplicatesFreedRowKept: "has two owners|is read for",  # 9
    TailKeptOnFinish: "has no owner",  # 7
    DuplicatesKept: "has no owner",  # 7
    DoubleReleaseOnAbort: "is already free|given back to the pool, and",  # 7
    PublishesWhatIsNotComputed: "is read for token|shared .* computed",  # 6
    ForgetsToUnlockWithoutRoom: "the sequences read .* the cache protects",  # 5
    LockIsNotMoved: "its lock protects",  # 9
    FreesWhatIsShared: "as free, but it is\ncached|given back to the pool, and cached|has two owners|is read for",  # 7
}
# Those that break a rule for the model as well: the numbers are the rules.
UNKNOWN = [
    GivesAPageTwice,  # 1
    ReadsBackwards,  # 2
    IgnoresTheLimit,  # 3
    PublishesADraft,  # 6
    PublishesOnAbort,  # 8
    TakesAPageTooMuch,  # 10
    SharesNamespaces,  # 11
    TakesNoTokens,  # 12
    TruncatesWhatIsCached,  # 12
]


@pytest.mark.parametrize("mutant", [*MUTANTS, *UNKNOWN], ids=lambda mutant: mutant.__name__)
def test_the_machine_catches(mutant):
    """Those of `MUTANTS` in the words that fit, and not by a mere difference from the model."""
    words = MUTANTS.get(mutant)
    machine = type("Careless", (ManagerAgainstModel,), {"manager_type": mutant, "compares": not words})
    calm = [HealthCheck.filter_too_much, HealthCheck.too_slow]
    hunt = settings(max_examples=2000, stateful_step_count=30, phases=[Phase.generate], suppress_health_check=calm)
    with pytest.raises((AssertionError, LockError, ValueError, pytest.fail.Exception), match=f"(?s){words or ''}"):
        run_state_machine_as_test(machine, settings=hunt)

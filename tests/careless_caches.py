"""Careless prefix caches, one for each rule: what each gets wrong has been seen in a real engine, or nearly so."""

import random

from plain_cache import PlainCache

from minikv import RadixCache
from minikv.prefix.radix import _GONE


class TakesAnything(PlainCache):
    """Rule 1: whatever can be made a whole number is one."""

    def tokens_of(self, tokens):
        return tuple(map(int, tokens))


class KeepsTheBuffer(PlainCache):
    """Rule 2, the notebook: pages are a view of the caller's, which goes on changing."""

    def insert(self, tokens, pages, **options):
        done = super().insert(tokens, pages, **options)
        self.buffers = [*getattr(self, "buffers", ()), (done.keys, pages)]
        return done

    def match_prefix(self, tokens, **options):
        match = super().match_prefix(tokens, **options)
        for keys, pages in getattr(self, "buffers", ()):
            if match.keys and keys == match.keys and not isinstance(pages, tuple):
                match.found = [int(page) for page in pages][: len(match.keys)]
        return match


class MissesTheLastToken(PlainCache):
    """Rule 3: a prompt is searched up to its last token but one."""

    def match_prefix(self, tokens, *, limit=None, namespace=None):
        most = len(self.tokens_of(tokens)) - 1
        limit = most if limit is None else min(limit, most)
        return super().match_prefix(tokens, limit=max(0, limit), namespace=namespace)


class NeverHits(PlainCache):
    """Rule 3: everything is stored, and nothing is ever found."""

    def match_prefix(self, tokens, *, limit=None, namespace=None):
        super().match_prefix(tokens, limit=limit, namespace=namespace)
        match = self.place([])
        match.found = []
        return match


class TakesTheNewPages(PlainCache):
    """Rule 4: what is cached already gets the caller's pages, which the caller then frees."""

    def insert(self, tokens, pages, **options):
        done = super().insert(tokens, pages, **options)
        if options.get("start") is None:
            for key, page in zip(done.keys, self.pages_of(pages, self.tokens_of(tokens), 0)):
                self.table[key].page = page
        return done


class SplitForgetsTheLocks(RadixCache):
    """Rule 5: the upper half of a locked node is left unlocked."""

    def _split(self, node, num_pages):
        upper = super()._split(node, num_pages)
        if upper.ref_count:
            upper.ref_count = 0
            self._order.add([upper])
        return upper


class UnlocksInSilence(PlainCache):
    """Rule 6, AstrAI: what was never locked is unlocked without a word."""

    def unlock(self, handle):
        if handle in self.held:
            super().unlock(handle)


class FollowsTheJoins(RadixCache):
    """Rule 6: An evicted leaf forwards to its parent, and that to what it was joined with: other tokens, perhaps."""

    def _find_again(self, handle):
        while handle.node.ref_count == _GONE:
            handle.node = handle.node.parent
        return super()._find_again(handle)


class CountsTwice(PlainCache):
    """Rule 7, pymllm: extending a cached prefix counts the prefix again."""

    def insert(self, tokens, pages, **options):
        done = super().insert(tokens, pages, **options)
        if 0 < done.prefix_length < done.length:
            self.free += 1
        return done


class CountsAllEachTime(PlainCache):
    """Rule 7, its second half: a size is counted when somebody asks for it."""

    @property
    def evictable_size(self):
        count = 0
        for cached in self.table.values():
            count += not cached.locks
        return count * self.page_size


class ForgetsTheMatch(PlainCache):
    """Rule 8, the notebook and mini-sglang: a match is no use."""

    def match_prefix(self, tokens, **options):
        self.is_idle = True
        try:
            return super().match_prefix(tokens, **options)
        finally:
            self.is_idle = False

    def use(self, keys):
        if not getattr(self, "is_idle", False):
            super().use(keys)


class EvictsParentsFirst(PlainCache):
    """Rule 9, AstrAI: the oldest goes first, and the oldest is a parent."""

    def leaves(self):
        return [key for key, cached in self.table.items() if not cached.locks]


class SharesNamespaces(PlainCache):
    """Rule 10, pymllm: two adapters share keys and values."""

    def keys_of(self, tokens, namespace):
        return super().keys_of(tokens, None if namespace == "A" else namespace)


class ResetsUnderALock(PlainCache):
    """Rule 11, pymllm: a live lock is forgotten."""

    def reset(self):
        self.forget()


class ChecksNothing(PlainCache):
    """Rule 12, mini-sglang: `check_integrity` does nothing."""

    def check(self):
        pass


class ComplainsAboutLocks(PlainCache):
    """Rule 12, the other way round: what is right is an error."""

    def check(self):
        super().check()
        assert not self.kept


class ShufflesPages(PlainCache):
    """Rule 13: what is evicted comes back in any order."""

    def evict(self, num_tokens):
        freed = super().evict(num_tokens)
        random.shuffle(freed)
        return freed


class SortsByHash(PlainCache):
    """Rule 13: the order hangs on the hashes of the namespaces, which are others in every process."""

    def insert(self, tokens, pages, **options):
        done = super().insert(tokens, pages, **options)
        self.hashes = {**getattr(self, "hashes", {}), **{self.table[key].page: hash(key[0]) for key in done.keys}}
        return done

    def evict(self, num_tokens):
        return sorted(super().evict(num_tokens), key=lambda page: self.hashes[page])


class NeverJoins(RadixCache):
    """Rule 14, SGLang and mini-sglang: what was split stays split."""

    def _joinable(self, node, top=None):
        return []


class GivesSlots(PlainCache):
    """Rule 15: what is evicted is counted in slots, one a token."""

    def evict(self, num_tokens):
        return [page * self.page_size + i for page in super().evict(num_tokens) for i in range(self.page_size)]


CARELESS = {
    TakesAnything: 1, KeepsTheBuffer: 2, MissesTheLastToken: 3, NeverHits: 3, TakesTheNewPages: 4,
    SplitForgetsTheLocks: 5, UnlocksInSilence: 6, FollowsTheJoins: 6, CountsTwice: 7, CountsAllEachTime: 7,
    ForgetsTheMatch: 8, EvictsParentsFirst: 9, SharesNamespaces: 10, ResetsUnderALock: 11,
    ChecksNothing: 12, ComplainsAboutLocks: 12, ShufflesPages: 13, SortsByHash: 13, NeverJoins: 14,
    GivesSlots: 15,
}  # fmt: skip

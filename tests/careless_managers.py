"""Careless cache managers beyond those of `test_manager_mutants`: for the rules that none of them breaks."""

from __future__ import annotations

from minikv import CacheManager


class GivesAPageTwice(CacheManager):
    """Rule 1: the last page of a row is the first one again."""

    def start(self, tokens, **options):
        sequence = super().start(tokens, **options)
        row = sequence._row_of(0, sequence._num_pages)
        row[-1] = row[0]
        return sequence


class ReadsBackwards(CacheManager):
    """Rule 2: what was found in the cache is put into the row in the wrong order."""

    def start(self, tokens, **options):
        sequence = super().start(tokens, **options)
        row = sequence._row_of(0, sequence.shared // self.page_size)
        row[:] = row[::-1]
        return sequence


class UsesTheLastToken(CacheManager):
    """Rule 3: a prompt that is cached to its end leaves nothing to compute, and so no logits."""

    def start(self, tokens, *, namespace=None, spare=0, limit=None):
        limit = len(tokens) if limit is None else limit
        return super().start(tokens, namespace=namespace, spare=spare, limit=limit)


class PublishesOnAbort(CacheManager):
    """Rule 8: a request that failed is published like any other."""

    def abort(self, sequence):
        self.finish(sequence)


class TakesAPageTooMuch(CacheManager):
    """Rule 10: each token that is generated takes a page."""

    def extend(self, sequence, tokens):
        super().extend(sequence, tokens)
        if self.pool.num_free:
            self.pool.alloc(1)


class SharesNamespaces(CacheManager):
    """Rule 11: two adapters share keys and values."""

    def start(self, tokens, *, namespace=None, **options):
        return super().start(tokens, **options)


class TakesNoTokens(CacheManager):
    """Rule 12: a request of no tokens is one of one token."""

    def start(self, tokens, **options):
        return super().start(tokens if tokens != [] else [0], **options)


CARELESS_MANAGERS = {
    GivesAPageTwice: 1, ReadsBackwards: 2, UsesTheLastToken: 3, PublishesOnAbort: 8, TakesAPageTooMuch: 10,
    SharesNamespaces: 11, TakesNoTokens: 12,
}  # fmt: skip

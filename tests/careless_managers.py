"""Careless cache managers beyond those of `test_manager_mutants`: for the rules that none of them breaks."""

from __future__ import annotations

from minikv import CacheManager


class GivesAPageTwice(CacheManager):
    """Rule 1: the last page of a row is the first one again."""

    def start(self, tokens, **options):
        sequence = super().start(tokens, **options)
        row = sequence._row.data[: sequence._num_pages]
        row[-1] = row[0]
        return sequence


class ReadsBackwards(CacheManager):
    """Rule 2: what was found in the cache is put into the row in the wrong order."""

    def start(self, tokens, **options):
        sequence = super().start(tokens, **options)
        row = sequence._row.data[: sequence.shared // self.page_size]
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


class KeepsThePagesOfADraft(CacheManager):
    """Rule 10: the tokens that were guessed wrong go, and their pages stay."""

    def truncate(self, sequence, length):
        pages = sequence._num_pages
        super().truncate(sequence, length)
        self.pool.alloc(pages - sequence._num_pages)


class GivesBackHalfAPage(CacheManager):
    """Rule 10: the page in which the draft begins goes back, with the tokens before it."""

    def truncate(self, sequence, length):
        super().truncate(sequence, length)
        if length % self.page_size:
            self.pool.free(sequence.pages[-1:])


class PublishesADraft(CacheManager):
    """Rule 6: what was computed for a draft counts as computed for what comes in its place."""

    def truncate(self, sequence, length):
        computed = sequence.computed
        super().truncate(sequence, length)
        self.drafted = {**getattr(self, "drafted", {}), sequence.number: computed}

    def extend(self, sequence, tokens):
        super().extend(sequence, tokens)
        computed = getattr(self, "drafted", {}).pop(sequence.number, 0)
        sequence.computed = max(sequence.computed, min(computed, sequence.length))


class TruncatesWhatIsCached(CacheManager):
    """Rule 12: a length that is in the cache's part is accepted, and nothing happens."""

    def truncate(self, sequence, length):
        super().truncate(sequence, max(length, sequence.shared, 1))


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
    KeepsThePagesOfADraft: 10, GivesBackHalfAPage: 10, PublishesADraft: 6, TruncatesWhatIsCached: 12,
}  # fmt: skip

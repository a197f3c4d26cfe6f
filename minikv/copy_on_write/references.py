"""How many sequences have each page: one that nobody has is in the pool."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field

from minikv.errors import InvariantError, bounded
from minikv.pools.free_list import FreeListPool


@dataclass(eq=False)
class PagedSequence:
    """A sequence: its tokens and pages, how many tokens others may find and by which keys, where a draft begins."""

    tokens: list[int] = field(default_factory=list)
    pages: list[int] = field(default_factory=list)
    open_to: int = 0
    keys: list[bytes] = field(default_factory=list)
    draft_from: int | None = None


class References:
    """A count for each page of `pool`, and two totals: all references, and the pages that have more than one.

    >>> references = References(num_pages=4)
    >>> pages = references.pool.alloc(2).tolist(); references.hold(pages); references.hold(pages[:1])
    >>> references.let_go(pages), references.counts, references.pool.num_free
    ([1], [1, 0, 0, 0], 3)
    """

    def __init__(self, num_pages: int):
        self.pool = FreeListPool(num_pages)
        self.counts = [0] * num_pages
        self.total = self.num_shared = 0

    def hold(self, pages: Sequence[int]) -> None:
        """Count one reference more to each of `pages`."""
        for page in pages:
            self.counts[page] += 1
            self.num_shared += self.counts[page] == 2
        self.total += len(pages)

    def let_go(self, pages: Sequence[int]) -> list[int]:
        """Take a reference from each of `pages`; those with none left go back to the pool, and are returned."""
        for page in pages:
            self.counts[page] -= 1
            self.num_shared -= self.counts[page] == 1
        self.total -= len(pages)
        free = [page for page in pages if not self.counts[page]]
        self.pool.free(free)
        return free

    def check(self, sequences: Mapping[Hashable, PagedSequence], page_size: int) -> None:
        """Count again from the `sequences`; `InvariantError` names the first page that differs."""
        self.pool.check()
        expected = [0] * self.pool.size
        for name, sequence in sequences.items():
            needed = -(-len(sequence.tokens) // page_size)
            if len(sequence.pages) != needed:
                raise InvariantError(f"{bounded(name)} has {len(sequence.pages)} pages: its tokens need {needed}")
            for page in sequence.pages:
                expected[page] += 1
        for page, (refs, found) in enumerate(zip(self.counts, expected)):
            if refs != found:
                raise InvariantError(f"page {page} counts {refs} references: {found} sequences have it")
            if self.pool.is_free(page) != (not refs):
                raise InvariantError(f"page {page} has {refs} references: in the pool it is the other way around")
        counted, there = (self.total, self.num_shared), (sum(expected), sum(refs > 1 for refs in expected))
        if counted != there:
            raise InvariantError(f"(references, shared pages) are counted as {counted}: there are {there}")

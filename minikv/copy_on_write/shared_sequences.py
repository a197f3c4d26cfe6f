"""The sequences of a `CopyOnWrite`, how many of them have each page, and what can be asked about them."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

from minikv.copy_on_write.known_pages import KnownPages, PagedSequence
from minikv.copy_on_write.page_values import PageValues, PlainValues, StoreValues
from minikv.errors import InvariantError, bounded, whole_number
from minikv.interrupts import Exclusive, exclusive
from minikv.pools.free_list import FreeListPool


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


class SharedSequences(Exclusive):
    """Sequences by their names, the references to their pages, and the values in these.

    >>> from minikv import CopyOnWrite
    >>> cache = CopyOnWrite(num_pages=4, page_size=2)
    >>> _ = cache.attach("a", [1, 2, 3], "ABC")
    >>> cache.names(), cache.tokens("a"), cache.pages("a"), cache.references(0)
    (['a'], [1, 2, 3], [0, 1], 1)
    """

    def __init__(
        self,
        num_pages: int,
        page_size: int = 16,
        store: Any = None,
        *,
        declared: bool = True,
        discovered: bool = True,
    ):
        self._references = References(num_pages)
        self.pool = self._references.pool
        self.page_size = whole_number("page_size", page_size, 1, "a page holds at least 1 token")
        if store is not None and (store.num_pages, store.page_size) != (num_pages, page_size):
            has = f"{store.num_pages} pages of {store.page_size}"
            raise ValueError(f"the store has {has} tokens: expected {num_pages} of {page_size}")
        self.values: PageValues = PlainValues(num_pages, self.page_size) if store is None else StoreValues(store)
        self.declared, self.discovered = declared, discovered
        self._sequences: dict[Hashable, PagedSequence] = {}
        self._known = KnownPages(self.page_size)
        self._shares = 0
        super().__init__()

    # -- looking at it ----------------------------------------------------------------------------------------------

    @exclusive
    def get(self, name: Hashable) -> Any:
        """The values of a sequence, as copies: writing to them changes nothing here."""
        sequence = self._sequence(name)
        return self.values.read(sequence.pages, len(sequence.tokens))

    def names(self) -> list[Hashable]:
        """The names of all sequences, the one that was begun first in front."""
        return list(self._sequences)

    @exclusive
    def draft_length(self, name: Hashable) -> int:
        """How many of the last tokens of a sequence are a draft."""
        sequence = self._sequence(name)
        return 0 if sequence.draft_from is None else len(sequence.tokens) - sequence.draft_from

    def tokens(self, name: Hashable) -> list[int]:
        """The tokens of a sequence, those of a draft among them."""
        return list(self._sequence(name).tokens)

    def pages(self, name: Hashable) -> list[int]:
        """The pages of a sequence, in order."""
        return list(self._sequence(name).pages)

    def references(self, page: int) -> int:
        """How many sequences have `page`."""
        return self._references.counts[page]

    @exclusive
    def stats(self) -> dict[str, int]:
        """Eight figures: the sequences; all pages, those in use and those free; how often `attach` found something; by
        how many pages' tokens something can be found; the pages that more than one sequence has; and all references.

        >>> from minikv import CopyOnWrite
        >>> CopyOnWrite(num_pages=4).stats()["free_pages"]
        4
        """
        return {
            "total_sequences": len(self._sequences),
            "total_pages": self.pool.size,
            "allocated_pages": self.pool.size - self.pool.num_free,
            "free_pages": self.pool.num_free,
            "prefix_shares": self._shares,
            "prefix_map_size": len(self._known),
            "shared_pages_count": self._references.num_shared,
            "total_page_refs": self._references.total,
        }

    @exclusive
    def check(self) -> None:
        """Recompute every reference from the sequences; `InvariantError` names the first page that differs."""
        self._references.check(self._sequences, self.page_size)
        self._known.check(self._sequences)

    # -- sharing ----------------------------------------------------------------------------------------------------

    def _publish(self, sequence: PagedSequence) -> None:
        """Let the whole pages of a sequence be found, as far as that is allowed."""
        keys, size = sequence.keys, self.page_size
        end, last = min(sequence.open_to, len(sequence.tokens)) // size, keys[-1] if keys else b""
        if end > (begin := len(keys)):
            keys += self._known.publish(sequence.tokens[begin * size : end * size], sequence.pages[begin:end], last)

    def _let_go(self, pages: Sequence[int]) -> None:
        """Take a reference from each of `pages`; nobody finds those that go back to the pool."""
        for page in self._references.let_go(pages):
            self._known.forget(page)

    # -- what is asked for ------------------------------------------------------------------------------------------

    def _sequence(self, name: Hashable) -> PagedSequence:
        if name not in self._sequences:
            raise KeyError(f"there is no sequence {bounded(name)}")
        return self._sequences[name]

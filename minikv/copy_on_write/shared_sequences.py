"""The sequences of a `CopyOnWrite`: how many of them have each page, by which tokens a page can be found, what to ask.

A page is found by a key, made of its tokens and of the key before it:

    tokens   [ 1 2 ][ 3 4 ][ 5 6 ]
    keys      k0     k1     k2        k1 is made of k0 and 3 4: of all tokens before it, and of those in the page
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from itertools import takewhile
from typing import Any

from minikv.copy_on_write.page_values import PlainValues, StoreValues
from minikv.errors import InvariantError, bounded, require, whole_number
from minikv.interrupts import Exclusive, exclusive
from minikv.pools.free_list import FreeListPool
from minikv.tokens import TOKEN_BYTES, TokensLike, pack


@dataclass(eq=False)
class PagedSequence:
    """A sequence: its tokens and pages, how many tokens others may find and by which keys, where a draft begins."""

    tokens: list[int]
    pages: list[int]
    open_to: int
    keys: list[bytes]
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
        if free:
            self.pool.free(free)
        return free

    def check(self, sequences: Iterable[PagedSequence]) -> None:
        """Count again from the `sequences`; `InvariantError` names the first page that differs."""
        self.pool.check()
        expected = Counter(page for sequence in sequences for page in sequence.pages)
        for page, refs in enumerate(self.counts):
            if refs != expected[page]:
                raise InvariantError(f"references to page {page}: {refs} counted, expected {expected[page]}")
            if self.pool.is_free(page) == bool(refs):
                raise InvariantError(f"page {page} has {refs} references, but the pool disagrees")
        counted, there = (self.total, self.num_shared), (expected.total(), sum(refs > 1 for refs in expected.values()))
        require(counted == there, f"(references, shared pages) are counted as {counted}: there are {there}")


class KnownPages:
    """The whole pages that can be found by their tokens, several of them by the same ones.

    >>> known = KnownPages(page_size=2)
    >>> keys = known.publish([1, 2, 3, 4], [7, 5]); known.find([1, 2, 3, 4, 9])[0], known.find([3, 4])[0]
    ([7, 5], [])
    >>> known.forget(5); known.find([1, 2, 3, 4])[0]
    [7]
    """

    def __init__(self, page_size: int):
        self.page_size = page_size
        self._pages: dict[bytes, dict[int, None]] = {}  # for each key its pages, the oldest first
        self._keys: dict[int, bytes] = {}

    def keys_of(self, tokens: TokensLike, key: bytes = b"") -> Iterator[bytes]:
        """A key of 32 bytes for each whole page of `tokens`, after the page with `key`."""
        data, stride = pack(tokens).data, TOKEN_BYTES * self.page_size
        for at in range(0, len(data) // stride * stride, stride):
            key = sha256(key + data[at : at + stride]).digest()
            yield key

    def find(self, tokens: TokensLike) -> tuple[list[int], list[bytes]]:
        """The pages that hold the beginning of `tokens`, as far as there are any, and their keys."""
        keys = list(takewhile(self._pages.__contains__, self.keys_of(tokens)))
        return [next(iter(self._pages[key])) for key in keys], keys

    def publish(self, tokens: TokensLike, pages: Sequence[int], before: bytes = b"") -> list[bytes]:
        """Let `pages`, which hold `tokens`, be found after the page with the key `before`; the keys of the pages."""
        keys = list(self.keys_of(tokens, before))
        for page, key in zip(pages, keys):
            self._keys[page] = key
            self._pages.setdefault(key, {})[page] = None
        return keys

    def forget(self, page: int) -> None:
        """`page` holds other tokens from now on, or none: nobody finds it any more."""
        if (key := self._keys.pop(page, None)) is not None:
            del self._pages[key][page]
            if not self._pages[key]:
                del self._pages[key]

    def check(self, sequences: Mapping[Hashable, PagedSequence]) -> None:
        """Raise `InvariantError` unless keys and pages agree, and each sequence has published what it holds.

        >>> known = KnownPages(page_size=1)
        >>> keys = known.publish([1, 2], [7, 5])
        >>> known.check({"a": PagedSequence([1, 3], [7, 5], 2, keys)})
        Traceback (most recent call last):
        minikv.errors.InvariantError: page 5 of 'a' can be found, but not by its tokens and those before it
        """
        found = {page: key for key, pages in self._pages.items() for page in pages}
        agree = found == self._keys and all(self._pages.values())
        require(agree, f"{len(found)} pages can be found, but {len(self._keys)} have a key")
        nobodys = found.keys() - {page for sequence in sequences.values() for page in sequence.pages}
        require(not nobodys, f"page {min(nobodys, default=0)} can be found, and no sequence has it")
        for name, sequence in sequences.items():
            whose, keys = bounded(name), sequence.keys
            most = min(sequence.open_to, len(sequence.tokens)) // self.page_size
            require(len(keys) <= most, f"{len(keys)} pages of {whose} can be found: at most {most} may be")
            for page, key, expected in zip(sequence.pages, keys, self.keys_of(sequence.tokens)):
                what = f"page {page} of {whose} can be found, but not by its tokens and those before it"
                require(key == expected == found.get(page), what)

    def __len__(self) -> int:
        """Return how many different beginnings can be found; several pages may hold the end of one of them."""
        return len(self._pages)


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
        self.values: PlainValues | StoreValues = (
            PlainValues(num_pages, self.page_size) if store is None else StoreValues(store)
        )
        self.declared = declared
        self.discovered = discovered
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
        """The names of all sequences, the oldest first."""
        return list(self._sequences)

    @exclusive
    def draft_length(self, name: Hashable) -> int:
        """Return how many of the last tokens of a sequence are a draft."""
        sequence = self._sequence(name)
        return 0 if sequence.draft_from is None else len(sequence.tokens) - sequence.draft_from

    def tokens(self, name: Hashable) -> list[int]:
        """The tokens of a sequence, those of a draft among them."""
        return list(self._sequence(name).tokens)

    def pages(self, name: Hashable) -> list[int]:
        """The pages of a sequence, in order."""
        return list(self._sequence(name).pages)

    def references(self, page: int) -> int:
        """Return how many sequences have `page`."""
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
        for name, sequence in self._sequences.items():
            count, needed = len(sequence.pages), -(-len(sequence.tokens) // self.page_size)
            require(count == needed, f"{bounded(name)} has {count} pages: its tokens need {needed}")
        self._references.check(self._sequences.values())
        self._known.check(self._sequences)

    # -- sharing ----------------------------------------------------------------------------------------------------

    def _publish(self, sequence: PagedSequence) -> None:
        """Let others find the whole pages of a sequence, up to its token `open_to`."""
        begin, size = len(sequence.keys), self.page_size
        end = min(sequence.open_to, len(sequence.tokens)) // size
        before = sequence.keys[-1] if begin else b""
        tokens = sequence.tokens[begin * size : end * size]
        sequence.keys += self._known.publish(tokens, sequence.pages[begin:end], before)

    def _let_go(self, pages: Sequence[int]) -> None:
        """Take a reference from each of `pages`; nobody finds those that go back to the pool."""
        for page in self._references.let_go(pages):
            self._known.forget(page)

    # -- what is asked for ------------------------------------------------------------------------------------------

    def _sequence(self, name: Hashable) -> PagedSequence:
        if name not in self._sequences:
            raise KeyError(f"there is no sequence {bounded(name)}")
        return self._sequences[name]

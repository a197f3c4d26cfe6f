"""The shell around the pieces of a cache manager: it checks the input, and audits who owns each page.

A page belongs to the pool, to the cache, or to one request. With two owners it will be written by one of them while the
other reads it; with none it is lost. What a request reads from the cache must be there, under a lock of its own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from minikv.errors import InvariantError, OutOfPages, bounded, whole_number
from minikv.pools import Pages, page_slots
from minikv.tokens import PackedTokens, TokensLike, pack


class SequenceShell:
    """The part of a running request that no piece is about."""

    tokens: PackedTokens
    row: list[int]
    shared: int
    computed: int

    def __init__(self) -> None:
        self.number, self.page_size, self.cached_length, self.state = 0, 1, 0, "running"

    @property
    def length(self) -> int:
        """Return how many tokens it has."""
        return len(self.tokens)

    @property
    def slots(self) -> Pages:
        """The slot of each token, in order."""
        found: Pages = page_slots(self.row, self.page_size)[: self.length]
        return found

    def next_chunk(self, num_tokens: int) -> tuple[PackedTokens, Pages]:
        """The next `num_tokens` tokens to compute, and the slots of all tokens up to their end."""
        end = self.computed + num_tokens
        return self.tokens[self.computed : end], self.slots[:end]

    def __repr__(self) -> str:
        lengths = f"{self.length} tokens, cached={self.cached_length}, computed={self.computed}"
        return f"Sequence({self.number}, {self.state}, {lengths})"


class ManagerShell:
    """The part of a cache manager that no piece is about; the rest is `CacheManager` in `ch06_07_manager.py`."""

    pool: Any
    cache: Any  # which refuses a wrong `page_size`
    abort: Any

    def __init__(self, num_pages: int, page_size: int, store: Any):
        self.num_pages = whole_number("num_pages", num_pages, 1, "a manager has at least 1 page")
        self.page_size, self.store = page_size, store
        self.running, self._count = list[Any](), 0

    @property
    def available_size(self) -> int:
        """Tokens that could be given slots now: whole free pages, and what the cache could evict."""
        return int(self.pool.num_free * self.page_size + self.cache.evictable_size)

    @property
    def sequences(self) -> list[Any]:
        """The running sequences, in the order in which they were started."""
        return list(self.running)

    def pages_for(self, num_tokens: int) -> int:
        """Return how many pages hold `num_tokens` tokens."""
        return -(-num_tokens // self.page_size)

    def prompt(self, tokens: TokensLike) -> PackedTokens:
        """`tokens`, packed; `ValueError` if there are none."""
        packed = pack(tokens)
        if not len(packed):
            raise ValueError("tokens are empty: a request has at least 1 token")
        return packed

    def started(self, sequence: Any, spare: int) -> Any:
        """Number `sequence`, or end it and raise `OutOfPages` if fewer than `spare` pages remain available."""
        self._count += 1
        sequence.number, sequence.page_size, sequence.cached_length = self._count, self.page_size, sequence.shared
        if spare * self.page_size > self.available_size:
            self.abort(sequence)
            raise OutOfPages(spare, self.pool.num_free, self.cache.evictable_size // self.page_size)
        return sequence

    def advance(self, sequence: Any, num_tokens: int | None = None) -> None:
        """Say that the keys and values of the next `num_tokens` tokens (default: all) are in their slots now."""
        self.require(sequence)
        left = len(sequence.tokens) - sequence.computed
        rule = f"0 or more tokens are computed, and {left} of sequence {sequence.number} are left"
        sequence.computed += left if num_tokens is None else whole_number("num_tokens", num_tokens, 0, rule, left + 1)

    def allowed(self, sequence: Any, length: int) -> int:
        """`length`, if `sequence` can be cut to it: at least 1 token, and what the cache has, stay."""
        rule = f"sequence {sequence.number} keeps at least 1 token, and the {sequence.shared} that the cache has"
        return whole_number("length", length, max(1, sequence.shared), rule, sequence.length + 1)

    def require(self, sequence: Any) -> None:
        """`ValueError` unless `sequence` runs here."""
        if not any(sequence is running for running in self.running):
            raise ValueError(f"{bounded(sequence)} does not run here: it is over, or another manager started it")

    def audit(self, owners: Sequence[Sequence[str]]) -> None:
        """Raise `InvariantError` for the first page that has no owner or two, or is read or locked wrongly."""
        for fault in faults(self, owners):
            raise InvariantError(fault)
        self.cache.check()


def name_of(sequence: Any) -> str:
    """Return the name of a request: its number, from 1."""
    return f"request {sequence.number}"


def faults(manager: Any, owners: Sequence[Sequence[str]]) -> Iterator[str]:
    """Say in words what is wrong: a page that has no owner or two, or is read or locked wrongly. Only the first counts.

    `owners` are the names of each page's owners.

    >>> from minikv.engine import engine_world
    >>> world = engine_world()
    >>> manager = world["CacheManager"](4)
    >>> _ = manager.start([1, 2, 3])
    >>> manager.pool.free([2])
    >>> next(faults(manager, world["owners"](manager)))
    'page 2 has two owners: the pool and request 1'
    """
    for page, names in enumerate(owners):
        if len(names) > 1:
            yield f"page {page} has two owners: {names[0]} and {names[1]}"
    for page, names in enumerate(owners):
        if not names:
            yield f"page {page} has no owner: it is lost"
    readers = Counter[int]()
    for sequence in manager.running:
        name, locked = name_of(sequence), getattr(sequence.handle, "length", None)
        shared = sequence.row[: sequence.shared // manager.page_size]
        readers.update(shared)
        for page in shared:
            if (owner := owners[page][0]) != "the cache":
                yield f"{name} reads page {page} from the cache, but {owner} has it"
        if locked != sequence.shared:
            its_lock = "it has no lock" if locked is None else f"its lock is on {locked}"
            yield f"{name} shares {sequence.shared} tokens, but {its_lock}"
    for node in manager.cache.nodes():
        for page in node.slots:
            if node.locks != readers[page]:
                yield f"page {page} has {_count(node.locks, 'lock')} and {_count(readers[page], 'reader')}"


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"

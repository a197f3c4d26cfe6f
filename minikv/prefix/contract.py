r"""The contract of every prefix cache: eight verbs, three sizes, and the rules that they keep.

A prefix cache answers one question: which pages already hold the keys and values of the longest prefix of this
prompt? It never touches a tensor, and it does not own its pages: the caller frees what it evicts.

One request, in the order that is safe:

    match_prefix -> lock -> make room (evict) -> compute -> insert -> free the duplicates and the tail -> unlock
    \_____acquire______/

    tokens [0, match.length)       in the tree's pages, locked
           [.., prefix_length)     computed twice: the tree keeps its own pages, free ours
           [.., insertion.length)  in our pages, which are the tree's from now on
           [.., len(tokens))       the unaligned tail: its page is still ours
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, Union

import numpy as np

from minikv.errors import bounded, brief, whole_number
from minikv.pools.contract import INT32_CODES, PAGE_LIMIT, Pages
from minikv.pools.page_table import page_slots
from minikv.tokens import TokensLike, integers

_SIGN_BYTE = 3 if sys.byteorder == "little" else 0
_RULE = "a page is an integer in [0, 2**31)"
PagesLike = Union[Sequence[int], "array[int]", Any]


@dataclass(slots=True, eq=False, repr=False)
class Handle:
    """A place in a prefix cache: the end of a matched or inserted prefix, and what `lock` and `unlock` take.

    No verb changes it. It stays good when nodes split or are joined. It goes stale, and `lock` says so, when its end is
    evicted or the cache is reset; a locked handle cannot go stale. `length` counts tokens from the root. `source`,
    where the cache keeps it, is the packed prompt that it was made from: its first `length` tokens led to `node`.
    """

    epoch: object
    node: Any
    length: int
    namespace: Hashable = None
    source: bytes | None = None

    @property
    def handle(self) -> Handle:
        """The handle itself: a match and an insertion are handles."""
        return self

    def __repr__(self) -> str:
        return f"{type(self).__name__}(length={self.length})"


@dataclass(slots=True, eq=False, repr=False)
class Match(Handle):
    """The result of `match_prefix` and `acquire`: `length` tokens are cached in `pages`; it is its own `handle`.

    The pages stay put only while the match is locked. An index gives them as `parts`, the bytes of int32 pages in
    order. Of a `TieredCache` the next `host_length` tokens are in host memory.

    >>> from minikv import RadixCache
    >>> cache = RadixCache(page_size=2); _ = cache.insert([1, 2, 3, 4], pages=[7, 8])
    >>> match = cache.match_prefix([1, 2, 5]); match, match.slots.tolist()
    (Match(length=2, pages=[7]), [14, 15])
    """

    parts: Sequence[bytes] = ()
    host_length: int = 0

    @property
    def pages(self) -> Pages:
        """The pages of the matched tokens, in order: an int32 array that is the caller's own."""
        return np.frombuffer(bytearray().join(self.parts), np.int32)

    @property
    def slots(self) -> Pages:
        """The slots of the matched tokens, one per token, in order: an int32 array that belongs to the caller."""
        pages = self.pages
        return page_slots(pages, self.length // len(pages)) if len(pages) else pages

    def copy_to(self, row: memoryview) -> None:
        """Write the pages to the beginning of `row`, a memoryview of int32, with no array in between.

        >>> row, pages = memoryview(array("i", [0] * 3)), array("i", [7, 8])
        >>> Match(None, None, length=2, parts=[pages.tobytes()]).copy_to(row); row.tolist()
        [7, 8, 0]
        """
        if row.format not in INT32_CODES:
            raise TypeError(f"the row is a memoryview of {row.format!r}: a row holds int32, 'i'")
        memory, at = row.cast("B"), 0
        if self.length > len(row) and sum(map(len, self.parts)) > len(memory):  # no more pages than tokens
            raise ValueError(f"the row has room for {len(row)} pages: the match has {len(self.pages)}")
        for part in self.parts:
            end = at + len(part)
            memory[at:end] = part
            at = end

    def __repr__(self) -> str:
        more = f", host_length={self.host_length}" if self.host_length else ""
        return f"Match(length={self.length}, pages={brief(self.pages)}{more})"


@dataclass(slots=True, eq=False, repr=False)
class Insertion(Handle):
    """The result of `insert`: `prefix_length` tokens were already cached, `length` are cached now (whole pages).

    The caller frees the pages of its duplicates, the first `prefix_length` tokens (less what it got from the cache),
    and that of its unaligned tail, after `length`.

    >>> from minikv import RadixCache
    >>> cache = RadixCache(page_size=2)
    >>> cache.insert([1, 2, 3], pages=[4])
    Insertion(prefix_length=0, length=2)
    """

    prefix_length: int = 0

    def __repr__(self) -> str:
        return f"Insertion(prefix_length={self.prefix_length}, length={self.length})"


RULES = dict(
    enumerate(
        """\
tokens and pages are checked, and bad input changes nothing
keys and pages are copied in
a match is the longest cached prefix, and changes no content
insert stores whole pages, and keeps those that are there
a split or a join changes no size, no lock and no handle
a lock protects the path to the root until it is released
sizes are exact after every operation, in O(1)
the least recently used goes first: last match, insert or unlock
evict frees unlocked leaves, enough of them and no more
namespaces never share
reset forgets everything, or refuses while anything is locked
check finds every fault, and nothing else
the same operations give the same cache
nodes used together are joined
a page is one number, however many tokens it holds
""".splitlines(),
        start=1,
    )
)


class PrefixCache(Protocol):
    """The contract of every index: the rules that `minikv verify` checks, each with its short name in `RULES`.

    An index that keeps fewer of them has an attribute `claims`, the numbers of those that it keeps, and one to which
    not each verb of rule 8 is a use has an attribute `used_by`, those that are. A class that says
    `unique_pages = True` never has a page twice, so a manager frees what it evicts without looking at each page; a
    subclass has to say so again.

    An index may also have `nodes()`, a new list of every node but the roots, parents first. A node has `parent`,
    `tokens`, and `pages` or `slots`. Then a manager's audit names the owner of each page, `verify` looks for scars, and
    any design can be drawn and filmed. It may also have `insert_after(start, tokens, pages, move_lock=False)`, which
    inserts only what follows the locked handle `start`, and with `move_lock` lets one lock of `start` move on to the
    insertion, if nothing after `start` was cached already. Then a `CacheManager` calls it instead of `insert`. A
    subclass has to say this again as well.

    1. Tokens are one-dimensional integers in [0, 2**32), pages in [0, 2**31); bad input changes nothing.
    2. Keys are copied in: changing the caller's buffer later changes nothing.
    3. `match_prefix` gives the longest cached page-aligned prefix of at most `limit` tokens; it may split or join
       nodes, it changes no content or size.
    4. `insert` stores whole pages; tokens already there keep *their* pages. `start` continues from a locked handle.
    5. A split or a join changes no size, no lock and no handle.
    6. `lock` protects the path to the root, `unlock` replays exactly that, locks nest; anything else is a `LockError`.
    7. Sizes are exact after every operation, in O(1).
    8. Recency is a logical clock: last match, insert or unlock; an unlocked parent is never older than its child.
    9. `evict(n)` frees unlocked leaves, least recent first, until n tokens are free or nothing is left.
    10. A `namespace` isolates: equal tokens in two namespaces never match. (As in a dict, 1 and True are one name.)
    11. `reset` forgets everything, or raises `LockError` while anything is locked.
    12. `check` recomputes everything from scratch and raises `InvariantError`; a page cached twice is found too.
    13. Deterministic: same operations, same ids, same order, same picture.
    14. No scars: a match or an insert joins a node that it walks through with its only child, if both are equally
       recent, equally locked and equal in whatever else the policy reads. So does an insert with the nodes above its
       locked start, which their unlock will make equally recent. By pages, a join changes no victim.
    15. Pages are the unit: an index holds one number per page. With `page_size` 1 a page is a slot.
    """

    page_size: int

    @property
    def evictable_size(self) -> int:
        """Tokens that `evict` could free now."""

    @property
    def protected_size(self) -> int:
        """Tokens held by locks."""

    @property
    def total_size(self) -> int:
        """Tokens cached: evictable + protected."""

    def match_prefix(self, tokens: TokensLike, *, limit: int | None = None, namespace: Hashable = None) -> Match:
        """The longest cached prefix of `tokens`, of at most `limit` tokens."""

    def acquire(self, tokens: TokensLike, *, limit: int | None = None, namespace: Hashable = None) -> Match:
        """`match_prefix` and `lock` in one act, so that nothing can come in between."""

    def insert(
        self, tokens: TokensLike, pages: PagesLike, *, namespace: Hashable = None, start: Handle | None = None
    ) -> Insertion:
        """Cache `tokens`, whose keys and values lie in `pages`, one for each whole page of tokens."""

    def lock(self, handle: Handle) -> None:
        """Protect everything from the root to `handle` from eviction."""

    def unlock(self, handle: Handle) -> None:
        """Give back one lock that `lock` took on this handle."""

    def evict(self, num_tokens: int) -> Pages:
        """Free at least `num_tokens` tokens, or all that can be freed, and return their pages."""

    def reset(self) -> None:
        """Forget everything, or raise `LockError` while anything is locked."""

    def check(self) -> None:
        """Recompute every size, link, order and lock from scratch; raise `InvariantError` on the first difference."""


def page_bytes(pages: PagesLike, num_tokens: int, page_size: int, skip: int = 0) -> bytes:
    """Copy the pages of `num_tokens` tokens, less the first `skip`, which are not read, into the bytes of int32.

    There must be one page for each whole page of tokens; that of an unaligned tail may follow and is left out.

    >>> np.frombuffer(page_bytes(range(5), 10, page_size=2, skip=2), np.int32).tolist()
    [2, 3, 4]
    >>> np.frombuffer(page_bytes(memoryview(array("i", [4, 5])), 3, page_size=2), np.int32).tolist()
    [4]
    >>> page_bytes([4, -1], 2, page_size=1)
    Traceback (most recent call last):
    ValueError: pages[1] is -1: a page is an integer in [0, 2**31)
    """
    whole, given = num_tokens // page_size, -(-num_tokens // page_size)
    if type(pages) is memoryview and pages.format in INT32_CODES and pages.ndim == 1 and whole <= len(pages) <= given:
        packed = pages[skip:whole].tobytes()
        if packed[_SIGN_BYTE::4].isascii():
            return packed  # none is negative: ASCII has no high bit, and a sign is one
    values = integers(pages, "pages", _RULE, PAGE_LIMIT, skip)
    if not whole <= len(values) <= given:
        expected = "one page for each token" if page_size == 1 else f"one page for each {page_size} tokens"
        raise ValueError(f"{len(values)} pages for {num_tokens} tokens: expected {expected}")
    return values[skip:whole].astype(np.int32).tobytes()


def require_limit(limit: int | None, num_tokens: int) -> int:
    """The number of tokens to look at: all `num_tokens`, or at most `limit` of them.

    >>> require_limit(-1, 7)
    Traceback (most recent call last):
    ValueError: limit is -1: a match has at most that many tokens, 0 or more
    """
    if limit is None:
        return num_tokens
    return min(num_tokens, whole_number("limit", limit, 0, "a match has at most that many tokens, 0 or more"))


def require_wanted(num_tokens: int) -> int:
    """How many tokens `evict` is to free, or the error that says what is wrong with it.

    >>> require_wanted(-1)
    Traceback (most recent call last):
    ValueError: num_tokens is -1: evict frees 0 tokens or more
    """
    if type(num_tokens) is int and num_tokens >= 0:
        return num_tokens
    return whole_number("num_tokens", num_tokens, 0, "evict frees 0 tokens or more")


def require_hashable(namespace: Hashable) -> None:
    """Raise the `TypeError` that says so when `namespace` is not hashable, whatever its own `__hash__` raises.

    >>> require_hashable(["lora"])
    Traceback (most recent call last):
    TypeError: namespace is ['lora']: a namespace must be hashable
    """
    try:
        hash(namespace)
    except Exception as error:
        raise TypeError(f"namespace is {bounded(namespace)}: a namespace must be hashable") from error

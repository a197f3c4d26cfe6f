r"""The contract of every prefix cache: five verbs, three sizes, and what they promise.

A prefix cache answers one question: which slots already hold the keys and values of the longest prefix of this
prompt? It keeps book only. It never touches a tensor of keys and values, and it does not own the pool that slots
come from: what it no longer wants it hands back, and the caller frees it.

One request, in the order that is safe:

    match_prefix -> lock -> make room (evict) -> compute -> insert -> free the duplicates and the tail -> unlock
    \_____acquire______/

    tokens [0, match.length)       the tree's slots, locked
           [.., prefix_length)     computed twice: the tree keeps its own slots, free ours
           [.., insertion.length)  our slots, which are the tree's from now on
           [.., len(tokens))       the unaligned tail: still ours
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Hashable, Sequence
from typing import Any, Protocol, Union

import numpy as np
import numpy.typing as npt

from minikv.errors import bounded
from minikv.tokens import TokensLike, integers, to_numpy

SLOT_LIMIT = 2**31
_SIGN_BYTE = 3 if sys.byteorder == "little" else 0
_SLOT = ("a slot is an integer in [0, 2**31)", SLOT_LIMIT)
Slots = npt.NDArray[np.int32]
SlotsLike = Union[Sequence[int], "array[int]", Any]


class Handle:
    """A place in a prefix cache: the end of a matched or inserted prefix, and what `lock` and `unlock` take.

    It stays good when nodes above it split. It goes stale, and `lock` says so, when its node is evicted or trimmed
    or the cache is reset; a locked handle cannot go stale. `length` counts tokens from the root. `source`, where the
    cache keeps it, is the packed prompt that it was made from, whose first `length` tokens lead to `node`.
    """

    __slots__ = ("epoch", "length", "namespace", "node", "source")

    def __init__(self, epoch: object, node: Any, length: int, namespace: Hashable, source: bytes | None = None):
        self.epoch, self.node, self.length, self.namespace, self.source = epoch, node, length, namespace, source

    @property
    def handle(self) -> Handle:
        """The handle itself: a match and an insertion are one."""
        return self

    def __repr__(self) -> str:
        return f"{type(self).__name__}(length={self.length})"


class Match(Handle):
    """What `match_prefix` and `acquire` found: `length` tokens are cached in `slots`; it is its own `handle`.

    The tokens in those slots stay put only while it is locked. An index gives the slots as `parts`, the bytes of
    int32 slots in order; they are joined when somebody wants them.

    >>> from minikv import RadixCache
    >>> cache = RadixCache()
    >>> _ = cache.insert([1, 2, 3], [7, 8, 9])
    >>> cache.match_prefix([1, 2, 5])
    Match(length=2, slots=[7, 8])
    """

    __slots__ = ("_parts", "_slots")

    def __init__(  # not by way of Handle's: a request makes one of these, and a call costs as much as all of it
        self,
        epoch: object,
        node: Any,
        length: int,
        namespace: Hashable,
        source: bytes | None,
        parts: Sequence[bytes],
    ):
        self.epoch, self.node, self.length, self.namespace, self.source = epoch, node, length, namespace, source
        self._parts = parts
        self._slots: Slots | None = None

    @property
    def slots(self) -> Slots:
        """The slots, one a token, in order: an int32 array that is the caller's own."""
        if self._slots is None:
            self._slots = np.frombuffer(bytearray().join(self._parts), np.int32)
        return self._slots

    def copy_to(self, row: memoryview) -> None:
        """Write the slots to the beginning of `row`, a memoryview of int32, with no array in between.

        >>> from minikv import RadixCache
        >>> cache, row = RadixCache(), memoryview(array("i", [0] * 4))
        >>> _ = cache.insert([1, 2, 3], [7, 8, 9])
        >>> cache.match_prefix([1, 2, 5]).copy_to(row); row.tolist()
        [7, 8, 0, 0]
        """
        if len(row) < self.length:
            raise ValueError(f"the row has room for {len(row)} slots: the match has {self.length}")
        memory, at = row.cast("B"), 0
        for part in self._parts:
            end = at + len(part)
            memory[at:end] = part
            at = end

    def __repr__(self) -> str:
        return f"Match(length={self.length}, slots={brief(self.slots)})"


class Insertion(Handle):
    """What `insert` did: `prefix_length` tokens were there already, `length` are stored now (whole pages).

    The caller frees its duplicates `slots[:prefix_length]` (less what it got from the cache itself) and its
    unaligned tail `slots[length:]`. It is the `handle` of what is stored now.

    >>> from minikv import RadixCache
    >>> cache = RadixCache(page_size=2)
    >>> cache.insert([1, 2, 3], [4, 5, 6])
    Insertion(prefix_length=0, length=2)
    """

    __slots__ = ("prefix_length",)

    def __init__(
        self,
        epoch: object,
        node: Any,
        length: int,
        namespace: Hashable,
        source: bytes | None,
        prefix_length: int,
    ):
        self.epoch, self.node, self.length, self.namespace, self.source = epoch, node, length, namespace, source
        self.prefix_length = prefix_length

    def __repr__(self) -> str:
        return f"Insertion(prefix_length={self.prefix_length}, length={self.length})"


class PrefixCache(Protocol):
    """What every index here promises; thirteen rules, each with a test in `tests/test_contract.py`.

    1. Tokens are one-dimensional integers in [0, 2**32), slots in [0, 2**31); bad input changes nothing.
    2. Keys are copied in: changing the caller's buffer later changes nothing.
    3. `match_prefix` gives the longest cached page-aligned prefix; it may split a node, it changes no content or size.
    4. `insert` stores whole pages; tokens already there keep *their* slots. `start` continues from a locked handle.
    5. A split changes no size, no lock and nobody's handle.
    6. `lock` protects the path to the root, `unlock` replays exactly that, locks nest; anything else is a `LockError`.
    7. Sizes are exact after every operation, in O(1).
    8. Recency is a logical clock: last match, insert or unlock; an unlocked parent is never older than its child.
    9. `evict(n)` frees unlocked leaves, least recent first, until n tokens are free or nothing is left.
    10. A `namespace` isolates: equal tokens in two namespaces never match. (As in a dict, 1 and True are one name.)
    11. `reset` forgets everything, or raises `LockError` while anything is locked.
    12. `check` recomputes everything from scratch and raises `InvariantError`.
    13. Deterministic: same operations, same ids, same order, same picture.
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

    def match_prefix(self, tokens: TokensLike, *, namespace: Hashable = None) -> Match:
        """The longest cached prefix of `tokens`."""

    def acquire(self, tokens: TokensLike, *, namespace: Hashable = None) -> Match:
        """`match_prefix` and `lock` in one act, between which nothing can come."""

    def insert(
        self, tokens: TokensLike, slots: SlotsLike, *, namespace: Hashable = None, start: Handle | None = None
    ) -> Insertion:
        """Cache `tokens`, whose keys and values lie in `slots`."""

    def lock(self, handle: Handle) -> None:
        """Protect everything from the root to `handle` from eviction."""

    def unlock(self, handle: Handle) -> None:
        """Give back one lock that `lock` took on this handle."""

    def evict(self, num_tokens: int) -> Slots:
        """Free at least `num_tokens` tokens, or all that can be freed, and return their slots."""

    def reset(self) -> None:
        """Forget everything, or raise `LockError` while anything is locked."""

    def check(self) -> None:
        """Recompute every size, link, order and lock from scratch; raise `InvariantError` on the first difference."""


def slot_bytes(slots: SlotsLike, num_tokens: int, skip: int = 0) -> bytes:
    """Copy `slots[skip:]` into the bytes of int32; there must be one slot for each of `num_tokens` tokens.

    >>> np.frombuffer(slot_bytes(range(5), 5, skip=2), np.int32).tolist()
    [2, 3, 4]
    >>> slot_bytes([4, -1], 2)
    Traceback (most recent call last):
    ValueError: slots[1] is -1: a slot is an integer in [0, 2**31)
    """
    view: Any = slots
    if type(view) is not memoryview:
        view = _view(view) if type(view) in (np.ndarray, array) else None
    if view is not None and view.format == "i" and view.ndim == 1 and len(view) == num_tokens:
        packed: bytes = view[skip:].tobytes()
        if len(packed) > 4 * 2048:
            good = bool(np.frombuffer(packed, np.int32).min() >= 0)
        else:  # ASCII is what has no high bit, and a sign is one: a third of numpy's time for a short array
            good = packed[_SIGN_BYTE::4].isascii()
        if good:
            return packed
    values = integers(_without_first(slots, skip) if skip else slots, "slots", *_SLOT)
    if len(values) != num_tokens:
        raise ValueError(f"{len(values)} slots for {num_tokens} tokens: expected one slot for each token")
    return values[skip:].astype(np.int32).tobytes()


def _without_first(slots: Any, skip: int) -> Any:
    """`slots` with 0 for the first `skip`, which are not looked at, so that an error still counts from the first."""
    if isinstance(slots, (array, memoryview)) or hasattr(slots, "__array__"):
        items = to_numpy(slots, "slots").tolist()
    elif isinstance(slots, Sequence) and not isinstance(slots, (str, bytes, bytearray)):
        items = list(slots)
    else:
        return slots
    return [0] * min(skip, len(items)) + items[skip:]


def _view(slots: Any) -> memoryview | None:
    """The memory of an array, or `None` for one of a kind that has no memory to show (dates, objects)."""
    try:
        return memoryview(slots)
    except (TypeError, ValueError):
        return None


def require_hashable(namespace: Hashable) -> None:
    """Raise the `TypeError` that says so when `namespace` is not hashable.

    >>> require_hashable(["lora"])
    Traceback (most recent call last):
    TypeError: namespace is ['lora']: a namespace must be hashable
    """
    try:
        hash(namespace)
    except TypeError:
        raise TypeError(f"namespace is {bounded(namespace)}: a namespace must be hashable") from None


def brief(values: Any, most: int = 8) -> str:
    """The first few of many numbers, for a repr: `[1, 2, 3, ... 900 in all]`.

    >>> brief(range(900), 3)
    '[0, 1, 2, ... 900 in all]'
    """
    shown = ", ".join(str(int(value)) for value in values[:most])
    return f"[{shown}, ... {len(values)} in all]" if len(values) > most else f"[{shown}]"

"""The canary: a store that keeps, in place of keys and values, what they would have been computed from.

Keys and values depend on a token, its position and everything before it. So the canary writes just that into each
slot: the token, the position and a fingerprint of the whole prefix. To read a slot for a prefix that it does not hold
is an error at once, which says what is there and who put it there; a real engine would go on and answer nonsense.
SGLang has such a canary on the GPU; this one needs no GPU and no model.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from contextlib import AbstractContextManager
from hashlib import blake2b
from typing import Any, NamedTuple

from minikv.errors import InvariantError, bounded, whole_number
from minikv.pools import page_slots
from minikv.testing.ledger import CACHE_VERBS, given_pages
from minikv.testing.snapshot import plain, walk
from minikv.testing.watch import Call, require_verbs, watch
from minikv.tokens import integers, pack


class CanaryError(InvariantError):
    """A slot is read for a prefix that it does not hold; the message says which, what it holds, and since when.

    >>> Canary().read([1], [5])
    Traceback (most recent call last):
    minikv.testing.canary.CanaryError: slot 5 is read for token 1 at position 0 of [1],
    but nothing was ever computed into it
    """


class Mark(NamedTuple):
    """What a slot holds: the `token`, its `position`, the `fingerprint` of the prefix it ends, and who wrote it."""

    token: int
    position: int
    fingerprint: bytes
    step: int
    words: str


class Canary(AbstractContextManager["Canary"]):
    """Slots that remember what was computed into them; `write` as an engine computes, `read` as attention reads.

    With a `cache` it attaches itself: what an insert adds is written, what a match returns is read, and after
    every operation `sweep` reads all that the cache holds. Attach it while the cache is empty. With `writes=False` it
    leaves the writing to the engine.

    >>> from minikv import RadixCache
    >>> cache = RadixCache()
    >>> with Canary(cache):
    ...     _ = cache.insert([1, 2, 3], [0, 1, 2])
    ...     _ = cache.insert([7, 8], [2, 3])               # slot 2 is in use: this overwrites it
    Traceback (most recent call last):
    minikv.testing.canary.CanaryError: operation 2, insert [7, 8]: slot 2 is read for token 3 at position 2 of [1, 2, 3],
    but holds token 7 at position 0, written by operation 2 (insert [7, 8])
    """  # noqa: E501 - one line of the error, which the doctest compares

    def __init__(self, cache: Any = None, writes: bool = True):
        self._marks: dict[int, Mark] = {}
        self._seeds: dict[Hashable, bytes] = {}  # namespaces that are equal are one, whatever they look like
        self._cache, self._writes = cache, writes
        self.step = 0
        self._where = ""
        if cache is not None:
            require_verbs("cache", cache, CACHE_VERBS)
        self._stop: Callable[[], None] | None = watch(cache, CACHE_VERBS, self._hear) if cache is not None else None

    def close(self) -> None:
        """Stop watching."""
        if self._stop is not None:
            self._stop()

    def __exit__(self, *_: Any) -> None:
        self.close()

    def write(self, tokens: Any, slots: Any, start: int = 0, namespace: Hashable = None, words: str = "") -> None:
        """Compute `tokens[start:]` into `slots[start:]`; the tokens before are what they are computed from."""
        listed, prints = pack(tokens).tolist(), fingerprints(tokens, self._seed(namespace))
        to = integers(plain(slots), "slots", "a slot is an integer in [0, 2**31)", 2**31)
        if len(to) < len(listed):
            raise ValueError(f"{len(to)} slots for the {len(listed)} tokens {bounded(listed)}: expected as many")
        for position in range(whole_number("start", start, 0, "tokens count from 0"), len(listed)):
            mark = Mark(listed[position], position, prints[position], self.step, words or f"write {bounded(listed)}")
            self._marks[int(to[position])] = mark

    def read(self, tokens: Any, slots: Any, namespace: Hashable = None, start: int = 0) -> None:
        """Every slot must hold its token, at its position, behind exactly these tokens; `CanaryError` if not.

        With a `start`, `slots[start:]` alone are read, as by a layer that sees only the last tokens.
        """
        listed, prints, given = pack(tokens).tolist(), fingerprints(tokens, self._seed(namespace)), plain(slots)
        if len(given) != len(listed):
            raise CanaryError(
                f"{self._where}{len(given)} slots are read for the {len(listed)} tokens {bounded(listed)}"
            )
        for position, slot in enumerate(given[start:], start):
            mark = self._marks.get(int(slot))
            if mark is None or (mark.position, mark.fingerprint) != (position, prints[position]):
                raise CanaryError(self._explain(int(slot), position, listed, mark))

    def mark(self, slot: int) -> Mark | None:
        """What `slot` holds, `None` if nothing was ever computed into it."""
        return self._marks.get(slot)

    def _explain(self, slot: int, position: int, tokens: list[int], mark: Mark | None) -> str:
        wanted = f"{self._where}slot {slot} is read for token {tokens[position]} at position {position}"
        wanted += f" of {bounded(tokens)},\n"
        if mark is None:
            return f"{wanted}but nothing was ever computed into it"
        by = f"written by operation {mark.step} ({mark.words})" if mark.step else f"since {mark.words}"
        if (mark.token, mark.position) == (tokens[position], position):
            return f"{wanted}but holds that token behind another prefix, {by}"
        return f"{wanted}but holds token {mark.token} at position {mark.position}, {by}"

    def _seed(self, namespace: Hashable) -> bytes:
        return self._seeds.setdefault(namespace, len(self._seeds).to_bytes(8, "little"))

    def sweep(self) -> None:
        """Read every slot that the cache holds, from each of its roots down."""
        spots = list(walk(self._cache))
        inner = {spot.parent for spot in spots}
        held: list[tuple[list[int], list[int]]] = []  # by everything from the root to each spot
        for place, spot in enumerate(spots):
            tokens, slots = held[spot.parent] if spot.parent is not None else ([], [])
            held.append((tokens + spot.tokens, slots + spot.slots))
            if place not in inner:
                self.read(*held[-1], spot.namespace)

    # -- attached to a cache ----------------------------------------------------------------------------------------

    def _hear(self, call: Call) -> None:
        self.step += 1
        said = bounded(plain(call.arguments["tokens"])) if "tokens" in call.arguments else ""
        words = f"{call.verb} {said}".strip()
        self._where = f"operation {self.step}, {words}: "
        try:
            if call.error is None and call.verb in ("insert", "match_prefix", "acquire"):
                self._after(call, words)
            self.sweep()
        finally:
            self._where = ""

    def _after(self, call: Call, words: str) -> None:
        given = call.arguments
        namespace = given.get("namespace")
        if call.verb != "insert":
            self.read(pack(given["tokens"])[: call.result.length], call.result.slots, namespace)
        elif self._writes:
            start = given["start"].length if given.get("start") is not None else call.result.prefix_length
            slots = page_slots(plain(given_pages(call)), getattr(self._cache, "page_size", 1))
            self.write(pack(given["tokens"])[: call.result.length], slots, start, namespace, words)


def fingerprints(tokens: Any, seed: bytes = b"") -> list[bytes]:
    """For each token the fingerprint of the prefix that it ends: 8 bytes, chained from the one before.

    `seed` stands before the first token; each namespace has its own.

    >>> a, b = fingerprints([1, 2, 3]), fingerprints([9, 2, 3])
    >>> a[1] == b[1], a == fingerprints([1, 2, 3]), a == fingerprints([1, 2, 3], b"lora")
    (False, True, False)
    """
    last = blake2b(seed, digest_size=8).digest()
    found = []
    for token in pack(tokens):
        last = blake2b(last + token.to_bytes(4, "little"), digest_size=8).digest()
        found.append(last)
    return found

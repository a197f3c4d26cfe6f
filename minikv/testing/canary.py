"""The canary: a store that keeps, in place of keys and values, what they would have been computed from.

Keys and values depend on a token, its position and everything before it. So the canary writes just that into each
slot: the token, the position and a fingerprint of the whole prefix. To read a slot for a prefix that it does not hold
is an error at once, which says what is there and who put it there; a real engine would continue and answer nonsense.
SGLang has such a canary on the GPU; this one needs no GPU and no model.

Its models compute fingerprints in place of tensors, and read marks where attention would read keys and values: those
in a row must be of one prefix, from its first token on. What they answer depends on that whole prefix and on nothing
else, so the tokens that come out are the same whatever was cached.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Sequence
from contextlib import ExitStack
from hashlib import blake2b
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from minikv.errors import InvariantError, bounded, whole_number
from minikv.pools import WindowedPool, page_slots
from minikv.sizing import KVShape
from minikv.testing.ledger import CACHE_VERBS, call_words, given_pages
from minikv.testing.snapshot import plain, walk
from minikv.testing.watch import Call, require_verbs, watch
from minikv.tokens import TOKEN_LIMIT, end_tokens, integers, pack


class CanaryError(InvariantError):
    """A slot is read for a prefix that it does not hold; the message says which, what it holds, and since when.

    >>> Canary().read([1], [5])
    Traceback (most recent call last):
    minikv.testing.canary.CanaryError: slot 5 is read for token 1 at position 0 of [1],
    but nothing was ever computed into it
    """


class Mark(NamedTuple):
    """The contents of a slot: the `token`, its `position`, the `fingerprint` of its prefix, and who wrote it."""

    token: int
    position: int
    fingerprint: bytes
    step: int
    words: str


class Canary(ExitStack):
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
        self._marks: dict[int, Mark | None] = {}
        self._seeds: dict[Hashable, bytes] = {}  # namespaces that are equal are one, whatever they look like
        self._cache, self._writes = cache, writes
        self.step = 0
        self._where = ""
        super().__init__()
        if cache is not None:
            require_verbs("cache", cache, CACHE_VERBS)
            self.callback(watch(cache, CACHE_VERBS, self._hear))

    def write(self, tokens: Any, slots: Any, start: int = 0, namespace: Hashable = None, words: str = "") -> None:
        """Compute `tokens[start:]` into `slots[start:]`; the tokens before are what they are computed from."""
        listed, prints = pack(tokens).tolist(), fingerprints(tokens, self._seed(namespace))
        to = integers(plain(slots), "slots", "a slot is an integer in [0, 2**31)", 2**31)
        if len(to) < len(listed):
            raise ValueError(f"{len(to)} slots for the {len(listed)} tokens {bounded(listed)}: expected no fewer")
        for position in range(whole_number("start", start, 0, "tokens count from 0"), len(listed)):
            mark = Mark(listed[position], position, prints[position], self.step, words or f"write {bounded(listed)}")
            self._marks[int(to[position])] = mark

    def read(self, tokens: Any, slots: Any, namespace: Hashable = None, start: int = 0) -> None:
        """Check that every slot holds its token, at its position, after exactly these tokens; else raise `CanaryError`.

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
        """Describe the contents of `slot`; `None` if nothing was ever computed into it."""
        return self._marks.get(slot)

    def beside(self, cache: Any) -> Canary:
        """A canary of the pages of another `cache`, such as host memory's index, that can take this one's pages."""
        other = Canary(cache, writes=False)
        other._seeds = self._seeds
        return other

    def take_pages(self, source: Canary, src_pages: Any, dst_pages: Any, later: bool = False) -> None:
        """Copy what pages of another canary hold, as `KVStore.take_pages` copies bytes; at once, `later` or not.

        >>> from minikv import RadixCache
        >>> device, host = (canary := Canary()), canary.beside(RadixCache())
        >>> device.write([1, 2], [5, 6]); host.take_pages(device, [5, 6], [0, 1]); host.read([1, 2], [0, 1])
        """
        size = getattr(self._cache, "page_size", 1)
        src, dst = (page_slots(np.array(pages), size).tolist() for pages in (src_pages, dst_pages))
        self._marks.update(zip(dst, map(source.mark, src)))

    def _explain(self, slot: int, position: int, tokens: list[int], mark: Mark | None) -> str:
        wanted = f"{self._where}slot {slot} is read for token {tokens[position]} at position {position}"
        wanted += f" of {bounded(tokens)},\n"
        if mark is None:
            return f"{wanted}but nothing was ever computed into it"
        by = f"written by operation {mark.step} ({mark.words})" if mark.step else f"since {mark.words}"
        if (mark.token, mark.position) == (tokens[position], position):
            return f"{wanted}but holds that token after another prefix, {by}"
        return f"{wanted}but holds token {mark.token} at position {mark.position}, {by}"

    def _seed(self, namespace: Hashable) -> bytes:
        return self._seeds.setdefault(namespace, len(self._seeds).to_bytes(8, "little"))

    def sweep(self) -> None:
        """Read every slot that the cache holds, from each of its roots down."""
        visits = list(walk(self._cache))
        inner = {visit.parent for visit in visits}
        held: list[tuple[list[int], list[int]]] = []  # by everything from the root to each visit
        for place, visit in enumerate(visits):
            tokens, slots = held[visit.parent] if visit.parent is not None else ([], [])
            held.append((tokens + visit.tokens, slots + visit.slots))
            if place not in inner:
                self.read(*held[-1], visit.namespace)

    # -- attached to a cache ----------------------------------------------------------------------------------------

    def _hear(self, call: Call) -> None:
        self.step += 1
        words = call_words(call)
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
    """For each token the fingerprint of the prefix that it ends: 8 bytes, chained from the one before, or the `seed`.

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


# -- models without tensors --------------------------------------------------------------------------------------------


class CanaryModel:
    """Answers with logits that are a fingerprint of the whole prefix, and keeps a `canary`'s marks for it.

    It has `vocab_size` token ids and ends a sequence with any of `eos`. A `canary` that is attached to the cache (with
    `writes=False`) makes both look at the same marks. What it answers is the same in every namespace. Raises
    `CanaryError` when the slots of a row do not hold one prefix.

    >>> from minikv.serving import Chunk
    >>> model = CanaryModel(vocab_size=10)
    >>> whole = model.forward([Chunk([1, 2, 3], 0, [4, 5, 6])], None)
    >>> later = model.forward([Chunk([3], 2, [4, 5, 7])], None)           # 1 and 2 are read from slots 4 and 5
    >>> bool((whole == later).all())
    True
    >>> model.forward([Chunk([3], 2, [4, 6, 7])], None)
    Traceback (most recent call last):
    minikv.testing.canary.CanaryError: slot 6 is read for token 3 at position 1 of [1, 3],
    but holds token 3 at position 2, since write [1, 2, 3]
    """

    def __init__(self, vocab_size: int = 256, eos: Collection[int] = (), canary: Canary | None = None):
        self.vocab_size = whole_number("vocab_size", vocab_size, 1, "a model knows at least 1 token")
        if self.vocab_size > TOKEN_LIMIT:
            raise ValueError(f"vocab_size is {self.vocab_size}: a token is an integer in [0, 2**32)")
        self.eos = end_tokens(eos)
        self.shape = KVShape(num_layers=1, num_kv_heads=1, head_dim=1)
        self.canary = Canary() if canary is None else canary

    def forward(self, chunks: Sequence[Any], store: Any) -> npt.NDArray[np.float32]:
        """The logits after each chunk, a row for each of its `num_logits`; `store` is not used."""
        rows = [self._compute(chunk) for chunk in chunks]
        for chunk, tokens in zip(chunks, rows):  # as attention does: all has been written when somebody reads
            self._read(chunk, tokens)
        return np.concatenate([self._logits(tokens, chunk.num_logits) for chunk, tokens in zip(chunks, rows)])

    def _compute(self, chunk: Any) -> list[int]:
        """Read what is before the chunk, write the chunk; the tokens of it all."""
        before = [self._token(slot, place) for place, slot in enumerate(plain(chunk.slots)[: chunk.start])]
        self._read(chunk, before)
        tokens = before + pack(chunk.tokens).tolist()
        self._write(chunk, tokens)
        return tokens

    def _read(self, chunk: Any, tokens: list[int]) -> None:
        """Read what attention sees of the row's first `tokens`."""
        self.canary.read(tokens, plain(chunk.slots)[: len(tokens)], chunk.namespace)

    def _write(self, chunk: Any, tokens: list[int]) -> None:
        """Write the new ones of `tokens`."""
        self.canary.write(tokens, plain(chunk.slots), chunk.start, chunk.namespace)

    def _token(self, slot: int, place: int) -> int:
        mark = self.canary.mark(slot)
        if mark is None:
            raise CanaryError(f"slot {slot} is read for position {place}, but nothing was ever computed into it")
        return mark.token

    def _logits(self, tokens: list[int], count: int) -> npt.NDArray[np.float32]:
        """The logits after the last `count` of `tokens`."""
        return np.stack([
            np.random.default_rng(int.from_bytes(print_, "little")).random(self.vocab_size, np.float32)
            for print_ in fingerprints(tokens)[-count:]
        ])  # fmt: skip

    def __repr__(self) -> str:
        return f"{type(self).__name__}(vocab_size={self.vocab_size})"


class WindowCanaryModel(CanaryModel):
    """A `CanaryModel` with a full layer and a windowed one, which sees a token and the `window - 1` before it.

    `pool` says which window page belongs to a page of `page_size`; `options` are those of a `CanaryModel`. Raises
    `CanaryError` when a slot of either kind does not hold what the row says.

    >>> from minikv import CacheManager, Engine, WindowedManager, WindowedPool
    >>> pool = WindowedPool(32, num_window_pages=8)
    >>> model = WindowCanaryModel(pool, window=2, vocab_size=50)
    >>> engine = Engine(model, WindowedManager(pool, window=2))
    >>> first, second = engine.generate([[1, 2, 3], [1, 2, 3]], 5)
    >>> first.tokens == second.tokens, model.owners > pool.windows.size     # window slots have had several owners
    (True, True)
    """

    def __init__(self, pool: WindowedPool, window: int, page_size: int = 1, **options: Any):
        super().__init__(**options)
        self.window = whole_number("window", window, 1, "a windowed layer sees at least 1 token")
        self.pool, self.page_size = pool, whole_number("page_size", page_size, 1, "a page holds at least 1 token")
        self.windows, self.owners = Canary(), 0

    def _read(self, chunk: Any, tokens: list[int]) -> None:
        """The windowed layer sees the tokens in the window of the first new token, and those after it."""
        super()._read(chunk, tokens)
        first = max(0, chunk.start - self.window + 1)
        self.windows.read(tokens, self._window_slots(chunk)[: len(tokens)], chunk.namespace, first)

    def _write(self, chunk: Any, tokens: list[int]) -> None:
        super()._write(chunk, tokens)
        self.windows.write(tokens, self._window_slots(chunk), chunk.start, chunk.namespace)
        self.owners += len(tokens) - chunk.start

    def _window_slots(self, chunk: Any) -> list[int]:
        """The window slots of a row; before what is seen, 0, which nobody reads."""
        found = [0] * max(0, chunk.start - self.window + 1)
        for slot in plain(chunk.slots)[len(found) :]:
            page, place = divmod(int(slot), self.page_size)
            window = int(self.pool.window_of[page])
            if window < 0:
                raise CanaryError(f"slot {slot} is read at position {len(found)}, but page {page} has no window page")
            found.append(window * self.page_size + place)
        return found

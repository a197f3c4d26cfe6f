"""Models without tensors: they compute fingerprints, and refuse to read a slot that holds another one.

An engine drives them like any other model. Where attention would read keys and values, they read the marks of a canary:
whatever the engine did to its slots, the marks in a row must be those of one prefix, from its first token on. What they
answer depends on that whole prefix and on nothing else, so the tokens that come out are the same whatever was cached.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from minikv.errors import whole_number
from minikv.pools import WindowedPool
from minikv.serving.request import end_tokens
from minikv.sizing import KVShape
from minikv.testing.canary import Canary, CanaryError, fingerprints
from minikv.testing.snapshot import plain
from minikv.tokens import TOKEN_LIMIT, pack


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
        """The logits behind each chunk, a row for each of its `num_logits`; `store` is not looked at."""
        rows = [self._compute(chunk) for chunk in chunks]
        for chunk, tokens in zip(chunks, rows):  # as attention does: all has been written when somebody reads
            self._read(chunk, tokens)
        found = [self._logits(tokens, chunk.num_logits) for chunk, tokens in zip(chunks, rows)]
        return np.concatenate(found)

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
        """Behind the last `count` of `tokens`."""
        seeds = [int.from_bytes(print_, "little") for print_ in fingerprints(tokens)[-count:]]
        return np.stack([np.random.default_rng(seed).random(self.vocab_size, np.float32) for seed in seeds])

    def __repr__(self) -> str:
        return f"CanaryModel(vocab_size={self.vocab_size})"


class WindowCanaryModel(CanaryModel):
    """A `CanaryModel` with a full layer and a windowed one, which sees a token and the `window - 1` before it.

    `pool` says which window page belongs to a page of `page_size`. Raises `CanaryError` when a slot of either kind
    does not hold what the row says.

    >>> from minikv import CacheManager, Engine, WindowedManager, WindowedPool
    >>> pool = WindowedPool(32, num_window_pages=8)
    >>> model = WindowCanaryModel(pool, window=2, vocab_size=50)
    >>> engine = Engine(model, WindowedManager(pool, window=2))
    >>> first, second = engine.generate([[1, 2, 3], [1, 2, 3]], 5)
    >>> first.tokens == second.tokens, model.owners > pool.windows.size     # window slots have had several owners
    (True, True)
    """

    def __init__(
        self,
        pool: WindowedPool,
        window: int,
        page_size: int = 1,
        vocab_size: int = 256,
        eos: Collection[int] = (),
        canary: Canary | None = None,
    ):
        super().__init__(vocab_size, eos, canary)
        self.window = whole_number("window", window, 1, "a windowed layer sees at least 1 token")
        self.pool, self.page_size = pool, whole_number("page_size", page_size, 1, "a page holds at least 1 token")
        self.windows, self.owners = Canary(), 0

    def _read(self, chunk: Any, tokens: list[int]) -> None:
        """The windowed layer sees what is in the window of the first new token, and what comes after it."""
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

    def __repr__(self) -> str:
        return f"WindowCanaryModel(window={self.window}, vocab_size={self.vocab_size})"

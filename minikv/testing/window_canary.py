"""The canary's model with a windowed layer: of the window's store too it knows what each slot holds.

A window slot that is given back too early is soon written by another request. Here that is an error at once, which
names both; with tensors the layer would read the other's keys and values and go on.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from minikv.errors import whole_number
from minikv.pools import WindowedPool
from minikv.testing.canary import Canary, CanaryError
from minikv.testing.canary_model import CanaryModel
from minikv.testing.snapshot import plain


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

    def forward(self, chunks: Sequence[Any], store: Any) -> npt.NDArray[np.float32]:
        """The logits behind each chunk, as `CanaryModel` gives them; both kinds of slots are written and read."""
        logits = super().forward(chunks, store)
        rows = [(chunk, self._tokens(chunk), self._window_slots(chunk)) for chunk in chunks]
        for chunk, tokens, slots in rows:
            self._see(chunk, tokens[: chunk.start], slots[: chunk.start])
            self.windows.write(tokens, slots, chunk.start, chunk.namespace)
            self.owners += len(tokens) - chunk.start
        for chunk, tokens, slots in rows:  # as attention does: all has been written when somebody reads
            self._see(chunk, tokens, slots)
        return logits

    def _see(self, chunk: Any, tokens: list[int], slots: list[int]) -> None:
        """Read what the windowed layer sees of `tokens`, from the first new one on."""
        self.windows.read(tokens, slots, chunk.namespace, start=max(0, chunk.start - self.window + 1))

    def _tokens(self, chunk: Any) -> list[int]:
        marks = [self.canary.mark(int(slot)) for slot in chunk.slots]
        return [mark.token for mark in marks if mark is not None]

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

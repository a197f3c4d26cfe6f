"""The parts of made-up traffic: texts that share beginnings, and conversations that overlap in time.

No text is written: a prompt is its length and the ids of its whole blocks. What is added to a text gets ids that no
other text has, so two prompts share exactly the blocks of the beginning that they were made from.
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from minikv.tokens import TOKEN_BYTES, TOKEN_LIMIT, PackedTokens
from minikv.traffic.trace_file import MOST_BLOCKS, TraceError, TraceRequest


class MadeUpText(NamedTuple):
    """A beginning of prompts: how many tokens it has, and the ids of its whole blocks, packed."""

    length: int = 0
    ids: bytes = b""


class NextRequest(NamedTuple):
    """The next request of a conversation: `delay` seconds after the one before it, with a prompt and its answer."""

    delay: float
    prompt: MadeUpText
    answer: int


class Author:
    """Makes texts and draws numbers, the same for the same `seed` on any machine.

    `RandomState`, though old, because its numbers are promised never to change.

    >>> author = Author(seed=1, block_size=16)
    >>> system = author.more(MadeUpText(), 40)
    >>> a, b = author.more(system, 30), author.more(system, 30)
    >>> [np.frombuffer(text.ids, np.uint32).tolist() for text in (system, a, b)]
    [[0, 1], [0, 1, 2, 3], [0, 1, 4, 5]]
    """

    def __init__(self, seed: int, block_size: int):
        self._random, self._block_size, self._next = np.random.RandomState(seed), block_size, 0
        self._weights: dict[int, np.ndarray[tuple[int], np.dtype[np.float64]]] = {}

    def more(self, text: MadeUpText, tokens: int) -> MadeUpText:
        """`text` and `tokens` more, which no other text has; the blocks that they fill are new."""
        length = text.length + tokens
        count = length // self._block_size - len(text.ids) // TOKEN_BYTES
        if length > MOST_BLOCKS * self._block_size or self._next + count > TOKEN_LIMIT:
            raise TraceError(f"a made-up prompt has {length} tokens: expected fewer, or fewer requests")
        fresh = np.arange(count, dtype=np.uint32) + np.uint32(self._next)
        self._next += count
        return MadeUpText(length, text.ids + fresh.tobytes())

    def around(self, median: float, spread: float = 0.7) -> float:
        """A number from a log-normal distribution; `spread` is the standard deviation of its logarithm."""
        return median * math.exp(spread * float(self._random.standard_normal()))

    def tokens(self, median: float, spread: float = 0.7) -> int:
        """A length in tokens, of at least 1, drawn like `around`."""
        return max(1, round(min(self.around(median, spread), 2.0**31)))

    def wait(self, mean: float) -> float:
        """Seconds up to the next of events that come independently, `mean` seconds apart on average."""
        return mean * float(self._random.standard_exponential())

    def chance(self, part: float) -> bool:
        """True in `part` of all cases."""
        return float(self._random.random_sample()) < part

    def popular(self, count: int) -> int:
        """One of `count` things, of which the k-th is chosen 1/k as often as the first (Zipf's law)."""
        if count not in self._weights:
            self._weights[count] = np.cumsum(1.0 / np.arange(1, count + 1))
        weights = self._weights[count]
        return int(np.searchsorted(weights, self._random.random_sample() * weights[-1], side="right"))


class Shelf:
    """Texts that are made when they are first taken: `count` system prompts or documents of about `tokens`.

    >>> shelf = Shelf(Author(1, 16), count=8, tokens=100)
    >>> shelf[3] is shelf[3], shelf.popular() in [shelf[i] for i in range(8)]
    (True, True)
    """

    def __init__(self, author: Author, count: int, tokens: int):
        self._author, self._count, self._tokens = author, count, tokens
        self._texts: dict[int, MadeUpText] = {}

    def __getitem__(self, number: int) -> MadeUpText:
        if number not in self._texts:
            self._texts[number] = self._author.more(MadeUpText(), self._author.tokens(self._tokens))
        return self._texts[number]

    def popular(self) -> MadeUpText:
        """One of the texts: the first most often, the k-th 1/k as often."""
        return self[self._author.popular(self._count)]


def overlapping(author: Author, begin: Callable[[], Iterator[NextRequest]], every: float) -> Iterator[TraceRequest]:
    """The requests of conversations without end, in the order of time; they begin `every` so many seconds on average.

    >>> author = Author(1, 16)
    >>> def chat():
    ...     for seconds in (0, 9): yield NextRequest(seconds, MadeUpText(5), 1)
    >>> requests = overlapping(author, chat, every=4)
    >>> [next(requests).conversation for _ in range(6)]
    [0, 1, 2, 3, 4, 0]
    """
    waiting: list[tuple[float, int, NextRequest, Iterator[NextRequest]]] = []  # each conversation is in it once
    start, begun = 0.0, itertools.count()
    while True:
        if begins := not waiting or waiting[0][0] > start:
            time, number, rest = start, next(begun), begin()
        else:
            time, number, (_, (length, ids), answer), rest = heapq.heappop(waiting)
            yield TraceRequest(float(round(1000 * time)), length, answer, PackedTokens(ids), number)
        if (step := next(rest, None)) is not None:
            heapq.heappush(waiting, (time + step.delay, number, step, rest))
        if begins:
            start += author.wait(every)

"""How costs grow, and what a cached token takes in memory: the figures of `growth.json`, which chapter 05 shows.

    python assets/growth.py     under a minute on a quiet machine; prints a report and writes growth.json

Times are medians in microseconds, if nothing else is said.
"""

from __future__ import annotations

import dataclasses
import statistics
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from figures import measure_into
from memory import clocked, memory_per_token, pauses, sequences

from minikv.manager import CacheManager
from minikv.measure.results import Measured, Promise, today
from minikv.measure.textbook import TextbookCache
from minikv.prefix import RadixCache
from minikv.prefix.base_index import way_to
from minikv.progress_bar import Tick, quiet
from minikv.serving import Chunk, Engine
from minikv.sizing import KVShape
from minikv.tokens import PackedTokens

HEADS, HEAD_LENGTH, ROOM = 50, 400, 200_000  # of the long run
MOST_TEXTBOOK_LEAVES = 100_000  # it visits all of them for each eviction
_VOCABULARY = 128_000
_SLOTS = np.arange(16, dtype=np.int32)


class Scales(NamedTuple):
    """How large everything is: requests of the long run, leaves, contexts, pages, cached tokens, nodes."""

    long_run: int = 60_000
    leaves: tuple[int, ...] = (1000, 10_000, 100_000, 1_000_000)
    contexts: tuple[int, ...] = (1000, 10_000, 100_000)
    pages: tuple[int, ...] = (1, 16)
    cached: int = 2**20
    nodes: int = 1_000_000


@dataclasses.dataclass
class Growth(Measured):
    """Everything that `growth.json` holds: what could grow with age, with nodes and with the context."""

    long_run: dict[str, Any]
    evict: dict[str, Any]
    step: dict[str, Any]
    memory: dict[str, Any]
    pauses: dict[str, Any]

    def lines(self) -> Iterator[str]:
        """A table for each kind of figures."""
        yield from ("", f"long run, {self.long_run['requests']:,} requests that leave hot prompts at random places, us")
        yield from (f"  {name:<24}{value:>12,}" for name, value in self.long_run.items() if name != "requests")
        titles = "evict one leaf, us", "an engine's step around the model, us", "bytes per cached token"
        for title, figures in zip(titles, (self.evict, self.step, self.memory)):
            yield from ("", f"{title}, by {next(iter(figures))}")
            for row, values in figures.items():
                cells = ["-" if value is None else f"{value:,}" for value in values]
                yield f"  {row:<12}" + "".join(f"{cell:>12}" for cell in cells)
        yield from ("", f"a full garbage collection with {self.pauses['nodes']:,} leaves in the tree, ms")
        yield from (f"  {name:<24}{value:>12,}" for name, value in self.pauses.items() if name != "nodes")

    def promises(self) -> Iterator[Promise]:
        """Costs that hardly grow, and few bytes per token."""
        run, memory = self.long_run, self.memory
        for name, now, then, bar in (
            ("long run, its last thousand requests against the second", "last thousand", "second thousand", 1.1),
            ("long run, a match against a rebuilt tree", "match", "match, rebuilt", 1.2),
            ("long run, nodes against a rebuilt tree", "nodes", "nodes, rebuilt", 1.1),
        ):
            yield Promise(name, run[now] / run[then], bar)
        for name, times, bar in (
            ("evict one leaf, of a million against of a thousand", self.evict["minikv"], 2),
            ("a step after 100,000 tokens against 1,000, pages of 1", self.step["pages of 1"], 1.5),
            ("a step after 100,000 tokens against 1,000, pages of 16", self.step["pages of 16"], 1.5),
        ):
            yield Promise(name, times[-1] / times[0], bar)
        for kind, page, most in (("long", 1, 9), ("chat", 1, 11), ("long", 16, 5), ("chat", 16, 7)):
            taken = memory[kind][memory["page size"].index(page)]
            yield Promise(f"bytes per cached token, {kind}, pages of {page}", taken, most)


def measure(scales: Scales, rounds: int, tick: Tick = quiet) -> Growth:
    """Measure everything."""
    return Growth(
        *today(rounds),
        long_run(scales.long_run, tick),
        evict_one(scales.leaves, rounds, tick),
        step_by_context(scales.contexts, rounds, tick),
        memory_per_token(scales.pages, scales.cached, tick),
        pauses(scales.nodes, rounds, tick),
    )


# -- a cache that has lived long ------------------------------------------------------------------------------------


def long_run(requests: int, tick: Tick = quiet) -> dict[str, Any]:
    """Serve `requests` requests through one manager, and compare its beginning, its end and a rebuilt tree.

    Each request leaves one of 50 hot heads of 400 tokens at a random place, and continues with tokens of its own, so it
    cuts an edge there. A tree that never joins what it cut has ten times the nodes of a rebuilt one after 60,000
    requests, and a match takes 25 times as long. The first thousand fill the cache, so few of them evict anything.

    >>> found = long_run(1050)
    >>> found["requests"], found["nodes"] > 0, found["nodes, rebuilt"] > 0
    (1050, True, True)
    """
    random = np.random.RandomState(7)
    heads = [random.randint(0, _VOCABULARY, HEAD_LENGTH).astype(np.uint32) for _ in range(HEADS)]
    cache = RadixCache()
    manager, times = CacheManager(ROOM, prefix_cache=cache), list[int]()
    for number in range(requests):
        if number % 1000 == 0:
            tick(f"long run, request {number:,} of {requests:,}")
        own = random.randint(0, _VOCABULARY, random.randint(1, 600)).astype(np.uint32)
        head = heads[random.randint(HEADS)][: random.randint(1, HEAD_LENGTH)]
        prompt = PackedTokens(np.concatenate([head, own]).tobytes())
        start = time.perf_counter_ns()
        sequence = manager.start(prompt)
        manager.advance(sequence)
        manager.finish(sequence)
        times.append(time.perf_counter_ns() - start)
    fresh = rebuilt(cache)
    asked = [PackedTokens(np.append(head, np.uint32(1)).tobytes()) for head in heads * 40]
    match, match_rebuilt = (_median(map(partial(clocked, tree.match_prefix), asked)) for tree in (cache, fresh))
    return {
        "requests": requests, "first thousand": _median(times[:1000]), "second thousand": _median(times[1000:2000]),
        "last thousand": _median(times[-1000:]),
        "match": match, "match, rebuilt": match_rebuilt,
        "nodes": sum(1 for _ in cache.nodes()), "nodes, rebuilt": sum(1 for _ in fresh.nodes()),
    }  # fmt: skip


def rebuilt(cache: RadixCache) -> RadixCache:
    """A new tree of the same content: every leaf's whole prompt is inserted once, the least recently used first.

    >>> cache = RadixCache()
    >>> _ = cache.insert([1, 2, 3], [0, 1, 2]); _ = cache.insert([1, 2, 4], [0, 1, 3])
    >>> fresh = rebuilt(cache); fresh.total_size, fresh.match_prefix([1, 2, 4]).slots.tolist()
    (4, [0, 1, 3])
    """
    fresh = RadixCache(cache.page_size)
    leaves = [node for node in cache.nodes() if not node.children]
    for leaf in sorted(leaves, key=lambda node: node.last_used):
        path = way_to(leaf)[::-1]
        tokens = [token for node in path for token in node.tokens]
        fresh.insert(tokens, [page for node in path for page in node.pages])
    return fresh


# -- a tree with more nodes, a context with more tokens --------------------------------------------------------------


def evict_one(leaves: Sequence[int], rounds: int, tick: Tick = quiet) -> dict[str, Any]:
    """The time to evict one leaf of many, in our tree and in the textbook's, which gets 100,000 leaves at most.

    >>> figures = evict_one([64], rounds=1)
    >>> figures["leaves"], figures["minikv"][0] < figures["textbook"][0]
    ([64], True)
    """
    found: dict[str, Any] = {"leaves": list(leaves), "minikv": [], "textbook": []}
    for count in leaves:
        tick(f"evict one of {count:,} leaves")
        tree, textbook = RadixCache(), TextbookCache()
        for tokens in sequences(count):
            tree.insert(tokens, _SLOTS)
            if count <= MOST_TEXTBOOK_LEAVES:
                textbook.insert(tokens.tolist(), range(16))
        found["minikv"].append(_repeated(partial(tree.evict, 1), min(100 * rounds, count // 2)))
        few = max(1, min(10 * rounds, MOST_TEXTBOOK_LEAVES // count))
        found["textbook"].append(_repeated(partial(textbook.evict, 1), few) if count <= MOST_TEXTBOOK_LEAVES else None)
    return found


class Silent:
    """A model that computes nothing: what an engine's step takes with it, it takes around the model."""

    shape, vocab_size, eos = KVShape(num_layers=1, num_kv_heads=1, head_dim=1), 2, ()

    def forward(self, chunks: Sequence[Chunk], store: Any) -> Any:
        """Logits in favor of token 0 after each chunk."""
        return np.array([[1.0, 0.0]] * len(chunks), np.float32)


def step_by_context(contexts: Sequence[int], rounds: int, tick: Tick = quiet) -> dict[str, Any]:
    """The time of an engine's step around its model, for one request that decodes, by the length of its context.

    >>> sorted(step_by_context([10], rounds=1))
    ['pages of 1', 'pages of 16', 'tokens']
    """
    found: dict[str, Any] = {"tokens": list(contexts)}
    for page_size in (1, 16):
        times = found[f"pages of {page_size}"] = []
        for context in contexts:
            tick(f"a step after {context:,} tokens with pages of {page_size}")
            engine = Engine(Silent(), CacheManager((context + 1000 * rounds) // page_size + 1, page_size))
            request = engine.submit(PackedTokens(bytes(4 * context)), 200 * rounds)
            while not request.output:
                engine.step()
            times.append(_repeated(engine.step, 100 * rounds))
    return found


def _repeated(act: Callable[[], Any], times: int) -> float:
    """The median of `times` runs, after up to three that warm up."""
    return _median([clocked(act) for _ in range(times + min(3, times))][-times:])


def _median(nanoseconds: Iterable[int]) -> float:
    return round(statistics.median(nanoseconds) / 1000, 3)


if __name__ == "__main__":
    measure_into("growth", __doc__, partial(measure, Scales(), 5))

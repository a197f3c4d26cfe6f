"""What a copy of cached tokens costs, as a ratio to one warm memcpy of the same bytes: `copy.json`, for chapter 06.

    python assets/copying.py --save assets/copy.json     a few minutes; on the GPU where there is one

All methods copy as many tokens: whole pages of 16, scattered, to other scattered pages. Each lap of a method has laps
of the memcpy on both sides of it, so that whatever else the machine does falls on both; a figure is the median over the
rounds, with the smallest and the largest beside it. On a GPU the memcpy is the device's own.
"""

from __future__ import annotations

import collections
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import torch
from figures import for_a_device, tell
from torch import Tensor

from minikv.cli.command import option
from minikv.errors import InvariantError, bounded
from minikv.measure.results import Measured, Promise, Spread, today, turns
from minikv.pools import page_slots
from minikv.progress_bar import Progress, Tick, quiet
from minikv.sizing import KVShape
from minikv.store import KVStore
from minikv.store.moves import move_by_index

TOKENS = (16, 128, 1024, 4096)
QUICK_TOKENS = TOKENS[:2]
PAGE = 16
SHAPES = {"cpu": KVShape(16, num_kv_heads=4, head_dim=64), "cuda": KVShape(32, num_kv_heads=8, head_dim=128)}
LAP = 2e-3  # seconds that a lap takes, about
INDEXED_LOOP = "indexed loop over layers"

Act = Callable[[], Any]


@dataclass
class CopyResult:
    """How one method did: its ratio to the memcpy, for each number of tokens."""

    name: str
    layout: str
    to_memcpy: list[Spread] = field(default_factory=list)


@dataclass
class CopyFigures(Measured):
    """Everything that is measured on one device.

    `memcpy` is in microseconds for each number of `tokens`; `device` is "cpu" or "cuda".
    """

    device: str
    layers: int
    kv_heads: int
    head_dim: int
    bytes_per_token: int
    tokens: list[int]
    memcpy: list[Spread] = field(default_factory=list)
    results: list[CopyResult] = field(default_factory=list)

    def of(self, name: str, layout: str) -> CopyResult:
        """The result of one method; `KeyError` if there is none."""
        return {(result.name, result.layout): result for result in self.results}[name, layout]

    def lines(self) -> Iterator[str]:
        """A line for each method: ratios to the memcpy."""
        heads = f"{self.layers} layers x {self.kv_heads} KV heads x {self.head_dim}, fp16"
        yield from ("", f"copy tokens in pages of 16, {heads}: {self.bytes_per_token:,} bytes per token")
        table = [
            ("", "layout", [f"{tokens:,} tokens" for tokens in self.tokens]),
            ("one memcpy, us", "", list(map(str, self.memcpy))),
            *((way.name, way.layout, [f"x {spread}" for spread in way.to_memcpy]) for way in self.results),
        ]
        wide = 2 + max(len(cell) for _, _, cells in table for cell in cells)
        for name, layout, cells in table:
            yield f"  {name:<34}{layout:<10}{''.join(cell.ljust(wide) for cell in cells)}".rstrip()

    def promises(self) -> Iterator[Promise]:
        """Return the best method of the store for a promise; the others only run here."""
        own = [result.to_memcpy for result in self.results if result.name.startswith("KVStore.")]
        best = [min(spreads[at].median for spreads in own) for at in range(len(self.tokens))]
        if self.device == "cuda":
            name = f"{self.tokens[-1]} tokens by KVStore, share of the device's own bandwidth"
            yield Promise(name, 1 / best[-1], 0.8, at_most=False)
            return
        for tokens, ratio in zip(self.tokens, best):
            if tokens >= 128:
                yield Promise(f"{tokens} tokens, the best KVStore method against a memcpy", ratio, 1.5)
        times = self.of(INDEXED_LOOP, "layer").to_memcpy[0].median / best[0]
        yield Promise("16 tokens, the indexed loop against the best KVStore method", times, 4, at_most=False)


class Bench:
    """One device's stores, filled, and what copies `count` tokens in them: `methods(count)` and `memcpy(count)`."""

    def __init__(self, shape: KVShape, device: str, most: int):
        pages = -(-3 * most // PAGE)  # a third is read, a third written, a third lies between them
        layouts = "layer", "page"
        self.stores = {layout: KVStore(shape, pages, PAGE, layout=layout, device=device) for layout in layouts}
        self.device = device
        self.flat = torch.ones(2, most * self.stores["page"].slot_bytes, dtype=torch.uint8, device=device)
        self.order = np.random.default_rng(0).permutation(pages)
        for store in self.stores.values():
            random = torch.Generator(device).manual_seed(0)
            for plane in store.planes:
                plane.view(torch.uint8).random_(0, 200, generator=random)

    def pages(self, count: int) -> tuple[Any, Any]:
        """The pages that are read and those that are written, for `count` tokens."""
        wanted = -(-count // PAGE)
        return self.order[:wanted], self.order[-wanted:]

    def slots(self, count: int) -> list[Any]:
        """The slots of those pages."""
        return [page_slots(pages, PAGE).astype(np.int64) for pages in self.pages(count)]

    def memcpy(self, count: int) -> Act:
        """One copy of as many bytes as `count` tokens have, from one place to another."""
        target, source = self.flat[:, : count * self.stores["page"].slot_bytes]
        return partial(target.copy_, source)

    def methods(self, count: int) -> Iterator[tuple[str, str, Act]]:
        """Every method's name, layout, and what copies `count` tokens by it."""
        pages, slots = self.pages(count), self.slots(count)
        index = [torch.from_numpy(part).to(self.device) for part in slots]
        yield INDEXED_LOOP, "layer", partial(self._indexed_loop, *index)
        for layout, store in self.stores.items():
            (plane,) = store.planes
            yield "one gather, one scatter", layout, partial(move_by_index, plane, *index)
            pair = [store.slots(part) for part in slots] if self.device == "cuda" else slots
            yield "KVStore.copy", layout, partial(store.copy, *pair)
            yield "KVStore.copy_pages", layout, partial(store.copy_pages, *pages)

    def _indexed_loop(self, source: Tensor, target: Tensor) -> None:
        (plane,) = self.stores["layer"].planes
        for line in plane.view(torch.float16):  # the keys of a layer, or its values
            line[target] = line[source]

    def prove(self, count: int) -> None:
        """Every method on a store copies the right bytes and nothing else, or `InvariantError` names it."""
        index = [torch.from_numpy(part).to(self.device) for part in self.slots(count)]
        for name, layout, act in self.methods(count):
            (plane,) = self.stores[layout].planes
            plane.view(torch.uint8)[:, index[1]] = 255
            expected = plane.clone()
            move_by_index(expected, *index)
            act()
            if not torch.equal(plane.view(torch.uint8), expected.view(torch.uint8)):
                raise InvariantError(f"bench: {name} in the {layout} layout copied {count} tokens wrongly")


def bench_copy(
    device: str | None = None,
    rounds: int = 5,
    quick: bool = False,
    shape: KVShape | None = None,
    tick: Tick = quiet,
) -> CopyFigures:
    """Measure every method on `device` ("cpu" or "cuda"; by default the GPU where there is one).

    >>> found = bench_copy("cpu", rounds=1, quick=True, shape=KVShape(2, num_kv_heads=1, head_dim=8))
    >>> found.tokens, len(found.results), found.of(INDEXED_LOOP, "layer").to_memcpy[0].median > 0
    ([16, 128], 7, True)
    """
    device = device_here(device or ("cuda" if torch.cuda.is_available() else "cpu"))
    shape, tokens = shape or SHAPES[device], QUICK_TOKENS if quick else TOKENS
    field_of = Bench(shape, device, tokens[-1])
    found = CopyFigures(
        *today(rounds, quick, where(device)), device, shape.num_layers, shape.num_kv_heads,
        shape.head_dim, field_of.stores["page"].slot_bytes, list(tokens),
    )  # fmt: skip
    found.results = [CopyResult(name, layout) for name, layout, _ in field_of.methods(PAGE)]
    for count in tokens:
        field_of.prove(count)
        _race(field_of, count, rounds, found, tick)
    return found


def _race(field_of: Bench, count: int, rounds: int, found: CopyFigures, tick: Tick) -> None:
    """All methods on `count` tokens, in turns that begin with another one each round; adds to `found`."""
    methods, memcpy = list(field_of.methods(count)), field_of.memcpy(count)
    ratios = collections.defaultdict[tuple[str, str], list[float]](list)
    floors = [lap(memcpy, field_of.device)]
    for _, (name, layout, act) in turns(methods, rounds):
        tick(f"{count} tokens, {name}, {layout}")
        took = lap(act, field_of.device)
        floors.append(lap(memcpy, field_of.device))
        ratios[name, layout].append(took / statistics.mean(floors[-2:]))
    found.memcpy.append(Spread.of([floor * 1e6 for floor in floors]))
    for result in found.results:
        result.to_memcpy.append(Spread.of(ratios[result.name, result.layout]))


def lap(act: Act, device: str) -> float:
    """Seconds that one call takes: the quickest of as many as fill a lap, after two that warm it up.

    The quickest, since whatever else the machine does can only add to a copy. On a GPU the calls are queued and timed
    together, until the last of them is done.

    >>> lap(lambda: None, "cpu") < 1e-3
    True
    """

    def seconds(calls: int) -> float:
        start = time.perf_counter()
        for _ in range(calls):
            act()
        if device == "cuda":
            torch.cuda.synchronize()
        return (time.perf_counter() - start) / calls

    seconds(1)
    count = max(7, min(200, round(LAP / max(seconds(1), 1e-7))))
    return seconds(count) if device == "cuda" else min(seconds(1) for _ in range(count))


def device_here(device: str) -> str:
    """`device` if it can be measured on this machine, or `ValueError`.

    >>> device_here("tpu")
    Traceback (most recent call last):
    ValueError: device is 'tpu': expected cpu, or cuda where torch finds an NVIDIA GPU
    """
    if device not in SHAPES or (device == "cuda" and not torch.cuda.is_available()):
        raise ValueError(f"device is {bounded(device)}: expected cpu, or cuda where torch finds an NVIDIA GPU")
    return device


def where(device: str) -> str:
    """The report's further lines on the machine: torch, and the GPU if that was measured.

    >>> where("cpu").split(", ")[-1]
    'one thread'
    """
    name = torch.cuda.get_device_name() if device == "cuda" else "one thread"
    return f", torch {torch.__version__.split('+')[0]}, {name}"


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure what `arguments` say, print it, and save it where they name a file."""
    parser = for_a_device(__doc__, "memcpy")
    parser.add_argument("--device", type=option(device_here), help="cpu or cuda (default: the GPU where there is one)")
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)  # what a copy costs must not depend on other users of the cores
    with Progress(command="copying") as tick:
        found = bench_copy(options.device, options.rounds, options.quick, tick=tick)
    tell(found, options)


if __name__ == "__main__":
    main()

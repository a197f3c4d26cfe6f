"""Arguments that make no sense, at every public name that takes a number: one line that says what is wrong, and why."""

from functools import partial

import pytest

from minikv import (
    BitmaskPool,
    CacheManager,
    Canary,
    CanaryModel,
    Engine,
    FreeListPool,
    KVShape,
    Ledger,
    LongestPrefixFirst,
    NoCache,
    PageTable,
    QueuePool,
    RadixCache,
    Request,
    SamplingParams,
    Scheduler,
    SlidingWindowCache,
    bytes_per_page,
    bytes_per_token,
    explore,
    kv_budget,
    kv_heads_per_rank,
    kv_tensors,
    page_slots,
    page_waste,
    pages_that_fit,
)
from minikv.measure import race
from minikv.measure.bench import bench
from minikv.measure.lap import Contender
from minikv.measure.workloads import WORKLOADS, w6_mooncake
from minikv.traffic import replay
from minikv.traffic.replay import GrowingPool
from minikv.traffic.traces import read_trace

SHAPE = KVShape(2, num_kv_heads=2, head_dim=4)
POOLS = FreeListPool, BitmaskPool, QueuePool, GrowingPool
CANARY, POOL = Canary(), GrowingPool(4)
MINE = [Contender("mine", RadixCache)]


def table():
    found = PageTable(2, 4)
    found.open()
    return found


def steps(world):
    yield "nothing"


# What the argument is called, and a call that has it.
NUMBERS = {
    "num_layers": [lambda v: KVShape(v, num_kv_heads=2, head_dim=4), lambda v: KVShape(v, latent_dim=4)],
    "num_kv_heads": [lambda v: KVShape(2, v, 4), lambda v: kv_heads_per_rank(v, 2)],
    "head_dim": [partial(KVShape, 2, 2)],
    "tp": [partial(kv_heads_per_rank, 8), lambda v: bytes_per_token(SHAPE, tp=v)],
    "num_pages": [partial(kv_tensors, SHAPE), CacheManager],
    "page_size": [
        partial(bytes_per_page, SHAPE), partial(page_waste, [1]), partial(page_slots, [0]),
        partial(kv_tensors, SHAPE, 1), partial(CacheManager, 4),
        RadixCache, NoCache,
        partial(Ledger, FreeListPool(4), RadixCache()),
    ],
    "memory_bytes": [lambda v: kv_budget(v, 1)],
    "weight_bytes": [partial(kv_budget, 100)],
    "budget_bytes": [lambda v: pages_that_fit(v, 1)],
    "page_bytes": [partial(pages_that_fit, 100)],
    "size": list(POOLS),
    "page": [make(4).is_free for make in POOLS],
    "num_rows": [lambda v: PageTable(v, 4)],
    "max_length": [partial(PageTable, 4)],
    "row": [table().length, lambda v: table().append(v, [1]), table().close],
    "start": [partial(Canary().write, [1], [1])],
    "max_new_tokens": [SamplingParams, partial(Request, [1])],
    "seed": [lambda v: SamplingParams(1, seed=v)],
    "step": [lambda v: Request([1], 1).take(1, v)],
    "token": [lambda v: Request([1], 1).take(v, 1), lambda v: Request([1], 1, eos=[v])],
    "window": [LongestPrefixFirst, lambda v: SlidingWindowCache(window=v)],
    "token_budget": [partial(Scheduler, CacheManager(4))],
    "max_running": [lambda v: Scheduler(CacheManager(4), max_running=v)],
    "max_overtakes": [lambda v: Scheduler(CacheManager(4), max_overtakes=v)],
    "min_awaited_prefix": [lambda v: Scheduler(CacheManager(4), min_awaited_prefix=v)],
    "vocab_size": [CanaryModel],
    "slot": [Ledger(FreeListPool(4), RadixCache()).owner],
    "interruptions": [lambda v: explore(list, steps, interruptions=v)],
    "count": [*WORKLOADS.values(), partial(w6_mooncake, [])],
    "share": [partial(race, WORKLOADS["W3"](2), MINE)],
    "rounds": [lambda v: race(WORKLOADS["W3"](2), MINE, rounds=v)],
    "spare": [lambda v: CacheManager(4).start([1], spare=v)],
    "limit": [lambda v: CacheManager(4).start([1], limit=v)],
    "num_tokens": [RadixCache().evict],
}  # fmt: skip
ODD = True, 1.5, float("nan"), float("inf"), "7", [], {}, object(), -1, -(2**70)
HUGE = 2**63, 2**70, 10**5000
UNLIMITED = "page", "row", "slot", "num_tokens", "limit", "interruptions"  # any number that is not there, or is enough
FROM_0 = (*UNLIMITED, "num_pages", "weight_bytes", "budget_bytes", "start", "seed", "step", "token", "spare",
          "max_overtakes", "count")  # fmt: skip


def refused(name, acts, values):
    """Each of these acts says what is wrong with each of these values in one line."""
    for act in acts:
        for value in values:
            with pytest.raises((TypeError, ValueError), match=f"^{name} is .*: ") as caught:
                act(value)
            assert len(str(caught.value)) < 200


@pytest.mark.parametrize("name", NUMBERS)
def test_an_odd_number_is_named_with_its_rule_and_a_huge_one_before_memory_is_taken(name):
    refused(name, NUMBERS[name], ODD + HUGE * (name not in UNLIMITED) + (0,) * (name not in FROM_0))


class NoOrder:
    """Arranges nothing."""


THINGS = {
    "shape": [lambda v: kv_tensors(v, 1), bytes_per_token],
    "lengths": [lambda v: page_waste(v, 4)],
    "order": [lambda v: Scheduler(CacheManager(4), order=v)],
    "eos": [lambda v: Request([1], 1, eos=v), lambda v: CanaryModel(5, v)],
    "prompts": [lambda v: Engine(CanaryModel(5), CacheManager(4)).generate(v, 1)],
    "pool": [lambda v: Ledger(v, RadixCache())],
    "cache": [lambda v: Ledger(FreeListPool(4), v), Canary],
    "sequences": [lambda v: Ledger(FreeListPool(4), RadixCache(), sequences=v)],
    "workload": [lambda v: race(v, MINE)],
    "contenders": [lambda v: race(WORKLOADS["W3"](2), v)],
    "only": [lambda v: bench(only=v)],
    "lines": [lambda v: list(read_trace(v))],
    "world": [lambda v: explore(v, steps)],
    "check": [lambda v: explore(list, steps, check=v)],
}


@pytest.mark.parametrize("name", THINGS)
def test_a_wrong_thing_is_named_with_what_was_expected(name):
    for act in THINGS[name]:
        for value in (5, 1.5, True, NoOrder()):
            with pytest.raises(TypeError, match=f"^{name} ((is|are) .*: expected |must be .*, not )"):
                act(value)


@pytest.mark.parametrize(
    ("act", "says"),
    [
        (lambda: GrowingPool(2**31 + 1), "size is 2147483649: a page is an integer"),
        (lambda: CANARY.write([1, 2], [3, -1]), r"slots\[1\] is -1"),
        (lambda: CANARY.write([1, 2], [3]), "1 slots for the 2 tokens"),
        (lambda: POOL.alloc_to(memoryview(bytearray(2))), "."),
    ],
)
def test_numbers_that_do_not_go_together_change_nothing(act, says):
    with pytest.raises((TypeError, ValueError), match=says):
        act()
    assert (CANARY.mark(3), POOL.num_free) == (None, 4)


def test_replay_names_a_capacity_that_is_none():
    refused("capacity", [lambda v: replay([], RadixCache(), v)], [True, 1.5, float("nan"), -1, "x"])

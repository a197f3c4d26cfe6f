"""Host memory under a manager: no token changes, whatever moves, whenever a move fails, and nothing is lost."""

from __future__ import annotations

import functools
import random
import signal
from dataclasses import replace

import pytest
from chats import Tally, assert_nothing_leaked, engine_for, serve, workload
from nightly import NIGHTLY
from test_engine_oracle import canary_model

from minikv import CacheManager, CanaryError, InvariantError, TieredCache

WORKLOADS = range(200) if NIGHTLY else range(40)


def in_tight_pool(seed, manager_type=CacheManager):
    return engine_for(replace(workload(seed), index="tiered"), "tight", canary_model, manager_type)


@functools.cache
def without_cache(seed):
    return serve(engine_for(workload(seed), "off", canary_model), workload(seed), Tally())


def test_with_and_without_host_memory_the_tokens_are_the_same():
    tally = Tally()
    for seed in WORKLOADS:
        work, engine, expected = workload(seed), in_tight_pool(seed), without_cache(seed)
        for shuffle in (None, random.Random(seed)):
            assert serve(engine, work, tally, shuffle) == expected, f"workload {seed}"
        assert_nothing_leaked(engine.manager)
    assert tally.loaded > 5 * len(WORKLOADS)
    assert tally.evictions > len(WORKLOADS)


class Breakdown(Exception):
    """A move fails in its middle."""


@pytest.mark.parametrize("trouble", ["fails", "is interrupted"])
def test_a_move_that_fails_in_its_middle_changes_no_token(trouble):
    """Half of the bytes are there when it happens. Ctrl-C comes there too, and is raised when the act is done."""
    happened, ways = 0, {False: 0, True: 0}  # out to host memory, and back
    for seed in WORKLOADS:
        work, engine, draw = workload(seed), in_tight_pool(seed), random.Random(seed)
        step, abort = engine.step, engine.abort

        def unlucky(take, draw=draw):
            def take_pages(source, src, dst, later=False):
                if draw.random() > 0.3:
                    return take(source, src, dst, later)
                take(source, src[: len(src) // 2], dst[: len(src) // 2])
                ways[later] += 1
                if trouble == "fails":
                    raise Breakdown
                signal.raise_signal(signal.SIGINT)
                return take(source, src, dst)

            return take_pages

        def again(call):
            def tried(*args):
                nonlocal happened
                try:
                    return call(*args)
                except (Breakdown, KeyboardInterrupt):
                    happened += 1

            return tried

        for store in (engine.manager.host.store, engine.manager.host.host):
            store.take_pages = unlucky(store.take_pages)
        engine.step, engine.abort = again(step), again(abort)
        assert serve(engine, work, Tally()) == without_cache(seed), f"workload {seed}"
        engine.scheduler.sweep()
        assert_nothing_leaked(engine.manager)
        assert not engine.manager.cache.host.moves
    assert happened > len(WORKLOADS) / 2
    assert min(ways.values()) > len(WORKLOADS) / 8


class CopiesLate(CacheManager):
    """Copies out what was evicted when the next request ends, as if nobody had its pages until then."""

    def _make_room(self, num_pages, spare=0):
        carry_out, self.host.carry_out = self.host.carry_out, lambda: None
        try:
            super()._make_room(num_pages, spare)
        finally:
            self.host.carry_out = carry_out

    def finish(self, sequence):
        self.host.carry_out()
        super().finish(sequence)


class LoadsTooMuch(CacheManager):
    """Says that one page more is computed than was loaded."""

    def _run(self, sequence, match, spare):
        bring_back = self.host.bring_back
        self.host.bring_back = lambda *given: bring_back(*given) + self.page_size
        try:
            super()._run(sequence, match, spare)
        finally:
            self.host.bring_back = bring_back


@pytest.mark.parametrize("careless", [CopiesLate, LoadsTooMuch])
def test_a_careless_manager_is_found(careless):
    def every_workload():
        for seed in WORKLOADS:
            serve(in_tight_pool(seed, careless), workload(seed), Tally())

    with pytest.raises((CanaryError, InvariantError, ValueError)):
        every_workload()


# -- small cases ------------------------------------------------------------------------------------------------------


def manager_of(num_pages=4, host_pages=8, **options):
    return CacheManager(num_pages, prefix_cache=TieredCache(host_pages=host_pages), **options)


def served(manager, tokens):
    with manager.request(tokens) as sequence:
        manager.advance(sequence)
        return sequence.loaded, sequence.cached_length


def test_what_was_evicted_comes_back():
    manager = manager_of()
    assert served(manager, [1, 2, 3, 4]) == (0, 0)
    assert served(manager, [5, 6, 7, 8]) == (0, 0)
    assert served(manager, [1, 2, 3, 9]) == (3, 3)
    manager.check()


def test_only_what_is_worth_loading_is_loaded():
    asked = []

    def worth(count, before):
        asked.append((count, before))
        return before > 0

    manager = manager_of(worth_loading=worth)
    served(manager, [1, 2, 3, 4])
    served(manager, [5, 6, 7, 8])
    assert served(manager, [1, 2, 3, 9]) == (0, 0)
    assert asked == [(3, 0)]


@pytest.mark.parametrize("answer", [2, 1.5, "yes", None, 0])
def test_any_answer_about_worth_counts_as_yes_or_no(answer):
    manager = manager_of(worth_loading=lambda count, before: answer)
    served(manager, [1, 2, 3, 4])
    served(manager, [5, 6, 7, 8])
    assert served(manager, [1, 2, 3, 9]) == ((3, 3) if answer else (0, 0))


def test_of_what_is_worth_loading_only_what_is_still_there_counts():
    """Room for the request was made on the device, and so in host memory, where a part of what was found went."""
    asked = []
    manager = manager_of(host_pages=4, worth_loading=lambda *numbers: asked.append(numbers))
    served(manager, [1, 2, 3, 4])
    served(manager, [5, 6, 7, 8])
    assert manager.cache.match_prefix([1, 2, 3, 4, 9]).host_length == 4
    served(manager, [1, 2, 3, 9])
    assert asked == []
    manager.check()


def test_a_load_whose_worth_cannot_be_told_is_no_load():
    def worth(count, before):
        raise ZeroDivisionError

    manager = manager_of(worth_loading=worth)
    served(manager, [1, 2, 3, 4])
    served(manager, [5, 6, 7, 8])
    with pytest.raises(ZeroDivisionError):
        manager.start([1, 2, 3, 9])
    manager.check()
    assert (manager.sequences, manager.cache.host.moves) == ([], [])


def test_a_load_needs_room_like_any_prefill():
    manager = manager_of()
    served(manager, [1, 2, 3, 4])
    busy = manager.start([5, 6, 7])
    with pytest.raises(Exception, match="3 pages needed, but only 1 free"):
        manager.start([1, 2, 9])
    manager.abort(busy)
    assert served(manager, [1, 2, 9]) == (2, 2)


def test_the_layers_of_a_load_are_locked_until_they_have_arrived():
    torch = pytest.importorskip("torch")
    from minikv import KVShape, KVStore

    store = KVStore(KVShape(num_layers=3, num_kv_heads=1, head_dim=1), num_pages=4, dtype="fp32")
    manager = CacheManager(4, store=store, host=store.in_host_memory(8))
    first = manager.start([1, 2, 3, 4])
    for layer in range(3):
        values = torch.arange(4.0).view(4, 1, 1) + 10 * layer
        store.write(layer, first.slots, values, -values)
    manager.advance(first)
    manager.finish(first)
    served(manager, [5, 6, 7, 8])
    second = manager.start([1, 2, 3, 9])
    host = manager.cache.host
    assert (len(host.moves), host.index.protected_size) == (1, 3)
    for layer in range(3):
        keys, values = store.read(layer, second.slots[:3])
        assert keys.flatten().tolist() == [10 * layer, 10 * layer + 1, 10 * layer + 2]
        assert torch.equal(keys, -values)
        manager.host.look()
        assert len(host.moves) == (layer < 2)
    manager.check()


def test_a_store_in_host_memory_brings_its_own_index():
    pytest.importorskip("torch")
    from minikv import KVShape, KVStore

    store = KVStore(KVShape(num_layers=1, num_kv_heads=1, head_dim=1), num_pages=4, page_size=2)
    cache = CacheManager(4, 2, store=store, host=store.in_host_memory(8)).cache
    assert (cache.host_pages, cache.page_size) == (8, 2)


SAME = type("Store", (), {"num_pages": 4, "page_size": 1, "dtype": "fp16"})()


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"host": object()}, "store is None: expected one, because host is <object"),
        ({"store": object()}, "host is None: the prefix cache has 8 host pages"),
        (
            {"store": object(), "host": type("Store", (), {"num_pages": 7})()},
            "host has 7 pages: the prefix cache has 8",
        ),
        ({"store": object(), "host": object(), "host_pages": 0}, "the prefix cache has no host memory"),
        ({"store": SAME, "host": SAME}, "expected a store other than `store`"),
        (
            {"store": SAME, "host": type("Store", (), {"num_pages": 8, "page_size": 1, "dtype": "fp32"})()},
            "host has dtype 'fp32': the store has 'fp16'",
        ),
    ],
)
def test_what_does_not_fit_is_refused(given, words):
    with pytest.raises(ValueError, match=words):
        manager_of(**given)


def test_what_cannot_be_asked_about_worth_is_refused():
    with pytest.raises(TypeError, match="worth_loading is 5: expected a function of two numbers"):
        CacheManager(4, prefix_cache=TieredCache(host_pages=4), worth_loading=5)


def test_nothing_asks_what_is_worth_loading_where_nothing_is_loaded():
    with pytest.raises(ValueError, match="worth_loading is <built-in function max>: the prefix cache has no host"):
        CacheManager(4, worth_loading=max)
    assert served(CacheManager(4, prefix_cache=TieredCache(), worth_loading=max), [1, 2]) == (0, 0)


def test_a_manager_says_which_loads_it_waits_for():
    manager = manager_of()
    served(manager, [1, 2, 3, 4])
    served(manager, [5, 6, 7, 8])
    manager.cache.load(manager.cache.acquire([1, 2]), [0, 1])
    with pytest.raises(InvariantError, match="1 move is under way, but the manager waits for 0"):
        manager.check()

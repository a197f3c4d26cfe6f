"""The parts of a manager: which are refused, and in which words."""

import re
from types import SimpleNamespace

import pytest
from refusals import said

from minikv import CacheManager, FreeListPool, RadixCache, TieredCache

STORE = SimpleNamespace(num_pages=4, page_size=1, dtype="fp16")
HOST = TieredCache(host_pages=8)
BARE = {"prefix_cache": HOST, "store": None}
POOL, CACHE = r": expected a SlotPool with alloc_to\(\)", r": expected a PrefixCache with acquire\(\)"


def host_of(num_pages, dtype="fp16"):
    return SimpleNamespace(num_pages=num_pages, page_size=1, dtype=dtype)


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        ({"num_pages": 0}, "ValueError: num_pages is 0: a manager has at least 1 page"),
        ({"page_size": 2**30}, f"ValueError: 4 pages of {2**30} are {2**32} slots: a slot is an integer in"),
        ({"page_size": 2}, "ValueError: page_size is 2: the store has 1"),
        ({"page_size": 2, "prefix_cache": RadixCache()}, "ValueError: page_size is 2: the prefix cache has pages of 1"),
        ({"prefix_cache": FreeListPool(2)}, rf"TypeError: prefix_cache is FreeListPool\(.*{CACHE}"),
        ({"prefix_cache": "a" * 10_000}, f"TypeError: prefix_cache is 'aaa.*…{CACHE}"),
        ({"pool": FreeListPool(5)}, "ValueError: num_pages is 4: the pool has 5"),
        ({"pool": FreeListPool}, f"TypeError: pool is <class 'minikv.pools.free_list.FreeListPool'>{POOL}"),
        ({"pool": 0}, f"TypeError: pool is 0{POOL}"),
        ({"pool": RadixCache()}, rf"TypeError: pool is RadixCache\(.*{POOL}"),
        ({"store": host_of(5)}, "ValueError: num_pages is 4: the store has 5"),
        ({"host": HOST, "store": None}, "ValueError: store is None: expected one, because host is TieredCache"),
        ({"prefix_cache": HOST}, "ValueError: host is None: the prefix cache has 8 host pages"),
        ({"prefix_cache": HOST, "host": host_of(7)}, "ValueError: host has 7 pages: the prefix cache has 8"),
        ({"prefix_cache": HOST, "host": host_of(8, "fp32")}, "ValueError: host has dtype 'fp32': the store has"),
        (
            {"prefix_cache": RadixCache(), "host": host_of(8)},
            "ValueError: host is .*: the prefix cache has no host",
        ),
        ({"host": STORE}, "ValueError: host is .*: expected a store other than `store`"),
        ({**BARE, "worth_loading": 5}, "TypeError: worth_loading is 5: expected a function of two numbers"),
        ({"worth_loading": max}, "ValueError: worth_loading is <built-in function max>: the prefix cache has no host"),
    ],
)
def test_what_is_no_part_or_does_not_fit_is_refused(parts, words):
    """A manager of 4 pages of 1 with a store, but for one part; other numbers of pages are in test_arguments."""
    assert re.match(words, said(CacheManager, **{"num_pages": 4, "store": STORE, **parts}))


def test_a_store_in_host_memory_brings_its_own_index():
    cache = CacheManager(4, store=STORE, host=host_of(8)).cache
    assert (type(cache), cache.host_pages, cache.page_size) == (TieredCache, 8, 1)

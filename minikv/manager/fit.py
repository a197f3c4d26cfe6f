"""The parts of a manager: the default ones, and checks that a pool, an index and stores from anybody fit together."""

from __future__ import annotations

from typing import Any

import numpy as np

from minikv.errors import bounded, require_method
from minikv.pools import Pages
from minikv.pools.contract import require_slots
from minikv.prefix import PrefixCache, RadixCache
from minikv.prefix.tiered import TieredCache

_TABLE_LIMIT = 2**24  # slots: with larger pages, the slots of each page are in a table of at most 64 MiB
_CACHE_VERBS = ("acquire", "insert", "lock", "unlock", "evict", "check")
_POOL_VERBS = ("alloc_to", "free", "is_free", "check")


def default_cache(page_size: int, host: Any = None) -> PrefixCache:
    """The prefix cache of a manager that is given none: a radix tree, or one of two tiers where there is a `host`.

    >>> default_cache(page_size=2)
    RadixCache(page_size=2, policy='lru', evict_by='node', evictable=0, protected=0)
    >>> default_cache(page_size=2, host=object()).host_pages      # a real store has pages, so this would not fit it
    0
    """
    return RadixCache(page_size) if host is None else TieredCache(page_size, getattr(host, "num_pages", 0))


def every_slot(num_pages: int, page_size: int) -> Pages:
    """The slots of every page, (page, slot), where a table of them is worth its memory; else none.

    Raises `ValueError` if there are more slots than an int32 can number.

    >>> every_slot(num_pages=2, page_size=3).tolist(), len(every_slot(num_pages=4, page_size=1))
    ([[0, 1, 2], [3, 4, 5]], 0)
    """
    require_slots(num_pages, page_size)
    is_table = page_size > 1 and num_pages * page_size <= _TABLE_LIMIT
    return np.arange(num_pages * page_size if is_table else 0, dtype=np.int32).reshape(-1, page_size)


def require_fit(manager: Any, host: Any = None) -> None:
    """Raise `TypeError` for what cannot be a part of a manager, `ValueError` for a part that does not fit the others.

    >>> from minikv import CacheManager, RadixCache
    >>> CacheManager(num_pages=4, page_size=2, prefix_cache=RadixCache())
    Traceback (most recent call last):
    ValueError: page_size is 2: the prefix cache has pages of 1
    """
    pages = manager.num_pages
    size = manager.page_size
    for verb in _CACHE_VERBS:
        require_method("prefix_cache", manager.cache, verb, f"a PrefixCache with {verb}()")
    for verb in _POOL_VERBS:
        require_method("pool", manager.pool, verb, f"a SlotPool with {verb}()")
    if manager.cache.page_size != size:
        raise ValueError(f"page_size is {size}: the prefix cache has pages of {manager.cache.page_size}")
    if manager.pool.size != pages:
        raise ValueError(f"num_pages is {pages}: the pool has {manager.pool.size}")
    for name, mine in (("num_pages", pages), ("page_size", size)):
        if getattr(manager.store, name, mine) != mine:
            raise ValueError(f"{name} is {mine}: the store has {getattr(manager.store, name)}")
    require_host_fits(manager.cache, manager.store, host)


def require_host_fits(cache: Any, store: Any, host: Any) -> None:
    """Raise `ValueError` unless `host`, the store in host memory, is one like `store` with the pages of `cache` there.

    Without stores no byte moves, and there is nothing to fit.

    >>> from minikv import CacheManager, TieredCache
    >>> CacheManager(8, prefix_cache=TieredCache(host_pages=4), store=object())
    Traceback (most recent call last):
    ValueError: host is None: the prefix cache has 4 host pages
    """
    pages, given = getattr(cache, "host_pages", 0), f"host is {bounded(host)}"
    if host is None:
        if pages and store is not None:
            raise ValueError(f"{given}: the prefix cache has {pages} host pages")
        return
    there = getattr(host, "num_pages", pages)
    for is_wrong, why in (
        (store is None, f"store is None: expected one, because {given}"),
        (host is store, f"{given}: expected a store other than `store`"),
        (not pages, f"{given}: the prefix cache has no host memory"),
        (there != pages, f"host has {there} pages: the prefix cache has {pages} host pages"),
    ):
        if is_wrong:
            raise ValueError(why)
    for name in ("shape", "page_size", "dtype"):
        if (theirs := getattr(host, name, None)) != (mine := getattr(store, name, None)):
            raise ValueError(f"host has {name} {bounded(theirs)}: the store has {bounded(mine)}")

"""Which parts fit together in a manager."""

from __future__ import annotations

from typing import Any

from minikv.errors import bounded

_CACHE_VERBS = ("acquire", "insert", "lock", "unlock", "evict", "check")
_POOL_VERBS = ("alloc_to", "free", "is_free", "check")


def require_fit(manager: Any, host: Any = None) -> None:
    """Raise `TypeError` for what cannot be a part of a manager, `ValueError` for a part that does not fit the others.

    >>> from minikv import CacheManager, RadixCache
    >>> CacheManager(num_pages=4, page_size=2, prefix_cache=RadixCache())
    Traceback (most recent call last):
    ValueError: page_size is 2: the prefix cache has pages of 1
    """
    pages, size = manager.num_pages, manager.page_size
    for name, part, verbs in (("prefix_cache", manager.cache, _CACHE_VERBS), ("pool", manager.pool, _POOL_VERBS)):
        missing = [verb for verb in verbs if not callable(getattr(part, verb, None))]
        if missing or isinstance(part, type):
            kind = "a PrefixCache" if name == "prefix_cache" else "a SlotPool"
            raise TypeError(f"{name} is {bounded(part)}, not {kind}" + (f": it has no {missing[0]}" if missing else ""))
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
    pages = getattr(cache, "host_pages", 0)
    if host is not None and store is None:
        raise ValueError(f"store is None: expected one, because host is {bounded(host)}")
    if host is not None and host is store:
        raise ValueError(f"host is {bounded(host)}: expected a store other than `store`")
    if host is not None and not pages:
        raise ValueError(f"host is {bounded(host)}: the prefix cache has no host memory")
    if pages and store is not None and host is None:
        raise ValueError(f"host is None: the prefix cache has {pages} host pages")
    if host is not None and getattr(host, "num_pages", pages) != pages:
        raise ValueError(f"host has {host.num_pages} pages: the prefix cache has {pages} host pages")
    for name in ("shape", "page_size", "dtype") if host is not None else ():
        if (theirs := getattr(host, name, None)) != (mine := getattr(store, name, None)):
            raise ValueError(f"host has {name} {bounded(theirs)}: the store has {bounded(mine)}")

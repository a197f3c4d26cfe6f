"""Which pages are free: one contract, three pools, and the page table that says which request has the others.

A pool hands out ids and takes them back. An id means one page of the key-value store (with `page_size=1`, for
one slot); a pool neither holds nor touches a key or a value. All three keep the same promises: `alloc` gives all that
was asked for or nothing, every id has one owner at a time, and a call that would break that is refused before
anything changes. A pool may be used by one thread at a time; a `CacheManager` takes care of that.

    FreeListPool   a stack                    the fastest; last freed, first reused
    BitmaskPool    a bit for each page        lowest id first; a version says whether a page was reused since
    QueuePool      a queue linked in place    first freed, first reused; any page can be taken out of the middle

`WindowedPool` is two stacks and a map from one to the other, for a model with two kinds of layers.
"""

from minikv.pools.bitmask import BitmaskPool
from minikv.pools.contract import Pages, SlotPool
from minikv.pools.free_list import FreeListPool
from minikv.pools.page_table import PageTable, page_slots
from minikv.pools.queue import QueuePool
from minikv.pools.windowed import WindowedPool

__all__ = [
    "BitmaskPool", "FreeListPool", "PageTable", "Pages", "QueuePool", "SlotPool", "WindowedPool",
    "page_slots",
]  # fmt: skip

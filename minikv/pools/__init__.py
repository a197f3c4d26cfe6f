"""Which pages are free: one contract, three pools and a trusting one, and the page table that says who has the others.

A pool hands out ids and takes them back. An id stands for one page of the key-value store (with `page_size=1`, for
one slot); a pool neither holds nor touches a key or a value. All three keep the same promises: `alloc` gives all it
was asked for or nothing, every id has one owner at a time, and whoever breaks that is told so before anything changes.

    FreeListPool   a stack                    the fastest; last freed, first reused
    BitmaskPool    a bit for each page        lowest id first; a version says whether a page was reused since
    QueuePool      a queue linked in place    first freed, first reused; any page can be taken out of the middle
    TrustingPool   the same stack, unguarded  keeps the first two promises and leaves the third to its caller
"""

from minikv.pools.bitmask import BitmaskPool
from minikv.pools.contract import SlotPool
from minikv.pools.free_list import FreeListPool, TrustingPool
from minikv.pools.page_table import PageTable, page_slots, slot_pages
from minikv.pools.queue import QueuePool

__all__ = [
    "BitmaskPool",
    "FreeListPool",
    "PageTable",
    "QueuePool",
    "SlotPool",
    "TrustingPool",
    "page_slots",
    "slot_pages",
]

"""Two pools in one, for a model with two kinds of layers: pages of the full layers, and their window pages.

A page is known by its number in the full layers' store. A map says which page of the windowed layers' store belongs to
it, as long as there is one: a window page can be freed long before its full page, and given to another.

    full pages     [ 0 ][ 1 ][ 2 ][ 3 ]        the row of a sequence, and the tree, name these
    window_of        -1    -1    0    1        0 and 1 have given their window pages back

After SGLang's pool for sliding-window models, which maps slots in the same way.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from minikv.errors import require
from minikv.pools.contract import Pages, SlotPool, page_ids, request
from minikv.pools.free_list import FreeListPool

NO_WINDOW = -1


class WindowedPool(SlotPool):
    """A `SlotPool` of `size` full pages that gives each one a window page too, of which there are `num_window_pages`.

    `alloc` takes both, `free` gives back both; `free_window` and `move_window` are for a `SlidingWindowCache`, and
    for a manager. `window_of` is the map, an int32 array. `full` and `windows` are the two pools. May be used by one
    thread at a time.

    >>> pool = WindowedPool(8, num_window_pages=4)
    >>> pages = pool.alloc(3); pool.free_window(pages[:2]); pool
    WindowedPool(5 of 8 full pages free, 3 of 4 window pages free)
    >>> pool.alloc(2).tolist(), pool.window_of[:5].tolist()     # window pages 0 and 1 have new owners
    ([3, 4], [-1, -1, 2, 0, 1])
    """

    def __init__(self, size: int, num_window_pages: int):
        self.full, self.windows = FreeListPool(size), FreeListPool(num_window_pages)
        self.size = self.full.size
        self.window_of = np.full(self.size, NO_WINDOW, np.int32)

    @property
    def num_free(self) -> int:
        """Pages that `alloc` could give now: as many as both kinds have."""
        return min(self.full.num_free, self.windows.num_free)

    def alloc(self, num_pages: int) -> Pages:
        """Take `num_pages` full pages, and a window page for each, or none: `OutOfPages`.

        Twin: `minikv.engine.ch01_02_pool.alloc`.
        """
        pages = self.full.alloc(request(num_pages, self.num_free))
        self.window_of[pages] = self.windows.alloc(len(pages))
        return pages

    def free(self, pages: Any) -> None:
        """Give full pages back, and the window pages that they still have; all or none.

        Twin: `minikv.engine.ch01_02_pool.free`.
        """
        self.full.free(pages)
        ids = page_ids(pages, self.size)
        held = self.window_of[ids]
        self.windows.free(held[held >= 0])
        self.window_of[ids] = NO_WINDOW

    def free_window(self, pages: Any) -> None:
        """Give back the window pages of `pages`, which stay in use themselves; all or none.

        Twin: `minikv.engine.ch11_12_sharing_and_windows.WindowTree.free_windows`.

        >>> pool = WindowedPool(4, 4)
        >>> pool.free_window([0])
        Traceback (most recent call last):
        ValueError: cannot free the window of pages[0]: page 0 has none
        """
        ids = page_ids(pages, self.size)
        try:
            self.windows.free(self.window_of[ids])  # which refuses -1, and a page that is given twice
        except ValueError:
            self._require_windows(ids, "free")
            raise
        self.window_of[ids] = NO_WINDOW

    def move_window(self, pages: Any, to_pages: Any) -> None:
        """The window pages of `pages` belong to `to_pages`, which had none, from now on; all or none.

        Twin: `minikv.engine.ch11_12_sharing_and_windows.heal`.
        """
        ids, targets = page_ids(pages, self.size), page_ids(to_pages, self.size)
        self._require_windows(ids, "move")
        if not len(ids) == len(targets) == len(np.unique(targets)):
            rule = "expected a page for each, and none twice"
            raise ValueError(f"{len(ids)} windows for {len(targets)} pages: {rule}")
        for i, page in enumerate(targets.tolist()):
            free = self.full.is_free(page)
            if free or self.window_of[page] >= 0:
                why = "free" if free else "in use with a window of its own"
                raise ValueError(f"cannot move a window to to_pages[{i}]: page {page} is {why}")
        self.window_of[targets] = self.window_of[ids]
        self.window_of[ids] = NO_WINDOW

    def _require_windows(self, ids: Pages, verb: str) -> None:
        """Each of `ids` has a window page and is given once, or the error names the first that is not."""
        seen: set[int] = set()
        for i, page in enumerate(ids.tolist()):
            if page in seen or self.window_of[page] < 0:
                why = "is given twice" if page in seen else "has none"
                raise ValueError(f"cannot {verb} the window of pages[{i}]: page {page} {why}")
            seen.add(page)

    def is_free(self, page: int) -> bool:
        """Return whether full page `page` is free.

        Twin: `minikv.engine.ch01_02_pool.Pool.is_free`.
        """
        return self.full.is_free(page)

    def check(self) -> None:
        """Both pools are sound; each window page in use belongs to one full page in use."""
        self.full.check()
        self.windows.check()
        holder: dict[int, int] = {}
        for page in np.flatnonzero(self.window_of >= 0).tolist():
            window = int(self.window_of[page])
            has, other = f"page {page} has window page {window}, but", holder.setdefault(window, page)
            require(not self.full.is_free(page), f"{has} page {page} is free")
            require(not self.windows.is_free(window), f"{has} window page {window} is free")
            require(other == page, f"window page {window} has two owners: pages {other} and {page}")
        used = self.windows.size - self.windows.num_free
        require(used == len(holder), f"{used} window pages are in use, but {len(holder)} belong to a page")

    def __repr__(self) -> str:
        full = f"{self.full.num_free} of {self.size} full pages free"
        return f"WindowedPool({full}, {self.windows.num_free} of {self.windows.size} window pages free)"

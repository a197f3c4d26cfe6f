"""The queue of unlocked blocks: its order is the order of eviction."""

from __future__ import annotations

from collections.abc import Iterator

from minikv.prefix.block import Block
from minikv.prefix.block_run import RunPath, Use
from minikv.prefix.eviction import LeastRecentlyUsed


class BlockQueue:
    """Which blocks are locked, when the others were last used, and so which goes next, by whole prefixes at once.

    Not a `deque` of blocks: a block that is used again must leave from wherever it is, which a deque does in O(size).
    What was used together stands together, so the queue is a ring of `Use`, linked in place. A prefix that is used or
    locked costs a step for each of its runs, however many blocks these have. Of blocks with equal last use the deepest
    goes first, so no block is ever cached without the one in front of it. After vLLM's `FreeKVCacheBlockQueue`, which
    links the blocks themselves.

    >>> from minikv.prefix.block import BlockRoot
    >>> from minikv.prefix.block_run import BlockRun
    >>> queue, run = BlockQueue(), BlockRun(BlockRoot(0, None, b""), None, 0, stride=4)
    >>> run.grow("abc", bytes(12), bytes(12), first_id=1)
    >>> queue.use([(run, 3)], now=1); queue.use([(run, 1)], now=2)
    >>> [block.key for block in queue], queue.lock([(run, 2)]), [block.key for block in queue]
    (['c', 'b', 'a'], 2, ['c'])
    """

    __slots__ = ("_ring",)

    def __init__(self) -> None:
        self._ring = LeastRecentlyUsed()

    def use(self, path: RunPath, now: int) -> None:
        """The blocks of `path` are used now: what is unlocked of them goes to the tail, the deepest first."""
        left: list[Use] = []
        come: list[Use] = []
        for run, count in path:
            uses, use = run.uses, None
            while uses and uses[-1].end <= count:
                use = uses.pop()
                if use.older is not None:
                    left.append(use)
            if use is None:
                use = Use(run)
            use.end, use.used = count, now
            uses.append(use)
            if count > run.locked:
                come.append(use)
        self._ring.remove(left)
        self._ring.add(come)

    def lock(self, path: RunPath) -> int:
        """Lock the blocks of `path`; how many of them were not locked before."""
        left: list[Use] = []
        newly = 0
        for run, count in path:
            run.pins[count] = run.pins.get(count, 0) + 1
            if count > run.locked:
                newly += count - run.locked
                run.locked = count
                for use in reversed(run.uses):
                    if use.end > count:
                        break
                    if use.older is not None:
                        left.append(use)
        self._ring.remove(left)
        return newly

    def unlock(self, path: RunPath, now: int) -> int:
        """Give back one lock of the blocks of `path`, which are used now; how many of them are not locked any more."""
        freed = 0
        for run, count in path:
            pins = run.pins
            pins[count] -= 1
            if not pins[count]:
                del pins[count]
                if count == run.locked:
                    run.locked = max(pins, default=0)
                    freed += count - run.locked
        self.use(path, now)
        return freed

    def first(self) -> Use | None:
        """The blocks to go next, all at the end of one run; `None` when every block is locked."""
        found: Use | None = self._ring.first()
        return found

    def shorten(self, use: Use, most: int) -> int:
        """At most `most` blocks at the end of `use`, which is `first()`, are about to go: how many that makes."""
        uses = use.run.uses  # `use` is the first of them: what is deeper is older
        end_of_next = uses[1].end if len(uses) > 1 else 0
        begin = max(end_of_next, use.run.locked)
        count = min(most, use.end - begin)
        use.end -= count
        if use.end == begin:
            self._ring.remove((use,))
            if begin == end_of_next:
                del uses[0]
        return count

    def uses(self) -> Iterator[Use]:
        """Those uses that have an unlocked block, the next to go first."""
        return iter(self._ring)

    def __iter__(self) -> Iterator[Block]:
        """The unlocked blocks in the order in which they would be evicted."""
        for use in self._ring:
            for index in range(use.end - 1, use.begin - 1, -1):
                yield use.run.block(index)

"""Chapter 13: what a cache of any size would have found in a trace, what the best one could, and a count that ages.

None of it serves a request: these are the yardsticks for the policies of `minikv.prefix.eviction`.
"""

# %% given 13
from heapq import heappop, heappush
from math import log2


class Timeline:
    """Marks in the order in which they were made, of which it can say how many are newer than one of them."""

    def __init__(self, most):
        self.sums, self.left = [0] * (most + 1), most  # a Fenwick tree, with the newest mark in front

    def mark(self):
        if not self.left:
            raise ValueError("the timeline is full: it was made for fewer marks")
        self.left -= 1
        self.change(self.left, 1)
        return self.left

    def remove(self, mark):
        self.change(mark, -1)

    def newer(self, mark):
        count = 0
        while mark:
            count += self.sums[mark]
            mark &= mark - 1
        return count

    def change(self, mark, by):
        mark += 1
        while mark < len(self.sums):
            self.sums[mark] += by
            mark += mark & -mark


# %% 13.1 reuse_distances
def reuse_distances(requests):
    """Return the smallest room in which LRU has a block, for each use but its first."""
    timeline, marks, distances = Timeline(sum(map(len, requests))), {}, []
    for blocks in requests:
        for block in blocks:
            if block in marks:
                distances.append(timeline.newer(marks[block]) + 1)
        for block in reversed(blocks):
            if block in marks:
                timeline.remove(marks[block])
            marks[block] = timeline.mark()
    return distances


# %% 13.2 next_uses
def next_uses(requests):
    """Return, for each request, the number of the next request to use each block."""
    later, found = {}, []
    for number in reversed(range(len(requests))):
        found.append([later.get(block, len(requests)) for block in requests[number]])
        later.update(dict.fromkeys(requests[number], number))
    return found[::-1]


# %% 13.3 optimal_hits
def optimal_hits(requests, room):
    """Return the most hits that any order of eviction can have with this much room."""
    held, farthest, hits = set(), [], 0
    for blocks, uses in zip(requests, next_uses(requests)):
        hits += len(held.intersection(blocks))
        held.update(blocks)
        while len(held) > room:
            held.remove(heappop(farthest)[-1])
        for depth, (block, use) in enumerate(zip(blocks, uses)):
            heappush(farthest, (-use, -depth, block))
    return hits


# %% 13.4 aged_key
def aged_key(node, half_life):
    """Return a number, which is smallest for the leaf that is worth least by now."""
    return node.last_used + half_life * log2(node.hits)

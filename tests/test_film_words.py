"""What films say, word for word: compared with `golden/film_words.txt`, which `python tests/test_film_words.py` writes.

The other tests of films compare plain data, so a better wording changes that file alone.
"""

from __future__ import annotations

import contextlib
import difflib
from array import array
from pathlib import Path

from minikv import (
    BitmaskPool,
    CacheManager,
    CanaryModel,
    Engine,
    FreeListPool,
    HashBlockCache,
    PageTable,
    QueuePool,
    RadixCache,
    Scheduler,
    SlidingWindowCache,
    record,
)
from minikv.course.film.changes import Changes, FilmEvent

GOLDEN = Path(__file__).parent / "golden" / "film_words.txt"


def a_cache_and_a_pool():
    cache, pool = RadixCache(), FreeListPool(8)
    with record(cache, pool) as film:
        cache.insert([1, 2, 3, 4], pool.alloc(4))
        match = cache.match_prefix([1, 2, 9])
        cache.lock(match.handle)
        bob = cache.insert([1, 2, 9], [*match.slots, *pool.alloc(1)])
        cache.lock(bob.handle)
        pool.free(cache.evict(2))
        cache.unlock(bob.handle)
        cache.unlock(match.handle)
        cache.unlock(cache.acquire([1, 2, 9]))
        with film.step("a remark"):
            pass
    return film


def labels_and_namespaces():
    cache = RadixCache()
    with record(cache, label=lambda tokens: bytes(tokens).decode()) as film:
        cache.insert(b"abc", range(3), namespace="tenant")
        cache.insert(b"ab", range(2), namespace="tenant")
        cache.match_prefix(b"ab", namespace="tenant")
        cache.match_prefix(b"xy")
        for wanted in (0, 9, 9):
            cache.evict(wanted)
        cache.insert(b"z", [7])
        cache.reset()
    return film


def pools_and_tables():
    bits, queue, table = BitmaskPool(4), QueuePool(4), PageTable(1, 4)
    with record(bits, queue, table) as film:
        bits.occupy(2)
        queue.occupy(3)
        queue.free([])
        row = table.open()
        table.append(row, [2, 3])
        table.append(row, [0])
        table.close(row)
    return film


class Refusing(FreeListPool):
    def alloc(self, num_pages):
        raise ValueError("there is no room")


def an_operation_that_raises():
    pool = Refusing(2)
    with record(pool) as film, contextlib.suppress(ValueError):
        pool.alloc(3)
    return film


def an_engine():
    manager = CacheManager(24)
    engine = Engine(CanaryModel(64), manager, Scheduler(manager, token_budget=4, max_running=2))
    with record(engine) as film:
        for prompt, length in (([1, 2, 3, 4, 5], 2), ([7], 1), ([8, 8], 9)):
            last = engine.submit(prompt, length)
        engine.step()
        engine.abort(last)
        engine.step()
    return film


def trimming():
    cache = RadixCache(evict_by="page")
    with record(cache) as film:
        cache.insert([1, 2, 3], [4, 5, 6])
        cache.evict(1)
        cache.evict(9)
    return film


def hashed_blocks():
    """They are in no tree, and leave the cache as nodes do."""
    cache = HashBlockCache()
    with record(cache) as film:
        cache.insert([1, 2, 3], range(3))
        for count in (1, 9, 1):
            cache.evict(count)
    return film


def windows():
    """A window that goes alone leaves every token in the tree."""
    cache = SlidingWindowCache(window=1)
    with record(cache) as film:
        cache.insert([1, 2, 3], range(3))
        cache.evict(0, window_tokens=2)
        cache.evict(0, 1)
    return film


def rows_in_place_of_arrays():
    cache, pool, row = RadixCache(), FreeListPool(4), memoryview(array("i", [0] * 2))
    with record(cache, pool) as film:
        pool.alloc_to(row)
        cache.insert([1, 2], row)
        cache.unlock(cache.acquire([1, 9]))
        pool.free(cache.evict(1))
    return film


def requests_of_a_manager():
    """Six pages of 2 tokens: the third request needs more than are free."""
    manager = CacheManager(6, page_size=2)
    with record(manager) as film:
        first, second = manager.start([1, 2, 3, 4, 5]), manager.start([1, 2, 3, 4, 6])
        for sequence in (first, second):
            manager.advance(sequence, 4)
            manager.advance(sequence)
            manager.checkpoint(sequence)
        manager.checkpoint(first)
        manager.extend(first, [7, 8])
        manager.truncate(first, 5)
        manager.finish(first)
        manager.abort(second)
        manager.finish(manager.start([9] * 10))
    return film


def several_pools():
    first, second, bits, table = FreeListPool(4), FreeListPool(4), BitmaskPool(2), PageTable(1, 4)
    with record(first, second, bits, table) as film:
        second.alloc(3)
        bits.alloc(1)
        table.open()
    return film


FILMS = (
    a_cache_and_a_pool, labels_and_namespaces, pools_and_tables, an_operation_that_raises, an_engine, trimming,
    hashed_blocks, windows, rows_in_place_of_arrays, requests_of_a_manager, several_pools,
)  # fmt: skip
CHANGES = Changes(
    [
        FilmEvent(1, "split", 5), FilmEvent(9, "joins", 6), FilmEvent(10, "joins", 6), FilmEvent(2, "gone", "evicted"),
        FilmEvent(3, "gone", "evicted"), FilmEvent(4, "gone", "removed"), FilmEvent(7, "new"), FilmEvent(8, "grown"),
    ]
)  # fmt: skip


def told():
    """Everything that films say, as it stands in the golden file."""
    lines = ["== every kind of change", *CHANGES.words]
    for make in FILMS:
        film = make()
        lines += ["", f"== {make.__name__.replace('_', ' ')}"]
        for frame in film:
            lines += [frame.caption, *(f"   ({words})" for words in frame.changes.words)]
            lines += [f"   n{key}: {words}" for key, words in frame.node_events]
        stories = [repr(film.why(slot)) for slot in sorted(film.slot_stories())]
        lines += [story for story in stories if not story.endswith("free from the start")]
    return "\n".join(lines) + "\n"


def test_films_say_what_the_golden_file_says():
    wanted, found = GOLDEN.read_text("utf-8"), told()
    difference = difflib.unified_diff(wanted.splitlines(), found.splitlines(), "golden", "now", lineterm="")
    assert found == wanted, "\n".join(difference)


if __name__ == "__main__":
    GOLDEN.write_text(told(), "utf-8")

"""What is kept beside a tree: each page is where the picture says that it is, and each word of it is in the image."""

from collections import deque
from xml.etree import ElementTree

import pytest
from golden_text import compare, sections
from hypothesis import given
from hypothesis import strategies as st
from machine import cached_in
from reels import needs_graphviz, words_in
from scripted_films import FILMS

from minikv import FreeListPool, HashBlockCache, RadixCache, TieredCache, draw, record
from minikv.course.pictures.shelves import shelves
from minikv.engine.ch09_10_rows_and_blocks import BlockPool
from minikv.engine.ch14_tiers import Tiers
from minikv.prefix.tiered import WRITES

GOLDEN = "shelves.txt"
PROMPTS = st.lists(st.integers(0, 2), min_size=1, max_size=6)
ACTS = st.lists(
    st.tuples(st.sampled_from(["insert", "evict", "load", "settle"]), PROMPTS, st.sampled_from([None, "B"]))
)


def a_cache(acts, page_size=1, write="write_back", host_pages=6):
    """A cache after these acts, with the moves that are still under way."""
    cache, page = TieredCache(page_size, host_pages, write, evict_by="page"), 100
    for verb, tokens, namespace in acts:
        if verb == "evict":
            cache.evict(len(tokens))
        elif verb == "settle" and cache.host.moves:
            cache.settle(cache.host.moves[0])
        elif verb == "load":
            match = cache.acquire(tokens, namespace=namespace)
            cache.load(match, range(page, page + 9))
            page += 9
        elif verb == "insert":
            cache.insert(tokens, range(page, page + len(tokens) // page_size), namespace=namespace)
            page += 9
        while verb in ("insert", "evict") and cache.next_move() is not None:
            pass
    return cache


@given(ACTS, st.integers(1, 2), st.sampled_from(WRITES))
def test_each_page_of_host_memory_and_each_move_is_where_the_picture_says(acts, page_size, write):
    cache = a_cache(acts, page_size, write)
    (shelf,) = shelves(cache)
    rows = [cells for name, cells in shelf.rows if name.startswith("page")]
    found = {cell.key: page for page, cell in enumerate(cell for cells in rows for cell in cells)}
    cached = {key: page for key, (page, _) in cached_in(cache.host.index).items()}
    assert {key[1:]: page for key, page in found.items() if len(key) == 3} == cached
    free = [page for key, page in found.items() if key[1] == "free"]
    assert free == [page for page in range(cache.host.num_pages) if cache.host.pool.is_free(page)]
    assert shelf.title == f"host memory: {len(free)} of {cache.host.num_pages} pages free"
    moves = [row for row in shelf.rows if not row[0].startswith("page")]
    assert [(name, [cell.number + cell.word for cell in cells]) for name, cells in moves] == [
        ("to host" if move.to_host else "from host", [f"{a}→{b}" for a, b in zip(move.src, move.dst)])
        for move in cache.host.moves
    ]


def moving():
    """Two prompts in host memory, one that comes back, and one that leaves."""
    cache = a_cache([("insert", [1, 2, 3, 4], None), ("insert", [1, 2, 7, 8], None)], host_pages=8)
    cache.evict(4)
    cache.settle(cache.next_move())
    cache.settle(cache.next_move())
    cache.insert([5, 6], [120, 121])
    match = cache.acquire([1, 2, 3, 4])
    cache.load(match, [130, 131])
    cache.evict(1)
    cache.next_move()
    return cache, match


# -- what is shown; films of it are in `scripted_films` --------------------------------------


def both_memories_and_what_moves_between_them():
    cache, match = moving()
    return draw(cache, matched=match)


def the_words_of_their_image():
    return "\n".join(words_in(draw(moving()[0]).svg))


def a_page_of_many_tokens():
    acts = [("insert", [10, 11], None), ("evict", [1], None), ("settle", [1], None)]
    return draw(a_cache(acts, page_size=2))


def a_move_of_many_pages():
    cache = TieredCache(host_pages=12, evict_by="page")
    cache.insert(range(12), range(12))
    cache.evict(12)
    cache.next_move()
    return draw(cache)


def the_words_of_moves_within_a_step():
    film = FILMS["an engine moves pages between tiers"]()
    return "\n".join(line for frame in film.frames[-2:] for line in frame.inner_words)


def a_namespace_that_goes_and_comes_back_in_one_step_has_one_root():
    film = FILMS["a namespace that goes and comes back in one step"]()
    return f"{film.at(4)}\n{film.at(7)}"


def a_cache_without_host_memory():
    cache = TieredCache()
    cache.insert([1, 2], [5, 6])
    return draw(cache)


def the_dictionary_and_the_queue_of_a_cache():
    cache = HashBlockCache(page_size=2)
    cache.insert([1, 2, 3, 4], [7, 8])
    cache.insert([1, 2, 5, 6], [7, 9])
    cache.acquire([1, 2, 3, 4])
    return draw(cache)


def the_learners_tiers():
    tiers = Tiers(device_pages=3, host_pages=2)
    tiers.serve(["a", "ab", "abc"])
    tiers.serve(["x"])
    (shelf,) = shelves(tiers)
    return shelf.boxes(shelf).text


def the_learners_dictionary_and_queue():
    pool = BlockPool(4)
    block, _ = taken = pool.take(2)
    pool.publish(taken, [b"\xab\xcd\xef", None])
    del pool.table[None]
    block.users, taken[1].key = 0, None
    pool.queue.add_last(block)
    return draw(pool)


@needs_graphviz
@pytest.mark.parametrize("scene", sections(GOLDEN))
def test_a_scene_is_shown_as_it_is_written_down(scene):
    compare(GOLDEN, scene, str(globals()[scene.replace(" ", "_")]()).splitlines())


class Queued(FreeListPool):
    """A learner's pool with a queue of plain numbers."""

    def __init__(self, size):
        super().__init__(size)
        self.queue = deque(range(size))


def test_a_learners_queue_of_something_else_is_left_alone():
    cache, pool = RadixCache(), Queued(4)
    cache.queue = deque([1])
    with record(cache, pool) as film:
        cache.insert([1, 2], pool.alloc(2))
    assert len(film) == 3
    assert str(draw(pool)).startswith("Queued: 2 of 4 free")
    assert str(draw(cache)) == "root\n└─ [1 2] · slots 0-1"


@needs_graphviz
def test_a_key_cannot_break_the_picture():
    pool = BlockPool(2)
    pool.publish(pool.take(1), ["<&"])
    assert ElementTree.fromstring(draw(pool).svg)
    assert "&lt;&amp;" in draw(pool).svg


def test_more_blocks_than_are_shown_are_said_to_be_more():
    cache = HashBlockCache()
    cache.insert(range(600), range(600))
    assert "(the first 512 shown)" in draw(cache).text

"""What is kept beside a tree: each page is where the picture says that it is, and each word of it is in the image."""

from __future__ import annotations

import contextlib
from collections import deque
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lesson import golden
from machine import cached_in
from test_draw import needs_graphviz, words_in
from test_engine_oracle import canary_model

from minikv import (
    CacheManager,
    Engine,
    FreeListPool,
    HashBlockCache,
    LockError,
    RadixCache,
    Scheduler,
    SlidingWindowCache,
    TieredCache,
    WindowedPool,
    draw,
    playground,
    record,
)
from minikv.course.pictures.shelves import shelves
from minikv.course.playground.steps import Step
from minikv.engine.ch09_10_rows_and_blocks import BlockPool
from minikv.engine.ch14_tiers import Tiers
from minikv.prefix.tiered import WRITES

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
def test_each_page_of_host_memory_is_where_the_picture_says(acts, page_size, write):
    cache = a_cache(acts, page_size, write)
    (shelf,) = shelves(cache)
    rows = [cells for name, cells in shelf.rows if name.startswith("page")]
    found = {cell.key: page for page, cell in enumerate(cell for cells in rows for cell in cells)}
    cached = {key: page for key, (page, _) in cached_in(cache.host.index).items()}
    assert {key[1:]: page for key, page in found.items() if len(key) == 3} == cached
    free = [page for key, page in found.items() if key[1] == "free"]
    assert free == [page for page in range(cache.host.num_pages) if cache.host.pool.is_free(page)]
    assert shelf.title == f"host memory: {len(free)} of {cache.host.num_pages} pages free"


@given(ACTS, st.sampled_from(WRITES))
def test_each_move_says_from_which_page_to_which(acts, write):
    cache = a_cache(acts, 1, write)
    (shelf,) = shelves(cache)
    said = [
        (name, [cell.number + cell.word for cell in cells]) for name, cells in shelf.rows if not name.startswith("page")
    ]
    assert said == [
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


@needs_graphviz
def test_the_picture_says_all_that_its_text_says():
    picture = draw(moving()[0])
    said = {"host memory: 0 of 8 pages free", "pages", "7", "8", "from host", "2→", "130", "3→", "131", "to host"}
    assert said <= {*words_in(picture.svg)}


def test_a_cache_without_host_memory_is_drawn_as_it_always_was():
    cache = TieredCache()
    cache.insert([1, 2], [5, 6])
    assert str(draw(cache)) == "root\n└─ [1 2] · slots 5-6"


# -- what is shown, as it is written down in golden/shelves.txt --------------------------------------


def both_memories_and_what_moves_between_them():
    cache, match = moving()
    return draw(cache, matched=match)


def a_page_of_many_tokens():
    acts = [("insert", [10, 11], None), ("evict", [1], None), ("settle", [1], None)]
    return draw(a_cache(acts, page_size=2))


def a_move_of_many_pages():
    cache = TieredCache(host_pages=12, evict_by="page")
    cache.insert(range(12), range(12))
    cache.evict(12)
    cache.next_move()
    return draw(cache)


def an_engine_moves_bytes_between_tiers():
    manager = CacheManager(8, prefix_cache=TieredCache(host_pages=12, evict_by="page"))
    engine = Engine(canary_model(manager), manager, Scheduler(manager, max_running=1))
    with record(engine) as film:
        for prompt in ([1, 2, 3, 4, 5], [6, 7, 8, 9, 10], [1, 2, 3, 4, 11]):
            engine.submit(prompt, 1)
        for _ in range(3):
            engine.step()
    words = [line for frame in film.frames[-2:] for line in frame.inner_words]
    return "\n".join([*words, film.at(-2).text, film.at(-1).text])


def each_step_of_a_move_is_a_frame_of_its_own():
    cache = TieredCache(host_pages=3, evict_by="page")
    with record(cache) as film:
        for arrives in (False, True):
            cache.insert([1, 2], [5, 6])
            cache.evict(2)
            cache.settle(cache.next_move(), arrives)
        match = cache.acquire([1, 2, 3])
        cache.settle(cache.load(match, [8, 9]))
        assert cache.load(cache.acquire([7]), [8]) is cache.next_move() is None
        with contextlib.suppress(LockError):
            cache.settle("a move")
    return "\n".join(f"{frame.words}\n{frame.rows[0].text}" for frame in film)


def window_slots_come_go_and_change_hands():
    pool = WindowedPool(6, num_window_pages=5)
    cache = SlidingWindowCache(window=2, pool=pool)
    with record(cache, pool) as film:
        cache.insert([1, 2, 3], pool.alloc(3))
        cache.evict(0, window_tokens=1)
        twice = pool.alloc(2)
        done = cache.insert([1, 2], twice)
        pool.free(twice[: done.prefix_length])
    return "\n".join(frame.rows[0].text for frame in film.frames[2:])


def the_learners_dictionary_and_queue():
    pool = BlockPool(4)
    block, _ = taken = pool.take(2)
    pool.publish(taken, [b"\xab\xcd\xef", None])
    del pool.table[None]
    block.users, taken[1].key = 0, None
    pool.queue.add_last(block)
    return draw(pool)


def pressed(room, verb, prompt=None, tokens=None):
    for name, value in (("prompt", prompt), ("tokens", tokens)):
        if value is not None:
            room.controls[name].value = value
    room.controls[verb].click()
    return room.said.partition(": ")[2]


def the_playground_says_what_comes_from_host_memory():
    room = playground(capacity=6, host_pages=8, evict_by="page")
    typed = {"insert": ["1 2 3 4", "5 6 7 8 9", "1 2 3 9"], "match": ["5 6 7 8 9"]}
    said = [pressed(room, verb, prompt) for verb, prompts in typed.items() for prompt in prompts]
    pressed(room, "evict", tokens=3)
    said += [str(room.history.live.film.at(-1).inner), room.text, pressed(room, "start", "5 6 7 8")]
    assert room.history.live.done[-1][1] == 4
    pressed(room, "abort")
    room.controls["reset"].click()  # which forgets host memory too
    return "\n".join([*said, pressed(room, "match"), room.text])


@pytest.mark.parametrize("scene", golden("shelves"), ids=lambda scene: scene.name)
def test_a_scene_is_shown_as_it_is_written_down(scene):
    assert f"{globals()[scene.name]()}\n" == scene.text


def test_a_namespace_that_goes_and_comes_back_in_one_step_has_one_root():
    manager = CacheManager(3, prefix_cache=TieredCache(host_pages=4))
    with record(manager) as film:
        for tokens in [1, 2, 3], [5, 6, 7]:
            sequence = manager.start(tokens, namespace="B")
            manager.advance(sequence)
            manager.finish(sequence)
    began = next(frame for frame in film.frames if frame.changes.ghosts)
    assert [node.label for node in began.nodes if node.parent is None].count("root of 'B'") == 1
    room = playground(capacity=3, host_pages=4)
    for prompt in "1 2 3", "5 6 7":
        room.history.do(Step("insert", prompt, "B"))
    frame = room.history.live.film.at(-1)
    assert {"[1 2 3]", "[5 6 7]"} <= {node.label for node in frame.nodes}
    assert "nnn" in str(frame)


def test_the_dictionary_and_the_queue_of_a_cache_are_shown_in_order():
    cache = HashBlockCache(page_size=2)
    cache.insert([1, 2, 3, 4], [7, 8])
    cache.insert([1, 2, 5, 6], [7, 9])
    cache.acquire([1, 2, 3, 4])
    table, queue = shelves(cache)
    blocks = [(block.key.hex(), block.pages[0]) for block in cache.nodes()]
    assert [cell.key for _, cells in table.rows for cell in cells] == blocks
    assert [cell.state for _, cells in table.rows for cell in cells] == ["locked", "locked", "cached"]
    assert [cell.word for _, cells in queue.rows for cell in cells] == ["9"]


def test_the_learners_tiers_show_both_memories_page_by_page():
    tiers = Tiers(device_pages=3, host_pages=2)
    tiers.serve(["a", "ab", "abc"])
    tiers.serve(["x"])
    (shelf,) = shelves(tiers)
    keys = {(row, cell.number): cell.word for row, cells in shelf.rows for cell in cells if cell.word}
    wanted = [(name, key, getattr(block, name)) for key, block in tiers.blocks.items() for name in ("device", "host")]
    assert keys == {(name, f"{page}"): key for name, key, page in wanted if page is not None}
    assert len(keys) >= 4


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

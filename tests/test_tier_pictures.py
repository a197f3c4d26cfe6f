"""Pictures of two tiers: each page is where the picture says that it is, and each word of it is in the image."""

from __future__ import annotations

import contextlib
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_draw import needs_graphviz, words_in
from test_engine_oracle import canary_model
from tiered_machine import pages_of

from minikv import CacheManager, Engine, LockError, Scheduler, TieredCache, draw, playground, record
from minikv.course.pictures.tiers import host_paths, two_tiers
from minikv.course.playground.steps import Step
from minikv.prefix.tiered import WRITES
from minikv.testing.snapshot import NodeView, snapshot

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


def drawn(cache):
    """By (namespace, tokens up to the end of a page), what the picture says of that page."""
    views, found, paths = two_tiers(snapshot(cache, {}), host_paths(cache), cache.page_size), {}, []
    for view in views:
        namespace, above = (view.namespace, ()) if view.parent is None else paths[view.parent]
        paths.append((namespace, (*above, *view.tokens)))
        for at in range(0, len(view.tokens), cache.page_size):
            end = len(above) + at + cache.page_size
            key = namespace, paths[-1][1][:end]
            assert key not in found, "a page is drawn once"
            found[key] = view.tier, view.note, view.slots[at : at + cache.page_size]
    return found


@given(ACTS, st.integers(1, 2), st.sampled_from(WRITES))
def test_each_page_is_where_the_picture_says(acts, page_size, write):
    cache = a_cache(acts, page_size, write)
    device, host, moves = pages_of(cache), pages_of(cache.host.index), {}
    for move in cache.host.moves:
        tokens = tuple(move.tokens.tolist())
        for back in range(len(move.dst)):
            key = move.namespace, tokens[: len(tokens) - back * page_size]
            moves.setdefault(key, []).append("to host" if move.to_host else "from host")
    found = drawn(cache)
    assert found.keys() == device.keys() | host.keys() | moves.keys()
    for key, (tier, note, slots) in found.items():
        leaving = "to host" in moves.get(key, ())[:1]
        assert tier == "D" * (key in device or leaving) + "H" * (key in host)
        assert note == moves.get(key, [""])[0]
        first = device[key] * page_size if key in device else 0
        assert slots == ([*range(first, first + page_size)] if key in device else [])


def test_a_tree_over_two_tiers_and_its_text_twin():
    cache = a_cache([("insert", [1, 2, 3, 4], None), ("insert", [1, 2, 7, 8], None)], host_pages=8)
    cache.evict(4)
    cache.settle(cache.next_move())
    cache.settle(cache.next_move())
    cache.insert([5, 6], [120, 121])
    match = cache.acquire([1, 2, 3, 4])
    cache.load(match, [130, 131])
    cache.evict(1)
    cache.next_move()
    assert str(draw(cache, matched=match)).splitlines() == [
        "root",
        "├─ [1 2] · slots 100-101 · DH · locked ×1 · matched",
        "│  ├─ [3 4] · H · from host",
        "│  └─ [7 8] · H",
        "└─ [5] · slot 120 · D · to host",
        "   └─ [6] · D · to host",
        "D device  H host memory  DH both",
    ]


@needs_graphviz
def test_the_picture_says_all_that_its_text_says_and_dashes_what_the_device_lacks():
    cache = a_cache([("insert", [1, 2], None), ("evict", [1], None), ("settle", [1], None)])
    picture = draw(cache)
    said = [word for line in picture.text.splitlines()[:-1] for word in re.sub(r"^[│├└─ ]+", "", line).split(" · ")]
    assert {*said, "D", "H", "DH", "device", "host memory", "both"} <= {*words_in(picture.svg)}
    dashed = [part for part in picture.svg.split("<path ")[1:] if "dasharray" in part]
    assert ["H" in words_in("<path " + part) for part in dashed] == [True, True], "the node, and the legend's"


def test_a_cache_without_host_memory_is_drawn_as_it_always_was():
    cache = TieredCache()
    cache.insert([1, 2], [5, 6])
    assert str(draw(cache)) == "root\n└─ [1 2] · slots 5-6"


@pytest.mark.parametrize("namespace", ["B", None])
def test_what_only_host_memory_knows_has_a_root_too(namespace):
    cache = a_cache([("insert", [1], namespace), ("evict", [1], None), ("settle", [1], None)])
    assert "└─ [1] · H" in draw(cache).text


# -- films and the playground -----------------------------------------------------------------------------------------


def test_no_child_is_compared_with_all_others():
    class Token(int):
        compared = 0
        __hash__ = int.__hash__

        def __eq__(self, other):
            Token.compared += 1
            return int(self) == int(other)

    views = [NodeView("root", None), *(NodeView("", 0, [Token(number)], [number]) for number in range(300))]
    assert len(two_tiers(views, [])) == 301
    assert Token.compared < 3000


def test_a_film_of_an_engine_shows_bytes_moving_between_tiers():
    manager = CacheManager(8, prefix_cache=TieredCache(host_pages=12, evict_by="page"))
    engine = Engine(canary_model(manager), manager, Scheduler(manager, max_running=1))
    with record(engine) as film:
        for prompt in ([1, 2, 3, 4, 5], [6, 7, 8, 9, 10], [1, 2, 3, 4, 11]):
            engine.submit(prompt, 1)
        for _ in range(3):
            engine.step()
    evicts, loads = (frame.inner_words for frame in film.frames[-2:])
    assert evicts[2:5] == [
        "evict 2: 2 tokens left the tree, slots 4 3",
        "to host: slots 0-4 to host pages 0-4",
        "arrived in host memory",
    ]
    assert loads[1] == "acquire [1 2 3 4 11]: 3 of 5 tokens are cached, 1 more in host memory"
    assert loads[3:5] == ["to host: slots 4 3 5-7 to host pages 5-9", "arrived in host memory"]
    assert [words for words in loads if "load" in words] == ["load: host page 3 to slot 7"]
    said = film.at(-2).text
    assert "│  └─ [4 5] · end of n1 · slots 3-4 · H · evicted" in said
    assert "host memory: 7 of 12 free\n  0  nnnnn.......    . free  n new" in said
    assert "├─ [1 2 3 4] · n3 · slots 0-2 7 · DH · new · joined\n│  ├─ [5] · H\n" in film.at(-1).text


def test_each_step_of_a_move_is_a_frame_of_its_own():
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
    evict, last = "2 tokens left the tree, slots 6 5", "nothing of it is cached"
    assert [frame.words for frame in film] == [
        "start",
        *("insert [1 2]: 2 tokens are new", f"evict 2: {evict}", "to host: slots 5-6 to host pages 0-1"),
        "failed to arrive in host memory",
        *("insert [1 2]: 2 tokens are new", f"evict 2: {evict}", "to host: slots 5-6 to host pages 0-1"),
        *("arrived in host memory", f"acquire [1 2 3]: {last}, 2 more in host memory"),
        *("load: host pages 0-1 to slots 8-9", "arrived on the device", f"acquire [7]: {last}"),
        "settle raised LockError: cannot settle 'a move': it is not under way here",
    ]
    pages = [frame.rows[0].text.splitlines()[1].split()[1] for frame in film]
    assert " ".join(pages) == "... ... ... ++. −−. ... ... ++. nn. cc. ll. cc. cc. cc."
    assert {"device", "host memory", "both"} <= film.at(3).legend
    assert [view.tier for view in film.at(10).nodes] == ["", "H"]


def pressed(room, verb, prompt=None, tokens=None):
    for name, value in (("prompt", prompt), ("tokens", tokens)):
        if value is not None:
            room.controls[name].value = value
    room.controls[verb].click()
    return room.said.partition(": ")[2]


def test_the_playground_says_what_comes_from_host_memory():
    room = playground(capacity=6, host_pages=8, evict_by="page")
    typed = [("insert", "1 2 3 4"), ("insert", "5 6 7 8 9"), ("insert", "1 2 3 9"), ("match", "5 6 7 8 9")]
    said = [pressed(room, *how) for how in typed]
    pressed(room, "evict", tokens=3)
    assert said == [
        "nothing of it is cached; 4 tokens are new",
        "nothing of it is cached; 3 tokens left the tree, slots 3 2 1; 5 tokens are new",
        "1 of 4 tokens is cached, 2 more in host memory; 3 tokens left the tree, slots 5 4 1; "
        "host pages 1-2 to slots 5 4; 2 tokens are new, 1 was there already; 1 token is new, 3 were there already",
        "2 of 5 tokens are cached, 3 more in host memory",
    ]
    assert "to host: slot 1 to host page 7" in room.history.live.film.at(-1).inner
    assert "│     └─ [9] · n4 · slot 1 · H · evicted" in room.text
    assert "host memory: 0 of 8 free\n 0  cccccccn" in room.text
    assert pressed(room, "start", "5 6 7 8").startswith("2 of 4 tokens are cached, 2 more in host memory; host pages")
    assert room.history.live.done[-1][1] == 4


def test_a_reset_forgets_host_memory_too():
    room = playground(capacity=6, host_pages=8)
    pressed(room, "insert", "1 2 3")
    pressed(room, "evict", tokens=3)
    pressed(room, "reset")
    assert pressed(room, "match") == "nothing of it is cached"
    assert "host memory: 8 of 8 free" in room.text


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

"""Pictures of two tiers: each page is where the picture says that it is, and each word of it is in the image."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_draw import needs_graphviz, words_in
from tiered_machine import pages_of

from minikv import TieredCache, draw
from minikv.course.pictures.tiers import host_paths, two_tiers
from minikv.prefix.tiered import WRITES
from minikv.testing.snapshot import snapshot

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

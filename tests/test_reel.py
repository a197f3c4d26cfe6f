"""A reel keeps of each step only what changed, and gives every picture back as it was."""

from __future__ import annotations

import json
import random

import pytest
from browser import Page
from hypothesis import given
from hypothesis import strategies as st
from reels import pictures_of

from minikv import CacheManager, CanaryModel, Engine, FreeListPool, RadixCache, Scheduler, draw, play, record
from minikv.course.film.layout import FilmLayout
from minikv.course.pictures.svg import Drawing, Paper, Part
from minikv.course.pictures.tree import graphviz_way
from minikv.course.reel import Reel, script

needs_graphviz = pytest.mark.skipif(graphviz_way() is None, reason="no way to run Graphviz here")


def a_day(steps, slots=64, seed=1):
    """A film of so many steps: prompts that share their beginnings, served from a pool that is always full."""
    dice, cache, pool = random.Random(seed), RadixCache(), FreeListPool(slots)
    documents = [[dice.randrange(100) for _ in range(6)] for _ in range(3)]
    with record(cache, pool) as film:
        while len(film) < steps:
            tokens = dice.choice(documents)[: dice.randrange(2, 7)] + [dice.randrange(20) for _ in range(3)]
            match = cache.acquire(tokens)
            need = len(tokens) - match.length
            if need > pool.num_free:
                pool.free(cache.evict(need - pool.num_free))
            cache.insert(tokens, [*match.slots, *pool.alloc(need)])
            cache.unlock(match.handle)
    return film


def an_engines_film():
    manager = CacheManager(24)
    engine = Engine(CanaryModel(64), manager, Scheduler(manager, token_budget=4, max_running=2))
    with record(engine) as film:
        for prompt in ([1, 2, 3, 4, 5], [1, 2, 3, 9, 9, 9], [7]):
            engine.submit(prompt, 3)
        for _ in range(8):
            engine.step()
    return film


DRAWINGS = st.sampled_from([Drawing("<a/>"), Drawing("<b/>", 10), Drawing("<c/>", 20)])
PLACES = st.integers(-50, 50)
FRAMES = st.lists(
    st.dictionaries(st.integers(0, 5), st.tuples(DRAWINGS, PLACES, PLACES, st.booleans())), min_size=1, max_size=8
)


def parts_in(frame):
    """Each part hangs on the first one, or on none."""
    first = next(iter(frame), None)
    return [Part(key, d, x, y, first if hangs and key != first else None) for key, (d, x, y, hangs) in frame.items()]


@given(FRAMES, st.booleans())
def test_every_picture_comes_back_as_it_was(frames, sideways):
    paper = Paper(100, 100, sideways)
    reel = Reel(0, [str(i) for i in range(len(frames))])
    reel.add("tree", paper, map(parts_in, frames))
    sent = json.loads(json.dumps(reel.as_dict()))
    assert list(pictures_of(sent, 0)) == [paper.svg(parts_in(frame)) for frame in frames]


def test_what_did_not_change_is_not_sent_again():
    reel, dot = Reel(0, ["one", "two", "three", "four"]), Drawing("<circle/>")
    one = [Part(0, dot, 1, 1)]
    reel.add("tree", Paper(9, 9), [one, one, [*one, Part(5, dot, 2, 2, 0)], []])
    assert reel.drawings == ["<circle/>"]
    steps = reel.panels[0]["steps"]
    assert steps == [[[0, None], [0, 0, 1, 1]], 0, [[0, None, 5, 0], [5, 0, 2, 2]], [[], []]]


@needs_graphviz
@pytest.mark.parametrize("make", [lambda: a_day(40), an_engines_film], ids=["cache", "engine"])
def test_a_films_reel_gives_each_frame_as_the_frame_paints_itself(make):
    film = make()
    for number, panel in enumerate(FilmLayout(film.frames).panels):
        painted = [panel.paper.svg(panel.parts(frame)) for frame in film]
        assert list(pictures_of(film.reel.as_dict(), number)) == painted


@needs_graphviz
def test_a_long_film_stays_small(tmp_path):
    """1.1 MB for 1,000 steps; 250 of them stay under half of a megabyte, and no step adds more than 2 KB."""
    film = a_day(250)
    state = json.dumps(film.player().reel, separators=(",", ":"))
    page = film.save(tmp_path / "film.html")
    assert len(state) < 500_000
    assert page.stat().st_size < 500_000


@needs_graphviz
def test_a_film_is_laid_out_once(tmp_path, monkeypatch):
    film = a_day(30)
    film.player()
    monkeypatch.setattr("minikv.course.film.layout.tree_parts", lambda *_, **__: pytest.fail("laid out again"))
    film.save(tmp_path / "film.html")


def test_a_reel_that_grew_is_made_again():
    pool = FreeListPool(2)
    film = record(pool).start()
    assert len(film.reel.captions) == 1
    pool.alloc(1)
    assert len(film.reel.captions) == 2
    film.finish()


@pytest.mark.browser
@needs_graphviz
def test_the_browser_makes_the_same_pictures(chromium):
    """In any order of steps, for a tree that grows down or to the right, for requests, and for a row of pictures."""
    broad = RadixCache()
    with record(broad) as sideways:
        for token in range(30):
            broad.insert([token, token], [2 * token, 2 * token + 1])
    pool = FreeListPool(3)
    pictures = play([(f"alloc {n}", draw(pool, new=pool.alloc(n))) for n in (1, 2)])
    tab = Page(chromium)
    dice = random.Random(0)
    for reel in [film.player().reel for film in (a_day(60), an_engines_film(), sideways)] + [pictures.reel]:
        sent = json.loads(json.dumps(reel))
        for panel in range(len(sent["panels"])):
            wanted = list(pictures_of(sent, panel))
            steps = [dice.randrange(len(wanted)) for _ in range(12)]
            found = tab.page.evaluate(
                """async ([code, reel, panel, steps]) => {
                    const url = URL.createObjectURL(new Blob([code], { type: "text/javascript" }));
                    const { pictureAt } = await import(url);
                    return steps.map((step) => pictureAt(reel, reel.panels[panel], step));
                }""",
                [script(), sent, panel, steps],
            )
            assert found == [wanted[step] for step in steps]
    tab.context.close()

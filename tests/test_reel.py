"""A reel keeps of each step only what changed, and gives every picture back as it was."""

import json
import random

import pytest
from browser import Page
from hypothesis import given
from hypothesis import strategies as st
from player_page import pictures
from reels import needs_graphviz, pictures_of
from scripted_films import Server
from scripted_films import a_step_says_what_was_computed_of_whom as of_an_engine

from minikv import RadixCache, record
from minikv.course.pictures.svg import Drawing, Paper, Part
from minikv.course.reel import Reel, script


def a_day(steps, size=64):
    """A film of so many steps: prompts that share their beginnings, served from a pool that is always full."""
    dice, server = random.Random(1), Server(size)
    documents = [[dice.randrange(100) for _ in range(6)] for _ in range(3)]
    with record(server.cache, server.pool) as film:
        while len(film) < steps:
            server.serve(dice.choice(documents)[: dice.randrange(2, 7)] + [dice.randrange(20) for _ in range(3)])
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


@needs_graphviz
def test_a_long_film_stays_small_and_is_laid_out_once(tmp_path, monkeypatch):
    """1.1 MB for 1,000 steps; 100 of them stay under 200 KB, and no step adds more than 2 KB."""
    film = a_day(100)
    assert len(json.dumps(film.player().reel, separators=(",", ":"))) < 200_000
    monkeypatch.setattr("minikv.course.film.layout.tree_parts", lambda *_, **__: pytest.fail("laid out again"))
    assert film.save(tmp_path / "film.html").stat().st_size < 200_000


PICTURES = """async ([code, reel, panel, steps]) => {
    const url = URL.createObjectURL(new Blob([code], { type: "text/javascript" }));
    const { pictureAt } = await import(url);
    return steps.map((step) => pictureAt(reel, reel.panels[panel], step));
}"""


@pytest.mark.browser
@needs_graphviz
def test_the_browser_makes_the_same_pictures(chromium):
    """In any order of steps, for a tree that grows down or to the right, for requests, and for a row of pictures."""
    broad = RadixCache()
    with record(broad) as sideways:
        for token in range(30):
            broad.insert([token, token], [2 * token, 2 * token + 1])
    tab, dice = Page(chromium), random.Random(0)
    for reel in [film.reel.as_dict() for film in (a_day(60), of_an_engine(), sideways)] + [pictures()]:
        for panel in range(len(reel["panels"])):
            wanted = list(pictures_of(reel, panel))
            steps = [dice.randrange(len(wanted)) for _ in range(12)]
            assert tab.page.evaluate(PICTURES, [script(), reel, panel, steps]) == [wanted[step] for step in steps]
    tab.context.close()

"""A film: what can be filmed and asked, how it is drawn, and its player.

What films say is in `test_film_words.py`.
"""

import json
import re

import numpy as np
import pytest
from golden_text import compare
from reels import frames_of, needs_graphviz, without_color, words_in
from scripted_films import FILMS, Server, a_cache_and_a_pool
from traitlets import TraitError

from minikv import Film, FreeListPool, PageTable, RadixCache, record
from minikv.course.film.layout import BROAD, FilmLayout, breadth
from minikv.course.pictures.cells import pool_rows
from minikv.course.pictures.svg import Paper, svg_size
from minikv.testing.model import NaiveCache
from minikv.testing.watch import watch

DRAWN = "a cache and a pool", "a server", "several pools", "a pool of pages", "a step says what was computed of whom"


def finished(*things):
    with record(*things) as film:
        pass
    return film


# -- recording -------------------------------------------------------------------------------------

FILM, EMPTY, STILL = a_cache_and_a_pool(), finished(PageTable(1, 1)), finished(FreeListPool(2))
TUPLE = r"things is .*: expected a tuple; record\(cache, pool\) makes it"
REFUSED = {
    "cannot record a int": lambda: record(5),
    "cannot record a NoneType": lambda: record(None),
    "nothing to record": record,
    f"(?#one){TUPLE}": lambda: Film("cache"),
    f"(?#an array has no truth){TUPLE}": lambda: Film(np.ones(3)),
    "2 prefix caches": lambda: record(RadixCache(), RadixCache()),
    "cannot draw a NaiveCache": lambda: record(NaiveCache()).start(),
    "has already started": STILL.start,
    "not been started": lambda: record(FreeListPool(2)).step("too early").__enter__(),
    "slot is 12: this film saw slots 0 to 11": lambda: FILM.why(12),
    "this film saw none": lambda: EMPTY.why(0),
    "step is 15: this film has steps 0 to 14": lambda: FILM.at(15),
    "step is -16: this film has steps 0 to 14": lambda: FILM.at(-16),
    "this film has steps 0 to 0": lambda: STILL.player(still=1),
}


@pytest.mark.parametrize("message", REFUSED)
def test_what_cannot_be_filmed_or_asked_is_named(message):
    with pytest.raises((TypeError, ValueError, RuntimeError), match=message):
        REFUSED[message]()


def test_what_cannot_be_shadowed_is_said_and_the_rest_let_go():
    class Slotted:
        __slots__ = ("slots",)

        def grow(self):
            pass

    pool, thing = FreeListPool(2), Slotted()
    thing.slots = []
    with pytest.raises(TypeError, match=r"cannot watch a Slotted.*__slots__"):
        record(pool, thing).start()
    assert "alloc" not in vars(pool)


def test_afterwards_everything_is_as_it_was_and_others_may_look_meanwhile():
    """Somebody else listens to the server, so its cache's calls are deep; they are shown all the same."""
    server, heard = Server(4), []
    cache, pool = server.cache, server.pool
    before = set(vars(cache)), set(vars(pool))
    stop = watch(server, ["serve"], heard.append)
    with record(cache, pool) as one, record(cache, pool) as two:
        server.serve([1])
    assert (set(vars(cache)), set(vars(pool))) == before
    pool.alloc(1)
    stop()
    assert [frame.op.split()[0] for frame in one] == ["start", "match", "lock", "alloc", "insert", "unlock"]
    assert [frame.words for frame in one] == [frame.words for frame in two]
    assert len(heard) == 1


def test_a_step_in_the_middle_of_an_operation_is_part_of_it():
    class Talking(Server):
        def serve(self, tokens):
            with film.step("now it begins"):
                super().serve(tokens)

    film = record(server := Talking(4))
    with film:
        server.serve([1])
    assert film.at(1).inner_words[:1] == ["now it begins"]


def test_what_did_not_change_is_kept_once():
    cache = RadixCache()
    cache.insert(range(1000), range(1000))
    with record(cache) as film:
        cache.insert([5000], [5000])
    assert film.at(0).state.nodes[1] is film.at(1).state.nodes[1]


# -- pictures --------------------------------------------------------------------------------------


@needs_graphviz
@pytest.mark.parametrize("name", DRAWN)
def test_all_frames_of_a_film_have_one_size_and_every_word_of_a_frame_is_in_its_picture(name):
    film = FILMS[name]()
    layout = FilmLayout(film.frames)
    assert len({svg_size(layout.svg(frame)) for frame in film}) == 1
    for frame in film:
        drawn = " ".join(words_in(frame.picture.svg))
        wanted = {frame.caption, *frame.changes.words, *re.findall(r"(?m)^r\d \w+", frame.text)}
        wanted.update(*([view.label, *view.marks] for view in frame.nodes))
        wanted.update(box.word for pool in frame.pools for box in pool.boxes)
        assert [word for word in " ".join(wanted).split() if word not in drawn] == []


def test_marks_of_cells_differ_without_color():
    looks = {}
    for cell in {cell for frame in FILM for cell in frame.pools[0].boxes}:
        svg = without_color(Paper(9, 9).svg(pool_rows("", [1], [cell]).parts((1, 44, 6))))
        looks.setdefault(svg.replace(cell.word or " ", ""), set()).add((cell.state, cell.event))
    assert len(looks) >= 7
    assert max(map(len, looks.values())) == 1


@needs_graphviz
def test_a_broad_tree_grows_sideways():
    cache = RadixCache()
    with record(cache) as film:
        for token in range(30):
            cache.insert([token, token], [2 * token, 2 * token + 1])
    assert breadth(film.at(-1)) > BROAD
    width, height, *_ = FilmLayout(film.frames).panels[0].paper
    assert width < BROAD < height


def test_much_is_shown_in_part():
    film = finished(FreeListPool(2000))
    assert "FreeListPool: 2000 of 2000 slots free (the first 512 shown)" in film.at(0).text
    assert film.at(0).text.splitlines()[-1] == "free slots: 2000 · in hand: 0"
    assert frames_of(film.reel.as_dict())[0].count("data-part") == 1025  # the heading; a box and a number for each cell
    cache, pool = RadixCache(), FreeListPool(100)
    with record(cache, pool, label=lambda tokens: "word " * len(tokens)) as film:
        cache.insert(range(1000), range(1000))
        for _ in range(49):
            pool.alloc(1)
    assert len(film.at(1).caption) < 120
    assert "… 21 more …" in repr(film)
    assert len(repr(film).splitlines()) == 32


LABELS = {
    "\ud800\x00": "\\ud800\\x00",
    "a\nb\tc": "a b c",
    "<b>&\"'</b>\\n": "<b>&\"'</b>\\n",
    "x" * 500: "x" * 20 + "…" + "x" * 19,
}


@pytest.mark.parametrize("written", LABELS)
def test_any_label_can_be_shown_and_saved(written, tmp_path):
    cache = RadixCache()
    with record(cache, label=lambda tokens: written) as film:
        cache.insert([1], [0])
        with film.step(written):
            pass
    assert film.at(1).nodes[1].label == LABELS[written]
    film.save(tmp_path / "film.html")
    assert frames_of(film.player().reel)
    assert film.at(-1)._repr_mimebundle_()[0]["text/plain"]


# -- the player ------------------------------------------------------------------------------------


@needs_graphviz
def test_the_player_knows_what_each_step_is_about_and_what_is_gone():
    told = FILM.player().reel["film"]
    parts = [*told["nodes"].values(), *(told[part] for part in ("notes", "focus", "born", "slots"))]
    compare("reel.txt", "a cache and a pool", list(map(json.dumps, parts)))
    kinds = [panel["kind"] for name in DRAWN[::2] for panel in FILMS[name]().player().reel["panels"]]
    assert kinds == ["tree", "pool", "tree", "pool", "other", "other", "rows", "tree", "pool", "rows"]


@needs_graphviz
def test_where_widgets_do_not_run_the_first_frame_with_something_in_it_stands_in():
    """What comes later is not shown before one could say it."""
    player, title = FILM.player(), "Film of RadixCache and FreeListPool: 15 frames\n"
    data, _ = player._repr_mimebundle_()
    assert {"image/png", "text/plain", "application/vnd.jupyter.widget-view+json"} <= set(data)
    assert data["text/plain"] == repr(player)
    assert [frame.step for frame in FILM if frame.caption in repr(player)] == [0, 1, 2]
    assert repr(player).endswith(FILM.at(2).text)
    assert player.still.alt == title + FILM.at(2).text
    chosen = FILM.player(still=-1)
    assert (chosen.still.alt, chosen.index) == (title + FILM.at(14).text, 0)
    assert FILMS["pools and tables"]().player().still.text.split("\n\n")[1].startswith("1. occupy slot 2")
    assert "FreeListPool: 2 of 2 slots free" in STILL.player().still.text


def test_the_player_has_no_steps_but_its_own():
    player = FILM.player()
    player.index = 14
    for wrong in (15, -1):
        with pytest.raises(TraitError, match=f"index is {wrong}: this player has steps 0 to 14"):
            player.index = wrong
    assert player.index == 14


def test_without_pictures_the_words_remain(monkeypatch):
    monkeypatch.setattr("minikv.course.pictures.tree.node_places", lambda *shape, **how: None)
    assert ">root</text>" in frames_of(a_cache_and_a_pool.__wrapped__().player().reel)[0]

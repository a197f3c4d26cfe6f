"""A film: what is recorded and in which words, what changed, why a slot is whose, and that nobody notices."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reels import frames_of
from test_film_words import pools_and_tables
from traitlets import TraitError

from minikv import (
    BitmaskPool,
    Film,
    FreeListPool,
    LockError,
    OutOfPages,
    PageTable,
    RadixCache,
    record,
)
from minikv.course.film.layout import BROAD, FilmLayout, breadth
from minikv.course.pictures import tree
from minikv.course.pictures.cells import pool_rows
from minikv.course.pictures.palette import SIZES
from minikv.course.pictures.svg import Paper, svg_size
from minikv.testing.model import NaiveCache
from minikv.testing.watch import watch

needs_graphviz = pytest.mark.skipif(tree.graphviz_way() is None, reason="no way to run Graphviz here")
ALICE, BOB = [1, 2, 3, 4], [1, 2, 9]


def a_film():
    """Alice caches four tokens; Bob shares two of them; Alice's rest is evicted."""
    cache, pool = RadixCache(), FreeListPool(8)
    with record(cache, pool) as film:
        cache.insert(ALICE, pool.alloc(4))
        match = cache.match_prefix(BOB)
        cache.lock(match.handle)
        bob = cache.insert(BOB, [*match.slots, *pool.alloc(1)])
        cache.lock(bob.handle)
        pool.free(cache.evict(2))
        cache.unlock(bob.handle)
        cache.unlock(match.handle)
    return film


def words(film):
    return [frame.words for frame in film]


def marks(frame):
    return {view.label: view.marks for view in frame.nodes if view.marks}


# -- what is recorded, and in which words ---------------------------------------------------------------------------


def test_a_call_that_changes_nothing_is_no_frame():
    """Neither is one with nothing to do; but one that looks for something is, whatever it finds."""
    cache, pool = RadixCache(), FreeListPool(4)
    with record(cache, pool) as film:
        cache.match_prefix([1, 2])
        cache.check()
        pool.free(cache.evict(0))
        pool.alloc(0)
        cache.evict(1)
    assert words(film) == ["start", "match [1 2]: none of it is cached", "evict 1: nothing can be evicted"]


def test_what_was_written_into_a_row_is_marked():
    film = pools_and_tables()
    assert [[box.event for box in rows.boxes][:2] for rows in film.at(4).rows] == [["new", "new"]]
    assert [[box.event for box in rows.boxes][:3] for rows in film.at(5).rows] == [["", "", "new"]]
    assert film.at(4).pools[0].boxes[2].word == "row 0"


def test_the_sizes_of_several_pools_are_added_and_a_name_that_is_there_once_has_no_number():
    first, second, bits = FreeListPool(4), FreeListPool(4), BitmaskPool(2)
    with record(first, second, bits) as film:
        first.alloc(3)
        second.alloc(1)
    assert film.at(-1).sizes == {"free": 6, "in hand": 4}
    assert [pool.heading.split(":")[0] for pool in film.at(-1).pools] == [
        "FreeListPool 0",
        "FreeListPool 1",
        "BitmaskPool",
    ]


def test_an_operation_that_raised_is_a_frame_too():
    cache, pool = RadixCache(), FreeListPool(2)
    handle = cache.insert([1], [0]).handle
    with record(cache, pool) as film:
        with pytest.raises(LockError):
            cache.unlock(handle)
        with pytest.raises(OutOfPages):
            pool.alloc(3)
        with pytest.raises(TypeError):
            pool.alloc()
    assert [frame.error for frame in film] == [None, "LockError", "OutOfPages"]


def test_a_film_is_recorded_once():
    film = record(FreeListPool(2)).start()
    with pytest.raises(RuntimeError, match="has already started"):
        film.start()
    film.finish()
    film.finish()


class Manager:
    """Takes room for a request and gives it back; keeps its cache and pool to itself."""

    def __init__(self):
        self.cache, self._pool, self.live = RadixCache(), FreeListPool(8), {}

    def start(self, tokens):
        match = self.cache.match_prefix(tokens)
        self.live[tuple(tokens)] = [*match.slots, *self._pool.alloc(len(tokens) - match.length)]
        return tuple(tokens)

    def finish(self, request):
        self.cache.insert(request, self.live.pop(request))

    def look(self):
        return self._pool.num_free

    def drop(self, count):
        self._pool.free(self.cache.evict(count))


def test_a_managers_steps_belong_to_its_own_operation():
    manager = Manager()
    with record(manager) as film:
        manager.finish(manager.start([1, 2]))
        manager.look()
        manager.start([1, 2, 3])
        manager.drop(1)
        with pytest.raises(OutOfPages):
            manager.start(list(range(10)))
    assert [(frame.op, frame.inner) for frame in film][1:] == [
        ("start [1 2]", ("match [1 2]: none of it is cached", "alloc 2: slots 0-1")),
        ("finish [1 2]", ("insert [1 2]: 2 tokens are new",)),
        ("start [1 2 3]", ("match [1 2 3]: 2 of 3 tokens are cached", "alloc 1: slot 2")),
        ("drop 1", ("evict 1: 2 tokens are evicted (slots 0-1)", "free slots 0-1: 7 slots are free now")),
        ("start [0 1 2 3 … 6 7 8 9 (10 in all)]", ("match [0 1 2 3 … 6 7 8 9 (10 in all)]: none of it is cached",
         "alloc 10 raised OutOfPages: 10 pages needed, but only 7 free")),
    ]  # fmt: skip
    assert marks(film.at(3)) == {"[1 2]": ["matched"]}
    assert film.why(2).events[-1] == "taken by step 3 (start [1 2 3])"


def test_of_the_learners_manager_the_verbs_are_heard_and_not_how_they_are_done():
    from minikv.engine import engine_world

    with record(manager := engine_world()["CacheManager"](4)) as film:
        manager.advance(first := manager.start([1, 2]))
        manager.finish(first)
    assert [frame.op for frame in film] == ["start", "start [1 2]", "advance r1", "finish r1"]
    assert film.at(-1).inner_words == ["checkpoint r1: 2 tokens are new in the cache"]
    assert str(film.why(0)) == "slot 0: taken by step 1 (start [1 2]) · cached by step 3 in node 1 (finish r1)"


def test_of_the_learners_cache_what_stands_around_its_verbs_is_not_heard():
    from minikv.engine import engine_world

    with record(cache := engine_world()["RadixCache"]()) as film:
        cache.insert([1, 2], [0, 1])
        cache.acquire([1, 2])
    assert [frame.op for frame in film] == ["start", "insert [1 2]", "acquire [1 2]"]
    assert [words.split(" ")[0] for words in film.at(-1).inner_words] == ["match", "lock"]


def test_without_the_manager_its_steps_are_frames():
    manager = Manager()
    with record(manager.cache, manager._pool) as film:
        manager.finish(manager.start([1, 2]))
    assert [frame.op for frame in film] == ["start", "match [1 2]", "alloc 2", "insert [1 2]"]


class Sequence:
    def __init__(self):
        self.slots = []

    def extend_by(self, slots):
        self.slots = [*self.slots, *slots]

    def peek(self):
        return self.slots[-1]


def test_a_sequence_is_followed_by_whatever_changes_it():
    pool, sequence = FreeListPool(4), Sequence()
    with record(pool, sequence) as film:
        sequence.extend_by(pool.alloc(2))
        sequence.peek()
    assert words(film) == ["start", "alloc 2: slots 0-1", "extend by [0 1]"]
    assert [cell.word for cell in film.at(2).pools[0].boxes] == ["row 0", "row 0", "", ""]
    assert film.at(2).text.splitlines()[-4:] == [
        "sequences: 1 of 1 rows open",
        "row 0  0n  1n",
        "h in hand  n new",
        "free slots: 2 · in hand: 2",
    ]


@pytest.mark.parametrize("wrong", [5, None, "cache"])
def test_what_cannot_be_filmed_is_named(wrong):
    with pytest.raises(TypeError, match=f"cannot record a {type(wrong).__name__}"):
        record(wrong)
    with pytest.raises(TypeError, match="nothing to record"):
        record()
    for things in (wrong, np.ones(3)):  # asking an array whether it is empty raises an error of its own
        with pytest.raises(TypeError, match=r"things is .*: expected a tuple; record\(cache, pool\) makes it"):
            Film(things)
    with pytest.raises(ValueError, match="2 prefix caches"):
        record(RadixCache(), RadixCache())


def test_what_cannot_be_shadowed_is_said_and_the_rest_let_go():
    class Slotted:
        __slots__ = ("slots",)

        def grow(self):
            pass

    pool, thing = FreeListPool(2), Slotted()
    thing.slots = []
    with pytest.raises(TypeError, match="__slots__"):
        record(pool, thing).start()
    assert "alloc" not in vars(pool)


def test_afterwards_everything_is_as_it_was():
    cache, pool = RadixCache(), FreeListPool(4)
    before = set(vars(cache)), set(vars(pool))
    film = record(cache, pool)
    with pytest.raises(OutOfPages), film:
        pool.alloc(5)
    assert (set(vars(cache)), set(vars(pool))) == before
    pool.alloc(1)
    assert len(film) == 2


def test_two_films_and_a_ledger_look_at_once():
    pool, heard = FreeListPool(4), []
    stop = watch(pool, ["alloc"], heard.append)
    with record(pool) as one, record(pool) as two:
        pool.alloc(1)
    stop()
    assert words(one) == words(two) == ["start", "alloc 1: slot 0"]
    assert len(heard) == 1


# -- what changed -------------------------------------------------------------------------------------------------


def test_matched_new_split_and_evicted_are_marked():
    film = a_film()
    assert marks(film.at(2)) == {"[1 2 3 4]": ["new"]}
    assert marks(film.at(3)) == {"[1 2]": ["matched", "split"], "[3 4]": ["split"]}
    assert film.at(3).changes.splits == [(2, 1)]
    assert marks(film.at(6)) == {"[1 2]": ["matched"], "[9]": ["new"]}
    assert marks(film.at(8)) == {"[3 4]": ["evicted"]}
    assert marks(film.at(9)) == {}
    assert [view.label for view in film.at(9).nodes] == ["root", "[1 2]", "[9]"]


def test_a_trimmed_end_is_a_ghost_below_what_is_left():
    cache = RadixCache(evict_by="page")
    cache.insert([1, 2, 3], [4, 5, 6])
    with record(cache) as film:
        cache.evict(1)
    assert film.at(1).text.splitlines()[1:4] == [
        "   (n1 cut short)",
        "root",
        "└─ [1 2] · n1 · slots 4-5",
    ]
    assert film.at(1).text.splitlines()[4] == "   └─ [3] · end of n1 · slot 6 · evicted"


def test_reset_and_a_namespace_that_goes_leave_ghosts():
    cache = RadixCache()
    cache.insert([1], [0])
    cache.insert([1], [1], namespace="b")
    with record(cache) as film:
        cache.evict(1)
        cache.evict(1)
        cache.insert([7], [2])
        cache.reset()
    assert [line for line in film.at(2).text.splitlines() if line.endswith("evicted")] == [
        "root of 'b' · evicted",
        "└─ [1] · n3 · slot 1 · evicted",
    ]
    assert film.why(2).events[-1] == "forgotten by step 4 (reset)"


def test_the_pool_says_who_has_what():
    film = a_film()
    rows = ["".join(line.split()[1]) for frame in film for line in frame.text.splitlines() if line.startswith(" 0  ")]
    assert rows == [
        "........",
        "++++....",
        "nnnn....",
        "mmss....",
        "llcc....",
        "llcc+...",
        "mmccn...",
        "llccl...",
        "lleel...",
        "ll−−l...",
        "ll..c...",
        "cc..c...",
    ]
    assert [cell.word for cell in film.at(6).pools[0].boxes] == ["n2", "n2", "n1", "n1", "n3", "", "", ""]
    states = [cell.state for cell in film.at(7).pools[0].boxes]
    assert states == [*["locked"] * 2, *["cached"] * 2, "locked", *["free"] * 3]
    assert film.at(8).sizes == {"free": 3, "in hand": 2, "evictable": 0, "protected": 3}


def test_a_pool_of_pages_belongs_to_a_cache_with_pages():
    cache, pool = RadixCache(page_size=4), FreeListPool(3)
    with record(cache, pool) as film:
        pages = pool.alloc(2)
        cache.insert(range(8), pages)
    assert film.at(1).words == "alloc 2: pages 0-1"
    assert film.at(2).sizes == {"free": 4, "in hand": 0, "evictable": 8, "protected": 0}
    assert [cell.word for cell in film.at(2).pools[0].boxes] == ["n1", "n1", ""]
    assert film.why(7).events == ("taken by step 1 (alloc 2)", "cached by step 2 in node 1 (insert [0 1 2 3 4 5 6 7])")
    with record(cache, FreeListPool(16), page_size=1) as slots:
        pass
    assert slots.at(0).sizes["free"] == 16


def test_a_page_in_the_tree_is_not_in_hand():
    """Pages 0 and 1 are given back, so that the tree holds page 2 alone: slots 8-11."""
    cache, pool = RadixCache(page_size=4), FreeListPool(4)
    with record(cache, pool) as film:
        pages = pool.alloc(4)
        cache.insert(range(4), pages[2:3])
        pool.free(pages[:2])
    assert film.at(-1).sizes == {"free": 8, "in hand": 4, "evictable": 4, "protected": 0}
    assert [cell.word for cell in film.at(-1).pools[0].boxes] == ["", "", "n1", ""]


def test_a_shared_slot_is_named_after_the_first_row_that_has_it():
    pool, table = FreeListPool(2), PageTable(2, 4)
    with record(pool, table) as film:
        slots = pool.alloc(2)
        for count in (1, 2):
            table.append(table.open(), slots[:count])
    assert [cell.word for cell in film.at(-1).pools[0].boxes] == ["row 0", "row 1"]


# -- why ----------------------------------------------------------------------------------------------------------


def test_why_tells_a_slots_life():
    film = a_film()
    assert repr(film.why(3)) == (
        "slot 3: taken by step 1 (alloc 4) · cached by step 2 in node 1 (insert [1 2 3 4]) · "
        "evicted by step 8 (evict 2) · freed by step 9"
    )
    assert film.why(0).events[-1] == "split off into node 2 at step 3"
    assert repr(film.why(7)) == "slot 7: free from the start"
    with pytest.raises(ValueError, match=r"slot is 8: this film saw slots 0 to 7"):
        film.why(8)


def test_why_knows_what_was_there_before_the_film():
    cache, pool = RadixCache(), FreeListPool(4)
    cache.insert([1], pool.alloc(1))
    pool.alloc(1)
    film = record(cache, pool).start()
    film.finish()
    assert [film.why(slot).events[0] for slot in range(3)] == [
        "in node 1 from the start",
        "in use from the start",
        "free from the start",
    ]
    nothing = record(PageTable(1, 1)).start()
    nothing.finish()
    with pytest.raises(ValueError, match="this film saw none"):
        nothing.why(0)


def test_at_counts_from_both_ends():
    film = a_film()
    assert film.at(-1) is film.frames[-1]
    for step in (12, -13):
        with pytest.raises(ValueError, match=f"step is {step}: this film has steps 0 to 11"):
            film.at(step)
    assert len(film) == len(list(film)) == 12


# -- a learner's own ------------------------------------------------------------------------------------------------


class Node:
    def __init__(self, tokens=(), slots=()):
        self.tokens, self.slots, self.children = list(tokens), list(slots), {}


class Mine:
    """A tree in which the upper part of a split keeps its node, nodes have no id, and verbs return plain things."""

    def __init__(self):
        self.root = Node()

    def match_prefix(self, tokens):
        slots, node = [], self.root
        for child in node.children.values():
            same = sum(a == b for a, b in zip(child.tokens, tokens))
            if same and same < len(child.tokens):
                lower = Node(child.tokens[same:], child.slots[same:])
                child.tokens, child.slots, child.children = child.tokens[:same], child.slots[:same], {0: lower}
            slots += child.slots if same else []
        return slots

    def insert(self, tokens, slots):
        self.root.children[tokens[0]] = Node(tokens, slots)
        return 0

    def evict(self, count):
        _, node = self.root.children.popitem()
        return node.slots


def test_a_learners_own_tree_is_filmed():
    mine = Mine()
    with record(mine, label=None) as film:
        mine.insert([1, 2, 3], [7, 8, 9])
        mine.match_prefix([1, 2, 5])
        mine.insert([4], [1])
        mine.evict(1)
    assert words(film) == [
        "start",
        "insert [1 2 3]",
        "match [1 2 5]: 2 of 3 tokens are cached",
        "insert [4]",
        "evict 1: 1 token is evicted (slot 1)",
    ]
    assert marks(film.at(2)) == {"[1 2]": ["matched", "split"], "[3]": ["split"]}
    assert marks(film.at(4)) == {"[4]": ["evicted"]}
    assert [view.id for view in film.at(3).nodes] == [0, 1, 2, 3]
    assert film.why(9).events[-1] == "split off into node 2 at step 2"


@pytest.mark.parametrize(
    ("found", "said"),
    [
        ([7, 8], ": 2 of 3 tokens are cached"),
        (([7], object()), ": 1 of 3 tokens is cached"),
        ([], ": none of it is cached"),
        *(((2, None), ""), ([object()], ""), (None, ""), (3, "")),
    ],
)
def test_a_learners_match_may_return_anything(found, said):
    mine = Mine()
    mine.match_prefix = lambda tokens: found
    with record(mine) as film:
        mine.match_prefix([1, 2, 3])
    assert film.at(1).words == f"match [1 2 3]{said}"


def test_the_path_of_a_learners_result_is_found_by_slots_or_by_pages():
    class Found:
        def __init__(self, **fields):
            vars(self).update(fields)

    for found in (Found(slots=[7, 8]), Found(pages=[7, 8]), [7, 8]):
        mine = Mine()
        mine.insert([1, 2], [7, 8])
        mine.match_prefix = lambda tokens, found=found: found
        with record(mine) as film:
            mine.match_prefix([1, 2, 3])
        assert marks(film.at(1)) == {"[1 2]": ["matched"]}


def test_a_learners_evict_may_count_and_alloc_may_give_nothing():
    class Pool:
        size = 1

        def is_free(self, page):
            return True

        def alloc(self, num_pages):
            return None

    mine, pool = Mine(), Pool()
    mine.evict = lambda count: 3
    with record(mine, pool) as film:
        mine.evict(3)
        pool.alloc(1)
    assert words(film)[1:] == ["evict 3: 3 tokens are evicted", "alloc 1: nothing"]


def test_a_cache_that_is_no_tree_cannot_be_drawn_and_says_so():
    with pytest.raises(TypeError, match="cannot draw a NaiveCache"):
        record(NaiveCache()).start()


# -- laws -----------------------------------------------------------------------------------------------------------

PROMPTS = st.lists(st.integers(0, 2), min_size=1, max_size=6)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("serve"), PROMPTS),
        st.tuples(st.just("hold"), PROMPTS),
        st.tuples(st.just("drop"), st.just(0)),
        st.tuples(st.just("evict"), st.integers(0, 5)),
    ),
    max_size=14,
)


def run(cache, pool, steps):
    """Drive a cache and its pool like an engine; everything that came back, as plain data."""
    held, said = [], []
    for what, value in steps:
        if what in ("serve", "hold"):
            tokens = [token for token in value for _ in range(cache.page_size)]
            match = cache.match_prefix(tokens)
            cache.lock(match.handle)
            try:
                pages = pool.alloc((len(tokens) - match.length) // cache.page_size)
                done = cache.insert(tokens, [*match.pages, *pages])
                said.append((match.pages.tolist(), pages.tolist(), repr(done)))
            except OutOfPages as error:
                said.append(repr(error))
            cache.unlock(match.handle)
            if what == "hold":
                held.append(cache.match_prefix(tokens).handle)
                cache.lock(held[-1])
        elif what == "drop" and held:
            cache.unlock(held.pop())
        elif what == "evict":
            freed = cache.evict(value)
            pool.free(freed)
            said.append(freed.tolist())
    return said


SETTINGS = st.sampled_from([(1, "node"), (1, "page"), (2, "node"), (2, "page")])


def a_pair(setting):
    page_size, evict_by = setting
    return RadixCache(page_size, evict_by=evict_by), FreeListPool(16 // page_size)


@given(STEPS, SETTINGS)
def test_recording_changes_nothing_and_is_the_same_every_time(steps, setting):
    plain, texts = a_pair(setting), []
    said = run(*plain, steps)
    for _ in range(2):
        filmed = a_pair(setting)
        with record(*filmed, page_size=1) as film:
            assert run(*filmed, steps) == said
        filmed[0].check()
        assert [repr(node) for node in filmed[0].nodes()] == [repr(node) for node in plain[0].nodes()]
        texts.append([frame.text for frame in film] + [repr(film.why(slot)) for slot in film.slot_stories()])
    assert texts[0] == texts[1]


@given(STEPS, SETTINGS)
def test_every_frame_agrees_with_itself(steps, setting):
    """Cells, tree and sizes tell one story, ghosts are what left and new is what came; stories end where cells are."""
    (cache, pool), size = a_pair(setting), setting[0]
    with record(cache, pool) as film:
        run(cache, pool, steps)
    for frame in film:
        live = [view for view in frame.nodes if "evicted" not in view.marks]
        holders = {slot // size: f"n{view.id}" for view in live for slot in view.slots}
        cells = frame.pools[0].boxes
        assert {i: cell.word for i, cell in enumerate(cells) if cell.state in ("cached", "locked")} == holders
        for name, state in SIZES.items():
            assert frame.sizes[name] == size * sum(cell.state == state for cell in cells)
        assert sum(frame.sizes.values()) == pool.size * size
        ids = [view.id for view in frame.nodes]
        assert len(set(ids)) == len(ids)
        was, now = set(frame.before.held), set(frame.state.held)
        ghosts = {slot for view in frame.nodes if "evicted" in view.marks for slot in view.slots}
        fresh = {slot for view in frame.nodes if "new" in view.marks for slot in view.slots}
        assert (ghosts, fresh) == (was - now, now - was)
    for page, cell in enumerate(film.at(-1).pools[0].boxes):
        last = film.why(page * size).events[-1]
        cached = ("cached", "split", "joined")
        ends = {"free": ("freed", "free from"), "cached": cached, "locked": cached, "in hand": ("taken", "evicted")}
        assert last.startswith(ends[cell.state]), (last, cell)


# -- pictures -------------------------------------------------------------------------------------------------------


@needs_graphviz
def test_the_same_operations_make_the_same_bytes():
    one, two = a_film(), a_film()
    assert json.dumps(one.player().reel) == json.dumps(two.player().reel)
    assert one.at(3).picture.png == two.at(3).picture.png


@needs_graphviz
def test_the_player_knows_what_each_step_is_about_and_what_is_gone():
    told = a_film().player().reel["film"]
    assert (told["focus"][2], told["focus"][4], sorted(told["focus"][6])) == ([1], [], [2, 3])
    assert told["nodes"]["1"]["was"][-1] == [8, None]  # evicted by this step
    assert [set(facts) for _, facts in told["nodes"]["1"]["was"][1:-1]] == [
        {"label", "count", "tokens", "slots", "held"}
    ]
    assert told["born"][3] == {"2": 1}


@needs_graphviz
def test_where_widgets_do_not_run_a_picture_and_the_words_up_to_it_stand_in():
    film = a_film()
    data, _ = film.player()._repr_mimebundle_()
    assert {"image/png", "text/plain", "application/vnd.jupyter.widget-view+json"} <= set(data)
    assert data["text/plain"] == repr(film.player())
    assert [frame.step for frame in film if frame.caption in data["text/plain"]] == [0, 1, 2]
    assert data["text/plain"].endswith(film.at(2).text)  # the first in which there is something
    assert film.player().still.alt == f"Film of RadixCache and FreeListPool: 12 frames\n{film.at(2).text}"


def test_the_player_has_no_steps_but_its_own():
    player = a_film().player()
    player.index = 11
    for wrong in (12, -1):
        with pytest.raises(TraitError, match=f"index is {wrong}: this player has steps 0 to 11"):
            player.index = wrong
    assert player.index == 11


@needs_graphviz
def test_all_frames_of_a_film_have_one_size():
    film = a_film()
    layout = FilmLayout(film.frames)
    assert len({svg_size(layout.svg(frame)) for frame in film}) == 1


@needs_graphviz
def test_every_word_of_a_frame_is_in_its_picture():
    for frame in a_film():
        drawn = re.sub(r"<[^>]*>", " ", frame.picture.svg).replace("&#160;", " ").replace("&#45;", "-")
        wanted = {frame.caption, *frame.changes.words, *(view.label for view in frame.nodes)}
        wanted |= {mark for view in frame.nodes for mark in view.marks} | {
            cell.word for pool in frame.pools for cell in pool.boxes
        }
        for word in " ".join(wanted).split():
            assert word in drawn, word


def test_marks_of_cells_differ_without_colour():
    frames = a_film().frames
    looks = {}
    for frame in frames:
        for cell in frame.pools[0].boxes:
            svg = re.sub(r"#[0-9a-f]{6}", "", Paper(9, 9).svg(pool_rows("", [1], [cell]).parts((1, 44, 6))))
            key = (cell.state, cell.event)
            looks.setdefault(svg.replace(cell.word or " ", ""), key)
            assert looks[svg.replace(cell.word or " ", "")] == key
    assert len(looks) >= 7


@needs_graphviz
def test_a_broad_tree_grows_sideways():
    cache = RadixCache()
    with record(cache) as film:
        for token in range(30):
            cache.insert([token, token], [2 * token, 2 * token + 1])
    assert breadth(film.at(-1)) > BROAD
    width, height, *_ = FilmLayout(film.frames).panels[0].paper
    assert width < BROAD < height


@needs_graphviz
def test_a_saved_page_asks_nobody_for_anything(tmp_path):
    film = a_film()
    page = film.save(tmp_path / "film.html")
    assert page == tmp_path / "film.html"
    text = page.read_text("utf-8")
    without_names = text.replace("http://www.w3.org/2000/svg", "")
    assert not re.search(r"https?:|src=|href=|@import|url\(", without_names)


def test_without_pictures_the_words_remain(monkeypatch):
    film = a_film()
    monkeypatch.setattr("minikv.course.pictures.tree.node_places", lambda *shape, **how: None)
    assert ">root</text>" in frames_of(film.player().reel)[0]


class OwnPool:
    """A learner's, which counts in a way of its own."""

    size = 3

    def __init__(self):
        self.taken = set()

    def is_free(self, page):
        return page not in self.taken

    def num_free(self):
        return 3 - len(self.taken)

    def take(self, page):
        self.taken.add(page)

    def free(self, pages):
        self.taken.difference_update(pages)


def test_of_any_pool_a_caption_says_how_much_is_free():
    with record(pool := OwnPool()) as film:
        pool.take(1)
        pool.take(2)
        pool.free([1, 2])
    assert words(film)[1:] == [
        "take slot 1: 2 slots are free now",
        "take slot 2: 1 slot is free now",
        "free slots 1-2: 3 slots are free now",
    ]


@pytest.mark.parametrize(("size", "unit"), [(1, "slots"), (2, "pages")])
def test_a_pool_says_its_unit_and_all_else_is_in_slots(size, unit):
    cache, pool, table = RadixCache(size), FreeListPool(4), PageTable(1, 4)
    with record(cache, pool, table) as film:
        cache.insert(range(2 * size), pool.alloc(2))
        pool.free(cache.evict(2 * size))
    said = film.at(2).text
    assert f"FreeListPool: 2 of 4 {unit} free" in said
    assert f"free slots: {2 * size} · in hand: 0" in said
    assert f"slots 0-{2 * size - 1}" in said
    assert ("PageTable (slots): 0 of 1 rows open" in said) == (size > 1)
    assert words(film)[3:] == [
        f"evict {2 * size}: {2 * size} tokens are evicted ({unit} 0-1)",
        f"free {unit} 0-1: 4 {unit} are free now",
    ]


def test_a_large_pool_is_shown_in_part():
    with record(FreeListPool(2000)) as film:
        pass
    assert "FreeListPool: 2000 of 2000 slots free (the first 512 shown)" in film.at(0).text
    assert film.at(0).text.splitlines()[-1] == "free slots: 2000 · in hand: 0"
    assert (
        frames_of(film.player().reel)[0].count("data-part") == 1025
    )  # the heading, and of each cell a box and a number


def test_a_long_film_is_shortened_in_words():
    pool = FreeListPool(100)
    with record(pool) as film:
        for _ in range(50):
            pool.alloc(1)
    assert "… 21 more …" in repr(film)
    assert len(repr(film).splitlines()) == 32


def test_captions_are_bounded():
    cache = RadixCache()
    with record(cache, label=lambda tokens: "word " * len(tokens)) as film:
        cache.insert(range(1000), range(1000))
    assert len(film.at(1).caption) < 120


def test_a_step_is_one_frame_of_all_that_happens_in_it():
    """Also where that raises; what changed inside is told one after the other."""
    cache, pool = RadixCache(), FreeListPool(8)
    with record(cache, pool) as film:
        with film.step("Anna asks"):
            cache.insert([1, 2, 3], pool.alloc(3))
        with pytest.raises(LockError), film.step("Ben is wrong"):
            cache.unlock(cache.match_prefix([1, 9]).handle)
    assert [frame.words for frame in film] == ["start", "Anna asks", "Ben is wrong"]
    assert film.at(1).inner == ("alloc 3: slots 0-2", "insert [1 2 3]: 3 tokens are new")
    assert film.at(2).changes.words == ["n1 split: its beginning is now n2"]
    assert film.why(0).events[0] == "taken by step 1 (Anna asks)"
    with pytest.raises(RuntimeError, match="not been started"), record(pool).step("too early"):
        pass

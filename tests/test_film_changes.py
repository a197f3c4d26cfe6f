"""What a film says has changed, when one operation does many things, ids come back, or a tree is not ours."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st
from reels import frames_of

from minikv import FreeListPool, OutOfPages, RadixCache, record
from minikv.course.film.changes import Changes, FilmEvent, compare
from minikv.course.film.state import StateReader
from minikv.testing.watch import watch


class Engine:
    """Serves a prompt in one operation: match, lock, make room, take slots, insert, unlock."""

    def __init__(self, size, **settings):
        self.cache, self.pool = RadixCache(**settings), FreeListPool(size)

    def start(self):
        pass

    def finish(self):
        pass

    def serve(self, tokens):
        match = self.cache.match_prefix(tokens)
        self.cache.lock(match.handle)
        missing = len(tokens) - match.length
        if missing > self.pool.num_free:
            self.pool.free(self.cache.evict(missing - self.pool.num_free))
        try:
            self.cache.insert(tokens, [*match.slots, *self.pool.alloc(missing)])
        finally:
            self.cache.unlock(match.handle)

    def restart(self, tokens):
        self.cache.reset()
        self.cache.insert(tokens, range(len(tokens)))


def served(size, *prompts, **settings):
    engine = Engine(size, **settings)
    with record(engine) as film:
        for prompt in prompts:
            engine.serve(prompt)
    return film


def facts(changes):
    """What there is in changes, as plain data."""
    found = {kind: getattr(changes, kind) for kind in ("splits", "joined", "gone", "trimmed")}
    found |= {kind: changes.came(kind) for kind in ("new", "grown")}
    return {kind: value for kind, value in found.items() if value}


def tree(frame):
    return frame.text.splitlines()[[line.startswith("root") for line in frame.text.splitlines()].index(True) :]


def test_a_split_and_an_eviction_in_one_operation_are_both_told():
    """n1 [1 2 3 4] is cut, its end evicted, and its slots 2-3 hold other tokens at once."""
    film = served(5, [1, 2, 3, 4], [1, 2, 8, 9])
    assert facts(film.at(2).changes) == {"splits": [(2, 1)], "gone": {1: "evicted"}, "new": [3]}
    assert tree(film.at(2))[:4] == [
        "root",
        "└─ [1 2] · n2 · slots 0-1 · matched · split",
        "   ├─ [3 4] · n1 · slots 2-3 · evicted",
        "   └─ [8 9] · n3 · slots 2-3 · new",
    ]
    assert [cell.event for cell in film.at(2).pools[0].boxes] == ["matched", "matched", "new", "new", ""]
    assert film.why(2).events[2:] == (
        "evicted by step 2 (serve [1 2 8 9])",
        "freed by step 2",
        "taken by step 2 (serve [1 2 8 9])",
        "cached by step 2 in node 3 (serve [1 2 8 9])",
    )
    assert film.why(0).events[-1] == "split off into node 2 at step 2"


def test_slots_that_are_used_again_at_once_have_changed_hands():
    film = served(4, [1, 2, 3, 4], [5, 6, 7])
    assert facts(film.at(2).changes) == {"gone": {1: "evicted"}, "new": [2]}
    assert [cell.event for cell in film.at(2).pools[0].boxes] == ["new", "new", "new", "freed"]
    assert film.why(1).events[-1] == "cached by step 2 in node 2 (serve [5 6 7])"


def test_pages_that_are_trimmed_one_after_the_other_are_one_end():
    class Trimmer(Engine):
        def trim(self, times):
            for _ in range(times):
                self.pool.free(self.cache.evict(1))

    engine = Trimmer(5, evict_by="page")
    with record(engine) as film:
        engine.serve([1, 2, 3, 4])
        engine.trim(2)
        engine.trim(2)
    assert facts(film.at(2).changes) == {"trimmed": [1]}
    assert tree(film.at(2))[:3] == [
        "root",
        "└─ [1 2] · n1 · slots 0-1",
        "   └─ [3 4] · end of n1 · slots 2-3 · evicted",
    ]
    assert facts(film.at(3).changes) == {"gone": {1: "evicted"}}  # first cut short, then gone: whole
    assert tree(film.at(3))[1] == "└─ [1 2] · n1 · slots 0-1 · evicted"


def test_locks_that_were_given_back_in_the_same_operation_are_no_news():
    film = served(8, [1, 2], [1, 2, 3])
    events = [words for frame in film for key, words in frame.node_events if key == 1]
    assert events == ["inserted by step 1 (serve [1 2])"]


def test_after_a_reset_an_id_is_another_node():
    engine = Engine(8)
    with record(engine) as film:
        engine.cache.insert([1, 2], [0, 1])
        engine.restart([1, 2, 3])
    assert facts(film.at(2).changes) == {"gone": {1: "forgotten"}, "new": [1]}
    ids = [view.id for view in film.at(2).nodes]
    assert len(set(ids)) == len(ids) == 3
    assert tree(film.at(2))[1:3] == ["├─ [1 2] · n1 · slots 0-1 · evicted", "└─ [1 2 3] · n1 · slots 0-2 · new"]
    assert [words for _, words in film.at(2).node_events] == [
        "forgotten by step 2 (restart [1 2 3])",
        "inserted by step 2 (restart [1 2 3])",
    ]


def test_a_watched_thing_that_is_not_filmed_swallows_no_frames():
    """Somebody else listens to the engine, so its cache's calls are deep; they are no part of what comes later."""
    engine = Engine(8)
    stop = watch(engine, ["serve"], lambda call: None)
    with record(engine.cache, engine.pool) as film:
        engine.serve([1])
        engine.cache.evict(1)
    stop()
    assert [frame.op.split()[0] for frame in film][1:] == ["match", "lock", "alloc", "insert", "unlock", "evict"]


def test_a_step_in_the_middle_of_an_operation_is_part_of_it():
    class Talking(Engine):
        def serve(self, tokens):
            with film.step("now it begins"):
                super().serve(tokens)

    engine = Talking(4)
    film = record(engine)
    with film:
        engine.serve([1])
    assert film.at(1).inner[0] == "now it begins"


def test_an_operation_of_many_steps_says_the_first_and_the_last():
    engine = Engine(100)
    engine.start = lambda: [engine.pool.alloc(1) for _ in range(40)]
    with record(engine) as film:
        engine.start()
    assert len(film.at(1).inner) == 40
    lines = film.at(1).text.splitlines()[1:14]
    assert lines[6] == "   … 28 more …"
    assert (lines[0].strip(), lines[12].strip()) == ("alloc 1: slot 0", "alloc 1: slot 39")


PROMPTS = st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=6), max_size=9)


@given(PROMPTS, st.sampled_from(["node", "page"]))
def test_a_manager_and_its_parts_tell_the_same_story(prompts, evict_by):
    """One film has a frame for each prompt, the other for each step of it: what became of each slot is the same."""
    engine = Engine(7, evict_by=evict_by)
    with record(engine) as coarse, record(engine.cache, engine.pool) as fine:
        for prompt in prompts:
            with contextlib.suppress(OutOfPages):
                engine.serve(prompt)
    for slot in range(7):
        kinds = [
            [words.split(" by ")[0].split(" at ")[0] for words in film.why(slot).events] for film in (coarse, fine)
        ]
        assert kinds[0] == kinds[1]
    for frame in coarse:
        ids = [view.id for view in frame.nodes]
        assert len(set(ids)) == len(ids)
        live = {view.id for view in frame.nodes if "evicted" not in view.marks}
        assert live == frame.state.nodes.keys()
        fresh = {slot for view in frame.nodes if "new" in view.marks for slot in view.slots}
        assert fresh == {i for i, cell in enumerate(frame.pools[0].boxes) if cell.event == "new"}


def test_a_slot_that_the_pool_has_back_too_early_shows_its_node():
    cache, pool = RadixCache(), FreeListPool(2)
    with record(cache, pool) as film:
        slots = pool.alloc(1)
        cache.insert([1], slots)
        pool.free(slots)
    cell = film.at(3).pools[0].boxes[0]
    assert (cell.state, cell.word) == ("free", "n1")


# -- trees that are not ours ----------------------------------------------------------------------------------------


class Node:
    def __init__(self, tokens=(), slots=(), children=(), **more):
        self.tokens, self.slots, self.children = list(tokens), list(slots), list(children)
        vars(self).update(more)


class Tree:
    def __init__(self, *children):
        self.root = Node(children=children)

    def match_prefix(self, tokens):
        return None


LOWER = Node([3], [2])
CHANGES = {
    "a split that keeps neither node": (
        [Node([1, 2, 3], [0, 1, 2])], [Node([1, 2], [0, 1], [LOWER])], {"splits": [(2, 3)]}),
    "a node that was only built again": ([Node([1, 2], [0, 1])], [Node([1, 2], [0, 1])], {}),
    "a split whose lower part went at once": (
        [Node([1, 2, 3], [0, 1, 2])], [Node([1, 2], [0, 1])], {"splits": [(2, 1)], "gone": {1: "evicted"}}),
    "a slot with another token is not what is left of a node": (
        [Node([1, 2], [0, 1])], [Node([7, 8], [0, 1])], {"gone": {1: "evicted"}, "new": [2]}),
    "a join behind a new leaf, as in a conversation's next turn": (
        [Node([1, 2], [0, 1], [LOWER])], [Node([1, 2, 3, 4], [0, 1, 2, 3])], {"joined": {1: 3, 2: 3}, "new": [3]}),
    "a slot that holds another token was not joined": (
        [Node([1, 2], [0, 1], [LOWER])], [Node([7, 8, 3], [0, 1, 2])],
        {"gone": {1: "evicted"}, "joined": {2: 3}, "new": [3]}),
}  # fmt: skip


@pytest.mark.parametrize("what", CHANGES)
def test_what_changed_in_a_tree_that_was_built_again(what):
    before, after, wanted = CHANGES[what]
    tree = Tree(*before)
    assert facts(changed(tree, lambda: setattr(tree.root, "children", after))) == wanted


def changed(tree, act):
    """What an eviction changed in a tree."""
    reader = StateReader([tree], None, None)
    before = reader.read()
    act()
    return compare(before, reader.read(), "evict")


def cut(node, tokens, slots, *children):
    """Give a node other tokens, and perhaps other children."""
    node.tokens, node.slots, node.children = tokens, slots, list(children)


def test_what_changed_in_nodes_that_stayed():
    """A split whose lower part was cut short; a new node above another; a leaf that moved into the node above it."""
    node = Node([1, 2, 3, 4], [0, 1, 2, 3])
    tree = Tree(node)
    found = changed(tree, lambda: (cut(node, [3], [2]), cut(tree.root, [], [], Node([1, 2], [0, 1], [node]))))
    assert facts(found) == {"splits": [(2, 1)], "trimmed": [1]}
    assert found.ghosts[1][0].tokens == [4]
    node = Node([1, 2], [0, 1])
    tree = Tree(node)
    found = changed(tree, lambda: (cut(node, [2], [1]), cut(tree.root, [], [], Node([9], [2], [node]))))
    assert facts(found) == {"trimmed": [1], "new": [2]}
    upper = Node([1], [0], [Node([2], [1])])
    assert facts(changed(Tree(upper), lambda: cut(upper, [1, 2], [0, 1]))) == {"joined": {2: 1}}


def test_a_split_and_a_join_in_one_operation():
    """Of [1 2] > [3 4], the beginning of the lower edge is cut off and joined with the upper one."""
    lower = Node([3, 4], [2, 3])
    tree = Tree(Node([1, 2], [0, 1], [lower]))
    found = changed(tree, lambda: (cut(lower, [4], [3]), cut(tree.root, [], [], Node([1, 2, 3], [0, 1, 2], [lower]))))
    assert facts(found) == {"splits": [(3, 2)], "joined": {1: 3}}


def test_an_edge_that_grew_and_one_that_is_another():
    node = Node([1], [0])
    assert facts(changed(Tree(node), lambda: cut(node, [1, 2], [0, 1]))) == {"grown": [1]}
    assert facts(changed(Tree(node), lambda: cut(node, [7, 8], [0, 1]))) == {"gone": {1: "evicted"}, "new": [1]}


def joining():
    """A tree whose path [1 2] > [3] becomes one edge in a verb of its own, with what else that verb does to it."""
    below = Node([3], [2])
    joined = Tree(Node([1, 2], [0, 1], [below]))

    def match_prefix(tokens):
        below.tokens, below.slots = [1, 2, 3], [0, 1, 2]
        joined.root.children = [below]
        return [0, 1, 2]

    joined.match_prefix = match_prefix
    return joined


def test_a_path_that_became_one_edge_was_joined_and_lost_nothing():
    """The lower node keeps its id, as in RadixCache; its slots are where they were, in another node."""
    cache = joining()
    with record(cache) as film:
        cache.match_prefix([1, 2, 3])
    frame = film.at(1)
    assert facts(frame.changes) == {"joined": {1: 2}}
    assert frame.changes.ghosts == {}
    assert tree(frame)[:2] == ["root", "└─ [1 2 3] · n2 · slots 0-2 · matched · joined"]
    assert [(key, words.split(" at ")[0]) for key, words in frame.node_events] == [
        (1, "joined into n2"),
        (2, "joined"),
    ]
    assert [film.why(slot).events[-1].split(" at ")[0] for slot in range(3)] == [
        "joined into node 2",
        "joined into node 2",
        "in node 2 from the start",
    ]


def test_what_was_evicted_beside_a_join_hangs_on_the_joined_node():
    before = Node([1, 2], [0, 1], [Node([3], [2]), Node([9], [3])])
    cache = Tree(before)

    def evict(count):
        kept = before.children[0]
        kept.tokens, kept.slots = [1, 2, 3], [0, 1, 2]
        cache.root.children = [kept]
        return [3]

    cache.evict = evict
    with record(cache) as film:
        cache.evict(1)
    assert tree(film.at(1))[:3] == [
        "root",
        "└─ [1 2 3] · n2 · slots 0-2 · joined",
        "   └─ [9] · n3 · slot 3 · evicted",
    ]


def test_joins_one_after_the_other_are_one():
    earlier, later = (
        Changes([FilmEvent(key, "joins", key + 1), FilmEvent(key + 1, "joined", key), FilmEvent(key + 1, "new")])
        for key in (1, 2)
    )
    found = earlier.then(later)
    assert facts(found) == {"joined": {1: 3, 2: 3}, "new": [3]}


def test_cells_of_what_was_joined_have_a_sign():
    cache, pool = joining(), FreeListPool(4)
    pool.alloc(3)
    with record(cache, pool) as film:
        cache.match_prefix([1, 2, 3])
    assert [cell.event for cell in film.at(1).pools[0].boxes] == ["joined", "joined", "matched", ""]


def test_a_ghost_of_what_is_left_over_hangs_on_the_rest():
    film_of = Tree(Node([1, 2, 3], [0, 1, 2]))
    film_of.evict = lambda count: setattr(film_of.root, "children", [Node([1, 2], [0, 1])])
    with record(film_of) as film:
        film_of.evict(1)
    assert (
        tree(film.at(1))
        == [
            "root",
            "└─ [1 2] · n2 · slots 0-1 · split",
            "   └─ [3] · n1 · slot 2 · evicted",
            "cached 0 (evictable) · locked 0 (protected)",
        ][:3]
    )


def test_a_ghost_whose_parent_is_another_node_now_is_still_drawn():
    old = Tree(Node([1, 2], [0, 1], [Node([3], [2])]))
    old.evict = lambda count: setattr(old.root, "children", [Node([1], [0], [Node([2], [1])])])
    with record(old) as film:
        old.evict(1)
    assert [(view.name, view.marks) for view in film.at(1).nodes][1:] == [
        ("n3", ["split"]), ("n4", ["split"]), ("n2", ["evicted"]),
    ]  # fmt: skip


def test_what_was_made_and_went_in_one_operation_is_not_new():
    class Wasteful(Engine):
        def waste(self, tokens):
            self.serve(tokens)
            self.pool.free(self.cache.evict(len(tokens)))

    engine = Wasteful(8)
    with record(engine) as film:
        engine.waste([1, 2])
    assert facts(film.at(1).changes) == {"gone": {1: "evicted"}}


def test_locks_in_a_nodes_story():
    """A split hands its lock to the upper part, which tells no event of its own; a second lock says how many."""
    cache = RadixCache()
    handle = cache.insert([1, 2, 3], [0, 1, 2]).handle
    with record(cache) as film:
        cache.lock(handle)
        cache.match_prefix([1])
        cache.lock(handle)
        cache.unlock(handle)
    said = [[words.split(" (")[0] for _, words in frame.node_events if "lock" in words] for frame in film]
    assert said == [[], ["locked by step 1"], [], ["locked by step 3"] * 2, ["unlocked by step 4"] * 2]
    locks = [words for _, words in film.at(3).node_events]
    assert locks[0] == "locked by step 3 (lock a prefix of 3 tokens), 2 locks now"
    assert film.at(1).node_events[0][1].endswith("(lock a prefix of 3 tokens)")


def test_ids_that_are_not_unique_are_not_believed():
    tree = Tree(Node([1], [0], id=0), Node([2], [1], id=0))
    tree.root.id = 0
    film = record(tree).start()
    film.finish()
    assert [view.id for view in film.at(0).nodes] == [0, 1, 2]


def test_a_child_with_two_parents_is_shown_once():
    child = Node([3], [2])
    film = record(Tree(Node([1], [0], [child]), Node([2], [1], [child]))).start()
    film.finish()
    assert [view.label for view in film.at(0).nodes] == ["root", "[1]", "[3]", "[2]"]


def test_what_did_not_change_is_kept_once():
    cache = RadixCache()
    cache.insert(range(1000), range(1000))
    with record(cache) as film:
        cache.insert([5000], [5000])
    assert film.at(0).state.nodes[1] is film.at(1).state.nodes[1]


# -- labels ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("written", "shown"),
    [("a\x00b", "a\\x00b"), ("\x1b[31m", "\\x1b[31m"), ("\ud800", "\\ud800"), ("a\nb\tc", "a b c"),
     ("日本 🙂", "日本 🙂"), ("<b>&\"'</b>\\n", "<b>&\"'</b>\\n"), ("x" * 500, "x" * 20 + "…" + "x" * 19)],
)  # fmt: skip
def test_any_label_can_be_shown_and_saved(written, shown, tmp_path):
    cache = RadixCache()
    with record(cache, label=lambda tokens: written) as film:
        cache.insert([1], [0])
        with film.step(written):
            pass
    assert film.at(1).nodes[1].label == shown
    film.save(tmp_path / "film.html")
    assert frames_of(film.player().reel)
    assert film.at(-1)._repr_mimebundle_()[0]["text/plain"]


def test_a_label_that_cannot_decode_a_part_of_a_character_falls_back_to_tokens():
    cache = RadixCache()
    with record(cache, label=lambda tokens: bytes(tokens).decode()) as film:
        cache.insert("hé".encode(), range(3))
        cache.match_prefix("hè".encode())
    assert [view.label for view in film.at(2).nodes] == ["root", "[104 195]", "[169]"]


def test_a_long_error_is_cut():
    class Pool(FreeListPool):
        def alloc(self, num_pages):
            raise ValueError("no " * 1000)

    pool = Pool(2)
    with record(pool) as film, pytest.raises(ValueError, match="no no"):
        pool.alloc(1)
    assert len(film.at(1).words) < 300


# -- the still ------------------------------------------------------------------------------------------------------


def test_the_still_of_a_film_is_the_first_frame_in_which_there_is_something():
    """What comes later is not shown before one could say it."""
    cache, pool = RadixCache(), FreeListPool(4)
    with record(cache, pool) as film:
        cache.insert([1, 2], pool.alloc(2))
        pool.free(cache.evict(2))
    assert film.player().still.text.split("\n\n")[1].startswith("2. insert [1 2]")
    assert "evict 2" not in film.player().still.alt
    with record(pool) as film:
        pool.free(pool.alloc(2))
    assert "1. alloc 2" in film.player().still.text.split("\n\n")[1]
    with record(FreeListPool(1)) as film:
        pass
    assert "FreeListPool: 1 of 1 slots free" in film.player().still.text


def test_the_still_of_a_player_may_be_chosen_and_the_player_begins_at_the_start():
    pool = FreeListPool(4)
    with record(pool) as film:
        pool.free(pool.alloc(2))
    player = film.player(still=-1)
    assert player.still.alt == f"Film of FreeListPool: 3 frames\n{film.at(2).text}"
    assert player.index == 0
    with pytest.raises(ValueError, match="this film has steps 0 to 2"):
        film.player(still=3)

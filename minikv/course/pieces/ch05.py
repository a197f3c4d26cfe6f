"""The pieces of chapter 05: the ring of recency and the order in it, evict, and room for a request."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Sequence
from typing import Any

from hypothesis import strategies as st

from minikv.course.pieces.hunt import Calls, CallsMade, engine_hunt
from minikv.course.pieces.observer import RETURNED
from minikv.course.pieces.piece import Cost, Frames, Piece, Shown, called, exercise
from minikv.course.pieces.props import DEEP, FORK, filled_cache, numbers, planted, preorder, shuffle, up_to
from minikv.course.pieces.showing import picture_of_ring
from minikv.engine import World, ours
from minikv.errors import OutOfPages
from minikv.prefix.base_index import way_to
from minikv.testing.attempt import arguments

_PROMPTS = st.lists(st.text("012", min_size=1, max_size=6), min_size=1, max_size=5)
_FORKS = ["1234", "1278", "56"]
_STEPS = "steps in a ring of 200 nodes"
_TWINS = ["1", "12", "13"]
_SOME = st.lists(up_to(4), max_size=2)


def ring_of(world: World, nodes: Sequence[Any]) -> Any:
    """A ring of these nodes, the oldest first, made with the package's `link`."""
    ring, link = world["Ring"](), ours("5.1", world)
    for node in nodes:
        link(ring, node)
    return ring


def ring_and_more(world: World, count: int = 200, more: int = 1) -> tuple[Any, list[Any]]:
    """A ring of `count` nodes of one token, and these nodes with `more` others; each has a child."""
    root = world["Node"]([], [])
    for number in range(1, count + more + 1):
        root.children[number] = node = world["Node"]([number], [90 - 7 * number], root)
        node.children[0] = world["Node"]([0], [number], node)
    nodes = list(root.children.values())
    return ring_of(world, nodes[:count]), nodes


def play_link(world: World, case: Any) -> Frames:
    """Link `new` nodes to a ring that already has `old`, one after the other."""
    old, new = case
    ring, nodes = ring_and_more(world, old, new)
    for node in nodes[old:]:
        yield called(world, "link", ring=ring, node=node, also={"root": node.parent})


def play_unlink(world: World, case: Any) -> Frames:
    """Unlink the nodes numbered `out` from a ring of `count`; some are unlinked twice, or were never in the ring."""
    count, out = case
    ring, nodes = ring_and_more(world, count, 1)
    for number in out:
        node = nodes[number % len(nodes)]
        node.locks = number % 2  # a node is unlinked when it is locked
        shown = called(world, "unlink", node=node, also={"root": node.parent, "ring": ring})
        yield shown._replace(picture=picture_of_ring(ring, node))


def play_touch(world: World, case: Any) -> Frames:
    """Touch some nodes of a tree with `prompts`; its unlocked nodes are in the ring, the deepest first."""
    prompts, locked, touched = case
    root = planted(world, prompts)
    nodes = preorder(root)
    for number in locked:
        node = nodes[number % len(nodes)]
        for each in way_to(node):
            each.locks += 1
    ring = ring_of(world, [node for node in reversed(nodes) if not node.locks])
    yield Shown("before", {"root": root, "ring": ring})
    for number in touched:
        node = root if number < 0 else nodes[number % len(nodes)]
        if number % 2:  # as a node is that was made just now
            ours("5.2", world)(node)
        yield called(world, "touch", ring=ring, node=node, also={"root": root})


def play_evict(world: World, case: Any) -> Frames:
    """Evict pages in several calls from a cache of `prompts`, of which some are locked and some were used again."""
    size, prompts, locked, asked, counts = case
    cache = filled_cache(world, prompts, size)
    for ask, places in ((cache.acquire, locked), (cache.match_prefix, asked)):
        for place in places:
            ask(numbers(prompts[place % len(prompts)]))
    root = cache.roots[None]
    yield Shown("before", {"root": root, "cache": cache})
    also = {"root": root, "slots of the nodes that were there": [node.slots for node in preorder(root)]}
    for count in counts:
        yield called(world, "evict", cache=cache, pages=count, also=also)


def play_out_of_order(world: World, case: Any) -> Frames:
    """Search a ring of the nodes of a tree with `prompts`, in the order of `places`, and then in the opposite order.

    Nodes without a place stay out.
    """
    prompts, places = case
    root = planted(world, prompts)
    nodes = preorder(root)
    inside = [nodes[place] for place in dict.fromkeys(places) if place < len(nodes)]
    for node in nodes:
        node.locks = int(node not in inside)  # what is locked is in no ring
    for order in (inside, inside[::-1]):
        yield called(world, "out_of_order", ring=ring_of(world, order), also={"root": root})


def play_make_room(world: World, case: Any) -> Frames:
    """Make room in several calls in a pool of `pages` pages, with cached `prompts`, some of them `locked`."""
    pages, size, prompts, locked, wanted = case
    cache, pool = _cached(world, pages, size, prompts)
    for place in locked:
        cache.acquire(numbers(prompts[place % len(prompts)]))
    evicted, own = list[Any](), cache.evict

    def evict_and_note(num_tokens: int) -> Any:
        evicted.extend(found := own(num_tokens))
        return found

    cache.evict = evict_and_note

    def also() -> dict[str, Any]:
        free = [page for page in range(pages) if pool.is_free(page)]
        return {"root": cache.roots[None], "pages that cache.evict returned": evicted, "free pages": free}

    for count in wanted:
        yield called(world, "make_room", OutOfPages, cache=cache, pool=pool, count=count, also=also, hide="pool")


def _cached(world: World, pages: int, size: int, prompts: list[str]) -> tuple[Any, Any]:
    """Return a cache of `prompts` in pages of `size` tokens, and its pool; prompts that do not fit are left out."""
    cache, pool = world["RadixCache"](size), world["Pool"](pages)
    shuffle(pool)
    for tokens in map(numbers, prompts):
        found = cache.match_prefix(tokens)
        missing = len(tokens) // size - len(found.pages)
        if missing <= pool.num_free:
            cache.insert(tokens, [*found.pages.tolist(), *pool.alloc(missing)])
    return cache, pool


_MANY = [[number] for number in range(200)]
_LATE = [[*range(number, number + length)] for number in range(0, 500, 5) for length in (1, 2)]

PIECES = (
    Piece(
        "5.1", play_link,
        cases=[(0, 1)],
        strategy=st.tuples(up_to(5), st.integers(1, 4)),
        cost=Cost(_STEPS, [(200, 1)],
                  "`ring.older` is the newest node: don't walk around the ring"),
    ),
    Piece(
        "5.2", play_unlink,
        cases=[(1, [0])],
        strategy=st.tuples(up_to(5), st.lists(up_to(5), min_size=1, max_size=4)),
        cost=Cost(_STEPS, [(200, [100])],
                  "`node` knows its two neighbors: don't search the ring"),
    ),
    Piece(
        "5.3", play_touch,
        cases=[(["12"], [], [0]), (FORK, [], [2]), (_FORKS, [1], [2]),
               (["1", "12", "123"], [], [2]), (_FORKS, [3], [1]), (DEEP, [], [DEEP - 1])],
        strategy=st.tuples(_PROMPTS, st.lists(up_to(9), max_size=2),
                           st.lists(st.integers(-2, 9), min_size=1, max_size=3)),
        cost=Cost(_STEPS, [(_MANY, [], [100])],
                  "only the nodes from this one up to the root move: don't look at others"),
    ),
    Piece(
        "5.4", play_evict,
        cases=[(1, ["12"], [], [], [1]), (1, _FORKS, [], [], [3]), (1, _FORKS, [1], [], [99]),
               (1, ["1", "12", "3"], [], [0], [2]), (1, DEEP, [], [], [DEEP])],
        strategy=st.tuples(st.integers(1, 2), _PROMPTS, _SOME, _SOME,
                           st.lists(up_to(5), min_size=1, max_size=3)),
        cost=Cost("steps in a cache of 200 leaves",
                  [(1, _MANY, [], range(200)[::-1], [1]), (1, _MANY, [], [], [150])],
                  "take the oldest node, find it by its first token, and extend one list: don't look at other nodes"),
    ),
    Piece(
        "5.5", play_out_of_order,
        cases=[(["12"], [0]), (_TWINS, [1, 0, 2]), (["1", "12", "123"], [2, 0, 1]),
               (["1", "12", "2", "23"], [0, 2, 1, 3])],
        strategy=st.tuples(_PROMPTS, st.permutations(range(8)).map(lambda places: places[:6])),
        cost=Cost(_STEPS, [(_LATE, [place ^ 1 for place in range(200)])],
                  "a set finds a node at once: a list has to be searched for each child"),
    ),
    Piece(
        "5.6", play_make_room,
        cases=[(4, 1, ["12"], [], [3]), (6, 2, ["12", "34", "56", "78"], [], [3, 5])],
        strategy=st.tuples(st.integers(1, 8), st.integers(1, 3), _PROMPTS, _SOME,
                           st.lists(up_to(9), min_size=1, max_size=3)),
    ),
)  # fmt: skip


class TwoRings:
    """Pages that were used once go before those that were used again, each group in the order of its last uses.

    `use(page)` records a use, and `evict()` returns the page that goes, or `None`. A page that comes back is new.
    """

    def __init__(self) -> None:
        self.once: OrderedDict[Hashable, None] = OrderedDict()
        self.again: OrderedDict[Hashable, None] = OrderedDict()

    def use(self, page: Hashable) -> None:
        """Record that `page` is used now."""
        if page in self.once or page in self.again:
            self.once.pop(page, None)
            self.again.pop(page, None)
            self.again[page] = None
        else:
            self.once[page] = None

    def evict(self) -> Hashable:
        """Remove and return the page that goes first, or return `None` if there is none."""
        for ring in (self.once, self.again):
            if ring:
                return ring.popitem(last=False)[0]
        return None


def play_rings(world: World, case: str) -> Frames:
    """Use the pages in `case`, one after the other; a dot evicts one. Before that, another object has been used."""
    world["TwoRings"]().use("x")
    rings, done = world["TwoRings"](), "TwoRings()"
    asked = 'TwoRings().evict(), after use("x") on another object (create your state in __init__, on self),'
    yield Shown(asked, {RETURNED: rings.evict()})
    for page in case:
        verb, args = ("evict", ()) if page == "." else ("use", (int(page) if page.isdigit() else page,))
        done, found = f"{done}.{verb}{arguments(args)}", getattr(rings, verb)(*args)
        yield Shown(done, {RETURNED: found})


def _advice(right: CallsMade) -> str | None:
    """Return a hint about what a harmless script does not do yet."""
    back, gone, used = list[Any](), False, False
    for call, _ in right:
        if call.verb == "unlock":
            back.append(call.arguments["handle"])
        elif call.verb == "evict":
            gone = gone or any(set(call.result) & set(handle.pages) for handle in back)
        else:
            used = used or (not gone and any(handle.length <= call.result.length for handle in back))
    if not back:
        return "the careless code runs when a lock is released: lock a path, and unlock it"
    if all(handle.node.parent.parent is None for handle in back):
        return "a path of one node has only one order: lock a longer one"
    if not gone:
        return "after the unlock, nothing of that path was evicted: call `evict` again"
    return "the use after the unlock restores the order: evict before it" if used else None


EXERCISES = (
    exercise(
        "5.7", TwoRings,
        cases=["a.", "0."],
        strategy=st.text("abc...", max_size=10),
        play=play_rings,
    ),
    engine_hunt(
        "5.8", "careless_unlock", "5.8 gives a lock back from the root down",
        Calls(lambda world: world["RadixCache"](), ("insert", "match_prefix", "acquire", "unlock", "evict")),
        advice=_advice,
    ),
)  # fmt: skip

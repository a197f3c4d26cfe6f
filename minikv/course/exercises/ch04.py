"""The exercises of chapter 04: how many requests fit, and an unlock without a receipt."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Iterator, Sequence

from hypothesis import strategies as st

from minikv.course.exercises.ch00 import shared_prefix
from minikv.course.exercises.exercise import Exercise, Hunt, Wrong
from minikv.course.exercises.judge import Script
from minikv.pools import FreeListPool
from minikv.prefix import RadixCache

Waiting = Sequence[tuple[int | None, int]]


def how_many_fit(free: int, prefixes: Sequence[int], waiting: Waiting) -> int:
    """How many of `waiting` are let in, from the front until one does not fit; played on a real cache and pool.

    `free` slots are free and `prefixes[i]` is the length of cached prefix `i`. A request is the prefix that it begins
    with, or `None`, and how many tokens of its own follow. A request that got in keeps everything locked.

    >>> how_many_fit(2, [4], [(0, 2), (0, 1)])
    1
    """
    cache, pool = RadixCache(), FreeListPool(max(1, free + sum(prefixes)))
    pool.alloc(pool.size - free - sum(prefixes))
    heads = [[1000 * (i + 1) + at for at in range(length)] for i, length in enumerate(prefixes)]
    for head in heads:
        cache.insert(head, pool.alloc(len(head)))
    for count, (prefix, own) in enumerate(waiting):
        head = [] if prefix is None else heads[prefix]
        if not _admit(cache, pool, head + [1_000_000 + 1000 * count + at for at in range(own)]):
            return count
    return len(waiting)


def _admit(cache: RadixCache, pool: FreeListPool, prompt: list[int]) -> bool:
    """Chapter 04's `admit`: whether there is room; then the whole prompt is cached and locked."""
    match = cache.match_prefix(prompt)
    cache.lock(match.handle)
    needed = len(prompt) - match.length
    if needed > pool.num_free + cache.evictable_size:
        return False
    pool.free(cache.evict(max(0, needed - pool.num_free)))
    cache.lock(cache.insert(prompt, [*match.slots, *pool.alloc(needed)]).handle)
    return True


class LockingNode:
    """A node of `LockingTree`: a run of tokens, the node above, those below by first token, and its locks."""

    def __init__(self, tokens: list[int], parent: LockingNode | None):
        self.tokens, self.parent = tokens, parent
        self.children: dict[int, LockingNode] = {}
        self.ref_count = 0


class LockingTree:
    """A radix tree in which requests lock by name; `lock` gives the length of the prefix that it protects."""

    def __init__(self) -> None:
        self.root = LockingNode([], None)
        self.places: dict[str, LockingNode] = {}
        self.prompts: dict[str, list[int]] = {}

    def lock(self, name: str, tokens: list[int]) -> int:
        """Protect the longest cached prefix of `tokens` until `name` unlocks; its length."""
        if name in self.prompts:
            raise ValueError(f"{name} holds a lock already")
        node, length = self.walk(tokens)
        self.prompts[name], self.places[name] = tokens, node
        self.count(node, 1)
        return length

    def unlock(self, name: str) -> None:
        """Give back what `name` locked."""
        del self.prompts[name]
        self.count(self.places.pop(name), -1)

    @property
    def evictable(self) -> int:
        """Tokens that no lock protects."""
        return sum(len(node.tokens) for node in self.nodes() if node.ref_count == 0)

    def count(self, node: LockingNode, change: int) -> None:
        """Change the count of every node on the path to `node`."""
        while node.parent is not None:
            node.ref_count += change
            node = node.parent

    def insert(self, tokens: list[int]) -> int:
        """Cache `tokens`; how many were cached already."""
        node, at = self.walk(tokens)
        if at < len(tokens):
            node.children[tokens[at]] = LockingNode(tokens[at:], node)
        return at

    def walk(self, tokens: list[int]) -> tuple[LockingNode, int]:
        """The node where the longest cached prefix of `tokens` ends, and its length."""
        node, at = self.root, 0
        while at < len(tokens) and tokens[at] in node.children:
            node = node.children[tokens[at]]
            same = shared_prefix(node.tokens, tokens[at:])
            at += same
            if same < len(node.tokens):
                return self.split(node, same), at
        return node, at

    def split(self, node: LockingNode, at: int) -> LockingNode:
        """Cut `node` after `at` tokens; the upper part, which takes over the count."""
        parent = node.parent
        assert parent is not None
        upper = LockingNode(node.tokens[:at], parent)
        upper.ref_count = node.ref_count
        parent.children[upper.tokens[0]] = upper
        node.tokens, node.parent = node.tokens[at:], upper
        upper.children[node.tokens[0]] = node
        return upper

    def nodes(self) -> Iterator[LockingNode]:
        """Every node but the root."""
        stack = list(self.root.children.values())
        while stack:
            node = stack.pop()
            yield node
            stack += node.children.values()


class CarelessLockingTree(LockingTree):
    """The same, but to unlock it looks for the place again."""

    def unlock(self, name: str) -> None:
        """Give back what `name` locked."""
        node, _ = self.walk(self.prompts.pop(name))
        self.count(node, -1)


def _without_the_lock(free: int, prefixes: Sequence[int], waiting: Waiting) -> int:
    return _fit(free + sum(prefixes), [own for _, own in waiting])


def _each_for_itself(free: int, prefixes: Sequence[int], waiting: Waiting) -> int:
    costs = [own + (0 if prefix is None else prefixes[prefix]) for prefix, own in waiting]
    return _fit(free + sum(prefixes), costs)


def _only_what_is_free(free: int, prefixes: Sequence[int], waiting: Waiting) -> int:
    return _fit(free, [own for _, own in waiting])


def _out_of_turn(free: int, prefixes: Sequence[int], waiting: Waiting) -> int:
    """Passes over a request that does not fit, and lets later ones in."""
    room, inside, locked = free + sum(prefixes), 0, {None}
    for prefix, own in waiting:
        cost = own if prefix in locked or prefix is None else own + prefixes[prefix]
        if cost <= room:
            room, inside = room - cost, inside + 1
            locked |= {prefix}  # type: ignore[arg-type]
    return inside


def _nothing_for_none(free: int, prefixes: Sequence[int], waiting: Waiting) -> int:
    room, locked = free + sum(prefixes), set()
    for count, (prefix, own) in enumerate(waiting):
        room -= own if prefix in locked else own + prefixes[prefix]  # type: ignore[index]
        if room < 0:
            return count
        locked.add(prefix)
    return len(waiting)


def _one_to_spare(free: int, prefixes: Sequence[int], waiting: Waiting) -> int:
    costs, locked = [], {None}
    for prefix, own in waiting:
        costs.append(own if prefix is None or prefix in locked else own + prefixes[prefix])
        locked |= {prefix}  # type: ignore[arg-type]
    return _fit(free + sum(prefixes) - 1, costs)


def _prefix_0_is_none(free: int, prefixes: Sequence[int], waiting: Waiting) -> int:
    costs, locked = [], set()
    for prefix, own in waiting:
        costs.append(own + prefixes[prefix] if prefix and prefix not in locked else own)
        locked.add(prefix)
    return _fit(free + sum(prefixes), costs)


def _fit(room: int, costs: Sequence[int]) -> int:
    for count, cost in enumerate(costs):
        room -= cost
        if room < 0:
            return count
    return len(costs)


def _nothing_in_between() -> Script:
    return Script((), (("insert", ([1, 2],)), ("lock", ("Anna", [1, 2, 3])), ("unlock", ("Anna",))))


def _a_split_in_between() -> Script:
    inserts = (("insert", ([1, 2, 3],)), ("lock", ("Anna", [1, 2, 3])), ("insert", ([1, 2, 9],)))
    return Script((), (*inserts, ("unlock", ("Anna",))))


def _no_unlock() -> Script:
    inserts = (("insert", ([1, 2],)), ("lock", ("Anna", [1, 2, 3])), ("insert", ([1, 2, 3],)))
    return Script((), (*inserts, ("lock", ("Ben", [1, 2, 3]))))


def _advice(script: Script) -> str | None:
    """A hint for a script that does no harm: what it does not do yet."""
    verbs = [verb for verb, _ in script.operations]
    if "unlock" not in verbs:
        return "locking is right in both: the careless line runs when somebody unlocks"
    if "lock" not in verbs or "insert" not in verbs[verbs.index("lock") :]:
        return "nothing is inserted between lock and unlock, so the place is found again"
    return None


def _praise(script: Script) -> str:
    """Whether a script that found the bug also made the careless tree give away what somebody still holds."""
    tree, robbed = CarelessLockingTree(), ""
    for verb, given in script.operations:
        with contextlib.suppress(Exception):
            getattr(tree, verb)(*copy.deepcopy(given))
        for name in sorted(set(tree.prompts) - {robbed}):
            node = tree.places[name]
            while node.parent is not None:
                robbed = name if node.ref_count <= 0 else robbed
                node = node.parent
    return f"And what {robbed} holds may be evicted!" if robbed else "Can you make it give away what another holds?"


@st.composite
def _lines(draw: st.DrawFn) -> tuple[int, list[int], list[tuple[int | None, int]]]:
    prefixes = draw(st.lists(st.integers(1, 5), max_size=3))
    begins = st.sampled_from([None, *range(len(prefixes))])
    return draw(st.integers(0, 9)), prefixes, draw(st.lists(st.tuples(begins, st.integers(1, 5)), max_size=5))


EXERCISES = (
    Exercise(
        id="4.5",
        name="how_many_fit",
        reference=how_many_fit,
        cases=[(4, [], [(None, 4)]), (0, [4], [(None, 4)]), (3, [], [(None, 4)]), (0, [4], [(0, 1)]),
               (2, [4], [(0, 2), (0, 1)]), (2, [4], [(0, 1), (0, 1)]), (3, [4], [(None, 9), (0, 1)]),
               (1, [2, 3], [(0, 2), (1, 1)]), (0, [1, 4], [(1, 2)]), (5, [2], [])],
        strategy=_lines(),
        hint="room is free + evictable; the first request with a prefix takes it out, and no later one does",
        wrong=(
            Wrong(_without_the_lock, "a match is locked before anybody looks for room: it is not room"),
            Wrong(_each_for_itself, "a prefix that an earlier request holds was taken out of the room already"),
            Wrong(_only_what_is_free, "what is cached and not locked is room too: it can be evicted"),
            Wrong(_out_of_turn, "in order: behind one that does not fit, none is let in"),
            Wrong(_one_to_spare, "a request that needs exactly the room there is fits"),
            Wrong(_nothing_for_none, "with None, only the request's own tokens need room: there is no prefixes[None]"),
            Wrong(_prefix_0_is_none, "0 is the first prefix, but `if prefix` takes it for none: ask `is None`"),
        ),
    ),
    Hunt(
        id="4.6",
        name="CarelessLockingTree",
        careless=CarelessLockingTree,
        reference=LockingTree,
        observe="evictable",
        example=Script((), (("insert", ([1, 2],)), ("lock", ("Anna", [1, 2, 3])), ("insert", ([1, 2, 3],)),
                            ("lock", ("Ben", [1, 2, 3])), ("unlock", ("Anna",)))),
        hint="between lock and unlock, make the tree find more of the same prompt than it did before",
        advice=_advice,
        praise=_praise,
        wrong=(
            Wrong(_nothing_in_between, "nothing is inserted between lock and unlock, so the place is found again"),
            Wrong(_a_split_in_between, "a split does not move its end: what makes the look-up end deeper than before?"),
            Wrong(_no_unlock, "locking is right in both: the careless line runs when somebody unlocks"),
        ),
    ),
)  # fmt: skip

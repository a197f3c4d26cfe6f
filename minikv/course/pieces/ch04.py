"""The pieces of chapter 04: lock, unlock, the split that keeps locks, admit, and what they are made of."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hypothesis import strategies as st

from minikv.course.pieces.admitting import play_admit, play_serve
from minikv.course.pieces.hunt import Calls, CallsMade, engine_hunt
from minikv.course.pieces.observer import ALL_RIGHT, Raised
from minikv.course.pieces.piece import Cost, Frames, Piece, Shown, called, edge, exercise, one_call
from minikv.course.pieces.props import (
    DEEP,
    FORK,
    PROMPT,
    PROMPTS,
    bracketed,
    edge_to_cut,
    filled_cache,
    listed,
    numbers,
    planted,
    preorder,
    up_to,
)
from minikv.engine import World
from minikv.errors import LockError
from minikv.prefix.base_index import way_to

_NUMBER = up_to(9)
_LOCKED = st.lists(PROMPT, max_size=3)


def _frame(caption: str, cache: Any, namespace: Any = None, **more: Any) -> Shown:
    return Shown(caption, {"root": cache.roots[namespace], "cache": cache, **more})


def _elsewhere(cache: Any) -> Frames:
    """The last frames: a prompt is locked and unlocked in a namespace, which has a root of its own."""
    cache.insert([1], [DEEP], namespace="B")
    found = cache.acquire([1], namespace="B")
    yield _frame("lock [1] in namespace B", cache, "B")
    cache.unlock(found)
    yield _frame("unlock [1] in namespace B", cache, "B")


def play_lock(world: World, case: Any) -> Frames:
    """A cache with `prompts`; the node of each of `asked` is locked, one after the other.

    In a case that has more than these two, each node has been unlocked once before, although nobody locked it.
    """
    prompts, asked, *below = case
    cache = filled_cache(world, prompts)
    for prompt in asked:
        found = cache.match_prefix(numbers(prompt))
        found.node.locks -= len(below)
        yield _frame(f"match {bracketed(prompt)}", cache)
        cache.lock(found)
        yield _frame(f"lock(cache, {edge(found.node)})", cache)
    yield from _elsewhere(cache)


def _locked_cache(world: World, prompts: Sequence[str], asked: Sequence[str]) -> tuple[Any, list[Any]]:
    """A cache with `prompts`, and the locks on those that are `asked` for."""
    cache = filled_cache(world, prompts)
    return cache, [cache.acquire(numbers(prompt)) for prompt in asked]


def play_unlock(world: World, case: Any) -> Frames:
    """A cache with `prompts`; each of `asked` is locked, and unlocked in the order that `turns` gives.

    A turn of `None` unlocks the last node, although nobody locked it.
    """
    prompts, asked, turns = case
    cache, held = _locked_cache(world, prompts, asked)
    exposed, expose = list[list[int]](), cache.expose

    def noted(node: Any) -> None:
        exposed.append(list(node.slots))
        expose(node)

    cache.expose = noted
    yield _frame("before", cache)
    if turns == [None]:
        node = preorder(cache.roots[None])[-1]
        yield called(world, "unlock", cache=cache, node=node, also={"root": cache.roots[None]})
    for turn in turns:
        if held and turn is not None:
            found = held.pop(turn % len(held))
            cache.unlock(found)
            yield _frame(f"unlock(cache, {edge(found.node)})", cache, exposed=sorted(exposed))
    yield from _elsewhere(cache)


def play_locked_split(world: World, case: Any) -> Frames:
    """A cache with `prompts` and locks on `asked`; one edge is cut, and all locks are given back.

    If `asked` is `None`, the node of that edge has been unlocked once, although nobody locked it.
    """
    prompts, asked, which, at = case
    cache, held = _locked_cache(world, prompts, asked or [])
    if (cut := edge_to_cut(cache.roots[None], which, at)) is None:
        return
    node, at = cut
    node.locks -= asked is None
    yield _frame("before", cache)
    yield called(world, "split", node=node, at=at, also={"root": cache.roots[None], "cache": cache})
    for found in held:
        cache.unlock(found)
        yield _frame(f"unlock(cache, {edge(found.node)})", cache)


def play_recount(world: World, case: Any) -> Frames:
    """A tree with `prompts`; each of `locks` is a node, and how many locks pass through it and through those above."""
    prompts, locks = case
    root = planted(world, prompts)
    nodes = preorder(root)
    for which, count in locks if nodes else ():
        node = nodes[which % len(nodes)]
        for each in way_to(node):
            each.locks += count
    yield Shown("before", {"root": root})
    yield called(world, "recount", root=root, words=listed)


class _Handle(str):
    """A receipt for a prefix of a length, which another may have too: no other handle is equal to it."""

    __eq__, __hash__ = object.__eq__, object.__hash__

    @property
    def length(self) -> int:
        """The length, as its name says it."""
        return int(self.split()[1])


def play_return_receipt(world: World, case: Any) -> Frames:
    """Handles hold as many locks as `counts` says; those that `asked` names are given back, one after the other."""
    counts, asked = case
    handles = [_Handle(name) for name in ("length 1", "length 2", "length 1 (another)")[: len(counts)]]
    held = {handle: count for handle, count in zip(handles, counts) if count}
    for number in asked:
        handle = handles[number % len(handles)]
        shown = called(world, "return_receipt", LockError, also={"held": held}, hide="held", held=held, handle=handle)
        is_mute = isinstance(shown.result, Raised) and not str(shown.result.error).strip()
        yield Shown(shown.caption, {**shown.things, "the error": "the error has no message" if is_mute else ALL_RIGHT})


_STEP = st.one_of(st.tuples(st.text("01", min_size=1, max_size=7), st.sampled_from([None, None, "B"])), _NUMBER)

_TURN: st.SearchStrategy[Any] = st.one_of(st.text("012", min_size=1, max_size=6), _NUMBER)


PIECES = (
    Piece(
        "4.1", play_lock,
        cases=[(["123"], ["123"]), (FORK, ["12345"]), (FORK, FORK), (FORK, ["12345", "12345"]),
               (["12"], ["12", "12"]), (["12"], ["12"], -1), (DEEP, ["1" * DEEP])],
        strategy=st.tuples(PROMPTS, _LOCKED),
    ),
    Piece(
        "4.2", play_unlock,
        cases=[(["123"], ["123"], [0]), (FORK, ["12345"], [0]), (FORK, FORK, [0]),
               (FORK, ["12345", "12345"], [0]), (["12"], [], [None]),
               (["12", "123"], ["12"], [None]), (DEEP, ["1" * DEEP], [0])],
        strategy=st.tuples(PROMPTS, _LOCKED, st.lists(_NUMBER, max_size=3)),
    ),
    Piece(
        "4.3", play_recount,
        cases=[([], []), (FORK, [(1, 2), (2, 1)]), (["12", "123"], [(1, 1), (0, -2)]),
               (["1", "12", "123", "45"], [(1, 1)]), (["12", "123", "45", "456"], [(0, 1)]),
               (DEEP, [])],
        strategy=st.tuples(PROMPTS, st.lists(st.tuples(_NUMBER, st.integers(1, 2)), max_size=3)),
        cost=Cost("steps for 400 nodes", [([[number] for number in range(400)], [])],
                  "take nodes off the end of one list: don't build a new list for each node", 5),
    ),
    Piece(
        "4.4", play_locked_split,
        cases=[(["12345"], ["12345"], 0, 1), (["123"], ["123", "123"], 0, 0), (FORK, ["12345"], 0, 0),
               (["123"], None, 0, 0)],
        strategy=st.tuples(PROMPTS, _LOCKED, _NUMBER, _NUMBER),
    ),
    Piece(
        "4.5", one_call("pages_needed", names="length found size"),
        cases=[(3, 0, 1), (2**60 + 1, 0, 2)],
        strategy=st.builds(lambda length, pages, size: (length, min(pages, length // size) * size, size),
                           st.integers(1, 40), _NUMBER, st.integers(1, 5)),
    ),
    Piece(
        "4.6", play_admit,
        cases=[(4, 1, ["123"]), (6, 1, ["136792", 0, "1367845", "22"]),
               (5, 1, ["12", ("123", "B")]), (2, 2, ["11", 0, "00", 0, "2222"]),
               (5, 1, ["12", 0, "34", 0, "567"]), (5, 1, ["12", ("123", "")])],
        strategy=st.tuples(st.integers(1, 6), st.integers(1, 3), st.lists(_STEP, max_size=6)),
    ),
    Piece(
        "4.7", play_serve,
        cases=[(6, ["123"]), (5, ["123", 0, "12367"])],
        strategy=st.tuples(st.integers(1, 9), st.lists(_TURN, max_size=5)),
    ),
    Piece(
        "4.8", play_return_receipt,
        cases=[([1], [0])],
        strategy=st.tuples(st.lists(up_to(2), min_size=1, max_size=3), st.lists(_NUMBER, max_size=4)),
    ),
)  # fmt: skip


Waiting = Sequence[tuple[int | None, int]]


def how_many_fit(free: int, prefixes: Sequence[int], waiting: Waiting) -> int:
    """How many of `waiting` are let in, from the front until one does not fit.

    `free` slots are free and `prefixes[i]` is the length of cached prefix `i`. A request is the prefix that it begins
    with, or `None`, and how many tokens of its own follow. A request that got in keeps everything locked.

    >>> how_many_fit(2, [4], [(0, 2), (0, 1)])
    1
    """
    room, locked = free + sum(prefixes), set[int | None]([None])
    for count, (prefix, own) in enumerate(waiting):
        room -= own if prefix is None or prefix in locked else own + prefixes[prefix]
        if room < 0:
            return count
        locked.add(prefix)
    return len(waiting)


def _advice(right: CallsMade) -> str | None:
    """A hint for a script that does no harm: what it does not do yet."""
    verbs = [call.verb for call, _ in right]
    if "unlock" not in verbs:
        return "both versions lock correctly: the careless line runs when somebody unlocks"
    if "acquire" not in verbs or "insert" not in verbs[verbs.index("acquire") :]:
        return "nothing is inserted between lock and unlock, so the lookup finds the same node again"
    return None


def _praise(careless: CallsMade) -> str:
    """Return whether a script that found the bug also made the careless cache give back what somebody still holds."""
    held = {call.result: call for call, _ in careless if call.verb == "acquire"}
    for call, _ in careless:
        if call.verb == "unlock":
            held.pop(call.arguments["handle"], None)
    for handle, call in held.items():
        if any(node.locks <= 0 for node in way_to(handle.node)):
            return f"And a part of {bracketed(call.arguments['tokens'])}, which is still locked, may be evicted!"
    return "Can you make it release a lock that another request holds?"


_OWN = st.integers(1, 5)
_LINE = st.lists(st.tuples(st.sampled_from([None, 0, 1, 2]), _OWN), max_size=5)

EXERCISES = (
    exercise(
        "4.9", how_many_fit,
        cases=[(9, [], [(None, 4)]), (0, [4], [(0, 1)])],
        strategy=st.tuples(_NUMBER, st.lists(_OWN, min_size=3, max_size=3), _LINE),
    ),
    engine_hunt(
        "4.10", "careless_unlock", "4.10 keeps no receipt, and looks the prompt up again",
        Calls(lambda world: world["RadixCache"](), ("insert", "acquire", "unlock"),
              seen=lambda cache: {"evictable": cache.evictable_size, "locks": [node.locks for node in cache.nodes()]}),
        advice=_advice, praise=_praise,
    ),
)  # fmt: skip

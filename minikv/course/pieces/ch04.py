"""The pieces of chapter 04: lock, unlock, the split that keeps locks, and admit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hypothesis import strategies as st

from minikv.course.pieces.admitting import MORE, note_exposed
from minikv.course.pieces.hunt import Calls, calls_of, engine_hunt
from minikv.course.pieces.identity import kept, order_of, path_tokens, shuffle
from minikv.course.pieces.observe import (
    DEEP,
    FORK,
    PROMPT,
    PROMPTS,
    bracketed,
    edge,
    edge_to_cut,
    filled_cache,
    kinds,
    links,
    numbers,
    outline,
    preorder,
    two,
)
from minikv.course.pieces.piece import CaseFrame, Frames, Piece, exercise, framed
from minikv.course.pieces.trial import Played
from minikv.engine import World
from minikv.errors import OutOfPages

_MANY, _NUMBER = 99, st.integers(0, 9)
_LOCKED = st.lists(PROMPT, max_size=3)


@framed
def _frame(cache: Any) -> dict[str, Any]:
    """Describe a cache: its tree, its locks and its sizes."""
    root = cache.roots[None]
    sizes = {"evictable": cache.evictable_size, "protected": cache.protected_size}
    tree = {"the tree": outline(root), "the nodes that were there": kept(root), "the root's locks": root.locks}
    return {**tree, **sizes, "the slots of the nodes in the ring, the oldest first": order_of(cache.ring)}


def _of_path(verb: str, node: Any) -> str:
    return f"{verb} {bracketed(path_tokens(node))}"


def _emptied(cache: Any, held: Sequence[Any] = ()) -> Frames:
    """The last frames: all locks that are held are given back, and everything that can be evicted goes."""
    for found in held:
        cache.unlock(found)
        yield _frame(_of_path("unlock", found.node), cache)
    yield _frame("evict all that can go", cache, {"the slots that go": sorted(cache.evict(_MANY))})


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
        yield _frame(_of_path("lock", found.node), cache)
    yield from _emptied(cache)
    yield from _elsewhere(cache)


def _elsewhere(cache: Any) -> Frames:
    """The last frames: a prompt is locked and unlocked in a namespace, which has a root of its own."""
    cache.insert([1], [DEEP], namespace="B")
    found = cache.acquire([1], namespace="B")
    yield _frame("lock [1] in namespace B", cache)
    cache.unlock(found)
    yield _frame("unlock [1] in namespace B", cache)


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
    exposed = note_exposed(cache)
    yield _frame("before", cache)
    if turns == [None]:
        node = preorder(cache.roots[None])[-1]
        world["unlock"](cache, node)
        yield _frame(_of_path("unlock", node) + ", which nobody locked", cache)
    else:
        yield from _emptied(cache, [held.pop(turn % len(held)) for turn in turns if held])
    yield _frame("after that", cache, {"the slots of nodes that cache.expose was called with": sorted(exposed)})
    yield from _elsewhere(cache)


def play_locked_split(world: World, case: Any) -> Frames:
    """A cache with `prompts` and locks on `asked`; one edge is cut, all locks are given back, all is evicted.

    If `asked` is `None`, the node of that edge has been unlocked once, although nobody locked it.
    """
    prompts, asked, which, at = case
    cache, held = _locked_cache(world, prompts, asked or [])
    if (cut := edge_to_cut(cache.roots[None], which, at)) is None:
        return
    node, at = cut
    node.locks -= asked is None
    yield _frame("before", cache)
    caption, upper = f"cut {edge(node)} after {at}", world["split"](node, at)
    seen = {
        "what is returned": edge(upper), "the path to what is returned": path_tokens(upper, cache.roots[None]),
        "the old node": edge(node), "the links": links(cache.roots[None]),
    }  # fmt: skip
    yield _frame(caption, cache, seen)
    world["touch"](cache.ring, upper)
    yield from _emptied(cache, held)


def play_admit(world: World, case: Any) -> Frames:
    """Requests come into a pool of `pages` pages, are published as they are admitted, and leave.

    A step is a prompt, with its namespace where it has one, or says which of the requests leaves.
    """
    pages, size, steps = case
    cache, pool, running = world["RadixCache"](size), world["Pool"](pages), list[Any]()
    shuffle(pool)
    for step in steps:
        if isinstance(step, int):
            if running:
                held, tail = running.pop(step % len(running))
                pool.free(tail)
                cache.unlock(held)
                yield CaseFrame(f"unlock {held.length} tokens", _room(cache, pool), cache)
            continue
        prompt, namespace = step if isinstance(step, tuple) else (step, None)
        where = "" if namespace is None else f" in namespace {namespace}"
        request, seen = _come(world, cache, pool, numbers(prompt), namespace)
        of_size = f"{pool.size} pages of {size} token{'s' * (size > 1)}"
        yield CaseFrame(f"admit {bracketed(prompt)}{where}: {of_size}", seen, cache)
        if request is not None:
            running.append(_published(cache, pool, numbers(prompt), namespace, *request))
            yield CaseFrame(f"insert {bracketed(prompt)}{where}", _room(cache, pool), cache)


def _come(world: World, cache: Any, pool: Any, prompt: list[int], namespace: Any) -> tuple[Any, dict[str, Any]]:
    """Return what `admit` returned, if it did, and a description of the state after it."""
    raised, result, told = "no error", None, ""
    try:
        result = world["admit"](cache, pool, prompt, namespace)
    except OutOfPages as error:
        raised, told = "OutOfPages", f"{error.needed} needed, {error.free} free, {error.evictable} evictable"
    found, own = two(result)
    is_pair = hasattr(found, "length") and hasattr(own, "__len__")
    seen = {
        "raised": raised, "what is returned": "admitted" if is_pair else None if told else kinds(result),
        "tokens that were found": found.length if is_pair else None, "pages of its own": len(own) if is_pair else None,
        **_room(cache, pool), "the prompt, which must not change": prompt, "the pages that OutOfPages tells": told,
    }  # fmt: skip
    return (found, own) if is_pair else None, seen


def _published(cache: Any, pool: Any, prompt: list[int], namespace: Any, found: Any, own: Any) -> tuple[Any, list[int]]:
    """Cache an admitted prompt; the lock on it, and the pages that the request still has for itself."""
    row = [*found.pages.tolist(), *own]
    done = cache.insert(prompt, row, namespace=namespace)
    size = cache.page_size
    pool.free(row[found.length // size : done.prefix_length // size])
    held = cache.acquire(prompt, namespace=namespace)
    cache.unlock(found)
    return held, row[len(prompt) // size :]


def _room(cache: Any, pool: Any) -> dict[str, Any]:
    """Describe a cache and its pool, no matter which pages were taken."""
    held = [f"{bracketed(path_tokens(node))} ×{node.locks}" for root in cache.roots.values() for node in preorder(root)]
    return {
        "pages in the pool": pool.num_free, "evictable": cache.evictable_size, "protected": cache.protected_size,
        "what is cached, with its locks": ", ".join(held) or "nothing",
        "the nodes that were there": kept(*cache.roots.values()),
    }  # fmt: skip


_STEP = st.one_of(st.tuples(st.text("01", min_size=1, max_size=7), st.sampled_from([None, None, "B"])), _NUMBER)

PIECES = (
    Piece(
        "4.1", "lock", play_lock,
        cases=[(["123"], ["123"]), (FORK, ["12345"]), (FORK, FORK), (FORK, ["12345", "12345"]), (["12"], ["12", "12"]),
               (["12"], ["12"], -1), (DEEP, ["1" * DEEP])],
        strategy=st.tuples(PROMPTS, _LOCKED),
    ),
    Piece(
        "4.2", "unlock", play_unlock,
        cases=[(["123"], ["123"], [0]), (FORK, ["12345"], [0]), (FORK, FORK, [0]), (FORK, ["12345", "12345"], [0]),
               (["12"], [], [None]), (["12", "123"], ["12"], [None]), (DEEP, ["1" * DEEP], [0])],
        strategy=st.tuples(PROMPTS, _LOCKED, st.lists(_NUMBER, max_size=3)),
    ),
    Piece(
        "4.3", "split", play_locked_split,
        cases=[(["12345"], ["12345"], 0, 1), (["123"], [], 0, 0), (["123"], ["123", "123"], 0, 0),
               (FORK, ["12345"], 0, 0), (FORK, FORK, 1, 0), (["123"], None, 0, 0)],
        strategy=st.tuples(PROMPTS, _LOCKED, _NUMBER, _NUMBER),
    ),
    Piece(
        "4.4", "admit", play_admit,
        cases=[(4, 1, ["123"]), (3, 1, ["123", "123"]), (6, 1, ["136792", 0, "136784"]),
               (6, 1, ["136792", 0, "1367845", "22"]), (5, 1, ["12", ("123", "B")]), (2, 4, ["12345"]),
               (2, 2, ["11", 0, "00", 0, "2222"]), (2, 2, ["11", 0, "222222"]), (6, 1, ["1234", 0, "567"]),
               (5, 1, ["12", 0, "34", 0, "567"]), (5, 1, ["12", ("123", "")])],
        strategy=st.tuples(st.integers(1, 6), st.integers(1, 3), st.lists(_STEP, max_size=6)),
    ),
    *MORE,
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


def _advice(right: Played) -> str | None:
    """A hint for a script that does no harm: what it does not do yet."""
    verbs = [call.verb for call in calls_of(right)]
    if "unlock" not in verbs:
        return "both versions lock correctly: the careless line runs when somebody unlocks"
    if "acquire" not in verbs or "insert" not in verbs[verbs.index("acquire") :]:
        return "nothing is inserted between lock and unlock, so the lookup finds the same node again"
    return None


def _praise(careless: Played) -> str:
    """Return whether a script that found the bug also made the careless cache give back what somebody still holds."""
    held = {call.result: call for call in calls_of(careless) if call.verb == "acquire"}
    for call in calls_of(careless):
        if call.verb == "unlock":
            held.pop(call.arguments["handle"], None)
    for handle, call in held.items():
        node = handle.node
        while node.parent is not None:
            if node.locks <= 0:
                return f"And what another holds of {bracketed(call.arguments['tokens'])} may be evicted!"
            node = node.parent
    return "Can you make it give back a lock that another holds?"


_OWN = st.integers(1, 5)
_LINE = st.lists(st.tuples(st.sampled_from([None, 0, 1, 2]), _OWN), max_size=5)

EXERCISES = (
    exercise(
        "4.5", "how_many_fit", how_many_fit,
        cases=[(9, [], [(None, 4)]), (0, [4], [(None, 4)]), (0, [4], [(0, 1)]),
               (2, [4], [(0, 1), (0, 1)]), (3, [4], [(None, 9), (0, 1)]), (0, [1, 4], [(1, 2)])],
        strategy=st.tuples(_NUMBER, st.lists(_OWN, min_size=3, max_size=3), _LINE),
    ),
    engine_hunt(
        "4.6", "careless_unlock", ("4.6", "keeps no receipt, and looks the prompt up again"),
        Calls(lambda world: world["RadixCache"](), ("insert", "acquire", "unlock"),
              seen=lambda cache: {"evictable": cache.evictable_size, "locks": [node.locks for node in cache.nodes()]}),
        advice=_advice, praise=_praise,
    ),
)  # fmt: skip

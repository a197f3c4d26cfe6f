"""The pieces of chapter 04: lock, unlock, the split that keeps locks, and admit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from hypothesis import strategies as st

from minikv.course.pieces.hunt import Calls, calls_of, engine_hunt
from minikv.course.pieces.observe import bracketed, edge, edge_to_cut, kinds, links, outline, path_tokens, preorder, two
from minikv.course.pieces.piece import CaseFrame, Piece, exercise
from minikv.course.pieces.trial import Played
from minikv.engine import World
from minikv.errors import OutOfPages

_PROMPT = st.lists(st.integers(0, 2), max_size=6)
_PROMPTS = st.lists(_PROMPT, max_size=4)
_MANY, _NUMBER = 99, st.integers(0, 9)
_FORK = [[1, 2, 3, 4, 5], [1, 2, 3, 7, 8]]
_DEEP = [[1, 2], [1, 2, 3], [1, 2, 3, 4]]


def _filled_cache(world: World, prompts: Sequence[Sequence[int]]) -> Any:
    """A cache of the world with these prompts; pages count from 0."""
    cache, page = world["RadixCache"](), 0
    for prompt in prompts:
        cache.insert(prompt, range(page, page + len(prompt)))
        page += len(prompt)
    return cache


def _frame(caption: str, cache: Any, seen: Mapping[str, Any] = MappingProxyType({})) -> CaseFrame:
    """A frame with what is `seen` and what can be seen of a cache: its tree, its locks and its sizes."""
    root = cache.roots[None]
    state = {"the tree": outline(root), "the root's locks": root.locks, "evictable": cache.evictable_size}
    return CaseFrame(caption, {**seen, **state, "protected": cache.protected_size}, cache)


def _emptied(cache: Any) -> CaseFrame:
    """The last frame: everything that can be evicted goes."""
    return _frame("evict all that can go", cache, {"the slots that go": sorted(cache.evict(_MANY))})


def play_lock(world: World, case: Any) -> Iterator[CaseFrame]:
    """A cache with `prompts`; the node of each of `asked` is locked, one after the other."""
    prompts, asked = case
    cache = _filled_cache(world, prompts)
    for prompt in asked:
        found = cache.match_prefix(prompt)
        yield _frame(f"match {bracketed(prompt)}", cache)
        cache.lock(found)
        yield _frame(f"lock {bracketed(path_tokens(found.node))}", cache)
    yield _emptied(cache)


def play_unlock(world: World, case: Any) -> Iterator[CaseFrame]:
    """A cache with `prompts`; each of `asked` is locked, and unlocked in the order that `turns` gives.

    A turn of `None` unlocks the first node, although nobody locked it.
    """
    prompts, asked, turns = case
    cache = _filled_cache(world, prompts)
    held = [cache.acquire(prompt) for prompt in asked]
    yield _frame("before", cache)
    for turn in turns:
        if turn is None:
            node = next(iter(preorder(cache.roots[None])))
            world["unlock"](cache, node)
            yield _frame(f"unlock {bracketed(path_tokens(node))}, which nobody locked", cache)
            return
        if not held:
            break
        found = held.pop(turn % len(held))
        cache.unlock(found)
        yield _frame(f"unlock {bracketed(path_tokens(found.node))}", cache)
    yield _emptied(cache)


def play_locked_split(world: World, case: Any) -> Iterator[CaseFrame]:
    """A cache with `prompts` and locks on `asked`; one edge is cut, all locks are given back, all is evicted."""
    prompts, asked, which, at = case
    cache = _filled_cache(world, prompts)
    held = [cache.acquire(prompt) for prompt in asked]
    if (cut := edge_to_cut(cache.roots[None], which, at)) is None:
        return
    node, at = cut
    yield _frame("before", cache)
    caption, upper = f"cut {edge(node)} after {at}", world["split"](node, at)
    seen = {"what is returned": edge(upper), "the old node": edge(node), "the links": links(cache.roots[None])}
    yield _frame(caption, cache, seen)
    world["touch"](cache.ring, upper)
    for found in held:
        cache.unlock(found)
        yield _frame(f"unlock {bracketed(path_tokens(found.node))}", cache)
    yield _emptied(cache)


def play_admit(world: World, case: Any) -> Iterator[CaseFrame]:
    """Requests come into a pool of `pages` pages, are published as they are admitted, and leave."""
    pages, size, steps = case
    cache, pool, running = world["RadixCache"](size), world["Pool"](pages), list[Any]()
    for step in steps:
        if isinstance(step, int):
            if running:
                caption = _leave(cache, pool, running.pop(step % len(running)))
                yield CaseFrame(caption, _room(cache, pool), cache)
            continue
        prompt, namespace = step if isinstance(step, tuple) else (step, None)
        where = "" if namespace is None else f" in namespace {namespace}"
        request, seen = _come(world, cache, pool, list(prompt), namespace)
        yield CaseFrame(
            f"admit {bracketed(prompt)}{where}: {pool.size} pages of {size} token{'s' * (size > 1)}", seen, cache
        )
        if request is not None:
            running.append(_published(cache, pool, list(prompt), namespace, *request))
            yield CaseFrame(f"insert {bracketed(prompt)}{where}", _room(cache, pool), cache)


def _come(world: World, cache: Any, pool: Any, prompt: list[int], namespace: Any) -> tuple[Any, dict[str, Any]]:
    """What `admit` gave, if it did, and what can be seen behind it."""
    given = list(prompt)
    try:
        result = world["admit"](cache, pool, given, namespace)
    except OutOfPages as error:
        refused = {"what came of it": "OutOfPages", **_room(cache, pool), "the prompt afterwards": given}
        figures = f"{error.needed} needed, {error.free} free, {error.evictable} evictable"
        return None, {**refused, "the pages that OutOfPages tells": figures}
    found, own = two(result)
    is_pair = hasattr(found, "length") and hasattr(own, "__len__")
    seen = {
        "what came of it": "admitted" if is_pair else f"it returned {kinds(result)}",
        "tokens that were found": found.length if is_pair else None, "pages of its own": len(own) if is_pair else None,
        **_room(cache, pool), "the prompt afterwards": given,
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


def _leave(cache: Any, pool: Any, request: tuple[Any, list[int]]) -> str:
    """End a request; the caption."""
    held, tail = request
    pool.free(tail)
    cache.unlock(held)
    return f"unlock {held.length} tokens"


def _room(cache: Any, pool: Any) -> dict[str, Any]:
    """What can be seen of a cache and its pool, whichever pages were taken."""
    held = [f"{bracketed(path_tokens(node))} ×{node.locks}" for root in cache.roots.values() for node in preorder(root)]
    return {
        "pages in the pool": pool.num_free, "evictable": cache.evictable_size, "protected": cache.protected_size,
        "what is cached, with its locks": ", ".join(held) or "nothing",
    }  # fmt: skip


_STEP = st.one_of(
    st.tuples(st.lists(st.integers(0, 1), min_size=1, max_size=7), st.sampled_from([None, None, "B"])), _NUMBER
)

PIECES = (
    Piece(
        id="4.1", name="lock", play=play_lock,
        cases=[([[1, 2, 3]], [[1, 2, 3]]), (_FORK, [[1, 2, 3, 4, 5]]), (_FORK, _FORK), (_FORK, [[1, 2, 3, 4, 5]] * 2),
               ([[1, 2]], [[1, 2], [1, 2]])],
        strategy=st.tuples(_PROMPTS, st.lists(_PROMPT, max_size=3)),
        hints=(
            "Go up from `node` as `match` did in chapter 03: a node knows its parent, and only the root has none.",
            "Each node on the way counts one more lock. The root is not counted: it has no tokens.",
            "When a count has just become 1, this lock is the first on that node, and `cache.protect(node)` must know.",
        ),
    ),
    Piece(
        id="4.2", name="unlock", play=play_unlock,
        cases=[([[1, 2, 3]], [[1, 2, 3]], [0]), (_FORK, [[1, 2, 3, 4, 5]], [0]), (_FORK, _FORK, [0]),
               (_FORK, [[1, 2, 3, 4, 5]] * 2, [0]), ([[1, 2]], [], [None])],
        strategy=st.tuples(_PROMPTS, st.lists(_PROMPT, max_size=3), st.lists(_NUMBER, max_size=3)),
        hints=(
            "It is `lock`, walked in the same direction, with each step undone.",
            "Take one from the count of each node on the path, however many locks are left on it.",
            "When a count has just become 0, nobody reads that node any more, and `cache.expose(node)` must know.",
        ),
    ),
    Piece(
        id="4.3", name="split", play=play_locked_split,
        cases=[([[1, 2, 3, 4, 5]], [[1, 2, 3, 4, 5]], 0, 1), ([[1, 2, 3]], [], 0, 0),
               ([[1, 2, 3]], [[1, 2, 3], [1, 2, 3]], 0, 0), (_FORK, [[1, 2, 3, 4, 5]], 0, 0), (_FORK, _FORK, 1, 0)],
        strategy=st.tuples(_PROMPTS, st.lists(_PROMPT, max_size=3), _NUMBER, _NUMBER),
        hints=(
            "Begin with your `split` of chapter 03. All of it is still needed.",
            "How many locks pass through the upper node? Each of them goes up from the old node, or from below it.",
            "It is one more line: the upper node has the same count as the old one.",
        ),
    ),
    Piece(
        id="4.4", name="admit", play=play_admit,
        cases=[(4, 1, [[1, 2, 3]]), (3, 1, [[1, 2, 3], [1, 2, 3]]),
               (6, 1, [[1, 3, 6, 7, 9, 77], 0, [1, 3, 6, 7, 87, 66]]),
               (6, 1, [[1, 3, 6, 7, 9, 77], 0, [1, 3, 6, 7, 87, 66, 55], [2, 2]]),
               (5, 1, [[1, 2], ([1, 2, 3], "B")]), (2, 4, [[1, 2, 3, 4, 5]]),
               (2, 2, [[1, 1], 0, [0, 0], 0, [2, 2, 2, 2]]), (2, 2, [[1, 1], 0, [2, 2, 2, 2, 2, 2]]),
               (6, 1, [[1, 2, 3, 4], 0, [5, 6, 7]]),
               (5, 1, [[1, 2], 0, [3, 4], 0, [5, 6, 7]])],
        strategy=st.tuples(st.integers(1, 6), st.integers(1, 3), st.lists(_STEP, max_size=6)),
        hints=(
            "`cache.acquire(tokens, limit=..., namespace=...)` matches and locks in one act. The last token is always "
            "computed, so the limit is one less than the prompt has.",
            "The pool counts pages, and the cache tokens. The prompt fills its last page only in part, and takes all "
            "of it; what was found are whole pages.",
            "There is room for the pages that are free and the pages that can be evicted. If that is not enough, "
            "unlock what you found, and raise `OutOfPages(needed, pool.num_free, evictable)`.",
            "Evict only what is missing, which `evict` takes in tokens, and free the pages that it returns. Then "
            "`pool.alloc(needed)` cannot fail.",
        ),
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


def _advice(right: Played) -> str | None:
    """A hint for a script that does no harm: what it does not do yet."""
    verbs = [call.verb for call in calls_of(right)]
    if "unlock" not in verbs:
        return "locking is right in both: the careless line runs when somebody unlocks"
    if "acquire" not in verbs or "insert" not in verbs[verbs.index("acquire") :]:
        return "nothing is inserted between lock and unlock, so the place is found again"
    return None


def _praise(careless: Played) -> str:
    """Whether a script that found the bug also made the careless cache give away what somebody still holds."""
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
    return "Can you make it give away what another holds?"


@st.composite
def _lines(draw: st.DrawFn) -> tuple[int, list[int], list[tuple[int | None, int]]]:
    prefixes = draw(st.lists(st.integers(1, 5), max_size=3))
    begins = st.sampled_from([None, *range(len(prefixes))])
    return draw(st.integers(0, 9)), prefixes, draw(st.lists(st.tuples(begins, st.integers(1, 5)), max_size=5))


EXERCISES = (
    exercise(
        "4.5", "how_many_fit", how_many_fit,
        cases=[(4, [], [(None, 4)]), (0, [4], [(None, 4)]), (0, [4], [(0, 1)]), (2, [4], [(0, 1), (0, 1)]),
               (3, [4], [(None, 9), (0, 1)]), (0, [1, 4], [(1, 2)])],
        strategy=_lines(),
        hint="room is free + evictable; the first request with a prefix takes it out, and no later one does",
    ),
    engine_hunt(
        "4.6", "careless_unlock", ("4.6", "keeps no receipt, and looks the prompt up again"),
        Calls(lambda world: world["RadixCache"](), ("insert", "acquire", "unlock"),
              seen=lambda cache: {"evictable": cache.evictable_size, "locks": [node.locks for node in cache.nodes()]}),
        hint="between lock and unlock, make the tree find more of the same prompt than it did before",
        advice=_advice, praise=_praise,
    ),
)  # fmt: skip

"""The pieces of chapter 14: what is worth loading, the host's victim, the copy out, the load, layers that overlap."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hypothesis import strategies as st

from minikv.course.pieces.hunt import Calls, calls_of, engine_hunt
from minikv.course.pieces.identity import ALL_RIGHT, shuffle
from minikv.course.pieces.observe import listed, token_in_words, yes_or_no
from minikv.course.pieces.piece import NOTHING, CaseFrame, Frames, Piece, exercise, one_call
from minikv.course.pieces.trial import Played
from minikv.engine import World

Planted = tuple[
    str, int, int, int
]  # a prompt, and how many of its blocks are on the device, in host memory, locked there
_PROMPT = st.text("ab", min_size=1, max_size=4)
_HELD = st.lists(st.tuples(_PROMPT, st.integers(0, 4), st.integers(0, 4), st.sampled_from([0, 0, 0, 1, 2])), max_size=4)
_FEW, _SMALL, _POWER = st.integers(0, 3), st.integers(0, 6), st.sampled_from([1, 2, 4])
_SECONDS = st.lists(st.integers(0, 9), max_size=5)


def prefixes(prompt: str) -> list[str]:
    """The keys of the blocks of a prompt, a letter each: all that is before the end of each.

    >>> prefixes("abc")
    ['a', 'ab', 'abc']
    """
    return [prompt[: at + 1] for at in range(len(prompt))]


def planted_tiers(world: World, held: Sequence[Planted], device_free: int = 0, host_free: int = 0) -> Any:
    """Tiers that hold some prompts, the oldest first and a parent before its child, with so many pages free."""
    on_device = dict.fromkeys(key for prompt, near, _, _ in held for key in prefixes(prompt)[:near])
    in_host = dict.fromkeys(key for prompt, _, far, _ in held for key in prefixes(prompt)[:far])
    tiers = world["Tiers"](len(on_device) + device_free, len(in_host) + host_free)
    shuffle(tiers.device)
    shuffle(tiers.host)
    for prompt, near, far, _ in held:
        parent = tiers.root
        for key in prefixes(prompt)[: max(near, far)]:
            parent = parent.children.setdefault(key, world["Block"](key, parent))
            tiers.blocks[key] = parent
    for key in on_device:
        tiers.compute([key], tiers.device.alloc(1), tiers.blocks[key].parent)
    for key in in_host:
        (page,) = tiers.host.alloc(1)
        tiers.bytes_in_host[page] = key
        tiers.blocks[key].host, tiers.in_host[tiers.blocks[key]] = page, None
    for prompt, _, far, locked in held:
        for key in prefixes(prompt)[: min(far, locked)]:
            tiers.blocks[key].host_locks += 1
    return tiers


def _state(tiers: Any) -> dict[str, Any]:
    """Where each block is, who locks it there, and whether all pages and bytes are as they should be."""
    places = [" in ".join(filter(None, (key, tiers.blocks[key].note))) for key in sorted(tiers.blocks)]
    wrong = ALL_RIGHT
    for block in tiers.blocks.values():
        if block.host is not None and block.parent.parent is not None and block.parent.host is None:
            wrong = f"{block.key} is in host memory, and {block.parent.key} before it is not"
        if block.host is not None and tiers.bytes_in_host.get(block.host) != block.key:
            wrong = f"the host page of {block.key} has the bytes of {tiers.bytes_in_host.get(block.host)}"
    for name, pool, tier in (("device", tiers.device, tiers.on_device), ("host", tiers.host, tiers.in_host)):
        pages = [getattr(block, name) for block in tier]
        if len(set(pages)) < len(pages) or any(page is None or pool.is_free(page) for page in pages):
            wrong = f"a page of the {name} has two owners"
    return {"what is where": wrong, "the blocks (D: device, H: host)": places}


def _frame(caption: str, tiers: Any, seen: Any = NOTHING) -> CaseFrame:
    return CaseFrame(caption, {**seen, **_state(tiers)}, tiers.root)


def _key_of(block: Any) -> Any:
    return block.key if hasattr(block, "host_locks") else token_in_words(block)


def play_worth_loading(world: World, case: tuple[Any, ...]) -> Frames:
    """Make one decision, with both times in the caption."""
    count, cached, size, link, dense, attention, speed = case
    load, compute = count * size / link, (count * dense + (count**2 + 2 * count * cached) * attention) / speed
    caption = f"num_tokens {count}, cached {cached}, token_bytes {size}, link {link:g}, token_flops {dense:g}, "
    caption += f"attention_flops {attention:g}, speed {speed:g}: loading takes {load:.4g} s, computing {compute:.4g} s"
    yield CaseFrame(caption, {"is it worth loading": yes_or_no(world["worth_loading"](*case))})


def play_host_victim(world: World, case: Sequence[Planted]) -> Frames:
    """Find the victim among the blocks that are in host memory."""
    tiers = planted_tiers(world, case)
    for block in tiers.on_device:
        block.locks = 1  # of requests, which read the page on the device
    order = dict(tiers.in_host)
    locked = list(_locks(tiers))
    victim = world["host_victim"](tiers.in_host)
    keys = [block.key for block in order]
    is_known = victim is None or any(victim is block for block in order)
    seen = {
        "the victim": _key_of(victim), "is it one of these blocks": yes_or_no(is_known),
        "the order of use, which must not change": [block.key for block in tiers.in_host],
    }  # fmt: skip
    device = [block.key for block in tiers.on_device]
    caption = f"in host memory, the oldest first: {keys}, host locks: {locked}, on the device, in use there: {device}"
    yield _frame(caption, tiers, seen)


def play_copy_out(world: World, case: Any) -> Frames:
    """Copy out a prompt that is on the device, of which some blocks are in host memory already."""
    held, prompt, there, host_free = case
    tiers = planted_tiers(world, [(prompt, len(prompt), there, 0), *held], host_free=host_free)
    path = [tiers.blocks[key] for key in prefixes(prompt)]
    caption = f"host memory has, the oldest first, {[b.key for b in tiers.in_host]}; free pages: {tiers.host.num_free}"
    yield _frame(caption, tiers)
    count = world["copy_out"](tiers, path)
    seen = {"how many were copied": count, "the path, which must not change": listed(path, _key_of)}
    yield _frame(f"{caption}: copy out {prompt}", tiers, seen)


def play_load_back(world: World, case: Any) -> Frames:
    """Load a prompt, of which the first blocks may be on the device; meanwhile somebody else takes pages."""
    held, prompt, near, free, more = case
    tiers = planted_tiers(world, [(prompt, near, len(prompt), 0), *held], free)
    path = [tiers.blocks[key] for key in prefixes(prompt)]
    for block in path[:near]:
        block.locks = 1
    caption = f"host memory is full: {[b.key for b in tiers.in_host]}, free device pages: {free}: load {prompt}"
    coming = world["load_back"](tiers, path)
    seen = {
        "what is returned": listed(coming, _key_of), "the path, which must not change": listed(path, _key_of),
        "locks on the device": [block.key for block in path if block.locks],
        "host locks": _locks(tiers), "the loads under way": [block.key for block in tiers.moves],
    }  # fmt: skip
    yield CaseFrame(caption, seen, tiers.root)
    caption += f", then pages that are taken: {more}"
    tiers.take(more)
    yield CaseFrame(caption, {"host locks": _locks(tiers)}, tiers.root)
    tiers.arrive(list(coming))
    yield _frame(f"{caption}, and the bytes arrive", tiers, {"host locks": _locks(tiers)})


def _locks(tiers: Any) -> dict[str, int]:
    return {key: block.host_locks for key, block in sorted(tiers.blocks.items()) if block.host_locks}


_LLAMA = (131072, 3e9, 16.06e9, 262144, 400e12)

PIECES = (
    Piece(
        "14.1", "worth_loading", play_worth_loading,
        cases=[(1, 0, 1, 1, 2, 0, 1), (1, 0, 3, 2, 1, 1, 1), (1, 0, 1, 1, 1, 0, 1), (1, 1, 2, 1, 1, 1, 1),
               (2, 1, 5, 1, 1, 1, 1), (2, 1, 4, 1, 1, 1, 1), (1, 3, 6, 1, 0, 1, 1), (4, 0, 4, 1, 0, 1, 1),
               (1000, 0, *_LLAMA), (1000, 4000, *_LLAMA), (8000, 0, *_LLAMA)],
        strategy=st.tuples(_SMALL, _SMALL, _SMALL, _POWER, _SMALL, _SMALL, _POWER),
    ),
    Piece(
        "14.2", "host_victim", play_host_victim,
        cases=[[("a", 0, 1, 0)], [("a", 1, 1, 0)], [("a", 0, 1, 0), ("b", 0, 1, 0)], [("ab", 0, 2, 0)],
               [("a", 0, 1, 1)], [], [("a", 0, 1, 1), ("b", 0, 1, 0)],
               [("ab", 2, 1, 0), ("b", 0, 1, 0)], [("ab", 2, 2, 0), ("b", 0, 1, 0)],
               [("ab", 0, 2, 2), ("b", 1, 1, 0)], [("ab", 0, 2, 0), ("ac", 0, 2, 0)], [("abc", 3, 2, 0)]],
        strategy=_HELD,
    ),
    Piece(
        "14.3", "copy_out", play_copy_out,
        cases=[([], "a", 0, 1), ([], "abc", 0, 3), ([], "abc", 1, 2), ([], "abc", 0, 2), ([], "abc", 3, 0),
               ([("x", 0, 1, 0)], "ab", 1, 0), ([("x", 0, 1, 0)], "ab", 0, 1), ([], "abc", 1, 1),
               ([("xy", 0, 2, 0)], "abc", 1, 0), ([("x", 0, 1, 1)], "ab", 0, 0), ([("x", 0, 1, 0)], "abcd", 2, 0)],
        strategy=st.tuples(_HELD, _PROMPT, _FEW, _FEW),
    ),
    Piece(
        "14.4", "load_back", play_load_back,
        cases=[([], "a", 0, 1, 0), ([], "abc", 1, 2, 0), ([], "abc", 3, 0, 0), ([], "abc", 0, 2, 0), ([], "a", 0, 0, 0),
               ([("x", 1, 0, 0)], "a", 0, 0, 0), ([("x", 1, 0, 0)], "a", 0, 1, 1), ([("xy", 2, 0, 0)], "ab", 0, 0, 0),
               ([("xy", 2, 0, 0), ("z", 0, 1, 0)], "ab", 1, 1, 2), ([("x", 1, 0, 0)], "ab", 0, 2, 1)],
        strategy=st.tuples(_HELD, _PROMPT, _FEW, _FEW, _FEW),
    ),
    Piece(
        "14.5", "overlapped", one_call("overlapped"),
        cases=[([2], [3]), ([2, 2], [3, 3]), ([3, 3], [2, 2]), ([], []), ([1, 9, 1], [5, 1, 1]), ([0, 0], [2, 3]),
               ([4, 1], [1, 4])],
        strategy=_SECONDS.map(lambda loads: (loads, [(3 * load + 2) % 7 for load in loads])),
    ),
)  # fmt: skip


def blocks_to_load(loads: Sequence[float], computes: Sequence[float]) -> int:
    """Return how many of the first blocks to load, while the rest is computed, to be done soonest; the fewest of these.

    >>> blocks_to_load([2, 2, 2], [1, 2, 3])
    2
    """
    return min(range(len(loads) + 1), key=lambda count: max(sum(loads[:count]), sum(computes[count:])))


def _advice(right: Played) -> str:
    """A hint for a script that does no harm: what it does not do yet."""
    calls = calls_of(right)
    if not any(call.result and call.result[1] for call in calls):
        return "nothing was loaded: serve a prompt, then others until it has left the device, and then the prompt again"
    return "the host pages of the load were not in anybody's way: let host memory be full when the load makes room"


EXERCISES = (
    exercise(
        "14.6", "blocks_to_load", blocks_to_load,
        cases=[([], []), ([1], [2]), ([2], [1]), ([2, 2, 2], [1, 2, 3]), ([1, 1], [9, 9]), ([9, 9], [1, 1]),
               ([2, 2], [2, 2]), ([1, 1, 1, 1], [1, 2, 3, 4])],
        strategy=_SECONDS.map(lambda loads: (loads, [(3 * load + 2) % 7 for load in loads])),
    ),
    engine_hunt(
        "14.7", "careless_load", ("14.4", "locks nothing"),
        Calls(lambda world: world["Tiers"](4, 4), ("serve",), result=lambda tiers, counts: counts),
        advice=_advice,
    ),
)  # fmt: skip

"""The pieces of chapter 14: what is worth loading, the host's victim, the copy out, the load, layers that overlap."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from numbers import Real
from typing import Any

from hypothesis import strategies as st

from minikv.course.pieces.hunt import Calls, CallsMade, engine_hunt
from minikv.course.pieces.observer import RETURNED, Words
from minikv.course.pieces.piece import Cost, Frames, Piece, Play, Shown, exercise, new_result, one_call
from minikv.course.pieces.props import shuffle, up_to
from minikv.engine import World

# a prompt, how many first blocks are on the device, in host memory; locked last ones
Planted = tuple[str, int, int, int]
_PROMPT = st.text("ab", min_size=1, max_size=4)
_HELD = st.lists(st.tuples(_PROMPT, up_to(4), up_to(4), st.sampled_from([0, 0, 0, 1, 2])), max_size=4)
_FEW, _SMALL, _POWER = up_to(3), up_to(6), st.sampled_from([1, 2, 4])
_LOADS = st.lists(up_to(9), max_size=5)
_SECONDS = _LOADS.map(lambda loads: (loads, [(3 * load + 2) % 7 for load in loads]))  # to load, and to compute


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
    for prompt, near, far, locked in held:
        there = prefixes(prompt)[: max(near, far)]
        for key in there[max(len(there) - locked, 0) :]:
            tiers.blocks[key].host_locks += 1
    return tiers


def _setting(tiers: Any) -> str:
    """Say in words what is where."""
    blocks = ", ".join(f"{block.key} {block.note}" for block in tiers.in_host | tiers.on_device)
    free = f"{tiers.device.num_free} on the device, {tiers.host.num_free} in host memory"
    return f"(blocks: {blocks or 'none'}, the oldest in host memory first; free pages: {free})"


def _state(tiers: Any, blocks: Iterable[Any], found: Any, path: Sequence[Any] = ()) -> dict[str, Any]:
    """Say what of these blocks is where, whichever pages they have, who locks them, and what was found."""
    seen = {"free pages on the device": tiers.device.num_free, "free pages in host memory": tiers.host.num_free}
    for block in blocks:
        seen[f"block {block.key}"] = Words(f"{block.note or 'nowhere'}, device locks: {block.locks}")
        seen[f"bytes in the host page of {block.key}"] = _bytes(tiers.bytes_in_host, block.host)
    loads = sorted(_named(list(tiers.moves)))
    return {**seen, "loads under way": loads, "the caller's path": _named(path), RETURNED: found}


def _bytes(memory: Any, page: Any) -> Any:
    return memory.get(page) if isinstance(page, int | None) else Words("a value that is not a page")


def _named(found: Any) -> Any:
    """A block by its key, and each of those in a list; anything else as it is."""
    if isinstance(found, list | tuple):
        return [*map(_named, found)]
    return f"block {found.key}" if hasattr(found, "host_locks") else found


def play_worth_loading(world: World, case: tuple[Any, ...]) -> Frames:
    """Make one decision, with both times in the caption."""
    count, cached, size, link, dense, attention, speed = case
    load, compute = count * size / link, (count * dense + (count**2 + 2 * count * cached) * attention) / speed
    found = world["worth_loading"](*case)
    caption = f"worth_loading{case} (loading takes {load:.4g} s, computing {compute:.4g} s)"
    yield Shown(caption, {RETURNED: found})


def play_host_victim(world: World, case: Sequence[Planted]) -> Frames:
    """Find the victim among the blocks that are in host memory; on the device, all are in use."""
    tiers = planted_tiers(world, case)
    for block in tiers.on_device:
        block.locks = 1
    for at, block in enumerate(tiers.in_host):
        block.hits = (2, 1, 3, 0)[at % 4]
    blocks, caption = [*tiers.blocks.values()], f"host_victim(in_host) {_setting(tiers)}"
    found = world["host_victim"](tiers.in_host)
    is_known = any(found is each for each in (None, *blocks)) or not hasattr(found, "host_locks")
    state = _state(tiers, blocks, _named(found) if is_known else Words(f"a copy of {_named(found)}"))
    yield Shown(caption, {"the caller's in_host": _named([*tiers.in_host]), **state}, tiers.root)


def _as_float(found: Any) -> Any:
    """A number, whether it is whole or not."""
    return float(found) if isinstance(found, Real) else found


def _on_path(name: str) -> Play:
    """A play of one call with the path of a prompt, of which `near` blocks are on the device and `far` in host memory.

    Of what is loaded, the bytes arrive.
    """

    def play(world: World, case: Any) -> Frames:
        held, prompt, near, far, *free = case
        tiers = planted_tiers(world, [(prompt, near, far, 0), *held], *free)
        blocks, path = [*tiers.blocks.values()], [tiers.blocks[key] for key in prefixes(prompt)]
        for block in path[:near]:
            block.locks = 1
        caption = f"{name}(tiers, the path to {prompt}) {_setting(tiers)}"
        found = world[name](tiers, path)
        yield Shown(caption, _state(tiers, blocks, new_result(world, found, _named(found)), path), tiers.root)
        tiers.arrive([*tiers.moves])
        on_device = {block.key: _bytes(tiers.bytes_on_device, block.device) for block in tiers.on_device}
        yield Shown(f"{caption} and the loads", {"bytes of the blocks on the device": on_device}, tiers.root)

    return play


_ALL = 9  # blocks: more than a prompt has
_LLAMA = (131072, 3e9, 16.06e9, 262144, 400e12)

PIECES = (
    Piece(
        "14.1", play_worth_loading,
        cases=[(1, 0, 1, 1, 2, 0, 1), (1000, 0, *_LLAMA), (1000, 4000, *_LLAMA)],
        strategy=st.tuples(_SMALL, _SMALL, _SMALL, _POWER, _SMALL, _SMALL, _POWER),
    ),
    Piece(
        "14.2", play_host_victim,
        cases=[[("a", 0, 1, 0)]],
        strategy=_HELD,
        cost=Cost("steps for 1,000 blocks", [[(chr(number), 0, 1, 0) for number in range(300, 1300)]],
                  "`in_host` has the oldest block first: stop at the first that may leave, and copy nothing", 9),
    ),
    Piece(
        "14.3", _on_path("copy_out"),
        cases=[([], "a", _ALL, 0, 0, 1)],
        strategy=st.tuples(_HELD, _PROMPT, st.just(_ALL), _FEW, st.just(0), _FEW),
    ),
    Piece(
        "14.4", _on_path("load_back"),
        cases=[([], "a", 0, _ALL, 1)],
        strategy=st.tuples(_HELD, _PROMPT, _FEW, st.just(_ALL), _FEW),
    ),
    Piece(
        "14.5", one_call("overlapped", words=_as_float),
        cases=[([2], [3])],
        strategy=_SECONDS,
    ),
)  # fmt: skip


def blocks_to_load(loads: Sequence[float], computes: Sequence[float]) -> int:
    """Return how many of the first blocks to load, while the rest is computed, to be done soonest; the fewest of these.

    >>> blocks_to_load([2, 2, 2], [1, 2, 3])
    2
    """
    return min(range(len(loads) + 1), key=lambda count: max(sum(loads[:count]), sum(computes[count:])))


def _advice(right: CallsMade) -> str:
    """A hint for a script that does no harm: what it does not do yet."""
    if not any(call.result and call.result[1] for call, _ in right):
        return "nothing was loaded: serve a prompt, then others until it has left the device, then the prompt again"
    return "host memory still had room during the load: let it be full when the load makes room"


EXERCISES = (
    exercise(
        "14.6", blocks_to_load,
        cases=[([], []), ([995], [1000])],
        strategy=_SECONDS,
    ),
    engine_hunt(
        "14.7", "careless_load", "14.4 locks nothing",
        Calls(lambda world: world["Tiers"](4, 4), ("serve",)),
        advice=_advice,
    ),
)  # fmt: skip

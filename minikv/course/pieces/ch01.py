"""The pieces of chapter 01: the bytes of a token, the pages that fit, the slots of a request, and what it keeps."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from hypothesis import strategies as st

from minikv.course.pieces.hunt import call_hunt
from minikv.course.pieces.observer import RETURNED, Words
from minikv.course.pieces.piece import CALLERS, Frames, Piece, Play, Shown, exercise, one_call, result_of
from minikv.course.pieces.props import up_to
from minikv.engine import World
from minikv.layers import LayerGroup
from minikv.sizing import page_waste
from minikv.testing.attempt import type_of

_HUGE = 2**62 + 1  # a float between 2**62 and 2**63 is a multiple of 512
_GIB = 2**30
_SMALL, _BYTES = st.integers(1, 12), st.one_of(up_to(300), up_to(_HUGE))


def _named(name: str, error: type[Exception], names: str) -> Play:
    """A play of one call with numbers by name, as many as a case has."""

    def play(world: World, case: Any) -> Frames:
        given = dict(zip(names.split(), case))
        caption = f"{name}({', '.join(f'{key}={value}' for key, value in given.items())})"
        yield Shown(caption, {RETURNED: result_of(lambda: world[name](**given), error)})

    return play


def _a_list(found: Any) -> Any:
    """A list as it is, and in words what is returned in its place."""
    return found if isinstance(found, list | None) else Words(type_of(found))


def play_kept(world: World, case: Any) -> Frames:
    """One call with groups of layers and a number of tokens; what the chapter says of each group is shown."""
    groups, tokens = [*case[0]], case[1]
    words = [f"(per_token={group.per_token}, window={group.window}, state={group.state})" for group in groups]
    found = world["kept_bytes"](groups, tokens)
    yield Shown(f"kept_bytes([{', '.join(words)}], {tokens})", {CALLERS.format("groups"): groups, RETURNED: found})


def _config(heads: int, size: int, layers: int, **more: Any) -> tuple[dict[str, Any]]:
    """The arguments of a call: a config with `size` numbers of the hidden state for each query head, and `more`."""
    return ({"hidden_size": heads * size, "num_attention_heads": heads, "num_hidden_layers": layers, **more},)


_full, _window = partial(LayerGroup, "full attention", 3), partial(LayerGroup, "window", 3)
_state = partial(LayerGroup, "state", 3, 0, None)
_MAYBE = st.one_of(st.none(), st.sampled_from([1, 2, 64]))
_MORE = st.fixed_dictionaries({}, optional={"num_key_value_heads": _MAYBE, "head_dim": _MAYBE})

PIECES = (
    Piece(
        "1.1",
        _named("bytes_per_token", ValueError, "layers kv_heads head_dim tp number_bytes"),
        cases=[(1, 1, 1), (1, 2, _HUGE), (1, _HUGE, 1, 2), (1, _HUGE, 1)],
        strategy=st.tuples(_SMALL, _SMALL, st.one_of(_SMALL, st.integers(1, _HUGE)), _SMALL, st.integers(1, 4)),
    ),
    Piece(
        "1.2", one_call("read_config", names="config"),
        cases=[_config(32, 128, 16, num_key_value_heads=8, head_dim=128)],
        strategy=st.builds(lambda sizes, more: _config(*sizes, **more), st.tuples(*[_SMALL] * 3), _MORE),
    ),
    Piece(
        "1.3",
        _named("pages_that_fit", MemoryError, "memory percent weights activations graphs page_bytes"),
        cases=[(100, 100, 0, 0, 0, 10), (100, 90, 40, 20, 5, 10), (100, 29, 0, 0, 0, 1),
               (80 * _GIB, 90, 16060522496, 1288490188, _GIB // 2, 2**21),
               (_HUGE, 100, 0, 0, 0, 1)],
        strategy=st.tuples(
            st.one_of(st.integers(1, 1000), st.integers(1, _HUGE)), st.integers(1, 100), _BYTES, _BYTES, _BYTES,
            st.one_of(st.integers(1, 50), st.integers(1, 2**30)),
        ),
    ),
    Piece(
        "1.4", one_call("slots_of", ValueError, names="pages page_size num_tokens", words=_a_list),
        cases=[([0], 4, 4)],
        strategy=st.tuples(st.lists(_SMALL, max_size=4, unique=True), st.integers(1, 5), up_to(16)),
    ),
    Piece(
        "1.5", play_kept,
        cases=[([_full(10)], 3), ([LayerGroup("chunk", 3, 10, 4)], 9)],
        strategy=st.tuples(
            st.lists(st.one_of(st.builds(_full, _SMALL), st.builds(_window, _SMALL, _SMALL), st.builds(_state, _SMALL)),
                     max_size=4),
            st.integers(1, 16),
        ),
    ),
)  # fmt: skip


def best_page_size(lengths: Sequence[int], sizes: Sequence[int], most_waste: float) -> int:
    """The largest of `sizes` at which sequences of these `lengths` waste at most the share `most_waste` of all slots.

    Larger pages need less bookkeeping. Raises `ValueError` if every size wastes more.

    >>> best_page_size([100, 200], [1, 16, 64, 256], most_waste=0.1)
    16
    """
    fitting = [size for size in sizes if page_waste(lengths, size).fraction <= most_waste]
    if not fitting:
        raise ValueError("every page size wastes more")
    return max(fitting)


def pages(memory: int, percent: int, taken: int, page_bytes: int) -> int:
    """Return how many pages fit in `percent` percent of the memory, minus the `taken` bytes."""
    usable = memory * percent // 100
    return (usable - taken) // page_bytes


def _nonsense(memory: Any, percent: Any, taken: Any, page_bytes: Any) -> str | None:
    """Return what is wrong with the arguments of a hunt, or None."""
    if any(type(number) is not int for number in (memory, percent, taken, page_bytes)):
        return "all four arguments must be whole numbers"
    if not 1 <= percent <= 100:
        return f"percent is {percent}: it must be from 1 to 100"
    if memory < 0 or page_bytes < 1:
        return "the memory must have at least 0 bytes, and a page at least 1 byte"
    usable = memory * percent // 100
    return None if 0 <= taken <= usable else f"taken is {taken}: it must be from 0 to {usable}, the bytes of the share"


def _praise(case: tuple[int, int, int, int]) -> str:
    memory, percent, taken, page_bytes = case
    if (int(memory * (percent / 100)) - taken) // page_bytes > pages(*case):
        return "It promises a page that isn't there!"
    return "Can you make it promise one page too many?"


EXERCISES = (
    exercise(
        "1.6", best_page_size,
        cases=[([16], [1, 16], 0.0), ([100, 200], [1, 16, 64, 256], 0.1), ([3], [1, 2, 3], 0.0),
               ([1, 2, 3, 90], [1, 8], 0.2), ([239], [1, 244], 0.02), ([7], [1, 10], 0.3),
               ([43], [1, 100], 0.57)],
        strategy=st.tuples(
            st.lists(up_to(40), max_size=4),
            st.lists(st.sampled_from([1, 2, 3, 4, 6, 8, 16, 32]), min_size=1, max_size=4, unique=True),
            st.sampled_from([0.0, 0.125, 0.25, 0.5]),
        ),
        play=one_call("best_page_size", ValueError, names="lengths sizes most_waste"),
    ),
    call_hunt(
        "1.7", "careless_pages", "a float in between", pages, praise=_praise, nonsense=_nonsense,
    ),
)  # fmt: skip

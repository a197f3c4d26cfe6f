"""The pieces of chapter 06: runs, gather, where bytes are, and whether to load or to compute."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hypothesis import strategies as st

from minikv.course.pictures import Picture, plot
from minikv.course.pictures.cells import word_rows
from minikv.course.pieces.hunt import call_hunt
from minikv.course.pieces.observer import ALL_RIGHT, RETURNED
from minikv.course.pieces.piece import Frames, Piece, Shown, called, exercise, one_call
from minikv.course.pieces.props import DEEP, each_in, listed, numbers, up_to
from minikv.course.pieces.showing import picture_of_runs
from minikv.engine import World
from minikv.testing.attempt import short_repr

SPARE = "spare"
MOST = 24  # rows or boxes of a picture
_LETTERS = "abcdefghijklmnopqrstuvwxyz"


def play_runs(world: World, case: Sequence[Any]) -> Frames:
    """Find the runs of some slots, each of which is a digit; whether a run is a tuple or a list is left open."""
    slots = numbers(case)
    shown = called(world, "runs", slots=list(slots), words=each_in(_pair))
    yield shown._replace(picture=picture_of_runs(slots[:MOST], shown.things[RETURNED]))


def _pair(run: Any) -> Any:
    return tuple(run) if isinstance(run, list) else run


def play_gather(world: World, runs: list[tuple[int, int]]) -> Frames:
    """Gather some runs of a tensor in which each row holds the number of its slot."""
    import torch  # which `given` has loaded, without a limit of time

    rows, room = torch.arange(12)[:, None].repeat(1, 2), torch.full((16, 2), -1)
    shown = called(world, "gather", rows=rows, found=list(runs), room=room)
    homes = {home.untyped_storage().data_ptr(): f"a part of {name}" for name, home in (("rows", rows), ("room", room))}
    result, memory = shown.things[RETURNED], ""
    if isinstance(result, torch.Tensor) and len(result):
        memory = homes.get(result.untyped_storage().data_ptr(), "new")
    things = {name: _slots_in(value) for name, value in shown.things.items()}
    yield shown._replace(things={RETURNED: things[RETURNED], "the memory of the result": memory, **things})


def _slots_in(rows: Any) -> Any:
    """The number that each row of two holds; what has no such rows as it is."""
    is_whole = hasattr(rows, "dim") and rows.dim() == 2 and rows.shape[1] == 2 and rows[:, 0].equal(rows[:, 1])
    return rows[:, 0].numpy() if is_whole else rows


def play_moves(world: World, case: Sequence[Sequence[Any]]) -> Frames:
    """Make the moves on slots that hold letters, and count them; each slot is a digit."""
    src, dst = map(numbers, case)
    cells = _LETTERS[: max([0, *src, *dst]) + 1]
    shown = called(world, "moves", src=src, dst=dst)
    found, picture, places = shown.things[RETURNED], None, (*range(len(cells)), SPARE)
    if isinstance(found, list | tuple) and all(_is_move(move, places) for move in found):
        picture = picture_of_moves(cells, found)
        seen = {
            RETURNED: ALL_RIGHT,
            f"the letters {cells} become": moved(cells, found),
            "the number of moves": len(found),
        }
    else:
        seen = {RETURNED: f"return a list of pairs (from, to) of the slots {places}, not {short_repr(found)}"}
    yield shown._replace(things={**shown.things, **seen}, picture=picture)


def _is_move(move: Any, places: Sequence[Any]) -> bool:
    return isinstance(move, list | tuple) and len(move) == 2 and all(place in places for place in move)


def picture_of_moves(cells: str, moves: Any) -> Picture:
    """Return a picture of what the slots hold at first and after each move, with the spare slot if it is used.

    >>> picture_of_moves("ab", [(0, "spare"), (1, 0)])
                0  1  spare
    at first    a  b  -
    0 to spare  a  b  a
    1 to 0      b  b  a
    """
    held: dict[Any, str] = dict(enumerate(cells)) | ({SPARE: ""} if any(SPARE in move for move in moves) else {})
    rows = [("at first", list(held.values()))]
    for at, to in moves[:MOST]:
        held[to] = held.get(at, "?")
        rows.append((f"{at} to {to}", list(held.values())))
    return word_rows(rows, heads=list(map(str, held)))


def moved(cells: str, moves: Any) -> str:
    """Return the letters in the slots after some moves; "?" is what nothing was moved to.

    >>> moved("ab", [(0, "spare"), (1, 0), ("spare", 1)])
    'ba'
    """
    held: dict[Any, str] = dict(enumerate(cells))
    for at, to in moves:
        held[to] = held.get(at, "?")
    return "".join(held[slot] for slot in range(len(cells)))


def pictures_of_copies(figures: Mapping[str, Any]) -> list[Picture]:
    """Return for each device a chart of the times of two ways to copy, against one memcpy; `figures` are copy.json.

    >>> import json
    >>> from minikv import asset
    >>> len(pictures_of_copies(json.loads(asset("copy.json").read_text("utf-8")))) > 0
    True
    """
    shown = {"one gather, one scatter": "gather", "KVStore.copy": "KVStore.copy"}
    pictures = []
    for device, found in figures.items():
        lines = {
            f"{shown[way['name']]}, {way['layout']}": [at["median"] for at in way["to_memcpy"]]
            for way in found["results"]
            if way["name"] in shown
        }
        title = f"{device}: a copy, against one memcpy"
        pictures.append(plot(title, {"tokens": found["tokens"]}, lines, "times as long", log="x"))
    return pictures


def play_load_or_compute(world: World, case: tuple[Any, ...]) -> Frames:
    """Make one decision, with both times in the caption."""
    tokens, size, link, dense, attention, speed, *rest = case
    load, compute = sum(rest) + tokens * size / link, (tokens * dense + tokens**2 * attention) / speed
    names = "num_tokens", "token_bytes", "link", "token_flops", "attention_flops", "speed", "latency"
    given = ", ".join(f"{name}={value:g}" for name, value in zip(names, case))
    caption = f"load_or_compute({given}), where loading takes {load:.4g} s and computing {compute:.4g} s,"
    yield Shown(caption, {RETURNED: world["load_or_compute"](*case)})


_PAIRS = st.lists(st.tuples(up_to(6), up_to(6)), max_size=6, unique_by=lambda pair: pair[1])
_MOVES = _PAIRS.map(lambda found: ([source for source, _ in found], [target for _, target in found]))
_SMALL, _POWER = up_to(6), st.sampled_from([1, 2, 4])  # with powers of 2 to divide by, no rounding decides
_LLAMA = (16.06e9, 262144, 400e12)  # FLOPs

PIECES = (
    Piece(
        "6.1", play_runs,
        cases=["4", "4561", [1000, 1001], range(DEEP)],
        strategy=st.text("0123456", max_size=8),
    ),
    Piece(
        "6.2", play_gather,
        cases=[[(4, 3)]],
        strategy=st.lists(st.tuples(up_to(8), st.integers(1, 4)), max_size=4),
    ),
    Piece(
        "6.3", one_call("boxes", names="layout slots num_layers num_slots", words=listed),
        cases=[("page", [0], 1, 3)],
        strategy=st.tuples(st.sampled_from(["page", "layer"]),
                           st.lists(up_to(6), max_size=4, unique=True), st.integers(1, 3), st.just(7)),
    ),
    Piece(
        "6.4", play_load_or_compute,
        cases=[(1, 1, 1, 2, 0, 1), (1, 3, 2, 1, 1, 1), (4, 1, 1, 2, 0, 1, 4),
               (4, 1000, 1000, 1001, 0, 1000, 8), (8000, 131072, 3e9, *_LLAMA),
               (1, 131072, 50e9, *_LLAMA)],
        strategy=st.tuples(_SMALL, _SMALL, _POWER, _SMALL, _SMALL, _POWER, _SMALL),
    ),
)  # fmt: skip


def moves(src: Sequence[Any], dst: Sequence[Any]) -> list[tuple[Any, Any]]:
    """Return the fewest moves, (from, to) each, that copy `src` to `dst` as if everything were read at once.

    A slot that must be saved is moved to "spare", the one spare slot, and on from it.

    >>> moves([0, 1], [1, 0])
    [(1, 'spare'), (0, 1), ('spare', 0)]
    """
    comes_from = {to: at for at, to in zip(src, dst) if at != to}
    order = []
    while comes_from:
        ready = [slot for slot in comes_from if slot not in comes_from.values()]
        if ready:
            to = ready[0]
            at = comes_from.pop(to)
        else:
            at, to = next(iter(comes_from)), "spare"
        order.append((at, to))
        for reader in comes_from:
            if comes_from[reader] == at:
                comes_from[reader] = to
    return order


Run = tuple[int, int, int]


def copies(src: Sequence[int], dst: Sequence[int]) -> list[Run]:
    """Return the copies of whole runs, in order, that copy slots `src` to `dst`: first slots of both, and the length.

    A run grows while the next slot is the next neighbor in both lists.

    >>> copies([4, 5, 6, 1], [0, 1, 2, 3])
    [(4, 0, 3), (1, 3, 1)]
    """
    found: list[Run] = []
    for source, target in zip(src, dst):
        if found:
            start, to, length = found[-1]
            if (source, target) == (start + length, to + length):
                found[-1] = (start, to, length + 1)
                continue
        found.append((source, target, 1))
    return found


def copied(cells: Sequence[str], src: Sequence[int], dst: Sequence[int]) -> list[str]:
    """Return `cells` after copying `src` to `dst`, as if everything were read before anything is written.

    Raises `ValueError` where that means nothing: a place that is not there or written twice, or lists of two lengths.

    >>> copied(["a", "b", "c"], [0, 1], [1, 0])
    ['b', 'a', 'c']
    """
    if len(src) != len(dst) or len(set(dst)) < len(dst):
        raise ValueError("src and dst must be equally long, and no place may be written twice")
    if not all(0 <= place < len(cells) for place in (*src, *dst)):
        raise ValueError(f"places go from 0 to {len(cells) - 1}")
    after = list(cells)
    for source, target in zip(src, dst):
        after[target] = cells[source]
    return after


def _advice(case: tuple[list[str], list[int], list[int]]) -> str | None:
    """Return a hint about what a harmless call lacks."""
    try:
        copied(*case)
    except (TypeError, ValueError):
        return "this call is not valid: give as many sources as destinations, all within the cells, none written twice"
    _, src, dst = case
    pieces = copies(src, dst)
    if len(pieces) < 2:
        return "a single run is read whole before it is written: you need two runs"
    written: set[int] = set()
    for start, to, length in pieces:
        if written & set(range(start, start + length)):
            return "a cell that is overwritten too early must differ from what overwrites it: use different cells"
        written |= set(range(to, to + length))
    return "a later run must read a place that an earlier run has written"


EXERCISES = (
    exercise(
        "6.5", moves,
        cases=[("0", "1"), ("01", "10"), ("00", "12"), ("0123", "1032")],
        strategy=_MOVES,
        play=play_moves,
    ),
    exercise(
        "6.6", copies,
        cases=[([], []), ([3], [7]), ([4, 5, 6, 1], [0, 1, 2, 3])],
        strategy=_MOVES,
    ),
    call_hunt(
        "6.7", "careless_copied", "each run is read as a whole", copied, advice=_advice,
    ),
)  # fmt: skip

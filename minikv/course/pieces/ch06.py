"""The pieces of chapter 06: where bytes are, runs, gather, moves that overlap, and whether to load or to compute."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hypothesis import strategies as st

from minikv.course.pictures import Picture
from minikv.course.pictures.cells import word_rows
from minikv.course.pieces.hunt import call_hunt
from minikv.course.pieces.identity import ALL_RIGHT
from minikv.course.pieces.observe import DEEP, kind_of, listed
from minikv.course.pieces.piece import CaseFrame, Frames, Piece, exercise, one_call
from minikv.course.pieces.showing import picture_of_runs
from minikv.engine import World, ours
from minikv.testing.snapshot import shorten

SPARE = "spare"
MOST = 24  # rows or boxes of a picture
_LETTERS = "abcdefghijklmnopqrstuvwxyz"


def play_runs(world: World, slots: list[int]) -> Frames:
    """Find the runs of some slots."""
    given = list(slots)
    found = world["runs"](given)
    seen = {"what is returned": listed(found), "the slots, which must not change": given}
    said = f"runs({slots})" if len(slots) <= MOST else f"runs of {shorten(slots)}"
    yield CaseFrame(said, seen, picture_of_runs(slots[:MOST], found))


def play_gather(world: World, case: Any) -> Frames:
    """Gather some runs of a tensor in which each row holds the number of its slot."""
    import torch  # which `given` has loaded, without a limit of time

    found, width = case
    rows = torch.arange(12)[:, None].repeat(1, width)
    room, given = torch.full((16, width), -1), list(found)
    result = world["gather"](rows, given, room)
    is_tensor, start = isinstance(result, torch.Tensor), [rows[first] for first, _ in found[:1]]
    where = "a new tensor"
    for name, place in (("a slice of rows", start[0] if len(found) == 1 else None), ("a slice of room", room)):
        if is_tensor and place is not None and result.data_ptr() == place.data_ptr():
            where = name
    seen = {
        "what is returned": result[:, 0].tolist() if is_tensor and result.dim() == 2 else kind_of(result),
        "its shape": list(result.shape) if is_tensor else None,
        "what it is": where if is_tensor and len(result) else "",
        "the rows, which must not change": rows[:, -1].tolist(), "room afterwards": room[:, -1].tolist(),
        "the runs, which must not change": given,
    }  # fmt: skip
    yield CaseFrame(f"gather(rows, {found}, room), where each row holds the number of its slot", seen)


def play_moves(world: World, case: tuple[list[int], list[int]]) -> Frames:
    """Make the moves on slots that hold letters, and count them."""
    src, dst = case
    given = list(src), list(dst)
    cells = _LETTERS[: max([0, *src, *dst]) + 1]
    found, fewest = world["moves"](*given), len(ours("6.2", {})(src, dst))
    wrong = wrong_in(found, len(cells))
    count = 0 if wrong else len(found)
    held = "" if wrong else moved(cells, found)
    lost = [letter for letter in copied(cells, src, dst) if held and letter not in held][:1]
    seen = {
        "the moves": ALL_RIGHT if wrong is None else wrong,
        "what the slots hold": held + "".join(f" ({it} was overwritten while it was still needed)" for it in lost),
        "how many": ALL_RIGHT if count <= fewest else f"too many moves, {count} where {fewest} would do",
        "src and dst, which must not change": given,
    }
    yield CaseFrame(
        f"moves({src}, {dst}), made on the letters {cells}", seen, None if wrong else picture_of_moves(cells, found)
    )


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
        held[to] = held[at]
        rows.append((f"{at} to {to}", list(held.values())))
    return word_rows(rows, heads=list(map(str, held)))


def wrong_in(moves: Any, slots: int) -> str | None:
    """Return what is wrong with some moves, whatever their result, or `None`.

    >>> wrong_in([(0, "spare"), (1, 0), ("spare", 1)], slots=2), wrong_in([("spare", 0)], slots=2)
    (None, "move 0 takes from 'spare', and nothing has been saved there yet")
    """
    if moves is None:
        return "nothing is returned (did you forget to return the list?)"
    if not isinstance(moves, (list, tuple)):
        return f"return a list of moves, not a {type(moves).__name__}"
    places, is_saved = [*range(slots), SPARE], False
    for number, move in enumerate(moves):
        if not isinstance(move, (list, tuple)) or len(move) != 2 or not all(place in places for place in move):
            return (
                f"move {number} is {move!r:.40}: make it a pair (from, to), of the slots 0 to {slots - 1} and 'spare'"
            )
        if move[0] == SPARE and not is_saved:
            return f"move {number} takes from 'spare', and nothing has been saved there yet"
        is_saved = is_saved or move[1] == SPARE
    return None


def moved(cells: str, moves: Any) -> str:
    """Return the letters in the slots after some moves.

    >>> moved("ab", [(0, "spare"), (1, 0), ("spare", 1)])
    'ba'
    """
    held: dict[Any, str] = dict(enumerate(cells))
    for at, to in moves:
        held[to] = held[at]
    return "".join(held[slot] for slot in range(len(cells)))


def play_load_or_compute(world: World, case: tuple[Any, ...]) -> Frames:
    """Make one decision, with both times in the caption."""
    tokens, size, link, dense, attention, speed, *rest = case
    load, compute = sum(rest) + tokens * size / link, (tokens * dense + tokens**2 * attention) / speed
    wait = f", latency {rest[0]}" if rest else ""
    asked = f"num_tokens {tokens}, token_bytes {size}, link {link:g}{wait}, token_flops {dense:g}"
    asked += f", attention_flops {attention:g}, speed {speed:g}"
    caption = f"{asked}: loading takes {load:.4g} s, computing {compute:.4g} s"
    yield CaseFrame(caption, {"what is returned": world["load_or_compute"](*case)})


_SLOT, _POWER = st.integers(0, 6), st.sampled_from([1, 2, 4])
_PAIRS = st.lists(st.tuples(_SLOT, _SLOT), max_size=6, unique_by=lambda pair: pair[1])
_MOVES = _PAIRS.map(lambda found: ([source for source, _ in found], [target for _, target in found]))
_SMALL = st.integers(0, 6)  # with powers of 2 to divide by, no rounding decides
_LLAMA = (131072, 3e9, 16.06e9, 262144, 400e12)

_LAYOUTS = st.sampled_from(["page", "layer"])
_RUNS = st.lists(st.tuples(st.integers(0, 8), st.integers(1, 4)), max_size=4)

PIECES = (
    Piece(
        "6.6", "boxes", one_call("boxes", words=listed),
        cases=[("page", [0], 1, 3), ("layer", [0], 1, 3), ("page", [2], 2, 4), ("layer", [2], 2, 4),
               ("page", [3, 1], 2, 5), ("layer", [3, 1], 2, 5), ("layer", [2, 3], 3, 4), ("page", [2, 3], 3, 4),
               ("page", [], 2, 4)],
        strategy=st.tuples(_LAYOUTS, st.lists(st.integers(0, 6), max_size=4, unique=True), st.integers(1, 3),
                           st.just(7)),
    ),
    Piece(
        "6.1", "runs", play_runs,
        cases=[[4], [4, 5], [4, 5, 6], [4, 5, 6, 1], [], [5, 4], [2, 2], [1000, 1001], list(range(DEEP))],
        strategy=st.lists(_SLOT, max_size=8),
    ),
    Piece(
        "6.7", "gather", play_gather,
        cases=[([(4, 3)], 2), ([(4, 3), (1, 1)], 2), ([(1, 1), (4, 3)], 2), ([], 1), ([(0, 2), (2, 2), (8, 4)], 3),
               ([(2, 1), (2, 1)], 1)],
        strategy=st.tuples(_RUNS, st.integers(1, 2)),
    ),
    Piece(
        "6.2", "moves", play_moves,
        cases=[([0], [1]), ([2], [2]), ([0, 1, 2], [1, 2, 3]), ([1, 2, 3], [0, 1, 2]), ([0, 1], [1, 0]),
               ([0, 0], [1, 2]), ([0, 1, 2, 3], [1, 0, 3, 2]), ([0, 1, 0], [1, 0, 2])],
        strategy=_MOVES,
    ),
    Piece(
        "6.3", "load_or_compute", play_load_or_compute,
        cases=[(1, 1, 1, 2, 0, 1), (1, 3, 2, 1, 1, 1), (4, 4, 1, 1, 1, 1), (4, 2, 1, 1, 1, 1), (4, 1, 1, 2, 0, 1, 4),
               (4, 1, 1, 2, 0, 1, 3), (4, 1, 1, 2, 0, 1, 5), (1, 1, 16, 2, 0, 1), (4, 1000, 1000, 1001, 0, 1000, 8),
               (2, 8, 1, 3, 4, 4), (1000, *_LLAMA), (8000, *_LLAMA),
               (1, 131072, 50e9, *_LLAMA[2:])],
        strategy=st.tuples(_SMALL, _SMALL, _POWER, _SMALL, _SMALL, _POWER, _SMALL),
    ),
)  # fmt: skip


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
        raise ValueError("src and dst are as long, and no place is written twice")
    if not all(0 <= place < len(cells) for place in (*src, *dst)):
        raise ValueError(f"the places are 0 to {len(cells) - 1}")
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
        return "one run is read whole before it is written: you need two runs"
    written: set[int] = set()
    for start, to, length in pieces:
        if written & set(range(start, start + length)):
            return "a cell that is overwritten too early must differ from what overwrites it: give other cells"
        written |= set(range(to, to + length))
    return "a later run must read a place that an earlier run has written"


EXERCISES = (
    exercise(
        "6.4", "copies", copies,
        cases=[([], []), ([3], [7]), ([0, 1], [4, 5]), ([0, 1], [4, 6]), ([0, 2], [4, 5]), ([0, 2], [4, 6]),
               ([1, 0], [5, 4]), ([4, 5, 6, 1], [0, 1, 2, 3])],
        strategy=_MOVES,
    ),
    call_hunt(
        "6.5", "careless_copied", "each run is read as a whole", copied, advice=_advice,
    ),
)  # fmt: skip

"""The exercises of chapter 06: copies of whole runs, and a copy that overwrites its source."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import strategies as st

from minikv.course.exercises.exercise import Exercise, Hunt, Wrong

Run = tuple[int, int, int]
_Case = tuple[list[str], list[int], list[int]]


def copies(src: Sequence[int], dst: Sequence[int]) -> list[Run]:
    """The copies of whole runs, in order, that copy slots `src` to slots `dst`: where from, where to, how many slots.

    A run goes on while the next slot is the next neighbour in both.

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
    """`cells` after copying `src` to `dst`, as if all were read before anything is written.

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


def careless_copied(cells: Sequence[str], src: Sequence[int], dst: Sequence[int]) -> list[str]:
    """The same run by run; each run is read as a whole before it is written."""
    after = list(cells)
    for start, to, length in copies(src, dst):
        after[to : to + length] = after[start : start + length]
    return after


def _source_alone(src: Sequence[int], dst: Sequence[int]) -> list[Run]:
    found: list[Run] = []
    for source, target in zip(src, dst):
        if found and source == found[-1][0] + found[-1][2]:
            start, to, length = found.pop()
            found.append((start, to, length + 1))
        else:
            found.append((source, target, 1))
    return found


def _target_alone(src: Sequence[int], dst: Sequence[int]) -> list[Run]:
    return [(start, to, length) for to, start, length in _source_alone(dst, src)]


def _last_one_lost(src: Sequence[int], dst: Sequence[int]) -> list[Run]:
    return copies(src, dst)[:-1]


def _ends(src: Sequence[int], dst: Sequence[int]) -> list[Run]:
    return [(start, to, start + length) for start, to, length in copies(src, dst)]


def _last_place(src: Sequence[int], dst: Sequence[int]) -> list[Run]:
    return [(start, to, length - 1) for start, to, length in copies(src, dst)]


def _sorted_first(src: Sequence[int], dst: Sequence[int]) -> list[Run]:
    pairs = sorted(zip(src, dst))
    return copies([source for source, _ in pairs], [target for _, target in pairs])


def _sorted_last(src: Sequence[int], dst: Sequence[int]) -> list[Run]:
    return sorted(copies(src, dst))


def _one_longer_at_most(src: Sequence[int], dst: Sequence[int]) -> list[Run]:
    """Asks whether the slot is next to the run's first, not to its last."""
    found: list[Run] = []
    for source, target in zip(src, dst):
        if found and (source, target) == (found[-1][0] + 1, found[-1][1] + 1):
            start, to, length = found.pop()
            found.append((start, to, length + 1))
        else:
            found.append((source, target, 1))
    return found


def _downwards_too(src: Sequence[int], dst: Sequence[int]) -> list[Run]:
    found: list[Run] = []
    for source, target in zip(src, dst):
        if found and abs(source - found[-1][0]) == found[-1][2] == abs(target - found[-1][1]):
            start, to, length = found.pop()
            found.append((start, to, length + 1))
        else:
            found.append((source, target, 1))
    return found


def _target_first(src: Sequence[int], dst: Sequence[int]) -> list[Run]:
    return [(to, start, length) for start, to, length in copies(src, dst)]


def _without_lengths(src: Sequence[int], dst: Sequence[int]) -> list[tuple[int, int]]:
    return [(start, to) for start, to, _ in copies(src, dst)]


def _none_is_an_error(src: Sequence[int], dst: Sequence[int]) -> list[Run]:
    return [(src[0], dst[0], copies(src, dst)[0][2]), *copies(src, dst)[1:]]


def _one_by_one(src: Sequence[int], dst: Sequence[int]) -> list[Run]:
    return [(source, target, 1) for source, target in zip(src, dst)]


def _same_distance(src: Sequence[int], dst: Sequence[int]) -> list[Run]:
    """Goes on while both are as far apart as before, even if slots lie in between."""
    found: list[Run] = []
    for source, target in zip(src, dst):
        if found and target - source == found[-1][1] - found[-1][0]:
            start, to, length = found.pop()
            found.append((start, to, length + 1))
        else:
            found.append((source, target, 1))
    return found


def _one_run() -> _Case:
    return ["a", "b", "c", "d"], [0, 1, 2], [1, 2, 3]


def _apart() -> _Case:
    return ["a", "b", "c", "d"], [0, 2], [1, 3]


def _read_before() -> _Case:
    return ["a", "b", "c", "d"], [0, 3], [1, 0]


def _written_twice() -> _Case:
    return ["a", "b", "c", "d"], [0, 2], [1, 1]


def _advice(case: _Case) -> str | None:
    """A hint for a call that does no harm: what it has not got yet."""
    try:
        copied(*case)
    except (TypeError, ValueError):
        return "fix the call first: cells, then as many sources as destinations, all of them there, none written twice"
    _, src, dst = case
    pieces = copies(src, dst)
    if len(pieces) < 2:
        return "one run is read whole before it is written: you need two runs"
    written: set[int] = set()
    for start, to, length in pieces:
        if written & set(range(start, start + length)):
            return "what is overwritten before it is read must differ from what overwrites it: give other cells"
        written |= set(range(to, to + length))
    return "a later run must read a place that an earlier run has written"


_SLOTS = st.integers(0, 5)


def _copies() -> st.SearchStrategy[tuple[list[int], list[int]]]:
    pairs = st.lists(st.tuples(_SLOTS, _SLOTS), max_size=6, unique_by=lambda pair: pair[1])
    return pairs.map(lambda found: ([source for source, _ in found], [target for _, target in found]))


EXERCISES = (
    Exercise(
        id="6.4",
        name="copies",
        reference=copies,
        cases=[([], []), ([3], [7]), ([0, 1], [4, 5]), ([0, 1], [4, 6]), ([0, 2], [4, 5]), ([0, 2], [4, 6]),
               ([1, 0], [5, 4]), ([4, 5, 6, 1], [0, 1, 2, 3]), ([7, 8, 2, 3], [2, 3, 0, 1])],
        strategy=_copies(),
        hint="keep the run that is open; the next neighbours in both make it longer, others open one",
        wrong=(
            Wrong(_source_alone, "the run ends where the destination jumps, too"),
            Wrong(_target_alone, "the run ends where the source jumps, too"),
            Wrong(_last_one_lost, "the run that is open at the end is a run as well"),
            Wrong(_ends, "the third number is how many slots, not where the run ends"),
            Wrong(_last_place, "count the first slot too: a run of one slot has length 1"),
            Wrong(_sorted_first, "keep the order in which the slots were given"),
            Wrong(_sorted_last, "keep the order in which the slots were given"),
            Wrong(_one_longer_at_most, "a run of three goes on too: what comes next is start + length, not start + 1"),
            Wrong(_downwards_too, "neighbours go upwards: slot 0 behind slot 1 opens a run of its own"),
            Wrong(_target_first, "the first number is the slot to read, the second the one to write"),
            Wrong(_without_lengths, "the third number of a run is how many slots it has"),
            Wrong(_none_is_an_error, "without slots there are no runs: begin with an empty list"),
            Wrong(_one_by_one, "neighbours go together: slots 0 and 1 to slots 4 and 5 are one run of 2"),
            Wrong(_same_distance, "as far apart as before is not enough: slots 0 and 2 are not neighbours"),
        ),
    ),
    Hunt(
        id="6.5",
        name="careless_copied",
        careless=careless_copied,
        reference=copied,
        example=(["a", "b", "c", "d"], [0, 2], [2, 1]),
        hint="a later run must read a place that an earlier run has written",
        advice=_advice,
        wrong=(
            Wrong(_one_run, "a run that overlaps itself is copied correctly: it is read whole first. Take two runs"),
            Wrong(_apart, "nothing here is both read and written"),
            Wrong(_read_before, "the place is read first and written later, which is right: reverse the order"),
            Wrong(_written_twice, "a place that is written twice has no right answer"),
        ),
    ),
)  # fmt: skip

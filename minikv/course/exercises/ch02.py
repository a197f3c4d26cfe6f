"""The exercises of chapter 02: pools that cannot be talked into giving a slot to two owners."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from hypothesis import strategies as st

from minikv.course.exercises.exercise import Exercise, Hunt, Wrong
from minikv.course.exercises.judge import Script


def audit(size: int, free: Sequence[int], rows: Sequence[Sequence[int]]) -> tuple[list[int], list[int]]:
    """The slots of a pool that are lost, and those that are there more than once; both sorted.

    A slot is there once for each time that it is in `free` or in one of the `rows`.

    >>> audit(4, free=[3], rows=[[0, 1], [1]])
    ([2], [1])
    """
    times = Counter([*free, *(slot for row in rows for slot in row)])
    return [slot for slot in range(size) if not times[slot]], sorted(slot for slot in times if times[slot] > 1)


class Bitmask:
    """A pool of single slots as the bits of a number, with `occupy` to take one particular slot back."""

    def __init__(self, size: int):
        self.size = size
        self.mask = (1 << size) - 1

    @property
    def num_free(self) -> int:
        """How many slots are free."""
        return self.mask.bit_count()

    def is_free(self, slot: int) -> bool:
        """Whether `slot` is free; `ValueError` for one that the pool does not have."""
        if not 0 <= slot < self.size:
            raise ValueError(f"there is no slot {slot}: this pool has slots 0 to {self.size - 1}")
        return bool(self.mask >> slot & 1)

    def alloc(self) -> int | None:
        """Take the lowest free slot; `None` if there is none."""
        if not self.mask:
            return None
        slot = (self.mask & -self.mask).bit_length() - 1
        self.mask &= ~(1 << slot)
        return slot

    def free(self, slot: int) -> None:
        """Give a slot back; `ValueError` if it is free already."""
        if self.is_free(slot):
            raise ValueError(f"slot {slot} is free already")
        self.mask |= 1 << slot

    def occupy(self, slot: int) -> None:
        """Take this particular slot; `ValueError` if it is in use."""
        if not self.is_free(slot):
            raise ValueError(f"slot {slot} is in use")
        self.mask &= ~(1 << slot)


class CarelessBitmask(Bitmask):
    """The same, with one careless line: it flips the bit instead of clearing it, and asks nothing."""

    def occupy(self, slot: int) -> None:
        """Take this particular slot."""
        self.mask ^= 1 << slot


Lists = tuple[list[int], list[int]]


def _shared_by_rows(size: int, free: Sequence[int], rows: Sequence[Sequence[int]]) -> Lists:
    lost, _ = audit(size, free, rows)
    return lost, audit(size, [], rows)[1]


def _free_and_held(size: int, free: Sequence[int], rows: Sequence[Sequence[int]]) -> Lists:
    lost, _ = audit(size, free, rows)
    return lost, sorted(set(free) & {slot for row in rows for slot in row})


def _each_row_once(size: int, free: Sequence[int], rows: Sequence[Sequence[int]]) -> Lists:
    return audit(size, sorted(set(free)), [sorted(set(row)) for row in rows])


def _not_free(size: int, free: Sequence[int], rows: Sequence[Sequence[int]]) -> Lists:
    held = {slot for row in rows for slot in row}
    return [slot for slot in range(size) if slot not in held], audit(size, free, rows)[1]


def _the_other_way_round(size: int, free: Sequence[int], rows: Sequence[Sequence[int]]) -> Lists:
    lost, shared = audit(size, free, rows)
    return shared, lost


def _once_for_each_time(size: int, free: Sequence[int], rows: Sequence[Sequence[int]]) -> Lists:
    every, seen, shared = [*free, *(slot for row in rows for slot in row)], set[int](), list[int]()
    for slot in every:
        if slot in seen:
            shared.append(slot)
        seen.add(slot)
    return audit(size, free, rows)[0], sorted(shared)


def _as_they_come(size: int, free: Sequence[int], rows: Sequence[Sequence[int]]) -> Lists:
    times = Counter([*free, *(slot for row in rows for slot in row)])
    return audit(size, free, rows)[0], [slot for slot in times if times[slot] > 1]


def _without_slot_0(size: int, free: Sequence[int], rows: Sequence[Sequence[int]]) -> Lists:
    lost, shared = audit(size, free, rows)
    return [slot for slot in lost if slot], shared


def _audits(draw: Any) -> Any:
    size = draw(st.integers(1, 5))
    slots = st.lists(st.integers(0, size - 1), max_size=4)
    return size, draw(slots), draw(st.lists(slots, max_size=3))


def _advice(script: Script) -> str:
    """A hint for a script that does no harm: what it does not do yet."""
    if "occupy" not in [verb for verb, _ in script.operations]:
        return "the careless line is in occupy, so call it"
    return "occupying a slot that is free works: what if somebody has it?"


def _no_harm() -> Script:
    return Script((2,), (("alloc", ()), ("free", (0,)), ("occupy", (0,)), ("alloc", ())))


def _not_occupied() -> Script:
    return Script((2,), (("alloc", ()), ("free", (0,))))


EXERCISES = (
    Exercise(
        id="2.4",
        name="audit",
        reference=audit,
        cases=[(2, [0, 1], []), (2, [1], [[0]]), (2, [1], []), (3, [0], [[1], [2, 1]]), (2, [0, 1], [[1]]),
               (3, [2, 2], [[0], [1]]), (8, [], [[0, 1, 2, 3, 4, 5, 6], [7, 7, 7]]), (3, [2, 1], [[2], [1], [0]]),
               (1, [], [])],
        strategy=st.composite(_audits)(),
        hint="count how often each slot is in the free list and in the rows together: once is right",
        wrong=(
            Wrong(_shared_by_rows, "a slot that is free and in a row is there twice, and so is one that is free twice"),
            Wrong(_free_and_held, "two rows may share a slot, too, and a slot may be free twice"),
            Wrong(_each_row_once, "one row may have the same slot many times: that is how this chapter began"),
            Wrong(_not_free, "a slot that is free is not lost"),
            Wrong(_the_other_way_round, "the lost slots come first"),
            Wrong(_once_for_each_time, "name each slot once, however often it is there"),
            Wrong(_as_they_come, "sort both lists"),
            Wrong(_without_slot_0, "slot 0 can be lost like any other"),
        ),
    ),
    Hunt(
        id="2.5",
        name="CarelessBitmask",
        careless=CarelessBitmask,
        reference=Bitmask,
        example=Script((2,), (("alloc", ()), ("occupy", (0,)), ("alloc", ()))),
        observe="num_free",
        hint="flip a bit that is in use, and see what the next alloc hands out",
        advice=_advice,
        wrong=(
            Wrong(_no_harm, "occupying a slot that is free works: what if somebody has it?"),
            Wrong(_not_occupied, "the careless line is in occupy, so call it"),
        ),
    ),
)  # fmt: skip

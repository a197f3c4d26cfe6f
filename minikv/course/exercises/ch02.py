"""The exercises of chapter 02: pools that cannot be talked into giving a slot to two owners."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hypothesis import strategies as st

from minikv.course.exercises.exercise import Exercise, Hunt, Wrong
from minikv.course.exercises.judge import Script


def first_wrong(slots: Sequence[int], free: Sequence[int], size: int) -> int | None:
    """The first of `slots` that must not be freed in a pool of `size` slots, of which `free` are free; else `None`.

    A slot is wrong if the pool does not have it, if it is free already, or if it is in `slots` before.

    >>> first_wrong([3, 1, 3], free=[0], size=4)
    3
    """
    seen: set[int] = set()
    for slot in slots:
        if not 0 <= slot < size or slot in free or slot in seen:
            return slot
        seen.add(slot)
    return None


class Pool:
    """A stack of free slots: `alloc(n)` gives n slots or raises `MemoryError`; `free(slots)` all or `ValueError`.

    The lowest slots go first from a new pool, and what was freed last goes first after that.
    """

    def __init__(self, size: int):
        self.size = size
        self._free = list(range(size - 1, -1, -1))

    @property
    def num_free(self) -> int:
        """How many slots are free."""
        return len(self._free)

    def is_free(self, slot: int) -> bool:
        """Whether `slot` is free."""
        return slot in self._free

    def alloc(self, n: int) -> list[int]:
        """Take `n` slots off the stack, or none."""
        if n > len(self._free):
            raise MemoryError(f"{n} slots asked for, {len(self._free)} free")
        return [self._free.pop() for _ in range(n)]

    def free(self, slots: Sequence[int]) -> None:
        """Push `slots` back, last one first, or none."""
        if first_wrong(slots, self._free, self.size) is not None:
            raise ValueError(f"{slots} cannot be freed")
        self._free.extend(reversed(slots))


class Bitmask:
    """A pool of single slots as the bits of a number, with `occupy` to take one particular slot back. It is right."""

    def __init__(self, size: int):
        self.size = size
        self._mask = (1 << size) - 1

    @property
    def num_free(self) -> int:
        """How many slots are free."""
        return self._mask.bit_count()

    def is_free(self, slot: int) -> bool:
        """Whether `slot` is free."""
        return bool(self._mask >> slot & 1)

    def alloc(self) -> int | None:
        """Take the lowest free slot; `None` if there is none."""
        if not self._mask:
            return None
        slot = (self._mask & -self._mask).bit_length() - 1
        self._mask &= ~(1 << slot)
        return slot

    def free(self, slot: int) -> None:
        """Give a slot back; `ValueError` if it is free already."""
        if self.is_free(slot):
            raise ValueError(f"slot {slot} is free already")
        self._mask |= 1 << slot

    def occupy(self, slot: int) -> None:
        """Take this particular slot; `ValueError` if it is in use."""
        if not self.is_free(slot):
            raise ValueError(f"slot {slot} is in use")
        self._mask &= ~(1 << slot)


class CarelessBitmask(Bitmask):
    """The same, with one careless line: it flips the bit instead of clearing it, and asks nothing."""

    def occupy(self, slot: int) -> None:
        """Take this particular slot."""
        self._mask ^= 1 << slot


def _only_free_ones(slots: Sequence[int], free: Sequence[int], size: int) -> int | None:
    return next((slot for slot in slots if slot in free), None)


def _not_twice(slots: Sequence[int], free: Sequence[int], size: int) -> int | None:
    return next((slot for slot in slots if not 0 <= slot < size or slot in free), None)


def _off_by_one(slots: Sequence[int], free: Sequence[int], size: int) -> int | None:
    seen: set[int] = set()
    for slot in slots:
        if not 0 <= slot <= size or slot in free or slot in seen:
            return slot
        seen.add(slot)
    return None


def _negative(slots: Sequence[int], free: Sequence[int], size: int) -> int | None:
    seen: set[int] = set()
    for slot in slots:
        if slot >= size or slot in free or slot in seen:
            return slot
        seen.add(slot)
    return None


def _its_place(slots: Sequence[int], free: Sequence[int], size: int) -> int | None:
    wrong = first_wrong(slots, free, size)
    if wrong is None:
        return None
    return next(at for at in range(len(slots)) if first_wrong(slots[: at + 1], free, size) is not None)


def _minus_1_for_none(slots: Sequence[int], free: Sequence[int], size: int) -> int:
    wrong = first_wrong(slots, free, size)
    return -1 if wrong is None else wrong


def _free_is_right(slots: Sequence[int], free: Sequence[int], size: int) -> int | None:
    """Takes `free` for the slots that may be freed."""
    return next((slot for at, slot in enumerate(slots) if slot not in free or slot in slots[:at]), None)


def _the_first_of_two(slots: Sequence[int], free: Sequence[int], size: int) -> int | None:
    wrong = (slot for slot in slots if not 0 <= slot < size or slot in free or list(slots).count(slot) > 1)
    return next(wrong, None)


class _SomeOfThem(Pool):
    def alloc(self, n: int) -> list[int]:
        return [self._free.pop() for _ in range(min(n, len(self._free)))]


class _HalfTaken(Pool):
    def alloc(self, n: int) -> list[int]:
        taken = []
        for _ in range(n):
            if not self._free:
                raise MemoryError
            taken.append(self._free.pop())
        return taken


class _FreesAnything(Pool):
    def free(self, slots: Sequence[int]) -> None:
        self._free.extend(reversed(slots))


class _HalfFreed(Pool):
    def free(self, slots: Sequence[int]) -> None:
        for slot in reversed(slots):
            if slot in self._free or not 0 <= slot < self.size:
                raise ValueError
            self._free.append(slot)


class _Forward(Pool):
    def free(self, slots: Sequence[int]) -> None:
        if first_wrong(slots, self._free, self.size) is not None:
            raise ValueError
        self._free.extend(slots)


class _Fifo(Pool):
    def __init__(self, size: int):
        super().__init__(size)
        self._free.reverse()

    def alloc(self, n: int) -> list[int]:
        if n > len(self._free):
            raise MemoryError
        return [self._free.pop(0) for _ in range(n)]

    def free(self, slots: Sequence[int]) -> None:
        if first_wrong(slots, self._free, self.size) is not None:
            raise ValueError
        self._free.extend(slots)


class _OtherErrors(Pool):
    def alloc(self, n: int) -> list[int]:
        if n > len(self._free):
            raise RuntimeError
        return super().alloc(n)


class _NoProperty(Pool):
    def num_free(self) -> int:  # type: ignore[override]
        return len(self._free)


class _MinusNothing(Pool):
    def alloc(self, n: int) -> list[int]:
        if n > len(self._free):
            raise MemoryError
        taken = self._free[-n:][::-1]
        del self._free[-n:]
        return taken


class _LowestFirst(Pool):
    def alloc(self, n: int) -> list[int]:
        self._free.sort(reverse=True)
        return super().alloc(n)


class _Twice(Pool):
    def free(self, slots: Sequence[int]) -> None:
        if any(slot in self._free or not 0 <= slot < self.size for slot in slots):
            raise ValueError
        self._free.extend(reversed(slots))


class _WrongEnd(Pool):
    def __init__(self, size: int):
        super().__init__(size)
        self._free.reverse()


def _operations() -> st.SearchStrategy[Any]:
    allocs = st.tuples(st.just("alloc"), st.tuples(st.integers(0, 5)))
    frees = st.tuples(st.just("free"), st.tuples(st.lists(st.integers(-1, 4), max_size=3)))
    lists = st.lists(st.one_of(allocs, frees), max_size=6)
    return st.builds(lambda size, steps: Script((size,), tuple(steps)), st.integers(1, 4), lists)


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
        id="2.1",
        name="first_wrong",
        reference=first_wrong,
        cases=[([], [], 4), ([1], [0], 4), ([0], [0], 4), ([4], [], 4), ([-1], [], 4), ([1, 1], [], 4),
               ([1, 2], [2, 3], 4), ([5, 0], [0], 4)],
        strategy=st.tuples(
            st.lists(st.integers(-1, 4), max_size=4), st.lists(st.integers(0, 3), max_size=3, unique=True), st.just(4)
        ),
        hint="go through the slots in order, and ask three questions of each; remember the ones you have passed",
        wrong=(
            Wrong(_only_free_ones, "a slot that the pool does not have, or that is given twice, is wrong as well"),
            Wrong(_not_twice, "the same slot twice in one call is a double free too: remember what you have seen"),
            Wrong(_off_by_one, "a pool of 4 has slots 0 to 3"),
            Wrong(_negative, "a negative number is not a slot either; in Python it would quietly count from the end"),
            Wrong(_its_place, "return the slot itself, not its place in the list"),
            Wrong(_minus_1_for_none, "if all of them may be freed, return None: -1 could be one of the slots"),
            Wrong(_free_is_right, "`free` has the slots that are free already: those are the ones to refuse"),
            Wrong(_the_first_of_two, "the first time a slot stands in the list is no mistake, only the second time is"),
        ),
    ),
    Exercise(
        id="2.2",
        name="Pool",
        reference=Pool,
        observe="num_free",
        cases=[
            Script((2,), (("alloc", (1,)),)),
            Script((2,), (("alloc", (2,)), ("free", ([0],)), ("alloc", (1,)))),
            Script((2,), (("alloc", (3,)),)),
            Script((2,), (("alloc", (3,)), ("alloc", (2,)))),
            Script((2,), (("alloc", (2,)), ("free", ([0, 0],)))),
            Script((3,), (("alloc", (2,)), ("free", ([1, 2],)))),
            Script((3,), (("alloc", (3,)), ("free", ([2, 0],)), ("alloc", (2,)))),
            Script((3,), (("alloc", (1,)), ("free", ([0],)), ("alloc", (1,)))),
            Script((3,), (("alloc", (3,)), ("free", ([0],)), ("free", ([2],)), ("alloc", (1,)))),
        ],
        strategy=_operations(),
        hint="check everything first, and only then change anything",
        wrong=(
            Wrong(_SomeOfThem, "all or nothing: with too few free slots, give none and raise a MemoryError"),
            Wrong(_HalfTaken, "you raise, but the slots taken so far are gone: check the number before you pop"),
            Wrong(_FreesAnything, "a slot that is free already, or that the pool does not have, must be refused"),
            Wrong(_HalfFreed, "you raise, but some slots are free by then: check all of them before you push any"),
            Wrong(_Twice, "the same slot may stand twice in one call: that is a double free as well"),
            Wrong(_Forward, "what is freed in one call should come back in the same order: push the last one first"),
            Wrong(_Fifo, "this is a queue; in a stack, what is freed last is handed out first"),
            Wrong(_OtherErrors, "too few free slots is a MemoryError, a slot that cannot be freed a ValueError"),
            Wrong(_NoProperty, "num_free is read without brackets: put @property above it"),
            Wrong(_MinusNothing, "for n = 0 the slice [-n:] is the whole list, because -0 is 0"),
            Wrong(_LowestFirst, "this gives the lowest free slot; in a stack, what is freed last is handed out first"),
            Wrong(_WrongEnd, "a new pool hands out slot 0 first: which end of the list does pop take?"),
        ),
    ),
    Hunt(
        id="2.3",
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

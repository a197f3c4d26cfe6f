"""Two exercises that no chapter has, a function and a class, for the tests of how exercises are judged."""

from __future__ import annotations

from hypothesis import strategies as st

from minikv.course.exercises.exercise import Exercise, Wrong
from minikv.course.exercises.judge import Script


def pages_needed(num_tokens, page_size):
    return -(-num_tokens // page_size)


class Pool:
    """A stack of free slots: `alloc(n)` gives n slots or raises `MemoryError`; `free(slots)` all or `ValueError`."""

    def __init__(self, size):
        self.size = size
        self.stack = list(range(size - 1, -1, -1))

    @property
    def num_free(self):
        return len(self.stack)

    def is_free(self, slot):
        return slot in self.stack

    def alloc(self, n):
        if n > len(self.stack):
            raise MemoryError(f"{n} slots asked for, {len(self.stack)} free")
        return [self.stack.pop() for _ in range(n)]

    def free(self, slots):
        if len(set(slots)) < len(slots) or any(self.is_free(slot) or not 0 <= slot < self.size for slot in slots):
            raise ValueError(f"{slots} cannot be freed")
        self.stack.extend(reversed(slots))


def _operations():
    allocs = st.tuples(st.just("alloc"), st.tuples(st.integers(0, 5)))
    frees = st.tuples(st.just("free"), st.tuples(st.lists(st.integers(-1, 4), max_size=3)))
    lists = st.lists(st.one_of(allocs, frees), max_size=6)
    return st.builds(lambda size, steps: Script((size,), tuple(steps)), st.integers(1, 4), lists)


SAMPLES = (
    Exercise(
        id="9.1",
        name="pages_needed",
        reference=pages_needed,
        cases=[(0, 16), (1, 16), (16, 16), (17, 16), (5, 1), (2**60 + 1, 2)],
        strategy=st.tuples(st.integers(0, 300), st.integers(1, 64)),
        hint="the last page may be only partly filled, and still it is a page",
        wrong=(Wrong(lambda num_tokens, page_size: num_tokens // page_size, "round up, not down"),),
    ),
    Exercise(
        id="9.2",
        name="Pool",
        reference=Pool,
        observe="num_free",
        cases=[
            Script((2,), (("alloc", (1,)),)),
            Script((2,), (("alloc", (2,)), ("free", ([0],)), ("alloc", (1,)))),
            Script((2,), (("alloc", (3,)),)),
            Script((2,), (("alloc", (2,)), ("free", ([0, 0],)))),
        ],
        strategy=_operations(),
        hint="check everything first, and only then change anything",
    ),
)

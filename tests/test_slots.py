"""Checked slots: a slice is one of the list, and what was checked stays so."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from refusals import said
from test_store import EVEN, filled

pytest.importorskip("torch")

from minikv import KVStore, Slots


@given(
    st.lists(st.integers(0, 9), max_size=8) | st.builds(range, st.integers(0, 9), st.just(10)),
    st.integers(-9, 9),
    st.integers(-9, 9),
    st.booleans(),
)
def test_a_slice_of_checked_slots_is_what_a_slice_of_the_list_is(numbers, start, stop, asked):
    slots, expected = Slots(numbers, limit=10), [*numbers][start:stop]
    if asked:
        assert slots.index is slots.index
        assert slots.run is slots.run
        _ = slots.distinct
    part = slots[start:stop]
    home, own = (some.index.untyped_storage().data_ptr() for some in (slots, part))
    assert home == own or not asked  # what was put on the device is not put there again
    assert part.numbers.tolist() == part.index.tolist() == expected
    run = expected and slice(expected[0], expected[0] + len(expected))
    is_run = bool(run) and expected == [*range(run.start, run.stop)]
    assert part.run == (run if is_run else None)
    again = next((at for at, number in enumerate(expected) if number in expected[:at]), None)
    assert part.distinct == (again is None)
    assert said(part.once).startswith("" if again is None else f"ValueError: slots[{again}] is ")


def test_checked_slots_are_taken_as_they_are_and_cannot_be_changed_from_outside():
    store, numbers = filled(), np.array([3, 1])
    slots = store.slots(numbers)
    numbers[0] = 99
    assert slots.numbers.tolist() == slots.index.tolist() == [3, 1]
    assert store.slots(slots) is slots
    assert KVStore(EVEN, 1, 4).slots(slots) is not slots  # another number of slots: checked again
    assert "read-only" in said(slots.numbers.put, 0, 9)
    for part in 0, slice(None, None, 2):
        assert said(slots.__getitem__, part).startswith("TypeError: slots can be sliced without a step")

"""The store: what is written is read, copies are as if all were read first, and what is wrong is said before."""

import pickle
from copy import deepcopy
from unittest import mock

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule
from nightly import NIGHTLY
from refusals import said

torch = pytest.importorskip("torch")

from minikv import KVShape, KVStore, Slots, kv_tensors, page_slots  # noqa: E402
from minikv.store.layout import DTYPES, LAYOUTS  # noqa: E402

EVEN = KVShape(num_layers=3, num_kv_heads=2, head_dim=4)
UNEVEN = KVShape(num_layers=2, num_kv_heads=3, head_dim=6, v_head_dim=5)
PAGES, PAGE_SIZE = 6, 4
SLOTS = PAGES * PAGE_SIZE

both_layouts = pytest.mark.parametrize("layout", LAYOUTS)
both_shapes = pytest.mark.parametrize("shape", [EVEN, UNEVEN], ids=["even", "uneven"])

every_device = pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])


def values(store, count, seed):
    """Keys and values of `count` tokens: whole numbers up to 15, which every dtype keeps exactly."""
    random, shape = torch.Generator().manual_seed(seed), store.shape
    sizes = shape.head_dim, shape.v_head_dim or shape.head_dim
    sides = (torch.randint(16, (count, shape.num_kv_heads, size), generator=random) for size in sizes)
    return [side.float().to(store.dtype).to(store.device) for side in sides]


def fill(store, seed=0):
    """Write every number of a store."""
    for layer in range(store.shape.num_layers):
        store.write(layer, range(store.num_slots), *values(store, store.num_slots, seed + layer))
    return store


def filled(shape=EVEN, layout="page", device="cpu", dtype="fp32", seed=0):
    return fill(KVStore(shape, PAGES, PAGE_SIZE, layout=layout, device=device, dtype=dtype), seed)


def contents(store):
    """Everything in a store: of each layer K and V, in numbers that can be compared."""
    everything = range(store.num_slots)
    return [numbers(store.read(layer, everything)) for layer in range(store.shape.num_layers)]


def numbers(sides):
    return [side.cpu().float() for side in sides]


def same(a, b):
    return len(a) == len(b) == sum(map(torch.equal, a, b))


class Naive:
    """A store as a tutorial has it: a tensor for K and one for V of each layer, plain indexing, no layouts."""

    def __init__(self, store):
        self.layers = contents(store)

    def rows(self, layer, slots):
        return [side[[*slots]] for side in self.layers[layer]]

    def write(self, layer, slots, rows):
        for side, new in zip(self.layers[layer], numbers(rows)):
            side[[*slots]] = new

    def copy(self, src, dst, source=None):
        for layer in range(len(self.layers)):
            self.write(layer, dst, (source or self).rows(layer, src))

    def is_in(self, store):
        return all(map(same, contents(store), self.layers))


def changes(most):
    """Pairs (from, to) of numbers below `most`, no `to` twice: any, or two runs that may overlap."""
    number = st.integers(0, most - 1)
    some = st.lists(st.tuples(number, number), unique_by=lambda pair: pair[1], max_size=most)
    run = st.builds(lambda a, b, n: list(zip(range(a, most), range(b, min(b + n, most)))), *[number] * 3)
    return some | run


def sides(pairs):
    return [src for src, _ in pairs], [dst for _, dst in pairs]


FORMS = [tuple, np.array, torch.tensor, lambda slots: Slots([0, *slots], SLOTS)[1:]]  # in which slots may come


class AgainstTensors(RuleBasedStateMachine):
    """Two stores and their host memory beside tensors: each has what was written, copied, or crossed into it."""

    device = "cpu"

    @initialize(
        shape=st.sampled_from([EVEN, UNEVEN]),
        layouts=st.tuples(*[st.sampled_from(LAYOUTS)] * 2),
        dtype=st.sampled_from([*DTYPES, torch.float64]),
    )
    def begin(self, shape, layouts, dtype):
        self.stores = [filled(shape, layout, self.device, dtype) for layout in layouts]
        self.stores.append(fill(self.stores[0].in_host_memory(PAGES), seed=50))
        self.naive, self.leaving = list(map(Naive, self.stores)), []

    def free_to_write(self, at):
        """Whoever writes to a store waits for what is on its way out of it."""
        for source, crossing in self.leaving:
            if source == at:
                crossing.finish()
        if self.device == "cuda":
            torch.cuda.synchronize()
        return self.stores[at], self.naive[at]

    at, layer, slot = (st.integers(0, most) for most in (2, 1, SLOTS - 1))

    @rule(at=at, layer=layer, slots=st.lists(slot, unique=True), seed=at)
    def write(self, at, layer, slots, seed):
        store, naive = self.free_to_write(at)
        rows = values(store, len(slots), seed)
        store.write(layer, slots, *rows)
        naive.write(layer, slots, rows)

    @rule(at=at, pairs=changes(SLOTS))
    def copy(self, at, pairs):
        store, naive = self.free_to_write(at)
        store.copy(*sides(pairs))
        naive.copy(*sides(pairs))

    @rule(at=at, pairs=changes(PAGES))
    def copy_pages(self, at, pairs):
        store, naive = self.free_to_write(at)
        store.copy_pages(*sides(pairs))
        naive.copy(*(page_slots(side, PAGE_SIZE) for side in sides(pairs)))

    @rule(at=at, source=at, pairs=changes(PAGES), later=st.booleans())
    def cross(self, at, source, pairs, later):
        if at != source:
            store, naive = self.free_to_write(at)
            crossing = store.take_pages(self.stores[source], *sides(pairs), later)
            pages = (page_slots(side, PAGE_SIZE) for side in sides(pairs))
            naive.copy(*pages, self.naive[source])
            assert crossing.done or later or self.device != "cpu"
            if later or source == 2:
                self.leaving.append((source, crossing))

    @rule(at=at, layer=layer, slots=st.lists(slot), form=st.sampled_from(FORMS), more=at)
    def read(self, at, layer, slots, form, more):
        store, expected = self.stores[at], self.naive[at].rows(layer, slots)
        slots, room = form(slots), store.rows(len(slots) + more)
        for found in store.view(layer, slots, room), store.view(layer, slots), store.read(layer, slots):
            assert found[0].dtype == found[1].dtype == store.dtype
            assert same(numbers(found), expected)
        found[0].zero_(), found[1].zero_()  # which are copies

    @rule(at=at, again=st.sampled_from([deepcopy, lambda store: pickle.loads(pickle.dumps(store))]))
    def copied_as_an_object(self, at, again):
        self.cross(at, (at + 1) % 3, [(1, 2)], later=True)  # of which the copy has all
        store, _ = self.free_to_write(at)
        self.stores[at] = again(store)
        store._memory.fill_(9)  # which the copy does not see

    def teardown(self):
        for store, naive in zip(self.stores, self.naive):
            assert naive.is_in(store)
            store.check()


class TestAgainstTensors(AgainstTensors.TestCase):
    settings = settings(settings(), stateful_step_count=20, max_examples=2000 if NIGHTLY else 40)


class OnAGpu(AgainstTensors):
    device = "cuda"


class TestOnAGpu(OnAGpu.TestCase):
    pytestmark = pytest.mark.gpu


# -- what is allocated, written and read -------------------------------------------------------------------------------


@both_layouts
@both_shapes
@pytest.mark.parametrize("dtype", DTYPES)
def test_a_store_is_one_allocation_of_the_bytes_that_sizing_counts_all_zeros(shape, layout, dtype):
    store = KVStore(shape, PAGES, PAGE_SIZE, layout=layout, dtype=dtype)
    plans = kv_tensors(shape, PAGES, PAGE_SIZE, dtype)
    planned = sum(torch.empty(plan.shape, dtype=getattr(torch, plan.dtype)).nbytes for plan in plans)
    assert planned == store.nbytes == store._memory.untyped_storage().nbytes()
    assert not any(side.any() for pair in contents(store) for side in pair)
    store.check()


NUMBERS = torch.arange(48).half()
ROWS = {
    "backwards": NUMBERS[:16].view(2, 2, 4).flip(0),
    "every other row": NUMBERS[:32].view(2, 2, 2, 4)[:, 1],
    "with gradients": NUMBERS[:16].view(2, 2, 4).clone().requires_grad_(),
    "of one row, with strides that nobody steps by": NUMBERS.as_strided((1, 2, 4), (3, 4, 1), 8),
    **{f"from item {at}": NUMBERS[at : at + 16].view(2, 2, 4) for at in range(9)},
}


@pytest.mark.parametrize("kind", ROWS)
def test_rows_of_any_tensor_are_written(kind):
    store, rows = KVStore(EVEN, PAGES, PAGE_SIZE), ROWS[kind]
    slots = [3, 1][: len(rows)]
    store.write(0, slots, rows, rows)
    assert same(store.read(0, slots), [rows, rows])
    assert not store.read(0, slots)[0].requires_grad


@both_layouts
def test_a_store_made_in_inference_mode_is_one_outside_of_it_too(layout):
    with torch.inference_mode():
        store = filled(EVEN, layout)
        slots = store.slots([3, 1])
    assert not store._memory.is_inference()
    k, v = values(store, 2, 2)
    store.write(0, slots, k, v)
    store.copy([3, 1], [0, 2])
    assert same(store.read(0, [0, 2]), [k, v])


@pytest.mark.parametrize("counts", [(3, 2), (2, 3)])
def test_a_room_that_is_too_small_is_refused_and_stays_as_it_is(counts):
    store = filled()
    room = [store.rows(count)[side].zero_() for side, count in enumerate(counts)]
    assert said(store.view, 0, [0, 2, 4], room) == "ValueError: room is for 2 slots: the view has 3"
    store.view(0, [0, 1, 2], room)  # neighbours need no room
    assert not any(side.any() for side in room)
    store.view(0, [0, 2], room)
    assert all(side.any() for side in room)


# -- from store to store ----------------------------------------------------------------------------------------------


@every_device
def test_layers_that_cross_later_arrive_one_by_one_as_they_are_looked_at(device):
    store = filled(device=device)
    host, layers = store.in_host_memory(1), [*range(EVEN.num_layers)]
    host.take_pages(store, [0], [0])
    crossing = store.take_pages(host, [0], [4], later=True)
    for layer in layers:
        assert crossing.to_come == layers[layer:]
        assert same(store.read(layer, [*range(16, 20)]), store.read(layer, [*range(4)]))
    assert crossing.done
    crossing = store.take_pages(host, [0], [5], later=True)
    for layer in crossing.to_come:  # which can be walked meanwhile
        crossing.arrive(layer)
    assert crossing.done
    new, place = values(store, 4, 2), [*range(20, 24)]
    store.write(0, place, *new)
    crossing.arrive(0)  # which it has already
    assert same(store.read(0, place), new)
    store.take_pages(host, [0], [3], later=True)
    host.take_pages(store, [3], [0])  # what is on its way arrives first
    assert same(host.read(0, [*range(4)]), store.read(0, [*range(4)]))
    store.take_pages(host, [0], [3], later=True)
    store.take_pages(store.in_host_memory(1), [0], [3])  # so does what came before to the same pages
    assert not store.read(0, [*range(12, 16)])[0].any()


def test_a_layer_that_could_not_be_copied_is_copied_at_the_next_look():
    store = filled()
    host = store.in_host_memory(1)
    host.take_pages(store, [0], [0])
    store.take_pages(host, [0], [4], later=True)
    failing = mock.patch.object(torch.Tensor, "index_copy_", side_effect=MemoryError)
    with failing, pytest.raises(MemoryError):
        store.read(0, [16])
    assert same(store.read(0, [16]), store.read(0, [0]))


@pytest.mark.gpu
def test_host_memory_behind_a_gpu_is_pinned_whatever_the_default_device_is():
    store = filled(device="cuda")
    with torch.device("cuda"):
        host = store.in_host_memory(2)
        assert host._memory.is_pinned()
        host.take_pages(store, [1], [0])
        store.take_pages(host, [0], [2])
    assert same(store.read(0, [8]), store.read(0, [4]))


@pytest.mark.gpu(count=2)
@both_layouts
def test_a_store_on_another_gpu_than_the_current_one_copies_there(layout):
    store = filled(EVEN, layout, "cuda:1")
    naive, host = Naive(store), store.in_host_memory(1)
    for change in naive, store:
        change.copy([5, 1], [0, 7])
    host.take_pages(store, [5], [0])
    store.take_pages(host, [0], [5])
    assert naive.is_in(store)

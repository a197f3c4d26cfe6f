"""The store: what is written is read, copies are as if all were read first, and what is wrong is said before."""

import contextlib
import copy
import itertools
import os
import pickle
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

torch = pytest.importorskip("torch")

from minikv import InvariantError, KVShape, KVStore, Slots, draw, kv_tensors  # noqa: E402
from minikv.store import moves  # noqa: E402
from minikv.store.layout import DTYPES, LAYOUTS  # noqa: E402
from minikv.store.moves import LONG_RUN, MANY, CopyView, disjoint, move_by_index, move_on_cpu, runs  # noqa: E402

DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)]
EVEN = KVShape(num_layers=3, num_kv_heads=2, head_dim=4)
UNEVEN = KVShape(num_layers=2, num_kv_heads=3, head_dim=6, v_head_dim=5)
PAGES, PAGE_SIZE = 6, 4
SLOTS = PAGES * PAGE_SIZE

both_layouts = pytest.mark.parametrize("layout", LAYOUTS)
both_shapes = pytest.mark.parametrize("shape", [EVEN, UNEVEN], ids=["even", "uneven"])
every_device = pytest.mark.parametrize("device", DEVICES)


def value_dim(shape):
    return shape.v_head_dim or shape.head_dim


def values(shape, count, seed, dtype=torch.float32, device="cpu"):
    """Keys and values of `count` tokens: whole numbers up to 15, which every dtype keeps exactly."""
    random = torch.Generator().manual_seed(seed)
    k = torch.randint(16, (count, shape.num_kv_heads, shape.head_dim), generator=random)
    v = torch.randint(16, (count, shape.num_kv_heads, value_dim(shape)), generator=random)
    return k.float().to(dtype).to(device), v.float().to(dtype).to(device)


def filled(shape, layout="page", device="cpu", dtype="fp32", pages=PAGES, page_size=PAGE_SIZE, seed=0):
    """A store in which every number has been written."""
    store = KVStore(shape, pages, page_size, layout=layout, device=device, dtype=dtype)
    for layer in range(shape.num_layers):
        store.write(layer, range(store.num_slots), *values(shape, store.num_slots, seed + layer, store.dtype, device))
    return store


def contents(store):
    """Everything in a store, as a list of (k, v) of a layer, in numbers that can be compared."""
    everything = range(store.num_slots)
    return [tuple(t.cpu().float() for t in store.read(layer, everything)) for layer in range(store.shape.num_layers)]


def same(a, b):
    return all(torch.equal(x, y) for one, other in zip(a, b, strict=True) for x, y in zip(one, other, strict=True))


class Naive:
    """The store as a tutorial has it: a tensor for K and one for V of each layer, plain indexing, no layouts."""

    def __init__(self, store):
        self.layers = [[tensor.clone() for tensor in pair] for pair in contents(store)]

    def write(self, layer, slots, k, v):
        for tensor, new in zip(self.layers[layer], (k, v)):
            for i, slot in enumerate(slots):
                tensor[slot] = new[i].float()

    def copy(self, src, dst):
        for pair in self.layers:
            for tensor in pair:
                read = [tensor[slot].clone() for slot in src]
                for slot, row in zip(dst, read):
                    tensor[slot] = row


# -- what is allocated ------------------------------------------------------------------------------------------------


@both_layouts
@both_shapes
@pytest.mark.parametrize("dtype", DTYPES)
def test_a_store_takes_the_bytes_that_the_sizing_chapter_counts(shape, layout, dtype):
    store = KVStore(shape, PAGES, PAGE_SIZE, layout=layout, dtype=dtype)
    plans = kv_tensors(shape, PAGES, PAGE_SIZE, dtype)
    assert store.nbytes == sum(torch.empty(plan.shape, dtype=getattr(torch, plan.dtype)).nbytes for plan in plans)
    assert store.nbytes == store._memory.untyped_storage().nbytes() == store.num_slots * store.slot_bytes
    store.check()


@both_layouts
@both_shapes
def test_keys_and_values_of_all_layers_are_in_one_allocation_and_start_as_zeros(shape, layout):
    store = KVStore(shape, PAGES, PAGE_SIZE, layout=layout)
    home = store._memory.untyped_storage().data_ptr()
    assert {view.untyped_storage().data_ptr() for pair in store._layers for view in pair} == {home}
    assert all(not tensor.any() for pair in contents(store) for tensor in pair)


def test_the_page_layout_has_a_slot_in_one_run_of_bytes_and_the_layer_layout_a_layers_keys():
    for layout, runs_of_a_slot, keys_together in (("page", 1, False), ("layer", 2 * EVEN.num_layers, True)):
        store = KVStore(EVEN, PAGES, PAGE_SIZE, layout=layout, dtype="fp32")
        for layer in range(EVEN.num_layers):
            store.write(layer, [5], torch.ones(1, 2, 4), torch.ones(1, 2, 4))
        touched = (store._memory != 0).view(-1, 4).any(1).int()
        starts = int((touched.diff(prepend=torch.zeros(1, dtype=torch.int)) == 1).sum())
        assert starts == runs_of_a_slot
        assert store._layers[0][0].is_contiguous() == keys_together


# -- what is written is read ------------------------------------------------------------------------------------------


@every_device
@both_layouts
@both_shapes
@pytest.mark.parametrize("dtype", [*DTYPES, torch.float64])
def test_what_is_written_is_read_in_the_order_asked_for(shape, layout, dtype, device):
    store = filled(shape, layout, device, dtype)
    k, v = values(shape, 3, 99, store.dtype, device)
    store.write(1, [7, 2, 20], k, v)
    for slots, rows in (([7, 2, 20], [0, 1, 2]), ([20, 7, 7], [2, 0, 0]), ([], [])):
        found = store.read(1, slots)
        assert torch.equal(found[0].float(), k[rows].float())
        assert torch.equal(found[1].float(), v[rows].float())
        assert found[0].dtype == found[1].dtype == store.dtype


@both_layouts
def test_a_write_touches_its_layer_and_slots_alone(layout):
    store = filled(UNEVEN, layout)
    naive = Naive(store)
    k, v = values(UNEVEN, 2, 99)
    store.write(0, [3, 9], k, v)
    naive.write(0, [3, 9], k, v)
    assert same(contents(store), naive.layers)


@both_layouts
def test_what_was_read_is_a_copy(layout):
    store = filled(EVEN, layout)
    before = contents(store)
    for tensor in store.read(0, range(4)):
        tensor.zero_()
    assert same(contents(store), before)


def test_slots_may_come_in_any_form():
    store = filled(EVEN)
    expected = store.read(0, [4, 2])
    forms = [(4, 2), np.array([4, 2], np.int32), torch.tensor([4, 2]), torch.tensor([4, 2], dtype=torch.int32)]
    for slots in [*forms, range(4, 0, -2), store.slots([4, 2]), store.slots([9, 4, 2, 8])[1:3]]:
        assert same([store.read(0, slots)], [expected])


def test_views_that_are_not_contiguous_and_tensors_with_gradients_are_written_like_others():
    store = KVStore(EVEN, PAGES, PAGE_SIZE, dtype="fp32")
    k, v = values(EVEN, 4, 1)
    sparse = torch.stack([k, v]).transpose(0, 1)[:, 1].requires_grad_()  # v, every other row of a larger tensor
    store.write(0, range(4), k.flip(0), sparse)
    assert torch.equal(store.read(0, range(4))[0], k.flip(0))
    assert torch.equal(store.read(0, range(4))[1], v)
    assert not store.read(0, range(4))[1].requires_grad


@pytest.mark.parametrize("offset", range(9))
def test_rows_may_begin_anywhere_in_a_larger_tensor(offset):
    store, buffer = KVStore(EVEN, PAGES, PAGE_SIZE), torch.arange(40).half()
    rows = buffer[offset : offset + 16].view(2, 2, 4)
    store.write(0, [3, 1], rows, rows)
    assert torch.equal(store.read(0, [3, 1])[0], rows)


def test_a_single_row_may_have_any_stride_that_nobody_steps_by():
    store, buffer = KVStore(EVEN, PAGES, PAGE_SIZE), torch.arange(40).half()
    row = buffer.as_strided((1, 2, 4), (3, 4, 1), 8)
    store.write(0, [3], row, row)
    assert torch.equal(store.read(0, [3])[0], row)


@both_layouts
def test_a_store_made_in_inference_mode_is_one_outside_of_it_too(layout):
    with torch.inference_mode():
        store = KVStore(EVEN, PAGES, PAGE_SIZE, layout=layout, dtype="fp32")
        slots = store.slots([3, 1])
        store.write(0, slots, *values(EVEN, 2, 1))
    assert not store._memory.is_inference()
    k, v = values(EVEN, 2, 2)
    store.write(0, slots, k, v)
    store.copy([3, 1], [0, 2])
    assert torch.equal(store.read(0, [0, 2])[0], k)


@every_device
@both_layouts
@pytest.mark.parametrize("again", [copy.deepcopy, lambda store: pickle.loads(pickle.dumps(store))])
def test_a_store_copied_as_an_object_has_its_own_bytes_and_every_verb_uses_those(again, layout, device):
    store = filled(EVEN, layout, device)
    naive, before = Naive(store), contents(store)
    other = again(store)
    other.check()
    other.copy([5, 1], [0, 7])
    other.copy_pages([0], [3])
    naive.copy([5, 1], [0, 7])
    naive.copy(range(4), range(12, 16))
    assert same(contents(other), naive.layers)
    assert same(contents(store), before)


# -- copies -----------------------------------------------------------------------------------------------------------

slot_lists = st.lists(st.integers(0, SLOTS - 1), unique=True, max_size=SLOTS)


@given(slot_lists, st.data(), st.sampled_from(LAYOUTS), st.sampled_from([EVEN, UNEVEN]))
def test_a_copy_is_as_if_everything_were_read_before_anything_is_written(dst, data, layout, shape):
    src = data.draw(st.lists(st.integers(0, SLOTS - 1), min_size=len(dst), max_size=len(dst)))
    store = filled(shape, layout)
    naive = Naive(store)
    naive.copy(src, dst)
    store.copy(src, dst)
    assert same(contents(store), naive.layers)
    store.check()


@given(st.integers(0, SLOTS), st.integers(0, SLOTS), st.integers(0, SLOTS), st.sampled_from(LAYOUTS))
def test_runs_that_overlap_move_like_memory(start, to, length, layout):
    length = min(length, SLOTS - start, SLOTS - to)
    store = filled(EVEN, layout)
    naive = Naive(store)
    naive.copy(range(start, start + length), range(to, to + length))
    store.copy(range(start, start + length), range(to, to + length))
    assert same(contents(store), naive.layers)


@every_device
@both_layouts
@both_shapes
@pytest.mark.parametrize(("src", "dst"), [([0, 1], [4, 2]), ([0, 1, 2], [1, 2, 0]), ([5, 5], [1, 0]), ([], [])])
def test_copying_pages_is_copying_all_their_slots(src, dst, shape, layout, device):
    whole, single = filled(shape, layout, device), filled(shape, layout, device)
    whole.copy_pages(src, dst)
    single.copy(
        [page * PAGE_SIZE + i for page in src for i in range(PAGE_SIZE)],
        [page * PAGE_SIZE + i for page in dst for i in range(PAGE_SIZE)],
    )
    assert same(contents(whole), contents(single))


@pytest.mark.parametrize("width", [1, 512, LONG_RUN])
@pytest.mark.parametrize("overlap", [False, True])
def test_both_ways_of_copying_in_host_memory_agree_with_indexing(width, overlap):
    random = np.random.default_rng(width)
    plane = torch.from_numpy(random.integers(0, 255, (2, 64, width), np.uint8))
    pages = random.permutation(16)
    src = (pages[:6, None] * 4 + np.arange(4)).ravel()
    dst = (pages[3:9, None] * 4 + np.arange(4)).ravel() if overlap else (pages[6:12, None] * 4 + np.arange(4)).ravel()
    expected = plane.clone()
    move_by_index(expected, torch.from_numpy(src), torch.from_numpy(dst))
    move_on_cpu([CopyView(plane)], src, dst)
    assert torch.equal(plane, expected)


@pytest.mark.parametrize("wide", [LONG_RUN, 8])
def test_rows_wider_than_numpys_widest_item_are_copied_too(wide, monkeypatch):
    monkeypatch.setattr(moves, "WIDEST", 7)
    memory = torch.arange(6 * wide).view(1, 6, wide).to(torch.uint8) + torch.arange(6, dtype=torch.uint8).view(1, 6, 1)
    for src, dst in (([0, 1], [1, 0]), ([0, 2], [4, 5]), ([0, 1, 2], [1, 2, 3])):
        plane, expected = CopyView(memory.clone()), memory.clone()
        assert plane.rows is None
        expected[:, dst] = memory[:, src]
        move_on_cpu([plane], np.array(src), np.array(dst))
        assert torch.equal(plane.lines, expected)


def test_a_plane_between_other_bytes_leaves_them_alone():
    memory = torch.arange(60, dtype=torch.uint8)
    plane = memory.as_strided((3, 4, 4), (20, 4, 1), 2)  # three lines of four rows of four, four bytes between them
    before, outside = memory.clone(), torch.ones(60, dtype=torch.bool)
    outside.as_strided((3, 4, 4), (20, 4, 1), 2).fill_(False)
    expected = plane.clone()
    expected[:, [0, 1]] = plane[:, [2, 3]].clone()
    move_on_cpu([CopyView(plane)], np.array([2, 3]), np.array([0, 1]))
    assert torch.equal(plane, expected)
    assert torch.equal(memory[outside], before[outside])


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=1))
def test_runs_put_together_are_the_slots_and_no_two_could_be_one(pairs):
    src, dst = (np.array(part) for part in zip(*pairs))
    found = runs(src, dst)
    assert [(a + i, b + i) for a, b, length in found for i in range(length)] == pairs
    for (a, b, length), (next_a, next_b, _) in itertools.pairwise(found):
        assert (a + length, b + length) != (next_a, next_b)


@given(st.lists(st.integers(0, 20), min_size=1), st.lists(st.integers(0, 20), min_size=1))
def test_disjoint_is_what_sets_say(a, b):
    few, many = (np.array(a), np.array(b)), (np.tile(a, MANY), np.tile(b, MANY))
    assert disjoint(*few) == disjoint(*many) == set(a).isdisjoint(b)


def test_a_device_without_a_way_of_its_own_copies_by_indexing(monkeypatch):
    """Here one with shapes and no memory, so what is asked of it is written down."""
    asked = []
    monkeypatch.setattr(moves, "move_by_index", lambda lines, src, dst: asked.append((lines.shape, src.shape)))
    views = [moves.CopyView(torch.empty(lines, 5, 1, device="meta")) for lines in (1, 2)]
    meta = torch.device("meta")  # as a device; a name is refused, since no store can be there
    moves.move(views, Slots([0, 1], 5, meta), Slots([3, 4], 5, meta))
    assert asked == [((1, 5, 1), (2,)), ((2, 5, 1), (2,))]


# -- from store to store ----------------------------------------------------------------------------------------------


@every_device
@both_shapes
@pytest.mark.parametrize("there", LAYOUTS)
@pytest.mark.parametrize("back", LAYOUTS)
@pytest.mark.parametrize("later", [False, True])
def test_pages_cross_to_the_host_and_back_into_any_layout_and_any_pages(shape, there, back, later, device):
    first, second = filled(shape, there, device), filled(shape, back, device, seed=50)
    host, naive = first.in_host_memory(3), Naive(second)
    for layer in range(shape.num_layers):
        naive.write(layer, [20, 21, 22, 23, *range(4)], *first.read(layer, [4, 5, 6, 7, *range(16, 20)]))
    assert not host.take_pages(first, [4, 1], [0, 2]).to_come or device != "cpu"
    second.write(0, [0], *second.read(0, [1]))  # what is there when it begins counts for nothing
    crossing = second.take_pages(host, [2, 0], [5, 0], later)
    assert same(contents(second), naive.layers)
    assert crossing.done


@every_device
@both_layouts
def test_what_crosses_is_what_the_pages_held_when_it_was_asked_for(layout, device):
    store = filled(EVEN, layout, device)
    host, expected = store.in_host_memory(1), store.read(0, [4, 5])[0].cpu()
    host.take_pages(store, [1], [0])
    store.copy([8, 9], [4, 5])
    assert torch.equal(host.read(0, [0, 1])[0], expected)


def test_the_layers_to_come_can_be_walked_while_they_arrive():
    store = filled(EVEN)
    crossing = store.in_host_memory(1).take_pages(store, [0], [0], later=True)
    for layer in crossing.to_come:
        crossing.arrive(layer)
    assert crossing.done


@every_device
def test_layers_that_cross_later_arrive_one_by_one_as_they_are_looked_at(device):
    store = filled(EVEN, device=device)
    host, before = store.in_host_memory(2), store.read(1, [0])[0].cpu()
    crossing = host.take_pages(store, [0, 3], [1, 0])
    crossing = store.take_pages(host, [1, 0], [4, 5], later=True)
    for layer in range(EVEN.num_layers):
        assert crossing.to_come == [*range(layer, EVEN.num_layers)]
        assert same([store.read(layer, [*range(16, 24)])], [store.read(layer, [0, 1, 2, 3, 12, 13, 14, 15])])
    assert crossing.done
    assert torch.equal(store.read(1, [0])[0].cpu(), before)


@every_device
@pytest.mark.parametrize("later", [False, True])
def test_of_two_that_cross_into_a_page_the_last_one_stays(later, device):
    store, first, last = filled(EVEN, device=device), filled(EVEN, seed=50), filled(EVEN, seed=90)
    store.take_pages(first, [1], [2], later=True)
    store.take_pages(last, [1], [2], later)
    for layer in range(EVEN.num_layers):
        assert same([[side.cpu() for side in store.read(layer, [*range(8, 12)])]], [last.read(layer, [*range(4, 8)])])


@pytest.mark.parametrize("look", ["copy", "copy_pages", "write", "pickle", "cross"])
def test_whoever_looks_at_a_store_finds_what_crosses_into_it(look):
    store, host = filled(EVEN), filled(EVEN, seed=50)
    crossing = store.take_pages(host, [1], [2], later=True)
    expected = host.read(1, [5])[0]
    if look == "copy":
        store.copy([9], [0])
    elif look == "copy_pages":
        store.copy_pages([2], [0])
    elif look == "write":
        store.write(1, [8], *store.read(1, [0]))
    elif look == "pickle":
        store = pickle.loads(pickle.dumps(store))
    else:
        other, store = store, store.in_host_memory(3)
        store.take_pages(other, [2], [2])
    assert torch.equal(store.read(1, [9])[0], expected)
    assert crossing.done or look == "write"


@pytest.mark.gpu
def test_host_memory_behind_a_gpu_is_pinned_whatever_the_default_device_is():
    store = filled(EVEN, device="cuda")
    with torch.device("cuda"):
        host = store.in_host_memory(2)
        assert host._memory.is_pinned()
        host.take_pages(store, [1], [0])
        store.take_pages(host, [0], [2])
    assert same([store.read(0, [8])], [store.read(0, [4])])


@every_device
def test_no_pages_cross_too(device):
    store = filled(EVEN, device=device)
    assert store.in_host_memory(1).take_pages(store, [], []).done


# -- what is wrong is said, and nothing has changed -------------------------------------------------------------------

K, V = torch.zeros(2, 2, 4), torch.zeros(2, 2, 4)
OTHERS = {
    "shape": KVStore(UNEVEN, 6, 4, dtype="fp32"),
    "dtype": KVStore(EVEN, 6, 4, dtype="fp16"),
    "page_size": KVStore(EVEN, 12, 2, dtype="fp32"),
}


def host(store):
    return store.in_host_memory(6)


WRONG = {
    "a slot too high": (lambda s: s.write(0, [1, 24], K, V), ValueError, r"slots\[1\] is 24: this store has slots"),
    "a slot below 0": (lambda s: s.read(0, [-1]), ValueError, r"slots\[0\] is -1"),
    "an array's slot too high": (lambda s: s.read(0, np.array([1, 24])), ValueError, r"slots\[1\] is 24: this store"),
    "an array's slot below 0": (lambda s: s.read(0, np.array([1, -1], np.int32)), ValueError, r"slots\[1\] is -1"),
    "a tensor's slot below 0": (lambda s: s.copy(torch.tensor([-1]), [0]), ValueError, r"src_slots\[0\] is -1"),
    "a single number for slots": (lambda s: s.read(0, torch.tensor(3)), ValueError, r"slots have shape \(\)"),
    "a mask for slots": (lambda s: s.read(0, torch.ones(SLOTS) > 0), TypeError, r"slots\[0\] is True"),
    "a slot that is no number in an array": (lambda s: s.read(0, np.array([0.5])), TypeError, r"slots\[0\] is .*0.5"),
    "a slot that is no number": (lambda s: s.read(0, [0.5]), TypeError, r"slots\[0\] is 0.5"),
    "slots in two dimensions": (lambda s: s.read(0, [[1, 2]]), TypeError, "slots"),
    "slots of another store": (lambda s: s.read(0, Slots([30], limit=99)), ValueError, r"slots\[0\] is 30"),
    "a slot written twice": (lambda s: s.write(0, [3, 3], K, V), ValueError, r"slots\[1\] is 3: it appears twice"),
    "a layer too high": (lambda s: s.write(3, [0, 1], K, V), ValueError, "layer is 3: this store has layers 0 to 2"),
    "a layer below 0": (lambda s: s.read(-1, [0]), ValueError, "layer is -1"),
    "a layer that is no number": (lambda s: s.read("0", [0]), TypeError, "layer is '0'"),
    "too few rows": (lambda s: s.write(0, [1, 2, 3], K, V), ValueError, r"k has shape \(2, 2, 4\): expected \(3,"),
    "another head size": (lambda s: s.write(0, [1, 2], K, V[..., :3]), ValueError, r"v has shape \(2, 2, 3\)"),
    "another dtype": (lambda s: s.write(0, [1, 2], K, V.half()), TypeError, "v is of torch.float16: this store keeps"),
    "a list for a tensor": (lambda s: s.write(0, [1, 2], K.tolist(), V), TypeError, "k is a list: expected a tensor"),
    "another device": (lambda s: s.write(0, [1, 2], K, V.to("meta")), ValueError, "v is on meta: this store is on cpu"),
    "copies of unequal length": (lambda s: s.copy([1, 2], [3]), ValueError, "src_slots are 2 and dst_slots are 1"),
    "a destination twice": (lambda s: s.copy([1, 2, 3], [4, 5, 4]), ValueError, r"dst_slots\[2\] is 4: it appears"),
    "a source too high": (lambda s: s.copy([24], [0]), ValueError, r"src_slots\[0\] is 24: this store has"),
    "a destination too high": (lambda s: s.copy([0], [24]), ValueError, r"dst_slots\[0\] is 24"),
    "a page too high": (lambda s: s.copy_pages([0], [6]), ValueError, r"dst_pages\[0\] is 6: this store has pages"),
    "a page twice": (lambda s: s.copy_pages([0, 1], [2, 2]), ValueError, r"dst_pages\[1\] is 2: it appears twice"),
    "pages of unequal length": (lambda s: s.copy_pages([0], []), ValueError, "src_pages are 1 and dst_pages are 0"),
    "a store of another shape": (lambda s: s.take_pages(OTHERS["shape"], [1], [1]), ValueError, "source has shape KV"),
    "a store of another dtype": (lambda s: s.take_pages(OTHERS["dtype"], [1], [1]), ValueError, "has dtype torch"),
    "a store of other pages": (lambda s: s.take_pages(OTHERS["page_size"], [1], [1]), ValueError, "page_size 2: this"),
    "pages to fewer pages": (lambda s: host(s).take_pages(s, [1, 2], [3]), ValueError, "src_pages are 2 and dst"),
    "pages to a page twice": (lambda s: host(s).take_pages(s, [1, 2], [3, 3]), ValueError, "it appears twice"),
    "a page to a page too high": (lambda s: host(s).take_pages(s, [1], [6]), ValueError, r"dst_pages\[0\] is 6"),
    "something else for a store": (lambda s: s.take_pages(K, [1], [1]), TypeError, "source is tensor"),
    "a store itself": (lambda s: s.take_pages(s, [1], [2]), TypeError, "expected another KVStore"),
}  # fmt: skip


@both_layouts
@pytest.mark.parametrize("what", WRONG)
def test_what_is_wrong_is_said_before_a_byte_moves(what, layout):
    act, error, words = WRONG[what]
    store = filled(EVEN, layout)
    before = store._memory.clone()
    with pytest.raises(error, match=words):
        act(store)
    assert torch.equal(store._memory, before)
    store.check()


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (lambda: KVStore(KVShape(2, latent_dim=8), 1), ValueError, "latent_dim is 8"),
        (lambda: KVStore(EVEN, 0), ValueError, "num_pages is 0"),
        (lambda: KVStore(EVEN, 1, 0), ValueError, "page_size is 0"),
        (lambda: KVStore(EVEN, 2**31, 2), ValueError, "num_pages x page_size is 4294967296"),
        (
            lambda: KVStore(KVShape(64, num_kv_heads=64, head_dim=512), 2**31),
            ValueError,
            "num_pages is 2147483648: the memory of cpu has no room for a store of 18014398509481984 bytes",
        ),
        (
            lambda: KVStore(KVShape(10**6, num_kv_heads=10**6, head_dim=10**6), 2**31),
            ValueError,
            r"num_pages is 2147483648: a store has less than 2\*\*63 bytes, not 8589934592000000000000000000",
        ),
        (
            lambda: KVStore(KVShape(*[2**62] * 3, v_head_dim=2**62), 2**31),
            ValueError,
            r"num_pages is 2147483648: a store has less than 2\*\*63 bytes, not \d{59}…",
        ),
        (lambda: KVStore(EVEN, 1, layout="head"), ValueError, "layout is 'head': expected one of page, layer"),
        (lambda: KVStore(EVEN, 1, dtype="int4"), ValueError, "dtype is 'int4': expected one of fp32"),
        (lambda: KVStore(EVEN, 1, dtype=torch.int8), ValueError, "dtype is torch.int8"),
        (lambda: KVStore(EVEN, 1, device="nowhere"), ValueError, "device is 'nowhere': torch has no such device here"),
        (lambda: KVStore(EVEN, 1, device="cuda:99"), ValueError, "device is 'cuda:99': torch has no such device here"),
        (lambda: KVStore(EVEN, 1, device="meta"), ValueError, "device is 'meta': expected one that keeps bytes"),
    ],
)
def test_a_store_that_cannot_be_is_refused(make, error, words):
    with pytest.raises(error, match=words):
        make()


# -- slots ------------------------------------------------------------------------------------------------------------


@given(st.lists(st.integers(0, 9)))
def test_the_first_repeated_slot_is_found(numbers):
    slots = Slots(numbers, limit=10)
    first = next((i for i, number in enumerate(numbers) if number in numbers[:i]), None)
    assert slots.distinct == (first is None)
    with contextlib.nullcontext() if first is None else pytest.raises(ValueError, match=rf"^slots\[{first}\] is"):
        slots.once()


@given(st.lists(st.integers(0, 9), max_size=8), st.integers(-9, 9), st.integers(-9, 9), st.booleans())
def test_a_slice_of_checked_slots_is_what_a_slice_of_the_list_is(numbers, start, stop, asked):
    slots = Slots(numbers, limit=10)
    if asked:
        _ = slots.distinct
    part = slots[start:stop]
    assert part.numbers.tolist() == part.index.tolist() == numbers[start:stop]
    assert part.distinct == (len(set(numbers[start:stop])) == len(part))


def test_checked_slots_are_taken_as_they_are_and_cannot_be_changed_from_outside():
    store, numbers = filled(EVEN), np.array([3, 1])
    slots = store.slots(numbers)
    numbers[0] = 99
    assert slots.numbers.tolist() == slots.index.tolist() == [3, 1]
    assert store.slots(slots) is slots
    assert KVStore(EVEN, 1, 4).slots(slots) is not slots  # another number of slots: checked again
    with pytest.raises(ValueError, match="read-only"):
        slots.numbers[0] = 9
    with pytest.raises(TypeError, match="sliced without a step"):
        slots[0]
    with pytest.raises(TypeError, match="sliced without a step"):
        slots[::2]


@pytest.mark.parametrize(
    ("numbers", "run"),
    [([5, 6, 7], slice(5, 8)), ([3], slice(3, 4)), ([], None), ([5, 7], None), ([6, 5], None), ([5, 6, 6], None)],
)
def test_slots_know_whether_each_is_the_neighbour_of_the_one_before(numbers, run):
    assert Slots(numbers, limit=8).run == run
    longer = Slots([1, *numbers], limit=8)
    assert longer.run in (None, slice(1, 2))
    assert longer[1:].run == run


@pytest.mark.parametrize("layout", ["page", "layer"])
@pytest.mark.parametrize("shape", [EVEN, UNEVEN], ids=["even", "uneven"])
def test_a_view_is_what_is_read_and_copies_no_run(layout, shape):
    store = filled(shape, layout)
    room = store.rows(5 * store.num_slots)  # requests that share slots read them as often as there are requests
    for slots in (range(3, 7), [9, 4, 2, 8], [5], [7, 7], [1, 7, 3, 2, 0] * store.num_slots):
        for layer in range(shape.num_layers):
            assert same([store.view(layer, slots, room)], [store.read(layer, slots)])
            assert same([store.view(layer, slots)], [store.read(layer, slots)])
    keys, _ = store.view(1, range(3, 7), room)
    gathered, _ = store.view(1, [6, 3], room)
    k, v = values(shape, 1, 9)
    store.write(1, [3], k, v)
    assert torch.equal(keys[0], k[0])
    assert not torch.equal(gathered[1], k[0])


@pytest.mark.parametrize("counts", [(2, 2), (3, 2), (2, 3)])
def test_a_room_that_is_too_small_is_refused_and_stays_as_it_is(counts):
    store = filled(EVEN)
    room = store.rows(counts[0])[0].zero_(), store.rows(counts[1])[1].zero_()
    with pytest.raises(ValueError, match=r"^room is for 2 slots: the view has 3$"):
        store.view(0, [0, 2, 4], room)
    assert tuple(len(side) for side in room) == counts
    assert not any(side.any() for side in room)
    store.view(0, [0, 2], room)
    store.view(0, [0, 1, 2], room)  # neighbours need no room


@pytest.mark.parametrize("numbers", [[1, 2], [1, 3]])
def test_slots_are_looked_at_once(numbers):
    slots = Slots(numbers, limit=8)
    assert slots.run is slots.run
    assert slots.index is slots.index


def test_the_representations_are_fit_for_a_lesson():
    assert repr(filled(EVEN)) == (
        "KVStore(6 pages of 4, 3 layers, 2 KV heads, torch.float32, layout='page', 4,608 bytes)"
    )
    assert repr(Slots(range(8), limit=12)) == "Slots([0, 1, 2, 3, 4, 5, 6, 7])"
    assert repr(Slots(range(9), limit=12)) == "Slots([0, 1, 2, 3, 4, 5, 6, 7, ... 9 in all])"


# -- where things lie -------------------------------------------------------------------------------------------------


@both_shapes
@both_layouts
def test_a_picture_of_a_store_has_every_piece_in_the_order_of_memory(shape, layout):
    store = KVStore(shape, 4, layout=layout)
    lines = 2 * shape.num_layers
    every = [0, 1, 2, 3]
    assert [slot for _, slot in store.pieces()] == (every * lines if layout == "layer" else sorted(every * lines))
    every_layer = {f"{letter}{layer}" for letter in "KV" for layer in range(shape.num_layers)}
    assert {name for name, _ in store.pieces()} == every_layer
    picture = draw(store, new=[2])
    assert picture.text.count("[2]n") == lines
    assert all(picture.svg.count(f">{name}</text>") == 4 for name in every_layer)
    assert draw(KVStore(EVEN, 1000)).text.splitlines()[0].endswith("the memory, the first 400 shown")


# -- check ------------------------------------------------------------------------------------------------------------


@both_layouts
def test_check_finds_a_view_that_is_elsewhere(layout):
    def elsewhere(plane):
        return CopyView(plane.lines.clone())

    for name, attribute, change in (
        ("the planes cover 0 of", "_slots", lambda planes: []),
        ("K and V cover", "_layers", lambda layers: layers[1:]),
        ("k of layer 0 is not where", "_layers", lambda layers: [(v, k) for k, v in layers]),
        ("slots 0 is not where", "_slots", lambda planes: [elsewhere(planes[0])]),
        ("pages 0 is not where", "_pages", lambda planes: [elsewhere(planes[0])]),
        ("k of layer 0 is not where", "_layers", lambda layers: layers[::-1]),
        ("v of layer 2 is not where", "_layers", lambda layers: [*layers[:2], (layers[2][0], layers[2][0])]),
    ):
        store = filled(EVEN, layout)
        setattr(store, attribute, change(getattr(store, attribute)))
        with pytest.raises(InvariantError, match=name):
            store.check()


def test_check_finds_an_allocation_of_another_size():
    store = filled(EVEN)
    store._memory = store._memory[:-1]
    with pytest.raises(InvariantError, match="4607 bytes for 24 x 192"):
        store.check()


# -- the kernel -------------------------------------------------------------------------------------------------------


def test_the_triton_kernel_agrees_with_indexing_in_tritons_interpreter():
    pytest.importorskip("triton", reason="Triton is not installed")
    oracle = Path(__file__).with_name("triton_oracle.py")
    run = subprocess.run(
        [sys.executable, str(oracle)], env={**os.environ, "TRITON_INTERPRET": "1"}, capture_output=True, text=True
    )
    assert run.returncode == 0, run.stderr
    assert run.stdout.split() == ["agreed", "24"]


@pytest.mark.parametrize("word", ["i8", "i32", "i64"])
def test_the_triton_kernel_compiles_for_an_nvidia_gpu_where_there_is_none(word, tmp_path, monkeypatch):
    """The interpreter takes what the compiler does not; and aligned rows are to be read 16 bytes at a time."""
    pytest.importorskip("triton", reason="Triton is not installed")
    from triton import compile as build
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    from minikv.store.triton_copy import BLOCK, _kernel

    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    kinds = {"memory": f"*{word}", "src": "*i64", "dst": "*i64", "outer_stride": "i64", "row_stride": "i32"}
    signature = {**kinds, "words": "i32", "block": "constexpr"}
    aligned = {(place,): [["tt.divisibility", 16]] for place in range(6)}
    made = build(ASTSource(_kernel, signature, {"block": BLOCK}, aligned), target=GPUTarget("cuda", 80, 32))
    wide = {"i8": r"\.v2\.b32|\.b64", "i32": r"\.v4\.b32", "i64": r"\.v2\.b64"}[word]
    assert re.search(rf"ld\.global{wide}", made.asm["ptx"])
    assert re.search(rf"st\.global{wide}", made.asm["ptx"])
    assert made.asm["cubin"]


@pytest.mark.gpu(count=2)
@both_layouts
def test_a_store_on_another_gpu_than_the_current_one_copies_there(layout):
    store = filled(EVEN, layout, "cuda:1")
    naive = Naive(store)
    naive.copy([5, 1], [0, 7])
    store.copy([5, 1], [0, 7])
    host = store.in_host_memory(1)
    host.take_pages(store, [5], [0])
    store.take_pages(host, [0], [5])
    assert same(contents(store), naive.layers)


@pytest.mark.gpu
@both_layouts
@both_shapes
def test_the_triton_kernel_agrees_with_indexing_on_a_gpu(shape, layout):
    pytest.importorskip("triton", reason="Triton is not installed")
    from minikv.store.triton_copy import move_rows

    store = filled(shape, layout, "cuda", pages=512)
    order = torch.randperm(store.num_slots, generator=torch.Generator().manual_seed(1)).cuda()
    src, dst = order[:900], order[900:1800]
    for plane in store.planes:
        expected = plane.clone()
        move_by_index(expected, src, dst)
        move_rows(plane, src, dst)
        assert torch.equal(plane, expected)


def test_a_part_of_slots_indexes_its_own_rows_whether_or_not_the_whole_was_used():
    for used in (False, True):
        slots = Slots([5, 6, 7], 10)
        if used:
            assert slots.index.tolist() == [5, 6, 7]
        assert slots[1:3].index.tolist() == [6, 7]


SHAPE = KVShape(2, num_kv_heads=2, head_dim=4)
NUMBERS = {
    "num_pages": lambda value: KVStore(SHAPE, value),
    "page_size": lambda value: KVStore(SHAPE, 2, value),
    "count": lambda value: KVStore(SHAPE, 2).rows(value),
    "limit": lambda value: Slots([0], value),
}


@pytest.mark.parametrize("name", NUMBERS)
def test_an_odd_or_huge_number_is_named_with_its_rule(name):
    for value in (True, 1.5, float("nan"), float("inf"), "7", [], -1, 2**70, 10**5000):
        with pytest.raises((TypeError, ValueError), match=f"^{name} is .*: ") as caught:
            NUMBERS[name](value)
        assert len(str(caught.value)) < 200


@pytest.mark.parametrize("device", [-1, 2**70, 1.5, "gpu", [], None])
def test_a_device_that_is_none_is_named(device):
    for make in (lambda: KVStore(SHAPE, 2, device=device), lambda: Slots([0], 4, device)):
        with pytest.raises(ValueError, match=r"^device is .*: torch has no such device here"):
            make()


@pytest.mark.parametrize("shape", [5, True, None, "llama-3.1-8b"])
def test_a_shape_that_is_none_is_named(shape):
    with pytest.raises(TypeError, match=r"^shape is .*: expected a KVShape"):
        KVStore(shape, 2)

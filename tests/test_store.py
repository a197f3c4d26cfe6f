"""The store: what is written is read, copies are as if all were read first, and what is wrong is said before."""

import itertools
import pickle
import re
from copy import deepcopy

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule
from nightly import NIGHTLY
from refusals import said

torch = pytest.importorskip("torch")

from minikv import InvariantError, KVShape, KVStore, Slots, draw, kv_tensors, page_slots  # noqa: E402
from minikv.store import moves, triton_copy  # noqa: E402
from minikv.store.layout import DTYPES, LAYOUTS  # noqa: E402
from minikv.store.moves import LONG_RUN, MANY, CopyView, disjoint, move_by_index, move_on_cpu, runs  # noqa: E402

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


# -- the ways of copying ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("widest", [moves.WIDEST, 7])  # 7: rows wider than numpy's widest item
@pytest.mark.parametrize("width", [1, 8, 512, LONG_RUN])
@pytest.mark.parametrize("pages", [[6, 7, 8, 9, 10, 11], [3, 4, 5, 6, 7, 8]], ids=["apart", "overlapping"])
def test_both_ways_of_copying_in_host_memory_agree_with_indexing(width, pages, widest, monkeypatch):
    """A plane of two lines, with bytes between them that are not its own."""
    monkeypatch.setattr(moves, "WIDEST", widest)
    random, sizes = np.random.default_rng(width), ((2, 64, width), (66 * width, width, 1), width)
    memory = torch.from_numpy(random.integers(0, 255, 133 * width, np.uint8))
    order, expected = random.permutation(16), memory.clone()
    src, dst = (page_slots(order[part], 4).astype(np.int64) for part in (range(6), pages))
    move_by_index(expected.as_strided(*sizes), torch.from_numpy(src), torch.from_numpy(dst))
    view = CopyView(memory.as_strided(*sizes))
    assert (view.rows is None) == (width > widest)
    move_on_cpu([view], src, dst)
    assert torch.equal(memory, expected)


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=1))
def test_runs_put_together_are_the_slots_and_no_two_could_be_one(pairs):
    found = runs(*map(np.array, zip(*pairs)))
    assert [(a + i, b + i) for a, b, length in found for i in range(length)] == pairs
    for (a, b, length), (next_a, next_b, _) in itertools.pairwise(found):
        assert (a + length, b + length) != (next_a, next_b)


@given(*[st.lists(st.integers(0, 20), min_size=1)] * 2)
def test_disjoint_is_what_sets_say(a, b):
    few, many = (np.array(a), np.array(b)), (np.tile(a, MANY), np.tile(b, MANY))
    assert disjoint(*few) == disjoint(*many) == set(a).isdisjoint(b)


def test_a_device_without_a_way_of_its_own_copies_by_indexing(monkeypatch):
    """Here one with shapes and no memory, so what is asked of it is written down."""
    asked, meta = [], torch.device("meta")  # as a device; a name is refused, since no store can be there
    monkeypatch.setattr(moves, "move_by_index", lambda *asked_for: asked.append(asked_for))
    views, src, dst = [CopyView(torch.empty(2, 5, 1, device=meta))] * 2, Slots([0], 5, meta), Slots([3], 5, meta)
    moves.move(views, src, dst)
    assert asked == [(views[0].lines, src.index, dst.index)] * 2


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


@pytest.mark.gpu
def test_host_memory_behind_a_gpu_is_pinned_whatever_the_default_device_is():
    store = filled(device="cuda")
    with torch.device("cuda"):
        host = store.in_host_memory(2)
        assert host._memory.is_pinned()
        host.take_pages(store, [1], [0])
        store.take_pages(host, [0], [2])
    assert same(store.read(0, [8]), store.read(0, [4]))


# -- what is wrong is said, and nothing has changed -------------------------------------------------------------------

K, V = torch.zeros(2, 2, 4), torch.zeros(2, 2, 4)
EVERY_SLOT = "this store has slots 0 to 23"
WRONG = [
    ("write", (0, [1, 24], K, V), f"ValueError: slots[1] is 24: {EVERY_SLOT}"),
    ("write", (0, [3, 3], K, V), "ValueError: slots[1] is 3: it appears twice"),
    ("write", (3, [0, 1], K, V), "ValueError: layer is 3: this store has layers 0 to 2"),
    ("write", (0, [1, 2, 3], K, V), "ValueError: k has shape (2, 2, 4): expected (3, 2, 4), a row"),
    ("write", (0, [1, 2], K, V[..., :3]), "ValueError: v has shape (2, 2, 3)"),
    ("write", (0, [1, 2], K, V.half()), "TypeError: v is of torch.float16: this store keeps"),
    ("write", (0, [1, 2], K.tolist(), V), "TypeError: k is a list: expected a tensor"),
    ("write", (0, [1, 2], K, V.to("meta")), "ValueError: v is on meta: this store is on cpu"),
    ("read", (0, [-1]), "ValueError: slots[0] is -1"),
    ("read", (0, np.array([1, 24])), f"ValueError: slots[1] is 24: {EVERY_SLOT}"),
    ("read", (0, np.array([1, -1], np.int32)), "ValueError: slots[1] is -1"),
    ("read", (0, [0.5]), "TypeError: slots[0] is 0.5"),
    ("read", (0, Slots([30], limit=99)), f"ValueError: slots[0] is 30: {EVERY_SLOT}"),
    ("read", (-1, [0]), "ValueError: layer is -1"),
    ("read", ("0", [0]), "TypeError: layer is '0'"),
    ("copy", (torch.tensor([-1]), [0]), "ValueError: src_slots[0] is -1"),
    ("copy", ([1, 2], [3]), "ValueError: src_slots are 2 and dst_slots are 1: expected the same number"),
    ("copy", ([1, 2, 3], [4, 5, 4]), "ValueError: dst_slots[2] is 4: it appears twice"),
    ("copy", ([24], [0]), f"ValueError: src_slots[0] is 24: {EVERY_SLOT}"),
    ("copy", ([0], [24]), "ValueError: dst_slots[0] is 24"),
    ("copy_pages", ([0], [6]), "ValueError: dst_pages[0] is 6: this store has pages 0 to 5"),
    ("take_pages", (KVStore(UNEVEN, 6, 4), [1], [1]), "ValueError: source has shape KVShape(num_layers=2"),
    ("take_pages", (KVStore(EVEN, 6, 4), [1], [1]), "ValueError: source has dtype torch.float16: this store has "),
    ("take_pages", (KVStore(EVEN, 6, 2), [1], [1]), "ValueError: source has page_size 2: this store has 4"),
    ("take_pages", (filled(), [6], [1]), "ValueError: src_pages[0] is 6"),
    ("take_pages", (filled(), [1], [6]), "ValueError: dst_pages[0] is 6"),
    ("take_pages", (K, [1], [1]), "TypeError: source is tensor"),
    ("take_pages", (None, [1], [2]), "TypeError: source is None: expected another KVStore"),
]


@pytest.mark.parametrize(("verb", "arguments", "words"), WRONG)
@both_layouts
def test_what_is_wrong_is_said_before_a_byte_moves(verb, arguments, words, layout):
    store = filled(layout=layout)
    before = store._memory.clone()
    assert said(getattr(store, verb), *arguments).startswith(words)
    assert torch.equal(store._memory, before)
    store.check()


def test_a_store_takes_no_pages_of_its_own():
    store = filled()
    assert said(store.take_pages, store, [1], [2]).endswith("expected another KVStore")


NO_ROOM = "ValueError: num_pages is 2147483648: "
NO_STORES = [
    ((KVShape(2, latent_dim=8), 1), {}, "ValueError: latent_dim is 8"),
    ((EVEN, 0), {}, "ValueError: num_pages is 0: a store has"),
    ((EVEN, 1, 0), {}, "ValueError: page_size is 0: a page holds"),
    ((EVEN, 2**31, 2), {}, "ValueError: num_pages x page_size is 4294967296"),
    (
        (KVShape(64, 64, 512), 2**31),
        {},
        f"{NO_ROOM}the memory of cpu has no room for a store of 18014398509481984 bytes",
    ),
    ((KVShape(10**6, 10**6, 10**6), 2**31), {}, f"{NO_ROOM}a store has less than 2**63 bytes, not 8589934592000"),
    ((KVShape(*[2**62] * 3, v_head_dim=2**62), 2**31), {}, f"{NO_ROOM}a store has less than 2**63 bytes"),
    ((EVEN, 1), {"layout": "head"}, "ValueError: layout is 'head': expected one of page, layer"),
    ((EVEN, 1), {"dtype": "int4"}, "ValueError: dtype is 'int4': expected one of fp32"),
    ((EVEN, 1), {"dtype": torch.int8}, "ValueError: dtype is torch.int8"),
    *(
        ((EVEN, 1), {"device": odd}, "ValueError: device is ")
        for odd in ("nowhere", "cuda:99", -1, 2**70, 1.5, [], None)
    ),
    ((EVEN, 1), {"device": "meta"}, "ValueError: device is 'meta': expected one that keeps bytes"),
    *(((odd, 2), {}, "TypeError: shape is ") for odd in (5, True, None, "llama-3.1-8b")),
]


@pytest.mark.parametrize(("arguments", "named", "words"), NO_STORES, ids=lambda part: str(part)[:60])
def test_a_store_that_cannot_be_is_refused(arguments, named, words):
    assert said(KVStore, *arguments, **named).startswith(words)


def test_numbers_are_named_with_their_rule():
    assert said(filled().rows, -1).startswith("ValueError: count is -1: a view has")
    assert said(Slots, [0], 0).startswith("ValueError: limit is 0: a store has")
    assert said(Slots, [0], 4, "gpu").startswith("ValueError: device is 'gpu'")


# -- slots ------------------------------------------------------------------------------------------------------------


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


def test_the_representations_are_fit_for_a_lesson():
    assert repr(filled()) == "KVStore(6 pages of 4, 3 layers, 2 KV heads, torch.float32, layout='page', 4,608 bytes)"
    assert repr(Slots(range(8), limit=12)) == "Slots([0, 1, 2, 3, 4, 5, 6, 7])"
    assert repr(Slots(range(9), limit=12)) == "Slots([0, 1, 2, 3, 4, 5, 6, 7, ... 9 in all])"


# -- where things lie -------------------------------------------------------------------------------------------------


@both_shapes
@both_layouts
def test_a_picture_of_a_store_has_every_piece_in_the_order_of_memory(shape, layout):
    store = KVStore(shape, 4, layout=layout)
    sides = [f"{letter}{layer}" for layer in range(shape.num_layers) for letter in "KV"]
    in_order = [(side, slot) for slot in range(4) for side in sides]
    if layout == "layer":
        in_order = [(side, slot) for side in sides for slot in range(4)]
    assert store.pieces() == in_order
    picture = draw(store, new=[2])
    assert picture.text.count("[2]n") == len(sides)
    assert all(picture.svg.count(f">{name}</text>") == 4 for name in sides)
    assert draw(KVStore(EVEN, 1000)).text.splitlines()[0].endswith("the memory, the first 400 shown")


def elsewhere(views):
    return [CopyView(views[0].lines.clone())]


MISPLACED = [
    ("_slots", lambda views: [], "the planes cover 0 of"),
    ("_slots", elsewhere, "slots 0 is not where"),
    ("_pages", elsewhere, "pages 0 is not where"),
    ("_layers", lambda layers: layers[1:], "K and V cover"),
    ("_layers", lambda layers: layers[::-1], "k of layer 0 is not where"),
    ("_layers", lambda layers: [(v, k) for k, v in layers], "k of layer 0 is not where"),
    ("_layers", lambda layers: [*layers[:2], (layers[2][0],) * 2], "v of layer 2 is not where"),
    ("_memory", lambda memory: memory[:-1], "4607 bytes for 24 x 192"),
]


@both_layouts
@pytest.mark.parametrize(("attribute", "change", "words"), MISPLACED)
def test_check_finds_what_is_elsewhere(attribute, change, words, layout):
    store = filled(EVEN, layout)
    setattr(store, attribute, change(getattr(store, attribute)))
    with pytest.raises(InvariantError, match=words):
        store.check()


# -- the kernel -------------------------------------------------------------------------------------------------------


@every_device
@pytest.mark.parametrize("item", [torch.uint8, torch.int32, torch.int64, torch.complex128])
def test_the_triton_kernel_agrees_with_indexing(item, device, monkeypatch):
    """Without a GPU in Triton's interpreter. The lines of a plane have bytes between them that are not its own."""
    triton = pytest.importorskip("triton", reason="Triton is not installed")
    if device == "cpu":
        monkeypatch.setenv("TRITON_INTERPRET", "1")
        monkeypatch.setattr(triton_copy, "_kernel", triton.jit(triton_copy._copy_rows))
    src, dst = torch.tensor([[3, 1, 7, 3], [0, 8, 2, 5]], device=device)  # one row goes to two places
    for outer, width in itertools.product((1, 3), (5, 1024, 1500)):
        sizes = (outer, 9, width), (9 * width + 7, width, 1)
        memory = torch.arange(outer * (9 * width + 7), device=device).remainder(199).to(item)
        expected = memory.clone()
        move_by_index(expected.as_strided(*sizes), src, dst)
        triton_copy.move_rows(memory.as_strided(*sizes), src, dst)
        assert torch.equal(memory, expected)


@pytest.mark.parametrize(("word", "wide"), [("i8", r"\.v2\.b32|\.b64"), ("i32", r"\.v4\.b32"), ("i64", r"\.v2\.b64")])
def test_the_triton_kernel_compiles_for_an_nvidia_gpu_where_there_is_none(word, wide, tmp_path, monkeypatch):
    """The interpreter takes what the compiler does not; and aligned rows are to be read 16 bytes at a time."""
    pytest.importorskip("triton", reason="Triton is not installed")
    from triton import compile as build
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    kinds = {"memory": f"*{word}", "src": "*i64", "dst": "*i64", "outer_stride": "i64", "row_stride": "i32"}
    signature = {**kinds, "words": "i32", "block": "constexpr"}
    aligned = {(place,): [["tt.divisibility", 16]] for place in range(6)}
    made = build(
        ASTSource(triton_copy._kernel, signature, {"block": triton_copy.BLOCK}, aligned),
        target=GPUTarget("cuda", 80, 32),
    )
    for way in "ld", "st":
        assert re.search(rf"{way}\.global({wide})", made.asm["ptx"])
    assert made.asm["cubin"]


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

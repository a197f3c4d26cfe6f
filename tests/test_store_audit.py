"""A store says what is wrong before a byte moves; its audit and its picture say where everything is."""

import numpy as np
import pytest
from refusals import said
from test_store import EVEN, UNEVEN, both_layouts, both_shapes, filled

torch = pytest.importorskip("torch")

from minikv import InvariantError, KVShape, KVStore, Slots, draw  # noqa: E402
from minikv.store.moves import CopyView  # noqa: E402

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


def test_numbers_are_named_with_their_rule_and_a_store_takes_no_pages_of_its_own():
    store = filled()
    assert said(store.take_pages, store, [1], [2]).endswith("expected another KVStore")
    assert said(store.rows, -1).startswith("ValueError: count is -1: a view has")
    assert said(Slots, [0], 0).startswith("ValueError: limit is 0: a store has")
    assert said(Slots, [0], 4, "gpu").startswith("ValueError: device is 'gpu'")


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

"""A store says what is wrong before a byte moves; its audit and its picture say where everything is."""

import numpy as np
import pytest
from golden_text import replay
from refusals import said
from test_store import EVEN, UNEVEN, both_layouts, both_shapes, filled

torch = pytest.importorskip("torch")

from minikv import InvariantError, KVShape, KVStore, Slots, draw  # noqa: E402
from minikv.store.moves import CopyView  # noqa: E402

K, V = torch.zeros(2, 2, 4), torch.zeros(2, 2, 4)
NAMES = {"torch": torch, "np": np, "K": K, "V": V, "Slots": Slots, "KVShape": KVShape, "KVStore": KVStore,
         "EVEN": EVEN, "UNEVEN": UNEVEN, "filled": filled}  # fmt: skip


@both_layouts
def test_what_is_wrong_is_said_before_a_byte_moves(layout):
    def act(line):
        store = filled(layout=layout)
        before = store._memory.clone()
        says = said(exec, line, {"store": store, **NAMES})
        assert says
        assert torch.equal(store._memory, before)
        store.check()
        return [says]

    replay("refused_stores.txt", "calls", act)


def test_a_store_that_cannot_be_is_refused():
    replay("refused_stores.txt", "stores", lambda line: [said(exec, line, {**NAMES})])


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

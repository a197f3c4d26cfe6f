"""The ways of copying rows: on a CPU, by indexing and by a kernel of Triton, all of them the same."""

import itertools
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_store import every_device

torch = pytest.importorskip("torch")

from minikv import Slots, page_slots  # noqa: E402
from minikv.store import moves, triton_copy  # noqa: E402
from minikv.store.moves import LONG_RUN, MANY, CopyView, disjoint, move_by_index, move_on_cpu, runs  # noqa: E402


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

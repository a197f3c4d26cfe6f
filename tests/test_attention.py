"""Attention in parts: who shares which slots, and that parts joined give what the whole would."""

import random

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from llamas import everywhere, llama, store_for

from minikv.serving.attention import attend, attend_in_blocks
from minikv.serving.batch import WORTH, Batch, BatchPart, prefixes_of_rows
from minikv.serving.model import Chunk

KINDS = {"MHA": 4, "GQA": 2, "MQA": 1}
MODELS = {(kind, dtype): llama(seed=heads, num_key_value_heads=heads, dtype=dtype)
          for kind, heads in KINDS.items() for dtype in (torch.float32, torch.float64)}  # fmt: skip
SLOTS = 2048


def arrays(rows):
    return [np.array(row, np.int32) for row in rows]


# -- who shares -----------------------------------------------------------------------------------------------------


@given(st.lists(st.lists(st.integers(0, 1), max_size=9), max_size=7), st.just(1) | st.integers(2, 12))
def test_each_part_is_a_run_of_slots_that_its_members_share_and_nobody_else(rows, worth):
    """With `worth` 1 a slot is read as often as there are different prefixes that end in it, and no more."""
    found = prefixes_of_rows(arrays(rows), worth)
    for members, start, stop in found:
        head = rows[members[0]][:stop]
        assert members == tuple(i for i, row in enumerate(rows) if row[:stop] == head and len(row) >= stop)
        assert (len(members) - 1) * (stop - start) >= worth
    own = []
    for i in range(len(rows)):
        mine = sorted((part.start, part.stop) for part in found if i in part.members)
        ends = [0, *(stop for _, stop in mine)]
        assert [start for start, _ in mine] == ends[:-1]
        own.append(len(rows[i]) - ends[-1])
    if worth == 1:
        read = sum(part.stop - part.start for part in found) + sum(own)
        assert read == len({tuple(row[: end + 1]) for row in rows for end in range(len(row))})


def test_a_prefix_that_would_save_too_little_is_not_shared():
    rows = arrays([[*range(WORTH - 1), 5000], [*range(WORTH - 1), 6000]])
    assert prefixes_of_rows(rows) == []
    assert prefixes_of_rows([*rows, rows[0]]) == [((0, 1, 2), 0, WORTH - 1)]


def test_sharing_is_a_part_for_all_and_nothing_is_read_twice():
    decoding = [Chunk([1], 502, [*range(500), 600 + i, 610 + i, 620 + i]) for i in range(4)]
    batch = Batch([*decoding, Chunk([1, 2, 3], 500, [*range(500), 700, 701, 702])], 23, torch.zeros(1))
    assert batch.num_own == 2
    assert batch.parts == [
        BatchPart(slice(0, 4), size=4, slots=slice(0, 12)),  # decoding
        BatchPart(slice(4, 7), size=1),  # a chunk by itself
        BatchPart(slice(0, 7), size=1, slots=slice(12, 512)),
    ]
    assert len(batch.reads) == 512


# -- one part --------------------------------------------------------------------------------------------------------


def plain(q, k, v, hidden=None):
    scores = q.double() @ k.double().transpose(-1, -2) * q.shape[-1] ** -0.5
    scores = scores if hidden is None else scores.masked_fill(hidden, float("-inf"))
    return scores.softmax(-1) @ v.double(), scores.logsumexp(-1)


@pytest.mark.parametrize("way", [attend, attend_in_blocks])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_each_way_attends_as_the_formula_says(way, dtype, monkeypatch):
    monkeypatch.setattr("minikv.serving.attention.SCORES", 50)  # so few that there are many blocks
    torch.manual_seed(0)
    q, k, v = (torch.randn(3, 2, 7, 8, dtype=dtype) for _ in "qkv")
    mask = torch.zeros(3, 1, 1, 7, dtype=dtype)
    mask[1, ..., 4:] = float("-inf")
    close = {torch.bfloat16: 2e-2, torch.float32: 1e-5, torch.float64: 1e-12}[dtype]
    hidden = torch.ones(7, 7, dtype=torch.bool).triu(1)
    for options, hides in (({}, None), ({"causal": True}, hidden), ({"mask": mask}, mask < 0)):
        for got, expected in zip(way(q, k, v, **options), plain(q, k, v, hides)):
            assert (got - expected).abs().max() < close, options


# -- a step whose chunks share slots ------------------------------------------------------------


def family(chance, page_size):
    """The rows of sequences that share prefixes of whole pages, nested or disjoint."""
    order = range(SLOTS // page_size)
    pages = iter(order if chance.random() < 0.5 else chance.sample(order, len(order)))

    def run(most):
        taken = [next(pages) for _ in range(-(-chance.randint(2, most) // page_size))]
        return [page * page_size + i for page in taken for i in range(page_size)]

    trunks = [[]]
    for _ in range(chance.randint(1, 4)):
        trunks.append(chance.choice(trunks) + run(160))
    return [chance.choice(trunks[-2:] + trunks) + run(20) for _ in range(chance.randint(2, 7))]


@settings(max_examples=60)
@given(
    st.sampled_from([*MODELS]), st.sampled_from([1, 2, 16]), st.sampled_from(["page", "layer"]), st.integers(0, 10**6)
)
def test_logits_are_those_of_each_sequence_alone_however_slots_are_shared(kind, page_size, layout, seed):
    model, close, chance = MODELS[kind], 1e-4 if kind[1] == torch.float32 else 1e-9, random.Random(seed)
    rows, store = family(chance, page_size), store_for(model, SLOTS, page_size, layout=layout)
    tokens = [[slot * 7 % 23 for slot in row] for row in rows]
    alone = [model.forward(everywhere([Chunk(ids, 0, row)]), store) for ids, row in zip(tokens, rows)]
    starts = [len(row) - chance.choice((1, 1, 1, 2, page_size)) for row in rows]
    chunks = [Chunk(ids[at:], at, np.array(row, np.int32)) for ids, at, row in zip(tokens, starts, rows)]
    for wanted in (len, lambda ids: 1, lambda ids: chance.randint(1, len(ids))):  # logits of all, one or some tokens
        asked = [chunk._replace(num_logits=wanted(chunk.tokens)) for chunk in chunks]
        expected = torch.cat([one[-chunk.num_logits :] for one, chunk in zip(alone, asked)])
        assert (model.forward(asked, store) - expected).abs().max() < close


def test_no_tensor_of_width_times_length_is_made():
    """A prompt of 3,000 tokens in two chunks: a mask would be larger than all keys and values."""
    model, sizes = MODELS["GQA", torch.float32], []

    class Watch(torch.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            made = func(*args, **(kwargs or {}))
            several = made if isinstance(made, (tuple, list)) else [made]
            sizes.extend(tensor.untyped_storage().nbytes() for tensor in several if isinstance(tensor, torch.Tensor))
            return made

    store = store_for(model, 3000)
    with Watch():
        for at in (0, 1500):
            model.forward([Chunk([1] * 1500, at, range(at + 1500))], store)
    assert 0 < max(sizes) <= max(1500 * 40 * 4, store.nbytes) < 1500 * 1500 * 4

"""A model with windowed layers: what each token sees, two stores, and the same tokens with and without the cache."""

import pytest
import torch
from llamas import everywhere, llama
from refusals import said

from minikv import CacheManager, Chunk, Engine, Llama, NoCache, Scheduler, WindowedManager, WindowedPool, asset
from minikv.serving.windowed_llama import WindowedStore, windowed_llama


class Dense:
    """Attention written out: every score of one whole sequence, and a mask that says who sees whom."""

    def __init__(self, windowed, window):
        self.windowed, self.window = windowed, window

    def write(self, layer, k, v):
        pass

    def __call__(self, layer, q, k, v):
        distance = torch.arange(len(q))[:, None] - torch.arange(len(q))
        window = self.window if layer in self.windowed else len(q)
        keys, values = (side.repeat_interleave(q.shape[1] // side.shape[1], 1) for side in (k, v))
        scores = torch.einsum("qhd,khd->hqk", q, keys) * q.shape[2] ** -0.5
        scores[:, (distance < 0) | (distance >= window)] = float("-inf")
        return torch.einsum("hqk,khd->qhd", scores.softmax(-1), values)


def fresh(model, windowed, pages=64, window_pages=64, page_size=1):
    pool = WindowedPool(pages, window_pages)
    return pool, WindowedStore(model.shape, windowed, pool, page_size, dtype=model.dtype)


@pytest.mark.parametrize("window", [1, 2, 3, 7, 50])
@pytest.mark.parametrize("windowed", [{0}, {1}, {0, 2}])
def test_the_logits_are_those_of_attention_written_out(windowed, window):
    plain = llama(num_hidden_layers=3)
    tokens = torch.randint(plain.vocab_size, (20,), generator=torch.Generator().manual_seed(window)).tolist()
    dense = Llama(plain.config, plain.weights, lambda *_: Dense(windowed, window))
    expected = dense.forward(everywhere([Chunk(tokens, 0, range(20))]), None)
    model, (pool, store) = windowed_llama(plain, window), fresh(plain, windowed)
    slots = pool.alloc(20)
    first, later = Chunk(tokens, 0, slots), Chunk(tokens[12:], 12, slots)
    assert torch.allclose(model.forward(everywhere([first]), store), expected, atol=1e-5)
    pool.free_window(slots[: max(0, 12 - window + 1)])  # nobody reads those any more
    assert torch.allclose(model.forward(everywhere([later]), store), expected[12:], atol=1e-5)
    assert torch.allclose(model.forward([later], store), expected[-1:], atol=1e-5)


def test_a_window_page_that_is_read_and_gone_is_an_error():
    model = windowed_llama(llama(), window=4)
    pool, store = fresh(model, {0}, page_size=2)
    assert pool.alloc(3).tolist() == [0, 1, 2]
    model.forward([Chunk([1, 2, 3, 4, 5], 0, range(5))], store)
    pool.free_window([1])
    says = said(model.forward, [Chunk([6], 5, range(6))], store)
    assert says == "ValueError: slots[0] is 2: page 1 has no window page"


def test_another_store_is_refused():
    model = windowed_llama(llama(), window=4)
    assert "store is None: a model with windowed layers" in said(model.forward, [Chunk([1], 0, [0])], None)


@pytest.mark.parametrize("windowed", [[], [0, 1], [2], [-1]])
def test_layers_that_are_not_there_are_refused(windowed):
    assert "ValueError: windowed is " in said(fresh, llama(), windowed)


TURNS = b"Where does the evicted page go, ", b" and who reads it next? Tell me in one line", b" or two."


def converse(engine, head):
    """A conversation of three turns behind `head`: all answers, and how many tokens were found in the cache."""
    said, answers, cached = [*head], [], 0
    for turn in TURNS:
        request = engine.submit([*said, *turn], 6)
        while not request.is_over:
            engine.step()
            engine.manager.check()
        answers.append(request.output)
        cached += request.cached_tokens
        said += [*turn, *request.output]
    return answers, cached


@pytest.fixture(scope="module")
def small():
    return Llama.from_folder(asset("model"))


@pytest.mark.parametrize(("page_size", "window", "window_pages"), [(1, 16, 170), (4, 24, 44), (16, 5, 14)])
def test_the_tokens_are_the_same_with_and_without_the_cache(small, page_size, window, window_pages):
    """Greedy; three conversations with one head, one after the other and again, in window pages for one of them."""
    model, heads, windowed = windowed_llama(small, window), [b"Hello. ", b"Hello. You are", b"Good day. "], {0, 2, 3}
    pool, store = fresh(model, windowed, 1024 // page_size, 1024 // page_size, page_size)
    plain = CacheManager(pool.size, page_size, NoCache(page_size), pool, store)
    expected = [converse(Engine(model, plain), head)[0] for head in heads]

    pool, store = fresh(model, windowed, 1024 // page_size, window_pages, page_size)
    manager = WindowedManager(pool, window, page_size, store)
    engine = Engine(model, manager, Scheduler(manager, token_budget=64, max_running=4))
    cold = [converse(engine, head) for head in heads]
    warm = [converse(engine, head) for head in heads]
    assert [answers for answers, _ in cold + warm] == expected * 2
    assert min(cached for _, cached in warm) > 100
    assert manager.cache.window_evictable_size <= window_pages * page_size < manager.cache.total_size

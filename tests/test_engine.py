"""The engine with a model that reads fingerprints: what comes out, what it took, and what is left behind."""

import contextlib
from types import SimpleNamespace
from unittest import mock

import numpy as np
import pytest
from chats import assert_nothing_leaked
from refusals import said

from minikv import (
    CacheManager,
    Canary,
    CanaryModel,
    Engine,
    KVShape,
    NoCache,
    RadixCache,
    Request,
    Sampler,
    SamplingParams,
    Scheduler,
)
from minikv.serving import Chunk

PROMPTS = [[1, 2, 3, 4, 5], [1, 2, 3, 9], [7], [1, 2, 3, 4, 5]]


def engine_of(num_pages=64, page_size=1, cached=True, eos=(), vocab_size=50, **scheduling):
    cache = RadixCache(page_size) if cached else NoCache(page_size)
    manager = CacheManager(num_pages, page_size, prefix_cache=cache)
    model = CanaryModel(vocab_size, eos, Canary(cache, writes=False))
    return Engine(model, manager, Scheduler(manager, **scheduling))


def assert_nothing_left(engine):
    assert_nothing_leaked(engine.manager)


def warm(max_new_tokens, seed):
    return SamplingParams(max_new_tokens, temperature=0.8, seed=seed)


def answers(engine, prompts, params):
    return [result.tokens for result in engine.generate(prompts, params)]


def alone(prompt, params):
    """The answer to `prompt` of an engine that does nothing else."""
    return answers(engine_of(), [prompt], params)[0]


# -- what comes out ---------------------------------------------------------------------------------------------------


def test_counts_of_one_request():
    """Seven tokens in chunks of three take three steps to the first token; then one step a token."""
    engine = engine_of(token_budget=3, max_running=2)
    (result,) = engine.generate([range(7)], 4)
    assert (result.prompt, result.cached, result.computed, result.generated) == (7, 0, 10, 4)
    assert (result.first_token_steps, result.preemptions, result.reason) == (3, 0, "length")
    assert engine.scheduler.step == 6
    (other,) = engine.generate([range(7)], 1, namespace="b")
    assert (other.cached, other.first_token_steps) == (0, 3)


@pytest.mark.parametrize("page_size", [1, 16])
def test_a_step_looks_at_what_it_computes_and_copies_no_row(page_size, monkeypatch):
    """However long the context is: a step that reads all tokens, or takes a copy of all slots, fails here."""
    engine, rows = engine_of(64 // page_size + 8, page_size), []
    request, forward = engine.submit(range(40), 20), engine.model.forward
    engine.step()
    for name in ("tokens", "slots", "pages"):
        looked = property(lambda self: pytest.fail("a step looked at the whole sequence"))
        monkeypatch.setattr(type(request.sequence), name, looked)
    engine.model.forward = lambda chunks, store: rows.append(chunks[0].slots) or forward(chunks, store)
    for _ in range(18):
        engine.step()
    assert [len(row) for row in rows] == list(range(41, 59))
    assert not any(row.flags.writeable for row in rows)


def test_an_end_token_ends_it_and_is_part_of_the_answer():
    (everything,) = answers(engine_of(vocab_size=4), [[1, 2]], 20)
    (stopping,) = engine_of(vocab_size=4, eos=[everything[3]]).generate([[1, 2]], 20)
    assert stopping.tokens == everything[: everything.index(everything[3]) + 1]
    (in_time,) = engine_of(vocab_size=4, eos=[everything[3]]).generate([[1, 2]], len(stopping.tokens))
    assert stopping.reason == in_time.reason == "stop"


def test_what_is_sampled_depends_on_nobody_else():
    """The same prompt, alone and in a crowd, in another place and preempted: the same tokens from the same seed."""
    engine, prompts = engine_of(13, max_running=3), [[5, 6], [7, 7, 7], [1, 2, 3]]
    crowd = engine.generate(prompts, [warm(8, seed) for seed in (1, 2, 3)])
    assert crowd[2].preemptions
    assert [result.tokens for result in crowd] == [alone(prompt, warm(8, n)) for n, prompt in enumerate(prompts, 1)]
    assert alone([1, 2, 3], warm(8, 4)) != crowd[2].tokens
    assert_nothing_left(engine)


# -- streaming --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fails", [False, True])
def test_a_stream_that_is_closed_is_aborted_to_the_end_even_if_one_fails(fails):
    engine = engine_of()
    stream = engine.stream(PROMPTS, 30)
    request = next(stream).request
    broken = mock.patch.object(engine.manager.cache, "unlock", side_effect=MemoryError)
    with broken if fails else contextlib.nullcontext(), contextlib.suppress(MemoryError):
        stream.close()
        assert not fails
    assert (request.reason, engine.scheduler.running, engine.scheduler.waiting) == ("aborted", [], [])
    engine.generate([[1]], 1)  # what could not be given back goes with the next
    assert_nothing_left(engine)


def test_two_streams_on_one_engine_lose_nothing():
    """Each step computes for both: what came out while the other was listened to is told when its turn comes."""
    engine, expected = engine_of(), answers(engine_of(), [[1, 2, 3], [9, 8]], 6)
    streams = engine.stream([[1, 2, 3]], 6), engine.stream([[9, 8]], 6)
    heard = [[event.token for event in pair] for pair in zip(*zip(*streams))]
    assert heard == expected
    assert_nothing_left(engine)


def test_a_request_that_ends_right_after_a_look_at_its_output_loses_no_token():
    """Another caller steps in between: the look finds nothing new, and after it the request is over."""
    engine = engine_of()

    class Output(list):
        looks = 0

        def __len__(self):
            known = super().__len__()
            self.looks += 1
            if self.looks == 1:
                engine.step()
            return known

    stream = engine.stream([[1, 2, 3]], 2)
    first = next(stream)
    first.request.output = Output(first.request.output)
    assert [first.token, *(event.token for event in stream)] == alone([1, 2, 3], 2)


def test_who_is_aborted_by_another_ends_its_stream():
    engine = engine_of()
    stream = engine.stream([[1, 2, 3]], 30)
    engine.abort(next(stream).request)
    assert list(stream) == engine.step() == []
    assert_nothing_left(engine)


# -- failures ---------------------------------------------------------------------------------------------------------


def test_logits_that_are_none_are_one_requests_trouble():
    """It is named, the others have lost nothing, not even a number of their generators, and go on when it is gone."""
    engine = engine_of()
    forward = engine.model.forward

    def no_numbers(chunks, store):
        logits = forward(chunks, store)
        logits[[list(chunk.tokens)[:1] == [13] for chunk in chunks]] = np.nan
        return logits

    engine.model.forward = no_numbers
    good, bad = engine.submit([1, 2, 3], warm(6, 4)), engine.submit([13, 2, 3], 6)
    for _ in range(3):
        assert "ValueError: request 2: the largest logit is nan" in said(engine.step)
    engine.abort(bad)
    while not good.is_over:
        engine.step()
    assert good.output == alone([1, 2, 3], warm(6, 4))
    assert_nothing_left(engine)


def test_a_model_that_answers_too_little_is_told_so():
    engine = engine_of()
    engine.model.forward = lambda chunks, store: np.zeros((len(chunks) - 1, 50))
    assert "ValueError: the model gave 1 rows of logits: expected 2" in said(engine.generate, [[1], [2]], 1)
    assert_nothing_left(engine)


# -- the canary model -------------------------------------------------------------------------------------------------


def test_a_row_that_mixes_two_prompts_is_found_out():
    model = CanaryModel()
    model.forward([Chunk([1, 2, 3], 0, [0, 1, 2]), Chunk([7, 8, 9], 0, [3, 4, 5])], None)
    for slot, says in (
        (4, "slot 4 is read for token 8 at position 1 of [1, 8]"),
        (40, "slot 40 is read for position 1, but nothing was ever computed into it"),
    ):
        assert f"CanaryError: {says}" in said(model.forward, [Chunk([3], 2, [0, slot, 6])], None)


def test_two_chunks_that_write_one_slot_are_found_out():
    chunks = [Chunk([1, 2], 0, [0, 1]), Chunk([5, 6], 0, [2, 1])]
    assert "CanaryError: slot 1 is read for token 2" in said(CanaryModel().forward, chunks, None)


# -- what is refused -------------------------------------------------------------------------------------------------


STORE = SimpleNamespace(num_pages=8, page_size=1, shape=KVShape(2, 2, 4))


@pytest.mark.parametrize(
    ("act", "words"),
    [
        (lambda e: e.generate([[1], [1, 50]], 2), "ValueError: prompt[1] is 50: the model's tokens are 0 to 49"),
        (lambda e: e.generate([[1], range(8)], 2), "ValueError: 8 prompt and 2 new tokens need 9 pages: the manager"),
        (lambda e: e.generate([[1], [2]], [1]), "ValueError: [1] are 1 sampling parameters for 2 prompts"),
        (lambda e: e.generate([[1]], [1, 2]), "ValueError: [1, 2] are 2 sampling parameters for 1 prompts"),
        (lambda e: e.generate([[]], 1), "ValueError: prompt is empty"),
        (lambda e: SamplingParams(1, seed=None), "TypeError: seed is None"),
        # Found out only when it is its turn, it would stop everybody, step after step.
        (lambda e: e.submit([1], 2, namespace=[1]), "TypeError: namespace is [1]: a namespace must be hashable"),
        (lambda e: Engine(e.model, 5), "TypeError: manager is 5: expected a CacheManager"),
        (lambda e: Engine(5, e.manager), "TypeError: model is 5: expected a Model"),
        (lambda e: Engine(e.model, e.manager, 5), "TypeError: scheduler is 5: expected a Scheduler"),
        (lambda e: Engine(e.model, CacheManager(8), e.scheduler), "ValueError: the scheduler belongs to a different"),
        (lambda e: Engine(e.model, CacheManager(8, store=STORE)), "ValueError: the model needs a store of shape"),
        (lambda e: Sampler(1)(np.array([np.nan, 1.0])), "ValueError: the largest logit is nan"),
    ],
)
def test_what_makes_no_sense_is_refused(act, words):
    engine = engine_of(8)
    assert said(act, engine).startswith(words)
    assert not engine.scheduler.waiting


@pytest.mark.parametrize(
    ("token", "step"),
    [(-1, 1), (None, 1), (5, -1), (5, True)],
)
def test_a_request_that_refuses_a_token_has_not_changed(token, step):
    request = Request([1, 2], 1)
    before = dict(vars(request), output=list(request.output))
    with pytest.raises((TypeError, ValueError), match=r"token is|step is"):
        request.take(token, step)
    assert vars(request) == before


def test_a_request_that_is_over_takes_no_more():
    request = Request([1, 2], 1)
    request.take(3, 1)
    assert "ValueError: request 0 is over (length)" in said(request.take, 4, 2)
    assert (request.output, request.tokens.tolist()) == ([3], [1, 2, 3])


def test_its_tokens_are_put_together_once_for_each_length():
    request = Request(range(1000), 9)
    request.take(7, 1)
    assert request.tokens is request.tokens
    request.take(8, 2)
    assert request.tokens.tolist() == [*range(1000), 7, 8]

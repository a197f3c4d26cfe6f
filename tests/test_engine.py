"""The engine with a model that reads fingerprints: what comes out, what it took, and what is left behind."""

from __future__ import annotations

import contextlib
import itertools
import sys
import threading
from fractions import Fraction
from types import SimpleNamespace
from unittest import mock

import numpy as np
import pytest

from minikv import (
    CacheManager,
    Canary,
    CanaryError,
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
from minikv.serving.model import as_array
from minikv.serving.request import generation

pytestmark = pytest.mark.core

PROMPTS = [[1, 2, 3, 4, 5], [1, 2, 3, 9], [7], [1, 2, 3, 4, 5]]


def engine_of(num_pages=64, page_size=1, cached=True, eos=(), vocab_size=50, **scheduling):
    cache = RadixCache(page_size) if cached else NoCache(page_size)
    manager = CacheManager(num_pages, page_size, prefix_cache=cache)
    model = CanaryModel(vocab_size, eos, Canary(cache, writes=False))
    return Engine(model, manager, Scheduler(manager, **scheduling))


def assert_nothing_left(engine):
    manager = engine.manager
    manager.check()
    assert not manager.sequences
    assert not manager.cache.protected_size
    assert manager.pool.num_free * manager.page_size + manager.cache.total_size == manager.num_pages * manager.page_size


def warm(max_new_tokens, seed):
    return SamplingParams(max_new_tokens, temperature=0.8, seed=seed)


def answers(engine, prompts, params):
    return [result.tokens for result in engine.generate(prompts, params)]


def alone(prompt, params):
    """The answer to `prompt` of an engine that does nothing else."""
    return answers(engine_of(), [prompt], params)[0]


def to_the_end(engine, request):
    while not request.is_over:
        engine.step()
    return request.output


# -- what comes out ---------------------------------------------------------------------------------------------------


def test_the_cache_changes_what_is_computed_and_not_what_comes_out():
    """The results come in the order of the prompts."""
    with_cache, without = engine_of(), engine_of(cached=False)
    expected = [alone(prompt, 5) for prompt in PROMPTS]
    for _ in range(2):
        cached, computed = with_cache.generate(PROMPTS, 5), without.generate(PROMPTS, 5)
        assert [result.tokens for result in cached] == [result.tokens for result in computed] == expected
    assert [result.cached for result in cached + computed] == [4, 3, 0, 4, 0, 0, 0, 0]
    for result, prompt in zip(cached, PROMPTS):
        assert result.cached + result.computed == len(prompt) + 5 - 1
    assert_nothing_left(with_cache)
    assert_nothing_left(without)


def test_counts_of_one_request():
    """Seven tokens in chunks of three take three steps to the first token; then one step a token."""
    engine = engine_of(token_budget=3, max_running=2)
    (result,) = engine.generate([range(7)], 4)
    assert (result.prompt, result.cached, result.computed, result.generated) == (7, 0, 10, 4)
    assert (result.first_token_steps, result.preemptions, result.reason) == (3, 0, "length")
    assert engine.scheduler.step == 6


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
    assert stopping.reason == "stop"


def test_what_is_sampled_depends_on_nobody_else():
    """The same prompt, alone and in a crowd, in another place and preempted: the same tokens from the same seed."""
    engine, prompts = engine_of(13, max_running=3), [[5, 6], [7, 7, 7], [1, 2, 3]]
    crowd = engine.generate(prompts, [warm(8, seed) for seed in (1, 2, 3)])
    assert crowd[2].preemptions
    assert [result.tokens for result in crowd] == [alone(prompt, warm(8, n)) for n, prompt in enumerate(prompts, 1)]
    assert alone([1, 2, 3], warm(8, 4)) != crowd[2].tokens
    assert_nothing_left(engine)


def test_a_seed_may_be_numpys():
    expected = engine_of().generate([[1, 2], [3]], warm(4, 3))
    for params in (warm(4, np.int64(3)), [warm(4, 3), warm(4, 3)]):
        assert engine_of().generate([[1, 2], [3]], params) == expected


# -- sampling ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("temperature", "logits", "picked"),
    [
        (0, [1.0, 5.0, 5.0, 2.0], {1}),  # the lowest of equals
        (0.5, np.array([0.0, 2000.0, 2000.0], np.float32), {1, 2}),  # large ones do not overflow
        (5.0, [-np.inf, 0.0, -np.inf, 0.0], {1, 3}),  # a masked one is never picked
        (1e-310, [0.0, 3.0, 2.9], {1}),
        *[(heat, np.array([1, 5, 2], kind), {1}) for kind in ("i8", "i4", "u1", "f2") for heat in (0, 0.01)],
    ],
)
def test_what_is_picked(temperature, logits, picked, recwarn):
    sampler = Sampler(SamplingParams(temperature=temperature, seed=2))
    assert {sampler(np.array(logits)) for _ in range(100)} == picked
    assert not recwarn.list


def test_sampled_shares_are_those_of_the_softmax():
    sampler, logits = Sampler(SamplingParams(temperature=0.5, seed=1)), np.log(np.array([0.2, 0.3, 0.5]))
    counts = np.bincount([sampler(logits) for _ in range(4000)], minlength=3) / 4000
    expected = np.array([0.04, 0.09, 0.25]) / 0.38
    assert np.abs(counts - expected).max() < 0.03


def test_a_masked_token_is_not_sampled_even_by_the_smallest_number():
    sampler = Sampler(SamplingParams(temperature=1.0))
    sampler._generator = mock.Mock(random=lambda: 0.0)
    assert sampler(np.array([-np.inf, 0.0])) == 1


@pytest.mark.parametrize("half", [np.float32(0.5), np.float64(0.5), Fraction(1, 2)])
def test_a_temperature_is_a_number_of_any_library(half):
    assert SamplingParams(temperature=half) == SamplingParams(temperature=0.5)


@pytest.mark.parametrize("temperature", [10**400, np.bool_(True), -1, float("nan"), "hot", True])
def test_a_temperature_is_a_number_from_0(temperature):
    is_number = isinstance(temperature, (int, float)) and temperature is not True
    with pytest.raises(ValueError if is_number else TypeError, match=r"temperature is .*: 0 picks the likeliest token"):
        SamplingParams(temperature=temperature)


def test_logits_may_be_torch():
    torch = pytest.importorskip("torch")
    assert as_array(torch.tensor([[1.0, 2.0]], dtype=torch.bfloat16)).tolist() == [[1.0, 2.0]]


# -- streaming --------------------------------------------------------------------------------------------------------


def test_a_stream_gives_each_token_as_it_comes():
    engine, by_request = engine_of(), {}
    for request, token in engine.stream(PROMPTS, 3):
        assert request.output[-1] == token
        by_request.setdefault(request.number, []).append(token)
    assert [by_request[number] for number in sorted(by_request)] == answers(engine_of(), PROMPTS, 3)


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


def test_a_stream_is_whole_if_somebody_generates_in_between():
    engine = engine_of()
    stream = engine.stream([[1, 2, 3]], 6)
    heard = [next(stream).token]
    engine.generate([[4, 5]], 10)
    steps = engine.scheduler.step
    heard += [event.token for event in stream]
    assert heard == alone([1, 2, 3], 6)
    assert engine.scheduler.step == steps  # all of it had come out


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
    assert list(stream) == []
    assert_nothing_left(engine)


def test_step_by_step():
    engine = engine_of()
    request = engine.submit([1, 2, 3], 2)
    assert engine.step() == [(request, request.output[0])]
    assert not request.is_over
    engine.step()
    assert (request.is_over, generation(request).tokens) == (True, request.output)
    assert engine.step() == []
    with pytest.raises(ValueError, match=r"cannot abort request 1: it is over \(length\)"):
        engine.abort(request)


# -- failures ---------------------------------------------------------------------------------------------------------


def failing(engine, at, half_way=True):
    """The model of `engine` fails in step number `at`, half-way through the batch or before it."""
    forward, steps = engine.model.forward, itertools.count(1)

    def fails(chunks, store):
        is_now = next(steps) == at
        if is_now and half_way:
            forward(chunks[: len(chunks) // 2 + 1], store)
        if is_now:
            raise KeyboardInterrupt
        return forward(chunks, store)

    engine.model.forward = fails


@pytest.mark.parametrize("half_way", [True, False])
@pytest.mark.parametrize("at", [1, 2, 4])
def test_an_interrupted_generation_leaves_nothing(at, half_way):
    engine = engine_of(16, token_budget=6, max_running=3)
    failing(engine, at, half_way)
    with pytest.raises(KeyboardInterrupt):
        engine.generate(PROMPTS, 6)
    assert_nothing_left(engine)
    assert engine.scheduler.running == engine.scheduler.waiting == []
    assert answers(engine, PROMPTS, 6) == answers(engine_of(), PROMPTS, 6)


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
        with pytest.raises(ValueError, match="request 2: the largest logit is nan"):
            engine.step()
    engine.abort(bad)
    assert to_the_end(engine, good) == alone([1, 2, 3], warm(6, 4))
    assert_nothing_left(engine)


def test_a_model_that_answers_too_little_is_told_so():
    engine = engine_of()
    engine.model.forward = lambda chunks, store: np.zeros((len(chunks) - 1, 50))
    with pytest.raises(ValueError, match="the model gave 1 rows of logits: expected 2"):
        engine.generate([[1], [2]], 1)
    assert_nothing_left(engine)


# -- the canary model -------------------------------------------------------------------------------------------------


def test_a_row_that_mixes_two_prompts_is_found_out():
    model = CanaryModel()
    model.forward([Chunk([1, 2, 3], 0, [0, 1, 2]), Chunk([7, 8, 9], 0, [3, 4, 5])], None)
    with pytest.raises(CanaryError, match=r"slot 4 is read for token 8 at position 1 of \[1, 8\]"):
        model.forward([Chunk([3], 2, [0, 4, 6])], None)
    with pytest.raises(CanaryError, match="slot 40 is read for position 1, but nothing was ever computed into it"):
        model.forward([Chunk([3], 2, [0, 40, 6])], None)


def test_two_chunks_that_write_one_slot_are_found_out():
    with pytest.raises(CanaryError, match="slot 1 is read for token 2"):
        CanaryModel().forward([Chunk([1, 2], 0, [0, 1]), Chunk([5, 6], 0, [2, 1])], None)


# -- several threads ---------------------------------------------------------------------------------------------------

THREADS, ROUNDS = 4, 4


def prompts_of(thread, round):
    """Prompts that share a prefix within a thread and across threads."""
    return [[1, 2, 3, thread, round], [1, 2, 3, thread], [thread, round, 5, 5, 5, 5]]


def work(engine, thread, found, begin):
    """Generate, submit and abort on an engine that others use too; `found` gets the answers."""
    begin.wait()
    for round in range(ROUNDS):
        aborted = engine.submit([7, 7, thread, round], 3)
        with contextlib.suppress(ValueError):  # another thread may have stepped it to its end
            engine.abort(aborted)
        found[thread, round] = answers(engine, prompts_of(thread, round), warm(4, thread))


def test_several_threads_may_use_one_engine():
    """The canary reads what it wrote, the manager's books agree, and each answer is what it is alone."""
    engine, found, begin = engine_of(40, token_budget=8, max_running=3), {}, threading.Barrier(THREADS)
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=work, args=(engine, number, found, begin)) for number in range(THREADS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(before)
    assert_nothing_left(engine)
    assert len(found) == THREADS * ROUNDS
    for (thread, round), said in found.items():
        assert said == answers(engine_of(200), prompts_of(thread, round), warm(4, thread))


# -- what is refused -------------------------------------------------------------------------------------------------


STORE = SimpleNamespace(num_pages=8, page_size=1, shape=KVShape(2, 2, 4))


@pytest.mark.parametrize(
    ("act", "error", "message"),
    [
        (lambda e: e.generate([[1], [1, 50]], 2), ValueError, r"prompt\[1\] is 50: the model's tokens are 0 to 49"),
        (lambda e: e.generate([[1], range(8)], 2), ValueError, "so they never fit"),
        (lambda e: e.generate([[1]], 0), ValueError, "max_new_tokens is 0"),
        (lambda e: e.generate([[1], [2]], [1]), ValueError, "1 sampling parameters for 2 prompts"),
        (lambda e: e.generate([[]], 1), ValueError, "prompt is empty"),
        (lambda e: e.generate([[1]], SamplingParams(1, seed=None)), TypeError, "seed is None"),
        # Found out only when it is its turn, it would stop everybody, step after step.
        (lambda e: e.submit([1], 2, namespace=[1]), TypeError, r"namespace is \[1\]: a namespace must be hashable"),
        (lambda e: Engine(e.model, 5), TypeError, "manager is 5: expected a CacheManager"),
        (lambda e: Engine(5, e.manager), TypeError, "model is 5: expected a Model"),
        (lambda e: Engine(e.model, e.manager, 5), TypeError, "scheduler is 5: expected a Scheduler"),
        (lambda e: Engine(e.model, CacheManager(8), e.scheduler), ValueError, "belongs to a different manager"),
        (lambda e: Engine(e.model, CacheManager(8, store=STORE)), ValueError, "the model needs a store of shape"),
        (lambda e: Sampler(1.0), TypeError, r"max_new_tokens is 1\.0 \(float\), not a whole number"),
        (lambda e: Sampler(1)(np.array([np.nan, 1.0])), ValueError, "the largest logit is nan"),
        *[
            (lambda e, bad=bad: Sampler(1)(np.array(bad)), TypeError, "logits are .*: expected a row of numbers")
            for bad in (["a"], [[1.0]], [True], [None])
        ],
    ],
)
def test_what_makes_no_sense_is_refused(act, error, message):
    engine = engine_of(8)
    with pytest.raises(error, match=message):
        act(engine)
    assert not engine.scheduler.waiting


@pytest.mark.parametrize(
    ("token", "step"),
    [("\0", 1), (-1, 1), (2**32, 1), (None, 1), (True, 1), (5, "1"), (5, -1), (5, True)],
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
    with pytest.raises(ValueError, match=r"request 0 is over \(length\)"):
        request.take(4, 2)
    assert (request.output, request.tokens.tolist()) == ([3], [1, 2, 3])


def test_its_tokens_are_put_together_once_for_each_length():
    request = Request(range(1000), 9)
    request.take(7, 1)
    assert request.tokens is request.tokens
    request.take(8, 2)
    assert request.tokens.tolist() == [*range(1000), 7, 8]

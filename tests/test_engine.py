"""The engine with a model that reads fingerprints: what comes out, what it took, and what is left behind."""

from __future__ import annotations

import contextlib
import sys
import threading
from fractions import Fraction
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
from minikv.serving.model import Model, as_array
from minikv.serving.request import generation

pytestmark = pytest.mark.core


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


PROMPTS = [[1, 2, 3, 4, 5], [1, 2, 3, 9], [7], [1, 2, 3, 4, 5]]


def test_results_come_in_the_order_of_the_prompts():
    engine = engine_of()
    together = engine.generate(PROMPTS, 5)
    alone = [engine_of().generate([prompt], 5)[0].tokens for prompt in PROMPTS]
    assert [result.tokens for result in together] == alone
    assert together[0].tokens == together[3].tokens
    assert_nothing_left(engine)


def test_the_cache_changes_what_is_computed_and_not_what_comes_out():
    with_cache, without = engine_of(), engine_of(cached=False)
    for _ in range(2):
        cached, computed = with_cache.generate(PROMPTS, 5), without.generate(PROMPTS, 5)
        assert [result.tokens for result in cached] == [result.tokens for result in computed]
    assert [result.cached for result in cached] == [4, 3, 0, 4]
    assert [result.cached for result in computed] == [0, 0, 0, 0]
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
    engine = engine_of(64 // page_size + 8, page_size)
    request = engine.submit(range(40), 20)
    engine.step()
    kind = type(request.sequence)
    for name in ("tokens", "slots", "pages"):
        monkeypatch.setattr(kind, name, property(lambda self: pytest.fail("a step looked at the whole sequence")))
    rows = []
    monkeypatch.setattr(engine.model, "forward", spy(rows, engine.model.forward))
    for _ in range(18):
        engine.step()
    assert [len(row) for row in rows] == list(range(41, 59))
    assert not any(row.flags.writeable for row in rows)


def spy(rows, forward):
    """`forward`, which notes in `rows` the slots of the first chunk."""

    def noted(chunks, store):
        rows.append(chunks[0].slots)
        return forward(chunks, store)

    return noted


def test_an_end_token_ends_it_and_is_part_of_the_answer():
    everything = engine_of(vocab_size=4).generate([[1, 2]], 20)[0].tokens
    stopping = engine_of(vocab_size=4, eos=[everything[3]]).generate([[1, 2]], 20)[0]
    assert stopping.tokens == everything[: everything.index(everything[3]) + 1]
    assert stopping.reason == "stop"


def test_preemption_changes_no_token():
    roomy, tight = engine_of(64), engine_of(13)
    prompts = [[1, 2, 3], [4, 5], [1, 2, 9]]
    expected, found = roomy.generate(prompts, 7), tight.generate(prompts, 7)
    assert sum(result.preemptions for result in found) > 0
    assert [result.tokens for result in found] == [result.tokens for result in expected]
    assert_nothing_left(tight)


# -- sampling ---------------------------------------------------------------------------------------------------------


def test_what_is_sampled_depends_on_nobody_else():
    """The same prompt, alone and in a crowd, in another place and preempted: the same tokens from the same seed."""
    alone = engine_of().generate([[1, 2, 3]], warm(8, 3))[0].tokens
    crowd = engine_of(16, max_running=3).generate([[5, 6], [7], [1, 2, 3]], [warm(8, seed) for seed in (1, 2, 3)])
    assert crowd[2].tokens == alone
    assert engine_of().generate([[1, 2, 3]], warm(8, 4))[0].tokens != alone


def test_greedy_takes_the_lowest_of_equals():
    assert Sampler(SamplingParams())(np.array([1.0, 5.0, 5.0, 2.0])) == 1


def test_sampled_shares_are_those_of_the_softmax():
    sampler, logits = Sampler(SamplingParams(temperature=0.5, seed=1)), np.log(np.array([0.2, 0.3, 0.5]))
    counts = np.bincount([sampler(logits) for _ in range(4000)], minlength=3) / 4000
    expected = np.array([0.04, 0.09, 0.25]) / 0.38
    assert np.abs(counts - expected).max() < 0.03


def test_large_logits_do_not_overflow():
    sampler = Sampler(SamplingParams(temperature=0.5, seed=2))
    assert {sampler(np.array([0.0, 2000.0, 2000.0], np.float32)) for _ in range(50)} == {1, 2}


def test_a_masked_token_is_never_sampled():
    sampler = Sampler(SamplingParams(temperature=5.0))
    assert {sampler(np.array([-np.inf, 0.0, -np.inf, 0.0])) for _ in range(200)} == {1, 3}


def test_a_masked_token_is_not_sampled_even_by_the_smallest_number():
    sampler = Sampler(SamplingParams(temperature=1.0))
    sampler._generator = mock.Mock(random=lambda: 0.0)
    assert sampler(np.array([-np.inf, 0.0])) == 1


def test_a_temperature_close_to_0_takes_the_likeliest_token_without_a_warning(recwarn):
    sampler = Sampler(SamplingParams(temperature=1e-310))
    assert [sampler(np.array([0.0, 3.0, 2.9])) for _ in range(5)] == [1] * 5
    assert not recwarn.list


@pytest.mark.parametrize("half", [np.float32(0.5), np.float64(0.5), Fraction(1, 2)])
def test_a_temperature_is_a_number_of_any_library(half):
    assert SamplingParams(temperature=half) == SamplingParams(temperature=0.5)


@pytest.mark.parametrize(
    ("temperature", "error"),
    [
        (10**400, ValueError),
        (np.bool_(True), TypeError),
        (-1, ValueError),
        (float("nan"), ValueError),
        ("hot", TypeError),
        (True, TypeError),
    ],
)
def test_a_temperature_is_a_number_from_0(temperature, error):
    with pytest.raises(error, match=r"temperature is .*: 0 picks the likeliest token"):
        SamplingParams(temperature=temperature)


def test_logits_that_are_none_are_refused():
    with pytest.raises(ValueError, match="the largest logit is nan"):
        Sampler(SamplingParams())(np.array([np.nan, 1.0]))


def test_logits_may_be_torch():
    torch = pytest.importorskip("torch")
    assert as_array(torch.tensor([[1.0, 2.0]], dtype=torch.bfloat16)).tolist() == [[1.0, 2.0]]


# -- streaming --------------------------------------------------------------------------------------------------------


def test_a_stream_gives_each_token_as_it_comes():
    engine = engine_of()
    events = list(engine.stream(PROMPTS, 3))
    by_request = {}
    for request, token in events:
        by_request.setdefault(request.number, []).append(token)
    assert [by_request[number] for number in sorted(by_request)] == [r.tokens for r in engine_of().generate(PROMPTS, 3)]


def test_a_stream_that_is_closed_is_aborted():
    engine = engine_of()
    stream = engine.stream(PROMPTS, 30)
    request = next(stream).request
    assert engine.scheduler.running
    stream.close()
    assert request.reason == "aborted"
    assert_nothing_left(engine)
    assert not engine.scheduler.waiting


def test_a_stream_is_aborted_to_the_end_even_if_one_fails():
    engine = engine_of()
    stream = engine.stream(PROMPTS, 30)
    next(stream)
    engine.manager.cache.unlock, unlock = mock.Mock(side_effect=MemoryError), engine.manager.cache.unlock
    with pytest.raises(MemoryError):
        stream.close()
    engine.manager.cache.unlock = unlock
    assert not engine.scheduler.running
    engine.generate([[1]], 1)  # what could not be given back goes with the next
    assert_nothing_left(engine)


def test_two_streams_on_one_engine_lose_nothing():
    """Each step computes for both: what came out while the other was listened to is told when its turn comes."""
    engine, alone = engine_of(), [result.tokens for result in engine_of().generate([[1, 2, 3], [9, 8]], 6)]
    streams = engine.stream([[1, 2, 3]], 6), engine.stream([[9, 8]], 6)
    heard = [next(streams[0]).token], [next(streams[1]).token]
    for _ in range(5):
        for stream, tokens in zip(streams, heard):
            tokens.append(next(stream).token)
    assert list(heard) == alone
    assert [list(stream) for stream in streams] == [[], []]
    assert_nothing_left(engine)


def test_a_stream_is_whole_if_somebody_generates_in_between():
    engine = engine_of()
    stream = engine.stream([[1, 2, 3]], 6)
    heard = [next(stream).token]
    engine.generate([[4, 5]], 10)
    steps = engine.scheduler.step
    heard += [event.token for event in stream]
    assert heard == engine_of().generate([[1, 2, 3]], 6)[0].tokens
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
    assert [first.token, *(event.token for event in stream)] == engine_of().generate([[1, 2, 3]], 2)[0].tokens


def test_who_is_aborted_by_another_ends_its_stream():
    engine = engine_of()
    stream = engine.stream([[1, 2, 3]], 30)
    engine.abort(next(stream).request)
    assert list(stream) == []
    assert_nothing_left(engine)


def test_step_by_step():
    engine = engine_of()
    request = engine.submit([1, 2, 3], 2)
    assert engine.step()[0] == (request, request.output[0])
    assert not request.is_over
    engine.step()
    assert (request.is_over, generation(request).tokens) == (True, request.output)
    assert engine.step() == []
    with pytest.raises(ValueError, match=r"cannot abort request 1: it is over \(length\)"):
        engine.abort(request)


def test_others_go_on_while_one_generates():
    engine = engine_of()
    other = engine.submit([9, 9], 30)
    engine.generate([[1, 2]], 3)
    assert len(other.output) == 3
    engine.abort(other)
    assert_nothing_left(engine)


# -- failures ---------------------------------------------------------------------------------------------------------


class Failing(CanaryModel):
    """A model that fails in its n-th step, half-way through the batch or after it."""

    fails_at, error, half_way = 0, KeyboardInterrupt, True
    steps = 0

    def forward(self, chunks, store):
        self.steps += 1
        if self.steps == self.fails_at:
            if self.half_way:
                super().forward(chunks[: len(chunks) // 2 + 1], store)
            raise self.error
        return super().forward(chunks, store)


@pytest.mark.parametrize("half_way", [True, False])
@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError])
@pytest.mark.parametrize("fails_at", [1, 2, 4])
def test_an_interrupted_generation_leaves_nothing(fails_at, error, half_way):
    engine = engine_of(16, token_budget=6, max_running=3)
    engine.model = Failing(50, canary=engine.model.canary)
    engine.model.fails_at, engine.model.error, engine.model.half_way = fails_at, error, half_way
    with pytest.raises(error):
        engine.generate(PROMPTS, 6)
    assert_nothing_left(engine)
    assert not engine.scheduler.running
    assert not engine.scheduler.waiting
    assert [r.tokens for r in engine.generate(PROMPTS, 6)] == [r.tokens for r in engine_of().generate(PROMPTS, 6)]


def test_a_step_that_failed_is_done_again():
    engine = engine_of()
    engine.model = Failing(50, canary=engine.model.canary)
    engine.model.fails_at = 2
    request = engine.submit([1, 2, 3], 4)
    engine.step()
    with pytest.raises(KeyboardInterrupt):
        engine.step()
    while not request.is_over:
        engine.step()
    assert request.output == engine_of().generate([[1, 2, 3]], 4)[0].tokens


@pytest.mark.parametrize("verb", ["alloc_to", "free", "insert", "lock", "unlock", "evict", "acquire"])
def test_whichever_call_fails_the_requests_can_be_aborted(verb):
    """For each call of that verb in turn: the generation fails, nothing leaks, and the next one is right."""
    expected = [result.tokens for result in engine_of().generate(PROMPTS, 4)]
    failed = True
    k = 0
    while failed:
        k += 1
        failed, engine, calls = False, engine_of(12, token_budget=4, max_running=2), []
        thing = engine.manager.pool if verb in ("alloc_to", "free") else engine.manager.cache
        original = getattr(thing, verb)

        def guarded(*args, k=k, original=original, calls=calls, **kwargs):
            calls.append(verb)
            if len(calls) == k:
                raise MemoryError
            return original(*args, **kwargs)

        setattr(thing, verb, guarded)
        try:
            engine.generate(PROMPTS, 4)
        except MemoryError:
            failed = True
        setattr(thing, verb, original)
        assert not engine.manager.sequences
        assert not engine.scheduler.running
        assert [result.tokens for result in engine.generate(PROMPTS, 4)] == expected
        assert_nothing_left(engine)
    assert k > 2


class NoNumbers(CanaryModel):
    """A model that gives no numbers behind a prompt that begins with 13."""

    def forward(self, chunks, store):
        logits = super().forward(chunks, store)
        for row, chunk in zip(logits, chunks):
            if list(chunk.tokens)[:1] == [13]:
                row[:] = np.nan
        return logits


def test_logits_that_are_none_are_one_requests_trouble():
    """It is named, the others have lost nothing, not even a number of their generators, and go on when it is gone."""
    engine = engine_of()
    engine.model = NoNumbers(50, canary=engine.model.canary)
    good = engine.submit([1, 2, 3], warm(6, 4))
    bad = engine.submit([13, 2, 3], 6)
    for _ in range(3):
        with pytest.raises(ValueError, match="request 2: the largest logit is nan"):
            engine.step()
    engine.abort(bad)
    while not good.is_over:
        engine.step()
    assert good.output == engine_of().generate([[1, 2, 3]], warm(6, 4))[0].tokens
    assert_nothing_left(engine)


def test_a_model_that_answers_too_little_is_told_so():
    engine = engine_of()
    engine.model.forward = lambda chunks, store: np.zeros((len(chunks) - 1, 50))
    with pytest.raises(ValueError, match="the model gave 1 rows of logits: expected 2"):
        engine.generate([[1], [2]], 1)
    assert_nothing_left(engine)


def test_a_namespace_that_is_none_is_refused_at_once():
    """Found out only when it is its turn, it would stop everybody, step after step."""
    engine = engine_of()
    with pytest.raises(TypeError, match=r"namespace is \[1\]: a namespace must be hashable"):
        engine.submit([1, 2], 2, namespace=[1])
    assert not engine.scheduler.waiting


def test_a_seed_may_be_numpys():
    expected = engine_of().generate([[1, 2], [3]], warm(4, 3))
    assert engine_of().generate([[1, 2], [3]], warm(4, np.int64(3))) == expected
    assert engine_of().generate([[1, 2], [3]], [warm(4, 3), warm(4, 3)]) == expected
    with pytest.raises(TypeError, match="seed is None"):
        engine_of().generate([[1]], SamplingParams(1, seed=None))


def test_a_bad_prompt_among_good_ones_leaves_none():
    engine = engine_of(8)
    with pytest.raises(ValueError, match=r"prompt\[1\] is 50: the model's tokens are 0 to 49"):
        engine.generate([[1], [1, 50]], 2)
    with pytest.raises(ValueError, match="so they never fit"):
        engine.generate([[1], range(8)], 2)
    with pytest.raises(ValueError, match="max_new_tokens is 0"):
        engine.generate([[1]], 0)
    with pytest.raises(ValueError, match="1 sampling parameters for 2 prompts"):
        engine.generate([[1], [2]], [1])
    with pytest.raises(ValueError, match="prompt is empty"):
        engine.generate([[]], 1)
    assert not engine.scheduler.waiting


def test_parts_that_do_not_fit_are_refused():
    manager = CacheManager(8)
    with pytest.raises(ValueError, match="the scheduler belongs to a different manager"):
        Engine(CanaryModel(), manager, Scheduler(CacheManager(8)))

    class Store:
        num_pages, page_size, shape = 8, 1, KVShape(2, 2, 4)

    with pytest.raises(ValueError, match="the model needs a store of shape"):
        Engine(CanaryModel(), CacheManager(8, store=Store()))


# -- the canary model -------------------------------------------------------------------------------------------------


def test_the_canary_model_is_a_model():
    assert isinstance(CanaryModel(), Model)


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


def test_a_request_that_is_not_over_has_no_result():
    with pytest.raises(ValueError, match="request 0 is not over"):
        generation(Request([1], 1))


# -- several threads ---------------------------------------------------------------------------------------------------

THREADS, ROUNDS = 4, 6


def prompts_of(thread, round):
    """Prompts that share a prefix within a thread and across threads."""
    return [[1, 2, 3, thread, round], [1, 2, 3, thread], [thread, round, 5, 5, 5, 5]]


def run_threads(engine):
    """Every thread generates, submits and aborts on one engine; what each got, and what went wrong."""
    found, errors, begin = {}, [], threading.Barrier(THREADS)

    def work(thread):
        begin.wait()
        try:
            for round in range(ROUNDS):
                aborted = engine.submit([7, 7, thread, round], 3)
                with contextlib.suppress(ValueError):  # another thread may have stepped it to its end
                    engine.abort(aborted)
                answers = engine.generate(prompts_of(thread, round), warm(4, thread))
                found[thread, round] = [answer.tokens for answer in answers]
        except BaseException as error:
            errors.append(error)

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=work, args=(number,)) for number in range(THREADS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(before)
    return found, errors


def test_several_threads_may_use_one_engine():
    """The canary reads what it wrote, the manager's books agree, and each answer is what it is alone."""
    engine = engine_of(40, token_budget=8, max_running=3)
    found, errors = run_threads(engine)
    assert errors == []
    assert_nothing_left(engine)
    for (thread, round), answers in found.items():
        alone = engine_of(200).generate(prompts_of(thread, round), warm(4, thread))
        assert answers == [answer.tokens for answer in alone]


# -- what is refused -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: Engine(CanaryModel(5), 5), "manager is 5: expected a CacheManager"),
        (lambda: Engine(5, CacheManager(5)), "model is 5: expected a Model"),
        (lambda: Engine(CanaryModel(5), CacheManager(5), 5), "scheduler is 5: expected a Scheduler"),
        (lambda: Scheduler(5), "manager is 5: expected a CacheManager"),
        (lambda: Scheduler(CacheManager(5)).submit(1.0), r"cannot submit 1\.0: expected a Request"),
        (lambda: Sampler(1.0), r"max_new_tokens is 1\.0 \(float\), not a whole number"),
    ],
)
def test_a_wrong_object_is_named(build, message):
    with pytest.raises(TypeError, match=message):
        build()


@pytest.mark.parametrize("kind", [np.int64, np.int32, np.uint8, np.float16])
def test_logits_may_be_numbers_of_any_kind(kind):
    logits = np.array([1, 5, 2], kind)
    assert Sampler(SamplingParams())(logits) == 1
    assert Sampler(SamplingParams(temperature=0.01))(logits) == 1


@pytest.mark.parametrize("logits", [np.array(["a"]), np.array([[1.0]]), np.array([True]), np.array([None])])
def test_logits_are_a_row_of_numbers(logits):
    with pytest.raises(TypeError, match=r"logits are .*: expected a row of numbers"):
        Sampler(SamplingParams())(logits)


@pytest.mark.parametrize(
    ("token", "step"),
    [("\0", 1), (-1, 1), (2**32, 1), (np.int32(-1), 1), (None, 1), (1.0, 1), (True, 1), (5, "1"), (5, None), (5, -1),
     (5, [1]), (5, True)],
)  # fmt: skip
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

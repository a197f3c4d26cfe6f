"""A model with recurrent layers: a hit answers as a prompt that is computed whole, and ends where a state is."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from llamas import llama
from nightly import by_day
from test_manager import computed

from minikv import (
    Canary,
    CanaryError,
    CanaryModel,
    Engine,
    KVShape,
    LayeredManager,
    LayeredStore,
    OutOfPages,
    PromptLookup,
    Scheduler,
    StatePool,
    layered_llama,
)
from minikv.engine import engine_world
from minikv.engine.ch15_layers import Group


def prompts_of(dice, count, vocabulary):
    """Prompts that repeat, continue and leave each other."""
    found = [[dice.randrange(vocabulary) for _ in range(dice.randrange(1, 30))]]
    while len(found) < count:
        like = dice.choice(found)
        found.append(
            [*like[: dice.randrange(len(like) + 1)], *dice.choices(range(vocabulary), k=dice.randrange(9))] or like
        )
    return found


def served(dice, seed):
    """An engine with little room after it has served 14 prompts, a few of them aborted, and its requests."""
    model, page = layered_llama(llama(seed, num_hidden_layers=4)), dice.choice([1, 2, 4])
    pool = StatePool(dice.randrange(50, 70) // page + 1, dice.randrange(8, 14), page)
    store = LayeredStore(model.shape, {0, 2}, pool, dtype=model.dtype)
    manager = LayeredManager(pool, page * dice.choice([1, 2]), store)
    engine = Engine(model, manager, Scheduler(manager, dice.randrange(4, 20), max_running=4))
    found = []
    for prompt in prompts_of(dice, 14, model.vocab_size):
        found.append(engine.submit(prompt, dice.randrange(1, 14)))
        for _ in range(dice.randrange(3)):
            engine.step()
            manager.check()
        if dice.random() < 0.15 and not found[-1].is_over:
            engine.abort(found[-1])
    while engine.step():
        manager.check()
    return engine, found


@pytest.mark.parametrize("seeds", by_day([range(5), range(5, 100)], lambda seeds: not seeds[0]))
def test_a_hit_gives_the_same_tokens_with_chunks_eviction_and_aborts(seeds):
    cached = evicted = aborted = 0
    for seed in seeds:
        engine, found = served(random.Random(seed), seed)
        for number, request in enumerate(found):
            alone = engine.generate([request.prompt], request.max_new_tokens, namespace=number)[0]
            assert alone.cached == 0
            assert request.output == alone.tokens[: len(request.output)]
            assert request.reason == "aborted" or len(request.output) == len(alone.tokens)
        assert not engine.manager.pool.held
        cached += sum(request.cached_tokens for request in found)
        evicted += sum(request.preemptions for request in found)
        aborted += sum(request.reason == "aborted" for request in found)
    assert cached > 20 * len(seeds)
    assert min(evicted, aborted) > 0


@given(st.integers(0, 10**6), st.sampled_from([1, 2, 3]))
def test_the_manager_finds_what_the_chapter_finds(seed, step):
    dice, world = random.Random(seed), engine_world(15)
    chapter = world["LayerCache"]([Group("full", step), Group("state", step)], 10**6, world["checkpoints"])
    manager = LayeredManager(StatePool(4000, 400), step)
    for prompt in prompts_of(dice, 12, 3):
        sequence = manager.start(prompt)
        assert sequence.cached_length == chapter.serve(tuple(prompt))
        while sequence.computed < sequence.length:
            manager.advance(sequence, min(dice.randrange(1, 9), sequence.next_stop - sequence.computed))
            manager.checkpoint(sequence)
        manager.finish(sequence)
        manager.check()


class StateCanaryModel(CanaryModel):
    """A `CanaryModel` with a full layer and one whose state must be of exactly the tokens before a chunk."""

    def __init__(self, pool, **options):
        super().__init__(**options)
        self.pool, self.states = pool, Canary()

    def _read(self, chunk, tokens):
        super()._read(chunk, tokens)
        if len(tokens) == chunk.start > 0:
            number = self.pool.state_of[int(chunk.slots[chunk.start - 1])]
            self.states.read(tokens, [0] * (len(tokens) - 1) + [number], chunk.namespace, len(tokens) - 1)

    def _write(self, chunk, tokens):
        super()._write(chunk, tokens)
        slots = [0] * (len(tokens) - 1) + [self.pool.put(int(chunk.slots[-1]))]
        self.states.write(tokens, slots, len(tokens) - 1, chunk.namespace)


@pytest.mark.parametrize("off", [0, 1])
def test_the_canary_finds_a_state_that_is_named_one_position_off(off):
    manager = LayeredManager(StatePool(256, 8), step=4)
    engine = Engine(StateCanaryModel(manager.pool), manager)
    engine.generate([[*b"a state is a sum"]], 1)
    slots = manager.cache.match_prefix([*b"a state is a sum"]).slots.tolist()
    manager.pool.move(slots[11], slots[11 - 4 * off])
    again = [*b"a state is a s"[: 14 - 4 * off]]
    if off:
        with pytest.raises(CanaryError, match="position 7"):
            engine.generate([again], 1)
    else:
        assert engine.generate([again], 1)[0].cached == 12


def test_what_has_no_room_for_its_states_waits_and_nothing_is_taken_back():
    manager = LayeredManager(StatePool(64, 4))
    running = [manager.start([1, 2, 3]) for _ in range(2)]
    with pytest.raises(OutOfPages):
        manager.start([4])
    manager.abort(running[0])
    manager.finish(manager.start([4]))
    manager.check()
    with pytest.raises(TypeError, match="drafts need one"):
        Engine(CanaryModel(), manager, drafts=PromptLookup())


def test_a_state_of_a_step_that_failed_is_never_found():
    manager = LayeredManager(StatePool(64, 8), step=2)
    sequence = manager.start([1, 2, 3, 4, 5, 6])
    manager.pool.put(int(sequence.slots[1]))  # as a model does that fails in a later layer
    for count in (3, 3):
        manager.advance(sequence, count)
        manager.check()
    manager.finish(sequence)
    assert manager.start([1, 2, 9]).cached_length == 0


def test_a_state_that_only_a_duplicate_had_is_not_found_after_it_went():
    manager = LayeredManager(StatePool(64, 4), step=2)
    twins = [computed(manager, [1, 2, 3], 2) for _ in range(2)]
    for twin in twins:
        manager.advance(twin, 1)
    for twin in twins:
        manager.finish(twin)
        manager.check()
    for first in range(7, 10):
        other = computed(manager, [first, 2, 3], 2)
        manager.advance(other)
        manager.finish(other)
        manager.check()
    assert manager.start([1, 2, 3]).cached_length == 0


def test_a_step_that_failed_leaves_no_states():
    pool = StatePool(64, 2)
    manager = LayeredManager(pool)
    sequence = manager.start([1, 2, 3, 4])
    pool.put(int(sequence.slots[3]))
    pool.begin()
    for count in (3, 1):
        manager.advance(sequence, count)
        manager.check()


def test_three_layers_of_four_may_be_recurrent_but_not_the_last():
    shape, pool = KVShape(4, 1, 8), StatePool(8, 2)
    assert LayeredStore(shape, {0, 1, 2}, pool).full.shape.num_layers == 1
    with pytest.raises(ValueError, match="the last one keeps keys"):
        LayeredStore(shape, {3}, pool)


def test_a_failure_among_duplicates_leaves_each_page_an_owner(monkeypatch):
    manager = LayeredManager(StatePool(64, 4))
    one, two = manager.start([1, 2, 3]), manager.start([1, 2, 3, 4])
    manager.advance(one)
    manager.advance(two)
    manager.finish(one)
    monkeypatch.setattr(manager.cache, "match_prefix", lambda *_, **__: {}[0])
    with pytest.raises(KeyError):
        manager.finish(two)
    manager.check()

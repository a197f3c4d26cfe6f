"""The cache changes not one token: random workloads (200 by night, 50 by day), each served in every way there is.

Without a cache, with one that is cold, then warm; in a pool so tight that pages are evicted and requests preempted,
in chunks, in any order, in a shuffled batch: the greedy tokens are the same. The pages are audited after every step,
and in the end free and cached pages are all there are. Once with a model of fingerprints, which knows of every slot
what it holds, and once with real attention over a real store.

Attention in another batch is another sum, so logits differ in the last digits. A workload in which two tokens are
almost equally likely would say nothing about the cache: the next one is taken in its place.
"""

import contextlib
import itertools
import random
from array import array
from dataclasses import replace

import pytest
from chats import Tally, assert_nothing_leaked, canary_model, engine_for, serve, setting, workload
from nightly import NIGHTLY
from test_manager_mutants import MUTANTS

from minikv import CacheManager, CanaryError, InvariantError, Ledger, LockError, PromptLookup
from minikv.prefix import INDEXES

WORKLOADS = range(200) if NIGHTLY else range(100, 150)  # fifty that find every mistake planted here
CLEAR = len(WORKLOADS) if NIGHTLY else 25
DESIGNS = [*INDEXES, "tiered"]  # and a radix tree with host memory
EVERY = {
    name: 1 if NIGHTLY else 2 if name in ("radix", "tiered") else 5 for name in DESIGNS
}  # of the clear workloads: by day one in so many
NARROW = 1e-3  # between the two likeliest tokens; rounding moves a logit by about a thousandth of that


def in_every_way(work, model_for, tally, audit_for=lambda manager: None):
    """Serve `work` in every way but without a cache, each time compared with that."""
    expected = None
    for kind in ("off", "wide", "tight"):
        engine = engine_for(work, kind, model_for)
        audit = audit_for(engine.manager)
        answers = serve(engine, work, tally, audit=audit)
        expected = answers if expected is None else expected
        assert answers == expected, f"workload {work.seed}, {kind}, cold"
        if kind != "off":
            warm = serve(engine, work, tally, shuffle=random.Random(work.seed), audit=audit)
            assert warm == expected, f"workload {work.seed}, {kind}, warm and shuffled"
        assert_nothing_leaked(engine.manager)


def assert_it_tried_what_it_says(number, tally):
    """Everything that so many workloads are meant to make happen did happen, and often."""
    assert tally.evictions > number
    assert tally.namespaces > number / 4
    assert tally.preemptions > number / 5
    assert tally.aborted > number / 4
    assert tally.cached > 10 * number
    assert tally.computed > 10 * number


# -- the model of fingerprints ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("index", DESIGNS)
def test_fingerprints_are_the_same_in_every_way(index):
    tally, seeds = Tally(), WORKLOADS[:: 1 if NIGHTLY else 5]
    for seed in seeds:
        in_every_way(replace(workload(seed), index=index), canary_model, tally)
    assert_it_tried_what_it_says(len(seeds), tally)


def test_the_ledger_follows_every_operation():
    """It compares its book with the world after each operation, which takes long: every tenth workload."""

    def ledger_for(manager):
        ledger = Ledger(manager.pool, manager.cache, manager.page_size, sequences=manager.owned)

        def audit():
            manager.check()
            ledger.check()

        return audit

    for seed in WORKLOADS[::10]:
        in_every_way(workload(seed), canary_model, Tally(), ledger_for)


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.__name__)
def test_a_careless_manager_does_not_get_through(mutant):
    """The same workloads, in a tight pool, and one planted mistake: an audit, the canary or a refusal finds it."""

    def every_workload():
        for seed in WORKLOADS:
            work = workload(seed)
            engine = engine_for(work, "tight", canary_model, mutant)
            serve(engine, work, Tally(), shuffle=random.Random(seed))
            assert_nothing_leaked(engine.manager)

    with pytest.raises((InvariantError, LockError, ValueError), match=f"(?s){MUTANTS[mutant]}"):
        every_workload()


class ReadsOneSlotForAll(CacheManager):
    """All cached tokens are read from the first one's slot. (In reverse order they could be: attention is a sum.)"""

    def start(self, tokens, *, namespace=None, spare=0, limit=None):
        sequence = super().start(tokens, namespace=namespace, spare=spare, limit=limit)
        cached = sequence._row.data[: sequence.shared // self.page_size]
        cached[:] = array("i", [*cached[:1]] * len(cached))
        return sequence


class ForgetsNamespaces(CacheManager):
    """What one tenant's LoRA computed is given to all."""

    def start(self, tokens, *, namespace=None, spare=0, limit=None):
        return super().start(tokens, spare=spare, limit=limit)


READ_WRONGLY = {
    ForgetsNamespaces: "after another prefix",
    ReadsOneSlotForAll: "slot .* is read for token",
}


@pytest.mark.parametrize("mistaken", READ_WRONGLY, ids=lambda mistaken: mistaken.__name__)
def test_the_canary_reads_every_slot_and_knows_whose_it_is(mistaken):
    def every_workload():
        for seed in WORKLOADS:
            work = workload(seed)
            engine = engine_for(work, "wide", canary_model, mistaken)
            serve(engine, work, Tally(), audit=lambda: None)

    with pytest.raises(CanaryError, match=READ_WRONGLY[mistaken]):
        every_workload()


# -- real attention ---------------------------------------------------------------------------------------------------


class Llamas:
    """Three tiny decoders, MHA, GQA and MQA, whose attention is strong enough to matter; `narrowest` is the smallest
    distance between the two likeliest tokens since it was set to infinity."""

    def __init__(self):
        import torch
        from llamas import llama

        self.torch, self.models = torch, []
        for kv_heads in (4, 2, 1):
            model = llama(seed=kv_heads, hidden_size=32, num_attention_heads=4, num_key_value_heads=kv_heads)
            for name, weight in model.weights.items():
                scale = {"q_proj": 2, "k_proj": 2, "o_proj": 3}.get(name.split(".")[-2], 1)
                weight *= scale
            self.models.append(model)
        self.narrowest = float("inf")

    def model_for(self, manager, work):
        from minikv.store import KVStore

        model = self.models[work.seed % 3]
        manager.store = KVStore(model.shape, manager.num_pages, manager.page_size, dtype=model.dtype)
        if manager.host is not None and manager.host.cache.host_pages:
            manager.host.store = manager.store
            manager.host.host = manager.store.in_host_memory(manager.host.cache.host_pages)
        return Margins(model, self)

    def engine_for(self, work, kind, manager_type=CacheManager):
        return engine_for(work, kind, lambda manager: self.model_for(manager, work), manager_type)


class Margins:
    """A model that tells how near its two likeliest tokens were."""

    eos = ()

    def __init__(self, model, llamas):
        self.model, self.llamas = model, llamas
        self.shape, self.vocab_size = model.shape, model.vocab_size

    def forward(self, chunks, store):
        logits = self.model.forward(chunks, store)
        first, second = logits.topk(2).values.unbind(-1)
        self.llamas.narrowest = min(self.llamas.narrowest, float((first - second).min()))
        return logits


@pytest.fixture(scope="module")
def llamas():
    pytest.importorskip("torch")
    return Llamas()


@pytest.fixture(scope="module")
def clear_workloads(llamas):
    """As many workloads whose greedy tokens are clear, with what they are without a cache."""
    found, seed = [], WORKLOADS[0]
    while len(found) < CLEAR:
        work, seed = workload(seed), seed + 1
        llamas.narrowest = float("inf")
        answers = serve(llamas.engine_for(work, "off"), work, Tally())
        if llamas.narrowest > NARROW:
            found.append((work, answers))
    assert seed - WORKLOADS[0] < 1.5 * CLEAR, "most workloads are clear"
    return found


def test_greedy_tokens_are_the_same_in_every_way_over_every_index(llamas, clear_workloads):
    """By day in the tight pool alone, where pages are evicted as well; the fingerprints above have both."""
    tallies = {index: Tally() for index in DESIGNS}
    kinds = ("wide", "tight") if NIGHTLY else ("tight",)
    for index, kind in itertools.product(DESIGNS, kinds):
        for work, expected in clear_workloads[:: EVERY[index]]:
            engine = llamas.engine_for(replace(work, index=index), kind)
            for shuffle in (None, random.Random(work.seed)):
                answers = serve(engine, work, tallies[index], shuffle)
                assert answers == expected, f"{index}, workload {work.seed}, {kind}, {'warm' if shuffle else 'cold'}"
            assert_nothing_leaked(engine.manager)
    for index, tally in tallies.items():
        assert_it_tried_what_it_says(len(clear_workloads[:: EVERY[index]]), tally)
    assert tallies["tiered"].loaded > 3 * len(clear_workloads[:: EVERY["tiered"]])


def test_a_layer_of_a_load_that_fails_to_arrive_changes_no_token(llamas, clear_workloads, monkeypatch):
    """The model looks for a layer, half of it is copied, and that fails: that step does too, and no other."""
    from minikv.store.crossing import Crossing

    failed, draw, arriving = [], random.Random(24), []
    arrive, copy = Crossing.arrive, llamas.torch.Tensor.index_copy_

    def noted(crossing, layer):
        arriving.append(layer)
        try:
            arrive(crossing, layer)
        finally:
            arriving.pop()

    def unlucky(side, dim, index, rows):
        if arriving and draw.random() < 0.2:
            copy(side, dim, index[::2], rows[::2] + 7)
            failed.append(arriving[-1])
            raise MemoryError
        return copy(side, dim, index, rows)

    monkeypatch.setattr(Crossing, "arrive", noted)
    monkeypatch.setattr(llamas.torch.Tensor, "index_copy_", unlucky)
    for work, expected in clear_workloads[:: EVERY["tiered"]]:
        engine = llamas.engine_for(replace(work, index="tiered"), "tight")
        step = engine.step

        def tried(step=step):
            with contextlib.suppress(MemoryError):
                step()

        engine.step = tried
        for shuffle in (None, random.Random(work.seed)):
            assert serve(engine, work, Tally(), shuffle) == expected, f"workload {work.seed}"
        assert_nothing_leaked(engine.manager)
    assert {0, 1} <= set(failed)
    assert len(failed) > len(clear_workloads[:: EVERY["tiered"]])


def test_a_draft_changes_no_greedy_token(llamas, clear_workloads):
    """What follows the same token the last time is guessed, often wrongly: a chunk of guesses is computed and cut."""

    class Counts(PromptLookup):
        drafted = 0

        def draft(self, tokens, most):
            found = super().draft(tokens, most)
            self.drafted += len(found)
            return found

    tally, lookup = Tally(), Counts(length=1, most=3)
    for work, expected in clear_workloads[:15]:
        for kind in ("wide", "tight"):
            engine = llamas.engine_for(work, kind)
            engine.drafts = lookup
            assert serve(engine, work, tally, random.Random(work.seed)) == expected, f"workload {work.seed}, {kind}"
            assert_nothing_leaked(engine.manager)
    assert min(tally.evictions, tally.preemptions) > 5
    assert lookup.drafted > 100


def test_real_attention_would_notice_one_wrong_slot(llamas, clear_workloads):
    """With one slot in place of all the cached ones, tokens change: the comparison above can fail."""
    changed = 0
    for work, expected in clear_workloads[:25]:
        engine = llamas.engine_for(work, "wide", ReadsOneSlotForAll)
        changed += serve(engine, work, Tally(), audit=lambda: None) != expected
    assert changed > 12


def test_settings_are_what_they_are_called():
    for seed in range(20):
        work = workload(seed)
        off, wide, tight = (setting(work, kind)[0] for kind in ("off", "wide", "tight"))
        assert off.num_pages == wide.num_pages > tight.num_pages or len(work.asked) == 1
        assert tight.num_pages * work.page_size >= work.longest
        assert workload(seed) == work

"""The engine that the learner builds: with our pieces it serves as the package's does."""

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from test_museum_hash import pool_with, serve

from minikv import (
    CacheManager,
    CanaryModel,
    Engine,
    FreeListPool,
    OutOfPages,
    RadixCache,
    Request,
    SamplingParams,
    Scheduler,
    SlidingWindowCache,
)
from minikv.course.pieces.piece import find_piece
from minikv.course.pieces.worlds import reference_world
from minikv.engine import engine_world
from minikv.measure.textbook import TextbookCache
from minikv.prefix.eviction import LeastRecentlyUsed

torch = pytest.importorskip("torch")

from minikv import Chunk, KVStore, asset  # noqa: E402
from minikv.serving.llama import Llama  # noqa: E402

OWN = engine_world(2, 3, 4, 5, 7, 8)
PROMPTS = st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=12), min_size=1, max_size=6)


@settings(max_examples=60)
@given(PROMPTS, st.sampled_from([1, 2, 4]), st.integers(18, 40))
def test_it_gives_every_request_the_same_tokens(prompts, page_size, slots):
    found = []
    for manager, scheduler in ((CacheManager, Scheduler), (OWN["CacheManager"], OWN["Scheduler"])):
        made = manager(-(-slots // page_size), page_size)
        engine = Engine(CanaryModel(9), made, scheduler(made, 16, 4))
        found.append([generation.tokens for generation in engine.generate(prompts, SamplingParams(max_new_tokens=5))])
        made.cache.check()
        assert not made.cache.protected_size
    assert found[0] == found[1]


def test_who_is_preempted_is_the_first_that_waits():
    """Nobody overtakes it, although it has waited less."""
    made = OWN["Scheduler"](OWN["CacheManager"](16, 1), 16, 4)
    first, second = Request([1], 1), Request([2], 1)
    first.sequence, made.running, made.waiting = made.manager.start([1]), [first], [second]
    assert OWN["preempt"](made) is first
    assert (made.running, made.waiting, first.sequence) == ([], [first, second], None)


@settings(max_examples=200)
@given(st.lists(st.one_of(st.integers(0, 6), st.lists(st.integers(-1, 8), max_size=4)), max_size=12))
def test_its_pool_hands_out_and_refuses_what_the_packages_does(steps):
    ours, theirs = OWN["Pool"](8), FreeListPool(8)
    for step in steps:
        outcomes = []
        for pool in (ours, theirs):
            try:
                outcomes.append([int(page) for page in pool.alloc(step)] if isinstance(step, int) else pool.free(step))
            except (MemoryError, OutOfPages, ValueError):
                outcomes.append("refused")
        assert outcomes[0] == outcomes[1]
        assert ours.num_free == theirs.num_free
        assert [ours.is_free(page) for page in range(8)] == [theirs.is_free(page) for page in range(8)]


PROMPT = st.lists(st.integers(0, 1), min_size=1, max_size=10)
STEP = st.one_of(
    st.tuples(st.sampled_from(["insert", "match_prefix", "lock"]), PROMPT),
    st.tuples(st.just("unlock"), st.integers(0, 9)),
    st.tuples(st.just("evict"), st.integers(1, 3)),
)


@settings(max_examples=200)
@given(st.lists(STEP, max_size=25))
@example([("insert", [0, 0, 0, 0]), ("insert", [1, 1]), ("match_prefix", [0, 0, 1])])  # what does a split refresh?
@example([("insert", [0, 0, 1]), ("lock", [0, 0, 0]), ("insert", [1, 1]), ("unlock", 0)])
def test_it_evicts_as_the_textbook_and_the_package_do(steps):
    """The ring, the textbook's scan and the package's ring free the same slots in the same order, to the last.

    That the tree keeps the other rules of the contract is shown by test_contract and test_mine_verified.
    """
    apart = RadixCache(policy=type("KeptApart", (LeastRecentlyUsed,), {"reads": ("last_used", "id")}))
    ours, *_ = caches = (OWN["RadixCache"](), TextbookCache(), apart)
    held = []
    for number, (verb, what) in enumerate([*steps, ("evict", 999)]):
        found = []
        if verb == "evict":
            found = [list(cache.evict(what)) for cache in caches]
        elif verb == "insert":
            slots = list(range(10 * number, 10 * number + len(what)))
            found = [cache.insert(what, slots).prefix_length for cache in caches]
        elif verb == "unlock":
            for cache, end in zip(caches, held.pop(what % len(held)) if held else ()):
                cache.unlock(end)
        else:
            matches = [cache.match_prefix(what) for cache in caches]
            found = [list(match.slots) for match in matches]
            if verb == "lock":
                held.append([match.handle for match in matches])
                for cache, end in zip(caches, held[-1]):
                    cache.lock(end)
        assert found == len(found) * found[:1]
        sizes = [(cache.evictable_size, cache.protected_size) for cache in caches]
        assert sizes == 3 * sizes[:1]
        oldest = ours.ring.newer
        assert oldest is ours.ring or not oldest.children


def test_a_model_attends_through_it_run_by_run(monkeypatch):
    """Pages 0 and 1 are one run of slots, and a slice of the store."""
    model, runs_read, gather = Llama.from_folder(asset("model")), [], OWN["gather"]
    monkeypatch.setitem(OWN, "gather", lambda rows, runs, room: runs_read.append(runs) or gather(rows, runs, room))
    own = Llama(model.config, model.weights, attention=OWN["SlotAttention"])
    manager = OWN["CacheManager"](16, 16, store=KVStore(model.shape, 16, 16))
    Engine(own, manager).generate([[*b"What is a slot?"]], 12)
    assert {len(runs) for runs in runs_read} == {1}


@settings(max_examples=20, deadline=None)
@given(st.permutations(range(24)), st.lists(st.tuples(st.integers(0, 5), st.integers(1, 3)), min_size=1, max_size=3))
def test_its_attention_gives_the_packages_logits_through_any_slots(slots, sizes):
    """Chunks of several sequences in one step, each behind a past of its own, in float64."""
    model = Llama.from_folder(asset("model"), dtype=torch.float64)
    own = Llama(model.config, model.weights, attention=OWN["SlotAttention"])
    found = []
    for side in (model, own):
        store, at, chunks = KVStore(model.shape, 24, dtype=torch.float64), 0, []
        for past, new in sizes:
            row, tokens = slots[at : at + past + new], range(65, 65 + past + new)
            if past:
                side.forward([Chunk(tokens[:past], 0, row[:past])], store)
            chunks.append(Chunk(tokens[past:], past, row))
            at += past + new
        everywhere = [chunk._replace(num_logits=len(chunk.tokens)) for chunk in chunks]
        found.append(side.forward(everywhere, store))
    assert torch.allclose(*found, atol=1e-9)


TOKENS = st.lists(st.integers(0, 1), min_size=1, max_size=8)
LIFE_STEP = st.one_of(
    st.tuples(st.just("start"), st.just(0), TOKENS),
    st.tuples(st.sampled_from(["advance", "checkpoint", "finish", "abort"]), st.integers(0, 7), st.none()),
    st.tuples(st.just("extend"), st.integers(0, 7), TOKENS),
)


def live(manager, running, step):
    """Do one step of a life, among the requests that run; whether there was room for it."""
    verb, which, tokens = step
    try:
        if verb == "start":
            running.append(manager.start(tokens))
        elif running:
            getattr(manager, verb)(running[which % len(running)], *([tokens] if tokens else []))
    except OutOfPages:
        return False
    finally:
        running[:] = [sequence for sequence in running if sequence.state == "running"]
    return True


@settings(max_examples=400)
@given(st.sampled_from([1, 2, 3]), st.lists(LIFE_STEP, max_size=25), st.sampled_from([500, 12]))
def test_its_manager_lives_as_the_packages_does_while_there_is_room(page_size, steps, slots):
    """And where there is little, each page has one owner, and what finds no room changes nothing."""
    ours, theirs = (kind(slots // page_size, page_size) for kind in (OWN["CacheManager"], CacheManager))
    mine, others = [], []
    for step in steps:
        before = ours.pool.num_free, len(mine)
        if not live(ours, mine, step):
            assert slots == 12
            assert step[0] == "start" or (ours.pool.num_free, len(mine)) == before
        ours.check()
        if slots == 500:
            assert live(theirs, others, step)
            found = [(s.shared, s.computed, len(s.row)) for s in mine]
            assert found == [(s.shared, s.computed, len(s.pages)) for s in others]
            assert (ours.pool.num_free, ours.cache.total_size) == (theirs.pool.num_free, theirs.cache.total_size)
    for sequence in mine:
        ours.abort(sequence)
    ours.check()
    assert ours.available_size == slots // page_size * page_size


def test_a_request_that_is_over_cannot_end_again_and_one_without_room_holds_nothing():
    manager = OWN["CacheManager"](4, 1)
    manager.advance(first := manager.start([1, 2, 3]))
    manager.checkpoint(first)
    with pytest.raises(OutOfPages):
        manager.start([1, 2, 9, 9])
    assert (manager.pool.num_free, manager.cache.protected_size) == (1, 3)
    manager.finish(first)
    other = manager.start([1, 2, 4])
    with pytest.raises(ValueError, match="does not run here: it is over"):
        manager.abort(first)
    assert other.row == [0, 1, 3]
    manager.check()


def test_a_request_that_finds_no_room_keeps_none_of_the_blocks_that_it_hit():
    """Four pages, two of them cached, one in use: a prompt with two hits needs two more, and one is free."""
    pool, world = pool_with(None, 4)
    serve(world, pool, [1, 2, 3, 4])
    pool.take(1)
    with pytest.raises(MemoryError):
        world["open_request"](pool, [1, 2, 3, 4, 5, 6, 7], 2)
    assert [block.users for block in pool.blocks] == [0, 0, 1, 0]
    assert sorted(block.page for block in pool.queue) == [0, 1, 3]


valid_length = reference_world(find_piece("12.1"))["valid_length"]


@settings(max_examples=300)
@given(st.lists(st.booleans(), max_size=16), st.integers(1, 6))
@example([True, True, False, True], 2)  # falls back to the run before the tombstone
@example([True, False, True, True], 3)  # the last run is shorter than the window, and does not begin at the root
@example([True, True], 3)  # a path without a tombstone, shorter than the window
def test_its_valid_length_is_that_of_the_packages_match(live, window):
    """Each insert adds a live token, and in front of it the dead ones; the last token only ends the path."""
    index = SlidingWindowCache(window=window)
    for at, has_window in enumerate([*live, True]):
        if has_window:
            index.insert(range(at + 1), range(at + 1), window_start=at)
    slots = list(range(len(live)))
    window_of = {slot: 100 + slot for slot in slots if live[slot]}
    assert valid_length(slots, window_of, window) == index.match_prefix(slots).length

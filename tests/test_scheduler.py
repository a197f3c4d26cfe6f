"""The scheduler, rule by rule: who is let in, who computes what, who makes way, and that nobody waits for ever."""

from __future__ import annotations

from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikv import CacheManager, FirstComeFirstServed, LongestPrefixFirst, NoCache, OutOfPages, Request, Scheduler
from minikv.serving.scheduler import LOOK_AHEAD

pytestmark = pytest.mark.core


def run_step(scheduler):
    """One step whose every complete chunk samples token 7; what was scheduled, as (request, tokens, prefill)."""
    chunks = scheduler.schedule()
    complete = [c.request.sequence.computed + c.num_tokens == len(c.request.sequence.tokens) for c in chunks]
    scheduler.update_from_output(chunks, [7 if done else None for done in complete])
    scheduler.manager.check()
    return [(chunk.request.number, chunk.num_tokens, chunk.prefill) for chunk in chunks]


def submitted(scheduler, *prompts, new=4, **options):
    requests = [Request(prompt, new, **options) for prompt in prompts]
    for request in requests:
        scheduler.submit(request)
    return requests


def run_all(scheduler):
    steps = []
    while scheduler.waiting or scheduler.running:
        steps.append(run_step(scheduler))
        assert len(steps) < 1000
    return steps


# -- a step -----------------------------------------------------------------------------------------------------------


def test_decoding_and_chunks_share_a_step():
    """Sarathi: whoever decodes gets its token first, a long prompt gets the rest of the budget."""
    scheduler = Scheduler(CacheManager(64), token_budget=5, max_running=3)
    submitted(scheduler, [1, 2, 3], range(10, 20))
    assert [run_step(scheduler) for _ in range(5)] == [
        [(1, 3, True), (2, 2, True)],
        [(1, 1, False), (2, 4, True)],
        [(1, 1, False), (2, 4, True)],
        [(1, 1, False), (2, 1, False)],
        [(2, 1, False)],
    ]


def test_who_decodes_comes_before_an_older_prompt():
    """The younger one was let in first, since it was cached: the long prompt takes what it leaves of each step."""
    manager = CacheManager(64)
    warm(manager, range(10))
    scheduler = Scheduler(manager, token_budget=4, max_running=2, order=LongestPrefixFirst())
    submitted(scheduler, range(20, 30), range(10), new=3)
    assert [run_step(scheduler) for _ in range(3)] == [
        [(2, 1, True), (1, 3, True)],
        [(2, 1, False), (1, 3, True)],
        [(2, 1, False), (1, 3, True)],
    ]


def test_an_older_prompt_is_computed_before_a_younger_one():
    scheduler = Scheduler(CacheManager(64), token_budget=4, max_running=3)
    submitted(scheduler, range(10, 16), range(20, 26), new=1)
    assert [run_step(scheduler) for _ in range(3)] == [
        [(1, 4, True)],
        [(1, 2, True), (2, 2, True)],
        [(2, 4, True)],
    ]


def test_no_more_run_than_may():
    scheduler = Scheduler(CacheManager(64), max_running=2)
    submitted(scheduler, [1, 2], [3, 4], [5, 6], new=2)
    assert [len(step) for step in run_all(scheduler)] == [2, 2, 1, 1]


def test_what_a_chunk_computed_is_published_at_once():
    scheduler = Scheduler(CacheManager(64), token_budget=4, max_running=2)
    submitted(scheduler, range(10), new=1)
    run_step(scheduler)
    assert scheduler.manager.cache.total_size == 4


def test_a_cached_prompt_is_not_computed_again():
    scheduler = Scheduler(CacheManager(64))
    submitted(scheduler, range(10), new=1)
    run_all(scheduler)
    (again,) = submitted(scheduler, range(10), new=1)
    assert run_all(scheduler) == [[(2, 1, True)]]
    assert (again.cached_tokens, again.computed_tokens, again.first_token_steps) == (9, 1, 1)


# -- letting in -------------------------------------------------------------------------------------------------------


def test_what_can_never_fit_is_refused_at_once():
    """Nine tokens would lie in slots: eight of the prompt and one of two generated; the last one needs none."""
    scheduler = Scheduler(CacheManager(4, page_size=2))
    with pytest.raises(ValueError, match="8 prompt and 2 new tokens need 5 pages: the manager has 4,"):
        submitted(scheduler, range(8), new=2)
    assert not scheduler.waiting
    submitted(scheduler, range(8), new=1)
    run_all(scheduler)


def test_a_page_is_kept_for_each_that_runs():
    """Ten pages, four and four of prompts: beside them there is one page each. The third would take one away."""
    scheduler = Scheduler(CacheManager(10))
    submitted(scheduler, [1, 2, 3, 4], [5, 6, 7, 8], [9])
    assert run_step(scheduler) == [(1, 4, True), (2, 4, True)]


def test_who_finds_no_room_is_not_passed_by_a_smaller_one():
    scheduler = Scheduler(CacheManager(12))
    submitted(scheduler, range(8), range(20, 30), [40], new=2)
    assert run_step(scheduler) == [(1, 8, True)]
    assert [request.number for request in scheduler.waiting] == [2, 3]


def test_when_others_have_the_pages_it_says_so():
    manager = CacheManager(8)
    somebody = manager.start(range(6))
    scheduler = Scheduler(manager)
    submitted(scheduler, [1, 2, 3])
    with pytest.raises(OutOfPages, match="3 pages needed, but only 2 free and 0 evictable"):
        scheduler.schedule()
    manager.abort(somebody)
    assert run_step(scheduler) == [(1, 3, True)]


# -- preemption -------------------------------------------------------------------------------------------------------


def test_the_youngest_makes_way_and_computes_little_again():
    """Two of four tokens grow in ten pages: the younger is preempted, published, and starts again from the cache."""
    scheduler = Scheduler(CacheManager(10))
    old, young = submitted(scheduler, [1, 2, 3, 4], [5, 6, 7, 8], new=5)
    run_all(scheduler)
    assert (old.preemptions, young.preemptions) == (0, 1)
    assert (old.output, young.output) == ([7] * 5, [7] * 5)
    assert young.computed_tokens == 13  # eight, and five again: old needed the room
    assert scheduler.manager.pool.num_free + scheduler.manager.cache.total_size == 10


def test_one_page_short_nothing_is_computed_twice():
    """What the preempted request had computed is published, its answer too, and most of it is still there."""
    scheduler = Scheduler(CacheManager(15))
    _, young = submitted(scheduler, [1, 2, 3, 4], [5, 6, 7, 8], new=5)
    run_all(scheduler)
    assert (young.preemptions, young.computed_tokens) == (1, 4 + 5 - 1)
    assert young.cached_tokens == 0  # at first: what it found later was its own


def test_the_youngest_is_who_came_last_and_not_who_was_let_in_last():
    """The cached request is let in first; when room runs out it goes, since the stranger was there before."""
    manager = CacheManager(16)
    warm(manager, range(5))
    scheduler = Scheduler(manager, token_budget=16, max_running=2, order=LongestPrefixFirst())
    stranger, cached = submitted(scheduler, [50, 51, 52], [*range(5), 6], new=8)
    assert [number for number, _, _ in run_step(scheduler)] == [2, 1]
    run_all(scheduler)
    assert (stranger.preemptions, cached.preemptions) == (0, 1)


def test_who_was_preempted_comes_before_those_that_came_later():
    scheduler = Scheduler(CacheManager(10), max_running=2)
    old, young, last = submitted(scheduler, [1, 2, 3, 4], [5, 6, 7, 8], [9], new=5)
    while not young.preemptions:
        run_step(scheduler)
    assert scheduler.waiting == [young, last]
    run_all(scheduler)
    assert old.preemptions == 0


def test_the_oldest_is_never_preempted():
    scheduler = Scheduler(CacheManager(12), max_running=4)
    requests = submitted(scheduler, [1, 2], [3, 4], [5, 6], [7, 8], new=6)
    while not requests[0].is_over:
        run_step(scheduler)
    assert requests[0].preemptions == 0
    run_all(scheduler)
    assert [request.output for request in requests] == [[7] * 6] * 4


@given(
    st.lists(st.tuples(st.integers(1, 12), st.integers(1, 6)), min_size=1, max_size=6),
    st.sampled_from([1, 2, 4]),
    st.integers(0, 8),
    st.integers(1, 4),
    st.sampled_from([FirstComeFirstServed(), LongestPrefixFirst()]),
)
def test_whatever_comes_everybody_is_served(asked, page_size, more_pages, budget, order):
    """Prompts of one family in hardly any room: all of them end with what they asked for, and nothing is left."""
    least = max(-(-(length + new - 1) // page_size) for length, new in asked)
    manager = CacheManager(least + more_pages, page_size)
    scheduler = Scheduler(manager, budget, min(3, budget), order, max_overtakes=2, min_awaited_prefix=2)
    requests = [Request(range(length), new) for length, new in asked]
    for request in requests:
        scheduler.submit(request)
    run_all(scheduler)
    assert [len(request.output) for request in requests] == [new for _, new in asked]
    assert manager.pool.num_free * page_size + manager.cache.total_size == manager.num_pages * page_size
    assert not manager.cache.protected_size
    for request in requests:
        if not request.preemptions:
            assert request.cached_tokens + request.computed_tokens == request.prompt_tokens + request.max_new_tokens - 1


# -- order ------------------------------------------------------------------------------------------------------------


def warm(manager, tokens):
    with manager.request(tokens) as sequence:
        manager.advance(sequence)


def let_in(scheduler):
    """The order in which everybody who waits is let in, one at a time."""
    order = []
    while scheduler.waiting or scheduler.running:
        order += [number for number, _, prefill in run_step(scheduler) if prefill]
    return order


def test_the_longest_prefix_goes_first():
    manager = CacheManager(64)
    warm(manager, range(10))
    scheduler = Scheduler(manager, max_running=1, order=LongestPrefixFirst())
    submitted(scheduler, [50, 51], [0, 1, 2, 60], [0, 1, 2, 3, 4, 70], [52], new=1)
    assert let_in(scheduler) == [3, 2, 1, 4]


def test_first_come_first_served_does_not_look_at_the_cache():
    manager = CacheManager(64)
    warm(manager, range(10))
    scheduler = Scheduler(manager, max_running=1)
    submitted(scheduler, [50, 51], [0, 1, 2, 60], [0, 1, 2, 3, 4, 70], new=1)
    assert let_in(scheduler) == [1, 2, 3]


def test_a_step_looks_at_a_bounded_number_of_waiting_requests():
    """All of them wait for the same prefix; only so many are compared with the one that computes it."""
    scheduler = Scheduler(CacheManager(4096), token_budget=100, max_running=4, min_awaited_prefix=4)
    submitted(scheduler, *[range(60) for _ in range(2 * LOOK_AHEAD)], new=1)
    with mock.patch("minikv.serving.scheduler.common_prefix", side_effect=lambda a, b: 60) as compared:
        scheduler.schedule()
    assert 0 < compared.call_count <= LOOK_AHEAD


@pytest.mark.parametrize("max_overtakes", [0, 1, 3])
def test_nobody_is_overtaken_more_often_than_the_limit(max_overtakes):
    """A stream of requests that all match better than the first: it goes when `max_overtakes` of them are before it."""
    manager = CacheManager(256)
    warm(manager, range(10))
    scheduler = Scheduler(manager, max_running=1, order=LongestPrefixFirst(), max_overtakes=max_overtakes)
    submitted(scheduler, [99, 98], new=1)
    order = []
    for stranger in range(8):
        submitted(scheduler, [*range(10), 100 + stranger], [*range(9), 200 + stranger], new=1)
        order += [number for number, _, prefill in run_step(scheduler) if prefill]
    assert order.index(1) == max_overtakes


@given(st.data())
def test_the_bound_holds_for_everybody(data):
    """Whoever comes when, and however well it matches: no more than `max_overtakes` later ones are let in before it."""
    max_overtakes = data.draw(st.integers(0, 3))
    manager = CacheManager(64)
    warm(manager, range(12))
    scheduler = Scheduler(
        manager, 64, 2, LongestPrefixFirst(), max_overtakes, min_awaited_prefix=data.draw(st.integers(1, 6))
    )
    order = []
    for turn in range(12):
        for _ in range(data.draw(st.integers(0, 2))):
            cut = data.draw(st.integers(0, 12))
            submitted(scheduler, [*range(cut), 100, 100 + data.draw(st.integers(0, 1))], new=1 + turn % 3)
        order += [number for number, _, prefill in run_step(scheduler) if prefill]
    while scheduler.waiting or scheduler.running:
        order += [number for number, _, prefill in run_step(scheduler) if prefill]
    for place, number in enumerate(order):
        assert sum(later > number for later in order[:place]) <= max_overtakes


def test_nobody_is_looked_up_when_nobody_can_be_let_in():
    """A look into the cache is a use, and refreshes what it finds: it must not happen in every step of a long wait."""
    manager = CacheManager(64)
    scheduler = Scheduler(manager, max_running=1, order=LongestPrefixFirst())
    submitted(scheduler, [1, 2, 3], [4, 5], [6, 7], new=5)
    run_step(scheduler)
    with mock.patch.object(manager.cache, "match_prefix", wraps=manager.cache.match_prefix) as looked:
        run_step(scheduler)
    assert looked.call_count == 0


def test_a_long_queue_is_not_searched_to_its_end():
    looked = []
    waiting = [Request([1], 1) for _ in range(5)]

    def cached(request):
        looked.append(request)
        return waiting.index(request)

    arranged = LongestPrefixFirst(window=3).arrange(waiting, cached)
    assert arranged == [waiting[2], waiting[1], waiting[0], waiting[3], waiting[4]]
    assert len(looked) == 3


def test_a_request_says_where_it_is():
    scheduler = Scheduler(CacheManager(64))
    (request,) = submitted(scheduler, [1, 2, 3], new=2)
    said = [repr(request), *(repr(request) for _ in range(2) if run_step(scheduler))]
    assert said == [
        "Request(1, waiting, 3 prompt + 0 of 2 new tokens)",
        "Request(1, running, 3 prompt + 1 of 2 new tokens)",
        "Request(1, length, 3 prompt + 2 of 2 new tokens)",
    ]


def test_a_prompt_is_published_after_its_prefill_and_the_rest_at_the_end():
    scheduler, sizes = Scheduler(CacheManager(64)), []
    submitted(scheduler, [1, 2, 3], new=4)
    while scheduler.waiting or scheduler.running:
        run_step(scheduler)
        sizes.append(scheduler.manager.cache.total_size)
    assert sizes == [3, 3, 3, 6]


# -- two that need the same -------------------------------------------------------------------------------------------


def test_a_prefix_that_is_being_computed_is_waited_for():
    """Both prompts share eight tokens that nobody has: the second comes in when the first has published them."""
    scheduler = Scheduler(CacheManager(64), token_budget=6, max_running=2, min_awaited_prefix=2)
    first, second = submitted(scheduler, [*range(8), 90], [*range(8), 91], new=1)
    assert run_all(scheduler) == [[(1, 6, True)], [(1, 3, True)], [(2, 1, True)]]
    assert (first.computed_tokens, second.computed_tokens, second.cached_tokens) == (9, 1, 8)


@pytest.mark.parametrize(("least", "waits"), [(8, True), (9, False)])
def test_of_a_prefix_the_whole_pages_are_waited_for(least, waits):
    """They share ten tokens, eight of them in pages of four that both fill."""
    scheduler = Scheduler(CacheManager(16, 4), min_awaited_prefix=least)
    submitted(scheduler, [*range(10), 90, 92], [*range(10), 91, 93], new=1)
    assert [number for number, _, _ in run_step(scheduler)] == ([1] if waits else [1, 2])


def test_a_short_one_is_not():
    scheduler = Scheduler(CacheManager(64), min_awaited_prefix=9)
    submitted(scheduler, [*range(8), 90], [*range(8), 91], new=1)
    assert run_all(scheduler) == [[(1, 9, True), (2, 9, True)]]
    scheduler.manager.check()


@pytest.mark.parametrize("how", ["never", "no cache", "namespaces"])
def test_nobody_waits_for_what_will_not_come(how):
    cache = NoCache() if how == "no cache" else None
    manager = CacheManager(64, prefix_cache=cache)
    scheduler = Scheduler(manager, min_awaited_prefix=None if how == "never" else 2)
    for tenant in ("a", "b") if how == "namespaces" else (None, None):
        submitted(scheduler, range(8), new=1, namespace=tenant)
    assert [len(step) for step in run_all(scheduler)] == [2]


def test_what_has_been_published_is_not_waited_for():
    """The first is still computing, but the eight tokens that the second needs are there."""
    scheduler = Scheduler(CacheManager(64), token_budget=10, max_running=2, min_awaited_prefix=4)
    submitted(scheduler, range(14), [*range(8), 91], new=1)
    assert run_all(scheduler) == [[(1, 10, True)], [(1, 4, True), (2, 1, True)]]


def test_the_last_token_is_computed_anyway_and_not_waited_for():
    """Eight tokens in common, but of them the second needs only seven from the cache."""
    scheduler = Scheduler(CacheManager(64), min_awaited_prefix=8)
    submitted(scheduler, range(10), range(8), new=1)
    assert run_all(scheduler) == [[(1, 10, True), (2, 8, True)]]


def test_what_is_generated_is_not_waited_for():
    """An answer is published when it is finished, which may be long: whoever asks with it in its prompt goes ahead."""
    scheduler = Scheduler(CacheManager(64), min_awaited_prefix=2)
    submitted(scheduler, [1, 2], new=20)
    for _ in range(6):
        run_step(scheduler)
    submitted(scheduler, [1, 2, *[7] * 9], new=1)
    assert [number for number, _, _ in run_step(scheduler)] == [1, 2]


def test_others_may_pass_one_that_waits_for_a_prefix_but_not_for_ever():
    scheduler = Scheduler(CacheManager(64), token_budget=3, max_running=3, max_overtakes=1, min_awaited_prefix=4)
    submitted(scheduler, range(8), [*range(8), 91], [50], [51], new=1)
    order = let_in(scheduler)
    assert order[:1] == [1]
    assert order.index(2) < order.index(4)


# -- the ways out -----------------------------------------------------------------------------------------------------


def test_an_aborted_request_holds_nothing_wherever_it_was():
    scheduler = Scheduler(CacheManager(16), max_running=1)
    running, waiting = submitted(scheduler, [1, 2, 3], [4, 5])
    run_step(scheduler)
    for request in (running, waiting):
        scheduler.abort(request)
        with pytest.raises(ValueError, match=r"cannot abort request \d: it is over \(aborted\)"):
            scheduler.abort(request)
    assert scheduler.schedule() == []
    assert scheduler.manager.pool.num_free + scheduler.manager.cache.total_size == 16
    with pytest.raises(ValueError, match="it was not submitted here"):
        scheduler.abort(Request([1], 1))


def test_who_lost_its_sequence_starts_again():
    """A checkpoint that fails half-way ends the sequence, but not the request."""
    scheduler = Scheduler(CacheManager(16))
    (request,) = submitted(scheduler, [1, 2, 3])
    run_step(scheduler)
    scheduler.manager.abort(request.sequence)
    run_all(scheduler)
    assert request.output == [7] * 4


def test_who_lost_its_sequence_can_leave():
    scheduler = Scheduler(CacheManager(16))
    (request,) = submitted(scheduler, [1, 2, 3])
    run_step(scheduler)
    scheduler.manager.abort(request.sequence)
    scheduler.abort(request)
    assert (request.reason, scheduler.running) == ("aborted", [])


def test_what_cannot_be_aborted_is_aborted_at_the_next_step(monkeypatch):
    scheduler = Scheduler(CacheManager(16))
    (request,) = submitted(scheduler, [1, 2, 3])
    run_step(scheduler)
    with monkeypatch.context() as patch:
        patch.setattr(scheduler.manager, "abort", lambda sequence: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            scheduler.abort(request)
    assert scheduler.manager.sequences
    assert scheduler.schedule() == []
    assert (scheduler.running, scheduler.manager.sequences, request.sequence) == ([], [], None)


def test_whoever_is_over_leaves_even_if_another_could_not():
    """Publishing the first one's tokens fails: both are over all the same, and hold nothing after the next step."""
    scheduler = Scheduler(CacheManager(16))
    requests = submitted(scheduler, [1, 2, 3], [4, 5, 6], new=1)
    chunks, insert = scheduler.schedule(), scheduler.manager.cache.insert
    scheduler.manager.cache.insert = mock.Mock(side_effect=MemoryError)
    with pytest.raises(MemoryError):
        scheduler.update_from_output(chunks, [7, 7])
    scheduler.manager.cache.insert = insert
    assert [request.is_over for request in requests] == [True, True]
    assert scheduler.schedule() == []
    assert not scheduler.manager.sequences
    scheduler.manager.check()


def test_what_was_found_at_first_is_not_what_a_restart_finds():
    """The request lost its sequence after its first chunk, which is cached by now: that is its own work."""
    scheduler = Scheduler(CacheManager(16), token_budget=2, max_running=2)
    (request,) = submitted(scheduler, [1, 2, 3, 4], new=1)
    run_step(scheduler)
    scheduler.manager.abort(request.sequence)
    run_all(scheduler)
    assert (request.cached_tokens, request.computed_tokens) == (0, 4)


def test_what_is_entered_was_scheduled():
    """A token exactly where a chunk reaches the end of its tokens; anything else is refused, and nothing is entered."""
    scheduler = Scheduler(CacheManager(16), token_budget=4, max_running=2)
    submitted(scheduler, [1, 2], [3, 4, 5])
    chunks = scheduler.schedule()
    assert [chunk.samples for chunk in chunks] == [True, False]
    for tokens, message in (
        ([7], "1 tokens for 2 chunks"),
        ([None, None], "0 tokens are sampled for request 1: expected 1 to 1, as one token follows a complete prompt"),
        ([7, 7], "1 tokens are sampled for request 2: expected 0 to 0, as one token follows a complete prompt"),
    ):
        with pytest.raises(ValueError, match=message):
            scheduler.update_from_output(chunks, tokens)
    assert (scheduler.step, [chunk.request.computed_tokens for chunk in chunks]) == (0, [0, 0])
    scheduler.update_from_output(chunks, [7, None])
    assert scheduler.step == 1


@pytest.mark.parametrize(
    ("change", "tokens", "error", "message"),
    [
        (
            lambda a, b: [a, b._replace(num_tokens=3)],
            [7, None],
            ValueError,
            "num_tokens of request 2 is 3: it has 2 left to compute",
        ),
        (
            lambda a, b: [a, b._replace(num_tokens=0)],
            [7, None],
            ValueError,
            "num_tokens of request 2 is 0: it has 2 left to compute; a chunk takes at least 1 of them",
        ),
        (lambda a, b: [a, b._replace(num_tokens="2")], [7, 7], TypeError, "num_tokens of request 2 is '2'"),
        (
            lambda a, b: [a, a],
            [7, 7],
            ValueError,
            "request 1 does not run here, or has two chunks: a step computes one chunk of each",
        ),
        (lambda a, b: [a, another_chunk()], [7, 7], ValueError, "request 3 does not run here"),
        (lambda a, b: [a, b], [7, -1], ValueError, "token is -1"),
        (lambda a, b: [a, b], [7, 10**5000], ValueError, "token is an integer"),
    ],
    ids=["too long", "empty", "text", "twice", "foreign", "negative", "huge"],
)
def test_an_update_that_is_refused_enters_nothing(change, tokens, error, message):
    """The first chunk is right each time, and would have been entered."""
    scheduler = Scheduler(CacheManager(8))
    requests = submitted(scheduler, [1, 2], [5, 6], new=2)
    chunks = scheduler.schedule()
    with pytest.raises(error, match=message):
        scheduler.update_from_output(change(*chunks), tokens)
    assert scheduler.step == 0
    assert [(r.output, r.computed_tokens, r.sequence.computed) for r in requests] == [([], 0, 0)] * 2
    scheduler.update_from_output(chunks, [7, 8])
    assert [request.output for request in requests] == [[7], [8]]
    run_all(scheduler)


def another_chunk():
    """A chunk of another scheduler's third request."""
    scheduler = Scheduler(CacheManager(8))
    submitted(scheduler, [1], [2], [3])
    return scheduler.schedule()[2]


def test_a_request_that_loses_its_sequence_while_it_is_computed_starts_again():
    scheduler = Scheduler(CacheManager(16))
    lost, other = submitted(scheduler, [1, 2, 3], [4, 5, 6])
    chunks = scheduler.schedule()
    scheduler.manager.abort(lost.sequence)
    scheduler.update_from_output(chunks, [9, 7])
    assert (lost.output, other.output) == ([], [7])
    run_all(scheduler)
    assert lost.output == other.output == [7] * 4
    scheduler.manager.check()


def test_who_is_aborted_while_it_is_computed_is_passed_over():
    scheduler = Scheduler(CacheManager(16))
    gone, other = submitted(scheduler, [1, 2, 3], [4, 5, 6])
    chunks = scheduler.schedule()
    scheduler.abort(gone)
    scheduler.update_from_output(chunks, [7, 7])
    assert (gone.output, other.output) == ([], [7])
    scheduler.manager.check()
    run_all(scheduler)


def test_a_request_is_submitted_once():
    scheduler = Scheduler(CacheManager(16))
    (request,) = submitted(scheduler, [1])
    with pytest.raises(ValueError, match="cannot submit request 1: it was submitted before"):
        scheduler.submit(request)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_running": 0}, "max_running is 0: at least 1 request runs"),
        ({"token_budget": 3, "max_running": 4}, "token_budget is 3: each running request that decodes gets 1 token"),
        ({"max_overtakes": -1}, "max_overtakes is -1"),
        ({"min_awaited_prefix": 0}, "min_awaited_prefix is 0"),
    ],
)
def test_settings_that_make_no_sense_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        Scheduler(CacheManager(4), **options)


@pytest.mark.parametrize("order", ["fcfs", FirstComeFirstServed])
def test_an_order_that_cannot_arrange_is_refused(order):
    with pytest.raises(TypeError, match=r"order is .*: expected an Order"):
        Scheduler(CacheManager(4), order=order)


def test_an_order_that_leaves_somebody_out_is_told_so():
    """An engine would step for ever, with nothing to compute and somebody still waiting."""

    class OnlyTheFirst(FirstComeFirstServed):
        def arrange(self, waiting, cached):
            return list(waiting)[:1]

    scheduler = Scheduler(CacheManager(8), order=OnlyTheFirst())
    submitted(scheduler, [1], [2])
    with pytest.raises(ValueError, match=r"arranged 2 waiting requests, but returned 1"):
        scheduler.schedule()


def test_an_order_that_looks_at_nobody_is_refused():
    with pytest.raises(ValueError, match="window is 0"):
        LongestPrefixFirst(window=0)

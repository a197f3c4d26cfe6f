"""The scheduler: who is let in, computes what, and makes way; and nobody waits for ever."""

import json
from unittest import mock

import pytest
from chats import assert_nothing_leaked
from golden_text import replay, sections
from hypothesis import given, settings
from hypothesis import strategies as st
from nightly import NIGHTLY
from refusals import said
from test_manager import ran

from minikv import (
    CacheManager,
    FirstComeFirstServed,
    LongestPrefixFirst,
    NoCache,
    Request,
    Scheduler,
)
from minikv.serving.scheduler import LOOK_AHEAD

FEW = settings(max_examples=2000 if NIGHTLY else 40)


def plan(num_pages=64, page_size=1, warm=0, cache=None, **options):
    """A scheduler; of the tokens from 0 on, so many are cached."""
    manager = CacheManager(num_pages, page_size, cache)
    ran(manager, *[range(warm)] * bool(warm))
    return Scheduler(manager, **options)


def submitted(scheduler, *prompts, new=4, **options):
    requests = [Request(prompt, new, **options) for prompt in prompts]
    for request in requests:
        scheduler.submit(request)
    return requests


def run_step(scheduler):
    """One step whose every complete chunk samples token 7; what was scheduled, as (request, tokens, prefill)."""
    chunks = scheduler.schedule()
    complete = [c.request.sequence.computed + c.num_tokens == len(c.request.sequence.tokens) for c in chunks]
    scheduler.update_from_output(chunks, [7 if done else None for done in complete])
    scheduler.manager.check()
    return [(chunk.request.number, chunk.num_tokens, chunk.prefill) for chunk in chunks]


def run_all(scheduler):
    steps = []
    while scheduler.waiting or scheduler.running:
        steps.append(run_step(scheduler))
        assert len(steps) < 1000
    return steps


def printed(steps):
    """Steps as in `RUNS`."""
    words = [[f"{number}{'.+'[prefill]}{count}" for number, count, prefill in step] for step in steps]
    return [*map(" ".join, words)]


# What is scheduled in each step: "2+4" are 4 tokens of a prompt of request 2, "1.1" is the token
# that request 1 decodes. A second "+" after a "." is a request that was preempted, and computes
# again.
RUNS = "scheduler.txt"
NAMED = {"by prefix": LongestPrefixFirst(), "none": NoCache()}


@pytest.mark.parametrize("law", sections(RUNS))
def test_a_run_is_scheduled_so(law):
    """Each run is of prompts that get so many new tokens, with these settings."""

    def act(words):
        options = json.loads(words)
        prompts, new = options.pop("prompts"), options.pop("new")
        scheduler = plan(**{name: NAMED.get(value, value) for name, value in options.items()})
        requests = submitted(scheduler, *prompts, new=new)
        steps = run_all(scheduler)
        assert [request.output for request in requests] == [[7] * new] * len(prompts)
        for request in requests:
            counts = [count for step in steps for number, count, _ in step if number == request.number]
            assert request.computed_tokens == sum(counts)
        assert_nothing_leaked(scheduler.manager)
        return printed(steps)

    replay(RUNS, law, act)


def test_what_is_generated_is_not_waited_for():
    """An answer is published when it is finished, which may be long: whoever asks with it in its prompt goes ahead."""
    scheduler = plan(min_awaited_prefix=2)
    submitted(scheduler, [1, 2], new=20)
    for _ in range(6):
        run_step(scheduler)
    submitted(scheduler, [1, 2, *[7] * 9], new=1)
    assert printed([run_step(scheduler)]) == ["1.1 2+9"]


def test_nobody_waits_for_what_another_namespace_computes():
    scheduler = plan(min_awaited_prefix=2)
    for namespace in "ab":
        submitted(scheduler, range(8), new=1, namespace=namespace)
    assert printed(run_all(scheduler)) == ["1+8 2+8"]


def test_what_can_never_fit_is_refused_at_once():
    """Nine tokens would lie in slots: eight of the prompt and one of two generated; the last one needs none."""
    scheduler = plan(4, 2)
    words = "8 prompt and 2 new tokens need 5 pages: the manager has 4,"
    assert words in said(submitted, scheduler, range(8), new=2)
    assert not scheduler.waiting
    submitted(scheduler, range(8), new=1)
    run_all(scheduler)


def test_when_others_have_the_pages_it_says_so():
    scheduler = plan(8)
    somebody = scheduler.manager.start(range(6))
    submitted(scheduler, [1, 2, 3])
    assert "OutOfPages: 3 pages needed, but only 2 free and 0 evictable" in said(scheduler.schedule)
    scheduler.manager.abort(somebody)
    assert printed([run_step(scheduler)]) == ["1+3"]


@FEW
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
    requests = [submitted(scheduler, range(length), new=new)[0] for length, new in asked]
    run_all(scheduler)
    assert [len(request.output) for request in requests] == [new for _, new in asked]
    assert_nothing_leaked(scheduler.manager)
    for request in requests:
        if not request.preemptions:
            assert request.cached_tokens + request.computed_tokens == request.prompt_tokens + request.max_new_tokens - 1


# -- order ------------------------------------------------------------------------------------------------------------


def test_a_step_looks_at_a_bounded_number_of_waiting_requests():
    """All of them wait for the same prefix; only so many are compared with the one that computes it."""
    scheduler = plan(4096, token_budget=100, max_running=4, min_awaited_prefix=4)
    submitted(scheduler, *[range(60) for _ in range(2 * LOOK_AHEAD)], new=1)
    with mock.patch("minikv.serving.scheduler.common_prefix", side_effect=lambda a, b: 60) as compared:
        scheduler.schedule()
    assert 0 < compared.call_count <= LOOK_AHEAD


@FEW
@given(st.data())
def test_the_bound_holds_for_everybody(data):
    """Whoever comes when, and however well it matches: no more than `max_overtakes` later ones are let in before it."""
    max_overtakes, least = data.draw(st.integers(0, 3)), data.draw(st.integers(1, 6))
    options = {"max_overtakes": max_overtakes, "min_awaited_prefix": least}
    scheduler = plan(warm=12, token_budget=64, max_running=2, order=LongestPrefixFirst(), **options)
    steps = []
    for turn in range(12):
        for _ in range(data.draw(st.integers(0, 2))):
            cut = data.draw(st.integers(0, 12))
            submitted(scheduler, [*range(cut), 100, 100 + data.draw(st.integers(0, 1))], new=1 + turn % 3)
        steps.append(run_step(scheduler))
    order = [number for step in steps + run_all(scheduler) for number, _, prefill in step if prefill]
    for place, number in enumerate(order):
        assert sum(later > number for later in order[:place]) <= max_overtakes


def test_nobody_is_looked_up_when_nobody_can_be_let_in():
    """A look into the cache is a use, and refreshes what it finds: it must not happen in every step of a long wait."""
    scheduler = plan(max_running=1, order=LongestPrefixFirst())
    submitted(scheduler, [1, 2, 3], [4, 5], [6, 7], new=5)
    run_step(scheduler)
    with mock.patch.object(scheduler.manager.cache, "match_prefix", side_effect=AssertionError):
        run_step(scheduler)


def test_a_long_queue_is_not_searched_to_its_end():
    looked = []
    waiting = [Request([1], 1) for _ in range(5)]

    def cached(request):
        looked.append(request)
        return waiting.index(request)

    arranged = LongestPrefixFirst(window=3).arrange(waiting, cached)
    assert (arranged, len(looked)) == ([waiting[at] for at in (2, 1, 0, 3, 4)], 3)


def test_an_order_that_leaves_somebody_out_is_told_so():
    """An engine would step for ever, with nothing to compute and somebody still waiting."""
    scheduler = plan(order=mock.Mock(arrange=lambda waiting, cached: list(waiting)[:1]))
    submitted(scheduler, [1], [2])
    assert "arranged 2 waiting requests, but returned 1" in said(scheduler.schedule)

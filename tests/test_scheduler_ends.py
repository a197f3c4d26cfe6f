"""How requests leave a scheduler, whatever fails on the way, and what it refuses."""

from unittest import mock

import pytest
from chats import assert_nothing_leaked
from refusals import said
from test_scheduler import plan, run_all, run_step, submitted

from minikv import FirstComeFirstServed, Request, Scheduler


def test_an_aborted_request_holds_nothing_wherever_it_was():
    """Also if its sequence is gone already."""
    scheduler = plan(16, max_running=2)
    lost, running, waiting = submitted(scheduler, [1, 2, 3], [4, 5], [6])
    run_step(scheduler)
    scheduler.manager.abort(lost.sequence)
    for request in (lost, running, waiting):
        scheduler.abort(request)
        assert said(scheduler.abort, request).endswith("it is over (aborted)")
    assert scheduler.schedule() == []
    assert_nothing_leaked(scheduler.manager)
    assert said(scheduler.abort, Request([1], 1)) == "ValueError: cannot abort request 0: it was not submitted here"


@pytest.mark.parametrize("is_computing", [False, True])
def test_who_lost_its_sequence_starts_again(is_computing):
    """A checkpoint that fails half-way ends the sequence, but not the request.

    What was sampled for it is dropped.
    """
    scheduler = plan(16)
    lost, other = submitted(scheduler, [1, 2, 3], [4, 5, 6])
    if is_computing:
        chunks = scheduler.schedule()
        scheduler.manager.abort(lost.sequence)
        scheduler.update_from_output(chunks, [9, 7])
    else:
        run_step(scheduler)
        scheduler.manager.abort(lost.sequence)
    run_all(scheduler)
    assert lost.output == other.output == [7] * 4
    assert lost.cached_tokens == 0  # what was found at first: the rest is its own work


def test_what_cannot_be_aborted_is_aborted_at_the_next_step():
    scheduler = plan(16)
    (request,) = submitted(scheduler, [1, 2, 3])
    run_step(scheduler)
    with mock.patch.object(scheduler.manager, "abort", side_effect=ZeroDivisionError), pytest.raises(ZeroDivisionError):
        scheduler.abort(request)
    assert scheduler.manager.sequences
    assert scheduler.schedule() == []
    assert (scheduler.running, scheduler.manager.sequences, request.sequence) == ([], [], None)


def test_whoever_is_over_leaves_even_if_another_could_not():
    """Publishing the first one's tokens fails: both are over all the same, and hold nothing after the next step."""
    scheduler = plan(16)
    requests = submitted(scheduler, [1, 2, 3], [4, 5, 6], new=1)
    chunks = scheduler.schedule()
    with mock.patch.object(scheduler.manager.cache, "insert", side_effect=MemoryError), pytest.raises(MemoryError):
        scheduler.update_from_output(chunks, [7, 7])
    assert [request.is_over for request in requests] == [True, True]
    assert scheduler.schedule() == []
    assert_nothing_leaked(scheduler.manager)


# -- what is refused --------------------------------------------------------------------------------------------------


def another_chunk():
    """A chunk of another scheduler's third request."""
    scheduler = plan()
    submitted(scheduler, [1], [2], [3])
    return scheduler.schedule()[2]


def chunk_of(num_tokens):
    return lambda a, b: [a, b._replace(num_tokens=num_tokens)]


@pytest.mark.parametrize(
    ("change", "tokens", "message"),
    [
        (chunk_of(2), [7], "1 tokens for 2 chunks"),
        (chunk_of(2), [None, None], "0 tokens are sampled for request 1: expected 1 to 1, as one token follows a comp"),
        (chunk_of(2), [7, 7], "1 tokens are sampled for request 2: expected 0 to 0, as one token follows a complete"),
        (chunk_of(4), [7, None], "num_tokens of request 2 is 4: it has 3 left to compute"),
        (chunk_of(0), [7, None], "num_tokens of request 2 is 0: it has 3 left to compute; a chunk takes at least 1 of"),
        (chunk_of("2"), [7, 7], "num_tokens of request 2 is '2'"),
        (lambda a, b: [a, a], [7, 7], "request 1 does not run here, or has two chunks: a step computes one chunk of"),
        (lambda a, b: [a, another_chunk()], [7, 7], "request 3 does not run here"),
        (chunk_of(3), [7, -1], "token is -1"),
        (chunk_of(3), [7, 10**5000], "token is an integer"),
    ],
    ids=["few", "none", "early", "too long", "empty", "text", "twice", "foreign", "negative", "huge"],
)
def test_an_update_that_is_refused_enters_nothing(change, tokens, message):
    """The first chunk is right in the last ones, and would have been entered.

    The second has 2 tokens of 3.
    """
    scheduler = plan(8, token_budget=4, max_running=2)
    requests = submitted(scheduler, [1, 2], [5, 6, 7], new=2)
    chunks = scheduler.schedule()
    assert [chunk.samples for chunk in chunks] == [True, False]
    assert message in said(scheduler.update_from_output, change(*chunks), tokens)
    assert [(r.output, r.computed_tokens, r.sequence.computed) for r in requests] == [([], 0, 0)] * 2
    assert scheduler.step == 0
    scheduler.update_from_output(chunks, [7, None])
    assert ([request.output for request in requests], scheduler.step) == ([[7], []], 1)
    run_all(scheduler)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: plan(token_budget=3, max_running=4), "ValueError: token_budget is 3: each running request that decod"),
        (lambda: plan(order=FirstComeFirstServed), "FirstComeFirstServed'>: expected an Order"),
        (lambda: Scheduler(5), "TypeError: manager is 5: expected a CacheManager"),
        (lambda: plan().submit(1.0), "TypeError: cannot submit 1.0: expected a Request"),
        (lambda: plan().submit(another_chunk().request), "cannot submit request 3: it was submitted before"),
    ],
)
def test_what_makes_no_sense_is_refused(make, words):
    """That numbers are in their ranges is in test_arguments."""
    assert words in said(make)

"""Sessions of agents: merged by time, with ids of their own, and line by broken line."""

import itertools
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikv.tokens import common_prefix
from minikv.traffic import TraceError
from minikv.traffic.agents import AgentSessions


def session(*requests):
    return json.dumps({"block_size": 64, "requests": requests})


def test_sessions_begin_evenly_over_the_span_and_are_merged_by_time_session_and_position():
    """Two sessions in an hour: the second begins after 1,800 s, at once with the first one's second request."""
    first = session([0, 64, 1, 0, [[0, 100]]], [1800, 64, 2, 0, [[1, 1]]], [1800, 64, 3, 0, [[2, 1]]])
    second = session([0.0, 64, 4, 0, [[0, 1]]], [0.5, 64, 5, 0, [[1, 1]]])
    sessions, half = AgentSessions([first, second], span_hours=1), 1_800_000
    assert (len(sessions), sessions.num_sessions, sessions.block_size) == (5, 2, 64)
    found = [(request.timestamp, request.conversation, request.output_length) for request in sessions]
    assert found == [(0, 0, 1), (half, 0, 2), (half, 0, 3), (half, 1, 4), (half + 500, 1, 5)]


@st.composite
def conversations(draw):
    """Sessions as lists of prompts: each begins with a part of the one before it."""
    found = []
    for _ in range(draw(st.integers(1, 4))):
        prompts, blocks = [], []
        for _ in range(draw(st.integers(0, 5))):
            blocks = blocks[: draw(st.integers(0, len(blocks)))]
            blocks = blocks + draw(st.lists(st.integers(0, 20), max_size=4))
            prompts.append(blocks)
        found.append(prompts)
    return found


def written(prompts):
    """A session of `prompts`, with what each shares with the one before it, and one run a block."""
    requests, before = [], []
    for at, blocks in enumerate(prompts):
        shared = common_prefix(before, blocks)
        requests.append([at, 64 * len(blocks), 1, shared, [[block, 1] for block in blocks[shared:]]])
        before = blocks
    return session(*requests)


@given(conversations(), st.sampled_from([0, 0.001, 8]))
def test_prompts_come_back_whole_and_no_two_sessions_have_a_block_in_common(sessions, span_hours):
    found = [[] for _ in sessions]
    for request in AgentSessions(map(written, sessions), span_hours=span_hours):
        found[request.conversation].append(request.blocks.tolist())
    base = 0
    for got, prompts in zip(found, sessions):
        assert got == [[base + block for block in blocks] for blocks in prompts]
        base += max(itertools.chain([-1], *prompts)) + 1


OK = [0, 64, 1, 0, [[0, 1]]]


def test_too_many_requests_are_refused_before_they_are_stored(monkeypatch):
    monkeypatch.setattr("minikv.traffic.agents.MOST_REQUESTS", 3)
    with pytest.raises(TraceError, match="line 2: the trace has over 3 requests"):
        AgentSessions([session(OK, OK), session(OK, OK)])


def test_a_short_line_cannot_name_more_blocks_than_anybody_could_replay(monkeypatch):
    monkeypatch.setattr("minikv.traffic.agents.MOST_TRACE_BLOCKS", 10)
    with pytest.raises(TraceError, match=r"line 1: the sessions have over .* or 2\*\*34 blocks"):
        AgentSessions([session([0, 64, 1, 0, [[0, 5]]], [0, 64, 1, 5, []], [0, 64, 1, 1, []])])


def test_a_request_shares_no_more_blocks_than_the_one_before_it_has():
    with pytest.raises(TraceError, match=r"line 1: requests\[1\]: shared is 3: expected at most 2"):
        AgentSessions([session([0, 128, 1, 0, [[7, 2]]], [0, 192, 1, 3, []])])


def test_the_ids_of_all_sessions_are_tokens():
    most = session([0, 64, 1, 0, [[2**32 - 2, 1]]])  # with the id after it, all of them
    assert len(AgentSessions([most, session(OK)])) == 2
    with pytest.raises(TraceError, match=r"line 3: the sessions have over 2\*\*32 block ids"):
        AgentSessions([most, session(OK), session(OK)])


@pytest.mark.parametrize("span_hours", [-1, 10**7])
def test_a_span_is_a_number_of_hours(span_hours):
    with pytest.raises(ValueError, match=r"span_hours is .*: expected a number from 0 to 1e\+06"):
        AgentSessions([session(OK)], span_hours=span_hours)

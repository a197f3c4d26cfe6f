"""Sessions of agents: merged by time, with ids of their own, and line by broken line."""

from __future__ import annotations

import itertools
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikv.tokens import TOKEN_LIMIT
from minikv.traffic import TraceError
from minikv.traffic.agents import AgentSessions

pytestmark = pytest.mark.core


def session(*requests, **changes):
    entry = {"block_size": 64, "requests": list(requests), **changes}
    return json.dumps({key: value for key, value in entry.items() if value != "left out"})


def test_sessions_begin_evenly_over_the_span_and_are_merged_by_time_session_and_position():
    """Two sessions in an hour: the second begins after 1,800 s, at once with the first one's second request."""
    first = session([0, 64, 1, 0, [[0, 1]]], [1800, 64, 2, 0, [[1, 1]]], [1800, 64, 3, 0, [[2, 1]]])
    second = session([0.0, 64, 4, 0, [[0, 1]]], [0.5, 64, 5, 0, [[1, 1]]])
    found = [(r.timestamp, r.conversation, r.output_length) for r in AgentSessions([first, second], span_hours=1)]
    half = 1_800_000
    assert found == [(0, 0, 1), (half, 0, 2), (half, 0, 3), (half, 1, 4), (half + 500, 1, 5)]


def test_of_many_at_once_the_earlier_session_and_position_comes_first():
    """320 requests at two times: more than a sort that is not stable would leave in order."""
    lines = [session(*[[at // 4, 64, at, 0, [[0, 1]]] for at in range(8)]) for _ in range(40)]
    found = [(request.conversation, request.output_length) for request in AgentSessions(lines, span_hours=0)]
    assert found == [(number, 4 * half + at) for half in (0, 1) for number in range(40) for at in range(4)]


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
        shared = next(
            (i for i, pair in enumerate(zip(before, blocks)) if pair[0] != pair[1]), min(len(before), len(blocks))
        )
        requests.append([at, 64 * len(blocks), 1, shared, [[block, 1] for block in blocks[shared:]]])
        before = blocks
    return session(*requests)


@given(conversations(), st.sampled_from([0, 0.001, 8]))
def test_prompts_come_back_whole_and_no_two_sessions_have_a_block_in_common(sessions, span_hours):
    found = {number: [] for number in range(len(sessions))}
    for request in AgentSessions(map(written, sessions), span_hours=span_hours):
        found[request.conversation].append(request.blocks.tolist())
    bases = []
    for number, prompts in enumerate(sessions):
        assert len(found[number]) == len(prompts)
        shifts = {a - b for got, said in zip(found[number], prompts) for a, b in zip(got, said)}
        assert len(shifts) <= 1
        assert [len(blocks) for blocks in found[number]] == [len(blocks) for blocks in prompts]
        bases += [(min(shifts), min(shifts) + max(map(max, filter(None, prompts))))] if shifts else []
    assert all(end < start for (_, end), (start, _) in itertools.pairwise(bases))


def test_requests_and_sessions_are_counted():
    sessions = AgentSessions([session([0, 64, 1, 0, [[0, 1]]], [1, 64, 1, 1, []]), session()])
    assert (len(sessions), sessions.num_sessions, sessions.block_size) == (2, 2, 64)


OK = [0, 64, 1, 0, [[0, 1]]]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (session(block_size="left out"), "block_size is None"),
        (session(block_size=0), "block_size is 0"),
        (session(block_size=32), "block_size is 32: the first session has 64"),
        (session(block_size=2**40), "block_size is 1099511627776: expected at most"),
        (session(requests="left out"), "requests is None: expected a list"),
        (session(requests={"a": 1}), "requests is {'a': 1}: expected a list"),
        (session(OK, 7), r"requests\[1\]: 7 is not a list"),
        (session([0, 64, 1, 0]), r"requests\[0\]: \[0, 64, 1, 0\] is not a list"),
        (session(["0", *OK[1:]]), "t is '0': expected a number from 0"),
        (session([-1, *OK[1:]]), "t is -1: expected"),
        (session([2e9, *OK[1:]]), "t is 2000000000.0: expected"),
        (session([True, *OK[1:]]), "t is True"),
        (session(OK).replace("[0, 64", "[1e999, 64"), "t is inf"),
        (session(OK).replace("[0, 64", "[NaN, 64"), "the number NaN"),
        (session([5, *OK[1:]], OK), r"requests\[1\]: t is 0: the request before it has 5"),
        (session([0, -1, 1, 0, []]), "input is -1"),
        (session([0, 2**53 + 1, 1, 0, []]), "input is 9007199254740993: expected at most"),
        (session([0, 1.5, 1, 0, []]), "input is 1.5"),
        (session([0, 64, None, 0, []]), "output is None"),
        (session([0, 64, 1, 1, []]), "shared is 1: expected at most 0"),
        (session(OK, [0, 64, 1, 2, []]), r"requests\[1\]: shared is 2: expected at most 1"),
        (session([0, 64, 1, -1, []]), "shared is -1: the request before has blocks 0 to 0"),
        (session([0, 64, 1, 0, 5]), "new is 5: expected a list of runs"),
        (session([0, 64, 1, 0, [5]]), "5 is not a run"),
        (session([0, 64, 1, 0, [[1, 2, 3]]]), r"\[1, 2, 3\] is not a run"),
        (session([0, 64, 1, 0, [[-1, 2]]]), "first is -1"),
        (session([0, 64, 1, 0, [[2**32, 1]]]), "first is 4294967296: expected at most"),
        (session([0, 64, 1, 0, [[1, 0]]]), "count is 0: a run has at least 1 block"),
        (session([0, 64, 1, 0, [[TOKEN_LIMIT - 1, 2]]]), "count is 2: expected at most 1"),
        (session([0, 64, 1, 0, [[0, 2**31]]]), "it has over 2097152 blocks"),
        (
            session([0, 64, 1, 0, [[0, 2**21]]], [0, 64, 1, 2**21, [[0, 1]]]),
            r"requests\[1\]: it has over 2097152 blocks",
        ),
        (session([0, 64, 1, 0, [[TOKEN_LIMIT - 1, 1]]]), r"the sessions have over 2\*\*32 block ids"),
        (session(["x" * 10**6, *OK[1:]]), "t is 'x{20,60}…"),
    ],
)
def test_a_broken_session_is_named_with_its_line_and_the_reason_in_one_bounded_line(text, reason):
    with pytest.raises(TraceError, match=rf"a.jsonl, line 3: .*{reason}") as caught:
        AgentSessions([session(OK), "", text], "a.jsonl")
    assert len(str(caught.value)) < 300
    assert str(caught.value).isprintable()


def test_too_many_requests_are_refused_before_they_are_stored(monkeypatch):
    monkeypatch.setattr("minikv.traffic.agents.MOST_REQUESTS", 3)
    with pytest.raises(TraceError, match="line 2: the trace has over 3 requests"):
        AgentSessions([session(OK, OK), session(OK, OK)])


def test_a_short_line_cannot_name_more_blocks_than_anybody_could_replay(monkeypatch):
    monkeypatch.setattr("minikv.traffic.agents.MOST_TRACE_BLOCKS", 10)
    with pytest.raises(TraceError, match=r"line 1: the sessions have over .* or 2\*\*34 blocks"):
        AgentSessions([session([0, 64, 1, 0, [[0, 5]]], [0, 64, 1, 5, []], [0, 64, 1, 1, []])])


@pytest.mark.parametrize("span_hours", [-1, float("nan"), float("inf"), "8", True, 10**7])
def test_a_span_is_a_number_of_hours(span_hours):
    with pytest.raises(ValueError, match="span_hours is "):
        AgentSessions([session(OK)], span_hours=span_hours)

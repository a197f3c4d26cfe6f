"""The pieces of chapter 08: what a step computes, and how. Playing the first two needs torch."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from hypothesis import strategies as st

from minikv.course.pieces.hunt import call_hunt
from minikv.course.pieces.piece import Piece, exercise
from minikv.course.pieces.serving_plays import (
    play_attention,
    play_next_chunk,
    play_preempt,
    play_repeat_kv,
    play_schedule,
    play_serving,
)

_LEFT = st.lists(st.one_of(st.just(1), st.integers(0, 9)), max_size=6)
_RUNNING = st.tuples(st.text("01", min_size=1, max_size=5), st.integers(0, 6))
_CHUNK_DAYS = (
    "start 73162548",
    "start 73162548, compute 0 3",
    "start 73162548, compute 0 7",
    "start 123 B, extend 0 45",
    "start 1234, compute 0, finish 0, start 12345",
    "start 12, start 345, compute 1 2",
)
_PROMPT = st.text("01", min_size=1, max_size=7)
_SERVICES = [
    (9, 1, 8, [("123", 1, 0)], 2, 9),
    (9, 1, 8, [("123", 3, 0)], 4, 9),
    (9, 1, 2, [("12345", 2, 0)], 5, 9),
    (12, 2, 4, [("12345", 3, 0), ("12367", 2, 0)], 7, 9),
    (8, 1, 8, [("12", 5, 0), ("34", 5, 0), ("5", 2, 0)], 9, 9),
    (9, 3, 4, [("1234567", 2, 0), ("1234567", 4, 0)], 7, 9),
    (12, 1, 8, [("1", 4, 1.0), ("2", 4, 1.0), ("3", 4, 0)], 5, 9),
    (20, 2, 3, [("12121212", 3, 0), ("3", 9, 0), ("1212121", 1, 2.0)], 12, 9),
    (20, 1, 4, [("123456712", 1, 0), ("34", 2, 0)], 5, 2),
]
_SERVICE = st.tuples(
    st.integers(6, 12), st.integers(1, 3), st.integers(1, 9),
    st.lists(st.tuples(_PROMPT, st.integers(1, 5), st.sampled_from([0, 0, 1.0])), min_size=1, max_size=3),
    st.integers(1, 8), st.sampled_from([9, 9, 2]),
)  # fmt: skip

PIECES = (
    Piece(
        "8.1", "attention", play_attention,
        cases=[(1, 0, 1, 4, 0, 1), (1, 2, 1, 4, 1, 1), (2, 0, 1, 4, 2, 1), (2, 2, 1, 4, 3, 1), (2, 1, 2, 3, 4, 1),
               (3, 1, 1, 4, 5, 1), (2, 2, 1, 4, 3, 100_000)],
        strategy=st.tuples(*(st.integers(*ends) for ends in ((1, 4), (0, 4), (1, 3), (1, 8), (0, 99))),
                           st.sampled_from([1, 1, 1, 100_000])),
    ),
    Piece(
        "8.6", "repeat_kv", play_repeat_kv,
        cases=[(2, 1, 1, 2), (3, 2, 1, 2), (2, 1, 3, 2), (3, 2, 2, 2), (1, 2, 3, 4)],
        strategy=st.tuples(*(st.integers(1, most) for most in (4, 4, 4, 3))),
    ),
    Piece(
        "8.7", "next_chunk", play_next_chunk,
        cases=[(9, 1, "start 123", 2), (9, 1, "start 31425, compute 0 2", 1), (9, 2, "start 7316254, compute 0 3", 1),
               (9, 1, "start 123, compute 0, finish 0, start 12456", 2), (9, 3, "start 12345 B, compute 0 4", 0),
               (9, 1, "start 123, compute 0, extend 0 4", 0)],
        strategy=st.tuples(st.integers(9, 12), st.integers(1, 3), st.sampled_from(_CHUNK_DAYS), st.integers(0, 9)),
    ),
    Piece(
        "8.2", "schedule", play_schedule,
        cases=[([], 8), ([5], 3), ([5, 9], 8), ([10, 1], 8), ([1, 10, 1, 4], 8), ([1, 1, 1], 2), ([2, 9, 1], 0),
               ([0, 5], 8)],
        strategy=st.tuples(_LEFT, st.integers(0, 12)),
    ),
    Piece(
        "8.3", "preempt", play_preempt,
        cases=[([("123", 4), ("45", 3)], 0, 1), ([("123", 4), ("45", 3)], 2, 1), ([("12", 3), ("13", 2)], 1, 2),
               ([("123", 0)], 1, 1), ([("1", 2), ("2", 2), ("3", 1)], 1, 3)],
        strategy=st.tuples(st.lists(_RUNNING, min_size=1, max_size=3), st.integers(0, 2), st.integers(1, 3)),
    ),
    Piece(
        "8.8", "update_from_output", play_serving, cases=_SERVICES, strategy=_SERVICE,
    ),
    Piece(
        "8.9", "run_step", play_serving, cases=_SERVICES, strategy=_SERVICE,
    ),
)  # fmt: skip


_Queue = list[int]
_Requests = Sequence[tuple[int, int]]
_Case = tuple[int, list[tuple[int, int]]]


def let_in(cached: Sequence[int], max_overtakes: int) -> list[int]:
    """The order in which a `Scheduler` with one place lets requests in; request `i` has `cached[i]` cached tokens.

    The longest prefix goes first, but a request is overtaken at most `max_overtakes` times.

    >>> let_in([0, 2, 3], max_overtakes=1)
    [2, 0, 1]
    """
    waiting, overtaken, order = list(range(len(cached))), [0] * len(cached), []
    while waiting:
        tired = [i for i in waiting if overtaken[i] >= max_overtakes]
        order.append(tired[0] if tired else max(waiting, key=lambda i: cached[i]))
        waiting.remove(order[-1])
        for i in waiting:
            overtaken[i] += i < order[-1]
    return order


def serving(slots: int, requests: _Requests, wait_again: Callable[[_Queue, int], _Queue]) -> Iterator[int]:
    """The requests as they finish, in an engine with so many slots; a request is (tokens in its prompt, new tokens)."""
    waiting, said = list(range(len(requests))), [0] * len(requests)
    running: list[int] = []
    held: dict[int, int] = {}  # slots
    while waiting or running:
        for who in list(running):  # the oldest first: a slot for what it said last
            while who in running and sum(held.values()) == slots:
                youngest = running.pop()
                del held[youngest]
                waiting = wait_again(waiting, youngest)
            if who in running:
                held[who] += 1
        while waiting and sum(held.values()) + requests[waiting[0]][0] + said[waiting[0]] + len(running) <= slots:
            running.append(waiting.pop(0))
            held[running[-1]] = requests[running[-1]][0] + said[running[-1]]
        for who in list(running):
            said[who] += 1
            if said[who] == requests[who][1]:
                running.remove(who)
                del held[who]
                yield who


def finished(slots: int, requests: _Requests) -> list[int]:
    """The order in which they finish, when a preempted request waits at the front of the line."""
    if any(prompt < 1 or new < 1 or prompt + new - 1 > slots for prompt, new in requests):
        raise ValueError(f"a request has a prompt, says something, and fits into {slots} slots")
    return list(serving(slots, requests, lambda waiting, who: [who, *waiting]))


def _preemptions(case: _Case) -> list[tuple[int, int]]:
    """For each preemption which request it was, and how many waited."""
    seen: list[tuple[int, int]] = []

    def wait_again(waiting: _Queue, who: int) -> _Queue:
        seen.append((who, len(waiting)))
        return [who, *waiting]

    list(serving(*case, wait_again))
    return seen


def _advice(case: _Case) -> str | None:
    """A hint for a call that does no harm: what it has not got yet."""
    try:
        finished(*case)
    except TypeError:
        return "fix the call first: a number of slots, then a list of pairs of numbers"
    except ValueError:
        return "each request must fit by itself: its prompt, and all it says but the last token"
    seen = _preemptions(case)
    if not seen:
        return "no request is preempted here: take fewer slots, or let them say more"
    if not any(waiting for _, waiting in seen):
        return "where no other request waits, the front of the line is its end: add one that cannot come in at first"
    return "a request that waits after it must come in before the preempted one, and be done before it: let it be short"


EXERCISES = (
    exercise(
        "8.4", "let_in", let_in,
        cases=[([3], 0), ([2, 1], 1), ([1, 2], 1), ([1, 1], 1), ([1, 2], 0), ([3, 0, 2, 1], 1), ([0, 0, 1, 2, 3], 2),
               ([0, 3, 0, 2, 1], 1)],
        strategy=st.tuples(st.lists(st.integers(0, 3), max_size=6), st.integers(0, 3)),
    ),
    call_hunt(
        "8.5", "careless_finished", "it waits at the end of the line", finished, advice=_advice,
    ),
)  # fmt: skip

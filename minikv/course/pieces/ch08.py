"""The pieces of chapter 08: what a step computes, and how. Playing the first two needs torch."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import product
from typing import Any

from hypothesis import strategies as st

from minikv.course.pieces.hunt import call_hunt
from minikv.course.pieces.observer import RETURNED, Words
from minikv.course.pieces.piece import Frames, Piece, Shown, called, exercise
from minikv.course.pieces.props import listed, numbers
from minikv.course.pieces.serving_plays import play_serving
from minikv.course.pieces.showing import attention_picture, schedule_picture
from minikv.engine import World, ours

NEAR = 1e-5  # numbers that differ by less are the same: how an answer rounds is its own affair


def play_attention(world: World, case: Any) -> Frames:
    """`new` tokens after `past` ones, with random queries, times `scale`: in float64, and of what kind it is in others.

    Where there is room, the value of a token names that token, so the result is the shares that a token takes of all.
    """
    import torch

    new, past, heads, dim, scale = case
    length, chance = past + new, torch.Generator().manual_seed(dim)
    q = torch.randn(new, heads, dim, generator=chance, dtype=torch.float64) * scale
    keys, values = torch.randn(2, length, heads, dim, generator=chance, dtype=torch.float64)
    if dim >= length:
        values = torch.eye(length, dim, dtype=torch.float64)[:, None].repeat(1, heads, 1)
    given = {"q": q, "keys": keys, "values": values}
    right, found = ours("8.1", {"torch": torch})(*given.values()), world["attention"](*given.values())
    rows = dict[str, list[float]]()
    if _kind(found) == _kind(right):
        near = right.where((found - right).abs() < NEAR, found).round(decimals=4) + 0.0
        for row, head in product(range(new), range(heads)):
            rows[f"what token {past + row} gets in head {head}"] = near[row, head, :length].tolist()
    caption = (
        f"attention({'q' if scale == 1 else f'{scale} * q'}, keys, values) with {new} new and {past} earlier tokens"
    )
    things = {RETURNED: _kind(found), **rows, **{name: each.flatten().tolist() for name, each in given.items()}}
    yield Shown(caption, things, attention_picture(rows) if rows and dim >= length else None)
    for kind in (torch.float32, torch.bfloat16):
        found = world["attention"](*(each.to(kind) for each in given.values()))
        yield Shown(f"{caption} in {kind}", {RETURNED: _kind(found)})


def _kind(found: Any) -> Any:
    """A tensor in words, without its numbers; anything else as it is."""
    is_array = hasattr(found, "dtype")
    return Words(f"a {type(found).__name__} of shape {tuple(found.shape)} and {found.dtype}") if is_array else found


def play_repeat_kv(world: World, case: Any) -> Frames:
    """So many tokens and KV heads, each with numbers of its own, for groups of so many query heads."""
    import torch

    tokens, kv_heads, group, dim = case
    kv = torch.arange(tokens * kv_heads * dim, dtype=torch.float64).view(tokens, kv_heads, dim)
    found, read = world["repeat_kv"](kv, kv_heads * group), list[int | None]()
    if _kind(found) == _kind(kv.repeat(1, group, 1)):
        for head in range(found.shape[1]):
            read.append(next((at for at in range(kv_heads) if found[:, head].equal(kv[:, at])), None))
    things = {RETURNED: _kind(found), "the KV head that each query head reads": read, "kv": kv.flatten().tolist()}
    yield Shown(f"repeat_kv(kv of shape {tuple(kv.shape)}, {kv_heads * group})", things)


def play_schedule(world: World, case: Any) -> Frames:
    """One step's budget for running requests with so many tokens left, a digit for each."""
    left = numbers(case[0])
    shown = called(world, "schedule", left=list(left), budget=case[1], words=listed)
    yield shown._replace(picture=schedule_picture(left, shown.things[RETURNED]))


_PROMPT = st.text("01", min_size=1, max_size=7)
_SERVICES = [
    (9, 1, 8, 9, "123 1"), (9, 1, 8, 9, "123 3"), (9, 1, 2, 9, "12345 2"), (12, 2, 4, 9, "12345 3, 12367 2"),
    (8, 1, 8, 9, "12 5, 34 5, 5 2"), (9, 3, 4, 9, "1234567 2, 1234567 4"), (12, 1, 8, 9, "1 4 warm, 2 4 warm, 3 4"),
    (20, 1, 4, 2, "123456712 1, 34 2"),
]  # fmt: skip
_SERVICE = st.tuples(
    st.integers(6, 12), st.integers(1, 3), st.integers(1, 9), st.sampled_from([9, 9, 2]),
    st.lists(st.builds("{} {} {}".format, _PROMPT, st.integers(1, 4), st.sampled_from(["", "", "warm"])),
             min_size=1, max_size=3).map(", ".join),
)  # fmt: skip

PIECES = (
    Piece(
        "8.1", "attention", play_attention,
        cases=[(1, 0, 1, 4, 1), (1, 2, 1, 4, 1), (2, 0, 1, 4, 1), (2, 2, 1, 4, 1), (2, 1, 2, 3, 1), (3, 1, 1, 4, 1),
               (2, 2, 1, 4, 100_000)],
        strategy=st.tuples(*(st.integers(*ends) for ends in ((1, 4), (0, 4), (1, 3), (1, 8))),
                           st.sampled_from([1, 1, 1, 100_000])),
    ),
    Piece(
        "8.2", "repeat_kv", play_repeat_kv,
        cases=[(2, 1, 1, 2), (3, 2, 1, 2), (2, 1, 3, 2), (3, 2, 2, 2)],
        strategy=st.tuples(*(st.integers(1, most) for most in (4, 4, 4, 3))),
    ),
    Piece(
        "8.3", "schedule", play_schedule,
        cases=[("", 8), ("5", 3), ("59", 8), ("91", 8), ("1914", 8), ("111", 2), ("291", 0), ("05", 8)],
        strategy=st.tuples(st.text("01123456789", max_size=6), st.integers(0, 12)),
    ),
    Piece("8.4", "run_step", play_serving, _SERVICES, _SERVICE),
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
        "8.5", "let_in", let_in,
        cases=[([3], 0), ([2, 1], 1), ([1, 2], 1), ([1, 1], 1), ([1, 2], 0), ([3, 0, 2, 1], 1), ([0, 0, 1, 2, 3], 2),
               ([0, 3, 0, 2, 1], 1)],
        strategy=st.tuples(st.lists(st.integers(0, 3), max_size=6), st.integers(0, 3)),
    ),
    call_hunt(
        "8.6", "careless_finished", "it waits at the end of the line", finished, advice=_advice,
    ),
)  # fmt: skip

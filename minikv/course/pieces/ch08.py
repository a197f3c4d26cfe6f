"""The pieces of chapter 08: what a step computes, and how. Playing the first two needs torch."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import product
from typing import Any

from hypothesis import strategies as st

from minikv.course.pieces.hunt import call_hunt
from minikv.course.pieces.observer import ALL_RIGHT, RETURNED, Words
from minikv.course.pieces.piece import Cost, Frames, Piece, Shown, called, exercise
from minikv.course.pieces.props import listed, numbers, shuffle, steps_of, up_to
from minikv.course.pieces.showing import attention_picture, schedule_picture
from minikv.engine import World, ours
from minikv.serving import SamplingParams
from minikv.testing.canary import CanaryModel
from minikv.testing.watch import watch

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
            rows[f"token {past + row} in head {head}"] = near[row, head, :length].tolist()
    caption = (
        f"attention({'q' if scale == 1 else f'{scale} * q'}, keys, values) with {new} new and {past} earlier tokens"
    )
    things = {RETURNED: _kind(found), **rows, **{name: each.flatten().tolist() for name, each in given.items()}}
    things["the result"] = _stays(found, lambda: world["attention"](*(2 * each for each in given.values())))
    yield Shown(caption, things, attention_picture(rows) if rows and dim >= length else None)
    for kind in (torch.float32, torch.bfloat16):
        found = world["attention"](*(each.to(kind) for each in given.values()))
        yield Shown(f"{caption} in {kind}", {RETURNED: _kind(found)})


def _kind(found: Any) -> Any:
    """A tensor in words, without its numbers; anything else as it is."""
    is_array = hasattr(found, "dtype")
    return Words(f"a {type(found).__name__} of shape {tuple(found.shape)} and {found.dtype}") if is_array else found


def _stays(found: Any, call: Callable[[], Any]) -> str:
    """Say whether another call leaves a result as it was."""
    before = found.clone() if hasattr(found, "clone") else found
    call()
    is_same = before is found or found.equal(before)
    return ALL_RIGHT if is_same else "the next call changes this result: make a new tensor in each call"


def play_repeat_kv(world: World, case: Any) -> Frames:
    """So many tokens and KV heads, each with numbers of its own, for groups of so many query heads."""
    import torch

    tokens, kv_heads, group, dim = case
    kv = torch.arange(tokens * kv_heads * dim, dtype=torch.float64).view(tokens, kv_heads, dim)
    found, read = world["repeat_kv"](kv, kv_heads * group), list[int | None]()
    if _kind(found) == _kind(kv.repeat(1, group, 1)):
        for head in range(found.shape[1]):
            read.append(next((at for at in range(kv_heads) if found[:, head].equal(kv[:, at])), None))
    things = {RETURNED: _kind(found), "the KV head that each query head reads": read, "kv": kv.flatten().tolist(),
              "the result": _stays(found, lambda: world["repeat_kv"](2 * kv, kv_heads * group))}  # fmt: skip
    yield Shown(f"repeat_kv(kv of shape {tuple(kv.shape)}, {kv_heads * group})", things)


def play_schedule(world: World, case: Any) -> Frames:
    """One step's budget for running requests with so many tokens left, a digit for each."""
    left = numbers(case[0])
    shown = called(world, "schedule", left=list(left), budget=case[1], words=listed)
    yield shown._replace(picture=schedule_picture(left, shown.things[RETURNED]))


SEEN = "output", "reason", "computed_tokens", "first_token_steps", "preemptions"  # of a request


def play_serving(world: World, case: Any) -> Frames:
    """An engine runs steps until nothing is left to do; a request is a prompt, and how many new tokens it wants.

    What is "warm" is sampled. A prompt is read in pieces of at most `piece` tokens, so others sample before it does.
    """
    num_pages, page_size, *budgets, day = case
    engine = _engine(world, num_pages, page_size, *budgets)
    manager, scheduler = engine.manager, engine.scheduler
    computed, published = list[tuple[int, ...]](), list[int]()
    watch(manager, ["checkpoint"], lambda call: published.append(call.arguments["sequence"].number))
    watch(
        engine.model, ["forward"], lambda call: computed.append((*(len(c.tokens) for c in call.arguments["chunks"]),))
    )
    sent = [
        engine.submit(numbers(prompt), SamplingParams(int(new), float(len(warm))))
        for prompt, new, *warm in steps_of(day)
        if len(prompt) + int(new) <= num_pages * page_size
    ]
    for step in range(1, 8):
        is_idle = not scheduler.running + scheduler.waiting
        computed.clear()
        published.clear()
        engine.step()
        things = {"tokens per chunk in each model call": computed[:], **_seen(scheduler, sent)}
        things["requests that publish with `checkpoint`"] = sorted(published)
        yield Shown(f"step {step} of the engine", things, (manager, *manager.sequences))
        if is_idle:
            return


def _engine(world: World, num_pages: int, page_size: int, budget: int, piece: int) -> Any:
    manager = world["CacheManager"](num_pages, page_size)
    shuffle(manager.pool)
    scheduler = world["Scheduler"](manager, budget, min(budget, 3))
    share = scheduler.share
    scheduler.share = lambda left, budget: [min(count, piece) for count in share(left, budget)]
    return world["Engine"](CanaryModel(10, eos=[9]), manager, scheduler)


def _seen(scheduler: Any, requests: Sequence[Any]) -> dict[str, Any]:
    """Return what there is to see of a scheduler, its requests and its manager; a copy of a request is another one."""
    manager = scheduler.manager
    return {
        "running requests": [_number_of(request, requests) for request in scheduler.running],
        "waiting requests": [_number_of(request, requests) for request in scheduler.waiting],
        **{f"request {each.number}.{name}": _in_short(getattr(each, name)) for each in requests for name in SEEN},
        **{f"request {each.number}.sequence": _sequence_of(each, manager) for each in requests},
        "sequences in the manager": [sequence.number for sequence in manager.running],
        "cached tokens": manager.cache.total_size, "free pages": manager.pool.num_free,
        "locked tokens": manager.cache.protected_size, "scheduler.step": scheduler.step,
    }  # fmt: skip


def _number_of(request: Any, known: Sequence[Any]) -> Any:
    """The number of a request that is one of those `known`; of another thing, what it is."""
    return request.number if any(request is each for each in known) else f"another object: {request}"


def _sequence_of(request: Any, manager: Any) -> Any:
    """A request's sequence in words, which say whether it is one of the manager's."""
    if request.sequence is None:
        return None
    is_there = any(request.sequence is each for each in manager.running)
    return Words(request.sequence if is_there else f"{request.sequence}, which the manager doesn't have")


def _in_short(value: Any) -> Any:
    return value if isinstance(value, list | int | None) else Words(value)


_PROMPT = st.text("01", min_size=1, max_size=7)
_SERVICES = [
    (9, 1, 8, 9, "123 1"), (12, 2, 4, 9, "12345 3, 12367 2"), (8, 1, 8, 9, "12 5, 34 5, 5 2"),
    (20, 1, 4, 2, "123456712 1, 34 2"),
]  # fmt: skip
_SERVICE = st.tuples(
    st.integers(6, 12), st.integers(1, 3), st.integers(1, 9), st.sampled_from([9, 9, 2]),
    st.lists(st.builds("{} {} {}".format, _PROMPT, st.integers(1, 4), st.sampled_from(["", "", "warm"])),
             min_size=1, max_size=3).map(", ".join),
)  # fmt: skip

PIECES = (
    Piece(
        "8.1", play_attention,
        cases=[(1, 0, 1, 4, 1), (1, 2, 1, 4, 1), (2, 0, 1, 4, 1), (2, 2, 1, 4, 1),
               (2, 1, 2, 3, 1), (3, 1, 1, 4, 1), (2, 2, 1, 4, 100_000)],
        strategy=st.tuples(*(st.integers(*ends) for ends in ((1, 4), (0, 4), (1, 3), (1, 8))),
                           st.sampled_from([1, 1, 1, 100_000])),
    ),
    Piece(
        "8.2", play_repeat_kv,
        cases=[(2, 1, 1, 2)],
        strategy=st.tuples(*(st.integers(1, most) for most in (4, 4, 4, 3))),
    ),
    Piece(
        "8.3", play_schedule,
        cases=[("", 8), ("5", 3), ("59", 8), ("91", 8), ("1914", 8), ("111", 2), ("291", 0),
               ("05", 8)],
        strategy=st.tuples(st.text("01123456789", max_size=6), up_to(12)),
        cost=Cost("steps for 8 requests", [([100] * 8, 700)], "give each request its tokens at once, not one by one"),
    ),
    Piece("8.4", play_serving, _SERVICES, _SERVICE),
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
        raise ValueError(f"every request needs a prompt and new tokens, and must fit into {slots} slots")
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
        return "fix the call first: it takes a number of slots and a list of pairs of numbers"
    except ValueError:
        return "each request must fit by itself: its prompt, and all but the last of its new tokens"
    seen = _preemptions(case)
    if not seen:
        return "no request is preempted here: take fewer slots, or let the requests generate more"
    if not any(waiting for _, waiting in seen):
        return "if no other request waits, the front of the line is also its end: add one that has to wait at first"
    return "another waiting request must be admitted before the preempted one, and finish before it: make it short"


EXERCISES = (
    exercise(
        "8.5", let_in,
        cases=[([3], 0)],
        strategy=st.tuples(st.lists(up_to(3), max_size=6), up_to(3)),
    ),
    call_hunt(
        "8.6", "careless_finished", "it waits at the end of the line", finished, advice=_advice,
    ),
)  # fmt: skip

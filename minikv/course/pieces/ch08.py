"""The pieces of chapter 08: attention, schedule and preempt. Playing the first needs torch."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import product
from typing import Any

from hypothesis import strategies as st

from minikv.course.pieces.hunt import call_hunt
from minikv.course.pieces.identity import named
from minikv.course.pieces.observe import numbers
from minikv.course.pieces.piece import CaseFrame, Piece, exercise
from minikv.course.pieces.showing import attention_picture, schedule_picture
from minikv.engine import World, ours

NEAR = 1e-5  # numbers that differ by less are the same: how an answer rounds is its own affair
_SAID = 5  # a token that each running request has said already


def play_attention(world: World, case: Any) -> Iterator[CaseFrame]:
    """`new` tokens behind `past` ones, with random queries and keys in float64.

    Where there is room, the value of a token names that token, so the result is the shares that a token takes of all.
    """
    import torch

    new, past, heads, dim, seed = case
    length, chance = past + new, torch.Generator().manual_seed(seed)
    q = torch.randn(new, heads, dim, generator=chance, dtype=torch.float64)
    keys, values = torch.randn(2, length, heads, dim, generator=chance, dtype=torch.float64)
    if names := dim >= length:
        values = torch.eye(length, dim, dtype=torch.float64)[:, None].repeat(1, heads, 1)
    right = ours("8.1", {"torch": torch})(q, keys, values)
    given = q.clone(), keys.clone(), values.clone()
    found = world["attention"](*given)
    caption = f"{new} new token{'s' * (new > 1)} after {past} others (q has shape {tuple(q.shape)})"
    seen: dict[str, Any] = {"what is returned": _kind(found)}
    shares: dict[str, list[float]] = {}
    if _kind(found) == _kind(right):
        what = "takes of each token" if names else "gets"
        for row, head in product(range(new), range(heads)):
            got = _near(found[row, head].tolist()[: length if names else dim], right[row, head].tolist())
            seen[f"what token {past + row} {what} in head {head}"] = got
            shares[f"token {past + row}, head {head}"] = got
    changed = [name for name, a, b in zip(("q", "keys", "values"), given, (q, keys, values)) if not torch.equal(a, b)]
    seen["arguments that were changed"] = ", ".join(changed) or "none"
    yield CaseFrame(caption, seen, attention_picture(shares) if names and shares else None)


def _kind(value: Any) -> str | None:
    """What a value is, in words: a tensor has a shape."""
    if value is None:
        return None
    shape = getattr(value, "shape", None)
    return f"a {type(value).__name__}" if shape is None else f"a tensor of shape {tuple(shape)}"


def _near(found: Sequence[float], right: Sequence[float]) -> list[float]:
    """Rounded, and exactly as the right ones where they are as near as rounding may bring them."""
    return [round(want if abs(got - want) < NEAR else got, 4) + 0.0 for got, want in zip(found, right)]


def play_schedule(world: World, case: Any) -> Iterator[CaseFrame]:
    """One step's budget for running requests with so many tokens left."""
    left, budget = case
    given = list(left)
    counts = world["schedule"](given, budget)
    seen = {"the shares": counts, "the list `left` afterwards": given}
    yield CaseFrame(f"schedule({list(left)}, budget={budget})", seen, schedule_picture(left, counts))


def play_preempt(world: World, case: Any) -> Iterator[CaseFrame]:
    """Requests run, each computed to some point, others wait; the youngest is preempted, some times over."""
    running, waiting, times = case
    scheduler = _busy(world, running, waiting)
    manager, known = scheduler.manager, scheduler.running + scheduler.waiting
    names = _names(known, known)
    seen: dict[str, Any] = {"running": names[: len(running)], "waiting": names[len(running) :]}
    yield CaseFrame(f"before: {', '.join(names[: len(running)])} run", seen, manager.cache)
    for _ in range(min(times, len(scheduler.running))):
        youngest = scheduler.running[-1]
        found = world["preempt"](scheduler)
        cached = manager.cache.match_prefix(youngest.tokens).length
        seen = {
            "running": _names(scheduler.running, known), "waiting": _names(scheduler.waiting, known),
            "requests that hold a sequence": [r.number for r in scheduler.running + scheduler.waiting if r.sequence],
            "what it has said": youngest.output, "sequences in the manager": len(manager.running),
            "tokens that it finds in the cache when it comes back": cached,
            "free pages": manager.pool.num_free, "locked tokens": manager.cache.protected_size,
            "what is returned": _names([found], known)[0] if hasattr(found, "number") else found,
        }  # fmt: skip
        yield CaseFrame(f"preempt, while {names[youngest.number - 1]} is the youngest", seen, manager.cache)


def _names(requests: Sequence[Any], known: Sequence[Any]) -> list[str]:
    return [named(request, f"r{request.number}", known) for request in requests]


def _busy(world: World, running: Sequence[tuple[str, int]], waiting: int) -> Any:
    """A scheduler over a manager of pages of 1, where some requests run, each computed to some point, and some wait."""
    from minikv.serving import Request

    manager = world["CacheManager"](64)
    scheduler = world["Scheduler"](manager)
    for number, (prompt, computed) in enumerate([*running, *[("1", 0)] * waiting], start=1):
        request = Request(numbers(prompt), 9)
        request.number = number
        if number > len(running):
            scheduler.waiting.append(request)
            continue
        request.sequence = manager.start(request.prompt)
        request.output.append(_SAID)
        manager.extend(request.sequence, [_SAID])
        manager.advance(request.sequence, min(len(prompt) + 1 - request.sequence.computed, computed))
        scheduler.running.append(request)
    return scheduler


_LEFT = st.lists(st.one_of(st.just(1), st.integers(1, 9)), max_size=6)
_RUNNING = st.tuples(st.text("01", min_size=1, max_size=5), st.integers(0, 6))

PIECES = (
    Piece(
        "8.1", "attention", play_attention,
        cases=[(1, 0, 1, 4, 0), (1, 2, 1, 4, 1), (2, 0, 1, 4, 2), (2, 2, 1, 4, 3), (2, 1, 2, 3, 4)],
        strategy=st.tuples(*(st.integers(*ends) for ends in ((1, 4), (0, 4), (1, 3), (1, 8), (0, 99)))),
        hints=(
            "Take one head first. Its scores are a table: a row for each new token, a column for each token of the "
            "sequence. With the q and the keys of that head it is q @ keys.T, divided by the root of the head's size.",
            "New token i stands at position len(keys) - len(q) + i. In its row, set the score of every later token to "
            "minus infinity; then softmax over the row turns the scores into shares.",
            "The shares of a row, times the values, are what the token gets. For all heads at once: "
            'torch.einsum("qhd,khd->hqk", q, keys) makes the tables, and "hqk,khd->qhd" puts the results together.',
        ),
    ),
    Piece(
        "8.2", "schedule", play_schedule,
        cases=[([], 8), ([5], 3), ([5, 9], 8), ([10, 1], 8), ([1, 10, 1, 4], 8), ([1, 1, 1], 2), ([2, 9, 1], 0)],
        strategy=st.tuples(_LEFT, st.integers(0, 12)),
        hints=(
            "Begin with a 0 for each request. Then go through the requests, give each as much as it can use, and take "
            "that from the budget.",
            "Go through them twice: first those with 1 token left, then the others. What a request gets is "
            "min(what it has left, what is left of the budget).",
        ),
    ),
    Piece(
        "8.3", "preempt", play_preempt,
        cases=[([("123", 4), ("45", 3)], 0, 1), ([("123", 4), ("45", 3)], 2, 1), ([("12", 3), ("13", 2)], 1, 2),
               ([("123", 0)], 1, 1), ([("1", 2), ("2", 2), ("3", 1)], 1, 3)],
        strategy=st.tuples(st.lists(_RUNNING, min_size=1, max_size=3), st.integers(0, 2), st.integers(1, 3)),
        hints=(
            "`scheduler.running` is in the order of arrival, so the youngest is the last. It must leave that list.",
            "`scheduler.manager.finish(sequence)` publishes what was computed and gives back the rest. The request "
            "has no sequence afterwards: set it to None.",
            "Put the request in front of `scheduler.waiting`, and return it.",
        ),
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
    return "a request that waits behind must come in before the preempted one, and be done before it: let it be short"


EXERCISES = (
    exercise(
        "8.4", "let_in", let_in,
        cases=[([3], 0), ([2, 1], 1), ([1, 2], 1), ([1, 1], 1), ([1, 2], 0), ([3, 0, 2, 1], 1), ([0, 0, 1, 2, 3], 2),
               ([0, 3, 0, 2, 1], 1)],
        strategy=st.tuples(st.lists(st.integers(0, 3), max_size=6), st.integers(0, 3)),
        hint="count for each waiting request how often a later one went before it",
    ),
    call_hunt(
        "8.5", "careless_finished", "it waits at the end of the line", finished, advice=_advice,
        hint="one request must be preempted while another one waits",
    ),
)  # fmt: skip

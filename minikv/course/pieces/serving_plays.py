"""Plays of chapter 08 that go on for some steps: requests are preempted, an engine runs; and two engines compared."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

from minikv.course.pieces.observer import RETURNED, Words
from minikv.course.pieces.piece import Frames, Shown
from minikv.course.pieces.props import numbers, shuffle, steps_of
from minikv.engine import World
from minikv.serving import Request, SamplingParams
from minikv.testing.canary import CanaryModel
from minikv.testing.watch import watch

SEEN = "output", "reason", "sequence", "computed_tokens", "first_token_steps", "preemptions"  # of a request


def play_preempt(world: World, case: Any) -> Frames:
    """Requests run, each a prompt and how much of it is computed, others wait; the youngest is preempted, and so on."""
    day, waiting = case
    manager = world["CacheManager"](64)
    scheduler = world["Scheduler"](manager)
    for prompt, computed in steps_of(day):
        request = Request(numbers(prompt), 9)
        request.sequence = manager.start(request.prompt)
        request.output.append(5)
        manager.extend(request.sequence, request.output)
        manager.advance(request.sequence, min(len(prompt) + 1 - request.sequence.computed, int(computed)))
        scheduler.running.append(request)
    scheduler.waiting += [Request([1], 9) for _ in range(waiting)]
    known = scheduler.running + scheduler.waiting
    for number, request in enumerate(known, start=1):
        request.number = number
    for youngest in scheduler.running[::-1]:
        found = world["preempt"](scheduler)
        things = {**_seen(scheduler, known), RETURNED: f"request {found.number}" if found in known else found}
        yield Shown(f"preempt(scheduler) with request {youngest.number} as the youngest", things, manager.cache)


def play_serving(world: World, case: Any) -> Frames:
    """An engine runs steps until nothing is left to do; a request is a prompt, and how many new tokens it wants.

    What is "warm" is sampled. A prompt is read in pieces of at most `piece` tokens, so others sample before it does.
    """
    num_pages, page_size, budget, piece, day = case
    manager = world["CacheManager"](num_pages, page_size)
    shuffle(manager.pool)
    scheduler = world["Scheduler"](manager, budget, min(budget, 3))
    share, computed = scheduler.share, list[tuple[int, ...]]()
    scheduler.share = lambda left, budget: [min(count, piece) for count in share(left, budget)]
    engine = world["Engine"](CanaryModel(10, eos=[9]), manager, scheduler)
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
        engine.step()
        things = {"tokens of each chunk, in each call of the model": computed[:], **_seen(scheduler, sent)}
        yield Shown(f"step {step} of the engine", things, (manager, *manager.sequences))
        if is_idle:
            return


def _seen(scheduler: Any, requests: Sequence[Any]) -> dict[str, Any]:
    """What there is to see of a scheduler, its requests and its manager."""
    manager = scheduler.manager
    return {
        "requests that run": [request.number for request in scheduler.running],
        "requests that wait": [request.number for request in scheduler.waiting],
        **{f"request {each.number}.{name}": _in_short(getattr(each, name)) for each in requests for name in SEEN},
        "sequences in the manager": [sequence.number for sequence in manager.running],
        "cached tokens": manager.cache.total_size, "free pages": manager.pool.num_free,
        "locked tokens": manager.cache.protected_size, "scheduler.step": scheduler.step,
    }  # fmt: skip


def _in_short(value: Any) -> Any:
    return value if isinstance(value, list | int | None) else Words(value)


def same_answers(yours: Sequence[Any], ours: Sequence[Any], workloads: int) -> int:
    """Run random workloads, some of them short of room, on two engines; return how many requests were preempted.

    An engine is given by its parts: a manager, a scheduler and an engine class. `AssertionError` names the first
    workload in which a request gets other tokens.

    >>> from minikv import CacheManager, Engine, Scheduler
    >>> parts = CacheManager, Scheduler, Engine
    >>> same_answers(parts, parts, workloads=10) > 0
    True
    """
    chance, preempted = random.Random(8), 0
    for number in range(1, workloads + 1):
        prompts = [chance.choices(range(3), k=chance.randint(1, 12)) for _ in range(5)]
        new, slots = chance.randint(1, 6), chance.randint(17, 40)
        sides = [_generated(parts, prompts, new, slots) for parts in (yours, ours)]
        tokens = [[turn.tokens for turn in side] for side in sides]
        assert tokens[0] == tokens[1], f"workload {number}, {prompts}: yours gives {tokens[0]}, ours {tokens[1]}"
        preempted += sum(turn.preemptions > 0 for turn in sides[0])
    return preempted


def _generated(parts: Sequence[Any], prompts: Any, new: int, slots: int) -> Any:
    manager = parts[0](slots)
    return parts[2](CanaryModel(9), manager, parts[1](manager, 16, 4)).generate(prompts, new)

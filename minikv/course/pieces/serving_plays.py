"""A play of chapter 08 in which an engine runs for some steps; and two engines compared."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

from minikv.course.pieces.observer import Words
from minikv.course.pieces.piece import Frames, Shown
from minikv.course.pieces.props import numbers, shuffle, steps_of
from minikv.engine import World
from minikv.serving import SamplingParams
from minikv.testing.canary import CanaryModel
from minikv.testing.watch import watch

SEEN = "output", "reason", "computed_tokens", "first_token_steps", "preemptions"  # of a request


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
    """Return what there is to see of a scheduler, its requests and its manager; a copy of a request is another one."""
    manager = scheduler.manager
    return {
        "requests that run": [_number_of(request, requests) for request in scheduler.running],
        "requests that wait": [_number_of(request, requests) for request in scheduler.waiting],
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

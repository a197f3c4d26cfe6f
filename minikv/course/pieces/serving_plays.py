"""The plays of chapter 08: how each of its pieces is called, and what can be seen then. The first two need torch."""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import product
from typing import Any

from minikv.course.pieces.desk import Desk, fault_in
from minikv.course.pieces.identity import ALL_RIGHT, named, shuffle
from minikv.course.pieces.observe import bracketed, numbers, steps_of
from minikv.course.pieces.piece import CaseFrame, Frames
from minikv.course.pieces.showing import attention_picture, schedule_picture
from minikv.engine import World, ours
from minikv.manager.sequence import RUNNING
from minikv.serving import Chunk, Request, SamplingParams
from minikv.testing.canary import CanaryModel
from minikv.testing.snapshot import plain
from minikv.testing.watch import watch

NEAR = 1e-5  # numbers that differ by less are the same: how an answer rounds is its own affair
_SAID = 5  # a token that each running request has said already


def play_attention(world: World, case: Any) -> Frames:
    """`new` tokens after `past` ones, with random queries, times `scale`, and keys in float64, and then in bf16.

    Where there is room, the value of a token names that token, so the result is the shares that a token takes of all.
    """
    import torch

    new, past, heads, dim, seed, scale = case
    length, chance = past + new, torch.Generator().manual_seed(seed)
    q = torch.randn(new, heads, dim, generator=chance, dtype=torch.float64) * scale
    keys, values = torch.randn(2, length, heads, dim, generator=chance, dtype=torch.float64)
    if names := dim >= length:
        values = torch.eye(length, dim, dtype=torch.float64)[:, None].repeat(1, heads, 1)
    right = ours("8.1", {"torch": torch})(q, keys, values)
    given = q.clone(), keys.clone(), values.clone()
    found = world["attention"](*given)
    large = f", times {scale}" if scale > 1 else ""
    caption = f"{new} new token{'s' * (new > 1)} after {past} earlier (q has shape {tuple(q.shape)}{large})"
    seen: dict[str, Any] = {"what is returned": _kind(found)}
    shares: dict[str, list[float]] = {}
    if _kind(found) == _kind(right):
        what = "takes of each token" if names else "gets"
        for row, head in product(range(new), range(heads)):
            got = _near(found[row, head].tolist()[: length if names else dim], right[row, head].tolist())
            seen[f"what token {past + row} {what} in head {head}"] = got
            shares[f"token {past + row}, head {head}"] = got
    seen["arguments that were changed"] = _changed(("q", "keys", "values"), given, (q, keys, values))
    yield CaseFrame(caption, seen, attention_picture(shares) if names and shares else None)
    low = world["attention"](*(each.bfloat16() for each in (q, keys, values)))
    yield CaseFrame(f"{caption}, in bf16", {"what is returned": _kind(low)})


def play_repeat_kv(world: World, case: Any) -> Frames:
    """So many tokens and KV heads, each with numbers of its own, for groups of so many query heads."""
    import torch

    tokens, kv_heads, group, dim = case
    kv = torch.arange(tokens * kv_heads * dim, dtype=torch.float64).view(tokens, kv_heads, dim)
    given, heads = kv.clone(), kv_heads * group
    found = world["repeat_kv"](given, heads)
    seen: dict[str, Any] = {"what is returned": _kind(found)}
    if _kind(found) == _kind(torch.empty(tokens, heads, dim, dtype=torch.float64)):
        for head in range(heads):
            whose = [at for at in range(kv_heads) if torch.equal(found[:, head], kv[:, at])]
            seen[f"what query head {head} reads"] = f"KV head {whose[0]}" if whose else "no KV head"
    seen["arguments that were changed"] = _changed(["kv"], [given], [kv])
    yield CaseFrame(f"query heads: {heads}, KV heads: {kv_heads} (kv has shape {tuple(kv.shape)})", seen)


def _changed(names: Sequence[str], given: Sequence[Any], before: Sequence[Any]) -> str:
    changed = [name for name, a, b in zip(names, given, before) if a.shape != b.shape or not a.equal(b)]
    return ", ".join(changed) or "none"


def _kind(value: Any) -> str | None:
    """Describe a value in words: a tensor by its shape and dtype."""
    import torch

    if value is None:
        return None
    if isinstance(value, torch.Tensor):
        return f"a tensor of shape {tuple(value.shape)} and {str(value.dtype).removeprefix('torch.')}"
    return f"a {type(value).__name__}, and no tensor"


def _near(found: Sequence[float], right: Sequence[float]) -> list[float]:
    """Rounded, and exactly as the right ones where they are as near as rounding may bring them."""
    return [round(want if abs(got - want) < NEAR else got, 4) + 0.0 for got, want in zip(found, right)]


def play_schedule(world: World, case: Any) -> Frames:
    """One step's budget for running requests with so many tokens left."""
    left, budget = case
    given = list(left)
    counts = world["schedule"](given, budget)
    seen = {"the shares": counts, "the list `left` afterwards": given}
    yield CaseFrame(f"schedule({list(left)}, budget={budget})", seen, schedule_picture(left, counts))


def play_preempt(world: World, case: Any) -> Frames:
    """Requests run, each computed to some point, others wait; the youngest is preempted, some times over."""
    running, waiting, times = case
    scheduler = _busy(world, running, waiting)
    manager, known = scheduler.manager, scheduler.running + scheduler.waiting
    names = _names(known, known)
    seen: dict[str, Any] = {"running": names[: len(running)], "waiting": names[len(running) :]}
    yield CaseFrame(f"before: {', '.join(names[: len(running)])} run", seen, manager.cache)
    for _ in range(min(times, len(scheduler.running))):
        youngest = scheduler.running[-1]
        sequence = youngest.sequence
        found = world["preempt"](scheduler)
        cached = manager.cache.match_prefix(youngest.tokens).length
        seen = {
            "running": _names(scheduler.running, known), "waiting": _names(scheduler.waiting, known),
            "requests that hold a sequence": [r.number for r in scheduler.running + scheduler.waiting if r.sequence],
            "what it has said": youngest.output, "sequences in the manager": len(manager.running),
            "preemptions that the request counts": youngest.preemptions,
            "tokens that it finds in the cache when it comes back": cached,
            "free pages": manager.pool.num_free, "locked tokens": manager.cache.protected_size,
            "its sequence": "runs on" if sequence.state == RUNNING else "is over",
            "what is returned": _names([found], known)[0] if isinstance(found, Request) else found,
        }  # fmt: skip
        yield CaseFrame(f"preempt, while {names[youngest.number - 1]} is the youngest", seen, manager.cache)


def _names(requests: Sequence[Any], known: Sequence[Any]) -> list[str]:
    return [named(request, f"r{request.number}", known) for request in requests]


def _busy(world: World, running: Sequence[tuple[str, int]], waiting: int) -> Any:
    """A scheduler over a manager of pages of 1, where some requests run, each computed to some point, and some wait."""
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


def play_next_chunk(world: World, case: Any) -> Frames:
    """The next tokens of the last of a manager's sequences, after a day of it."""
    num_pages, page_size, day, count = case
    desk = Desk(world, num_pages, page_size)
    for step in steps_of(day):
        desk.step(*step)
    sequence = desk.manager.sequences[-1]
    count = 1 + count % (sequence.length - sequence.computed)
    found = world["next_chunk"](sequence, count)
    seen: dict[str, Any] = {"what is returned": "a Chunk" if isinstance(found, Chunk) else _kind(found)}
    if isinstance(found, Chunk):
        seen |= {
            "its tokens": bracketed(found.tokens), "its start": found.start, "its slots": bracketed(plain(found.slots)),
            "its namespace": repr(found.namespace), "its logits": found.num_logits,
        }  # fmt: skip
    seen["what is computed afterwards"] = sequence.computed
    page = "" if page_size == 1 else f", in pages of {page_size}"
    caption = f"the next {count} of {sequence.length} tokens, of which {sequence.computed} are computed{page}"
    yield CaseFrame(caption, seen, (desk.manager, sequence))


def _engine(world: World, manager: Any, budget: int, piece: int) -> Any:
    """An engine over a shuffled pool; what is left of a prompt is read in pieces of at most `piece` tokens."""
    shuffle(manager.pool)
    scheduler = world["Scheduler"](manager, budget, min(budget, 3))
    share = scheduler.share
    scheduler.share = lambda left, budget: [min(count, piece) for count in share(left, budget)]
    return world["Engine"](CanaryModel(10, eos=[9]), manager, scheduler)


def play_serving(world: World, case: Any) -> Frames:
    """An engine runs steps; a request is a prompt, how many new tokens it wants, and at which temperature.

    A prompt may be read in small pieces, so others sample before it does.
    """
    num_pages, page_size, budget, requests, steps, piece = case
    engine = _engine(world, world["CacheManager"](num_pages, page_size), budget, piece)
    manager, scheduler = engine.manager, engine.scheduler
    computed = list[list[int]]()
    watch(engine.model, ["forward"], lambda call: computed.append([len(c.tokens) for c in call.arguments["chunks"]]))
    sent = [
        engine.submit(numbers(prompt), SamplingParams(new, temperature))
        for prompt, new, temperature in requests
        if len(prompt) + new <= num_pages * page_size
    ]
    for step in range(1, steps + 1):
        before = manager.sequences
        engine.step()
        seen = {
            "tokens of each chunk, in each call of the model": computed[:],
            "the audit": fault_in(manager) or ALL_RIGHT,
            "running": _names(scheduler.running, sent), "waiting": _names(scheduler.waiting, sent),
            **{f"r{request.number}": _progress(request) for request in sent},
            "cached tokens": manager.cache.total_size, "free pages": manager.pool.num_free,
            "the sequences that ran before it": ["runs on" if each.state == RUNNING else "is over" for each in before],
            "steps that the scheduler counts": scheduler.step,
        }  # fmt: skip
        computed.clear()
        yield CaseFrame(f"step {step} (requests: {len(sent)})", seen, (manager, *manager.sequences))


def _progress(request: Any) -> str:
    told = f"{request!r}, {request.sequence!r}, {request.computed_tokens} computed in all, said {request.output}"
    return f"{told}, the first in step {request.first_token_steps}" if request.output else told


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

"""Random multi-turn workloads, and how an engine serves them while somebody audits every step.

A workload is a few conversations that begin alike. In each turn every conversation asks something behind all that was
said in it so far, all of them in one batch; what the engine answers is part of the next prompt. Some have a namespace
of their own. Now and then somebody asks as well, and leaves as soon as a part of it has been computed.
"""

import random
from dataclasses import dataclass

from minikv import (
    CacheManager,
    Canary,
    CanaryModel,
    Engine,
    FirstComeFirstServed,
    LongestPrefixFirst,
    NoCache,
    Scheduler,
)
from minikv.prefix import index_named
from minikv.prefix.tiered import WRITES, TieredCache

VOCAB = 23


@dataclass(frozen=True)
class Workload:
    """Its words: the instructions that all share, then the questions of each conversation in each turn."""

    seed: int
    instructions: list[int]
    asked: list[list[list[int]]]  # by conversation, by turn
    new: int
    page_size: int
    namespaces: list[str | None]  # by conversation
    index: str = "radix"  # the design that it is served with

    @property
    def longest(self):
        """The most tokens that one sequence of it can have in slots."""
        return max(len(self.instructions) + sum(len(turn) + self.new for turn in turns) for turns in self.asked)


def workload(seed):
    """The workload of that number: always the same."""
    draw = random.Random(seed)

    def said(least, most):
        return [draw.randrange(VOCAB) for _ in range(draw.randint(least, most))]

    turns = draw.randint(1, 3)
    asked = [[said(1, 6) for _ in range(turns)] for _ in range(draw.randint(1, 5))]
    for conversation in asked[1:]:
        if draw.random() < 0.4:  # the same first question, or the beginning of it
            conversation[0] = asked[0][0][: draw.randint(1, 6)]
    instructions, new, page_size = said(0, 20), draw.randint(2, 6), draw.choice([1, 1, 2, 16])
    namespaces = [draw.choice([None, None, None, "lora"]) for _ in asked]
    return Workload(seed, instructions, asked, new, page_size, namespaces)


def setting(work, kind, manager_type=CacheManager):
    """A manager and a scheduler for `work`: with or without a cache, in a wide or a tight pool, one by one or not."""
    draw = random.Random(f"{work.seed} {kind}")
    page = work.page_size
    wide = -(-work.longest // page) * len(work.asked) + 4
    if kind == "off":
        return manager_type(wide, page, prefix_cache=NoCache(page)), {"token_budget": 512, "max_running": 4}
    least = -(-work.longest // page)
    crowd = sum(sum(map(len, turns)) + work.new * (len(turns) - 1) for turns in work.asked) + len(work.instructions)
    scarce = draw.choice([least, max(least, crowd // page)])  # enough for one; or to let all in, but not to finish
    pages = scarce + draw.randint(0, 3) if kind == "tight" else wide
    of_radix = draw.choice(["lru", "lfu", "fifo"]), draw.choice(["node", "page"])
    if work.index == "tiered":
        host, write = draw.choice([least, 4 * pages]), draw.choice(WRITES)
        cache = TieredCache(page, host, write, draw.randint(1, 3), *of_radix)
    else:
        cache = index_named(work.index, page, *(of_radix if work.index == "radix" else ()))
    running = draw.randint(1, 4)
    order = draw.choice([FirstComeFirstServed(), LongestPrefixFirst()])
    scheduling = {
        "max_running": running,
        "token_budget": draw.randint(running, running + 12),
        "order": order,
        "max_overtakes": draw.randint(0, 3),
        "min_awaited_prefix": draw.choice([None, 1, 4]),
    }
    return manager_type(pages, page, prefix_cache=cache), scheduling


class Tally:
    """The events of a run, so that a test can tell whether it tried what it says it tries."""

    namespaces = evictions = preemptions = cached = computed = aborted = loaded = 0


def serve(engine, work, tally, shuffle=None, audit=None):
    """Serve every turn of every conversation; the answers, by conversation and turn."""
    said = [list(work.instructions) for _ in work.asked]
    answers = [[] for _ in work.asked]
    start = engine.manager.start
    audit = audit or engine.manager.check
    evict = engine.manager.cache.evict

    def counted(*num_tokens):
        tally.evictions += 1
        return evict(*num_tokens)

    def started(*args, **options):
        sequence = start(*args, **options)
        tally.loaded += getattr(sequence, "loaded", 0)
        return sequence

    engine.manager.cache.evict, engine.manager.start = counted, started
    tally.namespaces += len({*work.namespaces}) > 1
    for turn in range(len(work.asked[0])):
        order = list(range(len(said)))
        if shuffle is not None:
            shuffle.shuffle(order)
        for place in order:
            said[place] += work.asked[place][turn]
        spaces = work.namespaces
        requests = {place: engine.submit(said[place], work.new, namespace=spaces[place]) for place in order}
        leaver = engine.submit(said[0], work.new, namespace=spaces[0]) if (work.seed + turn) % 3 == 0 else None
        while not all(request.is_over for request in requests.values()):
            engine.step()
            audit()
            if leaver is not None and not leaver.is_over and leaver.computed_tokens:
                engine.abort(leaver)
                tally.aborted += 1
        if leaver is not None and not leaver.is_over:
            engine.abort(leaver)
        for place, request in requests.items():
            answers[place].append(request.output)
            said[place] += request.output
            tally.preemptions += request.preemptions
            tally.cached += request.cached_tokens
            tally.computed += request.computed_tokens
    engine.manager.cache.evict, engine.manager.start = evict, start
    return answers


def assert_nothing_leaked(manager):
    """Free and cached pages are all there are, nobody runs, nothing is locked."""
    manager.check()
    assert not manager.sequences
    assert not manager.cache.protected_size
    cached = manager.cache.total_size // manager.page_size
    assert manager.pool.num_free + cached == manager.num_pages


def canary_model(manager):
    """A model whose marks are followed through both tiers, where there are two."""
    device, moves = Canary(manager.cache, writes=False), manager.host
    if moves is not None and moves.cache.host is not None:
        moves.store, moves.host = device, device.beside(moves.cache.host.index)
    return CanaryModel(VOCAB, canary=device)


def engine_for(work, kind, model_for, manager_type=CacheManager):
    """The engine for `work` in that kind of setting; `model_for` gives the model, and may give the manager a store."""
    manager, scheduling = setting(work, kind, manager_type)
    return Engine(model_for(manager), manager, Scheduler(manager, **scheduling))

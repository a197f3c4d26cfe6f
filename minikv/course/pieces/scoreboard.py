"""The engines of chapter 08 side by side: the scoreboard, what a conversation takes of each; and their answers.

Engines are watched from outside: none of them counts anything itself.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from minikv.course.pieces.checking import own_pieces
from minikv.engine.shells import CacheShell
from minikv.prefix.base_index import way_to
from minikv.serving import Engine, Generation
from minikv.testing.canary import CanaryModel
from minikv.testing.watch import Call, watch

Talk = Callable[[Engine], Sequence[Generation]]


@dataclass
class Score:
    """The cost of a conversation; `pieces` counts the learner's own, `first_token` the steps of each turn."""

    pieces: str
    lookups: int = 0
    nodes: int = 0
    computed: int = 0
    first_token: list[int] = field(default_factory=list)
    answers: list[list[int]] = field(default_factory=list)


class Scoreboard:
    """The `scores` of several engines, by name; `str()` is a table with a column for each.

    >>> Scoreboard({"a": Score("-", answers=[[7]]), "b": Score("-", answers=[[8]])}).agree
    False
    """

    def __init__(self, scores: Mapping[str, Score]):
        self.scores = dict(scores)

    @property
    def agree(self) -> bool:
        """Return whether all gave the same answers, token by token."""
        answers = [score.answers for score in self.scores.values()]
        return all(found == answers[0] for found in answers)

    def __repr__(self) -> str:
        scores = self.scores.values()
        rows = [
            ("", list(self.scores)),
            ("pieces that you wrote", [score.pieces for score in scores]),
            ("lookups", [f"{score.lookups:,}" for score in scores]),
            ("nodes visited", [f"{score.nodes:,}" for score in scores]),
            ("tokens computed", [f"{score.computed:,}" for score in scores]),
            ("steps to the first token", [" ".join(map(str, score.first_token)) for score in scores]),
        ]
        wide = max((len(cell) for _, cells in rows for cell in cells), default=0)
        lines = [f"{name:24}" + "".join(f"  {cell:>{wide}}" for cell in cells) for name, cells in rows]
        return "\n".join([*lines, f"the same answers: {'yes' if self.agree else 'no'}"])


def scoreboard(engines: Mapping[str, Engine], talk: Talk) -> Scoreboard:
    """Let `talk` hold the same conversation with each of `engines`, and count what it takes.

    `talk(engine)` returns the engine's generations. Afterwards the engines are as they were, but for what they cached.

    >>> from minikv import CacheManager, CanaryModel
    >>> engine = Engine(CanaryModel(20), CacheManager(8))
    >>> scoreboard({"ours": engine}, lambda engine: engine.generate([[1, 2, 3]], 2))
                              ours
    pieces that you wrote        -
    lookups                      3
    nodes visited                1
    tokens computed              4
    steps to the first token     1
    the same answers: yes
    """
    return Scoreboard({name: _scored(engine, talk) for name, engine in engines.items()})


def _scored(engine: Engine, talk: Talk) -> Score:
    cache = engine.manager.cache
    score = Score(str(len(own_pieces())) if isinstance(cache, CacheShell) else "-")

    def count(call: Call) -> None:
        if call.caller is None and call.error is None:  # a look-up that another one makes is a part of it
            followed = getattr(call.result, "prefix_length", call.result.length)
            score.lookups += 1
            node = call.result.node  # `None` where nothing is kept
            score.nodes += len(way_to(node) if node else []) - (followed < call.result.length)  # not the new leaf

    stop = watch(cache, ["match_prefix", "acquire", "insert"], count)
    try:
        found = list(talk(engine))
    finally:
        stop()
    score.computed = sum(generation.computed for generation in found)
    score.first_token = [generation.first_token_steps for generation in found]
    score.answers = [generation.tokens for generation in found]
    return score


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
        assert tokens[0] == tokens[1], f"workload {number}, {prompts}: yours gives {tokens[0]}, not {tokens[1]}"
        preempted += sum(turn.preemptions > 0 for turn in sides[0])
    return preempted


def _generated(parts: Sequence[Any], prompts: Any, new: int, slots: int) -> Any:
    manager = parts[0](slots)
    return parts[2](CanaryModel(9), manager, parts[1](manager, 16, 4)).generate(prompts, new)

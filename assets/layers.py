"""Which states pay, on real traffic and on a fan-out: the figures of `layers.json`, which chapter 15 shows.

    python assets/layers.py FOLDER     reads two traces in FOLDER and writes layers.json, always the same; ten minutes

The learner's `LayerCache` serves the traces that `cut_traffic.py` cuts, here whole. The model is made like Qwen3-Next:
one group of full attention and three of states, all with blocks of the same bytes, 576 tokens for the agents (nine of
the trace's blocks) and 512 for the chat (one). The sessions of the agents start at random within eight hours.
"""

from __future__ import annotations

import argparse
import json
import random
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from itertools import count, islice
from pathlib import Path
from typing import Any

from cut_traffic import AGENTS, CHAT

from minikv.engine.ch15_layers import Group, LayerCache, checkpoints, chunks
from minikv.files import replace
from minikv.progress_bar import Progress
from minikv.traffic import open_traffic

SPAN = 8 * 3_600_000.0  # eight hours
CHUNK = 8192
STATES = 3  # groups of recurrent layers
Keep = Callable[[int, int, int, int], list[int]]
ROOMS = {"agents": (None, 6000, 15_000), "chat": (None, 8000, 20_000)}


def each(tokens: int) -> Keep:
    """Keep a state each time so many tokens are computed, in whole steps and one step at least, and the last one.

    >>> each(0)(22, 4, 0, 4), each(9)(22, 4, 0, 4), each(100)(22, 4, 0, 4)
    ([8, 12, 16, 20], [12, 20], [20])
    """
    return lambda length, hit, fork, step: chunks(hit, (length - 1) // step * step, max(tokens // step, 1) * step, [])


KEEPS: dict[str, Keep | None] = {
    "full attention alone": None,
    "each block": each(0),
    "each chunk": each(CHUNK),
    "ends": lambda length, hit, fork, step: checkpoints(length, hit, 0, step),
    "ends and junctions": checkpoints,
}


class Prompt:
    """A prompt of which only the beginnings of whole blocks have names; `LayerCache` asks it as it asks a tuple.

    >>> prompt = Prompt([7, 8, 9], block=4, tokens=14)
    >>> len(prompt), prompt[:8] == Prompt([5, 8], 4, 8)[:8]
    (13, True)
    """

    def __init__(self, names: list[int], block: int, tokens: int):
        self.names, self.block, self.tokens = names, block, tokens

    def __len__(self) -> int:
        """Up to the first token after the last beginning with a name."""
        return min(self.tokens, len(self.names) * self.block + 1)

    def __getitem__(self, part: Any) -> int:
        end: int = part.stop // self.block
        return self.names[end - 1]


def prompts_in(path: Path, unit: int, block: int) -> tuple[list[Prompt], list[Prompt]]:
    """All prompts of a trace whose own blocks have `unit` tokens; and those of sessions that overlap.

    The sessions start at random within some hours, and end after as many. A chat has its own times.
    """
    with open_traffic(path, span_hours=0) as traffic:
        requests = list(traffic.requests)
    every = block // unit
    prompts = [Prompt(one.blocks.tolist()[every - 1 :: every], block, one.input_length) for one in requests]
    if requests[0].conversation is None:
        return prompts, prompts
    sessions, dice = [one.conversation or 0 for one in requests], random.Random(0)
    starts = {session: dice.uniform(0, SPAN) for session in sorted({*sessions})}
    order = sorted(
        (starts[session] + one.timestamp, session, at)
        for at, (session, one) in enumerate(zip(sessions, requests))
        if one.timestamp <= SPAN
    )
    return prompts, [prompts[at] for *_, at in order]


def fan_out(block: int, tail: int, trunks: int = 20, siblings: int = 30, shared: int = 20_000) -> list[Prompt]:
    """Prompts in random order that leave `trunks` long ones, all at the same place, with `tail` tokens of their own.

    >>> [prompt.names for prompt in fan_out(block=8, tail=8, trunks=1, siblings=2, shared=18)]
    [[0, 1, 2], [0, 1, 3]]
    """
    names, found = count(), []
    for _ in range(trunks):
        trunk = [*islice(names, shared // block)]
        for _ in range(siblings):
            own = [*islice(names, (shared + tail) // block - len(trunk))]
            found.append(Prompt(trunk + own, block, shared + tail))
    random.Random(0).shuffle(found)
    return found


class Together(LayerCache):
    """A cache in which the states of a place, one for each group of recurrent layers, come and go together.

    >>> cache = Together([Group("full", 4), Group("state", 4)], room=9, keep=checkpoints)
    >>> cache.serve((1, 2, 3, 4, 5)), cache.serve((1, 2, 3, 4, 6)), len(cache.blocks)
    (0, 4, 4)
    """

    def use(self, number: int, prompt: Any, places: Iterable[int]) -> None:
        """Use the blocks of one group, or of all groups of states."""
        for at in places:
            for group in range(number, number + (STATES if number else 1)):
                super().use(group, prompt, [at])


def served(prompts: Iterable[Prompt], step: int, room: int | None, name: str) -> dict[str, Any]:
    """The share of all tokens that were found, in percent, and how many states there are in the end."""
    keep = KEEPS[name]
    groups = [Group("full", step), Group("state", step)][: 2 if keep else 1]
    cache = Together(groups, room or float("inf"), keep)
    cache.blocks = OrderedDict()  # whose first entry is found at once, however many were dropped
    hits = tokens = 0
    for prompt in prompts:
        hits += cache.serve(prompt)
        tokens += prompt.tokens
    kept = sum(number == 1 for number, _ in cache.blocks)
    return {"keep": name, "hits": round(100 * hits / tokens, 1), "states": kept}


def figures(folder: Path, tick: Callable[[str], None]) -> Iterator[dict[str, Any]]:
    """All rows: the traffic, the tokens of a block, the blocks of the pool (None if there is no limit), the result."""
    traffic = [
        ("agents", 576, prompts_in(folder / AGENTS, 64, 576)),
        ("chat", 512, prompts_in(folder / CHAT, 512, 512)),
        *((f"fan-out, tails of {tail}", 576, (fan_out(576, tail),)) for tail in (96, 1600)),
    ]
    for name, block, prompts in traffic:
        for room in ROOMS.get(name, [None]):
            for keep in KEEPS:
                tick(f"{name}, {room or 'no limit'}, {keep}")
                found = served(prompts[bool(room)], block, room, keep)
                yield {"traffic": name, "block": block, "room": room, **found}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Measure which states pay, on two public traces.")
    parser.add_argument("folder", type=Path, help=f"has {CHAT} and {AGENTS}")
    folder = parser.parse_args().folder
    with Progress(command="layers") as tick:
        rows = ",\n ".join(json.dumps(row) for row in figures(folder, tick))
    replace(Path(__file__).resolve().with_name("layers.json"), f"[{rows}]\n")

"""What `minikv bench --engine` prints: chats without the cache and with it, races with a peer, and the promises."""

from __future__ import annotations

from typing import TYPE_CHECKING

from minikv.measure.report import Promise

if TYPE_CHECKING:
    from minikv.measure.chatting import EngineFigures
    from minikv.measure.results import Spread


ONE = "a random Llama in float32, one thread"


def chat_promises(figures: EngineFigures) -> list[Promise]:
    """The promises that these figures are enough to judge; a quick run judges none."""
    if figures.quick:
        return []
    saved = Promise("prompt tokens that the cache saved, as a share", figures.saved, 0.8, at_most=False)
    if figures.device != "cpu":  # a model this small leaves a GPU waiting, so no time there is promised
        return [saved]
    ratio = figures.first_token_ratio.median
    return [
        saved,
        Promise("time to the first token, without the cache against with it", ratio, 3, at_most=False),
        *(Promise(f"{duel.workload}, against {duel.peer}", duel.ratio.median, duel.promised, at_most=False)
          for duel in figures.duels),
    ]  # fmt: skip


def chat_report(figures: EngineFigures) -> str:
    """Everything as text."""
    lines = [
        f"{figures.date}, {figures.machine}; medians of {figures.rounds} rounds (smallest to largest)",
        "",
        f"{figures.requests} requests of a chat, one at a time, {figures.prompt_tokens:,} prompt tokens",
        f"  {figures.model}",
        f"  {'':<34}{'without':<26}{'with the cache':<26}",
        f"  {'prompt tokens computed':<34}{figures.computed_without:<26,}{figures.computed_with:<26,}",
        f"  {'time to first token, ms':<34}{figures.first_token_without!s:<26}{figures.first_token_with!s:<26}",
        f"  {'time to first token':<34}x {figures.first_token_ratio}",
        f"  {'whole request':<34}x {figures.whole_ratio}",
    ]
    if figures.duels:
        lines += ["", f"beside a peer with the same weights and the same tokens: its time divided by ours, {ONE}"]
        lines += [f"  {duel.workload:<54}{duel.peer:<36}x {_fine(duel.ratio)}" for duel in figures.duels]
    if kept := chat_promises(figures):
        lines += ["", "promised:", *(f"  {promise}" for promise in kept)]
    return "\n".join(line.rstrip() for line in lines)


def _fine(spread: Spread) -> str:
    """A ratio near 1, in hundredths."""
    return f"{spread.median:.2f} ({spread.low:.2f} to {spread.high:.2f})"

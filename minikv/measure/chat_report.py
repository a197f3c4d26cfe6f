"""What `minikv bench --engine` prints: the chats without the cache and with it, and what the project promises of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from minikv.measure.report import Promise

if TYPE_CHECKING:
    from minikv.measure.chatting import EngineFigures


def chat_promises(figures: EngineFigures) -> list[Promise]:
    """The promises that these figures are enough to judge; a quick run judges none."""
    if figures.quick:
        return []
    ratio = figures.first_token_ratio.median
    return [
        Promise("prompt tokens that the cache saved, as a share", figures.saved, 0.8, at_most=False),
        Promise("time to the first token, without the cache against with it", ratio, 3, at_most=False),
    ]


def chat_report(figures: EngineFigures) -> str:
    """Everything as text."""
    lines = [
        f"{figures.date}, {figures.machine}; medians of {figures.rounds} rounds (smallest to largest)",
        "",
        f"{figures.requests} requests of a chat, one at a time, {figures.prompt_tokens:,} prompt tokens, one thread",
        f"  {figures.model}",
        f"  {'':<34}{'without':<26}{'with the cache':<26}",
        f"  {'prompt tokens computed':<34}{figures.computed_without:<26,}{figures.computed_with:<26,}",
        f"  {'time to first token, ms':<34}{figures.first_token_without!s:<26}{figures.first_token_with!s:<26}",
        f"  {'time to first token':<34}x {figures.first_token_ratio}",
        f"  {'whole request':<34}x {figures.whole_ratio}",
    ]
    if kept := chat_promises(figures):
        lines += ["", "promised:", *(f"  {promise}" for promise in kept)]
    return "\n".join(line.rstrip() for line in lines)

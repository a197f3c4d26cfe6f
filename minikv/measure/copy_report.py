"""What `minikv bench --copy` prints: ratios to a memcpy, and what the project promises of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from minikv.measure.report import Promise

if TYPE_CHECKING:
    from minikv.measure.copying import CopyFigures


def copy_promises(figures: CopyFigures) -> list[Promise]:
    """The promises that these figures are enough to judge; a quick run judges none."""
    return [] if figures.quick else list(_promises(figures))


def _promises(figures: CopyFigures) -> Iterator[Promise]:
    """What a promise calls the best is the best method of the store: the others are written for the bench alone."""
    own = [result.to_memcpy for result in figures.results if result.name.startswith("KVStore.")]
    best = [min(spreads[at].median for spreads in own) for at in range(len(figures.tokens))]
    if figures.device == "cuda":
        share, most = 1 / best[-1], figures.tokens[-1]
        yield Promise(f"{most} tokens by KVStore, share of the device's own bandwidth", share, 0.8, at_most=False)
        return
    for tokens, ratio in zip(figures.tokens, best):
        if tokens >= 128:
            yield Promise(f"{tokens} tokens, the best KVStore method against a memcpy", ratio, 1.5)
    (loop,) = [result for result in figures.results if result.name.startswith("indexed loop")]
    times = loop.to_memcpy[0].median / best[0]
    yield Promise("16 tokens, the indexed loop against the best KVStore method", times, 4, at_most=False)


def copy_report(figures: CopyFigures) -> str:
    """Everything as text, a method a line; ratios to the memcpy, with the smallest and the largest of the rounds."""
    heads = f"{figures.layers} layers x {figures.kv_heads} KV heads x {figures.head_dim}, fp16"
    lines = [
        f"{figures.date}, {figures.machine}; medians of {figures.rounds} rounds (smallest to largest)",
        "",
        f"copy tokens in pages of 16, {heads}: {figures.bytes_per_token:,} bytes a token",
    ]
    table = [("", "layout", [f"{tokens:,} tokens" for tokens in figures.tokens])]
    table += [("one memcpy, us", "", [str(spread) for spread in figures.memcpy])]
    table += [
        (result.name, result.layout, [f"x {spread}" for spread in result.to_memcpy]) for result in figures.results
    ]
    wide = 2 + max(len(cell) for _, _, cells in table for cell in cells)
    for name, layout, cells in table:
        lines.append(f"  {name:<34}{layout:<10}{''.join(cell.ljust(wide) for cell in cells)}".rstrip())
    if kept := copy_promises(figures):
        lines += ["", "promised:", *(f"  {promise}" for promise in kept)]
    return "\n".join(lines)

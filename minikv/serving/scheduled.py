"""Scheduled chunks: which tokens of which request one step computes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from minikv.serving.request import Request, token_id


class ScheduledChunk(NamedTuple):
    """The next `num_tokens` of `request`, to be computed in one step.

    `prefill` unless its only token was sampled in the step before.
    """

    request: Request
    num_tokens: int
    prefill: bool

    @property
    def samples(self) -> bool:
        """Whether it reaches the last token of its sequence, so that its logits say what comes next."""
        sequence = self.request.sequence
        return sequence is not None and sequence.computed + self.num_tokens == len(sequence.tokens)


def rest_of(request: Request) -> ScheduledChunk:
    """All that a running request has left to compute: its last sampled token, or what is missing of its prompt."""
    assert request.sequence is not None
    count = len(request.sequence.tokens) - request.sequence.computed
    return ScheduledChunk(request, count, prefill=count > 1 or not request.output)


def paired(chunks: Sequence[ScheduledChunk], tokens: list[int | None]) -> list[tuple[ScheduledChunk, int | None]]:
    """Each chunk that still has its sequence with what was sampled behind it: a token exactly where it ends."""
    if len(chunks) != len(tokens):
        raise ValueError(f"{len(tokens)} tokens for {len(chunks)} chunks: each has one, or None")
    entries = [(chunk, token) for chunk, token in zip(chunks, tokens) if chunk.request.sequence is not None]
    for chunk, token in entries:
        if chunk.samples != (token is not None):
            where = "at the end of its tokens" if chunk.samples else "in the middle of them"
            raise ValueError(f"request {chunk.request.number} is computed to a point {where}: its token is {token}")
        if token is not None:
            token_id(token)
    return entries

"""Scheduled chunks: which tokens of which request one step computes."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

from minikv.errors import bounded, whole_number
from minikv.manager.sequence import RUNNING
from minikv.serving.request import Request, token_id

Sampled = int | Sequence[int] | None  # behind a chunk; nothing in the middle of a prompt, several with a draft


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

    @property
    def num_logits(self) -> int:
        """Behind how many of its tokens logits are looked at: the last one, and before it those of a draft."""
        return 1 + num_drafted(self.request)


def num_drafted(request: Request) -> int:
    """How many tokens of its sequence nobody has generated: a draft, for the time of one step."""
    if request.sequence is None:
        return 0
    return max(0, len(request.sequence.tokens) - len(request.prompt) - len(request.output))


def rest_of(request: Request) -> ScheduledChunk:
    """All that a running request has left to compute: its last sampled token, or what is missing of its prompt."""
    assert request.sequence is not None
    count = len(request.sequence.tokens) - num_drafted(request) - request.sequence.computed
    return ScheduledChunk(request, count, prefill=count > 1 or not request.output)


def paired(
    chunks: Sequence[ScheduledChunk], tokens: Sequence[Sampled], running: Collection[Request]
) -> list[tuple[ScheduledChunk, list[int]]]:
    """Each chunk whose request still has its sequence, with what was sampled behind it.

    `ValueError` unless each is the chunk of another of the `running` requests, has tokens that are left to compute,
    has a token exactly where it reaches their end, and where it has a draft, at most one behind each of its tokens.

    >>> paired([], [7], running=[])
    Traceback (most recent call last):
    ValueError: 1 tokens for 0 chunks: each has one, or None
    """
    if len(chunks) != len(tokens):
        raise ValueError(f"{len(tokens)} tokens for {len(chunks)} chunks: each has one, or None")
    entries = [(chunk, _listed(token)) for chunk, token in zip(chunks, tokens) if _is_held(chunk.request)]
    runs, seen = {*running}, set[Request]()
    for chunk, sampled in entries:
        name = f"request {chunk.request.number}"
        if chunk.request not in runs:
            raise ValueError(f"{name} does not run here: a chunk is of a request of this scheduler")
        if chunk.request in seen:
            raise ValueError(f"{name} has two chunks: a step computes 1 of each request")
        seen.add(chunk.request)
        _require_entry(name, chunk, sampled)
    return entries


def _listed(token: Sampled) -> list[int]:
    return [] if token is None else [*token] if isinstance(token, Sequence) else [token]


def _is_held(request: Request) -> bool:
    """Whether it has slots: neither the request nor its sequence was ended in the meantime."""
    return request.sequence is not None and request.sequence.state == RUNNING


def _require_entry(name: str, chunk: ScheduledChunk, sampled: list[int]) -> None:
    sequence, drafted = chunk.request.sequence, num_drafted(chunk.request)
    assert sequence is not None
    left = len(sequence.tokens) - sequence.computed
    count = whole_number(f"num_tokens of {name}", chunk.num_tokens, 1, "a chunk has at least 1 token")
    if count > left:
        raise ValueError(f"num_tokens of {name} is {bounded(count)}: {left} are left to compute")
    if drafted and (count != left or not 1 <= len(sampled) <= 1 + drafted):
        rule = f"expected {left}, and 1 to {1 + drafted} sampled: it has a draft of {drafted}"
        raise ValueError(f"num_tokens of {name} is {bounded(count)}, and {len(sampled)} are sampled: {rule}")
    if not drafted and (count == left) != (len(sampled) == 1):
        where = "at the end of its tokens" if count == left else "in the middle of them"
        raise ValueError(f"{name} is computed to a point {where}: its token is {bounded(_told(sampled))}")
    for token in sampled:
        token_id(token)


def _told(sampled: list[int]) -> Sampled:
    """What was sampled, as it was given."""
    return sampled if len(sampled) > 1 else sampled[0] if sampled else None

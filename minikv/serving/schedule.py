"""The decisions of a scheduler: which tokens each step computes for which request, and who is admitted first.

An order only says which requests to prefer. The scheduler sees to it that none is overtaken forever.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from minikv.errors import whole_number
from minikv.serving.request import Request
from minikv.tokens import token_id

Sampled = int | Sequence[int] | None  # after a chunk; nothing in the middle of a prompt, several with a draft


class ScheduledChunk(NamedTuple):
    """The next `num_tokens` of `request`, to be computed in one step.

    `prefill` unless its only token was sampled in the step before.
    """

    request: Request
    num_tokens: int
    prefill: bool

    @property
    def samples(self) -> bool:
        """Return whether it reaches the last token of its sequence, so that its logits predict the next token."""
        sequence = self.request.sequence
        return sequence is not None and sequence.computed + self.num_tokens == sequence.length

    @property
    def num_logits(self) -> int:
        """The number of its tokens whose logits are used: the last one, and those of a draft before it."""
        return 1 + num_drafted(self.request)


def num_drafted(request: Request) -> int:
    """Return how many tokens of its sequence were not generated: a draft, for the time of one step."""
    if request.sequence is None:
        return 0
    return max(0, int(request.sequence.length) - len(request.prompt) - len(request.output))


def rest_of(request: Request) -> ScheduledChunk:
    """The tokens that a running request has left: the last one sampled, or what is missing up to its next stop."""
    sequence = request.sequence
    whole = sequence.length - num_drafted(request)
    end = min(whole, getattr(sequence, "next_stop", whole))
    count = end - sequence.computed
    return ScheduledChunk(request, count, count > 1 or not request.output or end < whole)


def paired(
    chunks: Sequence[ScheduledChunk], tokens: Sequence[Sampled], running: Collection[Request]
) -> list[tuple[ScheduledChunk, list[int]]]:
    """Each chunk whose request still has its sequence, with what was sampled after it.

    `ValueError` unless each is the chunk of another of the `running` requests, has tokens that are left to compute,
    has a token exactly where it reaches their end, and with a draft, at most one more after each of its tokens.

    >>> paired([], [7], running=[])
    Traceback (most recent call last):
    ValueError: 1 tokens for 0 chunks: each has one, or None
    """
    if len(chunks) != len(tokens):
        raise ValueError(f"{len(tokens)} tokens for {len(chunks)} chunks: each has one, or None")
    pairs, left = [], {*running}
    for chunk, token in zip(chunks, tokens):
        request = chunk.request
        if not request.is_running:
            continue  # the request or its sequence was ended in the meantime
        if request not in left:
            raise ValueError(
                f"request {request.number} does not run here, or has two chunks: "
                "a step computes one chunk of each request of this scheduler"
            )
        left.remove(request)
        sampled = [] if token is None else [*token] if isinstance(token, Sequence) else [token]
        _check_pair(chunk, sampled)
        pairs.append((chunk, sampled))
    return pairs


def _check_pair(chunk: ScheduledChunk, sampled: list[int]) -> None:
    name, sequence = f"request {chunk.request.number}", chunk.request.sequence
    drafted, left = num_drafted(chunk.request), sequence.length - sequence.computed
    rule = f"it has {left} left to compute; a chunk takes at least 1 of them, and any draft is computed whole"
    count = whole_number(f"num_tokens of {name}", chunk.num_tokens, left if drafted else 1, rule, left + 1)
    least, most = (1, 1 + drafted) if count == left else (0, 0)
    if not least <= len(sampled) <= most:
        rule = f"one token follows a complete prompt, and at most one more follows each of its {drafted} drafted tokens"
        raise ValueError(f"{len(sampled)} tokens are sampled for {name}: expected {least} to {most}, as {rule}")
    for token in sampled:
        token_id(token)


# -- who is admitted first --------------------------------------------------------------------------------------------

CachedLength = Callable[[Request], int]


class Order(Protocol):
    """Puts waiting requests in the order in which they should be admitted."""

    def arrange(self, waiting: Sequence[Request], cached: CachedLength) -> list[Request]:
        """`waiting`, which is in order of arrival, the preferred ones first; `cached` says how much is cached."""


@dataclass(frozen=True)
class FirstComeFirstServed:
    """The request that came first goes first.

    >>> a, b = Request([1], 1), Request([1, 2], 1)
    >>> FirstComeFirstServed().arrange([a, b], lambda request: request.prompt_tokens) == [a, b]
    True
    """

    def arrange(self, waiting: Sequence[Request], cached: CachedLength) -> list[Request]:
        """As they came."""
        return list(waiting)


@dataclass(frozen=True)
class LongestPrefixFirst:
    """The longest cached prefix goes first, before it is evicted; ties go to the earlier request.

    Only the first `window` of the waiting are looked at, since each look is a walk down the tree. After SGLang's
    longest-prefix-match order, which falls back to first come, first served in a long queue.

    >>> a, b = Request([1], 1), Request([1, 2], 1)
    >>> LongestPrefixFirst().arrange([a, b], lambda request: request.prompt_tokens) == [b, a]
    True
    """

    window: int = 128

    def __post_init__(self) -> None:
        whole_number("window", self.window, 1, "at least 1 waiting request is considered")

    def arrange(self, waiting: Sequence[Request], cached: CachedLength) -> list[Request]:
        """By the length of their cached prefix, the longest first."""
        near = sorted(waiting[: self.window], key=cached, reverse=True)  # stable: equal ones stay in their order
        return [*near, *waiting[self.window :]]

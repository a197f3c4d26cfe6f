"""What comes out of an engine: tokens one at a time, and the result of each request."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from minikv.serving.request import Request


class Event(NamedTuple):
    """A token that came out, and the request that it belongs to."""

    request: Request
    token: int


@dataclass(frozen=True)
class Generation:
    """The result of one prompt, and what it took; all but the last two count tokens.

    `tokens` are the generated ones, the end token among them if `reason` is "stop". `cached` tokens of the prompt were
    found in the cache at first, `computed` were put through the model, again after a preemption. Without one,
    and without drafts, `cached + computed` is `prompt + generated - 1`: the last token is never computed.

    >>> from minikv import CacheManager, CanaryModel, Engine, SamplingParams
    >>> (found,) = Engine(CanaryModel(10), CacheManager(8)).generate([[1, 2, 3]], SamplingParams(max_new_tokens=2))
    >>> found.tokens, found.reason, found.computed, found.first_token_steps
    ([9, 5], 'length', 4, 1)
    """

    tokens: list[int]
    reason: str
    prompt: int
    cached: int
    computed: int
    generated: int
    first_token_steps: int
    preemptions: int


def generation(request: Request) -> Generation:
    """The result of a request that is over.

    >>> generation(Request([1], 1))
    Traceback (most recent call last):
    ValueError: request 0 is not over: it has no result yet
    """
    if request.reason is None:
        raise ValueError(f"request {request.number} is not over: it has no result yet")
    return Generation(
        tokens=list(request.output),
        reason=request.reason,
        prompt=request.prompt_tokens,
        cached=request.cached_tokens,
        computed=request.computed_tokens,
        generated=request.generated_tokens,
        first_token_steps=request.first_token_steps or 0,
        preemptions=request.preemptions,
    )

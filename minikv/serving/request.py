"""A request: its prompt and how to sample, its output so far, what that took, and its result.

waiting -> running -> over             finished by an end token ("stop"), by length ("length"), or "aborted"
   ^----------'                        preempted: it gave its slots to an older one, and waits again
"""

from __future__ import annotations

from collections.abc import Collection, Hashable
from dataclasses import dataclass
from typing import Any, NamedTuple

from minikv.errors import whole_number
from minikv.manager.sequence import RUNNING
from minikv.prefix.contract import require_hashable
from minikv.serving.model import Params, Sampler
from minikv.tokens import PackedTokens, TokensLike, end_tokens, pack, token_id

STOP, LENGTH, ABORTED = "stop", "length", "aborted"


class Request:
    """One request to an engine: a `prompt`, and how to sample; a plain number is the most new tokens.

    `output` are the generated tokens, with the end token if there was one. `reason` is `None` until it is over, then
    "stop", "length" or "aborted". Of the tokens of the prompt `cached_tokens` were found in the cache at first;
    `computed_tokens` counts every token put through the model, again after a preemption. Of those `drafted_tokens` were
    guessed, and `accepted_tokens` of the guesses were correct. `first_token_steps` is how
    many steps it took to the first token, from 1; `None` before.

    >>> Request([1, 2, 3], 2)
    Request(0, waiting, 3 prompt + 0 of 2 new tokens)
    """

    def __init__(
        self,
        prompt: TokensLike,
        params: Params,
        namespace: Hashable = None,
        eos: Collection[int] = (),
    ):
        self.prompt: PackedTokens = pack(prompt)
        if not self.prompt:
            raise ValueError("prompt is empty: a request has at least 1 token")
        self.sampler = Sampler(params)
        self.params = self.sampler.params
        require_hashable(namespace)
        self.namespace, self.eos = namespace, end_tokens(eos)
        self.output: list[int] = []
        self.reason: str | None = None
        self.number = 0  # in order of arrival, from 1; the scheduler gives it
        self.sequence: Any = None  # what the manager started, while it runs
        self.cached_tokens = self.computed_tokens = self.preemptions = 0
        self.drafted_tokens = self.accepted_tokens = 0
        self.submitted_at = 0
        self.first_token_steps: int | None = None
        self.overtaken = 0  # by how many that came later and were admitted before it
        self._tokens = self.prompt  # and the output, as far as it has been looked at

    @property
    def prompt_tokens(self) -> int:
        """Tokens in the prompt."""
        return len(self.prompt)

    @property
    def generated_tokens(self) -> int:
        """Tokens generated so far."""
        return len(self.output)

    @property
    def max_new_tokens(self) -> int:
        """The most tokens that it generates."""
        return self.params.max_new_tokens

    @property
    def tokens(self) -> PackedTokens:
        """The prompt and what has been generated after it; put together once for each new length."""
        known = len(self._tokens) - len(self.prompt)
        if known < len(self.output):
            self._tokens = self._tokens + self.output[known:]
        return self._tokens

    @property
    def is_over(self) -> bool:
        """Return whether nothing more will come."""
        return self.reason is not None

    @property
    def is_running(self) -> bool:
        """Return whether it has a sequence that holds pages."""
        return self.sequence is not None and self.sequence.state == RUNNING

    def take(self, token: int, step: int) -> None:
        """Enter a `token` that was generated in step number `step`.

        `TypeError` or `ValueError`, and nothing has changed, for an invalid token or step, and when it is over.

        >>> request = Request([1, 2], 1)
        >>> request.take(7, step=1); request.output, request.reason
        ([7], 'length')
        """
        token, step = token_id(token), whole_number("step", step, self.submitted_at, "no step is before the request")
        if self.is_over:
            raise ValueError(f"request {self.number} is over ({self.reason}): it takes no more tokens")
        self.output.append(token)
        if self.first_token_steps is None:
            self.first_token_steps = step - self.submitted_at
        if token in self.eos:
            self.reason = STOP
        elif len(self.output) >= self.max_new_tokens:
            self.reason = LENGTH

    def __repr__(self) -> str:
        state = self.reason or ("waiting" if self.sequence is None else "running")
        new = f"{len(self.output)} of {self.max_new_tokens} new tokens"
        return f"Request({self.number}, {state}, {len(self.prompt)} prompt + {new})"


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
        [*request.output],
        request.reason,
        request.prompt_tokens,
        request.cached_tokens,
        request.computed_tokens,
        request.generated_tokens,
        request.first_token_steps or 0,
        request.preemptions,
    )

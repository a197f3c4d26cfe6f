"""A request: what somebody asked for, what has come of it so far, and what it took.

waiting -> running -> over             finished by an end token ("stop"), by length ("length"), or "aborted"
   ^----------'                        preempted: it gave its slots to an older one, and waits again
"""

from __future__ import annotations

from collections.abc import Collection, Hashable

from minikv.errors import whole_number
from minikv.manager import Sequence
from minikv.prefix.contract import require_hashable
from minikv.serving.sampling import Sampler
from minikv.tokens import PackedTokens, TokensLike, pack

STOP, LENGTH, ABORTED = "stop", "length", "aborted"


class Request:
    """One request to an engine: a `prompt`, and at most `max_new_tokens` generated behind it.

    `output` are the generated tokens, with the end token if there was one. `reason` is `None` until it is over, then
    "stop", "length" or "aborted". Of the tokens of the prompt `cached_tokens` were found in the cache at first;
    `computed_tokens` counts every token put through the model, again after a preemption. `first_token_steps` is how
    many steps it took to the first token, from 1; `None` before.

    >>> Request([1, 2, 3], max_new_tokens=2)
    Request(0, waiting, 3 prompt + 0 of 2 new tokens)
    """

    def __init__(
        self,
        prompt: TokensLike,
        max_new_tokens: int,
        sampler: Sampler | None = None,
        namespace: Hashable = None,
        eos: Collection[int] = (),
    ):
        self.prompt: PackedTokens = pack(prompt)
        if not len(self.prompt):
            raise ValueError("prompt is empty: a request has at least 1 token")
        self.max_new_tokens = whole_number("max_new_tokens", max_new_tokens, 1, "a request generates at least 1 token")
        require_hashable(namespace)
        self.sampler = Sampler() if sampler is None else sampler
        self.namespace, self.eos = namespace, eos
        self.output: list[int] = []
        self.reason: str | None = None
        self.number = 0  # in order of arrival, from 1; the scheduler gives it
        self.sequence: Sequence | None = None  # while it runs
        self.cached_tokens = self.computed_tokens = self.preemptions = 0
        self.submitted_at = 0
        self.first_token_steps: int | None = None
        self.overtaken = 0  # by how many that came later and were let in before it

    @property
    def prompt_tokens(self) -> int:
        """Tokens in the prompt."""
        return len(self.prompt)

    @property
    def generated_tokens(self) -> int:
        """Tokens generated so far."""
        return len(self.output)

    @property
    def tokens(self) -> PackedTokens:
        """The prompt and what has been generated behind it."""
        return self.prompt + self.output if self.output else self.prompt

    @property
    def is_over(self) -> bool:
        """Whether nothing more will come."""
        return self.reason is not None

    def take(self, token: int, step: int) -> None:
        """A token was generated in step number `step`."""
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

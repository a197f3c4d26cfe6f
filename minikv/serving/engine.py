"""The engine: a model, a manager and a scheduler, and the loop that joins them.

    plan      the scheduler says which tokens of whom are computed next, and they have slots
    forward   the model computes them all in one batch, keys and values through the slots
    sample    whoever is computed to the end gets its next token
    settle    what is computed is published, and who is done leaves

The whole engine is these four lines; the cache is under it, and changes which tokens are computed, never which come
out. After mini-sglang and nano-vllm.
"""

from __future__ import annotations

import contextlib
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from minikv.errors import bounded
from minikv.interrupts import whole
from minikv.manager import CacheManager
from minikv.serving.contract import Chunk, Model
from minikv.serving.request import Request
from minikv.serving.sampling import Sampler, as_array, require_choice
from minikv.serving.scheduler import Scheduler, Work
from minikv.tokens import TokensLike, integers, pack


class Event(NamedTuple):
    """A token has come out: of which request, and which."""

    request: Request
    token: int


@dataclass(frozen=True)
class Generation:
    """What came of one prompt, and what it took; all but the last two count tokens.

    `tokens` are the generated ones, the end token among them if `reason` is "stop". `cached` tokens of the prompt were
    found in the cache at first, `computed` were put through the model, again after a preemption. Without one,
    `cached + computed` is `prompt + generated - 1`: the last token is never computed.

    >>> from minikv import CacheManager, CanaryModel
    >>> (found,) = Engine(CanaryModel(10), CacheManager(8)).generate([[1, 2, 3]], max_new_tokens=2)
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


class Engine:
    """Generates tokens with `model` for many requests at once; keys and values are where `manager` says.

    `manager.store` is what the model writes to; `scheduler` decides who is computed when (default
    `Scheduler(manager)`). With `NoCache` in the manager it is the same engine without a prefix cache.

    >>> from minikv import CacheManager, CanaryModel
    >>> engine = Engine(CanaryModel(vocab_size=50), CacheManager(num_pages=64))
    >>> first, second = engine.generate([[1, 2, 3], [1, 2, 3, 4, 5]], max_new_tokens=4)
    >>> engine.generate([[1, 2, 3]], max_new_tokens=4)[0].tokens == first.tokens
    True
    >>> engine
    Engine(CanaryModel, 0 running, 0 waiting, 8 steps)
    """

    def __init__(self, model: Model, manager: CacheManager, scheduler: Scheduler | None = None):
        self.model, self.manager = model, manager
        self.scheduler = Scheduler(manager) if scheduler is None else scheduler
        if self.scheduler.manager is not manager:
            raise ValueError("the scheduler is another manager's: engine and scheduler share one")
        shape = getattr(manager.store, "shape", model.shape)
        if shape != model.shape:
            raise ValueError(f"the model needs a store of shape {model.shape}, the manager's has {shape}")

    # -- one by one -------------------------------------------------------------------------------------------------

    def submit(
        self,
        prompt: TokensLike,
        max_new_tokens: int,
        temperature: float = 0.0,
        seed: int = 0,
        namespace: Hashable = None,
    ) -> Request:
        """Let a request wait for its turn; `ValueError` for what is no prompt, or can never fit."""
        request = self._request(prompt, max_new_tokens, temperature, seed, namespace)
        self.scheduler.submit(request)
        return request

    def _request(
        self, prompt: TokensLike, max_new_tokens: int, temperature: float, seed: int, namespace: Hashable
    ) -> Request:
        tokens, limit = pack(prompt), self.model.vocab_size
        integers(np.frombuffer(tokens.data, np.uint32), "prompt", f"the model's tokens are 0 to {limit - 1}", limit)
        return Request(tokens, max_new_tokens, Sampler(temperature, seed), namespace, self.model.eos)

    def step(self) -> list[Event]:
        """Compute one batch; the tokens that came out of it, `[]` if there was nothing to compute.

        When the model fails or is interrupted nothing is lost: the next step computes the same batch. `ValueError`
        when the logits of a request are none; it is named, and can be aborted.
        """
        work = self.scheduler.plan()
        if not work:
            return []
        logits = as_array(self.model.forward([_chunk(share) for share in work], self.manager.store))
        return self._take(work, logits)

    @whole
    def _take(self, work: list[Work], logits: npt.NDArray[Any]) -> list[Event]:
        """Sample and settle in one act, so that no number is drawn for a token that does not come out."""
        tokens = _sample(work, logits)
        self.scheduler.settle(work, tokens)
        return [Event(share.request, token) for share, token in zip(work, tokens) if token is not None]

    def abort(self, request: Request) -> None:
        """End `request` now; all that it holds goes back. `ValueError` if it is over."""
        self.scheduler.abort(request)

    # -- many at once -----------------------------------------------------------------------------------------------

    def generate(
        self,
        prompts: Iterable[TokensLike],
        max_new_tokens: int,
        temperature: float = 0.0,
        seed: int | Sequence[int] = 0,
        namespace: Hashable = None,
    ) -> list[Generation]:
        """Generate behind each of `prompts`; the results are in their order.

        `seed` is one for all, so that equal prompts get equal answers, or one for each. Whatever stops it, an error or
        Ctrl-C, its requests are aborted on the way out.
        """
        requests = self._requests(prompts, max_new_tokens, temperature, seed, namespace)
        for _ in self._run(requests):
            pass
        return [generation(request) for request in requests]

    def stream(
        self,
        prompts: Iterable[TokensLike],
        max_new_tokens: int,
        temperature: float = 0.0,
        seed: int | Sequence[int] = 0,
        namespace: Hashable = None,
    ) -> Iterator[Event]:
        """As `generate`, but each token as it comes; requests are numbered in the order of `prompts`.

        Nothing begins before the first token is asked for. Who does not want to hear it to the end closes the
        iterator, which aborts what still runs.
        """
        yield from self._run(self._requests(prompts, max_new_tokens, temperature, seed, namespace))

    def _requests(
        self,
        prompts: Iterable[TokensLike],
        max_new_tokens: int,
        temperature: float,
        seed: int | Sequence[int],
        namespace: Hashable,
    ) -> list[Request]:
        """A request for each of `prompts`, which are still to be submitted."""
        listed = list(prompts)
        seeds: list[Any] = list(seed) if isinstance(seed, Iterable) else [seed] * len(listed)
        if len(seeds) != len(listed):
            raise ValueError(f"{bounded(seeds)} are {len(seeds)} seeds for {len(listed)} prompts")
        return [
            self._request(prompt, max_new_tokens, temperature, own, namespace) for prompt, own in zip(listed, seeds)
        ]

    def _run(self, requests: list[Request]) -> Iterator[Event]:
        """Submit and step until all are over; their tokens, those too that came out while somebody else stepped."""
        told = dict.fromkeys(requests, 0)
        try:
            for request in requests:
                self.scheduler.submit(request)
            while told:
                for request in list(told):
                    while told[request] < len(request.output):
                        told[request] += 1
                        yield Event(request, request.output[told[request] - 1])
                    if request.is_over:
                        del told[request]
                if told:
                    self.step()
        finally:
            self._abort_all(requests)

    @whole
    def _abort_all(self, requests: list[Request]) -> None:
        """Abort all that wait or run, each of them even if another fails; what is over holds nothing either."""
        with contextlib.ExitStack() as each:
            each.callback(self.scheduler.sweep)
            for request in requests:
                if request.number and not request.is_over:
                    each.callback(self.abort, request)

    def __repr__(self) -> str:
        counts = f"{len(self.scheduler.running)} running, {len(self.scheduler.waiting)} waiting"
        return f"Engine({type(self.model).__name__}, {counts}, {self.scheduler.step} steps)"


def generation(request: Request) -> Generation:
    """What came of a request that is over.

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


def _chunk(share: Work) -> Chunk:
    """The share as the model takes it: its tokens, what stands before them, the row up to their end."""
    sequence = share.request.sequence
    assert sequence is not None
    start, end = sequence.computed, sequence.computed + share.num_tokens
    return Chunk(sequence.tokens[start:end], start, sequence.slots[:end], share.request.namespace)


def _sample(work: list[Work], logits: npt.NDArray[Any]) -> list[int | None]:
    """The next token behind every share that reaches its end; no number is drawn for one unless all can be chosen."""
    if len(logits) != len(work):
        raise ValueError(f"the model gave {len(logits)} rows of logits for {len(work)} chunks")
    rows = [row if share.samples else None for share, row in zip(work, logits)]
    for share, row in zip(work, rows):
        if row is not None:
            require_choice(row, f"request {share.request.number}: ")
    return [None if row is None else share.request.sampler(row) for share, row in zip(work, rows)]

"""The engine: a model, a manager and a scheduler, and the loop that joins them.

    schedule    the scheduler says which tokens of which requests are computed next, and they have slots
    draft       a guess of how a request continues, if there is a drafter, is computed along with it
    forward     the model computes them all in one batch, keys and values through the slots
    sample      each request that is computed to its end gets its next token, or several if its draft was correct
    update      what is computed is published, and requests that are over leave

The whole engine is these five lines; the cache is under it, and changes which tokens are computed, never which come
out. After mini-sglang and nano-vllm.

An engine may be called from several threads: a lock around each act lets one of them in at a time, the forward step
included. Its scheduler has no lock of its own.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Generator, Hashable, Iterable, Sequence
from itertools import islice

import numpy as np

from minikv.errors import bounded, require_method
from minikv.interrupts import uninterrupted
from minikv.serving.drafts import Drafter, rows_that_count, with_drafts
from minikv.serving.managers import Manager, TruncatingManager
from minikv.serving.model import Chunk, Model, Params, as_array
from minikv.serving.request import Event, Generation, Request, generation
from minikv.serving.schedule import Sampled, ScheduledChunk
from minikv.serving.scheduler import Scheduler
from minikv.tokens import Array, TokensLike, integers, pack


class Engine:
    """Generates tokens with `model` for many requests at once; keys and values are where `manager` says.

    `manager` is a `CacheManager`, or anything with its verbs; `manager.store` is what the model writes to. `scheduler`
    decides what is computed when (default `Scheduler(manager)`). With `NoCache` in the manager it is the same engine
    without a prefix cache. `drafts`, for example `PromptLookup()`, guesses tokens for requests that sample greedily:
    the same tokens come out, in fewer steps where it guesses well. Several threads may use the engine. Everywhere
    `SamplingParams` say how to sample; a plain number is the maximum number of new tokens.

    A server that runs for long should know Python's garbage collector: with 1,000,000 nodes in the tree, a full
    collection stops every request for 250 ms on a quiet core, and for more than 600 ms on a busy one. Call
    `gc.collect(); gc.freeze()` once the cache is full, and again from time to time: a collection passes over what was
    there then. When half of the tree is new again, a pause takes about half as long.

    >>> from minikv import CacheManager, CanaryModel, SamplingParams
    >>> engine = Engine(CanaryModel(vocab_size=50), CacheManager(num_pages=64))
    >>> first, second = engine.generate([[1, 2, 3], [1, 2, 3, 4, 5]], SamplingParams(max_new_tokens=4))
    >>> engine.generate([[1, 2, 3]], 4)[0].tokens == first.tokens
    True
    >>> engine
    Engine(CanaryModel, 0 running, 0 waiting, 8 steps)
    """

    def __init__(
        self, model: Model, manager: Manager, scheduler: Scheduler | None = None, drafts: Drafter | None = None
    ):
        self.model = model
        self.manager = manager
        self.drafts = drafts
        self.scheduler = Scheduler(manager) if scheduler is None else scheduler
        if not isinstance(model, Model):
            raise TypeError(f"model is {bounded(model)}: expected a Model")
        if not isinstance(self.scheduler, Scheduler):
            raise TypeError(f"scheduler is {bounded(scheduler)}: expected a Scheduler")
        if self.scheduler.manager is not manager:
            raise ValueError("the scheduler belongs to a different manager; engine and scheduler must share one")
        shape = getattr(manager.store, "shape", model.shape)
        if shape != model.shape:
            raise ValueError(f"the model needs a store of shape {model.shape}, the manager's has {shape}")
        if drafts is not None:
            require_method("drafts", drafts, "draft", "a PromptLookup, or an object with its method draft")
            if not isinstance(manager, TruncatingManager):
                raise TypeError(f"manager is {bounded(manager)}: drafts need one with the method truncate")
        self._lock = threading.RLock()  # around each act

    # -- one by one -------------------------------------------------------------------------------------------------

    def submit(self, prompt: TokensLike, params: Params, namespace: Hashable = None) -> Request:
        """Let a request wait for its turn; `ValueError` for an invalid prompt, or one that can never fit.

        >>> from minikv import CacheManager, CanaryModel, SamplingParams
        >>> engine = Engine(CanaryModel(10), CacheManager(8))
        >>> request = engine.submit([1, 2, 3], SamplingParams(max_new_tokens=1))
        >>> engine.step()
        [Event(request=Request(1, length, 3 prompt + 1 of 1 new tokens), token=9)]
        """
        request = self._request(prompt, params, namespace)
        with self._lock:
            self.scheduler.submit(request)
        return request

    def _request(self, prompt: TokensLike, params: Params, namespace: Hashable) -> Request:
        tokens, limit = pack(prompt), self.model.vocab_size
        integers(np.frombuffer(tokens.data, np.uint32), "prompt", f"the model's tokens are 0 to {limit - 1}", limit)
        return Request(tokens, params, namespace, self.model.eos)

    def step(self) -> list[Event]:
        """Compute one batch; the tokens that came out of it, `[]` if there was nothing to compute.

        When the model fails or is interrupted nothing is lost: the next step computes the same batch. `ValueError`
        when there is nothing to choose from in the logits of a request; it is named, and can be aborted.
        """
        with self._lock:
            if not (chunks := self.scheduler.schedule()):
                return []
            if self.drafts is not None:
                chunks = with_drafts(
                    chunks,
                    self.drafts,
                    self.manager,
                    self.scheduler.token_budget,
                    self.model.vocab_size,
                )
            given = [_as_chunk(chunk) for chunk in chunks]
            return self._update(chunks, as_array(self.model.forward(given, self.manager.store)))

    @uninterrupted
    def _update(self, chunks: list[ScheduledChunk], logits: Array) -> list[Event]:
        """Sample and update in one act, so that no number is drawn for a token that does not come out."""
        before = [(chunk.request, chunk.request.generated_tokens) for chunk in chunks]
        self.scheduler.update_from_output(chunks, _sample(chunks, logits))
        return [Event(request, token) for request, count in before for token in request.output[count:]]

    def abort(self, request: Request) -> None:
        """End `request` now; all that it holds goes back. `ValueError` if it is over."""
        with self._lock:
            self.scheduler.abort(request)

    # -- many at once -----------------------------------------------------------------------------------------------

    def generate(
        self, prompts: Iterable[TokensLike], params: Params | Sequence[Params], namespace: Hashable = None
    ) -> list[Generation]:
        """Generate what follows each of `prompts`; the results are in their order.

        `params` are for all of them, so that equal prompts get equal answers, or one for each. Whatever stops it, an
        error or Ctrl-C, its requests are aborted on the way out.
        """
        requests = self._requests(prompts, params, namespace)
        for _ in self._run(requests):
            pass
        return [generation(request) for request in requests]

    def stream(
        self, prompts: Iterable[TokensLike], params: Params | Sequence[Params], namespace: Hashable = None
    ) -> Generator[Event, None, None]:
        """As `generate`, but each token as it comes; requests are numbered in the order of `prompts`.

        Nothing begins before the first token is asked for. Closing the iterator early aborts what still runs.
        """
        yield from self._run(self._requests(prompts, params, namespace))

    def _requests(
        self, prompts: Iterable[TokensLike], params: Params | Sequence[Params], namespace: Hashable
    ) -> list[Request]:
        """A request for each of `prompts`, which are still to be submitted."""
        if not isinstance(prompts, Iterable):
            raise TypeError(f"prompts must be a sequence of prompts, not {bounded(prompts)}")
        listed = list(prompts)
        each = list(params) if isinstance(params, Sequence) else [params] * len(listed)
        if len(each) != len(listed):
            raise ValueError(f"{bounded(each)} are {len(each)} sampling parameters for {len(listed)} prompts")
        return [self._request(prompt, own, namespace) for prompt, own in zip(listed, each)]

    def _run(self, requests: list[Request]) -> Generator[Event, None, None]:
        """Submit and step until all are over; their tokens, also those that came out while another caller stepped."""
        sent = dict.fromkeys(requests, 0)
        try:
            for request in requests:
                with self._lock:
                    self.scheduler.submit(request)
            while sent:
                for request in list(sent):
                    over = request.is_over  # looked at first: a request that is over gets no further token
                    for token in islice(request.output, sent[request], None):
                        sent[request] += 1
                        yield Event(request, token)
                    if over:
                        del sent[request]
                if sent:
                    self.step()
        finally:
            with self._lock:
                self._abort_all(requests)

    @uninterrupted
    def _abort_all(self, requests: list[Request]) -> None:
        """Abort all that wait or run, each of them even if another fails."""
        with contextlib.ExitStack() as each:
            each.callback(self.scheduler.sweep)
            for request in requests:
                if request.number and not request.is_over:
                    each.callback(self.abort, request)

    def __repr__(self) -> str:
        plan = self.scheduler
        counts = f"{len(plan.running)} running, {len(plan.waiting)} waiting, {plan.step} steps"
        return f"Engine({type(self.model).__name__}, {counts})"


def _as_chunk(chunk: ScheduledChunk) -> Chunk:
    """As the model takes it: its tokens, how many come before them, the row up to their end."""
    request = chunk.request
    tokens, slots = request.sequence.next_chunk(chunk.num_tokens)
    return Chunk(tokens, request.sequence.computed, slots, request.namespace, chunk.num_logits)


def _sample(chunks: list[ScheduledChunk], logits: Array) -> list[Sampled]:
    """Sample the tokens that follow each chunk that reaches its end, from the rows of `logits` that are its own.

    None is drawn unless all that count can be chosen.
    """
    ends = np.cumsum([chunk.num_logits for chunk in chunks])
    if len(logits) != ends[-1]:
        raise ValueError(f"the model gave {len(logits)} rows of logits: expected {ends[-1]}")
    parts = zip(chunks, np.split(logits, ends[:-1]))
    counting = [rows_that_count(chunk.request, part if chunk.samples else part[:0]) for chunk, part in parts]
    return [[chunk.request.sampler(row) for row in rows] for chunk, rows in zip(chunks, counting)]

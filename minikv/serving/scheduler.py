"""The scheduler: which tokens of which requests the next step computes, and which requests get room.

    running    each gets a slot for its last sampled token; if no page is left, the youngest is preempted
               then one token each for those that decode, and chunks of their prompts for the others
    waiting    as long as the step has tokens to give and the manager has room, the next one is admitted

All of it is bookkeeping: no model, no tensor. A request is preempted by recompute: what it has computed is published,
so computing it again costs little unless its pages are evicted in between.

After the schedulers of vLLM (preemption of the youngest), Sarathi (chunks of prompts beside decoding) and SGLang
(cache-aware order, and waiting for a prefix that is being computed).
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterable, Sequence
from operator import attrgetter
from typing import Any

from minikv.errors import OutOfPages, bounded, require_method, whole_number
from minikv.interrupts import uninterrupted
from minikv.prefix import NoCache
from minikv.serving.drafts import drop_draft, update_request
from minikv.serving.managers import Manager
from minikv.serving.request import ABORTED, Request
from minikv.serving.schedule import FirstComeFirstServed, Order, Sampled, ScheduledChunk, paired, rest_of
from minikv.tokens import common_prefix

LOOK_AHEAD = 128  # waiting requests that one step looks at
_number = attrgetter("number")


class Scheduler:
    """Keeps the waiting and the running requests of one manager, and schedules step after step.

    `token_budget` is the most tokens of one step, `max_running` the most requests at a time: at most as many, so that
    each one that decodes gets its token in every step. Prompts share the rest, the oldest first. `order` says which
    waiting request is admitted first; a request may be overtaken at most `max_overtakes` times. A request waits while
    another one computes at least `min_awaited_prefix` tokens that it needs as well; with `None` it never does.
    Not for several threads at once: the engine holds a lock.

    >>> from minikv import CacheManager
    >>> manager = CacheManager(num_pages=32)
    >>> scheduler = Scheduler(manager, token_budget=4, max_running=2)
    >>> scheduler.submit(Request([1, 2, 3, 4, 5, 6], 1))
    >>> chunks = scheduler.schedule(); chunks
    [ScheduledChunk(request=Request(1, running, 6 prompt + 0 of 1 new tokens), num_tokens=4, prefill=True)]
    >>> scheduler.update_from_output(chunks, [None])
    >>> [chunk.num_tokens for chunk in scheduler.schedule()]
    [2]
    """

    def __init__(
        self,
        manager: Manager,
        token_budget: int = 2048,
        max_running: int = 64,
        order: Order | None = None,
        max_overtakes: int = 8,
        min_awaited_prefix: int | None = 32,
    ):
        if not isinstance(manager, Manager):
            raise TypeError(f"manager is {bounded(manager)}: expected a CacheManager, or an object with its methods")
        self.manager = manager
        self.max_running = whole_number("max_running", max_running, 1, "at least 1 request runs")
        rule = "each running request that decodes gets 1 token of a step"
        self.token_budget = whole_number("token_budget", token_budget, self.max_running, rule)
        self.order = FirstComeFirstServed() if order is None else order
        require_method("order", self.order, "arrange", "an Order")
        self.max_overtakes = whole_number("max_overtakes", max_overtakes, 0, "with 0 no request is overtaken")
        never = min_awaited_prefix is None or isinstance(manager.cache, NoCache)  # which never publishes anything
        rule = "a request waits for at least 1 token"
        self.min_awaited_prefix = None if never else whole_number("min_awaited_prefix", min_awaited_prefix, 1, rule)
        self.waiting: list[Request] = []  # both in order of arrival
        self.running: list[Request] = []
        self.step = 0
        self._arrived = 0

    @uninterrupted
    def submit(self, request: Request) -> None:
        """Let `request` wait for its turn; `ValueError` if there can never be room for it."""
        if not isinstance(request, Request):
            raise TypeError(f"cannot submit {bounded(request)}: expected a Request")
        if request.number:
            raise ValueError(f"cannot submit request {request.number}: it was submitted before")
        longest = request.prompt_tokens + request.max_new_tokens - 1  # the last token needs no slot
        pages = -(-longest // self.manager.page_size)
        most = min(self.manager.num_pages, getattr(self.manager, "num_window_pages", self.manager.num_pages))
        if pages > most:
            raise ValueError(
                f"{request.prompt_tokens} prompt and {request.max_new_tokens} new tokens "
                f"need {pages} pages: the manager has {most}, so they never fit"
            )
        self._arrived += 1
        request.number, request.submitted_at = self._arrived, self.step
        self.waiting.append(request)

    @uninterrupted
    def abort(self, request: Request) -> None:
        """End `request` now and give back all that it holds; `ValueError` if it is over, or not of this scheduler."""
        if request.is_over or request not in self.running + self.waiting:
            why = f"it is over ({request.reason})" if request.is_over else "it was not submitted here"
            raise ValueError(f"cannot abort request {request.number}: {why}")
        request.reason = ABORTED
        if request in self.waiting:
            self.waiting.remove(request)
        else:
            self._leave(request)

    # -- a step -----------------------------------------------------------------------------------------------------

    @uninterrupted
    def schedule(self) -> list[ScheduledChunk]:
        """Return the chunks to compute next, `[]` if there are none; every chunk has slots.

        Raises `OutOfPages` when nothing runs and there is no room for the request whose turn it is: then its pages are
        held by something other than this scheduler's requests.
        """
        self.sweep()
        self._make_room()
        decoding_first = sorted(map(rest_of, self.running), key=lambda chunk: chunk.prefill)
        counts = self.share([chunk.num_tokens for chunk in decoding_first], self.token_budget)
        chunks = [chunk._replace(num_tokens=count) for chunk, count in zip(decoding_first, counts) if count]
        return chunks + self._admit(self.token_budget - sum(counts))

    def share(self, left: Sequence[int], budget: int) -> list[int]:
        """How many of the `left` tokens of each running request the next step computes: in order, while there are any.

        >>> from minikv import CacheManager
        >>> Scheduler(CacheManager(8)).share([1, 1, 500, 300], budget=512)
        [1, 1, 500, 10]
        """
        counts = []
        for tokens in left:
            counts.append(min(tokens, budget))
            budget -= counts[-1]
        return counts

    @uninterrupted
    def update_from_output(self, chunks: Sequence[ScheduledChunk], tokens: Iterable[Sampled]) -> None:
        """`chunks` are computed, and `tokens` were sampled after them (`None` after a chunk in the middle).

        After a chunk with a draft there may be several, one for each of its tokens, or fewer: as many of them are
        entered as the draft got right, and one more; the rest of the draft is removed.
        A request that was aborted in the meantime is passed over. `TypeError` or `ValueError`, and nothing is entered,
        when a token is missing, left over or invalid, and when a chunk is there twice, of another scheduler, or longer
        than what its request has left to compute.
        """
        pairs = paired(chunks, list(tokens), self.running)
        self.step += 1
        for chunk, sampled in pairs:
            update_request(self.manager, chunk, sampled, self.step)
        for (request, _, prefill), _ in pairs:  # all is entered before anything is published, which might fail
            if request.is_over:
                self._leave(request)
            elif prefill:
                self.manager.checkpoint(request.sequence)

    @uninterrupted
    def sweep(self) -> None:
        """Repair what a failure left: finished requests leave, one without a sequence starts again, drafts go."""
        for request in list(self.running):
            if request.is_over:
                self._leave(request)
            elif not request.is_running:
                self._wait_again(request)
            else:
                drop_draft(self.manager, request)

    def _leave(self, request: Request) -> None:
        """`request` is over: it publishes what it computed, unless it was aborted, and holds nothing any more.

        If even `abort` fails, it stays among the running, and the next `sweep` tries again.
        """
        try:
            if request.is_running and request.reason != ABORTED:
                self.manager.finish(request.sequence)
        finally:
            if request.is_running:
                self.manager.abort(request.sequence)
            request.sequence = None
            self.running.remove(request)

    # -- the running ------------------------------------------------------------------------------------------------

    def _make_room(self) -> None:
        """A slot for the last token of each, the oldest first; if there is none, the youngest is preempted."""
        for request in list(self.running):
            length = request.prompt_tokens + request.generated_tokens
            while (sequence := request.sequence) is not None and sequence.length < length:
                try:
                    self.manager.extend(sequence, request.output[sequence.length - length :])
                except OutOfPages:
                    self.preempt()

    def preempt(self) -> None:
        """Take the slots of the youngest; it is computed again, less what stays in the cache until then."""
        request = self.running[-1]
        self.manager.finish(request.sequence)
        request.preemptions += 1
        self._wait_again(request)

    def _wait_again(self, request: Request) -> None:
        self.running.remove(request)
        request.sequence = None
        insort(self.waiting, request, key=_number)

    # -- the waiting ------------------------------------------------------------------------------------------------

    def _admit(self, left: int) -> list[ScheduledChunk]:
        """Start waiting requests for the `left` tokens of this step, until one of them finds no room."""
        chunks: list[ScheduledChunk] = []
        if left <= 0 or len(self.running) >= self.max_running:  # then no prefix has to be looked up
            return chunks
        last = self._last_in_turn()
        for request in self._candidates()[:LOOK_AHEAD]:
            if left <= 0 or len(self.running) >= self.max_running:
                break
            if request.number > last or self._waits_for_a_prefix(request):
                continue
            if self._start(request) is None:
                break
            last = self._last_in_turn()
            count = min(left, rest_of(request).num_tokens)
            chunks.append(ScheduledChunk(request, count, True))
            left -= count
        return chunks

    def _candidates(self) -> list[Request]:
        """The waiting in the order in which to admit them: first those overtaken often enough, then by the order."""
        overdue = [request for request in self.waiting if request.overtaken >= self.max_overtakes]
        others = [request for request in self.waiting if request.overtaken < self.max_overtakes]
        arranged = self.order.arrange(others, self._cached)
        if len(arranged) != len(others):  # a request that is left out would wait forever
            raise ValueError(f"{self.order} arranged {len(others)} waiting requests, but returned {len(arranged)}")
        return overdue + arranged

    def _last_in_turn(self) -> int:
        """The number of the first that may not be overtaken again: none with a higher one is admitted before it."""
        overdue = (request.number for request in self.waiting if request.overtaken >= self.max_overtakes)
        return min(overdue, default=self._arrived)

    def _cached(self, request: Request) -> int:
        """Return how many tokens of `request` are cached now."""
        tokens = request.tokens
        return self.manager.cache.match_prefix(tokens, limit=len(tokens) - 1, namespace=request.namespace).length

    def _waits_for_a_prefix(self, request: Request) -> bool:
        """Return whether another request is computing so much of what `request` needs that it should wait for it."""
        least = self.min_awaited_prefix
        if least is None:
            return False
        tokens, page, shared = request.tokens, self.manager.page_size, 0
        for other in self.running:
            if other.namespace == request.namespace and rest_of(other).prefill:  # it is published when it is computed
                shared = max(shared, common_prefix(tokens, other.tokens))
        coming = min(shared, len(tokens) - 1) // page * page
        return coming >= least and coming - self._cached(request) >= least

    def _start(self, request: Request) -> Any:
        """Admit `request`, or `None` if there is no room beside a page for the next token of each that runs."""
        try:
            sequence = self.manager.start(
                request.tokens,
                namespace=request.namespace,
                spare=len(self.running),
            )
        except OutOfPages:
            if not self.running:
                raise
            return None
        if not request.computed_tokens:
            request.cached_tokens = sequence.cached_length
        request.sequence = sequence
        self.waiting.remove(request)
        for other in self.waiting:
            other.overtaken += other.number < request.number
        insort(self.running, request, key=_number)
        return sequence

    def __repr__(self) -> str:
        return f"Scheduler({len(self.running)} running, {len(self.waiting)} waiting, {self.step} steps, {self.order})"

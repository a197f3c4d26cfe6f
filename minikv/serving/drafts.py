"""Drafts: guessed tokens that a step computes after the next one, and what happens to the wrong ones.

    sequence   [0, known)            the prompt and what has been generated after it
               [known, known + k)    a draft, in the sequence for one step only

The draft is computed in one chunk with the last known token, and the logits of each of them are looked at: as long as
the likeliest token is the drafted one, what follows it was computed for the right tokens. The first that differs
comes out as well. All else is taken back before anything is said to be computed, so it is never published.

After "Fast inference from transformers via speculative decoding" (Leviathan et al., 2023), here for greedy sampling
alone, and Saxena's prompt lookup decoding, which vLLM calls n-gram speculation.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Sequence
from typing import Any, Protocol

from minikv.errors import OutOfPages, whole_number
from minikv.serving.model import require_choice
from minikv.serving.request import Request
from minikv.serving.schedule import ScheduledChunk, num_drafted
from minikv.tokens import TOKEN_BYTES, Array, TokensLike, integers, pack


class Drafter(Protocol):
    """Guesses how a sequence continues; a wrong guess costs time, but never changes the output."""

    def draft(self, tokens: TokensLike, most: int) -> Sequence[int]:
        """At most `most` tokens that may follow `tokens`, best the same ones every time; `[]` for no guess."""


class PromptLookup:
    """Guesses that a sequence continues as it did after the last occurrence of its newest `length` tokens.

    At most `most` tokens are guessed. Where the last time was only a moment ago, the guess repeats what came since.
    There is no model in it: quoting, code and lists repeat themselves. After prompt lookup decoding (Saxena, 2023).

    >>> lookup = PromptLookup(length=2, most=4)
    >>> lookup.draft([1, 2, 3, 4, 5, 1, 2], 8), lookup.draft([1, 2, 3, 4], 8), lookup.draft([8, 9, 8, 9], 3)
    ([3, 4, 5, 1], [], [8, 9, 8])
    """

    def __init__(self, length: int = 3, most: int = 8):
        self.length = whole_number("length", length, 1, "at least 1 token is looked up")
        self.most = whole_number("most", most, 1, "at least 1 token is guessed")

    def draft(self, tokens: TokensLike, most: int) -> list[int]:
        """Return the tokens that followed the newest ones last time, at most `most` of them."""
        packed, count = pack(tokens), min(most, self.most)
        if len(packed) <= self.length or count < 1:
            return []
        data, width = packed.data, self.length * TOKEN_BYTES
        newest = data[-width:]
        at = data.rfind(newest, 0, -1)
        while at % TOKEN_BYTES and at > 0:  # bytes may be found in the middle of a token, too
            at = data.rfind(newest, 0, at + width - 1)
        if at < 0:
            return []
        start = at // TOKEN_BYTES + self.length
        followed = packed[start : start + count].tolist()
        return (followed * -(-count // len(followed)))[:count]

    def __repr__(self) -> str:
        return f"PromptLookup(length={self.length}, most={self.most})"


def with_drafts(
    chunks: list[ScheduledChunk], drafts: Drafter, manager: Any, budget: int, vocab_size: int
) -> list[ScheduledChunk]:
    """`chunks`, the decoding ones longer by their drafts, which have slots: drafts get what is left of the `budget`.

    A request has no draft where it does not sample greedily, where no token can follow its next one, and where there
    is no room: no request is preempted for a guess, but a cached page that is not locked may be evicted. Where no page
    is to be had, a draft ends with the sequence's last page. `ValueError` or `TypeError` when a draft is too long, or
    not made of the model's tokens.
    """
    left, longer = budget - sum(chunk.num_tokens for chunk in chunks), []
    for chunk in chunks:
        most = _most(chunk, left)
        draft: list[int] = []
        if most > 0:
            guess = drafts.draft(chunk.request.tokens, most)
            rule = f"the model's tokens are 0 to {vocab_size - 1}"
            draft = integers(guess, "draft", rule, vocab_size).tolist()
        if len(draft) > most:
            raise ValueError(f"draft has {len(draft)} tokens: at most {most} were asked for")
        draft = _with_slots(manager, chunk.request.sequence, draft)
        left -= len(draft)
        longer.append(chunk._replace(num_tokens=chunk.num_tokens + len(draft)))
    return longer


def _with_slots(manager: Any, sequence: Any, draft: list[int]) -> list[int]:
    """As much of `draft` as gets slots after `sequence`: all of it, or what fits in its last page."""
    for count in (len(draft), -sequence.length % manager.page_size):
        with contextlib.suppress(OutOfPages):
            if count and draft:
                manager.extend(sequence, draft[:count])
            return draft[:count]
    return []


def _most(chunk: ScheduledChunk, left: int) -> int:
    """The most tokens that may be drafted after a chunk: the one that comes out besides needs no slot."""
    request = chunk.request
    if chunk.prefill or not chunk.samples or request.params.temperature:
        return 0
    return min(left, request.max_new_tokens - request.generated_tokens - 1)


def drop_draft(manager: Any, request: Request) -> None:
    """Remove the draft that a failed step left, if there is one."""
    if num_drafted(request):
        manager.truncate(request.sequence, request.prompt_tokens + request.generated_tokens)


def update_request(manager: Any, chunk: ScheduledChunk, sampled: list[int], step: int) -> None:
    """Enter a computed `chunk`, and as much of what was `sampled` after its tokens as is correct.

    That is one token more than the longest right beginning of the draft, or fewer if one of them ends the request. All
    others are taken back before anything counts as computed.
    """
    request, count, tokens = chunk.request, chunk.num_tokens, sampled
    if drafted := num_drafted(request):
        known = request.prompt_tokens + request.generated_tokens
        accepted = _num_right(request, request.sequence.tokens[known:], sampled[:-1])
        tokens = sampled[: accepted + 1]
        manager.truncate(request.sequence, known + accepted)
        count -= drafted - accepted
        request.drafted_tokens += drafted
        request.accepted_tokens += accepted
    manager.advance(request.sequence, count)
    request.computed_tokens += chunk.num_tokens
    for token in tokens:
        request.take(token, step)


def rows_that_count(request: Request, rows: Array) -> Array:
    """Of the logits of the tokens of a chunk, those up to the first where its draft is wrong, or the answer ends.

    `ValueError` names the request if there is nothing to choose from in one of them; what follows a wrong guess may
    be anything.
    """
    drafted, name = num_drafted(request), f"request {request.number}: "
    draft = request.sequence.tokens[-drafted:] if drafted else ()
    count = 1 + _num_right(request, draft, (int(require_choice(row, name).argmax()) for row in rows))
    for row in rows[count - 1 : count]:
        require_choice(row, name)
    return rows[:count]


def _num_right(request: Request, draft: Sequence[int], tokens: Iterable[int]) -> int:
    """Return how many tokens of `draft` are correct: the same as the sampled ones, and no end token."""
    count = 0
    for drafted, token in zip(draft, tokens):
        if drafted != token or token in request.eos:
            break
        count += 1
    return count

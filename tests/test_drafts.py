"""Drafts: guessed tokens are computed along with the next one, and change how many steps it takes, and nothing else."""

import functools
import random
import re
from unittest import mock

import numpy as np
import pytest
from chats import VOCAB, assert_nothing_leaked
from refusals import said

from minikv import (
    CacheManager,
    CanaryModel,
    Engine,
    PromptLookup,
    Request,
    SamplingParams,
    Scheduler,
)
from minikv.serving import drafts

# -- fewer steps ------------------------------------------------------------------------------------------------------


def looked_at(chunks):
    """The tokens behind which logits are wanted."""
    return [token for chunk in chunks for token in list(chunk.tokens)[-chunk.num_logits :]]


class CountsUp(CanaryModel):
    """Behind each token comes the next number, and behind `period - 1` comes 0: a text that repeats itself."""

    def __init__(self, period, **options):
        super().__init__(**options)
        self.period = period

    def forward(self, chunks, store):
        super().forward(chunks, store)  # reads and writes the marks of every slot
        return np.eye(self.vocab_size)[[(token + 1) % self.period for token in looked_at(chunks)]]


def decoding(engine, prompt, new=9):
    """A request after its first step."""
    request = engine.submit(prompt, new)
    engine.step()
    return request


def to_the_end(engine, request):
    while not request.is_over:
        engine.step()
        engine.manager.check()
    return request.output


@pytest.mark.parametrize("page_size", [1, 4])
def test_a_text_that_repeats_itself_takes_far_fewer_steps(page_size):
    """100 tokens with a period of 7: once it has been said, 8 of the 9 tokens of a step are drafted."""
    said, steps = [], []
    for drafter in (None, PromptLookup()):
        engine = Engine(CountsUp(7), CacheManager(256, page_size), drafts=drafter)
        said.append([found.tokens for found in engine.generate([[0, 1, 2], [3, 4]], 100)])
        steps.append(engine.scheduler.step)
        assert_nothing_leaked(engine.manager)
    assert said[0] == said[1]
    assert steps == [100, 19]


# -- what a draft may not do ------------------------------------------------------------------------------------------


class Says:
    """Drafts the same tokens each time, no more than are asked for."""

    def __init__(self, *tokens):
        self.tokens, self.asked = tokens, []

    def draft(self, tokens, most):
        self.asked.append(most)
        return self.tokens[:most]


def test_nothing_is_drafted_where_tokens_are_drawn():
    says, params = Says(1, 2, 3), SamplingParams(max_new_tokens=8, temperature=0.9, seed=4)
    warm, plain = (Engine(CanaryModel(9), CacheManager(64), drafts=drafter) for drafter in (says, None))
    assert warm.generate([[1, 2]], params) == plain.generate([[1, 2]], params)
    assert not says.asked


class LosesItsMind(CountsUp):
    """Behind some tokens its logits are not numbers."""

    def __init__(self, lost, **options):
        super().__init__(7, vocab_size=9, **options)
        self.lost = lost

    def forward(self, chunks, store):
        logits = super().forward(chunks, store)
        logits[[token in self.lost for token in looked_at(chunks)]] = np.nan
        return logits


@pytest.mark.parametrize("draft", [(8, 8), (3, 8), (3, 4, 5)])
def test_what_comes_behind_a_wrong_guess_or_the_end_may_be_anything(draft):
    """The answer ends with 5, and 8 is always wrong: what the model says behind either is looked at by nobody."""
    for drafter in (None, Says(*draft)):
        engine = Engine(LosesItsMind({5, 8}, eos=[5]), CacheManager(64), drafts=drafter)
        assert engine.generate([[6, 0]], 9)[0].tokens == [1, 2, 3, 4, 5]
        assert_nothing_leaked(engine.manager)


def test_where_a_right_guess_leads_to_nothing_the_request_is_named():
    engine = Engine(LosesItsMind({4}), CacheManager(64), drafts=Says(3, 4))
    request = decoding(engine, [0, 1])
    for _ in range(2):
        assert "ValueError: request 1: the largest logit is nan" in said(engine.step)
    assert request.output == [2]


def test_nothing_is_drafted_behind_the_end():
    """Of 4 tokens one comes with the prompt; behind the second 2 more can come, but the last needs no slot."""
    says = Says(*range(9))
    engine = Engine(CanaryModel(9), CacheManager(16), drafts=says)
    engine.generate([[1, 2]], 4)
    assert says.asked[0] == 2
    assert max(says.asked) == 2


def test_an_end_token_ends_a_draft_too():
    engine = Engine(CountsUp(9, eos=[4]), CacheManager(16), drafts=Says(3, 4, 5, 6))
    (found,) = engine.generate([[0, 1]], 8)
    assert (found.tokens, found.reason) == ([2, 3, 4], "stop")
    assert engine.manager.cache.match_prefix([0, 1, 2, 3, 4, 5]).length == 4
    assert_nothing_leaked(engine.manager)


def test_drafts_get_what_is_left_of_a_step():
    """Two requests decode with 5 tokens a step: 3 are left for drafts, and the older request is first."""
    says = Says(*[8] * 9)
    manager = CacheManager(64)
    engine = Engine(CountsUp(9), manager, Scheduler(manager, token_budget=5, max_running=2), drafts=says)
    engine.submit([1], 9)
    decoding(engine, [5])
    engine.step()
    assert says.asked == [3]


def test_nobody_is_preempted_for_a_guess():
    engine = Engine(CountsUp(9), CacheManager(8), drafts=Says(8, 8, 8, 8))
    older, younger = engine.submit([1, 2], 4), engine.submit([5, 6], 3)
    assert to_the_end(engine, younger) == [7, 8, 0]
    assert (older.preemptions, younger.preemptions) == (0, 0)


@pytest.mark.parametrize(
    ("prompt", "said"),
    [([6, 7, 8, 0], [2, 3, 4, 5]), ([5, 6, 7, 8, 0], [2, 3, 4]), ([3, 4, 5, 6, 7, 8, 0], [2])],
)
def test_where_no_page_is_left_a_draft_fills_the_last_one(prompt, said):
    """The prompt and a token fill 2 pages of 4, but for 3 slots, 2 or none; others have the rest."""
    manager = CacheManager(4, page_size=4)
    engine = Engine(CountsUp(9), manager, drafts=Says(2, 3, 4, 5, 6))
    manager.start([7] * 8)
    request = decoding(engine, prompt)
    assert [event.token for event in engine.step()] == said
    assert request.drafted_tokens == request.accepted_tokens == len(said) - 1
    assert manager.pool.num_free == 0
    manager.check()


@functools.lru_cache(2**16)
def says_next(tokens):
    return int(CanaryModel(VOCAB)._logits(tokens, 1).argmax())


class Foresight:
    """Knows what a `CanaryModel` will say, and says it: each token with a chance of `right`, and else a wrong one."""

    def __init__(self, right=0.7, most=5):
        self.right, self.most = right, most

    def draft(self, tokens, most):
        said, dice = list(tokens), random.Random(str([*tokens]))
        for _ in range(min(most, dice.randint(0, self.most))):
            true = says_next(tuple(said))
            said.append(true if dice.random() < self.right else (true + 1) % VOCAB)
        return said[len(tokens) :]


def test_what_was_computed_is_counted():
    """Each token that was put through the model counts; but for the wrong ones, as many as without drafts."""
    engine = Engine(CanaryModel(VOCAB), CacheManager(64), drafts=Foresight())
    request = decoding(engine, [1, 2, 3], 20)
    to_the_end(engine, request)
    wrong = request.drafted_tokens - request.accepted_tokens
    assert request.cached_tokens + request.computed_tokens == 3 + 20 - 1 + wrong
    assert 0 < request.accepted_tokens < request.drafted_tokens


def test_a_draft_that_is_left_is_dropped_at_the_next_step():
    engine = Engine(CountsUp(9), CacheManager(64), drafts=Says(8, 8))
    request = decoding(engine, [1, 2])
    with mock.patch.object(engine.model, "forward", side_effect=MemoryError), pytest.raises(MemoryError):
        engine.step()
    assert (request.sequence.tokens.tolist(), drafts.num_drafted(request)) == ([1, 2, 3, 8, 8], 2)
    assert [chunk.num_tokens for chunk in engine.scheduler.schedule()] == [1]
    assert len(request.sequence.tokens) == 3


@pytest.mark.parametrize(
    ("draft", "words"),
    [
        ([1, 2, 99], "ValueError: draft[2] is 99: the model's tokens are 0 to 8"),
        ([1.5], "TypeError: draft"),
        (None, "TypeError: draft"),
        ([1] * 9, "ValueError: draft has 9 tokens: at most 7 were asked for"),
    ],
)
def test_a_bad_draft_is_refused_and_nothing_is_lost(draft, words):
    engine = Engine(CountsUp(9, vocab_size=9), CacheManager(64), drafts=mock.Mock(draft=lambda *asked: draft))
    request = decoding(engine, [1, 2])
    assert said(engine.step).startswith(words)
    engine.drafts = None
    assert to_the_end(engine, request) == [3, 4, 5, 6, 7, 8, 0, 1, 2]


class Bare:
    """The six verbs of a manager, and no seventh."""

    def __init__(self, manager):
        for name in ("page_size", "num_pages", "cache", "store", *VERBS):
            setattr(self, name, getattr(manager, name))


VERBS = "start", "advance", "extend", "checkpoint", "finish", "abort"
NO_DRAFTER = "TypeError: drafts is .*: expected a PromptLookup, or an object with its method draft"


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: PromptLookup(length=0), "ValueError: length is 0: at least 1 token is looked up"),
        (lambda: PromptLookup(most=0), "ValueError: most is 0: at least 1 token is guessed"),
        *[
            (lambda bad=bad: Engine(CountsUp(9), CacheManager(8), drafts=bad), NO_DRAFTER)
            for bad in (5, PromptLookup, len)
        ],
        (
            lambda: Engine(CountsUp(9), Bare(CacheManager(8)), drafts=PromptLookup()),
            "TypeError: manager is .*: drafts need one with the method truncate",
        ),
    ],
)
def test_what_cannot_draft_is_refused(make, words):
    assert re.match(words, said(make))


def test_a_manager_that_cannot_truncate_serves_without_drafts_alone():
    assert Engine(CountsUp(9), Bare(CacheManager(8))).generate([[1]], 2)[0].tokens == [2, 3]


@pytest.mark.parametrize(
    ("num_tokens", "sampled", "message"),
    [
        (1, None, "num_tokens of request 1 is 1: it has 3 left to compute; .* any draft is computed whole"),
        (2, [7, 7], "num_tokens of request 1 is 2: it has 3 left to compute; .* any draft is computed whole"),
        (4, [7, 7, 7], "num_tokens of request 1 is 4: it has 3 left to compute"),
        (3, None, "0 tokens are sampled for request 1: expected 1 to 3, as one token follows a complete prompt"),
        (3, [7] * 4, "4 tokens are sampled for request 1: expected 1 to 3, as .* its 2 drafted tokens$"),
    ],
)
def test_the_scheduler_takes_at_most_a_token_for_each_that_was_drafted(num_tokens, sampled, message):
    manager = CacheManager(64)
    plan = Scheduler(manager)
    request = Request([1, 2], 9)
    plan.submit(request)
    plan.update_from_output(plan.schedule(), [3])
    (chunk,) = drafts.with_drafts(plan.schedule(), Says(7, 7), manager, 99, 10)
    says = said(plan.update_from_output, [chunk._replace(num_tokens=num_tokens)], [sampled])
    assert re.match(f"ValueError: {message}", says)
    assert (plan.step, request.output) == (1, [3])
    plan.update_from_output([chunk], [[7, 8, 5]])  # what follows a wrong guess is dropped
    assert request.output == [3, 7, 8]

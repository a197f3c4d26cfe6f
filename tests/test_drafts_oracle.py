"""What a lookup guesses, token by token; and the same tokens come out of random workloads whatever is guessed."""

import itertools
import random
from dataclasses import replace

from chats import VOCAB, Tally, engine_for, serve, workload
from hypothesis import given
from hypothesis import strategies as st
from nightly import NIGHTLY
from test_drafts import Foresight
from test_windowed_manager import plain_engine, windowed_engine

from minikv import Canary, CanaryModel, PromptLookup, pack
from minikv.prefix import INDEXES


def naive_lookup(tokens, length, most):
    """Token by token, the last place first; a guess that reaches the end goes on in itself."""
    for at in reversed(range(len(tokens) - length)):
        if tokens[at : at + length] == tokens[-length:]:
            text = list(tokens)
            for i in range(most):
                text.append(text[at + length + i])
            return text[len(tokens) :]
    return []


TOKENS = st.lists(st.integers(0, 2), max_size=30) | st.lists(st.sampled_from([0, 1, 256, 2**16, 2**24, 257 * 2**16]))


@given(TOKENS, st.integers(1, 3), st.integers(1, 9), st.integers(0, 12))
def test_the_lookup_is_the_naive_one(tokens, length, most, asked):
    """Bytes in the middle of a token are no place."""
    expected = naive_lookup(tokens, length, min(most, asked))
    assert PromptLookup(length, most).draft(tokens, asked) == expected
    assert PromptLookup(length, most).draft(pack(tokens), asked) == expected


def canary_model(manager):
    return CanaryModel(VOCAB, canary=Canary(manager.cache, writes=False))


def auditor(engine, seen_counts):
    """After each step: the manager's audit, and no sequence has a token or a page that it would not have otherwise."""

    def audit():
        engine.manager.check()
        assert not engine.manager.sequences or engine.scheduler.running
        for request in engine.scheduler.running:
            sequence = request.sequence
            assert sequence.tokens.tolist() == request.tokens.tolist()[: len(sequence.tokens)]
            assert len(sequence.pages) == -(-len(sequence.tokens) // engine.manager.page_size)
            seen_counts.add((request.drafted_tokens, request.accepted_tokens))

    return audit


def engine_over(index, work, kind, draw):
    """An engine for `work`; one of windowed layers has a pool and a model of its own."""
    if index != "windowed":
        return engine_for(replace(work, index=index), kind, canary_model)
    return plain_engine(work) if kind == "off" else windowed_engine(work, kind == "tight", draw)


def test_the_same_tokens_come_out_whatever_is_guessed():
    """Random workloads, cold and warm, in a wide pool and in one so small that pages are evicted and requests wait.

    By day each of them is served over one index only.
    """
    tally, steps, seen_counts = Tally(), {"plain": 0, "drafted": 0}, set()
    indexes = [*INDEXES, "windowed"]
    for seed, index in itertools.product(range(200) if NIGHTLY else range(100, 120), indexes):
        if not NIGHTLY and indexes[seed % len(indexes)] != index:
            continue
        work, draw = workload(seed), random.Random(seed)
        expected = serve(engine_over(index, work, "off", draw), work, Tally())
        for kind in ("wide", "tight"):
            plain, engine = (engine_over(index, work, kind, random.Random(seed)) for _ in range(2))
            engine.drafts = Foresight()
            assert serve(plain, work, Tally()) == expected, (seed, index)
            for shuffle in (None, draw):
                assert serve(engine, work, tally, shuffle, auditor(engine, seen_counts)) == expected, (seed, index)
                steps["drafted"] += engine.scheduler.step if shuffle is None else 0
            engine.manager.check()
            assert not engine.manager.sequences
            steps["plain"] += plain.scheduler.step
    assert min(tally.evictions, tally.preemptions, tally.cached, tally.aborted) > 3
    assert len(seen_counts) > 10
    assert steps["drafted"] < 0.9 * steps["plain"]

"""The oracle can fail: one mistake in each place that it is about, and the same workloads find it."""

import numpy as np
import pytest
from chats import Tally, workload
from test_engine_oracle import WORKLOADS, canary_model, in_every_way

from minikv import CanaryError, InvariantError, OutOfPages, RadixCache, Scheduler
from minikv.serving import engine

pytestmark = pytest.mark.nightly  # it tests the tests


def swaps_two_pages(original):
    def acquire(self, tokens, *, limit=None, namespace=None):
        match = original(self, tokens, limit=limit, namespace=namespace)
        pages = b"".join(match.parts)
        match.parts = [pages[4:8] + pages[:4] + pages[8:]]
        return match

    return RadixCache, "acquire", acquire


def counts_a_duplicate_as_its_own(original):
    def insert(self, tokens, pages, *, namespace=None, start=None):
        done = original(self, tokens, pages, namespace=namespace, start=start)
        if done.prefix_length > (start.length if start else 0):
            done.prefix_length -= self.page_size
        return done

    return RadixCache, "insert", insert


def looks_in_the_wrong_namespace(original):
    return RadixCache, "_root_of", lambda self, namespace: original(self, None)


def evicts_the_beginning_of_a_leaf(original):
    def trim(self, leaf, num_bytes):
        leaf.glue()
        (pages,) = leaf.page_runs
        leaf.page_runs = (pages[num_bytes:] + pages[:num_bytes],)
        return original(self, leaf, num_bytes)

    return RadixCache, "_trim", trim


def loses_a_page_that_was_evicted(original):
    return RadixCache, "evict", lambda self, count: original(self, count)[:-1]


def evicts_what_is_locked(original):
    def acquire(self, tokens, *, limit=None, namespace=None):
        match = original(self, tokens, limit=limit, namespace=namespace)
        if match.length:  # as if it had never been
            self.unlock(match)
            self._held[match] = 1
        return match

    return RadixCache, "acquire", acquire


def keeps_the_slots_of_the_preempted(original):
    def preempt(self):
        self.running[-1].preemptions += 1
        self._wait_again(self.running[-1])

    return Scheduler, "preempt", preempt


def publishes_all_of_the_preempted(original):
    def preempt(self):
        sequence = self.running[-1].sequence
        sequence.computed = len(sequence.tokens)
        original(self)

    return Scheduler, "preempt", preempt


def goes_on_without_the_last_token(original):
    """The output is right up to there; what comes behind it is computed behind something else."""

    def start(self, request):
        if not request.preemptions:
            return original(self, request)
        output, request.output = request.output, request.output[:-1]
        try:
            return original(self, request)
        finally:
            request.output = output

    return Scheduler, "_start", start


def gives_tokens_by_arrival(original):
    """As long as chunks are in order of arrival, which a cold first-come run keeps, this is right."""

    def update_from_output(self, chunks, tokens):
        sampling = [place for place, token in enumerate(tokens) if token]
        tokens, by_arrival = list(tokens), sorted(sampling, key=lambda place: chunks[place].request.number)
        sampled = [tokens[place] for place in sampling]
        for place, token in zip(by_arrival, sampled):
            tokens[place] = token
        return original(self, chunks, tokens)

    return Scheduler, "update_from_output", update_from_output


def mixes_up_a_larger_batch(original):
    def sample(work, logits):
        return original(work, np.ascontiguousarray(logits[::-1]) if len(work) > 3 else logits)

    return engine, "_sample", sample


PLANTED = {
    swaps_two_pages: (CanaryError, "is read for token"),
    counts_a_duplicate_as_its_own: (InvariantError, "has no owner"),
    looks_in_the_wrong_namespace: (CanaryError, "after another prefix"),
    evicts_the_beginning_of_a_leaf: (CanaryError, "is read for token"),
    loses_a_page_that_was_evicted: (InvariantError, "has no owner"),
    evicts_what_is_locked: (InvariantError, r"ref_count is \d, but the locks on its path make"),
    keeps_the_slots_of_the_preempted: (OutOfPages, "needed, but only"),
    publishes_all_of_the_preempted: (CanaryError, "is read for token"),
    goes_on_without_the_last_token: (AssertionError, "workload .* tight"),
    gives_tokens_by_arrival: (AssertionError, "workload"),
    mixes_up_a_larger_batch: (AssertionError, "workload"),
}


@pytest.mark.parametrize("plant", PLANTED, ids=lambda plant: plant.__name__)
def test_the_workloads_find_one_that(plant, monkeypatch):
    place, name, _ = plant(None)
    monkeypatch.setattr(place, name, plant(getattr(place, name))[2])
    error, words = PLANTED[plant]

    def every_workload():
        for seed in WORKLOADS:
            in_every_way(workload(seed), canary_model, Tally())

    with pytest.raises(error, match=f"(?s){words}"):
        every_workload()

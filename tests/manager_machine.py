"""A state machine that drives a cache manager through the lives of many requests, with everybody looking on.

It states the twelve rules of a manager, each for every state that it comes to:

     1  a page has one owner: the pool, the cache or one request
     2  nothing is read that was not computed for these tokens
     3  a request finds whole cached pages, and computes its last token itself
     4  a request locks what it reads before it looks for room, until it ends
     5  a request is admitted if its pages fit, and refused without any change
     6  finish publishes whole pages, and only computed ones
     7  finish and abort release everything, exactly once
     8  abort publishes nothing
     9  a checkpoint publishes, and the request reads the cache's pages from then on
    10  a page is taken when the last one is full, and not before; it goes back with a draft
    11  namespaces never share
    12  bad input is refused, and changes nothing
"""

import sys

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import invariant, precondition, rule
from manager_model import PAGES, ManagerBesideModel, Twin

from minikv.pools import page_slots

PROMPTS = st.tuples(st.integers(0, 8), st.lists(st.integers(0, 1), max_size=4))
NAMESPACES = st.sampled_from([None, None, None, "lora"])
LIMITS = st.none() | st.integers(0, 40)  # in tokens; `None` is the manager's default, all but the last one
SPARE = st.sampled_from([0, 0, 0, 2])  # pages that are to remain
NO_PROMPT = st.sampled_from([[], [-1], "text", 5, [1, None], [1, 2.5]])
MORE = {"extend": [[4]], "truncate": [1]}  # what these verbs need beside a sequence
PICK = st.integers(0, 11)
while_some_run = precondition(lambda self: self.twins)


class ManagerAgainstModel(ManagerBesideModel):
    """Every rule does the same to both."""

    # -- the rules ----------------------------------------------------------------------------------------------------

    @rule(prompt=PROMPTS, namespace=NAMESPACES, limit=LIMITS, spare=SPARE)
    def start(self, prompt, namespace, limit, spare):
        self.begin_request([*self.tokens_of(prompt), 7], namespace, limit, spare)

    @precondition(lambda self: self.pages_kept)
    @rule(pick=PICK, more=st.integers(-1, 1), limit=LIMITS)
    def start_where_room_is_scarce(self, pick, more, limit):
        """Behind something cached, for as many pages as could be had if it were not read; one less, or one more."""
        namespace, prefix = list(self.pages_kept)[pick % len(self.pages_kept)]
        pages = self.free + len(self.pages_kept) - len(self.protected()) + more
        self.begin_request([*prefix, *[7] * (max(1, pages) * self.size)], namespace, limit)

    @precondition(lambda self: self.pages_kept)
    @rule(pick=PICK, short=st.integers(0, 20))
    def start_what_is_cached(self, pick, short):
        """A prompt that is cached to its end: of that, all but the last `short` tokens may be used."""
        namespace, prefix = list(self.pages_kept)[pick % len(self.pages_kept)]
        self.begin_request(list(prefix), namespace, max(0, len(prefix) - short))

    def begin_request(self, tokens, namespace, limit, spare=0):
        length = self.cached(tokens[: len(tokens) - 1 if limit is None else limit], namespace)
        twin = Twin(tokens, namespace, length, length, -(-len(tokens) // self.size))
        pages = twin.row - length // self.size + spare
        options = {"namespace": namespace, "limit": limit, "spare": spare}
        sequence = self.room(lambda: self.manager.start(tokens, **options), pages, twin)
        if sequence is not None:
            self.twins[sequence.number] = twin
            self.compare(sequence.cached_length, length)

    @rule(prompt=PROMPTS)
    def start_two_alike(self, prompt):
        """Two identical prompts in one batch: neither knows of the other."""
        self.start(prompt, None, None, 0)
        self.start(prompt, None, None, 0)

    @rule(tokens=NO_PROMPT)
    def start_what_is_no_prompt(self, tokens):
        with pytest.raises((TypeError, ValueError), match="tokens"):
            self.manager.start(tokens)

    @while_some_run
    @rule(pick=PICK, count=st.integers(0, 40))
    def compute(self, pick, count):
        """A forward step: attention reads all that was computed before, and writes what it computes."""
        sequence, twin = self.running(pick)
        if twin.computed + count > len(twin.tokens) + 20:
            with pytest.raises(ValueError, match="can compute 0 to"):
                self.manager.advance(sequence, count)
            return
        end = min(len(twin.tokens), twin.computed + count)
        self.read(sequence, twin)
        tokens, slots = sequence.next_chunk(end - twin.computed)
        self.compare(tokens.tolist(), twin.tokens[twin.computed : end])
        self.compare(slots.tolist(), page_slots(sequence.pages, self.size)[:end].tolist())
        self.canary.write(twin.tokens[:end], slots, twin.computed, twin.namespace)
        self.manager.advance(sequence, end - twin.computed)
        twin.computed = end

    @rule()
    def forward(self):
        """A whole step of an engine: all that runs is computed in one batch, and published one by one."""
        for pick in range(len(self.twins)):
            self.compute(pick, max(0, len(self.running(pick)[1].tokens) - self.running(pick)[1].computed))
        for pick in range(len(self.twins)):
            self.checkpoint(pick)

    @while_some_run
    @rule(pick=PICK, more=st.lists(st.integers(0, 1), max_size=5))
    def extend(self, pick, more):
        sequence, twin = self.running(pick)
        pages = -(-(len(twin.tokens) + len(more)) // self.size) - twin.row
        if self.room(lambda: self.manager.extend(sequence, more) or True, pages):
            twin.tokens, twin.row = [*twin.tokens, *more], twin.row + pages

    @while_some_run
    @rule(pick=PICK, less=st.integers(-1, 6))
    def truncate(self, pick, less):
        """A draft was wrong: its tokens go, computed or not, but nothing that the cache has."""
        sequence, twin = self.running(pick)
        length = len(twin.tokens) - less
        if less < 0 or length < max(1, twin.shared):
            with pytest.raises(ValueError, match=f"length is {length}: sequence {sequence.number} "):
                self.manager.truncate(sequence, length)
            return
        self.manager.truncate(sequence, length)
        twin.tokens, twin.computed = twin.tokens[:length], min(twin.computed, length)
        twin.row = -(-length // self.size)

    @while_some_run
    @rule(pick=PICK, guess=st.lists(st.integers(0, 1), min_size=1, max_size=5), less=st.integers(1, 5))
    def draft(self, pick, guess, less):
        """As an engine guesses: what comes in the place of wrong tokens is still to be computed."""
        self.extend(pick, guess)
        self.compute(pick, len(guess))
        self.truncate(pick, less)
        self.extend(pick, [7])

    @while_some_run
    @rule(pick=PICK)
    def checkpoint(self, pick):
        sequence, _ = self.running(pick)
        self.publish(sequence, lambda: self.manager.checkpoint(sequence))

    @while_some_run
    @rule(pick=PICK)
    def finish(self, pick):
        sequence, _ = self.running(pick)
        self.publish(sequence, lambda: self.manager.finish(sequence))
        self.end(sequence)

    @while_some_run
    @rule(pick=PICK)
    def abort(self, pick):
        sequence, _ = self.running(pick)
        self.manager.abort(sequence)
        self.end(sequence)

    def end(self, sequence):
        self.over.append(sequence)
        del self.twins[sequence.number]

    @precondition(lambda self: self.over)
    @rule(pick=PICK, verb=st.sampled_from(["advance", "checkpoint", "finish", "abort", *MORE]))
    def touch_what_is_over(self, pick, verb):
        """Its slots may be another's by now: an engine would overwrite its keys and values."""
        sequence = self.over[pick % len(self.over)]
        ended = {"finished": "has already finished", "aborted": "was already aborted"}[sequence.state]
        with pytest.raises(ValueError, match=f"^cannot {verb} sequence {sequence.number}: it {ended}"):
            getattr(self.manager, verb)(sequence, *MORE.get(verb, []))
        assert len(sequence.slots) == len(sequence.next_chunk(1)[1]) == 0

    # -- what must always be true -------------------------------------------------------------------------------------

    @invariant()
    def all_agree(self):
        if not hasattr(self, "manager"):
            return
        manager = self.manager
        manager.check()
        self.ledger.check()
        self.canary.sweep()
        for sequence in manager.sequences:
            self.read(sequence, self.twins[sequence.number])
        kept, protected = len(self.pages_kept), len(self.protected())
        self.compare(manager.pool.num_free, self.free)
        sizes = manager.available_size, manager.cache.total_size, manager.cache.protected_size
        self.compare(sizes, tuple(pages * self.size for pages in (self.free + kept - protected, kept, protected)))
        found = [(s.tokens.tolist(), s.namespace, s.shared, s.computed) for s in manager.sequences]
        self.compare(found, [(t.tokens, t.namespace, t.shared, t.computed) for t in self.twins.values()])

    def teardown(self):
        """In the end everybody goes, and nothing is left behind."""
        if not hasattr(self, "manager") or sys.exc_info()[0] is not None:  # what failed first is what is told
            return
        for sequence in self.manager.sequences:
            self.manager.abort(sequence)
        self.twins.clear()
        self.all_agree()
        assert not self.ledger.callers
        assert self.manager.available_size == PAGES * self.size

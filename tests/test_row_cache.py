"""Rows with versions: what is found is in the row that is named, whoever wrote it, and nothing that is named is missed.

Every position of the array holds a fingerprint of the tokens up to it, so a wrong key or value is a wrong number. A
ledger watches the state of each row.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from minikv import OutOfPages, RowCache, RowLedger
from minikv.pools import BitmaskPool

TOKENS = st.lists(st.integers(0, 1), min_size=1, max_size=6)
LENGTH = 12


def fingerprint(tokens):
    return hash(tuple(tokens))  # of integers: the same on every machine


def written(cache, sequence, tokens):
    """Compute what was not found, as a model would: the array at each position says which tokens lead to it."""
    for at in range(sequence.found, len(tokens)):
        cache.arrays[0][sequence.row, at] = fingerprint(tokens[: at + 1])


def served(cache, tokens, generated=()):
    sequence = cache.start(tokens)
    written(cache, sequence, [*tokens, *generated])
    cache.finish(sequence, generated)
    return sequence


def cache_of(num_rows, **options):
    return RowCache(num_rows, arrays=(np.zeros((num_rows, LENGTH, 1), np.int64),), **options)


def is_true(cache, row, tokens):
    held = cache.arrays[0][row, : len(tokens), 0].tolist()
    return held == [fingerprint(tokens[: end + 1]) for end in range(len(tokens))]


class RowsAgainstModel(RuleBasedStateMachine):
    """The model lists what each row is named for; a prefix is found if any of them begins with it."""

    max_nodes = 10_000

    @initialize(num_rows=st.integers(1, 4))
    def begin(self, num_rows):
        self.cache = cache_of(num_rows, max_nodes=self.max_nodes)
        self.ledger = RowLedger(self.cache)
        self.held = [[] for _ in range(num_rows)]
        self.running = []

    def longest(self, tokens):
        def common(held):
            pairs = zip(held, tokens)
            return next((at for at, (a, b) in enumerate(pairs) if a != b), min(len(held), len(tokens)))

        return max(map(common, self.held))

    @rule(tokens=TOKENS, leave=st.integers(0, 2))
    def start(self, tokens, leave):
        limit = max(0, len(tokens) - leave)
        expected = self.longest(tokens[:limit])
        try:
            sequence = self.cache.start(tokens, limit)
        except OutOfPages:
            assert len(self.running) == len(self.held)
            return
        assert self.agrees(sequence.found, expected)
        assert is_true(self.cache, sequence.row, tokens[: sequence.found])
        self.held[sequence.row] = [] if sequence.copied else tokens[: sequence.found]
        self.running.append(sequence)

    def agrees(self, found, expected):
        return found == expected

    @precondition(lambda self: self.running)
    @rule(which=st.integers(0, 9), generated=st.lists(st.integers(0, 1), max_size=3))
    def finish(self, which, generated):
        sequence = self.running.pop(which % len(self.running))
        tokens = [*sequence.tokens, *generated]
        known = self.longest(tokens)
        written(self.cache, sequence, tokens)
        self.cache.finish(sequence, generated)
        self.held[sequence.row] = self.named(sequence.row, tokens, known)

    def named(self, row, tokens, known):
        """All of `tokens`, unless other rows hold them already: then at most the beginning that had become stale."""
        found = self.cache.rows[row]
        assert found == tokens[: len(found)]
        assert self.agrees(len(found), len(tokens)) or known == len(tokens)
        return found

    @precondition(lambda self: self.running)
    @rule(which=st.integers(0, 9))
    def abort(self, which):
        sequence = self.running.pop(which % len(self.running))
        self.cache.arrays[0][sequence.row, sequence.found :] = -1
        self.cache.abort(sequence)

    @rule(tokens=TOKENS)
    def find(self, tokens):
        path = self.cache.find(tokens)
        assert [node.token for node in path] == tokens[: len(path)]
        assert self.agrees(len(path), self.longest(tokens))
        assert not path or is_true(self.cache, path[-1].row, tokens[: len(path)])

    @invariant()
    def it_is_sound(self):
        if hasattr(self, "cache"):
            self.cache.check()
            assert self.ledger.running == sorted(sequence.row for sequence in self.running)
            assert self.ledger.states() == self.cache.states()


class FewNodes(RowsAgainstModel):
    """With room for a few nodes less is found, and still nothing wrong."""

    max_nodes = 7

    def agrees(self, found, expected):
        return found <= expected


TestRowsAgainstModel = RowsAgainstModel.TestCase
TestFewNodes = FewNodes.TestCase


def test_a_row_in_which_nobody_runs_is_taken_over_without_a_copy():
    cache = cache_of(2)
    served(cache, [1, 2, 3])
    sequence = cache.start([1, 2, 9])
    assert (sequence.row, sequence.found, sequence.copied) == (0, 2, False)


def test_a_prefix_in_a_row_in_use_is_copied_into_a_fresh_one():
    cache = cache_of(2)
    served(cache, [1, 2, 3])
    cache.start([1, 2, 3, 4])
    sequence = cache.start([1, 2, 9])
    assert (sequence.row, sequence.found, sequence.copied) == (1, 2, True)
    assert is_true(cache, 1, [1, 2])


def test_fewer_layers_than_the_arrays_have_can_be_copied():
    arrays = tuple(np.arange(2 * 4 * 3, dtype=float).reshape(2, 4, 3) for _ in "kv")
    cache, before = RowCache(2, arrays=arrays, num_layers=2), arrays[0].copy()
    cache.finish(cache.start([1, 2, 3]))
    cache.start([1, 2, 8])
    cache.start([1, 2, 9])
    for array in arrays:
        assert array[1, :2, :2].tolist() == before[0, :2, :2].tolist()
        assert array[1, :, 2].tolist() == before[1, :, 2].tolist()


def test_taking_a_row_over_makes_what_it_will_overwrite_stale():
    """The original takes it without a new version, and goes on serving [1, 2, 3] from what [1, 2, 9] wrote over it."""
    cache = cache_of(1)
    served(cache, [1, 2, 3])
    served(cache, [1, 2, 9, 8])
    assert len(cache.find([1, 2, 3])) == 2
    assert is_true(cache, 0, [1, 2, 9, 8])


def test_a_stale_node_takes_the_row_of_one_below_it():
    cache = cache_of(2)
    served(cache, [1, 2, 3])
    first = cache.start([1, 2, 3, 4])
    second = served(cache, [1, 2, 9])  # a copy in row 1: nodes 1 and 2 go on naming row 0
    assert (second.copied, cache.find([1, 2])[-1].row) == (True, 0)
    cache.abort(first)
    cache._used[0] = 0  # row 0 is the next to go
    cache.start([5])
    assert [node.row for node in cache.find([1, 2])][-1] == 1
    assert is_true(cache, 1, [1, 2])


def test_the_third_state_is_free_and_cached():
    cache = cache_of(3)
    assert cache.states() == ["free", "free", "free"]
    served(cache, [1, 2])
    cache.start([5, 6])
    assert cache.states() == ["free, cached", "running", "free"]


def test_a_full_cache_gives_up_the_row_that_was_used_longest_ago():
    cache = cache_of(3)
    for prompt in ([1, 1], [2, 2], [3, 3]):
        served(cache, prompt)
    served(cache, [1, 1])
    served(cache, [4, 4])
    assert [len(cache.find(prompt)) for prompt in ([1, 1], [2, 2], [3, 3], [4, 4])] == [2, 0, 2, 2]


def test_a_duplicate_is_not_cached_and_is_lost_with_the_row_that_is():
    """Both rows hold [1, 2], and the nodes name row 0; when that one is taken over for less, nobody knows of row 1."""
    cache = cache_of(2)
    first, second = cache.start([1, 2]), cache.start([1, 2])
    for sequence in (first, second):
        written(cache, sequence, [1, 2])
        cache.finish(sequence)
    assert (cache.states(), is_true(cache, 1, [1, 2])) == (["free, cached", "free"], True)
    cache.start([1, 9])
    assert len(cache.find([1, 2])) == 1


def test_when_somebody_runs_in_every_row_nothing_changes():
    cache = cache_of(1)
    cache.start([1, 2])
    with pytest.raises(OutOfPages, match=r"1 pages? needed, but only 0 free"):
        cache.start([3])
    cache.check()


def test_a_prompt_with_more_tokens_than_the_trie_has_nodes_is_cached_as_far_as_it_fits():
    cache = cache_of(2, max_nodes=4)
    served(cache, [1, 2, 3, 4, 5, 6])
    assert (cache.num_nodes, len(cache.find([1, 2, 3, 4, 5, 6]))) == (4, 4)


def test_nodes_that_somebody_holds_are_not_evicted_and_the_search_for_others_ends():
    cache = cache_of(3, max_nodes=2)
    served(cache, [1, 2])
    held = cache.start([1, 2, 3])
    served(cache, [7, 8])
    assert (len(cache.find([1, 2])), len(cache.find([7, 8]))) == (2, 0)
    cache.finish(held)
    cache.check()


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: RowCache(0), "num_rows is 0"),
        (lambda: RowCache(1, max_nodes=0), "max_nodes is 0"),
        (lambda: RowCache(2, arrays=[np.zeros((3, 4, 1))]), r"arrays\[0\] has the shape \(3, 4, 1\)"),
        (lambda: RowCache(2, arrays=[np.zeros((2, 4, 1)), np.zeros((2, 5, 1))]), r"arrays\[1\] has the shape"),
        (lambda: RowCache(2, arrays=[np.zeros((2, 4, 1))], num_layers=2), r"num_layers is 2: arrays\[0\] has 1"),
    ],
)
def test_what_cannot_be_is_refused(make, words):
    with pytest.raises(ValueError, match=words):
        make()


def test_a_sequence_ends_once_and_where_it_began():
    cache, other = cache_of(1), cache_of(1)
    sequence = cache.start([1])
    with pytest.raises(ValueError, match="was started by another cache"):
        other.finish(sequence)
    cache.finish(sequence)
    with pytest.raises(ValueError, match="cannot abort the sequence in row 0: it is over"):
        cache.abort(sequence)
    with pytest.raises(TypeError, match="cannot finish 3: expected a sequence"):
        cache.finish(3)


@pytest.mark.parametrize(("tokens", "words"), [([], "tokens are empty"), (range(13), "13 tokens do not fit in a row")])
def test_a_prompt_that_no_row_holds_is_refused(tokens, words):
    with pytest.raises(ValueError, match=words):
        cache_of(1).start(tokens)


def test_a_page_is_taken_with_a_new_version_where_its_content_will_change():
    pool = BitmaskPool(2)
    pool.occupy(1)
    pool.free([1])
    pool.occupy(1, renew=True)
    assert (pool.version(0), pool.version(1)) == (0, 1)

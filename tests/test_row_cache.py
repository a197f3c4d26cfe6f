"""Rows with versions: what is found is in the row that is named, whoever wrote it, and nothing that is named is missed.

Every position of the array holds a fingerprint of the tokens up to it, so a wrong key or value is a wrong number.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from minikv import InvariantError, OutOfPages, RowCache
from minikv.pools import BitmaskPool

pytestmark = pytest.mark.core

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

    agrees_on = agrees

    @precondition(lambda self: self.running)
    @rule(which=st.integers(0, 9), generated=st.lists(st.integers(0, 1), max_size=3), ends=st.booleans())
    def publish(self, which, generated, ends):
        sequence = self.running[which % len(self.running)]
        tokens = [*sequence.tokens, *generated]
        if len(tokens) > LENGTH:
            return
        known = self.longest(tokens)
        written(self.cache, sequence, tokens)
        (self.cache.finish if ends else self.cache.publish)(sequence, generated)
        sequence.found = len(tokens)
        self.running = [other for other in self.running if other is not sequence or not ends]
        self.held[sequence.row] = self.named(sequence.row, tokens, known)

    def named(self, row, tokens, known):
        """All of `tokens`, unless other rows hold them already: then at most the beginning that had become stale."""
        path = self.cache.trie.match_prefix(tokens).node.path[::-1]
        depths = [at + 1 for at, node in enumerate(path) if node.row == row and self.cache.is_current(node)]
        assert self.agrees(max(depths, default=0), len(tokens)) or known == len(tokens)
        return tokens[: max(depths, default=0)]

    @precondition(lambda self: self.running)
    @rule(which=st.integers(0, 9))
    def abort(self, which):
        sequence = self.running.pop(which % len(self.running))
        self.cache.arrays[0][sequence.row, sequence.found :] = -1
        self.cache.abort(sequence)

    @rule(tokens=TOKENS)
    def find(self, tokens):
        path = self.cache.find(tokens)
        assert [node.tokens[0] for node in path] == tokens[: len(path)]
        assert self.agrees(len(path), self.longest(tokens))
        assert not path or is_true(self.cache, path[-1].row, tokens[: len(path)])

    @invariant()
    def it_is_sound(self):
        if hasattr(self, "cache"):
            self.cache.check()
            running = {sequence.row for sequence in self.running}
            cached = ["free, cached" if held else "free" for held in self.held]
            expected = ["running" if row in running else state for row, state in enumerate(cached)]
            assert all(map(self.agrees_on, self.cache.states(), expected))


class FewNodes(RowsAgainstModel):
    """With room for a few nodes less is found, and still nothing wrong."""

    max_nodes = 7

    def agrees(self, found, expected):
        return found <= expected

    def agrees_on(self, state, expected):
        return state == expected or (state, expected) == ("free", "free, cached")


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


def test_what_is_published_after_the_prefill_is_copied_while_its_sequence_still_runs():
    """As in AstrAI: of readers who send one question in a burst, only the first computes it."""
    cache = cache_of(4)
    first = cache.start([1, 2, 3, 4])
    written(cache, first, first.tokens)
    cache.publish(first)
    others = [cache.start([1, 2, 3, 4]) for _ in range(3)]
    assert [(other.found, other.copied) for other in others] == [(3, True)] * 3
    assert all(is_true(cache, other.row, [1, 2, 3]) for other in others)


def test_a_copy_that_fails_keeps_no_row():
    class Full(np.ndarray):
        def __setitem__(self, where, values):
            raise MemoryError("no room")

    cache = RowCache(2, arrays=[np.zeros((2, 4, 1)).view(Full)])
    cache.publish(cache.start([1, 2]))
    with pytest.raises(MemoryError, match="no room"):
        cache.start([1, 3])
    assert (cache.pool.num_free, cache.states()) == (1, ["running", "free"])
    cache.check()


def test_a_row_whose_nodes_are_evicted_is_taken_before_one_that_is_cached():
    cache = cache_of(2, max_nodes=2)
    served(cache, [1, 2])
    served(cache, [8, 9])  # in row 1, and the nodes of row 0 have to go
    cache._used[0] = 9  # later than row 1
    assert (cache.states(), cache.start([5]).row) == (["free", "free, cached"], 0)


def test_when_somebody_runs_in_every_row_nothing_changes():
    cache = cache_of(1)
    cache.start([1, 2])
    with pytest.raises(OutOfPages, match=r"1 pages? needed, but only 0 free"):
        cache.start([3])
    cache.check()


def test_a_prompt_with_more_tokens_than_the_trie_has_nodes_is_cached_as_far_as_it_fits():
    cache = cache_of(2, max_nodes=4)
    served(cache, [1, 2, 3, 4, 5, 6])
    assert (cache.trie.total_size, len(cache.find([1, 2, 3, 4, 5, 6]))) == (4, 4)


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
    ],
)
def test_what_cannot_be_is_refused(make, words):
    with pytest.raises(ValueError, match=words):
        make()


def test_a_sequence_ends_once_and_where_it_began():
    cache, other = cache_of(1), cache_of(1)
    sequence = cache.start([1])
    with pytest.raises(ValueError, match="the sequence in row 0 is over, or another cache started it"):
        other.finish(sequence)
    cache.finish(sequence)
    with pytest.raises(ValueError, match="the sequence in row 0 is over, or another cache started it"):
        cache.abort(sequence)
    with pytest.raises(TypeError, match=r"the sequence is 3: expected what start\(\) returned"):
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


def point_elsewhere(cache, node):
    node.row, node.version = 1, cache.pool.version(1)


def lock_for_nobody(cache, node):
    cache.trie.acquire([1])


def hold_too_much(cache, node):
    cache.max_nodes = 1


def run_without_the_pool(cache, node):
    cache.pool.occupy(0)


def break_the_trie(cache, node):
    node.end = 7


SPOILT = [point_elsewhere, lock_for_nobody, hold_too_much, run_without_the_pool, break_the_trie]


@pytest.mark.parametrize("spoil", SPOILT, ids=lambda spoil: spoil.__name__)
def test_check_finds_what_is_spoilt(spoil):
    cache = cache_of(2)
    served(cache, [1, 2])
    cache.check()
    spoil(cache, cache.find([1, 2])[-1])
    with pytest.raises(InvariantError):
        cache.check()


def test_the_numbers_of_nodes_are_used_again_and_never_run_out():
    cache = RowCache(2, max_nodes=8)
    for begin in range(300):
        cache.finish(cache.start(range(begin % 7, begin % 7 + 6)))
        cache.check()
        assert max(page for node in cache.trie.nodes() for page in node.pages) < 8 + 6

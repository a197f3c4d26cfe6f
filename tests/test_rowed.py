"""A cache of rows is drawn as a trie whose nodes name a row or are stale, with the state of each row beside it."""

from __future__ import annotations

import pytest

from minikv import RowCache, draw
from minikv.course.pictures.draw import MOST_ROWS, MOST_TOKENS
from minikv.engine import engine_world

pytestmark = pytest.mark.core


def with_all_states(make, num_rows=3):
    """Row 0 runs, and its old end is stale; row 1 is free and cached; the others are free."""
    cache = make(num_rows)
    cache.finish(cache.start([1, 2, 3]))
    cache.start([1, 2, 7])
    cache.finish(cache.start([1, 2, 8]))
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
    assert draw(with_all_states(RowCache)).text == EXPECTED


def test_the_one_that_a_learner_builds_is_drawn_alike():
    assert draw(with_all_states(engine_world(2, 3, 4, 5, 7, 9)["RowTrie"])).text == EXPECTED


def test_a_row_that_runs_is_another_color_than_one_that_is_cached():
    svg = draw(with_all_states(RowCache)).svg
    assert svg.count('fill="#ffe8cc"') == 3
    assert svg.count('fill="#e9ecef"') >= 3


def test_many_rows_and_long_ones_are_shown_in_part():
    cache = RowCache(2 * MOST_ROWS)
    cache.start(range(2 * MOST_TOKENS))
    lines = draw(cache).text.splitlines()
    assert len(lines) == 1 + MOST_ROWS
    assert lines[1].split()[-2:] == [str(MOST_TOKENS - 1), "…"]


def test_a_row_has_the_tokens_of_what_was_last_in_it():
    assert with_all_states(RowCache).rows == [[1, 2, 7], [1, 2, 8], []]

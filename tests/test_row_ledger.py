"""The ledger of rows: each row has one of three states, and each planted mistake is found where it is made."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from minikv import FreeListPool, LedgerError, OutOfPages, RadixCache, RowCache, RowLedger
from minikv.engine.sections import engine_world


def world(kind=RowCache, num_rows=2, **options):
    cache = kind(num_rows, **options)
    return cache, RowLedger(cache)


def serve(cache, tokens):
    sequence = cache.start(tokens)
    cache.finish(sequence)
    return sequence


def test_a_row_runs_then_it_is_free_and_cached_then_a_stranger_runs_in_it():
    cache, ledger = world()
    assert ledger.states() == ["free", "free"]
    first = cache.start([1, 2, 3])
    assert (ledger.states(), ledger.running) == (["running", "free"], [0])
    cache.finish(first, generated=[4])
    assert ledger.states() == ["free, cached", "free"]
    assert str(ledger.entry(0)) == "free, cached since operation 2 (finish row 0), holding [1, 2, 3, 4]"
    cache.start([9])
    cache.start([8])
    assert str(ledger.entry(0)) == "running since operation 4 (start [8])"
    assert str(ledger.entry(1)) == "running since operation 3 (start [9])"


def test_a_row_that_is_taken_over_holds_what_was_found():
    cache, ledger = world()
    serve(cache, [1, 2, 3])
    sequence = cache.start([1, 2, 8, 9])
    assert str(ledger.entry(0)) == "running since operation 3 (start [1, 2, 8, 9]), holding [1, 2]"
    cache.abort(sequence)
    assert str(ledger.entry(0)) == "free, cached since operation 4 (abort row 0), holding [1, 2]"


def test_a_row_whose_nodes_are_evicted_is_free_and_no_longer_cached():
    cache, ledger = world(max_nodes=2)
    serve(cache, [1, 2])
    serve(cache, [8, 9])
    assert ledger.states() == ["free", "free, cached"]


def test_a_look_up_may_let_a_node_name_another_row_that_holds_its_prefix():
    cache, ledger = world()
    serve(cache, [1, 2, 3])
    first = cache.start([1, 2, 3, 4])
    serve(cache, [1, 2, 9])
    cache.abort(first)
    cache._used[0] = 0  # row 0 is the next to go
    cache.start([5])
    assert [node.row for node in cache.find([1, 2])][-1] == 1
    assert ledger.states() == ["running", "free, cached"]


def test_a_sequence_that_never_ends_has_a_row():
    cache, ledger = world()
    serve(cache, [1])
    cache.start([1, 2])
    assert ledger.running == [0]


# -- planted mistakes -------------------------------------------------------------------------------------------------


class KeepsTheVersion(RowCache):
    """AstrAI: a row that is taken over for its prefix keeps its version."""

    def _take(self, row, path):
        if path:
            self.pool.occupy(row)
        else:
            super()._take(row, path)


def test_two_owners_of_one_version_are_found_when_the_second_begins():
    cache, _ = world(KeepsTheVersion)
    serve(cache, [1, 2, 3])
    with pytest.raises(LedgerError) as error:
        cache.start([1, 2, 8, 9])
    assert str(error.value) == (
        "operation 3, start [1, 2, 8, 9]: row 0 has two owners:\ncached for [1, 2, 3] under version 1, "
        "and running since operation 3 (start [1, 2, 8, 9]), holding [1, 2]"
    )


class NeverAsksTheVersion(RowCache):
    """AstrAI: a node is believed, whatever has happened to its row."""

    def is_current(self, node):
        return node.row >= 0


def test_a_prefix_that_no_row_holds_any_more_is_not_found():
    cache, _ = world(NeverAsksTheVersion, num_rows=1)
    serve(cache, [1, 2, 3])
    serve(cache, [5, 5, 5])
    with pytest.raises(LedgerError, match=r"row 0 is to begin with \[1, 2\], but no row held that"):
        cache.start([1, 2, 4])


class ReleasesInSilence(RowCache):
    """AstrAI: what is over is released once more."""

    def abort(self, sequence):
        self._running.pop(sequence.row, None)


def test_a_sequence_that_ends_twice_is_named_with_its_row():
    cache, _ = world()
    sequence = cache.start([1, 2])
    cache.abort(sequence)
    with pytest.raises(ValueError, match="it is over"):
        cache.abort(sequence)
    cache, _ = world(ReleasesInSilence)
    sequence = cache.start([1, 2])
    with pytest.raises(LedgerError, match="row 0: the pool has it as in use, but it is\nfree since operation 2"):
        cache.abort(sequence)
    with pytest.raises(LedgerError, match=r"row 0 has two owners:\ngiven back, and free since operation 2"):
        cache.abort(sequence)


def test_a_sequence_does_not_end_in_the_row_of_another():
    cache, ledger = world()
    first, second = cache.start([1]), cache.start([2])
    second.row = first.row
    cache._running[0] = second
    with pytest.raises(LedgerError, match=r"row 0 has two owners:\nthe sequence that ended, and running since oper"):
        cache.abort(second)
    assert ledger.entry(0).words == "start [1]"


class HandsOutARowTwice(RowCache):
    """The row of a running sequence goes to the next one, too."""

    def start(self, tokens, limit=None):
        return next(iter(self._running.values()), None) or super().start(tokens, limit)


def test_a_row_in_use_is_not_handed_out_again():
    cache, _ = world(HandsOutARowTwice)
    cache.start([1, 2])
    with pytest.raises(LedgerError, match=r"row 0 has two owners:\ntaken for \[1, 2\] now, and running since oper"):
        cache.start([3])


def test_a_node_that_names_a_row_for_what_is_not_in_it():
    cache, ledger = world()
    serve(cache, [1, 2])
    cache.start([1, 2])
    serve(cache, [7, 7])
    node = cache.root.children[1]
    node.row, node.version = 1, cache.pool.version(1)
    with pytest.raises(
        LedgerError, match=r"row 1 has two owners:\ncached for \[1\] .*\(finish row 1\), holding \[7, 7"
    ):
        cache.find([8])
    with pytest.raises(LedgerError, match=r"operation 6, check\(\): row 1 has two owners"):
        ledger.check()


def test_a_cache_that_counts_its_nodes_wrong_is_told_the_state_of_the_row():
    cache, ledger = world()
    serve(cache, [1, 2])
    cache._named[0] = 0
    with pytest.raises(
        LedgerError, match=r"row 0: states\(\) has it as free, but it is\nfree, cached since operation 2"
    ):
        ledger.check()


# -- strangers, and what fails ----------------------------------------------------------------------------------------


def test_a_stranger_takes_a_row_with_a_new_version_and_gives_it_back():
    cache, ledger = world(engine_world(2, 3, 4, 5, 7, 9)["RowTrie"])
    serve(cache, [1, 2])
    cache.pool.occupy(0, renew=True)
    assert ledger.states() == ["the caller's", "free"]
    assert cache.pool.alloc(1).tolist() == [1]
    cache.pool.free([0, 1])
    assert str(ledger.entry(0)) == "free since operation 5 (free [0, 1])"


def test_a_stranger_does_not_take_a_row_under_the_version_that_is_cached():
    cache, _ = world()
    serve(cache, [1, 2])
    with pytest.raises(
        LedgerError, match=r"operation 3, occupy 0: row 0 has two owners:\ncached for \[1, 2\] under ve"
    ):
        cache.pool.occupy(0)


def test_a_stranger_does_not_free_the_row_of_a_sequence():
    cache, _ = world()
    cache.start([1, 2])
    with pytest.raises(LedgerError, match=r"row 0 has two owners:\ngiven back to the pool, and running since oper"):
        cache.pool.free([0])


def test_an_operation_that_fails_changes_no_record():
    cache, ledger = world(num_rows=1)
    sequence = cache.start([1, 2])
    with pytest.raises(OutOfPages):
        cache.start([3])
    with pytest.raises(TypeError, match="cannot finish 3"):
        cache.finish(3)
    assert (ledger.step, ledger.states(), ledger.running) == (3, ["running"], [0])
    cache.finish(sequence)
    assert ledger.states() == ["free, cached"]


# -- whom it watches --------------------------------------------------------------------------------------------------


def test_the_one_that_a_learner_builds_is_watched_alike():
    learners = engine_world(2, 3, 4, 5, 7, 9)
    cache, ledger = world(learners["RowTrie"])
    serve(cache, [1, 2, 3])
    assert cache.start([1, 2, 9]).row == 0
    assert str(ledger.entry(0)) == "running since operation 3 (start [1, 2, 9]), holding [1, 2]"
    learners["is_current"].__globals__["is_current"] = lambda node, pool: True
    with pytest.raises(LedgerError, match=r"row 1 is to begin with \[1, 2, 3\], but no row held that"):
        cache.start([1, 2, 3, 4])


def test_a_ledger_begins_with_rows_that_are_free_and_not_cached():
    cache = RowCache(2)
    running = cache.start([1])
    with pytest.raises(LedgerError, match="the pool has it as in use, but it is\nfree from the start"):
        RowLedger(cache)
    assert "start" not in vars(cache)
    cache.finish(running)
    with pytest.raises(LedgerError, match=r"cached for \[1\] under version 1, and free from the start"):
        RowLedger(cache)


def test_a_ledger_that_is_closed_leaves_nothing_behind():
    cache = RowCache(1)
    with RowLedger(cache) as ledger:
        serve(cache, [1])
    assert not {"start", "finish"} & vars(cache).keys()
    assert "alloc" not in vars(cache.pool)
    serve(cache, [2])
    assert ledger.step == 2


@pytest.mark.parametrize(
    ("cache", "words"),
    [
        (FreeListPool(2), r"cache is .*: expected an object with start\(\) or find\(\)"),
        (
            SimpleNamespace(find=len, root=None, pool=FreeListPool(2)),
            "expected a cache of rows, with a root and a pool",
        ),
        (RadixCache(), r"expected an object with start\(\)"),
    ],
)
def test_what_is_no_cache_of_rows_is_refused(cache, words):
    with pytest.raises(TypeError, match=words):
        RowLedger(cache)


def test_a_row_that_is_not_there_has_no_record():
    with pytest.raises(ValueError, match="row is 2: this pool has rows 0 to 1"):
        world()[1].entry(2)

"""Watching from outside: every call is told, nothing is left behind."""

from __future__ import annotations

import copy
import threading

import pytest

from minikv import FreeListPool, OutOfPages, RadixCache
from minikv.testing.watch import watch

pytestmark = pytest.mark.core

VERBS = ("match_prefix", "insert", "lock", "unlock", "evict", "reset")


def test_every_call_is_told_with_its_arguments_and_result():
    cache, calls = RadixCache(), []
    watch(cache, VERBS, calls.append)
    done = cache.insert([1, 2], [3, 4], namespace="a")
    (call,) = calls
    assert (call.thing, call.verb, call.caller, call.error) == (cache, "insert", None, None)
    assert call.arguments == {"tokens": [1, 2], "pages": [3, 4], "namespace": "a"}
    assert call.result is done


def test_an_error_is_told_and_raised():
    pool, calls = FreeListPool(2), []
    watch(pool, ["alloc"], calls.append)
    with pytest.raises(OutOfPages):
        pool.alloc(3)
    assert isinstance(calls[0].error, OutOfPages)


def test_wrong_arguments_are_the_methods_own_error():
    pool, calls = FreeListPool(2), []
    watch(pool, ["alloc"], calls.append)
    with pytest.raises(TypeError, match="alloc"):
        pool.alloc()
    assert not calls


def test_the_object_is_as_it_was_when_the_last_one_goes():
    cache, first, second = RadixCache(), [], []
    before = dict(vars(cache))
    stop_first, stop_second = watch(cache, VERBS, first.append), watch(cache, VERBS, second.append)
    cache.evict(0)
    stop_first()
    cache.evict(0)
    stop_second()
    cache.evict(0)
    assert (len(first), len(second)) == (1, 2)
    assert vars(cache).keys() == before.keys()
    stop_second()  # twice does no harm


def test_a_method_of_the_object_itself_comes_back():
    pool = FreeListPool(2)
    pool.alloc = own = lambda num_pages: [1]
    stop = watch(pool, ["alloc"], lambda call: None)
    assert pool.alloc(1) == [1]
    stop()
    assert pool.alloc is own


def test_a_copy_of_a_watched_object_acts_on_itself():
    pool, calls = FreeListPool(2), []
    stop = watch(pool, ["alloc"], calls.append)
    twin = copy.deepcopy(pool)
    twin.free(twin.alloc(2)[::-1])
    assert twin.alloc(2).tolist() == [1, 0]  # what was pushed on its stack comes off its stack
    twin.check()
    stop()
    assert (pool.num_free, twin.num_free, calls) == (2, 0, [])


def test_a_call_that_began_later_has_a_later_moment():
    pool, calls = FreeListPool(2), []
    watch(pool, ["alloc", "free"], calls.append)
    pool.free(pool.alloc(1))
    assert calls[0].began < calls[1].began


def test_a_complaint_reaches_the_caller_after_everybody_has_heard():
    pool, heard = FreeListPool(2), []

    def complain(call):
        raise ValueError(f"after {call.verb}")

    watch(pool, ["alloc"], complain)
    watch(pool, ["alloc"], heard.append)
    with pytest.raises(ValueError, match="after alloc"):
        pool.alloc(1)
    assert len(heard) == 1
    assert pool.num_free == 1


def test_a_call_inside_a_watched_call_knows_its_caller():
    pool, callers = FreeListPool(2), []

    class Engine:
        def step(self):
            pool.alloc(1)

    engine = Engine()
    watch(pool, ["alloc"], lambda call: callers.append(call.caller.verb))
    watch(engine, ["step"], lambda call: callers.append(call.caller))
    engine.step()
    assert callers == ["step", None]


def test_what_cannot_be_shadowed_says_so():
    class Closed:
        __slots__ = ()

        def alloc(self):
            """Nothing."""

    with pytest.raises(TypeError, match="cannot watch a Closed"):
        watch(Closed(), ["alloc"], print)


def test_two_watches_with_one_listener_end_one_by_one():
    pool, heard = FreeListPool(8), []
    first, _ = (watch(pool, ["alloc"], heard.append) for _ in range(2))
    first()
    first()
    pool.alloc(1)
    assert len(heard) == 1


def test_who_is_stopped_in_the_middle_of_a_call_hears_nothing_of_it():
    pool, heard, ends = FreeListPool(8), [], []
    watch(pool, ["alloc"], lambda call: ends[0]())
    ends.append(watch(pool, ["alloc"], heard.append))
    pool.alloc(1)
    assert heard == []


def test_each_thread_has_callers_of_its_own():
    pool, calls = FreeListPool(8), []

    class Engine:
        def step(self):
            thread = threading.Thread(target=pool.alloc, args=[1])
            thread.start()
            thread.join()

    engine = Engine()
    watch(engine, ["step"], calls.append)
    watch(pool, ["alloc"], calls.append)
    engine.step()
    assert [(call.verb, call.caller) for call in calls] == [("alloc", None), ("step", None)]

"""Watching from outside: every call is told, nothing is left behind.

What cannot be shadowed is said: see test_film.
"""

import copy
import threading

import pytest

from minikv import FreeListPool, OutOfPages, RadixCache
from minikv.testing.watch import watch

VERBS = ("match_prefix", "insert", "lock", "unlock", "evict", "reset")


@pytest.fixture
def pool():
    return FreeListPool(8)


@pytest.fixture
def calls(pool):
    """What a listener heard of the pool."""
    heard = []
    watch(pool, ["alloc", "free"], heard.append)
    return heard


def test_every_call_is_told_with_its_arguments_and_result():
    cache, calls = RadixCache(), []
    watch(cache, VERBS, calls.append)
    done = cache.insert([1, 2], [3, 4], namespace="a")
    (call,) = calls
    assert (call.thing, call.verb, call.caller, call.error) == (cache, "insert", None, None)
    assert call.arguments == {"tokens": [1, 2], "pages": [3, 4], "namespace": "a"}
    assert call.result is done


def test_an_error_is_told_and_raised_but_wrong_arguments_are_the_methods_own(pool, calls):
    with pytest.raises(OutOfPages):
        pool.alloc(9)
    with pytest.raises(TypeError, match="alloc"):
        pool.alloc()
    (call,) = calls
    assert isinstance(call.error, OutOfPages)


def test_the_object_is_as_it_was_when_the_last_one_goes():
    cache, first, second = RadixCache(), [], []
    before = set(vars(cache))
    stop_first, stop_second = watch(cache, VERBS, first.append), watch(cache, VERBS, second.append)
    for stop in (stop_first, stop_second, stop_second):  # twice does no harm
        cache.evict(0)
        stop()
    assert (len(first), len(second)) == (1, 2)
    assert vars(cache).keys() == before


def test_one_that_stops_while_it_is_told_hides_nothing_from_the_next(pool):
    stop, heard = watch(pool, ["alloc"], lambda call: stop()), []
    watch(pool, ["alloc"], heard.append)
    pool.alloc(1)
    assert len(heard) == 1


def test_a_method_of_the_object_itself_comes_back(pool):
    pool.alloc = own = lambda num_pages: [1]
    stop = watch(pool, ["alloc"], lambda call: None)
    assert pool.alloc(1) == [1]
    stop()
    assert pool.alloc is own


def test_a_copy_of_a_watched_object_acts_on_itself(pool, calls):
    twin = copy.deepcopy(pool)
    twin.free(twin.alloc(8)[::-1])
    assert twin.alloc(2).tolist() == [7, 6]  # what was pushed on its stack comes off its stack
    twin.check()
    assert (pool.num_free, twin.num_free, calls) == (8, 6, [])


def test_a_complaint_reaches_the_caller_after_everybody_has_heard(pool):
    def complain(call):
        raise ValueError(f"after {call.verb}")

    heard = []
    for listener in (complain, heard.append):
        watch(pool, ["alloc"], listener)
    with pytest.raises(ValueError, match="after alloc"):
        pool.alloc(1)
    assert (len(heard), pool.num_free) == (1, 7)


class Engine:
    """It calls a pool in its own thread, or in another."""

    def __init__(self, pool, calls):
        self.pool = pool
        watch(self, ["step", "step_aside"], calls.append)

    def step(self):
        self.pool.alloc(1)

    def step_aside(self):
        thread = threading.Thread(target=self.pool.alloc, args=[1])
        thread.start()
        thread.join()


@pytest.mark.parametrize(("verb", "caller"), [("step", "step"), ("step_aside", None)])
def test_a_call_inside_a_watched_call_knows_its_caller_and_each_thread_has_callers_of_its_own(
    pool, calls, verb, caller
):
    getattr(Engine(pool, calls), verb)()
    inner, outer = calls
    assert (inner.verb, getattr(inner.caller, "verb", None)) == ("alloc", caller)
    assert (outer.verb, outer.caller, outer.began < inner.began) == (verb, None, True)


def test_two_watches_with_one_listener_end_one_by_one(pool):
    heard = []
    first, _ = (watch(pool, ["alloc"], heard.append) for _ in range(2))
    first()
    first()
    pool.alloc(1)
    assert len(heard) == 1


def test_who_is_stopped_in_the_middle_of_a_call_hears_nothing_of_it(pool):
    heard, ends = [], []
    watch(pool, ["alloc"], lambda call: ends[0]())
    ends.append(watch(pool, ["alloc"], heard.append))
    pool.alloc(1)
    assert heard == []

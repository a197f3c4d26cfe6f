"""Ctrl-C at any line of the bookkeeping: what was begun is done first, so nothing is lost and nothing is had twice."""

from __future__ import annotations

import contextlib
import copy
import signal
import sys
import threading
from unittest import mock

import pytest
from indexes import MANAGERS
from nightly import NIGHTLY, by_day
from test_engine import PROMPTS, assert_nothing_left, engine_of
from test_manager import assert_all_can_be_had, busy_day
from test_scheduler import run_step, submitted

from minikv import CacheManager, CopyOnWrite, OutOfPages, Scheduler
from minikv.interrupts import Exclusive, begin_act, end_act, exclusive, uninterrupted

pytestmark = pytest.mark.core


def some_of(lines, begin, stride):
    """The lines at which to press: all by night, and by day one of each `stride`, which is a prime."""
    return range(begin, len(lines) + 1, 1 if NIGHTLY else stride)


@contextlib.contextmanager
def ctrl_c_at_line(n, *parts):
    """Press Ctrl-C before the n-th line that is run in files whose path has one of `parts`; yields the lines so far."""
    lines = []

    def at_line(frame, event, argument):
        if event == "line":
            lines.append(f"{frame.f_code.co_filename}:{frame.f_lineno}")
            if len(lines) == n:
                signal.raise_signal(signal.SIGINT)
        return at_line

    def at_call(frame, event, argument):
        return at_line if any(part in frame.f_code.co_filename for part in parts) else None

    before = sys.gettrace()
    sys.settrace(at_call)
    try:
        yield lines
    finally:
        sys.settrace(before)


BOOKKEEPING = "minikv/manager/", "minikv/serving/scheduler", "minikv/prefix/radix", "minikv/pools/free_list"
EVERY_INDEX = "minikv/manager/", "minikv/prefix/", "minikv/pools/"


@pytest.mark.parametrize("page_size", [1, 2])
@pytest.mark.parametrize("kind", MANAGERS)
def test_the_manager_survives_ctrl_c_at_any_line(kind, page_size):
    for _ in range(2):  # what is imported in the first one is not run again
        manager = MANAGERS[kind](page_size)
        with ctrl_c_at_line(0, *EVERY_INDEX) as lines:
            busy_day(manager)
    assert len(lines) > 1000
    for n in some_of(lines, page_size, 61):
        manager = MANAGERS[kind](page_size)
        with pytest.raises(KeyboardInterrupt), ctrl_c_at_line(n, *EVERY_INDEX):
            busy_day(manager)
        assert_all_can_be_had(manager)


SHARING = "minikv/copy_on_write/", "minikv/pools/free_list"


def share(cache):
    """Every verb of copy on write, in an order in which pages are shared, copied and given back."""
    cache.attach("a", [1, 2, 3, 4, 5], "ABCDE")
    cache.fork("a", "b")
    cache.append("b", [6, 7], "FG")
    cache.write("a", 1, [9], "Z")
    cache.draft("b", [8, 8], "HH")
    cache.settle("b", 1)
    cache.attach("a", [1, 2, 3, 4, 7], "ABCDE")
    cache.truncate("b", 3)
    cache.detach("a")


@pytest.mark.parametrize("page_size", [1, 2])
def test_shared_pages_survive_ctrl_c_at_any_line(page_size):
    with ctrl_c_at_line(0, *SHARING) as lines:
        share(CopyOnWrite(24, page_size))
    assert len(lines) > 200
    for n in some_of(lines, page_size, 7):
        cache = CopyOnWrite(24, page_size)
        with contextlib.suppress(KeyboardInterrupt), ctrl_c_at_line(n, *SHARING):
            share(cache)
        cache.check()
        for name in cache.names():
            assert len(cache.get(name)) == len(cache.tokens(name))
            cache.detach(name)
        assert (cache.stats()["free_pages"], cache.stats()["prefix_map_size"]) == (24, 0)


@pytest.mark.parametrize("verb", by_day(["generate", "stream"], "generate".__eq__))
def test_an_engine_survives_it_too(verb):
    """Its requests are aborted on the way out, and the next generation is as if nothing had been."""

    def run(engine):
        return list(getattr(engine, verb)(PROMPTS, 3))

    expected = [result.tokens for result in engine_of().generate(PROMPTS, 3)]
    engine = engine_of(14, token_budget=6, max_running=3)
    with ctrl_c_at_line(0, *BOOKKEEPING) as lines:
        run(engine)
    assert len(lines) > 2000
    for n in [*some_of(lines[:60], 1, 7), *some_of(lines, 60, 211)]:  # submitting first
        engine = engine_of(14, token_budget=6, max_running=3)
        with pytest.raises(KeyboardInterrupt), ctrl_c_at_line(n, *BOOKKEEPING):
            run(engine)
        assert_nothing_left(engine)
        assert engine.scheduler.running == engine.scheduler.waiting == []
        assert [result.tokens for result in engine.generate(PROMPTS, 3)] == expected


def test_a_scheduler_that_is_stepped_by_hand_survives_it():
    """After an interrupt it plans again; in the end every request has what it asked for, but the one that left."""

    def day(scheduler, leaver):
        while scheduler.waiting or scheduler.running:
            assert scheduler.step < 50, "somebody waits for ever"
            if not leaver.is_over and leaver.output:
                scheduler.abort(leaver)
            run_step(scheduler)

    def begin():
        scheduler = Scheduler(CacheManager(12), token_budget=4, max_running=2)
        return scheduler, submitted(scheduler, [1, 2, 3, 4], [1, 2, 9], [5, 6], new=3)

    scheduler, requests = begin()
    with ctrl_c_at_line(0, *BOOKKEEPING) as lines:
        day(scheduler, requests[1])
    for n in some_of(lines, 1, 101):
        scheduler, requests = begin()
        with contextlib.suppress(KeyboardInterrupt), ctrl_c_at_line(n, *BOOKKEEPING):
            day(scheduler, requests[1])
        day(scheduler, requests[1])
        assert [(len(request.output), request.reason) for request in requests] == [
            (3, "length"), (1, "aborted"), (3, "length")
        ]  # fmt: skip
        scheduler.manager.check()
        assert not scheduler.manager.sequences


def test_a_request_that_was_started_is_aborted_before_anybody_has_its_name():
    manager = CacheManager(8)
    start = manager.start

    def interrupted(*args, **kwargs):
        sequence = start(*args, **kwargs)
        press()
        return sequence

    manager.start = interrupted
    with pytest.raises(KeyboardInterrupt), manager.request([1, 2, 3]):
        raise AssertionError("it never begins")
    assert (manager.sequences, manager.pool.num_free) == ([], 8)


# -- the decorator ----------------------------------------------------------------------------------------------------


@pytest.fixture(autouse=True)
def handler_as_before():
    """Each test begins with Python's own handler, and leaves the one that it found."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def press():
    signal.raise_signal(signal.SIGINT)


def interrupts(act):
    """`act` ends with Ctrl-C."""
    with pytest.raises(KeyboardInterrupt) as interrupted:
        act()
    return interrupted.value


def in_another_thread(act):
    thread = threading.Thread(target=act)
    thread.start()
    thread.join()


nothing = uninterrupted(lambda: None)


def test_it_waits_for_the_outermost_act_and_is_raised_once():
    said = []
    inner = uninterrupted(lambda: (press(), press(), said.append("inner")))
    interrupts(uninterrupted(lambda: (inner(), said.append("outer"))))
    assert said == ["inner", "outer"]
    nothing()


def test_an_act_that_fails_fails_with_its_own_error_unless_it_is_interrupted():
    @uninterrupted
    def fails(act):
        act()
        raise OutOfPages(1, 0)

    with pytest.raises(OutOfPages):
        fails(lambda: None)
    assert isinstance(interrupts(lambda: fails(press)).__context__, OutOfPages)
    interrupts(press)  # no act is under way now


def test_what_comes_while_an_act_waits_for_its_lock_leaves_ctrl_c_as_it_was():
    """An alarm of somebody else's, for one, whose handler raises."""
    lock = mock.Mock()
    lock.acquire.side_effect = [TimeoutError, None]
    with pytest.raises(TimeoutError):
        begin_act(lock)
    interrupts(press)
    end_act(begin_act(lock), lock)
    lock.release.assert_called_once_with()


def test_the_handler_stays_and_passes_ctrl_c_on_between_acts():
    nothing()
    ours = signal.getsignal(signal.SIGINT)
    assert ours is not signal.default_int_handler
    interrupts(press)
    with mock.patch("signal.signal", side_effect=AssertionError("it changed the handler")):
        nothing()
        busy_day(CacheManager(16))
    assert signal.getsignal(signal.SIGINT) is ours


def test_a_handler_of_your_own_hears_of_it_and_the_act_returns():
    """Also one that came after the first act, or that an act puts in place."""
    for act in (lambda: None, nothing):
        act()
        heard = []
        signal.signal(signal.SIGINT, lambda number, frame, heard=heard: heard.append(number))
        assert uninterrupted(lambda: press() or 5)() == 5
        press()
        assert heard == [signal.SIGINT, signal.SIGINT]
    uninterrupted(lambda: signal.signal(signal.SIGINT, lambda *_: heard.append("mine")))()
    uninterrupted(press)()
    assert heard[2:] == ["mine"]


def test_a_handler_that_came_meanwhile_may_put_back_what_it_found_or_call_it():
    """The first as `minikv chat` does: its first Ctrl-C is a wish, the second is Python's again."""
    nothing()
    heard, found = [], signal.getsignal(signal.SIGINT)
    signal.signal(signal.SIGINT, lambda *_: heard.append(signal.signal(signal.SIGINT, found)))
    uninterrupted(press)()
    interrupts(uninterrupted(press))
    assert len(heard) == 1
    signal.signal(signal.SIGINT, lambda *given: (heard.append("mine"), found(*given)))
    interrupts(uninterrupted(press))
    interrupts(press)
    assert heard[1:] == ["mine", "mine"]


@pytest.mark.parametrize("handler", [signal.SIG_IGN, signal.SIG_DFL])
def test_where_ctrl_c_does_not_come_to_python_nothing_changes(handler):
    """From the beginning, or after the first act."""
    for act in (lambda: None, nothing):
        act()
        signal.signal(signal.SIGINT, handler)
        assert uninterrupted(lambda: signal.getsignal(signal.SIGINT))() is handler
        assert signal.getsignal(signal.SIGINT) is handler
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    uninterrupted(press)()


def test_another_thread_changes_no_handler_and_holds_nothing_back():
    seen = []
    in_another_thread(uninterrupted(lambda: seen.append(signal.getsignal(signal.SIGINT))))
    assert seen == [signal.default_int_handler]
    interrupts(lambda: in_another_thread(uninterrupted(press)))  # it comes to the main thread, which does nothing whole


# -- one act at a time ------------------------------------------------------------------------------------------------


class Counter(Exclusive):
    """Adds in two steps, between which `then` is called once."""

    count, then = 0, None

    @exclusive
    def add(self, then=None):
        count = self.count
        if then is not None:
            then()
        self.count = count + 1


def has_its_lock(thing):
    """Whether another thread would have to wait for `thing` now."""
    got = []
    in_another_thread(lambda: got.append(thing._lock.acquire(blocking=False)))
    return not got[0]


def test_others_wait_while_an_act_is_under_way_and_no_longer():
    """An act may call another; one that fails or is interrupted gives the lock back."""
    counter, seen = Counter(), []
    counter.add(lambda: seen.append(has_its_lock(counter)))
    counter.add(counter.add)
    with pytest.raises(ZeroDivisionError):
        counter.add(lambda: 1 / 0)
    interrupts(lambda: counter.add(press))
    assert (seen, counter.count, has_its_lock(counter)) == ([True], 3, False)


def test_a_twin_has_a_lock_of_its_own():
    """A deep copy and a pickle, too, as those of a manager show."""
    counter = Counter()
    twin = copy.copy(counter)
    assert twin._lock is not counter._lock
    twin.add()
    assert (counter.count, twin.count) == (0, 1)

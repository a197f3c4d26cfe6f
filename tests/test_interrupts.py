"""Ctrl-C at any line of the bookkeeping: what was begun is done first, so nothing is lost and nothing is had twice."""

from __future__ import annotations

import contextlib
import copy
import pickle
import signal
import sys
import threading
from unittest import mock

import pytest
from indexes import MANAGERS
from nightly import NIGHTLY
from test_engine import PROMPTS, assert_nothing_left, engine_of
from test_manager import busy_day
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
    for n in some_of(lines, page_size, 47):
        manager = MANAGERS[kind](page_size)
        with pytest.raises(KeyboardInterrupt), ctrl_c_at_line(n, *EVERY_INDEX):
            busy_day(manager)
        manager.check()
        for sequence in manager.sequences:
            manager.abort(sequence)
        manager.check()
        assert not manager.cache.protected_size
        full = getattr(manager.pool, "full", manager.pool)
        assert full.num_free * page_size + manager.cache.total_size == manager.num_pages * page_size


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


@pytest.mark.parametrize("verb", ["generate", "stream"])
def test_an_engine_survives_it_too(verb):
    """Its requests are aborted on the way out, and the next generation is as if nothing had been."""

    def run(engine):
        return list(getattr(engine, verb)(PROMPTS, 3))

    expected = [result.tokens for result in engine_of().generate(PROMPTS, 3)]
    engine = engine_of(14, token_budget=6, max_running=3)
    with ctrl_c_at_line(0, *BOOKKEEPING) as lines:
        run(engine)
    assert len(lines) > 2000
    for n in [*some_of(lines[:60], 1, 7), *some_of(lines, 60, 167 if verb == "generate" else 173)]:  # submitting first
        engine = engine_of(14, token_budget=6, max_running=3)
        with pytest.raises(KeyboardInterrupt), ctrl_c_at_line(n, *BOOKKEEPING):
            run(engine)
        assert_nothing_left(engine)
        assert not engine.scheduler.running
        assert not engine.scheduler.waiting
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


def in_another_thread(act):
    thread = threading.Thread(target=act)
    thread.start()
    thread.join()


def test_it_waits_for_the_outermost_act():
    said = []
    inner = uninterrupted(lambda: (press(), said.append("inner")))

    @uninterrupted
    def outer():
        inner()
        said.append("outer")

    with pytest.raises(KeyboardInterrupt):
        outer()
    assert said == ["inner", "outer"]


def test_an_act_that_fails_fails_with_its_own_error_unless_it_is_interrupted():
    @uninterrupted
    def fails(*acts):
        for act in acts:
            act()
        raise OutOfPages(1, 0)

    with pytest.raises(OutOfPages):
        fails()
    with pytest.raises(KeyboardInterrupt) as interrupted:
        fails(press)
    assert isinstance(interrupted.value.__context__, OutOfPages)
    with pytest.raises(KeyboardInterrupt):  # no act is under way now
        press()


def test_what_comes_while_an_act_waits_for_its_lock_leaves_ctrl_c_as_it_was():
    """An alarm of somebody else's, for one, whose handler raises."""
    lock = mock.Mock()
    lock.acquire.side_effect = [TimeoutError, None]
    with pytest.raises(TimeoutError):
        begin_act(lock)
    with pytest.raises(KeyboardInterrupt):
        press()
    end_act(begin_act(lock), lock)
    lock.release.assert_called_once_with()


def test_it_is_raised_once_however_often_it_was_pressed():
    with pytest.raises(KeyboardInterrupt):
        uninterrupted(lambda: (press(), press()))()
    uninterrupted(lambda: None)()


def test_the_handler_stays_and_passes_ctrl_c_on_between_acts():
    uninterrupted(lambda: None)()
    ours = signal.getsignal(signal.SIGINT)
    assert ours is not signal.default_int_handler
    with pytest.raises(KeyboardInterrupt):
        press()
    with mock.patch("signal.signal", side_effect=AssertionError("it changed the handler")):
        uninterrupted(lambda: None)()
        manager = CacheManager(16)
        busy_day(manager)
    assert signal.getsignal(signal.SIGINT) is ours


def test_a_handler_of_your_own_hears_of_it_and_the_act_returns():
    heard = []
    signal.signal(signal.SIGINT, lambda number, frame: heard.append(number))
    assert uninterrupted(lambda: press() or 5)() == 5
    press()
    assert heard == [signal.SIGINT, signal.SIGINT]


def test_a_handler_that_came_meanwhile_may_put_back_what_it_found():
    """As `minikv chat` does: its first Ctrl-C is a wish, the second is Python's again."""
    uninterrupted(lambda: None)()
    heard, found = [], signal.getsignal(signal.SIGINT)

    def wish(number, frame):
        heard.append(number)
        signal.signal(signal.SIGINT, found)

    signal.signal(signal.SIGINT, wish)
    uninterrupted(press)()
    assert heard == [signal.SIGINT]
    with pytest.raises(KeyboardInterrupt):
        uninterrupted(press)()
    assert heard == [signal.SIGINT]


def test_a_handler_that_came_meanwhile_may_call_the_one_that_it_found():
    uninterrupted(lambda: None)()
    heard, found = [], signal.getsignal(signal.SIGINT)
    signal.signal(signal.SIGINT, lambda *given: (heard.append("mine"), found(*given)))
    for act in (uninterrupted(press), press):
        with pytest.raises(KeyboardInterrupt):
            act()
    assert heard == ["mine", "mine"]


def test_a_handler_that_an_act_puts_in_place_is_the_next_ones_too():
    heard = []
    uninterrupted(lambda: signal.signal(signal.SIGINT, lambda *_: heard.append("mine")))()
    uninterrupted(press)()
    assert heard == ["mine"]


@pytest.mark.parametrize("handler", [signal.SIG_IGN, signal.SIG_DFL])
def test_where_ctrl_c_does_not_come_to_python_nothing_changes(handler):
    signal.signal(signal.SIGINT, handler)
    assert uninterrupted(lambda: signal.getsignal(signal.SIGINT))() is handler
    assert signal.getsignal(signal.SIGINT) is handler


def test_ignored_after_the_first_act_it_stays_ignored():
    uninterrupted(lambda: None)()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    uninterrupted(press)()
    assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN


def test_another_thread_changes_no_handler_and_holds_nothing_back():
    seen = []
    in_another_thread(uninterrupted(lambda: seen.append(signal.getsignal(signal.SIGINT))))
    assert seen == [signal.default_int_handler]
    with pytest.raises(KeyboardInterrupt):
        in_another_thread(uninterrupted(press))  # it comes to the main thread, which does nothing that must be whole


# -- one act at a time ------------------------------------------------------------------------------------------------


class Counter(Exclusive):
    """Adds in two steps, between which `then` is called."""

    def __init__(self):
        super().__init__()
        self.count, self.then = 0, None

    @exclusive
    def add(self):
        count = self.count
        if self.then is not None:
            then, self.then = self.then, None
            then()
        self.count = count + 1


def has_its_lock(thing):
    """Whether another thread would have to wait for `thing` now."""
    got = []
    in_another_thread(lambda: got.append(thing._lock.acquire(blocking=False)))
    return not got[0]


def test_while_an_act_is_under_way_other_threads_wait():
    counter, seen = Counter(), []
    counter.then = lambda: seen.append(has_its_lock(counter))
    counter.add()
    assert (seen, counter.count) == ([True], 1)


def test_an_act_may_call_another_and_one_that_fails_gives_the_lock_back():
    counter = Counter()
    counter.then = lambda: counter.add()
    counter.add()
    counter.then = lambda: 1 / 0
    with pytest.raises(ZeroDivisionError):
        counter.add()
    counter.then = press
    with pytest.raises(KeyboardInterrupt):
        counter.add()
    assert not has_its_lock(counter)
    assert counter.count == 2


@pytest.mark.parametrize("twin_of", [copy.copy, copy.deepcopy, lambda thing: pickle.loads(pickle.dumps(thing))])
def test_a_twin_has_a_lock_of_its_own(twin_of):
    counter = Counter()
    twin = twin_of(counter)
    assert twin._lock is not counter._lock
    twin.add()
    assert (counter.count, twin.count) == (0, 1)


@pytest.mark.parametrize("twin_of", [copy.deepcopy, lambda thing: pickle.loads(pickle.dumps(thing))])
def test_a_twin_of_a_manager_goes_on_by_itself(twin_of):
    manager = CacheManager(16, page_size=2)
    mine = manager.start(range(9))
    manager.advance(mine)
    twin = twin_of(manager)
    assert twin._lock is not manager._lock
    (sequence,) = twin.sequences
    twin.extend(sequence, [7, 8])
    twin.advance(sequence)
    twin.finish(sequence)
    assert (twin.cache.total_size, manager.cache.total_size) == (10, 0)
    twin.check()
    manager.check()
    with pytest.raises(ValueError, match="another manager started it"):
        twin.abort(mine)

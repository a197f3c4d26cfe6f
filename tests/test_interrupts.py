"""An act is done before Ctrl-C is heard, and one at a time."""

import copy
import signal
from unittest import mock

import pytest
from test_manager_faults import busy_day
from test_threads import in_threads

from minikv import CacheManager, OutOfPages
from minikv.interrupts import Exclusive, begin_act, end_act, exclusive, uninterrupted


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
    in_threads(uninterrupted(lambda: seen.append(signal.getsignal(signal.SIGINT))))
    assert seen == [signal.default_int_handler]
    interrupts(lambda: in_threads(uninterrupted(press)))  # it comes to the main thread, which does nothing whole


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
    in_threads(lambda: got.append(thing._lock.acquire(blocking=False)))
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

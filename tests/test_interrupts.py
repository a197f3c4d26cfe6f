"""Ctrl-C at any line of the bookkeeping: what was begun is done first, so nothing is lost and nothing is had twice."""

from __future__ import annotations

import contextlib
import signal
import sys
import threading

import pytest
from test_engine import PROMPTS, assert_nothing_left, engine_of
from test_manager import busy_day
from test_scheduler import run_step, submitted

from minikv import CacheManager, OutOfPages, Scheduler
from minikv.interrupts import whole


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


@pytest.mark.parametrize("page_size", [1, 2])
def test_the_manager_survives_ctrl_c_at_every_line(page_size):
    manager = CacheManager(16 // page_size, page_size)
    with ctrl_c_at_line(0, *BOOKKEEPING) as lines:
        busy_day(manager)
    assert len(lines) > 1000
    for n in range(page_size, len(lines), 2):  # every other line, and of the other page size those between
        manager = CacheManager(16 // page_size, page_size)
        with pytest.raises(KeyboardInterrupt), ctrl_c_at_line(n, *BOOKKEEPING):
            busy_day(manager)
        manager.check()
        for sequence in manager.sequences:
            manager.abort(sequence)
        assert not manager.cache.protected_size
        assert manager.pool.num_free * page_size + manager.cache.total_size == 16


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
    for n in [*range(1, 60), *range(60, len(lines), 29 if verb == "generate" else 31)]:  # submitting, then the rest
        engine = engine_of(14, token_budget=6, max_running=3)
        with pytest.raises(KeyboardInterrupt), ctrl_c_at_line(n, *BOOKKEEPING):
            run(engine)
        assert_nothing_left(engine)
        assert not engine.scheduler.running
        assert not engine.scheduler.waiting
        assert [result.tokens for result in engine.generate(PROMPTS, 3)] == expected


def test_a_scheduler_that_is_stepped_by_hand_survives_it():
    """Whoever was interrupted plans again; in the end everybody has what it asked for, and who left has gone."""

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
    for n in range(1, len(lines), 13):
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
        start(*args, **kwargs)
        raise KeyboardInterrupt

    manager.start = interrupted
    with pytest.raises(KeyboardInterrupt), manager.request([1, 2, 3]):
        raise AssertionError("it never begins")
    assert (manager.sequences, manager.pool.num_free) == ([], 8)


# -- the decorator ----------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def handled_by(handler):
    before = signal.signal(signal.SIGINT, handler)
    try:
        yield
    finally:
        assert signal.getsignal(signal.SIGINT) is handler
        signal.signal(signal.SIGINT, before)


def press():
    signal.raise_signal(signal.SIGINT)


def test_it_waits_for_the_outermost_act():
    said = []
    inner = whole(lambda: (press(), said.append("inner")))

    @whole
    def outer():
        inner()
        said.append("outer")

    with pytest.raises(KeyboardInterrupt):
        outer()
    assert said == ["inner", "outer"]


def test_an_act_that_fails_fails_with_its_own_error_unless_it_is_interrupted():
    @whole
    def fails(*acts):
        for act in acts:
            act()
        raise OutOfPages(1, 0)

    with handled_by(signal.default_int_handler):
        with pytest.raises(OutOfPages):
            fails()
        with pytest.raises(KeyboardInterrupt) as interrupted:
            fails(press)
    assert isinstance(interrupted.value.__context__, OutOfPages)


def test_whoever_handles_ctrl_c_hears_of_it_and_the_act_returns():
    heard = []
    with handled_by(lambda number, frame: heard.append(number)):
        assert whole(lambda: press() or 5)() == 5
    assert heard == [signal.SIGINT]


def test_where_ctrl_c_is_ignored_or_never_comes_nothing_changes():
    with handled_by(signal.SIG_IGN):
        assert whole(lambda: press() or signal.getsignal(signal.SIGINT))() is signal.SIG_IGN
    seen = []
    thread = threading.Thread(target=whole(lambda: seen.append(signal.getsignal(signal.SIGINT))))
    thread.start()
    thread.join()
    assert seen == [signal.getsignal(signal.SIGINT)]

"""Ctrl-C at any line of the bookkeeping: what was begun is done first, so nothing is lost and nothing is had twice."""

import contextlib
import signal
import sys

import pytest
from indexes import MANAGERS
from nightly import NIGHTLY, by_day
from test_engine import PROMPTS, assert_nothing_left, engine_of
from test_manager import each_size
from test_manager_faults import assert_all_can_be_had, busy_day
from test_scheduler import run_step, submitted

from minikv import CacheManager, CopyOnWrite, Scheduler


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


@each_size
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


@each_size
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

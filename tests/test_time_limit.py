"""A time limit for other people's code: it stops an endless loop, and nothing of it is left afterwards."""

from __future__ import annotations

import sys
import threading

import pytest

from minikv.testing.time_limit import TimeLimit, TooLong


def run(code, seconds=0.1):
    """`code` under a limit; whether it was stopped."""
    limit = TimeLimit(seconds)
    try:
        limit.start()
        code()
    except TooLong:
        return True
    finally:
        limit.stop()
    return False


def endless():
    while True:
        pass


def stubborn():
    for _ in range(3):
        try:
            endless()
        except BaseException:
            continue


def test_what_never_ends_is_stopped():
    assert run(endless)


@pytest.mark.skipif(sys.version_info < (3, 11), reason="Python 3.10 cannot stop what catches everything")
def test_what_catches_everything_is_stopped_again_and_again():
    run(stubborn)  # comes back


def test_what_ends_in_time_is_left_alone():
    assert not run(lambda: sum(range(1000)), 30)


def test_one_limit_may_pass_while_another_runs():
    found = {}
    threads = [
        threading.Thread(target=lambda: found.update(endless=run(endless))),
        threading.Thread(target=lambda: found.update(short=run(lambda: threading.Event().wait(0.3), 30))),
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {"endless": True, "short": False}


def test_nothing_arrives_after_the_stop():
    for _ in range(20):
        run(endless, 0.01)
        sum(range(100_000))

"""Threads: any of them may call a cache manager, and only its lock makes that so."""

import contextlib
import sys
import threading
import time

import pytest
from chats import assert_nothing_leaked
from test_engine import answers, assert_nothing_left, engine_of, warm
from test_manager import each_size

from minikv import CacheManager, OutOfPages, RadixCache

ROUNDS = 60  # lives of a request, in each thread


@contextlib.contextmanager
def switching_all_the_time():
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        yield
    finally:
        sys.setswitchinterval(before)


def in_threads(*acts):
    """Run each of `acts` in a thread of its own; the errors that came out."""
    errors = []

    def run(act):
        try:
            act()
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=[act]) for act in acts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return errors


def lives(manager, seed):
    """Requests that begin alike, one after the other: they share, compute the same twice, and run out of room."""
    for turn in range(ROUNDS):
        with contextlib.suppress(OutOfPages):
            sequence = manager.start([1, 2, 3, 4, 5, turn % 3, 100 * seed + turn, seed, turn])
            end = manager.abort
            try:
                manager.advance(sequence, 1)
                manager.checkpoint(sequence)
                manager.extend(sequence, [turn, turn + 1, turn + 2])
                manager.advance(sequence)
                end = manager.abort if turn % 4 == 3 else manager.finish
            finally:
                end(sequence)


@each_size
def test_many_threads_leave_nothing_behind(page_size):
    manager = CacheManager(48, page_size, prefix_cache=RadixCache(page_size, evict_by="page"))
    with switching_all_the_time():
        errors = in_threads(*[lambda seed=seed: lives(manager, seed) for seed in range(4)])
    assert errors == []
    assert_nothing_leaked(manager)
    assert manager.available_size == 48 * page_size


def in_the_middle(part, verb, act):
    """Once, in the middle of a part's `verb`, another thread begins `act`; it has 50 ms to be done."""
    original, threads = getattr(part, verb), []

    def interrupted(*args, **options):
        if not threads:
            threads.append(threading.Thread(target=act))
            threads[0].start()
            threads[0].join(0.05)
        return original(*args, **options)

    setattr(part, verb, interrupted)
    return threads


def two_start(manager):
    others = in_the_middle(manager.pool, "alloc_to", lambda: manager.start([3, 4]))
    manager.start([1, 2])
    return others


def two_extend(manager):
    sequence = manager.start([1, 2])
    others = in_the_middle(manager.pool, "alloc_to", lambda: manager.extend(sequence, [4]))
    manager.extend(sequence, [3])
    return others


def two_checkpoint(manager):
    """The other thread ends the request whose pages are being published."""
    sequence = manager.start([1, 2, 3, 4])
    manager.advance(sequence)
    others = in_the_middle(manager.cache, "insert_after", lambda: manager.abort(sequence))
    manager.checkpoint(sequence)
    return others


@pytest.mark.parametrize("act", [two_start, two_extend, two_checkpoint], ids=lambda act: act.__name__)
def test_an_act_that_comes_in_the_middle_of_another_waits(act):
    """It cannot be done before the other is, however long that waits for it."""
    manager = CacheManager(16)
    (other,) = act(manager)
    other.join()
    manager.check()


def test_a_request_that_is_refused_ends_nobody_elses():
    """Two threads open a request at once, and there is room for one: the other one's failure is its own."""
    manager, states, together = CacheManager(num_pages=4), [], threading.Barrier(2, timeout=10)

    def serve(tokens):
        try:
            with manager.request(tokens) as sequence:
                together.wait()
                states.append(sequence.state)
        except OutOfPages:
            together.wait()

    with manager._lock:  # another act is under way, so that both begin before either has started
        threads = [threading.Thread(target=serve, args=[[number] * 3]) for number in (1, 2)]
        for thread in threads:
            thread.start()
        time.sleep(0.05)
    for thread in threads:
        thread.join()
    assert states == ["running"]
    assert (manager.sequences, manager.pool.num_free) == ([], 4)


def test_a_manager_may_be_looked_at_while_others_work():
    manager, done = CacheManager(num_pages=1 << 12), threading.Event()
    for _ in range(50):
        manager.start(range(20))

    def look():
        for _ in range(100):
            assert len(manager.owned()) >= len(manager.sequences) - 1 >= 49
            assert 0 < manager.available_size <= 1 << 12
        done.set()

    def churn():
        while not done.is_set():
            manager.abort(manager.start([1, 2, 3]))

    with switching_all_the_time():
        errors = in_threads(look, churn)
    assert not errors


# -- an engine ---------------------------------------------------------------------------------------------------------

THREADS = TURNS = 4


def prompts_of(thread, round):
    """Prompts that share a prefix within a thread and across threads."""
    return [[1, 2, 3, thread, round], [1, 2, 3, thread], [thread, round, 5, 5, 5, 5]]


def work(engine, thread, found, begin):
    """Generate, submit and abort on an engine that others use too; `found` gets the answers."""
    begin.wait()
    for round in range(TURNS):
        aborted = engine.submit([7, 7, thread, round], 3)
        with contextlib.suppress(ValueError):  # another thread may have stepped it to its end
            engine.abort(aborted)
        found[thread, round] = answers(engine, prompts_of(thread, round), warm(4, thread))


def test_several_threads_may_use_one_engine():
    """The canary reads what it wrote, the manager's books agree, and each answer is what it is alone."""
    engine, found, begin = engine_of(40, token_budget=8, max_running=3), {}, threading.Barrier(THREADS)
    with switching_all_the_time():
        assert not in_threads(*[lambda n=n: work(engine, n, found, begin) for n in range(THREADS)])
    assert_nothing_left(engine)
    assert len(found) == THREADS * TURNS
    for (thread, round), heard in found.items():
        assert heard == answers(engine_of(200), prompts_of(thread, round), warm(4, thread))

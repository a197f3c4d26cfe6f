"""Running somebody else's code: whatever it does ends there, and only Ctrl-C gets out."""

import builtins
import contextlib
import signal
import subprocess
import sys
import threading
import time

import pytest

from minikv.testing import attempt as attempt_module
from minikv.testing import time_limit
from minikv.testing.attempt import Outcome, TimeLimit, TooLong, agree, attempt, short_repr, type_in_words


@pytest.fixture
def impatience(monkeypatch):
    monkeypatch.setattr(attempt_module, "MOST_SECONDS", 0.1)


def raises(error):
    raise error


def forever(*_):
    while True:
        pass


class Endless:
    """A value whose every method loops."""

    __eq__ = __repr__ = __hash__ = forever


class EndlessList(list):
    def __iter__(self):
        while True:
            yield 1


class EndlessError(ValueError):
    __str__ = __repr__ = forever


class Pressed:
    """A value during whose methods somebody presses Ctrl-C."""

    def __eq__(self, other):
        raise KeyboardInterrupt

    __repr__ = __hash__ = lambda self: raises(KeyboardInterrupt)


def test_what_an_answer_does_to_python_is_undone():
    before = dict(vars(builtins)), sys.getrecursionlimit()

    def answer():
        del builtins.len, builtins.vars
        builtins.print = None
        sys.setrecursionlimit(500)

    attempt(answer)
    assert {name: vars(builtins)[name] for name in before[0]} == before[0]
    assert sys.getrecursionlimit() == before[1]


def test_an_answer_that_prints_without_end_fills_no_memory():
    printed = attempt(lambda: [print("x" * 1_000_000) for _ in range(20)]).printed
    assert 0 < len(printed) <= 10_000


@pytest.mark.parametrize("error", [SystemExit(3), GeneratorExit(), ValueError("wrong")], ids=repr)
def test_no_error_gets_out(error):
    assert attempt(raises, (error,)).error.args == error.args


@pytest.mark.parametrize("act", [
    lambda: attempt(raises, (KeyboardInterrupt(),)), lambda: short_repr(Pressed()),
    lambda: agree(Pressed(), 3), lambda: agree([1, Pressed()], [1, 3]), lambda: str(Outcome(Pressed())),
], ids=["attempt", "shown", "agree", "agree in a list", "str"])  # fmt: skip
def test_ctrl_c_gets_out(act):
    with pytest.raises(KeyboardInterrupt):
        act()


@pytest.mark.parametrize("kind", [Endless, lambda: EndlessList([1])], ids=["methods", "iteration"])
def test_comparing_and_showing_values_that_never_end_ends(kind, impatience):
    value = kind()  # which no assertion may show
    compared = agree(value, [1]), agree([value], [[1]]), agree(value, kind())
    assert compared == (False, False, False)
    assert short_repr(value) == f"a {type(value).__name__} that cannot be shown"
    assert type_in_words(value) in ("a list", "an Endless")


def test_an_error_whose_text_never_ends_is_named(impatience):
    assert str(Outcome(error=EndlessError())) == "EndlessError (an error that cannot be shown)"


@pytest.fixture
def no_threads(monkeypatch):
    """As in a browser."""
    monkeypatch.setattr(time_limit, "_WATCHDOG", time_limit._Watchdog())
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", lambda self: raises(RuntimeError("can't start new thread")))
        yield patch


def test_where_no_thread_can_be_started_there_is_no_limit_and_it_is_said(no_threads, monkeypatch):
    for _ in range(2):
        with pytest.warns(RuntimeWarning, match="the time limit is off, because no thread can start"):
            assert attempt(lambda: 3).value == 3
    no_threads.undo()
    monkeypatch.setattr(attempt_module, "MOST_SECONDS", 0.1)
    assert isinstance(attempt(forever).error, TooLong), "later, where threads start, the limit holds"


def catches(act=forever):
    while True:
        with contextlib.suppress(BaseException):
            act()


def slow():
    while True:
        sum(range(1_000_000))


@pytest.fixture
def jumps(no_threads):
    """A browser, where Python itself calls the watchdog; in the end it does no longer."""
    if sys.version_info < (3, 12):
        pytest.skip("no sys.monitoring")
    no_threads.setattr(time_limit, "IN_BROWSER", True)
    yield sys.monitoring
    sys.monitoring.set_events(time_limit._TOOL, 0)
    sys.monitoring.free_tool_id(time_limit._TOOL)


@pytest.mark.parametrize("loop", [forever, catches, slow, lambda: catches(int), lambda: sum(1 for _ in iter(int, 1))])
def test_in_a_browser_loops_end_without_a_thread(loop, jumps, impatience):
    began = time.monotonic()
    assert isinstance(attempt(loop).error, TooLong)
    assert time.monotonic() - began < 10
    assert attempt(lambda: [*range(1000)][-1]).value == 999
    assert attempt(lambda: attempt(forever).error).value.args == (), "a limit within another"


def test_in_a_browser_python_calls_the_watchdog_only_while_there_is_one_to_watch(jumps):
    for _ in range(2):
        assert attempt(lambda: 3).value == 3
        assert jumps.get_events(time_limit._TOOL)
        for _ in range(time_limit._IDLE * time_limit._EACH + 100):
            pass
        assert not jumps.get_events(time_limit._TOOL)


def test_where_another_tool_is_called_at_jumps_there_is_no_limit_and_it_is_said(jumps):
    jumps.use_tool_id(time_limit._TOOL, "another")
    with pytest.warns(RuntimeWarning, match="the time limit is off"):
        assert attempt(lambda: 3).value == 3


def test_in_a_browser_few_calls_may_be_nested(monkeypatch):
    def down(n):
        return n and down(n - 1)

    most = sys.getrecursionlimit()
    assert attempt(down, (500,)).value == 0
    monkeypatch.setattr(attempt_module, "_MOST_NESTED", 400)
    assert isinstance(attempt(down, (500,)).error, RecursionError)
    assert sys.getrecursionlimit() == most


@pytest.mark.skipif(not hasattr(time_limit.signal, "SIGVTALRM"), reason="no such signal here")
@pytest.mark.parametrize("wait", [lambda: time.sleep(60), lambda: threading.Event().wait(60)], ids=["sleep", "event"])
def test_what_only_waits_ends_too(impatience, wait):
    began = time.monotonic()
    assert isinstance(attempt(wait).error, TooLong)
    assert time.monotonic() - began < 30


@pytest.mark.parametrize("lands", [{1}, {2}], ids=["before the limit is stopped", "on the way into the last stop"])
def test_a_limit_that_passes_as_the_call_ends_stays_in_here(monkeypatch, lands):
    """It once got out on a busy machine, and the limit was then watched forever."""
    stop, times = TimeLimit.stop, []

    def stop_late(limit):
        times.append(limit)
        if len(times) in lands:
            raise TooLong
        stop(limit)

    monkeypatch.setattr(TimeLimit, "stop", stop_late)
    outcome = attempt(lambda: 5)
    assert outcome.value == 5 or isinstance(outcome.error, TooLong)
    assert times[0] not in time_limit._WATCHDOG._limits


# -- the time limit: it stops an endless loop, and none of it is left afterwards ------------------------------------


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


def test_one_limit_may_pass_while_another_runs():
    found = {}
    threads = [
        threading.Thread(target=lambda: found.update(endless=run(forever))),
        threading.Thread(target=lambda: found.update(short=run(lambda: threading.Event().wait(0.3), 30))),
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {"endless": True, "short": False}


def test_nothing_arrives_after_the_stop():
    for _ in range(20):
        run(forever, 0.01)
        sum(range(100_000))


STOPPED = """
import time
from minikv.testing.attempt import attempt
def act():
    print("running", file=sys.__stdout__, flush=True)
    begun = time.process_time()
    while time.process_time() < begun + 0.1:
        pass
    return "done"
import sys
print(attempt(act, seconds=2))
"""


@pytest.mark.skipif(not hasattr(signal, "SIGSTOP"), reason="no such signal here")
def test_time_in_which_a_process_may_not_run_does_not_count():
    """As on a machine that is far too busy: the process is paused for longer than its limit."""
    process = subprocess.Popen([sys.executable, "-c", STOPPED], stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "running\n"
    process.send_signal(signal.SIGSTOP)
    time.sleep(4)
    process.send_signal(signal.SIGCONT)
    assert process.communicate()[0] == "'done'\n"

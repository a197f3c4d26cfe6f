"""Code that is run apart: whatever it starts, and however it or its judge ends, nothing keeps running."""

import contextlib
import glob
import os
import queue
import signal
import subprocess
import sys
import textwrap
import threading
import time
import uuid

import pytest
from project import ROOT

from minikv.testing import apart

BOMB = """
    with open("ids", "a") as file:
        file.write(f"{os.getpid()}\\n")
    if len(open("ids").readlines()) < 30:
        FORK()
"""
DAEMON = """
import os, subprocess, sys
def judge(say):
    for fork in FORKS:
        if fork() == 0:
            libc.setsid()
            if fork() == 0:
                libc.sleep(600)
            os._exit(0)
    own = "import os, time; os.setsid(); os.fork() and os._exit(0); os.setsid(); os.fork() and os._exit(0); "
    subprocess.Popen([sys.executable, "-c", own + "open('ready', 'w'); time.sleep(600)"])
    while not os.path.exists("ready"):
        pass
"""
HEAD = "import ctypes, os, subprocess, time\nlibc = ctypes.CDLL(None)\n"


class Apart:
    """A folder with code in it, and a mark in the environment of every process that this code starts."""

    def __init__(self, folder):
        self.folder, self.mark = folder, f"MINIKV_MARK_{uuid.uuid4().hex}"

    def write(self, text):
        (self.folder / "theirs.py").write_text(HEAD + text, "utf-8")

    def run(self, text, **limits):
        self.write(text)
        return list(apart.messages_apart("theirs:judge", **limits))

    def left(self):
        """The processes that have the mark, but for this one, which began without it."""
        found = []
        for file in glob.glob("/proc/[0-9]*/environ"):
            with contextlib.suppress(OSError), open(file, "rb") as environment:
                if self.mark.encode() in environment.read():
                    found.append(int(file.split("/")[2]))
        return found

    def soon(self, is_so, seconds=60):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if is_so():
                return True
            time.sleep(0.05)
        return False

    def end(self):
        for _ in range(100):
            for pid in (found := self.left()):
                with contextlib.suppress(OSError):
                    os.kill(pid, signal.SIGKILL)
            if not found:
                return


@pytest.fixture
def theirs(tmp_path, monkeypatch):
    if sys.platform != "linux":
        pytest.skip("only Linux says who descends from whom")
    made = Apart(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv(made.mark, "1")
    yield made
    made.end()


def test_a_child_of_a_fork_ends_at_once(theirs):
    """Each would return into the judge, say the rest too, and fork again."""
    said = theirs.run(
        "def judge(say):\n    for number in range(4):\n        say(doing=[number])\n"
        + textwrap.indent(BOMB.replace("FORK", "os.fork"), "    ")
    )
    assert said == [{"doing": [number]} for number in range(4)]
    assert len({*(theirs.folder / "ids").read_text().split()}) == 1
    assert theirs.left() == []


def test_a_bomb_that_forks_in_c_is_counted_and_ended(theirs, monkeypatch):
    monkeypatch.setattr(apart, "MOST_PROCESSES", 10)
    bomb = textwrap.indent(BOMB.replace("FORK", "libc.fork"), "    ")
    said = theirs.run(f"def judge(say):\n    for _ in range(5):\n{bomb}    time.sleep(600)\n")
    assert said == [{"end": "started more than 10 processes"}]
    assert 10 < len({*(theirs.folder / "ids").read_text().split()}) < 80
    assert theirs.left() == []


@pytest.mark.parametrize("forks", ["[]", "[os.fork]", "[libc.fork]"])
def test_what_leaves_its_group_and_its_parent_is_found(theirs, forks):
    assert theirs.run(DAEMON.replace("FORKS", forks)) == []
    assert theirs.left() == []


def test_when_the_keeper_is_killed_the_judge_ends_too(theirs):
    keeper = "int(open(f'/proc/{os.getppid()}/stat').read().rpartition(')')[2].split()[1])"
    said = theirs.run(f"def judge(say):\n    os.kill({keeper}, 9)\n    time.sleep(600)\n")
    assert said == [{"end": "ends with status -9"}]
    assert theirs.soon(lambda: not theirs.left())


def test_the_group_is_ended_where_the_system_names_no_descendants(theirs, monkeypatch):
    monkeypatch.setattr(apart, "_descendants", lambda above: {})
    leader = subprocess.Popen(["sh", "-c", "sleep 600 & wait"], start_new_session=True)
    assert theirs.soon(lambda: len(theirs.left()) == 2)
    apart._end_all(leader.pid)
    assert theirs.soon(lambda: leader.poll() is not None and not theirs.left(), seconds=10)


STARTS = "subprocess.Popen(['sleep', '600'], start_new_session=True)"


@pytest.mark.parametrize(
    ("does", "end"),
    [
        ("os._exit(7)", "ends with status 7"),
        ("os.kill(os.getpid(), 11)", "ends with status -11"),
        ("os.kill(os.getpid(), 15)", "ends with status -15"),
        ("1 / 0", "ends with status 1"),
        ("os.killpg(0, 9)", "ends with status -9"),
        (f"{STARTS}; os.kill(os.getppid(), 9); time.sleep(600)", "ends with status -9"),
        ("10 ** 10 ** 8", "computed for 1 seconds without a result"),
    ],
)
def test_the_end_is_that_of_the_judge_and_of_all_that_it_started(theirs, does, end):
    """Also where it kills its group or its parent: that is not the keeper."""
    assert theirs.run(f"def judge(say):\n    {does}\n", seconds=1) == [{"end": end}]
    assert theirs.left() == []


WAITS = f"""
def judge(say):
    say(doing=[])
    {STARTS}
    open("ready", "w")
    time.sleep(600)
"""


PRINTS = "from minikv.testing.apart import messages_apart as m\nprint(*m('theirs:judge'))"


@pytest.mark.parametrize(
    ("number", "command"),
    [
        (signal.SIGTERM, ["-m", "minikv", "classroom", "."]),
        (signal.SIGTERM, ["-m", "minikv", "verify", "theirs.py"]),
        (signal.SIGINT, ["-c", PRINTS]),
        (signal.SIGKILL, ["-c", PRINTS]),
    ],
    ids=["classroom", "verify", "SIGINT", "SIGKILL"],
)
def test_nothing_outlives_a_command_that_is_ended(theirs, number, command):
    theirs.write(WAITS + "\njudge(dict)\n" * (command[0] == "-m"))
    quiet = subprocess.DEVNULL
    process = subprocess.Popen([sys.executable, *command], stdout=quiet, stderr=quiet)
    try:
        assert theirs.soon((theirs.folder / "ready").exists)
        assert len(theirs.left()) == 5  # with the command
        process.send_signal(number)
        assert process.wait(60) != 0
        assert theirs.soon(lambda: not theirs.left())
    finally:
        process.kill()
        process.wait()


def test_nothing_outlives_messages_that_nobody_waits_for(theirs):
    theirs.write(WAITS)
    for message in apart.messages_apart("theirs:judge"):
        assert message == {"doing": []}
        break
    assert theirs.soon(lambda: not theirs.left())


def test_a_flood_of_messages_fills_no_memory(theirs, monkeypatch):
    lines = []
    monkeypatch.setattr(queue.Queue, "put", watched(queue.Queue.put, lines))
    before = threading.active_count()
    theirs.write("def judge(say):\n    while True:\n        os.write(OUT, b'{}\\n' * 10_000)\n".replace("OUT", "3"))
    messages = apart.messages_apart("theirs:judge")
    assert next(messages) == {}
    time.sleep(1)
    assert len(lines) <= apart._MOST_WAITING + 2
    messages.close()
    assert theirs.left() == []
    assert theirs.soon(lambda: threading.active_count() <= before)


def watched(act, calls):
    def watching(*args):
        calls.append(1)
        return act(*args)

    return watching

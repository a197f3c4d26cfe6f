"""Judging somebody else's code in a process of its own, which may print, hang, exit or die without harm.

The process says in lines of JSON what it does, and at the end that it is finished. A loop in Python ends by the limit
of one operation; this is for what no limit reaches: a call into C that never returns, a crash. What counts is the time
that the process computes, because on a busy machine the best of code may say nothing for a minute. `minikv classroom`
judges students' files in the same way.

    this process - pipes - keeper - between - judge - whatever the code starts

However this process ends, the keeper sees its pipe close, and ends all the others. A fork of the judge ends at once,
and code that kills its parent kills the process between. On Linux the keeper also ends what has left the group, since
it adopts what loses its parent, and allows `MOST_PROCESSES` descendants at a time. On macOS it ends the group, and on
Windows, which has no keeper, only the judge ends. The code has the same rights as this process, so it can do harm on
purpose, such as ending the keeper by its id. The keeper runs this file as a script: it must not import `minikv`.
"""

from __future__ import annotations

import ctypes
import glob
import importlib
import importlib.util
import json
import os
import queue
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

MOST_COMPUTING = 60  # seconds of CPU time without a message, where the system can limit that
PATIENCE = 5  # and so many times as many seconds while it waits
MOST_BYTES = 8 * 2**30  # of memory
MOST_PROCESSES = 64  # at a time
_MORE_TASKS = 1000  # threads count too, and other programs start some
_MOST_LETTERS = 2**20  # in a message
_MOST_WAITING = 100  # messages
_TOO_MANY = 128  # the status that says so, beside those of signals
_TICK = 0.5  # seconds between two looks at the processes
_CAN_FORK = hasattr(os, "fork")
_encode, _exit = json.JSONEncoder().encode, os._exit  # as they are before anybody else's code is imported
Message = dict[str, Any]
Say = Callable[..., None]  # sends a message, whose parts are the arguments


def messages_apart(
    judge: str, *arguments: str, most_bytes: int | None = None, seconds: int = MOST_COMPUTING
) -> Iterator[Message]:
    """Yield what `judge`, "module:function", says in a process of its own, and how that ends if it does not finish.

    The function is called with a `Say` and the `arguments`. Between two messages it may compute for so many `seconds`,
    or wait for `PATIENCE` times as many. In such a process nobody's marks and answers are recorded,
    and sets always have the same order.

    >>> list(messages_apart("minikv.testing.verify:judge_classes", "no_such_file.py", "", "", ""))
    [{'error': 'ImportError: there is no such file'}]
    """
    limits = map(str, (MOST_PROCESSES, most_bytes or MOST_BYTES, seconds))
    command = [sys.executable, __file__, *limits, judge, *arguments]
    nobodys = dict.fromkeys(("MINIKV_MINE", "MINIKV_PROGRESS", "HYPOTHESIS_STORAGE_DIRECTORY"), os.devnull)
    environment = {**os.environ, **nobodys, "PYTHONHASHSEED": "0"}
    pipe = subprocess.PIPE
    process = subprocess.Popen(
        command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, env=environment, start_new_session=True
    )
    said: queue.Queue[bytes] = queue.Queue(_MOST_WAITING)
    threading.Thread(target=_listen, args=(process.stdout, said), daemon=True).start()
    try:
        while line := _next_line(process, said, PATIENCE * seconds):
            message = _parsed(line)
            if "finished" in message:
                return
            yield message
        silent = f"was silent for {PATIENCE * seconds} seconds (it may be waiting, or this machine is busy)"
        yield {"end": silent if line is None else _end_of(process, seconds)}
    finally:
        _end(process, said)


def load_module(target: str) -> ModuleType:
    """The module that `target` names: a file that ends in .py, or a module, looked for in the current folder too.

    Raises `ImportError` when there is none, and whatever the module itself raises.

    >>> load_module("minikv.prefix").__name__
    'minikv.prefix'
    """
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    if not (target.endswith(".py") or target.startswith(".") or os.sep in target or os.path.isfile(target)):
        return importlib.import_module(target)
    path = Path(target).absolute()
    if not path.is_file():
        raise ImportError("there is no such file")
    name = f"{path.stem}_to_verify" if path.stem in sys.modules else path.stem
    sys.path.insert(0, str(path.parent))
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ImportError("it is not a Python file: its name must end in .py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def _end(process: Any, said: queue.Queue[bytes]) -> None:
    """Let the keeper end all that is left, and hear it out."""
    process.stdin.close()
    with suppress(subprocess.TimeoutExpired):
        process.wait(10 * _CAN_FORK)
    process.kill()
    process.wait()
    with suppress(queue.Empty):
        while said.get(timeout=1):
            pass


def _listen(stream: Any, said: queue.Queue[bytes]) -> None:
    while line := stream.readline(_MOST_LETTERS):
        said.put(line)
    said.put(b"")


def _next_line(process: Any, said: queue.Queue[bytes], seconds: int) -> bytes | None:
    """The next line that the process says; an empty one at its end, `None` where it only waits for too long.

    A second in which it computes anything does not count, nor one in which this process could not look.
    """
    before, left = "", seconds
    while left:
        is_over = process.poll() is not None
        with suppress(queue.Empty):
            return said.get(timeout=1)
        if is_over:  # a process that it left running holds the pipe
            return b""
        now = str(_descendants(process.pid))
        left, before = left - (now == before), now
    return None


def _descendants(above: int) -> dict[int, list[str]]:
    """The processes below one, by their ids, and how much each has computed; none where the system does not tell."""
    stats = {}
    for file in glob.glob("/proc/[0-9]*/stat"):
        with suppress(OSError), open(file, encoding="utf-8", errors="replace") as text:
            stats[int(file.split("/")[2])] = text.read().rpartition(")")[2].split()
    found: dict[int, list[str]] = {}
    parents = {above}
    while parents:
        parents = {pid for pid, stat in stats.items() if int(stat[1]) in parents and pid not in found}
        found |= {pid: stats[pid][11:13] for pid in parents}
    return found


def _parsed(line: bytes) -> Message:
    """A line as a message, an empty one where it is none: anybody's code may write to our pipe."""
    kinds = {"error": str, "classes": list, "doing": list, "rules": list, "note": str, "judged": dict, "finished": bool}
    with suppress(ValueError):
        message = json.loads(line)
        if isinstance(message, dict) and all(type(value) is kinds.get(key) for key, value in message.items()):
            return message
    return {}


def _end_of(process: Any, seconds: int) -> str:
    try:
        status = process.wait(10)
    except subprocess.TimeoutExpired:
        return "closes the pipe to its judge"
    if status == _TOO_MANY:
        return f"started more than {MOST_PROCESSES} processes"
    if _TOO_MANY < status < 256:
        status -= 256  # the number of a signal, as the keeper can say it
    if status == -24:  # SIGXCPU
        return f"computed for {seconds} seconds without a result"
    return f"ends with status {status}"


def serve() -> None:
    """The keeper: start the judge, and end all that it has started when it ends, or the process that asked for it."""
    if not _CAN_FORK:
        _exit(_judge())
    _prctl(36, 1)  # PR_SET_CHILD_SUBREAPER: what loses its parent becomes a child of this process
    leader, ended, status = _start(_between), 0, 0
    while not (ended or select.select([0], [], [], _TICK)[0]):
        ended, status = os.waitpid(leader, os.WNOHANG)
        if len(_descendants(os.getpid())) > int(sys.argv[1]):
            ended, status = leader, _TOO_MANY << 8
    _end_all(leader)
    _exit(os.waitstatus_to_exitcode(status) % 256)


def _start(act: Callable[[], int]) -> int:
    """The id of a new process that ends with the status of `act`, and with its parent where the system has that."""
    if child := os.fork():
        return child
    try:
        _prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG: when its parent ends
        _exit(act())  # whatever threads are left
    finally:
        _exit(1)


def _between() -> int:
    """The parent that the judge sees: it leads the group, and ends as the judge does."""
    os.setsid()
    _, status = os.waitpid(_start(_judge), 0)
    return os.waitstatus_to_exitcode(status) % 256


def _end_all(leader: int) -> None:
    """End the group of `leader`, and descendants until there is none: they may start others meanwhile."""
    with suppress(OSError):
        os.killpg(leader, signal.SIGKILL)
    while found := _descendants(os.getpid()):
        for pid in found:
            with suppress(OSError):
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, os.WNOHANG)


def _prctl(option: int, value: int) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(option, *map(ctypes.c_ulong, (value, 0, 0, 0)))


def _judge() -> int:
    """Call the judge that the command line names, which says things on standard output; return the status."""
    out = os.dup(1)
    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in range(3):
        os.dup2(nowhere, stream)
    if _CAN_FORK:
        os.register_at_fork(after_in_child=partial(_exit, 1))

    def say(**message: Any) -> None:
        _limit("CPU", int(time.process_time()) + int(seconds))
        os.write(out, f"{_encode(message)}\n".encode())

    most_bytes, seconds, judge, *arguments = sys.argv[2:]
    _limit("CPU", int(seconds))
    _limit("DATA", int(most_bytes))
    _limit("NPROC", len(glob.glob("/proc/[0-9]*/task/*")) + _MORE_TASKS)
    try:
        threading.Thread(target=int).start()
    except RuntimeError:  # the user has others out of sight
        _limit("NPROC", -1)
    sys.path[0] = ""  # in place of this folder
    module, _, name = judge.partition(":")
    getattr(importlib.import_module(module), name)(say, *arguments)
    say(finished=True)
    return 0


def _limit(what: str, most: int) -> None:
    """Limit what this process may use, where the system can."""
    with suppress(ImportError, OSError, ValueError):
        import resource

        number = getattr(resource, f"RLIMIT_{what}")
        hard = resource.getrlimit(number)[1]
        resource.setrlimit(number, (hard if most < 0 else most, hard))


if __name__ == "__main__":
    serve()

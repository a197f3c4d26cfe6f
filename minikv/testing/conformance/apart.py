"""Judging somebody else's code in a process of its own, which may print, hang, exit or die without harm.

The process says in lines of JSON what it does, and at the end that it is finished. A loop in Python ends by the limit
of one operation; this is for what no limit reaches: a call into C that never returns, a crash. What counts is the time
that the process computes, because on a busy machine the best of code may say nothing for a minute. `minikv classroom`
judges students' files in the same way.
"""

from __future__ import annotations

import importlib
import json
import os
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

MOST_COMPUTING = 60  # seconds of CPU time without a message, where the system can limit that
PATIENCE = 5  # and so many times as many seconds while it waits
MOST_BYTES = 8 * 2**30  # of memory
_MOST_LETTERS = 2**20  # in a message
_SERVE = "from minikv.testing.conformance.apart import serve; serve()"
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

    >>> list(messages_apart("minikv.testing.conformance.examine:judge_classes", "no_such_file.py", "", "", ""))
    [{'error': 'ImportError: there is no such file'}]
    """
    command = [sys.executable, "-c", _SERVE, str(most_bytes or MOST_BYTES), str(seconds), judge, *arguments]
    nobodys = dict.fromkeys(("MINIKV_MINE", "MINIKV_PROGRESS", "HYPOTHESIS_STORAGE_DIRECTORY"), os.devnull)
    environment = {**os.environ, **nobodys, "PYTHONHASHSEED": "0"}
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL, env=environment
    )
    said: queue.Queue[bytes] = queue.Queue()
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
        process.kill()
        process.wait()


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
        now = _computing(process)
        left, before = left - (now == before), now
    return None


def _computing(process: Any) -> str:
    """How much the process has computed, where the system tells: the text changes with it."""
    try:
        with open(f"/proc/{process.pid}/stat", encoding="utf-8") as file:
            return " ".join(file.read().rpartition(")")[2].split()[11:13])
    except OSError:
        return ""


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
    if status == -24:  # SIGXCPU
        return f"computed for {seconds} seconds without a result"
    return f"ends with status {status}"


def serve() -> None:
    """The other process: call the judge that the command line names, which says things on standard output."""
    out = os.dup(1)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)

    def say(**message: Any) -> None:
        _limit("CPU", int(time.process_time()) + int(seconds))
        os.write(out, f"{_encode(message)}\n".encode())

    most_bytes, seconds, judge, *arguments = sys.argv[1:]
    status = 1
    try:
        _limit("CPU", int(time.process_time()) + int(seconds))
        _limit("DATA", int(most_bytes))
        module, _, name = judge.partition(":")
        getattr(importlib.import_module(module), name)(say, *arguments)
        say(finished=True)
        status = 0
    finally:
        _exit(status)  # whatever threads are left


def _limit(what: str, most: int) -> None:
    """Limit what this process may use, where the system can."""
    with suppress(ImportError, OSError, ValueError):
        import resource

        number = getattr(resource, f"RLIMIT_{what}")
        resource.setrlimit(number, (most, resource.getrlimit(number)[1]))

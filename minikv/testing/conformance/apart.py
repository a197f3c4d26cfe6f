"""Judging somebody else's code in a process of its own, which may print, hang, exit or die without harm.

The process says in lines of JSON what it does, so that it can be told when it does nothing any more. A loop in Python
ends by the limit of one operation; this is for what no limit reaches: a call into C that never returns, a crash.
"""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any

from minikv.testing.conformance.locate import classes_in, load
from minikv.testing.conformance.report import NOT_CLAIMED, NOT_JUDGED, Conformance, RuleVerdict
from minikv.testing.conformance.subject import bounded_text, claimed
from minikv.testing.conformance.verifying import RULES, verify

SILENCE = 60.0  # seconds without a word after which the process counts as hanging
_SERVE = "from minikv.testing.conformance.apart import serve; serve()"
Message = dict[str, Any]


class NothingToJudgeError(ValueError):
    """There is no such module or class, or it cannot be imported; the message says why."""


def verify_apart(target: str, name: str = "", examples: int | None = None) -> Iterator[Conformance]:
    """The verdicts on the class `name` of a file or a module, or on each class there that can be judged.

    `examples` is how many scenarios Hypothesis makes for each. Raises `NothingToJudgeError` where there is no class to
    judge. Whatever the code does, it does in another process.

    >>> [each.name for each in verify_apart("minikv.prefix", "NoCache", examples=0)]
    ['NoCache']
    """
    about: Message = {}
    last: list[str] = []
    for message in _messages(target, name, "" if examples is None else str(examples)):
        if "error" in message:
            raise NothingToJudgeError(message["error"])
        if "class" in message:
            about, last = message, []
        elif "doing" in message:
            last = message["doing"]
        elif "rules" in message:
            yield Conformance(about["class"], tuple(map(_verdict, message["rules"])))
            about = {}
        elif about:
            yield _unjudged(about, last, message["end"])
        elif message["end"] != _DONE:
            raise NothingToJudgeError(f"its import {message['end']}")


_DONE = "is done"


def _verdict(told: Message) -> RuleVerdict:
    script = told["script"].split("\n") if told["script"] else ()
    return RuleVerdict(told["rule"], told["name"], told["state"], tuple(script))


def _unjudged(about: Message, last: list[str], end: str) -> Conformance:
    """The report on a class during which the process ended."""
    rules = RULES[about["kind"]].items()
    verdicts = [RuleVerdict(n, name, NOT_JUDGED if n in about["claims"] else NOT_CLAIMED) for n, name in rules]
    note = "\n".join([f"the process {end} in these lines:", *(f"    {line}" for line in last), ""])
    return Conformance(about["class"], tuple(verdicts), note)


def _messages(*arguments: str) -> Iterator[Message]:
    """What the other process says, and at the end how it ended."""
    command = [sys.executable, "-c", _SERVE, *arguments]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL)
    said: queue.Queue[bytes] = queue.Queue()
    threading.Thread(target=_listen, args=(process.stdout, said), daemon=True).start()
    try:
        while line := said.get(timeout=SILENCE):
            yield json.loads(line)
        status = process.wait()
        yield {"end": _DONE if status == 0 else f"ends with status {status}"}
    except queue.Empty:
        yield {"end": f"says nothing for {SILENCE:g} seconds"}
    finally:
        process.kill()
        process.wait()


def _listen(stream: Any, said: queue.Queue[bytes]) -> None:
    for line in stream:
        said.put(line)
    said.put(b"")


def serve() -> None:
    """The other process: judge the classes that the command line names, and say so on standard output."""
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)

    def say(**message: Any) -> None:
        print(json.dumps(message), file=out, flush=True)

    target, name, examples = sys.argv[1:4]
    try:
        module = load(target)
        classes = classes_in(module, name)
        claims = {title: _claims(title, kind, made) for title, (kind, made) in classes.items()}
    except BaseException as error:  # an import may raise anything
        words = bounded_text(error, 200)
        say(error=words if type(error) in (LookupError, NothingToJudgeError) else f"{type(error).__name__}: {words}")
        return
    how = int(examples) if examples else None
    for title, (kind, made) in classes.items():
        say(**{"class": title, "kind": kind, "claims": claims[title]})
        found = verify(made, kind, module.__name__, how, lambda scenario: say(doing=scenario.lines))
        say(rules=[each.as_json() for each in found.verdicts])


def _claims(title: str, kind: str, made: Any) -> list[int]:
    """The rules that a class claims, or an error that names the class."""
    try:
        return sorted(claimed(made, RULES[kind]))
    except ValueError as error:
        raise NothingToJudgeError(f"{title}: {error}") from None

"""A check for tests: does a prompt builder make the same prompt at another time, and in another process?"""

from __future__ import annotations

import json
import os
import pickle
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from copy import copy
from itertools import count, repeat
from typing import Any

from minikv.errors import bounded, whole_number
from minikv_tools.bodies import Body
from minikv_tools.why import builder_process, differing_places, explain
from minikv_tools.why.changes import KINDS, change_between
from minikv_tools.why.places import as_body
from minikv_tools.why.texts import shared_length

LATER = 400 * 86400 + 19_043  # seconds: another year, month, day, weekday, hour, minute and second
_TWICE = "when it is called twice"
_LATER = "when it is called later"
_ELSEWHERE = "in another process, which starts later and has a different hash seed"
_Call = tuple[str, float, bytes]  # what is different about it, the seconds by which it is later, its arguments


def assert_prefix_stable(
    build: str | Callable[..., Any],
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    *,
    unordered: Sequence[str] = (),
    until: str | None = None,
    later: float = LATER,
    seeds: int = 8,
    timeout: int = 120,
) -> None:
    """Call a prompt builder again and again, and raise `AssertionError` if it does not always build the same prompt.

    `build` is "module:function", or a function that can be imported under its name. It returns the text of a prompt, a
    list of messages, or a request body, or yields messages, and may be a coroutine. It is called in processes of its
    own: twice with the same arguments, `later` seconds later, with each argument that `unordered` names in up to three
    other orders, and in other processes with other hash seeds, so that sets have another order. Two strings in a set
    come in the same order in half of all processes; `seeds` is how many are tried. What a test patches is not patched
    there.

    `until` is a text that is in the prompt once, such as the user's question: only what comes before it must be the
    same. With `later=3600` a prompt may name the day. A clock that is not Python's, such as numpy's, or that does not
    show the time of day, such as `time.monotonic`, is not set. A process may take `timeout` seconds.

    `ValueError` and `TypeError` say what is wrong with an argument or a prompt, `RuntimeError` how the builder failed.

    >>> assert_prefix_stable("textwrap:dedent", ["  Be brief."], seeds=2)
    >>> assert_prefix_stable("time:ctime", seeds=2)
    Traceback (most recent call last):
    AssertionError: time:ctime builds a different prompt (B) when it is called later.
    ...
    """
    __tracebackhide__ = True
    name = _name_of(build)
    whole_number("seeds", seeds, 2, "a set has the same order in one process")
    whole_number("timeout", timeout, 1, "a process takes at least 1 second")
    jobs = _jobs(args, kwargs or {}, unordered, later, seeds)
    (_, one), *others = _prompts(name, jobs, timeout)
    _end(one, until)
    for how, two in others:
        if words := _miss(one, two, until, how):
            daily = " If it may change from day to day, test it with later=3600." * (how == _LATER and later > 3600)
            raise AssertionError(f"{name} builds a different prompt (B) {how}.\n{words}{daily}")


def _name_of(build: str | Callable[..., Any]) -> str:
    """The name under which another process can import a builder."""
    name = build if isinstance(build, str) else f"{build.__module__}:{getattr(build, '__qualname__', build)}"
    if not re.fullmatch(r"(?!__main__:)[\w.]+:[\w.]+", name):
        rule = "expected 'module:function', or a function at the top of a module"
        raise ValueError(f"build is {bounded(name)}, which another process cannot import: {rule}")
    return name


def _jobs(args: Any, kwargs: Mapping[str, Any], unordered: Any, later: float, seeds: int) -> list[list[_Call]]:
    """The calls of each process; those with another order come last: a set in the prompt changes with it too."""
    for what, given in ("args", args), ("unordered", unordered):
        if isinstance(given, str):
            raise TypeError(f"{what} is {bounded(given)}: expected a list")
    same = _pickled(args, kwargs)
    jobs = [[(_ELSEWHERE, later, same)] for _ in range(seeds)]
    jobs[0] = [("", 0.0, same), (_TWICE, 0.0, same), (_LATER, later, same)]
    for name in unordered:
        value = kwargs.get(name)
        if not isinstance(value, (dict, list, tuple, set, frozenset)):
            rule = "expected an argument in kwargs that is a dict, a list, a tuple or a set"
            raise ValueError(f"unordered names {bounded(name)}: {rule}")
        for other in _reordered(value):
            arguments = _pickled(args, {**kwargs, name: other})
            jobs[-1].append((f"when {name} is in another order", later, arguments))
    return jobs


def _reordered(value: Any) -> Iterator[Any]:
    """Copies of an argument in other orders: in one of them, a prompt may begin with the same by chance."""
    items = list(value)
    places = [*range(len(items))]
    for order in dict.fromkeys(map(tuple, (places[::-1], places[1:] + places[:1], places[1::2] + places[::2]))):
        if isinstance(value, dict):
            other = copy(value)
            for place in order:
                other[items[place]] = other.pop(items[place])
            yield other
        else:
            yield type(value)(items[place] for place in order)


def _pickled(args: Any, kwargs: Mapping[str, Any]) -> bytes:
    """The arguments for another process, or `TypeError` names the one that cannot get there."""
    for name, value in [*enumerate(args), *kwargs.items()]:
        try:
            pickle.dumps(value)
        except Exception:
            rule = "which cannot be sent to another process: create it in the builder"
            raise TypeError(f"argument {name!r} is {bounded(value)}, {rule}") from None
    return pickle.dumps((args, kwargs))


def _prompts(name: str, jobs: list[list[_Call]], timeout: int) -> Iterator[tuple[str, Body]]:
    """Yield for each call what is different about it, and the prompt; each job is a process."""
    __tracebackhide__ = True
    with ThreadPoolExecutor(os.cpu_count()) as threads:
        answers = list(threads.map(_answer, repeat(name), jobs, count(1), repeat(timeout)))
    for calls, answer in zip(jobs, answers):
        if isinstance(answer, str):
            raise RuntimeError(f"{name} failed in a separate process:\n{answer}")
        for call, prompt in zip(calls, answer):
            yield call[0], as_body(json.loads(prompt))


def _answer(name: str, calls: list[_Call], seed: int, timeout: int) -> Any:
    """The prompts that a process with this hash seed builds, or the text of an error."""
    path = [os.path.abspath(folder) for folder in sys.path]
    asked = pickle.dumps((path, name, [call[1:] for call in calls], timeout))
    environment = {**os.environ, "PYTHONHASHSEED": str(seed)}
    command = [sys.executable, builder_process.__file__]
    done = subprocess.run(command, input=asked, env=environment, capture_output=True, check=False)
    said = done.stderr.decode(errors="replace")[-2000:]
    return json.loads(done.stdout) if done.stdout else f"{said}(it ended with status {done.returncode})"


def _miss(one: Body, two: Body, until: str | None, how: str) -> str:
    """The explanation, if the second prompt would miss the cache of the first.

    That a provider caches no short prompt does not matter here, so its rules say only which breakpoint has moved.
    """
    found, same = explain(one, two), one.text == two.text
    kind = KINDS[found.change.kind if same and one.pieces != two.pieces else change_between(one, two).kind]
    parted = shared_length(one.text, two.text) < max(_end(one, until), _end(two, until))
    if not parted and one.namespace == two.namespace and (kind.harmless or not same):
        return ""
    if how == _LATER:
        kind = KINDS["clock"]
    elif kind.harmless:  # in other requests: here the advice follows what was different about the call
        kind = kind._replace(remedy=KINDS["random id" if how == _TWICE else "order"].remedy)
    return "\n".join([kind.says, "", *differing_places(found), f"What to do: {kind.remedy}"])


def _end(body: Body, until: str | None) -> int:
    """How many characters of a prompt must be the same."""
    if until is None:
        return len(body.text)
    if (times := body.text.count(until)) != 1:
        raise ValueError(f"until is {bounded(until)}, which is in the prompt {times} times: expected once")
    return body.text.index(until)

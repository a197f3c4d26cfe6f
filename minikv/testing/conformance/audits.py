"""Rules that no single scenario shows: an audit that audits, the same result every time, and sizes that are O(1)."""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator, Mapping
from types import FrameType
from typing import Any

from minikv.testing.attempt import TooLong, attempt
from minikv.testing.conformance.caches import SIZES, CacheRun
from minikv.testing.conformance.cases import CASES
from minikv.testing.conformance.generate import fewest_lines
from minikv.testing.conformance.script import Before, Breach, Scenario, is_named, scenario_of
from minikv.testing.conformance.subject import Subject

_TWICE = [  # and how many pages are then cached
    (2, scenario_of("cache.insert([1, 2], [5, 5])")),
    (4, scenario_of("cache.insert([1, 2], [4, 5])", "cache.insert([7, 8], [5, 6])")),
    (3, scenario_of("cache.insert([1, 2], [4, 5])", "cache.insert([1, 2, 3], [0, 0, 4])")),
]
_FEW, _MANY = 4, 64  # prompts


def missed_by_check(subject: Subject) -> Breach | None:
    """Rule 12: `check` finds a page that is cached twice, and a size that is wrong.

    >>> from minikv import RadixCache
    >>> from minikv.testing.conformance.subject import subject_of
    >>> class Asleep(RadixCache):
    ...     def check(self):
    ...         pass
    >>> missed_by_check(subject_of(Asleep, range(1, 16))).words
    'says nothing, although a page is cached twice'
    """
    for settings in subject.settings:
        found = next(_missed_pages(subject, settings), None) or next(_missed_sizes(subject, settings), None)
        if found is not None:
            return found
    return None


def _missed_pages(subject: Subject, settings: Mapping[str, Any]) -> Iterator[Breach]:
    """Each time that `check` overlooks a page that is cached twice."""
    for expected, scenario in _TWICE:
        run = CacheRun(subject, 1, settings)
        replies = [run.stage.step(line) for line in scenario.lines]
        done = [reply.value for reply in replies if reply and not reply.error]
        if expected == sum(value["length"] - value["prefix_length"] for value in done):
            run.lines += scenario.lines
            yield from _silence(run, "a page is cached twice")


def _missed_sizes(subject: Subject, settings: Mapping[str, Any]) -> Iterator[Breach]:
    """Each counter that `check` does not add up again: one on which a size hangs, and which is one too high now."""
    scenario = scenario_of("cache.insert([1, 2], [4, 5])")
    empty = getattr(CacheRun(subject, 1, settings).index, "__dict__", {}).items()
    for name in sorted(name for name, value in empty if type(value) is int):
        run = CacheRun(subject, 1, settings)
        run.stage.step(scenario.lines[0])
        before, value = _sizes(run), getattr(run.index, name)
        if value == dict(empty)[name]:  # it does not count anything
            continue
        setattr(run.index, name, value + 1)
        if before is not None and _sizes(run) not in (None, before):
            run.lines += [*scenario.lines, f"cache.{name} += 1"]
            yield from _silence(run, "a size is wrong now")


def _sizes(run: CacheRun) -> Any:
    return attempt(lambda: [getattr(run.index, name) for name in SIZES]).value


def _silence(run: CacheRun, wrong: str) -> Iterator[Breach]:
    """Return the complaint about a `check` that does not report a fault as it must."""
    reply = attempt(lambda: run.index.check())
    if not any(is_named(reply.error, name) for name in ("InvariantError", "AssertionError")):
        run.lines.append("cache.check()")
        said = "says nothing" if reply.error is None else reply.in_words
        yield run.end(12, f"{said}, although {wrong}")


def false_alarm(subject: Subject, before: Before = lambda scenario: None) -> Breach | None:
    """Rule 12, the other half: where every other rule holds, `check` has nothing to say.

    >>> from minikv import RadixCache
    >>> from minikv.testing.conformance.subject import subject_of
    >>> class Nervous(RadixCache):
    ...     def check(self):
    ...         assert not self.protected_size
    >>> false_alarm(subject_of(Nervous, range(1, 16))).words
    'raises AssertionError, although nothing is wrong'
    """
    for scenario in (each for cases in CASES.values() for each in cases):
        for settings in subject.settings if scenario.page_size in subject.page_sizes else ():
            before(scenario)
            run = CacheRun(subject, scenario.page_size, settings)
            for line in scenario.lines:
                if run.step(line) is not None:
                    break
                if (error := attempt(lambda run=run: run.index.check()).error) is not None:
                    run.lines.append("cache.check()")
                    return run.end(12, f"raises {type(error).__name__}, although nothing is wrong")
    return None


def slow_sizes(subject: Subject) -> Breach | None:
    """Rule 7, its second half: reading the sizes takes as many steps with many prompts cached as with few.

    >>> from minikv import RadixCache
    >>> from minikv.testing.conformance.subject import subject_of
    >>> class Counting(RadixCache):
    ...     @property
    ...     def total_size(self):
    ...         return sum(len(node.tokens) for node in self.nodes())
    >>> "lines of Python with 4 prompts cached, and" in slow_sizes(subject_of(Counting, range(1, 16))).words
    True
    """
    run = CacheRun(subject, subject.page_sizes[0], subject.settings[0])
    counts = [_steps(run, prompts) for prompts in (range(_FEW), range(_FEW, _MANY))]
    if None in counts or counts[1] <= 2 * counts[0] + 20:  # type: ignore[operator]
        return None
    tokens = "[i]" if run.page_size == 1 else f"[i] * {run.page_size}"
    run.lines = [f"for i in range({_MANY}): cache.insert({tokens}, [i])", f"[cache.{', cache.'.join(SIZES)}]"]
    words = f"takes {counts[0]} lines of Python with {_FEW} prompts cached, and {counts[1]} with {_MANY}"
    return run.end(7, words)


def _steps(run: CacheRun, prompts: range) -> int | None:
    """Return how many lines of Python run while the sizes are read, once these prompts are cached as well."""
    count = 0

    def trace(frame: FrameType, event: str, arg: Any) -> Any:
        nonlocal count
        count += event == "line"
        return trace

    def act() -> None:
        for prompt in prompts:
            run.index.insert([prompt] * run.page_size, [prompt])
        before = sys.gettrace()
        sys.settrace(trace)
        try:
            _ = [getattr(run.index, name) for name in SIZES]
        finally:
            sys.settrace(before)

    return None if attempt(act).error is not None else count


_ROUNDS = 30


class Named(str):
    """A namespace whose hash can be chosen: the `number` that it is given."""

    number = 0

    def __hash__(self) -> int:
        return self.number


def repeats(subject: Subject, before: Before = lambda scenario: None) -> Breach | None:
    """Return where a cache answers differently the second time, with the shortest operations that show it.

    >>> from minikv import RadixCache
    >>> from minikv.testing.conformance.subject import subject_of
    >>> repeats(subject_of(RadixCache, range(1, 16)))
    """
    for settings in subject.settings:

        def shown_by(lines: list[str], settings: Mapping[str, Any] = settings) -> list[str] | None:
            before(Scenario(tuple(lines)))
            end = _differs(subject, settings, lines)
            return None if end is None else lines[: end + 1]

        if (lines := shown_by(_lines(subject))) is not None:
            run = CacheRun(subject, 1, settings)
            run.lines = fewest_lines(lines, shown_by)
            words = "gives something else when the lines run again, with other random numbers and hashes"
            return run.end(13, words)
    return None


def _lines(subject: Subject) -> list[str]:
    """Operations with something of everything."""
    lines = []
    for i in range(_ROUNDS):
        tokens = [(i * k) % 5 for k in range(1, i % 7 + 2)]
        name, other = (f", namespace={'abc'[j]!r}" if 10 in subject.claims else "" for j in (i % 3, i % 2))
        pages = list(range(10 * i, 10 * i + len(tokens)))
        lines += [f"cache.insert({tokens}, {pages}{name})", f"cache.match_prefix({tokens[::-1]}{other})"]
        lines += ["cache.evict(3)"] if i % 5 == 4 else []
    return [*lines, "cache.evict(1000)"]


def _differs(subject: Subject, settings: Mapping[str, Any], lines: list[str]) -> int | None:
    """The first line that answers differently in one of three runs, the last of them after a reset."""
    run = CacheRun(subject, 1, settings)
    first = _answers(run, lines, 1)
    runs = [_answers(CacheRun(subject, 1, settings), lines, 2)]
    if 11 in subject.claims and run.stage.step("cache.evict(1000)") and run.stage.step("cache.reset()"):
        runs.append(_answers(run, lines, 3))
    for again in runs:
        for number, (one, other) in enumerate(zip(first, again)):
            if one != other:
                return number
    return None


def _answers(run: CacheRun, lines: list[str], seed: int) -> list[str]:
    """Return the answer of each line; `seed` decides the random numbers and the hashes of the namespaces."""
    random.seed(seed)
    names = run.stage.names["names"] = {name: Named(name) for name in "abc"}
    for name, number in zip(names, [(1, 2, 3), (3, 1, 2), (2, 3, 1)][seed - 1]):
        names[name].number = number
    answers = []
    for line in lines:
        before, _, name = line.partition("namespace=")
        reply = run.stage.step(f"{before}namespace=names[{name[:-1]}])" if name else line)
        answers.append(repr(reply and (reply.value, type(reply.error))))
        if reply is not None and isinstance(reply.error, TooLong):
            break
    return answers

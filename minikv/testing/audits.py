"""Rules that no single scenario shows: an audit that audits, the same result every time, and sizes that are O(1)."""

from __future__ import annotations

import itertools
import random
import sys
from collections.abc import Iterator
from types import FrameType
from typing import Any

from minikv.testing.attempt import TooLong, attempt
from minikv.testing.calls import Reply, is_named
from minikv.testing.cases import CASES
from minikv.testing.playing import ALL, SideBySide
from minikv.testing.rules import SIZES, Subject
from minikv.testing.scenarios import Breach, Scenario, fewest_lines
from minikv.testing.search import find_breach

_TWICE = [
    ["cache.insert([1, 2], [5, 5])"],
    ["cache.insert([1, 2], [4, 5])", "cache.insert([7, 8], [5, 6])"],
    ["cache.insert([1, 2], [4, 5])", "cache.insert([1, 2, 3], [0, 0, 4])"],
]
_FEW, _MANY = 4, 64  # prompts


def missed_by_check(subject: Subject) -> Breach | None:
    """Rule 12: `check` finds a page that is cached twice, and a size that is wrong.

    >>> from minikv import RadixCache
    >>> from minikv.testing.rules import subject_of
    >>> class Asleep(RadixCache):
    ...     def check(self):
    ...         pass
    >>> missed_by_check(subject_of(Asleep)).words
    'says nothing, although a page is cached twice'
    >>> class Asserts(RadixCache):
    ...     def check(self):
    ...         try:
    ...             super().check()
    ...         except Exception as error:
    ...             assert False, error
    >>> missed_by_check(subject_of(Asserts)) is None   # it says so in a way of its own
    True
    """
    for settings in subject.settings:
        for run, wrong in (*_pages_twice(subject, settings), *_wrong_sizes(subject, settings)):
            reply = run.world.step("cache.check()")
            if not is_named(reply.error, "InvariantError", "AssertionError"):
                run.lines.append("cache.check()")
                said = "says nothing" if reply.error is None else reply.in_words
                return run.end(12, f"{said}, although {wrong}")
    return None


def _pages_twice(subject: Subject, settings: Any) -> Iterator[tuple[SideBySide, str]]:
    """Caches in which a page is cached twice, if they take it."""
    for lines in _TWICE:
        run = SideBySide(subject, 1, settings)
        found = [run.step(line) for line in lines]
        numbers = [page.number for page in run.model.pages.values()]
        if not any(found) and len(set(numbers)) < len(numbers):
            yield run, "a page is cached twice"


def _wrong_sizes(subject: Subject, settings: Any) -> Iterator[tuple[SideBySide, str]]:
    """Caches in which a counter, on which a size hangs, is one too high."""
    line = "cache.insert([1, 2], [4, 5])"
    for name, none in sorted(getattr(SideBySide(subject, 1, settings).index, "__dict__", {}).items()):
        run = SideBySide(subject, 1, settings)
        run.world.step(line)
        before, value = attempt(run.sizes).value, getattr(run.index, name, none)
        if type(none) is type(value) is int and value != none and before is not None:  # else it counts nothing
            setattr(run.index, name, value + 1)
            if attempt(run.sizes).value not in (None, before):
                run.lines += [line, f"cache.{name} += 1"]
                yield run, "a size is wrong now"


class AuditedRun(SideBySide):
    """A run after each of whose steps the cache's own `check` has nothing to say."""

    def look_around(self, reply: Reply, expected: Reply) -> Breach | None:
        """Rule 12, the other half."""
        found = super().look_around(reply, expected)
        if found is None and (alarm := self.world.step("cache.check()")).error is not None:
            self.lines.append("cache.check()")
            return self.end(12, f"{alarm.in_words}, although nothing else is wrong")
        return found


def false_alarm(subject: Subject) -> Breach | None:
    """Rule 12, the other half: where every other rule holds, `check` has nothing to say.

    >>> from minikv import RadixCache
    >>> from minikv.testing.rules import subject_of
    >>> class Nervous(RadixCache):
    ...     def check(self):
    ...         assert not self.protected_size
    >>> false_alarm(subject_of(Nervous)).words
    'raises AssertionError, although nothing else is wrong'
    """
    for scenario in itertools.chain(*CASES.values()):
        if scenario.page_size in subject.page_sizes:
            found = find_breach(subject, scenario, set(), AuditedRun)
            if found and found.rule == 12:
                return found
    return None


def slow_sizes(subject: Subject) -> Breach | None:
    """Rule 7, its second half: reading the sizes takes as many steps with many prompts cached as with few.

    >>> from minikv import RadixCache
    >>> from minikv.testing.rules import subject_of
    >>> class Counting(RadixCache):
    ...     @property
    ...     def total_size(self):
    ...         return sum(len(node.tokens) for node in self.nodes())
    >>> "lines of Python with 4 prompts cached, and" in slow_sizes(subject_of(Counting)).words
    True
    """
    run, counts = SideBySide(subject, subject.page_sizes[0], subject.settings[0]), list[Any]()
    tokens = "[i]" if run.page_size == 1 else f"[i] * {run.page_size}"
    for prompts in (_FEW, _MANY):
        run.lines = [f"for i in range({prompts}): cache.insert({tokens}, [i])", f"[cache.{', cache.'.join(SIZES)}]"]
        run.world.step(run.lines[0])
        counts.append(attempt(lambda: _steps(run)).value)
    if None in counts or counts[1] <= 2 * counts[0] + 20:
        return None
    return run.end(7, f"takes {counts[0]} lines of Python with {_FEW} prompts cached, and {counts[1]} with {_MANY}")


def _steps(run: SideBySide) -> int:
    """Return how many lines of Python run while the sizes are read."""
    count = 0

    def trace(frame: FrameType, event: str, arg: Any) -> Any:
        nonlocal count
        count += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        _ = [getattr(run.index, name) for name in SIZES]
    finally:
        sys.settrace(before)
    return count


def repeats(subject: Subject) -> Breach | None:
    """Return where a cache answers differently the second time, with the shortest operations that show it.

    >>> from minikv import RadixCache
    >>> from minikv.testing.rules import subject_of
    >>> repeats(subject_of(RadixCache))
    """
    for settings in subject.settings:

        def shown_by(lines: list[str], settings: Any = settings) -> list[str] | None:
            subject.before(Scenario(tuple(lines)))
            one, other = (SideBySide(subject, 1, settings) for _ in range(2))
            if 11 in subject.claims:  # the other has seen it all, and forgets it
                _answers(other, [*lines, f"cache.evict({ALL})", "cache.reset()"], 3)
            pairs = zip(_answers(one, lines, 1), _answers(other, lines, 2))
            return next((lines[: n + 1] for n, (answer, again) in enumerate(pairs) if answer != again), None)

        if (lines := shown_by(_lines(subject))) is not None:
            run = SideBySide(subject, 1, settings)
            run.lines = fewest_lines(lines, shown_by)
            return run.end(13, "gives something else when the lines run again, with other random numbers and hashes")
    return None


def _lines(subject: Subject) -> list[str]:
    """Operations with something of everything."""
    lines = []
    for i in range(30):
        tokens = [(i * k) % 5 for k in range(1, i % 7 + 2)]
        name, other = (f", namespace={'abc'[j]!r}" * (10 in subject.claims) for j in (i % 3, i % 2))
        pages = list(range(10 * i, 10 * i + len(tokens)))
        lines += [f"cache.insert({tokens}, {pages}{name})", f"cache.match_prefix({tokens[::-1]}{other})"]
        lines += ["cache.evict(3)"] * (i % 5 == 4)
    return [*lines, f"cache.evict({ALL})"]


def _answers(run: SideBySide, lines: list[str], seed: int) -> list[Any]:
    """Return the answer of each line; `seed` decides the random numbers and the hashes of the namespaces."""
    random.seed(seed)
    named = type("Named", (str,), {"__hash__": lambda name: ord(name) * seed % 4})
    run.world.change = lambda verb, args, options: (args, {key: named(name) for key, name in options.items()})
    answers = list[Any]()
    for reply in map(run.world.step, lines):
        answers.append((reply.value, type(reply.error)))
        if isinstance(reply.error, TooLong):
            break
    return answers

"""Rule 13: the same operations give the same cache, on any machine and after a reset.

The operations run twice, with other random numbers and with namespaces whose hashes are in another order, as those of
texts are in every process. All answers must be the same, pages in the same order included.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

from minikv.testing.conformance.judging import Mismatch
from minikv.testing.conformance.playing import Breach, SideBySide
from minikv.testing.conformance.subject import Subject
from minikv.testing.time_limit import TooLong

_ROUNDS = 30


class Named:
    """A namespace with a name, and with a hash that can be chosen; it is shown as its name.

    >>> Named("a", 7), Named("a", 7) == Named("a", 8)
    ('a', True)
    """

    def __init__(self, name: str, number: int):
        self.name, self.number = name, number

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Named) and other.name == self.name

    def __hash__(self) -> int:
        return self.number

    def __repr__(self) -> str:
        return repr(self.name)


def repeats(subject: Subject) -> Breach | None:
    """Where a cache answers differently the second time, with the shortest operations that show it.

    >>> from minikv import RadixCache
    >>> from minikv.testing.conformance.subject import subject_of
    >>> repeats(subject_of(RadixCache, range(1, 16)))
    """
    for settings in subject.settings:
        lines = _shortest(subject, settings, _lines(subject))
        if lines is None:
            continue
        run = SideBySide(subject, 1, settings)
        run.lines = lines
        words = "gives something else when the lines run again, with other random numbers and hashes"
        return run.end(Mismatch(13, words))
    return None


def _shortest(subject: Subject, settings: Mapping[str, Any], lines: list[str]) -> list[str] | None:
    """The lines that are needed for a difference, the last of them shows it; `None` if there is none."""
    end = _differs(subject, settings, lines)
    while end is not None:
        lines = lines[: end + 1]
        shorter = ([each for each in lines if each is not line] for line in lines[-2::-1])
        lines = next((each for each in shorter if _differs(subject, settings, each) is not None), lines)
        end = _differs(subject, settings, lines) if len(lines) <= end else None
        if end is None:
            return lines
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
    run = SideBySide(subject, 1, settings)
    first = _answers(run, lines, 1)
    runs = [_answers(SideBySide(subject, 1, settings), lines, 2)]
    if 11 in subject.claims and run.stage.step("cache.evict(1000)") and run.stage.step("cache.reset()"):
        runs.append(_answers(run, lines, 3))
    for again in runs:
        for number, (one, other) in enumerate(zip(first, again)):
            if one != other:
                return number
    return None


def _answers(run: SideBySide, lines: list[str], seed: int) -> list[str]:
    """What each line answers; `seed` decides about random numbers, and about the hashes of the namespaces."""
    random.seed(seed)
    hashes = [(1, 2, 3), (3, 1, 2), (2, 3, 1)][seed - 1]
    names = {repr(name): Named(name, number) for name, number in zip("abc", hashes)}
    run.stage.names["names"] = names
    answers = []
    for line in lines:
        before, _, name = line.partition("namespace=")
        reply = run.stage.step(f'{before}namespace=names["{name[:-1]}"])' if name else line)
        answers.append(repr(reply and (reply.value, type(reply.error))))
        if reply is not None and isinstance(reply.error, TooLong):
            break
    return answers

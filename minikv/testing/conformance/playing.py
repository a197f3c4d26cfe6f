"""Playing a scenario in both worlds, and the first place where the index and the naive model part."""

from __future__ import annotations

import builtins
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from minikv.errors import whole_number
from minikv.pools.contract import Pages
from minikv.testing.attempt import attempt
from minikv.testing.conformance.joins import look_for_scars
from minikv.testing.conformance.judging import Mismatch, judge
from minikv.testing.conformance.naive import NaiveCache
from minikv.testing.conformance.scenario import Change, Reply, Scenario, Stage, Told, imports_for
from minikv.testing.conformance.sizes import wrong_sizes
from minikv.testing.conformance.subject import Subject


class FollowingModel(NaiveCache):
    """The naive model, which evicts what the index has evicted: the contract leaves open how much a leaf is.

    >>> model = FollowingModel()
    >>> _ = model.insert([1, 2], [5, 6])
    >>> len(model.evict(1)), model.total_size
    (0, 2)
    """

    def evict(self, num_tokens: int) -> Pages:
        """Nothing yet: `drop` follows as soon as the index has said what goes."""
        whole_number("num_tokens", num_tokens, 0, "evict frees 0 tokens or more")
        return super().evict(0)


@dataclass(frozen=True)
class Breach:
    """A rule that is broken: the lines of `body` show it, and `words` say what the last of them came to.

    `head` makes the object, `spelled` has the lines as this object takes them, and `raised` the errors that lines
    before the last one end in.
    """

    rule: int
    body: tuple[str, ...]
    words: str
    page_size: int = 1
    settings: Mapping[str, Any] = field(default_factory=dict)
    head: tuple[str, ...] = ()
    spelled: tuple[str, ...] = ()
    raised: Mapping[int, str] = field(default_factory=dict)
    endless: bool = False

    @property
    def is_crash(self) -> bool:
        """Whether it is an error that the contract does not speak of."""
        return self.words.startswith("raises ") and not self.words.startswith("raises LockError")

    @property
    def scenario(self) -> Scenario:
        """The lines of the body, to be tried again."""
        return Scenario(self.body, self.page_size)

    @property
    def script(self) -> list[str]:
        """The lines as they can be run, with what is wrong as a comment at the end."""
        lines = _renamed(self.spelled)
        for number, error in self.raised.items():
            if number < len(lines) - 1:
                lines[number] = f"with suppress({error}): {lines[number]}"
        return [*imports_for(lines), *self.head, *lines, f"# {self.words}"]


class Findings(NamedTuple):
    """What came of trying a class: for each broken rule the smallest breach, and the rules that were `reached`."""

    broken: Mapping[int, Breach]
    reached: frozenset[int]


def _renamed(lines: tuple[str, ...]) -> list[str]:
    """The lines with the names a, b, c for what is used later, and no name for what is not."""
    found = list(lines)
    for place, line in enumerate(found):
        given = re.match(r"([a-z]\d*) = ", line)
        if given and not any(re.search(rf"\b{given[1]}[.,)]", later) for later in found[place + 1 :]):
            found[place] = line[given.end() :]
    names = [given[1] for line in found if (given := re.match(r"([a-z]\d*) = ", line))]
    fresh = dict(zip(names, "abcdefghijklmnopqrstuvwxyz"))
    return [re.sub(r"\b[a-z]\d*\b(?=[.,)]| = )", lambda name: fresh.get(name[0], name[0]), line) for line in found]


class Transcript:
    """The lines that ran on an object of the class that is judged, called `name` in them, and how they ended."""

    def __init__(self, subject: Subject, page_size: int, settings: Mapping[str, Any], name: str):
        self.subject, self.page_size, self.settings, self.name = subject, page_size, settings, name
        self.made = attempt(self.make)
        self.index = self.made.value
        self.lines: list[str] = []  # as they are for the model
        self.spelled: list[str] = []  # and for an object whose results are handles themselves
        self.raised: dict[int, str] = {}
        self.refused: list[tuple[int, int]] = []  # the lines that must be refused, with the rule that says so

    def make(self) -> Any:
        """A new object of the class."""
        return self.subject.make(**self.subject.arguments(self.page_size, self.settings))

    def note(self, line: str, spelled: str, reply: Reply | None) -> None:
        """One more line has run, and came to `reply`."""
        self.lines.append(line)
        self.spelled.append(spelled)
        if reply is not None and reply.error is not None:
            self.raised[len(self.lines) - 1] = _suppressed(reply.error)

    def unmade(self) -> Findings:
        """Of a class that cannot be made, all that it claims is broken."""
        broken = {rule: self.end(Mismatch(rule, self.made.in_words)) for rule in sorted(self.subject.claims)}
        return Findings(broken, frozenset())

    def end(self, found: Mismatch) -> Breach:
        """What was found, with the lines so far."""
        new = self.subject.spelled(self.page_size, self.settings)
        home = (f"from {self.subject.home} import {self.subject.name}",) if self.subject.home else ()
        lines = [line.replace("new()", new) for line in self.spelled + self.lines[len(self.spelled) :]]
        return Breach(
            found.rule, tuple(self.lines), found.words, self.page_size, self.settings, (*home, f"{self.name} = {new}"),
            tuple(lines), self.raised, found.endless,
        )  # fmt: skip


class SideBySide(Transcript):
    """One scenario on a new object and on a new model; `offered` and `evicted` are pages that must not be seen."""

    def __init__(self, subject: Subject, page_size: int, settings: Mapping[str, Any], change: Change | None = None):
        super().__init__(subject, page_size, settings, "cache")
        self.model = FollowingModel(page_size, evict_by=settings.get("evict_by", "node"))
        self.stage = Stage("cache", Told(self.index, change), self.make)
        self.expected = Stage("cache", Told(self.model, change, is_ours=True), lambda: FollowingModel(page_size))
        self.offered: set[int] = set()
        self.evicted: set[int] = set()
        self.locked = False
        self.scar: Breach | None = None

    def step(self, line: str) -> Mismatch | None:
        """Run one line in both worlds; where they part, if they do."""
        reply, expected = self.stage.step(line), self.expected.step(line)
        self.note(line, self.stage.line, reply)
        if expected is None:
            return None
        if reply is None:
            return Mismatch(4, "the handle of a result cannot be read")
        found = judge(self, reply, expected)
        if found is None and 7 in self.subject.claims:
            found = wrong_sizes(self, expected)
        if found is None:
            look_for_scars(self)
        if expected.verb in ("lock", "unlock", "acquire"):
            self.locked = True
        return found

    def scarred(self, words: str) -> None:
        """A node is not joined. That counts if nothing else is wrong, so the run goes on."""
        self.scar = self.scar or self.end(Mismatch(14, words))


def _suppressed(error: BaseException) -> str:
    """The class of an error by which a script can name it."""
    named = [each.__name__ for each in type(error).__mro__ if hasattr(builtins, each.__name__)]
    return named[0]


def play(
    subject: Subject,
    scenario: Scenario,
    settings: Mapping[str, Any],
    change: Change | None = None,
    drain: bool = True,
    watch: list[SideBySide] | None = None,
) -> Breach | None:
    """Run a scenario, then evict all that is left, bit by bit; where the index parts from the model, if it does.

    `change` alters the arguments of each call in both worlds. `watch` is given the run, for a closer look at it.

    >>> from minikv import RadixCache
    >>> from minikv.testing.conformance.scenario import scenario_of
    >>> from minikv.testing.conformance.subject import subject_of
    >>> play(subject_of(RadixCache, range(1, 16)), scenario_of("cache.insert([1, 2], [5, 6])"), {})
    """
    run = SideBySide(subject, scenario.page_size, settings, change)
    if watch is not None:
        watch.append(run)
    if run.made.error is not None:
        return run.end(Mismatch(15 if scenario.page_size > 1 else 1, run.made.in_words))
    for line in scenario.lines:
        if (found := run.step(line)) is not None:
            return run.end(found)
    while drain and run.model.unlocked_leaves() and "evict" not in subject.lacks:
        if (found := run.step(f"cache.evict({scenario.page_size})")) is not None:
            return run.end(found)
    return run.scar

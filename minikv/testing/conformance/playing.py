"""Playing a scenario on an object and on the naive model, side by side: the first place where they part, and why.

A match that comes out wrong may be the fault of the match, of a buffer that was kept, or of a namespace that was
ignored. So the scenario is run again with copies of the buffers, with the namespaces spelled as tokens, and so on;
the change after which nothing is wrong any more names the rule.
"""

from __future__ import annotations

import builtins
import dataclasses
import itertools
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, ClassVar

from hypothesis.strategies import SearchStrategy

from minikv.errors import bounded
from minikv.testing.attempt import TooLong, attempt
from minikv.testing.conformance.script import (
    Breach,
    Change,
    Findings,
    Readers,
    Recorder,
    Reply,
    Scenario,
    Stage,
    is_named,
)
from minikv.testing.conformance.subject import Subject


class SideBySide:
    """One scenario on a new object of a class and on a new model: the lines that ran, and how they ended.

    Each kind of class has its own `name` in the lines, `readers` of what its verbs return, and `rule_of` each verb the
    number of the rule that needs it most; `optional` are the verbs that it may lack. `words` are those by which a
    scenario is known of a rule that need not be claimed, and `rule_of_making` is broken where no object can be made.

    `cases` are the scenarios that were picked for each rule, and `reached` the rules that the lines so far could have
    broken. `needs` are the verbs of all scenarios that Hypothesis makes, of which `examples` are tried.
    """

    name: ClassVar[str]
    readers: ClassVar[Readers]
    rule_of: ClassVar[Mapping[str, int]]
    optional: frozenset[str] = frozenset()
    words: ClassVar[Mapping[int, str]]
    rule_of_making = 1
    cases: ClassVar[Mapping[int, list[Scenario]]]
    needs: frozenset[str]
    examples: int
    always_given: ClassVar[Mapping[str, Any]] = {}

    def __init__(self, subject: Subject, page_size: int, settings: Mapping[str, Any], change: Change | None = None):
        self.subject, self.page_size, self.settings = subject, page_size, settings
        self.made = attempt(self.make)
        self.index, self.model = self.made.value, self.new_model()
        self.stage = Stage(self.name, Recorder(self.index, self.readers, change), self.make)
        self.expected = Stage(self.name, Recorder(self.model, self.readers, change, is_ours=True), self.new_model)
        self.lines: list[str] = []
        self.raised: dict[int, str] = {}
        self.refused: dict[int, int] = {}  # the lines that must be refused, with the rule that says so
        self.verbs, self.reached = set[str](), set[int]()  # that were called, and the rules that they could have broken
        self.begin()

    def begin(self) -> None:
        """Set up what a kind of class has of its own."""

    def make(self) -> Any:
        """A new object of the class."""
        return self.subject.make(**self.subject.arguments(self.page_size, self.settings))

    # -- what each kind has of its own --------------------------------------------------------------------------------

    def new_model(self) -> Any:
        """A new model, empty as the object is."""
        raise NotImplementedError

    def scenarios(self, subject: Subject) -> SearchStrategy[Scenario]:
        """The strategy of the scenarios for such a class."""
        raise NotImplementedError

    def orders(self, page_size: int) -> Iterable[Scenario]:
        """Scenarios in which several requests take turns."""
        return ()

    def compare(self, reply: Reply, expected: Reply) -> Breach | None:
        """Return the fault in the result of a call that ended well, or `None`."""
        raise NotImplementedError

    def refusal(self, reply: Reply, expected: Reply) -> Breach | None:
        """Return the fault in the answer to a call that must be refused, or `None`."""
        raise NotImplementedError

    def look_around(self, expected: Reply) -> Breach | None:
        """Return the fault in the object after a call with the model's `expected` result, or `None`."""
        raise NotImplementedError

    def witness(self, expected: Reply) -> None:
        """Tell `reach` which rules a call could have broken, and did not."""
        raise NotImplementedError

    def reach(self, seen: Mapping[int, Any]) -> None:
        """Note the rules for which what could break them was seen."""
        self.reached |= {rule for rule, was in seen.items() if was}

    def alterations(self, found: Breach) -> Iterator[tuple[int, Scenario, Change | None]]:
        """A rule, and the scenario and the change of arguments with which that rule is not touched."""
        if self.refused:
            lines = tuple(line for number, line in enumerate(self.lines) if number not in self.refused)
            yield next(iter(self.refused.values())), Scenario(lines, self.page_size), None

    def last_lines(self) -> Iterator[str]:
        """Lines that end every scenario, and show what is left."""
        raise NotImplementedError

    def at_the_end(self) -> Breach | None:
        """Return the fault that no line has shown, or `None`."""
        raise NotImplementedError

    # -- what all have ------------------------------------------------------------------------------------------------

    def play(self, lines: Iterable[str]) -> Breach | None:
        """Run these lines and the last ones, up to the first after which something is wrong."""
        if self.made.error is not None:
            return self.end(self.rule_of_making, self.made.in_words)
        for line in itertools.chain(lines, self.last_lines()):
            if (found := self.step(line)) is not None:
                return found
        return self.at_the_end()

    def step(self, line: str) -> Breach | None:
        """Run one line in both worlds; where they part, if they do. What is trusting gets no line that is refused."""
        expected = self.expected.step(line)
        if self.subject.trusting and expected and expected.error and not is_named(expected.error, "OutOfPages"):
            return None
        reply = self.stage.step(line)
        self.lines.append(line)
        if reply is not None and reply.error is not None:
            self.raised[len(self.lines) - 1] = _suppressed(reply.error)
        if expected is None or reply is None:
            return None
        self.verbs.add(expected.verb)
        found = self.judge(reply, expected) or self.look_around(expected)
        if found is None:
            self.witness(expected)
        return found

    def judge(self, reply: Reply, expected: Reply) -> Breach | None:
        """The rule that a reply breaks, or `None` if it is as `expected`."""
        if isinstance(reply.error, TooLong):
            return self.end(self.rule_of[reply.verb], reply.in_words, endless=True)
        if expected.error is not None:
            return self.refusal(reply, expected)
        if reply.error is not None:
            return self.end(self.rule_of_error(reply), reply.in_words)
        return self.compare(reply, expected)

    def rule_of_error(self, reply: Reply) -> int:
        """The rule that an error breaks that nobody expects."""
        return self.rule_of[reply.verb]

    def require_refused(self, reply: Reply, expected: Reply, rule: int, kinds: list[str]) -> Breach | None:
        """Return whether the last line was refused with an error of one of these `kinds`, as `rule` says."""
        if any(is_named(reply.error, kind) for kind in kinds):
            self.refused[len(self.lines) - 1] = rule
            return None
        return self.end(rule, f"{reply.in_words}, expected a {' or a '.join(kinds)}: {expected.error}")

    def unmade(self) -> Findings:
        """Of a class that cannot be made, no rule can be judged."""
        script = "\n    ".join(self.end(0, self.made.in_words).script)
        return Findings({}, frozenset(), f"it cannot be made:\n    {script}\n")

    def lacking(self) -> frozenset[str]:
        """The verbs that the object does not have."""
        return frozenset(verb for verb in self.rule_of if not callable(getattr(self.index, verb, None)))

    def unknown(self) -> list[str]:
        """Words of which the class does not claim to know anything."""
        return [word for rule, word in self.words.items() if rule not in self.subject.claims]

    def missing(self) -> dict[int, Breach]:
        """The verbs that the object lacks and needs, each under the rule that needs it most."""
        found = {}
        for verb in [each for each in self.rule_of if each in self.lacking() - self.optional]:
            self.lines = [f"{self.name}.{verb}"]
            found[self.rule_of[verb]] = self.end(self.rule_of[verb], f"it has no method {verb}")
        return found

    def end(self, rule: int, words: str, endless: bool = False) -> Breach:
        """The breach of a `rule` that the lines so far show, and in `words` what happened."""
        new = self.subject.spelled(self.page_size, self.settings)
        home = (f"from {self.subject.home} import {self.subject.name}",) if self.subject.home else ()
        head = *home, f"{self.name} = {new}"
        return Breach(rule, tuple(self.lines), words, self.page_size, self.settings, head, self.raised, endless)


def _suppressed(error: BaseException) -> str:
    """The class of an error by which a script can name it."""
    named = [each.__name__ for each in type(error).__mro__ if hasattr(builtins, each.__name__)]
    return named[0]


# -- which rule is to blame --------------------------------------------------------------------------------------------


def find_breach(kind: type[SideBySide], subject: Subject, scenario: Scenario, reached: set[int]) -> Breach | None:
    """Return the fault of a class in this scenario, under the broken rule, and add to `reached` those that were tested.

    >>> from minikv import RadixCache
    >>> from minikv.testing.conformance.caches import CacheRun
    >>> from minikv.testing.conformance.script import scenario_of
    >>> from minikv.testing.conformance.subject import subject_of
    >>> class Deaf(RadixCache):
    ...     def match_prefix(self, tokens, *, limit=None, namespace=None):
    ...         return super().match_prefix(tokens, limit=limit)
    >>> lines = "cache.insert([1], [5], namespace='a')", "cache.match_prefix([1], namespace='a')"
    >>> found = find_breach(CacheRun, subject_of(Deaf, range(1, 16)), scenario_of(*lines), set())
    >>> found.rule, found.words
    (10, 'gives length 0 and pages [], expected length 1 and pages [5]')
    """
    for settings in subject.settings:
        run = kind(subject, scenario.page_size, settings)
        found = run.play(scenario.lines)
        reached |= run.reached
        if found is not None:
            is_clear = found.endless or found.rule == 14
            return found if is_clear else dataclasses.replace(found, rule=_rule(found, run))
    return None


def _rule(found: Breach, run: SideBySide) -> int:
    """The rule that is to blame for what was `found`."""
    for rule, scenario, change in run.alterations(found):
        again = type(run)(run.subject, scenario.page_size, found.settings, change)
        if rule != found.rule and again.play(scenario.lines) is None:
            return rule
    return found.rule


# -- reading what a verb returns --------------------------------------------------------------------------------------


class UnreadableError(TypeError):
    """An answer does not have the form that the contract promises; the message says what is there instead."""


def read_number(value: Any, what: str) -> int:
    """A whole number, of any type that is one.

    >>> read_number(True, "length")
    Traceback (most recent call last):
    minikv.testing.conformance.playing.UnreadableError: length is True: expected a whole number
    """
    try:
        if not isinstance(value, bool):
            return operator.index(value)
    except TypeError:
        pass
    raise UnreadableError(f"{what} is {bounded(value)}: expected a whole number")


def read_pages(values: Any, what: str) -> list[int]:
    """Pages as a list of whole numbers: from a list, a tuple, an array, a tensor.

    >>> import numpy as np
    >>> read_pages(np.array([3, 4]), "pages"), read_pages((), "pages")
    ([3, 4], [])
    """
    listed = values.tolist() if hasattr(values, "tolist") else values
    if not isinstance(listed, Iterable) or isinstance(listed, (str, bytes, dict)):
        raise UnreadableError(f"{what} is {bounded(values)}: expected a sequence of pages")
    return [read_number(value, f"{what}[{i}]") for i, value in enumerate(listed)]


def reader(**fields: Callable[[Any, str], Any]) -> Callable[[Any], dict[str, Any]]:
    """Return a function that reads these `fields` of a result.

    >>> from minikv import RadixCache
    >>> reader(length=read_number, pages=read_pages)(RadixCache().match_prefix([1]))
    {'length': 0, 'pages': []}
    """

    def read(result: Any) -> dict[str, Any]:
        if not all(hasattr(result, name) for name in fields):
            raise UnreadableError(f"the result is {bounded(result)}: expected an object with {' and '.join(fields)}")
        return {name: read_field(getattr(result, name), name) for name, read_field in fields.items()}

    return read

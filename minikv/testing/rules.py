"""The class that is judged by the rules: how it is made, what it claims, and the verdict on each rule."""

from __future__ import annotations

import inspect
import re
import textwrap
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, NamedTuple
from xml.sax.saxutils import escape
from xml.sax.saxutils import quoteattr as quoted

from minikv.errors import bounded
from minikv.prefix.contract import RULES

SIZES = ("evictable_size", "protected_size", "total_size")
USES = ("match_prefix", "insert", "unlock")
HOLDS, BROKEN, NOT_CLAIMED, NOT_JUDGED = "holds", "broken", "not claimed", "not judged"
NOT_REACHED = "not reached"  # claimed, but nothing happened that could have broken it


class NothingToJudgeError(ValueError):
    """There is no such module or class, or it cannot be imported; the message says why."""


@dataclass(frozen=True)
class Subject:
    """A class under test: `make(**settings)` is one object, and `settings` are the ways in which it can be made.

    `page_sizes` are the sizes of a page that it can have; a choice of them is an argument. `fixed` are arguments that
    are always given. `claims` are the numbers of the rules that it says it keeps, `used_by` the verbs that are a use
    to it, and `lacks` those that it does not have. If it is `trusting`, it is given only valid input. `before` is
    called with each scenario before it is tried.

    >>> from minikv import RadixCache
    >>> subject = subject_of(RadixCache)
    >>> subject.page_sizes, subject.settings, subject.head(2, {"evict_by": "page"})[1]
    ((1, 2, 3, 4), ({'evict_by': 'node'}, {'evict_by': 'page'}), "cache = RadixCache(page_size=2, evict_by='page')")
    """

    make: Callable[..., Any]
    name: str
    claims: frozenset[int]
    page_sizes: tuple[int, ...] = (1,)
    settings: tuple[Mapping[str, Any], ...] = ({},)
    fixed: Mapping[str, Any] = field(default_factory=dict)
    home: str = ""
    used_by: frozenset[str] = frozenset(USES)
    lacks: frozenset[str] = frozenset()
    trusting: bool = False
    before: Callable[[Any], None] = lambda scenario: None

    def arguments(self, page_size: int, settings: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments for an object with pages of this size, made in this way."""
        return {**({"page_size": page_size} if len(self.page_sizes) > 1 else {}), **self.fixed, **settings}

    def head(self, page_size: int, settings: Mapping[str, Any]) -> tuple[str, ...]:
        """The lines that make such an object; what the class does by default is left out."""
        given = self.arguments(page_size, settings).items()
        shown = [f"{name}={value!r}" for name, value in given if (name, value) not in _DEFAULTS]
        home = (f"from {self.home} import {self.name}",) if self.home else ()
        return *home, f"cache = {self.name}({', '.join(shown)})"


_DEFAULTS = [("page_size", 1), ("evict_by", "node")]


def subject_of(made: Any, fixed: Mapping[str, Any] | None = None, home: str | None = None, **more: Any) -> Subject:
    """The class of a prefix cache as something to be judged, with what its signature takes.

    Raises `NothingToJudgeError` for `claims` that are not numbers of rules, and for `used_by` that are not verbs.

    >>> from minikv import NoCache, RadixCache
    >>> sorted(set(RULES) - subject_of(NoCache).claims)
    [4]
    >>> subject_of(RadixCache).settings, subject_of(RadixCache, {"evict_by": "page"}).settings
    (({'evict_by': 'node'}, {'evict_by': 'page'}), ({},))
    """
    given, takes = fixed or {}, set[str]()
    with suppress(TypeError, ValueError):  # of a class that is written in C
        takes = {*inspect.signature(made).parameters} - given.keys()
    return Subject(
        made, getattr(made, "__name__", "Cache"), _said(made, "claims", RULES, f"numbers of rules, 1 to {len(RULES)}"),
        (1, 2, 3, 4) if "page_size" in takes else (1,),
        ({"evict_by": "node"}, {"evict_by": "page"}) if "evict_by" in takes else ({},), given,
        getattr(made, "__module__", "") if home is None else home,
        _said(made, "used_by", USES, f"some of {', '.join(USES)}"), **more,
    )  # fmt: skip


def _said(made: Any, name: str, known: Iterable[Any], rule: str) -> frozenset[Any]:
    """The part of what is `known` that a class names in an attribute; without one, all of it."""
    said, everything = getattr(made, name, None), frozenset(known)
    try:
        found = everything if said is None else frozenset(islice(said, 1000))
    except Exception:
        found = frozenset([None])
    if not found <= everything:
        raise NothingToJudgeError(f"{getattr(made, '__name__', 'Cache')}: {name} is {bounded(said)}: expected {rule}")
    return found


class RuleVerdict(NamedTuple):
    """One rule of one class: its `state`, and where it is broken the `script` that shows it."""

    rule: int
    name: str
    state: str
    script: str | None = None


@dataclass(frozen=True)
class Conformance:
    """All verdicts on one class, and its name; `note` is what else there is to say.

    >>> broken = RuleVerdict(2, "copies", BROKEN, "cache = Mine()")
    >>> print(Conformance("Mine", (RuleVerdict(1, "tokens", HOLDS), broken)))
    Mine
      1  holds        tokens
      2  broken       copies
    <BLANKLINE>
    rule 2 is broken: copies
        cache = Mine()
    <BLANKLINE>
    holds: 1, broken: 1
    """

    name: str
    verdicts: tuple[RuleVerdict, ...]
    note: str = ""

    @property
    def status(self) -> int:
        """The exit status: 1 if a rule is broken or was not judged, 0 if all that were reached hold, 2 if none was."""
        states = {each.state for each in self.verdicts}
        return 1 if states & {BROKEN, NOT_JUDGED} else 0 if HOLDS in states else 2

    @property
    def broken(self) -> list[RuleVerdict]:
        """The rules that are claimed and broken, the shortest script first: what it shows may break the others too."""
        return sorted(
            (each for each in self.verdicts if each.state == BROKEN), key=lambda each: str(each.script).count("\n")
        )

    def as_json(self) -> dict[str, Any]:
        """The class and its rules, as JSON has them.

        >>> Conformance("Mine", (RuleVerdict(7, "sizes", HOLDS),)).as_json()
        {'class': 'Mine', 'rules': [{'rule': 7, 'name': 'sizes', 'state': 'holds', 'script': None}]}
        """
        rules = [each._asdict() for each in self.verdicts]
        return {"class": self.name, "rules": rules, **({"note": self.note} if self.note else {})}

    def as_junit(self, place: str) -> str:
        """A test suite with a test case for each rule, as JUnit and its readers have it; `place` names the file.

        >>> found = Conformance("A", (RuleVerdict(7, "sizes", HOLDS), RuleVerdict(8, "order", NOT_REACHED)))
        >>> print(found.as_junit("a.py").rstrip())
        <testsuite name="A" tests="2" failures="0" errors="0" skipped="1" time="0">
        <testcase classname="a.py:A" name="rule 7: sizes" time="0"></testcase>
        <testcase classname="a.py:A" name="rule 8: order" time="0"><skipped message="not reached"></skipped></testcase>
        </testsuite>
        """
        cases = []
        for each in self.verdicts:
            text = each.script or (self.note if each.state == NOT_JUDGED else "")
            kind = "failure" if each.state in (BROKEN, NOT_JUDGED) else "skipped"
            said = quoted(text.split("\n")[-1].removeprefix("# ") or each.state)
            result = "" if each.state == HOLDS else f"<{kind} message={said}>{escape(text)}</{kind}>"
            title = f"classname={quoted(f'{place}:{self.name}')} name={quoted(f'rule {each.rule}: {each.name}')}"
            cases.append(f'<testcase {title} time="0">{result}</testcase>\n')
        text = "".join(cases)
        counts = f'failures="{text.count("<failure ")}" errors="0" skipped="{text.count("<skipped ")}" time="0"'
        return f'<testsuite name={quoted(self.name)} tests="{len(cases)}" {counts}>\n{text}</testsuite>\n'

    def __str__(self) -> str:
        lines = [self.name, *(f"{each.rule:>3}  {each.state:<12} {each.name}" for each in self.verdicts), ""]
        lines += [self.note] * bool(self.note)
        for each in self.broken:
            lines += [f"rule {each.rule} is broken: {each.name}", textwrap.indent(f"{each.script}\n", "    ")]
        hint = "The shortest script comes first: what it shows may break the other rules too.\n"
        counts = Counter(each.state for each in self.verdicts)
        lines += [hint] * (len(self.broken) > 1)
        return "\n".join([*lines, ", ".join(f"{state}: {count}" for state, count in counts.items())])


_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def junit(place: str, found: Iterable[Conformance], trouble: str = "") -> str:
    """The report on a file as JUnit's XML; `trouble` says why it could not be judged, which is a failed test too.

    >>> junit("mine.py", [])
    '<?xml version="1.0" encoding="utf-8"?>\\n<testsuites>\\n</testsuites>\\n'
    """
    unjudged = Conformance(place, (RuleVerdict(0, "can be judged", NOT_JUDGED),), trouble)
    suites = "".join(each.as_junit(place) for each in [*found, *[unjudged] * bool(trouble)])
    head = '<?xml version="1.0" encoding="utf-8"?>'
    return _NOT_XML.sub("?", f"{head}\n<testsuites>\n{suites}</testsuites>\n")

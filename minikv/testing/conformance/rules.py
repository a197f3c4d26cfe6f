"""The names of the rules, and the verdicts on them: whether each holds, is broken (with a script) or was not judged."""

from __future__ import annotations

import re
import textwrap
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple
from xml.sax.saxutils import escape
from xml.sax.saxutils import quoteattr as quoted

from minikv.testing.conformance.script import Findings

CACHE_RULES = {
    1: "tokens and pages are checked, and bad input changes nothing",
    2: "keys and pages are copied in",
    3: "a match is the longest cached prefix, and changes no content",
    4: "insert stores whole pages, and keeps those that are there",
    5: "a split or a join changes no size, no lock and no handle",
    6: "a lock protects the path to the root until it is released",
    7: "sizes are exact after every operation, in O(1)",
    8: "the least recently used goes first: last match, insert or unlock",
    9: "evict frees unlocked leaves, enough of them and no more",
    10: "namespaces never share",
    11: "reset forgets everything, or refuses while anything is locked",
    12: "check finds every fault, and nothing else",
    13: "the same operations give the same cache",
    14: "nodes used together are joined",
    15: "a page is one number, however many tokens it holds",
}

MANAGER_RULES = {
    1: "a page has one owner: the pool, the cache or one request",
    2: "nothing is read that was not computed for these tokens",
    3: "a request finds whole cached pages, and computes its last token itself",
    4: "a request locks what it reads before it looks for room, until it ends",
    5: "a request is admitted if its pages fit, and refused without any change",
    6: "finish publishes whole pages, and only computed ones",
    7: "finish and abort release everything, exactly once",
    8: "abort publishes nothing",
    9: "a checkpoint publishes, and the request reads the cache's pages from then on",
    10: "a page is taken when the last one is full, and not before",
    11: "namespaces never share",
    12: "bad input is refused, and changes nothing",
}

RULES = {"cache": CACHE_RULES, "manager": MANAGER_RULES}
HOLDS, BROKEN, NOT_CLAIMED, NOT_JUDGED = "holds", "broken", "not claimed", "not judged"
NOT_REACHED = "not reached"  # claimed, but nothing happened that could have broken it


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
        lines = [self.name, *(f"{each.rule:>3}  {each.state:<12} {each.name}" for each in self.verdicts)]
        for each in self.broken:
            lines += ["", f"rule {each.rule} is broken: {each.name}", textwrap.indent(each.script or "", "    ")]
        hint = "The shortest script comes first: what it shows may break the other rules too."
        notes = [note for note in (self.note, f"{hint}\n" if len(self.broken) > 1 else "") if note]
        counts = Counter(each.state for each in self.verdicts)
        return "\n".join([*lines, "", *notes, ", ".join(f"{state}: {count}" for state, count in counts.items())])


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


def conformance_of(name: str, rules: Mapping[int, str], claims: frozenset[int], found: Findings) -> Conformance:
    """The verdicts on a class that claims some of `rules`.

    >>> found = conformance_of("Mine", {1: "tokens", 2: "copies"}, frozenset([1]), Findings({}, frozenset()))
    >>> [each.state for each in found.verdicts]
    ['not reached', 'not claimed']
    """
    verdicts, other = [], NOT_JUDGED if found.note else NOT_REACHED
    for rule, words in rules.items():
        state = BROKEN if rule in found.broken else HOLDS if rule in found.reached else other
        state = state if rule in claims else NOT_CLAIMED
        script = "\n".join(found.broken[rule].script) if state == BROKEN else None
        verdicts.append(RuleVerdict(rule, words, state, script))
    return Conformance(name, tuple(verdicts), found.note)

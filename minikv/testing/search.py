"""Which rule is to blame for what goes wrong in a scenario, and the smallest scenario that breaks each rule.

A match that comes out wrong may be the fault of the match, of a buffer that was kept, or of a namespace that was
ignored. So the scenario is run again with copies of the buffers, with the namespaces spelled as tokens, and so on; the
change after which nothing is wrong any more names the rule.
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Any

from minikv.testing.calls import Change
from minikv.testing.cases import OTHER_FORMS
from minikv.testing.playing import SideBySide
from minikv.testing.rules import Subject
from minikv.testing.scenarios import Breach, Scenario, fewest_lines, optional, scenarios, smallest_case
from minikv.tokens import pack

MOST_PLAYED, MOST_ENDLESS = 6000, 4  # scenarios that are tried at most, and operations that do not end
_APART, _BRANCH = 1000, 900  # added to the tokens of each further namespace; a token that no scenario has
_WORDS = {10: "namespace", 6: "lock(", 11: "reset(", 3: "limit="}  # of scenarios about a rule that need not be claimed


def find_breach(
    subject: Subject, scenario: Scenario, reached: set[int], kind: type[SideBySide] = SideBySide
) -> Breach | None:
    """Return the fault of a class in this scenario, under the broken rule, and add to `reached` those that were tested.

    >>> from minikv import RadixCache
    >>> from minikv.testing.rules import subject_of
    >>> from minikv.testing.scenarios import scenario_of
    >>> class Deaf(RadixCache):
    ...     def match_prefix(self, tokens, *, limit=None, namespace=None):
    ...         return super().match_prefix(tokens, limit=limit)
    >>> lines = "cache.insert([1], [5], namespace='a')", "cache.match_prefix([1], namespace='a')"
    >>> found = find_breach(subject_of(Deaf), scenario_of(*lines), set())
    >>> found.rule, found.words
    (10, 'finds nothing, expected length 1 and pages [5]')
    >>> class ByNode(RadixCache):   # wrong by page: each setting is tried
    ...     def evict(self, num_tokens):
    ...         return super().evict(num_tokens * (self.evict_by == "node"))
    >>> found = find_breach(subject_of(ByNode), scenario_of("cache.insert([1], [5])", "cache.evict(1)"), set())
    >>> found.rule, found.words
    (9, 'frees 0 tokens, expected 1')
    """
    subject.before(scenario)
    for settings in subject.settings:
        run = kind(subject, scenario.page_size, settings)
        found = run.play(scenario.lines)
        reached |= run.reached
        if found is None:
            continue
        for rule, altered, change in () if found.endless or found.rule in (12, 14) else _alterations(run, found):
            again = kind(subject, altered.page_size, settings, change)
            if rule != found.rule and again.play(altered.lines) is None:
                return dataclasses.replace(found, rule=rule)
        return found
    return None


def _alterations(run: SideBySide, found: Breach) -> Iterator[tuple[int, Scenario, Change | None]]:
    """A rule, and the scenario and the change of arguments with which that rule is not touched.

    What is evicted or counted wrong is a namespace's fault only if it needs equal tokens in two of them.
    """
    scenario, text = found.body, "\n".join(found.body.lines)
    if run.refused:
        lines = tuple(line for number, line in enumerate(run.lines) if number not in run.refused)
        yield next(iter(run.refused.values())), Scenario(lines, run.page_size), None
    if "[0] = " in text:
        yield 2, scenario, _copied
    if any(form in text for form in OTHER_FORMS):
        yield 1, scenario, _listed
    if "namespace" in text and not found.words.endswith("start is not a prefix of the tokens"):
        yield 10, scenario, _apart(found.is_crash or found.rule in (3, 4))
    if run.model.cuts and run.has_locked and (found.rule in (6, 7) or found.is_crash):
        yield 5, dataclasses.replace(scenario, lines=(*_branches(run), *scenario.lines)), None


def _branches(run: SideBySide) -> Iterator[str]:
    """Lines after which a cache branches where it would split: so it splits nothing, and joins nothing there."""
    page = 10**6
    for name, tokens in sorted(set(run.model.cuts), key=lambda cut: (cut[1], str(cut[0]))):
        pages = list(range(page, page := page + len(tokens) // run.page_size + 1))
        yield f"cache.insert({[*tokens, *[_BRANCH] * run.page_size]}, {pages}{optional('namespace', name)})"


def _copied(verb: str, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
    """Buffers of the cache's own."""
    return (copy.deepcopy(args) if verb == "insert" else args), options


def _listed(verb: str, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
    """Lists in place of any other sequence."""
    listed = list(args)
    for place, arg in enumerate(args):
        with suppress(TypeError, ValueError):
            listed[place] = pack(arg).tolist()
    return tuple(listed), options


def _apart(unnamed: bool) -> Change:
    """Tokens that are different in each namespace, and if `unnamed`, no namespaces."""
    known: dict[Any, int] = {None: 0}

    def change(verb: str, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
        with suppress(TypeError, ValueError, KeyError):
            shift = _APART * known.setdefault(options["namespace"], len(known))
            args = ([token + shift for token in pack(args[0]).tolist()], *args[1:])
            return args, {**options, "namespace": None} if unnamed else options
        return args, options

    return change


class Search:
    """Looks for the smallest scenario that breaks each of the rules that `subject` claims; `best` has what it found.

    `reached` are the rules that could have been broken.
    """

    def __init__(self, subject: Subject):
        self.subject = subject
        self.best: dict[int, Breach] = {}
        self.reached = set[int]()
        self.played = self.endless = 0

    def play(self, scenario: Scenario) -> Breach | None:
        """Try one scenario; what it breaks of what is claimed. Nothing, if enough was tried or did not end."""
        if self.played >= MOST_PLAYED or self.endless >= MOST_ENDLESS:
            return None
        self.played += 1
        found = find_breach(self.subject, scenario, self.reached)
        if found is not None and found.endless:  # or the machine was busy for so long
            found = find_breach(self.subject, scenario, self.reached)
        if found is None or found.rule not in self.subject.claims:
            return None
        self.endless += found.endless
        known = self.best.get(found.rule)
        if known is None or found.body.size < known.body.size:
            self.best[found.rule] = found
        return found

    def through(self, picked: Iterable[Scenario]) -> None:
        """Try those that the subject can be asked, with pages of a size that it can have."""
        subject = self.subject
        words = [word for rule, word in _WORDS.items() if rule not in subject.claims]
        words += [*(f".{verb}(" for verb in subject.lacks), *OTHER_FORMS * subject.trusting]
        for scenario in picked:
            is_unknown = any(word in line for word in words for line in scenario.lines)
            if scenario.page_size in subject.page_sizes and not is_unknown:
                self.play(scenario)

    def beyond(self, examples: int) -> None:
        """Try what Hypothesis makes, until it finds no rule that it has not shrunk already."""
        shrunk, subject = set[int](), self.subject
        strategy = scenarios(subject.claims, subject.lacks, subject.page_sizes[:3])

        def breaks(scenario: Scenario) -> bool:
            found = self.play(scenario)
            return found is not None and found.rule not in shrunk and not found.endless

        while isinstance(case := smallest_case(breaks, strategy, examples), Scenario) and (found := self.play(case)):
            shrunk.add(found.rule)

    def shorten(self, found: Breach) -> None:
        """Try a script again and again without what is not needed in it."""

        def shown_by(lines: list[str]) -> list[str] | None:
            tried = self.play(dataclasses.replace(found.body, lines=tuple(lines)))
            return list(tried.body.lines) if tried is not None and tried.rule == found.rule else None

        fewest_lines(found.body.lines, shown_by)

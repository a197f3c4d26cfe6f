"""Playing a scenario on an index and on the naive model: the first place where they part, and which rule is to blame.

A match that comes out wrong may be the fault of the match, of a buffer that was kept, or of a namespace that was
ignored. So the scenario is run again with copies of the buffers, with the namespaces spelled as tokens, and so on;
the change after which nothing is wrong any more names the rule.
"""

from __future__ import annotations

import copy
import dataclasses
import itertools
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from minikv.errors import whole_number
from minikv.pools.contract import Pages
from minikv.testing.conformance.evictions import look_for_scars
from minikv.testing.conformance.judging import READERS, judge_call, wrong_sizes
from minikv.testing.conformance.script import Breach, Change, Mismatch, Recorder, Scenario, Stage, Transcript
from minikv.testing.conformance.subject import Subject
from minikv.testing.model import NaiveCache
from minikv.tokens import pack


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


class SideBySide(Transcript):
    """One scenario on a new object and on a new model; `offered` and `evicted` are pages that must not be seen."""

    def __init__(self, subject: Subject, page_size: int, settings: Mapping[str, Any], change: Change | None = None):
        super().__init__(subject, page_size, settings, "cache")
        self.model = FollowingModel(page_size, evict_by=settings.get("evict_by", "node"))
        self.stage = Stage("cache", Recorder(self.index, READERS, change), self.make)
        self.expected = Stage(
            "cache", Recorder(self.model, READERS, change, is_ours=True), lambda: FollowingModel(page_size)
        )
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
        found = judge_call(self, reply, expected)
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


def play_cache(run: SideBySide, lines: Iterable[str]) -> Breach | None:
    """Run the lines, then evict all that is left, bit by bit; where the index parts from the model, if it does.

    >>> from minikv import RadixCache
    >>> from minikv.testing.conformance.subject import subject_of
    >>> play_cache(SideBySide(subject_of(RadixCache, range(1, 16)), 1, {}), ["cache.insert([1, 2], [5, 6])"])
    """
    if run.made.error is not None:
        return run.end(Mismatch(15 if run.page_size > 1 else 1, run.made.in_words))
    return run.play(itertools.chain(lines, _draining(run))) or run.scar


def _draining(run: SideBySide) -> Iterator[str]:
    while run.model.unlocked_leaves() and "evict" not in run.subject.lacks:
        yield f"cache.evict({run.page_size})"


Args = tuple[tuple[Any, ...], dict[str, Any]]
_BRANCH = 900  # a token that no scenario has
_APART = 1000  # what is added to the tokens of each further namespace


def find_breach(subject: Subject, scenario: Scenario) -> Breach | None:
    """What is wrong with a class in this scenario, under the rule that is to blame; the first of its settings counts.

    >>> from minikv import RadixCache
    >>> from minikv.testing.conformance.script import scenario_of
    >>> from minikv.testing.conformance.subject import subject_of
    >>> class Deaf(RadixCache):
    ...     def match_prefix(self, tokens, *, limit=None, namespace=None):
    ...         return super().match_prefix(tokens, limit=limit)
    >>> lines = "cache.insert([1], [5], namespace='a')", "cache.match_prefix([1], namespace='a')"
    >>> found = find_breach(subject_of(Deaf, range(1, 16)), scenario_of(*lines))
    >>> found.rule, found.words
    (10, 'gives length 0 and pages [], expected length 1 and pages [5]')
    """
    for settings in subject.settings:
        run = SideBySide(subject, scenario.page_size, settings)
        found = play_cache(run, scenario.lines)
        if found is not None:
            is_clear = found.endless or found.rule == 14
            return found if is_clear else dataclasses.replace(found, rule=_rule(found, run))
    return None


def _rule(found: Breach, run: SideBySide) -> int:
    """The rule that is to blame for what was `found`."""
    for rule, scenario, change in _alterations(found, run):
        again = SideBySide(run.subject, scenario.page_size, found.settings, change)
        if rule != found.rule and play_cache(again, scenario.lines) is None:
            return rule
    return found.rule


def _alterations(found: Breach, run: SideBySide) -> Iterator[tuple[int, Scenario, Change | None]]:
    """A rule, and the scenario and the change of arguments with which that rule is not touched."""
    scenario, text = found.scenario, "\n".join(found.scenario.lines)
    refused = dict(run.refused)
    if refused:
        kept = tuple(line for number, line in enumerate(scenario.lines) if number not in refused)
        yield next(iter(refused.values())), dataclasses.replace(scenario, lines=kept), None
    if "tokens" in text or "pages[" in text:
        yield 2, scenario, _copied
    if any(form in text for form in ("array", "pack", "deque", "range", "(1,", "b'")):
        yield 1, scenario, _plain
    if "namespace" in text and not found.words.endswith("start is not a prefix of the tokens"):
        yield 10, scenario, _apart()
    if run.model.cuts and run.locked and (found.rule in (6, 7) or found.is_crash):
        yield 5, _cut_before(scenario, run), None


def _cut_before(scenario: Scenario, run: SideBySide) -> Scenario:
    """The scenario in a cache that branches where it would split: so it splits nothing, and joins nothing there."""
    cuts = sorted({(tokens, str(name)): name for name, tokens in run.model.cuts}.items())
    lines, page = [], 10**6
    for (tokens, _), name in cuts:
        branch = [*tokens, *[_BRANCH] * scenario.page_size]
        pages = list(range(page, page + len(branch) // scenario.page_size))
        options = f", namespace={name!r}" if name is not None else ""
        lines.append(f"cache.insert({branch}, {pages}{options})")
        page += len(pages)
    return dataclasses.replace(scenario, lines=(*lines, *scenario.lines))


def _copied(verb: str, args: tuple[Any, ...], options: dict[str, Any]) -> Args:
    """Buffers of the cache's own."""
    return tuple(copy.copy(arg) if verb == "insert" else arg for arg in args), options


def _plain(verb: str, args: tuple[Any, ...], options: dict[str, Any]) -> Args:
    """Lists in place of any other sequence."""
    return tuple(map(_list_of, args)) if verb in ("insert", "match_prefix", "acquire") else args, options


def _list_of(values: Any) -> Any:
    try:
        return pack(values).tolist()
    except (TypeError, ValueError):
        return values


def _apart() -> Change:
    """Tokens that are different in each namespace, and no namespaces."""
    known: dict[Any, int] = {None: 0}

    def change(verb: str, args: tuple[Any, ...], options: dict[str, Any]) -> Args:
        if "namespace" not in options:
            return args, options
        name = options["namespace"]
        try:
            shift = _APART * known.setdefault(name, len(known))
            moved = [token + shift for token in pack(args[0]).tolist()]
        except (TypeError, ValueError):
            return args, options
        return (moved, *args[1:]), {key: value for key, value in options.items() if key != "namespace"}

    return change

"""Which rule is to blame for what goes wrong in a scenario.

A match that comes out wrong may be the fault of the match, of a buffer that was kept, or of a namespace that was
ignored. So the scenario is run again with copies of the buffers, with the namespaces spelled as tokens, and so on;
the change after which nothing is wrong any more names the rule.
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Iterator
from typing import Any

from minikv.testing.conformance.caches import CacheRun
from minikv.testing.conformance.playing import SideBySide
from minikv.testing.conformance.script import Breach, Change, Scenario
from minikv.testing.conformance.subject import Subject
from minikv.tokens import pack

Args = tuple[tuple[Any, ...], dict[str, Any]]
_BRANCH = 900  # a token that no scenario has
_APART = 1000  # what is added to the tokens of each further namespace


def find_breach(kind: type[SideBySide], subject: Subject, scenario: Scenario) -> Breach | None:
    """What is wrong with a class in this scenario, under the rule that is to blame; the first of its settings counts.

    >>> from minikv import RadixCache
    >>> from minikv.testing.conformance.script import scenario_of
    >>> from minikv.testing.conformance.subject import subject_of
    >>> class Deaf(RadixCache):
    ...     def match_prefix(self, tokens, *, limit=None, namespace=None):
    ...         return super().match_prefix(tokens, limit=limit)
    >>> lines = "cache.insert([1], [5], namespace='a')", "cache.match_prefix([1], namespace='a')"
    >>> found = find_breach(CacheRun, subject_of(Deaf, range(1, 16)), scenario_of(*lines))
    >>> found.rule, found.words
    (10, 'gives length 0 and pages [], expected length 1 and pages [5]')
    """
    for settings in subject.settings:
        run = kind(subject, scenario.page_size, settings)
        if (found := run.play(scenario.lines)) is not None:
            is_clear = found.endless or found.rule == 14
            return found if is_clear else dataclasses.replace(found, rule=_rule(found, run))
    return None


def _rule(found: Breach, run: SideBySide) -> int:
    """The rule that is to blame for what was `found`."""
    for rule, scenario, change in _alterations(found, run):
        again = type(run)(run.subject, scenario.page_size, found.settings, change)
        if rule != found.rule and again.play(scenario.lines) is None:
            return rule
    return found.rule


def _alterations(found: Breach, run: SideBySide) -> Iterator[tuple[int, Scenario, Change | None]]:
    """A rule, and the scenario and the change of arguments with which that rule is not touched."""
    scenario, text = found.scenario, "\n".join(found.scenario.lines)
    if run.refused:
        kept = tuple(line for number, line in enumerate(scenario.lines) if number not in run.refused)
        yield next(iter(run.refused.values())), dataclasses.replace(scenario, lines=kept), None
    if not isinstance(run, CacheRun):
        return
    if "tokens" in text or "pages[" in text:
        yield 2, scenario, _copied
    if any(form in text for form in ("array", "pack", "deque", "range", "(1,", "b'")):
        yield 1, scenario, _plain
    if "namespace" in text and not found.words.endswith("start is not a prefix of the tokens"):
        yield 10, scenario, _apart()
    if run.model.cuts and run.has_locked and (found.rule in (6, 7) or found.is_crash):
        yield 5, _cut_before(scenario, run), None


def _cut_before(scenario: Scenario, run: CacheRun) -> Scenario:
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

"""One class, all its rules: what `minikv verify` says about it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from minikv.testing.conformance.cache import EXAMPLES, examine_cache
from minikv.testing.conformance.managers import MANAGER_EXAMPLES, examine_manager, manager_subject
from minikv.testing.conformance.report import Conformance, conformance_of
from minikv.testing.conformance.rules import CACHE_RULES, MANAGER_RULES
from minikv.testing.conformance.scenario import Scenario
from minikv.testing.conformance.subject import subject_of

RULES = {"cache": CACHE_RULES, "manager": MANAGER_RULES}


def verify(
    made: Any,
    kind: str = "cache",
    home: str | None = None,
    examples: int | None = None,
    before: Callable[[Scenario], None] = lambda scenario: None,
    **fixed: Any,
) -> Conformance:
    """Whether a class keeps the rules that it claims; `home` is the module that the scripts import it from.

    `kind` is "cache" or "manager". `examples` is how many scenarios Hypothesis makes, and `fixed` are arguments that
    the class is always given. Never raises, but for `claims` that are not numbers of rules (`ValueError`).

    >>> from minikv import NoCache
    >>> print(str(verify(NoCache, examples=0)).splitlines()[-1])
    14 rules hold, 0 are broken, 1 is not claimed
    """
    rules = RULES[kind]
    subject = subject_of(made, rules, fixed) if kind == "cache" else manager_subject(made, fixed)
    if home is not None:
        subject = dataclasses.replace(subject, home=home)
    examine, most = (examine_cache, EXAMPLES) if kind == "cache" else (examine_manager, MANAGER_EXAMPLES)
    found = examine(subject, most if examples is None else examples, before)
    return conformance_of(subject.name, rules, subject.claims, found)

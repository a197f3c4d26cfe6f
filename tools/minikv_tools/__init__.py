"""minikv-tools: why prompts miss the prefix cache, and how much cache traffic needs.

Nothing is imported until it is asked for.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from minikv_tools.plans import Plan
    from minikv_tools.plans.planning import plan
    from minikv_tools.why import Explanation, explain
    from minikv_tools.why.log import survey
    from minikv_tools.why.log_report import LogReport
    from minikv_tools.why.stable import assert_prefix_stable

__version__ = "0.1.0"
__all__ = ["Explanation", "LogReport", "Plan", "assert_prefix_stable", "explain", "plan", "survey"]

_HOMES = {
    "Explanation": "why",
    "LogReport": "why.log_report",
    "Plan": "plans",
    "assert_prefix_stable": "why.stable",
    "explain": "why",
    "plan": "plans.planning",
    "survey": "why.log",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'minikv_tools' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"minikv_tools.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})

"""minikv: how LLM serving engines manage their KV cache, small enough to read and fast enough to use.

Everything that a learner meets can be imported from here; `__init__.pyi` lists it, for type checkers as well. Nothing
is imported until it is asked for, so that `import minikv` needs neither torch nor a widget.
"""

from __future__ import annotations

import importlib

__version__ = "0.1.0"

_LINES = __spec__.loader.get_data(f"{__file__}i").decode().splitlines()
_HOME_OF = {line.split()[3]: line.split()[1] for line in _LINES if line.startswith("from ")}
_OF_THE_TOOLS = {"Explanation", "LogReport", "Plan", "assert_prefix_stable", "explain", "plan", "survey"}
__all__ = sorted(_HOME_OF)


def __getattr__(name: str) -> object:
    if name in _OF_THE_TOOLS:
        raise ImportError(f"{name} is in minikv_tools: pip install minikv-tools, then from minikv_tools import {name}")
    if name not in _HOME_OF:
        raise AttributeError(f"module 'minikv' has no attribute {name!r}")
    try:
        value = getattr(importlib.import_module(_HOME_OF[name]), name)
    except ModuleNotFoundError as error:
        raise _missing(name, error) from None
    globals()[name] = value
    return value


def _missing(name: str, error: ModuleNotFoundError) -> ImportError:
    """Return the error text for a `name` that needs a missing package: the package, and the extra that installs it."""
    from minikv.errors import remedy

    module = (error.name or "").split(".")[0]
    if module in ("minikv", ""):
        return error
    # The course needs all of its packages: the extra of the first one that is missing would not do.
    part_of_course = _HOME_OF[name].startswith("minikv.course") and "serving" not in remedy(module)
    command = "pip install 'minikv[course]'" if part_of_course else remedy(module)
    return ImportError(f"minikv.{name} needs {module}, which is not installed: {command}", name=module)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})

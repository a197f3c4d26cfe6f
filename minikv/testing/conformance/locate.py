"""Breach what is to be judged: a file or a module, and the classes in it that are a cache or a manager."""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from types import ModuleType
from typing import Any

from minikv.errors import bounded

_VERBS = {"cache": ("match_prefix", "insert"), "manager": ("start", "advance", "finish", "abort")}


def kind_of(found: Any) -> str | None:
    """The kind of a class that has the verbs of one; `None` for anything else, and for a protocol.

    >>> from minikv import CacheManager, NoCache, PrefixCache
    >>> kind_of(NoCache), kind_of(CacheManager), kind_of(PrefixCache), kind_of(dict)
    ('cache', 'manager', None, None)
    """
    if not isinstance(found, type) or getattr(found, "_is_protocol", False):
        return None
    for kind, verbs in _VERBS.items():
        if all(callable(getattr(found, verb, None)) for verb in verbs):
            return kind
    return None


def load(target: str) -> ModuleType:
    """The module that `target` names: a file that ends in .py, or a module, looked for in the current folder too.

    Raises `ImportError` when there is none, and whatever the module itself raises.

    >>> load("minikv.prefix").__name__
    'minikv.prefix'
    """
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    if not (target.endswith(".py") or os.sep in target or os.path.isfile(target)):
        return importlib.import_module(target)
    path = os.path.abspath(target)
    if not os.path.isfile(path):
        raise ImportError("there is no such file")
    name = os.path.splitext(os.path.basename(path))[0]
    name = f"{name}_to_verify" if name in sys.modules else name
    sys.path.insert(0, os.path.dirname(path))
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ImportError("it is not a Python file: its name must end in .py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def classes_in(module: ModuleType, name: str = "") -> dict[str, tuple[str, Any]]:
    """The classes to be judged, by name, each with its kind: the one called `name`, or all that the module defines.

    A module that defines none, such as a package, is looked through for those that it imports. `LookupError` says
    why there is nothing to judge.

    >>> import minikv.prefix
    >>> sorted(classes_in(minikv.prefix))
    ['HashBlockCache', 'NoCache', 'RadixCache', 'SlidingWindowCache', 'TokenTrie']
    """
    if name:
        if not hasattr(module, name):
            raise LookupError(f"it has no class {bounded(name)}")
        if (kind := kind_of(getattr(module, name))) is None:
            raise LookupError(f"{bounded(name)} is not a class with {_in_words()}")
        return {name: (kind, getattr(module, name))}
    found = {key: (kind, value) for key, value in vars(module).items() if (kind := kind_of(value)) and key[0] != "_"}
    own = {key: pair for key, pair in found.items() if pair[1].__module__ == module.__name__}
    if not found:
        raise LookupError(f"it has no class with {_in_words()}")
    return own or found


def _in_words() -> str:
    return " or with ".join(f"{', '.join(verbs[:-1])} and {verbs[-1]}" for verbs in _VERBS.values())

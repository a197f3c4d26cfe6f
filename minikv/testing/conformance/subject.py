"""The subjects to judge: the classes of a file or a module, the way to make an object, and the rules that it claims."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import os
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import islice
from types import CodeType, ModuleType
from typing import Any

from minikv.errors import bounded


class NothingToJudgeError(ValueError):
    """There is no such module or class, or it cannot be imported; the message says why."""


_VERBS = {"cache": ("match_prefix", "insert"), "manager": ("start", "advance", "finish", "abort")}


def kind_of_class(found: Any) -> str | None:
    """The kind of a class that has the verbs of one; `None` for anything else, and for a protocol.

    >>> from minikv import CacheManager, NoCache, PrefixCache
    >>> kind_of_class(NoCache), kind_of_class(CacheManager), kind_of_class(PrefixCache), kind_of_class(dict)
    ('cache', 'manager', None, None)
    """
    if not isinstance(found, type) or getattr(found, "_is_protocol", False):
        return None
    for kind, verbs in _VERBS.items():
        if all(callable(getattr(found, verb, None)) for verb in verbs):
            return kind
    return None


def load_module(target: str) -> ModuleType:
    """The module that `target` names: a file that ends in .py, or a module, looked for in the current folder too.

    Raises `ImportError` when there is none, and whatever the module itself raises.

    >>> load_module("minikv.prefix").__name__
    'minikv.prefix'
    """
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    if not (target.endswith(".py") or target.startswith(".") or os.sep in target or os.path.isfile(target)):
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

    A module that defines none, such as a package, is looked through for those that it imports. `NothingToJudgeError`
    says why there is nothing to judge.

    >>> import minikv.prefix.radix
    >>> sorted(classes_in(minikv.prefix.radix))
    ['RadixCache']
    """
    if name:
        if not hasattr(module, name):
            raise NothingToJudgeError(f"it has no class {bounded(name)}")
        if (kind := kind_of_class(getattr(module, name))) is None:
            raise NothingToJudgeError(f"{bounded(name)} is not a class with {_in_words()}")
        return _filled({name: (kind, getattr(module, name))})
    found = {
        key: (kind, value) for key, value in vars(module).items() if (kind := kind_of_class(value)) and key[0] != "_"
    }
    own = {key: pair for key, pair in found.items() if pair[1].__module__ == module.__name__}
    if not found:
        raise NothingToJudgeError(f"it has no class with {_in_words()}")
    return _filled(own or found)


def _filled(found: dict[str, tuple[str, Any]]) -> dict[str, tuple[str, Any]]:
    """The same classes, unless one has methods that are abstract, or as `minikv verify --template` prints them."""
    for name, (_, made) in found.items():
        codes = {each: getattr(method, "__code__", None) for each, method in vars(made).items()}
        left = [each for each, code in codes.items() if code and _is_todo(code)]
        if left := left + sorted(getattr(made, "__abstractmethods__", ())):
            raise NothingToJudgeError(f"{name} is not filled in yet: write its {', '.join(left)}")
    return found


def _is_todo(code: CodeType) -> bool:
    """The code returns or unpacks `...`, or `self.cache` is that: it uses no other name."""
    return ... in code.co_consts and code.co_names in ((), ("cache",))


def _in_words() -> str:
    return " or with ".join(f"{', '.join(verbs[:-1])} and {verbs[-1]}" for verbs in _VERBS.values())


_MOST_CLAIMS = 1000  # that are looked at


@dataclass(frozen=True)
class Subject:
    """A class under test: `make(**settings)` is one object, and `settings` are the ways in which it can be made.

    `page_sizes` are the sizes of a page that it can have; a choice of them is an argument. `fixed` are arguments that
    are always given. `claims` are the numbers of the rules that it says it keeps, and `lacks` the verbs that it does
    not have. If it is `trusting`, it is given only valid input.

    >>> from minikv import RadixCache
    >>> subject = subject_of(RadixCache, range(1, 16))
    >>> subject.page_sizes, subject.settings, subject.spelled(2, {"evict_by": "page"})
    ((1, 2, 3, 4), ({'evict_by': 'node'}, {'evict_by': 'page'}), "RadixCache(page_size=2, evict_by='page')")
    """

    make: Callable[..., Any]
    name: str
    claims: frozenset[int]
    page_sizes: tuple[int, ...] = (1,)
    settings: tuple[Mapping[str, Any], ...] = ({},)
    fixed: Mapping[str, Any] = field(default_factory=dict)
    home: str = ""
    lacks: frozenset[str] = frozenset()
    trusting: bool = False
    whole_nodes: dict[tuple[int, str], bool] = field(default_factory=dict, compare=False, repr=False)

    def arguments(self, page_size: int, settings: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments for an object with pages of this size, made in this way."""
        return {**({"page_size": page_size} if len(self.page_sizes) > 1 else {}), **self.fixed, **settings}

    def spelled(self, page_size: int, settings: Mapping[str, Any]) -> str:
        """The expression that makes such an object; what the class does by default is left out."""
        defaults = {"page_size": 1, "evict_by": "node"}
        given = self.arguments(page_size, settings)
        shown = [f"{name}={value!r}" for name, value in given.items() if defaults.get(name) != value]
        return f"{self.name}({', '.join(shown)})"


def subject_of(made: Any, rules: Iterable[int], fixed: Mapping[str, Any] | None = None) -> Subject:
    """The class of a prefix cache as something to be judged, with what its signature takes.

    >>> from minikv import NoCache
    >>> sorted(set(range(1, 16)) - subject_of(NoCache, range(1, 16)).claims)
    [4]
    """
    takes, given = _parameters(made), dict(fixed or {})
    by_page = "evict_by" in takes and "evict_by" not in given
    return Subject(
        made, getattr(made, "__name__", "Cache"), claimed(made, rules), (1, 2, 3, 4) if "page_size" in takes else (1,),
        ({"evict_by": "node"}, {"evict_by": "page"}) if by_page else ({},), given, getattr(made, "__module__", ""),
    )  # fmt: skip


def claimed(made: Any, rules: Iterable[int]) -> frozenset[int]:
    """The rules that a class claims by its attribute `claims`, an iterable of their numbers; without one, all.

    >>> class Half:
    ...     claims = (1, 2)
    >>> sorted(claimed(Half, range(1, 16)))
    [1, 2]
    """
    known, said = frozenset(rules), getattr(made, "claims", None)
    if said is None:
        return known
    try:
        found = frozenset(islice(said, _MOST_CLAIMS))
    except Exception:
        found = frozenset([None])
    if not found <= known:
        name, rule = getattr(made, "__name__", "Cache"), f"expected numbers of rules, {min(known)} to {max(known)}"
        raise NothingToJudgeError(f"{name}: claims is {bounded(said)}: {rule}")
    return found


def _parameters(made: Any) -> frozenset[str]:
    """The names of the arguments that a class takes."""
    try:
        found = inspect.signature(made).parameters.values()
    except (TypeError, ValueError):
        return frozenset()
    return frozenset(each.name for each in found if each.kind not in (each.VAR_KEYWORD, each.VAR_POSITIONAL))

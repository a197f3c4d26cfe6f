"""The roots of namespaces: a dictionary whose keys are the caller's, and may do anything that a hash can do."""

from __future__ import annotations

from collections.abc import Hashable
from contextlib import suppress
from typing import Protocol, TypeVar


class Root(Protocol):
    """Where the prompts of one namespace begin."""

    namespace: Hashable

    @property
    def children(self) -> object:
        """What hangs below it: something that is false when it is empty."""


Some = TypeVar("Some", bound=Root)


def forget_root(roots: dict[Hashable, Some], root: Some) -> dict[Hashable, Some]:
    """The roots without `root`, which holds nothing, even if its name's hash has changed since; the default one stays.

    Where hashes raise, or two names that are needed have become equal, the empty root stays until that has changed:
    better than to lose another one.

    >>> from types import SimpleNamespace as Node
    >>> roots = {None: Node(namespace=None, children={}), "lora": Node(namespace="lora", children={})}
    >>> list(forget_root(roots, roots["lora"]))
    [None]
    """
    if root.namespace is None:
        return roots
    with suppress(Exception):
        if roots.get(root.namespace) is root:
            del roots[root.namespace]
            return roots
    with suppress(Exception):
        needed = [(name, other) for name, other in roots.items() if name is None or other.children]
        others = dict(needed)
        if len(others) == len(needed):
            return others
    return roots

"""Namespaces as a dictionary of roots, one for each namespace that holds something."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from contextlib import suppress
from types import MappingProxyType
from typing import Any, Generic, Protocol, TypeVar

from minikv.prefix.contract import require_hashable


class _Root(Protocol):
    """What is known of a root: its name, and whether anything hangs on it."""

    namespace: Hashable

    @property
    def is_empty(self) -> bool: ...


RootT = TypeVar("RootT", bound=_Root)


class Roots(Generic[RootT]):
    """The roots of a cache by their namespace; the default one, `None`, is always there.

    A namespace may be any hashable, and a caller's own class may change its hash or raise in it: then no page is lost.

    >>> class Root:
    ...     is_empty = True
    ...     def __init__(self, namespace): self.namespace = namespace
    >>> roots = Roots(Root(None))
    >>> roots.find("a") is None, roots.add(Root("a")).namespace, list(roots.by_name)
    (True, 'a', [None, 'a'])
    """

    def __init__(self, default: RootT):
        self._roots: dict[Hashable, RootT] = {None: default}

    @property
    def by_name(self) -> Mapping[Hashable, RootT]:
        """Every root by its namespace; read only."""
        return MappingProxyType(self._roots)

    def find(self, namespace: Hashable) -> RootT | None:
        """The root of `namespace`, or `None` when it holds nothing; `TypeError` when it is not hashable."""
        if namespace is not None:
            require_hashable(namespace)
        return self._roots.get(namespace)

    def add(self, root: RootT) -> RootT:
        """Put in the root of a namespace that has none; what the namespace's own hash raises changes nothing."""
        self._roots[root.namespace] = root
        return root

    def drop(self, root: RootT) -> None:
        """Forget a root that is empty now, even if the hash of its namespace has changed; the default one stays.

        Where hashes raise, or two names that are needed have become equal, the empty root stays until that has changed:
        better than to lose another one.
        """
        self._roots = without_root(self._roots, root)

    def leads_to(self, namespace: Hashable, root: Any) -> bool:
        """Whether `root` is found by its namespace: not if that has another hash now, or one that raises."""
        try:
            return self._roots.get(namespace) is root
        except Exception:
            return False


def without_root(roots: dict[Hashable, RootT], root: RootT) -> dict[Hashable, RootT]:
    """`roots` less one that is empty now, even if the hash of its namespace has changed; the default one stays.

    Where hashes raise, or two names that are needed have become equal, the empty root stays until that has changed:
    better than to lose another one.

    >>> from types import SimpleNamespace as Root
    >>> roots = {None: Root(namespace=None, is_empty=True), "lora": Root(namespace="lora", is_empty=True)}
    >>> list(without_root(roots, roots["lora"]))
    [None]
    """
    if root.namespace is None:
        return roots
    with suppress(Exception):
        if roots.get(root.namespace) is root:
            del roots[root.namespace]
            return roots
    with suppress(Exception):
        needed = [(name, other) for name, other in roots.items() if name is None or not other.is_empty]
        others = dict(needed)
        if len(others) == len(needed):
            return others
    return roots

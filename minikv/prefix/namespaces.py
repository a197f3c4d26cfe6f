"""Namespaces as a dictionary of roots, one for each namespace that holds something."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from types import MappingProxyType
from typing import Any, Generic, TypeVar

from minikv.prefix.contract import require_hashable

RootT = TypeVar("RootT")


class Roots(Generic[RootT]):
    """The roots of a cache by their `namespace`; the default one, `None`, is always there.

    A namespace is hashable, as a dictionary's key is.

    >>> from types import SimpleNamespace as Root
    >>> roots = Roots(Root(namespace=None))
    >>> roots.find("a") is None, roots.add(Root(namespace="a")).namespace, list(roots.by_name)
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

    def add(self, root: Any) -> RootT:
        """Put in the root of a namespace that has none."""
        self._roots[root.namespace] = root
        return self._roots[root.namespace]

    def drop(self, root: Any) -> None:
        """Forget a root that is empty now; the default one stays."""
        if root.namespace is not None:
            self._roots.pop(root.namespace, None)

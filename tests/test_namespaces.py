"""The roots of namespaces: one for each that holds something."""

from __future__ import annotations

import pytest

from minikv.prefix.namespaces import Roots


class Root:
    def __init__(self, namespace, is_empty=False):
        self.namespace, self.is_empty = namespace, is_empty


def test_a_namespace_has_a_root_only_while_it_holds_something():
    roots = Roots(Root(None, is_empty=True))
    one = roots.add(Root("a"))
    assert roots.find("a") is one
    one.is_empty = True
    roots.drop(one)
    roots.drop(roots.find(None))
    assert list(roots.by_name) == [None]
    with pytest.raises(TypeError, match="a namespace must be hashable"):
        roots.find(["a"])

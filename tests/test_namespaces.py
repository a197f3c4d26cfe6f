"""The roots of namespaces: one each, and none is lost whatever a caller's hash does."""

from __future__ import annotations

import pytest

from minikv.prefix.namespaces import Roots


class Root:
    def __init__(self, namespace, is_empty=False):
        self.namespace, self.is_empty = namespace, is_empty


class Changing:
    """A name whose hash is what its owner says."""

    def __init__(self, number):
        self.number = number

    def __hash__(self):
        return self.number


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


def test_a_root_whose_name_has_changed_is_dropped_and_no_other():
    roots = Roots(Root(None))
    changing, other = roots.add(Root(Changing(1))), roots.add(Root("b"))
    changing.namespace.number, changing.is_empty = 2, True
    assert not roots.leads_to(changing.namespace, changing)
    roots.drop(changing)
    assert list(roots.by_name.values()) == [roots.find(None), other]
    assert roots.leads_to("b", other)

"""The change between two prompts that is left once the first one is fixed."""

from __future__ import annotations

from collections.abc import Sequence

from minikv_tools.bodies import Body
from minikv_tools.why.breaks import HISTORY, Break, Breaks
from minikv_tools.why.changes import items_of
from minikv_tools.why.histories import PromptItem
from minikv_tools.why.rewrites import Rewrites
from minikv_tools.why.texts import common_run

_PAIRED = ("clock", "random id", "number")  # kinds after which the messages of both still stand beside each other
_STEPS = 8  # changes of the first kind after the first one
Sides = tuple[Sequence[PromptItem], Sequence[PromptItem]]


def second_change(one: Body, two: Body) -> Break | None:
    """What breaks the prefix of a prompt next, if that is no fault of the first change and one of another kind.

    >>> from minikv_tools.bodies import read_body
    >>> bodies = ({"tools": [{"name": name}], "prompt": f"It is 14:0{n}. Why?"} for n, name in enumerate("ab"))
    >>> found = second_change(*map(read_body, bodies)); found.place, found.kind
    ('prompt', 'clock')
    """
    whole = items_of(one), items_of(two)
    left, right = _apart(*whole)
    if not left or not right:
        return None
    first = found = Breaks().between(left, right)
    for _ in range(_STEPS):
        if found.harmless or found.kind in HISTORY:
            return None
        left, right = _apart(*Rewrites().learn(found[:2], left, right, whole))
        if not left or not right:
            return None
        found = Breaks().between(left, right)
        if found.kind != first.kind:
            break
    followed = first.kind in _PAIRED or found.kind not in HISTORY
    return found if followed and found.kind != first.kind and not found.harmless else None


def _apart(left: Sequence[PromptItem], right: Sequence[PromptItem]) -> Sides:
    """Two lists from the first item on that differs."""
    same = common_run([item.text for item in left], [item.text for item in right])
    return left[same:], right[same:]

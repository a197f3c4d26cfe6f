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
    first = Breaks().between(left, right)
    if first.harmless or first.kind in HISTORY:
        return None
    rest = _apart(*Rewrites().learn(first[:2], left, right, whole))
    second = Breaks().between(*rest) if all(rest) else None
    if second is None or second.harmless or second.kind == first.kind:
        return None
    return None if second.kind in HISTORY and first.kind not in _PAIRED else second


def _apart(left: Sequence[PromptItem], right: Sequence[PromptItem]) -> Sides:
    """Two lists from the first item on that differs."""
    same = common_run([item.text for item in left], [item.text for item in right])
    return left[same:], right[same:]

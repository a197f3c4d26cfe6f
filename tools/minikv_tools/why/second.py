"""The change between two prompts that breaks the prefix next, once the first change is fixed."""

from __future__ import annotations

from collections.abc import Sequence

from minikv_tools.bodies import Body
from minikv_tools.pieces import PromptItem
from minikv_tools.why.breaks import HISTORY, Breaks
from minikv_tools.why.changes import items_of
from minikv_tools.why.histories import PLACED, edited_kind
from minikv_tools.why.rewrites import Rewrites
from minikv_tools.why.texts import PromptChange, common_run

_PAIRED = ("clock", "random id", "number")  # kinds that leave each message at the same index in both prompts
_STEPS = 8  # how many more changes of the first kind are passed over
Sides = tuple[Sequence[PromptItem], Sequence[PromptItem]]


def second_change(one: Body, two: Body) -> PromptChange | None:
    """The change that breaks the prefix next, and its place, if it is of another kind than the first change.

    >>> from minikv_tools.bodies import read_body
    >>> bodies = ({"tools": [{"name": name}], "prompt": f"It is 14:0{n}. Why?"} for n, name in enumerate("ab"))
    >>> print(second_change(*map(read_body, bodies)))
    PromptChange(kind='clock', detail='prompt')
    """
    whole = items_of(one), items_of(two)
    left, right = _apart(*whole)
    if not left or not right:
        return None
    first = found = Breaks().between(left, right)
    for _ in range(_STEPS):
        if found.kind == "messages reordered":
            left, right = _apart(*_as_many(left, right))
        elif found.harmless or found.kind in HISTORY:
            return None
        else:
            left, right = _apart(*Rewrites().learn(found[:2], left, right, whole))
        if not left or not right:
            return None
        found = Breaks().between(left, right)
        if found.kind != first.kind:
            break
    followed = first.kind in _PAIRED or found.kind not in HISTORY
    if not followed or found.kind == first.kind or found.harmless:
        return None
    places = [spot.place for spot in found.spots if spot]
    where = PLACED.get(edited_kind(places[0].name, places[0].field), "") if places else ""
    return PromptChange(found.kind, f"{where}{', ' * bool(where)}{places[0] if places else found.place}")


def _as_many(left: Sequence[PromptItem], right: Sequence[PromptItem]) -> Sides:
    """The rest of two lists after the messages that both have in another order; after one, if only its parts moved."""
    ends = range(2, min(len(left), len(right)) + 1)
    same = (end for end in ends if {item.text for item in left[:end]} == {item.text for item in right[:end]})
    end = next(same, 1)
    return left[end:], right[end:]


def _apart(left: Sequence[PromptItem], right: Sequence[PromptItem]) -> Sides:
    """Two lists, each from the first item that differs."""
    same = common_run([item.text for item in left], [item.text for item in right])
    return left[same:], right[same:]

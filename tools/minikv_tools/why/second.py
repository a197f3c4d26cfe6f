"""The change between two prompts that breaks the prefix next, once the first change is fixed."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from minikv_tools.bodies import Body
from minikv_tools.pieces import Items, Sides
from minikv_tools.why.breaks import HISTORY, Break, Breaks
from minikv_tools.why.changes import apart, items_of
from minikv_tools.why.histories import PLACED, edited_kind
from minikv_tools.why.rewrites import Rewrites
from minikv_tools.why.texts import PromptChange

_PAIRED = ("clock", "random id", "number")  # kinds that leave each message at the same index in both prompts
_STEPS = 9  # how many changes are looked at
_MOST_MOVED = 500  # messages


def second_change(one: Body, two: Body) -> PromptChange | None:
    """The change that breaks the prefix next, and its place, if it is of another kind than the first change.

    >>> from minikv_tools.bodies import read_body
    >>> bodies = ({"tools": [{"name": name}], "prompt": f"It is 14:0{n}. Why?"} for n, name in enumerate("ab"))
    >>> print(second_change(*map(read_body, bodies)))
    PromptChange(kind='clock', detail='prompt')
    """
    breaks = islice(_breaks((items_of(one), items_of(two))), _STEPS)
    first = next(breaks, None)
    found = next((each for each in breaks if first and each.kind != first.kind), None)
    if not first or not found or found.harmless or (found.kind in HISTORY and first.kind not in _PAIRED):
        return None
    place = next(spot.place for spot in found.spots if spot)
    where = PLACED.get(edited_kind(place.name, place.field), "")
    return PromptChange(found.kind, f"{where}, {place}".removeprefix(", "))


def _breaks(whole: Sides) -> Iterator[Break]:
    """The breaks of two prompts, one after the other, each as if those before it were fixed."""
    rest = whole
    while all(rest := apart(*rest)):
        found = Breaks().between(*rest)
        yield found
        if found.kind == "messages reordered":
            rest = _as_many(*rest)
        elif found.harmless or found.kind in HISTORY:
            return
        else:
            rest = Rewrites().learn(found[:2], *rest, whole)


def _as_many(left: Items, right: Items) -> Sides:
    """The rest of two lists after the messages that both have in another order; after one, if only its parts moved."""
    ends = range(2, min(len(left), len(right), _MOST_MOVED) + 1)
    same = (end for end in ends if {item.text for item in left[:end]} == {item.text for item in right[:end]})
    end = next(same, 1)
    return left[end:], right[end:]

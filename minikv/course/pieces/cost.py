"""The work of an answer: what runs, is searched, copied or moved in its calls while a large case is played."""

from __future__ import annotations

import copy
import gc
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import count, islice
from operator import itemgetter
from types import FunctionType
from typing import Any
from unittest.mock import patch

from minikv.engine import World


def traced(kind: Any) -> Any:
    """A class of nodes or numbers whose comparisons are lines that run, as when a list is searched.

    >>> traced(int)(3) == 3
    True
    """
    made = {
        "__doc__": traced.__doc__,
        "__slots__": (),
        "__eq__": lambda a, b: kind.__eq__(a, b),
        "__hash__": lambda a: kind.__hash__(a),
    }
    return type(kind.__name__, (kind,), made)


Compared = traced(int)
_KINDS: Mapping[type, type] = {int: Compared, str: traced(str)}


def work_of(piece: Any, world: World) -> list[int]:
    """The steps in all calls of a piece in each of its large cases, whose numbers, lists and nodes count."""
    own, totals = world[piece.name], list[int]()
    kinds = {name: world[name] for name in ("Node", "Pool") if name in world}

    def counted(*args: Any, **more: Any) -> Any:
        given, named = _watched(args), dict(zip(more, _watched(more.values())))
        world[piece.name] = own  # it may call itself, as deep as without this
        try:
            found, steps_taken = steps(lambda: own(*given, **named), *given, *named.values())
        finally:
            world[piece.name] = counted
        totals[-1] += steps_taken
        return found

    class Node(traced(kinds.get("Node", object))):  # type: ignore[misc]
        def __init__(self, *args: Any, **more: Any) -> None:
            super().__init__(*_watched(args), **dict(zip(more, _watched(more.values()))))

    class Pool(kinds.get("Pool", object)):  # type: ignore[misc]
        def __init__(self, size: int) -> None:
            super().__init__(size)
            self.stack, self.in_use = _watched((self.stack, self.in_use))  # type: ignore[has-type]

    stand_ins = {name: {"Node": Node, "Pool": Pool}[name] for name in kinds}
    with patch.dict(world, {**stand_ins, piece.name: counted, "sum": _sum}):
        for case in piece.cost.cases:
            totals.append(0)
            deque(piece.play(world, copy.deepcopy(case)), 0)
    return totals


def _watched(values: Any) -> Any:
    """Some values: lists are ones that count, and the numbers and texts in these and in tuples are `traced`.

    But not where a case has `Compared` ones already: the others may be looked for in a `range`, which compares those.
    """
    found = []
    for value in values:
        if type(value) in (list, tuple) and not any(isinstance(part, Compared) for part in value):
            parts = [_KINDS[type(part)](part) if type(part) in _KINDS else part for part in _watched(value)]
            value = Looked(parts) if type(value) is list else tuple(parts)
        found.append(value)
    return found


def _sum(items: Iterable[Any], start: Any = 0) -> Any:
    """As Python's; lists are copied one by one, and so they count."""
    if not isinstance(start, list):
        return sum(items, start)
    for item in items:
        start = start + item
    return start


class Looked(list[Any]):
    """A list that notes how many of its items are read one by one, searched or copied, in `looked`.

    >>> steps(lambda: sum([*Looked(range(50))][:3]))[1] > 50
    True
    """

    __slots__ = ()
    looked = count()

    def __iter__(self) -> Iterator[Any]:
        return map(itemgetter(0), zip(list.__iter__(self), self.looked))

    def __reversed__(self) -> Iterator[Any]:
        return map(itemgetter(0), zip(list.__reversed__(self), self.looked))


def _noted(name: str) -> Callable[..., Any]:
    """A method of a list that looks at all of it, or at a slice."""
    plain = getattr(list, name)

    def look(self: Looked, *args: Any) -> Any:
        part = args[0] if name.endswith("item__") else slice(None)
        if name in ("pop", "insert", "__delitem__") and not isinstance(part := args[0] if args else -1, slice):
            part = slice(part, None)  # what is moved
        if isinstance(part, slice):
            deque(islice(self.looked, len(list.__getitem__(self, part))), 0)
        return plain(self, *args)

    return look


_BY_ITEM = "__getitem__", "__setitem__", "__delitem__", "insert", "pop"
for _name in (*_BY_ITEM, "__contains__", "__add__", "index", "count", "copy", "reverse"):
    setattr(Looked, _name, _noted(_name))
_COUNTED = list, Looked, tuple, set, frozenset, str, bytes
_SIMPLE = {int, bool, float, type(None), Compared, FunctionType}
_BRIEF = {vars(Compared)[name].__code__ for name in ("__eq__", "__hash__")}  # a comparison is one step
_SILENT = {method.__code__ for method in vars(Looked).values() if isinstance(method, FunctionType)}


def steps(act: Callable[[], Any], *given: Any) -> tuple[Any, int]:
    """The result of a call, and its work: the lines that run, and the items of what is searched, copied or moved.

    A list, tuple, set or text counts if it is `given`, when it gets its first name, or when an attribute gets it, and a
    list again when items come in or go at its front. A search counts if what is looked for is `Compared`.

    >>> numbers = [Compared(number) for number in range(50)]
    >>> steps(lambda: numbers.index(49))[1] > 50
    True
    """
    before, begun, tracer = sys.gettrace(), next(Looked.looked), _Tracer()
    total, is_collected = sum(map(tracer.note, given)), gc.isenabled()
    gc.disable()  # what it calls would count
    sys.settrace(tracer)
    try:
        found = act()
    finally:
        sys.settrace(before)
        (gc.enable if is_collected else gc.disable)()
    return found, total + tracer.total + next(Looked.looked) - begun


class _Tracer:
    """Counts lines, and what the names and attributes of their frames get."""

    def __init__(self) -> None:
        self.total, self.known = 0, dict[int, tuple[Any, ...]]()
        self.attributes = dict[tuple[int, str], Any]()

    def note(self, value: Any, is_new: bool = True) -> int:
        """The items of a collection that was not known and `is_new`, or of a list that has moved."""
        if type(value) not in _COUNTED:
            return 0
        ends = (value[0], value[-1], len(value)) if type(value) is list and value else (None, None, 0)
        _, first, last, size = self.known.get(id(value), (None, None, None, -1))
        self.known[id(value)] = (value, *ends)
        is_moved = size > 0 and ends[0] is not first and ends[1] is last and ends[2] != size
        return len(value) if (size < 0 and is_new) or is_moved else 0

    def __call__(self, frame: Any, event: str, _: object) -> Any:
        if frame.f_code in _SILENT:
            return None
        self.total += 1
        if frame.f_code in _BRIEF:
            return None
        values = [value for value in frame.f_locals.values() if type(value) not in _SIMPLE]
        for value in values:
            for key, part in _held_by(value).items():
                _, last = self.attributes.get((id(value), key), (value, part))
                self.attributes[id(value), key] = value, part
                self.total += self.note(part, part is not last)
        self.total += sum(map(self.note, values))
        return self


def _held_by(value: Any) -> dict[str, Any]:
    try:
        return vars(value) if type(value) not in _COUNTED else {}
    except Exception:  # it has none, or an answer's own `__dict__` does anything
        return {}

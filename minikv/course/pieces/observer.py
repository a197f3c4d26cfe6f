"""The observer: what lies at every path below the things that a play shows.

Two answers are the same if a caller sees the same values and the same objects. An object is named by the path at which
it was first seen in the play, so a copy, a node that was replaced, a wrong parent and a shared list all show.
"""

from __future__ import annotations

from array import array
from collections import OrderedDict, deque
from collections.abc import Iterable, Mapping
from itertools import islice
from operator import itemgetter
from typing import Any

import numpy as np

from minikv.testing.attempt import short_repr, type_of
from minikv.tokens import PackedTokens

MOST_STEPS, MOST_KEYS = 21, 12  # of a path, before it begins again at an object; of a dictionary in words
MOST_LETTERS = 60  # of lists in a list
MOST_SEEN = 3000  # below one thing: of a deep tree, the upper nodes
RETURNED = "what is returned"
ALL_RIGHT = "all right"  # what is seen where nothing is wrong
_ROW = list, tuple, deque, range, array, PackedTokens
_PLAIN = frozenset((int, str, float, bool, bytes, type(None)))
_SHARED = list, dict, set, deque, bytearray, array, np.ndarray  # what one holder can change for another


class Words(str):
    """A description in the place of a value, which is shown without quotation marks."""

    __repr__ = str.__str__


class Raised(Words):
    """The kind of an error that a call raised, where one may be expected."""

    error: BaseException
    kind: Any = None

    @classmethod
    def of(cls, error: BaseException, kinds: Iterable[type[BaseException]]) -> Raised:
        """The first of `kinds` that an error is of, in words, with what it tells; where any may be, its own kind.

        >>> Raised.of(KeyError(7), [LookupError]), Raised.of(KeyError(7), [Exception])
        (a LookupError, a KeyError)
        """
        kind = next((kind for kind in kinds if isinstance(error, kind)), type(error))
        name = (type(error) if kind is Exception else kind).__name__
        told = ", ".join(f"{name}={value!r}" for name, value in vars(error).items())
        raised = cls(f"a{'n' * (name[0] in 'AEIOU')} {name}" + (f" with {told}" if told else ""))
        raised.error, raised.kind = error, kind
        return raised

    def __eq__(self, other: object) -> bool:
        """Return whether both are of the same kind, and tell the same; where any may be, one is like another."""
        return str.__eq__(self, other) is True or self.kind is getattr(other, "kind", None) is Exception

    __hash__ = str.__hash__


Seen = dict[str, Any]  # by path, a plain value, or words for what is there
About = tuple[Any, Iterable[tuple[str, Any]]]  # what is said of a value, and what lies below, by a step of its path


class Observer:
    """Looks at things again and again in one play, and knows which objects it has seen before.

    >>> from types import SimpleNamespace as Node
    >>> observer, root = Observer(), Node(tokens=[1, 2], parent=None)
    >>> observer.look({"root": root})
    {'root': the root, 'root.tokens': [1, 2], 'root.parent': None}
    >>> root.parent = Node(tokens=root.tokens)
    >>> observer.look({"root": root})["root.parent"], observer.look({"what else": root.parent})["what else.tokens"]
    (a new SimpleNamespace, [1, 2])

    At the first look, nothing is new yet.

    >>> Observer().look({"what is there": Node(tokens=[])})
    {'what is there': a SimpleNamespace, 'what is there.tokens': []}
    """

    def __init__(self) -> None:
        self.looks = 0
        self.known: dict[int, tuple[str, int, Any]] = {}  # by id: its name, when it was first seen, and itself

    def look(self, things: Mapping[str, Any]) -> Seen:
        """Return what is at every path below `things`, those with few steps first."""
        self.looks += 1
        found: list[tuple[int, str, Any]] = []
        here = {id(thing): name for name, thing in things.items() if name.isidentifier() and not _is_plain(thing)}
        alive: list[Any] = []  # an id names nothing else before the end
        for name, thing in things.items():
            alive.append(todo := [(0, name, thing)])
            for steps, path, value in islice(todo, MOST_SEEN):  # which grows meanwhile
                if type(value) in _PLAIN or type(value := _plain(value)) in _PLAIN:
                    found.append((steps, path, value))
                    continue
                said, below = self._about(path, value, here)
                found.append((steps, path, said))
                path = path if (steps + 1) % MOST_STEPS else f"({type(value).__name__} {len(here)})"
                todo += [(steps + 1, path + step, part) for step, part in below]
        return {path: said for _, path, said in sorted(found, key=itemgetter(0))}

    def _about(self, path: str, value: Any, here: dict[int, str]) -> About:
        """Return what is said of a value, and what lies below it, by the next step of its path."""
        if isinstance(value, Words):
            return value, ()
        first = here.setdefault(id(value), path)
        if first != path and id(value) in self.known:
            return self._name(path, value, first), ()
        if isinstance(value, _SHARED) and first != path:
            return Words(f"the same {_kind(value)} as {first}, {short_repr(value)}"), ()
        if (said := _whole(value)) is not None:
            return said, ()
        if (about := _about_data(value)) is not None:
            return about
        if not (attributes := _attributes(value)):
            return Words(type_of(value)), ()
        return self._name(path, value, first), () if first != path else attributes

    def _name(self, path: str, value: Any, first: str) -> Words:
        """Say which object it is: one that was seen before, or a new one, by the first path to it."""
        name, since, _ = self.known.setdefault(id(value), (first, self.looks, value))
        if name.isidentifier():  # one of the things themselves
            return Words(f"the {name}")
        if since < self.looks:
            return Words("what it was" if name == path else f"the old {name}")
        new = "new " if self.looks > 1 else ""
        return Words(f"a {new}{_kind(value)}" if first == path else f"the {new}{_kind(value)} at {first}")


def _about_data(value: Any) -> About | None:
    """Return what is said of an array, a list or a dictionary, and what lies below; of another value `None`.

    An array of whole numbers or objects in a row is as a list. A named tuple is shown by fields.

    >>> from collections import namedtuple
    >>> _about_data(namedtuple("Match", "node length")(None, 2))
    (a Match, [('.node', None), ('.length', 2)])
    """
    if isinstance(value, np.ndarray) and value.ndim == 1 and (value.dtype.kind in "iuO" or not value.size):
        value = value.tolist()
    if isinstance(value, np.ndarray) or hasattr(value, "dtype"):
        return _about_array(value)
    if hasattr(value, "_fields"):
        return Words(type_of(value)), [(f".{name}", part) for name, part in zip(value._fields, value)]
    if isinstance(value, _ROW):
        items = [_plain(item) for item in value]
        if all(map(_is_plain, items)):
            return tuple(items) if isinstance(value, tuple) else items, ()
        return _outline(items), [(f"[{at}]", item) for at, item in enumerate(items)]
    return _about_dict(value) if isinstance(value, dict) else None


def _plain(value: Any) -> Any:
    """A number or a text as Python's own, whatever its class does when it is compared."""
    if type(value) in _PLAIN or isinstance(value, Words):
        return value
    if isinstance(value, np.generic):
        return value.item()
    plain = next((kind for kind in (int, float, str, bytes) if isinstance(value, kind)), None)
    return value if plain is None else str.__str__(value) if plain is str else plain(value)


def _is_plain(value: Any) -> bool:
    """Return whether a value says all about itself; so does a tuple of such values."""
    return type(value) in _PLAIN or (type(value) is tuple and all(map(_is_plain, value)))


def same(one: Any, other: Any) -> bool:
    """Return whether two values that were seen are equal; whole numbers are whole, and order counts.

    >>> same([1, 2], [1, 2]), same(1.0, 1), same([(1,)], [[1]])
    (True, False, False)
    """
    if type(one) is type(other) and type(one) in (int, str, bool, Words):
        return bool(one == other)
    if isinstance(one, dict) and isinstance(other, dict):
        one, other = list(one.items()), list(other.items())
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return type(one) is type(other) and len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, float) and isinstance(other, float):
        return one == other or one != one != other != other
    return all(isinstance(one, kind) == isinstance(other, kind) for kind in (float, bool)) and bool(one == other)


def _kind(value: Any) -> str:
    return type(value).__name__.removeprefix("nd")


def _outline(items: list[Any]) -> Words:
    """Lists in a list as they are, if they are short; else how many there are, of which kind.

    >>> _outline([Observer(), Observer()]), _outline([Observer(), object()])
    (2 Observers, 2 values)
    """
    parts = [item for item in items if type(item) in (list, tuple) and all(map(_is_plain, item))]
    if len(parts) == len(items) and len(said := repr(items)) < MOST_LETTERS:
        return Words(said)
    kinds = {"value" if isinstance(item, (*_ROW, Words)) or _is_plain(item) else _kind(item) for item in items}
    name = kinds.pop() if len(kinds) == 1 else "value"
    return Words(f"{len(items)} {name}{'s' * (len(items) != 1)}")


def _whole(value: Any) -> Words | None:
    """Say what a value is of which no parts are shown; `None` for another."""
    if isinstance(value, BaseException):
        return Words(f"{type_of(value)} that is not raised")
    if isinstance(value, set | frozenset):
        return Words(f"a set of {sorted(map(_plain, value), key=repr)}")
    if isinstance(value, range) and value[MOST_SEEN:]:  # as a list it may fill the memory
        return Words(value)
    if isinstance(value, type):
        return Words(f"the class {value.__name__}")
    return Words("a function") if callable(value) else None


def _about_array(value: Any) -> About:
    """Say the shape and the type of an array, and show its numbers."""
    kind = f"{type_of(value)} of shape {tuple(value.shape)} and {str(value.dtype).removeprefix('torch.')}"
    return Words(kind), [(" as a list", value.tolist())]


def _about_dict(value: dict[Any, Any]) -> About:
    """Keys that are numbers or text have no order, but for that of an `OrderedDict`; objects as keys have one."""
    pairs = [(_plain(key), _plain(item)) for key, item in value.items()]
    if not all(_is_plain(key) for key, _ in pairs):
        return Words(f"{len(pairs)} keys"), [
            (f", {what} {at}", part) for at, pair in enumerate(pairs) for what, part in zip(("key", "value"), pair)
        ]
    if len(pairs) > 1 and not isinstance(value, OrderedDict):
        pairs.sort(key=lambda pair: repr(pair[0]))
    keys, items = [key for key, _ in pairs], [item for _, item in pairs]
    if all(map(_is_plain, items)):
        return dict(zip(keys, items)), ()
    entries = ", ".join(f"{key!r}: ..." for key in keys[:MOST_KEYS])
    return Words(f"{{{entries}}}"), [(f"[{key!r}]", item) for key, item in zip(keys, items)]


def _attributes(value: Any) -> list[tuple[str, Any]]:
    """The attributes of an object that are no functions, and not private."""
    held = getattr(value, "__dict__", {})
    if hasattr(type(value), "__slots__"):
        slots = [name for kind in type(value).__mro__ for name in getattr(kind, "__slots__", ())]
        held = held | {name: getattr(value, name) for name in slots if hasattr(value, name)}
    return [(f".{name}", part) for name, part in held.items() if name[0] != "_" and not callable(part)]

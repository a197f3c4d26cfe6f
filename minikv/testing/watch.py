"""Watching any object from outside: who called which of its methods, with what, and what came back.

The film, the ledger and the canary all watch a cache from outside. None of them has a hook in it: while
somebody watches, the object's own methods are shadowed by ones that call them and then report. When the last watcher
leaves, the object is as it was.
"""

from __future__ import annotations

import functools
import inspect
import itertools
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from minikv.errors import bounded

_moments = itertools.count(1)


def moment() -> int:
    """A number that grows with time: what began later has a larger one.

    >>> moment() < moment()
    True
    """
    return next(_moments)


@dataclass(slots=True, eq=False)
class Call:
    """One finished call: `thing.verb(**arguments)` returned `result` or raised `error`.

    `arguments` are by name, defaults left out. `caller` is the watched call that made this one, `None` for a call from
    outside. `began` is the moment at which it was called: what began later and is reported earlier was called by it.
    """

    thing: Any
    verb: str
    arguments: dict[str, Any]
    caller: Call | None = None
    began: int = field(default_factory=moment)
    result: Any = None
    error: BaseException | None = None

    @property
    def is_own(self) -> bool:
        """Return whether the same object made this call, within another of its verbs."""
        caller = self.caller
        while caller is not None and caller.thing is not self.thing:
            caller = caller.caller
        return caller is not None


Listener = Callable[[Call], None]


class _Nesting(threading.local):
    """The innermost watched call that this thread is inside of."""

    call: Call | None = None


_nesting = _Nesting()


def require_verbs(name: str, thing: Any, verbs: Iterable[str]) -> None:
    """Raise `TypeError` for a `thing` that has none of `verbs`.

    >>> require_verbs("cache", 5, ["insert", "evict"])
    Traceback (most recent call last):
    TypeError: cache is 5: expected an object with insert() or evict()
    """
    listed = list(verbs)
    if isinstance(thing, type) or not any(callable(getattr(thing, verb, None)) for verb in listed):
        raise TypeError(f"{name} is {bounded(thing)}: expected an object with {'() or '.join(listed)}()")


def watch(thing: Any, verbs: Iterable[str], listener: Listener) -> Callable[[], None]:
    """Tell `listener` of every call of one of `verbs` on `thing`, after it; return a function that ends it.

    Verbs that `thing` does not have are passed over. All listeners hear of a call, in the order in which they came;
    what the first of them raises is then raised at the caller. Raises `TypeError` when the object's methods cannot be
    shadowed (a class with `__slots__` and no `__dict__`).

    >>> from minikv import FreeListPool
    >>> pool = FreeListPool(4)
    >>> stop = watch(pool, ["alloc", "free"], lambda call: print(call.verb, call.arguments, call.result.tolist()))
    >>> _ = pool.alloc(2)
    alloc {'num_pages': 2} [0, 1]
    >>> stop()
    >>> _ = pool.alloc(1)
    """
    shadows = [_shadow(thing, verb) for verb in verbs if callable(getattr(thing, verb, None))]
    ear = functools.partial(listener)  # a listener may be registered twice, and each of them ended
    for shadow in shadows:
        shadow.listeners.append(ear)

    def stop() -> None:
        for shadow in shadows:
            if ear in shadow.listeners:
                shadow.listeners.remove(ear)
            if not shadow.listeners and vars(thing).get(shadow.verb) is shadow:
                delattr(thing, shadow.verb)
                if shadow.own:
                    setattr(thing, shadow.verb, shadow.original)

    return stop


class _Shadow:
    """Replaces one method of one object, and keeps the list of its listeners."""

    def __init__(self, thing: Any, verb: str):
        self.thing, self.verb, self.original = thing, verb, getattr(thing, verb)
        self.own = verb in getattr(thing, "__dict__", {})  # not its class's: the object's own attribute
        self.signature = inspect.signature(self.original)
        self.listeners: list[Listener] = []
        functools.update_wrapper(self, self.original)

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        """A copy of a watched object has a method of its own: ours would act on the object that it was copied from."""
        twin = memo.get(id(self.thing))
        return self.original if self.own or twin is None else getattr(type(twin), self.verb).__get__(twin)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        try:
            arguments = dict(self.signature.bind(*args, **kwargs).arguments)
        except TypeError:  # the wrong arguments: let the method say so itself
            return self.original(*args, **kwargs)
        call = _nesting.call = Call(self.thing, self.verb, arguments, _nesting.call)
        try:
            call.result = self.original(*args, **kwargs)
        except BaseException as error:
            call.error = error
            raise
        finally:
            _nesting.call = call.caller
            self.tell(call)
        return call.result

    def tell(self, call: Call) -> None:
        complaints = []
        for ear in list(self.listeners):
            try:
                if ear in self.listeners:  # or it was stopped by one before it
                    ear(call)
            except Exception as complaint:
                complaints.append(complaint)
        if complaints:
            raise complaints[0]


def _shadow(thing: Any, verb: str) -> _Shadow:
    """The shadow that already covers `thing.verb`, or a new one."""
    existing = getattr(thing, verb)
    if isinstance(existing, _Shadow) and existing.thing is thing:
        return existing
    shadow = _Shadow(thing, verb)
    try:
        setattr(thing, verb, shadow)
    except AttributeError:
        name = type(thing).__name__
        raise TypeError(f"cannot watch a {name}: its methods cannot be shadowed, as it has __slots__") from None
    return shadow

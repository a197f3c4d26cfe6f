"""A scenario: a few lines of Python that do something to `cache`, as they are run, judged and printed.

The same lines run in two worlds, one with the index that is judged and one with the naive model, and after each line
the results are compared. So a scenario needs no expectations, and what is printed is what was run.
"""

from __future__ import annotations

import functools
import math
import re
from array import array
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import CodeType
from typing import Any, NamedTuple

import numpy as np

from minikv.testing.attempt import Outcome, attempt
from minikv.tokens import pack

_NAMES = {"array": array, "deque": deque, "np": np, "pack": pack}
_IMPORTS = {"array": "from array import array", "deque": "from collections import deque", "np": "import numpy as np",
            "pack": "from minikv import pack", "suppress": "from contextlib import suppress"}  # fmt: skip
OTHER_FORMS = ["array(", "np.", "pack(", "deque(", "range(", "b'", "None", "(1,", "(7,"]  # of input: not lists
Change = Callable[[str, tuple[Any, ...], dict[str, Any]], tuple[tuple[Any, ...], dict[str, Any]]]
Before = Callable[["Scenario"], None]  # is called with each scenario before it is tried
Readers = Mapping[str, Callable[[Any], Any]]  # what to read off the result of a verb


@dataclass(frozen=True)
class Scenario:
    """Lines of Python, and the size of the pages for which they are written.

    >>> scenario = scenario_of("a = cache.insert([1, 2], [5])", "cache.lock(a)", page_size=2)
    >>> scenario.lines[1], scenario.page_size
    ('cache.lock(a)', 2)
    """

    lines: tuple[str, ...]
    page_size: int = 1

    @property
    def size(self) -> tuple[int, int, int, str]:
        """The measure of a scenario's size: lines, then characters, then tokens in a page."""
        text = "\n".join(self.lines)
        return len(self.lines), len(text), self.page_size, text


def scenario_of(*lines: str, page_size: int = 1) -> Scenario:
    """These lines as a scenario; a line break in one of them makes it two, and comments are left out.

    >>> scenario_of("cache.evict(1)\\ncache.reset()").lines
    ('cache.evict(1)', 'cache.reset()')
    """
    return Scenario(
        tuple(line.strip() for text in lines for line in text.strip().split("\n") if line[:1] != "#"), page_size
    )


@functools.lru_cache(4096)
def _compiled(line: str) -> CodeType:
    return compile(line, "<scenario>", "exec")


@dataclass(frozen=True)
class Reply(Outcome):
    """The outcome of a call of `verb`: its `result`, and the `value` that was read from it."""

    verb: str = ""
    args: tuple[Any, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)
    result: Any = None


class Recorder:
    """The object that a scenario calls: it passes each call on to `thing`, and keeps the result as `reply`."""

    def __init__(self, thing: Any, readers: Readers, change: Change | None = None, is_ours: bool = False):
        self.thing, self.readers, self.change, self.is_ours = thing, readers, change, is_ours
        self.reply: Reply | None = None

    def __getattr__(self, verb: str) -> Any:
        return functools.partial(self._call, verb)

    def _call(self, verb: str, *args: Any, **options: Any) -> Any:
        if self.change is not None:
            args, options = self.change(verb, args, options)
        read, results = self.readers.get(verb, lambda result: result), []

        def act() -> Any:
            results.append(getattr(self.thing, verb)(*args, **options))
            return read(results[0])

        seconds = math.inf if self.is_ours else None  # ours does not hang, and the machine may be busy
        came = attempt(act, seconds=seconds)
        result = results[0] if results else None
        self.reply = Reply(came.value, came.error, came.printed, verb, args, options, result)
        if came.error is not None:
            raise came.error
        return result


class Stage:
    """The names that the lines of a scenario know, with one object at the center, called `name`."""

    def __init__(self, name: str, recorder: Recorder, make: Callable[[], Any]):
        self.recorder = recorder
        self.names: dict[str, Any] = {**_NAMES, name: recorder, "new": lambda: Recorder(make(), recorder.readers)}

    def step(self, line: str) -> Reply | None:
        """Run one line; what the last call in it came to, or `None` if it calls nothing."""
        self.recorder.reply = None
        try:
            exec(_compiled(line), self.names)
        except KeyboardInterrupt:
            raise
        except BaseException:  # of a call: it is in the reply; of the line itself: a name that an error left out
            pass
        return self.recorder.reply


def imports_for(lines: list[str]) -> list[str]:
    """The imports that these lines need before them.

    >>> imports_for(["cache.insert(np.array([1]), [0])"])
    ['import numpy as np']
    """
    text = "\n".join(lines)
    return [_IMPORTS[name] for name in _IMPORTS if re.search(rf"(?<![\w.]){name}[.(]", text)]


@dataclass(frozen=True)
class Breach:
    """A rule that is broken: the lines of `body` show it, and `words` say what the last of them came to.

    `head` makes the object, and `raised` has the errors that lines before the last one end in.
    """

    rule: int
    body: tuple[str, ...]
    words: str
    page_size: int = 1
    settings: Mapping[str, Any] = field(default_factory=dict)
    head: tuple[str, ...] = ()
    raised: Mapping[int, str] = field(default_factory=dict)
    endless: bool = False

    @property
    def is_crash(self) -> bool:
        """Return whether it is an error that the contract does not speak of."""
        return self.words.startswith("raises ") and not self.words.startswith("raises LockError")

    @property
    def scenario(self) -> Scenario:
        """The lines of the body, to be tried again."""
        return Scenario(self.body, self.page_size)

    @property
    def script(self) -> list[str]:
        """The lines as they can be run, with what is wrong as a comment at the end."""
        new = self.head[-1].partition(" = ")[2]
        lines = [line.replace("new()", new) for line in _renamed(self.body)]
        for number, error in self.raised.items():
            if number < len(lines) - 1:
                lines[number] = f"with suppress({error}): {lines[number]}"
        return [*imports_for(lines), *self.head, *lines, f"# {self.words}"]


class Findings(NamedTuple):
    """The result of trying a class: for each broken rule the smallest breach, and the rules that were `reached`.

    A `note` says why none could be judged.
    """

    broken: Mapping[int, Breach]
    reached: frozenset[int]
    note: str = ""


def _renamed(lines: tuple[str, ...]) -> list[str]:
    """The lines with the names a, b, c for what is used later, and no name for what is not."""
    found = list(lines)
    for place, line in enumerate(found):
        given = re.match(r"([a-z]\d*) = ", line)
        if given and not any(re.search(rf"\b{given[1]}[.,)]", later) for later in found[place + 1 :]):
            found[place] = line[given.end() :]
    names = [given[1] for line in found if (given := re.match(r"([a-z]\d*) = ", line))]
    fresh = dict(zip(names, "abcdefghijklmnopqrstuvwxyz"))
    return [re.sub(r"\b[a-z]\d*\b(?=[.,)]| = )", lambda name: fresh.get(name[0], name[0]), line) for line in found]


def is_named(error: BaseException | None, name: str) -> bool:
    """Return whether an error is of the class `name`, of this package or of another.

    >>> from minikv import LockError
    >>> is_named(LockError("stale"), "LockError"), is_named(KeyError(3), "LockError")
    (True, False)
    """
    return any(each.__name__ == name for each in type(error).__mro__)

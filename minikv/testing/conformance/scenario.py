"""A scenario: a few lines of Python that do something to `cache`, as they are run, judged and printed.

The same lines run in two worlds, one with the index that is judged and one with the naive model, and after each line
what came of it is compared. So a scenario needs no expectations, and what is printed is what was run.
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
from typing import Any

import numpy as np

from minikv.testing.attempt import Outcome, attempt
from minikv.testing.conformance.reading import READERS
from minikv.tokens import pack

_NAMES = {"array": array, "deque": deque, "np": np, "pack": pack}
_IMPORTS = {"array": "from array import array", "deque": "from collections import deque", "np": "import numpy as np",
            "pack": "from minikv import pack", "suppress": "from contextlib import suppress"}  # fmt: skip
Change = Callable[[str, tuple[Any, ...], dict[str, Any]], tuple[tuple[Any, ...], dict[str, Any]]]


@dataclass(frozen=True)
class Scenario:
    """Lines of Python, and the size of the pages for which they are written.

    >>> scenario = scenario_of("a = cache.insert([1, 2], [5])", "cache.lock(a.handle)", page_size=2)
    >>> scenario.lines[1], scenario.page_size
    ('cache.lock(a.handle)', 2)
    """

    lines: tuple[str, ...]
    page_size: int = 1

    @property
    def size(self) -> tuple[int, int, int, str]:
        """What the smallest of several scenarios has least of: lines, then characters, then tokens in a page."""
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
    """What a call of `verb` came to: its `result`, and as its `value` what was read off that."""

    verb: str = ""
    args: tuple[Any, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)
    result: Any = None


class Told:
    """What the lines of a scenario speak to: passes each call on to `thing`, and keeps what came of it as `reply`."""

    def __init__(self, thing: Any, change: Change | None = None, readers: Any = READERS, is_ours: bool = False):
        self.thing, self.change, self.readers, self.is_ours = thing, change, readers, is_ours
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

    def __init__(self, name: str, told: Told, make: Callable[[], Any] | None = None):
        self.told, self.line = told, ""
        self.names: dict[str, Any] = {**_NAMES, name: told, "new": lambda: Told(make() if make else None)}

    def step(self, line: str) -> Reply | None:
        """Run one line; what the last call in it came to, or `None` if it calls nothing. `line` is how it was run."""
        self.told.reply, self.line = None, self._own_handles(line)
        try:
            exec(_compiled(self.line), self.names)
        except KeyboardInterrupt:
            raise
        except BaseException:  # of a call: it is in the reply; of the line itself: a name that an error left out
            pass
        return self.told.reply

    def _own_handles(self, line: str) -> str:
        """The line for results that have no `handle`, as they are handles themselves."""
        for name in set(re.findall(r"(\w+)\.handle", line)):
            if name in self.names and not hasattr(self.names[name], "handle"):
                line = line.replace(f"{name}.handle", name)
        return line


def imports_for(lines: list[str]) -> list[str]:
    """The imports that these lines need before them.

    >>> imports_for(["cache.insert(np.array([1]), [0])"])
    ['import numpy as np']
    """
    text = "\n".join(lines)
    return [_IMPORTS[name] for name in _IMPORTS if re.search(rf"(?<![\w.]){name}[.(]", text)]

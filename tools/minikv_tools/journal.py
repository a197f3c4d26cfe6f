"""A journal of long work: what is done is on the disk, and work that was stopped continues there.

{"minikv journal": 1, "capacities": [...], ...}    what the work is: a journal of other work is refused
{"run": {...}, "found": {...}}                    one line for each run that is done
{"run": {...}, "fou                               a line that was cut off is dropped, and its run is done again
"""

from __future__ import annotations

import contextlib
import itertools
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from minikv.errors import bounded
from minikv.files import FileName, append, destination, locked, replace
from minikv.interrupts import uninterrupted
from minikv.untrusted import json_object, read_bytes

_MOST_BYTES = 2**28
_VERSION = 1


class JournalError(ValueError):
    """A journal that does not belong to the work at hand, or that cannot be read; the message names it and says why."""


class Journal:
    """The runs that are done, each a JSON object, and what each of them found; get one from `open_journal`.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "work.journal"
    >>> with open_journal(path, {"work": "squares"}) as journal:
    ...     journal.add({"number": 3}, {"square": 9})
    >>> with open_journal(path, {"work": "squares"}) as journal:
    ...     journal.found({"number": 3}), journal.found({"number": 4})
    ({'square': 9}, None)
    """

    def __init__(self, path: Path, done: dict[str, dict[str, Any]]):
        self.path = path
        self._done = done

    def found(self, run: Mapping[str, Any]) -> dict[str, Any] | None:
        """Return the result of `run`, or `None` until it is done."""
        return self._done.get(_key(run))

    @uninterrupted
    def add(self, run: Mapping[str, Any], found: Mapping[str, Any]) -> None:
        """Write down that `run` is done and what it found; on the disk when this returns.

        Ctrl-C waits until then. `OSError` names the file, and the run is not done.
        """
        append(self.path, _line({"run": run, "found": found}))
        self._done[_key(run)] = dict(found)


@contextlib.contextmanager
def open_journal(path: FileName, work: Mapping[str, Any]) -> Iterator[Journal]:
    """The journal of `work`, a JSON object, in the file `path`, which no other process may open meanwhile.

    A file that does not exist is begun. `JournalError` where the file is of other work or is damaged, `TimeoutError`
    where another process has it open, any other `OSError` where it cannot be written.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "work.journal"
    >>> with open_journal(path, {"power": 2}):
    ...     pass
    >>> with open_journal(path, {"power": 3}):                              # doctest: +ELLIPSIS
    ...     pass
    Traceback (most recent call last):
    minikv_tools.journal.JournalError: ...work.journal is a journal of other work: power is 2 there and 3 here
    """
    target = destination(path)
    with locked(target, seconds=1):
        header = json.loads(_line({"minikv journal": _VERSION, **work}))  # as it will be read: a tuple is a list there
        content = _content(target)
        if not content:
            replace(target, _line(header))
            yield Journal(target, {})
            return
        lines = content.split(b"\n")
        _require_same(path, header, lines[0])
        runs = _runs(path, lines)
        kept = b"".join(line + b"\n" for line in lines[: 1 + len(runs)])
        if kept != content:
            replace(target, kept)
        yield Journal(target, dict(runs))


def _line(entry: Mapping[str, Any]) -> str:
    return json.dumps(entry, ensure_ascii=False, separators=(",", ":")) + "\n"


def _key(run: Mapping[str, Any]) -> str:
    return json.dumps(run, sort_keys=True)


def _content(path: Path) -> bytes:
    try:
        return read_bytes(path, _MOST_BYTES)
    except FileNotFoundError:
        return b""
    except ValueError as error:
        raise JournalError(str(error)) from None


def _require_same(path: Any, header: dict[str, Any], line: bytes) -> None:
    """Raise `JournalError`, with the first difference, unless the first line of a journal is `header`."""
    try:
        known = json_object(line, "line 1")
        if "minikv journal" not in known:
            raise ValueError("its first line does not say so")
    except ValueError as error:
        raise JournalError(f"{path} is not a journal of minikv: {error}") from None
    for name in [*header, *known]:
        there, here = known.get(name), header.get(name)
        if there == here:
            continue
        if isinstance(there, list) and isinstance(here, list):  # then only their first entries that differ
            pairs = enumerate(itertools.zip_longest(there, here))
            at, there, here = next((at, *pair) for at, pair in pairs if pair[0] != pair[1])
            name = f"{name}[{at}]"
        shown = ["absent" if value is None else bounded(value) for value in (there, here)]
        raise JournalError(f"{path} is a journal of other work: {name} is {shown[0]} there and {shown[1]} here")


def _runs(path: Any, lines: list[bytes]) -> list[tuple[str, dict[str, Any]]]:
    """The runs after the first line; the last line is left out where it is incomplete, as a killed process leaves it.

    What follows the last line end is such a line too, and is empty in a journal that was not cut off.
    """
    runs = []
    for number, line in enumerate(lines[1:-1], start=2):
        try:
            entry = json_object(line, "it")
            if not isinstance(entry.get("run"), dict) or not isinstance(entry.get("found"), dict):
                raise ValueError("it has no run with a result")
        except ValueError as error:
            if number == len(lines) - 1 and not lines[-1]:
                break
            raise JournalError(f"{path}, line {number}, is damaged: {error}") from None
        runs.append((_key(entry["run"]), entry["found"]))
    return runs

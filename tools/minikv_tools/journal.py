"""A journal of long work: what is done is on the disk, and work that was stopped continues there.

It is a database of SQLite with one table, so a process that is killed while it writes leaves whole rows:

    run                    found
    {"journal": "work"}    {"capacities": "[10]", ...}  what the work is: a journal of other work is refused
    {"capacity": 10, ...}  {"hits": 3, ...}             a row for each run that is done
"""

from __future__ import annotations

import contextlib
import errno
import json
import sqlite3
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from minikv.errors import truncated
from minikv.files import FileName, destination, locked

_WORK = {"journal": "work"}  # the key of the row that says it
_LONGEST = 200  # characters of a value in a message


class JournalError(ValueError):
    """A journal that does not belong to the work at hand, or that cannot be read; the message names it and says why."""


class Journal(NamedTuple):
    """The runs that are done, each a JSON object, and what each of them found; get one from `open_journal`.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "work.journal"
    >>> with open_journal(path, {"work": "squares"}) as journal:
    ...     journal.add({"number": 3}, {"square": 9})
    >>> with open_journal(path, {"work": "squares"}) as journal:
    ...     journal.found({"number": 3}), journal.found({"number": 4})
    ({'square': 9}, None)
    """

    path: Path
    database: sqlite3.Connection

    def found(self, run: Mapping[str, Any]) -> Any:
        """Return the result of `run`, or `None` until it is done."""
        key = json.dumps(run, sort_keys=True)
        row = self.database.execute("SELECT found FROM minikv_journal WHERE run = ?", [key]).fetchone()
        return json.loads(row[0]) if row else None

    def add(self, run: Mapping[str, Any], found: Mapping[str, Any]) -> None:
        """Write down that `run` is done and what it found, unless that is known; on the disk when this returns."""
        texts = json.dumps(run, sort_keys=True), json.dumps(found)
        self.database.execute("INSERT OR IGNORE INTO minikv_journal VALUES (?, ?)", texts)


@contextlib.contextmanager
def open_journal(path: FileName, work: Mapping[str, Any]) -> Iterator[Journal]:
    """The journal of `work`, a JSON object, in the file `path`, which no other process may open meanwhile.

    A file that does not exist is begun. `JournalError` where the file is of other work or is damaged, `TimeoutError`
    where another process has it open, any other `OSError` where it cannot be written; then that run is not done.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "work.journal"
    >>> with open_journal(path, {"power": 2}):
    ...     pass
    >>> with open_journal(path, {"power": 3}):                              # doctest: +ELLIPSIS
    ...     pass
    Traceback (most recent call last):
    minikv_tools.journal.JournalError: ...work.journal is a journal of other work: power is 2 there and 3 here
    """
    target, here = destination(path), {name: json.dumps(value) for name, value in work.items()}
    try:
        with locked(target, 1), contextlib.closing(sqlite3.connect(target, isolation_level=None)) as database:
            if not database.execute("SELECT * FROM sqlite_master").fetchall():
                database.execute("CREATE TABLE minikv_journal (run TEXT PRIMARY KEY, found TEXT NOT NULL)")
            journal = Journal(target, database)
            journal.add(_WORK, here)
            _require_same(target, journal.found(_WORK), here)
            yield journal
    except sqlite3.OperationalError as error:  # a full disk, for example, or a database of another program
        raise OSError(errno.EIO, str(error), str(path)) from error
    except (sqlite3.DatabaseError, json.JSONDecodeError) as error:
        raise JournalError(f"{path} is not a journal of minikv: {error}") from None


def _require_same(path: Path, there: dict[str, str], here: dict[str, str]) -> None:
    for name in here | there:
        old, new = (truncated(work.get(name, "absent"), _LONGEST) for work in (there, here))
        if there.get(name) != here.get(name):
            raise JournalError(f"{path} is a journal of other work: {name} is {old} there and {new} here")

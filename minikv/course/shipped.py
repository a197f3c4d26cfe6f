"""The notebooks that came with the package, copied to where the learner works on them; what is theirs stays theirs.

`.minikv.json` in that folder keeps, for each notebook, the hash of the version that was offered last. A notebook whose
cells have another hash was changed by the learner, so a newer version is saved next to it. Outputs and metadata
do not count: they change when a cell runs.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import itertools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from minikv import __version__
from minikv.files import locked, read_object, replace

FOLDER = "minikv-course"  # in the current folder
RECORD = ".minikv.json"
_OF_ONE_FILE = IsADirectoryError, PermissionError, FileNotFoundError  # the others are copied
SHIPPED = Path(__file__).resolve().parents[1] / "notebooks"  # in an installed package; a checkout has none there


def renew(folder: Path, shipped: Path = SHIPPED) -> Iterator[str]:
    """Copy each notebook of `shipped` that `folder` lacks or has in an older version; yields what to tell the learner.

    One that the learner changed stays as it is, and the new version of it goes into a file beside it, once. One that
    may not be read or written, or is a link that leads nowhere, is named, and the others are copied. `OSError` where
    the disk fails, say: those before it are complete, and the next call continues.

    >>> import tempfile
    >>> home, new = Path(tempfile.mkdtemp()), Path(tempfile.mkdtemp())
    >>> replace(new / "01.ipynb", '{"cells": [{"cell_type": "code", "source": "1 + 1", "outputs": []}]}')
    >>> list(renew(home, new)), sorted(path.name for path in home.iterdir())
    ([], ['.minikv.json', '01.ipynb'])
    >>> replace(home / "01.ipynb", '{"cells": [{"cell_type": "code", "source": "my own", "outputs": []}]}')
    >>> replace(new / "01.ipynb", '{"cells": [{"cell_type": "code", "source": "1 + 2", "outputs": []}]}')
    >>> list(renew(home, new))
    ['You changed 01.ipynb, so it stays. The new version is 01-0.1.0.ipynb.']
    >>> list(renew(home, new))
    []
    """
    folder.mkdir(parents=True, exist_ok=True)
    with locked(folder / RECORD):
        offered: dict[str, Any] = {}
        with contextlib.suppress(ValueError):  # a record that cannot be read: all that differs is the learner's then
            offered = read_object(folder / RECORD)
        for source in sorted(shipped.glob("*.ipynb")):
            try:
                yield from _renew_one(source, folder, offered)
            except OSError as error:
                if not isinstance(error, _OF_ONE_FILE) and error.errno != errno.ELOOP:
                    raise
                yield f"{source.name} was not updated: {error}"


def _renew_one(source: Path, folder: Path, offered: dict[str, Any]) -> Iterator[str]:
    content = source.read_bytes()
    now, target, was = sources_hash(content), folder / source.name, offered.get(source.name)
    there = sources_hash(target.read_bytes()) if target.exists() else None
    if there in (None, was) and there != now:
        replace(target, content)
    elif there != now and was != now:
        beside = _name_beside(target, now)
        replace(beside, content)
        yield f"You changed {target.name}, so it stays. The new version is {beside.name}."
    if was != now:
        offered[source.name] = now
        replace(folder / RECORD, json.dumps(offered, indent=1, sort_keys=True) + "\n")


def _name_beside(target: Path, content: str) -> Path:
    """The file beside `target` for this version: one that is free, or that already holds it."""
    stem = f"{target.stem}-{__version__}"
    names = itertools.chain([stem], (f"{stem}-{number}" for number in itertools.count(2)))
    paths = (target.with_stem(name) for name in names)
    return next(path for path in paths if not path.exists() or sources_hash(path.read_bytes()) == content)


def sources_hash(notebook: bytes) -> str:
    """A hash of what a notebook's cells say, code and text; of all its bytes where it is no notebook.

    >>> run, fresh = ('{"cells": [{"cell_type": "code", "source": "1", "outputs": %s}]}' % out for out in ("[1]", "[]"))
    >>> sources_hash(run.encode()) == sources_hash(fresh.encode())
    True
    """
    says = notebook
    with contextlib.suppress(ValueError, TypeError, KeyError, RecursionError):
        cells = json.loads(notebook)["cells"]
        says = json.dumps([[cell["cell_type"], "".join(cell["source"])] for cell in cells]).encode()
    return hashlib.sha256(says).hexdigest()

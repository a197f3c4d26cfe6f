"""Files that survive: replaced as a whole, changed under a lock, set aside when unreadable.

A file that is overwritten in place is empty for a moment and half written for a while. A full disk, a crash or a
second process leaves it like that. Every write of this package goes through this module instead:

    .notes.json.5e0c…31.minikv-tmp   the new content, until it is complete and on the disk; only a process that is
                                     killed meanwhile leaves it there, and it may be deleted
    notes.json                       the old content, and from one instant to the next the new
    notes.json.lock                  exists while a process reads, changes and writes the file
    notes.json.bad                   what was in the file when it could not be read
"""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import stat
import sys
import time
from collections.abc import Iterable, Iterator
from os import PathLike
from pathlib import Path
from typing import Any, BinaryIO

from minikv.untrusted import LARGEST_JSON, json_object, read_bytes

FileName = str | PathLike[str]
IN_BROWSER = sys.platform == "emscripten"  # where Python has one process and one thread, and files that a page keeps

_NO_FOLDER = "Its folder does not exist"


def replace(path: FileName, data: str | bytes | Iterable[bytes]) -> None:
    """Give a file new content, or leave it as it is: text as UTF-8 with its line ends unchanged, or bytes.

    Bytes may come in parts, which are written one by one. The file keeps its mode, and a link stays a link to it.
    `OSError` names the file; it still has its old content then, or does not exist as before. The same holds for any
    other exception, also one of what makes the parts, a full disk and a killed process.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "notes.txt"
    >>> replace(path, "old"); replace(path, "new")
    >>> path.read_text(), os.listdir(path.parent)
    ('new', ['notes.txt'])
    """
    content = data.encode("utf-8") if isinstance(data, str) else data
    target = destination(path)
    fresh = target.with_name(f".{target.name[:32]}.{os.urandom(8).hex()}.minikv-tmp")
    with _named(path):
        try:
            with open(fresh, "xb") as file:
                for part in [content] if isinstance(content, bytes) else content:
                    file.write(part)
                file.flush()
                os.fsync(file.fileno())
            if target.exists():
                fresh.chmod(stat.S_IMODE(target.stat().st_mode))
            os.replace(fresh, target)
        except BaseException:
            with contextlib.suppress(OSError):
                fresh.unlink()
            raise


@contextlib.contextmanager
def _named(path: FileName) -> Iterator[None]:
    """While it is open, an `OSError` is about `path`, as the caller named it, and not about a file beside it."""
    try:
        yield
    except OSError as error:
        why = _NO_FOLDER if error.errno == errno.ENOENT else error.strerror or str(error)
        raise OSError(error.errno, why, str(path)) from error


def destination(path: FileName) -> Path:
    """The file that `path` names, with links followed; an error where `replace` could not write it.

    `OSError` where its folder is missing, where it may not be written, or where something other than a file has that
    name: a folder, a device, a pipe.

    >>> destination(os.curdir)
    Traceback (most recent call last):
    IsADirectoryError: [Errno 21] Is a directory: '.'
    """
    name = str(path)
    if "\0" in name:
        raise ValueError(f"{name!r}: a path has no NUL character")
    target = Path(os.path.realpath(path))
    try:
        mode = target.stat().st_mode
    except FileNotFoundError:
        if target.parent.is_dir():
            return target
        raise FileNotFoundError(errno.ENOENT, _NO_FOLDER, name) from None
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), name)
    if not stat.S_ISREG(mode):
        raise OSError(errno.EINVAL, "Not a regular file", name)
    if not os.access(target, os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), name)
    return target


# -- one process at a time --------------------------------------------------------------------------------------------


@contextlib.contextmanager
def locked(path: FileName, seconds: float = 10.0) -> Iterator[None]:
    """While it is open, no other `locked` of the same file is, in any thread or process: to read, change and write it.

    The lock is a file beside it, which is gone afterwards. The system frees the lock of a process that ends, however
    it ends. `TimeoutError` after so many `seconds`; it and any other `OSError` name the file. On a file system without
    locks it does not wait. In a browser, whose files have no locks, it makes none.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "notes.txt"
    >>> with locked(path):
    ...     replace(path, "one"); os.listdir(path.parent) == ["notes.txt"]
    False
    >>> os.listdir(path.parent)
    ['notes.txt']
    """
    if IN_BROWSER:
        yield
        return
    lock = Path(f"{os.path.realpath(path)}.lock")
    end, file = time.monotonic() + seconds, None
    try:
        while (file := _try_lock(lock, path)) is None:
            if time.monotonic() >= end:
                why = f"Another program has held its lock for {seconds:g} seconds"  # a process, or a thread of this one
                raise TimeoutError(errno.ETIMEDOUT, why, str(path))
            time.sleep(0.005)
        yield
    finally:
        if file is not None:
            with contextlib.suppress(OSError):  # Windows removes no open file: there it stays, and does no harm
                lock.unlink()  # while it is locked, so that it is no other's
            file.close()


def _try_lock(lock: Path, path: FileName) -> BinaryIO | None:
    """The lock file of `path`, opened and locked; `None` while somebody has it."""
    with _named(path), contextlib.ExitStack() as opened:
        file = opened.enter_context(open(lock, "ab"))
        if _take(file) and _is_at(file, lock):
            opened.pop_all()  # it stays open while the lock is held
            return file
    return None


def _is_at(file: BinaryIO, lock: Path) -> bool:
    """Return whether the file that was locked is still the one of that name: its last owner may have removed it."""
    try:
        return os.path.samestat(os.fstat(file.fileno()), lock.stat())
    except FileNotFoundError:
        return False


def _take(file: BinaryIO) -> bool:
    """Lock an open file unless somebody else has; true as well on a file system without locks."""
    try:
        if sys.platform == "win32":
            import msvcrt

            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
        else:
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):
        return False
    except OSError as error:
        if error.errno not in (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP):
            raise
    return True


# -- reading without losing -------------------------------------------------------------------------------------------


def read_object(path: FileName) -> dict[str, Any]:
    """The JSON object in a file, or an empty one where there is no file or nothing in it.

    `ValueError` says in one line why the file holds no JSON object, `OSError` why it cannot be read.

    >>> read_object("no_such_file.json")
    {}
    """
    try:
        content = read_bytes(Path(path), LARGEST_JSON)
    except FileNotFoundError:
        return {}
    return json_object(content, repr(str(path))) if content.strip() else {}


def set_aside(path: FileName) -> Path:
    """Rename a file that cannot be read, so that a new one can begin; returns its new name, `NAME.bad`.

    An older `NAME.bad` stays: the next ones are `NAME.bad.2`, `NAME.bad.3`. Call it while the file is `locked`.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "notes.json"
    >>> for content in ("{", "}"):
    ...     replace(path, content); print(set_aside(path).name)
    notes.json.bad
    notes.json.bad.2
    """
    target = os.path.realpath(path)
    names = itertools.chain([f"{target}.bad"], (f"{target}.bad.{number}" for number in itertools.count(2)))
    kept = next(name for name in names if not os.path.lexists(name))
    os.rename(target, kept)
    return Path(kept)


# -- what came with the package ---------------------------------------------------------------------------------------


def asset(name: str) -> Path:
    """The path of `assets/<name>`; `FileNotFoundError` names what is there instead.

    The folder is beside the package in a checkout, and inside it when it was installed.

    >>> asset("configs/llama-3.1-8b.json").name
    'llama-3.1-8b.json'
    """
    package = Path(__file__).parent
    roots = [package / "assets", package.parent / "assets"]
    for root in roots:
        if (root / name).exists():
            return root / name
    folder = next((root / name).parent for root in roots if root.is_dir())
    there = ", ".join(sorted(path.name for path in folder.iterdir())) if folder.is_dir() else "nothing"
    raise FileNotFoundError(f"no asset {name!r}; the assets are {there}")

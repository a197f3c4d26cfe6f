"""Files that survive: replaced as a whole, extended at the end, changed under a lock, set aside when unreadable.

A file that is overwritten in place is empty for a moment and half written for a while. A full disk, a crash or a
second process leaves it like that. Every write of this package goes through this module instead:

    .notes.json.5e0c…31.minikv-tmp   the new content, until it is complete and on the disk
    notes.json                       the old content, and from one instant to the next the new
    notes.json.lock                  exists while a process reads, changes and writes the file
    notes.json.bad                   what was in the file when it could not be read
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import stat
import sys
import time
import zlib
from collections.abc import Iterable, Iterator
from os import PathLike
from pathlib import Path
from typing import Any, BinaryIO

from minikv.untrusted import LARGEST_JSON, json_object, read_bytes

Name = str | PathLike[str]

_NO_FOLDER = "Its folder does not exist"
_LONGEST_NAME = 255  # bytes; what file systems allow
_KEPT = 99  # files set aside beside one file
_STALE = 3600.0  # seconds after which a temporary file was left by a process that no longer exists
_TRIES = 40 if os.name == "nt" else 1  # on Windows a file cannot be replaced while another process reads it


# -- one write ------------------------------------------------------------------------------------------------------


def replace(path: Name, data: str | bytes | Iterable[bytes]) -> None:
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
    _sweep(target)
    parts = (content,) if isinstance(content, bytes) else content
    fresh = target.with_name(f"{_prefix(target)}{os.urandom(8).hex()}.minikv-tmp")
    try:
        _write(fresh, parts, like=target)
        _rename(fresh, target)
    except BaseException as error:
        with contextlib.suppress(OSError):
            fresh.unlink()
        if isinstance(error, OSError):  # it names the temporary file
            raise _about(path, error) from error
        raise
    _sync(target.parent)


def destination(path: Name) -> Path:
    """The file that `path` names, with links followed; an error where `replace` could not write it.

    `OSError` where its folder is missing, where it may not be written, or where something other than a file has that
    name: a folder, a device, a pipe.

    >>> destination(os.curdir)
    Traceback (most recent call last):
    IsADirectoryError: [Errno 21] Is a directory: '.'
    """
    target, name = _resolved(path), str(path)
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


def append(path: Name, data: str | bytes) -> None:
    """Add text as UTF-8, or bytes, to the end of a file that exists; it is on the disk when this returns.

    `OSError` names the file, which has its old content then. A process that is stopped or killed meanwhile may leave
    the beginning of `data`, so a reader has to recognize an incomplete end.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "notes.txt"
    >>> replace(path, "one\\n"); append(path, "two\\n")
    >>> path.read_text()
    'one\\ntwo\\n'
    """
    content = data.encode("utf-8") if isinstance(data, str) else data
    try:
        with open(_resolved(path), "r+b", buffering=0) as file:
            end = file.seek(0, os.SEEK_END)
            try:
                if file.write(content) != len(content):
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                os.fsync(file.fileno())
            except BaseException:
                file.truncate(end)
                raise
    except OSError as error:
        raise OSError(error.errno, error.strerror or str(error), str(path)) from error


def _resolved(path: Name) -> Path:
    if "\0" in os.fspath(path):
        raise ValueError(f"{os.fspath(path)!r}: a path holds no NUL character")
    return Path(os.path.realpath(path))


def _about(path: Name, error: OSError) -> OSError:
    """The same error, about the file that was named by the caller."""
    why = _NO_FOLDER if error.errno == errno.ENOENT else error.strerror or str(error)
    return OSError(error.errno, why, str(path))


def _prefix(target: Path) -> str:
    return f".{target.name[:32]}."  # a name may be as long as the file system allows


def _beside(target: Path, end: str) -> Path:
    """`NAME.end`; where that is too long for a name, the beginning of NAME and a checksum of it stand for NAME."""
    name, encoded = target.name, os.fsencode(target.name)
    if len(encoded) + len(end) > _LONGEST_NAME:
        name = f"{name[:32]}.{zlib.crc32(encoded):08x}"
    return target.with_name(name + end)


def _write(fresh: Path, parts: Iterable[bytes], like: Path) -> None:
    """Write a new file to the disk, with the mode of the file that it will replace, and its owner where possible."""
    with open(fresh, "xb") as file:
        with contextlib.suppress(FileNotFoundError, PermissionError):
            old, new = like.stat(), os.fstat(file.fileno())
            if sys.platform != "win32" and (old.st_uid, old.st_gid) != (new.st_uid, new.st_gid):
                with contextlib.suppress(PermissionError):
                    os.fchown(file.fileno(), old.st_uid, old.st_gid)
            os.chmod(fresh, stat.S_IMODE(old.st_mode))
        for part in parts:
            file.write(part)
        file.flush()
        os.fsync(file.fileno())


def _rename(fresh: Path, target: Path) -> None:
    for _ in range(_TRIES - 1):
        try:
            return os.replace(fresh, target)
        except PermissionError:
            time.sleep(0.05)
    return os.replace(fresh, target)


def _sync(folder: Path) -> None:
    """Bring the new name to the disk, where folders can be; without it a power cut may bring the old content back."""
    if sys.platform == "win32":
        return
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _sweep(target: Path) -> None:
    """Remove the temporary files of processes that were killed."""
    mine = re.compile(re.escape(_prefix(target)) + r"[0-9a-f]{16}\.minikv-tmp")
    with contextlib.suppress(OSError), os.scandir(target.parent) as entries:
        for entry in entries:
            if mine.fullmatch(entry.name) and entry.stat().st_mtime < time.time() - _STALE:
                os.unlink(entry.path)


# -- one process at a time --------------------------------------------------------------------------------------------


@contextlib.contextmanager
def locked(path: Name, seconds: float = 10.0) -> Iterator[None]:
    """While it is open, no other `locked` of the same file is, in any thread or process: to read, change and write it.

    The lock is a file beside it, which is gone afterwards. The system frees the lock of a process that ends, however
    it ends. `TimeoutError` after so many `seconds`; it and any other `OSError` name the file. On a file system without
    locks it does not wait.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "notes.txt"
    >>> with locked(path):
    ...     replace(path, "one"); os.listdir(path.parent) == ["notes.txt"]
    False
    >>> os.listdir(path.parent)
    ['notes.txt']
    """
    lock = _beside(_resolved(path), ".lock")
    end, file = time.monotonic() + seconds, None
    try:
        while (file := _try_lock(lock, path)) is None:
            if time.monotonic() >= end:
                why = f"Somebody has held its lock for {seconds:g} seconds"  # a process, or a thread of this one
                raise TimeoutError(errno.ETIMEDOUT, why, str(path))
            time.sleep(0.005)
        yield
    finally:
        if file is not None:
            _unlock(file, lock)


def _try_lock(lock: Path, path: Name) -> BinaryIO | None:
    """The lock file of `path`, opened and locked; `None` while somebody has it."""
    try:
        file = open(lock, "ab")  # noqa: SIM115 - it stays open as long as the lock is held
    except OSError as error:
        if os.name == "nt" and isinstance(error, PermissionError):  # another process is about to remove it
            return None
        raise _about(path, error) from error
    try:
        if _take(file) and _is_at(file, lock):
            return file
    except BaseException as error:
        file.close()
        if isinstance(error, OSError):
            raise _about(path, error) from error
        raise
    file.close()
    return None


if sys.platform == "win32":
    import msvcrt

    def _take(file: BinaryIO) -> bool:
        try:
            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True

    def _is_at(file: BinaryIO, lock: Path) -> bool:
        return True  # an open file cannot be removed

    def _unlock(file: BinaryIO, lock: Path) -> None:
        msvcrt.locking(file.fileno(), msvcrt.LK_UNLCK, 1)
        file.close()
        with contextlib.suppress(OSError):  # another process has opened it meanwhile
            lock.unlink()

else:
    import fcntl

    def _take(file: BinaryIO) -> bool:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError as error:
            if error.errno not in (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP):
                raise  # otherwise: a file system without locks
        return True

    def _is_at(file: BinaryIO, lock: Path) -> bool:
        """Whether the file that was locked is still the one of that name: its last owner may have removed it."""
        try:
            return os.path.samestat(os.fstat(file.fileno()), lock.stat())
        except FileNotFoundError:
            return False

    def _unlock(file: BinaryIO, lock: Path) -> None:
        with contextlib.suppress(OSError):
            lock.unlink()  # while it is locked, so that it is no other's
        file.close()


# -- reading without losing -------------------------------------------------------------------------------------------


def read_object(path: Name) -> dict[str, Any]:
    """The JSON object in a file, or an empty one where there is no file or nothing in it.

    `ValueError` says in one line why the file holds no JSON object, `OSError` why it cannot be read.

    >>> read_object("no_such_file.json")
    {}
    """
    try:
        content = read_bytes(_resolved(path), LARGEST_JSON)
    except FileNotFoundError:
        return {}
    return json_object(content, repr(str(path))) if content.strip() else {}


def set_aside(path: Name) -> Path:
    """Rename a file that cannot be read, so that a new one can begin; returns its new name, `NAME.bad`.

    An older `NAME.bad` stays: the next ones are `NAME.bad.2`, `NAME.bad.3`, and after 99 it is a `FileExistsError`.
    Call it while the file is `locked`.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "notes.json"
    >>> for content in ("{", "}"):
    ...     replace(path, content); print(set_aside(path).name)
    notes.json.bad
    notes.json.bad.2
    """
    target = _resolved(path)
    for number in range(1, _KEPT + 1):
        kept = _beside(target, f".bad{f'.{number}' if number > 1 else ''}")
        if not os.path.lexists(kept):
            os.rename(target, kept)
            _sync(target.parent)
            return kept
    raise FileExistsError(errno.EEXIST, f"{_KEPT} unreadable files are kept beside it already", str(path))

"""The lines of a trace, wherever they come from: a file, a file compressed with gzip, or standard input.

A line takes no more memory than a request could: a longer one comes in pieces, which no reader takes for a request.
The same holds for a compressed file, which is never unpacked as a whole.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import gzip
import io
import os
import stat
import sys
import zlib
from collections.abc import Iterator
from typing import BinaryIO, cast

from minikv.errors import shown
from minikv.traffic.trace_request import LONGEST_LINE, TraceError

_GZIP = b"\x1f\x8b"  # with which every file of gzip begins


def trace_lines(file: BinaryIO) -> Iterator[bytes]:
    """The lines of an open file, none of which takes more memory than a request could: a longer one comes in pieces.

    >>> import io
    >>> list(trace_lines(io.BytesIO(b"one\\ntwo")))
    [b'one\\n', b'two']
    """
    return iter(functools.partial(file.readline, LONGEST_LINE + 1), b"")


class TraceFile:
    r"""An open trace: iterate its lines, once; `fraction` says how much of the file has been read.

    >>> from minikv.assets import asset
    >>> with open_trace(str(asset("model/config.json"))) as file:
    ...     file.fraction(), next(iter(file)), file.fraction() > 0
    (0.0, b'{\n', True)
    """

    def __init__(self, raw: BinaryIO, name: str):
        self.name = name
        self._raw = raw if isinstance(raw, io.BufferedReader) else io.BufferedReader(cast(io.RawIOBase, raw))
        packed = self._raw.peek(2)[:2] == _GZIP
        self._file = cast(BinaryIO, gzip.GzipFile(fileobj=self._raw) if packed else self._raw)
        self._size = _size(raw)

    def __iter__(self) -> Iterator[bytes]:
        """The lines, unpacked; `TraceError` where the file cannot be read to its end."""
        try:
            yield from trace_lines(self._file)
        except (gzip.BadGzipFile, EOFError, zlib.error) as error:
            raise TraceError(f"{self.name} cannot be unpacked to its end: {str(error)[:100]}") from None
        except OSError as error:
            raise TraceError(f"{self.name} cannot be read to its end: {error.strerror}") from None

    def fraction(self) -> float | None:
        """The part of the file that has been read, from 0 to 1; `None` where its size is not known."""
        return min(1.0, self._raw.tell() / self._size) if self._size else None


def _size(file: BinaryIO) -> int:
    """The bytes of a regular file, and 0 for anything else."""
    try:
        info = os.fstat(file.fileno())
    except OSError:  # a file in memory
        return 0
    return info.st_size if stat.S_ISREG(info.st_mode) else 0


@contextlib.contextmanager
def open_trace(path: str) -> Iterator[TraceFile]:
    """The lines of a trace: of the file of that name, or of standard input for `-`; `OSError` says what is wrong.

    >>> with open_trace("no such file"):
    ...     pass
    Traceback (most recent call last):
    FileNotFoundError: [Errno 2] No such file or directory: 'no such file'
    """
    if "\0" in path:
        raise OSError(errno.EINVAL, "a path holds no NUL character")
    if path != "-":
        with open(path, "rb") as file:
            yield TraceFile(file, shown(path))
    elif sys.stdin is None:
        raise OSError(errno.EBADF, "it is closed")
    else:
        yield TraceFile(sys.stdin.buffer, "standard input")

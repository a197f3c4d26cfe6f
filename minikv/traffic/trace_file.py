"""The shared part of all trace formats: a request, the limits of its values, and the lines of a file.

The lines come from a file, a file compressed with gzip, or standard input. A line takes no more memory than a request
could: a longer one comes in pieces, which no reader takes for a request. The same holds for a compressed file, which
is never unpacked as a whole.
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
from collections.abc import Callable, Iterable, Iterator
from typing import Any, BinaryIO, NamedTuple, TypeVar, cast

from minikv.errors import bounded, shown
from minikv.tokens import PackedTokens
from minikv.untrusted import json_object

LONGEST_LINE = 2**24  # bytes: two million blocks, or a prompt of a billion tokens
MOST_BLOCKS = 2**21  # of a request: what a line has room for
LARGEST = 2**53  # up to which a float holds every integer
MOST_BLANK_LINES = 2**20  # of a trace: more would take time, and say nothing
LONGEST_NAME = 200  # characters of the name of a session
_Parsed = TypeVar("_Parsed")
_Item = TypeVar("_Item")


class TraceError(ValueError):
    """A trace that cannot be read, or a line of it that is not a request; the message says where and why."""


class TraceRequest(NamedTuple):
    """One request of a trace: when it came (ms), its lengths in tokens, and its prompt's blocks, packed.

    Two prompts share their first n blocks where their first n ids are equal. `conversation` numbers the conversations
    of the trace from 0, and is `None` where the trace does not tell them apart.
    """

    timestamp: float
    input_length: int
    output_length: int
    blocks: PackedTokens
    conversation: int | None = None


class Conversations:
    """Numbers for the names of conversations, in the order in which the names first appear.

    >>> number = Conversations()
    >>> number("b"), number("a"), number("b"), number(None)
    (0, 1, 0, None)
    """

    def __init__(self) -> None:
        self._numbers: dict[str | int, int] = {}

    def __call__(self, name: Any) -> int | None:
        """The number of the conversation `name`, a string or an integer; `None` has none."""
        if name is None:
            return None
        known = isinstance(name, (str, int)) and not isinstance(name, bool)
        if not known or (len(name) > LONGEST_NAME if isinstance(name, str) else abs(name) > LARGEST):
            rule = f"a string of at most {LONGEST_NAME} characters or a whole number"
            raise ValueError(f"the name of the conversation is {bounded(name)}: expected {rule}")
        return self._numbers.setdefault(name, len(self._numbers))


def located(
    name: str,
    lines: Iterable[bytes | str],
    parse: Callable[[dict[str, Any]], _Parsed],
    start: int = 1,
    leave: Callable[[TraceError], None] | None = None,
) -> Iterator[_Parsed]:
    """Yield the result of `parse` for the JSON object in each line that is not blank; `TraceError` names the line.

    `start` is the number of the first line. `leave` is given the errors of lines that may be left out, and may raise
    them; a line that is too long comes in pieces, which may not.

    >>> list(located("t.jsonl", ["{}", " ", "x"], dict))
    Traceback (most recent call last):
    minikv.traffic.trace_file.TraceError: t.jsonl, line 3: the line is not JSON: Expecting value at column 1
    """
    blank = 0
    for number, line in enumerate(lines, start):
        if not line.strip():
            if (blank := blank + 1) > MOST_BLANK_LINES:
                raise _too_blank(name, number)
            continue
        try:
            if len(line) > LONGEST_LINE:
                raise ValueError(f"the line has over {LONGEST_LINE} bytes: expected a request of fewer")
            found = parse(json_object(line, "the line"))
        except (TypeError, ValueError) as error:
            wrong = TraceError(f"{name}, line {number}: {error}")
            if leave is None or len(line) > LONGEST_LINE:
                raise wrong from None
            leave(wrong)
        else:
            yield found


def _too_blank(name: str, number: int) -> TraceError:
    return TraceError(f"{name}, line {number}: over {MOST_BLANK_LINES:,} lines are blank")


def number_field(entry: dict[str, Any], key: str, fraction: bool = False) -> Any:
    """The number `key` of a line, from 0 to 2**53 and whole unless it may be a `fraction`; else a `ValueError`.

    >>> number_field({"input_length": 12.5}, "input_length")
    Traceback (most recent call last):
    ValueError: input_length is 12.5: expected a whole number from 0 to 2**53
    """
    if key not in entry:
        raise ValueError(f"there is no {key}")
    value = entry[key]
    kinds = (int, float) if fraction else (int,)
    if not isinstance(value, kinds) or isinstance(value, bool) or not 0 <= value <= LARGEST:
        raise ValueError(f"{key} is {bounded(value)}: expected a {'' if fraction else 'whole '}number from 0 to 2**53")
    return value


_GZIP = b"\x1f\x8b"  # with which every file of gzip begins


class TraceFile:
    r"""An open trace: iterate its lines, once; `size` is its bytes, packed or not, or 0 where they are not known.

    >>> from minikv.files import asset
    >>> with open_trace(str(asset("model/config.json"))) as file:
    ...     next(iter(file))
    b'{\n'
    """

    def __init__(self, raw: BinaryIO, name: str):
        self.name = name
        self._raw = raw if isinstance(raw, io.BufferedReader) else io.BufferedReader(cast(io.RawIOBase, raw))
        packed = self._raw.peek(2)[:2] == _GZIP
        self._file = cast(BinaryIO, gzip.GzipFile(fileobj=self._raw) if packed else self._raw)
        self.size = _size(raw)

    def __iter__(self) -> Iterator[bytes]:
        """The lines, unpacked; `TraceError` where the file cannot be read to its end, or very many are blank."""
        blank, lines = 0, iter(functools.partial(self._file.readline, LONGEST_LINE + 1), b"")
        try:
            for number, line in enumerate(lines, 1):
                blank += not line.strip()
                if blank > MOST_BLANK_LINES:
                    raise _too_blank(self.name, number)
                yield line
        except (gzip.BadGzipFile, EOFError, zlib.error) as error:
            raise TraceError(f"{self.name} cannot be unpacked to its end: {str(error)[:100]}") from None
        except OSError as error:
            raise TraceError(f"{self.name} cannot be read to its end: {error.strerror}") from None

    def position(self) -> int:
        """Return how many of its bytes have been read, where their number is known."""
        return self._raw.tell()


def _size(file: BinaryIO) -> int:
    """The bytes of a regular file, and 0 for anything else."""
    try:
        found = os.fstat(file.fileno())
    except OSError:
        return 0  # it is no file of the system
    return found.st_size if stat.S_ISREG(found.st_mode) else 0


@contextlib.contextmanager
def open_trace(path: str) -> Iterator[TraceFile]:
    """The lines of a trace: of the file of that name, or of standard input for `-`; `OSError` says what is wrong.

    >>> with open_trace("no such file"):
    ...     pass
    Traceback (most recent call last):
    FileNotFoundError: [Errno 2] No such file or directory: 'no such file'
    """
    if "\0" in path:
        raise OSError(errno.EINVAL, "a path has no NUL character")
    if path != "-":
        with open(path, "rb") as file:
            yield TraceFile(file, shown(path))
    elif sys.stdin is None:
        raise OSError(errno.EBADF, "it is closed")
    else:
        yield TraceFile(sys.stdin.buffer, "standard input")


def behind_bar(items: Iterable[_Item], total: int | None = None, file: TraceFile | None = None) -> Iterator[_Item]:
    """The items, with a bar on a terminal: of the bytes of the `file` that they are read from, or of their `total`.

    Without both, it counts them.

    >>> list(behind_bar([1, 2]))
    [1, 2]
    """
    from tqdm import tqdm

    off = None if sys.stderr else True  # without a terminal, and where standard error is closed
    if file is None or not file.size:
        yield from tqdm(items, total=total, unit=" requests", disable=off, leave=False)
        return
    with tqdm(total=file.size, unit="B", unit_scale=True, disable=off, leave=False) as bar:
        for item in items:
            bar.update(file.position() - bar.n)
            yield item

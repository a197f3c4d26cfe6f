"""From text to token ids and back, also while the ids are still coming.

The small model reads bytes, so its tokenizer is a line each way. Other checkpoints bring a `tokenizer.json`, which the
`tokenizers` library reads. Neither may print half a character: a character of several bytes may come in several tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

from minikv.errors import bounded
from minikv.files import FileName
from minikv.tokens import TOKEN_LIMIT, integers
from minikv.untrusted import read_json, refused

_UNKNOWN = "\N{REPLACEMENT CHARACTER}"


class Tokenizer(Protocol):
    """A converter between text and ids; ids without text, such as the end of a turn, decode to nothing."""

    def encode(self, text: str) -> list[int]:
        """The ids of `text`, and none besides."""

    def decode(self, ids: Sequence[int]) -> str:
        """The text of `ids`; bytes that are not UTF-8 become U+FFFD."""


class ByteTokenizer:
    """One token is one byte of UTF-8; ids from 256 on have no text.

    >>> tokenizer = ByteTokenizer()
    >>> tokenizer.encode("Größe")
    [71, 114, 195, 182, 195, 159, 101]
    >>> tokenizer.decode([71, 114, 195, 182, 256, 195])
    'Grö�'
    """

    def encode(self, text: str) -> list[int]:
        """The bytes of `text`; a lone surrogate, which UTF-8 cannot write, becomes a question mark."""
        return list(require_text(text).encode(errors="replace"))

    def decode(self, ids: Sequence[int]) -> str:
        """The text of `ids`; bytes that are not UTF-8 become U+FFFD."""
        found = integers(ids, "ids", "a token is an integer in [0, 2**32)", TOKEN_LIMIT)
        return bytes(found[found < 256].tolist()).decode(errors="replace")

    def __repr__(self) -> str:
        return "ByteTokenizer()"


def require_text(text: str) -> str:
    """`text` itself; `TypeError` if it is not a string.

    >>> require_text([71])
    Traceback (most recent call last):
    TypeError: text is [71]: expected a string
    """
    if not isinstance(text, str):
        raise TypeError(f"text is {bounded(text)}: expected a string")
    return text


class FileTokenizer:
    """A checkpoint's `tokenizer.json`, read by the `tokenizers` library; open checkpoints that you trust.

    The library runs the regular expressions of the file, and some of them take hours for a text of a line.
    `ModuleNotFoundError` says how to get that library; `ValueError` says what is wrong with the file.
    """

    def __init__(self, path: FileName):
        try:
            from tokenizers import Tokenizer as Reader
        except ImportError:
            raise ModuleNotFoundError(
                f"{path} needs the tokenizers library, which is not installed: pip install 'minikv[serving]'"
            ) from None
        with refused(f"{path} is not a tokenizer that can be read"):
            self._reader: Any = Reader.from_file(str(path))
        self._reader.no_padding()
        self._reader.no_truncation()

    def encode(self, text: str) -> list[int]:
        """The ids of `text`; special tokens that are written out in it are recognized."""
        return [*self._reader.encode(require_text(text), add_special_tokens=False).ids]

    def decode(self, ids: Sequence[int]) -> str:
        """The text of `ids`, without special tokens."""
        return str(self._reader.decode([int(i) for i in ids], skip_special_tokens=True))

    def __repr__(self) -> str:
        return f"FileTokenizer({self._reader.get_vocab_size()} ids)"


def load_tokenizer(folder: FileName) -> Tokenizer:
    """The tokenizer of a checkpoint folder: its `tokenizer.json`, or bytes where its `config.json` says so.

    `FileNotFoundError` when there is neither.

    >>> from minikv import asset
    >>> load_tokenizer(asset("model"))
    ByteTokenizer()
    """
    folder = Path(folder)
    if (path := folder / "tokenizer.json").exists():
        return FileTokenizer(path)
    name = read_json(folder / "config.json").get("tokenizer_class")
    if name == "ByteTokenizer":
        return ByteTokenizer()
    raise FileNotFoundError(f"{folder} has no tokenizer.json, and its config.json names the tokenizer {bounded(name)}")


class TextStream:
    """Text as it comes: `push` takes one id and gives what can be printed now, `close` what was held back.

    All that it gives, put together, is the tokenizer's `decode` of all ids, unless a tokenizer writes the same ids
    differently after others. After the incremental detokenizers of vLLM and of text-generation-inference.

    >>> stream = TextStream(ByteTokenizer())
    >>> [stream.push(i) for i in "é!".encode()], stream.close()
    (['', 'é', '!'], '')
    """

    def __init__(self, tokenizer: Tokenizer):
        self._tokenizer = tokenizer
        self._ids: list[int] = []  # the last ones: those shown last, and after them those that are held back
        self._shown = 0

    def push(self, token: int) -> str:
        """The text that `token` completes, or nothing while it could be the beginning of a character."""
        self._ids.append(int(token))
        text = self._rest()
        if not text or text.endswith(_UNKNOWN):
            return ""
        self._ids, self._shown = self._ids[self._shown :], len(self._ids) - self._shown
        return text

    def close(self) -> str:
        """Return the text that was held back, with U+FFFD for bytes that never became a character."""
        text = self._rest()
        self._ids, self._shown = [], 0
        return text

    def _rest(self) -> str:
        before = self._tokenizer.decode(self._ids[: self._shown])
        return self._tokenizer.decode(self._ids)[len(before) :]

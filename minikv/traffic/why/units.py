"""In what a prompt is counted: in the tokens of a tokenizer, or in bytes, of which a token is taken to have four."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from minikv.serving.tokenizer import Tokenizer

BYTES_OF_A_TOKEN = 4  # about what English and code take
_AT_ONCE = 2**16  # characters that a tokenizer gets: a longer text is cut, equal texts at equal places


class PromptUnit:
    """Counts prompts in tokens, or in bytes without a tokenizer.

    >>> unit = PromptUnit()
    >>> unit.name, unit.scale, len(unit.split("Größe"))
    ('bytes', 4, 7)
    """

    def __init__(self, tokenizer: Tokenizer | None = None):
        self._tokenizer = tokenizer
        self.name = "tokens" if tokenizer else "bytes"
        self.scale = 1 if tokenizer else BYTES_OF_A_TOKEN

    def split(self, text: str) -> npt.NDArray[np.int64]:
        """The units of a text, as numbers: ids of tokens, or bytes."""
        if self._tokenizer is None:
            return np.frombuffer(text.encode("utf-8", "surrogatepass"), np.uint8).astype(np.int64)
        parts = [text[begin : begin + _AT_ONCE] for begin in range(0, len(text), _AT_ONCE)]
        return np.array([token for part in parts for token in self._tokenizer.encode(part)], np.int64)


def shared_units(one: npt.NDArray[np.int64], two: npt.NDArray[np.int64]) -> int:
    """How many numbers two arrays share from the beginning.

    >>> shared_units(np.array([1, 2, 3]), np.array([1, 2, 4, 5]))
    2
    """
    size = min(len(one), len(two))
    apart = np.flatnonzero(one[:size] != two[:size])
    return int(apart[0]) if len(apart) else size

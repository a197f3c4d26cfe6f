"""What a prompt is counted in: the tokens of a tokenizer, or the bytes of its UTF-8 where there is none.

A prompt is cut piece by piece: a token never reaches from one message into the next, as the marks of a chat template
see to. A very long piece is cut every 131,072 characters first. So prompts with equal beginnings get equal tokens.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from minikv.tokens import TOKEN_BYTES, pack

if TYPE_CHECKING:
    from minikv.serving.tokenizer import Tokenizer

BYTES_OF_A_TOKEN = 4  # about what English and code take
TOKEN_BLOCK = 16  # as vLLM has them
_LONGEST = 2**17  # characters that a tokenizer is given at once
_KEPT = 512  # texts whose tokens are kept: a conversation repeats what was said before


class Units:
    r"""Cuts texts into units, packed in `width` bytes each: with a `tokenizer`, else into bytes.

    `unit` is "tokens" or "bytes", and a token is taken to have `scale` of them; `block_size` is what a block holds
    where nobody says otherwise.

    >>> units = Units()
    >>> units.unit, units.scale, units.block_size, units.packed(["Grö", "ße"])
    ('bytes', 4, 64, b'Gr\xc3\xb6\xc3\x9fe')
    """

    def __init__(self, tokenizer: Tokenizer | None = None):
        self._tokens: Callable[[str], bytes] | None = None
        self.unit, self.width, self.scale = "bytes", 1, BYTES_OF_A_TOKEN
        if tokenizer is not None:
            encode = tokenizer.encode
            self.unit, self.width, self.scale = "tokens", TOKEN_BYTES, 1
            self._tokens = functools.lru_cache(_KEPT)(lambda text: pack(encode(_well_formed(text).decode())).data)
        self.block_size = TOKEN_BLOCK * self.scale

    def packed(self, texts: Iterable[str]) -> bytes:
        """The units of a prompt that is made of `texts`, each in `width` bytes."""
        if self._tokens is None:
            return _well_formed("".join(texts))
        parts = (text[at : at + _LONGEST] for text in texts for at in range(0, len(text), _LONGEST))
        return b"".join(map(self._tokens, parts))

    def count(self, text: str) -> int:
        """How many units a text has.

        >>> Units().count("Größe")
        7
        """
        return len(self.packed([text])) // self.width


def _well_formed(text: str) -> bytes:
    """`text` in UTF-8, with a question mark for each half of a pair of surrogates."""
    return text.encode(errors="replace")

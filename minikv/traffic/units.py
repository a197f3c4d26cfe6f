"""What a prompt is counted in: the tokens of a tokenizer, or the bytes of its UTF-8 where there is none.

A prompt is cut piece by piece: a token never reaches from one message into the next, as the marks of a chat template
see to. A very long piece is cut every 131,072 characters first. So prompts with equal beginnings get equal tokens.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable
from os import PathLike

from minikv.tokens import TOKEN_BYTES, pack

TOKEN_BLOCK, BYTE_BLOCK = 16, 64  # of 16 tokens, as vLLM has them; four bytes of English are about a token
_LONGEST = 2**17  # characters that a tokenizer is given at once
_KEPT = 512  # texts whose tokens are kept: a conversation repeats what was said before


class Units:
    r"""Cuts texts into units, packed in `width` bytes each: with the tokenizer of `folder`, else into bytes.

    `unit` is "tokens" or "bytes"; `block_size` is what a block holds where nobody says otherwise. `ValueError`,
    `OSError` and `ModuleNotFoundError` say what is wrong with the folder.

    >>> units = Units()
    >>> units.unit, units.block_size, units.packed(["Grö", "ße"])
    ('bytes', 64, b'Gr\xc3\xb6\xc3\x9fe')
    >>> from minikv import asset
    >>> Units(asset("model")).unit
    'tokens'
    """

    def __init__(self, folder: str | PathLike[str] | None = None):
        self._encode = None
        self.unit, self.width, self.block_size = "bytes", 1, BYTE_BLOCK
        if folder is not None:
            from minikv.serving.tokenizer import load_tokenizer  # the tokenizers library comes with an extra

            self._encode = load_tokenizer(folder).encode
            self.unit, self.width, self.block_size = "tokens", TOKEN_BYTES, TOKEN_BLOCK
            self._tokens = functools.lru_cache(_KEPT)(self._tokens)  # type: ignore[method-assign]

    def packed(self, texts: Iterable[str]) -> bytes:
        """The units of a prompt that is made of `texts`, each in `width` bytes."""
        if self._encode is None:
            return "".join(texts).encode(errors="replace")
        return b"".join(
            self._tokens(text[at : at + _LONGEST]) for text in texts for at in range(0, len(text), _LONGEST)
        )

    def _tokens(self, text: str) -> bytes:
        assert self._encode is not None
        return pack(self._encode(text.encode(errors="replace").decode())).data

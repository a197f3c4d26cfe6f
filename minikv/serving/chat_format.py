"""How a conversation is written for a model: what the assistant is told, and turns in, token ids out.

A cache can only serve what is the same from the first token on. So what was said must be written the same way each
time it is sent, with the ids that the model answered with, as they came.

There is one form, plain lines, for every model. A checkpoint's own chat template is not read, so a model that was
trained on one answers better in its own engine.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from minikv.serving.tokenizer import Tokenizer

INSTRUCTIONS = (
    "You are the assistant of a course on KV caches. Answer in one or two short sentences, in plain words, and use the "
    "field's own terms: token, slot, page, page table, prefix, radix tree, lock, eviction. If somebody asks for code, "
    "say in which chapter it is built. If you do not know something, say so, and name the chapter that comes nearest "
    "to it. Never invent a number: every number of this course comes out of a cell that the reader can run.\n"
)


class Turn(NamedTuple):
    """A question and what was answered: its `text`, and the ids that the model generated, its end token included."""

    question: str
    text: str
    ids: list[int]


class PlainFormat:
    """Turns as lines: `User: ...` and `Assistant: ...`, the latter closed with the id `end` where there is one.

    `start` is the id that comes before everything, if any. It is what the small model was trained on.

    >>> from minikv.serving.tokenizer import ByteTokenizer
    >>> format = PlainFormat(ByteTokenizer(), end=256)
    >>> bytes(i for i in format.prompt([Turn("Hi", " Hello.", [*b" Hello.", 256])], "And?") if i < 256)
    b'User: Hi\\nAssistant: Hello.\\nUser: And?\\nAssistant:'
    """

    def __init__(self, tokenizer: Tokenizer, end: int | None = None, start: int | None = None):
        self._encode = tokenizer.encode
        self._end = [] if end is None else [end]
        self._start = [] if start is None else [start]

    def prompt(self, turns: Sequence[Turn], question: str) -> list[int]:
        """The ids of all `turns`, of `question`, and of the marker that starts an answer."""
        ids = [*self._start]
        for turn in turns:
            closed = turn.ids[-1:] == self._end
            ids += self._question(turn.question) + turn.ids + ([] if closed else self._end) + self._encode("\n")
        return ids + self._question(question)

    def _question(self, question: str) -> list[int]:
        return self._encode(f"User: {question}\nAssistant:")

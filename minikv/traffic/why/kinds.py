"""The kinds of change that break a prefix: what each is called, what it means, and what to do about it.

They are in `kinds.txt`, each as its name, a sentence about it, and what to do; after the name stands whether it is
harmless.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

_HARMLESS = " (harmless)"


class ChangeKind(NamedTuple):
    """One kind of change: a sentence about it, and what to do; `harmless` ones are no fault of the prompt."""

    says: str
    remedy: str
    harmless: bool


def _read(text: str) -> tuple[str, ChangeKind]:
    name, says, *remedy = text.splitlines()
    return name.removesuffix(_HARMLESS), ChangeKind(says, " ".join(remedy), name.endswith(_HARMLESS))


KINDS = dict(map(_read, Path(__file__).with_name("kinds.txt").read_text("utf-8").split("\n\n")))

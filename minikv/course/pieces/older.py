"""What a new version of `my_minikv.py` replaces: kept in a folder beside it, if it is lost otherwise.

A new version that only looks different is no loss, and neither is code of ours, nor what the folder has already.
"""

from __future__ import annotations

import ast
import contextlib
import io
import tokenize
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from minikv.engine.sections import engine_sections, sections
from minikv.files import replace


class Written(NamedTuple):
    """A part of a file: what its code is, however it is laid out, and its comments."""

    code: str
    comments: frozenset[str]

    def is_in(self, others: Iterable[Written]) -> bool:
        """Whether one of the others has the same code and all these comments."""
        return any(self.code == other.code and self.comments <= other.comments for other in others)


def keep_older(path: Path, old: str, new: str, ours: str) -> Path | None:
    """Copy the file into its folder of older ones if the new one lacks anything of the learner's; the copy's path.

    `ours` is the file of a learner who has written nothing.

    >>> keep_older(Path("my_minikv.py"), "# %% 3.1 split\\nx = [1,2]", "# %% 3.1 split\\nx = [\\n    1, 2\\n]", "")
    """
    folder = path.with_name(f"{path.stem}_older")
    known = [*parts_of(new), *parts_of(ours), *(_part(section.text) for section in engine_sections())]
    lost = [part for part in parts_of(old) if not part.is_in(known)]
    if not lost:
        return None
    kept = [part for text in _texts(folder) for part in parts_of(text)]
    if all(part.is_in(kept) for part in lost):
        return None
    folder.mkdir(exist_ok=True)
    number = 1
    while (copy := folder / f"{path.stem}_{number}{path.suffix}").exists():
        number += 1
    replace(copy, old)
    return copy


def parts_of(text: str) -> list[Written]:
    """What stands before the first section, if anything does, and the text of each section.

    >>> [sorted(part.comments) for part in parts_of("import sys\\n# %% 3.1 split\\nx = 1  # one\\n")]
    [[], ['# one']]
    """
    found = sections(text)
    before = "\n".join(text.split("\n")[: found[0].line - 2] if found else [text]).strip()
    return [_part(each) for each in [*([before] if before else []), *(section.text for section in found)]]


def _part(text: str) -> Written:
    try:
        code = ast.dump(ast.parse(text))
    except (SyntaxError, ValueError):
        return Written(text.strip(), frozenset())
    comments = set()
    with contextlib.suppress(tokenize.TokenError, IndentationError):
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type == tokenize.COMMENT:
                comments.add(token.string.strip())
    return Written(code, frozenset(comments))


def _texts(folder: Path) -> list[str]:
    """The files of a folder that can be read."""
    found = []
    for file in sorted(folder.glob("*.py")):
        with contextlib.suppress(OSError, UnicodeDecodeError):
            found.append(file.read_text("utf-8-sig"))
    return found

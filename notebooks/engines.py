"""The statements of the chapters about real engines, and a check of them against the sources.

`notebooks/src/engines.toml` holds each statement with the line that shows it. Line numbers, paths and names are those
of one release or commit, so a link made from them leads to the same line forever.

    python notebooks/engines.py FOLDER     compare every entry with the sources in FOLDER, a line for each miss

FOLDER has a folder for each engine, named as in `engines.toml`: a checkout of its repository, or an unpacked wheel.
An entry about another commit wants a folder of its own, `NAME@1234567`.
"""

from __future__ import annotations

import datetime
import functools
import json
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

FACTS = Path(__file__).resolve().parent / "src" / "engines.toml"
COLUMNS = "sglang", "vllm", "mini-sglang", "nano-vllm"
PLACE = re.compile(r"\{\{engines\s+([\w-]+)(?:\|([^}]+))?\}\}")


@dataclass(frozen=True)
class Engine:
    """One project: where its source is, the revision that was read, and a sentence that introduces it."""

    title: str
    repository: str
    revision: str
    date: datetime.date
    about: str
    wheel: str = ""


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One statement about an engine, with the line that shows it."""

    kind: str  # cell, fact or bug
    engine: str
    chapters: tuple[str, ...]
    path: str
    line: int
    symbol: str
    claim: str
    revision: str
    date: datetime.date
    id: str = ""
    row: str = ""
    cell: str = ""
    state: str = ""
    thread: str = ""

    @property
    def link(self) -> str:
        """The address of the line, at the revision that was read."""
        return f"{engines()[self.engine].repository}/blob/{self.revision}/{self.path}#L{self.line}"

    @property
    def folder(self) -> str:
        """The folder that holds the sources of this entry's revision."""
        own = self.revision == engines()[self.engine].revision
        return self.engine if own else f"{self.engine}@{self.revision[:7]}"

    def __str__(self) -> str:
        """As a link in the text: by its words; a bug with its state, and by its number where it has one."""
        if self.kind != "bug":
            return f"[{self.cell}]({self.link})"
        number = re.fullmatch(r".*/(pull|issues)/(\d+)", self.thread)
        name = f"{self.engine}#{number[2]}" if number else self.cell or engines()[self.engine].title
        return f"[{name}]({self.thread or self.link}) ({self.state})"


@functools.cache
def _facts() -> dict[str, Any]:
    return tomllib.loads(FACTS.read_text("utf-8"))


@functools.cache
def engines() -> dict[str, Engine]:
    """The engines by name."""
    return {name: Engine(**engine) for name, engine in _facts()["engine"].items()}


@functools.cache
def entries() -> tuple[Entry, ...]:
    """All entries in the order of the file; what an entry leaves out is its engine's."""
    found = []
    for entry in _facts()["entry"]:
        engine = engines()[entry["engine"]]
        own = {"revision": engine.revision, "date": engine.date} | entry
        found.append(Entry(**own | {"chapters": tuple(entry["chapters"])}))
    return tuple(found)


def table(chapter: str, first: Sequence[str] = ()) -> str:
    """The table "In real engines" of a chapter, as markdown; each cell is a link to a line.

    `first` names the rows that a reader needs: the table has these, and the rest is folded below it. A chapter without
    entries or without such a row, or a row without an engine, is a `ValueError`.

    >>> table("03").splitlines()[0]
    '| here | SGLang | vLLM | mini-sglang | nano-vllm |'
    """
    cells = [entry for entry in entries() if entry.kind == "cell" and chapter in entry.chapters]
    if not cells:
        raise ValueError(f"engines.toml has no cell of chapter {chapter!r:.20}")
    rows = list(dict.fromkeys(entry.row for entry in cells))
    if missing := set(first) - set(rows):
        raise ValueError(f"engines.toml, chapter {chapter}: no row {sorted(missing)}; there are {rows}")
    if not first:
        return _rows(chapter, cells, rows)
    without = [name for name in COLUMNS if len({cell.cell for cell in cells if cell.engine == name}) == 1]
    told = "".join(f" {engines()[name].title}: {_of(name, cells)[0]}." for name in without)
    shown = _rows(chapter, cells, first, without)
    rest = _rows(chapter, cells, [row for row in rows if row not in first], without)
    *read, last = (f"{engines()[name].title} ({engines()[name].date})" for name in COLUMNS)
    dates = f"The links lead to the source code of {', '.join(read)} and {last}.{told}"
    return f"{shown}\n\n{dates}\n\n<details><summary>More rows</summary>\n\n{rest}\n\n</details>"


def _of(engine: str, cells: Sequence[Entry]) -> list[Entry]:
    return [cell for cell in cells if cell.engine == engine]


def _rows(chapter: str, cells: Sequence[Entry], rows: Sequence[str], without: Sequence[str] = ()) -> str:
    """The lines of a table; engines that say the same in each cell can be left `without` a column."""
    names = [name for name in COLUMNS if name not in without]
    titles = " | ".join(engines()[name].title for name in names)
    lines = [f"| here | {titles} |", "|---" * (1 + len(names)) + "|"]
    for row in rows:
        columns = [", ".join(str(cell) for cell in _of(name, cells) if cell.row == row) for name in COLUMNS]
        if not all(columns):
            raise ValueError(f"engines.toml, chapter {chapter}: row {row!r} has no cell for each of {COLUMNS}")
        lines.append(
            f"| {row} | " + " | ".join(column for name, column in zip(COLUMNS, columns) if name in names) + " |"
        )
    return "\n".join(lines)


def fill(text: str) -> str:
    """The text with each `{{engines NAME}}` replaced: a table, an engine's introduction, or a link.

    A number stands for the table of that chapter; any other name is an engine's or an entry's id. After a `|` come
    the rows of a table that are not folded, with `; ` between them, or the words of a link in place of its own.

    >>> fill("It did, {{engines mini-sglang-52}}.")
    'It did, [mini-sglang#52](https://github.com/sgl-project/mini-sglang/pull/52) (fixed in December 2025).'
    >>> fill("It {{engines mini-sglang-52|lost a lock}} until December 2025.")
    'It [lost a lock](https://github.com/sgl-project/mini-sglang/pull/52) until December 2025.'
    """
    named = {name: engine.about for name, engine in engines().items()}
    named |= {entry.id: str(entry) for entry in entries() if entry.id}
    linked = {entry.id: entry.thread or entry.link for entry in entries() if entry.id}

    def found(place: re.Match[str]) -> str:
        name, words = place.groups()
        if re.fullmatch(r"\d\d", name):
            return table(name, words.split("; ") if words else ())
        if words and name in linked:
            return f"[{words}]({linked[name]})"
        if name not in named:
            raise ValueError(f"{{{{engines {name}}}}}: engines.toml has no engine and no entry of that name")
        return named[name]

    return PLACE.sub(found, text)


def places() -> str:
    """Return, as JSON, the engine and the line that do the same as each piece; empty where the course knows of none."""
    found = {}
    for piece, name in _facts()["piece"].items():
        same = [e for e in entries() if name and name in (e.id, f"{e.engine} {e.chapters[0]} {e.row}")]
        if name and not same:
            raise ValueError(f"engines.toml, piece {piece}: there is no entry {name!r}")
        found[piece] = [engines()[same[0].engine].title, same[0].link] if same else []
    return json.dumps(found, indent=1) + "\n"


def misses(folder: Path) -> Iterator[str]:
    """A line for each entry whose symbol does not stand where it says, in the order of the file."""
    missing = sorted({entry.folder for entry in entries() if not (folder / entry.folder).is_dir()})
    yield from (f"{name}: no such folder in {folder}" for name in missing)
    for entry in entries():
        if entry.folder not in missing and (problem := _problem(entry, folder / entry.folder)):
            yield f"{entry.folder}, chapter {entry.chapters[0]}: {entry.path}: {problem}"


def _problem(entry: Entry, source: Path) -> str:
    """Return the problem of an entry in its source, or an empty text."""
    paths = [source / entry.path, source / entry.path.removeprefix(engines()[entry.engine].wheel)]
    path = next((path for path in paths if path.is_file()), None)
    if path is None:
        return "no such file"
    lines = path.read_text("utf-8").splitlines()
    word = re.compile(
        rf"(?<!\w){re.escape(entry.symbol)}(?!\w)" if entry.symbol.isidentifier() else re.escape(entry.symbol)
    )
    stands = [number for number, line in enumerate(lines, start=1) if word.search(line)]
    if entry.line in stands:
        return ""
    if not stands:
        return f"no {entry.symbol!r}"
    nearest = min(stands, key=lambda number: abs(number - entry.line))
    return f"{entry.symbol!r} is in line {nearest}, not in line {entry.line}"


def main(arguments: Sequence[str]) -> int:
    """Check every entry against the sources in a folder; 1 if there was a miss."""
    if len(arguments) != 1:
        print("usage: python notebooks/engines.py FOLDER")
        return 2
    found = list(misses(Path(arguments[0])))
    print("\n".join(found) or f"{len(entries())} entries, each where it says")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

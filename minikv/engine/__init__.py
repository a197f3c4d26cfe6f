"""The engine that you build in the course: a small one, but all of it. A newcomer to minikv starts here.

Read the files in the order of their chapters. They are plain modules that import each other:

- `ch01_02_pool`: how many pages fit into a GPU's memory, and which of them are free
- `ch03_tree`: the radix tree; `ch03_first_split` is how chapter 03 splits a node before there are locks
- `ch04_05_cache`: the locks on its nodes, and the ring that sets the eviction order
- `ch06_07_manager`: how keys and values are moved, and the life of a request
- `ch08_serving`: attention through the slots, and what each step computes
- `ch09_10_rows_and_blocks`, `ch11_12_sharing_and_windows`: four further designs beside that engine
- `ch13_traffic`: what an eviction policy can be measured against
- `ch14_tiers`: a second tier in host memory
- `ch15_layers`: where layers that keep different things can all continue

The `shells` hold what no chapter is about, such as checks of the input. The rest of `minikv` is the same again, faster,
and what checks, measures and teaches it.

>>> from minikv.engine.ch04_05_cache import RadixCache
>>> cache = RadixCache()
>>> cache.insert([1, 2, 3], [7, 8, 9]), cache.match_prefix([1, 2, 5])
(Insertion(prefix_length=0, length=3), Match(length=2, pages=[7, 8]))

A section of a file begins with `# %%`. Those of pieces ("3.3 split") are what a learner writes: `check` says whether
their answer does the same, `solution` prints ours, and it runs where theirs is not right yet. Those that are given
("given 3") join them. A section calls the others as globals, so any of them can also run in the learner's own world,
where the learner's pieces replace the package's. The imports before the first section of a file belong to none: only
the module needs them. `my_minikv.py` is these files with the learner's pieces in them.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from types import FunctionType
from typing import Any, NamedTuple

World = dict[str, Any]  # what a piece finds: the classes, the other pieces, helpers; the globals of its function
WITHOUT_TORCH = (2, 3, 4, 5, 7)  # the chapters of the engine whose classes need none
LAST = 8  # the last chapter of the engine
_HEAD = re.compile(r"^# %% (\S+) (\w+)(.*)$", re.MULTILINE)


class Section(NamedTuple):
    """A section: its id ("3.3", or "given"), its name ("split", or the chapter), the rest of its line, its text.

    `line` is the number of the first line of the text in its `file`.
    """

    id: str
    name: str
    remark: str
    text: str
    line: int
    file: str

    @property
    def chapter(self) -> int:
        """The chapter that it belongs to."""
        return int(self.name if self.id == "given" else self.id.split(".")[0])


def sections(text: str, file: str = "") -> list[Section]:
    """The sections of a file, in order; text before the first section belongs to none.

    >>> sections("import sys\\n# %% 3.3 split · mine\\ndef split(node, at): ...\\n")
    [Section(id='3.3', name='split', remark=' · mine', text='def split(node, at): ...\\n', line=3, file='')]
    """
    before, *parts = _HEAD.split(text)
    found, line = [], before.count("\n") + 2
    for id, name, remark, own in zip(*[iter(parts)] * 4):
        found.append(Section(id, name, remark, own[1:].rstrip() + "\n", line, file))
        line += own.count("\n")
    return found


@cache
def engine_files() -> list[str]:
    """The files of the engine, in the order of their chapters.

    >>> [Path(file).name for file in engine_files()][:2]
    ['ch01_02_pool.py', 'ch03_first_split.py']
    """
    return sorted(map(str, Path(__file__).parent.glob("ch[0-9][0-9]_*.py")))


@cache
def engine_sections() -> tuple[Section, ...]:
    """The sections of the course's engine, followed by those of the other designs.

    >>> [section.name for section in engine_sections() if section.chapter == 2]
    ['2', 'alloc', 'guard', 'free', 'cached_row', 'respond', 'take_back']
    """
    return tuple(s for file in engine_files() for s in sections(Path(file).read_text("utf-8"), file))


def classes_for(chapter: int) -> tuple[int, ...]:
    """The chapters whose classes a chapter works with: the engine's, and its own where they come only when asked for.

    >>> classes_for(3), classes_for(8)
    ((2, 3, 4, 5, 7), (2, 3, 4, 5, 7, 8))
    """
    return (*WITHOUT_TORCH, chapter) if chapter == 6 or chapter >= LAST else WITHOUT_TORCH


@cache
def _compiled(section: Section, file: str) -> Any:
    return compile("\n" * (section.line - 1) + section.text, file, "exec")


def run_section(section: Section, world: World, file: str = "") -> World:
    """Run a section whose functions find everything in `world`; what it defines is returned, and not put there."""
    made: World = {}
    exec(_compiled(section, file or section.file), world, made)
    return made


@cache
def section_of(piece: str) -> Section:
    """The section of our engine for a piece, by its id."""
    return next(section for section in engine_sections() if section.id == piece)


def last_for(chapter: int) -> int:
    """The last chapter whose pieces and classes a chapter needs: the cache of chapter 04 needs the next one's ring.

    >>> last_for(3), last_for(4)
    (3, 5)
    """
    return 5 if chapter == 4 else chapter


def pieces_up_to(*chapters: int) -> list[Section]:
    """Return the sections of the pieces that these chapters use: those of the engine, and their own.

    >>> [section.id for section in pieces_up_to(4)][-1], [section.id for section in pieces_up_to(3)][-1]
    ('5.6', '3.8')
    """
    wanted = {*chapters, *range(1 + min(LAST, max(map(last_for, chapters))))}
    return [s for s in engine_sections() if s.id != "given" and s.chapter in wanted]


def ours(piece: str, world: World) -> FunctionType:
    """Our function for a piece, with `world` for its globals: it calls the learner's other pieces and classes.

    >>> world = {"guard": lambda pool, pages: pages[0]}
    >>> ours("2.3", world)(pool=None, pages=[7])
    Traceback (most recent call last):
    ValueError: page 7 cannot be given back
    """
    section = section_of(piece)
    made: FunctionType = run_section(section, world)[section.name]
    made.__module__ = world.get("__name__", __name__)
    return made


def given(world: World, *chapters: int) -> None:
    """Put the classes that the chapters show into `world`; they call the pieces that they find there.

    A piece that is not there is ours, as in a file from before there was such a piece. The classes of chapter 08, which
    need torch, and those of the other designs come only when they are asked for.

    >>> world = {"alloc": lambda pool, count: ["mine"] * count}
    >>> given(world); world["Pool"](4).alloc(2)
    ['mine', 'mine']
    """
    for section in engine_sections():
        if section.id == "given" and section.chapter in (chapters or WITHOUT_TORCH):
            world.update(run_section(section, world))
        elif section.id != "given" and section.chapter in (chapters or range(LAST + 1)):
            world.setdefault(section.name, ours(section.id, world))


def engine_world(*chapters: int) -> World:
    """A whole engine of our own pieces, with the classes of `given`: what is expected."""
    world: World = {"__name__": __name__}
    given(world, *chapters)
    for section in pieces_up_to(LAST, *chapters):
        world[section.name] = ours(section.id, world)
    return world

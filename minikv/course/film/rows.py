"""What stands in rows beside the tree: page tables, sequences as a table, and the requests of an engine as bars.

A table has a cell for each slot; what was just written is marked. A request has a cell for each token:

    m   matched: its keys and values were found in the cache
    #   computed in an earlier step
    n   new: computed in this one
    .   still to be computed

The requests of an engine are those that run and those that wait, in the order in which they came.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from minikv.course.pictures.cells import heading_drawing
from minikv.course.pictures.grid import CELL, LABEL, TITLE, Table, title_part
from minikv.course.pictures.parts import Drawing, Paper, Part
from minikv.course.pictures.svg import markup
from minikv.palette import BOTH, EVENTS, STATES

if TYPE_CHECKING:
    from minikv.course.film.state import State

MOST_COLUMNS, MOST_LINES, MOST_CELLS = 16, 12, 48
WAITS, READS, ANSWERS, RUNS = "waits", "reads", "answers", "runs"
Row = tuple[int, ...]
_WORDS = {"m": "matched", "#": "computed", "n": "new", ".": "to compute"}
_LOOK = {
    "m": f'fill="{EVENTS["matched"].fill}" stroke="{EVENTS["matched"].line}"',
    "#": f'fill="{BOTH}" stroke="{BOTH}" fill-opacity="0.35"',
    "n": f'fill="{EVENTS["new"].fill}" stroke="{EVENTS["new"].line}"',
    ".": f'fill="none" stroke="{STATES["free"].line}" stroke-dasharray="2 2"',
}
_INSET = {"n": 0, "m": 4}  # what is computed now is high, what was cached is low
_HIGH, _LEFT, _WIDE = 22, 96, 264


@dataclass(frozen=True)
class Rows:
    """A page table, or the sequences: for each row its slots, `None` where it is closed; `new` are (row, column).

    `states` has the slots of the rows that the tree has: cached or locked.

    >>> print(Rows("PageTable", ((8, 9), None), ((0, 1),), ((8, "cached"),)).text)
    PageTable: 1 of 2 rows open
    row 0  8c 9n
    row 1  (closed)
    h in hand  c cached  n new
    """

    title: str
    rows: tuple[Row | None, ...]
    new: tuple[tuple[int, int], ...] = ()
    states: tuple[tuple[int, str], ...] = ()

    @property
    def extent(self) -> tuple[int, int]:
        """How many rows there are, and how many cells of a row are shown: `MOST_COLUMNS` at most."""
        longest = max([1, *(min(len(row), MOST_COLUMNS) for row in self.rows if row is not None)])
        return len(self.rows), longest

    @property
    def heading(self) -> str:
        """The line above the rows."""
        longest = max([0, *(len(row) for row in self.rows if row is not None)])
        more = f", the first {MOST_COLUMNS} tokens" if longest > MOST_COLUMNS else ""
        return f"{self.title}: {sum(row is not None for row in self.rows)} of {len(self.rows)} rows open{more}"

    @property
    def is_empty(self) -> bool:
        """Never: a table without an open row shows that."""
        return False

    @property
    def words(self) -> set[str]:
        """The states and events that the cells show."""
        return self._table(self.extent[1]).words

    @property
    def text(self) -> str:
        """The rows as text."""
        return f"{self.heading}\n{self._table(self.extent[1]).text}"

    def paper(self, lines: int, columns: int) -> Paper:
        """The paper for so many rows of so many cells, with the longest heading."""
        return Paper(max(LABEL + columns * CELL + 4, 8 * len(self.heading) + 130), TITLE + lines * CELL + 8)

    def parts(self, lines: int, columns: int) -> list[Part]:
        """The title and the cells, with room for so many rows and columns."""
        return [title_part(-1, self.heading), *self._table(columns).parts()]

    def _table(self, columns: int) -> Table:
        shown = [None if row is None else list(row[:MOST_COLUMNS]) for row in self.rows]
        return Table(shown, columns, dict.fromkeys(self.new, "new"), dict(self.states))


@dataclass(frozen=True)
class RequestView:
    """One request as it was: its `name`, what it does, and of its `length` tokens how many are cached and computed.

    `computed` counts from the first token on, those in the cache among them; `slots` are what it holds.
    """

    name: str
    does: str
    cached: int
    computed: int
    length: int
    slots: tuple[int, ...] = ()

    def cells(self, before: RequestView | None, size: int = 1) -> str:
        """A letter for each `size` tokens: that of the first of them.

        >>> RequestView("r1", "reads", 2, 5, 7).cells(RequestView("r1", "reads", 2, 3, 7))
        'mm#nn..'
        """
        known = before.computed if before and before.does != WAITS and before.computed <= self.computed else 0
        known = max(known, self.cached)
        kinds = [(self.cached, "m"), (known - self.cached, "#"), (self.computed - known, "n")]
        letters = "".join(letter * count for count, letter in kinds)
        return letters.ljust(self.length, ".")[::size]


def lines_of(thing: Any) -> tuple[RequestView, ...]:
    """The requests of an engine, or the sequences of a manager.

    >>> from minikv import CacheManager
    >>> manager = CacheManager(8)
    >>> _ = manager.start([1, 2, 3])
    >>> lines_of(manager)
    (RequestView(name='r1', does='runs', cached=0, computed=0, length=3, slots=(0, 1, 2)),)
    """
    if not hasattr(thing, "scheduler"):
        return tuple(_line(f"r{sequence.number}", RUNS, sequence) for sequence in thing.sequences)
    asked = sorted([*thing.scheduler.running, *thing.scheduler.waiting], key=lambda request: request.number)
    return tuple(_request(request) for request in asked)


def _request(request: Any) -> RequestView:
    name, sequence = f"r{request.number}", request.sequence
    if sequence is None:
        return RequestView(name, WAITS, 0, 0, len(request.tokens))
    return _line(name, READS if sequence.computed < len(sequence.tokens) else ANSWERS, sequence)


def _line(name: str, does: str, sequence: Any) -> RequestView:
    slots = tuple(int(slot) for slot in sequence.slots)
    return RequestView(name, does, sequence.cached_length, sequence.computed, len(sequence.tokens), slots)


@dataclass(frozen=True)
class Requests:
    """The requests of one frame, with those of the frame before for what was computed in between.

    >>> old, new = RequestView("r1", "reads", 2, 3, 7), RequestView("r1", "reads", 2, 5, 7)
    >>> print(Requests((new, RequestView("r2", "waits", 0, 0, 3)), (old,)).text)
    requests: 1 running, 1 waiting
    r1 reads  mm#nn..
    r2 waits  ...
    m matched  # computed  n new  . to compute
    """

    lines: tuple[RequestView, ...]
    before: tuple[RequestView, ...] = ()

    @property
    def heading(self) -> str:
        """The line above them."""
        waiting = sum(line.does == WAITS for line in self.lines)
        size = _size(max((line.length for line in self.lines), default=0))
        more = [f"the first {MOST_LINES} shown"] if len(self.lines) > MOST_LINES else []
        more += [f"a cell is {size} tokens"] if size > 1 else []
        return ", ".join([f"requests: {len(self.lines) - waiting} running", f"{waiting} waiting", *more])

    @property
    def is_empty(self) -> bool:
        """Whether no request runs or waits."""
        return not self.lines

    @property
    def words(self) -> set[str]:
        """None: the bars have a legend of their own, for tokens."""
        return set()

    @property
    def extent(self) -> tuple[int, int]:
        """The room that the picture needs: lines, and tokens of the longest."""
        shown = self.lines[:MOST_LINES]
        return len(shown), max((line.length for line in shown), default=0)

    @property
    def text(self) -> str:
        """The requests as text."""
        bars = self._bars(_size(self.extent[1]))
        wide = max((len(name) for name, _ in bars), default=0)
        there = [f"{letter} {words}" for letter, words in _WORDS.items() if any(letter in bar for _, bar in bars)]
        return "\n".join(
            [self.heading, *(f"{name:<{wide}}  {bar}" for name, bar in bars), *["  ".join(there)][: len(bars)]]
        )

    def paper(self, lines: int, longest: int) -> Paper:
        """The paper for so many lines, with the legend."""
        return Paper(_LEFT + _WIDE + 8, 34 + lines * _HIGH + 46, _legend(34 + lines * _HIGH))

    def parts(self, lines: int, longest: int) -> list[Part]:
        """The heading, and for each request its name and its cells; all cells of one kind are one drawing."""
        longest = max(longest, 1)
        side = min(16, _WIDE // -(-longest // _size(longest)))
        parts = [Part(-1, heading_drawing(self.heading), 4, 17)]
        for y, (name, bar) in enumerate(self._bars(_size(longest))):
            key, top = y * (MOST_CELLS + 1), 28 + y * _HIGH
            parts.append(Part(key, Drawing(f'<text text-anchor="start">{markup(name)}</text>'), 4, top + 13))
            parts += [Part(key + 1 + x, _cell(kind, side), _LEFT + x * side, top) for x, kind in enumerate(bar)]
        return parts

    def _bars(self, size: int) -> Sequence[tuple[str, str]]:
        old = {line.name: line for line in self.before}
        return [(f"{x.name} {x.does}", x.cells(old.get(x.name), size)) for x in self.lines[:MOST_LINES]]


def _size(longest: int) -> int:
    """How many tokens a cell stands for, so that none of the bars is too long."""
    return max(1, -(-longest // MOST_CELLS))


@cache
def _cell(letter: str, side: int) -> Drawing:
    inset = _INSET.get(letter, 2)
    return Drawing(
        f'<path data-say="{_WORDS[letter]}" {_LOOK[letter]} d="M0 {inset}h{side - 1}v{16 - 2 * inset}h-{side - 1}z"/>'
    )


def _legend(top: int) -> str:
    parts, x, y = [], 6, top
    for letter, words in _WORDS.items():
        if x + 20 + 7 * len(words) > _LEFT + _WIDE:
            x, y = 6, y + 20
        cell = _cell(letter, 14).svg
        parts.append(f'<g transform="translate({x} {y})">{cell}<text x="20" y="13">{words}</text></g>')
        x += 34 + 7 * len(words)
    return f'<g font-size="11.5" text-anchor="start">{"".join(parts)}</g>'


def rows_of(before: State, after: State) -> Iterator[Rows | Requests]:
    """The page tables, the sequences as one table, the requests; the cells that differ from before are new."""
    old, cached = dict(before.tables), after.cached_states
    for title, rows in after.tables:
        yield Rows(title, rows, tuple(_new(old.get(title, rows), rows)), _among(rows, cached))
    if after.sequences:
        new = tuple(_new(before.sequences, after.sequences))
        yield Rows("sequences", after.sequences, new, _among(after.sequences, cached))
    if after.requests is not None:
        yield Requests(after.requests, before.requests or ())


def _among(rows: tuple[Row | None, ...], cached: dict[int, str]) -> tuple[tuple[int, str], ...]:
    held = sorted({slot for row in rows for slot in (row or ())[:MOST_COLUMNS]})
    return tuple((slot, cached[slot]) for slot in held if slot in cached)


def _new(before: tuple[Row | None, ...], after: tuple[Row | None, ...]) -> Iterator[tuple[int, int]]:
    for y, (was, row) in enumerate(zip(before, after)):
        was = was or ()
        yield from ((y, x) for x, slot in enumerate((row or ())[:MOST_COLUMNS]) if was[x : x + 1] != (slot,))

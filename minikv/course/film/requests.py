"""The requests of an engine, or the sequences of a manager, in a film: a bar for each, a cell for each token.

    m   its keys and values were found in the cache
    c   computed in an earlier step
    n   computed in this one
    .   still to be computed

An engine's requests are those that run and those that wait, in the order in which they came; who is over is gone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from minikv.course.pictures.dot import LOOKS
from minikv.course.pictures.svg import FONTS, markup

MOST_LINES, MOST_CELLS = 12, 48
WAITS, READS, ANSWERS, RUNS = "waits", "reads", "answers", "runs"
_WORDS = {"m": "from the cache", "c": "computed", "n": "computed now", ".": "to compute"}
_LOOK = {
    "m": LOOKS["matched"],
    "c": {"fillcolor": "#e9ecef", "color": "#495057"},
    "n": LOOKS["new"],
    ".": {"fillcolor": "#ffffff", "color": "#adb5bd"},
}
_HIGH, _LEFT, _WIDE = 22, 96, 264


@dataclass(frozen=True)
class Line:
    """One request as it was: its `name`, what it does, and of its `length` tokens how many are cached and computed.

    `computed` counts from the first token on, those in the cache among them; `slots` are what it holds.
    """

    name: str
    does: str
    cached: int
    computed: int
    length: int
    slots: tuple[int, ...] = ()

    def cells(self, before: Line | None, size: int = 1) -> str:
        """A letter for each `size` tokens: that of the first of them.

        >>> Line("r1", "reads", 2, 5, 7).cells(Line("r1", "reads", 2, 3, 7))
        'mmcnn..'
        """
        known = before.computed if before and before.does != WAITS and before.computed <= self.computed else 0
        known = max(known, self.cached)
        kinds = [(self.cached, "m"), (known - self.cached, "c"), (self.computed - known, "n")]
        letters = "".join(letter * count for count, letter in kinds)
        return letters.ljust(self.length, ".")[::size]


def lines_of(thing: Any) -> tuple[Line, ...]:
    """The requests of an engine, or the sequences of a manager.

    >>> from minikv import CacheManager
    >>> manager = CacheManager(8)
    >>> _ = manager.start([1, 2, 3])
    >>> lines_of(manager)
    (Line(name='s1', does='runs', cached=0, computed=0, length=3, slots=(0, 1, 2)),)
    """
    if not hasattr(thing, "scheduler"):
        return tuple(_line(f"s{sequence.number}", RUNS, sequence) for sequence in thing.sequences)
    asked = sorted([*thing.scheduler.running, *thing.scheduler.waiting], key=lambda request: request.number)
    return tuple(_request(request) for request in asked)


def _request(request: Any) -> Line:
    name, sequence = f"r{request.number}", request.sequence
    if sequence is None:
        return Line(name, WAITS, 0, 0, len(request.tokens))
    return _line(name, READS if sequence.computed < len(sequence.tokens) else ANSWERS, sequence)


def _line(name: str, does: str, sequence: Any) -> Line:
    slots = tuple(int(slot) for slot in sequence.slots)
    return Line(name, does, sequence.cached_length, sequence.computed, len(sequence.tokens), slots)


@dataclass(frozen=True)
class Requests:
    """The requests of one frame, with those of the frame before for what was computed in between.

    >>> old, new = Line("r1", "reads", 2, 3, 7), Line("r1", "reads", 2, 5, 7)
    >>> print(Requests((new, Line("r2", "waits", 0, 0, 3)), (old,)).text)
    requests: 1 running, 1 waiting
    r1 reads  mmcnn..
    r2 waits  ...
    m from the cache  c computed  n computed now  . to compute
    """

    lines: tuple[Line, ...]
    before: tuple[Line, ...] = ()

    @property
    def heading(self) -> str:
        """The line above them."""
        waiting = sum(line.does == WAITS for line in self.lines)
        size = _size(max((line.length for line in self.lines), default=0))
        more = [f"the first {MOST_LINES} shown"] if len(self.lines) > MOST_LINES else []
        more += [f"a cell is {size} tokens"] if size > 1 else []
        return ", ".join([f"requests: {len(self.lines) - waiting} running", f"{waiting} waiting", *more])

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

    def svg(self, lines: int = 0, longest: int = 0) -> str:
        """The requests as a picture with room for so many lines, and for so many tokens in a line."""
        lines, longest = max(lines, self.extent[0]), max(longest, self.extent[1], 1)
        side = min(16.0, _WIDE / -(-longest // _size(longest)))
        parts = [f'<text x="4" y="17" font-size="14" font-weight="bold">{markup(self.heading)}</text>']
        for y, (name, bar) in enumerate(self._bars(_size(longest))):
            top = 28 + y * _HIGH
            parts.append(f'<text x="4" y="{top + 13}">{name}</text>')
            parts += [_cells(bar, letter, _LEFT, top, side) for letter in _WORDS]
        parts.append(_legend(34 + lines * _HIGH))
        width, height = _LEFT + _WIDE + 8, 34 + lines * _HIGH + 46
        head = f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        return f'{head}viewBox="0 0 {width} {height}" font-family="{FONTS}" font-size="13">{"".join(parts)}</svg>'

    def _bars(self, size: int) -> Sequence[tuple[str, str]]:
        old = {line.name: line for line in self.before}
        return [(f"{x.name} {x.does}", x.cells(old.get(x.name), size)) for x in self.lines[:MOST_LINES]]


def _size(longest: int) -> int:
    """How many tokens a cell stands for, so that none of the bars is too long."""
    return max(1, -(-longest // MOST_CELLS))


def _cells(bar: str, letter: str, left: float, top: float, side: float) -> str:
    """All cells of one kind: low ones for what is cached, high ones for what is computed now."""
    inset = {"n": 0, "m": 4}.get(letter, 2)
    boxes = "".join(
        f"M{left + x * side:.1f} {top + inset}h{side - 1:.1f}v{16 - 2 * inset}h-{side - 1:.1f}z"
        for x, kind in enumerate(bar)
        if kind == letter
    )
    look, dash = _LOOK[letter], ' stroke-dasharray="2 2"' if letter == "." else ""
    return f'<path fill="{look["fillcolor"]}" stroke="{look["color"]}"{dash} d="{boxes}"/>' if boxes else ""


def _legend(top: int) -> str:
    parts, x, y = [], 6, top
    for letter, words in _WORDS.items():
        if x + 20 + 7 * len(words) > _LEFT + _WIDE:
            x, y = 6, y + 20
        parts.append(f'{_cells(letter, letter, x, y, 14)}<text x="{x + 20}" y="{y + 13}">{words}</text>')
        x += 34 + 7 * len(words)
    return f'<g font-size="11.5" fill="#212529">{"".join(parts)}</g>'

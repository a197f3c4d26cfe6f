"""The requests of an engine, or of a manager, as bars beside the tree: a cell for each token of a request.

    m   matched: its keys and values were found in the cache
    #   computed in an earlier step
    n   new: computed in this one
    .   still to be computed

The requests are those that run and those that wait, in the order in which they came.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

from minikv.course.pictures.svg import Drawing, Paper, Part, words_drawing
from minikv.palette import BOTH, EVENTS, STATES

MOST_LINES, MOST_CELLS = 12, 48
WAITS, READS, ANSWERS, RUNS = "waits", "reads", "answers", "runs"
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
        letters = "m" * self.cached + "#" * (known - self.cached) + "n" * (self.computed - known)
        return letters.ljust(self.length, ".")[::size]


def request_views(thing: Any) -> tuple[RequestView, ...]:
    """The requests of an engine, or the sequences of a manager.

    >>> from minikv import CacheManager
    >>> manager = CacheManager(8)
    >>> _ = manager.start([1, 2, 3])
    >>> request_views(manager)
    (RequestView(name='r1', does='runs', cached=0, computed=0, length=3, slots=(0, 1, 2)),)
    """
    if not hasattr(thing, "scheduler"):
        return tuple(_running(f"r{sequence.number}", RUNS, sequence) for sequence in thing.sequences)
    found = sorted([*thing.scheduler.running, *thing.scheduler.waiting], key=lambda request: request.number)
    return tuple(_request(f"r{request.number}", request) for request in found)


def _request(name: str, request: Any) -> RequestView:
    sequence = request.sequence
    if sequence is None:
        return RequestView(name, WAITS, 0, 0, len(request.tokens))
    return _running(name, READS if sequence.computed < len(sequence.tokens) else ANSWERS, sequence)


def _running(name: str, does: str, sequence: Any) -> RequestView:
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

    views: tuple[RequestView, ...]
    before: tuple[RequestView, ...] = ()
    words = frozenset[str]()  # of the common legend, none: the bars have a legend of their own, for tokens

    @property
    def heading(self) -> str:
        """The line above them."""
        waiting = sum(view.does == WAITS for view in self.views)
        size = _tokens_per_cell(max((view.length for view in self.views), default=0))
        more = [f"the first {MOST_LINES} shown"] if len(self.views) > MOST_LINES else []
        more += [f"a cell is {size} tokens"] if size > 1 else []
        return ", ".join([f"requests: {len(self.views) - waiting} running", f"{waiting} waiting", *more])

    @property
    def extent(self) -> tuple[int, int]:
        """The room that the picture needs: lines, and tokens of the longest."""
        shown = self.views[:MOST_LINES]
        return len(shown), max((view.length for view in shown), default=0)

    @property
    def text(self) -> str:
        """The requests as text."""
        bars = list(self._bars(self.extent[1]))
        wide = max((len(name) for name, _ in bars), default=0)
        lines = [f"{name:<{wide}}  {bar}" for name, bar in bars]
        letters = set("".join(bar for _, bar in bars))
        legend = "  ".join(f"{letter} {words}" for letter, words in _WORDS.items() if letter in letters)
        return "\n".join([self.heading, *lines, *[legend] * bool(bars)])

    def paper(self, lines: int, longest: int) -> Paper:
        """The paper for so many lines, with the legend."""
        return Paper(_LEFT + _WIDE + 8, 34 + lines * _HIGH + 46, _legend(34 + lines * _HIGH))

    def parts(self, lines: int, longest: int) -> list[Part]:
        """The heading, and for each request its name and its cells; all cells of one kind are one drawing."""
        side = min(16, _WIDE // -(-max(longest, 1) // _tokens_per_cell(longest)))
        parts = [Part(-1, words_drawing(self.heading, "14", bold=True), 4, 17)]
        for y, (name, bar) in enumerate(self._bars(longest)):
            key, top = y * (MOST_CELLS + 1), 28 + y * _HIGH
            parts.append(Part(key, words_drawing(name), 4, top + 13))
            parts += [Part(key + 1 + x, _cell(kind, side), _LEFT + x * side, top) for x, kind in enumerate(bar)]
        return parts

    def _bars(self, longest: int) -> Iterator[tuple[str, str]]:
        old, size = {view.name: view for view in self.before}, _tokens_per_cell(longest)
        return ((f"{x.name} {x.does}", x.cells(old.get(x.name), size)) for x in self.views[:MOST_LINES])


def _tokens_per_cell(longest: int) -> int:
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

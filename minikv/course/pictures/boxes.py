"""Rows of boxes with words in them: a ring on its way around, the memory of a store, sequences that share pages."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

from minikv.course.pictures.looks import LETTERS, legend_svg, style, text_legend
from minikv.course.pictures.picture import Picture
from minikv.course.pictures.svg import Drawing, Paper, Part, markup, words_drawing
from minikv.palette import EVENTS, INK
from minikv.testing.snapshot import legible

_HIGH, _LETTER, _JOINT = 30, 8, 24
MOST_PIECES = 400
_COLUMNS, _PIECE_WIDE, _PIECE_HIGH, _TITLE, _FOOT = 8, 46, 40, 26, 24
_LAYERS = ("#f4f4ef", "#cfdef0", "#ecdcc4", "#d3e8cd")  # in turn, from the first layer on
MOST_SEQUENCES, MOST_LETTERS = 32, 4
_PAGE_HIGH, _HEAD = 50, 26


class BoxRow(NamedTuple):
    """A row: its name, and the word in each of its boxes; a box without a word is empty, another one has a state."""

    name: str
    words: Sequence[str]
    state: str = "cached"


def rows_picture(rows: Sequence[BoxRow], heads: Sequence[str] = (), joint: str = "") -> Picture:
    """Rows below each other, `heads` above their columns, and `joint` between one box and the next.

    >>> rows = [BoxRow("before", ["a", "b", ""]), BoxRow("0 to 1", ["a", "a", ""])]
    >>> print(rows_picture(rows, heads=["0", "1", "spare"]))
            0      1      spare
    before  a      b      -
    0 to 1  a      a      -
    >>> print(rows_picture([BoxRow("newer", ["ring", "[1]", "ring"])], joint="→"))
    newer  ring → [1] → ring
    """
    return Picture(_text(rows, heads, joint), lambda: _svg(rows, heads, joint))


def _text(rows: Sequence[BoxRow], heads: Sequence[str], joint: str) -> str:
    name, word = max(len(row.name) for row in rows), _longest(rows, heads)
    between, wide = (f" {joint} ", 0) if joint else ("  ", word)
    lines = [BoxRow("", heads), *rows] if heads else rows
    cells = [between.join(f"{found or '-':{wide}}" for found in row.words) for row in lines]
    return "\n".join(f"{row.name:{name}}  {words}".rstrip() for row, words in zip(lines, cells))


def _longest(rows: Sequence[BoxRow], heads: Sequence[str]) -> int:
    return max([1, *map(len, heads), *(len(word) for row in rows for word in row.words)])


def _svg(rows: Sequence[BoxRow], heads: Sequence[str], joint: str) -> str:
    wide = _LETTER * _longest(rows, heads) + 14
    left, step = _LETTER * max(len(row.name) for row in rows) + 16, wide + (_JOINT if joint else 4)
    parts, top = [Part(-1 - x, _words(head, wide / 2), left + x * step, 0) for x, head in enumerate(heads)], 0
    for row in rows:
        top += 0 if not parts else _HIGH + 6
        parts.append(Part(len(parts), _words(row.name), 4, top))
        for x, word in enumerate(row.words):
            parts.append(Part(len(parts), _box(word, wide, row.state), left + x * step, top))
            if joint and x:
                parts.append(Part(len(parts), _words(joint, -_JOINT / 2), left + x * step, top))
    broad = max(len(heads), *(len(row.words) for row in rows))
    return Paper(left + broad * step + 4, top + _HIGH + 4).svg(parts)


def _box(word: str, wide: int, state: str) -> Drawing:
    look, ink = style(state if word else "free"), "" if state == "free" else f' fill="{INK}"'
    return Drawing(
        f'<path {look} d="M0 2h{wide}v{_HIGH - 4}h-{wide}z"/>'
        f'<text x="{wide / 2:g}" y="{_HIGH // 2 + 5}"{ink}>{markup(word)}</text>'
    )


def _words(text: str, middle: float | None = None) -> Drawing:
    """Words beside the boxes: at the left, or around a middle."""
    where = 'text-anchor="start"' if middle is None else f'x="{middle:g}"'
    return Drawing(f'<text {where} y="{_HIGH // 2 + 5}">{markup(text)}</text>')


InMemory = tuple[str, int]  # K or V with its layer, as in K0, and the slot


def memory_picture(title: str, pieces: Sequence[InMemory], marks: Mapping[int, str]) -> Picture:
    """The memory of a store from its first byte on: whose keys (K) or values (V) of which layer are in each cell.

    >>> print(memory_picture("KVStore", [("K0", 0), ("V0", 0), ("K0", 1), ("V0", 1)], {1: "matched"}))
    KVStore
    K0:0   V0:0   K0:1m  V0:1m
    K keys  V values, with their layer : slot  m matched
    """
    more = f", the first {MOST_PIECES} shown" if len(pieces) > MOST_PIECES else ""
    shown = pieces[:MOST_PIECES]
    return Picture(f"{title}{more}\n{_memory_text(shown, marks)}", lambda: _memory_svg(shown, marks, f"{title}{more}"))


def _memory_text(pieces: Sequence[InMemory], marks: Mapping[int, str]) -> str:
    words = [f"{name}:{slot}{LETTERS[marks[slot]] if slot in marks else ''}" for name, slot in pieces]
    width = max(map(len, words), default=0)
    cells = [f"{word:<{width}}" for word in words]
    lines = ["  ".join(cells[at : at + _COLUMNS]).rstrip() for at in range(0, len(cells), _COLUMNS)]
    legend = text_legend(marks[slot] for _, slot in pieces if slot in marks)
    return "\n".join([*lines, f"K keys  V values, with their layer : slot  {legend}".rstrip()])


def _memory_svg(pieces: Sequence[InMemory], marks: Mapping[int, str], title: str) -> str:
    """The cells in lines of `_COLUMNS`, each with the layer's tint, K or V with the layer, and its slot."""
    parts = [Part(-1, words_drawing(title, bold=True), 4, 15)]
    for i, (name, slot) in enumerate(pieces):
        place = i % _COLUMNS * _PIECE_WIDE + 3, i // _COLUMNS * _PIECE_HIGH + _TITLE
        parts.append(Part(i, _piece(name, slot, marks.get(slot, "")), *place))
    foot = _TITLE + -(-len(pieces) // _COLUMNS) * _PIECE_HIGH + 4
    width = max(_COLUMNS * _PIECE_WIDE + 6, 8 * len(title) + 12)
    words = (
        '<text x="4" y="14" font-size="12" text-anchor="start">K keys · V values, with their layer; below: slot</text>'
    )
    legend, high = legend_svg({marks[slot] for _, slot in pieces if slot in marks}, width)
    below = f'<g transform="translate(0 {foot})">{words}<g transform="translate(0 {_FOOT - 4})">{legend}</g></g>'
    return Paper(width, foot + _FOOT + high, below).svg(parts)


def _piece(name: str, slot: int, mark: str) -> Drawing:
    look, wide, high = EVENTS.get(mark), _PIECE_WIDE - 4, _PIECE_HIGH - 4
    fill = look.fill if look else _LAYERS[int(name[1:]) % len(_LAYERS)]
    line = f'stroke="{look.line}" stroke-width="{look.weight}"' if look else 'stroke="#495057"'
    svg = f'<path fill="{fill}" {line} d="M0 0h{wide}v{high}h-{wide}z"/><g fill="{INK}">'
    svg += f'<text x="4" y="14" font-size="11" font-weight="bold" text-anchor="start">{name}</text>'
    svg += f'<text x="{wide // 2}" y="{high - 6}" font-size="13">{slot}</text>'
    svg += f'<text x="{wide - 7}" y="13" font-size="12" font-weight="bold">{LETTERS[mark]}</text>' if look else ""
    return Drawing(f"{svg}</g>")


@dataclass(frozen=True)
class PageView:
    """A page as one sequence has it: its number, how many have it, and a word for each of its tokens."""

    page: int
    refs: int
    words: tuple[str, ...]

    @property
    def text(self) -> str:
        """The page in a line of text."""
        return f"{self.page}[{' '.join(self.words)}]" + (f"×{self.refs}" if self.refs > 1 else "")


def is_shared_pages(thing: Any) -> bool:
    """Whether it is a `CopyOnWrite`, or the like that chapter 11 builds."""
    return hasattr(thing, "settle") and hasattr(thing, "fork") and hasattr(thing, "pool")


def shared_pages_picture(cache: Any) -> Picture:
    """Each sequence is a row, and each of its pages a box; a word followed by `?` is part of a draft.

    >>> from minikv import CopyOnWrite
    >>> cache = CopyOnWrite(num_pages=4, page_size=2)
    >>> _ = cache.attach("a", [1, 2, 3], "ABC"); cache.fork("a", "b"); cache.draft("b", [4], "D")
    >>> shared_pages_picture(cache)
    CopyOnWrite: 1 of 4 pages free
    a  0[A B]×2  1[C .]
    b  0[A B]×2  2[C D?]
    ×2 two sequences have it · ? a draft
    """
    rows = dict(list(_page_rows(cache))[:MOST_SEQUENCES])
    title = f"{type(cache).__name__}: {cache.pool.num_free} of {cache.pool.size} pages free"
    wide = max([1, *(len(name) for name in rows)])
    lines = [f"{name:<{wide}}  {'  '.join(view.text for view in views) or '-'}" for name, views in rows.items()]
    legend = _sharing_legend([view for views in rows.values() for view in views])
    text = "\n".join([title, *lines, *([legend] if legend else [])])
    return Picture(text, lambda: _shared_svg(title, rows, legend))


def _page_rows(cache: Any) -> Iterator[tuple[str, list[PageView]]]:
    size = cache.size if hasattr(cache, "branches") else cache.page_size
    for name, tokens, pages, drafted, refs in _sequences(cache):
        words = _page_words(cache, name, tokens)
        words = [f"{word}?" if at >= len(tokens) - drafted else word for at, word in enumerate(words)]
        words += ["."] * (len(pages) * size - len(words))
        parts = (tuple(words[i * size : (i + 1) * size]) for i in range(len(pages)))
        yield legible(str(name)), [PageView(page, refs(page), part) for page, part in zip(pages, parts)]


def _sequences(cache: Any) -> Iterator[tuple[Any, list[int], list[int], int, Any]]:
    """The name, the tokens, the pages, the length of the draft, and who counts references."""
    if hasattr(cache, "branches"):  # the one that the learner builds
        for name, branch in cache.branches.items():
            begin = branch.draft_from
            drafted = 0 if begin is None else len(branch.tokens) - begin
            yield name, branch.tokens, branch.pages, drafted, cache.refs.__getitem__
    else:
        for name in cache.names():
            yield name, cache.tokens(name), cache.pages(name), cache.draft_length(name), cache.references


def _page_words(cache: Any, name: Any, tokens: list[int]) -> list[str]:
    """The values, where there is a plain one for each token; else the tokens."""
    values = cache.get(name)
    is_plain = len(values) == len(tokens) and all(isinstance(value, (str, int, float)) for value in values)
    return [legible(str(value))[:MOST_LETTERS] for value in (values if is_plain else tokens)]


def _sharing_legend(views: list[PageView]) -> str:
    counts = sorted({view.refs for view in views if view.refs > 1})
    named = {2: "two", 3: "three", 4: "four"}
    found = [f"×{count} {named.get(count, count)} sequences have it" for count in counts]
    drafts = any(word.endswith("?") for view in views for word in view.words)
    return " · ".join(found + ["? a draft"] * drafts)


def _shared_svg(title: str, rows: dict[str, list[PageView]], legend: str) -> str:
    labels = max([24, *(8 * len(name) + 14 for name in rows)])
    cell = max([26, *(9 * len(word) + 8 for views in rows.values() for view in views for word in view.words)])
    foot, wide = _HEAD + len(rows) * _PAGE_HIGH, 0
    parts = [Part(-1, words_drawing(title, bold=True), 4, 15), Part(-2, words_drawing(legend), 4, foot + 14)]
    for y, (name, views) in enumerate(rows.items()):
        top, x = _HEAD + y * _PAGE_HIGH, labels
        parts.append(Part(1000 * y, words_drawing(name, bold=True), 4, top + 26))
        for at, view in enumerate(views, start=1):
            parts.append(Part(1000 * y + at, _page(view, cell), x, top + 2))
            x += len(view.words) * cell + 16
        wide = max(wide, x)
    width = max(wide + 4, 8 * len(title) + 12, 8 * len(legend) + 12)
    return Paper(width, foot + (22 if legend else 2)).svg(parts)


@lru_cache(maxsize=1024)
def _page(view: PageView, cell: int) -> Drawing:
    """A box with the page's number above its words, and how many have it."""
    wide, high = len(view.words) * cell + 6, _PAGE_HIGH - 8
    shared = view.refs > 1
    corner = 0 if shared else 9
    svg = f'<rect {style("cached" if shared else "in hand")} width="{wide}" height="{high}" rx="{corner}"/>'
    svg += f'<text x="5" y="13" font-size="10" text-anchor="start" fill="{INK}">{view.page}</text>'
    if shared:
        svg += f'<text x="{wide - 14}" y="13" font-size="12" font-weight="bold" fill="{INK}">×{view.refs}</text>'
    for i, word in enumerate(view.words):
        svg += f'<text x="{i * cell + cell // 2 + 3}" y="{high - 9}" fill="{INK}">{markup(word)}</text>'
    return Drawing(svg)

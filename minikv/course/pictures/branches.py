"""Sequences that share pages as rows of pages, in SVG and in text.

A page that only one sequence has is round, and may be written. A page of several is square and says how many have it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from minikv.course.pictures.grid import title_part
from minikv.course.pictures.looks import style
from minikv.course.pictures.parts import Drawing, Paper, Part
from minikv.course.pictures.picture import Picture
from minikv.course.pictures.svg import markup
from minikv.palette import INK
from minikv.testing.snapshot import legible

HIGH, HEAD, MOST_LETTERS = 50, 26, 4
MOST_ROWS = 32


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
    """Each sequence is a row, and each of its pages a box; a word behind which `?` stands is part of a draft.

    >>> from minikv import CopyOnWrite
    >>> cache = CopyOnWrite(num_pages=4, page_size=2)
    >>> _ = cache.attach("a", [1, 2, 3], "ABC"); cache.fork("a", "b"); cache.draft("b", [4], "D")
    >>> shared_pages_picture(cache)
    CopyOnWrite: 1 of 4 pages free
    a  0[A B]×2  1[C .]
    b  0[A B]×2  2[C D?]
    ×2 two sequences have it · ? a draft
    """
    rows = dict(list(_rows(cache))[:MOST_ROWS])
    title = f"{type(cache).__name__}: {cache.pool.num_free} of {cache.pool.size} pages free"
    wide = max([1, *(len(name) for name in rows)])
    lines = [f"{name:<{wide}}  {'  '.join(view.text for view in views) or '-'}" for name, views in rows.items()]
    legend = _legend([view for views in rows.values() for view in views])
    text = "\n".join([title, *lines, *([legend] if legend else [])])
    return Picture(text, lambda: _svg(title, rows, legend))


def _rows(cache: Any) -> Iterator[tuple[str, list[PageView]]]:
    for name, tokens, pages, drafted, refs in _sequences(cache):
        size, words = _size(cache), _words(cache, name, tokens)
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


def _size(cache: Any) -> int:
    size: int = cache.size if hasattr(cache, "branches") else cache.page_size
    return size


def _words(cache: Any, name: Any, tokens: list[int]) -> list[str]:
    """The values, where there is a plain one for each token; else the tokens."""
    values = cache.get(name)
    is_plain = len(values) == len(tokens) and all(isinstance(value, (str, int, float)) for value in values)
    return [legible(str(value))[:MOST_LETTERS] for value in (values if is_plain else tokens)]


def _legend(views: list[PageView]) -> str:
    counts = sorted({view.refs for view in views if view.refs > 1})
    named = {2: "two", 3: "three", 4: "four"}
    found = [f"×{count} {named.get(count, count)} sequences have it" for count in counts]
    drafts = any(word.endswith("?") for view in views for word in view.words)
    return " · ".join(found + ["? a draft"] * drafts)


def _svg(title: str, rows: dict[str, list[PageView]], legend: str) -> str:
    labels = max([24, *(8 * len(name) + 14 for name in rows)])
    cell = max([26, *(9 * len(word) + 8 for views in rows.values() for view in views for word in view.words)])
    parts, wide = [title_part(-1, title), Part(-2, _left(legend), 4, HEAD + len(rows) * HIGH + 14)], 0
    for y, (name, views) in enumerate(rows.items()):
        top, x = HEAD + y * HIGH, labels
        parts.append(Part(1000 * y, _left(name, bold=True), 4, top + 26))
        for at, view in enumerate(views, start=1):
            parts.append(Part(1000 * y + at, _page(view, cell), x, top + 2))
            x += len(view.words) * cell + 16
        wide = max(wide, x)
    width = max(wide + 4, 8 * len(title) + 12, 8 * len(legend) + 12)
    return Paper(width, HEAD + len(rows) * HIGH + (22 if legend else 2)).svg(parts)


@lru_cache(maxsize=1024)
def _page(view: PageView, cell: int) -> Drawing:
    """A box with the page's number above its words, and how many have it."""
    wide, high = len(view.words) * cell + 6, HIGH - 8
    shared = view.refs > 1
    corner = 0 if shared else 9
    svg = f'<rect {style("cached" if shared else "in hand")} width="{wide}" height="{high}" rx="{corner}"/>'
    svg += f'<text x="5" y="13" font-size="10" text-anchor="start" fill="{INK}">{view.page}</text>'
    if shared:
        svg += f'<text x="{wide - 14}" y="13" font-size="12" font-weight="bold" fill="{INK}">×{view.refs}</text>'
    for i, word in enumerate(view.words):
        svg += f'<text x="{i * cell + cell // 2 + 3}" y="{high - 9}" fill="{INK}">{markup(word)}</text>'
    return Drawing(svg)


def _left(words: str, bold: bool = False) -> Drawing:
    weight = ' font-weight="bold"' * bold
    return Drawing(f'<text text-anchor="start"{weight}>{markup(words)}</text>')

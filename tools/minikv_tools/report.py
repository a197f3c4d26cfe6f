"""How every report looks: lines on a terminal, and one HTML file without scripts.

The file loads nothing and follows the reader's theme. What both say is a list of `ReportPart`: headings, sentences and
tables.
"""

from __future__ import annotations

import html
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from minikv.traffic.tables import aligned

_STYLE = Path(__file__).with_name("report.css").read_text("utf-8")


def document(title: str, parts: Iterable[str]) -> str:
    """A whole page: `title` as text, and the `parts` of its body.

    >>> page = document("a < b", ["<p>text</p>"])
    >>> "<title>a &lt; b</title>" in page, "<h1>a &lt; b</h1>" in page, "<script" in page
    (True, True, False)
    """
    name, body = escape(title), "\n".join(parts)
    return (
        f'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n<title>{name}</title>\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        f"<style>{_STYLE}</style>\n</head>\n<body>\n<main>\n<h1>{name}</h1>\n{body}\n</main>\n</body>\n</html>\n"
    )


def escape(text: str) -> str:
    """`text` as the content of an element or an attribute, whatever is in it; control characters become spaces.

    >>> escape('<b> & "c"\\x00')
    '&lt;b&gt; &amp; &quot;c&quot; '
    """
    return html.escape("".join(c if c.isprintable() else " " for c in text))


def many(count: int | str, one: str, several: str = "") -> str:
    """How many there are, and of what: `one` names one of them, `several` more (default: with an s).

    >>> many(1, "prompt"), many(2000, "branch", "branches"), many("1.2k", "token")
    ('1 prompt', '2,000 branches', '1.2k tokens')
    """
    text = count if isinstance(count, str) else f"{count:,}"
    return f"{text} {one if text == '1' else several or f'{one}s'}"


class ReportPart(NamedTuple):
    """A heading, sentences, and perhaps a table: its `head`, its `rows`, and which rows are to be pointed out.

    The columns whose headings are in `words` hold words, all others numbers.
    """

    title: str
    sentences: tuple[str, ...]
    head: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()
    marked: tuple[int, ...] = ()
    words: tuple[str, ...] = ()

    @property
    def left(self) -> list[int]:
        """The columns that hold words, from 0: they begin on the left."""
        return [at for at, heading in enumerate(self.head) if heading in self.words]


def section_html(part: ReportPart) -> str:
    """A section of a page. Its table scrolls sideways where it is too wide.

    >>> print(section_html(ReportPart("Sizes", ("Some.",), ("size", "hits"), (("1", "5 %"),))))  # doctest: +ELLIPSIS
    <h2>Sizes</h2><p>Some.</p><div class="scroll" tabindex="0" role="region" aria-label="Sizes"><table><thead><tr>...
    """
    name = escape(part.title)
    text = f"<h2>{name}</h2>" + "".join(f"<p>{escape(sentence)}</p>" for sentence in part.sentences)
    if not part.head:
        return text

    def cells(row: Iterable[str], first: str, other: str) -> str:
        kinds = [' class="words"' if at in part.left else "" for at in range(len(part.head))]
        tags = [(other if at else first) + kind for at, kind in enumerate(kinds)]
        return "".join(f"<{tag}>{escape(cell)}</{tag[:2]}>" for tag, cell in zip(tags, row))

    head = cells(part.head, 'th scope="col"', 'th scope="col"')
    marks = [' class="marked"' if number in part.marked else "" for number in range(len(part.rows))]
    rows = (f"<tr{mark}>" + cells(row, 'th scope="row"', "td") + "</tr>" for mark, row in zip(marks, part.rows))
    return (
        f'{text}<div class="scroll" tabindex="0" role="region" aria-label="{name}"><table>'
        f"<thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table></div>"
    )


def text_lines(sections: Sequence[ReportPart]) -> Iterator[str]:
    """The sections as lines for a terminal.

    >>> sizes = ReportPart("Sizes", ("Some.",), ("size", "hits"), (("1", "5 %"), ("10", "25 %")))
    >>> for line in text_lines([sizes]): print(line)
    <BLANKLINE>
    Sizes
      Some.
        size  hits
           1   5 %
          10  25 %
    """
    for section in sections:
        yield ""
        yield section.title
        yield from (f"  {sentence}" for sentence in section.sentences)
        if section.head:
            yield from (f"    {line}" for line in aligned([section.head, *section.rows], section.left))

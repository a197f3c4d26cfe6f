"""The page that every report is: one HTML file without scripts, which loads nothing and follows the reader's theme."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence

from minikv.palette import BOTH, LINES

_STYLE = f"""
:root {{ color-scheme: light dark;
  --ink: #212529; --paper: #ffffff; --soft: #f1f3f5; --rule: #ced4da; --mark: #e7f0fb; }}
@media (prefers-color-scheme: dark) {{
  :root {{ --ink: #e9ecef; --paper: #16181a; --soft: #212529; --rule: #495057; --mark: #1b2c42; }}
}}
* {{ box-sizing: border-box; }}
body {{ margin: 0 auto; max-width: 68rem; padding: 1rem; color: var(--ink); background: var(--paper);
  font: 1rem/1.55 system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", sans-serif; overflow-wrap: anywhere; }}
h1 {{ font-size: 1.6rem; line-height: 1.25; margin: .5rem 0; }}
h2 {{ font-size: 1.2rem; margin: 2.2rem 0 .6rem; border-bottom: 1px solid var(--rule); padding-bottom: .2rem; }}
p, li, figcaption {{ max-width: 46rem; }}
.scroll {{ overflow-x: auto; }}
.scroll:focus-visible {{ outline: 2px solid {LINES[0]}; }}
table {{ border-collapse: collapse; font-variant-numeric: tabular-nums; overflow-wrap: normal; }}
caption {{ text-align: left; padding-bottom: .3rem; }}
th, td {{ padding: .25rem .7rem; text-align: right; vertical-align: top; border-bottom: 1px solid var(--rule); }}
th {{ background: var(--soft); font-weight: 600; }}
tbody th {{ background: none; font-weight: 400; }}
td, tbody th {{ white-space: nowrap; }}
.words, tbody th.words {{ text-align: left; white-space: normal; min-width: 10rem; }}
tr.marked > * {{ background: var(--mark); }}
figure {{ margin: 1rem 0; }}
svg {{ max-width: 100%; height: auto; }}
code, pre {{ font-family: "DejaVu Sans Mono", Menlo, Consolas, monospace; font-size: .9em; }}
.facts {{ display: grid; grid-template-columns: repeat(auto-fit, minmax(11rem, 1fr)); gap: .7rem; padding: 0; }}
.facts > div {{ border: 1px solid {BOTH}; border-radius: 6px; padding: .6rem .8rem; }}
.facts dt {{ font-size: .9rem; }}
.facts dd {{ margin: 0; font-size: 1.5rem; font-weight: 650; }}
.facts dd + dd {{ font-size: .9rem; font-weight: 400; }}
"""


def document(title: str, body: str, style: str = "") -> str:
    """A whole page: `title` as text, `body` and further `style` rules as they are written.

    >>> page = document("a < b", "<p>text</p>")
    >>> "<title>a &lt; b</title>" in page, "<h1>a &lt; b</h1>" in page, "<script" in page
    (True, True, False)
    """
    name = escape(title)
    return (
        f'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n<title>{name}</title>\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        f"<style>{_STYLE}{style}</style>\n</head>\n<body>\n<main>\n<h1>{name}</h1>\n{body}\n</main>\n</body>\n</html>\n"
    )


def escape(text: str) -> str:
    """`text` as the content of an element or an attribute, whatever is in it; control characters become spaces.

    >>> escape('<b> & "c"\\x00')
    '&lt;b&gt; &amp; &quot;c&quot; '
    """
    return html.escape("".join(c if c.isprintable() else " " for c in text))


def table(
    caption: str,
    head: Sequence[str],
    rows: Iterable[Sequence[str]],
    words: Iterable[int] = (),
    marked: Iterable[int] = (),
) -> str:
    """A table of texts, which scrolls sideways where it is too wide; the first cell of a row is its heading.

    Columns hold numbers, but for those whose index is in `words`; `marked` has the indices of rows to point out.

    >>> print(table("sizes", ["size", "hits"], [["1", "5 %"]]))            # doctest: +ELLIPSIS
    <div class="scroll" tabindex="0" role="region" aria-label="sizes"><table><caption>sizes</caption>...
    """
    left, pointed = set(words), set(marked)
    kinds = [' class="words"' if at in left else "" for at in range(len(head))]
    columns = "".join(f'<th scope="col"{kind}>{escape(cell)}</th>' for kind, cell in zip(kinds, head))
    lines = []
    for number, row in enumerate(rows):
        first, *others = row
        cells = f'<th scope="row"{kinds[0]}>{escape(first)}</th>'
        cells += "".join(f"<td{kind}>{escape(cell)}</td>" for kind, cell in zip(kinds[1:], others))
        mark = ' class="marked"' if number in pointed else ""
        lines.append(f"<tr{mark}>{cells}</tr>")
    name = escape(caption)
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{name}"><table><caption>{name}</caption>'
        f"<thead><tr>{columns}</tr></thead><tbody>{''.join(lines)}</tbody></table></div>"
    )

"""The report of a log as one HTML file: its figures, the places that break the prefix, the tree of its prompts."""

from __future__ import annotations

from minikv.traffic.layout import document, escape, table
from minikv.traffic.why.log import BreakingPlace
from minikv.traffic.why.log_words import HEAD, LogWords, sides
from minikv.traffic.why.tree_html import TREE_STYLE, tree_html

_STYLE = f"""{TREE_STYLE}
.sides {{ display: grid; grid-template-columns: max-content 1fr; gap: .2rem .8rem; margin: .6rem 0; }}
.sides dd {{ margin: 0; }}
.sides code {{ white-space: pre-wrap; background: var(--soft); padding: 0 .2rem; }}
h3 {{ font-size: 1.05rem; margin: 1.6rem 0 .3rem; }}
"""


def log_page(words: LogWords, top: int, depth: int) -> str:
    """The page: the `top` places, and the tree drawn `depth` levels deep.

    >>> from minikv.traffic.why.log import survey
    >>> from minikv.traffic.why.units import PromptUnit
    >>> "Why do these prompts miss?" in log_page(LogWords(survey([b'{"prompt": "Hi"}']), PromptUnit()), 3, 3)
    True
    """
    body = [f"<p>{escape(' '.join(words.sentences()))}</p>", _facts(words), "<h2>Where the prefix breaks</h2>"]
    rows = words.rows(top)
    caption = f"the places that lose the most, in {words.unit}"
    body.append(table(caption, HEAD, rows, words=(3, 4)) if rows else "<p>Nowhere: no two requests part.</p>")
    body += ["<h2>What to do</h2>"] if words.telling(top) else []
    body += [_place(number, place) for number, place in enumerate(words.telling(top), start=1)]
    body.append("<h2>What the prompts begin with</h2>")
    body.append(
        "<p>Each level is text that several prompts have in common, and a bar is their share of all prompts.</p>"
    )
    body.append(tree_html(words.report.tree, depth))
    return document("Why do these prompts miss?", "\n".join(body), _STYLE)


def _facts(words: LogWords) -> str:
    report = words.report
    facts = [
        ("requests", f"{report.requests:,}", f"{words.size(report.size)} {words.unit} of prompts"),
        ("reused by an unlimited cache", words.share(report.reused), f"{words.size(report.reused)} {words.unit}"),
        ("lost at breaks", words.share(report.lost), f"{words.size(report.lost)} {words.unit}"),
    ]
    cells = "".join(f"<div><dt>{escape(a)}</dt><dd>{escape(b)}</dd><dd>{escape(c)}</dd></div>" for a, b, c in facts)
    return f'<dl class="facts">{cells}</dl>'


def _place(number: int, place: BreakingPlace) -> str:
    pairs = "".join(f"<dt>{escape(name)}</dt><dd><code>{escape(text)}</code></dd>" for name, text in sides(place))
    return (
        f"<h3>{number}. {escape(place.place)}</h3><p>{escape(place.about.says)}</p>"
        f'<dl class="sides">{pairs}</dl><p>{escape(place.about.remedy)}</p>'
    )

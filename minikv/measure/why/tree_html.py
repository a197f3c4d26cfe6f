"""The tree of a log's prompts as nested lists, drawn to a depth: what many prompts begin with, and where they part."""

from __future__ import annotations

from heapq import heappop, heappush

from minikv.measure.page import escape
from minikv.measure.why.places import shown_text
from minikv.measure.why.prompt_tree import PromptNode, PromptTree
from minikv.palette import LINES

_HEAD, _TAIL = 48, 48  # characters that are shown of the beginning and of the end of a text
_MOST = 80  # branches that are drawn: those that most prompts pass
_LEAST = 0.01  # of all prompts: what a branch must have to be drawn
TREE_STYLE = f"""
.tree, .tree ul {{ list-style: none; margin: 0; padding-left: 1.1rem; }}
.tree {{ padding-left: 0; }}
.tree ul {{ border-left: 2px solid var(--rule); }}
.tree li {{ padding: .3rem 0 0 .5rem; max-width: none; }}
.tree .bar {{ display: block; width: 10rem; height: .4rem; margin: .1rem 0; background: var(--soft); }}
.tree .bar span {{ display: block; height: 100%; background: {LINES[0]}; }}
.tree code {{ display: block; white-space: pre-wrap; }}
"""


def tree_html(tree: PromptTree, depth: int) -> str:
    """The tree as a list of lists: at most `depth` levels, and the branches that most prompts pass.

    >>> tree = PromptTree()
    >>> for number, text in enumerate([b"Be brief. Why?", b"Be brief. How?"]):
    ...     _ = tree.insert(text, number)
    >>> "2 prompts, 10 bytes" in tree_html(tree, 3), "+2 branches" in tree_html(tree, 3)
    (True, True)
    """
    chosen = _chosen(tree.root, depth)
    return f'<ul class="tree">{_branches(tree.root, max(1, tree.root.count), chosen)}</ul>'


def _chosen(root: PromptNode, depth: int) -> set[int]:
    """The nodes to draw, by identity: each has its parent drawn, at least two prompts, and more than those left out."""
    least = max(2.0, _LEAST * root.count)
    heap: list[tuple[int, bytes, int, int, PromptNode]] = []
    found: set[int] = set()
    order = 0

    def push(node: PromptNode, level: int) -> None:
        nonlocal order
        for child in node.children.values() if level <= depth else ():
            if child.count >= least:
                order += 1
                heappush(heap, (-child.count, child.text[:64], order, level, child))

    push(root, 1)
    while heap and len(found) < _MOST:
        *_, level, node = heappop(heap)
        found.add(id(node))
        push(node, level + 1)
    return found


def _branches(node: PromptNode, total: int, chosen: set[int]) -> str:
    drawn = [child for child in node.children.values() if id(child) in chosen]
    drawn.sort(key=lambda child: (-child.count, child.text))
    items = "".join(_branch(child, total, chosen) for child in drawn)
    if rest := len(node.children) - len(drawn):
        items += f"<li>+{rest:,} {'more ' if drawn else ''}branch{'es' if rest > 1 else ''}</li>"
    return items


def _branch(node: PromptNode, total: int, chosen: set[int]) -> str:
    prompts = f"{node.count:,} prompt{'s' if node.count > 1 else ''}"
    size = f"{prompts}, {len(node.text):,} byte{'s' if len(node.text) > 1 else ''}"
    inner = f"<ul>{_branches(node, total, chosen)}</ul>" if node.children else ""
    bar = f'<span class="bar"><span style="width: {100 * node.count / total:.1f}%"></span></span>'
    return f"<li>{size}{bar}<code>{escape(_ends(node.text))}</code>{inner}</li>"


def _ends(text: bytes) -> str:
    """The beginning and the end of a text: prompts part where it ends."""
    if len(text) <= _HEAD + _TAIL:
        return shown_text(text.decode("utf-8", "replace"))
    head, tail = text[: 4 * _HEAD].decode("utf-8", "replace"), text[-4 * _TAIL :].decode("utf-8", "replace")
    return f"{shown_text(head[:_HEAD])} … {shown_text(tail[-_TAIL:])}"

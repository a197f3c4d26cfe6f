"""The tree of a log's prompts as nested lists, drawn to a depth: what many prompts begin with, and where they part."""

from __future__ import annotations

from heapq import heappop, heappush

from minikv.palette import LINES
from minikv.traffic.layout import escape
from minikv.traffic.why.places import shown_text
from minikv.traffic.why.prompt_tree import PromptNode, PromptTree

_HEAD, _TAIL = 48, 48  # characters that are shown of the beginning and of the end of a text
_MOST = 80  # branches that are drawn: those below which the most is shared
_LEAST = 0.01  # of all that is shared: what must be shared in a branch for it to be drawn
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
    """The tree as a list of lists: at most `depth` levels, and the branches in which the most is shared.

    >>> tree = PromptTree()
    >>> for number, text in enumerate([b"Be brief. Why?", b"Be brief. How?"]):
    ...     _ = tree.insert(text, number)
    >>> "2 prompts, 10 bytes" in tree_html(tree, 3), "+2 branches" in tree_html(tree, 3)
    (True, True)
    """
    chosen = _chosen(tree, depth)
    return f'<ul class="tree">{_branches(tree.root, max(1, tree.root.count), chosen)}</ul>'


def _chosen(tree: PromptTree, depth: int) -> set[int]:
    """The nodes to draw, by identity: each has its parent drawn, and more is shared below it than in those left out."""
    shared = _shared_below(tree)
    least = max(1.0, _LEAST * shared[id(tree.root)])
    heap: list[tuple[int, bytes, int, int, PromptNode]] = []
    found: set[int] = set()
    nodes, order = [(tree.root, 0)], 0
    while nodes or (heap and len(found) < _MOST):
        if not nodes:
            *_, level, node = heappop(heap)
            found.add(id(node))
            nodes.append((node, level))
        node, level = nodes.pop()
        for child in node.children.values() if level < depth else ():
            if shared[id(child)] >= least:
                order += 1
                heappush(heap, (-shared[id(child)], child.text[:64], order, level + 1, child))
    return found


def _shared_below(tree: PromptTree) -> dict[int, int]:
    """For each node the bytes that a cache reuses in it and below: what each of its prompts but the first has again."""
    found: dict[int, int] = {}
    for node in reversed(list(tree.nodes())):
        found[id(node)] = (node.count - 1) * len(node.text) + sum(found[id(child)] for child in node.children.values())
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

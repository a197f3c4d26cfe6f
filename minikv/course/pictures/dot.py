"""A snapshot of a tree as DOT: colours for the eye, and for everybody the same facts as words, borders and lines."""

from __future__ import annotations

import graphviz

from minikv.testing.snapshot import NodeView

# Each mark has a fill, a border and its own word on the node, so that no meaning hangs on colour alone.
LOOKS = {
    "evicted": {"fillcolor": "#f8d7da", "color": "#842029", "style": "filled,dashed", "penwidth": "2"},
    "new": {"fillcolor": "#cfe2ff", "color": "#084298", "penwidth": "3"},
    "matched": {"fillcolor": "#d1e7dd", "color": "#0f5132", "penwidth": "2"},
    "split": {"fillcolor": "#e2d9f3", "color": "#432874", "style": "filled,diagonals", "penwidth": "2"},
    "locked": {"fillcolor": "#fff3cd", "color": "#664d03", "peripheries": "2"},
}
PLAIN = {"fillcolor": "#ffffff", "color": "#495057"}


def tree_dot(views: list[NodeView], ordered: bool = False, sideways: bool = False) -> str:
    """The DOT source of a snapshot; a node's id goes along, so that a player can follow it.

    With `ordered`, siblings keep their order from picture to picture, as a film needs it; with `sideways`, the tree
    grows to the right instead of down.

    >>> print(tree_dot([NodeView("root", None), NodeView("[1]", 0, slots=[5])]).splitlines()[-2].strip())
    n0 -> n1
    """
    graph = graphviz.Digraph()
    if ordered:
        graph.attr(ordering="out")
    if sideways:
        graph.attr(rankdir="LR", nodesep="0.12", ranksep="0.4", pad="0.1")
    else:
        graph.attr(rankdir="TB", nodesep="0.25", ranksep="0.35", pad="0.1")
    graph.attr("node", shape="box", style="filled", fontname="Courier", fontsize="13", margin="0.12,0.07", height="0.3")
    graph.attr("edge", arrowhead="none", color="#495057")
    names = [f"n{i}" for i in range(len(views))]
    for name, view in zip(names, views):
        shape = {"shape": "ellipse"} if view.parent is None else {}
        label = graphviz.escape("\n".join([view.label, *view.notes]))
        graph.node(name, label, id=name if view.id is None else f"n{view.id}", **{**_look(view), **shape})
    for name, view in zip(names, views):
        if view.parent is not None:
            graph.edge(names[view.parent], name)
    return str(graph.source)


def _look(view: NodeView) -> dict[str, str]:
    marks = [*view.marks, *(["locked"] if view.ref_count else [])]
    look = next((dict(LOOKS[mark]) for mark in LOOKS if mark in marks), dict(PLAIN))
    if "locked" in marks:
        look["peripheries"] = "2"
    if "split" in marks and "evicted" not in marks:
        look["style"] = LOOKS["split"]["style"]
    return look

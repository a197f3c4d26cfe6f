"""What changed between two lists of tools."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence

from minikv.traffic.bodies import bounded_name
from minikv.traffic.why.texts import text_change

Tools = Sequence[tuple[str, str]]  # name and text of each


def tools_change(one: Tools, two: Tools) -> tuple[str, str]:
    """The kind of change between two lists of tools, and the tools that it is about.

    >>> tools_change([("a", "A"), ("b", "B")], [("b", "B"), ("a", "A")])
    ('tools reordered', 'b, a')
    >>> tools_change([("a", "A")], [("a", "A"), ("b", "B")])
    ('tool added', 'b')
    """
    before, after = Counter(map(_plain, one)), Counter(map(_plain, two))
    if before == after and list(map(_plain, one)) != list(map(_plain, two)):
        return "tools reordered", _names(name for name, _ in two)
    gone, come = Counter(name for name, _ in one), Counter(name for name, _ in two)
    if gone != come:
        gone, come = gone - come, come - gone
        kind = "tools changed" if gone and come else "tool removed" if gone else "tool added"
        return kind, _names((come or gone) if kind != "tools changed" else come)
    if [name for name, _ in one] != [name for name, _ in two]:
        return "tools reordered", _names(name for name, _ in two)
    name, before_text, after_text = next((a[0], a[1], b[1]) for a, b in zip(one, two) if a[1] != b[1])
    found = text_change(before_text, after_text)
    return (found.kind if found else "tool edited"), bounded_name(name)


def _plain(tool: tuple[str, str]) -> str:
    """The text of a tool with its keys sorted, to recognize it wherever it stands."""
    try:
        return json.dumps(json.loads(tool[1]), sort_keys=True)
    except ValueError:
        return tool[1]


def _names(names: Iterable[str]) -> str:
    found = [bounded_name(name) for name in names]
    return ", ".join(found[:4]) + (f" and {len(found) - 4} more" if len(found) > 4 else "")

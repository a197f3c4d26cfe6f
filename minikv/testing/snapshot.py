"""The data of a picture of a tree: a plain copy of its nodes, taken once.

Works on anything that looks like a tree of prefixes: a node needs `children` (a dict or a sequence), and may have
`tokens`, `slots` (or `slot`), `ref_count` (or `locks`) and a `note` of its own, a few words. So a learner's own nodes
are drawn as ours are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from unicodedata import category

from minikv.errors import truncated

MARKS = ("matched", "locked", "new", "split", "joined", "evicted")
MOST_LETTERS = 40  # on a node
Label = Callable[[list[Any]], str]  # of the tokens of a node
DEEPEST_MARK = 64  # lists in lists, in what is to be marked


@dataclass
class NodeView:
    """One node as it was: `label` says its tokens, `marks` what to point out; `parent` is its place in the list.

    `id` is the node's own number, and `name` is its name on the picture, where it has one. With `more` it represents so
    many nodes that are not shown. A root has its `namespace`.
    """

    label: str
    parent: int | None
    tokens: list[Any] = field(default_factory=list)
    slots: list[int] = field(default_factory=list)
    ref_count: int = 0
    marks: list[str] = field(default_factory=list)
    id: int | None = None
    name: str = ""
    last_used: int | None = None
    more: int = 0
    note: str = ""
    namespace: Any = None

    @property
    def notes(self) -> list[str]:
        """The lines below the tokens: slots, its note, locks, marks; what the picture and the text twin both say."""
        held = [f"slot{'s' if len(self.slots) > 1 else ''} {ranges(self.slots)}"] if self.slots else []
        notes = [" · ".join([self.name, *held])] if self.name else held
        notes += filter(None, [self.note])
        if self.ref_count or "locked" in self.marks:
            notes.append(f"locked ×{self.ref_count}" if self.ref_count else "locked")
        return notes + [mark for mark in self.marks if mark != "locked"]


def snapshot(
    tree: Any,
    marked: Mapping[str, Any],
    label: Label | None = None,
    number: Callable[[Any], int] | None = None,
) -> list[NodeView]:
    """Copy the nodes of `tree` (a cache with `roots`, or a root node), parents first, children in token order.

    `marked` has, for each name in `MARKS`, the nodes to mark: nodes, or matches, insertions and handles, which mean
    for the whole path to them. `label` turns a node's tokens into what is written on it, `number` a node into its
    id, where its own `id` is not to be relied on.

    >>> from minikv import RadixCache
    >>> cache = RadixCache()
    >>> _ = cache.insert([1, 2, 3], [4, 5, 6])
    >>> [view.label for view in snapshot(cache, {})]
    ['root', '[1 2 3]']
    """
    wanted = {mark: {id(node) for node in nodes_of(what)} for mark, what in marked.items() if what is not None}
    views = list[NodeView]()
    for visit in walk(tree):
        if visit.node is None:
            views.append(NodeView("seen above", visit.parent))
            continue
        marks = [mark for mark in MARKS if id(visit.node) in wanted.get(mark, ())]
        views.append(_view(visit, label, marks))
        if number is not None:
            views[-1].id = number(visit.node)
    return views


class Visit(NamedTuple):
    """A node in a walk, with its tokens and slots; `parent` is its place in the walk, and `namespace` its root's.

    A root has no tokens. A broken tree may have a loop or a shared child: there `node` is `None` the second time.
    """

    node: Any
    tokens: list[Any]
    slots: list[Any]
    parent: int | None
    namespace: Any

    def __str__(self) -> str:
        number = getattr(self.node, "id", None)
        return f"node {label_of(self.tokens)}" if number is None else f"node {number} {label_of(self.tokens)}"


def walk(tree: Any) -> Iterator[Visit]:
    """Every node of `tree`, parents first, children in token order: what pictures, the ledger and the canary look at.

    >>> from minikv import TokenTrie
    >>> cache = TokenTrie()
    >>> _ = cache.insert([1, 2], [5, 6])
    >>> [(visit.tokens, visit.slots, visit.parent) for visit in walk(cache)]
    [([], [], None), ([1], [5], 0), ([2], [6], 1)]
    """
    stack: list[Any] = [(root, [], None, namespace) for namespace, root in reversed(_roots(tree))]
    children_of, seen, here = _children_of(tree, stack), set[int](), -1
    while stack:
        node, tokens, parent, namespace = stack.pop()
        here += 1
        if id(node) in seen:
            yield Visit(None, [], [], parent, namespace)
            continue
        seen.add(id(node))
        yield Visit(node, tokens, _slots(node), parent, namespace)
        below = [(child, _tokens(child, key), here, namespace) for key, child in children_of(node)]
        stack.extend(sorted(below, key=lambda one: token_order(one[1]))[::-1])


def _roots(tree: Any) -> list[tuple[Any, Any]]:
    """The roots, each after its namespace."""
    roots = getattr(tree, "roots", None)
    if isinstance(roots, Mapping):
        return list(roots.items())
    if hasattr(tree, "children"):
        return [(None, tree)]
    if hasattr(tree, "root"):
        return [(None, tree.root)]
    raise TypeError(
        f"cannot draw a {type(tree).__name__}: a tree has a root, roots or children, a pool has size and is_free"
    )


def _children_of(tree: Any, roots: list[Any]) -> Callable[[Any], Iterable[tuple[Any, Any]]]:
    """Return a function that gives a node's children, each after the key that it is listed under.

    A hashed block does not know its children, but each of them knows it.
    """
    if not hasattr(tree, "nodes") or all(hasattr(root, "children") for root, *_ in roots):
        return _children
    below: dict[Any, list[tuple[Any, Any]]] = {}
    for node in tree.nodes():
        below.setdefault(node.parent, []).append((None, node))
    return lambda node: below.get(node, ())


def _children(node: Any) -> Iterable[tuple[Any, Any]]:
    children = getattr(node, "children", None) or ()
    return children.items() if isinstance(children, Mapping) else [(None, child) for child in children]


def _tokens(node: Any, key: Any) -> list[Any]:
    tokens = getattr(node, "tokens", None)
    return plain(tokens if tokens is not None else key)


def _slots(node: Any) -> list[Any]:
    slots = getattr(node, "slots", None)
    slots = getattr(node, "slot", None) if slots is None else slots
    return [] if slots is None else plain(slots)


def _view(visit: Visit, label: Any, marks: list[str]) -> NodeView:
    node = visit.node
    view = NodeView("", visit.parent, slots=visit.slots, marks=marks, id=getattr(node, "id", None))
    note = getattr(node, "note", "")
    view.note = truncated(legible(note), MOST_LETTERS) if isinstance(note, str) else ""
    if visit.parent is None:
        of = "" if visit.namespace is None else f" of {visit.namespace!r}"
        view.label = truncated(legible(f"root{of}"), MOST_LETTERS)
        view.namespace = visit.namespace
        return view
    view.label, view.tokens = label_of(visit.tokens, label), visit.tokens
    locks = getattr(node, "ref_count", getattr(node, "locks", 0))
    view.ref_count = locks if isinstance(locks, int) else 0
    used = getattr(node, "last_used", None)
    view.last_used = used if isinstance(used, int) else None
    return view


def label_of(tokens: list[Any], label: Label | None = None) -> str:
    """The label of a node: its tokens, shortened, or the result of `label`, on one line.

    An edge may end in the middle of a character. Where `label` cannot decode that, the tokens are written.

    >>> label_of([1, 2]), label_of([104, 105], lambda tokens: bytes(tokens).decode())
    ('[1 2]', 'hi')
    >>> label_of([195], lambda tokens: bytes(tokens).decode())
    '[195]'
    """
    if label:
        with suppress(UnicodeDecodeError):
            return ends(legible(str(label(tokens))), MOST_LETTERS)
    return legible(f"[{shorten(tokens)}]")


def legible(text: str) -> str:
    """Text on one line, as any page, picture and file can show it: control characters are written as their codes.

    >>> legible("a\\nb\\x00é")
    'a b\\\\x00é'
    """
    if text.isprintable():
        return text
    return "".join(
        " " if c in "\n\r\t" else c.encode("unicode_escape").decode() if category(c) in ("Cc", "Cs", "Cn") else c
        for c in text
    )


def ends(text: str, most: int) -> str:
    """Both ends of a long text.

    >>> ends("abcdefgh", 5), ends("abcd", 4)
    ('ab…gh', 'abcd')
    """
    tail = (most - 1) // 2
    return text if len(text) <= most else f"{text[: most - 1 - tail]}…{text[-tail:]}"


def plain(values: Any) -> list[Any]:
    """`values` as a list: of an array or a tensor by `tolist`, of anything else by iterating, of one thing by itself.

    >>> slots = [0, 1, 2]; plain(range(3)), plain(slots) is slots   # a list of its own: the caller's may change
    ([0, 1, 2], False)
    """
    found = values.tolist() if hasattr(values, "tolist") else values
    if isinstance(found, Iterable) and not isinstance(found, (str, bytes)):
        return list(found)
    return [found]


def token_order(tokens: list[Any]) -> list[tuple[int, Any]]:
    """The sort key of siblings: their tokens, numbers before text, so that any mixture has an order.

    >>> sorted([["b"], [10], [9]], key=token_order)
    [[9], [10], ['b']]
    """
    return [(0, t) if isinstance(t, float) or hasattr(t, "__index__") else (1, str(t)) for t in tokens]


def nodes_of(what: Any, depth: int = 0) -> Iterator[Any]:
    """The nodes that `what` means: itself, or the path to the root of a match, an insertion or a handle.

    >>> from minikv import RadixCache
    >>> cache = RadixCache()
    >>> [node.id for node in nodes_of(cache.insert([1, 2], [0, 1]))]
    [1]
    """
    what = getattr(what, "handle", what)
    if hasattr(what, "node"):
        node, seen = what.node, set[int]()
        while getattr(node, "parent", None) is not None and id(node) not in seen:
            seen.add(id(node))
            yield node
            node = node.parent
    elif hasattr(what, "children") or hasattr(what, "parent"):
        yield what
    elif isinstance(what, Iterable) and not isinstance(what, (str, bytes)) and depth < DEEPEST_MARK:
        for one in what:
            yield from nodes_of(one, depth + 1)
    else:
        raise TypeError(f"cannot mark a {type(what).__name__}: expected nodes, matches, insertions or handles")


def shorten(tokens: list[Any], most: int = 8) -> str:
    """Both ends of many tokens, for prompts part where an edge ends: `0 1 … 39 (40 in all)`.

    >>> shorten(list(range(40)), most=3)
    '0 1 … 39 (40 in all)'
    """
    if len(tokens) <= most:
        return " ".join(map(str, tokens))
    half = most // 2
    shown = [*tokens[: most - half], "…", *tokens[len(tokens) - half :]]
    return " ".join(map(str, shown)) + f" ({len(tokens)} in all)"


def ranges(numbers: list[int], most: int = 4) -> str:
    """Numbers as runs, in their order: `0-3 7`; after `most` runs only how many there are.

    >>> ranges([0, 1, 2, 3, 7])
    '0-3 7'
    """
    runs: list[list[int]] = []
    for number in numbers:
        if runs and isinstance(number, int) and isinstance(runs[-1][1], int) and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    shown = " ".join(str(a) if a == b else f"{a}-{b}" for a, b in runs[:most])
    return shown if len(runs) <= most else f"{shown} … {len(numbers)} in all"

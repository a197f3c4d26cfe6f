"""A tree over two tiers as one tree: what is on the device (D), in host memory (H), or in both (DH).

Each tier has a tree of its own, and their nodes end in different places. Here one is laid on the other, page by page,
and pages one after the other of which the same is to be said are one node:

    device         host memory        drawn
    [1 2 3 4]      [1 2 7]            [1 2] DH
                                      ├─ [3 4] D
                                      └─ [7] H

Where a move is under way, the node says so: "to host" or "from host", the words of the move itself.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from minikv.errors import truncated
from minikv.testing.snapshot import MOST_LETTERS, Label, NodeView, Visit, label_of, legible, token_order, walk

_MOST_LETTERS = 4  # in a box


class HostPath(NamedTuple):
    """A path in host memory: `tokens` after the first `start` are there, or on their way as `move` says."""

    namespace: Hashable
    tokens: tuple[int, ...]
    start: int = 0
    move: str = ""


def host_paths(cache: Any) -> tuple[HostPath, ...] | None:
    """Everything in host memory, and every move under way; `None` for a cache that has no host memory.

    >>> from minikv import RadixCache, TieredCache
    >>> cache = TieredCache(host_pages=8, write="write_through")
    >>> _ = cache.insert([1, 2], [5, 6]); _ = cache.next_move()
    >>> host_paths(cache), host_paths(RadixCache())
    ((HostPath(namespace=None, tokens=(1, 2), start=0, move='to host'),), None)
    """
    host: Any = getattr(cache, "host", None)
    if not hasattr(host, "index") or not hasattr(host, "moves"):
        return None
    visits = _visits(host)
    inner = {visit.parent for visit, _ in visits}
    found = [HostPath(visit.namespace, path) for i, (visit, path) in enumerate(visits) if path and i not in inner]
    for move in host.moves:
        tokens, moved = tuple(move.tokens.tolist()), len(move.dst) * host.page_size
        found.append(HostPath(move.namespace, tokens, len(tokens) - moved, "to host" if move.to_host else "from host"))
    return tuple(found)


def _visits(host: Any) -> list[tuple[Visit, tuple[int, ...]]]:
    """Every node of host memory's tree, with all tokens up to its end."""
    found: list[tuple[Visit, tuple[int, ...]]] = []
    for visit in walk(host.index):
        found.append((visit, (*(() if visit.parent is None else found[visit.parent][1]), *visit.tokens)))
    return found


class HostCell(NamedTuple):
    """A page of host memory: its `state`, its tokens where a box has room for them, and what it is the end of."""

    state: str
    word: str = ""
    key: tuple[Hashable, tuple[int, ...]] = (None, ())


def host_cells(cache: Any, label: Label | None = None) -> tuple[HostCell, ...]:
    """The pages of host memory; none where there is no host memory.

    A page that is reserved for a move is in hand, and one that is read is locked.

    >>> from minikv import TieredCache
    >>> cache = TieredCache(host_pages=3, write="write_through")
    >>> _ = cache.insert([1], [5]); cache.settle(cache.next_move())
    >>> _ = cache.insert([2], [6]); _ = cache.next_move()
    >>> [(cell.state, cell.word) for cell in host_cells(cache)]
    [('cached', '1'), ('in hand', ''), ('free', '')]
    """
    if host_paths(cache) is None:
        return ()
    host = cache.host
    found = [HostCell("free" if host.pool.is_free(page) else "in hand") for page in range(host.num_pages)]
    for visit, path in _visits(host):
        state = "locked" if visit.node.ref_count else "cached"
        for end, page in zip(range(len(path), 0, -host.page_size), reversed(visit.node.pages)):
            words = label_of(list(path[end - host.page_size : end]), label).strip("[]")
            found[page] = HostCell(state, words if len(words) <= _MOST_LETTERS else "", (visit.namespace, path[:end]))
    return tuple(found)


@dataclass(eq=False)
class _Page:
    """A page of tokens after those above it: the device's `view` that has it, and what host memory has of it."""

    tokens: list[Any]
    slots: list[Any] = field(default_factory=list)
    view: NodeView | None = None
    tier: str = ""
    move: str = ""
    below: dict[Any, _Page] = field(default_factory=dict)

    def says_as(self, other: _Page) -> bool:
        """Return whether both are in the same node of a picture."""
        return self.view is other.view and (self.tier, self.move) == (other.tier, other.move)

    def node(
        self, run: list[_Page], parent: int | None, label: Label | None, is_there: Callable[..., bool]
    ) -> NodeView:
        """The node of a `run` of pages of which the same is said, as this one, their last."""
        view = self.view or NodeView("", None)
        if not self.tokens:  # a root, or a child that was seen above
            return replace(view, parent=parent)
        # a page that is moving out is still there
        on_device = self.move == "to host" or (self.view is not None and is_there(view))
        tokens, slots = [t for page in run for t in page.tokens], [s for page in run for s in page.slots]
        found = replace(view, parent=parent, tokens=tokens, slots=slots, label=label_of(tokens, label))
        found.tier, found.note = "D" * on_device + self.tier, self.move
        return found


def two_tiers(
    views: Sequence[NodeView],
    paths: Iterable[HostPath] | None,
    page_size: int = 1,
    label: Label | None = None,
    is_there: Callable[[NodeView], bool] = lambda view: True,
) -> list[NodeView]:
    """The nodes of both tiers as one tree, parents first, each with its `tier`; `views` as they are without `paths`.

    `is_there` says of a node whether the device has it; a film shows for one step also those that it has evicted.

    >>> views = [NodeView("root", None), NodeView("[1 2]", 0, [1, 2], [5, 6])]
    >>> [(view.label, view.tier) for view in two_tiers(views, [HostPath(None, (1, 7))])]
    [('root', ''), ('[1]', 'DH'), ('[2]', 'D'), ('[7]', 'H')]
    """
    if paths is None:
        return list(views)
    roots = _laid(views, page_size)
    for path in paths:
        if path.namespace not in roots:
            name = truncated(legible(f"root of {path.namespace!r}"), MOST_LETTERS)
            roots[path.namespace] = _Page([], view=NodeView(name, None, namespace=path.namespace))
        page = roots[path.namespace]
        for at in range(0, len(path.tokens), page_size):
            tokens = list(path.tokens[at : at + page_size])
            page = page.below.setdefault((tuple(tokens), 0), _Page(tokens))
            if at >= path.start:
                page.tier, page.move = page.tier or "H" * (not path.move), page.move or path.move
    return _nodes(roots.values(), label, is_there)


def _laid(views: Sequence[NodeView], size: int) -> dict[Hashable, _Page]:
    """The root of every namespace, with the device's nodes below it page by page."""
    roots, ends = dict[Hashable, _Page](), list[_Page]()
    for view in views:
        if view.parent is None:
            page = roots.setdefault(view.namespace, _Page([], view=view))  # a film's ghost comes after the new one
        else:
            page = ends[view.parent]
            for at in range(0, max(1, len(view.tokens)), size):
                tokens, above, again = view.tokens[at : at + size], page.below, 0
                page = _Page(tokens, view.slots[at : at + size], view)
                while (tuple(tokens), again) in above:  # a film's ghost of it, or a loop
                    again += 1
                above[tuple(tokens), again] = page
        ends.append(page)
    return roots


def _nodes(roots: Iterable[_Page], label: Label | None, is_there: Callable[[NodeView], bool]) -> list[NodeView]:
    """Parents first: pages of which the same is said are one node."""
    found: list[NodeView] = []
    stack: list[tuple[_Page, int | None, str]] = []
    stack += [(root, None, f"{i}") for i, root in enumerate(roots)][::-1]
    while stack:
        page, parent, way = stack.pop()
        run = [page]
        while parent is not None and len(page.below) == 1 and page.says_as(*page.below.values()):
            (page,) = page.below.values()
            run.append(page)
        node = page.node(run, parent, label, is_there)
        way = f"{way} {node.tokens}"
        if page.view is None or any(below.view is page.view for below in page.below.values()):
            node.name, node.id = "", -(1 << 32) - zlib.crc32(way.encode())  # the same in every frame of a film
        order = sorted(page.below.values(), key=lambda one: token_order(one.tokens), reverse=True)
        stack += [(below, len(found), way) for below in order]
        found.append(node)
    return found

"""A name for each page of a prefix tree: the sha256 of its tokens and of everything before them.

Two pages have the same name only where tokens, position and namespace agree, so a name can stand for the page outside
of the tree: in a log, in an event, in another machine's memory. Each name is a link of a chain:

    name = sha256(name of the page before, tokens of the page)        the first link is the namespace

The order in which names are asked for makes no difference: what is missing above a node is computed first. (pymllm
starts the chain anew where the parent has no hash yet, and leaves the namespace out: two prompts, one name.)
"""

from __future__ import annotations

from hashlib import sha256
from typing import Any

from minikv.prefix.hash_blocks import spelled
from minikv.prefix.radix import RadixNode, RadixRoot


class HashedNode(RadixNode):
    """A node that keeps the names of its pages once they are computed; `hashes` is `None` until then."""

    __slots__ = ("hashes",)

    def __init__(self, node_id: int, key_run: bytes, page_run: bytes, parent: RadixNode | None, end: int, now: int):
        super().__init__(node_id, key_run, page_run, parent, end, now)
        self.hashes: tuple[bytes, ...] | None = None


def page_hashes(node: RadixNode, stride: int) -> list[str]:
    """The names of the pages of `node`, in order, as hexadecimal text; `stride` is the bytes of one page of tokens.

    Raises `TypeError` for a namespace that has no spelling of its own: an object shows nothing that would be the same
    in another process.

    >>> from minikv import SlidingWindowCache
    >>> a, b = (SlidingWindowCache().insert([1, 2], [0, 1], namespace=name).node for name in ("a", "b"))
    >>> [name[:8] for name in page_hashes(a, stride=4)], page_hashes(a, 4) == page_hashes(b, 4)
    (['0e77b9af', '2acbb4ea'], False)
    """
    path: list[RadixNode] = []
    above: RadixNode | None = node
    while above is not None and above.parent is not None and _kept(above) is None:
        path.append(above)
        above = above.parent
    kept = _kept(above)
    last = kept[-1] if kept else sha256(spelled(above.namespace if isinstance(above, RadixRoot) else None)).digest()
    found: tuple[bytes, ...] = kept or ()
    for each in reversed(path):
        found = _chain(last, each.key_bytes, stride)
        last = found[-1]
        if isinstance(each, HashedNode):
            each.hashes = found
    return [name.hex() for name in found]


def _kept(node: Any) -> tuple[bytes, ...] | None:
    return node.hashes if isinstance(node, HashedNode) else None


def _chain(last: bytes, keys: bytes, stride: int) -> tuple[bytes, ...]:
    found = []
    for at in range(0, len(keys), stride):
        last = sha256(last + keys[at : at + stride]).digest()
        found.append(last)
    return tuple(found)

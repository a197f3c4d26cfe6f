"""Ids for the blocks of prompts: two are equal exactly where everything up to the end of the block is equal.

Each block's hash is a link of a chain, as engines name their blocks:

    link = hash(link of the block before, units of the block)         the first link: a salt and the namespace

The ids number the links in the order in which they first appear. Nothing of a prompt can be told from them, and
without the salt nobody can test whether a guessed prompt was among those that were numbered.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from hashlib import blake2b

from minikv.tokens import PackedTokens, pack
from minikv.traffic.trace_request import TraceRequest

_LINK = 16  # bytes


class BlockIds:
    """Numbers the blocks of prompts that come one after the other.

    >>> ids = BlockIds(b"a salt")
    >>> [ids.of(prompt, 2).tolist() for prompt in (b"aabb", b"aabbc", b"bbaa", b"aaccbb", b"")]
    [[0, 1], [0, 1], [2, 3], [0, 4, 5], []]
    >>> ids.of(b"aabb", 2, {"model": "another"}).tolist()
    [6, 7]
    """

    def __init__(self, salt: bytes):
        self._salt, self._ids = blake2b(salt).digest(), dict[bytes, int]()

    def of(self, units: bytes, stride: int, namespace: Mapping[str, str] | None = None) -> PackedTokens:
        """The ids of the whole blocks of a prompt; `stride` is the bytes of a block, what fills none is left out."""
        ids, known = list[int](), self._ids
        link = blake2b(repr(sorted((namespace or {}).items())).encode(), key=self._salt, digest_size=_LINK).digest()
        for end in range(stride, len(units) + 1, stride):
            link = blake2b(link + units[end - stride : end], digest_size=_LINK).digest()
            ids.append(known.setdefault(link, len(known)))
        return pack(ids)


def anonymous(requests: Iterable[TraceRequest]) -> Iterator[TraceRequest]:
    """The requests with ids that number the blocks as they appear, and with times that count from the first request.

    What an id or a date may have said of the contents or of the day is gone; what is shared stays so.

    >>> trace = [TraceRequest(1e12 + at, 30, 1, pack(ids)) for at, ids in enumerate(([7, 9], [7, 3]))]
    >>> [(request.timestamp, request.blocks.tolist()) for request in anonymous(trace)]
    [(0.0, [0, 1]), (1.0, [0, 2])]
    """
    known, begin = dict[int, int](), None
    for request in requests:
        begin = request.timestamp if begin is None else begin
        ids = [known.setdefault(block, len(known)) for block in request.blocks]
        yield request._replace(timestamp=max(0.0, request.timestamp - begin), blocks=pack(ids))

"""The audit of a `CopyOnWrite`: every reference, count and page that can be found, recomputed from its sequences."""

from __future__ import annotations

from typing import TYPE_CHECKING

from minikv.errors import InvariantError, bounded
from minikv.tokens import TOKEN_BYTES, pack

if TYPE_CHECKING:
    from minikv.copy_on_write.copy_on_write import CopyOnWrite


def check_sharing(cache: CopyOnWrite) -> None:
    """Raise `InvariantError` for the first page that does not agree with the sequences that have it.

    >>> from minikv import CopyOnWrite
    >>> cache = CopyOnWrite(num_pages=4, page_size=2)
    >>> _ = cache.attach("a", [1, 2, 3], "ABC"); cache._refs[1] = 2
    >>> check_sharing(cache)
    Traceback (most recent call last):
    minikv.errors.InvariantError: page 1 counts 2 references: 1 sequences have it
    """
    cache.pool.check()
    _check_references(cache, _count_references(cache))
    _check_known(cache)


def _count_references(cache: CopyOnWrite) -> list[int]:
    """How many sequences have each page."""
    counts = [0] * cache.pool.size
    for name, sequence in cache._sequences.items():
        needed = -(-len(sequence.tokens) // cache.page_size)
        if len(sequence.pages) != needed:
            raise InvariantError(f"{bounded(name)} has {len(sequence.pages)} pages: its tokens need {needed}")
        for page in sequence.pages:
            counts[page] += 1
    return counts


def _check_references(cache: CopyOnWrite, expected: list[int]) -> None:
    """Each page counts the sequences that have it, is free if there is none, and is in the totals."""
    for page, (refs, found) in enumerate(zip(cache._refs, expected)):
        if refs != found:
            raise InvariantError(f"page {page} counts {refs} references: {found} sequences have it")
        if cache.pool.is_free(page) != (not refs):
            raise InvariantError(f"page {page} has {refs} references: in the pool it is the other way around")
    counted, there = (cache._num_refs, cache._num_shared), (sum(expected), sum(refs > 1 for refs in expected))
    if counted != there:
        raise InvariantError(f"(references, shared pages) are counted as {counted}: there are {there}")


def _check_known(cache: CopyOnWrite) -> None:
    """What can be found is somebody's, and holds the tokens by which it is found."""
    known = cache._known
    known.check()
    if wrong := [page for page in known if not cache._refs[page]]:
        raise InvariantError(f"page {wrong[0]} can be found, and no sequence has it")
    for name, sequence in cache._sequences.items():
        data, stride = pack(sequence.tokens).data, TOKEN_BYTES * cache.page_size
        for i, page in enumerate(sequence.pages[: len(data) // stride]):
            if known.tokens_of(page) not in (None, data[i * stride : (i + 1) * stride]):
                raise InvariantError(f"page {page} of {bounded(name)} can be found by tokens that it does not hold")

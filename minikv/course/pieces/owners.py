"""The audit of owners: whose each page of a manager is, by everybody's own account.

A page belongs to the pool, to the cache, or to one request. With two owners it will be written by one of them while the
other reads it; with none it is lost. What a request reads from the cache must be there, under a lock of its own.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from minikv.errors import InvariantError
from minikv.testing.snapshot import ranges

POOL, CACHE = "the pool", "the cache"


def claims(manager: Any) -> list[tuple[str, list[int]]]:
    """Everybody's name and pages: the pool, the cache, and each running request.

    >>> from minikv.course.pieces.sections import engine_world
    >>> manager = engine_world()["CacheManager"](4)
    >>> _ = manager.start([1, 2, 3])
    >>> claims(manager)
    [('the pool', [3]), ('the cache', []), ('request 1', [0, 1, 2])]
    """
    free = [page for page in range(manager.num_pages) if manager.pool.is_free(page)]
    cached = [page for node in manager.cache.nodes() for page in node.slots]
    own = [(name_of(s), s.row[s.shared // manager.page_size :]) for s in manager.running]
    return [(name, list(map(int, pages))) for name, pages in ((POOL, free), (CACHE, cached), *own)]


def name_of(sequence: Any) -> str:
    """What a request is called: by its number, from 1."""
    return f"request {sequence.number}"


def audit(manager: Any) -> None:
    """Raise `InvariantError` for the first page that has two owners or none, or is read or locked wrongly.

    >>> from minikv.course.pieces.sections import engine_world
    >>> manager = engine_world()["CacheManager"](4)
    >>> _ = manager.start([1, 2, 3])
    >>> manager.pool.free([2])
    >>> audit(manager)
    Traceback (most recent call last):
    minikv.errors.InvariantError: page 2 has two owners: the pool and request 1
    """
    owners: dict[int, str] = {}
    for name, pages in claims(manager):
        for page in pages:
            if page in owners:
                raise InvariantError(f"page {page} has two owners: {owners[page]} and {name}")
            owners[page] = name
    lost = [page for page in range(manager.num_pages) if page not in owners]
    if lost:
        raise InvariantError(f"page {lost[0]} has no owner: it is lost")
    _audit_readers(manager, owners)
    _audit_locks(manager)


def _audit_readers(manager: Any, owners: dict[int, str]) -> None:
    """What a request reads as the cache's is the cache's, and its own lock covers just that."""
    for sequence in manager.running:
        for page in _shared(manager, sequence):
            if owners.get(page) != CACHE:
                owner = owners.get(page, "nobody")
                raise InvariantError(f"{name_of(sequence)} reads page {page} from the cache, but {owner} has it")
        locked = getattr(sequence.handle, "length", None)
        if locked != sequence.shared:
            its_lock = "it has no lock" if locked is None else f"its lock is on {locked}"
            raise InvariantError(f"{name_of(sequence)} shares {sequence.shared} tokens, but {its_lock}")


def _audit_locks(manager: Any) -> None:
    """Each cached page has one lock for each of its readers."""
    readers = Counter(page for sequence in manager.running for page in _shared(manager, sequence))
    for node in manager.cache.nodes():
        for page in node.slots:
            if node.locks != readers[page]:
                locks, many = _count(node.locks, "lock"), _count(readers[page], "reader")
                raise InvariantError(f"page {page} has {locks} and {many}")


def _shared(manager: Any, sequence: Any) -> list[int]:
    return [int(page) for page in sequence.row[: sequence.shared // manager.page_size]]


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def whose(manager: Any) -> str:
    """Everybody's pages on one line, or what is wrong with them.

    >>> from minikv.course.pieces.sections import engine_world
    >>> manager = engine_world()["CacheManager"](8)
    >>> _ = manager.start([1, 2, 3])
    >>> whose(manager)
    'the pool: 3-7; request 1: 0-2'
    """
    try:
        audit(manager)
    except InvariantError as error:
        return str(error)
    return "; ".join(f"{name}: {ranges(sorted(pages))}" for name, pages in claims(manager) if pages)

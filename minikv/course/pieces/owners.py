"""Who owns the pages of a manager, in words."""

from __future__ import annotations

from typing import Any

from minikv.engine.manager_shell import audit, claims
from minikv.errors import InvariantError
from minikv.testing.snapshot import ranges


def whose(manager: Any) -> str:
    """Everybody's pages on one line, or what is wrong with them.

    >>> from minikv.engine.sections import engine_world
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

"""The protocols of the manager that an engine needs. `CacheManager` keeps them; you can bring your own."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, Protocol, runtime_checkable

from minikv.prefix import PrefixCache
from minikv.tokens import TokensLike


@runtime_checkable
class Manager(Protocol):
    """Six verbs for the life of a request; the docstrings of `CacheManager` say what each of them promises.

    Its sequences may be of any class. An engine reads their `state`, `length`, `tokens`, `cached_length` and
    `computed`, and gets the tokens and slots of a chunk from `next_chunk`, as in `minikv.Sequence`.
    """

    page_size: int
    num_pages: int
    cache: PrefixCache
    store: Any

    def start(self, tokens: TokensLike, *, namespace: Hashable = None, spare: int = 0) -> Any:
        """Begin a request and return its sequence, or raise `OutOfPages`."""

    def advance(self, sequence: Any, num_tokens: int | None = None) -> None:
        """Mark the next `num_tokens` tokens (default: all that are left) as computed."""

    def extend(self, sequence: Any, tokens: TokensLike) -> None:
        """Append generated tokens to the sequence, or raise `OutOfPages`."""

    def checkpoint(self, sequence: Any) -> None:
        """Publish the computed pages while the request continues."""

    def finish(self, sequence: Any) -> None:
        """Finish the request: publish its computed whole pages and free the rest."""

    def abort(self, sequence: Any) -> None:
        """Abort the request: publish nothing more and free everything that it holds."""


@runtime_checkable
class TruncatingManager(Manager, Protocol):
    """A manager with a seventh verb, which takes tokens back: an engine that computes drafts needs it."""

    def truncate(self, sequence: Any, length: int) -> None:
        """Keep the first `length` tokens and free the later pages."""

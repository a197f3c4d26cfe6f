"""The manager that an engine needs: anybody can bring their own."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, Protocol, runtime_checkable

from minikv.prefix import PrefixCache
from minikv.tokens import TokensLike


@runtime_checkable
class Manager(Protocol):
    """Six verbs for the life of a request, over a cache and pages; `CacheManager` says what each promises.

    Its sequences are its own: an engine looks at their `state`, `length`, `tokens`, `cached_length` and `computed`, and
    gets the tokens and slots of a chunk with `next_chunk`, as in `minikv.Sequence`.
    """

    page_size: int
    num_pages: int
    cache: PrefixCache
    store: Any

    def start(self, tokens: TokensLike, *, namespace: Hashable = None, spare: int = 0) -> Any:
        """Begin a request; the sequence, or `OutOfPages`."""

    def advance(self, sequence: Any, num_tokens: int | None = None) -> None:
        """Say that the next tokens are computed."""

    def extend(self, sequence: Any, tokens: TokensLike) -> None:
        """Append generated tokens to the sequence, or raise `OutOfPages`."""

    def checkpoint(self, sequence: Any) -> None:
        """Publish the computed pages while the request continues."""

    def finish(self, sequence: Any) -> None:
        """End the request well."""

    def abort(self, sequence: Any) -> None:
        """End the request badly."""


@runtime_checkable
class TruncatingManager(Manager, Protocol):
    """A manager with a seventh verb, which takes tokens back: an engine that computes drafts needs it."""

    def truncate(self, sequence: Any, length: int) -> None:
        """Keep the first `length` tokens and free the later pages."""

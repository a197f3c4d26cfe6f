"""The manager that an engine needs: anybody can bring their own."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, Protocol, runtime_checkable

from minikv.pools import Pages
from minikv.prefix import PrefixCache
from minikv.tokens import PackedTokens, TokensLike


class RunningSequence(Protocol):
    """One request while it runs: which tokens it has, how many of them are computed, and in which slots they lie."""

    number: int
    state: str
    computed: int
    cached_length: int

    @property
    def length(self) -> int:
        """Return how many tokens it has."""

    @property
    def tokens(self) -> PackedTokens:
        """All tokens, the prompt's and those after it."""

    @property
    def slots(self) -> Pages:
        """The slot of each token, int32, in order."""

    def next_chunk(self, num_tokens: int) -> tuple[PackedTokens, Pages]:
        """The next `num_tokens` tokens to compute, and the slots of all tokens up to their end, to be read only."""


@runtime_checkable
class Manager(Protocol):
    """Six verbs for the life of a request, over a cache and pages; `CacheManager` says what each promises."""

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

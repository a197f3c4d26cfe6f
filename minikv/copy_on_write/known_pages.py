"""By which tokens a page can be found: a key for each whole page, made of its tokens and of the key in front of it.

    tokens   [ 1 2 ][ 3 4 ][ 5 6 ]
    keys      k0     k1     k2        k1 is made of k0 and 3 4: of all that stands in front, and of what is in the page

A key is short, so in principle two beginnings can have the same one. What is found is compared, page by page: its
tokens, and the key in front of it. So the first page that two beginnings do not share is never taken for another.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import NamedTuple

from minikv.errors import InvariantError, bounded
from minikv.tokens import TOKEN_BYTES, TokensLike, pack


class Link(NamedTuple):
    """A page in its place: the key of the page in front of it, empty for the first one, and its tokens as bytes."""

    before: bytes
    tokens: bytes

    @property
    def key(self) -> bytes:
        """32 bytes that stand for it."""
        return sha256(self.before + self.tokens).digest()


@dataclass(eq=False)
class PagedSequence:
    """A sequence: its tokens and pages, how many tokens others may find and by which keys, where a draft begins."""

    tokens: list[int] = field(default_factory=list)
    pages: list[int] = field(default_factory=list)
    open_to: int = 0
    keys: list[bytes] = field(default_factory=list)
    draft_from: int | None = None


class KnownPages:
    """The whole pages that can be found by their tokens, several of them by the same ones.

    >>> known = KnownPages(page_size=2)
    >>> keys = known.publish([1, 2, 3, 4], [7, 5]); known.find([1, 2, 3, 4, 9])[0], known.find([3, 4])[0]
    ([7, 5], [])
    >>> known.forget(5); known.find([1, 2, 3, 4])[0]
    [7]
    """

    def __init__(self, page_size: int):
        self.page_size = page_size
        self._pages: dict[bytes, dict[int, None]] = {}  # for each key its pages, the one that came first in front
        self._links: dict[int, Link] = {}

    def find(self, tokens: TokensLike) -> tuple[list[int], list[bytes]]:
        """The pages that hold the beginning of `tokens`, as far as there are any, and their keys."""
        pages: list[int] = []
        keys: list[bytes] = []
        for link in self._chain(tokens, keys):
            key = link.key
            if (page := self._first(key)) is None or self._links[page] != link:
                break
            pages.append(page)
            keys.append(key)
        return pages, keys

    def publish(self, tokens: TokensLike, pages: Sequence[int], before: bytes = b"") -> list[bytes]:
        """Let `pages`, which hold `tokens`, be found behind the page with the key `before`; the keys of the whole ones.

        It ends early at a page that has the key of other tokens.
        """
        keys: list[bytes] = []
        for page, link in zip(pages, self._chain(tokens, keys, before)):
            key = link.key
            if (first := self._first(key)) is not None and self._links[first] != link:
                break
            if page not in self._links:
                self._links[page] = link
                self._pages.setdefault(key, {})[page] = None
            keys.append(key)
        return keys

    def forget(self, page: int) -> None:
        """`page` holds other tokens from now on, or none: nobody finds it any more."""
        if (link := self._links.pop(page, None)) is not None:
            key = link.key
            del self._pages[key][page]
            if not self._pages[key]:
                del self._pages[key]

    def _first(self, key: bytes) -> int | None:
        return next(iter(self._pages.get(key, ())), None)

    def _chain(self, tokens: TokensLike, keys: list[bytes], before: bytes = b"") -> Iterator[Link]:
        """A link for each whole page, behind the key that was put into `keys` last."""
        data, stride = pack(tokens).data, TOKEN_BYTES * self.page_size
        for at in range(0, len(data) // stride * stride, stride):
            yield Link(keys[-1] if keys else before, data[at : at + stride])

    def check(self, sequences: Mapping[Hashable, PagedSequence]) -> None:
        """Raise `InvariantError` unless keys and pages agree, and each page that can be found is as its owners say.

        >>> known = KnownPages(page_size=1)
        >>> keys = known.publish([1, 2], [7, 5])
        >>> known.check({"a": PagedSequence([1, 3], [7, 5])})
        Traceback (most recent call last):
        minikv.errors.InvariantError: page 5 of 'a' can be found by tokens that it does not hold
        """
        known = {page: key for key, pages in self._pages.items() for page in pages}
        if known != {page: link.key for page, link in self._links.items()} or not all(self._pages.values()):
            raise InvariantError(f"{len(known)} pages can be found, {len(self._links)} know by what")
        if nobodys := self._links.keys() - {page for sequence in sequences.values() for page in sequence.pages}:
            raise InvariantError(f"page {min(nobodys)} can be found, and no sequence has it")
        for name, sequence in sequences.items():
            self._check_sequence(name, sequence)

    def _check_sequence(self, name: Hashable, sequence: PagedSequence) -> None:
        """Its whole pages hold what they are found by; those that it published come after each other, as its keys."""
        keys, before, whose = sequence.keys, b"", bounded(name)
        data, stride = pack(sequence.tokens).data, TOKEN_BYTES * self.page_size
        most = min(sequence.open_to * TOKEN_BYTES, len(data)) // stride
        if len(keys) > most:
            raise InvariantError(f"{len(keys)} pages of {whose} can be found: it lets {most} of them be")
        for i, page in enumerate(sequence.pages[: len(data) // stride]):
            link, tokens = self._links.get(page), data[i * stride : (i + 1) * stride]
            if link is not None and link.tokens != tokens:
                raise InvariantError(f"page {page} of {whose} can be found by tokens that it does not hold")
            if i < len(keys) and (link != Link(before, tokens) or keys[i] != link.key):
                raise InvariantError(f"page {page} of {whose} can be found, but not after the tokens before it")
            before = keys[i] if i < len(keys) else b""

    def __iter__(self) -> Iterator[int]:
        return iter(self._links)

    def __len__(self) -> int:
        """How many different beginnings can be found; several pages may hold the end of one of them."""
        return len(self._pages)

    def __repr__(self) -> str:
        return f"KnownPages({len(self)} beginnings, {len(self._links)} pages of {self.page_size})"

"""The naive cache manager: which tokens each request has, which of them are computed, and what has been published.

It predicts everything that does not depend on what is evicted: a page is free, cached, or one request's, and what is
cached and not read can be evicted. So whether a request finds room depends only on the pages that others hold or read.
What a request finds in the cache lies between two bounds: what must still be there, and what was ever published.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from minikv.errors import OutOfPages, whole_number
from minikv.prefix.contract import require_hashable, require_limit
from minikv.tokens import TokensLike, pack

PrefixKey = tuple[Any, tuple[int, ...]]


class NaiveRequest:
    """A request: `row` is in pages, all else in tokens; `least` and `most` bound what it may find in the cache."""

    slots = ()  # which they are is the manager's business

    def __init__(self, tokens: list[int], namespace: Hashable, row: int, least: int, most: int):
        self.tokens, self.namespace, self.row, self.least, self.most = tokens, namespace, row, least, most
        self.cached_length = self.shared = self.computed = 0
        self.state = "running"


class NaiveManager:
    """Keeps track of requests without a pool, a cache or a page.

    `published` has every prefix that may be cached, with the rule by which it was published, and `sure` those that
    must be. `aborted` has those that belong to aborted requests alone.

    >>> manager = NaiveManager(num_pages=4)
    >>> manager.follow(manager.start([1, 2, 3]), found=0); manager.available
    1
    >>> manager.start([4, 5])
    Traceback (most recent call last):
    minikv.errors.OutOfPages: 2 pages needed, but only 1 free
    """

    def __init__(self, num_pages: int, page_size: int = 1):
        self.num_pages, self.page_size = num_pages, page_size
        self.running: list[NaiveRequest] = []
        self.published: dict[PrefixKey, int] = {}
        self.sure: set[PrefixKey] = set()
        self.aborted: set[PrefixKey] = set()

    def path(self, tokens: list[int], namespace: Hashable, end: int) -> list[PrefixKey]:
        """The prefixes of `tokens` that end with a whole page, up to `end`."""
        return [(namespace, tuple(tokens[:at])) for at in range(self.page_size, end + 1, self.page_size)]

    def read_by(self, *more: NaiveRequest) -> set[PrefixKey]:
        """The parts of the cache that the running requests read."""
        return {key for each in (*self.running, *more) for key in self.path(each.tokens, each.namespace, each.shared)}

    @property
    def own(self) -> int:
        """Pages that are the requests' own."""
        return sum(each.row - each.shared // self.page_size for each in self.running)

    @property
    def available(self) -> int:
        """Pages that are free or could be evicted."""
        return self.num_pages - self.own - len(self.read_by())

    def start(self, tokens: TokensLike, *, namespace: Hashable = None, limit: int | None = None) -> NaiveRequest:
        """Begin a request, if its pages fit; `follow` then says how much it has found."""
        listed, size = pack(tokens).tolist(), self.page_size
        if not listed:
            raise ValueError("tokens are empty")
        most = len(listed) - 1 if limit is None else require_limit(limit, len(listed))
        require_hashable(namespace)
        path, row, read = self.path(listed, namespace, most), -(-len(listed) // size), self.read_by()
        held = next((i for i, key in enumerate(path) if key not in read), len(path))
        if row - held > self.available:
            raise OutOfPages(row - held, self.available)
        least, longest = (
            next((i for i, key in enumerate(path) if key not in known), len(path)) * size
            for known in (self.sure | read, self.published)
        )
        return NaiveRequest(listed, namespace, row, least, longest)

    def follow(self, request: NaiveRequest, found: int) -> None:
        """The request has found `found` tokens in the cache, and runs."""
        size = self.page_size
        path = self.path(request.tokens, request.namespace, found)
        gone = self.path(request.tokens, request.namespace, request.most)[len(path) :]
        for name, tokens in gone[:1]:  # a page that is not found is not there, nor are those after it
            cut = {key for key in self.published if key[0] == name and key[1][: len(tokens)] == tokens}
            self.published = {key: rule for key, rule in self.published.items() if key not in cut}
        self.take(request.row - found // size, {*path})
        request.cached_length = request.shared = request.computed = found
        self.running.append(request)

    def take(self, num_pages: int, kept: set[PrefixKey]) -> None:
        """Pages are taken: where not enough are free for sure, anything that nobody reads may be evicted."""
        if num_pages > self.num_pages - self.own - len(self.published):
            self.sure &= self.read_by() | kept

    def advance(self, request: NaiveRequest, num_tokens: int | None = None) -> None:
        """The next tokens are computed."""
        self.require(request)
        left = len(request.tokens) - request.computed
        count = left if num_tokens is None else whole_number("num_tokens", num_tokens, 0, "0 or more")
        if count > left:
            raise ValueError(f"num_tokens is {count}: only {left} are left to compute")
        request.computed += count

    def extend(self, request: NaiveRequest, tokens: TokensLike) -> None:
        """The request continues with `tokens`, if their pages fit."""
        self.require(request)
        longer = [*request.tokens, *pack(tokens).tolist()]
        row = -(-len(longer) // self.page_size)
        if row - request.row > self.available:
            raise OutOfPages(row - request.row, self.available)
        self.take(row - request.row, set())
        request.tokens, request.row = longer, row

    def truncate(self, request: NaiveRequest, length: int) -> None:
        """The request continues with its first `length` tokens; the part that it reads in the cache stays."""
        self.require(request)
        length = whole_number("length", length, max(1, request.shared), "what is published stays")
        if length > len(request.tokens):
            raise ValueError(f"length is {length}: the request has {len(request.tokens)} tokens")
        request.tokens, request.computed = request.tokens[:length], min(request.computed, length)
        request.row = -(-length // self.page_size)

    def checkpoint(self, request: NaiveRequest, rule: int = 9) -> None:
        """Publish the whole pages that are computed; the request reads them in the cache from now on."""
        self.require(request)
        end = request.computed // self.page_size * self.page_size
        for key in self.path(request.tokens, request.namespace, end):
            self.published.setdefault(key, rule)
            self.sure.add(key)
        request.shared = max(request.shared, end)

    def finish(self, request: NaiveRequest) -> None:
        """Publish what is computed, and give everything back."""
        self.checkpoint(request, rule=6)
        self.end(request, "finished")

    def abort(self, request: NaiveRequest) -> None:
        """Publish nothing, and give everything back."""
        self.require(request)
        self.aborted |= {*self.path(request.tokens, request.namespace, len(request.tokens))} - self.published.keys()
        self.end(request, "aborted")

    def end(self, request: NaiveRequest, state: str) -> None:
        """The request is over."""
        self.running.remove(request)
        request.state = state

    def require(self, request: NaiveRequest) -> None:
        """`ValueError` unless the request runs."""
        if request not in self.running:
            raise ValueError("the request is over")

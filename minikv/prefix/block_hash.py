"""Block hashes: one key for a page of tokens and for everything in front of it.

Two blocks get the same key when their tokens, and all tokens before them, are the same: a key depends on the whole
prefix, for a page's keys and values do too. So one dictionary from keys to blocks finds any cached prefix.

    tokens   [ page 0 ][ page 1 ][ page 2 ]
    key 0    seed + page 0
    key 1    seed + page 0 + page 1                 (as a chain: key 0 + page 1)
    key 2    seed + page 0 + page 1 + page 2        (as a chain: key 1 + page 2)

A hash is used through four methods: `begin` starts a chain, `after` goes on over some pages and leaves the old state
as it was, `key` reads the key there, and `keys` reads those of several pages on the way. SHA-256 and CRC-32 read their
input as a stream, so the state behind a hundred pages takes one call. Python's `hash` is chained by hand, page by page,
as vLLM did until 2025.
"""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Callable, Hashable, Sequence
from typing import Any, Protocol

from minikv.errors import bounded
from minikv.tokens import TOKEN_BYTES

HashState = Any


class BlockHash(Protocol):
    """How keys are computed; a class of one's own with these four can be given to `HashBlockCache`."""

    def begin(self, seed: bytes) -> HashState:
        """The state in front of the first page of every prompt that belongs to `seed`."""

    def after(self, state: HashState, pages: memoryview, page_bytes: int) -> HashState:
        """The state behind some whole pages of `page_bytes` bytes each; `state` itself does not change."""

    def key(self, state: HashState) -> Hashable:
        """The key of the block that ends here: bytes, a whole number or text, whose own hash never raises."""

    def keys(self, state: HashState, pages: Sequence[bytes]) -> tuple[list[Hashable], HashState]:
        """The key of each of some pages that follow each other, and the state behind the last."""


class OneByOne:
    """`keys`, where nothing is gained by computing several at once."""

    def after(self, state: HashState, pages: memoryview, page_bytes: int) -> HashState:
        """The state behind some whole pages."""
        raise NotImplementedError(f"{type(self).__name__} does not say how it goes on")

    def key(self, state: HashState) -> Any:
        """The key is the state itself."""
        return state

    def keys(self, state: HashState, pages: Sequence[bytes]) -> tuple[list[Hashable], HashState]:
        """The key of each page, one after the other, and the last state."""
        found = list[Hashable]()
        for page in pages:
            state = self.after(state, memoryview(page), len(page))
            found.append(self.key(state))
        return found, state


class Sha256:
    """Nobody can find two prefixes with one key: 32 bytes, the same on every machine.

    >>> sha = Sha256()
    >>> state = sha.after(sha.begin(b""), memoryview(b"one page"), 8)
    >>> sha.key(state).hex()[:16], sha.key(state) == hashlib.sha256(b"one page").digest()
    ('59e26b3f73655a55', True)
    """

    def begin(self, seed: bytes) -> HashState:
        """The digest so far."""
        return hashlib.sha256(seed)

    def after(self, state: HashState, pages: memoryview, page_bytes: int) -> HashState:
        """A copy of the digest that has read `pages`."""
        copied = state.copy()
        copied.update(pages)
        return copied

    def key(self, state: HashState) -> Any:
        """The 32 bytes of the digest."""
        return state.digest()

    def keys(self, state: HashState, pages: Sequence[bytes]) -> tuple[list[Hashable], HashState]:
        """The digest read after each page, and the digest so far: one copy for all of them."""
        running = state.copy()
        update, digest = running.update, running.digest
        return [digest() for page in pages if not update(page)], running  # `update` returns nothing


class Crc32(OneByOne):
    """Fast, and made to find accidents: anyone can build two prefixes with one key. Only for prompts that you trust.

    >>> crc = Crc32()
    >>> crc.key(crc.after(crc.begin(b""), memoryview(b"123456789"), 9)) == 0xCBF43926
    True
    """

    def begin(self, seed: bytes) -> HashState:
        """The checksum of the seed."""
        return zlib.crc32(seed)

    def after(self, state: HashState, pages: memoryview, page_bytes: int) -> HashState:
        """The checksum, continued."""
        return zlib.crc32(pages, state)


class PythonHash(OneByOne):
    """`hash((parent, *tokens))`: a warning, not a choice. It takes no secret, so collisions can be built in advance.

    After vLLM's `hash_block_tokens` of 2024 (CVE-2025-25183).

    >>> weak, page = PythonHash(), memoryview(bytes(8))
    >>> weak.key(weak.after(0, page, 8)) == hash((0, 0, 0))
    True
    """

    def begin(self, seed: bytes) -> HashState:
        """A number that says which seed it is."""
        return int.from_bytes(seed, "little")

    def after(self, state: HashState, pages: memoryview, page_bytes: int) -> HashState:
        """The hash of the last page, of the page before that, and so on."""
        tokens, step = pages.cast("B").cast("I"), page_bytes // TOKEN_BYTES
        for at in range(0, len(tokens), step):
            state = hash((state, *tokens[at : at + step]))
        return state


HASHES: dict[str, Callable[[], BlockHash]] = {"sha256": Sha256, "crc32": Crc32, "python": PythonHash}


def hash_named(name: str | Callable[[], BlockHash]) -> tuple[str, BlockHash]:
    """The name of a hash and the hash itself: a name of `HASHES`, or a class with the methods of `BlockHash`.

    >>> hash_named("sha256")[0], hash_named(Crc32)[0]
    ('sha256', 'Crc32')
    >>> hash_named("md5")
    Traceback (most recent call last):
    ValueError: block_hash is 'md5': expected one of sha256, crc32, python, or a class
    """
    if isinstance(name, str) and name in HASHES:
        return name, HASHES[name]()
    if isinstance(name, str) or not callable(name):
        raise ValueError(f"block_hash is {bounded(name)}: expected one of {', '.join(HASHES)}, or a class")
    title, made = getattr(name, "__name__", type(name).__name__), name()
    for method in ("begin", "after", "key", "keys"):
        if not callable(getattr(made, method, None)):
            raise TypeError(f"block_hash {title} has no method {method}: expected those of BlockHash")
    key = made.key(made.begin(b""))
    if not isinstance(key, (bytes, int, str)):
        kind = type(key).__name__
        raise TypeError(f"block_hash {title} has the key {bounded(key)} ({kind}): expected bytes, a number or text")
    return title, made


def extra_keys(lora: str | None = None, salt: str | None = None, image: str | None = None) -> tuple[Any, ...] | None:
    """A namespace that says what changes keys and values besides the tokens, each part with its domain.

    `lora` names an adapter (name and version), `salt` is a tenant's secret, `image` the content hash of what the
    placeholder tokens of the prompt stand for. Without the domains, an adapter called "x" and a tenant whose salt is
    "x" would read each other's pages (vllm#44701). A namespace covers the whole prompt, while vLLM puts the
    image's hash into those blocks alone that it is in, so that the text in front of it is still shared.

    >>> extra_keys(lora="sql-v2", salt="tenant 7")
    (('lora', 'sql-v2'), ('salt', 'tenant 7'))
    >>> extra_keys() is None
    True
    """
    given = (("lora", lora), ("salt", salt), ("image", image))
    for domain, value in given:
        if value is not None and not isinstance(value, str):
            raise TypeError(f"{domain} is {bounded(value)} ({type(value).__name__}): an extra key is a string")
    return tuple((domain, value) for domain, value in given if value is not None) or None


def frame(value: Hashable) -> bytes | None:
    """A namespace as bytes that no other namespace has: its kind, its length, then what it is.

    Takes `None`, texts, bytes, whole numbers and tuples of those; `None` comes back for anything else, which has no
    bytes that mean the same in every process. As in a dict, 1 and True are one name.

    >>> frame("ab"), frame(("a", "b")) == frame(("ab",)), frame(1.5) is None
    (b's2:ab', False, True)
    """
    if value is None:
        return b"n0:"
    if type(value) is str:
        return _framed(b"s", value.encode("utf-8", "surrogatepass"))
    if type(value) is bytes:
        return _framed(b"b", value)
    if isinstance(value, int):
        return _framed(b"i", f"{value:x}".encode())
    if type(value) is not tuple:
        return None
    parts = [frame(part) for part in value]
    return None if None in parts else _framed(b"t", b"".join(part for part in parts if part is not None))


def _framed(kind: bytes, content: bytes) -> bytes:
    return b"%s%d:%s" % (kind, len(content), content)

"""Hashed blocks: one dictionary instead of a tree, from the hash of a prefix to the block at its end, and one queue.

A block is one page of tokens. Its key is a hash of its tokens and of the key before it, so of the whole prefix, on
which its keys and values depend, too. One dictionary finds any cached prefix, and nothing is ever split or joined.

    tokens   [ page 0 ][ page 1 ][ page 2 ]
    key 0    hash of the seed and page 0
    key 1    hash of key 0 and page 1
    key 2    hash of key 1 and page 2

Unlocked blocks are in a queue (`token_trie.py`), and its order is the order of eviction: the least recently used block
first, and of the blocks of one prompt the last one first. So no block is ever cached without the block before it.

After vLLM's `KVCacheManager`, `BlockPool` and `FreeKVCacheBlockQueue`. There, free blocks are one queue, cached or
not, and a cached block leaves it when a request touches it. Here the pool is its own part: this queue holds what is
cached and not in use, `evict` takes from its head what vLLM's `get_new_blocks` would, and a page that was never cached
goes to the pool, where it is handed out before anything is evicted, as in vLLM. vLLM keeps equal blocks of two requests
both; here the second is the caller's to free (rule 4).
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Hashable, Iterator
from hashlib import sha256
from itertools import chain
from operator import attrgetter
from typing import Any

from minikv.errors import bounded, require
from minikv.prefix.token_trie import PageNode, PageRoot, TokenTrie

# A hash makes a key of the key before, which is 32 bytes of seed for the first block, and of the block's packed tokens.
KeyOf = Callable[[bytes, bytes], bytes]
_NAMES = (type(None), bool, int, str, bytes)  # a namespace of these, or tuples of them, has one spelling everywhere


def sha256_key(parent: bytes, tokens: bytes) -> bytes:
    """A key of 32 bytes, the same on every machine; nobody knows how to find two prefixes with one key.

    >>> sha256_key(b"", b"one page").hex()[:16]
    '59e26b3f73655a55'
    """
    return sha256(parent + tokens).digest()


def crc32_key(parent: bytes, tokens: bytes) -> bytes:
    """A checksum of 4 bytes, made to find accidents: anyone can build two prefixes with one key.

    >>> crc32_key(b"1234", b"56789").hex()
    'cbf43926'
    """
    return zlib.crc32(parent + tokens).to_bytes(4, "big")


def python_key(parent: bytes, tokens: bytes) -> bytes:
    """`hash((parent, *tokens))`: a warning, not a choice. It takes no secret, so collisions can be built in advance.

    After vLLM's `hash_block_tokens` of 2024 (CVE-2025-25183).

    >>> python_key(b"", bytes(8)) == hash((0, 0, 0)).to_bytes(8, "little", signed=True)
    True
    """
    numbers = int.from_bytes(parent, "little"), *memoryview(tokens).cast("I")
    return hash(numbers).to_bytes(8, "little", signed=True)


HASHES: dict[str, KeyOf] = {"sha256": sha256_key, "crc32": crc32_key, "python": python_key}


def hash_named(name: str | KeyOf) -> tuple[str, KeyOf]:
    """The name of a hash and the hash itself: a name of `HASHES`, or a function of your own.

    >>> hash_named("sha256")[0], hash_named(crc32_key)[0]
    ('sha256', 'crc32_key')
    >>> hash_named("md5")
    Traceback (most recent call last):
    ValueError: block_hash is 'md5': expected one of sha256, crc32, python, or a function
    """
    if isinstance(name, str) and name in HASHES:
        return name, HASHES[name]
    if isinstance(name, str) or not callable(name):
        raise ValueError(f"block_hash is {bounded(name)}: expected one of {', '.join(HASHES)}, or a function")
    title, key = getattr(name, "__name__", type(name).__name__), name(bytes(32), bytes(4))
    if type(key) is not bytes:
        raise TypeError(f"block_hash {title} has the key {bounded(key)} ({type(key).__name__}): expected bytes")
    return title, name


def extra_keys(lora: str | None = None, salt: str | None = None, image: str | None = None) -> tuple[Any, ...] | None:
    """A namespace that says what changes keys and values besides the tokens, each part with its domain.

    `lora` names an adapter (name and version), `salt` is a tenant's secret, `image` the content hash of what the
    placeholder tokens of the prompt represent. Without the domains, an adapter called "x" and a tenant whose salt is
    "x" would read each other's pages (vllm#44701). A namespace covers the whole prompt, while vLLM puts the
    image's hash only into those blocks that it is in, so that the text before it is still shared.

    >>> extra_keys(lora="sql-v2", salt="tenant 7")
    (('lora', 'sql-v2'), ('salt', 'tenant 7'))
    >>> extra_keys() is None
    True
    """
    given = []
    for domain, value in ("lora", lora), ("salt", salt), ("image", image):
        if value is None:
            continue
        if not isinstance(value, str):
            raise TypeError(f"{domain} is {bounded(value)} ({type(value).__name__}): an extra key is a string")
        given.append((domain, value))
    return tuple(given) or None


def spelled(namespace: Hashable) -> bytes:
    """A namespace as bytes, framed, so that no two of them run into each other.

    >>> spelled(("ab", "c")) == spelled(("a", "bc"))
    False
    >>> spelled(object())                                      # doctest: +ELLIPSIS
    Traceback (most recent call last):
    TypeError: namespace is <object object at ...: a hash needs text, bytes, whole numbers or tuples of them
    """
    if isinstance(namespace, tuple):
        parts = b"".join(map(spelled, namespace))
        return b"tuple %d:%b" % (len(parts), parts)
    if type(namespace) not in _NAMES:
        raise TypeError(f"namespace is {bounded(namespace)}: a hash needs text, bytes, whole numbers or tuples of them")
    text: Any = namespace
    if not isinstance(namespace, bytes):
        text = (f"{namespace:x}" if isinstance(namespace, int) else str(namespace)).encode("utf-8", "surrogatepass")
    return b"%b %d:%b" % (type(namespace).__name__.encode(), len(text), text)


class Block(PageNode):
    """One page of tokens that is cached, and its key: a hash of its tokens and of all tokens before them.

    >>> block = HashBlockCache(page_size=2).insert([1, 2, 3, 4], [7, 8]).node
    >>> block, block.num_hashed_tokens, block.parent.tokens
    (Block(id=2, tokens=[3, 4], pages=[8], ref_count=0), 4, [1, 2])
    """

    __slots__ = ("key",)
    key: Any

    @property
    def num_hashed_tokens(self) -> int:
        """Return how many tokens the key covers."""
        return self.end


class HashBlockCache(TokenTrie):
    """A prefix cache in a dictionary of block hashes; keeps the rules of `PrefixCache` but 14, for nothing is joined.

    `page_size` is in tokens. `block_hash` is "sha256" (default), "crc32" (fast, for prompts that you trust), "python"
    (a warning) or a function of your own (`KeyOf`); `seed` goes into every key, so that two deployments share
    none. With `verify` the tokens of a key's block are compared, and a collision costs time; without, as in vLLM, equal
    keys are taken for equal tokens, and a collision serves another prompt's keys and values. By default they are
    compared for every hash but SHA-256, which nobody knows how to make collide. A namespace is part of the key
    (`extra_keys` makes one of an adapter, a salt or an image). Each block of a prompt costs a hash when it is looked
    up, and a step when it is used or locked: this is made for pages of 16 or more.

    >>> cache = HashBlockCache(page_size=2)
    >>> cache.insert([1, 2, 3, 4], [10, 11])
    Insertion(prefix_length=0, length=4)
    >>> match = cache.match_prefix([1, 2, 9, 9])
    >>> match
    Match(length=2, pages=[10])
    >>> cache.lock(match.handle); cache.evict(4).tolist()   # the locked block stays
    [11]
    >>> cache.unlock(match.handle); cache
    HashBlockCache(page_size=2, block_hash='sha256', evictable=2, protected=0)
    """

    unique_pages = True

    def __init__(
        self,
        page_size: int = 1,
        block_hash: str | KeyOf = "sha256",
        seed: str | bytes = b"",
        verify: bool | None = None,
    ):
        self.block_hash, self._key_of = hash_named(block_hash)
        if not isinstance(seed, (str, bytes)):
            raise TypeError(f"seed is {bounded(seed)} ({type(seed).__name__}): expected text or bytes")
        self.seed = seed
        self.verify = self._key_of is not sha256_key if verify is None else bool(verify)
        super().__init__(page_size)

    def _clear(self) -> None:
        self._table: dict[bytes, list[Block]] = {}  # a key has several blocks only if keys collide
        self._unspelled = 0
        super()._clear()

    def _new_root(self, namespace: Hashable) -> PageRoot:
        root = PageRoot(namespace)
        try:
            name = spelled((self.seed, namespace))
        except TypeError:  # the namespace has no spelling of its own: a number represents it
            self._unspelled += 1
            name = spelled((self.seed, None, self._unspelled))
        root.key = sha256(name).digest()
        return root

    def nodes(self) -> list[Block]:
        """Every block, in the order in which they were cached: parents before children."""
        return sorted(chain.from_iterable(self._table.values()), key=attrgetter("id"))

    def queue(self) -> Iterator[Block]:
        """The unlocked blocks in the order in which they would be evicted: by last use, then the deepest first.

        >>> cache = HashBlockCache()
        >>> _ = cache.insert([1, 2, 3], [4, 5, 6])
        >>> [block.tokens for block in cache.queue()]
        [[3], [2], [1]]
        """
        return iter(self._queue)

    def _child(self, node: Any, text: bytes) -> Block | None:
        for block in self._table.get(self._key_of(node.key, text), ()):
            if block.parent is node and not (self.verify and block.key_bytes != text):
                return block
        return None

    def _make_node(self, text: bytes, page: int, parent: Any) -> Block:
        block = Block(text, page, parent)
        block.key = self._key_of(parent.key, text)
        return block

    def _link(self, node: Any) -> None:
        self._table.setdefault(node.key, []).append(node)

    def _unlink(self, node: Any) -> None:
        blocks = self._table[node.key]
        blocks.remove(node)
        if not blocks:
            del self._table[node.key]
        node.key = None

    def _check_node(self, node: Any) -> None:
        super()._check_node(node)
        require(node.key == self._key_of(node.parent.key, node.key_bytes), f"node {node.id}: its key is another's")

    def __repr__(self) -> str:
        how = f"page_size={self.page_size}, block_hash={self.block_hash!r}"
        return f"HashBlockCache({how}, evictable={self._evictable}, protected={self._protected})"

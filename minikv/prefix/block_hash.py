"""Block hashes: one key for a page of tokens and for everything before it.

Two blocks get the same key when their tokens, and all tokens before them, are the same. A key depends on the whole
prefix because a page's keys and values do. So one dictionary from keys to blocks finds any cached prefix.

    tokens   [ page 0 ][ page 1 ][ page 2 ]
    key 0    hash of the seed and page 0
    key 1    hash of key 0 and page 1
    key 2    hash of key 1 and page 2

A hash is a function of two byte strings, the key of the block before and the tokens of this one, packed. It returns the
key of this block, in bytes. The seed, which stands in for the key of the block before the first one, is 32 bytes.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Hashable
from hashlib import sha256
from typing import Any

from minikv.errors import bounded

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
    key = hash((int.from_bytes(parent, "little"), *memoryview(tokens).cast("I")))
    return key.to_bytes(8, "little", signed=True)


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
    placeholder tokens of the prompt stand for. Without the domains, an adapter called "x" and a tenant whose salt is
    "x" would read each other's pages (vllm#44701). A namespace covers the whole prompt, while vLLM puts the
    image's hash only into those blocks that it is in, so that the text before it is still shared.

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
    if isinstance(namespace, bytes):
        text = namespace
    else:
        text = (f"{namespace:x}" if isinstance(namespace, int) else str(namespace)).encode("utf-8", "surrogatepass")
    return b"%b %d:%b" % (type(namespace).__name__.encode(), len(text), text)

"""One packed form for tokens, and one comparison.

A prefix cache compares long runs of token ids all day. As Python lists, a comparison costs a Python step for each
token; packed four bytes to a token, the same comparison is a single `memcmp`. This module packs, unpacks and
compares. It does not tokenise text, and it knows nothing of trees.

    tokens   [7, 8, 9]
    packed   07 00 00 00  08 00 00 00  09 00 00 00        (this machine's byte order)
"""

from __future__ import annotations

import operator
from array import array
from collections.abc import Collection, Iterator, Sequence
from typing import Any, Final, NoReturn, SupportsIndex, Union, overload

import numpy as np

from minikv.errors import bounded, brief, whole_number

Array = np.ndarray[Any, Any]
TOKEN_BYTES = 4
TOKEN_LIMIT = 2 ** (8 * TOKEN_BYTES)
_CODE: Final = "I"  # four bytes wherever CPython runs
_TOKEN = ("tokens", "a token is an integer in [0, 2**32)", TOKEN_LIMIT)


class PackedTokens(Sequence[int]):
    """Token ids packed into immutable bytes, four to a token; behaves as a sequence of ints.

    Made by `pack`. `data` is the bytes; `len`, indexing and slicing count in tokens. `head` is the bytes of the tokens
    that these were appended to (by `+`), if any: what has looked at that object need not look at it again.

    >>> key = pack([7, 8, 9])
    >>> len(key), key[1], key[:-1]
    (3, 8, PackedTokens([7, 8]))
    """

    __slots__ = ("data", "head")

    def __init__(self, data: bytes):
        if type(data) is not bytes:
            if not isinstance(data, (bytes, bytearray, memoryview)):
                raise TypeError(
                    f"data is {bounded(data)} ({type(data).__name__}): expected packed bytes, made by pack()"
                )
            data = bytes(data)
        if len(data) % TOKEN_BYTES:
            raise ValueError(f"{len(data)} bytes are not whole tokens of {TOKEN_BYTES} bytes")
        self.data = data
        self.head: bytes | None = None

    def __len__(self) -> int:
        return len(self.data) // TOKEN_BYTES

    @overload
    def __getitem__(self, at: SupportsIndex) -> int: ...
    @overload
    def __getitem__(self, at: slice) -> PackedTokens: ...
    def __getitem__(self, at: Any) -> Any:
        if not isinstance(at, slice):
            return memoryview(self.data).cast(_CODE)[at]
        start, stop, step = at.indices(len(self))
        if step != 1:
            return pack(self.tolist()[at])
        data = self.data[start * TOKEN_BYTES : stop * TOKEN_BYTES]
        some = PackedTokens(data)
        if start == 0 and self.head is not None and len(self.head) <= len(data):
            some.head = self.head
        return some

    def __iter__(self) -> Iterator[int]:
        return iter(memoryview(self.data).cast(_CODE))

    def __add__(self, more: TokensLike) -> PackedTokens:
        """These tokens followed by `more`; the result remembers them as its `head`.

        >>> pack([1, 2]) + [3]
        PackedTokens([1, 2, 3])
        """
        return self.followed_by(pack(more).data)

    def followed_by(self, more: bytes | bytearray) -> PackedTokens:
        """These tokens followed by `more`, which are packed already."""
        both = PackedTokens(self.data + more)
        both.head = self.data
        return both

    def __eq__(self, other: object) -> bool:
        return self.data == other.data if isinstance(other, PackedTokens) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.data)

    def tolist(self) -> list[int]:
        """The token ids as a list of Python ints.

        >>> pack((1, 2)).tolist()
        [1, 2]
        """
        return memoryview(self.data).cast(_CODE).tolist()

    def __repr__(self) -> str:
        return f"PackedTokens({brief(self)})"


TokensLike = Union[PackedTokens, Sequence[int], "array[int]", Any]


def pack(tokens: TokensLike) -> PackedTokens:
    """Pack a one-dimensional sequence of token ids in [0, 2**32) into `PackedTokens`, copying them.

    Takes a list, tuple, range, `array`, numpy array, torch tensor (any device), bytes (byte values as token ids) or
    what `pack` itself returned (given back as it is, so a caller converts once). Raises `TypeError` for what is not
    a sequence of integers and `ValueError` for a value or a shape that does not fit; both name the first bad value.
    A Python bool in a list counts as the int that it is.

    >>> pack([1, 2, 3]) == pack(range(1, 4))
    True
    >>> pack([5, -1])
    Traceback (most recent call last):
    ValueError: tokens[1] is -1: a token is an integer in [0, 2**32)
    """
    if type(tokens) is PackedTokens:
        return tokens
    if isinstance(tokens, (list, tuple, range, array)):
        return PackedTokens(_pack_items(tokens))
    if isinstance(tokens, str):
        raise TypeError(f"tokens are the string {tokens[:20]!r}: a token is an integer, so tokenize the text first")
    if isinstance(tokens, (bytes, bytearray)):
        return PackedTokens(np.frombuffer(tokens, np.uint8).astype(np.uint32).tobytes())
    if hasattr(tokens, "__array__") or isinstance(tokens, memoryview):
        return PackedTokens(_pack_array(to_numpy(tokens, "tokens")))
    if isinstance(tokens, Sequence):
        return PackedTokens(_pack_items(list(tokens)))
    raise TypeError(f"tokens are a {type(tokens).__name__}: expected a one-dimensional sequence of integers")


def to_numpy(values: Any, name: str) -> Array:
    """A one-dimensional numpy view of an array-like `values` (a tensor leaves its device), or an error naming `name`.

    >>> to_numpy(memoryview(b"ab"), "tokens").tolist()
    [97, 98]
    >>> to_numpy(np.zeros((2, 3)), "tokens")
    Traceback (most recent call last):
    ValueError: tokens have shape (2, 3): expected one dimension
    """
    if hasattr(values, "detach"):  # a torch tensor, without importing torch
        try:
            values = values.detach().cpu().numpy()
        except TypeError:
            raise TypeError(f"{name} are a tensor of {values.dtype}: expected integers") from None
        except NotImplementedError:
            raise ValueError(
                f"{name} are a tensor on {values.device}, which has no values: expected integers"
            ) from None
    found: Array = np.asarray(values)
    if found.ndim != 1:
        raise ValueError(f"{name} have shape {found.shape}: expected one dimension")
    return found


def integers(values: Any, name: str, rule: str, limit: int, skip: int = 0) -> Array:
    """`values` as a one-dimensional integer array, all in [0, limit); the error names the first that is not.

    Takes what `pack` takes, but for bytes. The array may share the caller's memory. A Python bool counts as the int
    that it is; an array of bools is refused. The first `skip` values are not looked at, and mean nothing in the result.

    >>> integers([4, -1], "slots", "a slot is an integer in [0, 2**31)", 2**31)
    Traceback (most recent call last):
    ValueError: slots[1] is -1: a slot is an integer in [0, 2**31)
    """
    if isinstance(values, (array, memoryview)) or hasattr(values, "__array__"):
        found = to_numpy(values, name)
    elif isinstance(values, Sequence) and not isinstance(values, (str, bytes, bytearray)):
        items = values if isinstance(values, (list, tuple, range)) else list(values)
        items = [0] * min(skip, len(items)) + list(items[skip:]) if skip else items
        try:
            found = np.frombuffer(array("q", items), np.int64)
        except (TypeError, OverflowError):
            refuse_values(items, name, rule, limit)
    else:
        raise TypeError(f"{name} are a {type(values).__name__}: expected a one-dimensional sequence of integers")
    if found.dtype.kind == "O":
        return integers(found.tolist(), name, rule, limit, skip)
    if found.size and found.dtype.kind not in "iu":
        raise TypeError(f"{name}[0] is {bounded(found[0].item())} ({found.dtype}): {rule}")
    seen = found[skip:]
    if seen.size and not 0 <= int(seen.min()) <= int(seen.max()) < limit:
        refuse_values([0] * skip + seen.tolist(), name, rule, limit)
    return found


def refuse_values(values: Sequence[Any], name: str, rule: str, limit: int) -> NoReturn:
    """Raise the error that names the first of `values` that is not an integer in [0, limit).

    >>> refuse_values([1, 2.5], "tokens", "a token is an integer in [0, 2**32)", TOKEN_LIMIT)
    Traceback (most recent call last):
    TypeError: tokens[1] is 2.5 (float): a token is an integer in [0, 2**32)
    """
    for i, value in enumerate(values):
        try:
            number = operator.index(value)
        except TypeError:
            raise TypeError(f"{name}[{i}] is {bounded(value)} ({type(value).__name__}): {rule}") from None
        if not 0 <= number < limit:
            raise ValueError(f"{name}[{i}] is {bounded(number)}: {rule}")
    raise TypeError(f"{name} are a {type(values).__name__} that cannot be packed: {rule}")


def end_tokens(eos: Collection[int]) -> frozenset[int]:
    """`eos` as a set of token ids, or an error if it is not a collection of them.

    >>> sorted(end_tokens([2, 7, 2]))
    [2, 7]
    """
    if not isinstance(eos, Collection) or isinstance(eos, (str, bytes)):
        raise TypeError(f"eos is {bounded(eos)}: expected a collection of token ids")
    return frozenset(map(token_id, eos))


def token_id(token: int) -> int:
    """`token` as an int, or an error if it cannot be a token.

    >>> token_id(-1)
    Traceback (most recent call last):
    ValueError: token is -1: a token is an integer in [0, 2**32)
    """
    _, rule, limit = _TOKEN
    return whole_number("token", token, 0, rule, limit)


def _pack_array(values: Array) -> bytes:
    if values.dtype == np.int32 and values.size and int(values.min()) >= 0:
        return values.tobytes()  # the common case: the same bytes mean the same numbers
    if values.size and values.dtype != np.uint32:
        values = integers(values, *_TOKEN)
    return values.astype(np.uint32, copy=False).tobytes()


def _pack_items(tokens: Any) -> bytes:
    try:
        return array(_CODE, tokens).tobytes()
    except (TypeError, OverflowError):
        refuse_values(tokens, *_TOKEN)


def common_prefix(a: TokensLike, b: TokensLike) -> int:
    """The number of leading tokens on which `a` and `b` agree.

    >>> common_prefix([1, 2, 3, 4], [1, 2, 9])
    2
    """
    first, second = pack(a).data, pack(b).data
    return common_bytes(first, second, 0, len(second), TOKEN_BYTES) // TOKEN_BYTES


def common_bytes(edge: bytes | memoryview, data: bytes, at: int, end: int, step: int) -> int:
    """Return how many bytes of `edge` agree with `data[at:end]`, in whole steps of `step` bytes.

    A binary search whose every probe is one memcmp and looks only at bytes not yet known to agree, so that the
    whole search reads the edge about twice. `step` is the page in bytes: the answer never cuts a page.

    >>> common_bytes(b"aabbcc", b"xxaabbzz", 2, 8, 2)
    4
    """
    low, high = 0, min(len(edge), end - at) // step
    while low < high:
        middle = (low + high + 1) // 2
        if data.startswith(edge[low * step : middle * step], at + low * step):
            low = middle
        else:
            high = middle - 1
    return low * step

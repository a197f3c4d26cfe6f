"""Logs of requests: one JSON object per line, with the whole prompt of each request in it.

An object is a body as the common APIs take it (`messages` with `tools`, `system` beside `messages`, a plain `prompt`),
or holds one. What else it says is used where it is there: the time, the conversation, the tokens of the answer. Two
prompts share blocks only in the same namespace: of one model, with one salt (see `bodies`).

A prompt is counted in the tokens of a tokenizer, or in the bytes of its UTF-8 where there is none. It is cut piece by
piece: a token never reaches from one message into the next, as the marks of a chat template see to. A very long piece
is cut every 131,072 characters first. So prompts with equal beginnings get equal tokens.

The ids of blocks are equal exactly where everything up to the end of the block is equal. Each block's hash is a link
of a chain, as engines name their blocks:

    link = hash(link of the block before, units of the block)         the first link: a salt and the namespace

The ids number the links in the order in which they first appear. They say nothing of a prompt, and
without the salt nobody can test whether a guessed prompt was among those that were numbered.
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timezone
from hashlib import blake2b
from os import fspath
from typing import TYPE_CHECKING, Any

from minikv.errors import shown
from minikv.files import FileName
from minikv.tokens import TOKEN_BYTES, PackedTokens, pack
from minikv.traffic.trace_file import LARGEST, Conversations, TraceRequest, located
from minikv.untrusted import refusal
from minikv_tools.bodies import Body, read_body
from minikv_tools.exports import finishes
from minikv_tools.formats import FIELDS
from minikv_tools.usage import JsonObject, attributes_of

if TYPE_CHECKING:
    from minikv.serving.tokenizer import Tokenizer

BYTES_OF_A_TOKEN = 4  # about what English and code take
TOKEN_BLOCK = 16  # as vLLM has them
ABSENT = "(none)"  # the value of a field that an entry lacks
_LONGEST = 2**17  # characters that a tokenizer is given at once
_KEPT = 512  # texts whose tokens are kept: a conversation repeats what was said before


class Units:
    r"""Cuts texts into units, packed in `width` bytes each: with a `tokenizer`, else into bytes.

    `unit` is "tokens" or "bytes", and a token is taken to have `scale` of them; `block_size` is what a block holds
    where nobody says otherwise. With `ids`, prompts are lists of token ids, which are the units.

    >>> units = Units()
    >>> units.unit, units.scale, units.block_size, units.packed(["Grö", "ße"])
    ('bytes', 4, 64, b'Gr\xc3\xb6\xc3\x9fe')
    """

    def __init__(self, tokenizer: Tokenizer | None = None, ids: bool = False):
        self._tokens: Callable[[str], bytes] | None = None
        self.unit, self.width, self.scale, self.ids = "bytes", 1, BYTES_OF_A_TOKEN, ids
        if ids or tokenizer is not None:
            self.unit, self.width, self.scale = "tokens", TOKEN_BYTES, 1
        if tokenizer is not None:
            encode = tokenizer.encode
            self._tokens = functools.lru_cache(_KEPT)(lambda text: pack(encode(_well_formed(text).decode())).data)
        self.block_size = TOKEN_BLOCK * self.scale

    def packed(self, texts: Iterable[str]) -> bytes:
        """The units of a prompt that is made of `texts`, each in `width` bytes."""
        if self.ids:
            return "".join(texts).encode("utf-32-le", "surrogatepass")
        if self._tokens is None:
            return _well_formed("".join(texts))
        parts = (text[at : at + _LONGEST] for text in texts for at in range(0, len(text), _LONGEST))
        return b"".join(map(self._tokens, parts))

    def count(self, text: str) -> int:
        """Return how many units a text has.

        >>> Units().count("Größe")
        7
        """
        return len(self.packed([text])) // self.width


def units_for(units: Units, *bodies: Body) -> Units:
    """Return `units`, or the tokens themselves where the prompts of `bodies` are token ids.

    >>> from minikv_tools.bodies import Body, read_body
    >>> units_for(Units(), read_body({"prompt": [5, 7]})).unit
    'tokens'
    """
    kinds = {body.has_ids for body in bodies if body.pieces}
    if len(kinds) > 1:
        raise ValueError("one prompt is a list of token ids and the other is text: expected the same for both")
    return Units(ids=True) if True in kinds else units


def units_of(folder: FileName | None) -> Units:
    """Return the unit of prompts: the tokens of the checkpoint in `folder`, or bytes.

    >>> units_of(None).unit
    'bytes'
    """
    if folder is None:
        return Units()
    from minikv.serving.tokenizer import load_tokenizer  # the tokenizers library comes with an extra

    try:
        return Units(load_tokenizer(folder))
    except (OSError, ValueError) as error:
        raise refusal(f"{shown(fspath(folder))} has no tokenizer that can be read", error) from None


def _well_formed(text: str) -> bytes:
    """`text` in UTF-8, with a question mark for each half of a pair of surrogates."""
    return text.encode(errors="replace")


def read_log(
    lines: Iterable[bytes | str], units: Units, block_size: int, name: str = "log", start: int = 1, salt: bytes = b""
) -> Iterator[TraceRequest]:
    """Read a log, holding one line at a time: each request with the ids of its prompt's whole blocks.

    `block_size` counts `units`. Times are relative to the first request's, and never below 0; a line that does not say
    when it came has the time of the one before. Raises `TraceError` at the first line that is not a request.

    >>> lines = ['{"prompt": "aabb", "time": 5}', '{"prompt": "aabbcc", "time": 7, "session_id": "s"}']
    >>> for request in read_log(lines, Units(), block_size=2):
    ...     print(request.timestamp, request.input_length, request.blocks.tolist(), request.conversation)
    0.0 4 [0, 1] None
    2000.0 6 [0, 1, 2] 0
    """
    ids, conversation, begin, now = BlockIds(salt), Conversations(), None, 0.0
    received = set[str]()

    def request(entry: JsonObject) -> TraceRequest | None:
        nonlocal begin, now
        if finishes(entry, received):
            return None
        body = read_body(entry)
        if body.pieces and body.has_ids != units.ids:
            raise ValueError("the log has both text prompts and token ids: expected only one kind")
        packed = units.packed(piece.text for piece in body.pieces)
        blocks = ids.of(packed, block_size * units.width, body.namespace)
        _, named = conversation_of(entry) or ("", None)
        place = conversation(named)
        if (time := time_of(entry)) is not None:
            begin = time if begin is None else begin
            now = max(0.0, time - begin)
        return TraceRequest(now, len(packed) // units.width, answer_tokens(entry), blocks, place)

    return filter(None, located(name, lines, request, start))


def answer_tokens(entry: JsonObject) -> int:
    """The tokens of the answer, where a log says them (`usage`, itself or in a `response`), else 0.

    >>> answer_tokens({"prompt": "Hi", "response": {"usage": {"completion_tokens": 7}}})
    7
    """
    said = (
        part.get(key)
        for part in _objects(entry, FIELDS["where a bill may be"], 3)
        for key in FIELDS["tokens of an answer"]
    )
    return next((value for value in said if type(value) is int and 0 < value <= LARGEST), 0)


_EPOCH = ((1e17, 1e-6), (1e14, 1e-3), (1e11, 1.0))  # from where on a number counts ns, µs or ms, and its ms
_LATEST = 1e19
_DIGITS = re.compile("[0-9]{10,20}")  # a date has fewer


def _objects(
    entry: JsonObject, keys: Sequence[str] = FIELDS["where an id or a time may be"], depth: int = 2
) -> Iterator[JsonObject]:
    """`entry`, and what lies in it under one of `keys`, so many levels deep."""
    yield entry
    for key in filter(entry.__contains__, keys if depth else ()):
        inner = attributes_of(entry[key])
        if isinstance(inner, Mapping):
            yield from _objects(inner, keys, depth - 1)


def conversation_of(entry: JsonObject) -> tuple[str, str] | None:
    """The field in which a log's entry names its conversation, and the id; `None` if it has none.

    >>> conversation_of({"metadata": {"session_id": 7}, "prompt": "Hi"}), conversation_of({"prompt": "Hi"})
    (('session_id', '7'), None)
    """
    for part in _objects(entry):
        # LangSmith's session is a project.
        for key in () if "run_type" in part else FIELDS["ids of a conversation"]:
            value = part.get(key)
            if isinstance(value, (str, int)) and not isinstance(value, bool) and value != "":
                return (key, str(value)) if isinstance(value, str) or abs(value) < LARGEST else None
    return None


def field_of(entry: JsonObject, path: str) -> str:
    """The value of a field as text, with dots between names; `(none)` where there is none.

    >>> field_of({"metadata": {"route": "/chat", "gen_ai.user": 7}}, "metadata.gen_ai.user"), field_of({}, "user")
    ('7', '(none)')
    """
    value: Any = entry
    while path:
        inner = value if isinstance(value, Mapping) else {}
        name, _, path = (path, "", "") if path in inner else path.partition(".")
        value = inner.get(name)
    return ABSENT if value is None else str(value)[:80]


def time_of(entry: JsonObject) -> float | None:
    """When the request came, in milliseconds, or `None` where the entry does not say or is not clear.

    A text is a date of ISO 8601, and like a `datetime` in UTC where it names no zone. A number counts seconds, or
    milliseconds where its name ends in `_ms`; one as large as a date in milli-, micro- or nanoseconds counts those.

    >>> time_of({"timestamp": 1.5}), time_of({"created_at": "1970-01-01T00:00:02Z"}), time_of({"timestamp_ms": 7})
    (1500.0, 2000.0, 7.0)
    """
    for part in _objects(entry):
        for key in FIELDS["times of a request"]:
            value = part.get(key)
            value = int(value) if isinstance(value, str) and _DIGITS.fullmatch(value) else value
            value = value.isoformat() if isinstance(value, datetime) else value
            found = _date(value) if isinstance(value, str) else _number(value, key.endswith("_ms"))
            if found is not None:
                return found
    return None


def _number(value: Any, milliseconds: bool) -> float | None:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= _LATEST:
        return None
    if milliseconds:
        return float(value)
    return value * next((factor for least, factor in _EPOCH if value >= least), 1000.0)


def _date(text: str) -> float | None:
    try:
        date = datetime.fromisoformat(text.strip()[:40].replace("Z", "+00:00"))
        found = (date if date.tzinfo else date.replace(tzinfo=timezone.utc)).timestamp() * 1000.0
    except (ValueError, OverflowError, OSError):
        return None
    return found if math.isfinite(found) and found >= 0 else None


_LINK = 16  # bytes


class BlockIds:
    """Numbers the blocks of prompts that come one after the other.

    >>> ids = BlockIds(b"a salt")
    >>> [ids.of(prompt, 2).tolist() for prompt in (b"aabb", b"aabbc", b"bbaa", b"aaccbb", b"")]
    [[0, 1], [0, 1], [2, 3], [0, 4, 5], []]
    >>> ids.of(b"aabb", 2, {"model": "another"}).tolist()
    [6, 7]
    """

    def __init__(self, salt: bytes):
        self._salt, self._ids = blake2b(salt).digest(), dict[bytes, int]()

    def of(self, units: bytes, stride: int, namespace: Mapping[str, str] | None = None) -> PackedTokens:
        """The ids of the whole blocks of a prompt; `stride` is the bytes of a block, what fills none is left out."""
        ids, known = list[int](), self._ids
        link = blake2b(repr(sorted((namespace or {}).items())).encode(), key=self._salt).digest()
        for end in range(stride, len(units) + 1, stride):
            link = blake2b(link + units[end - stride : end], digest_size=_LINK).digest()
            ids.append(known.setdefault(link, len(known)))
        return pack(ids)


def anonymous(requests: Iterable[TraceRequest]) -> Iterator[TraceRequest]:
    """The requests with ids that number the blocks as they appear, and with times that count from the first request.

    What an id or a date may have said of the contents or of the day is gone; what is shared stays so.

    >>> trace = [TraceRequest(1e12 + at, 30, 1, pack(ids)) for at, ids in enumerate(([7, 9], [7, 3]))]
    >>> [(request.timestamp, request.blocks.tolist()) for request in anonymous(trace)]
    [(0.0, [0, 1]), (1.0, [0, 2])]
    """
    known, begin = dict[int, int](), None
    for request in requests:
        begin = request.timestamp if begin is None else begin
        ids = [known.setdefault(block, len(known)) for block in request.blocks]
        yield request._replace(timestamp=max(0.0, request.timestamp - begin), blocks=pack(ids))

"""What a log says of a request beside its body: when it came, and which conversation it belongs to."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from datetime import datetime, timezone
from typing import Any

_CONVERSATIONS = ("conversation_id", "session_id", "thread_id", "chat_id", "conversation", "session")
_TIMES = ("timestamp", "timestamp_ms", "time", "ts", "created_at", "created", "start_time", "date")
_INNER = ("metadata", "request", "body", "request_body", "payload", "data")  # where a log may hide them
_EPOCH = ((1e17, 1e-6), (1e14, 1e-3), (1e11, 1.0))  # from where on a number counts ns, µs or ms, and its ms
_LARGEST = 2.0**53
_LATEST = 1e19


def _objects(entry: Mapping[str, Any], depth: int = 2) -> Iterator[Mapping[str, Any]]:
    yield entry
    for key in _INNER if depth else ():
        if isinstance(entry.get(key), Mapping):
            yield from _objects(entry[key], depth - 1)


def conversation_of(entry: Mapping[str, Any]) -> str | None:
    """The id of the conversation that a log's entry names, or `None`.

    >>> conversation_of({"metadata": {"session_id": 7}, "prompt": "Hi"}), conversation_of({"prompt": "Hi"})
    ('7', None)
    """
    for part in _objects(entry):
        for key in _CONVERSATIONS:
            value = part.get(key)
            if isinstance(value, (str, int)) and not isinstance(value, bool) and value != "":
                return str(value) if isinstance(value, str) or abs(value) < _LARGEST else None
    return None


def time_of(entry: Mapping[str, Any]) -> float | None:
    """When the request came, in milliseconds, or `None` where the entry does not say or is not clear.

    A text is a date of ISO 8601, in UTC where it names no zone. A number counts seconds, or milliseconds where its name
    ends in `_ms`; one as large as a date in milli-, micro- or nanoseconds counts those.

    >>> time_of({"timestamp": 1.5}), time_of({"created_at": "1970-01-01T00:00:02Z"}), time_of({"timestamp_ms": 7})
    (1500.0, 2000.0, 7.0)
    """
    for part in _objects(entry):
        for key in _TIMES:
            value = part.get(key)
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

"""An operation in words: its verb and its arguments, and what it returned."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

from minikv.course.film.state import State, thing_kind
from minikv.errors import bounded, truncated
from minikv.testing.snapshot import Label, label_of, legible, plain, ranges, shorten
from minikv.testing.watch import Call

_MOST, _MOST_OF_AN_ERROR = 60, 200


def request_name(sequence: Any) -> str:
    """The name of a manager's sequence that no engine runs: it is the life of one request."""
    return f"r{sequence.number}"


def operation(call: Call, label: Label | None, unit: str, name_of: Callable[[Any], str] = request_name) -> str:
    """Describe a call: a verb and its arguments; `unit` is what a pool's ids are, slot or page.

    `name_of` names a manager's sequence.

    >>> from minikv import RadixCache
    >>> call = Call(RadixCache(), "insert", {"tokens": [1, 2, 3], "slots": [7, 8, 9]})
    >>> operation(call, None, "slot"), operation(call, lambda tokens: "hello", "slot")
    ('insert [1 2 3]', 'insert hello')
    """
    verb = call.verb
    match _parts(call):
        case ("cache", "match_prefix" | "acquire" | "insert", tokens, *_):
            namespace = call.arguments.get("namespace")
            where = "" if namespace is None else f" in namespace {bounded(namespace, _MOST)}"
            return f"{verb.removesuffix('_prefix')} {_tokens(tokens, label)}{where}"
        case ("engine", "submit", tokens, *_) | ("manager", "start", tokens, *_):
            return f"{verb} {_tokens(tokens, label)}"
        case ("cache", "lock" | "unlock", prefix, *_):
            length = getattr(getattr(prefix, "handle", prefix), "length", None)
            return verb if length is None else f"{verb} a prefix of {counted(length)}"
        case ("cache", "evict", tokens, windows):
            return f"evict {f'{counted(tokens)} and ' if tokens else ''}{counted(windows, 'window')}"
        case ("pool", "free" | "occupy" | "take", ids, *_):
            return f"{verb} {numbered(ids, unit)}"
        case ("pool", "alloc_to", row):
            return f"alloc {len(row)}"
        case ("table", *_) | ("cache", "next_move" | "load" | "settle", *_):
            return _operation_on_a_table_or_a_move(call)
        case ("manager", _, sequence, *more) if hasattr(sequence, "number") and not isinstance([*more, 0][0], str):
            return " ".join([verb, name_of(sequence), *(_amount(verb, value, label) for value in more[:1])])
        case ("engine", "abort", request):
            return f"abort {request_name(request)}"
    return " ".join([verb.replace("_", " "), *(_argument(value) for value in call.arguments.values())]).strip()


def _parts(call: Call) -> tuple[Any, ...]:
    """The kind of its thing, its verb and its arguments."""
    return thing_kind(call.thing), call.verb, *call.arguments.values()


def _operation_on_a_table_or_a_move(call: Call) -> str:
    match (call.verb, *call.arguments.values()):
        case ("next_move", *_):
            return "copy to host"
        case ("settle", move, *arrived) if hasattr(move, "to_host"):
            went = "arrived" if all(arrived) else "failed to arrive"
            return f"{went} {'in host memory' if move.to_host else 'on the device'}"
        case ("load" | "settle", *_):
            return call.verb
        case ("append", row, slots):
            return f"append {numbered(slots)} to row {row}"
        case ("close", row):
            return f"close row {row}"
    return f"{call.verb} a row"


def _amount(verb: str, value: Any, label: Label | None) -> str:
    """Return how far a sequence advances, or what it is extended by."""
    return f"{'to' if verb == 'truncate' else 'by'} {value if isinstance(value, int) else _tokens(value, label)}"


def caption(said: str, call: Call, before: State, now: State, unit: str) -> str:
    """An operation, and what happened or what it raised, as one sentence; `before` and `now` are the states around it.

    >>> from minikv import FreeListPool
    >>> call = Call(FreeListPool(4), "alloc", {"num_pages": 2})
    >>> call.result = [0, 1]
    >>> caption("alloc 2", call, State(), State(), "slot")
    'alloc 2: slots 0-1'
    """
    if call.error is not None:
        return f"{said} raised {type(call.error).__name__}: {bounded_line(str(call.error), _MOST_OF_AN_ERROR)}"
    try:
        found = _outcome(call, before, now, unit)
    except (AttributeError, TypeError, ValueError, LookupError):  # a learner's verb may return anything
        found = ""
    return f"{said}: {found}" if found else said


def _outcome(call: Call, before: State, now: State, unit: str) -> str:
    match _parts(call):
        case ("cache", "match_prefix" | "acquire", tokens, *_):
            return _found(len(_listed(tokens)), call.result)
        case ("cache", "insert", tokens, *_):
            return _inserted(len(_listed(tokens)), call.result)
        case ("cache", "lock" | "unlock", *_):
            return f"{_are(now.sizes['protected'])} now protected from eviction, {now.sizes['evictable']} evictable"
        case ("cache", "evict", wanted, *_):
            return _evicted(call, wanted, before.nodes != now.nodes, unit)
        case ("cache", "reset", *_):
            return "the cache is empty now"
        case ("pool", "alloc", *_) | ("cache", "next_move" | "load", *_):
            return "nothing" if call.result is None else _given(call, unit)
        case ("pool", "alloc_to", row):
            return numbered(row, unit)
        case ("pool", "free" | "occupy" | "take", *_):
            return f"{_are(sum(map(call.thing.is_free, range(call.thing.size))), unit)} free now"
        case ("table", "append", row, *_):
            return f"the row has {counted(len(call.thing.slots(row)), 'slot')} now"
        case ("table", "open", *_):
            return f"row {call.result}"
        case ("table", "close", *_):
            return f"it had {numbered(call.result)}"
    return _outcome_for_a_request(call, before, now, unit)


def _outcome_for_a_request(call: Call, before: State, now: State, unit: str) -> str:
    match _parts(call):
        case ("engine", "submit", *_):
            return f"{request_name(call.result)} waits"
        case ("engine", "step", *_):
            return _stepped(call.result, before != now)
        case ("manager", "start", tokens, *_):
            name = "" if call.caller else f"{request_name(call.result)} begins; "  # an engine may name it otherwise
            found = _part(call.result.cached_length, len(_listed(tokens)), "cached")
            return f"{name}{found}; {_moved(before, now, unit)}"
        case ("manager", "advance", sequence, *_):
            return _part(sequence.computed, len(sequence.tokens), "computed")
        case ("manager", *_) | ("engine", "abort", *_):
            return _moved(before, now, unit)
    return ""


def _moved(before: State, now: State, unit: str) -> str:
    """Return what was evicted, taken, freed and cached in between."""
    more = Counter(now.sizes)
    more.subtract(before.sizes)
    cached = more["evictable"] + more["protected"]
    words = [
        f"{_are(-cached)} evicted" * (cached < 0),
        f"{_are(-more['protected'])} unlocked" * (more["protected"] < 0),
        f"{_are(more['in hand'] // now.page_size, unit)} taken" * (more["in hand"] > 0),
        f"{_are(more['free'] // now.page_size, unit)} free again" * (more["free"] > 0),
        f"{_are(cached)} new in the cache" * (cached > 0),
    ]
    return "; ".join(filter(None, words)) or f"no {unit}s taken or freed"


def _part(count: int, asked: int, how: str) -> str:
    if not count:
        return f"none of it is {how}"
    return f"{count} of {counted(asked)} {'is' if count == 1 else 'are'} {how}"


def _found(asked: int, match: Any) -> str:
    length = getattr(match, "length", None)
    length = length if isinstance(length, int) else next(map(len, slot_lists(match)), None)
    if length is None:
        return ""
    away = getattr(match, "host_length", 0)
    return _part(length, asked, "cached") + f", {away}{' more' * bool(length)} in host memory" * bool(away)


def slot_lists(found: Any) -> Iterator[list[int]]:
    """The lists of numbers that a learner's verb returned, alone or beside something else.

    >>> list(slot_lists(([7, 8], "node"))), list(slot_lists(3))
    ([[7, 8]], [])
    """
    for part in found if isinstance(found, tuple) else (found,):
        values: list[Any] = plain(part) if hasattr(part, "tolist") or isinstance(part, list) else [None]
        if all(isinstance(value, int) for value in values):
            yield values


def _inserted(asked: int, done: Any) -> str:
    known, new, outside = done.prefix_length, done.length - done.prefix_length, asked - done.length
    words = [f"{_are(new)} new" if new or not known else "nothing new"]
    words += [f"{known} {'was' if known == 1 else 'were'} already cached"] if known else []
    words += [f"{_are(outside)} in no whole page"] if outside else []
    return ", ".join(words)


def _evicted(call: Call, wanted: int, is_changed: bool, unit: str) -> str:
    if isinstance(call.result, int):  # a learner's evict may count
        return f"{_are(call.result)} evicted"
    pages, size = plain(call.result), getattr(call.thing, "page_size", 1)
    if not pages and call.arguments.get("window_tokens"):
        return "no token leaves the cache" if is_changed else "no window slot can be freed"
    if not pages:
        return "nothing can be evicted" if wanted else "nothing was asked for"
    left = f"{_are(len(pages) * size)} evicted ({numbered(pages, unit)})"
    return left if len(pages) * size >= wanted else f"{left}; nothing else can be"


def _given(call: Call, unit: str) -> str:
    """Return what a pool gave, or from where to where a move copies."""
    move = call.result
    if not hasattr(move, "to_host"):
        return numbered(move, unit)
    source, target = (unit, "host page") if move.to_host else ("host page", unit)
    return f"{numbered(move.src, source)} to {numbered(move.dst, target)}"


def _stepped(events: Any, is_changed: bool) -> str:
    """Return which requests got a token, and which of them are over."""
    requests = list(dict.fromkeys(event.request for event in events))
    if not requests:
        return "prompts are read; no token yet" if is_changed else "nothing is computed"
    over = [f"{request_name(request)} has ended" for request in requests if request.is_over]
    return "; ".join([f"a token for {', '.join(map(request_name, requests))}", *over])


def counted(count: int, what: str = "token") -> str:
    """Return how many there are, in words.

    >>> counted(1), counted(2, "slot")
    ('1 token', '2 slots')
    """
    return f"{count} {what}{'' if count == 1 else 's'}"


def _are(count: int, what: str = "token") -> str:
    return f"{counted(count, what)} {'is' if count == 1 else 'are'}"


def numbered(numbers: Any, unit: str = "slot") -> str:
    """Numbers with their unit.

    >>> numbered([3]), numbered([0, 1, 2, 7]), numbered([], "page")
    ('slot 3', 'slots 0-2 7', 'no pages')
    """
    found = plain(numbers)
    return f"{unit}{'' if len(found) == 1 else 's'} {ranges(found)}" if found else f"no {unit}s"


def _listed(tokens: Any) -> list[Any]:
    return list(tokens) if isinstance(tokens, (bytes, bytearray)) else plain(tokens)


def _tokens(tokens: Any, label: Label | None) -> str:
    return bounded_line(label_of(_listed(tokens), label))


def bounded_line(text: str, most: int = _MOST) -> str:
    """`text` on one line, cut so that no caption grows with the input.

    >>> len(bounded_line("x" * 1000))
    60
    """
    return truncated(" ".join(legible(text).split()), most)


def _argument(value: Any) -> str:
    if isinstance(value, (int, float, str)) or value is None:
        return bounded_line(str(value))
    if hasattr(value, "tolist") or isinstance(value, (list, tuple, range)):
        return f"[{shorten(plain(value))}]"
    return ""

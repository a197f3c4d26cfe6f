"""An operation in words: what was asked, and what came of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from minikv.course.film.state import Label, State, kind_of
from minikv.errors import bounded
from minikv.prefix import HashBlockCache
from minikv.testing.snapshot import cut, label_of, legible, plain, ranges, shorten
from minikv.testing.watch import Call

_MOST, _MOST_OF_AN_ERROR = 60, 200
_TAKE_TOKENS = {
    *(("cache", verb) for verb in ("match_prefix", "acquire", "insert")),
    ("engine", "submit"),
    ("manager", "start"),
}


def request_name(sequence: Any) -> str:
    """What a manager's sequence is called where no engine runs it: it is the life of one request."""
    return f"r{sequence.number}"


def asked(call: Call, label: Label | None, unit: str, name_of: Callable[[Any], str] = request_name) -> str:
    """The operation, short: its verb and what it was called with; `unit` is what a pool's ids are, slot or page.

    `name_of` names a manager's sequence.

    >>> from minikv import RadixCache
    >>> call = Call(RadixCache(), "insert", {"tokens": [1, 2, 3], "slots": [7, 8, 9]}, 0)
    >>> asked(call, None, "slot"), asked(call, lambda tokens: "hello", "slot")
    ('insert [1 2 3]', 'insert hello')
    """
    first, second = [*call.arguments.values(), None, None][:2]
    kind, verb = kind_of(call.thing), call.verb
    if (kind, verb) in _TAKE_TOKENS:
        namespace = call.arguments.get("namespace") if kind == "cache" else None
        where = "" if namespace is None else f" in namespace {bounded(namespace, _MOST)}"
        return f"{verb.removesuffix('_prefix')} {_tokens(first, label)}{where}"
    if kind == "cache" and (verb in ("lock", "unlock") or "window_tokens" in call.arguments):
        return _asked_of_a_cache(call)
    if kind == "pool" and verb in ("free", "occupy", "take"):
        return f"{verb} {_many(first, unit)}"
    if kind == "pool" and verb == "alloc_to":
        return f"alloc {len(first)}"
    if kind == "table":
        return _asked_of_a_table(call)
    if kind == "engine" and verb == "abort":
        return f"abort r{first.number}"
    if kind == "manager" and hasattr(first, "number") and not isinstance(second, str):
        to = "to" if verb == "truncate" else "by"
        by = "" if second is None else f" {to} {second if isinstance(second, int) else _tokens(second, label)}"
        return f"{verb} {name_of(first)}{by}"
    words = [_argument(value, label) for value in call.arguments.values()]
    return " ".join([verb.replace("_", " "), *words]).strip()


def _asked_of_a_cache(call: Call) -> str:
    first, second = [*call.arguments.values(), None][:2]
    if call.verb == "evict":
        return f"evict {_count(first)} and {second} window{'' if second == 1 else 's'}"
    length = getattr(getattr(first, "handle", first), "length", None)
    return f"{call.verb} a prefix of {_count(length)}" if length is not None else call.verb


def _asked_of_a_table(call: Call) -> str:
    row, second, third = [*call.arguments.values(), None, None, None][:3]
    if call.verb == "append":
        return f"append {_many(second, 'slot')} to row {row}"
    if call.verb == "write":
        return f"write {_many(third, 'slot')} to row {row} from token {second} on"
    return f"{call.verb} a row" if call.verb == "open" else f"{call.verb} row {row}"


def came_of_it(call: Call, state: State, unit: str) -> str:
    """What the operation did, or what it raised; empty where nothing can be said."""
    if call.error is not None:
        return f"raised {type(call.error).__name__}: {bounded_text(str(call.error), _MOST_OF_AN_ERROR)}"
    say = _OUTCOMES.get((kind_of(call.thing), call.verb), _nothing)
    try:
        return say(call, state, unit)
    except (AttributeError, TypeError, ValueError, IndexError):  # a learner's verb may return anything
        return ""


def sentence(op: str, outcome: str, error: bool) -> str:
    """Both halves as one caption."""
    return op if not outcome else f"{op} {outcome}" if error else f"{op}: {outcome}"


def _match(call: Call, state: State, unit: str) -> str:
    tokens, found = _listed(next(iter(call.arguments.values()))), call.result
    length = getattr(found, "length", None)
    if not isinstance(length, int):
        length = _slots_in(found)
    if length is None:
        return ""
    if not length:
        return "nothing of it is cached"
    if length == len(tokens):
        return f"all {_tokens_are(length)} cached"
    return f"{length} of {len(tokens)} tokens {'is' if length == 1 else 'are'} cached"


def _slots_in(found: Any) -> int | None:
    """How many slots a learner's match returned, alone or beside something else; `None` where that cannot be told."""
    for part in found if isinstance(found, tuple) else (found,):
        values = plain(part) if hasattr(part, "tolist") or isinstance(part, list) else [None]
        if all(isinstance(value, int) for value in values):
            return len(values)
    return None


def _insert(call: Call, state: State, unit: str) -> str:
    tokens, done = _listed(next(iter(call.arguments.values()))), call.result
    known, new, outside = done.prefix_length, done.length - done.prefix_length, len(tokens) - done.length
    there = f"{known} {'was' if known == 1 else 'were'} there already"
    words = [f"{_tokens_are(new)} new" if new or not known else "nothing new"]
    words += [there] if known else []
    words += [f"the last {outside} {'fills' if outside == 1 else 'fill'} no page"] if outside else []
    return ", ".join(words)


def _locks(call: Call, state: State, unit: str) -> str:
    sizes = dict(state.sizes)
    return f"{_tokens_are(sizes['protected'])} protected now, {sizes['evictable']} evictable"


def _evict(call: Call, state: State, unit: str) -> str:
    pages, wanted = call.result, next(iter(call.arguments.values()))
    where = "the cache" if isinstance(call.thing, HashBlockCache) else "the tree"
    if isinstance(pages, int):  # a learner's evict may count
        return f"{_count(pages)} left {where}"
    pages, size = plain(pages), getattr(call.thing, "page_size", 1)
    if not pages and call.arguments.get("window_tokens"):
        return f"no token left {where}"
    if not pages:
        return f"nothing can leave {where}" if wanted else "nothing was asked for"
    left = f"{_count(len(pages) * size)} left {where}, {_many(pages, 'page' if size > 1 else 'slot')}"
    return left if len(pages) * size >= wanted else f"{left}; no more can"


def _count(tokens: int) -> str:
    return f"{tokens} token{'' if tokens == 1 else 's'}"


def _tokens_are(count: int) -> str:
    return f"{_count(count)} {'is' if count == 1 else 'are'}"


def _alloc(call: Call, state: State, unit: str) -> str:
    return "nothing" if call.result is None else _many(call.result, unit)


def _alloc_to(call: Call, state: State, unit: str) -> str:
    return _many(next(iter(call.arguments.values())), unit)


def _submit(call: Call, state: State, unit: str) -> str:
    return f"r{call.result.number}"


def _step(call: Call, state: State, unit: str) -> str:
    """Which requests got a token, and which of them are over."""
    requests = [event.request for event in call.result]
    over = [f"r{request.number} is over" for request in dict.fromkeys(requests) if request.is_over]
    names = " ".join(f"r{request.number}" for request in dict.fromkeys(requests))
    return "; ".join([f"a token for {names}" if names else "no token yet", *over])


def _nothing(call: Call, state: State, unit: str) -> str:
    return ""


_OUTCOMES: dict[tuple[str, str], Callable[[Call, State, str], str]] = {
    ("cache", "match_prefix"): _match,
    ("cache", "acquire"): _match,
    ("cache", "insert"): _insert,
    ("cache", "lock"): _locks,
    ("cache", "unlock"): _locks,
    ("cache", "evict"): _evict,
    ("cache", "reset"): lambda call, state, unit: "everything is forgotten",
    ("pool", "alloc"): _alloc,
    ("pool", "alloc_to"): _alloc_to,
    ("engine", "submit"): _submit,
    ("engine", "step"): _step,
    ("table", "open"): lambda call, state, unit: f"row {call.result}",
    ("table", "close"): lambda call, state, unit: f"{_many(call.result, 'slot')} came out of it",
}


def _many(numbers: Any, unit: str) -> str:
    """Numbers with their unit: `slot 3`, `slots 0-2 7`, `no slots`."""
    found = plain(numbers)
    return f"{unit}{'' if len(found) == 1 else 's'} {ranges(found)}" if found else f"no {unit}s"


def _listed(tokens: Any) -> list[Any]:
    return list(tokens) if isinstance(tokens, (bytes, bytearray)) else plain(tokens)


def _tokens(tokens: Any, label: Label | None) -> str:
    return bounded_text(label_of(_listed(tokens), label))


def bounded_text(text: str, most: int = _MOST) -> str:
    """`text` on one line, cut so that no caption grows with the input.

    >>> len(bounded_text("x" * 1000))
    60
    """
    return cut(" ".join(legible(text).split()), most)


def _argument(value: Any, label: Label | None) -> str:
    if isinstance(value, (int, float, str)) or value is None:
        return bounded_text(str(value))
    if hasattr(value, "tolist") or isinstance(value, (list, tuple, range)):
        return f"[{shorten(plain(value))}]"
    return ""

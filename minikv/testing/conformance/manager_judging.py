"""What a call on a cache manager came to, beside what the naive manager says; and who has which slot after it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from minikv.errors import OutOfPages
from minikv.testing.attempt import attempt
from minikv.testing.canary import CanaryError
from minikv.testing.conformance.judging import read_number, read_pages
from minikv.testing.conformance.manager_model import NaiveRequest
from minikv.testing.conformance.script import Mismatch, Reply, is_named
from minikv.testing.time_limit import TooLong

if TYPE_CHECKING:
    from minikv.testing.conformance.managers import ManagerRun

MANAGER_RULE_OF = {"start": 5, "advance": 12, "extend": 10, "checkpoint": 9, "finish": 7, "abort": 7}
OPTIONAL_RULE_OF = {"truncate": 10}  # verbs that a manager may lack


def judge_manager(run: ManagerRun, reply: Reply, expected: Reply) -> Mismatch | None:
    """The rule that a reply breaks, or `None` if it is as `expected`."""
    rule = (MANAGER_RULE_OF | OPTIONAL_RULE_OF).get(reply.verb, 12)
    if isinstance(reply.error, TooLong):
        return Mismatch(rule, reply.in_words, endless=True)
    if expected.error is not None:
        return _refused(run, reply, expected)
    if reply.error is not None:
        leaked = is_named(reply.error, "OutOfPages") and {"finished", "aborted"} & {each.state for each in run.requests}
        return Mismatch(7 if leaked else rule, reply.in_words)
    if reply.verb == "start":
        return _found(run, reply.value, expected.result)
    return None


def _refused(run: ManagerRun, reply: Reply, expected: Reply) -> Mismatch | None:
    """A call that must be refused: there is no room, the request is over, or the input is bad."""
    over = isinstance(expected.args[0] if expected.args else None, NaiveRequest) and expected.args[0].state != "running"
    no_room = isinstance(expected.error, OutOfPages)
    rule, kinds = (5, ["OutOfPages"]) if no_room else (7 if over else 12, ["ValueError", "TypeError"])
    return run.refuses(reply, expected, rule, kinds)


def read_sequence(result: Any) -> dict[str, Any]:
    """The `cached_length` and the `slots` of a request.

    >>> from minikv import CacheManager
    >>> read_sequence(CacheManager(4).start([1, 2]))
    {'cached_length': 0, 'slots': [0, 1]}
    """
    return {
        "cached_length": read_number(result.cached_length, "cached_length"),
        "slots": read_pages(result.slots, "slots"),
    }


def _found(run: ManagerRun, seen: dict[str, Any], request: NaiveRequest) -> Mismatch | None:
    """Whether a request has found what is cached; then the model follows."""
    model, found = run.model, seen["cached_length"]
    words = f"finds {found} tokens in the cache, expected "
    if found % model.page_size or found < 0:
        return Mismatch(3, f"{words}whole pages")
    if found < request.least:
        key = model.path(request.tokens, request.namespace, request.least)[found // model.page_size]
        rule = 3 if "limit=" in run.lines[-1] else model.published.get(key, 3)
        return Mismatch(rule, f"{words}{request.least}")
    if found > request.most:
        return Mismatch(_too_much(run, request, found), f"{words}{request.most} at most")
    model.follow(request, found)
    run.requests.append(request)
    return None


def _too_much(run: ManagerRun, request: NaiveRequest, found: int) -> int:
    """The rule that is broken when a request finds what cannot be there."""
    if found >= len(request.tokens):
        return 3
    name, tokens = run.model.path(request.tokens, request.namespace, found)[request.most // run.page_size]
    if any(other[1] == tokens for other in run.model.published if other[0] != name):
        return 11
    return 8 if (name, tokens) in run.model.aborted else 3 if (name, tokens) in run.model.published else 6


def look_around(run: ManagerRun, verb: str, refused: bool) -> Mismatch | None:
    """After each call: the slots of all requests, what they hold, and how much room is left."""
    rows = []
    for request, sequence in run.pairs():
        reply = attempt(lambda sequence=sequence: read_pages(sequence.slots, "slots"))
        if reply.error is not None or len(reply.value) != len(request.tokens):
            words = reply.in_words if reply.error is not None else f"has {len(reply.value)} slots"
            return Mismatch(10, f"then a request of {len(request.tokens)} tokens {words}")
        rows.append((request, reply.value))
    return _owners(run, rows, verb) or _contents(run, rows, verb) or _room(run, verb, refused)


def _owners(run: ManagerRun, rows: list[tuple[NaiveRequest, list[int]]], verb: str) -> Mismatch | None:
    """No slot is in two places, unless both read it in the cache behind the same tokens; and then both do."""
    holders: dict[int, tuple[int, NaiveRequest]] = {}
    read: dict[Any, int] = {}
    for request, slots in rows:
        for place, slot in enumerate(slots):
            if not 0 <= slot < run.model.num_pages * run.page_size:
                return Mismatch(1, f"then a request has slot {slot}, which does not exist")
            at, other = holders.setdefault(slot, (place, request))
            if (found := _shared_by((other, at), (request, place), verb)) is not None:
                return Mismatch(found, f"then slot {slot} is {_in_words(other, at)}, and {_in_words(request, place)}")
            key = request.namespace, tuple(request.tokens[: place + 1])
            if place < request.shared and read.setdefault(key, slot) != slot:
                return Mismatch(
                    9, f"then slots {read[key]} and {slot} are both {_in_words(request, place)} in the cache"
                )
    return None


def _shared_by(one: tuple[NaiveRequest, int], two: tuple[NaiveRequest, int], verb: str) -> int | None:
    """The rule that is broken when these two places have the same slot; `None` if it is the cache's for both."""
    (first, at), (second, place) = one, two
    if first is second and at == place:
        return None
    alike = first.tokens[: at + 1] == second.tokens[: place + 1] and first.namespace == second.namespace
    if first is not second and alike and at < min(first.shared, second.shared):
        return None
    if first is not second and (at < first.shared or place < second.shared):
        return 9 if verb == "checkpoint" else 4
    return 1


def _in_words(request: NaiveRequest, place: int) -> str:
    return f"at position {place} of {request.tokens}"


def _contents(run: ManagerRun, rows: list[tuple[NaiveRequest, list[int]]], verb: str) -> Mismatch | None:
    """What each request reads was computed for it: its tokens, at their positions, behind these tokens."""
    for request, slots in rows:
        try:
            run.canary.read(request.tokens[: request.computed], slots[: request.computed], request.namespace)
        except CanaryError as error:
            rule = 9 if verb == "checkpoint" else 2 if request is run.requests[-1] and verb == "start" else 4
            return Mismatch(rule, f"then {' '.join(str(error).split())}")
    return None


def _room(run: ManagerRun, verb: str, refused: bool) -> Mismatch | None:
    """Every page that no request has or reads is available."""
    if not hasattr(run.index, "available_size"):
        return None
    found = attempt(lambda: read_number(run.index.available_size, "available_size"))
    right = run.model.available * run.page_size
    if found.error is None and found.value == right:
        return None
    if found.error is not None:
        return Mismatch(5, f"then available_size {found.in_words}")
    is_bare = verb == "start" and found.value > right  # what it reads is not protected
    rule = 5 if refused else 4 if is_bare else (MANAGER_RULE_OF | OPTIONAL_RULE_OF).get(verb, 5)
    return Mismatch(rule, f"then available_size is {found.value}, expected {right}")

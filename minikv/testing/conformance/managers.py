"""Scenarios on a cache manager, beside the naive one: what each request finds and reads, and how much room is left.

Between the lines an engine is played: what a manager is told that is computed is written into the request's slots.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from minikv.errors import OutOfPages
from minikv.testing.attempt import attempt
from minikv.testing.canary import Canary, CanaryError
from minikv.testing.conformance.manager_cases import MANAGER_CASES, interleavings, manager_scenarios
from minikv.testing.conformance.manager_model import NaiveManager, NaiveRequest
from minikv.testing.conformance.playing import SideBySide, read_number, read_pages, reader
from minikv.testing.conformance.script import Breach, Readers, Reply, is_named

NUM_PAGES = 6
Rows = list[tuple[NaiveRequest, list[int]]]


class ManagerRun(SideBySide):
    """One scenario on a new manager, at whose end all requests are; `requests` are all that were started, the model's.

    >>> from minikv import CacheManager
    >>> from minikv.testing.conformance.subject import subject_of
    >>> subject = subject_of(CacheManager, range(1, 13), {"num_pages": NUM_PAGES})
    >>> ManagerRun(subject, 1, {}).play(["a = manager.start([1, 2])", "manager.finish(a)"])
    """

    name = "manager"
    readers: ClassVar[Readers] = {"start": reader(cached_length=read_number, slots=read_pages)}
    rule_of: ClassVar[Mapping[str, int]] = {
        "start": 5, "advance": 12, "extend": 10, "checkpoint": 9, "abort": 7, "finish": 7, "truncate": 10,
    }  # fmt: skip
    optional = frozenset(["truncate"])
    words: ClassVar[Mapping[int, str]] = {11: "namespace="}
    rule_of_making = 12
    cases = MANAGER_CASES
    needs = frozenset(["start"])
    examples = 600
    always_given: ClassVar[Mapping[str, Any]] = {"num_pages": NUM_PAGES}
    scenarios, orders = staticmethod(manager_scenarios), staticmethod(interleavings)

    def begin(self) -> None:
        """No request was started yet."""
        self.requests: list[NaiveRequest] = []
        self.canary = Canary()
        self.computed: dict[NaiveRequest, int] = {}  # tokens, before the last line

    def new_model(self) -> NaiveManager:
        """A naive manager of as many pages."""
        return NaiveManager(NUM_PAGES, self.page_size)

    def unknown(self) -> list[str]:
        """Also a limit, where `start` takes none."""
        start = getattr(self.index, "start", None)
        takes = inspect.signature(start).parameters if callable(start) else {}
        return [*super().unknown(), *["limit="] * ("limit" not in takes)]

    def pairs(self) -> Iterator[tuple[NaiveRequest, Any]]:
        """The running requests, each as the model has it and as the manager has it."""
        for name, request in self.expected.names.items():
            if isinstance(request, NaiveRequest) and request in self.model.running and name in self.stage.names:
                yield request, self.stage.names[name]

    def last_lines(self) -> Iterator[str]:
        """End what still runs, and begin a request that needs every page."""
        yield from [
            f"manager.abort({name})" for name, each in self.expected.names.items() if each in self.model.running
        ]
        yield f"z = manager.start({[9] * (NUM_PAGES * self.page_size)})"

    def at_the_end(self) -> Breach | None:
        """Return the findings of the manager's own `check`."""
        if callable(getattr(self.index, "check", None)) and (error := attempt(self.index.check).error) is not None:
            self.lines.append("manager.check()")
            return self.end(1, f"raises {type(error).__name__}, although nothing visible is wrong")
        return None

    def rule_of_error(self, reply: Reply) -> int:
        """That of the verb, unless the pages of a request that is over are missing."""
        over = {"finished", "aborted"} & {each.state for each in self.requests}
        return 7 if over and is_named(reply.error, "OutOfPages") else self.rule_of[reply.verb]

    def refusal(self, reply: Reply, expected: Reply) -> Breach | None:
        """A call that must be refused: there is no room, the request is over, or the input is bad."""
        if isinstance(expected.error, OutOfPages):
            return self.require_refused(reply, expected, 5, ["OutOfPages"])
        request = expected.args[0] if expected.args else None
        over = isinstance(request, NaiveRequest) and request.state != "running"
        return self.require_refused(reply, expected, 7 if over else 12, ["ValueError", "TypeError"])

    def compare(self, reply: Reply, expected: Reply) -> Breach | None:
        """Return whether a request has found what is cached; then the model follows."""
        if reply.verb != "start":
            return None
        model, request, found = self.model, expected.result, reply.value["cached_length"]
        words = f"finds {found} tokens in the cache, expected "
        if found % model.page_size or found < 0:
            return self.end(3, f"{words}whole pages")
        if found < request.least:
            key = model.path(request.tokens, request.namespace, request.least)[found // model.page_size]
            rule = 3 if "limit=" in self.lines[-1] else model.published.get(key, 3)
            return self.end(rule, f"{words}{request.least}")
        if found > request.most:
            return self.end(self._too_much(request, found), f"{words}{request.most} at most")
        model.follow(request, found)
        self.requests.append(request)
        return None

    def _too_much(self, request: NaiveRequest, found: int) -> int:
        """The rule that is broken when a request finds what cannot be there."""
        if found >= len(request.tokens):
            return 3
        name, tokens = self.model.path(request.tokens, request.namespace, found)[request.most // self.page_size]
        if any(other[1] == tokens for other in self.model.published if other[0] != name):
            return 11
        return 8 if (name, tokens) in self.model.aborted else 3 if (name, tokens) in self.model.published else 6

    def witness(self, expected: Reply) -> None:
        """Tell `reach` what was refused, who else runs, and what a request has found or could have found."""
        model, error, request = self.model, expected.error, expected.result
        refused = {
            5: isinstance(error, OutOfPages),
            10: expected.verb == "extend" and not error,
            12: self.refused.get(len(self.lines) - 1) == 12,
        }
        self.reach(refused)
        if expected.verb != "start" or error:
            return
        path = model.path(request.tokens, request.namespace, len(request.tokens))
        found = path[: request.shared // self.page_size]
        first = [tokens for _, tokens in path[:1]]
        names = {name for name, tokens in model.published if tokens in first}
        self.reach({model.published[key]: True for key in found})
        seen = {
            1: len(model.running) > 1,
            2: found,
            3: found,
            4: any(each.shared for each in model.running[:-1]),
            7: len(model.running) < len(self.requests),
            8: model.aborted.intersection(path),
            11: names - {request.namespace},
        }
        self.reach(seen)

    def look_around(self, expected: Reply) -> Breach | None:
        """After each call: the slots of all requests, what they hold, and how much room is left."""
        if expected.verb == "advance" and expected.error is None:
            self._compute(expected.args[0])
        self.computed = {request: request.computed for request in self.requests}
        rows = []
        for request, sequence in self.pairs():
            reply = attempt(lambda sequence=sequence: read_pages(sequence.slots, "slots"))
            if reply.error is not None or len(reply.value) != len(request.tokens):
                words = reply.in_words if reply.error is not None else f"has {len(reply.value)} slots"
                return self.end(10, f"then a request of {len(request.tokens)} tokens {words}")
            rows.append((request, reply.value))
        return self._owners(rows, expected.verb) or self._contents(rows, expected.verb) or self._room(expected)

    def _compute(self, request: NaiveRequest) -> None:
        """Write the keys and values of these tokens into their slots, as an engine does before `advance`."""
        for other, sequence in self.pairs():
            if other is request:
                tokens, start = request.tokens[: request.computed], self.computed[request]
                attempt(lambda: self.canary.write(tokens, sequence.slots, start, request.namespace))  # noqa: B023

    def _owners(self, rows: Rows, verb: str) -> Breach | None:
        """No slot is in two places, unless both read it in the cache after the same tokens; and then both do."""
        holders: dict[int, tuple[int, NaiveRequest]] = {}
        read: dict[Any, int] = {}
        for request, slots in rows:
            for place, slot in enumerate(slots):
                here = _in_words(request, place)
                if not 0 <= slot < self.model.num_pages * self.page_size:
                    return self.end(1, f"then a request has slot {slot}, which does not exist")
                at, other = holders.setdefault(slot, (place, request))
                if (rule := _shared_by((other, at), (request, place), verb)) is not None:
                    return self.end(rule, f"then slot {slot} is {_in_words(other, at)}, and {here}")
                key = request.namespace, tuple(request.tokens[: place + 1])
                if place < request.shared and read.setdefault(key, slot) != slot:
                    return self.end(9, f"then slots {read[key]} and {slot} are both {here} in the cache")
        return None

    def _contents(self, rows: Rows, verb: str) -> Breach | None:
        """Check that each request reads its own tokens, at their positions, after these tokens."""
        for request, slots in rows:
            try:
                self.canary.read(request.tokens[: request.computed], slots[: request.computed], request.namespace)
            except CanaryError as error:
                rule = 9 if verb == "checkpoint" else 2 if request is self.requests[-1] and verb == "start" else 4
                return self.end(rule, f"then {' '.join(str(error).split())}")
        return None

    def _room(self, expected: Reply) -> Breach | None:
        """Every page that no request has or reads is available."""
        if not hasattr(self.index, "available_size"):
            return None
        found = attempt(lambda: read_number(self.index.available_size, "available_size"))
        right = self.model.available * self.page_size
        if found.error is not None:
            return self.end(5, f"then available_size {found.in_words}")
        if found.value == right:
            return None
        is_bare = expected.verb == "start" and found.value > right  # what it reads is not protected
        rule = 5 if expected.error is not None else 4 if is_bare else self.rule_of[expected.verb]
        return self.end(rule, f"then available_size is {found.value}, expected {right}")


def _shared_by(one: tuple[NaiveRequest, int], two: tuple[NaiveRequest, int], verb: str) -> int | None:
    """The rule that is broken when these two places have the same slot; `None` if it is the cache's for both."""
    (first, at), (second, place) = one, two
    if first is second:
        return None if at == place else 1
    reads = at < first.shared, place < second.shared
    alike = first.tokens[: at + 1] == second.tokens[: place + 1] and first.namespace == second.namespace
    if all(reads) and alike:
        return None
    return 1 if not any(reads) else 9 if verb == "checkpoint" else 4


def _in_words(request: NaiveRequest, place: int) -> str:
    return f"at position {place} of {request.tokens}"

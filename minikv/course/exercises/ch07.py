"""The exercises of chapter 07: every order of two requests, and an abort after a checkpoint."""

from __future__ import annotations

import contextlib
import copy
import itertools
from typing import Any

from hypothesis import strategies as st

from minikv.course.exercises.exercise import Exercise, Hunt, Wrong
from minikv.course.exercises.judge import Script
from minikv.errors import OutOfPages
from minikv.pools import FreeListPool
from minikv.prefix import RadixCache


def orders(a: int, b: int) -> list[str]:
    """Every order of `a` steps A and `b` steps B: fewest changes of letter first, and then alphabetically.

    >>> orders(2, 1)
    ['AAB', 'BAA', 'ABA']
    """
    found = []
    for places in itertools.combinations(range(a + b), a):
        found.append("".join("A" if at in places else "B" for at in range(a + b)))
    return sorted(found, key=lambda order: (_changes(order), order))


def _changes(order: str) -> int:
    return sum(one != other for one, other in itertools.pairwise(order))


class DeskRequest:
    """A request at a `Desk`: its tokens, their slots, and how many were cached, are shared and are computed."""

    def __init__(self, tokens: list[int], slots: list[int], match: Any):
        self.tokens, self.slots, self.handle = tokens, slots, match
        self.cached = self.shared = self.computed = match.length


class Desk:
    """A small cache manager, eight slots in pages of one token, that knows requests by name."""

    def __init__(self) -> None:
        self.cache, self.pool = RadixCache(), FreeListPool(8)
        self.requests: dict[str, DeskRequest] = {}

    @property
    def free(self) -> int:
        """Slots that have no owner."""
        return self.pool.num_free

    def start(self, name: str, tokens: list[int]) -> int:
        """Find and lock what is cached, and take slots for the rest; how many tokens were cached."""
        if name in self.requests or not tokens:
            raise ValueError(f"{name} runs already, or there are no tokens")
        match = self.cache.acquire(tokens[:-1])
        try:
            own = self.pool.alloc(len(tokens) - match.length).tolist()
        except OutOfPages:
            self.cache.unlock(match)
            raise
        self.requests[name] = DeskRequest(tokens, match.slots.tolist() + own, match)
        return match.length

    def compute(self, name: str) -> None:
        """The engine has computed all tokens of the request."""
        self.requests[name].computed = len(self.requests[name].tokens)

    def checkpoint(self, name: str) -> None:
        """Publish what is computed, and read all of it from the tree from now on."""
        request = self.requests[name]
        tokens, slots = request.tokens[: request.computed], request.slots[: request.computed]
        done, match = self.cache.insert(tokens, slots), self.cache.acquire(tokens)
        self.pool.free(slots[request.shared : done.prefix_length])
        self.cache.unlock(request.handle)
        request.slots[: request.computed] = match.slots.tolist()
        request.handle, request.shared = match, match.length

    def finish(self, name: str) -> None:
        """Publish what is computed, and give back all the rest."""
        self.checkpoint(name)
        request = self.requests.pop(name)
        self.pool.free(request.slots[request.shared :])
        self.cache.unlock(request.handle)

    def abort(self, name: str) -> None:
        """Publish nothing more, and give back what is the request's own."""
        request = self.requests.pop(name)
        self.pool.free(request.slots[request.shared :])
        self.cache.unlock(request.handle)


class CarelessDesk(Desk):
    """The same, but an abort gives back all that the request did not find in the cache."""

    def abort(self, name: str) -> None:
        """Publish nothing more, and give back what was taken."""
        request = self.requests.pop(name)
        self.pool.free(request.slots[request.cached :])
        self.cache.unlock(request.handle)


def _alphabet(a: int, b: int) -> list[str]:
    return sorted(orders(a, b))


def _every_permutation(a: int, b: int) -> list[str]:
    found = ("".join(letters) for letters in itertools.permutations("A" * a + "B" * b))
    return sorted(found, key=lambda order: (_changes(order), order))


def _tuples(a: int, b: int) -> list[tuple[str, ...]]:
    return sorted({*itertools.permutations("A" * a + "B" * b)}, key=lambda order: (_changes("".join(order)), order))


def _tuples_again(a: int, b: int) -> list[tuple[str, ...]]:
    return list(itertools.permutations("A" * a + "B" * b))


def _any_letters(a: int, b: int) -> list[str]:
    found = ("".join(letters) for letters in itertools.product("AB", repeat=a + b))
    return sorted(found, key=lambda order: (_changes(order), order))


def _any_letters_by_alphabet(a: int, b: int) -> list[str]:
    return sorted(_any_letters(a, b))


def _other_way_round(a: int, b: int) -> list[str]:
    return orders(b, a)


def _half_of_the_changes(a: int, b: int) -> list[str]:
    return sorted(orders(a, b), key=lambda order: (order.count("AB"), order))


def _one_order(a: int, b: int) -> list[str]:
    return ["A" * a + "B" * b]


def _no_alphabet(a: int, b: int) -> list[str]:
    return sorted(sorted(orders(a, b), reverse=True), key=_changes)


def _most_changes_first(a: int, b: int) -> list[str]:
    return sorted(orders(a, b), key=lambda order: (-_changes(order), order))


def _nobody_interrupted(a: int, b: int) -> list[str]:
    return sorted({"A" * a + "B" * b, "B" * b + "A" * a})


def _a_begins(a: int, b: int) -> list[str]:
    return [order for order in orders(a, b) if not order.startswith("B")]


def _of_nothing_nothing(a: int, b: int) -> list[str]:
    return [order for order in orders(a, b) if order]


def _script(*operations: tuple[str, tuple[Any, ...]]) -> Script:
    return Script((), operations)


_START = ("start", ("Anna", [1, 2, 3]))
_COMPUTE, _CHECKPOINT, _ABORT = (("compute", ("Anna",)), ("checkpoint", ("Anna",)), ("abort", ("Anna",)))


def _aborted_at_once() -> Script:
    return _script(_START, _COMPUTE, _ABORT)


def _nothing_computed() -> Script:
    return _script(_START, _CHECKPOINT, _ABORT)


def _finished() -> Script:
    return _script(_START, _COMPUTE, _CHECKPOINT, ("finish", ("Anna",)))


def _all_was_cached() -> Script:
    bens = (("start", ("Ben", [1, 2, 3])), ("compute", ("Ben",)), ("finish", ("Ben",)))
    return _script(*bens, ("start", ("Anna", [1, 2, 3, 4])), _CHECKPOINT, _ABORT)


def _advice(script: Script) -> str | None:
    """A hint for a script that does no harm: what it does not do yet."""
    aborted = [given[0] for verb, given in script.operations if verb == "abort"]
    if not aborted:
        return "the careless line runs when a request aborts"
    before = [verb for verb, given in script.operations if given[0] in aborted]
    if "checkpoint" not in before:
        return "without a checkpoint, all that was taken at the start is still its own"
    if "compute" not in before[: before.index("checkpoint")]:
        return "a checkpoint publishes what is computed: compute first"
    return "one and the same request must checkpoint and abort, and it must have something new to publish"


def _praise(script: Script) -> str:
    """Whether a script that found the bug also made the careless desk hand out a slot that the tree still holds."""
    desk = CarelessDesk()
    for verb, given in script.operations:
        with contextlib.suppress(Exception):
            getattr(desk, verb)(*copy.deepcopy(given))
        held = {int(slot) for node in desk.cache.nodes() for slot in node.slots}
        for name, request in sorted(desk.requests.items()):
            for slot in request.slots[request.shared :]:
                if slot in held:
                    return f"And {name} was given slot {slot}, which the tree holds!"
    return "Can you make it give somebody a slot that the tree holds?"


EXERCISES = (
    Exercise(
        id="7.4",
        name="orders",
        reference=orders,
        cases=[(1, 0), (0, 2), (1, 1), (2, 1), (1, 2), (2, 2), (3, 2), (0, 0)],
        strategy=st.tuples(st.integers(0, 4), st.integers(0, 4)),
        hint="an order is known when you know which of its a + b places have an A: choose them in every way, then sort",
        wrong=(
            Wrong(_alphabet, "fewest changes of letter first; the alphabet only breaks ties"),
            Wrong(_every_permutation, "each order once: swapping two A's does not make a new order"),
            Wrong(_no_alphabet, "orders with equally many changes come alphabetically"),
            Wrong(_most_changes_first, "fewest changes first: what breaks with few interruptions is easiest to read"),
            Wrong(_nobody_interrupted, "these are the orders without interruptions; now all the others"),
            Wrong(_a_begins, "B may begin, too"),
            Wrong(_tuples, "each order is a string: join its letters"),
            Wrong(_tuples_again, "each order is a string, and comes once: join the letters, drop what is equal, sort"),
            Wrong(_any_letters, "every order has exactly `a` times A and `b` times B"),
            Wrong(_any_letters_by_alphabet, "every order has exactly `a` times A and `b` times B"),
            Wrong(_other_way_round, "`a` is the number of A's, `b` that of B's"),
            Wrong(_half_of_the_changes, "from B to A is a change of letter, too"),
            Wrong(_one_order, "this is one order; B may begin, and each may interrupt the other"),
            Wrong(_of_nothing_nothing, "no steps have one order, the empty one"),
        ),
    ),
    Hunt(
        id="7.5",
        name="CarelessDesk",
        careless=CarelessDesk,
        reference=Desk,
        observe="free",
        example=_script(_START, _COMPUTE, _CHECKPOINT, _ABORT),
        hint="compare cached with shared: which verb makes them differ, and who looks at the wrong one afterwards?",
        advice=_advice,
        praise=_praise,
        wrong=(
            Wrong(_aborted_at_once, "without a checkpoint, all that was taken at the start is still its own"),
            Wrong(_nothing_computed, "a checkpoint publishes what is computed: compute first"),
            Wrong(_finished, "the careless line runs when a request aborts"),
            Wrong(_all_was_cached, "a checkpoint publishes what is computed: compute first"),
        ),
    ),
)  # fmt: skip

"""The exercises of chapter 07: what goes back at the end, every order of two, and an abort after a checkpoint."""

from __future__ import annotations

import contextlib
import copy
import itertools
from collections.abc import Sequence
from typing import Any

from hypothesis import strategies as st

from minikv.course.exercises.exercise import Exercise, Hunt, Wrong
from minikv.course.exercises.judge import Script
from minikv.errors import OutOfPages
from minikv.pools import FreeListPool
from minikv.prefix import RadixCache


def given_back(row: Sequence[int], shared: int, there: int, computed: int, page_size: int) -> list[int]:
    """The slots of `row` that go back to the pool when its request finishes, in the order of the row.

    The request reads `shared` tokens from the cache and `computed` have keys and values by now; when they were
    published, `there` of them had been cached already. `row` has a slot for each token of its whole pages.

    >>> given_back([8, 9, 4, 5, 6, 7], shared=2, there=4, computed=5, page_size=2)
    [4, 5, 6, 7]
    """
    published = computed // page_size * page_size
    return [*row[shared:there], *row[published:]]


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


def _tail_only(row: Sequence[int], shared: int, there: int, computed: int, page_size: int) -> list[int]:
    return list(row[computed // page_size * page_size :])


def _duplicates_only(row: Sequence[int], shared: int, there: int, computed: int, page_size: int) -> list[int]:
    return list(row[shared:there])


def _from_zero(row: Sequence[int], shared: int, there: int, computed: int, page_size: int) -> list[int]:
    return [*row[:there], *row[computed // page_size * page_size :]]


def _half_pages_too(row: Sequence[int], shared: int, there: int, computed: int, page_size: int) -> list[int]:
    return [*row[shared:there], *row[computed:]]


def _rounded_up(row: Sequence[int], shared: int, there: int, computed: int, page_size: int) -> list[int]:
    return [*row[shared:there], *row[-(-computed // page_size) * page_size :]]


def _as_abort(row: Sequence[int], shared: int, there: int, computed: int, page_size: int) -> list[int]:
    return list(row[shared:])


def _what_is_new(row: Sequence[int], shared: int, there: int, computed: int, page_size: int) -> list[int]:
    return list(row[there : computed // page_size * page_size])


def _all_but_the_new(row: Sequence[int], shared: int, there: int, computed: int, page_size: int) -> list[int]:
    return sorted(given_back(row, shared, there, computed, page_size))


def _tail_first(row: Sequence[int], shared: int, there: int, computed: int, page_size: int) -> list[int]:
    return [*row[computed // page_size * page_size :], *row[shared:there]]


def _pages_as_tokens(row: Sequence[int], shared: int, there: int, computed: int, page_size: int) -> list[int]:
    return [*row[shared:there], *row[computed // page_size :]]


def _places(row: Sequence[int], shared: int, there: int, computed: int, page_size: int) -> list[int]:
    return given_back(range(len(row)), shared, there, computed, page_size)


def _not_computed(row: Sequence[int], shared: int, there: int, computed: int, page_size: int) -> list[int]:
    return list(row[computed:])


def _behind_there(row: Sequence[int], shared: int, there: int, computed: int, page_size: int) -> list[int]:
    return list(row[there:])


def _nested(row: Sequence[int], shared: int, there: int, computed: int, page_size: int) -> list[Sequence[int]]:
    return [row[shared:there], row[computed // page_size * page_size :]]


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


@st.composite
def _ends(draw: st.DrawFn) -> tuple[list[int], int, int, int, int]:
    size, first = draw(st.integers(1, 4)), draw(st.integers(0, 20))
    shared, there, published = (draw(st.integers(0, 2)) for _ in range(3))
    there, published = shared + there, shared + there + published
    row = draw(st.permutations(range(first, first + published + draw(st.integers(0, 2)))))
    left = draw(st.integers(0, size - 1)) if len(row) > published else 0
    slots = [page * size + at for page in row for at in range(size)]
    return slots, shared * size, there * size, published * size + left, size


EXERCISES = (
    Exercise(
        id="7.1",
        name="given_back",
        reference=given_back,
        cases=[([3], 0, 0, 1, 1), ([3, 4], 0, 0, 1, 1), ([3, 4], 0, 1, 2, 1), ([4, 5, 6, 7], 0, 0, 3, 2),
               ([8, 9, 4, 5], 2, 2, 4, 2), ([8, 9, 4, 5, 6, 7], 2, 4, 5, 2), ([8, 9, 6, 7, 4, 5], 0, 2, 4, 2),
               ([0, 1, 2, 3], 4, 4, 4, 4), ([9, 5, 7, 2], 1, 2, 3, 1)],
        strategy=_ends(),
        hint="two regions go back: the duplicates [shared, there), and all behind the last page that was published",
        wrong=(
            Wrong(_tail_only, "what the cache had already, [shared, there), you computed twice: yours go back as well"),
            Wrong(_duplicates_only, "what was not published goes back too, or it is lost: half a page and the rest"),
            Wrong(_from_zero, "the first `shared` slots are the cache's: you only read them, so never free them"),
            Wrong(_half_pages_too, "only whole pages are published: round computed down to a multiple of page_size"),
            Wrong(_rounded_up, "a page that is half computed is not published: it goes back, so round down, not up"),
            Wrong(_as_abort, "that is an abort: what you published, [there, ..), is the cache's now"),
            Wrong(_what_is_new, "that is the part that the cache keeps: give back the others that are yours"),
            Wrong(_all_but_the_new, "keep the order of the row: slots need not be sorted"),
            Wrong(_tail_first, "keep the order of the row: the duplicates stand before the tail"),
            Wrong(_pages_as_tokens, "computed // page_size counts pages; to cut the row, make tokens of them again"),
            Wrong(_places, "these are places in the row: give back the slots that stand there"),
            Wrong(_not_computed, "half a page is not published: round down; and what you computed twice goes back"),
            Wrong(_behind_there, "from `there` on, whole pages that you computed are the cache's now: what lies before "
                  "them goes back, and what lies behind"),
            Wrong(_nested, "one flat list of slots: join the two regions"),
        ),
    ),
    Exercise(
        id="7.2",
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
        id="7.3",
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

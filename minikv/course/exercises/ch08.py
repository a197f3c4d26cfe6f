"""The exercises of chapter 08: the shares of a step, an order without starvation, and the wrong end of the line."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from hypothesis import strategies as st

from minikv.course.exercises.exercise import Exercise, Hunt, Wrong
from minikv.manager import CacheManager
from minikv.serving import Engine, LongestPrefixFirst, Scheduler
from minikv.testing.canary_model import CanaryModel

_Queue = list[int]
_Requests = Sequence[tuple[int, int]]
_Case = tuple[int, list[tuple[int, int]]]


def shares(budget: int, left: Sequence[int]) -> list[int]:
    """How many tokens each running request gets in the next step, when `left[i]` are left of request `i` to compute.

    Requests with a single token left decode, and come first; then the others, in order.

    >>> shares(8, [10, 1, 4])
    [7, 1, 0]
    """
    found = [0] * len(left)
    for i in sorted(range(len(left)), key=lambda i: left[i] > 1):
        found[i] = min(budget, left[i])
        budget -= found[i]
    return found


def let_in(cached: Sequence[int], max_overtakes: int) -> list[int]:
    """The order in which a `Scheduler` with one place lets requests in; request `i` has `cached[i]` cached tokens.

    The longest prefix goes first, but a request is overtaken at most `max_overtakes` times.

    >>> let_in([0, 2, 3], max_overtakes=1)
    [2, 0, 1]
    """
    manager = CacheManager(sum(cached) + 2 * len(cached) + 1)
    engine = Engine(CanaryModel(1000), manager, Scheduler(manager, 1000, 1, LongestPrefixFirst(), max_overtakes))
    prefixes = [[number] * length for number, length in enumerate(cached)]
    engine.generate([prefix for prefix in prefixes if prefix], 1)  # they are cached now
    prompts = [[*prefix, 500 + number, 999] for number, prefix in enumerate(prefixes)]
    came = [event.request.number for event in engine.stream(prompts, 1)]
    return [number - min(came) for number in came]


def serving(slots: int, requests: _Requests, wait_again: Callable[[_Queue, int], _Queue]) -> Iterator[int]:
    """The requests as they finish, in an engine with so many slots; a request is (tokens in its prompt, new tokens)."""
    waiting, said = list(range(len(requests))), [0] * len(requests)
    running: list[int] = []
    held: dict[int, int] = {}  # slots
    while waiting or running:
        for who in list(running):  # the oldest first: a slot for what it said last
            while who in running and sum(held.values()) == slots:
                youngest = running.pop()
                del held[youngest]
                waiting = wait_again(waiting, youngest)
            if who in running:
                held[who] += 1
        while waiting and sum(held.values()) + requests[waiting[0]][0] + said[waiting[0]] + len(running) <= slots:
            running.append(waiting.pop(0))
            held[running[-1]] = requests[running[-1]][0] + said[running[-1]]
        for who in list(running):
            said[who] += 1
            if said[who] == requests[who][1]:
                running.remove(who)
                del held[who]
                yield who


def finished(slots: int, requests: _Requests) -> list[int]:
    """The order in which they finish, when a preempted request waits at the front of the line."""
    if any(prompt < 1 or new < 1 or prompt + new - 1 > slots for prompt, new in requests):
        raise ValueError(f"a request has a prompt, says something, and fits into {slots} slots")
    return list(serving(slots, requests, lambda waiting, who: [who, *waiting]))


def careless_finished(slots: int, requests: _Requests) -> list[int]:
    """The same, when it waits at the end of the line."""
    return list(serving(slots, requests, lambda waiting, who: [*waiting, who]))


# -- wrong answers ----------------------------------------------------------------------------------------------------


def _given(budget: int, left: Sequence[int], order: Sequence[int]) -> list[int]:
    found = [0] * len(left)
    for i in order:
        found[i] = min(budget, left[i])
        budget -= found[i]
    return found


def _in_order(budget: int, left: Sequence[int]) -> list[int]:
    return _given(budget, left, range(len(left)))


def _all_that_is_left(budget: int, left: Sequence[int]) -> list[int]:
    return list(left)


def _shortest_first(budget: int, left: Sequence[int]) -> list[int]:
    return _given(budget, left, sorted(range(len(left)), key=lambda i: left[i]))


def _decoding_is_free(budget: int, left: Sequence[int]) -> list[int]:
    return _given(budget + sum(n == 1 for n in left), left, sorted(range(len(left)), key=lambda i: left[i] > 1))


def _whole_prompts(budget: int, left: Sequence[int]) -> list[int]:
    return [got if got == wanted else 0 for got, wanted in zip(shares(budget, left), left)]


def _as_they_are_given(budget: int, left: Sequence[int]) -> list[int]:
    order = sorted(range(len(left)), key=lambda i: left[i] > 1)
    return [shares(budget, left)[i] for i in order]


def _without_the_empty_handed(budget: int, left: Sequence[int]) -> list[int]:
    return [count for count in shares(budget, left) if count]


def _each_alone(budget: int, left: Sequence[int]) -> list[int]:
    return [min(budget, n) for n in left]


def _one_prompt(budget: int, left: Sequence[int]) -> list[int]:
    first = next((i for i, n in enumerate(left) if n > 1), None)
    return [got if left[i] == 1 or i == first else 0 for i, got in enumerate(shares(budget, left))]


def _decoding_always(budget: int, left: Sequence[int]) -> list[int]:
    rest = shares(max(0, budget - sum(n == 1 for n in left)), [n for n in left if n > 1])
    return [1 if n == 1 else rest.pop(0) for n in left]


def _whole_prompts_that_fit(budget: int, left: Sequence[int]) -> list[int]:
    found = [0] * len(left)
    for i in sorted(range(len(left)), key=lambda i: left[i] > 1):
        found[i] = left[i] if left[i] <= budget else 0
        budget -= found[i]
    return found


def _equal_parts(budget: int, left: Sequence[int]) -> list[int]:
    return [min(n, budget // len(left)) for n in left]


def _chosen(
    cached: Sequence[int], is_tired: Callable[[int], bool], pick: Callable[[_Queue], int], everybody: bool = False
) -> list[int]:
    """The rule with its parts exchanged: who is tired, who of the tired is picked, and who counts as overtaken."""
    waiting, overtaken, order = list(range(len(cached))), [0] * len(cached), []
    while waiting:
        tired = [i for i in waiting if is_tired(overtaken[i])]
        order.append(pick(tired) if tired else max(waiting, key=lambda i: cached[i]))
        waiting.remove(order[-1])
        for i in waiting:
            overtaken[i] += everybody or i < order[-1]
    return order


def _longest_alone(cached: Sequence[int], max_overtakes: int) -> list[int]:
    return sorted(range(len(cached)), key=lambda i: -cached[i])


def _shortest_prefix_first(cached: Sequence[int], max_overtakes: int) -> list[int]:
    return sorted(range(len(cached)), key=lambda i: cached[i])


def _numbers(cached: Sequence[int], max_overtakes: int) -> list[int]:
    return sorted(cached, reverse=True)


def _first_come(cached: Sequence[int], max_overtakes: int) -> list[int]:
    return list(range(len(cached)))


def _once_too_often(cached: Sequence[int], max_overtakes: int) -> list[int]:
    return _chosen(cached, lambda often: often > max_overtakes, lambda tired: tired[0])


def _any_before_it(cached: Sequence[int], max_overtakes: int) -> list[int]:
    return _chosen(cached, lambda often: often >= max_overtakes, lambda tired: tired[0], everybody=True)


def _longest_of_the_tired(cached: Sequence[int], max_overtakes: int) -> list[int]:
    return _chosen(cached, lambda often: often >= max_overtakes, lambda tired: max(tired, key=lambda i: cached[i]))


def _last_of_the_tired(cached: Sequence[int], max_overtakes: int) -> list[int]:
    return _chosen(cached, lambda often: often >= max_overtakes, lambda tired: tired[-1])


def _last_of_equals(cached: Sequence[int], max_overtakes: int) -> list[int]:
    later_first = [length * len(cached) + i for i, length in enumerate(cached)]
    return _chosen(later_first, lambda often: often >= max_overtakes, lambda tired: tired[0])


def _room_for_all() -> _Case:
    return 20, [(2, 4), (2, 4), (2, 1)]


def _two() -> _Case:
    return 9, [(2, 4), (2, 4)]


def _preemptions(case: _Case) -> list[tuple[int, int]]:
    """For each preemption which request it was, and how many waited."""
    seen: list[tuple[int, int]] = []

    def wait_again(waiting: _Queue, who: int) -> _Queue:
        seen.append((who, len(waiting)))
        return [who, *waiting]

    list(serving(*case, wait_again))
    return seen


def _advice(case: _Case) -> str | None:
    """A hint for a call that does no harm: what it has not got yet."""
    try:
        finished(*case)
    except TypeError:
        return "fix the call first: a number of slots, then a list of pairs of numbers"
    except ValueError:
        return "each request must fit by itself: its prompt, and all it says but the last token"
    seen = _preemptions(case)
    if not seen:
        return "no request is preempted here: take fewer slots, or let them say more"
    if not any(waiting for _, waiting in seen):
        return "where no other request waits, the front of the line is its end: add one that cannot come in at first"
    return "a request that waits behind must come in before the preempted one, and be done before it: let it be short"


_SHARES = st.tuples(st.integers(0, 12), st.lists(st.integers(1, 8), max_size=5))
_ORDERS = st.tuples(st.lists(st.integers(0, 3), max_size=6), st.integers(0, 3))

EXERCISES = (
    Exercise(
        id="8.1",
        name="shares",
        reference=shares,
        cases=[(8, []), (8, [1]), (8, [1, 1]), (8, [5, 9]), (3, [5]), (8, [10, 1]), (8, [10, 1, 4]), (9, [4, 1, 3, 1]),
               (6, [5, 2, 1]), (2, [1, 7, 1])],
        strategy=_SHARES,
        hint="first one token for each that decodes, then as much as is left of the budget for the others, in order",
        wrong=(
            Wrong(_in_order, "a decoding request comes first, wherever it stands in the list"),
            Wrong(_all_that_is_left, "a step has only so many tokens: stop when the budget is spent"),
            Wrong(_shortest_first, "among requests that read their prompts the order counts, not which has least left"),
            Wrong(_decoding_is_free, "the tokens of decoding requests are taken from the budget as well"),
            Wrong(_whole_prompts, "a prompt is read in pieces: give it what is left of the budget"),
            Wrong(_whole_prompts_that_fit, "a prompt is read in pieces: give it what is left of the budget"),
            Wrong(_one_prompt, "one prompt may leave something of the budget: the next one gets that"),
            Wrong(_each_alone, "the budget is one for all: take from it what each of them gets"),
            Wrong(_decoding_always, "there may be fewer tokens than requests that decode: the last of them get 0"),
            Wrong(_as_they_are_given, "the result is in the order of the list: share i is request i's"),
            Wrong(_without_the_empty_handed, "a request that gets nothing is in the list too, with 0"),
            Wrong(_equal_parts, "do not give equal parts: the earlier request gets all it can use"),
        ),
    ),
    Exercise(
        id="8.2",
        name="let_in",
        reference=let_in,
        cases=[([], 1), ([3], 0), ([2, 1], 1), ([1, 2], 1), ([1, 1], 1), ([1, 2], 0), ([0, 1, 2], 1), ([0, 2, 3], 1),
               ([0, 1, 2, 3], 2), ([3, 0, 2, 1], 1), ([0, 0, 1, 2, 3], 2), ([0, 3, 0, 2, 1], 1)],
        strategy=_ORDERS,
        hint="count for each waiting request how often a later one went before it",
        wrong=(
            Wrong(_longest_alone, "with new long prefixes coming all the time, the shortest would wait forever"),
            Wrong(_shortest_prefix_first, "the other way round: the longest cached prefix goes first"),
            Wrong(_numbers, "return the indices of the requests, not what they have in the cache"),
            Wrong(_first_come, "as long as no request was overtaken too often, the longest cached prefix goes first"),
            Wrong(_once_too_often, "a request that was overtaken `max_overtakes` times may not be overtaken again"),
            Wrong(_any_before_it, "only later requests overtake: an earlier one does not count"),
            Wrong(_longest_of_the_tired, "among those overtaken too often the first goes, or it is overtaken again"),
            Wrong(_last_of_the_tired, "among those overtaken too often the first goes, not the last"),
            Wrong(_last_of_equals, "ties go to the request that came first"),
        ),
    ),
    Hunt(
        id="8.3",
        name="careless_finished",
        careless=careless_finished,
        reference=finished,
        example=(6, [(2, 4), (2, 4), (2, 1)]),
        hint="one request must be preempted while another one waits",
        advice=_advice,
        wrong=(
            Wrong(_room_for_all, "no request is preempted here: take fewer slots, or let them say more"),
            Wrong(_two, "two are too few: where no other request waits, the front of the line is its end"),
        ),
    ),
)  # fmt: skip

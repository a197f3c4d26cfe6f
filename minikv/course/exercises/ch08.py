"""The exercises of chapter 08: an order without starvation, and the wrong end of the line."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from hypothesis import strategies as st

from minikv.course.exercises.exercise import Exercise, Hunt, Wrong

_Queue = list[int]
_Requests = Sequence[tuple[int, int]]
_Case = tuple[int, list[tuple[int, int]]]


def let_in(cached: Sequence[int], max_overtakes: int) -> list[int]:
    """The order in which a `Scheduler` with one place lets requests in; request `i` has `cached[i]` cached tokens.

    The longest prefix goes first, but a request is overtaken at most `max_overtakes` times.

    >>> let_in([0, 2, 3], max_overtakes=1)
    [2, 0, 1]
    """
    return _chosen(cached, lambda often: often >= max_overtakes, lambda tired: tired[0])


def _chosen(
    cached: Sequence[int], is_tired: Callable[[int], bool], pick: Callable[[_Queue], int], everybody: bool = False
) -> list[int]:
    """The rule with parts to exchange: who is tired, who of the tired is picked, and who counts as overtaken."""
    waiting, overtaken, order = list(range(len(cached))), [0] * len(cached), []
    while waiting:
        tired = [i for i in waiting if is_tired(overtaken[i])]
        order.append(pick(tired) if tired else max(waiting, key=lambda i: cached[i]))
        waiting.remove(order[-1])
        for i in waiting:
            overtaken[i] += everybody or i < order[-1]
    return order


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


_ORDERS = st.tuples(st.lists(st.integers(0, 3), max_size=6), st.integers(0, 3))

EXERCISES = (
    Exercise(
        id="8.4",
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
        id="8.5",
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

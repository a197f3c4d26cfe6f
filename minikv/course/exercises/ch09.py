"""The exercises of chapter 09: which row to take, and a row that is taken over without a new version.

`OrderedTrie` is no exercise: it is a trie as AstrAI had it, for the chapter's experiments.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

from hypothesis import strategies as st

from minikv.course.exercises.exercise import Exercise, Hunt, Wrong
from minikv.course.exercises.judge import Script
from minikv.testing.time_limit import TimeLimit, TooLong

Used = Sequence[int | None]


class OrderedNode:
    """A token of an `OrderedTrie`: the row of its prefix, and how many requests have pinned it."""

    def __init__(self) -> None:
        self.children: dict[int, OrderedNode] = {}
        self.row, self.pins = -1, 0


class OrderedTrie:
    """A trie after AstrAI's: all nodes in one ordered dictionary, from which the oldest goes.

    >>> trie = OrderedTrie(capacity=10)
    >>> trie.insert([1, 2, 3], row=0)
    >>> trie.find([1, 2, 9])
    2
    """

    def __init__(self, capacity: int):
        self.root, self.capacity = OrderedNode(), capacity
        self.order: OrderedDict[OrderedNode, None] = OrderedDict()

    def insert(self, tokens: Sequence[int], row: int = 0) -> None:
        """Let every node of `tokens` name `row`, and pin the last one."""
        node = self.root
        for token in tokens:
            node = node.children.setdefault(token, OrderedNode())
            node.row = row
            self.order[node] = None
        node.pins += 1
        while len(self.order) > self.capacity:
            oldest = next(iter(self.order))
            if oldest.pins:
                self.order.move_to_end(oldest)
            else:
                del self.order[oldest]
                oldest.children.clear()

    def find(self, tokens: Sequence[int]) -> int:
        """How many tokens are there; they are used now."""
        path = self.path(tokens)
        for node in path:
            self.order.move_to_end(node)
        return len(path)

    def release(self, tokens: Sequence[int]) -> None:
        """Take a pin off the last node."""
        path = self.path(tokens)
        if len(path) == len(tokens) and path[-1].pins:
            path[-1].pins -= 1

    def path(self, tokens: Sequence[int]) -> list[OrderedNode]:
        """The nodes of `tokens`, as far as they are there."""
        found = [self.root]
        for token in tokens:
            if token not in found[-1].children:
                break
            found.append(found[-1].children[token])
        return found[1:]


def outcome(*steps: tuple[str, Sequence[int]]) -> str:
    """What comes of `steps`, pairs of a verb and tokens, in an `OrderedTrie` with room for three nodes.

    It is the number that the last step found, or the name of the error; a second is time enough.

    >>> outcome(("insert", [1, 2]), ("find", [1, 2, 3])), outcome(*(("insert", [token]) for token in range(4)))
    ('found 2', 'TooLong')
    """
    trie, limit, found = OrderedTrie(capacity=3), TimeLimit(1.0), None
    try:
        limit.start()
        for verb, tokens in steps:
            found = getattr(trie, verb)(tokens)
    except (KeyError, TooLong) as error:
        return type(error).__name__
    finally:
        limit.stop()
    return f"found {found}"


def pick_row(used: Used, named: Sequence[int]) -> int | None:
    """The row that a new request takes: a free one that no node names, or else the one given back longest ago.

    `used[row]` is the time at which it was given back, or `None` while somebody runs in it; `named[row]` is how many
    current nodes name it. The lowest of several; `None` if no row is free.

    >>> pick_row([3, 1, None, 2], [4, 2, 5, 0])
    3
    """
    free = [row for row, time in enumerate(used) if time is not None]
    return min(free, key=lambda row: (named[row] > 0, used[row] if named[row] else 0, row), default=None)


class SharedRows:
    """Rows of keys and values, for which tokens stand here, and the prefixes that are in them.

    `start(name, tokens)` takes a row and returns what it holds of the prefix that was found; `finish(name)` publishes
    the request's prefixes and gives the row back. A prefix is found as long as its row has the version of then.
    """

    def __init__(self, num_rows: int) -> None:
        self.rows: list[list[int]] = [[] for _ in range(num_rows)]
        self.versions = [0] * num_rows
        self.running: dict[str, tuple[int, list[int]]] = {}
        self.where: dict[tuple[int, ...], tuple[int, int]] = {}

    def start(self, name: str, tokens: Sequence[int]) -> list[int]:
        """Begin a request; `ValueError` if it runs already, has no tokens, or finds no free row."""
        free = set(range(len(self.rows))) - {row for row, _ in self.running.values()}
        if not free or not tokens or name in self.running:
            raise ValueError("no free row, no tokens, or a name that is running")
        prefix = self.find(tokens[:-1])
        source = self.where[prefix][0] if prefix else min(free)
        row = source if source in free else min(free)
        found = self.rows[source][: len(prefix)]
        self.take(row, prefix)
        self.rows[row] = found + list(tokens[len(prefix) :])
        self.running[name] = row, list(tokens)
        return found

    def find(self, tokens: Sequence[int]) -> tuple[int, ...]:
        """The longest prefix whose row has not been taken since."""
        prefix = tuple(tokens)
        while prefix and not self.is_current(prefix):
            prefix = prefix[:-1]
        return prefix

    def is_current(self, prefix: tuple[int, ...]) -> bool:
        """Whether the row of `prefix` has the version of then."""
        row, version = self.where.get(prefix, (0, -1))
        return self.versions[row] == version

    def take(self, row: int, prefix: tuple[int, ...]) -> None:
        """Count the version of `row` up; what it holds of `prefix` stays current."""
        kept = [prefix[:end] for end in range(1, len(prefix) + 1)]
        kept = [each for each in kept if self.is_current(each) and self.where[each][0] == row]
        self.versions[row] += 1
        self.where.update(dict.fromkeys(kept, (row, self.versions[row])))

    def finish(self, name: str) -> None:
        """Publish the prefixes of a request, and give its row back; `ValueError` if it does not run."""
        if name not in self.running:
            raise ValueError(f"{name} does not run")
        row, tokens = self.running.pop(name)
        for end in range(1, len(tokens) + 1):
            prefix = tuple(tokens[:end])
            if not self.is_current(prefix):
                self.where[prefix] = row, self.versions[row]


class CarelessRows(SharedRows):
    """The same, but a row that is taken over for its prefix keeps its version."""

    def take(self, row: int, prefix: tuple[int, ...]) -> None:
        """Count the version of `row` up, unless the request begins with what is in it."""
        if not any(self.where[prefix[:end]][0] == row for end in range(1, len(prefix) + 1)):
            super().take(row, prefix)


# -- wrong answers ----------------------------------------------------------------------------------------------------


def _lowest_free(used: Used, named: Sequence[int]) -> int | None:
    return next((row for row, time in enumerate(used) if time is not None), None)


def _only_lru(used: Used, named: Sequence[int]) -> int | None:
    free = [(time, row) for row, time in enumerate(used) if time is not None]
    return min(free)[1] if free else None


def _oldest_of_unnamed(used: Used, named: Sequence[int]) -> int | None:
    free = [(named[row] > 0, time, row) for row, time in enumerate(used) if time is not None]
    return min(free)[2] if free else None


def _newest(used: Used, named: Sequence[int]) -> int | None:
    free = [row for row, time in enumerate(used) if time is not None]
    return min(free, key=lambda row: (named[row] > 0, -(used[row] or 0) if named[row] else 0, row), default=None)


def _fewest_nodes(used: Used, named: Sequence[int]) -> int | None:
    free = [row for row, time in enumerate(used) if time is not None]
    return min(free, key=lambda row: (named[row], row), default=None)


def _only_unnamed(used: Used, named: Sequence[int]) -> int | None:
    return next((row for row, time in enumerate(used) if time is not None and not named[row]), None)


def _named_first(used: Used, named: Sequence[int]) -> int | None:
    free = [row for row, time in enumerate(used) if time is not None]
    return min(free, key=lambda row: (not named[row], used[row] if named[row] else 0, row), default=None)


def _raises(used: Used, named: Sequence[int]) -> int:
    free = [row for row, time in enumerate(used) if time is not None]
    return min(free, key=lambda row: (named[row] > 0, used[row] if named[row] else 0, row))


def _zero_is_running(used: Used, named: Sequence[int]) -> int | None:
    free = [row for row, time in enumerate(used) if time]
    return min(free, key=lambda row: (named[row] > 0, used[row] if named[row] else 0, row), default=None)


def _steps(*steps: tuple[str, list[int]] | str) -> Script:
    """Starts, and finishes where only a name is given."""
    return Script((1,), tuple(("finish", (s,)) if isinstance(s, str) else ("start", s) for s in steps))


def _never_finished() -> Script:
    return Script((2,), (("start", ("Anna", [1, 2, 3])), ("start", ("Ben", [1, 2, 3]))))


def _same_again() -> Script:
    return _steps(("Anna", [1, 2, 3]), "Anna", ("Ben", [1, 2, 3]), "Ben", ("Cleo", [1, 2, 3]))


def _nobody_asks() -> Script:
    return _steps(("Anna", [1, 2, 3]), "Anna", ("Ben", [1, 9, 9]), "Ben")


def _one_token_short() -> Script:
    return _steps(("Anna", [1, 2]), "Anna", ("Ben", [1, 9]), "Ben", ("Cleo", [1, 2]))


def _advice(script: Script) -> str | None:
    """A hint for a script that does no harm: what it does not do yet."""
    rows, taken = SharedRows(*script.init), False
    for verb, given in script.operations:
        before = list(rows.versions)
        found = getattr(rows, verb)(*given)
        taken = taken or bool(verb == "start" and found and rows.running[given[0]][0] in _known(rows, before))
    if not any(verb == "finish" for verb, _ in script.operations):
        return "nothing is published before a request finishes"
    if not taken:
        return "the careless line runs when a request takes over the free row of its prefix: let one do that"
    return "who still trusts the old end of that row? Let somebody ask for it"


def _known(rows: SharedRows, before: Sequence[int]) -> list[int]:
    """The rows that were in use before and have a new version."""
    return [row for row, version in enumerate(rows.versions) if before[row] and version != before[row]]


_TIMES = st.lists(st.tuples(st.none() | st.integers(0, 9), st.integers(0, 3)), max_size=6)

EXERCISES = (
    Exercise(
        id="9.5",
        name="pick_row",
        reference=pick_row,
        cases=[([1], [0]), ([], []), ([None], [0]), ([None, None], [3, 0]), ([2, 1], [1, 1]), ([1, 2], [1, 0]),
               ([0, 1], [2, 2]), ([5, 3, 4], [1, 2, 3]), ([5, 3], [0, 0]), ([None, 2, 1], [0, 1, 3]),
               ([3, 1, None, 2], [4, 2, 5, 0]), ([3, 1, 2], [1, 3, 2])],
        strategy=_TIMES.map(lambda pairs: ([time for time, _ in pairs], [count for _, count in pairs])),
        hint="look at the free rows alone: those that no node names come first, then the one given back longest ago",
        wrong=(
            Wrong(_lowest_free, "a free row may still be cached: take one that no node names, if there is one"),
            Wrong(_only_lru, "a row that no node names is worth nothing, however lately it was used: take it first"),
            Wrong(_oldest_of_unnamed, "of the rows that no node names take the lowest, whenever it was given back"),
            Wrong(_newest, "the row given back longest ago goes first, not the one given back last"),
            Wrong(_fewest_nodes, "of rows that are cached, the one given back longest ago goes, as in chapter 05"),
            Wrong(_only_unnamed, "where every free row is cached, one of them has to go"),
            Wrong(_named_first, "the other way around: take a row that no node names before one that is cached"),
            Wrong(_raises, "where no row is free, return None"),
            Wrong(_zero_is_running, "a row was given back at time 0, and is free: compare with None"),
        ),
    ),
    Hunt(
        id="9.6",
        name="CarelessRows",
        careless=CarelessRows,
        reference=SharedRows,
        example=_steps(("Anna", [1, 2, 3]), "Anna", ("Ben", [1, 9, 9]), "Ben", ("Cleo", [1, 2, 3, 4])),
        hint="a request takes over a row and writes behind its prefix: what was there before, and who still trusts it?",
        advice=_advice,
        wrong=(
            Wrong(_never_finished, "nothing is published before a request finishes"),
            Wrong(_same_again, "Ben writes what was there before: let him go on with other tokens"),
            Wrong(_one_token_short, "the last token is always computed: let somebody ask for more than what was there"),
            Wrong(_nobody_asks, "the old end is overwritten, and nobody asks for it: let one more request begin"),
        ),
    ),
)  # fmt: skip

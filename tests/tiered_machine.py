"""A state machine over two tiers: pages, and what is in them, against a model that knows nothing of trees.

The device side is driven as every index is. The model of host memory is a dictionary of pages with the time of their
last use. Bytes are followed as well: the test keeps what each device page and each host page holds, and every page
that either tree has must hold what the tree says.
"""

from functools import partial

from hypothesis import strategies as st
from machine import LONG_ONES, Pooled, Watched, cached_in
from policy_model import PolicyModel

from minikv.prefix.base_index import way_to
from minikv.prefix.eviction import POLICIES
from minikv.prefix.radix import EVICT_BY
from minikv.prefix.tiered import WRITES, TieredCache
from minikv.testing.model import NaiveCache, is_on_the_way
from minikv.testing.rules import RULES, Subject
from minikv.testing.scenarios import prompts, scenario_of
from minikv.tokens import pack

HOT = 2  # uses
TOKENS = prompts([1, 2, 1, 1, 2, 2, 1, 2])


class HostModel(NaiveCache):
    """Host pages, least recently used out first, and the moves under way."""

    def __init__(self, page_size, num_pages):
        super().__init__(page_size, "page")
        self.num_pages, self.moves = num_pages, {}  # of each move: what it has locked, and what it brings here

    def locked(self, key):
        return any(key in held for held, _ in self.moves.values())

    def free(self):
        return self.num_pages - len(self.pages) - sum(len(new) for _, new in self.moves.values())

    def begin_copy(self, namespace, tokens):
        """What is there already, and what is copied out."""
        held = self.cached_path(namespace, tokens)
        self.touch(held, "insert")
        new = self.path(namespace, tokens)[len(held) :]
        self.moves[None] = held, []
        self.evict(max(0, len(new) - self.free()) * self.page_size)
        del self.moves[None]
        return held, new[: self.free()]

    def settle(self, move, arrived):
        held, new = self.moves.pop(move)
        if arrived and new:
            path = [*held, *new]
            self.store(path, len(held), [0] * len(path))
            self.touch(new, "insert")
        self.touch(held, "insert")


class Carried(TieredCache):
    """Carries out its own moves as `mode` says: they arrive, fail, or stay under way. Keeps the model beside it."""

    mode = "arrive"

    def __init__(self, page_size, write, policy, evict_by, host_pages):
        super().__init__(page_size, host_pages, write, HOT, policy, evict_by)
        self.forget()

    def forget(self):
        self.model, self.on_device, self.on_host, self.uses = HostModel(self.page_size, self.host_pages), {}, {}, {}

    # -- the verbs, and what the model says about them --------------------------------------------------------------

    def match_prefix(self, tokens, *, limit=None, namespace=None):
        return self.compared(super().match_prefix(tokens, limit=limit, namespace=namespace), tokens, limit)

    def acquire(self, tokens, *, limit=None, namespace=None):
        return self.compared(super().acquire(tokens, limit=limit, namespace=namespace), tokens, limit)

    def compared(self, match, tokens, limit):
        asked = tuple(tokens)[:limit]
        known = self.model.cached_path(match.namespace, asked)
        self.model.touch(known, "match_prefix")
        assert match.host_length == max(0, len(known) * self.page_size - match.length)
        self.use(self.model.path(match.namespace, asked[: match.length]))
        return match

    def use(self, path):
        for key in path:
            self.uses[key] = self.uses.get(key, 0) + 1

    def insert(self, tokens, pages, *, namespace=None, start=None, **options):
        keys, given = self.model.path(namespace, tuple(pack(tokens).tolist())), [int(page) for page in pages]
        done = super().insert(tokens, pages, namespace=namespace, start=start, **options)
        for at in range(done.prefix_length // self.page_size, len(keys)):
            self.on_device[given[at]] = keys[at]
            self.uses[keys[at]] = 0
        self.use(keys[start.length // self.page_size if start else 0 :])
        while keys and self.write == "write_through_selective" and self.uses[keys[-1]] < HOT:
            keys.pop()
        self.carry(keys[-1:] if self.write != "write_back" else [])
        return done

    def evict(self, num_tokens):
        pages = super().evict(num_tokens)
        gone = [self.on_device[page] for page in pages.tolist()]
        longest = [key for key in gone if not any(key != other and is_on_the_way(key, *other) for other in gone)]
        self.carry(longest if self.write == "write_back" else [])
        return pages

    def reset(self):
        super().reset()
        self.forget()

    # -- moves --------------------------------------------------------------------------------------------------------

    def carry(self, due):
        """The paths to the pages in `due` are copied out, as far as host memory lacks them and has room."""
        for namespace, tokens in due:
            held, new = self.model.begin_copy(namespace, tokens)
            if not new:
                self.model.touch(held, "insert")
                continue
            move = self.next_move()
            assert move is not None
            path = self.model.path(move.namespace, tuple(move.tokens.tolist()))
            assert (path, len(move.dst)) == (held + new, len(new))
            assert [self.on_device[page] for page in move.src.tolist()] == new
            self.model.moves[move] = held, new
            if self.mode != "later":
                self.end(move, self.mode == "arrive")
        assert self.next_move() is None

    def moves_will(self, mode):
        self.mode = mode

    def move_ends(self, pick, arrived):
        if moves := self.host.moves:
            self.end(moves[pick % len(moves)], arrived)

    def load(self, match, pages):
        move = super().load(match, pages)
        if move is not None:
            held = self.model.cached_path(move.namespace, tuple(move.tokens.tolist()))
            assert len(held) * self.page_size == len(move.tokens)
            self.model.touch(held, "match_prefix")
            self.model.moves[move] = held, []
        return move

    def end(self, move, arrived=True):
        """Settle a move: only now the bytes are where it says."""
        held, new = self.model.moves[move]
        if move.to_host:
            self.on_host.update(zip(move.dst.tolist(), new if arrived else ["half a page"] * len(new)))
        else:
            read = [self.on_host[page] for page in move.src.tolist()]
            assert read == held[len(held) - len(read) :], "a host page was used again while it was read"
        self.settle(move, arrived)
        self.model.settle(move, arrived)

    # -- what both trees hold -----------------------------------------------------------------------------------------

    def check(self):
        """Both trees hold what they say, host memory what the model has, and every mark is true."""
        super().check()
        host = cached_in(self.host.index)
        assert all(self.on_host[page] == key for key, (page, _) in host.items())
        assert host.keys() == self.model.pages.keys()
        assert self.host.pool.num_free == self.model.free()
        assert f", {len(host)} cached, " in repr(self.host)
        times = {key: node.last_used for key, (_, node) in host.items() if not self.model.locked(key)}
        assert ranks(times) == ranks({key: self.model.pages[key].last_used for key in times})
        for key, (page, node) in cached_in(self).items():
            assert self.on_device[page] == key
            assert self.is_true(getattr(node, "in_host", None), key, node)

    def is_true(self, mark, key, node):
        """Whether what is left of the path that a node says is in host memory is the node's own: `key` is on it."""
        if mark is None:
            return True
        left, length = self.host.index._what_is_left(mark.node, min(mark.length, node.end))
        length, path = min(length, len(key[1])), way_to(left)[::-1]
        tokens = tuple(token for each in path for token in each.tokens)
        return not length or (path[0].parent.namespace, tokens[:length]) == (key[0], key[1][:length])


class Tiers(Pooled):
    """`Carried`, from which requests take what the device lacks."""

    def __init__(self, page_size, evict_by, policy, **how):
        super().__init__(partial(Carried, **how), page_size, policy, evict_by)

    def load(self, match, tokens, pages):
        return match, self.index.load(match, pages)

    def arrive(self, match, move):
        if move is not None:
            self.index.end(move)
            pages = [0] * (match.length // self.page_size) + move.dst.tolist()
            self.insert(move.tokens.tolist(), pages, namespace=match.namespace, start=match)

    def reset(self):
        for move in [*self.index.host.moves]:
            self.index.end(move)
        super().reset()


class TiersModel(PolicyModel):
    """What the device has; `tiers` has the model of host memory, which says what can be loaded."""

    def load(self, match, tokens, pages):
        there = match.length // self.page_size
        known = self.tiers.index.model.cached_path(match.namespace, tuple(tokens))[: there + len(pages)]
        return match, (known[-1][1], [*[0] * there, *pages]) if len(known) > there else None

    def arrive(self, match, move):
        if move is not None:
            tokens, pages = move
            self.insert(tokens, pages[: len(tokens) // self.page_size], namespace=match.namespace, start=match)

    def moves_will(self, *_):
        """A copy to host memory changes nothing on the device."""

    move_ends = moves_will


class WatchedTiers(Watched):
    """Two tiers under every write policy, every eviction policy, and moves that fail or take their time."""

    def new_model(self):
        policy, write = (self.subject.fixed[name] for name in ("policy", "write"))
        model = TiersModel(self.page_size, policy, self.settings["evict_by"])
        model.tiers = self.made.value
        model.reads += ("hits",) * (write == "write_through_selective")
        return model


SUBJECTS = st.builds(
    lambda way, **how: Subject(Tiers, "Tiers", frozenset(RULES), (1, 2, 3), ({"evict_by": way},), how),
    st.sampled_from(EVICT_BY),
    write=st.sampled_from(WRITES),
    policy=st.sampled_from(["lru", "lru", "lru", *POLICIES]),
    host_pages=st.sampled_from([5, 8]),
)


def load(tokens, namespace, most, meanwhile):
    """A request that takes from host memory what the device lacks; others may need room while it moves."""
    return "; ".join([
        f"a = cache.acquire({tokens}, namespace={namespace!r})", f"b = cache.load(a, {tokens}, PAGES[:{most}])",
        f"cache.evict({meanwhile})", "cache.arrive(*b)", "cache.unlock(a)",
    ])  # fmt: skip


MOVES = st.one_of(
    st.builds("cache.moves_will({!r})".format, st.sampled_from(["arrive", "arrive", "fail", "later"])),
    st.builds("cache.move_ends({}, {})".format, st.integers(0, 5), st.booleans()),
    st.builds(load, TOKENS, st.sampled_from([None, None, "a"]), st.integers(0, 8), st.integers(0, 12)),
)


def with_moves(scenario, moves):
    """The scenario, with `moves` after some of its lines; each has pages of its own, which no scenario comes to."""
    lines = []
    for place, line in enumerate(scenario.lines):
        lines.append(line)
        for number, (at, move) in enumerate(moves, 25):
            if at == place:
                lines.append(move.replace("PAGES", f"range({8 * number}, {8 * number + 8})"))
    return scenario_of(*lines, page_size=scenario.page_size)


CASES = st.builds(with_moves, LONG_ONES, st.lists(st.tuples(st.integers(0, 50), MOVES), max_size=12))


def ranks(times):
    """Which are as old as each other, and in which order."""
    order = {time: rank for rank, time in enumerate(sorted({*times.values()}))}
    return {key: order[time] for key, time in times.items()}

"""A state machine over two tiers: pages, and what is in them, against a model that knows nothing of trees.

The device side is driven as every index is. The model of host memory is a dictionary of pages with the time of their
last use. Bytes are followed as well: the test keeps what each device page and each host page holds, and every page
that either tree has must hold what the tree says.
"""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import initialize, precondition, rule
from index_machine import NAMESPACES, TOKENS, IndexAgainstModel

from minikv.prefix.base_index import way_to
from minikv.prefix.eviction import POLICIES
from minikv.prefix.tiered import WRITES, TieredCache
from minikv.tokens import pack

HOT = 2  # uses


class HostModel:
    """Host pages by (namespace, tokens up to the end of the page), and when each was last used."""

    def __init__(self, page_size, num_pages):
        self.size, self.num_pages, self.clock = page_size, num_pages, 0
        self.used, self.moves = {}, {}  # of each move: what it has locked, and what it brings to host memory

    def path(self, namespace, tokens):
        return [(namespace, tuple(tokens[:end])) for end in range(self.size, len(tokens) + 1, self.size)]

    def known(self, namespace, tokens):
        path = self.path(namespace, tokens)
        return path[: next((at for at, key in enumerate(path) if key not in self.used), len(path))]

    def touch(self, path):
        self.clock += 1
        self.used.update(dict.fromkeys(path, self.clock))

    def locked(self):
        return {key for held, _ in self.moves.values() for key in held}

    def free(self):
        return self.num_pages - len(self.used) - sum(len(new) for _, new in self.moves.values())

    def begin_copy(self, namespace, tokens):
        """What is there already, and what is copied out."""
        held = self.known(namespace, tokens)
        self.touch(held)
        new, locked = self.path(namespace, tokens)[len(held) :], self.locked() | {*held}
        while self.free() < len(new):
            inner = {(name, path[: -self.size]) for name, path in self.used}
            leaves = [key for key in self.used if key not in inner and key not in locked]
            if not leaves:
                break
            del self.used[min(leaves, key=self.used.__getitem__)]
        return held, new[: self.free()]

    def settle(self, move, arrived):
        held, new = self.moves.pop(move)
        if arrived and new:
            self.touch(new)
        self.touch(held)


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
        asked = list(tokens)[:limit]
        known = self.model.known(match.namespace, asked)
        self.model.touch(known)
        assert match.host_length == max(0, len(known) * self.page_size - match.length)
        self.use(self.model.path(match.namespace, asked[: match.length]))
        return match

    def use(self, path):
        for key in path:
            self.uses[key] = self.uses.get(key, 0) + 1

    def insert(self, tokens, pages, *, namespace=None, start=None, **options):
        keys, given = self.model.path(namespace, pack(tokens).tolist()), [int(page) for page in pages]
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
        longest = [
            (name, tokens)
            for name, tokens in gone
            if not any(n == name and len(t) > len(tokens) and t[: len(tokens)] == tokens for n, t in gone)
        ]
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
                self.model.touch(held)
                continue
            move = self.next_move()
            assert move is not None
            assert (self.model.path(move.namespace, move.tokens.tolist()), len(move.dst)) == (held + new, len(new))
            assert [self.on_device[page] for page in move.src.tolist()] == new
            self.model.moves[move] = held, new
            if self.mode != "later":
                self.end(move, self.mode == "arrive")
        assert self.next_move() is None

    def fetch(self, match, pages):
        """Begin to load what follows a locked match."""
        move = self.load(match, pages)
        if move is not None:
            tokens = move.tokens.tolist()
            held = self.model.known(move.namespace, tokens)
            assert len(held) * self.page_size == len(tokens)
            self.model.touch(held)
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
        host, locked = cached_in(self.host.index), self.model.locked()
        assert all(self.on_host[page] == key for key, (page, _) in host.items())
        assert host.keys() == self.model.used.keys()
        assert self.host.pool.num_free == self.model.free()
        times = {key: node.last_used for key, (_, node) in host.items() if key not in locked}
        assert ranks(times) == ranks({key: self.model.used[key] for key in times})
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


class Tiered(IndexAgainstModel):
    """Two tiers under every write policy, every eviction policy, and moves that fail or take their time."""

    @initialize(
        page_size=st.integers(1, 3),
        number=st.integers(0, 1),
        write=st.sampled_from(WRITES),
        policy=st.sampled_from(["lru", "lru", "lru", *POLICIES]),
        host_pages=st.sampled_from([5, 8]),
    )
    def start(self, page_size, number, write, policy, host_pages):
        self.write, self.policy, self.host_pages = write, policy, host_pages
        IndexAgainstModel.start(self, page_size, number)
        if write == "write_through_selective" and "hits" not in self.model.reads:
            self.model.reads = (*self.model.reads, "hits")

    def make(self, page_size, policy, evict_by):
        return Carried(page_size, self.write, policy, evict_by, self.host_pages)

    @rule(mode=st.sampled_from(["arrive", "arrive", "fail", "later"]))
    def moves_will(self, mode):
        self.index.mode = mode

    @precondition(lambda self: self.index.host.moves)
    @rule(pick=st.integers(0, 5), arrived=st.booleans())
    def a_move_ends(self, pick, arrived):
        moves = self.index.host.moves
        self.index.end(moves[pick % len(moves)], arrived)

    @rule(tokens=TOKENS, namespace=NAMESPACES, short=st.integers(0, 1), meanwhile=st.integers(0, 12))
    def load(self, tokens, namespace, short, meanwhile):
        """A request that takes from host memory what the device lacks; others may need room while it moves."""
        pair = self.acquire(tokens, namespace)
        match = pair[0]
        pages = self.room_for(match.host_length - short * self.page_size) if match.host_length else None
        move = None if pages is None else self.index.fetch(match, pages)
        if move is not None:
            self.evict(meanwhile)
            self.index.end(move)
            given, spare = pages[: len(move.dst)], pages[len(move.dst) :]
            self.free(spare)
            self.put(move.tokens.tolist(), given, namespace, pair)
        elif pages is not None:
            self.free(pages)
        self.unlock(pair)

    @rule()
    def reset(self):
        if not self.index.host.moves:
            super().reset()


def cached_in(tree):
    """The page and the node of each cached page of tokens, without a verb."""
    found = {}
    for node in tree.nodes():
        path = way_to(node)[::-1]
        prefix, size = [token for each in path for token in each.tokens], tree.page_size
        for place, page in enumerate(node.pages, node.parent.end // size + 1):
            found[path[0].parent.namespace, tuple(prefix[: place * size])] = page, node
    return found


def ranks(times):
    """Which are as old as each other, and in which order."""
    order = {time: rank for rank, time in enumerate(sorted({*times.values()}))}
    return {key: order[time] for key, time in times.items()}

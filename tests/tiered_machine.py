"""A state machine over two tiers: pages, and what is in them, against a model that knows nothing of trees.

The device side is driven as every index is. The model of host memory is a dictionary of pages with the time of their
last use. Bytes are followed as well: the test keeps what each device page and each host page holds, and every page
that either tree has must hold what the tree says.
"""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, precondition, rule
from machine import NAMESPACES, TOKENS, IndexAgainstModel

from minikv.prefix.tiered import WRITES, TieredCache
from minikv.tokens import pack

HOST_PAGES, HOT = 12, 2


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

    def __init__(self, page_size, write, policy, evict_by, host_pages=HOST_PAGES):
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


class Tiered(IndexAgainstModel):
    """Two tiers under every write policy, every eviction policy, and moves that fail or take their time."""

    @initialize(page_size=st.integers(1, 3), number=st.integers(0, 1), write=st.sampled_from(WRITES))
    def start(self, page_size, number, write):
        self.write = write
        IndexAgainstModel.start(self, page_size, number)
        if write == "write_through_selective" and "hits" not in self.model.reads:
            self.model.reads = (*self.model.reads, "hits")

    def make(self, page_size, policy, evict_by):
        return Carried(page_size, self.write, policy, evict_by)

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

    @invariant()
    def both_tiers_hold_what_they_say(self):
        if not hasattr(self, "index"):
            return
        index, model = self.index, self.index.model
        for tree, held in ((index, index.on_device), (index.host.index, index.on_host)):
            for key, page in pages_of(tree).items():
                assert held[page] == key
        assert {*pages_of(index.host.index)} == {*model.used}
        assert index.host.pool.num_free == model.free()
        locked = model.locked()
        assert index.host.index.protected_size == len(locked) * self.page_size
        times = {key: node.last_used for key, node in nodes_of(index.host.index).items() if key not in locked}
        assert ranks(times) == ranks({key: model.used[key] for key in times})


def nodes_of(tree):
    """The node of each cached page, without a verb."""
    found = {}
    for node in tree.nodes():
        prefix, walker = [], node
        while walker.parent is not None:
            prefix = [*walker.tokens, *prefix]
            walker = walker.parent
        for end in range(node.end - len(node.tokens) + tree.page_size, node.end + 1, tree.page_size):
            found[walker.namespace, tuple(prefix[:end])] = node
    return found


def pages_of(tree):
    """The page of each cached page of tokens."""
    return {
        key: node.pages[(len(key[1]) - node.end + len(node.tokens)) // tree.page_size - 1]
        for key, node in nodes_of(tree).items()
    }


def ranks(times):
    """Which are as old as each other, and in which order."""
    order = sorted({*times.values()})
    return {key: order.index(time) for key, time in times.items()}

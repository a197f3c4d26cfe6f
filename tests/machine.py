"""The kit's scenarios on an index over one pool, with everybody looking on: a stricter setting for our own indexes.

After every step the index audits itself, its sizes and contents are compared with the model's, the ledger has found one
owner for each slot, and the canary has read every slot that the index holds. What goes first, under whichever policy,
the model says exactly.
"""

from __future__ import annotations

import numpy as np
from policy_model import PolicyModel, worth_of

from minikv import FreeListPool
from minikv.prefix import BY_POLICY, index_named
from minikv.testing.audits import AuditedRun
from minikv.testing.canary import Canary
from minikv.testing.ledger import Ledger
from minikv.testing.rules import RULES, Subject

PAGES = 500  # all of them are the caller's at first; each is used once


def has_policy(design):
    """Whether an index, by its name or as a class of trees, takes an order of eviction."""
    return isinstance(design, type) or design in BY_POLICY


class Pooled:
    """An index as an engine uses it: what the index does not want, or no longer, goes back to the pool.

    The buffers are the caller's: they are written over as soon as the index has seen them.
    """

    def __init__(self, design, page_size, policy="lru", evict_by=None):
        self.has_policy, self.page_size = has_policy(design), page_size
        how = {"policy": policy, "evict_by": evict_by} if self.has_policy else {}
        made = design(page_size, **how) if isinstance(design, type) else index_named(design, page_size, **how)
        self.index, self.pool = made, FreeListPool(PAGES)
        self.ledger, self.canary = Ledger(self.pool, self.index, page_size), Canary(self.index)
        self.pool.alloc(PAGES)

    def __getattr__(self, name):
        return getattr(self.index, name)

    def insert(self, tokens, pages, *, start=None, **options):
        keys, values, size = np.array(tokens, np.uint32), np.array(pages, np.int32), self.page_size
        at = start.length // size if start else 0
        worth = {"priority": worth_of(tokens)} if self.has_policy else {}
        done = self.index.insert(keys, values, start=start, **worth, **options)
        keys[:], values[:] = 7, 7
        self.pool.free([*pages[at : done.prefix_length // size], *pages[done.length // size :]])
        return done

    def evict(self, num_tokens):
        pages = self.index.evict(num_tokens)
        self.pool.free(pages)
        return pages

    def reset(self):
        pages = [page for node in self.index.nodes() for page in node.pages]
        self.index.reset()
        self.pool.free(pages)


class Watched(AuditedRun):
    """A run in which nothing is left open."""

    def new_model(self):
        policy = self.subject.fixed.get("policy", "lru")
        return PolicyModel(self.page_size, policy, self.settings["evict_by"], has_policy(self.subject.fixed["design"]))

    def eviction(self, reply, expected):
        return None if reply.value == expected.value else self.end(9, f"gives {reply.value}, expected {expected.value}")

    def look_around(self, reply, expected):
        found = super().look_around(reply, expected)
        if found is None and self.contents() != self.expected_contents():
            return self.end(3, f"then it holds {self.contents()}, expected {self.expected_contents()}")
        return found

    def use(self, item, locked):
        """What a policy may read of a node or a page; in use is not recent or old, and the unlock says when it was."""
        fields = ("last_used", *self.model.reads)
        return [None if locked and field == "last_used" else getattr(item, field) for field in fields]

    def expected_contents(self):
        pages, locked = self.model.pages, self.model.locked
        return {key: [page.number, *self.use(page, locked(key))] for key, page in pages.items()}

    def contents(self):
        """Every cached page with all that a policy may read, without a verb (a match would split and refresh)."""
        found, ends = {}, {}  # ends: of each node, its namespace and tokens from the root
        for node in self.index.nodes():
            root = node.parent
            name, above = ends.get(id(root)) or (root.namespace, ())
            ends[id(node)] = name, (*above, *node.tokens)
            for i, page in enumerate(node.pages):
                key = name, ends[id(node)][1][: len(above) + (i + 1) * self.page_size]
                found[key] = [page, *self.use(node, node.ref_count > 0)]
        return found


def subject_for(design="radix", evicts_by=("node", "page"), **policy):
    """An index of one design, or a class of trees, under one policy, as the kit takes it."""
    ways = tuple({"evict_by": way} for way in evicts_by)
    claims = frozenset(RULES) if has_policy(design) else frozenset(RULES) - {14}
    return Subject(Pooled, "Pooled", claims, (1, 2, 3), ways, {"design": design, **policy})

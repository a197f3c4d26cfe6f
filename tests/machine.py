"""The kit's scenarios on an index over one pool, with everybody looking on: a stricter setting for our own indexes.

After every step the index audits itself, its sizes and contents are compared with the model's, the ledger has found one
owner for each slot, and the canary has read every slot that the index holds. What goes first, under whichever policy,
the model says exactly.
"""

import inspect

import numpy as np
from hypothesis import given, settings
from policy_model import PolicyModel, worth_of

from minikv import FreeListPool
from minikv.prefix import BY_POLICY, index_named
from minikv.prefix.base_index import way_to
from minikv.testing.audits import AuditedRun
from minikv.testing.canary import Canary
from minikv.testing.ledger import Ledger
from minikv.testing.rules import RULES, Subject
from minikv.testing.scenarios import scenarios
from minikv.testing.search import find_breach

PAGES = 300  # all of them are the caller's at first; each is used once, and no scenario comes to the last hundred
SCENARIOS, LONG_ONES = (scenarios(frozenset(RULES), frozenset(), (1, 2, 3), 30, shortest) for shortest in (0, 20))


def has_policy(design):
    """Whether an index, by its name or as what makes it, takes an order of eviction."""
    return "policy" in inspect.signature(design).parameters if callable(design) else design in BY_POLICY


class Pooled:
    """An index as an engine uses it: what the index does not want, or no longer, goes back to the pool.

    The buffers are the caller's: they are written over as soon as the index has seen them.
    """

    def __init__(self, design, page_size, policy="lru", evict_by=None):
        self.has_policy, self.page_size = has_policy(design), page_size
        how = {"policy": policy, "evict_by": evict_by} if self.has_policy else {}
        made = design(page_size, **how) if callable(design) else index_named(design, page_size, **how)
        self.index, self.pool = made, FreeListPool(PAGES)
        self.ledger, self.canary = Ledger(self.pool, self.index, page_size), Canary(self.index)
        self.pool.alloc(PAGES)

    def __getattr__(self, name):
        return getattr(self.index, name)

    def free(self, pages):
        self.pool.free(pages)

    def insert(self, tokens, pages, *, start=None, **options):
        keys, values, size = np.array(tokens, np.uint32), np.array(pages, np.int32), self.page_size
        at = start.length // size if start else 0
        worth = {"priority": worth_of(tokens)} if self.has_policy else {}
        done = self.index.insert(keys, values, start=start, **worth, **options)
        keys[:], values[:] = 7, 7
        self.free([*pages[at : done.prefix_length // size], *pages[done.length // size :]])
        return done

    def evict(self, *budgets):
        pages = self.index.evict(*budgets)
        self.free(pages)
        return pages

    def reset(self):
        pages = [page for node in self.index.nodes() for page in node.pages]
        self.index.reset()
        self.free(pages)


class Watched(AuditedRun):
    """A run in which nothing is left open."""

    def new_model(self):
        policy = self.subject.fixed.get("policy", "lru")
        return PolicyModel(self.page_size, policy, self.settings["evict_by"], self.made.value.has_policy)

    def exactly(self, rule, got, want):
        return None if got == want else self.end(rule, f"gives {got}, expected {want}")

    def insertion(self, got, expected):
        return self.exactly(4, got, expected.value)

    def eviction(self, reply, expected):
        return self.exactly(9, reply.value, expected.value)

    def look_around(self, reply, expected):
        found = super().look_around(reply, expected)
        return found or self.exactly(3, self.contents(), self.expected_contents())

    def use(self, item, locked):
        """What a policy may read of a node or a page; in use is not recent or old, and the unlock says when it was."""
        fields = ("last_used", *self.model.reads)
        return [None if locked and field == "last_used" else getattr(item, field) for field in fields]

    def expected_contents(self):
        pages, locked = self.model.pages, self.model.locked
        return {key: [page.number, *self.use(page, locked(key))] for key, page in pages.items()}

    def contents(self):
        """Every cached page with all that a policy may read."""
        found = cached_in(self.index)
        return {key: [page, *self.use(node, node.ref_count > 0)] for key, (page, node) in found.items()}


def cached_in(index):
    """The page and the node of each cached page of tokens, without a verb (a match would split and refresh)."""
    found, size = {}, index.page_size
    for node in index.nodes():
        path = way_to(node)[::-1]
        tokens = tuple(token for each in path for token in each.tokens)
        for place, page in enumerate(node.pages, node.parent.end // size + 1):
            found[path[0].parent.namespace, tokens[: place * size]] = page, node
    return found


def subject_for(design="radix", evicts_by=("node", "page"), **policy):
    """An index, by its name or as what makes it, under one policy, as the kit takes it."""
    ways = tuple({"evict_by": way} for way in evicts_by)
    claims = frozenset(RULES) if has_policy(design) else frozenset(RULES) - {14}
    return Subject(Pooled, "Pooled", claims, (1, 2, 3), ways, {"design": design, **policy})


def hunt(subjects, cases=SCENARIOS, kind=Watched, **how):
    """Play one of the cases, scenarios, on one of the subjects, and so on until Hypothesis has had enough."""

    @settings(**how)
    @given(subjects, cases)
    def nothing_is_wrong(subject, scenario):
        found = find_breach(subject, scenario, set(), kind)
        assert found is None, found.script

    nothing_is_wrong()

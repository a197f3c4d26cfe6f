"""The naive cache under every policy: what goes first, and what keeps pages apart."""

from minikv.testing.model import NaiveCache

# Every policy spelt out again, by what it says it does: of two leaves, the one with the smaller value goes first.
GOES_FIRST = {
    "lru": lambda page: page.last_used,
    "lfu": lambda page: (page.hits, page.last_used),
    "fifo": lambda page: page.created,
    "mru": lambda page: -page.last_used,
    "filo": lambda page: -page.created,
    "priority": lambda page: (page.priority, page.last_used),
    "slru": lambda page: (page.hits >= 2, page.last_used),
}


# And what each of them looks at: pages that differ in it stay apart.
READS = {
    "lru": ("last_used",), "lfu": ("hits", "last_used"), "fifo": ("created",), "mru": ("last_used",),
    "filo": ("created",), "priority": ("priority", "last_used"), "slru": ("hits", "last_used"),
}  # fmt: skip


def worth_of(tokens):
    """The priority with which a prompt is cached."""
    return sum(tokens) % 3


class PolicyModel(NaiveCache):
    """A `NaiveCache` that evicts by a policy of `GOES_FIRST`, and knows priorities."""

    def __init__(self, page_size=1, policy="lru", evict_by="node", has_priorities=True):
        self.policy, self.reads, self.has_priorities = policy, READS[policy], has_priorities
        super().__init__(page_size, evict_by)

    def goes_first(self, page):
        return GOES_FIRST[self.policy](page)

    def insert(self, tokens, pages, **options):
        self.priority = worth_of(tokens) if self.has_priorities else 0
        return super().insert(tokens, pages, **options)

    def store(self, path, there, numbers):
        super().store(path, there, numbers)
        for key in path:
            self.pages[key].priority = max(self.pages[key].priority, self.priority)

"""The sliding windows of chapter 12: a map from the slots of the tree to those of the windowed layers.

Its sections are the class that the chapter shows, and the pieces, as we would write them.
"""


# %% given 12
class WindowTree:
    """Your tree, a second pool for the windowed layers, and a map from slot to slot."""

    def __init__(self, num_slots, num_windows, window):
        self.cache, self.window = RadixCache(), window
        self.full, self.windows = Pool(num_slots), Pool(num_windows)
        self.window_of = {}  # slot -> window slot; a slot that is not in it is dead
        self.pins = {}  # slot -> how many requests need its window

    def find(self, tokens):
        slots = self.cache.match_prefix(tokens).slots.tolist()
        length = valid_length(slots, self.window_of, self.window)
        found = self.cache.acquire(tokens, limit=length)
        return found, hold(self.pins, slots[:length], self.window)

    def leave(self, found, receipt):
        self.cache.unlock(found)
        for slot in receipt:
            self.pins[slot] -= 1
            if not self.pins[slot]:
                del self.pins[slot]

    def edges(self):
        """(slots, whether it is a leaf) of each edge: those with locks, then the others, oldest use first."""
        nodes = [n for n in self.cache.nodes() if n.locks]  # not in the ring; pins hold what is read
        node = self.cache.ring.newer
        while node is not self.cache.ring:
            nodes.append(node)
            node = node.newer
        return [(list(n.slots), not n.children) for n in nodes]

    def free_windows(self, slots):
        self.windows.free([self.window_of.pop(slot) for slot in slots])

    def make_room(self, count):
        short = max(0, count - self.windows.num_free)
        pins, window = self.pins, self.window
        self.free_windows(spare(self.edges(), self.window_of, pins, window)[:short])

    def serve(self, tokens):
        """The life of a request; how many tokens were found."""
        found, receipt = self.find(tokens[:-1])
        own = self.full.alloc(len(tokens) - found.length)
        self.make_room(len(own))
        self.window_of.update(zip(own, self.windows.alloc(len(own))))
        done = self.cache.insert(tokens, [*found.slots.tolist(), *own])
        twice = own[: max(0, done.prefix_length - found.length)]
        kept = self.cache.match_prefix(tokens).slots.tolist()[found.length :]
        heal(self.window_of, kept[: len(twice)], twice)
        self.free_windows([slot for slot in twice if slot in self.window_of])
        self.full.free(twice)
        self.leave(found, receipt)
        return found.length


# %% 12.1 valid_length
def valid_length(slots, window_of, window):
    """The length of the longest valid prefix of `slots`."""
    run = 0
    for at in reversed(range(len(slots))):
        run = run + 1 if slots[at] in window_of else 0
        if run == window:
            return at + window
    return run


# %% 12.2 hold
def hold(pins, slots, window):
    """Pin each of the last `window` slots; return these slots, the receipt."""
    receipt = slots[-window:]
    for slot in receipt:
        pins[slot] = pins.get(slot, 0) + 1
    return receipt


# %% 12.3 spare
def spare(edges, window_of, pins, window):
    """The slots that can lose their window, the first to go first."""
    found = []
    for slots, is_leaf in edges:
        may_go = slots[:-window] if is_leaf else slots
        found += [slot for slot in may_go if slot in window_of and slot not in pins]
    return found


# %% 12.4 heal
def heal(window_of, kept, twice):
    """Move windows from `twice` to those of `kept` that have none; how many moved."""
    moved = 0
    for slot, own in zip(kept, twice):
        if slot not in window_of and own in window_of:
            window_of[slot] = window_of.pop(own)
            moved += 1
    return moved

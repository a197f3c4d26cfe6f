"""Chapters 11 and 12: sequences that share pages until one of them writes, and sliding windows.

The shared pages take the pool of chapter 02. The windows are a map from the slots of the tree to those of the windowed
layers.

Their twins in the package, faster and complete:

    SharedPages    minikv.copy_on_write.CopyOnWrite
    WindowTree     minikv.manager.WindowedManager
"""

from minikv.engine.ch01_02_pool import Pool
from minikv.engine.ch04_05_cache import RadixCache, in_order


# %% given 11
class Branch:
    """A sequence: its tokens, its pages, and where its draft begins, if it has one."""

    def __init__(self, tokens, pages):
        self.tokens, self.pages, self.draft_from = tokens, pages, None


class SharedPages:
    """Branches, by name, over pages of `size` tokens; a page may be in several of them."""

    def __init__(self, num_pages, size):
        self.pool, self.size, self.branches = Pool(num_pages), size, {}
        self.refs = [0] * num_pages  # how many branches have each page
        self.values = [[None] * size for _ in range(num_pages)]
        self.known, self.names = {}, {}  # first tokens -> the page they end in, and back

    def attach(self, name, tokens):
        """Begin a branch with the known full pages of `tokens`; return how many tokens they hold."""
        pages, end = [], self.size
        while end <= len(tokens) and tuple(tokens[:end]) in self.known:
            pages.append(self.known[tuple(tokens[:end])])
            end += self.size
        found = Branch(tokens[: end - self.size], pages)
        self.branches[name] = fork_branch(self, found)
        return len(found.tokens)

    def fork(self, name, new_name):
        self.branches[new_name] = fork_branch(self, self.settled(name))

    def append(self, name, tokens, values):
        self.put(self.settled(name), tokens, values)
        self.publish(self.branches[name])

    def put(self, branch, tokens, values):
        own_pages(self, branch, len(tokens))
        for token, value in zip(tokens, values):
            index, at = divmod(len(branch.tokens), self.size)
            self.values[branch.pages[index]][at] = value
            branch.tokens.append(token)

    def draft(self, name, tokens, values):
        branch, begin = self.settled(name), len(self.branches[name].tokens)
        self.put(branch, tokens, values)
        branch.draft_from = begin

    def settle(self, name, num_right):
        settle_draft(self, self.branches[name], num_right)
        self.publish(self.branches[name])

    def detach(self, name):
        drop_pages(self, self.branches.pop(name).pages)

    def get(self, name):
        branch = self.branches[name]
        values = [value for page in branch.pages for value in self.values[page]]
        return values[: len(branch.tokens)]

    def settled(self, name):
        if self.branches[name].draft_from is not None:
            raise ValueError(f"{name} has a draft: settle it first")
        return self.branches[name]

    def publish(self, branch):
        """Let others find the full pages of `branch`."""
        for end, page in zip(range(self.size, len(branch.tokens) + 1, self.size), branch.pages):
            key = tuple(branch.tokens[:end])
            if key not in self.known:
                self.known[key], self.names[page] = page, key

    def forget(self, page):
        """From now on, nobody finds `page`."""
        self.known.pop(self.names.pop(page, None), None)


# %% 11.1 fork_branch
def fork_branch(cache, branch):
    """Return a new branch with the tokens and pages of `branch`; copy no values."""
    for page in branch.pages:
        cache.refs[page] += 1
    return Branch(list(branch.tokens), list(branch.pages))


# %% 11.2 drop_pages
def drop_pages(cache, pages):
    """Release `pages` of one branch; free those that no branch has anymore."""
    unused = []
    for page in pages:
        cache.refs[page] -= 1
        if cache.refs[page] == 0:
            cache.forget(page)
            unused.append(page)
    cache.pool.free(unused)


# %% 11.3 own_pages
def own_pages(cache, branch, count):
    """Give `branch` its own pages for `count` more tokens, or raise a MemoryError."""
    length = len(branch.tokens)
    more = -(-(length + count) // cache.size) - len(branch.pages)
    is_copied = count > 0 and length % cache.size > 0 and cache.refs[branch.pages[-1]] > 1
    new = cache.pool.alloc(more + is_copied)
    for page in new:
        cache.refs[page] = 1
    if is_copied:
        last = branch.pages.pop()
        cache.values[new[0]] = list(cache.values[last])
        cache.refs[last] -= 1
    branch.pages += new


# %% 11.4 settle_draft
def settle_draft(cache, branch, num_right):
    """Keep the first `num_right` tokens of the draft of `branch`; drop the rest."""
    end = branch.draft_from + num_right
    keep = -(-end // cache.size)
    leaving = branch.pages[keep:]
    del branch.tokens[end:], branch.pages[keep:]
    drop_pages(cache, leaving)
    branch.draft_from = None


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
        """Return (slots, is a leaf) of each edge: locked edges first, then the least recently used."""
        locked = [n for n in self.cache.nodes() if n.locks]  # not in the ring; pins hold what is read
        nodes = locked + in_order(self.cache.ring)
        return [(list(n.slots), not n.children) for n in nodes]

    def free_windows(self, slots):
        self.windows.free([self.window_of.pop(slot) for slot in slots])

    def make_room(self, count):
        short = max(0, count - self.windows.num_free)
        found = spare(self.edges(), self.window_of, self.pins, self.window)
        self.free_windows(found[:short])

    def serve(self, tokens):
        """Serve a request from start to end; return how many of its tokens were found."""
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
    """Return the length of the longest valid prefix of `slots`."""
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
    """Return the slots that can lose their window, in the order in which they go."""
    found = []
    for slots, is_leaf in edges:
        may_go = slots[:-window] if is_leaf else slots
        found += [slot for slot in may_go if slot in window_of and slot not in pins]
    return found


# %% 12.4 heal
def heal(window_of, kept, twice):
    """Move windows from `twice` to slots of `kept` without one; return how many."""
    moved = 0
    for slot, own in zip(kept, twice):
        if slot not in window_of and own in window_of:
            window_of[slot] = window_of.pop(own)
            moved += 1
    return moved

"""Chapter 15: where all layers of a model can continue, which states are worth keeping, and where to stop for them.

One prompt, and for each group of layers the set of the places whose blocks are saved: a block that ends after token 8
is at place 8. Twins: `minikv.manager.layered`, and `KVLayers.smallest_prefix` of `block_for_state`.
"""

# %% given 15
from math import lcm
from typing import NamedTuple


class Group(NamedTuple):
    """Layers that keep the same: all tokens ("full"), a "window" of the last ones, or a "state" that sums them up."""

    keeps: str
    block: int  # tokens
    window: int = 0  # tokens that a token reads, itself among them


def grid(groups):
    """Return the fewest tokens that are whole blocks of every group."""
    return lcm(*[group.block for group in groups])


class LayerCache:
    """The blocks of all groups in one pool: those of a full group and of a state take the same room."""

    def __init__(self, groups, room, keep):
        self.groups, self.room, self.keep = groups, room, keep
        self.step = grid(groups)
        self.blocks = {}  # (number of the group, beginning of the prompt), the least recently used first

    def saved(self, prompt):
        """Return for each group the places of the prompt whose blocks are there."""
        found = []
        for number, group in enumerate(self.groups):
            places = range(group.block, len(prompt) + 1, group.block)
            found.append({at for at in places if (number, prompt[:at]) in self.blocks})
        return found

    def use(self, number, prompt, places):
        for at in places:
            self.blocks.pop((number, prompt[:at]), None)
            self.blocks[number, prompt[:at]] = True

    def serve(self, prompt):
        """Serve a prompt, a tuple of tokens; return how many of them were found."""
        saved, limit = self.saved(prompt), len(prompt) - 1
        hit = common_hit(self.groups, saved, limit, self.step)
        alone = longest(self.groups[0], saved[0], limit, self.step)
        fork = alone if alone > hit else 0
        for number, group in enumerate(self.groups):
            if group.keeps == "state":
                kept = self.keep(len(prompt), hit, fork, self.step)
                self.use(number, prompt, [hit] * (hit > 0) + kept)
        for number, group in enumerate(self.groups):
            if group.keeps != "state":
                places = range(group.block, len(prompt) + 1, group.block)
                self.use(number, prompt, reversed(places))
        while len(self.blocks) > self.room:
            del self.blocks[next(iter(self.blocks))]
        return hit


# %% 15.1 block_for_state
def block_for_state(state_bytes, token_bytes, kernel=16):
    """Return the fewest tokens, a multiple of `kernel`, as heavy as a state."""
    return kernel * -(-state_bytes // (kernel * token_bytes))


# %% 15.2 needs
def needs(group, length):
    """Return the places whose blocks `group` must find to continue, in order."""
    if group.keeps == "state":
        return [length]
    first = 0
    if group.keeps == "window":
        first = max(0, length - group.window + 1) // group.block * group.block
    return list(range(first + group.block, length + 1, group.block))


# %% 15.3 longest
def longest(group, saved, limit, step):
    """Return the longest length, in whole steps, after which `group` can continue."""
    for length in range(limit // step * step, 0, -step):
        if saved.issuperset(needs(group, length)):
            return length
    return 0


# %% 15.4 common_hit
def common_hit(groups, saved, limit, step):
    """Return the longest length after which all groups can continue."""
    length, before = limit, None
    while length != before:
        before = length
        for group, places in zip(groups, saved):
            length = longest(group, places, length, step)
    return length


# %% 15.5 checkpoints
def checkpoints(length, hit, fork, step):
    """Return the places whose states to keep, in order."""
    wanted = {(length - 1) // step * step, fork // step * step}
    return sorted(at for at in wanted if at > hit)


# %% 15.6 chunks
def chunks(start, end, most, stops):
    """Return where each chunk ends, from `start` to `end`, with one at each stop."""
    ends = []
    while start < end:
        start = min([end, start + most, *[at for at in stops if at > start]])
        ends.append(start)
    return ends


# %% 15.7 replay_start
def replay_start(hit, window, layers):
    """Return where to start again, so that windowed layers are exact after `hit`."""
    return max(0, hit - layers * (window - 1))

"""Chapter 08: attention through the slots, and what each step computes. The only chapter that needs torch."""

# %% given 8
import torch

from minikv import serving


class AttentionShell:
    """The part of a step's attention that no piece is about; the rest is `SlotAttention`.

    `chunks` has for each chunk the rows of its new tokens and all slots of its sequence.
    """

    def __init__(self, batch, store):
        self.store, self.new, self.chunks = store, store.slots(batch.slots), batch.rows
        self.size, self.all = len(batch.tokens), store.slots(range(store.num_slots))
        self.runs = {id(slots): runs([*map(int, slots)]) for _, slots in self.chunks}
        longest = max(len(slots) for _, slots in self.chunks)
        self.room = [torch.empty_like(side[:longest]) for side in store.view(0, self.all)]

    def write(self, layer, k, v):
        """Store the new tokens' K and V of one layer, (tokens, kv_heads, head_dim)."""
        self.store.write(layer, self.new, k.to(self.store.dtype), v.to(self.store.dtype))

    def read(self, layer, slots, q):
        """K and V of a whole sequence, (tokens, heads, head_dim): a KV head once for each query head of its group."""
        keys, values = self.gathered(layer, slots)
        group = q.shape[1] // keys.shape[1]
        return keys.to(q.dtype).repeat_interleave(group, 1), values.to(q.dtype).repeat_interleave(group, 1)

    def gathered(self, layer, slots):
        """K and V of the slots, (tokens, kv_heads, head_dim), read run by run; good until the next call."""
        sides, found = self.store.view(layer, self.all), self.runs[id(slots)]
        return [gather(side, found, room) for side, room in zip(sides, self.room)]

    def together(self, parts):
        """What each chunk gave, in the order of the rows."""
        out = torch.empty(self.size, *parts[0].shape[1:], dtype=parts[0].dtype, device=parts[0].device)
        for (rows, _), part in zip(self.chunks, parts):
            out[rows] = part
        return out


class SlotAttention(AttentionShell):
    """The attention of one step, chunk by chunk: each reads its whole past through its slots."""

    def __call__(self, layer, q, k, v):
        parts = []
        for rows, slots in self.chunks:
            keys, values = self.read(layer, slots, q)
            parts.append(attention(q[rows], keys, values))
        return self.together(parts)


class Scheduler(serving.Scheduler):
    """The package's scheduler, which takes the shares of a step from `schedule` and calls `preempt`."""

    def share(self, left, budget):
        return schedule(left, budget)

    def preempt(self):
        preempt(self).preemptions += 1


# %% 8.1 attention
def attention(q, keys, values):
    """What the last `len(q)` tokens of a sequence attend to, each up to itself.

    `q` is (new tokens, heads, dim), `keys` and `values` are (all tokens, heads, dim).
    """
    new, length, dim = len(q), len(keys), q.shape[-1]
    scores = torch.einsum("qhd,khd->hqk", q, keys) / dim**0.5
    position = torch.arange(length - new, length)
    hidden = torch.arange(length) > position[:, None]
    weights = scores.masked_fill(hidden, float("-inf")).softmax(-1)
    return torch.einsum("hqk,khd->qhd", weights, values)


# %% 8.2 schedule
def schedule(left, budget):
    """How many of the `left` tokens of each request the next step computes."""
    counts = [0] * len(left)
    decoding = [i for i in range(len(left)) if left[i] == 1]
    reading = [i for i in range(len(left)) if left[i] > 1]
    for i in decoding + reading:
        counts[i] = min(left[i], budget)
        budget -= counts[i]
    return counts


# %% 8.3 preempt
def preempt(scheduler):
    """Let the youngest running request wait again, at the front; return it."""
    youngest = scheduler.running.pop()
    scheduler.manager.finish(youngest.sequence)
    youngest.sequence = None
    scheduler.waiting.insert(0, youngest)
    return youngest

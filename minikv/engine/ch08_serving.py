"""Chapter 08: attention through the slots, and what each step computes. The only chapter that needs torch."""

# %% given 8
import torch

from minikv import serving
from minikv.engine.serving_shell import AttentionShell


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

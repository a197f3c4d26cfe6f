"""Chapter 08: attention through the slots, and what each step computes.

The only file that needs torch, so chapter 06, in which tensors are copied, takes it from here.

Its twin in the package, faster and complete:

    SlotAttention    minikv.serving.attention.StepAttention
"""

from minikv.engine.ch06_07_manager import gather, runs

# isort: split
# %% given 8
import torch

from minikv import Chunk, serving
from minikv.serving.model import as_array


class AttentionShell:
    """The part of a step's attention that no piece is about; the rest is `SlotAttention`.

    `chunks` has for each chunk the rows of its new tokens and all slots of its sequence.
    """

    def __init__(self, batch, store):
        self.store = store
        self.chunks = batch.rows
        self.new = store.slots(batch.slots)
        self.all = store.slots(range(store.num_slots))
        self.runs = {id(slots): runs([*map(int, slots)]) for _, slots in self.chunks}
        longest = max(len(slots) for _, slots in self.chunks)
        self.room = [torch.empty_like(side[:longest]) for side in store.view(0, self.all)]

    def write(self, layer, k, v):
        """Store the new tokens' K and V of one layer, (tokens, kv_heads, head_dim)."""
        self.store.write(layer, self.new, k.to(self.store.dtype), v.to(self.store.dtype))

    def read(self, layer, slots, dtype):
        """K and V of a whole sequence, (tokens, kv_heads, head_dim), read run by run; good until the next call."""
        sides, found = self.store.view(layer, self.all), self.runs[id(slots)]
        return [gather(side, found, room).to(dtype) for side, room in zip(sides, self.room)]

    def together(self, parts):
        """Put the results of the chunks together, in the order of the rows."""
        out = parts[0].new_empty(sum(map(len, parts)), *parts[0].shape[1:])
        for (rows, _), part in zip(self.chunks, parts):
            out[rows] = part
        return out


class SlotAttention(AttentionShell):
    """The attention of one step: each chunk reads its whole past through its slots."""

    def __call__(self, layer, q, k, v):
        parts = []
        for rows, slots in self.chunks:
            both = self.read(layer, slots, q.dtype)
            keys, values = [repeat_kv(side, q.shape[1]) for side in both]
            parts.append(attention(q[rows], keys, values))
        return self.together(parts)


class Scheduler(serving.Scheduler):
    """The package's scheduler, which calls `schedule` and `preempt`."""

    def share(self, left, budget):
        return schedule(left, budget)

    def preempt(self):
        preempt(self).preemptions += 1


class Engine(serving.Engine):
    """The package's engine, which calls `run_step` in each step, if it has no drafts."""

    scheduled: tuple[serving.schedule.ScheduledChunk, ...] = ()  # in this step

    def step(self):
        if self.drafts is not None:
            return super().step()
        with self._lock:
            requests = [*self.scheduler.running, *self.scheduler.waiting]
            before = [(request, len(request.output)) for request in requests]
            run_step(self)
            return [serving.Event(one, token) for one, old in before for token in one.output[old:]]

    def schedule(self):
        """The chunks of the next step, empty if there is nothing to do; `preempt` may make room for them."""
        self.scheduled = tuple(self.scheduler.schedule())
        return [*self.scheduled]

    def forward(self, chunks):
        """The logits of the token after each chunk, a row of numbers for each; this is what counts as a step."""
        logits = as_array(self.model.forward(chunks, self.manager.store))
        self.scheduler.step += 1
        for chunk in self.scheduled:
            chunk.request.computed_tokens += chunk.num_tokens
        return logits


def preempt(scheduler):
    """Let the youngest running request wait again, at the front; return it."""
    youngest = scheduler.running.pop()
    scheduler.manager.finish(youngest.sequence)
    youngest.sequence = None
    scheduler.waiting.insert(0, youngest)
    return youngest


def next_chunk(sequence, num_tokens):
    """Return the next `num_tokens` tokens to compute of a sequence as a `Chunk`."""
    start = sequence.computed
    end = start + num_tokens
    tokens, slots = sequence.tokens[start:end], sequence.slots[:end]
    return Chunk(tokens, start, slots, sequence.namespace)


# %% 8.1 attention
def attention(q, keys, values):
    """Return the attention of the last `len(q)` tokens, each over all up to itself.

    `q` is (new tokens, heads, dim), `keys` and `values` are (all tokens, heads, dim).
    """
    new, length, dim = len(q), len(keys), q.shape[-1]
    scores = torch.einsum("qhd,khd->hqk", q, keys) / dim**0.5
    position = torch.arange(length - new, length)
    hidden = torch.arange(length) > position[:, None]
    weights = scores.masked_fill(hidden, float("-inf")).softmax(-1)
    return torch.einsum("hqk,khd->qhd", weights, values)


# %% 8.2 repeat_kv
def repeat_kv(kv, num_heads):
    """Return the KV head that each of the `num_heads` query heads reads, in order.

    `kv` is (tokens, kv_heads, dim), and the result is (tokens, num_heads, dim).
    """
    group = num_heads // kv.shape[1]
    return kv.repeat_interleave(group, dim=1)


# %% 8.3 schedule
def schedule(left, budget):
    """Return how many of the `left` tokens of each request the next step computes."""
    counts = [0] * len(left)
    decoding = [i for i in range(len(left)) if left[i] == 1]
    reading = [i for i in range(len(left)) if left[i] > 1]
    for i in decoding + reading:
        counts[i] = min(left[i], budget)
        budget -= counts[i]
    return counts


# %% 8.4 run_step
def run_step(engine):
    """Run one step: schedule, compute, sample, and record the results."""
    scheduled = engine.schedule()
    if not scheduled:
        return
    chunks = [next_chunk(each.request.sequence, each.num_tokens) for each in scheduled]
    for each, row in zip(scheduled, engine.forward(chunks)):
        request = each.request
        token = request.sampler(row) if each.samples else None
        engine.manager.advance(request.sequence, each.num_tokens)
        if token is not None:
            request.take(token, engine.scheduler.step)
        if request.is_over:
            engine.manager.finish(request.sequence)
            request.sequence = None
            engine.scheduler.running.remove(request)
        elif each.prefill:
            engine.manager.checkpoint(request.sequence)


# %% given 6
import torch  # noqa: F811  (what is gathered are tensors, and each section runs by itself)

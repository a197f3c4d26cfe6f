# %% [markdown]
"""
# 08 · Does the cache change a single answer?

**After this chapter you will be able to** *read* keys and values through slots in a decoder, *schedule* many requests in one loop, and *show* that a cache saves work and changes no answer.

**Time** 50 minutes. **Needs** chapters 02, 04 and 07, and a little PyTorch.
**New words** decode, time to first token, continuous batching, chunked prefill, preemption.

## The problem

Chapter 07's manager keeps perfect track of keys and values that nobody has computed. A decoder computes them: ours has 1.8 million parameters, reads and writes bytes, and was trained on this course's own words. Here is the simplest way to ask it something: for each new token, put everything through the model again. `Chunk` says what to compute: which tokens, how many come before them, and in which slots they all lie.
"""

# %%
import random

import torch

from minikv import ByteTokenizer, CacheManager, CanaryModel, Chunk, Engine, KVStore, Llama
from minikv import NoCache, OutOfPages, RadixCache, SamplingParams, Scheduler, asset
from minikv import beside, bytes_per_token, check, plot, record

torch.set_num_threads(1)  # a model as small as this gains nothing from more
model, tokenizer = Llama.from_folder(asset("model")), ByteTokenizer()


def asked(question):
    return tokenizer.encode(f"User: {question}\nAssistant:")


# %%
def generate_forgetting(prompt, new):
    tokens, computed = list(prompt), 0
    for _ in range(new):
        store = KVStore(model.shape, len(tokens), dtype=model.dtype)  # nothing is kept
        logits = model.forward([Chunk(tokens, 0, range(len(tokens)))], store)
        computed += len(tokens)
        tokens.append(int(logits[0].argmax()))  # the likeliest token comes next
    return tokens[len(prompt) :], computed


answer, computed = generate_forgetting(asked("What is a page?"), 32)
print(f"{tokenizer.decode(answer)!r}")
print(f"{computed:,} tokens computed, for a prompt of {len(asked('What is a page?'))} and an answer of 32")

# %% [markdown]
"""
The *logits* are a number for each possible next token; to choose one is to *sample*. Reading the prompt is prefill. Writing the answer, one token at a time, is called **decode**. Both look back at keys and values that never change, and this loop computes them all again for every token.

## The picture

What we are going to build, at work. Three requests in a live engine that computes at most 12 tokens a step. On the right, below the pool, a cell of each bar is a token.

**Predict first.** Which tokens will the *next* step compute?

<details><summary>Answer</summary>

Ten: the one that r1 has just sampled, and the nine left of r2's prompt. Two of the 12 stay unused: r3 comes in only when its whole prompt has slots, and too few are free.

</details>
"""


# %%
def film_of(slots, steps):
    manager = CacheManager(slots, store=KVStore(model.shape, slots, dtype=model.dtype))
    engine = Engine(model, manager, Scheduler(manager, token_budget=12, max_running=3))
    with record(engine, label=lambda tokens: repr(tokenizer.decode(tokens))) as film:
        for question in ("Hi", "Help", "Hey"):
            engine.submit(asked(question), SamplingParams(max_new_tokens=4))
        for _ in range(steps):
            engine.step()
    return film


film_of(slots=36, steps=2).at(-1)

# %% [markdown]
"""
## Build it

**Step 1: attention through slots.** What the cache asks of a model is two lines: new keys and values are *scattered* to the slots of their tokens, and those of the whole sequence are *gathered* from its slots, no matter which request computed them. The next cell has attention of one head, with random weights. The prompt `[1, 2, 3, 4]` is computed whole, in slots 0 to 3; then only its end, `[3, 4]`, for somebody else, in slots 9 and 5, behind a prefix in slots 0 and 1.

**Predict first.** What if that row says `[1, 0, 9, 5]`, the prefix the wrong way round? What if it says `[0, 7, 9, 5]`, and nobody ever computed anything into slot 7?

<details><summary>Answer</summary>

The wrong way round: the same result! Attention is a sum over all that a token sees, and a sum has no order. A model that must know the order writes the position *into the key*: ours turns each key by its position (RoPE) before it is stored. And from the second layer on a key is made of all that its token has seen. So a stored key is good for one position behind one prefix, which is what a tree of prefixes promises. The wrong slot: another result, and no error at all.

</details>
"""

# %%
chance = torch.Generator().manual_seed(8)
EMBED = torch.randn(10, 8, generator=chance, dtype=torch.float64)
Q, K, V = torch.randn(3, 8, 8, generator=chance, dtype=torch.float64)
keys, values = torch.zeros(2, 16, 8, dtype=torch.float64)  # a row for each slot


def attention(chunk):
    x, row = EMBED[chunk.tokens], list(chunk.slots)
    keys[row[chunk.start :]], values[row[chunk.start :]] = x @ K, x @ V  # scatter: what is new
    k, v = keys[row], values[row]  # gather: everything, in the order of the row
    sees = torch.arange(len(row)) <= torch.arange(chunk.start, len(row))[:, None]  # looks back only
    return (x @ Q @ k.T).where(sees, -torch.inf).softmax(dim=1) @ v


whole = attention(Chunk([1, 2, 3, 4], 0, [0, 1, 2, 3]))
for row in ([0, 1, 9, 5], [1, 0, 9, 5], [0, 7, 9, 5]):
    print(f"row {row} gives the same: {torch.allclose(attention(Chunk([3, 4], 2, row)), whole[2:])}")

# %% [markdown]
"""
**Step 2: prefill and decode are one thing.** A chunk may begin anywhere. The whole prompt, the rest behind a cached prefix, one new token: only `start` differs. So generating with slots is a loop over chunks, of which the first is long. Then *What is a slot?* begins with the same 16 bytes as *What is a page?*, and takes them from that request's slots.

**Predict first.** Are the logits behind a cached prefix the same as without it, to the last bit?

<details><summary>Answer</summary>

Nobody promises that. The same sums are done in other shapes, so in another order, and floating-point addition cares. They agree to within rounding; so does the *token*, unless the two likeliest are nearly tied. That is why we compare tokens, and in 32 bits.

</details>
"""


# %%
def generate(prompt, new, store, slots, start=0):
    tokens, computed = list(prompt), 0
    while len(tokens) < len(prompt) + new:
        chunk = Chunk(tokens[start:], start, slots[: len(tokens)])
        start, computed = len(tokens), computed + len(chunk.tokens)
        tokens.append(int(model.forward([chunk], store)[0].argmax()))
    return tokens[len(prompt) :], computed


store = KVStore(model.shape, 256, dtype=model.dtype)
found, computed = generate(asked("What is a page?"), 32, store, range(128))
print(f"the same 32 tokens: {found == answer}, with {computed} tokens computed")

# %%
prompt, row = asked("What is a slot?"), [*range(16), *range(128, 256)]
warm, computed = generate(prompt, 32, store, row, start=16)
cold, without = generate(prompt, 32, KVStore(model.shape, 256, dtype=model.dtype), range(256))
print(f"the same tokens: {warm == cold}; computed with the cached prefix {computed}, without {without}")
logits = [
    model.forward([Chunk(prompt[start:], start, slots[: len(prompt)])], store)[0]
    for start, slots in ((16, row), (0, [*range(100, 256)]))
]
first, second = logits[0].topk(2).values
print(f"the logits differ by less than 0.001: {bool((logits[0] - logits[1]).abs().max() < 1e-3)};")
print(f"the two likeliest tokens are more than 1 apart: {bool(first - second > 1)}")

# %% [markdown]
"""
**Step 3: many at once.** A step of the model reads all its weights, whether for one token or for fifty. So put everybody's chunks into one step. It used to be one batch after the other, each until all of it was done. In **continuous batching** a finished request leaves after any step, and the next one takes its place. In four cells: a request, what to compute next, which requests come in, and the step.

**Predict first.** Two places, and six requests with answers of 4, 20, 4, 4, 4 and 4 tokens. How many steps, if nobody comes in before both have gone? And in continuous batching?

<details><summary>Answer</summary>

20 + 4 + 4 = 28, and 20: while the long answer runs in one place, the five short ones follow each other in the other.

</details>
"""


# %%
class Ask:  # a request
    def __init__(self, prompt, new):
        self.tokens, self.prompt, self.end = list(prompt), len(prompt), len(prompt) + new
        self.sequence, self.computed, self.first = None, 0, None

    def left(self):  # tokens that have a slot, and no keys and values yet
        return len(self.sequence.tokens) - self.sequence.computed

    def reads(self):  # if not, it decodes: only what it sampled last is left to compute
        return self.left() > 1 or len(self.tokens) == self.prompt

    def chunk(self, count):
        at, end = self.sequence.computed, self.sequence.computed + count
        return Chunk(self.sequence.tokens[at:end], at, self.sequence.slots[:end])


def serve(loop, asks):
    loop.waiting += asks
    while loop.waiting or loop.running:
        loop.step()


# %%
class Planner:
    def __init__(self, model, manager, most=4, budget=1000):
        self.model, self.manager, self.most, self.budget = model, manager, most, budget
        self.waiting, self.running, self.log = [], [], []  # log: the tokens of each step

    def plan(self):  # (request, how many tokens) for each
        self.make_room()
        work, left = [], self.budget
        for ask in sorted(self.running, key=Ask.reads):  # False before True: decoding comes first
            work.append((ask, min(left, ask.left())))
            left -= work[-1][1]
        while left and self.waiting and len(self.running) < self.most and self.let_in():
            work.append((self.running[-1], min(left, self.running[-1].left())))
            left -= work[-1][1]
        self.log.append(self.budget - left)
        return [share for share in work if share[1]]


# %%
class Doorkeeper(Planner):
    def make_room(self):  # a slot for what each sampled last
        for ask in self.running:
            self.manager.extend(ask.sequence, ask.tokens[len(ask.sequence.tokens) :])

    def let_in(self):  # match, lock, allocate, with a page to spare for each that runs
        try:
            sequence = self.manager.start(self.waiting[0].tokens, spare=len(self.running))
        except OutOfPages:
            return False
        self.running.append(self.waiting.pop(0))
        self.running[-1].sequence = sequence
        return True


# %%
class Loop(Doorkeeper):
    def step(self):
        work = self.plan()
        rows = self.model.forward([ask.chunk(count) for ask, count in work], self.manager.store)
        for (ask, count), logits in zip(work, rows):
            reads, ask.computed = ask.reads(), ask.computed + count
            self.manager.advance(ask.sequence, count)
            if ask.left() == 0:  # computed to its end, so the logits say what comes next
                ask.tokens.append(int(logits.argmax()))
                ask.first = ask.first or len(self.log)
            if len(ask.tokens) == ask.end:
                self.running.remove(ask)
                self.manager.finish(ask.sequence)
            elif reads:
                self.manager.checkpoint(ask.sequence)  # from now on others can use it


# %%
class WholeBatches(Loop):
    def let_in(self):
        return not any(ask.computed for ask in self.running) and super().let_in()


questions, lengths = ("Hello!", "What is a page?", "Hi", "Hey", "Thanks!", "Bye"), (4, 20, 4, 4, 4, 4)
for kind in (WholeBatches, Loop):
    asks = [Ask(asked(question), new) for question, new in zip(questions, lengths)]
    kv = KVStore(model.shape, 400, dtype=model.dtype)
    serve(loop := kind(model, CacheManager(400, store=kv), most=2), asks)
    alone = [generate(ask.tokens[: ask.prompt], ask.end - ask.prompt, kv, range(128))[0] for ask in asks]
    same = alone == [ask.tokens[ask.prompt :] for ask in asks]
    print(f"{kind.__name__:12} {len(loop.log)} steps; everybody's answer is the same as alone: {same}")

# %% [markdown]
"""
**Step 4: a long prompt must not stop the others.** Three requests decode, one token each a step, and then somebody sends 500 tokens. All in one step, and three people's next word waits for 500 tokens. So `plan` gives a step only so many tokens, its `budget`: decoding requests get theirs first, and a prompt is read in pieces, each behind the ones before. That is **chunked prefill**. The long prompt pays for it, with its **time to first token**, which we count in steps. To count tokens we need no tensors: `CanaryModel` computes fingerprints, and complains when a row of slots does not hold one prefix.
"""

# %%
lines = {}
for name, budget in (("all at once", 1000), ("64 tokens a step", 64)):
    loop = Loop(CanaryModel(257), CacheManager(1000), budget=budget)
    loop.waiting += [Ask([i] * 10, 18) for i in range(3)]
    for _ in range(5):
        loop.step()
    serve(loop, [late := Ask([7] * 500, 2)])
    print(f"{name}: the long prompt's first token comes in step {late.first} of the engine")
    lines[name] = loop.log[:18]
plot("a prompt of 500 tokens arrives", {"step": range(1, 19)}, lines, "tokens in the step", log="y")

# %% [markdown]
"""
**Step 5: when there is no room.** Each decoding request needs a slot a step. If there is none, and nothing to evict, somebody must go: the *youngest*, so that the oldest always gets on and all come to an end. It gives back its slots and waits at the *front* of the line. This is **preemption** by recompute: what it had is computed again, except what the cache still has when it comes back.

**Predict first.** Three requests, each of 4 tokens with 12 to come. How many slots do they need so that nobody has to go? And with 18, does anybody's answer change?

<details><summary>Answer</summary>

15 each, as the last token is never computed: 45. With fewer, somebody must go and some tokens are computed twice; every answer is the same.

</details>
"""


# %%
class BareEngine(Loop):
    preempted = 0

    def make_room(self):
        for ask in list(self.running):  # the oldest first
            while ask in self.running and len(ask.sequence.tokens) < len(ask.tokens):
                try:
                    self.manager.extend(ask.sequence, ask.tokens[len(ask.sequence.tokens) :])
                except OutOfPages:
                    self.preempt(self.running[-1])

    def preempt(self, youngest):
        self.preempted += 1
        self.manager.finish(youngest.sequence)  # published: it may find all this again
        self.running.remove(youngest)
        self.waiting.insert(0, youngest)


# %%
answers = []
for slots in (45, 36, 30, 24, 18, 15):
    asks = [Ask([name] * 4, 12) for name in (1, 2, 3)]
    serve(loop := BareEngine(CanaryModel(257), CacheManager(slots)), asks)
    answers.append([ask.tokens for ask in asks])
    counts = f"{loop.preempted} preempted, {sum(loop.log)} tokens computed in {len(loop.log)} steps"
    print(f"{slots} slots: {counts}, the same answers: {answers[-1] == answers[0]}")

# %% [markdown]
"""
## The same in `minikv`

`Scheduler` is our `plan`, `Engine` our `step`. Over 200 random workloads, some of them short of room, both give every request the same tokens, and take equally many computed tokens, steps to the first token and preemptions.
"""

# %%
chance, preempted = random.Random(8), 0
for _ in range(200):
    prompts = [chance.choices(range(3), k=chance.randint(1, 12)) for _ in range(chance.randint(1, 6))]
    pages, budget, new = chance.randint(17, 40), chance.randint(4, 16), chance.randint(1, 6)
    ours = BareEngine(CanaryModel(9), CacheManager(pages), budget=budget)
    serve(ours, asks := [Ask(prompt, new) for prompt in prompts])
    manager = CacheManager(pages)
    theirs = Engine(CanaryModel(9), manager, Scheduler(manager, budget, 4, min_awaited_prefix=None))
    found = theirs.generate(prompts, new)
    mine = [(ask.tokens[ask.prompt :], ask.computed, ask.first) for ask in asks]
    assert mine == [(got.tokens, got.computed, got.first_token_steps) for got in found]
    assert ours.preempted == sum(got.preemptions for got in found)
    preempted += ours.preempted
print(f"the same in 200 workloads, with {preempted} preemptions")

# %% [markdown]
"""
Now a real chat, with the model. Every turn sends all that was said before, behind the assistant's instructions. The two engines differ in one object, `RadixCache` or `NoCache`.
"""

# %%
from minikv.measure.chatting import INSTRUCTIONS, bench_engine


def converse(cache, model=model):
    manager = CacheManager(
        128, 16, prefix_cache=cache, store=KVStore(model.shape, 128, 16, dtype=model.dtype)
    )
    engine = Engine(model, manager, Scheduler(manager, token_budget=128))
    said, turns = tokenizer.encode(INSTRUCTIONS), []
    for question in ("Hello!", "What is a radix tree?", "What is evicted first?", "Thanks!"):
        said += asked(question)
        turns += engine.generate([said], SamplingParams(max_new_tokens=140))
        said += [*turns[-1].tokens, *tokenizer.encode("\n")]
    return turns


# %%
without, cached = converse(NoCache(16)), converse(RadixCache(16))
for turn in cached:
    print(tokenizer.decode(turn.tokens).strip())
print("the same answers:", [turn.tokens for turn in without] == [turn.tokens for turn in cached])
# computed: prompt tokens, and all but the last of the answer, which are taken off here
work = [[turn.computed - turn.generated + 1 for turn in side] for side in (without, cached)]
saved = 1 - sum(work[1]) / sum(work[0])
print(f"of {sum(work[0]):,} prompt tokens {sum(work[1])} are computed: {saved:.0%} saved, turn 1 included")
wait = [[turn.first_token_steps for turn in side] for side in (without, cached)]
names = ("without the cache", "with it")
beside(
    plot("prompt tokens computed", {"turn": range(1, 5)}, dict(zip(names, work)), "tokens"),
    plot("time to first token", {"turn": range(1, 5)}, dict(zip(names, wait)), "steps of 128 tokens"),
)

# %% [markdown]
"""
Without the cache the wait grows with all that was said. With it, after the first turn, it is one step.

**In which order?** The cache creates a new choice. Eight requests ask about two documents, alternately, and there is room for little more than one document.

**Predict first.** First come, first served: how often is each document computed? And if the request with the longest cached prefix goes first?

<details><summary>Answer</summary>

Four times each: every request evicts the document that the next one needs. In the other order once each. But a stranger's request could wait forever while new ones with a cached prefix keep coming, so `Scheduler` has `max_overtakes`: a request is overtaken at most so many times. (It has one more rule for the cache's sake: a request waits while another one computes a prefix of at least `min_awaited_prefix` tokens that it needs too.)

</details>
"""

# %%
from minikv import FirstComeFirstServed, LongestPrefixFirst

prompts = [[document] * 40 + [10 + number] for number, document in enumerate([1, 2] * 4)]
for order, most in ((FirstComeFirstServed(), 8), (LongestPrefixFirst(), 8), (LongestPrefixFirst(), 1)):
    manager = CacheManager(60)
    engine = Engine(CanaryModel(64), manager, Scheduler(manager, 64, 1, order, most))
    came = [event.request for event in engine.stream(prompts, SamplingParams(max_new_tokens=1))]
    computed = sum(request.computed_tokens for request in came)
    served = [request.number for request in came]
    print(f"{order!r:31} max_overtakes={most}: {served}, {computed} tokens computed")

# %% [markdown]
"""
**Where does the time go?** A step of decoding reads every weight, and the keys and values of everybody's past. For Llama 3.1 8B in 16 bits, with 1,000 tokens behind each request, here is what must be read for each token that comes out. The weights are shared by the batch, the past is not.

And in our own engine? The second cell clocks the chat. It is the one cell here whose output differs from run to run, so none is stored; `minikv bench --engine` measures with care.
"""

# %%
from minikv.serving.config import LlamaConfig
from minikv.serving.model import weight_shapes
from minikv.untrusted import read_json

llama = LlamaConfig.read(read_json(asset("configs/llama-3.1-8b.json")))
weights = 2 * sum(torch.Size(shape).numel() for shape in weight_shapes(llama).values())
past = 1000 * bytes_per_token(llama.shape)
print("GB to read for each token    weights    keys and values")
for batch in (1, 4, 16, 64, 256):
    print(f"{batch:>3} in the batch {weights / 1e9 / batch:>19.2f} {past / 1e9:>18.2f}")

# %% tags=["nbval-ignore-output", "measured"]
import time


class Clocked(Llama):
    seconds = 0.0

    def forward(self, chunks, store):
        start, logits = time.perf_counter(), super().forward(chunks, store)
        self.seconds += time.perf_counter() - start
        return logits


for name, kind in (("without the cache", NoCache), ("with it", RadixCache)):
    clock, start = Clocked(model.config, model.weights), time.perf_counter()
    converse(kind(16), clock)
    seconds = time.perf_counter() - start
    print(f"{name}: {seconds:.2f} s, of them {clock.seconds / seconds:.0%} in the model")
ratio = bench_engine(model, rounds=1, quick=True).first_token_ratio.median
print(f"and other chats: the first token comes {ratio:.1f} times as soon with the cache")

# %% [markdown]
"""
Nearly all of it is the model, in both. So what counts is how many tokens it is given, and in how few steps.

## Play

The whole engine: tree, pool, and the running batch, one frame a step. Three questions begin alike, and a step has 12 tokens. Try this: before each step, say how many cells of each bar will be *computed now*. Then find out who computed the tokens that r3 has from the cache.
"""

# %%
film_of(slots=56, steps=7).player()

# %% [markdown]
"""
## Exercises

**8.1 Fill in.** `left[i]` is how many tokens running request `i` has left to compute; one that has a single token left decodes. Write `shares(budget, left)`: how many tokens each of them gets in the next step. Decoding requests come first, then the others in order.
"""


# %%
def shares(budget, left):
    raise NotImplementedError  # delete this line; about six lines to write


check("8.1 shares", shares)

# %% [markdown]
"""
<details><summary>Hint</summary>

Go through the requests twice, or once in another order: `sorted(range(len(left)), key=...)` keeps equal ones in their order.

</details>

<details><summary>Solution</summary>

```python
def shares(budget, left):
    found = [0] * len(left)
    for i in sorted(range(len(left)), key=lambda i: left[i] > 1):
        found[i] = min(budget, left[i])
        budget -= found[i]
    return found
```

</details>

**8.2 Design.** One place, and requests that wait, in the order in which they came. `cached[i]` tokens of request `i` are in the cache. The longest cached prefix goes first, and ties go to the earlier request; but a request may be overtaken at most `max_overtakes` times. Write `let_in(cached, max_overtakes)`: the order in which they are let in, as indices. The judge compares you with the package's `Scheduler`.
"""


# %%
def let_in(cached, max_overtakes):
    raise NotImplementedError  # delete this line; about ten lines to write


check("8.2 let_in", let_in)

# %% [markdown]
"""
<details><summary>Hint</summary>

Count for each waiting request how often it was overtaken. One that was overtaken `max_overtakes` times goes before all others.

</details>

<details><summary>Solution</summary>

```python
def let_in(cached, max_overtakes):
    waiting, overtaken, order = list(range(len(cached))), [0] * len(cached), []
    while waiting:
        tired = [i for i in waiting if overtaken[i] >= max_overtakes]
        chosen = tired[0] if tired else max(waiting, key=lambda i: cached[i])
        waiting.remove(chosen)
        order.append(chosen)
        for i in waiting:
            overtaken[i] += i < chosen
    return order
```

`max` takes the first of several equal ones.

</details>

**8.3 Bug hunt.** An engine without a cache, in numbers: a request is a pair, the tokens of its prompt and of its answer. `careless_finished` lets a preempted request wait at the *end* of the line. Find a number of slots and requests that finish in another order.
"""

# %%
import inspect

from minikv.course.exercises.ch08 import careless_finished, finished, serving

for part in (serving, finished, careless_finished):
    print(inspect.getsource(part))


def a_call_it_gets_wrong():
    raise NotImplementedError  # delete this line, and change the next
    return 9, [(2, 4), (2, 4)]


check("8.3 careless_finished", a_call_it_gets_wrong)

# %% [markdown]
"""
<details><summary>Hint</summary>

Two must run until one of them finds no slot, and a third must wait that can come in before the one that went.

</details>

<details><summary>Solution</summary>

```python
def a_call_it_gets_wrong():
    return 6, [(2, 4), (2, 4), (2, 1)]
```

</details>

## What it cost

Every answer is the same, and not every answer comes sooner. A decoding request waits for the chunks of others; a preempted one is computed again, up to half as much again in step 5; and one with nothing in the cache may wait for those with something.

What is at risk now is *time*: no check of ours notices an engine that is right and slow, or a request that waits forever. And a cached answer is the same only as long as the model is: with new weights, or another LoRA, every slot holds somebody else's keys and values. Hence namespaces (chapter 03).

## In real engines

{{engines 08}}

They plan the next step while the GPU computes this one, guess several tokens ahead and check them at once, and prefill on other machines than they decode on.

## Recap

A model with slots computes chunks: a prompt, its rest, or one token, all the same. The scheduler fills each step with the tokens that decode and with pieces of prompts, and when there is no room the youngest waits again. The cache changes how many tokens are computed and how soon the first one comes, and not which.

**Check yourself**

1. Why may a slot of a cached prefix be read only behind that same prefix?
2. What does decoding in a batch of 16 save, and what does it not save?
3. Why is the youngest preempted, and why does it wait at the front?
4. What does a long prompt pay for chunked prefill, and who gains?

<details><summary>Answers</summary>

1. Its key and value depend on all tokens before it, and the key on its position too.
2. The weights are read once for all 16; everybody's own past is read by each.
3. The oldest always gets on, so all come to an end; at the front, no later request passes it.
4. Its own first token comes some steps later; every decoding request waits less in each.

</details>

**Read on**: [Orca, continuous batching](https://www.usenix.org/conference/osdi22/presentation/yu) · [Sarathi-Serve, chunked prefill](https://arxiv.org/abs/2403.02310) · [nano-vllm](https://github.com/GeeeekExplorer/nano-vllm) · [mini-sglang](https://github.com/sgl-project/mini-sglang)
"""

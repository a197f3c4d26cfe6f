# %% [markdown]
"""
# 08 · Does the cache change a single answer?

In this chapter a language model answers questions through the cache that you built. You write the rest of your engine, three short functions and a loop, and compare the answers with and without your cache.

**After this chapter you will be able to** *read* keys and values through slots, *schedule* many requests in one loop, and *show* when a cache may change an answer.

{{time}} **Needs** chapters 02, 04, 06 and 07, and a little PyTorch. **New words** decode, time to first token, continuous batching, chunked prefill, preemption.

Here is where we are going: a whole engine, stopped after two *steps*, or calls to the model. Each bar is a request, and the numbers count its tokens. (`CacheManager`, `Scheduler`, `Engine` and `SlotAttention` come from the set-up cell and call your pieces. Everything in `minikv` is the package's.)
"""

# %%
import torch

import minikv
from minikv import ByteTokenizer, CanaryModel, Chunk, KVStore, Llama, asset, draw

torch.set_num_threads(1)  # a model as small as this gains nothing from more
model, tokenizer = Llama.from_folder(asset("model")), ByteTokenizer()


def asked(question):
    return tokenizer.encode(f"User: {question}\nAssistant:")


# %%
def engine_with(questions, slots):
    store = KVStore(model.shape, slots, dtype=model.dtype)
    manager = minikv.CacheManager(slots, store=store)
    engine = Engine(model, manager, Scheduler(manager, token_budget=12, max_running=3))
    return engine, [engine.submit(asked(question), 4) for question in questions]


engine, _ = engine_with(("Yes?", "Yo", "Go"), slots=40)
for _ in range(2):
    engine.step()
as_text = {"label": lambda tokens: repr(tokenizer.decode(tokens))}
draw(engine, **as_text)

# %% [markdown]
"""
## The problem

So far, no keys or values have been computed. Computing them is the job of a language model. Ours is small: its tokens are bytes, and it was trained on this course's text.

Here is the simplest way to ask it something: for each token of the answer, put everything through the model again. A `Chunk(tokens, start, slots)` says what to compute: the new tokens, how many tokens come before them, and the whole row, with a slot for each earlier and each new token. The model returns *logits*, one score for each possible next token, and we *sample* by taking the best-scoring token.
"""


# %%
def generate(model, prompt, new, keep):
    """Return the answer, and how many tokens the model had to compute."""
    tokens, start, computed = list(prompt), 0, 0
    store = KVStore(model.shape, len(prompt) + new, dtype=model.dtype)
    for _ in range(new):
        chunk = Chunk(tokens[start:], start, range(len(tokens)))
        computed += len(chunk.tokens)
        start = len(tokens) if keep else 0  # with 0, everything is computed again
        tokens.append(int(model.forward([chunk], store)[0].argmax()))
    return tokens[len(prompt) :], computed


# %%
prompt = asked("What is a page?")
answer, computed = generate(model, prompt, 32, keep=False)
print(f"the answer begins: {tokenizer.decode(answer)!r}")
print(f"{computed:,} tokens computed for a prompt of {len(prompt)} and an answer of 32")

# %% [markdown]
"""
Reading the prompt is prefill, and writing the answer, one token at a time, is **decode**. The keys and values of earlier tokens never change, yet this loop computes them all again for every new token.

## Build it

### Step 1: attention through slots

If attention is new to you, you can skip 8.1 and 8.2: nothing later depends on how they work.

In each layer and for each *head*, the model makes three small vectors from every token: a query, a key and a value. Attention mixes the values of all tokens up to the current one, weighted by how well its query matches their keys:

1. Each of these tokens gets a *score*: query · key, divided by the square root of `dim`, the size of a vector.
2. The softmax of the scores gives the *shares*, which are positive and add up to 1.
3. The result is the sum of all values, each times its share.

Only the *new* tokens of a step have queries. Here the last two of five tokens are new, and a dot means hidden, because no token sees later ones:

```
                     token   0   1   2   3   4
new, at position 3           x   x   x   x   .
new, at position 4           x   x   x   x   x
```

#### 8.1 You write: `attention` (15 minutes)

The new tokens come last in `keys` and `values`. Return their results as a torch tensor with the shape and dtype of `q`, which may be bf16, a 16-bit format. The heads are independent. Torch's `einsum` handles all heads at once, `masked_fill` hides scores, and `softmax` can handle large scores.
"""


# %%
def attention(q, keys, values):
    """Return the attention of the last `len(q)` tokens, each over all up to itself.

    `q` is (new tokens, heads, dim), `keys` and `values` are (all tokens, heads, dim).
    """
    raise NotImplementedError  # delete this line; about 6 lines to write


attention = check("8.1 attention", attention)

# %% [markdown]
"""
#### 8.2 You write: `repeat_kv` (5 minutes)

Our model has 6 query heads but only 2 KV heads: query heads 0 to 2 read KV head 0, and 3 to 5 read KV head 1. The cache stores each KV head once, but `attention` needs one for each query head. Return a tensor whose head `h` is the KV head that query head `h` reads.
"""


# %%
def repeat_kv(kv, num_heads):
    """Return the KV head that each of the `num_heads` query heads reads, in order.

    `kv` is (tokens, kv_heads, dim), and the result is (tokens, num_heads, dim).
    """
    raise NotImplementedError  # delete this line; about 2 lines to write


repeat_kv = check("8.2 repeat_kv", repeat_kv)

# %% [markdown]
"""
In each layer, the new keys and values are written to their slots. Then `read` collects those of the whole sequence with your `runs` and `gather` from chapter 06, no matter which request computed them.
"""

# %%
source(SlotAttention)

# %% [markdown]
"""
What if a row is wrong? Four tokens are in slots 0, 1, 9 and 5, and the last two are new. We read through this row, through [0, 7, 9, 5], where nobody ever wrote to slot 7, and through [1, 0, 9, 5], with two slots swapped. Does the swapped row give the same result as the correct one?
"""

# %%
guess("8.a", "does the swapped row give the same result, 'yes' or 'no'?", None)

# %%
chance = torch.Generator().manual_seed(8)
q, k, v = torch.randn(3, 4, 1, 8, generator=chance, dtype=torch.float64)
keys, values = torch.zeros(2, 16, 1, 8, dtype=torch.float64)  # by slot
keys[[0, 1, 9, 5]], values[[0, 1, 9, 5]] = k, v
right, same = attention(q, k, v)[2:], []
for row in ([0, 1, 9, 5], [1, 0, 9, 5], [0, 7, 9, 5]):
    same.append(torch.allclose(attention(q[2:], keys[row], values[row]), right))
fold("8.a", "yes" if same[1] else "no", f"right row, swapped, wrong slot: {same}")

# %% [markdown]
"""
<details><summary>Why</summary>

Yes. Both new tokens see both swapped ones, and on paper a sum has no order. The wrong slot is worse: it changes the result without an error.

</details>

A stored key depends on more than its token: our model rotates it by an angle that grows with its position (RoPE), and from the second layer on, it depends on everything that its token has seen. So a stored key is valid at one position, after one prefix, and a tree of prefixes offers it only there.

### Step 2: prefill and decode are the same thing

A chunk may be a whole prompt, the rest of a prompt after a cached prefix, or a single new token. One function makes all three:
"""

# %%
source(next_chunk)

# %% [markdown]
"""
Its two slices differ: the *tokens* are only the new ones, but the *slots* begin with that of the first token, because attention also reads the earlier slots.

With `keep=True`, `generate` begins each chunk where the last one ended. We run it on `own`, the same model with your attention. The prompt and the answer have 32 tokens each. How many tokens are computed?
"""

# %%
guess("8.b", "32 tokens of prompt, 32 of answer: how many are computed?", None)

# %%
own = Llama(model.config, model.weights, attention=SlotAttention)
found, computed = generate(own, prompt, 32, keep=True)
fold("8.b", computed, f"the same 32 tokens as before: {found == answer}")

# %% [markdown]
"""
<details><summary>Why</summary>

One fewer than the sum, because the last token is sampled, but its key and value are never computed.

</details>

### Step 3: many at once

A step of the model reads nearly all its weights, whether it computes one token or fifty, so an engine puts the chunks of all requests into one step. In **continuous batching**, a finished request can leave after any step, and a waiting one takes its place.

But one long prompt must not keep all others waiting. So a step has a *budget* of tokens, and a long prompt is read in several chunks, one per step. The price of this **chunked prefill** is a longer **time to first token**, which we count in steps.

In July 2026, the operators of a chat service {{engines sglang-32549|reported}} that in fifteen minutes, their SGLang server ran 2,863 steps of prefill and fewer than 40 of decode, so more than 250 answers advanced only once every 24 seconds. SGLang {{engines sglang-first|runs prefill whenever there is any}}. Of the four engines in this course, only vLLM {{engines vllm-first|serves running requests first}} by default. In your engine, **decoding requests come first, then prompts.**

#### 8.3 You write: `schedule` (10 minutes)

Request `i` has `left[i]` tokens left to compute (perhaps none); a request with exactly one left decodes. Return, for each request, how many tokens the next step computes. Decoding requests come first, then the others, both in list order. Each gets as many as it can use, all at once, until the budget is spent.
"""


# %%
def schedule(left, budget):
    """Return how many of the `left` tokens of each request the next step computes."""
    raise NotImplementedError  # delete this line; about 7 lines to write


schedule = check("8.3 schedule", schedule)

# %% [markdown]
"""
Three requests decode, one has a prompt of 500 tokens, and the budget of a step is 64. How many steps does it take to read the prompt?
"""

# %%
guess("8.c", "how many steps does it take to read the prompt?", None)

# %%
left, shares = [1, 1, 1, 500], []
while left[3]:
    shares.append(list(schedule(left, 64)))
    left[3] -= shares[-1][3]
fold("8.c", len(shares), f"first {shares[0]}, last {shares[-1]}")

# %% [markdown]
"""
<details><summary>Why</summary>

The three decoding requests take 3 tokens of each step, so 61 are left for the prompt, and 8 times 61 is only 488.

</details>

### Step 4: when there is no room

A decoding request needs one more slot in each step. If none is free and nothing can be evicted, the *youngest* request gives back its slots and waits again, at the *front* of the line, so the oldest always makes progress. This is **preemption**:
"""

# %%
source(preempt)

# %% [markdown]
"""
Both lists are in order of arrival, so the youngest is last in `running` and goes first in `waiting`. Because `finish` publishes (`abort` would not), the request later recomputes little more than what was evicted.

### Step 5: the loop

#### 8.4 You write: `run_step` (25 minutes)

Write one step of the loop, by these rules:

- The model computes all scheduled chunks in *one* call. If there are none, the step does nothing.
- Afterwards, every chunk counts as computed.
- If a chunk reaches the end of its sequence, its request samples a token and takes it. In the middle of a prompt, the logits mean nothing.
- A finished request publishes, loses its sequence (`None`), and leaves `engine.scheduler.running`.
- Any other request publishes after each chunk of its prompt, but not after each token of its answer.

| call | what it does and returns |
|---|---|
| `engine.schedule()` | calls your `schedule`, and `preempt` if there is no room; returns a list of scheduled chunks |
| `each.request`, `each.num_tokens`, `each.prefill` | of a scheduled chunk `each`: its request, its length, and whether it is part of a prompt |
| `each.samples` | whether it reaches the end of its sequence (ask before it counts as computed) |
| `engine.forward(chunks)` | computes chunks made by `next_chunk`; returns a row of logits for each |
| `engine.manager` | your manager, with `advance(sequence, num_tokens)`, `checkpoint(sequence)` and `finish(sequence)` |
| `request.sequence`, `request.sampler(row)` | its sequence in the manager; its next token, an int |
| `request.take(token, engine.scheduler.step)` | adds a token to the output; then `request.is_over` says whether it was the last |
"""


# %%
def run_step(engine):
    """Run one step: schedule, compute, sample, and record the results."""
    raise NotImplementedError  # delete this line; about 15 lines to write


run_step = check("8.4 run_step", run_step)

# %% [markdown]
"""
Your engine is complete: its `generate` calls your `run_step` until all prompts are answered. What if there is little room? Three requests arrive with prompts of 5 tokens that share nothing, and each generates 12 tokens. `CanaryModel` computes only fingerprints, and raises an error if the slots in a row do not belong to one prefix. What is the smallest number of slots with which none is preempted?
"""

# %%
guess("8.d", "what is the smallest number of slots?", None)


# %%
def served(slots):
    manager = CacheManager(slots)
    engine = Engine(CanaryModel(257), manager, Scheduler(manager))
    return engine.generate([[name] * 5 for name in (1, 2, 3)], 12)


# %%
turns = {slots: served(slots) for slots in range(16, 61, 4)}
went = {slots: sum(turn.preemptions for turn in turns[slots]) for slots in turns}
work = {slots: sum(turn.computed for turn in turns[slots]) for slots in turns}
answers = [[turn.tokens for turn in turns[slots]] for slots in turns]
same = all(each == answers[0] for each in answers)
words = f"preempted, by slots: {went}\ncomputed: {work}\nthe same answers: {same}"
fold("8.d", min(slots for slots in went if not went[slots]), words)

# %% [markdown]
"""
<details><summary>Why</summary>

Each request needs 16 slots: 5 for its prompt and 11 for its answer; the last token needs none.

</details>

## The same in `minikv`

The package's `Engine` can also guess tokens (chapter 11) and recover from failed steps. On a hundred random workloads, some short of room, both engines give every request the same tokens.
"""

# %%
from minikv.course.pieces.scoreboard import same_answers

YOURS = CacheManager, Scheduler, Engine
PACKAGES = minikv.CacheManager, minikv.Scheduler, minikv.Engine
preempted = same_answers(YOURS, PACKAGES, workloads=100)
print(f"the same in 100 workloads; {preempted} requests were preempted on the way")

# %% [markdown]
"""
### The chat, on your engine

Each turn of a chat sends the instructions and everything said so far, so its prompt begins with the previous prompt and answer. A step's budget is 128 tokens.
"""


# %%
def engine_of(model, kinds, **cache):
    store = KVStore(model.shape, 128, 16, dtype=model.dtype)
    manager = kinds[0](128, 16, store=store, **cache)
    return kinds[2](model, manager, kinds[1](manager, token_budget=128))


# %%
from minikv.serving.chat_format import INSTRUCTIONS

QUESTIONS = "Hello!", "What is a radix tree?", "What is evicted first?", "Thanks!"


def talk(engine):
    said, turns = tokenizer.encode(INSTRUCTIONS), []
    for question in QUESTIONS:
        said += asked(question)
        turns += engine.generate([said], 140)
        said += [*turns[-1].tokens, *tokenizer.encode("\n")]
    return turns


# %%
cached = talk(engine_of(own, YOURS))
for turn in cached:
    print(tokenizer.decode(turn.tokens).strip())

# %% [markdown]
"""
Now for this chapter's question: we run the same chat on an engine with `NoCache`, which never finds a prefix.
"""

# %%
from minikv import NoCache, plot

without = talk(engine_of(own, PACKAGES, prefix_cache=NoCache(16)))
same = [turn.tokens for turn in without] == [turn.tokens for turn in cached]
waits = [turn.first_token_steps for turn in without]
print(f"the same answers: {same}; steps to the first token: {waits}")

# %% [markdown]
"""
Not one token changes, because a cached slot holds what would be computed again. (The end of the chapter shows exceptions.) Without the cache, the wait grows with every turn. How many steps did each turn wait with your cache?
"""

# %%
guess("8.e", "how many steps did each turn wait with your cache? [., ., ., .]", None)

# %%
lines = {"no cache": waits, "yours": [turn.first_token_steps for turn in cached]}
found, total = sum(turn.cached for turn in cached), sum(turn.prompt for turn in cached)
words = f"{found} of {total} prompt tokens were cached: {found / total:.0%}"
picture = plot("time to first token", {"turn": range(1, 5)}, lines, "steps")
fold("8.e", lines["yours"], words, picture)

# %% [markdown]
"""
<details><summary>Why</summary>

In the first turn, nothing is cached. In later turns, only the new question and the unfinished page before it are computed, which takes one step. The previous answer is cached, too: its keys and values were computed as it was generated, and `finish` published them.

</details>

Let's compare your engine with the package's.
"""

# %%
from minikv import scoreboard

engines = engine_of(own, YOURS), engine_of(model, PACKAGES)
scoreboard(dict(zip(("your engine", "the package's"), engines)), talk)

# %% [markdown]
"""
The package's engine makes fewer lookups because its `checkpoint` continues where the last one ended, and visits fewer nodes because its tree merges a node with its only child.

### What if prefill goes first?

Three requests decode, and every eight steps a prompt of 500 tokens arrives.
"""


# %%
class PrefillFirst(minikv.Scheduler):
    def share(self, left, budget):
        reading = [tokens if tokens > 1 else 0 for tokens in left]
        return super().share(reading if any(reading) else left, budget)


# %%
def tokens_by_step(scheduler_class):
    manager, counts = CacheManager(9000), []
    engine = Engine(CanaryModel(257), manager, scheduler_class(manager, 64, 16))
    three = [engine.submit([i] * 10, 60) for i in range(3)]
    for number in range(32):
        if number % 8 == 4:
            engine.submit([number] * 500, 1)
        engine.step()
        counts.append(sum(request.generated_tokens for request in three))
    return counts


# %%
kinds = {"prefill first": PrefillFirst, "yours": Scheduler}
lines = {name: tokens_by_step(kind) for name, kind in kinds.items()}
plot("three answers while long prompts arrive", {"step": range(1, 33)}, lines, "tokens")

# %% [markdown]
"""
With prefill first, only one step in eight is left for the three answers. With your schedule, each gets a token in every step. SGLang can now limit the wait with {{engines sglang-decode-interval}}, which is off for most models.

## Play

Here is the engine as a film, one frame per step. Requests `Hi` (r1), `Help` (r2) and `Hey` (r3) arrive together, each as `User: Hi`, a newline, `Assistant:`. With a budget of 12 tokens, r3 starts after r1's whole prompt and part of r2's have been read. How many tokens of r3's prompt are then in the cache?
"""

# %%
guess("8.f", "r3 starts: how many tokens of its prompt are in the cache?", None)

# %%
from minikv import record

engine, requests = engine_with(("Hi", "Help", "Hey"), slots=48)
with record(engine, **as_text) as film:
    for _ in range(8):
        engine.step()
fold("8.f", requests[2].cached_tokens)

# %% [markdown]
"""
<details><summary>Why</summary>

Eight. The first seven, `User: H`, come from r1. The last, `e`, comes from r2, which published it while still reading its prompt.

</details>
"""

# %%
film.player(still=3)

# %% [markdown]
"""
When does r3 lose its slots, and why r3?

<details><summary>Answers</summary>

Frame 5: r1 needs a slot, none is free or evictable, and r3 is the youngest.

</details>

## More to try

#### 8.5 Design: an order without starvation

Which waiting request should start first? If it is the one with the longest cached prefix, that prefix is used before it can be evicted. But then other requests may wait forever. On one SGLang server, about 5% of the requests {{engines sglang-31954|accounted for}} about 75% of the total time to first token. The package's `Scheduler` starts requests in order of arrival unless it is told otherwise, and limits how often one can be overtaken.

Write `let_in(cached, max_overtakes)`, which returns the order in which waiting requests start, one at a time, as a list of indices. Requests are numbered by arrival, and request `i` has `cached[i]` tokens in the cache. The longest cached prefix goes first, and ties go to the earlier request, but later requests may overtake a request at most `max_overtakes` times.
"""


# %%
def let_in(cached, max_overtakes):
    raise NotImplementedError  # delete this line; about 10 lines to write


check("8.5 let_in", let_in)

# %% [markdown]
"""
<details><summary>Hint</summary>

Count how often each waiting request has been overtaken. One that has reached the limit goes before all others.

</details>

<details><summary>Solution</summary>

```python
def let_in(cached, max_overtakes):
    waiting, overtaken, order = list(range(len(cached))), [0] * len(cached), []
    while waiting:
        due = [i for i in waiting if overtaken[i] >= max_overtakes]
        chosen = due[0] if due else max(waiting, key=lambda i: cached[i])
        waiting.remove(chosen)
        order.append(chosen)
        for i in waiting:
            overtaken[i] += i < chosen
    return order
```

</details>

#### 8.6 Bug hunt: the wrong end of the line

Here is an engine without a cache, reduced to arithmetic: a request is a pair: its number of prompt tokens and of answer tokens. `careless_finished` returns the order in which the requests finish, but it lets a preempted request wait at the *end* of the line. Find a number of slots and a list of requests for which that changes the order.

<details><summary>The rules of a step</summary>

1. Every running request, beginning with the oldest, takes a slot for the token that it generated last. While none is free, the youngest is preempted.
2. Requests start from the front of the line, as long as their tokens fit and leave a slot for each running request.
3. Each running request generates a token.

</details>
"""

# %%
careless("8.6")


# %%
def a_call_it_gets_wrong():
    raise NotImplementedError  # delete this line, and change the next
    return 9, [(2, 4), (2, 4)]


check("8.6 careless_finished", a_call_it_gets_wrong)

# %% [markdown]
"""
<details><summary>Hint</summary>

Two requests must run until one of them finds no slot. A third, small enough to start before the preempted one, must be waiting.

</details>

<details><summary>Solution</summary>

```python
def a_call_it_gets_wrong():
    return 6, [(2, 4), (2, 4), (2, 1)]
```

</details>

## What it cost

Not every answer is faster. A decoding request shares its steps with other requests' chunks, a preempted request is partly computed again, and if the longest prefix goes first, a request without one may wait.

### When a cache may change an answer

No token changed above, but that isn't guaranteed, because every sum is rounded: in bf16, sums from 16 to 32 become the nearest multiple of 0.125, and small sums are much more precise. Suppose the score of `no` is 16.125, and that of `yes` is a sum: 16 from a cached token and 0.05 from each of four new ones, or 16.2 on paper. Without a cache, an engine adds the five numbers in order; after a cached prefix, it may add up the last four first. What are the two results for `yes`?
"""

# %%
guess("8.g", "the results for yes: in order, and new ones first? [., .]", None)

# %%
yes = torch.tensor([16, 0.05, 0.05, 0.05, 0.05], dtype=torch.bfloat16)
cold, warm = float(sum(yes)), float(yes[0] + sum(yes[1:]))
first, second = ["yes" if score > 16.125 else "no" for score in (cold, warm)]
fold("8.g", [cold, warm], f"without a cache {first!r} wins, with it {second!r}")

# %% [markdown]
"""
<details><summary>Why</summary>

In order, 16 + 0.05 is rounded back to 16, four times, so `no` wins. Added up first, the four make 0.2, and 16 + 0.2 is rounded to 16.25, so `yes` wins.

</details>

So a cache may change a token if the two likeliest ones have equal scores up to rounding error and the numbers are added in another order.

vLLM allows one exception by design. DeepSeek-V4.1 uses a sliding window of 128 tokens (chapter 12), whose keys and values vLLM doesn't cache. After a hit, vLLM recomputes only the last window and reads nothing before it, so outputs are "not bit-identical to a cold run": {{engines vllm-bounded-replay}}.

The *model* must be the same too. With new weights or another adapter, the cached slots hold another model's keys and values, which namespaces keep apart (chapter 03).

## In real engines

{{engines 08|what goes first; prefill and decode in one step; no room}}

## Recap

A model that reads through slots computes a prompt, the rest of one, or a single token in the same way. The scheduler fills each step with decoding requests' tokens, then with chunks of prompts, and when there is no room, the youngest request waits again. The cache changes how many tokens are computed, but changes an answer only if two tokens' scores are equal up to rounding error.

**Check yourself**

1. Why can a cached key or value be used only after the same prefix?
2. What does chunked prefill cost a long prompt, and who gains? What if prefill goes first?
3. From chapter 06: when should evicted tokens be loaded back rather than computed again?
4. From chapter 07: at a checkpoint, the tree already has some of the tokens. What happens to their duplicate pages?

<details><summary>Answers</summary>

1. It depends on all tokens before it, and a key also on its position.
2. Its first token comes some steps later, and decoding requests gain. If prefill goes first, they gain nothing, because they wait for all the chunks.
3. When moving their bytes is faster than computing them.
4. The request's row now names the tree's pages, and the duplicates go back to the pool.

</details>

**Read on**: [Orca, continuous batching](https://www.usenix.org/conference/osdi22/presentation/yu) · [Sarathi-Serve, chunked prefill](https://arxiv.org/abs/2403.02310) · [nano-vllm](https://github.com/GeeeekExplorer/nano-vllm) · [mini-sglang](https://github.com/sgl-project/mini-sglang)
"""

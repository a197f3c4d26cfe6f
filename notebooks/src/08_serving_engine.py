# %% [markdown]
"""
# 08 · Does the cache change a single answer?

In this chapter a language model answers questions through the cache that you built. You write the rest of your engine, three short functions and the loop that joins everything. Then you compare the model's answers with your cache and without it.

**After this chapter you will be able to** *read* keys and values through slots, *schedule* many requests in one loop, and *show* when a cache may change an answer.

{{time}} **Needs** chapters 02, 04, 06 and 07, and a little PyTorch. **New words** decode, time to first token, continuous batching, chunked prefill, preemption.

Here is where we are going: a whole engine, stopped after two steps. Each bar is a request, and the numbers count its tokens. (`CacheManager`, `Scheduler`, `Engine` and `SlotAttention` come from the set-up cell and call your pieces. Names from `minikv` are the package's.)
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

So far, no keys or values have been computed. That is the job of a language model (a *decoder*). Ours is small: its tokens are bytes, and it was trained on this course's words.

Here is the simplest way to ask it something: for each new token, put everything through the model again. A `Chunk(tokens, start, slots)` says what to compute: the new tokens, how many tokens come before them, and the whole row, with a slot for each earlier token and then for each new one. The model returns *logits*, its scores for the next token, and we *sample*: we take the token with the largest.
"""


# %%
def generate(model, prompt, new, keep):
    """Returns the answer, and how many tokens the model had to compute."""
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
print(f"{computed:,} tokens computed, for {len(prompt)} of prompt and 32 of answer")

# %% [markdown]
"""
Reading the prompt is prefill, and writing the answer, one token at a time, is **decode**. The keys and values of earlier tokens never change, and yet this loop computes them all again for every new token.

## Build it

### Step 1: attention through slots

If attention is new to you, you can skip pieces 8.1 and 8.2: nothing later depends on how they work.

In each layer, every token makes three small vectors for each *head*: a query, a key and a value. Attention mixes the values of all tokens up to this one, weighted by how well its query matches their keys:

1. A *score* for each token that it may see: query · key, divided by the square root of the head's size.
2. *Shares*: the softmax of the scores, so they are positive and add up to 1.
3. The result: each value times its share, added up.

Only the *new* tokens of a step have queries. Here the last two of five tokens are new, and dots are hidden, because no token looks at later ones:

```
                     token   0   1   2   3   4
new, at position 3           x   x   x   x   .
new, at position 4           x   x   x   x   x
```

#### 8.1 You write: `attention` (15 minutes)

The new tokens are the last of `keys` and `values`. Return what each new token gets, as a torch tensor with the shape and dtype of `q`, which may be bf16. Each head attends by itself. Torch's `einsum` handles all heads at once, `masked_fill` hides scores, and `softmax` can handle large ones.
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

Our model has 6 query heads but only 2 KV heads: query heads 0, 1 and 2 read KV head 0, and 3, 4 and 5 read KV head 1. The cache stores each KV head once, but `attention` needs one for each query head. Return a tensor whose head `h` is the KV head that query head `h` reads.
"""


# %%
def repeat_kv(kv, num_heads):
    """Return the KV head of each of the `num_heads` query heads, a group side by side.

    `kv` is (tokens, kv_heads, dim), and the result is (tokens, num_heads, dim).
    """
    raise NotImplementedError  # delete this line; about 2 lines to write


repeat_kv = check("8.2 repeat_kv", repeat_kv)

# %% [markdown]
"""
In each layer, the new keys and values are written to their slots. Then `read` collects those of the whole sequence with your `runs` and `gather` of chapter 06, no matter which request computed them.
"""

# %%
source(SlotAttention)

# %% [markdown]
"""
What if a row is wrong? Four tokens are in slots 0, 1, 9 and 5, and the last two are new. We read through the correct row, through one with slot 7, to which nobody ever wrote, and through one with the first two slots swapped. Is the result of row [1, 0, 9, 5] the same?
"""

# %%
guess("8.a", "is the result of row [1, 0, 9, 5] the same, 'yes' or 'no'?", None)

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

The wrong order goes unnoticed, because on paper a sum has no order. The wrong slot is worse: it changes the result, and there is no error.

</details>

A stored key depends on more than its token. Our model rotates each key by an angle that grows with its position (RoPE), and from the second layer on, a key depends on everything that its token has seen. So a stored key is good for one position after one prefix, which is what a tree of prefixes promises.

### Step 2: prefill and decode are the same thing

A chunk may be a whole prompt, the rest of a prompt after a cached prefix, or a single new token. Only `start` differs, so one function makes them all:
"""

# %%
source(next_chunk)

# %% [markdown]
"""
Its two slices differ: the *tokens* are only the new ones, but the *slots* begin with the first token of the sequence, because attention also reads what was computed before.

With `keep=True`, the loop at the top begins each chunk where the last one ended. `own` is the same model with your attention. The prompt has 32 tokens, and so does the answer. How many tokens are computed?
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

A step of the model reads nearly all its weights, whether it computes one token or fifty, so an engine puts everybody's chunks into one step. In **continuous batching**, a finished request leaves after any step, and the next one takes its place.

But one long prompt must not keep everybody else waiting. So a step has a *budget* of tokens, and a long prompt is read in pieces, one per step. That is **chunked prefill**. Its price is a longer **time to first token**, which we count in steps.

In July 2026 the operators of a chat service reported that in fifteen minutes, their SGLang server ran 2,863 steps of prefill and fewer than forty of decode, so more than 250 answers advanced only once every 24 seconds ({{engines sglang-32549|the report}}). SGLang's rule is "{{engines sglang-first}}". Of the four engines of this course, only vLLM takes "{{engines vllm-first}}" by default. In your engine, **decoding requests come first, and then prompts.**

#### 8.3 You write: `schedule` (10 minutes)

`left[i]` is how many tokens request `i` has left to compute (perhaps none); a request with exactly one left decodes. Return for each request how many the next step computes. Decoding requests come first, then the others, in list order. Each gets as much as it can use, not token by token, until the budget is spent.
"""


# %%
def schedule(left, budget):
    """How many of the `left` tokens of each request the next step computes."""
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

The three decoding requests take 3 tokens of each step, so 61 are left for the prompt.

</details>

### Step 4: when there is no room

A decoding request needs a slot for each token that it generates. If none is free, and nothing can be evicted, one request has to give way. It is the *youngest*, so the oldest always makes progress. It gives back its slots and waits again, at the *front* of the line. This is **preemption**:
"""

# %%
source(preempt)

# %% [markdown]
"""
Both lists are in order of arrival, so the youngest is the last of `running` and goes before all of `waiting`. Because `finish` publishes (`abort` would not), the request later recomputes only what was evicted in the meantime.

### Step 5: the loop

#### 8.4 You write: `run_step` (25 minutes)

Write one step of the loop, by these rules:

- The model computes all scheduled chunks in *one* call. If there are none, the step does nothing.
- Afterwards, every chunk counts as computed.
- Where a chunk reaches the end of its sequence, its request samples a token and takes it. In the middle of a prompt, the logits mean nothing.
- A request that is over publishes, has no sequence anymore (`None`), and leaves `engine.scheduler.running`.
- Any other request publishes after each chunk of its prompt, but not after each token of its answer.

| call | what it does and returns |
|---|---|
| `engine.schedule()` | calls your `schedule`, and `preempt` if there is no room; returns a list of scheduled chunks |
| `each.request`, `each.num_tokens`, `each.prefill` | of a scheduled chunk: whose it is, how long, and whether it is part of a prompt |
| `each.samples` | whether it reaches the end of its sequence, counted from what is computed *now* |
| `engine.forward(chunks)` | computes chunks made by `next_chunk`; returns a row of logits for each |
| `engine.manager` | your manager, with `advance(sequence, num_tokens)`, `checkpoint(sequence)` and `finish(sequence)` |
| `request.sequence`, `request.sampler(row)` | its sequence in the manager; its next token, an int |
| `request.take(token, engine.scheduler.step)` | adds a token to the output; then `request.is_over` says whether it was the last |
"""


# %%
def run_step(engine):
    """Run one step: schedule, compute, sample, and enter the results."""
    raise NotImplementedError  # delete this line; about 15 lines to write


run_step = check("8.4 run_step", run_step)

# %% [markdown]
"""
Your engine is complete: `generate` calls your `run_step` until all prompts are answered. What if there is little room? Three requests arrive with prompts of 5 tokens that share nothing, and each generates 12 tokens. `CanaryModel` replaces the model: it computes fingerprints, and raises an error if the slots in a row do not all belong to the same prefix. How many slots do the three need so that none is preempted?
"""

# %%
guess("8.d", "how many slots do they need so that none is preempted?", None)


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
words = f"by slots, preempted {went},\ncomputed {work}; the same answers: {same}"
fold("8.d", min(slots for slots in went if not went[slots]), words)

# %% [markdown]
"""
<details><summary>Why</summary>

16 for each request: 5 for its prompt and 11 for its answer, because the last token needs no slot.

</details>

## The same in `minikv`

The package's `Engine` can also guess tokens and repair failed steps. On a hundred random workloads, some short of room, both engines give every request the same tokens.
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

Each turn of a chat sends the assistant's instructions and everything that was said so far, so its prompt begins with the whole turn before it. A step's budget is 128 tokens.
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
Now the question of this chapter: we run the same chat on an engine with `NoCache`, which never finds anything.
"""

# %%
from minikv import NoCache, plot

without = talk(engine_of(own, PACKAGES, prefix_cache=NoCache(16)))
same = [turn.tokens for turn in without] == [turn.tokens for turn in cached]
waits = [turn.first_token_steps for turn in without]
print(f"the same answers: {same}; steps to the first token: {waits}")

# %% [markdown]
"""
Not one token changes, because a cached slot holds what would have been computed again. (The end of the chapter says when that isn't true.) But without the cache, the wait grows with every turn. How many steps did each turn wait with your cache?
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

In the first turn nothing is cached. In later turns only the new question and the last page before it are computed, which takes one step. The previous answer is cached, too: its keys and values were computed as it was generated, and `finish` published them.

</details>

The scoreboard runs the chat on both engines.
"""

# %%
from minikv import scoreboard

engines = engine_of(own, YOURS), engine_of(model, PACKAGES)
scoreboard(dict(zip(("your engine", "the package's"), engines)), talk)

# %% [markdown]
"""
The package looks up less because its `checkpoint` continues where the last one ended, and visits fewer nodes because it joins a node with its only child.

### Prefill first, and who starves

Three requests decode, and every eight steps somebody sends a prompt of 500 tokens.
"""


# %%
class PrefillFirst(minikv.Scheduler):
    def share(self, left, budget):
        reading = [tokens if tokens > 1 else 0 for tokens in left]
        return super().share(reading if any(reading) else left, budget)


# %%
def words_by_step(scheduler_class):
    manager, said = CacheManager(9000), []
    engine = Engine(CanaryModel(257), manager, scheduler_class(manager, 64, 16))
    three = [engine.submit([i] * 10, 60) for i in range(3)]
    for number in range(32):
        if number % 8 == 4:
            engine.submit([number] * 500, 1)
        engine.step()
        said.append(sum(request.generated_tokens for request in three))
    return said


# %%
kinds = {"prefill first": PrefillFirst, "yours": Scheduler}
lines = {name: words_by_step(kind) for name, kind in kinds.items()}
plot("three answers while long prompts come", {"step": range(1, 33)}, lines, "tokens")

# %% [markdown]
"""
With prefill first, only one step in eight is left for the three. With your schedule, each of them gets a token in every step. SGLang can now limit this with {{engines sglang-decode-interval}}, which is off for most models.

## Play

Below is the whole engine in a film, one frame per step. Three requests, `Hi`, `Help` and `Hey`, arrive together, each as `User: Hi`, a new line and `Assistant:`. With 12 tokens per step, r3 comes in after r1's prompt and a part of r2's have been read. How many tokens of its prompt are then in the cache?
"""

# %%
guess("8.f", "r3 comes in: how many tokens of its prompt are in the cache?", None)

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

The first seven, `User: H`, come from r1. The eighth, `e`, comes from r2, which has just published it although it is still reading its prompt.

</details>
"""

# %%
film.player(still=3)

# %% [markdown]
"""
When does r3 lose its slots again, and why r3?

<details><summary>Answers</summary>

Frame 5: r1 needs a slot, none is free or evictable, and r3 is the youngest.

</details>

## More to try

#### 8.5 Design: an order without starvation

Which waiting request comes in first? If it is the one with the longest cached prefix, that prefix is used before it can be evicted. But then a request without one may wait forever: on one SGLang server, about 5% of the requests accounted for about 75% of the total time to first token ({{engines sglang-31954|the report}}). So the package's `Scheduler` has a limit.

Write `let_in(cached, max_overtakes)`, which returns the order in which waiting requests are let in, one at a time, as indices. Requests are numbered by arrival, and request `i` has `cached[i]` tokens in the cache. The longest cached prefix goes first, and ties go to the earlier request, but later requests may overtake a request at most `max_overtakes` times.
"""


# %%
def let_in(cached, max_overtakes):
    raise NotImplementedError  # delete this line; about 10 lines to write


check("8.5 let_in", let_in)

# %% [markdown]
"""
<details><summary>Hint</summary>

Count how often each waiting request was overtaken. One that was overtaken `max_overtakes` times goes before all others.

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

Here is an engine without a cache, reduced to arithmetic: a request is a pair, the number of tokens in its prompt and in its answer. `careless_finished` returns the order in which the requests finish, but a preempted request waits at the *end* of the line. Find a number of slots and requests for which that changes the order.

<details><summary>The rules of a step</summary>

1. Every running request, the oldest first, takes a slot for the token that it generated last. While none is free, the youngest is preempted.
2. Requests come in from the front of the line, if their tokens fit and leave a slot for each running request.
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

Two requests must run until one of them finds no slot. A third, small enough to come in before the preempted one, must be waiting.

</details>

<details><summary>Solution</summary>

```python
def a_call_it_gets_wrong():
    return 6, [(2, 4), (2, 4), (2, 1)]
```

</details>

## What it cost

Not every answer is faster. A decoding request shares its steps with other requests' chunks, a preempted request is partly computed again, and a request with no cached prefix may wait while others with one go first.

### When a cache may change an answer

No token changed above, but that isn't a law, because every sum is rounded: in bf16, a 16-bit format, sums from 16 to 32 become the nearest multiple of 0.125. Suppose the score of `no` is 16.125, and that of `yes` is a sum: 16 from a cached token and 0.05 from each of four new ones, or 16.2 on paper. Without a cache, an engine adds the five in order; after a cached prefix, it may add up the four new ones first. What are the two results for `yes`?
"""

# %%
guess("8.g", "what is yes: in order, and with the new ones first? [., .]", None)

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

So a cache may change a token when the two likeliest ones are equal up to rounding error and the sums are added in another order. Without any cache, another batch size can do the same. In 32 bits the differences are smaller, but not zero.

vLLM allows one exception by design. DeepSeek-V4.1 also reads a sliding window of 128 tokens (chapter 12), which vLLM doesn't cache. After a hit it recomputes only the last window and reads nothing before it, so outputs are "not bit-identical to a cold run": {{engines vllm-bounded-replay}}.

And the *model* must be the same. With new weights, or with an adapter, every slot holds another model's keys and values. That is what namespaces are for (chapter 03).

## In real engines

{{engines 08|what goes first; prefill and decode in one step; no room}}

## Recap

A model with slots computes a prompt, the rest of one, or a single token in the same way. The scheduler fills each step with decoding requests' tokens, then with pieces of prompts, and when there is no room, the youngest request waits again. The cache changes how many tokens are computed, but an answer only where two tokens are equal up to rounding error.

**Check yourself**

1. Why may a slot of a cached prefix be read only after that same prefix?
2. What does chunked prefill cost a long prompt? Who gains, and in which engines does nobody gain?
3. From chapter 06: when should evicted tokens be loaded back rather than computed again?
4. From chapter 07: at a checkpoint, the tree already has some of the tokens. What happens to their duplicate pages?

<details><summary>Answers</summary>

1. Its key and value depend on all tokens before it, and the key also on its position.
2. Its first token comes some steps later. Decoding requests gain, but not if prefill goes first: then they wait for all the chunks.
3. When moving their bytes takes less time than computing them.
4. The request's row now names the tree's pages, and the duplicates go back to the pool.

</details>

**Read on**: [Orca, continuous batching](https://www.usenix.org/conference/osdi22/presentation/yu) · [Sarathi-Serve, chunked prefill](https://arxiv.org/abs/2403.02310) · [nano-vllm](https://github.com/GeeeekExplorer/nano-vllm) · [mini-sglang](https://github.com/sgl-project/mini-sglang)
"""

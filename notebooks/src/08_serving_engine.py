# %% [markdown]
"""
# 08 · Does the cache change a single answer?

In this chapter a language model answers questions through the cache that you built. You will write the last three functions of your engine: how a model reads keys and values through slots, how the tokens of a step are shared out, and what happens when there is no room. Then the model holds the same chat twice, with your cache and without it, and you compare what it says.

**After this chapter you will be able to** *read* keys and values through slots in a decoder, *schedule* many requests in one loop, and *show* when a cache may change an answer and when it does not.

{{time}} **Needs** chapters 02, 04 and 07, and a little PyTorch. **New words** decode, time to first token, continuous batching, chunked prefill, preemption.

Here is where we are going: a whole engine at work, stopped after two steps. Each bar is a request, and each cell of a bar is one token.
"""

# %%
import torch

import minikv
from minikv import ByteTokenizer, CanaryModel, Chunk, Engine, KVStore, Llama, asset

torch.set_num_threads(1)  # a model as small as this gains nothing from more
model, tokenizer = Llama.from_folder(asset("model")), ByteTokenizer()


def asked(question):
    return tokenizer.encode(f"User: {question}\nAssistant:")


# %%
def film_of(steps, slots=48):
    store = KVStore(model.shape, slots, dtype=model.dtype)
    manager = minikv.CacheManager(slots, store=store)
    engine = Engine(model, manager, Scheduler(manager, token_budget=12, max_running=3))
    with minikv.record(engine, label=lambda ids: repr(tokenizer.decode(ids))) as film:
        for question in ("Hi", "Help", "Hey"):
            engine.submit(asked(question), 4)
        for _ in range(steps):
            engine.step()
    return film


film_of(steps=2, slots=36).at(-1)

# %% [markdown]
"""
## The problem

The manager of chapter 07 keeps perfect track of keys and values that nobody has computed. A language model computes them; the kind that engines serve is called a *decoder*. Ours is small. Its tokens are bytes, and it was trained on the words of this course.

Here is the simplest way to ask it something. For each new token, put everything through the model again. A `Chunk` says what to compute: which tokens, how many come before them, and in which slots they all lie. The model answers with *logits*, a number for each token that may come next, and we take the largest. (Choosing the next token is called *sampling*.)
"""


# %%
def generate(model, prompt, new, keep):
    """Returns what the model says, and how many tokens it had to compute."""
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
print(f"{sum(weight.numel() for weight in model.weights.values()):,} parameters")
print(f"the answer begins: {tokenizer.decode(answer)!r}")
print(f"{computed:,} tokens computed, for {len(prompt)} of prompt and 32 of answer")

# %% [markdown]
"""
Reading the prompt is prefill. Writing the answer, one token at a time, is called **decode**. Both look back at keys and values that never change, and yet this loop computes them all again for every token.

## Build it

### Step 1: attention through slots

In each layer, every token makes three small vectors for each *head*: a query, a key and a value. Attention mixes the values of all the tokens up to this one. How much it takes of each depends on how well its query fits that token's key:

1. A *score* for each token that it may see: query · key, divided by the square root of the head's size.
2. *Shares*: the softmax of the scores, so they are positive and add up to 1.
3. The result: each value times its share, added up.

Keys and values can be cached, because they never change once they are computed. So only the *new* tokens of a step have queries. If a sequence has five tokens and the last two are new, this is what they see:

```
                     token   0   1   2   3   4
new, at position 3           x   x   x   x   .
new, at position 4           x   x   x   x   x
```

A dot means hidden: no token looks at those that come after it.

#### 8.1 You write: `attention`

You get the queries of the new tokens and the keys and values of *all* tokens of the sequence, in order. The new tokens are the last ones. Return what each new token gets, as a tensor with the shape of `q`. Each head attends by itself.
"""


# %%
def attention(q, keys, values):
    """What the last `len(q)` tokens of a sequence attend to, each up to itself.

    `q` is (new tokens, heads, dim), `keys` and `values` are (all tokens, heads, dim).
    """
    raise NotImplementedError  # delete this line; about 6 lines to write


attention = check("8.1 attention", attention)

# %% [markdown]
"""
Where do `keys` and `values` come from? In each layer, the new ones are written to the slots of the new tokens. Then `read` collects those of the whole sequence from its slots, no matter which request computed them.
"""

# %%
source(SlotAttention)

# %% [markdown]
"""
What if a row of slots is wrong? Four tokens lie in slots 0, 1, 9 and 5, and the last two of them are new. We read through the right row, one with the first two slots swapped, and one with slot 7, which nobody ever wrote to.
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

The wrong order goes unnoticed, because a sum has no order! The wrong slot is worse: another result, and no error.

</details>

A key says more than which token it belongs to. Before storing a key, our model rotates it by an angle that grows with its position (this is called RoPE), so the position is *in the key*. And from the second layer on, a key depends on everything that its token has seen. So a stored key is good for one position after one prefix, which is what a tree of prefixes promises.

### Step 2: prefill and decode are the same thing

A chunk may be a whole prompt, the rest after a cached prefix, or a single new token: only `start` differs. With `keep=True`, the loop above begins each chunk where the one before ended, and finds what came earlier in the store. `own` is the same model with your attention.
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

One fewer than the sum, because the last token is sampled and never computed.

</details>

### Step 3: many at once

A step of the model reads nearly all its weights, whether it computes one token or fifty. So an engine puts everybody's chunks into one step. Engines used to run one batch at a time, until its slowest request was done. In **continuous batching** a finished request leaves after any step, and the next one takes its place.

But a step must not take too long. If three requests decode and somebody sends a prompt of 500 tokens, one long step keeps three people waiting for their next word. So a step has a *budget* of tokens, and a long prompt is read in pieces, one after the other. That is **chunked prefill**. The long prompt pays with its **time to first token**, which we count in steps.

How to share out the budget is a decision with large consequences. In July 2026 the operators of a chat service looked at their SGLang server. In fifteen busy minutes it ran 2,863 steps of prefill and fewer than forty of decode, so more than 250 people got a word every 24 seconds: {{engines sglang-32549}}. Nothing was broken. The rule is "{{engines sglang-first}}", and after each chunk came the next. Of the four engines of this course, only vLLM takes "{{engines vllm-first}}" by default.

You do as vLLM does: **decoding requests first, and then prompts.**

#### 8.2 You write: `schedule`

`left[i]` is how many tokens request `i` has left to compute; a request with exactly one left decodes. For each request, return how many of them the next step computes. Decoding requests come first, then the others, in the order of the list. Each gets as much as it can use, until the budget is spent.
"""


# %%
def schedule(left, budget):
    """How many of the `left` tokens of each request the next step computes."""
    raise NotImplementedError  # delete this line; about 7 lines to write


schedule = check("8.2 schedule", schedule)

# %% [markdown]
"""
Three requests decode, one has a prompt of 500 tokens, and the budget of a step is 64.
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
### Step 4: when there is no room

A request that decodes needs a slot for each token that it says. If none is free, and nothing can be evicted, one request has to give way. It is the *youngest*, so the oldest always makes progress, and in the end all finish. It gives back its slots and waits again, at the *front* of the line. This is **preemption**. Later it computes again what it had, except what the cache still holds by then. That is why its sequence ends with `finish`, which publishes, and not with `abort`.

#### 8.3 You write: `preempt`

`scheduler.running` and `scheduler.waiting` are lists of requests in the order in which they came. `scheduler.manager` is your manager, and `request.sequence` is the request's sequence in it, or `None` while the request waits. End the sequence of the youngest running request, move the request to the front of `waiting`, and return it.
"""


# %%
def preempt(scheduler):
    """Let the youngest running request wait again, at the front; return it."""
    raise NotImplementedError  # delete this line; about 5 lines to write


preempt = check("8.3 preempt", preempt)

# %% [markdown]
"""
Three requests come with prompts of 4 tokens that share nothing, and each of them says 12 tokens. `CanaryModel` takes the place of the model: in place of keys and values it computes fingerprints, and it raises an error when the slots of a row do not hold one prefix.
"""

# %%
guess("8.d", "how many slots do they need so that none is preempted?", None)


# %%
def served(slots):
    manager = CacheManager(slots)
    engine = Engine(CanaryModel(257), manager, Scheduler(manager))
    return engine.generate([[name] * 4 for name in (1, 2, 3)], 12)


# %%
turns = {slots: served(slots) for slots in (60, 46, 45, 44, 36, 24, 15)}
went = {slots: sum(turn.preemptions for turn in turns[slots]) for slots in turns}
work = {slots: sum(turn.computed for turn in turns[slots]) for slots in turns}
answers = [[turn.tokens for turn in turns[slots]] for slots in turns]
same = all(each == answers[0] for each in answers)
words = f"by slots, preempted {went},\ncomputed {work}; the same answers: {same}"
fold("8.d", min(slots for slots in went if not went[slots]), words)

# %% [markdown]
"""
<details><summary>Why</summary>

15 for each request: 4 for its prompt and 11 for its answer, because the last token needs no slot.

</details>

However few the slots, every answer is the same. Preemption costs work: some tokens are computed twice.

## The same in `minikv`

`Engine` is the loop around your pieces: schedule, compute, sample, update. The `Scheduler` around your `schedule` and `preempt` comes from the package, and also decides which waiting request comes in.
"""

# %%
source(Scheduler, Engine.step)

# %% [markdown]
"""
On a hundred random workloads, some short of room, your engine and the package's give every request the same tokens.
"""

# %%
import random

YOURS, PACKAGES = (CacheManager, Scheduler), (minikv.CacheManager, minikv.Scheduler)


def said_by(kinds, prompts, new, slots):
    manager = kinds[0](slots)
    engine = Engine(CanaryModel(9), manager, kinds[1](manager, 16, 4))
    return [
        (turn.tokens, turn.preemptions > 0) for turn in engine.generate(prompts, new)
    ]


# %%
chance, preempted = random.Random(8), 0
for _ in range(100):
    prompts = [chance.choices(range(3), k=chance.randint(1, 12)) for _ in range(5)]
    new, slots = chance.randint(1, 6), chance.randint(17, 40)
    yours, theirs = (said_by(kinds, prompts, new, slots) for kinds in (YOURS, PACKAGES))
    assert [tokens for tokens, _ in yours] == [tokens for tokens, _ in theirs]
    preempted += sum(went for _, went in yours)
print(f"the same in 100 workloads; {preempted} requests were preempted on the way")

# %% [markdown]
"""
### The chat, on your engine

Each turn of a chat sends the assistant's instructions and everything that was said so far, so its prompt begins with all of the turn before.
"""


# %%
def engine_of(model, kinds, **cache):
    store = KVStore(model.shape, 128, 16, dtype=model.dtype)
    manager = kinds[0](128, 16, store=store, **cache)
    return Engine(model, manager, kinds[1](manager, token_budget=128))


# %%
from minikv.measure.chatting import INSTRUCTIONS

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
Put your own question between the quotes. A model this small repeats what it was taught, and answers anything else at random. So a `Phrasebook` looks first for the taught question that yours means.
"""

# %%
from minikv.serving.phrasebook import UNKNOWN, Phrasebook

question = "So what are slots?"
meant = Phrasebook.read(asset("model/corpus.json")).nearest(question)
if meant is None:
    print(UNKNOWN)
else:
    (turn,) = engine_of(own, YOURS).generate([asked(meant)], 140)
    print(f"({meant}) {tokenizer.decode(turn.tokens).strip()}")

# %% [markdown]
"""
Now the question of this chapter. We run the same chat on an engine with `NoCache`, a cache that never finds anything.
"""

# %%
guess("8.e", "does any token of the answers change, 'yes' or 'no'?", None)

# %%
without = talk(engine_of(own, PACKAGES, prefix_cache=minikv.NoCache(16)))
changed = [turn.tokens for turn in cached] != [turn.tokens for turn in without]
# computed: the prompt, and all but the last token of the answer; take those off
sides = (without, cached)
work = [[turn.computed - turn.generated + 1 for turn in side] for side in sides]
saved = 1 - sum(work[1]) / sum(work[0])
words = f"{sum(work[1])} of {sum(work[0])} prompt tokens computed: {saved:.0%} saved"
fold("8.e", "yes" if changed else "no", words)

# %%
steps = [[turn.first_token_steps for turn in side] for side in sides]
lines = dict(zip(("no cache", "yours"), steps))
minikv.plot("time to first token", {"turn": range(1, 5)}, lines, "steps of 128 tokens")

# %% [markdown]
"""
Without the cache the wait grows with every turn. With it, the wait is one step from the second turn on. And how does your engine compare with the package's? The scoreboard runs the same chat on both.
"""

# %%
sides = {
    "your engine": engine_of(own, YOURS),
    "the package's": engine_of(model, PACKAGES),
}
minikv.scoreboard(sides, talk)

# %% [markdown]
"""
The package looks things up less often and compares fewer tokens, because its `checkpoint` continues where the last one ended. It visits fewer nodes, because it joins a node with its only child.

### Prefill first, and who starves

Let's rebuild the story of step 3. Three requests decode, and every eight steps somebody sends a prompt of 500 tokens.
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
    for step in range(32):
        if step % 8 == 4:
            engine.submit([step] * 500, 1)
        engine.step()
        said.append(sum(request.generated_tokens for request in three))
    return said


# %%
kinds = {"prefill first": PrefillFirst, "yours": Scheduler}
lines = {name: words_by_step(kind) for name, kind in kinds.items()}
title = "three requests decode while long prompts keep coming"
minikv.plot(title, {"step": range(1, 33)}, lines, "words said by the three")

# %% [markdown]
"""
With prefill first, one step in eight is left for the three, as long as prompts keep coming. With your schedule, each of them gets a word in every step. SGLang can now limit this with {{engines sglang-decode-interval}}, and in mini-sglang, decode first is {{engines mini-sglang-todo}}.

## Play

Below is the whole engine in a film, one frame a step. Your `schedule` shares out 12 tokens a step. Before each step, say how many cells of each bar it will compute. Begin with the engine's third step: r1 decodes, r2 has 9 tokens of its prompt left, and r3 may come in.
"""

# %%
guess("8.f", "how many tokens of r3 does that step compute?", None)

# %%
fold("8.f", 12 - sum(schedule([1, 9], 12)))

# %%
film = film_of(steps=8)
film.player()

# %% [markdown]
"""
Who computed the tokens that r3 gets from the cache? (`film.why(19)` tells the life of slot 19.) In which frame does r3 lose its slots again, and why r3?

<details><summary>Answers</summary>

Its first seven tokens, `User: H`, come from r1, and the eighth, `e`, from r2. In frame 8, r1 needs a slot. None is free, and everything in the cache is locked, so the youngest request is preempted.

</details>

## More to try

#### 8.4 Design: an order without starvation

The cache brings a new choice: which waiting request comes in first? If it is the one with the longest cached prefix, that prefix is used before it can be evicted. But then a request without a cached prefix may wait forever. On one SGLang server with this order, 5 % of the requests had 75 % of all the time to first token: {{engines sglang-31954}}. So `Scheduler` has a limit.

Only one request runs at a time, and the others wait in the order in which they came. `cached[i]` tokens of request `i` are in the cache. The longest cached prefix goes first, and ties go to the earlier request; but a request may be overtaken at most `max_overtakes` times by requests that came later. Write `let_in(cached, max_overtakes)`: the order in which they are let in, as indices.
"""


# %%
def let_in(cached, max_overtakes):
    raise NotImplementedError  # delete this line; about 10 lines to write


check("8.4 let_in", let_in)

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
        due = [i for i in waiting if overtaken[i] >= max_overtakes]
        chosen = due[0] if due else max(waiting, key=lambda i: cached[i])
        waiting.remove(chosen)
        order.append(chosen)
        for i in waiting:
            overtaken[i] += i < chosen
    return order
```

`max` takes the first of several equal ones.

</details>

#### 8.5 Bug hunt: the wrong end of the line

Here is an engine without a cache, in numbers: a request is a pair, the tokens of its prompt and of its answer. `careless_finished` lets a preempted request wait at the *end* of the line. Find a number of slots and requests that finish in another order.
"""

# %%
from minikv.course.pieces import careless
from minikv.course.pieces.ch08 import finished, serving

source(serving, finished, careless("8.5"))


# %%
def a_call_it_gets_wrong():
    raise NotImplementedError  # delete this line, and change the next
    return 9, [(2, 4), (2, 4)]


check("8.5 careless_finished", a_call_it_gets_wrong)

# %% [markdown]
"""
<details><summary>Hint</summary>

Two requests must run until one of them finds no slot, and a third must wait that can come in before the preempted one.

</details>

<details><summary>Solution</summary>

```python
def a_call_it_gets_wrong():
    return 6, [(2, 4), (2, 4), (2, 1)]
```

</details>

## What it cost

Not every answer comes sooner. A request that decodes shares its steps with the chunks of others; a preempted one is computed again, in part; and one with nothing in the cache may wait for those that have something.

### When a cache may change an answer

No token changed above. Is that a law? A model has two possible answers, `yes` and `no`, and each of four tokens has a value for both. The sum of the values, each times its share of attention, is 19/10 for both: on paper, a tie. Without a cache the four products are added in order. After a cached prefix, attention often adds up the cached part and the new part separately, and then adds the two sums.
"""

# %%
guess("8.g", "does the same answer win both times, 'yes' or 'no'?", None)

# %%
said = {"yes": [3, 1, 2, 2], "no": [3, 3, 2, 1]}  # the values of four tokens
cold, warm, lines = {}, {}, []
for word, (a, b, c, d) in said.items():
    a, b, c, d = 0.1 * a, 0.2 * b, 0.3 * c, 0.4 * d  # times the shares of attention
    cold[word] = ((a + b) + c) + d  # from the first token to the last
    warm[word] = (a + b) + (c + d)  # what was cached, and what is new, then both
for how, logits in (("without a cache", cold), ("after a cached prefix", warm)):
    largest = max(logits, key=logits.get)
    lines.append(f"{how}: yes {logits['yes']!r}, no {logits['no']!r} -> {largest}")
same = max(cold, key=cold.get) == max(warm, key=warm.get)
fold("8.g", "yes" if same else "no", "\n".join(lines))

# %% [markdown]
"""
<details><summary>Why</summary>

Each sum is rounded, and the rounding depends on the order. So after a cached prefix the other answer wins.

</details>

A cache may change a token when three things come together: the two likeliest tokens are tied to within rounding, the sums are done in another order, and sampling takes the larger one, however small the difference. In 32 or 64 bits that is rare. In bf16, the 16-bit numbers of most GPUs, those between 16 and 32 stand 0.125 apart, so two logits near 20 that differ by less than 0.06 often become the same number, or change places. Without any cache, another batch size changes the order of the sums too.

And the *model* must be the same. With new weights, or with an adapter, every slot holds the keys and values of another model. That is what namespaces are for (chapter 03).

## In real engines

{{engines 08}}

SGLang ({{engines sglang-overlap}}) and mini-sglang ({{engines mini-sglang-overlap}}) plan the next step while the GPU computes this one.

A step with ten tokens of one request takes little longer than with one. So an engine can *guess* tokens, and keep the right ones. With `drafts=PromptLookup()`, yours gives the same answers in fewer steps: see chapter 11.

## Recap

A model with slots computes a prompt, the rest of one, or a single token, all in the same way. The scheduler fills each step with the tokens of decoding requests and with pieces of prompts; when there is no room, the youngest request waits again. The cache changes how many tokens are computed and how soon the first one comes. It changes the answer only where two tokens are tied to within rounding.

**Check yourself**

1. Why may a slot of a cached prefix be read only after that same prefix?
2. What does chunked prefill cost a long prompt? Who gains, and in which engines do chunks alone help nobody?
3. From chapter 04: why is the prefix locked *before* the manager looks for room?
4. From chapter 07: a request publishes what it computed, and the tree had some of it already. What happens to its duplicate pages?

<details><summary>Answers</summary>

1. Its key and value depend on all tokens before it, and the key also on its position.
2. Its first token comes some steps later. Requests that decode gain if they get their tokens first. In an engine that runs prefill first, they wait for all the chunks.
3. Making room may evict, and without the lock it could evict the prefix that was just found.
4. The request's row points to the pages in the tree from then on, and the duplicates go back to the pool.

</details>

**Read on**: [Orca, continuous batching](https://www.usenix.org/conference/osdi22/presentation/yu) · [Sarathi-Serve, chunked prefill](https://arxiv.org/abs/2403.02310) · [nano-vllm](https://github.com/GeeeekExplorer/nano-vllm) · [mini-sglang](https://github.com/sgl-project/mini-sglang)
"""

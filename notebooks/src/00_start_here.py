# %% [markdown]
"""
# 00 · What does a prefix cache buy?

**After this chapter you will be able to** *explain* what a prefix cache keeps and why it may, *measure* what it saves on a chat, and *predict* which change to a prompt throws the saving away.

**Time** 35 minutes. **Needs** a little Python; no GPU, no network, no earlier chapter.
**New words** token, prefill, prefix, slot, hit rate. The glossary at the end of this chapter has them, and every other new word of the course.

First, is everything here? This cell lists what the course needs and cannot find. An empty list is what you want; for anything else, `minikv doctor` in a terminal says what to do.
"""

# %%
from minikv.doctor import examine

[finding.name for finding in examine("course") if finding.mark == "✗"]

# %% [markdown]
"""
## The problem

A language model reads numbers, not letters. Text is cut into pieces; a piece is a **token**, and each token has an id. In this chapter a token is one byte of text, which is crude but exact; chapter 08's model reads the same tokens.

Before the model can write its first word of an answer, it must read the whole prompt. That is called **prefill**. And a chat has an awkward shape: the model remembers nothing between turns, so every turn sends the *whole* conversation again, instructions and all. Here are two conversations with a library's help desk.
"""

# %%
import json

from minikv import asset

DESK = json.loads(asset("chats.json").read_text(encoding="utf-8"))
SYSTEM, (ANNA, BEN) = DESK["system"], DESK["chats"]


def tokenize(text):
    return list(text.encode())  # one token is one byte


for question, answer in ANNA + BEN:
    print(f"reader: {question}\ndesk:   {answer}")

# %% [markdown]
"""
The next cell writes the five prompts as an engine gets them: the instructions, everything said so far, and the new question. It keeps each answer too, because the engine has computed that as well by the time the turn is over.
"""


# %%
def turns(chat):
    """(prompt, prompt with its answer) for each turn of a chat, as text."""
    said = SYSTEM
    for question, answer in chat:
        prompt = f"{said}\nreader: {question}\ndesk:"
        said = f"{prompt} {answer}"
        yield prompt, said


requests = [(tokenize(prompt), tokenize(said)) for chat in (ANNA, BEN) for prompt, said in turns(chat)]
lengths = [len(prompt) for prompt, said in requests]
print("tokens in each prompt:", lengths)
print("prefill without a cache:", sum(lengths), "tokens")

# %% [markdown]
"""
Every one of these tokens costs the model the same work each time. But look at what they are: the instructions alone are in all five prompts.
"""

# %%
again = (len(requests) - 1) * len(tokenize(SYSTEM))
print(f"the instructions have {len(tokenize(SYSTEM))} tokens and are computed {len(requests)} times,")
print(
    f"so {again} of {sum(lengths)} tokens, {again / sum(lengths):.0%}, are nothing but the same instructions again"
)

# %% [markdown]
"""
## The picture

For each token it reads, a transformer computes a *key* and a *value* in every layer, and later tokens look back at them; together they are the KV of "KV cache". Because a token only looks back, never ahead, its key and value depend on the tokens **up to it** and on nothing after. Two prompts that start with the same tokens have the same keys and values there. The whole course rests on this, so here is a transformer's attention, small and with random weights, to try it on.
"""

# %%
import numpy as np


def keys_and_values(tokens, layers=2, size=8):
    chance, found = np.random.default_rng(0), []
    x = chance.normal(size=(10, size))[tokens]
    for _ in range(layers):
        q, k, v = (x @ chance.normal(size=(size, size)) for _ in range(3))
        found.append((k, v))
        scores = np.where(np.tri(len(x)) == 1, q @ k.T, -np.inf)  # a token looks back only
        weights = np.exp(scores - scores.max(axis=1, keepdims=True))
        x = x + (weights / weights.sum(axis=1, keepdims=True)) @ v
    return np.array(found)  # layer, key or value, token, number


# %%
whole, end, start = (keys_and_values(tokens) for tokens in ([1, 2, 3], [1, 2, 9], [9, 2, 3]))
print("another last token: the first two are the same:", np.allclose(whole[:, :, :2], end[:, :, :2]))
print("another first token: the last two are the same:", np.allclose(whole[:, :, 1:], start[:, :, 1:]))

# %% [markdown]
"""
So a common beginning can be kept, each token's keys and values in a place called a **slot**, and handed to the next prompt that starts the same way. A common ending cannot.

What must be remembered is which slots hold which **prefix** (the beginning of a prompt, of any length). The right shape for that is a tree. This is the tree that the package of this course builds from the first turn of each chat; it is drawn from the live object, and each box shows its text and its slots.
"""

# %%
from minikv import RadixCache, draw


def as_text(tokens):
    """What is written on a node: the text of its tokens, cut in the middle."""
    text = bytes(tokens).decode().replace("\n", "¶")
    return text if len(text) <= 40 else f"{text[:18]} … {text[-18:]}"


cache, used = RadixCache(), 0
for prompt, said in (requests[0], requests[3]):
    cached = cache.match_prefix(said).slots
    cache.insert(said, [*cached, *range(used, used + len(said) - len(cached))])
    used += len(said) - len(cached)
draw(cache, label=as_text)

# %% [markdown]
"""
Read it from the top. The instructions are there **once**, in the slots where the first chat's prefill put them, and both conversations hang below.

## Build it

The whole idea fits in a few lines if we do not care about speed. Three steps: compare, remember, count.

**Step 1: compare.** What two prompts share is where a loop stops. Everything from the first difference on is useless, even where the texts agree again later: those tokens were read after something else.
"""


# %%
def shared(a, b):
    length = 0
    for x, y in zip(a, b):
        if x != y:
            break
        length += 1
    return length


first, second = requests[0][0], requests[1][0]
lengths_of_two = f"{len(first)} and {len(second)}"
print(f"turns 1 and 2 of the same chat have {lengths_of_two} tokens and share {shared(first, second)}")

# %% [markdown]
"""
**Step 2: remember.** Keep every sequence that was ever computed, in a list. A new prompt takes the longest prefix it shares with any of them and computes the rest. One thing is easy to get wrong: even if the *whole* prompt is cached, its last token is computed again, because the engine needs what the model says after it, and only keys and values were kept.
"""


# %%
def serve(prompt, said, memory):
    """Tokens of `prompt` that must be computed; afterwards `memory` knows the whole turn."""
    cached = max((shared(prompt, earlier) for earlier in memory), default=0)
    memory.append(said)
    return len(prompt) - min(cached, len(prompt) - 1)


memory = []
print("the same prompt, three times:", [serve(first, first, memory) for _ in range(3)], "tokens computed")


# %% [markdown]
"""
**Predict first.** Anna asks three times, then Ben twice. In which of the five turns does the cache save nothing? And in Ben's *first* turn, which he begins as a stranger: nothing, a little, or most of it?

<details><summary>Answer</summary>

Only the very first turn saves nothing. Ben's first turn saves most of its prefill: he has never spoken, but the instructions have been read. That is why prefix caches pay even where users never come back.

</details>
"""

# %%
memory = []
computed = [serve(prompt, said, memory) for prompt, said in requests]
for name, length, rest in zip(["Anna 1", "Anna 2", "Anna 3", "Ben 1", "Ben 2"], lengths, computed):
    print(f"{name:7} {length:4} tokens, {rest:4} computed, {length - rest:4} from the cache")

# %% [markdown]
"""
**Step 3: count.** The share of prompt tokens that came from the cache is the **hit rate**. Every cache in this course is judged by it.
"""


# %%
def hit_rate(computed, lengths):
    return 1 - sum(computed) / sum(lengths)


print(
    f"computed {sum(computed)} tokens instead of {sum(lengths)}: hit rate {hit_rate(computed, lengths):.1%}"
)

# %% [markdown]
"""
**Predict first.** Somebody improves the help desk: the instructions now begin with the time, as in `It is 09:00.`, which is a different minute in every turn. Twelve bytes or so have changed in several hundred. What is the hit rate now: about the same, about half, or close to nothing?

<details><summary>Answer</summary>

Close to nothing. A prefix ends at the first difference, and the first difference is now in the eleventh byte or so. The other hundreds of tokens are the same text, but they were read after another time. Put what changes at the *end* of a prompt.

</details>
"""

# %%
stamped, memory = [], []
for minute, (prompt, said) in enumerate(requests):
    clock = tokenize(f"It is 09:{10 + 7 * minute}. ")
    stamped.append(serve(clock + prompt, clock + said, memory))
longer = [length + len(clock) for length in lengths]
print("computed:", stamped)
print(f"hit rate with the time in front: {hit_rate(stamped, longer):.1%}")

# %% [markdown]
"""
If that surprised you, remember it: it is the most expensive small mistake people make with a prefix cache.

## The same in `minikv`

Our list compares each prompt with everything ever said. `RadixCache` gives the same counts from a tree, and it says *where* the tokens are. `match_prefix` finds the longest cached prefix and its slots; `insert` adds what is new and keeps the slots that the tree had already.
"""

# %%
cache, used, from_tree = RadixCache(), 0, []
for prompt, said in requests:
    match = cache.match_prefix(prompt[:-1])  # all but the last token, which is computed anyway
    from_tree.append(len(prompt) - match.length)
    fresh = range(used, used + len(said) - match.length)
    cache.insert(said, [*match.slots, *fresh])
    used += len(fresh)
print(from_tree, "equal to ours:", from_tree == computed)

# %% [markdown]
"""
The same class serves published traces of real traffic: `minikv replay TRACE.jsonl` sends one through it. There, one id stands for a block of text. Here are our five turns as such a trace, with blocks of 64 tokens; only whole blocks can be shared, so fewer tokens are hits.
"""

# %%
from minikv.measure import TraceRequest, replay
from minikv.tokens import pack

ids, trace = {}, []
for prompt, said in requests:
    blocks = [tuple(prompt[: at + 64]) for at in range(0, len(prompt) - 63, 64)]
    numbers = pack([ids.setdefault(block, len(ids)) for block in blocks])
    trace.append(TraceRequest(timestamp=0, input_length=len(prompt), output_length=0, blocks=numbers))
result = replay(trace, RadixCache())
print(f"{result.hits} of {result.blocks} blocks were hits: {result.hit_rate:.1%}")

# %% [markdown]
"""
## Play

Step through the five turns and watch the tree grow: what a turn matched is marked *matched*, what it added is marked *new*. Try this: stop before step 4 and say how much Ben will find.
"""

# %%
from minikv import play

cache, used, steps = RadixCache(), 0, []
for name, (prompt, said) in zip(["Anna 1", "Anna 2", "Anna 3", "Ben 1", "Ben 2"], requests):
    match = cache.match_prefix(prompt[:-1])
    fresh = range(used, used + len(said) - match.length)
    inserted = cache.insert(said, [*match.slots, *fresh])
    used += len(fresh)
    picture = draw(cache, matched=match, new=inserted.handle.node, label=as_text)
    steps.append((f"{name}: {match.length} of {len(prompt)} tokens were cached", picture))
play(steps)

# %% [markdown]
"""
## Exercises

`check` runs your function on many cases and shows the smallest one that fails. It never stops the notebook, and nothing later depends on your answers.

**0.1 Fill in.** Step 1 compares two prompts. Write `shared_by_all(prompts)`: how many leading tokens do *all* of them share? That is how long the instructions of a service are, seen from outside.
"""

# %%
from minikv import check


def shared_by_all(prompts):
    raise NotImplementedError  # delete this line; about five lines to write


check("0.1 shared_by_all", shared_by_all)

# %% [markdown]
"""
<details><summary>Hint</summary>

Walk all prompts from the start, and stop at the first place where one differs or ends. No prompts share nothing.

</details>

<details><summary>Solution</summary>

```python
def shared_by_all(prompts):
    length = 0
    for column in zip(*prompts):
        if len(set(column)) > 1:
            break
        length += 1
    return length
```

</details>

**0.2 Design.** Write `tokens_computed(prompts, keep)`: the prompts are served in order by an engine that remembers only the last `keep` of them; return how many tokens of each it must compute. The last token of a prompt is always computed.
"""


# %%
def tokens_computed(prompts, keep):
    raise NotImplementedError  # delete this line; about six lines to write, with `shared` from step 1


check("0.2 tokens_computed", tokens_computed)

# %% [markdown]
"""
<details><summary>Hint</summary>

Of the last `keep` prompts, the one with the longest shared prefix helps most. Try `keep=0`, and a prompt that is cached whole.

</details>

<details><summary>Solution</summary>

```python
def tokens_computed(prompts, keep):
    counts = []
    for i, prompt in enumerate(prompts):
        kept = prompts[max(0, i - keep) : i]
        cached = max((shared(prompt, earlier) for earlier in kept), default=0)
        counts.append(len(prompt) - min(cached, len(prompt) - 1))
    return counts
```

</details>

**0.3 Bug hunt.** A colleague counts with the function below how many tokens an engine that forgets nothing would have saved. Find prompts on which it is wrong: return a tuple with one argument, the list of prompts, that it gets wrong.
"""

# %%
import inspect

from minikv.course.exercises.ch00 import careless_saved

print(inspect.getsource(careless_saved))


def prompts_it_gets_wrong():
    raise NotImplementedError  # delete this line; return ([[...], [...], ...],)


check("0.3 saved", prompts_it_gets_wrong)

# %% [markdown]
"""
<details><summary>Hint</summary>

It looks at one earlier prompt only. Two users who take turns are enough.

</details>

<details><summary>Solution</summary>

```python
def prompts_it_gets_wrong():
    return ([[1, 2], [7], [1, 2, 3]],)
```

</details>

Your marks so far, over the whole course (this cell alone shows your own record, so it is not compared by the tests):
"""

# %% tags=["nbval-ignore-output"]
from minikv import progress

progress()

# %% [markdown]
"""
## What it cost

Nothing is free. The five turns are over, and nobody is being served, yet the cache still holds every token that was ever computed. (A real tokenizer would cut the same text into fewer, longer tokens.)
"""

# %%
from minikv import KVShape, bytes_per_token

each = bytes_per_token(KVShape.from_config("llama-3.1-8b"))  # chapter 01 computes this
print(f"cached: {cache.total_size} tokens; in Llama 3.1 8B each takes {each:,} bytes of keys and values,")
print(f"so {cache.total_size * each / 2**20:.0f} MiB of GPU memory for five short turns")

# %% [markdown]
"""
So memory fills, and three dangers appear that a simple engine never faces. A slot may be handed out **twice** (chapter 02). A slot may be thrown out **while somebody reads it** (chapter 04). And the *wrong* thing may be thrown out (chapter 05). Most of this course is about preventing those three, and about noticing at once when they happen.

## In real engines

{{engines 00}}

These tables name what we read in SGLang 0.5, vLLM 0.33, and mini-sglang and nano-vllm of 2026; names move. They add what this chapter leaves out: caches that reach to host memory and disk, routing a request to the machine that has its prefix, and keeping tenants from finding each other's prompts by timing the hits.

## The map

| chapter | question |
|---|---|
| 00 start here | What does a prefix cache buy? |
| 01 page sizing | How many tokens fit in this GPU? |
| 02 slot pools | Who owns which slot? |
| 03 radix splitting | How do prompts share a prefix? |
| 04 locking | What must not be evicted now? |
| 05 LRU eviction | What goes first? |
| 06 GPU KV copying | How do the bytes move? |
| 07 cache manager | What happens in the life of a request? |
| 08 serving engine | Does the cache change a single answer? |
| 09 to 12 (to come) | the four other designs that people meet in the wild |
| 13 policies and traces | Which policy wins on real traffic? |
| 16 (to come) | a museum of real bugs |

## Glossary

| word | meaning | chapter |
|---|---|---|
| token | the unit a model reads: a number that stands for a piece of text | 00 |
| prefill | reading the prompt: computing keys and values of all its tokens | 00 |
| prefix | the first tokens of a sequence, any number of them | 00 |
| slot | the place where one token's keys and values lie | 00 |
| hit rate | the share of prompt tokens that came from the cache | 00 |
| KV cache | the keys and values that an engine keeps, and the memory they are in | 00 |
| KV head | one of the sets of keys and values that a layer keeps for a token | 01 |
| rank | one GPU of a group that shares a model | 01 |
| GQA | grouped-query attention: several query heads share one KV head | 01 |
| MLA | latent attention: one small vector a token in place of keys and values | 01 |
| page | a fixed number of neighbouring slots, handed out together | 01 |
| page table | for each request the slots of its tokens, in order | 01 |
| pool | the part of an engine that tracks which pages are free | 02 |
| free list | a pool as a stack of free pages | 02 |
| double free | giving back a page that is free already | 02 |
| version | a count of how often a page was handed out | 02 |
| owner | the one that may write to a page and give it back; there may be many readers | 02 |
| evict | throw something out of the cache to make room | 02 |
| trie | a tree with one token on each edge | 03 |
| radix tree | a tree with a run of tokens on each edge | 03 |
| edge, node | an edge is a run of tokens, a node the place where it ends; pictures show both as one box | 03 |
| split | cutting an edge in two where two prompts part | 03 |
| page alignment | storing and matching whole pages only | 03 |
| namespace | a label that keeps equal prompts apart | 03 |
| lock | a request's claim on a prefix: nothing on the path to it may be evicted | 04 |
| handle | a place in the tree, the end of a prefix: what is locked and unlocked | 04 |
| reference count | how many locks pass through a node | 04 |
| evictable | under no lock: could be thrown out to make room | 04 |
| protected | under a lock | 04 |
| canary | a watcher that knows what was computed into each slot | 04 |
| ledger | a watcher that knows who owns each slot | 04 |
| victim | what an eviction takes next | 05 |
| LRU | least recently used: what was used longest ago goes first | 05 |
| logical clock | a counter that goes up by one with each use, in place of the time | 05 |
| ring | all that may be evicted, in the order of its last use; anything can move to the young end at once | 05 |
| layout | the order in which layers, slots, keys and values stand in memory | 06 |
| gather | reading rows from many places into one tensor | 06 |
| scatter | writing the rows of one tensor to many places | 06 |
| pinned memory | host memory that the system does not move, so that a GPU can copy from and to it by itself | 06 |
| cache manager | the part that drives pool, tree and page table through the life of a request | 07 |
| publish | put what is computed into the tree, for others to find | 07 |
| duplicate | a slot whose content was computed twice, and which the tree does not need | 07 |
| tail | the end of a request: a page that is not full, or tokens that are not computed | 07 |
| abort | the end of a request without publishing anything | 07 |
| checkpoint | publishing while the request runs on, and reading from the tree from then on | 07 |
| interleaving | one of the orders in which the steps of several requests can be mixed | 07 |
| decode | writing an answer: one token of a sequence at a time | 08 |
| time to first token | how long a request waits for the beginning of its answer, here in steps of the engine | 08 |
| continuous batching | after any step a finished request leaves the batch and a waiting one joins it | 08 |
| chunked prefill | reading a long prompt in pieces, beside the decoding of others | 08 |
| preemption | a running request gives up its slots and waits again | 08 |
| policy | a rule that says which leaf is evicted first | 13 |
| LFU | least frequently used: what was used least often goes first | 13 |
| FIFO | first in, first out: what was cached first goes first, however much it is used | 13 |
| trace | a record of requests, in the order in which they came | 13 |

## Recap

Keys and values depend on the tokens up to them and on nothing later, so prompts that begin alike can share them. A prefix cache remembers which slots hold which prefix, and the share of tokens that it serves is the hit rate. One changed token near the beginning of a prompt makes all that follows it new.

**Check yourself**

1. Why may two prompts share the keys and values of a common *prefix*, but not of a common *ending*?
2. Why does a prompt that is cached whole still cost one token?
3. Ben has never spoken before. Why does his first turn hit the cache?
4. Where in a prompt would you put the user's name, and why there?

<details><summary>Answers</summary>

1. A token's keys and values depend on all tokens before it. What comes before a common ending differs.
2. The cache has the keys and values, not the model's output after the last token, and that output is the answer.
3. The instructions are the same for everybody, and Anna's turn computed them.
4. As late as possible: everything after it is shared by nobody else.

</details>

**Read on**: [RadixAttention, the paper](https://arxiv.org/abs/2312.07104) · [PagedAttention, the paper](https://arxiv.org/abs/2309.06180) · [Mooncake, whose traces we replay](https://arxiv.org/abs/2407.00079)
"""

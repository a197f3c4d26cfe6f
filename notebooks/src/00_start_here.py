# %% [markdown]
"""
# 00 · What does a prefix cache buy?

In this notebook a small language model answers you three times. Then you take its cache away, and then you put a clock into its prompt. By the end of the chapter you will know what a clock does to a cache, and why.

**After this chapter you will be able to** *explain* what a prefix cache keeps and why that is allowed, *measure* what it saves on a chat, and *predict* which change to a prompt throws the saving away.

{{time}} **Needs** a little Python; no GPU, no network, no earlier chapter. **New words** token, prefill, prefix, slot, hit rate. All words of the course are in the [glossary](map_and_glossary.ipynb).

The model has 1.8 million parameters and was trained on the words of this course. It speaks about KV caches and about nothing else.
"""

# %%
from minikv.course.live_chat import live_chat

with_cache = live_chat()
with_cache

# %% [markdown]
"""
What a model is given to read is its *prompt*. A language model reads numbers, not letters, so text is cut into pieces; a piece is a **token**, and each token has an id. For this model a token is one byte of text, which is crude but exact. Before the model can write the first word of an answer, it has to read the whole prompt. That is called **prefill**, and the last line of each turn says what it took: how many tokens were in the prompt, and how many of them had to be computed.

## The problem

A model remembers nothing between two turns. Every turn sends the *whole* conversation again, instructions and all. Without a cache, each of those tokens is computed each time.
"""

# %%
without = live_chat(cache=False)
for name, chat in (("without a cache", without), ("with one", with_cache)):
    counts = [turn.computed for turn in chat.turns]
    print(f"{name:15} tokens computed in each turn: {counts}, {chat.computed} in all")
answers = [[turn.answer for turn in chat.turns] for chat in (without, with_cache)]
print("the same answers:", answers[0] == answers[1])

# %% [markdown]
"""
The answers are the same, letter for letter. With the cache, every turn after the first computes little more than its own question: everything before the question was read in an earlier turn.

Now somebody improves the assistant: it should know what time it is. The instructions begin with `It is 09:10.`, and seven minutes later with `It is 09:17.` One character in more than two hundred has changed.
"""

# %%
# put your answer, in quotes, in place of None, then run the next cell
guess(
    "0.a",
    'does the second turn compute "a few", "half" or "nearly all" of its tokens?',
    None,
)

# %%
broken = live_chat(clock=True)
second, lines = broken.turns[1], []
for number, turn in enumerate(broken.turns, start=1):
    lines.append(f"turn {number}: {turn.computed} of {turn.prompt} tokens computed")
share = second.computed / second.prompt
fold("0.a", "nearly all" if share > 0.9 else f"{share:.0%}", *lines)

# %% [markdown]
"""
<details><summary>Why</summary>

The cache is on, and it saves next to nothing: only the first nine or ten bytes of a prompt, up to the digit that changes. Few small mistakes cost as much as this one.

</details>

Most of the text behind that digit is the same. To see why it is computed again, build the smallest cache that works.

## Build it

### Step 1: what may be shared

For each token that it reads, a transformer computes a *key* and a *value* in every layer, and later tokens look back at them. Together they are the KV of "KV cache". A token looks back, and never ahead. So its key and value depend on the tokens **up to it**, and on nothing after it. Here is a transformer's attention, small and with random weights, to try this out.
"""

# %%
import numpy as np


def keys_and_values(tokens, layers=2, size=8):
    chance, found = np.random.default_rng(0), []
    x = chance.normal(size=(10, size))[tokens]
    for _ in range(layers):
        q, k, v = (x @ chance.normal(size=(size, size)) for _ in range(3))
        found.append((k, v))
        scores = np.where(np.tri(len(x)) == 1, q @ k.T, -np.inf)  # only look back
        weights = np.exp(scores - scores.max(axis=1, keepdims=True))
        x = x + (weights / weights.sum(axis=1, keepdims=True)) @ v
    return np.array(found)  # layer, key or value, token, number


# %% [markdown]
"""
Take the tokens `1 2 3`. Change the last one, and then change the first one instead.
"""

# %%
guess(
    "0.b",
    "how many of the three keep all their keys and values if the *first* changes?",
    None,
)

# %%
same = []
for other in ([1, 2, 9], [9, 2, 3]):
    a, b = keys_and_values([1, 2, 3]), keys_and_values(other)
    equal = [bool(np.allclose(a[:, :, i], b[:, :, i])) for i in range(3)]
    same.append(f"1 2 3 and {' '.join(map(str, other))}: equal keys and values {equal}")
fold("0.b", equal.count(True), *same)

# %% [markdown]
"""
<details><summary>Why</summary>

Two prompts that *begin* with the same tokens have the same keys and values there. A common ending is worth nothing, because it was read after something else. The whole course rests on this.

</details>

So keep the keys and values of each token in a place called a **slot**, and hand them to the next prompt that begins the same way. The beginning of a prompt, of any length, is a **prefix**.

### Step 2: compare and remember

Two prompts share everything up to their first difference. A cache that forgets nothing keeps every sequence that was ever computed. A new prompt takes the longest prefix that it shares with any of them.

The program that runs a model for its users is called an *engine*. Two details of its work are easy to get wrong. Even if the *whole* prompt is cached, the engine computes its last token again: it needs the model's output at the last position, and the cache stores only keys and values. And of an answer, it keeps all tokens but the last: it samples that one and never computes its key and value.
"""


# %%
def shared(a, b):
    length = 0
    while length < min(len(a), len(b)) and a[length] == b[length]:
        length += 1
    return length


def serve(prompt, answer, memory):
    """Tokens of `prompt` to compute; afterwards `memory` knows the turn."""
    cached = max((shared(prompt, earlier) for earlier in memory), default=0)
    memory.append((prompt + answer)[:-1])
    return len(prompt) - min(cached, len(prompt) - 1)


# %% [markdown]
"""
Two readers talk to the help desk of a library. Anna asks three times, then Ben twice. Each turn sends the instructions, everything that was said so far, and the new question.
"""

# %%
import json

from minikv import asset

DESK = json.loads(asset("chats.json").read_text("utf-8"))


def turns(chat):
    """The prompt and the answer of each turn, as tokens."""
    said = DESK["system"]
    for question, answer in chat:
        said += f"\nreader: {question}\ndesk:"
        yield list(said.encode()), list(f" {answer}".encode())
        said += f" {answer}"


# %%
requests = [request for chat in DESK["chats"] for request in turns(chat)]
NAMES = "Anna 1", "Anna 2", "Anna 3", "Ben 1", "Ben 2"
for name, (prompt, answer) in zip(NAMES, requests):
    print(f"{name}: {len(prompt)} tokens in the prompt, {len(answer)} in the answer")

# %% [markdown]
"""
Ben has never spoken to the desk before.
"""

# %%
guess(
    "0.c", 'does Ben\'s *first* turn compute "all", "half" or "less than half"?', None
)

# %%
memory = []
computed = [serve(prompt, answer, memory) for prompt, answer in requests]
lengths = [len(prompt) for prompt, _ in requests]
rows = []
for name, n, length in zip(NAMES, computed, lengths):
    bar = "■" * round(n / 16) + "□" * round((length - n) / 16)
    rows.append(f"{name:6} {n:3} of {length} computed  {bar}")
share = "less than half" if computed[3] < lengths[3] / 2 else "half or more"
fold("0.c", share, *rows, "■ computed   □ from the cache")

# %% [markdown]
"""
<details><summary>Why</summary>

Ben's first turn is cheap because the *instructions* have been read, in Anna's first turn. That is why prefix caches pay off even where users never come back.

</details>

### Step 3: count

The share of prompt tokens that came from the cache is the **hit rate**. Every cache in this course is judged by it.
"""


# %%
def hit_rate(computed, lengths):
    return 1 - sum(computed) / sum(lengths)


print(f"hit rate: {hit_rate(computed, lengths):.1%}")
for place in ("in front", "at the end"):
    stamped, memory = [], []
    for minute, (prompt, answer) in enumerate(requests):
        clock = list(f" It is 09:{10 + 7 * minute}.".encode())
        prompt = clock + prompt if place == "in front" else prompt + clock
        stamped.append(serve(prompt, answer, memory))
    longer = [length + len(clock) for length in lengths]
    print(f"with the time {place}: {hit_rate(stamped, longer):.1%}")

# %% [markdown]
"""
There is the clock again. A prefix ends at the first difference, and with the time in front the first difference comes after a dozen bytes. The hundreds of tokens behind it are the same text, but they were read after a different time. So put what changes at the *end* of a prompt. Even there it costs a little: the next turn repeats the last answer without the time in front of it, so that answer is computed again.

## The same in `minikv`

Our list compares each prompt with everything that was ever said. The package keeps a tree instead, and gives the same counts. `match_prefix` finds the longest cached prefix and the slots where it lies. `insert` adds what is new, and keeps the slots that the tree has already.
"""

# %%
from minikv import RadixCache

cache, used, from_tree = RadixCache(), 0, []
for prompt, answer in requests:
    match = cache.match_prefix(prompt[:-1])
    from_tree.append(len(prompt) - match.length)
    said = (prompt + answer)[:-1]
    fresh = range(used, used + len(said) - match.length)
    cache.insert(said, [*match.slots, *fresh])
    used += len(fresh)
print(from_tree, "equal to ours:", from_tree == computed)

# %% [markdown]
"""
This is the tree, drawn from the live object. Read it from the top. The instructions are there **once**, in the slots where Anna's first turn put them, and both conversations hang below.
"""

# %%
from minikv import draw


def as_text(tokens):
    """What is written on a node: how its text ends, since prompts part at the end."""
    text = bytes(tokens).decode().replace("\n", "¶")
    return text if len(text) <= 40 else f"… {text[-38:]}"


draw(cache, label=as_text)

# %% [markdown]
"""
## Play

Two prompts are in the cache below, and each character is a token, a space too. Type a prompt that finds exactly eight of them; the playground says when you have done it. Then insert prompts of your own.

The model answers other questions, too: `live_chat(questions=["What is a page?", "Who owns a slot?"])`.
"""

# %%
from minikv import playground

playground(goal="make a prompt hit 8 tokens")

# %% [markdown]
"""
## More to try

`check` runs your function on many cases and shows the smallest one that fails. It never stops the notebook.

#### 0.1 How long are the instructions?

Write `shared_by_all(prompts)`: how many leading tokens do *all* of them share? That is how long the instructions of a service are, seen from outside.
"""


# %%
def shared_by_all(prompts):
    raise NotImplementedError  # delete this line; about 5 lines to write


check("0.1 shared_by_all", shared_by_all)

# %% [markdown]
"""
<details><summary>Hint</summary>

Walk all prompts from the start, and stop at the first place where one differs or ends. If the list is empty, nothing is shared: return 0.

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

#### 0.2 A small memory

Write `tokens_computed(prompts, keep)`: the prompts are served in order by an engine that remembers only the last `keep` of them. Return how many tokens of each it must compute. The last token of a prompt is always computed.
"""


# %%
def tokens_computed(prompts, keep):
    raise NotImplementedError  # delete this line; about 6 lines to write


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

#### 0.3 Bug hunt: how much was saved?

A colleague counts with the function below how many tokens an engine that forgets nothing would have saved. `shared_prefix` is our `shared`, and `pairwise` gives each prompt with the next one. Find prompts on which the function is wrong: return a tuple with one argument, the list of prompts.
"""

# %%
from minikv.course.pieces import careless

careless("0.3")


# %%
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

`progress()` shows what you have solved, over the whole course, and `mine()` shows which parts of the engine are yours.

## What it cost

Nothing is free. The five turns are over and nobody is being served, yet the cache still holds every token that was computed. (A real tokenizer would cut the same text into fewer, longer tokens.)
"""

# %%
from minikv import KVShape, bytes_per_token

each = bytes_per_token(KVShape.from_config("llama-3.1-8b"))  # chapter 01 computes this
print(f"cached: {cache.total_size} tokens, in Llama 3.1 8B of {each:,} bytes each:")
print(f"{cache.total_size * each / 2**20:.0f} MiB of GPU memory for five short turns")

# %% [markdown]
"""
So memory fills, and three dangers appear. A slot may be handed out **twice** (chapter 02). A slot may be thrown out **while somebody reads it** (chapter 04). And the *wrong* thing may be thrown out (chapter 05). Most of this course is about preventing those three, and about noticing at once when they happen.

You will write the parts that prevent them. From chapter 01 on, each chapter has a few functions for you. They go into a file of your own, `my_minikv.py`, and in chapter 08 the model that you have just met answers through them.

## In real engines

{{engines 00}}

Each cell links to a line of SGLang 0.5.23, vLLM 0.33.0, or a commit of mini-sglang (March 2026) or nano-vllm (April 2026). The engines add what this chapter leaves out: caches that reach to host memory and disk, routing a request to the machine that has its prefix, and keeping tenants from finding each other's prompts by timing the hits. The chapters that follow are listed on the [map](map_and_glossary.ipynb).

## Recap

Keys and values depend on the tokens up to them and on nothing later, so prompts that begin alike can share them. A prefix cache remembers which slots hold which prefix, and the share of tokens that it serves is the hit rate. If one token near the beginning of a prompt changes, everything behind it is computed again.

**Check yourself**

1. Why may two prompts share the keys and values of a common *prefix*, but not of a common *ending*?
2. Why does a prompt that is cached whole still cost one token?
3. Ben has never spoken before. Why does his first turn hit the cache?
4. Where in a prompt would you put the user's name, and why there?

<details><summary>Answers</summary>

1. A token's keys and values depend on all tokens before it. What comes before a common ending differs.
2. The cache has the keys and values, not the model's output at the last token. The answer begins with that output.
3. The instructions are the same for everybody, and Anna's turn computed them.
4. As late as possible: nobody else shares what comes after it.

</details>

**Read on**: [RadixAttention, the paper](https://arxiv.org/abs/2312.07104) · [PagedAttention, the paper](https://arxiv.org/abs/2309.06180) · [Mooncake, whose traces we replay](https://arxiv.org/abs/2407.00079)
"""

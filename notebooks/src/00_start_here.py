# %% [markdown]
"""
# 00 · What does a prefix cache buy?

In this notebook a small language model answers three questions, and you count the tokens that its cache saves. Then you tell the model the time, and explain what that changes.

**After this chapter you will be able to** *explain* what a prefix cache keeps and why reusing it is safe, *measure* how much it saves in a chat, and *predict* how a change to the prompt affects the savings.

{{time}} **Needs** a little Python, but no GPU, no network and no earlier chapter. **New words** token, prefill, prefix, slot, hit rate. The [glossary](map_and_glossary.ipynb) lists the words of the course.

The model was trained on this course's text, so it can talk about KV caches and nothing else. Run the cells from top to bottom with Shift+Enter; the first answers take a few seconds.
"""

# %%
from minikv.course.live_chat import live_chat

with_cache = live_chat()
with_cache

# %% [markdown]
"""
The text you give a model is its *prompt*. A language model reads numbers, not letters, so the text is cut into pieces. Each piece is called a **token** and has a number. For this model, every byte is a token, which is crude but makes counting easy.

Before the model can write the first word of its answer, it has to read the whole prompt. This is called **prefill**. Meanwhile the user waits (this is the *time to first token*), and the busy GPU costs money. A *cache* keeps the results of earlier work, and each token found there saves time and money. So we count tokens: the last line of each turn says how many the prompt had, and how many of them were not in the cache and had to be *computed*.

## The problem

A model remembers nothing from one turn to the next, so every turn sends the *whole* conversation again, beginning with the instructions to the model. Without a cache, the model computes all of it again.
"""

# %%
from minikv.course.pictures.cells import strips


def strip(name, chat, count):
    regions, total = [], 0
    for turn in chat.turns[:count]:
        cached = turn.prompt - turn.computed
        regions.append(("", cached, "matched", str(cached)))
        regions.append(("", turn.computed, "computed", str(turn.computed)))
        total += turn.computed
    return name, regions, f"{total:,} tokens computed"


# %% [markdown]
"""
This function draws the prompts of a chat, one after the other. Run the next cell and step through the chat; each step adds a turn. Tokens from the cache are marked m, for *matched*.
"""

# %%
from minikv import play

without = live_chat(cache=False)
chats, steps = {"without a cache": without, "with a cache": with_cache}, []
for count, turn in enumerate(with_cache.turns, start=1):
    rows = [strip(name, chat, count) for name, chat in chats.items()]
    steps.append((turn.question, strips(rows, size=0.6)))
play(steps)

# %%
for name, chat in chats.items():
    counts = [turn.computed for turn in chat.turns]
    print(f"{name:15} tokens computed in each turn: {counts}, {chat.computed} in all")
answers = [[turn.answer for turn in chat.turns] for chat in (without, with_cache)]
print("the same answers:", answers[0] == answers[1])

# %% [markdown]
"""
The answers are the same, letter for letter. With the cache, each turn after the first computes little more than the new question, since it reuses the beginning that it shares with an earlier prompt.

Now somebody wants the assistant to know what time it is. The instructions begin with `It is 09:10.` in the first turn, with `It is 09:17.` in the second, and with `It is 09:24.` in the third. Only one or two characters change from turn to turn. How many tokens of the third prompt come from the cache?
"""

# %%
# put your number in place of None, then run the next cell
guess("0.a", "how many tokens of the third prompt come from the cache?", None)

# %%
broken = live_chat(clock=True)
third, rows = broken.turns[2], [strip("without a clock", with_cache, 3)]
rows.append(strip("with a clock", broken, 3))
said = f"turn 3: {third.computed} of {third.prompt} tokens computed"
fold("0.a", third.prompt - third.computed, said, strips(rows, size=0.6))

# %% [markdown]
"""
<details><summary>Why</summary>

The third prompt and the earlier ones begin with the same nine bytes, `It is 09:`, and then differ. Everything after that is computed again, although nearly all of it is the same text.

</details>

To understand why, let's build the smallest cache that works.

## Build it

### Step 1: what can be reused

Our model is a *transformer*, which consists of layers. In each layer, it computes a *key* and a *value* for every token: the K and V in "KV cache". Then each token reads its own key and value and those of the tokens before it, which is called *attention*, and takes the result into the next layer. No token reads later ones.

`keys_and_values` is a tiny transformer with two layers and random weights. (`source(keys_and_values)` shows its code.) We give it the tokens `1 2 3`, then change only the last token, and then only the first. How many of the three tokens keep all of their keys and values when the first one changes?
"""

# %%
from minikv.course.pieces.ch00 import keys_and_values

print(keys_and_values([1, 2, 3]).shape, "= layers, key or value, tokens, numbers")

# %%
guess(
    "0.b",
    "how many tokens keep all of their keys and values if the first one changes?",
    None,
)

# %%
import numpy as np

same = []
for other in ([1, 2, 9], [9, 2, 3]):
    a, b = keys_and_values([1, 2, 3]), keys_and_values(other)
    equal = [bool(np.allclose(a[:, :, i], b[:, :, i])) for i in range(3)]
    same.append(f"1 2 3 and {' '.join(map(str, other))}: equal keys and values {equal}")
fold("0.b", equal.count(True), *same)

# %% [markdown]
"""
<details><summary>Why</summary>

In the first layer, tokens 2 and 3 keep theirs. But attention there reads the changed token, so their keys and values in the second layer change, too. A shared ending doesn't help.

</details>

The whole course rests on this: a token's keys and values depend on the token itself and the tokens **before it**, and on nothing that comes later. So we keep them in a **slot**, a place for the keys and values of one token, and let the next prompt that *begins* with the same tokens use them. The beginning of a prompt, of any length, is called a **prefix**.

### Step 2: compare and remember

Two prompts share everything up to their first difference. Our cache keeps every sequence that was ever computed, and a new prompt reuses the longest prefix that it shares with any of them.

The program that runs a model for its users is called an *engine*. Two details are easy to get wrong. First, even if the *whole* prompt is cached, the engine computes its last token again, because it needs the model's output for that token, and the cache stores only keys and values. Second, the last token of an answer isn't kept: it ends the answer, so its key and value are never computed.
"""


# %%
def shared(a, b):
    length = 0
    while length < min(len(a), len(b)) and a[length] == b[length]:
        length += 1
    return length


def serve(prompt, answer, memory):
    """Return how many tokens of `prompt` to compute; add the turn to `memory`."""
    cached = max((shared(prompt, earlier) for earlier in memory), default=0)
    memory.append((prompt + answer)[:-1])
    return len(prompt) - min(cached, len(prompt) - 1)


# %% [markdown]
"""
Now two readers write to a library's help desk. Anna asks three questions, then Ben asks two. Each turn sends the instructions, the conversation so far, and the new question. (`asset` finds a file that comes with the course.)
"""

# %%
import json

from minikv import asset

DESK = json.loads(asset("chats.json").read_text("utf-8"))


def turns(chat):
    """Yield the prompt and the answer of each turn, as tokens."""
    said = DESK["system"]
    for question, answer in chat:
        said += f"\nreader: {question}\ndesk:"
        yield list(said.encode()), list(f" {answer}".encode())
        said += f" {answer}"


# %%
requests = [request for chat in DESK["chats"] for request in turns(chat)]
NAMES = "Anna 1", "Anna 2", "Anna 3", "Ben 1", "Ben 2"
print(len(DESK["system"].encode()), "tokens in the instructions")
for name, (prompt, answer) in zip(NAMES, requests):
    print(f"{name}: {len(prompt)} tokens in the prompt, {len(answer)} in the answer")

# %% [markdown]
"""
Ben has never talked to the desk before. Roughly how much of his first prompt, 422 tokens, has to be computed: a tenth, half, or all of it?
"""

# %%
guess("0.c", 'must the desk compute "a tenth", "half" or "all" of it?', None)

# %%
memory = []
computed = [serve(prompt, answer, memory) for prompt, answer in requests]
lengths = [len(prompt) for prompt, _ in requests]
rows = []
for name, n, length in zip(NAMES, computed, lengths):
    bar = "■" * round(n / 16) + "□" * round((length - n) / 16)
    rows.append(f"{name:6} {n:3} of {length} computed  {bar}")
shares = {"a tenth": 0.1, "half": 0.5, "all": 1}
about = min(shares, key=lambda name: abs(shares[name] - computed[3] / lengths[3]))
fold("0.c", about, *rows, "■ computed   □ from the cache")

# %% [markdown]
"""
<details><summary>Why</summary>

Ben's prompt begins with the *instructions*, which were computed in Anna's first turn. That is why a prefix cache pays off even if no user ever comes back.

</details>

### Step 3: count

A lookup that finds cached tokens is a *hit*, and the share of prompt tokens that come from the cache is the **hit rate**. Every cache in this course is judged by it.
"""


# %%
def hit_rate(computed, lengths):
    return 1 - sum(computed) / sum(lengths)


print(f"hit rate: {hit_rate(computed, lengths):.1%}")
for place in ("at the top", "at the end"):
    stamped, memory = [], []
    for minute, (prompt, answer) in enumerate(requests):
        clock = list(f" It is 09:{10 + 7 * minute}.".encode())
        prompt = clock + prompt if place == "at the top" else prompt + clock
        stamped.append(serve(prompt, answer, memory))
    longer = [length + len(clock) for length in lengths]
    print(f"with the time {place}: {hit_rate(stamped, longer):.1%}")

# %% [markdown]
"""
With the time at the top, two prompts differ after about ten bytes, and their common prefix ends there. So put anything that changes at the *end* of a prompt. Even there it costs a little: the next prompt repeats the last answer, but without the time before it, so the answer's tokens are computed again.

## The same in `minikv`

Our `serve` compares each prompt with every earlier turn. The package uses a tree instead, and gets the same counts. `match_prefix` finds the longest cached prefix and its slots; we look a prompt up without its last token, which is always computed. `insert` adds the new tokens; those that are already in the tree keep their slots.
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
print(from_tree, "equal to our counts:", from_tree == computed)

# %% [markdown]
"""
Here is the tree. The instructions appear only **once**, at the top, in the slots that Anna's first turn used, and both conversations continue from them.
"""

# %%
from minikv import draw


def as_text(tokens):
    """Label a node with the end of its text, because prompts differ at the end."""
    text = bytes(tokens).decode().replace("\n", "¶")
    return text if len(text) <= 40 else f"… {text[-38:]}"


draw(cache, label=as_text)

# %% [markdown]
"""
## Play

The cache below holds two prompts. Every character, spaces included, is a token. Run the cell, and type a prompt that finds exactly eight tokens in the cache; the playground tells you when you have done it. You need only the *insert* button; later chapters explain the others.

The model answers other questions, too. Try `live_chat(questions=["What is a page?", "Who owns a slot?"])`.
"""

# %%
from minikv import playground

playground(goal="make a prompt hit 8 tokens")

# %% [markdown]
"""
## More to try

`check` runs your function on many cases and shows the smallest one that fails.

#### 0.1 How long are the instructions?

Write `shared_by_all(prompts)`, which returns how many leading tokens *all* the prompts have in common. In a log of prompts, that is the length of the instructions.
"""


# %%
def shared_by_all(prompts):
    raise NotImplementedError  # delete this line; about 5 lines to write


check("0.1 shared_by_all", shared_by_all)

# %% [markdown]
"""
<details><summary>Hint</summary>

Walk through all prompts at once, from the start. Stop at the first place where one of them differs or ends. If the list is empty, nothing is shared: return 0.

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

An engine serves the prompts in order and remembers only the last `keep` prompts that it served, with all of their tokens. (A prompt that was served twice counts twice.) Write `tokens_computed(prompts, keep)`, which returns a list: for each prompt, how many tokens the engine has to compute. The last token of a prompt is always computed.
"""


# %%
def tokens_computed(prompts, keep):
    raise NotImplementedError  # delete this line; about 6 lines to write


check("0.2 tokens_computed", tokens_computed)

# %% [markdown]
"""
<details><summary>Hint</summary>

Of the last `keep` prompts, the one with the longest shared prefix helps most. Try `keep=0`, and a prompt that is completely cached.

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

A colleague wants to know how many tokens an engine that never forgets would have saved, and counts them with the function below. `shared_prefix` is our `shared`, and `pairwise` yields each prompt together with the next one. Find prompts, each with at least one token, for which the count is wrong. Return a one-element tuple that holds the list of prompts.
"""

# %%
careless("0.3")


# %%
def prompts_it_gets_wrong():
    raise NotImplementedError  # delete this line; return ([[...], [...], ...],)


check("0.3 saved", prompts_it_gets_wrong)

# %% [markdown]
"""
<details><summary>Hint</summary>

The function looks at only one earlier prompt. Two users who take turns are enough.

</details>

<details><summary>Solution</summary>

```python
def prompts_it_gets_wrong():
    return ([[1, 2], [7], [1, 2, 3]],)
```

</details>

`progress()` shows what you have solved in the whole course, and `mine()` shows which parts of the engine are yours.

## What it cost

The five turns are over, yet the cache still holds every token that was computed. How much memory would that be in a larger model? (A real tokenizer would cut the same text into fewer, longer tokens.)
"""

# %%
from minikv import KVShape, bytes_per_token

each = bytes_per_token(KVShape.from_config("llama-3.1-8b"))  # chapter 01 computes this
print(f"cached: {cache.total_size} tokens; in Llama 3.1 8B, {each:,} bytes each:")
print(f"{cache.total_size * each / 2**20:.0f} MiB of GPU memory for five short turns")

# %% [markdown]
"""
So the memory fills up, and three things can go wrong: a slot may be handed out **twice** (chapter 02), it may be taken away **while somebody is reading it** (chapter 04), or the engine may throw away the **wrong tokens** (chapter 05). Most of this course is about preventing these mistakes and noticing them at once.

From chapter 01 on, each chapter has a few functions for you to write, which go into your own file, `my_minikv.py`. In chapter 02 they already run the chat from this chapter, and in chapter 08 they become a complete engine.

## In real engines

SGLang and vLLM are large engines; mini-sglang and nano-vllm are small ones modeled on them. vLLM and nano-vllm store tokens in *blocks* of a fixed size, which this course calls pages.

{{engines 00|`RadixCache`; `match_prefix`; all but the last token}}


## Recap

A token's keys and values don't depend on later tokens, so prompts that begin with the same tokens can share them. A prefix cache remembers which slots hold which prefix, and the share of prompt tokens that it provides is the hit rate. If one token near the beginning of a prompt changes, everything after it is computed again.

**Check yourself**

1. Why can two prompts share the keys and values of a common *prefix*, but not those of a common *ending*?
2. Why does a prompt that is completely cached still cost one token?
3. Ben has never talked to the desk before. Why does his first turn hit the cache?
4. Where in a prompt would you put the user's name, and why?

<details><summary>Answers</summary>

1. A token's keys and values depend on all tokens before it, and before a common ending, the prompts differ.
2. The cache has the keys and values, but not the model's output for the last token. The answer begins with that output.
3. The instructions are the same for everybody, and Anna's first turn computed them.
4. As late as possible: prompts of different users share nothing after it.

</details>

**Read on**: [RadixAttention, the paper](https://arxiv.org/abs/2312.07104) · [PagedAttention, the paper](https://arxiv.org/abs/2309.06180) · [Mooncake, whose traces we replay](https://arxiv.org/abs/2407.00079)
"""

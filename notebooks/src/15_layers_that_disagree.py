# %% [markdown]
"""
# 15 · What if the layers of one model disagree?

In many recent models, some layers keep all tokens, some only the last few, and some a single sum of the whole text. A request can continue from a cached prefix only if *all* layers can. By the end of this chapter, your cache will find the longest such prefix, and save only what is worth its memory. You will write seven functions, about twenty-five lines in all.

**After this chapter you will be able to** *find* the longest prefix from which all layers of a model can continue, *choose* the places whose states are worth keeping, and *say* what an engine risks when it computes a window again.

{{time}} **Needs** chapters 02, 08, 10 and 12. **New words** group, state, grid, junction, replay.

**In this notebook already** the class `Group`, the function `grid`, and the class `LayerCache`. It calls your functions, or ours until yours pass.

Here is where we are going. A cached prompt comes again. Each *lane* is a group of layers, and each box is a block, named after the place where it ends; dashed blocks are missing. Step through the film: the line shows where the request would continue.
"""

# %%
from minikv import play
from minikv.course.pictures.cells import lanes, sliding_line, strips, word_rows

GROUPS = [Group("full", 4), Group("window", 4, window=6), Group("state", 4)]
ENDS = range(4, 25, 4)  # the places where blocks end
kept = [{4, 8, 12, 16, 20, 24}, {12, 16, 20, 24}, {16}]
play(sliding_line(GROUPS, kept, limit=24, step=4))

# %% [markdown]
"""
## The problem

In Qwen3-Next, three of four layers are *recurrent*: they keep no tokens, but add each one to a sum of fixed size, their **state**. No token can be taken out of a sum again, so a saved state helps only a prompt that continues at *exactly* the place where it was saved. Suppose an engine saves the states after every block, to be safe. How much is that?
"""

# %%
import json
import random

from minikv import KVLayers, asset

NEXT = "qwen3-next-80b-a3b"
config = json.loads(asset(f"configs/{NEXT}.json").read_text("utf-8"))
full, recurrent = KVLayers.from_config(NEXT).groups
kv, dim = config["num_key_value_heads"], config["head_dim"]
heads, side = config["linear_num_value_heads"], config["linear_value_head_dim"]
print(f"{full.layers} full × {kv} heads × 2 vectors × {dim} numbers × 2 bytes")
print(f"{recurrent.layers} recurrent × {heads} heads × {side} × {side} sums × 4 bytes")

# %% [markdown]
"""
The first line is one token in all full layers, and the second is the states of all recurrent layers at one place, in 32 bits, as SGLang keeps them by default. How many tokens' keys and values weigh as much as these states, to the nearest thousand?
"""

# %%
# put your number in place of None, then run the next cell
guess("15.a", "as much as how many tokens, to the nearest thousand?", None)

# %%
tokens = recurrent.state / full.per_token
sizes = (
    f"{recurrent.state:,} bytes, or {full.per_token:,} for each of {tokens:,.0f} tokens"
)
fold("15.a", round(round(tokens), -3), sizes)

# %% [markdown]
"""
<details><summary>Why</summary>

A token leaves two short vectors per head, but a state has a whole square of sums: 36 × 32 × 128 × 128 sums against 12 × 2 × 2 × 256 numbers. (A state also holds the last inputs of a small convolution.)

</details>

Now serve all sessions of chapter 13's coding agents, which start within eight hours. A block has 576 tokens, nine of the trace's blocks. The recurrent layers are three groups, each as large as the group of full layers, so the states of one place fill three blocks. There is memory for 6,000 blocks. Where should states be saved: after each block, each chunk of 8,192 tokens, or once per prompt, at its end?
"""

# %%
figures = json.loads(asset("layers.json").read_text("utf-8"))
RULES = "full attention alone", "ends", "ends and junctions"


def rates(traffic, room):
    """Return the percentage of tokens found under each rule."""
    rows = [r for r in figures if (r["traffic"], r["room"]) == (traffic, room)]
    return {row["keep"]: row["hits"] for row in rows}


for rule, percent in rates("agents", 6000).items():
    print(f"{rule:20} {percent:5.1f} % {'■' * round(percent / 2)}")

# %% [markdown]
"""
*Full attention alone* is what a model without states would find. A state after *each block* is by far the worst: it takes three quarters of the memory, and hardly any of these states is ever used. (No engine does this by default. {{engines vllm-retention|An option of vLLM}} comes close to *each chunk*, one state per 8,192 tokens.) *Ends* saves one state per prompt.

## Build it

### Step 1: blocks of equal bytes

A **group** is a set of layers of one kind. vLLM has one pool for all groups, whose pages can hold a block of any group, so all blocks need the same number of bytes (chapter 01). But a state can't be cut into blocks. So the blocks of the full layers grow until, in each layer, a block weighs at least as much as a state.

#### 15.1 You write: `block_for_state` (5 minutes)

`state_bytes` is the size of one layer's state, and `token_bytes` is the size of one token's keys and values in one full layer. Return the fewest tokens that weigh at least as much as the state and are a multiple of `kernel`, because the program that reads the blocks, the kernel, takes only such multiples. All numbers are whole and may be large, so be exact.
"""


# %%
def block_for_state(state_bytes, token_bytes, kernel=16):
    """Return the fewest tokens, a multiple of `kernel`, as heavy as a state."""
    raise NotImplementedError  # delete this line; about 2 lines to write


block_for_state = check("15.1 block_for_state", block_for_state)

# %%
state, token = recurrent.state // recurrent.layers, 2 * 4 * 256 * 2  # Qwen3.5 4B
print(f"a block has {block_for_state(state, token)} tokens")

# %% [markdown]
"""
Qwen3.5 4B has states like those of Qwen3-Next, but twice the KV heads. Users know this number from bug reports such as {{engines vllm-40696}}: a prompt shorter than a block never hits.

### Step 2: three kinds of layers, three answers

This prompt of 25 tokens runs through the rest of the chapter. Its last token is always computed (chapter 02), so at most 24 are of use. Some of its blocks have been evicted, and some states were never saved:
"""

# %%
SAVED = [{4, 8, 12, 16, 20, 24}, {4, 8, 16, 20}, {4, 16, 24}]
rows = []
for group, places in zip(GROUPS, SAVED):
    rows.append((group.keeps, [str(end) * (end in places) for end in ENDS]))
word_rows(rows, heads=[str(end) for end in ENDS])

# %% [markdown]
"""
The window is 6 tokens: the next token and the five before it. At how many of the six places 4, 8, …, 24 could the windowed lane continue?
"""

# %%
guess("15.b", "at how many of the six places could the windowed lane continue?", None)

# %%
window, places = GROUPS[1], SAVED[1]
able = [end for end in ENDS if places.issuperset(needs(window, end))]
fold("15.b", len(able), f"it could continue after {able} tokens")

# %% [markdown]
"""
<details><summary>Why</summary>

Five tokens reach back into a second block. After 20 tokens, they are tokens 16 to 20 (counted from 1), in blocks 16 and 20. After 16 tokens, they need block 12, which is missing. At place 4, there is only one block to need.

</details>

| a group that keeps | needs, to continue after `length` tokens |
|---|---|
| `"full"` | all blocks up to there |
| `"window"` | each block that has one of the last `group.window` − 1 tokens (none if this is 0) |
| `"state"` | the one block that ends there |

#### 15.2 You write: `needs` (10 minutes)

`group.keeps` is one of the three words, and `group.block` is the number of tokens in a block. `length` is a multiple of it, and at least one block. Return the list of the places whose blocks must be there, in order.
"""


# %%
def needs(group, length):
    """Return the places whose blocks `group` must find to continue, in order."""
    raise NotImplementedError  # delete this line; about 6 lines to write


needs = check("15.2 needs", needs)

# %%
for group in GROUPS:
    print(f"{group.keeps:6} after 20 tokens: {needs(group, 20)}")

# %% [markdown]
"""
### Step 3: the common grid

Groups may have blocks of different lengths, but all of them can continue only where a block of *each* group ends. These places are the **grid**, the multiples of the blocks' least common multiple:
"""

# %%
rows, both = [], grid([Group("full", 4), Group("state", 6)])
for name, size in ("full", 4), ("state", 6), ("grid", both):
    blocks = [(str(end), size, "cached", "") for end in range(size, 37, size)]
    rows.append((name, blocks, f"{size} tokens"))
strips(rows, size=16)

# %% [markdown]
"""
In {{engines vllm-ascend-16270|one report}}, groups have blocks of 128, 4,096, 32, 2 and 8 tokens, so a prompt below 4,096 tokens never hits.

#### 15.3 You write: `longest` (10 minutes)

Return the longest length after which this one group can continue: a multiple of the grid's `step` that is at most `limit`, or 0 if there is none. `saved` is the set of places where the group has a block, and your `needs` says which ones it must have. Begin at the limit, and stop at the first length that works.
"""


# %%
def longest(group, saved, limit, step):
    """Return the longest length, in whole steps, after which `group` can continue."""
    raise NotImplementedError  # delete this line; about 4 lines to write


longest = check("15.3 longest", longest)

# %%
for group, places in zip(GROUPS, SAVED):
    print(f"{group.keeps:6} alone: {longest(group, places, 24, 4)}")

# %% [markdown]
"""
### Step 4: agree

Alone, the three lanes could continue after 24, 20 and 24 tokens. How long is the longest prefix from which they can continue *together*?
"""

# %%
guess("15.c", "how long is the prefix from which all three can continue?", None)

# %%
together = common_hit(GROUPS, SAVED, 24, 4)
fold("15.c", together, lanes(GROUPS, SAVED, ENDS, together))

# %% [markdown]
"""
<details><summary>Why</summary>

At 20, the smallest of the three answers, no state is saved, so the recurrent layers answer 16. There the windowed layers need block 12, so they answer 8. There is no state at 8, so they all agree only at 4.

</details>

A group that can continue after 24 tokens may not be able to after 20. So when one group lowers the length, all others must be asked again.

#### 15.4 You write: `common_hit` (15 minutes)

`groups` and `saved` are lists of equal length: `saved[i]` is the set of places of `groups[i]`. Return the longest length after which all groups can continue, at most `limit` and in whole steps, or 0. Let your `longest` do the work: ask each group about no more than the shortest answer so far.

*Test it first* (optional, 10 minutes): write cases where a version that asks each group only once is wrong, and one that needs three rounds of questions.
"""


# %%
def test_common_hit(common_hit):
    """Fail if `common_hit` is wrong."""
    raise NotImplementedError
    assert common_hit([Group("state", 4)], [{4}], 9, 4) == 4


catch("15.4 common_hit", test_common_hit)


# %%
def common_hit(groups, saved, limit, step):
    """Return the longest length after which all groups can continue."""
    raise NotImplementedError  # delete this line; about 6 lines to write


common_hit = check("15.4 common_hit", common_hit)

# %%
play(sliding_line(GROUPS, SAVED, limit=24, step=4))

# %% [markdown]
"""
Is this prompt an exception? Here are random ones:
"""

# %%
chance, wrong = random.Random(15), 0
for _ in range(2000):
    saved = [{end for end in ENDS if chance.random() < 0.8} for _ in GROUPS]
    alone = [longest(group, places, 24, 4) for group, places in zip(GROUPS, saved)]
    wrong += min(alone) != common_hit(GROUPS, saved, 24, 4)
print(f"the smallest answer is too long in {wrong} of 2000 cases")

# %% [markdown]
"""
### Step 5: save states where prompts continue

Where will a state be used? First, at the end of the prompt: the same prompt may come again, or one that continues it, such as the next turn of a chat. Second, at a **junction**, where two prompts diverge, because others may share that beginning, too. When the first prompt is computed, nobody knows where the second will leave it. (Marconi's idea; vLLM {{engines vllm-37898|has it, too}}.)

Five prompts begin with the same 40 tokens and then differ. They come one after the other, to an empty cache with plenty of memory. How many of the five find the shared beginning?
"""

# %%
guess("15.d", "how many of the five prompts find the shared beginning?", None)

# %%
cache = LayerCache(GROUPS, 1000, checkpoints)
prompts = [tuple([7] * 40 + [reader] * 21) for reader in range(5)]
found = [cache.serve(prompt) for prompt in prompts]
fold("15.d", sum(hit > 0 for hit in found), f"tokens found: {found}")

# %% [markdown]
"""
<details><summary>Why</summary>

The first prompt saves a state only at its own end. The second finds keys and values of 40 tokens in the full layers, whose match ends at the junction. But there is no state, so it computes everything again. On the way, it saves a state at the junction, and all later ones continue from there.

</details>

#### 15.5 You write: `checkpoints` (10 minutes)

A prompt of `length` tokens is computed from `hit` on, a multiple of `step`. Its full layers alone found `fork` tokens (0 if no more than the hit). Return the list of places whose states to save, in order and without repeats: the last place on the grid from which the same prompt could continue (its last token is always computed), and the junction `fork`, rounded down to the grid. Leave out places up to the hit: computation starts there.
"""


# %%
def checkpoints(length, hit, fork, step):
    """Return the places whose states to keep, in order."""
    raise NotImplementedError  # delete this line; about 2 lines to write


checkpoints = check("15.5 checkpoints", checkpoints)

# %%
for number, hit, fork in (1, 0, 0), (2, 0, 40), (3, 40, 0):
    print(f"prompt {number} saves states at {checkpoints(61, hit, fork, 4)}")

# %% [markdown]
"""
Do junctions help? This is the share of tokens found with unlimited memory, for the agents, for chapter 13's chat, and for two made-up fan-outs, in which 30 prompts at a time share 20,000 tokens and then have 96 or 1,600 of their own:
"""

# %%
print(f"{'':22}", *(f"{rule:>20}" for rule in RULES))
for traffic in dict.fromkeys(row["traffic"] for row in figures):
    found = rates(traffic, None)
    print(f"{traffic:22}", *(f"{found[rule]:18.1f} %" for rule in RULES))

# %% [markdown]
"""
In the real traffic, whose prompts mostly continue earlier ones, *ends* loses little, and junctions hardly matter. (The agents' trace also hides what two sessions share.) Junctions help where prompts branch off, if their own parts are longer than a block. Otherwise the prompts end near the junction, and *ends* is enough.

### Step 6: stop for a state

A prompt is computed in chunks (chapter 08). Inside a chunk, states come and go during the computation; vLLM can save only those at the chunk's end. So a chunk must end at each place that `checkpoints` chose.

24 tokens are computed in chunks of at most 8, three in all. How many chunks does it take with stops at 12 and 20?
"""

# %%
guess("15.e", "how many chunks does it take with stops at 12 and 20?", None)

# %%
ends = chunks(0, 24, 8, [12, 20])
fold("15.e", len(ends), f"the chunks end at {ends}")

# %% [markdown]
"""
<details><summary>Why</summary>

A chunk that stops early moves all later ones: after 12, the next one reaches 20 in one go.

</details>

#### 15.6 You write: `chunks` (10 minutes)

The tokens from `start` to `end` are computed. Return the list of places where the chunks end, in order; the last one is `end`. A chunk has at most `most` tokens, and one ends at each place in the sorted list `stops` between `start` and `end` (ignore stops outside). Take as few chunks as possible, and none if `start` is `end`.
"""


# %%
def chunks(start, end, most, stops):
    """Return where each chunk ends, from `start` to `end`, with one at each stop."""
    raise NotImplementedError  # delete this line; about 5 lines to write


chunks = check("15.6 chunks", chunks)

# %%
rows = []
for name, stops in ("no stops", []), ("12 and 20", [12, 20]):
    ends = chunks(0, 24, 8, stops)
    parts = [(str(b), b - a, "computed", str(b - a)) for a, b in zip([0, *ends], ends)]
    rows.append((name, parts, f"{len(parts)} chunks"))
strips(rows, size=18)

# %% [markdown]
"""
A state often costs one more pass through the model.

### Step 7: compute a window instead of keeping it

There is another way to handle windows: save none, use the other groups' hit, and compute its last tokens again, only to fill the windows. This is a **replay**.

Take three windowed layers, on top of each other, with windows of 16. In each layer, the next token reads itself and the 15 tokens before it. How many tokens must be computed again so that all it reads is *exactly* as before?
"""

# %%
guess("15.f", "how many tokens must be computed again?", None)


# %%
again = 200 - replay_start(200, window=16, layers=3)
fold("15.f", again, f"tokens {200 - again} to 199")

# %% [markdown]
"""
<details><summary>Why</summary>

In the third layer, the next token reads 15 tokens. Their values come from the second layer, where the first of them reads 15 more. The first layer adds another 15.

</details>

#### 15.7 You write: `replay_start` (5 minutes)

Return the place from which tokens must be computed again, so that `layers` windowed layers on top of each other are exact after `hit` tokens. A window is at least 1 and counts the token that reads. A prompt has no tokens before 0.
"""


# %%
def replay_start(hit, window, layers):
    """Return where to start again, so that windowed layers are exact after `hit`."""
    raise NotImplementedError  # delete this line; about 2 lines to write


replay_start = check("15.7 replay_start", replay_start)

# %%
start, rows = replay_start(200, 3, 3), []
for layer in range(3):  # windows of 3: in each layer, 2 more tokens are not exact
    exact = [start + 2 * layer <= token for token in range(start, 200)]
    rows.append((f"layer {layer + 1}", ["=" * each for each in exact]))
word_rows(rows, heads=[str(token) for token in range(start, 200)])

# %% [markdown]
"""
Keys with an = are exactly as before. Only the last two are exact in all three layers: the next token reads just these.

With dozens of layers, this is too much. So where {{engines vllm-replay}}, for DeepSeek-V4.1, it computes only *one* window again, whatever the number of layers: here 16 tokens. This is the exception of chapter 08, where a hit may change an answer; *What it cost* measures it.

### All together

`LayerCache` serves a prompt with your functions. All blocks take the same room, and the least recently used one goes first. `saved` returns the places whose blocks are there, and `use` makes blocks the most recently used.
"""

# %%
source(LayerCache.serve)

# %% [markdown]
"""
Sixty questions come in random order. Each has 40 tokens that all share, 40 that ten of them share, and 21 of its own. There are three groups of states again. We compare your `checkpoints` with states at all places:
"""


# %%
def every_place(length, hit, fork, step):
    return list(range(hit + step, length, step))


# %%
questions = [tuple([7] * 40 + [n % 6] * 40 + [n] * 21) for n in range(100, 160)]
random.Random(15).shuffle(questions)
groups = [GROUPS[0], *[GROUPS[2]] * 3]
for room in 2000, 100:
    every = sum(map(LayerCache(groups, room, every_place).serve, questions))
    yours = sum(map(LayerCache(groups, room, checkpoints).serve, questions))
    print(f"{room:4} blocks: every place {every:4} tokens found, yours {yours:4}")

# %% [markdown]
"""
With plenty of memory, a state at each place finds slightly more. With little memory, it finds less.

## The same in `minikv`

`KVLayers` reads a model's `config.json` (chapter 01). Its `smallest_prefix` is your `block_for_state`:
"""

# %%
for name in (NEXT, "nemotron-nano-9b-v2"):
    for dtype in ("fp32", "bf16"):
        layers = KVLayers.from_config(name, state_dtype=dtype)
        full, state = layers.groups
        sizes = state.state // state.layers, full.per_token // full.layers
        assert block_for_state(*sizes) == layers.smallest_prefix
        print(f"{name}, sums in {dtype}: {layers.smallest_prefix:,} tokens")

# %% [markdown]
"""
`LayeredManager` counts states apart from pages, in a pool of their own, so it needs no large blocks: any `step` will do. Does it find as much as your functions?
"""

# %%
from minikv import LayeredManager, StatePool

manager = LayeredManager(StatePool(10_000, num_states=1000), step=4)
cache = LayerCache([Group("full", 4), Group("state", 4)], 10_000, checkpoints)
chance = random.Random(15)
for _ in range(300):
    prompt = chance.choices([1, 1, 1, 2], k=chance.randint(1, 40))
    sequence = manager.start(prompt)
    while sequence.computed < sequence.length:
        manager.advance(sequence, sequence.next_stop - sequence.computed)
    manager.finish(sequence)
    assert sequence.cached_length == cache.serve(tuple(prompt))
print("equal for 300 prompts, and the last one found", sequence.cached_length)

# %% [markdown]
"""
## Play

Five blocks of the example are missing: two of the windowed lane and three states. Save another one. Which block lets the line stay at 24? Which one changes nothing?
"""

# %%
number, place = 1, 12  # the lane (0, 1 or 2) and the place of another block
more = [places | {place} if i == number else places for i, places in enumerate(SAVED)]
play(sliding_line(GROUPS, more, limit=24, step=4))

# %% [markdown]
"""
<details><summary>Why</summary>

With block 24 of the window, all three could continue after 24 tokens. State 20 is worth nearly as much. State 12 is worth nothing, because the windowed lane has no block 12.

</details>
"""

# %% [markdown]
"""
## More to try

#### 15.8 Design: which states to drop?

A long chat leaves a state at the end of each turn. `path` lists their places in order, and at most `cap` (at least 1) should stay. Always keep the last one, for the next turn, and those in the set `forks`, the junctions, even if they are more than `cap`. Of the others, those near the beginning are worth the least. Write `states_to_drop(path, forks, cap)`, which returns the list of places to drop, in order, as SGLang's {{engines sglang-path-cap}} does.
"""


# %%
def states_to_drop(path, forks, cap):
    raise NotImplementedError  # delete this line; about 2 lines to write


check("15.8 states_to_drop", states_to_drop)

# %% [markdown]
"""
<details><summary>Hint</summary>

First list what may go. Then take as many from its beginning as the path has above `cap`.

</details>

<details><summary>Solution</summary>

```python
def states_to_drop(path, forks, cap):
    spare = [at for at in path[:-1] if at not in forks]
    return spare[: max(0, len(path) - cap)]
```

</details>

#### 15.9 Bug hunt: the smallest answer

This function asks each group once and takes the minimum. Return `(groups, saved, limit)` for which it promises too much: a list of groups, a list with a set of places for each, and a limit. Can you do it with two saved places in all?
"""

# %%
careless("15.9")


# %%
def lanes_that_expose_it():
    raise NotImplementedError  # delete this line, and change the places
    groups = [Group("full", 4), Group("state", 4)]
    return groups, [{4, 8}, {8}], 8


check("15.9 careless_hit", lanes_that_expose_it)

# %% [markdown]
"""
<details><summary>Hint</summary>

Full layers that can continue somewhere can also continue anywhere earlier. States can't, and neither can windows. Let two groups have different gaps.

</details>

<details><summary>Solution</summary>

```python
def lanes_that_expose_it():
    groups = [Group("state", 4), Group("state", 4)]
    return groups, [{8}, {4}], 8
```

Alone, they answer 8 and 4. But the first has no state at 4.

</details>

## What it cost

Blocks are large, so short prompts find nothing. A prompt may find less than its full layers have, and junctions help only from the third prompt. Each state takes the memory of thousands of tokens, and often a pass through the model.

There is also a new invariant: a state belongs to *exactly* its place. In {{engines vllm-55600}}, this place was counted in the blocks of another group, so a hit continued from the state of another prefix.

And if only one window is replayed, another invariant breaks: a hit may change an answer. Here are three windowed layers with random weights:
"""

# %%
import numpy as np

rng = np.random.default_rng(0)
Q, K, V = rng.normal(size=(3, 3, 16, 16)) / 4  # of three layers
inputs = rng.normal(size=(200, 16))  # of 200 tokens


# %%


def keys_from(start, window=16):
    """Return the keys of each layer, if tokens are computed from `start` on."""
    x, keys = inputs[start:], []
    for q, k, v in zip(Q, K, V):
        keys.append(x @ k)
        rows = []
        for at in range(len(x)):
            seen = slice(max(0, at - window + 1), at + 1)
            weights = np.exp(x[at] @ q @ keys[-1][seen].T)
            rows.append(weights @ (x @ v)[seen] / weights.sum())
        x = x + np.tanh(rows)
    return keys


# %%
print(f"numbers of a key: {np.abs(keys_from(0)).mean():.1f} on average")
for count in 16, 44, 45:
    pairs = zip(keys_from(0), keys_from(200 - count))
    error = max(np.abs(old[-15:] - new[-15:]).max() for old, new in pairs)
    print(f"{count} tokens again: keys are off by up to {error:.4f}")

# %% [markdown]
"""
## In real engines

vLLM and SGLang serve such models, and they do the same in different ways:

| what | vLLM | SGLang |
|---|---|---|
| index | {{engines vllm-hash-index}} | {{engines sglang-component-data}} |
| agreement | {{engines vllm-rounds}} | {{engines sglang-validators}} |
| junction | {{engines vllm-junction}} | {{engines sglang-junction}} |
| states of answers | {{engines vllm-answer-states}} | {{engines sglang-answer-states}} |
| eviction | {{engines vllm-shared-queue}} | {{engines sglang-own-lru}} |

From the same saved blocks, vLLM 0.33.0 finds as much as your functions; the course's tests compare them with its recorded answers.

<details><summary>Your functions in the engines</summary>

{{engines 15}}

</details>

## Recap

A request can continue only where all groups of layers can, and this may be far below the smallest of their answers, so they are asked again until none lowers the length. A state weighs as much as thousands of tokens and exists only where a chunk ends, so it is saved only where prompts continue: at the end of a prompt, and at a junction. A window can be replayed instead, but it is exact only if the replay reaches back as far as all windowed layers together.

**Check yourself**

1. A model has full layers and one group of states. Why is one round enough for `common_hit`?
2. All states are saved at all places. Why does the hit rate fall?
3. From chapter 12: which tokens of a path lose their windows first, and what must stay?
4. From chapter 10: why is the key of a block enough to know the whole prefix before it?

<details><summary>Answers</summary>

1. Full layers that can continue after some length can continue after any shorter one, so they never lower the answer of the states.
2. The states take most of the memory, so keys and values that are still useful are evicted.
3. Those at the beginning. The last window of a leaf must stay.
4. It is a hash of the block's tokens and the key before it.

</details>

**Read on**: [Marconi, prefix caching for hybrid models](https://arxiv.org/abs/2411.19379) · [Gated Delta Networks](https://arxiv.org/abs/2412.06464) · [vLLM's hybrid KV cache manager](https://docs.vllm.ai/en/latest/design/hybrid_kv_cache_manager.html)
"""

# %% [markdown]
"""
# 12 · What if a layer forgets?

In many models, some layers look back only a fixed number of tokens. The keys and values of these layers soon become useless, while those of the other layers stay useful. By the end of this chapter, your cache will free the first kind and keep the second. You will write four functions, about twenty lines in all.

**After this chapter you will be able to** *decide* where a prompt can continue when part of it has been forgotten, *protect* only the tokens that will be read, and *restore* tokens that another request has computed again.

{{time}} **Needs** chapters 02 to 05. **New words** sliding window, tombstone, window slot.

**In this notebook already** `Pool` from chapter 02 and `RadixCache` from chapters 03 to 05, with your functions where they have passed.

Here is where we are going, with some layers that look back two tokens. Step through the film; its code can wait. On the right, below its slot, each token has a *window slot* for these layers, until that is freed. In the tree, *window: the last 2* means that only a node's last two tokens have one; without this note, all do. Watch tokens stay in the tree after losing their window slots.
"""

# %%
from minikv import SlidingWindowCache, WindowedPool, beside, draw, record

pool = WindowedPool(12, num_window_pages=8)
cache = SlidingWindowCache(window=2, pool=pool)
with record(cache, pool) as film:
    cache.insert([1, 2, 3, 4, 5, 6], pool.alloc(6))
    cache.evict(0, window_tokens=4)
    found = cache.acquire([1, 2, 3, 4, 5, 6])
    cache.insert([1, 2, 3, 4, 5, 6, 7], [*found.slots, *pool.alloc(1)], start=found)
    cache.unlock(found)
    done = cache.insert([1, 2, 3, 9], again := pool.alloc(4))
    pool.free(again[: done.prefix_length])
film.player(still=9)

# %% [markdown]
"""
## The problem

In a *full layer*, each token attends to every token before it. In a *windowed layer*, it attends only to the last few of them, its **sliding window**. Many models have layers of both kinds:
"""

# %%
from minikv import KVLayers

MODELS = "gemma-3-12b gpt-oss-120b llama-4-scout".split()
for name in MODELS:
    full, short = KVLayers.from_config(name).groups
    print(f"{name}: {full.layers} full, {short.layers} with {short.window:,} tokens")

# %% [markdown]
"""
A prompt has 32,000 tokens, and each layer keeps only the keys and values that later tokens may read. Which of the three models keeps the smallest share?
"""

# %%
# put one of the three names, in quotes, in place of None, then run the next cell
guess("12.a", "'gemma-3-12b', 'gpt-oss-120b' or 'llama-4-scout'?", None)

# %%
shares = {}
for name in MODELS:
    full, short = KVLayers.from_config(name).groups
    kept = full.layers * 32_000 + short.layers * short.window
    shares[name] = kept / (full.layers + short.layers) / 32_000
lines = [f"{name:14} keeps at most {share:.0%}" for name, share in shares.items()]
fold("12.a", min(shares, key=shares.get), "\n".join(lines))

# %% [markdown]
"""
<details><summary>Why</summary>

The full layers decide, because they keep everything. In Gemma, only 8 of 48 layers are full, and the windows add little. gpt-oss has the shortest windows, but half of its layers are full, so it keeps the most. (Llama 4's windowed layers look back {{engines vllm-llama4-chunk|only to the beginning of a chunk}}.)

</details>

So such a model could free up to four fifths of its keys and values. But your tree has *one* slot per token, for all layers together, and a cached prefix that has lost some of its keys and values looks like any other. Suppose we free them anyway, and a request matches the first 30,000 tokens. Its windowed layers then read the last few slots, which by now hold another request's keys and values.

## Build it

### Step 1: two slots per token

We give each token two slots: a *tree slot*, which the tree lists, for the full layers, and a **window slot** from a second, smaller pool, for the windowed layers. A dictionary maps the first to the second:

    window_of = {tree slot: window slot}

A token with a window slot is *live*; for short, it *has a window*. To free the window, take the tree slot out of the dictionary and give the window slot back to its pool. Then the token is *dead*, and it stays in the tree as a **tombstone**: the full layers still have its keys and values, but the windowed layers don't.

Here is a cached prompt of ten tokens. Each column is a token, with its tree slot above its window slot.
"""

# %%
from minikv.course.pictures.cells import word_rows


def columns(slots, window_of):
    """A column for each tree slot, with its window slot below it."""
    windows = [str(window_of.get(slot, "")) for slot in slots]
    return word_rows([("tree slot", list(map(str, slots))), ("window slot", windows)])


columns(range(10), {6: 0, 7: 1, 8: 2, 9: 3})

# %% [markdown]
"""
Tokens 0 to 5 are tombstones, and the window is 3, so the next token reads the three tokens before it. A new prompt begins with tokens 0 to 7. How many of these can it take from the cache?
"""

# %%
guess("12.b", "how many of tokens 0 to 7 can the prompt take from the cache?", None)

# %%
cache = SlidingWindowCache(window=3)
cache.insert(range(10), range(10), window_start=6)
lengths = {end: cache.match_prefix(range(10), limit=end).length for end in (8, 9)}
fold("12.b", lengths[8], f"of tokens 0 to 8: {lengths[9]}", draw(cache))

# %% [markdown]
"""
<details><summary>Why</summary>

None. The next token would read tokens 5, 6 and 7 in its window, and token 5 is a tombstone. A shorter prefix ends with even more tombstones. With token 8, the prefix would end with three live tokens, and only the full layers would read the tokens before them.

</details>

A prefix is *valid* if a request can continue from it, so a prefix without dead tokens is always valid. A longer prefix can be valid while a shorter one is not.

#### 12.1 You write: `valid_length` (15 minutes)

`slots` lists the tree slots of the longest match, `window_of` is the dictionary, and `window` is at least 1. Return the length of the longest valid prefix of `slots`. A prefix is valid if its last `window` slots are all in `window_of`; one with fewer slots is valid if all of them are. A path may have 100,000 slots, so look up each slot at most once, and no more slots than you need.

*Test it first* (optional, 10 minutes): slots may have any numbers, 0 among them. Which invalid prefixes would a wrong version accept?
"""


# %%
def test_valid_length(valid_length):
    """Fail if `valid_length` is wrong."""
    raise NotImplementedError  # assert valid_length([5, 0, 7], {0: 1, 7: 2}, 2) == 3


catch("12.1 valid_length", test_valid_length)


# %%
def valid_length(slots, window_of, window):
    """Return the length of the longest valid prefix of `slots`."""
    raise NotImplementedError  # delete this line; about 6 lines to write


valid_length = check("12.1 valid_length", valid_length)

# %%
window_of = {slot: 100 + slot for slot in (0, 1, 6, 7, 8, 9)}
for end in (10, 9, 8, 7, 2):
    print(end, "cached slots,", valid_length(list(range(end)), window_of, 3), "valid")

# %% [markdown]
"""
Here slots 0 and 1 have windows too, so a match without a longer valid prefix falls back to these two tokens.

### Step 2: hold the windows that will be read

A lock protects a whole path (chapter 04). For windows, that would be a waste. Anna and Ben have each sent a prompt of 1,000 tokens. The first 990 tokens are the same, and the window is 4. How many window slots must be protected for the two of them together?
"""

# %%
guess("12.c", "how many window slots must be protected for the two together?", None)

# %%
cache = SlidingWindowCache(window=4)
cache.insert(range(1000), range(1000))
cache.insert([*range(990), *range(5000, 5010)], range(1000, 2000))
anna = cache.acquire(range(1000))
ben = cache.acquire([*range(990), *range(5000, 5010)])
sizes = f"{cache.protected_size} tokens are locked for the full layers"
fold("12.c", cache.window_protected_size, sizes, draw(cache))

# %% [markdown]
"""
<details><summary>Why</summary>

Four for each of them. The next token of Anna's answer reads the last four of *her* tokens, and the 990 shared tokens are farther back.

</details>

#### 12.2 You write: `hold` (5 minutes)

Here, a *pin* locks only the window of a single slot (in chapter 09, a whole path). The dictionary `pins` maps each pinned slot to the number of its pins. Add one pin to each of the last `window` slots of `slots`, or to all of them if there are fewer. Return the pinned slots as a new list, because `slots` belongs to the caller, who may change it. The new list is the request's *receipt* (chapter 04): when the request leaves, each slot on it loses one pin, whatever has happened in between.
"""


# %%
def hold(pins, slots, window):
    """Pin each of the last `window` slots; return these slots, the receipt."""
    raise NotImplementedError  # delete this line; about 4 lines to write


hold = check("12.2 hold", hold)

# %%
pins = {}
for path in ([0, 1, 2, 3], [0, 1, 2, 5]):
    print("a receipt:", *sorted(hold(pins, path, 2)))
print("slot 2 has", pins[2], "pins")

# %% [markdown]
"""
Why keep a receipt instead of looking again? Between lock and unlock, windows come and go. In {{engines sglang-24972}}, a lock skipped a tombstone; after its window had come back, the unlock looked again and could release another request's lock.

### Step 3: choose the windows to free

A request needs more window slots than are free. Which tokens lose theirs? As in chapter 05, the least recently used edge goes first. Within an edge, the *beginning* goes first, because it is farthest from the next token. (Among the tree slots, those at the end of a path go first.)

But the last `window` tokens of a leaf must stay live; 12.d will show why. (A leaf shorter than the window also needs the end of the edge above it. The package handles that; your function looks at each edge alone.)

#### 12.3 You write: `spare` (10 minutes)

`edges` is a list of pairs, the least recently used edge first. Each pair has the list of an edge's tree slots and a bool that tells whether the edge is a leaf. Return a list of the slots that can lose their window, in the order in which they go. A slot can lose its window if it has one (it is in `window_of`) and no pin (it is not in `pins`). The last `window` slots of a leaf must keep theirs.
"""


# %%
def spare(edges, window_of, pins, window):
    """Return the slots that can lose their window, in the order in which they go."""
    raise NotImplementedError  # delete this line; about 5 lines to write


spare = check("12.3 spare", spare)

# %%
window_of = {slot: 100 + slot for slot in range(10)}
edges = [([0, 1, 2, 3], False), ([4, 5, 6, 7, 8, 9], True)]
print(*spare(edges, window_of, {3: 1}, 2))

# %% [markdown]
"""
### Step 4: bring windows back

Suppose a prompt ends among tombstones, so its match cannot be used. Its tokens are computed again, in new slots, and the prompt is inserted. The tree already has these tokens and keeps its own slots, so the new ones are *duplicates*. But the duplicates have windows, which the tree's slots lack. Nothing has to be copied: a duplicate's window slot can be handed over to the tree's slot.

#### 12.4 You write: `heal` (10 minutes)

`kept` is a list of the tree's slots, and `twice` lists the duplicates of the same tokens, in the same order. Where the tree's slot has no window but the duplicate has one, move the window in `window_of` from the duplicate to the tree's slot. Return how many windows moved.
"""


# %%
def heal(window_of, kept, twice):
    """Move windows from `twice` to slots of `kept` without one; return how many."""
    raise NotImplementedError  # delete this line; about 6 lines to write


heal = check("12.4 heal", heal)

# %%
window_of = {12: 0, 20: 1, 21: 2}  # 10 and 11 are tombstones, 20 and 21 duplicates
before = columns([10, 11, 12, 20, 21], window_of)
heal(window_of, [10, 11], [20, 21])
beside(before, columns([10, 11, 12, 20, 21], window_of))

# %% [markdown]
"""
### All together

This class combines your four functions with your tree and two of your pools. Read `serve`, which follows a request from start to finish. After the insert, `twice` holds the request's own slots that the tree did not need, and `kept` begins with the tree's slots for the same tokens.
"""

# %%
source(WindowTree)

# %% [markdown]
"""
Ten readers each ask the help desk twice, and all prompts begin with the same tokens. There are 3,000 tree slots but only 400 window slots. The cell prints how many tokens each turn finds.
"""

# %%
SYSTEM = list(b"You are the help desk of a library. Be brief. ")


def two_turns(reader):
    first = list(b"Reader %d asks: when do you open today, and until when?" % reader)
    return SYSTEM + first, SYSTEM + first + list(b" At nine. And tomorrow?")


tree = WindowTree(3000, 400, window=8)
for reader in range(10):
    print("reader", reader, [tree.serve(turn) for turn in two_turns(reader)])

# %% [markdown]
"""
Each second turn finds the whole first one. A first turn finds the shared beginning, unless the windows just before the prompts diverge have gone to another reader. Then it finds nothing, computes the beginning again, and heals it.

After these twenty turns, nearly half of the cached tokens have lost their window. Each reader wants to take a third turn. How many of the 10 readers will find less than their whole conversation in the cache?
"""

# %%
guess("12.d", "how many of the 10 readers find less than their conversation?", None)

# %%
cached, live, lost = tree.cache.total_size, len(tree.window_of), 0
for reader in range(10):
    last_turn = two_turns(reader)[1]
    found, receipt = tree.find(last_turn)
    tree.leave(found, receipt)
    lost += found.length < len(last_turn)
fold("12.d", lost, f"{cached} tokens are cached, and {live} of them have a window")

# %% [markdown]
"""
<details><summary>Why</summary>

None. The tombstones are in the middle of the paths. Each conversation ends at a leaf, whose last windows stay, because no request could continue without them.

</details>

## The same in `minikv`

`SlidingWindowCache` has no dictionary of windows. On each edge, the dead tokens come first, then the live ones, and those that locks need are at the end. So two positions per node are enough, and neither locking nor freeing a window ever splits an edge.

Does its match end where your `valid_length` says, on a thousand random paths? `match_of` builds the same path in the package's cache: each `insert` adds some dead tokens and then a live one.
"""

# %%
import random


def match_of(live, window):
    cache = SlidingWindowCache(window=window)
    for at, has_window in enumerate([*live, True]):  # the last one only ends the path
        if has_window:
            cache.insert(range(at + 1), range(at + 1), window_start=at)
    return cache.match_prefix(range(len(live))).length


# %%
chance = random.Random(12)
for _ in range(1000):
    live = chance.choices([True, True, False], k=chance.randrange(12))
    window = chance.randint(1, 4)
    slots = list(range(len(live)))
    window_of = {slot: 100 + slot for slot in slots if live[slot]}
    assert valid_length(slots, window_of, window) == match_of(live, window)
print("equal on 1000 paths")

# %% [markdown]
"""
`WindowedManager` takes window slots when a request starts and gives them back as the request advances. Does any request still read them? A canary (chapter 04) watches both pools.
"""

# %%
from minikv import Engine, WindowCanaryModel, WindowedManager

pool = WindowedPool(2000, num_window_pages=200)
manager, model = WindowedManager(pool, window=8), WindowCanaryModel(pool, window=8)
engine = Engine(model, manager)
prompts = [SYSTEM + list(b"Reader %d asks: when?" % reader) for reader in range(20)]
first, second = ([g.tokens for g in engine.generate(prompts, 10)] for _ in range(2))
print(f"{model.owners} tokens, {pool.windows.size} window slots, no wrong read")
print("the same answers from the cache:", first == second)

# %% [markdown]
"""
The next cell, which needs PyTorch, gives three of the five layers of the course's small model a window of 16 tokens.
"""

# %%
from minikv import Llama, WindowedStore, asset, windowed_llama

model = windowed_llama(Llama.from_folder(asset("model")), window=16)
pool = WindowedPool(512, num_window_pages=96)
store = WindowedStore(model.shape, {0, 2, 4}, pool, dtype=model.dtype)
engine = Engine(model, WindowedManager(pool, window=16, store=store))
cold, warm = (engine.generate([SYSTEM + list(b"When?")], 12)[0] for _ in range(2))
print(f"found {cold.cached}, then {warm.cached}; equal: {cold.tokens == warm.tokens}")
store

# %% [markdown]
"""
## Play

Two conversations share a beginning, and the window is 2. In the film, each `evict` asks for one window slot. Before each one, say which tokens will lose their window. Why does the second `evict` also free two tree slots?
"""

# %%
pool = WindowedPool(16, num_window_pages=10)
cache = SlidingWindowCache(window=2, pool=pool)
with record(cache, pool) as film:
    cache.insert([1, 2, 3, 4, 5, 6, 7], pool.alloc(7))
    found = cache.acquire([1, 2, 3, 4])
    cache.insert([1, 2, 3, 4, 8, 9], [*found.slots, *pool.alloc(2)], start=found)
    cache.unlock(found)
    cache.evict(0, window_tokens=1)
    cache.match_prefix([1, 2, 3, 4, 5, 6, 7])
    pool.free(cache.evict(0, window_tokens=1))
    cache.match_prefix([1, 2, 3, 4, 8, 9])
film.player()

# %% [markdown]
"""
<details><summary>Why</summary>

By then, `8 9` is the least recently used edge. It is a leaf of two tokens, and both must stay live for a request to continue from it. So the whole leaf goes.

</details>
"""

# %% [markdown]
"""
## More to try

#### 12.5 Design: which windows are worth keeping?

`spare` takes the least recently used windows. But most windows are worth nothing from the start, because a match ends only where a prompt ends or two prompts diverge. Suppose we knew these places on one path: `ends` lists how many tokens come before each. Write `windows_to_keep(ends, window)`, which returns how many tokens of the path must keep their window.
"""


# %%
def windows_to_keep(ends, window):
    raise NotImplementedError  # delete this line; about 4 lines to write


check("12.5 windows_to_keep", windows_to_keep)

# %% [markdown]
"""
<details><summary>Hint</summary>

Each end needs the last `window` tokens before it, or all of them if there are fewer. Put them into one set.

</details>

<details><summary>Solution</summary>

```python
def windows_to_keep(ends, window):
    kept = set()
    for end in ends:
        kept.update(range(max(0, end - window), end))
    return len(kept)
```

</details>

#### 12.6 Bug hunt: the unlock that looks again

This `WindowTree` unlocks without its receipt, as SGLang did until {{engines sglang-24972|May 2026}}. Your function receives such a tree, with a window of two. Write calls after which the pins are wrong. You may call `serve(tokens)`, `find(tokens)`, `leave(found, receipt)`, and `free_windows(slots)`, which makes tokens dead. A request must leave with the values that its `find` returned. The first prompt gets the slots 0, 1, 2, and so on. Can you make the tree take the pin of *another* request?
"""

# %%
careless("12.6")


# %%
def calls_that_expose_it(tree):
    raise NotImplementedError  # delete this line, and add more calls
    tree.serve([1, 2, 3])
    anna = tree.find([1, 2, 3])
    tree.leave(*anna)


check("12.6 careless_leave", calls_that_expose_it)

# %% [markdown]
"""
<details><summary>Hint</summary>

A lock skips dead tokens. What if such a token comes back to life before the unlock?

</details>

<details><summary>Solution</summary>

```python
def calls_that_expose_it(tree):
    tree.serve([1, 2, 3])
    tree.free_windows([2])
    anna = tree.find([1, 2, 3])
    tree.serve([1, 2, 3])
    ben = tree.find([1, 2, 3])
    tree.leave(*anna)
```

</details>

## What it cost

Each node has one more small object, and a lock walks over the nodes of its window a second time. In a tree with tombstones, a match walks down twice: first to find the valid length, then to match that much.

A new invariant is also at risk: every window slot belongs to exactly one token or is free. `make_room` and `heal` move window slots between tokens, and a mistake there could leave one with two owners or with none.

[Which one do I choose?](which_design.ipynb) compares this design with the others. If some layers keep a state, there is one more to see: [chapter 15](15_layers_that_disagree.ipynb).

## In real engines

{{engines 12|`valid_length`; `hold`; `heal`}}

SGLang has one tree, in which {{engines sglang-components}} handles the windowed layers, beside a component for the full ones. vLLM looks up the last blocks of a prefix from right to left, as your `valid_length` does. It {{engines vllm-window-margin|needs one token fewer}} than the window, because a token also reads itself.

{{engines pymllm}} This chapter grew out of that tree, which has the bug you hunted in chapter 03: an insert drops the node that a split returns ({{engines pymllm-swa-split|`_insert_swa`}}), so the new branch would be attached to the wrong half, and a later match would return another prompt's keys and values.

## Recap

A layer with a sliding window reads only the last tokens, so a cached prefix stays useful as long as these are live. A lock holds only their windows, and its receipt lists exactly the slots to give back. The tokens farthest from the next one lose their windows first, the end of a leaf stays live, and a duplicate heals a tombstone by handing over its window slot.

**Check yourself**

1. A path has the tokens 0 to 9, and the window is 4. Only token 5 is dead. Which prefixes are valid?
2. Why does a lock return a receipt, although the path could be walked again?
3. From chapter 05: which end of a path leaves the tree first, and why is it the other end for windows?
4. From chapter 03: two requests compute the same tokens. Whose slots does the tree keep?

<details><summary>Answers</summary>

1. Those of up to 5 tokens, because they have no dead token, and the whole path, because tokens 6 to 9 are live.
2. Between lock and unlock, windows are freed and come back, so a second walk could find other tokens.
3. The end leaves the tree first, because a prefix without its beginning is useless. For windows, the beginning goes first, because only the end is read.
4. Those of the request that was inserted first. The duplicates are freed, and their windows move to tree slots without one.

</details>

**Read on**: [Longformer](https://arxiv.org/abs/2004.05150) · [Mistral 7B](https://arxiv.org/abs/2310.06825) · [vLLM's hybrid KV cache manager](https://docs.vllm.ai/en/latest/design/hybrid_kv_cache_manager.html)
"""

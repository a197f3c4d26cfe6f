# %% [markdown]
"""
# 12 · What if a layer forgets?

Some layers of a model look back a few hundred tokens and no further. Their keys and values are useless soon after they have been computed, while those of the other layers are needed to the end. By the end of this chapter your cache will free the first kind and keep the second. You will write four functions, about twenty lines.

**After this chapter you will be able to** *decide* where a prompt may go on when part of it has been forgotten, *protect* only what will be read, and *bring back* what another request has computed again.

{{time}} **Needs** chapters 02 to 05. **New words** sliding window, tombstone, window slot, receipt.

Here is where we are going, with a window of two tokens. Watch the notes on the nodes: tokens stay in the tree after their window has gone.
"""

# %%
from minikv import FreeListPool, SlidingWindowCache, draw, record

cache, pool = SlidingWindowCache(window=2), FreeListPool(12)
with record(cache, pool) as film:
    cache.insert([1, 2, 3, 4, 5, 6], pool.alloc(6))
    cache.evict(0, window_tokens=4)
    found = cache.acquire([1, 2, 3, 4, 5, 6])
    cache.insert([1, 2, 3, 4, 5, 6, 7], [*found.slots, *pool.alloc(1)], start=found)
    cache.unlock(found)
    again = pool.alloc(4)
    done = cache.insert([1, 2, 3, 9], again)
    pool.free(again[: done.prefix_length])
film.player(still=9)

# %% [markdown]
"""
## The problem

In a *full layer*, each token attends to every token before it. In a *windowed layer*, it attends to the last few only, its **sliding window**. A model may have layers of both kinds.

Take a model with 32 layers, 24 of which have a window of 1,024 tokens. A prompt has 32,000 tokens. Suppose that each layer keeps only the keys and values that tokens behind the prompt will read.
"""

# %%
# put a whole number in place of None, then run the next cell
guess("12.a", "what percentage of all keys and values is kept?", None)


# %%
def layers_times_tokens(full, windowed, window, tokens):
    return full * tokens + windowed * min(window, tokens)


everything = layers_times_tokens(32, 0, 0, 32_000)
kept = layers_times_tokens(8, 24, 1024, 32_000)
fold("12.a", round(100 * kept / everything))

# %% [markdown]
"""
<details><summary>Why</summary>

The eight full layers keep all of their keys and values, which is a quarter of everything. The 24 others keep 1,024 tokens out of 32,000: 3 percent of the other three quarters.

</details>

Nearly three quarters of the memory could serve other requests. But your tree has *one* slot for a token, for all layers together, and a cached prefix that has lost a part of its keys and values looks like any other. Suppose we free that part anyway. Then a request matches the first 30,000 tokens, and its windowed layers read the last 1,024 of them. They read the keys and values of somebody else.

## Build it

### Step 1: two slots for a token

We give each token two slots. One is its slot in the tree, as before, for the full layers. The other is a **window slot** in a second, smaller pool, for the windowed layers. A dictionary maps the first to the second:

    window_of = {slot: window slot}

A token with a window slot is *live*. To free its window means to take its slot out of the dictionary and to give the window slot back to its pool. The token is *dead* then, and stays in the tree as a **tombstone**: the full layers still have its keys and values, and the windowed layers have none.

Where may a request go on? A prompt of ten tokens, 0 to 9, is cached. Tokens 0 to 5 are tombstones, and the window is 3: the next token reads the last three before it.
"""

# %%
guess("12.b", "a prompt has the tokens 0 to 7. How many of them can be used?", None)

# %%
cache = SlidingWindowCache(window=3)
cache.insert(range(10), range(10), window_start=6)
lengths = {end: cache.match_prefix(range(10), limit=end).length for end in (8, 9)}
fold("12.b", lengths[8], f"of tokens 0 to 8: {lengths[9]}", draw(cache))

# %% [markdown]
"""
<details><summary>Why</summary>

None. The next token would read the window of tokens 5, 6 and 7, and token 5 is a tombstone. A shorter prefix ends with even more tombstones. With token 8 there are three live tokens at the end, and the full layers alone read what is before them.

</details>

A prefix is *valid* if a request may go on behind it. So a longer prefix can be valid where a shorter one is not. And a prefix without a dead token is valid however short it is: its window begins at the root.

#### 12.1 You write: `valid_length`

`slots` are the slots of the longest match. Return the length of its longest valid prefix. A prefix is valid if its last `window` slots are all in `window_of`; one with fewer slots is valid if all of them are. A path may have 100,000 slots, so don't look up more of them than you need.
"""


# %%
def valid_length(slots, window_of, window):
    """The length of the longest valid prefix of `slots`."""
    raise NotImplementedError  # delete this line; about 6 lines to write


valid_length = check("12.1 valid_length", valid_length)

# %%
window_of = {slot: 100 + slot for slot in (0, 1, 6, 7, 8, 9)}
for end in (10, 9, 8, 7, 2):
    print(end, "cached slots,", valid_length(list(range(end)), window_of, 3), "valid")

# %% [markdown]
"""
Slots 0 and 1 have kept their windows too, so a match that cannot use more falls back to them.

### Step 2: hold what will be read

A lock protects a whole path (chapter 04). For the windows that would be a waste. Anna and Ben have sent prompts of 1,000 tokens each. The first 990 are the same, and the window is 4.
"""

# %%
guess("12.c", "how many window slots must be protected for both of them?", None)

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

Four for each. The next token of Anna's answer reads the last four of *her* tokens, and the 990 that they share are far away.

</details>

#### 12.2 You write: `hold`

A *pin* is a lock on the window of a single slot, and `pins` is a dictionary from each pinned slot to the number of its pins. Add one pin to each of the last `window` slots, or to all of them if there are fewer. Return the list of these slots. This is the **receipt**: when the request leaves, each slot on it loses one pin, whatever has happened in between.
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
Why keep a receipt instead of looking again? Between lock and unlock, windows come and go. In {{engines sglang-24972}} a lock passed over a tombstone. Then the window came back, and the unlock, which looked again, released another request's lock.

### Step 3: what can be spared?

A request needs window slots, and too few are free. Which tokens lose theirs? Take the edges in the order of chapter 05: the one that was used longest ago goes first. Within an edge, which end goes first? The *beginning*: it is the furthest from the next token. (In the tree it is the other way around: there the end of a path goes first.)

And a leaf must keep its last window. Without it no request could go on behind the leaf, and its slots in the tree would be wasted. (A leaf shorter than the window needs the end of the edge above it, too. The package sees to that; your function may leave such a leaf useless.)

#### 12.3 You write: `spare`

`edges` is a list of pairs, the one used longest ago first: the slots of an edge, and whether it is a leaf. Return a list of the slots that can lose their window, in the order in which they go. Each of them has a window slot and no pin. The last `window` slots of a leaf are not among them.
"""


# %%
def spare(edges, window_of, pins, window):
    """The slots that can lose their window, the first to go first."""
    raise NotImplementedError  # delete this line; about 5 lines to write


spare = check("12.3 spare", spare)

# %%
window_of = {slot: 100 + slot for slot in range(10)}
edges = [([0, 1, 2, 3], False), ([4, 5, 6, 7, 8, 9], True)]
print(*spare(edges, window_of, {3: 1}, 2))

# %% [markdown]
"""
### Step 4: bring it back

A prompt ends among tombstones. The match cannot be used, so its tokens are computed again, in new slots. Then the prompt is inserted. The tree has these tokens already and keeps its own slots. But the duplicates have something that the tree's slots lack: a window.

Nothing has to be copied. The window slot changes hands: from now on it belongs to the *tree's* slot.

#### 12.4 You write: `heal`

`kept` are slots of the tree, and `twice` the duplicates of the same tokens, in the same order. Where the tree's slot has no window and the duplicate has one, move it in `window_of`. Return how many windows moved.
"""


# %%
def heal(window_of, kept, twice):
    """Move windows from `twice` to those of `kept` that have none; how many moved."""
    raise NotImplementedError  # delete this line; about 6 lines to write


heal = check("12.4 heal", heal)

# %% [markdown]
"""
### All together

This class joins your four functions with your tree and two of your pools. Read `serve`, the life of a request in the order of chapter 04.
"""

# %%
source(WindowTree)

# %% [markdown]
"""
Ten readers talk to the help desk, two turns each, and all prompts begin alike. There are 3,000 slots and only 400 window slots. The cell prints how many tokens each turn finds.
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
Each second turn finds the whole first one. A first turn finds the shared beginning, unless the windows where the prompts part have just gone to another reader. Then it finds nothing, computes the beginning once more, and heals it.
"""

# %%
guess("12.d", "at most how many of the cached tokens can have a window now?", None)

# %%
cached, live, can_go_on = tree.cache.total_size, len(tree.window_of), 0
for reader in range(10):
    last_turn = two_turns(reader)[1]
    found, receipt = tree.find(last_turn)
    tree.leave(found, receipt)
    can_go_on += found.length == len(last_turn)
said = f"{cached} tokens are cached, {live} of them have a window"
fold("12.d", tree.windows.size, said, f"{can_go_on} of 10 conversations can go on")

# %% [markdown]
"""
<details><summary>Why</summary>

There are 400 window slots, and each belongs to one token. So about half of the tokens in the tree are tombstones. They are in the middle of the paths, where no prompt goes on, so no conversation has lost anything.

</details>

## The same in `minikv`

`SlidingWindowCache` has no dictionary of windows. Seen from the root, an edge has its dead tokens first, then the live ones, and what locks need is at its end. So two positions are enough, `live_from` and `pinned_from`, and neither a lock nor a freed window ever cuts an edge. They are kept beside each node of the tree:
"""

# %%
from minikv.prefix.windows import WindowState

source(WindowState)

# %% [markdown]
"""
Does its match end where your `valid_length` says? Take a thousand random paths. Some of their tokens have a window, and `match_of` builds the same path in the package: each `insert` adds one live token, and whatever it adds before that is dead.
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
`WindowedManager` knows both kinds of slots. It takes window slots when a request starts, and gives them back as the request advances. Does anything read them after that? A canary (chapter 04) watches both stores.
"""

# %%
from minikv import CanaryError, Engine, WindowCanaryModel, WindowedManager, WindowedPool

pool = WindowedPool(2000, num_window_pages=200)
manager, model = WindowedManager(pool, window=8), WindowCanaryModel(pool, window=8)
engine = Engine(model, manager)
prompts = [SYSTEM + list(b"Reader %d asks: when?" % reader) for reader in range(20)]
first, second = ([g.tokens for g in engine.generate(prompts, 10)] for _ in range(2))
print(f"{model.owners} tokens, {pool.windows.size} window slots, no wrong read")
print("the same answers from the cache:", first == second)

# %% [markdown]
"""
And what if a window slot is given back too early?
"""

# %%
pool = WindowedPool(200, num_window_pages=200)
model = WindowCanaryModel(pool, window=8)
engine = Engine(model, WindowedManager(pool, window=8))
request = engine.submit(SYSTEM + list(b"Is it open?"), 10)
engine.step()
pool.free_window([request.sequence.slots[-2]])
try:
    engine.step()
except CanaryError as error:
    print(error)

# %% [markdown]
"""
The next cell needs PyTorch. It gives three of the five layers of the course's small model a window of 16 tokens, and two stores.
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

Two conversations share a beginning, and the window is 2. Step through the film. Each `evict` asks for one window slot. Before it, say which tokens will lose their window. Why does the second `evict` free two slots of the tree as well?
"""

# %%
cache, pool = SlidingWindowCache(window=2), FreeListPool(16)
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

By then `8 9` is the edge that was used longest ago, and it is a leaf with just its last window. Without that window no request could go on behind the leaf, so the whole leaf goes.

</details>
"""

# %% [markdown]
"""
## More to try

#### 12.5 Design: which windows are worth keeping?

`spare` takes the windows that were used longest ago. But most windows are worth nothing from the start: a match ends where a prompt ends, or where two of them part. Suppose that we knew these places on one path. `ends` lists how many tokens come before each of them. Write `windows_to_keep(ends, window)`: how many tokens of the path must keep their window? (And how would an engine find these places?)
"""


# %%
def windows_to_keep(ends, window):
    raise NotImplementedError  # delete this line; about 4 lines to write


check("12.5 windows_to_keep", windows_to_keep)

# %% [markdown]
"""
<details><summary>Hint</summary>

Each end needs the last `window` tokens before it, or all there are. Put them into one set.

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

This `WindowTree` unlocks without its receipt, as SGLang did until {{engines sglang-24972}}. Your function is given such a tree, with a window of two. Write calls of its `serve(tokens)`, `find(tokens)`, `leave(found, receipt)` and `free_windows(slots)`, which kills tokens, after which the pins are wrong. The first prompt gets the slots 0, 1, 2, and so on. Can you make it take the pin of *another* request?
"""

# %%
from minikv.course.pieces import careless

careless("12.6")


# %%
def calls_that_expose_it(tree):
    raise NotImplementedError  # delete this line, and add calls to the others
    tree.serve([1, 2, 3])
    anna = tree.find([1, 2, 3])
    tree.leave(*anna)


check("12.6 careless_leave", calls_that_expose_it)

# %% [markdown]
"""
<details><summary>Hint</summary>

A lock passes over what is dead. What if that comes back to life before the unlock?

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

Each node has one more small object, and a lock walks once more over the nodes of its window. In a tree with tombstones a match walks down twice: first to see where it is valid, then to take it.

You have now seen every design of this course. [Which one do I choose?](which_design.ipynb) compares them.

## In real engines

{{engines 12}}

{{engines pymllm}} Its tree is the one that this chapter began from. Where all of a prompt has lost its window, {{engines pymllm-off-by-one}} stores it as live. When a leaf goes, {{engines pymllm-one-level}}, and the tombstones above that stay. The hash of a page {{engines pymllm-hash}}, so it depends on the order in which hashes are asked for.

SGLang had a tree of this kind too. By now the window is a component of its one tree ({{engines sglang-components}}), beside one for full layers. vLLM has no tree. It asks for the last blocks of a prefix from right to left, as your `valid_length` does, and {{engines vllm-window-margin}}: a token reads itself as well, so one token fewer than the window is enough.

## Recap

A layer with a sliding window reads only the last tokens, so a cached prefix may lose a part of its keys and values and stay useful. It can be used where the last window is there. A lock holds that window and no more, and its receipt says exactly what to give back. The tokens furthest from the next one lose their windows first, a leaf keeps its last window, and a duplicate heals a tombstone by handing over its window slot.

**Check yourself**

1. A path has the tokens 0 to 9, and the window is 4. Only token 5 is dead. Prefixes of which lengths are valid?
2. Why does a lock return a receipt, when the path could be walked again?
3. From chapter 05: in the tree, which end of a path goes first, and why is it the other end for windows?
4. From chapter 03: two requests compute the same tokens. Whose slots does the tree keep?

<details><summary>Answers</summary>

1. Up to 5: they have no dead token. And 10: tokens 6 to 9 are live.
2. Between lock and unlock, windows are freed and come back. A second walk would find other tokens.
3. In the tree the end goes first, because a prefix without its beginning is useless. For windows the beginning goes first, because only the end is read.
4. Its own. The duplicates are freed, and a window among them moves to the tree's slot.

</details>

**Read on**: [Longformer](https://arxiv.org/abs/2004.05150) · [Mistral 7B](https://arxiv.org/abs/2310.06825) · [vLLM's hybrid KV cache manager](https://docs.vllm.ai/en/latest/design/hybrid_kv_cache_manager.html)
"""

# %% [markdown]
"""
# 12 · What if a layer forgets?

Some layers of a model look at a few hundred tokens and no further. Their keys and values are useless soon after they were computed, while those of the other layers are needed to the end. By the end of this chapter your cache will free the first kind and keep the second. You will write four functions, about twenty lines.

**After this chapter you will be able to** *decide* where a prompt may go on when part of it has been forgotten, *protect* only what will be read, and *bring back* what another request has computed again.

{{time}} **Needs** chapters 02 to 05. **New words** sliding window, tombstone, window slot.

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
    pool.free(again[: cache.insert([1, 2, 3, 9], again).prefix_length])
film.player(still=9)

# %% [markdown]
"""
## The problem

In a **full layer**, each token attends to every token before it. In a layer with a **sliding window**, it attends to the last few only. A model may have layers of both kinds.

Take a model with 32 layers, 24 of which have a window of 1,024 tokens. A prompt has 32,000 tokens, and each layer keeps only the keys and values that a later token will read.
"""

# %%
# put a whole number in place of None, then run the next cell
guess("12.a", "how many percent of all keys and values are still needed?", None)


# %%
def layers_times_tokens(full, windowed, window, tokens):
    return full * tokens + windowed * min(window, tokens)


everything = layers_times_tokens(32, 0, 0, 32_000)
needed = layers_times_tokens(8, 24, 1024, 32_000)
fold("12.a", round(100 * needed / everything))

# %% [markdown]
"""
<details><summary>Why</summary>

The eight full layers need all of their keys and values, a quarter of everything. The 24 others need 1,024 tokens out of 32,000, about three in a hundred.

</details>

Three quarters of the memory could serve other requests. But your tree has *one* slot for a token, for all layers together, and a cached prefix that has lost a part of its keys and values looks like any other. Suppose we free that part anyway. A request matches 30,000 tokens, and its windowed layers look for the last 1,024 of them. They find the keys and values of somebody else.

## Build it

### Step 1: two slots for a token

We give each token two slots. One is its slot in the tree, as before, for the full layers. The other is a **window slot** in a second, smaller pool, for the windowed layers. A dictionary maps the first to the second:

    window_of = {slot: window slot}

A token with a window slot is *live*. To free its window, take it out of the dictionary and give the window slot back to its pool. The token is *dead* then, and stays in the tree as a **tombstone**: the full layers still have its keys and values, and the windowed layers have none.

Where may a request go on? A prompt of ten tokens is cached. The first six are tombstones, and the window is 3.
"""

# %%
guess("12.b", "the first 8 tokens are asked for. How many can be used?", None)

# %%
cache = SlidingWindowCache(window=3)
cache.insert(range(10), range(10), window_start=6)
lengths = {end: cache.match_prefix(range(10), limit=end).length for end in (8, 9)}
fold("12.b", lengths[8], f"of the first 9: {lengths[9]}", draw(cache))

# %% [markdown]
"""
<details><summary>Why</summary>

None. The ninth token would look at tokens 6, 7 and 8, and token 6 is a tombstone. No shorter prefix is better. With nine tokens there are three live ones at the end, and everything before them is read by the full layers alone.

</details>

So a longer match can be valid where a shorter one is not. And a path on which nothing is dead is valid however short it is: the window begins at the root.

#### 12.1 You write: `valid_length`

`slots` are the slots of the longest match. Return the length of its longest prefix at whose end the last `window` slots have a window slot, or *all* slots, if the prefix is shorter than that. A path may have 100,000 slots, so don't read more of it than you need.
"""


# %%
def valid_length(slots, window_of, window):
    """The longest prefix of `slots` behind which a windowed layer can go on."""
    raise NotImplementedError  # delete this line; about 6 lines to write


valid_length = check("12.1 valid_length", valid_length)

# %%
window_of = {slot: 100 + slot for slot in (0, 1, 6, 7, 8, 9)}
for end in (10, 9, 8, 7, 2):
    print(end, "cached slots,", valid_length(list(range(end)), window_of, 3), "valid")

# %% [markdown]
"""
The first two slots have kept their windows, so a match that cannot use more falls back to them.

### Step 2: hold what will be read

A lock protects a whole path (chapter 04). For the window that would be a waste. Anna and Ben read prompts of 1,000 tokens each. They share the first 990, and the window is 4.
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

Count one more pin in `pins`, a dictionary from slot to number, for each of the last `window` slots. Return the list of these slots. It is the receipt: when the request leaves, one pin is taken from each slot on it, whatever has happened in between.
"""


# %%
def hold(pins, slots, window):
    """Pin each of the last `window` slots; return these slots, the receipt."""
    raise NotImplementedError  # delete this line; about 4 lines to write


hold = check("12.2 hold", hold)

# %% [markdown]
"""
Why keep a receipt instead of looking again? Between lock and unlock, windows come and go. In {{engines sglang-24972}} a lock passed over a tombstone. Then the window came back, and the unlock, which looked again, released another request's lock. (You will hunt that bug below.)

### Step 3: what can be spared?

Room is needed for window slots. The edges come in the order of chapter 05, the one that was used longest ago first. Within an edge, which end goes first? The *beginning*: it is the furthest from the next token. (For the tree it was the other way around. There the end of a path had to go first.)

And a leaf must keep its last window. Without it no request could go on behind the leaf, and its slots in the tree would be wasted.

#### 12.3 You write: `spare`

`edges` is a list of pairs: the slots of an edge, and whether it is a leaf. Return the slots that can lose their window, in the order in which they go: those that have a window slot and no pin. The last `window` slots of a leaf stay.
"""


# %%
def spare(edges, window_of, pins, window):
    """The slots that can lose their window, the first to go first."""
    raise NotImplementedError  # delete this line; about 5 lines to write


spare = check("12.3 spare", spare)

# %%
window_of = {slot: 100 + slot for slot in range(10)}
edges = [([0, 1, 2, 3], False), ([4, 5, 6, 7, 8, 9], True)]
print(spare(edges, window_of, {3: 1}, 2))

# %% [markdown]
"""
### Step 4: bring it back

A prompt ends in the middle of a tombstone. The match cannot be used, so its tokens are computed again, in new slots. Then the prompt is inserted. The tree has these tokens already and keeps its own slots, as it always does. But the duplicates have something that the tree's slots lack: a window.

We need not copy a single key. The window slot changes hands: the map sends the *tree's* slot to it from now on.

#### 12.4 You write: `heal`

`kept` are slots of the tree, `twice` the duplicates of the same tokens. Where the tree's slot has no window and the duplicate has one, move it. Return how many moved.
"""


# %%
def heal(window_of, kept, twice):
    """Move windows from `twice` to those of `kept` that have none; how many moved."""
    raise NotImplementedError  # delete this line; about 6 lines to write


heal = check("12.4 heal", heal)

# %% [markdown]
"""
### All together

This class joins your four functions with your tree and two of your pools. Read `serve`: it is the life of a request, in the order of chapter 04.
"""

# %%
source(WindowTree)

# %% [markdown]
"""
Ten readers talk to the help desk, two turns each, and all prompts begin alike. There are 3,000 slots and only 400 window slots.
"""

# %%
SYSTEM = list(b"You are the help desk of a library. Be brief. ")


def two_turns(reader):
    first = list(b"Reader %d asks: when do you open today, and until when?" % reader)
    return SYSTEM + first, SYSTEM + first + list(b" At nine. And tomorrow?")


tree = WindowTree(3000, 400, window=8)
for reader in range(10):
    print(reader, [tree.serve(turn) for turn in two_turns(reader)], end="; ")

# %% [markdown]
"""
Each second turn finds the whole first one. A first turn finds the shared beginning, unless the windows at the place where the prompts part have just gone to somebody else: then it finds nothing, computes the beginning once more, and heals it.
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

There are 400 window slots, and each belongs to one token. About half of the tokens in the tree are tombstones. They are in the middle of the paths, where nobody goes on, so no conversation has lost anything.

</details>

## The same in `minikv`

`SlidingWindowCache` keeps no flag and no dictionary. Look at an edge from the root: dead tokens come first, live ones behind them, and what locks need is at the end. So two positions are enough, `live_from` and `pinned_from`, and neither a lock nor a freed window ever cuts an edge. The state of the windowed layers is a component beside the tree:
"""

# %%
from minikv.prefix.windows import WindowState

source(WindowState)

# %% [markdown]
"""
With `window=None` it is the radix tree, operation by operation. Here are a thousand of them.
"""

# %%
import random

import minikv

chance, pair = random.Random(12), (minikv.RadixCache(), SlidingWindowCache())
for number in range(1000):
    tokens = chance.choices([0, 1], k=chance.randint(1, 12))
    found = []
    for cache in pair:
        done = cache.insert(tokens, range(20 * number, 20 * number + len(tokens)))
        freed = cache.evict(number % 5).tolist()
        found.append((done.prefix_length, freed, [n.id for n in cache.nodes()]))
    assert found[0] == found[1]
print("equal in 1000 rounds")

# %% [markdown]
"""
A manager that knows both kinds of slots takes window slots when a request starts, and gives them back as the request advances. Does anybody read them after that? A canary watches both stores.
"""

# %%
from minikv import CanaryError, Engine, WindowCanaryModel, WindowedManager, WindowedPool

pool = WindowedPool(2000, num_window_pages=200)
manager, model = WindowedManager(pool, window=8), WindowCanaryModel(pool, window=8)
engine = Engine(model, manager)
prompts = [SYSTEM + list(b"Reader %d asks: when?" % reader) for reader in range(20)]
first, second = ([g.tokens for g in engine.generate(prompts, 10)] for _ in range(2))
print(f"{model.owners} tokens in {pool.windows.size} window slots, no wrong read")
print("the same answers from the cache:", first == second)

# %% [markdown]
"""
And if a window slot is given back one step too early?
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
The next cell needs PyTorch. It gives three of the five layers of the course's small model a window of 16 tokens, and two stores. (The model was not trained for that, so don't mind what it says.)
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

Two conversations share a beginning, and the window is 2. Step through the film. Before each `evict`, say which tokens will lose their window. Both times room for one token is asked for. Why does the second one free two slots of the tree as well?
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

`8 9` is the oldest edge by then, a leaf with just its last window. If that goes, nobody can go on behind it, so the whole leaf goes.

</details>
"""

# %% [markdown]
"""
## More to try

#### 12.5 Design: which windows are worth keeping?

`spare` takes the windows that were used longest ago. But most windows are worth nothing from the start: a match ends where a prompt ends, or where two of them part. Suppose that we knew these places. Write `windows_to_keep(ends, window)`: how many tokens of one path must keep their window, if matches will end behind `ends` tokens of it? How would an engine find out where they are?
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

`TinyWindows` is one path of tokens. `CarelessWindows` differs in one method: it unlocks without a receipt, as SGLang did until {{engines sglang-24972}}. Find a script after which the pins are wrong. Can you make it take the pin of *another* request?
"""

# %%
from minikv.course.exercises.ch12 import CarelessWindows, TinyWindows
from minikv.course.exercises.judge import Script

source(TinyWindows, CarelessWindows)


# %%
def script_that_breaks_it():
    raise NotImplementedError  # delete this line, and add operations to the others
    lock, unlock = ("lock", ("Anna",)), ("unlock", ("Anna",))
    return Script((2,), (("grow", (3,)), lock, unlock))


check("12.6 CarelessWindows", script_that_breaks_it)

# %% [markdown]
"""
<details><summary>Hint</summary>

A lock passes over what is dead. What if that comes back to life before the unlock?

</details>

<details><summary>Solution</summary>

```python
def script_that_breaks_it():
    anna, ben = ("lock", ("Anna",)), ("lock", ("Ben",))
    dead, alive = ("bury", (2,)), ("heal", (2,))
    steps = (("grow", (3,)), dead, anna, alive, ben, ("unlock", ("Anna",)))
    return Script((2,), steps)
```

</details>

## What it cost

A node of the tree carries one small object more, a lock walks once more over the nodes of its window, and a match in a tree with tombstones walks down twice: first to see where it is valid, then to take it. And a new question is open that a plain tree never had: which windows go first? Finally, here are all the designs of chapters 03 to 12 on the same prompts, in pages of 4 tokens.
"""

# %%
from minikv import pack
from minikv.measure import TraceRequest, replay
from minikv.prefix import index_named

work = [[*SYSTEM, *b"Reader %d asks for room %d" % (i % 40, i % 7)] for i in range(400)]
trace = [TraceRequest(0, 0, 0, pack(tokens)) for tokens in work]
print("index    hits, all fits   hits, 300 fit   nodes or blocks")
for name in ("radix", "trie", "hash", "window"):
    wide, tight = (index_named(name, 4) for _ in range(2))
    hits = [replay(trace, wide).hits, replay(trace, tight, capacity=300).hits]
    print(f"{name:8} {hits[0]:14} {hits[1]:15} {len(list(wide.nodes())):17}")

# %% [markdown]
"""
While all fits, every design finds the same tokens: they answer one question. They differ in what an entry is, in what goes first, and in what else they can do.

| | radix tree | token trie | hashed blocks | sliding windows |
|---|---|---|---|---|
| an entry is | a run of tokens | one token | one page | a run of tokens |
| changes shape when asked | yes | no | no | yes |
| names that other machines know | no | no | yes | yes, on demand |
| layers that forget | no | no | no | yes |
| policies | seven | one | one | seven, and one for windows |

The time of a lookup depends on the machine; this output is not stored.
"""

# %% tags=["nbval-ignore-output", "measured"]
from timeit import timeit

for name in ("radix", "trie", "hash", "window"):
    cache = index_named(name, 4)
    for number, tokens in enumerate(work):
        cache.insert(tokens, range(50 * number, 50 * number + len(tokens) // 4))
    seconds = timeit(lambda: [cache.match_prefix(tokens) for tokens in work], number=5)
    print(f"{name:8} {seconds / 5 / len(work) * 1e6:6.1f} microseconds a lookup")

# %% [markdown]
"""
## In real engines

{{engines 12}}

{{engines pymllm}} Its tree is the one that this chapter began from. Where all of a prompt has lost its window, {{engines pymllm-off-by-one}} stores it as live. When a leaf goes, {{engines pymllm-one-level}}, and the tombstones above that stay. The hash of a page {{engines pymllm-hash}}, so it depends on the order in which hashes are asked for.

SGLang had a tree of this kind too. By now the window is a component of its one tree ({{engines sglang-components}}), beside one for full layers. vLLM has no tree. It asks for the last blocks of a prefix from right to left, as your `valid_length` does, and {{engines vllm-window-margin}}: a token reads itself as well, so one token fewer than the window is enough.

## Recap

A layer with a sliding window reads only the last tokens, so a cached prefix may lose a part of its keys and values and stay useful. It can be used where the last window is there. Locks hold that window and no more, and give back exactly what they took. What is furthest from the next token goes first, a leaf keeps its last window, and a duplicate heals a tombstone by handing over its window slot.

**Check yourself**

1. A path of 10 tokens, the window is 4, and token 5 alone is dead. Which lengths are valid?
2. Why does a lock return a receipt, when the path could be walked again?
3. From chapter 05: in the tree, which end of a path goes first, and why is it the other end for windows?
4. From chapter 03: two requests compute the same tokens. Whose slots does the tree keep?

<details><summary>Answers</summary>

1. Up to 5: nothing before their end is dead. Then 10: tokens 6 to 9 are live.
2. Between lock and unlock, windows are freed and come back. A second walk would find other tokens.
3. In the tree the end goes first, because a prefix without its beginning is useless. For windows the beginning goes first, because only the end is read.
4. Its own. The duplicates are freed, and a window among them moves to the tree's slot.

</details>

**Read on**: [Longformer](https://arxiv.org/abs/2004.05150) · [Mistral 7B](https://arxiv.org/abs/2310.06825) · [vLLM's hybrid KV cache manager](https://docs.vllm.ai/en/latest/design/hybrid_kv_cache_manager.html)
"""

# %% [markdown]
"""
# 14 · Where does evicted KV go?

So far, the keys and values that your cache evicts are lost. They could wait in host memory, which is usually far larger than GPU memory. You will write five functions, about thirty-five lines in all, that decide what is copied out, what is loaded back, and when loading is not worth it.

**After this chapter you will be able to** *say* when loading beats computing, *keep* two memories consistent while bytes move between them, and *choose* a write policy by its cost.

{{time}} **Needs** chapters 02, 04, 05, 06, 10 and 13. **New words** tier, demotion, write policy, write-back, write-through.

**In this notebook already** `Pool` from chapter 02 and `load_or_compute` from 06, yours or the package's, and the classes `Block` and `Tiers`, which call your functions.

Here is where we are going: coding agents share one GPU for two hours. Without host memory, computing their prompts takes longer than that. Your code cuts it to a fifth of the two hours.
"""

# %%
from minikv import KVShape, RadixCache, asset, draw, play, plot
from minikv.traffic import open_traffic, replay

llama = KVShape.from_config("llama-3.1-8b")
TOKEN_BYTES, BLOCK = 131_072, 512  # bytes per token, tokens per block
TOKEN_FLOPS, SPEED = 16.06e9, 400e12  # FLOPs per token, and per second (chapter 06)
ATTENTION = 2 * llama.num_layers * llama.num_heads * llama.head_dim
MODEL = TOKEN_FLOPS, ATTENTION, SPEED


# %%
def traffic(name):
    with open_traffic(asset(f"traffic/{name}.jsonl.gz"), span_hours=1) as opened:
        return list(opened.requests)


def seconds(new, cached):
    """Return the time to compute `new` blocks after `cached` ones."""
    n, m = BLOCK * new, BLOCK * cached
    return (n * TOKEN_FLOPS + (n**2 + 2 * n * m) * ATTENTION) / SPEED


# %%
TWO_HOURS, PAGES = 2 * 3_600_000, 960  # milliseconds; blocks on the GPU
agents = [each for each in traffic("agents") if each.timestamp < TWO_HOURS]
agents = [each for each in agents if len(each.blocks) <= PAGES]


# %%
def through(trace, tiers):
    """Return, for each request, blocks it waits for, blocks loaded, compute seconds."""
    rows = []
    for request in trace:
        before = tiers.stalled
        found, loaded, new = tiers.serve(request.blocks.tolist())
        rows.append((tiers.stalled - before, loaded, seconds(new, found + loaded)))
    return rows


def hours(rows):
    return sum(compute for _, _, compute in rows) / 3600


# %%
room = [0, 1024, 2048, 4096, 8192]  # blocks of 64 MiB
line = [hours(through(agents, Tiers(PAGES, pages))) for pages in room]
gigabytes = {"host memory, in GiB": [pages // 16 for pages in room]}
lines = {"computing": line, "the two hours": [2] * len(room)}
plot("22 coding agents, Llama 3.1 8B", gigabytes, lines, "hours")

# %% [markdown]
"""
## The problem

The model is Llama 3.1 8B. A block is 512 tokens, or 64 MiB of keys and values, so 60 GiB on the GPU holds 960 blocks. The requests are those of chapter 13's agents in the first two hours, without those that don't fit. (Some exceed the model's 131,072 tokens, but only their cost matters here.) How much does an LRU cache have to compute again?
"""

# %%
done = replay(agents, RadixCache(evict_by="page"), PAGES)
distinct = len({block for request in agents for block in request.blocks.tolist()})
computed = done.blocks - done.hits
print(f"{computed:,} blocks computed, {distinct:,} different ones")
print(f"computed again: {1 - distinct / computed:.0%}")

# %% [markdown]
"""
These blocks had been evicted. They could have been copied to host memory and back instead. A place where keys and values are kept is called a **tier**: the memory of the GPU (the *device*) is the first tier, host memory the second.

## Build it

### Step 1: is it worth loading?

In chapter 06, loading took bytes ÷ link, and computing took FLOPs ÷ speed. For short prompts, attention costs little, so both times grow in step with the number of tokens. This *number* cancels out, and a link is either fast enough or not.
"""


# %%
def link_needed(token_bytes, token_flops):
    """The GB per second at which loading a token takes as long as computing it."""
    return token_bytes / (token_flops / SPEED) / 1e9


print(f"Llama 3.1 8B: {link_needed(TOKEN_BYTES, TOKEN_FLOPS):.1f} GB per second")

# %% [markdown]
"""
Llama 3.1 70B has the same KV heads in each layer, but 80 layers instead of 32, and 70.6 × 10⁹ parameters instead of 8.03 × 10⁹. (A token takes 2 FLOPs per parameter.) How many GB per second must a link deliver for this model, on equally fast GPUs?
"""

# %%
# put a number in place of None, then run the next cell
guess("14.a", "how many GB per second for the 70B? (one decimal)", None)

# %%
layers = KVShape.from_config("llama-3.1-70b").num_layers / llama.num_layers
answer = link_needed(TOKEN_BYTES * layers, 2 * 70.6e9)
fold("14.a", round(answer, 1), f"{layers:.1f} times the bytes per token")

# %% [markdown]
"""
<details><summary>Why</summary>

A token has 2.5 times the bytes but takes 8.8 times the FLOPs, so a slower link is enough for the larger model.

</details>

Usually, only the last tokens of a prompt have left the device. These attend to the beginning as well, so they take longer to compute.

#### 14.1 You write: `worth_loading` (5 minutes)

Return whether loading `num_tokens` tokens is faster than computing them (`True` or `False`). The `cached` tokens before them are on the device. Each new token makes a pair with each cached token, and a pair takes 2 × `attention_flops` FLOPs. You may call your `load_or_compute(num_tokens, token_bytes, link, token_flops, attention_flops, speed)` from chapter 06, which returns `"load"` or `"compute"` for a prompt with nothing before it.
"""


# %%
def worth_loading(
    num_tokens, cached, token_bytes, link, token_flops, attention_flops, speed
):
    """Return whether loading `num_tokens` tokens after `cached` ones is faster."""
    raise NotImplementedError  # delete this line; about 2 lines to write


worth_loading = check("14.1 worth_loading", worth_loading)

# %%
for cached in (0, 8_000, 32_000):
    rates = 50e9, 3e9
    worth = [worth_loading(1000, cached, TOKEN_BYTES, rate, *MODEL) for rate in rates]
    print(f"1,000 tokens after {cached:6,}: host memory {worth[0]}, network {worth[1]}")

# %% [markdown]
"""
From host memory, at 50 GB per second, loading is always worth it here; over a network, at 3 GB per second, only after a long beginning.

### Step 2: two places for a block

The index is a dictionary, as in chapter 10: the key of a block stands for everything up to its end. Here a block has one token, a letter, and its key is the prompt up to this letter. The picture shows only the last letter of each key.
"""

# %%
source(Block)


# %%
def prefixes(prompt):
    return [prompt[: at + 1] for at in range(len(prompt))]


tiers = Tiers(device_pages=4, host_pages=4)
for prompt in ("abcd", "xy"):
    found, loaded, computed = tiers.serve(prefixes(prompt))
    print(f"{prompt}: found {found}, loaded {loaded}, computed {computed}")
draw(tiers)

# %% [markdown]
"""
`D` means that a block has a page on the device, `H` that it has one in host memory. The end of `abcd` had to make room for `xy`, so it is only in host memory, while the beginning is in both.

Why is it in both? On the device, only leaves are evicted, so if a block is there, so are all blocks before it. This cache keeps the same **invariant** in host memory: *a block may be there only if its parent is*. Then host memory can provide a whole prefix, whatever the device evicts. SGLang's write-through {{engines sglang-ancestors-first}}. In {{engines sglang-31902}}, a block from storage was put below one without a host copy.

When host memory is full, the least recently used block leaves it, unless that block has to stay. In the next picture, `a` is the least recently used, followed by `ab`, `x` and `xy`. Which block leaves first?
"""

# %%
from minikv.course.pieces.ch14 import planted_tiers  # puts blocks where we want them

tiers = planted_tiers(globals(), [("ab", 2, 2, 0), ("abc", 3, 2, 0), ("xy", 0, 2, 0)])
draw(tiers)

# %%
guess("14.b", "which block leaves host memory first? Write its key, like 'xy'", None)

# %%
order = "in order of use: " + " ".join(block.key for block in tiers.in_host)
fold("14.b", host_victim(tiers.in_host).key, order)

# %% [markdown]
"""
<details><summary>Why</summary>

`a` has to stay, because its child `ab` is in host memory. `ab` has a child too, but this child is only on the device and needs nothing in host memory.

</details>

#### 14.2 You write: `host_victim` (10 minutes)

`in_host` is a dictionary whose keys are the blocks in host memory, the least recently used first (all values are `None`). Return the first block that may leave, or `None` if all have to stay; look at no block after it. A block has to stay while one of its children is in host memory, or while it has `host_locks`, because its host page is being read or written. `block.children` is a dictionary from keys to blocks. Change nothing.
"""


# %%
def host_victim(in_host):
    """Return the oldest block that may leave host memory, or None."""
    raise NotImplementedError  # delete this line; about 5 lines to write


host_victim = check("14.2 host_victim", host_victim)

# %% [markdown]
"""
### Step 3: demote instead of free

When the device needs room, each victim is copied to host memory before its page is freed. That is a **demotion**. The invariant requires more: all blocks before the victim must be in host memory, too.

#### 14.3 You write: `copy_out` (20 minutes)

`path` lists the blocks of a prompt from the first one on, each on the device, in host memory, or both. Copy those that are not in host memory, and return how many you copied. If host memory runs out, stop, and keep the copies you have made. You may call:

| call | what it does | returns |
|---|---|---|
| `tiers.host_page()` | takes a host page; if none is free, evicts the block that your `host_victim` finds | the page, or `None` if there is none |
| `tiers.copy(block, page)` | copies a block from the device to this host page, and sets `block.host` | nothing |

No victim may be on `path` itself (chapter 04), so add 1 to the `host_locks` of its blocks first, and subtract it at the end.
"""


# %%
def copy_out(tiers, path):
    """Copy the blocks of `path` that host memory lacks; return how many."""
    raise NotImplementedError  # delete this line; about 12 lines to write


copy_out = check("14.3 copy_out", copy_out)

# %%
copied, loaded, compute = max(through(agents, Tiers(PAGES, 8192)))  # 512 GiB
wait = copied * BLOCK * TOKEN_BYTES / 50e9
print(f"one request waits for {copied} blocks to be copied: {wait:.2f} s at 50 GB/s")
print(f"then it loads {loaded} blocks and computes for {compute:.2f} s")

# %% [markdown]
"""
That is the price of a demotion: the pages are needed *now*, and their bytes have to leave first, so the request *stalls*. The pages hold only the ends of other agents' prompts, but the invariant requires the whole prompts in host memory.

### Step 4: when to copy

So copy earlier. A **write policy** says when a block is copied out:

- *write_back* (**write-back**): when the device evicts it, as in step 3.
- *write_through* (**write-through**): as soon as it has been computed. An eviction then frees the page at once.
- *write_through_selective*: as soon as a second request has used it (counted in `block.hits`, which is lost with the block).

Try the third policy on two prompts that take turns, `abc` and `xyz`, three times each. The device has room for three blocks, host memory for eight. How many blocks do the six requests load in all?
"""

# %%
guess("14.c", "how many blocks do the six requests load in all?", None)


# %%
def served(write):
    tiers = Tiers(device_pages=3, host_pages=8, write=write)
    for prompt in ("abc", "xyz") * 3:
        tiers.serve(prefixes(prompt))
    return tiers.loaded


loads = {name: served(name) for name in ("write_back", "write_through")}
fold("14.c", served("write_through_selective"), str(loads))

# %% [markdown]
"""
<details><summary>Why</summary>

Each prompt is evicted by the other before its second use. Its blocks were never copied, so nothing is left of them, not even their counts.

</details>

Now serve the agents with 512 GiB of host memory, and chapter 13's chat with room for 2,764 blocks on the device and 20,000 in host memory:
"""

# %%
traces = ("agents", agents, (PAGES, 8192)), ("chat", traffic("chat"), (2764, 20000))
print(f"{'':31}{'copied':>9}{'longest wait':>14}{'computing':>11}")
for name, requests, pages in traces:
    for write in "write_back", "write_through", "write_through_selective":
        tiers = Tiers(*pages, write=write)
        rows = through(requests, tiers)
        copied, wait = (n * BLOCK * TOKEN_BYTES for n in (tiers.copied, max(rows)[0]))
        counts = f"{copied / 1e12:6.2f} TB{wait / 50e9:12.2f} s{hours(rows):9.2f} h"
        print(f"{name:7}{write:24}{counts}")

# %% [markdown]
"""
*write_through* copies a little more than *write_back*, but no request waits for its copies. The selective policy copies less, but the agents then compute three times as long. For the chat, it is nearly useless, because most blocks are evicted before their second use.

### Step 5: load blocks back

A request finds some blocks on the device and the next ones only in host memory. To load these, it needs device pages, so other blocks may be demoted, which takes host pages. The victim in host memory may be a block that is about to be loaded.

#### 14.4 You write: `load_back` (15 minutes)

Start to load the blocks of `path` whose `device` is `None`, and return the blocks being loaded as a new list, in order. With fewer pages than blocks, load only the first ones. You may call:

| call | what it does | returns |
|---|---|---|
| `tiers.take(count)` | makes room on the device as far as it can, which may evict from both memories | a list of up to `count` device pages |
| `tiers.start(block, page)` | starts to load a block into this page, and sets `block.device` | nothing |

The bytes arrive later, and until then the host page must stay. So add 1 to the `host_locks` of each block that is being loaded; `Tiers` subtracts it when the bytes arrive. A block that gets no page keeps no lock.
"""


# %%
def load_back(tiers, path):
    """Start to load the blocks of `path` that are only in host memory; return them."""
    raise NotImplementedError  # delete this line; about 9 lines to write


load_back = check("14.4 load_back", load_back)

# %% [markdown]
"""
Under *write_back*, let the device and host memory have four pages each. `abcd` comes in, then `wxyz`, then `abcd` again. How many different blocks do the two memories hold at the end?
"""

# %%
guess("14.d", "how many different blocks do the two memories hold at the end?", None)

# %%
tiers = Tiers(device_pages=4, host_pages=4)
for prompt in ("abcd", "wxyz", "abcd"):
    tiers.serve(prefixes(prompt))
fold("14.d", len(tiers.blocks), draw(tiers))

# %% [markdown]
"""
<details><summary>Why</summary>

While `abcd` is being loaded, its host pages are locked. So `wxyz`, which has to leave the device, finds no room in host memory and is lost, and `abcd` is in both memories.

</details>

A layer needs only its own keys and values, so it can compute while the next one is loading (chapter 06). Take five layers, each of which takes 3 ms to load and 2 ms to compute: 25 ms, if done step by step. How many ms does it take if each step starts as soon as it can?
"""

# %%
guess("14.e", "how many ms does it take if each step starts as soon as it can?", None)

# %%
at_once = overlapped([3] * 5, [2] * 5)
loads = "  ".join(f"{end - 3}-{end}" for end in range(3, 16, 3))
computes = "  ".join(f"{end - 2}-{end}" for end in range(5, at_once + 1, 3))
fold("14.e", at_once, f"load     {loads}", f"compute  {computes}")

# %% [markdown]
"""
<details><summary>Why</summary>

The link never waits, so all loads are done after 15 ms. Then only the last layer is left to compute.

</details>

#### 14.5 You write: `overlapped` (5 minutes)

`loads` and `computes` list how long each layer takes to load and to compute. The loads follow each other without a gap. Computing a layer starts when it has been loaded and the layer before it has been computed. Return the last layer's finish time, or 0 if the lists are empty.
"""


# %%
def overlapped(loads, computes):
    """Return when the last layer is computed; a layer loads before it computes."""
    raise NotImplementedError  # delete this line; about 5 lines to write


overlapped = check("14.5 overlapped", overlapped)

# %%
for load, compute in (32, 64), (64, 64), (128, 64):
    layers = overlapped([load / 32] * 32, [compute / 32] * 32)
    print(f"load {load:3} ms, compute {compute} ms: together {layers:.0f} ms")

# %% [markdown]
"""
So the total is close to the *longer* of the two times. Where loading takes longer, the GPU could compute some tokens meanwhile (14.6).

### All together
"""

# %%
source(Tiers.serve, Tiers.take)

# %% [markdown]
"""
`use` sets the order of use, `arrive` ends a load, and `worth` decides whether to load at all. In `take`, the paths to the `ends` contain all victims. Give the agents 512 GiB of host memory over links of several speeds: load everything that is found, or ask your `worth_loading` before each load. In both cases, loading and computing overlap.
"""


# %%
def total(rows, rate):
    """Return the hours that all requests take if they load over this link."""
    spent = 0
    for _, loaded, compute in rows:
        load = loaded * BLOCK * TOKEN_BYTES / rate
        spent += overlapped([load / 32] * 32, [compute / 32] * 32)
    return spent / 3600


def asking(rate):
    def worth(new, cached):
        return worth_loading(new * BLOCK, cached * BLOCK, TOKEN_BYTES, rate, *MODEL)

    return total(through(agents, Tiers(PAGES, 8192, "write_through", worth)), rate)


# %%
rates = [0.25, 0.5, 1, 2, 4, 8]  # GB per second
rows = through(agents, Tiers(PAGES, 8192, "write_through"))
lines = {
    "load always": [total(rows, rate * 1e9) for rate in rates],
    "ask worth_loading": [asking(rate * 1e9) for rate in rates],
    "no host memory": [hours(through(agents, Tiers(PAGES, 0)))] * len(rates),
}
speeds = {"link, in GB per second": rates}
plot("22 agents, 512 GiB of host memory", speeds, lines, "hours", log="x")

# %% [markdown]
"""
The break-even point of this traffic is where *load always* crosses *no host memory*, far below the 3.3 GB per second of a short prompt, because these prompts are long. To the left of it, loading pays only where your function says so.

## The same in `minikv`

`TieredCache` has two trees, one for the device and one for host memory, each with its own order and locks. It says which blocks to move, and `CacheManager` has them moved. Does it find as much as yours?
"""

# %%
import random

from minikv import CacheManager, TieredCache

# %%
yours, cache = Tiers(20, 30), TieredCache(host_pages=30, evict_by="page")
manager = CacheManager(20, prefix_cache=cache)
chance, same = random.Random(14), 0
for _ in range(2000):
    prompt = "".join(chance.choices("ab", k=chance.randint(1, 9)))
    request = manager.start(list(prompt.encode()), limit=len(prompt))
    counts = request.cached_length - request.loaded, request.loaded
    manager.advance(request)
    manager.finish(request)
    same += yours.serve(prefixes(prompt))[:2] == counts
print(f"{same} of 2000 requests find and load the same")

# %% [markdown]
"""
They differ once, because they keep different orders of use in host memory. Next, an engine runs on both tiers, and your `worth_loading` decides about each load. Instead of a model, a canary (chapter 04) raises an error when it reads wrong bytes.
"""

# %%
from minikv import Engine
from minikv.testing import Canary, CanaryModel


def worth(new, cached):
    return worth_loading(new, cached, TOKEN_BYTES, 50e9, *MODEL)


def engine_with(host_pages):
    cache = TieredCache(host_pages=host_pages)
    canary, more = Canary(cache, writes=False), {}
    if host_pages:
        more = {"host": canary.beside(cache.host.index), "worth_loading": worth}
    manager = CacheManager(120, prefix_cache=cache, store=canary, **more)
    return Engine(CanaryModel(canary=canary), manager)


# %%
prompts = [b"Reader %d asks: when do you open the library?" % n for n in range(8)]
for host_pages in (0, 600):
    engine = engine_with(host_pages)
    said = [engine.generate([list(prompt)], 8)[0] for prompt in prompts * 2]
    print(sum(answer.cached for answer in said), "tokens cached; last tokens:")
    print("   ", [answer.tokens[-1] for answer in said])

# %% [markdown]
"""
With host memory, more tokens are found, and the answers are the same.

## Play

There are four device pages and four host pages, and the policy is *write_back*. Before each prompt, say where it will leave every block: on the device, in host memory, in both, or nowhere.
"""

# %%
tiers, steps = Tiers(device_pages=4, host_pages=4), []
for prompt in ("abc", "xy", "abcd", "xyz", "abcd", "mn"):
    steps.append((f"before {prompt}", draw(tiers)))
    found, loaded, computed = tiers.serve(prefixes(prompt))
    words = f"{prompt}: found {found}, loaded {loaded}, computed {computed}"
    steps.append((words, draw(tiers)))
play(steps)

# %% [markdown]
"""
## More to try

#### 14.6 Design: meet in the middle

While the first blocks of a prompt are being loaded over a slow link, layer by layer, the GPU can compute the last ones. `loads[i]` and `computes[i]` are the times that block `i` takes to load and to compute. Write `blocks_to_load(loads, computes)`, which returns how many of the first blocks to load for everything to be done as soon as possible. Of several such numbers, return the smallest.
"""


# %%
def blocks_to_load(loads, computes):
    raise NotImplementedError  # delete this line; about 3 lines to write


check("14.6 blocks_to_load", blocks_to_load)

# %% [markdown]
"""
<details><summary>Hint</summary>

Try each number. Loading and computing run at the same time, so the larger of the two sums counts.

</details>

<details><summary>Solution</summary>

```python
def blocks_to_load(loads, computes):
    def done(count):
        return max(sum(loads[:count]), sum(computes[count:]))

    return min(range(len(loads) + 1), key=done)
```

</details>

#### 14.7 Bug hunt: a load without a lock

This `load_back` locks no host page, like SGLang's until {{engines sglang-27444|June 2026}}. Your function receives `tiers`, with four device pages and four host pages. Write calls to `tiers.serve(keys)` after which `load_back` loads a block whose bytes are gone.
"""

# %%
careless("14.7")


# %%
def calls_that_expose_it(tiers):
    raise NotImplementedError  # delete this line, and add more calls
    tiers.serve(["a", "ab"])
    tiers.serve(["a", "ab"])


check("14.7 careless_load", calls_that_expose_it)

# %% [markdown]
"""
<details><summary>Hint</summary>

Fill both memories. Then serve a prompt that is only in host memory: its load needs room on the device, which needs room in host memory.

</details>

<details><summary>Solution</summary>

```python
def calls_that_expose_it(tiers):
    tiers.serve(["a", "ab", "abc", "abcd"])
    tiers.serve(["x", "xy", "xyz", "xyzw"])
    tiers.serve(["a", "ab", "abc", "abcd"])
```

</details>

## What it cost

Many blocks are in both tiers, and some bytes cross the link although nobody will ask for them again. One rule became three: a page has one owner *in each tier*, a block in host memory has its parent there, and no page is given away while bytes are moving to or from it.

## In real engines

{{engines 14|`worth_loading`; `host_victim`; `load_back`}}

vLLM's blocks have no parents, so there is no such invariant: a block whose prefix is gone stays in host memory until it is the oldest. While a request stores its blocks, {{engines vllm-offload-protected|they are protected}}, as in your `copy_out`.

**A loop that never counted.** SGLang's host eviction once ran until it had freed enough pages, but never counted them: {{engines sglang-4987}}. Whenever host memory was full, it would evict all that it could, and no answer would change.

**A page reused during its load.** This is the bug of 14.7. In {{engines sglang-27631}}, a load evicted its own host pages while making room, and then failed on `None`.

**A write-through that doesn't fire.** In SGLang, a request whose prefill comes in chunks does not count as a hit, because otherwise each chunk would count. But a new long prompt always comes in chunks: {{engines sglang-33714}}. The next cell serves the agents without copying out any request of more than 16 new blocks:
"""


# %%
class Uncounted(Tiers):
    def after_use(self, path, computed):
        if computed <= 16:  # 8,192 tokens: one chunk
            super().after_use(path, computed)


for kind in Tiers, Uncounted:
    rows = through(agents, kind(PAGES, 8192, write="write_through"))
    print(f"{kind.__name__:10}{hours(rows):5.2f} hours of computing")

# %% [markdown]
"""
## Recap

Evicted keys and values can wait in host memory, and loading them is worth it where the link delivers a token faster than the GPU computes it. A block may be in host memory only if its parent is there, and a load locks its host pages before it makes room, until their bytes have arrived. Copying early keeps requests from waiting, and so does loading layer by layer.

**Check yourself**

1. Why is loading worth it for all short prompts or for none?
2. A block is in both tiers, and its child is only on the device. May the block leave host memory?
3. From chapter 04: `copy_out` locks the path before it makes room. Which function there does the same, and why?
4. From chapter 13: why does the selective policy copy almost nothing of the chat?

<details><summary>Answers</summary>

1. Both times grow in step with the number of tokens, so it cancels out.
2. Yes, if it has no host lock. The child needs nothing from host memory.
3. `admit`. Making room evicts, and without the lock, it could evict the matched blocks.
4. Most conversations are evicted before their next turn, so few blocks are used twice on the device.

</details>

**Read on**: [SGLang HiCache](https://lmsys.org/blog/2025-09-10-sglang-hicache/) · [LMCache](https://github.com/LMCache/LMCache) · [Mooncake](https://arxiv.org/abs/2407.00079)
"""

# %% [markdown]
"""
# 14 · Where does evicted KV go?

So far, what your cache evicts is lost. But a server has far more host memory than GPU memory, and the bytes could wait there. In this chapter you write five functions, about thirty-five lines, that decide what is copied out, what is loaded back, and when neither is worth it.

**After this chapter you will be able to** *say* when loading beats computing, *keep* two memories consistent while bytes move between them, and *choose* a write policy by what it costs.

{{time}} **Needs** chapters 02, 04, 05, 06, 10 and 13. **New words** tier, demotion, write policy, write-back, write-through.

**In this notebook already** `Pool` from chapter 02 and `load_or_compute` from 06, yours or the package's, and the classes `Block` and `Tiers`, which call your pieces.

Here is where we are going. Coding agents share one GPU for two hours. Without host memory, it takes longer than that to compute their prompts. Your code will bring it down to a fifth of the two hours.
"""

# %%
from minikv import KVShape, RadixCache, asset, draw, play, plot
from minikv.traffic import open_traffic, replay

llama = KVShape.from_config("llama-3.1-8b")
TOKEN_BYTES, BLOCK = 131_072, 512  # bytes per token, tokens per block
TOKEN_FLOPS, SPEED = 16.06e9, 400e12
ATTENTION = 2 * llama.num_layers * llama.num_heads * llama.head_dim
MODEL = TOKEN_FLOPS, ATTENTION, SPEED


# %%
def traffic(name):
    with open_traffic(asset(f"traffic/{name}.jsonl.gz"), span_hours=1) as opened:
        return list(opened.requests)


def seconds(new, cached):
    """To compute so many new blocks after so many cached ones."""
    n, m = BLOCK * new, BLOCK * cached
    return (n * TOKEN_FLOPS + (n**2 + 2 * n * m) * ATTENTION) / SPEED


# %%
TWO_HOURS, PAGES = 2 * 3_600_000, 960  # milliseconds; blocks on the GPU
agents = [each for each in traffic("agents") if each.timestamp < TWO_HOURS]
agents = [each for each in agents if len(each.blocks) <= PAGES]


# %%
def through(trace, tiers):
    """For each request: blocks copied while it waits, loaded, seconds to compute."""
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

The model is Llama 3.1 8B. A block is 512 tokens, or 64 MiB of keys and values, and 60 GiB of GPU memory hold 960 blocks. The requests are those of chapter 13's agents in the first two hours, without those that would not fit. (Some are longer than this model's 131,072 tokens; only its costs count here.) How much does your cache of chapter 05 compute again?
"""

# %%
done = replay(agents, RadixCache(evict_by="page"), PAGES)
distinct = len({block for request in agents for block in request.blocks.tolist()})
computed = done.blocks - done.hits
print(f"{computed:,} blocks computed, {distinct:,} different ones")
print(f"computed again: {1 - distinct / computed:.0%}")

# %% [markdown]
"""
These blocks had been evicted. They could have been copied to the host instead, and copied back. A place where keys and values are kept is called a **tier**: the GPU's memory is the first one, host memory the second.

## Build it

### Step 1: is it worth loading?

In chapter 06, loading takes bytes ÷ link, and computing takes FLOPs ÷ speed. For short prompts attention costs little, so both grow in step with the tokens. The *number* of tokens cancels out, and a link is either fast enough or not.
"""


# %%
def link_needed(token_bytes, token_flops):
    """The GB per second at which loading a token takes as long as computing it."""
    return token_bytes / (token_flops / SPEED) / 1e9


print(f"Llama 3.1 8B: {link_needed(TOKEN_BYTES, TOKEN_FLOPS):.1f} GB per second")

# %% [markdown]
"""
Llama 3.1 70B has the same KV heads in each layer, but 80 layers instead of 32, and 70.6 × 10⁹ parameters instead of 8.03 × 10⁹. How many GB per second must a link deliver for this model, on GPUs that compute as many FLOPs per second?
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

A token has 2.5 times the bytes but takes 8.8 times the FLOPs, so for the larger model a slower link is enough.

</details>

Usually only the end of a prompt has left the GPU. Its tokens look back at the beginning as well, so they take longer to compute.

#### 14.1 You write: `worth_loading` (5 minutes)

Return `True` if loading `num_tokens` tokens is faster than computing them, and `False` if not. Before them, `cached` tokens are on the device. Each new token makes a pair with each cached token, and a pair takes 2 × `attention_flops` FLOPs. You may call your `load_or_compute(num_tokens, token_bytes, link, token_flops, attention_flops, speed)` from chapter 06, which returns `"load"` or `"compute"` for a prompt with nothing before it.
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
From host memory, at 50 GB per second, loading is always worth it here. Over a network of 3 GB per second, a short end needs a long beginning.

### Step 2: two places for a block

The index is a dictionary, as in chapter 10: the key of a block stands for everything up to its end. Here a token is a letter, a block has one token, and its key is the prompt up to there. The tree shows only the last letter of a key.
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
`D` means that a block has a page on the device, `H` that it has one in host memory. The end of `abcd` had to make room for `xy`, so it is in host memory only. Its beginning is in both.

Why the beginning? On the device, only leaves are evicted, so if a block is there, so are all blocks before it. This cache keeps the same **invariant** in host memory: *a block may be there only if its parent is*. Then whatever the device evicts, host memory can give a whole prefix. SGLang's write-through has the same rule. In {{engines sglang-31902}}, a block from storage was put below one without a host copy.

When host memory is full, the least recently used block leaves it, unless it has to stay. In this picture, `a` is the least recently used one, then come `ab`, `x` and `xy`. Which block leaves first?
"""

# %%
from minikv.course.pieces.ch14 import planted_tiers

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

`a` has to stay, because its child `ab` is in host memory. `ab` has a child too, but that one is only on the device and needs nothing from the host.

</details>

#### 14.2 You write: `host_victim` (10 minutes)

`in_host` is a dictionary whose keys are the blocks in host memory, the least recently used first (the values are all `None`). Return the first one that may leave, or `None` if all have to stay; look at no block after it. A block has to stay while one of its children is in host memory, or while it has `host_locks`, because its host page is being read or written. `block.children` is a dictionary from keys to blocks. Change nothing.
"""


# %%
def host_victim(in_host):
    """Return the oldest block that may leave host memory, or None."""
    raise NotImplementedError  # delete this line; about 5 lines to write


host_victim = check("14.2 host_victim", host_victim)

# %% [markdown]
"""
### Step 3: demote instead of free

When the device needs room, its victim is copied to host memory before its page is freed. That is a **demotion**. The invariant asks for more: all blocks before it must be in host memory, too.

#### 14.3 You write: `copy_out` (20 minutes)

`path` is a list of blocks from the first block of a prompt on, each on the device or in host memory. Copy those that host memory lacks, and return how many you have copied. If host memory runs out, keep what you have, as long as it is a prefix. You may call:

| call | what it does | returns |
|---|---|---|
| `tiers.host_page()` | takes a host page; if none is free, evicts the block that your `host_victim` finds | the page, or `None` if there is none |
| `tiers.copy(block, page)` | copies a block from the device to this host page, and sets `block.host` | nothing |

Think of chapter 04: what if the victim is on this path? Add 1 to the `host_locks` of all its blocks first, and subtract it at the end.
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
That is the price of a demotion: the pages are needed *now*, and their bytes have to leave first. The request *stalls*. This one needs only 30 pages, but they hold the end of another agent's prompt, and the invariant requires all of that prompt in host memory.

### Step 4: when to copy

So copy earlier. A **write policy** says when a block is copied out:

- *write_back* (**write-back**): when the device evicts it, as in step 3.
- *write_through* (**write-through**): as soon as it has been computed. An eviction then frees the page at once.
- *write_through_selective*: as soon as a second request has used it.

Try the third on two prompts that take turns, `abc` and `xyz`, three times each. The device has room for three blocks, and host memory for eight. How many blocks do all six requests load?
"""

# %%
guess("14.c", "write_through_selective: how many blocks do all six load?", None)


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

Each prompt evicts the other before its second use. It was never copied, so nothing is left of it, not even its count, which starts from zero each time.

</details>

Now the agents with 512 GiB of host memory, and the chat of chapter 13 with room for 2,764 blocks on the device and 20,000 in host memory:
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
*write_through* copies a little more than *write_back*, and no request waits for it. The selective policy copies less, but the agents then compute three times as long. For the chat it is nearly useless, because most of it is evicted before its second use.

### Step 5: load it back

A request finds some blocks on the device, and after them some in host memory only. To load these it needs device pages. That may demote other blocks, which need host pages. And the host's victim may be a block that is about to be loaded.

#### 14.4 You write: `load_back` (15 minutes)

Start to load the blocks of `path` whose `device` is `None`, and return them as a new list, in order. With fewer pages than blocks, load the first ones. You may call:

| call | what it does | returns |
|---|---|---|
| `tiers.take(count)` | makes room on the device as far as it can, which may evict from both memories | a list of up to `count` device pages |
| `tiers.start(block, page)` | starts to load a block into this page, and sets `block.device` | nothing |

The bytes arrive later, and until then the host page must stay. So each block that is being loaded has 1 more in `host_locks`, which `Tiers` takes away when they arrive. A block that got no page keeps no lock.
"""


# %%
def load_back(tiers, path):
    """Start to load the blocks of `path` that are only in host memory; return them."""
    raise NotImplementedError  # delete this line; about 9 lines to write


load_back = check("14.4 load_back", load_back)

# %% [markdown]
"""
Let the device and the host have four pages each. `abcd` comes in, then `wxyz`, then `abcd` again. How many different blocks do the two memories hold now?
"""

# %%
guess("14.d", "how many different blocks do the two memories hold?", None)

# %%
tiers = Tiers(device_pages=4, host_pages=4)
for prompt in ("abcd", "wxyz", "abcd"):
    tiers.serve(prefixes(prompt))
fold("14.d", len(tiers.blocks), draw(tiers))

# %% [markdown]
"""
<details><summary>Why</summary>

While `abcd` is loaded, its host pages are locked. So `wxyz`, which has to leave the device, finds no room there and is lost. `abcd` is now in both.

</details>

A layer needs only its own keys and values, so it can compute while the next one is loading (chapter 06). Take five layers, each of which takes 3 ms to load and 2 ms to compute: 25 ms, one after the other. How many ms is it if each layer starts as soon as it can?
"""

# %%
guess("14.e", "how many ms does it take if each layer starts as soon as it can?", None)

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

`loads` and `computes` are lists with the times of each layer. The loads follow each other without a gap. A layer starts to compute when its load is done and the layer before it has computed. Return the time at which the last layer has computed, or 0 if the lists are empty.
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
So the total is close to the *larger* of the two. Where loading takes longer, the GPU could compute some of these tokens meanwhile (14.6).

### All together
"""

# %%
source(Tiers.serve, Tiers.take)

# %% [markdown]
"""
`use` sets the order of use, `arrive` ends a load, and `worth` decides whether to load at all. Give the agents 512 GiB of host memory over links of many speeds. One line loads everything that it finds, the other asks your `worth_loading` first, and in both, loading and computing overlap.
"""


# %%
def total(rows, rate):
    """The hours of all requests, if they load over this link."""
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
The break-even of this traffic is where *load always* crosses *no host memory*, far below the 3.3 GB per second of a short prompt, because these prompts are long. To the left of it, only the line that asks is safe.

## The same in `minikv`

`TieredCache` has two trees, one for the device and one for host memory, each with its own order and its own locks. It says what must be moved, and a `CacheManager` has its stores do it. Does it find as much as yours?
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
They differ once, because they keep different orders of use in host memory. Now an engine runs on both tiers, and your `worth_loading` decides about each load. In place of a model there is a canary (chapter 04): it complains as soon as a page is read that holds the wrong bytes.
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
With host memory, far more tokens are cached, and the answers are the same.

## Play

There are four device pages and four host pages, and the policy is *write_back*. Before each prompt, say where every block will be: on the device, in host memory, in both, or nowhere.
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

While the first blocks of a prompt are being loaded over a slow link, the GPU can compute the last ones. `loads[i]` and `computes[i]` are the times that it takes to load block `i` and to compute it. Write `blocks_to_load(loads, computes)`, which returns how many of the first blocks to load for both to be done as soon as possible. Of several such numbers, return the smallest.
"""


# %%
def blocks_to_load(loads, computes):
    raise NotImplementedError  # delete this line; about 3 lines to write


check("14.6 blocks_to_load", blocks_to_load)

# %% [markdown]
"""
<details><summary>Hint</summary>

Try each number. For each, two sums run at the same time, and the later one counts.

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

This `load_back` locks no host page, like SGLang's until {{engines sglang-27444}}. Your function is given tiers with four device pages and four host pages. Write calls of `serve(keys)` with which it loads a block whose bytes are gone.
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

Fill both memories. Then ask for a prompt that is only in host memory: its load makes room on the device, and that makes room in host memory.

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

Many blocks are in both tiers, as in 14.d, and some bytes cross the link although nobody will ask for them again. And one rule became three: a page has one owner *in each tier*, a block in host memory has its parent there, and no page is given away while bytes are on their way to it or from it.

## In real engines

{{engines 14|`worth_loading`; `host_victim`; `load_back`}}

vLLM's blocks have no parent, so it keeps no invariant: a block without its beginning waits in host memory until it is the oldest. While a request stores its blocks, {{engines vllm-offload-protected}}, for the same reason as in your `copy_out`.

**A loop that never counts.** An early host eviction in SGLang ran until it had freed enough, but it never counted: {{engines sglang-4987}}. Whenever host memory was full, it would throw everything away, and no answer would change.

**A page reused while it loads.** That is your hunt. In {{engines sglang-27631}}, the load's own search for room took its host pages, and the load failed on `None`.

**A write-through that never fires.** A request whose prefill comes in chunks does not count as a hit, because otherwise each chunk would count. But at first a long prompt always comes in chunks: {{engines sglang-33714}}. Here are the agents if no request with more than 16 new blocks is copied out:
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

Evicted keys and values can wait in host memory, and loading them is worth it where the link delivers a token sooner than the GPU computes it. A block may be in host memory only if its parent is there, and host pages are locked from before the room is made until the bytes have arrived. Copying early keeps requests from waiting, and so does loading layer by layer.

**Check yourself**

1. Why does it not depend on the length of a short prompt whether loading is worth it?
2. A block is in both tiers, and its child only on the device. May it leave host memory?
3. From chapter 04: `copy_out` locks the path before it looks for room. Which function of chapter 04 does the same, and why?
4. From chapter 13: why does the selective policy copy almost nothing of the chat?

<details><summary>Answers</summary>

1. Both times grow in step with the tokens, so their number cancels out.
2. Yes, if it has no lock. The child needs nothing from host memory.
3. `admit`. Making room evicts, and without the lock it could evict what it makes room for.
4. A conversation is evicted before its next turn, so nearly nothing is used twice on the device.

</details>

**Read on**: [SGLang HiCache](https://lmsys.org/blog/2025-09-10-sglang-hicache/) · [LMCache](https://github.com/LMCache/LMCache) · [Mooncake](https://arxiv.org/abs/2407.00079)
"""

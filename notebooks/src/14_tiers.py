# %% [markdown]
"""
# 14 · Where does evicted KV go?

So far, what your cache evicts is lost. But a server has far more host memory than GPU memory, and the bytes could wait there. In this chapter you write five functions, about thirty-five lines. They decide what is copied out, what is loaded back, and when neither is worth it.

**After this chapter you will be able to** *say* when loading beats computing, *keep* two memories consistent while bytes move between them, and *choose* a write policy by what it costs.

{{time}} **Needs** chapters 02, 04, 05, 06, 10 and 13. **New words** tier, demotion, write policy, write-back, write-through.

**In this notebook already** `Pool` from chapter 02 and `load_or_compute` from chapter 06, yours or the package's, and the classes `Block` and `Tiers`, which call your pieces.

Here is where you are going. 24 coding agents share one GPU for an hour. From left to right they get more host memory. The line shows how many hours of computing are left. You will write what makes it fall.
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
agents, chat = traffic("agents"), traffic("chat")


def hours(host_pages, device_pages=960, **more):
    tiers, total = Tiers(device_pages, host_pages, **more), 0
    for request in agents:
        found, loaded, computed = tiers.serve(request.blocks.tolist())
        total += seconds(computed, found + loaded)
    return total / 3600, tiers


# %%
room = [0, 1024, 2048, 4096, 8192, 16384]  # blocks of 64 MiB
line = [hours(pages)[0] for pages in room]
gigabytes = {"host memory, in GiB": [pages // 16 for pages in room]}
plot("24 coding agents, Llama 3.1 8B", gigabytes, {"computing": line}, "hours")

# %% [markdown]
"""
## The problem

The model is Llama 3.1 8B. A block is 512 tokens, or 64 MiB of keys and values, and 60 GiB of GPU memory hold 960 blocks. Your cache of chapter 05 serves the agents of chapter 13. What does it compute that it had computed before?
"""

# %%
done = replay(agents, RadixCache(evict_by="page"), 960)
distinct = len({block for request in agents for block in request.blocks.tolist()})
computed = done.blocks - done.hits
print(f"{computed:,} blocks computed, {distinct:,} different ones")
print(f"computed again: {1 - distinct / computed:.0%}")

# %% [markdown]
"""
Nine of ten blocks were computed before, evicted, and asked for again. Each of them could have been copied to the host instead, and copied back. A place where keys and values are kept is called a **tier**. The GPU's memory is the first tier, host memory the second.

## Build it

### Step 1: is it worth loading?

Chapter 06 compared two times. Loading takes bytes ÷ link, and computing takes FLOPs ÷ speed. For short prompts attention costs little, and then both grow in step with the tokens. So the *number* of tokens cancels out: a link is either fast enough or not.

A token of this model has 131,072 bytes and takes 16.06 × 10⁹ FLOPs. The GPU computes 400 × 10¹² FLOPs per second.
"""

# %%
# put a number in place of None, then run the next cell
guess("14.a", "how many GB per second must a link bring? (one decimal)", None)

# %%
needed = TOKEN_BYTES / (TOKEN_FLOPS / SPEED) / 1e9
fold("14.a", round(needed, 1), "with one GB = 10⁹ bytes")

# %% [markdown]
"""
<details><summary>Why</summary>

A token takes 16.06 × 10⁹ ÷ (400 × 10¹²) seconds to compute, 40 microseconds. In that time 131,072 bytes have to arrive.

</details>

Most of the time, the beginning of a prompt is still on the GPU, and only its end has left. Each token of the end looks back at the beginning too, and computing it takes longer than chapter 06 assumed.

#### 14.1 You write: `worth_loading` (5 minutes)

Return `True` if loading `num_tokens` tokens is faster than computing them, and `False` if not. Before them, `cached` tokens are on the device already. Each new token makes a pair with each cached token, and a pair takes 2 × `attention_flops` FLOPs. You may call your `load_or_compute(num_tokens, token_bytes, link, token_flops, attention_flops, speed)` from chapter 06, which returns `"load"` or `"compute"` for a prompt with nothing before it.
"""


# %%
def worth_loading(
    num_tokens, cached, token_bytes, link, token_flops, attention_flops, speed
):
    """Return whether loading `num_tokens` tokens after `cached` ones is faster."""
    raise NotImplementedError  # delete this line; about 2 lines to write


worth_loading = check("14.1 worth_loading", worth_loading)

# %%
LINKS = {"host, PCIe 5": 50e9, "NVMe disk": 7e9, "25 Gbit network": 3e9}
cases = (1000, 0), (32000, 0), (1000, 8000), (1000, 32000)
print(f"{'tokens, after':18}" + "".join(f"{f'{n}, {m}':>13}" for n, m in cases))
for name, rate in LINKS.items():
    said = [worth_loading(n, m, TOKEN_BYTES, rate, *MODEL) for n, m in cases]
    words = ["compute", "load"]
    print(f"{name:18}" + "".join(f"{words[yes]:>13}" for yes in said))

# %% [markdown]
"""
Host memory and a disk are always worth it here. The network is too slow for a short prompt, and fast enough for the end of a long one.

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

Why the beginning? On the device, only leaves are evicted, so if a block is there, so are all blocks before it. This cache keeps the same **invariant** in host memory: *a block may be there only if its parent is*. Then whatever the device evicts, host memory can give a whole prefix. {{engines sglang-31902}} broke that rule: a block was put below one that had no host copy, and the engine crashed later, in its eviction.

<details><summary>The other version of the rule</summary>

It says the same only about blocks that are *nowhere but* in host memory. A block in both tiers may have a parent that is only on the device, because the device gives the beginning. That needs fewer copies. In return, each eviction has to look at the parent, too: before the parent leaves the device, it needs a host copy. SGLang's developers discussed {{engines sglang-28614}}. Engines disagree because both work, and they cost different things: bytes, or care.

</details>

Host memory fills up as well. Which block leaves it first? The least recently used one, unless it has to stay. In this picture, `a` is the least recently used one in host memory, then come `ab`, `x` and `xy`.
"""

# %%
from minikv.course.pieces.ch14 import planted_tiers

tiers = planted_tiers(globals(), [("ab", 2, 2, 0), ("abc", 3, 2, 0), ("xy", 0, 2, 0)])
draw(tiers)

# %%
guess("14.b", "which block leaves host memory first? Write its key, like 'xy'", None)

# %%
leaving = [
    block.key
    for block in tiers.in_host
    if all(child.host is None for child in block.children.values())
]
fold("14.b", leaving[0], "in order of use: " + " ".join(b.key for b in tiers.in_host))

# %% [markdown]
"""
<details><summary>Why</summary>

`a` has to stay, because its child `ab` is in host memory. `ab` has a child too, but that one is only on the device and needs nothing from the host.

</details>

#### 14.2 You write: `host_victim` (10 minutes)

`in_host` is a dictionary whose keys are the blocks in host memory, the least recently used first (the values are all `None`). Return the first one that may leave, or `None` if all have to stay; look at no block after it. A block has to stay while one of its children is in host memory, or while it has `host_locks`: then somebody is reading or writing its host page. `block.children` is a dictionary from keys to blocks. Do not change anything.
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

#### 14.3 You write: `copy_out` (15 minutes)

`path` is a list of blocks from the first block of a prompt on, all of them on the device or in host memory. Copy those that host memory lacks, and return how many you have copied. If host memory runs out, keep what you have, as long as it is a prefix.

| call | what it does |
|---|---|
| `tiers.host_page()` | returns a free host page, and evicts the block that your `host_victim` finds, if it has to; `None` if none can be had |
| `tiers.copy(block, page)` | copies a block from the device to this host page, and sets `block.host` |

Think of chapter 04: what if the victim is a block of this very path? Add 1 to `host_locks` of all blocks of the path first, and take it away in the end.
"""


# %%
def copy_out(tiers, path):
    """Copy the blocks of `path` that host memory lacks; return how many."""
    raise NotImplementedError  # delete this line; about 12 lines to write


copy_out = check("14.3 copy_out", copy_out)

# %%
_, tiers = hours(4096)
gigabytes = tiers.stalled * BLOCK * TOKEN_BYTES / 1e9
print(f"{tiers.stalled:,} blocks copied while a request waits: {gigabytes:,.0f} GB")
print(f"at 50 GB/s that is {gigabytes / 50:.0f} seconds of waiting in an hour")

# %% [markdown]
"""
That is the price of a demotion: the page is needed *now*, and its bytes have to leave first. The request **stalls**.

### Step 4: when to copy

So copy earlier. A **write policy** says when a block is copied out:

- *write_back*: when the device evicts it, as in step 3.
- *write_through*: as soon as it has been computed. An eviction then frees the page at once.
- *write_through_selective*: as soon as a second request has used it. What nobody asks for again is never copied.

The names come from processors, which have the same choice: **write-back** waits, and **write-through** does not. The third sounds best. Let's try it on two prompts that take turns, `abc` and `xyz`, three times each. The device has room for three blocks, and host memory for eight.
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

None. Each prompt evicts the other before its second use. Nothing was copied, so nothing is left of it, not even its count. It starts from zero each time.

</details>

Now the real traffic: the agents with 256 GiB of host memory, and the chat of chapter 13 with room for 2,764 blocks on the device, as there, and 20,000 in host memory.
"""


# %%
def through(requests, tiers):
    for request in requests:
        tiers.serve(request.blocks.tolist())
    return tiers


# %%
TRACES = ("agents", agents, (960, 4096)), ("chat", chat, (2764, 20000))
print(f"{'':31}{'copied':>9}{'stalled':>9}{'loaded':>9}")
for name, requests, pages in TRACES:
    for write in "write_back", "write_through", "write_through_selective":
        tiers = through(requests, Tiers(*pages, write=write))
        counts = tiers.copied, tiers.stalled
        copies = "".join(f"{n * BLOCK * TOKEN_BYTES / 1e12:6.2f} TB" for n in counts)
        print(f"{name:7}{write:24}{copies}{tiers.loaded / sum(tiers.totals):9.1%}")

# %% [markdown]
"""
write_back copies the least that is needed for the same hits, and all of it while somebody waits. write_through copies a little more, and nobody waits. The selective policy copies half as much for the agents, whose next turn comes soon, and loads a quarter less. For the chat it is useless: most of it is evicted before its second use.

### Step 5: load it back

A request finds some blocks on the device, and after them some in host memory only. Before it can load them, it needs device pages. That may demote other blocks, which need host pages. And the host's victim may be a block that is about to be loaded.

#### 14.4 You write: `load_back` (15 minutes)

Start to load the blocks of `path` whose `device` is `None`, and return them as a new list, in order. `tiers.take(count)` returns up to `count` device pages, and makes room as far as it can. `tiers.start(block, page)` starts a load. With fewer pages than blocks, load the first ones.

The bytes arrive later. Until then nobody may give the host page away: each block that is being loaded has 1 more in `host_locks`, which is taken away when its bytes have arrived. (`Tiers.arrive` does that.) A block that got no page keeps no lock.
"""


# %%
def load_back(tiers, path):
    """Start to load the blocks of `path` that are only in host memory; return them."""
    raise NotImplementedError  # delete this line; about 9 lines to write


load_back = check("14.4 load_back", load_back)

# %% [markdown]
"""
How long does a request wait for a load? A layer needs only its own keys and values. So the first layer can compute while the second one is loading (chapter 06). Take five layers. Each takes 2 ms to load and 3 ms to compute. One after the other, that would be 25 ms.
"""

# %%
guess("14.d", "how many ms does it take if each layer starts as soon as it can?", None)

# %%
at_once = 2 + 5 * 3
loads = "  ".join(f"{end - 2}-{end}" for end in range(2, 11, 2))
computes = "  ".join(f"{end - 3}-{end}" for end in range(5, at_once + 1, 3))
fold("14.d", at_once, f"load     {loads}", f"compute  {computes}")

# %% [markdown]
"""
<details><summary>Why</summary>

You wait only for the first load. All others are done while an earlier layer computes.

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
So the total is close to the *larger* of the two, and not to their sum. What if loading takes longer, as in the last line? Then the GPU waits, and it could compute some of these tokens in the meantime. Load the first part, compute the rest, and let the two meet: that is 14.6.

### All together
"""

# %%
source(Tiers.serve, Tiers.take)

# %% [markdown]
"""
`use` sets the order of use, and `arrive` ends a load. The attribute `worth` decides whether to load at all. Give the agents 512 GiB of host memory over links of many speeds. The lines show the hours of computing and loading together. One loads everything that it finds. The other asks your `worth_loading` first.
"""


# %%
def loading(tiers, rate):
    """The hours that all loads take."""
    return tiers.loaded * BLOCK * TOKEN_BYTES / rate / 3600


def asking(rate):
    def worth(new, cached):
        return worth_loading(new * BLOCK, cached * BLOCK, TOKEN_BYTES, rate, *MODEL)

    computing, tiers = hours(8192, worth=worth)
    return computing + loading(tiers, rate)


# %%
rates = [0.25, 0.5, 1, 2, 4, 8]  # GB per second
computing, tiers = hours(8192)
lines = {
    "load always": [computing + loading(tiers, rate * 1e9) for rate in rates],
    "ask worth_loading": [asking(rate * 1e9) for rate in rates],
    "no host memory": [hours(0)[0]] * len(rates),
}
speeds = {"link, in GB per second": rates}
plot("24 agents, 512 GiB of host memory", speeds, lines, "hours", log="x")

# %% [markdown]
"""
Where *load always* crosses *no host memory* is the break-even of this traffic. It is far below the 3.3 GB per second of a short prompt, because these prompts are long. To the left of it, only the line that asks is safe.

## The same in `minikv`

`TieredCache` does the same with whole trees: one for the device, one for host memory, each with its own order and its own locks. It moves no bytes. It says what must be moved, and a `CacheManager` has its stores do it. Here three tokens are copied to host memory, and two come back. A move first reserves its pages; they are used only after the bytes arrive.
"""

# %%
from minikv import FreeListPool, TieredCache, record

cache, pool = TieredCache(host_pages=4, evict_by="page"), FreeListPool(4)
with record(cache, pool) as film:
    cache.insert([1, 2, 3], pool.alloc(3))
    evicted = cache.evict(2)
    cache.settle(cache.next_move())
    pool.free(evicted)
    found, slots = cache.acquire([1, 2, 3]), pool.alloc(2)
    cache.settle(cache.load(found, slots))
    cache.insert([1, 2, 3], [*found.slots, *slots])
film.player(still=4)

# %% [markdown]
"""
Does it find as much as yours?
"""

# %%
import random

from minikv import BreakEven, CacheManager

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
Where they differ, the two keep different orders of use in host memory. `BreakEven` is your `worth_loading`:
"""

# %%
even = BreakEven(TOKEN_BYTES, 3e9, TOKEN_FLOPS, SPEED, attention_flops=ATTENTION)
sizes = [(n, m) for n in range(0, 9000, 100) for m in range(0, 9000, 100)]
yours = [worth_loading(n, m, TOKEN_BYTES, 3e9, *MODEL) for n, m in sizes]
print(yours == [even.worth_loading(n, m) for n, m in sizes], len(sizes), "cases")

# %% [markdown]
"""
Now an engine runs on both tiers, and your `worth_loading` decides about each load. In place of a model there is a canary (chapter 04): it complains as soon as a page is read that holds the wrong bytes, even after a trip to host memory and back.
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

Four device pages, four host pages, write_back. Before each prompt, say where every block will be: on the device, in host memory, in both, or nowhere. The rows show what each page of the two memories holds.
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

Some blocks are in host memory, and the link is slow. While the first ones are being loaded, the GPU can compute the last ones. `loads[i]` and `computes[i]` are the times that it takes to load block `i`, and to compute it. Write `blocks_to_load(loads, computes)`. It returns how many of the first blocks to load, so that both are done as soon as possible. Of several such numbers, return the smallest.
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

This `load_back` locks nothing, as in SGLang until {{engines sglang-27444}}. Your function is given tiers with four device pages and four host pages. Write calls of `serve(keys)` with which it loads a block whose bytes are gone.
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

Many blocks are in both tiers, so the two together hold less than their sum. Bytes that nobody will ask for cross the link. And one rule became three: a page has one owner *in each tier*, a block in host memory has its parent there, and nobody gives away a page while bytes are on their way to it or from it.

## In real engines

{{engines 14|`worth_loading`; `host_victim`; `load_back`}}

vLLM's blocks have no parent, so it keeps no invariant: a block without its beginning waits in host memory until it is the oldest. While a request stores its blocks, {{engines vllm-offload-protected}}, for the reason of your `copy_out`.

**A loop that never counts.** SGLang's first host eviction looked like this. It was asked for 8 pages, and 100 could go.
"""


# %%
def evict_host(leaves, num_tokens):
    num_evicted, gone = 0, []
    while num_evicted < num_tokens and leaves:
        gone.append(leaves.pop(0))
    return gone


# %%
guess("14.e", "how many pages too many does evict_host(leaves, 8) evict?", None)

# %%
evicted = len(evict_host(list(range(100)), 8))
fold("14.e", evicted - 8, f"{evicted} pages are gone")

# %% [markdown]
"""
<details><summary>Why</summary>

`num_evicted` stays 0, so only an empty list ends the loop: {{engines sglang-4987}}. Each time that host memory was full, all of it was thrown away, and no test failed, because no answer changed.

</details>

**A page reused while it loads.** That is your hunt, {{engines sglang-27444}}. A load only *began*, and the lock on the device said nothing about the host page. {{engines sglang-27631}} met the same mistake earlier in the call, and failed on `None`.

**A write-through that never fires.** A request whose prefill came in chunks did not count as a hit, so that it would not count once per chunk. But long prompts always come in chunks: {{engines sglang-33714}}. Here are the agents, when no request of more than 16 new blocks is copied out:
"""


# %%
class Uncounted(Tiers):
    def after_use(self, path, computed):
        if computed <= 16:  # 8,192 tokens: one chunk
            super().after_use(path, computed)


for kind in Tiers, Uncounted:
    tiers = through(agents, kind(960, 8192, write="write_through"))
    share = tiers.loaded / sum(tiers.totals)
    print(f"{kind.__name__:10}{share:6.1%} of the blocks loaded")

# %% [markdown]
"""
## Recap

Evicted keys and values can wait in host memory, and loading them back is worth it where the link brings a token sooner than the GPU computes it. A block may be in host memory only if its parent is there, so a copy begins at the top and a victim has no child there. Pages are locked from before the room is made until the bytes have arrived, and a load that goes layer by layer costs little more than the longer of loading and computing.

**Check yourself**

1. Why does it not depend on the length of a short prompt whether loading is worth it?
2. A block is in both tiers, and its child only on the device. May it leave host memory?
3. From chapter 04: `copy_out` locks the path before it looks for room. Which function of chapter 04 does the same, and why?
4. From chapter 13: why does the selective policy copy almost nothing of the chat?

<details><summary>Answers</summary>

1. Both times grow in step with the tokens, so only bytes per token, FLOPs per token and the two speeds count.
2. Yes, if it has no lock. The child needs nothing from host memory.
3. `admit`. Making room evicts, and without the lock it could evict the very thing that it makes room for.
4. A conversation is evicted before its next turn, so nearly nothing is used twice while it is on the device.

</details>

**Read on**: [SGLang HiCache](https://lmsys.org/blog/2025-09-10-sglang-hicache/) · [LMCache](https://github.com/LMCache/LMCache) · [Mooncake](https://arxiv.org/abs/2407.00079)
"""

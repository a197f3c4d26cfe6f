# %% [markdown]
"""
# 06 · How do the bytes move?

So far, a slot was a number. Now it is a place in memory, and we follow the keys and values of a prefix: they are written to their slots, read for attention, copied to another memory, and loaded back. You write four functions, about thirty lines. Your engine in chapter 08 calls two of them in each step.

**After this chapter you will be able to** *count* the unbroken runs of bytes in a copy, *decide* whether to load evicted tokens or compute them again, and *work out* what a load costs while the model computes.

{{time}} **Needs** chapters 02 and 05, `bytes_per_token` from 01 (yours or the package's), and a little PyTorch (a tensor is an array of numbers in memory). **New words** gather, layout, break-even, pinned memory, stream.

Here is where we are going. Suppose some tokens of a prompt for Llama 3.1 8B were evicted, and their keys and values are on another machine. One line shows how long it takes to load 1,000 of them; the other, how long it takes to compute them again. To the right, prompts get longer, so each token attends to more. Where the lines cross, the better choice changes. (The rates are round numbers, not measurements.)
"""

# %%
from minikv import FreeListPool, KVShape, plot

llama = KVShape.from_config("llama-3.1-8b")
TOKEN_BYTES = bytes_per_token(llama.num_layers, llama.num_kv_heads, llama.head_dim)
TOKEN_FLOPS, SPEED = 16.06e9, 400e12  # two per parameter; a large GPU at work
ATTENTION = 2 * llama.num_layers * llama.num_heads * llama.head_dim

counts = [1000, 4000, 8000, 16000, 32000]
compute = [1e6 * (TOKEN_FLOPS + n * ATTENTION) / SPEED for n in counts]  # milliseconds
load = [1e6 * TOKEN_BYTES / 3e9] * len(counts)  # 25 Gbit Ethernet: 3 GB per second
lines = {"load": load, "compute again": compute}
plot("To bring evicted tokens back", {"tokens": counts}, lines, "ms for 1,000 tokens")

# %% [markdown]
"""
## The problem

Ten requests generate 100 tokens each, and in every step, each of them takes one slot. Which slots does the first one get?
"""

# %%
pool = FreeListPool(1000)
slots = [int(pool.alloc(10)[0]) for _ in range(100)]  # those of the first request
print(slots[:5], f"...: {2 * llama.num_layers * len(slots):,} pieces in all layers")

# %% [markdown]
"""
No two are neighbors, and attention reads all of these pieces in every step. {{engines astrai-rows|A row of memory for each request}}, as in an early cache of AstrAI, would keep them together, but then every hit would have to copy the prefix from another row, {{engines astrai-copy-loop}}. In your tree, a hit copies nothing because requests share slots, so the engine has to collect scattered slots.

## Build it

### Step 1: written to slots, read for attention

In each layer, the keys of all slots are the rows of one tensor, and the values are those of another. Writing new rows to many slots is a **scatter**. Attention then needs all keys of a request in one tensor, and collecting them from many slots is a **gather**. A *run* is a series of slots without a gap, so it can be copied in one go.

#### 6.1 You write: `runs` (5 minutes)

Return a list of the runs of consecutive numbers in the list `slots`, in their order. Each run is a pair: its first number and its length. Slots `4 5 6 1` are two runs, `(4, 3)` and `(1, 1)`. A run only goes up: `5 4` are two runs, and so are `2 2`.
"""


# %%
def runs(slots):
    """The runs of consecutive slots, in order: (start, length) for each."""
    raise NotImplementedError  # delete this line; about 8 lines to write


runs = check("6.1 runs", runs)

# %% [markdown]
"""
#### 6.2 You write: `gather` (10 minutes)

`rows` is a tensor with a row for each slot, and `found` is what `runs` returned. If there is one run, nothing has to be copied: return it as a slice of `rows`, which is a window onto the same memory. Otherwise, copy the runs to the beginning of `room`, one after the other, and return the part of `room` that you have filled, which may be empty. `room` has enough rows and is used again in every step.
"""


# %%
def gather(rows, found, room):
    """Return the rows of the runs in `found`, in order, as one tensor.

    One run is a slice of `rows`. Several are copied to the beginning of `room`.
    """
    raise NotImplementedError  # delete this line; about 8 lines to write


gather = check("6.2 gather", gather)

# %%
import torch

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"  # the output is the same
rows = torch.arange(8)[:, None].expand(8, 3).contiguous()  # each holds its slot
print("gathered:", gather(rows, runs([4, 5, 1]), torch.empty_like(rows))[:, 0].tolist())

# %% [markdown]
"""
Slots 6 and 7 are gathered for Anna, and slots 7 and 2 for Ben. Then 9 is written to row 7 of `rows`. Which numbers do Anna's and Ben's tensors hold for slot 7 afterwards?
"""

# %%
# put your answer in place of None, then run the next cell
guess("6.a", "which numbers do they hold for slot 7 now? [Anna's, Ben's]", None)

# %%
now, both = rows.clone(), ([6, 7], [7, 2])
anna, ben = [gather(now, runs(slots), torch.empty_like(now)) for slots in both]
now[[7]] = 9  # a scatter to one slot
fold("6.a", [int(anna[1, 0]), int(ben[0, 0])], f"row 7 of rows: {now[7].tolist()}")

# %% [markdown]
"""
<details><summary>Why</summary>

Anna's slots are one run, so her tensor is a window onto `rows` and shows what is written there later. Ben's tensor is a copy. Gathered rows are good only until the next write, so your engine writes the new keys of a layer before it gathers.

</details>

### Step 2: where the bytes of a slot are

Attention reads one layer at a time, but a copy to another memory takes all layers. Think of memory as one long line of boxes, each with the key or the value of one slot in one layer. The order of the boxes is the **layout**. Here are two stores with eight slots and two layers. `K0` marks keys in layer 0, `V1` values in layer 1, and the number below is the slot.
"""

# %%
from minikv import KVStore, beside, draw

tiny = KVShape(num_layers=2, num_kv_heads=1, head_dim=4)
stores = [KVStore(tiny, 2, 4, layout=name, device=DEVICE) for name in ("page", "layer")]
beside(*map(draw, stores))

# %% [markdown]
"""
In the *page layout*, all boxes of a slot are side by side, and so are those of a whole page. In the *layer layout*, all keys of layer 0 come first, then all its values, then layer 1.

#### 6.3 You write: `boxes` (10 minutes)

Return the numbers of all boxes that belong to `slots`, as a sorted list. Numbering starts at 0, and `layout` is `"page"` or `"layer"`.
"""


# %%
def boxes(layout, slots, num_layers, num_slots):
    """Return the numbers of all boxes that hold keys and values of `slots`, sorted."""
    raise NotImplementedError  # delete this line; about 8 lines to write


boxes = check("6.3 boxes", boxes)

# %% [markdown]
"""
Suppose we copy the second page, slots 4 to 7. How many runs of boxes does it take up in each layout?
"""

# %%
guess("6.b", "how many runs of boxes do slots 4 to 7 take up? [page, layer]", None)

# %%
page = [4, 5, 6, 7]
answer = [len(runs(boxes(layout, page, 2, 8))) for layout in ("page", "layer")]
fold("6.b", answer, beside(*(draw(store, matched=page) for store in stores)))

# %% [markdown]
"""
<details><summary>Why</summary>

In the page layout, the boxes of the page follow each other. In the layer layout, each layer has one run for the keys and one for the values: 4 here, and 64 in a model with 32 layers.

</details>

### Step 3: to the host, or compute again

Before the slots of evicted tokens are reused, their keys and values can be copied to the *host*, the memory of the CPU.

Such a copy has to read each byte from GPU memory once. Call that the minimum. But each run is a separate transfer, so short runs are first gathered into one tensor on the GPU, which then crosses the link to the host in one copy. How many times the minimum do the reads and writes of GPU memory add up to?
"""

# %%
guess("6.c", "how many times the minimum do reads and writes add up to?", None)

# %%
packed = gather(rows, runs([4, 5, 1]), torch.empty_like(rows))
gathered, crossing = 2 * packed.nbytes, packed.nbytes
fold("6.c", (gathered + crossing) // packed.nbytes, f"minimum: {packed.nbytes} bytes")

# %% [markdown]
"""
<details><summary>Why</summary>

The gather reads each byte and writes it, and the copy to the host reads it again. The link is crossed only once.

</details>

But is loading worthwhile? The tokens are known, so the model can also compute their keys and values again.

Loading *n* tokens takes the latency of the link (the wait before the first byte) once, and then *n* × the bytes per token ÷ the bytes per second.

Computing them takes *n* × the FLOPs per token, plus *n*² × `attention_flops`, all divided by the FLOPs per second. A FLOP is one addition or multiplication, and a token takes one of each for every parameter of the model. Attention is extra and grows with the square of *n*, because each token attends to all tokens before it; `attention_flops` is 2 × layers × heads × head size.

Take 1,200 tokens of the Llama above, at 131,072 bytes per token. A token takes 16.06 × 10⁹ FLOPs, and `attention_flops` is 262,144. The GPU computes 400 × 10¹² FLOPs per second. The keys and values are on a disk that reads 6 × 10⁹ bytes per second, and every load first waits 30 ms in its queue. Which is faster?
"""

# %%
guess("6.d", 'which is faster for 1,200 tokens, "load" or "compute"?', None)

# %%
n = 1200
load = 30 + 1000 * n * TOKEN_BYTES / 6e9
compute = 1000 * (n * TOKEN_FLOPS + n**2 * ATTENTION) / SPEED
answer = min((load, "load"), (compute, "compute"))[1]
fold("6.d", answer, f"load {load:.1f} ms, compute {compute:.1f} ms")

# %% [markdown]
"""
<details><summary>Why</summary>

Without the wait, loading would have won, at 26.2 ms. But the wait comes only once, however many tokens there are.

</details>

#### 6.4 You write: `load_or_compute` (5 minutes)

Return `"load"` if loading takes less time, and `"compute"` if not. All times are in seconds.
"""


# %%
def load_or_compute(
    num_tokens, token_bytes, link, token_flops, attention_flops, speed, latency=0
):
    """Return the faster way to bring evicted tokens back, "load" or "compute".

    `link` is in bytes per second, `speed` in FLOPs per second, `latency` in seconds.
    """
    raise NotImplementedError  # delete this line; about 3 lines to write


load_or_compute = check("6.4 load_or_compute", load_or_compute)

# %%
LINKS = {"host, 50 GB/s": 50e9, "network, 3 GB/s": 3e9, "network, 1.25 GB/s": 1.25e9}
model = TOKEN_FLOPS, ATTENTION, SPEED
counts = (100, 1000, 10000, 100000)
print(f"{'tokens':20}" + "".join(f"{n:>10,}" for n in counts))
for name, rate in LINKS.items():
    words = [load_or_compute(n, TOKEN_BYTES, rate, *model) for n in counts]
    print(f"{name:20}" + "".join(f"{word:>10}" for word in words))

# %% [markdown]
"""
At these rates, loading from the host always wins; loading over a slow network needs long prompts. The smallest number of tokens for which loading wins is the **break-even**.

### Step 4: load while computing

A prefix is loaded, and then the model computes the new tokens after it. Here is the timeline for three layers. Each box is a millisecond and names the layer that is loaded or computed.
"""

# %%
from minikv.course.pictures.cells import word_rows

LAYERS, LOAD, COMPUTE = "012", 2, 1  # milliseconds per layer
loads = [layer for layer in LAYERS for _ in range(LOAD)]
computes = [layer for layer in LAYERS for _ in range(COMPUTE)]
line = [("load", loads), ("compute", [""] * len(loads) + computes)]
word_rows(line, states=["in hand", "computed"])

# %% [markdown]
"""
But a layer reads only its own keys and values, so layer 0 could compute while layer 1 is on its way.

The operating system promises not to move **pinned memory** or swap it to disk, so a GPU can access it directly. Other host memory is copied to pinned memory first, and only copies from it [can overlap with computing](https://docs.pytorch.org/tutorials/intermediate/pinmem_nonblock.html).

A **stream** is a queue of work for the GPU. Work in one stream is done in order, but [work in two streams can overlap](https://docs.nvidia.com/cuda/cuda-programming-guide/02-basics/asynchronous-execution.html). By default, all work is in the same stream, so the copies get their own, and an *event* for each layer tells the model's stream that the bytes have arrived:

```python
with torch.cuda.stream(copy_stream):
    for layer in range(num_layers):
        on_gpu[layer].copy_(pinned[layer], non_blocking=True)  # only put in the queue
        arrived[layer].record()
for layer in range(num_layers):
    torch.cuda.current_stream().wait_event(arrived[layer])
    compute(layer)
```

Now each layer computes as soon as its bytes have arrived and the layer before it is done. After how many milliseconds is the last layer done?
"""

# %%
guess("6.e", "after how many ms is the last layer done?", None)

# %%
wait = [""] * (LOAD - COMPUTE)
each = [box for layer in LAYERS for box in (*wait, *[layer] * COMPUTE)]
line.append(("overlapped", [""] * COMPUTE + each))
drawn = word_rows(line[:3], states=["in hand", "computed", "computed"])
fold("6.e", len(line[2][1]), drawn)

# %% [markdown]
"""
<details><summary>Why</summary>

The loads take 6 ms, one after the other. All layers but the last compute while the next one is being loaded, so only the last layer's 1 ms is added.

</details>

With many layers, the total is little more than the longer of loading and computing.

## The same in `minikv`

Three slots' contents are saved in host memory, the slots are given to another request, and the contents are loaded into other slots. In place of its key, each slot holds its token. With `later=True`, a read waits only for its own layer. On a GPU, the host memory is pinned, and the copies have their own stream; elsewhere, a layer is copied when it is first read.
"""


# %%
def computed(tokens):
    numbers = torch.tensor(tokens, dtype=torch.float16, device=DEVICE)
    return numbers[:, None, None].expand(-1, 2, 8).contiguous()


# %%
shape, tokens = KVShape(num_layers=2, num_kv_heads=2, head_dim=8), [31, 32, 33]
store = KVStore(shape, num_pages=16, layout="layer", device=DEVICE)
for layer in range(2):
    store.write(layer, [3, 1, 4], computed(tokens), computed(tokens))
saved = store.in_host_memory(num_pages=16)
saved.take_pages(store, [3, 1, 4], [0, 1, 2])
store.copy([9, 9, 9], [3, 1, 4])  # the slots are given to another request
load = store.take_pages(saved, [0, 1, 2], [5, 6, 7], later=True)
for layer in range(2):
    print(store.read(layer, [5, 6, 7])[0][:, 0, 0].int().tolist(), load)

# %% [markdown]
"""
A load is your `gather` in host memory, followed by a scatter:
"""

# %%
import random

chance, slots, rows = random.Random(6), range(16), computed(range(16))
store.write(0, slots, rows, rows)
saved.take_pages(store, slots, slots)
for _ in range(300):
    src, dst = chance.choices(slots, k=8), chance.sample(slots, 8)
    rows[dst] = gather(computed(slots), runs(src), room=torch.empty_like(rows))
    store.take_pages(saved, src, dst)
    assert torch.equal(store.read(0, slots)[0], rows), f"{src} to {dst}"
print("equal in 300 random loads")

# %% [markdown]
"""
`break_even_tokens` computes the break-even. Just below it, your function should say "compute", and at the break-even "load". Because your cache evicts the *end* of a prompt first, *m* tokens before it may still be cached. Each token of the end attends to these, too, which takes 2 × *m* × `attention_flops` more.
"""

# %%
from minikv import break_even_tokens

for name, rate in LINKS.items():
    for cached in (0, 4000):
        cost = TOKEN_FLOPS + 2 * cached * ATTENTION
        n = break_even_tokens(TOKEN_BYTES, rate, cost, SPEED, attention_flops=ATTENTION)
        rest = TOKEN_BYTES, rate, cost, ATTENTION, SPEED
        said = [load_or_compute(at, *rest) for at in (n - 1, n)]
        print(f"{name:20} after {cached:5,}: {n:>7,} tokens, yours says {said}")

# %% [markdown]
"""
After a cached beginning, loading wins earlier: at 3 GB/s, from the first token.

### What the clock says

Here, scattered pages of 16 tokens are copied within one memory, by a gather and a scatter and by `KVStore.copy`, which on a CPU copies long runs one by one. Each is compared with a *memcpy*, one plain copy of as many bytes. GPU figures appear only after you run `make gpu` on a machine with an NVIDIA GPU.
"""

# %%
import json

from minikv import asset, play
from minikv.course.pieces.ch06 import pictures_of_copies

figures = json.loads(asset("copy.json").read_text("utf-8"))
for device in ("cpu", "cuda"):
    print(f"{device}: {figures.get(device, {}).get('machine', 'not measured yet')}")
beside(*pictures_of_copies(figures))

# %% [markdown]
"""
On the CPU, `KVStore.copy` in the page layout comes closest to memcpy for many tokens, because its runs are the longest. A gather and a scatter move twice the bytes of a memcpy but take up to seven times as long, so a count of bytes is a lower bound, not a forecast.

## Play

Slots are copied from a GPU in the layer layout to a host in the page layout, and back. Those that are read are marked *matched*, and those that are written *new*. Every other step asks you how many runs of boxes are read and how many are written.
"""

# %%
host, gpu = stores
TRIPS = [(gpu, [2, 3], host, [0, 1]), (gpu, [1, 4], host, [2, 3])]
TRIPS += [(host, [0, 2], gpu, [5, 6]), (gpu, range(8), host, range(8))]
steps, plain = [], beside(*map(draw, stores))
for at, src, to, dst in TRIPS:
    counts = [len(runs(boxes(s.layout, n, 2, 8))) for s, n in ((at, src), (to, dst))]
    drawn = {at: draw(at, matched=src), to: draw(to, new=dst)}
    trip = f"slots {[*src]} ({at.layout}) to slots {[*dst]} ({to.layout})"
    steps.append((f"{trip}: how many runs?", plain))
    steps.append((f"{trip}: runs {counts}", beside(drawn[host], drawn[gpu])))
play(steps)

# %% [markdown]
"""
## More to try

#### 6.5 Puzzle: one spare slot

Within one memory, a copy can overwrite a slot before reading it. Slots 0, 1, and 2 can move up by one if slot 2 goes first. But a swap has no such order, because it is a *cycle*: each slot waits for the next, and the last for the first. Suppose memory is too full for a gather, and there is one spare slot, called `"spare"`.

Write `moves(src, dst)`, which returns the shortest list of single moves, each a pair (from, to), that copies each slot `src[i]` to slot `dst[i]`. The result must be as if every source slot were read before any destination slot was written. A slot may occur twice in `src`, but not in `dst`. Moving up by one takes three moves, a swap takes three, and copying a slot to itself takes none.

We know of no engine that does this.
"""


# %%
def moves(src, dst):
    raise NotImplementedError  # delete this line; about 14 lines to write


check("6.5 moves", moves)

# %% [markdown]
"""
<details><summary>Hint</summary>

Which copy can be made now without losing anything? Make it, and ask again. If there is none, copy one slot to the spare, and remember who has to read it there.

</details>

<details><summary>Solution</summary>

```python
def moves(src, dst):
    comes_from = {to: at for at, to in zip(src, dst) if at != to}
    order = []
    while comes_from:
        ready = [slot for slot in comes_from if slot not in comes_from.values()]
        if ready:
            to = ready[0]
            at = comes_from.pop(to)
        else:
            at, to = next(iter(comes_from)), "spare"
        order.append((at, to))
        for reader in comes_from:
            if comes_from[reader] == at:
                comes_from[reader] = to
    return order
```

</details>

#### 6.6 Design: one copy for many slots

One memory copy needs a run at both ends, the source *and* the destination. Write `copies(src, dst)`, which returns, in order, the copies of whole runs that take slots `src` to slots `dst`. Each copy is a tuple: the first slot to read, the first to write, and how many. (If you could choose the order, or the slots in `dst`, could you manage with fewer copies?)
"""


# %%
def copies(src, dst):
    raise NotImplementedError  # delete this line; about 9 lines to write


check("6.6 copies", copies)

# %% [markdown]
"""
<details><summary>Hint</summary>

Keep a list of copies. The pair `(source, target)` continues the last one, `(start, to, length)`, if it is `(start + length, to + length)`.

</details>

<details><summary>Solution</summary>

```python
def copies(src, dst):
    found = []
    for source, target in zip(src, dst):
        if found:
            start, to, length = found[-1]
            if (source, target) == (start + length, to + length):
                found[-1] = (start, to, length + 1)
                continue
        found.append((source, target, 1))
    return found
```

</details>

#### 6.7 Bug hunt: a run is read as a whole

This function splits a copy into runs, as in 6.6, and reads each run as a whole before writing it, so a run that overlaps itself comes out right. Return `cells`, `src`, and `dst` for which the result still differs from reading everything first.
"""

# %%
source(careless("6.7"))


# %%
def a_call_it_gets_wrong():
    raise NotImplementedError  # delete this line, and change the next
    return ["a", "b", "c", "d"], [0, 1, 2], [1, 2, 3]


check("6.7 careless_copied", a_call_it_gets_wrong)

# %% [markdown]
"""
<details><summary>Hint</summary>

Take two runs. What if the first writes where the second reads?

</details>

<details><summary>Solution</summary>

```python
def a_call_it_gets_wrong():
    return ["a", "b", "c", "d"], [0, 2], [2, 1]
```

</details>

## What it cost

For a page of 16 tokens of the Llama above, let's count the runs in which it is copied and those in which attention reads its keys in one layer.
"""

# %%
size = 16 * llama.num_kv_heads * llama.head_dim * 2  # bytes
for layout, reads in (("layer", 1), ("page", 16)):
    n = len(runs(boxes(layout, range(16), llama.num_layers, num_slots=64)))
    print(f"{layout:5} copies {n:2} runs, reads {reads:2} of {size // reads:,} bytes")

# %% [markdown]
"""
Neither layout is best: attention wants a layer together, and a copy wants a page together.

A copy that runs while the model computes is also a risk. Without a gather, an engine has to hold a lock until the bytes have arrived. Otherwise, a slot's new owner may overwrite them while they are being read.

## In real engines

{{engines 06|GPU memory; host memory; `take_pages`}}

SGLang stores keys and values by layer on the GPU and, by default, by page in {{engines sglang-pinned|pinned host memory}}. Loads have {{engines sglang-load-stream}} and {{engines sglang-layer-overlap|overlap with computing}}.

## Recap

The best copy is no copy at all: requests share slots, and a single run is read where it is. Bytes that must move are moved in runs, and the layout decides how long the runs are. Evicted tokens are worth loading where that is faster than computing them, and with pinned memory and a second stream, the model computes while they arrive.

**Check yourself**

1. Why do a gather and a scatter within one memory move twice the bytes of a memcpy?
2. A model has many layers, and each takes as long to load as to compute. How much time does a second stream save?
3. From chapter 05: you load back a prompt's tail, and its beginning is still cached. Why is it always this way around?
4. From chapter 01: another model is the same, but has half as many KV heads. What happens to its break-even?

<details><summary>Answers</summary>

1. The gather writes a new tensor, and the scatter reads it again.
2. Nearly half: only the first load and the last computation overlap with nothing.
3. Only leaves are evicted, so the end of a prompt goes before its beginning.
4. It falls. A token has half as many bytes but takes about as many FLOPs, so loading wins with fewer tokens.

</details>

**Read on**: [PagedAttention, the paper](https://arxiv.org/abs/2309.06180) · [streams in PyTorch](https://docs.pytorch.org/docs/stable/notes/cuda.html) · [SGLang HiCache](https://lmsys.org/blog/2025-09-10-sglang-hicache/)
"""

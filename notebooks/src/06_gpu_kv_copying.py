# %% [markdown]
"""
# 06 · How do the bytes move?

So far a slot was a number. Now it is a place in memory, and the keys and values of a long prompt take megabytes. In this chapter you write four functions, about thirty lines. Your engine in chapter 08 uses two of them, `runs` and `gather`, to read keys and values in each step. The other two are for engines that do more than yours: they lay out memory, and bring back evicted tokens.

**After this chapter you will be able to** *count* the runs of bytes that a copy takes in a given layout, *predict* what a copy does whose source and destination overlap, and *decide* whether to load evicted tokens or to compute them again.

{{time}} **Needs** chapters 02 and 05, the bytes per token from 01, and a little PyTorch: a tensor is an array of numbers in memory. **New words** layout, gather, scatter, pinned memory, break-even.

Here is where we are going. Tokens of a Llama 3.1 8B have been evicted, and their keys and values are stored on another machine. One line shows how long it takes to load 1,000 of them, the other how long it takes to compute them again. Further right the prompts are longer, so each token has more to look back at. Where the lines cross, the better choice changes. (The rates are round numbers, not measurements.)
"""

# %%
from minikv import KVShape, plot

llama = KVShape.from_config("llama-3.1-8b")
TOKEN_BYTES = bytes_per_token(llama.num_layers, llama.num_kv_heads, llama.head_dim)
TOKEN_FLOPS, SPEED = 16.06e9, 400e12  # two per parameter; a large GPU at work
ATTENTION = 2 * llama.num_layers * llama.num_heads * llama.head_dim
NETWORK = 3e9  # bytes per second: 25 Gbit Ethernet

counts = [1000, 4000, 8000, 16000, 32000]
compute = [1e6 * (TOKEN_FLOPS + n * ATTENTION) / SPEED for n in counts]  # milliseconds
lines = {"load": [1e6 * TOKEN_BYTES / NETWORK] * len(counts), "compute again": compute}
plot("To bring evicted tokens back", {"tokens": counts}, lines, "ms for 1,000 tokens")

# %% [markdown]
"""
(`bytes_per_token` is yours from chapter 01, or the package's if yours is missing.)

## The problem

The first cache of AstrAI, which you met in chapter 02, had {{engines astrai-rows}}. A prefix that is stored in one row is of no use to a request in another row, so it was copied there, {{engines astrai-copy-loop}}. Here is such a cache. In place of a key we store the token that it belongs to, so we can see later whose it is.
"""

# %%
import torch

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"  # the output is the same
keys, row_of = torch.zeros(2, 8), {}


def compute_prompt(row, prompt):
    keys[row, : len(prompt)] = torch.tensor(prompt).float()
    row_of[tuple(prompt)] = row


def copy_prompt(prompt, target):
    keys[target, : len(prompt)] = keys[row_of[tuple(prompt)], : len(prompt)]


# %% [markdown]
"""
Anna's prompt `1 2 3 4` is computed in row 0. She leaves, and row 0 is given to Ben, whose prompt is `7 7 8 9`. Then Clara arrives with the same prompt as Anna. The cache remembers it, and copies it to row 1.
"""

# %%
# put a list of four tokens in place of None, then run the next cell
guess("6.a", "which four tokens are in row 1 now? [., ., ., .]", None)

# %%
compute_prompt(0, [1, 2, 3, 4])  # Anna's
compute_prompt(0, [7, 7, 8, 9])  # Ben's: Anna has left, and he is given her row
copy_prompt([1, 2, 3, 4], 1)  # Clara's
price = f"a hit of 1,000 tokens in Llama 3.1 8B copies {TOKEN_BYTES / 1000:.0f} MB"
fold("6.a", keys[1, :4].int().tolist(), price)

# %% [markdown]
"""
<details><summary>Why</summary>

Clara's answer is computed from Ben's text, and nothing complains. AstrAI's cache even stored a version for each row, but the copy did not look at it until {{engines astrai-copy|a fix}} on 2026-05-06. That is one mistake, and a comparison fixes it. The price remains: *every* hit moves the whole prefix.

</details>

In your tree a hit copies nothing, because both requests read the same slots. But bytes still move. New keys and values are written, and read at every step. And evicted tokens may go to the *host*, the memory of the CPU, and come back.

## Build it

### Step 1: where the bytes of a slot are

Memory is one long line of boxes. Each box holds the key or the value of one slot in one layer. The order of the boxes is the **layout**. Below are two stores with eight slots and two layers, drawn from the first box to the last. `K0` are the keys in layer 0, `V1` the values in layer 1, and the number below is the slot.
"""

# %%
from minikv import KVStore, beside, draw

tiny = KVShape(num_layers=2, num_kv_heads=1, head_dim=4)
stores = [KVStore(tiny, 2, 4, layout=name, device=DEVICE) for name in ("page", "layer")]
beside(*map(draw, stores))

# %% [markdown]
"""
In the *page layout*, all boxes of a slot are side by side, and so are those of a whole page. In the *layer layout*, all keys of layer 0 come first, then all values of layer 0, then layer 1.

#### 6.1 You write: `boxes` (10 minutes)

In which boxes are the keys and values of some slots? The first box has the number 0. `layout` is `"page"` or `"layer"`. Return the numbers of all boxes that belong to `slots`, as a sorted list.
"""


# %%
def boxes(layout, slots, num_layers, num_slots):
    """Return the numbers of all boxes that hold keys and values of `slots`, sorted."""
    raise NotImplementedError  # delete this line; about 8 lines to write


boxes = check("6.1 boxes", boxes)

# %% [markdown]
"""
A *run* is a part of the line without a gap, so it can be copied in one go.

#### 6.2 You write: `runs` (5 minutes)

Return a list of the runs of consecutive numbers in the list `slots`, in their order. Each run is a pair: its first number and its length. Slots `4 5 6 1` are two runs, `(4, 3)` and `(1, 1)`. A run only goes up: `5 4` are two runs, and so are `2 2`.
"""


# %%
def runs(slots):
    """The runs of consecutive slots, in order: (start, length) for each."""
    raise NotImplementedError  # delete this line; about 8 lines to write


runs = check("6.2 runs", runs)

# %% [markdown]
"""
Suppose we copy the second page of the stores above, slots 4 to 7.
"""

# %%
guess("6.b", "in how many runs of boxes are slots 4 to 7? [page, layer]", None)

# %%
page = [4, 5, 6, 7]
answer = [len(runs(boxes(layout, page, 2, 8))) for layout in ("page", "layer")]
fold("6.b", answer, beside(*(draw(store, matched=page) for store in stores)))

# %% [markdown]
"""
<details><summary>Why</summary>

In the page layout, the boxes of the four slots follow each other without a gap. In the layer layout, there is one run for the keys and one for the values of each layer: 4 here, and 64 in a model with 32 layers.

</details>

### Step 2: gather and scatter

In each step, attention reads the keys of all slots of a request, in one tensor. If the slots are a single run, nothing has to be copied: a slice of a tensor is a window onto the same memory. Otherwise the rows have to be brought together. This is called a **gather**. The opposite, writing the rows of one tensor to many slots, is a **scatter**.

#### 6.3 You write: `gather` (10 minutes)

`rows` is a tensor with a row for each slot, and `found` is what `runs` returned. If there is one run, return that slice of `rows`. Otherwise copy the runs to the beginning of `room`, one after the other, and return the part of `room` that you have filled, which may be empty. `room` is a tensor with enough rows that is used again in every step, because new memory is slower to write than memory in use.
"""


# %%
def gather(rows, found, room):
    """Return the rows of the runs in `found`, in order, as one tensor.

    One run is a slice of `rows`. Several are copied to the beginning of `room`.
    """
    raise NotImplementedError  # delete this line; about 8 lines to write


gather = check("6.3 gather", gather)

# %%
rows = torch.arange(8)[:, None].expand(8, 3).contiguous()
new = gather(rows, runs([4, 5, 1]), room=torch.empty_like(rows))
print("gathered:", new[:, 0].tolist())
rows[[0, 2, 3]] = new  # a scatter
print("each slot holds what was in slot", rows[:, 0].tolist())

# %% [markdown]
"""
A copy from slots to slots has to read every byte once and write every byte once. Call that the limit. A copy run by run reaches it. Another way is a gather into a new tensor, followed by a scatter.
"""

# %%
guess("6.c", "together, gather and scatter move how many times the limit?", None)

# %%
limit, bytes_gathered, bytes_scattered = (2 * new.nbytes for _ in range(3))
fold("6.c", (bytes_gathered + bytes_scattered) / limit, f"the limit: {limit} bytes")

# %% [markdown]
"""
<details><summary>Why</summary>

The gather reads and writes every byte, and so does the scatter. So a few long runs are copied run by run, and many short ones are gathered.

</details>

What if slots are both read and written? Copy slots 0, 1, 2 to slots 1, 2, 3, so that everything moves up by one. The slots hold the letters `abcd`, and we copy slot by slot, slot 0 first. (`moved(letters, moves)` returns the letters afterwards, and `picture_of_moves` draws each step.)
"""

# %%
guess("6.d", "which four letters are in the slots afterwards?", None)

# %%
from minikv.course.pieces.ch06 import moved, picture_of_moves

upwards = [(0, 1), (1, 2), (2, 3)]
fold("6.d", moved("abcd", upwards), picture_of_moves("abcd", upwards))

# %% [markdown]
"""
<details><summary>Why</summary>

It should be `aabc`, but slots 1 and 2 were overwritten before they were read.

</details>

Here the last slot has to be copied first. When everything moves down, it is the first slot. And for a swap, slots 0 and 1 to slots 1 and 0, *no* order works. But a gather followed by a scatter always works, because everything is read before anything is written. The price is a new tensor of the same size. (How little extra memory would do? That is puzzle 6.5, at the end.)

### Step 3: to the host and back

Evicted tokens need not be lost. Before their slots are given away, their keys and values can go to the host. They are gathered on the GPU and then cross the link to the host in one copy. On the host they go to **pinned memory**, which the operating system promises not to move, so the GPU can read and write it by itself. (Without a GPU, both sides are the same memory.)

But is it worth it? The tokens themselves are known. The model can compute their keys and values again, as it did the first time.

Loading *n* tokens takes the latency of the link (the wait before the first byte) once, and then *n* × the bytes per token ÷ the bytes per second.

Computing them takes *n* × the FLOPs per token, and attention on top. A FLOP is one addition or multiplication. A token takes one of each for every parameter of the model. Attention is extra, because each token looks back at all tokens before it. So it grows with the square: *n*² × `attention_flops`, where `attention_flops` is 2 × layers × heads × head size. Divide the sum by the FLOPs per second.

Let's take 1,000 tokens of the Llama above, at 131,072 bytes per token. The model has 8.03 × 10⁹ parameters, so a token takes 16.06 × 10⁹ FLOPs, and `attention_flops` is 262,144. The GPU computes 400 × 10¹² FLOPs per second. The keys and values are on a disk that reads 6 × 10⁹ bytes per second, and every load first waits 30 ms in its queue.
"""

# %%
guess("6.e", 'which is faster for 1,000 tokens, "load" or "compute"?', None)

# %%
n = 1000
load = 30 + 1000 * n * TOKEN_BYTES / 6e9
compute = 1000 * (n * TOKEN_FLOPS + n**2 * ATTENTION) / SPEED
answer = min((load, "load"), (compute, "compute"))[1]
fold("6.e", answer, f"load {load:.1f} ms, compute {compute:.1f} ms")

# %% [markdown]
"""
<details><summary>Why</summary>

Without the wait, loading would have won with 21.8 ms. But the wait comes only once, however many tokens there are.

</details>

#### 6.4 You write: `load_or_compute` (5 minutes)

Return the word `"load"` if loading takes less time, and `"compute"` if it does not. All times are in seconds.
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
At these rates, loading from the host always wins, and a slow network needs long prompts. The number of tokens from which loading wins is the **break-even**.

## The same in `minikv`

A `KVStore` takes pages of another one, here in host memory, and back. Three slots are saved and given to another request, and what they held is loaded into other slots. Again, each slot holds its token.
"""


# %%
def computed(tokens):
    """In place of the keys of these tokens in one layer: the tokens."""
    numbers = torch.tensor(tokens, dtype=torch.float16, device=DEVICE)
    return numbers[:, None, None].expand(-1, 2, 8).contiguous()


# %%
shape, tokens = KVShape(num_layers=1, num_kv_heads=2, head_dim=8), [31, 32, 33]
store = KVStore(shape, num_pages=16, layout="layer", device=DEVICE)
store.write(0, [3, 1, 4], computed(tokens), computed(tokens))
saved = store.in_host_memory(num_pages=3)
saved.take_pages(store, [3, 1, 4], [0, 1, 2])
store.copy([9, 9, 9], [3, 1, 4])  # the slots are given to another request
store.take_pages(saved, [0, 1, 2], [5, 6, 7])
for slots in ([3, 1, 4], [5, 6, 7]):
    print(f"in slots {slots} now:", store.read(0, slots)[0][:, 0, 0].int().tolist())

# %% [markdown]
"""
`break_even_tokens` computes the break-even. Just below it your function should say "compute", and from there on "load".

So far we have compared whole prompts. But your cache evicts the *end* of a prompt first, and the beginning may still be there. Each token of the end looks back at that beginning too. So after *m* cached tokens, each token takes 2 × *m* × `attention_flops` more.
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
Your function agrees each time. (With no token at all, both take no time: a tie.) After a cached beginning, loading wins earlier. Over 3 GB/s it wins from the first token.

`KVStore.copy` gives the same result as your `gather`, followed by a scatter. On a CPU it gathers too where source and destination overlap, and otherwise it copies run by run, if the runs are long.
"""

# %%
import random

chance = random.Random(6)
for _ in range(300):
    src, dst = chance.choices(range(16), k=8), chance.sample(range(16), 8)
    rows = computed(range(16))
    new = gather(rows, runs(src), room=torch.empty_like(rows))
    rows[dst] = new.clone()  # a single run is a window onto `rows`
    store.write(0, range(16), computed(range(16)), computed(range(16)))
    store.copy(src, dst)
    assert torch.equal(store.read(0, range(16))[0], rows), f"{src} to {dst}"
print("equal in 300 random copies")

# %% [markdown]
"""
### What the clock says

Now the same scattered pages of 16 tokens are copied in two ways, in both layouts. Each is compared with a *memcpy*, one plain copy of as many bytes, so 1 is the limit. These are times from a CPU; `make gpu`, on a machine that has a GPU, adds its picture.
"""

# %%
import json

from minikv import asset, play
from minikv.course.pieces.ch06 import pictures_of_copies

figures = json.loads(asset("copy.json").read_text("utf-8"))
for device, found in figures.items():
    print(f"{device}: {found['machine']}")
beside(*pictures_of_copies(figures))

# %% [markdown]
"""
On the CPU, with few tokens, all of them take two to four times as long as a memcpy. With many tokens `KVStore.copy` in the page layout comes closest to the limit: its runs are the longest. And the gather? You counted twice the limit, and the clock says up to seven times. A count of bytes is a lower bound and not a forecast, because it ignores where the bytes are.

## Play

Both layouts go through the same three copies. Slots that are read are marked *matched*, and slots that were written are marked *new*. Every other step asks you: how many runs of boxes will be marked, in the page layout and in the layer layout?
"""

# %%
COPIES = {"a page": ([2, 3], [6, 7]), "two slots of two pages": ([1, 4], [3, 6])}
COPIES["three slots up by one"] = [0, 1, 2], [1, 2, 3]
steps, plain = [], beside(*map(draw, stores))
for what, both in COPIES.items():
    for verb, slots, mark in zip(("read", "written"), both, ("matched", "new")):
        counts = [len(runs(boxes(name, slots, 2, 8))) for name in ("page", "layer")]
        drawn = beside(*(draw(store, **{mark: slots}) for store in stores))
        steps.append((f"{what}: slots {slots} are {verb}. In how many runs?", plain))
        steps.append((f"{what}: slots {slots} are {verb}, in {counts} runs", drawn))
play(steps)

# %% [markdown]
"""
## More to try

#### 6.5 Puzzle: one spare slot

Suppose memory is full, and there is a single spare slot, called `"spare"`. Write `moves(src, dst)`. It copies slot `src[i]` to slot `dst[i]`, with the same result as if every source slot were read before any destination slot was written. It returns a list of single moves, each a pair (from, to), and as few as possible. A slot may occur twice in `src`, but not in `dst`. Up by one takes three moves, a swap takes three, and a slot that is copied to itself takes none. What does `moves([0, 1, 0], [1, 0, 2])` take, where slot 0 is also copied elsewhere?

We know of no engine that does this, because the buffer that a gather needs is small beside the cache. It is still a nice puzzle: a compiler has to solve it when it moves several registers at once, and the answer is short.
"""


# %%
def moves(src, dst):
    raise NotImplementedError  # delete this line; about 14 lines to write


check("6.5 moves", moves)

# %% [markdown]
"""
<details><summary>Hint</summary>

Which copy can be made now without losing anything? Make it, and ask again. If there is none, save one slot in the spare slot, and remember who has to read it there.

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

The answer to the question is three moves, and none of them uses the spare slot: once slot 0 has been copied to slot 2, its content is safe.

</details>

#### 6.6 Design: one copy for many slots

One memory copy needs a contiguous run at both ends, at the source *and* at the destination. Write `copies(src, dst)`. It returns, in order, the copies of whole runs that take slots `src` to slots `dst`. Each is a tuple: the first slot to read, the first to write, and how many. (If you could choose the order, or the slots in `dst`, could you manage with fewer copies?)
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

This function splits a copy into runs, as in 6.6, and reads each run as a whole before it writes it. So a run that overlaps itself comes out right. Return `cells`, `src` and `dst` for which the result is still different from reading everything before writing anything.
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

Two runs. What if the first writes where the second reads?

</details>

<details><summary>Solution</summary>

```python
def a_call_it_gets_wrong():
    return ["a", "b", "c", "d"], [0, 2], [2, 1]
```

</details>

## What it cost

A layout that makes one thing cheap makes another expensive. Attention reads one layer's keys at every step of the model. In the page layout they are far apart. Let's count for a page of 16 tokens of the Llama above: runs to copy the page, and runs to read its keys in one layer.
"""

# %%
size = 16 * llama.num_kv_heads * llama.head_dim * 2  # bytes
for layout, reads in (("layer", 1), ("page", 16)):
    n = len(runs(boxes(layout, range(16), llama.num_layers, num_slots=64)))
    print(f"{layout:5} copies {n:2} runs, reads {reads:2} of {size // reads:,} bytes")

# %% [markdown]
"""
Neither is best: attention wants a layer together, and a copy wants a page together.

A copy also puts the same content in two places, and then a bookkeeping mistake becomes a wrong answer, like Clara's. And if an engine does not gather, but lets the copy to the host read the slots themselves, it has to hold a lock until the bytes have arrived. If a slot is freed earlier, its new owner overwrites it while it is still being copied.

## In real engines

{{engines 06|GPU memory; host memory; `copy`}}

SGLang stores the GPU's memory by layer and, by default, host memory by page. Its host cache loads {{engines sglang-layer-overlap|layer by layer}}, so the first layer can compute while the next one is still being loaded. In vLLM, {{engines vllm-connectors}} moves blocks between machines and to other stores.

## Recap

The best copy is no copy at all: requests that share slots move nothing. Bytes that have to move are moved in runs, and the layout decides how long the runs are. A copy that overlaps is correct if everything is read before it is overwritten, and evicted tokens are worth loading only where that is faster than computing them.

**Check yourself**

1. Why do a gather and a scatter move twice the bytes of the limit?
2. Slots 3, 4, 5 are copied to 2, 3, 4, one after the other. Which one goes first?
3. From chapter 05: you load back a prompt's tail, and its beginning is still cached. Why is it always this way around?
4. From chapter 01: another model is the same, but has half as many KV heads. What happens to its break-even?

<details><summary>Answers</summary>

1. The gather writes a new tensor, and the scatter reads it again.
2. Slot 3. Then slot 3 may be overwritten, and so on.
3. Only leaves are evicted, so the end of a prompt goes before its beginning.
4. A token has half as many bytes, and about as many FLOPs. So loading wins with fewer tokens.

</details>

**Read on**: [PagedAttention, the paper](https://arxiv.org/abs/2309.06180) · [pinned memory in PyTorch](https://docs.pytorch.org/tutorials/intermediate/pinmem_nonblock.html) · [SGLang HiCache](https://lmsys.org/blog/2025-09-10-sglang-hicache/)
"""

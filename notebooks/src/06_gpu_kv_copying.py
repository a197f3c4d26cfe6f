# %% [markdown]
"""
# 06 · How do the bytes move?

**After this chapter you will be able to** *count* the bytes and the steps of a copy before you run it, *choose* a layout for what you do most, and *copy* slots onto each other without losing one.

**Time** 45 minutes. **Needs** chapters 01, 02 and 05, and a little PyTorch: a tensor is an array of numbers in memory.
**New words** layout, gather, scatter, pinned memory.

## The problem

So far a slot was a number. Now it is a place in memory, and a cached prefix is megabytes. AstrAI's first cache had one slot for a whole *request*: a row with room for all its tokens. A prefix that lies in one row is of no use to a request in another, so it is copied there, layer by layer. Here it is, shortened. A model would compute keys and values; we write down the token instead, so that we can see later whose they are.
"""

# %%
import random

import torch

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"  # the chapter says the same on both
LAYERS, HEADS, DIM = 4, 2, 8


def computed(tokens):  # for each token, the keys (or the values) of all layers
    numbers = torch.tensor(tokens, dtype=torch.float16, device=DEVICE)
    return numbers[:, None, None, None].expand(-1, LAYERS, HEADS, DIM)


# %%
class RowCache:
    def __init__(self, rows, length):
        size = (rows, length, LAYERS, HEADS, DIM)
        self.k, self.v = (torch.zeros(size, dtype=torch.float16, device=DEVICE) for _ in "kv")
        self.versions, self.places = [0] * rows, {}  # prompt -> its row, and that row's version

    def compute(self, row, prompt):
        self.versions[row] += 1  # the row is somebody else's from now on
        self.k[row, : len(prompt)] = self.v[row, : len(prompt)] = computed(prompt)
        self.places[tuple(prompt)] = row, self.versions[row]

    def copy_kv(self, prompt, target):
        source = self.places[tuple(prompt)][0]
        for cache in (self.k, self.v):
            for layer in range(LAYERS):
                cache[target, : len(prompt), layer] = cache[source, : len(prompt), layer]


# %% [markdown]
"""
Two things are wrong with it. The first is the price: *every* hit moves the whole prefix. The second is in `copy_kv`, and you can see it.

**Predict first.** Anna's prompt is computed in row 0. She leaves, and row 0 is given to Ben. Then Clara comes with Anna's prompt: the cache knows it, and copies it to row 1. What is in row 1?

<details><summary>Answer</summary>

Ben's keys and values, in all layers. The cache wrote down which *version* of the row it meant (chapter 02), and `copy_kv` never looks at it. Nothing complains; Clara's answer is computed from Ben's text. Two lines fix it: compare the version, and treat a difference as a miss.

</details>
"""

# %%
from minikv import KVShape, bytes_per_token

cache, annas, bens = RowCache(rows=2, length=8), [1, 2, 3, 4], [7, 7, 8, 9]
cache.compute(0, annas)
cache.compute(0, bens)  # Anna has left, and Ben is given her row
cache.copy_kv(annas, 1)
print("Clara asked for", annas, "and has", cache.k[1, :4, 0, 0, 0].int().tolist())
source, version = cache.places[tuple(annas)]
print("written down: version", version, "of the row; its version now:", cache.versions[source])

llama = KVShape.from_config("llama-3.1-8b")
size, steps = 1000 * bytes_per_token(llama) / 1e6, 2 * llama.num_layers
print(f"a hit of 1,000 tokens in Llama 3.1 8B copies {size:.0f} MB, in {steps} steps of a loop")

# %% [markdown]
"""
In a tree of slots a hit copies nothing: both requests read the same slots. The best copy is none, and chapters 02 to 05 have bought that. But bytes still move. Every token's keys and values are *written*, and read again at every step. A page is *copied* when somebody must change what others share (chapter 11). And what is evicted may go to the *host*, the memory of the CPU, and come back.

## The picture

Where do the keys and values of one slot lie? Memory is one long line, and the order in which layers, slots, keys and values stand on it is the **layout**. Both of these stores have eight slots and two layers, and are drawn from their own addresses, from the first byte to the last. Each cell is the keys, or the values, of a slot in one layer; the number is the slot.

**Predict first.** Copy the four marked slots. In how many separate runs of bytes do they lie, in each layout?

<details><summary>Answer</summary>

In one, and in four: one for the keys and one for the values of each layer. With Llama's 32 layers it is one against 64.

</details>
"""

# %%
from minikv import KVStore, beside, draw

tiny, marked = KVShape(num_layers=2, num_kv_heads=1, head_dim=4), [4, 5, 6, 7]
pictures = []
for layout in ("page", "layer"):
    store = KVStore(tiny, num_pages=2, page_size=4, layout=layout, device=DEVICE)
    pictures.append(draw(store, matched=marked))
    found = store.byte_runs(marked)
    print(f"{layout} layout: {sum(size for _, size in found)} bytes, in runs: {len(found)}")
beside(*pictures)

# %% [markdown]
"""
## Build it

**Step 1: write and read.** One tensor for everything, in the layer layout: first by layer, then keys and values, then by slot. A token's slots may be anywhere, so a write is a **scatter**: row *i* goes to slot `slots[i]`. A read is the opposite, a **gather**: the rows of many slots, put together in order. In PyTorch each is a single indexing, and one call does it for all rows.
"""


# %%
class LayerStore:
    def __init__(self, num_slots):
        size = (LAYERS, 2, num_slots, HEADS, DIM)
        self.kv = torch.zeros(size, dtype=torch.float16, device=DEVICE)

    def write(self, layer, slots, k, v):
        self.kv[layer, 0, slots] = k  # scatter
        self.kv[layer, 1, slots] = v

    def read(self, layer, slots):
        return self.kv[layer, 0, slots], self.kv[layer, 1, slots]  # gather


store, tokens = LayerStore(16), [11, 12, 13]
for layer in range(LAYERS):
    store.write(layer, [9, 2, 5], computed(tokens)[:, layer], computed(tokens)[:, layer])
k, v = store.read(0, [2, 5, 9])
print("slots 2, 5 and 9 hold the tokens", k[:, 0, 0].int().tolist())

# %% [markdown]
"""
**Step 2: one copy instead of many.** To copy slots in all layers, a loop does what AstrAI did. But `kv` has the layers inside, so one indexing can take them all. What does that save, and what not? We count: the calls, and the bytes that each way reads or writes. Any method must read each byte once and write it once; that is the limit.

**Predict first.** The batched copy makes two calls instead of sixteen. How many bytes does it move, as a multiple of the limit?

<details><summary>Answer</summary>

Twice as many, like the loop. `kv[:, :, src]` gathers into a *new* tensor, and the scatter reads that again: every byte is read twice and written twice. The calls become fewer, the bytes do not.

</details>
"""


# %%
def looped(store, src, dst):
    calls = moved = 0
    for layer in range(LAYERS):
        for part in range(2):
            rows = store.kv[layer, part, src]  # reads them and writes a new tensor
            store.kv[layer, part, dst] = rows  # reads that and writes the slots
            calls, moved = calls + 2, moved + 4 * rows.nbytes
    return calls, moved


def batched(store, src, dst):
    rows = store.kv[:, :, src]
    store.kv[:, :, dst] = rows
    return 2, 4 * rows.nbytes


# %%
src, dst = list(range(16)), list(range(32, 48))
limit, results = 2 * len(src) * LAYERS * 2 * HEADS * DIM * 2, []
for copy in (looped, batched):
    store = LayerStore(64)
    store.kv[:, :, src] = computed(src).movedim(0, 1)[:, None]
    calls, moved = copy(store, src, dst)
    results.append(store.kv)
    print(f"{copy.__name__:8} {calls:2} calls, {moved:6,} bytes, {moved / limit:.0f} times the limit")
print("both end in the same bytes:", torch.equal(*results))

# %% [markdown]
"""
**Step 3: a layout in which a page is one run.** In the *page layout* the slots come first, and inside a slot its layers. It is the same tensor with its axes in another order. A page of neighbouring slots is now one run of bytes, so that a copy is a plain slice: nothing is gathered, no new tensor is made, and the limit is reached. The price: one layer's keys, which attention reads together, now lie far apart.
"""


# %%
class PageStore:
    def __init__(self, num_pages, page_size):
        size = (num_pages, page_size, LAYERS, 2, HEADS, DIM)
        self.kv = torch.zeros(size, dtype=torch.float16, device=DEVICE)

    def copy_pages(self, src, dst):
        for source, target in zip(src, dst):
            self.kv[target] = self.kv[source]  # one run of bytes, read once and written once
        return len(src), 2 * len(src) * self.kv[0].nbytes


def runs_of(picked):  # how many runs of bytes a view of a tensor has
    runs = 1
    for axis in range(picked.dim()):
        inside = torch.Size(picked.shape[axis + 1 :]).numel()
        runs *= 1 if picked.stride(axis) == inside else picked.shape[axis]
    return runs


# %%
pages, layers = PageStore(4, 16), LayerStore(64)
calls, moved = pages.copy_pages([0], [2])
print(f"copy_pages {calls} call, {moved:,} bytes, {moved / limit:.0f} times the limit")
for name, kv, page, keys in (
    ("layer", layers.kv, layers.kv[:, :, 16:32], layers.kv[0, 0, 16:32]),
    ("page", pages.kv, pages.kv[1], pages.kv[1, :, 0, 0]),
):
    print(f"{name} layout, runs: {runs_of(page)} for a page, {runs_of(keys)} for its keys of one layer")

# %% [markdown]
"""
Neither is best. What is read at every step wants its layer together; what is moved as a whole wants its page together. SGLang keeps the GPU's memory by layer, and host memory either way.

**Step 4: when source and destination overlap.** Copy slots 0, 1, 2 to slots 1, 2, 3: everything moves up by one.

**Predict first.** The copy is done slot by slot, the first one first. What is in slots 1 to 3? And if the last one goes first? Then take a swap: slots 0 and 1 to slots 1 and 0. Which order is right?

<details><summary>Answer</summary>

Starting at the front: slot 0's content three times, since each slot is overwritten before it is read. Starting at the end is right here, and wrong for a move downwards; C's `memmove` picks the direction that is right. For the swap *no* order is right. What always works: gather everything first, then scatter, at twice the bytes. Or look whether anything overlaps at all, which is rare.

</details>
"""


# %%
def one_by_one(cells, pairs):
    cells = list(cells)
    for source, target in pairs:
        cells[target] = cells[source]
    return "".join(cells)


for src, dst in (([0, 1, 2], [1, 2, 3]), ([0, 1], [1, 0])):
    pairs = list(zip(src, dst))
    cells = torch.tensor([ord(letter) for letter in "abcd"])
    cells[dst] = cells[src]  # gather, then scatter
    first, last = one_by_one("abcd", pairs), one_by_one("abcd", pairs[::-1])
    print(f"{src} to {dst}: first one first {first}, last one first {last},")
    print("   all read before anything is written", "".join(map(chr, cells.tolist())))

# %% [markdown]
"""
**Step 5: to the host and back.** Between GPU and host lies a link, many times slower than either memory, and every crossing costs some microseconds however little crosses. So gather on the GPU first, and cross *once*. The host's side should be **pinned memory**, which the operating system promises not to move: then the GPU copies by itself, on a *stream* of its own, while the model goes on computing. (On a CPU both sides are the same memory, and the same code runs.)

A copy that takes a while raises a question: what if somebody writes to the slots meanwhile? `to_host` gathers before anything that you ask for later, so you get what was there when you asked.
"""

# %%
store = KVStore(KVShape(LAYERS, HEADS, DIM), 4, 16, layout="layer", device=DEVICE)
for layer in range(LAYERS):
    store.write(layer, range(16), computed(list(range(16)))[:, layer], computed(list(range(16)))[:, layer])
saved = store.to_host([3, 1, 4])
store.copy([9, 9, 9], [3, 1, 4])  # the slots are given to somebody else
back = KVStore(store.shape, 4, 16, layout="page", device=DEVICE)  # another layout takes it too
back.from_host(saved, [0, 1, 2])
print(saved, "in one crossing;", len(store.byte_runs([3, 1, 4])), "runs of bytes in the store")
print("back in slots 0 to 2:", back.read(0, [0, 1, 2])[0][:, 0, 0].int().tolist())
print("in the old slots now:", store.read(0, [3, 1, 4])[0][:, 0, 0].int().tolist())

# %% [markdown]
"""
## The same in `minikv`

`KVStore` has the verbs of this chapter: `write`, `read`, `copy`, `copy_pages`, `to_host`, `from_host`. Both its layouts agree with `LayerStore` over 300 random writes and copies, overlapping ones among them. It copies runs, where runs are long and nothing overlaps, and gathers otherwise; on an NVIDIA GPU with Triton one small kernel reads each row and writes it at once.
"""

# %%
chance, ours = random.Random(6), LayerStore(64)
shape = KVShape(LAYERS, HEADS, DIM)
theirs = [KVStore(shape, 4, 16, layout=name, device=DEVICE) for name in ("layer", "page")]
for number in range(300):
    count, layer = chance.randint(1, 20), chance.randrange(LAYERS)
    src, dst = chance.choices(range(64), k=count), chance.sample(range(64), count)
    new = computed([number] * count)[:, layer]
    for store in (ours, *theirs):
        store.write(layer, dst, new, new + 1)
    batched(ours, src, dst)
    for store in theirs:
        store.copy(src, dst)
for store in theirs:
    found = torch.stack([torch.stack(store.read(layer, range(64))) for layer in range(LAYERS)])
    print(f"{store.layout} layout, the same bytes: {torch.equal(found, ours.kv)}")

# %% [markdown]
"""
What would go wrong in silence is refused before a byte moves.
"""

# %%
store, row = theirs[0], torch.zeros(2, HEADS, DIM, dtype=torch.float16, device=DEVICE)
for wrong in (
    lambda: store.copy([0, 1], [5, 5]),
    lambda: store.copy([64], [0]),
    lambda: store.write(0, [0, 1, 2], row, row),
    lambda: store.write(0, [0, 1], row.float(), row),
):
    try:
        wrong()
    except (TypeError, ValueError) as error:
        print(f"{type(error).__name__}: {error}")

# %% [markdown]
"""
Now the clock. Every method copies the same scattered pages of 16 tokens (only the row copy, which knows no pages, goes from row to row), and is compared with one plain copy of as many bytes from one place to another, a *memcpy*, measured beside it: 1 is the limit. These figures come with the course; `minikv bench --copy` makes them.
"""

# %%
import json

from minikv import asset, plot

shipped = json.loads(asset("copy.json").read_text("utf-8"))
SHOWN = ("loop over layers, whole sequence", "row copy"), ("indexed loop over layers", "indexed loop")
SHOWN += ("one gather, one scatter", "one gather"), ("KVStore.copy", "runs")


def lines(figures):
    found, short = {}, dict(SHOWN)
    for result in figures["results"]:
        if result["name"] in short:
            name = f"{short[result['name']]}, {result['layout']}"
            found[name] = [at["median"] for at in result["to_memcpy"]]
    return found


# %%
pictures = []
for device in ("cpu", "cuda"):
    if device not in shipped:
        print(f"no {'GPU' if device == 'cuda' else 'CPU'} figures shipped yet")
        continue
    figures = shipped[device]
    print(f"{figures['date']}, {figures['machine']}; {figures['bytes_per_token']:,} bytes a token")
    for at, tokens in enumerate(figures["tokens"]):
        best = min(lines(figures).items(), key=lambda line: line[1][at])
        print(f"   {tokens:>5,} tokens: the quickest is {best[0]!r}, {best[1][at]:.2f} times a memcpy")
    title = f"{'GPU' if device == 'cuda' else 'CPU'}: a copy, against one memcpy"
    pictures.append(plot(title, {"tokens": figures["tokens"]}, lines(figures), "times as long", log="xy"))
beside(*pictures)

# %% [markdown]
"""
With few tokens it is the calls that count: look at the loops over layers, on the left. With many tokens it is the bytes, and how they lie: a gather pays for its second tensor, and the runs of the page layout come closest to the limit.

And on your machine? The next cell measures the two smaller sizes, in a few seconds. It is the one cell here whose output differs from run to run, so none is stored.
"""

# %% tags=["nbval-ignore-output", "measured"]
import dataclasses

from minikv.measure.copying import bench_copy

yours = dataclasses.asdict(bench_copy(DEVICE, rounds=3, quick=True))
print(yours["machine"])
plot(f"yours, {DEVICE}", {"tokens": yours["tokens"]}, lines(yours), "times as long", log="xy")

# %% [markdown]
"""
## Play

Both layouts through the same three copies: what is read is marked *matched*, what was written *new*. Try this: before each step, say how many runs of bytes will be marked, in the page layout and in the layer layout.
"""

# %%
from minikv import play

steps, stores = [], [KVStore(tiny, 4, 2, layout=layout) for layout in ("page", "layer")]
for what, src, dst in (
    ("a page", [2, 3], [6, 7]),
    ("two slots of two pages", [1, 4], [6, 3]),
    ("three slots up by one", [0, 1, 2], [1, 2, 3]),
):
    for verb, slots, mark in (("read", src, "matched"), ("written", dst, "new")):
        counts = " and ".join(str(len(store.byte_runs(slots))) for store in stores)
        drawn = [draw(store, **{mark: slots}) for store in stores]
        steps.append((f"{what}: slots {slots} are {verb}, runs: {counts}", beside(*drawn)))
    for store in stores:
        store.copy(src, dst)
play(steps)

# %% [markdown]
"""
## Exercises

**6.1 Fill in.** Write `runs(src, dst)`: the copies of whole runs that copy slots `src` to slots `dst`, in order. Each is a tuple: the first slot to read, the first to write, how many. A run goes on while the next slot is the next neighbour in *both*.
"""

# %%
from minikv import check


def runs(src, dst):
    raise NotImplementedError  # delete this line; about nine lines to write


check("6.1 runs", runs)

# %% [markdown]
"""
<details><summary>Hint</summary>

Keep a list of runs. The pair `(source, target)` goes on with the last one, `(start, to, length)`, if it is `(start + length, to + length)`.

</details>

<details><summary>Solution</summary>

```python
def runs(src, dst):
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

**6.2 Design.** Memory is full: there is no room to gather into, only *one* spare slot. Slots are copied one at a time, to another or to the spare one, or from there. Write `fewest_moves(src, dst)`: how few such moves copy `src` to `dst` as if all were read first? A source may be there twice, a destination may not.
"""


# %%
def fewest_moves(src, dst):
    raise NotImplementedError  # delete this line; about twelve lines to write


check("6.2 fewest_moves", fewest_moves)

# %% [markdown]
"""
<details><summary>Hint</summary>

Begin with a slot that is written and never read. When is there none? How many extra moves does that cost, and does it cost any if the ring is copied elsewhere, too?

</details>

<details><summary>Solution</summary>

```python
def fewest_moves(src, dst):
    comes_from = {target: source for source, target in zip(src, dst) if source != target}
    count = 0
    while comes_from:
        ready = [slot for slot in comes_from if slot not in comes_from.values()]
        if ready:  # nothing reads it: write it
            slot = ready[0]
            source = comes_from.pop(slot)
        else:  # only rings are left: save a slot
            slot, source = "spare", next(iter(comes_from.values()))
        comes_from = {to: slot if there == source else there for to, there in comes_from.items()}
        count += 1
    return count
```

</details>

**6.3 Bug hunt.** `careless_copied` reads each run as a whole before it writes it, so a run that overlaps itself comes out right. Find cells, `src` and `dst` for which it is wrong all the same.
"""

# %%
import inspect

from minikv.course.exercises.ch06 import careless_copied, copied

print(inspect.getsource(copied))
print(inspect.getsource(careless_copied))


def a_call_it_gets_wrong():
    raise NotImplementedError  # delete this line, and change the next
    return ["a", "b", "c", "d"], [0, 1, 2], [1, 2, 3]


check("6.3 careless_copied", a_call_it_gets_wrong)

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

Moving whole pages is quick because more is moved: to get one token of a page of 16, you copy sixteen. And the page layout pays at every step of the model: it reads one layer's keys, and they lie in as many runs as there are tokens.
"""

# %%
shape = KVShape.from_config("llama-3.1-8b")
page, row = 16, shape.num_kv_heads * shape.head_dim * 2
print(f"{'layout':8}{'runs to copy a page':>22}{'runs to read the keys of a page, one layer':>46}")
for layout, to_copy, to_read in (("layer", 2 * shape.num_layers, 1), ("page", 1, page)):
    print(f"{layout:8}{to_copy:>22}{to_read:>46}  of {row * page // to_read:,} bytes")

# %% [markdown]
"""
Two things are at risk now. An engine that skips the gather, and lets the copy to the host read the slots themselves, must hold a lock until the bytes have arrived: a slot that is freed earlier will be overwritten too soon. And a copy puts one content in two places, so a bookkeeping mistake is no longer a wrong number but a wrong answer. Chapter 07 puts pool, tree and store under one roof, and counts them.

## In real engines

{{engines 06}}

HiCache loads layer by layer, so that the first layer computes while the second is on its way; vLLM's connectors move pages between machines.

## Recap

The best copy is none: requests that share slots move nothing. When bytes must move, few tokens cost calls and many tokens cost bytes, so copy all layers at once and in runs that are as long as the layout allows. A copy whose source and destination overlap is right only if everything is read before it is overwritten.

**Check yourself**

1. Why does one gather and one scatter move twice the bytes of the limit?
2. What does the page layout make cheaper, and what more expensive?
3. Slots 3, 4, 5 are copied to 2, 3, 4, one after the other. Which goes first?
4. Why gather on the GPU before going to the host?

<details><summary>Answers</summary>

1. The gather writes a new tensor, and the scatter reads it again.
2. Moving whole pages is one run each; reading one layer's keys is a run for each token.
3. Slot 3: then slot 3 is free to be overwritten, and so on.
4. The link is slow and each crossing has its price: what is gathered crosses once.

</details>

**Read on**: [PagedAttention, the paper](https://arxiv.org/abs/2309.06180) · [pinned memory in PyTorch](https://docs.pytorch.org/tutorials/intermediate/pinmem_nonblock.html) · [SGLang HiCache](https://lmsys.org/blog/2025-09-10-sglang-hicache/) · [Triton](https://triton-lang.org)
"""

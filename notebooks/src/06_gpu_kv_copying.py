# %% [markdown]
"""
# 06 · How do the bytes move?

So far a slot was a number. Now it is a place in memory, and the keys and values of a long prompt are megabytes that lie there. You will write three functions, about twenty-five lines: the first finds the slots that lie side by side, the second copies slots onto each other without losing one, and the third decides whether to load evicted tokens or to compute them again.

**After this chapter you will be able to** *count* the runs of bytes that a copy takes in a given layout, *order* moves whose source and destination overlap, and *decide* whether to load evicted tokens or to compute them again.

{{time}} **Needs** chapters 02 and 05, the bytes of a token from 01, and a little PyTorch: a tensor is an array of numbers in memory. **New words** layout, gather, scatter, pinned memory, break-even.

Here is where we are going. Tokens of a Llama 3.1 8B have been evicted, and their keys and values are kept elsewhere, behind a network. One line shows how long it takes to load 1,000 of them, the other how long it takes to compute them again. To the right the prompts are longer, and each token has more to look back at. Where the lines cross, the better choice changes. (The rates are round numbers to calculate with; nobody measured them.)
"""

# %%
from minikv import KVShape, plot

llama = KVShape.from_config("llama-3.1-8b")
TOKEN_BYTES = bytes_per_token(llama.num_layers, llama.num_kv_heads, llama.head_dim)
TOKEN_FLOPS, SPEED = 16.06e9, 400e12  # two for each parameter; a large GPU at work
ATTENTION = 2 * llama.num_layers * llama.num_heads * llama.head_dim
NETWORK = 3e9  # bytes a second: Ethernet of 25 Gbit

counts = [1000, 4000, 8000, 16000, 32000]
load = 1e6 * TOKEN_BYTES / NETWORK  # milliseconds for 1,000 tokens
compute = [1e6 * (TOKEN_FLOPS + n * ATTENTION) / SPEED for n in counts]
lines = {"load": [load] * len(counts), "compute again": compute}
plot("To bring evicted tokens back", {"tokens": counts}, lines, "ms for 1,000 tokens")

# %% [markdown]
"""
## The problem

The first cache of AstrAI, which you met in chapter 02, had {{engines astrai-rows}}. A prefix that lies in one row is of no use to a request in another row, so it was copied there, {{engines astrai-copy-loop}}. Here is such a cache. In place of a key we store the token that it belongs to, so we can see later whose it is.
"""

# %%
import torch

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"  # the chapter says the same
LAYERS = 4


# %%
class RowCache:
    def __init__(self, rows, length):
        self.keys, self.row_of = torch.zeros(LAYERS, rows, length), {}

    def compute(self, row, prompt):
        self.keys[:, row, : len(prompt)] = torch.tensor(prompt).float()
        self.row_of[tuple(prompt)] = row

    def copy(self, prompt, target):
        length, source = len(prompt), self.row_of[tuple(prompt)]
        for layer in range(LAYERS):
            self.keys[layer, target, :length] = self.keys[layer, source, :length]


# %% [markdown]
"""
Anna's prompt `1 2 3 4` is computed in row 0. She leaves, and row 0 is given to Ben, whose prompt is `7 7 8 9`. Then Clara comes with Anna's prompt. The cache remembers it, and copies it to row 1.
"""

# %%
# put a list of four tokens in place of None, then run the next cell
guess("6.a", "which four tokens are in row 1 now? [., ., ., .]", None)

# %%
cache, anna, ben = RowCache(rows=2, length=8), [1, 2, 3, 4], [7, 7, 8, 9]
cache.compute(0, anna)
cache.compute(0, ben)  # Anna has left, and Ben is given her row
cache.copy(anna, 1)
found = cache.keys[0, 1, :4].int().tolist()
megabytes = 1000 * TOKEN_BYTES / 1e6
price = f"a hit of 1,000 tokens in Llama 3.1 8B copies {megabytes:.0f} MB"
fold("6.a", found, "Clara's answer is computed from Ben's text", price)

# %% [markdown]
"""
<details><summary>Why</summary>

Nothing complains. AstrAI's cache even wrote down a version for each row, and the copy did not look at it ({{engines astrai-copy}}). That is one mistake, and a comparison fixes it. The price remains: *every* hit moves the whole prefix.

</details>

In your tree a hit copies nothing, because both requests read the same slots. But bytes still move. New keys and values are written, and read at every step. And evicted tokens may go to the *host*, the memory of the CPU, and come back.

## Build it

### Step 1: where the bytes of a slot lie

Memory is one long line. The order in which layers, slots, keys and values stand on it is the **layout**. Below are two stores with eight slots and two layers, each drawn from its first byte to its last. `K0` are the keys in layer 0, `V1` the values in layer 1, and the number below is the slot.
"""

# %%
from minikv import KVStore, beside, draw

tiny = KVShape(num_layers=2, num_kv_heads=1, head_dim=4)
stores = [KVStore(tiny, 2, 4, layout=name, device=DEVICE) for name in ("page", "layer")]
beside(*map(draw, stores))

# %% [markdown]
"""
In the *page layout* everything that belongs to a slot stands together, and so does a whole page. In the *layer layout* all keys of layer 0 stand together, then all values of layer 0, then layer 1.

A *run* of bytes is a part of the line without a gap. It can be copied in one go. Suppose we copy the second page, slots 4 to 7.
"""

# %%
guess("6.b", "in how many runs of bytes do slots 4 to 7 lie? [page, layer]", None)

# %%
page = [4, 5, 6, 7]
answer = [len(store.byte_runs(page)) for store in stores]
fold("6.b", answer, beside(*(draw(store, matched=page) for store in stores)))

# %% [markdown]
"""
<details><summary>Why</summary>

In the page layout the four slots follow each other without a gap. In the layer layout there is one run for the keys and one for the values of each layer: 4 here, and 64 in a model with 32 layers.

</details>

But the slots of a request may lie anywhere. Which of them are neighbors?

#### 6.1 You write: `runs`

Return a list of the runs of consecutive slots, in the order in which the slots are given: for each run a pair, its first slot and its length. Slots `4 5 6 1` are two runs, `(4, 3)` and `(1, 1)`. A run only goes up: slots `5 4` are two runs, and so are `2 2`.
"""


# %%
def runs(slots):
    """The runs of consecutive slots, in order: (start, length) for each."""
    raise NotImplementedError  # delete this line; about 8 lines to write


runs = check("6.1 runs", runs)

# %% [markdown]
"""
A run of slots is one run of bytes in the page layout, and two for each layer in the other. Let's compare your runs with what the stores say.
"""

# %%
for slots in ([4, 5, 6, 7], [0, 1, 4, 5], [0, 2, 4, 6]):
    count = len(runs(slots))
    said = [len(store.byte_runs(slots)) for store in stores]
    print(
        f"{slots}: {[count, 2 * tiny.num_layers * count]} runs; the stores say {said}"
    )

# %% [markdown]
"""
### Step 2: gather and scatter

Where there are many short runs, one operation for all slots is better. A **gather** reads the rows of many slots into one new tensor. A **scatter** writes the rows of one tensor to many slots. In PyTorch each is a single line.
"""

# %%
rows = torch.arange(8)[:, None].expand(8, 3).contiguous()
new = rows[[4, 6, 1]]  # gather: the rows are read, and a new tensor is written
rows[[0, 2, 3]] = new  # scatter: that tensor is read, and the slots are written
print("each slot holds what was in slot", rows[:, 0].tolist())

# %% [markdown]
"""
A copy must read every byte once and write every byte once. Call that the limit. A copy run by run reaches it.
"""

# %%
guess("6.c", "a gather, then a scatter: how many times the limit do they move?", None)

# %%
limit, gather, scatter = (2 * new.nbytes for _ in range(3))  # a read and a write each
fold("6.c", (gather + scatter) / limit, "each byte is read twice and written twice")

# %% [markdown]
"""
<details><summary>Why</summary>

So a few long runs are copied run by run, and many short ones are gathered.

</details>

### Step 3: when source and destination overlap

Copy slots 0, 1, 2 to slots 1, 2, 3. Everything moves up by one. The slots hold the letters `abcd`, and we copy slot by slot, slot 0 first.
"""

# %%
guess("6.d", "which four letters are in the slots afterwards?", None)

# %%
from minikv.course.pieces.ch06 import moved, picture_of_moves

upwards = [(0, 1), (1, 2), (2, 3)]
picture = picture_of_moves("abcd", upwards)
fold("6.d", moved("abcd", upwards), "right would be aabc", picture)

# %% [markdown]
"""
<details><summary>Why</summary>

Slots 1 and 2 were overwritten before they were read.

</details>

Here the last slot must be copied first. For a copy downwards, it is the first slot. And for a swap, slots 0 and 1 to slots 1 and 0, *no* order is right.

A gather followed by a scatter always works, because everything is read before anything is written. But it needs a new tensor of the same size, and memory may be full. So let's do it with one spare slot.

#### 6.2 You write: `moves`

Slot `src[i]` is copied to slot `dst[i]`, and the result must be the same as if all were read before any is written. Return a list of single moves, each a pair (from, to), in an order that is right. `"spare"` is the name of the spare slot. A slot may occur twice in `src`, but not in `dst`. Use as few moves as possible: a swap takes three, and a slot that is copied to itself takes none.
"""


# %%
def moves(src, dst):
    """The fewest moves, (from, to) each, that copy `src` to `dst` as if read at once.

    A slot that must be saved is moved to "spare", the one spare slot, and on from it.
    """
    raise NotImplementedError  # delete this line; about 14 lines to write


moves = check("6.2 moves", moves)

# %%
for src, dst in (
    ([0, 1, 2], [1, 2, 3]),  # up by one
    ([0, 1], [1, 0]),  # a swap
    ([0, 1, 2, 3], [1, 0, 3, 2]),  # two swaps
    ([0, 1, 0], [1, 0, 2]),  # a swap, and slot 0 is also copied elsewhere
):
    order = moves(src, dst)
    print(f"{src} to {dst}: {moved('abcd', order)} in {len(order)} moves")

# %% [markdown]
"""
Two swaps use the spare slot twice. The last line needs no spare slot at all: once slot 0 has been copied to slot 2, its content is safe.

### Step 4: to the host and back

Evicted tokens need not be lost. Before their slots are given away, their keys and values can go to the host. They are gathered on the GPU and then cross the link to the host in one copy. The host's side is **pinned memory**, which the operating system promises not to move, so the GPU can read and write it by itself. (Without a GPU both sides are the same memory. The same code runs.)

But is it worth it? The tokens themselves are known. The model can compute their keys and values again, as it did the first time.

Loading *n* tokens takes the latency of the link (the wait before the first byte) once, and then *n* × the bytes of a token ÷ the bytes a second.

Computing them takes *n* × the FLOPs of a token, its additions and multiplications, and attention on top. Each token looks back at all before it, so attention grows with the square: *n*² × `attention_flops`, where `attention_flops` is 2 × layers × heads × head size. Divide the sum by the FLOPs a second.

Let's take 1,000 tokens of the Llama above. A token has 131,072 bytes. It takes two FLOPs for each parameter, 16.06 × 10⁹ in all, and `attention_flops` is 262,144. The GPU computes 400 × 10¹² FLOPs a second. The keys and values lie on a disk that reads 6 × 10⁹ bytes a second, and every load first waits 30 ms in its queue.
"""

# %%
guess("6.e", 'which is sooner for 1,000 tokens, "load" or "compute"?', None)

# %%
n = 1000
load = 30 + 1000 * n * TOKEN_BYTES / 6e9
compute = 1000 * (n * TOKEN_FLOPS + n**2 * ATTENTION) / SPEED
answer = "load" if load < compute else "compute"
fold("6.e", answer, f"load {load:.1f} ms, compute {compute:.1f} ms")

# %% [markdown]
"""
<details><summary>Why</summary>

Without the wait, loading would have won: 21.8 ms. But the wait comes only once, however many tokens there are.

</details>

#### 6.3 You write: `load_or_compute`

Return the word `"load"` if loading takes less time, and `"compute"` if it does not. All times are in seconds.
"""


# %%
def load_or_compute(
    num_tokens, token_bytes, link, token_flops, attention_flops, speed, latency=0
):
    """What brings `num_tokens` evicted tokens back sooner: "load" or "compute".

    `link` is in bytes a second, `speed` in FLOPs a second, `latency` in seconds.
    """
    raise NotImplementedError  # delete this line; about 3 lines to write


load_or_compute = check("6.3 load_or_compute", load_or_compute)

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
With these rates loading from the host always wins, and a slow network needs long prompts. The number of tokens from which loading wins is the **break-even**.

## The same in `minikv`

`KVStore` goes to the host and back with `to_host` and `from_host`. Three slots are saved and given to somebody else, and what they held is loaded into other slots. Again, each slot holds its token.
"""


# %%
def computed(tokens):
    """In place of the keys of these tokens in one layer: the tokens."""
    numbers = torch.tensor(tokens, dtype=torch.float16, device=DEVICE)
    return numbers[:, None, None].expand(-1, 2, 8).contiguous()


# %%
shape, tokens = KVShape(LAYERS, num_kv_heads=2, head_dim=8), [31, 32, 33]
store = KVStore(shape, num_pages=4, page_size=4, layout="layer", device=DEVICE)
for layer in range(LAYERS):
    store.write(layer, [3, 1, 4], computed(tokens), computed(tokens))
saved = store.to_host([3, 1, 4])
store.copy([9, 9, 9], [3, 1, 4])  # the slots are given to somebody else
store.from_host(saved, [5, 6, 7])
for slots in ([3, 1, 4], [5, 6, 7]):
    print(f"in slots {slots} now:", store.read(0, slots)[0][:, 0, 0].int().tolist())

# %% [markdown]
"""
`break_even_tokens` computes the break-even. Just below it your function should say "compute", and from there on "load".

So far we have compared whole prompts. But your cache evicts the *end* of a prompt first, and the beginning may still be there. Each token of the end looks back at that beginning too. So behind *m* cached tokens, each token takes 2 × *m* × `attention_flops` more. Below, the second number is the break-even behind 4,000 cached tokens.
"""

# %%
from minikv import break_even_tokens

# %%
for name, rate in LINKS.items():
    found = []
    for flops in (TOKEN_FLOPS, TOKEN_FLOPS + 2 * 4000 * ATTENTION):
        rest = flops, SPEED
        n = break_even_tokens(TOKEN_BYTES, rate, *rest, attention_flops=ATTENTION)
        rest = rate, flops, ATTENTION, SPEED
        assert load_or_compute(n - 1, TOKEN_BYTES, *rest) == "compute"
        assert load_or_compute(n, TOKEN_BYTES, *rest) == "load"
        found.append(n)
    print(f"{name:20} {found[0]:>7,} tokens, and behind 4,000 {found[1]:>7,}")

# %% [markdown]
"""
Your function agrees each time. Behind a cached beginning, loading wins earlier. Over 3 GB/s it wins from the first token on.

`KVStore.copy` gives what your moves give. On a CPU it uses no spare slot: where something overlaps it gathers, and otherwise it copies run by run, if the runs are long. Here yours works on the layer layout, and the package's copy on the page layout.
"""

# %%
import random


def filled(layout):
    store = KVStore(shape, num_pages=17, layout=layout, device=DEVICE)
    for layer in range(LAYERS):
        store.write(layer, range(16), computed(range(16)), computed(range(16)))
    return store


# %%
chance, place = random.Random(6), {"spare": 16, **{slot: slot for slot in range(16)}}
for number in range(300):
    ours, theirs = filled("layer"), filled("page")
    src, dst = chance.choices(range(16), k=8), chance.sample(range(16), 8)
    for at, to in moves(src, dst):
        ours.copy([place[at]], [place[to]])
    theirs.copy(src, dst)
    here, there = (store.read(number % LAYERS, range(16)) for store in (ours, theirs))
    assert all(map(torch.equal, here, there))
print("equal in 300 random copies")

# %% [markdown]
"""
### What the clock says

Now the same scattered pages of 16 tokens are copied in two ways, in both layouts. Each is compared with one plain copy of as many bytes from one place to another, a *memcpy*, so 1 is the limit. The figures come with the course, and `minikv bench --copy` makes them.
"""

# %%
import json

from minikv import asset, play

SHOWN = {"one gather, one scatter": "gather", "KVStore.copy": "KVStore.copy"}
figures = json.loads(asset("copy.json").read_text("utf-8"))
for device in ("cpu", "cuda"):
    known = figures.get(device, {"machine": "not measured yet: `make gpu` does it"})
    print(f"{device:5} {known['machine']}")


# %%
def to_memcpy(device):
    ways = [way for way in figures[device]["results"] if way["name"] in SHOWN]
    names = [f"{SHOWN[way['name']]}, {way['layout']}" for way in ways]
    times = [[at["median"] for at in way["to_memcpy"]] for way in ways]
    return dict(zip(names, times))


pictures = []
for device, found in figures.items():
    title, tokens = f"{device}: a copy, against one memcpy", {"tokens": found["tokens"]}
    pictures.append(plot(title, tokens, to_memcpy(device), "times as long", log="x"))
beside(*pictures)

# %% [markdown]
"""
Where it says "not measured yet", the figures wait for a GPU: `make gpu` measures them on a machine that has one, and writes them here. The rest of this section is about the CPU.

With few tokens all of them take two to four times as long as a memcpy. With many tokens `KVStore.copy` in the page layout comes closest to the limit: its runs are the longest. And the gather? You counted twice the limit, and the clock says up to seven times. A count of bytes is a lower bound and not a forecast, because it ignores where the bytes lie.

## Play

Both layouts go through the same three copies. Slots that are read are marked *matched*, and slots that were written are marked *new*. Before each step: how many runs of bytes will be marked, in the page layout and in the layer layout?
"""

# %%
COPIES = {
    "a page": ([2, 3], [6, 7]),
    "two slots of two pages": ([1, 4], [3, 6]),
    "three slots up by one": ([0, 1, 2], [1, 2, 3]),
}
steps, stores = [], [KVStore(tiny, 4, 2, layout=name) for name in ("page", "layer")]
for what, both in COPIES.items():
    for verb, slots, mark in zip(("read", "written"), both, ("matched", "new")):
        counts = " and ".join(str(len(store.byte_runs(slots))) for store in stores)
        drawn = beside(*(draw(store, **{mark: slots}) for store in stores))
        steps.append((f"{what}: slots {slots} are {verb}, runs: {counts}", drawn))
play(steps)

# %% [markdown]
"""
## More to try

#### 6.4 Design: one copy for many slots

A copy of memory takes a run at the source *and* at the destination. Write `copies(src, dst)`: it returns, in order, the copies of whole runs that take slots `src` to slots `dst`. Each is a tuple: the first slot to read, the first to write, how many. (Then ask yourself: if you could choose the order, or the slots in `dst`, would fewer copies do?)
"""


# %%
def copies(src, dst):
    raise NotImplementedError  # delete this line; about 9 lines to write


check("6.4 copies", copies)

# %% [markdown]
"""
<details><summary>Hint</summary>

Keep a list of copies. The pair `(source, target)` goes on with the last one, `(start, to, length)`, if it is `(start + length, to + length)`.

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

#### 6.5 Bug hunt: a run is read as a whole

`careless_copied` reads each run as a whole before it writes it, so a run that overlaps itself comes out right. Find `cells`, `src` and `dst` for which it is still wrong.
"""

# %%
from minikv.course.pieces import careless
from minikv.course.pieces.ch06 import copied

source(copied, careless("6.5"))


# %%
def a_call_it_gets_wrong():
    raise NotImplementedError  # delete this line, and change the next
    return ["a", "b", "c", "d"], [0, 1, 2], [1, 2, 3]


check("6.5 careless_copied", a_call_it_gets_wrong)

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

A layout that makes one thing cheap makes another expensive. Attention reads one layer's keys at every step of the model. In the page layout they lie far apart.
"""

# %%
page, row = 16, llama.num_kv_heads * llama.head_dim * 2
print(
    f"{'layout':8}{'runs to copy a page':>22}{'runs to read its keys, one layer':>36}"
)
for layout, to_copy, to_read in (("layer", 2 * llama.num_layers, 1), ("page", 1, page)):
    print(f"{layout:8}{to_copy:>22}{to_read:>36}, {row * page // to_read:,} bytes each")

# %% [markdown]
"""
Neither is best. Attention wants a layer together, and a copy wants a page together.

A copy also puts the same content in two places, and then a bookkeeping mistake becomes a wrong answer, like Clara's. And an engine that does not gather, but lets the copy to the host read the slots themselves, must hold a lock until the bytes have arrived. If a slot is freed earlier, its new owner overwrites it while it is still being copied.
"""

# %% [markdown]
"""
## In real engines

{{engines 06}}

SGLang keeps the GPU's memory by layer and, by default, host memory by page. Its host cache loads layer by layer ({{engines sglang-layer-overlap}}), so the first layer computes while the next is on its way. In vLLM {{engines vllm-connectors}} moves blocks between machines and to stores. The last row of the table: a batch is often padded to a fixed size, and what is computed for the padding must be written where it does no harm. (Block 0 of vLLM, the {{engines vllm-null-block}}, is not for padding: it stands for blocks that a layer no longer needs.)

## Recap

The best copy is none: requests that share slots move nothing. Bytes that must move do so in runs, and the layout decides how long the runs are. A copy that overlaps is right if everything is read before it is overwritten, and evicted tokens are worth loading only where that takes less time than computing them.

**Check yourself**

1. Why do a gather and a scatter move twice the bytes of the limit?
2. Slots 3, 4, 5 are copied to 2, 3, 4, one after the other. Which goes first?
3. From chapter 05: you load back a prompt's tail, and its beginning is still cached. Why is it always this way around?
4. From chapter 01: a model with half as many KV heads is loaded. What happens to its break-even?

<details><summary>Answers</summary>

1. The gather writes a new tensor, and the scatter reads it again.
2. Slot 3. Then slot 3 may be overwritten, and so on.
3. Only leaves are evicted, so the end of a prompt goes before its beginning.
4. A token has half as many bytes, and about as many FLOPs. So loading wins with fewer tokens.

</details>

**Read on**: [PagedAttention, the paper](https://arxiv.org/abs/2309.06180) · [pinned memory in PyTorch](https://docs.pytorch.org/tutorials/intermediate/pinmem_nonblock.html) · [SGLang HiCache](https://lmsys.org/blog/2025-09-10-sglang-hicache/)
"""

# %% [markdown]
"""
# 01 · How many tokens fit in this GPU?

When an engine starts, it decides how large its KV cache will be. In this chapter you write five functions, the first in your own `my_minikv.py`. They compute how many bytes one token takes, read a model's `config.json`, count the pages that fit, find the slots of a request, and compute how many bytes a whole text takes. Together they are about 25 lines.

**After this chapter you will be able to** *compute* the bytes per token from a model's `config.json`, and *say* why some models also need a fixed amount per sequence; *say* what else needs room on a GPU; and *choose* a page size for the requests that you serve.

{{time}} **Needs** chapter 00. **New words** KV head, GQA, MLA, page, page table.

Here is where we are going. Slots are handed out in pages. A **page** is a fixed number of neighboring slots. The **page table** has a row for each request, which lists the slots of its tokens in order. Below, a page has four slots.
"""

# %%
from minikv import FreeListPool, PageTable, draw, page_slots

pool, table = FreeListPool(6), PageTable(num_rows=3, max_length=12)
shared, first, second, last = (page_slots(pool.alloc(1), 4) for _ in range(4))
long, short = table.open(), table.open()
for page in (shared, first, last[:2]):  # ten tokens
    table.append(long, page)
for page in (shared, second[:1]):  # five tokens
    table.append(short, page)
draw(table, matched=shared)

# %% [markdown]
"""
The two requests begin with the same tokens, so the first page (*matched*) is in both rows. The other slots in the rows are *in hand*: used by one request. The pages of a request don't have to be neighbors: any free page will do, because the page table says where to look. Row 2 is *closed*: it is free for the next request.

## The problem

An engine reserves all the memory for its cache once, when it starts. So it has to know *beforehand* how many tokens will fit. {{engines infratech}} To size a token, it {{engines notebook-formula}}: it multiplies everything, then divides by the number of GPUs. Here is that formula for one layer with 8 heads, on 1, 2, 3 and 16 GPUs. (A head is a part of a layer; step 1 explains it.)
"""


# %%
def careless_bytes_per_token(layers, heads, head_dim, gpus=1):
    return layers * 2 * heads / gpus * head_dim * 2


for gpus in (1, 2, 3, 16):
    size = careless_bytes_per_token(1, 8, 128, gpus)
    print(f"{gpus:2} GPUs: {size:7.1f} bytes per token")
tokens = 80 * 2**30 / careless_bytes_per_token(32, 8, 128)
print(f"Llama 3.1 8B on one 80 GiB GPU: {tokens:,.0f} tokens")

# %% [markdown]
"""
Three of these five lines are wrong. There is no such thing as a third of a byte. On 16 GPUs the number is too small: an engine that believed it would run out of memory. And the last line gives the whole GPU to the cache; nearly a third of what it promises isn't there.

## Build it

### Step 1: one token

A **KV head** keeps one key vector and one value vector for every token, each with `head_dim` numbers. A *query head* reads one KV head. In the simplest form, *multi-head attention* (MHA), each query head has its own KV head. And every layer keeps its own keys and values.

Llama 2 7B has 32 layers, 32 KV heads, and vectors of 128 numbers, at 2 bytes per number.
"""

# %%
# put your number in place of None, then run the next cell
guess("1.a", "how many KiB (1,024 bytes) does one of its tokens take?", None)

# %%
import numpy as np

keys, values = np.zeros((2, 10, 32, 32, 128), np.float16)  # token, layer, head, number
size = (keys.nbytes + values.nbytes) // 10 // 1024
fold("1.a", size, "KiB per token, measured on real arrays of ten tokens")

# %% [markdown]
"""
<details><summary>Why</summary>

32 layers × 32 heads × 2 vectors × 128 numbers × 2 bytes: half a MiB for a single token. That is why in newer models several query heads share one KV head.

</details>

In **GQA**, grouped-query attention, several query heads read the same KV head: Llama 3.1 8B has 32 query heads and 8 KV heads. If all query heads read a single KV head, this is *MQA*, multi-query attention. Below are eight query heads, `q0` to `q7`, and the KV head that each of them reads:
"""

# %%
from minikv.course.pictures.cells import word_rows

rows = []
for name, kv_heads in (("MHA", 8), ("GQA", 2), ("MQA", 1)):
    read = np.repeat(np.arange(kv_heads), 8 // kv_heads)
    rows.append((name, [f"KV {head}" for head in read]))
word_rows(rows, heads=[f"q{head}" for head in range(8)])

# %% [markdown]
"""
DeepSeek goes further with **MLA**, multi-head latent attention: each layer keeps one small vector per token. The keys and values of all heads are computed from it when they are needed.

### Step 2: several GPUs

A large model is divided among several GPUs, and each GPU gets some of the heads. This is *tensor parallelism*, and `tp` is the number of GPUs. Heads are never split. Here are four KV heads, `0` to `3`, on 2, 4 and 8 GPUs:
"""

# %%
rows = []
for tp, copies in ((2, 1), (4, 1), (8, 2)):
    parts = np.split(np.repeat(np.arange(4), copies), tp)
    rows.append((f"{tp} GPUs", [" ".join(map(str, part)) for part in parts]))
word_rows(rows, heads=[f"GPU {gpu}" for gpu in range(8)])

# %% [markdown]
"""
Two cases work:

- The number of KV heads is a multiple of the number of GPUs. Every GPU gets the same number of heads.
- The number of GPUs is a multiple of the number of KV heads. Every GPU keeps one head, and each head has copies.

No other combination can run at all. Now take Llama 3.1 8B: 32 layers, 8 KV heads, vectors of 128 numbers, 2 bytes per number.
"""

# %%
# two numbers: put a list such as [1, 2] in place of None
guess("1.b", "how many KiB per token on each of 8 GPUs? And of 16? [., .]", None)

# %% [markdown]
"""
#### 1.1 You write: `bytes_per_token` (10 minutes)

Compute the bytes that one token takes on *each* GPU. `kv_heads` is the number of KV heads in the whole model, and `number_bytes` is the size of one number. If neither case applies, raise a `ValueError`. The answer is a whole number, and it must be exact even for numbers that are too large for a float.
"""


# %%
def bytes_per_token(layers, kv_heads, head_dim, tp=1, number_bytes=2):
    """Return the bytes of one token's keys and values on each of `tp` GPUs."""
    raise NotImplementedError  # delete this line; about 4 lines to write


bytes_per_token = check("1.1 bytes_per_token", bytes_per_token)

# %% [markdown]
"""
`check` calls your function with many different numbers and compares each result with the correct one. Once they all agree, *your* function runs below; until then, the course's own version does. If you get stuck, try `hint("1.1")`. Call it again for a stronger hint. `solution("1.1")` shows the course's version. A function that doesn't finish is stopped after 3 seconds; if a check still runs after a minute, restart the kernel.

A function that passes is saved in `my_minikv.py`; until then, your last failing answer is kept there as a comment. If you restart the kernel, run the cells from the top: the set-up cell loads your functions again.
"""

# %%
sizes = {tp: bytes_per_token(32, 8, 128, tp) // 1024 for tp in (1, 2, 4, 8, 16, 32)}
fold("1.b", [sizes[8], sizes[16]], f"KiB on each GPU, by the number of GPUs: {sizes}")

# %% [markdown]
"""
<details><summary>Why</summary>

Once there are as many GPUs as KV heads, the cache on each GPU stops shrinking. More GPUs only make more copies.

</details>

### Step 3: ask the model

Where do those numbers come from? Every published model comes with a `config.json`. In the simplest kind, three entries are always there: `num_hidden_layers`, `num_attention_heads` (the query heads) and `hidden_size`. Two more may be missing, or may be `null`, which Python reads as `None`:

| entry | what it says | if it is missing or `None` |
|---|---|---|
| `num_key_value_heads` | the number of KV heads | every query head has its own KV head |
| `head_dim` | the numbers in a key vector | the hidden size is divided evenly among the query heads |

#### 1.2 You write: `read_config` (5 minutes)

`config` is a dictionary. Return a tuple: the number of layers, the number of KV heads, and `head_dim`. The dictionary must not change.
"""


# %%
def read_config(config):
    """Return the layers, the KV heads and the head_dim of a model as a tuple."""
    raise NotImplementedError  # delete this line; about 4 lines to write


read_config = check("1.2 read_config", read_config)

# %% [markdown]
"""
Together, your two functions work for models with MHA, GQA or MQA in which every layer keeps every token.
"""

# %%
import json

from minikv import asset

for name in ("llama-2-7b", "llama-3.1-8b", "gemma-2b"):
    config = json.loads(asset(f"configs/{name}.json").read_text("utf-8"))
    shape = read_config(config)
    print(f"{name:12} {shape!s:14} {bytes_per_token(*shape):7,} bytes per token")

# %% [markdown]
"""
### Step 4: what else is on the GPU

The cache gets what is left over. Four things come first:

- **A margin.** Other programs use the GPU, too, so an engine takes only a share of the memory. We take 90 percent.
- **The weights.** Llama 3.1 8B has 8,030,261,248 of them, at 2 bytes each.
- **Activations.** While a layer computes, its intermediate results need room. It is hard to calculate how much. So vLLM and nano-vllm measure it: they make a *trial run* with the most tokens that they allow at once. SGLang and mini-sglang keep a fixed share of the memory free instead.
- **Graphs.** To save time, an engine records the work of one pass through the model and replays it (CUDA graphs). The recordings take memory, too.

The rest is divided into whole pages. A page that fits only partly doesn't count.

#### 1.3 You write: `pages_that_fit` (10 minutes)

All sizes are in bytes, and `percent` is a whole number from 1 to 100: the share of the memory that the engine may use. If there isn't room for a single page, the engine can't start: raise a `MemoryError`. Again, be exact. On an 80 GiB GPU, one byte too many is a crash at 3 a.m.
"""


# %%
def pages_that_fit(memory, percent, weights, activations, graphs, page_bytes):
    """Return how many whole pages fit, or raise a MemoryError if none does."""
    raise NotImplementedError  # delete this line; about 5 lines to write


pages_that_fit = check("1.3 pages_that_fit", pages_that_fit)

# %% [markdown]
"""
Now we can answer this chapter's question. We assume 1.2 GiB for the activations and 0.5 GiB for the graphs. These are typical round numbers; your engine prints its own when it starts.
"""

# %%
GIB, WEIGHTS = 2**30, 2 * 8_030_261_248
for size in (1, 16, 256):
    page = size * bytes_per_token(32, 8, 128)
    pages = pages_that_fit(80 * GIB, 90, WEIGHTS, 12 * GIB // 10, GIB // 2, page)
    print(f"pages of {size:3}: {pages:7,} pages, {pages * size:7,} tokens")

# %% [markdown]
"""
So an 80 GiB GPU holds about 453,000 tokens of Llama 3.1 8B, whatever the page size. The careless formula promised 655,360. This is where the 80 GiB go, in boxes of up to 4 GiB:
"""

# %%
taken = {"weights": WEIGHTS, "activations": 12 * GIB // 10, "graphs": GIB // 2}
taken = {"margin": 8 * GIB, **taken, "cache": pages * page}
rows = []
for name, size in taken.items():
    starts = np.arange(0, size / GIB, 4)
    rows.append((name, [f"{min(4, size / GIB - start):.2g}" for start in starts]))
word_rows(rows)

# %% [markdown]
"""

### Step 5: from pages to slots

The engine hands out pages, but the model reads and writes slots. Page 0 has the first `page_size` slots, starting with slot 0; page 1 has the next ones, and so on. A request's pages may come in any order, and its last page may be only partly filled.

#### 1.4 You write: `slots_of` (10 minutes)

`pages` is a list of a request's page numbers, in the order of its tokens. Return a new list with one slot for each of its `num_tokens` tokens, in order. If the pages have too few slots for them, raise a `ValueError`.
"""


# %%
def slots_of(pages, page_size, num_tokens):
    """Return the slot of each token of a request that has these pages, in order."""
    raise NotImplementedError  # delete this line; about 6 lines to write


slots_of = check("1.4 slots_of", slots_of)

# %% [markdown]
"""
These are the two rows of the picture at the beginning:
"""

# %%
print(slots_of([0, 1, 3], 4, 10))
print(slots_of([0, 2], 4, 5))

# %% [markdown]
"""
## The same in `minikv`

`minikv` does all of this, too. Its `page_slots` uses numpy; your engine will use it. Its `bytes_per_token` takes a `KVShape`, which `KVShape.from_config` reads from a `config.json`. Do both agree with your functions?
"""

# %%
import minikv
from minikv import KVShape

rng = np.random.default_rng(1)
for layers, heads, tp in rng.integers(1, 64, (1000, 3)).tolist():
    if heads % tp == 0 or tp % heads == 0:
        size = minikv.bytes_per_token(KVShape(layers, heads, 128), tp=tp)
        assert size == bytes_per_token(layers, heads, 128, tp)
    pages = rng.permutation(layers).tolist()
    assert page_slots(pages, tp).tolist() == slots_of(pages, tp, tp * layers)
print("equal in a thousand random cases")

# %% [markdown]
"""
### Other kinds of models

DeepSeek V3 has 671 billion parameters and 61 layers. With MLA, each layer keeps one vector of 576 numbers (2 bytes each) per token. Llama 2 7B has 7 billion parameters. Which of the two needs more room for a token in its cache, and how many times as much?
"""

# %%
guess("1.c", "how many times as much, to the nearest whole number?", None)

# %%
names = "llama-2-7b llama-3.1-8b qwen3-8b mistral-7b-v0.3 gemma-2b deepseek-v3".split()
lines, sizes = [], {}
for name in names:
    shape = KVShape.from_config(name)
    sizes[name] = n = minikv.bytes_per_token(shape)
    lines.append(f"{name:16} {shape.attention}  {n:7,} bytes  {'■' * round(n / 2**14)}")
fold("1.c", round(sizes["llama-2-7b"] / sizes["deepseek-v3"]), *lines)

# %% [markdown]
"""
<details><summary>Why</summary>

The size of a token depends on the number of layers and on what each layer keeps, and not on the number of parameters. 61 × 576 × 2 bytes are 70,272; Llama 2 7B needs 524,288. And with MLA there are no heads to divide, so every GPU keeps the whole vector.

</details>

Keys and values can also be stored with fewer bits per number: as 8-bit floats (fp8), or as integers of 8 or 4 bits. Integers share a scale per vector, which takes room, too:
"""

# %%
llama = KVShape.from_config("llama-3.1-8b")
for dtype in ("bf16", "fp8", "int8", "int4"):
    print(f"{dtype:5} {minikv.bytes_per_token(llama, dtype):7,} bytes")

# %% [markdown]
"""
### Layers that keep less

So far, every layer kept every token: *full attention*. In many recent models, some layers keep less. A layer with a *sliding window* keeps only the latest tokens (chapter 12). A *recurrent* layer keeps no tokens at all, but a *state*: a summary of the whole text, of fixed size. Here is what two models keep of a text of 8,192 tokens. A box is 1,024 tokens, or a state:
"""

# %%
from minikv import KVLayers, beside, plot

rows = []
for name in ("gemma-3-12b", "qwen3-next-80b-a3b"):
    for g in KVLayers.from_config(name).groups:
        count = 8 if g.keeps == "full attention" else (g.window or 1024) // 1024
        words = [""] * (8 - count) + [g.keeps.split()[0]] * count
        rows.append((f"{name}, {g.layers} layers", words))
word_rows(rows, heads=[f"{1024 * box:,}" for box in range(1, 9)])

# %% [markdown]
"""
Your functions count every layer as full attention. Here is their result for gpt-oss-120b, and the windows that its layers really have (`None` is full attention):
"""

# %%
config = json.loads(asset("configs/gpt-oss-120b.json").read_text("utf-8"))
print(f"your functions: {bytes_per_token(*read_config(config)):,} bytes per token")
for g in KVLayers.from_config("gpt-oss-120b").groups:
    print(f"{g.layers} layers, window: {g.window}")

# %%
guess("1.d", "how many bytes does one more token take when the windows are full?", None)

# %%
oss = KVLayers.from_config("gpt-oss-120b")
most = f"bytes; its windows take at most {oss.bytes_per_sequence / 1024**2} MiB"
fold("1.d", oss.bytes_per_token, most)

# %% [markdown]
"""
<details><summary>Why</summary>

A full window drops its oldest token for each new one, so it stops growing. Only the other 18 layers keep one more token: half of what your functions counted. For long texts, an engine that used your functions would leave half of its memory empty.

</details>

#### 1.5 You write: `kept_bytes` (5 minutes)

`KVLayers` puts the layers of a model into groups. A group `g` says what all of its layers keep of one sequence:

| attribute | what it says |
|---|---|
| `g.per_token` | the bytes that one token takes in all of them; 0 if they keep no tokens |
| `g.window` | the most tokens that they keep, or `None` if they keep all |
| `g.state` | the bytes of their states; 0 if they have none |

Return the bytes that a sequence of `tokens` tokens (at least one) takes in all groups of the list `groups`.
"""


# %%
def kept_bytes(groups, tokens):
    """Return the bytes that a sequence of so many tokens keeps in all these groups."""
    raise NotImplementedError  # delete this line; about 6 lines to write


kept_bytes = check("1.5 kept_bytes", kept_bytes)

# %% [markdown]
"""
The plots show what one sequence takes:
"""

# %%
plots, tokens = [], (1, 512, 1024, 2048, 4096)
for name in ("gemma-3-12b", "qwen3-next-80b-a3b"):
    groups, *_ = found = KVLayers.from_config(name).groups
    full = groups.per_token / groups.layers * sum(g.layers for g in found)
    lines = {"it keeps": [kept_bytes(found, n) / 1024**2 for n in tokens]}
    lines["all layers with full attention"] = [full * n / 1024**2 for n in tokens]
    plots.append(plot(name, {"tokens": tokens}, lines, "MiB"))
beside(*plots)

# %% [markdown]
"""
<details><summary>Why is a state so large?</summary>

For each of 32 heads, a recurrent layer of Qwen3-Next keeps 128 × 128 sums of 4 bytes: 2 MiB. A few of its latest inputs take 48 KiB more. There are 36 such layers.

</details>

Gemma's windows save nothing until they are full. Qwen3-Next's states have their full size from the first token on, so they save memory only after about a thousand tokens. Every sequence has its own windows and states. Here is what Gemma keeps of 100,000 tokens:
"""

# %%
gemma = KVLayers.from_config("gemma-3-12b").groups
for count in (1, 10, 100):
    size = count * kept_bytes(gemma, 100_000 // count) / 2**30
    print(f"{count:3} sequences of {100_000 // count:7,} tokens: {size:4.1f} GiB")

# %% [markdown]
"""
So the number of tokens that fit depends on the number of sequences.

Keeping less has a price. A request can reuse a cached prefix only if every layer still has what it needs: a layer with a window needs the last tokens of the prefix, and a recurrent layer needs its state at exactly the end of the prefix. If one of them is gone, the prefix has to be computed again.

## Play

A request grows token by token, in pages of four. Run the cell to step through it. Before each step, predict whether it takes a new page. Click a page in the pool to see its history.
"""

# %%
from minikv import record

pool, table = FreeListPool(3), PageTable(num_rows=1, max_length=9)
row = table.open()
with record(pool, table, page_size=4) as film:
    for count in range(9):
        if count % 4 == 0:
            page = page_slots(pool.alloc(1), 4)
        table.append(row, page[count % 4 : count % 4 + 1])
film.player()

# %% [markdown]
"""
Larger pages mean fewer pages to keep track of. But each request wastes the empty part of its last page. Take a thousand requests, of 1 to 1,000 tokens; their average is about 500.
"""

# %%
guess("1.e", "what percent is wasted with pages of 256, to the nearest ten?", None)

# %%
from minikv import page_waste

lines, waste = [], {}
for size in (1, 4, 16, 64, 256):
    waste[size] = page_waste(range(1, 1001), size)
    share, bar = waste[size].fraction, "■" * round(100 * waste[size].fraction)
    lines.append(f"pages of {size:3}: {waste[size].pages:7,} pages {share:6.1%} {bar}")
fold("1.e", round(10 * waste[256].fraction) * 10, "\n".join(lines))

# %% [markdown]
"""
<details><summary>Why</summary>

On average a request wastes half a page: 128 of 628 slots, or a fifth of the memory. Pages of 16 waste 8 of 508.

</details>

Pages of 1 waste nothing. Why not always use them? Because of the *kernels*, the programs that compute attention on the GPU. A kernel reads keys and values in blocks: with pages of 16, one look into the page table finds 16 neighbors. So a kernel is written for certain page sizes. In vLLM, FlashAttention takes {{engines vllm-flash-pages}}. In SGLang, DeepSeek's FlashMLA takes {{engines sglang-flashmla-pages}}. nano-vllm asks for {{engines nano-vllm-pages}}.

## More to try

#### 1.6 Design: choose a page size

Write `best_page_size(lengths, sizes, most_waste)`. Every request has its own pages. Among the page sizes in `sizes`, return the largest one at which requests of these lengths leave at most the share `most_waste` of their slots empty; exactly that share is allowed. If every size wastes more, raise a `ValueError`. (Python rounds floats, so divide once: the empty slots by all slots.) Then think of the lengths that *you* would serve. Which size would you choose, and why?
"""


# %%
def best_page_size(lengths, sizes, most_waste):
    raise NotImplementedError  # delete this line; about 7 lines to write


check("1.6 best_page_size", best_page_size)

# %% [markdown]
"""
<details><summary>Hint</summary>

The waste is a share of all slots in all pages that are taken. If there are no requests, nothing is wasted.

</details>

<details><summary>Solution</summary>

```python
def best_page_size(lengths, sizes, most_waste):
    fitting = []
    for size in sizes:
        slots = sum(-(-length // size) * size for length in lengths)
        if slots == 0 or (slots - sum(lengths)) / slots <= most_waste:
            fitting.append(size)
    if not fitting:
        raise ValueError("every page size wastes more")
    return max(fitting)
```

The open question has no single answer. A request wastes about half a page: with pages of 16 that is little of a chat of 2,000 tokens, and much of a question of 20. The kernel may decide for you.

</details>

#### 1.7 Bug hunt: one page off

`pages` counts exactly. `careless_pages` takes the share of the memory as a float, as engines do ({{engines nano-vllm-fit}}). Return values of `(memory, percent, taken, page_bytes)` for which the two functions differ. All four are whole numbers; `percent` is from 1 to 100, `taken` is at most the engine's share of the memory, and a page has at least one byte. One page too few only wastes memory. Can you make it promise one page too *many*?
"""

# %%
from minikv.course.pieces.ch01 import pages

source(pages, careless("1.7"))


# %%
def one_page_off():
    raise NotImplementedError  # delete this line, and change the numbers in the next
    return (80 * 2**30, 90, 0, 16)


check("1.7 careless_pages", one_page_off)

# %% [markdown]
"""
<details><summary>Hint</summary>

What does Python print for `0.29 * 100`? And for the second question: a float has 53 bits. What happens to a larger number?

</details>

<details><summary>Solution</summary>

```python
def one_page_off():
    return (2**53 + 3, 100, 0, 4)  # one too many; (100, 29, 0, 1) is one too few
```

</details>

## What it cost

Pages make *sharing* coarser. Two prompts can share a page only if they agree on every token in it. Say they have 255 tokens in common.
"""

# %%
for size in (1, 16, 64, 256):
    print(f"pages of {size:3}: {255 // size * size:3} of 255 tokens are shared")

# %% [markdown]
"""
With pages of 256, the two prompts share nothing at all. There is also a new rule that can be broken: *each page has one owner*, which alone may write to it, no matter how many requests read it. Something must guard that rule. That is the next chapter.

## In real engines

{{engines 01|`pages_that_fit`; too little memory; page size}}

Engines also size layers that differ: sliding windows and recurrent layers. In vLLM, {{engines vllm-groups}} puts them into groups whose pages all have the same size in bytes.

## Recap

With full attention and KV heads, a token takes layers × KV heads × 2 vectors × `head_dim` numbers × the bytes of a number; heads are never split. A full window or a state takes a fixed amount per sequence. The cache gets whole pages, from what the weights, the activations and the graphs leave of the engine's share. Larger pages suit the kernels, but they waste more and share less.

**Check yourself**

1. Which rules do the three wrong lines at the beginning break?
2. Name two ways in which engines decide how much memory to leave for activations.
3. From chapter 00: why does a clock at the top of a prompt ruin the hit rate?
4. From chapter 00: which keys and values does an engine have after an answer of ten tokens?

<details><summary>Answers</summary>

1. 8 heads can't be divided evenly among 3 GPUs. Heads are never split, so each of 16 GPUs keeps a whole one. And the cache gets only what the weights and the rest leave.
2. A trial run that measures it (vLLM, nano-vllm), or a fixed share that is kept free (SGLang, mini-sglang).
3. A prefix ends at the first token that differs, and the time differs right away. Nothing after it is shared.
4. Those of the prompt and of the first nine tokens. The last token is generated, but its keys and values are never computed.

</details>

**Read on**: [PagedAttention, the paper](https://arxiv.org/abs/2309.06180) · [GQA, the paper](https://arxiv.org/abs/2305.13245) · [DeepSeek-V2, which introduced MLA](https://arxiv.org/abs/2405.04434)
"""

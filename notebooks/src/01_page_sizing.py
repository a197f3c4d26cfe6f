# %% [markdown]
"""
# 01 · How many tokens fit in this GPU?

When an engine starts, it decides how large its KV cache will be. In this chapter you write the first functions of your own `my_minikv.py`: four that size a cache and find a request's slots, and a fifth in an optional second half.

**After this chapter you will be able to** *compute* the bytes per token from a model's `config.json`, *say* what else takes up GPU memory, and *choose* a page size for your requests. After the second half, you can also *say* why some models need a fixed amount of memory per sequence.

{{time}} The optional half takes 10 minutes of the reading and 5 of the building. **Needs** chapter 00. **New words** KV head, GQA, MLA, page, page table.

Here is where we are going. Slots are handed out in pages: a **page** is a fixed number of neighboring slots, here four. The **page table** has a row for each request, which lists the slots of the request's tokens in order.
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
The two requests begin with the same tokens, so the first page (*matched*) is in both rows. The other slots are *in hand*: each is used by only one request. A request's pages don't have to be neighbors, because the page table says where to look. Row 2 is *closed*, so it is free for the next request.

## The problem

An engine reserves all the memory for its cache once, when it starts, so it has to know *beforehand* how many tokens will fit. {{engines infratech}} Its formula for the size of a token {{engines notebook-formula|divides the heads by the number of GPUs}}, even where the result is not a whole number. Here it is for one layer with 8 heads (step 1 explains them) on 1, 2, 3 and 16 GPUs.
"""


# %%
def careless_bytes_per_token(layers, heads, head_dim, gpus=1):
    return layers * 2 * heads / gpus * head_dim * 2


for gpus in (1, 2, 3, 16):
    size = careless_bytes_per_token(1, 8, 128, gpus)
    print(f"GPUs: {gpus:2}  bytes per token: {size:6.1f}")
tokens = 80 * 2**30 / careless_bytes_per_token(32, 8, 128)
print(f"Llama 3.1 8B on one 80 GiB GPU: {tokens:,.0f} tokens")

# %% [markdown]
"""
The last three lines are wrong: on 3 GPUs, the size is not a whole number of bytes; on 16, it is too small, so the engine would run out of memory; and the last line leaves memory for nothing but the cache.

## Build it

### Step 1: one token

In each layer, attention is divided into *heads*, which work side by side. A **KV head** keeps one key vector and one value vector for every token, each with `head_dim` numbers, and a *query head* reads one KV head. In the simplest form, *multi-head attention* (MHA), each query head has its own KV head.

Llama 2 7B has 32 layers, 32 KV heads, and vectors of 128 numbers, at 2 bytes per number. How many KiB (1,024 bytes) does one token take?
"""

# %%
# put your number in place of None, then run the next cell
guess("1.a", "how many KiB does one token of Llama 2 7B take?", None)

# %%
import numpy as np

keys, values = np.zeros((2, 10, 32, 32, 128), np.float16)  # token, layer, head, number
size = (keys.nbytes + values.nbytes) // 10 // 1024
fold("1.a", size, "KiB per token, measured on real arrays of ten tokens")

# %% [markdown]
"""
<details><summary>Why</summary>

32 layers × 32 heads × 2 vectors × 128 numbers × 2 bytes is half a MiB for a single token. (The keys alone take 256 KiB.) That is why query heads share KV heads in many newer models.

</details>

In **GQA**, grouped-query attention, several query heads read the same KV head. In *MQA*, multi-query attention, all of them read a single one. Here are eight query heads and the KV head that each reads:
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
### Step 2: several GPUs

A large model is divided among several GPUs, each of which gets some of the heads. This is *tensor parallelism*; each of the `tp` GPUs is a *rank*. A head is never split. Here are four KV heads, `0` to `3`, on 2, 4 and 8 GPUs:
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

- The number of KV heads is a multiple of the number of GPUs. Each GPU gets an equal share.
- The number of GPUs is a multiple of the number of KV heads. Every GPU keeps one head, and others may keep copies of it.

Any other combination is an error, {{engines mini-sglang-heads|as in mini-sglang}}. Now take Llama 3.1 8B, with 32 layers, 8 KV heads, vectors of 128 numbers, and 2 bytes per number. How many KiB does one token take on each of 8 GPUs, and how many on each of 16?
"""

# %%
# two numbers: put a list such as [1, 2] in place of None
guess("1.b", "how many KiB per token on each of 8 GPUs, and of 16? [., .]", None)

# %% [markdown]
"""
#### 1.1 You write: `bytes_per_token` (10 minutes)

Compute the bytes that one token takes on *each* GPU. `kv_heads` is the number of KV heads in a layer, on all GPUs together, and `number_bytes` is the size of one number. If neither case applies, raise a `ValueError`. The result is a whole number, and must be exact even where a float would not be.
"""


# %%
def bytes_per_token(layers, kv_heads, head_dim, tp=1, number_bytes=2):
    """Return the bytes of one token's keys and values on each of `tp` GPUs."""
    raise NotImplementedError  # delete this line; about 4 lines to write


bytes_per_token = check("1.1 bytes_per_token", bytes_per_token)

# %% [markdown]
"""
`check` calls your function with many different numbers. Once all results are correct, *your* function runs below and is saved in `my_minikv.py`; until then, the package's version runs, and the file keeps your last failing answer as a comment. Stuck? Try `hint("1.1")`, and call it again for a stronger hint. `solution("1.1")` shows the package's version.

If a check runs for more than a minute, restart the kernel and run the cells from the top: the set-up cell loads your functions again.
"""

# %%
sizes = {tp: bytes_per_token(32, 8, 128, tp) // 1024 for tp in (1, 2, 4, 8, 16, 32)}
fold("1.b", [sizes[8], sizes[16]], f"KiB on each GPU, by the number of GPUs: {sizes}")

# %% [markdown]
"""
<details><summary>Why</summary>

With as many GPUs as KV heads, each GPU already keeps a single head, which can't be split. More GPUs only make more copies.

</details>

### Step 3: ask the model

A model comes with a `config.json`. In the simplest kind, `num_hidden_layers`, `num_attention_heads` (the query heads) and `hidden_size` are always there. Two more entries may be missing, or `null`, which Python reads as `None`:

| entry | what it says | if it is missing or `None` |
|---|---|---|
| `num_key_value_heads` | the number of KV heads | every query head has its own KV head |
| `head_dim` | the length of a key vector | the hidden size is divided evenly among the query heads |

#### 1.2 You write: `read_config` (5 minutes)

From the dictionary `config`, which must not change, return a tuple of the number of layers, the number of KV heads, and `head_dim`.
"""


# %%
def read_config(config):
    """Return the layers, the KV heads and the head_dim of a model as a tuple."""
    raise NotImplementedError  # delete this line; about 4 lines to write


read_config = check("1.2 read_config", read_config)

# %% [markdown]
"""
Together, your two functions size the tokens of models with MHA, GQA or MQA:
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

Four things take memory before the cache gets any:

- **A margin** for other programs. We let the engine use 90 percent of the memory.
- **The weights.** [Llama 3.1 8B](https://huggingface.co/meta-llama/Llama-3.1-8B) has 8,030,261,248 of them, at 2 bytes each.
- **Activations.** The intermediate results of a layer take memory, but the amount is hard to calculate. So {{engines vllm-trial-run|vLLM}} and {{engines nano-vllm-trial-run|nano-vllm}} measure it in a *trial run* of maximum size, while {{engines sglang-reserve|SGLang}} and {{engines mini-sglang-reserve|mini-sglang}} hold back a reserve.
- **CUDA graphs.** To save time, an engine records a pass through the model {{engines nano-vllm-graphs}} and replays it. The recordings {{engines vllm-graph-memory}}.

The rest is divided into whole pages.

#### 1.3 You write: `pages_that_fit` (10 minutes)

All sizes are in bytes. `percent`, a whole number from 1 to 100, says how much of the memory the engine may use. If not even one page fits, raise a `MemoryError`. Again, be exact.
"""


# %%
def pages_that_fit(memory, percent, weights, activations, graphs, page_bytes):
    """Return how many whole pages fit, or raise a MemoryError if none does."""
    raise NotImplementedError  # delete this line; about 5 lines to write


pages_that_fit = check("1.3 pages_that_fit", pages_that_fit)

# %% [markdown]
"""
If we assume 1.2 GiB for activations and 0.5 GiB for graphs, we can answer this chapter's question:
"""

# %%
GIB, WEIGHTS = 2**30, 2 * 8_030_261_248
for size in (1, 16, 256):
    page = size * bytes_per_token(32, 8, 128)
    pages = pages_that_fit(80 * GIB, 90, WEIGHTS, 12 * GIB // 10, GIB // 2, page)
    print(f"pages of {size:3}: {pages:7,} pages, {pages * size:7,} tokens")

# %% [markdown]
"""
So whatever the page size, an 80 GiB GPU holds about 453,000 tokens of Llama 3.1 8B, nearly a third less than the careless formula promised. This is where the memory goes, in boxes of up to 4 GiB:
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

The engine hands out pages, but the model reads and writes slots. Page 0 has the first `page_size` slots, starting with slot 0; page 1 has the next ones, and so on.

#### 1.4 You write: `slots_of` (10 minutes)

`pages` lists the numbers of a request's pages in the order of its tokens. Return a new list with the slot of each of the request's `num_tokens` tokens, in order. If the pages have too few slots, raise a `ValueError`.
"""


# %%
def slots_of(pages, page_size, num_tokens):
    """Return the slot of each token of a request that has these pages, in order."""
    raise NotImplementedError  # delete this line; about 6 lines to write


slots_of = check("1.4 slots_of", slots_of)

# %% [markdown]
"""
Here are the two rows of the picture at the beginning:
"""

# %%
print(slots_of([0, 1, 3], 4, 10))
print(slots_of([0, 2], 4, 5))

# %% [markdown]
"""
## The same in `minikv`

The package's `page_slots` does the same with numpy, and your engine will use it. The package's `bytes_per_token` takes a `KVShape`, which `KVShape.from_config` reads from a `config.json`. Do both agree with your functions?
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
### The end of the first half

Your four functions read a `config.json`, size a token, count the pages that fit, and list the slots of a request. No chapter before 12 needs the second half, so you may skip ahead to *Play*.

### Optional: other kinds of models

In **MLA**, multi-head latent attention, each layer keeps one small vector per token, from which the keys and values of all heads are computed when they are needed. [DeepSeek V3](https://huggingface.co/deepseek-ai/DeepSeek-V3) has 671 billion parameters and 61 layers, each with a vector of 576 numbers (2 bytes each). Llama 2 7B has 7 billion parameters. Which of the two takes more bytes per token, and how many times as many, to the nearest whole number?
"""

# %%
guess("1.c", "how many times as many bytes, to the nearest whole number?", None)

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

A token's size depends on the number of layers and on the size of the vectors in each, not on the number of parameters. DeepSeek V3 takes 61 × 576 × 2 = 70,272 bytes, and Llama 2 7B takes 524,288.

</details>

Keys and values can also be stored with fewer bits: as 8-bit floats (fp8), or as integers of 8 or 4 bits, which need one scale factor per vector. For Llama 3.1 8B, this gives:
"""

# %%
llama = KVShape.from_config("llama-3.1-8b")
for dtype in ("bf16", "fp8", "int8", "int4"):
    print(f"{dtype:5} {minikv.bytes_per_token(llama, dtype):7,} bytes")

# %% [markdown]
"""
### Layers that keep less

So far, every layer kept every token, which is called *full attention*. In many recent models, some layers keep less: a layer with a *sliding window* keeps only the latest tokens, and a *recurrent* layer keeps no tokens at all but a *state*, a fixed-size summary of the whole text.

The package's `KVLayers` reads a `config.json` and puts layers of the same kind into one group. Here is what two models keep of 8,192 tokens. Each box stands for 1,024 tokens or one state:
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
Your functions treat every layer as full attention. Here is their result for gpt-oss-120b, with its layers' windows in tokens (`None` is full attention):
"""

# %%
config = json.loads(asset("configs/gpt-oss-120b.json").read_text("utf-8"))
print(f"your functions: {bytes_per_token(*read_config(config)):,} bytes per token")
oss = KVLayers.from_config("gpt-oss-120b").groups
for g in oss:
    print(f"{g.layers} layers, window: {g.window}")

# %% [markdown]
"""
For a text of 256 tokens, your functions count 256 times this size, but gpt-oss-120b keeps less. What percent of that count does it keep?
"""

# %%
guess("1.d", "what percent of the counted bytes do 256 tokens really take?", None)

# %%
kept = sum(g.per_token * min(256, g.window or 256) for g in oss) / 256
fold("1.d", round(100 * kept / bytes_per_token(*read_config(config))), "percent")

# %% [markdown]
"""
<details><summary>Why</summary>

Half of the layers keep all 256 tokens, and the other half only the last 128, which makes three quarters. (For a long text, the share approaches 50 percent, so an engine that sized its cache with your functions would leave half of it empty.)

</details>

#### 1.5 You write: `kept_bytes` (5 minutes)

A group `g` says what all of its layers together keep of one sequence:

| attribute | what it says |
|---|---|
| `g.per_token` | the bytes per token; 0 if the layers keep a state instead |
| `g.window` | the most tokens that they keep, or `None` if they keep all |
| `g.state` | the bytes of the states; 0 if the layers keep tokens |

Return the bytes that a sequence of `tokens` tokens (at least one) takes in all groups of the list `groups`.
"""


# %%
def kept_bytes(groups, tokens):
    """Return the bytes that a sequence of `tokens` tokens takes in all `groups`."""
    raise NotImplementedError  # delete this line; about 6 lines to write


kept_bytes = check("1.5 kept_bytes", kept_bytes)

# %% [markdown]
"""
The plots show how much memory one sequence takes:
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
Gemma's windows save nothing until they are full. Qwen3-Next's states have their full size from the first token, so they save memory only after about a thousand tokens. Each sequence has its own windows and states, so the number of tokens that fit depends on the number of sequences. This is what 100,000 tokens take in Gemma:
"""

# %%
gemma = KVLayers.from_config("gemma-3-12b").groups
for count in (1, 10, 100):
    size = count * kept_bytes(gemma, 100_000 // count) / 2**30
    print(f"{count:3} × {100_000 // count:7,} tokens: {size:4.1f} GiB")

# %% [markdown]
"""
Keeping less has its price: a request can reuse a cached prefix only if every layer still has what it needs ([chapter 15](15_layers_that_disagree.ipynb)).

### The end of the second half

MLA and fewer bits make a token smaller, and a full window or a state takes a fixed amount per sequence. Chapter 12 builds a cache for windows, and chapter 15 one for all kinds of layers together.

## Play

A request grows token by token, in pages of four. Run the cell to step through the film. Before each step, predict whether the request takes a new page.
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
Larger pages mean fewer pages to keep track of, but each request wastes the empty part of its last page. Take a thousand requests with 1, 2, 3, and so on up to 1,000 tokens, in pages of 256. What percent of their slots is wasted, to the nearest ten?
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

On average, a request has 500 tokens and wastes half a page: 128 of 628 slots, or a fifth. Pages of 16 waste 8 of 508.

</details>

Pages of one token waste nothing, but they don't suit every *kernel* (a program that computes attention on the GPU). With pages of 16, a kernel finds 16 neighboring slots with one lookup in the page table, and some kernels work only with certain page sizes. In vLLM, FlashAttention takes {{engines vllm-flash-pages}}; in SGLang, DeepSeek's FlashMLA takes {{engines sglang-flashmla-pages}}; and nano-vllm requires {{engines nano-vllm-pages}}.

## More to try

#### 1.6 Design: choose a page size

Requests with the given `lengths` each have their own pages. Write `best_page_size(lengths, sizes, most_waste)`, which returns the largest page size in `sizes` that leaves at most the share `most_waste` of their slots empty. If every size wastes more, raise a `ValueError`. (Python rounds floats, so divide once: the empty slots by all slots.) Which size would you choose for *your* requests, and why?
"""


# %%
def best_page_size(lengths, sizes, most_waste):
    raise NotImplementedError  # delete this line; about 7 lines to write


check("1.6 best_page_size", best_page_size)

# %% [markdown]
"""
<details><summary>Hint</summary>

The waste is a share of the slots in all pages that are in use. If there are no requests, nothing is wasted.

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

Half a page of 16 is little in a chat of 2,000 tokens but a lot in a question of 20, and the kernel may decide for you.

</details>

#### 1.7 Bug hunt: one page off

`pages` counts exactly. `careless_pages` computes the share of the memory with a float, {{engines nano-vllm-fit|as nano-vllm does}}. Return values of `(memory, percent, taken, page_bytes)` for which the two results differ. All four are whole numbers: `percent` is from 1 to 100, `taken` is at most the engine's share of the memory, and a page has at least one byte. One page too few only wastes memory. Can you make the function promise one page too *many*?
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

What does Python print for `0.29 * 100`? For the second question: a float has 53 significant bits. What happens to a larger number?

</details>

<details><summary>Solution</summary>

```python
def one_page_off():
    return (2**53 + 3, 100, 0, 4)  # one too many; (100, 29, 0, 1) is one too few
```

</details>

## What it cost

Pages make *sharing* coarser. Two prompts can share a page only if they agree on every token in it. Suppose they begin with the same 255 tokens:
"""

# %%
for size in (1, 16, 64, 256):
    print(f"pages of {size:3}: {255 // size * size:3} of 255 tokens are shared")

# %% [markdown]
"""
With pages of 256, they share nothing. There is also a new rule: *each page has one owner*, the only request that may write to it, however many read it. The next chapter enforces this rule.

## In real engines

{{engines 01|`pages_that_fit`; too little memory; page size}}

If a model's layers differ, vLLM {{engines vllm-groups|divides them into groups}} whose pages all have the same size in bytes.

## Recap

With KV heads and full attention, a token takes layers × KV heads × 2 vectors × `head_dim` numbers × the bytes of a number, and a head is never split. The cache gets as many whole pages as fit beside the weights, the activations and the graphs. Larger pages suit the kernels, but they waste more and share less.

**Check yourself**

1. Which rules do the three wrong lines at the beginning break?
2. Name two ways in which engines decide how much memory to leave for activations.
3. From chapter 00: why does a clock at the top of a prompt ruin the hit rate?
4. From chapter 00: which keys and values does an engine have after an answer of ten tokens?

<details><summary>Answers</summary>

1. 8 heads can't be divided evenly among 3 GPUs. Each of 16 GPUs keeps a whole head. And only a part of the memory is left for the cache.
2. A trial run that measures it (vLLM, nano-vllm), or a reserve that is held back (SGLang, mini-sglang).
3. A prefix ends at the first token that differs, and the time differs right away.
4. Those of the prompt and of the first nine tokens. The last token's are never computed.

</details>

**Read on**: [PagedAttention, the paper](https://arxiv.org/abs/2309.06180) · [GQA, the paper](https://arxiv.org/abs/2305.13245) · [DeepSeek-V2, which introduced MLA](https://arxiv.org/abs/2405.04434)
"""

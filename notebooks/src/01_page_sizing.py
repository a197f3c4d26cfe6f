# %% [markdown]
"""
# 01 · How many tokens fit in this GPU?

By the end of this chapter you will have written the two functions with which an engine sizes its KV cache when it starts: how many bytes one token takes, and how many pages of tokens fit beside everything else. They are about ten lines in all, the first ones of your own `my_minikv.py`, and both are easy to get wrong.

**After this chapter you will be able to** *compute* the bytes that a token takes, for any model whose `config.json` you have; *say* what else needs room on a GPU; and *choose* a page size for the lengths that you serve.

{{time}} **Needs** chapter 00. **New words** KV head, GQA, MLA, page, page table.

Here is where we are going. Slots are handed out in pages. A **page** is a fixed number of neighboring slots. For each request, a row of the **page table** lists the slots of its tokens, in order. Below, pages have four slots.
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
The two requests begin alike, and the first page (*matched*) is in both rows. It can have only one owner (chapter 02), but here it has two readers. The other slots in the rows are *in hand*: taken from the pool, and used by one request. The rest of the first request lies in slots 4 to 7 and 12 and 13. Its pages need not be neighbors: any free page will do, because the page table says where to look. Row 2 is *closed*: it waits for another request.

## The problem

An engine reserves all the memory for its cache once, when it starts. So it must know *beforehand* how many tokens will fit. {{engines infratech}} Its formula {{engines notebook-formula}}: multiply everything, and divide by the number of GPUs that share the model. Here is that formula for one layer with 8 heads, on 1, 2, 3 and 16 GPUs. (A head is a part of a layer; step 1 explains it.)
"""


# %%
def careless_bytes_per_token(layers, heads, head_dim, gpus=1):
    return layers * 2 * heads / gpus * head_dim * 2


for gpus in (1, 2, 3, 16):
    print(
        f"{gpus:2} GPUs: {careless_bytes_per_token(1, 8, 128, gpus):7.1f} bytes a token"
    )
tokens = 80 * 2**30 / careless_bytes_per_token(32, 8, 128)
print(f"Llama 3.1 8B on one GPU of 80 GiB: {tokens:,.0f} tokens")

# %% [markdown]
"""
Three of these five lines are wrong. A third of a byte does not exist. On 16 GPUs each GPU really needs twice as much, so an engine that believed this line would promise twice the tokens that fit. And the last line takes the whole GPU for the cache, and nearly a third of what it promises isn't there. By the end of the chapter you will be able to say which rule each of them breaks.

## Build it

### Step 1: one token

A layer of attention has several *query heads*. Each of them looks for something different in the earlier tokens, and it looks in a **KV head**, which keeps one key vector and one value vector for every token, of `head_dim` numbers each. In the plainest form, each query head has a KV head of its own (*multi-head attention*, MHA). And every layer keeps its own keys and values.

Llama 2 7B has 32 layers, 32 KV heads, and vectors of 128 numbers with 2 bytes each.
"""

# %%
# put your number in place of None, then run the next cell
guess("1.a", "how many KiB (1,024 bytes) does one of its tokens take?", None)

# %%
import numpy as np

keys, values = np.zeros((2, 10, 32, 32, 128), np.float16)  # token, layer, head, number
fold("1.a", (keys.nbytes + values.nbytes) // 10 // 1024, "KiB a token, in real arrays")

# %% [markdown]
"""
<details><summary>Why</summary>

Half a MiB for a single token. That is why newer models share.

</details>

In **GQA**, grouped-query attention, several query heads use one KV head: Llama 3.1 8B has 32 query heads and 8 KV heads. With a single KV head for all of them, it is called *MQA*, multi-query attention. In **MLA**, multi-head latent attention, DeepSeek goes further. A token keeps one small vector in each layer, and the keys and values of all heads are computed from it when they are needed.

### Step 2: several GPUs

A large model is divided among several GPUs: each of them gets some of the heads. This is *tensor parallelism*, and `tp` is the number of GPUs. A head is never cut in two. So there are two cases that work:

- The number of heads is a multiple of the number of GPUs. Each GPU gets as many as the others.
- There are more GPUs than heads, and the number of GPUs is a multiple of the number of heads. Then each GPU keeps one head, and several GPUs keep the same one.

Any other combination can't run at all. Now take Llama 3.1 8B: 32 layers, 8 KV heads, 128 numbers of 2 bytes.
"""

# %%
# two numbers: put a list such as [1, 2] in place of None
guess(
    "1.b", "how many bytes does a token take on each of 8 GPUs? And of 16? [., .]", None
)

# %% [markdown]
"""
#### 1.1 You write: `bytes_per_token`

Compute the bytes that one token takes on *each* GPU. `kv_heads` is the number of KV heads of the model, and `number_bytes` the size of one number. If the heads can't be dealt out, raise a `ValueError`. The answer is a whole number, and it must be exact for numbers that no float can hold.
"""


# %%
def bytes_per_token(layers, kv_heads, head_dim, tp=1, number_bytes=2):
    """The bytes of one token's keys and values on each of `tp` GPUs."""
    raise NotImplementedError  # delete this line; about 4 lines to write


bytes_per_token = check("1.1 bytes_per_token", bytes_per_token)

# %% [markdown]
"""
`check` calls your function with many numbers, and compares each answer with ours. Once it is right, it is *yours* that runs below; until then it is ours. If you get stuck, `hint("1.1")` helps a little, and each further call a little more. `solution("1.1")` shows how we would write it.

What is right is kept in `my_minikv.py`. So if you restart the kernel, nothing is lost: run the cells from the top again, and your functions are back.
"""

# %%
sizes = {tp: bytes_per_token(32, 8, 128, tp) for tp in (1, 2, 4, 8, 16, 32)}
fold("1.b", [sizes[8], sizes[16]], f"bytes on each GPU, by the number of GPUs: {sizes}")

# %% [markdown]
"""
<details><summary>Why</summary>

Once there are as many GPUs as KV heads, the cache on each GPU stops shrinking. More GPUs only make more copies.

</details>

### Step 3: what else is on the GPU

The cache gets what is left, and four things come first:

- **A margin.** Other programs use the GPU, too. So an engine takes only a share of the whole memory. We take 90 percent.
- **The weights.** Llama 3.1 8B has 8,030,261,248 of them, with 2 bytes each.
- **Activations.** While a layer computes, its intermediate results need room. How much is hard to work out beforehand. So the engine makes a *trial run* with the largest batch that it will allow, and measures.
- **Graphs.** To save time, an engine records the work of a step once and replays it (CUDA graphs). The recordings take memory, too.

What remains is divided into whole pages. A page that fits only in part does not fit.

#### 1.2 You write: `pages_that_fit`

All sizes are in bytes, and `percent` is a whole number from 1 to 100. If there is no room for a single page, the engine can't start: raise a `MemoryError`. Again, be exact: on a GPU of 80 GiB one byte too many is an error in the middle of the night.
"""


# %%
def pages_that_fit(memory, percent, weights, activations, graphs, page_bytes):
    """How many whole pages fit; raise a MemoryError if there is no room for one."""
    raise NotImplementedError  # delete this line; about 5 lines to write


pages_that_fit = check("1.2 pages_that_fit", pages_that_fit)

# %% [markdown]
"""
Now the chapter's question. For the trial run we take 1.2 GiB, and 0.5 GiB for the graphs. These are round numbers of the usual size; your engine prints its own when it starts.
"""

# %%
GIB, WEIGHTS = 2**30, 2 * 8_030_261_248
for size in (1, 16, 256):
    page = size * bytes_per_token(32, 8, 128)
    pages = pages_that_fit(80 * GIB, 90, WEIGHTS, 12 * GIB // 10, GIB // 2, page)
    print(f"pages of {size:3}: {pages:7,} pages, {pages * size:7,} tokens")

# %% [markdown]
"""
So 80 GiB hold about 453,000 tokens of Llama 3.1 8B, whatever the page size. The careless formula promised 655,360.

## The same in `minikv`

`minikv` does this for more kinds of models. `KVShape.from_config` reads the `config.json` of a model, from a path or by one of the names that we ship. For the models that your function can describe, the two agree. (A *rank* is one GPU of the group.)
"""

# %%
import minikv
from minikv import KVShape

llama = KVShape.from_config("llama-3.1-8b")
for tp in (1, 2, 8, 16):
    assert minikv.bytes_per_token(llama, tp=tp) == bytes_per_token(32, 8, 128, tp)
print("equal on 1, 2, 8 and 16 GPUs; on 3:")
try:
    minikv.bytes_per_token(llama, tp=3)
except ValueError as error:
    print(error)

# %% [markdown]
"""
DeepSeek V3 has 671 billion parameters, 61 layers, and keeps one vector of 576 numbers for each token and layer. Llama 2 7B has 7 billion parameters.
"""

# %%
guess("1.c", 'whose tokens take more room in the cache, "llama" or "deepseek"?', None)

# %%
names = "llama-2-7b llama-3.1-8b qwen3-8b mistral-7b-v0.3 gemma-2b deepseek-v3".split()
lines = []
for name in names:
    shape = KVShape.from_config(name)
    size = minikv.bytes_per_token(shape)
    layers = f"{shape.num_layers} layers"
    bar = "■" * round(size / 2**14)
    lines.append(f"{name:16} {shape.attention}  {layers}  {size:8,} bytes  {bar}")
fold("1.c", "llama", "\n".join(lines))

# %% [markdown]
"""
<details><summary>Why</summary>

The size of the cache follows from the layers and from what each of them keeps, and not from the number of parameters. In MLA there are no heads to deal out, so every GPU keeps the whole vector.

</details>

Keys and values can also be stored in smaller numbers: floating-point numbers of 16 or 8 bits (bf16, fp8), or integers of 8 or 4. A floating-point number carries its own exponent. Integers share one scale for each vector, which must be stored, too. So int4 takes a little more than a quarter of 16 bits:
"""

# %%
whole = minikv.bytes_per_token(llama, "bf16")
for dtype in ("bf16", "fp8", "int8", "int4"):
    size = minikv.bytes_per_token(llama, dtype)
    print(f"{dtype:5} {size:7,} bytes, {size / whole:.3f} of bf16")

# %% [markdown]
"""
All these sizes come from the list of tensors that an engine allocates. A test of this project allocates them and counts every byte.

## Play

A request grows, token by token, in pages of four. Before each step say whether it takes a new page. Then click a page in the pool for its story.
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
film.player(still=5)

# %% [markdown]
"""
Larger pages are fewer, so there is less to keep track of. But each request wastes the empty part of its last page. A thousand requests are 1 to 1,000 tokens long, so their average is about 500.
"""

# %%
guess("1.d", "what percent is wasted with pages of 256, to the nearest ten?", None)

# %%
from minikv import page_waste

lines, waste = [], {}
for size in (1, 4, 16, 64, 256):
    waste[size] = page_waste(range(1, 1001), size)
    share, bar = waste[size].fraction, "■" * round(100 * waste[size].fraction)
    lines.append(f"pages of {size:3}: {waste[size].pages:7,} pages {share:6.1%} {bar}")
fold("1.d", round(10 * waste[256].fraction) * 10, "\n".join(lines))

# %% [markdown]
"""
<details><summary>Why</summary>

On average a request wastes half a page: 128 slots of 628, a fifth of the memory. Pages of 16 waste 8 of 508.

</details>

Why not always pages of 1, which waste nothing? Because of the *kernels*, the programs that compute attention on the GPU. A kernel reads keys and values in blocks. With a page of 16, one look into the page table finds 16 neighbors, which lie side by side and can be read in one go. So a kernel is written for certain sizes. In vLLM, FlashAttention takes {{engines vllm-flash-pages}}. In SGLang, DeepSeek's FlashMLA takes {{engines sglang-flashmla-pages}}. nano-vllm asks for {{engines nano-vllm-pages}}.

## More to try

#### 1.3 Design: choose a page size

Write `best_page_size(lengths, sizes, most_waste)`: of the page sizes in `sizes`, the largest at which sequences of these lengths waste at most the share `most_waste` of all slots that they take. If every size wastes more, raise a `ValueError`. Then think of the lengths that *you* would serve: which size would you choose, and what would make you change your mind?
"""


# %%
def best_page_size(lengths, sizes, most_waste):
    raise NotImplementedError  # delete this line; about 7 lines to write


check("1.3 best_page_size", best_page_size)

# %% [markdown]
"""
<details><summary>Hint</summary>

Every sequence has pages of its own. The waste is a share of all slots in those pages. No sequences, no waste.

</details>

<details><summary>Solution</summary>

```python
def best_page_size(lengths, sizes, most_waste):
    fitting = []
    for size in sizes:
        slots = sum(-(-length // size) * size for length in lengths)
        if slots - sum(lengths) <= most_waste * slots:
            fitting.append(size)
    if not fitting:
        raise ValueError("every page size wastes more")
    return max(fitting)
```

</details>

#### 1.4 Bug hunt: one page off

`pages` counts exactly. `careless_pages` takes the share of the memory as a float, as engines do ({{engines nano-vllm-fit}}). Find `(memory, percent, taken, page_bytes)` for which the two differ. One page too few only wastes memory. Can you make it promise one page too *many*?
"""

# %%
from minikv.course.pieces import careless
from minikv.course.pieces.ch01 import pages

source(pages, careless("1.4"))


# %%
def one_page_off():
    raise NotImplementedError  # delete this line, and change the numbers in the next
    return (80 * 2**30, 90, 0, 16)


check("1.4 careless_pages", one_page_off)

# %% [markdown]
"""
<details><summary>Hint</summary>

What does Python say to `0.29 * 100`? And for the second question: a float has 53 bits. What happens to a larger number?

</details>

<details><summary>Solution</summary>

```python
def one_page_off():
    return (2**53 + 3, 100, 0, 4)  # one too many; (100, 29, 0, 1) is one too few
```

</details>

## What it cost

Pages made *sharing* coarser. Two prompts can share a page only if they agree in all of it. Say they have 255 tokens in common.
"""

# %%
alike = 255
for size in (1, 16, 64, 256):
    print(f"pages of {size:3}: {alike // size * size:3} of {alike} tokens are shared")

# %% [markdown]
"""
With pages of 256 a common beginning of 255 tokens is worth nothing. And a rule is at risk now: *a page has one owner*, who may write to it, however many read it. As soon as pages are handed out and taken back, something must guard that rule. That is the next chapter.

## In real engines

{{engines 01}}

Engines also size layers that differ, such as sliding windows and state-space layers. In vLLM, {{engines vllm-groups}} puts them into groups whose pages have one size in bytes.

## Recap

A token takes layers × KV heads × 2 vectors × `head_dim` numbers × the bytes of a number; how many parameters the model has does not matter. Heads are dealt out whole, and with more GPUs than heads they are copied. The cache gets what is left of the GPU's share after the weights, the activations of a trial run and the graphs, in whole pages. Larger pages suit the kernels, but waste more and share less.

**Check yourself**

1. A model has 4 KV heads. From how many GPUs on does the cache on each GPU stop shrinking?
2. Why must the engine make a trial run before it can size its cache?
3. From chapter 00: why does a clock at the top of a prompt ruin the hit rate?
4. From chapter 00: what has an engine kept after an answer of ten tokens?

<details><summary>Answers</summary>

1. From 4 on: each GPU has one head then, and more GPUs only make copies.
2. The activations need room while a layer computes, and how much is hard to work out beforehand.
3. A prefix ends at the first token that differs, and the time differs at once: nothing behind it is shared.
4. The keys and values of the first nine. The last token is sampled and never computed.

</details>

**Read on**: [PagedAttention, the paper](https://arxiv.org/abs/2309.06180) · [GQA, the paper](https://arxiv.org/abs/2305.13245) · [DeepSeek-V2, which introduced MLA](https://arxiv.org/abs/2405.04434)
"""

# %% [markdown]
"""
# 01 · How many tokens fit in this GPU?

**After this chapter you will be able to** *compute* the bytes that one token's keys and values take, for any model whose `config.json` you have; *decide* a page size from the lengths you serve; and *explain* why doubling the GPUs does not always halve the cache.

**Time** 40 minutes. **Needs** chapter 00.
**New words** KV head, GQA, MLA, page, page table.

## The problem

Chapter 00 ended with a chat of five turns that left its tokens in the cache. An engine reserves all the memory for its cache once, when it starts, so you must know *beforehand* how many tokens will fit. Here is that computation as a teaching notebook does it, in our words: multiply everything, and divide by `tp`, the number of GPUs that share the model (tensor parallelism).
"""


# %%
def careless_bytes_per_token(head_dim, kv_heads, layers, tp=1, bytes_per_number=2):
    return 2 * kv_heads * head_dim * layers / tp * bytes_per_number


for tp in (1, 2, 3, 16):
    print(
        f"8 heads on {tp:2} GPUs: {careless_bytes_per_token(head_dim=128, kv_heads=8, layers=1, tp=tp):10} bytes a token"
    )

# %% [markdown]
"""
Two of these four lines are wrong. A third of a byte does not exist; and on 16 GPUs the answer is half of what will really be allocated, as step 4 will show, so an engine that believed it would promise twice the tokens that fit. Before this chapter is over you will be able to say which rule each line breaks.
"""

# %% [markdown]
"""
## The picture

Slots are handed out together in a **page**, a fixed number of neighbours, and for each request a row in a **page table** says in which slots its tokens lie, in order. Here is a live page table with pages of four: a long request, and a short one that shares the first page with it.
"""

# %%
from minikv import FreeListPool, PageTable, draw, page_slots

PAGE_SIZE = 4
pool, table = FreeListPool(6), PageTable(num_rows=3, max_length=12)
long, short = table.open(), table.open()
shared = pool.alloc(1)
for row in (long, short):
    table.append(row, page_slots(shared, PAGE_SIZE))
table.append(long, page_slots(pool.alloc(1), PAGE_SIZE))
table.append(short, page_slots(pool.alloc(1), PAGE_SIZE)[:1])  # five tokens in all
table.append(long, page_slots(pool.alloc(1), PAGE_SIZE)[:2])  # ten tokens in all
draw(table, matched=page_slots(shared, PAGE_SIZE))

# %% [markdown]
"""
The first page, slots 0 to 3, is in both rows, marked *matched*; it has only one owner, but two readers. Then the requests took pages in turn, so the long one has slots 4 to 7 and, after a gap, 12 and 13. Nothing says that a request's pages must be neighbours. That is the point of a page table: any free page will do. Row 2 is free for another request; we say *closed*.

## Build it

**Step 1: one token, one layer.** In each layer the model keeps, for each **KV head**, one key vector and one value vector of `head_dim` numbers. The plainest form, multi-head attention, has one KV head for each query head.
"""


# %%
def token_bytes(layers, kv_heads, head_dim, bytes_per_number=2):
    keys_and_values = 2
    return layers * keys_and_values * kv_heads * head_dim * bytes_per_number


llama_2_7b = token_bytes(layers=32, kv_heads=32, head_dim=128)
print(f"Llama 2 7B: {llama_2_7b:,} bytes a token, so 4096 tokens take {4096 * llama_2_7b / 2**30:.1f} GiB")

# %% [markdown]
"""
Half a MiB for one token. Check it against reality: allocate the tensors for a few tokens and ask torch how large they are.
"""

# %%
import torch

keys, values = (
    torch.empty(10, 32, 32, 128, dtype=torch.float16) for _ in "kv"
)  # token, layer, head, number
print((keys.nbytes + values.nbytes) // 10 == llama_2_7b)

# %% [markdown]
"""
**Step 2: fewer heads, or none.** That size is why newer models share. In **GQA**, grouped-query attention, several query heads use one KV head; with a single KV head it is called MQA, multi-query attention, and with one for each query head MHA, multi-head attention. In **MLA**, DeepSeek's multi-head latent attention, a token keeps one small vector in each layer, from which keys and values of all heads are computed again when needed.

**Predict first.** DeepSeek V3 has 671 billion parameters, 61 layers, and keeps one vector of 576 numbers a token and layer. Llama 2 7B has 7 billion parameters, 32 layers, and 32 KV heads of 128 numbers. Whose tokens take more room in the cache, and by about what factor?

<details><summary>Answer</summary>

Llama 2 7B's, by more than seven. The size of the cache follows from layers and from what a layer keeps, heads or one vector, and not from the number of parameters.

</details>
"""

# %%
from minikv import KVShape, bytes_per_token

NAMES = ["llama-2-7b", "llama-3.1-8b", "qwen3-8b", "mistral-7b-v0.3", "gemma-2b", "deepseek-v3"]
for name in NAMES:
    shape = KVShape.from_config(name)  # reads a Hugging Face config.json
    size = bytes_per_token(shape)
    print(
        f"{name:16} {shape.attention}  {shape.num_layers} layers  {size:9,} bytes  {'■' * round(size / 2**14)}"
    )

# %% [markdown]
"""
`from_config` also takes a path, so you can ask about any model on your disk.

**Step 3: smaller numbers.** Keys and values can be stored in 8 or 4 bits. A floating-point number has an exponent of its own; integers share one scale for each head's vector, which must be stored too. (Engines may scale 8-bit floats as well, but once for a whole layer, which does not count here.) That is why int4 takes a little more than a quarter of 16 bits.
"""

# %%
llama = KVShape.from_config("llama-3.1-8b")
for dtype in ("fp32", "bf16", "fp8", "int8", "int4"):
    size = bytes_per_token(llama, dtype)
    print(f"{dtype:5} {size:8,} bytes, {size / bytes_per_token(llama, 'bf16'):.3f} of bf16")

# %% [markdown]
"""
**Step 4: several GPUs.** In tensor parallelism each GPU, or rank, has some of the heads. A head is never cut, so the KV heads are dealt out evenly.

**Predict first.** Llama 3.1 8B has 8 KV heads. How many bytes does a token take on *each* GPU, on 8 GPUs and on 16?

<details><summary>Answer</summary>

16,384, both times. With 8 GPUs each has one KV head. With 16 there is no half a head to give, so every head is stored twice, and each GPU still has one. Beyond as many GPUs as KV heads, the cache stops shrinking. And on 3 GPUs the model cannot run at all.

</details>
"""

# %%
for tp in (1, 2, 4, 8, 16, 32):
    print(f"GPUs: {tp:2}   bytes a token on each: {bytes_per_token(llama, tp=tp):8,}")
print(
    "the careless table's model on 16 GPUs:", bytes_per_token(KVShape(1, 8, 128), tp=16), "bytes, not 256"
)
try:
    bytes_per_token(llama, tp=3)
except ValueError as error:
    print("GPUs:  3  ", error)

# %% [markdown]
"""
In MLA there are no heads to deal out: every rank keeps the whole vector.
"""

# %%
deepseek = KVShape.from_config("deepseek-v3")
print([bytes_per_token(deepseek, tp=tp) for tp in (1, 8)])

# %% [markdown]
"""
**Step 5: pages that fit, and what they waste.** Take a GPU with 80 GiB, let the engine use nine tenths of it, and subtract the weights: what is left is divided into whole pages. Larger pages are fewer, so there is less bookkeeping, but each request wastes the unused part of its last page.
"""

# %%
from minikv import bytes_per_page, kv_budget, pages_that_fit

weights = 8_030_261_248 * 2  # the parameters of Llama 3.1 8B, two bytes each
budget = kv_budget(80 * 2**30, weights, utilization=0.9)
for page_size in (1, 16, 256):
    pages = pages_that_fit(budget, bytes_per_page(llama, page_size))
    print(f"pages of {page_size:3}: {pages:7,} pages, {pages * page_size:7,} tokens")

# %% [markdown]
"""
So this is the answer to the chapter's question: 80 GiB hold about 467,000 tokens of Llama 3.1 8B, whatever the page size. How many of the slots will be of *use* is another matter.

**Predict first.** A thousand requests, from 1 to 1,000 tokens long. What share of the slots is wasted with pages of 16? With pages of 256?

<details><summary>Answer</summary>

On average a request wastes half a page. A request has 500 tokens on average. With pages of 16 about 8 slots of 508 are wasted, with 256 about 128 of 628, a fifth of the memory.

</details>
"""

# %%
from minikv import page_waste

lengths = range(1, 1001)
for page_size in (1, 4, 16, 64, 256):
    waste = page_waste(lengths, page_size)
    print(
        f"pages of {page_size:3}: {waste.pages:7,} pages, {waste.fraction:6.1%} wasted  {'■' * round(100 * waste.fraction)}"
    )

# %% [markdown]
"""
## The same in `minikv`

You have been using it since step 2. You can trust its numbers because they do not come from a separate formula: `kv_tensors` lists the tensors that an engine allocates, and the sizes are computed from that list. So they can be checked by allocating.
"""

# %%

from minikv import kv_tensors

checked = 0
for shape in (KVShape(2, 4, 8), KVShape(3, 1, 16, v_head_dim=32), KVShape(2, latent_dim=24)):
    for dtype in ("fp32", "fp16", "bf16", "fp8", "int8", "int4"):
        plans = kv_tensors(shape, num_pages=5, page_size=4, dtype=dtype)
        tensors = [torch.empty(plan.shape, dtype=getattr(torch, plan.dtype)) for plan in plans]
        assert sum(tensor.nbytes for tensor in tensors) == 5 * bytes_per_page(shape, 4, dtype)
        checked += 1
print(checked, "combinations allocated, every byte accounted for")

# %% [markdown]
"""
And our own first formula agrees with it, on the model where it applies:
"""

# %%
print(llama_2_7b == bytes_per_token(KVShape.from_config("llama-2-7b"), "fp16"))

# %% [markdown]
"""
## Play

A request grows token by token, and takes a new page only when the last one is full. Step through it and try this: before each step, say whether a page will be taken.
"""

# %%
from minikv import beside, play

pool, table, steps = FreeListPool(4), PageTable(num_rows=1, max_length=8), []
row = table.open()
for count in range(1, 8):
    slots, fresh = table.length(row), []
    if slots % PAGE_SIZE == 0:
        fresh = pool.alloc(1)
        page = page_slots(fresh, PAGE_SIZE)
    table.append(row, page[slots % PAGE_SIZE : slots % PAGE_SIZE + 1])
    what = "takes a new page" if len(fresh) else "fits in the last page"
    pictures = draw(pool, new=fresh), draw(table, new=table.slots(row)[-1:])
    steps.append((f"token {count} {what}", beside(*pictures)))
play(steps)

# %% [markdown]
"""
## Exercises

**1.1 Fill in.** Write `pages_needed(num_tokens, page_size)`. One line will do, and it must stay right for numbers that no float can hold.
"""

# %%
from minikv import check


def pages_needed(num_tokens, page_size):
    raise NotImplementedError  # delete this line; about one line to write


check("1.1 pages_needed", pages_needed)

# %% [markdown]
"""
<details><summary>Hint</summary>

Round up with whole numbers only. `//` rounds down, and for negative numbers *down* is *away from zero*.

</details>

<details><summary>Solution</summary>

```python
def pages_needed(num_tokens, page_size):
    return -(-num_tokens // page_size)
```

</details>

**1.2 Design.** Write `best_page_size(lengths, sizes, most_waste)`: of the page sizes in `sizes`, the largest at which sequences of these lengths waste at most the share `most_waste` of all slots they take. If every size wastes more, raise a `ValueError`.
"""


# %%
def best_page_size(lengths, sizes, most_waste):
    raise NotImplementedError  # delete this line; about seven lines to write


check("1.2 best_page_size", best_page_size)

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

**1.3 Bug hunt.** The function below is the heart of the formula that this chapter began with. Return a pair `(num_kv_heads, tp)` that an engine can really run, and for which its answer is not what each rank really holds.
"""

# %%
import inspect

from minikv.course.exercises.ch01 import careless_heads

print(inspect.getsource(careless_heads))


def heads_and_ranks():
    raise NotImplementedError  # delete this line; return (num_kv_heads, tp)


check("1.3 kv_heads_per_rank", heads_and_ranks)

# %% [markdown]
"""
<details><summary>Hint</summary>

It must be a set-up that works, so one number divides the other. Which of the two directions does the division forget?

</details>

<details><summary>Solution</summary>

```python
def heads_and_ranks():
    return (8, 16)
```

</details>

## What it cost

Pages reduced the bookkeeping, as the first column of step 5 shows, but they made *sharing* coarser. Two prompts can share a page only if they agree on all of it. Say they have 255 tokens in common:
"""

# %%
common = 255
for page_size in (1, 16, 64, 256):
    print(
        f"pages of {page_size:3}: {common // page_size * page_size:3} of {common} common tokens can be shared"
    )

# %% [markdown]
"""
With pages of 256 a common beginning of 255 tokens is worth nothing. And an invariant is at risk now: *a page has one owner*, who may write to it, however many read it. As soon as pages are handed out and taken back, something has to guard it. That is the next chapter.

## In real engines

{{engines 01}}

They also size layers that differ: sliding windows that keep only recent tokens, state-space layers that keep one state, and different numbers of heads in different layers, made to fit in pages of one byte size.

## Recap

A token's keys and values take layers × KV heads × head size × two × the bytes of a number (in MLA, layers × one vector), whatever the number of parameters. Heads are dealt out to GPUs whole, and are copied when there are more GPUs than heads. A larger page costs each sequence half a page of waste and makes sharing coarser, but leaves fewer pages to keep track of.

**Check yourself**

1. Which line of the careless table at the top was wrong for a third of a byte, and which for half a head?
2. A model has 4 KV heads. From how many GPUs on does the cache on each GPU stop shrinking?
3. Why does int4 not take exactly a quarter of bf16?
4. Requests are exactly 100 tokens long. What share of the slots do pages of 16 waste?

<details><summary>Answers</summary>

1. The one with 3 GPUs, which cannot run at all; and the one with 16, where each GPU still has one whole head.
2. From 4 on: each has one head then, and more GPUs only make copies.
3. Each head's vector needs a scale of its own.
4. Seven pages have 112 slots, so 12 of 112, some 11 percent.

</details>

**Read on**: [PagedAttention, the paper](https://arxiv.org/abs/2309.06180) · [GQA, the paper](https://arxiv.org/abs/2305.13245) · [DeepSeek-V2, which introduced MLA](https://arxiv.org/abs/2405.04434)
"""

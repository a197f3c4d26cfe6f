# %% [markdown]
"""
# 10 · Can a dictionary replace the tree?

In this chapter you write the heart of vLLM's prefix cache: four functions, about twenty lines in all. The cache has a **block hash** for each page of a prompt, one dictionary that finds the pages, and one queue that says which page is evicted next. You will also attack its hash.

**After this chapter you will be able to** *build* a prefix cache from hashes and a queue, *explain* why the hashes must form a chain, and *defend* the cache against collisions and timing attacks.

{{time}} **Needs** chapters 02 to 05, and for one film the manager from 07. **New words** block hash, collision, salt, side channel.

**In this notebook already** `sha_key`, `BlockPool` and `open_request`. The last two call functions that you will write.

Here is where we are going. Three prompts arrive in blocks of two tokens. Below the pool are the only two parts of this cache: a dictionary and a queue. (The tree is drawn only for you; the cache has none.) Step through the film, and watch which block is evicted at the end.
"""

# %%
from minikv import FreeListPool, HashBlockCache, RadixCache, beside, draw, record

cache, pool = HashBlockCache(page_size=2), FreeListPool(8)
with record(cache, pool) as film:
    for prompt in ([1, 2, 3, 4, 5, 6], [1, 2, 7, 8], [1, 2, 3, 4]):
        pages = pool.alloc(len(prompt) // 2)
        done = cache.insert(prompt, pages)
        pool.free(pages[: done.prefix_length // 2])
    pool.free(cache.evict(2))
film.player()

# %% [markdown]
"""
## The problem

Your radix tree from chapters 03 to 05 finds any prefix. But whenever a prompt ends or diverges in the middle of an edge, the edge is cut, and its locks, its age and its handles have to stay correct. Let's send 200 questions to the help desk from chapter 03, and count how often merely *looking up* a prompt changes the tree's shape.
"""

# %%
import json
import random

from minikv import asset

DESK = json.loads(asset("chats.json").read_text("utf-8"))
SYSTEM = list(DESK["system"].encode())
questions = [question for chat in DESK["chats"] for question, _ in chat]
prompts = [
    SYSTEM + list(f"reader {i}: {questions[i % len(questions)]}".encode())
    for i in range(200)
]

# %%
tree, changed = RadixCache(), 0
for prompt in prompts:
    before = len(list(tree.nodes()))
    tree.match_prefix(prompt)
    changed += len(list(tree.nodes())) != before
    tree.insert(prompt, range(tree.total_size, tree.total_size + len(prompt)))
print(f"{changed} of {len(prompts)} lookups changed the shape of the tree")

# %% [markdown]
"""
One lookup in ten cut an edge, although a lookup should only read. And if each of ten servers has its own tree, which one has the prefix of the next prompt? A node means nothing in another process.

There is another way. {{engines vllm}}

## Build it

### Step 1: a name for every block

Cut the prompt into **blocks** of a fixed number of tokens, the pages from chapter 01. A full block never changes again, so we can name it once. The name should identify the keys and values in the block. They depend on the block's tokens and, because attention looks back, on *all tokens before it*, so the name must cover the whole prefix.

Hashing the whole prefix for every block would read the beginning again and again, so make a chain: a block's name is a hash of its own tokens and the name of the block before it. This is the **block hash**, and we call it the block's *key*. (Attention's own keys are always called *keys and values* here.) The next function makes a key with SHA-256, a hash function for which nobody knows two inputs with the same result. (`pack(tokens).data` holds the tokens as bytes, four per token.)
"""

# %%
source(sha_key)

# %% [markdown]
"""
#### 10.1 You write: `block_keys` (5 minutes)

Return a list with one key for each full block of the prompt. Call `key_of(parent, tokens)` to make a key; `key_of` may be `sha_key` or any other function of two arguments. The parent of a block is the key of the block before it, and the parent of the first block is the `seed`. A key may be of any type, and it may be 0. Don't copy the remaining tokens for each block.
"""


# %%
def block_keys(tokens, size, seed, key_of):
    """Return a key for each full block of `tokens`, made from the key before it."""
    raise NotImplementedError  # delete this line; about 5 lines to write


block_keys = check("10.1 block_keys", block_keys)

# %%
for tokens in ([1, 2, 3, 4, 5, 6, 7], [1, 2, 3, 4, 9, 9], [5, 6]):
    print(tokens, [key.hex()[:6] for key in block_keys(tokens, 2, b"", sha_key)])

# %% [markdown]
"""
The first two prompts share two blocks, so they share two keys. The third prompt has the tokens `5 6` too, but nothing comes before them, so the key differs.

Now take two prompts of eight tokens that differ only in the fourth token. How many of their four keys are equal?
"""

# %%
# put your number in place of None, then run the next cell
guess("10.a", "only token 4 of 8 differs. How many of the 4 keys are equal?", None)

# %%
from minikv.course.pictures.cells import word_rows

a, b = (block_keys([1, 2, 3, n, *range(4)], 2, b"", sha_key) for n in (1, 9))
rows = [(f"token 4 is {n}", [key.hex()[:6] for key in k]) for n, k in ((1, a), (9, b))]
fold("10.a", sum(x == y for x, y in zip(a, b)), word_rows(rows))

# %% [markdown]
"""
<details><summary>Why</summary>

One. Three of the four blocks hold the same tokens in both prompts. But the second keys differ, so every later key is made from a different parent. That is what we want: later tokens attend to the fourth one, so their keys and values differ too.

</details>

### Step 2: one dictionary

Keep all cached blocks in one dictionary that maps a key to its block. To look up a prompt, look for its keys in order. The blocks that you find are *hits*.

#### 10.2 You write: `longest_hit` (5 minutes)

`table` is the dictionary, and `keys` is the list of a prompt's keys. Return a list of the blocks of these keys, up to the first key that is not in the table, and look up no key after it. Even if a later key is in the table, its block is useless, because attention needs *all* earlier tokens.
"""


# %%
def longest_hit(table, keys):
    """Return the blocks of `keys`, up to the first key that is not in `table`."""
    raise NotImplementedError  # delete this line; about 6 lines to write


longest_hit = check("10.2 longest_hit", longest_hit)

# %%
keys = block_keys([1, 2, 3, 4, 5, 6], 2, b"", sha_key)
table = dict(zip(keys, ["block 1", "block 2", "block 3"]))
other = block_keys([1, 2, 3, 4, 9, 9], 2, b"", sha_key)
print("hits of the second prompt above:", longest_hit(table, other))

# %% [markdown]
"""
### Step 3: one queue

Now the other half: which block is evicted when room is needed? vLLM puts all unused blocks, cached or not, {{engines vllm-one-queue|into one queue}} and takes the first one, so the order of the queue is the order of eviction. A hit may have to leave the middle of the queue. In a `deque`, that means a search; in a doubly linked list, like your ring from chapter 05, it takes four assignments.

`open_request`, at the top of the next cell, looks up the hits and takes them out of the queue (`touch`). For the rest of the prompt, it takes blocks from the front of the queue (`take`) and puts their keys into the table (`publish`).
"""

# %%
source(open_request, BlockPool, FreeQueue, PoolBlock)

# %% [markdown]
"""
When a request ends, its blocks go back to the queue. Cached blocks go to the end, because they were just used. A block without a key, such as the half-full block at the end of a prompt, can never be hit, so it goes to the front and is taken first. But in which order do the cached blocks of one request go in?

A prompt has three blocks: A, then B, then C. They join an empty queue in that order, and then *one* block is taken. How many of the three are still hits?
"""

# %%
guess("10.b", "A goes in, then B, then C. One is taken. How many are still hits?", None)


# %%
def hits_after_one_is_taken(order):
    pool, tokens = BlockPool(3), [3, 1, 4, 1, 5, 9]
    blocks, _ = open_request(pool, tokens, 2)
    for block in order(blocks):
        block.users = 0
        pool.queue.add_last(block)
    pool.take(1)
    return len(longest_hit(pool.table, block_keys(tokens, 2, b"", sha_key)))


other = hits_after_one_is_taken(reversed)
fold("10.b", hits_after_one_is_taken(list), f"in the opposite order: {other}")

# %% [markdown]
"""
<details><summary>Why</summary>

None. A is taken, and without A nobody can use B and C: they stay in memory, but no lookup reaches them. In the opposite order C is taken, and A and B are still useful. Chapter 05 had a rule for this: only a leaf may be evicted. Here the order of the queue has to guarantee it.

</details>

#### 10.3 You write: `give_back` (15 minutes)

`blocks` are the blocks of a request that has ended, in the order of its prompt. You need these names:

| name | what it is |
|---|---|
| `block.users` | how many requests use the block |
| `block.key` | its key, or `None` if it is not cached |
| `pool.queue.add_first(block)` | puts a block at the front of the queue |
| `pool.queue.add_last(block)` | puts a block at the end of the queue |

Each block loses one user. A block with no users left joins the queue: at the front if it has no key, at the end if it has one. Of two cached blocks, the one *later* in the prompt must come first. (Blocks without a key may be in any order.) If any of the blocks is not in use, raise a `ValueError` and change nothing. Don't search the queue.

*Test it first* (optional, 10 minutes): `list(pool.queue)` lists the queue from the front, and one request uses the three blocks.
"""


# %%
def test_give_back(give_back):
    """Fail if `give_back` is wrong."""
    pool = BlockPool(4)
    blocks = pool.take(3)
    blocks[0].key, blocks[1].key = "a", "b"  # cached; the third is not
    raise NotImplementedError  # instead, call `give_back` and `assert` what is true


catch("10.3 give_back", test_give_back)


# %%
def give_back(pool, blocks):
    """End a request: its blocks lose a user, and unused blocks join the queue."""
    raise NotImplementedError  # delete this line; about 9 lines to write


give_back = check("10.3 give_back", give_back)

# %%
pool = BlockPool(6)
first, _ = open_request(pool, [1, 2, 3, 4, 5], 2)
pool.give_back(first)
before = draw(pool)
second, hits = open_request(pool, [1, 2, 3, 4, 7, 8, 9], 2)
print(f"{hits} hits; the request has the pages", [block.page for block in second])
beside(before, draw(pool))

# %% [markdown]
"""
The pictures show the pool after the first request and during the second. Page 2, half full, was at the front, so it was taken first. Pages 0 and 1 were hits and left the end of the queue.

### Step 4: whose prompt is it?

Anna and Ben use the same server. Ben cannot read Anna's prompts, but a prompt that hits is answered faster, and Ben has a stopwatch. Such a leak is called a **side channel**. In the next cell, `is_fast` acts as the stopwatch.
"""


# %%
def is_fast(pool, text, seed=b""):
    keys = block_keys(list(text.encode()), 4, seed, sha_key)
    return len(longest_hit(pool.table, keys)) == len(keys)


pool = BlockPool(64)
pool.give_back(open_request(pool, list(b"The PIN is: 7351. Thank you!"), 4)[0])
guesses = (f"The PIN is: {pin:04}" for pin in range(10_000))
print("fast:", [text for text in guesses if is_fast(pool, text)])

# %% [markdown]
"""
After ten thousand requests, Ben knows Anna's PIN. The remedy is a **salt**: a secret string that the client sends with the request. It goes into the seed of the chain, and without it nobody can make a key that hits. In vLLM, requests {{engines vllm-17045|can carry one}}.

An adapter changes the keys and values too (chapter 03), so it also belongs in the seed. (So do new weights: see 10.7.) Be careful: a client chooses both strings, and an adapter called X must not be mistaken for the salt X. In vLLM, it could be: {{engines vllm-44701}}.

#### 10.4 You write: `seed_of` (15 minutes)

Return bytes. Equal pairs of adapter and salt must give equal bytes, and different pairs different bytes, *whatever* is in the two strings: letters from any alphabet, capitals, spaces, a million letters, even half of a character (JSON can carry `"\ud800"`, which `.encode()` refuses). If you hash, use SHA-256. Each of the two may be `None`, which is not the same as an empty string or the string `"None"`.
"""


# %%
def seed_of(lora, salt):
    """Return bytes that no other pair gives; each of the two is a string or None."""
    raise NotImplementedError  # delete this line; about 2 lines to write


seed_of = check("10.4 seed_of", seed_of)

# %%
anna, ben = seed_of(None, "Anna's secret"), seed_of(None, "Ben's secret")
pool = BlockPool(64)
pool.give_back(open_request(pool, list(b"The PIN is: 7351. Thank you!"), 4, anna)[0])
for name, seed in (("Anna", anna), ("Ben", ben), ("no salt", b"")):
    print(name, is_fast(pool, "The PIN is: 7351", seed))

# %% [markdown]
"""
## The same in `minikv`

`HashBlockCache` is this design with the radix tree's methods: `match_prefix`, `insert`, `lock`, `evict`. A namespace plays the role of the seed, and `extra_keys(lora=..., salt=...)` makes one from an adapter and a salt. On 1,000 random prompts, your functions, the package's cache and the radix tree find the same tokens.
"""

# %%
chance, own = random.Random(10), BlockPool(4000)
tree, blocks = RadixCache(page_size=4), HashBlockCache(page_size=4)
for number in range(1000):
    tokens = [chance.randrange(2) for _ in range(chance.randrange(1, 40))]
    hits = longest_hit(own.table, block_keys(tokens, 4, b"", sha_key))
    found = [cache.match_prefix(tokens).pages.tolist() for cache in (tree, blocks)]
    assert found[0] == found[1]
    assert len(found[0]) == len(hits)
    own.give_back(open_request(own, tokens, 4)[0])
    for cache in (tree, blocks):
        cache.insert(tokens, range(10 * number, 10 * number + len(tokens) // 4))
print("equal; tokens cached:", 4 * len(own.table), tree.total_size, blocks.total_size)

# %% [markdown]
"""
In the queue of `HashBlockCache`, the least recently used block comes first. Of two blocks that were used at the same time, the one whose key covers more tokens comes first, because it is deeper in its prompt. vLLM's queue promises {{engines vllm-more-hashed|the same order}}, but relies on its callers, which {{engines vllm-reverse|free blocks in reverse}}.
"""

# %%
queue = list(blocks.queue())
rule = sorted(queue, key=lambda block: (block.last_used, -block.num_hashed_tokens))
print("the order follows the rule:", queue == rule)

# %% [markdown]
"""
So the end of a prompt is evicted first, and a cached prefix never has a hole. The cache makes each key only when it looks up that block. Next, we give it a hash function that counts its calls. (It is like `sha_key`, but gets packed tokens.)
"""

# %%
from minikv.prefix.hash_blocks import sha256_key


def counting_key(parent, tokens):
    counting_key.made += 1
    return sha256_key(parent, tokens)


counting_key.made = 0

# %% [markdown]
"""
The cache looks up a prompt of 1,000 blocks, of which the first 500 are cached. How many keys does it make?
"""

# %%
guess("10.c", "500 of the 1,000 blocks are hits. How many keys are made?", None)

# %%
long = HashBlockCache(page_size=16, block_hash=counting_key)
long.insert(range(8_000), range(500))
counting_key.made = 0
long.match_prefix([*range(8_000), *[7] * 8_000])
yours = block_keys([*range(8_000), *[7] * 8_000], 16, b"", sha_key)
fold("10.c", counting_key.made, f"your block_keys makes {len(yours)}")

# %% [markdown]
"""
<details><summary>Why</summary>

It makes a key for each of the 500 hits and for the first miss, and stops. No later block can be a hit, because a cached prefix has no hole. Your `block_keys` makes all keys at once, but `open_request` also needs the others, to publish the new blocks.

</details>

### When two blocks have the same key

A dictionary finds a block by its key alone. If two prefixes have the same key, that is a **collision**, and the cache hands out the keys and values of *another prompt*. In early 2025, vLLM still made its keys with Python's own `hash`: {{engines vllm-12621}}. Here are two blocks of four tokens, all from the vocabulary of Llama 3, with the same hash.

<details><summary>How to find them</summary>

Hash many blocks up to their third token, sort the results, and take two that are close. The fourth token makes up for the difference.

</details>
"""


# %%
def weak_key(parent, tokens):
    return hash((parent, *tokens))


ANNA, BEN = [78157, 24212, 98239, 105274], [13307, 73093, 106177, 5]
print(block_keys(ANNA, 4, 0, weak_key) == block_keys(BEN, 4, 0, weak_key))

# %% [markdown]
"""
Ben's prompt is his four tokens and a question of five tokens, and it is cached. Now Anna asks the same question after her own four tokens, so her prompt has nine tokens. For how many of them does she read Ben's keys and values?
"""

# %%
guess("10.d", "for how many of the 9 tokens does Anna read Ben's pages?", None)

# %%
pool = BlockPool(8)
question = [7, 7, 7, 7, 7]
pool.give_back(open_request(pool, BEN + question, 4, 0, weak_key)[0])
pages, hits = open_request(pool, ANNA + question, 4, 0, weak_key)
shown = f"she reads pages {[block.page for block in pages[:hits]]}: Ben's"
fold("10.d", 4 * hits, shown)

# %% [markdown]
"""
<details><summary>Why</summary>

Eight: the four that collide, and four of the question. The first keys are equal, so the chain continues from the same parent, and the second keys are equal too. (The ninth token does not fill a block.) One collision poisons everything after it, and Anna gets an answer to a prompt that she never sent.

</details>

There are three ways to prevent this: use a hash function for which nobody can build a collision; start the chain with a secret seed, so nobody can prepare one; or compare the tokens of each hit, as {{engines nano-vllm-compare|nano-vllm does}}. `HashBlockCache` compares them unless the hash is SHA-256 or `verify=` says otherwise. With the next hash function, all blocks at the same depth have the same key.
"""


# %%
def depth_key(parent, tokens):
    return bytes(len(parent) + 1)


# %%
for verify in (False, True):
    cache = HashBlockCache(page_size=4, block_hash=depth_key, verify=verify)
    cache.insert(BEN + question, [0, 1, 2])
    print(f"verify={verify}: Anna gets", cache.match_prefix(ANNA + question))

# %% [markdown]
"""
## Play

Here are five prompts, and room for six blocks of two tokens. Before prompts 4 and 5 begin, point to the blocks that will be evicted.
"""

# %%
from minikv import CacheManager

manager = CacheManager(6, page_size=2, prefix_cache=HashBlockCache(page_size=2))
five = [1, 2, 3, 4, 5, 6], [7, 8, 9, 1], [1, 2, 3, 4, 7, 7], [5, 5, 5, 5], [6, 6]
with record(manager) as film:
    for prompt in five:
        with manager.request(prompt) as sequence:
            manager.advance(sequence)
film.player()

# %% [markdown]
"""
## More to try

#### 10.5 Design: how large is a block?

Large blocks mean fewer keys, but also fewer tokens that can be shared. Write `hit_tokens(prompts, size)`, which returns how many prompt tokens are hits in total. The prompts arrive one after another, nothing is evicted, only full blocks can be hits, and at least the last token of each prompt is computed. Then try sizes from 4 to 256 on the help desk's prompts. Which size would you choose?
"""


# %%
def hit_tokens(prompts, size):
    raise NotImplementedError  # delete this line; about 8 lines to write


check("10.5 hit_tokens", hit_tokens)

# %% [markdown]
"""
<details><summary>Hint</summary>

Keep a set of all prefixes that end at the end of a block. A prefix of the next prompt is a hit if it is in the set, and if it is not the whole prompt.

</details>

<details><summary>Solution</summary>

```python
def hit_tokens(prompts, size):
    seen, hits = set(), 0
    for prompt in prompts:
        ends = range(size, len(prompt) + 1, size)
        prefixes = [tuple(prompt[:end]) for end in ends]
        hits += size * sum(p in seen and len(p) < len(prompt) for p in prefixes)
        seen.update(prefixes)
    return hits
```

</details>

#### 10.6 Bug hunt: fix it in one line

Suppose `take` is lazy: it sets a block's key to `None`, but leaves the old entry in the table. Then the table may lead to a block that now holds something else. nano-vllm had a bug of this kind: {{engines nano-vllm-163}}. The lookup below does not notice. Change one line so that it does.
"""


# %%
def lazy_hit(table, keys):
    raise NotImplementedError  # delete this line, and change one of the others
    hits = []
    for key in keys:
        block = table.get(key)
        if block is None:
            break
        hits.append(block)
    return hits


check("10.6 lazy_hit", lazy_hit)

# %% [markdown]
"""
<details><summary>Hint</summary>

The table says which key the block had. What does the block itself say?

</details>

<details><summary>Solution</summary>

```python
def lazy_hit(table, keys):
    hits = []
    for key in keys:
        block = table.get(key)
        if block is None or block.key != key:
            break
        hits.append(block)
    return hits
```

</details>

#### 10.7 Design: new weights

In reinforcement learning, a server gets new weights again and again while it runs. The tokens of a prompt stay the same, so its block keys do too:
"""

# %%
pool, prompt = BlockPool(64), list(b"The PIN is: 7351. Thank you!")
pool.give_back(open_request(pool, prompt, 4)[0])
# here the server gets new weights
stale = open_request(pool, prompt, 4)[1]
f"{stale} hits, all on keys and values of the old weights"

# %% [markdown]
"""
By default, SGLang {{engines sglang-flush-weights}} after an update, and vLLM {{engines vllm-clear-weights}} when it pauses for one. With the version of the weights in the seed, nothing needs to be cleared, because new requests never hit the old blocks. Write `versioned(seed, version)`, which returns a seed with the version in it, as bytes. `seed` may be any bytes, and `version` counts the updates from 0. Equal pairs must give equal bytes, and different pairs different bytes. In 10.4, a separator between the parts was not enough. Is it enough here?
"""


# %%
def versioned(seed, version):
    raise NotImplementedError  # delete this line; one line to write


check("10.7 versioned", versioned)

# %% [markdown]
"""
<details><summary>Hint</summary>

A number has only digits. What shows where it begins?

</details>

<details><summary>Solution</summary>

```python
def versioned(seed, version):
    return seed + b"@%d" % version
```

It is enough, because a number never contains an `@`: whatever is in the seed, the version begins after the last one. (A request that runs during the update keeps the seed that it started with.)

</details>

## What it cost

A tree keeps a node only where prompts end or diverge. A dictionary keeps an entry with a 32-byte key for every block.
"""

# %%
print("page   tree: nodes   blocks key bytes per token   tokens cached")
for size in (4, 16, 64):
    tree, blocks, page = RadixCache(size), HashBlockCache(size), 0
    for prompt in prompts:
        pages = range(page, page + len(prompt) // size)
        page += len(pages)
        for cache in (tree, blocks):
            cache.insert(prompt, pages)
    nodes, entries = (len(list(cache.nodes())) for cache in (tree, blocks))
    print(f"{size:4} {nodes:13} {entries:8} {32 / size:19} {blocks.total_size:15}")

# %% [markdown]
"""
With pages of 4, the dictionary has more than seven times as many entries as the tree has nodes. With pages of 64, the two numbers are close, but far fewer tokens are cached, because a last page that is not full is left out. The next cell measures lookups on your machine, so its output is not stored.
"""

# %% tags=["nbval-ignore-output", "measured"]
from timeit import timeit

for size in (4, 16, 64):
    for make in (RadixCache, HashBlockCache):
        cache = make(size)
        cache.insert(range(16_000), range(16_000 // size))
        seconds = timeit(lambda: cache.match_prefix(range(16_000)), number=20) / 20
        each = seconds * 1e9 / 16_000
        print(f"pages of {size:3} {make.__name__:15} {each:6.1f} ns per token")


# %% [markdown]
"""
A new invariant is also at risk: all blocks before a cached block must be cached too. The tree could not break it, because a child is attached to its parent. Here every caller has to give blocks back in the right order.

## In real engines

{{engines 10|the hash; a collision; `seed_of`}}

vLLM {{engines vllm-last-token}}; here the caller's `limit=` does that. Since 2026, vLLM {{engines vllm-partial}} in models with recurrent layers.

## Recap

A block's key is a hash of its tokens and of the key before it, so one dictionary finds any prefix, and the key means the same on every machine. The queue of unused blocks sets the order of eviction, so the end of a prompt must be given back first. The hash must be strong, because a forged key gives away keys and values, and the seed must be secret, because a key that anybody can make reveals what others have asked.

**Check yourself**

1. From chapter 02: a prompt of 35 tokens is stored in pages of 16. How many pages does it take, and how many of them have a key?
2. Why does a block without a key go to the front of the queue?
3. Only the first block's key contains the salt. Why does that protect the other blocks?
4. From chapter 04: a request looks for room before it locks its match. What can happen?

<details><summary>Answers</summary>

1. It takes three pages. Two of them are full and have a key.
2. It can never be hit, so nothing is lost when it is taken.
3. Each key is made from the key before it, so the salt affects all of them.
4. It may evict its own match to make room.

</details>

**Read on**: [vLLM's prefix caching design](https://docs.vllm.ai/en/latest/design/prefix_caching.html) · [CVE-2025-25183](https://github.com/vllm-project/vllm/security/advisories/GHSA-rm76-4mrf-v9r8) · [a salt for each version of the weights, in prime-rl](https://github.com/PrimeIntellect-ai/prime-rl/pull/2266)
"""

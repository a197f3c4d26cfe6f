# %% [markdown]
"""
# 10 · Can a dictionary replace the tree?

In this chapter you write the heart of vLLM's prefix cache: four functions, about twenty lines in all. It has a **block hash** for each page of a prompt, one dictionary that finds the pages, and one queue that says which page goes next. You will also attack its hash.

**After this chapter you will be able to** *build* a prefix cache from hashes and a queue, *explain* why the hashes must form a chain, and *defend* the cache against collisions and against a neighbor with a stopwatch.

{{time}} **Needs** chapters 02 to 05, and for one film the manager of 07. **New words** block hash, collision, salt, side channel.

**In this notebook already** `sha_key`, `BlockPool` and `open_request`. The last two call functions that you will write.

Here is where we are going. Three prompts come in, in blocks of two tokens. Below the pool is all that this cache has: a dictionary and a queue. The lines on the left are only there for you: nothing here is a tree. Step through the film, and watch what is evicted at the end.
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

Your radix tree of chapters 03 to 05 finds any prefix. But each time a prompt ends or leaves the tree in the middle of an edge, that edge is cut, and its locks, its age and its handles have to stay correct. Let's send two hundred questions to the help desk of chapter 03, and count how often merely *looking up* a prompt changes the shape of the tree.
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
One lookup in ten cut an edge, although a lookup should only read. Several bugs of chapters 03 to 05 were in exactly this kind of change. And there is a second problem. Suppose ten servers have a tree each. Which of them has the prefix of the next prompt? A node means nothing in another process.

There is another way. {{engines vllm}}

## Build it

### Step 1: a name for every block

Cut the prompt into **blocks** of a fixed number of tokens, the pages of chapter 02. A full block never changes again, so we can name it once. The name should say which keys and values are in the block. They depend on the block's tokens and, because attention looks back, on *all tokens before it*. So the name must cover the whole prefix.

Hashing the whole prefix for every block would read the beginning again and again. Make a chain instead: the name of a block is a hash of two things, the name of the block before it and its own tokens. That is the **block hash**, and we call it the block's *key*. (What attention stores is always called *keys and values* here.) This function makes a key with SHA-256, a hash for which nobody knows how to find two inputs with the same result. (`pack(tokens).data` is the tokens as bytes, four for each.)
"""

# %%
source(sha_key)

# %% [markdown]
"""
#### 10.1 You write: `block_keys` (5 minutes)

Return a list with one key for each whole block of the prompt. Call `key_of(parent, tokens)` to make a key; it may be `sha_key` or any other function of two arguments. The parent of a block is the key of the block before it. The first block has no block before it, so its parent is the `seed`. Keys may be of any type, even 0. Don't copy the remaining tokens each time.
"""


# %%
def block_keys(tokens, size, seed, key_of):
    """Return a key for each whole block of `tokens`, made from the key before it."""
    raise NotImplementedError  # delete this line; about 5 lines to write


block_keys = check("10.1 block_keys", block_keys)

# %%
for tokens in ([1, 2, 3, 4, 5, 6, 7], [1, 2, 3, 4, 9, 9], [5, 6]):
    print(tokens, [key.hex()[:6] for key in block_keys(tokens, 2, b"", sha_key)])

# %% [markdown]
"""
The first two prompts share two blocks, and so they share two keys. The third prompt has the tokens `5 6` too, but nothing comes before them, so their key is different.
"""

# %%
# put your number in place of None, then run the next cell
guess("10.a", "only the first of 8 tokens differs. How many of 4 keys are equal?", None)

# %%
a, b = (block_keys([first, *range(7)], 2, b"", sha_key) for first in (1, 9))
fold("10.a", sum(x == y for x, y in zip(a, b)), draw(cache))

# %% [markdown]
"""
<details><summary>Why</summary>

None. The first keys differ, so every later key is made from a different parent. That is what we want: token 8 attends to token 1, so its keys and values differ too. The picture shows the cache of the film. It looks like a tree because each block remembers the block before it, but no lookup follows these lines.

</details>

### Step 2: one dictionary

Keep all cached blocks in one dictionary that maps a key to its block. To look up a prompt, make its keys and look for them in order. The blocks that you find are *hits*.

#### 10.2 You write: `longest_hit` (5 minutes)

`table` is the dictionary, and `keys` is the list of a prompt's keys. Return a list of the blocks of the first keys, up to the first key that is not in the table. Why stop there, even if a later key is in the table? Attention needs *all* earlier tokens. Blocks after a hole are of no use.
"""


# %%
def longest_hit(table, keys):
    """Return the blocks of the first keys, up to the first one not in `table`."""
    raise NotImplementedError  # delete this line; about 6 lines to write


longest_hit = check("10.2 longest_hit", longest_hit)

# %%
keys = block_keys([1, 2, 3, 4, 5, 6], 2, b"", sha_key)
table = dict(zip(keys, ["block 1", "block 2", "block 3"]))
del table[keys[1]]
print("hits without the second block:", longest_hit(table, keys))

# %% [markdown]
"""
### Step 3: one queue

Now the other half: which block goes when room is needed? vLLM puts *all* unused blocks into one queue, whether they are cached or not, and takes the first one. So the order of the queue is the order of eviction. A hit may need a block from the middle of the queue. In a `deque` that means a search. In a doubly linked list, like your ring of chapter 05, it takes four assignments.

Start reading at the end, with `open_request`. It looks up the hits and takes them out of the queue (`touch`). For the rest of the prompt, it takes blocks from the front of the queue (`take`) and puts their keys into the table (`publish`).
"""

# %%
source(PoolBlock, FreeQueue, BlockPool, open_request)

# %% [markdown]
"""
When a request ends, its blocks go back to the queue. In which order? Cached blocks go to the end, because they were just used. A block without a key, such as the half-full block at the end of a prompt, can never be hit. It goes to the front and is taken first. And what about the blocks of one request among themselves?

A prompt has three blocks: A, then B, then C. We put them into the queue in that order, and take *one* block.
"""

# %%
guess(
    "10.b",
    "A goes in first, then B, then C. One is taken. How many are still hits?",
    None,
)


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

A is taken, and without A nobody can use B and C. They stay in memory, but no lookup will ever reach them. In the opposite order C is taken, and A and B are still useful. In chapter 05 this was the rule that only a leaf may be evicted. Here nothing checks for leaves, so the order of the queue has to guarantee it.

</details>

#### 10.3 You write: `give_back` (15 minutes)

`blocks` are the blocks of a request that has ended, in the order of its prompt. These are the names you need:

| name | what it is |
|---|---|
| `block.users` | how many requests use the block |
| `block.key` | its key, or `None` if it is not cached |
| `pool.queue.add_first(block)` | puts a block at the front of the queue |
| `pool.queue.add_last(block)` | puts a block at the end of the queue |

Each block loses one user. A block with no users left joins the queue: at the front if it has no key, at the end if it has one. Of two cached blocks, the *later* in the prompt has to come first. (Blocks without a key may be in any order.) If any of the blocks is not in use at all, raise a `ValueError` and change nothing. Don't search the queue.

*Test it first* (optional, 10 minutes): `list(pool.queue)` lists the queue from the front, and one request uses the three blocks.
"""


# %%
def test_give_back(give_back):
    """Fail if `give_back` is wrong."""
    pool = BlockPool(4)
    blocks = pool.take(3)
    blocks[0].key, blocks[1].key = "a", "b"  # cached; the third is not
    raise NotImplementedError  # instead: call `give_back`, `assert` what is true


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
Above: after the first request. Below: during the second; page 3 has no key yet. Page 2, half full, was at the front, so it was taken first. Pages 0 and 1 were hits and left from the end.

Two requests may compute the same block at the same time. Then `publish` gives the key to the first block; the second gets none, so it is taken soon after its request ends. In vLLM {{engines vllm-no-dedup}} cached.

### Step 4: whose prompt is it?

Anna and Ben are customers of the same server. Ben cannot read Anna's prompts. But a prompt that is a hit is answered sooner, and Ben has a stopwatch. Such a leak is called a **side channel**. In the next cell, `is_fast` plays the stopwatch.
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
After ten thousand requests, Ben knows Anna's PIN. The remedy is a **salt**: a secret string that the customer sends with the request. It goes into the seed of the chain, and without it nobody can make a key that hits. In vLLM this was {{engines vllm-17045}}.

An adapter changes the keys and values too (chapter 03), so it also belongs in the seed. Be careful: both are strings that a client chooses, and an adapter called X must not pass for the salt X. In vLLM it did: {{engines vllm-44701}}.

#### 10.4 You write: `seed_of` (15 minutes)

Return bytes. Equal pairs of adapter and salt must give equal bytes. Different pairs must give different bytes, *whatever* is in the two strings: letters from any alphabet, capitals, spaces, a million letters, even half of a character (JSON can carry `"\ud800"`, and `.encode()` refuses it). If you hash, use SHA-256. Each of the two may be `None`, which is not the same as an empty string or the string `"None"`.
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

`HashBlockCache` is this design with the contract of chapter 07: `match_prefix`, `insert`, `lock`, `evict`. A namespace plays the role of the seed, and `extra_keys(lora=..., salt=...)` makes a namespace from an adapter and a salt. No block is ever split, so none has to be joined again. On a thousand random prompts your functions, the package's cache and the radix tree find the same tokens.
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
Its queue holds only the cached blocks, since the pool of pages is separate. The order of the queue follows a rule that you can check. The least recently used block comes first. If two blocks were last used at the same time, the one with more hashed tokens comes first, because it is deeper in its prompt. vLLM's queue promises the same, {{engines vllm-more-hashed}}. But it never looks at that number. It relies on its callers to free blocks in reverse.
"""

# %%
queue = list(blocks.queue())
rule = sorted(queue, key=lambda block: (block.last_used, -block.num_hashed_tokens))
print("the order follows the rule:", queue == rule)

# %% [markdown]
"""
The rule has a pleasant consequence: the end of a prompt goes first, so a cached prefix never has a hole. A hash for `HashBlockCache` is a function like `sha_key`. It receives two byte strings, the key of the block before and the packed tokens of the block. We pass in one that counts its calls, and look up a prompt of 1,000 blocks. Its first 500 blocks are cached.
"""

# %%
from minikv.prefix.hash_blocks import sha256_key


def counting_key(parent, tokens):
    counting_key.made += 1
    return sha256_key(parent, tokens)


counting_key.made = 0

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

It makes the key of one block, looks it up, and stops at the first miss: 500 hits and one miss. No later block can be a hit, because a cached prefix has no hole. `open_request` makes all keys of a prompt first, but it also needs the others, to publish the new blocks. Each block costs a hash, a lookup and a place in the queue. The radix tree compares all 8,000 tokens of one edge at once.

</details>

### When two blocks have one key

A dictionary finds a block by its key alone. If two different prefixes have the same key, that is a **collision**, and the cache hands out the keys and values of *another prompt*. Until 2025, vLLM made its keys with Python's own `hash`: {{engines vllm-12621}}. Here are two blocks of four tokens, all from the vocabulary of Llama 3, with the same hash.

<details><summary>How we found them</summary>

We hashed 16 million blocks up to their third token, sorted the results, and took two that were close. The fourth token makes up for the difference.

</details>
"""


# %%
def weak_key(parent, tokens):
    return hash((parent, *tokens))


ANNA, BEN = [78157, 24212, 98239, 105274], [13307, 73093, 106177, 5]
print(block_keys(ANNA, 4, 0, weak_key) == block_keys(BEN, 4, 0, weak_key))

# %% [markdown]
"""
Ben's prompt is his four tokens and a question, and it is cached. Now Anna asks the same question after her own four tokens.
"""

# %%
guess(
    "10.d", "Anna's first block has Ben's key. How many of her blocks are hits?", None
)

# %%
pool = BlockPool(8)
question = [7, 7, 7, 7, 7]
pool.give_back(open_request(pool, BEN + question, 4, 0, weak_key)[0])
pages, hits = open_request(pool, ANNA + question, 4, 0, weak_key)
fold("10.d", hits, f"she reads pages {[block.page for block in pages[:hits]]}: Ben's")

# %% [markdown]
"""
<details><summary>Why</summary>

Both of her full blocks. The first keys are equal, so the chain continues from the same parent, and the second keys are equal too. One collision poisons everything after it. Anna gets an answer to a prompt that she never sent.

</details>

There are three ways to prevent this. Use a hash for which nobody can build a collision, such as SHA-256. Start the chain with a secret seed, so nobody can prepare a collision in advance. Or compare the tokens of each hit, as nano-vllm does, and as `HashBlockCache` does with any hash except SHA-256. `verify=` turns this comparison on or off. With the next hash, all blocks at the same depth have the same key.
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

Here are five prompts, and room for six blocks of two tokens. Step through the film. Before prompts 4 and 5 begin, point to the blocks that will go. Which blocks are the least recently used, and which of those is the deepest?
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

Large blocks mean fewer keys, but also fewer tokens that can be shared. Write `hit_tokens(prompts, size)`, which returns how many prompt tokens are hits in total. Only whole blocks hit. The prompts arrive one after another, nothing is evicted, and at least the last token of each prompt is computed. Then try sizes from 4 to 256 on the prompts of the help desk. Which size would you choose, and what else would you need to know?
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

Suppose `take` is lazy: it sets a block's key to `None`, but leaves the old entry in the table. Then the table may lead to a block that holds something else by now. nano-vllm had a bug of this kind, {{engines nano-vllm-163}}. This lookup for a lazy pool does not notice. Change one line of it.
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

## What it cost

A tree keeps a node only where prompts end or diverge. A dictionary keeps an entry with a 32-byte key for every block, whatever the prompts look like.
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
With pages of 4, the dictionary has more than seven times as many entries as the tree has nodes. With pages of 64, the numbers are nearly equal, but far fewer tokens are cached, because a last page that is not full is left out. The next cell measures the time of a lookup on your machine, so its output is not stored.
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
There is also a new invariant at risk: all blocks before a cached block must be cached too. The tree could not break it, because a child is attached to its parent. Here it depends on the order in which blocks are given back, and every user of the queue has to respect that order.

## In real engines

{{engines 10|the hash; a collision; out of the middle of the queue}}

vLLM {{engines vllm-last-token}}; here the caller's `limit=` does that. It takes the salt and {{engines vllm-salt}}.

<details><summary>Two docstrings in vLLM</summary>

Read docstrings with care. One in vLLM {{engines vllm-lru-claim}} for hashes that were computed before. There is no such cache: each turn of a conversation is hashed from its beginning. Another docstring says that {{engines vllm-no-objects}} when blocks move in the queue. That one is true. The links are two fields of every block, and they take memory even while the block is in use.

</details>

## Recap

A block's key is a hash of its tokens and of the key before it, so one dictionary finds any prefix, and the key means the same on every machine. The queue of unused blocks is the order of eviction, and it stays correct only if the end of a prompt is given back first. A key that can be forged gives away keys and values, and a key that everybody can make gives away what others have asked, so the hash must be strong and the seed must be secret.

**Check yourself**

1. From chapter 02: a prompt of 35 tokens is stored in pages of 16. How many pages does it take, and how many of them have a key?
2. Why does a block without a key go to the front of the queue?
3. Only the first block's key contains the salt. Why does that protect the other blocks?
4. From chapter 04: a request looks for room before it locks its match. What can happen?

<details><summary>Answers</summary>

1. It takes three pages. Two of them are full and have a key.
2. It can never be hit, so nothing is lost when it is taken.
3. Each key is made from the key before it, so the salt affects all of them.
4. It may find the room in the match itself, and evict it.

</details>

**Read on**: [vLLM's prefix caching design](https://docs.vllm.ai/en/latest/design/prefix_caching.html) · [CVE-2025-25183](https://github.com/vllm-project/vllm/security/advisories/GHSA-rm76-4mrf-v9r8)
"""

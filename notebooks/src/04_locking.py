# %% [markdown]
"""
# 04 · What must not be evicted now?

Your tree from chapter 03 lends the same slots to many readers but knows none of them. In this chapter, it learns which prefixes are being read and keeps their slots until the answers are finished. You will write seven functions, about forty-five lines, and add one line to your `split`.

**After this chapter you will be able to** *protect* a prefix while somebody reads it, *keep* two sizes exact without recounting them, and *admit* a request only when there is room for it.

{{time}} **Needs** chapters 02 and 03. **New words** lock, handle, reference count, evictable, protected.

From here on, `RadixCache` is a smaller class than the package's, built on *your* functions from chapters 02 and 03. The set-up cell has defined it, along with your `Pool` and the error classes. Until you write your own `evict` in chapter 05, it uses the package's.

Here is where we are going. Anna's prompt is locked, Ben's begins with the same tokens, and we evict all that we can, twice. Run the cell to step through the film.
"""

# %%
from minikv import draw, playground, record

cache, pool = RadixCache(), Pool(12)
with record(cache, pool) as film:
    anna = cache.insert([6, 6, 2, 1, 8], pool.alloc(5))
    cache.lock(anna)
    found = cache.match_prefix([6, 6, 2, 5])
    cache.insert([6, 6, 2, 5], [*found.slots, *pool.alloc(1)])
    pool.free(cache.evict(12))
    cache.unlock(anna)
    pool.free(cache.evict(12))
film.player(still=7)

# %% [markdown]
"""
## The problem

The model is answering Anna. For each token, attention reads the keys and values of her whole prompt. Between two tokens, the engine serves another request: it uses the slots that the tree already has, evicts when free slots run short, and caches the new tokens.
"""


# %%
def serve_without_locks(cache, pool, prompt):
    found = cache.match_prefix(prompt)
    needed = len(prompt) - found.length
    pool.free(cache.evict(max(0, needed - pool.num_free)))
    slots = [*found.slots.tolist(), *pool.alloc(needed)]
    cache.insert(prompt, slots)
    return slots


def desk_prompt(name):
    return list(f"A library's help desk. Reader {name} asks: are you open?".encode())


# %% [markdown]
"""
A *canary* remembers which token was computed into each slot and raises an error when a read finds a different one there.
"""

# %%
from minikv import Canary, InvariantError, Ledger

cache, pool, wrong = RadixCache(), Pool(200), []
with Canary(cache) as canary:
    slots = serve_without_locks(cache, pool, desk_prompt("Anna"))
    for other in range(1, 31):
        serve_without_locks(cache, pool, desk_prompt(other))
        try:
            canary.read(desk_prompt("Anna"), slots)
        except InvariantError:
            wrong.append(other)
print(f"{len(wrong)} of Anna's 30 reads are wrong, the first after reader {wrong[0]}")

# %% [markdown]
"""
Without the canary, Anna would get a strange answer.

A pool of eight slots holds the six tokens `1 3 6 7 9 77`. The next prompt begins with the first four of them and continues with *five* of its own, so it has nine tokens for eight slots. Is this prompt served or refused?
"""

# %%
# put "served" or "refused" in place of None, then run the next cell
guess("4.a", 'is the prompt of nine tokens "served" or "refused"?', None)

# %%
cache, pool = RadixCache(), Pool(8)
serve_without_locks(cache, pool, [1, 3, 6, 7, 9, 77])
longer = [1, 3, 6, 7, 87, 66, 55, 44, 33]
slots = serve_without_locks(cache, pool, longer)
fold("4.a", "served" if len(slots) == len(longer) else "refused", f"in slots {slots}")

# %% [markdown]
"""
<details><summary>Why</summary>

Slots 0, 1, and 2 appear twice. Five slots were needed and two were free, so three had to be evicted. The tail `9 77` went first, and then the prefix that had *just been matched*. Its slots were handed straight back for the new tokens.

</details>

## Build it

### Step 1: say who is reading

A **lock** says that somebody is reading a prefix. `match_prefix` and `insert` return a **handle**, an object that remembers the node where a prefix ends, and you pass the handle to `cache.lock` and `cache.unlock`. Tokens under a lock are **protected**; all others are **evictable**. The cache keeps track of both sizes, because the next request needs to know how much room there is.

Two methods of `RadixCache` move the tokens of *one node* from one size to the other. (Chapter 05 explains `link` and `unlink`, which keep the eviction order.)
"""

# %%
source(RadixCache.protect, RadixCache.expose)

# %% [markdown]
"""
### Step 2: lock and unlock

Which nodes should a lock cover? Anna's prompt is `1 2 3 4 5`, and `1 2 3 7` is cached, too, so the edges are `1 2 3`, then `4 5` and `7`. We lock only her last node, `4 5`. Then `evict`, which looks at nothing but locks, removes each node that has none, with or without children. How many of Anna's five tokens does a match find afterwards?
"""

# %%
guess("4.b", "how many of Anna's five tokens does a match find afterwards?", None)

# %%
cache = RadixCache()
anna = cache.insert([1, 2, 3, 4, 5], range(5))
cache.insert([1, 2, 3, 7], [0, 1, 2, 5])
anna.node.locks = 1  # the last node, and no other
cache.protect(anna.node)
before, slots = draw(cache), cache.evict(6).tolist()
length = cache.match_prefix([1, 2, 3, 4, 5]).length
fold("4.b", length, before, f"slots {slots} were evicted")

# %% [markdown]
"""
<details><summary>Why</summary>

The beginning of her prompt was not locked, so it is gone. No walk can reach the rest, and its two slots are lost for everyone. (The same would happen in an early cache of AstrAI, whose {{engines astrai-pin}} counted only the last node.) If `evict` checked for children, a match would still find all five. Once a lock covers the path, no check is needed.

</details>

So a lock covers the whole path from the root to the end of the prefix. Each node has a **reference count**, `node.locks`: the number of locks that pass through it, at first 0. The two sizes are never recounted. They change only when a count goes from 0 to 1 or back to 0, and your functions tell the cache when that happens.

#### 4.1 You write: `lock` (5 minutes)

Add one to the `locks` of `node` and of every node above it except the root. Call `cache.protect(...)` on each node whose count has just become 1. Use a loop: paths can be long.
"""


# %%
def lock(cache, node):
    """Lock the path from `node` up; tell `cache.protect` which nodes had no lock."""
    raise NotImplementedError  # delete this line; about 5 lines to write


lock = check("4.1 lock", lock)

# %% [markdown]
"""
#### 4.2 You write: `unlock` (5 minutes)

Undo what `lock` did: take one from the count of each node on the path, and call `cache.expose(...)` on each node whose count has just become 0. A count below 0 means that somebody else made a mistake. Raise no error and don't stop at 0: keep counting, and expose nothing.
"""


# %%
def unlock(cache, node):
    """Unlock the path from `node` up; tell `cache.expose` which have no lock left."""
    raise NotImplementedError  # delete this line; about 5 lines to write


unlock = check("4.2 unlock", unlock)

# %% [markdown]
"""
Two prompts begin with the same three tokens. Anna locks her five tokens, then Ben locks his six, and then Anna unlocks hers. How many tokens are protected after each of these steps?
"""

# %%
guess("4.c", "how many tokens are protected after each step? [., ., .]", None)

# %%
cache, protected = RadixCache(), []
anna = cache.insert([1, 2, 3, 4, 5], range(5))
ben = cache.insert([1, 2, 3, 7, 8, 9], [0, 1, 2, 5, 6, 7])
for act, who in ((cache.lock, anna), (cache.lock, ben), (cache.unlock, anna)):
    act(who)
    protected.append(cache.protected_size)
fold("4.c", protected, draw(cache))

# %% [markdown]
"""
<details><summary>Why</summary>

A size counts each token once, so Ben's lock adds only three, and Anna's unlock releases only the two that nobody else reads. While both were reading, the count of `1 2 3` was 2. A flag would not be enough, because the first reader to leave would clear it for everyone.

</details>

Are the two sizes correct? Count again, the slow way. From now on, `cache.check()` compares the sizes with your `recount`.

#### 4.3 You write: `recount` (10 minutes)

Visit every node below `root`. The tokens of a node are protected if `node.locks` is above 0, and evictable otherwise. Return both numbers, the evictable tokens first. Keep a list of the nodes still to visit: a function that calls itself fails on long paths.
"""


# %%
def recount(root):
    """Count the evictable and the protected tokens below `root`; return both."""
    raise NotImplementedError  # delete this line; about 10 lines to write


recount = check("4.3 recount", recount)

# %%
evictable, protected = recount(cache.roots[None])
print(f"recounted: evictable={evictable}, protected={protected}; {cache}")

# %% [markdown]
"""
### Step 3: a split under a lock

Anna holds `1 2 3 4 5`, one edge with a count of 1. Ben only *looks up* `1 2 9`, which cuts the edge after two tokens, so a new node appears in the middle of Anna's path. The `split` from chapter 03 gives this node a count of 0. Then Anna unlocks. How many of the five tokens does the cache count as evictable?
"""


# %%
def anna_reads(cut):
    cache = RadixCache()
    anna = cache.insert([1, 2, 3, 4, 5], range(5))
    cache.lock(anna)
    cut(anna.node, 2)  # this is what Ben's match does
    cache.unlock(anna)
    return cache


guess("4.d", "how many of the five tokens does the cache count as evictable?", None)

# %%
from minikv.course.pieces import accepted

cache = anna_reads(accepted("3.3", globals()))
fold("4.d", cache.evictable_size, draw(cache), cache)

# %% [markdown]
"""
<details><summary>Why</summary>

Anna's unlock walks the path as it is *now*, so it also takes one from the new node, whose count goes from 0 to -1. Because this count never goes from 1 to 0, the node's two tokens stay protected forever.

</details>

#### 4.4 You write: `split`, once more (5 minutes)

Copy your `split` from chapter 03 (`solution("3.3")` shows the package's), and give the upper node the right count. How many locks pass through it?
"""


# %%
def split(node, at):
    """Cut `node` after `at` tokens; return the upper node, which has the same locks."""
    raise NotImplementedError  # delete this line; about 7 lines to write


split = check("4.4 split", split)

# %% [markdown]
"""
With the new `split`, no lock is left after Anna unlocks:
"""

# %%
draw(anna_reads(split))

# %% [markdown]
"""
### Step 4: lock, then look for room

A careful request matches, locks, and only *then* looks for room, evicts, and takes slots. Why not look first?

The six slots of a pool hold the cached tokens `1 3 6 7 9 77`. A prompt arrives that matches four of these tokens and needs four more slots. Before it locks its match, six tokens are evictable. How many are evictable afterwards?
"""

# %%
guess("4.e", "how many tokens are evictable once the match is locked?", None)

# %%
cache, pool = RadixCache(), Pool(6)
cache.insert([1, 3, 6, 7, 9, 77], pool.alloc(6))
cache.lock(cache.match_prefix([1, 3, 6, 7, 87, 66, 55, 44]))
fold("4.e", cache.evictable_size, draw(cache))

# %% [markdown]
"""
<details><summary>Why</summary>

A request can't count its own prefix as free space, so before the lock there only *seems* to be more room. A cached prefix always saves computation, but it saves room only if somebody else has already locked it.

</details>

Pools hand out pages, while the cache measures lengths in tokens. With pages of four tokens, a prompt of nine takes three pages, the last one partly filled. If four of its tokens are cached, it needs two more pages.

#### 4.5 You write: `pages_needed` (5 minutes)

`found` is a multiple of `size`, because only whole pages are cached. Use whole numbers only: `//` is exact, and `/` is not.
"""


# %%
def pages_needed(length, found, size):
    """The pages that `length` tokens need if `found` of these tokens are cached."""
    raise NotImplementedError  # delete this line; about 2 lines to write


pages_needed = check("4.5 pages_needed", pages_needed)

# %% [markdown]
"""
Now you can admit a request. You may call:

| call | what it does and returns | unit |
|---|---|---|
| `cache.acquire(tokens, limit=..., namespace=...)` | matches at most `limit` tokens and locks them; returns a handle, whose `length` says how much was found | tokens |
| `cache.unlock(handle)` | gives the lock back | |
| `cache.evictable_size`, `cache.page_size` | how much can be evicted now; how many tokens a page holds | tokens |
| `cache.evict(count)` | evicts at least `count` tokens, in whole leaves; returns their pages | tokens in, pages out |
| `pool.num_free`, `pool.alloc(count)`, `pool.free(pages)` | free pages; takes pages and returns a list; frees pages | pages |

#### 4.6 You write: `admit` (15 minutes)

1. Acquire the cached prefix of all tokens but the last. The last token is always computed, because the answer begins with its *logits*, the model's scores for the next token.
2. If the free and the evictable pages together are too few, unlock (a waiting request must not block others) and `raise OutOfPages(needed, free, evictable)`. Count all three in pages, before you unlock.
3. Otherwise, evict only as many pages as are missing, if any, and return them to the pool.
4. Return the handle and the pages that you took.
"""


# %%
def admit(cache, pool, tokens, namespace=None):
    """Lock what is cached of all but the last token, and take pages for the rest.

    Return both; if there is no room, give the lock back and raise OutOfPages.
    """
    raise NotImplementedError  # delete this line; about 10 lines to write


admit = check("4.6 admit", admit)

# %%
cache, pool = RadixCache(), Pool(6)
cache.insert([1, 3, 6, 7, 9, 77], pool.alloc(6))
for prompt in ([1, 3, 6, 7, 87, 66, 55, 44], [1, 3, 6, 7, 87, 66]):
    try:
        found, own = admit(cache, pool, prompt)
        print(f"admitted: {found.length} tokens found, {len(own)} pages taken; {cache}")
    except OutOfPages:
        print(f"refused: {len(prompt)} tokens; {cache}")

# %% [markdown]
"""
### Step 5: serve it

Now you can rewrite `serve_without_locks`, this time with locks. Here a page holds one token, so pages and slots are the same thing.

#### 4.7 You write: `serve` (10 minutes)

1. Admit the prompt. If `admit` raises an error, don't catch it.
2. Make the prompt's row, one list: the slots that were found (`found.slots`, an array), followed by the request's own.
3. Insert the prompt with this row. The insertion's `prefix_length` says how many tokens the cache already had; free the request's own slots for those tokens.
4. Lock the whole prompt with `cache.acquire(prompt)`, unlock what `admit` locked, and return what `acquire` returned.
"""


# %%
def serve(cache, pool, prompt):
    """Admit and cache `prompt`, free duplicate slots, return a lock on all of it."""
    raise NotImplementedError  # delete this line; about 7 lines to write


serve = check("4.7 serve", serve)

# %% [markdown]
"""
The canary and a *ledger* watch a day of `serve`. The canary records what is *in* each slot. The ledger records *who owns* each slot, and after every operation it compares its records with the pool and the tree. We plant one mistake at a time: Anna's lock is given back while she is still reading, or a tidy reader ends by freeing its slots, which belong to the tree by then.
"""


# %%
def a_day(mistake):
    cache, pool = RadixCache(), Pool(12)
    with Ledger(pool, cache), Canary(cache) as canary:
        anna = serve(cache, pool, [1, 2, 3, 4, 5])
        if mistake == "early unlock":
            cache.unlock(anna)
        for other in range(1, 31):
            reader = serve(cache, pool, [1, 2, 3, 100 + other, 200 + other])
            cache.unlock(reader)
            if mistake == "tidy reader":
                pool.free(reader.slots)
            canary.read([1, 2, 3, 4, 5], anna.slots)


# %%
import re

for mistake in ("no mistake", "early unlock", "tidy reader"):
    said = "all 30 reads are correct"
    try:
        a_day(mistake)
    except InvariantError as error:
        said = re.sub(r"operation \d+", "an operation", str(error))
    print(f"{mistake}: {said}\n")

# %% [markdown]
"""
The early unlock breaks no rule of ownership, so only the canary notices. The ledger catches the tidy reader at once and names both owners.

### Step 6: give back each lock once

Anna holds `1 2 3 4 5`, and Ben holds its beginning, `1 2 3`. Ben's request is canceled, and its lock is given back. A moment later, the request also finishes, and the lock is given back again. Suppose the cache keeps only counts and raises an error if one falls below zero. How many of Anna's five tokens are protected in the end?
"""

# %%
guess("4.f", "how many of Anna's five tokens are protected in the end?", None)

# %%
cache = RadixCache()
cache.insert([1, 2, 3, 4, 5], range(5))
anna, ben = cache.acquire([1, 2, 3, 4, 5]), cache.acquire([1, 2, 3])
unlock(cache, ben.node)
unlock(cache, ben.node)
fold("4.f", cache.protected_size, draw(cache))

# %% [markdown]
"""
<details><summary>Why</summary>

The count of `1 2 3` goes from 2 to 1 to 0, so there is no error: a count doesn't know whose locks it counts, and the second unlock takes *Anna's* away. Only `4 5`, which is not on Ben's path, still has a count of 1.

</details>

So your cache also keeps *receipts*: its dictionary `held` says how many locks each handle holds. `cache.lock` takes a receipt, and `cache.unlock` must first give one back:
"""

# %%
source(RadixCache.lock, RadixCache.unlock)

# %% [markdown]
"""
`touch` belongs to chapter 05. `give_receipt_back` calls your next function.

#### 4.8 You write: `return_receipt` (5 minutes)

If `handle` is not in `held`, raise the package's `LockError` with a message that says why. Otherwise, take one from the handle's count, and delete the handle when the count is 0.

*Test it first* (optional, 5 minutes): to see that an error is raised, write a `try` with an `else` that fails. Test the error's message, too.
"""


# %%
def test_return_receipt(return_receipt):
    """Fail if `return_receipt` is wrong."""
    cache = RadixCache()
    anna, ben = cache.insert([1], [0]), cache.insert([1, 2], [0, 1])
    held = {anna: 2}  # Ben holds nothing
    raise NotImplementedError  # `assert` what must be true of `held` and of the error


catch("4.8 return_receipt", test_return_receipt)


# %%
def return_receipt(held, handle):
    """Note that `handle` holds one lock fewer; raise a LockError if it holds none."""
    raise NotImplementedError  # delete this line; about 5 lines to write


return_receipt = check("4.8 return_receipt", return_receipt)

# %%
cache = RadixCache()
cache.insert([1, 2, 3], [0, 1, 2])
anna, ben = cache.acquire([1, 2, 3]), cache.acquire([1, 2, 3])
for _ in range(2):
    try:
        cache.unlock(ben)
    except LockError:
        print("The second unlock is refused:", cache)

# %% [markdown]
"""
## The same in `minikv`

In a thousand rounds of insert, lock, unlock, and evict, `minikv.RadixCache` agrees with your cache on every slot and both sizes. (It also merges a node with its only child, so each round evicts everything or nothing.)
"""

# %%
import random

import minikv

pair, chance, seen = (RadixCache(), minikv.RadixCache()), random.Random(4), set()
for number in range(1000):
    tokens = chance.choices([0, 1], k=chance.randint(1, 8))
    for cache in pair:
        cache.insert(tokens, range(8 * number, 8 * number + len(tokens)))
        found = cache.acquire(tokens)
        seen.add((number, *found.slots, cache.evictable_size, cache.protected_size))
        cache.unlock(found)
        cache.evict(0 if number % 4 else cache.evictable_size)
print("rounds in which they differ:", len(seen) - 1000)

# %% [markdown]
"""
## Play

The pool below has 16 slots, and three prompts are cached. Protect more than half of the pool with two locks.
"""

# %%
playground(goal="protect more than half with two locks")

# %% [markdown]
"""
This pool has eight slots, six of them in use. Lock something, then insert a prompt that is refused, although it would fit into an empty pool.
"""

# %%
playground(goal="make admit refuse a prompt that would fit")

# %% [markdown]
"""
## More to try

#### 4.9 Design: how many fit?

Requests wait in line and are admitted from the front until one does not fit. Write `how_many_fit(free, prefixes, waiting)`, which returns how many are admitted. There are `free` free slots, and `prefixes[i]` is the length of cached prefix `i`. The prefixes share nothing, and nobody has locked them yet. A request is a pair: the prefix it begins with (or `None`) and how many tokens of its own follow. An admitted request keeps everything locked.
"""


# %%
def how_many_fit(free, prefixes, waiting):
    raise NotImplementedError  # delete this line; about 8 lines to write


check("4.9 how_many_fit", how_many_fit)

# %% [markdown]
"""
<details><summary>Hint</summary>

Room is everything that is free or evictable. How much of it does the first request with a prefix take away, and how much does the next one?

</details>

<details><summary>Solution</summary>

```python
def how_many_fit(free, prefixes, waiting):
    room, locked = free + sum(prefixes), {None}
    for count, (prefix, own) in enumerate(waiting):
        room -= own if prefix in locked else own + prefixes[prefix]
        if room < 0:
            return count
        locked.add(prefix)
    return len(waiting)
```

</details>

#### 4.10 Bug hunt: unlock without a receipt

This cache keeps no receipt. To unlock, it looks the prompt up again, as {{engines astrai-release}} did in an early cache of AstrAI. Your function is given such a cache. Write calls to its `insert`, `acquire`, and `unlock` after which a count or the evictable size is wrong. Can you make it give back a lock that *another* request holds?
"""

# %%
careless("4.10")


# %%
def calls_that_expose_it(cache):
    raise NotImplementedError  # delete this line, and add more calls
    cache.insert([1, 2], [0, 1])
    anna = cache.acquire([1, 2, 3])
    cache.unlock(anna)


check("4.10 careless_unlock", calls_that_expose_it)

# %% [markdown]
"""
<details><summary>Hint</summary>

A locked path can't get shorter, and a split doesn't move its end. What makes a lookup end *deeper* than before?

</details>

<details><summary>Solution</summary>

```python
def calls_that_expose_it(cache):
    cache.insert([1, 2], [0, 1])
    anna = cache.acquire([1, 2, 3])
    cache.insert([1, 2, 3], [0, 1, 2])
    ben = cache.acquire([1, 2, 3])
    cache.unlock(anna)
```

</details>

## What it cost

A lock or an unlock takes one step per node on the path, but `admit` needs no `recount`, which would visit every node. Here are a thousand cached prompts:
"""

# %%
cache, steps = RadixCache(), 0
for number in range(1000):
    cache.insert(desk_prompt(number), range(len(desk_prompt(number))))
node = cache.match_prefix(desk_prompt(7)).node
while node.parent is not None:
    node, steps = node.parent, steps + 1
print(f"on the path: {steps} nodes; to recount: {len(cache.nodes())} nodes")

# %% [markdown]
"""
The other cost is worse: the room under a forgotten lock is lost forever. Suppose the code for canceled requests, one in twenty, forgets to unlock. The pool has 5,000 slots, and there is never more than one reader.
"""

# %%
cache, pool = RadixCache(), Pool(5000)
try:
    for number in range(10_000):
        held = serve(cache, pool, desk_prompt(number))
        if number % 20:
            cache.unlock(held)
except OutOfPages:
    print(f"request {number} is refused, with {pool.num_free} pages free")
print(f"{cache}, and check() finds nothing wrong: {cache.check() is None}")

# %% [markdown]
"""
The tree can't tell a forgotten lock from a slow request. Receipts make sure that a lock is given back at most once; chapter 07 makes sure that it is given back at least once.

## In real engines

{{engines 04|`lock`; lock, then look for room; one unlock too many}}

The links to SGLang show its core in Python, although {{engines sglang-rust|the one in Rust}} runs by default. SGLang locks first, as you do; mini-sglang looks, locks, and looks again. {{engines vllm-room|vLLM}} and {{engines nano-vllm-room|nano-vllm}} look first and lock later. They are just as safe, because they count a cached block that nobody holds as one that the request needs. SGLang's lock returns {{engines sglang-receipt}}, which the unlock must bring back.

One wrong line is enough to break a lock. In mini-sglang, until {{engines mini-sglang-46|a fix in December 2025}}, a handle named the root, so a lock protected nothing. Until {{engines mini-sglang-52|another, three days later}}, the loop moved to the parent first, so the last node was never locked.

## Recap

A lock adds one to the count of every node on a prompt's path except the root, and the two sizes change only when a count leaves 0 or returns to it. A split gives the upper half the same count, and a handle can give back only the locks that it took. Lock first and then look for room, because a request can't count its own prefix as free space.

**Check yourself**

1. Why does the upper half of a split need the count of the old node?
2. A request does not fit. What must happen to the lock that it just took, and why?
3. From chapter 03: after a split, which half is the old node, and who relies on that?
4. From chapter 02: a request frees a slot that is already free. Why must the pool refuse?

<details><summary>Answers</summary>

1. An unlock of the lower half takes one from every node above it, including the new one.
2. It must be given back. Otherwise, the waiting request would protect slots that running requests need.
3. The lower half. Every handle that ends there relies on it.
4. The slot would be on the free list twice, and two requests would get the same slot.

</details>

**Read on**: [RadixAttention, the paper](https://arxiv.org/abs/2312.07104) · [mini-sglang](https://github.com/sgl-project/mini-sglang)
"""

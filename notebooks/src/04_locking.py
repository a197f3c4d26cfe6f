# %% [markdown]
"""
# 04 · What must not be evicted now?

Your tree from chapter 03 lends the same slots to many readers and knows none of them. By the end of this chapter it will know who is reading, and no slot will be taken away in the middle of an answer. You will write three functions, about twenty lines, and add one line to your `split`.

**After this chapter you will be able to** *protect* a prefix while somebody reads it, *keep* two sizes exact without counting again, and *admit* a request only when there is room for it.

{{time}} **Needs** chapters 02 and 03. **New words** lock, handle, reference count, evictable, protected.

Here is where we are going. Anna's prompt is locked, Ben's shares a part of it, and twice we evict everything that may go.
"""

# %%
from minikv import record

cache, pool = RadixCache(), Pool(12)
with record(cache, pool) as film:
    anna = cache.insert([1, 2, 3, 4, 5], pool.alloc(5))
    cache.lock(anna)
    found = cache.match_prefix([1, 2, 3, 7, 8])
    cache.insert([1, 2, 3, 7, 8], [*found.slots, *pool.alloc(2)])
    pool.free(cache.evict(12))
    cache.unlock(anna)
    pool.free(cache.evict(12))
film.player(still=7)

# %% [markdown]
"""
## The problem

Anna's request is being answered, token by token, and for each token attention reads the keys and values of her whole prompt. Between two tokens another request is served: it takes the slots that the tree has for it, evicts when slots run short, and caches the rest. (Your tree can evict already, with our code until chapter 05.)
"""


# %%
def serve_carelessly(cache, pool, prompt):
    found = cache.match_prefix(prompt)
    needed = len(prompt) - found.length
    pool.free(cache.evict(max(0, needed - pool.num_free)))
    slots = [*found.slots.tolist(), *pool.alloc(needed)]
    cache.insert(prompt, slots)
    return slots


def desk_prompt(name):
    text = f"You are the help desk of a library. Reader {name} asks: when do you open?"
    return list(text.encode())


# %% [markdown]
"""
Who notices when Anna's slots go to somebody else? A *canary* does. It remembers what was computed into each slot, and raises an error when a read finds something else.
"""

# %%
from minikv import Canary, InvariantError, Ledger

cache, pool, wrong = RadixCache(), Pool(200), []
with Canary(cache) as canary:
    slots = serve_carelessly(cache, pool, desk_prompt("Anna"))
    for other in range(1, 31):
        serve_carelessly(cache, pool, desk_prompt(other))
        try:
            canary.read(desk_prompt("Anna"), slots)
        except InvariantError:
            wrong.append(other)
print(f"{len(wrong)} of Anna's 30 reads are wrong, the first after reader {wrong[0]}")

# %% [markdown]
"""
Only the canary complained. An engine has none, and Anna would just get a strange answer.

It does not even take a second reader. A pool of eight slots holds the six tokens `1 3 6 7 9 77`. The next prompt shares the first four of them and goes on with *five* of its own: nine tokens, eight slots.
"""

# %%
# put "served" or "refused" in place of None, then run the next cell
guess("4.a", 'is the prompt of nine tokens "served" or "refused"?', None)

# %%
cache, pool, canary = RadixCache(), Pool(8), Canary()
serve_carelessly(cache, pool, [1, 3, 6, 7, 9, 77])
longer = [1, 3, 6, 7, 87, 66, 55, 44, 33]
slots = serve_carelessly(cache, pool, longer)
canary.write(longer, slots)
try:
    canary.read(longer, slots)
except InvariantError as error:
    said = f"the canary: {error}"
fold("4.a", "served", f"in slots {slots}", said)

# %% [markdown]
"""
<details><summary>Why</summary>

Five slots were needed and two were free, so three had to be evicted. The tail `9 77` went first. Only the prefix was left, the one that had *just been matched*. It went too, and its slots came straight back as room for the new tokens.

</details>

## Build it

### Step 1: say who is reading

A **lock** says that somebody is reading a prefix. It covers the whole path from the root to the node where the prefix ends. `match_prefix` and `insert` return an object that remembers this node, the **handle**, and you pass it to `lock` and `unlock`. Tokens under a lock are **protected**; all others are **evictable**. The cache keeps count of both, because the next request needs room.

Your functions of chapter 03 work on bare nodes. This class makes a cache of them, and you will use it until chapter 08.
"""

# %%
source(RadixCache)

# %% [markdown]
"""
`match_prefix` and `insert` call your `match` and `insert`, and `lock` and `unlock` call two functions that you write now. Look at `protect` and `expose`: each moves the tokens of *one node* from one size to the other. Skip the rest: `touch`, `link`, `unlink` and `evict` belong to chapter 05, and `CacheShell` checks the input. The sizes are in pages; as long as a page holds one token, a page is a slot.

### Step 2: lock the path, and unlock it

Why the whole path? Let's lock the last node only. Anna's prompt is `1 2 3 4 5`, and `1 2 3 7` is cached too, so the edges are `1 2 3`, then `4 5` and `7`. We lock `4 5`, and evict everything that may go.
"""

# %%
guess("4.b", "how many of Anna's five tokens does a match find afterwards?", None)

# %%
from minikv import draw

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

The beginning of her prompt is gone. No walk reaches the rest, and its two slots are lost to everybody. The first cache of AstrAI, which you met in chapter 02, did this: its {{engines astrai-pin}} counted the last node only.

</details>

Each node gets a **reference count**, the number of locks that pass through it, and a lock adds one on *every* node of the path. The two sizes are never recounted. They change only when a count goes from 0 to 1, or back to 0. Then you tell the cache.

#### 4.1 You write: `lock`

Count one more lock in `node.locks`, for `node` and for every node above it except the root. Call `cache.protect(...)` with each node that had no lock before.
"""


# %%
def lock(cache, node):
    """Lock the path from `node` up; tell `cache.protect` which nodes had no lock."""
    raise NotImplementedError  # delete this line; about 5 lines to write


lock = check("4.1 lock", lock)

# %% [markdown]
"""
#### 4.2 You write: `unlock`

Undo what `lock` did: count one lock fewer on each node of the path, and call `cache.expose(...)` with each node whose count has just become 0. A count below 0 would be a mistake made elsewhere. Don't hide it: keep counting, and expose nothing.
"""


# %%
def unlock(cache, node):
    """Unlock the path from `node` up; tell `cache.expose` which have no lock left."""
    raise NotImplementedError  # delete this line; about 5 lines to write


unlock = check("4.2 unlock", unlock)

# %% [markdown]
"""
Now two prompts share three tokens. Anna locks her five tokens, then Ben his six. Then Anna unlocks.
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

Shared tokens are counted once, and Anna's unlock frees only the two that are hers alone. While both read, the count of `1 2 3` was 2. A mere mark would not do: the first to leave must not unlock for the others.

</details>

### Step 3: a split under a lock

Anna holds `1 2 3 4 5`, one edge with a count of 1. Ben only *asks* for `1 2 9`. That cuts the edge after two tokens, and a new node appears in the middle of Anna's path. The `split` of chapter 03, yours or ours, gives it a count of 0. Then Anna unlocks, and nobody reads any more.
"""


# %%
def anna_reads(cut):
    cache = RadixCache()
    anna = cache.insert([1, 2, 3, 4, 5], range(5))
    cache.lock(anna)
    cut(anna.node, 2)  # this is what Ben's match does
    cache.unlock(anna)
    return cache


guess("4.d", "how many of the five tokens can be evicted now?", None)

# %%
from minikv.course.pieces import accepted

cache = anna_reads(accepted("3.1", globals()))
picture = draw(cache)
fold("4.d", len(cache.evict(5)), picture, cache)

# %% [markdown]
"""
<details><summary>Why</summary>

Anna's unlock walks the path as it is *now*, and takes one from the new node too: 0 became -1. It never went from 1 to 0, so its two tokens stay protected for good, though nobody holds them.

</details>

#### 4.3 You write: `split`, once more

Copy your `split` from chapter 03 (`solution("3.1")` shows ours), and give the upper node the right count. How many locks pass through it?
"""


# %%
def split(node, at):
    """Cut the edge of `node` after `at` tokens; return the upper node, locked alike."""
    raise NotImplementedError  # delete this line; about 7 lines to write


split = check("4.3 split", split)

# %% [markdown]
"""
With the new `split`, no lock is left when Anna has unlocked:
"""

# %%
draw(anna_reads(split))

# %% [markdown]
"""
### Step 4: lock, then look for room

Back to the prompt that evicted its own prefix. The safe order is: match, lock, *then* look for room, evict, take slots. It is tempting to look *before* the lock, because there seems to be more room then.

Six slots, all cached: `1 3 6 7 9 77`. A prompt comes that matches four of these tokens and needs four slots more. Before it locks its match, six tokens are evictable.
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

A request's own prefix is not room for it. A cached prefix saves computing; it saves room only when somebody else has it locked already.

</details>

#### 4.4 You write: `admit`

Lock what is cached of all tokens but the last: `cache.acquire(tokens, limit=..., namespace=...)` matches and locks in one act. (The last token is always computed, because its logits begin the answer.) If the free and the evictable pages together are too few, unlock and `raise OutOfPages(needed, free, evictable)`, with three numbers of pages: a request that only waits must not keep others out. Otherwise evict only the pages that are missing, free them into the pool, and take what you need. Return two things: what `acquire` gave you, and the pages that you took.

The pool counts pages. Lengths, sizes and `evict` count tokens, and a page holds `cache.page_size` of them. A prompt takes its last page even if it fills only a part of it.
"""


# %%
def admit(cache, pool, tokens, namespace=None):
    """Lock what is cached of all but the last token, and take pages for the rest.

    Return both; if there is no room, give the lock back and raise OutOfPages.
    """
    raise NotImplementedError  # delete this line; about 10 lines to write


admit = check("4.4 admit", admit)

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
The first is refused and holds no lock. The second fits.

## The same in `minikv`

`minikv.RadixCache` agrees with yours in a thousand rounds of insert, match, lock, unlock and evict: in every slot and in both sizes. (It also joins a node and its only child, so we evict all or nothing.)
"""

# %%
import random

import minikv

# %%
chance, pair, held = random.Random(4), (RadixCache(), minikv.RadixCache()), []
for number in range(1000):
    tokens = chance.choices([0, 1], k=chance.randint(1, 8))
    for cache in pair:
        cache.insert(tokens, range(8 * number, 8 * number + len(tokens)))
    held.append([cache.acquire(tokens) for cache in pair])
    assert [*held[-1][0].slots] == [*held[-1][1].slots]
    for cache, found in zip(pair, held.pop(0) if number > 3 else []):
        cache.unlock(found)
        cache.evict(0 if number % 4 else cache.evictable_size)
    assert len({(cache.evictable_size, cache.protected_size) for cache in pair}) == 1
print("equal in 1000 rounds")

# %% [markdown]
"""
Back to the problem. `serve` admits a request, caches its prompt, frees the slots of tokens that the tree had already, and returns the lock on the whole prompt.
"""


# %%
def serve(cache, pool, prompt):
    found, own = admit(cache, pool, prompt)
    slots = [*found.slots.tolist(), *own]
    done = cache.insert(prompt, slots)
    pool.free(slots[found.length : done.prefix_length])
    held = cache.acquire(prompt)
    cache.unlock(found)
    return held


# %% [markdown]
"""
Two watchers look on. The canary knows what is *in* a slot. A *ledger* knows *whose* it is: after every operation it compares its records with the pool and the tree. We plant two mistakes: Anna's lock is given back while she reads, and a tidy reader frees its slots at the end, although the tree owns them by now.
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
    said = "all 30 reads are right"
    try:
        a_day(mistake)
    except InvariantError as error:
        said = re.sub(r"operation \d+", "an operation", str(error))
    print(f"{mistake}: {said}\n")

# %% [markdown]
"""
The early unlock breaks no rule of ownership, so only the canary sees it. The ledger catches the tidy reader at once and names both owners.

## Play

The pool below has 16 slots, and three prompts are cached. Protect more than half of the pool with two locks.
"""

# %%
from minikv import playground

playground(goal="protect more than half with two locks")

# %% [markdown]
"""
Now the other side: eight slots, six in use. Lock something, and get a prompt refused that would fit into an empty pool.
"""

# %%
playground(goal="make admit refuse a prompt that would fit")

# %% [markdown]
"""
## More to try

#### 4.5 Design: how many fit?

Requests wait in a line, and are admitted from the front until one does not fit. Write `how_many_fit(free, prefixes, waiting)`: how many get in? `free` slots are free. `prefixes[i]` is the length of cached prefix `i`; they share nothing, and nobody has locked them yet. A request is a pair: the prefix that it begins with (or `None`), and how many tokens of its own follow. It keeps everything locked.
"""


# %%
def how_many_fit(free, prefixes, waiting):
    raise NotImplementedError  # delete this line; about 8 lines to write


check("4.5 how_many_fit", how_many_fit)

# %% [markdown]
"""
<details><summary>Hint</summary>

Room is what is free or evictable. What does the first request with a prefix take out of it, and what the second?

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

#### 4.6 Bug hunt: unlock without a receipt

This cache keeps no receipt: to unlock, it looks the prompt up again, as AstrAI's {{engines astrai-release}} did. Your function is given such a cache. Write calls of its `insert`, `acquire` and `unlock` after which its evictable size is wrong. Can you make it give away what *another* request holds?
"""

# %%
from minikv.course.pieces import careless

careless("4.6")


# %%
def calls_that_expose_it(cache):
    raise NotImplementedError  # delete this line, and add calls to the others
    cache.insert([1, 2], [0, 1])
    anna = cache.acquire([1, 2, 3])
    cache.unlock(anna)


check("4.6 careless_unlock", calls_that_expose_it)

# %% [markdown]
"""
<details><summary>Hint</summary>

A locked path cannot get shorter, and a split does not move its end. What makes a lookup end *deeper* than before?

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

A lock and an unlock take a step for each node on the path, as the match did. In return the sizes are ready when `admit` needs them. What would it cost to count the evictable tokens instead, with a thousand prompts in the cache?
"""

# %%
cache, path = RadixCache(), []
for number in range(1000):
    cache.insert(desk_prompt(number), range(len(desk_prompt(number))))
node = cache.match_prefix(desk_prompt(7)).node
while node.parent is not None:
    path.append(node)
    node = node.parent
print(f"on the path: {len(path)} nodes; to count again: {len(cache.nodes())} nodes")

# %% [markdown]
"""
The other price is worse. From now on every lock must be given back exactly once, and both ways to fail are easy.

### A lock that is given back twice

Anna and Ben both hold `1 2 3`, so the count is 2. Ben's request is cancelled, and its lock is given back. A moment later it also finishes, and the lock is given back again. Suppose that an engine keeps only counts, and asserts that none ever falls below zero.
"""

# %%
guess("4.f", 'does that assertion notice the second unlock, "yes" or "no"?', None)

# %%
from minikv import LockError

cache = RadixCache()
cache.insert([1, 2, 3], [0, 1, 2])
anna, ben = cache.acquire([1, 2, 3]), cache.acquire([1, 2, 3])
cache.unlock(ben)
try:
    cache.unlock(ben)
except LockError as error:
    said = f"your cache: {error}"
unlock(cache, ben.node)  # a count alone
fold("4.f", "yes" if ben.node.locks < 0 else "no", said, draw(cache))

# %% [markdown]
"""
<details><summary>Why</summary>

The count goes from 2 to 1 to 0. The second unlock takes *Anna's* lock, because a count does not know whose locks it counts.

</details>

Your cache does not rely on counts alone. It keeps a receipt for each lock:
"""

# %%
source(CacheShell.take_receipt, CacheShell.give_receipt_back)

# %% [markdown]
"""
### A lock that is never given back

A forgotten lock is room that is lost for good. Suppose that one request in twenty is cancelled, and that the code for cancelled requests forgets to unlock. The pool has 5,000 slots, and there is never more than one reader.
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
The tree cannot tell a forgotten lock from a request that takes its time. Receipts ensure that a lock is given back at most once. Chapter 07 will ensure that it happens at least once. The next chapter asks: of everything that is evictable, what goes first?

## In real engines

{{engines 04}}

vLLM and nano-vllm have blocks and no path: a request counts each of its blocks. SGLang's lock returns {{engines sglang-receipt}}, which the unlock must bring back. Where a layer reads only a window of tokens, SGLang locks only the window ({{engines sglang-window-lock}}). An unlock in SGLang {{engines sglang-unlock}}; yours is also a use, because the prefix was read until now.

One wrong line is enough to break a lock. In {{engines mini-sglang-46}} the handle named the root, so a lock protected nothing. Three days later, in {{engines mini-sglang-52}}, it was the loop: it went to the parent first, so the last node was never locked. In {{engines sglang-24972}} a lock passed over a node whose window had been freed. Then the window was loaded back, and the unlock released a lock of another request.

## Recap

A lock counts one on every node from a prompt's end to the root, and the two sizes change only when a count leaves 0 or returns to it. A split gives the upper half the same count, and a handle gives back only the locks that it took. Lock first, then look for room, because a request's own prefix is not room for it.

**Check yourself**

1. Why must the upper half of a split take over the count?
2. A request does not fit. What must happen to the lock that it just took, and why?
3. From chapter 03: after a split, which half is the old node, and who relies on that?
4. From chapter 02: a request frees a slot that is free already. Why must the pool refuse it?

<details><summary>Answers</summary>

1. An unlock of the lower half takes one from every node above it, the new one too.
2. It is given back. A request that only waits would protect tokens from those that run.
3. The lower half. Every handle that ends there relies on it.
4. The slot would be on the free list twice, and two requests would be given the same slot.

</details>

**Read on**: [RadixAttention, the paper](https://arxiv.org/abs/2312.07104) · [mini-sglang](https://github.com/sgl-project/mini-sglang)
"""

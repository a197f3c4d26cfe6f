# %% [markdown]
"""
# 07 · What happens in the life of a request?

In this chapter you write a **cache manager**: the part of an engine that lets a request in, publishes what it computes, and lets it out again without losing a page. You write the three functions that take some thought; the others are given. In chapter 08, a language model runs on all of them.

**After this chapter you will be able to** *follow* each page of a request out of the pool and back, *publish* what a request has computed while it is still running, and *find* the order of two requests that breaks a careless manager.

{{time}} **Needs** chapters 02 to 05. **New words** checkpoint, duplicate, tail, abort, interleaving.

Here is where we are going: two requests, `r1` and `r2`, whose prompts share three tokens. Run the cell to step through their lives and watch who owns each slot.
"""

# %%
import minikv
from minikv import record

manager = minikv.CacheManager(num_pages=12)
with record(manager) as film:
    for prompt in ([1, 2, 3, 4], [1, 2, 3, 5, 6]):
        request = manager.start(prompt)
        manager.advance(request)  # an engine has computed all of it
        manager.checkpoint(request)
    manager.extend(request, [7])
film.player(still=7)

# %% [markdown]
"""
## The problem

Your `admit` from chapter 04 lets a prompt in: it locks what is cached and allocates pages for the rest. When should the prompt go into the cache? The simplest answer is *at once*, because we know its tokens and its pages.

At a help desk, Anna's prompt is admitted and cached, and she closes her browser before the engine computes it. Then thirty other readers ask. The canary from chapter 04 complains when one of them reads something that was never computed. (The set-up cell has `admit`, `RadixCache`, and `Pool`: yours, if they passed.)
"""

# %%
from minikv import Canary, InvariantError, beside, draw, explore


def desk_prompt(reader):
    return list(f"You are a library's help desk. {reader} asks: are you open?".encode())


def admit_and_publish(cache, pool, prompt):
    found, own = admit(cache, pool, prompt)
    row = [*found.pages.tolist(), *own]
    cache.insert(prompt, row)
    return found.length, row


# %%
cache, pool, canary, wrong = RadixCache(), Pool(2000), Canary(), []
admit_and_publish(cache, pool, desk_prompt("Anna"))  # and nothing is ever computed
for prompt in map(desk_prompt, range(30)):
    there, row = admit_and_publish(cache, pool, prompt)
    try:
        canary.read(prompt[:there], row[:there])
    except InvariantError as error:
        wrong.append(error)
    canary.write(prompt, row, start=there)
print(f"{len(wrong)} of 30 readers read garbage. The first:", wrong[0], sep="\n")

# %% [markdown]
"""
One reader leaves, and all later ones get garbage. So a page may be **published**, or made visible to other requests, only after its keys and values have been computed.

Should we wait until the request ends? Then every request that arrives during a long answer would compute the same instructions again. The manager also has to free such copies, the pages of a canceled request, and each request's half-full last page, which the tree never stores.

## Build it

### Step 1: a request is a row of pages

A running request is a `Sequence`. Until now, a **row** listed slots; from here on, it lists pages. (`SequenceShell` adds its `number` and more, and `pack` stores tokens compactly.)
"""

# %%
source(Sequence)

# %% [markdown]
"""
The manager has a pool, a cache, and `running`, the list of running requests. `manager.start(tokens)` checks the tokens, calls the function below, and numbers the request.
"""

# %%
source(start)

# %% [markdown]
"""
Your `admit` returns the match, already locked, and a list of new pages. It comes first because it raises `OutOfPages` if there is no room, and at that point there is nothing to undo. The line that is easy to forget is `sequence.handle = found`, because nothing uses the match until the request has to give back its lock. So far, only the tokens of the match have keys and values. When an engine has computed `count` more, it calls `manager.advance(request, count)`, which adds them to `computed` (without a count, it adds all that are left).

In our example, a page holds two tokens. Anna's request has come and gone, and Ben's is half done. The picture counts tokens: `shared` and `computed` cut his row into three regions. He must never free the pages of the first. Suppose his request is aborted now: nothing more of it is published. How many pages go back to the pool?
"""

# %%
from minikv.course.pieces.showing import row_strip


def half_done():
    manager = CacheManager(num_pages=8, page_size=2)
    anna = manager.start([1, 2, 3, 4, 5, 6])
    manager.advance(anna)
    manager.finish(anna)
    ben = manager.start([1, 2, 3, 4, 7, 8, 9, 10, 11, 12, 13])
    manager.advance(ben, 3)
    return manager, ben


manager, ben = half_done()
print("Ben's pages:", ben.row)
row_strip("Ben's row", ben)

# %%
guess("7.a", "Ben's request is aborted now. How many pages go back?", None)

# %%
manager, ben = half_done()
before = manager.pool.num_free
manager.abort(ben)
fold("7.a", manager.pool.num_free - before)

# %% [markdown]
"""
<details><summary>Why</summary>

His own pages go back, computed or not, including the last one, of which he used only half. The first two belong to the cache. (Publishing first would give the cache his third page, and only three would go back.)

</details>

### Step 2: publish while it runs

A **checkpoint** publishes what is computed while the request keeps running. It passes the computed whole pages to the cache's `insert`, which reports how many of those tokens were already there. As in your `serve`, the request frees its own pages for those tokens.

Anna and Ben send the *same* five tokens in one batch. Neither finds anything in the cache, so Anna computes everything in pages 0, 1, and 2, and Ben in pages 3, 4, and 5. Anna's request is checkpointed first, then Ben's. What is his row afterwards?
"""


# %%
def twins():
    manager = CacheManager(num_pages=8, page_size=2)
    pair = [manager.start([1, 2, 3, 4, 5]) for _ in range(2)]
    for request in pair:
        manager.advance(request)
    return manager, *pair


# %%
guess("7.b", "what is Ben's row after his checkpoint? [., ., .]", None)

# %%
manager, anna, ben = twins()
manager.checkpoint(anna)
manager.checkpoint(ben)
whose = {"cache": ben.row[:2], "Anna": anna.row[2:], "Ben": ben.row[2:]}
fold("7.b", ben.row, draw(manager.pool, locked=ben.row[:2], owners=whose))

# %% [markdown]
"""
<details><summary>Why</summary>

Ben's own first two pages are free, so he must read Anna's, which belong to the cache now. His last page is still his own.

</details>

In the next picture, Carl's prompt begins with the same six tokens as Ben's, and Carl finishes first. The number of tokens already cached, `there`, cuts Ben's row into new regions:
"""

# %%
manager, ben = half_done()
carl = manager.start([1, 2, 3, 4, 7, 8])
manager.advance(carl)
manager.finish(carl)
manager.advance(ben, 2)
before = row_strip("old row", ben, manager)
manager.checkpoint(ben)
beside(before, row_strip("new row", ben))

# %% [markdown]
"""
The second region is a **duplicate**: the same keys and values, twice in memory. Its pages go back to the pool, and those of the third region now belong to the cache. The last region, the **tail**, stays Ben's.

Freeing the duplicates is the delicate part. For every new token, the request reads its whole past through its row. If the row still names a freed page, the request will soon read a stranger's keys. After a checkpoint, the row must name the cache's pages, and the lock must cover everything that is shared now. mini-sglang frees the duplicates but leaves the row as it was: {{engines mini-sglang-142}}.

#### 7.1 You write: `checkpoint` (25 minutes)

Publish the computed whole pages under the request's namespace. Then read them from the cache: acquire the same tokens, write the match's pages into the row, free the duplicates, and release the old lock. Don't search: a page and its duplicate are at the same index. At the end, `handle` is the new match, and `shared` is its length. Watch your units: `shared`, `computed`, and `there` count tokens, but the row has pages of `manager.page_size` tokens.

| call | what it returns |
|---|---|
| `manager.cache.insert(tokens, pages, namespace=...)` | a result; its `prefix_length` is how many tokens were already there |
| `manager.cache.acquire(tokens, namespace=...)` | the match, already locked; its `pages` are an array, and `length` counts tokens |
| `manager.cache.unlock(handle)` | nothing; releases one lock |
| `manager.pool.free(pages)` | nothing; takes a list of pages in use |

The manager calls your function only if a whole page is new.
"""


# %%
def checkpoint(manager, sequence):
    """Publish the computed whole pages, and read them from the cache from now on."""
    raise NotImplementedError  # delete this line; about 10 lines to write


checkpoint = check("7.1 checkpoint", checkpoint)

# %% [markdown]
"""
### Step 3: one way out

A request that ends well *finishes*. If the user hangs up or something fails, it ends in an **abort**, which publishes nothing more. SGLang once had a code path for each way to end. In SGLang-JAX, its sister engine for TPUs, two such paths both freed a request's last slot ([sglang-jax#994](https://github.com/sgl-project/sglang-jax/pull/994), merged). SGLang has since {{engines sglang-12224|moved everything into one function}}.

`finish` calls `checkpoint` and then `end`, and `abort` calls only `end`:
"""

# %%
source(CacheManager.end, release)

# %% [markdown]
"""
In `release`, the slice matters: the pages of the first `shared` tokens belong to the cache, so the request gives back only its lock on them. All others are its own, computed or not.

If Ben hangs up just as his request finishes, `abort` comes after `finish`, when his pages may already belong to somebody else. So `end` first calls `require`, which raises an error unless the request is still running.

Anna and Ben send the same five tokens again, in one batch. Anna finishes, then Ben. How many of his pages go back to the pool?
"""

# %%
guess("7.c", "Anna finishes, then Ben. How many of his pages go back?", None)

# %%
manager, anna, ben = twins()
manager.finish(anna)
before = manager.pool.num_free
manager.finish(ben)
fold("7.c", manager.pool.num_free - before)

# %% [markdown]
"""
<details><summary>Why</summary>

His first two pages are duplicates by then, and the third is his tail.

</details>

### Step 4: a request grows, and sometimes shrinks

Every generated token needs a slot. If the last page has no room for it, the request needs another page, and there may be none. `manager.pages_for(num_tokens)` is the number of pages that this many tokens need, so `extend` asks only for the pages that the row lacks, often none:
"""

# %%
source(extend)

# %% [markdown]
"""
The order matters. If `make_room`, yours from chapter 05, raises `OutOfPages`, nothing has changed yet, so the engine can try the same call again later. If the tokens were added first, some would be left without a page.

#### 7.2 You write: `truncate` (10 minutes)

Some engines *guess* the next few tokens and compute them at once (see chapter 11). Wrong guesses must be removed. Keep the first `length` tokens, in `tokens` and in the row, and give back the pages that hold none of them. Don't search: they are the last ones. Removed tokens no longer count as computed, so adjust `computed`. You never have to cut into what the cache has, because the manager refuses a `length` below `shared`. You may call `manager.pages_for(num_tokens)` and `manager.pool.free(pages)`.

*Test it first* (optional, 5 minutes): what is easy to get wrong?
"""


# %%
def test_truncate(truncate):
    """Fail if `truncate` is wrong."""
    manager = CacheManager(6, 2)
    sequence = manager.start([1, 2, 3, 4, 5])
    manager.advance(sequence)  # all five are computed
    raise NotImplementedError  # instead: call `truncate`, `assert` what is true


catch("7.2 truncate", test_truncate)


# %%
def truncate(manager, sequence, length):
    """Keep the first `length` tokens; give back the pages that have none of them."""
    raise NotImplementedError  # delete this line; about 5 lines to write


truncate = check("7.2 truncate", truncate)

# %%
manager, ben = half_done()
manager.extend(ben, [14, 15, 16])
print(f"{len(ben.tokens)} tokens in {len(ben.row)} pages")
manager.truncate(ben, 10)
print(f"{len(ben.tokens)} tokens in {len(ben.row)} pages")

# %% [markdown]
"""
### Step 5: count the owners

How do we know that the manager never loses a page? After every step, **every page must have exactly one owner**: the pool, the cache, or one request. In an *audit*, we ask each of them which pages it has and compare the answers.

#### 7.3 You write: `owners` (15 minutes)

Return a list with an entry for each page, from page 0 on. An entry is a list of names, in any order: `"the pool"`, `"the cache"`, or `"request 2"`, with the request's own number. If all is well, each entry has one name. A page that was freed by mistake has two names, and a lost page has none.

| call | what it returns |
|---|---|
| `manager.num_pages` | how many pages there are in all |
| `manager.pool.is_free(page)` | whether the pool has the page |
| `manager.cache.nodes()` | every node of the tree; `node.slots` are its pages |
| `manager.running` | the running requests; each has its `number` |
"""


# %%
def owners(manager):
    """Return the list of owners of each page: one per page if all is well."""
    raise NotImplementedError  # delete this line; about 11 lines to write


owners = check("7.3 owners", owners)

# %% [markdown]
"""
`manager.check()` calls your `owners` and raises an error for the first page that doesn't have exactly one owner. It also checks that the cache owns all shared pages, with one lock for each reader. Let's plant a mistake.
"""

# %%
manager, anna, ben = twins()
manager.checkpoint(anna)
manager.pool.free(ben.row[:1])  # somebody gives back one of Ben's pages
print(*enumerate(owners(manager)), sep="\n")

# %% [markdown]
"""
## The same in `minikv`

`minikv.CacheManager` has the same methods, and also `with manager.request(tokens)`, which finishes when its block ends and aborts if the block raises an exception. Several threads may share a manager. Its checkpoint continues where the last one ended instead of walking the whole prompt. `same_days` takes both managers through the same thousand random steps, with an audit after each.
"""

# %%
from minikv.course.pieces.ch07 import compute, same_days, watched

yours, ours = CacheManager(4000, 2), minikv.CacheManager(4000, 2)
print("the same in 1000 steps; tokens in both caches:", same_days(yours, ours, 1000))

# %% [markdown]
"""
Random tests may never hit the one bad order, so let's try every order. We write the life of a request as a generator, in which each `yield` begins a step and says what comes next. Between two steps, another request may run, and an order that mixes the steps of both is called an **interleaving**.

`compute` does what an engine does: it reads the request's past through its row, computes the rest, and calls `advance`. `watched` makes a manager with a canary.
"""


# %%
def life(manager, tokens):
    yield "start and compute"
    request = manager.start(tokens)
    compute(manager, request)
    yield "checkpoint"
    manager.checkpoint(request)
    for token in (7, 8):
        yield f"generate {token}"
        manager.extend(request, [token])
        compute(manager, request)
    yield "finish"
    manager.finish(request)


# %% [markdown]
"""
We need two such lives, whose prompts share two tokens, and a mistake to find: this manager frees the duplicates but leaves the row as it was.
"""

# %%
from functools import partial

two = [partial(life, tokens=[1, 2, last]) for last in (3, 4)]


class RowForgotten(CacheManager):
    def checkpoint(self, sequence):
        row = list(sequence.row)
        super().checkpoint(sequence)
        sequence.row = row


# %% [markdown]
"""
`explore` runs the orders without an interruption first, then those with one, and so on, and stops at the first order that breaks something. For now, only the canary is watching. How many interruptions does it take before somebody reads garbage?
"""

# %%
guess("7.d", "how many interruptions does it take before somebody reads garbage?", None)

# %%
found = explore(lambda: watched(RowForgotten), *two)
fold("7.d", found.broken.interruptions, found)

# %% [markdown]
"""
<details><summary>Why</summary>

Without an interruption, the second request finds the shared tokens in the cache, so there are no duplicates. One interruption is enough: the whole life of the other request, at the wrong moment. (Each request has a column, and time runs downward.)

</details>

The harm comes two steps after the mistake, and the message doesn't name the checkpoint. With an audit after each step, the explorer stops at the mistake itself. Does your own manager pass?
"""

# %%
checked = explore(lambda: watched(RowForgotten), *two, check=CacheManager.check)
print(f"RowForgotten, at {checked.broken.words[-1]!r}: {checked.broken.error}")
print("yours:", explore(lambda: watched(CacheManager), *two, check=CacheManager.check))

# %% [markdown]
"""
## Play

Drive one request by hand: start it, publish while it runs, let another prompt hit what it published, and then abort the first request. What stays in the cache?
"""

# %%
from minikv import playground

playground(goal="publish, hit, and abort")

# %% [markdown]
"""
#### Plant your own mistake

Why does the canary see nothing wrong with this manager? Write a worse one, too, perhaps one that loses a request's tail, and let the explorer find its mistake.
"""


# %%
class Careless(CacheManager):
    def checkpoint(self, sequence):
        self.cache.lock(sequence.handle)  # a second lock, and only one is given back
        super().checkpoint(sequence)


for watcher, look in (("the canary", None), ("the audit", CacheManager.check)):
    print(f"{watcher}:", explore(lambda: watched(Careless), *two, check=look))

# %% [markdown]
"""
<details><summary>Why the canary sees nothing</summary>

The canary sees only reads, and no read is wrong. But a lock that is never given back protects its pages from eviction forever. Only the audit counts locks.

</details>

## More to try

#### 7.4 Design: every order

Write `orders(a, b)`, which returns all orders of `a` steps of A and `b` steps of B, each as a string like `"AABB"`. Orders with the fewest changes of letter come first, and ties are in alphabetical order.
"""


# %%
def orders(a, b):
    raise NotImplementedError  # delete this line; about 4 lines to write


check("7.4 orders", orders)

# %% [markdown]
"""
<details><summary>Hint</summary>

An order is determined by which of its `a + b` places have an A, and `itertools.combinations` chooses them. To sort by two things, let the key be a pair.

</details>

<details><summary>Solution</summary>

```python
from itertools import combinations


def orders(a, b):
    places, found = range(a + b), []
    for chosen in combinations(places, a):
        found.append("".join("A" if at in chosen else "B" for at in places))
    return sorted(found, key=lambda one: (one.count("AB") + one.count("BA"), one))
```

</details>

#### 7.5 Bug hunt: a careless `abort`

Here `abort` uses the wrong attribute, which rarely shows. Your function is given such a manager, with eight pages of one token each. Write calls to its `start`, `advance`, `checkpoint`, `finish`, and `abort` after which too many pages are free. Can you make it give somebody a slot that the cache still holds?
"""

# %%
careless("7.5")


# %%
def calls_that_expose_it(manager):
    raise NotImplementedError  # delete this line, and add more calls
    anna = manager.start([1, 2, 3])
    manager.abort(anna)


check("7.5 careless_abort", calls_that_expose_it)

# %% [markdown]
"""
<details><summary>Hint</summary>

`cached_length` is what was found at the start; `shared` is what is read from the cache now. Which method makes them differ?

</details>

<details><summary>Solution</summary>

```python
def calls_that_expose_it(manager):
    anna = manager.start([1, 2, 3])
    manager.advance(anna)
    manager.checkpoint(anna)
    manager.abort(anna)
    manager.start([7, 8])
```

</details>

## What it cost

Your checkpoint walks the whole prompt each time. Also, requests that start in the same batch can't see what the others are about to compute. Here are eight readers at the help desk, first all at once, then one before the others:
"""

# %%
prompts = [desk_prompt(reader) for reader in range(8)]
for batches in ([prompts], [prompts[:1], prompts[1:]]):
    manager, computed = CacheManager(num_pages=1000), 0
    for batch in batches:
        for request in [manager.start(prompt) for prompt in batch]:
            computed += len(request.tokens) - request.computed
            manager.advance(request)
            manager.finish(request)
    print([len(batch) for batch in batches], f"{computed} tokens computed")

# %% [markdown]
"""
A request also allocates pages as it grows, so room for its prompt is no promise of room for its answer. Two requests may wait forever, each for pages that the other has. The scheduler in chapter 08 decides which of them gives way.

## In real engines

{{engines 07|`start`; `checkpoint`; `finish`}}

**When to publish.** Until April 2026, nano-vllm published a prompt's blocks {{engines nano-vllm-early}}, when it admitted the prompt and before it computed any key. That was correct as long as the whole prompt was computed in one step, because every layer writes its keys before it attends to them. On April 14, {{engines nano-vllm-chunked}} arrived: a long prompt was admitted once and computed over several steps, so its blocks could be read too early. Twelve days later, nano-vllm moved the publishing {{engines nano-vllm-checkpoint|after the computation}}, at the price that the eight readers paid above. vLLM still publishes {{engines vllm-checkpoint|before the step is computed}}, but only the blocks that this step fills. So the rule is to publish nothing that somebody can read before it is computed.

<details><summary>Duplicates, and freeing while the GPU works</summary>

vLLM and nano-vllm don't look for duplicates. Of two equal blocks, {{engines vllm-no-dedup|both stay cached}} in vLLM, and {{engines nano-vllm-no-dedup|only the later one can be found}} in nano-vllm.

SGLang plans the next step while the GPU is still computing this one ({{engines sglang-overlap}}), so a request may end while the GPU still writes to its pages. If blocks can also be loaded from elsewhere, vLLM defers freeing them ({{engines vllm-deferred-frees}}). mini-sglang makes sure that a request ends only once ({{engines mini-sglang-finished}}).

</details>

## Recap

Between two steps, every page has one owner: the pool, the cache, or one request. A request publishes only what has been computed. Then its row names the cache's pages, the duplicates go back to the pool, and the tail is freed when the request ends. To find a mistake that needs two requests in a bad order, try every order, and audit each step.

**Check yourself**

1. Why must a prompt not be published when it is admitted?
2. Two requests with the same prompt run one after the other. Why can there be a duplicate anyway?
3. From chapter 04: why is the match locked before anybody looks for room?
4. From chapter 05: which node does your `evict` take first, and why does it have no children?

<details><summary>Answers</summary>

1. Nothing has been computed into its pages yet, and if it is aborted, nothing ever will be.
2. The last token of a prompt is always computed again, because the request needs its logits, and by then the cache already holds that token.
3. Making room may evict, and without the lock it could evict the match itself.
4. The least recently used one without a lock. A parent is never older than its children, so that node is a leaf.

</details>

**Read on**: [CHESS, which explores orders](https://www.usenix.org/legacy/events/osdi08/tech/full_papers/musuvathi/musuvathi_html/index.html) · [mini-sglang](https://github.com/sgl-project/mini-sglang) · [nano-vllm](https://github.com/GeeeekExplorer/nano-vllm)
"""

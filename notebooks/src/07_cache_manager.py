# %% [markdown]
"""
# 07 · What happens in the life of a request?

By the end of this chapter you will have written a **cache manager**: the part of an engine that lets a request in, publishes what it computes, and lets it out again without losing a page. It builds on your pool, tree, locks and eviction. Only three functions are missing, about twenty lines. In chapter 08 a language model runs on them.

**After this chapter you will be able to** *follow* each page of a request out of the pool and back, *publish* what a request has computed while it still runs, and *find* the order of two requests that breaks a careless manager.

{{time}} **Needs** chapters 02 to 05. **New words** checkpoint, duplicate, tail, abort, interleaving.

Here is where we are going: two requests, `r1` and `r2`, whose prompts share three tokens. Step through their lives, and watch who owns each page.
"""

# %%
import minikv

manager = minikv.CacheManager(num_pages=12)
with minikv.record(manager) as film:
    anna, ben = manager.start([1, 2, 3, 4]), manager.start([1, 2, 3, 5, 6])
    for request in (anna, ben):
        manager.advance(request)  # an engine has computed all of it
        manager.checkpoint(request)
    manager.extend(ben, [7])
    manager.finish(anna)
    manager.abort(ben)
film.player(still=7)

# %% [markdown]
"""
## The problem

Your `admit` of chapter 04 lets a prompt in: it locks what is cached and takes pages for the rest. When should the prompt go into the cache? The simplest answer is *at once*: we know its tokens, and we know its pages.

Let's try that at a help desk. Anna's prompt is admitted and cached, and she closes her browser before the engine gets to it. Then thirty other readers ask. The canary of chapter 04 complains when one of them reads what was never computed.
"""

# %%
from minikv import Canary, InvariantError, draw


def desk_prompt(reader):
    words = f"You are a library's help desk. Reader {reader} asks: when do you open?"
    return list(words.encode())


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
One reader left, and all who ask after her get garbage, for good. So a page must not be **published**, that is, put where others find it, before its keys and values are there.

Then publish at the end of each request? A long answer takes a minute, and every request that arrives in that minute computes the same instructions again. Somebody must clean up those copies, and take back the pages of a cancelled request and every last page that is half full, which no tree stores. The manager does all of this, in one place.

## Build it

### Step 1: a request is a row of pages

Here is everything that we need to know about a running request.
"""

# %%
source(Sequence)

# %% [markdown]
"""
The **row** has one number for each page of tokens. Two numbers cut it into three regions. The first `shared` tokens lie in pages of the cache; the request reads them under a lock, and must never free them. From there to `computed`, the tokens lie in pages of its own, and their keys and values are there. After that, the pages are its own too, but nothing has been computed into them yet.

Here is the manager, with a pool, a cache, and a list of the requests that run. It calls three functions that are still missing: `start`, `checkpoint` and `release`.
"""

# %%
source(CacheManager)

# %% [markdown]
"""
(`ManagerShell` has the rest. `prompt` checks the tokens, `started` numbers the request, `advance` records that tokens were computed, `require` refuses a request that is not running, and `make_room` evicts as `admit` does. `pack`, `store` and `spare` are for chapter 08.)

#### 7.1 You write: `start`

`admit(cache, pool, tokens, namespace)` gives you two things: the match, locked, and the new pages. Make a `Sequence`, fill in its row, handle, `shared` and `computed`, add it to `manager.running`, and return it. If there is no room, `admit` raises `OutOfPages`; then nothing may have changed.
"""


# %%
def start(manager, tokens, namespace=None):
    """Admit a request and give it a row: first the pages it found, then its own."""
    raise NotImplementedError  # delete this line; about 7 lines to write


start = check("7.1 start", start)

# %% [markdown]
"""
Let's see a row. Pages hold two tokens, Anna's request has come and gone, and Ben's, `r2`, is half done. On the left is the cache. On the right are the pool, his row with the slot of each of his nine tokens, and his progress. (Page 3 has slots 6 and 7.)
"""


# %%
def half_done():
    manager = CacheManager(num_pages=8, page_size=2)
    anna = manager.start([1, 2, 3, 4, 5, 6])
    manager.advance(anna)
    manager.finish(anna)
    ben = manager.start([1, 2, 3, 4, 7, 8, 9, 10, 11])
    manager.advance(ben, 3)
    return manager, ben


draw(*half_done())

# %%
guess("7.a", "Ben leaves now. How many pages go back to the pool?", None)

# %%
manager, ben = half_done()
before = manager.pool.num_free
manager.abort(ben)
fold("7.a", manager.pool.num_free - before)

# %% [markdown]
"""
<details><summary>Why</summary>

His own pages go back, computed or not, and the last one too, although only half of it was used. The first two are the cache's. And he has to give back something that is not a page: his lock.

</details>

### Step 2: publish while it runs

A **checkpoint** publishes what is computed while the request runs on. It hands the computed whole pages to the cache's `insert`. The `prefix_length` that comes back says how many tokens were there already. That number, here called `there`, cuts the row into new regions:

| tokens | whose they are | what happens to their pages |
|---|---|---|
| `0` to `shared` | the cache's, read under a lock | nothing |
| `shared` to `there` | its own, but somebody was faster: the cache has these tokens in other pages | they go back to the pool |
| `there` to the last whole page | its own until now | they are the cache's from now on |
| the rest | its own | nothing |

The second region is a **duplicate**: the same keys and values, twice in memory. The last region is the **tail**: a page that is not full, and everything that is not computed yet.

Freeing the duplicates is the dangerous part. For every new token, the request reads its whole past through its row. If the row still names a freed page, it will soon read a stranger's keys. So the row has to name the cache's pages before anybody can take the freed ones, and the lock has to cover everything that is shared now.

#### 7.2 You write: `checkpoint`

Publish the whole pages that are computed, under the request's namespace (`insert` and `acquire` take it by name, `namespace=...`). Then read all of them from the cache: `acquire` the same tokens, write the match's pages into the row, free the duplicates, and give the old lock back. At the end `handle` is the new match, and `shared` is its length. The manager calls `checkpoint` only if there is something new to publish.
"""


# %%
def checkpoint(manager, sequence):
    """Publish the computed whole pages, and read them from the cache from now on."""
    raise NotImplementedError  # delete this line; about 10 lines to write


checkpoint = check("7.2 checkpoint", checkpoint)

# %% [markdown]
"""
Anna and Ben send the *same* five tokens in one batch. Neither finds anything in the cache, so both compute everything, Anna in pages 0, 1 and 2, Ben in pages 3, 4 and 5. Then Anna makes a checkpoint, and after her Ben.
"""

# %%
guess("7.b", "what is Ben's row after his checkpoint? Write [., ., .].", None)


# %%
def twins():
    manager = CacheManager(num_pages=8, page_size=2)
    pair = [manager.start([1, 2, 3, 4, 5]) for _ in range(2)]
    for request in pair:
        manager.advance(request)
    return manager, *pair


manager, anna, ben = twins()
before = draw(manager, ben)
manager.checkpoint(anna)
manager.checkpoint(ben)
fold("7.b", ben.row, "before:", before, "after:", draw(manager, ben))

# %% [markdown]
"""
<details><summary>Why</summary>

Ben reads Anna's pages, which are the cache's now, and his own last page. His duplicates, pages 3 and 4, are free.

</details>

mini-sglang frees the duplicates and leaves the row as it was: {{engines mini-sglang-142}}.

### Step 3: one way out

A request can end well: it *finishes*. It can also end badly: the user hangs up, or something fails. That is an **abort**, and it publishes nothing more. It is tempting to write separate code for each way to end. SGLang once did. In SGLang-JAX, which had the same code, two of those ways freed the last slot of a request, and so freed it twice ([sglang-jax#982](https://github.com/sgl-project/sglang-jax/pull/982)). SGLang itself changed its code: {{engines sglang-12224}}.

In the class above, a finish is a checkpoint, followed by the same way out as an abort.

#### 7.3 You write: `release`

The request leaves `manager.running`. Its own pages go back to the pool: all pages of the row after the first `shared` tokens. And its lock goes back to the cache.
"""


# %%
def release(manager, sequence):
    """The one way out: give back the lock and every page of its own, each once."""
    raise NotImplementedError  # delete this line; about 3 lines to write


release = check("7.3 release", release)

# %% [markdown]
"""
Anna and Ben once more, in one batch, without a checkpoint in between.
"""

# %%
guess("7.c", "Anna finishes, then Ben. How many of his three pages go back?", None)

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

What if Ben hangs up just as his request finishes? Then `abort` comes after `finish`, and his pages may be somebody else's by now. So `require` asks first whether the request still runs.

## The same in `minikv`

`minikv.CacheManager` has the same verbs, and `with manager.request(tokens)`, which finishes when its block ends and aborts when an exception passes through. Several threads may call it. It publishes from where the last checkpoint ended, so it does not walk the whole prompt again.

Both have a `check()`, and your pieces were judged with it after every step. One rule holds between any two steps: **every page has exactly one owner**, the pool, the cache, or one request. A second rule goes with it: what a request reads as shared is the cache's, and has one lock for each of its readers. To check both, ask each owner what it has, and compare. That is an *audit*. Let's plant a mistake by hand.
"""

# %%
from minikv.course.pieces.ch07 import whose  # what `check` finds, in words

manager, anna, ben = twins()
manager.checkpoint(anna)
print(whose(manager))
manager.pool.free(ben.row[:1])  # somebody gives back a page of Ben's
print(whose(manager))

# %% [markdown]
"""
The audit catches a double free in the making. Now let your manager and ours live through a thousand random steps, with up to four requests at a time.
"""

# %%
import random


def random_step(chance, yours, ours, pairs):
    tokens = chance.choices([1, 2], k=chance.randint(1, 8))
    if len(pairs) < 4:
        pairs.append((yours.start(tokens), ours.start(tokens)))
    pair = chance.choice(pairs)
    verb = chance.choice(["advance", "checkpoint", "extend", "finish", "abort"])
    more = [tokens] if verb == "extend" else []
    for manager, request in zip((yours, ours), pair):
        getattr(manager, verb)(request, *more)
    if pair[1].state != "running":
        pairs.remove(pair)


# %%
chance, pairs = random.Random(7), []
yours, ours = CacheManager(4000, 2), minikv.CacheManager(4000, 2)
for _ in range(1000):
    random_step(chance, yours, ours, pairs)
    assert all(one.shared == other.shared for one, other in pairs)
    assert yours.pool.num_free == ours.pool.num_free
    yours.check()
print(f"equal in 1000 steps, with {yours.cache.total_size} tokens in both caches")

# %% [markdown]
"""
Random tests may never hit the bad order. So try them all. Write each request as a generator: each `yield` begins a step and says what comes next, and between two steps the other request may run. An order in which the steps of both are mixed is called an **interleaving**. `explore` runs those in which nobody is interrupted, then those with one interruption, and so on, and stops at the first that breaks something.
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


# %%
def compute(manager, request, most=100):
    """What an engine does: attention reads the past, and `most` more are written."""
    done, slots = request.computed, request.slots
    upto = min(done + most, len(request.tokens))
    manager.canary.read(request.tokens[:done], slots[:done])
    manager.canary.write(request.tokens[:upto], slots, done)
    manager.advance(request, upto - done)


def desk(kind):
    manager = kind(num_pages=12)
    manager.canary = Canary()
    return manager


# %% [markdown]
"""
The two prompts share two tokens. First let's see whether `explore` finds anything. `RowForgotten` frees the duplicates and leaves the row as it was. For now only the canary watches, so we see the harm itself.
"""

# %%
from functools import partial

two = [partial(life, tokens=[1, 2, last]) for last in (3, 4)]


class RowForgotten(CacheManager):
    def checkpoint(self, sequence):
        row = list(sequence.row)
        super().checkpoint(sequence)
        sequence.row = row


# %%
guess("7.d", "how many interruptions does it take until somebody reads garbage?", None)

# %%
from minikv import explore

found = explore(lambda: desk(RowForgotten), *two)
fold("7.d", found.broken.interruptions, found)

# %% [markdown]
"""
<details><summary>Why</summary>

Without an interruption the second request finds the shared tokens in the cache, so there are no duplicates. One interruption is enough: the whole life of the other request, at the wrong moment. (There is a column for each request, and time runs downward.)

</details>

The harm comes two steps after the mistake, and its message names neither the checkpoint nor the row. With `check` after each step, the explorer stops where the mistake was made. And your manager?
"""

# %%
checked = explore(lambda: desk(RowForgotten), *two, check=CacheManager.check)
print(f"RowForgotten, at {checked.broken.words[-1]!r}: {checked.broken.error}")
print("yours:", explore(lambda: desk(CacheManager), *two, check=CacheManager.check))

# %% [markdown]
"""
## Play

Live a life by hand. Start a request, publish while it runs, let another prompt hit what it published, and then abort the first. What stays in the cache?
"""

# %%
minikv.playground(goal="publish, hit, and abort")

# %% [markdown]
"""
#### Plant your own mistake

Here is another careless manager. Why does the canary see nothing? Then write a worse one, perhaps one that loses its tail, and let the explorer find it.
"""


# %%
class Careless(CacheManager):
    def checkpoint(self, sequence):
        self.cache.lock(sequence.handle)  # a second lock, and only one is given back
        super().checkpoint(sequence)


for watcher, look in (("the canary", None), ("the audit", CacheManager.check)):
    print(f"{watcher}:", explore(lambda: desk(Careless), *two, check=look))

# %% [markdown]
"""
<details><summary>Why the canary sees nothing</summary>

It looks at what is read, and nobody reads anything wrong. But a lock that nobody will ever give back keeps its pages from eviction forever. Only the audit counts owners and locks.

</details>

## More to try

#### 7.4 Design: every order

How does an explorer find every order? Write `orders(a, b)`: all orders of `a` steps of A and `b` steps of B, each as a string like `"AABB"`, those with the fewest changes of letter first, and ties in alphabetical order.
"""


# %%
def orders(a, b):
    raise NotImplementedError  # delete this line; about 8 lines to write


check("7.4 orders", orders)

# %% [markdown]
"""
<details><summary>Hint</summary>

An order is known when you know at which of its `a + b` places an A stands. `itertools.combinations` chooses them. A key that is a pair sorts by two things.

</details>

<details><summary>Solution</summary>

```python
from itertools import combinations


def orders(a, b):
    def changes(order):
        return order.count("AB") + order.count("BA")

    places = range(a + b)
    found = [
        "".join("A" if at in chosen else "B" for at in places)
        for chosen in combinations(places, a)
    ]
    return sorted(found, key=lambda order: (changes(order), order))
```

</details>

#### 7.5 Bug hunt: one word

Here `abort` takes one word for another, and on most days nobody notices. Your function is given such a manager, with 8 pages. Write calls of its `start`, `advance`, `checkpoint`, `finish` and `abort` after which too many pages are free. Can you make it give somebody a slot that the cache still holds?
"""

# %%
from minikv.course.pieces import careless

careless("7.5")


# %%
def calls_that_expose_it(manager):
    raise NotImplementedError  # delete this line, and add calls to the others
    anna = manager.start([1, 2, 3])
    manager.advance(anna)
    manager.abort(anna)


check("7.5 careless_abort", calls_that_expose_it)

# %% [markdown]
"""
<details><summary>Hint</summary>

`cached_length` is what was found at the start, `shared` what is read from the cache now. Which verb makes them differ?

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

Your checkpoint walks the whole prompt again, each time. And requests that start in the same batch cannot see what the others are about to compute. Eight readers of the help desk, all at once, or one before the others:
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
    sizes = " and then ".join(str(len(batch)) for batch in batches)
    print(f"{sizes}: {computed} tokens computed")

# %% [markdown]
"""
There is another price. A request takes pages as it grows, so room for its prompt is no promise of room for its answer. Two requests may each wait for pages that the other has, forever. The scheduler of chapter 08 decides which of them gives way.

## In real engines

{{engines 07}}

**When to publish.** Until April 2026 nano-vllm published the blocks of a prompt {{engines nano-vllm-early}}, that is, when it admitted the prompt, before a single key was computed. There it was right. The whole prompt was computed in that same step, and every layer writes its keys before it attends to them, so no request read a block before it was written.

Chunked prefill arrived on 14 April: a long prompt was admitted once, and computed over several steps. The manager below publishes at the start. In the first run a whole prompt is computed in that same step, and in the second run only half of it.
"""


# %%
class PublishedEarly(CacheManager):
    def start(self, tokens):
        request = super().start(tokens)
        done, request.computed = request.computed, len(tokens)
        self.checkpoint(request)
        request.computed = done
        return request


# %%
def in_chunks(manager, tokens, chunk):
    yield f"start, and compute {chunk}"
    request = manager.start(tokens)
    while request.computed < len(tokens):
        compute(manager, request, chunk)
        yield f"compute {chunk} more, or finish"
    manager.finish(request)


# %%
prompts = [1, 2, 3, 4, 5, 6], [1, 2, 3, 4, 5, 7]
for chunk in (6, 3):
    pair = [partial(in_chunks, tokens=tokens, chunk=chunk) for tokens in prompts]
    print(f"chunks of {chunk}:", explore(lambda: desk(PublishedEarly), *pair))

# %% [markdown]
"""
Twelve days later one commit moved the publishing after the computation: {{engines nano-vllm-checkpoint}}. The price is what the eight readers paid above. vLLM still publishes {{engines vllm-checkpoint}}, but only the blocks that this step fills. So the rule is: publish what is computed, or what nobody can read before it is computed.

**Duplicates.** vLLM and nano-vllm do not look for them. Of two equal blocks, in vLLM {{engines vllm-no-dedup}}; in nano-vllm {{engines nano-vllm-no-dedup}}.

**Freeing while the GPU works.** SGLang plans the next step while the GPU still computes this one ({{engines sglang-overlap}}), so a request may end while the GPU writes to its pages. As a rule the GPU works in order, and that is enough. vLLM defers some frees ({{engines vllm-deferred-frees}}), and mini-sglang skips the second end of a request ({{engines mini-sglang-finished}}).

## Recap

Between two steps every page has one owner: the pool, the cache, or one request. What is computed may be published, while the request runs or at its end. Then the row is rewritten, and the duplicates go back to the pool; the tail goes back at the end. To find a mistake that needs two requests in a bad order, try every order, with an audit after each step.

**Check yourself**

1. Why may a prompt not be published when it is admitted?
2. Two requests with the same prompt run one after the other. Why can there be a duplicate all the same?
3. From chapter 04: why is the match locked before anybody looks for room?
4. From chapter 05: which node does your `evict` take first, and why has it no children?

<details><summary>Answers</summary>

1. Nothing has been computed into its pages yet, and if it is aborted, nothing ever will be.
2. The last token of a prompt is always computed again, because its logits are what the request came for, and the cache has that token already.
3. Making room may evict, and without the lock it could evict the match itself.
4. The least recently used one without a lock. A parent is never older than its children, so the oldest node is a leaf.

</details>

**Read on**: [CHESS, which explores orders](https://www.usenix.org/legacy/events/osdi08/tech/full_papers/musuvathi/musuvathi_html/index.html) · [mini-sglang](https://github.com/sgl-project/mini-sglang) · [nano-vllm](https://github.com/GeeeekExplorer/nano-vllm)
"""

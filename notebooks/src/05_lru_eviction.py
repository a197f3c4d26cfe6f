# %% [markdown]
"""
# 05 · What goes first?

By the end of this chapter you will have written the part of a cache that decides what to forget: four short functions, about twenty lines in all. They go into your own `my_minikv.py`. Your `evict` will find its victim in one step, whether the cache holds a hundred prompts or a million.

**After this chapter you will be able to** *explain* why only leaves are evicted, *build* an eviction whose cost does not grow with the cache, and *predict* which prompt goes first.

{{time}} **Needs** chapters 02 to 04. **New words** victim, LRU, ring, logical clock.

Here is where we are going. Three prompts are cached, one of them is locked, and room is needed. Step through it. Before each *evict*, say which box will go.
"""

# %%
import minikv

cache, pool = minikv.RadixCache(), minikv.FreeListPool(12)
with minikv.record(cache, pool) as film:
    ben = cache.insert([7, 8, 9], pool.alloc(3))
    cache.insert([1, 2, 3, 4], pool.alloc(4))
    shared = cache.match_prefix([1, 2, 5])
    cache.insert([1, 2, 5], [*shared.slots, *pool.alloc(1)])
    cache.lock(ben)
    for _ in range(3):
        pool.free(cache.evict(1))
film.player(still=9)

# %% [markdown]
"""
## The problem

Memory is full, and something must go. Chapter 04 told you what may *not* go: everything that is locked. From the rest you have to choose a **victim**. Nobody knows what will be asked for next, so you guess: what was used longest ago will probably not be needed soon. This guess is called **LRU**, for *least recently used*.

The obvious way is to keep all nodes in one list. A node that is used moves to the end of the list, and the first node is thrown out. Let's try that on the trie of chapter 03, with one token on each edge. To keep the code short, a node is identified by its prefix: `(7, 1, 2)` hangs below `(7, 1)`.
"""

# %%
from collections import OrderedDict


def trie_after(prompts, room):
    """The nodes of a trie that are kept if the one used longest ago always goes."""
    recent = OrderedDict()
    for tokens in prompts:
        for end in range(1, len(tokens) + 1):
            recent[tokens[:end]] = None
            recent.move_to_end(tokens[:end])
        while len(recent) > room:
            recent.popitem(last=False)
    return list(recent)


# %% [markdown]
"""
Fifty prompts of four tokens come in. No two of them begin alike, and there is room for ten nodes. So in the end ten nodes are kept, and each holds a slot. A walk finds a node only if every node above it is kept, too.
"""

# %%
# put your number in place of None, then run the next cell
guess("5.a", "how many of the ten nodes can a walk still reach?", None)

# %%
nodes = trie_after([(i, 1, 2, 3) for i in range(50)], room=10)
reached = [
    node for node in nodes if all(node[:end] in nodes for end in range(1, len(node)))
]
lost = [node for node in nodes if node not in reached]
fold("5.a", len(reached), f"kept, and out of reach: {lost}")

# %% [markdown]
"""
<details><summary>Why</summary>

A walk starts at the root, so the beginning of a prompt is always used a little earlier than its end. When the oldest node goes, it is the *beginning* that goes. The rest is still counted and still holds its slots, but no walk will ever find it.

</details>

Let's call a node that is kept, but out of reach, a ghost.

The first cache of AstrAI, which you met in chapter 02, made ghosts. It kept the nodes of its trie in {{engines astrai-lru}}, and the oldest went, with children or without. An evicted node even stayed linked to its parent, and a request that walked into it ended in an error: {{engines astrai-keyerror}}.

So here is the first rule: **only a leaf may go.** That is easy to say. But how do you find the leaf that was used longest ago? You could look at every node.
"""

# %%
for leaves in (10, 100, 1000):
    cache = RadixCache()
    for i in range(leaves):
        cache.insert([i // 10, i], [2 * i, 2 * i + 1])
    print(f"{leaves:4} leaves: look at {len(cache.nodes()):4} nodes to find one victim")

# %% [markdown]
"""
A full cache evicts all the time, so you pay this price again and again, and it grows with the cache. We want to look at *one* node.

## Build it

### Step 1: keep the order

What does "longest ago" mean? You could write the time of its last use on each node. Seconds make a poor clock: two uses can get the same reading, and a test cannot repeat it. A counter that goes up by one with each use is better. That is a **logical clock**; SGLang has such {{engines sglang-clock}}. But then the victim is the leaf with the smallest number, and you are searching again.

So don't write down the time. Write down the *order*. All nodes that may be evicted stand in a circle, the **ring**, from the one used longest ago to the one used just now. A node knows its two neighbors, `older` and `newer`. The ring object stands between the newest node and the oldest, and closes the circle.
"""

# %%
source(Ring)

# %%
from minikv.course.pieces.ch05 import picture_of_ring

ring = Ring()
for token in (1, 2, 3):
    link(ring, Node([token], [token]))  # you write `link` next
picture_of_ring(ring)

# %% [markdown]
"""
In this ring node `[1]` was used longest ago, and `[3]` just now. Both rows show the same circle. If you follow `newer` from the ring, you meet the oldest node first, and in the end you are back. If you follow `older`, you go the other way around. So `ring.newer` is the next victim, and `ring.older` was used just now. An empty ring points at itself in both directions. So does a node that is in no ring.

#### 5.1 You write: `link`

Put `node` at the end of the ring, between the newest node and the ring itself. Four links have to be right when you are done: two from `node`, and two to it. In an empty ring the newest "node" is the ring itself, and nothing changes in your code.
"""


# %%
def link(ring, node):
    """Put `node` at the end of the ring: it is the most recently used."""
    raise NotImplementedError  # delete this line; about 3 lines to write


link = check("5.1 link", link)

# %% [markdown]
"""
#### 5.2 You write: `unlink`

When a request locks a node, the node must leave the ring at once, even from the middle. Make its two neighbors point at each other. Then let `node` point at itself in both directions, so that unlinking it a second time does nothing. Don't search: the node knows its neighbors. `check` counts how many nodes you look at.
"""


# %%
def unlink(node):
    """Take `node` out of its ring, without a search; do nothing if it is in none."""
    raise NotImplementedError  # delete this line; about 2 lines to write


unlink = check("5.2 unlink", unlink)


# %%
def order(ring):
    """The tokens of the nodes in the ring, from the oldest to the newest."""
    found, node = [], ring.newer
    while node is not ring:
        found.append(node.tokens)
        node = node.newer
    return found


# %%
guess("5.b", "link [1], [2], [3]; unlink [2]; link [2]. Which order? [., ., .]", None)

# %%
ring, nodes = Ring(), [Node([1], [0]), Node([2], [1]), Node([3], [2])]
for node in nodes:
    link(ring, node)
unlink(nodes[1])
link(ring, nodes[1])
fold("5.b", [tokens[0] for tokens in order(ring)], picture_of_ring(ring))

# %% [markdown]
"""
<details><summary>Why</summary>

Out and in again: that is how a node is moved to the end. Six links change, in a ring of three as in a ring of a million.

</details>

### Step 2: what is used?

A request that uses a prompt uses its whole path, because attention reads all of it. So every node from the end of the prompt up to the root moves to the newer end of the ring. In which order?

Think of the ghosts. A parent must not go before its child, so the parent must stand *after* its child, on the newer side. Start at the bottom, then: move the node, then its parent, and so on. This small choice has a large effect. If on every path the parent is newer than its child, then the oldest node of the ring cannot have a child in the ring. It cannot have a locked child either: a lock covers the whole path up to the root, so the node itself would be locked and not in the ring. So the oldest node has no child at all. **It is a leaf, and nobody had to look for it.**

#### 5.3 You write: `touch`

Go up from `node` and move each node to the end of the ring. Two kinds of nodes stay out: a locked node, because it may not be evicted, and the root, because it holds nothing. The root is the node without a parent. A node that was made just now is in no ring yet; `touch` brings it in.
"""


# %%
def touch(ring, node):
    """Move the unlocked nodes from `node` up to the end, a child before its parent."""
    raise NotImplementedError  # delete this line; about 5 lines to write


touch = check("5.3 touch", touch)

# %% [markdown]
"""
Chapter 04's `RadixCache` calls your functions. It touches where a match or an insert ends, and where a lock is given back. Its `protect` unlinks a node when the first lock comes, and its `expose` links it when the last lock goes. In the next picture each node says its place in the ring.
"""

# %%
from minikv import draw

cache = RadixCache()
cache.insert([1, 2, 3, 4], [0, 1, 2, 3])
ben = cache.insert([5, 6], [4, 5])
cache.insert([1, 2, 7, 8], [0, 1, 6, 7])
cache.lock(ben)
turn = {tuple(tokens): at for at, tokens in enumerate(order(cache.ring), start=1)}
draw(cache, label=lambda node: f"{node}, place {turn.get(tuple(node), 'none')}")

# %% [markdown]
"""
Ben's `[5 6]` is locked and has no place. `[3 4]` was used longest ago. The prompt that came last moved its own two nodes, `[7 8]` and then `[1 2]`. Both leaves go before `[1 2]` does, and when they are gone, it *is* a leaf.

### Step 3: evict

#### 5.4 You write: `evict`

Take the oldest node of `cache.ring`, again and again, until you have `num_pages` pages or more. A leaf goes whole, even if that is more than was asked for. Each victim leaves the ring and its parent's `children`, and its pages no longer count in `cache.evictable`. Return the pages of all victims, in the order in which they went.

If everything that is left is locked, the ring is empty. Then stop, and return what you have. (AstrAI's loop went on forever: {{engines astrai-endless}}.)
"""


# %%
def evict(cache, num_pages):
    """Remove the oldest leaves, `num_pages` pages or more in all; return the pages."""
    raise NotImplementedError  # delete this line; about 7 lines to write


evict = check("5.4 evict", evict)

# %% [markdown]
"""
Now test the argument of step 2. A thousand random prompts come into a cache that has room for twenty nodes. Before a victim goes, we look whether it still has children.
"""

# %%
guess("5.c", "how many of the victims still have children?", None)

# %%
import random

cache, chance, parents = RadixCache(), random.Random(5), []
for i in range(1000):
    tokens = [chance.randrange(3) for _ in range(chance.randrange(1, 7))]
    cache.insert(tokens, range(6 * i, 6 * i + len(tokens)))
    while len(cache.nodes()) > 20:
        parents.append(len(cache.ring.newer.children) > 0)
        cache.evict(1)
fold("5.c", sum(parents), f"of {len(parents)} victims")

# %% [markdown]
"""
<details><summary>Why</summary>

Not one. The search for a leaf has become one step, `ring.newer`, and there are no ghosts any more.

</details>

## The same in `minikv`

The package's `RadixCache` has this ring, too. It does one thing more: a node and its only child become one node when nothing tells them apart, so its leaves may be longer than yours. We ask it not to, with a policy that tells any two nodes apart by their number. And there is a third cache to compare with, `TextbookCache`. It looks at every node, as in the problem above.
"""

# %%
from minikv.measure.textbook import TextbookCache
from minikv.prefix.eviction import LeastRecentlyUsed


class KeptApart(LeastRecentlyUsed):
    reads = "last_used", "id"


# %%
def a_day(cache):
    """A thousand inserts, each locked for a while; the slots that were evicted."""
    chance, held, freed = random.Random(7), [], []
    for i in range(1000):
        tokens = [chance.randrange(3) for _ in range(chance.randrange(1, 8))]
        slots = list(range(10 * i, 10 * i + len(tokens)))
        held.append(cache.insert(tokens, slots).handle)
        cache.lock(held[-1])
        if len(held) > 5:
            cache.unlock(held.pop(chance.randrange(6)))
        freed += list(cache.evict(i % 5))
    return freed


# %%
yours, textbook = a_day(RadixCache()), a_day(TextbookCache())
packed = a_day(minikv.RadixCache(policy=KeptApart))
print(
    f"{len(yours)} slots were freed, in the same order: {yours == textbook == packed}"
)

# %% [markdown]
"""
All three forget the same things in the same order. They differ in what that costs. The picture shows times that were measured for this course, for evicting one leaf. The textbook's line ends early: at 100,000 leaves one eviction already takes tens of milliseconds, and a million was not tried.
"""

# %%
import json

from minikv import asset, plot

growth = json.loads(asset("growth.json").read_text("utf-8"))
took = {name: growth["evict"][name] for name in ("textbook", "minikv")}
print("measured", growth["date"], "on", growth["machine"])
leaves = {"leaves": growth["evict"]["leaves"]}
plot("evicting one leaf", leaves, took, "microseconds", log="xy")

# %% [markdown]
"""
And yours? The next cell measures on the machine that runs it, so its output is not stored.
"""

# %% tags=["nbval-ignore-output", "measured"]
from timeit import timeit

for leaves in (100, 1000, 10_000):
    for cache in (RadixCache(), TextbookCache()):
        for i in range(leaves):
            cache.insert([i // 10, i], [2 * i, 2 * i + 1])
        took = timeit(lambda: cache.evict(1), number=20) / 20
        name = type(cache).__name__
        print(f"{leaves:6} leaves, {name:13} {took * 1e6:8.0f} microseconds")

# %% [markdown]
"""
## Play

Two questions about your cache. Anna's `[1, 2, 3, 4]` lies in slots 0 to 3. Then comes a stranger's prompt, in slots 4 to 7. Then Ben asks for `[1, 2, 3, 9]`. His match ends *inside* Anna's edge and splits it into `[1 2 3]` and `[4]`. Now four slots are needed.
"""

# %%
guess("5.d", "which slots does evict(4) free? Write a list", None)

# %%
cache, pool = RadixCache(), Pool(10)
with minikv.record(cache, pool) as film:
    cache.insert([1, 2, 3, 4], pool.alloc(4))
    cache.insert([6, 7, 8, 9], pool.alloc(4))
    cache.match_prefix([1, 2, 3, 9])
    ring = order(cache.ring)
    freed = list(cache.evict(4))
fold("5.d", freed, f"the ring before, oldest first: {ring}", draw(cache))

# %% [markdown]
"""
<details><summary>Why</summary>

What Ben matched is new again. Anna's tail `[4]` was not used, and it keeps its old place. One slot was not enough, so the stranger's prompt followed, whole.

It is easy to get this wrong, and nothing crashes when you do. The notebook from which this course grew {{engines notebook-split-time}}, before it notes the use, and so throws out what Ben has just asked for. So did mini-sglang: {{engines mini-sglang-124}}. SGLang errs in the other direction. Its split {{engines sglang-split-time}}, so the tail that nobody asked for outlives the stranger's prompt.

</details>

The second question. Ben's prompt is the oldest, and he holds a lock on it. He gives the lock back, and then one slot is needed.
"""

# %%
guess("5.e", "whose prompt goes, Ben's or Anna's? Write a name", None)

# %%
cache = RadixCache()
ben = cache.insert([7, 8, 9], [0, 1, 2])
cache.lock(ben)
cache.insert([1, 2, 3, 4], [3, 4, 5, 6])
cache.unlock(ben)
freed = cache.evict(1)
fold("5.e", "Ben" if 0 in freed else "Anna", f"slots {list(freed)} went", draw(cache))

# %% [markdown]
"""
<details><summary>Why</summary>

A lock that is given back counts as a use: Ben was reading until this moment.

</details>

Here is the film of the first question, and then a playground. Insert prompts until it is full. Can you keep the one that you inserted first, without a lock?
"""

# %%
film.player()

# %%
minikv.playground()

# %% [markdown]
"""
## More to try

#### 5.5 Design: two rings

Prompts that come only once are LRU's weak spot: each of them is the newest for a while and pushes out something that is used again and again. Here is a remedy. What was used only once goes before what was used again; among equals, the last use decides. Design it for pages: `use(page)` says that a page is used, for the first time or again. `evict()` takes out the page that goes first and returns it, or `None` if there is none. A page that went and comes back is new. You need no search if you keep two rings; an `OrderedDict` can be one.
"""


# %%
class TwoRings:
    def __init__(self):
        raise NotImplementedError  # delete this line; about 12 lines, with two methods


check("5.5 TwoRings", TwoRings)

# %% [markdown]
"""
<details><summary>Hint</summary>

Two `OrderedDict`s: pages used once, and pages used again. A second use moves a page to the other ring, a third one to the end of that ring.

</details>

<details><summary>Solution</summary>

```python
from collections import OrderedDict


class TwoRings:
    def __init__(self):
        self.once, self.again = OrderedDict(), OrderedDict()

    def use(self, page):
        if page in self.again:
            self.again.move_to_end(page)
        elif page in self.once:
            del self.once[page]
            self.again[page] = None
        else:
            self.once[page] = None

    def evict(self):
        for ring in (self.once, self.again):
            if ring:
                return ring.popitem(last=False)[0]
        return None
```

</details>

#### 5.6 Bug hunt: the way back

In this cache an `unlock` walks down from the root, and not up to it. Your function is given such a cache. Write calls of its `insert`, `match_prefix`, `acquire`, `unlock` and `evict` on which a prefix is evicted before a longer one that needs it: `check` compares the slots that each `evict` returns with those of a right cache.
"""

# %%
from minikv.course.pieces import careless

careless("5.6")


# %%
def calls_that_expose_it(cache):
    raise NotImplementedError  # delete this line, and add calls to the others
    cache.insert([1], [0])
    cache.insert([1, 2], [0, 1])
    cache.evict(1)


check("5.6 careless_unlock", calls_that_expose_it)

# %% [markdown]
"""
<details><summary>Hint</summary>

When a lock is given back, in which order does its path enter the ring? Evict before it is used again.

</details>

<details><summary>Solution</summary>

```python
def calls_that_expose_it(cache):
    cache.insert([1], [0])
    cache.insert([1, 2], [0, 1])
    anna = cache.acquire([1, 2])
    cache.unlock(anna)
    cache.evict(1)
```

</details>

## What it cost

Eviction became cheap because every *use* pays now: each node of the path is moved, and a lock takes its path out of the ring and brings it back. And there is a new invariant, which you cannot see by looking at the tree: *on each path, the parent is newer than the child*. One move in the wrong order, and the oldest node is a parent again. The package's `check()` walks the ring and the tree to find that.

"Used longest ago goes first" is still only a guess, and other guesses win on other traffic. Chapter 13 compares seven of them. For now we know *which* slots go. Their bytes lie in a tensor that we have not touched yet. Chapter 06 is about them.

## In real engines

{{engines 05}}

vLLM and nano-vllm have no tree, so they free the blocks of a request from the end: the end of a prompt goes first there, too. Blocks without a hash can never be hit, so they should go first, and once they did not: {{engines vllm-42656}}. If you open SGLang's `radix_cache.py`, you see a tree that a server no longer builds. {{engines sglang-default-tree}} builds one tree for layers of all kinds, and its core is written {{engines sglang-rust}}.

## Recap

Only a leaf may go, because a prompt without its beginning is worth nothing. If every use moves its whole path to the end of the ring, children before parents, the oldest node is always a leaf, and evicting takes one step. What a match splits off was not used, and it keeps its old place.

**Check yourself**

1. Why does the oldest node of the ring have no locked child?
2. Ben's match ends inside an edge. Which half moves in the ring?
3. From chapter 03: which of the two halves is the old node?
4. From chapter 02: `evict` returns slots. Who must give them to the pool, and what if that happens twice?

<details><summary>Answers</summary>

1. A lock covers the whole path up to the root, so the node itself would be locked, and no locked node is in the ring.
2. The upper one. The lower one keeps its place.
3. The lower one: the old node keeps its end.
4. The caller of `evict`. The second time is a double free, and the pool refuses it.

</details>

**Read on**: [RadixAttention, the paper](https://arxiv.org/abs/2312.07104) · [vLLM's prefix caching design](https://docs.vllm.ai/en/latest/design/prefix_caching.html)
"""

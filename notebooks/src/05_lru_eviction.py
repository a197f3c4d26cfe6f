# %% [markdown]
"""
# 05 · What goes first?

In this chapter you write the part of a cache that decides what to forget: six short functions, about thirty lines. Your `evict` finds its victim in one step, whether the cache holds a hundred prompts or a million, and your engine in chapter 08 will use it.

**After this chapter you will be able to** *explain* which nodes of a tree can be evicted, *build* an eviction routine whose cost does not grow with the cache, and *predict* which prompt goes first.

{{time}} **Needs** chapters 02 to 04. **New words** victim, LRU, ring, logical clock.

Here is where we are going. Three prompts are cached, one of them is locked, and the pool needs slots. Run the cell to step through the film. Before each *evict*, say which box will go.
"""

# %%
import minikv
from minikv import FreeListPool, asset, draw, playground, plot, record

cache, pool = minikv.RadixCache(), FreeListPool(12)
with record(cache, pool) as film:
    ben, slots = cache.insert([5, 6, 7], pool.alloc(3)), pool.alloc(5)
    cache.insert([1, 2, 3], slots[:3])
    cache.insert([1, 2, 3, 4, 5], slots)
    cache.lock(ben)
    for _ in range(3):
        pool.free(cache.evict(1))
film.player(still=6)

# %% [markdown]
"""
The set-up cell has defined `Pool`, `Node`, and `RadixCache`, which call your functions from chapters 02 to 04, or the package's where yours are missing.

## The problem

Memory is full, and something has to go. Chapter 04 told you what must *not* go: everything that is locked. From the rest, you have to choose a **victim**. Nobody knows which prompts will come next, so you guess that what has not been used for a long time will not be needed soon. Evicting the *least recently used* entry first is called **LRU**.

The obvious way is to keep one list of all nodes: a node that is used moves to the end, and the first one is evicted. Let's try that on the trie from chapter 03. Each node is named by its prefix, so `(7, 1, 2)` is a child of `(7, 1)`.
"""

# %%
from collections import OrderedDict


def trie_after(prompts, room):
    """The nodes left in a trie if the least recently used one is always evicted."""
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
Fifty prompts of four tokens arrive. No two of them begin with the same token, and there is room for ten nodes, each of which holds a slot. A walk from the root finds a node only if every node above it is still there. At the end, how many of the ten nodes can a walk still reach?
"""

# %%
# put your number in place of None, then run the next cell
guess("5.a", "how many of the ten nodes can a walk still reach?", None)

# %%
nodes = trie_after([(i, 1, 2, 3) for i in range(50)], room=10)
reached = [n for n in nodes if all(n[:end] in nodes for end in (1, 2, 3))]
fold("5.a", len(reached), f"kept, but out of reach: {sorted({*nodes} - {*reached})}")

# %% [markdown]
"""
<details><summary>Why</summary>

A walk starts at the root, so the beginning of a prompt is always used a little earlier than its end, and goes first. The rest still holds its slots, but no walk will ever find it again.

</details>

Call such a node, kept but out of reach, a *ghost*. An early cache of AstrAI would leave ghosts: it kept the nodes of its trie in {{engines astrai-lru}} and evicted the oldest one, leaf or not. An evicted node even stayed linked to its parent, so a lookup that reached it {{engines astrai-keyerror|would end in a `KeyError`}}.

So the first rule is: **evict only leaves.** But how do you find the least recently used leaf? A full cache evicts all the time, and a search takes longer the more nodes there are. We want to look at *one*.

## Build it

### Step 1: keep the order

You could store in each node the time when it was last used. Because two uses can get the same wall-clock time, a counter that goes up by one with each use is better: a **logical clock**, as {{engines sglang-clock|in SGLang}}. But to find the leaf with the smallest number, you would have to search again.

So store the *order* instead. All nodes that may be evicted form a circle, the **ring**, from the least to the most recently used. Each node knows its two neighbors, `older` and `newer`. The ring object sits between the newest node and the oldest and closes the circle.
"""

# %%
source(Ring)

# %% [markdown]
"""
`first_wrong` calls a function from step 4. A node has the attributes that you know: `tokens` and `slots`, two lists; `parent`, which is `None` for the root; `children`, a dictionary with the first token of each child as its key; and `locks`. Two are new: `older` and `newer` are its neighbors in the ring, or the node itself if it is in no ring. Here is a ring of three nodes, drawn in both directions:
"""

# %%
from minikv.course.pieces.showing import picture_of_ring, way_around

ring = Ring()
for token in (1, 2, 3):
    link(ring, Node([token], [token]))  # you write `link` next
picture_of_ring(ring)

# %% [markdown]
"""
Node `[1]` is the least recently used and `[3]` the most. If you follow `newer` from the ring, you meet the oldest node first and the ring itself last. So `ring.newer` is the next victim, and `ring.older` is the node that was used last. An empty ring points at itself in both directions.

#### 5.1 You write: `link` (5 minutes)

Put `node`, which is in no ring yet, at the newest end, between the newest node and the ring itself. Four links have to be set: two from `node` and two to it.
"""


# %%
def link(ring, node):
    """Put `node` at the end of the ring: it is the most recently used."""
    raise NotImplementedError  # delete this line; about 3 lines to write


link = check("5.1 link", link)

# %% [markdown]
"""
#### 5.2 You write: `unlink` (5 minutes)

When a request locks a node, the node must leave the ring at once, even from the middle. Make its two neighbors point at each other. Then let `node` point at itself in both directions, so unlinking it a second time does nothing. Don't search: the node knows its neighbors, and `check` counts the steps.

*Test it first* (optional, 5 minutes): which links have to be right afterwards, and which nodes are easy to forget?
"""


# %%
def test_unlink(unlink):
    """Fail if `unlink` is wrong."""
    ring, nodes = Ring(), [Node([number], [number]) for number in range(3)]
    for node in nodes:
        link(ring, node)
    raise NotImplementedError  # `assert` what must be true after unlink(nodes[...])


catch("5.2 unlink", test_unlink)


# %%
def unlink(node):
    """Take `node` out of its ring, without a search; do nothing if it is in none."""
    raise NotImplementedError  # delete this line; about 2 lines to write


unlink = check("5.2 unlink", unlink)

# %% [markdown]
"""
What if you skip the `unlink`? Nodes `[1]`, `[2]`, and `[3]` are linked, and then node `[2]` is used and linked *again*, although it is still in the ring. How many nodes do you meet if you follow `newer` from the ring until you are back at the ring?
"""

# %%
guess("5.b", "how many nodes do you meet along `newer`?", None)

# %%
ring, nodes = Ring(), [Node([1], [0]), Node([2], [1]), Node([3], [2])]
for node in [*nodes, nodes[1]]:
    link(ring, node)
met = way_around(ring, ring, "newer")[1:-1]  # without the ring itself
fold("5.b", len(met), " then ".join(met), picture_of_ring(ring))

# %% [markdown]
"""
<details><summary>Why</summary>

A node has only one `newer` link. Linking `[2]` again makes its `newer` point at the ring, so no `newer` leads to `[3]`: `[3]` can never be evicted, and its slots are lost. A node that moves to the newest end must be unlinked first. The move changes six links, whether the ring has three nodes or a million.

</details>

### Step 2: what does a request use?

A request that uses a prompt uses its whole path, because attention reads all of it. So every node from the end of the prompt up to the root moves to the newest end of the ring. In which order?

A parent must not be evicted before its child, so it must be on the newer side of its child. Start at the bottom: move the node, then its parent, and so on. Can the oldest node in the ring then have a child? An unlocked child would be in the ring, and older still. A lock on a child covers the node, too, and takes it out of the ring. So the oldest node has no child. **It is a leaf, and you did not have to search for it.**

#### 5.3 You write: `touch` (5 minutes)

Go up from `node` and move each node to the newest end of the ring. Two kinds of nodes stay out of the ring: locked nodes, because they may not be evicted, and the root, because it holds nothing. A new node is in no ring yet, and `touch` brings it in.
"""


# %%
def touch(ring, node):
    """Move the unlocked nodes from `node` up to the end, a child before its parent."""
    raise NotImplementedError  # delete this line; about 5 lines to write


touch = check("5.3 touch", touch)

# %% [markdown]
"""
`RadixCache` touches the path of every match and every insert. The first lock on a node unlinks it, and when the last lock goes, the node is linked again. The next picture labels each node with its place in the ring, counted from the oldest. (`in_order(ring)` lists the nodes in that order.)
"""

# %%
cache = RadixCache()
cache.insert([1, 2, 3, 4], [0, 1, 2, 3])
ben = cache.insert([5, 6], [4, 5])
cache.insert([1, 2, 7, 8], [0, 1, 6, 7])
cache.lock(ben)
turn = {tuple(n.tokens): at for at, n in enumerate(in_order(cache.ring), start=1)}
draw(cache, label=lambda node: f"{node}, place {turn.get(tuple(node), 'none')}")

# %% [markdown]
"""
Ben's `[5, 6]` is locked and has no place. The last prompt moved its own two nodes, `[7, 8]` and then `[1, 2]`. Both children of `[1, 2]` go first, and then `[1, 2]` *is* a leaf.

### Step 3: evict

#### 5.4 You write: `evict` (15 minutes)

Evict the oldest node of `cache.ring`, again and again, until you have freed at least `num_pages` pages. The pages of a node are in its `slots`, because a "token" of the tree can be a whole page. Always evict a whole node. Remove it from the ring and from its parent's `children`, where its first token is the key, and subtract the number of its pages from `cache.evictable`. Extend a new list in place with the pages of all victims, in order of eviction, and return it.

If everything that is left is locked, the ring is empty. Then return what you have. (In that case, AstrAI's early cache {{engines astrai-endless|would loop forever}}.)
"""


# %%
def evict(cache, num_pages):
    """Remove the oldest leaves, at least `num_pages` pages in all; return the pages."""
    raise NotImplementedError  # delete this line; about 7 lines to write


evict = check("5.4 evict", evict)

# %% [markdown]
"""
### Step 4: check the order

Your `evict` relies on a rule that you cannot see in the tree: every node comes *after* its children in the ring. One `touch` in the wrong order breaks the rule, and no error tells you. So write a test, which your cache's `check()` will call from now on. The walk around the ring is given:
"""

# %%
source(in_order)

# %% [markdown]
"""
#### 5.5 You write: `out_of_order` (10 minutes)

Go through the nodes of the ring from the oldest to the newest. Return the first one with a child that you have not met yet, whether that child comes later or is not in the ring at all. If every node is in order, return `None`.
"""


# %%
def out_of_order(ring):
    """Return the oldest node that comes before one of its children, or None."""
    raise NotImplementedError  # delete this line; about 7 lines to write


out_of_order = check("5.5 out_of_order", out_of_order)

# %%
import random

cache, chance, wrong, evicted = RadixCache(), random.Random(5), 0, []
for i in range(1000):
    tokens = [chance.randrange(3) for _ in range(chance.randrange(1, 7))]
    cache.insert(tokens, range(6 * i, 6 * i + len(tokens)))
    wrong += out_of_order(cache.ring) is not None
    evicted += cache.evict(1 if len(cache.nodes()) > 20 else 0)
print(f"{len(evicted)} slots were evicted, and the order was wrong {wrong} times")

# %% [markdown]
"""
The order was correct after each of a thousand random prompts, so every victim was a leaf, and there are no ghosts.

### Step 5: make room

`evict` only returns pages, and they still have to go to the pool. Two functions are called `evict`: yours counts pages, and the method `cache.evict`, which calls it, counts tokens.

#### 5.6 You write: `make_room` (10 minutes)

A running request needs `num_pages` pages. If the pool has that many free, do nothing. Otherwise, evict only as many pages as are missing, and return them to the pool. If too few can be evicted, `raise OutOfPages(num_pages, free, evictable)`, as your `admit` does, *before* you evict anything. Chapter 07 calls `make_room` when an answer outgrows its pages.

| you may call | what it gives |
|---|---|
| `pool.num_free` | the number of free pages |
| `pool.free(pages)` | puts pages back into the pool |
| `cache.evictable` | the number of pages that can be evicted |
| `cache.evict(num_tokens)` | evicts at least `num_tokens` *tokens*; returns an array of pages |
| `cache.page_size` | the tokens in a page |
"""


# %%
def make_room(cache, pool, num_pages):
    """Evict until `num_pages` pages are free, or raise OutOfPages and evict nothing."""
    raise NotImplementedError  # delete this line; about 5 lines to write


make_room = check("5.6 make_room", make_room)

# %% [markdown]
"""
A pool has twelve pages of one token. First the prompt `[2, 4, 6, 8, 9]` is cached, then `[2, 4, 7]`, then `[1, 3, 5]`, and the other pages are free. How many pages are free after `make_room(cache, pool, 5)`?
"""

# %%
guess("5.c", "how many pages are free after make_room(cache, pool, 5)?", None)

# %%
cache, pool = RadixCache(), Pool(12)
for tokens in ([2, 4, 6, 8, 9], [2, 4, 7], [1, 3, 5]):
    there = cache.match_prefix(tokens)
    cache.insert(tokens, [*there.slots, *pool.alloc(len(tokens) - there.length)])
make_room(cache, pool, 5)
fold("5.c", pool.num_free, draw(cache))

# %% [markdown]
"""
<details><summary>Why</summary>

Two cached pages are shared, so three were free and two were missing. The oldest leaf is the tail `[6, 8, 9]`, and it is evicted whole.

</details>

## The same in `minikv`

The package's `RadixCache` has such a ring too. It also merges a node with its only child if the *policy*, the rule that says which node goes first, treats them alike. To switch that off, we give it a policy under which no two nodes are equal. The `TextbookCache` has no ring and looks at every node.
"""

# %%
from minikv.measure.textbook import TextbookCache
from minikv.prefix.eviction import LeastRecentlyUsed


class KeptApart(LeastRecentlyUsed):
    reads = "last_used", "id"


# %%
chance, freed = random.Random(7), {"yours": [], "package": [], "textbook": []}
caches = RadixCache(), minikv.RadixCache(policy=KeptApart), TextbookCache()
for i in range(1000):
    tokens = [chance.randrange(3) for _ in range(chance.randrange(1, 8))]
    for cache, evicted in zip(caches, freed.values()):
        cache.insert(tokens, range(10 * i, 10 * i + len(tokens)))
        evicted += list(cache.evict(i % 5))
same = freed["yours"] == freed["package"] == freed["textbook"]
print(f"{len(freed['yours'])} slots were freed, in the same order: {same}")

# %% [markdown]
"""
How long do the package's cache and `TextbookCache` take to evict one leaf? (The latter was not tried on a million.)
"""

# %%
import json

growth = json.loads(asset("growth.json").read_text("utf-8"))
took = growth["evict"]
print(f"measured {growth['date']} on {growth['machine']}; minikv: {took['minikv']} µs")
plot("evict one leaf", {"leaves": took.pop("leaves")}, took, "microseconds", log="xy")

# %% [markdown]
"""
And yours? The output of this cell isn't stored.
"""

# %% tags=["nbval-ignore-output", "measured"]
from timeit import timeit

for size in (1000, 100_000):
    tree = RadixCache()
    handles = [tree.insert([token], [token]) for token in range(size)]
    print(f"{size:,} leaves: {timeit(lambda: evict(tree, 1), number=100) * 1e4:.1f} µs")

# %% [markdown]
"""
## Play

First puzzle: Anna's `[2, 3, 4, 5, 6]` is in slots 0 to 4, and then a stranger's prompt gets slots 5 to 8. When Ben asks for `[2, 3, 4, 5, 9]`, his match ends *inside* Anna's edge and splits it into `[2, 3, 4, 5]` and `[6]`. As in chapter 03, the old node becomes the lower half, and your `split` does not touch the ring. Now four slots are needed. Which slots does `evict(4)` free?
"""

# %%
guess("5.d", "which slots does evict(4) free? [., ., ...]", None)

# %%
cache, pool = RadixCache(), Pool(10)
with record(cache, pool) as film:
    cache.insert([2, 3, 4, 5, 6], pool.alloc(5))
    cache.insert([7, 8, 9, 1], pool.alloc(4))
    cache.match_prefix([2, 3, 4, 5, 9])
    ring = [node.tokens for node in in_order(cache.ring)]
    freed = list(cache.evict(4))
fold("5.d", freed, f"the ring before, oldest first: {ring}", draw(cache))

# %% [markdown]
"""
<details><summary>Why</summary>

The part that Ben matched has just been used. Anna's tail `[6]` was not used, so it keeps its old place in the ring. One slot was not enough, so the stranger's whole prompt followed.

This order is easy to get wrong, and nothing crashes when you do. The notebook from which this course grew {{engines notebook-split-time|returns from the split}} before it records the use, and would evict what Ben has just asked for. mini-sglang {{engines mini-sglang-124|did the same}} until May 2026. SGLang errs in the other direction: its split {{engines sglang-split-time|counts as a use of the lower half, too}}, so the tail that nobody asked for outlives the stranger's prompt. (That is the Python core. We ran version 0.5.23's default core, in Rust: after a split, it evicted in the same order.)

</details>

Second puzzle: Ben's `[7, 8, 9]` is cached in slots 0 to 2, and he locks it. Then Anna's `[7, 8, 9, 4]` is cached, with slot 4 for its last token, and she locks it, too. Clara's `[1, 2]` follows, in slots 5 and 6. Anna gives her lock back, and Ben keeps his. Which slots does `evict(4)` free, and in which order?
"""

# %%
guess("5.e", "which slots does evict(4) free, in order? [., ., ...]", None)

# %%
cache = RadixCache()
ben = cache.insert([7, 8, 9], [0, 1, 2])
cache.lock(ben)
anna = cache.insert([7, 8, 9, 4], [0, 1, 2, 4])
cache.lock(anna)
cache.insert([1, 2], [5, 6])
cache.unlock(anna)
fold("5.e", list(cache.evict(4)), draw(cache))

# %% [markdown]
"""
<details><summary>Why</summary>

Clara's prompt goes first. A lock that is given back counts as a use, because Anna was reading until that moment, so her `[4]` is newer. Ben still holds `[7, 8, 9]`, so there is no fourth slot to free.

</details>

Here is the film of Anna's prompt, and then a playground. Insert prompts until it is full. Can you keep the first one, without a lock?
"""

# %%
film.player(still=6)

# %%
playground()

# %% [markdown]
"""
## More to try

#### 5.7 Design: two rings

LRU has a weak spot: a prompt that is used only once pushes out something that is used again and again. A remedy is to evict pages that were used only once before pages that were used again and, within each group, the least recently used first. Write two methods: `use(page)` records a use, the first or a later one, and `evict()` takes out the page that goes first and returns it, or returns `None` if there is none. A page that was evicted and comes back is new.
"""


# %%
class TwoRings:
    def __init__(self):
        raise NotImplementedError  # delete this line; about 12 lines, with two methods


check("5.7 TwoRings", TwoRings)

# %% [markdown]
"""
<details><summary>Hint</summary>

Use two `OrderedDict`s: pages used once, and pages used again. A second use moves a page to the other ring, and a third moves it to the end of that ring.

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

#### 5.8 Bug hunt: from the root down

Your function is given a cache whose `unlock` walks down from the root instead of up to it; `expose` puts a node back into the ring. Write calls to its `insert`, `match_prefix`, `acquire`, `unlock`, and `evict` that make it evict a prefix before a longer one that needs it. (`acquire(tokens)` matches and locks; it returns the handle for `unlock`.) `check` compares the slots that each `evict` returns with those of a correct cache.
"""

# %%
careless("5.8")


# %%
def calls_that_expose_it(cache):
    raise NotImplementedError  # delete this line, and add more calls
    cache.insert([1, 2], [0, 1])
    cache.evict(1)


check("5.8 careless_unlock", calls_that_expose_it)

# %% [markdown]
"""
<details><summary>Hint</summary>

When a lock is given back, in which order does its path enter the ring? Evict before the path is used again.

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

Eviction became cheap because every *use* now pays for it: each node of the path is moved, and a lock takes its path out of the ring and puts it back later. There is also a new invariant to keep: the order that your `out_of_order` tests.

LRU is still only a guess, and chapter 13 compares it with others. Now we know *which* slots go; chapter 06 is about the bytes in them.

## In real engines

{{engines 05|the ring; deepest first; finishing counts as a use}}

vLLM and nano-vllm have no tree, but they free a request's blocks from the end, so there, too, the end of a prompt goes first. Instead of the tree in `radix_cache.py`, SGLang's servers build {{engines sglang-default-tree|one tree for all kinds of layers}}. The links show the Python core of this tree, although {{engines sglang-rust|the one in Rust}} runs by default.

## Recap

Only leaves are evicted, because the end of a prompt is useless without its beginning. If every use moves the whole path to the newest end of the ring, children before parents, the oldest node is always a leaf, and finding it takes one step. The tail that a match splits off was not used, so it keeps its old place.

**Check yourself**

1. Why does the oldest node in the ring have no locked child?
2. Ben's match ends inside an edge. Which half moves in the ring?
3. From chapter 03: which of the two halves is the old node?
4. From chapter 02: `make_room` gives the evicted pages to the pool. What happens if its caller does so again?

<details><summary>Answers</summary>

1. A lock covers the whole path up to the root, so the node itself would be locked, and no locked node is in the ring.
2. The upper one. The lower one keeps its place.
3. The lower one: the old node keeps its end.
4. It is a double free, and the pool refuses it.

</details>

**Read on**: [RadixAttention, the paper](https://arxiv.org/abs/2312.07104) · [vLLM's prefix caching design](https://docs.vllm.ai/en/latest/design/prefix_caching.html)
"""

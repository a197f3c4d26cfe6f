# %% [markdown]
"""
# 05 · What goes first?

**After this chapter you will be able to** *explain* why only leaves are evicted, *build* an eviction whose cost does not grow with the cache, and *predict* on which traffic the usual choice is the worst of all.

**Time** 50 minutes. **Needs** chapters 02 to 04.
**New words** victim, LRU, logical clock, ring, policy.

## The problem

Memory is full, and something must go. Chapter 04 says what may *not*: what is locked. Of the rest we must choose a **victim**, and everybody's first guess is what was used longest ago, the *least recently used*: **LRU**. Here it is on chapter 03's trie, in the shape that AstrAI's first cache gave it: all nodes in one list, in the order of their last use, and the oldest goes.
"""

# %%
from collections import OrderedDict


class HastyTrie:  # a node is a dictionary: token -> node
    def __init__(self, capacity):
        self.root, self.capacity, self.recent = {}, capacity, OrderedDict()  # the oldest use first

    def insert(self, tokens):
        node = self.root
        for token in tokens:
            node = node.setdefault(token, {})
            self.recent[id(node)] = node
            self.recent.move_to_end(id(node))
        while len(self.recent) > self.capacity:
            self.recent.popitem(last=False)[1].clear()  # the oldest loses its children, and goes


# %% [markdown]
"""
**Predict first.** A walk uses the beginning of a prompt first, so the beginning goes first, as chapter 04 saw. After fifty prompts of four tokens, in a trie with room for ten: how many of its ten tokens can a walk still reach?

<details><summary>Answer</summary>

Eight. Two are ghosts: they are counted, but no walk reaches them. And the first token of every evicted prompt is still linked to the root, as an empty husk. In AstrAI, a request that reached one ended in a `KeyError`.

</details>
"""


# %%
def reachable(node):
    return {id(child) for child in node.values()}.union(*(reachable(child) for child in node.values()))


trie = HastyTrie(capacity=10)
for i in range(50):
    trie.insert([i, 1, 2, 3])
counted, seen = set(trie.recent), reachable(trie.root)
print(f"{len(counted)} nodes are counted, {len(counted - seen)} of them are ghosts that no walk can reach;")
print(f"{len(seen)} nodes in the tree, {len(seen - counted)} of them husks that hold nothing")

# %% [markdown]
"""
So the first rule: only a *leaf* may go, a node with nothing below it.

## The picture

A live tree of `minikv`. Each node says when it was used last, by a clock that we are about to build.
"""

# %%
from minikv import RadixCache, draw

cache = RadixCache()
for tokens, slots in (([1, 2, 3, 4], range(4)), ([1, 2, 7, 8], range(4, 8)), ([5, 6], range(8, 10))):
    ben = cache.insert(tokens, slots)
cache.lock(ben.handle)
cache.match_prefix([1, 2, 3, 4])
used = {tuple(node.tokens): node.last_used for node in cache.nodes()}
draw(cache, label=lambda tokens: f"{tokens}, used at {used[tuple(tokens)]}")

# %% [markdown]
"""
Who goes first? Not `[1 2]`, it has children; not `[5 6]`, it is locked. Of the other two, `[7 8]` has waited longer. When both are gone, `[1 2]` *becomes* a leaf, and it is its turn.

## Build it

**Step 1: a clock that counts.** A clock of seconds is a bad judge: two uses can get the same reading, and no test can repeat it. A **logical clock** is a counter, one up with each use: a match, an insert, or a lock given back. A use stamps its *whole path*, up to the root, with the same reading, and so a parent is never older than its child.

First the tree of chapters 03 and 04, in short:
"""

# %%
from minikv import common_prefix  # chapter 03's `common`


class Node:
    def __init__(self, tokens, slots, parent=None):
        self.tokens, self.slots, self.parent = tokens, slots, parent
        self.children, self.ref_count, self.last_used = {}, int(not parent), 0  # the root is never evicted

    def __lt__(self, other):
        return self.last_used < other.last_used


def path(node):  # from a node up to the root's child
    while node.parent:
        yield node
        node = node.parent


# %%
def walk(node, tokens, at=0):  # where the cached prefix ends, its length, and what a split cut off
    while at < len(tokens) and tokens[at] in node.children:
        child = node.children[tokens[at]]
        same = common_prefix(child.tokens, tokens[at:])
        at += same
        if same < len(child.tokens):
            upper = Node(child.tokens[:same], child.slots[:same], node)
            upper.ref_count, upper.last_used = child.ref_count, child.last_used
            child.tokens, child.slots, child.parent = child.tokens[same:], child.slots[same:], upper
            node.children[upper.tokens[0]], upper.children[child.tokens[0]] = upper, child
            return upper, at, child
        node = child
    return node, at, None


# %%
class Tree:
    def __init__(self):
        self.root, self.clock, self.visits = Node([], []), 0, 0

    def use(self, node):
        self.clock += 1
        for step in path(node):
            step.last_used = self.clock

    def lock(self, node):
        for step in path(node):
            step.ref_count += 1

    def unlock(self, node):
        for step in path(node):
            step.ref_count -= 1
        self.use(node)


# %%
class Cache(Tree):
    def in_use(self, end, tail):  # step 3 is about this
        return end

    def match_prefix(self, tokens):
        end, _, tail = walk(self.root, tokens)
        self.use(self.in_use(end, tail))
        return [slot for step in [*path(end)][::-1] for slot in step.slots], end

    def insert(self, tokens, slots):
        end, there, _ = walk(self.root, tokens)
        if there < len(tokens):
            end.children[tokens[there]] = end = Node(tokens[there:], list(slots[there:]), end)
        self.use(end)
        return there, end


# %% [markdown]
"""
**Step 2: a heap of leaves.** Visit every node, put the unlocked leaves into a heap (a list that knows its smallest entry), and take out the oldest until enough is free. A parent that loses its last child joins the heap. If the heap runs empty, give what there is. (AstrAI's loop went on looking forever.) The second cell counts the nodes visited to evict *one* leaf.
"""

# %%
import heapq


class ScanCache(Cache):
    def evict(self, num_tokens):
        freed, nodes = [], [*self.root.children.values()]
        for node in nodes:  # the list grows as we go
            nodes += node.children.values()
        self.visits += len(nodes)
        heap = sorted(node for node in nodes if not node.children and not node.ref_count)
        while heap and len(freed) < num_tokens:  # (a sorted list is a heap)
            leaf = heapq.heappop(heap)
            freed += leaf.slots
            del leaf.parent.children[leaf.tokens[0]]
            if not leaf.parent.children and not leaf.parent.ref_count:
                heapq.heappush(heap, leaf.parent)
        return freed


# %%
def visits(make, leaves):
    ours = make()
    for i in range(leaves):
        ours.insert([i // 10, i], [0, 1])
    ours.evict(1)
    return ours.visits


print("nodes visited, by leaves:", {leaves: visits(ScanCache, leaves) for leaves in (10, 100, 1000)})

# %% [markdown]
"""
**Step 3: what exactly was used?** Anna's `[1, 2, 3, 4]` is in slots 0 to 3; after it came a stranger's prompt, in slots 4 to 7. Now Ben asks for `[1, 2, 3, 9]`. The walk ends *inside* Anna's edge, and splits it into `[1 2 3]` and `[4]`.

**Predict first.** Then four tokens are needed. Which slots go?

<details><summary>Answer</summary>

The upper half was used just now; the tail `[4]` was not. So slot 3 goes first, and then the stranger's prompt, whole: five slots. The notebook that this course grew from, and mini-sglang, return from the split *before* they set the time, and throw out what Ben has just asked for. SGLang stamps both halves: the tail that nobody asked for outlives the stranger's prompt. A worse guess, if the stranger comes back.

</details>
"""


# %%
class ForgetfulCache(ScanCache):
    def in_use(self, end, tail):
        return end.parent if tail else end


class GenerousCache(ScanCache):
    def in_use(self, end, tail):
        return tail or end


for make in (ForgetfulCache, ScanCache, GenerousCache):
    ours = make()
    ours.insert([1, 2, 3, 4], range(4))
    ours.insert([6, 7, 8, 9], range(4, 8))
    ours.match_prefix([1, 2, 3, 9])
    print(f"{make.__name__:14} evict(4) frees slots", ours.evict(4))

# %% [markdown]
"""
Nothing crashed, which is why such a bug lives long.

**Step 4: a ring.** A scan looks at everything, and one leaf was wanted. Chapter 02 had a linked queue that any slot can leave from the middle. Keep all unlocked nodes in such a **ring**, and move each node that is used to its young end. (An `OrderedDict` is one.) But the victim must be a *leaf*: must we search the ring for one?

**Predict first.** A use moves the nodes of its path to the young end, one by one. From the root down, or from the leaf up? And then, in 1,000 random inserts: how often has the oldest node children when it is evicted?

<details><summary>Answer</summary>

From the leaf up, deepest first: never. The parent moves *after* its child, so it always stands on its younger side. A node with children has an older node in the ring (a locked child would have locked its parent: chapter 04's whole path); the oldest node has none, so it is a leaf, and no search is needed. From the root down, one victim in four is a parent, and we are back at the ghosts.

</details>
"""


# %%
class RecencyCache(Cache):
    def __init__(self):
        super().__init__()
        self.ring = OrderedDict()  # unlocked nodes, the oldest first

    def use(self, node):  # `unlock` ends with it, so what was locked comes back here
        super().use(node)
        for step in path(node):  # deepest first: a parent is younger than its children
            if not step.ref_count:
                self.ring[step] = None
                self.ring.move_to_end(step)

    def lock(self, node):
        super().lock(node)
        for step in path(node):
            self.ring.pop(step, None)


# %%
class RingCache(RecencyCache):
    def evict(self, num_tokens):  # a pop; a parent that becomes a leaf is in the ring already
        freed = []
        while self.ring and len(freed) < num_tokens:
            leaf, _ = self.ring.popitem(last=False)
            self.visits += 1
            del leaf.parent.children[leaf.tokens[0]]
            freed += leaf.slots
        return freed


# %%
import random


class TopDownCache(RingCache):
    def use(self, node):
        super().use(node)
        for step in [*path(node)][::-1]:
            self.ring.move_to_end(step)


for make in (TopDownCache, RingCache):
    chance, ours, parents = random.Random(5), make(), []
    for _ in range(1000):
        tokens = [chance.randrange(4) for _ in range(chance.randrange(1, 7))]
        ours.insert(tokens, tokens)
        while len(ours.ring) > 20:
            parents.append(bool(next(iter(ours.ring)).children))
            ours.evict(1)
    print(f"{make.__name__}: {sum(parents) / len(parents):.0%} of the victims had children")

# %% [markdown]
"""
## The same in `minikv`

`RadixCache` is this ring, with the links in the nodes themselves. It does one thing more: a node and its only child that nothing tells apart become one, so that its leaves may be longer than ours. A policy that says that it reads a node's `id` can tell any two nodes apart, and so keeps them apart. With that one, in 1,000 random inserts, each locked for a while, our two and theirs free the same slots in the same order.
"""


# %%
from minikv.prefix.eviction import LeastRecentlyUsed


class KeptApart(LeastRecentlyUsed):
    reads = "last_used", "id"


def insert(cache, tokens, slots):
    done = cache.insert(tokens, slots)
    return done.handle if isinstance(cache, RadixCache) else done[1]  # what can be locked


# %%
caches, freed = (ScanCache(), RingCache(), RadixCache(policy=KeptApart)), ([], [], [])
chance, held = random.Random(7), []
for i in range(1000):
    tokens = [chance.randrange(3) for _ in range(chance.randrange(1, 8))]
    ends = [insert(cache, tokens, list(range(10 * i, 10 * i + len(tokens)))) for cache in caches]
    held.append(ends)
    out = held.pop(chance.randrange(6)) if len(held) > 5 else None
    for which, cache in enumerate(caches):
        cache.lock(ends[which])
        if out:
            cache.unlock(out[which])
        freed[which].extend(cache.evict(i % 5))
print(len(freed[0]), "slots were freed, in the same order:", freed[0] == freed[1] == freed[2])

# %% [markdown]
"""
The price of one eviction, counted and measured. The times come from `minikv bench`, which you can run too; *textbook* is this chapter's scan, in plain lists.
"""

# %%
import json

from minikv import asset, beside, plot

sizes = [10, 100, 1000, 10_000]
found = {make.__name__: [visits(make, leaves) for leaves in sizes] for make in (ScanCache, RingCache)}
counted = plot("counted: evicting one leaf", {"leaves": sizes}, found, "nodes visited", log="xy")
bench = json.loads(asset("bench.json").read_text("utf-8"))
took = {name: bench["evict"][name] for name in ("textbook", "minikv")}
print("measured", bench["date"], "on", bench["machine"])
timed = plot(
    "measured: evicting one leaf", {"leaves": bench["evict"]["leaves"]}, took, "microseconds", "xy"
)
beside(counted, timed)

# %% [markdown]
"""
A scan's price grows with the cache, the ring's does not.

**Which guess?** "Used longest ago goes first" is a guess about the future. A **policy** is such a guess, and `RadixCache(policy=...)` knows seven. All but *lru* sort the leaves by a key: *lfu* (least frequently used) by how often, *fifo* (first in, first out) by when they were cached, *priority* by what the caller said, *slru* (segmented) by whether they were used again, and then by when; *mru* (most recently) and *filo* (first in, last out) reverse two of them.

**Predict first.** A and B are cached, in that order; B has priority 5 and is inserted twice more; then A is matched; finally C is cached. In which order do they go? Do any two of `lru`, `lfu` and `priority` agree?

<details><summary>Answer</summary>

No two. B was used longest ago, C least often, and A is the older of those without a priority. Three letters have six orders, and the seven policies use five of them.

</details>
"""

# %%
POLICIES = "lru", "lfu", "fifo", "mru", "filo", "priority", "slru"
for policy in POLICIES:
    cache = RadixCache(policy=policy)
    cache.insert([1], [0])  # A, in slot 0
    for _ in range(3):
        cache.insert([2], [1], priority=5)  # B
    cache.match_prefix([1])
    cache.insert([3], [2])  # C
    print(f"{policy:9}", " then ".join("ABC"[cache.evict(1)[0]] for _ in range(3)))

# %% [markdown]
"""
Only traffic can say which guess is good. *Chat*: twelve people, in any order, and each turn brings all that was said before and something new. *Favourites*: twenty prompts, some asked for much more often than others. *Loop*: ten prompts of ten tokens, one after the other, ten times round, as in a benchmark. *Once*: five prompts used twice, then fifteen that come once, then the five again. (Nobody gives a priority, so `priority` is `lru`.)

**Predict first.** The loop needs 100 tokens, and there is room for 90. How many of its 1,000 tokens are hits under `lru`? And in the chat: how far is `fifo`, which never looks at use, behind `lru`?

<details><summary>Answer</summary>

None. When a prompt comes round again it has waited longest, so it has just been evicted, to make room for the one before it. `mru` looks mad, but what was used a moment ago is what a loop will need last.

In the chat the two are *equal*, to the token: every turn ends in a fresh leaf, used last when it was made. They differ where exactly the same prompt comes again, as in the favourites. And under `lru` what comes only once drives out everything; `lfu` and `slru` keep what was used twice.

</details>
"""

# %%
chance, said, chat = random.Random(5), {}, []
for turn in range(1, 301):
    person = chance.randrange(12)
    if len(said.get(person, range(99))) > 30:  # a new conversation, under one of four instructions
        said[person] = [chance.randrange(4), *range(10, 15)]
    said[person] = said[person] + [100 * turn + j for j in range(chance.randrange(1, 5))]
    chat.append(said[person])
prompts = [[10 * i + j for j in range(10)] for i in range(20)]
favourites = chance.choices(prompts, weights=[1 / (i + 1) for i in range(20)], k=300)
loop, once = prompts[:10] * 10, prompts[:5] * 2 + prompts[5:] + prompts[:5]

# %%
from minikv.measure import TraceRequest, replay
from minikv.tokens import pack


def served(prompts, room, cache):
    return replay([TraceRequest(0, 0, 0, pack(prompt)) for prompt in prompts], cache, room)


TRAFFIC = ("chat", chat, 100), ("favourites", favourites, 100), ("loop", loop, 90), ("once", once, 100)
for name, traffic, room in TRAFFIC:
    found = {policy: served(traffic, room, RadixCache(policy=policy)).hits for policy in POLICIES}
    print(f"{name}: hits of {sum(map(len, traffic))} tokens, with room for {room}\n   {found}")
rooms, lines = list(range(40, 301, 20)), {}
for policy in ("lru", "fifo", "slru", "lfu", "mru"):
    by_page = [RadixCache(policy=policy, evict_by="page") for _ in rooms]  # what that means comes next
    lines[policy] = [served(chat, room, cache).hits for room, cache in zip(rooms, by_page)]
plot("chat: hits against room", {"room, in tokens": rooms}, lines, "hits")

# %% [markdown]
"""
The lines of `lru` and `fifo` coincide. With little room even they come last. No policy wins everywhere; chapter 13 chooses on real traces.

**Whole leaves, or pages?** In the table a whole leaf went, however little was asked for. `evict_by="page"`, as in the picture, cuts only as many pages as are needed off the *end* of the victim (a page is one token here).

**Predict first.** The loop under `lru` again, with room for 99 of its 100 tokens. By leaves, there is still not one hit. By pages?

<details><summary>Answer</summary>

Most of them are. One token too few costs a prompt one token at its end, not all ten. The cliff was the policy *and* the size of its bite.

</details>
"""

# %%
from minikv.testing.watch import watch

for evict_by in ("node", "page"):
    cache = RadixCache(evict_by=evict_by)
    cache.insert(list(range(8)), range(8))
    print(f"by {evict_by}: evict(1) on a leaf of 8 tokens frees slots", cache.evict(1))
    for name, traffic, room in (("loop", loop, 99), ("chat", chat, 100)):
        cache, calls = RadixCache(evict_by=evict_by), []
        watch(cache, ["evict"], calls.append)  # notes every call
        done = served(traffic, room, cache)
        print(f"   {name}: {done.hits:4} hits, {done.evicted:4} evicted in {len(calls)} calls")

# %% [markdown]
"""
In the chat, the price is more calls: an eviction that frees just enough is soon followed by another.

## Play

A film of a cache under pressure. Try this: before each *evict*, say which leaf goes, and how many tokens that frees. Ben's prompt is the oldest. When he gives his lock back, which goes first, his or `[1 2]`?

<details><summary>Answer</summary>

`[1 2]`: giving a lock back counts as a use, so Ben's is the youngest now.

</details>
"""

# %%
from minikv import FreeListPool, record

cache, pool = RadixCache(), FreeListPool(12)
with record(cache, pool) as film:
    ben = cache.insert([7, 8, 9], pool.alloc(3))
    cache.insert([1, 2, 3, 4], pool.alloc(4))
    shared = cache.match_prefix([1, 2, 5])
    cache.insert([1, 2, 5], [*shared.slots, *pool.alloc(1)])
    cache.lock(ben.handle)
    film.note("Ben is reading the oldest prompt; now room is needed, one token at a time")
    for _ in range(2):
        pool.free(cache.evict(1))
    cache.unlock(ben.handle)
    cache.evict(1)  # the film ends with its slots in hand
film.player()

# %% [markdown]
"""
## Exercises

**5.1 Fill in.** Write `victims(leaves, num_tokens)`. A leaf is a tuple: how many tokens it has, when it was used last, whether it is locked. Return the places in the list of those that go, in order, under `lru`, each as a whole, until `num_tokens` tokens are free or nothing is left.
"""

# %%
from minikv import check


def victims(leaves, num_tokens):
    raise NotImplementedError  # delete this line; about seven lines to write


check("5.1 victims", victims)

# %% [markdown]
"""
<details><summary>Hint</summary>

`sorted(range(len(leaves)), key=...)` gives the places in the order in which to look at them.

</details>

<details><summary>Solution</summary>

```python
def victims(leaves, num_tokens):
    gone, freed = [], 0
    for place in sorted(range(len(leaves)), key=lambda place: leaves[place][1]):
        tokens, _, locked = leaves[place]
        if freed < num_tokens and not locked:
            gone.append(place)
            freed += tokens
    return gone
```

</details>

**5.2 Design.** What comes once drove out the rest of an `lru` cache above. `slru` is the remedy: what was used only once goes first, and among equals the last use decides. Design it so that nothing is ever searched or sorted (the judge compares answers only; that rule is yours to keep): `use(page)`, for the first time or again, and `evict()`, which gives back the page that goes, or `None`. A page that went and comes back is new.
"""


# %%
class TwoRings:
    def __init__(self):
        raise NotImplementedError  # delete this line; about twelve lines to write, with `use` and `evict`


check("5.2 TwoRings", TwoRings)

# %% [markdown]
"""
<details><summary>Hint</summary>

Two `OrderedDict`s: pages used once, and pages used again. A second use moves a page to the other ring, a third one to that ring's young end.

</details>

<details><summary>Solution</summary>

```python
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

**5.3 Bug hunt.** `PathRing` is a ring of prefixes with one token on each edge, and it is right. `CarelessPathRing` differs in one line. Find a script on which a prefix goes before a longer one that needs it.
"""

# %%
import inspect

from minikv.course.exercises.ch05 import CarelessPathRing, PathRing
from minikv.course.exercises.judge import Script

for part in (PathRing, CarelessPathRing):
    print(inspect.getsource(part))


def script_that_breaks_it():
    raise NotImplementedError  # delete this line, and write more operations into the next
    return Script((), (("use", ([1, 2],)), ("evict", ())))


check("5.3 CarelessPathRing", script_that_breaks_it)

# %% [markdown]
"""
<details><summary>Hint</summary>

When a lock is given back, in which order does its path enter the ring? Evict before it is used again.

</details>

<details><summary>Solution</summary>

```python
def script_that_breaks_it():
    path = ([1, 2],)
    return Script((), (("use", path), ("lock", path), ("unlock", path), ("evict", ())))
```

</details>

## What it cost

Evicting became cheap because every *use* pays now: each node of its path is moved, and a lock takes its path out and brings it back. And there is an invariant that nobody can see by looking at the tree: *on each path, the parent is the younger*. One move in the wrong order, and the oldest is a parent again; `check` walks the ring and the tree to find that.

We know now *which* slots go. The bytes in them lie in a tensor that we have not touched: chapter 06.

## In real engines

{{engines 05}}

Some add host memory, so that "evicted" means "moved".

## Recap

Only a leaf may go, because a prefix without its beginning is worth nothing. If every use moves its whole path to the young end, deepest first, the oldest unlocked node is always a leaf, and evicting is a pop, however much is cached. Which policy is best depends on the traffic.

**Check yourself**

1. Nodes are moved as the walk comes by them. Why does the beginning of a prompt go first?
2. A match ends inside an edge. What is used now, and what is not?
3. Why does the ring need no search for a leaf?
4. When do `lru` and `fifo` evict exactly the same?

<details><summary>Answers</summary>

1. A walk begins at the root, so the root's side was used a moment earlier.
2. The path down to the cut is; the tail below keeps its old reading.
3. A parent always stands on the younger side of its children, so the oldest has none.
4. When every request ends in a fresh leaf: each leaf was used last when it was made.

</details>

**Read on**: [RadixAttention, the paper](https://arxiv.org/abs/2312.07104) · [vLLM's prefix caching design](https://docs.vllm.ai/en/latest/design/prefix_caching.html) · [SGLang, with its eviction policies](https://github.com/sgl-project/sglang)
"""

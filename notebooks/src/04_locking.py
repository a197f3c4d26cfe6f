# %% [markdown]
"""
# 04 · What must not be evicted now?

**After this chapter you will be able to** *protect* a prefix while somebody reads it, *keep* two sizes exact without ever recounting, and *predict* whether a request fits before you promise it room.

**Time** 50 minutes. **Needs** chapters 02 and 03.
**New words** lock, handle, reference count, evictable, protected.

## The problem

Chapter 03 ended with a tree that hands the same slots to many readers and knows none of them. Here it is in an engine. Anna's request is being answered, one token a step, and each step reads the keys and values of her whole prompt. Between two steps another reader comes and goes.

A *canary* watches. It remembers what was computed into every slot, and complains when a slot is read that holds something else.
"""

# %%
import random
from types import SimpleNamespace

from minikv import Canary, FreeListPool, InvariantError, Ledger, LockError, RadixCache
from minikv import beside, check, common_prefix, draw, record


def serve(cache, pool, prompt):
    match = cache.match_prefix(prompt)
    needed = len(prompt) - match.length
    pool.free(cache.evict(max(0, needed - pool.num_free)))
    slots = [int(slot) for slot in (*match.slots, *pool.alloc(needed))]
    cache.insert(prompt, slots)
    return slots


# %%
def desk_prompt(name):
    return list(f"You are the help desk of a library. Reader {name} asks: when do you open?".encode())


cache, pool, anna, wrong = RadixCache(), FreeListPool(200), desk_prompt("Anna"), []
with Canary(cache) as canary:
    slots = serve(cache, pool, anna)
    for step in range(1, 31):
        serve(cache, pool, desk_prompt(step))
        try:
            canary.read(anna, slots)
        except InvariantError:
            wrong.append(step)
print(f"{len(wrong)} of Anna's 30 steps read what others left in her slots, the first is step {wrong[0]}")

# %% [markdown]
"""
Only the canary complained; Anna would just get a strange answer. And it takes no second reader. The teaching notebook of chapter 02 allows this order too, and here are its numbers: six tokens cached, a pool of eight slots.

**Predict first.** The next prompt shares the first four of the six, and goes on with *five* of its own. Nine tokens, eight slots. What happens?

<details><summary>Answer</summary>

It is served. Five slots are needed and two are free, so three must be evicted: the tail `[9 77]`, and then nothing is left but the prefix that was *just matched*. Its slots come straight back as room for the new tokens: slot 0 is now the prompt's first token and its seventh.

</details>
"""

# %%
cache, pool = RadixCache(), FreeListPool(8)
with Canary(cache):
    try:
        for prompt in ([1, 3, 6, 7, 9, 77], [1, 3, 6, 7, 87, 66, 55, 44, 33]):
            serve(cache, pool, prompt)
    except InvariantError as error:
        print(error)

# %% [markdown]
"""
So what is in use must be pinned. AstrAI has a node for each token, and pins the one where the prompt *ends*. It evicts the node unused for longest, wherever it is. Here, a node is a prefix, and a dictionary's order is the order of use.

**Predict first.** There is room for three nodes, and `(1, 2, 3)` is pinned. One more comes in. How much of the pinned prompt can still be found?

<details><summary>Answer</summary>

Nothing. A walk touches the beginning of a prompt first, so the beginning is always the oldest. It is not pinned, it goes, and no walk reaches the rest.

</details>
"""

# %%
pins = {}
for prompt in ((1, 2, 3), (9,)):
    for end in range(1, len(prompt) + 1):
        pins[prompt[:end]] = pins.pop(prompt[:end], 0)  # now at the end of the dictionary: used last
    pins[prompt] += 1
    if len(pins) > 3:
        oldest = next(node for node in pins if pins[node] == 0)
        print("evicted:", oldest, "with", pins.pop(oldest), "pins")
print("left, with their pins:", pins, "- the walk needs (1,) first")

# %% [markdown]
"""
## The picture

A **lock** says: somebody is reading this. It goes on the whole *path* from the root to where a prompt ends, and what remembers that place is a **handle**. Tokens under a lock are **protected**; the others are **evictable**. In `minikv`'s cache here, two prompts share three tokens and a third lies idle: ten tokens in all.

**Predict first.** Anna locks her five tokens, then Ben his six. Then Anna unlocks. How many are protected each time?

<details><summary>Answer</summary>

5, then 8, then 6. The shared three are counted once, and Anna's unlock sets free only the two that are hers alone.

</details>
"""

# %%
tree, pictures = RadixCache(), []
annas = tree.insert([1, 2, 3, 4, 5], range(5)).handle
bens = tree.insert([1, 2, 3, 7, 8, 9], [0, 1, 2, 5, 6, 7]).handle
tree.insert([6, 6], [8, 9])
for who, do, held in (("Anna", tree.lock, annas), ("Ben", tree.lock, bens), ("Anna", tree.unlock, annas)):
    do(held)
    pictures.append(draw(tree))
    print(f"{who} {do.__name__}s: {tree.protected_size} protected, {tree.evictable_size} evictable")
beside(*pictures[1:])

# %% [markdown]
"""
On the left both hold their locks, on the right Ben alone. *locked ×2* is the node's **reference count**: how many locks pass through it. A number and not a flag, because the first to leave must not unlock for the others.

## Build it

**Step 1: chapter 03's tree, in short.** New are a count and a time of last use on each node, a way along a path, handles, and `evict`, which takes unlocked leaves, the longest unused first. (Why leaves, and why those, is chapter 05.)
"""


# %%
class Node:
    def __init__(self, tokens, slots, parent=None):
        self.tokens, self.slots, self.parent = tokens, slots, parent
        self.children, self.last_used, self.ref_count = {}, 0, 0


def path(node):  # from a node up; the root is not on it
    while node.parent is not None:
        yield node
        node = node.parent


def below(node):
    for child in node.children.values():
        yield child
        yield from below(child)


# %%
class Tree:
    def __init__(self):
        self.root, self.clock, self.evictable_size, self.protected_size = Node([], []), 0, 0, 0

    def walk(self, tokens):
        node, at = self.root, 0
        while at < len(tokens) and tokens[at] in node.children:
            node = node.children[tokens[at]]
            same = common_prefix(node.tokens, tokens[at:])
            if same < len(node.tokens):
                return self.split(node, same), at + same
            at += same
        return node, at

    def match_prefix(self, tokens):
        node, length = self.walk(tokens)
        return self.used(node, length, slots=[slot for step in [*path(node)][::-1] for slot in step.slots])


# %%
class GrowingTree(Tree):
    def split(self, node, at):
        upper = Node(node.tokens[:at], node.slots[:at], node.parent)
        upper.parent.children[upper.tokens[0]] = upper
        node.tokens, node.slots, node.parent = node.tokens[at:], node.slots[at:], upper
        upper.children, upper.last_used = {node.tokens[0]: node}, node.last_used
        return upper

    def insert(self, tokens, slots):
        node, there = self.walk(tokens)
        if there < len(tokens):
            leaf = Node(tokens[there:], list(slots[there:]), node)
            node.children[leaf.tokens[0]] = leaf
            self.evictable_size += len(leaf.tokens)
            node = leaf
        return self.used(node, len(tokens), prefix_length=there)


# %%
class EvictingTree(GrowingTree):
    def used(self, node, length, **found):
        self.clock += 1
        for step in path(node):
            step.last_used = self.clock
        return SimpleNamespace(length=length, handle=SimpleNamespace(node=node, locks=0), **found)

    def evict(self, num_tokens):
        freed, loose = [], lambda node: not node.children and not node.ref_count
        while len(freed) < num_tokens and (leaves := list(filter(loose, below(self.root)))):
            leaf = min(leaves, key=lambda node: node.last_used)
            del leaf.parent.children[leaf.tokens[0]]
            freed += leaf.slots
        self.evictable_size -= len(freed)
        return freed


# %% [markdown]
"""
**Step 2: lock the path.** `lock` adds one to every node on it, `unlock` takes one away. The two sizes are never recounted: they change when a count goes from 0 to 1 or from 1 to 0, and at no other moment. A prompt that matches nothing has its handle at the root, where the path is empty: that lock is free.

But our `evict` takes leaves only, and a node with a child is no leaf. So why the whole path?

**Predict first.** Lock just the *last* node of a prompt, as AstrAI did, in this tree. What of the prompt can be evicted?

<details><summary>Answer</summary>

Nothing! Each node above has a child, and the last one is locked. But the books are wrong: the nodes above look evictable and are not, so the tree promises room that it cannot make. Where only leaves go, locking the path keeps the *number* true.

</details>
"""

# %%
tree = EvictingTree()
end = tree.insert([1, 2, 3, 4, 5], range(5)).handle.node
tree.insert([1, 2, 3, 7], [0, 1, 2, 5])
end.ref_count, promised = 1, tree.evictable_size - len(end.tokens)  # a lock on the last node only
print(f"promised: {promised} tokens, and evict({promised}) frees {len(tree.evict(promised))}")


# %%
class PathLocks(EvictingTree):
    def lock(self, handle):
        for node in path(handle.node):
            if node.ref_count == 0:  # this is the first lock on it
                self.evictable_size -= len(node.tokens)
                self.protected_size += len(node.tokens)
            node.ref_count += 1

    def unlock(self, handle):
        for node in path(handle.node):
            node.ref_count -= 1
            if node.ref_count == 0:  # that was the last one
                self.evictable_size += len(node.tokens)
                self.protected_size -= len(node.tokens)
        self.used(handle.node, 0)


# %% [markdown]
"""
**Step 3: a split under a lock.** Anna holds `[1, 2, 3, 4, 5]`, one node with a count of 1. Ben only *asks* for `[1, 2, 9]`. That cuts the edge, and a new node appears in the middle of Anna's path.

**Predict first.** Chapter 03's `split` gives the new node a count of 0. Anna unlocks; nobody holds anything. How many of the five tokens can be evicted?

<details><summary>Answer</summary>

Three. Her unlock walks the path as it is *now*, and takes one from the new node too: -1. It never went from 1 to 0, so its two tokens stay protected, by nobody, for good. The mend is one line: the upper half takes over the count, for whoever holds the lower half passes through it. And because the old object is the *lower* half, Anna's handle still stands where her prompt ends.

</details>
"""


# %%
class SafeSplit(PathLocks):
    def split(self, node, at):
        upper = super().split(node, at)
        upper.ref_count = node.ref_count
        return upper


trees = PathLocks(), SafeSplit()
for tree in trees:
    held = tree.insert([1, 2, 3, 4, 5], range(5)).handle
    tree.lock(held)
    tree.match_prefix([1, 2, 9])  # Ben asks
    tree.unlock(held)
    print(type(tree).__name__, "protects", tree.protected_size, "tokens, evictable:", tree.evictable_size)
beside(*[draw(tree.root) for tree in trees])

# %% [markdown]
"""
**Step 4: lock first, then look for room.** The order that is safe is match, lock, *then* look for room, evict, take slots. If there is no room the lock goes back, or a request that only waits keeps others out. In the end the prompt is cached, and the lock moves to the whole of it.

**Predict first.** Six slots, all cached: `[1, 3, 6, 7, 9, 77]`. The next prompt matches four tokens and needs four slots more. An engine that looks *before* it locks finds six evictable: come in! How much room is there once the match is locked?

<details><summary>Answer</summary>

Two. The request's own prefix was counted as room for it. A cached prefix saves computing; it saves room only if somebody else has it locked already.

</details>
"""


# %%
def admit(cache, pool, prompt):
    match = cache.match_prefix(prompt)
    cache.lock(match.handle)
    needed = len(prompt) - match.length
    if needed > pool.num_free + cache.evictable_size:
        cache.unlock(match.handle)
        return None
    if needed > pool.num_free:
        pool.free(cache.evict(needed - pool.num_free))
    slots = [int(slot) for slot in (*match.slots, *pool.alloc(needed))]
    done = cache.insert(prompt, slots)
    cache.lock(done.handle)
    cache.unlock(match.handle)
    return slots, done.handle


# %%
tree, pool = SafeSplit(), FreeListPool(6)
tree.insert([1, 3, 6, 7, 9, 77], pool.alloc(6).tolist())
held, before = tree.match_prefix([1, 3, 6, 7, 87, 66, 55, 44]).handle, tree.evictable_size
tree.lock(held)
print("needed: 4, room before the lock:", before, "and after it:", tree.evictable_size)
tree.unlock(held)
print("admit, with four new tokens:", admit(tree, pool, [1, 3, 6, 7, 87, 66, 55, 44]))
print("admit, with two:", admit(tree, pool, [1, 3, 6, 7, 87, 66])[0], "and protected:", tree.protected_size)

# %% [markdown]
"""
**Step 5: a lock is a receipt.** Ben's request is cancelled and its lock given back. A moment later it also finishes, and the lock is given back again.

**Predict first.** Anna and Ben both hold `[1, 2, 3]`: the count is 2. A careful engine asserts that no count ever falls below zero. Does it notice Ben's second unlock?

<details><summary>Answer</summary>

No: 2, 1, 0. The second one took *Anna's* lock, and her prefix can be evicted while she reads. A count knows how many, not whose. So let each handle remember what it locked, and refuse to give back more.

</details>
"""


# %%
class LockingCache(SafeSplit):
    def lock(self, handle):
        super().lock(handle)
        handle.locks += 1

    def unlock(self, handle):
        if not handle.locks:
            raise ValueError("refused: this handle holds no lock")
        handle.locks -= 1
        super().unlock(handle)


# %%
for tree in (SafeSplit(), LockingCache()):
    tree.lock(tree.insert([1, 2, 3], range(3)).handle)  # Anna
    bens = tree.match_prefix([1, 2, 3]).handle
    tree.lock(bens)
    try:
        for _ in range(2):  # cancelled, and finished as well
            tree.unlock(bens)
    except ValueError as error:
        print(error)
    print(f"{type(tree).__name__}: while Anna reads, evict(3) takes slots {tree.evict(3)}")

# %% [markdown]
"""
## The same in `minikv`

`RadixCache` agrees with ours on 2,000 random steps, in every length, every slot and both sizes. A handle goes *stale* when the end of its prefix is evicted (a locked one cannot), and no `reset` forgets what somebody holds.

The third cell is a day like Anna's, with short prompts and `admit` for everybody. Two watchers are attached from outside: the canary knows what is *in* a slot; a *ledger* knows *whose* it is, and after every operation compares its book with pool and tree. We plant two mistakes: Anna's lock goes back while she reads, and a tidy reader frees its slots at the end, though they are the tree's by now.
"""

# %%
chance, pair, held, verbs = random.Random(4), (LockingCache(), RadixCache()), [], "insert lock evict unlock"
for step in range(2000):
    tokens = chance.choices([0, 1], k=chance.randint(1, 8))
    found = [cache.match_prefix(tokens) for cache in pair]
    assert found[0].slots == found[1].slots.tolist()
    verb = chance.choice(verbs.split()[: 3 + bool(held)])
    if verb == "lock":
        held.append(found)
    elif verb == "unlock":
        found = held.pop(chance.randrange(len(held)))
    for cache, match in zip(pair, found):
        given = {"insert": (tokens, range(8 * step, 8 * step + len(tokens))), "evict": (3,)}
        getattr(cache, verb)(*given.get(verb, (match.handle,)))
    assert len({(cache.evictable_size, cache.protected_size) for cache in pair}) == 1
print("the same in 2000 steps; both sizes in the end:", cache.evictable_size, cache.protected_size)

# %%
cache = RadixCache()
whole = cache.insert([1, 2, 3], [0, 1, 2]).handle
cache.lock(cache.match_prefix([1, 2]).handle)
cache.evict(1)  # the third token may go, and goes
for verb, given in ((cache.unlock, [whole]), (cache.lock, [whole]), (cache.reset, [])):
    try:
        verb(*given)
    except LockError as error:
        print(error)

# %%
for mistake in ("no mistake", "Anna's lock goes early", "a reader frees the tree's slots"):
    cache, pool = RadixCache(), FreeListPool(12)
    try:
        with Ledger(pool, cache) as ledger, Canary(cache) as canary:
            slots, held = admit(cache, pool, [1, 2, 3, 4, 5])
            if "early" in mistake:
                cache.unlock(held)
            for step in range(1, 31):
                theirs, other = admit(cache, pool, [1, 2, 3, 100 + step, 200 + step])
                cache.unlock(other)
                pool.free(theirs if "frees" in mistake else [])
                canary.read([1, 2, 3, 4, 5], slots)
            print(f"{mistake}: all 30 reads are right; {ledger.step} operations checked")
    except InvariantError as error:
        print(f"\n{mistake}:\n{error}")

# %% [markdown]
"""
The ledger caught the tidy reader in the very operation, and names both owners. The early unlock breaks no rule of ownership; only the canary sees that Anna reads what is not hers.

## Play

A film of a cache and its pool, one frame an operation. Ben's prompt splits Anna's while she holds it. Step through and try this: before each `evict` say which slots will go, and before each `unlock` how many tokens become evictable.
"""

# %%
cache, pool = RadixCache(), FreeListPool(12)
with record(cache, pool) as film:
    cache.insert([6, 6], pool.alloc(2))
    _, annas = admit(cache, pool, [1, 2, 3, 4, 5])
    film.note("Anna is being answered. Ben's prompt comes in, and parts from hers after three tokens.")
    admit(cache, pool, [1, 2, 3, 7, 8, 9])
    pool.free(cache.evict(4))
    cache.unlock(annas)
    pool.free(cache.evict(4))
film.player()

# %% [markdown]
"""
## Exercises

**4.1 Fill in.** A tree is given by its parents: `parents[i]` is the node above node `i`, or `None` below the root. Write `lock_counts(parents, held)`: the reference count of every node, when each entry of `held` is a node at which somebody's locked prompt ends.
"""


# %%
def lock_counts(parents, held):
    raise NotImplementedError  # delete this line; about six lines to write


check("4.1 lock_counts", lock_counts)

# %% [markdown]
"""
<details><summary>Hint</summary>

For each entry of `held`, go up from that node, and count every node on the way, itself included.

</details>

<details><summary>Solution</summary>

```python
def lock_counts(parents, held):
    counts = [0] * len(parents)
    for node in held:
        while node is not None:
            counts[node] += 1
            node = parents[node]
    return counts
```

</details>

**4.2 Design.** Requests wait in a line, and are let in from the front until one does not fit. Write `how_many_fit(free, prefixes, waiting)`: how many get in? `free` slots are free. `prefixes[i]` is the length of cached prefix `i`; they share nothing, and nobody has locked them yet. A request is a pair: the prefix it begins with (or `None`), and how many tokens of its own follow. Who is in keeps everything locked. The judge compares you with a real cache and this chapter's `admit`.
"""


# %%
def how_many_fit(free, prefixes, waiting):
    raise NotImplementedError  # delete this line; about eight lines to write


check("4.2 how_many_fit", how_many_fit)

# %% [markdown]
"""
<details><summary>Hint</summary>

Room is what is free or evictable. What does the first request with a prefix take out of it, and what the second? Does it matter if the prefix was evicted before its turn?

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

An evicted prefix takes fresh slots, a cached one its own: the same room.

</details>

**4.3 Bug hunt.** In this tree requests lock by name. `CarelessTree` keeps no receipt: to unlock, it looks the prompt up again, as AstrAI's `release` does. Find a script on which that goes wrong. Can you make it give away what *another* request holds?
"""

# %%
import inspect

from minikv.learn.ch04 import CarelessTree, LockingTree
from minikv.learn.judge import Script

print(*map(inspect.getsource, (LockingTree.lock, LockingTree.unlock, CarelessTree)), sep="\n")


def script_that_breaks_it():
    raise NotImplementedError  # delete this line, and write more operations into the next
    return Script((), (("insert", ([1, 2],)), ("lock", ("Anna", [1, 2, 3])), ("unlock", ("Anna",))))


check("4.3 CarelessTree", script_that_breaks_it)

# %% [markdown]
"""
<details><summary>Hint</summary>

A locked path cannot get shorter, and a split moves nobody's end. What makes a look-up end *deeper* than before?

</details>

<details><summary>Solution</summary>

```python
def script_that_breaks_it():
    return Script(
        (),
        (
            ("insert", ([1, 2],)),
            ("lock", ("Anna", [1, 2, 3])),
            ("insert", ([1, 2, 3],)),
            ("lock", ("Ben", [1, 2, 3])),
            ("unlock", ("Anna",)),
        ),
    )
```

</details>

## What it cost

A lock or unlock is a step for every node on the path, as the match was. The other price is worse: a forgotten lock is room lost for good. Suppose one request in twenty is cancelled, and that branch forgets to unlock. The pool has 5,000 slots, and there is one reader at a time.
"""

# %%
cache, pool = RadixCache(), FreeListPool(5000)
for number in range(100_000):
    if (got := admit(cache, pool, desk_prompt(number))) is None:
        break
    if number % 20:
        cache.unlock(got[1])
print(f"request {number} is refused, though nobody else is there, and so is every one after it:")
print(cache, pool, sep="\n")
print("check() finds nothing wrong:", cache.check() is None)

# %% [markdown]
"""
The tree cannot tell a leak from a request that takes its time. The rule now at risk is *every lock is given back exactly once*: receipts see to "at most once"; "at least once" is chapter 07's business. Before that: of what is evictable, what goes first?

## In real engines

| here | SGLang | vLLM | mini-sglang | nano-vllm |
|---|---|---|---|---|
| `lock` | `inc_lock_ref` | `touch`, block by block | `lock_handle` | `ref_count += 1`, block by block |
| `unlock` | `dec_lock_ref` | `free` | `lock_handle(unlock=True)` | `deallocate` |
| `ref_count` | `lock_ref` of a node | `ref_cnt` of a block | `ref_count` of a node | `ref_count` of a block |
| lock, look for room, unlock | `_lock_node` | `allocate_slots` gives `None` | `_try_allocate_one` | `can_allocate` |
| one unlock too many | the plain tree counts to -1 | counts to -1 | an assertion, if below zero | - |
| `reset` under a lock | done | refused | not implemented | - |

With blocks there is no path: a request counts each of its blocks. In mini-sglang#52 the lock began at the *parent* of the node it should protect. In sglang#24972 a lock passed over a node whose contents were gone, they were brought back, and the unlock, walking anew, took somebody else's lock. SGLang's lock now returns a receipt, which unlock replays. It can also lock only a window of tokens, where a layer reads no more, and has other locks for host memory.

## Recap

A lock counts one on every node from a prompt's end to the root, and the two sizes change only when a count leaves 0 or returns to it. A split hands the count up, and a handle gives back what it took, once. Lock first and look for room then, because a request's own prefix is no room for it.

**Check yourself**

1. Two requests hold the same five tokens. How many are protected, and how many after the first unlocks?
2. In a tree that evicts leaves only, what goes wrong if just the last node is locked?
3. Why must the upper half of a split take over the count?
4. A request does not fit. What must be done with the lock it just took?

<details><summary>Answers</summary>

1. Five, and five: the count was 2 and is 1.
2. Nothing is lost, but the nodes above count as evictable, so more room is promised than can be made.
3. Whoever holds the lower half will take one from every node above it, the new one too.
4. It is given back, or a request that only waits protects tokens from those that run.

</details>

**Read on**: [RadixAttention, the paper](https://arxiv.org/abs/2312.07104) · [mini-sglang](https://github.com/sgl-project/mini-sglang) · [SGLang](https://github.com/sgl-project/sglang)
"""

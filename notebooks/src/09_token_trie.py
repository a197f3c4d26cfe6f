# %% [markdown]
"""
# 09 · What is the simplest index that works?

Your radix tree took three chapters. By the end of this one you will have a second index, in four new functions of about twenty-five lines: a **token trie**, with one token on each edge and nothing to split. You will use it in an engine without pages, where each request has one *row* of memory, and you will see where the first cache of AstrAI went wrong.

**After this chapter you will be able to** *build* an index that fits on one screen, *tell* by a version whether memory still holds what it held, and *say* what the radix tree buys.

{{time}} **Needs** chapters 02 to 05. **New words** token trie, stale, pin.

Here is where we are going. Each node is one token and names a row. Beside the trie you see what is in each row. Anna is running in row 0. Ben has finished in row 1, and what he left there can still be used.
"""

# %%
from minikv import draw

trie = RowTrie(3)
trie.finish(trie.start([1, 2, 3, 4]))
anna = trie.start([1, 2, 3, 4, 5])
ben = trie.start([1, 2, 3, 7])
trie.finish(ben)
draw(trie)

# %% [markdown]
"""
## The problem

The simplest engine has no pages and no page table. Its keys and values are an array `[row, position, layer, ...]`. A request takes a row and fills it from the left, so attention reads one block of memory. {{engines astrai}} It had {{engines astrai-rows}}.

When a request ends, its row still holds the keys and values of the whole conversation. Which later request can use them? Let's try the simplest index of all: a dictionary from a finished conversation to its row. The help desk of chapter 03 answers all its chats, turn by turn.
"""

# %%
import json

from minikv import asset

DESK = json.loads(asset("chats.json").read_text("utf-8"))
turns = []
for chat in DESK["chats"]:
    text = DESK["system"]
    for question, answer in chat:
        turns.append(list((text + question).encode()))
        text += question + answer
everything = sum(map(len, turns))

# %%
known, found = set(), 0
for prompt in turns:
    found += len(prompt) if tuple(prompt) in known else 0
    known.add(tuple(prompt))
print(f"{len(turns)} prompts: {found} of {everything:,} tokens found")

# %% [markdown]
"""
Nothing at all. No two prompts are *equal*; they only begin alike. The index has to find a beginning, of any length.

## Build it

### Step 1: one token, one node

Give each token a node, and each node a dictionary with the tokens that may come next. That is a trie (chapter 03). Looking up a prompt is a walk: one dictionary look-up for each token, until a token is missing.
"""

# %%
source(TokenNode)

# %% [markdown]
"""
The root stands before the first token. `tokens`, `slots`, `locks`, `older` and `newer` have the names that your functions of chapters 04 and 05 use. That will pay off in step 5.

#### 9.1 You write: `trie_find`

Return the list of the nodes that `tokens` lead through, without the root. The walk ends where the tokens do, or at the first token that is not there. It makes no nodes.
"""


# %%
def trie_find(root, tokens):
    """The nodes along `tokens`, from the first token on, as far as they are there."""
    raise NotImplementedError  # delete this line; about 7 lines to write


trie_find = check("9.1 trie_find", trie_find)

# %% [markdown]
"""
In chapter 03, `walk` had to compare runs of tokens and split an edge wherever a prompt left in the middle. A look-up could change the tree. Here two prompts can only part at a node.

### Step 2: a row with a version

A node names the row that holds the prefix ending at it. But rows are given back and taken again. When a stranger takes the row and overwrites it, hundreds of nodes may still name it. Who tells them?

Nobody. Count instead how often each row is handed out. That count is its *version*, and the `BitmaskPool` of chapter 02 keeps it. (The pool calls a row a page.) A node remembers row *and* version. When the row is taken anew, its version goes up, and all nodes that remember an older one are **stale** at once, without a search.

#### 9.2 You write: `is_current`

Is what the node says still true? `pool.version(row)` is the version of the row now. A new node has the row `None` and is not current. Think about a row that is *free*: has anybody overwritten it?
"""


# %%
def is_current(node, pool):
    """Whether the row of `node` still holds what it held when the node named it."""
    raise NotImplementedError  # delete this line; about 2 lines to write


is_current = check("9.2 is_current", is_current)

# %% [markdown]
"""
So a row has three states, not two: a request runs in it, or it is free, or it is **free and cached**: it belongs to nobody, and yet it is worth keeping. In chapter 02 every slot had exactly one owner.

#### 9.3 You write: `trie_insert`

A request has computed `tokens` in `row`. Make the nodes that are missing, and return all nodes of the prompt in a list. Every new node names the row and its version. Every stale node names them too, and is current again. A node that is current already keeps the row that it has.
"""


# %%
def trie_insert(root, tokens, row, pool):
    """Let the new and stale nodes of `tokens` name `row`; return all nodes in order."""
    raise NotImplementedError  # delete this line; about 9 lines to write


trie_insert = check("9.3 trie_insert", trie_insert)

# %% [markdown]
"""
Anna and Ben run at the same time: her prompt is in row 0, and his, which begins like hers, in row 1. She finishes first, then he does. Then a stranger takes row 0. To find a prefix, walk down with your `trie_find`, then go back up to the deepest node that is current.
"""


# %%
def after_a_stranger():
    trie = RowTrie(2)
    anna, ben = trie.start([1, 2, 3]), trie.start([1, 2, 7])
    trie.finish(anna), trie.finish(ben)
    trie.pool.occupy(0, renew=True)  # a stranger: row 0 has version 2 now
    trie.rows[0] = [8, 8, 8]
    return trie


guess("9.a", "how many tokens does find([1, 2, 7, 9]) still find?", None)

# %%
trie = after_a_stranger()
fold("9.a", len(trie.find([1, 2, 7, 9])), draw(trie))

# %% [markdown]
"""
<details><summary>Why</summary>

All three of `1 2 7`. The nodes `1` and `2` name row 0 and are stale. But the deepest node on the path decides. Node `7` names row 1, and row 1 holds the *whole* prefix `1 2 7`. For `[1, 2, 9]` the deepest node is a stale one, and there is no current node above it. So `find` returns nothing, although row 1 begins with `1 2`.

</details>

### Step 3: take a row, or copy

Here is everything around your functions.
"""

# %%
source(RowTrie)

# %% [markdown]
"""
`start` finds the prefix, and `take_row` decides where the request will run. If nobody runs in the row that holds the prefix, take over that row: not one byte is copied. If somebody runs there, take a fresh row and copy the prefix.

The second case costs time. The first is dangerous. Anna's prompt `1 2 3 4 5` is cached in row 0, which is free. Ben asks for `1 2 8 9`, and takes over row 0. AstrAI reasoned that the row is still valid, and so it {{engines astrai-occupy-version}}. Ben writes his `8 9` behind the prefix.
"""

# %%
guess("9.b", "how many of Anna's five tokens does the trie still find?", None)

# %%
trie = RowTrie(1)
trie.finish(trie.start([1, 2, 3, 4, 5]))
trie.pool.occupy(0)  # Ben takes row 0, which keeps its version
trie.rows[0] = [1, 2, 8, 9]
fold("9.b", len(trie.find([1, 2, 3, 4, 5])), draw(trie))

# %% [markdown]
"""
<details><summary>Why</summary>

All five. The nodes `3`, `4` and `5` remember row 0 with version 1, and row 0 *has* version 1. But it holds `8 9` there. Anna's next turn would read Ben's keys and values. Two owners had the same row with the same version, so the pair says nothing any more.

</details>

#### 9.4 You write: `take_row`

`path` is the list of nodes that `find` returned; its last node names the row with the prefix. Return two things: the row to run in, and whether the prefix has to be copied there.

`pool.is_free(row)` tells whether nobody runs in a row. A fresh row comes from `pool.alloc(1)`, which raises `OutOfPages` if there is none. To take over a free row, call `pool.occupy(row, renew=True)`, which *always* counts its version up. Now all nodes that named the row are stale, those of the prefix too. But the prefix is still in the row. Give each node of `path` that is not current the row and its new version.
"""


# %%
def take_row(pool, path):
    """Take a row for a request whose cached prefix is `path`.

    Return the row, and whether the prefix has to be copied into it.
    """
    raise NotImplementedError  # delete this line; about 8 lines to write


take_row = check("9.4 take_row", take_row)

# %% [markdown]
"""
Anna, Ben and Cleo share two tokens. Anna has finished. Ben begins, then Cleo, and both run at the same time.
"""

# %%
guess("9.c", "in which rows do Ben and Cleo run? [., .]", None)

# %%
trie = RowTrie(3)
trie.finish(trie.start([1, 2, 3, 4]))
ben, cleo = trie.start([1, 2, 7, 7]), trie.start([1, 2, 8, 8])
fold("9.c", [ben.row, cleo.row], f"Ben: {ben}. Cleo: {cleo}", draw(trie))

# %% [markdown]
"""
<details><summary>Why</summary>

Ben takes over row 0 and copies nothing. For Cleo the prefix is in row 0 too, but Ben runs there, so she copies two tokens into row 1. Anna's `3` and `4` became stale when Ben took her row. Her tail is the price of his free start.

</details>

A copy must look at the version too, just before it is made. AstrAI's first one did not; see {{engines astrai-copy}}. Here the last node of what `find` returns is never stale, and nothing comes between it and the copy.

Now the help desk again, with four rows and one request at a time.
"""

# %%
trie, found = RowTrie(4, max_nodes=100_000), 0
for prompt in turns:
    request = trie.start(prompt)
    assert trie.rows[request.row] == prompt
    found += len(request.path)
    trie.finish(request)
print(f"{found:,} of {everything:,} tokens found: {found / everything:.0%}")

# %% [markdown]
"""
### Step 4: should the newest row win?

When a prompt is inserted again, your `trie_insert` leaves current nodes alone. AstrAI {{engines astrai-newest}}. One advantage is that a node whose row was recycled gets a good row again; yours heals such nodes, too. But newest wins has a price. Anna runs in row 0, in the second turn of a long conversation. Ben shares three tokens with her, and finishes in row 1. A stranger takes the lowest free row, which is row 1.
"""


# %%
def shared_tokens_left(newest_wins):
    trie = RowTrie(3)
    trie.finish(trie.start([1, 2, 3, 4]))
    trie.start([1, 2, 3, 4, 5])  # Anna runs on in row 0
    ben = trie.start([1, 2, 3, 7])
    trie.finish(ben)
    for node in trie_find(trie.root, [1, 2, 3]) if newest_wins else []:
        node.row, node.version = ben.row, trie.pool.version(ben.row)
    trie.start([9, 9])  # the stranger
    return len(trie.find([1, 2, 3]))


# %%
guess("9.d", "how many of the 3 shared tokens are found? [yours, newest wins]", None)

# %%
fold("9.d", [shared_tokens_left(False), shared_tokens_left(True)])

# %% [markdown]
"""
<details><summary>Why</summary>

Row 0 is in use and cannot be recycled, so the nodes that name it are safe. Newest wins moved the three nodes to row 1, which was free by then and went to the stranger. Their keys and values are still in row 0, but no node says so.

</details>

### Step 5: pin the path, evict the leaf

A trie of one node a token grows fast, so it has a capacity in nodes. A running request must **pin** its path: it locks it, so that no node of it is evicted. Look at `start` and `finish` once more: they call `lock`, `unlock`, `touch` and `evict`. These are *your functions of chapters 04 and 05*. They need a parent, a count of locks and a place in the ring, whatever a node stands for.

AstrAI wrote its own. `OrderedTrie` behaves as that cache did.
"""

# %%
from minikv.course.pieces.designs import OrderedTrie

source(OrderedTrie.insert, OrderedTrie.find, OrderedTrie.release)

# %% [markdown]
"""
All nodes are in one ordered dictionary, and a leaf is treated like any other. You know from chapter 05 what that means. Here it happens in a trie with room for three nodes, which holds `1 2 3`. Nobody has pinned it. Then `9` is inserted.
"""

# %%
guess("9.e", 'which token\'s node is evicted: "1", "2", "3" or "9"?', None)

# %%
trie = OrderedTrie(capacity=3)
trie.insert([1, 2, 3], row=0)
trie.release([1, 2, 3])
path = trie.path([1, 2, 3])
trie.insert([9], row=1)
gone = [token for token, node in zip("123", path) if node not in trie.order]
fold("9.e", gone[0], draw(trie.root))

# %% [markdown]
"""
<details><summary>Why</summary>

The insert reaches `1` first, so `1` is the oldest: the *parent* goes first. Its children are cut off, but stay in the dictionary. And the husk of `1` itself still hangs on the root.

</details>

## The same in `minikv`

The design has two halves, and the package has both. `TokenTrie` has one *slot* for each node and keeps the contract of your `RadixCache`, so it runs in the same manager and engine. It finds the same slots:
"""

# %%
import random

import minikv

# %%
chance, slot = random.Random(9), 0
tree, trie = minikv.RadixCache(), minikv.TokenTrie()
for _ in range(1000):
    tokens = chance.choices([0, 1], k=chance.randint(1, 12))
    assert [*tree.match_prefix(tokens).slots] == [*trie.match_prefix(tokens).slots]
    for cache in (tree, trie):
        cache.insert(tokens, range(slot, slot + len(tokens)))
    slot += len(tokens)
print(f"equal in 1000 rounds, with {trie.total_size} tokens in both")

# %% [markdown]
"""
`RowCache` is your `RowTrie`, for arrays of numpy or torch. Where the deepest node is stale, it looks for a current node *below* it, because that one's row begins with the same tokens. Of the free rows it takes one that no node names, or else the one that was given back first; yours takes the lowest. And `publish` puts a prompt into the trie after its prefill, while the request still runs; yours waits for the end. What is that worth?
"""

# %%
yours, ours, running = RowTrie(4), minikv.RowCache(4), []
chance, found = random.Random(9), [0, 0]
for _ in range(1000):
    tokens = chance.choices([1, 2], weights=[3, 1], k=chance.randint(2, 8))
    pair = yours.start(tokens), ours.start(tokens)
    assert yours.rows[pair[0].row] == tokens
    found = [found[0] + pair[0].found, found[1] + pair[1].found]
    ours.publish(pair[1]), running.append(pair)
    if len(running) > 2:
        one, other = running.pop(0)
        yours.finish(one), ours.finish(other)
print(f"found in 1000 requests: yours {found[0]}, minikv {found[1]}; {ours.states()}")

# %% [markdown]
"""
The `assert` is a canary: each row in your `RowTrie` holds its request's tokens. AstrAI publishes after the prefill, too. That is worth most in a burst: four readers ask one new question.
"""

# %%
yours, ours, question = RowTrie(4), minikv.RowCache(4), list(b"Why is my invoice late?")
for _ in range(4):
    late, early = yours.start(question), ours.start(question)
    ours.publish(early)
    print(f"found of {len(question)} tokens: yours {late.found}, minikv {early.found}")

# %% [markdown]
"""
### What went wrong elsewhere

Here are four everyday things in an `OrderedTrie` with room for three nodes. `outcome` says what comes of them, and stops whatever doesn't end.
"""

# %%
from minikv.course.pieces.designs import outcome


def served(*tokens):
    return ("insert", tokens), ("release", tokens)


pinned = [("insert", (token,)) for token in (6, 7, 8, 9)]
print("find again:   ", outcome(*served(1, 2, 3), *served(9), ("find", (1, 2, 3))))
print("too long:     ", outcome(*served(1, 2, 3, 4, 5), ("find", (1, 2, 3))))
print("all pinned:   ", outcome(*pinned))
print("pinned prefix:", outcome(("insert", (1, 2)), *pinned[:2], ("find", (1, 2))))

# %% [markdown]
"""
In order:

- A look-up meets the husk and moves a node that is no longer in the dictionary. The same happened in {{engines astrai-keyerror}}.
- A prompt longer than the capacity evicts its own beginning, and its next look-up meets that husk.
- When everything is pinned, the search for a victim never ends. The same happened in {{engines astrai-endless}}. It takes little to get there, because `insert` {{engines astrai-insert-pins}}: the caller has to release once for each insert.
- AstrAI's {{engines astrai-pin}} counts on the last node alone. Its parent may be evicted, and then no walk reaches the pinned node.

The husks are a leak, too. Fifty prompts of two tokens go into each trie, with room for ten nodes.
"""

# %%
from minikv.course.pieces.observe import preorder

ordered, yours = OrderedTrie(capacity=10), RowTrie(2, max_nodes=10)
for number in range(50):
    prompt = [number, 100 + number]
    ordered.insert(prompt, 0)
    ordered.release(prompt)
    yours.finish(yours.start(prompt))
for name, root in (("OrderedTrie", ordered.root), ("yours", yours.root)):
    print(f"{name:12} {len(preorder(root))} nodes can be reached, and it may have 10")

# %% [markdown]
"""
Yours stays within its capacity. `touch` puts the newest path at the young end of the ring, and the last token of the path is the oldest there. So a prompt that is too long loses its tail, and a prefix remains.

## Play

Step through the film: a manager with room for eight tokens, over a `TokenTrie`. Three prompts come, one after the other. Before you move on from each, say which tokens have to go to make room for the next one.
"""

# %%
from minikv import CacheManager, TokenTrie, record

manager = CacheManager(8, prefix_cache=TokenTrie())
with record(manager) as film:
    for prompt in ([1, 2, 3, 4], [1, 2, 7, 8], [1, 2, 3, 5, 6, 9]):
        with manager.request(prompt) as sequence:
            manager.advance(sequence)
film.player()

# %% [markdown]
"""
## More to try

#### 9.5 Design: which row?

Your pool takes the lowest free row. That may be the one with the longest conversation in it. Write `pick_row(used, named)`. `used[row]` is the time at which the row was given back, or `None` while a request runs in it. `named[row]` is how many current nodes name it. Take a free row that no node names, the lowest of several. If all free rows are cached, take the one given back longest ago. Return `None` if no row is free.

Then think further: a row with a thousand cached tokens, and one with ten, were given back at almost the same time. Which would *you* take?
"""


# %%
def pick_row(used, named):
    raise NotImplementedError  # delete this line; about 5 lines to write


check("9.5 pick_row", pick_row)

# %% [markdown]
"""
<details><summary>Hint</summary>

Make a list of the free rows first. If there are some that no node names, take the first of those. Otherwise use `min` with a key: the time at which the row was given back.

</details>

<details><summary>Solution</summary>

```python
def pick_row(used, named):
    free = [row for row, time in enumerate(used) if time is not None]
    empty = [row for row in free if not named[row]]
    if empty:
        return empty[0]
    return min(free, key=lambda row: used[row], default=None)
```

</details>

#### 9.6 Bug hunt: a row that keeps its version

This `take_row` forgets one thing. Your function is given a `RowTrie` with it and two rows. Write calls of its `start` and `finish` on which a request reads what another one wrote: `check` compares what the row holds of the prefix that each start finds.
"""

# %%
from minikv.course.pieces import careless

careless("9.6")


# %%
def calls_that_expose_it(rows):
    raise NotImplementedError  # delete this line, and add calls to the others
    anna = rows.start([1, 2, 3])
    rows.finish(anna)


check("9.6 careless_take_row", calls_that_expose_it)

# %% [markdown]
"""
<details><summary>Hint</summary>

Ben shares one token with Anna and goes on with others. What happens when Anna's tokens are asked for after that?

</details>

<details><summary>Solution</summary>

```python
def calls_that_expose_it(rows):
    anna = rows.start([1, 2, 3])
    rows.finish(anna)
    ben = rows.start([1, 9, 9])
    rows.finish(ben)
    cleo = rows.start([1, 2, 3, 4])
```

</details>

## What it cost

The trie is simple because it keeps one node for each token. Here are both indexes with the prompts of the help desk, and the nodes that a look-up of the last prompt visits.
"""

# %%
print("             nodes   tokens a node   nodes visited   tokens cached")
for make in (minikv.RadixCache, minikv.TokenTrie):
    cache, slot = make(), 0
    for prompt in turns:
        cache.insert(prompt, range(slot, slot + len(prompt)))
        slot += len(prompt)
    node, visited = cache.match_prefix(turns[-1]).node, 0
    while node.parent is not None:
        node, visited = node.parent, visited + 1
    nodes, size = len(list(cache.nodes())), cache.total_size
    print(f"{make.__name__:10} {nodes:7} {size / nodes:15.1f} {visited:15} {size:15}")

# %% [markdown]
"""
A node is an object with a dictionary in it. The next cell measures bytes and time on the machine that runs it; its output is not stored.
"""

# %% tags=["nbval-ignore-output", "measured"]
import tracemalloc
from timeit import timeit

for make in (minikv.RadixCache, minikv.TokenTrie):
    tracemalloc.start()
    cache = make()
    cache.insert(range(20_000), range(20_000))
    size = tracemalloc.get_traced_memory()[0] / 20_000
    tracemalloc.stop()
    seconds = timeit(lambda: cache.match_prefix(range(20_000)), number=5) / 5
    print(f"{make.__name__:10} {size:6.1f} bytes and {seconds * 5e4:6.1f} ns a token")

# %% [markdown]
"""
The rows have a price of their own. Each is as long as the longest conversation may become, whether it is used or not. Nothing is shared while two requests run: a prefix is copied. And there are never more cached conversations than rows. Pages (chapter 01) have none of these problems, which is why the big engines have pages.

The invariant that is at risk now is *an equal version means equal content*. It holds only if every way to take a row counts its version up.

## In real engines

{{engines 09}}

None of these four has one node a token, or gives a request one piece of memory. AstrAI did both for two days in May 2026; today it has {{engines astrai-now}}. Two things in its source are only promises. Every node stores the {{engines astrai-last-access}} "for LRU ordering", which is written and never read, and {{engines astrai-stop}} is not used at all. Its release keeps {{engines astrai-preserved}}: the third state, free and cached. And its copy takes the number of layers from the caller, which may be fewer than the array has; `RowCache` does the same with `num_layers=`.

## Recap

A token trie needs no splits, because prompts can only part at a node; it pays with a node for each token. A version tells whether what a node says about a row is still true, but only if every way to take a row counts it up. Locks on whole paths and eviction from the leaves are the same here as in the radix tree, and without them the same things go wrong.

**Check yourself**

1. A node is stale, and the node below it is current. How many tokens can a prompt that goes on behind the lower one reuse?
2. Why must the version go up even when a row is taken over by a request that begins with what is in it?
3. From chapter 05: a path is touched from its end to its beginning. What goes wrong the other way around?
4. From chapter 04: why is it not enough to lock the last node of a prefix?

<details><summary>Answers</summary>

1. All tokens down to the lower node: its row holds the whole prefix.
2. The request overwrites what was behind the prefix in that row, and other nodes may still name it.
3. The oldest node is then a parent, and its children are lost.
4. A node above it can be evicted, and then no walk reaches the prefix.

</details>

**Read on**: [AstrAI](https://github.com/ViperEkura/AstrAI) · [Tries, in Sedgewick and Wayne's Algorithms](https://algs4.cs.princeton.edu/52trie/)
"""

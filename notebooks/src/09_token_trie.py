# %% [markdown]
"""
# 09 · What is the simplest index that works?

Your radix tree took three chapters. This one builds an index from four short functions: a **token trie**, with one token per node. Its nodes name *rows* of memory, which are reused, and a version shows which nodes are out of date.

**After this chapter you will be able to** *build* an index that fits on one screen, *use* a version to tell whether memory has been reused, and *explain* what a radix tree does better.

{{time}} **Needs** chapters 02 to 05. **New words** token trie, stale, pin.

**In this notebook already** `lock`, `unlock`, `touch` and `evict` from chapters 04 and 05 (yours if they have passed, otherwise the package's), and `RowTrie`, the class around your functions.

Here is where we are going. Each node has one token and names a row. Both requests have finished, so their rows are free, but the contents can still be used.
"""

# %%
from minikv import draw, play

trie = RowTrie(3)
anna, ben = trie.start([5, 6, 7, 8]), trie.start([5, 6, 9])
trie.finish(ben), trie.finish(anna)
draw(trie)

# %% [markdown]
"""
## The problem

The simplest engine has no pages. Each request fills one row, here a stretch of memory, so attention reads one contiguous piece. From [April 8](https://github.com/ViperEkura/AstrAI/commit/ab5e207f42ae54bec0bc8f370b20a352ec6fbbb6) to [May 8](https://github.com/ViperEkura/AstrAI/commit/30cc2d67a417fd9a2e022b40845280bded9e22f6), 2026, an early cache of AstrAI, a small serving framework, had {{engines astrai-rows|a row for each request}}; the project now has {{engines astrai-now|pages and a radix tree}}.

A finished request leaves its keys and values in its row. Which later requests can use them? Let's try a set of finished prompts on the help desk from chapter 03.
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
It finds nothing, because no two prompts are *equal*. We need an index that finds a shared beginning.

## Build it

### Step 1: one token, one node

In a trie (chapter 03), each token has a node, and `node.children` maps each possible next token to its node. The root comes before the first token.
"""

# %%
source(TokenNode)

# %% [markdown]
"""
The attributes `tokens`, `slots`, `locks`, `older` and `newer` are used by the functions from chapters 04 and 05.

#### 9.1 You write: `trie_find` (5 minutes)

Return a list of nodes, without the root, and create none. Use a loop, because a long prompt would exceed Python's recursion limit.

*Test it first* (optional, 5 minutes): try empty, unknown and long prompts.
"""


# %%
def test_trie_find(trie_find):
    """Fail if `trie_find` is wrong."""
    root = TokenNode()
    one = root.children[1] = TokenNode(1, root)
    two = one.children[2] = TokenNode(2, one)
    raise NotImplementedError  # `assert` what must be true of trie_find(root, ...)


catch("9.1 trie_find", test_trie_find)


# %%
def trie_find(root, tokens):
    """Return the nodes that `tokens` lead through, as far as the trie goes."""
    raise NotImplementedError  # delete this line; about 7 lines to write


trie_find = check("9.1 trie_find", trie_find)

# %% [markdown]
"""
### Step 2: a row with a version

Each node names the row that holds the prefix ending there. But rows are handed out again, and hundreds of nodes may still name a row that another request has overwritten. So the pool counts how often each row has been handed out, and a node stores its row with this count, the row's *version*. When the row is handed out again, its version goes up, and every node that stores an older one is **stale** at once.

| call | what it returns |
|---|---|
| `pool.version(row)` | how often the row has been handed out |
| `pool.is_free(row)` | `True` if no request is running in the row |
| `pool.alloc(1)` | an array with the number of the lowest free row; raises `OutOfPages` if there is none |
| `pool.occupy(row, renew=True)` | nothing: it takes this free row and raises its version |
| `TokenNode(token, parent)` | a new node with the row `None`, not yet in `parent.children` |

#### 9.2 You write: `is_current` (5 minutes)

A node is *current* if its row still holds its prefix; a new node, with the row `None`, is not. If the row is *free*, has anybody overwritten it?
"""


# %%
def is_current(node, pool):
    """Return whether the row of `node` still holds what it did when `node` named it."""
    raise NotImplementedError  # delete this line; about 2 lines to write


is_current = check("9.2 is_current", is_current)

# %% [markdown]
"""
#### 9.3 You write: `trie_insert` (10 minutes)

A request has computed `tokens` in `row`. Create the missing nodes, and set `row` and `version` on every new or stale node; a current node keeps its row. Don't replace a stale node, because another request may have locked it. Return a list of all nodes of the prompt.
"""


# %%
def trie_insert(root, tokens, row, pool):
    """Make new and stale nodes of `tokens` name `row`; return all nodes in order."""
    raise NotImplementedError  # delete this line; about 9 lines to write


trie_insert = check("9.3 trie_insert", trie_insert)

# %% [markdown]
"""
Anna's prompt `1 2 3` is in row 0, and Ben's prompt `1 2 7` is in row 1. Anna finishes first, then Ben, and then another request gets row 0. To look up a prompt, `find` walks down with your `trie_find` and then back up to the deepest node that is current. How many tokens does `find([1, 2, 7, 9])` still find?
"""

# %%
guess("9.a", "how many tokens does find([1, 2, 7, 9]) still find?", None)

# %%
trie = RowTrie(2)
anna, ben = trie.start([1, 2, 3]), trie.start([1, 2, 7])
trie.finish(anna), trie.finish(ben)
trie.pool.occupy(0, renew=True)  # another request: row 0 has version 2 now
trie.rows[0] = [8, 8, 8]
fold("9.a", len(trie.find([1, 2, 7, 9])), draw(trie))

# %% [markdown]
"""
<details><summary>Why</summary>

Three, all of `1 2 7`. Node `7` names row 1, which holds the *whole* prefix, so the nodes above it don't matter.

</details>

And how many does `find([1, 2, 9])` find?
"""

# %%
guess("9.b", "how many tokens does find([1, 2, 9]) find?", None)

# %%
fold("9.b", len(trie.find([1, 2, 9])))

# %% [markdown]
"""
<details><summary>Why</summary>

None. Row 1 does begin with `1 2`, but both nodes on this path name row 0 and are stale, and `find` looks no further down.

</details>

### Step 3: take over a row, or copy

Here is the whole class. A `RowRequest` keeps the values it is given.
"""

# %%
source(RowTrie)

# %% [markdown]
"""
`start` begins a request: it finds the prefix, and `take_row` chooses a row. If the row with the prefix is free, the request takes it over, and nothing is copied. Otherwise it gets a fresh row and a copy of the prefix. A running request must also **pin** its path: `start` locks the path, so none of its nodes can be evicted.

Anna's prompt `1 2 3 4 5` is cached in row 0, which is free. Ben asks for `1 2 8 9`, takes over row 0, and writes `8 9` after the prefix. In such a case, the early cache above {{engines astrai-occupy-version|did not raise the version}}. With that rule, how many of Anna's tokens would the trie still find?
"""

# %%
guess("9.c", "how many of Anna's tokens would the trie still find?", None)

# %%
trie = RowTrie(1)
trie.finish(trie.start([1, 2, 3, 4, 5]))
trie.pool.occupy(0)  # Ben takes row 0, which keeps its version
trie.rows[0] = [1, 2, 8, 9]
fold("9.c", len(trie.find([1, 2, 3, 4, 5])), draw(trie))

# %% [markdown]
"""
<details><summary>Why</summary>

All five. The nodes `3`, `4` and `5` store row 0 with version 1, and row 0 *has* version 1, but it now holds `8 9` there. Anna's next turn would read Ben's keys and values.

</details>

#### 9.4 You write: `take_row` (15 minutes)

`path` is the list of nodes that `find` returned, and it may be empty. Its last node names the row with the prefix. Let an `OutOfPages` from `alloc` pass through.

To take over a free row, call `pool.occupy(row, renew=True)`. This makes every node that named the row stale, even those of the prefix, which is still there. So set the row and its new version on each stale node of `path`. A node that is current in another row keeps that row.
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
Now Ben takes over Anna's row with your `take_row` and finishes, and then Anna takes it back for `1 2 3 4 5 6` and finishes too. How many tokens of this prompt and of Ben's does the trie find now?
"""

# %%
guess("9.d", "how many tokens of each does it find? [Anna's, Ben's]", None)

# %%
trie, anna, ben = RowTrie(1), [1, 2, 3, 4, 5, 6], [1, 2, 8, 9]
for prompt in (anna[:5], ben, anna):
    trie.finish(trie.start(prompt))
fold("9.d", [len(trie.find(prompt)) for prompt in (anna, ben)], draw(trie))

# %% [markdown]
"""
<details><summary>Why</summary>

Six and two. The new version makes all nodes stale, `take_row` renews `1` and `2`, and `trie_insert` renews the rest. Losing all others is the price of starting without a copy.

</details>

Now three prompts share their first two tokens, and there are three rows. Anna has finished in row 0. Ben starts, then Cleo, and both keep running. In which rows do they run?
"""

# %%
guess("9.e", "in which rows do they run? [Ben's row, Cleo's row]", None)

# %%
trie = RowTrie(3)
trie.finish(trie.start([1, 2, 3, 4]))
ben, cleo = trie.start([1, 2, 7, 7]), trie.start([1, 2, 8, 8])
fold("9.e", [ben.row, cleo.row], f"Ben: {ben}. Cleo: {cleo}", draw(trie))

# %% [markdown]
"""
<details><summary>Why</summary>

Ben takes over row 0 and copies nothing. Cleo's prefix is in row 0 too, but Ben is running there, so she gets a copy in row 1.

</details>

Here is the help desk again, with four rows and one request at a time. Each `start` raises one version instead of searching the whole trie.
"""

# %%
trie, found = RowTrie(4, max_nodes=100_000), 0
for prompt in turns:
    request = trie.start(prompt)
    assert trie.rows[request.row] == prompt
    found += len(request.path)
    trie.finish(request)
print(f"{found:,} of {everything:,} tokens found: {found / everything:.0%}")
print(f"a search for stale nodes would visit {trie.evictable} nodes")

# %% [markdown]
"""
## The same in `minikv`

The package's `TokenTrie` has one *slot* per node, and no rows. It has the methods of `RadixCache`, so it runs in the same manager and engine, and finds the same slots:
"""

# %%
import random

import minikv
from minikv import TokenTrie

# %%
chance, slot = random.Random(9), 0
tree, trie = minikv.RadixCache(), TokenTrie()
for _ in range(1000):
    tokens = chance.choices([0, 1], k=chance.randint(1, 12))
    assert [*tree.match_prefix(tokens).slots] == [*trie.match_prefix(tokens).slots]
    for cache in (tree, trie):
        cache.insert(tokens, range(slot, slot + len(tokens)))
    slot += len(tokens)
print(f"equal in 1000 rounds, with {trie.total_size} tokens in both")

# %% [markdown]
"""
## Play

Anna's prompt is cached in row 0. Before each step, say which row is taken and which nodes become stale.
"""

# %%
trie, steps, running = RowTrie(2), [], {}
trie.finish(trie.start([1, 2, 3, 4]))
for act in ("Ben starts 1 2 7", "Cleo starts 1 2 8", "Cleo finishes", "Ben finishes",
            "Dan starts 5 6", "Eve starts 1 2 8 9"):  # fmt: skip
    name, verb, *tokens = act.split()
    steps.append((f"before: {act}", draw(trie)))
    if verb == "starts":
        running[name] = trie.start([*map(int, tokens)])
    else:
        trie.finish(running[name])
    steps.append((f"after: {act}", draw(trie)))
play(steps)

# %% [markdown]
"""
## More to try

#### 9.5 Design: which row?

The pool takes the lowest free row, which may hold the longest conversation. Write `pick_row(used, named)`, which returns a better one: the lowest free row that no current node names, or else the free row that was given back first, or `None` if none is free. `used[row]` is the time when the row was given back, or `None` while a request is running in it, and `named[row]` counts the current nodes that name it.
"""


# %%
def pick_row(used, named):
    raise NotImplementedError  # delete this line; about 5 lines to write


check("9.5 pick_row", pick_row)

# %% [markdown]
"""
<details><summary>Hint</summary>

List the free rows. If no node names some of them, take the first of these. Otherwise use `min` with a key.

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

This `take_row` forgets one thing. Your function receives a two-row `RowTrie` that uses it. Write calls of `start` and `finish` after which a request reads what another one wrote. `check` compares each prefix that `start` finds with the row.
"""

# %%
careless("9.6")


# %%
def calls_that_expose_it(rows):
    raise NotImplementedError  # delete this line, and add more calls
    anna = rows.start([1, 2, 3])
    rows.finish(anna)


check("9.6 careless_take_row", calls_that_expose_it)

# %% [markdown]
"""
<details><summary>Hint</summary>

Let Ben share only one token with Anna. What if somebody asks for Anna's tokens afterwards?

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

One node per token adds up. Here are both indexes with the help desk's prompts, and the nodes that a lookup of the last one visits.
"""

# %%
print("             nodes tokens per node   nodes visited   tokens cached")
for make in (minikv.RadixCache, TokenTrie):
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
Rows have a price, too: each is as long as the longest possible conversation, and running requests share nothing. The invariant is that *equal versions mean equal contents*.

## In real engines

{{engines 09|what a node holds; a request's memory}}

None of these engines has one node per token or a contiguous row for each request.

## Recap

A token trie needs no splits, but it has one node per token. Each node stores a row and its version, so handing the row out again makes its nodes stale without a search. Taking a row must raise its version, and taking one over renews only the nodes of the prefix.

**Check yourself**

1. Why does a lookup change nothing here, unlike in chapter 03?
2. Why must the version go up even if a request takes over a row that begins with its own tokens?
3. From chapter 05: why is a path touched from its end to its beginning?
4. From chapter 04: why is it not enough to lock the last node of a prefix?

<details><summary>Answers</summary>

1. Prompts can only diverge at a node, so there is no edge to split.
2. The request overwrites what came after the prefix, which other nodes still name.
3. Otherwise a parent would be older than its children, which would be lost with it.
4. The nodes above it could be evicted, so no walk would reach it.

</details>

**Read on**: [Tries, in Sedgewick and Wayne's Algorithms](https://algs4.cs.princeton.edu/52trie/)
"""

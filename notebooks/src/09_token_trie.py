# %% [markdown]
"""
# 09 · What is the simplest index that works?

Your radix tree took three chapters. By the end of this one you will have a second index, in four new functions, about twenty-five lines: a **token trie**, with one token on each edge and nothing to split. You will use it in an engine without pages, where each request has one *row* of memory, and you will see where the first cache of AstrAI went wrong.

**After this chapter you will be able to** *build* an index that fits on one screen, *use* a version to tell whether memory still holds what it held, and *explain* what the radix tree buys.

{{time}} **Needs** chapters 02 to 05. **New words** token trie, stale, pin.

**In this notebook already** `lock`, `unlock`, `touch` and `evict` from chapters 04 and 05 (your versions if they have passed, otherwise the package's), and the `BitmaskPool` from the end of chapter 02. Also `RowTrie`, a trie with its rows. It calls your functions, and step 3 shows it: `start(tokens)` begins a request and returns it, and `finish(request)` ends it.

Here is where we are going. Each node is one token and names a row. Next to the trie you see what is in each row. Anna is running in row 0. Ben has finished in row 1, and the tokens he left there can still be used.
"""

# %%
from minikv import draw

trie = RowTrie(3)
trie.finish(trie.start([5, 6, 7]))
anna = trie.start([5, 6, 7, 8])
ben = trie.start([5, 6, 9])
trie.finish(ben)
draw(trie)

# %% [markdown]
"""
## The problem

The simplest engine has no pages and no page table. Its keys and values are in an array `[row, position, layer, ...]`. A request takes a row and fills it from the left, so attention reads one contiguous piece of memory. {{engines astrai}} That engine had {{engines astrai-rows}}.

When a request ends, its row still holds the keys and values of the whole conversation. Which later requests can use them? Let's try the simplest index of all: a dictionary that maps a finished conversation to its row. The help desk of chapter 03 answers all its chats, turn by turn.
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
Nothing at all. No two prompts are *equal*; they only start the same. The index has to find a shared beginning of any length.

## Build it

### Step 1: one token, one node

Give each token a node, and give each node a dictionary of the tokens that can come next. That is a trie (chapter 03). Looking up a prompt is a walk: one dictionary lookup per token, until a token is missing.
"""

# %%
source(TokenNode)

# %% [markdown]
"""
The root comes before the first token. `node.children` maps a token to the child node. The attributes `tokens`, `slots`, `locks`, `older` and `newer` are there because your functions from chapters 04 and 05 use them. That will pay off in step 5.

#### 9.1 You write: `trie_find` (5 minutes)

Return a list of the nodes that `tokens` lead through, without the root. The walk stops at the end of the tokens, or at the first token that is missing. It creates no nodes. A prompt may exceed Python's recursion limit: use a loop.

*Test it first* (optional, 5 minutes): empty, missing, long prompts?
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
In chapter 03, a lookup could split an edge and so change the tree. In a trie, two prompts can only part at a node, so a lookup never changes anything.

### Step 2: a row with a version

Each node names a row: the row that holds the prefix ending at that node. But rows are given back and handed out again. When a stranger's request gets the row and overwrites it, hundreds of nodes may still name it. Who tells them?

Nobody does. Instead, count how often each row has been handed out. That count is the row's *version*, and the `BitmaskPool` of chapter 02 keeps it. A node stores the row *and* its version. When the row is handed out again, its version goes up, and every node that stores an older version is **stale** at once, without any search.

These are the calls that your next three functions need:

| call | what it returns |
|---|---|
| `pool.version(row)` | how often the row has been handed out, an `int` |
| `pool.is_free(row)` | `True` if nobody is running in the row |
| `pool.alloc(1)` | an array that holds the number of one free row; raises `OutOfPages` if there is none |
| `pool.occupy(row, renew=True)` | nothing: it takes this free row and raises its version |
| `TokenNode(token, parent)` | a new node, whose `row` is `None`; you still have to put it into `parent.children` |

#### 9.2 You write: `is_current` (5 minutes)

Is what the node says still true? A new node has the row `None` and is not current. Think about a row that is *free*: has anybody overwritten it?
"""


# %%
def is_current(node, pool):
    """Return whether the row of `node` still holds what it did when `node` named it."""
    raise NotImplementedError  # delete this line; about 2 lines to write


is_current = check("9.2 is_current", is_current)

# %% [markdown]
"""
So a row has three states, not two. A request is running in it, or it is free, or it is **free and cached**: it belongs to nobody, and yet it is worth keeping. In chapter 02 every slot had exactly one owner.

#### 9.3 You write: `trie_insert` (10 minutes)

A request has computed `tokens` in `row`. Create the missing nodes, and return all nodes of the prompt in a list, in order. Set `row` and `version` on every new node, and on every stale one, which makes it current again. A node that is already current keeps its row. Don't replace a stale node by a new one: another request may have locked it.
"""


# %%
def trie_insert(root, tokens, row, pool):
    """Make new and stale nodes of `tokens` name `row`; return all nodes in order."""
    raise NotImplementedError  # delete this line; about 9 lines to write


trie_insert = check("9.3 trie_insert", trie_insert)

# %% [markdown]
"""
Anna and Ben run at the same time. Her prompt is in row 0. His prompt, which begins like hers, is in row 1. Anna finishes first, then Ben. Then a stranger gets row 0. To find a prefix, `find` walks down with your `trie_find`, and then goes back up to the deepest node that is current.
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

All three of `1 2 7`. The nodes `1` and `2` name row 0 and are stale. But the deepest node on the path decides. Node `7` names row 1, and row 1 holds the *whole* prefix `1 2 7`. For `[1, 2, 9]`, the deepest node on the path is stale, and there is no current node above it. So `find` returns nothing, although row 1 begins with `1 2`.

</details>

### Step 3: take a row, or copy

Here is the class around your functions. A `RowRequest` keeps the four values it gets.
"""

# %%
source(RowTrie)

# %% [markdown]
"""
`start` finds the prefix, and `take_row` decides where the request will run. If nobody is running in the row that holds the prefix, the request takes over that row, and nothing is copied. If somebody is running there, the request gets a fresh row, and the prefix is copied into it.

The second case costs time. The first case is dangerous. Anna's prompt `1 2 3 4 5` is cached in row 0, which is free. Ben asks for `1 2 8 9` and takes over row 0. AstrAI assumed that the row is still valid, so it {{engines astrai-occupy-version}}. Then Ben writes his `8 9` after the prefix.
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

All five. The nodes `3`, `4` and `5` store row 0 with version 1, and row 0 *has* version 1. But it now holds `8 9` there. Anna's next turn would read Ben's keys and values. Two requests have owned the same row under the same version, so the version no longer proves anything.

</details>

#### 9.4 You write: `take_row` (15 minutes)

`path` is the list of nodes that `find` returned. It may be empty. Its last node names the row that holds the prefix. Return two values: the row to run in, and whether the prefix has to be copied into it. Let an `OutOfPages` from `alloc` pass through to the caller.

To take over a free row, call `pool.occupy(row, renew=True)`, which *always* raises its version. That makes every node that named the row stale, including the nodes of the prefix. But the prefix is still in the row. So give each node of `path` that is not current the row and its new version. A node that is current in another row stays as it is.
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
The prompts of Anna, Ben and Cleo share their first two tokens. Anna has finished. Ben starts, then Cleo, and both run at the same time.
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

Ben takes over row 0 and copies nothing. Cleo's prefix is in row 0 too, but Ben is running there, so she copies two tokens into row 1. Anna's `3` and `4` became stale when Ben took her row. Losing them is the price of letting Ben start without a copy.

</details>

A copy must check the version too, right before it is made. AstrAI's first version did not; see {{engines astrai-copy}}. Here the last node that `find` returns is never stale, and nothing happens between `find` and the copy.

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

When a prompt is inserted again, your `trie_insert` leaves current nodes alone. AstrAI {{engines astrai-newest}}. That repairs nodes whose row was recycled, but your version does that too. And it has a price. Anna is running in row 0, in the second turn of a long conversation. Ben's prompt shares three tokens with hers, and he finishes in row 1. Then a stranger gets the lowest free row, which is row 1.
"""


# %%
def shared_tokens_left(newest_wins):
    trie = RowTrie(3)
    trie.finish(trie.start([1, 2, 3, 4]))
    trie.start([1, 2, 3, 4, 5])  # Anna keeps running in row 0
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

Row 0 is in use and cannot be recycled, so the nodes that name it are safe. When the newest row wins, the three nodes move to row 1. By then row 1 is free, and the stranger gets it. The three tokens' keys and values are still in row 0, but no node says so.

</details>

### Step 5: pin the path, evict the leaf

A trie with one node per token grows fast, so we limit the number of nodes. A running request must **pin** its path. To pin a path is to lock it, so none of its nodes can be evicted. Look at `start` and `finish` again: they call `lock`, `unlock`, `touch` and `evict`. These are *your functions from chapters 04 and 05*. All they need are the attributes from step 1; it doesn't matter what a node stands for.

AstrAI wrote its own functions for this. `OrderedTrie` behaves as that cache did.
"""

# %%
from minikv.course.pieces.ch09 import OrderedTrie

source(OrderedTrie.insert, OrderedTrie.find, OrderedTrie.release)

# %% [markdown]
"""
All nodes are in one ordered dictionary, and a leaf is treated like any other node. Remember chapter 05: what can go wrong then? Here is a trie with room for three nodes. It holds `1 2 3`, no longer pinned. Then `9` is inserted.
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

The insert reaches `1` first, so `1` is the oldest node: the *parent* goes first. Its children are cut off from the root, but they stay in the dictionary. And `1` itself is still a child of the root, as an empty husk.

</details>

## The same in `minikv`

The design has two halves: a trie, and rows. The package has only the trie. Its `TokenTrie` has one *slot* per node and follows the same contract as your `RadixCache`, so it runs in the same manager and engine. It finds the same slots:
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
The rows are only in your `RowTrie`. It could do three things better:

- If the deepest node on the path is stale, look for a current node *below* it, because that node's row begins with the same tokens.
- Among the free rows, take one that no node names, or else the row that was given back first (exercise 9.5). Yours takes the lowest.
- Put a prompt into the trie right after the prefill. Yours waits until `finish`.

What is the third one worth? `publish` is the part of `finish` that inserts a prompt:
"""


# %%
def publish(trie, request):
    there = len(trie_find(trie.root, request.tokens))
    path = trie_insert(trie.root, request.tokens, request.row, trie.pool)
    trie.evictable += len(path) - there
    touch(trie.ring, path[-1])


# %%
late, early, running = RowTrie(4), RowTrie(4), []
chance, found = random.Random(9), [0, 0]
for _ in range(1000):
    tokens = chance.choices([1, 2], weights=[3, 1], k=chance.randint(2, 8))
    pair = late.start(tokens), early.start(tokens)
    publish(early, pair[1]), running.append(pair)
    assert late.rows[pair[0].row] == early.rows[pair[1].row] == tokens
    found = [total + request.found for total, request in zip(found, pair)]
    if len(running) > 2:
        one, other = running.pop(0)
        late.finish(one), early.finish(other)
print(f"found in 1000 requests: {found[0]}, after the prefill {found[1]}")

# %% [markdown]
"""
The `assert` is a canary: it checks that each row holds the tokens of its request. AstrAI publishes after the prefill, too. That helps most in a burst, when four readers ask the same new question at once.
"""

# %%
late, early, question = RowTrie(4), RowTrie(4), list(b"Why is my invoice late?")
for _ in range(4):
    one, other = late.start(question), early.start(question)
    publish(early, other)
    hits = f"{one.found}, after the prefill {other.found}"
    print(f"found of {len(question)} tokens: {hits}")

# %% [markdown]
"""
### What went wrong elsewhere

Let's do four everyday things with an `OrderedTrie` that has room for three nodes. `outcome` reports what happens, and stops anything that never ends (`TooLong`).
"""

# %%
from minikv.course.pieces.ch09 import outcome


def served(*tokens):
    return ("insert", tokens), ("release", tokens)


pinned = [("insert", (token,)) for token in (6, 7, 8, 9)]
print("find again:   ", outcome(*served(1, 2, 3), *served(9), ("find", (1, 2, 3))))
print("too long:     ", outcome(*served(1, 2, 3, 4, 5), ("find", (1, 2, 3))))
print("all pinned:   ", outcome(*pinned))
print("pinned prefix:", outcome(("insert", (1, 2)), *pinned[:2], ("find", (1, 2))))

# %% [markdown]
"""
<details><summary>What happened, line by line</summary>

- A lookup reaches the husk and tries to move a node that is no longer in the dictionary. The same happened in {{engines astrai-keyerror}}.
- A prompt longer than the capacity evicts its own beginning, and its next lookup reaches that husk.
- When everything is pinned, the search for a victim never ends. The same happened in {{engines astrai-endless}}. It is easy to get there, because `insert` {{engines astrai-insert-pins}}: the caller has to release once per insert.
- AstrAI's {{engines astrai-pin}} marks only the last node. Its parent can be evicted, and then no walk reaches the pinned node.

</details>

Are these rare cases? Let's run a hundred requests, a hundred times, with room for 16 nodes.
"""


# %%
def is_error(tokens, ordered, yours):
    yours.finish(yours.start(tokens))
    try:
        ordered.find(tokens), ordered.insert(tokens), ordered.release(tokens)
    except KeyError:
        return True


# %%
errors, chance = 0, random.Random(9)
for _ in range(100):
    tries = OrderedTrie(capacity=16), RowTrie(2, max_nodes=16)
    prompts = [chance.choices([1, 2, 3], k=chance.randint(1, 8)) for _ in range(100)]
    errors += any(is_error(prompt, *tries) for prompt in prompts)
print(f"OrderedTrie: {errors} of 100 runs end in a KeyError; yours: none")

# %% [markdown]
"""
The husks are a leak, too. Insert fifty prompts of two tokens into a trie with room for ten nodes:
"""

# %%
ordered, yours = OrderedTrie(capacity=10), RowTrie(2, max_nodes=10)
for number in range(50):
    prompt = [number, 100 + number]
    ordered.insert(prompt, 0)
    ordered.release(prompt)
    yours.finish(yours.start(prompt))
for name, root in (("OrderedTrie", ordered.root), ("yours", yours.root)):
    nodes = sum(1 + len(node.children) for node in root.children.values())
    print(f"{name:12} {nodes} nodes can be reached; the limit is 10")

# %% [markdown]
"""
Yours stays within its limit. `touch` puts the newest path at the young end of the ring, with the last token of the path as the oldest of them. So a prompt that is too long loses its tail, and a prefix remains.

## Play

Step through the film. It shows a manager with room for eight tokens, on top of a `TokenTrie`. Three prompts arrive, one after another. After each one, say which tokens have to go to make room for the next.
"""

# %%
from minikv import CacheManager, record

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

Your pool takes the lowest free row. That row may hold the longest conversation of all. Write `pick_row(used, named)`, which returns the number of a better row. `used[row]` is the time at which the row was given back, or `None` while a request is running in it. `named[row]` is the number of current nodes that name it. Take the lowest free row that no node names. If every free row is named, take the one that was given back first. Return `None` if no row is free.

Then think about this: two rows were given back at almost the same time. One holds a thousand cached tokens, the other ten. Which one would *you* take?
"""


# %%
def pick_row(used, named):
    raise NotImplementedError  # delete this line; about 5 lines to write


check("9.5 pick_row", pick_row)

# %% [markdown]
"""
<details><summary>Hint</summary>

First make a list of the free rows. If no node names some of them, take the first of those. Otherwise use `min` with a key: the time at which the row was given back.

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

This `take_row` forgets one thing. Your function receives a `RowTrie` that uses it, with two rows. Write calls of `start` and `finish` after which a request reads what another request wrote. `check` looks at each prefix that `start` finds, and compares it with what the row holds.
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

Let Ben share one token with Anna, and then use different ones. What happens if somebody asks for Anna's tokens after that?

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

The trie is simple because it keeps one node per token. Here are both indexes with the prompts of the help desk, and the number of nodes that a lookup of the last prompt visits.
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
A node is an object with a dictionary inside. The next cell measures bytes and time on your machine, so its output is not stored.
"""

# %% tags=["nbval-ignore-output", "measured"]
import tracemalloc
from timeit import timeit

for make in (minikv.RadixCache, TokenTrie):
    tracemalloc.start()
    cache = make()
    cache.insert(range(20_000), range(20_000))
    size = tracemalloc.get_traced_memory()[0] / 20_000
    tracemalloc.stop()
    seconds = timeit(lambda: cache.match_prefix(range(20_000)), number=5) / 5
    print(f"{make.__name__:10} {size:6.1f} bytes and {seconds * 5e4:6.1f} ns per token")

# %% [markdown]
"""
Rows have a price of their own. Each row is as long as the longest possible conversation, whether or not it is used. Two running requests share nothing: the prefix is copied. And there are never more cached conversations than rows. Pages (chapter 01) have none of these problems, which is why the big engines use pages.

The invariant now at risk is *an equal version means equal content*. It holds only if every way to take a row raises its version.

## In real engines

{{engines 09|what a node holds; a request's memory; memory that is free and cached}}

None of these four has one node per token, and none gives a request one contiguous piece of memory. AstrAI did both for two days in May 2026; today it has {{engines astrai-now}}.

<details><summary>More about AstrAI's first cache</summary>

Two things in its source never became more than plans. Every node stores the {{engines astrai-last-access}} "for LRU ordering", which is written and never read, and {{engines astrai-stop}} is not used at all. Its release keeps {{engines astrai-preserved}}: the third state, free and cached. Its copy takes the number of layers from the caller, and that may be fewer than the array has.

</details>

## Recap

A token trie needs no splits, because prompts can only part at a node, and it pays for that with one node per token. A version tells whether what a node says about a row is still true, but only if every way to take a row raises it. Locks on whole paths and eviction from the leaves work as in the radix tree, and without them the same things go wrong.

**Check yourself**

1. A node is stale, and the node below it is current. A prompt continues after the lower node. How many tokens can it reuse?
2. Why must the version go up even if the request that takes over the row begins with the tokens in it?
3. From chapter 05: a path is touched from its end to its beginning. What goes wrong the other way around?
4. From chapter 04: why is it not enough to lock the last node of a prefix?

<details><summary>Answers</summary>

1. All tokens down to the lower node: its row holds the whole prefix.
2. The request overwrites what came after the prefix in that row, and other nodes may still name it.
3. The oldest node is then a parent, and its children are lost.
4. A node above it can be evicted, and then no walk reaches the prefix.

</details>

**Read on**: [AstrAI](https://github.com/ViperEkura/AstrAI) · [Tries, in Sedgewick and Wayne's Algorithms](https://algs4.cs.princeton.edu/52trie/)
"""

# %% [markdown]
"""
# 03 · How do prompts share a prefix?

By the end of this chapter you will have written a **radix tree**: the data structure with which SGLang decides, in a few microseconds, how much of a 100,000-token prompt it has seen before. You will write four functions, about thirty lines in all. They go into your own `my_minikv.py`, and in chapter 08 a language model answers questions through them.

**After this chapter you will be able to** *build* a radix tree that finds the longest cached prefix, *split* an edge without losing what is below it, and *predict* what pages do to sharing.

{{time}} **Needs** chapters 00 and 02. **New words** trie, radix tree, split, page alignment, namespace.

Here is where we are going. Three prompts are inserted into a tree, and a fourth is only looked up. Step through it.
"""

# %%
from minikv import FreeListPool, RadixCache, draw, record

cache, pool = RadixCache(), FreeListPool(16)
with record(cache, pool) as film:
    for prompt in ([1, 2, 3, 4, 5], [1, 2, 3, 7, 8], [6, 7]):
        slots = pool.alloc(len(prompt))
        done = cache.insert(prompt, slots)
        pool.free(slots[: done.prefix_length])
    cache.match_prefix([1, 2, 9])
film.player(still=5)

# %% [markdown]
"""
## The problem

In chapter 00 we kept every prompt in a list and compared each new prompt with all of them. The answers were right. Let's see what they cost. A help desk serves a thousand prompts. All of them begin with the same instructions, and each goes on with a question of its own.
"""

# %%
import json

from minikv import asset

DESK = json.loads(asset("chats.json").read_text("utf-8"))
SYSTEM = list(DESK["system"].encode())
questions = [question for chat in DESK["chats"] for question, _ in chat]
prompts = [
    SYSTEM + list(f"reader {i}: {questions[i % len(questions)]}".encode())
    for i in range(1000)
]


# %%
def common(a, b):
    """How many tokens at the beginning of `a` and `b` are equal."""
    same = 0
    while same < min(len(a), len(b)) and a[same] == b[same]:
        same += 1
    return same


for count in (10, 100, 999):
    compared = sum(common(prompts[count], old) + 1 for old in prompts[:count])
    print(f"{count:4} cached prompts: {compared:7,} comparisons to look up one more")

# %% [markdown]
"""
Ten times as many prompts, ten times as many comparisons for *each* lookup. A busy server has cached a million prompts by lunchtime. We need a lookup whose cost depends on the prompt you ask about, and not on how much is cached.

## Build it

### Step 1: one token on each edge

Start with the simplest structure that works. Put one token on each edge, and let prompts that begin alike go down the same path.
"""


# %%
class TrieNode:
    def __init__(self):
        self.children = {}  # token -> node


def trie_insert(node, tokens):
    for token in tokens:
        node = node.children.setdefault(token, TrieNode())


# %%
trie = TrieNode()
for prompt in ([1, 2, 3, 4, 5], [1, 2, 3, 7, 8], [1, 2]):
    trie_insert(trie, prompt)
draw(trie)

# %% [markdown]
"""
This is called a **trie** (say "try"). To look up a prompt, follow its tokens from the root until there is no edge to follow. The cost is the length of the prompt, no matter how many prompts are cached. Problem solved?

Count the boxes. A 20,000-token prompt needs 20,000 nodes, and each node is an object with a dictionary inside. Almost all of them have exactly one child. They don't branch; they just pass you along.

### Step 2: many tokens on each edge

So keep a node only where something happens: where a prompt ends, or where two prompts part. Everything in between becomes one long edge. That is a **radix tree**. A node holds the tokens of the edge that leads to it, and the slots where their keys and values lie, one for each token. It finds a child by the child's *first* token, because no two children can begin with the same one.
"""


# %%
class Node:
    def __init__(self, tokens, slots, parent=None):
        self.tokens, self.slots, self.parent = tokens, slots, parent
        self.children = {}  # first token of the child -> the child


root = Node([], [])
root.children[1] = Node([1, 2, 3, 4, 5], [10, 11, 12, 13, 14], root)
draw(root)

# %% [markdown]
"""
One question is left. The tree holds `1 2 3 4 5` as a single edge, and then `1 2 3 7 8` arrives. The two prompts part in the *middle* of the edge. There is no node there. We have to make one.

### Step 3: split an edge

A **split** takes one node and makes it two. The upper half is a new node. The lower half is the *old* node, now shorter.

Why that way around? Somebody may be holding on to the old node, because their prompt ends there. After the split, their prompt must still end there. If the old node became the upper half, it would suddenly stand for a shorter prompt, and in chapter 04 we would release a lock on the wrong tokens. So: **the old node keeps its end.**

Your turn. Cut the edge of `node` after its first `at` tokens. Its slots are cut at the same place. Four links have to be right when you are done: the parent to the upper node, the upper node to its parent, the upper node to `node`, and `node` to the upper node.

#### 3.1 You write: `split`
"""


# %%
def split(node, at):
    """Cut the edge of `node` after `at` tokens; return the new upper node."""
    raise NotImplementedError  # delete this line; about 6 lines to write


split = check("3.1 split", split)

# %% [markdown]
"""
`check` runs your function on many small trees and compares every box and every link with ours. If something differs, it shows you the smallest tree on which it does. If you get stuck, `hint("3.1")` helps a little, and each further call a little more.
"""

# %%
# put your number in place of None, then run the next cell
guess("3.a", "how many tokens are left in the old node after split(node, 3)?", None)

# %%
root = Node([], [])
leaf = root.children[1] = Node([1, 2, 3, 4, 5], [10, 11, 12, 13, 14], root)
upper = split(leaf, 3)
fold("3.a", len(leaf.tokens), draw(root, new=upper))

# %% [markdown]
"""
<details><summary>Why</summary>

The old node keeps its end, `4 5`. Look at the slots in the picture: none was copied and none was lost; they were divided between the two nodes. Remember that: it is the first thing to check when a cache returns garbage.

</details>

### Step 4: walk down

Now follow a prompt from the root, edge by edge, as far as the tree agrees with it. Sometimes the prompt leaves the tree at a node. Sometimes it leaves in the middle of an edge, and you have the tool for that: split the edge there. So a walk *always* ends exactly at a node, and the caller can hold on to that node.

#### 3.2 You write: `walk`

Return two things: the node where the prompt leaves the tree, and how many tokens were followed. You may use `common` from above and your `split`.
"""


# %%
def walk(root, tokens):
    """The node where `tokens` leave the tree, and how many of them were followed."""
    raise NotImplementedError  # delete this line; about 9 lines to write


walk = check("3.2 walk", walk)

# %%
node, length = walk(root, [1, 2, 9])
draw(root, matched=node)

# %% [markdown]
"""
### Step 5: insert and match

The rest is short, because the walk did the hard part.

To **insert** a prompt, walk it. What the walk did not find is new, and becomes one new leaf. What it found is in the tree already, and keeps the slots that it has. Tell the caller how much that was: the caller has a second set of slots for those tokens and must free them, or they are lost for good.

#### 3.3 You write: `insert`
"""


# %%
def insert(root, tokens, slots):
    """Cache `tokens`; return the node where they end, and how many were there."""
    raise NotImplementedError  # delete this line; about 6 lines to write


insert = check("3.3 insert", insert)

# %% [markdown]
"""
To **match** a prompt, walk it and collect the slots of the path. They are what attention will read, so their order matters: the first token's slot comes first.

#### 3.4 You write: `match`
"""


# %%
def match(root, tokens):
    """The node where the cached prefix of `tokens` ends, and its slots in order."""
    raise NotImplementedError  # delete this line; about 6 lines to write


match = check("3.4 match", match)

# %% [markdown]
"""
That is the whole index. Let's use it. We insert `1 2 3 4 5` with slots 0 to 4 and `1 2 3 7 8` with slots 5 to 9, and then ask for the second prompt.
"""

# %%
guess("3.b", "which slots does a match of the second prompt give? [., ., ...]", None)

# %%
root = Node([], [])
insert(root, [1, 2, 3, 4, 5], [0, 1, 2, 3, 4])
_, there = insert(root, [1, 2, 3, 7, 8], [5, 6, 7, 8, 9])
end, slots = match(root, [1, 2, 3, 7, 8])
fold("3.b", slots, f"insert returned {there}", draw(root, matched=end))

# %% [markdown]
"""
<details><summary>Why</summary>

The tree had slots for the first three tokens, so it kept those. Slots 5, 6 and 7 hold the same keys and values a second time, and `insert` returned 3 to say so.

</details>

Now insert nothing more, and only *ask* for `[1, 2, 9]`. Does the tree change?
"""

# %%
guess("3.c", "the tree has 3 nodes below the root. How many after the match?", None)


# %%
def count_nodes(node):
    return sum(1 + count_nodes(child) for child in node.children.values())


end, slots = match(root, [1, 2, 9])
fold("3.c", count_nodes(root), draw(root, new=end))

# %% [markdown]
"""
<details><summary>Why</summary>

It does. Asking cut an edge, because the match has to end at a node. The docstring of mini-sglang's `match_prefix` says that it {{engines mini-sglang-docstring}}. It never changes *what* is cached, but it does change the nodes, and code that keeps track of nodes has to know.

</details>

## The same in `minikv`

`RadixCache` is this tree, with edges packed into bytes, so that comparing one is a single call into C. It also joins a node with its only child again when nothing tells the two apart; that changes no answer. On a thousand random prompts, your tree and ours agree in every length and every slot.
"""

# %%
import random

chance, root, theirs = random.Random(3), Node([], []), RadixCache()
for step in range(1000):
    tokens = [chance.randrange(2) for _ in range(chance.randrange(1, 16))]
    slots = list(range(16 * step, 16 * step + len(tokens)))
    assert match(root, tokens)[1] == theirs.match_prefix(tokens).slots.tolist()
    assert insert(root, tokens, slots)[1] == theirs.insert(tokens, slots).prefix_length
theirs.check()
print(f"equal in 1000 steps, with {theirs.total_size} tokens in both")

# %% [markdown]
"""
### Pages, for free

Where slots come in pages, only whole pages can be shared. This is **page alignment**. It looks like a change to every function. But look at what yours demand of a token: that it can be compared, and that it can be a key in a dictionary. A whole page can do both.
"""


# %%
def pages_of(tokens, size):
    return [tuple(tokens[i : i + size]) for i in range(0, len(tokens) - size + 1, size)]


# %% [markdown]
"""
Say the prompts are `1 2 3 4 5 6` and `1 2 3 9 5 6 7 8`.
"""

# %%
guess("3.d", "how many pages of 4 do these two prompts share?", None)

# %%
paged = Node([], [])
insert(paged, pages_of([1, 2, 3, 4, 5, 6], 4), [0])
_, there = insert(paged, pages_of([1, 2, 3, 9, 5, 6, 7, 8], 4), [1, 2])
fold("3.d", there, draw(paged))

# %% [markdown]
"""
<details><summary>Why</summary>

They agree in three tokens and share nothing, because they differ inside their first page. The first prompt's last two tokens are not stored at all, because they do not fill a page. And you changed no line. Where slots come in pages of four, page number 7 has the slots 28 to 31, so one number for each page says where everything is. `RadixCache(page_size=4)` does the same.

</details>

### What a lookup costs now

And the problem that this chapter began with? We insert the thousand prompts of the help desk and count the nodes that a lookup visits.
"""

# %%
desk, trie = Node([], []), TrieNode()
for count, prompt in enumerate(prompts, start=1):
    insert(desk, prompt, list(range(len(prompt))))  # which slots does not matter here
    trie_insert(trie, prompt)
    if count in (10, 100, 999):
        end, visited = match(desk, prompts[count])[0], 0
        while end.parent is not None:
            end, visited = end.parent, visited + 1
        print(f"{count:4} cached prompts: a lookup visits {visited} nodes")
print(
    f"nodes: {count_nodes(desk):,} in the radix tree, {count_nodes(trie):,} in the trie"
)

# %% [markdown]
"""
A hundred times as many prompts, and the lookup hardly notices. The next cell measures the time on the machine that runs it. Its output differs from run to run, so it is not stored.
"""

# %% tags=["nbval-ignore-output", "measured"]
from timeit import timeit

packed = RadixCache()
for prompt in prompts:
    packed.insert(prompt, range(len(prompt)))
for name, lookup in (
    ("a list of prompts", lambda: max(common(prompts[7], old) for old in prompts)),
    ("the tree above", lambda: match(desk, prompts[7])),
    ("RadixCache", lambda: packed.match_prefix(prompts[7])),
):
    print(
        f"{name:18} {timeit(lookup, number=3) / 3 * 1e6:10,.0f} microseconds a lookup"
    )

# %% [markdown]
"""
Some prompts must not share anything, even if their tokens are equal. A model can run with different small sets of extra weights (adapters), and then the same tokens have different keys and values. And one customer's prompts are none of another customer's business. A **namespace** is a label that keeps them apart: each has a root of its own.
"""

# %%
cache = RadixCache()
cache.insert([1, 2, 3], [0, 1, 2])
cache.insert([1, 2, 3], [3, 4, 5], namespace="customer B")
draw(cache)

# %% [markdown]
"""
## Play

One prompt is in the tree, as a single edge. Type a prompt that cuts this edge in one step; the playground says when you have done it. Then go on: type prompts as numbers or as text, insert them, ask for them. Each step can be undone.
"""

# %%
from minikv import playground

playground(goal="cut an edge in one step")

# %% [markdown]
"""
## More to try

#### 3.5 Design: how many nodes?

Write `radix_nodes(prompts)`: how many nodes does a radix tree have, not counting the root, after these prompts were inserted? You may build the tree and count. Can you find a way to count without building it?
"""


# %%
def radix_nodes(prompts):
    raise NotImplementedError  # delete this line; about 4 lines to write


check("3.5 radix_nodes", radix_nodes)

# %% [markdown]
"""
<details><summary>Hint</summary>

A node ends where a prompt ends, and where two prompts part. Each such prefix makes one node, however many prompts end or part there; the empty prefix is the root.

</details>

<details><summary>Solution</summary>

```python
def radix_nodes(prompts):
    ends = {tuple(prompt) for prompt in prompts}
    forks = {tuple(a[: common(a, b)]) for a in prompts for b in prompts}
    return len((ends | forks) - {()})
```

</details>

#### 3.6 Bug hunt: where does the branch hang?

Here is a careless `walk`: after a split it continues from the wrong node, so a new branch hangs in the wrong place. {{engines pymllm}} Its sliding-window tree has this bug; see {{engines pymllm-swa-split}}.

Your function is given a cache made of our pieces, except for this `walk`. Write calls of its `insert(tokens, slots)` and `match_prefix(tokens)` on which it goes wrong: `check` makes the same calls on a right cache, and compares what they return. Losing a prompt is bad; can you make it return slots for a prompt that *nobody ever inserted*?
"""

# %%
from minikv.course.pieces import careless

careless("3.6")


# %%
def calls_that_expose_it(cache):
    raise NotImplementedError  # delete this line, and add calls to the others
    cache.insert([1, 2], [0, 1])
    cache.match_prefix([1, 2])


check("3.6 careless_walk", calls_that_expose_it)

# %% [markdown]
"""
<details><summary>Hint</summary>

Make the second insert split the first one's edge. Where does its branch hang in the careless tree? Walk there with a match.

</details>

<details><summary>Solution</summary>

```python
def calls_that_expose_it(cache):
    cache.insert([1, 2], [0, 1])
    cache.insert([1, 9], [2, 3])
    cache.match_prefix([1, 2, 9])
```

</details>

## What it cost

The tree hands the *same* slot to everybody who matches it. Ask twice, and two requests have it:
"""

# %%
cache = RadixCache()
cache.insert([1, 2, 3], [0, 1, 2])
anna, ben = cache.match_prefix([1, 2, 3]), cache.match_prefix([1, 2, 4])
print("Anna reads slots", anna.slots, "and Ben reads", ben.slots)
print(
    "then room is needed, and slots",
    cache.evict(3),
    "are evicted, while both are reading",
)

# %% [markdown]
"""
(The list starts with slot 2, because Ben's match cut the edge, and the end of a prompt goes first.) The rule of chapter 02, one owner for each slot, still holds: the owner is the tree. But readers come and go, and the tree does not know about them. It must, before anything can be thrown out safely. That is the next chapter: locks.

## In real engines

{{engines 03}}

These engines add nodes whose contents have moved to host memory, events for a router that wants to know what is cached where, and trees for layers that keep only a window. vLLM uses no tree at all: it gives each block of 16 tokens a hash of everything up to its end, and looks that up in one dictionary.

## Recap

A radix tree keeps a node only where a prompt ends, where two part, or where a match ended, so a lookup costs what the prompt costs. A split makes a new upper node and leaves the old one as the lower part, so that every reference to it stays right. Even asking may split, and with pages only whole ones are stored, matched and shared.

**Check yourself**

1. Which four links does a split set?
2. `insert` returned 3. What must the caller do?
3. With pages of 16, what is a common beginning of 31 tokens worth?
4. From chapter 02: a request frees slots 4, 5 and 6 in one call. In which order are they handed out again?

<details><summary>Answers</summary>

1. The parent to the upper node and back, the upper node to the lower one and back.
2. Free the first three of its own slots: the tree has others for those tokens.
3. One page, 16 tokens.
4. In the same order: `free` pushes them in reverse.

</details>

**Read on**: [RadixAttention, the paper](https://arxiv.org/abs/2312.07104) · [vLLM's prefix caching design](https://docs.vllm.ai/en/latest/design/prefix_caching.html)
"""

# %% [markdown]
"""
# 03 · How do prompts share a prefix?

In this chapter you write a **radix tree**, the data structure that holds SGLang's prefix cache. You will write eight short functions, about forty-five lines in all, and then the chat from chapter 00 will run through your tree.

**After this chapter you will be able to** *build* a radix tree that finds the longest cached prefix, *split* an edge without losing what is below it, and *predict* how pages affect sharing.

{{time}} **Needs** chapters 00 and 02. **New words** trie, radix tree, split, page alignment, namespace.

Here is where we are going. Three prompts go into a tree, and then we look up another. Run the cell to step through the film.
"""

# %%
from minikv import RadixCache, asset, beside, draw, playground, record

cache = RadixCache()
with record(cache) as film:
    cache.insert([8, 1], [0, 1])
    cache.insert([4, 4, 2, 9, 6, 5], range(2, 8))
    cache.insert([4, 4, 2, 3], [2, 3, 4, 8])
    cache.match_prefix([4, 4, 2, 3, 7])
film.player(still=4)

# %% [markdown]
"""
## The problem

In chapter 00 we kept every prompt in a list and compared each new prompt with all of them. The answers were correct, but what did they cost? Suppose a help desk has answered a thousand prompts, which share their instructions and end with different questions.
"""

# %%
import json

DESK = json.loads(asset("chats.json").read_text("utf-8"))
questions = [question for chat in DESK["chats"] for question, _ in chat]
asked = [f"reader {i}: {questions[i % len(questions)]}" for i in range(1000)]
prompts = [list((DESK["system"] + text).encode()) for text in asked]

# %% [markdown]
"""
First you need a helper, which counts the tokens that two prompts share at the beginning. `a` and `b` are lists of tokens, and either may be empty. They can be long, so use a loop. Compare tokens with `==`, because later in this chapter a "token" will be a whole page, stored as a tuple.

The set-up cell at the top has already defined every function of this chapter, in the package's version. As soon as your version passes its check, it runs instead.

#### 3.1 You write: `common` (5 minutes)
"""


# %%
def common(a, b):
    """Count how many tokens at the beginning of `a` and `b` are equal."""
    raise NotImplementedError  # delete this line; about 4 lines to write


common = check("3.1 common", common)

# %%
for count in (10, 100, 999):
    compared = sum(common(prompts[count], old) + 1 for old in prompts[:count])
    print(f"{count:4} cached prompts: {compared:7,} comparisons to look up one more")

# %% [markdown]
"""
With ten times as many prompts, *each* lookup takes ten times as many comparisons. We need a lookup whose cost depends on the prompt, and not on how much is cached.

## Build it

### Step 1: one token per edge

Start with the simplest structure that works: put one token on each edge, and let prompts that begin with the same tokens follow the same path. A node needs nothing but its children:
"""


# %%
class TrieNode:
    def __init__(self):
        self.children = {}  # token -> node


# %% [markdown]
"""
#### 3.2 You write: `trie_add` (5 minutes)

Start at the root and take one step down for each token. Make a node only where there isn't one yet, because replacing a node loses everything below it.
"""


# %%
def trie_add(root, tokens):
    """Make the path of `tokens` below `root`; add only nodes that are missing."""
    raise NotImplementedError  # delete this line; about 5 lines to write


trie_add = check("3.2 trie_add", trie_add)

# %%
trie = TrieNode()
for prompt in ([1, 2, 3, 4, 5], [1, 2, 3, 7, 8], [1, 2]):
    trie_add(trie, prompt)
draw(trie)

# %% [markdown]
"""
This is called a **trie** (say "try"). To look up a prompt, follow its tokens from the root until there is no edge to follow. The cost depends on the length of the prompt, however many are cached.

But a 20,000-token prompt needs 20,000 nodes, each an object with a dictionary inside, and almost all of them have exactly one child.

### Step 2: many tokens per edge

So keep a node only where a prompt ends or where two prompts diverge, and put all the tokens in between on one long edge. That is a **radix tree**. A node stores the tokens on the edge that leads to it, and one slot for each of these tokens. A parent finds a child by the child's *first* token, because no two children begin with the same one.
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
The tree holds `1 2 3 4 5` as a single edge, and then `1 2 3 7 8` arrives. The two prompts diverge in the *middle* of the edge, where there is no node, so we make one.

### Step 3: split an edge

A **split** turns one node into two. The upper half is a new node, and the lower half is the *old* node, now shorter.

Why that way around? A request may hold a reference to the old node, because its prompt ends there. If the old node became the upper half, it would stand for a shorter prompt, and in chapter 04 we would release a lock on the wrong tokens. So **the old node keeps its end.**

Here are the attributes that link the nodes, before and after a cut:
"""

# %%
from minikv.course.pieces.showing import answered_rows, picture_of_links

root = Node([], [])
root.children[1] = node = Node([1, 2, 3, 4, 5], [10, 11, 12, 13, 14], root)
before = picture_of_links(parent=root, node=node)
beside(before, picture_of_links(parent=root, upper=split(node, 3), node=node))

# %% [markdown]
"""
#### 3.3 You write: `split` (10 minutes)

Cut the edge of `node` after its first `at` tokens, cut its slots at the same place, and set all four links.
"""


# %%
def split(node, at):
    """Cut the edge of `node` after `at` tokens; return the new upper node."""
    raise NotImplementedError  # delete this line; about 6 lines to write


split = check("3.3 split", split)

# %% [markdown]
"""
`check` runs your function on many small trees and compares every node and every link with those of the package's version. If something differs, it shows the smallest tree where it does.

Now we cut an edge twice. Its node, `leaf`, holds `1 2 3 4 5 6`, and we call `split(leaf, 3)` and then `split(leaf, 1)`. Which tokens are left in `leaf` after both cuts?
"""

# %%
# put your list in place of None, then run the next cell
guess("3.a", "which tokens are left in `leaf` after both cuts? [., ., ...]", None)

# %%
root = Node([], [])
leaf = root.children[1] = Node([1, 2, 3, 4, 5, 6], [10, 11, 12, 13, 14, 15], root)
upper, middle = split(leaf, 3), split(leaf, 1)
fold("3.a", leaf.tokens, draw(root, new=middle))

# %% [markdown]
"""
<details><summary>Why</summary>

The old node keeps its end each time. After the first cut `leaf` holds `4 5 6`, and the second cut takes the `4` away; the beginnings are in two new nodes. The picture shows that no slot was copied or lost.

</details>

### Step 4: walk down

Follow a prompt from the root, edge by edge, as far as the tree agrees with it. If the prompt leaves the tree in the middle of an edge, split the edge there. Then a walk *always* ends exactly at a node, and the caller can hold on to that node.

#### 3.4 You write: `walk` (10 minutes)

Return the node where the prompt leaves the tree, and how many tokens you followed. You may call `common(a, b)`, which returns a number, and `split(node, at)`, which returns the upper node. Give `common` a slice of the prompt no longer than the node's tokens, because a slice is a copy. Use a loop: a path with thousands of nodes is too long for a recursive function.
"""


# %%
def walk(root, tokens):
    """Return the node where `tokens` leave the tree, and how many were followed."""
    raise NotImplementedError  # delete this line; about 9 lines to write


walk = check("3.4 walk", walk)

# %%
root = Node([], [])
root.children[1] = Node([1, 2, 3, 4, 5], [10, 11, 12, 13, 14], root)
node, length = walk(root, [1, 2, 3, 4, 8])
draw(root, matched=node)

# %% [markdown]
"""
### Step 5: insert and match

To **insert** a prompt, walk down the tree with it. The tokens that the walk did not find become one new leaf. Those that it found are already in the tree and keep their slots. Return their number, because the caller has to free its own slots for them, or those are lost for good.

#### 3.5 You write: `insert` (5 minutes)

Return the node where the prompt ends, and how many tokens were there already. Store copies of `tokens` and `slots` in the tree.
"""


# %%
def insert(root, tokens, slots):
    """Cache `tokens`; return the node where they end, and how many were there."""
    raise NotImplementedError  # delete this line; about 6 lines to write


insert = check("3.5 insert", insert)

# %% [markdown]
"""
To **match** a prompt, walk down the tree with it and collect the slots on the path. Attention will read these slots, so their order matters: the slot of the first token comes first. Return the node where the walk ends and a *new* list of slots, because the nodes' own lists belong to the tree. Don't build a new list at each node.

#### 3.6 You write: `match` (5 minutes)

*Test it first* (optional, 5 minutes): before you write `match`, think about how it could be wrong. Which node and which slots must a correct `match` return, and what must not change?
"""


# %%
def test_match(match):
    """Fail if `match` is wrong."""
    root = Node([], [])
    insert(root, [1, 2, 3, 4, 5], [7, 3, 4, 9, 0])
    raise NotImplementedError  # `assert` what must be true of match(root, ...)


catch("3.6 match", test_match)


# %%
def match(root, tokens):
    """Return the node where the cached prefix of `tokens` ends, and its slots."""
    raise NotImplementedError  # delete this line; about 6 lines to write


match = check("3.6 match", match)

# %% [markdown]
"""
Your functions make up a complete *index*, which finds the cached prefix of any prompt. We insert `1 2 3 4 5` with slots 0 to 4, then `1 2 3 7 8` with slots 5 to 9, and then we look up the second prompt. Which slots does this match return?
"""

# %%
guess("3.b", "which slots does the match return? [., ., ...]", None)

# %%
root = Node([], [])
insert(root, [1, 2, 3, 4, 5], [0, 1, 2, 3, 4])
_, there = insert(root, [1, 2, 3, 7, 8], [5, 6, 7, 8, 9])
end, slots = match(root, [1, 2, 3, 7, 8])
fold("3.b", slots, f"insert returned {there}", draw(root, matched=end))

# %% [markdown]
"""
<details><summary>Why</summary>

The tree already had slots for the first three tokens, so it kept those. Slots 5, 6 and 7 hold the same keys and values a second time. They are not in the tree, and `insert` returned 3 to say so.

</details>

Now we insert nothing, and only *look up* `1 2 9`. The tree has three nodes below the root. How many does it have after the match?
"""


# %%
def count_nodes(node):
    return sum(1 + count_nodes(child) for child in node.children.values())


guess("3.c", "how many nodes are below the root after the match?", None)

# %%
end, slots = match(root, [1, 2, 9])
fold("3.c", count_nodes(root), draw(root, new=end))

# %% [markdown]
"""
<details><summary>Why</summary>

The lookup splits an edge, because a match has to end at a node. (mini-sglang's lookup does so, too, although the docstring of `match_prefix` says that it {{engines mini-sglang-docstring}}.) A match never changes *what* is cached, but it can change the nodes, and code that keeps track of nodes has to allow for that.

</details>

### What a lookup costs now

Back to the problem: we insert the thousand help desk prompts and count the nodes that a lookup visits.
"""

# %%
desk, trie = Node([], []), TrieNode()
for count, prompt in enumerate(prompts, start=1):
    insert(desk, prompt, prompt)  # any slots will do here
    trie_add(trie, prompt)
    if count in (10, 100, 999):
        end, visited = match(desk, prompts[count])[0], 0
        while end.parent is not None:
            end, visited = end.parent, visited + 1
        print(f"{count:4} cached prompts: a lookup visits {visited} nodes")
print(f"nodes: {count_nodes(desk):,} in the tree, {count_nodes(trie):,} in the trie")

# %% [markdown]
"""
With a hundred times as many prompts, a lookup visits one more node. The next cell measures the time on your machine, so its output isn't stored.
"""

# %% tags=["nbval-ignore-output", "measured"]
from timeit import timeit

in_list = timeit(lambda: max(common(prompts[7], old) for old in prompts), number=10)
in_tree = timeit(lambda: match(desk, prompts[7]), number=10)
print(f"a lookup in a list {in_list * 100:.2f} ms, in your tree {in_tree * 100:.2f} ms")

# %% [markdown]
"""
### Step 6: answer a prompt

Now a language model answers through your tree. Start from `respond`, the loop from chapter 02 (your own, if you wrote it):
"""

# %%
source(respond)

# %% [markdown]
"""
Only the lookup and the call to `keep` have to change. The loop between them is given, as `answer_from`. Here are the rows of two replies to the same prompt, where a digit is a token:
"""

# %%
answered_rows("3.7", ("12345", "67"), ("12345", "67"))

# %% [markdown]
"""
You may call:

| call | what it does and returns |
|---|---|
| `match(root, tokens)` | finds the cached prefix; returns a node and a new list of slots |
| `answer_from(model, pool, prompt, row)` | takes slots and computes what comes after `row`, the slots of the cached tokens; returns the answer and the whole row, a new list |
| `insert(root, tokens, slots)` | caches tokens; returns a node and how many tokens were there already |
| `pool.free(slots)` | frees slots; returns nothing |

#### 3.7 You write: `reply` (10 minutes)

Answer the prompt, cache everything that was computed, and return the answer, including `model.end`.

- The last token of a prompt is always computed, so look up the others.
- The last token of the answer, `model.end`, is never computed, so it has no slot.
- The tree may already hold tokens that you didn't look up: the last token of the prompt, and even the same answer. For these it keeps the slots it has.
- In the end, each slot that was taken is either in the tree or free again.
"""


# %%
def reply(model, pool, root, prompt):
    """Answer `prompt`, computing only what is not cached; return the answer."""
    raise NotImplementedError  # delete this line; about 5 lines to write


reply = check("3.7 reply", reply)

# %% [markdown]
"""
Here is the chat from chapter 00 again. This time, each turn runs through *your* `reply`, your `Pool` from chapter 02 and your tree.
"""

# %%
from minikv.course.live_chat import chat_through

pool, root = Pool(600), Node([], [])
chat = chat_through(reply, pool, root)
chat

# %% [markdown]
"""
The answers and the counts are the same as in chapter 00.

### Step 7: share whole pages

If slots are handed out in pages, only whole pages can be shared. This is **page alignment**. It looks like a change to every function, but your functions only compare tokens and use them as dictionary keys. Both work with tuples, too, so a whole page can be a "token", with a page number in place of a slot.

#### 3.8 You write: `pages_of` (5 minutes)

Cut a list of tokens into pages. A page is a tuple of exactly `size` tokens, and tokens at the end that don't fill a page are left out. Don't copy all the remaining tokens for each page.
"""


# %%
def pages_of(tokens, size):
    """Cut `tokens` into tuples of `size`; leave out an incomplete last page."""
    raise NotImplementedError  # delete this line; about 2 lines to write


pages_of = check("3.8 pages_of", pages_of)

# %% [markdown]
"""
Now we insert two prompts in pages of four tokens: `1 2 3 4 5 6` and `1 2 3 9 5 6 7 8`. How many pages do they share?
"""

# %%
guess("3.d", "how many pages do the two prompts share?", None)

# %%
paged = Node([], [])
insert(paged, pages_of([1, 2, 3, 4, 5, 6], 4), [0])
_, there = insert(paged, pages_of([1, 2, 3, 9, 5, 6, 7, 8], 4), [1, 2])
fold("3.d", there, draw(paged))

# %% [markdown]
"""
<details><summary>Why</summary>

The prompts begin with the same three tokens but differ inside their first page, so they share nothing. The last two tokens of the first prompt don't fill a page, so they aren't stored. And you didn't change a single line of the tree.

</details>

## The same in `minikv`

`RadixCache` is the same tree with its edges packed into bytes. It also joins a node with its only child when the two no longer need to be separate, which changes no result. On a thousand random prompts, your tree and the package's agree on every length and every slot.
"""

# %%
import random

chance, root, theirs = random.Random(3), Node([], []), RadixCache()
for step in range(1000):
    tokens = [chance.randrange(2) for _ in range(chance.randrange(1, 16))]
    slots = list(range(16 * step, 16 * step + len(tokens)))
    assert match(root, tokens)[1] == theirs.match_prefix(tokens).slots.tolist()
    assert insert(root, tokens, slots)[1] == theirs.insert(tokens, slots).prefix_length
print(f"equal in 1000 steps, with {theirs.total_size} tokens in both")

# %% [markdown]
"""
Some prompts must not share anything, even if their tokens are equal. With different adapters (small sets of extra weights), a model computes different keys and values for the same tokens. And one customer must not find out another's prompts. A **namespace** is a label that keeps such prompts apart: each namespace has its own root.
"""

# %%
cache = RadixCache()
cache.insert([1, 2, 3], [0, 1, 2])
cache.insert([1, 2, 3], [3, 4, 5], namespace="customer B")
draw(cache)

# %% [markdown]
"""
## Play

One prompt is in the tree, as a single edge. Type a prompt that cuts this edge in one step; the playground tells you when you have done it. Then insert and look up prompts of your own, as numbers or as text.
"""

# %%
playground(goal="cut an edge in one step")

# %% [markdown]
"""
## More to try

#### 3.9 Design: how many nodes?

Write `radix_nodes(prompts)`, which returns how many nodes a radix tree has after these prompts are inserted into it, not counting the root. You may build the tree and count. Can you also find the number without building it?
"""


# %%
def radix_nodes(prompts):
    raise NotImplementedError  # delete this line; about 4 lines to write


check("3.9 radix_nodes", radix_nodes)

# %% [markdown]
"""
<details><summary>Hint</summary>

There is one node for each prefix at which a prompt ends or two prompts diverge, no matter how many end or diverge there. The empty prefix is the root.

</details>

<details><summary>Solution</summary>

```python
def radix_nodes(prompts):
    ends = {tuple(prompt) for prompt in prompts}
    forks = {tuple(a[: common(a, b)]) for a in prompts for b in prompts}
    return len((ends | forks) - {()})
```

</details>

#### 3.10 Bug hunt: the branch in the wrong place

The careless `walk` below continues from the wrong node after a split, so a new branch ends up in the wrong place. A real engine had this bug. {{engines pymllm}} In June 2026, an insert into this tree {{engines pymllm-swa-split|made the same mistake}}.

Your function gets a cache built from the package's functions, except for this `walk`. Write calls to its `insert(tokens, slots)` and `match_prefix(tokens)` that go wrong. `check` makes the same calls on a correct cache and compares the results. Losing a prompt is bad, but can you even make the cache return slots for a prompt that *nobody ever inserted*?
"""

# %%
careless("3.10")


# %%
def calls_that_expose_it(cache):
    raise NotImplementedError  # delete this line, and add more calls
    cache.insert([1, 2], [0, 1])
    cache.match_prefix([1, 2])


check("3.10 careless_walk", calls_that_expose_it)

# %% [markdown]
"""
<details><summary>Hint</summary>

Make the second insert split the edge of the first one. Where does its branch end up in the careless tree? Look up a prompt that leads there.

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

The tree gives the *same* slots to every request that matches them. When an engine runs out of free slots, it has to **evict**: to remove tokens from the tree and reuse their slots. Here it does so while Anna and Ben are reading:
"""

# %%
cache = RadixCache()
cache.insert([1, 2, 3], [0, 1, 2])
anna, ben = cache.match_prefix([1, 2, 3]), cache.match_prefix([1, 2, 4])
print("Anna reads slots", anna.slots, "and Ben reads", ben.slots)
print("slots", cache.evict(3), "are evicted while both are reading")

# %% [markdown]
"""
The rule from chapter 02, one owner for each slot, still holds: the owner is the tree. But readers come and go, and before anything can be evicted safely, the tree has to know about them. That is the next chapter: locks.

Your tree stays in use; chapter 08 replaces only `reply`, with an engine.

## In real engines

{{engines 03|walk; split; comparing tokens}}

The links to SGLang show its core in Python, although {{engines sglang-rust|the one in Rust}} runs by default. SGLang's tree also {{engines sglang-evicted|keeps nodes whose contents have moved to main memory}}, and it can {{engines sglang-events|report what it stores}} to a router, which distributes requests to several servers. vLLM doesn't use a tree: it gives each block of tokens a hash of everything up to the block's end, and {{engines vllm-blocks|looks that hash up}} in a dictionary.

## Recap

A radix tree keeps a node only where a prompt ends, where two prompts diverge, or where a match ended, so the cost of a lookup depends on the prompt and not on how much is cached. A split makes a new upper node and leaves the old node as the lower half, so every reference to the old node still ends at the same token. Even a lookup may split, and with pages, only whole pages are stored, matched and shared.

**Check yourself**

1. Which four links does a split set?
2. `insert` returned 3. What must the caller do?
3. With pages of 16, how many of 31 shared tokens can be reused?
4. From chapter 02: a request frees slots 4, 5 and 6 in one call. In which order are they handed out again?

<details><summary>Answers</summary>

1. From the parent down to the upper node and back up, and from the upper node down to the lower one and back up.
2. Free the first three of its own slots: the tree has other slots for those tokens.
3. 16 tokens, which is one page.
4. In the same order: `free` pushes them in reverse.

</details>

**Read on**: [RadixAttention, the paper](https://arxiv.org/abs/2312.07104) · [vLLM's prefix caching design](https://docs.vllm.ai/en/latest/design/prefix_caching.html)
"""

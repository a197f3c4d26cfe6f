# %% [markdown]
"""
# 03 · How do prompts share a prefix?

**After this chapter you will be able to** *build* a radix tree that finds the longest cached prefix, *split* an edge without losing what is below it, and *predict* what pages do to sharing.

**Time** 50 minutes. **Needs** chapters 00 and 02.
**New words** trie, radix tree, split, page alignment, namespace.

## The problem

In chapter 00 we kept every prompt in a list and compared each new one with all of them. The answers were right. Here is what they cost, on a help desk that serves the same five turns to more and more readers.
"""

# %%
import json

from minikv import asset

DESK = json.loads(asset("chats.json").read_text(encoding="utf-8"))
SYSTEM = list(DESK["system"].encode())
questions = [question for chat in DESK["chats"] for question, _ in chat]
prompts = [SYSTEM + list(f"reader {i}: {question}".encode()) for i in range(200) for question in questions]

compared, memory = {}, []
for count, prompt in enumerate(prompts, start=1):
    compared[count] = compared.get(count - 1, 0) + len(memory) * len(SYSTEM)  # at the least
    memory.append(prompt)
for count in (10, 100, 1000):
    print(f"after {count:4} prompts: at least {compared[count]:11,} comparisons of two tokens")

# %% [markdown]
"""
Ten times the prompts, a hundred times the work: the thousandth prompt alone costs 999 comparisons for each token of the instructions. We need a structure in which looking up a prompt costs what the *prompt* costs, however much is cached.

## The picture

This is where the chapter ends: the tree of `minikv`, drawn from a live object, after three prompts. Common beginnings stand once. Each box has a run of tokens and the slots where their keys and values lie. (Strictly, a run belongs to the *edge*, the line that leads down to a *node*; we write it in the node's box.)
"""

# %%
from minikv import RadixCache, draw

cache = RadixCache()
for prompt, slots in (
    ([1, 2, 3, 4, 5], range(5)),
    ([1, 2, 3, 7, 8], range(5, 10)),
    ([1, 2], range(10, 12)),
):
    cache.insert(prompt, slots)
draw(cache)

# %% [markdown]
"""
## Build it

**Step 1: a trie.** The simplest tree has one token on each edge; it is called a **trie**. Walking down it compares each token of the prompt once, with a look into a dictionary, and stops where the dictionary has no entry.
"""


# %%
class TrieNode:
    def __init__(self, slot=None):
        self.slot, self.children = slot, {}


def trie_insert(root, tokens, slots):  # returns how many nodes that took
    node, made = root, 0
    for token, slot in zip(tokens, slots):
        if token not in node.children:
            node.children[token] = TrieNode(slot)
            made += 1
        node = node.children[token]
    return made


trie = TrieNode()
for start, prompt in ((0, [1, 2, 3, 4, 5]), (5, [1, 2, 3, 7, 8]), (10, [1, 2])):
    trie_insert(trie, prompt, range(start, start + 5))
draw(trie)

# %% [markdown]
"""
`draw` works on any nodes that have `children`, so on yours too. The trie is right, and for a 20,000-token prompt it makes 20,000 nodes, each an object with a dictionary of its own. Most of them have one child: they are not decisions, only distance.

**Step 2: a run of tokens on each edge.** A **radix tree** keeps a node only where something *happens*: where a prompt ends, or where two part. Its node holds a whole run of tokens, with a slot for each. A child is found by its first token, because no two children can begin with the same one.
"""


# %%
class Node:
    def __init__(self, tokens, slots, parent=None):
        self.tokens, self.slots, self.parent = tokens, slots, parent
        self.children = {}  # first token -> node


def first_token(tokens):
    return tokens[0]


def common(a, b):
    same = 0
    while same < min(len(a), len(b)) and a[same] == b[same]:
        same += 1
    return same


# %% [markdown]
"""
**Step 3: split.** A run is convenient until two prompts part in the middle of it. Then the edge is cut in two: a **split**. The upper part is a new node; the lower part is the *old* node, made shorter.

**Predict first.** Why should the old object become the *lower* part? Either way would give the same picture. Think of somebody who remembers the old node because their prompt ends there.

<details><summary>Answer</summary>

Their prompt ends where the old node ended, and that is the end of the lower part. Everything that remembers the node, such as the locks of chapter 04, stays right without being told. Children hang at the end of a node too, so they stay where they are.

</details>
"""


# %%
def split(node, at, key=first_token):
    """Cut the edge of `node` after `at` tokens; return the new upper node."""
    upper = Node(node.tokens[:at], node.slots[:at], node.parent)
    upper.parent.children[key(upper.tokens)] = upper  # takes the old node's place
    node.tokens, node.slots, node.parent = node.tokens[at:], node.slots[at:], upper
    upper.children[key(node.tokens)] = node
    return upper


root = Node([], [])
leaf = root.children[1] = Node([1, 2, 3, 4, 5], [0, 1, 2, 3, 4], root)
upper = split(leaf, 3)
draw(root, new=upper)

# %% [markdown]
"""
Four links were set: two down, two up. Forget one, and the tree looks right from one side only. The slots were *dealt out* between the two nodes, none was copied or lost.

**Step 4: walk and insert.** Walk down as long as edges agree with the prompt; where one agrees only partly, split it, and the walk ends exactly at a node. What is left of the prompt becomes a new leaf.
"""


# %%
class RadixTree:
    def __init__(self):
        self.root = Node([], [])

    def key(self, tokens):  # by what a child is found
        return tokens[0]

    def agree(self, edge, tokens):  # how much of an edge can be shared
        return common(edge, tokens)


# %%
def walk(tree, tokens):
    """The node where the longest cached prefix ends, and its length."""
    node, at = tree.root, 0
    while at < len(tokens) and tree.key(tokens[at:]) in node.children:
        child = node.children[tree.key(tokens[at:])]
        same = tree.agree(child.tokens, tokens[at:])
        at += same
        if same < len(child.tokens):
            return split(child, same, tree.key), at
        node = child
    return node, at


# %%
def insert(tree, tokens, slots):
    """Cache `tokens` in `slots`; return how many of them were there already."""
    node, at = walk(tree, tokens)
    if at < len(tokens):
        node.children[tree.key(tokens[at:])] = Node(tokens[at:], list(slots[at:]), node)
    return at


def match(tree, tokens):
    """The slots of the longest cached prefix, in order."""
    node, _ = walk(tree, tokens)
    slots = []
    while node.parent is not None:
        slots = node.slots + slots
        node = node.parent
    return slots


# %% [markdown]
"""
**Predict first.** We insert `[1, 2, 3, 4, 5]` with slots 0 to 4, and then `[1, 2, 3, 7, 8]` with slots 5 to 9. Which five slots does a match of the second prompt give?

<details><summary>Answer</summary>

0, 1, 2, 8, 9. The tree had slots for the first three tokens already and keeps those. Slots 5, 6 and 7 hold the same keys and values a second time; `insert` returned 3 to say that the caller should free them. A tree that forgot to say so would lose three slots with every such request, for good.

</details>
"""

# %%
tree = RadixTree()
print(
    "already there:",
    insert(tree, [1, 2, 3, 4, 5], range(5)),
    "and",
    insert(tree, [1, 2, 3, 7, 8], range(5, 10)),
)
print("second prompt:", match(tree, [1, 2, 3, 7, 8]), "  first prompt:", match(tree, [1, 2, 3, 4, 5]))
draw(tree.root)

# %% [markdown]
"""
Every one of these trees holds a surprise.

**Predict first.** Nobody inserts anything any more. We only *ask* for `[1, 2, 9]`. Does the tree change?

<details><summary>Answer</summary>

Yes: the edge `[1 2 3]` is cut after its second token. The match has to end at a node, so that the caller can hold on to that node. mini-sglang's docstring says of this function that it "will not modify the cache". It never changes *what* is cached, but it does change the nodes, so code that keeps track of nodes must know.

</details>
"""


# %%
def count_nodes(node):
    return sum(1 + count_nodes(child) for child in node.children.values())


asked = RadixTree()
insert(asked, [1, 2, 3, 4, 5], range(5))
insert(asked, [1, 2, 3, 7, 8], range(5, 10))
before = count_nodes(asked.root)
print(
    "slots of [1, 2, 9]:",
    match(asked, [1, 2, 9]),
    "  nodes before and after:",
    before,
    count_nodes(asked.root),
)
draw(asked.root)

# %% [markdown]
"""
**Step 5: pages.** Where slots come in pages, only whole pages can be shared. That is **page alignment**, and it changes two lines: agreement is rounded down to whole pages, and a child is found by its whole first *page*, because two children may now begin with the same token. (Before it inserts, the caller drops the end of a prompt that does not fill a page.)
"""


# %%
class PagedTree(RadixTree):
    def __init__(self, page_size):
        super().__init__()
        self.page_size = page_size

    def key(self, tokens):
        return tuple(tokens[: self.page_size])

    def agree(self, a, b):
        return common(a, b) // self.page_size * self.page_size


# %% [markdown]
"""
**Predict first.** Pages of 4. The prompts `[1, 2, 3, 4, 5, 6]` and `[1, 2, 3, 9, 5, 6, 7, 8]` agree in three tokens. How many nodes does the tree have afterwards, and do they share one?

<details><summary>Answer</summary>

Two nodes, and they share nothing, although both begin with token 1. The first prompt's last two tokens are not stored at all, because they do not fill a page.

</details>
"""

# %%
paged = PagedTree(4)
for start, prompt in ((0, [1, 2, 3, 4, 5, 6]), (8, [1, 2, 3, 9, 5, 6, 7, 8])):
    whole = prompt[: len(prompt) // 4 * 4]
    there = insert(paged, whole, range(start, start + len(whole)))
    print(f"{prompt}: {there} tokens were there, {len(prompt) - len(whole)} at the end dropped")
draw(paged.root)

# %% [markdown]
"""
## The same in `minikv`

`RadixCache` is this tree, with edges packed into bytes, so that comparing a run is one call into C instead of a loop, and with one number for each *page* instead of one for each slot. It agrees with both of ours on a thousand random prompts, in every length and every slot. It also joins a node with its only child again when nothing can tell the two apart, so that a tree that has lived long stays as small as a new one; that changes no answer.
"""

# %%
import random

chance = random.Random(3)
pairs = [(RadixTree(), RadixCache()), (PagedTree(4), RadixCache(page_size=4))]
for step in range(1000):
    tokens = [chance.randrange(2) for _ in range(4 * chance.randrange(1, 5))]
    slots = list(range(100 * step, 100 * step + len(tokens)))
    for ours, theirs in pairs:
        assert match(ours, tokens) == theirs.match_prefix(tokens).slots.tolist()
        pages = [slot // theirs.page_size for slot in slots[:: theirs.page_size]]
        assert insert(ours, tokens, slots) == theirs.insert(tokens, pages).prefix_length
for ours, theirs in pairs:
    theirs.check()
    counts = count_nodes(ours.root), len(list(theirs.nodes()))
    print("the same in 1000 steps; nodes in ours and in minikv's:", counts)

# %% [markdown]
"""
And it answers the problem this chapter began with. Cached prompts grow a hundredfold; what a lookup compares is its own prompt, and the nodes on its way hardly grow:
"""


# %%
def visited(cache, prompt):
    node, count = cache.match_prefix(prompt).handle.node, 0
    while node.parent is not None:
        node, count = node.parent, count + 1
    return count


# %%
desk, trie, trie_nodes = RadixCache(), TrieNode(), 0
for count, prompt in enumerate(prompts, start=1):
    desk.insert(prompt, range(len(prompt)))  # which slots does not matter here
    trie_nodes += trie_insert(trie, prompt, range(len(prompt)))
    if count in (10, 100, 1000):
        nodes = len(list(desk.nodes()))
        print(
            f"{count:4} prompts, {nodes:4} nodes (a trie: {trie_nodes:5}): a lookup visits {visited(desk, prompt)} nodes"
        )
        print(
            f"   and compares {len(prompt)} tokens; with the list, {(count - 1) * len(SYSTEM):,} at the least"
        )

# %% [markdown]
"""
One more thing that prompts may not share by accident: a model can be run with different small sets of extra weights (adapters), and then the same tokens have other keys and values; and one customer's prompts are no business of another's. A **namespace** is a label that keeps them apart. Each has a root of its own.
"""

# %%
cache = RadixCache()
cache.insert([1, 2, 3], [0, 1, 2])
cache.insert([1, 2, 3], [3, 4, 5], namespace="customer B")
print(cache.match_prefix([1, 2, 3]).slots, cache.match_prefix([1, 2, 3], namespace="customer B").slots)
draw(cache)

# %% [markdown]
"""
## Play

Prompts come in one by one, and one is only asked for. Step through and try this: before each step say which edge will be cut, if any, and where.
"""

# %%
from minikv import FreeListPool, play

cache, pool, steps = RadixCache(), FreeListPool(24), []
for tokens in ([1, 2, 3, 4, 5], [1, 2, 3, 7, 8], [1, 2], [6, 7], [6, 7, 8, 9]):
    known, slots = {node.id for node in cache.nodes()}, pool.alloc(len(tokens))
    done = cache.insert(tokens, slots)
    pool.free(slots[: done.prefix_length])  # the tree has others for those
    new = [node for node in cache.nodes() if node.id not in known]
    steps.append((f"insert {tokens}: {done.prefix_length} tokens were there", draw(cache, new=new)))
found = cache.match_prefix([6, 7, 8, 5])
steps.append((f"match [6, 7, 8, 5]: {found.length} tokens, and an edge is cut", draw(cache, matched=found)))
play(steps)

# %% [markdown]
"""
## Exercises

**3.1 Fill in.** Write `aligned_match(edge, prompt, page_size)`: how many leading tokens of an edge and a prompt agree, counted in whole pages.
"""

# %%
from minikv import check


def aligned_match(edge, prompt, page_size):
    raise NotImplementedError  # delete this line; about two lines to write, with `common` from above


check("3.1 aligned_match", aligned_match)

# %% [markdown]
"""
<details><summary>Hint</summary>

Count as `common` does, then drop what does not fill a page.

</details>

<details><summary>Solution</summary>

```python
def aligned_match(edge, prompt, page_size):
    return common(edge, prompt) // page_size * page_size
```

</details>

**3.2 Design.** Write `radix_nodes(prompts)`: how many nodes does a radix tree have, not counting the root, after these prompts were inserted in this order? You may build the tree and count, or find a way to count without building it.
"""


# %%
def radix_nodes(prompts):
    raise NotImplementedError  # delete this line; about four lines to write, one way or the other


check("3.2 radix_nodes", radix_nodes)

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

**3.3 Bug hunt.** The tree below is right, and `CarelessTree` differs from it in one line: after a split, the new branch hangs on the wrong node. (pymllm's sliding-window tree, chapter 12's subject, had exactly this bug.) Find a script of inserts and a match on which it goes wrong. Losing a prompt is bad; can you make it return slots for a prompt that *nobody ever inserted*?
"""

# %%
import inspect

from minikv.course.exercises.ch03 import CarelessTree, Tree
from minikv.course.exercises.judge import Script

for part in (Tree.insert, Tree.after_split, Tree.split, CarelessTree):
    print(inspect.getsource(part))


def script_that_breaks_it():
    raise NotImplementedError  # delete this line, and write more operations into the next
    return Script((), (("insert", ([1, 2], [0, 1])), ("match", ([1, 2],))))


check("3.3 CarelessTree", script_that_breaks_it)

# %% [markdown]
"""
<details><summary>Hint</summary>

Make the second insert split the first one's edge. Where does its branch hang in the careless tree? Walk there with a match.

</details>

<details><summary>Solution</summary>

```python
def script_that_breaks_it():
    return Script((), (("insert", ([1, 2], [0, 1])), ("insert", ([1, 9], [2, 3])), ("match", ([1, 2, 9],))))
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
print("then room is needed, and slots", cache.evict(3), "are evicted, while both are reading")

# %% [markdown]
"""
The rule of chapter 02, one owner for each slot, still holds: the owner is the tree. But readers come and go, and the tree does not know of them. It must know them before anything can be thrown out safely. That is the next chapter: locks.

## In real engines

{{engines 03}}

They add nodes whose contents have moved to host memory, events for a router that wants to know what is cached where, and trees for layers that keep only a window. Chapter 10 shows the design without any tree.

## Recap

A radix tree keeps a node only where a prompt ends, where two part or where a match ended, so a lookup costs what the prompt costs. A split makes a new upper node and leaves the old one as the lower part, so that every reference to it stays right. Even asking may split, and with pages only whole ones are stored, matched and shared.

**Check yourself**

1. Which four links does a split set?
2. Why is the old node the lower part?
3. `insert` returned 3. What must the caller do?
4. With pages of 16, what is a common beginning of 31 tokens worth?

<details><summary>Answers</summary>

1. The parent to the upper part and back, the upper part to the lower and back.
2. A reference to the node is a reference to the place where it ends.
3. Free the first three of its own slots: the tree has others for those tokens.
4. One page, 16 tokens.

</details>

**Read on**: [RadixAttention, the paper](https://arxiv.org/abs/2312.07104) · [vLLM's prefix caching design](https://docs.vllm.ai/en/latest/design/prefix_caching.html)
"""

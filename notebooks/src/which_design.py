# %% [markdown]
"""
# Which one do I choose?

This page compares six ways to keep keys and values: the radix tree (chapters 03 to 05), the token trie (09), rows (09), hashed blocks (10), pages with copy on write (11) and the tree with windows (12). You can read it without the chapters, because each answer names the chapter that explains it.

{{time}}

Four of the six are indexes, which find cached prefixes and have the same methods:
"""

# %%
from minikv import HashBlockCache, RadixCache, SlidingWindowCache, TokenTrie

INDEXES = {"radix": RadixCache, "trie": TokenTrie}
INDEXES |= {"hash": HashBlockCache, "window": SlidingWindowCache}

# %% [markdown]
"""
## Five situations

Guess first in each of them. The next cell shows the answer, which was computed or measured.

### One server, any prompt

One server runs agents with tools. Their prompts share a system prompt and then diverge anywhere, often in the middle of a line. You don't want to waste a token, so a page holds one token, and 500,000 tokens are cached. Which of the six designs takes the least memory here, apart from the keys and values?
"""

# %%
guess("which.a", 'which: "radix", "trie", "rows", "hash", "pages" or "window"?', None)

# %%
import json

from minikv import asset

bench = json.loads(asset("designs.json").read_text("utf-8"))
chat = [
    row for row in bench["rows"] if row["workload"] == "W1" and row["page_size"] == 1
]
chat.sort(key=lambda row: row["bytes_per_token"])
sizes = "\n".join(
    f"{row['index']:6} {row['bytes_per_token'] * 0.5:6.1f} MB" for row in chat
)
fold("which.a", chat[0]["index"], sizes)

# %% [markdown]
"""
<details><summary>Why</summary>

The tree (chapter 03) has one node per *branch* and stores an edge as plain numbers. The tree with windows is built the same way and adds one small object per node. The others have an object or an entry per *page*, and here each token is a page. (Measured with the chat traffic of the table below, and scaled to half a million tokens.)

</details>

### Twelve servers and a router

Twelve servers answer the same users. A router has to send each prompt to the server that has cached most of it. It can't ask all twelve for each prompt, so every server reports the names of its cached prefixes, and the router looks them up. Two servers have served different prompts before, and now both cache the prompt `1 2 3 4`. In which index does the end of this prompt get the same name on both?
"""

# %%
guess("which.b", 'which index: "radix", "trie", "hash" or "window"?', None)


# %%
def name_after(index, earlier):
    cache = index()
    cache.insert(earlier, range(len(earlier)))
    node = cache.insert([1, 2, 3, 4], range(20, 24)).node
    return node.key.hex()[:8] if hasattr(node, "key") else f"node {node.id}"


names = {}
for name, index in INDEXES.items():
    names[name] = [name_after(index, earlier) for earlier in ([7], [1, 2, 8, 9])]
same = [name for name, (one, other) in names.items() if one == other]
fold("which.b", same[0], *(f"{name:6} {both}" for name, both in names.items()))

# %% [markdown]
"""
<details><summary>Why</summary>

A node of a tree has only a number, and earlier prompts decide where edges are cut. The key of a hashed block is made from its tokens and the key before it, so it is the same everywhere (chapter 10). Trees can compute such keys as well: our tree with windows does so in `hashes_of`, and SGLang's tree can {{engines sglang-events|report them}}.

</details>

### Sixteen answers to one prompt

A prompt of 100 tokens gets sixteen answers at once, and a page holds 16 tokens. With an index, the first request computes the prompt and inserts its whole pages, and then the other fifteen look it up. With copy on write, the other fifteen are *forks* of the first. How many of the 1,600 prompt tokens are computed with the radix tree, and how many with copy on write?
"""

# %%
guess("which.c", "how many are computed: radix tree, copy on write? [., .]", None)

# %%
from minikv import CopyOnWrite

prompt, computed = list(range(100)), {}
for name, index in INDEXES.items():
    cache, computed[name] = index(16), 0
    for _ in range(16):
        computed[name] += 100 - cache.match_prefix(prompt).length
        cache.insert(prompt[:96], range(6))
pages = CopyOnWrite(num_pages=40, page_size=16)
computed["pages"] = 100 - pages.attach("answer 0", prompt, values=prompt)
for i in range(1, 16):
    pages.fork("answer 0", f"answer {i}")
fold("which.c", [computed["radix"], computed["pages"]], str(computed))

# %% [markdown]
"""
<details><summary>Why</summary>

The index finds 96 tokens, so each of the fifteen computes four again: 100 + 15 × 4. A fork shares the last page too, although it isn't full, and copies it when it first writes there (chapter 11). With pages of one token, the difference almost disappears. Copy on write does not replace an index, because it shares pages only among running requests. Use it for those, on top of any index.

</details>

### A model that forgets

In your model, five out of every six layers read only the last 1,024 tokens. A chat of 50,000 tokens, computed in one go, is all that is in the cache, and nobody is using it at the moment. You free half of its memory; the radix tree evicts whole leaves (chapter 05). Then the chat continues: how many of its 50,000 tokens do the radix tree and the tree with windows still find?
"""

# %%
guess("which.d", "how many are found: radix tree, tree with windows? [., .]", None)

# %%
found = {}
for name, index in INDEXES.items():
    forgets = name == "window"  # half of the memory is 3/5 of the five layers' part
    cache = index(window=1024) if forgets else index()
    cache.insert(range(50_000), range(50_000))
    cache.evict(0, window_tokens=30_000) if forgets else cache.evict(25_000)
    found[name] = cache.match_prefix(range(50_000)).length
fold("which.d", [found["radix"], found["window"]], str(found))

# %% [markdown]
"""
<details><summary>Why</summary>

A prefix stays useful as long as its last window is complete. So the tree with windows frees old windows and keeps the slots of the layers that read everything (chapter 12). The radix tree loses the whole leaf, even though half of it would have been enough; `RadixCache(evict_by="page")` keeps the first half, as the trie and the hashed blocks do.

</details>

### Arrays of one shape

Your engine runs on JAX, and eight users chat at a time. Each array must have a fixed shape, and attention has no page table, so each sequence needs one contiguous piece of memory: a row. Anna's prompt of six tokens has been answered once, and now it is running again. Ben's prompt of five tokens begins with the first three of hers. How many slots do the two prompts take in a radix tree with pages of one token, and how many in rows?
"""

# %%
guess("which.e", "how many slots: radix tree, rows? [., .]", None)

# %%
from minikv.engine.ch09_10_rows_and_blocks import RowTrie

anna, ben = [1, 2, 3, 4, 5, 6], [1, 2, 3, 8, 9]
tree, rows = RadixCache(), RowTrie(8)
tree.insert(anna, range(6))
tree.insert(ben, [*tree.match_prefix(ben).slots, 6, 7])
rows.finish(rows.start(anna))
running = [rows.start(anna), rows.start(ben)]
slots = [tree.total_size, sum(len(request.tokens) for request in running)]
last = running[1]
fold("which.e", slots, f"Ben runs in row {last.row}, with {last.found} copied tokens")

# %% [markdown]
"""
<details><summary>Why</summary>

Rows need no page table, because token 17 of a sequence is at position 17 of its row. But a row belongs to one sequence, so the three shared tokens are copied into Ben's row (chapter 09). And a row has room for the longest sequence, so few rows fit, and few prefixes stay cached.

</details>

## One table

Start with the radix tree: it finds the longest shared prefix at any token, and it takes the least memory of the six. Choose another design when you need something that this tree does not have. (Blocks for each group, from chapter 15, go with any index, so they are not one of the six.)

| you need | choose | because | the price |
|---|---|---|---|
| the longest prefix, at any token, on one server | radix tree (03 to 05) | a node per branch: the least memory | the most code |
| names that are the same on every server | hashed blocks (10) | a key depends only on tokens | only whole pages; an entry per page; the hash must be strong |
| many answers, beams or drafts from one prompt | copy on write (11), on top of any index | forks copy nothing until somebody writes | a count per page; only running requests share |
| layers that forget | the tree with windows (12) | frees old windows, keeps the rest | two pools, and a lock with a receipt |
| layers that keep a state | blocks for each group of layers (15) | continues where all groups can | large blocks; states weigh a lot |
| arrays of a fixed shape, a few users | rows (09) | no page table | a shared prefix is copied; rows are as long as the longest sequence |
| very little code, for a first engine | token trie (09) | one node per token, no splits | an object per token or page |

## What each costs

We sent made-up traffic through all six, with memory for half of the tokens that would be cached. W1 is chat, W2 is questions about long documents, and W4 is branching reasoning. (In W3, prompts share nothing, so there is nothing to compare.) The figures come with the course, and `python assets/designs.py` measures them on your machine. Pages hold 16 tokens here; rows have no pages. Each request is matched and locked, gets room for its new tokens, is inserted, and is unlocked. The last column is the range over all rounds, in thousands of requests per second.

These are the speeds of six Python classes, not of six designs. Our trees compare many tokens with one call of compiled code, while the dictionary takes a step in Python for each page. In C++ or Rust, both would be faster, and the gap between them would be different. The hits and the number of entries are properties of the design.
"""


# %%
def thousands(speed):
    return " to ".join(f"{speed[end] / 1000:.2g}" for end in ("low", "high"))


print("measured", bench["date"], "on", bench["machine"])
print("           hits   nodes  bytes  1,000 requests/s")
for row in bench["rows"]:
    if row["page_size"] == (1 if row["index"] == "rows" else 16):
        head = f"{row['workload']} {row['index']:7} {row['hit_rate']:.2f}"
        size = f"{row['entries']:7,} {row['bytes_per_token']:6.1f}"
        print(head, size, "", thousands(row["requests_per_second"]))

# %% [markdown]
"""
The tree, the trie, the hashed blocks and the tree with windows hardly differ in hits. The rows are those of `RowTrie` from chapter 09, where a new request takes the row that was given back first (exercise 9.5). They have fewer hits, because few rows fit. Copy on write (`pages`) has more, because other requests can find a page while the one that computed it is still running; in this comparison, an index gets a prompt only when its request ends. Memory differs a lot. How much of that is due to the page size? Here is the chat again.
"""


# %%
from minikv import plot


def on_chat(figure):
    found = {name: [] for name in ("radix", "trie", "hash", "window", "pages")}
    for row in bench["rows"]:
        if row["workload"] == "W1" and row["index"] in found:
            found[row["index"]].append(figure(row))
    return found


sizes = {"tokens in a page": [1, 4, 16, 64]}
memory = on_chat(lambda row: row["bytes_per_token"])
plot("memory", sizes, memory, "bytes per cached token", log="xy")

# %%
speed = on_chat(lambda row: round(row["requests_per_second"]["median"]))
plot("speed of these classes", sizes, speed, "requests per second", log="xy")

# %% [markdown]
"""
A radix tree stores little more than the numbers themselves: four bytes per token and four per page. Its nodes hardly count, because there are so few. The trie has an object for each page. The dictionary has one, too, plus an entry and a key of 32 bytes. With larger pages, both come closer to the tree, because there are fewer objects and entries. Windows cost almost no memory.

## What real engines chose

SGLang and mini-sglang have a radix tree. SGLang's tree {{engines sglang-components|has a component for each kind of layer}}, windows among them. vLLM and nano-vllm look blocks up by their hash; in vLLM {{engines vllm-compare|blocks with equal hashes count as equal}}, and nano-vllm {{engines nano-vllm-compare|compares the tokens too}}. pymllm has a tree with windows (chapter 12), llm-rag-ds-optimizer has pages with reference counts (chapter 11), and an early cache of AstrAI had {{engines astrai-rows|a row for each request}} and {{engines astrai-trie|a token trie}}.
"""

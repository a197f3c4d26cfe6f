# %% [markdown]
"""
# Which one do I choose?

This page compares six ways to keep keys and values: the radix tree (chapters 03 to 05), the token trie and its rows (09), hashed blocks (10), pages with copy on write (11) and the tree with windows (12). It needs no chapter, but each answer points to the chapter that explains it.

{{time}}

Four of the six are indexes, which have the same verbs:
"""

# %%
from minikv import HashBlockCache, RadixCache, SlidingWindowCache, TokenTrie

INDEXES = {"radix": RadixCache, "trie": TokenTrie}
INDEXES |= {"hash": HashBlockCache, "window": SlidingWindowCache}

# %% [markdown]
"""
## Five situations

Guess first in each of them. Each answer comes from a run.

### One server, any prompt

One server runs agents with tools. Their prompts share a system prompt and then diverge anywhere, often in the middle of a line. You don't want to waste a token, so a page holds one token, and 500,000 tokens are cached. How large is the index itself? Which of the six designs takes the least memory here?
"""

# %%
# put "radix", "trie", "rows", "hash", "pages" or "window" in place of None
guess("which.a", "which design takes the least memory here?", None)

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

The tree has a node per *branch*, and everything on an edge is a run of numbers. The tree with windows is built the same way and adds one count. The others have an object or an entry per *page*, and here each token is a page. (Measured with the chat traffic of the table below, and scaled to half a million tokens.)

</details>

### Twelve servers and a router

Twelve servers answer the same users. A router wants to send each prompt to the server that has cached most of it. It can't ask all twelve for each prompt, so every server reports the names of what it caches, and the router looks them up. Two servers have served different prompts before, and now both cache the prompt `1 2 3 4`. In which index does the end of this prompt get the same name on both?
"""

# %%
guess("which.b", '"radix", "trie", "hash" or "window"?', None)


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

A node of a tree is a place, and the tree's history decides where its edges are cut. The key of a hashed block is made from its tokens and the key before it, so it is the same everywhere (chapter 10). This is a property of these classes rather than a law: a tree can compute such keys as well. Our tree with windows does so when asked, with `hashes_of`, and SGLang's tree {{engines sglang-events|reports them}}.

</details>

### Sixteen answers to one prompt

A prompt of 100 tokens gets sixteen answers at once, and a page holds 16 tokens. In an index, the first request computes the prompt and publishes its whole pages, and then the other fifteen look it up. As always, an index stores whole pages only. With copy on write, the other fifteen are *forks* of the first. How many of the 1,600 prompt tokens are computed with the radix tree, and how many with copy on write?
"""

# %%
guess("which.c", "tokens computed: radix tree, copy on write? [., .]", None)

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

The index finds 96 tokens, so each of the fifteen computes four again: 100 + 15 × 4. A fork shares the last page too, although it isn't full, and copies it when it first writes there (chapter 11). With pages of one token, the difference almost disappears. Copy on write does not replace an index, because it shares only what is running. Use it for the pages of running requests, on top of any index.

</details>

### A model that forgets

In your model, five layers of six read only the last 1,024 tokens. A chat of 50,000 tokens is in the cache, and nobody is using it at the moment. You need half of its memory. Then the chat continues: how many of its 50,000 tokens do the radix tree and the tree with windows still find?
"""

# %%
guess("which.d", "tokens found: radix tree, tree with windows? [., .]", None)

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

A prefix stays useful as long as its last window is complete. So the tree with windows frees old windows and keeps the slots of the layers that read everything (chapter 12). In the radix tree the whole chat is one leaf, and a leaf is evicted whole; `RadixCache(evict_by="token")` would keep the first half. The trie and the hashed blocks keep the first half, too.

</details>

### Arrays of one shape

Your engine runs on JAX, and eight users chat at a time. Each array must have a fixed shape, and attention has no page table, so each sequence needs one contiguous piece of memory: a row. Anna's prompt of six tokens has been answered once, and now it is running again. Ben's prompt of five tokens starts with three of hers. How many slots hold the two prompts in a radix tree with pages of one token, and how many in rows?
"""

# %%
guess("which.e", "slots: radix tree, rows? [., .]", None)

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

Rows need no page table, because token 17 of a sequence is at position 17 of its row. But a row belongs to one sequence, so Ben's three tokens are copied (chapter 09). And a row has room for the longest sequence, so few rows fit, and few prefixes stay.

</details>

## One table

Start with the radix tree: it finds the longest shared prefix at any token, and its index is the smallest of the six. Choose another design when you need something that this tree does not have.

| you need | choose | because | the price |
|---|---|---|---|
| the longest prefix, at any token, on one server | radix tree (03 to 05) | a node per branch: the least memory | the most code |
| names that mean the same on every server | hashed blocks (10) | a key depends on the tokens alone | here whole pages only; an entry per page; the hash must be strong |
| many answers, beams or drafts from one prompt | copy on write (11), on top of any index | forks copy nothing until somebody writes | counts per page; it shares only what is in use |
| layers that forget | the tree with windows (12) | frees old windows, keeps the rest | two pools, and a lock with a receipt |
| arrays of a fixed shape, a few users | rows (09) | no page table | a shared prefix is copied; rows are as long as the longest sequence |
| code that fits on a page, for a first engine | token trie (09) | one node per token, no splits | an object per token or page |

## What each costs

Made-up traffic was sent through all of them, with room for half of it: W1 is chat, W2 is questions about long documents, and W4 is reasoning that branches. (W3 is prompts that share nothing, so it would compare nothing.) The figures come with the course, and `python assets/designs.py` measures them on your machine. Pages hold 16 tokens here, except that rows have none. A request is a match and a lock, room for what is new, an insert, and an unlock; the last column is the range over all rounds, in thousands of requests per second.

These are the speeds of six Python classes, not of six designs. Our trees compare whole runs of tokens with one call of compiled code, while the dictionary takes a step in Python for each page. In C++ or Rust, both would be faster, and the distance between them would be another one, which these figures can't show. The hits and the number of entries are properties of the design.
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
The tree, the trie, the hashed blocks and the tree with windows hardly differ in hits. The rows are the `RowTrie` of chapter 09, and a new request takes the row that was given back first (exercise 9.5). They find less, because few rows fit. Pages find more, because others can find them while their sequence is still running; in this race an index gets a prompt only when its request ends. Memory differs a lot. How much of that is the size of a page? Here is the chat again.
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
A radix tree stores little more than the numbers themselves: four bytes per token and four per page. It has few nodes, so they hardly count. The trie has an object for each page. The dictionary has one too, plus an entry and a key of 32 bytes. Larger pages bring both closer to the tree, because there are fewer objects and entries. Windows cost almost no memory.

## What real engines chose

SGLang and mini-sglang have a radix tree. SGLang's tree {{engines sglang-components|has a component for each kind of layer}}, windows among them. vLLM and nano-vllm look blocks up by their hash; in vLLM {{engines vllm-compare|equal hashes count as equal}}, and nano-vllm {{engines nano-vllm-compare|compares the tokens too}}. pymllm has a tree with windows, llm-rag-ds-optimizer copies pages on write, and AstrAI had {{engines astrai-rows|a row for each request}} under a token trie.
"""

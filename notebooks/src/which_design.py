# %% [markdown]
"""
# Which one do I choose?

You have seen six ways to keep keys and values: the radix tree (chapters 03 to 05), the token trie and its rows (09), hashed blocks (10), pages with copy on write (11) and the tree with windows (12). This page helps you pick one. It needs no chapter, but each answer points to the chapter that explains it.

{{time}}

The cells below use these classes:
"""

# %%
from minikv import CopyOnWrite, HashBlockCache, RadixCache
from minikv import SlidingWindowCache, TokenTrie
from minikv.engine.ch09_10_rows_and_blocks import RowTrie

DESIGNS = {"radix": RadixCache, "trie": TokenTrie, "rows": RowTrie}
DESIGNS |= {"hash": HashBlockCache, "pages": CopyOnWrite}
DESIGNS |= {"window": SlidingWindowCache}

# %% [markdown]
"""
## Five situations

For each of them, guess first.

### One server, any prompt

One server runs agents with tools. Their prompts share a system prompt and then part anywhere, often in the middle of a line. You don't want to waste a token, so a page holds one token, and 500,000 tokens are cached. How large is the index itself?
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

The tree has a node per *branch*, and everything on an edge is a run of numbers. The others have an object or an entry per *page*, and here each token is a page. Rows and pages keep a list of tokens for each sequence as well. (Measured with the chat traffic of the table below, and scaled to half a million tokens.)

</details>

### Twelve servers and a router

Twelve servers answer the same users. A router wants to send each prompt to the server that has cached most of it. It can't ask all twelve for each prompt, so every server reports what it caches, and the router looks it up by name.
"""

# %%
guess("which.b", "which design gives a prefix the same name on every server?", None)


# %%
def name_after(design, earlier):
    cache = DESIGNS[design]()
    cache.insert(earlier, range(len(earlier)))
    node = cache.insert([1, 2, 3, 4], range(20, 24)).node
    return getattr(node, "key", None) or node.id


# %%
names = {
    name: [name_after(name, [7]), name_after(name, [1, 2, 8, 9])]
    for name in ("radix", "trie", "hash")
}
same = [name for name, (one, other) in names.items() if one == other]
fold("which.b", same[0], "two servers with different histories, one name for 1 2 3 4")

# %% [markdown]
"""
<details><summary>Why</summary>

A node of a tree has no name of its own: it is a place, and the tree's history decides where edges are cut. A hashed block's key is made from its tokens and the key before it, so it is the same everywhere (chapter 10). The tree with windows can compute such keys for its pages too; take it only if you need windows as well.

</details>

### Sixteen answers to one prompt

Each prompt gets sixteen answers at once, and a small model guesses the next tokens of each. Answers part after their first token, and wrong guesses must be taken back. All sixteen should share the prompt's memory, down to the last page.
"""

# %%
guess("which.c", "which design can fork a running sequence?", None)

# %%
able = [name for name, design in DESIGNS.items() if hasattr(design, "fork")]
cache = CopyOnWrite(num_pages=40, page_size=16)
cache.attach("answer 0", range(100), values=range(100))
for i in range(1, 16):
    cache.fork("answer 0", f"answer {i}")
pages = cache.stats()["allocated_pages"]
fold(
    "which.c",
    able[0],
    f"16 answers to a prompt of 100 tokens, in pages of 16: {pages} pages in all",
)

# %% [markdown]
"""
<details><summary>Why</summary>

An index shares *finished* prefixes between requests. Here running sequences share pages until one of them writes, and that is what copy on write is for (chapter 11). It does not replace the index: use it for the pages of a running request, on top of any of them.

</details>

### A model that forgets

In your model, five layers of six read only the last 1,024 tokens. A chat is 50,000 tokens long. Keeping every layer's keys and values for the whole chat wastes most of the memory.
"""

# %%
guess(
    "which.d", "which design can give back the old tokens of those layers alone?", None
)

# %%
able = [name for name, design in DESIGNS.items() if hasattr(design, "has_tombstones")]
tree = SlidingWindowCache(window=1024)
tree.insert(range(50_000), range(50_000))
tree.evict(0, window_tokens=48_000)
kept, found = tree.window_evictable_size, tree.match_prefix(range(50_000)).length
freed = f"{50_000 - kept:,} of 50,000 windows are given back"
fold("which.d", able[0], f"{freed}; a prompt finds {found:,} tokens")

# %% [markdown]
"""
<details><summary>Why</summary>

A prefix stays useful when only its last window is complete. So the tree frees the old windows, and keeps the slots of the layers that read everything (chapter 12).

</details>

### Arrays of one shape

Your engine runs on JAX. Each array must have a fixed shape, attention has no page table, and eight users chat at a time.
"""

# %%
guess("which.e", "which design gives a sequence one contiguous piece of memory?", None)

# %%
able = [name for name, design in DESIGNS.items() if hasattr(design, "finish")]
cache = RowTrie(8)
first = cache.start([1, 2, 3, 4])
cache.finish(first)
again = cache.start([1, 2, 3, 9])
said = f"a prompt runs in row {again.row} and finds {again.found} tokens"
fold("which.e", able[0], said)

# %% [markdown]
"""
<details><summary>Why</summary>

Rows need no page table: token 17 of a sequence is at position 17 of its row. A prefix in a row where nobody runs is taken over at once, and any other is copied (chapter 09). The price is memory: a row is as long as the longest sequence, so few fit, and few prefixes stay.

</details>

## One table

Start with the radix tree. It finds the longest shared prefix at any token, and it is small and fast at every page size. Choose another design only when you need something that the tree does not have.

| you need | choose | because | the price |
|---|---|---|---|
| the longest prefix, at any token, on one server | radix tree (03 to 05) | a node per branch: the least memory, fast at every page size | the most code; a node's place is no name |
| names that mean the same on every server | hashed blocks (10) | a key depends on the tokens alone | whole pages only; an entry per page; the hash must be strong |
| many answers, beams or drafts from one prompt | copy on write (11), on top of any index | forks copy nothing until somebody writes | counts per page; it shares only what is in use |
| layers that forget | the tree with windows (12) | frees old windows, keeps the rest | two pools, and a lock with a receipt |
| arrays of a fixed shape, a few users | rows (09) | no page table, and a prefix is one copy | rows are as long as the longest sequence |
| code that fits on a page, for a first engine | token trie (09) | one node per token, no splits | fifty times the memory, and slow |

## What each costs

Made-up traffic was sent through all of them, with room for half of it: W1 is chat, W2 is questions about long documents, and W4 is reasoning that branches. (W3 is prompts that share nothing, so it would compare nothing.) The figures come with the course, and `python assets/designs.py` measures them on your machine. Pages hold 16 tokens here, except that rows have none. A request is a match and a lock, room for what is new, an insert, and an unlock; the last column is the range over all rounds, in thousands of requests per second.
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
The tree, the trie, the hashed blocks and the tree with windows hardly differ in hits. The rows are the `RowTrie` of chapter 09, and a new request takes the row that was given back first (exercise 9.5). They find less: each is as long as the longest sequence, so few of them fit. Pages find more, because others can find them while their sequence is still running; in this race an index gets a prompt only when its request ends. Memory and speed differ a lot. How much of that is the size of a page? Here is the chat again.
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
plot("speed", sizes, speed, "requests per second", log="xy")

# %% [markdown]
"""
A radix tree stores little more than the numbers themselves: four bytes per token and four per page. It has few nodes, so they hardly count. The trie has an object for each page. The dictionary has an object too, plus an entry and a key of 32 bytes. Larger pages bring both closer to the tree, because there are fewer objects and entries. Windows cost almost no memory, but some time at every page size.

## What each can do

The next cell asks the classes themselves: does a class have a certain verb, and does the verb take a certain argument? The last line counts the rules of the contract that an index claims.
"""

# %%
from inspect import signature


def can(design, verb, argument):
    found = getattr(design, verb, None)
    return found is not None and argument in signature(found).parameters


# %%
ASKED = {
    "namespace": [("insert", "namespace")],
    "policies": [("__init__", "policy")],
    "stable names": [("__init__", "block_hash"), ("hashes_of", "node")],
    "windows": [("evict", "window_tokens")],
    "whole rows": [("finish", "request")],
    "forks": [("fork", "new_name")],
    "drafts": [("settle", "num_right")],
}

# %%
print(" " * 12, *(name.ljust(6) for name in DESIGNS))
for asked, ways in ASKED.items():
    found = [any(can(design, *way) for way in ways) for design in DESIGNS.values()]
    print(f"{asked:12}", *(("yes" if yes else "-").ljust(6) for yes in found))
rules = [
    len(getattr(design, "claims", range(15))) if can(design, "insert", "pages") else "-"
    for design in DESIGNS.values()
]
print(f"{'rules':12}", *(str(count).ljust(6) for count in rules))

# %% [markdown]
"""
## What real engines chose

SGLang and mini-sglang have a radix tree. SGLang's tree {{engines sglang-components|has a component for each kind of layer}}, windows among them, and {{engines sglang-events|reports what it stores}}, so that a router can look it up. vLLM and nano-vllm look blocks up by their hash; in vLLM {{engines vllm-compare|equal hashes count as equal}}, and nano-vllm {{engines nano-vllm-compare|compares the tokens too}}. pymllm has a tree with windows, llm-rag-ds-optimizer copies pages on write, and AstrAI had {{engines astrai-copy|a token trie over slots}} that hold a whole sequence each, our rows.

None of them is wrong. Each answers the question that its users ask most.
"""

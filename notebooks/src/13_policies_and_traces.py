# %% [markdown]
"""
# 13 · Which policy wins on which traffic?

In chapter 05 you wrote an eviction that costs one step. It rests on a guess: what was used longest ago will not be needed soon. In this chapter you put that guess to the test, together with six others, on four kinds of traffic. The first of them holds a surprise.

**After this chapter you will be able to** *name* traffic on which the usual choice has no hits at all, *choose* a policy for traffic that you can describe, and *predict* what whole leaves cost.

{{time}} **Needs** chapter 05. **New words** policy, LFU, FIFO, trace.

Three prompts take turns, and there is room for two. Step through the film, and count the hits.
"""

# %%
from minikv import FreeListPool, RadixCache, record

cache, pool = RadixCache(), FreeListPool(4)
with record(cache, pool) as film:
    for prompt in ([1, 2], [3, 4], [5, 6]) * 2:
        if cache.match_prefix(prompt).length == 0:
            if pool.num_free < 2:
                pool.free(cache.evict(2))
            cache.insert(prompt, pool.alloc(2))
film.player(still=13)

# %% [markdown]
"""
## The problem

A cache cannot know what will be asked for next. LRU guesses: the future will be like the recent past. Most of the time that is a good guess. But think of a benchmark, or of a nightly job that asks the same ten questions again and again: ten prompts of ten tokens, one after the other, ten times around. Together they need 100 slots, and there is room for 90.

We can ask any cache how it would have done. A **trace** is a record of requests, in the order in which they came. `replay` serves them one by one through a cache of limited size and counts the tokens that it finds there.
"""

# %%
from minikv.traffic import TraceRequest, replay
from minikv.tokens import pack


def served(prompts, room, cache):
    """What happens if a cache with this much room serves the prompts, one by one."""
    return replay([TraceRequest(0, 0, 0, pack(p)) for p in prompts], cache, room)


PROMPTS = [[10 * i + j for j in range(10)] for i in range(20)]
loop = PROMPTS[:10] * 10

# %%
guess("13.a", "how many of the loop's 1,000 tokens are hits under LRU?", None)

# %%
done = served(loop, 90, RadixCache())
fold("13.a", done.hits, f"{done.evicted} tokens were evicted")

# %% [markdown]
"""
<details><summary>Why</summary>

Not one. When a prompt comes around again, it has waited longest of all. So it has just been evicted, to make room for the prompt before it. Nine tenths of the prompts would fit, and yet the cache has no hits.

</details>

Can another guess do better?

## Build it

### Step 1: seven guesses

A **policy** is a rule that says which leaf goes first. `RadixCache(policy=...)` knows seven of them.

- *lru*: the leaf that was used longest ago. It is the ring of chapter 05. *mru*, for *most recently used*, is *lru* reversed: the leaf that was used last.
- *lfu*: the leaf that was used least often. **LFU** stands for *least frequently used*.
- *fifo*: the leaf that was cached first, no matter how much it is used. **FIFO** stands for *first in, first out*. *filo*, first in, last out, is *fifo* reversed.
- *priority*: the leaf for which the caller gave the lowest number.
- *slru*, for *segmented LRU*: leaves that were used once go before leaves that were used again. Exercise 5.5 builds it from two rings.

Where their rule ranks two leaves equally, *lfu*, *priority* and *slru* fall back on the last use. Each policy except *lru* is a sort key: the leaf with the smallest key goes first. Here is the whole of one.
"""

# %%
from minikv.prefix.eviction import SegmentedLRU

source(SegmentedLRU)

# %% [markdown]
"""
A and B are cached, in that order. B is inserted twice more, with priority 5. Then A is matched, and finally C is cached. Each insert and each match is a use.
"""

# %%
guess("13.b", "under lfu, in which order do they go? Write it like 'A C B'.", None)

# %%
POLICIES = "lru", "lfu", "fifo", "mru", "filo", "priority", "slru"
orders = {}
for policy in POLICIES:
    cache = RadixCache(policy=policy)
    cache.insert([1], [0])  # A, in slot 0
    for _ in range(3):
        cache.insert([2], [1], priority=5)  # B
    cache.match_prefix([1])
    cache.insert([3], [2])  # C
    orders[policy] = " ".join("ABC"[cache.evict(1)[0]] for _ in range(3))
fold("13.b", orders["lfu"], *(f"{name:9}{order}" for name, order in orders.items()))

# %% [markdown]
"""
<details><summary>Why</summary>

C was used once, A twice and B three times.

</details>

Three letters have six orders, and the seven policies use five of them: they really do disagree.

### Step 2: four kinds of traffic

Only traffic can say which guess is good. Here are four kinds, made up and small enough to reason about. In the *chat*, twelve people speak in random order, and each turn sends everything said before and something new; a conversation begins with one of four instructions. The *favorites* are twenty prompts, some of which come much more often than others. You know the *loop*. In *once*, five prompts are used twice, then come fifteen that are never seen again, and then the five come back.
"""


# %%
import random


def chat_traffic():
    chance, said, prompts = random.Random(5), {}, []
    for turn in range(1, 301):
        person, more = chance.randrange(12), chance.randrange(1, 5)
        if person not in said or len(said[person]) > 30:  # a new conversation
            said[person] = [chance.randrange(4), *range(10, 15)]
        said[person] = said[person] + [100 * turn + j for j in range(more)]
        prompts.append(said[person])
    return prompts


# %%
often = [1 / (i + 1) for i in range(20)]
TRAFFIC = {  # the prompts, and how many tokens there is room for
    "chat": (chat_traffic(), 100),
    "favorites": (random.Random(5).choices(PROMPTS, weights=often, k=300), 100),
    "loop": (loop, 90),
    "once": (PROMPTS[:5] * 2 + PROMPTS[5:] + PROMPTS[:5], 100),
}

# %%
guess("13.c", "which of the seven serves the loop best? Write its name.", None)

# %%
found, lines = {}, [f"{'':10}{'tokens':>7}" + "".join(f"{p:>9}" for p in POLICIES)]
for name, (prompts, room) in TRAFFIC.items():
    for policy in POLICIES:
        found[name, policy] = served(prompts, room, RadixCache(policy=policy)).hits
    cells = "".join(f"{found[name, policy]:9}" for policy in POLICIES)
    lines.append(f"{name:10}{sum(map(len, prompts)):7}{cells}")
best = max(POLICIES, key=lambda policy: found["loop", policy])
fold("13.c", best, "\n".join(lines))

# %% [markdown]
"""
<details><summary>Why</summary>

*mru* looks absurd, but in a loop, what was used a moment ago is needed again last of all.

</details>

No policy wins everywhere. In *once*, *lru* forgets the five prompts that come back, because fifteen strangers were newer; *lfu* and *slru* keep what was used twice. In the chat, the people who are still talking spoke not long ago, and *lru* and *fifo* are far ahead of *lfu*. (No prompt here has a priority, so *priority* does what *lru* does.)

### Step 3: whole leaves, or pages?

So far each victim went as a whole, however little room was needed. With `evict_by="page"`, the cache cuts only as many pages as are needed off the *end* of the victim. Here a page is one token.
"""

# %%
for evict_by in ("node", "page"):
    cache = RadixCache(evict_by=evict_by)
    cache.insert(list(range(8)), range(8))
    print(f"by {evict_by}: evict(1) on a leaf of 8 tokens frees slots", cache.evict(1))

# %% [markdown]
"""
Back to the loop under *lru*, now with room for 99 of its 100 tokens. By whole leaves there is still not one hit, because room for one token is missing. What does the missing token cost by pages?
"""

# %%
guess("13.d", "by pages: is more or less than half of the loop a hit?", None)

# %%
from minikv.testing.watch import watch

lines, hits = [], {}
for evict_by in ("node", "page"):
    for name, room in (("loop", 99), ("chat", 100)):
        cache, calls = RadixCache(evict_by=evict_by), []
        watch(cache, ["evict"], calls.append)  # notes every call
        done = served(TRAFFIC[name][0], room, cache)
        hits[name, evict_by] = done.hits
        lines.append(
            f"by {evict_by}, {name}: {done.hits:4} hits, {len(calls)} evictions"
        )
fold("13.d", "more" if hits["loop", "page"] > 500 else "less", "\n".join(lines))

# %% [markdown]
"""
<details><summary>Why</summary>

The missing token now costs each prompt one token at its end, and not all ten. So the cliff came from the policy *and* from the size of its bites. In the chat you see the price: an eviction that frees just enough is soon followed by another.

</details>

### Step 4: how much room?

Look at the chat once more, by pages. Every turn ends in tokens that nobody has sent before, so it makes a fresh leaf. *fifo* never looks at use; it evicts what was cached first. We try fourteen sizes of the cache.
"""

# %%
guess("13.e", "over all 14 sizes, how many more hits does lru get than fifo?", None)

# %%
from minikv import plot

rooms, lines = list(range(40, 301, 20)), {}
for policy in ("lru", "fifo", "slru", "lfu", "mru"):
    caches = [RadixCache(policy=policy, evict_by="page") for _ in rooms]
    pairs = zip(rooms, caches)
    lines[policy] = [
        served(TRAFFIC["chat"][0], room, cache).hits for room, cache in pairs
    ]
picture = plot("chat: hits", {"room, in tokens": rooms}, lines, "hits")
fold("13.e", sum(lines["lru"]) - sum(lines["fifo"]), picture)

# %% [markdown]
"""
<details><summary>Why</summary>

They are *equal*, to the token. In a chat a leaf is used for the last time when it is made, so the leaf that was made first is also the one that was used longest ago. The two differ where exactly the same prompt comes again, as in the favorites. In the plot, both come last with the smallest cache, and lead from 80 tokens on.

In the table of step 2 they differed a little, because there whole leaves went, and the leaves of *lru* are longer. The cache joins a node with its only child if the policy cannot tell the two apart. To *lru*, two nodes that the same turn used last are alike; to *fifo* they are not, if two turns cached them.

</details>

## The same in `minikv`

Is the cache itself right about all this? For prompts that share nothing, *lru* can be written in a few lines, without a tree.
"""

# %%
from collections import OrderedDict


def plain_lru(prompts, room):
    recent, hits = OrderedDict(), 0
    for prompt in map(tuple, prompts):
        hits += len(prompt) if prompt in recent else 0
        recent[prompt] = None
        recent.move_to_end(prompt)
        if len(recent) > room // len(prompt):
            recent.popitem(last=False)
    return hits


# %%
for name in ("favorites", "loop", "once"):
    prompts = TRAFFIC[name][0]
    for room in range(10, 201, 10):
        assert plain_lru(prompts, room) == served(prompts, room, RadixCache()).hits
print("equal on three kinds of traffic, with 20 sizes of the cache each")

# %% [markdown]
"""
And your own traffic? Record a trace on your server, and `minikv replay` serves it from the command line: `minikv replay day.jsonl --capacity 20000 --policy slru`. It reads one line for each request, in the format in which the Mooncake project published the traces of a real chat service.

## Play

The playground takes a policy. This one has room for four tokens and evicts by *mru*. Insert three prompts of two tokens, again and again, as in the film at the top. How many of them can you keep alive? Then try to find an order in which *lru* does better.
"""

# %%
from minikv import playground

playground(capacity=4, policy="mru")

# %% [markdown]
"""
## More to try

#### 13.1 Design: a policy of your own

A policy is a class with a `key` and with `reads`, the names of the fields that the key looks at. A node has `hits`, `last_used`, `created`, `priority`, `end` (how many tokens there are from the root to its end) and `id`. The one below evicts the leaf that is cheapest to compute again. Change it. The score is the share of hits, averaged over the four kinds of traffic. Can you beat the best of ours? And does yours still win on traffic that you did not look at?
"""

# %%
from minikv.prefix.eviction import SmallestKeyFirst


class Mine(SmallestKeyFirst):
    reads = "end", "last_used"

    def key(self, node):
        return node.end, node.last_used  # the smallest goes first


# %%
def score(policy):
    """The share of tokens that are hits, averaged over the four kinds of traffic."""
    shares = [
        served(*pair, RadixCache(policy=policy)).hit_rate for pair in TRAFFIC.values()
    ]
    return sum(shares) / len(shares)


for policy in (*POLICIES, Mine):
    print(f"{getattr(policy, '__name__', policy):9}{score(policy):6.1%}")

# %% [markdown]
"""
#### 13.2 Hunt: when does the favorite lose?

Find traffic of at most 30 prompts, each of 10 tokens, on which *lfu* has fewer hits than *lru*, with room for 30 tokens. How far apart can you get them? The next section shows one way.
"""

# %%
traffic = [PROMPTS[i] for i in (0, 1, 2, 3, 0, 1, 2, 3)]  # put your own order here
for policy in ("lru", "lfu"):
    print(f"{policy}: {served(traffic, 30, RadixCache(policy=policy)).hits} hits")

# %% [markdown]
"""
## What it cost

*lru* needs no sorting: a use moves a node to the end of a ring. Every other policy keeps its leaves in a heap. Each use of a leaf moves it in the heap, and the more leaves there are, the more steps that takes.

And a policy that counts has too good a memory. Suppose eight prompts are popular all morning, and eight others all afternoon.
"""

# %%
morning, afternoon = PROMPTS[:8] * 20, PROMPTS[8:16] * 20
for policy in ("lru", "lfu", "slru"):
    done = served(morning + afternoon, 100, RadixCache(policy=policy))
    print(f"{policy:5}{done.hits:5} hits of {done.blocks} tokens")

# %% [markdown]
"""
There is room for ten prompts. *lru* follows the change at once. *lfu* and *slru* keep the morning's eight, which nobody asks for again. The afternoon's eight share the remaining room for two, and each of them is evicted before its second use. A policy that counts needs a way to forget.

## In real engines

{{engines 13}}

With SGLang you choose when you start the server. The other three evict by last use.

## Recap

A policy is a guess about the future, and each of the seven does well on some traffic and badly on other traffic. LRU has no hits on a loop that does not quite fit, and in a chat, by pages, it equals FIFO to the token. Evicting by pages takes smaller bites. That turns the cliff into a slope, at the price of more evictions.

**Check yourself**

1. Why does LRU have no hit at all in a loop that is one prompt too long?
2. When do *lru* and *fifo* evict exactly the same?
3. From chapter 05: why does *lru* need no search for a leaf?
4. From chapter 03: `evict_by="page"` cuts a leaf in the middle. Which end goes, and why that one?

<details><summary>Answers</summary>

1. When a prompt comes around again, it is the one that has waited longest, so it has just been evicted.
2. When every request ends in a fresh leaf: each leaf was used last when it was made.
3. On every path the parent is newer than its child, so the oldest node has no children.
4. The far end. A match starts at the root, so the beginning must stay.

</details>

**Read on**: [Mooncake, which published its traces](https://arxiv.org/abs/2407.00079) · [SGLang, with its eviction policies](https://github.com/sgl-project/sglang)
"""

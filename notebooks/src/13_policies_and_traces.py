# %% [markdown]
"""
# 13 · Which policy wins on real traffic?

A **policy** is a rule that says which leaf is evicted first. Yours from chapter 05, LRU, rests on a guess: a prefix that has not been used for a while will not be needed soon. Now you test it on real requests. You write two yardsticks, LRU's hits at *every* cache size and the most hits that any policy could have, and then a policy.

**After this chapter you will be able to** *measure* how much cache your traffic needs, *compare* any policy with the best possible one, and *tell* a good policy from a lucky one.

{{time}} **Needs** chapter 05. **New words** policy, trace, LFU, reuse distance, time to live.

Here is where we are going: 24 coding agents share one server. The chart shows how much of their prompts is left to compute under LRU and under the best possible policy, which knows the future. You will write the code for both lines.
"""

# %%
from minikv import FreeListPool, RadixCache, asset, plot, record
from minikv.traffic import TraceRequest, open_traffic, replay
from minikv.traffic.curve import HitCurve, curve_sizes
from minikv.traffic.trace_tree import TraceTree


def traffic(name):
    with open_traffic(asset(f"traffic/{name}.jsonl.gz"), span_hours=1) as opened:
        return list(opened.requests)


# %%
agents = traffic("agents")
curve = HitCurve(TraceTree(agents))

# %%
sizes = [size for size in curve_sizes(1000, curve.reach) if size >= 500]
room = {"room, in thousands of tokens": [512 * size // 1000 for size in sizes]}
lru = [100 - 100 * curve.hits(size) / curve.blocks for size in sizes]
best = [100 - 100 * curve.bound(size) / curve.blocks for size in sizes]
lines = {"LRU": lru, "best possible": best}
plot("24 coding agents", room, lines, "% of all tokens to compute", log="x")

# %% [markdown]
"""
## The problem

LRU guesses that the future will be like the recent past. But think of a loop: the same ten prompts, of ten tokens each, come in turn ten times. Together they need 100 slots, and there is room for 90.

A **trace** is a record of requests, in the order in which they came. `replay` serves them through a cache and counts the tokens that are found there, the *hits*. How many of the loop's 1,000 tokens are hits under LRU?
"""

# %%
from minikv.tokens import pack


def served(prompts, room, cache):
    """Serve the prompts, one by one, with a cache that has this much room."""
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

When a prompt comes around again, it has waited the longest of all, so it has just been evicted to make room for the prompt before it.

</details>

The film shows a loop of three prompts with room for two.
"""

# %%
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
The next policy knows nothing: it gives each leaf a random number and evicts the leaf with the smallest. Here, even chance beats LRU.
"""

# %%
import random

from minikv.prefix.eviction import SmallestKeyFirst


class RandomLeaf(SmallestKeyFirst):
    reads = ("id",)  # the key depends only on which node it is

    def __init__(self):
        super().__init__()
        self.dice = random.Random(13)

    def key(self, node):
        return (self.dice.random(),)


# %%
print(served(loop, 90, RadixCache(policy=RandomLeaf)).hits, "hits by chance")

# %% [markdown]
"""
## Build it

### Step 1: seven guesses

`RadixCache(policy=...)` also knows seven policies by name. Each says which leaf goes first:

- *lru*: the least recently used leaf, found by the ring from chapter 05. *mru*, most recently used, is the reverse.
- *lfu*: the leaf that was used least often. (**LFU** is *least frequently used*.)
- *fifo*, first in, first out: the leaf that was cached first. *filo* is the reverse.
- *priority*: the leaf to which the caller gave the lowest number.
- *slru*, segmented LRU: leaves that were used only once go before the others.

Each lookup and each insert counts as a use. Of leaves that tie, the least recently used goes first.

A is inserted, and then B three times, with priority 5. Then A is looked up, and finally C is inserted. In which order are they evicted under *lfu*?
"""

# %%
POLICIES = "lru", "lfu", "fifo", "mru", "filo", "priority", "slru"
guess("13.b", "under lfu, in which order are they evicted? Write it as 'A C B'.", None)

# %%
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

Back to the loop: which of the seven policies serves it best?
"""

# %%
guess("13.c", "which of the seven serves the loop best? Write its name.", None)

# %%
found = {name: served(loop, 90, RadixCache(policy=name)).hits for name in POLICIES}
winner = max(found, key=found.get)
fold("13.c", winner, *(f"{name:9}{hits:4} hits" for name, hits in found.items()))

# %% [markdown]
"""
<details><summary>Why</summary>

In a loop, the prompt that you have just used is the last one that you will need again.

</details>

So far, each victim was a whole leaf. With `evict_by="page"`, the cache cuts only as many pages as it needs off the victim's *end*. Here a page is one token. Give the loop room for 99 of its 100 tokens: by whole leaves, LRU still has no hit. How many hits does it have by pages?
"""

# %%
guess("13.d", "LRU by pages: how many of the loop's 1,000 tokens are hits?", None)

# %%
by_page = served(loop, 99, RadixCache(evict_by="page")).hits
fold("13.d", by_page, f"by leaves: {served(loop, 99, RadixCache()).hits}")

# %% [markdown]
"""
<details><summary>Why</summary>

Now the missing slot costs each prompt one token at its end, not all ten: in each of nine rounds, 9 of every prompt's 10 tokens are hits. So the collapse came from the policy *and* from evicting whole leaves.

</details>

### Step 2: real traffic

Two traces come with the course. The *chat* is 16 minutes (3,000 requests) of a public chat service, published by Mooncake. The *agents* are 24 sessions (1,478 requests) of a coding agent, recorded by WEKA; we spread their starts evenly over one hour. A prompt is a list of block ids, without text. A block holds 512 tokens, and its id, like a key in chapter 10, stands for everything up to its end.

Is *lru*'s work at every use worth it? *fifo* does no such work. In the chat, each turn's prompt extends that of the turn before. Give both policies room for 11,057 blocks, a fifth of the chat's different blocks, and evict by pages. By how many percentage points is *lru*'s hit rate higher than *fifo*'s?
"""

# %%
chat = traffic("chat")
TRACES = [("chat", chat, room) for room in (1_000, 2_764, 11_057)]
guess("13.e", "by how many points is lru's hit rate higher? (one decimal)", None)

# %%
tried, rates, lines = ("lru", "fifo", "slru", "lfu", RandomLeaf), {}, []
for name, trace, room in [*TRACES, ("agents", agents, 2_000)]:
    for policy in tried:
        cache = RadixCache(policy=policy, evict_by="page")
        rates[room, policy] = 100 * replay(trace, cache, room).hit_rate
    cells = "".join(f"{rates[room, policy]:8.1f}" for policy in tried)
    lines.append(f"{name:8}{room:8,}{cells}")
head = "".join(f"{name:>8}" for name in ("", "room", *tried[:4], "random"))
fold("13.e", round(rates[11_057, "lru"] - rates[11_057, "fifo"], 1), head, *lines)

# %% [markdown]
"""
<details><summary>Why</summary>

In a chat, a leaf is not used again as a leaf: the next turn gives it a child. So the leaf that was cached first is also the least recently used. The two policies differ only where the same prompt comes in again.

</details>

Read the table (hit rates in percent) from the bottom. An agent's next request comes soon after the last one and continues it, so the recent past is a good guide, and LRU is far ahead of chance. The same holds for the chat with room for 11,057 blocks. But with room for 2,764 or fewer, *random beats LRU*. This is the loop's collapse again, a *cliff*: while a person reads and types, more blocks come in than fit, so LRU evicts conversations before their next turn. Random eviction spares some.

### Step 3: every size in one pass

A replay tells you about one cache size. For LRU, a single pass covers them all ([Mattson and others, 1970](https://doi.org/10.1147/sj.92.0078)).

Put all blocks in a list, the most recently used first. A cache with room for C blocks holds exactly the first C of them, and the *list* is the same for every C. So a block is a hit if its place in the list is at most C. That place is its **reuse distance**: the number of different blocks used since its last use, plus one for the block itself.

Five prompts of one block each come in: A, B, C, B, A. What is the reuse distance of the last A?
"""

# %%
guess("13.f", "what is the reuse distance of the last A?", None)

# %%
prompts = [[1], [2], [3], [2], [1]]
enough = [served(prompts, room, RadixCache()).hits == 2 for room in range(1, 6)]
fold("13.f", 1 + enough.index(True), "the smallest room in which both B and A hit")

# %% [markdown]
"""
<details><summary>Why</summary>

It counts B, C and A itself. B was used twice, but it takes up room only once.

</details>

For requests with several blocks, there are two rules. All blocks of a request are locked while it is served (chapter 04), so look up their places before you move the first. And a leaf is evicted before its parent (chapter 05), so move the request's last block to the front first.

For example, let `[1, 2]`, `[3]` and `[1]` come in. When the third request arrives, the list is 3, 1, 2, so the reuse distance of block 1 is 2.

#### 13.1 You write: `reuse_distances` (20 minutes)

`requests` is a list of lists of block ids. Return a list, in any order, of the reuse distances of all uses but each block's first: `[2]` for the three requests above.

Searching a list would be slow. Instead, give a block a *mark* whenever it is used. A `Timeline(most)` has room for `most` marks, removed ones included:

| call | returns |
|---|---|
| `timeline.mark()` | a new mark, newer than all others |
| `timeline.newer(mark)` | how many marks are newer than this one, found in a few steps |
| `timeline.remove(mark)` | nothing; the mark no longer counts |

*Test it first* (optional, 10 minutes): what if a wrong version counts uses instead of blocks, or moves blocks in the wrong order?
"""


# %%
def test_reuse_distances(reuse_distances):
    """Fail if `reuse_distances` is wrong."""
    raise NotImplementedError  # `assert` what sorted(reuse_distances(...)) must be


catch("13.1 reuse_distances", test_reuse_distances)


# %%
def reuse_distances(requests):
    """Return the smallest room in which LRU has a block, for each use but its first."""
    raise NotImplementedError  # delete this line; about 9 lines to write


reuse_distances = check("13.1 reuse_distances", reuse_distances)

# %%
requests = [request.blocks.tolist() for request in chat]
distances = sorted(reuse_distances(requests))
for _, trace, room in TRACES:
    done = replay(trace, RadixCache(evict_by="page"), room)
    one_pass = sum(distance <= room for distance in distances)
    print(f"room {room:6,}: {one_pass:6,} hits in one pass, {done.hits:6,} replayed")

# %%
from bisect import bisect_right

rooms = [250 * 2**step for step in range(8)]
hits = [bisect_right(distances, room) for room in rooms]
plot("chat: LRU by pages", {"room, in blocks": rooms}, {"LRU": hits}, "hits", log="x")

# %% [markdown]
"""
Up to a thousand blocks, more memory gains almost nothing, because nearly all hits are on the first block, which all prompts share. Then the curve climbs. (It starts where even the longest request fits.)

### Step 4: the best possible

With room for 1,000 blocks, LRU finds 4.1 percent of the blocks. How many could be found? If you knew the future, you could follow [Bélády's rule of 1966](https://doi.org/10.1147/sj.52.0078) and evict *the block whose next use is farthest away*. But a prefix cache may evict only leaves. The rule takes only leaves if, of several blocks with the same next use, it takes the deepest:

1. A prompt that contains a block contains everything before it, so each use of a block is a use of its parent.
2. So a parent's next use is never later than its child's. If the two are the same, the child is deeper.
3. So while a block has a cached child, the rule takes the child first, and the victim is a leaf.
4. The blocks of the current request are in use *now*, so they are never the farthest.

No order of eviction has more hits; the docstring of `minikv.traffic.reuse` has the proof. Now take a short loop: prompts A, B and C, one block each, come in turn four times, with room for two blocks. If you know the future, how many of the 12 requests are hits?
"""

# %%
guess("13.g", "if you know the future: how many of the 12 requests are hits?", None)

# %%
fold("13.g", optimal_hits([[1], [2], [3]] * 4, 2), "LRU would have none")

# %% [markdown]
"""
<details><summary>Why</summary>

The first round has no hits. When a prompt is missing, evict the one that you served just before, because it comes back last. Then hits and misses alternate: A hits, B misses, C hits, and so on. *mru* does exactly that, so no policy can beat it on this loop.

</details>

#### 13.2 You write: `next_uses` (5 minutes)

Return a list of lists: for each request, in order, and each of its blocks, the number of the next request that uses it. Requests are numbered from 0, and a block that is not used again gets `len(requests)`. (To look ahead, go through the requests backward.)
"""


# %%
def next_uses(requests):
    """Return, for each request, the number of the next request to use each block."""
    raise NotImplementedError  # delete this line; about 5 lines to write


next_uses = check("13.2 next_uses", next_uses)

# %% [markdown]
"""
#### 13.3 You write: `optimal_hits` (25 minutes)

Serve the requests in order, with room for `room` blocks; no request has more. Return how many blocks were in the cache when their request arrived. Call `next_uses` to look ahead. A set of blocks is all the cache you need. No block of the current request may be a victim. (It doesn't matter how you break ties.)

A heap finds the victim. It begins as an empty list; `heappush(heap, entry)` adds a tuple, and `heappop(heap)` removes the smallest one, which should have the farthest next use, and returns it. When a block is used again, its old entry stays in the heap but does no harm: the use that the entry names is over, so every possible victim comes out before it.
"""


# %%
def optimal_hits(requests, room):
    """Return the most hits that any order of eviction can have with this much room."""
    raise NotImplementedError  # delete this line; about 9 lines to write


optimal_hits = check("13.3 optimal_hits", optimal_hits)

# %%
total = sum(map(len, requests))
for room in rooms[2:]:
    shares = bisect_right(distances, room) / total, optimal_hits(requests, room) / total
    print(f"room {room:6,}: LRU {shares[0]:6.1%}, best possible {shares[1]:6.1%}")

# %% [markdown]
"""
With room for 1,000 blocks, the best possible policy finds 17.0 percent; LRU finds only 4.9 percent even with room for 2,000. So below the cliff, look for a better policy first.

### Step 5: a count that fades

*lfu* ought to be good where some prompts come much more often than others. Take twenty such prompts, and let the favorites change at noon.
"""

# %%
often, dice = [1 / (i + 1) for i in range(20)], random.Random(5)
morning = dice.choices(PROMPTS, weights=often, k=150)
day = morning + dice.choices(PROMPTS[::-1], weights=often, k=150)

# %%
for policy in ("lru", "lfu", "slru"):
    print(f"{policy:6}{served(day, 50, RadixCache(policy=policy)).hits:5} hits")
print(f"at most {optimal_hits(day, 50)} of {sum(map(len, day)):,} tokens")

# %% [markdown]
"""
*lfu* counts well, but it cannot forget, so it keeps the morning's favorites all afternoon. Let the count fade: it is halved for every `half_life` ticks of the cache's clock since the leaf's last use. A leaf is then worth `hits / 2 ** ((now - last_used) / half_life)`.

This value changes with every tick, but the heap need not be sorted again: all leaves fade at the same rate, so the *order* of two leaves stays the same until one of them is used. You need a key that gives this order but does not depend on the current time.

#### 13.4 You write: `aged_key` (10 minutes)

Return a number, the key of `node`. Of two leaves, the one that is worth less must have the smaller key. You may use `node.hits` (at least 1), `node.last_used` and `log2(x)`. After a million ticks, your key must still work.
"""


# %%
def aged_key(node, half_life):
    """Return a number, which is smallest for the leaf that is worth least by now."""
    raise NotImplementedError  # delete this line; about 2 lines to write


aged_key = check("13.4 aged_key", aged_key)


# %%
class Aged(SmallestKeyFirst):
    reads = "hits", "last_used"

    def key(self, node):
        return (aged_key(node, half_life=10),)


print(f"Aged  {served(day, 50, RadixCache(policy=Aged)).hits:5} hits")

# %% [markdown]
"""
Your policy beats *lru*, which forgets too fast, and *lfu*, which never does. (A half-life of one tick makes it nearly *lru*, and a very long one makes it *lfu*.)

## The same in `minikv`

For the chart at the top, `HitCurve` found both lines in one pass. Does your `optimal_hits` agree? The agents hit often, so count the blocks left to compute:
"""

# %%
agents_blocks, most = [request.blocks.tolist() for request in agents], {}
for room in 2_000, 4_000:
    most[room] = optimal_hits(agents_blocks, room)
    left, least = curve.blocks - curve.hits(room), curve.blocks - most[room]
    shares = f"{left / curve.blocks:.1%}, best possible {least / curve.blocks:.1%}"
    print(f"room {room:,}: LRU computes {shares}, {1 - least / left:.0%} less")
print(f"unlimited: {curve.blocks - curve.hits():,} of {curve.blocks:,} blocks computed")
same = [curve.bound(room) == hits for room, hits in most.items()]
print("your bound is the chart's:", all(same))

# %% [markdown]
"""
Twice the memory helps the agents most, but with 2,000 blocks, the best policy would save 28 percent of what LRU computes.

For the chat, `minikv replay chat.jsonl.gz --capacity 2764,11057 --evict-by page` counts the same hits as your pass. (*Uncached requests* are larger than the whole cache.)
"""

# %%
import contextlib

from minikv.cli import main

words = "replay", "--capacity", "2764,11057", "--evict-by", "page"
with contextlib.redirect_stderr(None):  # which says what format the trace has
    main([*words, str(asset("traffic/chat.jsonl.gz"))])

# %% [markdown]
"""
Is a shared system prompt worth much? The trace does not say what the agents share, so here each computes its own, about 28 blocks. With unlimited memory, the 24 agents compute 18,028 blocks. By how many percent would that number fall if they shared one system prompt?
"""

# %%
guess("13.h", "by how many percent would the number fall? (a whole number)", None)

# %%
import gzip
import json

with gzip.open(asset("traffic/agents.jsonl.gz"), "rt", encoding="utf-8") as file:
    system = [json.loads(line)["system_prompt_tokens"] // 512 for line in file]
cache, hits = RadixCache(), 0
for request in agents:
    found = cache.match_prefix(request.blocks).length
    hits += min(found, system[request.conversation])
    cache.insert(request.blocks, range(len(request.blocks)))
percent = round(100 * sum(system) * 23 / 24 / (curve.blocks - curve.hits()))
fold("13.h", percent, f"{hits:,} of {curve.hits():,} blocks that hit are system prompt")

# %% [markdown]
"""
<details><summary>Why</summary>

Sharing would save 28 blocks for each of 23 agents. The other blocks belong to conversations, which nobody else can use. Nine tenths of the hits, too, come from an agent's own conversation.

</details>

So a conversation has to survive until its next turn. A service may forget it after a **time to live**, however much memory is free. What would that cost the agents?
"""

# %%
for seconds in 60, 300, 3600:
    lost = 1 - curve.hits(seconds=seconds) / curve.hits()
    print(f"forgotten after {seconds:5,} s: {lost:6.1%} of all hits lost")

# %% [markdown]
"""
Evicting whole nodes costs the agents more than the choice between *lru* and *slru*, because their leaves are long:
"""

# %%
for evict_by in ("node", "page"):
    done = replay(agents, RadixCache(evict_by=evict_by), 2_000)
    print(f"by {evict_by}: {done.hit_rate:.1%} hits, {done.evicted:,} blocks evicted")

# %% [markdown]
"""
## Play

This playground has room for four tokens and evicts by *mru*. Insert three prompts of two tokens, again and again, as in the film. How many stay cached? Then find an order in which *lru* does better.
"""

# %%
from minikv import playground

playground(capacity=4, policy="mru")

# %% [markdown]
"""
## More to try

#### 13.5 Design: a policy of your own

A policy is a class with a method `key`, which returns a tuple of numbers, and `reads`, the fields that `key` looks at. A node has `hits`, `last_used`, `created`, `priority`, `id`, and `end`, the number of blocks from the root to its end. The policy below evicts the leaf that is cheapest to compute again. Change it. The score is the share of blocks that are hits, over the first half of both traces. How close to the bound can you get?
"""


# %%
class Mine(SmallestKeyFirst):
    reads = "end", "last_used"

    def key(self, node):
        return node.end, node.last_used  # the smallest goes first


# %%
def score(policy, parts):
    runs = [replay(p, RadixCache(policy=policy, evict_by="page"), r) for p, r in parts]
    return sum(run.hits for run in runs) / sum(run.blocks for run in runs)


def bound(parts):
    lists = [([request.blocks.tolist() for request in p], room) for p, room in parts]
    total = sum(len(blocks) for requests, _ in lists for blocks in requests)
    return sum(optimal_hits(*part) for part in lists) / total


# %%
PRACTICE = (chat[:1500], 6_000), (agents[:739], 2_000)  # requests, and room in blocks
for policy in ("lru", "fifo", "slru", "lfu", Aged, RandomLeaf, Mine):
    print(f"{getattr(policy, '__name__', policy):11}{score(policy, PRACTICE):6.1%}")
print(f"bound      {bound(PRACTICE):6.1%}")

# %% [markdown]
"""
*slru* and *Aged* win. Or were they lucky? If you try enough policies on the same requests, one of them fits by chance. So hold some traffic back, and look at it only once. Here are the second halves:
"""

# %%
EXAM = (chat[1500:], 6_000), (agents[739:], 2_000)
for policy in ("lru", "slru", Aged, RandomLeaf, Mine):
    print(f"{getattr(policy, '__name__', policy):11}{score(policy, EXAM):6.1%}")
print(f"bound      {bound(EXAM):6.1%}")

# %% [markdown]
"""
Now both lose to *lru*, which leaves 21.2 percent to compute. The best possible policy would leave 18.1.

#### 13.6 Hunt: when does *lfu* lose?

`careless_hits` always trusts *lfu*. With room for three prompts, find an order of at most 30 prompts for which *lru* has more hits. Numbers stand for prompts.
"""

# %%
from minikv.course.pieces.ch13 import best_hits

source(best_hits, careless("13.6"))


# %%
def order():
    raise NotImplementedError  # delete this line, and change the order in the next
    return ([0, 1, 2, 3, 0, 1, 2, 3],)


check("13.6 careless_hits", order)

# %% [markdown]
"""
<details><summary>Hint</summary>

*lfu* cannot forget. Let some prompts be used several times, and then never again.

</details>

<details><summary>Solution</summary>

```python
def order():
    return ([0] * 3 + [1] * 3 + [2, 3] * 12,)  # 0 and 1 keep two of the three places
```

</details>

## What it cost

*lru* needs no sorting, because a use moves a node to the end of a ring. *slru* and your `Aged` must update a heap at each use, for a point or two on some traffic.

The yardsticks count all blocks alike, but a hit at token 30,000 saves more than one at token 30, because attention also reads the tokens before it.

## In real engines

{{engines 13}}

For your own traffic, use minikv-tools (`pip install ./tools`): `minikv-tools plan` draws your two lines for a GPU's memory, and `minikv-tools why` explains why prompts don't share more.

## Recap

A policy is a guess about the future, and none of the seven is good everywhere. For LRU, one pass gives the hits of every size, and knowing the future gives the most that any policy could have. On real traffic, LRU is hard to beat once a conversation survives until its next turn; with less room, it falls off a cliff, where the best possible policy would help more than doubling memory.

**Check yourself**

1. Why does LRU have no hit at all in a loop that is one prompt too long?
2. Why is the block whose next use is farthest away always a leaf?
3. From chapter 05: why does *lru* need no search for a leaf?
4. From chapter 10: why can a set of block ids represent a tree of prefixes?

<details><summary>Answers</summary>

1. When a prompt comes around again, it has waited the longest, so it has just been evicted.
2. Each use of a child is a use of its parent, so the parent's next use is never later. If both are the same, the deeper one goes first.
3. On every path the parent is newer than its child, so the oldest node has no children.
4. An id is made from the block and from everything before it. Two prompts have the same id only if they share that whole prefix.

</details>

**Read on**: [Mooncake, which published its traces](https://arxiv.org/abs/2407.00079) · [SGLang, with its eviction policies](https://github.com/sgl-project/sglang) · [the sessions of the agents](https://github.com/callanjfox/kv-cache-tester)
"""

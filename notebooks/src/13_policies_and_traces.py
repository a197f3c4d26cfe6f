# %% [markdown]
"""
# 13 · Which policy wins on real traffic?

Your eviction of chapter 05 rests on a guess: what has not been used for a while will not be needed soon. Now you test that guess on real requests. You write two yardsticks, one pass that gives the hits of *every* cache size and the most hits that any policy could have, and then a policy.

**After this chapter you will be able to** *measure* how much cache some traffic needs, *compare* any policy with the best possible one, and *tell* a good policy from a lucky one.

{{time}} **Needs** chapter 05. **New words** policy, trace, LFU, reuse distance, time to live.

Here is where we are going. 24 coding agents share one server. The chart shows how much of their prompts is left to compute, under LRU and if the cache knew the future. You will write the code for both lines.
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

LRU guesses that the future will be like the recent past. But think of a job that asks the same ten questions over and over: ten prompts of ten tokens, ten times. Together they need 100 slots, and there is room for 90.

A **trace** is a record of requests, in the order in which they came. `replay` serves them through a cache and counts the tokens that it finds there, the *hits*. How many of the loop's 1,000 tokens are hits under LRU?
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

When a prompt comes around again, it has waited the longest of all, so it has just been evicted to make room for the prompt before it. The film shows this with three prompts and room for two.

</details>
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
A **policy** is a rule that says which leaf goes first. This one knows nothing and evicts the leaf with the smallest random number. Here even chance beats LRU.
"""

# %%
import random

from minikv.prefix.eviction import SmallestKeyFirst


class RandomLeaf(SmallestKeyFirst):
    reads = ("id",)  # what the key depends on: here, on which node it is

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

`RadixCache(policy=...)` also knows seven policies by name.

- *lru*: the least recently used leaf, by the ring of chapter 05. *mru*, most recently used, is its reverse.
- *lfu*: the leaf that was used least often. (**LFU** is *least frequently used*.)
- *fifo*, first in, first out: the leaf that was cached first. *filo* is its reverse.
- *priority*: the leaf for which the caller gave the lowest number.
- *slru*, segmented LRU: leaves that were used once go before leaves that were used again.

Each lookup and each insert counts as a use. Where two leaves tie, *lfu*, *priority* and *slru* fall back on the last use.

A and B are cached, in that order. B is inserted twice more, with priority 5. Then A is looked up, and finally C is cached. In which order do they go under *lfu*?
"""

# %%
POLICIES = "lru", "lfu", "fifo", "mru", "filo", "priority", "slru"
guess("13.b", "under lfu, in which order do they go? Write it like 'A C B'.", None)

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

Back to the loop. Which of the seven serves it best?
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

In a loop, what you used a moment ago is the last thing you will need again.

</details>

So far each victim was a whole leaf. With `evict_by="page"` the cache cuts only as many pages as it needs off the *end* of the victim. Here a page is one token. Give the loop room for 99 of its 100 tokens: by whole leaves, LRU still has no hit. How many hits has it by pages?
"""

# %%
guess("13.d", "LRU by pages: how many of the loop's 1,000 tokens are hits?", None)

# %%
by_page = served(loop, 99, RadixCache(evict_by="page")).hits
fold("13.d", by_page, f"by leaves: {served(loop, 99, RadixCache()).hits}")

# %% [markdown]
"""
<details><summary>Why</summary>

Now the missing slot costs each prompt one token at its end, not all ten: 9 tokens of each of 10 prompts hit, in nine rounds. So the collapse came from the policy *and* from evicting whole leaves.

</details>

### Step 2: real traffic

Two traces come with the course. The *chat* is 16 minutes of a public service, 3,000 requests, published by Mooncake. The *agents* are 24 sessions of a coding agent, 1,478 requests, recorded by WEKA; we let them begin evenly over one hour. A prompt is a list of block ids, without text. A block holds 512 tokens, and its id, like a key in chapter 10, stands for everything up to its end.

Does chapter 05's care for the last use pay off? *fifo* never looks at it. Give both policies room for 11,057 blocks, a fifth of the different blocks in the chat, and evict by pages. By how many percentage points is *lru* ahead of *fifo*?
"""

# %%
chat = traffic("chat")
TRACES = [("chat", chat, room) for room in (1_000, 2_764, 11_057)]
guess("13.e", "by how many percentage points is lru ahead of fifo?", None)

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

In a chat, a leaf is used for the last time when it is made: the next turn extends it, and then it is not a leaf anymore. So the leaf that was cached first is also the least recently used. The two differ only where the same prompt comes again.

</details>

Read the table from the bottom. An agent's next request comes soon after the last one and continues it, so the recent past is a good guide, and LRU is far ahead of chance. The same holds for the chat with room for 11,057 blocks. But with 2,764 blocks or fewer, *random beats LRU*. This is the collapse that we saw in the loop: a *cliff*. While a person reads and types, more blocks come in than fit, so LRU evicts the conversation before its next turn. Chance spares some.

### Step 3: every size in one pass

A replay tells you about one size. For LRU, a single pass tells you about all of them (Mattson and others, 1970).

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

It counts B, C and A itself. B was used twice, but it takes room once.

</details>

Most requests have several blocks, and two rules decide what such a request does to the list. Its blocks are locked while it is served (chapter 04), so look up all their places before you move the first. And a leaf goes before its parent (chapter 05), so move the request's last block to the front first.

For example, let `[1, 2]`, `[3]` and `[1, 2]` come in. When the third request arrives, the list is 3, 1, 2, so the reuse distances are 2 and 3.

#### 13.1 You write: `reuse_distances` (20 minutes)

`requests` is a list of lists of block ids. Return the reuse distance of each block that was used before, as a list in any order: `[2, 3]` for the three requests above.

A list would be slow to search. Instead, give a block a *mark* whenever it is used. A `Timeline(most)` has room for `most` marks, removed ones included:

| call | returns |
|---|---|
| `timeline.mark()` | a new mark, newer than all others |
| `timeline.newer(mark)` | how many marks are newer than this one, found in a few steps |
| `timeline.remove(mark)` | nothing; the mark no longer counts |

*Test it first* (optional, 10 minutes): what if it counts uses, not blocks, or moves them in the wrong order?
"""


# %%
def test_reuse_distances(reuse_distances):
    """Fail if `reuse_distances` is wrong."""
    raise NotImplementedError  # `assert` what sorted(reuse_distances(...)) must be


catch("13.1 reuse_distances", test_reuse_distances)


# %%
def reuse_distances(requests):
    """For each block used before: the smallest room in which LRU still has it."""
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
sizes = {"room, in blocks": rooms}
plot("chat: LRU by pages", sizes, {"LRU": hits}, "hits", log="x")

# %% [markdown]
"""
Up to a thousand blocks, more memory gains almost nothing: nearly all hits are the one block that all prompts share. Then the curve climbs. (It starts where the longest request fits.)

### Step 4: the best possible

With room for 1,000 blocks, LRU finds 4.1 percent. Is that bad? It depends on what is possible. If you knew the future, you could follow Bélády's rule of 1966 and evict *the block whose next use is farthest away*. But a prefix cache may evict only leaves. The rule does so if, of several blocks with the same next use, it takes the deepest:

1. A prompt that contains a block contains everything before it, so each use of a block is a use of its parent.
2. So a parent's next use is never later than its child's. If the two are the same, the child is deeper.
3. So while a block has a cached child, the rule takes the child first. The victim is a leaf.
4. The blocks of the request itself are in use *now*, so they are never the farthest.

No order of eviction has more hits; the docstring of `minikv.traffic.reuse` has the proof. Back to the loop, with room for 90 of its 100 tokens. If you know the future, how many of the 1,000 tokens are hits?
"""

# %%
guess("13.g", "if you know the future: how many of the loop's 1,000 tokens hit?", None)

# %%
fold("13.g", optimal_hits(loop, 90), "LRU had none")

# %% [markdown]
"""
<details><summary>Why</summary>

The first round has no hits. After that, evict the prompt that you used last, because it comes back last. Of nine prompts, eight hit and one misses, so 80 of the other 90 prompts hit. *mru* does exactly that, and no policy can beat it on this loop.

</details>

#### 13.2 You write: `next_uses` (5 minutes)

To look ahead, walk backward. Return a list for each request, in order, with a number for each of its blocks: the number of the next request that uses it. Requests count from 0. A block that nobody uses again gets `len(requests)`.
"""


# %%
def next_uses(requests):
    """For each block of each request: the number of the next request that uses it."""
    raise NotImplementedError  # delete this line; about 5 lines to write


next_uses = check("13.2 next_uses", next_uses)

# %% [markdown]
"""
#### 13.3 You write: `optimal_hits` (25 minutes)

Serve the requests in order, with room for `room` blocks; no request is larger. Return how many blocks were there when their request arrived. Call `next_uses` to look ahead. A set of blocks is all the cache you need. No block of the request that is being served may be a victim. (Ties make no difference to the count.)

A heap finds the victim. It begins as an empty list; `heappush(heap, entry)` adds a tuple, and `heappop(heap)` removes the smallest one and returns it. When a block is used again, its old entry stays in the heap. It does no harm: the use that it names is in the past, so every possible victim comes out first.
"""


# %%
def optimal_hits(requests, room):
    """The most hits that any order of eviction can have with this much room."""
    raise NotImplementedError  # delete this line; about 9 lines to write


optimal_hits = check("13.3 optimal_hits", optimal_hits)

# %%
total = sum(map(len, requests))
for room in rooms[2:]:
    shares = bisect_right(distances, room) / total, optimal_hits(requests, room) / total
    print(f"room {room:6,}: LRU {shares[0]:6.1%}, best possible {shares[1]:6.1%}")

# %% [markdown]
"""
With room for 1,000 blocks, LRU finds a quarter of what is possible. Twice the memory brings it to 4.9 percent, but in step 2 chance found 5.4 percent with no more memory. So below the cliff, look for a better guess. For the agents, who hit often, count what is left to compute:
"""

# %%
agents_blocks, most = [request.blocks.tolist() for request in agents], {}
for room in 2_000, 4_000:
    most[room] = optimal_hits(agents_blocks, room)
    left, least = curve.blocks - curve.hits(room), curve.blocks - most[room]
    shares = f"{left / curve.blocks:.1%}, best possible {least / curve.blocks:.1%}"
    print(f"room {room:,}: LRU computes {shares}, {1 - least / left:.0%} less")
print(f"unlimited: {curve.blocks - curve.hits():,} of {curve.blocks:,} blocks computed")

# %% [markdown]
"""
Twice the memory helps the agents most, but with 2,000 blocks the best policy would save 28 percent of what LRU computes.

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
*lfu* counts well, but it cannot forget, so it keeps the morning's favorites all afternoon. Let the count fade: for every `half_life` ticks of the cache's clock since its last use, a leaf's count is halved. A leaf is then worth `hits / 2 ** ((now - last_used) / half_life)`.

This changes with every tick, but the heap need not be sorted again: all leaves fade at the same rate, so the *order* of two leaves stays the same until one of them is used. You need a key that has this order but does not depend on the current time.

#### 13.4 You write: `aged_key` (10 minutes)

Return a number. Of two leaves, the one that is worth less has the smaller key. You may use `node.hits` (at least 1), `node.last_used` and `log2(x)`. After a million ticks your key must still work.
"""


# %%
def aged_key(node, half_life):
    """A number: the leaf whose count is worth least by now has the smallest."""
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
Your policy beats *lru*, which forgets too fast, and *lfu*, which never does. With a half-life of one tick it is nearly *lru*, and with a very long one it is *lfu*.

## The same in `minikv`

For the chart at the top, the package found both of your lines in one pass. And `minikv replay chat.jsonl.gz --capacity 2764,11057 --evict-by page` counts the same hits as you did. (`uncached requests` would be larger than the whole cache.)
"""

# %%
import contextlib

from minikv.cli import main

words = "replay", "--capacity", "2764,11057", "--evict-by", "page"
with contextlib.redirect_stderr(None):  # which says what format the trace has
    main([*words, str(asset("traffic/chat.jsonl.gz"))])
same = [curve.bound(room) == hits for room, hits in most.items()]
print("your bound is the chart's:", all(same))

# %% [markdown]
"""
*Whose* blocks are the hits? The usual story is a system prompt that everybody shares. The trace does not say what agents share, so here each computes its own, about 28 blocks. With unlimited memory the 24 agents compute 18,028 blocks. If they shared one system prompt, how many percent fewer would it be?
"""

# %%
guess("13.h", "how many percent fewer blocks? (a whole number)", None)

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

It would save 28 blocks for each of 23 agents. The rest are conversations, which nobody else can use. Nine tenths of the hits, too, are an agent's own history.

</details>

So a conversation has to survive until its next turn. Many services forget it after a **time to live**, however much memory is free. What does that cost the agents?
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

This playground has room for four tokens and evicts by *mru*. Insert three prompts of two tokens, again and again, as in the film. How many can you keep alive? Then find an order in which *lru* does better.
"""

# %%
from minikv import playground

playground(capacity=4, policy="mru")

# %% [markdown]
"""
## More to try

#### 13.5 Design: a policy of your own

A policy is a class with a `key`, a number or a tuple of numbers, and with `reads`, the fields that the key looks at. A node has `hits`, `last_used`, `created`, `priority`, `id`, and `end`, the number of blocks from the root to its end. The policy below evicts what is cheapest to compute again. Change it. The score is the share of all blocks that are hits, over the first half of both traces. How close to the bound can you get?
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
*slru* and *Aged* win. Or were they lucky? If you try enough policies on the same requests, one of them fits by chance. So hold some traffic back, and look at it only once: here are the second halves.
"""

# %%
EXAM = (chat[1500:], 6_000), (agents[739:], 2_000)
for policy in ("lru", "slru", Aged, RandomLeaf, Mine):
    print(f"{getattr(policy, '__name__', policy):11}{score(policy, EXAM):6.1%}")
print(f"bound      {bound(EXAM):6.1%}")

# %% [markdown]
"""
Both winners lose to *lru*. The bound would leave 18.1 percent to compute instead of 21.2, but none of these policies gets there.

#### 13.6 Hunt: when does *lfu* lose?

`careless_hits` always trusts *lfu*. Find an order of at most 30 prompts for which *lru* has more hits, with room for three prompts. A number stands for a prompt.
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

*lru* needs no sorting, because a use moves a node to the end of a ring. Every other policy keeps its leaves in a heap, and each use of a leaf moves it there. *slru* and your `Aged` pay for that on every request, for a point or two on some traffic.

And the yardsticks count blocks, but a hit at token 30,000 saves more than one at token 30, because attention looks back.

## In real engines

{{engines 13}}

In SGLang you choose when you start the server.

To measure your own traffic, use minikv-tools (`pip install ./tools`), which reads many formats of logs. `minikv-tools plan` draws your two lines over a GPU's memory, and `minikv-tools why` says why prompts don't share more.

## Recap

A policy is a guess about the future, and none of the seven is good everywhere. For LRU, one pass gives the hits of every size, and knowing the future gives the most that any policy could have. On real traffic LRU is hard to beat once the cache holds what comes back; below that it falls off a cliff, and there a better guess helps more than twice the memory.

**Check yourself**

1. Why does LRU have no hit at all in a loop that is one prompt too long?
2. Why is the block whose next use is farthest away always a leaf?
3. From chapter 05: why does *lru* need no search for a leaf?
4. From chapter 10: why can a set of block ids stand for a tree of prefixes?

<details><summary>Answers</summary>

1. When a prompt comes around again, it has waited longest, so it has just been evicted.
2. Each use of a child is a use of its parent, so the parent's next use is never later. If both are the same, the deeper one goes first.
3. On every path the parent is newer than its child, so the oldest node has no children.
4. An id is made from the block and from everything before it. Two prompts have the same id only if they share that whole prefix.

</details>

**Read on**: [Mooncake, which published its traces](https://arxiv.org/abs/2407.00079) · [SGLang, with its eviction policies](https://github.com/sgl-project/sglang) · [the sessions of the agents](https://github.com/callanjfox/kv-cache-tester)
"""

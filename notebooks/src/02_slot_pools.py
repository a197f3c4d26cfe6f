# %% [markdown]
"""
# 02 · Who owns which slot?

By the end of this chapter you will have written a **pool**: the part of an engine that hands out slots, takes them back, and never lets two requests have the same one. You will write three functions, about twenty lines in all. They go into your own `my_minikv.py`, and every later chapter takes its slots from them.

**After this chapter you will be able to** *break* a pool that is built carelessly, *build* one that refuses every such attempt, and *predict* which slots the next request gets.

{{time}} **Needs** chapter 01. **New words** pool, owner, free list, double free, version.

Here is where we are going. Anna and Ben have sent a request each, and a third request has just ended. Every slot is free, or it belongs to exactly one of them.
"""

# %%
from minikv import FreeListPool, draw, record

pool = FreeListPool(16)
anna, other, ben = pool.alloc(5), pool.alloc(3), pool.alloc(4)
pool.free(other)
draw(pool, owners={"Anna": anna, "Ben": ben})

# %% [markdown]
"""
## The problem

A slot has one **owner** at a time: the request that may write to it and give it back. Many may *read* a slot; chapter 03 shows how. But if two may write to it, each of them destroys what the other one wrote.

Here is a careless way to hand out slots. The free ones lie in an array. A request takes some off the front and writes them into its row of a page table. {{engines infratech}} It takes its slots like this, {{engines notebook-allocate}}.
"""

# %%
import numpy as np

free_slots, rows = np.arange(8), np.zeros((2, 7), dtype=int)


def careless_alloc(free_slots, row, count):
    row[:count] = free_slots[:count]
    return free_slots[count:]


left = careless_alloc(free_slots, rows[0], 7)
left = careless_alloc(left, rows[1], 7)
print(rows)

# %% [markdown]
"""
The second request asked for seven slots, and only slot 7 was left. It got that slot **seven times**. There was no error: numpy, like torch, repeats a single value over the whole slice. Seven tokens will write their keys and values over each other, and some time later the model will talk nonsense.

Giving slots back is no safer. Say a request owns slots 0 to 6 of a pool of eight, and slot 7 is free. Its user cancels it just as it finishes, so its slots are given back twice. That is a **double free**.
"""

# %%
# put your number in place of None, then run the next cell
guess("2.a", "how many free slots does this pool of eight believe it has now?", None)

# %%
free_slots, row = np.array([7]), np.arange(7)
for reason in ("cancelled", "finished"):
    free_slots = np.concatenate([free_slots, row])
fold("2.a", len(free_slots), free_slots)

# %% [markdown]
"""
<details><summary>Why</summary>

Slots 0 to 6 are on the list twice, so each of them will soon have two owners. Two users will read each other's answers, and nothing in the log will say why.

</details>

## Build it

A pool hands out whole pages, and never looks inside one. So it does not matter to a pool how many slots a page has. In this chapter a page is a single slot, and the two words mean the same.

### Step 1: a stack of free pages

The simplest pool is a **free list**: all free pages lie on a stack. A request takes its pages off the top, and pages that are given back go on top. They need not be neighbors, because a page table lists them one by one. So no gap is ever too small, and there is nothing to search for.

This is the class. It is given; the two methods at its end call the functions that you write.
"""

# %%
source(Pool)

# %% [markdown]
"""
The stack alone could do the work. `in_use` is there for safety: one mark for each page says at once whether somebody has it.

The rule for taking pages is **all or nothing**. A request with half of its pages can't run. It can only wait, holding pages that another request could use. So if there are too few, take none, and say so with a `MemoryError`.

#### 2.1 You write: `alloc`

Take `count` pages, which may be 0, off the stack, mark them, and return them in a list. The page on top comes first.
"""


# %%
def alloc(pool, count):
    """Take `count` pages off the stack, or raise a MemoryError and take none."""
    raise NotImplementedError  # delete this line; about 6 lines to write


alloc = check("2.1 alloc", alloc)

# %% [markdown]
"""
`check` plays many days in the life of a pool with your function, and compares the stack and the marks with ours after each step. If they differ, it shows you the shortest day on which they do.

Now the request from the beginning meets a pool that says no.
"""

# %%
pool = Pool(8)
anna = pool.alloc(7)
try:
    pool.alloc(7)
except MemoryError:
    print("Ben must wait, and holds nothing")
draw(pool, owners={"Anna": anna})

# %% [markdown]
"""
### Step 2: look before you take it back

Three things can be wrong with a page that somebody gives back. The pool doesn't have a page with that number. Or the page is free already. Or it stands in the list twice, and then the second one is the double free.

The order of the work matters as much. Suppose that `free` takes pages back one by one and meets a wrong one in the middle. It raises an error, but half of the pages are free by then, and the caller can't tell which half. So look at *all* of them first, and change nothing while you look.

#### 2.2 You write: `guard`

Return the first page that must not be given back, in the order in which they were given, or `None` if all of them may. `pages` may be a list, a tuple or an array of whole numbers, negative ones included. The marks answer at once; the stack would have to be searched.
"""


# %%
def guard(pool, pages):
    """The first of `pages` that must not be given back, or None if all of them may."""
    raise NotImplementedError  # delete this line; about 6 lines to write


guard = check("2.2 guard", guard)

# %% [markdown]
"""
Anna has pages 0 to 6 of a pool of 8. Here are four lists that must be refused, and one that is fine:
"""

# %%
pool = Pool(8)
anna = pool.alloc(7)
for pages in ([7], [2, 2], [3, -1], [0, 8, 9], [6, 0]):
    print(f"{pages!s:10} wrong: {guard(pool, pages)}")

# %% [markdown]
"""
### Step 3: give back

With the guard in front, the rest is short. One choice is left: in which order do the pages go onto the stack? A request usually gets pages that lie side by side in memory, and memory is read fastest that way. So the next request should find them in the same order. The *first* page of the list must end up on top.

#### 2.3 You write: `free`

Give all pages back, or none. If the guard names a page, raise a `ValueError`.
"""


# %%
def free(pool, pages):
    """Give all `pages` back, the first one on top, or raise a ValueError."""
    raise NotImplementedError  # delete this line; about 6 lines to write


free = check("2.3 free", free)

# %% [markdown]
"""
From a pool of eight we take five pages. Then we give back page 1, and after it page 3, in two calls. Which two pages does the next request get, and in which order?
"""

# %%
guess("2.b", "which pages does alloc(2) give? [., .]", None)

# %%
pool = Pool(8)
pool.alloc(5)
pool.free([1])
pool.free([3])
ben = pool.alloc(2)
fold("2.b", ben, draw(pool, owners={"Ben": ben}))

# %% [markdown]
"""
<details><summary>Why</summary>

The page that was freed last is used first.

</details>

And what if both come back in one call?
"""

# %%
guess("2.c", "the same with one call, free([1, 3]): which pages? [., .]", None)

# %%
pool = Pool(8)
pool.alloc(5)
pool.free([1, 3])
fold("2.c", pool.alloc(2), "given back in one call, they come out in the same order")

# %% [markdown]
"""
<details><summary>Why</summary>

`free` puts the first page of its list on top. With two calls, each page was a list of its own.

</details>

And the request that was cancelled and also finished? The second attempt is refused, and nothing has changed.
"""

# %%
pool = Pool(8)
row = pool.alloc(7)
for reason in ("cancelled", "finished"):
    try:
        pool.free(row)
    except ValueError:
        print("The pool refuses.")
    print(f"{reason}: {pool.num_free} of {pool.size} pages are free")

# %% [markdown]
"""
That is the whole pool. Remember its pattern, because every structure of this course has it: **check everything, then change everything**.

## The same in `minikv`

`FreeListPool` is this stack in two arrays of numpy. Your pool and ours live through the same thousand random steps:
"""

# %%
import random

chance, yours, ours, held = random.Random(0), Pool(50), FreeListPool(50), []
for _ in range(1000):
    if held and chance.random() < 0.5:
        back = held.pop(chance.randrange(len(held)))
        yours.free(back)
        ours.free(back)
    elif (count := chance.randrange(1, 9)) <= ours.num_free:
        held.append(yours.alloc(count))
        assert held[-1] == ours.alloc(count).tolist()
ours.check()
print("1000 steps, the same pages every time;", ours)

# %% [markdown]
"""
There are two more pools in `minikv`, for engines in which a page that is free may still hold something useful.

**A free page may have been used since.** Anna's request ends, and its page is free. The keys and values are still in it. Can she have them back tomorrow, if the page is free then? Not if Ben had the page in between. "It is free" is true both times; what happened in between can't be seen. (Programmers of lock-free code know this as the ABA problem.) So `BitmaskPool` keeps a **version** for each page, which counts how often it was handed out. Anna notes the page *and* its version, here 1. Then Ben takes the page and gives it back.
"""

# %%
guess("2.d", "Anna's page is free again. Which version does it have now?", None)

# %%
from minikv import BitmaskPool

pool = BitmaskPool(4)
(page,) = pool.alloc(1)  # Anna
noted = pool.version(page)
pool.free([page])
pool.free(pool.alloc(1))  # Ben comes and goes
fold("2.d", pool.version(page), f"Anna noted version {noted}: Ben wrote over her keys")

# %% [markdown]
"""
<details><summary>Why</summary>

The versions differ, so she must compute her keys again. {{engines astrai}} It kept {{engines astrai-versions}}, too. Its first copy routine did not compare them, and could copy a stranger's keys and values; see {{engines astrai-copy}}.

</details>

**The order of freeing is the order of forgetting.** In vLLM the free list is {{engines vllm-free-list}}. Cached pages stay in it, and the page that was freed longest ago is reused first. `QueuePool` works in the same way. Say a request has its three tokens in pages 0, 1 and 2, gives them back in one call, and then one page is needed. A prefix is worthless without its beginning. Which order of freeing keeps most of it?
"""

# %%
guess("2.e", "tokens that match after free([0, 1, 2]), free([2, 1, 0])? [., .]", None)

# %%
from minikv import QueuePool

matched = []
for order in ([0, 1, 2], [2, 1, 0]):
    pool = QueuePool(3)
    pool.alloc(3)
    pool.free(order)
    (reused,) = pool.alloc(1)
    matched.append(int(reused))  # page number i holds token number i
fold("2.e", matched, "a prefix is as long as the number of its first missing token")

# %% [markdown]
"""
<details><summary>Why</summary>

So forget the end first: vLLM {{engines vllm-reverse}}.

</details>

And if somebody asks for a cached page that waits in the *middle* of the queue, it must leave at once. In a Python `deque` it would have to be searched for. In `QueuePool` each page knows the one before it and the one after it, so it can step out and join its two neighbors. In chapter 05 you will build such a ring.

## Play

Three pools, and the same requests for each of them: first the stack, then the bitmask, then the queue. Pages 0 and 2 are given back. Stop there, before the last three steps, and say which page each pool will give. (A bitmask gives its lowest free page.) Click a page for its story.
"""

# %%
pools = FreeListPool(8), BitmaskPool(8), QueuePool(8)
with record(*pools) as film:
    for verb, what in (("alloc", 6), ("free", [0]), ("free", [2]), ("alloc", 1)):
        for pool in pools:
            getattr(pool, verb)(what)
film.player(still=9)

# %% [markdown]
"""
## More to try

#### 2.4 Design: audit a pool

Every slot must be free or have exactly one owner. Write the test that would have caught the opening of this chapter: `audit(size, free, rows)` looks at a pool of `size` slots, the list of its free slots, and the rows of all requests. It returns two sorted lists: the slots that are *lost* (neither free nor in a row), and the slots that are there *more than once*. How little work can it do?
"""


# %%
def audit(size, free, rows):
    raise NotImplementedError  # delete this line; about 4 lines to write


check("2.4 audit", audit)

# %% [markdown]
"""
<details><summary>Hint</summary>

Put the free slots and all rows into one list, and count how often each slot is in it. Once is right.

</details>

<details><summary>Solution</summary>

```python
def audit(size, free, rows):
    times = [0] * size
    for slot in [*free, *(slot for row in rows for slot in row)]:
        times[slot] += 1
    return [s for s in range(size) if not times[s]], [s for s in range(size) if times[s] > 1]
```

</details>

#### 2.5 Bug hunt: take this one

The package's `BitmaskPool` has one bit for each page, and a set bit means free. Its `occupy` takes one particular free page. Below is a careless one, as it stood in AstrAI: {{engines astrai-occupy}} flips the bit, whatever it is. Your function is given a pool of two pages. Write calls of its `alloc(count)`, `free(pages)` and `occupy(page)` on which the careless pool lets something pass that it must refuse. Then think one step further: who gets that page from the next `alloc`?
"""

# %%
from minikv.course.pieces import careless

careless("2.5")


# %%
def calls_that_expose_it(pool):
    raise NotImplementedError  # delete this line, and change the others
    pool.alloc(1)
    pool.free([0])


check("2.5 careless_occupy", calls_that_expose_it)

# %% [markdown]
"""
<details><summary>Hint</summary>

What does flipping a bit do to a page that somebody has? Your calls run twice, with a right pool and with the careless one, and `check` compares what each call returns.

</details>

<details><summary>Solution</summary>

```python
def calls_that_expose_it(pool):
    pool.alloc(1)
    pool.occupy(0)
```

</details>

## What it cost

Safety has a price, and it can be counted. A stack of a million pages is a million Python numbers, and the marks come on top. An array of numpy needs no such objects.
"""

# %%
import sys

yours, ours = Pool(1_000_000), FreeListPool(1_000_000)
lists = sys.getsizeof(yours.stack) + sys.getsizeof(yours.in_use)
numbers = sum(map(sys.getsizeof, yours.stack))
arrays = [part.nbytes for part in vars(ours).values() if hasattr(part, "nbytes")]
sizes = (lists + numbers) / yours.size, sum(arrays) / yours.size
print("yours: {:.0f} bytes a page, ours: {:.0f}".format(*sizes))

# %% [markdown]
"""
A page of one token of Llama 3.1 8B holds 131,072 bytes of keys and values, so this is cheap insurance.

There is one thing that a pool *cannot* see: whether an owner still needs what it gives back. Chapter 00 wants two requests to share a prefix. Then "give it back" is no longer the decision of one request. Something must know who shares what, and that needs a structure of its own. It is the subject of the next chapter.

## In real engines

{{engines 02}}

Engines also need a place for padding, which fills a batch up to a fixed size. SGLang keeps {{engines sglang-padding}} for it, and mini-sglang {{engines mini-sglang-padding}}. In vLLM padding has slot {{engines vllm-padding}}.

## Recap

A pool promises that every page has one owner, and keeps the promise by checking everything before it changes anything. A stack reuses what was freed last; a queue reuses what was freed longest ago. A free page may still hold keys and values, and then a version tells whether they are still yours.

**Check yourself**

1. Why was there no error when seven tokens got one slot?
2. `free([4, 5, 6])` is refused because of page 6. Which of the three pages are free now?
3. From chapter 01: a request has 33 tokens and pages have 16 slots. How many pages does it take?
4. From chapter 00: why are all tokens but the last looked up in the cache?

<details><summary>Answers</summary>

1. Assigning one value to a longer slice is legal: it is repeated. Check the lengths yourself.
2. None of the three, unless it was free before: all or nothing.
3. Three, and 15 slots of the last one are wasted.
4. The engine needs the model's output at the last position, and the cache stores only keys and values.

</details>

**Read on**: [PagedAttention, the paper](https://arxiv.org/abs/2309.06180) · [vLLM's prefix caching design](https://docs.vllm.ai/en/latest/design/prefix_caching.html)
"""

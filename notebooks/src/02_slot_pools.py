# %% [markdown]
"""
# 02 · Who owns which slot?

In this chapter you write a **pool**: the part of an engine that hands out slots, takes them back, and never gives the same slot to two requests. Then you write the loop that answers a prompt, and the chat from chapter 00 runs on it. Your `my_minikv.py` grows by six short functions.

**After this chapter you will be able to** *break* a carelessly built pool, *build* one that refuses every such attempt, *predict* which slots the next request gets, and *run* a model through slots that you manage.

{{time}} **Needs** chapters 00 and 01. **New words** pool, owner, free list, double free, version.

Here is where we are going. Anna and Ben have each sent a request, and a third request has just finished. Every slot is either free or belongs to exactly one request.
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

A slot has one **owner** at a time: the request that may write to it and give it back. Many requests may *read* a slot, as chapter 03 shows, but if two requests write to the same slot, each destroys what the other wrote.

Here is a careless way to hand out slots, from {{engines notebook-allocate|the notebook that this course grew out of}}. An array holds the free slots, and a request copies the first few into its row of the page table:
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
The second request asked for seven slots, but only slot 7 was left. It got that slot **seven times**, and there was no error, because numpy, like torch, repeats a single value to fill a whole slice. Seven tokens would now overwrite each other's keys and values, and the model would talk nonsense.

Giving slots back is no safer. A request owns slots 0 to 6 of a pool of eight, and slot 7 is free. The user cancels the request just as it finishes, so its slots are given back twice, which is called a **double free**. How many free slots does the pool think it has now?
"""

# %%
# put your number in place of None, then run the next cell
guess("2.a", "how many free slots does this pool of eight think it has now?", None)

# %%
free_slots, row = np.array([7]), np.arange(7)
for reason in ("canceled", "finished"):
    free_slots = np.concatenate([free_slots, row])
fold("2.a", len(free_slots), free_slots)

# %% [markdown]
"""
<details><summary>Why</summary>

Slots 0 to 6 are on the list twice, so each of them can get two owners that overwrite each other's keys and values without any error.

</details>

## Build it

A pool hands out whole pages and never looks inside one. In this chapter a page has a single slot, so the two words mean the same thing.

### Step 1: a stack of free pages

The simplest pool is a **free list**: all free pages are on a stack. A request takes its pages off the top, and returned pages go back on top. A request's pages don't have to be neighbors, so no gap is ever too small, and nothing has to be searched.

Here is the class. Its last two methods call the functions that you will write.
"""

# %%
source(Pool)

# %% [markdown]
"""
The stack alone would do; `in_use` is there for safety: one mark per page tells us at once whether somebody has that page.

The rule for handing out pages is **all or nothing**. A request with half of its pages can only wait, and meanwhile it holds pages that another request could use. So if there aren't enough pages, take none, and raise a `MemoryError`.

#### 2.1 You write: `alloc` (10 minutes)

Take `count` pages off the stack (`count` may be 0), mark them as in use, and return them in a list. The page on top of the stack comes first. A pool may have millions of pages, so don't copy the stack.
"""


# %%
def alloc(pool, count):
    """Take `count` pages off the stack, or raise a MemoryError and take none."""
    raise NotImplementedError  # delete this line; about 6 lines to write


alloc = check("2.1 alloc", alloc)

# %% [markdown]
"""
`check` tries many sequences of calls and looks at the stack and the marks after each call. If they are wrong, it shows you the shortest sequence that fails.

### Step 2: look before you take pages back

Three things can be wrong with a page that somebody gives back: the pool may have no page with that number, the page may already be free, or it may be in the list twice.

If `free` took pages back one by one and met a bad one, it would raise an error with some pages already free, and the caller couldn't tell which. So look at *all* of them first, and change nothing while you look.

#### 2.2 You write: `guard` (10 minutes)

Return the first page of the list that must not be given back, or `None` if there is none. `pages` may be a list, a tuple or a numpy array of integers, some of which may be negative. Don't search the stack, because the marks tell you at once.
"""


# %%
def guard(pool, pages):
    """Return the first of `pages` that must not be given back, or None."""
    raise NotImplementedError  # delete this line; about 6 lines to write


guard = check("2.2 guard", guard)

# %% [markdown]
"""
Anna has pages 0 to 6 of a pool of 8. Four of these lists must be refused:
"""

# %%
pool = Pool(8)
anna = pool.alloc(7)
for pages in ([7], [2, 2], [3, -1], [0, 8, 9], [6, 0]):
    print(f"{pages!s:10} wrong: {guard(pool, pages)}")

# %% [markdown]
"""
### Step 3: give back

With the guard in place, one choice is left: in which order do the pages go back onto the stack? Neighboring slots are copied together (chapter 06), so the next request should get the pages in the order of the list. The *first* page of the list must end up on top.

#### 2.3 You write: `free` (5 minutes)

Give all pages back, or none. If `guard` returns a page, raise a `ValueError`. `pages` is again a list, a tuple or an array. Don't change it, and don't copy the stack.

*Test it first* (optional, 10 minutes): write a test that fails for a wrong `free`. `catch` runs it on the package's version, which must pass, and on many wrong answers.
"""


# %%
def test_free(free):
    """Fail if `free` is wrong: a pool has a `stack` and the marks `in_use`."""
    pool = Pool(4)
    pages = alloc(pool, 3)
    raise NotImplementedError  # instead: call `free`, `assert` what must be true


catch("2.3 free", test_free)


# %%
def free(pool, pages):
    """Give all `pages` back, the first one on top, or raise a ValueError."""
    raise NotImplementedError  # delete this line; about 6 lines to write


free = check("2.3 free", free)

# %% [markdown]
"""
From a pool of eight we take five pages, 0 to 4. Then we give back page 1, and after it page 3, in two separate calls. Which two pages does the next request get, and in which order?
"""

# %%
guess("2.b", "which pages does alloc(2) return? [., .]", None)

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

The page that was freed last is on top, so it is used first.

</details>

Now suppose both pages come back in one call, `free([1, 3])`, and the next request needs three pages. Which ones does it get, and in which order?
"""

# %%
guess("2.c", "which pages does alloc(3) return? [., ., .]", None)

# %%
pool = Pool(8)
pool.alloc(5)
pool.free([1, 3])
fold("2.c", pool.alloc(3), "freed in one call, pages come out in the order given")

# %% [markdown]
"""
<details><summary>Why</summary>

`free` puts the first page of its list on top. (In 2.b, each call had a list of one page.) Page 5 comes next on the stack.

</details>

If a request is canceled just as it finishes, the second `free` is now refused and changes nothing:
"""

# %%
pool = Pool(8)
row = pool.alloc(7)
pool.free(row)
try:
    pool.free(row)
except ValueError:
    print(f"The pool refuses. {pool.num_free} of {pool.size} pages are free.")

# %% [markdown]
"""
That is the whole pool. Its rule returns throughout the course: **check everything, then change everything**.

### Step 4: answer a prompt

A pool is enough for a first engine. Its cache is the one from chapter 00, a list of all computed sequences, but each now comes with its row, which says where its keys and values are.
"""

# %%
source(PromptList)

# %% [markdown]
"""
#### 2.4 You write: `cached_row` (10 minutes)

`known` is a list of pairs `(tokens, row)`. Both are lists of the same length, and `row[i]` is the slot of `tokens[i]`. Find the sequence that shares the longest prefix with `tokens` (any of them, if there are several), and return the slots of that prefix in a new list. If nothing is shared, the list is empty. The caller may add to your list, but that must not change `known`. Compare each token only once.
"""


# %%
def cached_row(known, tokens):
    """Return the slots of the longest cached prefix of `tokens`, in a new list."""
    raise NotImplementedError  # delete this line; about 8 lines to write


cached_row = check("2.4 cached_row", cached_row)

# %% [markdown]
"""
Next comes the loop that every engine runs. Here are the rows of two turns of a chat, where a digit is a token:
"""

# %%
from minikv.course.pieces.showing import answered_rows

answered_rows("2.5", ("12345", "67"), ("123456789", "4"))

# %% [markdown]
"""
Nothing is cached in the first turn, so the first call of the model computes the whole prompt. It returns *one* new token, 6. The next call computes that token and returns another, and so on until the model returns `model.end`, the token that ends an answer. This last token is never computed, so it gets no slot.

In the second turn, seven tokens are cached. The new row begins with their slots, and the first call computes only the other tokens. As in chapter 00, the last token of a prompt is always computed, so we look up only the tokens before it.

#### 2.5 You write: `respond` (15 minutes)

Answer `prompt`, a list of at least one token, and return the list of generated tokens, including `model.end`. (The prompt may contain that token, too, from earlier answers.) `pool` is your `Pool` and has enough slots. You can also use:

| you call | what it does | what it returns |
|---|---|---|
| `cache.find(tokens)` | looks for the longest cached prefix | its slots, in a new list |
| `model(tokens, row)` | computes `tokens` (a list), writes their keys and values to the last slots of `row`, and reads the slots before those | the next token, a number |
| `cache.keep(tokens, row)` | remembers both lists, which nobody may change later | nothing |

At the end, call `cache.keep` once, with all tokens that have a slot, in a new list.
"""


# %%
def respond(model, pool, cache, prompt):
    """Answer `prompt`: compute what is not cached, and keep it in the cache."""
    raise NotImplementedError  # delete this line; about 8 lines to write


respond = check("2.5 respond", respond)

# %% [markdown]
"""
Here is the chat from chapter 00 again. Now your functions decide which slots the model writes and reads, and with wrong slots it would talk nonsense. (Without PyTorch, the stored answers are replayed, but the counts still come from your code.)
"""

# %%
from minikv.course.live_chat import chat_through

pool = Pool(1024)
chat = chat_through(respond, pool, PromptList())
print(chat)
print(f"{chat.computed} of {chat.prompt} prompt tokens computed")
print(f"{pool.size - pool.num_free} of {pool.size} slots are in use")

# %% [markdown]
"""
Your engine computes 223, 34 and 41 tokens, as in chapter 00. But it never gives a slot back, and it compares each prompt with everything it has ever seen. Chapters 03 to 05 take care of that.

## The same in `minikv`

`FreeListPool` is the same stack, built from two numpy arrays. Both pools go through the same thousand random steps:
"""

# %%
import random

chance, yours, ours, held = random.Random(0), Pool(50), FreeListPool(50), []
for _ in range(1000):
    if len(held) == 5:
        back = held.pop(chance.randrange(5))
        yours.free(back)
        ours.free(back)
    held.append(yours.alloc(chance.randrange(1, 9)))
    assert held[-1] == ours.alloc(len(held[-1])).tolist()
print("1000 steps, the same pages every time;", ours)

# %% [markdown]
"""
`minikv` has two more pools, for engines in which a free page may still hold something useful.

**Somebody may have used a free page in the meantime.** Anna's request ends and its page is free, but her keys and values are still in it. She can use them again later, unless Ben has used the page in between, but either way, the page is free. (This is known as the ABA problem.) So `BitmaskPool` keeps a **version** for each page, which counts how often the page was handed out. Anna notes the page *and* its version, here 1. Then Ben takes the page and gives it back. Which version does the page have now?
"""

# %%
guess("2.d", "which version does Anna's page have, now that it is free again?", None)

# %%
from minikv import BitmaskPool

pool = BitmaskPool(4)
(page,) = pool.alloc(1)  # Anna
noted = pool.version(page)
pool.free([page])
pool.free(pool.alloc(1))  # Ben comes and goes
fold("2.d", pool.version(page), f"Anna noted version {noted}: Ben overwrote her keys")

# %% [markdown]
"""
<details><summary>Why</summary>

The page was handed out twice; giving it back doesn't count. The versions differ, so Anna's keys and values have to be computed again. (An early cache of AstrAI, a small framework, kept {{engines astrai-versions}}, too.)

</details>

#### 2.6 You write: `take_back` (5 minutes)

Anna noted several pages and their versions. Take all of these pages and return `True`. If one of them is in use, or has another version now, take none and return `False`. `pages` and `versions` are lists of the same length, and no page is listed twice. `pool` is a `BitmaskPool`: `pool.is_free(page)` returns a `bool`, `pool.version(page)` returns a number, and `pool.occupy(page)` takes this free page and keeps its version. (Chapter 09 builds on this check.)
"""


# %%
def take_back(pool, pages, versions):
    """Take these free pages if none has been handed out since; otherwise take none."""
    raise NotImplementedError  # delete this line; about 6 lines to write


take_back = check("2.6 take_back", take_back)

# %% [markdown]
"""
**The order of freeing is the order of forgetting.** In vLLM the free blocks (its word for pages) form {{engines vllm-free-list}}. Cached blocks stay in the queue, and the one that was freed first is reused first. `QueuePool` works the same way. Suppose a request has its three tokens in pages 0, 1 and 2, and gives these back in one call. No other page is free, and then another request needs one. A prefix is useless without its beginning. How many of the three tokens can still be matched if the pages were freed in the order 0, 1, 2, and how many in the order 2, 1, 0?
"""

# %%
guess("2.e", "how many tokens match after [0, 1, 2], and after [2, 1, 0]? [., .]", None)

# %%
from minikv import QueuePool

matched = []
for order in ([0, 1, 2], [2, 1, 0]):
    pool = QueuePool(3)
    pool.alloc(3)
    pool.free(order)
    (reused,) = pool.alloc(1)
    matched.append(int(reused))  # page number i holds token number i
fold("2.e", matched, "all tokens before the first missing one can be matched")

# %% [markdown]
"""
<details><summary>Why</summary>

The page that was freed first is lost first, and with page 0 the whole prefix is lost. So the end of a prompt should be freed first, and vLLM {{engines vllm-reverse|frees a request's blocks in reverse}}.

</details>

A hit takes a cached page out of the *middle* of the queue. In a Python `deque` we would have to search for it. In `QueuePool` each page is linked to its two neighbors, so it can be taken out at once by linking these to each other. You will build such a linked list in chapter 05.

## Play

Three pools get the same calls: first the stack, then the bitmask, then the queue. Pages 0 and 2 are given back. Run the cell to step through the film, and stop before the last three steps. Which page will each pool hand out? (A bitmask hands out its lowest free page.)
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

#### 2.7 Design: audit a pool

Every slot must be free or have exactly one owner. Write `audit(size, free, rows)`, a test that would have caught this chapter's first bugs. It gets the size of a pool, the list of its free slots, and a list of all rows. It returns two sorted lists without repeats: the slots that are *lost* (neither free nor in a row), and the slots that appear *more than once*. Don't change the arguments.
"""


# %%
def audit(size, free, rows):
    raise NotImplementedError  # delete this line; about 4 lines to write


check("2.7 audit", audit)

# %% [markdown]
"""
<details><summary>Hint</summary>

Put the free slots and all rows into one new list, and count how often each slot appears. Every slot should appear once.

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

#### 2.8 Bug hunt: take this page

`BitmaskPool` has one bit per page, and a set bit means free. The careless `occupy` below flips the bit whether the page is free or not, as {{engines astrai-occupy|the one}} in an early cache of AstrAI would. Your function gets a pool of two pages. Call its `alloc(count)`, `free(pages)` and `occupy(page)`, and make the careless pool accept a call that it must refuse. Who gets the page next?
"""

# %%
careless("2.8")


# %%
def calls_that_expose_it(pool):
    raise NotImplementedError  # delete this line, and change the others
    pool.alloc(1)
    pool.free([0])


check("2.8 careless_occupy", calls_that_expose_it)

# %% [markdown]
"""
<details><summary>Hint</summary>

What happens when you flip the bit of a page that is in use? Your calls run twice, with a correct pool and with the careless one, and `check` compares the results.

</details>

<details><summary>Solution</summary>

```python
def calls_that_expose_it(pool):
    pool.alloc(1)
    pool.occupy(0)
```

</details>

## What it cost

A stack of a million pages is a list of a million Python numbers, plus the marks. A numpy array needs no such objects.
"""

# %%
import sys

yours, ours = Pool(1_000_000), FreeListPool(1_000_000)
lists = sum(map(sys.getsizeof, [yours.stack, yours.in_use, *yours.stack]))
arrays = sum(part.nbytes for part in vars(ours).values() if hasattr(part, "nbytes"))
print(f"bytes per page: yours {lists / 10**6:.0f}, minikv's {arrays / 10**6:.0f}")

# %% [markdown]
"""
In Llama 3.1 8B, a page of one token holds 131,072 bytes of keys and values, so either pool costs next to nothing.

A pool *can't* see whether anyone still needs the pages that an owner gives back. In step 4, several rows contained the same slots, so giving them back is no longer a decision for one request alone, as the next chapters show.

## In real engines

{{engines 02|how free slots are kept; where a freed slot goes; a double free}}

<details><summary>Where does padding go?</summary>

Padding fills a batch up to a fixed size. SGLang reserves {{engines sglang-padding}} for it, and mini-sglang reserves {{engines mini-sglang-padding}}. In vLLM, padding has slot {{engines vllm-padding}}.

</details>

## Recap

A pool checks everything before it changes anything, so every page has at most one owner. A stack reuses the page that was freed last, and a queue the page that was freed first. A free page may still hold keys and values, and its version tells you whether they are still yours.

**Check yourself**

1. Why was there no error when seven tokens got the same slot?
2. `free([4, 5, 6])` is refused because of page 6. Which of the three pages are free now?
3. From chapter 01: a request has 33 tokens, and a page has 16 slots. How many pages does it take?
4. From chapter 00: why do we look up all tokens of a prompt but the last?

<details><summary>Answers</summary>

1. Assigning one value to a longer slice is legal, and numpy repeats it.
2. Only those that were free before, because the call changed nothing.
3. Three, and 15 slots of the last one are wasted.
4. The engine needs the model's output at the last position, and the cache stores only keys and values.

</details>

**Read on**: [PagedAttention, the paper](https://arxiv.org/abs/2309.06180) · [vLLM's prefix caching design](https://docs.vllm.ai/en/latest/design/prefix_caching.html)
"""

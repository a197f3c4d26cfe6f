# %% [markdown]
"""
# 02 · Who owns which slot?

**After this chapter you will be able to** *break* pools that are built carelessly, *build* one that cannot be broken that way, and *choose* the one of three whose order of reuse fits the job.

**Time** 40 minutes. **Needs** chapter 01.
**New words** pool, free list, double free, version, owner.

## The problem

Chapter 01 ended with a rule that nothing guards yet: a slot has one **owner** at a time, who may write to it and give it back. (Many may read it; chapter 03 shows how they come to.) Here is how it goes wrong without a sound. Eight slots lie in a tensor; requests take some off the front and write them into their row of a page table. The code is shaped after a teaching notebook that many people have run.
"""

# %%
import torch

free_slots = torch.arange(8, dtype=torch.int32)
rows = torch.zeros((2, 7), dtype=torch.int32)


def careless_alloc(row, n):
    global free_slots
    rows[row][:n] = free_slots[:n]
    free_slots = free_slots[n:]


careless_alloc(row=0, n=7)
careless_alloc(row=1, n=7)
print(rows.tolist())

# %% [markdown]
"""
The second request asked for seven slots when one was left, and torch, which spreads a single value over a whole row, gave it that one slot **seven times**. No error. Seven tokens will write their keys and values over each other, and the model will answer nonsense, some time later. Giving slots back is no safer:
"""

# %%
free_slots = torch.tensor([7], dtype=torch.int32)
row = rows[0].clone()
for _ in range(2):  # a request that is cancelled and also finishes
    free_slots = torch.cat([free_slots, row])
print(
    len(free_slots), "free slots in a pool of 8, slot 0 among them", (free_slots == 0).sum().item(), "times"
)

# %% [markdown]
"""
That is a **double free**. From here on two requests will own slot 0.

## The picture

A **pool** keeps track of which slots are free. This is a live one, after a few requests came and went.
"""

# %%
from minikv import FreeListPool, draw

pool = FreeListPool(32)
first, second = pool.alloc(9), pool.alloc(6)
pool.free(first[3:7])
draw(pool, new=second)

# %% [markdown]
"""
Free slots need not be neighbours, so there is no puzzle of fitting things in, and no gap is ever too small. All the difficulty is in keeping the promise of one owner.

## Build it

**Step 1: a stack.** The simplest pool that keeps its promises is a **free list**, a stack of free slots. `alloc` checks *before* it takes anything: all or nothing.
"""


# %%
class FreeList:
    def __init__(self, size):
        self.size = size
        self.slots = list(range(size - 1, -1, -1))  # the top of the stack is the end

    def alloc(self, n):
        if n > len(self.slots):
            raise MemoryError(f"{n} slots asked for, {len(self.slots)} free")
        return [self.slots.pop() for _ in range(n)]


ours = FreeList(8)
print(ours.alloc(7))
try:
    ours.alloc(7)
except MemoryError as error:
    print(error, "and still free:", ours.slots)

# %% [markdown]
"""
**Step 2: guard the way back.** To refuse a double free, the pool must know for every slot whether it is free. Searching the stack would take longer as more slots are free, so keep one mark for each slot. And again: look at *all* of them first, and change nothing if one is wrong.
"""


# %%
class GuardedFreeList(FreeList):
    def __init__(self, size):
        super().__init__(size)
        self.in_use = bytearray(size)

    def alloc(self, n):
        taken = super().alloc(n)
        for slot in taken:
            self.in_use[slot] = 1
        return taken

    def free(self, slots):
        if len(set(slots)) < len(slots) or not all(0 <= s < self.size and self.in_use[s] for s in slots):
            raise ValueError(f"{slots} cannot be freed: free already, given twice, or not of this pool")
        for slot in reversed(slots):
            self.in_use[slot] = 0
            self.slots.append(slot)


# %% [markdown]
"""
**Predict first.** From a pool of 8 we take five slots. Then we give back slot 1, and after it slot 3, and take two. Which two, and in which order? And if both are given back in one call, `free([1, 3])`?

<details><summary>Answer</summary>

3 and 1: what is freed last is reused first. In one call it is 1 and 3, because `free` pushes its slots in reverse, so that a run that is given back is handed out again in the same order.

</details>
"""

# %%
for calls in ([[1], [3]], [[1, 3]]):
    ours = GuardedFreeList(8)
    ours.alloc(5)
    for slots in calls:
        ours.free(slots)
    print("calls of free:", calls, "  alloc(2) gives", ours.alloc(2))
for wrong in ([7], [2, 2], [2, -1], [8]):
    try:
        ours.free(wrong)
    except ValueError as error:
        print(error)
print("free slots, unchanged:", ours.slots)

# %% [markdown]
"""
**Step 3: a bit for each slot, and versions.** Sometimes a freed slot's *content* is still good, and a caller that remembers it wants to take that particular slot back. A stack cannot do that. A number with a bit for each slot can: set means free, and the lowest set bit is the next to go. The danger: in the meantime, somebody else may have had the slot. So each slot gets a **version**, which counts how often it was handed out. (This class and the next show the idea only, and leave out the checks of step 2; those of `minikv` have them.)
"""


# %%
class Bitmask:
    def __init__(self, size):
        self.mask = (1 << size) - 1
        self.versions = [0] * size

    def alloc(self):
        slot = (self.mask & -self.mask).bit_length() - 1  # the lowest set bit
        self.mask &= ~(1 << slot)
        self.versions[slot] += 1
        return slot

    def free(self, slot):
        self.mask |= 1 << slot

    def may_take_back(self, slot, version):
        return bool(self.mask >> slot & 1) and self.versions[slot] == version


# %% [markdown]
"""
**Predict first.** A cache remembers "Anna's prompt is in slot 0, version 1". Slot 0 is freed, and Ben's request takes it, and frees it. Now Anna comes back and slot 0 is free. May she use it as it is?

<details><summary>Answer</summary>

No: its version is 2 now, so somebody else has written to it. AstrAI, the system that this pool is after, kept versions too, and its copy routine did not compare them: it copied the stranger's keys and values.

</details>
"""

# %%
bits = Bitmask(4)
slot = bits.alloc()
version = bits.versions[slot]
bits.free(slot)
print("straight away, Anna may take it back:", bits.may_take_back(slot, version))
bits.free(bits.alloc())  # Ben comes and goes
print("after Ben, Anna may take it back:    ", bits.may_take_back(slot, version))

# %% [markdown]
"""
One long number has a hidden cost. A Python int never changes, so clearing one bit of it makes a new one, as long as the old. `minikv`'s bitmask is made of words of 64 bits, with further levels that say which words have any bit set.
"""

# %%
import sys

for size in (64, 10_000, 1_000_000):
    print(f"{size:9,} slots: each change makes a new int of {sys.getsizeof((1 << size) - 1):7,} bytes")

# %% [markdown]
"""
**Step 4: a queue that any slot can leave.** Suppose free slots may still hold cached prefixes, and we reuse the one that was freed *longest ago*. That is a queue. But when somebody asks for a prefix in the middle of it, that slot must be pulled out, at once and not by searching. So link the slots to each other: each knows the one before it and the one after it.
"""


# %%
class LinkedQueue:
    def __init__(self, size):
        self.next = [*range(1, size + 1), 0]  # the last entry, `size`, is the queue's own mark
        self.before = [size, *range(size)]
        self.mark = size

    def take(self, slot):  # from anywhere, in three steps
        before, after = self.before[slot], self.next[slot]
        self.next[before], self.before[after] = after, before
        return slot

    def pop(self):
        return self.take(self.next[self.mark])

    def push(self, slot):
        last = self.before[self.mark]
        self.next[last], self.before[slot] = slot, last
        self.next[slot], self.before[self.mark] = self.mark, slot


# %% [markdown]
"""
**Predict first.** A request used three slots for its prompt, 0, 1 and 2, and they stay cached as they are freed into an empty queue. Then one slot is needed. How much of the prompt's prefix can still be matched if it was freed *first token first*? And if *last token first*?

<details><summary>Answer</summary>

First token first: nothing. Slot 0 is reused, and without its beginning the rest of a prefix is worthless. Last token first: two of three. The order in which you free is the order in which you forget, so forget the end first. vLLM frees every request in reverse for this reason.

</details>
"""

# %%
for order in ([0, 1, 2], [2, 1, 0]):
    queue = LinkedQueue(3)
    for _ in range(3):
        queue.pop()
    for slot in order:
        queue.push(slot)
    reused = queue.pop()  # slot 0 holds the first token, so the tokens before the reused one still match
    print(
        f"freed as {order}: slot {reused} is reused, and {[0, 1, 2].index(reused)} of 3 tokens still match"
    )

queue = LinkedQueue(4)
print("from the middle, without a search:", queue.take(2), "and then", [queue.pop() for _ in range(3)])

# %% [markdown]
"""
## The same in `minikv`

`FreeListPool`, `BitmaskPool` and `QueuePool` keep one contract, with every check that ours left out: `alloc(n)` all or nothing, `free(slots)` all or nothing, `is_free`, `num_free`, and a `check()` that recounts everything. A pool that has too little says `OutOfPages`. Our stack and theirs, on the same random life:
"""

# %%
import random

chance, ours, theirs, held = random.Random(0), GuardedFreeList(50), FreeListPool(50), []
for _ in range(1000):
    if held and chance.random() < 0.5:
        back = held.pop(chance.randrange(len(held)))
        ours.free(back)
        theirs.free(back)
    elif (n := chance.randrange(1, 9)) <= theirs.num_free:
        held.append(ours.alloc(n))
        assert held[-1] == theirs.alloc(n).tolist()
theirs.check()
print("1000 steps, the same slots every time;", theirs)

# %% [markdown]
"""
The errors say which slot, and which rule. A pool speaks of pages, because that is what it hands out in chapter 07; with one token to a page, a page is a slot.
"""

# %%
from minikv import BitmaskPool, QueuePool

for make in (FreeListPool, BitmaskPool, QueuePool):
    pool = make(8)
    pages = pool.alloc(5)
    for attempt in (lambda: pool.alloc(4), lambda: pool.free([1, 6]), lambda: pool.free([1, 1])):
        try:
            attempt()
        except (ValueError, RuntimeError) as error:
            print(f"{make.__name__:13} {error}")

# %% [markdown]
"""
## Play

The same requests come and go in each of the three pools: 0, 1 and 2 are freed one after the other, and new requests fill the hole. Step through and try this: predict the new slots in each pool before you look.
"""

# %%
from minikv import beside, play

pools, steps = [FreeListPool(8), BitmaskPool(8), QueuePool(8)], []


def step(caption, act):
    slots = [act(pool) for pool in pools]
    pictures = [draw(pool, new=new) for pool, new in zip(pools, slots)]
    steps.append((caption, beside(*pictures)))


step("alloc(6): stack, bitmask and queue begin alike", lambda pool: pool.alloc(6))
for slot in (0, 1, 2):
    step(f"free slot {slot}", lambda pool: pool.free([slot]))
step("alloc(1): the last freed, the lowest, the longest free", lambda pool: pool.alloc(1))
step("alloc(2): and so on", lambda pool: pool.alloc(2))
play(steps)

# %% [markdown]
"""
## Exercises

**2.1 Fill in.** Write `first_wrong(slots, free, size)`: the first of `slots` that must not be freed in a pool of `size` slots of which `free` are free already, or `None` if all of them may.
"""

# %%
from minikv import check


def first_wrong(slots, free, size):
    raise NotImplementedError  # delete this line; about six lines to write


check("2.1 first_wrong", first_wrong)

# %% [markdown]
"""
<details><summary>Hint</summary>

Three questions for each slot: does the pool have it, is it free already, was it in the list before?

</details>

<details><summary>Solution</summary>

```python
def first_wrong(slots, free, size):
    seen = set()
    for slot in slots:
        if not 0 <= slot < size or slot in free or slot in seen:
            return slot
        seen.add(slot)
    return None
```

</details>

**2.2 Design.** Write a whole pool, a stack: `alloc(n)` gives `n` slots in a list or raises a `MemoryError`; `free(slots)` takes them all back or raises a `ValueError`; `num_free` counts. A new pool hands out slot 0 first, and what is freed comes back in the same order. `check` plays scripts of operations on your class, and draws your pool beside the expected one where they part; for the drawing it uses `size` and `is_free`.
"""


# %%
class Pool:
    def __init__(self, size):
        raise NotImplementedError  # delete this line, and write the methods below

    @property
    def num_free(self): ...

    def is_free(self, slot): ...

    def alloc(self, n): ...

    def free(self, slots): ...


check("2.2 Pool", Pool)

# %% [markdown]
"""
<details><summary>Hint</summary>

Steps 1 and 2 are most of it. Both methods check everything first, and only then change anything.

</details>

<details><summary>Solution</summary>

```python
class Pool:
    def __init__(self, size):
        self.size = size
        self.stack = list(range(size - 1, -1, -1))

    @property
    def num_free(self):
        return len(self.stack)

    def is_free(self, slot):
        return slot in self.stack

    def alloc(self, n):
        if n > len(self.stack):
            raise MemoryError("not enough slots")
        return [self.stack.pop() for _ in range(n)]

    def free(self, slots):
        if len(set(slots)) < len(slots):
            raise ValueError("a slot is given twice")
        if any(self.is_free(slot) or not 0 <= slot < self.size for slot in slots):
            raise ValueError("a slot is free already, or not of this pool")
        self.stack.extend(reversed(slots))
```

</details>

**2.3 Bug hunt.** Below is a bitmask pool that is right, and then the same with one careless line, which AstrAI's pool has: its `occupy`, which is meant to take one particular free slot, flips the bit. Find a script of operations on which it lets something pass that a pool must refuse. (Then think one step further: who gets that slot from the next `alloc`?)
"""

# %%
import inspect

from minikv.course.exercises.ch02 import Bitmask as RightBitmask
from minikv.course.exercises.ch02 import CarelessBitmask
from minikv.course.exercises.judge import Script

print(inspect.getsource(RightBitmask))
print(inspect.getsource(CarelessBitmask))


def script_that_breaks_it():
    raise NotImplementedError  # delete this line, and write more operations into the next
    return Script((2,), (("alloc", ()), ("free", (0,))))


check("2.3 CarelessBitmask", script_that_breaks_it)

# %% [markdown]
"""
<details><summary>Hint</summary>

`^=` flips a bit. What does it do to a slot that somebody has? A `Script` has the arguments of the constructor, then pairs of a method's name and its arguments.

</details>

<details><summary>Solution</summary>

```python
def script_that_breaks_it():
    return Script((2,), (("alloc", ()), ("occupy", (0,)), ("alloc", ())))
```

</details>

## What it cost

Safety has a price, and it can be counted: besides the stack, for every slot its place on it.
"""

# %%
pool = FreeListPool(1_000_000)
parts = {name: memoryview(part).nbytes for name, part in (("stack", pool._memory), ("places", pool._where))}
print(f"a pool of {pool.size:,} slots:", parts, f"= {sum(parts.values()) / pool.size:.0f} bytes a slot")

# %% [markdown]
"""
Eight bytes of bookkeeping beside the 131,072 bytes that a token of Llama 3.1 8B takes: cheap insurance. What the pool *cannot* see is whether an owner still needs what it gives back. Once two requests share a slot, as chapter 00 wants, "give back" is no longer one request's decision. Somebody must know who shares what, and that needs a structure of its own.

## In real engines

{{engines 02}}

They add a reserved slot for padding, whose content nobody reads, and groups of frees that are carried out together, because joining two tensors costs as much for one slot as for a thousand.

## Recap

A pool promises that every slot has one owner, and keeps that promise by checking everything before it changes anything. A stack reuses what was freed last, a bitmask the lowest, a queue what was freed longest ago. When freed slots still hold something, the order of freeing is the order of forgetting, so the end of a prefix goes first.

**Check yourself**

1. Why did torch not complain when one slot was given to seven tokens?
2. What must `free` do before it changes anything, and why before?
3. Why is a version needed even though the slot is free?
4. Why does a queue link its slots to each other, when Python has a `deque`?

<details><summary>Answers</summary>

1. Assigning one value to a longer slice is legal: it is repeated. Check lengths yourself.
2. Look at every slot; otherwise half of them are free when it raises, and nobody can tell which half.
3. To know whether somebody else has had it since: "free" says nothing about what is in it.
4. A slot must leave from the middle at once; a deque would search for it.

</details>

**Read on**: [PagedAttention, the paper](https://arxiv.org/abs/2309.06180) · [vLLM's prefix caching design](https://docs.vllm.ai/en/latest/design/prefix_caching.html)
"""

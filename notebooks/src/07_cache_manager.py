# %% [markdown]
"""
# 07 · What happens in the life of a request?

**After this chapter you will be able to** *follow* each slot of a request from the pool and back, *end* a request in every way without losing a slot or freeing one twice, and *find* the order of two requests that breaks a careless manager.

**Time** 50 minutes. **Needs** chapters 01 to 05.
**New words** checkpoint, duplicate, tail, abort, interleaving.

## The problem

We have a pool, a tree, locks and eviction. Who calls them, and when? Chapter 04's `admit` cached a prompt as it let it in. Here, at a help desk, Anna's prompt is admitted, and before the engine gets to it she closes her browser. Then thirty others ask.
"""

# %%
from minikv import Canary, FreeListPool, InvariantError, RadixCache


def admit(cache, pool, prompt):
    match = cache.acquire(prompt[:-1])
    slots = [*match.slots, *pool.alloc(len(prompt) - match.length)]
    cache.insert(prompt, slots)
    return match, slots


def desk_prompt(name):
    return list(f"You are the help desk of a library. Reader {name} asks: when do you open?".encode())


# %%
cache, pool, canary, wrong = RadixCache(), FreeListPool(2000), Canary(), []
admit(cache, pool, desk_prompt("Anna"))  # and nothing is ever computed into her slots
for reader in range(30):
    match, slots = admit(cache, pool, prompt := desk_prompt(reader))
    try:
        canary.read(prompt[: match.length], slots[: match.length])
    except InvariantError as error:
        wrong.append(error)
    canary.write(prompt, slots, start=match.length)
print(f"{len(wrong)} of 30 readers read slots that hold nothing. The first:\n{wrong[0]}")

# %% [markdown]
"""
A slot must not be *published* in the tree before its keys and values are there. So publish at the end? Then a batch of eight readers computes the same instructions eight times, and the eight copies must be cleaned up. Something must also take back what a cancelled request holds, and half a page that no tree will take. One place has to know all that: the **cache manager**, and it is small.

## The picture

A request's tokens fall into three regions. `minikv`'s manager, in pages of two: one request is over, and Ben's runs. On the right is his row of the page table, the slot of each of his nine tokens: *matched* lie in the tree, which he reads and has locked; *new* are his own, computed; the others are his own too, and nothing is in them yet.

**Predict first.** Ben leaves now. Which slots may go back to the pool?

<details><summary>Answer</summary>

His own, from slot 6 on, and slot 11 with them: his last page is only half used, but a page has one owner. Slots 0 to 3 are the tree's. He must give back something else as well: his lock.

</details>
"""

# %%
from minikv import CacheManager, PageTable, beside, draw

manager, table = CacheManager(num_pages=8, page_size=2), PageTable(num_rows=1, max_length=10)
with manager.request([1, 2, 3, 4, 5, 6]) as anna:
    manager.advance(anna)  # an engine has computed all of it
ben = manager.start([1, 2, 3, 4, 7, 8, 9, 10, 11])
manager.advance(ben, 3)
table.append(table.open(), ben.slots)
print(ben, "shared:", ben.shared)
mine = ben.slots[ben.shared : ben.computed]
beside(draw(manager.cache), draw(table, matched=ben.slots[: ben.shared], new=mine))

# %% [markdown]
"""
## Build it

**Step 1: start.** Tree, pool and page table under one roof; each class adds to the one before. To start: open a row, match all tokens but the last and lock what was found; then look for room, evict if need be, and take pages for all the rest. If there is no room, row and lock go back. (`slot_pages` undoes `page_slots`.) `acquire` is `match_prefix` and `lock` in one act, so that nothing can come between them; we will see what might.
"""

# %%
from minikv import Ledger, OutOfPages, page_slots, slot_pages


class Request:
    def __init__(self, number, tokens, match):  # the number of its row in the page table
        self.number, self.tokens, self.handle = number, list(tokens), match
        self.shared = self.computed = match.length  # [0, shared) is the tree's


class Books:
    def __init__(self, num_pages, page_size=1, rows=8):
        self.cache, self.pool = RadixCache(page_size, evict_by="page"), FreeListPool(num_pages)
        self.table, self.page_size = PageTable(rows, num_pages * page_size), page_size
        self.running, self.canary = [], Canary(self.cache, writes=False)  # `compute` will write

    def slots(self, request):
        if request not in self.running:
            raise ValueError("this request is over")
        return self.table.slots(request.number)


# %%
class Room(Books):
    def take(self, pages):  # free, or evicted for us
        free, evictable = self.pool.num_free, self.cache.evictable_size // self.page_size
        if pages > free + evictable:
            raise OutOfPages(pages, free, evictable)
        if pages > free:
            self.pool.free(self.cache.evict((pages - free) * self.page_size))  # pages already
        return page_slots(self.pool.alloc(pages), self.page_size)

    def give_back(self, slots):
        self.pool.free(slot_pages(slots, self.page_size))


# %%
class Starting(Room):
    def start(self, tokens):
        row, match, size = self.table.open(), self.cache.acquire(tokens[:-1]), self.page_size
        try:
            own = self.take(-(-len(tokens) // size) - match.length // size)
        except OutOfPages:
            self.table.close(row), self.cache.unlock(match)
            raise
        self.table.append(row, [*match.slots, *own])
        self.running.append(request := Request(row, tokens, match))
        return request


desk = Starting(num_pages=8, page_size=2)
print("three tokens, slots", desk.slots(desk.start([1, 2, 3])), "and free pages:", desk.pool.num_free)


# %% [markdown]
"""
**Step 2: finish.** What is computed is published, in whole pages (`start=` skips the matched part). That cuts what the request owned into three regions. What the tree had already, because somebody was faster, is a **duplicate**: the tree keeps its own slots, and ours go back. What was new to the tree is the tree's from now on. The rest is the **tail**: what does not fill a page, and what was never computed. It goes back, too. (`compute` plays the engine: attention reads what is there, and the rest is written, with the canary standing by.)

**Predict first.** Pages of two tokens. Anna and Ben send the same five tokens in one batch: both start, then both are computed. Anna finishes, then Ben. How many pages does each give back?

<details><summary>Answer</summary>

Anna one, Ben three. Each owns three pages. Anna publishes two, and the half page is her tail. Ben's first two are duplicates by then, and the third is his tail.

</details>
"""


# %%
class Finishing(Starting):
    def publish(self, request):
        end = request.computed // self.page_size * self.page_size
        pages = slot_pages(self.slots(request)[:end], self.page_size)
        return self.cache.insert(request.tokens[:end], pages, start=request.handle)

    def finish(self, request):
        done, slots = self.publish(request), self.slots(request)
        duplicates, tail = slots[request.shared : done.prefix_length], slots[done.length :]
        self.release(request, duplicates, tail)

    def release(self, request, duplicates, tail):  # the one way out
        self.running.remove(request)
        self.table.close(request.number)
        self.give_back([*duplicates, *tail])
        self.cache.unlock(request.handle)


# %%
def compute(desk, request):  # the engine
    slots, done = desk.slots(request)[: len(request.tokens)], request.computed
    desk.canary.read(request.tokens[:done], slots[:done])
    desk.canary.write(request.tokens, slots, done)
    request.computed = len(request.tokens)


desk = Finishing(num_pages=8, page_size=2)
anna, ben = desk.start([1, 2, 3, 4, 5]), desk.start([1, 2, 3, 4, 5])
compute(desk, anna), compute(desk, ben)
for request in (anna, ben):
    slots, before = desk.slots(request).tolist(), desk.pool.num_free
    desk.finish(request)
    print(f"row {request.number}, slots {slots}: pages that go back: {desk.pool.num_free - before}")
draw(desk.cache)

# %% [markdown]
"""
**Step 3: abort.** The reader has gone, or something failed. An **abort** publishes nothing, and gives back everything that the request owns, duplicates or not, and its lock. It leaves by the same door as `finish`: one function releases everything, however the request ends. (In SGLang two paths once each freed the last slot of a request, sglang#12224.)

**Predict first.** A request finishes in the same moment in which its reader hangs up, so `abort` comes after `finish`. Its row of the page table may be somebody else's by now. What should happen?

<details><summary>Answer</summary>

Nothing may change. `slots` asks first whether the request still runs, before anything is touched. Without that, `abort` would find a stranger's slots in the row, and free them.

</details>
"""


# %%
class Aborting(Finishing):
    def abort(self, request):
        self.release(request, [], tail=self.slots(request)[request.shared :])


desk = Aborting(num_pages=8, page_size=2)
anna, ben = desk.start([1, 2, 3, 4, 5]), desk.start([6, 7, 8])
desk.abort(anna)
print("Anna aborts, free pages:", desk.pool.num_free, "and tokens cached:", desk.cache.total_size)
desk.finish(ben)
carl = desk.start([6, 7, 9])  # gets Ben's row
try:
    desk.abort(ben)
except ValueError as error:
    print(f"abort after finish: {error}. Carl, in the same row: {desk.slots(carl)}")

# %% [markdown]
"""
**Step 4: checkpoint.** A long answer takes a minute, and requests that come meanwhile find nothing in the tree. So publish what is computed *while the request runs on*: that is a **checkpoint**. Duplicates go back here too, but the request still reads them, at every token. So before they go, it must learn where the tree has the same: match again, rewrite the row, and move the lock.

**Predict first.** Anna and Ben in one batch again, with slots 0 to 5 and 6 to 11. Both are computed, Anna makes a checkpoint, then Ben. What does Ben's row say afterwards?

<details><summary>Answer</summary>

Slots 0 to 3, which are Anna's from before and the tree's now, then his own 10 and 11, where his tail lies. Slots 6 to 9 are free. If his row were not rewritten, he would read them until somebody else writes there: mini-sglang#142, a bug that no test of one request can find.

</details>
"""


# %%
class Manager(Aborting):
    def checkpoint(self, request):
        done, slots = self.publish(request), self.slots(request)
        match = self.cache.acquire(request.tokens[: done.length])
        self.table.write(request.number, 0, match.slots)  # read from there from now on
        self.give_back(slots[request.shared : done.prefix_length])
        self.cache.unlock(request.handle)
        request.handle, request.shared = match, done.length

    def extend(self, request, tokens):  # tokens were generated: they need slots
        missing = len(request.tokens) + len(tokens) - len(self.slots(request))
        self.table.append(request.number, self.take(max(0, -(-missing // self.page_size))))
        request.tokens = [*request.tokens, *tokens]


# %%
desk = Manager(num_pages=8, page_size=2, rows=2)
anna, ben = desk.start([1, 2, 3, 4, 5]), desk.start([1, 2, 3, 4, 5])
compute(desk, anna), compute(desk, ben)
print("before: Ben's row", desk.slots(ben), "and free pages:", desk.pool.num_free)
desk.checkpoint(anna), desk.checkpoint(ben)
print("after:  Ben's row", desk.slots(ben), "and free pages:", desk.pool.num_free)
draw(desk.table, matched=desk.slots(ben)[: ben.shared])

# %% [markdown]
"""
**Step 5: who owns what?** One rule holds between any two steps: *every slot has exactly one owner*, the pool, the tree, or one request. A second rule: what a request reads as shared is the tree's, and locked. To check them, ask everybody what they have, and compare.

Then we plant mistakes, and let all managers live through the same little day. Three watchers look on: our `audit`, the canary, and chapter 04's ledger, which records every operation. (A bare `AssertionError` is the audit's.)
"""


# %%
def audit(desk):
    free = [page for page in range(desk.pool.size) if desk.pool.is_free(page)]
    claims = [("the pool", page_slots(free, desk.page_size))]
    claims += [("the tree", node.slots) for node in desk.cache.nodes()]
    claims += [(f"row {r.number}", desk.slots(r)[r.shared :]) for r in desk.running]
    owner, shared = {}, [(r, slot) for r in desk.running for slot in desk.slots(r)[: r.shared].tolist()]
    for name, slots in claims:
        for slot in map(int, slots):
            assert slot not in owner, f"slot {slot} has two owners: {owner[slot]}, and {name}"
            owner[slot] = name
    lost = set(range(desk.pool.size * desk.page_size)) - set(owner)
    assert not lost, f"slot {min(lost)} has no owner"
    for r, slot in shared:
        assert owner[slot] == "the tree", f"row {r.number} reads slot {slot}, which is {owner[slot]}'s"
    assert desk.cache.protected_size == len({slot for _, slot in shared}), "locks and readers differ"


# %%
class TailForgotten(Manager):
    def release(self, request, duplicates, tail):
        super().release(request, duplicates, tail=[])


class TreeFreed(Manager):
    def abort(self, request):
        self.release(request, [], tail=self.slots(request))


class PublishedEarly(Manager):
    def publish(self, request):
        request.computed = len(request.tokens)
        return super().publish(request)


class RowForgotten(Manager):
    def checkpoint(self, request):
        row = self.slots(request).copy()
        super().checkpoint(request)
        self.table.write(request.number, 0, row)


# %%
import random

for kind in (Manager, TailForgotten, TreeFreed, PublishedEarly, RowForgotten):
    try:
        with Ledger((desk := kind(num_pages=10, page_size=2)).pool, desk.cache):
            pair = [desk.start([1, 2, 3, 4, last]) for last in (5, 6)]
            for request in pair:
                compute(desk, request)
                desk.checkpoint(request)
                audit(desk)
                desk.extend(request, [7, 8, 9])
            desk.finish(pair[0]), desk.abort(pair[1])
            audit(desk)
        print(f"{kind.__name__}: nothing wrong")
    except AssertionError as error:
        print(f"\n{kind.__name__}, {type(error).__name__}:\n{error}")

# %% [markdown]
"""
Audit and ledger know whose a slot is; the canary knows what is in it.

## The same in `minikv`

`CacheManager` has the same verbs, `advance` in place of `compute`, and `check` in place of `audit`. (And `with manager.request(tokens)`, which finishes when its block ends, and aborts when an exception passes through.) It agrees with ours in 1,000 random steps of four requests: in every slot of every row, and in what is free. This time the ledger asks for each sequence's own slots as well.
"""

# %%
chance, ours, pairs = random.Random(7), Manager(48, 2), []
theirs = CacheManager(48, 2, RadixCache(2, evict_by="page"))
with Ledger(theirs.pool, theirs.cache, sequences=theirs.owned) as ledger:
    for _ in range(1000):
        tokens = chance.choices([1, 2], k=chance.randint(1, 8))
        pairs += [(ours.start(tokens), theirs.start(tokens))] if len(pairs) < 4 else []
        mine, yours = chance.choice(pairs)
        verb = chance.choice(["compute", "checkpoint", "extend", "finish", "abort"])
        more = [tokens] if verb == "extend" else []
        compute(ours, mine) if verb == "compute" else getattr(ours, verb)(mine, *more)
        getattr(theirs, verb.replace("compute", "advance"))(yours, *more)
        pairs = [pair for pair in pairs if pair[1].state == "running"]
        assert all(ours.slots(m)[: len(y.tokens)].tolist() == y.slots.tolist() for m, y in pairs)
        assert ours.pool.num_free == theirs.pool.num_free
print(f"the same in 1000 steps; the ledger followed {ledger.step} operations")

# %% [markdown]
"""
## In every order

Each mistake was found because somebody wrote a day on which it shows. With two requests there are many possible days: their steps can be mixed in many ways, and each way is an **interleaving**. Random tests may never hit the bad one, but a computer can try them all: `explore` takes requests written as generators, in which each `yield` begins a step, and between two steps the other may come. It begins with the orders in which nobody is interrupted, then one interruption, and so on. It shows the first order that breaks something, with a column for each request; time runs downward.

First the smallest case: why `acquire`? A finds its prefix and locks it, in two acts or in one, while B needs room.
"""


# %%
def two_acts(cache):
    cache.insert([1, 2, 3], [0, 1, 2])  # what stands before the first yield is there from the beginning
    yield "match [1 2 3]"
    match = cache.match_prefix([1, 2, 3])
    yield "lock it"
    cache.lock(match)


def one_act(cache):
    cache.insert([1, 2, 3], [0, 1, 2])
    yield "acquire [1 2 3]"
    cache.acquire([1, 2, 3])


def need_room(cache):
    yield "evict 3 tokens"
    cache.evict(3)


# %%
from minikv import explore, follow, record

print(explore(RadixCache, two_acts, need_room))
print("\nwith acquire:", explore(RadixCache, one_act, need_room))

# %% [markdown]
"""
`minikv` notices that the handle is stale. A careless cache would lock a node that is gone, and read slots that are B's.

Now whole lives. Two prompts share two tokens; each is computed, published, continued by two tokens, and finished. `RowForgotten` is the manager that does not rewrite the row. There is no audit yet, only the canary, so we see the harm itself.

**Predict first.** If nobody is interrupted, is there harm? And how many interruptions does it take?

<details><summary>Answer</summary>

No harm: the second finds the shared tokens in the tree, so nothing is computed twice, and there are no duplicates. One interruption is enough: a whole life of the other, at the wrong moment.

</details>
"""


# %%
def turn(manager, tokens):
    yield "start"
    request = manager.start(tokens)
    yield "compute"
    compute(manager, request)
    yield "checkpoint"
    manager.checkpoint(request)
    for token in (7, 8):
        yield f"generate {token}"
        manager.extend(request, [token])
        compute(manager, request)
    yield "finish"
    manager.finish(request)


# %%
two = (lambda desk: turn(desk, [1, 2, 3])), (lambda desk: turn(desk, [1, 2, 4]))
found = explore(lambda: RowForgotten(num_pages=12), *two)
print("RowForgotten,", found)
print("\nwith an audit after each step,", explore(lambda: RowForgotten(num_pages=12), *two, check=audit))
print("\nManager,", explore(lambda: Manager(num_pages=12), *two, check=audit))

# %% [markdown]
"""
The harm comes steps after the mistake, and its message names neither the checkpoint nor the row. The audit stops at the step that made it.

## Play

The careless manager in the order that breaks it, up to the step before the read that goes wrong: tree, pool and page table. `s0` is the request in row 0. Try this: after `checkpoint s0`, find the slots of row 0 in the pool. What are they now? Say which slot is handed out next, and then look for it in row 0: how often is it there?
"""

# %%
with record(desk := RowForgotten(num_pages=12, rows=2)) as film:
    follow(found.broken.letters[:-1], desk, *two)  # letters: the request that takes each step
film.player()

# %% [markdown]
"""
## Exercises

**7.1 Fill in.** A request finishes. Write `given_back(row, shared, there, computed, page_size)`: which slots of its `row`, a list, go back to the pool, in the row's order? It reads its first `shared` tokens from the cache, `computed` tokens have keys and values, and when those were published, `there` of them had been cached already. All count tokens; `row`, `shared` and `there` are whole pages, `computed` need not be.
"""

# %%
from minikv import check


def given_back(row, shared, there, computed, page_size):
    raise NotImplementedError  # delete this line; about two lines to write


check("7.1 given_back", given_back)

# %% [markdown]
"""
<details><summary>Hint</summary>

Two regions: the duplicates, and all behind the last page that was published.

</details>

<details><summary>Solution</summary>

```python
def given_back(row, shared, there, computed, page_size):
    published = computed // page_size * page_size
    return row[shared:there] + row[published:]
```

</details>

**7.2 Design.** How does an explorer find every order? Write `orders(a, b)`: all orders of `a` steps of A and `b` steps of B, each as a string like `"AABB"`, those with the fewest changes of letter first, and ties in alphabetical order.
"""


# %%
def orders(a, b):
    raise NotImplementedError  # delete this line; about eight lines to write


check("7.2 orders", orders)

# %% [markdown]
"""
<details><summary>Hint</summary>

An order is known when you know at which of its `a + b` places an A stands. `itertools.combinations` chooses them. A key that is a pair sorts by two things.

</details>

<details><summary>Solution</summary>

```python
from itertools import combinations


def orders(a, b):
    def changes(order):
        return sum(one != other for one, other in zip(order, order[1:]))

    places = range(a + b)
    found = ["".join("A" if at in chosen else "B" for at in places) for chosen in combinations(places, a)]
    return sorted(found, key=lambda order: (changes(order), order))
```

</details>

**7.3 Bug hunt.** A small manager that knows requests by name. `CarelessDesk` has one word wrong, and on most days nobody notices. Find a script after which `free` is wrong. Can you make it give somebody a slot that the tree still holds?
"""

# %%
import inspect

from minikv.course.exercises.ch07 import CarelessDesk, Desk
from minikv.course.exercises.judge import Script

print(inspect.getsource(Desk), inspect.getsource(CarelessDesk), sep="\n")


def script_that_breaks_it():
    raise NotImplementedError  # delete this line, and write more operations into the next
    return Script((), (("start", ("Anna", [1, 2, 3])), ("compute", ("Anna",)), ("abort", ("Anna",))))


check("7.3 CarelessDesk", script_that_breaks_it)

# %% [markdown]
"""
<details><summary>Hint</summary>

`cached` is what was found at the start, `shared` what is read from the tree now. Which verb makes them differ?

</details>

<details><summary>Solution</summary>

```python
def script_that_breaks_it():
    return Script(
        (),
        (
            ("start", ("Anna", [1, 2, 3])),
            ("compute", ("Anna",)),
            ("checkpoint", ("Anna",)),
            ("abort", ("Anna",)),
            ("start", ("Ben", [7, 8])),
        ),
    )
```

</details>

## What it cost

A checkpoint walks the tree again, and some work is still done twice: requests that start in the same batch cannot see what the others are about to compute. First eight readers, all at once, or one before the others. Then the other price: a request takes pages as it grows, so room for a prompt is no promise of room for its answer.
"""

# %%
prompts = [desk_prompt(i) for i in range(8)]
for batches in ([prompts], [prompts[:1], prompts[1:]]):
    manager, computed = CacheManager(num_pages=1000), 0
    for batch in batches:
        for sequence in [manager.start(prompt) for prompt in batch]:
            computed += len(sequence.to_compute)
            manager.advance(sequence)
            manager.finish(sequence)
    print(f"{' and then '.join(str(len(batch)) for batch in batches)}: {computed} tokens computed")
manager = CacheManager(num_pages=8)
for sequence in [manager.start(prompt) for prompt in ([1, 2, 3, 4], [5, 6, 7, 8])]:
    try:
        manager.extend(sequence, [9])
    except OutOfPages as error:
        print(sequence, error, sep=": ")

# %% [markdown]
"""
Each waits for the other, forever. The scheduler decides which of them must give way, and in which order to let them in: chapter 08.

## In real engines

{{engines 07}}

vLLM and nano-vllm do not look for duplicates: two equal blocks both stay. With overlapped scheduling the next batch is prepared while this one is computed, so a slot may be freed while the GPU still writes to it: such frees are put off.

## Recap

Between two steps every slot has one owner: the pool, the tree, or one request. What is computed may be published, while the request runs or at its end; what the tree has already is a duplicate, what does not fill a page is the tail, and each goes back once. Row, slots and lock leave through one door. A mistake that needs two requests in a bad order is found by trying every order, with an audit after each step.

**Check yourself**

1. Why may a prompt not be published when it is admitted?
2. At a checkpoint a request has duplicates. Why can it not just free them?
3. Who owns the second half of a page that is half computed when its request aborts, and afterwards?
4. Two requests with the same prompt run one after the other. Why is there a duplicate all the same?

<details><summary>Answers</summary>

1. Nothing has been computed into its slots yet, and if it is aborted, nothing ever will be.
2. Its row points at them, and it reads them at every token: first the row is rewritten to the tree's slots.
3. The request, all of it: a page has one owner. Afterwards the pool.
4. The last token of a prompt is always computed again, and the tree has it already.

</details>

**Read on**: [SGLang](https://github.com/sgl-project/sglang) · [mini-sglang](https://github.com/sgl-project/mini-sglang) · [CHESS, which explores orders](https://www.usenix.org/legacy/events/osdi08/tech/full_papers/musuvathi/musuvathi_html/index.html)
"""

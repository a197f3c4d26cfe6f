# %% [markdown]
"""
# 11 · What if two answers start the same and then diverge?

In this chapter you write **copy on write** in four functions, about thirty lines in all. With it, one prompt can have four answers, a search can follow several branches at once, and a wrong guess can be taken back, all with hardly any copying.

**After this chapter you will be able to** *share* pages that are still being written, *tell* which writes need a copy and which do not, and *take back* tokens without losing a page.

{{time}} **Needs** chapters 02 to 04, and the key of a block from 10. **New words** fork, copy on write, beam search, speculative decoding, draft.

**In this notebook already** `Pool` with `alloc` and `free` from chapter 02, and `common` from chapter 03 (yours if they have passed, otherwise the package's).

Here is where we are going. Each row is a sequence, and each box is a page of three tokens: square if it is shared, round if not. Step back and forth, and watch page 1.
"""

# %%
from minikv import CopyOnWrite, draw, play

cache, steps = CopyOnWrite(num_pages=9, page_size=3), []
cache.attach("a", [5, 6, 7, 8], "PQRS")
cache.fork("a", "b")
steps.append(("b is forked from a: nothing is copied", draw(cache)))
cache.append("b", [9], "T")
steps.append(("b writes: page 1 is copied first", draw(cache)))
play(steps, at=1)

# %% [markdown]
"""
## The problem

"Give me four versions of this email." That is one prompt with four answers. The prompt's keys and values should be computed once and stored once. So far we can do that only for full pages, because a page that is still being written belongs to one request.

A **beam search** needs even more. It follows a few sequences, the beams, at the same time. In each step it keeps the best few extensions, and often two of them extend *the same* beam. Without sharing, the first could take over that beam, but every other one would have to copy it. Here are 4 beams of 100 tokens each, after a 1,000-token prompt:
"""

# %%
import random


def parents_of_beams(steps, width):
    """Return, for each step, the old beam that each new one extends."""
    chance = random.Random(11)
    return [[chance.randrange(width) for _ in range(width)] for _ in range(steps)]


copied = 0
for step, parents in enumerate(parents_of_beams(100, 4)):
    copied += (len(parents) - len(set(parents))) * (1000 + step)
print(f"{copied:,} tokens are copied: {copied // 400} for each of the 400 written")

# %% [markdown]
"""
We want to turn one sequence into two without copying it, even if the two diverge *inside* a page.

## Build it

### Step 1: count the users of a page

In chapter 02 a page had one owner, which wrote to it and gave it back. Now several sequences may share a page, and `refs[page]` counts them. A `Branch` is one sequence, and `SharedPages` holds them all. The next cell shows `Branch` and the first methods of `SharedPages`; each later step shows those that it needs.
"""

# %%
source(Branch, SharedPages.__init__, SharedPages.attach, SharedPages.fork)

# %% [markdown]
"""
To **fork** a branch means to make a second one with the same tokens and pages, without copying any values. From then on, each branch goes its own way, so a token appended to one must not show up in the other.

Your four functions may use these names:

| name | what it is or returns |
|---|---|
| `branch.tokens`, `branch.pages` | lists of its tokens and of the numbers of its pages |
| `branch.draft_from` | how many tokens come before its draft, or `None` if it has no draft |
| `Branch(tokens, pages)` | makes a branch; it keeps the two lists that you pass in |
| `cache.size` | the number of tokens in a page |
| `cache.refs[page]` | the number of branches that have this page |
| `cache.values[page]` | a list of `cache.size` values; a place without a token may hold anything, such as an old value |
| `cache.pool.alloc(count)` | a list of `count` page numbers; raises a `MemoryError` and takes none if there are too few |
| `cache.pool.free(pages)` | nothing: it gives these pages back |
| `cache.forget(page)` | nothing: from now on, `attach` no longer finds this page |

#### 11.1 You write: `fork_branch` (5 minutes)

Return the new branch. Each of its pages is now in one more branch, and `cache.refs` must reflect that.
"""


# %%
def fork_branch(cache, branch):
    """Return a new branch with the tokens and pages of `branch`; copy no values."""
    raise NotImplementedError  # delete this line; about 3 lines to write


fork_branch = check("11.1 fork_branch", fork_branch)

# %% [markdown]
"""
Take twelve pages of two tokens each, and a branch `a` with the tokens `1 2 3`. Two more branches get the same prompt, but not by a fork: `attach` lets them share the full pages that it knows, and the rest of the prompt is appended to each. How many of the twelve pages are free then?
"""


# %%
def started(num_pages, forks=""):
    cache = SharedPages(num_pages, 2)
    cache.attach("a", [])
    cache.append("a", [1, 2, 3], "ABC")
    for name in forks:
        cache.fork("a", name)
    return cache


# %%
# put your number in place of None, then run the next cell
guess("11.a", "how many of the 12 pages are free then?", None)

# %%
cache, forked = started(12), started(12, "bc")
for name in "bc":
    found = cache.attach(name, [1, 2, 3])
    cache.append(name, [1, 2, 3][found:], "ABC"[found:])
fold("11.a", cache.pool.num_free, draw(cache), "and if a is forked:", draw(forked))

# %% [markdown]
"""
<details><summary>Why</summary>

Eight. All three branches share the full page, but each has its own page for its last token, which makes four pages. Forks share the half-empty page as well, so they need only two.

</details>

### Step 2: the last branch frees the page

Suppose `b` and `c` are forked from `a`. When `b` ends, its pages must not go back to the pool, because `a` and `c` still read them. Each branch that releases a page removes one reference, and when the last reference goes, the page is freed.

The class also remembers the full pages, so `attach` can find them by their tokens, as in chapter 10. A freed page will soon hold something else, so `attach` must no longer find it.
"""

# %%
source(SharedPages.detach, SharedPages.publish, SharedPages.forget)

# %% [markdown]
"""
#### 11.2 You write: `drop_pages` (10 minutes)

A branch releases the pages in the list `pages`. Forget those that are in no other branch and give them back to the pool; the others must still be found. Don't change the list.

*Test it first* (optional, 5 minutes): who else has the page, can it still be found, and is it back in the pool?
"""


# %%
def test_drop_pages(drop_pages):
    """Fail if `drop_pages` is wrong."""
    cache = SharedPages(6, 2)
    cache.attach("a", [])
    cache.append("a", [1, 2, 3], [1, 2, 3])
    cache.fork("a", "b")
    raise NotImplementedError  # drop pages, then `assert` what must be true


catch("11.2 drop_pages", test_drop_pages)


# %%
def drop_pages(cache, pages):
    """Release `pages` of one branch; free those that no branch has anymore."""
    raise NotImplementedError  # delete this line; about 7 lines to write


drop_pages = check("11.2 drop_pages", drop_pages)

# %% [markdown]
"""
Branches `a` and `b` share two pages. We end `a`, then `b`.
"""

# %%
cache = started(6, "b")
for name in "ab":
    cache.detach(name)
    print(f"{name} has ended: {cache.pool.num_free} pages free")

# %% [markdown]
"""
### Step 3: copy before the first write

Now `b` gets a fourth token. Its place is the second half of page 1, which is also in `a`. If `b` wrote there, the next token of `a` would go to the same place, and `b` would read what `a` wrote. So `b` first takes a new page, copies the shared page into it, and writes to the copy. This is **copy on write**: copy as late as possible, and only what is about to change. A full page is never written again, so at most the last page is copied, and only if it is not full.
"""

# %%
source(SharedPages.append, SharedPages.put)

# %% [markdown]
"""
#### 11.3 You write: `own_pages` (20 minutes)

`branch` is about to get `count` more tokens; `count` may be 0. Make sure that every page they will be written to exists and is in no other branch. A copy takes the place of the old page in `branch.pages`, and new pages are added at the end. If there is too little room, let the `MemoryError` from `alloc` pass through, and change nothing. Don't append the tokens: `put` does that afterwards and writes their values.

Copy the values into a new list. A second name for the same list is an **alias**: a change made through one is visible through the other.
"""


# %%
def own_pages(cache, branch, count):
    """Give `branch` its own pages for `count` more tokens, or raise a MemoryError."""
    raise NotImplementedError  # delete this line; about 12 lines to write


own_pages = check("11.3 own_pages", own_pages)

# %% [markdown]
"""
Again `b` and `c` are forked from `a`. First `b` appends a token, then `c`, then `a`. How many copies are made for the three writes?
"""

# %%
guess("11.b", "how many copies are made for the three writes?", None)

# %%
cache = started(8, "bc")
left = cache.pool.num_free
for name, token, value in (("b", 4, "D"), ("c", 5, "E"), ("a", 6, "F")):
    cache.append(name, [token], value)
fold("11.b", left - cache.pool.num_free, draw(cache))

# %% [markdown]
"""
<details><summary>Why</summary>

Two. Once `b` and `c` have their copies, only `a` is left on page 1, so it can write there directly. The last branch keeps the original.

</details>

### Step 4: a beam search

Beam search needs no new functions. In each step, the best extensions fork the beams that they extend, all old beams end, and a token is appended to each new one. Here are two beams and four steps. In step 2, both new beams extend `1y`, so `1x` ends and its last page is freed.
"""


# %%
def next_beams(cache, beams, parents, step):
    new = [f"{step}{letter}" for letter in "xyzw"[: len(parents)]]
    for name, parent in zip(new, parents):
        cache.fork(beams[parent], name)
    for old in beams:
        cache.detach(old)
    for i, name in enumerate(new):
        cache.append(name, [100 * step + i], [name])
    return new


# %%
cache, beams, steps = started(12), ["a"], []
for step, parents in enumerate([[0, 0], [1, 1], [0, 1], [1, 1]], start=1):
    beams = next_beams(cache, beams, parents, step)
    steps.append((f"step {step}: the best extend beams {parents}", draw(cache)))
play(steps, at=1)

# %% [markdown]
"""
### Step 5: take a guess back

A step of the model reads nearly all its weights, whether it computes one token or ten (chapter 08). So guess the next few tokens, let the model check them all in one step, and keep those that it would have generated anyway. This is **speculative decoding**, and the guessed tokens are a **draft**. Their keys and values are written like any others, but no other sequence may find them yet. Then the draft is settled: the tokens before the first wrong one stay, and the rest is dropped.
"""

# %%
source(SharedPages.settled, SharedPages.draft, SharedPages.settle)

# %% [markdown]
"""
#### 11.4 You write: `settle_draft` (10 minutes)

`branch` has a draft, which begins after the first `branch.draft_from` tokens. Keep the first `num_right` tokens of the draft, and drop the rest. Release pages that have no token left, with your `drop_pages`. Afterwards, there is no draft.
"""


# %%
def settle_draft(cache, branch, num_right):
    """Keep the first `num_right` tokens of the draft of `branch`; drop the rest."""
    raise NotImplementedError  # delete this line; about 6 lines to write


settle_draft = check("11.4 settle_draft", settle_draft)

# %% [markdown]
"""
Pages hold two tokens, and branch `a` has three. Branch `b` is forked from it and drafts six more, but only the first of them is correct. How many pages go back to the pool when the draft is settled?
"""

# %%
guess("11.c", "how many pages go back to the pool when the draft is settled?", None)

# %%
cache = started(8, "b")
cache.draft("b", [4, 5, 6, 7, 8, 9], "DEFGHI")
before, left = draw(cache), cache.pool.num_free
cache.settle("b", 1)
fold("11.c", cache.pool.num_free - left, before, draw(cache))

# %% [markdown]
"""
<details><summary>Why</summary>

Three. With the draft, `b` has nine tokens in five pages, and it keeps four tokens in two pages. The copy of page 1 stays, because the correct token is in it.

</details>

The simplest source of guesses is the text itself: find its last two tokens at an earlier place, and guess that the text continues as it did there. This is called prompt lookup. Our "model" knows the whole text. In each step it keeps the correct guesses, which `common` from chapter 03 counts, and generates one more token.
"""


# %%
from minikv import PromptLookup

TEXT = list(b"she sells sea shells on the sea shore, and the shells she sells are sea")


# %%
def steps_to_write(text, most):
    cache, steps, lookup = SharedPages(40, 4), 0, PromptLookup(length=2)
    cache.attach("a", [])
    while (at := len(cache.get("a"))) < len(text):
        guessed = lookup.draft(cache.get("a"), most)
        cache.draft("a", guessed, guessed)
        cache.settle("a", common(guessed, text[at:]))
        at = len(cache.get("a"))
        cache.append("a", text[at : at + 1], text[at : at + 1])
        steps += 1
    return steps


# %%
for most in (0, 2, 4, 8):
    print(f"{most} guesses per step: {steps_to_write(TEXT, most)} steps")

# %% [markdown]
"""
For this text, eight guesses per step save no more steps than four. A wrong guess costs only the work that was done on it. The package's `Engine` from chapter 08 drafts this way with `drafts=PromptLookup()`.

## The same in `minikv`

`CopyOnWrite` is this class with error messages and a `check()`. Its values may be any objects, or rows of tensors in a `KVStore`. After each of 1,000 random steps, it has the same values in every sequence as your class, and in the end the same number of free pages.
"""


# %%
def some_acts(chance, names, step):
    tokens = [chance.randrange(9) for _ in range(5)]
    fork_or_end = ("fork", step) if len(names) < 9 else ("detach",)
    guessed = ("draft", tokens, tokens), ("settle", tokens[0] % 6)
    return chance.choice([[("append", tokens, tokens)], guessed, [fork_or_end]])


# %%
own, theirs, chance = SharedPages(3000, 4), CopyOnWrite(3000, 4), random.Random(11)
for cache in (own, theirs):
    cache.attach("first", [])
for step in range(1000):
    name = chance.choice(theirs.names())
    for method, *given in some_acts(chance, theirs.names(), step):
        for cache in (own, theirs):
            getattr(cache, method)(name, *given)
    assert all(own.get(each) == theirs.get(each) for each in theirs.names())
print(f"equal in 1000 steps; pages free: {own.pool.num_free}, {theirs.pool.num_free}")

# %% [markdown]
"""
The package's class can do more. Its `write` changes tokens in the *middle* of a sequence and copies only the shared pages that it touches. Here `b` gets a new third token. Its later values still depend on the old token, so no other sequence can find its pages from there on.
"""

# %%
cache = CopyOnWrite(num_pages=8, page_size=2)
cache.attach("a", [1, 2, 3, 4, 5, 6], "ABCDEF")
cache.fork("a", "b")
cache.write("b", 2, [9], "Z")
draw(cache)

# %% [markdown]
"""
`CopyOnWrite.attach` finds pages in two ways. Either the caller *declares* a prefix (`prefix_length=`), because what follows may be private, and only its full pages can be found; or sharing is *discovered*, and every full page can be found. Each way can be switched off, and here discovery is off. Pages hold four tokens, and both sequences begin with the same eight. If the first six are declared a prefix, how many tokens of the second sequence are found?
"""

# %%
guess("11.d", "the first 6 are declared a prefix: how many are found?", None)

# %%
cache = CopyOnWrite(num_pages=8, page_size=4, discovered=False)
cache.attach("a", [1, 2, 3, 4, 5, 6, 7, 8], "ABCDEFGH", prefix_length=6)
found = cache.attach("b", [1, 2, 3, 4, 5, 6, 7, 8, 9], "ABCDEFGHI", prefix_length=6)
fold("11.d", found, draw(cache))

# %% [markdown]
"""
<details><summary>Why</summary>

Four. Only full pages are found, and the second page has two tokens that nobody declared. They may be private, so this page is not shared.

</details>

### What went wrong elsewhere

This chapter is modeled on a small library, [llm-rag-ds-optimizer](https://github.com/CarGDev/llm-rag-ds-optimizer), and two of its mistakes are easy to make. Its `attach` takes fresh pages for the whole sequence *before* it finds that some can be shared, and never frees those that it doesn't need: see {{engines llmds-leak}}. This chapter's `attach` looks for known pages first. And a freed page {{engines llmds-map|stays in its map of prefixes}}, so it can be offered to another sequence after somebody has overwritten it. Only {{engines llmds-compare|a comparison of all values}} would catch that. Your `drop_pages` calls `forget` instead.

## Play

Here are three answers to one prompt. Before each step, say how many pages will be free and which will be shared.
"""

# %%
cache, steps = CopyOnWrite(num_pages=10, page_size=4), []
cache.attach("a", [1, 2, 3, 4, 5, 6], "please")
acts = [("fork", "a", "b"), ("fork", "a", "c"), ("append", "b", [7, 8], "no"),
        ("append", "c", [7, 8, 9], "yes"), ("draft", "a", [7, 8, 9, 10, 11], "maybe"),
        ("detach", "c"), ("settle", "a", 1), ("detach", "a")]  # fmt: skip
for method, *given in acts:
    words = " ".join(map(str, (method, *given)))
    steps.append((f"before {words}", draw(cache)))
    getattr(cache, method)(*given)
    steps.append((f"after {words}", draw(cache)))
play(steps)

# %% [markdown]
"""
## More to try

#### 11.5 Design: room for several answers

A prompt of `prompt` tokens gets several answers, and the list `answers` holds their lengths; a length may be 0. Each answer is a branch that was forked after the prompt, and there are no other branches. Write `pages_of_answers(prompt, answers, size)`, which returns how many pages of `size` tokens the prompt and its answers take in the end. With it, an engine knows *before* it forks whether there is room.
"""


# %%
def pages_of_answers(prompt, answers, size):
    raise NotImplementedError  # delete this line; about 3 lines to write


check("11.5 pages_of_answers", pages_of_answers)

# %% [markdown]
"""
<details><summary>Hint</summary>

The full pages of the prompt count once. After them, each answer has its own pages for the rest of the prompt and its own tokens. And where is the rest of the prompt if an answer is empty?

</details>

<details><summary>Solution</summary>

```python
def pages_of_answers(prompt, answers, size):
    full, rest = divmod(prompt, size)
    own = sum(-(-(rest + length) // size) for length in answers if length)
    return full + own + bool(rest and not all(answers))
```

</details>

#### 11.6 Bug hunt: which of these three?

Here are three versions of `drop_pages`. Two of them work, but one leaves a freed page in `known`. Find it by reading, and then prove it. Your function receives a `desk`, which has two pages of two tokens for each version. `attach(version, name, tokens)` starts a sequence and returns the tokens in its pages, and `detach(version, name)` ends it. Write calls in which `attach` returns tokens other than those passed in.
"""

# %%
careless("11.6")


# %%
def calls_that_expose_it(desk):
    raise NotImplementedError  # delete this line, and add more calls
    desk.attach("A", "a", [1, 2])
    desk.detach("A", "a")


check("11.6 one_of_three", calls_that_expose_it)

# %% [markdown]
"""
<details><summary>Hint</summary>

When a sequence with two full pages ends, which pages does each version forget?

</details>

<details><summary>Solution</summary>

```python
def calls_that_expose_it(desk):
    desk.attach("B", "a", [1, 2, 3, 4])
    desk.detach("B", "a")
    desk.attach("B", "b", [5, 6, 7, 8])
    desk.attach("B", "c", [1, 2])
```

</details>

## What it cost

Here are the beams from the beginning again, now with your functions. If a beam's last page is not its parent's, the tokens in it were copied.
"""

# %%
cache, beams, moved = SharedPages(400, 16), ["a", "b", "c", "d"], 0
cache.attach("a", [])
cache.append("a", list(range(1000)), [0] * 1000)
for name in beams[1:]:
    cache.fork("a", name)
for step, parents in enumerate(parents_of_beams(100, 4)):
    last = [cache.branches[name].pages[-1] for name in beams]
    beams = next_beams(cache, beams, parents, step)
    for name, parent in zip(beams, parents):
        if cache.branches[name].pages[-1] != last[parent]:
            moved += (1000 + step) % 16
print(f"{moved:,} tokens are copied instead of {copied:,}")

# %% [markdown]
"""
A fork copies no values, however long the sequence is, and an append copies at most one page. The price is one number per page. For each full page that can be found, `CopyOnWrite` also keeps its tokens and a 32-byte key, as in chapter 10.

But how good is it as a *prefix cache*? Two hundred prompts arrive one after another, all with the same 1,000 tokens of instructions. If each ends before the next arrives, how many tokens are found in all?
"""

# %%
from minikv import RadixCache

prompts = [[*range(1000), *range(2000 + i, 2050 + i)] for i in range(200)]


def found_tokens(at_once):
    cache, found = CopyOnWrite(4000, 16), 0
    for name, prompt in enumerate(prompts):
        if name >= at_once:
            cache.detach(name - at_once)
        found += cache.attach(name, prompt, prompt)
    return found


# %%
guess("11.e", "each ends before the next arrives: how many tokens are found?", None)

# %%
tree, hits = RadixCache(page_size=16), 0
for i, prompt in enumerate(prompts):
    hits += tree.match_prefix(prompt).length
    tree.insert(prompt, range(100 * i, 100 * i + len(prompt) // 16))
counts = [f"{n} at once: {found_tokens(n):,} tokens" for n in (1, 2, 8)]
fold("11.e", found_tokens(1), *counts, f"the radix tree: {hits:,} tokens")

# %% [markdown]
"""
<details><summary>Why</summary>

None. A page can be found only as long as some sequence has it. With two at a time, some sequence always has the instructions, so `attach` finds as much as the tree does. A tree, or a queue of unused blocks, also keeps pages that *nobody* has, until their room is needed. That is the difference between sharing and caching, and an engine needs both.

</details>

## In real engines

{{engines 11|`own_pages`; `settle_draft`}}

The paper that introduced vLLM's pages (see below) uses copy on write for parallel answers and for beams. Today vLLM's beam search is {{engines vllm-beam}}, and prefix caching finds the full blocks that they share. vLLM copies a block when a cache hit ends inside it, which {{engines vllm-partial-hit|a change of 2026}} allows for models that mix attention and Mamba layers. It does so even if no other request has the block; with {{engines vllm-cow-always|a proposal of August 2026}}, it would write to the original instead, as your `own_pages` does.

## Recap

If we count the sequences that have each page, any sequence can be forked without a copy, and the last one to release a page frees it. Only a shared page that is not full is copied, right before the first write to it, and the allocation, which can fail, comes before any change. A draft cannot be found by others and is cut off at its first wrong token.

**Check yourself**

1. From chapter 02: `own_pages` needs three pages, and two are free. What does `alloc` do?
2. Why must `drop_pages` forget a page *before* another sequence gets it?
3. A branch of 16 tokens, in pages of 16, is forked and appends one token. What is copied?
4. From chapter 10: why is a block's key made from the key before it?

<details><summary>Answers</summary>

1. It takes none and raises a `MemoryError`, so nothing has changed yet.
2. Otherwise a third sequence finds it by its old tokens and reads what the second one wrote.
3. Nothing. The page is full, and the new token goes to a new page.
4. Its keys and values depend on all earlier tokens, so its name must too.

</details>

**Read on**: [PagedAttention, the paper](https://arxiv.org/abs/2309.06180), section 4.4 · [vLLM takes beam search out of its core](https://github.com/vllm-project/vllm/pull/8726)
"""

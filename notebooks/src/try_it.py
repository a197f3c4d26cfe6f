# %% [markdown]
"""
# What do two prompts share?

When a language model reads a prompt, it computes something for each *token*, a piece of text. Here each word is a token. A server keeps what was computed in a **cache**, one *slot* for each token. If the next prompt *begins* with the same tokens, the server doesn't compute that beginning again.

Run the cells from the top: press Shift+Enter in each of them, or ▶ in the toolbar. {{time}}
"""

# %% jupyter={"source_hidden": true}
# share: two prompts go through a cache and a pool, while both are recorded
from minikv import FreeListPool, RadixCache, draw, record


def share(first, second):
    words = f"{first} {second}".split()
    number = {word: token for token, word in enumerate(dict.fromkeys(words))}
    names = list(number)
    cache, pool = RadixCache(), FreeListPool(len(words) + 1)

    def text(tokens):
        return " ".join(names[token] for token in tokens)

    with record(cache, pool, label=text) as film:
        for prompt in (first, second):
            tokens = [number[word] for word in prompt.split()]
            match = cache.match_prefix(tokens)
            new = pool.alloc(len(tokens) - match.length)
            cache.insert(tokens, [*match.pages, *new])
    said = f"Words of the second prompt in the cache: {match.length} of {len(tokens)}."
    return said, draw(cache, label=text), film


# %%
ONE = "You help with parcels. Today is Monday. Where is mine?"
TWO = "You help with parcels. Today is Monday. Why is it late?"

said, tree, film = share(ONE, TWO)
print(said)
tree

# %% [markdown]
"""
The tree holds both prompts. Their common beginning is in one box, a *node*, and each has a branch of its own below it. This film shows how that came about: press **▶ play**.
"""

# %%
film.player(still=6)

# %% [markdown]
"""
Now change the second prompt *at the beginning*, with one polite word:
"""

# %%
PLEASE = "Please, you help with parcels. Today is Monday. Why is it late?"

said, tree, film = share(ONE, PLEASE)
print(said)
tree

# %% [markdown]
"""
Nothing is shared any more, although nearly all the words are the same. The model reads from left to right, and what it computes for a word depends on every word before it. So a date, a name or a number at the beginning of a prompt means that everything after it is computed again.

## Type your own

Run this cell, change either prompt, and press Enter:
"""

# %% jupyter={"source_hidden": true}
# two fields, and below them what they share
from ipywidgets import HTML, Layout, Text, VBox

fields = [
    Text(prompt, description=name, layout=Layout(width="95%"), continuous_update=False)
    for name, prompt in (("first", ONE), ("second", TWO))
]
shown = VBox()


def renew(_):
    if not all(field.value.split() for field in fields):
        shown.children = [HTML("Type at least one word in each field.")]
        return
    said, tree, film = share(*(field.value for field in fields))
    shown.children = [HTML(said), HTML(tree.svg or ""), film.player()]


for field in fields:
    field.observe(renew, "value")
renew(None)
VBox([*fields, shown])

# %% [markdown]
"""
In the [course](00_start_here.ipynb) you build this cache, one short function at a time, and `check` finds the smallest case in which yours is wrong. The course starts with chapter 00. You build the tree in [chapter 03](03_radix_splitting.ipynb).
"""

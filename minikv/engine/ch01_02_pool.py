"""Chapters 01 and 02: how many pages fit into a GPU's memory, which of them are free, and a first engine.

A section begins with `# %%`: "given 2" is a class that the chapter shows, "2.1 alloc" a piece that the learner writes.

Its twin in the package, faster and complete:

    Pool    minikv.pools.FreeListPool
"""


# %% 1.1 bytes_per_token
def bytes_per_token(layers, kv_heads, head_dim, tp=1, number_bytes=2):
    """Return the bytes of one token's keys and values on each of `tp` GPUs."""
    if kv_heads % tp and tp % kv_heads:
        raise ValueError(f"{kv_heads} KV heads do not divide evenly among {tp} GPUs")
    heads = max(1, kv_heads // tp)
    return layers * 2 * heads * head_dim * number_bytes


# %% 1.2 read_config
def read_config(config):
    """Return the layers, the KV heads and the head_dim of a model as a tuple."""
    heads = config["num_attention_heads"]
    kv_heads = config.get("num_key_value_heads") or heads
    head_dim = config.get("head_dim") or config["hidden_size"] // heads
    return config["num_hidden_layers"], kv_heads, head_dim


# %% 1.3 pages_that_fit
def pages_that_fit(memory, percent, weights, activations, graphs, page_bytes):
    """Return how many whole pages fit, or raise a MemoryError if none does."""
    left = memory * percent // 100 - weights - activations - graphs
    pages = left // page_bytes
    if pages < 1:
        raise MemoryError(f"{left} bytes are left, but a page takes {page_bytes}")
    return pages


# %% 1.4 slots_of
def slots_of(pages, page_size, num_tokens):
    """Return the slot of each token of a request that has these pages, in order."""
    if num_tokens > len(pages) * page_size:
        raise ValueError(f"{num_tokens} tokens do not fit in {len(pages)} pages of {page_size}")
    slots = []
    for page in pages:
        slots.extend(range(page * page_size, (page + 1) * page_size))
    return slots[:num_tokens]


# %% 1.5 kept_bytes
def kept_bytes(groups, tokens):
    """Return the bytes that a sequence of `tokens` tokens takes in all `groups`."""
    total = 0
    for group in groups:
        kept = tokens
        if group.window is not None:
            kept = min(tokens, group.window)
        total += kept * group.per_token + group.state
    return total


# %% given 2
class Pool:
    """Keeps track of free pages: a stack of them, and a mark for each page in use."""

    def __init__(self, size):
        self.size = size
        self.stack = list(range(size))[::-1]  # the top is the end, so page 0 goes first
        self.in_use = [False] * size

    @property
    def num_free(self):
        return len(self.stack)

    def is_free(self, page):
        return not self.in_use[page]

    def alloc(self, count):
        return alloc(self, count)

    def free(self, pages):
        free(self, pages)


class PromptList:
    """A cache that forgets nothing: every sequence that was computed, and its row."""

    def __init__(self):
        self.known = []

    def find(self, tokens):
        return cached_row(self.known, tokens)

    def keep(self, tokens, row):
        self.known.append((tokens, row))


# %% 2.1 alloc
def alloc(pool, count):
    """Take `count` pages off the stack, or raise a MemoryError and take none."""
    if count > len(pool.stack):
        raise MemoryError(f"pages needed: {count}, free: {len(pool.stack)}")
    pages = [pool.stack.pop() for _ in range(count)]
    for page in pages:
        pool.in_use[page] = True
    return pages


# %% 2.2 guard
def guard(pool, pages):
    """Return the first of `pages` that must not be given back, or None."""
    seen = set()
    for page in pages:
        if page in seen or not 0 <= page < pool.size or not pool.in_use[page]:
            return page
        seen.add(page)
    return None


# %% 2.3 free
def free(pool, pages):
    """Give all `pages` back, the first one on top, or raise a ValueError."""
    wrong = guard(pool, pages)
    if wrong is not None:
        raise ValueError(f"page {wrong} cannot be given back")
    for page in reversed(pages):
        pool.in_use[page] = False
        pool.stack.append(page)


# %% 2.4 cached_row
def cached_row(known, tokens):
    """Return the slots of the longest cached prefix of `tokens`, in a new list."""
    best = []
    for earlier, row in known:
        same = 0
        while same < min(len(earlier), len(tokens)) and earlier[same] == tokens[same]:
            same += 1
        if same > len(best):
            best = row[:same]
    return best


# %% 2.5 respond
def respond(model, pool, cache, prompt):
    """Answer `prompt`: compute what is not cached, and keep it in the cache."""
    row = cache.find(prompt[:-1])
    answer, new = [], prompt[len(row) :]
    while model.end not in answer:
        row = row + pool.alloc(len(new))
        answer.append(model(new, row))
        new = answer[-1:]
    cache.keep(prompt + answer[:-1], row)
    return answer


# %% 2.6 take_back
def take_back(pool, pages, versions):
    """Take these free pages if none has been handed out since; otherwise take none."""
    for page, version in zip(pages, versions):
        if not pool.is_free(page) or pool.version(page) != version:
            return False
    for page in pages:
        pool.occupy(page)
    return True

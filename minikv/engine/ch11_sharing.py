"""The shared pages of chapter 11: sequences that have pages in common until one of them writes.

Its sections are the classes that the chapter shows, and the pieces, as we would write them. The pool is that
of chapter 02.
"""


# %% given 11
class Branch:
    """A sequence: its tokens, its pages, and where its draft begins, if it has one."""

    def __init__(self, tokens, pages):
        self.tokens, self.pages, self.draft_from = tokens, pages, None


class SharedPages:
    """Branches, by name, over pages of `size` tokens; a page may be in several of them."""

    def __init__(self, num_pages, size):
        self.pool, self.size, self.branches = Pool(num_pages), size, {}
        self.refs = [0] * num_pages  # how many branches have each page
        self.values = [[None] * size for _ in range(num_pages)]
        self.known, self.names = {}, {}  # first tokens -> the page they end in, and back

    def attach(self, name, tokens):
        """Begin a branch with the full pages of `tokens` that are known already."""
        pages, end = [], self.size
        while end <= len(tokens) and tuple(tokens[:end]) in self.known:
            pages.append(self.known[tuple(tokens[:end])])
            end += self.size
        found = Branch(tokens[: end - self.size], pages)
        self.branches[name] = fork_branch(self, found)
        return len(found.tokens)

    def fork(self, name, new_name):
        self.branches[new_name] = fork_branch(self, self.settled(name))

    def append(self, name, tokens, values):
        self.put(self.settled(name), tokens, values)
        self.publish(self.branches[name])

    def put(self, branch, tokens, values):
        own_pages(self, branch, len(tokens))
        for token, value in zip(tokens, values):
            index, at = divmod(len(branch.tokens), self.size)
            self.values[branch.pages[index]][at] = value
            branch.tokens.append(token)

    def draft(self, name, tokens, values):
        branch, begin = self.settled(name), len(self.branches[name].tokens)
        self.put(branch, tokens, values)
        branch.draft_from = begin

    def settle(self, name, num_right):
        settle_draft(self, self.branches[name], num_right)
        self.publish(self.branches[name])

    def detach(self, name):
        drop_pages(self, self.branches.pop(name).pages)

    def get(self, name):
        branch = self.branches[name]
        values = [value for page in branch.pages for value in self.values[page]]
        return values[: len(branch.tokens)]

    def settled(self, name):
        if self.branches[name].draft_from is not None:
            raise ValueError(f"{name} has a draft: settle it first")
        return self.branches[name]

    def publish(self, branch):
        """Let others find the pages of `branch` that are full."""
        for end, page in zip(range(self.size, len(branch.tokens) + 1, self.size), branch.pages):
            key = tuple(branch.tokens[:end])
            if key not in self.known:
                self.known[key], self.names[page] = page, key

    def forget(self, page):
        """Nobody finds `page` from now on."""
        self.known.pop(self.names.pop(page, None), None)


# %% 11.1 fork_branch
def fork_branch(cache, branch):
    """A new branch with the tokens and the pages of `branch`; nothing is copied."""
    for page in branch.pages:
        cache.refs[page] += 1
    return Branch(list(branch.tokens), list(branch.pages))


# %% 11.2 drop_pages
def drop_pages(cache, pages):
    """A branch lets go of `pages`; those that no branch has now go to the pool."""
    unused = []
    for page in pages:
        cache.refs[page] -= 1
        if cache.refs[page] == 0:
            cache.forget(page)
            unused.append(page)
    cache.pool.free(unused)


# %% 11.3 own_pages
def own_pages(cache, branch, count):
    """Give `branch` its own pages for `count` more tokens, or raise a MemoryError."""
    length = len(branch.tokens)
    more = -(-(length + count) // cache.size) - len(branch.pages)
    is_copied = count > 0 and length % cache.size > 0 and cache.refs[branch.pages[-1]] > 1
    new = cache.pool.alloc(more + is_copied)
    for page in new:
        cache.refs[page] = 1
    if is_copied:
        last = branch.pages.pop()
        cache.values[new[0]] = list(cache.values[last])
        cache.refs[last] -= 1
    branch.pages += new


# %% 11.4 settle_draft
def settle_draft(cache, branch, num_right):
    """Keep the first `num_right` tokens of the draft of `branch`; the others go."""
    end = branch.draft_from + num_right
    keep = -(-end // cache.size)
    leaving = branch.pages[keep:]
    del branch.tokens[end:], branch.pages[keep:]
    drop_pages(cache, leaving)
    branch.draft_from = None

"""The rows of chapter 09: a trie of tokens whose nodes say which row holds their prefix.

Its sections are the classes that the chapter shows, and the pieces, as we would write them. Locks and
eviction are those of chapters 04 and 05.
"""

# %% given 9
from minikv import BitmaskPool


class TokenNode:
    """One token, and the row that holds the prefix ending here, with its version."""

    def __init__(self, token=None, parent=None):
        self.token, self.parent, self.children = token, parent, {}
        self.row, self.version = None, 0
        self.locks = 0  # as in chapter 04
        self.older = self.newer = self  # as in chapter 05

    @property
    def tokens(self):
        return [] if self.parent is None else [self.token]

    @property
    def slots(self):
        return [] if self.parent is None else [self.row]


class RowRequest:
    """A running request: its row, and the nodes of what was cached of it."""

    def __init__(self, tokens, row, path, is_copy):
        self.tokens, self.row, self.path, self.is_copy = tokens, row, path, is_copy

    @property
    def found(self):
        return len(self.path)

    def __repr__(self):
        how = "copied" if self.is_copy else "reused"
        found = f"{len(self.path)} tokens {how}" if self.path else "nothing found"
        return f"row {self.row}, {found}"


class RowTrie:
    """Rows of keys and values, one a request, and a trie that knows what is in them."""

    def __init__(self, num_rows, max_nodes=1000):
        self.pool, self.root, self.ring = BitmaskPool(num_rows), TokenNode(), Ring()
        self.rows = [[] for _ in range(num_rows)]  # tokens stand for keys and values
        self.max_nodes, self.evictable, self.protected = max_nodes, 0, 0

    def find(self, tokens):
        path = trie_find(self.root, tokens)
        while path and not is_current(path[-1], self.pool):
            path.pop()
        return path

    def start(self, tokens):
        path = self.find(tokens[:-1])  # the last token is always computed
        row, is_copy = take_row(self.pool, path)
        source = path[-1].row if is_copy else row
        self.rows[row] = self.rows[source][: len(path)]
        self.rows[row] += tokens[len(path) :]  # the rest is computed
        if path:
            lock(self, path[-1])
        return RowRequest(tokens, row, path, is_copy)

    def finish(self, request):
        there = len(trie_find(self.root, request.tokens))
        path = trie_insert(self.root, request.tokens, request.row, self.pool)
        self.evictable += len(path) - there
        touch(self.ring, path[-1])
        if request.path:
            unlock(self, request.path[-1])
        evict(self, self.evictable + self.protected - self.max_nodes)
        self.pool.free([request.row])

    def protect(self, node):
        self.evictable, self.protected = self.evictable - 1, self.protected + 1
        unlink(node)

    def expose(self, node):
        self.evictable, self.protected = self.evictable + 1, self.protected - 1
        link(self.ring, node)


# %% 9.1 trie_find
def trie_find(root, tokens):
    """The nodes along `tokens`, from the first token on, as far as they are there."""
    node, path = root, []
    for token in tokens:
        if token not in node.children:
            break
        node = node.children[token]
        path.append(node)
    return path


# %% 9.2 is_current
def is_current(node, pool):
    """Whether the row of `node` still holds what it held when the node named it."""
    return node.row is not None and pool.version(node.row) == node.version


# %% 9.3 trie_insert
def trie_insert(root, tokens, row, pool):
    """Let the new and stale nodes of `tokens` name `row`; return all nodes in order."""
    node, path = root, []
    for token in tokens:
        if token not in node.children:
            node.children[token] = TokenNode(token, node)
        node = node.children[token]
        if not is_current(node, pool):
            node.row, node.version = row, pool.version(row)
        path.append(node)
    return path


# %% 9.4 take_row
def take_row(pool, path):
    """Take a row for a request whose cached prefix is `path`.

    Return the row, and whether the prefix has to be copied into it.
    """
    if not path or not pool.is_free(path[-1].row):
        return int(pool.alloc(1)[0]), bool(path)
    row = path[-1].row
    pool.occupy(row, renew=True)
    for node in path:
        if not is_current(node, pool):
            node.row, node.version = row, pool.version(row)
    return row, False

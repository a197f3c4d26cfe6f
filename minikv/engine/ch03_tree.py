"""Chapter 03: the radix tree, and the trie that it improves on.

`split` is chapter 04's, which copies the locks too; the one without that line is in `ch03_first_split`.

Its twin in the package, faster and complete:

    Node    minikv.prefix.radix.RadixNode
"""


# %% given 3
class Node:
    """One edge of the tree and the node at its end: a run of tokens, and a slot for each of them."""

    def __init__(self, tokens, slots, parent=None):
        self.tokens, self.slots, self.parent = tokens, slots, parent
        self.children = {}  # first token of the child -> the child
        self.locks = 0  # how many locks pass through (chapter 04)
        self.older = self.newer = self  # its neighbors in the ring (chapter 05)


class TrieNode:
    """A node of a trie, where each edge is one token."""

    def __init__(self):
        self.children = {}  # token -> node


def answer_from(model, pool, prompt, row):
    """Compute what follows the tokens in `row`; return the answer, and the longer row."""
    answer, new = [], prompt[len(row) :]
    while model.end not in answer:
        row = row + pool.alloc(len(new))
        answer.append(model(new, row))
        new = answer[-1:]
    return answer, row


# %% 3.1 common
def common(a, b):
    """Count how many tokens at the beginning of `a` and `b` are equal."""
    same = 0
    while same < min(len(a), len(b)) and a[same] == b[same]:
        same += 1
    return same


# %% 3.2 trie_add
def trie_add(root, tokens):
    """Make the path of `tokens` below `root`; add only nodes that are missing."""
    node = root
    for token in tokens:
        if token not in node.children:
            node.children[token] = TrieNode()
        node = node.children[token]


# %% 3.4 walk
def walk(root, tokens):
    """Return the node where `tokens` leave the tree, and how many were followed."""
    node, at = root, 0
    while at < len(tokens) and tokens[at] in node.children:
        child = node.children[tokens[at]]
        same = common(child.tokens, tokens[at : at + len(child.tokens)])
        at += same
        if same < len(child.tokens):
            return split(child, same), at
        node = child
    return node, at


# %% 3.5 insert
def insert(root, tokens, slots):
    """Cache `tokens`; return the node where they end, and how many were there."""
    node, there = walk(root, tokens)
    if there < len(tokens):
        leaf = Node(tokens[there:], slots[there:], node)
        node.children[tokens[there]] = leaf
        node = leaf
    return node, there


# %% 3.6 match
def match(root, tokens):
    """Return the node where the cached prefix of `tokens` ends, and its slots."""
    end, _ = walk(root, tokens)
    runs, node = [], end
    while node.parent is not None:
        runs.append(node.slots)
        node = node.parent
    return end, [slot for run in reversed(runs) for slot in run]


# %% 3.7 reply
def reply(model, pool, root, prompt):
    """Answer `prompt`, computing only what is not cached; return the answer."""
    _, found = match(root, prompt[:-1])
    answer, row = answer_from(model, pool, prompt, found)
    _, there = insert(root, prompt + answer[:-1], row)
    pool.free(row[len(found) : there])
    return answer


# %% 3.8 pages_of
def pages_of(tokens, size):
    """Cut `tokens` into tuples of `size`; leave out an incomplete last page."""
    whole = len(tokens) // size
    return [tuple(tokens[page * size : (page + 1) * size]) for page in range(whole)]


# %% 4.4 split
def split(node, at):
    """Cut `node` after `at` tokens; return the upper node, which has the same locks."""
    upper = Node(node.tokens[:at], node.slots[:at], node.parent)
    upper.parent.children[upper.tokens[0]] = upper
    node.tokens, node.slots = node.tokens[at:], node.slots[at:]
    node.parent = upper
    upper.children[node.tokens[0]] = node
    upper.locks = node.locks
    return upper

"""Chapter 03 before there are locks: its `split` lacks one line of chapter 04's, which the tree in `ch03_tree` has."""

from minikv.engine.ch03_tree import Node


# %% 3.3 split
def split(node, at):
    """Cut the edge of `node` after `at` tokens; return the new upper node."""
    upper = Node(node.tokens[:at], node.slots[:at], node.parent)
    upper.parent.children[upper.tokens[0]] = upper
    node.tokens, node.slots = node.tokens[at:], node.slots[at:]
    node.parent = upper
    upper.children[node.tokens[0]] = node
    return upper

"""The parts of a chapter's plays: prompts, the trees and caches that hold them, and descriptions of those.

A prompt of a case is a word, with a digit for each token. What is seen is said in words, which are always the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

from hypothesis import strategies as st

from minikv.course.pieces.identity import DEEPEST, kept, path_of, used_slots
from minikv.engine import World, ours
from minikv.testing.attempt import type_in_words, type_of
from minikv.testing.snapshot import plain, ranges, shorten

MOST = 200  # nodes in words
PROMPT = st.text("012", max_size=6)
PROMPTS = st.lists(PROMPT, max_size=5)
ASKED = st.tuples(PROMPTS, st.lists(PROMPT, min_size=1, max_size=2))  # prompts that are cached, and some to ask for
FORK = ["12345", "12378"]
DEEP = 2000  # in the place of prompts: a path of so many nodes


def numbers(prompt: Iterable[Any]) -> list[Any]:
    """The tokens of a prompt; large ones are new objects, each time, and so are pages, which stay tuples.

    >>> numbers("123"), numbers([1000, (7, 8)])
    ([1, 2, 3], [1000, (7, 8)])
    """
    return [(*token,) if isinstance(token, tuple) else int(str(token)) for token in prompt]


def steps_of(day: str) -> list[list[str]]:
    """The words of each step of a day.

    >>> steps_of("start 123, compute 0 2")
    [['start', '123'], ['compute', '0', '2']]
    """
    return [step.split() for step in day.split(", ") if step]


def with_slots(prompts: Iterable[str], size: int = 1) -> Iterator[tuple[list[int], list[int]]]:
    """The tokens of each prompt, and a slot for each of its pages of `size` tokens, numbered as `used_slots` does.

    >>> list(with_slots(["123", "45"]))
    [([1, 2, 3], [7, 3, 4]), ([4, 5], [9, 0])]
    """
    slots = used_slots()
    for prompt in prompts:
        yield numbers(prompt), list(islice(slots, len(prompt) // size))


def planted(world: World, prompts: Sequence[str] | int) -> Any:
    """The root of a tree with these prompts, made of the world's nodes by our own pieces.

    A number stands for one prompt of so many ones, with a node for each.
    """
    if isinstance(prompts, int):
        return path_of(world["Node"], prompts)
    own: World = {"Node": world["Node"]}
    for piece in ("3.1", "3.2", "3.3", "3.7"):
        function = ours(piece, own)
        own[function.__name__] = function
    root = world["Node"]([], [])
    for tokens, slots in with_slots(prompts):
        own["insert"](root, tokens, slots)
    return root


def filled_cache(world: World, prompts: Sequence[str] | int, size: int = 1) -> Any:
    """A cache of the world with these prompts, in pages of `size`; a number of prompts is as in `planted`."""
    cache = world["RadixCache"](size)
    if isinstance(prompts, int):
        cache.roots[None], cache.evictable = planted(world, prompts), prompts
        link = ours("5.1", world)
        for node in reversed(preorder(cache.roots[None])):
            link(cache.ring, node)
        return cache
    for tokens, slots in with_slots(prompts, size):
        cache.insert(tokens, slots)
    return cache


def preorder(root: Any) -> list[Any]:
    """Every node below `root`, a parent before its children."""
    found: list[Any] = []
    stack = list(root.children.values())[::-1]
    while stack and len(found) < DEEPEST:
        found.append(stack.pop())
        stack.extend(list(found[-1].children.values())[::-1])
    return found


def came_of(call: Callable[[], Any], *errors: type[Exception]) -> tuple[str, Any]:
    """Return the name of the one of `errors` that a call raises, and its result; any other error is raised.

    >>> came_of(lambda: max([]), ValueError), came_of(lambda: max([3]), ValueError)
    (('ValueError', None), ('no error', 3))
    """
    try:
        result = call()
        said = f", but a {type(result).__name__} is returned: raise it" if isinstance(result, BaseException) else ""
        return f"no error{said}", result
    except errors as error:
        if isinstance(error, (NotImplementedError, RecursionError)):
            raise
        return next(kind.__name__ for kind in errors if isinstance(error, kind)), None


# The methods that look at one entry, or of a slice at some, and those that look at all.
_LOOKS: dict[type, tuple[tuple[str, ...], tuple[str, ...]]] = {
    list: (("__getitem__",), ("__iter__", "__contains__", "index", "count")),
    dict: (("__contains__", "__getitem__", "get"), ("__iter__", "keys", "values", "items")),
    int: (("__hash__", "__eq__", "__lt__", "__gt__"), ()),
}


def counting(kind: type) -> tuple[Any, list[int]]:
    """A `kind` of list, dictionary or number, and a tally of how many entries, or numbers, somebody looks at.

    >>> counted, tally = counting(dict)
    >>> found = counted({1: "a", 2: "b"})
    >>> found.get(1), 2 in found, list(found), tally
    ('a', True, [1, 2], [4])
    """
    tally, (one, whole) = [0], _LOOKS[kind]

    def counted(name: str) -> Any:
        plain = getattr(kind, name)

        def look(self: Any, *args: Any) -> Any:
            at = args[0] if args else None
            some = len(range(*at.indices(len(self)))) if isinstance(at, slice) else 1
            tally[0] += some if name in one else len(self)
            return plain(self, *args)

        return look

    methods = {name: counted(name) for name in one + whole}
    return type(kind.__name__, (kind,), methods), tally


def bracketed(tokens: Any) -> str:
    """Tokens as they are written in a caption.

    >>> bracketed([1, 2, 3]), bracketed([])
    ('[1 2 3]', '[]')
    """
    return f"[{shorten(list(tokens))}]"


def edge(node: Any) -> str | None:
    """A node's tokens and slots, in words; `None` for what is not a node.

    >>> from types import SimpleNamespace as Node
    >>> edge(Node(tokens=[1, 2], slots=[5, 6]))
    '[1 2] in slots 5-6'
    """
    if not hasattr(node, "tokens") or not hasattr(node, "slots"):
        return None if node is None else f"a {type(node).__name__}"
    slots = plain(node.slots)
    held = f"in slot{'s' * (len(slots) > 1)} {ranges(slots)}" if slots else "without slots"
    locks = getattr(node, "locks", 0)
    return f"{bracketed(node.tokens)} {held}" + (f", locked ×{locks}" if locks else "") if node.tokens else "the root"


def outline(root: Any, name: Callable[[Any], Any] = edge) -> str:
    """A whole tree on one line, each node by its `name`: below a node stand its children, in order.

    >>> from types import SimpleNamespace as Node
    >>> leaf = Node(tokens=[3], slots=[7], children={})
    >>> outline(Node(tokens=[], slots=[], children={1: Node(tokens=[1, 2], slots=[5, 6], children={3: leaf})}))
    '[1 2] in slots 5-6 > [3] in slot 7'
    """
    left = [MOST]

    def below(node: Any) -> str:
        left[0] -= 1
        if left[0] < 0:
            return "..."
        parts = [part(child) for _, child in sorted(node.children.items(), key=lambda pair: repr(pair[0]))]
        return parts[0] if len(parts) == 1 else f"({' | '.join(parts)})"

    def part(node: Any) -> str:
        return str(name(node)) + (f" > {below(node)}" if left[0] > 0 and getattr(node, "children", None) else "")

    return below(root) if root.children else "empty"


def state_of_tree(root: Any) -> dict[str, str]:
    """Describe a tree: all of it, whether its links are correct, and whether its nodes are the old ones."""
    return {"the tree": outline(root), "the links": links(root), "the nodes that were there": kept(root)}


def edge_to_cut(root: Any, which: int, at: int) -> tuple[Any, int] | None:
    """The `which`-th node below `root` that has two tokens or more, and where to cut its edge, both counted around."""
    long = [node for node in preorder(root) if len(node.tokens) > 1]
    node = long[which % len(long)] if long else None
    return None if node is None else (node, 1 + at % (len(node.tokens) - 1))


def links(root: Any) -> str:
    """Say whether every child has its parent and is stored under its first token, or name the first that is not.

    >>> from types import SimpleNamespace as Node
    >>> root = Node(tokens=[], slots=[], children={})
    >>> root.children[1] = Node(tokens=[1], slots=[0], children={}, parent=None)
    >>> links(root)
    'the parent of [1] is not the node above it'
    """
    if len(getattr(root, "slots", ())):
        return f"the root has slots now: {ranges(plain(root.slots))}"
    for node in (root, *preorder(root)):
        for first, child in node.children.items():
            tokens = [child.token] if hasattr(child, "token") else child.tokens
            if not len(tokens):
                return "a node below the root has no tokens"
            if first != tokens[0]:
                return f"{_name_of(tokens)} is stored under the token {first}"
            if child.parent is not node:
                return f"the parent of {_name_of(tokens)} is not the node above it"
            if len(getattr(child, "slots", tokens)) != len(tokens):
                return f"{_name_of(tokens)} has {len(child.slots)} slots"
    return "all right"


def _name_of(tokens: Any) -> str:
    return bracketed(map(token_in_words, tokens))


def token_in_words(token: Any) -> str:
    """A token, or what a node has got in its place.

    >>> token_in_words(7), token_in_words([7])
    ('7', 'a list')
    """
    is_plain = token is None or isinstance(token, str) or hasattr(token, "__index__")
    return str(token) if is_plain else f"a {type(token).__name__}"


def kinds(result: Any) -> str:
    """Name the kinds of what was returned, for a function that must return two values of different kinds.

    >>> kinds((7, [1])), kinds(None), kinds(7)
    ('two values, a number and a list', 'nothing', 'one value, a number')
    """
    if result is None:
        return "nothing"
    if _is_pair(result):
        return f"two values, {kind_of(result[0])} and {kind_of(result[1])}"
    return f"one value, {kind_of(result)}"


def kind_of(value: Any) -> str:
    """Name the kind of a value.

    >>> kind_of(7), kind_of(None)
    ('a number', 'None')
    """
    if hasattr(value, "tokens") and hasattr(value, "parent"):
        return "a node"
    return "None" if value is None else type_in_words(value)


def two(result: Any) -> Sequence[Any]:
    """Both parts of what should be a pair.

    >>> two((1, 2)), two(None)
    ((1, 2), (None, None))
    """
    return result if _is_pair(result) else (None, None)


def listed(found: Any, words: Callable[[Any], Any] = lambda each: each) -> Any:
    """Return the items of a list, each in `words`, or say what was returned in place of a list.

    >>> listed([1, 2], str), listed({1}), listed(None)
    (['1', '2'], 'a set, not a list', None)
    """
    if isinstance(found, (list, tuple)):
        return [words(each) for each in found]
    return None if found is None else f"{type_of(found)}, not a list"


def yes_or_no(answer: Any) -> str | None:
    """Return "yes" or "no" for an answer that is true or false, and `None` for `None`.

    >>> yes_or_no([]), yes_or_no(None)
    ('no', None)
    """
    return None if answer is None else "yes" if answer else "no"


def _is_pair(result: Any) -> bool:
    return isinstance(result, (tuple, list)) and len(result) == 2

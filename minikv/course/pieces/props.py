"""The parts of plays: prompts, the trees, caches and pools that hold them.

A prompt of a case is a word, with a digit for each token.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import count, islice
from typing import Any

from hypothesis import strategies as st

from minikv.engine import World, ours
from minikv.files import IN_BROWSER
from minikv.testing.snapshot import shorten

MOST = 200  # nodes in words
PROMPT = st.text("012", max_size=6)
PROMPTS = st.lists(PROMPT, max_size=5)
ASKED = st.tuples(PROMPTS, st.lists(PROMPT, min_size=1, max_size=2))  # prompts that are cached, and some to ask for
FORK = ["12345", "12378"]
DEEP = 500 if IN_BROWSER else 2000  # in the place of prompts: a path of so many nodes, too many for nested calls


def up_to(most: int) -> st.SearchStrategy[int]:
    """Cases make a number from 0 to `most` of it.

    >>> up_to(3)
    integers(min_value=0, max_value=3)
    """
    return st.integers(0, most)


def numbers(prompt: Iterable[Any]) -> list[Any]:
    """The tokens of a prompt; large ones are new objects, each time, and so are pages, which stay tuples.

    >>> numbers("123"), numbers([1000, (7, 8)])
    ([1, 2, 3], [1000, (7, 8)])
    >>> tokens = [1000]; numbers(tokens)[0] is tokens[0]
    False
    """
    return [(*token,) if isinstance(token, tuple) else int(str(token)) for token in prompt]


def steps_of(day: str) -> list[list[str]]:
    """The words of each step of a day.

    >>> steps_of("start 123, compute 0 2")
    [['start', '123'], ['compute', '0', '2']]
    """
    return [step.split() for step in day.split(", ") if step]


def used_slots() -> Iterator[int]:
    """Slots as a pool hands them out that has been in use: in no order, with gaps, 0 among them, none of them twice.

    >>> [*islice(used_slots(), 12)], len({*islice(used_slots(), 5000)})
    ([7, 3, 4, 9, 0, 12, 20, 16, 17, 22, 13, 25], 5000)
    """
    for block in count(0, 13):
        yield from (block + slot for slot in (7, 3, 4, 9, 0, 12))


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
    root = above = world["Node"]([], [])
    if isinstance(prompts, int):
        for slot in islice(used_slots(), prompts):
            above.children[1] = above = world["Node"]([1], [slot], above)
        return root
    own: World = {"Node": world["Node"]}
    for piece in ("3.3", "3.4", "3.5", "3.1"):
        function = ours(piece, own)
        own[function.__name__] = function
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


def shuffle(pool: Any) -> None:
    """Put the free pages of a pool of up to 60 pages into no order, always the same one: as if it had been in use.

    >>> from minikv.engine import engine_world
    >>> shuffle(pool := engine_world()["Pool"](8)); pool.alloc(6)
    [4, 0, 5, 1, 6, 2]
    """
    prime = 17 if pool.size < 17 else 61
    pool.stack.sort(key=lambda page: (page + 1) * 13 % prime)


def used_pool(world: Any, free: int) -> Any:
    """A pool that has been in use: `free` of its pages are free, every other one, in no order.

    >>> from minikv.engine import engine_world
    >>> used_pool(engine_world(), 4).alloc(4)
    [4, 0, 6, 2]
    """
    pool = world["Pool"](2 * free)
    pool.free(pool.alloc(2 * free)[::2])
    shuffle(pool)
    return pool


def preorder(root: Any) -> list[Any]:
    """Every node below `root`, up to some thousands, a parent before its children."""
    found: list[Any] = []
    stack = list(root.children.values())[::-1]
    while stack and len(found) < 2 * DEEP:
        found.append(stack.pop())
        stack.extend(list(found[-1].children.values())[::-1])
    return found


def edge_to_cut(root: Any, which: int, at: int) -> tuple[Any, int] | None:
    """The `which`-th node below `root` that has two tokens or more, and where to cut its edge, both counted around."""
    long = [node for node in preorder(root) if len(node.tokens) > 1]
    node = long[which % len(long)] if long else None
    return None if node is None else (node, 1 + at % (len(node.tokens) - 1))


def listed(found: Any) -> Any:
    """A tuple as a list, where the text leaves open which of both it is; anything else as it is.

    >>> listed((1, 2)), listed({1})
    ([1, 2], {1})
    """
    return list(found) if isinstance(found, tuple) else found


def bracketed(tokens: Any) -> str:
    """Tokens as they are written in a caption.

    >>> bracketed([1, 2, 3]), bracketed([])
    ('[1 2 3]', '[]')
    """
    return f"[{shorten(list(tokens))}]"


def in_any_order(found: Any) -> Any:
    """A list with the smallest first, which remains the same list, or such a list of a tuple; anything else as it is.

    >>> in_any_order([2, 1]), in_any_order((2, 1)), in_any_order({1})
    ([1, 2], [1, 2], {1})
    """
    found = listed(found)
    if isinstance(found, list):
        with suppress(TypeError):  # not only numbers
            found.sort()
    return found


def each_in(words: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Each item of a list in `words`; anything else that is returned stays as it is.

    >>> each_in(str)([1, 2]), each_in(str)(None)
    (['1', '2'], None)
    """
    return lambda found: [words(each) for each in found] if isinstance(found, list | tuple) else found

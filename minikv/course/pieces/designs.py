"""Designs beside the tree: a trie as AstrAI had it; what is seen of the trie of 09, seeds of 10, pages of 11."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import product
from pathlib import Path
from typing import Any

from minikv.course.pieces.identity import ALL_RIGHT, shuffle
from minikv.course.pieces.observe import kind_of, listed, outline, steps_of, token_in_words
from minikv.course.pieces.stored import wrong_answers_to
from minikv.engine import World, engine_world, run_section
from minikv.testing.attempt import attempt, short_repr
from minikv.testing.snapshot import shorten


def _stored_trie() -> Any:
    """The trie that is stored with the wrong answers of its chapter."""
    section, world = wrong_answers_to("9.0")[0].section, dict[str, Any]()
    world.update(run_section(section, world, str(Path(__file__).with_name("wrong_09.txt"))))
    return world[section.name]


OrderedTrie: Any = _stored_trie()  # as the chapter's notebook calls it


def outcome(*steps: tuple[str, Sequence[int]]) -> str:
    """Return the results of `steps`, pairs of a verb and tokens, in an `OrderedTrie` with room for three nodes.

    It is the number that the last step found, or the name of the error; a second is time enough.

    >>> outcome(("insert", [1, 2]), ("find", [1, 2, 3])), outcome(*(("insert", [token]) for token in range(4)))
    ('found 2', 'TooLong')
    """
    trie = OrderedTrie(capacity=3)
    found = attempt(lambda: [getattr(trie, verb)(tokens) for verb, tokens in steps][-1], seconds=1.0)
    return f"found {found.value}" if found.error is None else type(found.error).__name__


def trie_in_words(root: Any, pool: Any) -> str:
    """Return a whole trie on one line; a node is followed by its children, in order.

    >>> from types import SimpleNamespace as Node
    >>> leaf = Node(token=7, row=0, version=1, children={})
    >>> trie_in_words(Node(children={7: leaf}), Node(version=lambda row: 2))
    '7 in row 0, stale'
    """

    def name(node: Any) -> str:
        is_stale = node.row is not None and node.version != pool.version(node.row)
        row = "no row" if node.row is None else f"row {node.row}{', stale' * is_stale}"
        locks = f", locked ×{node.locks}" if getattr(node, "locks", 0) else ""
        return f"{token_in_words(node.token)} in {row}{locks}"

    return outline(root, name)


def path_in_words(root: Any, path: Any) -> Any:
    """The tokens of a list of nodes, if they lead down from the root one after the other.

    >>> path_in_words(None, 7), path_in_words(None, [7])
    ('an int, not a list', 'a list with a number in it')
    """
    if not isinstance(path, (list, tuple)):
        return listed(path)
    above = root
    for at, node in enumerate(path):
        if node is root or not hasattr(node, "children"):
            return f"a list with {'the root' if node is root else kind_of(node)} in it"
        if above.children.get(node.token) is not node:
            return f"the node at place {at} of the list is no child of {'the one before it' if at else 'the root'}"
        above = node
    return [node.token for node in path]


def lazy_pool(pool: Any) -> Any:
    """The block pool of chapter 10, which now leaves the keys of the blocks that it takes in its table."""
    plain = pool.take

    def take(count: int) -> Any:
        before, taken = dict(pool.table), plain(count)
        pool.table.update(before)
        return taken

    def publish(blocks: Sequence[Any], keys: Sequence[Any]) -> None:
        for block, key in zip(blocks, keys):
            if key not in pool.table or pool.table[key].key != key:
                block.key, pool.table[key] = key, block

    pool.take, pool.publish = take, publish
    return pool


_PAGES, _NAMES = 7, "abcdefghi"
_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


@lru_cache
def _ours() -> World:
    return engine_world(2, 11)


class _Value(str):
    """A value, which may be anything: one of them counts as false."""

    def __bool__(self) -> bool:
        return self != "W"


def built(case: tuple[int, str]) -> Any:
    """Shared pages after some steps, made by our own pieces; no token comes twice, and their values are letters.

    A step is a verb, the place of a branch, and perhaps how many tokens. One for which there is no room is left out.
    """
    size, day = case
    cache, count = _ours()["SharedPages"](_PAGES, size), 0
    shuffle(cache.pool)
    cache.values = [["old" if page < 5 else None] * size for page in range(_PAGES)]  # some have been in use
    cache.attach("a", [])
    for verb, which, *more in steps_of(day):
        name, new = branch_name(cache, int(which)), next(letter for letter in _NAMES if letter not in cache.branches)
        try:
            if verb == "append":
                numbers = [1 + number * 11 % 26 for number in range(count, count + int(more[0]))]
                cache.append(name, numbers, [_Value(letter) for letter in values_of(numbers)])
                count += len(numbers)
            elif verb == "fork":
                cache.fork(name, new)
            elif verb == "attach":
                cache.attach(new, list(cache.branches[name].tokens))
            elif len(cache.branches) > 1:
                cache.detach(name)
        except MemoryError:
            continue
    return cache


def branch_name(cache: Any, which: int) -> str:
    """The name of the `which`-th branch, counted around."""
    names = list(cache.branches)
    found: str = names[which % len(names)]
    return found


def values_of(tokens: Sequence[int]) -> str:
    """A letter for each token, of which there may be many.

    >>> values_of([1, 2, 27])
    'ABA'
    """
    return "".join(_LETTERS[(token - 1) % 26] for token in tokens)


def contents(cache: Any, branch: Any) -> Any:
    """Describe the values that a branch reads, page by page.

    >>> contents(cache := built((2, "append 0 3")), cache.branches["a"])
    '[A L] [W]'
    """
    if not hasattr(branch, "pages") or not isinstance(branch.pages, list):
        return "no pages" if branch is not None else None
    if any(not isinstance(page, int) or not 0 <= page < len(cache.values) for page in branch.pages):
        return f"pages {shorten(branch.pages)}"
    values = [value for page in branch.pages for value in cache.values[page]][: len(branch.tokens)]
    size = cache.size
    parts = (" ".join(map(str, values[i * size : (i + 1) * size])) for i in range(len(branch.pages)))
    return " ".join(f"[{part}]" for part in parts) or "nothing"


def _own_values(cache: Any) -> str:
    """Return whether each page has a list of values of its own, with as many places as a page has."""
    wrong = [len(values or ()) for values in cache.values if len(values or ()) != cache.size]
    if wrong:
        return f"the list of values of a page has the length {wrong[0]}; it should have {cache.size}"
    if len({id(values) for values in cache.values}) < len(cache.values):
        return "two pages have one list of values: what is written to one, the other has too"
    return ALL_RIGHT


def seen_of_pages(cache: Any) -> dict[str, Any]:
    """The state of shared pages: the values of each branch, the owners of each page, the free ones and the found ones.

    Pages are listed in the order in which they are met, since it does not matter which one the pool gives.
    """
    rows = [getattr(branch, "pages", None) for branch in cache.branches.values()]
    met = dict.fromkeys(page for row in rows if isinstance(row, list) for page in row if isinstance(page, int))
    valid = [page for page in met if 0 <= page < len(cache.refs)]
    others = sum(1 for page, refs in enumerate(cache.refs) if refs and page not in met)
    found = {name: contents(cache, branch) for name, branch in cache.branches.items()}
    return {
        "the values of the pages": _own_values(cache),
        **{f"what {name} reads": words for name, words in found.items()},
        "the references of the pages in use": [cache.refs[page] for page in valid],
        "pages with references that no branch has": others,
        "how many pages are free": cache.pool.num_free,
        "free pages with references, or that can be found": sum(
            cache.pool.is_free(page) and bool(cache.refs[page] or page in cache.names)
            for page in range(cache.pool.size)
        ),
        "how many pages can be found": len(cache.known),
    }


def separators_in_words(seed_of: Callable[..., Any]) -> str:
    """Say whether the texts of a pair can hold what keeps them apart in the seed.

    >>> separators_in_words(lambda lora, salt: f"{lora},{salt}".encode())[:30]
    "seed_of('Q7' + between + 'Z9',"
    """
    own = ["", *_texts_in(getattr(seed_of, "__code__", ""))]
    if any(seed_of(None, text) == seed_of(text, text) for text in own):
        return "a string that stands for None in your code gets the same seed as None"
    between = _between_texts(seed_of)
    tried = between, *" ,:;|/-_.\n\0", ", ", *map("".join, product(own, own))  # a hash may hide it
    for end in ("", "\\"):  # a backslash at the end undoes a quoting that leaves backslashes as they are
        pairs = [_forged(each, end) for each in tried]
        if any(seed_of(*one) == seed_of(*other) for one, other in pairs):
            said = f"{'Z9' + end!r}, 'Z9') equals seed_of({'Q7' + end!r}, 'Z9' + between + 'Z9')"
            return f"seed_of('Q7' + between + {said}, where `between` is what you put between the two strings"
    lengths = [_forged(between, "", "x" * (size - len(between))) for size in (2**8, 2**16)]
    for one, other in lengths + [_run_on(label) for label in own]:
        if seed_of(*one) == seed_of(*other):
            return f"{short_repr(one)} and {short_repr(other)} get the same seed: can every length be read?"
    return ALL_RIGHT


def _texts_in(code: Any) -> list[str]:
    """The strings and the bytes in a piece of code, as strings."""
    if isinstance(code, str | bytes):
        return [code if isinstance(code, str) else str(code, "utf-8", "replace")]
    return [text for part in getattr(code, "co_consts", ()) for text in _texts_in(part)]


def _between_texts(seed_of: Callable[..., Any]) -> str:
    """Return the text between the two texts in a seed, or the empty text if the seed does not have both."""
    found = re.search("Q7(.*)Z9", "".join(_texts_in(seed_of("Q7", "Z9"))), re.DOTALL)
    return found[1] if found else ""


def _run_on(label: str) -> list[tuple[str, str]]:
    """Two pairs with equal seeds, if `label` and a length come before each text and nothing ends the length."""
    rest = "a" * (9 - len(label))
    return [(f"{label}12{rest}", "zz"), ("1", f"{rest}{label}2zz")]


def _forged(between: str, end: str, more: str = "Z9") -> list[tuple[str, str]]:
    """Two pairs with equal seeds, if nothing but `between` keeps the adapter and the salt apart."""
    return [(f"Q7{between}{more}{end}", "Z9"), (f"Q7{end}", f"{more}{between}Z9")]

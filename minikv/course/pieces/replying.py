"""Pieces 3.7 to 3.10: comparing prompts, the trie, `reply` through the tree, and cutting prompts into pages."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from hypothesis import strategies as st

from minikv.course.pieces.identity import ALL_RIGHT, as_list, used_pool
from minikv.course.pieces.observe import (
    DEEP,
    MOST,
    PROMPT,
    PROMPTS,
    bracketed,
    links,
    listed,
    numbers,
    outline,
    preorder,
)
from minikv.course.pieces.piece import CaseFrame, Frames, Piece, Play, one_call
from minikv.engine import World

# Prompts with their answers: a prompt may have the end of an earlier answer in it.
ANSWERED = st.lists(
    st.tuples(st.text("0123", min_size=1, max_size=7), st.text("123", max_size=4)), min_size=1, max_size=3
)


def play_common(world: World, case: Any) -> Frames:
    """Two prompts are compared, as they are and in the other order."""
    for words in (case, case[::-1]):
        given = [numbers(word) for word in words]
        found = world["common"](*given)
        seen = {"what is returned": found, "the prompts, which must not change": given}
        yield CaseFrame(f"common of {' and '.join(map(bracketed, map(numbers, words)))}", seen)


def play_trie_add(world: World, case: Any) -> Frames:
    """The prompts come one after the other into an empty trie."""
    root = world["TrieNode"]()
    nodes = _paths(root)
    for tokens in map(numbers, case):
        given, before = tokens[:], nodes
        world["trie_add"](root, given)
        nodes = _paths(root)
        is_kept = all(nodes.get(path) is node for path, node in before.items())
        seen = {
            "the paths in the trie": " | ".join(map(bracketed, sorted(nodes))),
            "the nodes that were there": ALL_RIGHT if is_kept else "one of them was replaced or lost",
            "the prompt, which must not change": given,
        }  # fmt: skip
        yield CaseFrame(f"add {bracketed(tokens)}", seen, root)


def _paths(root: Any) -> dict[tuple[int, ...], Any]:
    """The first nodes of a trie, level by level, after the tokens that lead to them."""
    found: dict[tuple[int, ...], Any] = {(): root}
    paths = list(found)
    for path in paths:  # which grows meanwhile
        for token, child in list(found[path].children.items())[: MOST - len(found)]:
            found[(*path, token)] = child
            paths.append((*path, token))
    return found


class _Number(int):
    """A number that is an object of its own, as large ones are: `is` doesn't find it."""


class _Reader:
    """A model that speaks from a script, and notes a read of a slot that does not hold what the text needs.

    What a slot holds is all of the text up to its token, and None if the slot was in use when it was written.
    """

    end = 0

    def __init__(self) -> None:
        self.slots = dict[Any, Any]()

    def begin(self, text: list[int], prompt: int, free: set[Any]) -> None:
        """From here on the text begins with a prompt, of so many tokens, and these slots are free."""
        self.free = free
        self.text, self.script, self.calls, self.fault = text, iter(text[prompt:]), list[str](), ALL_RIGHT

    def __call__(self, tokens: Any, row: Any) -> int:
        """The next token of the text."""
        start = len(row) - len(tokens)
        if not 0 < len(tokens) <= len(row):
            raise ValueError(
                f"the model got {len(tokens)} tokens and {len(row)} slots: a row has a slot for each token"
            )
        self.calls.append(bracketed(tokens))
        said = [*self.text[:start], *tokens]
        self.slots.update(
            (slot, said[: at + 1] if slot in self.free else None) for at, slot in enumerate(row) if at >= start
        )
        wrong = [slot for at, slot in enumerate(row) if self.slots.get(slot) != self.text[: at + 1]]
        if wrong and self.fault == ALL_RIGHT:
            self.fault = f"slot {wrong[0]} was not free, or does not hold the keys and values of this text"
        return _Number(next(self.script, self.end))


def answering(
    name: str, make: Callable[[World, Any], Any], look: Callable[[Any, Any, list[int], set[int]], Mapping[str, Any]]
) -> Play:
    """A play in which `name` answers prompts, one after the other; a case has pairs of a prompt and its answer.

    `make` makes the cache that goes with a model, and `look` says what can be seen of it, and of the pool, after each
    answer. One answer alone has exactly the slots that it needs.
    """

    def play(world: World, case: Any) -> Frames:
        model, done, sizes = _Reader(), list[str](), [len(prompt + answer) for prompt, answer in case]
        cache, pool = make(world, model), used_pool(world, max(sizes + [30] * (len(sizes) > 1)))
        free = set(pool.stack)
        for prompt, answer in case:
            given, text = numbers(prompt), numbers(prompt + answer)
            model.begin([*text, model.end], len(prompt), set(pool.stack))
            said, after = as_list(world[name](model, pool, cache, given)), given[:]
            given.append(model.end)  # the caller uses its list again
            done.append(f"{bracketed(prompt)}, answered by {bracketed([*numbers(answer), model.end])}")
            seen = {
                "what the model computes": ", then ".join(model.calls) or "nothing",
                "what it reads and writes": model.fault, "what is returned": said, **look(cache, pool, text, free),
                "the prompt, which must not change": after,
            }  # fmt: skip
            yield CaseFrame(f"{name} to {'; then to '.join(done)}", seen, cache)

    return play


def _seen_of_tree(root: Any, pool: Any, _: Any, free: set[int]) -> dict[str, str]:
    """Describe a tree after an answer, and whether its slots and the free ones are all there."""
    paths = outline(root, lambda node: bracketed(node.tokens))
    return {"the paths in the tree": paths, "the links": links(root), "the slots": owners(root, pool, free)}


def owners(root: Any, pool: Any, slots: set[int]) -> str:
    """Return whether each of `slots` is either free or in the tree, once; if not, the first that is not."""
    times = Counter([*pool.stack, *(slot for node in preorder(root) for slot in node.slots)])
    for slot in sorted(slots | set(times), key=repr):
        if times[slot] != 1 or slot not in slots:
            return f"slot {slot} is {'lost: neither free nor in the tree' if not times[slot] else 'there twice'}"
    return ALL_RIGHT


def _pages(found: Any) -> Any:
    """Pages, each of which must be a tuple."""
    return listed(found, lambda page: page if isinstance(page, tuple) else f"not a tuple: {page}")


MORE = (
    Piece(
        "3.7", "common", play_common,
        cases=[("12", "12"), ("123", "129"), ("12", "9"), ("", "1"), ("12", "123"), ("1923", "1123"),
               ([700, 800], [700, 900]), ("0", "0"),
               ([(1, 2), (3, 4)], [(1, 2), (3, 5)]), ("1" * DEEP, "1" * DEEP)],
        strategy=st.tuples(PROMPT, PROMPT),
    ),
    Piece(
        "3.8", "trie_add", play_trie_add,
        cases=[["1"], ["123"], ["123", "124"], ["12", "13"], ["123", "12"], ["12", "123"], ["11", "21"], [""],
               ["1" * DEEP]],
        strategy=PROMPTS,
    ),
    Piece(
        "3.9", "reply", answering("reply", lambda world, _: world["Node"]([], []), _seen_of_tree),
        cases=[[("12", "34")], [("12", "")], [("12", "3"), ("12", "3")], [("123", "4"), ("129", "4")],
               [("12", "34"), ("123", "5")], [("12", "34"), ("1234", "5")], [("12345", "6"), ("123", "45")],
               [("1", "2"), ("1", "3"), ("12", "4")]],
        strategy=ANSWERED,
    ),
    Piece(
        "3.10", "pages_of", one_call("pages_of", _pages),
        cases=[([1, 2, 3, 4], 2), ([1, 2, 3], 2), ([1], 2), ([], 3), ([7, 7, 7], 1), (list(range(20, 29)), 4)],
        strategy=st.tuples(st.lists(st.integers(0, 300), max_size=9), st.integers(1, 4)),
    ),
)  # fmt: skip

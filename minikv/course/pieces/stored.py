"""The texts that are stored: hints in `hints_NN.txt`, wrong answers in `wrong_NN.txt`, and what errors are about."""

from __future__ import annotations

import ast
from functools import lru_cache
from itertools import takewhile
from pathlib import Path
from typing import NamedTuple

from minikv.engine import Section, sections

# What an error of Python's is often about, by a pattern in it.
ABOUT_ERRORS = {
    "NoneType": "something is None here, such as the root's parent, a missing entry, or the result of `append` or "
    "`sort`: check for that first",
    "object is not iterable|has no len|list .not .int|'int' object is not subs": "a list is expected here, not a "
    "single value; `[x]` is a list with one item",
    "unhashable type: 'list'|[(]list[)]: a page": "a single value is expected here, not a list; `extend` adds the "
    "items of a list",
    "'tuple' object has no attribute": "a function that returns two values returns them as a tuple: unpack it, as "
    "in `node, length = walk(root, tokens)`",
    "'(int|str|bytes)' object has no attribute": "a loop over a dictionary gives keys; `.values()` gives the values",
    "'dict' object has no attribute '(append|insert|remove)": "that is a dictionary, not a list: `held[key] = value` "
    "adds an entry, and `del held[key]` removes one",
    "'dict' object has no attribute": "that is a plain dictionary, which has no such attribute: did you mean a node?",
    "'float' object cannot|must be integers": "`/` gives a float, even for whole numbers: `//` gives a whole number",
    "is not in list": "`index` and `remove` need an item that is in the list: check with `in` first",
    "ndarray' object has no attribute": "an array lacks some methods that lists have: `list(...)` turns it into a list",
    "truth value of an array": "an array as a whole is neither true nor false: test its `len`, or one item",
    "^UnboundLocalError": "in this case the name has no value yet: give it one before the loop or the `if`, and don't "
    "assign to the name of a function that you call",
    "^RecursionError": "your function calls itself again and again, directly or through a method that calls it",
    "(max|min)[(][)].* empty": "there is nothing to choose from: check first whether there are any items",
    "^KeyError": "that key is not in the dictionary: check with `in` before you look it up, or use `get`",
    "^IndexError.*(pop from|[(]index out of)": "nothing is left to remove: check for that first",
    "math domain error": "only positive numbers have a logarithm: look at its argument in this case",
    "^IndexError": "the index is past the end of the list: check where it starts, and where the list ends",
    "(changed size|mutated) during iteration": "the loop changes what it reads: loop over a copy, `list(...)`",
    "object is not callable": "that is a value, not a function: leave out the parentheses after its name",
    "positional argument|unexpected keyword": "look up in the chapter which arguments that call takes, in which order",
    "[(](None|Request[(].*) does not run here": "pass `request.sequence` to the manager before you set it to None",
    "has no attribute": "this object has no such attribute: look up its exact name and its object in the chapter",
}


class WrongAnswer(NamedTuple):
    """A wrong answer that people give, with the hint that is about this mistake."""

    section: Section
    hint: str

    @property
    def mistake(self) -> str:
        """The mistake in it, in a few words."""
        return self.section.remark.strip(" :")


@lru_cache
def wrong_answers(chapter: int) -> tuple[WrongAnswer, ...]:
    """The wrong answers of a chapter: in each section, comments that are the hint come first.

    >>> wrong_answers(3)[0].mistake
    'the old node becomes the upper half'
    """
    return tuple(WrongAnswer(section, _hint_in(section.text)) for section in _stored("wrong", chapter))


def _stored(what: str, chapter: int) -> list[Section]:
    return sections(Path(__file__).with_name(f"{what}_{chapter:02d}.txt").read_text("utf-8"))


@lru_cache
def hints_for(id: str) -> tuple[str, ...]:
    """The hints for a piece, an exercise or a hunt, by its id: the paragraphs of its section in `hints_NN.txt`.

    >>> hints_for("2.3")[1]
    'Page 0 is a page too, so compare the result of `guard` with None.'
    """
    texts = [section.text for section in _stored("hints", int(id.split(".")[0])) if section.id == id]
    return tuple(" ".join(paragraph.split()) for text in texts for paragraph in text.split("\n\n"))


def wrong_answers_to(id: str) -> list[WrongAnswer]:
    """The wrong answers to a piece or an exercise, by its id.

    >>> len(wrong_answers_to("3.10"))
    2
    """
    return [answer for answer in wrong_answers(int(id.split(".")[0])) if answer.section.id == id]


def _hint_in(text: str) -> str:
    return " ".join(line[2:] for line in takewhile(lambda line: line.startswith("# "), text.splitlines()))


_SHORT = 6  # lines: two people often write a function that has no more in the same way


def is_as_printed(own: str, name: str, printed: str) -> bool:
    """Return whether a function of more than six lines, called `name` in both texts, equals the printed one.

    Names of locals, comments, docstrings and layout do not count.

    >>> printed = "def add(a, b):\\n" + "    a += b\\n" * 6 + "    return a"
    >>> is_as_printed(printed.replace("b", "more"), "add", printed), is_as_printed("def add(): ...", "add", printed)
    (True, False)
    """
    mine, theirs = (_without_names(text, name) for text in (own, printed))
    return mine == theirs and len(mine.splitlines()) > _SHORT


def _without_names(text: str, name: str) -> str:
    """The code of a function, with its locals numbered."""
    functions = {each.name: each for each in ast.parse(text).body if isinstance(each, ast.FunctionDef)}
    if (found := functions.get(name)) is None:
        return ""
    numbers: dict[str, str] = {}
    for node in ast.walk(found):
        if isinstance(node, ast.arg) or (isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)):
            numbers.setdefault(node.arg if isinstance(node, ast.arg) else node.id, f"local_{len(numbers)}")
    for node in ast.walk(found):
        if isinstance(node, ast.arg):
            node.arg = numbers[node.arg]
        elif isinstance(node, ast.Name):
            node.id = numbers.get(node.id, node.id)
        elif isinstance(node, ast.FunctionDef):
            node.body = [each for each in node.body if not _is_text(each)] or [ast.Pass()]
    return ast.unparse(found)


def _is_text(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)

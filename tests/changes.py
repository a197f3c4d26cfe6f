"""Small mechanical changes to the printed solutions: does the judge refuse each of them, or is it no mistake?

The changes are those of `mutate`, and those that are slips of people who type: lines swapped, one name for another, a
list sorted on the way, an object copied. `python tests/changes.py` tries all of them and prints those that pass and are
not in `harmless.txt`, which has a reason for each of its own; `python tests/changes.py 3.3 3.4` tries those of pieces.
"""

from __future__ import annotations
import __future__

import ast
import copy
import inspect
import itertools
import sys
import textwrap
from functools import cache
from pathlib import Path
from typing import NamedTuple

from mutate import changed, replacements

from minikv.course.pieces import trial
from minikv.course.pieces.cost import work_of
from minikv.course.pieces.piece import CHAPTERS, Piece, all_pieces, cases_for, exercises_of
from minikv.course.pieces.trial import difference, play_case
from minikv.course.pieces.worlds import reference_world
from minikv.testing import attempt as attempts

HARMLESS = Path(__file__).with_name("harmless.txt")
KINDS = {
    ast.Compare: "comparison", ast.BoolOp: "condition", ast.UnaryOp: "condition", ast.Constant: "constant",
    ast.If: "condition", ast.IfExp: "condition", ast.While: "condition", ast.BinOp: "arithmetic",
    ast.AugAssign: "arithmetic", ast.Subscript: "slice", ast.Call: "argument",
}  # fmt: skip
# Functions that do not ask for an order, and those whose result is in order already: to sort there changes nothing.
ORDERLESS = {"len", "sum", "min", "max", "any", "all", "set", "sorted", "dict", "Counter"}
IN_ORDER = {"range", "enumerate", "sorted"}
SYMMETRIC = {"min", "max"}
LOAD = ast.Load()


class Change(NamedTuple):
    """One change to a solution: the id of the piece, its kind, what it does in words, and the changed text."""

    id: str
    kind: str
    words: str
    text: str

    @property
    def line(self):
        """How it is written in `harmless.txt`."""
        return f"{self.id} {self.kind}: {self.words}"


def tasks():
    """The pieces and the exercises, whose solutions are printed."""
    exercises = [each for chapter in CHAPTERS for each in exercises_of(chapter) if isinstance(each, Piece)]
    return [*all_pieces(), *exercises]


@cache
def _text_of(id):
    task = next(each for each in tasks() if each.id == id)
    if task.reference is None:
        return task.solution
    return textwrap.dedent(inspect.getsource(task.reference))


def changes(task, every=1, first=0):
    """The small changes to a solution, each once, or one of each `every` from the `first` on."""
    tree = ast.parse(_text_of(task.id))
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list) and len(body) > 1 and ast.unparse(body[0])[0] in "\"'":
            del body[0]  # a docstring
        for field in ("annotation", "returns"):
            if getattr(node, field, None) is not None and not isinstance(node, ast.AnnAssign):
                setattr(node, field, None)
    plain = ast.unparse(tree)
    seen, found = {plain}, list[Change]()
    for kind, at, new in [*_replaced(tree)][first::every]:
        text = ast.unparse(_with(tree, at, new))
        if text not in seen:
            found.append(Change(task.id, kind, _difference(plain, text), text))
        seen.add(text)
    return found


def _difference(old, new):
    """The lines that differ, as few as can be."""
    a, b = old.split("\n"), new.split("\n")
    while a and b and a[0] == b[0]:
        del a[0], b[0]
    while a and b and a[-1] == b[-1]:
        del a[-1], b[-1]
    before, after = (" / ".join(line.strip() for line in lines) for lines in (a, b))
    return f"{before or 'nothing'} -> {after or 'gone'}"


Place = tuple[tuple[str, int | None], ...]


def _places(node, at=(), above=()):
    """Every node below, with its place and the nodes that it is in."""
    for field, value in ast.iter_fields(node):
        for index, child in enumerate(value) if isinstance(value, list) else [(None, value)]:
            if isinstance(child, ast.AST):
                there = (*at, (field, index))
                yield there, (child, (*above, node))
                yield from _places(child, there, (*above, node))


def _part(node, field, index):
    return getattr(node, field) if index is None else getattr(node, field)[index]


def _with(tree, at, new):
    """A copy of the tree with `new` at a place; two statements are swapped if it is the number of the second."""
    tree = copy.deepcopy(tree)
    parent = tree
    for step in at[:-1]:
        parent = _part(parent, *step)
    field, index = at[-1]
    if index is None:
        setattr(parent, field, new)
    elif isinstance(new, int):
        body = getattr(parent, field)
        body[index], body[new] = body[new], body[index]
    else:
        getattr(parent, field)[index] = new
    return ast.fix_missing_locations(tree)


def _replaced(tree):
    """The kind of each change, its place, and what is there then."""
    stored = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    names = sorted(stored | {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)})
    attributes = sorted({node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)})
    for at, (node, above) in _places(tree):
        if any(isinstance(part, (ast.JoinedStr, ast.arguments)) for part in (node, *above)):
            continue  # what stands in a text, and what a function is given
        if len(above) > 1 and isinstance(above[-1], ast.Call) and isinstance(above[-2], ast.Raise):
            continue  # an error may say what it likes
        for new in replacements(node):
            kind = "line dropped" if isinstance(new, ast.Pass) else KINDS.get(type(node), "line")
            yield kind, at, new
        yield from _of_statement(above[-1], at, node)
        yield from _of_expression(above[-1], at, node, names, attributes)


def _of_statement(above, at, node):
    if not isinstance(node, ast.stmt) or isinstance(node, (ast.FunctionDef, ast.ClassDef, ast.Import, ast.ImportFrom)):
        return
    if not isinstance(node, ast.Pass):
        yield "line dropped", at, ast.Pass()
    field, index = at[-1]
    body = getattr(above, field)
    if index is not None and index + 1 < len(body) and not isinstance(body[index], ast.Return):
        yield "lines swapped", at, index + 1


def _of_expression(above, at, node, names, attributes):
    match node:
        case ast.Name(ctx=ast.Load()) if node.id in names:
            yield from (("another name", at, ast.Name(name, ast.Load())) for name in names if name != node.id)
        case ast.Attribute():
            yield from (("another attribute", at, changed(node, attr=attr)) for attr in attributes if attr != node.attr)
        case ast.Constant(value=int()) if not isinstance(node.value, bool):
            yield "constant", at, ast.Constant(node.value - 1)
        case ast.Subscript(slice=ast.Slice(), ctx=ast.Load()):
            for bound in ("lower", "upper", "step"):
                if getattr(node.slice, bound) is not None:
                    yield "slice", at, changed(node, slice=changed(node.slice, **{bound: None}))
        case ast.Call() if not isinstance(above, ast.Raise):
            yield from _of_call(at, node)
    is_value = isinstance(above, (ast.Return, ast.Assign, ast.Call, ast.Tuple, ast.For, ast.comprehension, ast.Starred))
    if is_value and at[-1][0] in ("value", "args", "elts", "iter") and isinstance(getattr(node, "ctx", LOAD), ast.Load):
        if _name_of(above) not in ORDERLESS and _name_of(node) not in IN_ORDER and _may_be_list(node):
            yield "sorted", at, ast.Call(ast.Name("sorted", ast.Load()), [node], [])
        if isinstance(node, (ast.Name, ast.Attribute, ast.Call, ast.Subscript)) and not _name_of(node)[:1].isupper():
            yield "copied", at, ast.Call(ast.Name("_copied", ast.Load()), [node], [])


def _name_of(node):
    """The name of the function that is called, if one is, by its name."""
    return node.func.id if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) else ""


def _may_be_list(node):
    kinds = (ast.Name, ast.Attribute, ast.Call, ast.Subscript, ast.ListComp)
    return isinstance(node, kinds) or (isinstance(node, ast.List) and len(node.elts) > 1)


def _of_call(at, call):
    for n in range(len(call.args)):
        yield "argument", at, changed(call, args=call.args[:n] + call.args[n + 1 :])
        if n + 1 < len(call.args) and _name_of(call) not in SYMMETRIC:
            swapped = [*call.args[:n], call.args[n + 1], call.args[n], *call.args[n + 2 :]]
            yield "argument", at, changed(call, args=swapped)
    if isinstance(call.func, ast.Attribute) and call.func.attr == "tolist":
        yield "copy", at, call.func.value
    if _name_of(call) in ("reversed", "sorted", "list", "tuple", "set") and call.args:
        yield "copy", at, call.args[0]


_made = [0]  # how many objects `_copied` has copied


def _copied(value):
    """A copy of an object; of a list or a number there is no need, since nobody can tell."""
    if not hasattr(value, "__dict__") or callable(value) or type(value).__module__ in ("numpy", "torch"):
        return value
    _made[0] += 1
    return copy.copy(value)


_played = {}


def _expected(task):
    """The cases, and how each is played with our answer: the hand-picked ones first."""
    played, world = _played.setdefault(task.id, []), reference_world(task)
    yield from played
    hand = cases_for(task)
    for number in itertools.count(len(played)):
        made = [] if number < len(hand) else trial.made_cases(task.strategy, trial.MADE)
        if number >= len(hand) + len(made):
            return
        case = hand[number] if number < len(hand) else made[number - len(hand)]
        played.append((case, play_case(task, world, copy.deepcopy(case), _bare)))
        yield played[-1]


def _bare(frame):
    return frame._replace(picture=None)


def world_of(task, text):
    world = {**reference_world(task)} if task.reference else reference_world(task)
    world["_copied"] = _copied
    code = compile(text, "<changed>", "exec", flags=__future__.annotations.compiler_flag)
    exec(code, world)
    if task.reference is not None:
        world[task.name] = world[task.reference.__name__]
    return world


def passes(task, change):
    """Whether the judge lets a change pass."""
    try:
        world = world_of(task, change.text)
    except Exception:
        return False
    _made[0] = 0
    for case, expected in _expected(task):
        if difference(task, world, case, play_case(task, world, copy.deepcopy(case), _bare), expected) is not None:
            return False
    if task.cost is not None and change.kind != "copied":  # `copy` itself takes steps
        counted = attempts.attempt(lambda: work_of(task, world), ())
        if counted.error is not None:
            return False
        enough = work_of(task, reference_world(task))
        if any(mine > task.cost.most * right for mine, right in zip(counted.value, enough)):
            return False
    return change.kind != "copied" or _made[0] > 0  # where nothing was copied, nothing has changed


def harmless():
    """The changes that behave correctly, each with the reason: a line that begins with # is that of those below it."""
    found, reason = dict[str, str](), ""
    for line in HARMLESS.read_text("utf-8").splitlines() if HARMLESS.exists() else ():
        if line.startswith("# "):
            reason = line[2:]
        elif line:
            found[line] = reason
    return found


def main(ids):
    """Try all changes of some pieces, or of all; print those that pass without a reason, and how many there were."""
    attempts.MOST_SECONDS = 0.5
    known, chosen = harmless(), [task for task in tasks() if not ids or task.id in ids]
    for task in tasks():
        _text_of(task.id)  # before somebody edits the file
    for task in chosen:
        tried = changes(task)
        passed = [change for change in tried if passes(task, change)]
        for change in passed:
            if change.line not in known:
                print(change.line, flush=True)
        print(f"# {task.id} {task.name}: {len(tried)} tried, {len(passed)} pass", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])

"""Small mechanical changes to the printed solutions: does the judge refuse each of them, or is it no mistake?

The changes are those of `mutate`, and those that are slips of people who type: lines swapped, one name for another, a
list sorted on the way, an object copied. `python tests/changes.py` tries all of them and prints those that pass and are
not in `harmless.txt`, which has a reason for each of its own; `python tests/changes.py 3.3 3.4` tries those of pieces.
"""

import __future__

import ast
import copy
import inspect
import sys
import textwrap
from functools import cache
from pathlib import Path

from mutate import changed, replacements

from minikv.course.pieces.cost import work_of
from minikv.course.pieces.piece import CHAPTERS, Piece, all_pieces, cases_for, exercises_of
from minikv.course.pieces.trial import MADE, difference, made_cases, play_case, played_by_us
from minikv.course.pieces.worlds import reference_world
from minikv.testing import attempt as attempts

HARMLESS = Path(__file__).with_name("harmless.txt")
# Functions that do not ask for an order, and those whose result is in order already: to sort there changes nothing.
ORDERLESS = {"len", "sum", "min", "max", "any", "all", "set", "sorted", "dict", "Counter"}
IN_ORDER = {"range", "enumerate", "sorted"}
SYMMETRIC = {"min", "max"}
LOAD = ast.Load()
DEFINED = ast.FunctionDef, ast.ClassDef, ast.Import, ast.ImportFrom
THINGS = ast.Name, ast.Attribute, ast.Call, ast.Subscript


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
    """The small changes to a solution, each once, or one of each `every` from the `first` on.

    Of each, how it is written in `harmless.txt`, and the changed text.
    """
    tree = ast.parse(_text_of(task.id))
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list) and len(body) > 1 and ast.unparse(body[0])[0] in "\"'":
            del body[0]  # a docstring
        for field in ("annotation", "returns"):
            if getattr(node, field, None) is not None and not isinstance(node, ast.AnnAssign):
                setattr(node, field, None)
    plain = ast.unparse(tree)
    found = {plain: ""}
    for home, key, new in [*_replaced(tree)][first::every]:
        home[key], old = new, home[key]
        text = ast.unparse(tree)
        home[key] = old
        words = _difference(plain, text)
        if isinstance(key, slice):  # lines that change places
            words = words.partition(" -> ")[0]
        found.setdefault(text, f"{task.id}: {words}")
    del found[plain]
    return [(line, text) for text, line in found.items()]


def _difference(old, new):
    """The lines that differ, as few as can be."""
    a, b = old.split("\n"), new.split("\n")
    for end in (0, -1):
        while a and b and a[end] == b[end]:
            del a[end], b[end]
    before, after = (" / ".join(line.strip() for line in lines) for lines in (a, b))
    return f"{before or 'nothing'} -> {after or 'gone'}"


def _places(node, above=()):
    """Every node below, the nodes that it is in, its field there, and what holds it under which key."""
    for field, value in ast.iter_fields(node):
        home, held = (value, enumerate(value)) if isinstance(value, list) else (vars(node), [(field, value)])
        for key, child in held:
            if isinstance(child, ast.AST):
                yield child, (*above, node), field, home, key
                yield from _places(child, (*above, node))


def _replaced(tree):
    """Of each change what holds the place, its key there, and what is new; some change nothing."""
    stored = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    names = sorted(stored | {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)})
    attributes = sorted({node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)})
    for node, above, field, home, key in _places(tree):
        if any(isinstance(part, (ast.JoinedStr, ast.arguments)) for part in (node, *above)):
            continue  # what stands in a text, and what a function is given
        if len(above) > 1 and isinstance(above[-1], ast.Call) and isinstance(above[-2], ast.Raise):
            continue  # an error may say what it likes
        for new in replacements(node):
            yield home, key, new
        for new in _of_expression(above[-1], field, node, names, attributes):
            yield home, key, new
        if isinstance(node, ast.stmt) and not isinstance(node, DEFINED):
            yield home, key, ast.Pass()
            if not isinstance(node, ast.Return):
                yield home, slice(key, key + 2), home[key : key + 2][::-1]


def _of_expression(above, field, node, names, attributes):
    match node:
        case ast.Name(ctx=ast.Load()) if node.id in names:
            yield from (ast.Name(name, ast.Load()) for name in names)
        case ast.Attribute():
            yield from (changed(node, attr=attr) for attr in attributes)
        case ast.Constant(value=int()) if not isinstance(node.value, bool):
            yield ast.Constant(node.value - 1)
        case ast.Subscript(slice=ast.Slice(), ctx=ast.Load()):
            for bound in ("lower", "upper", "step"):
                yield changed(node, slice=changed(node.slice, **{bound: None}))
        case ast.Call() if not isinstance(above, ast.Raise):
            yield from _of_call(node)
    is_value = isinstance(above, (ast.Return, ast.Assign, ast.Call, ast.Tuple, ast.For, ast.comprehension, ast.Starred))
    if is_value and field in ("value", "args", "elts", "iter") and isinstance(getattr(node, "ctx", LOAD), ast.Load):
        is_list = isinstance(node, (*THINGS, ast.ListComp)) or (isinstance(node, ast.List) and len(node.elts) > 1)
        if is_list and _name_of(above) not in ORDERLESS and _name_of(node) not in IN_ORDER:
            yield ast.Call(ast.Name("sorted", ast.Load()), [node], [])
        if isinstance(node, THINGS) and not _name_of(node)[:1].isupper():
            yield ast.Call(ast.Name("_copied", ast.Load()), [node], [])


def _name_of(node):
    """The name of the function that is called, if one is, by its name."""
    return node.func.id if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) else ""


def _of_call(call):
    args = call.args
    for n in range(len(args)):
        yield changed(call, args=args[:n] + args[n + 1 :])
        if _name_of(call) not in SYMMETRIC:
            yield changed(call, args=[*args[:n], *args[n : n + 2][::-1], *args[n + 2 :]])
    match call:
        case ast.Call(func=ast.Attribute(value=original, attr="tolist")):
            yield original
        case ast.Call(func=ast.Name(id="reversed" | "sorted" | "list" | "tuple" | "set"), args=[original, *_]):
            yield original


_made = [0]  # how many objects `_copied` has copied


def _copied(value):
    """A copy of an object; of a list or a number there is no need, since nobody can tell."""
    if not hasattr(value, "__dict__") or callable(value) or type(value).__module__ in ("numpy", "torch"):
        return value
    _made[0] += 1
    return copy.copy(value)


def _cases(task):
    """The hand-picked cases, and then those that are made."""
    yield from cases_for(task)
    yield from made_cases(task.strategy, MADE)


def world_of(task, text):
    world = {**reference_world(task)} if task.reference else reference_world(task)
    world["_copied"] = _copied
    code = compile(text, "<changed>", "exec", flags=__future__.annotations.compiler_flag)
    exec(code, world)
    if task.reference is not None:
        world[task.name] = world[task.reference.__name__]
    return world


def passes(task, text):
    """Whether the judge lets a changed text pass."""
    is_copied = "_copied(" in text
    try:
        world = world_of(task, text)
    except Exception:
        return False
    _made[0] = 0
    for case in _cases(task):
        mine, ours = play_case(task, world, copy.deepcopy(case)), played_by_us(task, copy.deepcopy(case))
        if difference(task, world, case, mine, ours) is not None:
            return False
    if task.cost is not None and not is_copied:  # `copy` itself takes steps
        counted = attempts.attempt(lambda: work_of(task, world), ())
        if counted.error is not None:
            return False
        enough = work_of(task, reference_world(task))
        if any(mine > task.cost.most * right for mine, right in zip(counted.value, enough)):
            return False
    return not is_copied or _made[0] > 0  # where nothing was copied, nothing has changed


def harmless():
    """The changes that behave correctly, each with the reason: a line that begins with # is that of those below it."""
    found, reason = dict[str, str](), ""
    for line in HARMLESS.read_text("utf-8").splitlines():
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
        passed = [line for line, text in tried if passes(task, text)]
        for line in passed:
            if line not in known:
                print(line, flush=True)
        print(f"# {task.id} {task.name}: {len(tried)} tried, {len(passed)} pass", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])

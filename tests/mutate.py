"""Small changes to source code, one at a time: each should make a test fail.

Nothing is changed on disk. A `Mutant` remembers a place in a syntax tree and what stands there instead; `plant` puts it
there, and the tree is compiled as if it had been the file. Docstrings, texts, annotations and decorators stay.
"""

import ast
import copy
from dataclasses import dataclass
from itertools import takewhile

OTHER = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.FloorDiv, ast.FloorDiv: ast.Mult, ast.Div: ast.Mult,
    ast.Mod: ast.FloorDiv, ast.LShift: ast.RShift, ast.RShift: ast.LShift, ast.BitAnd: ast.BitOr, ast.Pow: ast.Mult,
}  # fmt: skip
COPIES = {"bytes", "copy", "deepcopy", "dict", "list", "set", "tuple"}  # what they return is, at first, what they took
LEFT_ALONE = {"annotation", "returns", "decorator_list", "type_ignores"}


@dataclass(frozen=True)
class Mutant:
    """One change: in `parent`, the node in `field` (the `index`-th, where it is a list) becomes `new`."""

    parent: ast.AST
    field: str
    index: int | None
    old: ast.AST
    new: ast.AST

    @property
    def line(self):
        return self.old.lineno

    def plant(self):
        """Put the change into the tree that it was found in."""
        new = ast.fix_missing_locations(ast.copy_location(self.new, self.old))
        if self.index is None:
            setattr(self.parent, self.field, new)
        else:
            getattr(self.parent, self.field)[self.index] = new

    def __str__(self):
        old, new = (ast.unparse(node).split("\n")[0] for node in (self.old, self.new))
        same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(old, new)))
        begin = max(0, same - 40)
        return f"`{window(old, begin)}` -> `{window(new, begin)}`"


def window(text, begin):
    """At most 70 characters of a line, from `begin` on where it is longer."""
    if len(text) <= 70:
        return text
    cut = text[begin : begin + 70]
    return f"{'...' * (begin > 0)}{cut}{'...' * (begin + 70 < len(text))}"


def mutants_of(tree):
    """Every small change to this code, in the order of the text."""
    for field, value in ast.iter_fields(tree):
        if field in LEFT_ALONE or isinstance(tree, ast.JoinedStr):
            continue
        for index, node in enumerate(value if isinstance(value, list) else [value]):
            if not isinstance(node, ast.AST) or is_for_type_checkers(node):
                continue
            for new in replacements(node):
                yield Mutant(tree, field, index if isinstance(value, list) else None, node, new)
            yield from mutants_of(node)


def is_for_type_checkers(node):
    return isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"


def replacements(node):
    """What may stand in place of `node` itself; its parts are nodes of their own."""
    match node:
        case ast.Compare():
            for n, op in enumerate(node.ops):
                yield changed(node, ops=[*node.ops[:n], OTHER[type(op)](), *node.ops[n + 1 :]])
        case ast.BinOp() | ast.AugAssign() if type(node.op) in OTHER:
            yield changed(node, op=OTHER[type(node.op)]())
        case ast.BoolOp():  # one condition is not asked
            for n in range(len(node.values)):
                rest = node.values[:n] + node.values[n + 1 :]
                yield changed(node, values=rest) if len(rest) > 1 else copy.deepcopy(rest[0])
        case ast.UnaryOp(op=ast.Not() | ast.USub()):
            yield copy.deepcopy(node.operand)
        case ast.Constant(value=bool()):
            yield ast.Constant(not node.value)
        case ast.Constant(value=int() | float()):
            yield ast.Constant(node.value + 1)
        case ast.If() | ast.IfExp():
            yield changed(node, test=ast.Constant(False))
            yield changed(node, test=ast.Constant(True))
        case ast.While():
            yield changed(node, test=ast.Constant(False))
        case ast.Subscript(slice=ast.Slice(), ctx=ast.Load()):  # the whole, which is no copy either
            yield copy.deepcopy(node.value)
        case ast.Call():
            yield from shorter_calls(node)
        case ast.Break():
            yield ast.Continue()
        case ast.Continue():
            yield ast.Break()
    if is_an_act(node):
        yield ast.Pass()


def shorter_calls(call):
    """What was to be copied itself, and the call without each of the arguments that it names."""
    match call:
        case ast.Call(func=ast.Attribute(value=original, attr="copy"), args=[], keywords=[]):
            yield copy.deepcopy(original)
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name), args=[original], keywords=[]) if (
            name in COPIES
        ):
            yield copy.deepcopy(original)
    for n, keyword in enumerate(call.keywords):
        if keyword.arg is not None:
            yield changed(call, keywords=call.keywords[:n] + call.keywords[n + 1 :])


def is_an_act(node):
    """A statement that can be left out without leaving a name undefined."""
    match node:
        case ast.Expr(value=ast.Call()) | ast.Delete() | ast.AugAssign():
            return True
        case ast.Assign(targets=[ast.Attribute() | ast.Subscript()]):
            return True
    return False


def changed(node, **fields):
    """A copy of `node` with other `fields`."""
    new = copy.deepcopy(node)
    for name, value in fields.items():
        setattr(new, name, value)
    return new

"""The origin of an answer: the source of its cell, what of it the learner's file keeps, and what that replaces.

A whole cell is looked at, not `inspect.getsource`: that one fails for classes made in cells, and leaves out the
helpers, the constants and the imports that a function needs. What a new version of the file replaces is kept in a
folder beside it, if it would be lost otherwise. A version that only looks different is no loss, nor is the package's
code.
"""

from __future__ import annotations

import ast
import builtins
import contextlib
import inspect
import linecache
import math
import re
import symtable
import sys
from dataclasses import dataclass, field
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

from minikv.course.pieces.worlds import ipython
from minikv.engine import World, classes_for, engine_sections, given, sections
from minikv.files import replace

VERBS = {"check", "guess", "hint", "solution", "mine", "progress"}  # statements about a piece, not a part of it
MOST_OLDER = 5  # earlier versions of the learner's file that are kept
PLAIN = (int, float, str, bytes, bool, type(None))


class NotKeptError(Exception):
    """Why a piece cannot go into the learner's file, in words."""


def cell_of(answer: Any, name: str) -> str:
    """The source of the cell that made `answer`: from Python's line cache, else from what IPython remembers.

    >>> exec("def f(): ...", here := {}); cell_of(here["f"], "f")
    Traceback (most recent call last):
    minikv.course.pieces.origin.NotKeptError: the source of `f` was not found. Write it as a function with that name
    """
    thing = inspect.unwrap(answer) if callable(answer) else answer
    code = getattr(thing, "__code__", None)
    if isinstance(thing, type):
        code = next((f.__code__ for f in vars(thing).values() if isinstance(f, FunctionType)), None)
    own = "".join(linecache.getlines(code.co_filename)) if code else ""
    for text in [own] if own else _remembered():
        with contextlib.suppress(SyntaxError):
            if any(name in binds(statement) for statement in parts(text)):
                return text
    raise NotKeptError(f"the source of `{name}` was not found. Write it as a function with that name")


def _remembered() -> list[str]:
    """The cells that were run, the newest first; none outside IPython."""
    shell = ipython()
    return shell.user_ns.get("In", [])[::-1] if shell is not None else []


def parts(text: str) -> list[ast.stmt]:
    """The statements of a cell that define something: neither magics nor statements about a piece."""
    try:
        body = ast.parse(text).body
    except SyntaxError:
        lines = lines_of(text)
        body = ast.parse("\n".join("" if line.lstrip().startswith(("%", "!")) else line for line in lines)).body
    return [statement for statement in body if not _is_about_a_piece(statement)]


def lines_of(text: str) -> list[str]:
    r"""The lines as Python counts them: `splitlines` ends one at a form feed too.

    >>> lines_of("a\f\rb")
    ['a\x0c', 'b']
    """
    return re.split(r"\r\n|\r|\n", text)


def _is_about_a_piece(statement: ast.stmt) -> bool:
    if isinstance(statement, (ast.FunctionDef, ast.ClassDef)):
        return False
    calls = (node.func for node in ast.walk(statement) if isinstance(node, ast.Call))
    return any(isinstance(call, ast.Name) and call.id in VERBS for call in calls)


def binds(statement: ast.stmt) -> set[str]:
    """The names that a statement defines.

    >>> sorted(binds(ast.parse("for x in [1]: y = x").body[0]))
    ['x', 'y']
    """
    return {s.get_name() for s in _names_in(statement).get_symbols() if s.is_assigned() or s.is_imported()}


def _names_in(statement: ast.stmt) -> symtable.SymbolTable:
    return symtable.symtable(ast.unparse(statement), "<cell>", "exec")


def uses(statement: ast.stmt) -> set[str]:
    """The names that a statement takes from outside: not its arguments and not its own variables."""
    found, tables = set(), [_names_in(statement)]
    while tables:
        table = tables.pop()
        at_top = table.get_type() == "module"
        found |= {s.get_name() for s in table.get_symbols() if s.is_referenced() and (at_top or s.is_global())}
        tables.extend(table.get_children())
    return found


def text_of(source: str, statement: ast.stmt) -> str:
    """The lines of a statement, with the comments and the decorators right above it.

    >>> cell = "# mine\\ndef f(): ...\\n# below it"
    >>> text_of(cell, *parts(cell)), text_of(cell[7:], *parts(cell[7:]))
    ('# mine\\ndef f(): ...', 'def f(): ...')
    """
    lines = lines_of(source)
    first = min([statement.lineno, *(d.lineno for d in getattr(statement, "decorator_list", []))]) - 1
    while first and lines[first - 1].startswith("#") and not lines[first - 1].startswith("# %%"):
        first -= 1
    return "\n".join(lines[first : statement.end_lineno])


@dataclass
class Gathered:
    """The definitions of a piece that the file must keep: the text of each by name, helpers first.

    It has the names `provided` anyway: the pieces, and the classes that a chapter works with.

    >>> from collections import deque
    >>> gathered = Gathered({"Queue": deque}, {"Node"})
    >>> gathered.take("f", "def f(): return Queue([Node()])")
    >>> gathered.texts
    {'Queue': 'from collections import deque as Queue', 'f': 'def f(): return Queue([Node()])'}
    """

    world: World
    provided: set[str]
    texts: dict[str, str] = field(default_factory=dict)

    def take(self, name: str, source: str) -> None:
        """Keep the definition of `name` from a cell, and before it all that it uses."""
        statements = parts(source)
        found = [statement for statement in statements if name in binds(statement)]
        if not found:
            raise NotKeptError(f"`{name}` was not found in its cell")
        if not _goes_on(found[-1], name):
            found = found[-1:]
        text = "\n".join(text_of(source, statement) for statement in found)
        local, used = set[str]().union(*map(binds, statements)), set[str]().union(*map(uses, found))
        if text in self.texts.values():
            return
        self.texts[name] = ""  # so that a circle of helpers ends
        for other in sorted(used - {name} - self.provided):
            if other not in self.texts:
                if other in local:
                    self.take(other, source)
                elif other in self.world and self.world[other] is not getattr(builtins, other, None):
                    self._from_elsewhere(other, self.world[other])
        del self.texts[name]
        self.texts[name] = text

    def _from_elsewhere(self, name: str, value: Any) -> None:
        """Keep what another cell, or an import, has bound."""
        home = getattr(value, "__module__", None)
        if isinstance(value, ModuleType):
            self.texts[name] = f"import {value.__name__}" + ("" if value.__name__ == name else f" as {name}")
        elif home not in ("__main__", None) and getattr(value, "__qualname__", "").isidentifier():
            alias = "" if value.__qualname__ == name else f" as {name}"
            self.texts[name] = f"from {home} import {value.__qualname__}{alias}"
        elif callable(value) and isinstance(inspect.unwrap(value), (FunctionType, type)):
            self.take(name, cell_of(value, name))
        elif all(map(_is_plain, value if type(value) is tuple else [value])):
            self.texts[name] = f"{name} = {value!r}"
        else:
            kind = type(value).__name__
            raise NotKeptError(f"it uses `{name}`, a {kind} from another cell. Define `{name}` in this cell")


def _goes_on(statement: ast.stmt, name: str) -> bool:
    """Return whether a statement makes `name` from what it was before, as in `x += 1`."""
    if isinstance(statement, (ast.FunctionDef, ast.ClassDef)):
        return False
    return name in uses(statement) or any(isinstance(node, ast.AugAssign) for node in ast.walk(statement))


def _is_plain(value: Any) -> bool:
    """Return whether `repr` of a value is Python that makes it."""
    return type(value) in PLAIN and (type(value) is not float or math.isfinite(value))


def kept_texts(name: str, answer: Any, world: World, chapter: int) -> dict[str, str]:
    """Return the definitions that the file must keep of an answer, by name, in their order."""
    provided: World = {section.name: section for section in engine_sections() if section.id != "given"}
    given(provided, *classes_for(chapter))
    found, own = Gathered(world, set(provided)), getattr(answer, "__name__", name)
    if own != name and own.isidentifier() and world.get(own) is answer:
        found.take(own, cell_of(answer, own))
        found.texts[name] = f"{name} = {own}"
    else:
        found.take(name, cell_of(answer, name))
    return found.texts


def lines_below_raise(answer: Any) -> bool:
    """Return whether the learner wrote an answer below the line that raises.

    >>> lines_below_raise(len)
    False
    """
    with contextlib.suppress(TypeError, SyntaxError, OSError):
        body = getattr(ast.parse(inspect.getsource(answer)).body[0], "body", [])
        lines = [s for s in body if not (isinstance(s, ast.Expr) and isinstance(s.value, ast.Constant))]
        return len(lines) > 1 and isinstance(lines[0], ast.Raise)
    return False


def definitions(text: str) -> dict[str, str]:
    """The text of each name that a section defines; of one that is made in several steps, of all of them.

    >>> definitions("x = 1\\nx += 1\\ny = 2\\n")
    {'x': 'x = 1\\nx += 1', 'y': 'y = 2'}
    """
    found: dict[str, list[str]] = {}
    for statement in ast.parse(text).body:
        for name in sorted(binds(statement)):
            steps = found.setdefault(name, [])
            if (step := text_of(text, statement)) not in steps:
                steps.append(step)
    return {name: "\n".join(steps) for name, steps in found.items()}


def keep_older(path: Path, old: str, new: str, ours: str) -> Path | None:
    """Copy the file into its folder of older ones if the new one lacks a part of the learner's; return the copy's path.

    The five newest copies are kept. `ours` is the file of a learner who has written nothing.

    >>> keep_older(Path("my_minikv.py"), "# %% 3.3 split\\nx = 1", "# %% 3.3 split\\n\\nx = 1 ", "")
    """
    folder = path.with_name(f"{path.stem}_older")
    known = parts_of(new) | parts_of(ours) | {_lines_in(section.text) for section in engine_sections()}
    copies = dict[int, Path]()
    for file in sorted(folder.glob("*.py")):
        with contextlib.suppress(OSError, UnicodeDecodeError):
            known |= parts_of(file.read_text("utf-8-sig"))
        if found := re.fullmatch(rf"{re.escape(path.stem)}_(\d+)", file.stem):
            copies[int(found[1])] = file
    if parts_of(old) <= known:
        return None
    folder.mkdir(exist_ok=True)
    copy = folder / f"{path.stem}_{max(copies, default=0) + 1}{path.suffix}"
    replace(copy, old)
    for oldest in sorted(copies)[: max(0, len(copies) + 1 - MOST_OLDER)]:
        copies[oldest].unlink(missing_ok=True)
    return copy


def parts_of(text: str) -> set[str]:
    """The text before the first section and the text of each section, without blank lines and blanks at their ends.

    >>> sorted(parts_of("import sys\\n# %% 3.3 split\\n\\nx = 1  \\n"))
    ['import sys', 'x = 1']
    """
    found = sections(text)
    before = "\n".join(text.split("\n")[: found[0].line - 2] if found else [text])
    return {_lines_in(part) for part in (before, *(section.text for section in found))} - {""}


def _lines_in(text: str) -> str:
    return "\n".join(line.rstrip() for line in text.splitlines() if line.strip())


def namespace_of(answer: Any) -> World:
    """The globals that an answer was written in; those of the notebook where it has none, or comes from a module."""
    found, notebook = getattr(answer, "__globals__", None), vars(sys.modules["__main__"])
    if not isinstance(found, dict):
        return notebook
    home = sys.modules.get(str(found.get("__name__")))
    return notebook if home is not None and vars(home) is found else found

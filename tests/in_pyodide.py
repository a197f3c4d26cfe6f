"""A part of chapter 03 as a learner goes through it, for Pyodide and for this Python alike: nothing in it needs numpy.

PyPI has no numpy for Pyodide: where it is not in the folder, the package is imported with something empty in its place.
"""

import ast
import contextlib
import importlib.machinery
import importlib.util
import io
import json
import linecache
import os
import sys
import types
import warnings
from pathlib import Path

CHAPTER = Path(__file__).parent.parent / "notebooks" / "03_radix_splitting.ipynb"
SPLIT, TRIE, ROOT, FOUND = "def split(", "draw(trie)", "class Node:", "draw(root, matched=node)"
FILES = {"MINIKV_MINE": "my_minikv.py", "MINIKV_PROGRESS": "progress.json"}
CELLS = "begin(3", "class TrieNode", "def trie_add(", TRIE, ROOT, SPLIT, 'guess("3.a"', 'fold("3.a"', "def walk(", FOUND
STUB = "    raise NotImplementedError  # delete this line; about 6 lines to write\n"
WRONG = "    return None\n"
RIGHT = """\
    upper = Node(node.tokens[:at], node.slots[:at], node.parent)
    upper.children[node.tokens[at]] = node
    node.parent.children[node.tokens[0]] = upper
    node.tokens, node.slots, node.parent = node.tokens[at:], node.slots[at:], upper
    return upper
"""


class _Empty(type):
    """The type of what the stand-in for numpy has: names, and nothing behind them."""

    def __getitem__(cls, _):
        return cls

    def __or__(cls, _):
        return cls

    __ror__ = __or__


class _StandIn(types.ModuleType):
    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        vars(self)[name] = _Empty(name, (), {"__init__": lambda self, *_, **__: None})
        return vars(self)[name]


def stand_in():
    """Let `import numpy` find something that can do nothing."""
    for name in ("numpy", "numpy.typing", "numpy.random"):
        module = sys.modules[name] = _StandIn(name)
        module.__spec__ = importlib.machinery.ModuleSpec(name, None, is_package=name == "numpy")
        module.__path__ = []
        vars(sys.modules["numpy"])[name.rpartition(".")[2]] = module


def chapter_cell(has):
    """The first code cell of the chapter with this in its source."""
    cells = json.loads(CHAPTER.read_text("utf-8"))["cells"]
    return next(cell for cell in cells if cell["cell_type"] == "code" and has in "".join(cell["source"]))


def run_cell(source, names):
    """Run a cell as a notebook does; what it printed, what it warned of, and what it showed."""
    tree, name, printed, shown = ast.parse(source), f"<cell {len(linecache.cache)}>", io.StringIO(), None
    linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
    last = ast.Expression(tree.body.pop().value) if isinstance(tree.body[-1], ast.Expr) else None
    with contextlib.redirect_stdout(printed), warnings.catch_warnings(record=True) as warned:
        exec(compile(tree, name, "exec"), names)
        if last:
            shown = eval(compile(last, name, "eval"), names)
    found = {"printed": printed.getvalue(), "warned": [str(warning.message) for warning in warned]}
    if shown is not None:
        data = shown._repr_mimebundle_()
        data = data[0] if isinstance(data, tuple) else data
        found.update(text=data["text/plain"], html=data["text/html"], svg=getattr(shown, "svg", None))
    return found


def story():
    """What the learner sees of each cell; `split` is written wrong, and then right."""
    from minikv import draw

    names = {"__name__": "__main__", "draw": draw}  # the chapter imports it where it makes a film
    seen = {}
    for has in CELLS:
        source = "".join(chapter_cell(has)["source"])
        if has == SPLIT:
            assert STUB in source
            seen["wrong"] = run_cell(source.replace(STUB, WRONG), names)
            source = source.replace(STUB, RIGHT)
        seen[has] = run_cell(source.replace(", None)", ", [5, 6])"), names)
    return seen


def main():
    """Print what is seen in Pyodide, where the files of the learner are in a folder of its own."""
    if not importlib.util.find_spec("numpy"):
        stand_in()
    from minikv.course.pictures.tree import graphviz_way

    os.environ.update(FILES)
    seen = story()
    kept = {name: Path(file).read_text("utf-8") for name, file in FILES.items()}
    print(json.dumps({"seen": seen, "kept": kept, "graphviz": graphviz_way(), "python": sys.version.split()[0]}))

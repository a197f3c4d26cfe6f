"""The house and the tools beside it: their files, who may import whom, how large they are, and a drawing.

`python tests/house.py` writes the drawing into CONTRIBUTING and the budgets into the READMEs of the rooms; test_house
compares them.
"""

import ast
import io
import re
import tokenize
from collections import Counter
from pathlib import Path

from project import ROOT

import minikv

HOME = ROOT / "minikv"
GUIDE = ROOT / ".github" / "CONTRIBUTING.md"
FILES = sorted(HOME.rglob("*.py"))
NEXT_DOOR = ROOT / "tools" / "minikv_tools"  # which imports the house, and is not imported by it
EVERY = [*FILES, *sorted(NEXT_DOOR.rglob("*.py"))]
TREES = {path: ast.parse(path.read_text("utf-8")) for path in EVERY}
TESTS = sorted([*(ROOT / "tests").glob("*.py"), *(ROOT / "tools" / "tests").glob("*.py")])
INNER = [path for path in FILES if path != HOME / "__init__.py"]

# From the ground up; a part may import itself and the parts on lower floors.
FLOORS = [["errors", "interrupts", "progress_bar"], ["tokens", "untrusted"], ["files"], ["model_types"],
          ["sizing", "pools", "break_even"], ["layers", "prefix", "store"], ["manager", "copy_on_write"], ["serving"],
          ["engine"], ["measure", "traffic"], ["testing"], ["course"], ["cli"], ["__main__"]]  # fmt: skip
FLOOR = {part: floor for floor, parts in enumerate(FLOORS) for part in parts}


def part_of(path):
    """The folder of the package that a file is in, or its own name at the top."""
    return path.relative_to(HOME).with_suffix("").parts[0]


def named(path):
    """The path of a file as a failing test shows it."""
    return path.relative_to(ROOT).as_posix()


def imported(tree):
    """The modules that a file imports, with the home of each name that it takes from `minikv` itself."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, "a relative import"
            face = node.module == "minikv"
            yield from [minikv._HOME_OF.get(alias.name, "minikv") for alias in node.names] if face else [node.module]


def used(path):
    """The modules of other parts that a file imports, each with its part."""
    for name in imported(TREES[path]):
        package, part, *_ = f"{name}.".split(".")
        if package == "minikv" and part not in ("", part_of(path)):
            yield name, part


# -- how large it is --------------------------------------------------------------------------------------------------

LAYOUT = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT,
          tokenize.ENDMARKER, tokenize.ENCODING}  # fmt: skip
DATA = {".txt", ".toml", ".json", ".css", ".js"}


def code_tokens(source):
    """How many tokens of code a file has: no comments and docstrings, a string as 1 for each 40 characters.

    Tokens and not lines, so that packing lines saves nothing. Python 3.12 splits an f-string into
    its parts, so each is counted as if it were of bytes.
    """
    documented = {(text.lineno, text.col_offset) for text in docstrings(ast.parse(source))}
    whole = re.sub(r"""\b(r?)f(?=["'])""", r"\1b", source)
    tokens = tokenize.generate_tokens(io.StringIO(whole).readline)
    code = [token for token in tokens if token.type not in LAYOUT and token.start not in documented]
    texts = [token.string for token in code if token.type == tokenize.STRING]
    return len(code) + sum(len(text) // 40 for text in texts)


def docstrings(tree):
    """The docstrings of a file."""
    scopes = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    nodes = [node for node in ast.walk(tree) if isinstance(node, scopes)]
    return [node.body[0] for node in nodes if ast.get_docstring(node, clean=False) is not None]


# The rooms of the house, and the folders or files of each. The files at the root are the foundations.
ROOMS = {
    "engine": ("engine",),
    "pools, store, copy_on_write": ("pools", "store", "copy_on_write"),
    "prefix": ("prefix",),
    "manager": ("manager",),
    "serving": ("serving",),
    "foundations": (),
    "measure": ("measure",),
    "traffic": ("traffic",),
    "cli": ("cli",),
    "testing": ("testing",),
    "course: pieces": ("course/pieces",),
    "course: pictures, film, player": ("course/pictures", "course/film", "course/player.py", "course/reel.py"),
    "course: the rest": ("course",),
}


def room_of(place):
    """The room of a file, by its path below the package; `KeyError` for a folder that is in no room."""
    for room, places in ROOMS.items():
        if f"{place.as_posix()}/".startswith(tuple(f"{one}/" for one in places)):
            return room
    if len(place.parts) > 1:
        raise KeyError(f"{place} is in no room: add its folder to ROOMS in tests/house.py")
    return "foundations"


def room_for(path):
    """The room of a file of the package; the assets and the tools are a room each."""
    first, *rest = path.relative_to(ROOT).parts
    return room_of(Path(*rest)) if first == "minikv" else first


def tokens_by_room():
    """The tokens of code in each room."""
    beside = [path for folder in ("assets", "tools") for path in (ROOT / folder).rglob("*.py")]
    found = Counter()
    for path in [*FILES, *(path for path in beside if "tests" not in path.relative_to(ROOT).parts)]:
        found[room_for(path)] += code_tokens(path.read_text("utf-8"))
    return found


def bytes_of_data():
    """How large the data in the package is: everything that is not Python."""
    return sum(path.stat().st_size for path in HOME.rglob("*") if path.suffix in DATA)


# Each room has a README; a folder without one is covered by the README above it.
READMES = sorted([*HOME.rglob("README.md"), *NEXT_DOOR.rglob("README.md")])


# -- the drawing ------------------------------------------------------------------------------------------------------

BEGIN, END = "<!-- python tests/house.py draws this -->\n", "<!-- end of the drawing -->"


def drawing():
    """The folders, the lowest at the bottom, and their imports: those that others imply are left out."""
    boxes, lines, reached = [], [], {}
    for part in (part for part in FLOOR if (HOME / part).is_dir()):  # from the ground up
        mine = [path for path in INNER if part_of(path) == part]
        below = {other for path in mine for _, other in used(path) if (HOME / other).is_dir()}
        implied = {deep for other in below for deep in reached[other]}
        reached[part] = below | implied
        boxes.insert(0, f'  {part}["{part}: {about(part)}"]')
        lines += [f"  {part} --> {other}" for other in below - implied]
    return "\n".join(["```mermaid", "flowchart TD", *boxes, *sorted(lines), "```\n"])


def about(part):
    """The first sentence of a folder's docstring, without what comes after a colon."""
    text = ast.get_docstring(TREES[HOME / part / "__init__.py"]) or ""
    return re.split(r"[:.;]", text.replace("\n", " ").replace('"', "'"))[0]


def drawn():
    """The drawing that is in CONTRIBUTING now."""
    return GUIDE.read_text("utf-8").partition(BEGIN)[2].partition(END)[0]


def with_budget(readme, budgets):
    """The text of a README, with the budget of its room as it is now."""
    budget = budgets[room_for(readme)]
    return re.sub(r"Budget: [\d,]+ tokens", f"Budget: {budget:,} tokens", readme.read_text("utf-8"))


if __name__ == "__main__":
    page = GUIDE.read_text("utf-8")
    before, after = page.partition(BEGIN)[0], page.partition(END)[2]
    GUIDE.write_text(f"{before}{BEGIN}{drawing()}{END}{after}", "utf-8")
    from test_house import BUDGETS

    for readme in READMES:
        readme.write_text(with_budget(readme, BUDGETS), "utf-8")

"""The house: who may import whom, how large its rooms are, and what its names and READMEs promise."""

import ast
import inspect
import re
from collections import defaultdict

import mutants
import pytest
from house import (
    EVERY,
    FILES,
    FLOOR,
    HOME,
    INNER,
    NEXT_DOOR,
    READMES,
    TREES,
    bytes_of_data,
    docstrings,
    drawing,
    drawn,
    imported,
    named,
    part_of,
    room_for,
    tokens_by_room,
    used,
)
from project import ROOT

import minikv

FOLDERS = ".github", "assets", "minikv", "notebooks", "tools"
PAGES = [*ROOT.glob("*.md"), *(page for name in FOLDERS for page in (ROOT / name).rglob("*.md"))]
SOURCES = sorted((ROOT / "notebooks" / "src").glob("[0-9]*.py"))

# -- who imports whom -------------------------------------------------------------------------------------------------

TORCH = {"store", "copy_on_write", "serving"}  # the parts that import it
PIECES = {"ch08_serving"}  # of the engine, for chapters 06 and 08
ENGINES_OWN = {"errors", "tokens", "interrupts", "files", "sizing", "untrusted", "pools"}
USES_ENGINE = {"course", "testing", "measure"}


def may_import(path, name, part):
    """Only what is below; and what a learner builds stands on little, and holds up the course."""
    mine = part_of(path)
    own = ENGINES_OWN | ({"serving"} if path.stem in PIECES else set())
    if mine == "engine" and part not in own and name != "minikv.prefix.contract":
        return False
    return FLOOR[part] < FLOOR[mine] and (part != "engine" or mine in USES_ENGINE)


def test_imports_go_down_only():
    found = [(path, *each) for path in INNER for each in used(path)]
    assert not [(named(path), name) for path, name, part in found if not may_import(path, name, part)]


def test_the_package_never_imports_the_tools_and_only_says_where_they_went():
    assert not [named(path) for path in FILES if "minikv_tools" in str([*imported(TREES[path])])]
    said = [named(path) for path in FILES if "minikv_tools" in path.read_text("utf-8")]
    assert said == ["minikv/__init__.py"]


def test_only_the_parts_that_hold_tensors_import_torch():
    """Others do so in a function, if at all."""
    heavy = re.compile(r"torch(\..*)?|minikv\.store")
    for path in (path for path in INNER if part_of(path) not in TORCH and path.stem not in PIECES):
        body = [node for node in TREES[path].body if isinstance(node, ast.Import | ast.ImportFrom)]
        assert not any(map(heavy.fullmatch, imported(ast.Module(body, [])))), named(path)


def test_the_guide_shows_the_house_as_it_is():
    assert drawn() == drawing(), "the folders or their imports have changed: python tests/house.py"


# -- how large it is --------------------------------------------------------------------------------------------------

# Tokens of code. A budget is lowered when something goes, and raised only by what an issue grants, in its own commit.
# Code that moves to another room takes its tokens along.
BUDGETS = {
    # What the learner builds.
    "engine": 13_590,
    # Which pages are free, and what is in them.
    "pools, store, copy_on_write": 13_505,
    # Which pages hold which prefix.
    "prefix": 17_493,
    # The life of a request.
    "manager": 7_894,
    # A model that answers.
    "serving": 15_872,
    # The files at the root of the package.
    "foundations": 10_776,
    # The race.
    "measure": 6_252,
    # Traces, and what they say about a cache.
    "traffic": 11_213,
    # One file per command.
    "cli": 6_488,
    # What checks any of these.
    "testing": 25_929,
    # How answers are judged.
    "course: pieces": 61_777,
    # How a cache is shown.
    "course: pictures, film, player": 27_364,
    # The playground, the chat and the class report.
    "course: the rest": 8_232,
    # What makes the figures and pictures of the chapters.
    "assets": 16_419,
    # The project next door: why prompts miss, and how much cache traffic needs.
    "tools": 60_000,
}
FILES_AT_MOST, DATA_AT_MOST = 197, 964_437


# A request's life, and the tree: each in one piece.
LONG = ["minikv/manager/manager.py", "minikv/prefix/radix.py"]


def test_each_room_stays_within_its_budget():
    found = tokens_by_room()
    assert set(found) == set(BUDGETS)
    assert not {room: tokens - BUDGETS[room] for room, tokens in found.items() if tokens > BUDGETS[room]}
    assert len(FILES) <= FILES_AT_MOST
    assert bytes_of_data() <= DATA_AT_MOST


def test_every_function_fits_on_a_screen_and_a_file_in_a_sitting():
    """In lines without docstrings, comments and empty ones."""
    long, files = [], []
    for path, tree in TREES.items():
        rows = path.read_text("utf-8").splitlines()
        files += [named(path)] if len(rows) > 300 else []
        for text in docstrings(tree):
            rows[text.lineno - 1 : text.end_lineno] = [""] * (text.end_lineno - text.lineno + 1)
        is_code = [row.strip()[:1] not in ("", "#") for row in rows]
        for node in ast.walk(tree):
            if isinstance(node, FUNCTIONS) and sum(is_code[node.lineno - 1 : node.end_lineno]) > 25:
                long.append(f"{named(path)} {node.name}")
    assert not long
    assert files == LONG


# -- what it calls things ---------------------------------------------------------------------------------------------

FUNCTIONS = ast.FunctionDef | ast.AsyncFunctionDef
LEARNERS = {*(HOME / "engine").glob("ch*.py")}  # whose classes are in the place of ours
MAINS = {NEXT_DOOR / "cli" / "__init__.py"}  # each project has a command of its own


def public(path):
    """The names that a module defines for others: its functions, classes, and types such as `Pages = ...`."""
    for node in TREES[path].body:
        match node:
            case ast.FunctionDef(name) | ast.AsyncFunctionDef(name) | ast.ClassDef(name) if name[0] != "_":
                yield name
            case ast.Assign([ast.Name(name)]) if re.fullmatch(r"[A-Z]+[a-z]\w*", name):
                yield name


def test_a_public_name_has_one_meaning():
    homes = defaultdict(list)
    for path in (path for path in EVERY if path not in LEARNERS | MAINS):
        for name in public(path):
            homes[name].append(named(path))
    assert not {name: found for name, found in homes.items() if len(found) > 1}


def test_no_private_name_is_imported():
    """Ruff finds those that are read of an object, with its rule SLF001."""
    for path in EVERY:
        nodes = [node for node in ast.walk(TREES[path]) if isinstance(node, ast.ImportFrom)]
        names = [alias.name for node in nodes for alias in node.names]
        assert not [name for name in names if re.match("_[^_]", name)], named(path)


# -- what it says -----------------------------------------------------------------------------------------------------


def test_what_a_learner_meets_is_importable_from_minikv_and_has_a_worked_example():
    things = {name: getattr(minikv, name) for name in minikv.__all__}
    assert set(things) <= set(dir(minikv))
    without = {name for name, thing in things.items() if ">>>" not in (inspect.getdoc(thing) or "")}
    plain = re.compile("Protocol|tuple")
    without -= {name for name in without if plain.search(str(getattr(things[name], "__mro__", "")))}
    assert without <= {"Handle", "LockError", "Picture", "Player"}
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        _ = minikv.nothing


def test_the_package_reads_every_line_of_its_stub():
    """It reads the stub line by line when it is imported; here Python's own parser does."""
    _, *statements = ast.parse((HOME / "__init__.pyi").read_text("utf-8")).body
    homes, other = {}, []
    for statement in statements:
        match statement:
            case ast.ImportFrom(module, [ast.alias(name, same)]) if name == same:
                homes[name] = module
            case _:
                other.append(ast.unparse(statement))
    assert (homes, other) == (minikv._HOME_OF, ["__version__: str"])


ELSEWHERE = {"config.json", "my_minikv.py", "progress.json"}  # files of a model and of a learner


def files_named(readme):
    """The files that a README names, as links or in backquotes; `chNN.py` names one of each chapter."""
    quoted = r"`([\w./-]+\.(?:pyi?|txt|json))`|\]\(([^)#:\s]+)\)"
    names = ["".join(pair) for pair in re.findall(quoted, readme.read_text("utf-8"))]
    patterns = {name: name.replace("NN", "[0-9][0-9]") for name in names}
    return {name: {path.resolve() for path in readme.parent.glob(pattern)} for name, pattern in patterns.items()}


def readme_for(path):
    """The README that covers a file: the one of its folder, or of the next folder above that has one."""
    return next(folder / "README.md" for folder in path.parents if (folder / "README.md") in READMES)


@pytest.mark.parametrize("readme", READMES, ids=named)
def test_a_readme_names_its_budget_and_each_module_of_its_folder_and_is_short(readme):
    text, found = readme.read_text("utf-8"), files_named(readme)
    budgets = re.findall(r"Budget: ([\d,]+) tokens", text)
    assert budgets == [f"{BUDGETS[room_for(readme)]:,}"], "run python tests/house.py"
    assert not [name for name, paths in found.items() if not paths and name not in ELSEWHERE]
    covered = {path for path in EVERY if readme_for(path) == readme and path.name != "__init__.py"}
    assert not covered - set().union(*found.values())
    assert len(text.splitlines()) <= 50


# -- its tests --------------------------------------------------------------------------------------------------------


def test_every_file_has_judges_that_are_there_or_is_named_as_one_that_has_none():
    judged = {mutants.source_of(name): mutants.judges_of(name) for name in mutants.names()}
    spared = tuple(f"{mutants.source_of(name).with_suffix('')}/" for name in mutants.UNJUDGED)
    others = [path for path in EVERY if path not in judged and path.stem != "__init__"]
    assert not [path for path in others if not f"{path.with_suffix('')}/".startswith(spared)]
    for file, _, test in {judge.partition("::") for judges in judged.values() for judge in judges}:
        assert f"def {test}" in (ROOT / file).read_text("utf-8"), (file, test)


def chapters_that_need_torch():
    """By what their sources import: torch itself, or a name whose home holds tensors."""
    homes = "minikv.store", "minikv.serving.llama", "torch"
    needed = {path: imported(ast.parse(path.read_text("utf-8"))) for path in SOURCES}
    return [path.stem[:2] for path, names in needed.items() if any(str(name).startswith(homes) for name in names)]

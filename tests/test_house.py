"""The house: who may import whom, what stays light, what is documented, and that set-up files and docs agree."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import inspect
import os
import re
import subprocess
import sys
from pathlib import Path

import mutants
import pytest
import yaml
from house import (
    EVERY,
    FILES,
    FLOOR,
    HOME,
    INNER,
    NEXT_DOOR,
    READMES,
    TESTS,
    TOOLS,
    TREES,
    bytes_of_data,
    code_tokens,
    drawing,
    drawn,
    imported,
    named,
    part_of,
    room_for,
    room_of,
    tokens_by_room,
)
from project import EXTRAS, PROJECT, ROOT
from project import TOOLS as NEXT

import minikv

PAGES = [
    *ROOT.glob("*.md"),
    *(ROOT / ".github").glob("*.md"),
    *(ROOT / "assets").rglob("*.md"),
    *HOME.rglob("*.md"),
    *(ROOT / "notebooks").rglob("*.md"),
    *(ROOT / "tools").rglob("*.md"),
]


def test_imports_go_down_only():
    upward = []
    for path in INNER:
        mine = part_of(path)
        others = [(name, name.split(".")[1]) for name in imported(TREES[path]) if name.startswith("minikv.")]
        upward += [(named(path), name) for name, other in others if other != mine and FLOOR[other] >= FLOOR[mine]]
    assert not upward


ENGINES_OWN = {"engine", "errors", "tokens", "interrupts", "files", "sizing", "untrusted", "pools"}
USES_ENGINE = {"engine", "course", "testing", "measure"}


def test_the_package_never_imports_the_tools_not_even_when_it_is_used():
    assert not [(named(path), name) for path in FILES for name in imported(TREES[path]) if "minikv_tools" in name]
    said = [(named(path), node.value) for path in FILES for node in ast.walk(TREES[path])
            if isinstance(node, ast.Constant) and isinstance(node.value, str)]  # fmt: skip
    assert {name for name, text in said if "minikv_tools" in text} == {"minikv/__init__.py"}  # where it went, in words


def borrowed():
    """What the tools import of the package: the file, the module and the name."""
    for path in TOOLS:
        for node in ast.walk(TREES[path]):
            if isinstance(node, ast.ImportFrom) and node.module.partition(".")[0] == "minikv":
                yield from ((named(path), node.module, alias.name) for alias in node.names)


def test_the_tools_use_only_public_names_of_the_package_and_each_has_a_docstring():
    found = set(borrowed())
    assert ("tools/minikv_tools/cli/plan.py", "minikv.cli.command", "say") in found
    silent = []
    for file, module, name in found:
        assert not any(map(private, [name, *module.split(".")])), (file, module, name)
        thing = getattr(importlib.import_module(module), name)
        is_defined = inspect.isclass(thing) or inspect.isfunction(thing)
        silent += [f"{module}.{name}"] if is_defined and not inspect.getdoc(thing) else []
    assert not silent


def test_the_engine_that_a_learner_builds_stands_on_little_and_holds_up_the_course():
    beyond, users = set(), set()
    for path in INNER:
        mine, names = part_of(path), {name for name in imported(TREES[path]) if name.startswith("minikv.")}
        if mine == "engine":
            allowed = {"serving"} if path.stem in PIECES else set()
            others = {name for name in names if name.split(".")[1] not in ENGINES_OWN | allowed}
            beyond |= others - {"minikv.prefix.contract"}
        users |= {mine} if any(name.startswith("minikv.engine") for name in names) else set()
    assert not beyond
    assert users <= USES_ENGINE


def test_the_guide_shows_the_house_as_it_is():
    assert drawn() == drawing(), "the folders or their imports have changed: python tests/house.py"


# Tokens of code. A budget is lowered when something goes, and raised only by what an issue grants, in its own commit.
# Code that moves to another room takes its tokens along.
BUDGETS = {
    # What the learner builds.
    "engine": 12_851,
    # Which pages are free, and what is in them.
    "pools, store, copy_on_write": 13_483,
    # Which pages hold which prefix.
    "prefix": 17_474,
    # The life of a request.
    "manager": 5_992,
    # A model that answers.
    "serving": 14_980,
    # The files at the root of the package.
    "foundations": 10_776,
    # The race.
    "measure": 6_244,
    # Traces, and what they say about a cache.
    "traffic": 11_213,
    # One file per command.
    "cli": 6_488,
    # What checks any of these.
    "testing": 32_875,
    # How answers are judged.
    "course: pieces": 59_577,
    # How a cache is shown.
    "course: pictures, film, player": 26_914,
    # The playground, the chat and the class report.
    "course: the rest": 8_232,
    # What makes the figures and pictures of the chapters.
    "assets": 15_470,
    # The project next door: why prompts miss, and how much cache traffic needs.
    "tools": 58_866,
}
FILES_AT_MOST, DATA_AT_MOST = 199, 923_993


def test_each_room_stays_within_its_budget():
    found = tokens_by_room()
    assert set(found) == set(BUDGETS)
    assert not {room: tokens - BUDGETS[room] for room, tokens in found.items() if tokens > BUDGETS[room]}


def test_the_package_gets_no_more_files_and_no_more_data():
    assert len(FILES) <= FILES_AT_MOST
    assert bytes_of_data() <= DATA_AT_MOST


def test_a_folder_that_is_in_no_room_is_an_error():
    assert room_of(Path("course/film/frame.py")) == "course: pictures, film, player"
    assert room_of(Path("course/classroom.py")) == "course: the rest"
    assert room_of(Path("tokens.py")) == "foundations"
    with pytest.raises(KeyError, match="is in no room"):
        room_of(Path("attic/old.py"))


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("a = b(1)  # why", 6), ('"""Say it."""\na = 1', 3), ("a = '" + "x" * 79 + "'", 5), ("a = f'{b} {c!r}'", 3),
        ("def f():\n    'Say it.'\n    return 'text'", 7), ("a = f'" + "x" * 40 + "{b}'\n", 4),
    ],
)  # fmt: skip
def test_the_size_counts_tokens_and_long_strings_but_no_docstrings(source, expected):
    assert code_tokens(source) == expected


SUBROOMS = ["course/pieces", "course/pictures", "course/film"]
ELSEWHERE = {"config.json", "my_minikv.py", "progress.json"}  # files of a model and of a learner


def files_named(readme):
    """The files that a README names, as links or in backquotes, by name; `chNN.py` names one of each chapter."""
    text = readme.read_text("utf-8")
    quoted = re.findall(r"`([\w./-]+\.(?:pyi?|txt|json))`", text)
    names = [*quoted, *re.findall(r"\]\(([^)#:\s]+)\)", text)]
    patterns = {name: name.replace("NN", "[0-9][0-9]") for name in names}
    return {name: {path.resolve() for path in readme.parent.glob(pattern)} for name, pattern in patterns.items()}


def readme_for(path):
    """The README that covers a file: the one of its folder, or of the next folder above that has one."""
    return next(folder / "README.md" for folder in path.parents if (folder / "README.md") in READMES)


def test_each_folder_of_the_package_has_a_readme():
    rooms = {part_of(path) for path in INNER if path.parent != HOME}
    wanted = [HOME, NEXT_DOOR, *(HOME / room for room in sorted(rooms)), *(HOME / name for name in SUBROOMS)]
    assert not [named(folder) for folder in wanted if not (folder / "README.md").is_file()]


@pytest.mark.parametrize("readme", READMES, ids=named)
def test_a_readme_names_the_budget_of_its_room(readme):
    (budget,) = re.findall(r"Budget: ([\d,]+) tokens", readme.read_text("utf-8"))
    assert budget == f"{BUDGETS[room_for(readme)]:,}", "run python tests/house.py"


@pytest.mark.parametrize("readme", READMES, ids=named)
def test_a_readme_names_files_that_exist_and_every_module_of_its_folder(readme):
    found = files_named(readme)
    assert not [name for name, paths in found.items() if not paths and name not in ELSEWHERE]
    covered = [path for path in EVERY if readme_for(path) == readme and path.name != "__init__.py"]
    assert not [named(path) for path in covered if path.resolve() not in set().union(*found.values())]


def test_a_readme_is_short():
    lines = {named(path): path.read_text("utf-8").splitlines() for path in READMES}
    assert not {name: len(rows) for name, rows in lines.items() if len(rows) > 50}


def loaded_by(statement):
    code = f"import sys; {statement}; print(' '.join(sorted(sys.modules)))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(run.stdout.split())


def test_the_index_needs_neither_torch_nor_widgets_nor_graphviz():
    loaded = loaded_by("import minikv.prefix, minikv.pools, minikv.sizing, minikv.measure, minikv.traffic")
    assert not loaded & {"torch", "ipywidgets", "anywidget", "wasmtime", "hypothesis", "IPython", "PIL"}


def own(loaded):
    """The modules of the package among those that were loaded."""
    return {name for name in loaded if name.partition(".")[0] == "minikv"}


def test_the_canary_loads_nothing_of_traffic_or_of_the_course():
    loaded = own(loaded_by("from minikv.testing import Canary"))
    assert "minikv.testing.canary" in loaded
    assert not {name for name in loaded if name.startswith(("minikv.traffic", "minikv.course", "minikv.serving"))}


def test_a_picture_loads_at_most_50_modules_of_ours():
    loaded = own(loaded_by("from minikv import draw"))
    assert "minikv.course.pictures.draw" in loaded
    assert len(loaded) <= 50
    assert not {name for name in loaded if name.startswith(("minikv.traffic", "minikv.serving"))}


# The parts that import torch.
TORCH = {"store", "copy_on_write", "serving"}
PIECES = {"ch08_serving"}  # of the engine, for chapters 06 and 08
WITHOUT_TORCH = [path for path in INNER if part_of(path) not in TORCH and path.stem not in PIECES]


def test_only_the_parts_that_hold_tensors_import_torch():
    heavy = []
    for path in WITHOUT_TORCH:
        for node in TREES[path].body:
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            heavy += [named(path) for name in names if name.split(".")[0] == "torch" or name == "minikv.store"]
    assert not heavy


def test_pictures_and_exercises_need_no_torch():
    assert "torch" not in loaded_by("from minikv import draw, play, check, progress")


def test_what_a_learner_meets_is_importable_from_minikv():
    for name in minikv.__all__:
        assert getattr(minikv, name) is not None
    assert set(minikv.__all__) <= set(dir(minikv))
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        _ = minikv.nothing


def names_in(stub):
    """The names that a stub offers, each with its module, read by Python's own parser; other lines are named."""
    docstring, *statements = ast.parse(stub).body
    assert isinstance(docstring, ast.Expr)
    homes, other = {}, []
    for statement in statements:
        if isinstance(statement, ast.ImportFrom) and all(alias.name == alias.asname for alias in statement.names):
            homes.update({alias.name: statement.module for alias in statement.names})
        else:
            other.append(ast.unparse(statement))
    return homes, other


def homes_read_from(stub, folder):
    """The names that the package finds in a stub when it is imported: it reads the file line by line."""
    for name, text in (("__init__.py", (HOME / "__init__.py").read_text("utf-8")), ("__init__.pyi", stub)):
        (folder / name).write_text(text, "utf-8")
    spec = importlib.util.spec_from_file_location("face", folder / "__init__.py")
    face = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(face)
    return face._HOME_OF


def test_the_package_reads_every_line_of_its_stub(tmp_path):
    """A library would parse the stub at each import, reads relative imports only, and cannot say what to install."""
    stub = (HOME / "__init__.pyi").read_text("utf-8")
    assert names_in(stub) == (minikv._HOME_OF, ["__version__: str"])
    for more in ("from minikv.pools import (\n    Pages as Pages,\n)\n", "from minikv.pools import Pages as P\n",
                 "from minikv.pools import Pages as Pages, Pool as Pool\n", "import minikv.pools\n"):  # fmt: skip
        assert names_in(stub + more) != (homes_read_from(stub + more, tmp_path), ["__version__: str"]), more
    one = "from minikv.pools import Pages as Pages\n"
    assert names_in(stub + one)[0] == homes_read_from(stub + one, tmp_path)


def public_names():
    for path in EVERY:
        if path.stem == "__main__":
            continue
        root = NEXT_DOOR.parent if path in TOOLS else ROOT
        name = ".".join(path.relative_to(root).with_suffix("").parts).removesuffix(".__init__")
        module = importlib.import_module(name)
        for key, value in vars(module).items():
            if not key.startswith("_") and getattr(value, "__module__", None) == name and callable(value):
                yield f"{name}.{key}", value


def test_every_public_name_says_in_a_sentence_what_it_is():
    silent = []
    for name, thing in public_names():
        doc = inspect.getdoc(thing) or ""
        begins_with_a_sentence = re.search(r"[.:;?]$", doc.split("\n\n")[0])
        if not begins_with_a_sentence or doc.startswith(f"{thing.__name__}("):
            silent.append(name)
    assert not silent


def test_what_a_learner_meets_has_a_worked_example():
    without = []
    for name in minikv.__all__:
        thing = getattr(minikv, name)
        bases = " ".join(base.__name__ for base in getattr(thing, "__mro__", ()))
        if not any(word in bases for word in ("Protocol", "tuple")) and ">>>" not in (inspect.getdoc(thing) or ""):
            without.append(name)
    assert set(without) <= {"Handle", "LockError", "Picture", "Player"}


def classes_of(path):
    """The public classes and type aliases (`Pages = ...`) that a module defines."""
    for node in ast.parse(path.read_text("utf-8")).body:
        targets = node.targets if isinstance(node, ast.Assign) else []
        names = [node.name] if isinstance(node, ast.ClassDef) else [t.id for t in targets if isinstance(t, ast.Name)]
        yield from (name for name in names if re.fullmatch(r"[A-Z]+[a-z]\w*", name))


def lines_of_code(function, lines):
    """How many lines a function has, without its docstring, comments and empty lines."""
    text = function.body[0] if ast.get_docstring(function, clean=False) is not None else None
    documented = range(text.lineno, text.end_lineno + 1) if text else ()
    numbers = [number for number in range(function.lineno, function.end_lineno + 1) if number not in documented]
    return len([number for number in numbers if lines[number - 1].strip() and lines[number - 1].strip()[0] != "#"])


def test_every_function_fits_on_a_screen():
    found = {}
    for path in EVERY:
        lines = path.read_text("utf-8").splitlines()
        for node in ast.walk(TREES[path]):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                found[f"{named(path)} {node.name}"] = lines_of_code(node, lines)
    assert max(found.values()) > 20
    assert not {name: count for name, count in found.items() if count > 25}


LEARNERS = {*(HOME / "engine").glob("ch*.py")}  # whose classes are in the place of ours
MAINS = {NEXT_DOOR / "cli" / "__init__.py"}  # each project has a command of its own


LONG = ["minikv/manager/manager.py", "minikv/prefix/radix.py"]  # a request's life, and the tree: each in one piece


def test_no_file_is_longer_than_a_sitting():
    lines = {named(path): len(path.read_text("utf-8").splitlines()) for path in EVERY}
    assert [name for name, count in lines.items() if count > 300] == LONG


def functions_of(path):
    """The public functions of a module."""
    found = (node for node in TREES[path].body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
    return [function.name for function in found if not function.name.startswith("_")]


def test_a_public_function_has_one_meaning():
    homes = {}
    for path in (path for path in EVERY if path not in LEARNERS | MAINS):
        for name in functions_of(path):
            homes.setdefault(name, []).append(named(path))
    assert "pack" in homes
    assert not {name: found for name, found in homes.items() if len(found) > 1}


def test_no_name_of_a_module_is_used_four_times():
    stems = [path.stem for path in [*INNER, *TOOLS] if path.stem != "__init__"]
    assert not {stem for stem in stems if stems.count(stem) > 3}


def test_no_class_has_the_name_of_another():
    homes = {}
    for path in (path for path in EVERY if path not in LEARNERS | MAINS):
        for name in classes_of(path):
            homes.setdefault(name, []).append(str(path.relative_to(ROOT)))
    assert "Sequence" in homes
    assert not {name: found for name, found in homes.items() if len(found) > 1}


# Which file reads private names of what, and why.
FRIENDS = {
    "manager/audit.py": {"manager", "sequence"},  # which looks into both
    "manager/manager.py": {"sequence"},  # which stores in it what the manager knows of it
    "manager/sequence.py": {"manager"},  # which has memory for its row
    "manager/windowed.py": {"sequence"},  # which hands in its lock
    "serving/attention.py": {"torch.ops.aten"},  # the one fused attention of torch that returns the log-sum-exp
    "serving/llama.py": {"torch.ops.mkldnn"},  # packed weights
}
PROTOCOLS = {"_replace", "_asdict", "_fields", "_repr_mimebundle_"}  # underscored, and meant for others all the same


def private(name):
    return name.startswith("_") and not name.startswith("__") and name not in PROTOCOLS


def own_names(tree):
    """The private names that a module defines: functions, what a class body assigns, and attributes of `self`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and ast.unparse(node.value) == "self":
            yield node.attr
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id


def foreign_names(tree):
    """Where private names of something else are used: the line, whose they are, and the name."""
    own = set(own_names(tree))
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            yield from ((node.lineno, node.module, alias.name) for alias in node.names if private(alias.name))
        elif isinstance(node, ast.Attribute) and private(node.attr) and node.attr not in own:
            whose = ast.unparse(node.value)
            if whose not in ("self", "cls"):
                yield node.lineno, whose, node.attr


def test_nothing_private_crosses_a_module():
    used, strange = {}, []
    for path in EVERY:
        name = path.relative_to(NEXT_DOOR if path in TOOLS else HOME).as_posix()
        for line, whose, what in foreign_names(TREES[path]):
            strange += [f"{name}:{line} uses {whose}.{what}"] if whose not in FRIENDS.get(name, ()) else []
            used.setdefault(name, set()).add(whose)
    assert not strange
    assert used == FRIENDS  # nothing is listed that is not used


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("from a import _b", ["_b"]), ("store._memory.zero_()", ["_memory"]), ("a[0]._b", ["_b"]),
        ("self._a", []), ("row._replace(a=1)", []), ("a.__name__", []),
        ("class A:\n def f(self, other):\n  self._a = other._a + other._b", ["_b"]),
    ],
)  # fmt: skip
def test_a_private_name_is_foreign_unless_the_module_defines_it(code, expected):
    assert [what for _, _, what in foreign_names(ast.parse(code))] == expected


def test_no_file_is_a_drawer_for_leftovers():
    assert not [path for path in EVERY if path.stem in ("utils", "common", "helpers", "misc")]


# What reads as translated, and what stands in its place: `STYLE` of the course is a good textbook's English.
BANNED = {
    r"\bkeep(s|ing)? books?\b|\bkeep book\b|\b(its|own|the|in the) books?\b": "keep track of, records",
    r"\bmend(s|ed)?\b": "fix",
    r"\b(one|that|this|the) very (slot|page|same|bug|operation|prompt|ids|node)\b": "that particular slot",
    r"\b[Ww]ho(so)?(m)?ever\b": "name the thing: the request that, no matter which",
    r"[.;:,|*] who (decodes|waits|asks|starts|comes|is done|is preempted|needs|frees)\b": "decoding requests",
    r"\bshall\b": "will, or an imperative",
    r"\bturn and turn about\b": "alternately",
    r"\b(of|between) equals\b": "ties go to",
    r"\bfor ever\b": "forever",
    r"\bfills no page\b": "does not fill a page",
    r"\b(moves|stands in) nobody's\b": "say what it does",
    r"\bis no (whole|workload|valid|record|multiple|integer|number|token|prompt|leaf|case|prefix|tensor)\b": "not a",
    r"\bno way can do\b|\bcan do with less than\b": "any method must",
    r"\bluck need not\b": "random tests may never",
    r"\bturn(ed|s)? (it|them|the order|two of them) round\b|\bturned round\b": "reverse",
}  # fmt: skip
READ = [*EVERY, *(ROOT / "notebooks" / "src").glob("*.py"), *PAGES]


def test_the_text_reads_as_english():
    foreign = []
    for path in READ:
        text = path.read_text("utf-8")
        found = {better: re.search(phrase, text, re.IGNORECASE) for phrase, better in BANNED.items()}
        foreign += [f"{named(path)}: {match[0]!r}; better: {better}" for better, match in found.items() if match]
    assert not foreign


# -- set-up and docs ------------------------------------------------------------------------------------------------


def names_of(requirements):
    return {re.split(r"[\[<>=!~; ]", requirement)[0].lower() for requirement in requirements} - {"minikv"}


def required(*extras):
    """What the package needs with these extras, and with the extras that they name."""
    found = list(PROJECT["project"]["dependencies"])
    for extra in extras:
        for requirement in EXTRAS[extra]:
            inner = re.match(r"minikv\[([\w,]+)\]", requirement)
            found += required(*inner[1].split(",")) if inner else [requirement]
    return list(dict.fromkeys(found))


def test_nothing_is_packed_with_the_time_of_day():
    """The bytes of a parameter become the name of its test, and two workers must collect the same names."""
    timed = []
    for path in TESTS:
        calls = [node for node in ast.walk(ast.parse(path.read_text("utf-8"))) if isinstance(node, ast.Call)]
        packs = [call for call in calls if ast.unparse(call.func) == "gzip.compress"]
        timed += [path.name for call in packs if "mtime" not in [keyword.arg for keyword in call.keywords]]
    assert not timed


def test_lower_bounds_only():
    for requirement in required("dev"):
        assert "<" not in requirement.split(";")[0], requirement
        assert "==" not in requirement.split(";")[0], requirement


def test_the_core_is_light():
    assert names_of(PROJECT["project"]["dependencies"]) == {"numpy", "tqdm"}


def test_every_pin_is_there_and_torch_is_pinned():
    lines = (ROOT / "constraints.txt").read_text("utf-8").lower().replace("_", "-").split()
    pins = dict(line.split("==") for line in lines if "==" in line)
    assert pins["torch"] == "2.13.0"
    wanted = names_of(required("dev")) - {"tomli"}
    assert wanted <= set(pins), wanted - set(pins)


def test_the_conda_environment_is_in_step():
    environment = yaml.safe_load((ROOT / "environment.yml").read_text("utf-8"))
    assert environment["channels"] == ["conda-forge", "nodefaults"]
    conda = [entry for entry in environment["dependencies"] if isinstance(entry, str)]
    (pip,) = [entry["pip"] for entry in environment["dependencies"] if isinstance(entry, dict)]
    renamed = {"pytorch": "torch"}
    have = {renamed.get(name, name) for name in names_of(conda)} | names_of(pip)
    wanted = names_of(required("course", "serving"))
    assert wanted <= have, wanted - have
    assert "-e ." in pip
    assert PROJECT["project"]["requires-python"].removeprefix(">=") <= "3.11"
    bounds = {}
    for requirement in required("course", "serving"):
        found = re.match(r"([\w-]+)(?:\[\w+\])?>=([\d.,!=]+)", requirement)
        bounds[found[1]] = found[2]
    for entry in conda:
        name, _, bound = entry.partition(">=")
        name = renamed.get(name, name)
        if name in bounds:
            assert bound == bounds[name], f"{entry}: pyproject says {bounds[name]}"


def test_version_and_licence_agree_everywhere():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))
    assert citation["version"] == PROJECT["project"]["version"] == minikv.__version__
    assert PROJECT["tool"]["minikv"]["tag"] == f"v{minikv.__version__}"
    assert citation["license"] == PROJECT["project"]["license"] == "MIT"


def test_relative_links_of_a_page_lead_somewhere():
    dead = []
    for page in PAGES:
        text = re.sub(r"```.*?```", "", page.read_text("utf-8"), flags=re.DOTALL)
        targets = re.findall(r"\]\(([^)#\s]+)", text) + re.findall(r'(?:src|href)="([^"#]+)"', text)
        ours = [target for target in targets if not target.startswith(("http:", "https:", "mailto:"))]
        dead += [f"{named(page)} links to {target}" for target in ours if not (page.parent / target).exists()]
    assert not dead


def test_ci_runs_exactly_the_readmes_test_command():
    commands = [line for line in (ROOT / ".ci" / "run").read_text("utf-8").splitlines() if line.startswith("make")]
    assert commands == ["make test"]
    assert re.search(r"^make test\b", (ROOT / "README.md").read_text("utf-8"), re.MULTILINE)
    assert (ROOT / ".ci" / "run").stat().st_mode & 0o111


NOT_CORE = ast.literal_eval(re.search(r"^NOT_CORE = (\{.*\})", (ROOT / "conftest.py").read_text("utf-8"), re.M)[1])

WORKFLOW, NIGHTLY = [
    yaml.safe_load((ROOT / ".github" / "workflows" / name).read_text("utf-8")) for name in ("test.yml", "nightly.yml")
]


def test_the_workflow_runs_it_on_three_systems():
    for system in ("ubuntu-latest", "macos-latest", "windows-latest", "make test"):
        assert system in str(WORKFLOW)
    assert WORKFLOW["permissions"] == {"contents": "read"}


def test_extras_are_quoted_where_pip_is_told_to_install_them():
    """PowerShell reads `.[course,serving]` as two arguments, and zsh as a pattern for names of files."""
    lines = [
        line for path in [*PAGES, *(ROOT / ".github").rglob("*.yml")] for line in path.read_text("utf-8").splitlines()
    ]
    bare = re.compile(r"""pip install.*(?<!["'\w./-])[\w./-]+\[[\w,]+\]""")
    assert not [line for line in lines if bare.search(line)]


def test_windows_is_set_up_in_the_workflow_as_the_readme_says():
    """The workflow installs more: what the tests need, and the tools."""
    line = r"^ *(?:- run: )?(\.venv\\Scripts\\python -m pip install [^[]*)\[[\w,]+\](\".*)$"
    texts = [(ROOT / name).read_text("utf-8") for name in ("notebooks/site/start.md", ".github/workflows/test.yml")]
    said, done = (re.findall(line, text, re.MULTILINE) for text in texts)
    assert [(command, f'{end} -e "./tools[sweep]"') for command, end in said] == done
    assert len(said) == 1


def test_the_workflow_tests_the_core_alone_on_other_pythons():
    job = WORKFLOW["jobs"]["core"]
    assert set(job["strategy"]["matrix"]["python"]) >= {PROJECT["project"]["requires-python"].removeprefix(">=")}
    commands = [step["run"] for step in job["steps"] if "run" in step]
    alone, both = (commands.index(f"python -m pip install {project}") for project in (".", "./tools"))
    tests = [place for place, command in enumerate(commands) if "-m pytest" in command]
    assert alone < tests[0] < both < tests[1]
    assert [commands[place] for place in tests] == [
        "python -m pytest -q -m core minikv tests", "python -m pytest -q -m core tools",
    ]  # fmt: skip


# Test files that import the core alone and still wait for more, or say nothing about a Python.
NEED_MORE = {
    "test_cli.py": "the commands of every extra",
    "test_english.py": "the text of the repository",
    "test_extras.py": "what each extra brings",
    "test_mutants.py": "the whole repository",
    "test_reports_browser.py": "a browser",
    "test_setup.py": "make",
    "test_sweep.py": "joblib",
    "test_tools_extras.py": "what each extra brings",
    "test_tools_wheel.py": "Hatchling",
}


def what_it_needs(path, read=()):
    """What a test imports that is not the core: an extra, a folder that needs one, or a script of the repository."""
    found = set()
    for name in filter(None, imported(ast.parse(path.read_text("utf-8")))):
        first, _, rest = name.partition(".")
        helpers = [helper for helper in TESTS if helper.stem == first]
        if first == "minikv":
            found |= {name} if rest.split(".")[0] in NOT_CORE else set()
        elif first == "minikv_tools":
            found |= {name} if rest == "sweep.workers" else set()
        elif helpers:
            found |= what_it_needs(helpers[0], (*read, path)) if helpers[0] not in (*read, path) else set()
        elif first not in sys.stdlib_module_names | {"numpy", "tqdm", "hypothesis", "pytest", "tomli", "conftest"}:
            found.add(name)
    return found


def test_a_test_that_imports_only_the_core_runs_with_a_core_install():
    unmarked = [path for path in TESTS if path.name.startswith("test_") and not CORE.search(path.read_text("utf-8"))]
    assert {path.name for path in unmarked if not what_it_needs(path)} == set(NEED_MORE)


CORE = re.compile(r"^pytestmark = .*pytest\.mark\.core\b", re.MULTILINE)
MISSING = """
import sys
options, blocked = sys.argv[1:-1], sys.argv[-1].split()
sys.modules.update(dict.fromkeys(blocked))
import pytest
sys.exit(pytest.main(["--collect-only", "-p", "no:cacheprovider", *options]))
"""


def collected(command, blocked):
    """The tests that a command collects where these modules are missing."""
    options = command.split("-m pytest ")[1].split()
    run = subprocess.run(
        [sys.executable, "-c", MISSING, *options, " ".join(sorted(blocked))], capture_output=True, text=True, cwd=ROOT,
        env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONPATH": str(ROOT)}, check=False,
    )  # fmt: skip
    assert not re.findall(r"^E .*", run.stdout, re.MULTILINE)
    assert run.returncode == 0, run.stdout[-2000:] + run.stderr[-2000:]
    assert "deselected" not in run.stdout
    return run.stdout


def test_the_core_job_collects_its_tests_without_what_a_core_install_lacks():
    """Neither the extras nor what comes with them, nor what only POSIX has; and each file that has the mark, whole."""
    extras = names_of(required("dev")) - names_of(required("testing")) - {"pytest", "tomli"}
    assert "torch" in extras
    extras |= {name for needed in NEXT["project"]["optional-dependencies"].values() for name in names_of(needed)}
    extras -= {"tomli", "minikv-tools"}
    assert "joblib" in extras
    blocked = {name.replace("-", "_") for name in extras} | {"IPython", "resource", "traitlets", "yaml"}
    commands = [step["run"] for step in WORKFLOW["jobs"]["core"]["steps"] if "-m pytest" in step.get("run", "")]
    said = collected(commands[0], blocked | {"minikv_tools"}) + "".join(collected(one, blocked) for one in commands[1:])
    found = set(re.findall(r"^(?:tools/)?tests/(\w+\.py)::", said, re.MULTILINE))
    marked = {path.name for path in TESTS if CORE.search(path.read_text("utf-8"))}
    assert found == marked
    assert {"test_radix.py", "test_pools.py", "test_manager.py", "test_why_pairs.py", "test_conformance.py"} <= found
    examples = set(re.findall(r"^((?:tools/)?minikv\w*/[\w/]+\.py)::", said, re.MULTILINE))
    assert {"minikv/prefix/radix.py", "minikv/traffic/traces.py", "minikv/sizing.py"} <= examples
    assert "tools/minikv_tools/journal.py" in examples
    assert not {path for path in examples if path.split("/")[1] in TORCH}


POSIX = {"fcntl", "grp", "pty", "pwd", "resource", "syslog", "termios", "tty"}


def test_what_only_posix_has_is_imported_where_it_is_used():
    """The doctests of every file are collected on Windows as well."""
    for path in [*EVERY, *TESTS, *(ROOT / "assets").rglob("*.py"), ROOT / "conftest.py"]:
        for node in ast.parse(path.read_text("utf-8")).body:
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module] if isinstance(node, ast.ImportFrom) else []
            assert not POSIX & set(names), f"{path.name}:{node.lineno}"


def test_the_nightly_workflow_tries_every_mutant_and_what_waits_for_the_night():
    jobs = NIGHTLY["jobs"]
    commands = {name: [step["run"] for step in job["steps"] if "run" in step] for name, job in jobs.items()}
    *filling, last = commands["sweeps"]
    assert (commands["mutants"], last) == (["make mutants JOBS=4"], "make unit JOBS=4")
    guide = " ".join((ROOT / ".github" / "CONTRIBUTING.md").read_text("utf-8").replace("\\\n", "").split())
    assert len(filling) == 2, "npm and pip bring what tests/test_pyodide.py needs"
    assert all(command in guide for command in filling)
    assert jobs["sweeps"]["env"] == {"HYPOTHESIS_PROFILE": "nightly", "MINIKV_PYODIDE": "/tmp/pyodide"}
    assert NIGHTLY["permissions"] == {"contents": "read"}


def test_every_python_of_the_workflow_is_promised():
    promised = {line.rpartition(" ")[2] for line in PROJECT["project"]["classifiers"] if "Python :: 3." in line}
    tested = set(re.findall(r"'(3\.\d+)'", str(WORKFLOW)))
    assert tested == promised


def chapters_that_need_torch():
    """By what their sources import: torch itself, or a name whose home holds tensors."""
    homes = ("minikv.store", "minikv.serving.llama", "torch")
    for source in sorted((ROOT / "notebooks" / "src").glob("[0-9]*.py")):
        for node in ast.walk(ast.parse(source.read_text("utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import | ast.ImportFrom) else []
            module = node.module if isinstance(node, ast.ImportFrom) else ""
            used = [module or "", *names, *(minikv._HOME_OF.get(name, "") for name in names)]
            if any(name.startswith(homes) for name in used):
                yield source.stem[:2]


def test_the_set_up_names_the_chapters_that_need_no_pytorch():
    start = (ROOT / "notebooks" / "site" / "start.md").read_text("utf-8")
    row = next(line for line in start.splitlines() if line.startswith("| `make lab TORCH=0`"))
    numbers = {path.stem[:2] for path in (ROOT / "notebooks" / "src").glob("[0-9]*.py")}
    assert set(re.findall(r"\b\d\d\b", row)) == numbers - set(chapters_that_need_torch())


def test_every_chapter_has_a_row_in_the_map():
    page = ROOT / "notebooks" / "src" / "map_and_glossary.py"
    rows = [line for line in page.read_text("utf-8").splitlines() if line.startswith("| [")]
    listed = re.findall(r"\((?:notebooks/)?(\d\d_\w+)\.ipynb\)", "\n".join(rows))
    assert listed == sorted(path.stem for path in (ROOT / "notebooks" / "src").glob("[0-9]*.py"))


def test_the_readme_is_true_about_the_command(capsys):
    from minikv import cli

    with pytest.raises(SystemExit):
        cli.main(["--help"])
    offered = set(re.findall(r"^    (\w+) ", capsys.readouterr().out, re.MULTILINE))
    pages = [ROOT / "README.md", *ROOT.glob("notebooks/site/*.md"), *ROOT.glob("tools/**/*.md")]
    promised = {
        name
        for page in pages
        for name in re.findall(r"(?:`|^)minikv(?:-tools)? (\w+)", page.read_text("utf-8"), re.MULTILINE)
    }
    assert {"lab", "doctor", "replay", "why"} <= promised
    assert promised <= offered


def test_the_guide_for_contributors_names_what_is_there():
    guide = (ROOT / ".github" / "CONTRIBUTING.md").read_text("utf-8")
    named = re.findall(r"`(\w+)` (?:of [^`.]*? )?in \[[^\]]+\]\(\.\./([\w./]+\.py)\)", guide)
    assert len(named) >= 10
    for name, path in named:
        source = (ROOT / path).read_text("utf-8")
        assert re.search(rf"^(class |def )?{name}\b", source, re.MULTILINE), f"{path} has no {name}"
    for path in re.findall(r"(?<![\w./])(?:tests|minikv|notebooks)/[\w./]+\.(?:py|ipynb)", guide):
        assert (ROOT / path).exists() or "NN" in path, path
    for folder in re.findall(r"`((?:tests|minikv|notebooks)/\w+)`", guide):
        assert (ROOT / folder).is_dir(), folder


JUDGED = ["copy_on_write", "manager", "pools", "prefix", "serving", "store", "testing"]
JUDGED_FILES = ["break_even", "cli/chat", "errors", "files", "interrupts", "sizing", "tokens", "untrusted"]


def test_every_file_that_mutants_are_made_of_names_tests_that_are_there():
    files = [ROOT / "minikv" / f"{name}.py" for name in JUDGED_FILES]
    files += [path for package in JUDGED for path in (ROOT / "minikv" / package).rglob("*.py")]
    files = [path for path in files if path.stem not in ("__init__", "triton_copy")]
    assert sorted(map(mutants.source_of, mutants.names())) == sorted(files)
    for name in mutants.names():
        for judge in mutants.judges_of(name):
            file, _, test = judge.partition("::")
            assert f"def {test}" in (ROOT / file).read_text("utf-8"), judge


def test_what_a_hosted_service_installs_is_a_part_of_the_course_without_torch_and_jupyter():
    hosted = names_of(required("colab"))
    assert hosted < names_of(required("course"))
    assert not hosted & {"torch", "jupyterlab", "ipywidgets"}

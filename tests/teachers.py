"""What the guide for teachers shows, made again: `python tests/teachers.py` writes it into the guide.

Each block of the guide between `<!-- NAME -->` and `<!-- end -->` is made here; test_classroom and test_verify compare
them.
"""

from __future__ import annotations

import ast
import contextlib
import functools
import io
import json
import linecache
import os
import re
import subprocess
import sys
import tempfile
import textwrap
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from unittest import mock

import nbformat
from project import ROOT

from minikv.course.pieces import begin, check
from minikv.course.pieces.mine import assembled
from minikv.course.pieces.piece import CHAPTERS, find_piece
from minikv.course.pieces.record import RIGHT, WRONG, remember
from minikv.course.pieces.stored import WrongAnswer, wrong_answers, wrong_answers_to
from minikv.engine import sections

GUIDE = ROOT / "notebooks" / "site" / "teachers.md"
BLOCK = re.compile(r"(<!-- ([a-z ]+) -->\n\n)(.*?)(\n<!-- end -->)", re.DOTALL)


# -- a class of ten ---------------------------------------------------------------------------------------------------


def other_right(id: str, which: int = 0) -> str:
    """An answer to a piece that passes, and is not the printed one."""
    text = (ROOT / "tests" / "right" / f"{int(id.split('.')[0]):02d}.txt").read_text("utf-8")
    return [section.text for section in sections(text) if section.id == id][which]


def stored_wrong(id: str, mistake: str) -> WrongAnswer:
    """The stored wrong answer to a piece with this mistake."""
    (found,) = [each for each in wrong_answers_to(id) if each.mistake == mistake]
    return found


def without_head(text: str) -> str:
    """The code of a stored answer, without what it is called and its hint."""
    return "".join(line for line in text.splitlines(keepends=True) if not line.startswith("# "))


def answer(id: str, text: str) -> None:
    """Answer a piece in a notebook's cell: `check` puts what it keeps into the file that MINIKV_MINE names."""
    piece, names = find_piece(id), {"__name__": "__main__"}
    cell = f"<cell {id} {zlib.crc32(text.encode())}>"
    linecache.cache[cell] = (len(text), None, text.splitlines(keepends=True), cell)
    with contextlib.redirect_stdout(io.StringIO()):
        begin(piece.chapter, names)
        exec(compile(text, cell, "exec"), names)
        check(f"{id} {piece.name}", names[piece.name])


def handed_in(right: Mapping[str, int], wrong: Mapping[str, str] | None = None) -> str:
    """A student's file: right answers by id, each the `which`th stored one, and wrong ones by their mistakes."""
    kept = {id: other_right(id, which) for id, which in right.items()}
    for id, mistake in (wrong or {}).items():
        kept[id] = without_head(stored_wrong(id, mistake).section.text)
    return assembled({piece: kept[piece] for piece in sorted(kept, key=lambda id: [*map(int, id.split("."))])})


def tried(right: Mapping[str, int], wrong: Mapping[str, str]) -> str:
    """The file that `check` writes for a student who gives these answers in notebooks, the wrong ones last."""
    answers = {id: other_right(id, which) for id, which in right.items()}
    answers |= {id: without_head(stored_wrong(id, mistake).section.text) for id, mistake in wrong.items()}
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "my_minikv.py")
        with mock.patch.dict(os.environ, MINIKV_MINE=str(file), MINIKV_PROGRESS=os.devnull):
            for id, text in answers.items():
                answer(id, text)
        return file.read_text("utf-8")


def with_other_names(id: str) -> str:
    """The printed solution with other names for two of its locals, a comment, and no docstring."""
    text = re.sub(r'    """.*?"""\n', "    # I did this\n", find_piece(id).solution, flags=re.DOTALL)
    for name, other in {"upper": "top", "wrong": "bad", "child": "kid"}.items():
        text = re.sub(rf"(?<![.\w]){name}\b", other, text)
    return text


POOL = {"2.1": 0, "2.2": 0, "2.3": 0}
TREE = {"3.3": 1, "3.4": 0, "3.5": 0, "3.6": 0, "3.1": 0}
BY_HAND = """def common(a, b):
    while a != b:
        a, b = a[:-1], b[:-1]
    return len(a)
"""  # edited after it had passed: a mistake that is not stored


def files_of_a_class() -> dict[str, str]:
    """Ten students by the names of their files, with the text of each: what the guide shows, and a test judges."""
    own = handed_in({**POOL, **TREE})
    dana = handed_in({"2.1": 0, "3.1": 0}, {"3.3": "the old node becomes the upper half", "3.4": "does not split"})
    return {
        "anna/my_minikv.py": own,
        "bela/my_minikv.py": tried({"2.1": 0, "2.3": 0, "3.4": 1}, {"3.3": "the old node becomes the upper half"}),
        "cem.py": tried({"2.1": 1}, {"2.2": "lets negative numbers pass"}),
        "dana_my_minikv.py": dana.replace(other_right("3.1"), BY_HAND),
        "eli/my_minikv.py": assembled({id: with_other_names(id) for id in ("2.1", "2.2", "2.3", "3.3", "3.4")}),
        "fay/minikv-course/my_minikv.py": own + "\nprint(Counter([1, 2]))\n",
        "gus/notes.txt": "I was ill.\n",
        "hana.py": handed_in({"2.1": 1, "2.3": 1}),
        "ivo/my_minikv.py": handed_in(POOL),
        "jo/my_minikv.py": handed_in({"2.1": 0, "2.2": 1, "3.3": 0, "3.1": 1}),
    }


def write_class(folder: Path) -> None:
    """Put the files of the class into a folder."""
    for name, text in files_of_a_class().items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, "utf-8")


RECORD = {"1.1": RIGHT, "1.3": RIGHT, "2.1": RIGHT, "2.2": WRONG, "1.a": RIGHT, "2.a": {"question": "?", "said": "4"}}


# -- what is chosen for the guide --------------------------------------------------------------------------------------

# A lecture: minutes, chapters, what is shown. The slides show the guesses, the goals and the film that are named.
LECTURE = [
    (10, "00", "The film of a chat without a cache and with one. Then its instructions get a clock: guess 0.a."),
    (10, "00", "Type the room's suggestions into the playground, until you `make a prompt hit 8 tokens`."),
    (10, "01", "Guess 1.a. Then bytes per token, and how few prompts fit. This is why a cache has to evict."),
    (10, "02", "The careless pool. Guess 2.a, and let the room find a way to break it before you scroll on."),
    (20, "03", "The film at the top, step by step. Then guess 3.c, and `cut an edge in one step`."),
    (
        10,
        "04",
        "The film at the top. Can a cached prompt be evicted while a request reads it? "
        "Then `protect more than half with two locks`.",
    ),
    (10, "05", "`evict the prompt that was inserted last`: ask which prompt goes first, then press the button."),
    (10, "08", "The engine serves a chat through the tree. Guess 8.e. Then the map of the course."),
]
# A day from 9:00: the chapter that is read or built, or something else and its minutes.
DAY = [
    ("read", "00"), ("read", "01"), ("break", 15), ("read", "02"), ("build", "02"), ("lunch", 60), ("read", "03"),
    ("build", "03"), ("break", 15), ("read", "04"), ("read", "05"), ("the class report, and questions", 30),
]  # fmt: skip
WEEKS = [("00", "01"), ("02",), ("03",), ("04", "05"), ("07",), ("08",)]
PROJECTS = ("06", "09", "10", "11", "12", "13", "14")

# For each goal: what to ask before anybody presses a button, and one way to reach it.
WAYS = {
    "make a prompt hit 8 tokens": ("How long is the longest hit that you can make?", [("insert", "the cat ran")]),
    "cut an edge in one step": ("Does a lookup change the tree?", [("match", "1 2 9")]),
    "protect more than half with two locks": (
        "Which tokens do two locks protect once, and which twice?", [("lock", "1 2 3 4 5 6"), ("lock", "1 2 3 7 8 9")]),
    "make admit refuse a prompt that would fit": (
        "Two slots are free, and six are cached. What stops a prompt of five tokens?",
        [("lock", "1 2 3 4"), ("insert", "7 8 9 10 11")]),
    "evict the prompt that was inserted last": (
        "The oldest goes first. How does the newest become the oldest?",
        [("match", "1 1 1"), ("match", "2 2 2"), ("evict", 1)]),
    "publish, hit, and abort": (
        "A request is aborted. What stays in the cache?",
        [("start", "1 2 3 4"), ("publish", ""), ("insert", "1 2 3 9"), ("abort", "")]),
}  # fmt: skip
TYPED = "05"  # the chapter for a goal that no notebook has

# What goes wrong again and again: what it is about, what to say, and stored wrong answers that show it.
THEMES = [
    ("Equal tokens are not a shared prefix",
     "Ask: which tokens did this token see? The keys and values depend on everything before it.",
     [("2.4", "counts equal places"), ("3.1", "counts all equal places")]),
    ("The last token is always computed",
     "Ask: the whole prompt is cached, so where does the first token of the answer come from?",
     [("2.5", "looks up the whole prompt"), ("4.6", "matches the last token too")]),
    ("The owner of a slot",
     "Draw the row, and write an owner under each page. Two owners or none: that is the bug.",
     [("3.7", "frees no duplicates"), ("3.7", "frees the slots of the tree"), ("7.1", "the row is not rewritten"),
      ("7.3", "the whole row is the request's")]),
    ("Tokens and pages",
     "Ask for the unit of every number: tokens, slots, or pages?",
     [("1.4", "one slot for each page"), ("4.6", "takes a page for each token"), ("7.2", "cuts the row by tokens")]),
    ("Ask before you act",
     "Ask: an error is raised here. What has changed already?",
     [("2.1", "notices it halfway"), ("4.6", "looks for room before it locks"), ("5.6", "evicts before it checks")]),
    ("The node, or the whole path",
     "Point at the root: does the request read these tokens, too?",
     [("3.6", "only the last run"), ("4.1", "the last node only"), ("5.3", "touches only the node")]),
    ("A link has two ends",
     "Walk the structure in both directions, aloud.",
     [("3.3", "the parent keeps the old node"), ("3.5", "the leaf is not put into its parent"),
      ("5.2", "only forward")]),
    ("A flag where a count is needed",
     "Let two students hold the same node, and let one of them go.",
     [("4.1", "a mark in place of a count"), ("4.2", "sets the count to 0"), ("4.4", "a mark in place of a count")]),
]  # fmt: skip

VERIFIED = """from minikv import RadixCache


class Mine(RadixCache):
    def reset(self):
        self._clear()
"""


# -- the blocks of the guide ------------------------------------------------------------------------------------------


def bare(text: str) -> str:
    """The code of a solution, without its docstring and comments."""
    return ast.unparse(ast.parse(re.sub(r'    """.*?"""\n', "", text, flags=re.DOTALL)))


def as_output(command: str, output: str) -> str:
    """A command and what it prints."""
    return f"```console\n$ {command}\n{output}\n```\n"


def folded(line: str) -> str:
    """A long line of JSON, broken at spaces."""
    return textwrap.fill(line, 110, break_long_words=False, break_on_hyphens=False)


def shortened(line: str) -> str:
    """What `verify --json` prints for a class, with the first rule and the broken ones."""
    report = json.loads(line)
    first, *others = report["rules"]
    kept = [first, *(rule for rule in others if rule["state"] == "broken")]
    rules = ", ...\n    ".join(map(json.dumps, kept))
    return f'{{"file": "{report["file"]}", "class": "{report["class"]}", "rules": [\n    {rules}, ...]}}'


@functools.cache
def times() -> dict[str, tuple[int, int]]:
    """The minutes to read and to build each chapter, from its first cell."""
    found = {}
    for path in sorted((ROOT / "notebooks").glob("[0-9]*.ipynb")):
        text = nbformat.read(path, 4).cells[0].source
        read, build = re.search(r"\*\*Read\*\* (\d+) minutes(?:, \*\*build\*\* (\d+))?", text).groups()
        found[path.stem[:2]] = int(read), int(build or 0)
    return found


def link(chapter: str) -> str:
    """The number of a chapter, as a link to it."""
    (path,) = (ROOT / "notebooks").glob(f"{chapter}_*.ipynb")
    return f"[{chapter}](../{path.name})"


def table(head: str, rows: list[tuple[object, ...]]) -> str:
    """A table in Markdown; `head` has the names of the columns."""
    columns = head.split(" | ")
    lines = [columns, ["---"] * len(columns), *rows]
    return "".join(f"| {' | '.join(map(str, line))} |\n" for line in lines)


def lecture() -> str:
    """The table of the lecture."""
    begins = [sum(minutes for minutes, *_ in LECTURE[:at]) for at in range(len(LECTURE))]
    rows = [(f"{at // 60}:{at % 60:02d}", minutes, link(chapter), what)
            for at, (minutes, chapter, what) in zip(begins, LECTURE)]  # fmt: skip
    return table("begins | minutes | chapter | what the room sees", rows)


def workshop() -> str:
    """The table of the day."""
    rows, now = [], 9 * 60
    for what, which in DAY:
        minutes = times()[which][what == "build"] if isinstance(which, str) else which
        rows.append(
            (f"{now // 60}:{now % 60:02d}", minutes, f"{what} {link(which)}" if isinstance(which, str) else what)
        )
        now += minutes
    return table("begins | minutes | what", [*rows, (f"{now // 60}:{now % 60:02d}", "", "end")])


def six_weeks() -> str:
    """The table of the weeks, and what is left for projects."""
    rows, known = [], times()
    for week, chapters in enumerate(WEEKS, 1):
        read, build = (sum(known[chapter][which] for chapter in chapters) for which in (0, 1))
        rows.append((week, ", ".join(map(link, chapters)), f"{read} min", f"{build} min" if build else ""))
    projects = [f"{link(chapter)} ({sum(known[chapter])} min)" for chapter in PROJECTS]
    left = f"\nProjects for those who want more, reading and building together: {', '.join(projects)}.\n"
    return table("week | chapters | read in class | build at home", rows) + left


def goals() -> str:
    """The table of the playground's goals."""
    rows = []
    for goal, (question, steps) in WAYS.items():
        homes = [path.stem[:2] for path in sorted((ROOT / "notebooks" / "src").glob("*.py"))
                 if f'playground(goal="{goal}")' in path.read_text("utf-8")]  # fmt: skip
        chapter = link(homes[0]) if homes else f"after {link(TYPED)}"
        way = ", ".join(f"{verb} `{what}`" if what else verb for verb, what in steps)
        rows.append((chapter, f"`{goal}`", question, way))
    return table("chapter | goal | ask first | one way", rows)


def mistakes() -> str:
    """The themes, each with hints to stored wrong answers."""
    count = sum(len(wrong_answers(chapter)) for chapter in CHAPTERS)
    known = f"The course knows more than {count // 100 * 100:,} wrong answers, each with a hint."
    text = f"{known} Some mistakes come back in many functions:\n"
    for title, say, examples in THEMES:
        text += f"\n**{title}.** {say}\n\n"
        for id, mistake in examples:
            wrong = stored_wrong(id, mistake)
            text += f"- `{id} {wrong.section.name}`, {mistake}: *{wrong.hint.replace('*', '')}*\n"
    return text


MADE_HERE = {"lecture": lecture, "workshop": workshop, "six weeks": six_weeks, "goals": goals, "mistakes": mistakes}


def printed() -> dict[str, str]:
    """The blocks that are the output of a command, which is run here: this takes a minute."""
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "MINIKV_PROGRESS": f"{folder}/progress.json"}
        os.environ["MINIKV_PROGRESS"] = environment["MINIKV_PROGRESS"]
        for id, mark in RECORD.items():
            remember(id, mark)
        write_class(Path(folder, "homework"))
        Path(folder, "my_cache.py").write_text(VERIFIED, "utf-8")

        def run(command: str, form: Callable[[str], str] = str) -> str:
            words = [sys.executable, "-m", *command.split(), *["--examples", "0"] * ("verify" in command)]
            said = subprocess.run(words, cwd=folder, env=environment, capture_output=True, check=False).stdout
            return as_output(command, form(said.decode("utf-8").rstrip("\n")))

        return {
            "class report": run("minikv classroom homework"),
            "progress": run("minikv progress --json", folded),
            "verify": run("minikv verify my_cache.py --json", shortened),
        }


def blocks() -> dict[str, str]:
    """What the guide shows now, by the names of its blocks."""
    return {found[2]: found[3] for found in BLOCK.finditer(GUIDE.read_text("utf-8"))}


if __name__ == "__main__":
    made = {**{name: make() for name, make in MADE_HERE.items()}, **printed()}
    GUIDE.write_text(
        BLOCK.sub(lambda found: f"{found[1]}{made[found[2]]}{found[4]}", GUIDE.read_text("utf-8")), "utf-8"
    )

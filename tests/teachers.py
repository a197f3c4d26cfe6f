"""What the guide for teachers shows, made again: `python tests/teachers.py` writes it into the guide.

Each block of the guide between `<!-- NAME -->` and `<!-- end -->` is made here; test_classroom and test_verify compare
them.
"""

import ast
import functools
import json
import os
import re
import tempfile
import textwrap
from pathlib import Path

from chapters import NOTEBOOKS, load
from lesson import learner, stored
from project import ROOT, python, text_of, tomllib, write

from minikv.course.pieces.mine import assembled
from minikv.course.pieces.piece import CHAPTERS, find_piece
from minikv.course.pieces.record import RIGHT, WRONG, remember
from minikv.course.pieces.stored import wrong_answers, wrong_answers_to

GUIDE = ROOT / "notebooks/site/teachers.md"
BLOCK = re.compile(r"(<!-- ([a-z ]+) -->\n\n)(.*?)(\n<!-- end -->)", re.DOTALL)


# -- a class of ten ---------------------------------------------------------------------------------------------------


def other_right(id, which=0):
    """An answer to a piece that passes, and is not the printed one."""
    return [section.text for section in stored("right") if section.id == id][which]


def stored_wrong(id, mistake):
    """The stored wrong answer to a piece with this mistake."""
    (found,) = [each for each in wrong_answers_to(id) if each.mistake == mistake]
    return found


def without_head(text):
    """The code of a stored answer, without what it is called and its hint."""
    return "".join(line for line in text.splitlines(keepends=True) if not line.startswith("# "))


def answers(right, wrong):
    """Right answers by id, each the `which`th stored one, and then wrong ones by their mistakes."""
    found = {id: other_right(id, which) for id, which in right.items()}
    for id, mistake in (wrong or {}).items():
        found[id] = without_head(stored_wrong(id, mistake).section.text)
    return found


def handed_in(right, wrong=None):
    """A student's file with these answers."""
    return assembled(answers(right, wrong))


def tried(right, wrong):
    """The file that `check` writes for a student who gives these answers in notebooks."""
    with tempfile.TemporaryDirectory() as folder, learner(Path(folder)) as notebook:
        for id, text in answers(right, wrong).items():
            notebook.answer(id, text)
        return notebook.text


def with_other_names(id):
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


def files_of_a_class():
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


def write_class(folder):
    """Put the files of the class into a folder."""
    write(folder, files_of_a_class())


RECORD = {"1.1": RIGHT, "1.3": RIGHT, "2.1": RIGHT, "2.2": WRONG, "1.a": RIGHT, "2.a": {"question": "?", "said": "4"}}


# -- what is chosen for the guide --------------------------------------------------------------------------------------

CHOSEN = tomllib.loads(text_of("tests/teachers.toml"))
LECTURE, WAYS = CHOSEN["lecture"], CHOSEN["ways"]
TYPED = "05"  # the chapter for a goal that no notebook has


VERIFIED = """from minikv import RadixCache


class Mine(RadixCache):
    def reset(self):
        self._clear()
"""


# -- the blocks of the guide ------------------------------------------------------------------------------------------


def bare(text):
    """The code of a solution, without its docstring and comments."""
    return ast.unparse(ast.parse(re.sub(r'    """.*?"""\n', "", text, flags=re.DOTALL)))


def as_output(command, output):
    """A command and what it prints."""
    return f"```console\n$ {command}\n{output}\n```\n"


def folded(line):
    """A long line of JSON, broken at spaces."""
    return textwrap.fill(line, 110, break_long_words=False, break_on_hyphens=False)


def shortened(line):
    """What `verify --json` prints for a class, with the first rule and the broken ones."""
    report = json.loads(line)
    first, *others = report["rules"]
    kept = [first, *(rule for rule in others if rule["state"] == "broken")]
    rules = ", ...\n    ".join(map(json.dumps, kept))
    return f'{{"file": "{report["file"]}", "class": "{report["class"]}", "rules": [\n    {rules}, ...]}}'


@functools.cache
def times():
    """The minutes to read and to build each chapter, from its first cell."""
    found = {}
    for path in NOTEBOOKS:
        text = load(path).cells[0].source
        read, build = re.search(r"\*\*Read\*\* (\d+) minutes(?:, \*\*build\*\* (\d+))?", text).groups()
        found[path.stem[:2]] = int(read), int(build or 0)
    return found


def link(chapter):
    """The number of a chapter, as a link to it."""
    (path,) = ROOT.glob(f"notebooks/{chapter}_*.ipynb")
    return f"[{chapter}](../{path.name})"


def table(head, rows):
    """A table in Markdown; `head` has the names of the columns."""
    columns = head.split(" | ")
    lines = [columns, ["---"] * len(columns), *rows]
    return "".join(f"| {' | '.join(map(str, line))} |\n" for line in lines)


def lecture():
    """The table of the lecture."""
    begins = [sum(minutes for minutes, *_ in LECTURE[:at]) for at in range(len(LECTURE))]
    rows = [(f"{at // 60}:{at % 60:02d}", minutes, link(chapter), what)
            for at, (minutes, chapter, what) in zip(begins, LECTURE)]  # fmt: skip
    return table("begins | minutes | chapter | what the room sees", rows)


def workshop():
    """The table of the day."""
    rows, now = [], 9 * 60
    for what, which in CHOSEN["day"]:
        minutes = times()[which][what == "build"] if isinstance(which, str) else which
        rows.append(
            (f"{now // 60}:{now % 60:02d}", minutes, f"{what} {link(which)}" if isinstance(which, str) else what)
        )
        now += minutes
    return table("begins | minutes | what", [*rows, (f"{now // 60}:{now % 60:02d}", "", "end")])


def six_weeks():
    """The table of the weeks, and what is left for projects."""
    rows, known = [], times()
    for week, chapters in enumerate(CHOSEN["weeks"], 1):
        read, build = (sum(known[chapter][which] for chapter in chapters) for which in (0, 1))
        rows.append((week, ", ".join(map(link, chapters)), f"{read} min", f"{build} min" if build else ""))
    projects = [f"{link(chapter)} ({sum(known[chapter])} min)" for chapter in CHOSEN["projects"]]
    left = f"\nProjects for those who want more, reading and building together: {', '.join(projects)}.\n"
    return table("week | chapters | read in class | build at home", rows) + left


def goals():
    """The table of the playground's goals."""
    rows = []
    for goal, (question, steps) in WAYS.items():
        homes = [path.stem[:2] for path in sorted(ROOT.glob("notebooks/src/*.py"))
                 if f'playground(goal="{goal}")' in path.read_text("utf-8")]  # fmt: skip
        chapter = link(homes[0]) if homes else f"after {link(TYPED)}"
        way = ", ".join(f"{verb} `{what}`" if what else verb for verb, what in steps)
        rows.append((chapter, f"`{goal}`", question, way))
    return table("chapter | goal | ask first | one way", rows)


def mistakes():
    """The themes, each with hints to stored wrong answers."""
    count = sum(len(wrong_answers(chapter)) for chapter in CHAPTERS)
    known = f"The course knows more than {count // 100 * 100:,} wrong answers, each with a hint."
    text = f"{known} Some mistakes come back in many functions:\n"
    for theme in CHOSEN["themes"]:
        text += f"\n**{theme['title']}.** {theme['say']}\n\n"
        for id, mistake in theme["examples"]:
            wrong = stored_wrong(id, mistake)
            text += f"- `{id} {wrong.section.name}`, {mistake}: *{wrong.hint.replace('*', '')}*\n"
    return text


MADE_HERE = {"lecture": lecture, "workshop": workshop, "six weeks": six_weeks, "goals": goals, "mistakes": mistakes}


def printed():
    """The blocks that are the output of a command, which is run here: this takes a minute."""
    with tempfile.TemporaryDirectory() as folder:
        os.environ["MINIKV_PROGRESS"] = f"{folder}/progress.json"
        for id, mark in RECORD.items():
            remember(id, mark)
        write_class(Path(folder, "homework"))
        write(Path(folder), {"my_cache.py": VERIFIED})

        def run(command, form=str):
            words = ["-m", *command.split(), *["--examples", "0"] * ("verify" in command)]
            said = python(*words, cwd=Path(folder), PYTHONPATH=str(ROOT)).stdout
            return as_output(command, form(said.rstrip("\n")))

        return {
            "class report": run("minikv classroom homework"),
            "progress": run("minikv progress --json", folded),
            "verify": run("minikv verify my_cache.py --json", shortened),
        }


def blocks():
    """What the guide shows now, by the names of its blocks."""
    return {found[2]: found[3] for found in BLOCK.finditer(GUIDE.read_text("utf-8"))}


if __name__ == "__main__":
    made = {**{name: make() for name, make in MADE_HERE.items()}, **printed()}
    GUIDE.write_text(
        BLOCK.sub(lambda found: f"{found[1]}{made[found[2]]}{found[4]}", GUIDE.read_text("utf-8")), "utf-8"
    )

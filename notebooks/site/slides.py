"""The slides of the lecture: each part of the guide's plan, with the guesses, the goal and the film that it names.

All words are the guide's and the chapters': nothing is written twice.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from typing import Any

from films import playground_page

from minikv import playground

HEAD = """---
orphan: true
---
# {title}

Press → or Page Down for the next slide, and ← or Page Up for the one before. Films have their own buttons.
"""
PLAN = re.compile(r"^## (.*)\n(?:(?!## ).*\n)*?<!-- lecture -->\n((?:.*\n)*?)<!-- end -->", re.MULTILINE)
PART = re.compile(r"^\| (\d:\d\d) \| (\d+) \| \[(\d\d)\]\(\.\./(\w+)\.ipynb\) \| (.*) \|$", re.MULTILINE)
GOAL = re.compile(r"^\| .* \| `(.*)` \| (.*) \| (.*) \|$", re.MULTILINE)
LABEL = re.compile(r"\b\d+\.[a-z]\b")


def slides(guide: str, pages: Mapping[str, Any]) -> str:
    """The slides in Markdown, from the guide's text, and the chapters' pages by name."""
    ((title, plan),) = PLAN.findall(guide)
    goals = {goal: (question, way) for goal, question, way in GOAL.findall(guide)}
    parts = [HEAD.format(title=title)]
    for begins, minutes, number, name, said in PART.findall(plan):
        page = pages[name]
        question = page.cells[0].source.splitlines()[0].partition(" · ")[2]
        parts += [f"## {question}", f"{begins} · {minutes} minutes · [chapter {number}]({name}.ipynb)", said]
        for label in LABEL.findall(said):
            folded = html_of(page, f"{label}, the answer: ")
            parts += [f"**{label}: {question_of(page, label)}**", raw(folded)]
        named = re.findall("`(.+?)`", said)
        for goal in named:
            first, way = goals[goal]
            parts += [f"**{first}**", raw("<details><summary>One way</summary>"), way, raw("</details>")]
        if "film" in said:
            parts.append(raw(html_of(page, "Film of ", "Player with ")))
        elif named:
            parts.append(raw(playground_page(playground(goal=named[0]))[0]["text/html"]))
    return "\n\n".join(parts) + "\n"


def question_of(page: Any, label: str) -> str:
    """The question of a guess."""
    (cell,) = (cell for cell in page.cells if re.search(rf'^guess\(\s*"{label}"', cell.source, re.MULTILINE))
    calls = [node for node in ast.walk(ast.parse(cell.source)) if isinstance(node, ast.Call)]
    (question,) = (call.args[1].value for call in calls if ast.unparse(call.func) == "guess")
    return question


def html_of(page: Any, *begins: str) -> str:
    """The first output whose text begins so, as HTML."""
    outputs = [output.get("data", {}) for cell in page.cells for output in cell.get("outputs", [])]
    return next(data["text/html"] for data in outputs if data.get("text/plain", "").startswith(begins))


def raw(html: str) -> str:
    """HTML as it is, in Markdown."""
    return f"~~~~~{{raw}} html\n{html}\n~~~~~"

"""Freeze what the small model is trained on: `corpus.json`, from the course's own words and from `talk.txt`.

    python assets/model/corpus.py

The corpus is kept beside the weights, so that training can be repeated after the course's words have moved on.
Everything in it was written for this course.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from pathlib import Path

from minikv.files import replace

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
SOURCES = sorted((ROOT / "notebooks" / "src").glob("[0-9][0-9]_*.py"))
MODULES = sorted(path for path in (ROOT / "minikv").rglob("*.py") if not path.stem.startswith("ch0"))


def cells() -> Iterator[str]:
    """The text cells of all chapters."""
    for source in SOURCES:
        yield from re.findall(
            r'^# %% \[markdown\]\n"""\n(.*?)\n"""$', source.read_text("utf-8"), re.DOTALL | re.MULTILINE
        )


def prose() -> list[str]:
    """Text to read: chapters, docstrings and the README, without code, pictures and addresses."""
    texts = [*cells(), (ROOT / "README.md").read_text("utf-8")]
    for path in MODULES:
        tree = ast.parse(path.read_text("utf-8"))
        named = (ast.Module, ast.ClassDef, ast.FunctionDef)
        found = [ast.get_docstring(node) for node in ast.walk(tree) if isinstance(node, named)]
        texts += [text.split("\n\n>>>")[0] for text in found if text]
    kept = []
    for text in texts:
        text = re.sub(r"```.*?```|<[^>]+>|^!\[.*$|^\|.*$|^>>>.*$", "", text, flags=re.DOTALL | re.MULTILINE)
        text = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", text).replace("*", "")
        text = re.sub(r"\n{3,}", "\n\n", text).strip()
        if len(text) > 80 and text not in kept:
            kept.append(text)
    return kept


def talk() -> list[dict[str, object]]:
    """The questions and answers of `talk.txt`."""
    pairs = []
    for block in (HERE / "talk.txt").read_text("utf-8").split("\n\n")[1:]:
        questions, answer = block.strip().split("\n")
        pairs.append({"questions": [question.strip() for question in questions.split("|")], "answer": answer})
    return pairs


def glossary(known: set[str]) -> list[dict[str, object]]:
    """A pair for each word of the glossary that `talk.txt` says nothing about."""
    pairs = []
    for word, meaning in re.findall(r"^\| ([^|]+) \| ([^|]+) \| \d\d \|$", "\n".join(cells()), re.MULTILINE):
        if word not in known and "," not in word:
            answer = f"{word[0].upper()}{word[1:]}: {meaning}."
            pairs.append(
                {"questions": [f"What is {word}?", f"What does {word} mean?", f"Explain {word}."], "answer": answer}
            )
    return pairs


def self_checks() -> list[dict[str, object]]:
    """The questions at the end of each chapter, with their answers."""
    pairs = []
    for cell in cells():
        if "**Check yourself**" in cell:
            asked, told = cell.split("**Check yourself**")[1].split("<summary>Answers</summary>")
            numbered = [re.findall(r"^\d\. (.*)$", part, re.MULTILINE) for part in (asked, told)]
            pairs += [{"questions": [q.replace("*", "")], "answer": a.replace("*", "")} for q, a in zip(*numbered)]
    return pairs


def main() -> None:
    """Write `corpus.json`."""
    pairs = talk()
    known = {
        word
        for pair in pairs
        for question in pair["questions"]
        for word in re.findall(r"is (?:an? |the )?([\w -]+)\?", question)
    }
    desk = json.loads((ROOT / "assets" / "chats.json").read_text("utf-8"))
    corpus = {
        "about": "What the small model in this folder was trained on, written for this course; made by corpus.py.",
        "pairs": [*pairs, *glossary(known), *self_checks()],
        "desk": {"system": desk["system"], "chats": desk["chats"]},
        "prose": prose(),
    }
    replace(HERE / "corpus.json", json.dumps(corpus, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()

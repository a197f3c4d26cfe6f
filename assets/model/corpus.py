"""Freeze what the small model is trained on: `corpus.json`, from the course's own words and from `talk.txt`.

    python assets/model/corpus.py

The corpus is kept beside the weights, so that training can be repeated after the course's words have moved on.
Everything in it was written for this course.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from minikv.files import replace

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
SOURCES = sorted((ROOT / "notebooks" / "src").glob("[0-9][0-9]_*.py"))


def cells() -> Iterator[str]:
    """The text cells of all chapters."""
    for source in SOURCES:
        yield from re.findall(
            r'^# %% \[markdown\]\n"""\n(.*?)\n"""$', source.read_text("utf-8"), re.DOTALL | re.MULTILINE
        )


def prose() -> list[str]:
    """Text to read: the chapters and the README, without code, pictures and addresses."""
    kept = []
    for text in [*cells(), (ROOT / "README.md").read_text("utf-8")]:
        text = re.sub(r"```.*?```|<[^>]+>|^!\[.*$|^\|.*$|^>>>.*$", "", text, flags=re.DOTALL | re.MULTILINE)
        text = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", text).replace("*", "")
        text = re.sub(r"\n{3,}", "\n\n", text).strip()
        if len(text) > 80 and text not in kept:
            kept.append(text)
    return kept


def talk() -> list[dict[str, object]]:
    """The questions and answers of `talk.txt`."""
    pairs: list[dict[str, object]] = []
    for block in (HERE / "talk.txt").read_text("utf-8").strip().split("\n\n")[1:]:
        questions, answer = block.split("\n")
        pairs.append({"questions": [question.strip() for question in questions.split("|")], "answer": answer})
    return pairs


def main(arguments: Sequence[str] | None = None) -> None:
    """Write `corpus.json`; `arguments` may only ask for help."""
    argparse.ArgumentParser(description="Freeze what the small model is trained on.").parse_args(arguments)
    desk = json.loads((ROOT / "assets" / "chats.json").read_text("utf-8"))
    corpus = {
        "about": "What the small model in this folder was trained on, written for this course; made by corpus.py.",
        "pairs": talk(),
        "desk": {"system": desk["system"], "chats": desk["chats"]},
        "prose": prose(),
    }
    replace(HERE / "corpus.json", json.dumps(corpus, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()

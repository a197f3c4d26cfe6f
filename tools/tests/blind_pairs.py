"""Pairs of requests that others wrote, with their answers: `python tools/tests/blind_pairs.py batch_one` prints them.

A batch was written by somebody who had seen `--help` and the list of kinds, and committed before the command ran on it.
Each pair has a name, the requests `a` and `b`, the kind or kinds that are right, and the place, the advice and whether
the provider misses, in words that a reader judges. The requests share most of their text, so the file is compressed:
`xz -dc tools/tests/blind/batches.json.xz` shows it.
"""

from __future__ import annotations

import contextlib
import io
import json
import lzma
import sys
import tempfile
from pathlib import Path
from typing import Any

from minikv import cli

BATCHES = Path(__file__).with_name("blind") / "batches.json.xz"


def batches() -> dict[str, list[dict[str, Any]]]:
    """The pairs of each batch."""
    with lzma.open(BATCHES, "rt", encoding="utf-8") as file:
        return json.load(file)


def answer(pair: dict[str, Any]) -> dict[str, Any]:
    """What the command says of a pair, as JSON; with the one key `refused` where it does not take it."""
    names = []
    with tempfile.TemporaryDirectory() as folder:
        for side in "ab":
            text = pair[side]
            if not isinstance(text, str):
                text = json.dumps(text, ensure_ascii=False)
            Path(folder, side).write_text(text, "utf-8")
            names.append(str(Path(folder, side)))
        out, error = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(error):
            status = cli.main(["why", *names, "--json"])
    return json.loads(out.getvalue()) if status == 0 else {"refused": error.getvalue().strip()}


def agrees(pair: dict[str, Any], found: dict[str, Any]) -> bool:
    """Whether the kind found is one of those that are right."""
    kinds = pair["kind"]
    named = [kinds] if isinstance(kinds, str) else kinds
    return found.get("kind") in [kind.removesuffix(" (harmless)") for kind in named]


def main(name: str) -> None:
    """Print each pair of a batch beside the answer to it, and count the kinds that agree."""
    pairs, agree = batches()[name], 0
    for pair in pairs:
        found = answer(pair)
        agree += agrees(pair, found)
        for side, said in (("expected", pair), ("found", found)):
            words = {key: value for key, value in said.items() if key not in ("a", "b")}
            print(f"{side:<9}{json.dumps(words, ensure_ascii=False)}")
    print(f"\n{agree} of {len(pairs)} kinds agree")


if __name__ == "__main__":
    main(sys.argv[1])

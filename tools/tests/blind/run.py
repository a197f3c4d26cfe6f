"""Runs `minikv why A B` over a batch of pairs (python tests/blind/run.py batch_one), and prints its answers.

A batch was written by somebody who had seen `--help` and the list of kinds, and committed before the command ran on it.
Whether a kind agrees is counted; places and advice are words, and a reader judges them.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from minikv import cli


def answer(pair: dict[str, Any]) -> dict[str, Any]:
    """What the command says of a pair, as JSON; with the one key `refused` where it does not take it."""
    names = []
    with tempfile.TemporaryDirectory() as folder:
        for side in "ab":
            text = pair[side] if isinstance(pair[side], str) else json.dumps(pair[side], ensure_ascii=False)
            Path(folder, side).write_text(text, "utf-8")
            names.append(str(Path(folder, side)))
        out, error = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(error):
            status = cli.main(["why", *names, "--json"])
    return json.loads(out.getvalue()) if status == 0 else {"refused": error.getvalue().strip()}


def expected(pair: dict[str, Any]) -> set[str]:
    """The kinds that are right for a pair."""
    return {pair["kind"]} if isinstance(pair["kind"], str) else set(pair["kind"])


def main(name: str) -> None:
    """Print each pair of a batch with the answer to it, and count the kinds that agree."""
    pairs, agree = importlib.import_module(name).PAIRS, 0
    for number, pair in enumerate(pairs, start=1):
        found, kinds = answer(pair), expected(pair)
        agree += (same := found.get("kind") in kinds)
        print(f"\n{number}. {pair['name']}   {'kind agrees' if same else 'KIND DIFFERS'}")
        print(f"   kind      {' or '.join(sorted(kinds))}\n   got       {found.get('kind')} ({found.get('detail')})")
        if "refused" in found:
            print(f"   refused   {found['refused']}")
            continue
        said = [f"{spot['place']} +{spot['character']}" if spot else "its end" for spot in (found["a"], found["b"])]
        print(f"   place     {pair['place']}\n   got       {' | '.join(said)}")
        print(f"   advice    {pair['advice']}\n   got       {found['remedy']}")
        print(f"   misses    {pair['provider_misses']}\n   got       {found['shared']} shared, {found['caches'][-1]}")
    print(f"\n{agree} of {len(pairs)} kinds agree")


if __name__ == "__main__":
    main(sys.argv[1])

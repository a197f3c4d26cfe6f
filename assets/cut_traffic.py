"""Real traffic for chapter 13, cut from two public traces: `traffic/chat.jsonl.gz` and `traffic/agents.jsonl.gz`.

    python assets/cut_traffic.py FOLDER     reads two files in FOLDER and writes both assets, always the same

The chat is the first 3,000 requests of Mooncake's hour, `mooncake_conversation_trace.jsonl`, as they were published.

The agents are every 29th of 692 Claude Code sessions, `claude_code_sessions.jsonl.gz`: one session per line, each
request with its time, its lengths, how many blocks it shares with the request before it, and the ids of the others. In
the source a block has 64 tokens, and the same id may occur in several places. Here eight blocks become one of 512
tokens, the size of Mooncake's, and an id stands for everything up to the end of its block. `system_prompt_tokens`
counts the tools and the system prompt, with which each request of the session begins. `traffic/NOTICE.md` says whose
data this is.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
from pathlib import Path
from typing import Any

from minikv.files import replace

CHAT, CHAT_REQUESTS = "mooncake_conversation_trace.jsonl", 3000
AGENTS, EVERY = "claude_code_sessions.jsonl.gz", 29
JOINED = 8  # blocks of 64 tokens that become one


def joined(blocks: list[int], names: dict[tuple[int, ...], int]) -> list[int]:
    """The ids of a prompt's longer blocks; `names` has those of the session, by the id before and the blocks in it.

    >>> names = {}
    >>> joined([*range(16), 5], names), joined([*range(8), *range(20, 28)], names)
    ([1, 2], [1, 3])
    """
    found = [0]
    for end in range(JOINED, len(blocks) + 1, JOINED):
        found.append(names.setdefault((found[-1], *blocks[end - JOINED : end]), len(names) + 1))
    return found[1:]


def runs_of(numbers: list[int]) -> list[list[int]]:
    """Numbers as runs of consecutive ones.

    >>> runs_of([3, 4, 5, 9])
    [[3, 3], [9, 1]]
    """
    runs: list[list[int]] = []
    for number in numbers:
        if runs and sum(runs[-1]) == number:
            runs[-1][1] += 1
        else:
            runs.append([number, 1])
    return runs


def cut_session(session: dict[str, Any]) -> dict[str, Any]:
    """A session in blocks of 512 tokens, without all that no chapter needs.

    >>> requests = [[0.0, 1100, 9, 0, [[1, 17]], 2.5], [5.0, 1600, 9, 17, [[30, 8]], 3.1]]
    >>> cut_session({"block_size": 64, "tool_tokens": 500, "system_tokens": 100, "requests": requests})["requests"]
    [[0.0, 1100, 9, 0, [[1, 2]]], [5.0, 1600, 9, 2, [[3, 1]]]]
    """
    names: dict[tuple[int, ...], int] = {}
    blocks, before, requests = list[int](), list[int](), []
    for seconds, length, output, shared, runs, *_ in session["requests"]:
        blocks = blocks[:shared] + [number for first, count in runs for number in range(first, first + count)]
        found = joined(blocks, names)
        same = len(os.path.commonprefix([before, found]))  # noqa: RUF071 - lists, not paths
        requests.append([seconds, length, output, same, runs_of(found[same:])])
        before = found
    fixed = session["tool_tokens"] + session["system_tokens"]
    return {"block_size": JOINED * session["block_size"], "system_prompt_tokens": fixed, "requests": requests}


def cut(folder: Path) -> dict[str, bytes]:
    """Both assets, not yet packed, by name."""
    chat = (folder / CHAT).read_bytes().splitlines(keepends=True)[:CHAT_REQUESTS]
    with gzip.open(folder / AGENTS, "rt", encoding="utf-8") as file:
        sessions = [json.loads(line) for line in file][::EVERY]
    lines = [json.dumps(cut_session(session), separators=(",", ":")) + "\n" for session in sessions]
    return {"chat.jsonl.gz": b"".join(chat), "agents.jsonl.gz": "".join(lines).encode()}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Cut the traffic of chapter 13 from two public traces.")
    parser.add_argument("folder", type=Path, help=f"has {CHAT} and {AGENTS}")
    for name, content in cut(parser.parse_args().folder).items():
        replace(Path(__file__).resolve().parent / "traffic" / name, gzip.compress(content, mtime=0))

"""The command `minikv`: open the course, look after the installation, measure traffic, race the tree, chat.

Nothing heavy is imported here, so Ctrl-C is one clear line from the first import on.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Sequence


def main(argv: Sequence[str] | None = None, program: str = "minikv") -> int:
    """Run the command; returns its exit status: 0 done, 1 it failed, 2 the call or its input is wrong, 130 interrupted.

    Without `argv` the arguments are those of this process, which ends afterwards.

    >>> main(["replay", "no_such_file.jsonl"])
    2
    """
    try:
        from minikv.cli.command import run

        return run(argv, program)
    except KeyboardInterrupt:
        if argv is None:
            signal.signal(signal.SIGINT, signal.SIG_IGN)  # the process ends now: a second press changes nothing
        if sys.stderr is not None:
            print(f"{program}: interrupted", file=sys.stderr)
        return 130

"""Every run of chapter 00's chat, for where torch is not installed.

python assets/live_chat.py     writes live_chat.json
"""

from __future__ import annotations

import json
from typing import Any

from figures import command_line

from minikv.course.live_chat import live_chat, run_name
from minikv.files import replace


def stored_runs() -> dict[str, list[dict[str, Any]]]:
    """What `live_chat.json` must hold: a run of each kind; it needs torch."""
    kinds = [(cache, clock) for cache in (True, False) for clock in (False, True)]
    return {run_name(*kind): [vars(turn) for turn in live_chat(*kind).turns] for kind in kinds}


if __name__ == "__main__":
    options = command_line(__doc__, "live_chat.json").parse_args()
    replace(options.save, json.dumps(stored_runs(), ensure_ascii=False, indent=1) + "\n")

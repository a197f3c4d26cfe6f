"""The commands of the tools, and `minikv-tools`, which runs them: with `minikv` they are its commands, too."""

from __future__ import annotations

import sys

from minikv.cli import main as run


def main() -> None:
    """Run the command that this process was called with, and end with its status."""
    sys.exit(run(program="minikv-tools"))

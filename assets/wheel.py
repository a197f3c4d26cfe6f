"""What Hatchling adds to the package when it builds one: the notebooks and the assets.

`[tool.hatch.build.targets.wheel.hooks.custom]` in `pyproject.toml` names this file. `minikv lab` copies the notebooks
into the learner's folder; they have no outputs, which come with the first run. An editable installation reads the
checkout instead.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

NOT_SHIPPED = {"readme", "__pycache__"}  # folders of `assets`; nor its scripts, which make the rest in a checkout


class Course(BuildHookInterface):  # type: ignore[misc, type-arg, unused-ignore]
    """The hook that adds the course to a wheel."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Name the files to add, for each the place where it goes."""
        if version == "editable":
            return
        root, added = Path(self.root), build_data["force_include"]
        for path in sorted((root / "assets").rglob("*")):
            place = path.relative_to(root)
            is_left_out = any(part in NOT_SHIPPED or part.startswith(".") for part in place.parts)
            if path.is_file() and path.suffix != ".py" and not is_left_out:
                added[str(path)] = f"minikv/{place.as_posix()}"
        self._folder = tempfile.TemporaryDirectory()
        for source in sorted((root / "notebooks" / "src").glob("*.py")):  # a notebook without one is somebody's draft
            path = root / "notebooks" / f"{source.stem}.ipynb"
            shipped = Path(self._folder.name) / path.name
            shipped.write_text(without_outputs(path.read_text("utf-8")), "utf-8", newline="\n")
            added[str(shipped)] = f"minikv/notebooks/{path.name}"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove the notebooks that were made for the wheel."""
        if version != "editable":
            self._folder.cleanup()


def without_outputs(text: str) -> str:
    """A notebook without what its cells printed.

    >>> without_outputs('{"cells": [{"cell_type": "code", "execution_count": 3, "outputs": ["..."]}]}').count("...")
    0
    """
    notebook = json.loads(text)
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            cell["outputs"], cell["execution_count"] = [], None
    return json.dumps(notebook, ensure_ascii=False, indent=1) + "\n"

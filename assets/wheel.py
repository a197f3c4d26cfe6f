"""What Hatchling adds to the package when it builds one: the notebooks, the assets, and links that PyPI can follow.

`[tool.hatch.….hooks.custom]` in `pyproject.toml` name this file. `minikv lab` copies the notebooks into the learner's
folder; they have no outputs, which come with the first run. An editable installation reads the checkout instead.
"""

from __future__ import annotations

import json
import re
import sys
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from hatchling.metadata.plugin.interface import MetadataHookInterface

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

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


class Links(MetadataHookInterface):  # type: ignore[misc, unused-ignore]
    """The hook that gives PyPI the README and the project's addresses."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Fill in what `pyproject.toml` calls dynamic."""
        root = Path(self.root)
        address = tomllib.loads((root / "pyproject.toml").read_text("utf-8"))["tool"]["minikv"]
        text = readme((root / "README.md").read_text("utf-8"), address["repository"], address["tag"])
        metadata["readme"] = {"content-type": "text/markdown", "text": text}
        metadata["urls"] = urls(address["repository"], address["tag"])


def readme(text: str, repository: str, tag: str) -> str:
    """The README for a page elsewhere: links and pictures lead to the repository, or go where it has no address.

    >>> readme("![A film](a.gif) in [a file](b.py)", "https://github.com/me/minikv", "v1")
    '![A film](https://github.com/me/minikv/raw/v1/a.gif) in [a file](https://github.com/me/minikv/blob/v1/b.py)'
    >>> readme("![A film](a.gif) in [a file](b.py), [there](https://x.org)", "", "v1")
    ' in a file, [there](https://x.org)'
    """

    def lead(link: re.Match[str]) -> str:
        mark, words, target = link.groups()
        if re.match(r"[a-z]+:|#", target):
            return link[0]
        if not repository:
            return "" if mark else words
        return f"{mark}[{words}]({repository}/{'raw' if mark else 'blob'}/{tag}/{target})"

    return re.sub(r"(!?)\[([^\]]*)\]\(([^)\s]+)\)", lead, text)


def urls(repository: str, tag: str) -> dict[str, str]:
    """The links beside the project on PyPI; none while the repository has no address.

    >>> urls("https://github.com/me/minikv", "v1")["Changelog"]
    'https://github.com/me/minikv/blob/v1/.github/CHANGELOG.md'
    """
    if not repository:
        return {}
    pages = {"Source": "", "Issues": "/issues", "Changelog": f"/blob/{tag}/.github/CHANGELOG.md"}
    return {name: f"{repository}{page}" for name, page in pages.items()}

"""What Hatchling says of both projects to PyPI: their READMEs and addresses, with links that can be followed there.

`[tool.hatch.metadata.hooks.custom]` in both `pyproject.toml` names this file, and says where the checkout is, the
folder in it and its changelog. It is in the folder of the tools because it comes with their sources.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

from hatchling.metadata.core import load_toml
from hatchling.metadata.plugin.interface import MetadataHookInterface


class Links(MetadataHookInterface):  # type: ignore[misc, unused-ignore]
    """The hook that gives PyPI the README and the project's addresses."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Fill in what `pyproject.toml` calls dynamic."""
        if "readme" in metadata:  # from PKG-INFO: these are the sources that PyPI has
            metadata.setdefault("urls", {})
            return
        address = load_toml(f"{self.root}/{self.config['checkout']}/pyproject.toml")["tool"]["minikv"]
        text = readme(Path(self.root, "README.md").read_text("utf-8"), **address, folder=self.config["folder"])
        metadata["readme"] = {"content-type": "text/markdown", "text": text}
        metadata["urls"] = urls(**address, changelog=self.config["changelog"])


def readme(text: str, repository: str, tag: str, folder: str = ".") -> str:
    """The README of a folder for a page elsewhere: its links lead to the repository, or go where it has no address.

    >>> readme("![A film](a.gif) in [a file](b.py)", "https://github.com/me/minikv", "v1")
    '![A film](https://github.com/me/minikv/raw/v1/a.gif) in [a file](https://github.com/me/minikv/blob/v1/b.py)'
    >>> readme("[The course](../README.md)", "https://github.com/me/minikv", "v1", "tools")
    '[The course](https://github.com/me/minikv/blob/v1/README.md)'
    >>> readme("![A film](a.gif) in [a file](b.py), [there](https://x.org)", "", "v1")
    ' in a file, [there](https://x.org)'
    """

    def lead(link: re.Match[str]) -> str:
        mark, words, target = link.groups()
        if not repository:
            return "" if mark else words
        path = posixpath.normpath(f"{folder}/{target}")
        return f"{mark}[{words}]({repository}/{'raw' if mark else 'blob'}/{tag}/{path})"

    return re.sub(r"(!?)\[([^\]]*)\]\((?![a-z]+:|#)([^)\s]+)\)", lead, text)


def urls(repository: str, tag: str, changelog: str) -> dict[str, str]:
    """The links beside a project on PyPI; none while the repository has no address.

    >>> urls("https://github.com/me/minikv", "v1", ".github/CHANGELOG.md")["Changelog"]
    'https://github.com/me/minikv/blob/v1/.github/CHANGELOG.md'
    """
    if not repository:
        return {}
    return {
        "Source": repository,
        "Issues": f"{repository}/issues",
        "Changelog": f"{repository}/blob/{tag}/{changelog}",
    }

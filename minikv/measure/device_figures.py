"""Figures in a JSON file, one object for each device that they were measured on."""

from __future__ import annotations

import dataclasses
import json
from typing import TYPE_CHECKING, Any

from minikv.errors import bounded
from minikv.files import destination, locked, read_object, replace

if TYPE_CHECKING:
    from minikv.measure.chatting import EngineFigures
    from minikv.measure.copying import CopyFigures


def saved(path: str, field: str) -> dict[str, Any]:
    """The figures in a JSON file, by device; none where there is no file yet.

    `field` is one that all figures of this kind have. `OSError` where no file can be written, `ValueError` where there
    is another one: ask before a long measurement.

    >>> saved("no_such_file.json", "memcpy")
    {}
    """
    known = read_object(destination(path))
    for device, figures in known.items():
        if not isinstance(figures, dict) or field not in figures:
            raise ValueError(f"{path!r} holds {bounded(device)}, which is not the figures of a device")
    return known


def save(figures: CopyFigures | EngineFigures, path: str, field: str) -> None:
    """Put figures into a JSON file beside those of other devices, in place of older ones of the same device."""
    with locked(path):
        known = {**saved(path, field), figures.device: dataclasses.asdict(figures)}
        replace(path, json.dumps(dict(sorted(known.items())), indent=1) + "\n")

"""What the scripts that measure share: their options, and the file that their figures go into."""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from minikv.cli.command import positive
from minikv.errors import bounded
from minikv.files import destination, read_object, replace
from minikv.measure.race import ROUNDS
from minikv.measure.results import Measured
from minikv.progress_bar import Progress


def command_line(
    says: str | None, save: str | None = None, look: Callable[[str], Any] = destination
) -> argparse.ArgumentParser:
    """The options of a script whose docstring is `says`: `--save`, by default the file `save` beside the scripts.

    `look` raises `OSError` or `ValueError` where nothing can be saved, which is said before anything is measured.

    >>> command_line("Count to ten.").parse_args(["--save", "ten.json"]).save
    'ten.json'
    """

    def file(path: str) -> str:
        try:
            look(path)
        except (OSError, ValueError) as error:
            raise argparse.ArgumentTypeError(f"cannot save the figures: {error}") from None
        return path

    parser = argparse.ArgumentParser(description=says, formatter_class=argparse.RawDescriptionHelpFormatter)
    default = str(Path(__file__).resolve().with_name(save)) if save else None
    where = f"default: {save} beside this script" if save else "beside those of other devices"
    parser.add_argument("--save", metavar="FILE", type=file, default=default, help=f"put the figures there ({where})")
    return parser


def measure_into(name: str, says: str | None, measure: Callable[..., Measured]) -> None:
    """Run a script whose figures are all of the file `name`.json: measure them, print them, save them."""
    options = command_line(says, f"{name}.json").parse_args()
    with Progress(command=name) as tick:
        found = measure(tick=tick)
    print(found.report())
    replace(options.save, json.dumps(dataclasses.asdict(found), indent=1) + "\n")


def for_a_device(says: str | None, field: str) -> argparse.ArgumentParser:
    """The options of a script that measures one device; all its figures have the field `field`.

    >>> options = for_a_device("Count to ten.", "tens").parse_args(["--rounds", "3", "--quick"])
    >>> options.rounds, options.quick, options.save
    (3, True, None)
    """
    parser = command_line(says, look=partial(saved_figures, field=field))
    parser.set_defaults(field=field)
    parser.add_argument("--rounds", type=positive, default=ROUNDS, metavar="N", help=f"rounds (default {ROUNDS})")
    parser.add_argument("--quick", action="store_true", help="a first look: small, and no promise is judged")
    return parser


def tell(figures: Any, options: argparse.Namespace) -> None:
    """Print the figures of a device, and save them if `options` say so; the script ends with a line if it cannot."""
    print(figures.report())
    try:
        if options.save:
            save_figures(figures, options.save, options.field)
    except (OSError, ValueError) as error:
        sys.exit(f"cannot save the figures: {error}")


def saved_figures(path: str, field: str) -> dict[str, Any]:
    """The figures in a JSON file, by device; none where there is no file yet.

    `field` is one that all figures of this kind have. `OSError` where no file can be written, `ValueError` where there
    is another one: ask before a long measurement.

    >>> saved_figures("no_such_file.json", "memcpy")
    {}
    """
    known = read_object(destination(path))
    for device, figures in known.items():
        if not isinstance(figures, dict) or field not in figures:
            raise ValueError(f"{path!r} holds {bounded(device)}, which is not the figures of a device")
    return known


def save_figures(figures: Any, path: str, field: str) -> None:
    """Put figures into a JSON file beside those of other devices, in place of older ones of the same device."""
    known = {**saved_figures(path, field), figures.device: dataclasses.asdict(figures)}
    replace(path, json.dumps(dict(sorted(known.items())), indent=1) + "\n")

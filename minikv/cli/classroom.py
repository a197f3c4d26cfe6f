"""The commands `minikv classroom` and `minikv progress`: what a class has solved, and what one learner has."""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
from pathlib import Path

from minikv.cli.command import RefusedError, add_json, require_packages, say, using
from minikv.errors import shown
from minikv.progress_bar import Progress, quiet

_EXAMPLES = """A student's file is FOLDER/anna.py, FOLDER/anna_my_minikv.py, or a my_minikv.py anywhere in FOLDER/anna.
Each file runs in a separate process, but with your rights: judge only files from people you trust.
Processes that it starts end with it: on macOS only those in its process group, on Windows none.

examples:
  minikv classroom homework                       who solved what, and the most frequent mistakes
  minikv classroom homework --csv > marks.csv     for a spreadsheet
  minikv classroom homework --json                everything, with the smallest failing case of each wrong function"""

_RECORD = """Progress is read from progress.json here or in minikv-course, or from the file that MINIKV_PROGRESS names.

examples:
  minikv progress
  minikv progress --json"""


def add_classroom(classroom: argparse.ArgumentParser) -> None:
    """Add the options of `minikv classroom` to its parser.

    >>> parser = argparse.ArgumentParser(); add_classroom(parser)
    >>> parser.parse_args(["homework", "--csv"]).csv
    True
    """
    classroom.epilog = _EXAMPLES
    classroom.add_argument("folder", type=Path, help="the folder that holds each student's my_minikv.py")
    forms = classroom.add_mutually_exclusive_group()
    forms.add_argument("--json", action="store_true", help="print one JSON object")
    forms.add_argument("--csv", action="store_true", help="print one line per student, with one column per function")


def run_classroom(options: argparse.Namespace) -> int:
    """Judge the files of a class and print the report: 0, or 2 where there are none."""
    require_packages("minikv classroom", "hypothesis")
    from minikv.course.classroom import judge_class, student_files

    folder = str(options.folder)
    with using(folder, "use"):
        total = len(student_files(options.folder))
    if not total:
        raise RefusedError(f"{shown(folder)} has no student files: expected NAME.py or NAME/my_minikv.py")
    with Progress(command="minikv classroom") as tick:
        tick.expect(total)
        report = judge_class(options.folder, tick if sys.stderr and sys.stderr.isatty() else quiet)
    if options.json:
        say(json.dumps(report.as_json(), ensure_ascii=False))
    else:
        say(report.as_csv() if options.csv else str(report))
    return 0


def add_progress(progress: argparse.ArgumentParser) -> None:
    """Add the options of `minikv progress` to its parser.

    >>> parser = argparse.ArgumentParser(); add_progress(parser)
    >>> parser.parse_args(["--json"]).json
    True
    """
    progress.epilog = _RECORD
    add_json(progress)


def run_progress(options: argparse.Namespace) -> int:
    """Print what `progress()` shows in a notebook, from the record; returns the exit status."""
    require_packages("minikv progress", "hypothesis")
    from minikv.course.pieces import progress
    from minikv.course.pieces.record import as_json, look_in_the_course

    look_in_the_course()
    if not options.json:
        progress()
        return 0
    with contextlib.redirect_stdout(sys.stderr):  # where the record cannot be read, that is said
        found = as_json()
    say(json.dumps(found))
    return 0

"""The engine that the learner builds, piece by piece: `check`, hints, predictions, and the learner's own file."""

from minikv.course.pieces.catch import catch
from minikv.course.pieces.checking import accepted, begin, check, mine
from minikv.course.pieces.guessing import fold, guess, progress
from minikv.course.pieces.hunt import careless
from minikv.course.pieces.mistakes import hint, solution
from minikv.course.pieces.showing import Code, source
from minikv.engine import given, ours

__all__ = [
    "Code",
    "accepted",
    "begin",
    "careless",
    "catch",
    "check",
    "fold",
    "given",
    "guess",
    "hint",
    "mine",
    "ours",
    "progress",
    "solution",
    "source",
]

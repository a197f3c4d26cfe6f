"""Exercises that are checked by counterexample, and the record of what is solved."""

from minikv.learn.exercises import check, progress

__all__ = ["check", "progress"]

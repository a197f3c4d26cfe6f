"""Exercises checked by counterexample, and the record of what is solved."""

from minikv.course.exercises.exercise import check

__all__ = ["check"]

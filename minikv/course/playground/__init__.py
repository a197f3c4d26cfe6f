"""The playground: one live cache for a classroom, with buttons, scenes, undo and redo."""

from minikv.course.playground.lessons import GOALS, Scene
from minikv.course.playground.widgets import Playground, playground

__all__ = ["GOALS", "Playground", "Scene", "playground"]

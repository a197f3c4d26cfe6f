"""The playground: one live cache for a classroom, with buttons, scenes, undo and redo."""

from minikv.course.playground.widgets import Playground, playground

__all__ = ["Playground", "playground"]

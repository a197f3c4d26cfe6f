"""Pieces, hints, pictures and films: what the notebooks are made of (extra `course`)."""

from importlib.util import find_spec

if find_spec("anywidget") is None:  # it represents the extra: some parts would get far without any of its packages
    raise ModuleNotFoundError("the course is not installed: pip install 'minikv[course]'", name="anywidget")

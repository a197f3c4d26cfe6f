"""Pictures of live objects: trees, pools and page tables, each with its text twin."""

from minikv.course.pictures.draw import Picture, beside, draw
from minikv.course.pictures.plot import plot

__all__ = ["Picture", "beside", "draw", "plot"]

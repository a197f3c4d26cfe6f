"""Pictures of live objects: trees, pools and page tables, each with its text twin."""

from minikv.course.pictures.draw import draw
from minikv.course.pictures.picture import Picture, beside, plot

__all__ = ["Picture", "beside", "draw", "plot"]

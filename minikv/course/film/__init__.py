"""Films: what happens to a cache, its pool and its requests, recorded from outside, and shown step by step."""

from minikv.course.film.camera import Frame
from minikv.course.film.film import Film, Story, record

__all__ = ["Film", "Frame", "Story", "record"]

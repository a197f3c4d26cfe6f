"""Films: what happens to a cache, its pool and its requests, recorded from outside, and shown step by step."""

from minikv.course.film.film import Film, Story, record
from minikv.course.film.frame import Frame

__all__ = ["Film", "Frame", "Story", "record"]

"""Pictures of live objects: trees, pools and page tables, each with its text twin; players and films of them."""

from minikv.show.draw import Picture, beside, draw
from minikv.show.film import Film, Frame, Story, record
from minikv.show.player import Player, play
from minikv.show.playground import Playground, playground
from minikv.show.plot import plot

__all__ = [
    "Film", "Frame", "Picture", "Player", "Playground", "Story", "beside", "draw", "play", "playground", "plot",
    "record",
]  # fmt: skip

"""Pictures of live objects: trees, pools and page tables, each with its text twin, and a player for a row of them."""

from minikv.show.draw import Picture, beside, draw
from minikv.show.player import Player, play

__all__ = ["Picture", "Player", "beside", "draw", "play"]

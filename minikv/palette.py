"""The colors of the package: of states and events in every picture, of the lines of a plot, and of what is written.

Every command and every chapter draws with these, on light pages and on dark ones.
"""

from __future__ import annotations

from typing import NamedTuple

INK = "#212529"  # of what is written on a filled box
BOTH = "#70767d"  # of lines and words beside the boxes: it can be read on a white page and on a black one
# Of the lines of a plot, in this order; each can be told from a white page and from a black one.
LINES = ("#3b82d6", "#d04a58", "#2f9467", "#b07d12", "#9a62cc", BOTH, "#1c93a4")


class Look(NamedTuple):
    """How one state or event is shown; an event without a `fill` keeps that of the state."""

    letter: str
    fill: str
    line: str
    dash: str = ""
    weight: int = 1


STATES = {
    "free": Look(".", "none", "#868e96", "4 3"),
    "in hand": Look("h", "#ffe8cc", "#994d00"),
    "cached": Look("c", "#e9ecef", "#495057"),
    "locked": Look("l", "#fff3cd", "#664d03"),
}
# Where several happened, the first one here gives the colour.
EVENTS = {
    "evicted": Look("e", "#f8d7da", "#842029", "6 3", 2),
    "new": Look("n", "#cfe2ff", "#084298", "", 3),
    "joined": Look("j", "#cff4fc", "#055160", "", 2),
    "matched": Look("m", "#d1e7dd", "#0f5132", "", 2),
    "split": Look("s", "#e2d9f3", "#432874", "", 2),
    "taken": Look("+", "", "#994d00", "", 3),
    "freed": Look("−", "", "#c92a2a", "", 3),
}

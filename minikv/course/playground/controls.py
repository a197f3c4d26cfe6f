"""The controls of a playground: how they are placed, and what they offer."""

from __future__ import annotations

from typing import Any

import ipywidgets as widgets

NONE = 0  # locks and requests are numbered from 1
LABEL = {"description_width": "initial"}


def place(width: str, flex: str = "0 0 auto") -> Any:
    """The layout of one control: its width, and how it grows."""
    return widgets.Layout(width=width, flex=flex, max_width="100%", margin="2px 6px 2px 0")


def title(words: str) -> Any:
    """What a row of controls is for."""
    return widgets.HTML(f"<b>{words}</b>", layout=widgets.Layout(width="64px", margin="2px 0"))


def group(*controls: Any) -> Any:
    """Controls that stay together when the row wraps."""
    layout = widgets.Layout(flex_flow="row wrap", margin="0 16px 0 0", max_width="100%", overflow="visible")
    return widgets.HBox(list(controls), layout=layout)


def row(*controls: Any) -> Any:
    """Controls in one line, which wraps where the window is narrow."""
    layout = widgets.Layout(flex_flow="row wrap", align_items="center", overflow="visible")
    return widgets.HBox(list(controls), layout=layout)


def offer(field: Any, found: list[tuple[str, int]], nothing: str) -> None:
    """What can be chosen now; what was chosen stays chosen while it is there."""
    chosen = field.value
    field.options = found or [(nothing, NONE)]
    field.value = chosen if chosen in [number for _, number in found] else field.options[0][1]

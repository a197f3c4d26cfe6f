"""A guess is pressed: the answers to choose from as buttons, or a field, below the words of a cell."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from minikv.course.pieces.worlds import ipython

WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"


def offer_answers(words: str, offered: Sequence[str], press: Callable[[str], str]) -> bool:
    """Show words and, below them, a button for each answer offered, or else a field; return whether widgets run.

    `press` gets the answer that is pressed or typed, and what it returns replaces the words.

    >>> offer_answers("no guess yet", [], str)
    False
    """
    shell = ipython()
    try:
        import ipywidgets
    except ImportError:
        shell = None
    if shell is None:
        return False
    _show_answers(ipywidgets, shell.display_pub.publish, words, offered, press)
    return True


def _show_answers(
    widgets: Any, publish: Callable[..., None], words: str, offered: Sequence[str], press: Callable[[str], str]
) -> None:
    def say(words: str, **more: Any) -> None:
        publish({"text/plain": words}, transient={"display_id": box.model_id}, **more)

    def answer(control: Any) -> None:
        said = control.description if offered else text.value
        if control is not text or heard[-1:] != [said]:  # Enter, also with Shift, says nothing twice
            heard.append(said)
            say(press(said), update=True)

    def hear(control: Any, *_: Any) -> None:
        """Answer a moment later: what was typed may arrive after the click or the Enter."""
        asyncio.get_running_loop().call_later(0.1, answer, control)

    heard: list[str] = []
    text = widgets.Text(description="your guess", style={"description_width": "initial"}, continuous_update=False)
    buttons = [widgets.Button(description=word, layout={"width": "auto"}) for word in offered or ["guess"]]
    box = widgets.HBox(buttons if offered else [text, *buttons], layout={"flex_flow": "row wrap"})
    for control in box.children:
        control.on_msg(hear)
    say(words)
    publish({WIDGET_VIEW: {"version_major": 2, "version_minor": 0, "model_id": box.model_id}})

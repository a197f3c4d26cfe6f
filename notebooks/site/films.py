"""Films and playgrounds as HTML with their data inside, for a page that has no kernel."""

from __future__ import annotations

import json
from html import escape
from typing import Any

from minikv.course.player import Player
from minikv.course.playground import Playground
from minikv.course.playground.lessons import SCENES

DEMO = "two prompts share a prefix"  # what a playground without a goal shows, if it has done nothing yet


def show_films() -> None:
    """From now on, a player is shown as its data and its still, and a playground as a film of a few steps."""
    Player._repr_mimebundle_ = lambda player, **_: player_page(player)  # type: ignore[method-assign]
    Playground._repr_mimebundle_ = lambda room, **_: playground_page(room)  # type: ignore[method-assign]


def player_page(player: Player, below: str = "") -> tuple[dict[str, str], dict[str, Any]]:
    """A player's data, and the still in the place where the page's script plays it."""
    still = player.still._repr_mimebundle_()[0].get("text/html", f"<pre>{escape(player.still.text)}</pre>")
    reel = json.dumps(player.reel, separators=(",", ":"), ensure_ascii=False)
    reel = reel.replace("</", "<\\/").replace("<!", "\\u003c!")
    poster = "" if player.poster is None else f' data-poster="{player.poster}"'
    data = f'<script type="application/json" data-index="{player.index}"{poster}>{reel}</script>'
    html = f'<div class="minikv-film">{data}<div class="minikv-film-stage">{still}</div>{below}</div>'
    return {"text/html": html, "text/plain": player.still.text}, {}


def playground_page(room: Playground) -> tuple[dict[str, str], dict[str, Any]]:
    """A film of what is done in a playground: its scene, and then the prompt that it proposes."""
    goal = f"The goal here: <em>{escape(room.scene.name)}</em>. " if room.scene.tests else ""
    if not room.history.steps:
        room.controls["scene"].value = SCENES[DEMO]
    for button in ("match", "insert"):
        room.controls[button].click()
    note = f"{goal}A recording: in the notebook, you type the prompts and press the buttons."
    return player_page(room.history.live.film.player(), f'<p class="minikv-film-note">{note}</p>')

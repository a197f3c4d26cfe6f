"""What a playground shows: tree, pool, sizes, locks and history, once as HTML and once as text."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from html import escape
from typing import Any

from minikv.course.pictures.draw import draw
from minikv.course.pictures.picture import Picture
from minikv.course.pictures.svg import svg_size
from minikv.course.playground.history import History
from minikv.course.playground.steps import label_text

SHOWN = 8  # lines of history
_SMALLEST = {"tree": 0.7, "pool": 0.6}  # shrunk further it could not be read: it scrolls instead
_INK, _GREY = "#212529", "#6c757d"
_PANEL = (
    f"background:#fff;color:{_INK};line-height:1.4;font-size:13px;padding:8px;border:1px solid #ced4da;"
    "border-radius:4px;display:flex;flex-wrap:wrap;gap:8px 20px;align-items:flex-start"
)
_NO_WIDER = "display:grid;grid-template-columns:minmax(0,1fr)"  # a wide tree scrolls instead of widening the page
_TILE = "border:1px solid #ced4da;border-radius:4px;padding:1px 8px;text-align:center"
_TONES = {
    "good": ("✓", "#0f5132", "#d1e7dd", "status"),
    "bad": ("✗", "#b02a37", "#f8d7da", "alert"),
    "hint": ("ℹ", "#084298", "#e7f1ff", "status"),
}


def message_html(tone: str, words: str) -> str:
    """The message box: "good", "bad" or "hint", told apart by sign and border as well as by colour.

    >>> "✗" in message_html("bad", "1 < 2"), "1 &lt; 2" in message_html("bad", "1 < 2")
    (True, True)
    """
    sign, line, fill, role = _TONES[tone]
    style = f"border:{2 if tone == 'bad' else 1}px solid {line};border-left-width:6px;background:{fill};color:#212529"
    box = f"{style};padding:3px 10px;border-radius:4px;line-height:1.4;font-size:13px;overflow-wrap:anywhere"
    return f'<div role="{role}" style="{box}"><b style="color:{line}">{sign}</b> {escape(words)}</div>'


def pictures(history: History, text: bool = False) -> tuple[Picture, Picture]:
    """The tree and the pool as they are, with what the last step touched marked.

    >>> from minikv.course.playground.steps import prompt_step
    >>> history = History()
    >>> history.do(prompt_step("insert", "hi", text=True))
    >>> print(pictures(history, text=True)[0])
    root
    └─ 'hi' · slots 0-1 · new
    """
    last, live = history.outcomes[-1] if history.outcomes else None, history.live
    label: Callable[[list[Any]], str] | None = label_text if text else None
    found: dict[str, Any] = last.nodes if last else {}
    tree = draw(live.cache, label=label, **found)
    marks: dict[str, Any] = {"locked": live.protected_pages, **(last.pages if last else {})}
    return tree, draw(live.pool, **marks)


def text_of(history: History, text: bool = False) -> str:
    """The text twin: settings, sizes, tree, pool, locks and the last steps.

    >>> print(text_of(History()))
    Playground(page_size=1, capacity=32, policy='lru', evict_by='node')
    tokens: 32 free + 0 evictable + 0 protected = 32
    root
    FreeListPool: 32 of 32 free
      0  ................
     16  ................    . free
    """
    live, sizes = history.live, _sizes(history)
    lines = [f"Playground({history.settings})", "tokens: " + " + ".join(f"{n} {name}" for name, n in sizes[:3])]
    lines[-1] += f" = {sum(n for _, n in sizes[:3])}"
    lines += [picture.text for picture in pictures(history, text)]
    lines += [f"lock {number}: {what}" for number, (_, what) in live.locks.items()]
    steps = [": ".join(filter(None, (name, what))) + " (undone)" * undone for name, what, undone in _log(history)]
    return "\n".join(lines + steps)


def page_html(history: History, text: bool = False) -> str:
    """The same as HTML on white: the tree beside the rest, or above it where the window is narrow.

    >>> "nothing done yet" in page_html(History())
    True
    """
    tree, pool = pictures(history, text)
    width = svg_size(tree.svg)[0] if tree.svg else 300
    left = f'<div style="flex:1 1 {max(width, 180):g}px;min-width:0;max-width:100%">{_drawn(tree, "tree")}</div>'
    right = "".join([_tiles(history), _drawn(pool, "pool"), _locks(history), _history(history)])
    panel = f'<div style="{_PANEL}">{left}<div style="flex:1 1 430px;min-width:0;max-width:560px">{right}</div></div>'
    return f'<div style="{_NO_WIDER}">{panel}</div>'


def _sizes(history: History) -> list[tuple[str, int]]:
    cache = history.live.cache
    return [
        ("free", history.live.free_size),
        ("evictable", cache.evictable_size),
        ("protected", cache.protected_size),
        ("cached", cache.total_size),
    ]


def _tiles(history: History) -> str:
    tiles = [f'<span style="{_TILE}"><b style="font-size:16px">{n}</b> {name}</span>' for name, n in _sizes(history)]
    size, pages = history.settings.page_size, history.settings.capacity
    how = "" if size == 1 else f": {pages} pages of {size}; page p is slots {size}p to {size}p+{size - 1}"
    total = f'<div style="color:#495057;margin:2px 0 6px">tokens, {size * pages} in all{how}</div>'
    return f'<div style="display:flex;flex-wrap:wrap;gap:6px">{"".join(tiles)}</div>{total}'


def _drawn(picture: Picture, name: str) -> str:
    svg, text = picture.svg, escape(picture.text)
    if svg is None:
        return f'<pre style="margin:0;overflow-x:auto;color:#212529">{text}</pre>'
    style = f"max-width:100%;height:auto;min-width:{svg_size(svg)[0] * _SMALLEST[name]:g}px;display:block"
    drawn = re.sub('style="[^"]*"', f'style="{style}"', svg, count=1)
    return f'<div role="img" aria-label="the {name}: {text}" style="overflow-x:auto">{drawn}</div>'


def _locks(history: History) -> str:
    held = [f"<b>lock {number}</b>: {escape(what)}" for number, (_, what) in history.live.locks.items()]
    return f'<div style="margin:4px 0">{"<br/>".join(held)}</div>' if held else ""


def _log(history: History) -> Iterator[tuple[str, str, bool]]:
    """The lines of history near the present: step, what came of it, and whether it is undone."""
    end = min(len(history.steps), max(history.at + SHOWN // 2, SHOWN))
    start = max(0, end - SHOWN)
    if start:
        yield "", f"… {start} earlier", False
    for i in range(start, end):
        done = i < history.at
        yield f"{i + 1}. {history.steps[i]}", history.outcomes[i].words if done else "", not done
    if end < len(history.steps):
        yield "", f"… {len(history.steps) - end} more", True


def _history(history: History) -> str:
    lines = []
    for name, what, undone in _log(history):
        shown = ": ".join(filter(None, (f"<b>{escape(name)}</b>" if name else "", escape(what))))
        if undone:
            shown = f"<s>{shown}</s> <i>(undone)</i>"
        lines.append(f'<div style="overflow-wrap:anywhere;color:{_GREY if undone else _INK}">{shown}</div>')
    empty = f'<div style="color:{_GREY}">nothing done yet</div>'
    return f'<div style="margin-top:6px;border-top:1px solid #ced4da;padding-top:4px">{"".join(lines) or empty}</div>'

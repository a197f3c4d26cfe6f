"""An answer of chapter 08 in one step, as a picture: how it shares out tokens, and what a token attends to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from minikv.course.film.requests import ANSWERS, READS, Requests, RequestView
from minikv.course.pictures import Picture
from minikv.course.pictures.svg import Drawing, Paper, Part, words_drawing
from minikv.palette import INK

_WIDE, _HIGH, _HEAD = 46, 30, 48
_MOST = 20  # cells of a bar, however many tokens an answer gives
_NONE, _ALL = (248, 249, 250), (116, 169, 216)  # the fill of a share of 0, and of all


def schedule_picture(left: Sequence[int], counts: Any) -> Picture | None:
    """A bar for each request, a cell for each token that it has left; those that the step computes are new.

    `None` where `counts` does not have a number for each request.

    >>> schedule_picture([5, 1], [3, 1])
    requests: 2 running, 0 waiting
    [0] reads    nnn..
    [1] answers  n
    n new  . to compute
    """
    try:
        computed = [int(counts[i]) for i in range(len(left))]
    except (TypeError, ValueError, LookupError, OverflowError):
        return None
    bars = Requests(
        tuple(
            RequestView(f"[{i}]", ANSWERS if tokens == 1 else READS, 0, min(count, _MOST), tokens)
            for i, (count, tokens) in enumerate(zip(computed, left))
        )
    )
    return Picture(bars.text, lambda: bars.paper(*bars.extent).svg(bars.parts(*bars.extent)))


def attention_picture(rows: Mapping[str, Sequence[float]]) -> Picture:
    """A row for each new token and a cell for each token of the sequence: the share taken of it, the larger the darker.

    >>> print(attention_picture({"token 1": [0.25, 0.75]}))
    shares     0    1
    token 1  .25  .75
    """
    columns, wide = max(map(len, rows.values())), max(map(len, rows))
    lines = [f"{'shares':{wide}}" + "".join(f"{i:>5}" for i in range(columns))]
    lines += [f"{name:{wide}}" + "".join(f"{_short(share):>5}" for share in row) for name, row in rows.items()]
    return Picture("\n".join(lines), lambda: _table(rows, columns, 8 * wide + 12))


def _short(share: float) -> str:
    """Two decimals, without the 0 in front of them."""
    return f"{share:.2f}".replace("0.", ".", 1) if -1 < share < 1 else f"{share:.3g}"


def _table(rows: Mapping[str, Sequence[float]], columns: int, side: int) -> str:
    title = "what each new token takes of each token"
    parts = [Part(-1, words_drawing(title, bold=True), 4, 15)]
    parts += [Part(-2 - i, Drawing(f"<text>{i}</text>"), side + i * _WIDE + _WIDE // 2, 38) for i in range(columns)]
    for y, (name, row) in enumerate(rows.items()):
        key, top = y * (columns + 1), _HEAD + y * _HIGH
        parts.append(Part(key, words_drawing(name), 4, top + 18))
        parts += [Part(key + 1 + x, _cell(share), side + x * _WIDE, top) for x, share in enumerate(row)]
    return Paper(max(side + columns * _WIDE, 8 * len(title) + 12), _HEAD + len(rows) * _HIGH + 4).svg(parts)


def _cell(share: float) -> Drawing:
    part = share if 0 <= share <= 1 else float(share > 1)  # and none for NaN
    fill = ",".join(str(round(none + part * (full - none))) for none, full in zip(_NONE, _ALL))
    box = f'<path fill="rgb({fill})" stroke="#495057" d="M1 1h{_WIDE - 4}v{_HIGH - 4}h-{_WIDE - 4}z"/>'
    return Drawing(f'{box}<text x="{_WIDE // 2 - 1}" y="{_HIGH - 11}" fill="{INK}">{_short(share)}</text>')

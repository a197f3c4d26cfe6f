"""The pictures of a reel, made again from its differences: what `pictureAt` in `player.js` does, in Python."""

import re
from html import unescape

import pytest

from minikv.course.pictures.svg import Drawing, Part, painted
from minikv.course.pictures.tree import graphviz_way

needs_graphviz = pytest.mark.skipif(graphviz_way() is None, reason="no way to run Graphviz here")


def pictures_of(reel, panel):
    """The SVG of a panel at every step, from the plain data of a reel."""
    about, reaches = reel["panels"][panel], reel["reaches"]
    drawings = [Drawing(svg, reaches[i] if reaches else 0) for i, svg in enumerate(reel["drawings"])]
    shape = []
    where = {}
    for step in about["steps"]:
        shape = step[0] if step and step[0] != 0 else shape
        put = step[1] if step else []
        where.update({put[i]: tuple(put[i + 1 : i + 4]) for i in range(0, len(put), 4)})
        keys = zip(shape[::2], shape[1::2])
        parts = [Part(key, drawings[where[key][0]], *where[key][1:], above) for key, above in keys]
        yield f"{about['head']}{painted(parts, about['sideways'])}{about['tail']}"


def frames_of(reel):
    """The SVGs of all panels at every step, one after the other."""
    panels = [pictures_of(reel, panel) for panel in range(len(reel["panels"]))]
    return ["".join(pictures) for pictures in zip(*panels)]


def words_in(svg):
    """The texts of a picture."""
    return [unescape(text).replace("\xa0", " ") for text in re.findall(r"<text[^>]*>([^<]*)</text>", svg)]


def said_and_drawn(picture):
    """The lines of a picture's text, and the words of its image."""
    return [*picture.text.splitlines(), f"drawn: {' | '.join(words_in(picture.svg))}"]


def without_color(svg):
    """A picture as those see it who see no colors."""
    return re.sub(r"#[0-9a-f]{6}", "", svg)

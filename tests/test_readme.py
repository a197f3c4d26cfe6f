"""The README's first picture shows chapter 00 as it is today, and its number of functions is that of the pieces."""

from __future__ import annotations

import json
import re

import pytest
from chapters import ROOT

from minikv.course.pieces.piece import all_pieces
from minikv.engine import LAST

Image = pytest.importorskip("PIL.Image")
pytest.importorskip("ipywidgets")
PICTURE = "assets/readme/chapter_00.png"
AGAIN = "python assets/readme/pictures.py takes the picture again"


@pytest.fixture(scope="module")
def shown():
    """What was on the page when the picture was taken: the `cell`, and the `page` below it."""
    return Image.open(ROOT / PICTURE).text


@pytest.fixture(scope="module")
def cell():
    """The source of the cell in chapter 00 that ends with a playground."""
    cells = json.loads((ROOT / "notebooks" / "00_start_here.ipynb").read_text("utf-8"))["cells"]
    (source,) = ("".join(cell["source"]) for cell in cells if "playground(goal=" in "".join(cell["source"]))
    return source


@pytest.fixture(scope="module")
def room(cell):
    """The playground of that cell, after what was done for the picture."""
    from pictures import PROMPT

    world = {}
    exec(cell.replace("\nplayground(", "\nroom = playground("), world)
    world["room"].prompt.value = PROMPT
    world["room"].buttons["insert"].click()
    return world["room"]


def test_the_picture_shows_the_cell_and_what_it_does_today(shown, cell, room):
    assert shown["cell"].split() == cell.split(), AGAIN
    page = shown["page"].replace("\N{NO-BREAK SPACE}", " ")
    goal, _, *lines = room.text.splitlines()
    wanted = [goal, room.said, *(line for line in lines if re.match(r"\d+\. ", line))]
    wanted += [
        part for line in lines if line[0] in "├└ " for part in re.findall(r"'.*'|n\d+ · slots [\d-]+|split|new", line)
    ]
    assert [words for words in wanted if words not in page] == [], AGAIN


def test_its_alternative_text_says_what_it_shows(room):
    (alternative,) = re.findall(rf"!\[(.*?)\]\({PICTURE}\)", (ROOT / "README.md").read_text("utf-8"))
    cached, tokens = re.search(r"(\d+) of (\d+) cached", room.said).groups()
    assert f"{cached} of its {tokens} tokens were cached" in alternative
    assert ("split a node" in room.said) == ("the node that was split" in alternative)


@pytest.mark.nightly
@pytest.mark.browser
def test_the_picture_can_be_taken_again(lab, chromium, shown, tmp_path):
    from browser import Page
    from pictures import play_in_lab

    (tmp_path / "again.png").write_bytes(play_in_lab(lab.open(Page(chromium, 1000, 720), "00_start_here.ipynb")))
    assert Image.open(tmp_path / "again.png").text == shown


def test_the_functions_to_write_are_counted():
    pieces = [piece for piece in all_pieces() if piece.chapter <= LAST]
    assert f"{len(pieces)} short functions in chapters 01 to 08" in (ROOT / "README.md").read_text("utf-8")

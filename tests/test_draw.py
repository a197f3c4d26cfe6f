"""Pictures of trees, pools, tables and rows, and their text twins, whatever a learner made."""

import random
import re
from types import SimpleNamespace

import numpy as np
import pytest
from golden_text import compare, sections
from reels import needs_graphviz, said_and_drawn, without_color, words_in

from minikv import (
    BitmaskPool,
    CacheManager,
    FreeListPool,
    PageTable,
    QueuePool,
    RadixCache,
    draw,
    record,
)
from minikv.course.pictures.cells import strips, word_rows
from minikv.course.pictures.picture import MOST_WIDE
from minikv.course.pictures.svg import MOST_PIXELS, svg_size
from minikv.course.pictures.tree import BROAD, READABLE, tree_parts
from minikv.engine import engine_world
from minikv.testing.snapshot import snapshot

GOLDEN = "pictures.txt"


class Mine:
    """A learner's node with nothing but children."""

    def __init__(self, **fields):
        self.children = {}
        self.__dict__.update(fields)


def a_cache():
    cache = RadixCache()
    cache.insert([1, 2, 3, 4], range(4))
    cache.lock(cache.insert([1, 2, 5], [0, 1, 8]).handle)
    cache.insert([7], [9], namespace='tenant "B" <&>')
    return cache


def a_tree():
    cache = a_cache()
    return draw(cache, matched=cache.match_prefix([1, 2, 3, 9]), new=cache.insert([6], [5]), evicted=[])


def learners_nodes():
    root, loop = Mine(), Mine(tokens=[1])
    loop.parent = loop
    root.children[1] = Mine(tokens=np.array([1, 2]), slots=np.array([4, 5]), ref_count=2)
    root.children[9] = Mine(tokens=[9], slots=[7])
    root.children |= {3: Mine(), 4: Mine(tokens=5, slots=7), 6: Mine(tokens=[6], slots=[None, "x"], ref_count="many")}
    root.children[0] = loop
    return draw(root, new=root.children[9], matched=Mine(node=loop))


def a_loop():
    root = Mine()
    root.children[1] = child = Mine(tokens=[1])
    child.children[2] = root
    return draw(root)


def a_deep_tree():
    root = node = Mine()
    for i in range(3000):
        node.children[i] = node = Mine(tokens=[i])
    return draw(root)


def scattered_slots():
    cache = RadixCache()
    cache.insert(range(100), range(0, 200, 2))
    return draw(cache)


def notes_of_a_learner():
    children = Mine(tokens=[7], note="mine"), Mine(tokens=[8], note=None), Mine(tokens=[9], note="a\nb\0" + "x" * 10**6)
    return draw(SimpleNamespace(children=children))


def a_pool():
    pool = FreeListPool(20)
    pool.alloc(5)
    return draw(pool, new=[3], locked=[4], evicted=[17], matched=[0, 3])


def owners_of_slots():
    pool = FreeListPool(6)
    return draw(pool, owners={"Anna": pool.alloc(2), "Ben": pool.alloc(1), "Clara": []})


def a_manager():
    manager = CacheManager(8)
    for tokens in ([1, 2, 3], [1, 2, 9, 9]):
        sequence = manager.start(tokens)
        manager.advance(sequence, 2)
        if len(tokens) == 3:
            manager.advance(sequence)
            manager.finish(sequence)
    return (manager,)


def learners_manager(*size):
    manager = engine_world()["CacheManager"](*size)
    first = manager.start([1, 2, 3, 4, 5])
    manager.advance(first)
    manager.checkpoint(first)
    return manager


def what_is_in_a_row():
    """Of a row of four slots two are locked in the cache, one is cached, and one is in hand."""
    cache, pool, table = RadixCache(), FreeListPool(4), PageTable(1, 4)
    cache.lock(cache.insert([1, 2], pool.alloc(2)).handle)
    cache.insert([3], pool.alloc(1))
    table.append(table.open(), [0, 1, 2, *pool.alloc(1)])
    return draw(cache, pool, table)


STRIP = ("from 0", 3, "locked", "the cache's <"), ("there 3", 0, "computed", "no"), ("shared 3", 2, "matched", "own")


def children_of_all_kinds():
    return draw(Mine(children=[Mine(tokens=tokens) for tokens in (["b"], [3], [], ["a"])]))


def keys_that_are_numbers_and_labels_of_one_line():
    return draw(Mine(children={np.int64(10): Mine(), np.int64(9): Mine()}), label=lambda one: f"{one[0]}\nx")


def ids_that_are_not_unique():
    return draw(Mine(children=[Mine(tokens=[token], id=1) for token in range(3)], id=1))


def rows():
    return word_rows([("at first", ["a", "b", ""]), ("0 to 1", ["a", "a"])], heads=["0", "1", "spare"])


def a_ring():
    return word_rows([("newer", ["ring", "[1 <]", "ring"])], joint="→")


def regions():
    return strips([("row", STRIP, "end 5"), ("", [("", 1, "to compute", "")], "end")], size=40)


@needs_graphviz
@pytest.mark.parametrize("name", sections(GOLDEN))
def test_a_picture_says_what_the_golden_file_says_in_its_text_and_in_its_image(name):
    compare(GOLDEN, name, said_and_drawn(globals()[name.replace(" ", "_")]()))


@pytest.mark.parametrize("things", [(learners_manager(4, 2),), a_manager(), (BitmaskPool(2), QueuePool(2))])
def test_what_keeps_much_and_several_things_are_drawn_as_a_film_shows_them(things):
    with record(*things) as film:
        pass
    assert draw(*things).text == film.at(0).contents


@needs_graphviz
def test_marks_differ_in_shape_and_word_not_only_in_color():
    looks = set()
    for mark in ("matched", "new", "evicted", "locked"):
        cache = RadixCache()
        picture = draw(cache, **{mark: cache.insert([1], [0])})
        assert any(word.startswith(mark) for word in words_in(picture.svg))
        looks.add(re.sub(r"<text.*?</text>", "", without_color(picture.svg)))
    assert len(looks) == 4


@needs_graphviz
def test_a_picture_is_the_same_every_time_and_does_not_change_when_the_object_does():
    cache = a_cache()
    one, other = draw(cache), draw(a_cache())
    text, svg = one.text, one.svg
    assert (text, svg, one.png) == (other.text, other.svg, other.png)
    cache.insert([8, 8], [20, 21])
    assert (one.text, one.svg) == (text, svg)


@needs_graphviz
def test_labels_may_hold_anything():
    cache = RadixCache()
    cache.insert(b'a\\n"<b>&\n{|}', range(12))
    for label in (lambda tokens: bytes(tokens).decode(), lambda tokens: "\\N \\G {a|b} <i>"):
        picture = draw(cache, label=label)
        assert picture.png[:4] == b"\x89PNG"
    assert "\\N \\G {a|b} <i>" in words_in(picture.svg)


def test_strips_are_as_wide_as_they_have_tokens_and_show_each_region_however_few():
    """By hand: 3, 0 and 2 tokens of 40 units; a box is a unit narrower."""
    picture = regions()
    assert [wide for wide in (119, 79, 39) if f'width="{wide}" height="40"/>' not in picture.svg] == []
    picture = strips([("", [("", 1, "matched", "1"), ("", 8, "computed", "8")], "end")], size=0.01)
    assert words_in(picture.svg)[0] == "m"
    assert int(re.search(r'<text x="(-?\d+)"[^>]*>m<', picture.svg)[1]) >= 0
    assert picture.svg.count('width="1" height="40"/>') == 2


DEEP = []
for _ in range(5000):
    DEEP = [DEEP]
DRAWN = "a tree has a root, roots or children, a pool has size and is_free"
REFUSED = {
    **{f"cannot draw a {type(wrong).__name__}.*: {DRAWN}": lambda wrong=wrong: draw(wrong)
       for wrong in (None, 5, "tree", [1])},
    "cannot mark a int": lambda: draw(RadixCache(), matched=3),
    "cannot mark a str": lambda: draw(RadixCache(), matched="ab"),
    "cannot mark a list: expected nodes": lambda: draw((), new=DEEP),
    r"new has \[\[.*: expected the numbers of pages or slots|that cannot be shown": lambda: (
        draw(FreeListPool(2), new=DEEP)),
    r"evicted has 1\.5: expected the numbers": lambda: draw(FreeListPool(2), evicted=[1.5]),
    "matched= marks one tree, pool, table or store": lambda: draw(CacheManager(8), matched=[1]),
    "there is nothing to draw": draw,
}  # fmt: skip


@pytest.mark.parametrize("message", REFUSED)
def test_what_cannot_be_drawn_or_marked_is_named(message):
    with pytest.raises(TypeError, match=message):
        REFUSED[message]()


# -- large trees -----------------------------------------------------------------------------------


def a_large_cache(prompts):
    dice, cache = random.Random(1), RadixCache()
    for start in range(0, 9 * prompts, 9):
        tokens = [dice.randrange(9) for _ in range(dice.randrange(1, 9))]
        cache.insert(tokens, range(start, start + len(tokens)))
    return cache


def test_of_a_large_tree_as_much_is_drawn_as_one_can_read():
    assert a_deep_tree().text.splitlines()[-1].strip() == "└─ +2971 more"
    cache = a_large_cache(500)
    shown = draw(cache).text.splitlines()
    assert len(shown) <= READABLE
    hidden = [int(line.rpartition("+")[2].split()[0]) for line in shown if " more" in line]
    drawn = len(shown) - len(hidden) - 1  # without the root
    assert sum(hidden) + drawn == sum(1 for _ in cache.nodes())
    new = cache.insert([8, 77], range(9000, 9002))
    assert "[77] · slot 9001 · new" in draw(cache, new=new).text  # what is marked is drawn first


@needs_graphviz
def test_a_large_picture_has_a_bounded_number_of_pixels_and_all_of_its_nodes():
    """Many nodes grow to the right; a line of 16 units still has 9 pixels or more."""
    picture = draw(a_large_cache(100))
    width, height = svg_size(picture.svg)
    pixels = [int.from_bytes(picture.png[at : at + 4], "big") for at in (16, 20)]
    assert pixels[0] * pixels[1] <= MOST_PIXELS * 1.01
    assert 16 * pixels[0] / width > 9
    assert pixels[0] / width == pytest.approx(pixels[1] / height, rel=0.01)
    assert picture.svg.count("data-part") == len(picture.text.splitlines())


def test_a_wide_table_is_cut_and_it_is_said():
    table = PageTable(1, 100)
    table.append(table.open(), range(50))
    heading, row, _ = draw(table, matched=[1]).text.splitlines()
    assert heading == "PageTable: 1 of 1 rows open, the first 24 tokens"
    assert (row.split()[3], row.split()[-1]) == ("1m", "23")
    assert svg_size(draw(table).svg)[0] < MOST_WIDE


@needs_graphviz
def test_a_broad_tree_is_drawn_sideways_and_a_small_one_is_not():
    broad, small = RadixCache(), RadixCache()
    for token in range(20):
        broad.insert([token, token, token], [3 * token, 3 * token + 1, 3 * token + 2])
    small.insert([1], [0])
    sizes = [svg_size(draw(cache).svg) for cache in (broad, small)]
    assert sizes[0][0] < 400 < BROAD
    assert [wide < high for wide, high in sizes] == [True, True]


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

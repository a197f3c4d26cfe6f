"""A chart: where its points stand, its words, and that nothing leaves the picture."""

import re
import xml.etree.ElementTree as ET

import pytest

from minikv.course.pictures.chart import Chart, chart_svg
from minikv.course.pictures.palette import LINES

LINE = r'd="([^"]*)"[^>]*class="line"'
SPACE = "{http://www.w3.org/2000/svg}"
LINES_SHOWN = {"LRU": [0, 20, 40], "bound": [10, 40, 40]}
CHART = Chart("Hits", "GiB", [10, 100, 1000], LINES_SHOWN, " %", "x", {"knee": 100}, ("ceiling", 40))


def texts_in(svg):
    """The words of a picture, each with its place."""
    return {text.text: text for text in ET.fromstring(svg).iter(f"{SPACE}text")}


def places(svg):
    ways = (re.split("[ML]", way)[1:] for way in re.findall(LINE, svg))
    return [[tuple(map(float, pair.split())) for pair in way] for way in ways]


def test_points_stand_on_a_scale_of_powers():
    """From 10 to 1000, 100 is in the middle; half of the highest share is at half the height."""
    first, second = places(chart_svg(CHART))
    (left, zero), (middle, half), (right, full) = first
    assert 0 < middle - left == pytest.approx(right - middle, abs=0.2)
    assert zero - half == pytest.approx(half - full, abs=0.2)
    assert second[1][1] == second[2][1] == full


def test_every_line_has_its_color_its_dash_and_its_name():
    svg = chart_svg(CHART)
    assert all(look in svg for look in LINES[:2])
    words = texts_in(svg)
    assert {"LRU", "bound", "knee", "ceiling", "GiB", "10", "100", "1,000", "0 %", "40 %"} <= set(words)
    heights = [float(words[name].get("y")) for name in ("LRU", "ceiling")]
    assert heights[1] >= heights[0] + 20, "the name of the level is below those of the lines"


@pytest.mark.parametrize(
    "chart",
    [
        Chart("one point", "GiB", [5], {"LRU": [0.5]}, log="x"),
        Chart("no hit", "tokens", [1, 2], {"LRU": [0, 0]}, log="x"),
        Chart("all", "tokens", [64, 2**40], {"LRU": [0, 1]}, " %", "x", {"out": 2**50, "low": 1}, ("all", 1)),
        Chart("near", "GiB", [3, 4], {"LRU": [0.01, 0.011]}, log="x"),
        Chart("small", "GiB", [0.0001, 0.002], {"LRU": [0.3, 0.9]}, log="x"),
        Chart("below zero", "turn", [1, 2], {"change": [-3, 5]}),
        Chart("powers", "leaves", [1, 10, 100], {"scan": [0.4, 30, 9000], "ring": [0, 0.1, None]}, log="xy"),
        Chart("a million", "leaves", [1000, 1_000_000], {"scan": [1, 2]}, log="xy"),
        Chart("names", "step", range(1, 33), {f"a rather long name {i}": [i] * 32 for i in range(7)}),
    ],
    ids=lambda chart: chart.title,
)
def test_nothing_leaves_the_picture(chart):
    svg = chart_svg(chart)
    wide, high = map(float, re.search(r'viewBox="0 0 (\d+) (\d+)"', svg).groups())
    texts = texts_in(svg).values()
    points = [(float(text.get("x")), float(text.get("y"))) for text in texts]
    assert all(0 <= x <= wide and 0 <= y <= high for line in (points, *places(svg)) for x, y in line)
    middle = {text.text: float(text.get("x")) for text in texts if text.get("text-anchor") == "middle"}
    assert len(middle) >= 2
    assert all(at + len(words) * 7.83 / 2 <= wide for words, at in middle.items())


def test_every_point_says_its_values_under_the_mouse_and_where_there_is_none_is_a_gap():
    """Whatever the names are."""
    values = {"</svg>": [12.3456, None, 2, 3]}
    svg = chart_svg(Chart("<&>", 'GiB"', [10, 50, 100, 1000], values, " %", marks={"<b>": 100}))
    titles = ["".join(circle.itertext()) for circle in ET.fromstring(svg).iter(f"{SPACE}circle")]
    assert (len(titles), titles[0]) == (3, '10 GiB", </svg>: 12.3456 %')
    assert re.findall("[ML]", *re.findall(LINE, svg)) == ["M", "M", "L"]


def test_where_all_xs_are_whole_there_is_no_tick_between_them():
    svgs = [chart_svg(Chart("t", "x", xs, {"a": [1, 2, 3]})) for xs in ([1, 2, 3], [1, 1.5, 3])]
    assert [sum(x in svg for x in (">1.5<", ">2.5<")) for svg in svgs] == [0, 2]

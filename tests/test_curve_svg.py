"""The curve as SVG: where its points stand, its words, and that nothing leaves the picture."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET

import pytest

from minikv.palette import LINES
from minikv.traffic.plan.curve_svg import Curves, curve_svg

SPACE = "{http://www.w3.org/2000/svg}"
CURVES = Curves(
    "Hits", "GiB", [10, 100, 1000], {"LRU": [0, 0.2, 0.4], "bound": [0.1, 0.4, 0.4]}, {"knee": 100}, ("ceiling", 0.4)
)


def places(svg):
    return [
        [tuple(map(float, pair.split(","))) for pair in line.split()] for line in re.findall(r'points="([^"]*)"', svg)
    ]


def test_points_stand_on_a_scale_of_powers():
    """From 10 to 1000, 100 is in the middle; half of the highest share is at half the height."""
    first, second = places(curve_svg(CURVES))
    (left, zero), (middle, half), (right, full) = first
    assert middle - left == pytest.approx(right - middle, abs=0.2)
    assert zero - half == pytest.approx(half - full, abs=0.2)
    assert second[1][1] == second[2][1] == full


def test_every_line_has_its_color_its_dash_its_name_and_its_values():
    svg = curve_svg(CURVES)
    assert LINES[0] in svg
    assert LINES[1] in svg
    assert "100 GiB, bound: 40.0 %" in svg
    words = [text.text for text in ET.fromstring(svg).iter(f"{SPACE}text")]
    assert {"LRU", "bound", "knee", "ceiling", "GiB", "10", "100", "1,000", "0 %", "40 %"} <= set(words)


@pytest.mark.parametrize(
    "curves",
    [
        Curves("one point", "GiB", [5], {"LRU": [0.5]}),
        Curves("no hit", "tokens", [1, 2], {"LRU": [0, 0]}),
        Curves("all", "tokens", [64, 2**40], {"LRU": [0, 1]}, {"out": 2**50, "low": 1}, ("all", 1)),
        Curves("near", "GiB", [3, 4], {"LRU": [0.01, 0.011]}),
        Curves("small", "GiB", [0.0001, 0.002], {"LRU": [0.3, 0.9]}),
    ],
    ids=lambda curves: curves.title,
)
def test_nothing_leaves_the_picture(curves):
    svg = curve_svg(curves)
    wide, high = map(float, re.search(r'viewBox="0 0 (\d+) (\d+)"', svg).groups())
    assert all(0 <= x <= wide and 0 <= y <= high for line in places(svg) for x, y in line)
    texts = list(ET.fromstring(svg).iter(f"{SPACE}text"))
    assert all(0 <= float(text.get("x")) <= wide and 0 <= float(text.get("y")) <= high for text in texts)
    assert len({text.text for text in texts if text.get("text-anchor") == "middle"}) >= 2


def test_names_cannot_break_it():
    ET.fromstring(curve_svg(Curves("<&>", '"', [1, 2], {"</svg>": [0, 1]}, {"<b>": 1})))

"""The curve as a PNG, where matplotlib is."""

from __future__ import annotations

import struct

import pytest

pytest.importorskip("matplotlib")

from minikv.traffic.plan.curve_png import curve_png
from minikv.traffic.plan.curve_svg import Curves


def test_it_is_a_png_of_its_size_and_the_same_each_time():
    curves = Curves("$Hits$", "GiB", [1, 10], {"LRU": [0, 0.5], "_b": [0.1, 0.6]}, {"knee": 3}, ("ceiling", 0.6))
    first = curve_png(curves)
    assert first.startswith(b"\x89PNG\r\n\x1a\n")
    assert struct.unpack(">II", first[16:24]) == (1400, 760)
    assert curve_png(curves) == first

"""Pairs that others wrote with their answers before the command saw them: how many kinds agree must not fall again.

Of the two that are left of the first, one counts parallel calls of tools one by one, where Anthropic's guide counts a
run of them as one position, and so do those that are left of the fourth and the ninth; the other was written before the
kind "shared text last" was there, and expects an ordinary edit. At first sight, 34, 36, 39, 40 and 37 of the last five
agreed.
"""

from __future__ import annotations

import pytest
from blind_pairs import agrees, answer, batches
from nightly import by_day

REACHED = {"batch_one": 38, "batch_two": 40, "batch_three": 40, "batch_four": 39, "batch_five": 40,
           "batch_six": 40, "batch_seven": 40, "batch_eight": 40, "batch_nine": 39}  # fmt: skip


@pytest.mark.parametrize("batch", by_day(REACHED, lambda batch: batch == "batch_nine"))
def test_kinds_agree_with_those_that_others_expected(batch: str) -> None:
    pairs = batches()[batch]
    wrong = [pair["name"] for pair in pairs if not agrees(pair, answer(pair))]
    assert len(pairs) == 40
    assert len(wrong) <= 40 - REACHED[batch], wrong

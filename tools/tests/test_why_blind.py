"""Pairs that others wrote with their answers before the command saw them: how many kinds agree must not fall again.

Of the two that are left of the first, one counts parallel calls of tools one by one, where Anthropic's guide counts a
run of them as one position, and so does the one that is left of the fourth; the other was written before the kind
"shared text last" was there, and expects an ordinary edit.
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.core
REACHED = {"batch_one": 38, "batch_two": 40, "batch_three": 40, "batch_four": 39}


@pytest.mark.nightly
@pytest.mark.parametrize("batch", REACHED)
def test_kinds_agree_with_those_that_others_expected(batch: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).with_name("blind")))
    run, pairs = importlib.import_module("run"), importlib.import_module(batch).PAIRS
    wrong = [pair["name"] for pair in pairs if run.answer(pair).get("kind") not in run.expected(pair)]
    monkeypatch.delitem(sys.modules, "run")
    assert len(pairs) - len(wrong) >= REACHED[batch], wrong

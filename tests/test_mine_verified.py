"""The learner's file, made of the printed solutions: one file that is not long, and breaks no rule that it claims."""

import importlib.util

import pytest
from nightly import NIGHTLY

from minikv.course.pieces.mine import assembled
from minikv.course.pieces.piece import pieces_for
from minikv.engine import LAST
from minikv.testing.rules import RULES
from minikv.testing.verify import verify

PRINTED = assembled({piece.id: piece.solution for piece in pieces_for(LAST)})


@pytest.fixture(scope="module")
def my_minikv(tmp_path_factory):
    file = tmp_path_factory.mktemp("mine") / "my_minikv.py"
    file.write_text(PRINTED, "utf-8")
    spec = importlib.util.spec_from_file_location("my_minikv", file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_printed_solutions_are_one_file_that_is_not_long():
    assert len(PRINTED.splitlines()) < 600
    assert "ours(" not in PRINTED.split("# %%", 1)[1]


def test_it_breaks_no_rule_that_it_claims(my_minikv):
    found = verify(my_minikv.RadixCache, home="my_minikv", examples=1000 if NIGHTLY else 60)
    states = {verdict.rule: verdict.state for verdict in found.verdicts}
    assert states == {rule: "not claimed" if rule == 14 else "holds" for rule in RULES}, str(found)

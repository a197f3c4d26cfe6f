"""What a prompt is counted in: tokens of a folder's tokenizer, or bytes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikv import asset, pack
from minikv.serving.tokenizer import load_tokenizer
from minikv_tools import logs
from minikv_tools.logs import Units

texts = st.lists(st.text(st.characters(), max_size=20), max_size=5)


@given(texts)
def test_with_one_each_piece_is_cut_by_itself(texts):
    tokenizer, units = load_tokenizer(asset("model")), Units(load_tokenizer(asset("model")))
    expected = [token for text in texts for token in tokenizer.encode(text)]
    assert units.packed(texts) == pack(expected).data
    assert (units.unit, units.width, units.block_size) == ("tokens", 4, 16)


def test_equal_beginnings_have_equal_units_wherever_a_long_piece_is_cut(monkeypatch):
    monkeypatch.setattr(logs, "_LONGEST", 3)
    units = Units(load_tokenizer(asset("model")))
    assert units.packed(["abcdefgh"]) == units.packed(["abcdefg", "h"]) == pack(list(b"abcdefgh")).data


@pytest.fixture
def folder(tmp_path):
    pytest.importorskip("tokenizers")
    from test_tokenizer import file_tokenizer

    file_tokenizer(tmp_path)
    return tmp_path


def test_a_tokenizer_of_a_file_is_used_and_what_utf_8_cannot_write_is_a_question_mark(folder):
    assert Units(load_tokenizer(folder)).packed(["the \ud800"]) == pack(load_tokenizer(folder).encode("the ?")).data


def test_a_piece_of_any_length_is_cut(folder):
    found = Units(load_tokenizer(folder)).packed(["the" * 100_000])
    assert len(found) // 4 == pytest.approx(100_000, abs=9)

"""Tokenizers: text there and back, and never half a character on the way."""

import json
import sys

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from minikv.serving.tokenizer import ByteTokenizer, FileTokenizer, TextStream, load_tokenizer

BYTES = ByteTokenizer()
IDS = st.lists(st.one_of(st.integers(0, 256), st.sampled_from("aé€🙂".encode())), max_size=30)


def file_tokenizer(folder):
    """A byte-level BPE with two merges and an end token, as Llama 3 has a larger one."""
    tokenizers = pytest.importorskip("tokenizers")
    alphabet = sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet())
    vocab = {symbol: i for i, symbol in enumerate([*alphabet, "th", "the"])}
    made = tokenizers.Tokenizer(tokenizers.models.BPE(vocab, [("t", "h"), ("th", "e")]))
    made.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = tokenizers.decoders.ByteLevel()
    made.add_special_tokens(["<|end|>"])
    made.save(str(folder / "tokenizer.json"))
    return load_tokenizer(folder)


@pytest.fixture(scope="module")
def bpe(tmp_path_factory):
    return file_tokenizer(tmp_path_factory.mktemp("bpe"))


def streamed(tokenizer, ids):
    """The parts and the rest of an answer, and of the same again on the same stream."""
    stream = TextStream(tokenizer)
    first, again = (([stream.push(i) for i in ids], stream.close()) for _ in range(2))
    assert first == again
    return first


@given(IDS)
@example([*"é".encode()[:1], 256, *"é".encode()[1:]])
@example([255, 255, 65])
@example([*"a🙂".encode()[:3]])
def test_what_is_streamed_is_what_would_be_decoded_at_once(ids):
    parts, rest = streamed(BYTES, ids)
    assert "".join(parts) + rest == BYTES.decode(ids)


@given(st.one_of(st.text(st.characters(exclude_characters="\ufffd")), st.text("the aé€🙂ß\n")))
def test_a_text_comes_back_and_no_half_character_is_ever_shown(bpe, text):
    for tokenizer in (BYTES, bpe):
        ids = tokenizer.encode(text)
        parts, rest = streamed(tokenizer, ids)
        assert "".join(parts) == tokenizer.decode(ids) == text
        assert rest == ""
    parts, _ = streamed(BYTES, BYTES.encode(text))
    assert [part for part in parts if part] == list(text)


def test_a_checkpoints_own_tokenizer_merges_and_knows_its_special_tokens(bpe):
    assert isinstance(bpe, FileTokenizer)
    assert len(bpe.encode("the")) == 1
    assert bpe.encode("a<|end|>") == [*bpe.encode("a"), 258]
    assert bpe.decode([*bpe.encode("a"), 258]) == "a"
    assert repr(bpe) == "FileTokenizer(259 ids)"


def changed(folder, **parts):
    """The tokenizer of `bpe`, with other parts."""
    file_tokenizer(folder)
    settings = json.loads((folder / "tokenizer.json").read_text("utf-8"))
    (folder / "tokenizer.json").write_text(json.dumps({**settings, **parts}))
    return load_tokenizer(folder)


def test_a_checkpoints_own_tokenizer_adds_nothing_to_a_text_and_leaves_nothing_out(tmp_path, bpe):
    """Whatever its file says of special tokens around a text, of padding and of the longest text."""
    piece = {"Sequence": {"id": "A", "type_id": 0}}
    special = {"SpecialToken": {"id": "<|end|>", "type_id": 0}}
    around = {"type": "TemplateProcessing", "single": [special, piece], "pair": [piece, piece],
              "special_tokens": {"<|end|>": {"id": "<|end|>", "ids": [258], "tokens": ["<|end|>"]}}}  # fmt: skip
    padding = {"strategy": {"Fixed": 50}, "direction": "Right", "pad_to_multiple_of": None, "pad_id": 0,
               "pad_type_id": 0, "pad_token": "a"}  # fmt: skip
    shortest = {"direction": "Right", "max_length": 1, "strategy": "LongestFirst", "stride": 0}
    odd = changed(tmp_path, post_processor=around, padding=padding, truncation=shortest)
    assert odd.encode("the end") == bpe.encode("the end")


def test_without_the_library_it_says_what_to_install(tmp_path, monkeypatch):
    (tmp_path / "tokenizer.json").write_text("{}")
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    with pytest.raises(ModuleNotFoundError, match=r"pip install 'minikv\[serving\]'"):
        load_tokenizer(tmp_path)


@pytest.mark.parametrize(("method", "wrong", "error", "reason"), [
    ("encode", [71], TypeError, r"text is \[71\]: expected a string"),
    ("decode", [1, 1.5], TypeError, r"ids\[1\] is 1.5 \(float\): a token is an integer"),
    ("decode", [-1], ValueError, r"ids\[0\] is -1: a token is an integer"),
])  # fmt: skip
def test_what_is_neither_text_nor_ids_is_named(method, wrong, error, reason):
    with pytest.raises(error, match=reason):
        getattr(BYTES, method)(wrong)

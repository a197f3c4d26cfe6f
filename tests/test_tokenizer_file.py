"""What a tokenizer's file may ask for: real patterns pass, patterns that backtrack and parts that grow do not."""

from __future__ import annotations

import base64

import pytest
from hostile import PATTERNS

from minikv.serving.tokenizer_file import check_pattern, check_tokenizer

UPPER, LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
SHORT = "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
START, REST = r"[^\r\n\p{L}\p{N}]?", r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
REAL = {
    "GPT-2": r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",
    "Llama 3": SHORT + "|" + START + r"\p{L}+|\p{N}{1,3}" + REST,
    "Qwen 2": SHORT + "|" + START + r"\p{L}+|\p{N}" + REST,
    "GPT-4": r"(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+",
    "GPT-4o": f"{START}{UPPER}*{LOWER}+{SHORT}?|{START}{UPPER}+{LOWER}*{SHORT}?" + r"|\p{N}{1,3}" + REST,
    "DeepSeek": r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+""" + REST,
    "Chinese": "[一-龥぀-ゟ゠-ヿ]+",
    "Kimi": r"[\p{Han}]+|[\p{L}\p{M}&&[^\p{Han}]]+",
    "digits": r"\p{N}{1,3}(?=(?:\p{N}{3})*(?!\p{N}))",
    "spaces": r" {2,}|[[:punct:]]|^▁+$| +▁|\x{3000}|(?<=\d)(?=\w)|(?i)a",
}


@pytest.mark.parametrize("name", REAL)
def test_patterns_of_real_tokenizers_pass(name):
    check_pattern(REAL[name])


@pytest.mark.parametrize("pattern", PATTERNS, ids=lambda pattern: pattern[:20])
def test_patterns_that_backtrack_or_are_written_oddly_are_refused(pattern):
    with pytest.raises(ValueError, match="the pattern ") as caught:
        check_pattern(pattern)
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize(("passes", "fails"), [
    ("(?:ab)+", "(?:a+b)+"),
    ("a+b", "a+b+c"),
    ("a*b+", "a*b+c"),
    ("a+b*", "a+b*$"),
    ("a+(?:b|c)?", "a+b+(?:b|c)"),
    ("a+(?!b)", "a+(?!b*c)"),
    ("a{0,9}b", "a{0,10}b+c"),
    ("a?" * 8, "a?" * 9),
    ("a*b|" * 6, "a*b|" * 7),
    ("a?a?a*b", "a?a?a?a*b"),
    ("(?=b*)a+c", "b*a+c"),
    ("(?:a{10}){100}", "(?:a{10}){101}"),
    ("[a+]+", "(?:[a]+)+"),
    (r"\(a+\)+", "(?:a+)+"),
    ("(?:a*b)|" * 6, "(?:a*b)|" * 7),
    ("a+?", "a{2}?"),
    ("[a]" * 1365 + "b", "[a]" * 1366),
])  # fmt: skip
def test_where_the_rules_of_patterns_begin_to_bite(passes, fails):
    check_pattern(passes)
    said = "repeats what has more than one length|tries again and again|repeats (too much|a rep)|has 4098 characters"
    with pytest.raises(ValueError, match=said):
        check_pattern(fails)


NORMAL = {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}
LONG = {"pattern": {"String": " "}, "content": "ab"}  # the library knows it by its fields, too
WRONG = {
    "dropout is 0.1: expected none": {"model": {"dropout": 0.1}},
    "has merges and a continuing_subword_prefix": {"model": {"merges": [["a", "b"]], "continuing_subword_prefix": "#"}},
    "the normalizer may make a text 128 times as long": {"normalizer": {"normalizers": [LONG] * 7}},
    "the decoder may make a text 65 times as long": {"decoder": {**NORMAL, "content": "x" * 65}},
    "the normalizer may make a text 90 times as long": {"normalizer": {"type": "Prepend", "prepend": "x" * 90}},
    "the post_processor may make a text 100 times as long": {
        "post_processor": [{"single": [{"Sequence": {}}] * 10}] * 2
    },
    "lists 65 others: expected at most 64": {"pre_tokenizer": [{"type": "Digits"}] * 65},
    "a part of the pre_tokenizer has length 0": {"pre_tokenizer": {"type": "FixedLength", "length": 0}},
    "the patterns may try the rest of a text 19 times": {"pre_tokenizer": [{"Regex": "a*b"}] * 19},
    "the patterns may try the rest of a text 25 times": {
        "normalizer": {**NORMAL, "content": "x" * 5},
        "pre_tokenizer": {"Regex": "a*b"},
    },
    "the pre_tokenizer may make a text 72 times as long": {
        "normalizer": {"type": "NFKC"},
        "pre_tokenizer": {"trim_offsets": True},
    },
    "max_input_chars_per_word is 1000000000 characters: expected at most 512": {
        "model": {"max_input_chars_per_word": 10**9}
    },
    "the longest piece is 20000 characters: expected at most 512": {"model": {"vocab": [["a", 0], ["x" * 20_000, 0]]}},
    "the longest piece is 114 characters: expected at most 113": {
        "normalizer": {"type": "NFKC"},
        "model": {"vocab": [["x" * 114, 0]]},
    },
    r"the pattern '\(a\+\)\+' repeats": {"normalizer": [{**NORMAL, "pattern": {"Regex": "(a+)+"}}]},
}


@pytest.mark.parametrize("message", WRONG)
def test_a_part_that_asks_for_too_much_is_named(message):
    with pytest.raises(ValueError, match=message):
        check_tokenizer(WRONG[message])


def test_the_parts_of_real_tokenizers_pass():
    check_tokenizer({"normalizer": {"normalizers": [{"type": "Prepend", "prepend": "▁"}, NORMAL]}, "decoder": NORMAL,
                     "model": {"dropout": None, "continuing_subword_prefix": None, "merges": ["a b"] * 9}})  # fmt: skip
    check_tokenizer({"normalizer": {"type": "NFC"}, "pre_tokenizer": [{"Regex": REAL["Qwen 2"]}, {"type": "ByteLevel"}],
                     "model": {"vocab": {"x" * 1000: 0}}})  # fmt: skip
    check_tokenizer({"normalizer": {"type": "BertNormalizer"}, "model": {"max_input_chars_per_word": 100}})
    check_tokenizer({**charsmap(b"\0" * 8, "\N{ARABIC LETTER HEH}".encode() * 18 + b"\0"),
                     "model": {"vocab": [["x" * 16, 0]]}})  # fmt: skip


def test_a_pattern_counts_more_only_behind_what_makes_the_text_longer():
    grows, pattern = {"type": "ByteLevel"}, {"Regex": "a*b"}
    check_tokenizer({"pre_tokenizer": [pattern, pattern, grows]})
    with pytest.raises(ValueError, match="a text 32 times"):
        check_tokenizer({"pre_tokenizer": [grows, pattern, pattern]})


def charsmap(trie, texts):
    content = base64.b64encode(len(trie).to_bytes(4, "little") + trie + texts).decode()
    return {"normalizer": {"type": "Precompiled", "precompiled_charsmap": content}}


def test_a_map_of_characters_is_a_trie_and_short_texts():
    check_tokenizer(charsmap(b"\0" * 8, "fi\0ß\0".encode()))
    check_tokenizer(charsmap(b"\0" * 8, b""))
    for odd in (charsmap(b"", b"a\0"), charsmap(b"\0" * 7, b"a\0"), charsmap(b"\0" * 8, b"a" * 65 + b"\0"),
                charsmap(b"\0" * 8, b"\xff\0"), {"normalizer": {"type": "Precompiled"}},
                {"normalizer": {"type": "Precompiled", "precompiled_charsmap": "?"}}):  # fmt: skip
        with pytest.raises(ValueError, match=r"precompiled_charsmap|codec|base64|padding"):
            check_tokenizer(odd)

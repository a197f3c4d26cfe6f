"""What each kind of cache reuses: worked by hand."""

import pytest

from minikv_tools.why import reused_by_each


def by_hand(*arguments, **options):
    return [row.reused for row in reused_by_each(*arguments, **options)]


@pytest.mark.parametrize(("shared", "length", "expected"), [
    (0, 100, [0, 0, 0, 0, 0]),
    (160, 160, [160, 160, 128, 144, 0]),  # the same prompt again: vLLM computes its last block again
    (161, 161, [161, 160, 128, 160, 0]),
    (240, 240, [240, 240, 192, 224, 0]),  # shorter than a block of 784: vllm-project/vllm#54607
    (1023, 2000, [1023, 1008, 960, 1008, 784]),
    (1600, 1700, [1600, 1600, 1600, 1600, 1568]),
])  # fmt: skip
def test_each_cache_reuses_its_whole_blocks(shared, length, expected):
    assert by_hand(shared, length) == expected


def test_a_hybrid_model_reuses_multiples_of_all_its_blocks():
    row = reused_by_each(9000, 9001, blocks=[16, 100, 1024])[4]
    assert row.reused == 0
    assert "blocks of 25,600" in row.cache
    assert reused_by_each(9000, 9001, blocks=[48, 32])[4].reused == 8928


def test_bytes_are_counted_in_tokens_of_four():
    assert by_hand(4 * 1600, 4 * 1700, scale=4) == [4 * n for n in (1600, 1600, 1600, 1600, 1568)]


def test_another_namespace_reuses_nothing_and_says_why():
    rows = reused_by_each(100, 100, apart="another salt")
    assert {(row.reused, row.why) for row in rows} == {(0, "another salt")}


def test_each_nothing_has_its_reason():
    whys = [row.why for row in reused_by_each(10, 800)]
    assert whys == ["", *["the shared part does not fill a block"] * 4]
    assert reused_by_each(10, 240)[4].why == "the prompt is shorter than one block"


@pytest.mark.parametrize("blocks", [[0], [-1], [1.5], [True]])
def test_a_block_is_a_whole_number_of_tokens(blocks):
    with pytest.raises((TypeError, ValueError), match="a block holds at least 1 token"):
        reused_by_each(1, 1, blocks)

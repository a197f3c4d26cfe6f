"""What minikv says of the layers of models, against transformers; by night, as its import takes seconds."""

import itertools
import json

import model_types
import pytest

from minikv import KVLayers
from minikv.model_types import model_of

pytestmark = pytest.mark.nightly

LAYERS = KVLayers.from_config

WAYS = [  # fields that rules read, changed
    {}, {"num_hidden_layers": 19}, {"sliding_window_pattern": 3}, {"full_attention_interval": 3},
    {"no_rope_layer_interval": 3}, {"use_sliding_window": True, "sliding_window": 64, "max_window_layers": 2},
    {"attn_layer_period": 5, "attn_layer_offset": 2}, {"attn_layer_indices": [2, 5]}, {"full_attn_idxs": [0, 3]},
    {"sliding_window": 64}, {"sliding_window": None},
]  # fmt: skip


def test_the_table_is_what_transformers_says():
    pytest.importorskip("transformers")
    assert json.loads(json.dumps(model_types.table()))["types"] == model_types.WRITTEN["types"]


# which transformers has not, or whose own class lays its layers out otherwise
APART = {*model_types.ALIKE, "kimi_linear", "mimo_v2_flash", "nemotron_h", "lfm2_moe"}
BREAKS = ("qwen2_moe", "use_sliding_window"), ("smollm3", "use_sliding_window")  # there it does not work


def test_layers_are_of_the_kinds_that_transformers_gives_them():
    transformers = pytest.importorskip("transformers")
    compared = 0
    for name, fields in itertools.product(sorted(model_types.WRITTEN["types"].keys() - APART), WAYS):
        known = model_types.class_of(name).keys() | {*model_types.row(name)["also"]}
        if not fields.keys() <= known or any((name, field) in BREAKS for field in fields):
            continue
        try:
            theirs = transformers.CONFIG_MAPPING[name](**fields)
        except Exception:  # it refuses these fields itself
            continue
        kinds = getattr(theirs, "layer_types", None)
        if kinds is None:
            window = getattr(theirs, "sliding_window", None)
            kinds = ["sliding_attention" if window else "full_attention"] * theirs.num_hidden_layers
        count = len(kinds) - (getattr(theirs, "num_kv_shared_layers", 0) or 0)
        assert list(model_of({"model_type": name, **fields}).kinds) == kinds[:count], (name, fields)
        compared += 1
    assert compared > 150


@pytest.mark.parametrize("diff", [False, True])
@pytest.mark.parametrize(
    ("class_name", "fields", "each"),
    [
        ("MambaConfig", {}, 1536 * (16 * 4 + 3 * 2)),
        (
            "Mamba2Config",
            {"num_heads": 24, "n_groups": 1, "state_size": 128},
            24 * 64 * 128 * 4 + 3 * (1536 + 2 * 128) * 2,
        ),
    ],
)
def test_mamba_is_counted_as_transformers_writes_it(class_name, fields, each, diff):
    """130M: 1,536 channels of 16 sums; or 24 heads of 64 x 128, and a convolution over x, and B and C of one group."""
    made = getattr(pytest.importorskip("transformers"), class_name)(hidden_size=768, num_hidden_layers=24, **fields)
    layers = LAYERS(json.loads(made.to_json_string(use_diff=diff)))
    assert (layers.bytes_per_token, layers.bytes_per_sequence) == (0, 24 * each)

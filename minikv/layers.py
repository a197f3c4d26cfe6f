"""How many bytes each layer of a model keeps of a text, by its `config.json`: they need not keep the same.

    full attention     K and V of every token, or one latent vector      bytes per token
    indexer            one more key of every token                       bytes per token
    window, chunk      K and V of the last tokens                        bytes per sequence, so many at most
    state              sums of a recurrent layer, a convolution's inputs bytes per sequence

`model_types` says which layers are which. Layers that only draft tokens (MTP) are not counted.
"""

from __future__ import annotations

from collections.abc import Container, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from minikv.errors import bounded, whole_number
from minikv.model_types import ConfigSource, ModelConfig, model_of, quantized_to
from minikv.sizing import DTYPE_BITS, bytes_per_token, shape_of

_FULL = ("full_attention", "indexed_attention", "hybrid")
_STATE_DTYPES = {"float32": "fp32", "bfloat16": "bf16", "float16": "fp16"}
_CONV_BYTES, _SCALE_BYTES, _BLOCK = 2, 4, 16
_PACKED_BYTES = 656  # in vLLM and SGLang: 512 numbers in fp8, 4 scales in fp32, 64 in bf16; other kernels take 576
_WINDOWS = {"sliding_attention": ("window", "sliding_window"), "chunked_attention": ("chunk", "attention_chunk_size")}


class LayerGroup(NamedTuple):
    """Layers that keep the same, and the bytes of all of them on one rank: of each token, or of one `state`.

    With a `window` only so many tokens are kept. `convention` names what engines do not agree on, or is empty.
    """

    keeps: str
    layers: int
    per_token: int = 0
    window: int | None = None
    state: int = 0
    convention: str = ""

    @property
    def per_sequence(self) -> int:
        """The bytes that a long text keeps for itself, of a window or of states.

        >>> LayerGroup("window", 18, per_token=36_864, window=128).per_sequence
        4718592
        """
        return self.state if self.window is None else self.per_token * self.window


@dataclass(frozen=True)
class KVLayers:
    """All layers of a model by what they keep, in bytes on one rank of a tensor-parallel group.

    >>> gemma = KVLayers.from_config("gemma-3-12b")
    >>> gemma.bytes_per_token, gemma.bytes_per_sequence
    (65536, 335544320)
    >>> [(group.layers, group.keeps, group.window) for group in gemma.groups]
    [(8, 'full attention', None), (40, 'window', 1024)]
    """

    groups: tuple[LayerGroup, ...]
    dtype: str = "bf16"

    @property
    def bytes_per_token(self) -> int:
        """The bytes that every token takes, however long ago it was."""
        return sum(group.per_token for group in self.groups if group.window is None)

    @property
    def bytes_per_sequence(self) -> int:
        """The bytes of the windows, chunks and states that each long text keeps for itself."""
        return sum(group.per_sequence for group in self.groups)

    @property
    def smallest_prefix(self) -> int:
        """The tokens of vLLM's blocks, the least that it reuses; 1 where no layer has a state, and any block will do.

        It keeps a state at the end of a block, whose keys and values in one layer take no less than one layer's state.

        >>> KVLayers.from_config("qwen3-next-80b-a3b", state_dtype="bf16").smallest_prefix
        544
        """
        states = [group.state // group.layers for group in self.groups if group.state]
        each = [group.per_token // group.layers for group in self.groups if group.keeps == "full attention"]
        return _BLOCK * -(-max(states) // (_BLOCK * each[0])) if states and each else 1

    @classmethod
    def from_config(
        cls, source: ConfigSource, dtype: str | None = None, tp: int = 1, state_dtype: str | None = None
    ) -> KVLayers:
        """Read what a `config.json` says; `source` is what `KVShape.from_config` takes.

        Keys and values are of `dtype`; `None` takes what the checkpoint quantizes them to, or bf16. The sums of a
        recurrent layer are of `state_dtype`; `None` takes what the config says, or fp32. `ValueError` names what is
        not known of the model, what cannot be divided among `tp` ranks, and a `state_dtype` without such sums.

        >>> KVLayers.from_config("nemotron-nano-9b-v2", tp=2).groups[0]
        LayerGroup(keeps='full attention', layers=4, per_token=8192, window=None, state=0, convention='')
        """
        if state_dtype not in (None, *_STATE_DTYPES.values()):
            raise ValueError(
                f"state_dtype is {bounded(state_dtype)}: expected one of {', '.join(_STATE_DTYPES.values())}"
            )
        model = model_of(source)
        kv = dtype or quantized_to(source) or "bf16"
        groups = tuple(_groups(model, kv, whole_number("tp", tp, 1, "a group has at least 1 rank"), state_dtype))
        if state_dtype and not any(group.state and group.convention for group in groups):
            raise ValueError(
                f"state_dtype is {bounded(state_dtype)}, but no layer of {model.name} keeps a state's sums"
            )
        return cls(groups, kv)


def _groups(model: ModelConfig, dtype: str, tp: int, state_dtype: str | None) -> Iterator[LayerGroup]:
    """The groups, one for each kind of layer."""
    indexed = model.kinds.count("indexed_attention")
    if full := sum(map(model.kinds.count, _FULL)):
        packed = indexed and dtype == "fp8"
        each = full * _PACKED_BYTES if packed else _per_token(model, _FULL, "full", dtype, tp)
        yield LayerGroup("full attention", full, each, convention="656 bytes, as FlashMLA packs it" * packed)
    if indexed:
        yield _indexer(model)
    for kind, (keeps, field) in _WINDOWS.items():
        if layers := model.kinds.count(kind):
            yield LayerGroup(keeps, layers, _per_token(model, (kind,), "window", dtype, tp), model.need(field))
    if states := sum(map(model.kinds.count, ("linear_attention", "conv", "hybrid"))):
        yield _states(model, states, tp, state_dtype)


def _per_token(model: ModelConfig, kinds: Container[str], rule: str, dtype: str, tp: int) -> int:
    """The bytes of a token's keys and values in the layers of some kinds, which may have heads of their own."""
    config, single = model.config, model.config.get("per_layer_config")
    heads = {
        field: config[own]
        for field, (own, *flags) in model.rules.get(rule, {}).items()
        if all(map(config.get, (own, *flags)))
    }
    each = [heads if single is None else single.get(at, {}) for at, kind in enumerate(model.kinds) if kind in kinds]
    shapes = (shape_of(model._replace(config={**config, **own, "num_hidden_layers": 1})) for own in each)
    return sum(bytes_per_token(shape, dtype, tp) for shape in shapes)


def _indexer(model: ModelConfig) -> LayerGroup:
    """The keys of the indexers, of which every rank has all; a layer that uses another's indexer keeps none."""
    own, types = model.kinds.count("indexed_attention"), model.config.get("indexer_types")
    if types is not None:
        if not isinstance(types, list) or len(types) != own:
            raise ValueError(
                f"indexer_types in {model.name} is {bounded(types)}: expected one for each of {own} layers"
            )
        own = types.count("full")
    elif model.config.get("index_topk_freq"):
        every, skip = model.need("index_topk_freq"), model.need("index_skip_topk_offset")
        own = sum(max(layer - skip + 1, 0) % every == 0 for layer in range(own))
    each = model.need("index_head_dim") + _SCALE_BYTES
    return LayerGroup("indexer", own, own * each, convention="fp8 and an fp32 scale, as in vLLM and SGLang")


def _states(model: ModelConfig, layers: int, tp: int, dtype: str | None) -> LayerGroup:
    """The states of recurrent layers: for each head numbers x size sums, and the last inputs of a convolution."""
    if not (fields := model.rules.get("state")):
        raise ValueError(f"{model.name} has a layer with a state, which its model_type does not have")
    heads, numbers, size, groups, kernel = (model.number(field) for field in fields)
    if heads % tp:
        raise ValueError(f"{heads} heads of a recurrent layer do not divide among {tp} ranks")
    said = model.config.get("mamba_ssm_dtype") or model.config.get("mamba_ssm_cache_dtype")
    why = "as asked" if dtype else "as its config says"
    if (dtype := dtype or _STATE_DTYPES.get(str(said))) is None:
        dtype, why = "fp32", "as in SGLang; vLLM takes the type of the model"
    groups += -groups % tp and tp - groups  # each rank has at least one, as in vLLM
    inputs = (kernel - 1) * (heads * numbers + 2 * groups * size) * _CONV_BYTES
    sums = heads * numbers * size * DTYPE_BITS[dtype] // 8
    convention = f"sums in {dtype}, {why}" if size else ""
    return LayerGroup("state", layers, state=layers * (sums + inputs) // tp, convention=convention)

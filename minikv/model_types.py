"""The kind of each layer of a model, by its `config.json`.

A field that a config leaves out takes the default of the model's class, not of a formula: `model_types.json` has those
of transformers (and says of which version), and a rule for each type of model that says where its full attention is. A
type that is not there, and a field that is unknown and could change what is kept, are refused by name.
"""

from __future__ import annotations

import functools
import json
import math
import re
from collections.abc import Iterator, Mapping
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

from minikv.errors import bounded
from minikv.files import FileName, asset
from minikv.untrusted import LARGEST_SIZE, int_field, read_json

ConfigSource = Mapping[str, Any] | FileName  # a config, or where one is
KINDS = ("full_attention", "indexed_attention", "sliding_attention", "chunked_attention", "linear_attention", "conv",
         "hybrid", "mlp", "moe")  # fmt: skip
_LISTS = ("layer_types", "layers_block_type", "hybrid_override_pattern")
_OTHERWISE = {
    "attention": "full_attention", "mamba": "linear_attention", "deepseek_sparse_attention": "indexed_attention",
    "*": "full_attention", "M": "linear_attention", "-": "mlp", "E": "moe",
}  # fmt: skip
_COULD_MATTER = re.compile(
    "window|attn|attention|layer|head|kv|cache|mamba|ssm|state|conv|linear|index|latent|lora|block|chunk|pattern"
    "|interval|period|share|compress|recurr|swa|memory|hybrid|global|local|sparse"
)
_MOST_LAYERS = 10_000
_STRANGE = "it does not look like a decoder's config.json"
_ELSEWHERE = re.compile("(mtp|moe|expert|vision|audio|output)_")  # what such a field is about keeps nothing here


def read_config(source: ConfigSource) -> tuple[Mapping[str, Any], str]:
    """A decoder's config, of which the multimodal ones have one inside, and what messages call it.

    Takes what `KVShape.from_config` takes.

    >>> config, name = read_config("llama-3.1-8b")
    >>> config["hidden_size"], name
    (4096, 'llama-3.1-8b.json')
    """
    config, name = whole_config(source)
    config = config.get("text_config") or config
    if not isinstance(config, Mapping):
        raise ValueError(f"text_config in {name} is {bounded(config)}: expected an object")
    return config, name


def whole_config(source: Any) -> tuple[Mapping[str, Any], str]:
    """A config with all its parts and a `hf_quant_config.json` beside it, and what messages call it.

    Takes what `KVShape.from_config` takes.
    """
    if isinstance(source, Mapping):
        return source, "the config"
    if not isinstance(source, (str, PathLike)):
        raise TypeError(f"the config is a {type(source).__name__}: expected a dict, a path or a name")
    path = Path(source)
    if path.is_dir():
        path /= "config.json"
    if not path.exists():
        try:
            path = asset(f"configs/{source}.json")
        except FileNotFoundError:
            names = ", ".join(sorted(other.stem for other in asset("configs").iterdir()))
            raise FileNotFoundError(
                f"{bounded(str(source))} is not a config.json, a folder with one, or one of the models of minikv: "
                f"{names}. Download your model's config.json, and pass its path"
            ) from None
    beside = path.with_name("hf_quant_config.json")
    return (read_json(beside) if beside.exists() else {}) | read_json(path, finite=False), path.name


class ModelConfig(NamedTuple):
    """A config with the defaults of its class, what messages call it, its type's rules, and the kind of each layer."""

    config: Mapping[str, Any]
    name: str
    rules: Mapping[str, Any] = {}
    kinds: tuple[str, ...] = ()

    def need(self, field: str) -> int:
        """A size that must be there, or `ValueError` names it.

        >>> model_of("gemma-3-12b").need("head_dim")    # of its class: the config has none
        256
        """
        if self.config.get(field) is None:
            why = ", which its model_type needs" if self.rules else f": {_STRANGE}"
            raise ValueError(f"{self.name} has no {field}{why}")
        most = _MOST_LAYERS if field == "num_hidden_layers" else LARGEST_SIZE
        return int_field(f"{field} in {self.name}", self.config[field], most=most)

    def count(self, *fields: str, default: int = 0) -> int:
        """The first of `fields` that is there, 0 or more."""
        for field in fields:
            if self.config.get(field) is not None:
                return int_field(f"{field} in {self.name}", self.config[field], "0 or more", least=0)
        return default

    def number(self, rule: int | str) -> int:
        """A number that a rule gives, or a field, or the product of two.

        >>> ModelConfig({"expand": 2, "hidden_size": 64}, "the config").number("expand*hidden_size")
        128
        """
        if isinstance(rule, int):
            return rule
        if self.config.get(rule) == "auto":  # the size of a head, where all of them make up the inner layer
            return self.number("mamba_expand*hidden_size") // self.need("mamba_n_heads")
        return math.prod(map(self.need, rule.split("*")))


def model_of(source: ConfigSource) -> ModelConfig:
    """Read a config, as `KVShape.from_config` does, with the kinds of its layers; `ValueError` names what is not known.

    >>> model_of("gpt-oss-120b").kinds[:3]
    ('sliding_attention', 'full_attention', 'sliding_attention')
    >>> model_of({"model_type": "gpt9"})
    Traceback (most recent call last):
    ValueError: model_type in the config is 'gpt9': minikv does not know its layers
    """
    whole, name = whole_config(source)
    config = read_config(whole)[0]
    if (kind := config.get("model_type") or whole.get("model_type")) is None:
        raise ValueError(f"{name} has no model_type: {_STRANGE}")
    if (rules := _rules(kind) or _rules(f"{kind}_text")) is None:  # the part of a multimodal config that is its decoder
        raise ValueError(f"model_type in {name} is {bounded(kind)}: minikv does not know its layers")
    inner = {f"{part}.{field}": value for part in config if isinstance(config[part], Mapping)
             for field, value in config[part].items()}  # fmt: skip
    named = {ours: {**config, **inner}.get(theirs) for theirs, ours in rules.get("renamed", {}).items()}
    outer = {field: whole[field] for field in whole.keys() & {"tie_word_embeddings"}}
    config = {**outer, **config, **{field: value for field, value in named.items() if value is not None}}
    _require_known(config, name, kind, {*_table()["harmless"].split(), *rules["defaults"], *rules.get("also", ())})
    if (own := config.get("per_layer_config")) is not None:
        config["per_layer_config"] = _by_layer(own, name, kind)
    model = ModelConfig({**rules["defaults"], **config}, name, rules)
    return model._replace(kinds=_kinds(model))


def keeps_all(config: Mapping[str, Any]) -> bool:
    """Return whether every layer keeps K and V of all tokens, for a type that is known; any other is taken at its word.

    >>> keeps_all({"model_type": "gemma2"}), keeps_all({"num_hidden_layers": 2})
    (False, True)
    """
    return _rules(config.get("model_type")) is None or {*model_of(config).kinds} <= {"full_attention"}


@functools.cache
def _table() -> Any:
    return json.loads(Path(__file__).with_suffix(".json").read_text("utf-8"))


def _rules(kind: Any) -> dict[str, Any] | None:
    """The rules of a type of model, if it is known."""
    return _table()["types"].get(kind) if isinstance(kind, str) else None


def _require_known(config: Mapping[str, Any], name: str, kind: str, known: set[str]) -> None:
    if config.get("use_sliding_window") is False:
        known |= {"use_sliding_window", "sliding_window", "max_window_layers"}
    for field, value in config.items():
        if value and field not in known and _COULD_MATTER.search(field) and not _ELSEWHERE.match(field):
            raise ValueError(f"{field} in {name} is {bounded(value)}: minikv does not know what {kind} keeps then")


def _by_layer(own: Any, name: str, kind: str) -> dict[int, Mapping[str, Any]]:
    """The fields that a config gives to single layers, as transformers writes them since version 5."""
    found = own.items() if isinstance(own, Mapping) else [("", own)]
    if not all(isinstance(fields, Mapping) and str(layer).isdecimal() for layer, fields in found):
        raise ValueError(
            f"per_layer_config in {name} is {bounded(own)}: expected the fields of layers by their numbers"
        )
    for _, fields in found:
        _require_known(fields, name, kind, {"head_dim", "num_key_value_heads"})
    return {int(layer): fields for layer, fields in found}


def _kinds(model: ModelConfig) -> tuple[str, ...]:
    """The kind of each layer that does not use the keys and values of another."""
    config = model.config
    rules = [*({"field": field} for field in _LISTS), *model.rules.get("layers", [{"full": "every", "n": 1}])]
    rule = next((rule for rule in rules if config.get(rule.get("field"))), rules[-1])
    field = rule.get("field", "num_hidden_layers")
    found = _ruled(model, rule) if "full" in rule else config.get(field)
    if not found or not isinstance(found, (list, str)):
        raise ValueError(f"{field} in {model.name} is {bounded(found)}: expected a list of kinds of layers")
    count = len(found) if config.get("num_hidden_layers") is None else model.need("num_hidden_layers")
    if len(found) != count:
        raise ValueError(f"{field} in {model.name} is for {len(found)} layers, num_hidden_layers is {count}")
    kinds = [_OTHERWISE.get(kind, kind) if isinstance(kind, str) else kind for kind in found]
    for kind in kinds:
        if kind not in KINDS:
            raise ValueError(f"{field} in {model.name} has {bounded(kind)}: minikv does not know such layers")
    kinds[-1] = model.rules.get("last", kinds[-1])
    if (shared := model.count("num_kv_shared_layers")) >= count:
        raise ValueError(f"num_kv_shared_layers in {model.name} is {shared}: it has {count} layers")
    return tuple(kinds[: count - shared])


def _ruled(model: ModelConfig, rule: Mapping[str, Any]) -> list[str]:
    """The kinds of the layers by a rule, which says where full attention is, and what the other layers are."""
    config, way, field = model.config, rule["full"], rule.get("field", "")
    if way in ("flags", "listed"):
        numbers = _numbers(model, field)
    layers = range(len(numbers) if way == "flags" else model.need("num_hidden_layers"))
    if way == "every":
        period = model.need(field) if config.get(field) is not None else rule["n"]
        at = rule.get("at", period - 1)
        if isinstance(at, str) and (at := model.count(named := at)) >= period:
            raise ValueError(f"{named} in {model.name} is {at}: it must be less than {field}, {period}")
        full = {layer for layer in layers if layer % period == at}
    elif way == "first":  # as many layers, or all of them where there is no window
        window = config.get("sliding_window") and config.get("use_sliding_window") is not False
        full = {*layers[: model.count(field) if window else None]}
    elif way == "flags":
        full = {layer for layer in layers if numbers[layer] == rule["n"]}
    else:
        full = {number - rule["n"] for number in numbers}
        if not full <= {*layers}:
            raise ValueError(f"{field} in {model.name} is {bounded(numbers)}: there are {len(layers)} layers")
    return ["full_attention" if layer in full else rule["other"] for layer in layers]


def _numbers(model: ModelConfig, field: str) -> list[int]:
    """A list of numbers in the config."""
    value = model.config.get(field)
    if not isinstance(value, list) or not all(type(number) is int for number in value):
        raise ValueError(f"{field} in {model.name} is {bounded(value)}: expected a list of whole numbers")
    return value


def quantized_to(source: ConfigSource) -> str | None:
    """The type that a checkpoint quantizes its keys and values to, or `None`.

    `ValueError` names a type of unknown size.

    >>> quantized_to({"quantization_config": {"kv_cache_scheme": {"num_bits": 8, "type": "float"}}})
    'fp8'
    """
    whole, name = whole_config(source)
    found = list(_said(whole, {}))
    for field, said in found:
        if not _is_fp8(said):
            raise ValueError(f"{field} of {name} is {bounded(said)}: only the size of FP8 is known")
    return "fp8" if found else None


def _said(config: Mapping[str, Any], of_layers: Any) -> Iterator[tuple[str, Any]]:
    """The fields of a config and its parts that name the cache's type: for Quark's `kv_cache_group` those of layers."""
    of_layers = config.get("layer_quant_config", of_layers)
    for key, value in config.items():
        if key.startswith("kv_cache") and value and str(value).lower() not in ("none", "auto", "true"):
            yield ("layer_quant_config", of_layers) if key == "kv_cache_group" else (key, value)
        elif isinstance(value, Mapping):
            yield from _said(value, of_layers)


def _is_fp8(said: Any) -> bool:
    """Return whether a name, a scheme, or what Quark says of the outputs of projections, is of FP8."""
    if not isinstance(said, Mapping):
        return str(said).lower().startswith("fp8")
    if "num_bits" in said:
        return (said["num_bits"], said.get("type")) == (8, "float")
    parts = [part.get("output_tensors") for part in said.values() if isinstance(part, Mapping)]
    kinds = [part.get("dtype") if isinstance(part, Mapping) else part for part in parts if part]
    return bool(kinds) and all(map(_is_fp8, kinds))

"""How many bytes a token's keys and values take, and how many pages of them fit.

Everything is a whole number of bytes, of one rank of a tensor-parallel group, and equals `tensor.nbytes` of what an
engine allocates (`kv_tensors` lists the tensors; a test adds them up). The weights and the activations are the
caller's to subtract. Here every layer keeps all tokens, and keeps the same; `layers` counts models whose layers differ.

    bytes per token = layers x (K and V) x KV heads on this rank x (head size x bytes per number + scale)
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from math import prod
from numbers import Real
from typing import NamedTuple

from minikv.errors import bounded, whole_number
from minikv.model_types import ConfigSource, ModelConfig, keeps_all, read_config

DTYPE_BITS = {"fp32": 32, "fp16": 16, "bf16": 16, "fp8": 8, "int8": 8, "int4": 4}
SCALE_BYTES = {"int8": 4, "int4": 4}  # one fp32 scale for each token, KV head, and K or V
_UNITS = ("bytes", "KiB", "MiB", "GiB", "TiB")
_TORCH_DTYPE = {"fp32": "float32", "fp16": "float16", "bf16": "bfloat16", "fp8": "float8_e4m3fn", "int8": "int8"}


@dataclass(frozen=True)
class KVShape:
    """The part of a model's shape that decides the size of its KV cache.

    Multi-head attention has as many KV heads as query heads, grouped-query attention fewer, multi-query attention
    one. Multi-head latent attention (DeepSeek) keeps one vector of `latent_dim` numbers per token instead of K and V.

    >>> KVShape(num_layers=32, num_kv_heads=8, head_dim=128, num_heads=32).attention
    'GQA'
    >>> KVShape(num_layers=61, latent_dim=512 + 64, num_heads=128).attention
    'MLA'
    """

    num_layers: int
    num_kv_heads: int = 0
    head_dim: int = 0
    v_head_dim: int | None = None
    latent_dim: int | None = None
    num_heads: int | None = None

    def __post_init__(self) -> None:
        self._check("num_layers", "a model has at least 1 layer", optional=False)
        if self.latent_dim is not None:
            self._check("latent_dim", "a latent vector has at least 1 number")
            if self.num_kv_heads or self.head_dim or self.v_head_dim is not None:
                raise ValueError(
                    f"latent_dim is {self.latent_dim}, so num_kv_heads, head_dim and v_head_dim stay unset"
                )
        else:
            self._check("num_kv_heads", "attention has at least 1 KV head", optional=False)
            self._check("head_dim", "a head has at least 1 number", optional=False)
            self._check("v_head_dim", "a head has at least 1 number")
        self._check("num_heads", "attention has at least 1 head")
        if self.num_heads and self.num_kv_heads and self.num_heads % self.num_kv_heads:
            raise ValueError(
                f"num_heads is {self.num_heads}: it must be a multiple of num_kv_heads {self.num_kv_heads}"
            )

    def _check(self, name: str, rule: str, optional: bool = True) -> None:
        """Keep the field as a Python int, which cannot overflow; an optional field may be `None`."""
        value = getattr(self, name)
        if value is not None or not optional:
            object.__setattr__(self, name, whole_number(name, value, 1, rule))

    @property
    def attention(self) -> str:
        """MHA, GQA, MQA or MLA."""
        if self.latent_dim is not None:
            return "MLA"
        if self.num_kv_heads == self.num_heads:
            return "MHA"
        return "MQA" if self.num_kv_heads == 1 else "GQA"

    @classmethod
    def from_config(cls, source: ConfigSource) -> KVShape:
        """Read the shape from a Hugging Face `config.json`: a dict, a file, a folder with one, or a name we ship.

        Multimodal configs by `text_config`. `ValueError` for a model known to have layers that keep less than all
        tokens: they are no single shape, and `KVLayers.from_config` counts them.

        >>> KVShape.from_config("deepseek-v3").latent_dim
        576
        >>> KVShape.from_config({"num_hidden_layers": 2})
        Traceback (most recent call last):
        ValueError: the config has no num_attention_heads: it does not look like a decoder's config.json
        """
        config, name = read_config(source)
        if not keeps_all(config):
            raise ValueError(f"{name} has layers that keep something other than K and V of all tokens: use KVLayers")
        return shape_of(ModelConfig(config, name))


def shape_of(model: ModelConfig) -> KVShape:
    """The shape that a config gives to all its layers.

    >>> fields = {"num_hidden_layers": 2, "num_attention_heads": 4, "hidden_size": 64}
    >>> shape_of(ModelConfig(fields, "the config")).head_dim
    16
    """
    config, name, need = model.config, model.name, model.need
    layers, heads = need("num_hidden_layers"), need("num_attention_heads")
    if config.get("kv_lora_rank") is not None or "kv_lora_rank" in model.rules.get("defaults", ()):
        return KVShape(layers, latent_dim=need("kv_lora_rank") + need("qk_rope_head_dim"), num_heads=heads)
    if config.get("num_key_value_heads") is None and {"multi_query", "num_kv_heads", "n_head_kv"} & set(config):
        raise ValueError(f"{name} names its KV heads differently: create a KVShape yourself")
    kv_heads = heads if config.get("num_key_value_heads") is None else need("num_key_value_heads")
    values = None if config.get("v_head_dim") is None else need("v_head_dim")
    if config.get("head_dim") is not None:
        return KVShape(layers, kv_heads, need("head_dim"), values, num_heads=heads)
    if need("hidden_size") % heads:
        raise ValueError(f"hidden_size {config['hidden_size']} in {name} is not a multiple of its {heads} heads")
    return KVShape(layers, kv_heads, need("hidden_size") // heads, values, num_heads=heads)


class TensorPlan(NamedTuple):
    """One tensor that an engine would allocate: its `name`, `shape` and torch `dtype`, one row per slot."""

    name: str
    shape: tuple[int, ...]
    dtype: str


def kv_heads_per_rank(num_kv_heads: int, tp: int = 1) -> int:
    """The KV heads on each of `tp` ranks: split evenly, or one on each when there are more ranks than heads.

    >>> [kv_heads_per_rank(8, tp) for tp in (1, 2, 8, 16)]
    [8, 4, 1, 1]
    >>> kv_heads_per_rank(8, 3)
    Traceback (most recent call last):
    ValueError: 8 KV heads do not divide among 3 ranks: one must be a multiple of the other
    """
    heads = whole_number("num_kv_heads", num_kv_heads, 1, "attention has at least 1 KV head")
    ranks = whole_number("tp", tp, 1, "a tensor-parallel group has at least 1 rank")
    if heads % ranks and ranks % heads:
        raise ValueError(f"{heads} KV heads do not divide among {ranks} ranks: one must be a multiple of the other")
    return max(1, heads // ranks)


def require_shape(shape: KVShape) -> None:
    """Raise `TypeError` for what is not a `KVShape`.

    >>> require_shape(5)
    Traceback (most recent call last):
    TypeError: shape is 5: expected a KVShape
    """
    if not isinstance(shape, KVShape):
        raise TypeError(f"shape is {bounded(shape)}: expected a KVShape")


def kv_tensors(
    shape: KVShape, num_pages: int, page_size: int = 1, dtype: str = "bf16", tp: int = 1
) -> list[TensorPlan]:
    """The tensors of the whole cache on one rank: (slots, layers, KV heads, numbers), and scales where there are any.

    Numbers of four bits lie two to a byte. In latent attention there is one tensor, and every rank has all of it.

    >>> for plan in kv_tensors(KVShape(2, num_kv_heads=4, head_dim=8), num_pages=3, page_size=16, dtype="int4", tp=2):
    ...     print(plan.name, plan.shape, plan.dtype)
    k (48, 2, 2, 4) uint8
    v (48, 2, 2, 4) uint8
    k_scale (48, 2, 2) float32
    v_scale (48, 2, 2) float32
    """
    require_shape(shape)
    slots = whole_number("num_pages", num_pages, 0, "0 pages or more") * _page_size(page_size)
    if not isinstance(dtype, str) or dtype not in DTYPE_BITS:
        raise ValueError(f"dtype is {bounded(dtype)}: expected one of {', '.join(DTYPE_BITS)}")
    ranks = whole_number("tp", tp, 1, "a tensor-parallel group has at least 1 rank")
    if shape.latent_dim is not None:
        heads, sizes = 1, {"latent": shape.latent_dim}
    else:
        heads = kv_heads_per_rank(shape.num_kv_heads, ranks)
        sizes = {"k": shape.head_dim, "v": shape.v_head_dim or shape.head_dim}
    if shape.num_heads is not None and shape.num_heads % ranks:
        raise ValueError(f"{shape.num_heads} query heads do not divide among {ranks} ranks")
    plans = []
    for name, numbers in sizes.items():
        if numbers * DTYPE_BITS[dtype] % 8:
            raise ValueError(f"{numbers} numbers of {dtype} are not whole bytes")
        packed = numbers * DTYPE_BITS[dtype] // 8 if dtype == "int4" else numbers
        plans.append(TensorPlan(name, (slots, shape.num_layers, heads, packed), _TORCH_DTYPE.get(dtype, "uint8")))
    if dtype in SCALE_BYTES:
        plans += [TensorPlan(f"{name}_scale", (slots, shape.num_layers, heads), "float32") for name in sizes]
    return plans


_ITEM_BYTES = {"float32": 4, "float16": 2, "bfloat16": 2, "float8_e4m3fn": 1, "int8": 1, "uint8": 1}


def bytes_per_page(shape: KVShape, page_size: int = 1, dtype: str = "bf16", tp: int = 1) -> int:
    """The bytes that one page of `page_size` tokens takes on one rank.

    >>> bytes_per_page(KVShape.from_config("llama-3.1-8b"), page_size=16)
    2097152
    """
    plans = kv_tensors(shape, 1, page_size, dtype, tp)
    return sum(prod(plan.shape) * _ITEM_BYTES[plan.dtype] for plan in plans)


def bytes_per_token(shape: KVShape, dtype: str = "bf16", tp: int = 1) -> int:
    """The bytes that one token's keys and values take on one rank.

    >>> bytes_per_token(KVShape.from_config("llama-3.1-8b")), bytes_per_token(KVShape.from_config("deepseek-v3"))
    (131072, 70272)
    """
    return bytes_per_page(shape, 1, dtype, tp)


def kv_budget(memory_bytes: int, weight_bytes: int, utilization: float = 0.9) -> int:
    """The bytes left for the cache: the used share of the device's memory, less the weights; whole bytes.

    >>> kv_budget(80 * 1024**3, weight_bytes=8_030_261_248 * 2)
    61248888832
    """
    memory = whole_number("memory_bytes", memory_bytes, 1, "a device has at least 1 byte")
    weights = whole_number("weight_bytes", weight_bytes, 0, "weights take 0 bytes or more")
    if isinstance(utilization, bool) or not isinstance(utilization, Real) or not 0 < utilization <= 1:
        raise ValueError(f"utilization is {bounded(utilization)}: it is a share of the memory in (0, 1]")
    usable = int(memory * Fraction(str(utilization)))  # 0.29 means 29 hundredths, not the float nearest to it
    budget = usable - weights
    if budget < 0:
        raise ValueError(f"the weights take {size_text(weights)}, but only {size_text(usable)} may be used")
    return budget


def size_text(size: int) -> str:
    """A number of bytes as people read it, to four digits: in TiB, GiB, MiB or KiB, which count by 1,024.

    >>> size_text(9 * 2**27), size_text(4_718_592), size_text(1000)
    ('1.125 GiB', '4.5 MiB', '1,000 bytes')
    """
    power = min(4, max(0, size.bit_length() - 1) // 10)
    return f"{size / 1024**power:,.4g} {_UNITS[power]}"


def pages_that_fit(budget_bytes: int, page_bytes: int) -> int:
    """Return how many whole pages fit in a budget; what is left over is less than a page.

    >>> pages_that_fit(1_000_000, 2**16)
    15
    """
    budget = whole_number("budget_bytes", budget_bytes, 0, "a budget is 0 bytes or more")
    return budget // whole_number("page_bytes", page_bytes, 1, "a page takes at least 1 byte")


class PageWaste(NamedTuple):
    """The cost of whole pages: `pages` taken, `tokens` in them, `wasted` slots that no token is in."""

    pages: int
    tokens: int
    wasted: int

    @property
    def fraction(self) -> float:
        """The share of all slots taken that is wasted; 0 when none is taken."""
        return self.wasted / (self.tokens + self.wasted) if self.pages else 0.0


def page_waste(lengths: Iterable[int], page_size: int) -> PageWaste:
    """The internal fragmentation of sequences of the given lengths (in tokens), each in whole pages of its own.

    >>> page_waste([1, 16, 17], page_size=16)
    PageWaste(pages=4, tokens=34, wasted=30)
    """
    if not isinstance(lengths, Iterable):
        raise TypeError(f"lengths is {bounded(lengths)}: expected the lengths of sequences")
    size, pages, tokens = _page_size(page_size), 0, 0
    for i, length in enumerate(lengths):
        number = whole_number(f"lengths[{i}]", length, 0, "a sequence has 0 tokens or more")
        pages, tokens = pages + -(-number // size), tokens + number
    return PageWaste(pages, tokens, pages * size - tokens)


def _page_size(page_size: int) -> int:
    return whole_number("page_size", page_size, 1, "a page holds at least 1 token")

"""minikv: how LLM serving engines manage their KV cache, small enough to read and fast enough to use.

Everything that a learner meets can be imported from here. Nothing is imported until it is asked for, so that
`import minikv` needs neither torch nor a widget.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from minikv.assets import asset
    from minikv.errors import InvariantError, LockError, OutOfPages
    from minikv.learn import Canary, CanaryError, CanaryModel, Ledger, LedgerError, check, explore, follow, progress
    from minikv.manager import CacheManager, Sequence
    from minikv.pools import (
        BitmaskPool,
        FreeListPool,
        PageTable,
        QueuePool,
        SlotPool,
        TrustingPool,
        page_slots,
        slot_pages,
    )
    from minikv.prefix import Handle, Insertion, Match, NoCache, PrefixCache, RadixCache
    from minikv.serving import (
        Chunk,
        Engine,
        FirstComeFirstServed,
        Generation,
        LongestPrefixFirst,
        Model,
        Request,
        Sampler,
        Scheduler,
    )
    from minikv.serving.chat import Chat
    from minikv.serving.model import Llama
    from minikv.serving.tokenizer import ByteTokenizer
    from minikv.show import Film, Picture, Player, Playground, beside, draw, play, playground, plot, record
    from minikv.sizing import (
        KVShape,
        PageWaste,
        bytes_per_page,
        bytes_per_token,
        kv_budget,
        kv_heads_per_rank,
        kv_tensors,
        page_waste,
        pages_that_fit,
    )
    from minikv.store import HostCopy, KVStore, Slots
    from minikv.tokens import PackedTokens, common_prefix, pack

__version__ = "0.1.0"

_HOMES = {
    "minikv.assets": "asset",
    "minikv.errors": "InvariantError LockError OutOfPages",
    "minikv.learn": "Canary CanaryError CanaryModel Ledger LedgerError check explore follow progress",
    "minikv.manager": "CacheManager Sequence",
    "minikv.pools": "BitmaskPool FreeListPool PageTable QueuePool SlotPool TrustingPool page_slots slot_pages",
    "minikv.prefix": "Handle Insertion Match NoCache PrefixCache RadixCache",
    "minikv.serving.chat": "Chat",
    "minikv.serving.model": "Llama",
    "minikv.serving.tokenizer": "ByteTokenizer",
    "minikv.serving": "Chunk Engine FirstComeFirstServed Generation LongestPrefixFirst Model Request Sampler Scheduler",
    "minikv.show": "Film Picture Player Playground beside draw play playground plot record",
    "minikv.sizing": "KVShape PageWaste bytes_per_page bytes_per_token kv_budget kv_heads_per_rank kv_tensors "
    "page_waste pages_that_fit",
    "minikv.store": "HostCopy KVStore Slots",
    "minikv.tokens": "PackedTokens common_prefix pack",
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names.split()}
__all__ = sorted(_HOME_OF)


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module 'minikv' has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOME_OF[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})

"""minikv: how LLM serving engines manage their KV cache, small enough to read and fast enough to use.

Everything that a learner meets can be imported from here. Nothing is imported until it is asked for, so that
`import minikv` needs neither torch nor a widget.
"""

from __future__ import annotations

import importlib

TYPE_CHECKING = False  # type checkers take it for true; `typing` itself would be most of the import's time
if TYPE_CHECKING:
    from typing import Any

    from minikv.assets import asset
    from minikv.copy_on_write import CopyOnWrite
    from minikv.course.film import Film, record
    from minikv.course.pictures import Picture, beside, draw, plot
    from minikv.course.pieces import check, fold, guess, hint, mine, progress, solution, source
    from minikv.course.pieces.scoreboard import Scoreboard, scoreboard
    from minikv.course.player import Player, play
    from minikv.course.playground import Playground, playground
    from minikv.errors import InvariantError, LockError, OutOfPages
    from minikv.manager import CacheManager, Sequence, WindowedManager
    from minikv.measure import break_even_tokens
    from minikv.pools import (
        BitmaskPool,
        FreeListPool,
        PageTable,
        QueuePool,
        SlotPool,
        WindowedPool,
        page_slots,
        slot_pages,
    )
    from minikv.prefix import (
        EvictionOrder,
        Handle,
        HashBlockCache,
        Insertion,
        Match,
        NoCache,
        PrefixCache,
        RadixCache,
        RowCache,
        RowSequence,
        SlidingWindowCache,
        SmallestKeyFirst,
        TokenTrie,
    )
    from minikv.serving import (
        Chunk,
        Engine,
        FirstComeFirstServed,
        Generation,
        LongestPrefixFirst,
        Model,
        PromptLookup,
        Request,
        Sampler,
        SamplingParams,
        Scheduler,
    )
    from minikv.serving.chat import Chat
    from minikv.serving.llama import Llama
    from minikv.serving.tokenizer import ByteTokenizer
    from minikv.serving.windowed_llama import WindowedStore, windowed_llama
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
    from minikv.testing import (
        Canary,
        CanaryError,
        CanaryModel,
        Ledger,
        LedgerError,
        RowLedger,
        WindowCanaryModel,
        explore,
        follow,
    )
    from minikv.tokens import PackedTokens, common_prefix, pack

__version__ = "0.1.0"

_HOMES = {
    "minikv.assets": "asset",
    "minikv.errors": "InvariantError LockError OutOfPages",
    "minikv.copy_on_write": "CopyOnWrite",
    "minikv.course.film": "Film record",
    "minikv.course.pictures": "Picture beside draw plot",
    "minikv.course.pieces": "check fold guess hint mine progress solution source",
    "minikv.course.pieces.scoreboard": "Scoreboard scoreboard",
    "minikv.course.player": "Player play",
    "minikv.course.playground": "Playground playground",
    "minikv.manager": "CacheManager Sequence WindowedManager",
    "minikv.measure.break_even": "break_even_tokens",
    "minikv.pools": "BitmaskPool FreeListPool PageTable QueuePool SlotPool WindowedPool page_slots slot_pages",
    "minikv.prefix": "EvictionOrder Handle HashBlockCache Insertion Match NoCache PrefixCache RadixCache RowCache "
    "RowSequence SlidingWindowCache SmallestKeyFirst TokenTrie",
    "minikv.serving.chat": "Chat",
    "minikv.serving.llama": "Llama",
    "minikv.serving.tokenizer": "ByteTokenizer",
    "minikv.serving.windowed_llama": "WindowedStore windowed_llama",
    "minikv.serving": "Chunk Engine FirstComeFirstServed Generation LongestPrefixFirst Model PromptLookup Request "
    "Sampler SamplingParams Scheduler",
    "minikv.sizing": "KVShape PageWaste bytes_per_page bytes_per_token kv_budget kv_heads_per_rank kv_tensors "
    "page_waste pages_that_fit",
    "minikv.store": "HostCopy KVStore Slots",
    "minikv.testing": "Canary CanaryError CanaryModel Ledger LedgerError RowLedger WindowCanaryModel explore follow",
    "minikv.tokens": "PackedTokens common_prefix pack",
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names.split()}
__all__ = sorted(_HOME_OF)


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module 'minikv' has no attribute {name!r}")
    try:
        value = getattr(importlib.import_module(_HOME_OF[name]), name)
    except ModuleNotFoundError as error:
        raise _missing(name, error) from None
    globals()[name] = value
    return value


def _missing(name: str, error: ModuleNotFoundError) -> ImportError:
    """What to say when `name` needs a package that is not installed: which one, and the extra that brings it."""
    from minikv.doctor import remedy

    module = (error.name or "").split(".")[0]
    if module in ("minikv", ""):
        return error
    # The course needs all of its packages: the extra of the first one that is missing would not do.
    part_of_course = _HOME_OF[name].startswith("minikv.course") and "serving" not in remedy(module)
    command = "pip install 'minikv[course]'" if part_of_course else remedy(module)
    return ImportError(f"minikv.{name} needs {module}, which is not installed: {command}", name=module)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})

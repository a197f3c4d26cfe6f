"""What each kind of cache would reuse of a prompt that shares its beginning with an earlier one."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from minikv.errors import whole_number

PAGES = (1, 16, 64)  # tokens
BLOCK = 16  # tokens: vLLM's default
HYBRID = (784,)  # tokens: the block of a hybrid model in vllm-project/vllm#54607, whose prompts of 240 never hit
API_LEAST, API_STEP = 1024, 128  # tokens: what OpenAI's API caches at least, and in which steps


class Reused(NamedTuple):
    """What one kind of cache reuses, in tokens or bytes, and why it is not more."""

    cache: str
    reused: int
    why: str = ""


def reused_by_each(
    shared: int, length: int, blocks: Sequence[int] = HYBRID, scale: int = 1, apart: str = ""
) -> list[Reused]:
    """What each kind of cache reuses of a prompt of `length`, of which `shared` was computed before.

    Both count in units of which a token has `scale`. `blocks` are the sizes of the blocks of a hybrid model's groups in
    tokens: it reuses whole multiples of them all. `apart` says why the two prompts do not meet in one cache, if so.

    >>> [row.reused for row in reused_by_each(100, 300)]
    [100, 96, 64, 96, 0, 0]
    >>> reused_by_each(1600, 1700, blocks=[16, 784])[4]
    Reused(cache='hybrid model, blocks of 784 (the least common multiple of 16 and 784)', reused=1568, why='')
    """
    common = math.lcm(*(whole_number("blocks", size, 1, "a block holds at least 1 token") for size in blocks))
    known = min(shared, max(0, length - scale))  # the last token is computed again: it gives the next one
    kinds = [("pages of 1 token (a radix tree)" if size == 1 else f"pages of {size} tokens", shared, size, 0)
             for size in PAGES]  # fmt: skip
    kinds.append((f"full blocks of {BLOCK}, less the last token (vLLM)", known, BLOCK, 0))
    several = f" (the least common multiple of {' and '.join(map(str, blocks))})" if len(blocks) > 1 else ""
    kinds.append((f"hybrid model, blocks of {common:,}{several}", known, common, 0))
    kinds.append((f"steps of {API_STEP} from {API_LEAST:,} on (OpenAI's API)", known, API_STEP, API_LEAST))
    return [_reuse(*kind, length, scale, apart) for kind in kinds]


def _reuse(cache: str, shared: int, size: int, least: int, length: int, scale: int, apart: str) -> Reused:
    if apart:
        return Reused(cache, 0, apart)
    unit = size * scale
    found = shared // unit * unit
    if length < max(unit, least * scale):
        return Reused(cache, 0, f"the prompt is shorter than {'that' if least else 'one block'}")
    if found < least * scale:
        return Reused(cache, 0, "less than that is shared")
    if not found and shared:
        return Reused(cache, 0, "what is shared does not fill a block")
    return Reused(cache, found)

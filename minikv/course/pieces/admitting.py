"""The plays of chapter 04 in which requests come into a pool and a cache: `admit` and `serve`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from minikv.course.pieces.ch03 import slots_lost_or_twice
from minikv.course.pieces.observer import Raised
from minikv.course.pieces.piece import Frames, Shown, called
from minikv.course.pieces.props import bracketed, numbers, preorder, shuffle, used_pool
from minikv.engine import World
from minikv.errors import OutOfPages


def play_admit(world: World, case: Any) -> Frames:
    """Requests come into a pool of `pages` pages, are published as they are admitted, and leave.

    A step is a prompt, with its namespace where it has one, or says which of the requests leaves.
    """
    pages, size, steps = case
    cache, pool, running = world["RadixCache"](size), world["Pool"](pages), list[Any]()
    shuffle(pool)
    for step in steps:
        if isinstance(step, int):
            if running:
                held, tail = running.pop(step % len(running))
                pool.free(tail)
                cache.unlock(held)
            continue
        prompt, namespace = step if isinstance(step, tuple) else (step, None)
        shown = called(
            world, "admit", OutOfPages, also=lambda: _room(cache, pool), hide="cache pool", words=_admitted,
            cache=cache, pool=pool, tokens=numbers(prompt), namespace=namespace,
        )  # fmt: skip
        yield shown._replace(picture=cache)
        if not isinstance(shown.result, Raised):
            running.append(_published(cache, pool, numbers(prompt), namespace, *shown.result))
            yield Shown(f"{shown.caption}, then insert", _room(cache, pool), cache)


def _admitted(result: Any) -> Any:
    """The result of `admit`, no matter which pages were taken."""
    if isinstance(result, (tuple, list)) and len(result) == 2 and hasattr(result[0], "length"):
        return {"cached tokens": result[0].length, "new pages": len(result[1])}
    return result


def _published(cache: Any, pool: Any, prompt: list[int], namespace: Any, found: Any, own: Any) -> tuple[Any, list[int]]:
    """Cache an admitted prompt; the lock on it, and the pages that the request still has for itself."""
    row = [*found.pages.tolist(), *own]
    done = cache.insert(prompt, row, namespace=namespace)
    size = cache.page_size
    pool.free(row[found.length // size : done.prefix_length // size])
    held = cache.acquire(prompt, namespace=namespace)
    cache.unlock(found)
    return held, row[len(prompt) // size :]


def _room(cache: Any, pool: Any) -> Mapping[str, Any]:
    """A cache and its pool, no matter which pages were taken."""
    nodes = [node for root in cache.roots.values() for node in preorder(root)]
    return {
        "free pages": pool.num_free, "evictable tokens": cache.evictable_size,
        "protected tokens": cache.protected_size,
        "cached edges and their locks": [(tuple(node.tokens), node.locks) for node in nodes],
    }  # fmt: skip


def play_serve(world: World, case: Any) -> Frames:
    """Prompts are served by a pool of `size` slots, which has been in use; a number says which of their locks ends."""
    size, steps = case
    cache, pool, running = world["RadixCache"](), used_pool(world, size), list[Any]()
    slots, done = set(pool.stack), list[str]()
    for step in steps:
        shuffle(pool)  # in whichever order they were freed
        if isinstance(step, int):
            if running:
                cache.unlock(running.pop(step % len(running)))
            continue
        done.append(bracketed(step))
        shown = called(
            world, "serve", OutOfPages, hide="cache pool", words=_lock_in_words,
            also=lambda: {**slots_lost_or_twice(cache.roots[None], pool, slots), **_room(cache, pool),
                          "locks held": sum(cache.held.values())},
            cache=cache, pool=pool, prompt=numbers(step),
        )  # fmt: skip
        running += [shown.result] if hasattr(shown.result, "node") else []
        yield Shown(f"serve {', then '.join(done)} with {size} free slots", shown.things, cache)


def _lock_in_words(held: Any) -> Any:
    return {"length": held.length, "has slots": hasattr(held, "slots")} if hasattr(held, "length") else held

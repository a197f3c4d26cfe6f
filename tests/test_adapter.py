"""The base class for an engine's cache: it adds no fault of its own, and hides none of the engine's."""

from __future__ import annotations

import ast
import re

import numpy as np
import pytest
from project import ROOT
from test_conformance import states

from minikv import LockError, RadixCache
from minikv.testing import Adapter
from minikv.testing.conformance.examine import verify
from minikv.testing.conformance.rules import HOLDS, NOT_CLAIMED

pytestmark = pytest.mark.core


class Adapted(Adapter):
    """An engine that keeps all rules, behind the adapter."""

    engine = RadixCache

    def open(self):
        self.cache = self.engine(page_size=self.page_size)

    def find(self, tokens, namespace):
        match = self.cache.match_prefix(tokens, namespace=namespace)
        return match.pages, match

    def store(self, tokens, pages, namespace):
        done = self.cache.insert(tokens, pages, namespace=namespace)
        return done.prefix_length, done

    def hold(self, place):
        self.cache.lock(place)

    def release(self, place):
        self.cache.unlock(place)

    def free(self, num_tokens):
        return self.cache.evict(num_tokens)

    def sizes(self):
        return self.cache.evictable_size, self.cache.protected_size


@pytest.fixture
def cache():
    return Adapted()


def test_an_engine_that_is_right_keeps_what_an_adapter_claims():
    assert states(Adapted, examples=40) == {HOLDS: [*range(3, 11), 13, 15], NOT_CLAIMED: [1, 2, 11, 12, 14]}


def test_the_adapter_checks_all_input_and_copies_it():
    class All(Adapted):
        claims = Adapter.claims | {1, 2}

    assert states(All)[HOLDS] == [*range(1, 11), 13, 15]


class RefreshesTheRest(RadixCache):
    """A match in the middle of a prompt refreshes the rest of it too, as SGLang's does."""

    def insert(self, tokens, pages, **options):
        self.prompts = [*getattr(self, "prompts", []), tokens]
        return super().insert(tokens, pages, **options)

    def match_prefix(self, tokens, **options):
        found = super().match_prefix(tokens, **options)
        for prompt in getattr(self, "prompts", []):
            if found.length and prompt[: found.length] == tokens[: found.length]:
                super().match_prefix(prompt, **options)
        return found


class IgnoresLocks(RadixCache):
    """A lock protects nothing."""

    def lock(self, handle):
        pass

    def unlock(self, handle):
        pass


@pytest.mark.parametrize(("engine", "rule"), [(RefreshesTheRest, 8), (IgnoresLocks, 6)])
def test_what_the_engine_gets_wrong_is_found(engine, rule):
    found = verify(type("Wrong", (Adapted,), {"engine": engine}), examples=0)
    assert rule in [each.rule for each in found.broken]


def test_a_handle_is_stale_when_its_end_was_evicted(cache):
    handle = cache.insert([1, 2], [5, 6])
    cache.evict(2)
    cache.insert([1, 2], [7, 8])
    with pytest.raises(LockError, match="stale"):
        cache.lock(handle)


def test_a_handle_of_another_cache_is_stale(cache):
    with pytest.raises(LockError, match="stale"):
        cache.lock(Adapted().insert([1], [5]))


def test_locks_are_counted_for_each_handle(cache):
    match, other = cache.acquire([1]), cache.match_prefix([1])
    with pytest.raises(LockError, match="not locked"):
        cache.unlock(other)
    cache.unlock(match)
    with pytest.raises(LockError, match="not locked"):
        cache.unlock(match)


def test_pages_before_a_start_are_those_that_are_cached(cache):
    cache.insert([1, 2], [5, 6])
    start = cache.acquire([1, 2])
    assert cache.insert([1, 2, 3], [None, "nothing", 7], start=start).prefix_length == 2
    assert cache.match_prefix(np.array([1, 2, 3])).pages.tolist() == [5, 6, 7]


@pytest.mark.parametrize(("tokens", "options"), [([9, 2, 3], {}), ([1, 2, 3], {"namespace": "a"})])
def test_a_start_is_a_prefix(cache, tokens, options):
    cache.insert([1, 2], [5, 6])
    with pytest.raises(ValueError, match="start is not a prefix"):
        cache.insert(tokens, [5, 6, 7], start=cache.acquire([1, 2]), **options)


@pytest.mark.parametrize("method", ["open", "find", "store", "hold", "release", "free", "sizes"])
def test_what_is_not_filled_in_is_named(method):
    with pytest.raises(TypeError, match=f"abstract method '?{method}'?"):
        type("Partly", (Adapted,), {method: getattr(Adapter, method)})()


FILES = sorted((ROOT / "assets" / "adapters").glob("*.py"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_an_example_that_is_run_by_hand_is_whole_and_says_when(path):
    """It needs an engine, so it is only read here: by day nothing more could be said honestly."""
    tree = ast.parse(path.read_text("utf-8"))
    compile(tree, path.name, "exec")
    assert re.search(r"Run by hand on 20\d\d-\d\d-\d\d with", ast.get_docstring(tree))
    made = [each for each in tree.body if isinstance(each, ast.ClassDef) and each.bases]
    for first in [each for each in made if ast.unparse(each.bases[0]) == "Adapter"]:
        written = {each.name for each in first.body if isinstance(each, ast.FunctionDef)}
        assert written >= {"open", "find", "store", "hold", "release", "free", "sizes"}


def test_there_is_an_example_for_each_engine():
    assert [path.stem for path in FILES] == ["minisgl_radix", "sglang_radix", "vllm_blocks", "vllm_manager"]

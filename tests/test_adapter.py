"""The base class for an engine's cache: it adds no fault of its own, and hides none of the engine's."""

import ast
import re

import pytest
from project import ROOT
from test_conformance import states

from minikv import RadixCache
from minikv.testing import Adapter
from minikv.testing.rules import HOLDS, NOT_CLAIMED, RULES
from minikv.testing.verify import verify


class Adapted(Adapter):
    """An engine that keeps all rules, behind the adapter."""

    engine = RadixCache

    def open(self):
        self.cache = self.engine(page_size=self.page_size)

    def find(self, tokens, namespace):
        match = self.cache.match_prefix(tokens, namespace=namespace)
        return match.pages, match

    def store(self, tokens, pages, namespace):
        assert len(tokens) == len(pages) * self.page_size
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


class CheckedToo(Adapted):
    """With the rules that the adapter keeps: it checks all input and copies it."""

    claims = Adapter.claims | {1, 2}


def test_an_engine_that_is_right_keeps_what_an_adapter_claims():
    assert states(Adapted, examples=40) == {
        HOLDS: sorted(Adapter.claims),
        NOT_CLAIMED: sorted({*RULES} - Adapter.claims),
    }
    assert states(CheckedToo)[HOLDS] == sorted(CheckedToo.claims)


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


METHODS = Adapter.__abstractmethods__


@pytest.mark.parametrize("method", sorted(METHODS))
def test_what_is_not_filled_in_is_named(method):
    with pytest.raises(TypeError, match=f"abstract method '?{method}'?"):
        type("Partly", (Adapted,), {method: getattr(Adapter, method)})()


FILES = sorted(ROOT.glob("assets/adapters/*.py"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_an_example_that_is_run_by_hand_is_whole_and_says_when(path):
    """It needs an engine, so it is only read here: by day nothing more could be said honestly."""
    tree = ast.parse(path.read_text("utf-8"))
    assert re.search(r"Run by hand on 20\d\d-\d\d-\d\d with", ast.get_docstring(tree))
    bases = {
        ast.unparse(base): made for made in ast.walk(tree) if isinstance(made, ast.ClassDef) for base in made.bases
    }
    assert {each.name for each in bases["Adapter"].body if isinstance(each, ast.FunctionDef)} >= METHODS


def test_there_is_an_example_for_each_engine():
    assert [path.stem for path in FILES] == ["minisgl_radix", "nanovllm_blocks", "sglang_radix", "vllm_blocks"]

"""The scenarios about what goes in and what comes out: every form of tokens and pages, buffers, and limits."""

from __future__ import annotations

from minikv.testing.conformance.scenario import Scenario, scenario_of

_CACHED = "cache.insert([1, 2], [0, 1])"
_FORMS = ["(1, 2, 3)", "range(1, 4)", "array('q', [1, 2, 3])", "np.array([1, 2, 3])", "np.array([1, 2, 3], np.uint8)",
          "np.array([1, 0, 2, 0, 3])[::2]", "b'\\1\\2\\3'", "pack([1, 2, 3])",
          "np.array([1, 2, 3], object)"]  # fmt: skip
_BAD_TOKENS = ["[1, -1]", "[2**32]", "[1, 2, 3.5]", "[1, '2']", "[None]", "'hello'", "{1, 2}", "5", "None", "[[1, 2]]",
               "np.zeros((2, 2), int)", "np.array([0.5])", "np.array([4, -7])", "np.array([2**40])"]  # fmt: skip
_PAGES = ["(7, 8, 9)", "deque([7, 8, 9])", "array('i', [7, 8, 9])", "np.array([7, 8, 9])", "pack([7, 8, 9])"]
_BAD_PAGES = ["[1]", "[1, 2, 3, 4]", "[1, 2, -3]", "[1, 2**31, 3]", "[1, 2.0, 3]", "None", "'abc'", "np.ones(3)",
              "np.ones((3, 1), int)", "np.array([1, 2, -3], np.int32)", "{1, 2, 3}", "{5: 5, 6: 6, 7: 7}"]  # fmt: skip
_BUFFERS = ["[1, 2, 3]", "array('I', [1, 2, 3])", "np.array([1, 2, 3], np.uint32)"]

INPUTS: list[Scenario] = [
    *[scenario_of(f"cache.insert({form}, [7, 8, 9])", "cache.match_prefix([1, 2, 3])", f"cache.match_prefix({form})")
      for form in _FORMS],
    *[scenario_of(_CACHED, f"cache.{call}", "cache.match_prefix([1, 2])")
      for bad in _BAD_TOKENS for call in (f"match_prefix({bad})", f"acquire({bad})", f"insert({bad}, [7, 8])")],
    *[scenario_of(f"cache.insert([1, 2, 3], {form})", "cache.match_prefix([1, 2, 3])") for form in _PAGES],
    *[scenario_of(_CACHED, f"cache.insert([1, 5, 6], {bad})", "cache.match_prefix([1, 5])") for bad in _BAD_PAGES],
    *[scenario_of(f"cache.insert({list(range(tokens))}, {list(range(count))})", page_size=4)
      for tokens in (0, 1, 3, 4, 5) for count in range(4)],
    scenario_of("cache.match_prefix([])", "cache.insert([], [])", "cache.evict(10)"),
]  # fmt: skip

# N7: the notebook keeps a view of the caller's tensor, and reusing that buffer makes a false hit.
COPIES: list[Scenario] = [
    *[scenario_of(f"tokens, pages = {buffer}, [7, 8, 9]", "cache.insert(tokens, pages)", "tokens[0], pages[0] = 9, 99",
                  "cache.match_prefix([1, 2, 3])", "cache.match_prefix([9, 2, 3])") for buffer in _BUFFERS],
    *[scenario_of("cache.insert([4], [7])", f"pages = {buffer}", "cache.insert([1, 2, 3], pages)", "pages[0] = 99",
                  "cache.match_prefix([1, 2, 3])") for buffer in _BUFFERS],
    scenario_of("cache.insert([1, 2], [7, 8])", "a = cache.match_prefix([1, 2])", "a.pages[0] = 99",
                "cache.match_prefix([1, 2])"),
]  # fmt: skip

MATCHES: list[Scenario] = [
    scenario_of("cache.insert([1, 2, 3, 4], [10, 11, 12, 13])", "cache.match_prefix([1, 2, 3, 4, 5])",
                "cache.match_prefix([1, 2, 9])", "cache.match_prefix([2])", "cache.match_prefix([1])"),
    # N1: the notebook's walk reads one global request; any other key raises or reads past the end.
    scenario_of("cache.insert([1, 3, 6, 7, 9, 77], [0, 1, 2, 3, 4, 5])", "cache.match_prefix([5, 5])",
                "cache.match_prefix([1, 3, 6, 7, 87, 66, 5, 4])"),
    scenario_of("cache.insert([1], [0])", "a = cache.match_prefix([2])", "cache.lock(a.handle)", "cache.evict(1)",
                "cache.unlock(a.handle)"),
    *[scenario_of("cache.insert([0, 1, 2, 3, 4, 5, 6, 7], [5, 6, 7, 8])",
                  f"a = cache.{verb}([0, 1, 2, 3, 4, 5, 6, 7], limit={limit})", page_size=2)
      for verb in ("match_prefix", "acquire") for limit in (None, 99, 8, 7, 1, 0)],
    *[scenario_of("cache.insert([1, 2, 3], [0, 1, 2])", f"cache.match_prefix([1, 2, 9], limit={limit})",
                  "cache.match_prefix([1, 2, 3])") for limit in ("-1", "'2'")],
]  # fmt: skip

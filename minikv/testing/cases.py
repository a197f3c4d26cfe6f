"""The scenarios that everybody's cache is put through first, rule by rule: real bugs, most of them, in a few lines.

None of them says what is expected: the naive model does. An empty line begins the next scenario, and they are for
pages of 1 where a comment does not say otherwise; a semicolon ends an operation.
"""

from __future__ import annotations

from minikv.testing.scenarios import Scenario, scenario_of

OTHER_FORMS = ["array(", "np.", "pack(", "deque(", "range(", "b'", "None", "(1,", "(7,"]  # of input: not lists
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
    *[scenario_of("cache.insert([0, 1, 2, 3, 4, 5, 6, 7], [5, 6, 7, 8])",
                  f"a = cache.{verb}([0, 1, 2, 3, 4, 5, 6, 7], limit={limit})", page_size=2)
      for verb in ("match_prefix", "acquire") for limit in (None, 99, 8, 7, 1, 0)],
    *[scenario_of("cache.insert([1, 2, 3], [0, 1, 2])", f"cache.match_prefix([1, 2, 9], limit={limit})",
                  "cache.match_prefix([1, 2, 3])") for limit in ("-1", "'2'")],
]  # fmt: skip


_PICKED = """
# rule 3

cache.insert([1, 2, 3, 4], [10, 11, 12, 13]); cache.match_prefix([1, 2, 3, 4, 5])
cache.match_prefix([1, 2, 9]); cache.match_prefix([2]); cache.match_prefix([1])

# N1: the notebook's walk reads one global request; any other key raises or reads past the end.
cache.insert([1, 3, 6, 7, 9, 77], [0, 1, 2, 3, 4, 5]); cache.match_prefix([5, 5])
cache.match_prefix([1, 3, 6, 7, 87, 66, 5, 4])

cache.insert([1], [0]); a = cache.match_prefix([2]); cache.lock(a); cache.evict(1); cache.unlock(a)

# rule 4

cache.insert([1, 2, 3], [0, 1, 2]); cache.insert([1, 2, 4, 5], [6, 7, 8, 9])
cache.insert([1, 2, 3], [3, 4, 5]); cache.match_prefix([1, 2, 4, 5]); cache.match_prefix([1, 2, 3])

# pages of 4
cache.insert([1, 2, 3], [0]); cache.insert([1, 2, 3, 4, 5, 6], [0, 1])
cache.match_prefix([1, 2, 3, 4, 5, 6]); cache.insert([1, 2, 3, 9, 5, 6, 7, 8], [2, 3])

# pages of 2
cache.insert([1, 2, 3, 4], [0, 1]); a = cache.acquire([1, 2, 9, 9])
cache.insert([1, 2, 5, 6, 7, 8, 9], [0, 2, 3, 4], start=a); cache.unlock(a)
cache.match_prefix([1, 2, 5, 6, 7, 8, 9])

cache.insert([1, 2, 3], [0, 1, 2]); a = cache.acquire([1, 2, 3])
cache.insert([1, 9, 3, 4], [0, 1, 2, 3], start=a); cache.unlock(a)

cache.insert([1, 2, 3], [0, 1, 2]); a = cache.acquire([1, 2, 3])
cache.insert([1, 2], [0, 1], start=a); cache.unlock(a)

cache.insert([1, 2, 3], [0, 1, 2]); a = cache.acquire([1, 2, 3]); cache.insert([9], [9], start=a)
cache.unlock(a)

a = cache.insert([1, 2, 3], [0, 1, 2]); cache.insert([1, 2, 3, 4], [0, 1, 2, 3], start=a)
cache.match_prefix([1, 2, 3, 4])

a = cache.acquire([1, 2]); cache.insert([5], [5]); cache.insert([1, 2], [1, 2], start=a)
cache.match_prefix([5]); cache.match_prefix([1, 2])

cache.insert([1, 2], [5, 6]); a = cache.acquire([1, 2])
cache.insert([1, 2, 3], [None, 'nothing', 7], start=a); cache.match_prefix([1, 2, 3])

# A start deep down is checked up to the root.
cache.insert([1, 2], [0, 1]); a = cache.insert([1, 2, 3, 4], [0, 1, 2, 3]); cache.lock(a)
cache.insert([9, 2, 3, 4, 5], [0, 1, 2, 3, 4], start=a)
cache.insert([1, 9, 3, 4, 5], [0, 1, 2, 3, 4], start=a)
cache.insert([1, 2, 3, 9, 5], [0, 1, 2, 3, 4], start=a)
cache.insert([1, 2, 3, 4, 5], [0, 1, 2, 3, 4], start=a); cache.match_prefix([1, 2, 3, 4, 5])

# rule 5

# A handle whose end was joined, and is the end of a node again since the rest was evicted.
cache.insert([1, 2, 3, 4], [5, 6, 7, 8]); a = cache.match_prefix([1, 2])
cache.match_prefix([1, 2, 3, 4]); cache.evict(2); cache.lock(a)

a = cache.insert([1, 2, 3, 4, 5, 6], [0, 1, 2, 3, 4, 5]); cache.lock(a); cache.match_prefix([1, 2])
cache.insert([1, 2, 3, 9], [0, 1, 2, 7]); cache.evict(100); cache.unlock(a)

a = cache.insert([1, 2, 3, 4], [0, 1, 2, 3]); cache.match_prefix([1, 2]); cache.lock(a)
cache.evict(9); cache.unlock(a)

a = cache.insert([1, 2], [0, 1]); b = cache.insert([1, 2, 3], [0, 1, 2])
cache.match_prefix([1, 2, 3]); cache.lock(a); cache.evict(9); cache.unlock(a)

# Two locks above, one below: no join.
cache.insert([1, 2, 3], [0, 1, 2]); a = cache.acquire([1, 2, 3]); b = cache.acquire([1])
cache.match_prefix([1, 2, 3]); cache.unlock(b); cache.unlock(a)

# rule 6

# A4b: AstrAI pins the last node only, so what is above a pinned prefix can be evicted under it
cache.insert([1, 2], [0, 1]); a = cache.insert([1, 2, 3, 4], [0, 1, 2, 3])
cache.insert([1, 2, 8], [0, 1, 8]); cache.lock(a); cache.evict(100)
cache.match_prefix([1, 2, 3, 4])

cache.insert([1, 2], [0, 1]); a = cache.match_prefix([1, 2]); b = cache.match_prefix([1])
cache.lock(a); cache.lock(a); cache.lock(b); cache.unlock(a); cache.unlock(a); cache.unlock(a)
cache.unlock(b)

# SGLang and pymllm count to -1 in silence, and the next lock protects nothing
a = cache.insert([1], [0]); cache.unlock(a); cache.evict(1)

cache.insert([1], [0]); other = new(); b = other.insert([1], [0]); other.lock(b); cache.unlock(b)
cache.lock(b)

a = cache.insert([1, 2, 3], [0, 1, 2]); cache.evict(3); cache.insert([1, 2, 3], [3, 4, 5])
cache.lock(a)

# pages of 2
cache.insert([1, 2, 3, 4], [6, 8]); a = cache.acquire([1, 2, 9]); cache.evict(4); cache.unlock(a)
cache.unlock(a)

a = cache.acquire([1, 2]); cache.unlock(a)

# rule 7

# P1: pymllm reports 2 evictable tokens here, and there are 6
cache.insert([1, 2, 3, 4], [0, 1, 2, 3]); cache.insert([1, 2, 3, 4, 5, 6], [0, 1, 2, 3, 4, 5])
cache.evict(2)

# rule 8

# N5 and M2: on a split, the notebook and mini-sglang do not refresh the prefix that was just used
cache.insert([1, 2, 3, 4], [0, 1, 2, 3]); cache.insert([7, 8], [6, 7]); cache.match_prefix([1, 2])
cache.evict(2); cache.evict(2)

a = cache.insert([1], [1]); cache.lock(a); cache.insert([2], [2]); cache.insert([3], [3])
cache.unlock(a); cache.evict(1); cache.evict(1)

cache.insert([1], [1]); cache.insert([2], [2]); cache.insert([1], [3]); cache.evict(1)

# rule 9

# A1: AstrAI's oldest entry is always the parent; evicting it loses the children
cache.insert([1, 2], [0, 1]); cache.insert([1, 2, 3], [0, 1, 2]); cache.insert([1, 2, 4], [0, 1, 4])
cache.evict(1); cache.evict(1); cache.match_prefix([1, 2, 3])

cache.insert([1], [0]); cache.evict(0); cache.evict(10); cache.evict(10)

# A4: AstrAI spins forever when everything is pinned
a = cache.insert([1, 2], [0, 1]); cache.lock(a); cache.evict(1)

cache.insert([1, 2], [0, 1]); cache.evict(2); cache.match_prefix([1, 2])

cache.insert([1], [0]); cache.evict(-1)

# rule 10

cache.insert([1, 2], [0, 1]); cache.insert([1, 2], [2, 3], namespace='A')
cache.insert([1, 2], [4, 5], namespace=('lora', 'A')); cache.match_prefix([1, 2], namespace='A')
cache.match_prefix([1, 2]); cache.match_prefix([1, 2], namespace='B'); cache.evict(2)
cache.evict(2); cache.insert([1, 2], [8, 9], namespace='A')

cache.insert([1], [7], namespace=['lora']); cache.insert([1, 2], [0, 1]); cache.match_prefix([1, 2])

cache.match_prefix([1], namespace=['lora']); cache.insert([1, 2], [0, 1])
cache.match_prefix([1, 2])

cache.insert([1], [0], namespace='a'); cache.insert([2], [1], namespace='a'); cache.evict(1)
cache.match_prefix([2], namespace='a')

cache.insert([1], [0], namespace='a'); cache.insert([2], [1], namespace='b'); cache.evict(1)
cache.match_prefix([2], namespace='c')

cache.insert([1, 2], [0, 1], namespace='a'); a = cache.acquire([1, 2], namespace='a')
cache.insert([1, 2, 3], [0, 1, 2], namespace='b', start=a)

# rule 11

# P9b: pymllm resets under a live lock, and the unlock that follows dies of an AttributeError
a = cache.insert([1, 2], [0, 1]); cache.lock(a); cache.reset(); cache.match_prefix([1, 2])
cache.unlock(a); cache.reset(); cache.match_prefix([1, 2]); cache.lock(a); cache.unlock(a)

cache.insert([1], [0]); cache.reset(); cache.insert([1], [5]); cache.match_prefix([1])

# rule 14

cache.insert([1, 2, 3, 4], [5, 6, 7, 8]); cache.match_prefix([1, 2])
cache.match_prefix([1, 2, 3, 4]); cache.evict(1); cache.match_prefix([1, 2])

cache.insert([1, 2, 3, 4], [5, 6, 7, 8]); cache.match_prefix([1, 2])
cache.insert([1, 2, 3, 4, 9], [0, 1, 2, 3, 9]); cache.evict(1); cache.evict(1)

cache.insert([1, 2, 3, 4], [5, 6, 7, 8]); a = cache.match_prefix([1, 2])
cache.match_prefix([1, 2, 3, 4]); cache.match_prefix([1]); cache.lock(a); cache.evict(9)
cache.unlock(a)

# A handle is stale, whatever was cached and joined where its end was.
cache.insert([1, 2, 3], [1, 2, 3]); a = cache.insert([1, 2, 3, 4], [11, 12, 13, 4]); cache.evict(1)
cache.insert([1, 2, 3, 4], [14, 15, 16, 5]); cache.match_prefix([1, 2, 3, 4]); cache.lock(a)

cache.insert([1, 2], [0, 1]); a = cache.insert([1, 2, 3, 4], [0, 1, 2, 3]); cache.evict(2)
cache.insert([1, 2, 5, 6], [7, 8, 4, 5]); cache.match_prefix([1, 2, 5, 6]); cache.lock(a)

cache.insert([1, 2, 3, 4, 5], [0, 1, 2, 3, 4]); a = cache.match_prefix([1, 2])
b = cache.match_prefix([1, 2, 3]); cache.match_prefix([1, 2, 3, 4, 5]); cache.evict(3)
cache.insert([1, 2, 3, 4, 5], [10, 11, 7, 8, 9]); cache.match_prefix([1, 2, 3, 4, 5]); cache.lock(b)
cache.lock(a); cache.evict(9); cache.unlock(a)

# Nodes under the same lock are joined, and stay locked.
cache.insert([1, 2, 3, 4], [5, 6, 7, 8]); cache.match_prefix([1, 2])
a = cache.acquire([1, 2, 3, 4]); cache.match_prefix([1, 2, 3]); cache.match_prefix([1, 2, 3, 4])
cache.evict(9); cache.unlock(a)

# rule 15

# pages of 2
cache.insert([1, 2, 3, 4, 5], [9, 5]); cache.match_prefix([1, 2, 3, 4])
cache.match_prefix([1, 2, 3]); cache.insert([1, 2, 7, 8], [1, 3]); cache.evict(6)

# pages of 2
cache.insert([1, 2, 3, 4], [0, 1]); cache.evict(1); cache.evict(1)
"""


def scenarios_in(text: str) -> dict[int, list[Scenario]]:
    """The scenarios that are written in `text`, with empty lines between them, below the rules that they are for.

    >>> scenarios_in("# rule 9\\n\\ncache.reset()\\n\\n# pages of 2\\ncache.evict(1)")
    {9: [Scenario(lines=('cache.reset()',), page_size=1), Scenario(lines=('cache.evict(1)',), page_size=2)]}
    """
    found: dict[int, list[Scenario]] = {}
    for block in text.strip().split("\n\n"):
        word, _, number = block.split("\n")[0].rpartition(" ")
        lines = [line for line in block.split("\n") if line[:1] != "#"]
        if word == "# rule":
            of_rule = found[int(number)] = []
        else:
            of_rule.append(scenario_of("; ".join(lines), page_size=int(number) if word == "# pages of" else 1))
    return found


CASES = {1: INPUTS, 2: COPIES, **scenarios_in(_PICKED)}
CASES[3] += MATCHES

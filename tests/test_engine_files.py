"""The files of the engine are plain modules: each can be imported alone, and none changes another."""

import importlib.util
import json
import textwrap
from pathlib import Path

from project import python

import minikv.engine

FILES = sorted(path.stem for path in Path(minikv.engine.__file__).parent.glob("ch*.py"))
TENSORS = {"ch08_serving"}  # the only file that imports torch
# What is done with the classes of a file, and what must be printed.
USES = {
    "ch01_02_pool": (
        """
        pool = m.Pool(4)
        pool.free(pool.alloc(3)[1:])
        print(pool.num_free, pool.alloc(2), m.pages_that_fit(100, 50, 10, 0, 0, 40))
        try:
            m.pages_that_fit(100, 50, 10, 0, 0, 41)
        except MemoryError as error:
            print(error)
        """,
        "3 [1, 2] 1\n40 bytes are left, but a page takes 41",
    ),
    "ch03_first_split": (
        """
        from minikv.engine.ch03_tree import Node
        node = Node([1, 2, 3], [7, 8, 9], Node([], []))
        upper = m.split(node, 2)
        print(upper.tokens, node.tokens, node.parent is upper)
        """,
        "[1, 2] [3] True",
    ),
    "ch03_tree": (
        """
        root = m.Node([], [])
        end, _ = m.insert(root, [1, 2, 3], [7, 8, 9])
        end.locks = 2
        end, slots = m.match(root, [1, 2, 5])
        print(end.tokens, slots, end.locks)
        """,
        "[1, 2] [7, 8] 2",
    ),
    "ch04_05_cache": (
        """
        cache = m.RadixCache()
        cache.insert([1, 2, 3], [7, 8, 9])
        held = cache.acquire([1, 2, 3])
        cache.insert([1, 2, 4], [7, 8, 5])  # it splits a locked node
        cache.check()
        print(cache.evict(9).tolist(), cache.protected_size, cache)
        """,
        "[5] 3 RadixCache(page_size=1, evictable=0, protected=3)",
    ),
    "ch06_07_manager": (
        """
        manager = m.CacheManager(4, page_size=2)
        for tokens in ([1, 2, 3, 4, 5], [1, 2, 3, 4, 6, 7]):
            sequence = manager.start(tokens)
            manager.advance(sequence)
            manager.finish(sequence)
            manager.check()
        print(sequence, manager.pool.num_free, m.runs([4, 5, 9]))
        print(m.CacheManager(1).start([1]))  # in its last page
        """,
        "Sequence(2, finished, 6 tokens, cached=4, computed=6) 1 [(4, 2), (9, 1)]\n"
        "Sequence(1, running, 1 tokens, cached=0, computed=0)",
    ),
    "ch08_serving": (
        """
        from minikv import CanaryModel
        from minikv.engine.ch06_07_manager import CacheManager
        manager = CacheManager(40)
        engine = m.Engine(CanaryModel(9), manager, m.Scheduler(manager, 16, 4))
        print([len(found.tokens) for found in engine.generate([[1, 2, 3], [1, 2, 4]], 5)])
        engine.submit([5, 6], 1)
        print([event.token is None for event in engine.step()])  # it begins and ends in this step
        manager.check()
        """,
        "[5, 5]\n[False]",
    ),
    "ch09_10_rows_and_blocks": (
        """
        trie = m.RowTrie(2, max_nodes=4)
        trie.finish(trie.start([1, 2, 3]))
        trie.finish(trie.start([7, 8, 9]))
        print(trie.start([7, 8, 9, 4]), trie.evictable + trie.protected)
        pool = m.BlockPool(4)
        blocks, _ = m.open_request(pool, [1, 2, 3, 4], 2)
        pool.give_back(blocks)
        print(m.open_request(pool, [1, 2, 3, 4, 5], 2)[1])
        one, other = m.BlockPool(2).take(2)
        pool.publish([one, other], ["key", "key"])
        print(pool.table["key"] is one, other.key)
        """,
        "row 0, 3 tokens reused 4\n2\nTrue None",
    ),
    "ch11_12_sharing_and_windows": (
        """
        pages = m.SharedPages(4, 2)
        pages.attach("a", [1, 2])
        pages.append("a", [1, 2, 3], ["x", "y", "z"])
        pages.fork("a", "b")
        pages.append("b", [4], ["w"])
        print(pages.get("a"), pages.get("b"), pages.pool.num_free)
        tree = m.WindowTree(8, 4, window=2)
        print([tree.serve(tokens) for tokens in ([1, 2, 3], [1, 2, 3, 4])], tree.windows.num_free)
        tree = m.WindowTree(16, 6, window=2)  # the last prompt needs a window that the second one pinned
        print([tree.serve(tokens) for tokens in ([1, 2, 3], [1, 2, 3], [4, 5, 6, 7])])
        """,
        "['x', 'y', 'z'] ['x', 'y', 'z', 'w'] 1\n[0, 3] 0\n[0, 2, 0]",
    ),
    "ch13_traffic": (
        "print(m.reuse_distances([['a', 'b'], ['a', 'c'], ['b']]), m.optimal_hits(['a', 'b', 'c', 'a'], 2))",
        "[1, 3] 1",
    ),
    "ch14_tiers": (
        """
        tiers = m.Tiers(2, 4, worth=lambda count, cached: m.worth_loading(16, 0, 1, 10**9, 10**9, 1, 10**9))
        print([tiers.serve(list(keys)) for keys in ("ab", "cd", "ab")])
        tiers = m.Tiers(3, 4)
        print([tiers.serve(list(keys)) for keys in ("ab", "c", "ab")])
        tiers = m.Tiers(3, 4, write="write_through")
        print(tiers.serve(list("ab")), tiers.copied)
        """,
        "[(0, 0, 2), (0, 0, 2), (0, 2, 0)]\n[(0, 0, 2), (0, 0, 1), (2, 0, 0)]\n(0, 0, 2) 2",
    ),
    "ch15_layers": (
        """
        groups = [m.Group("full", 4), m.Group("window", 4, window=6), m.Group("state", 4)]
        for room in 100, 5:
            cache = m.LayerCache(groups, room, m.checkpoints)
            print([cache.serve((7,) * 9 + (last,) * 4) for last in (1, 2, 3, 3)], len(cache.blocks))
        print(m.replay_start(60, 16, 3), m.block_for_state(33, 2))
        """,
        "[0, 0, 8, 12] 14\n[0, 0, 0, 0] 5\n15 32",
    ),
}


def test_each_file_is_used():
    assert list(USES) == FILES


# Each file in turn is imported with nothing else of minikv, and used; then again, to see whether any other changes it.
CODE = """
import contextlib, importlib, io, json, sys
def alone(name):
    for module in [module for module in sys.modules if module.startswith("minikv")]:
        del sys.modules[module]
    return importlib.import_module(f"minikv.engine.{name}")
uses = json.loads(sys.argv[1])
for name, use in uses.items():
    m, out = alone(name), io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(use, {"m": m})
    print(json.dumps([name, "torch" in sys.modules, out.getvalue().strip()]))
for name in uses:
    m = alone(name)
    before = dict(vars(m))
    for other in uses:
        importlib.import_module(f"minikv.engine.{other}")
    assert vars(m) == before, name
"""


def test_each_file_runs_when_it_is_imported_alone_and_no_other_changes_it():
    """The classes do their work, and only the file that holds tensors needs torch: it is the last."""
    names = sorted(FILES, key=lambda name: name in TENSORS)
    if importlib.util.find_spec("torch") is None:
        names = [name for name in names if name not in TENSORS]
    uses = {name: textwrap.dedent(USES[name][0]) for name in names}
    done = python("-c", CODE, json.dumps(uses))
    assert not done.returncode, done.stderr
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert found == [[name, name in TENSORS, USES[name][1]] for name in names]


def test_a_file_without_a_piece_gets_ours_up_to_the_last_chapter():
    world = {}
    minikv.engine.given(world)
    assert world.keys() >= {section.name for section in minikv.engine.pieces_up_to(minikv.engine.LAST)}

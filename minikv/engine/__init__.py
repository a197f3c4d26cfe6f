"""The engine that you build in the course: a small one, but all of it. A newcomer to minikv starts here.

Read the files in the order of their chapters:

- `ch01_02_pool`: how many pages fit into a GPU's memory, and which of them are free
- `ch03_05_cache`: the radix tree, the locks on its nodes, and the ring that says what is evicted first
- `ch06_07_manager`: how keys and values are moved, and the life of a request
- `ch08_serving`: attention through the slots, and what each step computes
- `ch09_rows`, `ch10_blocks`, `ch11_sharing`, `ch12_windows`: four further designs beside that engine

The shells hold what no chapter is about, such as checks of the input. The rest of `minikv` is the same again, faster,
and what checks, measures and teaches it.

A section of a file begins with `# %%`. Those of pieces ("3.1 split") are what a learner writes: `check` says whether
their answer does the same, `solution` prints ours, and it runs where theirs is not right yet. Those that are given
("given 3") join them. A section calls the others as globals, so `sections.py` can run any of them in the learner's own
world, where the learner's pieces are bound instead of ours. `my_minikv.py` is these files with the learner's pieces.
"""

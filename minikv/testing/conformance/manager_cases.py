"""The scenarios that everybody's cache manager is put through first; an empty line begins the next one.

A manager has 6 pages. `advance` says that an engine has computed what is left of a request, or so many tokens of it.
"""

from __future__ import annotations

from minikv.testing.conformance.cases import scenarios_in
from minikv.testing.conformance.scenario import Scenario, scenario_of

_RAN = ("a = manager.start([1, 2, 3])", "manager.advance(a)", "manager.finish(a)")

_LIVES = """
a = manager.start([1, 2, 3])
manager.advance(a)
manager.finish(a)
b = manager.start([1, 2, 3])
manager.advance(b)
manager.finish(b)

# pages of 2
a = manager.start([1, 2, 3, 4, 5])
manager.advance(a)
manager.finish(a)
b = manager.start([1, 2, 3, 4, 5])
manager.finish(b)
c = manager.start([1, 2, 3, 4])

a = manager.start([1, 2, 3, 4])
manager.advance(a)
manager.finish(a)
b = manager.start([1, 2, 3, 7, 8, 9, 6])
c = manager.start([1, 2, 3, 4])

a = manager.start([1, 2, 3, 4])
manager.advance(a)
manager.finish(a)
b = manager.start([1, 2, 3, 7, 8, 9])
manager.advance(b)

a = manager.start([1, 2, 3])
manager.advance(a)
manager.finish(a)
b = manager.start([1, 2, 4])
c = manager.start([7, 8, 9])
manager.abort(b)

a = manager.start([1, 2])
manager.advance(a)
manager.extend(a, [3])
manager.finish(a)
b = manager.start([1, 2, 3, 4])

a = manager.start([1, 2, 3, 4])
manager.advance(a, 2)
manager.finish(a)
b = manager.start([1, 2, 3, 4, 5])

a = manager.start([1, 2, 3])
manager.advance(a)
manager.abort(a)
b = manager.start([1, 2, 3, 4])

a = manager.start([1, 2, 3, 4])
manager.advance(a, 2)
manager.checkpoint(a)
b = manager.start([1, 2, 3])
manager.advance(a)
manager.abort(a)
manager.abort(b)

a = manager.start([1, 2, 3])
b = manager.start([1, 2, 4])
manager.advance(a)
manager.advance(b)
manager.checkpoint(a)
manager.checkpoint(b)
manager.finish(a)
manager.finish(b)

a = manager.start([1, 2, 3])
manager.advance(a)
manager.checkpoint(a)
b = manager.start([7, 8, 9])
c = manager.start([4])
manager.finish(a)

# pages of 2
a = manager.start([1, 2, 3])
manager.extend(a, [4])
manager.extend(a, [5])
manager.extend(a, [6, 7])
manager.advance(a)

a = manager.start([1, 2, 3, 4, 5])
manager.extend(a, [6])
manager.extend(a, [7])
manager.advance(a)

a = manager.start([1, 2])
manager.extend(a, [3, 4, 5])
manager.truncate(a, 3)
b = manager.start([7, 8, 9])

# pages of 2
a = manager.start([1, 2, 3])
manager.extend(a, [4, 5, 6, 7, 8])
manager.truncate(a, 5)
b = manager.start([7, 8, 9, 1, 1, 1])
manager.extend(a, [4])
manager.advance(a)

a = manager.start([1, 2, 3])
manager.extend(a, [4, 5])
manager.advance(a)
manager.truncate(a, 4)
manager.extend(a, [6])
manager.finish(a)
b = manager.start([1, 2, 3, 4, 6, 7])

a = manager.start([1, 2, 3])
manager.advance(a, 2)
manager.checkpoint(a)
manager.truncate(a, 1)
manager.truncate(a, 4)
manager.truncate(a, 2)
b = manager.start([1, 2, 3])

a = manager.start([1, 2, 3])
manager.truncate(a, 0)
manager.truncate(a, -1)
manager.truncate(a, 2)
manager.advance(a)
manager.finish(a)
b = manager.start([1, 2, 3])

a = manager.start([1, 2, 3])
manager.advance(a, 4)
manager.advance(a, 3)

a = manager.start([1, 2, 3, 4])
b = manager.start([5, 6, 7])
manager.advance(a)
manager.finish(a)
c = manager.start([5, 6])
"""

_OVER = [
    scenario_of("a = manager.start([1, 2, 3])", f"manager.{end}(a)", "b = manager.start([1, 2, 3])", f"manager.{verb}")
    for end in ("finish", "abort")
    for verb in ("finish(a)", "abort(a)", "checkpoint(a)", "advance(a)", "extend(a, [4])", "truncate(a, 2)")
]

_NAMESPACES = [
    scenario_of("a = manager.start([1, 2, 3], namespace='a')", "manager.advance(a)", "manager.finish(a)",
                f"b = manager.start([1, 2, 3]{namespace})")
    for namespace in ("", ", namespace='a'", ", namespace='b'")
]  # fmt: skip

_BAD_INPUT = [
    scenario_of(*_RAN, f"b = manager.start({bad})", "c = manager.start([1, 2, 3])")
    for bad in ("[]", "[-1]", "'text'", "5", "[1, None]", "[1, 2.5]")
]

_LIMITS = [
    scenario_of("a = manager.start([1, 2, 3, 4])", "manager.advance(a)", "manager.finish(a)",
                f"b = manager.start([1, 2, 3, 4], limit={limit})", page_size=size)
    for limit in (0, 1, 3, 4, 99) for size in (1, 2)
]  # fmt: skip

MANAGER_CASES: list[Scenario] = [*scenarios_in(_LIVES), *_OVER, *_NAMESPACES, *_BAD_INPUT, *_LIMITS]

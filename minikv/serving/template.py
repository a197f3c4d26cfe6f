"""Untrusted chat templates: Jinja in a sandbox that limits their work as well as what they may touch.

Jinja's own sandbox keeps a template from code and files, not from `{{ 2 ** 10**9 }}` or from loops without end. Here
each render has a budget of steps. A pass over the parsed template inserts the places where steps are counted:

    a turn of a loop, a call of a macro     as many steps as its body has nodes
    a value that is compared, sliced, looked up, written, joined, or given to a test, filter, function or operator
                                            as many steps as it has characters, items and bytes, at any depth

Filters, functions and methods are those that chat templates use. Whatever could grow by more than it is given, or take
as long (`*`, `**`, `join`, `replace`, `indent`, `strip`, `rfind`), is looked at before it runs. Integers stay below
2**60, where hashes hardly ever collide. So the work is bounded without a clock: the same template fails at the same
place on every machine.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, ItemsView, Iterator, KeysView, ValuesView
from math import prod
from typing import Any

from jinja2 import Template, Undefined, nodes, pass_context
from jinja2.exceptions import SecurityError
from jinja2.filters import FILTERS
from jinja2.runtime import Context, Macro
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import Namespace

STEPS = 1_000_000  # in a render: under a second
STEPS_A_CHARACTER = 100  # of the conversation, on top of those
LONGEST_SOURCE = 2**16  # characters
_MOST_NODES = 10_000  # in the parsed template
_LARGEST = 2**19  # characters or items of a product
_LARGEST_INTEGER = 60  # bits
_WIDEST_INDENT = 64  # of JSON, in characters
_FILTERS = [
    "abs", "capitalize", "dictsort", "float", "indent", "int", "items", "join", "list", "lower", "map", "max", "min",
    "reject", "rejectattr", "replace", "reverse", "select", "selectattr", "sort", "string", "title", "trim", "unique",
    "upper",
]  # fmt: skip
_METHODS: dict[type, list[str]] = {
    str: [
        "capitalize", "count", "endswith", "find", "index", "isalnum", "isalpha", "isdigit", "islower", "isspace",
        "istitle", "isupper", "join", "lower", "lstrip", "partition", "removeprefix", "removesuffix", "replace",
        "rfind", "rindex", "rpartition", "rsplit", "rstrip", "split", "splitlines", "startswith", "strip", "swapcase",
        "title", "upper",
    ],
    dict: ["get", "items", "keys", "values"],
    list: ["count", "index"],
    tuple: ["count", "index"],
}  # fmt: skip
_INSTANT = {"count", "d", "default", "first", "last", "length"}  # filters that look at no content
_INSTANT_TESTS = {"boolean", "defined", "false", "iterable", "mapping", "none", "number", "sequence", "string", "true",
                  "undefined"}  # fmt: skip
_MULTIPLY = {  # what comes out may be as large as the product of what goes in, or take as many comparisons
    "indent", "join", "lstrip", "replace", "rfind", "rindex", "rpartition", "rsplit", "rstrip", "strip", "trim",
}  # fmt: skip


class BoundedSandbox(ImmutableSandboxedEnvironment):
    """A Jinja environment for templates that are not trusted, set up as `transformers` sets up its own.

    A template that breaks a rule raises some exception of Jinja's or Python's.

    >>> sandbox = BoundedSandbox()
    >>> sandbox.render(sandbox.compiled("{{ 'a' * 3 ~ messages|length }}"), [])
    'aaa0'
    >>> sandbox.render(sandbox.compiled("{{ 'a' * 10**12 }}"), [])
    Traceback (most recent call last):
    jinja2.exceptions.SecurityError: a product of 1000000000000: expected at most 524288
    """

    intercepted_binops = frozenset(["+", "-", "*", "/", "//", "**", "%"])

    def __init__(self) -> None:
        super().__init__(
            trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"], finalize=self._written
        )
        self._steps = self._left = STEPS
        self.globals = {
            "range": self.globals["range"],
            "dict": dict,
            "namespace": _Namespace,
            "raise_exception": _refuse,
        }
        filters = {**{name: FILTERS[name] for name in _FILTERS}, "tojson": self._tojson}
        self.filters = {name: self._counting(name, function) for name, function in filters.items()}
        self.filters.update({name: FILTERS[name] for name in _INSTANT})
        tests: dict[str, Any] = {name: self.tests[name] for name in self.tests if name not in _INSTANT_TESTS}
        self.tests.update({name: self._counting(name, function) for name, function in tests.items()})
        self.filters.update(safe=lambda value: value, _written=self._write, _counted=self._count, _spent=self._spent)

    def compiled(self, source: str) -> Template:
        """The template that `source` spells, with the steps counted."""
        if len(source) > LONGEST_SOURCE:
            raise SecurityError(f"it has {len(source)} characters: expected at most {LONGEST_SOURCE}")
        tree = self.parse(source)
        _count_steps(tree)
        tree.set_environment(self)
        return Template.from_code(self, self.compile(tree), self.make_globals(None))

    def render(self, template: Template, messages: list[dict[str, str]], **given: Any) -> str:
        """The text of a conversation, which may take so many steps as go with its length."""
        self._steps = self._left = STEPS + STEPS_A_CHARACTER * sum(len(message["content"]) for message in messages)
        return template.render(messages=messages, **given)

    # -- what counts ------------------------------------------------------------------------------------------------

    def _spend(self, steps: int) -> None:
        self._left -= abs(steps)
        if self._left < 0:
            raise SecurityError(f"it takes more than {self._steps} steps")

    def _weigh(self, *values: Any) -> None:
        """Spend a step for each character and item of `values`, at any depth, and some for each value."""
        left = list(values)
        while left:
            value = left.pop()
            if isinstance(value, int) and value.bit_length() > _LARGEST_INTEGER:
                raise SecurityError(f"an integer of {value.bit_length()} bits: expected at most {_LARGEST_INTEGER}")
            self._spend(5 + (len(value) if isinstance(value, str) else 0))
            if isinstance(value, (list, tuple, KeysView, ValuesView, ItemsView)):
                self._spend(len(value))
                left.extend(value)
            elif isinstance(value, range):
                self._spend(len(value))
            elif isinstance(value, dict):
                self._spend(len(value))
                left.extend([*value.keys(), *value.values()])

    def _counting(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """`function`, with what goes in and what comes out weighed, and checked first if it could grow."""

        @functools.wraps(function)  # a filter that takes the context keeps the mark that says so
        def counted(*args: Any, **kwargs: Any) -> Any:
            given = [*args, *kwargs.values()]
            self._weigh(*given)
            if name in _MULTIPLY:
                _check_product(given)
            found = function(*args, **kwargs)
            found = list(found) if isinstance(found, Iterator) else found
            self._weigh(found)
            return found

        return counted

    def _written(self, value: Any) -> Any:
        """What stands for `value` in the text: nothing whose text is not weighed, such as a namespace."""
        if value is not None and not isinstance(value, (str, bool, int, float, list, tuple, dict, Undefined)):
            raise SecurityError(f"a {type(value).__name__.strip('_')} cannot be written")
        self._weigh(value)
        return value

    @pass_context  # so Jinja does not evaluate these three when it compiles the template
    def _write(self, context: Context, value: Any) -> Any:
        return self._written(value)

    @pass_context
    def _count(self, context: Context, value: Any) -> Any:
        self._weigh(value)
        return value

    @pass_context
    def _spent(self, context: Context, value: Any, steps: int) -> Any:
        self._spend(steps)
        return value

    def _tojson(
        self,
        value: Any,
        ensure_ascii: bool = False,
        indent: Any = None,
        separators: tuple[str, str] | None = None,
        sort_keys: bool = False,
    ) -> str:
        """As `transformers` has it: Jinja's own writes `<` as an escape. Each character takes a step."""
        if (width := indent if isinstance(indent, int) else len(indent or "")) > _WIDEST_INDENT:
            raise SecurityError(f"an indent of {width}: expected at most {_WIDEST_INDENT}")
        found = []
        encoder = json.JSONEncoder(ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)
        for part in encoder.iterencode(value):
            self._spend(len(part))
            found.append(part)
        return "".join(found)

    # -- what Jinja's sandbox asks ----------------------------------------------------------------------------------

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        """The result of an operator, unless it could be too large."""
        self._weigh(left, right)
        numbers = all(isinstance(side, (int, float)) for side in (left, right))
        if operator == "**" and (not numbers or abs(right) > 64):
            raise SecurityError("a power: expected an exponent of at most 64")
        if operator == "*" and not numbers:
            _check_product([left, right], _LARGEST)
        if operator == "%" and not numbers:
            raise SecurityError("a format: expected numbers on both sides of %")
        found = super().call_binop(context, operator, left, right)
        self._weigh(found)
        return found

    def getitem(self, obj: Any, argument: Any) -> Any:
        """What `obj` has under `argument`, which is hashed: for a subscript, and for the `attribute` of a filter."""
        self._weigh(argument)
        return super().getitem(obj, argument)

    def call(__self, __context: Context, __function: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: N805
        """Call a macro, or a function or method that chat templates use."""
        name, owner = getattr(__function, "__name__", ""), getattr(__function, "__self__", None)
        known = isinstance(__function, (Macro, Undefined)) or name in _METHODS.get(type(owner), [])
        if not known and __function not in __self.globals.values():
            raise SecurityError(f"a call of {name or type(__function).__name__}: chat templates have no need of it")
        if isinstance(owner, (str, list, tuple)):
            __self._weigh(owner)
            if name in _MULTIPLY:
                _check_product([owner, *args])
        return __self._counting("", super().call)(__context, __function, *args, **kwargs)


class _Namespace(Namespace):
    """A namespace that does not show what it holds, for that is not weighed where the namespace is."""

    def __repr__(self) -> str:
        return "<Namespace>"


class TemplateRefusal(ValueError):
    """A template says that it cannot write this conversation."""


def _refuse(why: object) -> None:
    raise TemplateRefusal(why)


def _check_product(factors: list[Any], most: int = 2**26) -> None:
    """Refuse what could come out too large: `factors` count by their length or, as numbers, by their value."""
    sizes = [abs(f) if isinstance(f, (int, float)) else len(f) if hasattr(f, "__len__") else 1 for f in factors]
    if (product := prod(max(1, size) for size in sizes)) > most:
        raise SecurityError(f"a product of {product}: expected at most {most}")


def _count_steps(tree: nodes.Template) -> None:
    """Insert the filters that count steps into a parsed template."""
    found: list[Any] = list(tree.find_all(nodes.Node))
    if len(found) > _MOST_NODES:
        raise SecurityError(f"it has {len(found)} parts: expected at most {_MOST_NODES}")
    for node in found:
        if isinstance(node, (nodes.For, nodes.Macro, nodes.CallBlock)):
            _count_body(node)
        elif isinstance(node, nodes.Concat):
            node.nodes = [_filtered(part, "_written") for part in node.nodes]
        elif isinstance(node, nodes.Compare):
            sides: list[Any] = [node, *node.ops]
            for side in sides:
                side.expr = _filtered(side.expr, "_counted")
        elif isinstance(node, nodes.Pair):  # a dictionary hashes its keys
            node.key = _filtered(node.key, "_counted")
        elif isinstance(node, nodes.Getitem) and isinstance(node.arg, nodes.Slice):
            _count_slice(node, node.arg)


def _count_slice(node: nodes.Getitem, bounds: nodes.Slice) -> None:
    """Count a value that is sliced, and the bounds, which a dictionary would hash."""
    node.node = _filtered(node.node, "_counted")
    for name in ("start", "stop", "step"):
        if (bound := getattr(bounds, name)) is not None:
            setattr(bounds, name, _filtered(bound, "_counted"))


def _count_body(node: Any) -> None:
    """Let each turn of a loop, and each call of a macro, take as many steps as its body has nodes and text."""
    if getattr(node, "recursive", False):
        raise SecurityError("a recursive loop: chat templates have no need of it")
    cost = sum(len(n.data) if isinstance(n, nodes.TemplateData) else 2 for n in node.find_all(nodes.Node))
    if getattr(node, "test", None) is not None:  # what a loop passes over takes steps too
        node.test = nodes.And(_filtered(nodes.Const(True), "_spent", nodes.Const(cost)), node.test)
    spent = _filtered(nodes.Const(""), "_spent", nodes.Const(cost))
    node.body.insert(0, nodes.Output([spent], lineno=node.lineno))


def _filtered(node: nodes.Expr, name: str, *args: nodes.Expr) -> nodes.Filter:
    return nodes.Filter(node, name, list(args), [], None, None)

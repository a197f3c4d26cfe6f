"""How a conversation is written for a model: turns in, token ids out.

A cache can only serve what is the same from the first token on. So what was said must be written the same way each
time it is sent: the plain format repeats exactly the ids that the model answered with. A checkpoint's own chat template
is written from text again, as every engine's chat endpoint does, and where a tokenizer cuts a text differently from
the model, the cache serves only up to there.

A template runs in Jinja's own sandbox, which keeps it from code and files. Its source has a limit, and so has each
product or power in it, and what it writes. A template that computes for hours, or doubles a text with `~` until memory
is full, is not stopped: open checkpoints that you trust.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import partial
from math import prod
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

from minikv.errors import bounded
from minikv.files import FileName
from minikv.serving.tokenizer import LONGEST_TEXT, Tokenizer
from minikv.untrusted import inside, read_json, read_text, refusal, token_ids

INSTRUCTIONS = (
    "You are the assistant of a course on KV caches. Answer in one or two short sentences, in plain words, and use the "
    "field's own terms: token, slot, page, page table, prefix, radix tree, lock, eviction. If somebody asks for code, "
    "say in which chapter it is built. If you do not know something, say so, and name the chapter that comes nearest "
    "to it. Never invent a number: every number of this course comes out of a cell that the reader can run.\n"
)
_LONGEST_TOKEN = 1000  # characters
LONGEST_SOURCE = 2**16  # characters of a template
LARGEST_PRODUCT = 2**19  # characters or items; of whole numbers, bits


class Turn(NamedTuple):
    """A question and what was answered: its `text`, and the ids that the model generated, its end token included."""

    question: str
    text: str
    ids: list[int]


class PlainFormat:
    """Turns as lines: `User: ...` and `Assistant: ...`, the latter closed with the id `end` where there is one.

    `start` is the id that comes before everything, if any. It is what the small model was trained on.

    >>> from minikv.serving.tokenizer import ByteTokenizer
    >>> format = PlainFormat(ByteTokenizer(), end=256)
    >>> bytes(i for i in format.prompt([Turn("Hi", " Hello.", [*b" Hello.", 256])], "And?") if i < 256)
    b'User: Hi\\nAssistant: Hello.\\nUser: And?\\nAssistant:'
    """

    def __init__(self, tokenizer: Tokenizer, end: int | None = None, start: int | None = None):
        self._encode = tokenizer.encode
        self._end = [] if end is None else [end]
        self._start = [] if start is None else [start]

    def prompt(self, turns: Sequence[Turn], question: str) -> list[int]:
        """The ids of all `turns`, of `question`, and of the marker that starts an answer."""
        ids = [*self._start]
        for turn in turns:
            closed = turn.ids[-1:] == self._end or not self._end
            ids += self._question(turn.question) + turn.ids + ([] if closed else self._end) + self._encode("\n")
        return ids + self._question(question)

    def _question(self, question: str) -> list[int]:
        return self._encode(f"User: {question}\nAssistant:")


class TemplateFormat:
    """A checkpoint's own chat template, in Jinja, as `transformers` would render it.

    `special` are the texts of special tokens that a template may name, such as `bos_token`. `ModuleNotFoundError` says
    how to get the jinja2 library where it is missing; `ValueError` says what the template does wrong.

    >>> from minikv.serving.tokenizer import ByteTokenizer
    >>> template = "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}<assistant>"
    >>> bytes(TemplateFormat(ByteTokenizer(), template, {}).prompt([Turn("Hi", "Hello.", [])], "And?"))
    b'<user>Hi<assistant>Hello.<user>And?<assistant>'
    """

    def __init__(self, tokenizer: Tokenizer, template: str, special: dict[str, str]):
        self._tokenizer, self._special, environment = tokenizer, special, sandbox()
        if len(template) > LONGEST_SOURCE:
            length = f"{len(template)} characters: expected at most {LONGEST_SOURCE}"
            raise ValueError(f"the chat template cannot be read: it has {length}")
        try:
            self._template = environment.from_string(template)
        except Exception as error:  # a syntax error, a nesting too deep: whatever its parser raises
            raise refusal("the chat template cannot be read", error) from None

    def prompt(self, turns: Sequence[Turn], question: str) -> list[int]:
        """The ids of all `turns`, of `question`, and of the marker that starts an answer.

        `ValueError` when the template fails, refuses, or writes more than a tokenizer takes.
        """
        return self._tokenizer.encode(self._text(turns, question))

    def _text(self, turns: Sequence[Turn], question: str) -> str:
        messages: list[dict[str, str]] = []
        for turn in turns:
            messages += [{"role": "user", "content": turn.question}, {"role": "assistant", "content": turn.text}]
        messages.append({"role": "user", "content": question})
        text = ""
        try:
            for part in self._template.generate(messages=messages, add_generation_prompt=True, **self._special):
                text += part
                if len(text) > LONGEST_TEXT:
                    raise ValueError(f"it writes {len(text)} characters: expected at most {LONGEST_TEXT}")
        except Exception as error:  # whatever the template raises
            raise refusal("the chat template fails", error) from None
        return text


def sandbox() -> Any:
    """Jinja's own sandbox, set up as `transformers` sets up its own, with a limit on products and powers.

    >>> sandbox().from_string("{{ 'a' * 3 }}").render()
    'aaa'
    >>> sandbox().from_string("{{ 'a' * 10**12 }}").render()
    Traceback (most recent call last):
    ValueError: a product of 1000000000000: expected at most 524288
    """
    try:
        from jinja2.sandbox import ImmutableSandboxedEnvironment
    except ImportError:
        raise ModuleNotFoundError(
            "this checkpoint's chat template needs the jinja2 library: pip install 'minikv[serving]'"
        ) from None
    found = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"])
    found.intercepted_binops = frozenset(["*", "**"])
    found.binop_table.update({"*": _product, "**": _power})
    found.filters["tojson"] = partial(json.dumps, ensure_ascii=False)  # as `transformers` has it
    found.globals["raise_exception"] = _refuse
    return found


def _product(left: Any, right: Any) -> Any:
    if hasattr(left, "__len__") or hasattr(right, "__len__"):
        size = prod(len(side) if hasattr(side, "__len__") else side for side in (left, right))
    else:
        size = _bits(left) + _bits(right)
    _require_small("product", size)
    return left * right


def _power(left: Any, right: Any) -> Any:
    _require_small("power", _bits(left) * abs(right))
    return left**right


def _bits(number: Any) -> int:
    """How large a whole number is; a float never is."""
    return number.bit_length() if isinstance(number, int) else 0


def _require_small(what: str, size: float) -> None:
    if size > LARGEST_PRODUCT:
        raise ValueError(f"a {what} of {bounded(size)}: expected at most {LARGEST_PRODUCT}")


def _refuse(why: object) -> NoReturn:
    raise ValueError(why)


def load_format(folder: FileName, tokenizer: Tokenizer) -> PlainFormat | TemplateFormat:
    """The chat format of a checkpoint folder: its own template where it has one, else plain lines.

    It writes a short conversation first: a template or a tokenizer that fails is a `ValueError` here.

    >>> from minikv import asset
    >>> from minikv.serving.tokenizer import ByteTokenizer
    >>> type(load_format(asset("model"), ByteTokenizer())).__name__
    'PlainFormat'
    """
    folder = Path(folder)
    named, config = inside(folder, "tokenizer_config.json"), read_json(inside(folder, "config.json"))
    settings = read_json(named) if named.exists() else {}
    template = _template(folder, settings)
    format: PlainFormat | TemplateFormat
    if template is None:
        ends, starts = token_ids(config, "eos_token_id"), token_ids(config, "bos_token_id")
        format = PlainFormat(tokenizer, ends[0] if ends else None, starts[0] if starts else None)
    else:
        special = {name: _text(settings, name) for name in ("bos_token", "eos_token", "unk_token")}
        format = TemplateFormat(tokenizer, template, {name: text for name, text in special.items() if text})
    if not format.prompt([Turn("Hi", "Hello.", [])], "Bye"):
        raise ValueError(f"the chat template or the tokenizer of {folder} makes no token of a conversation")
    return format


def _template(folder: Path, settings: dict[str, Any]) -> str | None:
    """The source of the chat template, in any of the three places where a checkpoint may have it."""
    file = inside(folder, "chat_template.jinja")
    template: Any = settings.get("chat_template")
    if isinstance(template, list):  # several, each with a name
        named = [
            entry.get("template") for entry in template if isinstance(entry, dict) and entry.get("name") == "default"
        ]
        if not named or named[0] is None:
            raise ValueError(f"chat_template in {folder} is {bounded(template)}: expected one that is named default")
        template = named[0]
    if file.exists():
        template = read_text(file, most=2**18)
    if template is not None and not isinstance(template, str):
        raise ValueError(f"chat_template in {folder} is {bounded(template)}: expected text")
    return template


def _text(settings: dict[str, Any], name: str) -> str:
    """The text of a special token, written plainly or as an object; empty where there is none."""
    token = settings.get(name)
    text = token.get("content") if isinstance(token, dict) else "" if token is None else token
    if not isinstance(text, str) or len(text) > _LONGEST_TOKEN:
        raise ValueError(f"{name} is {bounded(token)}: expected text of at most {_LONGEST_TOKEN} characters")
    return text

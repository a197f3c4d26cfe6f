"""How a conversation is written for a model: turns in, token ids out.

A cache can only serve what is the same from the first token on. So what was said must be written the same way each
time it is sent: the plain format repeats the very ids that the model answered with. A checkpoint's own chat template is
written from text again, as every engine's chat endpoint does, and where a tokenizer cuts a text otherwise than the
model did, the cache serves only up to there.
"""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from minikv.serving.tokenizer import Tokenizer
from minikv.untrusted import read_json


class Turn(NamedTuple):
    """A question and what was answered: its `text`, and the ids that the model generated, its end token included."""

    question: str
    text: str
    ids: list[int]


class ChatFormat(Protocol):
    """Writes a prompt from what has been said and what is asked now."""

    def prompt(self, turns: Sequence[Turn], question: str) -> list[int]:
        """The ids of all `turns`, of `question`, and of what stands before an answer."""
        ...


class PlainFormat:
    """Turns as lines: `User: ...` and `Assistant: ...`, the latter closed with the id `end` where there is one.

    `start` is the id that stands before everything, if any. It is what the small model was trained on.

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
        """The ids of all `turns`, of `question`, and of what stands before an answer."""
        ids = [*self._start]
        for turn in turns:
            closed = turn.ids[-1:] == self._end or not self._end
            ids += self._asked(turn.question) + turn.ids + ([] if closed else self._end) + self._encode("\n")
        return ids + self._asked(question)

    def _asked(self, question: str) -> list[int]:
        return self._encode(f"User: {question}\nAssistant:")


class TemplateFormat:
    """A checkpoint's own chat template, in Jinja, as `transformers` would render it.

    `special` are the texts of special tokens that a template may name, such as `bos_token`. `ModuleNotFoundError` says
    how to get the jinja2 library where it is missing.

    >>> from minikv.serving.tokenizer import ByteTokenizer
    >>> template = "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}<assistant>"
    >>> bytes(TemplateFormat(ByteTokenizer(), template, {}).prompt([Turn("Hi", "Hello.", [])], "And?"))
    b'<user>Hi<assistant>Hello.<user>And?<assistant>'
    """

    def __init__(self, tokenizer: Tokenizer, template: str, special: dict[str, str]):
        try:
            from jinja2.sandbox import ImmutableSandboxedEnvironment
        except ImportError:
            raise ModuleNotFoundError(
                "this checkpoint's chat template needs the jinja2 library: pip install 'minikv[serving]'"
            ) from None
        environment = ImmutableSandboxedEnvironment(
            trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"]
        )
        environment.globals["raise_exception"] = _refuse
        self._tokenizer, self._special, self._template = tokenizer, special, environment.from_string(template)

    def prompt(self, turns: Sequence[Turn], question: str) -> list[int]:
        """The ids of all `turns`, of `question`, and of what stands before an answer."""
        said: list[dict[str, str]] = []
        for turn in turns:
            said += [{"role": "user", "content": turn.question}, {"role": "assistant", "content": turn.text}]
        said.append({"role": "user", "content": question})
        text = self._template.render(messages=said, add_generation_prompt=True, **self._special)
        return self._tokenizer.encode(text)


def _refuse(why: str) -> None:
    """What a template calls when it cannot write a conversation."""
    raise ValueError(f"the chat template refuses: {why}")


def load_format(folder: str | PathLike[str], tokenizer: Tokenizer) -> ChatFormat:
    """The chat format of a checkpoint folder: its own template where it has one, else plain lines.

    >>> from minikv import asset
    >>> from minikv.serving.tokenizer import ByteTokenizer
    >>> type(load_format(asset("model"), ByteTokenizer())).__name__
    'PlainFormat'
    """
    folder = Path(folder)
    named, config = folder / "tokenizer_config.json", read_json(folder / "config.json")
    settings = read_json(named) if named.exists() else {}
    template: Any = settings.get("chat_template")
    if isinstance(template, list):  # several, each with a name
        template = {entry["name"]: entry["template"] for entry in template}.get("default")
    if (folder / "chat_template.jinja").exists():
        template = (folder / "chat_template.jinja").read_text("utf-8")
    if template is None:
        ends = config.get("eos_token_id")
        return PlainFormat(tokenizer, ends[0] if isinstance(ends, list) else ends, config.get("bos_token_id"))
    special = {name: settings[name] for name in ("bos_token", "eos_token", "unk_token") if settings.get(name)}
    texts = {name: token["content"] if isinstance(token, dict) else token for name, token in special.items()}
    return TemplateFormat(tokenizer, template, texts)

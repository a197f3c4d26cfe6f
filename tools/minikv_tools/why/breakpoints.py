"""The blocks of a request, at whose ends a provider can cut its prompt, and the breakpoints that are set there.

Anthropic's come from `cache_control`: on a tool, on a block of the system prompt or of a message, or at the top of the
request, which means the last block. OpenAI's come from `prompt_cache_breakpoint`; since GPT-5.6 there is one more at
the end of the latest message of the user, or of the tools, unless the mode is explicit.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from itertools import takewhile
from typing import NamedTuple

from minikv_tools.bodies import Body
from minikv_tools.pieces import Place

RUNS = ("tool_use", "tool_result")  # kinds of which several in a row count as one block when Anthropic looks back
_BLOCK = re.compile(r"(?:content)?\[\d+\]|\w*")
_KINDS = {"tool_use_id": "tool_result", '"tool_use"': "tool_use", ".thinking": "thinking", "_thinking": "thinking"}
_RESULTS = ("tool", "function", "function_call_output")


class PromptBlock(NamedTuple):
    """A part of a prompt that ends after `end` units; `mark` is the lifetime of a breakpoint there."""

    end: int
    place: Place
    kind: str
    mark: str

    @property
    def level(self) -> int:
        """0 for tools, 1 for the system prompt, 2 for messages."""
        if self.place.part in ("system", "instructions") or self.place.name in ("system", "developer"):
            return 1
        return 0 if self.place.part in ("tools", "functions", "response_format") else 2


def prompt_blocks(body: Body, count: Callable[[str], int] = len) -> list[PromptBlock]:
    """The blocks of a prompt, in their order; `count` says how many units a text has.

    >>> from minikv_tools.bodies import read_body
    >>> text = {"type": "text", "text": "Be kind.", "cache_control": {"type": "ephemeral"}}
    >>> body = read_body({"system": [text], "messages": [{"role": "user", "content": "Hi"}]})
    >>> [(str(block.place), block.end, block.mark) for block in prompt_blocks(body)]
    [('system[0]', 27, '5m'), ('messages[0] (user), content', 57, '')]
    """
    found: list[PromptBlock] = []
    at = 0
    for place, text, mark in body.pieces:
        at, field = at + count(text), place.field
        if field in ("", "role") and text.startswith("<|im_"):  # a marker between messages
            if mark and found:
                found[-1] = found[-1]._replace(mark=mark)
            continue
        place = place._replace(field=_BLOCK.findall(field)[0])
        said = text[:99] if field.endswith("]") else field  # JSON, of which no text is taken
        kind = next((kind for name, kind in _KINDS.items() if name in said), "")
        if found and found[-1].place == place:  # a block of several pieces, as the result of a tool is
            _, _, kind, earlier = found.pop()
            mark = mark or earlier
        found.append(PromptBlock(at, place, kind, mark))
    return found


def breakpoints(body: Body, blocks: Sequence[PromptBlock], latest: int | None = None) -> dict[int, str]:
    """The numbers of the blocks at which a request writes to the cache, in order, and for how long.

    OpenAI takes the `latest` ones, its own included; where that is `None`, the top of the request may ask for one.

    >>> from minikv_tools.bodies import read_body
    >>> body = read_body({"cache_control": {"type": "ephemeral"}, "messages": [{"role": "user", "content": "Hi"}]})
    >>> breakpoints(body, prompt_blocks(body)), breakpoints(body, prompt_blocks(body), latest=4)
    ({0: '5m'}, {0: '30m'})
    """
    found = {number: block.mark for number, block in enumerate(blocks) if block.mark}
    if latest is not None:
        implicit = endings(body, blocks)[-1:]
        return dict.fromkeys(sorted({*list(found)[len(implicit) - latest :], *implicit}), "30m")
    automatic = body.settings.get("cache_control")
    eligible = [number for number, block in enumerate(blocks) if block.kind != "thinking"]
    if isinstance(automatic, Mapping) and eligible:
        found.setdefault(eligible[-1], str(automatic.get("ttl") or "5m"))
    return dict(sorted(found.items()))


def endings(body: Body, blocks: Sequence[PromptBlock]) -> list[int]:
    """The blocks at whose ends OpenAI cuts by itself: of the first instructions, of the user, of a group of tools.

    >>> from minikv_tools.bodies import read_body
    >>> body = read_body({"messages": [{"role": role, "content": "Hi"} for role in ("system", "user", "assistant")]})
    >>> endings(body, prompt_blocks(body))
    [0, 1]
    """
    options = body.settings.get("prompt_cache_options")
    if isinstance(options, Mapping) and options.get("mode") == "explicit":
        return []
    roles, messages = [*map(_role, blocks)], [block.place[:2] for block in blocks]
    found, lead = [], len([*takewhile(("tools", "developer").__contains__, roles)])
    for number, (role, after) in enumerate(zip(roles, [*roles[1:], ""])):
        first = role == "developer" and number < lead
        ends = messages[number + 1 : number + 2] != [messages[number]]
        if ends and (role == "user" or (after != role and (role == "result" or first))):
            found.append(number)
    return found


def images_in(body: Body) -> list[Place]:
    """The places of the images in a prompt.

    >>> from minikv_tools.bodies import read_body
    >>> image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA"}}
    >>> print(*images_in(read_body({"messages": [{"role": "user", "content": [image]}]})))
    messages[0] (user), content[0].image_url
    """
    return [piece.place for piece in body.pieces if "image" in piece.place.field]


def _role(block: PromptBlock) -> str:
    if block.level < 2:
        return ("tools", "developer")[block.level]
    return "result" if block.place.name in _RESULTS else block.place.name or "user"

"""Made-up traffic, the same for the same seed: what a trace's path may name instead of a file.

    synthetic:chat                              a thousand requests, seed 1
    synthetic:agents?requests=200&seed=7        any parameter of the function of that name, in this file

Lengths and pauses are log-normal around a median; conversations begin independently of each other. Where a parameter
has no source it is a guess, and named as one.
"""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable, Iterator
from urllib.parse import parse_qsl

from minikv.errors import bounded
from minikv.traffic.made_up import Author, MadeUpText, NextRequest, Shelf, overlapping
from minikv.traffic.trace_file import TraceRequest

SYNTHETIC = "synthetic:"  # with which such a path begins
SYNTHETIC_BLOCK = 16  # tokens
_LARGEST = {"requests": 10**7, "seed": 2**32 - 1}
_LONGEST = 4096  # characters of settings
_MEANS = ("turns", "questions")  # of what each conversation has at least one of
_MOST_COUNT, _MOST_NUMBER = 2**20, 1e6
_Conversations = Callable[..., Iterator[TraceRequest]]


def chat(
    author: Author, turns: float = 2.5, systems: int = 8, system: int = 500, message: int = 150, answer: int = 250,
    think: float = 60.0, every: float = 2.0,
) -> Iterator[TraceRequest]:  # fmt: skip
    """Multi-turn chat under a few system prompts, of which some are popular: each turn repeats all turns before it.

    `turns`: WildChat has 1 million conversations of 2.5 million turns (Zhao et al., 2024, arXiv 2405.01470). `answer`:
    a mean of 320 tokens, where Mooncake's hour of chat has 343. The rest is a guess: `systems` prompts of `system`
    tokens, messages of `message`, `think` seconds up to the next one, a conversation `every` 2 seconds.

    >>> first, second = itertools.islice(chat(Author(seed=1, block_size=16), systems=1), 2)
    >>> first.blocks[:9] == second.blocks[:9]
    True
    """
    prompts = Shelf(author, systems, system)

    def begin() -> Iterator[NextRequest]:
        text, delay = prompts.popular(), 0.0
        while True:
            text, reply = author.more(text, author.tokens(message)), author.tokens(answer)
            yield NextRequest(delay, text, reply)
            if author.chance(1.0 / turns):
                return
            text, delay = author.more(text, reply), author.around(think)

    return overlapping(author, begin, every)


def few_shot(
    author: Author, templates: int = 27, template: int = 690, question: int = 100, answer: int = 100, every: float = 0.2
) -> Iterator[TraceRequest]:
    """Questions after the worked examples of one of a few templates, as in an evaluation.

    BIG-Bench Hard with chains of thought (Suzgun et al., 2022): 6,511 questions after 27 heads, which are 87 % of all
    bytes; a head has 2,760 bytes on average, a question 400, here at four bytes per token. The rest is a guess, and
    that some templates are popular is one too.

    >>> next(few_shot(Author(seed=1, block_size=16))).conversation
    0
    """
    heads = Shelf(author, templates, template)

    def begin() -> Iterator[NextRequest]:
        yield NextRequest(0.0, author.more(heads.popular(), author.tokens(question)), author.tokens(answer))

    return overlapping(author, begin, every)


def documents(
    author: Author, documents: int = 776, document: int = 24_000, questions: float = 8.3, question: int = 60,
    answer: int = 100, read: float = 30.0, every: float = 20.0,
) -> Iterator[TraceRequest]:  # fmt: skip
    """Readers who ask several questions about a long document, each question by itself after the document.

    LooGLE (Li et al., 2023, arXiv 2311.04939) has 776 documents of over 24,000 tokens and 6,448 questions, 8.3 a
    document. Readers come to popular documents by Zipf's law, as to pages of the web (Breslau et al., 1999). The rest
    is a guess: `read` seconds between two questions, a reader `every` 20 seconds.

    >>> first, second = itertools.islice(documents(Author(seed=1, block_size=16), documents=1), 2)
    >>> first.blocks[:200] == second.blocks[:200]
    True
    """
    papers = Shelf(author, documents, document)

    def begin() -> Iterator[NextRequest]:
        paper, delay = papers.popular(), 0.0
        while True:
            yield NextRequest(delay, author.more(paper, author.tokens(question)), author.tokens(answer))
            if author.chance(1.0 / questions):
                return
            delay = author.around(read)

    return overlapping(author, begin, every)


def agents(
    author: Author, agents: int = 4, tools: int = 15_000, task: int = 9_000, calls: int = 44, result: int = 713,
    answer: int = 216, pause: float = 18.0, cut: float = 0.015, every: float = 42.0,
) -> Iterator[TraceRequest]:  # fmt: skip
    """Agents with tools: long sessions in which each call continues the one before, and sometimes starts over.

    Medians of 692 sessions of Claude Code (callanjfox/kv-cache-tester, 2026): tools and system prompt have 15,000
    tokens and the first prompt 24,000; a session has 44 calls; a call adds 713 tokens and is answered with 216 after a
    pause of 18 seconds; in 1.5 % of the calls the history is cut. 692 sessions in 8 hours are one `every` 42 seconds.
    How many different `agents` there are is a guess.

    >>> a, b = itertools.islice(agents(Author(seed=1, block_size=16), every=1e6), 2)
    >>> a.conversation == b.conversation, a.blocks == b.blocks[: len(a.blocks)]
    (True, True)
    """
    heads = Shelf(author, agents, tools)

    def begin() -> Iterator[NextRequest]:
        head, delay = heads.popular(), 0.0
        text = author.more(head, author.tokens(task))
        for _ in range(author.tokens(calls, 0.95)):
            reply = author.tokens(answer, 1.1)
            yield NextRequest(delay, text, reply)
            kept = head if author.chance(cut) else author.more(text, reply)
            text, delay = author.more(kept, author.tokens(result, 1.7)), author.around(pause, 1.6)

    return overlapping(author, begin, every)


def tree_search(
    author: Author, instructions: int = 500, problem: int = 100, steps: int = 3, kept: int = 5, branches: int = 5,
    thought: int = 60, judge: int = 100, pause: float = 5.0, every: float = 10.0,
) -> Iterator[TraceRequest]:  # fmt: skip
    """Searches through trees of thoughts: each step asks for `branches` thoughts of each state and judges every one.

    Breadth first with 3 steps, of which the 5 best states are `kept`, as Tree of Thoughts solves the game of 24 (Yao
    et al., 2023, arXiv 2305.10601). The rest is a guess: one prompt of `instructions` for all problems, `thought`
    tokens per thought, `judge` tokens that ask for a verdict, all requests of a step at once and `pause` seconds later.

    >>> requests = list(itertools.islice(tree_search(Author(seed=1, block_size=16), every=1e6), 66))
    >>> {request.conversation for request in requests}, requests[0].blocks[:30] == requests[65].blocks[:30]
    ({0}, True)
    """
    shared = author.more(MadeUpText(), instructions)

    def begin() -> Iterator[NextRequest]:
        states, delay = [author.more(shared, author.tokens(problem))], 0.0
        for _ in range(steps):
            for state in states:
                yield NextRequest(delay, state, branches * thought)
                delay = 0.0
            thoughts = [author.more(state, author.tokens(thought)) for state in states for _ in range(branches)]
            delay = author.around(pause)
            for state in thoughts:
                yield NextRequest(delay, author.more(state, judge), 1)
                delay = 0.0
            best = sorted((author.wait(1.0), number) for number in range(len(thoughts)))[:kept]
            states, delay = [thoughts[number] for _, number in best], author.around(pause)

    return overlapping(author, begin, every)


SHAPES: dict[str, _Conversations] = {
    "chat": chat, "few-shot": few_shot, "documents": documents, "agents": agents, "tree-search": tree_search,
}  # fmt: skip


def synthetic(path: str, block_size: int = SYNTHETIC_BLOCK) -> tuple[dict[str, float], Iterator[TraceRequest]]:
    """The parameters that `path` names and the requests that they make; `ValueError` says what is wrong with it.

    >>> parameters, requests = synthetic("synthetic:chat?requests=3&turns=1")
    >>> parameters["requests"], parameters["seed"], len(list(requests))
    (3, 1, 3)
    >>> synthetic("synthetic:poker")
    Traceback (most recent call last):
    ValueError: synthetic traffic 'poker' is unknown: expected chat, few-shot, documents, agents or tree-search
    """
    name, _, settings = path.removeprefix(SYNTHETIC).partition("?")
    if name not in SHAPES:
        known = " or".join(", ".join(SHAPES).rsplit(",", 1))
        raise ValueError(f"synthetic traffic {bounded(name)} is unknown: expected {known}")
    defaults = {key: value.default for key, value in inspect.signature(SHAPES[name]).parameters.items()}
    del defaults["author"]
    parameters: dict[str, float] = {"requests": 1000, "seed": 1, **defaults}
    for key, text in parse_qsl(settings[:_LONGEST], keep_blank_values=True):
        if key not in parameters:
            raise ValueError(f"synthetic:{name} has no parameter {bounded(key)}: it has {', '.join(parameters)}")
        parameters[key] = _number(key, text, parameters[key])
    made = {key: value for key, value in parameters.items() if key in defaults}
    requests = SHAPES[name](Author(int(parameters["seed"]), block_size), **made)
    return parameters, itertools.islice(requests, int(parameters["requests"]))


def _number(key: str, text: str, default: float) -> float:
    """`text` as a number of the kind of the `default`, in its range."""
    most = _LARGEST.get(key, _MOST_COUNT) if isinstance(default, int) else _MOST_NUMBER
    least = 0 if key == "seed" or (isinstance(default, float) and key not in _MEANS) else 1
    try:
        number = type(default)(text)
    except ValueError:
        number = -1
    if not least <= number <= most:
        kind = "a whole number" if isinstance(default, int) else "a number"
        raise ValueError(f"{key} is {bounded(text)}: expected {kind} from {least} to {most:,.0f}")
    return number

"""Predictions that nobody can read ahead: the answer is computed in a hidden cell, and nothing above it says it.

What a reader sees above a guess is its chapter's text and visible code, and all that they print: a film's text twin
names every step of it, so a film counts too. What is folded, in `<details>` or by `fold`, does not count. Neither does
the guess itself, which may offer answers to choose from.

An answer must not stand there. A number counts from 10 on, wherever it is; a smaller one where one of the question's
own words follows it, in digits or in words, since the prediction before and in the chapter's goals. A list counts as
its numbers in order (`0-2` is `0 1 2`); one of two small numbers is left out, because it is everywhere. Words count as
a constant of the code; those that the question does not offer count in the text as well, since the prediction before.
And the film that opens a chapter must not play a prompt of four tokens or more that a prediction is about.
"""

import ast
import re
from typing import Any, NamedTuple

import pytest
from chapters import NOTEBOOKS, load
from lesson import golden, rows_of

# Answers that may stand above their guess, each with the reason.
MAY_STAND = {
    "14.b": "the picture names all four blocks: the question is which of them goes first",
}

GUESS = re.compile(r"^guess\(", re.MULTILINE)
FOLD = re.compile(r"^fold\(", re.MULTILINE)
DETAILS = re.compile(r"<details>.*?</details>|\*\*Read\*\*[^.]*\.", re.DOTALL)  # and the time that a chapter takes
WORDS = ["no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]


class Asked(NamedTuple):
    """A prediction: its question, its answer, and what can be seen above it in the whole chapter and since the last."""

    label: str
    question: str
    answer: Any
    fold: str
    chapter: str
    since: str
    code: str
    film: str


def asked_in(path):
    """The predictions of a chapter, with what a reader of it has seen before each answer."""
    texts, codes, film, questions = [], [], "", {}
    found, last = [], 0
    for cell in load(path).cells:
        if cell.cell_type == "markdown":
            texts.append(DETAILS.sub("", cell.source))
        elif FOLD.search(cell.source):
            (call,) = calls(cell.source, "fold")
            label = call.args[0].value
            said = cell.outputs[0]["data"]["text/plain"].splitlines()[0]
            answer = value_of(said.split("the answer: ", 1)[1])
            seen = ["\n".join(lines) for lines in (texts, [texts[0], *texts[last:]], codes)]
            found.append(Asked(label, questions[label], answer, cell.source, *seen, film))
            last = len(texts)
        elif GUESS.search(cell.source):
            (call,) = calls(cell.source, "guess")
            questions[call.args[0].value] = call.args[1].value
        elif not cell.metadata.get("jupyter"):
            shown = "\n".join([cell.source, *map(text_of, cell.outputs)])
            texts.append(shown)
            codes.append(cell.source)
            if not film and not questions and "Film of" in shown:
                film = shown
    return found


def letters(text):
    return " ".join(re.findall(r"\w+", text.lower()))


def calls(source, name):
    nodes = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call)]
    return [node for node in nodes if isinstance(node.func, ast.Name) and node.func.id == name]


def value_of(text):
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text


def text_of(output):
    return output.get("text") or output.get("data", {}).get("text/plain", "")


def numbers_in(text):
    """The text with its ranges written out, and numbers without the commas between their thousands."""
    text = re.sub(r"(?<=\d)[,_](?=\d{3}\b)", "", text)
    return re.sub(r"\b(\d{1,3})-(\d{1,3})\b", written_out, text)


def written_out(found):
    low, high = int(found[1]), int(found[2])
    return " ".join(map(str, range(low, high + 1))) if low < high < low + 100 else found[0]


def constants(code):
    """The texts that are written out in code."""
    nodes = [node for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Constant)]
    return {letters(node.value) for node in nodes if isinstance(node.value, str)}


def place_of(asked):
    """Where the answer stands above its guess, or `None`."""
    answer = asked.answer
    if isinstance(answer, str):
        return place_of_words(asked, letters(answer))
    if isinstance(answer, list):
        if len(answer) < 3 and all(abs(number) < 10 for number in answer):
            return None
        text, form = numbers_in(asked.chapter), r"[\s,]+".join(re.escape(f"{number:g}") for number in answer)
    elif abs(answer) >= 10:
        text, form = numbers_in(asked.chapter), re.escape(f"{answer:g}")
    else:
        words = "|".join(re.findall(r"[a-z]{4,}", asked.question.lower()))
        spelled = f"|{WORDS[int(answer)]}" if answer in range(10) else ""
        text, form = asked.since, rf"({answer:g}{spelled}) (of the )?({words})\b"
    found = re.search(rf"(?<![\w.,]){form}(?![\w]|\.\d)", text, re.IGNORECASE)
    return f"...{text[max(0, found.start() - 60) : found.end() + 30]}..." if found else None


def place_of_words(asked, answer):
    if answer in constants(asked.code) - {"yes", "no"}:
        return "the code has it as a constant"
    is_offered = answer in letters(asked.question)
    return "the text has it" if not is_offered and f" {answer} " in f" {letters(asked.since)} " else None


def faults(asked):
    """What gives the answer of a prediction away."""
    (call,) = calls(asked.fold, "fold")
    found = ["its answer is a constant, and is to be computed"] if isinstance(call.args[1], ast.Constant) else []
    if place := place_of(asked):
        found.append(f"{asked.answer!r} stands above: {place}")
    prompts = [re.sub(r"[\[\],]", "", each) for each in re.findall(r"\[\d+(?:, \d+){3,}\]", asked.fold)]
    return found + [f"the opening film plays [{each}]" for each in prompts if f"[{each}]" in asked.film]


ASKED = [asked for path in NOTEBOOKS for asked in asked_in(path)]


@pytest.mark.parametrize("asked", ASKED, ids=lambda asked: asked.label)
def test_nobody_can_read_the_answer_before_the_guess(asked):
    found = faults(asked)
    if asked.label in MAY_STAND:
        assert found, "it needs no exception"
    else:
        assert not found, f"{asked.label} {asked.question} {found}"


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_the_answer_to_a_prediction_is_behind_a_fold_and_so_is_its_why(path):
    """The fold is one of the next two code cells, and shows nothing else; a miss says 'Open "Why" below'.

    A list has as many values as the form at the end of its question, unless that has "...".
    """
    cells, labels = load(path).cells, []
    for at, cell in enumerate(cells):
        if cell.cell_type != "code" or not (asked := calls(cell.source, "guess")):
            continue
        label, question = (part.value for part in asked[0].args[:2])
        labels.append(label)
        code = [each for each in cells[at + 1 :] if each.cell_type == "code"][:2]
        (folded,) = (each for each in code if f'fold("{label}"' in each.source.replace("\n    ", ""))
        (data,) = (output["data"] for output in folded.outputs)
        assert set(data) == {"text/html", "text/plain"}
        assert data["text/html"].startswith("<details><summary>")
        assert cells[cells.index(folded) + 1].source.startswith("<details><summary>Why</summary>")
        form = re.search(r"\[[^\]]*\]$", question)
        if form and "..." not in form[0]:
            answer = data["text/plain"].split("the answer: ", 1)[1].splitlines()[0]
            assert len(value_of(answer)) == form[0].count(",") + 1
    assert len(set(labels)) == len(labels) >= 3


ABOVE = Asked("9.z", "how many pages does it free?", None, "fold('9.z', n)", "", "", "", "")


@pytest.mark.nightly
@pytest.mark.parametrize("row", rows_of(golden("predictions")[0].text), ids=" ".join)
def test_the_rule_finds_an_answer_however_it_is_written(row):
    answer, *above, verdict = ("" if cell == "-" else cell for cell in row)
    parts = dict(zip(("chapter", "since", "code"), above))
    assert bool(faults(ABOVE._replace(answer=value_of(answer), **parts))) == bool(verdict)


# -- films that ask --------------------------------------------------------------------------------------------------

ASKS = re.compile(r"\b(say (what|which|where|how)|predict whether|point to|asks you|will each pool hand out)\b")
# The last step that a stored page may show of each film whose text asks: the questions are about later ones.
MAY_SHOW = {"01": 1, "02": 9, "05": 6, "06": 1, "09": 3, "10": 9, "11": 1, "12": 6, "14": 1}


def films_that_ask():
    """Each with its chapter, and the last step that is on its stored page, in words or as a picture."""
    for path in NOTEBOOKS:
        text = ""
        for cell in load(path).cells:
            text += cell.source if cell.cell_type == "markdown" else ""
            for output in cell.get("outputs", []) if ASKS.search(text) else []:
                data = output.get("data", {})
                if re.match(r"(Film of|Player with)", said := data.get("text/plain", "")):
                    steps = re.findall(r"^(\d+)\. ", said + data.get("text/html", ""), re.MULTILINE)
                    yield path.stem[:2], max(map(int, steps))
            text = "" if cell.get("outputs") else text


def test_a_stored_page_shows_no_step_that_its_text_asks_about():
    found = dict(films_that_ask())
    assert found.keys() == MAY_SHOW.keys()
    assert all(last <= MAY_SHOW[chapter] for chapter, last in found.items()), found

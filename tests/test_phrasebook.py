"""The meaning of a question: the taught question that shares its words, or nothing."""

import json

import pytest
from held_out import OUTSIDE, PARAPHRASES
from hypothesis import given
from hypothesis import strategies as st
from nightly import NIGHTLY

from minikv import asset
from minikv.serving.phrasebook import COMMON, TAUGHT, Phrasebook, stems

CORPUS = json.loads((asset("model") / "corpus.json").read_text("utf-8"))
PHRASEBOOK = Phrasebook.read(asset("model/corpus.json"))
HOME = {question: i for i, pair in enumerate(CORPUS["pairs"]) for question in pair["questions"]}


def test_every_question_of_the_corpus_means_itself_or_one_of_its_group_that_was_taught():
    groups = [pair["questions"] for pair in CORPUS["pairs"]]
    asked = [(question, group[:TAUGHT]) for group in groups for question in group]
    assert len(asked) > 200
    for question, taught in asked if NIGHTLY else asked[::3]:
        found = PHRASEBOOK.nearest(question)
        assert found == question if question in taught else found in taught, question


@pytest.mark.parametrize(("asked", "means"), [
    ("what are slots", "What is a slot?"),
    ("So what are slots?", "What is a slot?"),
    ("What are slots good for?", "What is a slot?"),
    # By shared words alone, "how are pages evicted" is nearest to "where can evicted pages go".
    ("How does a page get evicted?", "What does evict do?"),
    ("Why do slots get evicted?", "What does evict do?"),
    ("Which page is evicted first?", "What is evicted first?"),
    ("Where do evicted pages go?", "How do keys and values move to the host?"),
    ("What keeps a prefix from being evicted?", "What is a lock?"),
])  # fmt: skip
def test_a_question_in_other_words_means_what_is_asked(asked, means):
    assert HOME[PHRASEBOOK.nearest(asked)] == HOME[means]


def test_what_is_held_out_is_not_in_the_corpus():
    known = {" ".join(question.lower().split()).rstrip("?!.") for question in HOME}
    assert not known & {question.lower().rstrip("?!.") for question in (*dict(PARAPHRASES), *OUTSIDE)}


HELD_OUT = {"paraphrases": PARAPHRASES, "questions from outside": [(asked, None) for asked in OUTSIDE]}


@pytest.mark.parametrize("kind", HELD_OUT)
def test_it_finds_what_most_of_them_mean_that_are_not_in_the_corpus(kind):
    """At least 80 %, where nothing is right for a question from outside; it was 56 and 63 of 65 at first."""
    assert len(HELD_OUT[kind]) == 65
    wrong = [asked for asked, means in HELD_OUT[kind] if HOME.get(PHRASEBOOK.nearest(asked)) != HOME.get(means)]
    assert len(wrong) <= 13, wrong


SMALL = Phrasebook([
    ["What is a lock?", "Why lock?", "When does a lock end?", "locking a prefix"], ["What is a page?"], ["Hello!"],
])  # fmt: skip


@pytest.mark.parametrize(("asked", "means"), [
    ("what is a LOCK", "What is a lock?"),
    ("Why are there locks?", "Why lock?"),
    ("locked prefixes", "Why lock?"),  # of its group, one that was taught
    ("hello", "Hello!"),
    ("What is a volcano?", None),
    ("Is there a lock on the door of my neighbor's house?", None),
    ("???", None),
    ("", None),
])  # fmt: skip
def test_by_hand(asked, means):
    assert SMALL.nearest(asked) == means


def test_the_words_that_everybody_uses_count_little_and_endings_nothing():
    """Two groups share 'what is' with the question; the rare word decides."""
    phrasebook = Phrasebook([["What is the best of it?"], ["When is a page evicted?"]])
    assert phrasebook.nearest("what is evicted") == "When is a page evicted?"
    assert {"what", "the"} <= COMMON
    assert stems("pages paged paging page") == {"pag"}
    assert stems("The CPU's caches") == stems("the cpu cache")


@given(st.text(max_size=60))
def test_any_text_has_an_answer(text):
    found = PHRASEBOOK.nearest(text)
    assert found is None or found in HOME


def test_without_groups_nothing_is_found():
    for groups in ([], [[]]):
        assert Phrasebook(groups).nearest("What is a page?") is None


@pytest.mark.parametrize("pairs", ["{}", '{"pairs": [5]}'])
def test_a_corpus_without_questions_is_named(pairs, tmp_path):
    (tmp_path / "corpus.json").write_text(pairs, "utf-8")
    with pytest.raises(ValueError, match=r"corpus\.json is not a corpus of questions and answers: "):
        Phrasebook.read(tmp_path / "corpus.json")

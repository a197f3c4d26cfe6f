"""The questions that the small model was trained on, and the one that is closest to a given question.

A model of this size repeats what it was taught, and for anything else it repeats something at random. So the chat looks
first for the taught question that is nearest to what was typed. If it finds one, it asks the model that; if not, it
says that it does not know.

Two questions are as near as the weight of the words that they share, a rare word counting more (after Sparck Jones'
inverse document frequency, 1972).
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from minikv.files import FileName
from minikv.untrusted import read_json, refused

TAUGHT = 3  # the first questions of each group, which the model is trained on
UNKNOWN = "I do not know that: I only know about KV caches. Ask me what a page, a slot or a lock is."
_NEAR = 0.7  # of 2: how near a question must be to mean the same
_MANY = 100  # groups, about
_COMMON_WEIGHT, _UNKNOWN_WEIGHT = 0.6, math.log(1 + 2 * _MANY)
_FORMS_OF_IS = "are", "was", "were"  # "what are slots" means "what is a slot"
_ENDINGS = ("ations", "ation", "ings", "ing", "ies", "ied", "ed", "es", "s", "e", "y")
_COMMON = """a about actually all an and any are as at be been but by can could define describe did do does exactly
explain for from get give good had has have here how i if in is it know may me mean meaning means meant might more must
my need no not of on one or our please point say sentence short should simple so some tell that the then there thing
this to understand us use used want was we were what when where which who whom whose why will with word words work works
would you your"""


class Phrasebook:
    """Groups of questions that mean the same; `nearest` finds the taught one that a question means.

    >>> phrasebook = Phrasebook([["What is a lock?", "Who holds a lock?"], ["What is a page?", "How large is a page?"]])
    >>> phrasebook.nearest("so what are locks good for"), phrasebook.nearest("What is a volcano?")
    ('What is a lock?', None)
    """

    def __init__(self, groups: Sequence[Sequence[str]]):
        self.groups = groups
        self._words = [[stems(question) for question in group] for group in groups]
        found_in = Counter[str]()
        for group in self._words:
            found_in.update(set[str]().union(*group))
        self._weights = {word: math.log(1 + _MANY / number) for word, number in found_in.items()}
        self._weights |= dict.fromkeys(COMMON, _COMMON_WEIGHT)

    @classmethod
    def read(cls, path: FileName) -> Phrasebook:
        """The questions of a corpus: a JSON file with `pairs`, each of which has `questions`.

        >>> from minikv import asset
        >>> Phrasebook.read(asset("model/corpus.json")).nearest("what are slots")
        'What is a slot?'
        """
        with refused(f"{path} is not a corpus of questions and answers"):
            return cls([pair["questions"] for pair in read_json(Path(path))["pairs"]])

    def nearest(self, question: str) -> str | None:
        """The taught question that `question` means, or `None` if there is none."""
        if not (asked := stems(question)):
            return None
        nearness = [self._nearness(asked, group) for group in self._words]
        if max(nearness, default=0) < _NEAR:
            return None
        group = nearness.index(max(nearness))
        alike = [self._alike(asked, question) for question in self._words[group][:TAUGHT]]
        return self.groups[group][alike.index(max(alike))]

    def _nearness(self, asked: frozenset[str], group: list[frozenset[str]]) -> float:
        """How alike the nearest question of a group is, and how much of what was asked the group has words for."""
        covered = self._weight(asked & set[str]().union(*group)) / self._weight(asked)
        alike = (self._alike(asked, question) for question in group)
        return covered + max(alike, default=0.0)

    def _alike(self, one: frozenset[str], other: frozenset[str]) -> float:
        return self._weight(one & other) / self._weight(one | other)

    def _weight(self, some: Iterable[str]) -> float:
        """The rarer the words the more, and most for one that no group has; the same sum in any order."""
        return math.fsum(self._weights.get(word, _UNKNOWN_WEIGHT) for word in some)


def stems(text: str) -> frozenset[str]:
    """The words of a text in small letters, without their endings, and `is` in place of are, was and were.

    >>> sorted(stems("What's the page? Pages, paging!"))
    ['pag', 'the', 'what']
    """
    return frozenset(map(_stem, re.findall(r"[a-z0-9]+", text.lower().replace("'s", ""))))


def _stem(word: str) -> str:
    word = "is" if word in _FORMS_OF_IS else word
    for ending in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            return word.removesuffix(ending)
    return word


COMMON = stems(_COMMON)

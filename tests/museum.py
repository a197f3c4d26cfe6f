"""A museum of bugs: laws, and for each law our own and a re-creation of an engine that breaks it."""

import contextlib

import pytest

from minikv import SlidingWindowCache


@contextlib.contextmanager
def without(error):
    """What is done here must not end with this error: a law that it breaks fails."""
    try:
        yield
    except error as found:
        pytest.fail(repr(found))


def with_windows(kind):
    """The sliding-window index with another way to keep its windows."""

    class Kept(SlidingWindowCache):
        def _clear(self):
            super()._clear()
            self.windows = kind(self.window, self.page_size)

    return Kept


def law_by_law(museum):
    """The tests of a museum, (ours, original) by law: every law holds of ours, and fails on the re-creation."""
    laws = pytest.mark.parametrize("law", museum, ids=lambda law: law.__name__)

    @laws
    def test_ours_holds(law):
        law(museum[law][0])

    @laws
    def test_the_original_does_not(law):
        """By what the law says; never because the re-creation does not run."""
        with pytest.raises((AssertionError, pytest.fail.Exception)):
            law(museum[law][1])

    return test_ours_holds, test_the_original_does_not

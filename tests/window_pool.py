"""A pool of windows for tests: which pages have a window now, and every call that could not be right."""


class WindowLedger:
    """Keeps the set of full pages that have a window; to free one that is not there, or give one twice, is an error."""

    def __init__(self):
        self.live, self.buried = set(), []

    def alloc(self, pages):
        """The caller computed windows for `pages`."""
        new = {int(page) for page in pages}
        assert not new & self.live
        self.live |= new

    def free(self, pages):
        """`pages` went back to the pool, and with them the windows that they still had."""
        self.live -= {int(page) for page in pages}

    def free_window(self, pages):
        gone = [int(page) for page in pages]
        assert set(gone) <= self.live
        assert len(set(gone)) == len(gone)
        self.live -= set(gone)
        self.buried += gone

    def move_window(self, pages, to_pages):
        old, new = ({int(page) for page in side} for side in (pages, to_pages))
        assert len(old) == len(new) == len(pages)
        assert old <= self.live
        assert not new & self.live
        self.live = self.live - old | new

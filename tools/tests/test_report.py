"""The page of a report: whole, safe whatever it says, and without anything that it would have to load."""

import re
from html.parser import HTMLParser

import pytest

from minikv.course.pictures.palette import BOTH, LINES
from minikv_tools.report import EDGE, MARK, ReportPart, document, escape, section_html, text_lines


class Tags(HTMLParser):
    """Which tags are open at the end, and every tag that was there."""

    def __init__(self, text):
        super().__init__()
        self.open, self.seen = [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.seen.append((tag, dict(attrs)))
        if tag not in ("meta", "br"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_a_page_is_closed_and_loads_nothing():
    page = Tags(document("a report", [section_html(ReportPart("sizes", (), ("size",), (("1",),)))]))
    assert page.open == []
    assert not {"script", "link", "img", "iframe"} & {tag for tag, _ in page.seen}
    assert not re.search(r"https?:|url\(", document("a report", []))


def test_it_follows_the_reader_s_theme_and_width():
    page = document("a report", [])
    assert "prefers-color-scheme: dark" in page
    assert "width=device-width" in page


@pytest.mark.parametrize("text", ["<script>alert(1)</script>", '" onload="x', "a & b", "\x00\x1b[31m", "\ud800"])
def test_no_text_breaks_out_of_its_place(text):
    page = Tags(document(text, [section_html(ReportPart(text, (text,), (text,), ((text,),)))]))
    assert "script" not in {tag for tag, _ in page.seen}
    assert not any("onload" in attributes for _, attributes in page.seen)
    escape(text).encode()


def test_a_table_has_headings_and_marks_rows():
    found = section_html(ReportPart("sizes", (), ("size", "what"), (("1", "a"), ("2", "b")), (1,), ("what",)))
    assert found.count('<th scope="row"') == 2
    assert '<th scope="col" class="words">what</th>' in found
    assert found.count('<tr class="marked"><th scope="row">2</th>') == found.count("marked") == 1
    assert 'tabindex="0" role="region" aria-label="sizes"' in found


@pytest.mark.parametrize("cells", [("5", ""), ("5", "-"), ("5", "(5)"), ("", "")])
def test_a_column_holds_words_where_its_part_says_so_whatever_is_in_its_cells(cells):
    part = ReportPart("sizes", (), ("size", "what"), tuple((cell, cell) for cell in cells), words=("what",))
    seen = [dict(attributes).get("class") for tag, attributes in Tags(section_html(part)).seen if tag in ("th", "td")]
    assert seen == [None, "words"] * 3


def test_a_section_of_a_page_without_a_table_is_its_sentences():
    assert section_html(ReportPart("One", ("A < B.",))) == "<h2>One</h2><p>A &lt; B.</p>"


def lines(*sections):
    return list(text_lines(sections))


def test_a_section_without_a_table_is_its_heading_and_its_sentences():
    assert lines(ReportPart("One", ("First.", "Second."))) == ["", "One", "  First.", "  Second."]


def test_numbers_stand_under_each_other_and_notes_begin_at_one_place():
    rows = ("1", "a"), ("10,000", "longer"), ("5", "")
    found = lines(ReportPart("One", (), ("size", "note"), rows, words=("note",)))
    assert found[2:] == ["      size  note", "         1  a", "    10,000  longer", "         5"]


def test_the_colors_of_a_page_are_those_of_the_pictures():
    assert (LINES[0], BOTH) == (MARK, EDGE)

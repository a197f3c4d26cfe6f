"""The page of a report: whole, safe whatever it says, and without anything that it would have to load."""

import re
from html.parser import HTMLParser

import pytest

from minikv.course.pictures.palette import LINES
from minikv.layers import KVLayers, LayerGroup
from minikv.tokens import pack
from minikv.traffic import Replay, TraceRequest
from minikv.traffic.trace_tree import TraceTree
from minikv_tools.logs import Units
from minikv_tools.plans import Terms
from minikv_tools.plans.plan_words import plan_text
from minikv_tools.plans.planning import make_plan
from minikv_tools.report import ReportPart, document, escape, section_html, text_lines
from minikv_tools.sweep import SweepRun, sweep_table
from minikv_tools.usage import Usage
from minikv_tools.why import explain
from minikv_tools.why.bills import compared
from minikv_tools.why.log import survey
from minikv_tools.why.log_report import LogWords, log_page, log_text
from minikv_tools.why.providers import Prediction


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
    page = document("", ())
    assert f"solid {LINES[0]};" in page


def planned(*prompts, block_size=1, **terms):
    asked = (TraceRequest(0, len(ids), 1, pack(ids), 0) for ids in prompts)
    return plan_text(make_plan(TraceTree(asked), Terms(block_size, **terms)))


LAYERS = KVLayers((LayerGroup("window", 1, per_token=2, window=1), LayerGroup("full attention", 1, per_token=2)))
CLAUDE = {"model": "claude-opus-5", "prompt": "abcd"}


def logged(*prompts):
    report = survey(list(prompts))
    report.unread = True
    words = LogWords(report, Units())
    return log_text(words, 1) + log_page(words, 1)


@pytest.mark.parametrize("text", [
    planned([1], block_size=16),
    planned([1], [1, 2], bytes_per_token=2, memory=2, layers=LAYERS),
    logged({"prompt": "ab"}),
    logged(*({"prompt": f"It is 14:0{at}. {said}"} for at, said in ((1, "A"), (2, "A"), (2, "B")))),
    logged({"prompt": "ab"}, {"prompt": "abc"}),
    repr(explain("a", "ab")),
    repr(explain(CLAUDE, CLAUDE)),
    compared(Prediction("anthropic", read=1), Usage(prompt=1, read=1), 1),
    sweep_table([SweepRun("day", 1, "radix", None, None, 1)], [Replay(requests=1, blocks=1)]),
], ids=lambda text: text.partition("\n")[0][:40])  # fmt: skip
def test_of_one_thing_a_report_does_not_speak_as_of_several(text):
    """No word after "1" ends in s, unless it is a verb: 1 request is, 1 of the requests continues."""
    several = r"were\b|of the \w+ \w+(?<!s)\b|(?:more )?(?!is\b|was\b)\w+s\b"
    assert re.search(r"\b1 [a-z]", text)
    assert re.findall(rf"(?<![\w.,])1[ \n](?:{several}).*", text) == []

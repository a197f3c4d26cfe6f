"""Sections as lines for a terminal."""

from __future__ import annotations

from minikv.traffic.plan.report_parts import NOTE, ReportPart, text_lines


def lines(*sections):
    return list(text_lines(sections))


def test_a_section_without_a_table_is_its_heading_and_its_sentences():
    assert lines(ReportPart("One", ("First.", "Second."))) == ["", "One", "  First.", "  Second."]


def test_numbers_stand_under_each_other_and_notes_begin_at_one_place():
    found = lines(ReportPart("One", (), ("size", NOTE), (("1", "a"), ("10,000", "longer"), ("5", ""))))
    assert found[2:] == ["      size  note", "         1  a", "    10,000  longer", "         5"]

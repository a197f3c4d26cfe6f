"""Statements about real engines: each has a line, each line a pinned link, and a check finds what is gone."""

import json
import re
from dataclasses import replace

import engines
import pytest
from chapters import NOTEBOOKS, load, markdown
from project import text_of, write
from refusals import said

from minikv.course.pieces.piece import all_pieces
from minikv.files import asset

PINNED = r"(?:v\d+\.\d+\.\d+|[0-9a-f]{40})"
LINK = rf"https://github\.com/[\w.-]+/[\w.-]+/blob/{PINNED}/[\w./@-]+#L[1-9]\d*"


def test_an_entry_is_one_sentence_with_a_pinned_https_link_and_what_its_kind_needs():
    for entry in engines.entries():
        assert re.fullmatch(LINK, entry.link)
        assert entry.symbol.strip()
        assert (entry.claim[-1], entry.claim.count(". ")) == (".", 0)
        assert 2023 <= entry.date.year <= 2026
        assert bool(entry.state) == (entry.kind == "bug")
        home = engines.engines()[entry.engine].repository
        assert not entry.thread or entry.thread.startswith(f"{home}/")
        if entry.kind == "cell":
            assert len(entry.chapters) == 1
            assert all([entry.row, entry.cell, entry.engine in engines.COLUMNS])
            assert not entry.id or entry.id.startswith(f"{entry.engine}-")
        else:
            assert entry.kind in ("fact", "bug")
            assert re.fullmatch(r"[a-z0-9-]*[a-z][a-z0-9-]*", entry.id)
            assert entry.chapters
            assert not entry.row
            assert entry.cell or entry.kind == "bug"


def test_an_engine_is_introduced_in_one_sentence_and_no_name_is_used_twice():
    for engine in engines.engines().values():
        assert engine.about.endswith(".")
        assert f"]({engine.repository}" in engine.about
    names = [entry.id for entry in engines.entries() if entry.id] + list(engines.engines())
    assert len(names) == len(set(names))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_chapter_shows_its_table_whose_cells_are_links(path):
    """It leaves no place unfilled; an engine that says one thing alone has a sentence."""
    number, text = path.stem[:2], markdown(load(path))
    head, line, *rows = engines.table(number).splitlines()
    assert head == "| here | SGLang | vLLM | mini-sglang | nano-vllm |"
    assert line == "|---|---|---|---|---|"
    assert len(rows) >= {"13": 2, "14": 4}.get(number, 5)
    for row in rows:
        _, *cells = row.strip("| ").split(" | ")
        assert [re.sub(rf"\[.+?\]\({LINK}\).*", "", cell) for cell in cells] == [""] * 4
    cells = [each for each in engines.entries() if each.kind == "cell" and number in each.chapters]
    told = {name: {cell.cell for cell in cells if cell.engine == name} for name in engines.COLUMNS}
    assert all(str(cell) in text for cell in cells if len(told[cell.engine]) > 1)
    assert all(name in text for name in told)
    assert "{{" not in text


def test_what_is_nowhere_is_refused(monkeypatch):
    where = "ValueError: engines.toml"
    assert said(engines.table, "77").startswith(f"{where} has no cell of chapter '77'")
    assert said(engines.table, "03", ["splits"]).startswith(f"{where}, chapter 03: no row ['splits']; ")
    assert said(engines.fill, "as {{engines me}} does").startswith("ValueError: {{engines me}}: ")
    fewer = [e for e in engines.entries() if (e.row, e.engine) != ("split", "vllm")]
    monkeypatch.setattr(engines, "entries", lambda: fewer)
    assert said(engines.table, "03").startswith(f"{where}, chapter 03: row 'split' has no cell")
    facts = {"piece": {"3.3": "sglang 77 `split`"}}
    monkeypatch.setattr(engines, "_facts", lambda: facts)
    monkeypatch.setattr(engines, "entries", lambda: ())
    assert said(engines.places) == f"{where}, piece 3.3: there is no entry 'sglang 77 `split`'"


def test_a_place_becomes_a_table_an_introduction_a_fact_or_a_bug_with_its_state():
    fill = engines.fill
    assert fill("{{engines 04}}") == engines.table("04")
    assert fill("{{engines astrai}}") == engines.engines()["astrai"].about
    reverse = "it [frees them in reverse](https://github.com/"
    assert fill("it {{engines vllm-reverse}}.").startswith(reverse)
    assert fill("{{engines mini-sglang-124}}").endswith("/pull/124) (fixed in May 2026)")
    assert fill("{{engines\nmini-sglang-124}}") == fill("{{engines mini-sglang-124}}")
    assert fill("no place: {engines 04}") == "no place: {engines 04}"
    shown, rest = fill("{{engines 03|split}}").split("<details>")  # the rows that few readers need
    assert shown.count("\n| ") == rest.count("| here |") == 1


PATH, OWN = "python/a.py", engines.engines()["sglang"].revision


@pytest.mark.parametrize(
    ("path", "symbol", "text", "problem"),
    [
        (PATH, "match", "\n  match(tokens)\n", ""),
        ("a.py", "cache.match(", "\ncache.match(tokens)\n", ""),  # in a wheel
        (PATH, "match", "\n\nmatch = 1\nmatch = 2\n", "'match' is in line 3, not in line 2"),
        (PATH, "match", "\nrematch = matches\n", "no 'match'"),
        ("b.py", "match", "\nmatch\n", "no such file"),
    ],
)
@pytest.mark.parametrize("revision", [OWN, "812eb1c812eb1c"])
def test_a_symbol_that_is_not_where_its_entry_says_is_a_line(
    revision, path, symbol, text, problem, tmp_path, monkeypatch, capsys
):
    """In the sources of the engine's own commit, and of another one; and where there are none."""
    home = tmp_path / ("sglang" if revision == OWN else "sglang@812eb1c")
    first = next(entry for entry in engines.entries() if entry.engine == "sglang")
    entry = replace(first, path=PATH, line=2, symbol=symbol, revision=revision)
    monkeypatch.setattr(engines, "entries", lambda: [entry])
    assert engines.main([str(tmp_path)]) == 1
    assert capsys.readouterr().out == f"{home.name}: no such folder in {tmp_path}\n"
    write(home, {path: text})
    assert engines.main([str(tmp_path)]) == bool(problem)
    told = f"{home.name}, chapter {first.chapters[0]}: {PATH}: {problem}"
    assert capsys.readouterr().out == f"{told if problem else '1 entries, each where it says'}\n"


def test_how_to_call_it_is_said(capsys):
    assert engines.main([]) == 2
    assert capsys.readouterr().out == "usage: python notebooks/engines.py FOLDER\n"


def test_every_piece_says_where_it_runs():
    """A new piece gets its line in engines.toml under [piece]; the build writes the asset."""
    assert set(json.loads(engines.places())) == {piece.id for piece in all_pieces()}
    assert asset("where_it_runs.json").read_text("utf-8") == engines.places()
    for piece in all_pieces():
        place = re.match(r"The package's version: (\S+), line (\d+)\. \S", piece.places)
        lines = text_of(place[1]).splitlines()
        assert lines[int(place[2]) - 1].startswith(f"def {piece.name}(")

"""Statements about real engines: each has a line, each line a pinned link, and a check finds what is gone."""

from __future__ import annotations

import doctest
import json
import re
import shutil

import engines
import pytest
from chapters import NOTEBOOKS, load, markdown
from project import ROOT

from minikv.course.pieces.piece import all_pieces
from minikv.files import asset

PINNED = re.compile(r"v\d+\.\d+\.\d+|[0-9a-f]{40}")
NUMBERS = [path.stem[:2] for path in NOTEBOOKS]


def test_an_entry_is_one_sentence_with_a_pinned_https_link():
    for entry in engines.entries():
        assert re.fullmatch(r"https://github\.com/[\w.-]+/[\w.-]+/blob/[\w.]+/[\w./@-]+#L[1-9]\d*", entry.link)
        assert PINNED.fullmatch(entry.revision)
        assert entry.symbol.strip()
        assert entry.claim.endswith(".")
        assert entry.claim.count(". ") == 0
        assert 2023 <= entry.date.year <= 2026


def test_an_entry_has_what_its_kind_needs():
    for entry in engines.entries():
        if entry.kind == "cell":
            assert len(entry.chapters) == 1
            assert entry.row
            assert entry.cell
            assert entry.engine in engines.COLUMNS
            assert not entry.id or entry.id.startswith(f"{entry.engine}-")
        else:
            assert entry.kind in ("fact", "bug")
            assert re.fullmatch(r"[a-z0-9-]*[a-z][a-z0-9-]*", entry.id)
            assert entry.chapters
            assert not entry.row
            assert entry.cell or entry.kind == "bug"
        assert bool(entry.state) == (entry.kind == "bug")
        assert not entry.thread or entry.thread.startswith(engines.engines()[entry.engine].repository + "/")


def test_names_are_not_used_twice():
    names = [entry.id for entry in engines.entries() if entry.id] + list(engines.engines())
    assert len(names) == len(set(names))


def test_an_engine_is_introduced_in_one_sentence_with_its_link():
    for engine in engines.engines().values():
        assert engine.about.endswith(".")
        assert f"]({engine.repository}" in engine.about
        assert PINNED.fullmatch(engine.revision)


def test_every_cell_of_a_table_is_a_link():
    for chapter in NUMBERS:
        head, line, *rows = engines.table(chapter).splitlines()
        assert head == "| here | SGLang | vLLM | mini-sglang | nano-vllm |"
        assert line == "|---|---|---|---|---|"
        assert len(rows) >= ({"13": 2, "14": 4}.get(chapter, 5)), chapter
        for row in rows:
            cells = row.strip("| ").split(" | ")
            assert len(cells) == 5
            assert all(re.match(r"\[.+?\]\(https://github\.com/\S+#L\d+\)", cell) for cell in cells[1:])


def test_a_chapter_shows_its_table_and_leaves_no_place_unfilled():
    for path in NOTEBOOKS:
        text = markdown(load(path))
        cells = [each for each in engines.entries() if each.kind == "cell" and path.stem[:2] in each.chapters]
        said = {name: {cell.cell for cell in cells if cell.engine == name} for name in engines.COLUMNS}
        assert all(str(cell) in text for cell in cells if len(said[cell.engine]) > 1), path.stem
        assert all(name in text for name in said), "an engine that says one thing alone has a sentence"
        assert "{{" not in text, path.stem


def test_a_chapter_without_entries_has_no_table():
    with pytest.raises(ValueError, match="no cell of chapter '77'"):
        engines.table("77")


def test_a_row_that_lacks_an_engine_is_refused(monkeypatch):
    fewer = tuple(e for e in engines.entries() if (e.row, e.engine) != ("split", "vllm"))
    monkeypatch.setattr(engines, "entries", lambda: fewer)
    with pytest.raises(ValueError, match="chapter 03: row 'split'"):
        engines.table("03")


def test_a_table_can_fold_the_rows_that_few_readers_need():
    shown, rest = engines.fill("{{engines 03|split}}").split("<details>")
    assert shown.count("\n| ") == rest.count("| here |") == 1
    with pytest.raises(ValueError, match=r"chapter 03: no row \['splits'\]; there are \["):
        engines.table("03", ["splits"])


def test_a_name_that_is_nowhere_is_refused():
    with pytest.raises(ValueError, match="engines nobody"):
        engines.fill("as {{engines nobody}} does")


def test_a_place_becomes_a_table_an_introduction_a_fact_or_a_bug_with_its_state():
    assert engines.fill("{{engines 04}}") == engines.table("04")
    assert engines.fill("{{engines astrai}}") == engines.engines()["astrai"].about
    assert engines.fill("it {{engines vllm-reverse}}.").startswith("it [frees them in reverse](https://github.com/")
    assert engines.fill("{{engines mini-sglang-124}}").endswith("/pull/124) (fixed in May 2026)")
    assert engines.fill("{{engines\nmini-sglang-124}}") == engines.fill("{{engines mini-sglang-124}}")
    assert engines.fill("no place: {engines 04}") == "no place: {engines 04}"


@pytest.fixture
def sources(tmp_path):
    """Sources in which every symbol stands where its entry says, and nothing else does."""
    files = {}
    for entry in engines.entries():
        wheel = engines.engines()[entry.engine].wheel
        path = tmp_path / entry.folder / entry.path.removeprefix(wheel)
        files.setdefault(path, {}).setdefault(entry.line, []).append(entry.symbol)
    for path, lines in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(f"{' '.join(lines.get(n, []))}\n" for n in range(1, max(lines) + 1)), "utf-8")
    return tmp_path


def test_sources_that_agree_have_no_miss(sources, capsys):
    assert engines.main([str(sources)]) == 0
    assert capsys.readouterr().out == f"{len(engines.entries())} entries, each where it says\n"


def test_a_checkout_will_do_as_well_as_a_wheel(sources):
    (sources / "sglang" / "python").mkdir()
    (sources / "sglang" / "sglang").rename(sources / "sglang" / "python" / "sglang")
    assert list(engines.misses(sources)) == []


def test_an_entry_about_another_commit_wants_a_folder_of_its_own(sources):
    shutil.rmtree(sources / "nano-vllm@812eb1c")
    assert list(engines.misses(sources)) == [f"nano-vllm@812eb1c: no such folder in {sources}"]


def test_a_planted_miss_is_found(sources, capsys):
    (bug,) = [entry for entry in engines.entries() if entry.id == "pymllm-swa-split"]
    path = sources / bug.folder / bug.path
    path.write_text("\n" + path.read_text("utf-8").replace("_add_leaf", "_add_leaves"), "utf-8")
    assert engines.main([str(sources)]) == 1
    told = [line for line in capsys.readouterr().out.splitlines() if line.startswith("pymllm, chapter 03")]
    assert told == [
        f"pymllm, chapter 03: {bug.path}: {bug.symbol!r} is in line 596, not in line 595",
        f"pymllm, chapter 03: {bug.path}: no '_add_leaf'",
    ]


def test_a_file_or_a_folder_that_is_gone_is_one_line(sources, capsys):
    shutil.rmtree(sources / "vllm")
    (sources / "nano-vllm" / "nanovllm" / "config.py").unlink()
    assert engines.main([str(sources)]) == 1
    assert capsys.readouterr().out.splitlines() == [
        f"vllm: no such folder in {sources}",
        *["nano-vllm, chapter 01: nanovllm/config.py: no such file"] * 2,
    ]


def test_a_symbol_is_found_as_a_whole_word_only(sources):
    path = sources / "sglang" / "sglang/srt/mem_cache/unified_radix_cache.py"
    path.write_text(path.read_text("utf-8").replace("match_prefix", "rematch_prefix"), "utf-8")
    assert [line.rpartition(": ")[2] for line in engines.misses(sources)] == ["no 'match_prefix'"]


def test_how_to_call_it_is_said(capsys):
    assert engines.main([]) == 2
    assert capsys.readouterr().out == "usage: python notebooks/engines.py FOLDER\n"


def test_its_examples_run():
    assert doctest.testmod(engines).failed == 0
    assert "{{engines 03}}" in (ROOT / "notebooks" / "src" / "engines.toml").read_text("utf-8")


def test_every_piece_says_where_it_runs():
    """A new piece gets its line in engines.toml under [piece]; `python notebooks/build.py` writes the asset."""
    assert set(json.loads(engines.places())) == {piece.id for piece in all_pieces()}
    assert asset("where_it_runs.json").read_text("utf-8") == engines.places()
    for piece in all_pieces():
        file, line = re.match(r"The package's version: (\S+), line (\d+)\. \S", piece.places).groups()
        assert (ROOT / file).read_text("utf-8").splitlines()[int(line) - 1].startswith(f"def {piece.name}(")


def test_a_place_that_is_no_entry_is_refused(monkeypatch):
    monkeypatch.setattr(engines, "_facts", lambda: {"piece": {"3.3": "sglang 77 `split`"}})
    monkeypatch.setattr(engines, "entries", lambda: ())
    with pytest.raises(ValueError, match=r"piece 3\.3: there is no entry 'sglang 77 `split`'"):
        engines.places()

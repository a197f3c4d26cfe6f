"""Statements about real engines: each has a line, each line a pinned link, and a check finds what is gone."""

from __future__ import annotations

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
LINK = r"https://github\.com/[\w.-]+/[\w.-]+/blob/[\w.]+/[\w./@-]+#L[1-9]\d*"


def test_an_entry_is_one_sentence_with_a_pinned_https_link_and_what_its_kind_needs():
    for entry in engines.entries():
        assert re.fullmatch(LINK, entry.link)
        assert PINNED.fullmatch(entry.revision)
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
        assert PINNED.fullmatch(engine.revision)
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
    said = {name: {cell.cell for cell in cells if cell.engine == name} for name in engines.COLUMNS}
    assert all(str(cell) in text for cell in cells if len(said[cell.engine]) > 1)
    assert all(name in text for name in said)
    assert "{{" not in text


def test_what_is_nowhere_is_refused(monkeypatch):
    refused = {
        "no cell of chapter '77'": lambda: engines.table("77"),
        r"chapter 03: no row \['splits'\]; there are \[": lambda: engines.table("03", ["splits"]),
        "engines nobody": lambda: engines.fill("as {{engines nobody}} does"),
    }
    for words, act in refused.items():
        with pytest.raises(ValueError, match=words):
            act()
    fewer = [e for e in engines.entries() if (e.row, e.engine) != ("split", "vllm")]
    monkeypatch.setattr(engines, "entries", lambda: fewer)
    with pytest.raises(ValueError, match="chapter 03: row 'split'"):
        engines.table("03")
    facts = {"piece": {"3.3": "sglang 77 `split`"}}
    monkeypatch.setattr(engines, "_facts", lambda: facts)
    monkeypatch.setattr(engines, "entries", lambda: ())
    with pytest.raises(ValueError, match=r"piece 3\.3: there is no entry 'sglang 77 `split`'"):
        engines.places()


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


@pytest.fixture
def sources(tmp_path):
    """Sources in which every symbol is where its entry says, and nothing else is."""
    files = {}
    for entry in engines.entries():
        wheel = engines.engines()[entry.engine].wheel
        path = tmp_path / entry.folder / entry.path.removeprefix(wheel)
        files.setdefault(path, {}).setdefault(entry.line, []).append(entry.symbol)
    for path, lines in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        text = [" ".join(lines.get(number, [])) for number in range(1, max(lines) + 1)]
        path.write_text("\n".join([*text, ""]), "utf-8")
    return tmp_path


def test_sources_that_agree_have_no_miss_a_wheels_or_a_checkouts(sources, capsys):
    assert engines.main([str(sources)]) == 0
    assert capsys.readouterr().out == f"{len(engines.entries())} entries, each where it says\n"
    (sources / "sglang" / "python").mkdir()
    (sources / "sglang" / "sglang").rename(sources / "sglang" / "python" / "sglang")
    assert list(engines.misses(sources)) == []


def test_what_is_gone_from_the_sources_is_a_line_each(sources, capsys):
    """A folder, also of another commit, a file, a symbol as a whole word, and a line."""
    shutil.rmtree(sources / "vllm")
    shutil.rmtree(sources / "nano-vllm@812eb1c")
    (sources / "nano-vllm" / "nanovllm" / "config.py").unlink()
    (bug,) = [entry for entry in engines.entries() if entry.id == "pymllm-swa-split"]
    words = {
        "sglang/sglang/srt/mem_cache/unified_radix_cache.py": ("match_prefix", "rematch_prefix"),
        f"{bug.folder}/{bug.path}": ("_add_leaf", "_add_leaves"),
    }
    for name, (old, new) in words.items():
        text = (sources / name).read_text("utf-8").replace(old, new)
        (sources / name).write_text("\n" * ("leaf" in old) + text, "utf-8")
    assert engines.main([str(sources)]) == 1
    told = capsys.readouterr().out.splitlines()
    config = "nano-vllm, chapter 01: nanovllm/config.py: no such file"
    assert told.count(config) == 2
    assert set(told) >= {
        f"vllm: no such folder in {sources}",
        f"nano-vllm@812eb1c: no such folder in {sources}",
        f"pymllm, chapter 03: {bug.path}: {bug.symbol!r} is in line 596, not in line 595",
        f"pymllm, chapter 03: {bug.path}: no '_add_leaf'",
    }
    (moved,) = [line for line in told if "unified_radix" in line]
    assert moved.endswith(": no 'match_prefix'")


def test_how_to_call_it_is_said(capsys):
    assert engines.main([]) == 2
    assert capsys.readouterr().out == "usage: python notebooks/engines.py FOLDER\n"


def test_every_piece_says_where_it_runs():
    """A new piece gets its line in engines.toml under [piece]; the build writes the asset."""
    assert set(json.loads(engines.places())) == {piece.id for piece in all_pieces()}
    assert asset("where_it_runs.json").read_text("utf-8") == engines.places()
    for piece in all_pieces():
        place = re.match(r"The package's version: (\S+), line (\d+)\. \S", piece.places)
        lines = (ROOT / place[1]).read_text("utf-8").splitlines()
        assert lines[int(place[2]) - 1].startswith(f"def {piece.name}(")

"""Broken checkpoints: each is refused in one short line, and nothing outside its folder is read.

The suite opens every seventh of them, and all with HYPOTHESIS_PROFILE=nightly. How long one takes is bounded by counts
(sizes, steps, depths), which the tests of the gate, the templates and the tokenizers hold it to.
"""

from __future__ import annotations

import itertools
import os
import sys
from pathlib import Path

import broken
import pytest
import torch
from nightly import NIGHTLY

from minikv import cli
from minikv.serving import checkpoint
from minikv.serving.chat import open_chat

pytest.importorskip("tokenizers")
FAMILIES = [*broken.MIXED, *broken.BROKEN]
_opened: list[str] | None = None  # the paths that are opened while somebody listens


def _listen(event, arguments):
    if event == "open" and _opened is not None and isinstance(arguments[0], (str, bytes)):
        _opened.append(os.fsdecode(arguments[0]))


sys.addaudithook(_listen)


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A sound checkpoint in a folder, its files, and beside it what no checkpoint may read."""
    root = tmp_path_factory.mktemp("place")
    (root / "checkpoint").mkdir()
    (root / "outside").mkdir()
    files = broken.sound(root / "checkpoint")
    (root / "outside" / "secret.safetensors").write_bytes(files[broken.WEIGHTS])
    return root / "checkpoint", files


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def change(folder, changes):
    for name, content in changes.items():
        (folder / name).unlink(missing_ok=True)
        if isinstance(content, bytes):
            (folder / name).write_bytes(content)
        elif content is not None:
            (folder / name).symlink_to(content)


def outcome(folder):
    """What opening the checkpoint and asking it one thing says: `None` when it answers."""
    try:
        "".join(open_chat(folder).ask("Hi there", 1))
    except (ValueError, OSError) as error:
        return str(error)
    return None


def outcomes(place, cases):
    """(label, what was said, what was opened) of each case, with the folder made sound again after each."""
    global _opened
    folder, files = place
    for label, changes in cases:
        change(folder, changes)
        _opened = []
        try:
            said = outcome(folder)
        finally:
            seen, _opened = _opened, None
            change(folder, {name: files.get(name) for name in changes})
        yield label, said, seen


def test_the_sound_one_is_sound_and_there_are_over_1500_broken_ones(place):
    assert outcome(place[0]) is None
    assert sum(1 for family in FAMILIES for _ in family(place[1])) > 1500


@pytest.mark.skipif(os.name != "posix", reason="the cases have links, pipes and devices of POSIX")
@pytest.mark.parametrize("family", FAMILIES)
def test_a_broken_checkpoint_is_one_line_and_reads_nothing_outside_its_folder(place, monkeypatch, family):
    def opened_by_rust(path, **how):
        _listen("open", (str(path),))
        return safe_open(path, **how)

    safe_open = checkpoint.safe_open
    monkeypatch.setattr(checkpoint, "safe_open", opened_by_rust)
    folder, refused, wrong, opened = place[0], 0, [], []
    every = itertools.islice(family(place[1]), 0, None, 1 if NIGHTLY else 7)
    for label, said, seen in outcomes(place, every):
        outside = [path for path in seen if not leads_into(folder, path)]
        if outside or (said and (len(said) > 300 + len(str(folder)) or not said.isprintable())):
            wrong.append((label, said, outside))
        refused += said is not None
        opened += [label] if said is None else []
    assert not wrong
    assert refused > len(opened)
    assert family in broken.MIXED or set(opened) <= broken.STILL_SOUND


def leads_into(folder, path):
    """Whether `path` is in the folder, or belongs to Python itself, which may import something now."""
    return any(Path(path).resolve().is_relative_to(root) for root in (folder.resolve(), *map(Path, PYTHON)))


PYTHON = {os.path.realpath(path) for path in (sys.prefix, sys.base_prefix, Path(broken.__file__).parent.parent, "/proc",
                                              "/sys")}  # fmt: skip


@pytest.mark.parametrize("changes", [
    {"config.json": b"["},
    {broken.WEIGHTS: b"\xff" * 100},
    {"tokenizer.json": b"{}"},
    {"tokenizer_config.json": b'{"chat_template": "{{ nothing.at.all }}"}'},
    {"tokenizer_config.json": b'{"chat_template": "{{ 2 ** 100000000 }}"}'},
    {"tokenizer_config.json": b'{"chat_template": "{{ messages.append(1) }}"}'},
], ids=lambda changes: next(iter(changes)))  # fmt: skip
def test_the_command_says_it_in_one_line_and_ends_with_2(place, capsys, changes):
    folder, files = place
    change(folder, changes)
    try:
        assert cli.main(["chat", "--model", str(folder)]) == 2
    finally:
        change(folder, {name: files[name] for name in changes})
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    assert err.startswith("minikv: ")


NO_MEMORY = "unable to mmap 1099511627784 bytes from file </x>: Cannot allocate memory (12)\n" + "frame\n" * 999


@pytest.mark.parametrize("error", [RuntimeError(NO_MEMORY), MemoryError()])
def test_weights_that_do_not_fit_into_memory_are_named_with_their_size(place, monkeypatch, error):
    def no_memory(*_, **__):
        raise error

    monkeypatch.setattr(checkpoint, "safe_open", no_memory)
    path = place[0] / broken.WEIGHTS
    said = outcome(place[0])
    assert said.startswith(f"{path} has {path.stat().st_size} bytes: expected what fits into memory; ")
    assert said.isprintable()
    assert len(said) < 300 + len(str(path))


def test_memory_that_runs_out_behind_the_weights_is_one_line(place, monkeypatch, capsys):
    def no_memory(*_, **__):
        raise RuntimeError(f"[enforce fail at alloc_cpu.cpp] {NO_MEMORY}")

    monkeypatch.setattr("minikv.store.KVStore", no_memory)
    assert cli.main(["chat", "--model", str(place[0])]) == 2
    said = capsys.readouterr().err
    assert said.startswith(f"minikv: cannot open {place[0]}: [enforce fail at alloc_cpu.cpp] unable to mmap")
    assert said.count("\n") == 1

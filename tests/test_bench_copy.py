"""`assets/copying.py`: every method copies the same bytes, and the report says what was measured."""

import errno
import itertools
import json
import os
import re

import numpy as np
import pytest
from faults import fails
from golden_text import compare

torch = pytest.importorskip("torch")

import copying  # noqa: E402
from copying import INDEXED_LOOP, SHAPES, Bench, CopyFigures, CopyResult, bench_copy  # noqa: E402
from figures import save_figures  # noqa: E402

from minikv import InvariantError, KVShape, KVStore, asset  # noqa: E402
from minikv.measure.results import Spread  # noqa: E402

SMALL = KVShape(2, num_kv_heads=2, head_dim=8)


@pytest.mark.parametrize("count", [16, 128])
def test_every_method_copies_the_same_tokens_and_nothing_else(count):
    bench = Bench(SMALL, "cpu", 256)
    bench.prove(count)
    source, target = bench.slots(count)
    assert len(set(source.tolist()) | set(target.tolist())) == 2 * count  # nobody reads what somebody writes
    assert not (np.diff(source.reshape(-1, 16)) != 1).any()  # whole pages
    assert bench.memcpy(count)().nbytes == count * bench.stores["page"].slot_bytes


@pytest.mark.parametrize("wrongly", [
    lambda self, src, dst: self.copy(src, dst),  # slots for pages
    lambda self, src, dst: None,  # though another method has copied the same
])  # fmt: skip
def test_a_method_that_copies_wrongly_or_nothing_is_named(wrongly, monkeypatch):
    monkeypatch.setattr(KVStore, "copy_pages", wrongly)
    with pytest.raises(InvariantError, match=r"KVStore\.copy_pages in the layer layout copied 16 tokens wrongly"):
        bench_copy("cpu", rounds=1, quick=True, shape=SMALL)


def test_a_lap_is_its_quickest_call_and_the_first_two_only_warm_up(monkeypatch):
    """The calls take 9, 1, then 7, 6, 8, 6, 8, ... seconds; with calls as long as that, a lap is seven of them."""
    now, takes = [0.0], iter([9.0, 1.0, 7.0, 6.0, 8.0, 6.0, 8.0, 6.0, 8.0])
    monkeypatch.setattr(copying.time, "perf_counter", lambda: now[0])

    def act():
        now[0] += next(takes)

    assert copying.lap(act, "cpu") == 6.0
    assert next(takes, None) is None


def test_a_ratio_is_a_lap_to_the_laps_of_the_memcpy_beside_it(monkeypatch):
    """The memcpy takes 1, 3, 1, 3, ... seconds, so 2 on average beside any method; a method takes 4."""
    floors, ticks = itertools.cycle([1.0, 3.0]), []
    monkeypatch.setattr(copying, "lap", lambda act, device: next(floors) if act.func.__name__ == "copy_" else 4.0)
    found = bench_copy("cpu", rounds=2, quick=True, shape=SMALL, tick=ticks.append)
    assert ticks[7:14] == [*ticks[1:7], ticks[0]]  # each round begins with another method
    assert {spread.median for result in found.results for spread in result.to_memcpy} == {2.0}
    assert [len(result.to_memcpy) for result in found.results] == [2] * 7
    assert (found.memcpy[0].low, found.memcpy[0].high) == (1e6, 3e6)


def figures(best, loop=40.0, device="cpu", quick=False, gather=60.0, few=None):
    """Figures of three methods: the store's has ratio `best`, but `few` for fewer tokens."""
    measured = "here", "2026-11-21", 5, quick, device
    memcpy = [Spread(13719.04, 11711.04, 20248.14)] * 4
    found = CopyFigures(*measured, 16, 4, 64, 16384, [16, 128, 1024, 4096], memcpy)
    for name, ratio in (("KVStore.copy", best), (INDEXED_LOOP, loop), ("one gather, one scatter", gather)):
        ratios = [few if few and ratio == best else ratio] * 3 + [ratio]
        spreads = [Spread(each, each, each) for each in ratios]
        found.results.append(CopyResult(name, "layer", spreads))
    return found


JUDGED = [
    figures(1.51, 6.0),
    figures(6.0, 3.0, gather=0.6),  # a method that only the bench has keeps no promise
    figures(1.25, device="cuda", few=9.0),  # the GPU's is about the most tokens
    figures(1.26, device="cuda", gather=0.6),
    figures(1.0, quick=True),
]


def test_the_report_and_the_promises_are_those_of_the_golden_file():
    first, *others = (found.report().splitlines() for found in (figures(1.5, 6.0), *JUDGED))
    promised = [line for line in itertools.chain(*others) if re.match("promised|  [✓✗]", line)]
    compare("reports.txt", "copies", [*first, "", "of others", *promised])


def test_a_file_that_cannot_take_the_figures_is_said_before_anything_is_measured(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(copying, "bench_copy", lambda *_, **__: pytest.fail("measured"))
    (tmp_path / "list.json").write_text("[1]")
    (tmp_path / "package.json").write_text('{"name": "x"}')
    no_place = {
        "no/copy.json": "Its folder does not exist: ",
        "list.json": "holds a list: expected an object",
        "package.json": "holds 'name', which is not the figures of a device",
    }
    for name, words in no_place.items():
        with pytest.raises(SystemExit, match=r"^2$"):
            copying.main(["--quick", "--save", str(tmp_path / name)])
        said = capsys.readouterr().err.splitlines()[-1]
        assert ": error: argument --save: cannot save the figures: " in said
        assert words in said
        assert said.isprintable()
    assert sorted(os.listdir(tmp_path)) == ["list.json", "package.json"]


def test_figures_that_cannot_be_saved_by_then_are_not_lost(tmp_path, capsys, monkeypatch):
    """That the older ones are left is in test_files."""
    monkeypatch.setattr(copying, "bench_copy", lambda *_, **__: figures(2.0))
    monkeypatch.setattr(os, "fsync", fails(errno.ENOSPC))
    with pytest.raises(SystemExit, match=rf"^cannot save the figures: \[Errno {errno.ENOSPC}\] "):
        copying.main(["--save", str(tmp_path / "copy.json")])
    assert "promised:" in capsys.readouterr().out


def test_the_command_measures_prints_and_saves_beside_the_figures_of_other_devices(tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(SHAPES, "cpu", SMALL)
    path = tmp_path / "copy.json"
    for device in ("cuda", "cpu"):
        save_figures(figures(2.0, device=device), str(path), "memcpy")
    old = json.loads(path.read_text("utf-8"))
    copying.main(["--quick", "--rounds", "1", "--device", "cpu", "--save", str(path)])
    saved = json.loads(path.read_text("utf-8"))
    assert (saved["cpu"]["tokens"], saved["cuda"]) == ([16, 128], old["cuda"])
    assert INDEXED_LOOP in capsys.readouterr().out


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here, so asking for one is right")
def test_a_gpu_that_is_not_there_is_said(capsys):
    with pytest.raises(SystemExit, match=r"^2$"):
        copying.main(["--device", "cuda"])
    assert "device is 'cuda': expected cpu, or cuda where torch finds" in capsys.readouterr().err


def test_the_shipped_figures_are_whole_and_keep_the_promises():
    shipped = json.loads(asset("copy.json").read_text("utf-8"))
    assert "cpu" in shipped
    for device, kept in shipped.items():
        for entry in kept["results"]:
            entry["to_memcpy"] = [Spread(**spread) for spread in entry["to_memcpy"]]
        found = CopyFigures(**{**kept, "results": [CopyResult(**entry) for entry in kept["results"]]})
        assert (found.device, found.quick, len(found.memcpy)) == (device, False, len(found.tokens))
        assert all(promise.kept for promise in found.promises()), found.report()

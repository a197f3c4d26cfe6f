"""`assets/copying.py`: every method copies the same bytes, and the report says what was measured."""

import errno
import json
import os

import numpy as np
import pytest
from faults import fails

torch = pytest.importorskip("torch")

import copying  # noqa: E402
from copying import INDEXED_LOOP, SHAPES, Bench, CopyFigures, CopyResult, bench_copy  # noqa: E402
from figures import save_figures, saved_figures  # noqa: E402

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


def test_a_method_that_copies_wrongly_is_named(monkeypatch):
    monkeypatch.setattr(KVStore, "copy_pages", lambda self, src, dst: self.copy(src, dst))  # slots for pages
    with pytest.raises(InvariantError, match=r"KVStore\.copy_pages in the layer layout copied 32 tokens wrongly"):
        Bench(SMALL, "cpu", 64).prove(32)


def test_a_method_that_copies_nothing_is_named_though_another_has_copied_the_same(monkeypatch):
    monkeypatch.setattr(KVStore, "copy_pages", lambda self, src, dst: None)
    with pytest.raises(InvariantError, match=r"KVStore\.copy_pages in the layer layout copied 32 tokens wrongly"):
        Bench(SMALL, "cpu", 64).prove(32)
    with pytest.raises(InvariantError, match="copied 16 tokens wrongly"):
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
    floors = iter([1.0, 3.0] * 100)

    def lap(act, device):
        return next(floors) if getattr(act, "func", None).__name__ == "copy_" else 4.0

    monkeypatch.setattr(copying, "lap", lap)
    ticks = []
    found = bench_copy("cpu", rounds=2, quick=True, shape=SMALL, tick=ticks.append)
    assert ticks[7:14] == [*ticks[1:7], ticks[0]]  # each round begins with another method
    assert {spread.median for result in found.results for spread in result.to_memcpy} == {2.0}
    assert [len(result.to_memcpy) for result in found.results] == [2] * 7
    assert (found.memcpy[0].low, found.memcpy[0].high) == (1e6, 3e6)


def figures(best, loop=40.0, device="cpu", quick=False):
    """Figures of two methods: the best has ratio `best` everywhere, the indexed loop `loop`."""
    found = CopyFigures("here", "2026-11-21", 5, quick, device, 16, 4, 64, 16384, [16, 128, 1024, 4096])
    found.memcpy = [Spread(1.0, 1.0, 1.0)] * 4
    for name, ratio in (("KVStore.copy", best), (INDEXED_LOOP, loop)):
        found.results.append(CopyResult(name, "layer", [Spread(ratio, ratio, ratio)] * 4))
    return found


def test_promises_are_judged_on_the_right_side_of_the_bar():
    assert [promise.kept for promise in figures(1.5, 6.0).promises()] == [True] * 4
    assert [promise.kept for promise in figures(1.51, 6.0).promises()] == [False] * 4
    assert [promise.kept for promise in figures(1.25, device="cuda").promises()] == [True]
    assert [promise.kept for promise in figures(1.26, device="cuda").promises()] == [False]
    assert "promised" not in figures(1.0, quick=True).report()


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_a_method_that_only_the_bench_has_keeps_no_promise(device):
    """It is ten times as fast as the store, and the indexed loop five times as slow as it."""
    found = figures(6.0, loop=3.0, device=device)
    found.results.append(CopyResult("one gather, one scatter", "page", [Spread(0.6, 0.6, 0.6)] * 4))
    promises = list(found.promises())
    assert promises
    assert not any(promise.kept for promise in promises)


def test_the_columns_of_the_report_keep_apart_however_long_the_figures_are():
    found = figures(1.0)
    found.memcpy = [Spread(13719.04, 11711.04, 20248.14)] * 4
    lines = found.report().splitlines()
    (header,) = (line for line in lines if "layout" in line)
    starts = [header.index(f"{tokens:,} tokens") for tokens in found.tokens]
    (memcpy,) = (line for line in lines if "one memcpy" in line)
    assert [memcpy[at - 1 :].split("  ")[0] for at in starts] == [f" {found.memcpy[0]}"] * 4


def test_the_gpus_promise_is_about_the_most_tokens_and_no_promise_about_rows():
    found = figures(1.25, device="cuda")
    for result in found.results:
        result.to_memcpy[:-1] = [Spread(9.0, 9.0, 9.0)] * 3
    found.results.append(CopyResult("one gather, one scatter", "page", [Spread(0.5, 0.5, 0.5)] * 4))
    assert [(promise.found, promise.kept) for promise in found.promises()] == [(0.8, True)]


def test_the_report_has_a_line_for_every_method_and_promise():
    text = figures(1.25).report()
    assert "16 layers x 4 KV heads x 64, fp16: 16,384 bytes per token" in text
    assert [line.split()[:3] for line in text.splitlines() if " x 1.2 " in line] == [["KVStore.copy", "layer", "x"]]
    assert text.count("✓") == 4


def test_figures_of_one_device_leave_the_others_alone(tmp_path):
    path = tmp_path / "copy.json"
    save_figures(figures(1.0), str(path), "memcpy")
    save_figures(figures(2.0, device="cuda"), str(path), "memcpy")
    save_figures(figures(3.0), str(path), "memcpy")
    saved = json.loads(path.read_text("utf-8"))
    assert {device: kept["results"][0]["to_memcpy"][0]["median"] for device, kept in saved.items()} == {
        "cpu": 3.0,
        "cuda": 2.0,
    }


def test_a_file_that_cannot_take_the_figures_is_said_before_anything_is_measured(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(copying, "bench_copy", lambda *_, **__: pytest.fail("measured"))
    (tmp_path / "list.json").write_text("[1]")
    (tmp_path / "text.json").write_text("hello")
    (tmp_path / "package.json").write_text('{"name": "x"}')
    for name, words in (
        ("no/copy.json", "Its folder does not exist: "),
        ("list.json", "holds a list: expected an object"),
        ("text.json", "is not JSON: Expecting"),
        ("package.json", "holds 'name', which is not the figures of a device"),
        ("", "Is a directory"),
        ("a\0b", "has no NUL character"),
    ):
        with pytest.raises(SystemExit, match=r"^2$"):
            copying.main(["--quick", "--save", str(tmp_path / name)])
        said = capsys.readouterr().err.splitlines()[-1]
        assert ": error: argument --save: cannot save the figures: " in said
        assert repr(str(tmp_path / name)) in said
        assert words in said
        assert said.isprintable()
    assert sorted(os.listdir(tmp_path)) == ["list.json", "package.json", "text.json"]
    assert saved_figures(str(tmp_path / "new.json"), "memcpy") == {}


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no such device here")
@pytest.mark.parametrize("device", ["/dev/full", "/dev/zero", "/dev/null"])
def test_figures_are_not_saved_into_a_device_which_may_have_no_end(device, capsys, monkeypatch):
    monkeypatch.setattr(copying, "bench_copy", lambda *_, **__: pytest.fail("measured"))
    with pytest.raises(SystemExit, match=r"^2$"):
        copying.main(["--quick", "--save", device])
    assert f"Not a regular file: '{device}'" in capsys.readouterr().err


def test_a_disk_that_is_full_by_then_leaves_the_older_figures(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(copying, "bench_copy", lambda *_, **__: figures(2.0))
    path = tmp_path / "copy.json"
    save_figures(figures(1.0), str(path), "memcpy")
    before = path.read_bytes()
    monkeypatch.setattr(os, "fsync", fails(errno.ENOSPC))
    with pytest.raises(SystemExit, match=rf"^cannot save the figures: \[Errno {errno.ENOSPC}\] "):
        copying.main(["--save", str(path)])
    assert "promised:" in capsys.readouterr().out  # what was measured is not lost
    assert path.read_bytes() == before


def test_a_device_that_is_none_of_the_benchs_is_refused():
    with pytest.raises(ValueError, match="device is 'tpu': expected cpu, or cuda where"):
        bench_copy("tpu")


def test_the_command_measures_prints_and_saves(tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(SHAPES, "cpu", SMALL)
    path = tmp_path / "copy.json"
    short = ["--quick", "--rounds", "1", "--device", "cpu"]
    copying.main([*short, "--save", str(path)])
    assert json.loads(path.read_text("utf-8"))["cpu"]["tokens"] == [16, 128]
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
        spreads = [Spread(**spread) for spread in kept["memcpy"]]
        results = [
            CopyResult(r["name"], r["layout"], [Spread(**spread) for spread in r["to_memcpy"]]) for r in kept["results"]
        ]
        found = CopyFigures(**{**kept, "memcpy": spreads, "results": results})
        assert (found.device, found.quick, len(found.memcpy)) == (device, False, len(found.tokens))
        assert all(promise.kept for promise in found.promises()), found.report()

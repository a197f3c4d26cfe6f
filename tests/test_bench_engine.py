"""`assets/chatting.py`: what it counts is right, what it compares is the same, and it says so (no test times it)."""

from __future__ import annotations

import dataclasses
import json

import pytest

torch = pytest.importorskip("torch")

import chatting  # noqa: E402
from chatting import bench_engine  # noqa: E402
from llamas import llama  # noqa: E402

from minikv import CacheManager, Engine, InvariantError, KVStore  # noqa: E402
from minikv.measure.results import Spread  # noqa: E402
from minikv.serving.chat_format import INSTRUCTIONS  # noqa: E402


@pytest.fixture(scope="module")
def small():
    """As small as a model of bytes can be."""
    return llama(seed=1, vocab_size=257, num_hidden_layers=1)


@pytest.fixture(scope="module")
def figures(small):
    return bench_engine(small, rounds=1, quick=True)


def test_without_the_cache_every_prompt_is_computed(figures):
    assert figures.requests == 6
    assert figures.computed_without == figures.prompt_tokens > 6 * len(INSTRUCTIONS)


def test_with_it_the_instructions_are_computed_once(figures):
    """All else is a question, an answer and less than a page for each request."""
    assert len(INSTRUCTIONS) < figures.computed_with < len(INSTRUCTIONS) + 6 * 90


def test_every_design_saves_as_much(small, figures):
    for index in ("trie", "hash", "window"):
        found = bench_engine(small, rounds=1, quick=True, index=index)
        assert (found.computed_without, found.computed_with) == (figures.computed_without, figures.computed_with)


def test_a_whole_bench_would_save_four_fifths(small, monkeypatch):
    """The counts of the full workload do not depend on the machine: the first promise can be kept here."""
    monkeypatch.setattr(chatting, "FULL", (6, 4, 2))
    found = bench_engine(small, rounds=1)
    promise, _ = found.promises()
    assert (promise.kept, promise.found) == (True, found.saved)
    assert found.requests == 24


def test_a_promise_is_judged_by_its_own_figure(figures):
    whole = dataclasses.replace(figures, quick=False, computed_without=100, computed_with=25)
    slow, fast = (dataclasses.replace(whole, first_token_ratio=Spread(ratio, 1, 9)) for ratio in (2.9, 3.0))
    assert [promise.kept for promise in slow.promises()] == [False, False]
    assert [promise.kept for promise in fast.promises()] == [False, True]
    assert "promised" not in figures.report()
    assert "✗ prompt tokens that the cache saved, as a share: 0.75 (>= 0.8)" in slow.report()


def test_an_answer_that_differs_stops_it(small, monkeypatch):
    real, asked = chatting.answer, []

    def other(engine, prompts, new):
        asked.append(prompts)
        found = real(engine, prompts, new)
        if len(asked) >= 4:
            found.tokens[0][-1] = (found.tokens[0][-1] + 1) % 257
        return found

    monkeypatch.setattr(chatting, "answer", other)
    with pytest.raises(InvariantError, match="without the cache the answer is"):
        bench_engine(small, rounds=1, quick=True)


@pytest.fixture(scope="module")
def duels():
    pytest.importorskip("transformers")
    from generating import race_transformers

    return race_transformers(rounds=1, quick=True)


def test_a_peer_runs_the_same_workloads_with_the_same_tokens(duels):
    assert [duel.promised for duel in duels] == [0.9, 2, 1.6, 1.1]
    assert all(duel.ratio.low > 0 for duel in duels)
    assert duels[0].workload == "4 prompts of 16, 4 new tokens"


def test_a_peer_that_says_another_token_stops_the_race(monkeypatch):
    pytest.importorskip("transformers")
    import generating

    real = generating.Peer.generate

    def other(self, prompts, new, cache=None, **options):
        answer = real(self, prompts, new, cache, **options)
        answer.tokens[-1][-1] = (answer.tokens[-1][-1] + 1) % 64
        return answer

    monkeypatch.setattr(generating.Peer, "generate", other)
    with pytest.raises(InvariantError, match="different tokens"):
        generating.race_transformers(rounds=1, quick=True)
    monkeypatch.setattr(generating.Peer, "is_tie", lambda self, tokens, one, other: True)
    assert generating.race_transformers(rounds=1, quick=True)


def test_two_tokens_tie_when_their_logits_are_equal_but_for_rounding():
    """Two rows of the output projection are equal but for 1e-6, the others are not."""
    pytest.importorskip("transformers")
    from generating import Sides

    sides = Sides(quick=True)
    weight = sides.peer._model.lm_head.weight.data
    weight[5] = weight[9] + 1e-6
    assert sides.peer.is_tie([1, 2, 3], 5, 9)
    assert not sides.peer.is_tie([1, 2, 3], 5, 8)


def test_a_race_is_reported_and_promised(figures, duels):
    whole = dataclasses.replace(
        figures, quick=False, duels=[dataclasses.replace(duels[0], ratio=Spread(0.91, 0.85, 2))]
    )
    assert list(whole.promises())[-1].kept
    assert "x 0.91 (0.85 to 2.00)" in whole.report()
    slow = dataclasses.replace(whole, duels=[dataclasses.replace(duels[0], ratio=Spread(0.89, 0.85, 2))])
    assert not list(slow.promises())[-1].kept
    assert "beside a peer" not in figures.report()


def test_the_command(small, monkeypatch, capsys):
    monkeypatch.setattr(chatting.Llama, "from_folder", lambda *_: small)
    chatting.main(["--quick", "--rounds", "1"])
    out = capsys.readouterr().out
    assert "6 requests of a chat" in out
    assert "prompt tokens computed" in out
    assert "promised" not in out


def test_the_command_saves_its_figures_beside_those_of_another_device(small, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(chatting.Llama, "from_folder", lambda *_: small)
    path, other = tmp_path / "engine.json", {"first_token_ratio": {"median": 1.0}}
    path.write_text(json.dumps({"cuda": other}), "utf-8")
    short = ["--quick", "--rounds", "1", "--save", str(path)]
    chatting.main(short)
    saved = json.loads(path.read_text("utf-8"))
    assert (saved["cpu"]["requests"], saved["cuda"]) == (6, other)
    path.write_text('{"cpu": {"memcpy": 1}}', "utf-8")
    with pytest.raises(SystemExit, match=r"^2$"):
        chatting.main(short)
    assert "holds 'cpu', which is not the figures of a device" in capsys.readouterr().err


def test_on_a_gpu_the_tokens_that_are_saved_are_promised_and_no_time(figures):
    there = dataclasses.replace(figures, quick=False, device="cuda")
    assert [promise.name for promise in there.promises()] == ["prompt tokens that the cache saved, as a share"]


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here, so asking for one is right")
def test_a_gpu_that_is_not_there_is_said(capsys):
    with pytest.raises(SystemExit, match=r"^2$"):
        chatting.main(["--device", "cuda"])
    assert "device is 'cuda': expected cpu, or cuda where torch finds" in capsys.readouterr().err


@pytest.mark.gpu
def test_an_engine_on_a_gpu_says_what_it_says_on_a_cpu():
    prompts = [list(b"User: What is a page?\nAssistant:"), list(b"User: What is a slot?\nAssistant:")]
    answers = []
    for device in ("cpu", "cuda"):
        model = chatting.small_model(device)
        store = KVStore(model.shape, 256, dtype=model.dtype, device=model.device)
        answers.append([found.tokens for found in Engine(model, CacheManager(256, store=store)).generate(prompts, 40)])
    assert answers[0] == answers[1]


@pytest.mark.gpu
def test_the_bench_runs_on_a_gpu():
    found = bench_engine(chatting.small_model("cuda"), rounds=1, quick=True)
    assert (found.device, found.duels) == ("cuda", [])
    assert found.saved > 0.4

"""`assets/chatting.py`: what it counts is right, what it compares is the same, and it says so (no test times it)."""

import dataclasses
import itertools
import json

import pytest

torch = pytest.importorskip("torch")

import chatting  # noqa: E402
from chatting import bench_engine  # noqa: E402
from generating import Duel  # noqa: E402
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


def test_without_the_cache_every_prompt_is_computed_and_with_it_the_instructions_once(figures):
    """All else is a question, an answer and less than a page for each request."""
    assert figures.requests == 6
    assert figures.computed_without == figures.prompt_tokens > 6 * len(INSTRUCTIONS)
    assert len(INSTRUCTIONS) < figures.computed_with < len(INSTRUCTIONS) + 6 * 90


@pytest.mark.parametrize("index", ["trie", "hash", "window"])
def test_every_design_saves_as_much(small, figures, index):
    found = bench_engine(small, rounds=1, quick=True, index=index)
    assert (found.computed_without, found.computed_with) == (figures.computed_without, figures.computed_with)


def test_a_whole_bench_would_save_four_fifths(small, monkeypatch):
    """The counts of the full workload do not depend on the machine: the first promise can be kept here."""
    monkeypatch.setattr(chatting, "FULL", (6, 4, 2))
    found = bench_engine(small, rounds=1)
    promise, _ = found.promises()
    assert (promise.kept, promise.found) == (True, found.saved)
    assert found.requests == 24


def spoiled(real, vocab, from_call=1):
    """`real`, but from a call on the last token of its answer is another one."""
    calls = itertools.count(1)

    def other(*args, **options):
        found = real(*args, **options)
        if next(calls) >= from_call:
            found.tokens[-1][-1] = (found.tokens[-1][-1] + 1) % vocab
        return found

    return other


def test_an_answer_that_differs_stops_it(small, monkeypatch):
    monkeypatch.setattr(chatting, "answer", spoiled(chatting.answer, 257, from_call=4))
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

    monkeypatch.setattr(generating.Peer, "generate", spoiled(generating.Peer.generate, 64))
    with pytest.raises(InvariantError, match="different tokens"):
        generating.race_transformers(rounds=1, quick=True)
    monkeypatch.setattr(generating.Peer, "is_tie", lambda *_: True)
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


@pytest.mark.parametrize(("first_token", "duel", "device", "kept"), [
    (2.9, 0.89, "cpu", [False, False, False]),
    (3.0, 0.91, "cpu", [False, True, True]),
    (2.9, 0.89, "cuda", [False]),  # a model this small leaves a GPU waiting
])  # fmt: skip
def test_a_promise_is_judged_by_its_own_figure_and_reported(figures, first_token, duel, device, kept):
    found = dataclasses.replace(
        figures, quick=False, device=device, computed_without=100, computed_with=25,
        first_token_ratio=Spread(first_token, 1, 9), duels=[Duel("a prompt", "a peer", Spread(duel, 0.85, 2), 0.9)],
    )  # fmt: skip
    assert [promise.kept for promise in found.promises()] == kept
    assert f"x {duel} (0.85 to 2.00)" in found.report()
    assert "✗ prompt tokens that the cache saved, as a share: 0.75 (>= 0.8)" in found.report()


def test_the_command_prints_and_saves_its_figures(small, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(chatting.Llama, "from_folder", lambda *_: small)
    path = tmp_path / "engine.json"
    chatting.main(["--quick", "--rounds", "1", "--save", str(path)])
    assert json.loads(path.read_text("utf-8"))["cpu"]["requests"] == 6
    out = capsys.readouterr().out
    assert "6 requests of a chat" in out
    assert "promised" not in out


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

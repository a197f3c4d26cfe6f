"""Made-up traffic: five shapes, deterministic, by name wherever a trace is read."""

import hashlib

import pytest

from minikv import RadixCache
from minikv.traffic import open_traffic, replay
from minikv.traffic.synthetic import SHAPES, synthetic


def requests_of(path, **options):
    with open_traffic(path, **options) as traffic:
        return list(traffic.requests)


# For the same seed the same requests, on any machine: a checksum of 50 of them.
CHECKSUMS = {
    "chat": "4d229af9f316",
    "few-shot": "c62b2ef983f8",
    "documents": "37550be3d822",
    "agents": "5e3582e181ce",
    "tree-search": "2783c24c3c1e",
}
each_shape = pytest.mark.parametrize("shape", SHAPES)


@each_shape
def test_the_same_seed_makes_the_same_requests_everywhere(shape):
    path = f"synthetic:{shape}?requests=50"
    found = requests_of(path)
    assert requests_of(path) == found != requests_of(f"{path}&seed=2")
    said = "".join(f"{r.input_length} {r.output_length} {r.blocks.tolist()} {r.conversation}\n" for r in found)
    assert hashlib.sha256(said.encode()).hexdigest()[:12] == CHECKSUMS[shape]


@each_shape
@pytest.mark.parametrize("size", [16, 64])
def test_requests_come_in_the_order_of_time_with_whole_blocks(shape, size):
    found = requests_of(f"synthetic:{shape}?requests=80", block_size=size)
    times = [request.timestamp for request in found]
    assert len(times) == 80
    assert times == sorted(times)
    assert all(len(request.blocks) == request.input_length // size for request in found)


@pytest.mark.parametrize(("path", "low", "high"), [
    # Few-shot heads are 87 % of BIG-Bench Hard, agents reuse 96 %: longer runs come near to both.
    ("chat?requests=600", 0.6, 0.75),
    ("few-shot?requests=600", 0.8, 0.9),
    ("documents?requests=600", 0.8, 0.97),
    ("agents?requests=600", 0.9, 0.97),
    ("tree-search?requests=600", 0.75, 0.9),
    ("chat?turns=1&system=1", 0, 0.05),
    ("chat?turns=9", 0.75, 1),
    ("documents?documents=1", 0.95, 1),
])  # fmt: skip
def test_what_can_be_reused_is_what_the_shape_is_known_for_and_its_parameters_say(path, low, high):
    assert low <= replay(requests_of(f"synthetic:{path}"), RadixCache()).hit_rate < high


def test_parameters_change_what_they_say():
    long, short = (requests_of(f"synthetic:agents?requests=9&tools={tools}") for tools in (60_000, 100))
    assert min(r.input_length for r in long) > 30_000 > 10_000 > min(r.input_length for r in short)
    assert {r.conversation for r in requests_of("synthetic:tree-search?requests=66&every=1e6")} == {0}
    slow, fast = (requests_of(f"synthetic:few-shot?requests=99&every={every}")[-1] for every in ("3", "0.001"))
    assert slow.timestamp > 1000 * fast.timestamp


def test_it_says_what_it_was_made_with():
    with open_traffic("synthetic:few-shot?seed=7&requests=2") as traffic:
        assert str(traffic) == (
            "synthetic:few-shot: format synthetic, blocks of 16 tokens (requests=2, seed=7, templates=27, "
            "template=690, question=100, answer=100, every=0.2)"
        )
        assert traffic.total == len(list(traffic.requests)) == 2


UNKNOWN = {
    "": "synthetic traffic '' is unknown: expected chat, few-shot, documents, agents or tree-search",
    "x" * 10**5: "synthetic traffic 'x{20,60}… is unknown",
    "chat?turn=2": "synthetic:chat has no parameter 'turn': it has requests, seed, turns, systems",
    "chat?" + "x" * 10**5: "synthetic:chat has no parameter 'x{20,60}…: it has",
    "chat?author=1": "has no parameter 'author'",
    "chat?requests": "requests is '': expected a whole number from 1 to 10,000,000",
    "chat?requests=0": "requests is '0'",
    "chat?requests=1e3": "requests is '1e3'",
    "chat?requests=10000001": "requests is '10000001'",
    "chat?seed=-1": "seed is '-1': expected a whole number from 0 to 4,294,967,295",
    "chat?seed=" + "9" * 4000: "seed is '9{20,60}…: expected",
    "chat?turns=nan": "turns is 'nan': expected a number from 1 to 1,000,000",
    "chat?turns=0.5": "turns is '0.5'",
    "documents?questions=0": "questions is '0': expected a number from 1",
    "chat?think=inf": "think is 'inf'",
    "agents?cut=-1": "cut is '-1'",
    "agents?tools=9999999": "tools is '9999999': expected a whole number from 1 to 1,048,576",
}


@pytest.mark.parametrize("path", UNKNOWN, ids=range(len(UNKNOWN)))
def test_what_is_no_such_traffic_is_one_bounded_line(path):
    with pytest.raises(ValueError, match=UNKNOWN[path]) as caught:
        synthetic(f"synthetic:{path}")
    assert len(str(caught.value)) < 300

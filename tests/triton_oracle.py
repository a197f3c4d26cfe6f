"""Run by `test_store.py` with TRITON_INTERPRET=1: the kernel on a CPU against indexing, over shapes and item sizes."""

import itertools

import torch

from minikv.store.moves import move_by_index


def main() -> None:
    from minikv.store import triton_copy

    agreed = 0
    items = (torch.uint8, torch.int32, torch.int64, torch.complex128)
    for item, outer, width in itertools.product(items, (1, 3), (5, 1024, 1500)):
        random = torch.Generator().manual_seed(agreed)
        gap = 7  # items between two lines of a plane that are not its own
        room = torch.randint(0, 200, (outer, 9 * width + gap), generator=random).to(item)
        plane = room.as_strided((outer, 9, width), (9 * width + gap, width, 1))
        order = torch.randperm(9, generator=random)
        src, dst = torch.cat([order[:3], order[:1]]), order[3:7]  # one row goes to two places
        expected = room.clone()
        move_by_index(expected.as_strided(plane.shape, plane.stride()), src, dst)
        triton_copy.move_rows(plane, src, dst)
        assert torch.equal(room, expected), (item, outer, width)
        assert not torch.equal(plane[:, dst[:1]], plane[:, dst[1:2]]), "the rows differ, so a wrong one would be seen"
        agreed += 1
    print("agreed", agreed)


if __name__ == "__main__":  # imported, as doctest does, it does nothing: torch may have no driver to run this on
    main()

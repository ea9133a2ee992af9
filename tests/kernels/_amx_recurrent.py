"""Sequences in bf16 on tile instructions, held to what `test_recurrent_bf16` holds the kernels without them to. Run as a process of its own."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.kernels import _amx as amx


def _pretend() -> None:
    """The processor has AMX, as far as kernels know."""
    from uncork.kernels import cpu, recurrent, store

    name, features = cpu.host()
    kept = [feature for feature in features.split(",") if feature[1:] not in ("amx-tile", "amx-bf16")]
    store.host = lambda: (name, ",".join([*kept, "+amx-tile", "+amx-bf16"]))  # type: ignore[attr-defined]
    recurrent.has_tiles = lambda: True  # type: ignore[attr-defined]


def main(folder: str) -> None:
    emulator = amx.enable(Path(folder))
    if emulator is not None:
        _pretend()
    from tests.kernels.test_recurrent_bf16 import CELLS, compare_with_the_walk

    # Sizes around a tile: 16 rows, 32 numbers of an inner product, 16 columns. A batch of 1 makes the products with X in tiles only.
    for cell in CELLS:
        for shape in [(1, 9, 1, 1), (1, 20, 33, 17), (2, 5, 5, 33), (15, 2, 32, 32), (16, 3, 31, 64), (17, 9, 65, 31), (33, 2, 3, 48)]:
            before = emulator.counts()["TDPBF16PS"] if emulator else 0
            plan = compare_with_the_walk(cell, shape)
            assert f"tiles_{'all' if shape[0] > 1 else 'ahead'}" in plan, plan
            assert emulator is None or emulator.counts()["TDPBF16PS"] > before
            print(cell, shape, "well", flush=True)


if __name__ == "__main__":
    main(sys.argv[1])

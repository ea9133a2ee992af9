"""Products of codes of one byte in tile instructions, beside the file's layers, between fences.

Run as a process of its own: `python -m tests.kernels._amx_bytes FOLDER`, where the emulator may be
built.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from tests.kernels import _bf16
from tests.kernels._quantized import POSITIVE, SIGNED, Layer


def _layers() -> Iterator[Layer]:
    """Rows, words of inner products and outputs around tiles: 16 pixels and 32, 64 codes, 16 and 32
    outputs; windows of several runs, with strides, borders and dilations; few channels.
    """
    for rows, (inner, outputs) in itertools.product(
        (2, 15, 16, 17, 31, 32, 33, 65),
        [(64, 32), (60, 16), (68, 17), (128, 48), (132, 33), (28, 100), (200, 4)],
    ):
        if rows * min(inner, 64) > 128:
            yield Layer((outputs, inner), sizes=(1, rows))
    for columns, (channels, outputs) in itertools.product(
        (5, 7, 16, 19, 33, 40), [(16, 16), (24, 40), (64, 20), (68, 32)]
    ):
        yield Layer((outputs, channels, 3, 3), sizes=(2, 5, columns), pad=1)
    yield Layer((20, 32, 3, 3), sizes=(1, 7, 45), stride=2, pad=1)
    yield Layer((20, 32, 3, 3), sizes=(1, 12, 40), pad=2, dilation=2)
    yield Layer((36, 3, 7, 7), sizes=(1, 21, 47), stride=2, pad=3)
    yield Layer((64, 80, 1, 1), sizes=(3, 7, 7))
    yield Layer((64, 16, 3, 3), sizes=(2, 5, 21), pad=1, groups=4)
    yield Layer((96, 32, 1, 1), sizes=(1, 7, 37), groups=2)


def main(folder: str) -> None:
    emulator = _bf16.enable_kernels(Path(folder), tiles=True)
    from tests.kernels.test_quantized_layers import HOST, hold

    assert HOST.tiles
    generator = np.random.default_rng(1)
    others = itertools.cycle(("", "numbers", POSITIVE))
    results = itertools.cycle((None, SIGNED, POSITIVE, SIGNED))
    for layer in _layers():
        layer.data, layer.result = next(results) or POSITIVE, next(results)
        layer.other = next(others) if layer.filters[0] % 4 == 0 else ""
        before = emulator.counts()["TDPBUSD"] if emulator else 0
        chosen = hold(*layer.made(generator), HOST)
        assert "tiles" in chosen.kernel, (layer, chosen.kernel)
        assert emulator is None or emulator.counts()["TDPBUSD"] > before
    print("well")


if __name__ == "__main__":
    main(sys.argv[1])

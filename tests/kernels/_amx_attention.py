"""Attention over tensors of bf16 in tile instructions, beside the same sums in f64, between fences.

Run as a process of its own: `python -m tests.kernels._amx_attention FOLDER`, where the emulator may
be built.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from tests.kernels import _bf16, _fences
from tests.kernels.test_held import (
    BF16,
    attention_of,
    between_fences,
    halves,
    known,
    numbers,
    random,
)
from uncork.internal_ops.held import HeldAttention
from uncork.ops.attention import ScaledDotProductAttention

#: Numbers of a head and of its values, queries, keys.
Case = tuple[int, int, int, int]


def _cases() -> Iterator[Case]:
    """Around tiles: 32 numbers of a head, 16 queries and blocks of 48, 32 keys, panels of 64 and
    blocks of 512.
    """
    for (size, depth), queries, keys in itertools.product(
        [(64, 64), (6, 20)], (5, 15, 16, 17, 31, 48, 50), (1, 2, 16, 33, 65, 128)
    ):
        yield size, depth, queries, keys
    for size, depth in ((34, 3), (32, 16), (80, 100), (128, 72)):
        yield size, depth, 33, 97
    yield 16, 16, 100, 512
    yield 16, 16, 20, 545


def _masks(queries: int, keys: int) -> Iterator[np.ndarray | None]:
    """None, numbers, one for each key, one for each query, and some that hide keys."""
    mask = random(2, 1, queries, keys, seed=9)
    yield None
    yield mask
    yield mask[:, :, :1]
    yield mask[..., :1]
    yield np.where((mask > 0) | (np.arange(keys) == keys // 2), 0, -np.inf).astype(np.float32)


def main(folder: str) -> None:
    emulator = _bf16.enable_kernels(Path(folder), tiles=True)
    _fences._CANARY = 0xFF  # what nobody wrote is NaN
    masks = itertools.cycle(range(6))
    for size, depth, queries, keys in _cases():
        sizes = [(queries, size), (keys, size), (keys, depth)]
        q, k, v = (halves(random(2, 2, n, d, seed=s)) for s, (n, d) in enumerate(sizes))
        kind = next(masks)
        causal = kind == 5
        mask = None if causal else [*_masks(queries, keys)][kind]
        given = [q, k, v, *([] if mask is None else [known(mask)])]
        before = emulator.counts()["TDPBF16PS"] if emulator else 0
        operation = HeldAttention(ScaledDotProductAttention(causal=causal), BF16)
        found = between_fences(operation, given, tiles=True)
        arrays = numbers(q), numbers(k), numbers(v)
        expected = attention_of(*arrays, mask, causal)
        most = attention_of(*arrays[:2], abs(arrays[2]), mask, causal)
        # Weights are rounded, and the sums: each by half of the last of 8 digits.
        assert (abs(found - expected) <= 2**-7 * most).all(), (size, depth, queries, keys, kind)
        assert emulator is None or emulator.counts()["TDPBF16PS"] > before
    print("well")


if __name__ == "__main__":
    main(sys.argv[1])
